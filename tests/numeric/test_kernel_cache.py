"""Compiled kernels: kept where something can be written, never taken for those of other sources, never in the way."""

from __future__ import annotations

import ast
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from shared import ROOT

from lpmert.numeric.kernel_cache import _read

HELPER = """
from lpmert.numeric.kernels import internal

@internal
def step(x):
    return x + {number}
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
RUN = """
import json, sys
import numpy as np
from lpmert.caller import first, total
from lpmert.{shapes} import Pair
value = np.dtype(sys.argv[1]).type(1)
answer = total(value), first(Pair(left=10.0, right=20.0))
hits = sum(sum(one.stats.cache_hits.values()) for one in (total, first))
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

    def start(self, code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        # bytecode would be taken from its cache by time and size, which `write` leaves as they were
        return subprocess.Popen(
            [sys.executable, "-B", "-c", code, *arguments],
            cwd=self.place,
            env={"PYTHONPATH": str(self.place), "PYTHONPYCACHEPREFIX": str(self.place / "none"), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, kind: str = "float64") -> list[Any]:
        """What the kernels return, and how many of them came from the cache."""
        process = self.start(RUN.format(shapes=self.shapes), kind)
        out, err = process.communicate(timeout=300)
        assert not err
        answer: list[Any] = json.loads(out)
        return answer

    def kept(self) -> list[Path]:
        return sorted(self.package.rglob("lpmert.*.nbc"))

    def block(self) -> None:
        """Let no cache be written beside the sources: a file is where the folder would be, which stops root as well."""
        for folder in [self.package, *(path for path in self.package.rglob("*") if path.is_dir())]:
            if folder.name != "__pycache__":
                (folder / "__pycache__").write_text("")


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
        assert len(after) == len(before) == 3  # those of the earlier sources are removed
        assert len({*before, *after}) == 5  # `first` has not changed
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

    def test_kernels_that_work_with_either_ledger_see_changes_in_both(self, installation: Installation) -> None:
        code = """
from lpmert.methods.cells.kernels import explore
from lpmert.numeric.kernel_cache import state_of
print(state_of(explore.py_func))
"""
        states = [installation.start(code).communicate(timeout=300)[0]]
        for module in ("cells/ledger_of_sums", "cells/ledger_of_ratios", "cells/ratio_leaf", "choices/ledger_of_sums"):
            text = (installation.package / "methods" / f"{module}.py").read_text()
            installation.write(f"methods/{module}", text + "# changed")
            states.append(installation.start(code).communicate(timeout=300)[0])
        assert all(states)
        assert len(set(states)) == len(states)

    def test_what_cannot_be_removed_is_no_trouble(self, installation: Installation) -> None:
        installation.run()
        (stale,) = (path for path in installation.kept() if ".total." in path.name)
        stale.unlink()
        stale.mkdir()
        installation.write("helper", HELPER.format(number="2.0"))
        assert installation.run()[0] == 103.0

    def test_a_process_from_before_an_upgrade_leaves_nothing_stale(self, installation: Installation) -> None:
        code = "import sys, lpmert.caller\nprint('ready', flush=True)\nsys.stdin.read()\n" + RUN.format(shapes="shapes")
        earlier = installation.start(code, "float64")
        assert earlier.stdout is not None
        assert earlier.stdout.readline() == "ready\n"
        installation.write("helper", HELPER.format(number="2.0"))
        out, err = earlier.communicate(timeout=300)
        assert not err
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

    def test_damaged_files_are_compiled_again(self, installation: Installation) -> None:
        installation.run()
        first, step, total = installation.kept()
        data = first.read_bytes()
        first.write_bytes(data[:-100] + bytes([data[-100] ^ 1]) + data[-99:])
        step.write_bytes(total.read_bytes())  # for the same types of arguments
        total.write_bytes(total.read_bytes()[:2000])
        assert installation.run() == [102.0, 10.0, 0]
        assert installation.run() == [102.0, 10.0, 2]

    def test_processes_that_compile_at_once_do_not_disturb_each_other(self, installation: Installation) -> None:
        kinds = ["float64", "float32", "int64"]
        code = RUN.format(shapes="shapes")
        for process in [installation.start(code, kind) for kind in kinds]:
            out, err = process.communicate(timeout=300)
            assert not err
            assert json.loads(out)[:2] == [102.0, 10.0]
        assert installation.run(kinds[0]) == [102.0, 10.0, 2]
        assert len(installation.kept()) == 2 * len(kinds) + 1  # `first` has one signature in all of them
        assert not list(installation.package.rglob("*.tmp"))

    @pytest.mark.parametrize("home", ["a file", "none"])
    def test_where_nothing_can_be_written_kernels_are_compiled_in_memory(
        self, installation: Installation, home: str
    ) -> None:
        installation.block()
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
        installation.block()
        chosen = tmp_path / "chosen"
        for hits in (0, 2):
            process = installation.start(RUN.format(shapes="shapes"), "float64", NUMBA_CACHE_DIR=str(chosen))
            out, err = process.communicate(timeout=300)
            assert not err
            assert json.loads(out) == [102.0, 10.0, hits]

    def test_a_folder_that_fails_later_is_no_trouble(self, installation: Installation) -> None:
        code = "import os\ndef full(*_): raise OSError(28, 'No space left on device')\nos.replace = full\n"
        out, err = installation.start(code + RUN.format(shapes="shapes"), "float64").communicate(timeout=300)
        assert json.loads(out) == [102.0, 10.0, 0]
        assert err.count("kernels cannot be cached") == 1
        assert "Traceback" not in err
        assert not list(installation.package.rglob("*.tmp"))

    @pytest.mark.slow
    def test_the_command_line_works_where_nothing_can_be_written(self, installation: Installation) -> None:
        installation.block()
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
