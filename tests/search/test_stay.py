"""Initial weights that nothing beats are the result, so that whoever searches again and again does not wander."""

from functools import partial

import numpy as np
import pytest
from problems import random_nbest

import lpmert

lists = partial(random_nbest, lists=8, size=5)


@pytest.mark.parametrize("method", ["auto", "cells", "choices", "och"])
def test_weights_that_are_as_good_stay_as_they_are(method: str) -> None:
    for seed in range(4):
        for metric in ("loss", "bleu", "f1"):
            nbest = lists(seed, kind=metric)
            best = lpmert.minimize(nbest, metric=metric, time_limit=60)
            assert best.status.proved
            # other weights of the same cell, as a decoder would have them: of another scale, and not in the middle
            start = best.weights * 2.0
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
    nbest = lists(1)
    best = lpmert.minimize(nbest)
    worse = lpmert.minimize(nbest, method=method, initial_weights=-best.weights)
    assert worse.loss == best.loss
    assert not np.allclose(worse.weights, -best.weights)
    tied = lpmert.NBest([[1.0, 0], [0, 1], [0, 1], [2, 0]], [0, 2, 4], [0.0, 1, 0, 1], ["a", "b"])
    found = lpmert.minimize(tied, method=method, initial_weights=[1, 1])
    assert found.tied_lists == 0


def test_the_cell_has_its_centre_where_the_weights_are_not() -> None:
    nbest = lists(2)
    best = lpmert.minimize(nbest)
    start = best.weights.copy()
    start[1] += 0.9 * (min(best.cell.ranges[1, 1], start[1] + 1) - start[1])
    again = lpmert.minimize(nbest, initial_weights=start)
    assert again.cell.centre == pytest.approx(best.weights, abs=1e-9)
    assert (again.cell.ranges[:, 0] < again.weights).all()
    assert (again.weights < again.cell.ranges[:, 1]).all()


def test_a_region_keeps_weights_that_leave_it_from_staying() -> None:
    nbest = lists(3)
    best = lpmert.minimize(nbest)
    bound = lpmert.Region(bounds={"feature1": (None, 0)} if best.weights[0] > 0 else {"feature1": (0, None)})
    found = lpmert.minimize(nbest, initial_weights=best.weights, region=bound)
    assert found.weights[0] * best.weights[0] <= 0
