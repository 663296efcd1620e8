"""A first incumbent for metrics that are no sums over lists: line searches on the metric itself."""

from __future__ import annotations

import numpy as np

from lpmert.coordinates import CallerWeights, CanonicalWeights
from lpmert.deadline import out_of_time
from lpmert.exact.search import Incumbent
from lpmert.metrics.base import RatioMetric
from lpmert.problem import Problem
from lpmert.result import Limits

_BUDGET = 30_000_000
"""Hypotheses times line searches."""

_FEWEST, _MOST = 200, 3000
_PERTURBATIONS = 24


def ratio_incumbent(problem: Problem, seed: int, initial_weights: CallerWeights | None) -> Incumbent:
    """Return good weights by line searches from several starts, or the given ones [D] where these are better.

    Their loss does not hang on ties, if any weights nearby or any random ones are free of them. With none it is 1, the
    largest loss of a ratio metric that is no fraction of sums.
    """
    initial = None if initial_weights is None else problem.to_canonical(initial_weights)
    if initial is not None and not initial.any():
        initial = None
    form = problem.canonical
    inside = form.interior
    weights = CanonicalWeights(np.ones(form.n_features)) if inside is None else inside
    if isinstance(problem.metric, RatioMetric) and form.n_lists and not out_of_time():
        from lpmert.comparators.base import Clock
        from lpmert.comparators.och import Och

        searches = int(np.clip(_BUDGET // len(form.features), _FEWEST, _MOST))
        found = Och().run(problem, initial, seed, Clock(problem, Limits(node_limit=searches)))
        weights = CanonicalWeights(found.weights)
    rng = np.random.default_rng(seed)
    candidates = [one for one in (weights, initial, inside) if one is not None]
    best: Incumbent | None = None
    for k in range(_PERTURBATIONS):
        if k and out_of_time():
            break
        for candidate in candidates:
            loss = form.totals.attained(candidate)
            if loss is None:
                continue
            cost = form.cost_of_loss(loss)
            if best is None or cost < best.cost:
                best = Incumbent(cost, candidate, "I" if candidate is initial else "L")
        if best is not None:
            return best
        starts = (weights,) if inside is None else (weights, inside)
        moved = [w + np.abs(w).max() * 10.0 ** (-8 + k / 3) * rng.normal(size=len(w)) for w in starts]
        candidates = list(map(CanonicalWeights, moved))
    return Incumbent(form.cost_of_loss(1.0), weights, "L")
