"""Boxes of weights: what is dropped, charged or closed in one is so at all of its weights, however near to a tie."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from long_searches import counted
from oracle import clear_winners, exact_cost
from problems import KINDS, random_lists

import lpmert
from lpmert import core
from lpmert.core import beats_in_box, box_normals, one_pays_in_box
from lpmert.errors import FloatArray
from lpmert.methods.cells.cells import Cells, CellsSearch
from lpmert.methods.cells.nodes import Fields, binary_places, faces, precision_of, whole_box, whole_cone, widened
from lpmert.methods.cells.units import NodeSettings
from lpmert.methods.choices.choices import Choices
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.model.problem import Problem
from lpmert.numeric.lists import SortedLists, sorted_lists
from lpmert.search.method import Incumbent

Rng = np.random.Generator

NO_SUMS = np.empty(0)
"""Of statistics, as losses add up."""


def random_box(rng: Rng, n_features: int, splits: int | None = None) -> tuple[FloatArray, FloatArray]:
    """A face of the cube, or a part of it after some halvings."""
    centre, radius = np.zeros(n_features), np.ones(n_features)
    face = int(rng.integers(n_features))
    centre[face], radius[face] = rng.choice([-1.0, 1.0]), 0.0
    others = [d for d in range(n_features) if d != face]
    for _ in range(int(rng.integers(0, 20)) if splits is None else splits):
        if others:
            d = int(rng.choice(others))
            if radius[d] > 2.0**-30:
                radius[d] /= 2
                centre[d] += rng.choice([-1.0, 1.0]) * radius[d]
    return centre, radius


def exact(values: FloatArray) -> list[Fraction]:
    return [Fraction(x) for x in values.tolist()]


def least_product(g: list[Fraction], centre: FloatArray, radius: FloatArray) -> Fraction:
    """The least product with the corners of a box, one after the other."""
    sides = [sorted({c - r, c + r}) for c, r in zip(exact(centre), exact(radius), strict=True)]
    return min(sum((x * w for x, w in zip(g, corner, strict=True)), Fraction(0)) for corner in product(*sides))


def points_inside(rng: Rng, centre: FloatArray, radius: FloatArray, count: int) -> list[list[Fraction]]:
    """Random points of a box in exact numbers, some of them on a side or a corner, some close to one."""
    found = []
    for _ in range(count):
        near = rng.choice([0.0, 1e-9, 1.0], len(centre))
        shares = [Fraction(x) for x in (rng.choice([-1.0, 1.0], len(centre)) * (1.0 - near * rng.random(len(centre))))]
        found.append([c + r * x for c, r, x in zip(exact(centre), exact(radius), shares, strict=True)])
    return found


def search_of(canonical: Canonical) -> CellsSearch:
    return CellsSearch(
        Cells(shape="boxes"), canonical, Incumbent(1 << 59, CanonicalWeights(np.ones(canonical.n_features)), "")
    )


def core_search(lists: SortedLists, *, boxed: bool, levels: int = 4) -> Any:
    """A search over boxes or cones of sums of losses, with no node yet."""
    settings = NodeSettings(
        granularity=1,
        leaf_lists=0,
        leaf_rows=0,
        conflict_lists=len(lists.offsets),
        most_stalled=100,
        hopeless=100,
        row_work=4,
        levels=levels,
    )
    selections = Choices().core_settings(1, cores=True)
    search = core.cell_search(lists.native(), None, selections, precision_of(lists) if boxed else None, settings)
    search.renew(lists.rows[0] * 0.0)
    return search


def raised(lists: SortedLists, node: Fields, *, boxed: bool, levels: int = 8) -> int:
    """How far conflicts raise the bound of a node, asked for more and more."""
    search = core_search(lists, boxed=boxed, levels=levels)
    search.push(node)
    bound = 0
    while (more := search.conflicts(bound)) > bound:
        bound = more
    return bound


def charged(lists: SortedLists, centre: FloatArray, radius: FloatArray, levels: int = 8) -> int:
    """The same of a box, with lists of two as pairs."""
    return raised(lists, in_pairs(lists, whole_box(lists, centre, radius, NO_SUMS)), boxed=True, levels=levels)


def in_pairs(lists: SortedLists, box: Fields) -> Fields:
    """A box with all hypotheses, of which those of lists of two are pairs."""
    sizes = np.diff(lists.offsets)
    two, more = np.flatnonzero(sizes == 2), np.flatnonzero(sizes > 2)
    cheap = lists.offsets[two]
    rows = np.concatenate([np.arange(lists.offsets[a], lists.offsets[a + 1]) for a in more] or [np.empty(0, int)])
    return {
        **box,
        "cheap": cheap.astype(np.int32),
        "dear": (cheap + 1).astype(np.int32),
        "ids": rows.astype(np.int32),
        "ends": np.concatenate([[0], np.cumsum(sizes[more])]),
    }


def test_what_beats_in_a_box_does_so_at_every_corner() -> None:
    rng = np.random.default_rng(0)
    said = missed = 0
    for _ in range(600):
        n_features = int(rng.integers(1, 5))
        centre, radius = random_box(rng, n_features)
        columns = rng.integers(-4, 5, (n_features, 2)) * 2.0 ** rng.integers(-3, 3, (n_features, 1))
        if rng.random() < 0.5:
            columns = columns + 1e-3 * rng.normal(size=columns.shape)
        least = least_product(
            [x - y for x, y in zip(exact(columns[:, 0]), exact(columns[:, 1]), strict=True)], centre, radius
        )
        beats = bool(beats_in_box(columns, 0, 1, centre, radius, 1.0, 0.0))
        assert least >= 0 or not beats
        said += beats
        missed += least > Fraction(1, 10**9) and not beats
    assert said > 50
    assert missed == 0


def test_leads_at_the_edge_of_rounding_do_not_count() -> None:
    """Leads that equal the reach but for a few ulps: what counts is true, and some would count without a tolerance."""
    rng = np.random.default_rng(1)
    counted = misled = 0
    for _ in range(4000):
        centre, radius = random_box(rng, 3, 8)
        columns = np.zeros((3, 2))
        columns[:, 0] = rng.normal(size=3)
        face = int(np.flatnonzero(radius == 0.0)[0])
        rest = sum(columns[d, 0] * centre[d] - abs(columns[d, 0]) * radius[d] for d in range(3) if d != face)
        columns[face, 0] = -rest * centre[face]
        columns[face, 0] += int(rng.integers(-20, 60)) * float(np.spacing(columns[face, 0])) * centre[face]
        true = least_product(exact(columns[:, 0]), centre, radius)
        counts = bool(beats_in_box(columns, 0, 1, centre, radius, 1.0, 0.0))
        assert true >= 0 or not counts
        counted += counts
        misled += bool(beats_in_box(columns, 0, 1, centre, radius, 0.0, 0.0)) and true < 0
    assert counted > 100
    assert misled > 20  # without the tolerance these would have counted


@pytest.mark.parametrize("scale", [1.0, 2.0**-20, 2.0**-1000, 1e300])
def test_ties_on_a_side_count_where_nothing_is_rounded(scale: float) -> None:
    """The first hypothesis has as much as the second at one corner of the face w1 = 1, |w2| <= 1, else more."""
    rows = np.array([[2.0, 0.0], [1.0, 1.0]]) * scale
    centre, radius = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    columns = np.ascontiguousarray(rows.T)
    assert beats_in_box(columns, 0, 1, centre, radius, 0.0, 0.0)
    assert not beats_in_box(columns, 0, 1, centre, radius, 1.0, 0.0)
    assert not beats_in_box(columns, 1, 0, centre, radius, 0.0, 0.0)
    assert not beats_in_box(columns, 0, 1, centre, np.array([0.0, 1.0 + 2.0**-20]), 0.0, 0.0)


def test_sums_are_called_exact_only_where_they_are() -> None:
    def places(rows: list[list[float]]) -> int:
        return binary_places(sorted_lists(np.array(rows), np.array([0, len(rows)]), np.arange(len(rows))))

    assert places([[1.0, 2.0], [3.0, -4.0]]) == 49 - 3  # the largest sum is 7
    assert places([[0.25, 2.0], [3.0, -4.0]]) == 49 - 3 - 10
    assert places([[0.1, 2.0], [3.0, -4.0]]) == -1
    assert places([[1e15, 2.0], [3.0, -4.0]]) == -1
    assert places([[1e308, 1e308], [3.0, -4.0]]) == -1


@pytest.mark.parametrize(
    ("first", "second"),
    [([np.inf, 0.0], [0.0, 0.0]), ([np.nan, 0.0], [0.0, 0.0]), ([1e308, 1e308], [-1e308, -1e308])],
)
def test_what_is_no_number_beats_nothing(first: list[float], second: list[float]) -> None:
    columns = np.array([first, second]).T.copy()
    centre, radius = np.array([1.0, 0.5]), np.array([0.0, 0.5])
    for rounding in (0.0, 1.0):
        assert not beats_in_box(columns, 1, 0, centre, radius, rounding, 0.0)
    assert not beats_in_box(columns, 0, 1, centre, radius, 1.0, 0.0)
    assert not one_pays_in_box(columns[:, 0].copy(), columns[:, 1].copy(), 1.0, 1.0, centre, radius, 1.0, 0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_wins_somewhere_in_a_box_survives_in_it(kind: str) -> None:
    tried = 0
    for seed in range(700, 706):
        canonical = Problem(random_lists(kind, seed, most_features=4).nbest).canonical
        lists = canonical.by_cost
        if not len(lists.costs) or not canonical.n_features:
            continue
        rng = np.random.default_rng(seed)
        nodes = search_of(canonical)._nodes
        for _ in range(4):
            centre, radius = random_box(rng, canonical.n_features)
            kept, _ = nodes.survivors((centre, radius), 1 << 59)
            assert kept is not None
            for point in points_inside(rng, centre, radius, 6):
                chosen = clear_winners(lists, point)
                if chosen is None:
                    continue
                tried += 1
                survivors = set(kept.ids.tolist())
                paid = int(lists.costs[chosen].sum())
                open_lists = {int(np.searchsorted(lists.offsets, i, "right")) - 1 for i in survivors}
                settled = [i for s, i in enumerate(chosen) if s not in open_lists]
                assert all(i in survivors for s, i in enumerate(chosen) if s in open_lists), (kind, seed)
                assert kept.fixed == lists.costs[settled].sum()
                least = kept.fixed + int(kept.costs[kept.ends[:-1]].sum())
                assert least <= paid, (kind, seed)
    assert tried > 20


def test_rounded_features_count_with_all_that_may_be_meant() -> None:
    """Leads and conflicts that hold for the doubles, but not if every feature is off by as much as it may be."""
    rng = np.random.default_rng(4)
    said = denied = 0
    for _ in range(400):
        centre, radius = random_box(rng, 3, 6)
        spread = rng.random(3) * 1e-3
        lists = sorted_lists(rng.integers(-4, 5, (4, 3)) * 2.0**-9, np.array([0, 2, 4]), np.array([0, 1, 0, 1]))
        lists = lists._replace(spread=spread)
        columns = np.ascontiguousarray(lists.rows.T)
        precision = precision_of(lists)
        assert precision.places == -1
        wide = [abs(c) + r for c, r in zip(exact(centre), exact(radius), strict=True)]
        worst = 2 * sum((s * x for s, x in zip(exact(spread), wide, strict=True)), Fraction(0))
        gains = [columns[:, k + 1] - columns[:, k] for k in (0, 2)]
        for k, gain in ((0, gains[0]), (2, gains[1])):
            least = least_product(exact(gain), centre, radius) - worst
            beats = bool(beats_in_box(columns, k + 1, k, centre, radius, 1.0, precision.off))
            assert least >= 0 or not beats
            said += beats
            denied += not beats and bool(beats_in_box(columns, k + 1, k, centre, radius, 1.0, 0.0))
        both = [x + y / 2 for x, y in zip(exact(gains[0]), exact(gains[1]), strict=True)]
        pays = bool(one_pays_in_box(*gains, 1.0, 0.5, centre, radius, 1.0, precision.off))
        assert least_product(both, centre, radius) - worst * 3 / 2 >= 0 or not pays
        said += pays
    assert said > 50
    assert denied > 20


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(("lead", "n_left"), [(1.9, 2), (1.999, 2), (2.3, 0)])
def test_a_lead_of_what_both_features_may_be_off_drops_nothing(lead: float, n_left: int, paired: bool) -> None:
    """Two features, each off by as much as it may be; weights of the box count as 1 at most."""
    spread = np.full(2, 2.0**-20)
    rows = np.array([[1.0, 1.0], [1.0, 1.0]])
    rows[1] += lead * spread
    lists = sorted_lists(rows, np.array([0, 2]), np.array([0, 1]))._replace(spread=spread)
    box = whole_box(lists, np.array([1.0, 0.75]), np.array([0.0, 2.0**-30]), NO_SUMS)
    search = core_search(lists, boxed=True)
    search.push(in_pairs(lists, box) if paired else box)
    search.propagate_root(1 << 59)
    ids, *_ = search.survivors()
    assert len(ids) == n_left
    assert search.top()["own"] == (1 if n_left == 0 else 0)


def test_every_vector_lies_on_a_face_and_in_a_half() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        weights = rng.normal(size=3) * 10.0 ** rng.integers(-5, 5, 3)
        scaled = weights / np.abs(weights).max()

        def around(centre: FloatArray, radius: FloatArray, scaled: FloatArray = scaled) -> bool:
            return bool((np.abs(scaled - centre) <= radius).all())

        inside = [face for face in faces(3) if around(*face)]
        assert inside
        for _ in range(10):
            centre, radius = inside[0]
            axis = int(rng.choice(np.flatnonzero(radius)))
            side = radius * (np.arange(3) == axis) / 2
            inside = [half for sign in (-1.0, 1.0) if around(*(half := (centre + sign * side, radius - side)))]
            assert inside


@pytest.mark.parametrize("splits", [0, 5, 60])
def test_the_sides_of_a_wider_box_hold_all_corners(splits: int) -> None:
    rng = np.random.default_rng(splits)
    for n_features in range(1, 5):
        centre, radius = random_box(rng, n_features, splits)
        normals = box_normals(centre, radius)
        assert normals.shape == (2 * n_features - 1, n_features)
        outside = 0
        for normal in normals:
            assert least_product(exact(normal), centre, radius) > 0
            outside += least_product(exact(normal), centre, widened(radius) * 1.001) < 0
        assert outside == 2 * n_features - 2  # all but the face itself


def test_a_conflict_at_the_edge_of_rounding_does_not_count() -> None:
    """Random gains whose mixture is nowhere negative but for a few ulps."""
    rng = np.random.default_rng(3)
    counted = misled = 0
    for _ in range(4000):
        centre, radius = random_box(rng, 3, 6)
        face = int(np.flatnonzero(radius == 0.0)[0])
        share, other = 1.0, float(rng.random())
        first, second = rng.normal(size=3), rng.normal(size=3)
        mixed = share * first + other * second
        rest = sum(mixed[d] * centre[d] - abs(mixed[d]) * radius[d] for d in range(3) if d != face)
        first[face] = -rest * centre[face] - other * second[face]
        first[face] += int(rng.integers(-20, 60)) * float(np.spacing(first[face])) * centre[face]
        true = least_product(
            [Fraction(share) * x + Fraction(other) * y for x, y in zip(exact(first), exact(second), strict=True)],
            centre,
            radius,
        )
        rounding = float(rng.choice([0.0, 1.0]))  # exact sums of gains are none of their shares
        counts = bool(one_pays_in_box(first, second, share, other, centre, radius, rounding, 0.0))
        assert true >= 0 or not counts
        counted += counts
        mixed = share * first + other * second
        misled += sum(mixed[d] * centre[d] - abs(mixed[d]) * radius[d] for d in range(3)) >= 0.0 > true
    assert counted > 50
    assert misled > 20


def test_opposite_gains_conflict_where_nothing_is_rounded() -> None:
    gain, centre, radius = np.array([1.0, -3.0]), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert one_pays_in_box(gain, -gain, 1.0, 1.0, centre, radius, 0.0, 0.0)
    assert not one_pays_in_box(gain, -gain, 1.0, 1.0, centre, radius, 1.0, 0.0)
    assert not one_pays_in_box(gain, -gain, 1.0, 0.5, centre, radius, 0.0, 0.0)


def test_several_cheapest_hypotheses_of_a_list_count_with_all_they_may_be_ahead() -> None:
    """Lists of which two or three rows are cheapest; on a grid, and not."""
    found = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        n_features, sizes = int(rng.integers(2, 5)), rng.integers(3, 6, 6)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        rows = rng.normal(size=(ends[-1], n_features))
        want = rng.normal(size=n_features) * rng.choice([-1.0, 1.0], (6, 1))
        costs = np.concatenate([rng.permutation([0] * min(3, n - 1) + [2] * max(1, n - 3)) for n in sizes])
        rows -= np.where(costs > 0, 0.0, 1.0)[:, None] * np.repeat(want, sizes, axis=0)
        if seed % 2:
            rows = np.rint(8 * rows) / 8
        lists = sorted_lists(rows, ends, costs)
        for splits in (0, 2, 6):
            centre, radius = random_box(rng, n_features, splits)
            bound = charged(lists, centre, radius)
            found += bound > 0
            for point in points_inside(rng, centre, radius, 10):
                cost = exact_cost(lists, point)
                assert cost is None or bound <= cost, (seed, centre.tolist(), radius.tolist())
    assert found > 40


def test_two_lists_pay_all_steps_up_to_what_wins_and_not_the_first_alone() -> None:
    """Whatever w2 is between -1/8 and 1/8, one of the lists has its third hypothesis, which costs 3."""
    rows = np.array([[0.0, 0.0], [-0.125, 0.5], [0.0, 1.0], [0.0, 0.0], [-0.125, -0.5], [0.0, -1.0]])
    lists = sorted_lists(rows, np.array([0, 3, 6]), np.array([0, 1, 3, 0, 1, 3]))
    centre, radius = np.array([1.0, 0.0]), np.array([0.0, 0.125])
    assert {exact_cost(lists, [Fraction(1), Fraction(x, 100)]) for x in range(-12, 13)} - {None} == {3}
    assert charged(lists, centre, radius, levels=1) == 1
    assert charged(lists, centre, radius, levels=2) == charged(lists, centre, radius) == 3


def test_levels_of_costs_raise_bounds_and_never_above_what_weights_cost() -> None:
    """Lists whose dearer hypotheses are better the more they cost, all along one direction; on a grid, and not."""
    more = fewer = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n_features, n_lists, n = int(rng.integers(2, 5)), 12, 6
        costs = np.sort(rng.integers(0, 5, (n_lists, n)), axis=1)
        want = rng.normal(size=n_features) * rng.choice([-1.0, 1.0], (n_lists, 1))
        rows = 0.3 * rng.normal(size=(n_lists, n, n_features)) + costs[:, :, None] * want[:, None, :]
        if seed % 2:
            rows = np.rint(8 * rows) / 8
        lists = sorted_lists(
            rows.reshape(-1, n_features), np.arange(0, n_lists * n + 1, n), (costs - costs[:, :1]).ravel()
        )
        for splits in (2, 6):
            centre, radius = random_box(rng, n_features, splits)
            bounds = [charged(lists, centre, radius, levels) for levels in (1, 3, 8)]
            more += bounds[2] > bounds[0]
            fewer += bounds[2] < bounds[0]
            for point in points_inside(rng, centre, radius, 10):
                cost = exact_cost(lists, point)
                assert cost is None or max(bounds) <= cost, (seed, centre.tolist(), radius.tolist())
    assert more > 20
    assert more > 3 * fewer


def test_a_cheapest_hypothesis_that_wins_in_part_of_a_box_is_no_conflict() -> None:
    rows = np.array([[0.0, 0.0], [-3.0, 4.0], [1.0, -1.0], [0.0, 0.0], [-0.9, 1.0], [-9.0, 0.0]])
    lists = sorted_lists(rows, np.array([0, 3, 6]), np.array([0, 0, 1, 0, 2, 2]))
    centre, radius = np.array([1.0, 0.5]), np.array([0.0, 0.5])
    # With w1 = 1, the first pays where w2 < 0.8, and without its second row everywhere; the second where w2 > 0.9.
    assert {exact_cost(lists, [Fraction(1), Fraction(x, 100)]) for x in range(1, 100)} - {None} == {0, 1, 2}
    assert charged(lists, centre, radius) == 0
    alone = sorted_lists(np.delete(rows, 1, axis=0), np.array([0, 2, 5]), np.array([0, 1, 0, 2, 2]))
    assert charged(alone, centre, radius) == 1


@pytest.mark.parametrize("n_rows", [0, 1, 40, 5000])
def test_open_boxes_hold_their_hypotheses(n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    lists = sorted_lists(rng.normal(size=(5000, 3)), np.arange(0, 5001, 5), np.tile([0, 1, 2, 3, 4], 1000))
    chosen = np.sort(rng.choice(1000, n_rows // 5, replace=False)) if n_rows >= 5 else np.empty(0, dtype=int)
    rows = (5 * chosen[:, None] + np.arange(5)).ravel().astype(np.int32)
    ends = np.arange(0, len(rows) + 1, 5)
    box = {"ids": rows, "ends": ends, "own": 7, "bound": 8, "stalled": 9, "age": 1, **PLACE}
    search = core_search(lists, boxed=True)
    search.push(box)
    [(bound, data)] = search.nodes()
    assert bound == 8
    assert data.nbytes <= 900 + ends.nbytes
    search.load(data)
    again = search.top()
    assert again["ids"].tolist() == rows.tolist()
    assert again["ends"].tolist() == ends.tolist()
    assert [again[name] for name in ("own", "bound", "stalled", "age")] == [7, 8, 9, 1]
    assert all(again[name].tolist() == place.tolist() for name, place in PLACE.items())
    ids, costs, *_ = search.survivors()
    assert ids.tolist() == rows.tolist()
    assert np.array_equal(costs, lists.costs[rows])


PLACE = {"centre": np.zeros(3), "radius": np.ones(3)}


def test_open_boxes_hold_prices_and_the_order_by_them() -> None:
    problem = Problem(counted(0, "bleu"), "bleu")
    search = search_of(problem.canonical)._nodes
    box = {
        "ids": np.array([2, 0, 1], dtype=np.int32),
        "ends": np.array([0, 3]),
        "costs": np.array([-4, -2, 30]),
        "cheap": np.array([6, 9], dtype=np.int32),
        "dear": np.array([5, 10], dtype=np.int32),
        "steps": np.array([11, 12]),
        "total": np.arange(9.0),
        "age": 5,
        **PLACE,
    }
    search.push(box)
    search.load(search.nodes()[0])
    again = search.top()
    assert all(np.array_equal(again[name], value) for name, value in box.items())
    for name, message in (("costs", "costs must have 3 items, not 1"), ("steps", "steps must have 2 items, not 1")):
        with pytest.raises(ValueError, match=message):
            search.push({**box, name: np.zeros(1, dtype=np.int64)})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("ids", np.array([0, 1, 99], dtype=np.int32), "ids must be rows of the lists"),
        ("ids", np.array([0, -1, 2], dtype=np.int32), "ids must be rows of the lists"),
        ("cheap", np.array([99], dtype=np.int32), "cheap must be rows of the lists"),
        ("dear", np.array([99], dtype=np.int32), "dear must be rows of the lists"),
        ("dear", np.array([3, 4], dtype=np.int32), "dear must have 1 items, not 2"),
        ("ids", np.arange(4, dtype=np.int32), "ends must increase from 0 to the number of rows"),
        ("ends", np.array([0, 4]), "ends must increase from 0 to the number of rows"),
        ("ends", np.array([0, 0, 3]), "ends must increase from 0 to the number of rows"),
        ("centre", np.zeros(2), "centre must have 3 items, not 2"),
        ("radius", np.zeros(4), "radius must have 3 items, not 4"),
        ("total", np.zeros(2), "total must have 0 items, not 2"),
    ],
)
def test_a_box_of_a_damaged_file_is_refused(field: str, value: FloatArray, message: str) -> None:
    lists = sorted_lists(np.ones((5, 3)), np.array([0, 3, 5]), np.array([0, 1, 2, 0, 1]))
    pair = {"cheap": np.array([3], dtype=np.int32), "dear": np.array([4], dtype=np.int32)}
    box = {**pair, "ids": np.arange(3, dtype=np.int32), "ends": np.array([0, 3]), **PLACE}
    search = core_search(lists, boxed=True)
    search.push(box)
    with pytest.raises(ValueError, match=message):
        search.push({**box, field: value})
    for ids, ends in (([0, 1, 2, 3], [0, 4]), ([0, 1, 2], [0, 1, 2, 3]), ([0, 1, 2, 2, 2, 2], [0, 3, 6])):
        many = {"ids": np.array(ids, dtype=np.int32), "ends": np.array(ends), **PLACE}
        with pytest.raises(ValueError, match="more lists or hypotheses than there are"):
            search.push(many)


@pytest.mark.parametrize("boxed", [True, False])
def test_bytes_of_a_damaged_file_are_refused(boxed: bool) -> None:
    """Cut short, too long, or with any byte changed: what is taken is within bounds, and all else an error."""
    rng = np.random.default_rng(0)
    lists = sorted_lists(rng.normal(size=(5, 3)), np.array([0, 3, 5]), np.array([0, 1, 2, 0, 1]))
    search = core_search(lists, boxed=boxed)
    search.push(whole_box(lists, *next(faces(3)), NO_SUMS) if boxed else whole_cone(lists, np.eye(3), NO_SUMS))
    [(_, data)] = search.nodes()
    for wrong in (data[:-1], data[:0], np.append(data, data[:1])):
        with pytest.raises(ValueError, match="an open node has too"):
            search.load(np.ascontiguousarray(wrong))
    refused = 0
    for place in range(len(data)):
        changed = data.copy()
        changed[place] ^= 0x80
        try:
            search.load(changed)
        except ValueError:
            refused += 1
        else:
            assert len(search.survivors()[0]) <= 5
            search.pop()
    assert refused > 20


def hard(n_lists: int = 60, n_features: int = 4) -> lpmert.NBest:
    """Lists of ten of which hidden weights explain part of the losses."""
    rng = np.random.default_rng(5)
    hidden = np.resize([1.0, -0.5, 0.25, 0.5], n_features)
    features = rng.normal(size=(n_lists * 10, n_features))
    losses = np.clip(np.rint(2.0 - features @ hidden + rng.normal(size=n_lists * 10)), 0, 8)
    return lpmert.NBest(features=features, offsets=np.arange(0, n_lists * 10 + 1, 10), statistics=losses)


def test_boxes_save_nodes_and_conflicts_most_of_them() -> None:
    nbest = hard()
    runs = {
        name: lpmert.minimize(nbest, method=method)
        for name, method in {
            "boxes": Cells(shape="boxes"),
            "alone": Cells(shape="boxes", conflict_lists=0),
            "simplices": Cells(shape="simplices"),
            "simplices alone": Cells(shape="simplices", conflict_lists=0),
        }.items()
    }
    assert len({run.loss for run in runs.values()}) == 1
    assert all(run.loss == run.lower_bound for run in runs.values())
    nodes = {name: run.counters["nodes"] for name, run in runs.items()}
    assert nodes["boxes"] < nodes["simplices"]
    assert 2 * nodes["boxes"] < nodes["alone"]
    assert runs["boxes"].counters["conflicting"] > 100
    assert runs["alone"].counters["conflicting"] == runs["simplices alone"].counters["conflicting"] == 0
    assert runs["simplices"].counters["conflicting"] > 100
    assert 2 * nodes["simplices"] < nodes["simplices alone"]


def test_the_shape_is_chosen_by_what_is_searched() -> None:
    def boxed(canonical: Canonical, shape: str = "auto") -> bool:
        return Cells(shape=shape).boxed(canonical)

    three, two = Problem(hard(n_features=3)).canonical, Problem(hard(n_features=2)).canonical
    assert boxed(three)
    assert not boxed(two)
    assert boxed(two, "boxes")
    assert not boxed(three, "simplices")
    three, four = (Problem(counted(1, "bleu", n_features=n), "bleu").canonical for n in (3, 4))
    assert not boxed(three)
    assert boxed(three, "boxes")
    assert boxed(four)


def test_boxes_are_refused_where_there_are_none() -> None:
    nbest = hard(8)
    region = lpmert.Region(cosine=0.5, around=[1.0, 1.0, 1.0, 1.0])
    with pytest.raises(lpmert.MethodError, match="set simplices"):
        lpmert.minimize(nbest, method=Cells(shape="boxes"), region=region)
    result = lpmert.minimize(nbest, method=Cells(), region=region)
    assert result.loss == lpmert.minimize(nbest, method="choices", region=region).loss == result.lower_bound
