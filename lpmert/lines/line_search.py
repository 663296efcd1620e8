"""Exact line searches for additive and ratio metrics, on lists, lattices and hypergraphs."""

from __future__ import annotations

from functools import cached_property
from math import inf
from typing import NamedTuple

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.limits import out_of_time
from lpmert.metrics.base import RatioMetric
from lpmert.model.canonical import Canonical
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.numeric.lists import units
from lpmert.quoting import quoted

_PIECE = 1_000_000  # coordinates times hypotheses searched between two checks of the clock


class Step(NamedTuple):
    """The least level on a line, and a t that attains it: at weights + t direction."""

    level: float
    t: float


class LossInCore(NamedTuple):
    """The losses of hypotheses in the form that the core takes.

    kind: `ADDITIVE`, with costs [M] that add up; or the kind of a ratio metric, with statistics [M, K], their constant
    [K] and the parameters of the formula.
    """

    kind: int
    parameters: FloatArray
    costs: IntArray
    statistics: FloatArray
    constant: FloatArray


ADDITIVE = -1


_LEAST_SPREAD = 1e-30  # a feature that varies less than this times the widest one counts as if it varied so much


class Space:
    """The weight space of a search: how features vary within lists, and where limits and cap end a line."""

    def __init__(self, canonical: Canonical) -> None:
        self.dimension = canonical.n_features
        self.form = canonical

    @cached_property
    def spread(self) -> FloatArray:
        """Standard deviation [D] of each feature within lists; random weights are drawn in units of its inverse.

        Features that hardly vary beside others count for more, so that weights stay finite.
        """
        spread = units([(self.form.features, self.form.offsets)])
        return np.asarray(np.maximum(spread, _LEAST_SPREAD * spread.max(initial=0.0)))

    def range(self, weights: FloatArray, direction: FloatArray) -> tuple[float, float]:
        """Return the interval of t, around 0, in which weights + t direction stay within limits and cap.

        Returns the whole line if t = 0 lies outside, or the interval is a point.
        """
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


