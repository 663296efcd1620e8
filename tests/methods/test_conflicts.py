"""Conflicts of lists in a cone charge no more than what any weights in it cost, however near to a tie."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from nodes import core_search
from oracle import Lists, exact_cost
from problems import KINDS, random_lists

import lpmert
from lpmert.core import one_pays
from lpmert.errors import FloatArray
from lpmert.methods.cells.cells import Cells
from lpmert.methods.cells.nodes import whole_cone
from lpmert.model.problem import Problem
from lpmert.numeric.lists import SortedLists


def random_rays(rng: np.random.Generator, n_features: int) -> FloatArray:
    """The rays of an orthant, or of a cone within it after some splits at midpoints."""
    rays = np.diag(rng.choice([-1.0, 1.0], n_features))
    for _ in range(int(rng.integers(0, 12)) if n_features > 1 else 0):
        p, q = rng.choice(n_features, 2, replace=False)
        rays[p] = 0.5 * (rays[p] + rays[q])
    return rays


def bound_of(lists: SortedLists, rays: FloatArray) -> int:
    """How far conflicts raise the bound of a cone, asked for more and more."""
    search = core_search(lists, boxed=False)
    search.push(whole_cone(lists, rays, np.empty(0)))
    bound = 0
    while (more := search.conflicts(bound)) > bound:
        bound = more
    return bound


def points_inside(rng: np.random.Generator, rays: FloatArray, count: int) -> list[list[Fraction]]:
    """Random points of a cone in exact numbers, some of them close to a ray or a face."""
    exact = [[Fraction(x) for x in ray] for ray in rays.tolist()]
    found = []
    for _ in range(count):
        shares = [int(x) for x in rng.integers(1, 1000, len(rays)) * 10 ** rng.integers(0, 6, len(rays))]
        found.append(
            [sum((x * ray[d] for x, ray in zip(shares, exact, strict=True)), Fraction(0)) for d in range(len(rays))]
        )
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_conflicts_never_charge_more_than_any_weights_of_the_cone_cost(kind: str) -> None:
    tried = raised = 0
    for seed in range(500, 512):
        lists = Problem(random_lists(kind, seed, most_features=4).nbest).canonical.by_cost
        if not len(lists.costs):
            continue
        rng = np.random.default_rng(seed)
        for _ in range(4):
            rays = random_rays(rng, lists.rows.shape[1])
            bound = bound_of(lists, rays)
            raised += bound > 0
            for point in points_inside(rng, rays, 8):
                cost = exact_cost(lists, point)
                tried += cost is not None
                assert cost is None or bound <= cost, (kind, seed, rays.tolist(), point)
    assert tried > 50
    assert raised or kind == "idle columns"


def test_conflicts_find_much_of_what_opposite_lists_cost() -> None:
    """Lists {x, -x} of random x, of which the first is free, that a narrow cone leaves open."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3)) * [0.01, 1.0, 1.0]
    features = np.stack([rows, -rows], axis=1).reshape(120, 3)
    nbest = lpmert.NBest(features=features, offsets=np.arange(0, 121, 2), statistics=np.tile([0.0, 1.0], 60))
    lists = Problem(nbest).canonical.by_cost
    rays = np.array([[1.0, 0.0625, 0.0], [1.0, 0.0, 0.0625], [1.0, -0.0625, -0.0625]])
    least = min(cost for point in points_inside(rng, rays, 200) if (cost := exact_cost(lists, point)) is not None)
    assert 0.4 * least <= bound_of(lists, rays) <= least


def test_two_lists_that_want_opposite_weights_cost_the_smaller_step() -> None:
    features = np.array([[1.0, -2.0], [-1.0, 2.0], [-1.5, 2.0], [1.5, -2.0]])
    nbest = lpmert.NBest(features=features, offsets=[0, 2, 4], statistics=[0.0, 5.0, 0.0, 3.0])
    lists = Problem(nbest).canonical.by_cost
    # Between w1 = 4/3 w2 and w1 = 2 w2 both pay, beyond these one does.
    assert bound_of(lists, np.eye(2)) == 3
    assert bound_of(lists, -np.eye(2)) == 0  # there both have their cheapest in between
    costs = {exact_cost(lists, [Fraction(x, 10), Fraction(1)]) for x in range(1, 100)}
    assert costs - {None} == {3, 8, 5}


