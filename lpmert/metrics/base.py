"""Metrics turn summed statistics into a loss: what all metrics have, and sums of losses and of errors.

The formulas of ratio metrics by `kind`, which `lpmert/core/ratio.hpp` computes and bounds:

BLEU: totals match_1, total_1, ..., match_4, total_4, reference length; no parameters.
FRACTION: a.x / b.x; parameters a [K], b [K]; 1 where the denominator is 0.
CHRF: totals hypothesis, reference and matching n-grams of each order; parameters [beta^2].
BUDGET: totals loss and second; parameters most, u, v. The loss is u * loss, at most 1/2, while second is at most
`most`; beyond that it is 1/2 + v * (second - most), at most 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from lpmert.errors import FloatArray, IntArray, MetricError
from lpmert.numeric.lists import blocks_of_rows
from lpmert.numeric.rational import EXACT_INTEGERS
from lpmert.quoting import listed, quoted


@runtime_checkable
class Metric(Protocol):
    """A loss on summed statistics; lower losses are better, whatever the direction of the score.

    `name` is what users type; `signature` names every setting that changes the loss.
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
        """Return the score of summed statistics [K], in the unit that users know."""


@runtime_checkable
class AdditiveMetric(Metric, Protocol):
    """A metric whose loss is a sum over lists."""

    def losses(self, statistics: FloatArray) -> FloatArray:
        """Return the loss [M] of each hypothesis, from statistics [M, K]."""


class RatioMetric(ABC):
    """A metric whose formula of summed statistics the core computes and bounds: only those of `lpmert.metrics.base`.

    `kind` and `parameters` name the formula. Statistics are whole numbers of at least 0 with these `columns`, so that
    their sums are exact in any order.
    """

    name: str
    kind: int
    columns: tuple[str, ...]
    _best = 1.0

    @property
    @abstractmethod
    def signature(self) -> str: ...

    @property
    def parameters(self) -> FloatArray:
        return np.empty(0)

    def check(self, statistics: FloatArray) -> None:
        check_counts(self.name, self.columns, statistics)

    def loss(self, total: FloatArray) -> float:
        return float(self.losses_of_totals(np.asarray(total)[None])[0])

    def losses_of_totals(self, totals: FloatArray) -> FloatArray:
        """Return the losses [n] of summed statistics [n, K]: at least 0, and at most 1 except for fractions."""
        from lpmert import core  # imported here: the certificate checker loads no search

        return core.losses_of_totals(self.kind, self.parameters, np.ascontiguousarray(totals, dtype=np.float64))

    def score(self, total: FloatArray) -> float:
        """Return the score of summed statistics [K]: 0 to 100 for BLEU and chrF."""
        return self._best * (1.0 - self.loss(total))


def losses_of_totals(metric: Metric, totals: FloatArray) -> FloatArray:
    if isinstance(metric, RatioMetric):
        return metric.losses_of_totals(totals)
    return np.array([metric.loss(total) for total in totals], dtype=np.float64)


def check_counts(name: str, columns: tuple[str, ...], statistics: FloatArray) -> None:
    """Raise `MetricError` unless statistics [M, K] are whole numbers of at least 0 whose sums are exact, as columns."""
    if statistics.shape[1] != len(columns):
        takes = f"takes {len(columns)} statistics columns ({listed(columns)}), the lists have {statistics.shape[1]}"
        raise MetricError(f"metric {quoted(name)} {takes}: name these columns, in this order")
    for number, row, column in wrong_entries(statistics, lambda block: (block < 0) | (block != np.rint(block))):
        place = f"hypothesis {number} (from 0), column {quoted(columns[column])} has {row[column]:g}"
        raise MetricError(f"metric {quoted(name)} counts: {place}, which is not a whole number of at least 0")
    if float(statistics.max(initial=0.0)) * len(statistics) > EXACT_INTEGERS:
        raise MetricError(f"metric {quoted(name)}: the counts are so large that their sums are not exact; divide them")


def wrong_entries(statistics: FloatArray, wrong: Callable[[FloatArray], Any]) -> Iterator[tuple[int, FloatArray, int]]:
    """Yield hypothesis, its statistics [K], and the column where `wrong` of a block of rows is true."""
    for first, block in blocks_of_rows(statistics):
        for row, column in np.argwhere(wrong(block)):
            yield first + int(row), block[row], int(column)


BLEU, FRACTION, CHRF, BUDGET = range(4)


