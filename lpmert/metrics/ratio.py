"""Metrics that are functions of summed statistics: corpus BLEU, corpus chrF, PER, precision, recall, F_beta, budgets.

And losses in the units that users know: rates, where it is known what to divide them by, scores, gains.

`check_kind` refuses kinds without a formula, and statistics that a formula does not take: the loss of what it lets pass
is at least 0, and at most 1 unless it is a fraction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import frexp, isfinite

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray, MetricError
from lpmert.findings import Unit
from lpmert.metrics.base import (
    BLEU,
    BUDGET,
    CHRF,
    EXACT_INTEGERS,
    FRACTION,
    LARGEST_FACTOR,
    PER,
    Metric,
    SumOfLosses,
    Wer,
    check_counts,
)
from lpmert.quoting import listed, quoted, shortened, visible
from lpmert.registry import BLEU_COLUMNS, ERROR_COLUMNS, F_COLUMNS, PER_COLUMNS, chrf_columns
from lpmert.system.mapped import blocks_of_rows, pieces


def check_kind(
    name: str, kind: int, parameters: FloatArray, statistics: FloatArray, columns: tuple[str, ...] | None = None
) -> None:
    """Raise `MetricError` unless there is a formula of this kind that takes these statistics [M, K].

    columns: the names of the statistics, their numbers where there are none. What this lets pass has a loss of at
    least 0, which is at most 1 unless it is a fraction.
    """
    width = statistics.shape[1]
    if isinstance(kind, bool) or not isinstance(kind, int | np.integer) or kind not in range(BUDGET + 1):
        raise MetricError(
            f"metric {quoted(name)} has kind {quoted(kind)}, and formulas are known of BLEU ({BLEU}), "
            f"FRACTION ({FRACTION}), CHRF ({CHRF}), PER ({PER}) and BUDGET ({BUDGET}) of lpmert.metrics.base; omit "
            "kind for any other loss: heuristics accept it"
        )
    if columns is None:
        columns = tuple(str(k) for k in range(width))
    check_counts(name, columns, statistics)
    number = {BLEU: 0, FRACTION: 2 * width + 2, CHRF: 1, PER: 0, BUDGET: 3}[int(kind)]
    if not (
        isinstance(parameters, np.ndarray)
        and parameters.dtype == np.float64
        and parameters.shape == (number,)
        and np.isfinite(parameters).all()
    ):
        raise MetricError(
            f"metric {quoted(name)}: its kind takes parameters as a float64 array of {number} finite numbers, see "
            f"lpmert.metrics.base; got {quoted(parameters)}"
        )
    kind = int(kind)
    if width != _WIDTHS.get(kind, width):
        raise MetricError(
            f"metric {quoted(name)} is of kind {_KINDS[kind]}, which takes {_WIDTHS[kind]} statistics columns, not "
            f"{width}"
        )
    if kind in _MATCHES:
        _check_matches(name, kind, columns, parameters, statistics)
    elif kind == BUDGET:
        _check_budget(name, parameters)
    else:
        _check_fraction(name, columns, parameters, statistics)


_KINDS = {BLEU: "BLEU", PER: "PER", BUDGET: "BUDGET"}
_WIDTHS = {BLEU: 9, PER: 3, BUDGET: 2}
_MATCHES = {
    BLEU: (slice(0, 8, 2), [slice(1, 8, 2)], "n-grams of order {}", "the columns must be in the order {}"),
    CHRF: (
        slice(2, None, 3),
        [slice(0, None, 3), slice(1, None, 3)],
        "n-grams",
        "the columns of each order must be hypothesis, reference, match",
    ),
    PER: (slice(0, 1), [slice(1, 2), slice(2, 3)], "words", "the columns must be {}, in this order"),
}
"""The columns of matches, those that they are among, what these count, and the remedy."""


def _check_matches(
    name: str, kind: int, columns: tuple[str, ...], parameters: FloatArray, statistics: FloatArray
) -> None:
    if kind == CHRF and (len(columns) % 3 or not len(columns)):
        raise MetricError(
            f"metric {quoted(name)} is of kind CHRF, which takes three columns an order, not {len(columns)}"
        )
    if kind == CHRF and parameters[0] < 0:
        raise MetricError(
            f"metric {quoted(name)} is of kind CHRF, whose beta^2 must be at least 0; got {parameters[0]:g}"
        )
    matching, among, what, remedy = _MATCHES[kind]
    for first, block in blocks_of_rows(statistics):
        matches, most = block[:, matching], np.minimum.reduce([block[:, one] for one in among])
        beyond = np.argwhere(matches > most)
        if len(beyond):
            row, order = beyond[0].tolist()
            raise MetricError(
                f"metric {quoted(name)}: hypothesis {first + row} (from 0) has {matches[row, order]:g} matches among "
                f"{most[row, order]:g} {what.format(order + 1)}; {remedy.format(listed(columns))}"
            )


def _check_budget(name: str, parameters: FloatArray) -> None:
    most, *units = parameters.tolist()
    if not (0.0 <= most == int(most) <= EXACT_INTEGERS and all(frexp(unit)[0] == 0.5 for unit in units)):
        raise MetricError(
            f"metric {quoted(name)}: its budget must be a whole number of at least 0, and its units powers of two; got "
            f"{quoted(parameters.tolist())}"
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
        if float(np.abs(factors[:-1]) @ most) * len(statistics) + abs(factors[-1]) > EXACT_INTEGERS:
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


class _Ratio:
    """What all ratio metrics share: the formula of their kind, and by default no parameters and a score of 1 - loss."""

    name: str
    kind: int
    columns: tuple[str, ...]
    _best = 1.0

    @property
    def parameters(self) -> FloatArray:
        return np.empty(0)

    def check(self, statistics: FloatArray) -> None:
        check_kind(self.name, self.kind, self.parameters, statistics, self.columns)

    def loss(self, total: FloatArray) -> float:
        return float(self.losses_of_totals(np.asarray(total)[None])[0])

    def losses_of_totals(self, totals: FloatArray) -> FloatArray:
        return core.losses_of_totals(self.kind, self.parameters, np.ascontiguousarray(totals, dtype=np.float64))

    def score(self, total: FloatArray) -> float:
        """Return the score of summed statistics [K]: 0 to 100 for BLEU and chrF."""
        return self._best * (1.0 - self.loss(total))


@dataclass(frozen=True)
class Bleu(_Ratio):
    """Corpus BLEU from n-gram matches and totals, without smoothing; loss = 1 - score / 100.

    The score is 0 where an order has no match, as in sacrebleu with smooth_method="none". source tells in the signature
    how the statistics were made. Source: Papineni et al., BLEU, ACL 2002.
    """

    name = "bleu"
    kind = BLEU
    columns = BLEU_COLUMNS
    _best = 100.0

    source: str = ""

    @property
    def signature(self) -> str:
        return "metric:bleu|columns:9|smooth:none|eff:no" + (f"|{self.source}" if self.source else "")


@dataclass(frozen=True)
class Chrf(_Ratio):
    """Corpus chrF from n-grams of hypothesis and reference and their matches, order by order; loss = 1 - score / 100.

    The mean precision and recall of the orders that occur, as in sacrebleu; word_order=2 is chrF++. source tells in the
    signature how the statistics were made. Source: Popović, chrF, WMT 2015.
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
        """Names of the statistics, three an order."""
        return chrf_columns(self.char_order, self.word_order)

    @property
    def signature(self) -> str:
        columns = 3 * (self.char_order + self.word_order)
        beta = np.format_float_positional(self.beta, trim="-")
        settings = f"nc:{self.char_order}|nw:{self.word_order}|beta:{beta}|eff:yes"
        return f"metric:chrf|columns:{columns}|{settings}" + (f"|{self.source}" if self.source else "")

    @property
    def parameters(self) -> FloatArray:
        return np.array([float(self.beta) ** 2])


