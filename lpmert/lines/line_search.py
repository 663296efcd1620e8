"""Exact line searches for additive and ratio metrics: on lists, and on all paths of lattices or derivations of
hypergraphs.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from math import inf
from typing import NamedTuple

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.metrics.base import RatioMetric
from lpmert.model.canonical import Canonical
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.numeric.lists import units
from lpmert.quoting import quoted
from lpmert.system.deadline import out_of_time

_PIECE = 1_000_000
"""Coordinates times hypotheses searched between two looks at the clock."""


class Step(NamedTuple):
    """The level that a line search promises, and the t on the line weights + t direction that has it."""

    level: float
    t: float


OnLine = tuple[core.LineSearch, tuple[FloatArray, FloatArray]]
"""Lists for a line, and what its weights and direction are for these."""


class LossInCore(NamedTuple):
    """What hypotheses cost, as the core takes it.

    kind: `ADDITIVE`, where costs [M] add up, or that of a ratio metric of statistics [M, K], a constant [K] and
    parameters.
    """

    kind: int
    parameters: FloatArray
    costs: IntArray
    statistics: FloatArray
    constant: FloatArray


ADDITIVE = -1


class Space:
    """Where searches move: how features vary within lists, and where limits and cap end a line."""

    def __init__(self, canonical: Canonical) -> None:
        self.dimension = canonical.n_features
        self.form = canonical

    @cached_property
    def spread(self) -> FloatArray:
        """Standard deviation [D] of each feature within the lists: random weights are drawn in units of its inverse."""
        return units([(self.form.features, self.form.offsets)])

    def range(self, weights: FloatArray, direction: FloatArray) -> tuple[float, float]:
        """Return the ends of the part of a line, around t = 0, that keeps to the limits."""
        low, high = -inf, inf
        limits, cap = self.form.limits, self.form.cap
        if len(limits):
            height, slope = limits @ weights, limits @ direction
            with np.errstate(divide="ignore", invalid="ignore"):
                crossing = -height / slope
            low = float(np.max(crossing, where=slope > 0, initial=low))
            high = float(np.min(crossing, where=slope < 0, initial=high))
        if cap is not None:
            unit, square = cap.unit, cap.cosine**2
            along, start = float(unit @ direction), float(unit @ weights)
            roots = np.roots(
                [
                    along**2 - square * float(direction @ direction),
                    2 * (along * start - square * float(weights @ direction)),
                    start**2 - square * float(weights @ weights),
                ]
            )
            real = roots[np.isreal(roots)].real
            low = max(low, float(real.max(where=real < 0, initial=-inf)))
            high = min(high, float(real.min(where=real > 0, initial=inf)))
        return (low, high) if low <= 0.0 <= high and low < high else (-inf, inf)


class LineSearcher(Space):
    """Line searches in a space: what descents need of them."""

    @abstractmethod
    def at(self, weights: FloatArray) -> float:
        """Return the level of decoding with weights [D] in floating point, the first of equals winning."""

    @abstractmethod
    def loss_of(self, level: float) -> float:
        """Return the loss of a level."""

    @abstractmethod
    def _lists_on(self, weights: FloatArray, direction: FloatArray) -> OnLine: ...

    def along(self, weights: FloatArray, direction: FloatArray) -> Step:
        """Return the best step on the line weights + t direction within the limits.

        It leads to the middle, as an angle, of the nearest of the intervals with the least level.
        """
        lists, line = self._lists_on(weights, direction)
        return Step(*lists.along(*line, *self.range(weights, direction), unit_of(weights, direction)))

    def best_coordinate(self, weights: FloatArray, coordinates: IntArray) -> tuple[int, Step]:
        """Return which of these coordinates has the best step on its line from weights [D], the first of equals, and
        that step.
        """
        best, step = -1, Step(inf, 0.0)
        for coordinate in coordinates.tolist():
            found = self.along(weights, np.eye(self.dimension)[coordinate])
            if found.level < step.level:
                best, step = coordinate, found
            if out_of_time():
                break
        return best, step


class LineSearch(LineSearcher):
    """Line searches on lists in canonical form; source: Och, ACL 2003.

    A level is a sum of costs, or the ratio metric's loss. Lines keep to the limits and the cap where their start does.
    Not for use by several threads at a time. Raises `MethodError` for a metric that the core cannot compute.
    """

    def __init__(self, canonical: Canonical) -> None:
        super().__init__(canonical)
        columns = np.ascontiguousarray(canonical.features.T)
        self._lists = core.line_search(columns, canonical.offsets, loss_of_form(canonical))

    def at(self, weights: FloatArray) -> float:
        return self._lists.at(weights)

    def loss_of(self, level: float) -> float:
        return self.form.loss_of(int(level)) if self.form.additive else level

    def _lists_on(self, weights: FloatArray, direction: FloatArray) -> OnLine:
        return self._lists, (weights, direction)

    def around(self, weights: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the pieces [3, n], within the limits and the cap, of the circle cos(t) weights + sin(t) direction [D]:
        where each begins and ends, in radians, and its level.
        """
        limits, cap = self.form.limits, self.form.cap
        unit, cosine = (np.empty(0), 0.0) if cap is None else (cap.unit, cap.cosine)
        low, high = core.arc_within((limits, np.eye(self.dimension), unit, cosine), weights, direction)
        return core.find_pieces(self._lists, weights, direction, low, high).T

    def best_coordinate(self, weights: FloatArray, coordinates: IntArray) -> tuple[int, Step]:
        ranges = np.tile([-inf, inf], (self.dimension, 1))
        if self.form.cap is not None or len(self.form.limits):
            ranges[:] = [self.range(weights, axis) for axis in np.eye(self.dimension)]
        best, step = -1, Step(inf, 0.0)
        piece = max(1, _PIECE // len(self.form.features))
        for begin in range(0, len(coordinates), piece):
            if begin and out_of_time():
                break
            some, scale = coordinates[begin : begin + piece], unit_of(weights, np.ones(1))
            coordinate, *found = self._lists.best_coordinate(weights, some, ranges, scale)
            if found[0] < step.level:
                best, step = coordinate, Step(*found)
        return best, step


def lists_with_costs(features: FloatArray, offsets: IntArray, costs: IntArray) -> core.LineSearch:
    """Return line searches on features [M, D] of lists offsets [S + 1] whose costs [M] add up."""
    return core.line_search(np.ascontiguousarray(features.T), offsets, _sum_of(costs))


def _sum_of(costs: IntArray) -> LossInCore:
    return LossInCore(ADDITIVE, np.empty(0), costs, np.empty((0, 0)), np.empty(0))


def unit_of(weights: FloatArray, direction: FloatArray) -> float:
    """Return |weights| / |direction|, the natural unit of t on a line, or 1 where one of them is 0."""
    numerator, denominator = float(np.linalg.norm(weights)), float(np.linalg.norm(direction))
    return numerator / denominator if numerator > 0 and denominator > 0 else 1.0


def loss_of_form(canonical: Canonical) -> LossInCore:
    """Return what hypotheses cost, for the core; raises `MethodError` for a metric that it cannot compute."""
    if canonical.additive:
        return _sum_of(canonical.costs)
    totals = canonical.totals
    metric = totals.metric
    if not isinstance(metric, RatioMetric):
        raise MethodError(
            f"line search takes sums over lists and the ratio metrics of lpmert, not {quoted(metric.name)}; "
            "state a fraction of sums as lpmert.metrics.LinearFraction, or choose a method that takes any loss"
        )
    return LossInCore(metric.kind, metric.parameters, np.empty(0, dtype=np.int64), totals.statistics, totals.constant)


_INTERCEPT, _SLOPE = np.eye(2)
"""Weights and direction of lines whose features are their intercepts and slopes."""


class LatticeLineSearch(LineSearcher):
    """Line searches on lattices or hypergraphs, whose lists are the hypotheses that are best somewhere on the line.

    A level is a sum of losses, or the ratio metric's loss. Sources: Macherey and others, EMNLP 2008; Kumar and others,
    ACL 2009. Not for use by several threads at a time. Raises `MethodError` for a metric whose formula is not known.
    """

    def __init__(self, problem: LatticeProblem) -> None:
        super().__init__(problem.canonical)
        self._problem = problem
        self._loss = loss_of_form(problem.canonical)

    @cached_property
    def spread(self) -> FloatArray:
        """How far each feature [D] varies between the paths of a lattice, on average; 1 for one that does not."""
        width = np.zeros(self.dimension)
        for graph in self._problem.graphs:
            links = graph.links()
            width += links.largest_sums(graph.features) + links.largest_sums(-graph.features)
        return np.where(width > 0.0, width / max(1, len(self._problem.graphs)), 1.0)

    def at(self, weights: FloatArray) -> float:
        return self._lists(weights, np.zeros(self.dimension)).at(_INTERCEPT)

    def loss_of(self, level: float) -> float:
        return float(level)

    def _lists_on(self, weights: FloatArray, direction: FloatArray) -> OnLine:
        return self._lists(weights, direction), (_INTERCEPT, _SLOPE)

    def winners(self, number: int, weights: FloatArray, direction: FloatArray) -> tuple[FloatArray, list[IntArray]]:
        """Return the hypotheses of one lattice that win somewhere on the line weights + t direction.

        Returns the t [n] from which on each wins, -inf first, and the links of each.
        """
        _, _, starts, ways = self._envelope(number, weights, direction)
        return starts, ways

    def _lists(self, weights: FloatArray, direction: FloatArray) -> core.LineSearch:
        """Return the envelope of each lattice as a list of lines, whose features are intercept and slope."""
        lines: list[FloatArray] = []
        statistics: list[FloatArray] = []
        offsets = [0]
        for number in range(len(self._problem.graphs)):
            intercepts, slopes, _, ways = self._envelope(number, weights, direction)
            lines.append(np.array([intercepts, slopes]))
            statistics += [self._problem.statistics(number, way) for way in ways]
            offsets.append(len(statistics))
        table = np.array(statistics)
        own = {"costs": table[:, 0].astype(np.int64)} if self.form.additive else {"statistics": table}
        loss = self._loss._replace(**own)
        return core.line_search(np.concatenate(lines, axis=1), np.array(offsets, dtype=np.int64), loss)

    def _envelope(
        self, number: int, weights: FloatArray, direction: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, list[IntArray]]:
        """Return the envelope of one lattice: its intercepts, slopes, starts [n], and the links of each line."""
        graph = self._problem.graphs[number]
        heights, along = graph.features @ weights, graph.features @ direction
        intercepts, slopes, starts, links, ends = core.find_graph_envelope(graph.links(), heights, along)
        return intercepts, slopes, starts, np.split(links, ends[1:-1])


def space_of(problem: Problem | LatticeProblem) -> Space:
    return LatticeLineSearch(problem) if isinstance(problem, LatticeProblem) else Space(problem.canonical)
