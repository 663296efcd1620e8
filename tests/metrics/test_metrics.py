"""Metrics on summed statistics: formulas, zeros, linear bounds, signatures, and what is refused."""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from oracle import dot
from problems import WER, bleu_loss, chrf_in_rationals, f_loss, height_of_loss, share_loss, sums
from refusals import refused

import lpmert
from lpmert import MetricError, NBest, Status, core
from lpmert.core import lay_minorant, loss_of_height, losses_of_totals
from lpmert.errors import FloatArray
from lpmert.methods.choices import UNIT, Ratio
from lpmert.metrics.base import BLEU, CHRF, SumOfLosses, ZeroOne
from lpmert.metrics.contract import metric_by_name
from lpmert.metrics.ratio import Bleu, Chrf, LinearFraction, f_beta, precision, recall

BOUNDED = {
    "bleu": Bleu(),
    "chrf": Chrf(),
    "chrf1": Chrf(char_order=1),
    "chrf++": Chrf(char_order=2, word_order=1, beta=1.0),
    "chrf-precision": Chrf(char_order=1, beta=0.0),
}
"""Metrics with linear bounds."""
RATIOS = {**BOUNDED, "f1": f_beta(), "f0.5": f_beta(0.5), "precision": precision(), "recall": recall()}


def test_an_error_rate_scores_itself_and_may_exceed_one() -> None:
    opposite, total = LinearFraction("wer", ("errors", "words"), (1, 0), (0, 1)), np.array([3.0, 2.0])
    assert (WER.score(total), WER.loss(total), opposite.score(total)) == (1.5, 1.5, -0.5)
    assert WER.signature != opposite.signature


@pytest.mark.parametrize("metric", RATIOS.values(), ids=RATIOS)
def test_nothing_at_all_has_the_loss_one_and_the_score_zero(metric: Any) -> None:
    nothing = np.zeros(len(metric.columns))
    metric.check(nothing[None])
    assert (metric.loss(nothing), metric.score(nothing)) == (1.0, 0.0)


def test_signatures_differ_wherever_the_number_can() -> None:
    metrics: list[Any] = [SumOfLosses(), SumOfLosses("ter"), ZeroOne(), Bleu(), Bleu("tok:none"), Bleu("tok:13a")]
    metrics += [Chrf(), Chrf(char_order=5), Chrf(word_order=2), Chrf(beta=3.0), Chrf(beta=2.0000001), Chrf(source="lc")]
    metrics += [*(f_beta(beta) for beta in (0.0, 0.5, 1.0, 2.0)), precision(), recall()]
    signatures = [metric.signature for metric in metrics]
    assert all(first != second for first, second in pairwise(sorted(signatures)))


# fmt: off
GOOD: dict[str, list[float]] = {
    "bleu": [2, 3, 1, 2, 0, 1, 0, 0, 4], "chrf": [4, 5, 3] * 6, "f1": [1, 2, 3], "zero-one": [1], "loss": [-2.5],
    "wer": [3, 2], "cer": [0, 0], "error-rate": [3, 2],
}
# fmt: on


def test_statistics_as_described_are_taken() -> None:
    for name, good in GOOD.items():
        metric_by_name(name).check(np.array([good], dtype=float))
        assert math.isfinite(metric_by_name(name).loss(np.array(good, dtype=float)))


def checked(name: str, column: int, value: float) -> None:
    statistics = np.array([GOOD[name], GOOD[name]], dtype=float)
    statistics[1, column] = value
    metric_by_name(name).check(statistics)


