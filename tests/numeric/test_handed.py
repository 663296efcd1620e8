"""Kernels hand named tuples to each other by their address, and compute what numba's own way computes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from shared import ROOT

KERNELS = """
from typing import NamedTuple

import numpy as np

from lpmert.numeric.kernels import internal, kernel


class Inner(NamedTuple):
    steps: object
    size: int


class Outer(NamedTuple):
    rows: object
    inner: Inner
    open: bool
    pair: tuple


@internal
def advance(inner, by):
    inner.steps[0] += by
    return inner.size


@internal
def total(outer, rounds):
    result = 0.0
    for k in range(rounds):
        result += outer.rows[k, 1] + outer[2] + outer.pair[1]
        result += advance(outer.inner, result)
    return result


@internal(allocates=True)
def latest(outer):
    return outer.inner.steps


@internal
def made(rows, steps, size):
    inner = Inner(steps, size)
    earlier = inner
    for k in range(2):  # each is another tuple, and the first stays what it is
        inner = Inner(steps, size + 10 * (k + 1))
    return advance(earlier, 0.5) + 1000 * advance(inner, 0.25)


@kernel
def door(outer, rounds):
    return total(outer, rounds), outer.inner.size, made(outer.rows, outer.inner.steps, outer.inner.size)


@kernel
def through(outer, rounds):
    return door(outer, rounds)[0] + total(outer, rounds)


@kernel(allocates=True)
def given_back(outer):
    return latest(outer)


@internal
def itself(inner):
    return inner


@kernel
def refused(inner):
    return itself(inner).size


def outer():
    return Outer(np.arange(6.0).reshape(3, 2), Inner(np.ones(2), 3), True, (1, 2.0))
"""
RUN = """
import sys
from lpmert.numeric import kernels
{setting}
from handed_kernels import door, given_back, outer, refused, through
one = outer()
print(door(one, 2), one.inner.steps.tolist())
print(through(one, 3), one.inner.steps.tolist())
steps = one.inner.steps
before = sys.getrefcount(steps)
for _ in range(100):
    assert given_back(one).tolist() == steps.tolist()
print(sys.getrefcount(steps) - before)
from numba.core import types
print({{type(kind).__name__ for kinds in door.callee.overloads for kind in kinds}})
"""
RETURNED = """
from handed_kernels import outer, refused
refused(outer().inner)
"""


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """What a process prints that compiles into this folder."""
    (folder / "handed_kernels.py").write_text(KERNELS)
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_kernels_compute_the_same_from_addresses(tmp_path: Path) -> None:
    answers = []
    for name, setting in (("ours", ""), ("stock", "kernels._without_entry = lambda options: {}")):
        (tmp_path / name).mkdir()
        stock = setting and f"{setting}\nkernels.Kernel.as_callee = lambda kernel, kinds: kinds"
        stock += setting and "\nfrom lpmert.numeric import unlinked\nunlinked.handed = lambda kind: kind"
        done = run(tmp_path / name, RUN.format(setting=stock))
        assert done.returncode == 0, done.stderr
        *answer, kinds = done.stdout.splitlines()
        assert ("Handed" in kinds) == (not setting)
        answers.append(answer)
    assert answers[0] == answers[1]
    # by hand: 1 + 1 + 2 = 4, a step to 5, + 3 = 7; 7 + 6 = 13, a step to 18, + 3 = 16; 3 + 1000 * 23, steps of 0.75
    assert answers[0][0] == "(16.0, 3, 23003) [18.75, 1.0]"
    assert answers[0][2] == "0"  # references that are left


def test_no_kernel_returns_a_tuple_that_it_was_handed(tmp_path: Path) -> None:
    done = run(tmp_path, RETURNED)
    assert done.returncode != 0
    assert "a kernel returns the tuple that it was handed" in done.stderr
