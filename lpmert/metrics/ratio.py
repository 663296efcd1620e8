"""Ratios of sums: corpus BLEU, corpus chrF, precision, recall, F_beta, error rates, and sums within a budget.

`check` refuses statistics that a formula does not take; the loss of accepted ones is at least 0, and at most 1 except
for fractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lpmert.errors import FloatArray, MetricError
from lpmert.metrics.base import BLEU, BUDGET, CHRF, FRACTION, RatioMetric, sourced, wrong_entries
from lpmert.numeric.rational import EXACT_INTEGERS
from lpmert.quoting import listed, quoted
from lpmert.registry import (
    BLEU_COLUMNS,
    ERROR_COLUMNS,
    F_COLUMNS,
    chrf_columns,
)


def _check_matches(name: str, statistics: FloatArray, matching: slice, among: slice, what: str, remedy: str) -> None:
    """Raise `MetricError` if a hypothesis has more matches (columns `matching`) than items (columns `among`)."""
    for number, row, order in wrong_entries(statistics, lambda block: block[:, matching] > block[:, among]):
        found = f"{row[matching][order]:g} matches among {row[among][order]:g} {what.format(order + 1)}"
        raise MetricError(f"metric {quoted(name)}: hypothesis {number} (from 0) has {found}; {remedy}")


@dataclass(frozen=True)
class Bleu(RatioMetric):
    """Corpus BLEU from n-gram matches and totals, without smoothing; loss = 1 - score / 100.

    The score is 0 if an order has no match, as in sacrebleu with smooth_method="none". source: how the statistics were
    made, for the signature. Source: Papineni et al., BLEU, ACL 2002.
    """

    name = "bleu"
    kind = BLEU
    columns = BLEU_COLUMNS
    _best = 100.0

    source: str = ""

    @property
    def signature(self) -> str:
        return sourced("metric:bleu|columns:9|smooth:none|eff:no", self.source)

    def check(self, statistics: FloatArray) -> None:
        super().check(statistics)
        remedy = f"the columns must be in the order {listed(self.columns)}"
        _check_matches(self.name, statistics, slice(0, 8, 2), slice(1, 8, 2), "n-grams of order {}", remedy)


@dataclass(frozen=True)
class Chrf(RatioMetric):
    """Corpus chrF from n-grams of hypothesis and reference and their matches, order by order; loss = 1 - score / 100.

    F of the mean precision and recall over the orders that occur, as in sacrebleu; word_order=2 is chrF++. source: how
    the statistics were made, for the signature. Source: Popović, chrF, WMT 2015.
    """

    name = "chrf"
    kind = CHRF
    _best = 100.0

    char_order: int = 6
    word_order: int = 0
    beta: float = 2.0
    source: str = ""

    def __post_init__(self) -> None:
        if self.char_order < 0 or self.word_order < 0 or self.char_order + self.word_order < 1:
            raise MetricError(f"chrF needs an order; got char_order={self.char_order}, word_order={self.word_order}")
        _check_beta(self.beta)

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return chrf_columns(self.char_order, self.word_order)

    @property
    def signature(self) -> str:
        columns = 3 * (self.char_order + self.word_order)
        beta = np.format_float_positional(self.beta, trim="-")
        settings = f"nc:{self.char_order}|nw:{self.word_order}|beta:{beta}|eff:yes"
        return sourced(f"metric:chrf|columns:{columns}|{settings}", self.source)

    @property
    def parameters(self) -> FloatArray:
        return np.array([float(self.beta) ** 2])

    def check(self, statistics: FloatArray) -> None:
        super().check(statistics)
        remedy = "the columns of each order must be hypothesis, reference, match"
        for among in (slice(0, None, 3), slice(1, None, 3)):
            _check_matches(self.name, statistics, slice(2, None, 3), among, "n-grams", remedy)


@dataclass(frozen=True)
class Budget(RatioMetric):
    """The sum of a loss while a second sum is at most `most`; any excess is worse than any loss.

    Losses and excess are whole numbers. unit, beyond: powers of two by which they are multiplied, so that no loss
    within the budget exceeds `WITHIN`, and no loss at all exceeds 1. `lpmert.budgets` makes it.
    """

    name = "budget"
    kind = BUDGET
    columns = ("loss", "second")

    most: float
    unit: float
    beyond: float

    @property
    def signature(self) -> str:
        return f"metric:budget|columns:2|most:{self.most:g}"

    @property
    def parameters(self) -> FloatArray:
        return np.array([self.most, self.unit, self.beyond])


LARGEST_FACTOR = 10**6  # largest factor of a column in the numerator or denominator of a fraction
WITHIN = 2.0**-8  # largest loss within the budget: the room up to 1/2 lets bounds charge enough for an excess (R7)


@dataclass(frozen=True)
class LinearFraction(RatioMetric):
    """The loss (numerator . x) / (denominator . x) of summed counts x; 1 if the denominator is 0.

    numerator, denominator: one whole number for each column; both must be non-negative for every hypothesis. The score
    is 1 - loss, or with higher_is_better=False the loss itself.
    """

    kind = FRACTION

    name: str
    columns: tuple[str, ...]
    numerator: tuple[int, ...]
    denominator: tuple[int, ...]
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        for what, factors in (("numerator", self.numerator), ("denominator", self.denominator)):
            if len(factors) != len(self.columns):
                raise MetricError(f"{what} needs one number for each of {listed(self.columns)}; got {factors}")
            if any(not isinstance(f, int) or abs(f) > LARGEST_FACTOR for f in factors):
                raise MetricError(f"{what} must be whole numbers of at most {LARGEST_FACTOR}; got {factors}")

    @property
    def signature(self) -> str:
        above, below = (",".join(map(str, factors)) for factors in (self.numerator, self.denominator))
        score = "" if self.higher_is_better else "|score:loss"
        return f"metric:{self.name}|columns:{len(self.columns)}|loss:({above})/({below}){score}"

    @property
    def parameters(self) -> FloatArray:
        return np.array([*self.numerator, *self.denominator], dtype=np.float64)

    def check(self, statistics: FloatArray) -> None:
        super().check(statistics)
        most = statistics.max(axis=0, initial=0.0)
        for what, whole in (("numerator", self.numerator), ("denominator", self.denominator)):
            factors = np.array(whole, dtype=np.float64)
            if float(np.abs(factors) @ most) * len(statistics) > EXACT_INTEGERS:
                large = f"the counts are so large that the {what} of the loss is not exact"
                raise MetricError(f"metric {quoted(self.name)}: {large}; divide them")
            for number, value, _ in wrong_entries((statistics @ factors)[:, None], lambda block: block < 0):
                found = f"the {what} of the loss is {value[0]:g} for hypothesis {number} (from 0)"
                remedy = f"the columns must be {listed(self.columns)}, in this order"
                raise MetricError(f"metric {quoted(self.name)}: {found}; {remedy}")

    def score(self, total: FloatArray) -> float:
        return 1.0 - self.loss(total) if self.higher_is_better else self.loss(total)


def f_beta(beta: float = 1.0) -> LinearFraction:
    """Return F_beta of summed matches, predictions and gold items; it is 0 if there are no predictions or no gold.

    beta counts as the decimal number that it prints as. Raises `MetricError` unless it is at least 0, and its square a
    fraction of numbers of at most a million. Source: van Rijsbergen, Information Retrieval, 1979.
    """
    _check_beta(beta)
    squared = Fraction(str(beta)) ** 2
    p, q = squared.numerator, squared.denominator
    if p + q > LARGEST_FACTOR:
        raise MetricError(f"beta={quoted(beta)} has too many digits; round it")
    return LinearFraction(f"f{beta:g}", F_COLUMNS, (-(p + q), q, p), (0, q, p))


def precision() -> LinearFraction:
    """Return the share of predictions that match; 0 if there are none."""
    return LinearFraction("precision", F_COLUMNS, (-1, 1, 0), (0, 1, 0))


def recall() -> LinearFraction:
    """Return the share of gold items that are matched; 0 if there are none."""
    return LinearFraction("recall", F_COLUMNS, (-1, 0, 1), (0, 0, 1))


def error_rate() -> LinearFraction:
    """Return errors over lengths of references, which may differ within a list."""
    return LinearFraction("error-rate", ERROR_COLUMNS, (1, 0), (0, 1), higher_is_better=False)


def _check_beta(beta: float) -> None:
    if isinstance(beta, bool) or not isinstance(beta, int | float) or not 0 <= beta <= 1e100:  # no overflow
        raise MetricError(f"beta must be a number from 0 to 1e+100; got {quoted(beta)}")
