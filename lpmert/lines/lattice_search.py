"""Exact line searches over all paths of lattices, or derivations of hypergraphs."""

from __future__ import annotations

from functools import cached_property
from math import inf

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.lines import line_search_kernels as kernels
from lpmert.lines.envelope import new_workspace, unit_of
from lpmert.lines.graph_envelope import Lines, find_envelope, new_lines, way_of
from lpmert.lines.line_search import SMOOTHING, Lineal, Space, Step, interval_of, loss_of_metric
from lpmert.lines.line_search_kernels import Loss
from lpmert.model.lattice_kernels import best_so_far
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.system.deadline import out_of_time

_ROOM = 1 << 14
"""Lines of one lattice that there is room for at first."""


class LatticeLineSearch(Lineal):
    """Line searches on lattices or hypergraphs, whose lists are the hypotheses that are best somewhere on the line.

    A level is a sum of losses, or the ratio metric's loss. Sources: Macherey and others, EMNLP 2008; Kumar and others,
    ACL 2009. interval, smoothing: as for `LineSearch`. Not for use by several threads at a time. Raises `MethodError`
    for a metric that kernels cannot compute.
    """

    def __init__(self, problem: LatticeProblem, interval: str = "midpoint", smoothing: float = SMOOTHING) -> None:
        super().__init__(problem.canonical)
        self._problem = problem
        self._interval, self._smoothing = interval_of(interval), smoothing
        self._width = len(problem.settings.columns)
        self._make_room(_ROOM)
        self._loss(np.zeros((0, self._width)))

    @cached_property
    def spread(self) -> FloatArray:
        """How far each feature [D] varies between the paths of a lattice, on average; 1 for one that does not."""
        width = np.zeros(self.dimension)
        for graph in self._problem.graphs:
            nodes = graph.sources, graph.seconds, graph.targets
            for k, column in enumerate(graph.features.T):
                most, least = np.empty(graph.n_nodes), np.empty(graph.n_nodes)
                best_so_far(*nodes, np.ascontiguousarray(column), most)
                best_so_far(*nodes, np.ascontiguousarray(-column), least)
                width[k] += most[-1] + least[-1]
        return np.where(width > 0.0, width / max(1, len(self._problem.graphs)), 1.0)

    def at(self, weights: FloatArray) -> float:
        """Return the level of decoding with weights [D], in floating point, the first of equal paths winning."""
        lines, offsets, loss = self._lists(weights, np.zeros(self.dimension))
        return float(kernels.level_at(np.ascontiguousarray(lines[:, 0]), offsets, loss, np.empty(self._totals)))

    def loss_of(self, level: float) -> float:
        """Return the loss of a level."""
        return level

    def along(self, weights: FloatArray, direction: FloatArray, *, low: float = -inf, high: float = inf) -> Step:
        """Return the best step on the line weights + t direction, low <= t <= high, within the limits."""
        lines, offsets, loss = self._lists(weights, direction)
        work = new_workspace(lines, offsets)
        work.intercepts[:], work.slopes[:] = lines.T
        least, most = self.range(weights, direction)
        buffers = kernels.new_buffers(offsets, self._totals)
        low, high, scale = max(low, least), min(high, most), unit_of(weights, direction)
        return Step(
            *kernels.search_direction(offsets, loss, low, high, scale, self._interval, self._smoothing, work, buffers)
        )

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
        graph = self._problem.graphs[number]
        begin, end = self._envelope(number, graph.features @ weights, graph.features @ direction)
        return self._store.starts[begin:end].copy(), [way_of(self._store, line) for line in range(begin, end)]

    @property
    def _totals(self) -> int:
        """How many statistics kernels sum; none where losses are added up."""
        return 0 if self._problem.additive else self._width

    def _loss(self, statistics: FloatArray) -> Loss:
        return loss_of_metric(self._problem.metric, statistics, np.zeros(self._width), additive=self._problem.additive)

    def _lists(self, weights: FloatArray, direction: FloatArray) -> tuple[FloatArray, IntArray, Loss]:
        """Return the envelope of each lattice as a list: intercepts and slopes [M, 2], offsets [S + 1], and losses."""
        found: list[FloatArray] = []
        statistics: list[FloatArray] = []
        offsets = [0]
        for number, graph in enumerate(self._problem.graphs):
            begin, end = self._envelope(number, graph.features @ weights, graph.features @ direction)
            found.append(np.column_stack([self._store.intercepts[begin:end], self._store.slopes[begin:end]]))
            statistics += [self._problem.statistics(number, way_of(self._store, line)) for line in range(begin, end)]
            offsets.append(len(statistics))
        return np.concatenate(found), np.array(offsets, dtype=np.int64), self._loss(np.array(statistics))

    def _envelope(self, number: int, intercepts: FloatArray, slopes: FloatArray) -> tuple[int, int]:
        """Find the envelope of one lattice; return its first line in `_store`, and the one beyond its last."""
        graph = self._problem.graphs[number]
        nodes = graph.sources, graph.seconds, graph.targets
        first = np.empty(graph.n_nodes + 1, dtype=np.int64)
        while True:
            begin, end = find_envelope(*nodes, intercepts, slopes, first, self._store, *self._spaces)
            if begin >= 0:
                return int(begin), int(end)
            self._make_room(2 * len(self._store.slopes))

    def _make_room(self, room: int) -> None:
        self._store = new_lines(room)
        self._spaces: tuple[Lines, Lines, Lines] = (new_lines(room), new_lines(room), new_lines(room))


def space_of(problem: Problem | LatticeProblem) -> Space:
    """Return where searches of a problem move."""
    return LatticeLineSearch(problem) if isinstance(problem, LatticeProblem) else Space(problem.canonical)
