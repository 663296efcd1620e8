"""The sum of the groups' optima never exceeds the optimum, only rises, and ends in a proof."""

import time
from itertools import pairwise

import numpy as np
import pytest
from oracle import Lists
from problems import gaussian_lists
from scipy.linalg import block_diag
from searches import peak_of
from shared import needs_shared, swahili

import lpmert
from lpmert import Status
from lpmert.lines.descents import DEFAULT_BUDGET, descend
from lpmert.methods.groups import Groups, independent_parts
from lpmert.model.problem import Problem

pytestmark = pytest.mark.usefixtures("poor_start")


def test_the_bound_beats_the_sum_of_minima_where_no_search_ends() -> None:
    lists = gaussian_lists(6, lists=60, hypotheses=20, features=10)
    oracle = sum(lists.losses[begin:end].min() for begin, end in pairwise(lists.offsets))
    result = lpmert.minimize(lists.nbest, method="groups", node_limit=3000)
    assert result.status is Status.NODE_LIMIT
    assert oracle < result.lower_bound < result.loss


def blocks(*parts: Lists) -> Lists:
    """Lists each of which has features of its own, those of the parts."""
    features = block_diag(*(part.features for part in parts))
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    losses = np.concatenate([part.losses for part in parts])
    return Lists(features, np.concatenate([[0], np.cumsum(sizes)]), losses)


def test_lists_without_a_feature_in_common_are_parts_and_a_limit_joins_them() -> None:
    lists = blocks(*(gaussian_lists(seed, lists=3, hypotheses=4, features=2) for seed in range(3)))
    form = Problem(lists.nbest).canonical
    parts = independent_parts(form.features, form.offsets)
    assert [part.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    region = lpmert.Region(linear=[lpmert.Linear({"feature1": 1.0, "feature6": -1.0}, lower=0)])
    joined = Problem(lists.nbest, region=region).canonical
    assert [len(part) for part in independent_parts(joined.features, joined.offsets)] == [7, 3]


def test_the_parts_of_many_dense_lists_take_less_memory_than_their_features() -> None:
    """There are 200,000 pairs of a list and a feature that varies in it."""
    features, offsets = np.random.default_rng(0).normal(size=(4000, 100)), np.arange(0, 4001, 2)
    independent_parts(features[:4], offsets[:3])  # what is imported then does not count
    assert peak_of(lambda: independent_parts(features, offsets)) < 5 * features.nbytes
    assert [part.tolist() for part in independent_parts(features, offsets)] == [list(range(2000))]


@pytest.mark.parametrize("size", [2, 8])
def test_the_optima_of_independent_parts_add_up_to_a_proved_optimum(size: int) -> None:
    """One search over all 64 lists and 32 features is far from a proof after many times as many nodes."""
    parts = [gaussian_lists(seed, lists=8, hypotheses=6, features=4) for seed in range(8)]
    optima = [lpmert.minimize(part.nbest, method="choices") for part in parts]
    together = blocks(*parts).nbest
    result = lpmert.minimize(together, method=Groups(size=size), node_limit=100_000)
    assert {optimum.status for optimum in (*optima, result)} == {Status.OPTIMAL}
    assert result.loss == sum(optimum.loss for optimum in optima)
    if size == 8:
        assert result.counters["groups"] == 8
        one = lpmert.minimize(together, method="choices", node_limit=4 * result.counters["nodes"])
        assert one.status is Status.NODE_LIMIT
        assert one.lower_bound < result.loss


@needs_shared
@pytest.mark.slow
def test_all_swahili_lists_have_a_bound_above_the_sum_of_minima_in_half_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And better weights than descents from twenty starts; the time is the processor's."""
    monkeypatch.setattr("lpmert.search.incumbent.DEFAULT_BUDGET", DEFAULT_BUDGET)
    nbest, begin = swahili(), time.process_time()
    result = lpmert.minimize(nbest, method="groups", callback=lambda _: time.process_time() - begin >= 30.0)
    oracle = float(np.minimum.reduceat(nbest.statistics[:, 0], nbest.offsets[:-1]).sum())
    assert oracle + 2.0 < result.lower_bound < result.loss
    form = Problem(nbest).canonical
    cost, _ = descend(form.features, form.offsets, form.costs, starts=20, budget=10**10)
    assert result.loss < form.loss_of(cost)
