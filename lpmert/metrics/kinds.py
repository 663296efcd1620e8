"""The formulas of ratio metrics that searches know, by `kind`: what each takes, and fractions of sums exactly.

BLEU: totals match_1, total_1, ..., match_4, total_4, reference length; no parameters.
FRACTION: (a.x + a0) / (b.x + b0); parameters a [K], a0, b [K], b0; 1 where the denominator is 0.
CHRF: totals hypothesis, reference and matching n-grams of each order; parameters [beta^2].
PER: totals match, hypothesis and reference words; no parameters.

`lpmert/core/ratio.hpp` computes them, and bounds them. `check_kind` refuses every other kind, and statistics that a
formula does not take: the loss of what it lets pass is at least 0, and at most 1 unless it is a fraction.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray, MetricError
from lpmert.metrics.base import AdditiveMetric, Metric, RatioMetric, check_counts
from lpmert.quoting import listed, quoted
from lpmert.system.mapped import blocks_of_rows

BLEU, FRACTION, CHRF, PER = range(4)

LARGEST_FACTOR = 10**6
_EXACT_INTEGERS = 2.0**53


class SumFraction(NamedTuple):
    """A loss (above . x + more_above) / (below . x + more_below) of summed counts x [K]; 1 where it would be x/0."""

    above: IntArray
    more_above: int
    below: IntArray
    more_below: int

    def parts(self, statistics: FloatArray) -> tuple[IntArray, IntArray]:
        """Return what counts [m, K] add to numerator and denominator, without the constants."""
        counts = np.rint(statistics).astype(np.int64)
        return counts @ self.above, counts @ self.below

    def loss(self, total: FloatArray) -> Fraction:
        """Return the loss of summed statistics [K], exactly."""
        above, below = (int(part) for part in self.parts(total))
        denominator = below + self.more_below
        return Fraction(above + self.more_above, denominator) if denominator else Fraction(1)

    def unit(self, statistics: FloatArray) -> float:
        """Return a power of two of which any two different losses of selections from [M, K] are at least two apart."""
        most = int(self.parts(statistics)[1].sum()) + self.more_below
        return float(np.ldexp(1.0, -2 * most.bit_length() - 1))


def fraction_of(metric: Metric) -> SumFraction | None:
    """Return the fraction that is a metric's loss, whatever its class; `None` for other losses."""
    if isinstance(metric, AdditiveMetric) or not isinstance(metric, RatioMetric) or metric.kind != FRACTION:
        return None
    return _fraction(metric.parameters)


def exact_loss(metric: Metric, total: FloatArray) -> float | Fraction:
    """Return the loss of summed statistics [K], exact for a fraction, or else as searches compute it: what the metric
    itself gives may differ in the last bits.
    """
    fraction = fraction_of(metric)
    if fraction is not None:
        return fraction.loss(total)
    if isinstance(metric, RatioMetric):
        from lpmert.core import loss_of_total  # here: the checker of certificates loads no search

        return loss_of_total(metric.kind, metric.parameters, total)
    return metric.loss(total)


def _fraction(parameters: FloatArray) -> SumFraction:
    factors = np.rint(parameters).astype(np.int64)
    half = len(factors) // 2
    return SumFraction(factors[: half - 1], int(factors[half - 1]), factors[half:-1], int(factors[-1]))


def check_kind(
    name: str, kind: int, parameters: FloatArray, statistics: FloatArray, columns: tuple[str, ...] | None = None
) -> None:
    """Raise `MetricError` unless there is a formula of this kind that takes these statistics [M, K].

    columns: the names of the statistics, their numbers where there are none. What this lets pass has a loss of at
    least 0, which is at most 1 unless it is a fraction.
    """
    width = statistics.shape[1]
    if isinstance(kind, bool) or not isinstance(kind, int | np.integer) or kind not in (BLEU, FRACTION, CHRF, PER):
        raise MetricError(
            f"metric {quoted(name)} has kind {quoted(kind)}, and formulas are known of BLEU ({BLEU}), "
            f"FRACTION ({FRACTION}), CHRF ({CHRF}) and PER ({PER}) of lpmert.metrics.kinds; omit kind for any other "
            "loss: heuristics accept it"
        )
    if columns is None:
        columns = tuple(str(k) for k in range(width))
    check_counts(name, columns, statistics)
    number = {BLEU: 0, FRACTION: 2 * width + 2, CHRF: 1, PER: 0}[int(kind)]
    if not (
        isinstance(parameters, np.ndarray)
        and parameters.dtype == np.float64
        and parameters.shape == (number,)
        and np.isfinite(parameters).all()
    ):
        raise MetricError(
            f"metric {quoted(name)}: its kind takes parameters as a float64 array of {number} finite numbers, see "
            f"lpmert.metrics.kinds; got {quoted(parameters)}"
        )
    checks = {BLEU: _check_bleu, FRACTION: _check_fraction, CHRF: _check_chrf, PER: _check_per}
    checks[int(kind)](name, columns, parameters, statistics)


