"""The contract of a comparator: a heuristic that proves nothing, on the same problem and with the same report as the
exact methods.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar

import numpy as np

from lpmert import __version__
from lpmert.configurable import Configurable
from lpmert.coordinates import CallerWeights, CanonicalWeights, UnmergedWeights
from lpmert.deadline import Deadline, OutOfTime, heeding, out_of_time, unheeded
from lpmert.evaluation import Evaluation
from lpmert.form import Canonical
from lpmert.interrupts import Interrupts
from lpmert.kernels import decode
from lpmert.problem import Problem
from lpmert.result import Callback, FloatArray, Limits, Progress, Result, Status

logger = logging.getLogger("lpmert")

_REPORT_SECONDS = 0.1
"""Least time between two calls of the callback."""

_TIE_DRAWS = 4
_TIE_SIZES = tuple(10.0 ** (exponent / 2) for exponent in range(-24, -3))
"""Weights that hang on a tie are moved by steps of these sizes, relative to the largest weight."""


@dataclass(frozen=True)
class Found:
    """Where a comparator ended: canonical weights [d], and what it counted, by name."""

    weights: FloatArray
    counters: Mapping[str, int] = field(default_factory=dict)


class Clock:
    """Tells a comparator when its limits are used up, and keeps the best of the weights that it shows.

    A comparator calls `keep` with every set of weights that it may have to stand by, and ends soon after `expired`
    has answered true. `best` [d] are the kept weights with the least `loss`, `None` before the first; trace holds
    (seconds, None, loss) for each improvement.
    """

    def __init__(
        self,
        problem: Problem,
        limits: Limits | None = None,
        callback: Callback | None = None,
        started: float | None = None,
        interrupts: Interrupts | None = None,
    ) -> None:
        self.status: Status | None = None
        self.steps = 0
        self.best: CanonicalWeights | None = None
        self.loss = inf
        self.trace: list[tuple[float, float | None, float]] = []
        self._problem = problem
        self._limits = Limits() if limits is None else limits
        self._callback = callback
        self._deadline = Deadline(self._limits.time_limit, started)
        self._interrupts = interrupts
        self._reported = -inf
        self._improved = False

    @property
    def seconds(self) -> float:
        """Time since the start, without that for compiling kernels."""
        return self._deadline.seconds

    def keep(self, weights: FloatArray, loss: float | None = None) -> float:
        """Remember weights [d] if they are better than those before, and return their loss.

        loss: that of decoding with them, where it is known; otherwise they are decoded here.
        """
        known = decoded_loss(self._problem.canonical, weights) if loss is None else loss
        if known < self.loss:
            self.best, self.loss = CanonicalWeights(np.array(weights, dtype=np.float64)), known
            self.trace.append((self.seconds, None, known))
            self._improved = True
        return known

    def expired(self, steps: int = 1) -> bool:
        """Count steps of work, tell the callback from time to time, and return whether to stop."""
        self.steps += steps
        if self.status is None:
            self.status = self._ending()
        return self.status is not None

    def _ending(self) -> Status | None:
        if self._interrupts is not None and self._interrupts.pressed:
            return Status.INTERRUPTED
        limits, seconds = self._limits, self.seconds
        if limits.target is not None and self.loss <= limits.target:
            return Status.TARGET
        if (limits.time_limit is not None and seconds >= limits.time_limit) or out_of_time():
            return Status.TIME_LIMIT
        if limits.node_limit is not None and self.steps >= limits.node_limit:
            return Status.NODE_LIMIT
        if self._callback is None or self.best is None or seconds < self._reported + _REPORT_SECONDS:
            return None
        self._reported = seconds
        source = "L" if self._improved else ""
        self._improved = False
        weights = self._problem.to_caller(self.best)
        point = Progress(seconds, self.steps, 0, None, self.loss, None, 0, source, weights)
        with unheeded():
            return Status.CALLBACK if self._callback(point) else None


class Comparator(Configurable, ABC):
    """A frozen dataclass of options that looks for good weights and proves nothing."""

    takes_jobs: ClassVar[bool] = False

    @property
    def random(self) -> bool:
        """Whether the seed matters."""
        return True

    @abstractmethod
    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the weights that the method ends with; raises `MethodError` if it cannot take the problem.

        start: canonical weights [d], not all 0, or `None`. All that is random comes from `seed`. The problem has at
        least one feature and one list.
        """

    def with_jobs(self, jobs: int) -> Comparator:
        """Return the method as it is: it uses one thread."""
        del jobs
        return self

    def solve(
        self,
        problem: Problem,
        limits: Limits | None = None,
        callback: Callback | None = None,
        seed: int = 0,
        initial_weights: CallerWeights | None = None,
        started: float | None = None,
    ) -> Result:
        """Run the method and report what decoding with its weights gives.

        initial_weights [D] of the caller start the method, where it starts from weights at all. started: the
        `time.perf_counter()` from which the time limit counts. A step counts as a node; `limits.gap` has no meaning
        here. Weights whose loss hangs on a tie are moved until it does not: no loss is below the optimum. Raises
        `RegionError` for an empty region.
        """
        limits = limits or Limits()
        interrupts = Interrupts()
        deadline = Deadline(limits.time_limit, started, lambda: interrupts.pressed)
        with interrupts, deadline.running():
            return self._solve(problem, limits, callback, seed, initial_weights, deadline, interrupts)

    def _solve(
        self,
        problem: Problem,
        limits: Limits,
        callback: Callback | None,
        seed: int,
        initial_weights: CallerWeights | None,
        deadline: Deadline,
        interrupts: Interrupts,
    ) -> Result:
        prepared = deadline.seconds
        clock = Clock(problem, limits, callback, deadline.started, interrupts)
        start = None if initial_weights is None else problem.to_canonical(initial_weights)
        if start is not None and not start.any():
            start = None
        status = Status.INTERRUPTED
        counters: Mapping[str, int] = {}
        form = problem.canonical
        weights = CanonicalWeights(np.ones(form.n_features)) if form.interior is None else form.interior
        weights = weights if start is None else start
        try:
            if form.n_features and form.n_lists and not (deadline.expired and clock.expired(0)):
                with heeding():
                    found = self.run(problem, start, seed, clock)
                weights, counters = CanonicalWeights(found.weights), found.counters
            status = clock.status or Status.HEURISTIC
        except OutOfTime:
            status = Status.INTERRUPTED if interrupts.pressed else Status.TIME_LIMIT
            weights = weights if clock.best is None else clock.best
        except KeyboardInterrupt:
            logger.info("interrupted; the best weights so far are returned")
            weights = weights if clock.best is None else clock.best
        weights = _within_region(problem, weights, clock.best)
        searched = deadline.seconds
        try:
            given, evaluation = _clear_of_ties(problem, weights, seed)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
            given = l1_normalised(problem.to_caller(weights))
            evaluation = problem.evaluate(given)
        ended = deadline.seconds
        return Result(
            weights=given,
            names=problem.nbest.names,
            loss=evaluation.loss,
            score=evaluation.score,
            lower_bound=None,
            status=status,
            method=self.name,
            statistics=evaluation.statistics,
            selection=evaluation.selection,
            margin=evaluation.margin,
            signature=f"lpmert:{__version__}|{problem.signature}|method:{self.settings()}|seed:{seed}",
            fingerprint=problem.nbest.fingerprint,
            seed=seed,
            tied_lists=evaluation.tied_lists,
            loss_best_ties=evaluation.loss_best_ties,
            loss_worst_ties=evaluation.loss_worst_ties,
            free=problem.free,
            region=problem.distances(given),
            counters={**_sizes(problem), "steps": clock.steps, **counters},
            seconds={
                "prepare": prepared,
                "search": searched - prepared,
                "report": ended - searched,
                **({"compile": deadline.compiling} if deadline.compiling else {}),
                "total": ended + deadline.compiling,
            },
            trace=tuple(clock.trace),
        )


