"""Losses that are sums over lists: word errors, TER edits, 0/1 errors, 1 - sentence BLEU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lpmert.errors import FloatArray, MetricError
from lpmert.quoting import quoted
from lpmert.system.mapped import blocks_of_rows


@dataclass(frozen=True)
class SumOfLosses:
    """The sum of one statistics column over the chosen hypotheses; source tells in the signature what it counts."""

    source: str = ""

    @property
    def name(self) -> str:
        return "loss"

    @property
    def signature(self) -> str:
        return f"metric:{self.name}|columns:1" + (f"|{self.source}" if self.source else "")

    def check(self, statistics: FloatArray) -> None:
        """Raise `MetricError` unless statistics [M, K] have one column."""
        if statistics.shape[1] != 1:
            raise MetricError(
                f"metric {quoted(self.name)} sums one statistics column, the lists have {statistics.shape[1]}: "
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


@dataclass(frozen=True)
class ZeroOne(SumOfLosses):
    """The number of lists whose chosen hypothesis is wrong, from a column of 0 (right) and 1 (wrong)."""

    @property
    def name(self) -> str:
        return "zero-one"

    def check(self, statistics: FloatArray) -> None:
        """Raise `MetricError` unless statistics [M, K] have one column of 0 and 1."""
        super().check(statistics)
        for first, block in blocks_of_rows(statistics):
            other = np.flatnonzero((block[:, 0] != 0) & (block[:, 0] != 1))
            if len(other):
                raise MetricError(
                    f"metric 'zero-one' takes a column of 0 and 1; hypothesis {first + other[0]} (from 0) has "
                    f"{block[other[0], 0]:g}: for other losses choose metric 'loss'"
                )
