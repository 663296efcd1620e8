"""The loss along lines of weights, exactly: profiles of one weight, surfaces over two, and the windows they show."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.lines.line_search import LatticeLineSearch, lists_with_costs
from lpmert.metrics.base import AdditiveMetric, Metric, losses_of_totals
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.presolve import Costs, fixed_point
from lpmert.model.problem import Problem
from lpmert.numeric.lists import units, varying_columns
from lpmert.system.deadline import checkpoint

REACH = 1.25
"""Half the width of the widest window, where the length of the weights, in units of score, is 1."""

NEAREST = 1 / 4000
"""Half the width of the narrowest window at least, in units of that of the widest."""

_CELLS = 2.5
"""Half the width of the narrowest window, in widths of the interval in which the loss stays what it is."""

PIECES = 1000
"""Pieces of a drawn profile; more cannot be seen."""

COLUMNS = 401
"""Points on each line of a surface, odd as its lines."""

_HYPOTHESES, _LINKS = 700_000_000, 8_000_000
"""Those that the lines of one surface go through at most, which takes some five seconds."""

_FEWEST_ROWS = 9

_KNOWN = 32
"""Lines whose rows are remembered."""


class Row(NamedTuple):
    """What happens on a part of a line.

    left [S]: the hypothesis that each list chooses at its beginning, by numbers that mean the same on all lines;
    thresholds [E], ascending: where a choice changes; keys [E, 2]: from which hypothesis to which; losses [E + 1]:
    those between the thresholds; of_lattice: for each lattice what it chooses [n + 1], and where that changes [n].
    """

    left: IntArray
    thresholds: FloatArray
    keys: IntArray
    losses: FloatArray
    of_lattice: Sequence[tuple[IntArray, FloatArray]] = ()

    def passes_the_same_cells(self, other: Row) -> bool:
        """Whether all lists make the same choices in the same order as on another line."""
        return np.array_equal(self.left, other.left) and np.array_equal(self.keys, other.keys)


class Between(NamedTuple):
    """A line lies between two parallel ones, this share of the way from the first to the second."""

    first: Row
    second: Row
    share: float


class Lines(ABC):
    """Lines of weights, as the caller gives them, through lists or lattices. Not for several threads at a time.

    spread [D]: how far each feature varies within lists; 0 where it does not. rows: how many lines a surface shows, an
    odd number, so that one of them goes through its middle.
    """

    spread: FloatArray
    rows: int

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], Row] = {}

    def row(self, weights: FloatArray, direction: FloatArray, between: Between | None = None) -> Row:
        """Return what happens on weights + t direction [D] for -1 < t < 1.

        Windows, profiles and surfaces share lines through their middle: those are searched once.
        """
        checkpoint()
        key = weights.tobytes(), direction.tobytes()
        found = self._known.get(key) or self._row(weights, direction, between)
        if between is None:
            self._known[key] = found
            if len(self._known) > _KNOWN:
                del self._known[next(iter(self._known))]
        return found

    @abstractmethod
    def _row(self, weights: FloatArray, direction: FloatArray, between: Between | None) -> Row:
        """Return the same, possibly by interpolating between two lines."""


def lines_of(problem: Problem | LatticeProblem) -> Lines:
    """Return the lines through the lists or lattices of a problem, whose region does not matter."""
    return ListLines(problem) if isinstance(problem, Problem) else LatticeLines(problem)


def _rows(budget: int, size: int, most: int) -> int:
    """Return how many lines a surface has, an odd number."""
    return min(max(budget // max(size, 1), _FEWEST_ROWS), most) // 2 * 2 + 1


def _losses(
    metric: Metric, statistics: FloatArray, costs: Costs | None, left: IntArray, leaving: IntArray, entering: IntArray
) -> FloatArray:
    """Return the loss of rows left [S], and after each [E] replacement of a row by another."""
    if costs is not None:
        own = costs.costs
        found = np.cumsum(np.concatenate([[own[left].sum()], own[entering] - own[leaving]]))
        return np.asarray((costs.constant + found) * costs.unit)
    first = statistics[left].sum(axis=0, keepdims=True)
    totals = np.cumsum(np.concatenate([first, statistics[entering] - statistics[leaving]]), axis=0)
    return np.asarray(losses_of_totals(metric, totals))


class ListLines(Lines):
    def __init__(self, problem: Problem) -> None:
        super().__init__()
        features, self._offsets, statistics = problem.as_given()
        self._search = lists_with_costs(features, self._offsets, np.zeros(len(features), dtype=np.int64))
        self.rows = _rows(_HYPOTHESES, len(features), 255)
        self._lists = np.repeat(np.arange(len(self._offsets) - 1), np.diff(self._offsets))
        metric, costs = problem.metric, None
        if isinstance(metric, AdditiveMetric):
            costs = fixed_point(np.asarray(metric.losses(statistics), dtype=np.float64), self._offsets)
        self._losses = partial(_losses, metric, statistics, costs)
        varies = np.isin(np.arange(features.shape[1]), varying_columns(features, self._offsets))
        self.spread = np.where(varies, units(block[:2] for block in problem.blocks()), 0.0)

    def _row(self, weights: FloatArray, direction: FloatArray, between: Between | None) -> Row:  # noqa: ARG002
        left, thresholds, leaving, entering = self._search.events(weights, direction)
        order = np.argsort(thresholds, kind="stable")
        thresholds, leaving, entering = thresholds[order], leaving[order], entering[order]
        begin, end = np.searchsorted(thresholds, -1.0, "right"), np.searchsorted(thresholds, 1.0, "left")
        left[self._lists[entering[:begin]]] = entering[:begin]  # the last one stands
        leaving, entering = leaving[begin:end], entering[begin:end]
        losses = self._losses(left, leaving, entering)
        return Row(left, thresholds[begin:end], np.column_stack([leaving, entering]), losses)


class LatticeLines(Lines):
    def __init__(self, problem: LatticeProblem) -> None:
        super().__init__()
        self._problem = problem
        self._search = LatticeLineSearch(problem)
        self.rows = _rows(_LINKS, sum(len(graph.sources) for graph in problem.graphs), 127)
        self._scales = problem.coordinates.scales
        self.spread = np.asarray(self._search.spread / self._scales)
        self._numbers: dict[tuple[int, bytes], int] = {}
        self._statistics: list[FloatArray] = []

    def _row(self, weights: FloatArray, direction: FloatArray, between: Between | None) -> Row:
        parts = []
        for number in range(self._problem.lattices.n_lists):
            checkpoint()
            parts.append(_between(between, number) or self._part(number, weights, direction))
        left = np.array([chosen[0] for chosen, _ in parts])
        thresholds = np.concatenate([starts for _, starts in parts])
        order = np.argsort(thresholds, kind="stable")
        keys = np.concatenate([np.column_stack([chosen[:-1], chosen[1:]]) for chosen, _ in parts])[order]
        statistics = np.array(self._statistics)
        costs = Costs(statistics[:, 0].astype(np.int64), 0, 1.0, False) if self._problem.additive else None
        losses = _losses(self._problem.metric, statistics, costs, left, keys[:, 0], keys[:, 1])
        return Row(left, thresholds[order], keys, losses, parts)

    def _part(self, number: int, weights: FloatArray, direction: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the paths [n + 1] that win in one lattice, by their numbers, and where the next one does [n]."""
        starts, ways = self._search.winners(number, weights / self._scales, direction / self._scales)
        begin, end = int(np.searchsorted(starts, -1.0, "right")), int(np.searchsorted(starts, 1.0, "left"))
        chosen = [self._number(number, way) for way in ways[begin - 1 : max(begin, end)]]
        return np.array(chosen, dtype=np.int64), starts[begin:end]

    def _number(self, lattice: int, way: IntArray) -> int:
        key = lattice, way.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self._statistics)
            self._statistics.append(self._problem.statistics(lattice, way))
        return self._numbers[key]


