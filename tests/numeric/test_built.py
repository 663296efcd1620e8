"""Kernels built ahead get only what they were built for, give the same bits, and are for one state of the sources."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import commands
import doors
import numpy as np
import pytest
from shared import ROOT

from lpmert.numeric import built
from lpmert.numeric.ahead import entries


class Pair(NamedTuple):
    left: Any
    right: Any


class Other(NamedTuple):
    left: Any
    right: Any


TUPLES = {"Pair": [__name__, "f8:2C", "i8"], "Pair/2": [__name__, "f8:1A", "b1"]}
ROWS = np.zeros((4, 2))


def fits(kind: str, value: object) -> bool:
    return built._fit([value], built._kinds([kind], TUPLES))


def _read_only() -> np.ndarray[Any, Any]:
    rows = ROWS.copy()
    rows.flags.writeable = False
    return rows


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("i8", 1),
        ("i8", np.int64(1)),
        ("f8", 1.0),
        ("f8", np.float64(1)),
        ("b1", True),
        ("f8:2C", ROWS),
        ("f8:2C", np.zeros((0, 2))),
        ("f8:1C", ROWS[1]),
        ("f8:2F", ROWS.T),
        ("f8:1A", ROWS[:, 0]),
        ("i4:1C", np.zeros(3, dtype=np.int32)),
        ("f8:2Cr", ROWS),
        ("f8:2Cr", _read_only()),
        ("f8:2Fr", _read_only().T),
        ("f8:1Ar", _read_only()[:, 0]),
        ("Pair", Pair(ROWS, 1)),
        ("Pair/2", Pair(ROWS[:, 1], False)),
        ("Pair*2", (Pair(ROWS, 1), Pair(ROWS, 2))),
    ],
)
def test_what_an_entry_was_built_for_is_let_in(kind: str, value: object) -> None:
    assert fits(kind, value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("i8", True),
        ("i8", 1.0),
        ("i8", np.int32(1)),
        ("i8", None),
        ("f8", 1),
        ("f8", np.float32(1)),
        ("b1", 1),
        ("f8:2C", ROWS.astype(np.float32)),
        ("f8:2C", ROWS.astype(">f8")),
        ("f8:2C", ROWS[0]),
        ("f8:2C", ROWS.T),
        ("f8:2C", ROWS[::2]),
        ("f8:2C", ROWS.tolist()),
        ("f8:2C", _read_only()),
        ("f8:2C", np.frombuffer(bytearray(65), dtype=np.float64, offset=1).reshape(4, 2)),
        ("f8:2C", np.ma.zeros((4, 2))),
        ("f8:2F", ROWS),
        ("f8:2Cr", _read_only().T),
        ("f8:2Fr", _read_only()),
        ("f8:2Cr", np.frombuffer(bytes(65), dtype=np.float64, offset=1).reshape(4, 2)),
        ("f8:2Ar", np.frombuffer(bytes(65), dtype=np.float64, offset=1).reshape(4, 2)),
        ("i8:1C", np.zeros(3, dtype=np.uint64)),
        ("i8:1C", np.zeros(3, dtype="m8[s]")),
        ("Pair*2", (Pair(ROWS, 1),)),
        ("Pair*2", [Pair(ROWS, 1), Pair(ROWS, 2)]),
        ("Pair*2", (Pair(ROWS, 1), Other(ROWS, 2))),
        ("Pair", Other(ROWS, 1)),
        ("Pair", (ROWS, 1)),
        ("Pair", Pair(ROWS, 1.0)),
        ("Pair", Pair(ROWS.astype(np.float32), 1)),
        ("Pair", Pair(ROWS[:, 0], False)),
    ],
)
def test_nothing_else_is_let_in(kind: str, value: object) -> None:
    assert not fits(kind, value)


DOORS = """
import doors
from lpmert.numeric import built
doors.go_through(["cells", "choices", "sweep", "och", "random"], ["loss", "bleu"], ["everywhere"])
doors.word_graphs()
held = {(module, name) for module, name, *_ in built.read_entries()["entries"]}
print(*sorted({name for module, name, _ in doors.compiled() if (module, name) not in held}))
"""


def test_the_entries_are_what_the_doors_need() -> None:
    """If not: PYTHONPATH=tests python tests/doors.py. In a process of its own: tests call kernels that no door does."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    done = subprocess.run([sys.executable, "-c", DOORS], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
    for module, name, *arguments in built.read_entries()["entries"]:
        function = getattr(sys.modules.get(module) or __import__(module, fromlist=[name]), name).py_func
        assert function.__code__.co_argcount == len(arguments)