# fmt: off
test_what_is_no_metric_setting_or_statistic_is_refused = refused((MetricError, *row) for row in [
    *((message, partial(metric_by_name, given)) for given, message in [
        ("blue", "loss, zero-one, bleu"), ("", "no metric ''"), (7, "got 7"), (Bleu, r"Bleu\(\)"),
    ]),
    # settings without a meaning
    ("from 0 to 1e\\+100; got -1", partial(f_beta, -1.0)),
    ("got nan", partial(f_beta, math.nan)),
    ("got True", partial(f_beta, True)),
    ("too many digits", partial(f_beta, 0.123456789)),
    ("needs an order", partial(Chrf, char_order=0)),
    ("needs an order", partial(Chrf, char_order=-1, word_order=3)),
    ("got inf", partial(Chrf, beta=math.inf)),
    ("from 0 to 1e\\+100; got 1e", partial(Chrf, beta=1e200)),
    ("from 0 to 1e\\+100; got 1000", partial(Chrf, beta=10**400)),
    ("one number for each of a, b", partial(LinearFraction, "f", ("a", "b"), (1,), (1, 1))),
    ("at most 1000000", partial(LinearFraction, "f", ("a", "b"), (1, 1), (1, 10**7))),
    ("whole numbers", partial(LinearFraction, "f", ("a",), (0.5,), (1,))),
    # impossible statistics, with their place
    *((message, partial(checked, *given)) for *given, message in [
        ("bleu", 0, 4, "4 matches among 3 n-grams of order 1.*reference_length"),
        ("bleu", 6, 1, "hypothesis 1 .from 0. has 1 matches among 0 n-grams of order 4"),
        ("bleu", 8, -1, "'reference_length' has -1"),
        ("bleu", 8, 4.5, "'reference_length' has 4.5, which is not a whole number"),
        ("bleu", 8, 2.0**53, "divide them"),
        ("bleu", 8, math.nan, "has nan"),
        ("chrf", 2, 5, "5 matches among 4 n-grams.*hypothesis, reference, match"),
        ("chrf", 17, 0.5, "'match_char_6' has 0.5"),
        ("f1", 0, 3, "numerator of the loss is -1 for hypothesis 1"),
        ("f1", 1, -1, "'predicted' has -1"),
        ("wer", 0, 0.5, "'errors' has 0.5, which is not a whole number"),
        ("cer", 1, -1, "'length' has -1"),
        ("zero-one", 0, 2, "hypothesis 1 .from 0. has 2: for other losses choose metric 'loss'"),
    ]),
    *((rf"(one|{len(good)}) .*{len(good) + 1}", partial(metric_by_name(name).check, np.ones((2, len(good) + 1))))
      for name, good in GOOD.items()),
])
# fmt: on


def word_errors(words: Sequence[int]) -> NBest:
    """Two lists, of 3 and 5 words: 0 + 4 errors where `am` counts more, 2 + 1 where `lm` does."""
    counts = np.column_stack([[0, 2, 4, 1], words])
    return NBest([[1, 0], [0, 1], [1, 0], [0, 1]], [0, 2, 4], counts, names=["am", "lm"])


@pytest.mark.parametrize("metric", ["wer", "cer"])
def test_errors_and_lengths_are_an_error_rate_whose_loss_is_the_errors(metric: str) -> None:
    nbest = word_errors([3, 3, 5, 5])
    result = lpmert.minimize(nbest, metric=metric)
    assert (result.status, result.loss, result.score, result.rates) == (Status.OPTIMAL, 3, 3 / 8, {"error_rate": 3 / 8})
    assert (result.unit.name, result.unit.text(result.loss)) == (metric.upper(), "37.50% (3 errors)")
    assert lpmert.evaluate(nbest, [1, 0], metric=metric).score == 4 / 8
    result = lpmert.minimize(word_errors([0, 0, 0, 0]), metric=metric)  # references without words have no rate
    assert (result.loss, result.score, result.rates, result.unit.text(3.0)) == (3, 1, {}, "3")


