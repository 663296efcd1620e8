"""Regions: limits on the weights are kept to by every method, and contradictions are named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import gaussian_lists
from refusals import refused

import lpmert
from lpmert import DataError, Linear, MethodError, Region, RegionError, Result, Status
from lpmert.model.canonical import CallerWeights
from lpmert.model.problem import Problem
from lpmert.search.report import scaled_evaluation

pytestmark = pytest.mark.usefixtures("poor_start")

LISTS = gaussian_lists(0, lists=10, hypotheses=4, features=3).nbest


def test_an_optimum_at_a_limit_tells_the_limit_and_its_distance_also_when_saved(tmp_path: Path) -> None:
    nbest = lpmert.NBest([[0, 0], [1, -1], [0, 0], [-1, 3]], [0, 2, 4], [1, 0, 1, 0])
    free = lpmert.minimize(nbest)  # 0 for w1 > w2 and 3 w2 > w1
    assert (free.loss, dict(free.region), free.limiting) == (0.0, {}, ())
    result, narrower = (
        lpmert.minimize(nbest, region=Region(fixed={"feature1": 1.0}, bounds={"feature2": (None, most)}))
        for most in (0.5, 0.25)
    )
    assert result.limiting == ("feature2 <= 0.5",)
    first, second = result.weights
    assert result.region["feature2 <= 0.5"] == pytest.approx((0.5 * first - second) / np.hypot(1, 0.5))
    assert result.region["feature2 <= 0.5"] > 0
    result.save(tmp_path / "result.json")
    loaded = Result.load(tmp_path / "result.json")
    assert (loaded.region, loaded.limiting) == (result.region, result.limiting)
    assert "region:feature2:..0.5;feature1=1.0" in result.signature
    assert narrower.loss == 1.0


def region(method: str = "auto", **settings: Any) -> Callable[[], Result]:
    return lambda: lpmert.minimize(LISTS, region=Region(**settings), method=method)


def equal(value: float, **coefficients: float) -> Linear:
    return Linear(coefficients, value, value)


ONLY_ZERO = "only zero weights fulfil feature1 = 1, "
# fmt: off
test_a_region_without_sense_or_method_is_refused_with_its_reason = refused([
    *((MethodError, "cosine", region(name, cosine=0.9, around=[1, 1, 1])) for name in ("exhaustive", "groups", "mip")),
    *((RegionError, *row) for row in [
        ("feature1 >= 0.5: .* reference", region(bounds={"feature1": (0.5, 1.0)})),
        ("no feature 'nothing'; the features are feature1, feature2, feature3", region(bounds={"nothing": (0, None)})),
        ("inside: .*feature1 >= 0", region(nonnegative=True, linear=[Linear({"feature1": 1, "feature2": 1}, upper=0)])),
        ("feature1 is fixed to -1", region(nonnegative=True, fixed={"feature1": -1.0})),
        ("only zero weights", region(fixed={"feature1": 0.0, "feature2": 0.0, "feature3": 0.0})),
        ("above the most", region(bounds={"feature1": (2.0, 1.0)}, fixed={"feature2": 1.0})),
        ("finite", region(bounds={"feature1": (float("nan"), None)})),
        ("finite.*inf", region(bounds={"feature1": (float("inf"), None)})),
        ("finite", region(fixed={"feature1": 10**400})),
        ("give both", region(cosine=0.5)),
        *(("at least 0, where the region is convex, and below 1", region(cosine=cosine, around=[1.0, 0.0, 0.0]))
          for cosine in (-0.28, 1.0, 1.5)),
        ("feature2, feature3", region(cosine=0.5, around={"feature1": 1.0})),
        ("feature1 >= 0 the cosine reaches", region(nonnegative=True, cosine=0.9, around=[-1.0, 0.1, 0.0])),
        ("no coefficient", region(linear=[Linear({}, lower=0.0)])),
        (ONLY_ZERO, region(fixed={"feature1": 1.0}, linear=[equal(2.0, feature1=1.0)])),
        (ONLY_ZERO, region(fixed={"feature1": 1.0}, linear=[equal(1, feature2=1), equal(3, feature1=1, feature2=1)])),
        ("lpmert.Region", lambda: lpmert.minimize(LISTS, region={"feature1": 1.0})),
    ]),
])
# fmt: on


@pytest.mark.parametrize("method", ["annealing", "msr", "grid", "random", "cells"])
def test_comparators_keep_to_a_region_that_leaves_nothing_to_choose(method: str) -> None:
    nbest, fixed = lpmert.NBest([[2, 1], [2, 1]], [0, 2], [1, 1]), {"feature1": -1.0}
    result = lpmert.minimize(nbest, region=Region(fixed={**fixed, "feature2": 0.0}), method=method)
    assert result.weights.tolist() == [-1.0, 0.0]
    with pytest.raises(RegionError, match="feature1 = -1"):
        lpmert.minimize(nbest, region=Region(fixed=fixed, linear=[Linear({"feature1": 1}, lower=2)]), method=method)


def test_check_says_whether_weights_are_inside() -> None:
    region = Region(nonnegative=True)
    assert lpmert.check(LISTS, [1.0, 0.0, 1.0], region=region).inside
    outside, loss = lpmert.check(LISTS, [1.0, -1.0, 1.0], region=region), lpmert.evaluate(LISTS, [1.0, -1.0, 1.0]).loss
    assert (outside.inside, outside.wins_by_ties, outside.loss) == (False, False, loss)
    with pytest.raises(DataError):
        lpmert.check(LISTS, [1.0], region=region)


FIXED = Region(fixed={"feature1": 1.0, "feature2": 0.0})
HALVES = Region(fixed={"feature1": 1.0, "feature2": 0.3})
LIMITED = Region(fixed={"feature1": 1.0}, bounds={"feature2": (None, 2.0)})


@pytest.mark.parametrize(
    ("region", "weights", "inside", "strictly"),
    [
        (Region(nonnegative=True), [1.0, 2.0, 1.0], True, True),
        (Region(nonnegative=True), [1.0, 0.0, 1.0], True, False),
        (Region(nonnegative=True), [1.0, -5e-324, 1.0], False, False),
        (Region(nonnegative=True), [0.0, 0.0, 0.0], False, False),
        (LIMITED, [0.5, 0.75, -7.0], True, True),
        (LIMITED, [0.5, 1.0, -7.0], True, False),
        (LIMITED, [0.5, 1.0 + 2.0**-52, -7.0], False, False),
        (LIMITED, [0.0, -1.0, 1.0], False, False),
        (LIMITED, [-0.5, -1.25, 1.0], False, False),
        (Region(nonnegative=True, fixed={"feature2": 0.0}), [1.0, 0.0, 1.0], True, True),
        (Region(nonnegative=True, fixed={"feature2": 0.0}), [1.0, 1e-300, 1.0], False, False),
        (FIXED, [1.0, 0.0, 5.0], True, True),
        (FIXED, [1.0, 5.0, 5.0], False, False),
        (FIXED, [0.0, 0.0, 1.0], False, False),  # feature1 = 1 at no scale
        (HALVES, [10.0, 3.1, 1.0], False, False),
        (Region(cosine=0.5, around=[1.0, 0.0, 0.0]), [1.0, 1.0, 0.0], True, True),
        (Region(cosine=0.5, around=[1.0, 0.0, 0.0]), [1.0, 2.0, 0.0], False, False),
    ],
)
def test_edges_are_inside_but_not_strictly(region: Region, weights: list[float], inside: bool, strictly: bool) -> None:
    problem = Problem(LISTS, region=region)
    given = CallerWeights(np.array(weights))
    assert problem.inside(given) is inside
    assert problem.inside(given, strictly=True) is strictly


def test_weights_fulfil_the_equations_where_no_feature_is_left_to_choose() -> None:
    nbest = lpmert.NBest([[0, 3], [1, 3]], [0, 2], [1, 0])
    result = lpmert.minimize(nbest, region=Region(fixed={"feature1": 0.0}))
    assert (result.weights.tolist(), result.loss, result.status) == ([0.0, 1.0], 1.0, Status.OPTIMAL)


@pytest.mark.parametrize("coefficient", [1e308, 1e300, 1e-300, 5e-324])
@pytest.mark.parametrize("value", [1e308, 1024.0, 2.0**-10])
def test_limits_of_any_size_neither_overflow_nor_vanish(coefficient: float, value: float) -> None:
    region = Region(fixed={"feature1": value}, linear=[Linear({"feature2": coefficient}, lower=coefficient)])
    plain = Region(bounds={"feature1": (0, None)}, linear=[Linear({"feature2": value, "feature1": -1.0}, lower=0)])
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        result = lpmert.minimize(LISTS, region=region)
    assert result.loss == lpmert.minimize(LISTS, region=plain).loss
    assert 0 < result.weights[0] < result.weights[1] * value
    assert result.region[f"feature2={coefficient:g} >= {coefficient:g}"] > 0


def test_no_scale_moves_weights_onto_a_limit() -> None:
    """Scaled to what is fixed, weights just inside a limit may round to it: then they stay as they are."""
    nbest = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [0, 1, 1, 0], names=["a", "b"])
    region = Region(fixed={"b": -1.0}, bounds={"a": (None, 1.2)})
    problem = Problem(nbest, region=region)
    rounded = 0
    for size in np.random.default_rng(0).random(2000):
        weights = np.array([np.nextafter(1.2 * size, 0.0), -size])
        if problem.inside(weights, strictly=True):
            rounded += weights[0] / size == 1.2
            kept, _ = scaled_evaluation(problem, weights)
            assert problem.inside(kept, strictly=True)
    assert rounded > 0


@pytest.mark.parametrize("method", ["choices", "cells", "auto"])
def test_weights_keep_away_from_limits_on_features_far_larger_than_what_lists_differ_by(method: str) -> None:
    """The middle of the cell in the scale of the lists' one difference is on the edge of the limits."""
    lists = lpmert.NBest([[1, 2, 4e-21], [1, 2, 1.2e-20]], [0, 2], [[0], [1]], names=["a", "b", "c"])
    above = Linear({"a": 1, "b": -3, "c": -2}, lower=0)
    region = Region(fixed={"a": 0.3}, bounds={"b": (None, -0.32), "c": (-3, None)}, linear=[above])
    result = lpmert.minimize(lists, region=region, method=method)
    assert (result.status, result.loss) == (Status.OPTIMAL, 0.0)
    assert min(*result.region.values(), result.cell.margin) > 0.1
