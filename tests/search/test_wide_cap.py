"""Cosines below 0: exact in convex pieces, held to enumeration."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from oracle import Lists, best_within
from problems import around, lists_in_a_cap
from searches import many_more

import lpmert
from lpmert import MethodError, Region, RegionError, Status
from lpmert.numeric.cone import Cap
from lpmert.search import wide_cap
from lpmert.search.driver import Below, search_below
from lpmert.search.wide_cap import outside, polyhedral_inside, regular_simplex

pytestmark = pytest.mark.usefixtures("poor_start")

WIDE = (-0.05, -0.28, -0.6, -0.9, -0.99)


def wide(seed: int) -> tuple[Lists, np.ndarray, float]:
    lists, centre, _ = lists_in_a_cap(seed)
    return lists, centre, WIDE[seed % len(WIDE)]


@pytest.mark.parametrize("seeds", [range(40), many_more(range(2000, 2400))])
def test_the_least_loss_within_a_cosine_below_0_is_found_and_proved(seeds: range) -> None:
    cut = 0
    for seed in seeds:
        lists, centre, cosine = wide(seed)
        if lists.features.shape[1] > 3:
            continue
        least = best_within(lists, centre, cosine)
        region = Region(cosine=cosine, around=around(lists, centre))
        for method in ("auto", "lp-mert", "choices"):
            result = lpmert.minimize(lists.nbest, region=region, method=method)
            assert (result.loss, result.lower_bound, result.status) == (least, least, Status.OPTIMAL)
            assert result.weights @ centre / np.linalg.norm(result.weights) / np.linalg.norm(centre) >= cosine - 1e-12
            assert lpmert.evaluate(lists.nbest, result.weights).loss == least
            cut += result.counters["pieces"] > 2
    assert cut


def test_what_is_cut_out_lies_in_the_cone_and_holds_the_weights() -> None:
    rng = np.random.default_rng(4)
    for width in (1, 2, 3, 5, 9):
        for cosine in WIDE:
            cone = Cap(rng.normal(size=width), -cosine)
            for _ in range(20):
                weights = rng.normal(size=width)
                weights += 3 * rng.random() * cone.centre
                if not cone.contains(weights, strictly=True):
                    continue
                normals = polyhedral_inside(cone, weights)
                assert normals is not None
                assert (normals @ weights > 0).all()
                points = rng.dirichlet(np.ones(width), 200) @ np.linalg.inv(normals).T
                assert all(cone.contains(point, strictly=True) for point in points)


def test_cones_near_the_rim_lie_in_the_round_one_in_exact_arithmetic() -> None:
    """Rays so near to the rim that rounding moves some beyond it: those are refused."""
    rng = np.random.default_rng(3)
    made = refused = 0
    for _ in range(300):
        cosine = float(rng.uniform(-0.9, -0.1))
        cone = Cap(rng.normal(size=2), -cosine)
        axis = cone.centre / np.linalg.norm(cone.centre)
        aside = np.array([-axis[1], axis[0]]) * np.sqrt(1 - cosine**2) / -cosine
        weights = axis + (1 - 2.0 ** -float(rng.integers(48, 55))) * aside
        normals = polyhedral_inside(cone, weights)
        if normals is None:
            refused += 1
            continue
        made += 1
        assert (normals @ weights > 0).all()
        (a, b), (c, d) = [[Fraction(value) for value in row] for row in normals.tolist()]
        sign = 1 if a * d > b * c else -1
        for x, y in ((sign * d, -sign * c), (-sign * b, sign * a)):  # where one facet is 0 and the other positive
            u, v = (Fraction(value) for value in cone.centre.tolist())
            along = x * u + y * v
            assert along > 0
            assert along**2 > Fraction(cosine) ** 2 * (u * u + v * v) * (x * x + y * y)
    assert min(made, refused) > 20


def test_all_weights_lie_in_a_cone_or_in_one_of_those_around_it() -> None:
    rng = np.random.default_rng(6)
    for width in (1, 2, 3, 4):
        normals = rng.normal(size=(width, width))
        around = outside(normals)
        for weights in rng.normal(size=(200, width)):
            inside = bool((normals @ weights > 0).all())
            assert inside + sum(all(row @ weights > 0 for row in rows) for rows in around) == 1


@pytest.mark.parametrize("ended", [True, False])
def test_a_piece_that_a_search_leaves_open_counts_in_the_bound(ended: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends early, or to tolerance, whichever piece it is: what is below its bound was not ruled out."""
    lists, centre, cosine = wide(0)
    region = Region(cosine=cosine, around=around(lists, centre))
    n_pieces = lpmert.minimize(lists.nbest, region=region).counters["pieces"]
    assert n_pieces > 1
    for last in range(1, n_pieces + 1):
        calls: list[int] = []

        def searched(*given: object, last: int = last, calls: list[int] = calls) -> Below:
            calls.append(1)
            found = search_below(*given)  # type: ignore[arg-type]
            return found if len(calls) != last else Below(found.result, -1.0, ended, found.least_met)

        monkeypatch.setattr(wide_cap, "search_below", searched)
        result = lpmert.minimize(lists.nbest, region=region)
        assert len(calls) >= last
        assert not result.status.proved
        assert result.lower_bound is None or result.lower_bound <= -1.0


