"""Good weights to begin a search with, for any method: by descents on sums of losses; on a ratio by line searches, or,
for more features, by evolution.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from lpmert.lines.clock import Clock, given_weights
from lpmert.lines.descents import DEFAULT_BUDGET, descend
from lpmert.lines.directions import lines_along, local_optima
from lpmert.lines.line_search import LineSearch
from lpmert.lines.restarts import Restarts
from lpmert.metrics.base import RatioMetric
from lpmert.model.coordinates import CanonicalWeights
from lpmert.model.form import Canonical
from lpmert.model.problem import Problem
from lpmert.search.capped import descend_in_cap
from lpmert.search.evolution import Evolution
from lpmert.search.method import Incumbent
from lpmert.search.moved import moved
from lpmert.system.deadline import OutOfTime, heeding, out_of_time

_USUAL_FEATURES = 6
"""With fewer features the search that follows is shorter, and good weights are fewer."""

_RATIO_BUDGET = 30_000_000
"""Hypotheses times line searches on a ratio."""

_FEWEST, _MOST = 200, 3000
"""Such line searches."""

_EVALUATIONS = 4
"""Weights that can be decoded in the time of one line search."""

_PERTURBATIONS = 24


def first_incumbent(problem: Problem, seed: int, initial: CanonicalWeights | None) -> Incumbent:
    """Return good weights by searches from several starts, or the ones given [d] where these are better.

    Their cost does not hang on ties, if any weights nearby are free of them.
    """
    canonical = problem.canonical
    n = canonical.n_features
    if canonical.additive and n == 0:
        return Incumbent(0, CanonicalWeights(np.zeros(0)), "")
    inside = canonical.interior
    rng = np.random.default_rng(seed)
    if canonical.additive and canonical.cap is not None and inside is not None:
        first = inside if initial is None or not canonical.cap.contains(initial) else initial
        return descend_in_cap(canonical, first, rng)
    weights = _descended(canonical, seed, initial) if canonical.additive else _searched(problem, seed, initial)
    candidates = [one for one in (weights, initial, inside) if one is not None]
    sizes = [10.0 ** (-8 + k / 3) for k in range(_PERTURBATIONS)]
    beside = [moved(one, sizes, lambda: rng.normal(size=n)) for one in (weights, inside) if one is not None]
    for k in range(_PERTURBATIONS):
        if k:
            if out_of_time():
                break
            candidates = [CanonicalWeights(next(steps)) for steps in beside]
        found = [(cost, one) for one in candidates if (cost := attained_cost(canonical, one)) is not None]
        if found:
            cost, best = min(found, key=lambda pair: pair[0])
            return Incumbent(cost, best, "I" if best is initial else "L")
    return any_incumbent(canonical, None if canonical.additive else weights)


def any_incumbent(canonical: Canonical, weights: CanonicalWeights | None = None) -> Incumbent:
    """Return these weights [d], or any of the region, with what their ties cost at worst: that much is attained beside
    them, if not at them.

    For a ratio that is 1, the largest loss of one that is no fraction of sums.
    """
    weights = given_weights(canonical, weights)
    cost = canonical.clear_cost(weights)[0] if canonical.additive else canonical.cost_of_loss(1.0)
    return Incumbent(cost, weights, "L")


def _descended(canonical: Canonical, seed: int, initial: CanonicalWeights | None) -> CanonicalWeights:
    if out_of_time():
        return CanonicalWeights(np.ones(canonical.n_features))
    share = min(1.0, canonical.n_features / _USUAL_FEATURES)
    budget = max(1, int(DEFAULT_BUDGET * share**3))
    try:
        with heeding():  # many features take longer to prepare for line searches than some have time for
            return CanonicalWeights(descend(*canonical.lists, seed=seed, initial=initial, budget=budget)[1])
    except OutOfTime:
        return CanonicalWeights(np.ones(canonical.n_features))


def _searched(problem: Problem, seed: int, initial: CanonicalWeights | None) -> CanonicalWeights:
    canonical = problem.canonical
    if not isinstance(problem.metric, RatioMetric) or not canonical.n_lists or out_of_time():
        return given_weights(canonical, None)
    searches = int(np.clip(_RATIO_BUDGET // len(canonical.features), _FEWEST, _MOST))
    if canonical.n_features >= _USUAL_FEATURES:
        clock = Clock(problem, _EVALUATIONS * searches)
        evolution = Evolution(problem, initial, np.random.default_rng(seed))
        while not clock.expired(0):
            evolution.run(clock)
        return CanonicalWeights(evolution.best)
    clock = Clock(problem, searches)
    lines = lines_along("greedy", partial(LineSearch, canonical))
    optima = local_optima(problem, lines, Restarts(), initial, seed, clock)
    return CanonicalWeights(min(optima, key=lambda item: item[0])[1])


def attained_cost(canonical: Canonical, weights: CanonicalWeights) -> int | None:
    """Return the cost of weights [d] of the region, `None` where it hangs on ties."""
    if canonical.additive:
        cost, clear = canonical.clear_cost(weights)
        inside = (canonical.limits @ weights > 0).all() and (canonical.cap is None or canonical.cap.contains(weights))
        return cost if clear and inside else None
    loss = canonical.totals.attained(weights)
    return None if loss is None else canonical.cost_of_loss(loss)
