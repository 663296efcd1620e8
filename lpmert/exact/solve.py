"""From a method to a result: first incumbent, search, polish, report."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from typing import ClassVar

import numpy as np

from lpmert import __version__
from lpmert.exact.search import DirectSearch, Incumbent, Outcome, Search, drive
from lpmert.geometry.descent import DEFAULT_BUDGET, descend
from lpmert.geometry.lp import LinOptimizer
from lpmert.kernels import clear_cost, decode
from lpmert.problem import Problem
from lpmert.result import Callback, Cell, FloatArray, Limits, Result, Status

_PERTURBATIONS = 24


class ExactMethod(ABC):
    """A frozen dataclass of settings that can start a search which ends with a proof."""

    name: ClassVar[str]

    @abstractmethod
    def start(self, problem: Problem, incumbent: Incumbent) -> Search:
        """Return a search for this problem; raises `MethodError` if the method cannot take it."""

    def solve(
        self,
        problem: Problem,
        limits: Limits | None = None,
        callback: Callback | None = None,
        seed: int = 0,
        initial_weights: FloatArray | None = None,
        started: float | None = None,
    ) -> Result:
        """Find the least loss and prove it, as far as the limits allow.

        initial_weights [D] of the caller start the search as well as they can. started: the `time.perf_counter()` from
        which the time limit counts.
        """
        begin = time.perf_counter()
        started = begin if started is None else started
        incumbent = first_incumbent(problem, seed, initial_weights)
        ready = time.perf_counter()
        if problem.n_features == 0:
            search: Search = DirectSearch(incumbent, lambda: None)
        else:
            search = self.start(problem, incumbent)
        outcome = drive(problem, search, limits or Limits(), callback, started)
        result = self._report(problem, search, outcome, seed)
        seconds = {
            "prepare": begin - started,
            "incumbent": ready - begin,
            "search": outcome.seconds - (ready - started),
        }
        return result.with_seconds(**seconds, total=time.perf_counter() - started)

    def settings(self) -> str:
        """Return the settings that differ from their defaults, for the signature."""
        own = fields(self)  # type: ignore[arg-type]
        changed = [f"{f.name}={getattr(self, f.name)!r}" for f in own if getattr(self, f.name) != _default(f)]
        return self.name + (f"({', '.join(changed)})" if changed else "")

    def _report(self, problem: Problem, search: Search, outcome: Outcome, seed: int) -> Result:
        weights, centre, margin = _polished(problem, outcome)
        evaluation = problem.evaluate(weights)
        loss = evaluation.loss
        status = outcome.status
        if status is Status.OPTIMAL and not _holds(problem, outcome):
            status = Status.OPTIMAL_TO_TOLERANCE
        lower = loss if status is Status.OPTIMAL else min(loss, problem.loss_of(outcome.lower_bound))
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
            cell=None if margin is None else Cell(problem.weight_ranges(weights), centre, margin),
            counters=_counters(problem, search),
            trace=tuple(outcome.trace),
        )


def first_incumbent(problem: Problem, seed: int, initial_weights: FloatArray | None) -> Incumbent:
    """Return good weights by line searches from several starts, or the given ones where these are better.

    Their cost does not hang on ties, if any weights nearby or any random ones are free of them.
    """
    n = problem.n_features
    features, offsets, costs = problem.features, problem.offsets, problem.costs
    if n == 0:
        return Incumbent(0, np.zeros(0), "")
    initial = None if initial_weights is None else problem.to_canonical(initial_weights)
    if initial is not None and not initial.any():
        initial = None
    _, weights = descend(features, offsets, costs, seed=seed, initial=initial, budget=DEFAULT_BUDGET)
    rng = np.random.default_rng(seed)
    candidates = [weights] if initial is None else [weights, initial]
    best: Incumbent | None = None
    for k in range(_PERTURBATIONS):
        for candidate in candidates:
            cost, clear = clear_cost(features, offsets, costs, candidate, problem.rounding_bound(candidate))
            if clear and (best is None or cost < best.cost):
                best = Incumbent(int(cost), candidate, "L" if candidate is not initial else "I")
        if best is not None:
            return best
        size = np.abs(weights).max() * 10.0 ** (-8 + k / 3)
        candidates = [weights + size * rng.normal(size=n)]
    # Every neighbour is tied: what the ties cost at worst is attained beside these weights, if not exactly at them.
    cost, _ = clear_cost(features, offsets, costs, weights, problem.rounding_bound(weights))
    return Incumbent(int(cost), weights, "L")


def _holds(problem: Problem, outcome: Outcome) -> bool:
    """Whether the weights decode to the cost that the search claims, beyond rounding."""
    if problem.n_features == 0:
        return True
    bound = problem.rounding_bound(outcome.weights)
    cost, clear = clear_cost(problem.features, problem.offsets, problem.costs, outcome.weights, bound)
    return bool(clear and cost == outcome.cost)


def _polished(problem: Problem, outcome: Outcome) -> tuple[FloatArray, FloatArray, float | None]:
    """Return weights [D] in the middle of the optimal cell, the cell's centre, and its margin (`None` if unknown)."""
    original = _normalised(problem.to_caller(outcome.weights))
    if problem.n_lists == 0 or problem.n_features == 0:
        return original, original, None
    features, offsets = problem.features, problem.offsets
    rows = np.empty(problem.n_lists, dtype=np.int64)
    decode(features, offsets, outcome.weights, rows)
    centre, margin = LinOptimizer(features, offsets).centre((np.arange(problem.n_lists), rows), start=outcome.weights)
    weights = _normalised(problem.to_caller(centre))
    if margin is None or problem.evaluate(weights).loss != problem.evaluate(original).loss:
        return original, original, None
    return weights, weights, margin


def _normalised(weights: FloatArray) -> FloatArray:
    """Return weights [D] with absolute values that sum to 1; all zeros become equal weights."""
    largest = np.abs(weights).max(initial=0.0)
    if largest == 0.0:
        return np.full(len(weights), 1.0 / max(1, len(weights)))
    scaled = weights / largest
    return np.asarray(scaled / np.abs(scaled).sum())


def _counters(problem: Problem, search: Search) -> Mapping[str, int]:
    size = {
        "lists": problem.nbest.n_lists,
        "hypotheses": problem.nbest.n_hypotheses,
        "features": problem.nbest.n_features,
        "canonical_lists": problem.n_lists,
        "canonical_hypotheses": len(problem.costs),
        "canonical_features": problem.n_features,
    }
    return {**size, **search.counters()}


def _default(field: object) -> object:
    from dataclasses import MISSING

    factory = getattr(field, "default_factory", MISSING)
    return factory() if factory is not MISSING else getattr(field, "default", MISSING)
