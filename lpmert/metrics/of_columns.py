"""The metric that sums statistics of given names."""

from __future__ import annotations

from collections.abc import Sequence

from lpmert.errors import MetricError
from lpmert.metrics.additive import SumOfLosses
from lpmert.metrics.base import Metric, metric_by_name
from lpmert.metrics.columns import BLEU_COLUMNS, ERROR_COLUMNS, F_COLUMNS, PER_COLUMNS, TER_COLUMNS, chrf_orders
from lpmert.quoting import listed


def metric_of(metric: str | Metric | None, names: Sequence[str]) -> Metric:
    """Return a metric as `metric_by_name` does, and for `None` the one that the names of the statistics tell.

    Raises `MetricError` where they tell none.
    """
    if metric is not None:
        return metric_by_name(metric)
    found = metric_of_columns(names)
    if found is None:
        raise MetricError(
            f"the lists have the statistics {listed(names)}: choose one with --loss, or a --metric of all (in Python "
            "loss= of the reader, or metric=)"
        )
    return found


def metric_of_columns(names: Sequence[str]) -> Metric | None:
    """Return the metric that statistics with these names are for; `None` where the names do not tell.

    F of match, predicted and gold is F1. Errors and lengths of references are an error rate.
    """
    columns = tuple(names)
    if len(columns) == 1:
        return SumOfLosses()
    from lpmert.metrics.ratio import Bleu, Chrf, LinearFraction, Per, f_beta  # with the core, which checkers do without

    if columns == BLEU_COLUMNS:
        return Bleu()
    if columns == F_COLUMNS:
        return f_beta()
    if columns == ERROR_COLUMNS:
        return LinearFraction("error-rate", columns, (1, 0), (0, 1), higher_is_better=False)
    if columns == TER_COLUMNS:
        return LinearFraction("ter", columns, (1, 0, 0), (0, 1, 0), higher_is_better=False)
    if columns == PER_COLUMNS:
        return Per()
    orders = chrf_orders(columns)
    return None if orders is None else Chrf(*orders)
