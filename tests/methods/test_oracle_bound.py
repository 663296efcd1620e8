"""No search begins with less of a bound than the oracle's, for which every list chooses as it likes."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from problems import sums
from test_ratio_search import METRICS

import lpmert
from lpmert import NBest, Problem
from lpmert.errors import FloatArray
from lpmert.methods.choices.ratio import UNIT, _Heights, close_oracle_height, cost_of_height, oracle_height, ratio_lists
from lpmert.metrics.ratio import Bleu, Chrf, LinearFraction, Per, f_beta, precision
from lpmert.model.canonical import CanonicalWeights

ERRORS = LinearFraction("rate", ("errors", "length"), (1, 0), (0, 1), higher_is_better=False)
LISTS, SIZE = 5, 4


def counts(rng: np.random.Generator, metric: Any, n_lists: int = LISTS) -> FloatArray:
    """Statistics [n_lists * SIZE, K] of hypotheses."""
    rows = n_lists * SIZE
    if isinstance(metric, Bleu):
        totals = rng.integers(8, 14, (rows, 1)) - np.arange(4)
        matches = np.minimum(totals, rng.integers(3, 9, (rows, 4)))
        return np.column_stack([np.stack([matches, totals], axis=2).reshape(rows, 8), np.full(rows, 10)]).astype(float)
    if metric is ERRORS:
        return np.column_stack([rng.integers(1, 6, rows), rng.integers(0, 9, rows)]).astype(float)
    sizes = rng.integers(4, 9, (rows, 2))
    sizes[:, 1] = sizes[::SIZE, 1].repeat(SIZE)  # one reference a list
    match = rng.binomial(sizes.min(axis=1), 0.6)
    columns = [match, *sizes.T] if not isinstance(metric, Chrf) else [*sizes.T, match]
    return np.column_stack(columns).astype(float)


def oracle(metric: Any, statistics: FloatArray) -> float:
    """The least loss of all selections, one after another."""
    lists = statistics.reshape(LISTS, SIZE, -1)
    chosen = itertools.product(range(SIZE), repeat=LISTS)
    return min(metric.loss(lists[np.arange(LISTS), list(rows)].sum(axis=0)) for rows in chosen)


@pytest.mark.parametrize("time_limit", [0.0, 0.2])
@pytest.mark.parametrize("method", ["auto", "choices", "cells", "groups"])
def test_sums_begin_with_the_oracle_itself(method: str, time_limit: float) -> None:
    """Too many lists and features for a proof, where the bound is all that there is."""
    rng = np.random.default_rng(2)
    nbest = NBest(rng.normal(size=(3000, 14)), np.arange(0, 3001, 20), rng.integers(0, 30, 3000) / 7.0)
    result = lpmert.minimize(nbest, method=method, time_limit=time_limit)
    least = nbest.statistics[:, 0].reshape(150, 20).min(axis=1).sum()
    assert result.status is lpmert.Status.TIME_LIMIT
    assert least * (1 - 1e-12) <= result.lower_bound <= result.loss


@pytest.mark.parametrize("metric", [ERRORS, f_beta(), precision()], ids=["rate", "f1", "precision"])
def test_fractions_begin_with_the_oracle_itself(metric: Any) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        statistics = counts(rng, metric)
        nbest = NBest(rng.normal(size=(20, 6)), np.arange(0, 21, SIZE), statistics)
        result = lpmert.minimize(nbest, metric=metric, time_limit=0)
        assert result.lower_bound == pytest.approx(oracle(metric, statistics), rel=1e-12)


@pytest.mark.parametrize("method", ["auto", "choices", "cells", "groups"])
@pytest.mark.parametrize("metric", [Bleu(), Chrf(char_order=1), Per()], ids=["bleu", "chrf", "per"])
def test_other_ratios_begin_just_below_it(metric: Any, method: str) -> None:
    rng = np.random.default_rng(1)
    short = []
    for _ in range(10):
        statistics = counts(rng, metric)
        nbest = NBest(rng.normal(size=(20, 6)), np.arange(0, 21, SIZE), statistics)
        result = lpmert.minimize(nbest, metric=metric, method=method, time_limit=0)
        least = oracle(metric, statistics)
        assert result.lower_bound <= least + 1e-12
        any_weights = Problem(nbest, metric).evaluate(np.ones(6)).loss
        short.append((least - result.lower_bound) / max(any_weights - least, 1e-9))
    # a share of what there is to choose; the minorant that is tight at some weights alone leaves several times as much
    assert np.mean(short) < 0.1


@pytest.mark.parametrize("name", METRICS)
def test_no_selection_undercuts_what_is_said_of_the_oracle(name: str) -> None:
    """Attainable or not; with counts of 0, lengths that differ, and lists of one hypothesis."""
    metric = METRICS[name]
    closer = 0
    for seed in range(150):
        rng = np.random.default_rng([seed, len(name)])
        sizes = rng.integers(1, 5, rng.integers(1, 5))
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        statistics = sums(rng, metric, 8, offsets[-1])
        if seed % 2:  # of few kinds, so that much is equal, and far apart
            statistics = statistics[rng.integers(0, min(3, len(statistics)), len(statistics))] * rng.integers(1, 40)
        form = Problem(NBest(rng.normal(size=(offsets[-1], 3)), offsets, statistics), metric).canonical
        if not form.n_lists:
            continue
        lists, ratio = ratio_lists(form)
        weights = CanonicalWeights(rng.normal(size=form.n_features))
        plain, bound = oracle_height(lists, ratio, weights)
        height = close_oracle_height(lists, ratio, plain, bound)
        totals = form.totals
        own = [range(begin, end) for begin, end in itertools.pairwise(form.offsets.tolist())]
        losses = [
            metric.loss(totals.constant + totals.statistics[list(rows)].sum(axis=0)) for rows in itertools.product(*own)
        ]
        assert plain <= height
        assert form.loss_of(cost_of_height(form, ratio.kind, height)) <= min(losses) + 1e-12
        closer += plain < height
        quarters = ratio._replace(constant=ratio.constant + 0.25)  # sums of them could be rounded out of a piece
        assert close_oracle_height(lists, quarters, plain, bound) == plain
    assert closer > 20


def test_heights_of_pieces_are_rounded_down() -> None:
    rng = np.random.default_rng(0)
    metric = METRICS["bleu"]
    statistics = sums(rng, metric, 8, 20)
    form = Problem(NBest(rng.normal(size=(20, 3)), [0, 5, 10, 15, 20], statistics), metric).canonical
    lists, ratio = ratio_lists(form)
    heights, plain = _Heights(ratio, lists.offsets), [list(map(Fraction, row)) for row in ratio.statistics.tolist()]
    for _ in range(50):
        slopes, multiplier, end = rng.normal(size=len(plain[0])) * 1e3, rng.normal() * 1e3, rng.normal()
        own = slopes - multiplier * np.eye(len(slopes))[1]
        height, *_ = heights.cheapest((0.1, multiplier * end), own, ratio.statistics @ own)
        exact, times = list(map(Fraction, slopes.tolist())), Fraction(multiplier)

        def value(row: list[Fraction], exact: list[Fraction] = exact, times: Fraction = times) -> Fraction:
            return sum((a * b for a, b in zip(exact, row, strict=True)), -times * row[1])

        least = sum(min(map(value, plain[a:b])) for a, b in itertools.pairwise(lists.offsets.tolist()))
        total = Fraction(0.1) + times * Fraction(end) + value(list(map(Fraction, ratio.constant.tolist()))) + least
        assert total - Fraction(1, 10**6) < height * Fraction(UNIT) <= total
