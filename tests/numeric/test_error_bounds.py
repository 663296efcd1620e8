"""Error bounds at their edge, where verdicts without them are wrong; cones that cover a region, and their normals."""

from collections import Counter
from fractions import Fraction
from itertools import count, product
from math import nextafter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from oracle import dot, strictly_feasible

from lpmert import core
from lpmert.errors import FloatArray
from lpmert.limits import Deadline, OutOfTime, heeding
from lpmert.numeric.cone import cones_of_region, outer_normals
from lpmert.numeric.lists import FEASIBLE, INFEASIBLE, Cap, SortedLists, first_best, sorted_lists
from lpmert.numeric.rational import binary_places, exact_products, single_products


def _lists(features: FloatArray, cap: Cap | None = None, spread: Any = 0.0) -> SortedLists:
    """Lists of two, which cost the same."""
    offsets = np.arange(0, len(features) + 1, 2)
    lists = sorted_lists(features, offsets, np.zeros(len(features), dtype=np.int64), cap)
    return lists._replace(spread=spread + np.zeros(features.shape[1]))


def _decoded(lists: SortedLists, weights: FloatArray) -> tuple[int, bool]:
    selection = np.zeros(1, dtype=np.int64)
    _, clear = lists.native().decode_clearly(weights, selection)
    return int(selection[0]), clear


def _separate(lists: SortedLists, weights: FloatArray | None = None) -> tuple[int, FloatArray]:
    width, n_lists = lists.rows.shape[1], len(lists.offsets) - 1
    corral, first = core.Corral(width), np.zeros(n_lists, dtype=np.int64)
    corral.restart(np.zeros(width) if weights is None else weights)
    return core.LeastNorm(lists.native()).separate(np.arange(n_lists), first, 0, corral), corral.point


def test_a_winner_that_rounding_makes_is_not_clear() -> None:
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(300):
        weights, row = rng.normal(size=(2, 6))
        other = np.nextafter(row, row + rng.choice([-1.0, 1.0], 6))
        winner, clear = _decoded(_lists(np.array([row, other])), weights)
        lead = dot(row, weights) - dot(other, weights)
        wrong += (lead > 0) != (winner == 0)
        assert not clear or ((lead > 0) == (winner == 0) and lead)
    assert wrong > 10
    assert _decoded(_lists(np.array([row, row + 1e-12])), np.ones(6)) == (1, True)


TINY = 2.0**-1074  # the smallest double


def test_products_that_underflow_and_entries_lost_in_normalising_decide_nothing() -> None:
    weights, row = np.array([0.48, 0.48, 0.55]), np.array([3.0, 3.0, -5.0]) * TINY
    assert dot(row, weights) > 0
    assert _decoded(_lists(np.array([row, np.zeros(3)])), weights) == (1, False)
    assert _separate(_lists(-np.array([row, np.zeros(3)])), weights)[0] != FEASIBLE
    features = np.zeros((6, 2))
    features[::2] = [[2.0, TINY], [-2.0, TINY], [0.0, 1.0]]  # (0, 1) makes them
    assert _separate(_lists(features), np.array([1.0, 0.0]))[0] != INFEASIBLE


def test_choices_that_only_rounding_separates_are_not_called_possible() -> None:
    rng = np.random.default_rng(2)
    said: Counter[int] = Counter()
    for _ in range(300):
        weights, row = rng.normal(size=(2, 6))
        other = np.nextafter(row, row + rng.choice([-1.0, 1.0], 6)) - float(rng.choice([0.0, 1e-9])) * weights
        features = np.array([row, other])
        verdict, point = _separate(_lists(features), weights)
        said[verdict] += 1
        assert verdict != INFEASIBLE
        assert verdict != FEASIBLE or dot(features[0], point) > dot(features[1], point)
    assert said[FEASIBLE] > 100


