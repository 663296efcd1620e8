"""The same problem as a mixed-integer program, solved by HiGHS: a cross-check, and a rival.

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

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp
from scipy.sparse import csr_array, eye_array, hstack, vstack

from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.model.canonical import Canonical
from lpmert.numeric.lists import list_numbers
from lpmert.numeric.lp import LinOptimizer
from lpmert.search.method import Incumbent, Method, Search, Task
from lpmert.system.deadline import OutOfTime, checkpoint, time_left

_PAUSE = 0.05
"""Seconds to wait for the end of the time after a solver that ended a little early."""

_LARGEST_OBJECTIVE = 1e6
"""Costs that are no small whole numbers are scaled so that the dearest selection costs this."""

_OBJECTIVE_TOLERANCE = 1e-6
"""Taken off the solver's bound, relative to it where it is above 1: solvers stop at about this absolute gap."""

_OPTIMAL, _INFEASIBLE = 0, 2
"""Statuses of `milp`."""

_SMALLEST_COEFFICIENT = 1e-9
"""Solvers drop entries below this; in rows of length 1 that stays far within their feasibility tolerance."""


@dataclass(frozen=True)
class Mip(Method):
    """A mixed-integer program with weights in the box [-1, 1]^d.

    Comparisons may be ties, and the weights must touch the box's surface. Every attainable selection then fits, so that
    the solver's bound is one for all weights; selections that only ties reach are cut off by their cores. The callback
    is asked only between two programs, and Ctrl-C waits for the solver's end.
    """

    name = "mip"

    def start(self, task: Task) -> Search:
        return MipSearch(task.canonical, task.incumbent)


