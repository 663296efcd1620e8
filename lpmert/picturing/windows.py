"""Which part of the weights a picture shows: all that matters, or what is near the weights in its middle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.picturing.rows import Lines

REACH = 1.25
"""Half the width of the widest window, where the length of the weights, in units of score, is 1."""

NEAREST = 1 / 4000
"""Half the width of the narrowest window at least, in units of that of the widest."""

_CELLS = 2.5
"""Half the width of the narrowest window, in widths of the interval in which the loss stays what it is."""


class Window(NamedTuple):
    """How far to go from the weights in the middle, in each of them [D]; 0 for those that do not matter."""

    name: str
    halves: FloatArray


def windows(lines: Lines, weights: FloatArray) -> list[Window]:
    """Return three windows around weights [D], from the widest to the narrowest.

    The widest goes as far in each weight as to outweigh all others; the narrowest shows some dozen cells.
    """
    spread = lines.spread
    length = float(np.linalg.norm(weights * spread)) or 1.0
    with np.errstate(divide="ignore"):
        wide = np.where(spread > 0.0, REACH * length / spread, 0.0)
    near = wide.copy()
    for d in np.flatnonzero(wide):
        low, high = interval(lines, weights, int(d), float(wide[d]))
        near[d] = min(max(_CELLS * (high - low), NEAREST * wide[d]), wide[d] / 4)
    return [Window("wide", wide), Window("medium", np.sqrt(wide * near)), Window("near", near)]


def interval(lines: Lines, weights: FloatArray, feature: int, half: float) -> tuple[float, float]:
    """Return how far one weight can move before the loss changes, at most by half: down, up; 0 is between them."""
    direction = np.zeros(len(weights))
    direction[feature] = half
    row = lines.row(weights, direction, -1.0, 1.0)
    ends = np.concatenate([[-1.0], row.thresholds, [1.0]])
    here = int(np.searchsorted(row.thresholds, 0.0, "right"))
    low = high = here
    while low > 0 and row.losses[low - 1] == row.losses[here]:
        low -= 1
    while high + 1 < len(row.losses) and row.losses[high + 1] == row.losses[here]:
        high += 1
    return min(float(ends[low]), 0.0) * half, max(float(ends[high + 1]), 0.0) * half


def shown_features(lines: Lines, weights: FloatArray, most: int) -> IntArray:
    """Return the features, at most so many, whose weights matter most for scores, in their order."""
    share = np.abs(weights) * lines.spread
    chosen = np.lexsort((-lines.spread, -share))[:most]
    return np.sort(chosen[lines.spread[chosen] > 0.0])
