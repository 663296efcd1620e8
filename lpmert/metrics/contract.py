"""Finding a metric by name or by the columns of statistics, and testing that it keeps its contract.

It is tested on selections drawn from the lists on which it will be used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lpmert.errors import FloatArray, IntArray, MetricError
from lpmert.metrics.base import AdditiveMetric, Metric, RatioMetric, SumOfLosses, Wer
from lpmert.quoting import listed, quoted
from lpmert.registry import (
    BLEU_COLUMNS,
    ERROR_COLUMNS,
    F_COLUMNS,
    METRICS,
    TER_COLUMNS,
    TEXT_METRICS,
    chrf_orders,
)


def metric_by_name(metric: str | Metric) -> Metric:
    """Return the metric of this name or at this `module:Class`; a metric is returned as it is.

    Raises `MetricError` for anything else.
    """
    found = metric
    if isinstance(metric, str):
        if metric in TEXT_METRICS and metric not in METRICS.own:
            raise MetricError(
                f"metric {quoted(metric)} is counted from texts; give references (--references), or for lists with "
                f"counts one of {listed(METRICS.names())}"
            )
        found = METRICS.build(metric)
    if isinstance(found, type):
        raise MetricError(f"metric is the class {found.__name__}; pass an object of it, such as {found.__name__}()")
    if not isinstance(found, Metric):
        raise MetricError(f"metric must be a name or have name, signature, check, loss and score; got {quoted(metric)}")
    return found


def metric_of(metric: str | Metric | None, names: Sequence[str]) -> Metric:
    """Return `metric_by_name`, or for `None` the metric that the names of the statistics imply.

    Raises `MetricError` if they imply none.
    """
    if metric is not None:
        return metric_by_name(metric)
    found = metric_of_columns(names)
    if found is None:
        raise MetricError(
            f"the lists have the statistics {listed(names)}: name their --metric, such as wer, or choose one with "
            "--loss (in Python metric=, or loss= of the reader)"
        )
    return found


def metric_of_columns(names: Sequence[str]) -> Metric | None:
    """Return the metric that statistics with these names are for; `None` if the names do not tell.

    F of match, predicted and gold is F1. Errors and lengths of references are an error rate, even if lengths are equal
    within lists: the unit of a loss must not depend on the numbers in a file, and the optimum, and the nodes it takes,
    are those of the sum of errors. For that sum itself, give one column, or name "wer".
    """
    columns = tuple(names)
    if len(columns) == 1:
        return SumOfLosses()
    # imported here: checking a certificate of a sum of losses needs none of them
    from lpmert.metrics.ratio import Bleu, Chrf, LinearFraction, error_rate, f_beta

    known: dict[tuple[str, ...], Callable[[], Metric]] = {
        BLEU_COLUMNS: Bleu,
        F_COLUMNS: f_beta,
        ERROR_COLUMNS: error_rate,
        TER_COLUMNS: lambda: LinearFraction("ter", columns, (1, 0, 0), (0, 1, 0), higher_is_better=False),
    }
    if columns in known:
        return known[columns]()
    orders = chrf_orders(columns)
    return None if orders is None else Chrf(*orders)


def check_statistics(metric: Metric, statistics: FloatArray, offsets: IntArray) -> None:
    """Raise `MetricError` unless statistics [M, K] of lists, offsets [S + 1], are what the metric takes."""
    metric.check(statistics)
    if isinstance(metric, Wer):
        metric.check_lengths(statistics, offsets)


_MOST_SELECTIONS = 200
_MOST_NUMBERS = 2_000_000

_ADDING_UP = 1e-9
"""Relative error allowed between a sum of losses and the loss of the sums: far above rounding, far below a mistake."""


def check_metric(metric: Metric, statistics: FloatArray, offsets: IntArray) -> None:
    """Raise `MetricError` if a metric breaks its contract on a selection: statistics [M, K], offsets [S + 1].

    An additive loss must add up, because proofs rely on it, and every loss must be finite. Ratio metrics need no test:
    the core has their formulas.
    """
    if isinstance(metric, RatioMetric):
        return
    rows = _selections(offsets, statistics.shape[1])
    totals = statistics[rows].sum(axis=1)
    losses = np.array([metric.loss(total) for total in totals], dtype=np.float64)
    if isinstance(metric, AdditiveMetric):
        _check_sums(metric, statistics, rows, losses)
        return
    if not np.isfinite(losses).all():
        total = totals[int(np.argmin(np.isfinite(losses)))].tolist()
        raise MetricError(f"metric {quoted(metric.name)}, summed statistics {total}: its loss must be a finite number")


def _selections(offsets: IntArray, n_columns: int) -> IntArray:
    """Return selections as rows [n, S]: all first and all last hypotheses, and random ones.

    If there are very many lists, only a sample of them is used, which tells as much.
    """
    stride = max(1, -(-4 * (len(offsets) - 1) * n_columns // _MOST_NUMBERS))
    sizes, starts = np.diff(offsets)[::stride], offsets[:-1:stride]
    number = int(np.clip(_MOST_NUMBERS // max(1, len(sizes) * n_columns), 4, _MOST_SELECTIONS))
    drawn = np.random.default_rng(0).integers(1 << 32, size=(number, len(sizes)), dtype=np.uint32).astype(np.int64)
    drawn *= sizes
    drawn >>= 32
    drawn[0], drawn[1] = 0, sizes - 1
    drawn += starts
    return drawn


def _check_sums(metric: AdditiveMetric, statistics: FloatArray, rows: IntArray, losses: FloatArray) -> None:
    each = np.asarray(metric.losses(statistics), dtype=np.float64)
    if each.shape != (len(statistics),) or not np.isfinite(each).all():
        raise MetricError(
            f"metric {quoted(metric.name)}: losses must return one finite number for each of the {len(statistics)} "
            "hypotheses"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        chosen = each[rows]
        sums = chosen.sum(axis=1)
        size = np.abs(chosen, out=chosen).sum(axis=1) + np.abs(losses)
        wrong = np.flatnonzero(np.isfinite(sums) & ~(np.abs(sums - losses) <= _ADDING_UP * size))
    if len(wrong):
        k = int(wrong[0])
        raise MetricError(
            f"metric {quoted(metric.name)} is not additive: the losses of the chosen hypotheses add up to {sums[k]:g}, "
            f"and the loss of their summed statistics is {losses[k]:g}; omit `losses`, or make them add up"
        )
