"""The problem as a mixed-integer program, for any solver that PuLP supports: a cross-check and a competitor.

A binary variable for each hypothesis says whether it is chosen. If it is, its comparisons with the other hypotheses of
the list must hold; if not, a large constant switches them off. The claims of the solver hold to its tolerances; weights
are checked exactly.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import highspy
import numpy as np
import pulp

from lpmert.configurable import option
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.limits import OutOfTime, checkpoint, time_left
from lpmert.model.canonical import Canonical
from lpmert.numeric.cone import LinOptimizer
from lpmert.quoting import quoted
from lpmert.search.method import Incumbent, Method, Search, Task

_PAUSE = 0.05  # most seconds to wait for the deadline after a solver has ended a little early
_LARGEST_OBJECTIVE = 1e6  # large costs are scaled so that the most expensive selection costs this

_OBJECTIVE_TOLERANCE = 1e-6
"""Subtracted from the solver's bound, relative to a bound above 1: solvers stop at about this absolute gap."""

_SMALLEST_COEFFICIENT = 1e-9
"""Solvers drop smaller entries; in rows of length 1, the effect is far below their feasibility tolerance."""


@dataclass(frozen=True)
class Mip(Method):
    """A mixed-integer program with weights in the box [-1, 1]^d. solver: a name that PuLP knows, in any letter case.

    Comparisons may be ties, and the weights must touch the surface of the box. Every attainable selection is then
    feasible, so the solver's bound holds for all weights. Selections that only ties attain are cut off by their cores.
    The callback is called only between two programs, and Ctrl-C takes effect when the solver has ended.
    """

    solver: str = option("highs", "a name that PuLP knows")

    name = "mip"

    def start(self, task: Task) -> Search:
        """Return a search; its solver gets the time left. Raises `MethodError` if the solver is not available."""
        return MipSearch(self, task.canonical, task.incumbent)


