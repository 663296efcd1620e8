"""The order in which lists are looked ahead in saves linear programs and changes nothing else."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from problems import gaussian_lists

import lpmert
from lpmert import Status
from lpmert.methods.choices.choices import Choices, SumChoicesSearch
from lpmert.model.problem import Problem
from lpmert.search.incumbent import first_incumbent


def test_pauses_change_neither_the_optimum_nor_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of one unit of work ends after every node; the order of lists goes on from where it was."""
    for seed in range(3):
        problem = Problem(gaussian_lists(seed, lists=8, hypotheses=10, features=5).nbest)
        found = []
        for work in (4_000_000, 1):
            monkeypatch.setattr("lpmert.methods.choices.choices.SLICE", work)
            search = SumChoicesSearch(Choices(), problem.canonical, first_incumbent(problem, 0, None))
            slices = 0
            while not search.finished:
                search.advance()
                slices += 1
            found.append((search.incumbent.cost, search.nodes, search.lps, search.counters()["lp_rounds"]))
        assert found[0] == found[1]
        assert slices > found[0][1] // 2


@pytest.mark.parametrize("seed", [50, 966, 1020, 1202, 1368])
def test_a_child_that_costs_just_less_than_the_incumbent_is_searched(seed: int) -> None:
    """Of 2,400 random problems, these are some whose optimum is met nowhere but in such a child."""
    rng = np.random.default_rng(seed)
    width, n_lists, size = (int(rng.integers(*ends)) for ends in ((2, 5), (5, 14), (2, 5)))
    features = rng.normal(size=(n_lists * size, width))
    losses = rng.integers(0, int(rng.choice([2, 4, 9])), n_lists * size).astype(float)
    lists = lpmert.NBest(features, np.arange(0, n_lists * size + 1, size), losses)
    look_ahead = str(rng.choice(["yes", "no"]))
    found = lpmert.minimize(lists, method=Choices().configured({"look_ahead": look_ahead}))
    least = oracle.best_loss(oracle.Lists(features, lists.offsets, losses), "first")
    assert (found.status, found.loss) == (Status.OPTIMAL, float(least))
