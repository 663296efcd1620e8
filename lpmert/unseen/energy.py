"""What a list contributes to the loss, for any metric: the scale of losses, and shares of them by list."""

from __future__ import annotations

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.metrics.base import AdditiveMetric, Metric, losses_of_totals


def switched(metric: Metric, statistics: FloatArray, offsets: IntArray, own: FloatArray, first: int = 0) -> FloatArray:
    """Return what each hypothesis [m] costs where its list alone switches to it from what all lists have chosen.

    In units in which all lists together cost a sum: losses of a sum over lists are its own, and of another metric S
    times the loss of all lists. statistics [m, K], offsets [s + 1]: of some lists; own [S, K]: what all have chosen,
    these from the list `first` on.
    """
    if isinstance(metric, AdditiveMetric):
        return np.asarray(metric.losses(statistics), dtype=np.float64)
    sizes = np.diff(offsets)
    others = np.repeat(own.sum(axis=0) - own[first : first + len(sizes)], sizes, axis=0)
    return len(own) * losses_of_totals(metric, others + statistics)


def shares(metric: Metric, statistics: FloatArray) -> FloatArray:
    """Return what each of G groups contributes to the loss of all, from summed statistics [G, K].

    The variance of the loss is G / (G - 1) times the sum of their squared deviations. A sum over lists adds up; of
    another metric these are the jackknife's values (Efron and Stein, Annals of Statistics 1981), which add up nearly.
    """
    if isinstance(metric, AdditiveMetric):
        return np.array([metric.loss(row) for row in statistics])
    count = len(statistics)
    total = statistics.sum(axis=0)
    without = losses_of_totals(metric, total - statistics)
    return np.asarray(metric.loss(total) / count + (without.mean() - without) * (count - 1) / count)
