"""Compiled kernels: kept where something can be written, never taken for those of other sources, never in the way."""

from __future__ import annotations

import ast
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shared import ROOT

from lpmert.numeric.kernel_cache import _read, _write

HELPER = """
from lpmert.numeric.kernels import internal

@internal
def step(x):
    return x + {number}
"""
BETWEEN = """
from lpmert.numeric.kernels import internal

@internal
def least(x):
    return x + 1.0

@internal
def step(x):
    return least(x) + 1.0
"""
SHAPE = """
from typing import NamedTuple
class Pair(NamedTuple):
    {fields}
"""
CALLER = """
from lpmert.numeric.kernels import kernel
from lpmert.helper import step
from lpmert.constants import SIZE

@kernel
def total(x):
    return step(x) + SIZE

@kernel
def first(pair):
    return pair.left
"""
ANNOUNCED = "compiling kernels, once; this does not count as time spent"
RUN = """
import json, sys
import numpy as np
from lpmert.caller import first, total
from lpmert.{shapes} import Pair
value = np.dtype(sys.argv[1]).type(1)
answer = total(value), first(Pair(left=10.0, right=20.0))
hits = sum(sum(one.dispatcher.stats.cache_hits.values()) for one in (total, first))
print(json.dumps([float(answer[0]), answer[1], hits]))
"""


