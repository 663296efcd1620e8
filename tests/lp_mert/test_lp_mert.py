"""LP-MERT finds the least loss with every switch on or off, and its streams hold what the published ones must hold."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import oracle
import pytest
from oracle import Lists
from problems import KINDS, random_lists
from shared import needs_shared, swahili

import lpmert
from lpmert.core import INFINITE_COST
from lpmert.methods.lp_mert.method import LpMert, Prefix, SavingTest, open_prefixes
from lpmert.methods.lp_mert.streams import Combination, OneList, Stream, TwoHalves, balanced_tree
from lpmert.model.problem import Problem
from lpmert.search.method import Incumbent

pytestmark = pytest.mark.usefixtures("poor_start")

SWITCHES = ("row_generation", "use_witnesses", "look_ahead", "lazy", "chain")
BARE = LpMert(**dict.fromkeys(SWITCHES, False))
OPTIMA = {"0:8": 4.948169, "8:16": 4.641196, "16:24": 5.091451, "24:32": 5.890797}  # proved by the floor prototypes


def dearest(problem: Problem) -> Incumbent:
    """Weights with a cost that every selection undercuts, so that nothing is left out for its cost."""
    return Incumbent(INFINITE_COST // 4, np.ones(problem.canonical.n_features), "")


def all_of(stream: Stream) -> list[Combination]:
    while stream.bound < INFINITE_COST:
        stream.get_next_best()
    return stream.found


def tree(test: SavingTest, n_lists: int, *, lazy: bool = True) -> list[Stream]:
    """All streams of a tree over the lists in order, the root last."""
    streams: list[Stream] = [OneList(s, test) for s in range(n_lists)]

    def join(left: Stream, right: Stream) -> Stream:
        streams.append(TwoHalves(left, right, test, lazy=lazy))
        return streams[-1]

    balanced_tree(streams[:], join)
    return streams


@pytest.mark.parametrize("n_lists", range(1, 8))
@pytest.mark.parametrize("lazy", [False, True])
def test_the_root_holds_every_attainable_selection_once_in_order_of_cost(n_lists: int, lazy: bool) -> None:
    for seed in range(6):
        rng = np.random.default_rng([seed, n_lists])
        sizes = rng.integers(2, 5 if n_lists < 5 else 3, n_lists)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        features = rng.permutation(60).astype(float)[: 2 * offsets[-1]].reshape(-1, 2)
        lists = Lists(features, offsets, np.asarray(rng.permutation(int(offsets[-1])), dtype=float))
        problem = Problem(lists.nbest)
        form = problem.canonical
        test = SavingTest(replace(BARE, lazy=lazy), form, dearest(problem))
        root = tree(test, form.n_lists, lazy=lazy)[-1]
        found = all_of(root)
        costs = [combination.cost for combination in found]
        assert costs == sorted(costs)
        expected = oracle.all_selections(form.features.tolist(), form.offsets.tolist())
        order = [np.argsort(form.costs[a:b], kind="stable") for a, b in pairwise(form.offsets)]
        held = [tuple(int(order[s][h]) for s, h in zip(root.lists, c.positions, strict=True)) for c in found]
        assert len(held) == len(set(held))
        assert set(held) == expected
        for combination, selection in zip(found, held, strict=True):
            assert combination.cost == sum(
                form.costs[form.offsets[s] + h] for s, h in zip(root.lists, selection, strict=True)
            )


def test_costs_never_fall_in_any_stream() -> None:
    for settings in [LpMert(look_ahead=False), BARE]:
        for kind in KINDS:
            for seed in range(5):
                problem = Problem(random_lists(kind, seed, most_selections=100).nbest)
                form = problem.canonical
                if form.n_features == 0:
                    continue
                streams = tree(SavingTest(settings, form, dearest(problem)), form.n_lists)
                all_of(streams[-1])
                for stream in streams:
                    costs = [combination.cost for combination in stream.found]
                    assert costs == sorted(costs)
                    assert len({combination.positions.tobytes() for combination in stream.found}) == len(costs)


def swahili_set(name: str) -> lpmert.NBest:
    first, last = map(int, name.split(":"))
    return swahili().restrict(slice(first, last))


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tested"), [("0:8", (412, 4225, 64282, 116094)), ("24:32", (296, 3064, 40638, 48728))]
)
def test_without_additions_as_many_combinations_are_tested_as_by_another_program(
    name: str, tested: tuple[int, ...]
) -> None:
    """Counts of a plain prototype that shares no code; they may differ a little by the order among equal losses."""
    result = lpmert.minimize(swahili_set(name), method=BARE)
    assert result.loss == pytest.approx(OPTIMA[name], abs=1e-6)
    for length, count in zip((1, 2, 4, 8), tested, strict=True):
        assert result.counters[f"tested_{length}"] == pytest.approx(count, rel=0.01)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("n_lists", [1, 2, 3, 4])
def test_every_selection_is_found_or_in_one_open_prefix_at_any_moment(n_lists: int, lazy: bool) -> None:
    for seed in range(4):
        rng = np.random.default_rng([seed, n_lists])
        sizes = rng.integers(2, 5, n_lists)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        features = rng.permutation(60).astype(float)[: 2 * offsets[-1]].reshape(-1, 2)
        lists = Lists(features, offsets, np.asarray(rng.permutation(int(offsets[-1])), dtype=float))
        form = Problem(lists.nbest).canonical
        test = SavingTest(LpMert(look_ahead=False), form, Incumbent(INFINITE_COST // 4, np.ones(form.n_features), ""))
        streams = [OneList(s, test) for s in range(form.n_lists)]
        chain = rng.permutation(form.n_lists)
        root: Stream = streams[chain[0]]
        for s in chain[1:].tolist():
            root = TwoHalves(root, streams[s], test, lazy=lazy)
        place = [np.argsort(np.argsort(form.costs[a:b], kind="stable")) for a, b in pairwise(form.offsets)]
        attainable = {
            tuple(int(place[s][h]) for s, h in enumerate(selection))
            for selection in oracle.all_selections(form.features.tolist(), form.offsets.tolist())
        }
        costs = test.costs
        while True:
            parts = open_prefixes(root, streams, test, 0)
            found = {tuple(c.positions[np.argsort(root.lists)].tolist()) for c in root.found}
            assert found <= attainable
            for selection in attainable:
                held = [part for part in parts if holds(part.data, root.lists, selection)]
                assert len(held) == (selection not in found)
                cost = sum(int(costs[s, p]) for s, p in enumerate(selection))
                assert all(part.bound <= cost for part in held)
            if root.bound >= INFINITE_COST:
                break
            root.get_next_best()
        assert found == attainable
        assert not parts


def holds(part: Prefix, order: np.ndarray, selection: tuple[int, ...]) -> bool:
    depth = len(part.positions)
    chosen = np.array(selection)[order]
    return bool((chosen[:depth] == part.positions).all() and chosen[depth] >= part.following)


def test_a_cell_that_costs_more_than_its_bound_said_waits_for_its_turn() -> None:
    def found(*costs: int) -> list[Any]:
        return [SimpleNamespace(cost=cost) for cost in costs]

    left: Any = SimpleNamespace(lists=np.array([0]), found=found(0, 3), bound=9)
    right: Any = SimpleNamespace(lists=np.array([1]), found=found(0), bound=1)
    nothing: Any = None
    both = TwoHalves(left, right, nothing, lazy=True)
    assert both.best_in_frontier() == (0, 0)
    both.expand_frontier((0, 0))
    right.found += found(5)  # for another cell, as it may be
    assert both.bound == 1
    assert both.best_in_frontier() == (1, 0)
    assert both.best_in_frontier() == (0, 1)
