"""Weights within a cosine of given ones: exact in every engine, by projection."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from oracle import Lists, best_within, decoded, directions_of_the_plane
from problems import METRICS, around, lists_in_a_cap, random_nbest
from searches import many_more

import lpmert
from lpmert import Linear, NBest, Region, RegionError, Status
from lpmert.methods.cells import Cells
from lpmert.methods.lp_mert import LpMert, LpMertSearch
from lpmert.metrics.base import Metric
from lpmert.model.canonical import Canonical
from lpmert.model.presolve import possible_winners
from lpmert.model.problem import Problem
from lpmert.numeric.cone import cone_around, reach_cap
from lpmert.numeric.lists import Cap
from lpmert.search.method import Incumbent, Method

pytestmark = pytest.mark.usefixtures("poor_start")

ENGINES: list[str | Method] = ["choices", "lp-mert", "auto", Cells(), Cells(leaf_lists=1), LpMert(look_ahead=False)]


def test_what_features_may_be_off_or_what_ties_at_the_rim_of_a_half_space_is_kept() -> None:
    """A difference along the centre is 0 at right angles to it, which doubles may take for more."""
    rows, offsets, centre = np.array([[1.0, 0.0], [0.99, 0.0]]), np.array([0, 2]), np.array([1.0, 0.0])
    assert possible_winners(rows, offsets, centre, 0.9).tolist() == [0]
    assert possible_winners(rows, offsets, centre, 0.9, np.array([0.01, 0.01])).tolist() == [0, 1]
    rng = np.random.default_rng(0)
    for _ in range(100):
        centre = rng.normal(size=3)
        centre /= np.linalg.norm(centre)
        rows = np.array([centre * rng.uniform(0.1, 9.0), np.zeros(3)])
        assert possible_winners(rows, offsets, centre, 0.0).tolist() == [0, 1]


def assert_least_within(
    lists: Lists, centre: np.ndarray, cosine: float, method: str | Method, metric: str | Metric = "loss"
) -> None:
    """Hold the optimum within a cosine to enumeration, but for the last digits of a ratio that doubles compute."""
    least = best_within(lists, centre, cosine, *([] if metric == "loss" else [metric.loss]))
    region = Region(cosine=cosine, around=around(lists, centre))
    result = lpmert.minimize(lists.nbest, metric=metric, region=region, method=method)
    assert result.weights @ centre / np.linalg.norm(result.weights) / np.linalg.norm(centre) >= cosine - 1e-12
    assert (result.status, result.lower_bound) == (Status.OPTIMAL, result.loss)
    assert result.loss == (least if metric == "loss" else pytest.approx(least, abs=1e-14))


@pytest.mark.parametrize("seeds", [range(12), *map(many_more, (range(12, 24), range(1000, 1600)))])
def test_every_engine_finds_the_least_loss_within_the_cosine(seeds: range) -> None:
    for seed, method in product(seeds, ENGINES):
        assert_least_within(*lists_in_a_cap(seed), method)


@pytest.mark.parametrize("tiny", [1e-100, 1e-160, 2.0**-1068])
def test_a_feature_that_hardly_varies_decides_within_the_cosine(tiny: float) -> None:
    nbest = NBest([[1, tiny], [0, 0], [-tiny, tiny], [0, 0], [0, -tiny], [0, tiny]], [0, 2, 4, 6], [0, 1, 0, 1, 0, 1])
    for method in ("choices", "cells", "lp-mert"):
        result = lpmert.minimize(nbest, region=Region(cosine=0.5, around=[1.0, 1.0]), method=method)
        # with w1 > 0 either the second or the third list makes its second choice, with w1 < 0 the first one does
        assert (result.status, result.loss, result.lower_bound) == (Status.OPTIMAL, 1.0, 1.0)


@pytest.mark.parametrize("exponent", [-830, -600, -530, 490])
def test_features_of_any_size_have_the_least_loss_within_the_cosine(exponent: int) -> None:
    """The squares of small ones vanish."""
    for seed, method in product(range(6), ("auto", "choices", "cells", "lp-mert")):
        lists, centre, cosine = lists_in_a_cap(seed)
        least = best_within(lists, centre, cosine)
        scaled = replace(lists, features=np.ldexp(lists.features, exponent))
        region = Region(cosine=cosine, around=around(lists, centre))
        result = lpmert.minimize(scaled.nbest, region=region, method=method)
        assert (result.status, result.loss, result.lower_bound) == (Status.OPTIMAL, least, least)


def test_a_feature_far_below_the_others_does_no_harm_within_the_cosine() -> None:
    rng = np.random.default_rng(0)
    rows, losses = rng.normal(size=(24, 2)), rng.integers(0, 5, 24).astype(float)
    region, offsets = Region(cosine=0.5, around=[1.0, 1.0]), range(0, 25, 4)
    found = lpmert.minimize(NBest(np.ldexp(rows, [490, -500]), offsets, losses), region=region)
    assert found.loss <= lpmert.minimize(NBest(rows * [1.0, 0.0], offsets, losses), region=region).loss


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_ratios_within_the_cosine_are_the_least_that_reach_it(name: str) -> None:
    metric, _, counts = METRICS[name]
    for seed in range(14):
        lists, *cap = lists_in_a_cap(seed)
        counted = Lists(lists.features, lists.offsets, counts(np.random.default_rng(seed), lists.offsets.tolist()))
        for method in ("choices", "cells", Cells(leaf_lists=1), Cells(conflict_lists=0)):
            assert_least_within(counted, *cap, method, metric)


def test_a_cosine_and_limits_hold_together() -> None:
    for seed in range(15):
        lists, centre, _ = lists_in_a_cap(seed)
        if (width := lists.features.shape[1]) < 2:
            continue
        centre = np.abs(centre) + 0.1
        region = Region(nonnegative=True, cosine=0.7, around=around(lists, centre))
        limits = np.eye(width)
        widened = Lists(
            np.vstack([lists.features, np.repeat(limits, 2, axis=0) * np.tile([1.0, 0.0], width)[:, None]]),
            np.append(lists.offsets, lists.offsets[-1] + 2 * np.arange(1, width + 1)),
            np.append(lists.losses, np.tile([0.0, 1e6], width)),
        )
        least = best_within(widened, centre, 0.7)
        for method in ("choices", "cells", "lp-mert"):
            result = lpmert.minimize(lists.nbest, region=region, method=method)
            assert (result.loss, result.lower_bound) == (least, least)
            assert (result.weights > 0).all()


def test_a_cosine_beside_an_equation_on_two_weights_is_no_proof() -> None:
    """It takes orthonormal coordinates, which doubles only come near."""
    nbest = NBest(np.random.default_rng(0).integers(-9, 10, (24, 3)), range(0, 25, 4), [0, 1, 2, 3] * 6)
    given = {"cosine": 0.8, "around": {"feature1": 2.0, "feature2": 1.0, "feature3": 1.0}}
    equal = Linear({"feature2": 1.0, "feature3": -1.0}, 0.0, 0.0)
    statuses = [lpmert.minimize(nbest, region=Region(**given, linear=own)).status for own in ([equal], [])]
    assert statuses == [Status.OPTIMAL_TO_TOLERANCE, Status.OPTIMAL]


def test_the_published_test_misses_a_cell_that_reaches_into_the_cap() -> None:
    """The largest w.w0 in a box is at a corner of the box, not at the weights nearest to w0."""
    # The second hypothesis wins where w2 > 0.268 w1, so at w0 = (2, 1) too. Its corner is (1, 1), cosine 0.949 with w0.
    lists = Lists(np.array([[0.0, 0.0], [-0.268, 1.0]]), np.array([0, 2]), np.array([1.0, 0.0]))
    region = Region(cosine=0.96, around={"feature1": 2.0, "feature2": 1.0})
    problem = Problem(lists.nbest, region=region)
    first = {}
    for test in ("exact", "published"):
        start = Incumbent(10**9, np.ones(2), "")
        search = LpMertSearch(LpMert(cosine_test=test, look_ahead=False), problem.canonical, start)
        while search.root is None or not search.root.found:
            search.advance()
        first[test] = problem.canonical.loss_of(search.root.found[0].cost)
    assert first == {"exact": 0.0, "published": 1.0}
    result = lpmert.minimize(lists.nbest, region=region, method=LpMert(cosine_test="published"))
    assert (result.lower_bound, result.status) == (None, Status.HEURISTIC)
    assert lpmert.minimize(lists.nbest, region=region, method="lp-mert").loss == 0.0


@pytest.mark.parametrize("seeds", [range(90, 140), many_more(range(140, 220))])
def test_what_rounding_may_keep_out_of_the_cap_is_not_called_proved(seeds: range) -> None:
    """The second hypothesis wins beyond an angle; the cosine there is that of the cap, but for the last bits."""
    undecided = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        aside = 10.0 ** -rng.integers(3, 7) * rng.normal()
        angle = 10.0 ** -rng.integers(1, 7)
        cosine = float(np.nextafter(np.cos(angle) / np.hypot(1.0, aside), [0.0, 2.0][seed % 2]))
        features = np.array([[0.0, 0.0, 0.0], [-np.sin(angle), np.cos(angle), 0.0]])
        lists = Lists(features, np.array([0, 2]), np.array([1.0, 0.0]))
        centre = np.array([1.0, 0.0, aside])
        region = Region(fixed={"feature3": 0.0}, cosine=cosine, around=around(lists, centre))
        edge = [Fraction(np.cos(angle)), Fraction(np.sin(angle))]
        squares = sum(x * x for x in edge) * sum(Fraction(x) ** 2 for x in centre.tolist())
        attained = edge[0] ** 2 > Fraction(cosine) ** 2 * squares
        result = lpmert.minimize(lists.nbest, region=region, method="choices")
        assert result.status in (Status.OPTIMAL, Status.OPTIMAL_TO_TOLERANCE)
        if result.status is Status.OPTIMAL:
            assert result.loss == (0.0 if attained else 1.0)
        else:
            assert result.lower_bound == 0.0
            assert result.loss == 1.0 or attained
            undecided += 1
    assert undecided < 0.8 * len(seeds)


def test_limits_that_all_look_away_from_the_cap_leave_no_region() -> None:
    rng = np.random.default_rng(3)
    no_lists = np.empty((0, 3)), np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64)
    for _ in range(50):
        rows = rng.normal(size=(3, 3))
        cap = Cap(-rng.random(3) @ rows, 1e-6)  # the nearest weights are 0, in floating point only nearly
        form = Canonical(*no_lists, rows, ("a", "b", "c"), cap)
        with pytest.raises(RegionError, match="the region is empty"):
            _ = form.interior


@pytest.mark.parametrize("width", [2, 3, 5, 8, 14])
@pytest.mark.parametrize("cosine", [0.3, 0.84, 0.999])
def test_the_cone_around_a_cap_contains_it(width: int, cosine: float) -> None:
    rng = np.random.default_rng(width)
    cap = Cap(rng.normal(size=width), cosine)
    rays = cone_around(cap)
    if rays is None:
        assert cosine < 0.5
        return
    across = rng.normal(size=(5000, width))
    across -= np.outer(across @ cap.unit, cap.unit)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    rim = cosine * cap.unit + np.sqrt(1.0 - cosine**2) * across
    assert (np.linalg.solve(rays.T, rim.T) > 0).all()


def test_the_largest_cosine_below_1_leaves_what_wins_at_the_centre() -> None:
    nbest, centre = random_nbest(3, lists=4, size=3, dimension=2), [1.0, 2.0]
    found = lpmert.minimize(nbest, region=Region(cosine=math.nextafter(1.0, 0.0), around=centre))
    assert (found.loss, found.status) == (lpmert.evaluate(nbest, centre).loss, Status.OPTIMAL)


@pytest.mark.parametrize("method", ["auto", "choices", "cells", "sweep", "lp-mert"])
def test_a_cosine_of_nothing_is_half_of_the_plane(method: str) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        features, losses = rng.normal(size=(20, 2)), rng.integers(0, 9, 20).astype(float)
        offsets, centre = np.arange(0, 21, 4), rng.normal(size=2)
        # all choices of the plane, cut where the half of it ends
        cut = np.vstack([features, [0.0, 0.0], centre])
        inside = [w for w in directions_of_the_plane(cut, [*offsets, 22]) if w @ centre > 0.0]
        least = min(losses[decoded(features, offsets, w)].sum() for w in inside)
        region = Region(cosine=0.0, around=centre.tolist())
        found = lpmert.minimize(NBest(features, offsets, losses), method=method, region=region)
        assert (found.status, found.loss) == (Status.OPTIMAL, least)
        assert found.weights @ centre > 0.0


def test_the_cone_is_told_exactly() -> None:
    cone, least = Cap(-np.ones(4), 0.5), Fraction(1, 10**30)
    for second, inside in ((0, True), (-least, True), (least, False)):  # the first cosine is 1/2 itself
        assert cone.contains([Fraction(-1), Fraction(second), Fraction(0), Fraction(0)]) == inside


def test_hypotheses_beaten_on_the_whole_cap_are_dropped_and_no_others() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        features, centre = rng.normal(size=(30, 3)), rng.normal(size=3)
        centre /= np.linalg.norm(centre)
        cosine, size = float(rng.choice([0.6, 0.9, 0.99])), float(rng.choice([1.0, 2.0**-560, 2.0**-1040]))
        kept = possible_winners(features * size, np.array([0, 30]), centre, cosine)  # squares of small numbers vanish
        turns = np.linspace(0, 2 * np.pi, 4000, endpoint=False)
        circle = np.stack([np.cos(turns), np.sin(turns)], axis=1) @ np.linalg.svd(centre[None, :])[2][1:]
        scores = np.vstack([cosine * centre + np.sqrt(1 - cosine**2) * circle, centre]) @ features.T
        assert {*scores.argmax(axis=1).tolist()} <= {*kept.tolist()}
        for i in {*range(30)} - {*kept.tolist()}:
            assert any((scores[:, j] > scores[:, i]).all() for j in kept)


def test_reaching_the_cap_gives_weights_inside_or_a_core() -> None:
    rng, seen = np.random.default_rng(2), []
    while len(seen) < 60:
        rows, cap = rng.normal(size=(3, 3)), Cap(rng.normal(size=3), 0.8)
        inside = np.linalg.solve(rows, np.ones(3))
        weights, core = reach_cap(rows, cap, inside)
        assert (weights is None) != (core is None)
        seen.append(weights is not None)
        if weights is not None:
            assert (rows @ weights > 0).all()
            assert cap.contains(weights)
        else:
            assert reach_cap(rows[core], cap, inside)[0] is None
    assert 10 < sum(seen) < 50