def decoded_loss(canonical: Canonical, weights: FloatArray) -> float:
    """Return the loss of decoding canonical weights [d] in floating point, infinite outside of the region.

    The first hypothesis wins on ties.
    """
    if (canonical.limits @ weights < 0.0).any():
        return inf
    if canonical.cap is not None and canonical.cap.cosine_of(weights) < canonical.cap.cosine:
        return inf
    selection = np.empty(canonical.n_lists, dtype=np.int64)
    decode(canonical.features, canonical.offsets, weights, selection)
    if canonical.additive:
        return canonical.loss_of(int(canonical.costs[selection].sum()))
    totals = canonical.totals
    return totals.metric.loss(totals.constant + totals.statistics[selection].sum(axis=0))


def l1_normalised(weights: FloatArray) -> CallerWeights:
    """Return weights [D] with absolute values that sum to 1; all zeros become equal weights."""
    largest = np.abs(weights).max(initial=0.0)
    if largest == 0.0:
        return CallerWeights(np.full(len(weights), 1.0 / max(1, len(weights))))
    scaled = weights / largest
    return CallerWeights(scaled / np.abs(scaled).sum())


def _within_region(problem: Problem, weights: CanonicalWeights, best: CanonicalWeights | None) -> CanonicalWeights:
    """Return these weights [d] if they lie in the region, or else the best ones, or any that do."""
    if problem.inside(problem.to_caller(weights)):
        return weights
    logger.warning("the method left the region; the best weights that it met inside are returned")
    if best is not None and problem.inside(problem.to_caller(best)):
        return best
    return weights if problem.canonical.interior is None else problem.canonical.interior


def _clear_of_ties(problem: Problem, weights: CanonicalWeights, seed: int) -> tuple[CallerWeights, Evaluation]:
    """Return weights [D] of the caller, moved as little as makes their loss independent of ties, and what they give."""
    found = problem.to_caller(weights)
    given = l1_normalised(found)
    evaluation = problem.evaluate(given)
    lists = (
        problem.unmerged.coordinates
    )  # lists that cancel each other can be tied, and their features are not all in the others
    if (_is_clear(evaluation) and problem.inside(given)) or not len(lists.columns):
        return given, evaluation
    rng = np.random.default_rng(seed)
    largest = np.abs(found).max() or 1.0
    for size in _TIE_SIZES:
        if out_of_time() and size > _TIE_SIZES[0]:
            break
        steps = rng.normal(size=(_TIE_DRAWS, len(lists.columns)))
        moves = [lists.to_caller(UnmergedWeights(step)) for step in steps]
        moved = [l1_normalised(found + size * largest * move / np.abs(move).max()) for move in moves]
        clear = [(row, at) for row in moved if problem.inside(row) and _is_clear(at := problem.evaluate(row))]
        if clear:
            return min(clear, key=lambda pair: pair[1].loss)
    return given, evaluation


def _is_clear(evaluation: Evaluation) -> bool:
    if evaluation.tied_lists == 0:
        return True
    return evaluation.loss_best_ties is not None and evaluation.loss_best_ties == evaluation.loss_worst_ties


def _sizes(problem: Problem) -> Mapping[str, int]:
    return {
        "lists": problem.nbest.n_lists,
        "hypotheses": problem.nbest.n_hypotheses,
        "features": problem.nbest.n_features,
        "canonical_lists": problem.canonical.n_lists,
        "canonical_hypotheses": len(problem.canonical.features),
        "canonical_features": problem.canonical.n_features,
    }
