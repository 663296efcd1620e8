"""The same problem as a mixed-integer program for HiGHS: a cross-check, and a rival.

One binary variable a hypothesis says that it is chosen; a comparison with another of its list holds if it is, and is
switched off by a large constant if not. What the solver claims holds to its tolerances; weights are checked exactly.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import highspy
import numpy as np
from numpy.typing import ArrayLike

from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.model.canonical import Canonical
from lpmert.numeric.lp import LinOptimizer
from lpmert.search.method import Incumbent, Method, Search, Task
from lpmert.system.deadline import OutOfTime, checkpoint, time_left

_PAUSE = 0.05
"""Seconds to wait for the end of the time after a solver that ended a little early."""

_LARGEST_OBJECTIVE = 1e6
"""Costs that are no small whole numbers are scaled so that the dearest selection costs this."""

_OBJECTIVE_TOLERANCE = 1e-6
"""Taken off the solver's bound, relative to it where it is above 1: solvers stop at about this absolute gap."""

_SMALLEST_COEFFICIENT = 1e-9
"""HiGHS drops entries below this; in rows of length 1 that stays far within its feasibility tolerance."""

_INFEASIBLE = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible)

_OPTIONS = {"output_flag": False, "threads": 1, "mip_rel_gap": 0.0, "mip_abs_gap": 0.0}


@dataclass(frozen=True)
class Mip(Method):
    """A mixed-integer program with weights in the box [-1, 1]^d.

    Comparisons may be ties, and the weights must touch the box's surface. Every attainable selection then fits, so that
    the solver's bound is one for all weights; selections that only ties reach are cut off by their cores. The callback
    is asked only between two programs, and Ctrl-C waits for the solver's end.
    """

    name = "mip"

    def start(self, task: Task) -> Search:
        """Return a search; its solver is told the time left."""
        return MipSearch(task.canonical, task.incumbent)


