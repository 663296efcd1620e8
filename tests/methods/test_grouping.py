"""The sum of the groups' optima never exceeds the optimum, only rises, and ends in a proof."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from long_searches import long_searches, with_workers
from oracle import Lists
from problems import gaussian_lists
from scipy.linalg import block_diag
from shared import needs_shared, swahili

import lpmert
from lpmert import Status
from lpmert.lines.descents import DEFAULT_BUDGET, descend
from lpmert.methods.auto import Auto
from lpmert.methods.choices.choices import Choices
from lpmert.methods.groups import GroupedSearch, Groups, gather, independent_parts, sampled_costs
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.model.problem import Problem
from lpmert.search.incumbent import first_incumbent
from lpmert.search.method import Incumbent, Task
from lpmert.workers import Pending, Shared, T, Threads, Unit

pytestmark = pytest.mark.usefixtures("poor_start")


class Recorder(Threads):
    """Workers who note what they get."""

    def __init__(self) -> None:
        super().__init__(2)
        self.got: Counter[str] = Counter()

    def submit(self, unit: Unit[T], shared: Shared, *arguments: object) -> Pending[T]:
        self.got[unit.__name__] += 1
        return super().submit(unit, shared, *arguments)


def test_short_work_stays_at_home_and_all_else_is_handed_out() -> None:
    lists = gaussian_lists(4, lists=24, hypotheses=8, features=5)
    with Recorder() as hands, with_workers(hands):
        lpmert.minimize(lists.nbest, method="groups", node_limit=5)
        assert not hands.got
        with long_searches(500):
            result = lpmert.minimize(lists.nbest, method="groups", node_limit=2000)
    assert hands.got["begin"] >= result.counters["groups"] - 1 >= 3
    assert hands.got["search_batch"] > 20


@pytest.mark.parametrize("units", [1, 3, 8])
def test_as_many_beginnings_are_out_at_once_as_the_option_says(units: int) -> None:
    lists = gaussian_lists(4, lists=48, hypotheses=8, features=5)
    method = Groups(size=2, selections=Choices(units=units))
    with Recorder() as hands, with_workers(hands), long_searches(500), pytest.MonkeyPatch.context() as patch:
        out: list[int] = []
        whole = GroupedSearch._send

        def send(search: GroupedSearch) -> None:
            whole(search)
            out.append(len(search._beginning))

        patch.setattr(GroupedSearch, "_send", send)
        lpmert.minimize(lists.nbest, method=method, node_limit=400)
    assert max(out) == units


def test_groups_of_one_list_give_the_sum_of_the_least_attainable_losses() -> None:
    """A list alone can choose each of its corners; in the plane these are few."""
    lists = gaussian_lists(4, lists=12, hypotheses=9, features=3)
    alone = 0.0
    for begin, end in pairwise(lists.offsets):
        one = Lists(lists.features[begin:end], np.array([0, end - begin]), lists.losses[begin:end])
        alone += lpmert.minimize(one.nbest, method="exhaustive").loss
    problem = Problem(lists.nbest)
    form = problem.canonical
    search = GroupedSearch(Groups(size=1), form, Incumbent(1 << 40, np.ones(3), ""))
    while search.counters()["groups"] <= form.n_lists:  # until a second one is joined
        search.advance()
    assert form.loss_of(search.lower_bound) >= alone


def test_one_group_is_the_search_over_selections() -> None:
    lists = gaussian_lists(5, lists=10, hypotheses=6, features=5)
    groups = lpmert.minimize(lists.nbest, method=Groups(size=10))
    choices = lpmert.minimize(lists.nbest, method=Choices())
    assert groups.status is choices.status is Status.OPTIMAL
    assert groups.loss == choices.loss
    assert groups.counters["groups"] == 1
    assert groups.counters["lps"] == choices.counters["lps"]


def test_the_bound_beats_the_sum_of_minima_where_no_search_ends() -> None:
    lists = gaussian_lists(6, lists=60, hypotheses=20, features=10)
    oracle = sum(lists.losses[begin:end].min() for begin, end in pairwise(lists.offsets))
    result = lpmert.minimize(lists.nbest, method="groups", node_limit=3000)
    assert result.status is Status.NODE_LIMIT
    assert result.lower_bound is not None
    assert oracle < result.lower_bound < result.loss


def _first_groups(form: Canonical, start: Incumbent, settings: Groups) -> list[list[int]]:
    search = GroupedSearch(settings, form, start)
    while not search._to_begin:
        search.advance()
    return [sorted(group.lists.tolist()) for group in search._root.leaves()]


def test_the_scale_of_a_feature_does_not_change_the_groups() -> None:
    form = Problem(gaussian_lists(1, lists=40, hypotheses=8, features=5).nbest).canonical
    start = Incumbent(form.dearest, CanonicalWeights(np.ones(5)), "")
    scaled = replace(form, features=form.features * np.ldexp(1.0, [-9, 5, 0, 12, 3]))
    assert _first_groups(form, start, Groups(size=4)) == _first_groups(scaled, start, Groups(size=4))


def test_lists_that_are_never_cheap_together_are_gathered() -> None:
    """Of six rows 0 and 3, 1 and 4, 2 and 5 exclude each other."""
    rng = np.random.default_rng(0)
    cheap = rng.integers(0, 2, (200, 3))
    excess = np.column_stack([cheap, 1 - cheap]).T.astype(float)
    groups = {tuple(sorted(group.tolist())) for group in gather(excess, np.arange(6), 2)}
    assert groups == {(0, 3), (1, 4), (2, 5)}
    lists = 2 * np.arange(11)
    parts = gather(rng.random((22, 50)), lists, 4)
    assert sorted(np.concatenate(parts).tolist()) == lists.tolist()
    assert sorted(map(len, parts)) == [3, 4, 4]


def test_sampled_costs_are_what_each_list_costs() -> None:
    problem = Problem(gaussian_lists(8, lists=5, hypotheses=4, features=3).nbest)
    form = problem.canonical
    weights = np.random.default_rng(0).normal(size=(6, form.n_features))
    for row, costs in zip(weights, sampled_costs(form, weights), strict=True):
        scores = form.features @ row
        for s, (begin, end) in enumerate(pairwise(form.offsets)):
            assert costs[s] == form.costs[begin + np.argmax(scores[begin:end])]


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
    tracemalloc.start()
    try:
        parts = independent_parts(features, offsets)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [part.tolist() for part in parts] == [list(range(2000))]
    assert peak < 5 * features.nbytes


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
        assert one.lower_bound is not None
        assert one.lower_bound < result.loss


def test_auto_searches_groups_too_where_features_and_lists_are_many() -> None:
    lists = gaussian_lists(9, lists=20, hypotheses=12, features=12)
    problem = Problem(lists.nbest)
    form = problem.canonical
    search = Auto().start(Task(problem, form, lambda: first_incumbent(problem, 0, None)))
    for _ in range(120):
        search.advance()
    assert search.finished or search.counters()["groups"] > 0
    assert search.lower_bound is not None
    assert form.loss_of(search.lower_bound) <= form.loss_of(search.incumbent.cost)


@needs_shared
@pytest.mark.slow
def test_all_swahili_lists_have_a_bound_above_the_sum_of_minima_after_two_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And weights within a thousandth of those of a descent from twenty starts, whose own luck varies by as much."""
    monkeypatch.setattr("lpmert.search.incumbent.DEFAULT_BUDGET", DEFAULT_BUDGET)
    nbest = swahili()
    result = lpmert.minimize(nbest, method="groups", time_limit=120)
    oracle = float(np.minimum.reduceat(nbest.statistics[:, 0], nbest.offsets[:-1]).sum())
    assert result.lower_bound is not None
    assert oracle + 2.0 < result.lower_bound < result.loss
    problem = Problem(nbest)
    form = problem.canonical
    cost, _ = descend(
        form.features,
        form.offsets,
        form.costs,
        starts=20,
        patience=200,
        budget=10**10,
    )
    assert result.loss <= 1.001 * form.loss_of(cost)
