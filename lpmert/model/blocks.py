"""Lists a few at a time, what is made of a block needs little room, and rows of blocks put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from lpmert.errors import IntArray
from lpmert.system.mapped import released

if TYPE_CHECKING:
    from lpmert.numeric.half_spaces import Array

_BLOCK = 1 << 17
"""Hypotheses of a block, about."""


def blocks_of_lists(offsets: IntArray) -> Iterator[tuple[int, int]]:
    """Yield the first list of each block and the first one after it; a block has about `_BLOCK` rows, and a list."""
    first, n_lists = 0, len(offsets) - 1
    while first < n_lists:
        end = int(np.searchsorted(offsets, offsets[first] + _BLOCK, side="right")) - 1
        end = min(max(end, first + 1), n_lists)
        yield first, end
        first = end


def of_lists(figure: Callable[[Array, IntArray], Array], values: Array, offsets: IntArray) -> Array:
    """Return what a figure makes of the values [m] of some lists and their offsets, for all lists [S] of values [M]."""
    parts = []
    for first, end in blocks_of_lists(offsets):
        own = offsets[first : end + 1]
        parts.append(np.asarray(figure(values[own[0] : own[-1]], own - own[0])))
        released(values)
    return joined(parts)


def least_and_most(values: Array, offsets: IntArray) -> tuple[Array, Array]:
    """Return the least and the greatest of the values [M] of each list [S]."""
    ends = of_lists(
        lambda some, own: np.stack([reach.reduceat(some, own[:-1]) for reach in (np.minimum, np.maximum)], axis=1),
        values,
        offsets,
    )
    return ends[:, 0], ends[:, 1]


def joined(parts: list[Array]) -> Array:
    """Return rows of parts one after the other; the parts are forgotten one by one."""
    sizes = [len(part) for part in parts]
    rows: Array = np.empty((sum(sizes), *parts[0].shape[1:]), dtype=parts[0].dtype)
    end = len(rows)
    while parts:
        part = parts.pop()
        rows[end - len(part) : end] = part
        end -= len(part)
    return rows
