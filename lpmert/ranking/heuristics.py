"""What search for weights that rank well finds without a proof: line searches, coordinate ascent, CMA-ES."""

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
"""Random weights that line searches begin with."""

_RESTARTS, _STEPS, _STEP, _SHARE, _GAIN = 5, 25, 0.001, 0.05, 0.001
"""RankLib's own settings: how often it begins anew; how many steps, how long the first one is, and as a share of small
weights; what a round over all features must gain."""

_SPREAD, _PATIENCE, _NARROWEST = 0.2, 120, 1e-7
"""Of CMA-ES: the first standard deviation; draws without a gain, times the number of features; the last deviation."""

Value = Callable[[FloatArray], float]
Finder = Callable[[Value, Maximizing, np.random.Generator, Deadline], FloatArray]


@dataclass(frozen=True)
class Found:
    """Weights that some rule or heuristic gives.

    Parameters
    ----------
    weights : list of float
        One for each feature.
    score : float
        What exact arithmetic says of them.
    seconds : float or None
        Wall time of a heuristic.
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
    """Return what each heuristic finds, within so many seconds each."""
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
    """Search along coordinates from random weights, each time over all events: where the value is best on the line."""
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
    """Change one weight after the other by steps that double, as RankLib's coordinate ascent does.

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
    """Return the best of the weights with one changed by steps up, else down, else to 0, and their value."""
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
    """Run CMA-ES once from equal weights of features that are scaled alike, until its draws are alike."""
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