def test_the_cone_is_told_exactly() -> None:
    cone = Cap(-np.ones(4), 0.5)
    least = Fraction(1, 10**30)
    rim = [Fraction(-1), Fraction(0), Fraction(0), Fraction(0)]  # the cosine is 1/2 itself
    assert cone.contains(rim)
    assert not cone.contains(rim, strictly=True)
    assert cone.contains([Fraction(-1), -least, Fraction(0), Fraction(0)], strictly=True)
    assert not cone.contains([Fraction(-1), least, Fraction(0), Fraction(0)])
    assert not cone.contains([Fraction(1)] * 4)


def test_corners_of_a_simplex_are_as_far_from_each_other() -> None:
    for n in (2, 3, 8):
        products = regular_simplex(n) @ regular_simplex(n).T
        assert np.allclose(products, np.eye(n) * (1 + 1 / (n - 1)) - 1 / (n - 1))


def test_limits_hold_beside_the_cosine() -> None:
    lists, centre, _ = wide(7)
    first = lists.nbest.names[0]
    region = Region(bounds={first: (None, 0)}, cosine=-0.28, around=around(lists, centre))
    result = lpmert.minimize(lists.nbest, region=region)
    assert result.by_name[first] <= 0
    assert min(result.region.values()) >= 0
    assert "cosine>=-0.28" in result.signature


def test_what_a_cosine_below_0_does_not_go_with_says_so() -> None:
    lists, centre, _ = wide(2)
    region = Region(cosine=-0.28, around=around(lists, centre))
    with pytest.raises(MethodError, match="proves nothing"):
        lpmert.minimize(lists.nbest, region=region, method="och")
    with pytest.raises(RegionError, match="time and memory"):
        lpmert.minimize(lists.nbest, region=region, gap=0.1)
    with pytest.raises(RegionError, match="drop first weights, callback"):
        lpmert.minimize(lists.nbest, region=region, callback=lambda _: None)
    with pytest.raises(RegionError, match=r"`solve` and lpmert\.minimize"):
        lpmert.check(lists.nbest, centre, region=region)
    with pytest.raises(RegionError, match="all 0"):
        lpmert.minimize(lists.nbest, region=Region(cosine=-0.28, around=np.zeros(len(centre))))


def test_a_search_that_ends_early_claims_no_bound_above_the_least_loss() -> None:
    for seed in range(6):
        lists, centre, cosine = wide(seed)
        if lists.features.shape[1] > 3:
            continue
        region = Region(cosine=cosine, around=around(lists, centre))
        result = lpmert.minimize(lists.nbest, region=region, time_limit=0)
        least = best_within(lists, centre, cosine)
        assert result.lower_bound is None or result.lower_bound <= least
        assert result.loss >= least
        assert result.status in (Status.OPTIMAL, Status.TIME_LIMIT)
