"""Metrics turn summed statistics into a loss: sums of losses, error rates, fractions, corpus BLEU and chrF, budgets.

Also which metric a name or columns of statistics stand for, and the units in which users read its losses.

The formulas of ratio metrics by `kind`, which `lpmert/core/ratio.hpp` computes and bounds:

BLEU: totals match_1, total_1, ..., match_4, total_4, reference length; no parameters.
FRACTION: a.x / b.x; parameters a [K], b [K]; 1 where the denominator is 0.
CHRF: totals hypothesis, reference and matching n-grams of each order; parameters [beta^2].
BUDGET: totals loss and second; parameters most, u, v. The loss is u * loss, at most 1/2, while second is at most
`most`; beyond that it is 1/2 + v * (second - most), at most 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from lpmert.errors import FloatArray, IntArray, MetricError
from lpmert.numeric.lists import blocks_of_rows
from lpmert.numeric.rational import EXACT_INTEGERS
from lpmert.quoting import Unit, listed, quoted, shortened, visible
from lpmert.registry import (
    BLEU_COLUMNS,
    ERROR_COLUMNS,
    F_COLUMNS,
    METRICS,
    TER_COLUMNS,
    TEXT_METRICS,
    chrf_columns,
    chrf_orders,
)


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
    for number, row, column in _wrong(statistics, lambda block: (block < 0) | (block != np.rint(block))):
        place = f"hypothesis {number} (from 0), column {quoted(columns[column])} has {row[column]:g}"
        raise MetricError(f"metric {quoted(name)} counts: {place}, which is not a whole number of at least 0")
    if float(statistics.max(initial=0.0)) * len(statistics) > EXACT_INTEGERS:
        raise MetricError(f"metric {quoted(name)}: the counts are so large that their sums are not exact; divide them")


def _wrong(statistics: FloatArray, wrong: Callable[[FloatArray], Any]) -> Iterator[tuple[int, FloatArray, int]]:
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


def _sourced(signature: str, source: str) -> str:
    return f"{signature}|{source}" if source else signature


@dataclass(frozen=True)
class SumOfLosses:
    """The sum of one statistics column over the chosen hypotheses; source: what it counts, for the signature."""

    name = "loss"
    source: str = ""
    _width = 1

    @property
    def signature(self) -> str:
        return _sourced(f"metric:{self.name}|columns:{self._width}", self.source)

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
        for number, row, _ in _wrong(statistics, lambda block: (block != 0) & (block != 1)):
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


def _check_matches(name: str, statistics: FloatArray, matching: slice, among: slice, what: str, remedy: str) -> None:
    """Raise `MetricError` if a hypothesis has more matches (columns `matching`) than items (columns `among`)."""
    for number, row, order in _wrong(statistics, lambda block: block[:, matching] > block[:, among]):
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
        return _sourced("metric:bleu|columns:9|smooth:none|eff:no", self.source)

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
        return _sourced(f"metric:chrf|columns:{columns}|{settings}", self.source)

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
            for number, value, _ in _wrong((statistics @ factors)[:, None], lambda block: block < 0):
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


ACCURACY, ERROR_RATE = "accuracy", "error_rate"


def rates_of(metric: Metric, statistics: FloatArray, offsets: IntArray, loss: float) -> Mapping[str, float]:
    """Return a loss as rates by name: accuracy if hypotheses are right or wrong, or an error rate.

    statistics [M, K]: of all hypotheses; offsets [S + 1]: of the lists. Empty if the divisor is unknown.
    """
    if isinstance(metric, Wer):
        length = float(statistics[offsets[:-1], 1].sum())  # the same for all hypotheses of a list
        return {ERROR_RATE: loss / length} if length else {}
    if isinstance(metric, LinearFraction) and not metric.higher_is_better:
        return {ERROR_RATE: loss}
    if isinstance(metric, SumOfLosses) and ((statistics == 0) | (statistics == 1)).all():
        return {ACCURACY: 1.0 - loss / (len(offsets) - 1)}
    return {}


_LONGEST_NAME = 40
_NAMES = {"loss": "loss", "error-rate": "error rate", "ter": "TER", "wer": "WER", "cer": "CER", "chrf": "chrF"}


def unit_of(metric: Metric, names: Sequence[str], rates: Mapping[str, float], n_lists: int) -> Unit:
    """Return the unit of a metric's losses; names: of the statistics; rates: `rates_of` the loss 1."""
    known = _NAMES.get(metric.name, metric.name.upper())
    if isinstance(metric, Bleu | Chrf):
        return Unit(known, -100.0, 100.0)
    if isinstance(metric, Wer) and ERROR_RATE in rates:
        return Unit(known, rates[ERROR_RATE], percent=True, counts="errors")
    if ERROR_RATE in rates:
        return Unit(known, percent=True)
    if isinstance(metric, LinearFraction):
        return Unit(known, -1.0, 1.0)
    if ACCURACY in rates:
        return Unit("accuracy", -1.0 / n_lists, 1.0, percent=True, counts="wrong")
    if not isinstance(metric, SumOfLosses):
        return Unit(_NAMES["loss"])
    name = shortened(visible(names[0]), _LONGEST_NAME)
    if name.startswith("-"):
        return Unit(name[1:], -1.0)
    share = name.removeprefix("1 - ")
    return Unit(name) if share == name else Unit(f"mean {share}", -1.0 / n_lists, 1.0)


