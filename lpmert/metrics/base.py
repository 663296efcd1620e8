"""The contract of a metric: what turns summed statistics into a loss."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from lpmert.errors import FloatArray, MetricError
from lpmert.metrics.columns import TEXT_METRICS
from lpmert.quoting import listed, quoted
from lpmert.registry import METRICS
from lpmert.system.mapped import blocks_of_rows

_EXACT_INTEGERS = 2.0**53


@runtime_checkable
class Metric(Protocol):
    """A loss on summed statistics; lower losses are better, whatever the direction of the score.

    `name` is what users type, `signature` names every setting that changes the number.
    """

    @property
    def name(self) -> str: ...

    @property
    def signature(self) -> str: ...

    def check(self, statistics: FloatArray) -> None:
        """Raise `MetricError` if statistics [M, K] are not what the metric takes."""

    def loss(self, total: FloatArray) -> float:
        """Return the loss of summed statistics [K]."""

    def score(self, total: FloatArray) -> float:
        """Return the figure users know, in native units, of summed statistics [K]."""


@runtime_checkable
class AdditiveMetric(Metric, Protocol):
    """A metric whose loss is a sum over lists."""

    def losses(self, statistics: FloatArray) -> FloatArray:
        """Return the loss [M] that each hypothesis adds, from statistics [M, K]."""


@runtime_checkable
class RatioMetric(Metric, Protocol):
    """A metric whose formula the searches know, of summed statistics: see `lpmert.metrics.kinds`.

    `kind` and `parameters` name the formula; `loss` and `losses_of_totals` are that formula, up to the last bits. Its
    statistics are whole numbers of at least 0, so that their sums are exact in any order. `Problem` refuses what breaks
    this on its lists.
    """

    @property
    def kind(self) -> int: ...

    @property
    def parameters(self) -> FloatArray: ...

    def losses_of_totals(self, totals: FloatArray) -> FloatArray:
        """Return the losses [n] of summed statistics [n, K]."""


def losses_of_totals(metric: Metric, totals: FloatArray) -> FloatArray:
    """Return the losses [n] of summed statistics [n, K] under any metric."""
    if isinstance(metric, RatioMetric):
        return metric.losses_of_totals(totals)
    return np.array([metric.loss(total) for total in totals], dtype=np.float64)


def metric_by_name(metric: str | Metric) -> Metric:
    """Return the metric of this name or at this `module:Class`, or the argument itself if it is a metric.

    Raises `MetricError` for anything else.
    """
    given = metric
    if isinstance(metric, str):
        if metric in TEXT_METRICS and metric not in METRICS.own:
            raise MetricError(
                f"metric {quoted(metric)} is of texts; give the references (--references), or for lists with counts "
                f"one of {listed(METRICS.names())}"
            )
        metric = METRICS.build(metric)
    if isinstance(metric, type):
        raise MetricError(f"metric is the class {metric.__name__}; pass an object of it, such as {metric.__name__}()")
    if not isinstance(metric, Metric):
        raise MetricError(f"metric must be a name or have name, signature, check, loss and score; got {quoted(given)}")
    return metric


def check_counts(name: str, columns: tuple[str, ...], statistics: FloatArray) -> None:
    """Raise `MetricError` unless statistics [M, K] have these columns, all whole numbers of at least 0.

    Whole numbers whose sums stay below 2**53, so that these are exact.
    """
    if statistics.shape[1] != len(columns):
        raise MetricError(
            f"metric {quoted(name)} takes {len(columns)} statistics columns ({listed(columns)}), the lists have "
            f"{statistics.shape[1]}: name these columns, in this order"
        )
    most = 0.0
    for first, block in blocks_of_rows(statistics):
        wrong = (block < 0) | (block != np.rint(block))
        if wrong.any():
            row, column = (int(place) for place in np.argwhere(wrong)[0])
            raise MetricError(
                f"metric {quoted(name)} counts: hypothesis {first + row} (from 0), column {quoted(columns[column])} "
                f"has {block[row, column]:g}, which is not a whole number of at least 0"
            )
        most = max(most, float(block.max(initial=0.0)))
    if most * len(statistics) > _EXACT_INTEGERS:
        raise MetricError(f"metric {quoted(name)}: the counts are so large that their sums are not exact; divide them")
