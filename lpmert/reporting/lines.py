"""The exact loss along lines of weights: profiles of one weight, surfaces over two, and the windows they show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.limits import checkpoint
from lpmert.lines import Space, envelope, line_search
from lpmert.metrics.base import AdditiveMetric, losses_of_totals
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.presolve import fixed_point
from lpmert.model.problem import Problem
from lpmert.numeric.lists import units, varying_columns

PIECES = 1000  # maximum number of pieces of a drawn profile; more cannot be seen
COLUMNS = 401  # points on each line of a surface; odd, like the number of lines


class Row(NamedTuple):
    """The loss on a segment: thresholds [E], ascending, where it may change, and losses [E + 1] between them."""

    thresholds: FloatArray
    losses: FloatArray


class Lines(NamedTuple):
    """The loss along lines of weights in the caller's coordinates; not thread-safe.

    spread [D]: how far each feature varies within lists. rows: the number of lines of a surface, odd so that one of
    them goes through its centre. row: a function of weights and direction [D] to the loss at weights + t direction,
    -1 < t < 1.
    """

    spread: FloatArray
    rows: int
    row: Callable[[FloatArray, FloatArray], Row]

    def along(self, weights: FloatArray, feature: int, half: float) -> Row:
        """Return the loss while one of the weights [D] moves by less than `half`; thresholds are in units of `half`."""
        direction = np.zeros(len(weights))
        direction[feature] = half
        return self.row(weights, direction)


def lines_of(problem: Problem | LatticeProblem) -> Lines:
    """Return the loss of a problem along lines; its region is ignored."""
    return _of_lists(problem) if isinstance(problem, Problem) else _of_lattices(problem)


def _rows(budget: int, size: int, most: int) -> int:
    """Return the odd number of lines of a surface that take about five seconds, at least 9; size: the work for one."""
    return min(max(budget // max(size, 1), 9), most) // 2 * 2 + 1


def _totals(first: FloatArray, changes: FloatArray) -> FloatArray:
    """Return the running totals [E + 1, ...] of `first` and the changes [E, ...]."""
    return np.cumsum(np.concatenate([first[None], changes]), axis=0)


def _of_lists(problem: Problem) -> Lines:
    features, offsets, statistics = problem.as_given()
    search = line_search(features, offsets, np.zeros(len(features), dtype=np.int64))
    numbers = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    metric, costs = problem.metric, None
    if isinstance(metric, AdditiveMetric):  # in fixed point, sums are exact
        costs = fixed_point(np.asarray(metric.losses(statistics), dtype=np.float64), offsets)
    values: Any = statistics if costs is None else costs.costs

    def row(weights: FloatArray, direction: FloatArray) -> Row:
        checkpoint()
        left, thresholds, leaving, entering = search.events(weights, direction)
        order = np.argsort(thresholds, kind="stable")
        thresholds, leaving, entering = thresholds[order], leaving[order], entering[order]
        begin, end = np.searchsorted(thresholds, -1.0, "right"), np.searchsorted(thresholds, 1.0, "left")
        left[numbers[entering[:begin]]] = entering[:begin]  # of several changes of a list, the last one counts
        totals = _totals(values[left].sum(axis=0), values[entering[begin:end]] - values[leaving[begin:end]])
        losses = losses_of_totals(metric, totals) if costs is None else (costs.constant + totals) * costs.unit
        return Row(thresholds[begin:end], losses)

    varies = np.isin(np.arange(features.shape[1]), varying_columns(features, offsets))
    spread = np.where(varies, units(block[:2] for block in problem.blocks()), 0.0)
    return Lines(spread, _rows(700_000_000, len(features), 255), row)


def _of_lattices(problem: LatticeProblem) -> Lines:
    scales = problem.coordinates.scales

    def row(weights: FloatArray, direction: FloatArray) -> Row:
        first, thresholds, changes = np.zeros(0), [], []
        for number in range(problem.lattices.n_lists):
            checkpoint()
            *_, starts, ways = envelope(problem.graphs[number], weights / scales, direction / scales)
            begin, end = int(np.searchsorted(starts, -1.0, "right")), int(np.searchsorted(starts, 1.0, "left"))
            won = np.array([problem.statistics(number, way) for way in ways[begin - 1 : max(begin, end)]])
            first = first + won[0] if number else won[0]
            thresholds.append(starts[begin:end])
            changes.append(np.diff(won, axis=0))
        found = np.concatenate(thresholds)
        order = np.argsort(found, kind="stable")
        totals = _totals(first, np.concatenate(changes)[order])
        return Row(found[order], totals[:, 0] if problem.additive else losses_of_totals(problem.metric, totals))

    links = sum(len(graph.sources) for graph in problem.graphs)
    return Lines(np.asarray(Space.of(problem).spread / scales), _rows(8_000_000, links, 127), row)


def windows(lines: Lines, weights: FloatArray) -> dict[str, FloatArray]:
    """Return two windows around weights [D] by name, wide and near: half their widths in each weight [D].

    In the widest, each weight can outweigh all others; the narrowest shows about a dozen cells, and at least 1/4000 of
    the widest. The widths are 0 for weights that do not matter.
    """
    spread = lines.spread
    length = float(np.linalg.norm(weights * spread)) or 1.0
    with np.errstate(divide="ignore"):
        wide = np.where(spread > 0.0, 1.25 * length / spread, 0.0)
    near = wide.copy()
    for d in np.flatnonzero(wide):
        low, high = interval(lines, weights, int(d), float(wide[d]))
        near[d] = min(max(2.5 * (high - low), wide[d] / 4000), wide[d] / 4)
    return {"wide": wide, "near": near}


def interval(lines: Lines, weights: FloatArray, feature: int, half: float) -> tuple[float, float]:
    """Return how far one weight can move down (<= 0) and up (>= 0) before the loss changes, by at most `half`."""
    row = lines.along(weights, feature, half)
    ends = np.concatenate([[-1.0], row.thresholds, [1.0]])
    here = int(np.searchsorted(row.thresholds, 0.0, "right"))
    others = np.flatnonzero(row.losses != row.losses[here])
    low, high = others[others < here].max(initial=-1) + 1, others[others > here].min(initial=len(row.losses))
    return min(float(ends[low]), 0.0) * half, max(float(ends[high]), 0.0) * half


def shown_features(lines: Lines, weights: FloatArray, most: int) -> IntArray:
    """Return at most `most` features whose weights contribute most to scores, in ascending order."""
    share = np.abs(weights) * lines.spread
    chosen = np.lexsort((-lines.spread, -share))[:most]
    return np.sort(chosen[lines.spread[chosen] > 0.0])


@dataclass(frozen=True, eq=False)
class Profile:
    """The loss along one weight: losses [n] between ends [n + 1], ascending.

    value: the weight in the middle. best: the interval around it on which the loss is constant; an end is `None` if it
    is beyond the widest window. whole: whether every piece was long enough to be drawn.
    """

    value: float
    ends: FloatArray
    losses: FloatArray
    best: tuple[float | None, float | None]
    whole: bool


def profile(lines: Lines, weights: FloatArray, feature: int, window: FloatArray, widest: FloatArray) -> Profile:
    """Return the loss along one weight in a window around weights [D]; widest: limits the search for `best`."""
    half, value, reach = float(window[feature]), float(weights[feature]), float(widest[feature])
    row = lines.along(weights, feature, half)
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
    return Profile(value, value + half * np.concatenate([[-1.0], ends]), losses, best, whole)


@dataclass(frozen=True, eq=False)
class Surface:
    """The loss over two weights, exact at the centres of equal rectangles that fill a window.

    features: the two; weights [D]: the centre; halves [2]: half the widths of the window; losses [rows, columns]: rows
    by the second weight, columns by the first, both ascending.
    """

    features: tuple[int, int]
    weights: FloatArray
    halves: FloatArray
    losses: FloatArray


def surface(lines: Lines, weights: FloatArray, features: tuple[int, int], window: FloatArray) -> Surface:
    direction, step = (np.where(np.arange(len(weights)) == feature, window, 0.0) for feature in features)
    heights, centres = ((2 * np.arange(count) + 1) / count - 1.0 for count in (lines.rows, COLUMNS))
    rows = (lines.row(weights + height * step, direction) for height in heights)
    losses = np.array([row.losses[np.searchsorted(row.thresholds, centres, "right")] for row in rows])
    return Surface(features, weights, window[list(features)], losses)