def metric_by_name(metric: str | Metric) -> Metric:
    """Return the metric of this name or at this `module:Class`; a metric is returned as it is."""
    found = metric
    if isinstance(metric, str):
        if metric in TEXT_METRICS and metric not in METRICS.own:
            remedy = f"give references (--references), or for lists with counts one of {listed(METRICS.names())}"
            raise MetricError(f"metric {quoted(metric)} is counted from texts; {remedy}")
        found = METRICS.build(metric)
    if isinstance(found, type):
        raise MetricError(f"metric is the class {found.__name__}; pass an object of it, such as {found.__name__}()")
    if not isinstance(found, Metric):
        raise MetricError(f"metric must be a name or have name, signature, check, loss and score; got {quoted(metric)}")
    return found


def metric_of(metric: str | Metric | None, names: Sequence[str]) -> Metric:
    """Return `metric_by_name`, or for `None` the metric that the names of the statistics imply.

    F of match, predicted and gold is F1. Errors and lengths of references are an error rate, even if lengths are equal
    within lists: the unit of a loss must not depend on the numbers in a file, and the optimum, and the nodes it takes,
    are those of the sum of errors. For that sum itself, give one column, or name "wer".
    """
    columns = tuple(names)
    if metric is not None:
        return metric_by_name(metric)
    if len(columns) == 1:
        return SumOfLosses()
    known: dict[tuple[str, ...], Callable[[], Metric]] = {
        BLEU_COLUMNS: Bleu,
        F_COLUMNS: f_beta,
        ERROR_COLUMNS: error_rate,
        TER_COLUMNS: lambda: LinearFraction("ter", columns, (1, 0, 0), (0, 1, 0), higher_is_better=False),
    }
    if columns in known:
        return known[columns]()
    if (orders := chrf_orders(columns)) is None:
        remedy = "name their --metric, such as wer, or choose one with --loss (in Python metric= or loss=)"
        raise MetricError(f"the lists have the statistics {listed(names)}: {remedy}")
    return Chrf(*orders)


def check_statistics(metric: Metric, statistics: FloatArray, offsets: IntArray) -> None:
    metric.check(statistics)
    if isinstance(metric, Wer):
        metric.check_lengths(statistics, offsets)


_SELECTIONS = 100
_OWN_SUMS = (SumOfLosses, ZeroOne, Wer, Cer)

_ADDING_UP = 1e-9
"""Relative error allowed between a sum of losses and the loss of the sums: far above rounding, far below a mistake."""


def check_metric(metric: Metric, statistics: FloatArray, offsets: IntArray) -> None:
    """Raise `MetricError` if a metric breaks its contract on a selection: statistics [M, K], offsets [S + 1].

    An additive loss must add up, because proofs rely on it, and every loss must be finite. The metrics of this package
    need no test.
    """
    if isinstance(metric, RatioMetric) or type(metric) in _OWN_SUMS:
        return
    name, each = f"metric {quoted(metric.name)}", None
    if isinstance(metric, AdditiveMetric):
        each = np.asarray(metric.losses(statistics), dtype=np.float64)
        if each.shape != (len(statistics),) or not np.isfinite(each).all():
            raise MetricError(f"{name}: losses must return a finite number for each of {len(statistics)} hypotheses")
    rng, sizes = np.random.default_rng(0), np.diff(offsets)
    drawn = (offsets[:-1] + rng.integers(sizes) for _ in range(_SELECTIONS))
    for rows in chain([offsets[:-1], offsets[1:] - 1], drawn):
        total = statistics[rows].sum(axis=0)
        loss = float(metric.loss(total))
        if each is None:
            if not np.isfinite(loss):
                raise MetricError(f"{name}, summed statistics {total.tolist()}: its loss must be a finite number")
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            summed, size = each[rows].sum(), np.abs(each[rows]).sum() + abs(loss)
        if np.isfinite(summed) and not abs(summed - loss) <= _ADDING_UP * size:
            sums = f"losses of hypotheses add up to {summed:g}, and the loss of their summed statistics is {loss:g}"
            raise MetricError(f"{name} is not additive: {sums}; omit `losses`, or make them add up")
