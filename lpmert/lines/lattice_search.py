"""Exact line searches over all paths of lattices, or derivations of hypergraphs."""

from __future__ import annotations

from functools import cached_property
from math import inf

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray
from lpmert.lines.line_search import SMOOTHING, Lineal, Loss, Space, Step, interval_of, loss_of_metric, unit_of
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.system.deadline import out_of_time

_INTERCEPT, _SLOPE = np.eye(2)
"""Weights and direction of lines whose features are their intercepts and slopes."""


class LatticeLineSearch(Lineal):
    """Line searches on lattices or hypergraphs, whose lists are the hypotheses that are best somewhere on the line.

    A level is a sum of losses, or the ratio metric's loss. Sources: Macherey and others, EMNLP 2008; Kumar and others,
    ACL 2009. interval, smoothing: as for `LineSearch`. Not for use by several threads at a time. Raises `MethodError`
    for a metric whose formula is not known.
    """

    def __init__(self, problem: LatticeProblem, interval: str = "midpoint", smoothing: float = SMOOTHING) -> None:
        super().__init__(problem.canonical)
        self._problem = problem
        self._choice = interval_of(interval), smoothing
        self._width = len(problem.settings.columns)
        self._loss(np.zeros((0, self._width)))

    @cached_property
    def spread(self) -> FloatArray:
        """How far each feature [D] varies between the paths of a lattice, on average; 1 for one that does not."""
        width = np.zeros(self.dimension)
        for graph in self._problem.graphs:
            links = graph.links()
            width += links.largest_sums(graph.features) + links.largest_sums(-graph.features)
        return np.where(width > 0.0, width / max(1, len(self._problem.graphs)), 1.0)

    def at(self, weights: FloatArray) -> float:
        """Return the level of decoding with weights [D], in floating point, the first of equal paths winning."""
        return self._lists(weights, np.zeros(self.dimension)).at(_INTERCEPT)

    def loss_of(self, level: float) -> float:
        """Return the loss of a level."""
        return float(level)

    def along(self, weights: FloatArray, direction: FloatArray, *, low: float = -inf, high: float = inf) -> Step:
        """Return the best step on the line weights + t direction, low <= t <= high, within the limits."""
        lists = self._lists(weights, direction)
        least, most = self.range(weights, direction)
        low, high, scale = max(low, least), min(high, most), unit_of(weights, direction)
        return Step(*lists.along(_INTERCEPT, _SLOPE, low, high, scale, self._choice))

    def best_coordinate(self, weights: FloatArray, coordinates: IntArray | None = None) -> tuple[int, Step]:
        """Return the coordinate whose line from weights [D] has the best step, and that step.

        coordinates: those to try, by default all; the first of equals wins.
        """
        best, step = -1, Step(inf, 0.0)
        for coordinate in (np.arange(self.dimension) if coordinates is None else coordinates).tolist():
            found = self.along(weights, np.eye(self.dimension)[coordinate])
            if found.level < step.level:
                best, step = coordinate, found
            if out_of_time():
                break
        return best, step

    def winners(self, number: int, weights: FloatArray, direction: FloatArray) -> tuple[FloatArray, list[IntArray]]:
        """Return the hypotheses of one lattice that win somewhere on the line weights + t direction.

        Returns the t [n] from which on each wins, -inf first, and the links of each.
        """
        _, _, starts, ways = self._envelope(number, weights, direction)
        return starts, ways

    def _loss(self, statistics: FloatArray) -> Loss:
        return loss_of_metric(self._problem.metric, statistics, np.zeros(self._width), additive=self._problem.additive)

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
        loss = self._loss(np.array(statistics))
        return core.LineSearch(np.concatenate(lines, axis=1), np.array(offsets, dtype=np.int64), loss)

    def _envelope(
        self, number: int, weights: FloatArray, direction: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, list[IntArray]]:
        """Return the envelope of one lattice: its intercepts, slopes, starts [n], and the links of each line."""
        graph = self._problem.graphs[number]
        heights, along = graph.features @ weights, graph.features @ direction
        intercepts, slopes, starts, links, ends = core.find_graph_envelope(graph.links(), heights, along)
        return intercepts, slopes, starts, np.split(links, ends[1:-1])


def space_of(problem: Problem | LatticeProblem) -> Space:
    """Return where searches of a problem move."""
    return LatticeLineSearch(problem) if isinstance(problem, LatticeProblem) else Space(problem.canonical)