def test_a_lead_is_clear_beyond_what_both_features_may_be_off_and_at_the_bound_of_the_winner_others_count() -> None:
    for lead, clear in ((1.5, False), (2.0, False), (2.1, True)):
        lists = _lists(np.array([[1.0], [1.0 - lead * 2.0**-10]]), spread=2.0**-10)
        assert _decoded(lists, np.ones(1)) == (0, clear)
    assert _decoded(_lists(np.array([[1.0], [2.0]])), np.zeros(1)) == (0, False)  # a tie at no weights
    features, offsets, costs = np.array([[1.0], [0.5], [0.25]]), np.array([0, 3]), np.array([1, 2, 4])
    for bound, expected in ((0.5, (2, False)), (0.49, (1, True)), (0.75, (4, False))):
        assert core.decoded_cost(features, offsets, costs, np.array([1.0]), bound) == (1, *expected)


@pytest.mark.parametrize("flat", [1e-3, 1e-5, 1e-6, 1e-7])
def test_flat_simplices_beside_the_origin_are_not_called_cores(flat: float) -> None:
    """Their inverse has few digits left; the origin lies inside or outside, by far less than they are flat."""
    rng = np.random.default_rng(3)
    said: Counter[int] = Counter()
    for _ in range(400):
        heights = rng.integers(-4, 5, 3).astype(float)
        heights[1] = -heights[2] if rng.random() < 0.7 else heights[1]
        heights += rng.choice([-1.0, 0.0, 1.0], 3) * 2.0 ** -rng.integers(8, 50)
        rows, features = np.column_stack([[1.0, -1.0, 1.0], flat * heights]), np.zeros((6, 2))
        features[::2] = rows
        verdict, point = _separate(_lists(features))
        said[verdict] += 1
        if verdict == FEASIBLE:
            assert all(dot(row, point.tolist()) > 0 for row in rows.tolist())
        if verdict == INFEASIBLE:
            assert not strictly_feasible([tuple(map(Fraction, row)) for row in rows.tolist()])
    assert said[FEASIBLE] > 20


@pytest.mark.parametrize("angle", [0.3, 0.9, 1.4])
def test_weights_at_the_edge_of_a_cap_are_in_it_or_nobody_knows(angle: float) -> None:
    """A half-space comes as near to the middle of the cap as its cosine, but for units in the last place."""
    row = [-np.sin(angle), np.cos(angle)]
    features, centre = np.array([row, [0.0, 0.0]]), np.array([1.0, 0.0])
    verdict, point = _separate(_lists(features, Cap(centre, 0.01)))
    assert verdict == FEASIBLE
    reached = float(point[0] / np.hypot(*point))
    closest = float(np.sqrt(1.0 - row[0] ** 2 / (row[0] ** 2 + row[1] ** 2)))
    square = 1 - Fraction(row[0]) ** 2 / (Fraction(row[0]) ** 2 + Fraction(row[1]) ** 2)
    said: Counter[int] = Counter()
    for around in (reached, closest):
        steps = [around + k * step for step in (2.0**-53, 1e-15, 1e-13, 1e-10) for k in range(-30, 31)]
        for cosine in [*steps, nextafter(around, 0), nextafter(around, 1)]:
            verdict, point = _separate(_lists(features, Cap(centre, cosine)))
            said[verdict] += 1
            w = [Fraction(value) for value in point.tolist()]
            if verdict == FEASIBLE:
                assert w[0] ** 2 >= Fraction(cosine) ** 2 * (w[0] ** 2 + w[1] ** 2)
                assert dot(row, point.tolist()) > 0
            elif verdict == INFEASIBLE:
                assert Fraction(cosine) ** 2 >= square
    assert min(said[FEASIBLE], said[INFEASIBLE]) > 30


def test_a_row_within_rounding_of_those_that_beat_it_may_win() -> None:
    for behind, left in ((2.0**-50, 5), (2.0**-30, 4)):
        rows = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0], [0.5, 0.5 - behind]])
        assert core.possible_winners(rows, np.array([0, 5])).tolist() == [*range(left)]
    rng = np.random.default_rng(0)
    for _ in range(2000):
        whole = rng.integers(-5, 6, (6, 2)).astype(np.float64)
        large, tiny = (core.possible_winners(one, np.array([0, 6])).tolist() for one in (whole, whole * TINY))
        assert set(large) <= set(tiny)