@dataclass(frozen=True)
class Per(_Ratio):
    """Position-independent error rate: (the longer of hypothesis and reference - words that match) / reference.

    All lengths and matches are sums over the lists. The loss is 1 where more is wrong than the references are long, and
    without references; the score is 1 - loss. Source: Tillmann et al., Accelerated DP Based Search for Statistical
    Translation, Eurospeech 1997, with counts as in Moses' PerScorer.cpp, whose score goes on below 0.
    """

    name = "per"
    kind = PER
    columns = PER_COLUMNS

    @property
    def signature(self) -> str:
        return "metric:per|columns:3"


@dataclass(frozen=True)
class Budget(_Ratio):
    """The sum of a loss while a second sum is at most `most`; beyond that any excess is worse than any loss.

    unit, beyond: powers of two by which losses and excess are multiplied, so that no loss within the budget is above
    `WITHIN`, and none at all above 1. Both are whole numbers. `lpmert.budgets` makes it.
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


WITHIN = 2.0**-8
"""What a loss within the budget is at most: the room up to 1/2 lets bounds charge enough for an excess (R8)."""


@dataclass(frozen=True)
class LinearFraction(_Ratio):
    """A loss (numerator . x) / (denominator . x) of summed counts x; 1 where the denominator is 0.

    numerator, denominator: one whole number a column; no hypothesis may make either negative. The score is 1 - loss, or
    with higher_is_better=False the loss itself.
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
        return np.array([*self.numerator, 0, *self.denominator, 0], dtype=np.float64)

    def score(self, total: FloatArray) -> float:
        """Return 1 - loss, or the loss, of summed statistics [K]."""
        return 1.0 - self.loss(total) if self.higher_is_better else self.loss(total)


