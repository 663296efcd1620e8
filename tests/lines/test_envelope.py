"""Line searches: the values other tools assert, brute force, and descents that find planted weights."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import decoded

from lpmert.errors import FloatArray, IntArray
from lpmert.lines.descents import descend
from lpmert.lines.line_search import lists_with_costs

AXES = np.array([1.0, 0.0]), np.array([0.0, 1.0])

# (value at the start, slope, score) per hypothesis; scores in tenths, to be maximised (travatar, test-tune).
TRAVATAR = [[(1, -1, 2), (3, 1, 1), (1, 1, 3)], [(7, -1, 1), (3, 1, 2), (6, 0, 3)]]


class Events(NamedTuple):
    """start [S]: the rows chosen at t = -inf; thresholds [E], ascending; leaving, entering [E]: the rows before and
    after each.
    """

    start: IntArray
    thresholds: FloatArray
    leaving: IntArray
    entering: IntArray

    def levels(self, costs: IntArray) -> IntArray:
        """Return the costs [E + 1] of the intervals between the thresholds."""
        return np.cumsum([costs[self.start].sum(), *(costs[self.entering] - costs[self.leaving])])


def line_events(features: FloatArray, offsets: IntArray, weights: FloatArray, direction: FloatArray) -> Events:
    """Return where the choices of all lists change on the line weights + t direction."""
    lists = lists_with_costs(features, offsets, np.zeros(len(features), dtype=np.int64))
    start, *events = lists.events(weights, direction)
    order = np.argsort(events[0], kind="stable")
    return Events(start, *(of_events[order] for of_events in events))


def decode(features, offsets, costs, weights):
    return costs[decoded(features, offsets, weights)].sum()


def upper_envelope(intercepts, slopes):
    events = line_events(np.column_stack([intercepts, slopes]), np.array([0, len(slopes)]), *AXES)
    return np.concatenate([events.start, events.entering]), events.thresholds


def random_lists(rng, *, lists, size, dimension, integers):
    sizes = rng.integers(1, size + 1, lists)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    shape = (offsets[-1], dimension)
    features = rng.integers(-3, 4, shape).astype(np.float64) if integers else rng.normal(size=shape)
    return features, offsets, rng.integers(0, 6, offsets[-1])








@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32), size=st.sampled_from([2, 30, 300]), dimension=st.integers(1, 20))
def test_error_surface_agrees_with_decoding_in_every_interval(seed, size, dimension):
    rng = np.random.default_rng(seed)
    features, offsets, costs = random_lists(rng, lists=4, size=size, dimension=dimension, integers=False)
    weights, direction = rng.normal(size=(2, dimension))
    events = line_events(features, offsets, weights, direction)
    thresholds, levels = events.thresholds, events.levels(costs)
    assert np.all(np.diff(thresholds) >= 0)
    middles = np.concatenate([[-1e6], (thresholds[1:] + thresholds[:-1]) / 2, [1e6]]) if len(thresholds) else [0.0]
    wide = np.concatenate([[True], np.diff(thresholds) > 1e-9, [True]]) if len(thresholds) else [dimension > 1]
    for middle, level, usable in zip(middles, levels, wide, strict=True):
        if usable:
            assert decode(features, offsets, costs, weights + middle * direction) == level


def test_all_hypotheses_on_a_convex_curve_are_on_the_envelope():
    slopes = np.random.default_rng(0).permutation(np.arange(-200.0, 201.0))
    found, at = upper_envelope(-slopes * slopes, slopes)
    assert slopes[found].tolist() == list(range(-200, 201))
    assert at == pytest.approx(np.arange(-399, 400, 2))




@pytest.mark.parametrize(("lists", "dimension"), [(40, 3), (1500, 3)])
def test_descent_finds_planted_weights(lists, dimension):
    rng = np.random.default_rng(7)
    size = 20
    features = rng.normal(size=(lists * size, dimension)) * 10.0 ** np.arange(-3, dimension - 3)
    offsets = np.arange(0, lists * size + 1, size)
    planted = rng.normal(size=dimension) / 10.0 ** np.arange(-3, dimension - 3)
    best = (features @ planted).reshape(lists, size).argmax(axis=1) + offsets[:-1]
    costs = rng.integers(1, 9, lists * size)
    costs[best] = 0
    cost, weights = descend(features, offsets, costs, seed=1)
    assert cost <= lists // 500
    assert decode(features, offsets, costs, weights) == cost
    assert np.abs(weights).max() == 1.0


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32), dimension=st.integers(1, 4))
def test_descent_returns_what_its_weights_decode_to_without_leaning_on_ties(seed, dimension):
    rng = np.random.default_rng(seed)
    features, offsets, costs = random_lists(rng, lists=6, size=6, dimension=dimension, integers=True)
    features += 1e-3 * rng.integers(0, 2, features.shape)
    cost, weights = descend(features, offsets, costs, budget=4000, seed=seed)
    assert decode(features, offsets, costs, weights) == cost
    nudged = weights + 1e-9 * rng.normal(size=dimension)
    assert decode(features, offsets, costs, nudged) == cost


def test_descent_is_deterministic_and_never_worse_than_its_initial_weights():
    rng = np.random.default_rng(11)
    features, offsets, costs = random_lists(rng, lists=30, size=20, dimension=6, integers=False)
    cost, weights = descend(features, offsets, costs, seed=2, budget=60_000)
    again = descend(features, offsets, costs, seed=2, budget=60_000)
    assert (again[0], again[1].tolist()) == (cost, weights.tolist())
    assert descend(features, offsets, costs, seed=3, initial=weights, starts=1, budget=1)[0] <= cost
