"""Fractions of sums: every exact method finds and proves the least F_beta loss, precision and recall."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import oracle
import pytest
from strategies import short_descent

import lpmert
from lpmert import MethodError, NBest, Region, Status
from lpmert.metrics.ratio import LinearFraction, f_beta, precision, recall

METHODS = ("choices", "cells", "lp-mert", "exhaustive", "auto")
METRICS = (f_beta(), f_beta(2), f_beta(0.5), precision(), recall())


@pytest.fixture(autouse=True, scope="module")
def _short_descent() -> Iterator[None]:
    with short_descent():
        yield


def random_lists(seed: int) -> NBest:
    rng = np.random.default_rng(seed)
    width, n_lists, size = int(rng.integers(1, 4)), int(rng.integers(1, 5)), int(rng.integers(2, 4))
    features = rng.normal(size=(n_lists * size, width)) if seed % 2 else rng.integers(-2, 3, (n_lists * size, width))
    predicted = rng.integers(0, 6, n_lists * size)
    gold = np.repeat(rng.integers(0, 6, n_lists), size)
    match = np.minimum(np.minimum(predicted, gold), rng.integers(0, 6, n_lists * size))
    return NBest(features, np.arange(0, n_lists * size + 1, size), np.column_stack([match, predicted, gold]))


def least_loss(nbest: NBest, metric: LinearFraction) -> Fraction:
    """The least fraction over all attainable selections, exactly; the first of equal vectors counts."""
    rows = []
    offsets = [0]
    for begin, end in zip(nbest.offsets[:-1].tolist(), nbest.offsets[1:].tolist(), strict=True):
        seen: dict[tuple[float, ...], int] = {}
        for i in range(begin, end):
            seen.setdefault(tuple(nbest.dense_features()[i].tolist()), i)
        rows += list(seen.values())
        offsets.append(len(rows))
    features = nbest.dense_features()[rows]
    counts = nbest.statistics[rows].astype(int).tolist()
    found = []
    for selection in oracle.all_selections(features.tolist(), offsets):
        total = [
            sum(column)
            for column in zip(*(counts[begin + i] for begin, i in zip(offsets, selection, strict=False)), strict=True)
        ]
        below = sum(a * b for a, b in zip(metric.denominator, total, strict=True))
        found.append(
            Fraction(sum(a * b for a, b in zip(metric.numerator, total, strict=True)), below) if below else Fraction(1)
        )
    return min(found)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: f"{metric.name}")
def test_every_method_proves_the_least_fraction(metric: LinearFraction) -> None:
    for seed in range(16):
        nbest = random_lists(seed)
        least = least_loss(nbest, metric)
        for method in METHODS:
            result = lpmert.minimize(nbest, metric=metric, method=method)
            assert result.loss == float(least)
            assert result.lower_bound == result.loss
            assert result.status is Status.OPTIMAL
            assert result.score == pytest.approx(1 - float(least))


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: f"{metric.name}")
def test_many_more_fractions(metric: LinearFraction) -> None:
    for seed in range(100, 300):
        nbest = random_lists(seed)
        least = least_loss(nbest, metric)
        for method in METHODS:
            result = lpmert.minimize(nbest, metric=metric, method=method)
            assert (result.loss, result.lower_bound) == (float(least), float(least))


def larger(seed: int) -> NBest:
    rng = np.random.default_rng(seed)
    predicted = rng.integers(1, 9, 600)
    gold = np.repeat(rng.integers(1, 9, 60), 10)
    match = np.minimum(np.minimum(predicted, gold), rng.integers(0, 9, 600))
    return NBest(rng.normal(size=(600, 4)), np.arange(0, 601, 10), np.column_stack([match, predicted, gold]))


def test_a_bound_at_a_limit_is_below_the_proved_loss() -> None:
    for seed in range(3):
        nbest = larger(seed)
        proved = lpmert.minimize(nbest, metric="f1")
        assert proved.status is Status.OPTIMAL
        for limit in (0, 50, 500):
            stopped = lpmert.minimize(nbest, metric="f1", node_limit=limit)
            assert stopped.lower_bound is not None
            assert stopped.lower_bound <= proved.loss <= stopped.loss


def test_the_methods_agree_and_a_region_is_kept_to() -> None:
    nbest = larger(7)
    free = [lpmert.minimize(nbest, metric="f1", method=method).loss for method in ("cells", "auto")]
    assert free[0] == free[1]
    within = lpmert.minimize(nbest, metric="f1", region=Region(nonnegative=True))
    assert (within.weights > 0).all()
    assert within.status is Status.OPTIMAL
    assert within.loss >= free[0]
    near = lpmert.minimize(nbest, metric="f1", region=Region(cosine=0.95, around=dict.fromkeys(nbest.names, 1.0)))
    assert near.status is Status.OPTIMAL
    assert near.loss >= free[0]


def test_methods_that_need_a_sum_over_lists_say_so() -> None:
    for method in ("mip", "groups", "subspace", "beam"):
        with pytest.raises(MethodError, match="additive"):
            lpmert.minimize(larger(0), metric="f1", method=method)
    with pytest.raises(MethodError, match="ties"):
        lpmert.minimize(larger(0), metric="f1", ties="best")