def f_beta(beta: float = 1.0) -> LinearFraction:
    """Return F_beta of summed matches, predictions and gold items; it is 0 where nothing is predicted or to be found.

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
    """Return the share of predictions that match; 0 where there are none."""
    return LinearFraction("precision", F_COLUMNS, (-1, 1, 0), (0, 1, 0))


def recall() -> LinearFraction:
    """Return the share of gold items that are matched; 0 where there are none."""
    return LinearFraction("recall", F_COLUMNS, (-1, 0, 1), (0, 0, 1))


def error_rate() -> LinearFraction:
    """Return errors over lengths of references, for lists whose hypotheses have references of several lengths."""
    return LinearFraction("error-rate", ERROR_COLUMNS, (1, 0), (0, 1), higher_is_better=False)


def _check_beta(beta: float) -> None:
    if isinstance(beta, bool) or not isinstance(beta, int | float) or not isfinite(beta) or beta < 0:
        raise MetricError(f"beta must be a number of at least 0; got {quoted(beta)}")


ACCURACY, ERROR_RATE = "accuracy", "error_rate"


def rates_of(metric: Metric, statistics: FloatArray, offsets: IntArray, loss: float) -> Mapping[str, float]:
    """Return a loss as shares by name: of right choices where hypotheses are right or wrong, or of errors.

    statistics [M, K] are those of all hypotheses, offsets [S + 1] those of the lists. Empty where what to divide by is
    not known.
    """
    if isinstance(metric, Wer):
        length = float(statistics[offsets[:-1], 1].sum())  # the same for all hypotheses of a list
        return {ERROR_RATE: loss / length} if length else {}
    if isinstance(metric, LinearFraction) and not metric.higher_is_better:
        return {ERROR_RATE: loss}
    if isinstance(metric, SumOfLosses) and all(((one == 0) | (one == 1)).all() for one in pieces(statistics)):
        return {ACCURACY: 1.0 - loss / (len(offsets) - 1)}
    return {}


_LONGEST_NAME = 40
_NAMES = {"loss": "loss", "error-rate": "error rate", "ter": "TER", "wer": "WER", "cer": "CER", "chrf": "chrF"}


def unit_of(metric: Metric, names: Sequence[str], rates: Mapping[str, float], n_lists: int) -> Unit:
    """Return the unit of a metric's losses; rates: those of the loss 1, see `rates_of`; names: of the statistics."""
    known = _NAMES.get(metric.name, metric.name.upper())
    if isinstance(metric, Bleu | Chrf):
        return Unit(known, -100.0, 100.0)
    if isinstance(metric, Wer) and ERROR_RATE in rates:
        return Unit(known, rates[ERROR_RATE], percent=True, counts="errors")
    if isinstance(metric, Per) or ERROR_RATE in rates:
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