class SumFraction(NamedTuple):
    """The loss (above . x) / (below . x) of summed counts x [K]; 1 if the denominator is 0."""

    above: IntArray
    below: IntArray

    def parts(self, statistics: FloatArray) -> tuple[IntArray, IntArray]:
        """Return what hypotheses, with counts [m, K], add to numerator [m] and denominator [m]."""
        counts = np.rint(statistics).astype(np.int64)
        return counts @ self.above, counts @ self.below

    def loss(self, total: FloatArray) -> Fraction:
        above, below = (int(part) for part in self.parts(total))
        return Fraction(above, below) if below else Fraction(1)

    def unit(self, statistics: FloatArray) -> float:
        """Return a power of two u: different losses of selections from hypotheses [M, K] are at least 2 u apart."""
        most = int(self.parts(statistics)[1].sum())
        return float(np.ldexp(1.0, -2 * most.bit_length() - 1))


def fraction_of(metric: Metric) -> SumFraction | None:
    if not isinstance(metric, RatioMetric) or metric.kind != FRACTION:
        return None
    return SumFraction(*np.split(metric.parameters.astype(np.int64), 2))


def exact_loss(metric: Metric, total: FloatArray) -> float | Fraction:
    """Return the loss of summed statistics [K]: exact for a fraction, otherwise as searches compute it."""
    fraction = fraction_of(metric)
    return metric.loss(total) if fraction is None else fraction.loss(total)


def sourced(signature: str, source: str) -> str:
    return f"{signature}|{source}" if source else signature


@dataclass(frozen=True)
class SumOfLosses:
    """The sum of one statistics column over the chosen hypotheses; source: what it counts, for the signature."""

    name = "loss"
    source: str = ""
    _width = 1

    @property
    def signature(self) -> str:
        return sourced(f"metric:{self.name}|columns:{self._width}", self.source)

    def check(self, statistics: FloatArray) -> None:
        if statistics.shape[1] != 1:
            sums = f"sums one statistics column, the lists have {statistics.shape[1]}"
            raise MetricError(f"metric {quoted(self.name)} {sums}: name one loss column, or choose another metric")

    def losses(self, statistics: FloatArray) -> FloatArray:
        return statistics[:, 0]

    def loss(self, total: FloatArray) -> float:
        return float(total[0])

    def score(self, total: FloatArray) -> float:
        return float(total[0])


@dataclass(frozen=True)
class ZeroOne(SumOfLosses):
    """The number of lists whose chosen hypothesis is wrong, from a column of 0 (right) and 1 (wrong)."""

    name = "zero-one"

    def check(self, statistics: FloatArray) -> None:
        super().check(statistics)
        for number, row, _ in wrong_entries(statistics, lambda block: (block != 0) & (block != 1)):
            found = f"hypothesis {number} (from 0) has {row[0]:g}"
            raise MetricError(f"metric 'zero-one' takes 0 and 1; {found}: for other losses choose metric 'loss'")


class Wer(SumOfLosses):
    """Word errors, from two columns: the errors of a hypothesis and the words of its reference.

    The loss is the sum of errors; the score is the rate, which is that divided by a constant: all hypotheses of a list
    have the same reference.
    """

    name = "wer"
    _width = 2

    def check(self, statistics: FloatArray) -> None:
        if statistics.shape[1] != 2:
            takes = "takes 2 statistics columns, errors and the length of the reference, or texts with --references"
            raise MetricError(f"metric {quoted(self.name)} {takes}; the lists have {statistics.shape[1]}")
        check_counts(self.name, ("errors", "length"), statistics)

    def check_lengths(self, statistics: FloatArray, offsets: IntArray) -> None:
        """Raise `MetricError` unless the hypotheses of each list, offsets [S + 1], have references of one length.

        Otherwise the sum of errors is not proportional to the rate.
        """
        lengths, starts = statistics[:, 1], offsets[:-1]
        least, most = np.minimum.reduceat(lengths, starts), np.maximum.reduceat(lengths, starts)
        wrong = np.flatnonzero(least != most)
        if len(wrong):
            found = f"{least[wrong[0]]:g} for one hypothesis and {most[wrong[0]]:g} for another"
            takes = f"metric {quoted(self.name)} takes errors and the length of the reference, in this order"
            remedy = "if that is right, choose metric 'error-rate', the ratio of both sums"
            raise MetricError(f"{takes}, and the length of list {wrong[0]} (from 0) is {found}: {remedy}")

    def score(self, total: FloatArray) -> float:
        """Return the error rate of summed statistics [2]; 1 where the references are empty."""
        return float(total[0] / total[1]) if total[1] else 1.0


class Cer(Wer):
    """Character errors, from two columns: the errors of a hypothesis and the characters of its reference."""

    name = "cer"
