"""The variance of a Gaussian prior, chosen by what fits cost on lists that are left out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.heuristic.softmax import AllHypotheses
from lpmert.metrics.base import Metric
from lpmert.model.canonical import standardised

VARIANCES = (0.03, 0.3, 3.0, 30.0, 300.0)
"""Those tried, for weights of features in units of their spread within the lists; the narrowest prior comes first."""

HELP = "parts of a cross-validation that chooses the variance, for features of equal spread; none: variance as given"

Fit = Callable[[AllHypotheses, FloatArray, FloatArray], FloatArray]
"""Returns the weights [d] that a precision [d] gives on some lists, begun at weights [d]."""


def fitted_by_folds(
    lists: AllHypotheses, metric: Metric, weights: FloatArray, folds: int, seed: int, fit: Fit
) -> tuple[FloatArray, float]:
    """Return the weights [d] fitted to all lists with the best of `VARIANCES`, and this variance.

    The best is the one whose fits to all parts but one cost least on that part, the smallest of equals. Wider priors go
    on from where narrower ones end, so that fits which can end in many places are led there from the side of the prior.
    """
    order = np.random.default_rng(seed).permutation(lists.n_lists)
    fold = order % min(folds, lists.n_lists)
    totals = np.zeros((len(VARIANCES), lists.statistics.shape[1]))
    for number in range(int(fold.max()) + 1 if lists.n_lists > 1 else 0):
        aside = lists.take(np.flatnonzero(fold == number))
        for place, found in enumerate(_path(lists.take(np.flatnonzero(fold != number)), weights, fit)):
            totals[place] += _decoded(aside, found)
    best = int(np.argmin([metric.loss(total) for total in totals]))
    return _path(lists, weights, fit, best + 1)[-1], VARIANCES[best]


def _path(lists: AllHypotheses, weights: FloatArray, fit: Fit, count: int = len(VARIANCES)) -> list[FloatArray]:
    """Return the weights [d] of each variance, the first `count` of them, each begun at those before."""
    spread = standardised(lists.features, lists.offsets)[1]
    found = []
    for variance in VARIANCES[:count]:
        weights = fit(lists, spread**2 / variance, weights)
        found.append(weights)
    return found


def _decoded(lists: AllHypotheses, weights: FloatArray) -> FloatArray:
    chosen: IntArray = lists.chosen(weights)
    return np.asarray(lists.statistics[chosen].sum(axis=0))
