"""LP-MERT: its streams, the paper's algorithm program by program, and the beam; nothing is proved without a proof."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise, product
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import oracle
import pytest
from oracle import Lists, best_loss, loss_of
from problems import KINDS, gaussian_lists, random_lists
from scipy.optimize import linprog
from searches import many_more
from shared import needs_shared, swahili

import lpmert
from lpmert import Problem, Status
from lpmert.core import INFINITE_COST
from lpmert.methods import Beam, Incumbent, LpMert, Task
from lpmert.methods.lp_mert import (
    BeamSearch,
    Combinations,
    LpMertSearch,
    PublishedSearch,
    Stream,
    TwoHalves,
    best_of_pairs,
)
from lpmert.search.incumbent import first_incumbent

pytestmark = pytest.mark.usefixtures("poor_start")

SWITCHES = ("look_ahead", "lazy", "chain")
BARE = LpMert(**dict.fromkeys(SWITCHES, False))


def streams_of(settings: LpMert, problem: Problem) -> list[Stream]:
    """All streams of a balanced tree over the lists in order, the root last, with all that they hold.

    Every selection undercuts the first incumbent, so that nothing is left out for its cost.
    """
    form = problem.canonical
    search = LpMertSearch(settings, form, Incumbent(INFINITE_COST // 4, np.ones(form.n_features), ""))
    root = search.balanced_tree(search.lists)
    while root.bound < INFINITE_COST:
        root.get_next_best(search)
    return [*search.lists, *search.joined]


@pytest.mark.parametrize("n_lists", range(1, 8))
@pytest.mark.parametrize("lazy", [False, True])
def test_the_root_holds_every_attainable_selection_once(n_lists: int, lazy: bool) -> None:
    for seed in range(6):
        rng = np.random.default_rng([seed, n_lists])
        offsets = np.cumsum([0, *rng.integers(2, 5 if n_lists < 5 else 3, n_lists)])
        features = rng.permutation(60).astype(float)[: 2 * offsets[-1]].reshape(-1, 2)
        problem = Problem(Lists(features, offsets, rng.permutation(int(offsets[-1])).astype(float)).nbest)
        form = problem.canonical
        root = streams_of(replace(BARE, lazy=lazy), problem)[-1]
        order = [np.argsort(form.costs[a:b], kind="stable") for a, b in pairwise(form.offsets)]
        held = {}
        for one in root.found:
            selection = [int(order[s][h]) for s, h in zip(root.lists, one.positions, strict=True)]
            held[tuple(selection)] = one.cost
            assert one.cost == form.costs[form.offsets[root.lists] + selection].sum()
        assert len(held) == len(root.found)
        assert held.keys() == oracle.all_selections(form.features.tolist(), form.offsets.tolist())


@pytest.mark.parametrize("settings", [LpMert(look_ahead=False), BARE], ids=["lazy", "bare"])
def test_costs_never_fall_in_any_stream(settings: LpMert) -> None:
    for kind, seed in product(KINDS, range(5)):
        problem = Problem(random_lists(kind, seed, most_selections=100).nbest)
        for stream in streams_of(settings, problem) if problem.canonical.n_features else ():
            costs = [combination.cost for combination in stream.found]
            assert costs == sorted(costs)
            assert len({combination.positions.tobytes() for combination in stream.found}) == len(costs)


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "optimum", "tested"),
    [(0, 4.948169, (412, 4225, 64282, 116094)), (24, 5.890797, (296, 3064, 40638, 48728))],
)
def test_as_many_combinations_are_tested_as_by_a_prototype(first: int, optimum: float, tested: tuple[int, ...]) -> None:
    """Counts of a plain prototype that shares no code; they may differ a little by the order among equal losses."""
    result = lpmert.minimize(swahili().restrict(slice(first, first + 8)), method=BARE)
    assert result.loss == pytest.approx(optimum, abs=1e-6)
    for length, count in zip((1, 2, 4, 8), tested, strict=True):
        assert result.counters[f"tested_{length}"] == pytest.approx(count, rel=0.01)


def test_a_cell_that_costs_more_than_its_bound_said_waits_for_its_turn() -> None:
    none, three, five = (SimpleNamespace(cost=cost) for cost in (0, 3, 5))
    left: Any = SimpleNamespace(lists=np.array([0]), found=[none, three], bound=9)
    right: Any = SimpleNamespace(lists=np.array([1]), found=[none], bound=1)
    nothing: Any = None
    both = TwoHalves(left, right, lazy=True)
    assert both.best_in_frontier(nothing) == (0, 0)
    both.expand_frontier((0, 0))
    right.found.append(five)  # for another cell, as it may be
    assert [both.bound, both.best_in_frontier(nothing), both.best_in_frontier(nothing)] == [1, (1, 0), (0, 1)]


@pytest.mark.parametrize("kind", ["floats", "integers", "collinear", "decimals", "multiples"])
def test_a_beam_that_holds_all_combinations_finds_the_least_loss(kind: str) -> None:
    for seed in range(20):
        lists = random_lists(kind, seed, most_selections=200)
        result = lpmert.minimize(lists.nbest, method=Beam(beam=200))
        assert result.loss == pytest.approx(float(best_loss(lists)), abs=1e-12 * np.abs(lists.losses).sum())
        assert result.counters.get("pruned", 0) == 0


def test_the_weights_never_get_worse_and_passes_end_when_they_stay() -> None:
    better = 0
    for seed in range(12):
        problem = Problem(gaussian_lists(seed, lists=12, hypotheses=15, features=4).nbest)
        incumbent = first_incumbent(problem, seed, None)
        search, costs = BeamSearch(30, problem.canonical, incumbent), [incumbent.cost]
        while not search.finished:
            search.advance()
            costs.append(incumbent.cost)
        assert costs == sorted(costs, reverse=True)
        better += costs[-1] < costs[0]
        assert search.counters()["passes"] == 1 or costs[-1] < costs[0]
        weights = np.random.default_rng(seed).normal(size=problem.canonical.n_features)
        result = lpmert.minimize(problem.nbest, method=Beam(beam=5), initial_weights=weights)
        assert result.loss <= problem.evaluate(weights).loss
    assert better


def test_the_best_pairs_are_those_of_all_pairs() -> None:
    rng = np.random.default_rng(3)
    for sizes in ((1, 1), (4, 7), (30, 20), (50, 1)):
        drawn = ((rng.integers(-9, 9, n), rng.integers(0, 99, n), rng.normal(size=(n, 2))) for n in sizes)
        left, right = (Combinations(-np.sort(scores.astype(float)), *rest) for scores, *rest in drawn)
        every = np.sort(np.add.outer(left.scores, right.scores).ravel())[::-1]
        both = product(zip(*left, strict=True), zip(*right, strict=True))
        pairs = {(a + b, c + d, *(r + s)) for (a, c, r), (b, d, s) in both}
        for beam in (1, 2, 5, 17, 10**4):
            found = best_of_pairs(left, right, beam)
            assert found.scores.tolist() == every[:beam].tolist()
            assert {(a, c, *r) for a, c, r in zip(*found, strict=True)} <= pairs


PUBLISHED = LpMert(published=True)

Found = tuple[int, dict[int, int]]  # a cost, and the hypothesis chosen from each list


class Paper:
    """Algorithms 1 and 2 from the pseudo-code of Galley and Quirk (2011); shares no code with the package.

    points: the vectors [N, D] of each list; costs: those of their hypotheses. programs: by number of lists.
    """

    def __init__(self, points: list[np.ndarray], costs: list[np.ndarray]) -> None:
        self.points, self.costs, self.programs = points, costs, Counter[int]()

    def extreme(self, chosen: dict[int, int]) -> bool:
        """LinOptimizer over the sparse set: the combination, and all that differ from it in one list."""
        self.programs[len(chosen)] += 1
        here = sum(self.points[s][n] for s, n in chosen.items())
        others = [here - self.points[s][n] + np.delete(self.points[s], n, axis=0) for s, n in chosen.items()]
        points = np.vstack([here, *others])
        answer = linprog(points.mean(axis=0) - here, A_ub=points - here, b_ub=np.zeros(len(points)), bounds=(-1, 1))
        return answer.status == 0 and float(here @ answer.x - points.mean(axis=0) @ answer.x) > 1e-9

    def single(self, s: int) -> Iterator[Found]:
        """Algorithm 1."""
        for n in np.argsort(self.costs[s], kind="stable").tolist():
            if self.extreme({s: n}):
                yield int(self.costs[s][n]), {s: n}

    def combined(self, s: int, t: int) -> Iterator[Found]:
        """Algorithm 2."""
        u = (s + t) // 2
        left, right = remembered(self.stream(s, u)), remembered(self.stream(u + 1, t))
        frontier, visited = {(0, 0)}, set()
        while True:
            costs = {}
            for m, n in sorted(frontier):
                first, second = left(m), right(n)
                if first is not None and second is not None:
                    costs[first[0] + second[0], m, n] = {**first[1], **second[1]}
            if not costs:
                return
            cost, m, n = min(costs)
            visited.add((m, n))
            if self.extreme(costs[cost, m, n]):
                yield cost, costs[cost, m, n]
            frontier = (frontier | {(m, n + 1), (m + 1, n)}) - visited

    def stream(self, s: int, t: int) -> Iterator[Found]:
        return self.single(s) if s == t else self.combined(s, t)


def remembered(stream: Iterator[Found]) -> Callable[[int], Found | None]:
    """What a stream yields, by rank; `None` after its end."""
    found: list[Found] = []

    def at(rank: int) -> Found | None:
        found.extend(islice(stream, max(0, rank + 1 - len(found))))
        return found[rank] if rank < len(found) else None

    return at


def assert_as_in_the_paper(problem: Problem) -> None:
    form = problem.canonical
    paper = Paper(*(np.split(own, form.offsets[1:-1]) for own in (form.features, form.costs)))
    first = next(paper.stream(0, form.n_lists - 1), None)
    search = PublishedSearch(problem)
    while not search.finished:
        search.advance()
    counters = search.counters()
    tested = {n: counters[f"tested_{n}"] for n in range(1, form.n_lists + 1) if f"tested_{n}" in counters}
    assert tested == dict(paper.programs)
    assert search.lps == search.nodes == paper.programs.total()
    accepted = [(one.cost, len(one.positions)) for one in search._root.found]
    assert accepted == ([] if first is None else [(first[0], form.n_lists)])


@pytest.mark.parametrize("n_lists", [3, 4, 5, 6, many_more(7), many_more(8)])
def test_as_many_programs_of_each_length_as_by_the_pseudo_code(n_lists: int) -> None:
    programs = 0
    for seed in range(3):
        rng = np.random.default_rng([seed, n_lists])
        features, losses = rng.normal(size=(6 * n_lists, 2 + seed)), rng.integers(0, 9, 6 * n_lists)
        problem = Problem(lpmert.NBest(features, np.arange(0, 6 * n_lists + 1, 6), losses))
        assert problem.canonical.n_lists == n_lists
        assert_as_in_the_paper(problem)
        programs += lpmert.minimize(problem.nbest, method=PUBLISHED).counters["lps"]
    assert programs > 3 * (2 * n_lists - 1)  # more than the first combination of every node


@pytest.mark.parametrize("kind", ["integers", "lattice", "multiples"])
def test_as_many_programs_where_many_combinations_are_only_tied(kind: str) -> None:
    for seed in range(12):
        problem = Problem(random_lists(kind, seed, most_lists=5, most_features=3, most_selections=200).nbest)
        if problem.canonical.n_features:
            assert_as_in_the_paper(problem)


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "last", "width"), [(4, 8, 13), (8, 12, 13), *((0, n, 5) for n in range(3, 7)), (0, 7, 2), (0, 8, 2)]
)
def test_as_many_programs_on_translations(first: int, last: int, width: int) -> None:
    lists = swahili().restrict(slice(first, last))
    cut = lpmert.NBest(lists.dense_features()[:, :width], lists.offsets, lists.statistics)
    assert_as_in_the_paper(Problem(cut))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_called_optimal_is(kind: str) -> None:
    proved = 0
    for seed in range(10):
        lists = random_lists(kind, seed, most_selections=200)
        least, slack = float(best_loss(lists)), 1e-12 * np.abs(lists.losses).sum()
        for limit in (None, 5):
            result = lpmert.minimize(lists.nbest, method=PUBLISHED, node_limit=limit)
            assert result.loss == pytest.approx(float(loss_of(lists, result.selection)))
            assert result.status is not Status.OPTIMAL or result.loss == pytest.approx(least, abs=slack)
            assert result.status is not Status.HEURISTIC or result.lower_bound is None
            assert result.lower_bound is None or result.lower_bound <= least + slack
            proved += result.status is Status.OPTIMAL
    assert proved or kind == "lattice"


@pytest.mark.parametrize(
    ("features", "losses", "tested", "loss"),
    [
        # The cheapest hypothesis lies in the middle of the upper edge of a triangle.
        ([[1.0, 1.0], [0.0, 1.0], [2.0, 1.0], [1.0, 0.0]], [0.0, 2.0, 3.0, 5.0], 1, None),
        # The cheapest one stands out of the line through the others by 1e-11.
        ([[1.0, 1.0 + 1e-11], [0.0, 0.0], [2.0, 2.0]], [0.0, 1.0, 1.0], 2, 1.0),
    ],
    ids=["a point inside an edge", "an optimum that the program refuses within its tolerance"],
)
def test_what_ends_the_search_too_early_proves_nothing(features: Any, losses: Any, tested: int, loss: Any) -> None:
    nbest = lpmert.NBest(features, [0, len(losses)], losses)
    published = lpmert.minimize(nbest, method=PUBLISHED)
    said = published.counters["tested_1"], published.status, published.lower_bound
    assert said == (tested, Status.HEURISTIC, None)
    assert published.loss == losses[published.selection[0]] >= 1.0
    assert loss in (None, published.loss)


def test_no_first_weights_are_searched_for_and_no_witness_improves_on_the_first_combination() -> None:
    lists = random_lists("floats", 3, most_selections=400)
    problem = Problem(lists.nbest)
    find = MagicMock(wraps=partial(first_incumbent, problem, 0, None))
    search = PUBLISHED.start(Task(problem, problem.canonical, find))
    assert isinstance(search, PublishedSearch)
    before = search.incumbent.cost
    while not search.finished:
        assert search.incumbent.cost == before
        search.advance()
    find.assert_not_called()


def test_within_a_cosine_the_paper_looks_at_the_nearest_weights_of_a_box_only() -> None:
    """A cell may reach into the cap although the weights that the paper looks at do not: then nothing is proved."""
    for seed in range(10):
        nbest = random_lists("floats", seed, most_features=3, most_selections=200).nbest
        region = lpmert.Region(cosine=0.8, around=dict.fromkeys(nbest.names, 1.0))
        exact, published = (lpmert.minimize(nbest, region=region, method=method) for method in (LpMert(), PUBLISHED))
        assert published.loss >= exact.loss
        assert published.loss == exact.loss if published.status is Status.OPTIMAL else published.lower_bound is None
    # The second hypothesis wins at the centre (2, 1), but its corner of the box is (1, 1), outside of the cap.
    missed = lpmert.NBest(np.array([[0.0, 0.0], [-0.268, 1.0]]), [0, 2], [1.0, 0.0])
    region = lpmert.Region(cosine=0.96, around={"feature1": 2.0, "feature2": 1.0})
    result = lpmert.minimize(missed, region=region, method=PUBLISHED)
    assert (result.status, result.lower_bound, result.counters["tested_1"]) == (Status.HEURISTIC, None, 2)


def test_a_ratio_is_refused() -> None:
    counted = lpmert.NBest(np.eye(3), [0, 3], [[1, 2, 2], [0, 1, 2], [2, 3, 2]])
    with pytest.raises(lpmert.MethodError, match="published=True takes a sum of losses"):
        lpmert.minimize(counted, metric="f1", method=PUBLISHED)
