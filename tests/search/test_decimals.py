"""Weights of few decimals: found wherever there are some close by, as trying all of them tells, and never wrong."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lpmert
from lpmert import NBest, Problem, Region
from lpmert.formats.weights import keeps_loss
from lpmert.search.decimals import few_decimals


def thin(width: float, n_features: int = 2) -> NBest:
    """Lists that are all right only where the first weight, over the second one, lies between 1 and 1 + width."""
    rest = [0.0] * (n_features - 2)
    rows = [[1.0, -1.0], [0.0, 0.0], [-1.0, 1.0 + width], [0.0, 0.0]]
    return NBest([[*row, *rest] for row in rows], [0, 2, 4], [0, 1, 0, 1])


def test_a_thin_cell_gives_weights_of_few_decimals() -> None:
    nbest = thin(0.003)
    exact = np.array([0.5002, 0.4998])
    problem = Problem(nbest)
    assert problem.evaluate(exact).loss == 0
    assert problem.evaluate(np.round(exact, 3)).tied_lists
    found = few_decimals(problem, exact, 3)
    assert problem.evaluate(found).loss == 0
    assert problem.evaluate(found).tied_lists == 0
    assert (found * 1000).tolist() == np.rint(found * 1000).tolist()
    assert found.sum() == pytest.approx(1, abs=0.02)


def test_weights_that_are_fixed_stay() -> None:
    nbest, exact = thin(0.03, 3), np.array([0.5044, 0.5, 0.25])
    problem = Problem(nbest)
    found = few_decimals(problem, exact, 2, np.array([False, True, True]))
    assert problem.evaluate(found).loss == 0
    assert found[1:].tolist() == [0.5, 0.25]


def test_weights_stay_in_the_region() -> None:
    nbest = thin(0.02)
    region = Region(bounds={nbest.names[0]: (0.501, None)}, total=1.0)
    problem = Problem(nbest, region=region)
    exact = np.array([0.5024, 0.4976])
    assert problem.inside(problem.checked_weights(exact))
    found = few_decimals(problem, exact, 3)
    assert problem.inside(problem.checked_weights(found))
    assert problem.evaluate(found).loss == problem.evaluate(exact).loss


@settings(max_examples=40, deadline=None)
@given(data=st.data(), n=st.integers(2, 3), lists=st.integers(2, 6))
def test_it_finds_what_trying_all_nearby_finds(data: st.DataObject, n: int, lists: int) -> None:
    numbers = st.lists(st.lists(st.integers(-9, 9), min_size=n, max_size=n), min_size=3, max_size=3)
    features = np.array(data.draw(st.lists(numbers, min_size=lists, max_size=lists)), dtype=float).reshape(-1, n)
    losses = data.draw(st.lists(st.integers(0, 3), min_size=len(features), max_size=len(features)))
    nbest = NBest(features, np.arange(0, len(features) + 1, 3), losses)
    result = lpmert.minimize(nbest)
    problem = Problem(nbest)
    keeps, exact = keeps_loss(problem, result.weights), problem.evaluate(result.weights)
    found = few_decimals(problem, result.weights, 2)
    assert keeps(found)
    if not exact.tied_lists and np.abs(found * 100 - np.rint(found * 100)).max() > 1e-9:
        base = np.rint(result.weights * 100).astype(int)
        near = np.array([base + step for step in product(range(-8, 9), repeat=n)])
        near = near[(near * base >= 0).all(axis=1)]
        scores = (near @ features.astype(int).T).reshape(len(near), lists, 3)
        won = scores == scores.max(axis=2, keepdims=True)
        same = (won.sum(axis=2) == 1) & (won.argmax(axis=2) == exact.selection)
        assert not same.all(axis=1).any()