def _check_bleu(name: str, columns: tuple[str, ...], parameters: FloatArray, statistics: FloatArray) -> None:
    del parameters
    if statistics.shape[1] != 9:
        raise MetricError(
            f"metric {quoted(name)} is of kind BLEU, which takes 9 statistics columns, not {len(columns)}"
        )
    for first, block in blocks_of_rows(statistics):
        beyond = np.argwhere(block[:, 0:8:2] > block[:, 1:8:2])
        if len(beyond):
            row, order = (int(place) for place in beyond[0])
            raise MetricError(
                f"metric {quoted(name)}: hypothesis {first + row} (from 0) has {block[row, 2 * order]:g} matches among "
                f"{block[row, 2 * order + 1]:g} n-grams of order {order + 1}; the columns must be in the order "
                f"{listed(columns)}"
            )


def _check_chrf(name: str, columns: tuple[str, ...], parameters: FloatArray, statistics: FloatArray) -> None:
    if len(columns) % 3 or not len(columns):
        raise MetricError(
            f"metric {quoted(name)} is of kind CHRF, which takes three columns an order, not {len(columns)}"
        )
    if parameters[0] < 0:
        raise MetricError(
            f"metric {quoted(name)} is of kind CHRF, whose beta^2 must be at least 0; got {parameters[0]:g}"
        )
    for first, block in blocks_of_rows(statistics):
        least = np.minimum(block[:, 0::3], block[:, 1::3])
        beyond = np.argwhere(block[:, 2::3] > least)
        if len(beyond):
            row, order = (int(place) for place in beyond[0])
            raise MetricError(
                f"metric {quoted(name)}: hypothesis {first + row} (from 0) has {block[row, 3 * order + 2]:g} matches "
                f"among {least[row, order]:g} n-grams; the columns of each order must be hypothesis, reference, match"
            )


def _check_per(name: str, columns: tuple[str, ...], parameters: FloatArray, statistics: FloatArray) -> None:
    del parameters
    if statistics.shape[1] != 3:
        raise MetricError(f"metric {quoted(name)} is of kind PER, which takes 3 statistics columns, not {len(columns)}")
    for first, block in blocks_of_rows(statistics):
        least = np.minimum(block[:, 1], block[:, 2])
        beyond = np.flatnonzero(block[:, 0] > least)
        if len(beyond):
            row = int(beyond[0])
            raise MetricError(
                f"metric {quoted(name)}: hypothesis {first + row} (from 0) has {block[row, 0]:g} matches among "
                f"{least[row]:g} words; the columns must be {listed(columns)}, in this order"
            )


def _check_fraction(name: str, columns: tuple[str, ...], parameters: FloatArray, statistics: FloatArray) -> None:
    if (parameters != np.rint(parameters)).any() or (np.abs(parameters) > LARGEST_FACTOR).any():
        raise MetricError(
            f"metric {quoted(name)} is a fraction: its factors must be whole numbers of at most {LARGEST_FACTOR}; "
            f"multiply numerator and denominator by the same number, or round; got {parameters.tolist()}"
        )
    most = np.zeros(statistics.shape[1])
    for _, block in blocks_of_rows(statistics):
        np.maximum(most, block.max(axis=0), out=most)
    for what, factors in zip(("numerator", "denominator"), np.split(parameters, 2), strict=True):
        if float(np.abs(factors[:-1]) @ most) * len(statistics) + abs(factors[-1]) > _EXACT_INTEGERS:
            raise MetricError(
                f"metric {quoted(name)}: the counts are so large that the {what} of the loss is not exact; divide them"
            )
        for first, block in blocks_of_rows(statistics):
            values = block @ factors[:-1]
            if (values < 0).any():
                row = int(np.argmin(values))
                raise MetricError(
                    f"metric {quoted(name)}: the {what} of the loss is {values[row]:g} for hypothesis {first + row} "
                    f"(from 0); the columns must be {listed(columns)}, in this order"
                )
        if factors[-1] < 0:
            raise MetricError(
                f"metric {quoted(name)}: the constant of the {what} must be at least 0; got {factors[-1]:g}"
            )
