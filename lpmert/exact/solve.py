"""From a method to a result: first incumbent, search, polish, report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np

from lpmert import __version__
from lpmert.configurable import Configurable
from lpmert.coordinates import CallerWeights, CanonicalWeights, UnmergedWeights
from lpmert.deadline import Deadline, OutOfTime, heeding, out_of_time
from lpmert.exact.capped import descend_in_cap
from lpmert.exact.fractional import FractionSearch
from lpmert.exact.ratio_start import ratio_incumbent
from lpmert.exact.search import DirectSearch, Incumbent, Outcome, Search, drive
from lpmert.form import Canonical
from lpmert.geometry.descent import DEFAULT_BUDGET, descend
from lpmert.geometry.lp import LinOptimizer
from lpmert.interrupts import Interrupts
from lpmert.kernels import decode
from lpmert.problem import Problem
from lpmert.result import Callback, Cell, FloatArray, IntArray, Limits, MethodError, Result, Status

_PERTURBATIONS = 24

_REPORT_SECONDS = 0.5
"""What the weights may take beyond the time limit to be moved into the middle of their cell."""

_RESOLUTION = 1e-12
"""Share of the loss by which rounded losses may be off and the optimum still be called proved."""


class ExactMethod(Configurable, ABC):
    """A frozen dataclass of options that can start a search which ends with a proof."""

    takes_ratios: ClassVar[bool] = False
    """Whether the method takes metrics that are no sum over lists, whatever their form."""
    takes_fractions: ClassVar[bool] = False
    """Whether it takes those that are fractions of sums, by way of additive losses."""
    takes_jobs: ClassVar[bool] = False
    """Whether the method can use several threads."""
    takes_caps: ClassVar[bool] = False
    """Whether the method keeps to a cosine around given weights."""

    @abstractmethod
    def start(self, canonical: Canonical, incumbent: Incumbent) -> Search:
        """Return a search of this form; raises `MethodError` if the method cannot take it."""

    def with_jobs(self, jobs: int) -> ExactMethod:
        """Return the method that uses so many threads, where it can use several."""
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
        """Find the least loss and prove it, as far as the limits allow.

        initial_weights [D] of the caller start the search as well as they can. started: the `time.perf_counter()` from
        which the time limit counts. Raises `MethodError` where the method cannot take the problem's metric or region,
        `RegionError` for an empty region.
        """
        form = problem.canonical
        fraction = None if form.additive else form.totals.fraction
        if not (form.additive or self.takes_ratios or (fraction is not None and self.takes_fractions)):
            raise MethodError(
                f"method {self.name!r} needs an additive loss, and metric {problem.metric.name!r} is no sum over "
                "lists; use auto, cells or choices"
            )
        if not (form.cap is None or self.takes_caps):
            raise MethodError(f"method {self.name!r} cannot keep to a cosine; use auto, choices, cells or lp-mert")
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
        try:
            incumbent = first_incumbent(problem, seed, initial_weights)
        except KeyboardInterrupt:
            interrupts.pressed = True
            incumbent = _any_incumbent(problem)
        ready = deadline.seconds
        form = problem.canonical
        if form.n_features == 0 or form.n_lists == 0:
            search: Search = DirectSearch(incumbent, lambda: None)
        elif not form.additive and form.totals.fraction is not None:
            search = FractionSearch(form, incumbent, self.start)
        else:
            search = self.start(form, incumbent)
        outcome = drive(problem, search, limits, callback, deadline, lambda: interrupts.pressed)
        with deadline.later(_REPORT_SECONDS).running():
            result = self._report(problem, search, outcome, seed)
        seconds = {"prepare": prepared, "incumbent": ready - prepared, "search": outcome.seconds - ready}
        if deadline.compiling:
            seconds["compile"] = deadline.compiling
        return result.with_seconds(**seconds, total=deadline.seconds + deadline.compiling)

    def _report(self, problem: Problem, search: Search, outcome: Outcome, seed: int) -> Result:
        try:
            polished = _polished(problem, outcome, seed)
        except KeyboardInterrupt:
            polished = _Polished(_normalised(problem.to_caller(outcome.weights)), None, False)
        weights, margin, holds = polished.weights, polished.margin, polished.holds
        evaluation = problem.evaluate(weights)
        loss = evaluation.loss
        status = outcome.status
        unseen = problem.unseen(loss)
        if status is Status.OPTIMAL and (not holds or problem.rounded_features or unseen > _RESOLUTION * abs(loss)):
            status = Status.OPTIMAL_TO_TOLERANCE
        lower = loss if status is Status.OPTIMAL else min(loss, problem.canonical.loss_of(outcome.lower_bound) - unseen)
        return Result(
            weights=weights,
            names=problem.nbest.names,
            loss=loss,
            score=evaluation.score,
            lower_bound=lower,
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
            region=problem.distances(weights),
            limiting=polished.limiting,
            cell=None if margin is None else Cell(problem.weight_ranges(weights), weights, margin),
            counters=_counters(problem, search),
            trace=tuple(outcome.trace),
        )


class HeuristicMethod(ExactMethod):
    """A method with the same doors that proves nothing: its results have no bound."""

    def _report(self, problem: Problem, search: Search, outcome: Outcome, seed: int) -> Result:
        return unproved(super()._report(problem, search, outcome, seed), search)


def unproved(result: Result, search: Search) -> Result:
    """Return a result without its bounds."""
    return replace(
        result,
        lower_bound=None,
        status=Status.HEURISTIC if result.status.finished and search.finished else result.status,
        trace=tuple((seconds, None, loss) for seconds, _, loss in result.trace),
    )


def first_incumbent(problem: Problem, seed: int, initial_weights: CallerWeights | None) -> Incumbent:
    """Return good weights by line searches from several starts, or the given ones where these are better.

    Their cost does not hang on ties, if any weights nearby or any random ones are free of them.
    """
    form = problem.canonical
    n = form.n_features
    if not form.additive:
        return ratio_incumbent(problem, seed, initial_weights)
    if n == 0:
        return Incumbent(0, CanonicalWeights(np.zeros(0)), "")
    initial = None if initial_weights is None else problem.to_canonical(initial_weights)
    if initial is not None and not initial.any():
        initial = None
    inside = form.interior
    rng = np.random.default_rng(seed)
    if form.cap is not None and inside is not None:
        first = inside if initial is None or not form.cap.contains(initial) else initial
        return descend_in_cap(form, first, rng)
    weights = CanonicalWeights(np.ones(n))
    if not out_of_time():
        weights = CanonicalWeights(descend(*form.lists, seed=seed, initial=initial, budget=DEFAULT_BUDGET)[1])
    candidates = [one for one in (weights, initial, inside) if one is not None]
    best: Incumbent | None = None
    for k in range(_PERTURBATIONS):
        if k and out_of_time():
            break
        for candidate in candidates:
            cost, clear = form.clear_cost(candidate)
            if clear and (best is None or cost < best.cost):
                best = Incumbent(cost, candidate, "I" if candidate is initial else "L")
        if best is not None and (form.limits @ best.weights > 0).all():
            return best
        starts = (weights,) if inside is None else (weights, inside)
        moved = [w + np.abs(w).max() * 10.0 ** (-8 + k / 3) * rng.normal(size=n) for w in starts]
        candidates = list(map(CanonicalWeights, moved))
    return _any_incumbent(problem)


def _any_incumbent(problem: Problem) -> Incumbent:
    """Return weights of the region with what their ties cost at worst: that much is attained beside them, if not at
    them.
    """
    form = problem.canonical
    weights = CanonicalWeights(np.ones(form.n_features)) if form.interior is None else form.interior
    cost = form.clear_cost(weights)[0] if form.additive else form.cost_of_loss(1.0)
    return Incumbent(cost, weights, "L")


class _Polished(NamedTuple):
    """Weights [D], the margin of the cell (`None` if unknown), whether they hold, and the limits that cut their cell.

    They hold if, in exact arithmetic, they have the cost that the search claims without the help of a tie.
    """

    weights: CallerWeights
    margin: float | None
    holds: bool
    limiting: tuple[str, ...] = ()


def _polished(problem: Problem, outcome: Outcome, seed: int) -> _Polished:
    """Return weights in the middle of the optimal cell, as far as it lies in the region.

    Merged lists that cancel each other can be tied at the search's weights; the cell's centre is taken among the lists
    unmerged.
    """
    lists = problem.unmerged.coordinates
    found = problem.to_caller(outcome.weights)
    centre, margin, limiting = _centred(problem, found)
    if problem.attains(_normalised(centre), outcome.cost):
        return _Polished(_normalised(centre), margin, True, limiting)
    # Cells so thin that normalising leaves them: a power of two changes no bit of the weights.
    rng = np.random.default_rng(seed)
    size = np.abs(found).max(initial=0.0) or 1.0
    candidates = [_normalised(found), _halved(centre), _halved(found)]
    if problem.region is not None:
        # Both the cell and the region are convex: on the way from the weights found to the centre lies what is in both.
        near, far = _normalised(found), _normalised(centre)
        candidates = [_normalised(near + 2.0**-k * (far - near)) for k in range(1, _PERTURBATIONS)] + candidates
    for k in range(_PERTURBATIONS):
        step = lists.to_caller(UnmergedWeights(rng.normal(size=len(lists.columns))))
        candidates.append(_normalised(found + size * 10.0 ** (-k / 2) * step / (np.abs(step).max(initial=0.0) or 1.0)))
    for weights in candidates:
        if problem.attains(weights, outcome.cost):
            return _Polished(weights, None, True, limiting)
        if out_of_time():
            break
    inside = problem.canonical.interior
    if inside is not None and not problem.inside(_normalised(found)):
        found = problem.to_caller(inside)
    return _Polished(_normalised(found), None, False, limiting)


def _centred(problem: Problem, found: CallerWeights) -> tuple[CallerWeights, float | None, tuple[str, ...]]:
    """Return the centre [D] of the cell of weights [D] among the lists unmerged, its margin, and what limits cut it.

    Where there is no time for that, they are the weights themselves, and no margin.
    """
    lists = problem.unmerged
    if len(lists.offsets) < 2 or not len(lists.coordinates.columns) or out_of_time():
        return found, None, ()
    start = lists.coordinates.from_caller(found)
    rows = np.empty(len(lists.offsets) - 1, dtype=np.int64)
    decode(lists.features, lists.offsets, start, rows)
    optimizer = LinOptimizer(lists.features, lists.offsets)
    try:
        with heeding():
            inner, margin = optimizer.centre((np.arange(len(rows)), rows), start=start)
            return lists.coordinates.to_caller(UnmergedWeights(inner)), margin, _limiting(problem, optimizer, rows)
    except OutOfTime:
        return found, None, ()


def _limiting(problem: Problem, optimizer: LinOptimizer, rows: IntArray) -> tuple[str, ...]:
    """Return the limits beyond which the optimal cell goes on: there the same choices are made outside the region."""
    labels = problem.canonical.labels if problem.canonical.additive else ()
    first = len(rows) - len(labels)
    lists = np.arange(len(rows))
    found = []
    for k, label in enumerate(labels):
        beyond = rows.copy()
        beyond[first + k] = optimizer.offsets[first + k] + 1
        if optimizer.solve((lists, beyond)).attainable:
            found.append(label)
    return tuple(found)


def _halved(weights: FloatArray) -> CallerWeights:
    """Return weights [D] times the power of two that brings the sum of their absolute values into [1/2, 1)."""
    return CallerWeights(np.ldexp(weights, -int(np.frexp(np.abs(weights).sum())[1])))


def _normalised(weights: FloatArray) -> CallerWeights:
    """Return weights [D] with absolute values that sum to 1; all zeros become equal weights."""
    largest = np.abs(weights).max(initial=0.0)
    if largest == 0.0:
        return CallerWeights(np.full(len(weights), 1.0 / max(1, len(weights))))
    scaled = weights / largest
    return CallerWeights(scaled / np.abs(scaled).sum())


def _counters(problem: Problem, search: Search) -> Mapping[str, int]:
    size = {
        "lists": problem.nbest.n_lists,
        "hypotheses": problem.nbest.n_hypotheses,
        "features": problem.nbest.n_features,
        "canonical_lists": problem.canonical.n_lists,
        "canonical_hypotheses": len(problem.canonical.features),
        "canonical_features": problem.canonical.n_features,
    }
    return {**size, **search.counters()}
