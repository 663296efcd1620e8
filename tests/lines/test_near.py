"""What matters near weights, held to decoding all lists; and descents that go on there."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_envelope import random_lists

from lpmert.lines.descents import Descents, descend, near, reaches_from
from lpmert.lines.line_search import lists_with_costs


def _chosen(features, offsets, weights):
    """The first best hypothesis of each list."""
    scores = features @ weights
    return [int(begin + np.argmax(scores[begin:end])) for begin, end in pairwise(offsets)]


@given(seed=st.integers(0, 2**32), dimension=st.integers(1, 5), share=st.sampled_from([0.0, 0.05, 0.2, 0.5, 1.0]))
def test_within_reach_all_lists_cost_what_the_rows_and_the_base_say(seed, dimension, share):
    rng = np.random.default_rng(seed)
    features, offsets, costs = random_lists(rng, lists=12, size=8, dimension=dimension, integers=False)
    centre = rng.normal(size=dimension)
    centre /= np.linalg.norm(centre)
    reaches = reaches_from(centre, lists_with_costs(features, offsets, costs))
    found = near(centre, reaches, share, offsets, costs)
    for _ in range(40):
        step = rng.normal(size=dimension)
        step -= (step @ centre) * centre
        length = np.linalg.norm(step)
        weights = centre + step * (0.999 * found.reach * rng.random() / length if length > 1e-9 else 0.0)
        chosen = _chosen(features, offsets, weights)
        assert all(reaches[i] <= found.reach for i in chosen)
        inside = features[found.rows] @ weights
        cost = found.base
        for begin, end in pairwise(found.offsets):
            cost += costs[found.rows[begin + np.argmax(inside[begin:end])]]
        assert cost == costs[chosen].sum()


@given(seed=st.integers(0, 2**32), dimension=st.integers(2, 4))
def test_a_hypothesis_wins_just_beyond_its_reach_in_a_list_of_two(seed, dimension):
    rng = np.random.default_rng(seed)
    features, offsets = rng.normal(size=(2, dimension)), np.array([0, 2])
    centre = rng.normal(size=dimension)
    centre /= np.linalg.norm(centre)
    reaches = reaches_from(centre, lists_with_costs(features, offsets, np.array([0, 1])))
    winner = _chosen(features, offsets, centre)[0]
    assert reaches[winner] == 0.0
    towards = features[1 - winner] - features[winner]
    towards -= (towards @ centre) * centre
    towards /= np.linalg.norm(towards)
    reach = reaches[1 - winner]
    assert _chosen(features, offsets, centre + 0.999 * reach * towards) == [winner]
    assert _chosen(features, offsets, centre + 1.001 * reach * towards) == [1 - winner]


def _planted(rng, lists, size, dimension):
    """Lists of which hidden weights choose cheap hypotheses, most of them the cheapest."""
    offsets = np.arange(0, lists * size + 1, size)
    features = rng.normal(size=(lists * size, dimension))
    quality = features @ rng.normal(size=dimension) + 2.0 * rng.normal(size=lists * size)
    return features, offsets, np.maximum(0, 3 - quality).astype(np.int64)


def test_searches_near_the_best_find_better_weights_than_as_much_work_in_plain_descents():
    lists = _planted(np.random.default_rng(3), 200, 30, 8)
    work, plain = 0, []
    rng = np.random.default_rng(0)
    for seed in range(20):
        descents = Descents(*lists, seed=seed, initial=rng.normal(size=8))
        work += descents.turn()
        plain.append(descents.best[0])
    descents = Descents(*lists, seed=1)
    assert descents.run(work // 2) <= work
    assert descents.best[0] < min(plain)


def test_weights_that_are_offered_are_kept_and_gone_on_from():
    lists = _planted(np.random.default_rng(5), 60, 20, 6)
    better = descend(*lists, seed=9, budget=2_000_000)
    descents = Descents(*lists, seed=1)
    descents.run(1)
    assert descents.best[0] > better[0]
    descents.offer(better[1])
    assert descents.best[0] == better[0]
    descents.run(300_000)
    cost, weights = descents.best
    assert cost <= better[0]
    assert lists[2][_chosen(lists[0], lists[1], weights)].sum() == cost


@pytest.mark.parametrize("dimension", [1, 2])
def test_few_features_leave_nothing_to_go_wrong(dimension):
    features, offsets, costs = random_lists(
        np.random.default_rng(dimension), lists=9, size=6, dimension=dimension, integers=True
    )
    cost, weights = descend(features, offsets, costs, budget=200_000)
    angles = np.linspace(0, 2 * np.pi, 5001)
    around = np.column_stack([np.cos(angles), np.sin(angles)]) if dimension == 2 else np.array([[1.0], [-1.0]])
    assert cost <= min(costs[_chosen(features, offsets, one)].sum() for one in around + 1e-7)
    assert costs[_chosen(features, offsets, weights)].sum() == cost
