"""What a kernel writes to an array is there afterwards, however it got at the array."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from shared import ROOT

KERNELS = """
from typing import NamedTuple

import numpy as np

from lpmert.numeric.kernels import by_ledger, internal, kernel


class First(NamedTuple):
    size: int


class Other(NamedTuple):
    size: int


class Kept(NamedTuple):
    ids: object
    costs: object


class Child(NamedTuple):
    kept: Kept
    numbers: object


size = by_ledger(First, lambda ledger: ledger.size, lambda ledger: -ledger.size, inline="always")


@internal
def through_a_tuple(ledger, source, child):
    kept, mine, numbers, ids = source.kept, child.kept, child.numbers, source.kept.ids
    for k in range(size(ledger)):
        mine.ids[k], mine.costs[k] = ids[k], kept.costs[k]
    numbers[0] = size(ledger)


@internal
def after_what_is_put_in(ledger, source, child):
    rounds = size(ledger)
    for _ in range(rounds):
        rounds = size(ledger)
        mine, total, last, first = child.kept, child.numbers, rounds - 1, source.kept.ids
        mine.ids[last] = first[last] + 10
    total[0] = rounds


@internal
def of_a_choice(ledger, source, child):
    for kept in (child.kept, child.kept):
        kept.costs[size(ledger)] = source.kept.costs[0]


@kernel
def door(ledger, source, child, way):
    if way == 0:
        through_a_tuple(ledger, source, child)
    elif way == 1:
        after_what_is_put_in(ledger, source, child)
    else:
        of_a_choice(ledger, source, child)


def child(first):
    return Child(Kept(np.arange(first, first + 4), np.arange(4.0) + first), np.zeros(1))
"""
RUN = """
from store_kernels import First, child, door
for way in range(3):
    source, target = child(5), child(1)
    door(First(3), source, target, way)
    print(target.kept.ids.tolist(), target.kept.costs.tolist(), target.numbers.tolist())
"""


def test_nothing_that_a_kernel_writes_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "store_kernels.py").write_text(KERNELS)
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", RUN]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[5, 6, 7, 4] [5.0, 6.0, 7.0, 4.0] [3.0]",
        "[1, 2, 17, 4] [1.0, 2.0, 3.0, 4.0] [3.0]",
        "[1, 2, 3, 4] [1.0, 2.0, 3.0, 5.0] [0.0]",
    ]
