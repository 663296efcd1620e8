"""Whether two sets of chosen hypotheses differ by more than chance, for any metric of summed statistics."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lpmert.metrics.base import Metric, losses_of_totals
from lpmert.result import DataError, FloatArray

REPLICATIONS = 1000

_BLOCK = 10_000_000
"""Numbers that are drawn at a time."""


def permutation_test(
    metric: Metric, first: FloatArray, second: FloatArray, *, replications: int = REPLICATIONS, seed: int = 0
) -> float:
    """Return the p-value of the difference in loss between two sets of statistics [S, K], paired by list.

    The share of replications, each of which swaps the two in random lists, whose difference is at least as large in
    absolute value; the data count as one more replication. Raises `DataError` if the shapes differ. Source: approximate
    randomisation, Noreen, Computer-Intensive Methods for Testing Hypotheses, 1989.
    """
    _check(first, second)
    observed = abs(metric.loss(first.sum(axis=0)) - metric.loss(second.sum(axis=0)))
    rng = np.random.default_rng(seed)
    extreme = 1
    for rows in _blocks(replications, len(first)):
        moved = rng.integers(0, 2, size=(rows, len(first))).astype(np.float64) @ (second - first)
        one = losses_of_totals(metric, first.sum(axis=0) + moved)
        other = losses_of_totals(metric, second.sum(axis=0) - moved)
        slack = 1e-12 * max(1.0, observed)  # sums in another order differ by rounding
        extreme += int(np.count_nonzero(np.abs(one - other) >= observed - slack))
    return extreme / (replications + 1)


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
    rng = np.random.default_rng(seed)
    differences = []
    for rows in _blocks(replications, len(first)):
        drawn = rng.multinomial(len(first), np.full(len(first), 1 / len(first)), size=rows).astype(np.float64)
        differences.append(losses_of_totals(metric, drawn @ second) - losses_of_totals(metric, drawn @ first))
    low, high = np.quantile(np.concatenate(differences), [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def _blocks(replications: int, lists: int) -> Iterator[int]:
    """Return how many replications to draw at a time."""
    most = max(1, _BLOCK // max(1, lists))
    while replications > 0:
        yield min(most, replications)
        replications -= most


def _check(first: FloatArray, second: FloatArray) -> None:
    if first.shape != second.shape or first.ndim != 2 or not len(first):
        raise DataError(f"pair statistics of the same lists, in shape [S, K]; got {first.shape} and {second.shape}")
