"""LP-MERT finds the least loss with every switch on or off, and its streams hold what the published ones must hold."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from math import prod

import numpy as np
import oracle
import pytest
from scipy.optimize import linprog
from shared import needs_shared, swahili
from strategies import KINDS, Lists, best_loss, loss_of, many_more, random_lists
from tolerance import Tolerated

import lpmert
from lpmert import Status
from lpmert.core import INFINITE_COST
from lpmert.errors import IntArray
from lpmert.methods.divide.combination import Combination, Screen
from lpmert.methods.divide.cores import Cores
from lpmert.methods.divide.divide import LpMert
from lpmert.methods.divide.pairing import neighbours, pair_by_conflict
from lpmert.methods.divide.search import DivideSearch
from lpmert.methods.divide.streams import OneList, Stream, TwoHalves
from lpmert.methods.divide.witnesses import Witnesses
from lpmert.model.problem import Problem
from lpmert.search.method import Incumbent

pytestmark = pytest.mark.usefixtures("poor_start")

SWITCHES = ("row_generation", "use_witnesses", "use_cores", "look_ahead", "lazy", "chain")
BARE = LpMert(**dict.fromkeys(SWITCHES, False))
SETTINGS = [
    LpMert(),
    *(replace(LpMert(), **{switch: False}) for switch in SWITCHES),
    *(replace(BARE, **{switch: True}) for switch in SWITCHES),
    BARE,
    LpMert(chain=False, pair=True),
    LpMert(chain=False, pair=True, sampled=0),
    replace(BARE, pair=True, sampled=3),
    LpMert(lp="highs"),
    LpMert(lp="highs", row_generation=False, look_ahead=False),
]
OPTIMA = {"0:8": 4.948169, "8:16": 4.641196, "16:24": 5.091451, "24:32": 5.890797}  # proved by the floor prototypes


def dearest(problem: Problem) -> Incumbent:
    """Weights with a cost that every selection undercuts, so that nothing is left out for its cost."""
    return Incumbent(INFINITE_COST // 4, np.ones(problem.canonical.n_features), "")


def all_of(stream: Stream) -> list[Combination]:
    while stream.bound < INFINITE_COST:
        stream.get_next_best()
    return stream.found


def tree(screen: Screen, n_lists: int, *, lazy: bool = True) -> list[Stream]:
    """All streams of a tree over the lists in order, the root last."""
    level: list[Stream] = [OneList(s, screen) for s in range(n_lists)]
    streams = list(level)
    while len(level) > 1:
        level = neighbours(level, lambda left, right: TwoHalves(left, right, screen, lazy=lazy))
        streams += [stream for stream in level if stream not in streams]
    return streams


@pytest.mark.parametrize(("seeds", "most"), [(range(8), 200), many_more(range(2000, 2050), 300)])
@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_finds_the_least_loss_and_proves_it(kind: str, seeds: range, most: int) -> None:
    tolerated = Tolerated(kind)
    for seed in seeds:
        lists = random_lists(kind, seed, most_selections=most)
        least = best_loss(lists)
        for method in SETTINGS:
            tolerated.assert_least(lpmert.minimize(lists.nbest, method=method), lists, least)
    tolerated.assert_rare()


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
        screen = Screen(replace(BARE, lazy=lazy), form, dearest(problem))
        root = tree(screen, form.n_lists, lazy=lazy)[-1]
        found = all_of(root)
        costs = [combination.cost for combination in found]
        assert costs == sorted(costs)
        expected = oracle.all_selections(form.features.tolist(), form.offsets.tolist())
        order = [np.argsort(form.costs[a:b], kind="stable") for a, b in pairwise(form.offsets)]
        held = [tuple(int(order[s][h]) for s, h in zip(root.part, c.positions, strict=True)) for c in found]
        assert len(held) == len(set(held))
        assert set(held) == expected
        for combination, selection in zip(found, held, strict=True):
            assert combination.cost == sum(
                form.costs[form.offsets[s] + h] for s, h in zip(root.part, selection, strict=True)
            )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [LpMert(look_ahead=False), BARE], ids=["saving", "bare"])
def test_costs_never_fall_in_any_stream(kind: str, settings: LpMert) -> None:
    for seed in range(5):
        problem = Problem(random_lists(kind, seed, most_selections=100).nbest)
        form = problem.canonical
        if form.n_features == 0:
            continue
        streams = tree(Screen(settings, form, dearest(problem)), form.n_lists)
        all_of(streams[-1])
        for stream in streams:
            costs = [combination.cost for combination in stream.found]
            assert costs == sorted(costs)
            assert len({combination.positions.tobytes() for combination in stream.found}) == len(costs)


class Recorder:
    """Passes questions on, and keeps what was asked of each part and what was refused."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.lists = screen.lists
        self.asked: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        self.refused: set[frozenset[tuple[int, int]]] = set()

    def decide(
        self,
        part: IntArray,
        cost: int,
        positions: IntArray,
        halves: tuple[Combination, Combination] | None = None,
    ) -> Combination | None:
        choices = frozenset(zip(part.tolist(), positions.tolist(), strict=True))
        assert not any(core <= choices for core in self.refused), "a dropped combination is part of this one"
        self.asked.setdefault(tuple(part.tolist()), []).append(tuple(positions.tolist()))
        answer = self.screen.decide(part, cost, positions, halves)
        if answer is None:
            self.refused.add(choices)
        return answer


