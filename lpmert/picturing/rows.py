"""Where the loss changes along a line of weights, and which choices change there: what all pictures are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.lines.lattice_search import LatticeLineSearch
from lpmert.lines.line_search import lists_with_costs
from lpmert.metrics.base import AdditiveMetric, Metric, losses_of_totals
from lpmert.model.canonical import Costs, fixed_point, varying_columns
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.model.spread import units
from lpmert.quoting import listed, quoted
from lpmert.system.deadline import checkpoint


class Row(NamedTuple):
    """What happens on a part of a line.

    left [S]: the hypothesis that each list chooses at its beginning, by numbers that mean the same on all lines;
    thresholds [E], ascending: where a choice changes; keys [E, 2]: from which hypothesis to which; losses [E + 1]:
    those between the thresholds.
    """

    left: IntArray
    thresholds: FloatArray
    keys: IntArray
    losses: FloatArray

    def passes_the_same_cells(self, other: Row) -> bool:
        """Whether all lists make the same choices in the same order as on another line."""
        return np.array_equal(self.left, other.left) and np.array_equal(self.keys, other.keys)


class Lines(Protocol):
    """Lines of weights, as the caller gives them, through lists or lattices."""

    @property
    def spread(self) -> FloatArray:
        """How far each feature [D] varies within lists; 0 where it does not."""

    @property
    def strips(self) -> int:
        """How finely to draw a surface: the number of strips of equal height, odd, so that the middle lies in one."""

    def row(self, weights: FloatArray, direction: FloatArray, low: float, high: float) -> Row:
        """Return what happens on weights + t direction [D] for low < t < high."""


def lines_of(problem: Problem | LatticeProblem) -> Lines:
    """Return the lines through the lists or lattices of a problem, whose region does not matter."""
    return ListLines(problem) if isinstance(problem, Problem) else LatticeLines(problem)


def place_of(name: str, names: Sequence[str], lines: Lines) -> int:
    """Return which feature has this name; raises `DataError` where none does, or where its weight does not matter."""
    if name not in names:
        raise DataError(f"no feature {quoted(name)}; the features are {listed(names)}")
    place = names.index(name)
    if not lines.spread[place] > 0.0:
        raise DataError(f"feature {quoted(name)} does not vary within the lists: its weight does not matter")
    return place


class _Sums:
    """The losses of choices, of which one after another is replaced."""

    def __init__(self, metric: Metric, statistics: FloatArray, costs: Costs | None) -> None:
        self._metric, self._statistics, self._costs = metric, statistics, costs

    def losses(self, left: IntArray, leaving: IntArray, entering: IntArray) -> FloatArray:
        """Return the loss of rows left [S], and after each [E] replacement of a row by another."""
        if self._costs is not None:
            costs = self._costs.costs
            found = np.cumsum(np.concatenate([[costs[left].sum()], costs[entering] - costs[leaving]]))
            return np.asarray((self._costs.constant + found) * self._costs.unit)
        first = self._statistics[left].sum(axis=0, keepdims=True)
        totals = np.cumsum(np.concatenate([first, self._statistics[entering] - self._statistics[leaving]]), axis=0)
        return np.asarray(losses_of_totals(self._metric, totals))


class ListLines:
    """Lines through N-best lists: see `Lines`. Not for use by several threads at a time."""

    strips = 255

    def __init__(self, problem: Problem) -> None:
        features, self._offsets, statistics = problem.as_given()
        self._search = lists_with_costs(features, self._offsets, np.zeros(len(features), dtype=np.int64))
        self._lists = np.repeat(np.arange(len(self._offsets) - 1), np.diff(self._offsets))
        metric, costs = problem.metric, None
        if isinstance(metric, AdditiveMetric):
            costs = fixed_point(np.asarray(metric.losses(statistics), dtype=np.float64), self._offsets)
        self._sums = _Sums(metric, statistics, costs)
        varies = np.isin(np.arange(features.shape[1]), varying_columns(features, self._offsets))
        spread = units(block[:2] for block in problem.blocks())
        self.spread: FloatArray = np.where(varies, spread, 0.0)

    def row(self, weights: FloatArray, direction: FloatArray, low: float, high: float) -> Row:
        """Return what happens on weights + t direction [D] for low < t < high."""
        checkpoint()
        left, thresholds, leaving, entering = self._search.events(weights, direction)
        begin, end = np.searchsorted(thresholds, low, "right"), np.searchsorted(thresholds, high, "left")
        left[self._lists[entering[:begin]]] = entering[:begin]  # the last one stands
        leaving, entering = leaving[begin:end], entering[begin:end]
        losses = self._sums.losses(left, leaving, entering)
        return Row(left, thresholds[begin:end], np.column_stack([leaving, entering]), losses)


class LatticeLines:
    """Lines through all paths of lattices: see `Lines`. Not for use by several threads at a time."""

    strips = 127  # a line through lattices takes some fifty times as long

    def __init__(self, problem: LatticeProblem) -> None:
        self._problem = problem
        self._search = LatticeLineSearch(problem)
        scales = problem.coordinates.scales
        self.spread: FloatArray = np.asarray(self._search.spread / scales)
        self._numbers: dict[tuple[int, bytes], int] = {}
        self._statistics: list[FloatArray] = []

    def row(self, weights: FloatArray, direction: FloatArray, low: float, high: float) -> Row:
        """Return what happens on weights + t direction [D] for low < t < high."""
        scales = self._problem.coordinates.scales
        left, events = [], []
        for number in range(self._problem.lattices.n_lists):
            checkpoint()
            starts, ways = self._search.winners(number, weights / scales, direction / scales)
            known = [self._number(number, way) for way in ways]
            first = int(np.searchsorted(starts, low, "right")) - 1
            left.append(known[first])
            for place in range(first + 1, int(np.searchsorted(starts, high, "left"))):
                events.append((float(starts[place]), known[place - 1], known[place]))
        events.sort(key=lambda event: event[0])
        keys = np.array([event[1:] for event in events], dtype=np.int64).reshape(-1, 2)
        statistics = np.array(self._statistics)
        costs = Costs(statistics[:, 0].astype(np.int64), 0, 1.0, False) if self._problem.additive else None
        sums = _Sums(self._problem.metric, statistics, costs)
        first_choices = np.array(left, dtype=np.int64)
        losses = sums.losses(first_choices, keys[:, 0], keys[:, 1])
        return Row(first_choices, np.array([event[0] for event in events]), keys, losses)

    def _number(self, lattice: int, way: IntArray) -> int:
        key = lattice, way.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self._statistics)
            self._statistics.append(self._problem.statistics(lattice, way))
        return self._numbers[key]
