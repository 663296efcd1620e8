"""Lists are compared at weights at which a few of them are cheap; no bound or optimum hangs on where."""

from __future__ import annotations

import numpy as np
from problems import gaussian_lists

import lpmert
from lpmert.methods.groups import cheap_for_few, sampled_costs
from lpmert.model.problem import Problem


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
