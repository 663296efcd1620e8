"""No search begins with less of a bound than the oracle's, for which every list chooses as it likes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import lpmert
from lpmert import NBest, Problem
from lpmert.errors import FloatArray
from lpmert.metrics.ratio import Bleu, Chrf, LinearFraction, Per, f_beta, precision

ERRORS = LinearFraction("rate", ("errors", "length"), (1, 0), (0, 1), higher_is_better=False)
LISTS, SIZE = 5, 4


def counts(rng: np.random.Generator, metric: Any) -> FloatArray:
    """Statistics [20, K] of hypotheses."""
    rows = LISTS * SIZE
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
    assert result.lower_bound is not None
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
        assert result.lower_bound is not None
        assert result.lower_bound <= least + 1e-12
        any_weights = Problem(nbest, metric).evaluate(np.ones(6)).loss
        short.append((least - result.lower_bound) / max(any_weights - least, 1e-9))
    # a share of what there is to choose; the minorant that is tight at some weights alone leaves several times as much
    assert np.mean(short) < 0.4