def test_paths_are_dropped_only_where_others_are_as_good_at_every_ray() -> None:
    """Scores are large, and at one ray the exact difference is what rounding has left of it."""
    rng = np.random.default_rng(5)
    dropped = falsely = 0
    for _ in range(2000):
        step = rng.integers(1, 1000, 3).astype(float)
        base = rng.integers(0, 2 ** int(rng.choice([1, 30])), 3).astype(float)
        across = np.cross(step, rng.normal(size=3))
        near = across + step * float(rng.choice([0.0, 0.01]))
        rays = np.array([near, step + across * rng.uniform(-1, 1)])
        features = np.array([base + step, base])[:: int(rng.choice([-1, 1]))]
        reach = np.abs(rays) @ np.abs(features).max(axis=0)
        _, found, *_ = core.narrow(features.copy(), np.array([0]), np.array([0, 2]), np.arange(2), rays, reach[None])
        exact = [[dot(row, ray) for ray in rays.tolist()] for row in features.tolist()]
        for k in {0, 1} - set(found.tolist()):
            assert all(a >= b for a, b in zip(exact[1 - k], exact[k], strict=True))
            dropped += 1
        scores = features @ rays.T
        falsely += any((scores[0, r] > scores[1, r]) != (exact[0][r] > exact[1][r]) for r in range(2))
    assert min(dropped, falsely) > 10


def test_mixtures_beat_a_path_only_where_they_do_at_every_ray() -> None:
    """Two paths are opposite to each other but for units in the last place; a third one, 0, is between them."""
    rng = np.random.default_rng(8)
    dropped = left = 0
    for _ in range(4000):
        rays, one = rng.normal(size=(2, 3)), rng.normal(size=3)
        if (one @ rays[0]) * (one @ rays[1]) > 0:
            continue
        other = -one + rng.integers(-3, 4, 3) * np.spacing(one) * 2.0 ** int(rng.choice([0, 0, 0, 30]))
        features = np.array([one, other, np.zeros(3)])
        reach = np.abs(rays) @ np.abs(features).max(axis=0)
        _, found, *_ = core.narrow(features, np.array([0]), np.array([0, 3]), np.arange(3), rays, reach[None])
        at = [[dot(row, ray) for ray in rays.tolist()] for row in features.tolist()]
        for k in {0, 1, 2} - set(found.tolist()):
            ahead = [[a - b for a, b in zip(at[k], at[j], strict=True)] for j in range(3) if j != k]
            assert not strictly_feasible([*ahead, [1, 0], [0, 1]])
            dropped += 1
        left += 2 in found.tolist()
    assert min(dropped, left) > 100


def _looked_through(features: FloatArray, rays: FloatArray, reach: FloatArray) -> tuple[list[int], int]:
    """Which links of a single path are left, and how many hypotheses these make."""
    nodes = np.arange(len(features) + 1, dtype=np.int32)
    links = core.Links(nodes[:-1].copy(), np.zeros(len(features), dtype=np.int32), nodes[1:].copy(), len(nodes))
    finder, marks = core.PathFinder(100), np.packbits(np.ones(len(features), dtype=bool))
    mixes, known = np.full((1, len(rays)), 1.0 / len(rays)), np.empty((0, features.shape[1]))
    left = finder.look_through(links, features, len(features), marks, rays, reach, mixes, known)[1]
    found, *_, ends = finder.list(10**6)
    assert found
    return left.tolist(), len(ends) - 1