def test_several_cheapest_hypotheses_must_all_be_beaten() -> None:
    cheapest = [[0.0, 0.0], [1.5, -3.0]]  # the second wins near the first ray
    rows = np.array([*cheapest, [1.0, -1.0], [0.0, 0.0], [-0.75, 0.875]])
    lists = Problem(Lists(rows, np.array([0, 3, 5]), np.array([0.0, 0.0, 1.0, 0.0, 1.0])).nbest).canonical.by_cost
    raw = lists._replace(rows=rows, offsets=np.array([0, 3, 5]), costs=np.array([0, 0, 1, 0, 1]))
    assert exact_cost(raw, [Fraction(10), Fraction(1)]) == 0
    assert bound_of(raw, np.eye(2)) == 0
    alone = raw._replace(rows=np.delete(rows, 1, axis=0), offsets=np.array([0, 2, 4]), costs=np.array([0, 1, 0, 1]))
    assert exact_cost(alone, [Fraction(10), Fraction(1)]) == 1
    assert bound_of(alone, np.eye(2)) == 1


def test_a_sum_at_the_edge_of_rounding_does_not_count() -> None:
    """Random gains that cancel each other but for a few ulps: what counts is true, what is rounded up is there."""
    rng = np.random.default_rng(0)
    none = np.zeros(1)
    counted = misled = 0
    for _ in range(4000):
        first, share, other = rng.normal(), rng.random(), rng.random()
        second = -(share * first) / other
        second += int(rng.integers(-6, 7)) * float(np.spacing(second))
        true = Fraction(share) * Fraction(first) + Fraction(other) * Fraction(second)
        counts = one_pays(np.array([first]), np.array([second]), share, other, none)
        assert true >= 0 or not counts
        counted += counts
        misled += share * first + other * second >= 0.0 > true
    assert counted > 100  # most of those that are clear do
    assert misled > 100  # without the tolerance these would have counted


@pytest.mark.parametrize("share", [1.0, 0.25, 2.0**-60])
def test_errors_of_scores_are_taken_off(share: float) -> None:
    """A lead within what four scores may be off together is none; a little more is one."""
    error = 2.0**-40
    edge = 2.0 * error * (share + 1.0)
    for lead, counts in ((0.999 * edge, False), (1.001 * edge, True)):
        first, second = np.array([1.0, 1.0]), np.array([lead - share, 1.0])
        assert one_pays(first, second, share, 1.0, np.array([error, 0.0])) == counts
    assert one_pays(np.zeros(1), np.zeros(1), share, 1.0, np.zeros(1))  # nothing is rounded: neither leads, but loses
    assert not one_pays(np.zeros(1), np.zeros(1), share, 1.0, np.array([5e-324]))


@pytest.mark.parametrize(("first", "second"), [(np.inf, 1.0), (np.nan, 1.0), (1e308, 1e308), (np.inf, -np.inf)])
def test_what_is_no_number_or_overflows_is_no_lead(first: float, second: float) -> None:
    assert not one_pays(np.array([first]), np.array([second]), 1.0, 1.0, np.zeros(1))


def test_conflicts_close_cones_and_save_nodes() -> None:
    rng = np.random.default_rng(5)
    features = rng.normal(size=(60 * 10, 4))
    losses = np.clip(np.rint(2.0 - features @ [1.0, -0.5, 0.25, 0.5] + rng.normal(size=600)), 0, 8)
    nbest = lpmert.NBest(features=features, offsets=np.arange(0, 601, 10), statistics=losses)
    with_conflicts, without = (lpmert.minimize(nbest, method=Cells(conflict_lists=n)) for n in (4000, 0))
    assert with_conflicts.loss == without.loss == with_conflicts.lower_bound
    assert with_conflicts.counters["conflicting"] > 100
    assert without.counters["conflicting"] == 0
    assert 2 * with_conflicts.counters["nodes"] < without.counters["nodes"]
