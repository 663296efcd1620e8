"""What is open in a chain of streams holds everything that it has not found, once; searches in units lose nothing."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import oracle
import pytest
from oracle import Lists

from lpmert.core import INFINITE_COST
from lpmert.methods.lp_mert.method import LpMert, Prefix, SavingTest, open_prefixes
from lpmert.methods.lp_mert.streams import OneList, Stream, TwoHalves
from lpmert.model.problem import Problem
from lpmert.search.method import Incumbent

pytestmark = pytest.mark.usefixtures("poor_start")


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
