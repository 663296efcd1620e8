"""The contract of a metric: what turns summed statistics into a loss."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from lpmert.result import FloatArray, MetricError


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


def metric_by_name(metric: str | Metric) -> Metric:
    """Return the metric of this name, or the argument itself if it is a metric.

    Raises `MetricError` for anything else.
    """
    from lpmert.metrics.additive import SumOfLosses

    known = {"loss": SumOfLosses()}
    if isinstance(metric, str):
        if metric not in known:
            raise MetricError(f"no metric {metric!r}; choose one of {', '.join(known)}, or pass a metric object")
        return known[metric]
    if not isinstance(metric, Metric):
        raise MetricError(f"metric must be a name or have name, signature, check, loss and score; got {metric!r}")
    return metric