@pytest.mark.parametrize("kind", ["generic", "integers", "binary", "parallel"])
def test_nothing_is_asked_twice_and_what_is_dropped_low_never_comes_up_again(kind: str) -> None:
    for seed in range(12):
        problem = Problem(random_lists(kind, seed, most_lists=5, most_selections=150).nbest)
        form = problem.canonical
        if form.n_features == 0:
            continue
        recorder = Recorder(Screen(BARE, form, dearest(problem)))
        level: list[Stream] = [OneList(s, recorder) for s in range(form.n_lists)]
        while len(level) > 1:
            level = neighbours(level, lambda left, right: TwoHalves(left, right, recorder, lazy=False))  # noqa: B023
        all_of(level[0])
        sizes = np.diff(form.offsets)
        for part, positions in recorder.asked.items():
            assert len(positions) == len(set(positions)) <= prod(int(sizes[s]) for s in part)


@pytest.mark.parametrize("kind", KINDS)
def test_no_more_combinations_are_tested_than_there_are(kind: str) -> None:
    for seed in range(12):
        lists = random_lists(kind, seed)
        result = lpmert.minimize(lists.nbest, method=BARE)
        counters = result.counters
        if counters["canonical_features"] == 0:
            continue
        assert counters["nodes"] == sum(count for name, count in counters.items() if name.startswith("tested_"))
        if counters["canonical_lists"] > 1:
            assert counters.get(f"tested_{counters['canonical_lists']}", 0) <= counters["combinations"]
        assert counters["lps"] == counters["nodes"]


@pytest.mark.parametrize("kind", ["generic", "integers", "collinear", "real losses"])
def test_one_list_gives_the_first_extreme_hypothesis_in_order_of_loss(kind: str) -> None:
    for seed in range(25):
        rng = np.random.default_rng([seed, 1])
        made, losses = KINDS[kind](rng, np.array([0, 12]), int(rng.integers(2, 4)))
        features = np.unique(made, axis=0)
        losses = losses[: len(features)]
        lists = Lists(features, np.array([0, len(features)]), losses)
        exact = [tuple(map(Fraction, row)) for row in features.tolist()]
        for h in np.argsort(losses, kind="stable"):
            rows = [tuple(a - b for a, b in zip(exact[h], o, strict=True)) for i, o in enumerate(exact) if i != h]
            if not rows or oracle.strictly_feasible(rows):
                break
        result = lpmert.minimize(lists.nbest, method=BARE)
        assert result.loss == losses[h]
        if result.counters["canonical_features"]:
            assert {name for name in result.counters if name.startswith("tested_")} <= {"tested_1"}


def inside_an_edge() -> Lists:
    """The cheapest hypothesis lies in the middle of the upper edge of a triangle."""
    features = np.array([[1.0, 1.0], [0.0, 1.0], [2.0, 1.0], [1.0, 0.0]])
    return Lists(features, np.array([0, 4]), np.array([0.0, 2.0, 3.0, 5.0]))