class MipSearch(Search):
    """A search in which each slice solves one program, to its end or to the time limit."""

    nodes = 0

    def __init__(self, settings: Mip, canonical: Canonical, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self._settings = settings
        self._canonical = canonical
        self._solver = _solver_class(settings.solver)
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
        """Whether the optimum is proved: a solver's claim is no proof."""
        return self.incumbent.cost == 0

    @property
    def lower_bound(self) -> int:
        return min(self._upper, self._bound)

    def counters(self) -> Mapping[str, int]:
        rows = 0 if self._program is None else self._program.program.numConstraints()
        return {"nodes": self.nodes, "programs": self._programs, "rows": rows, "cores": self._cores}

    def advance(self) -> None:
        if self._program is None:
            self._program = _Program(self._canonical, self._unit)
        checkpoint()
        limit = time_left()
        left = math.inf if limit is None else limit
        # Passing the program to the solver takes PuLP about as long as building it.
        answer = self._program.solve(self._solver, max(left - self._program.seconds, left / 10))
        self._programs += 1
        self.nodes += answer.nodes
        self._bound = max(self._bound, self._cost_of(answer.bound))
        try:
            attained = answer.selection is not None and self._take(self._program, answer.selection)
        except OutOfTime:
            return  # the bound still holds
        if answer.status == pulp.LpSolutionOptimal and answer.selection is not None:
            self._closed = attained or self.lower_bound >= self.incumbent.cost
        elif answer.status == pulp.LpSolutionInfeasible and self.unsettled is not None:
            self._closed = True
        elif answer.status == pulp.LpSolutionOptimal or math.isinf(left):
            status = pulp.LpSolution[answer.status]
            raise MethodError(f"solver {quoted(self._settings.solver)} gave up on the program: {status}")
        else:
            time.sleep(min(_PAUSE, time_left() or 0.0))

    def _cost_of(self, objective: float) -> int:
        if not math.isfinite(objective) or objective <= 0 or self._canonical.rounding is not None:
            return 0
        granularity = self._canonical.granularity
        safe = objective - _OBJECTIVE_TOLERANCE * max(1.0, objective)
        return max(0, math.ceil(safe * (self._unit / granularity))) * granularity

    def _take(self, program: _Program, selection: IntArray) -> bool:
        """Improve the incumbent by a selection [s], rows of the features; cut it off if no weights attain it."""
        verdict = self._optimizer.solve((np.arange(len(selection)), selection), start=self.incumbent.weights)
        if verdict.weights is not None:
            self.incumbent.improve(int(self._canonical.costs[selection].sum()), verdict.weights, "M")
            return True
        if verdict.attainable:
            self._leave_unsettled(int(self._canonical.costs[selection].sum()))
            program.forbid(selection.tolist())
        else:
            program.forbid(sorted({row for _, row, _ in verdict.core}))
            self._cores += 1
        return False


class _Outcome(NamedTuple):
    """The answer of a solver: rows of its selection, if any; its bound on the objective, 0 if it reports none."""

    status: int
    selection: IntArray | None
    bound: float
    nodes: int


class _Program:
    """The mixed-integer program, to which cuts can be added."""

    def __init__(self, canonical: Canonical, unit: float) -> None:
        started = time.perf_counter()
        self.program = program = pulp.LpProblem("lpmert", pulp.LpMinimize)
        self._offsets = canonical.offsets
        weights = [program.add_variable(f"w{d}", -1, 1) for d in range(canonical.n_features)]
        self._chosen = [program.add_variable(f"z{i}", cat=pulp.LpBinary) for i in range(len(canonical.costs))]
        self.program += pulp.LpAffineExpression(zip(self._chosen, (canonical.costs / unit).tolist(), strict=True))
        for begin, end in pairwise(canonical.offsets.tolist()):
            checkpoint()
            self.program += pulp.lpSum(self._chosen[begin:end]) == 1
            for i in range(begin, end):
                others = np.delete(canonical.features[begin:end], i - begin, axis=0)
                for row in _normalised(canonical.features[i] - others):
                    self._compare(weights, self._chosen[i], row)
        self._touch_surface(weights)
        self.seconds = time.perf_counter() - started

    def _compare(self, weights: list[Any], chosen: Any, row: FloatArray) -> None:
        """Add the constraint that row.w >= 0 if the binary variable is 1."""
        reach = float(np.abs(row).sum())
        terms = [(weights[d], float(row[d])) for d in np.flatnonzero(row)]
        self.program += pulp.LpAffineExpression([*terms, (chosen, -reach)]) >= -reach

    def _touch_surface(self, weights: list[Any]) -> None:
        high, low = (
            [self.program.add_variable(f"{one}{d}", cat=pulp.LpBinary) for d in range(len(weights))] for one in "hl"
        )
        self.program += pulp.lpSum(high) + pulp.lpSum(low) == 1
        for weight, up, down in zip(weights, high, low, strict=True):
            self.program += weight - 2 * up >= -1
            self.program += weight + 2 * down <= 1

    def forbid(self, rows: list[int]) -> None:
        self.program += pulp.lpSum(self._chosen[row] for row in rows) <= len(rows) - 1

    def solve(self, solver: type[Any], seconds: float) -> _Outcome:
        accepted = inspect.signature(solver.__init__).parameters
        options: dict[str, object] = {"msg": False, "gapRel": 0.0, "gapAbs": 0.0, "threads": 1}
        if math.isfinite(seconds):
            if "timeLimit" not in accepted:
                raise MethodError(f"solver {quoted(solver.name)} takes no time limit from PuLP; use 'highs'")
            options["timeLimit"] = seconds
        self.program.solve(solver(**{key: value for key, value in options.items() if key in accepted}))
        status = self.program.sol_status
        bound, nodes, selection = 0.0, 0, None
        model = getattr(self.program, "solverModel", None)
        if isinstance(model, highspy.Highs):
            info = model.getInfo()
            bound, nodes = float(info.mip_dual_bound), max(0, int(info.mip_node_count))
        elif status == pulp.LpSolutionOptimal and "gapRel" in accepted:
            bound = float(pulp.value(self.program.objective))
        if status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible):
            ones = np.flatnonzero([(variable.value() or 0.0) > 0.5 for variable in self._chosen])
            selection = ones if len(ones) == len(self._offsets) - 1 else None
        return _Outcome(status, selection, bound, nodes)


def _normalised(rows: FloatArray) -> FloatArray:
    """Return rows [n, d] divided by their lengths, without coefficients too small for a solver."""
    rows = rows[rows.any(axis=1)]  # equal rows in doubles tie in the program, even if the exact features differ
    rows = rows / np.abs(rows).max(axis=1, keepdims=True)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(np.abs(rows) > _SMALLEST_COEFFICIENT, rows, 0.0)


def _solver_class(name: str) -> type[Any]:
    """Return PuLP's class of a solver; raises `MethodError` if it is unknown or not installed."""
    available = {found.lower(): found for found in pulp.listSolvers(onlyAvailable=True)}
    if name.lower() not in available:
        names = ", ".join(sorted(available))
        raise MethodError(f"PuLP finds no solver {quoted(name)} here; available: {names}")
    found: type[Any] = type(pulp.getSolver(available[name.lower()], msg=False))
    return found
