"""Lists a few at a time: what is made of a block needs little room, and pages of mapped files are given back."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np

from lpmert.errors import IntArray

BLOCK = 1 << 17
"""Hypotheses of a block, about."""


def blocks_of_lists(offsets: IntArray, rows: int = BLOCK) -> Iterator[tuple[int, int]]:
    """Yield the first list of each block and the first one after it; a block has about so many rows, and a list."""
    first, n_lists = 0, len(offsets) - 1
    while first < n_lists:
        end = int(np.searchsorted(offsets, offsets[first] + rows, side="right")) - 1
        end = min(max(end, first + 1), n_lists)
        yield first, end
        first = end


def released(array: Any) -> None:
    """Let the pages of an array go if it is mapped from a file; they are read again when they are needed."""
    base = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    if base is not None and hasattr(base, "madvise"):
        base.madvise(mmap.MADV_DONTNEED)
