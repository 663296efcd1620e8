"""Initial weights that nothing beats are the result, so that whoever searches again and again does not wander."""

from __future__ import annotations

import numpy as np
import pytest

import lpmert

STATISTICS = {"loss": 1, "bleu": 9, "f1": 3}


def lists(seed: int, metric: str) -> lpmert.NBest:
    rng = np.random.default_rng(seed)
    n = 40
    if metric == "loss":
        statistics = rng.integers(0, 4, (n, 1)).astype(float)
    elif metric == "f1":
        matches = rng.integers(0, 4, n)
        statistics = np.column_stack([matches, matches + rng.integers(0, 3, n), np.repeat(rng.integers(4, 8, 8), 5)])
    else:
        totals = np.column_stack([rng.integers(6, 12, n) - k for k in range(4)])
        matches = np.minimum(totals, rng.integers(1, 8, (n, 4)))
        statistics = np.column_stack([np.dstack([matches, totals]).reshape(n, 8), np.repeat(rng.integers(6, 12, 8), 5)])
    return lpmert.NBest(rng.normal(size=(n, 3)), np.arange(0, n + 1, 5), statistics, ["a", "b", "c"])


@pytest.mark.parametrize("method", ["auto", "cells", "choices", "och"])
def test_weights_that_are_as_good_stay_as_they_are(method: str) -> None:
    for seed in range(4):
        for metric in STATISTICS:
            nbest = lists(seed, metric)
            best = lpmert.minimize(nbest, metric=metric, time_limit=60)
            assert best.status.proved
            # other weights of the same cell, as a decoder would have them: of another scale, and not in the middle
            start = best.weights * 2.0
            assert best.cell is not None
            low, high = best.cell.ranges[0]
            start[0] = 2.0 * (best.weights[0] + (0.5 * (max(low, best.weights[0] - 1) - best.weights[0])))
            assert low < start[0] / 2.0 < high
            again = lpmert.minimize(nbest, metric=metric, method=method, initial_weights=start, time_limit=60)
            assert again.loss == best.loss
            assert again.weights == pytest.approx(start / np.abs(start).sum(), rel=1e-15)
            third = lpmert.minimize(nbest, metric=metric, method=method, initial_weights=again.weights, time_limit=60)
            assert third.weights == pytest.approx(again.weights, rel=1e-15)


@pytest.mark.parametrize("method", ["auto", "och"])
def test_weights_that_others_beat_or_that_hang_on_a_tie_do_not_stay(method: str) -> None:
    nbest = lists(1, "loss")
    best = lpmert.minimize(nbest)
    worse = lpmert.minimize(nbest, method=method, initial_weights=-best.weights)
    assert worse.loss == best.loss
    assert not np.allclose(worse.weights, -best.weights)
    tied = lpmert.NBest([[1.0, 0], [0, 1], [0, 1], [2, 0]], [0, 2, 4], [0.0, 1, 0, 1], ["a", "b"])
    found = lpmert.minimize(tied, method=method, initial_weights=[1, 1])
    assert found.tied_lists == 0


def test_the_cell_has_its_centre_where_the_weights_are_not() -> None:
    nbest = lists(2, "loss")
    best = lpmert.minimize(nbest)
    assert best.cell is not None
    start = best.weights.copy()
    start[1] += 0.9 * (min(best.cell.ranges[1, 1], start[1] + 1) - start[1])
    again = lpmert.minimize(nbest, initial_weights=start)
    assert again.cell is not None
    assert again.cell.centre == pytest.approx(best.weights, abs=1e-9)
    assert (again.cell.ranges[:, 0] < again.weights).all()
    assert (again.weights < again.cell.ranges[:, 1]).all()


def test_a_region_keeps_weights_that_leave_it_from_staying() -> None:
    nbest = lists(3, "loss")
    best = lpmert.minimize(nbest)
    bound = lpmert.Region(bounds={"a": (None, 0)} if best.weights[0] > 0 else {"a": (0, None)})
    found = lpmert.minimize(nbest, initial_weights=best.weights, region=bound)
    assert found.weights[0] * best.weights[0] <= 0
