"""The loss over two weights, cell by cell: it is constant in each, and their borders are straight.

Between two parallel lines on which all lists make the same choices in the same order lie no other choices: the cells of
a list are convex, so the parts that are between them are trapezoids with their corners on the two lines. Where the
lines differ, one between them is looked at, until the resolution is reached; there the strip shows the loss on the line
through its middle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.picturing.rows import Lines, Row

_COLUMNS = 511
"""Pieces that a strip has at most whose cells are too small to be drawn one by one; odd, so that the middle has one."""


@dataclass(frozen=True, eq=False)
class Surface:
    """The loss over two weights around others, in strips of trapezoids from the least second weight to the largest.

    features: the two; weights [D]: the point in the middle; halves: how far the window goes in both directions.
    Coordinates are -1 to 1 in the window. bottoms, tops [n]: where the strips lie; offsets [n + 1]: where their
    trapezoids begin; lower, upper [P]: the right ends of these on the lower and the upper border of their strip; losses
    [P]. exact: the share of the window in which every cell is drawn as it is.
    """

    features: tuple[int, int]
    weights: FloatArray
    halves: tuple[float, float]
    bottoms: FloatArray
    tops: FloatArray
    offsets: IntArray
    lower: FloatArray
    upper: FloatArray
    losses: FloatArray
    exact: float

    def loss_at(self, x: float, y: float) -> float:
        """Return the loss that is drawn at a point, -1 < x, y < 1."""
        strip = min(int(np.searchsorted(self.tops, y, "right")), len(self.tops) - 1)
        share = (y - self.bottoms[strip]) / (self.tops[strip] - self.bottoms[strip])
        part = slice(*self.offsets[strip : strip + 2].tolist())
        ends = self.lower[part] + share * (self.upper[part] - self.lower[part])
        return float(self.losses[part][min(int(np.searchsorted(ends, x, "right")), len(ends) - 1)])

    def weights_at(self, x: float, y: float) -> FloatArray:
        """Return the weights [D] at a point."""
        found = self.weights.copy()
        found[self.features[0]] += x * self.halves[0]
        found[self.features[1]] += y * self.halves[1]
        return found


def surface(lines: Lines, weights: FloatArray, features: tuple[int, int], halves: tuple[float, float]) -> Surface:
    """Return the loss over two weights around others, which go as far as halves."""
    strips = lines.strips
    first, second = features
    direction, step = np.zeros(len(weights)), np.zeros(len(weights))
    direction[first], step[second] = halves

    known: dict[int, Row] = {}

    def row(place: int) -> Row:
        """Return the line at height -1 + place / strips."""
        if place not in known:
            known[place] = lines.row(weights + (place / strips - 1.0) * step, direction, -1.0, 1.0)
        return known[place]

    found: list[tuple[int, int]] = []
    parts: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    exact = 0
    waiting = [(0, 2 * strips)]
    while waiting:  # from below
        bottom, top = waiting.pop()
        one, other = row(bottom), row(top)
        if not one.passes_the_same_cells(other):
            if top - bottom > 2:
                middle_place = (bottom + top) // 4 * 2
                waiting += [(middle_place, top), (bottom, middle_place)]
                continue
            one = other = row((bottom + top) // 2)
        found.append((bottom, top))
        parts.append(_trapezoids(one, other))
        exact += (top - bottom) * (one is not other or not len(one.thresholds))
        for place in [place for place in known if place < top]:
            del known[place]  # there may be many events on each
    lower, upper, losses = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Surface(
        features,
        weights,
        halves,
        np.array([bottom for bottom, _ in found]) / strips - 1.0,
        np.array([top for _, top in found]) / strips - 1.0,
        np.cumsum([0, *(len(part[2]) for part in parts)]),
        lower,
        upper,
        losses,
        exact / (2 * strips),
    )


def _trapezoids(lower: Row, upper: Row) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return right ends on both borders and losses of the trapezoids of a strip, neighbours of one loss joined."""
    if lower is upper and len(lower.losses) > _COLUMNS:
        centres = (2 * np.arange(_COLUMNS) + 1) / _COLUMNS - 1.0
        losses = lower.losses[np.searchsorted(lower.thresholds, centres, "right")]
        ends = (2 * np.arange(_COLUMNS) + 2) / _COLUMNS - 1.0
        last = np.append(losses[1:] != losses[:-1], True)
        return ends[last], ends[last], losses[last]
    last = np.append(lower.losses[1:] != lower.losses[:-1], True)
    return np.append(lower.thresholds, 1.0)[last], np.append(upper.thresholds, 1.0)[last], lower.losses[last]