def test_rounded_sums_lose_no_link_of_the_best_path() -> None:
    """Scores of links add up to that of their path but for rounding."""
    rng = np.random.default_rng(7)
    for _ in range(100):
        features, rays = np.rint(rng.normal(size=(12, 3)) * 2**20) / 2**20, rng.normal(size=(1, 3))
        reach = (np.abs(features) @ np.abs(rays).T).sum(axis=0)
        assert _looked_through(features, rays, reach) == (list(range(12)), 1)
    assert _looked_through(np.zeros((2, 3)), np.eye(3), np.zeros(3)) == ([0, 1], 1)


def products_are_exact(ray: FloatArray, features: FloatArray) -> bool:
    """Whether products come out exactly, added up from either end."""
    for row, order in product(features.tolist(), (1, -1)):
        total = 0.0
        for x, y in zip(row[::order], ray.tolist()[::order], strict=True):
            total += x * y
        if Fraction(total) != dot(row, ray.tolist()):
            return False
    return True


def test_places_are_those_of_multiples_of_a_power_of_two() -> None:
    for values, places in (
        *(([0.0, -3.0, 2.0**60], 0), ([1.0, 2.0**-10], 10), ([1.0, 2.0**-11], 20)),
        *(([0.1], None), ([np.inf], None), ([1e308, 2.0**-20], None)),  # the last one overflows when multiplied
    ):
        assert binary_places(np.array(values)) == places


def test_products_are_called_exact_only_where_they_are() -> None:
    rng = np.random.default_rng(3)
    said = refused = 0
    for _ in range(400):
        bits, own, n_features = int(rng.integers(1, 45)), int(rng.integers(0, 30)), int(rng.integers(1, 6))
        features = np.ldexp(rng.integers(-(2**bits), 2**bits, (8, n_features)).astype(float), -int(rng.integers(0, 41)))
        ray = np.ldexp(rng.integers(-(2**own), 2**own + 1, n_features).astype(float), -int(rng.integers(0, 31)))
        largest = float(np.abs(features).sum(axis=1).max())
        if exact_products(ray[None, :], features, largest)[0]:
            assert products_are_exact(ray, features)
            said += 1
        else:
            refused += not products_are_exact(ray, features)
    assert said > 50
    assert refused > 20


HELD = 2.0**21, 1.0 - 2.0**-30  # a row whose sum has 52 bits


@pytest.mark.parametrize(
    ("ray", "row", "largest", "said", "true"),
    [
        ((1.0, 1.0), HELD, sum(HELD), True, True),
        ((1.0, 1.0), (2.0**23, HELD[1]), 2.0**23 + HELD[1], False, False),  # a sum of 54 bits
        ((1.0, 1.0), HELD, 2.0**22 - 1.0, True, True),
        ((1.0, 1.0), HELD, 2.0**22, False, True),
        ((0.1, 1.0), HELD, 1.0, False, True),
        ((2.0**-1070, 2.0**-1070), (2.0**-10, 1.0), 2.0, False, False),  # underflow
    ],
)
def test_the_last_bit_that_doubles_hold_decides(ray: Any, row: Any, largest: float, said: bool, true: bool) -> None:
    assert products_are_exact(np.array(ray), np.array([row])) is true
    assert exact_products(np.array([ray]), np.array([row]), largest)[0] == said


def test_one_entry_that_is_a_power_of_two_rounds_nothing() -> None:
    features = np.array([[0.1, 0.7], [1e300, 5e-324]])
    rays = np.array([[0.0, -1.0], [2.0, 0.0], [0.0, 3.0], [0.0, 0.5], [1.0, 1.0], [0.0, 0.0]])
    assert single_products(rays).tolist() == [True, True, False, False, False, False]  # half of 5e-324 is no number
    assert [products_are_exact(ray, features) for ray in rays[:4]] == [True, True, False, False]


@given(st.lists(st.lists(st.integers(-2, 2), min_size=1, max_size=4), min_size=1, max_size=5))
def test_the_first_of_the_best_is_taken_in_every_list(scores: list[list[int]]) -> None:
    offsets = np.cumsum([0, *map(len, scores)])
    expected = [begin + one.index(max(one)) for begin, one in zip(offsets.tolist(), scores, strict=False)]
    assert first_best(np.concatenate([np.array(one, dtype=float) for one in scores]), offsets[:-1]).tolist() == expected


