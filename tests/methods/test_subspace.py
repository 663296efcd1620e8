"""Searches in subspaces never make weights worse, count them on the real features, and end."""

from functools import partial

import numpy as np
import pytest
from oracle import best_loss, decoded
from problems import KINDS, THIN, gaussian_lists, random_lists

import lpmert
from lpmert import Status
from lpmert.methods.subspace import Subspace, improve
from lpmert.model.problem import Problem
from lpmert.search.method import Incumbent

pytestmark = pytest.mark.usefixtures("poor_start")
lists_of = partial(gaussian_lists, lists=30, hypotheses=8, features=7)


def cost_at(problem: Problem, weights: np.ndarray) -> int:
    cost, clear = problem.canonical.clear_cost(weights)
    assert clear
    return cost


def test_never_worse_than_its_start_and_as_good_as_it_says() -> None:
    for seed in range(12):
        problem = Problem(lists_of(seed).nbest)
        rng = np.random.default_rng(seed)
        weights = rng.normal(size=problem.canonical.n_features)
        incumbent = Incumbent(cost_at(problem, weights), weights, "")
        improvements = 0
        for _ in range(6):
            before = incumbent.cost
            better = improve(problem.canonical, incumbent, rng)
            assert better == (incumbent.cost < before)
            assert incumbent.cost <= before
            assert cost_at(problem, incumbent.weights) == incumbent.cost
            improvements += better
        assert improvements > 0


def test_a_subspace_is_as_good_as_any_weights_in_it() -> None:
    """In a subspace the search is exact: no combination of its three axes beats what it returns."""
    problem = Problem(lists_of(5, features=5).nbest)
    form = problem.canonical
    weights = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    incumbent = Incumbent(cost_at(problem, weights), weights, "")
    improve(form, incumbent, np.random.default_rng(8))
    axes = np.column_stack([weights, np.random.default_rng(8).normal(size=(5, 2))])
    for combined in np.random.default_rng(9).normal(size=(5000, 3)):
        assert incumbent.cost <= form.costs[decoded(form.features, form.offsets, axes @ combined)].sum()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in THIN])
def test_finds_the_optimum_where_the_subspace_is_the_whole_space(kind: str) -> None:
    """Optima of thin kinds can lie in cells too narrow for a choice clear of rounding, which is all that it takes."""
    for seed in range(8):
        lists = random_lists(kind, seed, most_features=3, most_selections=100)
        least = float(best_loss(lists))
        exact = lpmert.minimize(lists.nbest, method="auto")
        result = lpmert.minimize(lists.nbest, method=Subspace())
        assert result.loss >= least - 1e-12 * np.abs(lists.losses).sum()
        if exact.status is Status.OPTIMAL:
            assert result.loss == exact.loss
