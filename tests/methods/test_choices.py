"""The order in which lists are looked ahead in saves linear programs and changes nothing else."""

from __future__ import annotations

import numpy as np
import oracle
import pytest

import lpmert
from lpmert import Status
from lpmert.methods.choices.choices import Choices


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