def test_the_published_objective_takes_a_point_inside_an_edge_and_does_not_claim_its_loss() -> None:
    lists = inside_an_edge()
    strict = lpmert.minimize(lists.nbest, method=LpMert())
    assert (strict.loss, strict.lower_bound, strict.status) == (2.0, 2.0, Status.OPTIMAL)
    published = lpmert.minimize(lists.nbest, method=LpMert(objective="published"))
    assert published.lower_bound == 0.0  # what weak extremity accepts
    assert published.loss == 2.0  # what decoding with the weights gives
    assert published.loss == float(loss_of(lists, published.selection))
    assert published.status is Status.OPTIMAL_TO_TOLERANCE


def weakly_attainable(rows: np.ndarray) -> bool:
    """Whether w.(h - centroid) can be positive with w.(h - h_j) >= 0 for all j."""
    answer = linprog(-rows.sum(axis=0), A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=(-1, 1), method="highs")
    return bool(answer.status == 0 and answer.fun < -1e-6)


@pytest.mark.parametrize("kind", ["integers", "binary", "parallel"])
def test_the_published_bound_is_the_least_loss_that_its_linear_program_accepts(kind: str) -> None:
    differ = 0
    for seed in range(40):
        problem = Problem(random_lists(kind, seed, most_lists=4, most_features=3, most_selections=60).nbest)
        form = problem.canonical
        if form.n_features == 0:
            continue
        ranges = list(pairwise(form.offsets.tolist()))
        weak = []
        for choice in product(*(range(a, b) for a, b in ranges)):
            rows = np.concatenate(
                [
                    np.delete(form.features[h] - form.features[a:b], h - a, axis=0)
                    for h, (a, b) in zip(choice, ranges, strict=True)
                ]
            )
            if weakly_attainable(rows):
                weak.append(int(form.costs[list(choice)].sum()))
        for settings in (LpMert(objective="published"), replace(BARE, objective="published")):
            published = lpmert.minimize(problem.nbest, method=settings)
            assert published.lower_bound == form.loss_of(min(weak))
        strict = lpmert.minimize(problem.nbest, method=LpMert())
        assert published.loss == strict.loss
        differ += published.status is not strict.status
    assert differ or kind != "integers"


def test_bounds_hold_at_any_time_and_never_fall() -> None:
    for seed in range(10):
        lists = random_lists("generic", seed, most_selections=400)
        problem = Problem(lists.nbest)
        form = problem.canonical
        if form.n_features == 0:
            continue
        optimum = lpmert.minimize(lists.nbest, method="exhaustive").loss
        search = DivideSearch(LpMert(look_ahead=False), form, dearest(problem))
        bounds = [search.lower_bound]
        while not search.finished:
            if search.root is None:
                search.advance()
            else:
                search.root.get_next_best()
                search._take(search.root)
            assert form.loss_of(search.lower_bound) <= optimum <= form.loss_of(search.incumbent.cost)
            bounds.append(search.lower_bound)
        assert bounds == sorted(bounds)
        assert form.loss_of(search.incumbent.cost) == optimum


def hard() -> lpmert.NBest:
    rng = np.random.default_rng(3)
    return lpmert.NBest(rng.normal(size=(400, 8)), np.arange(0, 401, 50), rng.random((400, 1)))


@pytest.mark.parametrize(
    "method", [LpMert(), LpMert(chain=False, pair=True), LpMert(lp="highs")], ids=["plain", "pair", "highs"]
)
def test_limits_leave_a_valid_bound(method: LpMert) -> None:
    stopped = lpmert.minimize(hard(), method=method, node_limit=50)
    assert stopped.status is Status.NODE_LIMIT
    assert stopped.lower_bound is not None
    assert stopped.lower_bound <= lpmert.minimize(hard()).loss <= stopped.loss
    assert lpmert.minimize(hard(), method=method, time_limit=0).status is Status.TIME_LIMIT


def test_the_same_settings_count_the_same() -> None:
    lists = random_lists("generic", 5).nbest
    first, second = (lpmert.minimize(lists, method=LpMert(chain=False, pair=True)) for _ in range(2))
    assert first.counters == second.counters
    assert first.weights.tolist() == second.weights.tolist()