def test_cones_cover_what_is_inside_the_limits_and_little_else() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        width = int(rng.integers(1, 5))
        shape = int(rng.integers(0, 5)), width
        limits = rng.normal(size=shape) if seed % 2 else rng.integers(-9, 10, size=shape).astype(float)
        limits = limits[limits.any(axis=1)]
        cones = list(cones_of_region(limits))
        weights = rng.normal(size=(300, width))
        for w in weights[(limits @ weights.T > 0).all(axis=0)]:
            assert any((np.linalg.solve(rays.T, w) >= -1e-9 * np.abs(w).max()).all() for rays in cones)
        within = [(limits @ (rays.T @ rng.random((width, 20))) >= -1e-9).all(axis=0) for rays in cones]
        assert not within or np.mean(within) > 0.9


def test_a_box_becomes_cones_with_its_corners_as_rays() -> None:
    # w1 = 1, w2 in 3..20, w3 in -12..12
    limits = np.array([[1, 0, 0], [-3, 1, 0], [20, -1, 0], [12, 0, 1], [12, 0, -1]], dtype=float)
    cones = list(cones_of_region(limits))
    corners = {(1, a, b) for a in (3, 20) for b in (-12, 0, 12)}
    assert {tuple((ray / ray[0]).tolist()) for rays in cones for ray in rays} == corners
    areas = [abs(np.linalg.det(rays / rays[:, :1])) / 2 for rays in cones]
    assert sum(areas) == pytest.approx(17 * 24)


def test_rays_have_few_bits_so_that_midpoints_stay_exact() -> None:
    rng = np.random.default_rng(7)
    for ray in (ray for rays in cones_of_region(rng.normal(size=(4, 3))) for ray in rays.tolist()):
        assert all(Fraction(value).denominator <= 2**44 for value in ray)
    assert not list(cones_of_region(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])))  # a contradiction


def test_many_limits_lose_nothing_inside_and_are_cut_for_a_while_only() -> None:
    """Between 70 limits on five weights most parts of what is cut lie outside of another limit."""
    rng = np.random.default_rng(3)
    middle, limits = rng.normal(size=5), rng.integers(-9, 10, (70, 5)).astype(float)
    limits *= np.sign(limits @ middle)[:, None]
    found = list(cones_of_region(limits))
    assert len(found) <= 256
    inside = middle + 1e-3 * rng.normal(size=(100, 5))
    inside = inside[(limits @ inside.T > 0).all(axis=0)]
    assert len(inside) > 10
    for w in inside:
        assert any((np.linalg.solve(rays.T, w) >= -1e-9 * np.abs(w).max()).all() for rays in found)
    (rays,) = cones_of_region(np.eye(60))  # the signs of many weights leave one cone
    assert rays.tolist() == np.eye(60).tolist()


@pytest.mark.parametrize(
    ("limits", "most"),  # the last ones cut no cone: all share their rays, but there are many cones and limits
    [(np.empty((0, 60)), 40), (np.vstack([np.eye(30), np.tile([1.0, -0.7, 0.3], 10)]), 40), (np.eye(12), 196)],
)
def test_cones_are_given_up_when_the_time_is_over(limits: FloatArray, most: int) -> None:
    asked = count()
    with Deadline(stop=lambda: next(asked) >= most).running(), heeding(), pytest.raises(OutOfTime):
        list(cones_of_region(limits))
    assert next(asked) == most + 1


def test_normals_of_a_cone_without_an_inside_are_not_certain() -> None:
    for flat in ([[1.0, 2.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]):
        assert not outer_normals(np.array(flat))[1]
    normals, certain = outer_normals(np.eye(3))
    assert certain
    assert (normals @ np.eye(3) + 1e-6 > 0).all()