class LineSearch(Space):
    """Line searches on lists in canonical form; source: Och, ACL 2003.

    A level is a sum of costs, or the loss of a ratio metric. Lines that start within limits and cap stay there. An
    object is for one thread at a time. Raises `MethodError` for a metric that the core cannot compute.
    """

    def __init__(self, canonical: Canonical) -> None:
        super().__init__(canonical)
        columns = np.ascontiguousarray(canonical.features.T)
        self._lists = core.line_search(columns, canonical.offsets, loss_of_form(canonical))

    def at(self, weights: FloatArray) -> float:
        """Return the level of decoding with weights [D] in floating point, the first of equals winning."""
        return self._lists.at(weights)

    def loss_of(self, level: float) -> float:
        return self.form.loss_of(int(level)) if self.form.additive else level

    def along(self, weights: FloatArray, direction: FloatArray) -> Step:
        """Return the best step on the line weights + t direction within the limits.

        The step leads to the middle, measured as an angle, of the nearest interval with the least level.
        """
        ends, unit = self.range(weights, direction), unit_of(weights, direction)
        return Step(*self._lists.along(weights, direction, *ends, unit))

    def best_coordinate(self, weights: FloatArray, coordinates: IntArray) -> tuple[int, Step]:
        """Return the coordinate whose line from weights [D] has the best step, the first of equals, and that step.

        Returns coordinate -1 if none has a finite level.
        """
        ranges = np.tile([-inf, inf], (self.dimension, 1))
        if self.form.cap is not None or len(self.form.limits):
            ranges[:] = [self.range(weights, axis) for axis in np.eye(self.dimension)]
        best, step = -1, Step(inf, 0.0)
        piece = max(1, _PIECE // len(self.form.features))
        for begin in range(0, len(coordinates), piece):
            if begin and out_of_time():
                break
            block, scale = coordinates[begin : begin + piece], unit_of(weights, np.ones(1))
            coordinate, *found = self._lists.best_coordinate(weights, block, ranges, scale)
            if found[0] < step.level:
                best, step = coordinate, Step(*found)
        return best, step


def lists_with_costs(features: FloatArray, offsets: IntArray, costs: IntArray) -> core.LineSearch:
    """Return lists for line searches: features [M, D], offsets [S + 1], costs [M]."""
    return core.line_search(np.ascontiguousarray(features.T), offsets, _sum_of(costs))


def _sum_of(costs: IntArray) -> LossInCore:
    return LossInCore(ADDITIVE, np.empty(0), costs, np.empty((0, 0)), np.empty(0))


def unit_of(weights: FloatArray, direction: FloatArray) -> float:
    """Return |weights| / |direction|, the natural unit of t on a line; 1 if either is 0."""
    numerator, denominator = float(np.linalg.norm(weights)), float(np.linalg.norm(direction))
    return numerator / denominator if numerator > 0 and denominator > 0 else 1.0


def loss_of_form(canonical: Canonical) -> LossInCore:
    """Return the losses of a canonical form for the core; raises `MethodError` for a metric that it cannot compute."""
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


_INTERCEPT, _SLOPE = np.eye(2)  # weights and direction for lists whose two features are intercept and slope


class LatticeLineSearch(Space):
    """The same on lattices or hypergraphs: the lists of a line are the hypotheses that win somewhere on it.

    Sources: Macherey and others, EMNLP 2008; Kumar and others, ACL 2009.
    """

    def __init__(self, problem: LatticeProblem) -> None:
        super().__init__(problem.canonical)
        self._problem = problem
        self._loss = loss_of_form(problem.canonical)

    @cached_property
    def spread(self) -> FloatArray:
        """Range [D] of each feature over the paths of a lattice, on average; 1 for a feature that does not vary."""
        width = np.zeros(self.dimension)
        for graph in self._problem.graphs:
            links = graph.links()
            width += links.largest_sums(graph.features) + links.largest_sums(-graph.features)
        return np.where(width > 0.0, width / max(1, len(self._problem.graphs)), 1.0)

    def at(self, weights: FloatArray) -> float:
        return self._lists(weights, np.zeros(self.dimension)).at(_INTERCEPT)

    def loss_of(self, level: float) -> float:
        return float(level)

    def along(self, weights: FloatArray, direction: FloatArray) -> Step:
        ends, unit = self.range(weights, direction), unit_of(weights, direction)
        return Step(*self._lists(weights, direction).along(_INTERCEPT, _SLOPE, *ends, unit))

    def best_coordinate(self, weights: FloatArray, coordinates: IntArray) -> tuple[int, Step]:
        best, step = -1, Step(inf, 0.0)
        for coordinate in coordinates.tolist():
            found = self.along(weights, np.eye(self.dimension)[coordinate])
            if found.level < step.level:
                best, step = coordinate, found
            if out_of_time():
                break
        return best, step

    def _lists(self, weights: FloatArray, direction: FloatArray) -> core.LineSearch:
        """Return lists of the hypotheses on the envelope of each lattice; their features are intercept and slope."""
        lines: list[FloatArray] = []
        statistics: list[FloatArray] = []
        offsets = [0]
        for number in range(len(self._problem.graphs)):
            intercepts, slopes, _, ways = self.envelope(number, weights, direction)
            lines.append(np.array([intercepts, slopes]))
            statistics += [self._problem.statistics(number, way) for way in ways]
            offsets.append(len(statistics))
        table = np.array(statistics)
        losses = {"costs": table[:, 0].astype(np.int64)} if self.form.additive else {"statistics": table}
        loss = self._loss._replace(**losses)
        return core.line_search(np.concatenate(lines, axis=1), np.array(offsets, dtype=np.int64), loss)

    def envelope(
        self, number: int, weights: FloatArray, direction: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, list[IntArray]]:
        """Return the hypotheses of one lattice that win somewhere on the line weights + t direction.

        Returns their intercepts, slopes, and the t from which each wins [n], -inf first, and the links of each.
        """
        graph = self._problem.graphs[number]
        heights, along = graph.features @ weights, graph.features @ direction
        intercepts, slopes, starts, links, ends = core.find_graph_envelope(graph.links(), heights, along)
        return intercepts, slopes, starts, np.split(links, ends[1:-1])


LineSearcher = LineSearch | LatticeLineSearch


def space_of(problem: Problem | LatticeProblem) -> Space:
    return LatticeLineSearch(problem) if isinstance(problem, LatticeProblem) else Space(problem.canonical)