class MipSearch(Search):
    """A search whose every step is one program solved to its end, or to that of the time."""

    nodes = 0

    def __init__(self, canonical: Canonical, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self._canonical = canonical
        self._unit = max(canonical.granularity, canonical.dearest / _LARGEST_OBJECTIVE)
        self._program: _Program | None = None
        self._optimizer = LinOptimizer(canonical.features, canonical.offsets, rounding=canonical.rounding)
        self._bound = 0
        self._closed = False
        self._programs = 0
        self._cores = 0

    @property
    def finished(self) -> bool:
        return self._closed or self.incumbent.cost == 0

    @property
    def settled(self) -> bool:
        """Whether the optimum is beyond doubt: what a solver claims is no proof."""
        return self.incumbent.cost == 0

    @property
    def lower_bound(self) -> int:
        return min(self._upper, self._bound)

    def counters(self) -> Mapping[str, int]:
        rows = 0 if self._program is None else self._program.n_rows
        return {"nodes": self.nodes, "programs": self._programs, "rows": rows, "cores": self._cores}

    def advance(self) -> None:
        if self._program is None:
            self._program = _Program(self._canonical, self._unit)
        checkpoint()
        left = _time_left()
        status, selection, bound, nodes = self._program.solve(left)
        self._programs += 1
        self.nodes += nodes
        self._bound = max(self._bound, self._cost_of(bound))
        try:
            attained = selection is not None and self._take(self._program, selection)
        except OutOfTime:
            return  # the bound holds all the same
        optimal = status == highspy.HighsModelStatus.kOptimal
        if optimal and selection is not None:
            self._closed = attained or self.lower_bound >= self.incumbent.cost
        elif status in _INFEASIBLE and self.unsettled is not None:
            self._closed = True
        elif optimal or math.isinf(left):
            raise MethodError(f"HiGHS gave up on the program ({status.name}); use auto")
        else:
            time.sleep(min(_PAUSE, _time_left()))

    def _cost_of(self, objective: float) -> int:
        """Return the least cost that a bound on the objective leaves possible."""
        if not math.isfinite(objective) or objective <= 0 or self._canonical.rounding is not None:
            return 0
        granularity = self._canonical.granularity
        safe = objective - _OBJECTIVE_TOLERANCE * max(1.0, objective)
        return max(0, math.ceil(safe * (self._unit / granularity))) * granularity

    def _take(self, program: _Program, selection: IntArray) -> bool:
        """Offer a selection [s], rows of the features, to the incumbent; cut it off if no weights attain it."""
        verdict = self._optimizer.solve((np.arange(len(selection)), selection), start=self.incumbent.weights)
        if verdict.weights is not None:
            self.incumbent.improve(int(self._canonical.costs[selection].sum()), verdict.weights, "M")
            return True
        if verdict.attainable:
            self._leave_unsettled(int(self._canonical.costs[selection].sum()))
            program.forbid(selection)
        else:
            program.forbid(np.unique([row for _, row, _ in verdict.core]))
            self._cores += 1
        return False


class _Program:
    """The mixed-integer program, to which cuts can be added.

    Its columns are weights, choices, and for each weight whether it is 1, and whether it is -1. Rows that HiGHS leaves
    out would only lower its bound.
    """

    def __init__(self, canonical: Canonical, unit: float) -> None:
        d, n = canonical.n_features, len(canonical.costs)
        self._offsets = canonical.offsets
        weights, self._chosen, high, low = np.split(np.arange(3 * d + n), [d, d + n, 2 * d + n])
        binary, costs = np.repeat([0, 1], [d, 2 * d + n]), np.zeros(3 * d + n)
        costs[self._chosen] = canonical.costs / unit
        self._highs = _model(costs, binary - 1.0, np.ones(len(binary)), binary)
        for begin, end in pairwise(canonical.offsets.tolist()):
            checkpoint()
            self._add(self._chosen[None, begin:end], np.ones((1, end - begin)), 1.0, 1.0)
            for i in range(begin, end):
                others = np.delete(canonical.features[begin:end], i - begin, axis=0)
                rows = _normalised(canonical.features[i] - others)
                reach = np.abs(rows).sum(axis=1)  # row.w >= 0 if the binary variable is 1, and nothing if it is 0
                columns = np.broadcast_to([*weights, self._chosen[i]], (len(rows), d + 1))
                self._add(columns, np.column_stack([rows, -reach]), -reach, np.inf)
        self._add(np.concatenate([high, low])[None], np.ones((1, 2 * d)), 1.0, 1.0)
        self._add(np.column_stack([weights, high]), np.tile([1.0, -2.0], (d, 1)), -1.0, np.inf)
        self._add(np.column_stack([weights, low]), np.tile([1.0, 2.0], (d, 1)), -np.inf, 1.0)

    @property
    def n_rows(self) -> int:
        """Number of constraints."""
        return int(self._highs.getNumRow())

    def _add(self, columns: IntArray, values: FloatArray, lower: ArrayLike, upper: ArrayLike) -> None:
        """Add rows of values [R, k] in columns [R, k], and the bounds of their sums."""
        present = values != 0.0
        counts = present.sum(axis=1)
        bounds = [np.broadcast_to(np.asarray(end, dtype=np.float64), len(values)).copy() for end in (lower, upper)]
        starts = (np.cumsum(counts) - counts).astype(np.int32)
        entries = columns[present].astype(np.int32), values[present]
        self._highs.addRows(len(values), *bounds, int(counts.sum()), starts, *entries)

    def forbid(self, rows: IntArray) -> None:
        """Forbid that all these hypotheses are chosen."""
        self._add(self._chosen[None, rows], np.ones((1, len(rows))), -np.inf, len(rows) - 1.0)

    def solve(self, seconds: float) -> tuple[highspy.HighsModelStatus, IntArray | None, float, int]:
        """Return how the program ends within this time: rows of its selection, if it has one, bound, and nodes."""
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + seconds)
        self._highs.run()
        info, selection = self._highs.getInfo(), None
        if info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible):
            ones = np.flatnonzero(np.array(self._highs.getSolution().col_value)[self._chosen] > 0.5)
            selection = ones if len(ones) == len(self._offsets) - 1 else None
        nodes = max(0, int(info.mip_node_count))
        return self._highs.getModelStatus(), selection, float(info.mip_dual_bound), nodes


def _model(costs: FloatArray, lower: FloatArray, upper: FloatArray, binary: IntArray) -> Any:
    """Return a model of HiGHS without rows, of columns with these costs and bounds."""
    model: Any = highspy.Highs
    made = model()
    for name, value in _OPTIONS.items():
        made.setOptionValue(name, value)
    layout, sense = int(highspy.MatrixFormat.kRowwise), int(highspy.ObjSense.kMinimize)
    empty, index, start = np.empty(0), np.empty(0, dtype=np.int32), np.zeros(1, dtype=np.int32)
    matrix = empty, empty, start, index, empty
    made.passModel(len(costs), 0, 0, layout, sense, 0.0, costs, lower, upper, *matrix, binary.astype(np.int32))
    return made


def _normalised(rows: FloatArray) -> FloatArray:
    """Return rows [n, d] divided by their lengths, without coefficients too small for a solver."""
    rows = rows[rows.any(axis=1)]  # features that differ by less than doubles show tie for the program
    rows = rows / np.abs(rows).max(axis=1, keepdims=True)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(np.abs(rows) > _SMALLEST_COEFFICIENT, rows, 0.0)


def _time_left() -> float:
    left = time_left()
    return math.inf if left is None else left
