"""Formulas of ratio metrics: losses, heights, and linear bounds that never lie above the height."""

from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from problems import bleu_loss, chrf_in_rationals, fractions_loss, height_of_loss, sums

from lpmert import core
from lpmert.core import lay_minorant, loss_of_height, losses_of_totals
from lpmert.errors import FloatArray
from lpmert.methods.choices.ratio import UNIT, Ratio
from lpmert.metrics.base import BLEU, CHRF
from lpmert.metrics.ratio import Bleu, Chrf, f_beta, precision, recall

BOUNDED = [
    Bleu(),
    Chrf(),
    Chrf(char_order=1),
    Chrf(char_order=2, word_order=1, beta=1.0),
    Chrf(char_order=1, beta=0.0),
]
BOUNDED_IDS = ["bleu", "chrf", "chrf1", "chrf++", "chrf-precision"]
FRACTIONS = [f_beta(), f_beta(0.5), precision(), recall()]


def loss_by_formula(metric: Any, total: FloatArray) -> Fraction | float:
    """By the formulas of the papers, in rationals but for BLEU."""
    counts = [int(value) for value in total]
    if isinstance(metric, Chrf):
        return chrf_in_rationals(counts, metric.beta)
    formula = bleu_loss if isinstance(metric, Bleu) else fractions_loss(metric)
    return formula(counts)


@pytest.mark.parametrize("largest", [2, 30, 10**6])
def test_losses_are_those_of_the_formula_and_of_the_metric(largest: int) -> None:
    for metric in [*BOUNDED, *FRACTIONS]:
        totals = sums(np.random.default_rng(largest), metric, largest, 200)
        found = losses_of_totals(metric.kind, metric.parameters, totals)
        for loss, total in zip(found.tolist(), totals, strict=True):
            assert loss == metric.loss(total)
            assert loss == pytest.approx(float(loss_by_formula(metric, total)), abs=1e-14)
            assert 0 <= loss <= 1


@pytest.mark.parametrize("metric", [*BOUNDED, *FRACTIONS], ids=[*BOUNDED_IDS, "f1", "f0.5", "precision", "recall"])
def test_heights_rise_with_losses_and_lead_back_to_no_more_than_the_loss(metric: Any) -> None:
    losses = np.sort(np.append(np.random.default_rng(1).random(2000), [0.0, 1e-17, 1e-9, 1 - 1e-16, 1.0]))
    heights = [height_of_loss(metric.kind, loss) for loss in losses.tolist()]
    assert heights == sorted(heights)
    for loss, height in zip(losses.tolist(), heights, strict=True):
        back = loss_of_height(metric.kind, height)
        assert 0 <= back <= loss
        assert loss - back < 1e-14


def bound_exactly(constant: float, slopes: FloatArray, total: FloatArray) -> Fraction:
    """Return constant + slopes . total in rationals."""
    terms = (Fraction(slope) * int(x) for slope, x in zip(slopes.tolist(), total.tolist(), strict=True))
    return sum(terms, Fraction(constant))


def height_exactly(metric: Any, total: FloatArray) -> Fraction:
    """Return the height of possible sums with a loss below 1: for BLEU to 40 digits, otherwise in rationals."""
    counts = [int(value) for value in total]
    if isinstance(metric, Bleu):
        with localcontext(prec=45):
            logs = (
                sum(
                    (Decimal(t).ln() - Decimal(m).ln() for m, t in zip(counts[0:8:2], counts[1:8:2], strict=True)),
                    Decimal(0),
                )
                / 4
            )
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
    low, high = points.min(axis=0), points.max(axis=0)
    return low, high, points[0], points


def corners(metric: Any, low: FloatArray, high: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return points of the box, corners too, that statistics can be, whether or not hypotheses sum to them."""
    drawn = np.where(rng.random((60, len(low))) < 0.7, np.where(rng.random((60, len(low))) < 0.5, low, high), -1.0)
    inside = np.floor(low + rng.random((60, len(low))) * (high - low + 1))
    points = np.where(drawn < 0, np.minimum(inside, high), drawn)
    if isinstance(metric, Bleu):
        possible = (points[:, 0:8:2] <= points[:, 1:8:2]).all(axis=1)
    else:
        possible = (points[:, 2::3] <= np.minimum(points[:, 0::3], points[:, 1::3])).all(axis=1)
    chosen: FloatArray = points[possible]
    return chosen


@pytest.mark.parametrize("metric", BOUNDED, ids=BOUNDED_IDS)
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
            assert bound_exactly(constant, slopes, tried[near]) <= height_exactly(metric, tried[near])
        useful += bool(slopes.any())
    assert useful > 150
    assert met > 100
    assert (everything_lost > 20) == (metric.kind == BLEU)


@pytest.mark.parametrize("metric", BOUNDED, ids=BOUNDED_IDS)
def test_minorants_of_one_point_are_its_height(metric: Any) -> None:
    rng = np.random.default_rng(4)
    met = 0
    for total in sums(rng, metric, 400, 800):
        loss = metric.loss(total)
        if loss == 1.0:
            continue
        constant, slopes = lay_minorant(metric.kind, metric.parameters, total, total, total)
        assert constant + slopes @ total == pytest.approx(height_of_loss(metric.kind, loss), abs=1e-10)
        met += 1
    assert met > 100


@pytest.mark.parametrize("metric", [Bleu(), Chrf(char_order=1)], ids=["bleu", "chrf"])
def test_smaller_boxes_give_bounds_that_end_at_the_height(metric: Any) -> None:
    rng = np.random.default_rng(9)
    for total in sums(rng, metric, 3000, 40) + 2000.0:
        gaps = []
        for width in (500.0, 50.0, 5.0, 0.0):
            low, high = total - width, total + width
            constant, slopes = lay_minorant(metric.kind, metric.parameters, low, high, total)
            gaps.append(height_of_loss(metric.kind, metric.loss(total)) - constant - slopes @ total)
        assert gaps[0] > gaps[1] - 1e-9 > gaps[2] - 2e-9
        assert gaps[3] == pytest.approx(0, abs=1e-10)
        assert gaps[2] < gaps[0] / 20 + 1e-9


def test_a_chrf_without_ngrams_has_the_height_one_everywhere() -> None:
    metric, nothing = Chrf(char_order=2), np.zeros(6)
    constant, slopes = lay_minorant(CHRF, metric.parameters, nothing, nothing, nothing)
    assert constant == pytest.approx(1.0, abs=1e-12)
    assert not slopes.any()
    assert metric.loss(nothing) == 1.0


@pytest.mark.parametrize(("reach", "useful"), [(60.0, True), (2.0**53, True), (2.0**62, False)])
def test_a_bound_stays_below_the_height_however_unlike_the_counts_are(reach: float, useful: bool) -> None:
    """Eight lists of one row each; other rows, which are left out, may have counts of up to `reach`."""
    row = np.array([6.0, 7.0, 5.0] * 8)
    ratio = Ratio(CHRF, np.array([4.0]), np.tile(row, (8, 1)), np.zeros(24), np.full(24, reach), np.arange(8))
    height, *_ = core.best_height(ratio, np.arange(9), 8.0 * row, 1)
    assert (height != 0) is useful
    assert height * UNIT <= Chrf(char_order=8).loss(8.0 * row)
    assert height >= -(2**61)
