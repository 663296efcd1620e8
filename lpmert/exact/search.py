"""What the searches share: incumbent, the contract of a resumable search, and the loop that drives one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from lpmert.coordinates import CanonicalWeights
from lpmert.deadline import Deadline, OutOfTime, heeding, unheeded
from lpmert.problem import Problem
from lpmert.result import Callback, FloatArray, Limits, Progress, Status, relative_gap

logger = logging.getLogger("lpmert")


@dataclass
class Incumbent:
    """The best weights so far, canonical [d], and their cost; `source` is a letter for what found them."""

    cost: int
    weights: CanonicalWeights
    source: str

    def improve(self, cost: int, weights: FloatArray, source: str) -> bool:
        """Take these weights if they cost less."""
        if cost >= self.cost:
            return False
        self.cost, self.source = int(cost), source
        self.weights = CanonicalWeights(np.array(weights, dtype=np.float64))
        return True


class Search(Protocol):
    """A search that works in slices and can stop after any of them.

    `lower_bound` is a cost that no attainable selection undercuts; it never exceeds the incumbent's. `unsettled` is the
    least cost of a selection that is attainable exactly but by no double-precision weights, or `None`.
    """

    incumbent: Incumbent

    @property
    def unsettled(self) -> int | None: ...

    @property
    def finished(self) -> bool: ...

    @property
    def lower_bound(self) -> int: ...

    @property
    def nodes(self) -> int: ...

    @property
    def open_nodes(self) -> int: ...

    @property
    def lps(self) -> int: ...

    @property
    def memory(self) -> int:
        """Bytes held for open nodes."""

    def advance(self) -> None:
        """Work for a slice of about a twentieth of a second, or until finished."""

    def counters(self) -> Mapping[str, int]:
        """Return what was counted, by name."""


@dataclass
class Outcome:
    """How driving a search ended; cost units are the problem's."""

    status: Status
    cost: int
    weights: CanonicalWeights
    lower_bound: int
    seconds: float
    trace: list[tuple[float, float | None, float]] = field(default_factory=list)


def drive(
    problem: Problem,
    search: Search,
    limits: Limits,
    callback: Callback | None,
    deadline: Deadline,
    pressed: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Run a search until it is finished, a limit is reached, the callback answers true, or Ctrl-C is pressed.

    The time limit is the deadline's. Every way out leaves a valid incumbent and bound. A slice that is given up in the
    middle counts for what it did to the incumbent; the bound stays what it was before.
    """
    loss_of = problem.canonical.loss_of
    trace: list[tuple[float, float | None, float]] = []
    reported = search.incumbent.cost + 1
    status = None
    cost, weights, bound = search.incumbent.cost, search.incumbent.weights, search.lower_bound
    try:
        while True:
            cost, weights, bound = search.incumbent.cost, search.incumbent.weights, search.lower_bound
            loss, lower = loss_of(cost), loss_of(bound)
            seconds = deadline.seconds
            if not trace or (lower, loss) != trace[-1][1:]:
                trace.append((seconds, lower, loss))
            status = Status.INTERRUPTED if pressed() else _ending(search, limits, seconds, loss, lower)
            if callback is not None:
                source = search.incumbent.source if cost < reported else ""
                reported = cost
                gap = relative_gap(loss, lower)
                point = Progress(
                    seconds,
                    search.nodes,
                    search.open_nodes,
                    lower,
                    loss,
                    gap,
                    search.lps,
                    source,
                    problem.to_caller(weights),
                )
                with unheeded():
                    wished = callback(point)
                if wished and status is None:
                    status = Status.CALLBACK
            if status is not None:
                break
            with deadline.running(), heeding():
                search.advance()
    except OutOfTime:
        status = Status.INTERRUPTED if pressed() else Status.TIME_LIMIT
        if search.incumbent.cost < cost:
            cost, weights = search.incumbent.cost, search.incumbent.weights
            bound = min(bound, cost)
            trace.append((deadline.seconds, loss_of(bound), loss_of(cost)))
    except KeyboardInterrupt:
        logger.info("interrupted; the last incumbent and bound are returned")
        status = Status.INTERRUPTED
    return Outcome(status, cost, weights, bound, deadline.seconds, trace)


def _ending(search: Search, limits: Limits, seconds: float, loss: float, lower: float) -> Status | None:
    if search.finished:
        settled = search.unsettled is None or search.unsettled >= search.incumbent.cost
        return Status.OPTIMAL if settled else Status.OPTIMAL_TO_TOLERANCE
    gap = relative_gap(loss, lower)
    if limits.gap is not None and gap is not None and gap <= limits.gap:
        return Status.GAP
    if limits.target is not None and loss <= limits.target:
        return Status.TARGET
    if limits.time_limit is not None and seconds >= limits.time_limit:
        return Status.TIME_LIMIT
    if limits.node_limit is not None and search.nodes >= limits.node_limit:
        return Status.NODE_LIMIT
    if limits.memory_limit is not None and search.memory > limits.memory_limit:
        return Status.MEMORY_LIMIT
    return None


class UnboundedSearch:
    """What a search has that knows no bound above 0 before its end."""

    def __init__(self, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self.unsettled: int | None = None
        self.finished = False
        self.nodes = 0
        self.lps = 0
        self.memory = 0

    @property
    def lower_bound(self) -> int:
        if not self.finished:
            return 0
        return self.incumbent.cost if self.unsettled is None else min(self.unsettled, self.incumbent.cost)

    @property
    def open_nodes(self) -> int:
        return 0 if self.finished else 1

    def counters(self) -> Mapping[str, int]:
        return {"nodes": self.nodes, "lps": self.lps}


class DirectSearch(UnboundedSearch):
    """A search that is done in one step: `settle` improves the incumbent and returns the cost left unsettled, or
    `None`.
    """

    def __init__(self, incumbent: Incumbent, settle: Callable[[], int | None]) -> None:
        super().__init__(incumbent)
        self._settle = settle

    def advance(self) -> None:
        self.unsettled = self._settle()
        self.nodes = 1
        self.finished = True
