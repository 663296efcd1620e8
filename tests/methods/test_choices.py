"""The search over selections: the order of looking ahead changes no result; cores, questions and children lose none."""

from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np
import oracle
import pytest
from scipy.optimize import linprog

import lpmert
from lpmert import Status, core
from lpmert.errors import FloatArray
from lpmert.methods.choices.choices import Choices
from lpmert.numeric.lists import SortedLists, sorted_lists


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


def _core_search(lists: SortedLists, **options: str) -> Any:
    settings = Choices().configured(options).core_settings(1, cores=True)
    search = core.choices_search(lists.native(), None, 0, np.zeros(lists.rows.shape[1]), settings)
    search.aim(10**6, 1.0)
    return search


def test_cores_raise_bounds_by_no_more_than_their_lists_pay() -> None:
    """From nothing known on, all settings find the least; of some problems exact arithmetic tells it."""
    for seed in range(400):
        rng = np.random.default_rng(seed)
        width, n_lists, size = (int(rng.integers(*ends)) for ends in ((2, 5), (6, 16), (2, 5)))
        features = rng.normal(size=(n_lists * size, width))
        costs = rng.integers(0, int(rng.choice([2, 4, 9])), n_lists * size)
        offsets = np.arange(0, n_lists * size + 1, size)
        lists = sorted_lists(features, offsets, costs)
        found = set()
        for look_ahead, use_cores in product(("yes", "no"), repeat=2):
            search = _core_search(lists, look_ahead=look_ahead, use_cores=use_cores)
            assert search.search(10**8) == 2
            found.add(search.found[0])
        assert len(found) == 1, seed
        if seed % 40 == 0:
            assert found == {int(oracle.best_loss(oracle.Lists(features, offsets, costs.astype(float)), "first"))}


def _made(rows: FloatArray, choices: Iterable[Iterable[int]]) -> FloatArray | None:
    """Weights that make these choices [n, 2] of lists of three, rows [S, 3, D], with room around them."""
    leads = np.array([rows[s, h] - rows[s, other] for s, h in choices for other in range(3) if other != h])
    leads /= np.linalg.norm(leads, axis=1)[:, None]
    bounds = [(-1, 1)] * leads.shape[1] + [(0, 1)]
    limits = np.column_stack([-leads, np.ones(len(leads))])
    solved = linprog([0.0] * leads.shape[1] + [-1.0], A_ub=limits, b_ub=np.zeros(len(leads)), bounds=bounds)
    return solved.x[:-1] if solved.x is not None and solved.x[-1] > 1e-9 else None


def test_choices_that_no_doubles_make_are_left_out_and_nothing_else() -> None:
    """Two lists have their cheapest together only between two directions that are all but one."""
    unattainable, none = 0, np.empty((0, 2), dtype=np.int64)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        direction = rng.normal(size=3)
        features = rng.normal(size=(18, 3))
        features[0], features[1], features[2] = direction, 0.0, -0.5 * np.abs(direction)
        features[3], features[4] = np.nextafter(-direction, rng.choice([-9.0, 9.0], 3)), 0.0
        features[5] = -0.25 * np.abs(direction)
        costs = np.sort(rng.integers(0, 5, (6, 3)), axis=1)
        costs[:2] = [0, 2, 3]
        lists = sorted_lists(features, np.arange(0, 19, 3), costs.ravel())
        rows, search = lists.rows.reshape(6, 3, 3), _core_search(lists)
        while (state := search.search(10**6)) != 2:
            assert state == 1
            choices = search.question.tolist()
            if any([0, h] in choices and [1, h] in choices for h in (0, 1)):
                search.answer(np.empty(0), none)
                unattainable += 1
            elif (weights := _made(rows, choices)) is None:
                search.answer(np.empty(0), search.question)
            else:
                search.answer(weights, none)
        selections = sorted(product(range(3), repeat=6), key=lambda one: sum(costs[range(6), one]))
        least = next(one for one in selections if not one[0] == one[1] < 2 and _made(rows, enumerate(one)) is not None)
        assert search.found[0] == costs[range(6), least].sum(), seed
    assert unattainable > 4
