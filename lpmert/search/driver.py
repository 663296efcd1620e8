"""The one driver of all methods: first weights, limits, progress, interrupts, and the result."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from lpmert.errors import MethodError
from lpmert.model.canonical import CallerWeights, CanonicalWeights
from lpmert.model.problem import Problem
from lpmert.quoting import quoted
from lpmert.result import Callback, Limits, Progress, Result, Status, relative_gap
from lpmert.search.checkpoint import Checkpoint, Keeping, State, asked_for, opened
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
    """Find the least loss, and prove it if the method does, as far as the limits allow.

    initial_weights [D] of the caller start the search as well as they can. started: the `time.perf_counter()` from
    which the time limit counts. keeping: the file of checkpoints, and whether to go on from it. Raises `MethodError`
    where the method cannot take the problem's metric or region, or keeps no checkpoints, `RegionError` for an empty
    region, `DataError` for a file that does not fit.
    """
    _check(method, problem)
    if keeping is not None and not method.keeps_checkpoints:
        raise MethodError(
            f"method {quoted(method.name)} keeps no checkpoints; use auto, cells, choices, groups or lp-mert"
        )

    def begin(
        checkpoint: Checkpoint | None, course: Course, find: Callable[[Callable[[], Incumbent]], Incumbent]
    ) -> Search:
        initial = None if initial_weights is None else problem.to_canonical(initial_weights)
        initial = initial if initial is not None and initial.any() else None

        def first() -> Incumbent:
            try:
                known = incumbent_of(checkpoint, problem.canonical.n_features)
                return known or find(lambda: first_incumbent(problem, seed, initial))
            except KeyboardInterrupt:
                return any_incumbent(problem.canonical)

        search = _search(method, Task(problem, problem.canonical, first, course, seed, initial))
        if problem.reduced:
            give_back()
        restore(search, checkpoint)
        return search

    def report(search: Search, outcome: Outcome) -> Callable[[], Result]:
        ended = Ended.of(search)

        def result() -> Result:
            problem.canonical.let_go()
            if problem.reduced:
                give_back()
            return ended.conclude(result_of(method, problem, ended, outcome, seed, initial_weights))

        return result

    def asked() -> dict[str, str]:
        return asked_for(problem.nbest.fingerprint, problem.signature, method.settings(), seed, initial_weights)

    with opened(keeping, asked) as checkpoint:
        room = _ROOM * problem.canonical.features.nbytes
        return run(problem, partial(begin, checkpoint), report, limits, callback, started, checkpoint, room)


def run(
    problem: Problem | LatticeProblem,
    begin: Callable[[Course, Callable[[Callable[[], Incumbent]], Incumbent]], Search],
    report: Callable[[Search, Outcome], Callable[[], Result]],
    limits: Limits | None,
    callback: Callback | None,
    started: float | None,
    checkpoint: Checkpoint | None = None,
    room: int = 0,
) -> Result:
    """Begin a search, drive it as far as the limits allow, and report it.

    begin: gets what looks after the limits, and a function that takes the time of finding first weights. An interrupt
    within that ends the search, and reaches `begin`. report: takes what it needs of the search, which is let go before
    the result is made. room: bytes that the report takes for a while.
    """
    limits = limits or Limits()
    interrupts = Interrupts()
    stop = also_outside(lambda: interrupts.pressed)
    deadline = Deadline(limits.time_limit, started, stop, Allowance(limits.memory_limit, room))
    course = Course(problem, limits, callback, deadline, lambda: interrupts.pressed, checkpoint)
    seconds: dict[str, float] = {}

    def find(search: Callable[[], Incumbent]) -> Incumbent:
        began = deadline.seconds
        try:
            return search()
        except KeyboardInterrupt:
            interrupts.pressed = True
            raise
        finally:
            seconds["incumbent"] = deadline.seconds - began

    with interrupts, deadline.running():
        seconds["prepare"] = deadline.seconds
        with course.going_on():
            search = begin(course, find)
        outcome = course.drive(search)
        searched = deadline.seconds
        seconds["search"] = searched - sum(seconds.values())
        with deadline.later(_REPORT_SECONDS).running(), course.going_on():
            finish = report(search, outcome)
            del search
            result = finish()
        seconds["report"] = deadline.seconds - searched
        resumed = checkpoint is not None and checkpoint.state is not None
        return replace(result, resumed=resumed).with_seconds(**seconds, total=deadline.seconds)


def _check(method: Method, problem: Problem) -> None:
    canonical = problem.canonical
    if not (canonical.additive or method.takes_ratios or (canonical.totals.fraction and method.takes_fractions)):
        raise MethodError(
            f"method {quoted(method.name)} needs an additive loss, and metric {quoted(problem.metric.name)} is not "
            "additive; use auto, cells or choices"
        )
    if not (canonical.cap is None or method.takes_caps):
        raise MethodError(f"method {quoted(method.name)} cannot keep to a cosine; use auto, choices, cells or lp-mert")


def _search(method: Method, task: Task) -> Search:
    canonical = task.canonical
    if canonical.n_features == 0 or canonical.n_lists == 0:
        return DirectSearch(task.incumbent, lambda: None, proves=method.proves)
    if not canonical.additive and canonical.totals.fraction and method.takes_fractions:
        return FractionSearch(canonical, task.incumbent, lambda *inner: method.start(task.about(*inner)))
    return method.start(task)


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


class Course(Watch):
    """How a search goes: its trace, and how it is to end. `status` is `None` until then."""

    def __init__(
        self,
        problem: Problem | LatticeProblem,
        limits: Limits,
        callback: Callback | None,
        deadline: Deadline,
        pressed: Callable[[], bool] = lambda: False,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.status: Status | None = None
        self._problem, self._limits, self._callback = problem, limits, callback
        self._deadline, self._pressed = deadline, pressed
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
        with self.going_on():
            bound = search.lower_bound
            try:
                while (status := self._look(search, bound)) is None:
                    with self._deadline.running(), heeding():
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

    def going_on(self) -> AbstractContextManager[None]:
        """Let a search that rests on a checkpoint fail by the fault of that: its numbers are not all looked at before.

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
                self._trace.append((self._deadline.seconds, *point))
                if len(self._trace) > _TRACE:
                    del self._trace[1:-1:2]

    def glance(self, search: Search) -> bool:
        """Tell the callback from time to time, and return whether to stop; for the middle of a slice."""
        if self.status is None:
            self.status = self._ending(search, None)
        if self.status is None and self._deadline.seconds >= self._told + _PAUSE:
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
        self._told, self._told_cost = self._deadline.seconds, incumbent.cost
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
        if self._pressed():
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
        if self._deadline.expired:
            return self._cut_short()
        if limits.node_limit is not None and search.nodes >= limits.node_limit:
            return Status.NODE_LIMIT
        if limits.memory_limit is not None and search.memory > limits.memory_limit:
            return Status.MEMORY_LIMIT
        return None

    def _cut_short(self) -> Status:
        """Return why there is no more time."""
        if self._pressed():
            return Status.INTERRUPTED
        return Status.MEMORY_LIMIT if self._deadline.out_of_memory else Status.TIME_LIMIT