class Installation:
    """A copy of the package with a few kernels of its own, which a test may change."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.package = place / "lpmert"
        self.shapes = "shapes"
        shutil.copytree(ROOT / "lpmert", self.package, ignore=shutil.ignore_patterns("__pycache__"))
        self.write("helper", HELPER.format(number="1.0"))
        self.write("constants", "SIZE = 100.0\n")
        self.write("shapes", SHAPE.format(fields="left: float; right: float"))
        self.write("caller", CALLER)

    def write(self, module: str, text: str) -> None:
        """Write a module, always with the same time: its contents alone tell that it has changed."""
        path = self.package / f"{module}.py"
        path.write_text(text)
        os.utime(path, (1_000_000_000, 1_000_000_000))

    @property
    def home(self) -> dict[str, str]:
        """The variable that tells where the user's files are."""
        return {"LOCALAPPDATA" if os.name == "nt" else "HOME": str(self.place / "home")}

    def start(self, code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        # with -B, as bytecode would be taken from its cache by time and size, which `write` leaves as they were
        return subprocess.Popen(
            [sys.executable, "-B", "-c", code, *arguments],
            cwd=self.place,
            env={"PYTHONPATH": str(self.place), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, kind: str = "float64") -> list[Any]:
        """What the kernels return, and how many of them came from the cache."""
        process = self.start(RUN.format(shapes=self.shapes), kind, **self.home)
        out, err = process.communicate(timeout=300)
        assert err.splitlines() in ([], [ANNOUNCED])
        answer: list[Any] = json.loads(out)
        return answer

    def kept(self) -> list[Path]:
        return sorted((self.place / "home").rglob("kernels-*/lpmert.*.nbc"))


HOLD = """
import sys
from numba.core import types
import lpmert.caller
from lpmert.numeric.claims import claim
from lpmert.numeric.kernel_cache import _make_folder
file = lpmert.caller.total.dispatcher._cache._file((types.float64,))
_make_folder(file.parent)
print(claim(file), flush=True)
sys.stdin.read()
"""
GROUP = {
    "tuples": {"Pair": ["lpmert.shapes", "f8", "f8"]},
    "groups": {"both": [0, 1]},
    "entries": [["lpmert.caller", "total", "f8"], ["lpmert.caller", "first", "Pair"]],
}
WITH_HELPER = """
import time
from lpmert.caller import first, total
from lpmert.shapes import Pair
total(1.0)
until = time.monotonic() + 200
helpers = sys.modules["lpmert.numeric.helpers"]
while helpers._running and helpers._running[0].poll() is None and time.monotonic() < until:
    time.sleep(0.05)
print(len(helpers._running), [one.poll() for one in helpers._running])
"""


class TestSeveral:
    """Processes that compile side by side."""

    @pytest.mark.skipif(os.name != "posix", reason="locks")
    def test_a_killed_process_leaves_its_work_to_who_waits_for_it(self, installation: Installation) -> None:
        holder = installation.start(HOLD, **installation.home)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        waiting = installation.start(RUN.format(shapes="shapes"), "float64", **installation.home)
        assert waiting.stderr is not None
        assert waiting.stderr.readline().strip() == ANNOUNCED
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(2)
        assert not installation.kept()
        holder.kill()
        assert json.loads(waiting.communicate(timeout=300)[0]) == [102.0, 10.0, 0]
        holder.communicate()
        assert installation.run() == [102.0, 10.0, 2]

    @pytest.mark.skipif(os.name != "posix", reason="locks")
    def test_nobody_waits_for_ever(self, installation: Installation) -> None:
        holder = installation.start(HOLD, **installation.home)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        code = "import lpmert.numeric.claims as claims; claims._patience[0] = 1.0\n" + RUN.format(shapes="shapes")
        out, _ = installation.start(code, "float64", **installation.home).communicate(timeout=300)
        assert json.loads(out) == [102.0, 10.0, 0]
        assert holder.poll() is None
        holder.communicate("")

    @pytest.mark.skipif(os.name != "posix", reason="locks")
    def test_helpers_compile_what_is_needed_together(self, installation: Installation) -> None:
        (installation.package / "numeric" / "entries.json").write_text(json.dumps(GROUP))
        settings = installation.home | {"LPMERT_COMPILE_JOBS": "2"}
        code = "import sys\n" + WITH_HELPER + RUN.format(shapes="shapes")
        out, err = installation.start(code, "float64", **settings).communicate(timeout=300)
        assert out.splitlines()[0] == "1 [0]", err
        assert json.loads(out.splitlines()[1]) == [102.0, 10.0, 1]
        assert err.splitlines() == [ANNOUNCED]

    def test_one_process_is_enough(self, installation: Installation) -> None:
        (installation.package / "numeric" / "entries.json").write_text(json.dumps(GROUP))
        settings = installation.home | {"LPMERT_COMPILE_JOBS": "1"}
        code = "import sys\n" + WITH_HELPER + RUN.format(shapes="shapes")
        out, err = installation.start(code, "float64", **settings).communicate(timeout=300)
        assert out.splitlines()[0] == "0 []", err
        assert json.loads(out.splitlines()[1]) == [102.0, 10.0, 0]

    @pytest.mark.skipif(os.name != "posix", reason="locks")
    def test_helpers_end_with_the_process_that_started_them(self, installation: Installation) -> None:
        slow = "import time\n" + CALLER + "time.sleep(600)\n"  # imported by the helper
        installation.write("caller", slow)
        (installation.package / "numeric" / "entries.json").write_text(json.dumps(GROUP))
        command = [sys.executable, "-m", "lpmert.numeric.helpers", "entries", "0"]
        helper = subprocess.Popen(command, cwd=installation.place, stdin=subprocess.PIPE, env=dict(installation.home))
        with pytest.raises(subprocess.TimeoutExpired):
            helper.wait(3)
        helper.communicate(b"", timeout=60)
        assert helper.returncode == 0


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


class TestUpgrade:
    def test_whatever_changes_is_seen_and_nothing_else_is_compiled_again(self, installation: Installation) -> None:
        assert installation.run() == [102.0, 10.0, 0]
        assert installation.run() == [102.0, 10.0, 2]
        before = installation.kept()
        installation.write("helper", HELPER.format(number="2.0"))
        assert installation.run() == [103.0, 10.0, 1]
        after = installation.kept()
        assert len(before) == 4  # `first` for Python and, as it takes a tuple, for other kernels
        assert len({*after} - {*before}) == 2  # `first` has not changed
        assert {*before} <= {*after}  # another version of the package may be in use, which needs them
        installation.write("constants", "SIZE = 200.0\n")
        assert installation.run() == [203.0, 10.0, 1]
        installation.write("shapes", SHAPE.format(fields="right: float; left: float"))
        assert installation.run() == [203.0, 10.0, 1]

    def test_a_class_that_has_moved_is_no_trouble(self, installation: Installation) -> None:
        installation.run()
        installation.write("elsewhere", SHAPE.format(fields="left: float; right: float"))
        (installation.package / "shapes.py").unlink()
        installation.shapes = "elsewhere"
        assert installation.run() == [102.0, 10.0, 1]

    def test_few_states_of_the_sources_are_kept_the_last_used_ones(self, installation: Installation) -> None:
        for number in range(6):
            installation.write("helper", HELPER.format(number=float(number)))
            assert installation.run()[0] == 101.0 + number
            for file in installation.kept():
                os.utime(file, ns=(0, file.stat().st_mtime_ns - 10**11))  # as if it had been used earlier
        assert len(installation.kept()) == 4 * 2 + 2
        installation.write("helper", HELPER.format(number=2.0))
        assert installation.run()[2] == 2  # still there

    def test_what_cannot_be_removed_is_no_trouble(self, installation: Installation) -> None:
        installation.run()
        (kept,) = (path for path in installation.kept() if ".total." in path.name)
        for number in range(6):
            stale = kept.with_name(f"lpmert.caller.total.{number:016x}.{number:016x}.nbc")
            stale.mkdir()
            os.utime(stale, (0, 0))
        installation.write("helper", HELPER.format(number="2.0"))
        assert installation.run()[0] == 103.0

    def test_kernels_for_other_machines_are_removed_when_they_were_not_used_for_long(
        self, installation: Installation
    ) -> None:
        installation.run()
        (folder,) = {file.parent for file in installation.kept()}
        old, recent, foreign = (
            folder.with_name(name) for name in ("kernels-" + 16 * "0", "kernels-" + 16 * "1", "kept")
        )
        folder.rename(old)
        for place in (recent, foreign):
            place.mkdir()
        for place in (old, foreign):
            os.utime(place, (0, 0))
        installation.run()
        assert {path.name for path in folder.parent.iterdir()} == {folder.name, recent.name, foreign.name}

    def test_a_process_from_before_an_upgrade_leaves_nothing_stale(self, installation: Installation) -> None:
        code = "import sys, lpmert.caller\nprint('ready', flush=True)\nsys.stdin.read()\n" + RUN.format(shapes="shapes")
        earlier = installation.start(code, "float64", **installation.home)
        assert earlier.stdout is not None
        assert earlier.stdout.readline() == "ready\n"
        installation.write("helper", HELPER.format(number="2.0"))
        out, err = earlier.communicate(timeout=300)
        assert err.splitlines() == [ANNOUNCED]
        assert json.loads(out)[0] == 102.0
        assert installation.run()[0] == 103.0


class TestFaults:
    def test_what_another_user_left_is_not_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        kept = tmp_path / "kept.nbc"
        kept.write_bytes(b"code")
        assert _read(kept, __file__) == b"code"
        if os.name == "posix":
            numbers = list(kept.stat())
            numbers[stat.ST_UID] = 4_000_000_000
            monkeypatch.setattr("os.fstat", lambda _: os.stat_result(numbers))
            with pytest.raises(PermissionError, match="another user"):
                _read(kept, __file__)

    @pytest.mark.skipif(os.name != "posix", reason="others have no bits here")
    @pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
    def test_what_others_could_have_written_is_not_run(self, tmp_path: Path, mode: int) -> None:
        kept = tmp_path / "kept.nbc"
        before = os.umask(0)  # under which files are open to everybody
        try:
            _write(kept, b"code")
        finally:
            os.umask(before)
        assert _read(kept, __file__) == b"code"
        kept.chmod(mode)
        with pytest.raises(PermissionError, match="others can write"):
            _read(kept, __file__)

    def test_damaged_files_are_compiled_again(self, installation: Installation) -> None:
        installation.run()
        *first, step, total = installation.kept()
        for file in first:
            data = file.read_bytes()
            file.write_bytes(data[:-100] + bytes([data[-100] ^ 1]) + data[-99:])
        step.write_bytes(total.read_bytes())  # for the same types of arguments
        total.write_bytes(total.read_bytes()[:2000])
        assert installation.run() == [102.0, 10.0, 0]
        assert installation.run() == [102.0, 10.0, 2]

    def test_processes_that_compile_at_once_do_not_disturb_each_other(self, installation: Installation) -> None:
        kinds = ["float64", "float32", "int64"]
        code = RUN.format(shapes="shapes")
        for process in [installation.start(code, kind, **installation.home) for kind in kinds]:
            out, err = process.communicate(timeout=300)
            assert err.splitlines() == [ANNOUNCED]
            assert json.loads(out)[:2] == [102.0, 10.0]
        assert installation.run(kinds[0]) == [102.0, 10.0, 2]
        assert len(installation.kept()) == 2 * len(kinds) + 2  # `first` has one signature in all of them
        assert not list(installation.place.rglob("*.tmp"))

    def test_processes_that_need_the_same_share_the_work(self, installation: Installation) -> None:
        code = RUN.format(shapes="shapes")
        answers = []
        for process in [installation.start(code, "float64", **installation.home) for _ in range(3)]:
            answers.append(json.loads(process.communicate(timeout=300)[0]))
        assert [answer[:2] for answer in answers] == [[102.0, 10.0]] * 3
        assert sum(hits for *_, hits in answers) == 2 * 3 - 2  # each of the two was compiled once
        assert installation.run() == [102.0, 10.0, 2]

    def test_kernels_between_others_are_kept_too(self, installation: Installation) -> None:
        installation.write("helper", BETWEEN)
        assert installation.run() == [103.0, 10.0, 0]
        assert {"least", "step"} <= {file.name.split(".")[2] for file in installation.kept()}
        installation.write("constants", "SIZE = 200.0\n")
        code = (
            RUN.format(shapes="shapes") + "print(*[sum(one.callee.stats.cache_hits.values()) for one in (least, step)])"
        )
        code = "from lpmert.helper import least, step\n" + code
        out, _ = installation.start(code, "float64", **installation.home).communicate(timeout=300)
        assert out.splitlines()[1] == "0 1"  # the one within came with the other

    def test_nothing_is_written_beside_the_sources(self, installation: Installation) -> None:
        before = sorted(installation.package.rglob("*"))
        installation.run()
        assert sorted(installation.package.rglob("*")) == before
        assert installation.kept()

    @pytest.mark.parametrize("home", ["a file", "none"])
    def test_where_nothing_can_be_written_kernels_are_compiled_in_memory(
        self, installation: Installation, home: str
    ) -> None:
        code, environment = RUN.format(shapes="shapes"), {}
        if home == "a file":
            environment["HOME"] = str(installation.package / "__init__.py")
        else:
            # as for a user of whom the system knows nothing but the number
            code = "import pwd\ndef unknown(_): raise KeyError\npwd.getpwuid = unknown\n" + code
        out, err = installation.start(code, "float64", **environment).communicate(timeout=300)
        assert json.loads(out) == [102.0, 10.0, 0]
        assert err.count("kernels cannot be cached") == 1
        assert "NUMBA_CACHE_DIR" in err
        assert "Traceback" not in err
        assert not (installation.place / "~").exists()

    def test_a_folder_of_the_users_choice_is_used(self, installation: Installation, tmp_path: Path) -> None:
        chosen = tmp_path / "chosen"
        for hits in (0, 2):
            settings = {**installation.home, "NUMBA_CACHE_DIR": str(chosen)}
            process = installation.start(RUN.format(shapes="shapes"), "float64", **settings)
            out, err = process.communicate(timeout=300)
            assert err.splitlines() == ([] if hits else [ANNOUNCED])
            assert json.loads(out) == [102.0, 10.0, hits]
        assert not installation.kept()
        assert list(chosen.rglob("lpmert.*.nbc"))

    def test_a_folder_that_fails_later_is_no_trouble(self, installation: Installation) -> None:
        code = "import os\ndef full(*_): raise OSError(28, 'No space left on device')\nos.replace = full\n"
        code += RUN.format(shapes="shapes")
        out, err = installation.start(code, "float64", **installation.home).communicate(timeout=300)
        assert json.loads(out) == [102.0, 10.0, 0]
        assert err.count("kernels cannot be cached") == 1
        assert "Traceback" not in err
        assert not list(installation.place.rglob("*.tmp"))

    @pytest.mark.slow
    def test_the_command_line_works_where_nothing_can_be_written(self, installation: Installation) -> None:
        table = installation.place / "table.tsv"
        table.write_text("segment\ta\tb\tc\tloss\n0\t1\t0\t0\t1\n0\t0\t1\t0\t0\n1\t0\t1\t1\t0\n1\t1\t0\t2\t1\n")
        code = "import sys; from lpmert.cli.main import main; sys.argv[0] = 'lpmert'; main()"
        arguments = ["solve", str(table), "--segment", "segment", "--features", "a,b,c", "--loss", "loss", "--json"]
        process = installation.start(code, *arguments, HOME=str(table))
        out, err = process.communicate(timeout=900)
        assert process.returncode == 0
        assert json.loads(out)["loss"] == 0.0
        assert err.count("kernels cannot be cached") == 1
        assert "Traceback" not in err


def test_every_kernel_is_made_by_our_decorators() -> None:
    """One that numba caches itself would be stale after a change of what it calls."""
    makers = {"njit", "jit", "vectorize", "guvectorize", "stencil", "cfunc"}
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (ROOT / "lpmert").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.ImportFrom) and {alias.name for alias in node.names} & makers)
        or (isinstance(node, ast.Attribute) and node.attr in makers)
    ]
    assert [place.partition(":")[0] for place in found] == ["lpmert/numeric/kernels.py"]