def test_lists_that_contradict_each_other_are_paired() -> None:
    """Lists 0 and 2 want opposite signs of the first weight, lists 1 and 3 of the second."""
    features = np.array([[0, 0], [1, 0], [0, 0], [0, 1], [0, 0], [-2, 0], [0, 0], [0, -2]], dtype=float)
    features = np.column_stack([features, [0, 3, 0, 5, 0, 0, 0, 0]])
    features[5] = [-1, 0, -3]
    features[7] = [0, -1, -5]
    losses = np.array([1.0, 0.0] * 4)
    rows = np.insert(features, [1, 3, 5, 7], [[9, 9, 1], [9, -9, 1], [-9, 9, 1], [-9, -9, 1]], axis=0)
    problem = Problem(Lists(rows, np.arange(0, 13, 3), np.insert(losses, [1, 3, 5, 7], 5.0)).nbest)
    screen = Screen(LpMert(look_ahead=False), problem.canonical, dearest(problem))
    streams: list[Stream] = [OneList(s, screen) for s in range(4)]
    planting = pair_by_conflict(streams, lambda left, right: TwoHalves(left, right, screen, lazy=True), 30)
    while True:
        try:
            next(planting)
        except StopIteration as end:
            level = end.value
            break
    assert [stream.part.tolist() for stream in level] == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"objective": "mean"}, "margin, published"),
        ({"lp": "cplex"}, "least-norm, highs"),
        ({"sampled": -1}, "sampled"),
    ],
)
def test_wrong_settings_are_named_with_what_is_allowed(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(lpmert.MethodError, match=message):
        LpMert(**wrong)  # type: ignore[arg-type]


def test_cores_are_found_in_exactly_the_choices_that_hold_them() -> None:
    rng = np.random.default_rng(0)
    cores, kept = Cores(5), []
    for _ in range(60):
        lists = rng.choice(5, size=rng.integers(1, 4), replace=False).tolist()
        core = {(s, int(rng.integers(3))) for s in lists}
        kept.append(core)
        cores.learn(core)
        for _ in range(20):
            part = rng.choice(5, size=rng.integers(1, 6), replace=False).tolist()
            positions = rng.integers(0, 3, len(part)).tolist()
            choices = set(zip(part, positions, strict=True))
            assert cores.inside(part, positions) == any(core <= choices for core in kept)
    assert len(cores) == 60


def test_witnesses_are_found_by_any_part_of_their_choices() -> None:
    rng = np.random.default_rng(1)
    pool, kept = Witnesses(np.full(4, 3), 1000), []
    for number in range(40):
        selection = rng.integers(0, 3, 4)
        if selection.tolist() not in kept:
            kept.append(selection.tolist())
        pool.add(np.full(2, float(number)), selection)
        part = rng.choice(4, size=rng.integers(1, 5), replace=False)
        wanted = rng.integers(0, 3, len(part)).tolist()
        agreeing = [i for i, s in enumerate(kept) if [s[p] for p in part] == wanted]
        assert pool.agreeing(part, wanted).tolist() == agreeing
        attained = pool.attained(np.array(agreeing, dtype=np.int64))
        assert {(int(s), int(h)) for s, h in np.argwhere(attained)} == {
            (s, kept[i][s]) for i in agreeing for s in range(4)
        }
    assert len(pool) == len(kept)


def test_a_full_pool_takes_no_more_witnesses() -> None:
    pool = Witnesses(np.full(2, 9), 3)
    for h in range(9):
        pool.add(np.ones(1), np.array([h, h]))
    assert len(pool) == 3
    assert len(Witnesses(np.full(2, 9), 0).agreeing(np.array([0]), [0])) == 0


def swahili_set(name: str) -> lpmert.NBest:
    first, last = map(int, name.split(":"))
    return swahili().restrict(slice(first, last))


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMA)
def test_published_optima_of_eight_lists(name: str) -> None:
    result = lpmert.minimize(swahili_set(name), method="lp-mert")
    assert result.status is Status.OPTIMAL
    assert result.loss == pytest.approx(OPTIMA[name], abs=1e-6)


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
