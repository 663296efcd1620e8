"""The loss along one weight, all others fixed: constant between thresholds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lpmert.errors import FloatArray
from lpmert.picturing.rows import Lines
from lpmert.picturing.windows import Window, interval

PIECES = 2000
"""Pieces of a profile that is drawn; more cannot be told apart."""


@dataclass(frozen=True, eq=False)
class Profile:
    """The loss along one weight, from low to high, constant between ends.

    feature: whose weight it is; value: what it is in the middle; ends [n + 1]; losses [n]; best: the interval around
    the value in which the loss stays what it is, `None` at an end beyond the widest window. whole: whether no piece
    was too short to be drawn.
    """

    feature: int
    value: float
    ends: FloatArray
    losses: FloatArray
    best: tuple[float | None, float | None]
    whole: bool


def profile(lines: Lines, weights: FloatArray, feature: int, window: Window, widest: Window) -> Profile:
    """Return the loss along a weight in a window around weights [D]."""
    half, value, reach = float(window.halves[feature]), float(weights[feature]), float(widest.halves[feature])
    direction = np.zeros(len(weights))
    direction[feature] = half
    row = lines.row(weights, direction, -1.0, 1.0)
    last = np.append(row.losses[1:] != row.losses[:-1], True)
    ends, losses = np.append(row.thresholds, 1.0)[last], row.losses[last]
    whole = len(losses) <= PIECES
    if not whole:
        centres = (2 * np.arange(PIECES) + 1) / PIECES - 1.0
        losses = losses[np.minimum(np.searchsorted(ends, centres, "right"), len(losses) - 1)]
        last = np.append(losses[1:] != losses[:-1], True)
        ends, losses = ((2 * np.arange(PIECES) + 2) / PIECES - 1.0)[last], losses[last]
    low, high = interval(lines, weights, feature, reach)
    best = (value + low if low > -reach else None, value + high if high < reach else None)
    return Profile(feature, value, value + half * np.concatenate([[-1.0], ends]), losses, best, whole)
