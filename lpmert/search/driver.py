"""The one driver of all methods: first weights, limits, progress, interrupts, and the result.

`minimize` calls `Solver.solve`, which calls `Driver.drive`, which calls `Search.advance`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import numpy as np

from lpmert.errors import MethodError
from lpmert.model.canonical import CallerWeights, CanonicalWeights
from lpmert.model.problem import Problem
from lpmert.quoting import quoted
from lpmert.result import Callback, Limits, Progress, Result, Status, relative_gap
from lpmert.search.checkpoint import Checkpoint, Keeping, State, identity_of, opened
from lpmert.search.fractional import FractionSearch
from lpmert.search.incumbent import any_incumbent, first_incumbent
from lpmert.search.method import DirectSearch, Incumbent, Method, Search, Task, Watch
from lpmert.search.report import Ended, Outcome, result_of
from lpmert.system.deadline import Deadline, OutOfTime, also_outside, heeding, unheeded
from lpmert.system.interrupts import Interrupts
from lpmert.system.memory import Allowance, give_back

if TYPE_CHECKING:
    from lpmert.model.lattice_problem import LatticeProblem

logger = logging.getLogger("lpmert")

_REPORT_SECONDS = 0.5
"""What the weights may take beyond the time limit to be moved into the middle of their cell."""

_ROOM = 1
"""How many times as much memory as the features a report takes, beside what the search gives back before it."""

_TRACE = 1000
"""Points that a trace has at most: beyond these, every second one is dropped."""

_PAUSE = 0.1
"""Least time between two calls of the callback within one slice."""


def solve(
    method: Method,
    problem: Problem,
    limits: Limits | None = None,
    callback: Callback | None = None,
    seed: int = 0,
    initial_weights: CallerWeights | None = None,
    started: float | None = None,
    keeping: Keeping | None = None,
) -> Result:
    """Find the least loss on lists, and prove it if the method does, as far as the limits allow; see `Solver`.

    Raises `MethodError` where the method cannot take the problem's metric or region, or keeps no checkpoints,
    `RegionError` for an empty region, `DataError` for a file that does not fit.
    """
    return ListSolver(method, problem, limits, callback, seed, initial_weights, started, keeping).solve()


P = TypeVar("P", bound="Problem | LatticeProblem")


class Solver(ABC, Generic[P]):
    """One problem and one method, from first weights to the result; what differs on lists and on lattices is abstract.

    initial_weights [D] of the caller start the search as well as they can. started: the `time.perf_counter()` from
    which the time limit counts. keeping: the file of checkpoints, and whether to go on from it.
    """

    def __init__(
        self,
        method: Method,
        problem: P,
        limits: Limits | None = None,
        callback: Callback | None = None,
        seed: int = 0,
        initial_weights: CallerWeights | None = None,
        started: float | None = None,
        keeping: Keeping | None = None,
    ) -> None:
        self._method, self._problem, self._limits, self._seed = method, problem, limits or Limits(), seed
        self._initial, self._keeping = initial_weights, keeping
        self._callback, self._started = callback, started
        self._incumbent_seconds: float | None = None

    def solve(self) -> Result:
        """Start the search, drive it as far as the limits allow, and report it.

        Ctrl-C while first weights are looked for ends the search with any weights. The search is let go before the
        result is made.
        """
        self._check()
        room = _ROOM * self._problem.canonical.features.nbytes
        interrupts = Interrupts()
        with opened(self._keeping, self._identity) as checkpoint:
            stop = also_outside(lambda: interrupts.pressed)
            memory = Allowance(self._limits.memory_limit, room)
            deadline = Deadline(self._limits.time_limit, self._started, stop, memory)
            self._driver = driver = Driver(
                self._problem, self._limits, self._callback, deadline, interrupts, checkpoint
            )
            with interrupts, deadline.running():
                prepared = deadline.seconds
                with driver.trusting_checkpoint():
                    search = self._begun(checkpoint)
                outcome = driver.drive(search)
                searched = deadline.seconds
                with deadline.later(_REPORT_SECONDS).running(), driver.trusting_checkpoint():
                    self._let_go(search)
                    del search
                    result = self._report(outcome)
                seconds = {"prepare": prepared, "search": searched - prepared, "report": deadline.seconds - searched}
                if self._incumbent_seconds is not None:
                    seconds["incumbent"] = self._incumbent_seconds
                    seconds["search"] -= self._incumbent_seconds
                resumed = checkpoint is not None and checkpoint.state is not None
                return replace(result, resumed=resumed).with_seconds(**seconds, total=deadline.seconds)

    def _begun(self, checkpoint: Checkpoint | None) -> Search:
        """Return the search, which goes on from the checkpoint if there is something to go on from."""
        canonical = self._problem.canonical
        initial = None if self._initial is None else self._problem.to_canonical(self._initial)
        self._canonical_initial = initial if initial is not None and initial.any() else None

        def first() -> Incumbent:
            return incumbent_of(checkpoint, canonical.n_features) or self._timed_first_weights()

        lists = cast(Problem, self._problem)  # a method that takes lattices asks of it what both kinds have
        search = self._start(Task(lists, canonical, first, self._driver, self._seed, self._canonical_initial))
        restore(search, checkpoint)
        return search

    def _timed_first_weights(self) -> Incumbent:
        began = self._driver.deadline.seconds
        try:
            return self._first_weights()
        except KeyboardInterrupt:
            self._driver.interrupts.pressed = True
            return self._any_weights()
        finally:
            self._incumbent_seconds = self._driver.deadline.seconds - began

    def _identity(self) -> Mapping[str, str]:
        """Return what tells this search from others, by names that a message can use."""
        problem, settings = self._problem, self._method.settings()
        return identity_of(problem.fingerprint, problem.signature, settings, self._seed, self._initial)

    @abstractmethod
    def _check(self) -> None:
        """Raise `MethodError` where the method cannot take the problem, or keeps no checkpoints."""

    @abstractmethod
    def _first_weights(self) -> Incumbent:
        """Return good weights to begin with, which takes a while."""

    @abstractmethod
    def _any_weights(self) -> Incumbent:
        """Return any weights of the region, at once."""

    @abstractmethod
    def _start(self, task: Task) -> Search:
        """Return the search of a task."""

    @abstractmethod
    def _let_go(self, search: Search) -> None:
        """Take what the report needs of the search."""

    @abstractmethod
    def _report(self, outcome: Outcome) -> Result:
        """Return the result."""


class ListSolver(Solver[Problem]):
    """A problem on N-best lists."""

    def _check(self) -> None:
        canonical, method = self._problem.canonical, self._method
        if not (canonical.additive or method.takes_ratios or (canonical.totals.fraction and method.takes_fractions)):
            raise MethodError(
                f"method {quoted(method.name)} needs an additive loss, and metric {quoted(self._problem.metric.name)} "
                "is not additive; use auto, cells or choices"
            )
        if not (canonical.cap is None or method.takes_caps):
            raise MethodError(
                f"method {quoted(method.name)} cannot keep to a cosine; use auto, choices, cells or lp-mert"
            )
        if self._keeping is not None and not method.keeps_checkpoints:
            raise MethodError(
                f"method {quoted(method.name)} keeps no checkpoints; those that prove an optimum do: use auto"
            )

    def _first_weights(self) -> Incumbent:
        return first_incumbent(self._problem, self._seed, self._canonical_initial)

    def _any_weights(self) -> Incumbent:
        return any_incumbent(self._problem.canonical)

    def _start(self, task: Task) -> Search:
        canonical, method = task.canonical, self._method
        if canonical.n_features == 0 or canonical.n_lists == 0:
            search: Search = DirectSearch(task.incumbent, lambda: None, proves=method.proves)
        elif not canonical.additive and canonical.totals.fraction and method.takes_fractions:
            search = FractionSearch(canonical, task.incumbent, lambda *inner: method.start(task.about(*inner)))
        else:
            search = method.start(task)
        if self._problem.reduced:
            give_back()
        return search

    def _let_go(self, search: Search) -> None:
        self._ended = Ended.of(search)

    def _report(self, outcome: Outcome) -> Result:
        problem = self._problem
        problem.canonical.let_go()
        if problem.reduced:
            give_back()
        return self._ended.conclude(result_of(self._method, problem, self._ended, outcome, self._seed, self._initial))


def _state(search: Search) -> State:
    found = search.incumbent
    return {"cost": found.cost, "weights": found.weights, "source": found.source, "search": search.state()}


def incumbent_of(checkpoint: Checkpoint | None, n_features: int) -> Incumbent | None:
    """Return the best weights of a checkpoint, if there are any."""
    if checkpoint is None or checkpoint.state is None:
        return None
    with checkpoint.restoring():
        cost, weights, source = (checkpoint.state[name] for name in ("cost", "weights", "source"))
        if weights.shape != (n_features,) or not np.isfinite(weights).all():
            raise ValueError(f"weights {weights}")
        return Incumbent(int(cost), CanonicalWeights(weights), source)


def restore(search: Search, checkpoint: Checkpoint | None) -> None:
    """Let a search that has not begun go on from a checkpoint, if there is something to go on from."""
    if checkpoint is None or checkpoint.state is None:
        return
    with checkpoint.restoring():
        kept = checkpoint.state["search"]
        search.restore(kept)
    if not kept:
        logger.warning("no more was kept of this search than its best weights: the proof begins anew")


class Driver(Watch):
    """Lets a search advance slice by slice, and notes how: its trace, and its `status`, `None` until it ends."""

    def __init__(
        self,
        problem: Problem | LatticeProblem,
        limits: Limits,
        callback: Callback | None,
        deadline: Deadline,
        interrupts: Interrupts | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.status: Status | None = None
        self.deadline, self.interrupts = deadline, interrupts or Interrupts()
        self._problem, self._limits, self._callback = problem, limits, callback
        self._checkpoint = checkpoint
        self._trace: list[tuple[float, float | None, float]] = []
        self._told = -inf
        self._told_cost: int | None = None
        self._of_callback: BaseException | None = None

    def drive(self, search: Search) -> Outcome:
        """Run a search until it is finished, a limit is reached, the callback answers true, or Ctrl-C is pressed.

        Every way out leaves a valid incumbent and bound. A slice that is given up in the middle counts for what it did
        to the incumbent; the bound stays what it was before.
        """
        with self.trusting_checkpoint():
            bound = search.lower_bound
            try:
                while (status := self._look(search, bound)) is None:
                    with self.deadline.running(), heeding():
                        search.advance()
                    bound = search.lower_bound
                    self._keep(search)
            except OutOfTime:
                status = self._cut_short()
            except KeyboardInterrupt:
                logger.info("interrupted; the last incumbent and bound are returned")
                status = Status.INTERRUPTED
            self._keep(search, now=True)
        found = search.incumbent
        bound = None if bound is None else min(bound, found.cost)
        self.note(search, bound)
        return Outcome(status, found.cost, found.weights, bound, tuple(self._trace))

    def trusting_checkpoint(self) -> AbstractContextManager[None]:
        """Blame the checkpoint, whose numbers are not all checked before, for errors of a search that goes on from it.

        An error of the callback is none of these.
        """
        if self._checkpoint is None or self._checkpoint.state is None:
            return nullcontext()
        return self._checkpoint.restoring(lambda error: error is self._of_callback)

    def _keep(self, search: Search, *, now: bool = False) -> None:
        if self._checkpoint is not None:
            self._checkpoint.keep(lambda: _state(search), now=now)

    def note(self, search: Search, bound: int | None = None) -> None:
        """Add to the trace what has changed."""
        if search.known:
            point = self._standing(search, bound)
            if not self._trace or point != self._trace[-1][1:]:
                self._trace.append((self.deadline.seconds, *point))
                if len(self._trace) > _TRACE:
                    del self._trace[1:-1:2]

    def glance(self, search: Search) -> bool:
        """Tell the callback from time to time, and return whether to stop; for the middle of a slice."""
        if self.status is None:
            self.status = self._ending(search, None)
        if self.status is None and self.deadline.seconds >= self._told + _PAUSE:
            self._tell(search, None)
        return self.status is not None

    def _look(self, search: Search, bound: int | None) -> Status | None:
        self.note(search, bound)
        if self.status is None:
            self.status = self._ending(search, bound)
            self._tell(search, bound)
        return self.status

    def _standing(self, search: Search, bound: int | None) -> tuple[float | None, float]:
        lower = None if bound is None else self._problem.canonical.loss_of(bound)
        return lower, self._problem.canonical.loss_of(search.incumbent.cost)

    def _tell(self, search: Search, bound: int | None) -> None:
        if self._callback is None or not search.known:
            return
        lower, loss = self._standing(search, bound)
        incumbent = search.incumbent
        source = incumbent.source if self._told_cost is None or incumbent.cost < self._told_cost else ""
        self._told, self._told_cost = self.deadline.seconds, incumbent.cost
        counts = search.nodes, search.open_nodes
        gap, weights = relative_gap(loss, lower), self._problem.to_caller(incumbent.weights)
        point = Progress(self._told, *counts, lower, loss, gap, search.lps, source, weights, search.phase)
        try:
            with unheeded():
                wished = self._callback(point)
        except BaseException as error:
            self._of_callback = error
            raise
        if wished and self.status is None:
            self.status = Status.CALLBACK

    def _ending(self, search: Search, bound: int | None) -> Status | None:
        if self.interrupts.pressed:
            return Status.INTERRUPTED
        if search.finished:
            if bound is None:
                return Status.HEURISTIC
            return Status.OPTIMAL if search.settled else Status.OPTIMAL_TO_TOLERANCE
        limits = self._limits
        if search.known:
            lower, loss = self._standing(search, bound)
            gap = relative_gap(loss, lower)
            if limits.gap is not None and gap is not None and gap <= limits.gap:
                return Status.GAP
            if limits.target is not None and loss <= limits.target:
                return Status.TARGET
        if self.deadline.expired:
            return self._cut_short()
        if limits.node_limit is not None and search.nodes >= limits.node_limit:
            return Status.NODE_LIMIT
        if limits.memory_limit is not None and search.memory > limits.memory_limit:
            return Status.MEMORY_LIMIT
        return None

    def _cut_short(self) -> Status:
        """Return why there is no more time."""
        if self.interrupts.pressed:
            return Status.INTERRUPTED
        return Status.MEMORY_LIMIT if self.deadline.out_of_memory else Status.TIME_LIMIT
