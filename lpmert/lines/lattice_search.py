"""Exact line searches over all paths of lattices."""

from __future__ import annotations

from functools import cached_property
from math import inf

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.lines import line_search_kernels as kernels
from lpmert.lines.envelope import new_workspace, unit_of
from lpmert.lines.graph_envelope import Lines, find_envelope, new_lines, way_of
from lpmert.lines.line_search import SMOOTHING, Lineal, Step, interval_of
from lpmert.lines.line_search_kernels import ADDITIVE, Loss
from lpmert.model.lattice_kernels import score_so_far
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.system.deadline import out_of_time

_ROOM = 1 << 14
"""Lines of one lattice that there is room for at first."""


class LatticeLineSearch(Lineal):
    """Line searches on lattices, whose lists are the paths that are best somewhere on the line.

    A level is a sum of losses. Source: Macherey, Och, Thayer and Uszkoreit, EMNLP 2008. interval, smoothing: as for
    `LineSearch`. Not for use by several threads at a time.
    """

    def __init__(self, problem: LatticeProblem, interval: str = "midpoint", smoothing: float = SMOOTHING) -> None:
        super().__init__(problem.canonical)
        self._problem = problem
        self._interval, self._smoothing = interval_of(interval), smoothing
        self._store, self._one, self._other = new_lines(_ROOM), new_lines(_ROOM), new_lines(_ROOM)

    @cached_property
    def spread(self) -> FloatArray:
        """How far each feature [D] varies between the paths of a lattice, on average; 1 for one that does not."""
        width = np.zeros(self.dimension)
        for graph in self._problem.graphs:
            for k, column in enumerate(graph.features.T):
                most, least = np.empty(graph.n_nodes), np.empty(graph.n_nodes)
                score_so_far(graph.sources, graph.targets, np.ascontiguousarray(column), most)
                score_so_far(graph.sources, graph.targets, np.ascontiguousarray(-column), least)
                width[k] += most[-1] + least[-1]
        return np.where(width > 0.0, width / max(1, len(self._problem.graphs)), 1.0)

    def at(self, weights: FloatArray) -> float:
        """Return the level of decoding with weights [D], in floating point, the first of equal paths winning."""
        return float(self._lists(weights, np.zeros(self.dimension))[2].costs.sum())

    def loss_of(self, level: float) -> float:
        """Return the loss of a level."""
        return level

    def along(self, weights: FloatArray, direction: FloatArray, *, low: float = -inf, high: float = inf) -> Step:
        """Return the best step on the line weights + t direction, low <= t <= high, within the limits."""
        lines, offsets, loss = self._lists(weights, direction)
        work = new_workspace(lines, offsets)
        work.intercepts[:], work.slopes[:] = lines.T
        least, most = self.range(weights, direction)
        buffers = kernels.new_buffers(offsets, 0)
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

    def _lists(self, weights: FloatArray, direction: FloatArray) -> tuple[FloatArray, IntArray, Loss]:
        """Return the envelope of each lattice as a list: intercepts and slopes [M, 2], offsets [S + 1], and losses."""
        found: list[FloatArray] = []
        costs: list[int] = []
        offsets = [0]
        for number, graph in enumerate(self._problem.graphs):
            intercepts, slopes = graph.features @ weights, graph.features @ direction
            begin, end, store = self._envelope(number, intercepts, slopes)
            found.append(np.column_stack([store.intercepts[begin:end], store.slopes[begin:end]]))
            costs += [self._problem.loss(number, way_of(store, line)) for line in range(begin, end)]
            offsets.append(len(costs))
        loss = Loss(ADDITIVE, np.empty(0), np.array(costs, dtype=np.int64), np.empty((0, 0)), np.empty(0))
        return np.concatenate(found), np.array(offsets, dtype=np.int64), loss

    def _envelope(self, number: int, intercepts: FloatArray, slopes: FloatArray) -> tuple[int, int, Lines]:
        graph = self._problem.graphs[number]
        first = np.empty(graph.n_nodes + 1, dtype=np.int64)
        while True:
            spaces = self._store, self._one, self._other
            begin, end = find_envelope(graph.sources, graph.targets, intercepts, slopes, first, *spaces)
            if begin >= 0:
                return int(begin), int(end), self._store
            room = 2 * len(self._store.slopes)
            self._store, self._one, self._other = new_lines(room), new_lines(room), new_lines(room)
