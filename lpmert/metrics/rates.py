"""Losses as rates, where it is known what to divide them by."""

from __future__ import annotations

from collections.abc import Mapping

from lpmert.errors import FloatArray
from lpmert.metrics.additive import SumOfLosses
from lpmert.metrics.base import Metric
from lpmert.metrics.ratio import LinearFraction

ACCURACY, ERROR_RATE = "accuracy", "error_rate"


def rates_of(metric: Metric, statistics: FloatArray, loss: float, n_lists: int) -> Mapping[str, float]:
    """Return a loss as shares by name: of right choices where hypotheses are right or wrong, or of errors.

    statistics [M, K] are those of all hypotheses. Empty where what to divide by is not known.
    """
    if isinstance(metric, LinearFraction) and not metric.higher_is_better:
        return {ERROR_RATE: loss}
    if isinstance(metric, SumOfLosses) and ((statistics == 0) | (statistics == 1)).all():
        return {ACCURACY: 1.0 - loss / n_lists}
    return {}