class MipSearch(Search):
    """A search whose every step is one program solved to its end, or to that of the time."""

    unsettled: int | None = None
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
        self._forbidden: list[list[int]] = []

    @property
    def finished(self) -> bool:
        return self._closed or self.incumbent.cost == 0

    @property
    def settled(self) -> bool:
        """Whether the optimum is beyond doubt: what a solver claims is no proof."""
        return self.incumbent.cost == 0

    @property
    def lower_bound(self) -> int:
        costs = [self.incumbent.cost, self._bound] + ([] if self.unsettled is None else [self.unsettled])
        return min(costs)

    def counters(self) -> Mapping[str, int]:
        rows = 0 if self._program is None else self._program.n_rows
        return {"nodes": self.nodes, "programs": self._programs, "rows": rows, "cores": self._cores}

    def state(self) -> Mapping[str, Any]:
        counts = [self.nodes, self._programs, self._cores]
        return {
            "bound": self._bound,
            "closed": self._closed,
            "unsettled": self.unsettled,
            "forbidden": self._forbidden,
            "counts": counts,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._bound, self._closed, self.unsettled = state["bound"], state["closed"], state["unsettled"]
        self._forbidden = [list(rows) for rows in state["forbidden"]]
        self.nodes, self._programs, self._cores = state["counts"]

    def advance(self) -> None:
        if self._program is None:
            self._program = _Program(self._canonical, self._unit)
            for rows in self._forbidden:
                self._program.forbid(rows)
        checkpoint()
        answer, selection = self._program.solve(_time_left())
        self._programs += 1
        self.nodes += answer.mip_node_count or 0
        self._bound = max(self._bound, self._cost_of(answer.mip_dual_bound or 0.0))
        try:
            attained = selection is not None and self._take(self._program, selection)
        except OutOfTime:
            return  # the bound holds all the same
        optimal, infeasible = answer.status == _OPTIMAL, answer.status == _INFEASIBLE
        if optimal and selection is not None:
            self._closed = attained or self.lower_bound >= self.incumbent.cost
        elif infeasible and self.unsettled is not None:
            self._closed = True
        elif optimal or math.isinf(_time_left()):
            raise MethodError(f"HiGHS gave up on the program: {answer.message}")
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
            cost = int(self._canonical.costs[selection].sum())
            self.unsettled = cost if self.unsettled is None else min(cost, self.unsettled)
            self._forbidden.append(selection.tolist())
        else:
            self._forbidden.append(sorted({row for _, row, _ in verdict.core}))
            self._cores += 1
        program.forbid(self._forbidden[-1])
        return False


class _Program:
    """The program, to which cuts can be added: weights [d], choices [m], and whether a weight is 1 [d] or -1 [d]."""

    def __init__(self, canonical: Canonical, unit: float) -> None:
        n, m, offsets = canonical.n_features, len(canonical.costs), canonical.offsets
        self._weights, self._chosen, self._n_lists = n, slice(n, n + m), len(offsets) - 1
        self._objective = np.concatenate([np.zeros(n), canonical.costs / unit, np.zeros(2 * n)])
        self._rows: list[tuple[Any, FloatArray, FloatArray]] = []
        compared, owners = [np.empty((0, n))], [np.empty(0, dtype=np.int64)]
        for begin, end in pairwise(offsets.tolist()):
            checkpoint()
            for i in range(begin, end):
                others = np.delete(canonical.features[begin:end], i - begin, axis=0)
                compared.append(_normalised(canonical.features[i] - others))
                owners.append(np.full(len(compared[-1]), i))
        # Each comparison holds if its hypothesis is chosen, and is switched off by its reach if not.
        rows, columns = np.concatenate(compared), np.concatenate(owners)
        reach = np.abs(rows).sum(axis=1)
        off = csr_array((-reach, (np.arange(len(rows)), columns)), shape=(len(rows), m))
        self._add([csr_array(rows), off, csr_array((len(rows), 2 * n))], -reach, np.full(len(rows), np.inf))
        ones = csr_array((np.ones(m), (list_numbers(offsets), np.arange(m))), shape=(self._n_lists, m))
        one = np.ones(self._n_lists)
        self._add([csr_array((self._n_lists, n)), ones, csr_array((self._n_lists, 2 * n))], one, one)
        # Some weight is 1 or -1.
        nothing, eye = csr_array((n, m)), eye_array(n, format="csr")
        none = csr_array((n, n))
        self._add([csr_array((1, n + m)), csr_array(np.ones((1, 2 * n)))], np.ones(1), np.ones(1))
        self._add([eye, nothing, -2.0 * eye, none], np.full(n, -1.0), np.full(n, np.inf))
        self._add([eye, nothing, none, 2.0 * eye], np.full(n, -np.inf), np.full(n, 1.0))

    @property
    def n_rows(self) -> int:
        return sum(len(low) for _, low, _ in self._rows)

    def _add(self, parts: list[Any], low: FloatArray, high: FloatArray) -> None:
        """Add rows, given by their columns from left to right, with low <= row <= high."""
        self._rows.append((hstack(parts, format="csr"), low, high))

    def forbid(self, rows: list[int]) -> None:
        cut = np.zeros((1, len(self._objective)))
        cut[0, self._weights + np.array(rows)] = 1.0
        self._add([csr_array(cut)], np.full(1, -np.inf), np.full(1, len(rows) - 1.0))

    def solve(self, seconds: float) -> tuple[OptimizeResult, IntArray | None]:
        """Return how HiGHS ends within this time, and the rows of the selection [s] that it has found, if any."""
        matrices, low, high = zip(*self._rows, strict=True)
        whole = np.ones(len(self._objective), dtype=np.int64)
        whole[: self._weights] = 0
        least = np.concatenate([np.full(self._weights, -1.0), np.zeros(len(whole) - self._weights)])
        answer = milp(
            self._objective,
            integrality=whole,
            bounds=Bounds(least, np.ones(len(whole))),
            constraints=LinearConstraint(vstack(matrices, format="csr"), np.concatenate(low), np.concatenate(high)),
            options={"mip_rel_gap": 0.0, "time_limit": seconds},
        )
        if answer.x is None:
            return answer, None
        ones = np.flatnonzero(answer.x[self._chosen] > 0.5)
        return answer, ones if len(ones) == self._n_lists else None


def _normalised(rows: FloatArray) -> FloatArray:
    """Return rows [n, d] divided by their lengths, without coefficients too small for a solver."""
    rows = rows[rows.any(axis=1)]  # features that differ by less than doubles show tie for the program
    rows = rows / np.abs(rows).max(axis=1, keepdims=True)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(np.abs(rows) > _SMALLEST_COEFFICIENT, rows, 0.0)


def _time_left() -> float:
    left = time_left()
    return math.inf if left is None else left
