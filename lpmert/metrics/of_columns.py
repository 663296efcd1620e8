"""The metric that sums statistics of given names."""

from __future__ import annotations

from collections.abc import Sequence

from lpmert.metrics.additive import SumOfLosses
from lpmert.metrics.base import Metric
from lpmert.metrics.columns import BLEU_COLUMNS, ERROR_COLUMNS, F_COLUMNS, TER_COLUMNS, chrf_orders
from lpmert.metrics.ratio import Bleu, Chrf, LinearFraction, f_beta


def metric_of_columns(names: Sequence[str]) -> Metric | None:
    """Return the metric that statistics with these names are for; `None` where the names do not tell.

    F of match, predicted and gold is F1. Errors and lengths of references are an error rate.
    """
    columns = tuple(names)
    if len(columns) == 1:
        return SumOfLosses()
    if columns == BLEU_COLUMNS:
        return Bleu()
    if columns == F_COLUMNS:
        return f_beta()
    if columns == ERROR_COLUMNS:
        return LinearFraction("error-rate", columns, (1, 0), (0, 1), higher_is_better=False)
    if columns == TER_COLUMNS:
        return LinearFraction("ter", columns, (1, 0, 0), (0, 1, 0), higher_is_better=False)
    orders = chrf_orders(columns)
    return None if orders is None else Chrf(*orders)
