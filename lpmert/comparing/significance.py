"""Whether two sets of chosen hypotheses differ by more than chance, for any metric of summed statistics."""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr, stdtrit

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.metrics.base import Metric, losses_of_totals

REPLICATIONS = 1000

_BLOCK = 1_000_000
"""Numbers that are drawn at a time."""


def permutation_test(
    metric: Metric, first: FloatArray, second: FloatArray, *, replications: int = REPLICATIONS, seed: int = 0
) -> float:
    """Return the p-value of the difference in loss between two sets of statistics [S, K], paired by list.

    The share of replications, each of which swaps the two in random lists, whose difference is at least as large in
    absolute value; the data count as one more replication. All ways to swap are tried instead if they are no more than
    `replications`. Raises `DataError` if the shapes differ. Source: approximate randomisation, Noreen,
    Computer-Intensive Methods for Testing Hypotheses, 1989.
    """
    _check(first, second)
    if len(first) == 1:
        return 1.0  # swapped or not, the difference is as large

    def difference(signs: FloatArray, **_axis: int) -> FloatArray:
        """Return the difference in loss when the lists with sign -1 [..., S] are swapped."""
        moved = (1.0 - np.atleast_2d(signs)) / 2 @ (second - first)
        one = losses_of_totals(metric, first.sum(axis=0) + moved)
        other = losses_of_totals(metric, second.sum(axis=0) - moved)
        return np.asarray(np.abs(one - other)).reshape(signs.shape[:-1])

    from scipy import stats  # takes half a second

    found = stats.permutation_test(
        (np.ones(len(first)),),  # a single sample: scipy changes signs at random
        difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=replications,
        batch=_batch(first),
        alternative="greater",
        random_state=np.random.default_rng(seed),
    )
    # not scipy's p-value, which overlooks that sums in another order differ by rounding
    observed, differences = float(found.statistic), np.asarray(found.null_distribution)
    extreme = int(np.count_nonzero(differences >= observed - 1e-12 * max(1.0, observed)))
    drawn = len(differences) < 1 << len(first)
    return (extreme + drawn) / (len(differences) + drawn)


def bootstrap_interval(
    metric: Metric,
    first: FloatArray,
    second: FloatArray,
    *,
    replications: int = REPLICATIONS,
    seed: int = 0,
    share: float = 0.95,
) -> tuple[float, float]:
    """Return the interval that holds `share` of the differences in loss, second minus first, over resampled lists.

    Statistics [S, K], paired by list; raises `DataError` if the shapes differ. Source: Koehn, Statistical Significance
    Tests for Machine Translation Evaluation, EMNLP 2004.
    """
    _check(first, second)
    if len(first) == 1:
        only = metric.loss(second[0]) - metric.loss(first[0])
        return only, only

    def difference(lists: IntArray, **_axis: int) -> FloatArray:
        """Return the difference in loss over the lists [..., S] drawn."""
        drawn = np.atleast_2d(lists)
        one, other = (losses_of_totals(metric, statistics[drawn].sum(axis=1)) for statistics in (first, second))
        return (other - one).reshape(lists.shape[:-1])

    from scipy import stats

    found = stats.bootstrap(
        (np.arange(len(first)),),
        difference,
        vectorized=True,
        method="percentile",
        n_resamples=replications,
        batch=_batch(first),
        confidence_level=share,
        random_state=np.random.default_rng(seed),
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def corrected_error(values: FloatArray, ratio: float) -> float:
    """Return the standard error of the mean of values [J], one for each split of the same lists into two parts.

    ratio: lists held out over lists fitted to. Splits overlap, so that their values are not independent: the variance
    is 1 / J + ratio of theirs. Source: Nadeau and Bengio, Inference for the Generalization Error, Machine Learning
    2003; for repeated cross-validation: Bouckaert and Frank, Evaluating the Replicability of Significance Tests for
    Comparing Learning Algorithms, PAKDD 2004.
    """
    return float(np.std(values, ddof=1) * np.sqrt(1 / len(values) + ratio))


def corrected_reach(values: FloatArray, ratio: float, share: float = 0.95) -> float:
    """Return half the length of the interval, by Student's t, of the mean of values [J] of overlapping splits."""
    return float(stdtrit(len(values) - 1, (1 + share) / 2)) * corrected_error(values, ratio)


def corrected_test(values: FloatArray, ratio: float) -> float:
    """Return the p-value of the mean of values [J] of overlapping splits being other than 0, by Student's t."""
    mean, error = float(np.mean(values)), corrected_error(values, ratio)
    if error == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return float(2 * stdtr(len(values) - 1, -abs(mean) / error))


def _batch(statistics: FloatArray) -> int:
    """Return how many replications to draw at a time."""
    return max(1, _BLOCK // statistics.size)


def _check(first: FloatArray, second: FloatArray) -> None:
    if first.shape != second.shape or first.ndim != 2 or not len(first):
        raise DataError(f"pair statistics of the same lists, in shape [S, K]; got {first.shape} and {second.shape}")