def _is_number(node: ast.expr) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Constant) and type(node.value) in (bool, int)


def _kernels_of(tree: ast.Module) -> list[ast.FunctionDef]:
    makers = [getattr(node, "func", node) for node in ast.walk(tree)]  # a maker with options is called
    named = {id(node) for node in makers if isinstance(node, ast.Name) and node.id in {"kernel", "internal"}}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [one for one in functions if any(id(getattr(by, "func", by)) in named for by in one.decorator_list)]


def _assigned(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in ast.walk(function):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from zip(target.elts, node.value.elts, strict=True)
            else:
                yield target, node.value


def _literal_arguments(trees: dict[str, ast.Module]) -> list[str]:
    """Return the calls of a kernel by a kernel with a whole number of the source, or a variable that begins as one."""
    kernels = {name: _kernels_of(tree) for name, tree in trees.items()}
    names = {function.name for functions in kernels.values() for function in functions}
    found = []
    for name, functions in kernels.items():
        for function in functions:
            begins = {to.id for to, value in _assigned(function) if isinstance(to, ast.Name) and _is_number(value)}
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names:
                    given = [one for one in call.args if _is_number(one) or getattr(one, "id", None) in begins]
                    found += [f"{name}:{call.lineno}: {ast.unparse(one)}" for one in given]
    return found


def test_no_kernel_is_given_a_number_of_the_source() -> None:
    """As numba would compile the kernel once more, for this number; `np.int64(0)` is of the common type."""
    source = (
        "@internal\ndef f(x): ...\n@kernel(nogil=True)\ndef g(y):\n    a, b = 0, y\n    f(a)\n    f(b)\n    f(-1)\n"
    )
    assert _literal_arguments({"here": ast.parse(source)}) == ["here:6: a", "here:8: -1"]
    files = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in (ROOT / "lpmert").rglob("*.py")}
    assert sum(len(_kernels_of(tree)) for tree in files.values()) > 150
    assert _literal_arguments(files) == []


LITERALS = """
import json, pickle
import doors
from numba.core import types
from lpmert.numeric.kernel_cache import folder
doors.go_through(["cells", "choices", "och"], ["loss", "bleu"], ["everywhere"])
found = [(file.name.rsplit(".", 3)[0], kind) for file in folder().glob("*.nbc")
         for kind in pickle.loads(file.read_bytes()[32:])[0]]
literal = [name for name, kind in found if isinstance(kind, types.Literal)]
print(json.dumps([sorted({name for name, _ in found}), literal]))
"""


@pytest.mark.slow
def test_no_kernel_is_compiled_for_one_value_of_an_argument(tmp_path: Path) -> None:
    """That happens where a number in the source is an argument, and compiles the kernel once for each.

    In a folder of its own: in the user's may lie what callers of another version asked for.
    """
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", LITERALS], env=environment, capture_output=True, text=True, check=True)
    names, literal = json.loads(done.stdout)
    assert {"plus", "find_events", "separate", "prune"} <= {name.rpartition(".")[2] for name in names}
    assert literal == []
