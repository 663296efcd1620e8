"""Good weights within a cosine of given ones: line searches between the ends of the cap."""

from __future__ import annotations

from math import sqrt

import numpy as np

from lpmert.errors import FloatArray
from lpmert.lines.line_search import line_search, lists_with_costs
from lpmert.model.coordinates import CanonicalWeights
from lpmert.model.form import Canonical
from lpmert.numeric.cap import Cap
from lpmert.search.method import Incumbent

_BUDGET = 3_000_000
"""Hypotheses times line searches."""

_MOST_SEARCHES = 400
_INWARD = 1e-9


def descend_in_cap(canonical: Canonical, start: CanonicalWeights, rng: np.random.Generator) -> Incumbent:
    """Return the best weights that line searches in random directions find from a start inside the problem's cap."""
    if canonical.cap is None:
        raise ValueError("the problem has no cap")
    _, _, costs = canonical.lists
    best = Incumbent(canonical.clear_cost(start)[0], start, "L")
    if not len(costs):
        return best
    lists = lists_with_costs(*canonical.lists)
    for _ in range(min(_MOST_SEARCHES, _BUDGET // len(costs) + 20)):
        weights = best.weights / np.linalg.norm(best.weights)
        direction = rng.normal(size=len(weights))
        direction -= (direction @ canonical.cap.unit) * canonical.cap.unit
        ends = _chord(canonical.cap, weights, direction)
        if ends is None:
            continue
        _, step = line_search(lists, weights, direction, low=ends[0], high=ends[1])
        candidate = CanonicalWeights(weights + step * direction)
        cost, clear = canonical.clear_cost(candidate)
        if clear and cost < best.cost and canonical.cap.contains(candidate):
            best.improve(cost, candidate, "L")
    return best


def _chord(cap: Cap, weights: FloatArray, direction: FloatArray) -> tuple[float, float] | None:
    """Return the interval of t in which weights + t direction, with the direction across the cap, is in the cap."""
    along = float(weights @ cap.unit)
    across = weights - along * cap.unit
    reach = along * sqrt(1.0 / cap.cosine**2 - 1.0) * (1.0 - _INWARD)
    a, b = float(direction @ direction), float(across @ direction)
    root = b * b - a * (float(across @ across) - reach * reach)
    if a == 0.0 or root <= 0.0:
        return None
    return (-b - sqrt(root)) / a, (-b + sqrt(root)) / a