@pytest.mark.slow
@pytest.mark.parametrize("group", ["sums", "ratios", "lattices"])
def test_what_is_compiled_side_by_side_is_what_is_needed_together(group: str) -> None:
    """If not: PYTHONPATH=tests python tests/doors.py."""
    table = built.read_entries()
    assert [table["entries"][number] for number in table["groups"][group]] == doors.of_group(group)


def test_the_table_is_written_as_it_is_read() -> None:
    import numba
    from numba import types

    rows = types.Array(numba.float64, 2, "C")
    pair = types.NamedTuple([rows, numba.int64], Pair)
    other = types.NamedTuple([types.Array(numba.float64, 1, "A"), numba.boolean], Pair)
    read_only = types.Array(numba.float64, 2, "C", readonly=True)
    unaligned = types.Array(numba.float64, 2, "C", aligned=False)
    table = entries(
        [
            ("a", "f", (other,)),
            ("a", "f", (pair,)),
            ("a", "f", (read_only,)),
            ("a", "f", (unaligned,)),
            ("a", "g", (numba.float64, types.UniTuple(pair, 2))),
        ]
    )
    assert table == {
        "tuples": {"Pair": [__name__, "f8:1A", "b1"], "Pair/2": [__name__, "f8:2C", "i8"]},
        "entries": [["a", "f", "Pair"], ["a", "f", "Pair/2"], ["a", "f", "f8:2Cr"], ["a", "g", "f8", "Pair/2*2"]],
    }


