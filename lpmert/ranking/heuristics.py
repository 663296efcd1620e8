"""Heuristics for weights that rank well, without a proof: line searches, coordinate ascent, CMA-ES."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lpmert.errors import FloatArray
from lpmert.model.judged import Judged, RankingMetric
from lpmert.ranking.evaluation import evaluate
from lpmert.ranking.search import Maximizing
from lpmert.search.evolution import Draws
from lpmert.system.deadline import Deadline, within

_STARTS = 20
"""Number of random weights from which line searches start."""

_RESTARTS, _STEPS, _STEP, _SHARE, _GAIN = 5, 25, 0.001, 0.05, 0.001
"""RankLib's defaults: restarts; steps per weight; first step, also relative to small weights; least gain of a round."""

_SPREAD, _PATIENCE, _NARROWEST = 0.2, 120, 1e-7
"""For CMA-ES: first standard deviation; maximum draws per feature without a gain; last standard deviation."""

Value = Callable[[FloatArray], float]
Finder = Callable[[Value, Maximizing, np.random.Generator, Deadline], FloatArray]


@dataclass(frozen=True)
class Found:
    """Weights of a rule or heuristic.

    Parameters
    ----------
    weights : list of float
        One for each feature.
    score : float
        Their score in exact arithmetic.
    seconds : float or None
        Wall time; `None` unless it is a heuristic.
    """

    weights: list[float]
    score: float
    seconds: float | None = None


def heuristics(
    lists: Judged,
    metric: RankingMetric,
    nonnegative: bool,
    seed: int,
    seconds: float,
    on_stage: Callable[[str, int, int | None], object],
) -> dict[str, Found]:
    """Return the weights of each heuristic by its name; seconds: for each of them."""
    found: dict[str, Found] = {}
    for name, finder in _FINDERS.items():
        on_stage("heuristics", len(found), len(_FINDERS))
        deadline = within(seconds)
        search = Maximizing(lists, metric, nonnegative, seconds, seed)

        def value(weights: FloatArray, search: Maximizing = search) -> float:
            return search.core.value(np.ldexp(weights / np.abs(weights).max(), search.exponents))

        weights = finder(value, search, np.random.default_rng(seed), deadline)
        weights /= np.abs(weights).sum()
        found[name] = Found(weights.tolist(), evaluate(lists, weights, metric), deadline.seconds)
    return found


def _line_searches(value: Value, search: Maximizing, rng: np.random.Generator, deadline: Deadline) -> FloatArray:
    """Run exact line searches along the coordinates from random weights."""
    best, most = np.ones(len(search.exponents)), -1.0
    for _ in range(_STARTS):
        start = rng.normal(size=len(best))
        start = np.abs(start) if search.nonnegative else start
        weights = np.ldexp(search.ascended(start, search.core.value(start)), -search.exponents)
        if value(weights) > most:
            best, most = weights, value(weights)
        if deadline.expired:
            break
    return best


def _coordinate_ascent(value: Value, search: Maximizing, rng: np.random.Generator, deadline: Deadline) -> FloatArray:
    """Run coordinate ascent as in RankLib: change one weight after the other, by steps that double.

    Source: D. Metzler and W. B. Croft, Linear feature-based models for information retrieval, 2007.
    """
    n, tolerance = len(search.exponents), _GAIN * search.parts.n_queries * 2.0**40
    best, most = np.ones(n), -1.0
    for _ in range(_RESTARTS):
        weights = np.full(n, 1.0 / n)
        reached = value(weights)
        begun, failed = -np.inf, 0
        while reached - begun >= tolerance and failed < max(n - 1, 1) and not deadline.expired:
            begun = reached
            for j in rng.permutation(n):
                changed, gained = _stepped(value, weights, int(j), reached, search.nonnegative)
                failed = 0 if gained > reached else failed + 1
                weights, reached = changed / np.abs(changed).sum(), gained
        if reached > most:
            best, most = weights, reached
    return best


def _stepped(value: Value, weights: FloatArray, j: int, reached: float, nonnegative: bool) -> tuple[FloatArray, float]:
    """Increase one weight by steps that double, or else decrease it, or else set it to 0; return the best weights and
    their value.
    """
    for sign in (1, -1, 0):
        size = abs(weights[j])
        step = _SHARE * size if 0 < size < 2 * _STEP else _STEP
        total, best = sign * step if sign else -weights[j], weights
        for _ in range(_STEPS if sign else 1):
            tried = weights.copy()
            tried[j] += total
            if tried.any() and (not nonnegative or tried[j] >= 0) and (found := value(tried)) > reached:
                best, reached = tried, found
            step *= 2
            total += sign * step
        if best is not weights:
            return best, reached
    return weights, reached


def _evolution(value: Value, search: Maximizing, rng: np.random.Generator, deadline: Deadline) -> FloatArray:
    """Run CMA-ES once from equal weights for scaled features, until its draws hardly differ."""
    n = len(search.exponents)
    draws = Draws(np.full(n, 1 / np.sqrt(n)), _SPREAD, rng)
    best, most, failed = np.ldexp(np.ones(n), -search.exponents), -1.0, 0
    while failed < _PATIENCE * n and draws.widest > _NARROWEST and not deadline.expired:
        drawn = draws.draw()
        inside = np.maximum(drawn, 0.0) if search.nonnegative else drawn
        values = [value(one) if one.any() else -1.0 for one in np.ldexp(inside, -search.exponents)]
        draws.learn(-np.array(values))
        place = int(np.argmax(values))
        failed = 0 if values[place] > most else failed + draws.count
        if values[place] > most:
            best, most = np.ldexp(inside[place], -search.exponents), values[place]
    return best


_FINDERS: dict[str, Finder] = {
    "line searches": _line_searches,
    "coordinate ascent": _coordinate_ascent,
    "CMA-ES": _evolution,
}
