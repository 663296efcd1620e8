"""Losses as rates, where it is known what to divide them by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lpmert.errors import FloatArray
from lpmert.metrics.base import Metric, SumOfLosses
from lpmert.metrics.ratio import LinearFraction
from lpmert.system.mapped import pieces

ACCURACY, ERROR_RATE = "accuracy", "error_rate"


def rates_of(metric: Metric, statistics: FloatArray, loss: float, n_lists: int) -> Mapping[str, float]:
    """Return a loss as shares by name: of right choices where hypotheses are right or wrong, or of errors.

    statistics [M, K] are those of all hypotheses. Empty where what to divide by is not known.
    """
    if isinstance(metric, LinearFraction) and not metric.higher_is_better:
        return {ERROR_RATE: loss}
    if isinstance(metric, SumOfLosses) and all(((one == 0) | (one == 1)).all() for one in pieces(statistics)):
        return {ACCURACY: 1.0 - loss / n_lists}
    return {}


def error_rates(settings: object, references: Sequence[Sequence[str]], *losses: float) -> list[dict[str, float]]:
    """Return edits that were counted by a metric on texts as rates, for each loss.

    Empty where what to divide by is not known: with several references it depends on which are nearest.
    """
    from lpmert.metrics.text import EditTexts

    if not isinstance(settings, EditTexts) or settings.per_sentence or any(len(own) != 1 for own in references):
        return [{} for _ in losses]
    length = sum(settings.length(own[0]) for own in references)
    return [{ERROR_RATE: loss / length} if length else {} for loss in losses]