@pytest.mark.parametrize("seed", range(10))
def test_the_least_errors_are_the_least_ratio_where_lengths_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = np.repeat(rng.integers(0, 9, 5), 4)
    counts = np.column_stack([rng.integers(0, 9, 20), lengths])
    nbest = NBest(rng.integers(-9, 9, (20, 2)), np.arange(0, 21, 4), counts)
    ratio = lpmert.minimize(nbest, metric="error-rate")
    assert ratio.status is Status.OPTIMAL
    assert lpmert.minimize(nbest, metric="wer").loss / lengths[::4].sum() == pytest.approx(ratio.loss, abs=1e-15)


@pytest.mark.parametrize("words", [[3, 4, 5, 5], [3, 3, 5, 6], [4, 3, 6, 5]])
def test_lengths_that_differ_within_a_list_are_refused_with_the_remedy(words: list[int]) -> None:
    with pytest.raises(MetricError, match=r"list [01] .*one hypothesis.*choose metric 'error-rate'"):
        lpmert.minimize(word_errors(words), metric="wer")
    with pytest.raises(MetricError, match="choose metric 'error-rate'"):
        lpmert.methods.Perceptron().train(word_errors(words), metric="wer", seed=0)
    # 3 or 4 errors, each over its own words
    least = min(4 / sum(words[::2]), 3 / sum(words[1::2]))
    assert lpmert.minimize(word_errors(words), metric="error-rate").loss == least


# Formulas of ratios: losses, heights, and linear bounds that never lie above the height

FORMULAS: dict[str, Callable[[list[int]], Fraction | float]] = {
    "bleu": bleu_loss,
    **{f"f{beta:g}": f_loss(Fraction(beta) ** 2) for beta in (0.5, 1)},
    "precision": share_loss(1),
    "recall": share_loss(2),
}
"""Those of the papers, in rationals but for BLEU."""


def loss_by_formula(metric: Any, total: FloatArray) -> Fraction | float:
    counts = [int(value) for value in total]
    return chrf_in_rationals(counts, metric.beta) if isinstance(metric, Chrf) else FORMULAS[metric.name](counts)


@pytest.mark.parametrize("largest", [2, 30, 10**6])
def test_losses_are_those_of_the_formula_and_of_the_metric(largest: int) -> None:
    for metric in RATIOS.values():
        totals = sums(np.random.default_rng(largest), metric, largest, 200)
        found = losses_of_totals(metric.kind, metric.parameters, totals)
        for loss, total in zip(found.tolist(), totals, strict=True):
            assert loss == metric.loss(total)
            assert loss == pytest.approx(float(loss_by_formula(metric, total)), abs=1e-14)
            assert 0 <= loss <= 1
            assert metric.score(total) == (100 if metric.kind in (BLEU, CHRF) else 1) * (1 - loss)


@pytest.mark.parametrize("metric", RATIOS.values(), ids=RATIOS)
def test_heights_rise_with_losses_and_lead_back_to_no_more_than_the_loss(metric: Any) -> None:
    losses = np.sort(np.append(np.random.default_rng(1).random(2000), [0.0, 1e-17, 1e-9, 1 - 1e-16, 1.0]))
    heights = [height_of_loss(metric.kind, loss) for loss in losses.tolist()]
    assert heights == sorted(heights)
    for loss, height in zip(losses.tolist(), heights, strict=True):
        back = loss_of_height(metric.kind, height)
        assert 0 <= back <= loss
        assert loss - back < 1e-14


def height_exactly(metric: Any, total: FloatArray) -> Fraction:
    """Return the height of possible sums with a loss below 1: for BLEU to 40 digits, otherwise in rationals."""
    counts = [int(value) for value in total]
    if isinstance(metric, Bleu):
        with localcontext(prec=45):
            pairs = zip(counts[0:8:2], counts[1:8:2], strict=True)
            logs = sum((Decimal(t).ln() - Decimal(m).ln() for m, t in pairs), Decimal(0)) / 4
        return Fraction(logs) + max(Fraction(0), Fraction(counts[8], counts[1]) - 1) + Fraction(1, 10**40)
    return Fraction(loss_by_formula(metric, total))