def _between(between: Between | None, number: int) -> tuple[IntArray, FloatArray] | None:
    """Return what one lattice does between two parallel lines on which it makes the same choices in the same order.

    There lie no other choices between them, as its cells are convex, and these change along straight borders.
    """
    if between is None:
        return None
    (chosen, here), (same, there) = between.first.of_lattice[number], between.second.of_lattice[number]
    return (chosen, here + between.share * (there - here)) if np.array_equal(chosen, same) else None


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
    row = lines.row(weights, direction)
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
    row = lines.row(weights, direction)
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


@dataclass(frozen=True, eq=False)
class Surface:
    """The loss over two weights around others: exact at the centres of equal rectangles that fill a window.

    features: the two; weights [D]: the point in the middle; halves: how far the window goes in both directions;
    losses [rows, columns], from the least second and first weights up.
    """

    features: tuple[int, int]
    weights: FloatArray
    halves: tuple[float, float]
    losses: FloatArray


def surface(lines: Lines, weights: FloatArray, features: tuple[int, int], halves: tuple[float, float]) -> Surface:
    """Return the loss over two weights around others, which go as far as halves.

    Between two parallel lines on which all lists make the same choices in the same order lie no other choices: the
    cells of a list are convex. Only where lines differ are those between them searched.
    """
    first, second = features
    direction, step = np.zeros(len(weights)), np.zeros(len(weights))
    direction[first], step[second] = halves
    centres = (2 * np.arange(COLUMNS) + 1) / COLUMNS - 1.0
    losses = np.empty((lines.rows, COLUMNS))

    def row(place: int, between: Between | None = None) -> Row:
        return lines.row(weights + ((2 * place + 1) / lines.rows - 1.0) * step, direction, between)

    bottom, middle, top = 0, lines.rows // 2, lines.rows - 1
    waiting = [(bottom, middle, row(bottom), row(middle)), (middle, top, row(middle), row(top))]
    while waiting:
        bottom, top, one, other = waiting.pop()
        between = top - bottom
        if one.passes_the_same_cells(other):
            for place in range(between + 1):
                ends = one.thresholds + place / between * (other.thresholds - one.thresholds)
                losses[bottom + place] = one.losses[np.searchsorted(ends, centres, "right")]
        elif between == 1:
            losses[bottom] = one.losses[np.searchsorted(one.thresholds, centres, "right")]
            losses[top] = other.losses[np.searchsorted(other.thresholds, centres, "right")]
        else:
            middle = (bottom + top) // 2
            found = row(middle, Between(one, other, (middle - bottom) / between))
            waiting += [(bottom, middle, one, found), (middle, top, found, other)]
    return Surface(features, weights, halves, losses)
