"""Lists are compared at weights at which a few of them are cheap; no bound or optimum hangs on where."""

from __future__ import annotations

import numpy as np
import pytest
from strategies import KINDS, assert_closes_on, best_loss, gaussian_lists, random_lists
from tolerance import Tolerated

import lpmert
from lpmert import Status
from lpmert.methods.groups import GroupedSearch, Groups, cheap_for_few, sampled_costs
from lpmert.model.problem import Problem
from lpmert.search.incumbent import first_incumbent


def test_a_descent_makes_the_few_lists_cheap_that_it_is_about() -> None:
    form = Problem(gaussian_lists(1, lists=5, hypotheses=12, features=4).nbest).canonical
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(20, 4))
    before = sampled_costs(form, weights).sum(axis=1)
    after = sampled_costs(form, cheap_for_few(form, weights, [np.arange(5)], 5, rng)).sum(axis=1)
    assert np.all(after <= before)
    assert np.count_nonzero(after < before) > 10


def test_the_few_lists_are_of_one_part_and_other_columns_stay() -> None:
    a = gaussian_lists(1, lists=6, hypotheses=5, features=2)
    features = np.zeros((2 * len(a.features), 4))
    features[: len(a.features), :2] = features[len(a.features) :, 2:] = a.features
    offsets = np.concatenate([a.offsets, a.offsets[1:] + a.offsets[-1]])
    form = Problem(lpmert.NBest(features, offsets, np.concatenate([a.losses, a.losses]))).canonical
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(10, 4))
    found = cheap_for_few(form, weights, [np.arange(6)], 3, rng)
    assert (found[:, 2:] == weights[:, 2:]).all()
    assert (found[:, :2] != weights[:, :2]).any(axis=1).all()


@pytest.mark.parametrize("near_few", [True, False])
def test_the_bound_never_exceeds_the_optimum_wherever_lists_are_compared(near_few: bool) -> None:
    lists = gaussian_lists(3, lists=24, hypotheses=6, features=4)
    optimum = lpmert.minimize(lists.nbest, method="cells")
    assert optimum.status is Status.OPTIMAL
    problem = Problem(lists.nbest)
    start = first_incumbent(problem, 0, None)
    assert_closes_on(
        optimum.loss, GroupedSearch(Groups(size=4, near_few=near_few), problem.canonical, start), problem.canonical
    )


@pytest.mark.parametrize("kind", KINDS)
def test_groups_compared_at_random_weights_end_with_the_least_loss(kind: str) -> None:
    tolerated = Tolerated(kind)
    for seed in range(4):
        lists = random_lists(kind, seed, most_lists=6, most_hypotheses=4, most_features=3, most_selections=150)
        least = best_loss(lists)
        result = lpmert.minimize(lists.nbest, method=Groups(size=2, near_few=False))
        tolerated.assert_least(result, lists, least)
    tolerated.assert_rare()
