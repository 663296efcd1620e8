"""Losses that are sums over lists: word errors, TER edits, 0/1 errors, 1 - sentence BLEU."""

from __future__ import annotations

from dataclasses import dataclass

from lpmert.result import FloatArray, MetricError


@dataclass(frozen=True)
class SumOfLosses:
    """The sum of one statistics column over the chosen hypotheses."""

    @property
    def name(self) -> str:
        return "loss"

    @property
    def signature(self) -> str:
        return "metric:loss|columns:1"

    def check(self, statistics: FloatArray) -> None:
        """Raise `MetricError` unless statistics [M, K] have one column."""
        if statistics.shape[1] != 1:
            raise MetricError(
                f"metric 'loss' sums one statistics column, the lists have {statistics.shape[1]}: "
                "name one loss column, or choose a metric that takes them all"
            )

    def losses(self, statistics: FloatArray) -> FloatArray:
        """Return the loss [M] that each hypothesis adds, from statistics [M, 1]."""
        return statistics[:, 0]

    def loss(self, total: FloatArray) -> float:
        """Return the loss of summed statistics [1]."""
        return float(total[0])

    def score(self, total: FloatArray) -> float:
        """Return the loss itself: its native unit is that of the column."""
        return float(total[0])