class Wheel:
    """A copy of the package with its extension module."""

    def __init__(self, place: Path) -> None:
        self.place = place
        shutil.copytree(ROOT / "lpmert", place / "lpmert", ignore=shutil.ignore_patterns("__pycache__", "_kernels*"))

    def run(self, code: str, *, numba: bool = False, **environment: str) -> str:
        """Run code in the copy, where importing numba fails unless it is allowed; return what it prints."""
        start = "" if numba else "import sys; sys.modules['numba'] = None\n"
        process = subprocess.run(
            [sys.executable, "-c", start + code],
            cwd=self.place,
            env={**os.environ, "PYTHONPATH": str(self.place), **environment},
            capture_output=True,
            text=True,
            timeout=1500,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        return process.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    made = Wheel(tmp_path_factory.mktemp("wheel"))
    code = "from pathlib import Path; from lpmert.numeric.ahead import build; build(Path('lpmert'))"
    made.run(code, numba=True, NUMBA_CPU_NAME="generic")
    return made


class TestCompile:
    """`lpmert compile`, of one kernel, for lists that can be written and lists that cannot."""

    @pytest.fixture
    def copy(self, tmp_path: Path) -> Wheel:
        made = Wheel(tmp_path)
        entry = '["lpmert.numeric.kernels", "decode", "f8:2C", "i8:1C", "f8:1C", "i8:1C"]'
        both = f"{entry}, {entry.replace('f8:2C', 'f8:2Cr')}"
        (tmp_path / "lpmert" / "numeric" / "entries.json").write_text(f'{{"tuples": {{}}, "entries": [{both}]}}')
        return made

    def compile(self, copy: Wheel, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "lpmert", "compile"],
            cwd=copy.place,
            env={
                **os.environ,
                "PYTHONPATH": str(copy.place),
                "NUMBA_CACHE_DIR": str(copy.place / "cache"),
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def decoded(self, copy: Wheel) -> str:
        code = """
import numpy as np
from lpmert.numeric.kernels import decode
for writable in (True, False):
    features, chosen = np.eye(2), np.zeros(1, dtype=np.int64)
    features.flags.writeable = writable
    decode(features, np.array([0, 2]), np.array([0.0, 1.0]), chosen)
    print(chosen[0], decode._dispatcher is None)
"""
        return copy.run(code, NUMBA_CACHE_DIR=str(copy.place / "cache"))

    def test_its_module_is_used_as_long_as_no_source_changes(self, copy: Wheel) -> None:
        done = self.compile(copy)
        assert done.returncode == 0, done.stderr
        module = Path(done.stdout.strip())
        assert module.is_relative_to(copy.place / "cache")
        assert "compiling kernels: 0 of 2" in done.stderr
        assert self.decoded(copy) == "1 True\n1 True\n"
        again = self.compile(copy)
        assert (again.returncode, again.stdout) == (0, f"compiled already: {module}\n")
        version = copy.place / "lpmert" / "version.py"
        version.write_text(version.read_text() + "# changed\n")
        with pytest.raises(AssertionError, match="numba"):
            self.decoded(copy)

    @pytest.mark.skipif(os.name != "posix", reason="owners")
    def test_a_module_that_others_could_have_left_is_not_run(self, copy: Wheel) -> None:
        module = Path(self.compile(copy).stdout.strip())
        module.parent.chmod(0o777)
        with pytest.raises(AssertionError, match="numba"):
            self.decoded(copy)

    def test_without_a_compiler_or_a_place_the_remedy_is_named(self, copy: Wheel) -> None:
        done = self.compile(copy, CC="no-such-compiler")
        assert done.returncode == 1
        assert "compiling needs a C compiler, and none works here; install one" in done.stderr
        assert not list(copy.place.glob("cache/built-*/*.so"))
        (copy.place / "file").write_text("")
        done = self.compile(copy, NUMBA_CACHE_DIR=str(copy.place / "file"))
        assert done.returncode == 1
        assert "cannot be written" in done.stderr


SOLVE = """
import json
import lpmert
lists = lpmert.read_table({table!r}, segment="utterance", features="am,lm,words", loss="errors")
found = {{m: lpmert.minimize(lists, method=m) for m in ("auto", "cells", "choices", "och")}}
outcomes = {{
    m: [[w.hex() for w in r.weights.tolist()], r.loss, r.lower_bound, dict(r.counters)] for m, r in found.items()
}}
print(json.dumps(outcomes))
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
class TestWheel:
    def test_both_ways_give_the_same_bits(self, wheel: Wheel) -> None:
        code = SOLVE.format(table=str(ROOT / "examples/asr/nbest.tsv.gz"))
        ahead = json.loads(wheel.run(code))
        without = "import lpmert.numeric.built as built; built._extension = lambda: None\n"
        compiled = json.loads(wheel.run(without + code, numba=True))
        assert ahead == compiled
        assert ahead["auto"][1] == 912

    def test_a_solve_loads_neither_scipy_nor_what_it_does_not_use(self, wheel: Wheel) -> None:
        code = """
import sys
from lpmert.cli.main import main
main("solve {table} --segment utterance --features am,lm,words --loss errors -q".split(), standalone_mode=False)
print(*sorted({{name.split(".")[0] for name in sys.modules}} & {{"scipy", "pulp", "networkx", "joblib", "llvmlite"}}))
print(*sorted(name for name in sys.modules if name.startswith(("lpmert.methods.lattice", "lpmert.certificates.write"))))
"""
        assert wheel.run(code.format(table=ROOT / "examples/asr/nbest.tsv.gz")).endswith("\n\n\n")

    def test_arguments_of_other_types_are_compiled_for(self, wheel: Wheel) -> None:
        code = """
import numpy as np
from lpmert.numeric.kernels import decode
for dtype in (np.float64, np.float32):
    chosen = np.zeros(1, dtype=np.int64)
    decode(np.array([[1, 0], [0, 1]], dtype=dtype), np.array([0, 2]), np.array([0.0, 1.0]), chosen)
    print(chosen[0], {dispatched})
"""
        assert wheel.run(code.format(dispatched="decode._dispatcher is None"), numba=True).split() == [
            "1", "True", "1", "False",
        ]  # fmt: skip

    def test_sources_that_have_changed_are_compiled(self, wheel: Wheel) -> None:
        code = "from lpmert.numeric.built import _extension; print(_extension() is not None)"
        assert wheel.run(code) == "True\n"
        changed = wheel.place / "lpmert" / "version.py"
        before = changed.read_text()
        changed.write_text(before + "# changed\n")
        assert wheel.run(code) == "False\n"
        changed.write_text(before)
        assert wheel.run(code) == "True\n"

    def test_another_thread_runs_while_a_kernel_does(self, wheel: Wheel) -> None:
        """Counted, not timed: Python takes the lock away from nobody, so that only who gives it up is passed by."""
        code = """
import sys, threading, time
import numpy as np
from lpmert.numeric.kernels import decode
features, offsets, chosen = np.ones((200_000, 50)), np.array([0, 200_000]), np.zeros(1, dtype=np.int64)
decode(features, offsets, np.ones(50), chosen)
counted, seen, done = [0], [], threading.Event()
def count():
    while not done.is_set():
        counted[0] += 1
        time.sleep(0)
other = threading.Thread(target=count)
other.start()
sys.setswitchinterval(1000)
for _ in range(20):
    before = counted[0]
    decode(features, offsets, np.ones(50), chosen)
    seen.append(counted[0] - before)
done.set()
other.join()
print(*seen)
"""
        assert sum(int(one) > 0 for one in wheel.run(code).split()) > 10


def test_kernels_can_be_built_without_what_only_searches_need() -> None:
    """numba, numpy and scipy will do."""
    code = """
import sys
for name in ("highspy", "networkx", "pulp", "sacrebleu", "rapidfuzz", "click", "rich", "joblib"):
    sys.modules[name] = None
from importlib import import_module
from lpmert.numeric.built import read_entries
table = read_entries()
names = {fields[0] for fields in table["tuples"].values()} | {module for module, *_ in table["entries"]}
for name in sorted(names):
    import_module(name)
print(len(names))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=commands.environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20