def box(rng: np.random.Generator, metric: Any) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return low, high, a point at which the bound is asked for, and points [n, K] of the box that can occur."""
    largest = int(rng.choice([1, 3, 12, 200, 10**5]))
    spread = sums(rng, metric, max(1, int(largest * rng.choice([0.01, 0.3, 1.0]))), 12)
    base = sums(rng, metric, largest, 1)[0] if rng.random() < 0.6 else np.zeros(spread.shape[1])
    if rng.random() < 0.15:
        spread = spread[:1]  # a box of one point
    if rng.random() < 0.2 and isinstance(metric, Bleu):
        spread[:, 8] = spread[0, 8]  # one reference length
    if rng.random() < 0.2:
        spread[:, slice(0, 8, 2) if isinstance(metric, Bleu) else slice(2, None, 3)] = 0.0  # no new match
    points = base + spread
    return points.min(axis=0), points.max(axis=0), points[0], points


def corners(metric: Any, low: FloatArray, high: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return points of the box, corners too, that statistics can be, whether or not hypotheses sum to them."""
    drawn = np.where(rng.random((60, len(low))) < 0.7, np.where(rng.random((60, len(low))) < 0.5, low, high), -1.0)
    inside = np.floor(low + rng.random((60, len(low))) * (high - low + 1))
    points = np.where(drawn < 0, np.minimum(inside, high), drawn)
    matches, most = points[:, 2::3], np.minimum(points[:, 0::3], points[:, 1::3])
    if isinstance(metric, Bleu):
        matches, most = points[:, 0:8:2], points[:, 1:8:2]
    return points[(matches <= most).all(axis=1)]


@pytest.mark.parametrize("metric", BOUNDED.values(), ids=BOUNDED)
def test_minorants_never_lie_above_the_height(metric: Any) -> None:
    rng = np.random.default_rng(11)
    useful = everything_lost = met = 0
    for _ in range(1000):
        low, high, at, points = box(rng, metric)
        given = low.copy(), high.copy(), at.copy()
        constant, slopes = lay_minorant(metric.kind, metric.parameters, low, high, at)
        assert all((a == b).all() for a, b in zip(given, (low, high, at), strict=True))
        assert not np.isnan(constant)
        assert np.isfinite(slopes).all()
        tried = np.vstack([points, corners(metric, low, high, rng)])
        losses = losses_of_totals(metric.kind, metric.parameters, tried)
        heights = np.array([height_of_loss(metric.kind, loss) for loss in losses.tolist()])
        if constant == np.inf:
            everything_lost += 1
            assert (losses == 1).all()
            continue
        values = constant + tried @ slopes
        assert (values <= heights + 1e-9).all()
        for near in np.flatnonzero((values > heights - 1e-9) & np.isfinite(heights))[:2]:
            met += 1
            assert Fraction(constant) + dot(slopes.tolist(), tried[near]) <= height_exactly(metric, tried[near])
        useful += bool(slopes.any())
    assert useful > 150
    assert met > 100
    assert (everything_lost > 20) == (metric.kind == BLEU)


@pytest.mark.parametrize(("reach", "useful"), [(60.0, True), (2.0**53, True), (2.0**62, False)])
def test_a_bound_stays_below_the_height_however_unlike_the_counts_are(reach: float, useful: bool) -> None:
    """Eight lists of one row each; other rows, which are left out, may have counts of up to `reach`."""
    row = np.array([6.0, 7.0, 5.0] * 8)
    ratio = Ratio(CHRF, np.array([4.0]), np.tile(row, (8, 1)), np.zeros(24), np.full(24, reach), np.arange(8))
    height, *_ = core.best_height(ratio, np.arange(9), 8.0 * row, 1)
    assert (height != 0) is useful
    assert height * UNIT <= Chrf(char_order=8).loss(8.0 * row)
    assert height >= -(2**61)
