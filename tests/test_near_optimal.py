"""Ranges of near-optimal weights: against every interval of two weights in fractions, and against drawn weights."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import inf, isfinite
from typing import Any

import numpy as np
import pytest

import lpmert
from lpmert import DataError, MethodError, NBest, Region
from lpmert.search.driver import Below, search_below


def _lists(seed: int, n_features: int, n_lists: int = 12) -> NBest:
    """Lists on which the first feature matters most, so that its sign is sure."""
    rng = np.random.default_rng(seed)
    features = rng.integers(-20, 21, (4 * n_lists, n_features)).astype(float)
    worth = features @ np.linspace(1.0, -0.4, n_features) + rng.normal(size=4 * n_lists) * 4.0
    losses = np.clip(np.round(3.0 - worth / 8.0), 0.0, 9.0)
    return NBest(features, list(range(0, 4 * n_lists + 1, 4)), losses, names=["a", "b", "c"][:n_features])


def _exact(value: float) -> Fraction | float:
    return Fraction(value) if isfinite(value) else value


def _near(
    lists: NBest, first: int, most: float, least: float = -inf, largest: float = inf
) -> tuple[Fraction | float, Fraction | float]:
    """The least and the largest x within limits of all weights (first, x) with at most this loss, in fractions."""
    features, losses = lists.features, lists.statistics.ravel()
    rows = [[(int(a), int(b)) for a, b in features[i:j]] for i, j in pairwise(lists.offsets.tolist())]
    ties = {
        Fraction(first * (a - c), d - b) for one in rows for k, (a, b) in enumerate(one) for c, d in one[:k] if b != d
    }
    inside_limits = sorted(one for one in ties if least < one < largest)
    ends: list[Fraction | float] = [_exact(least), *inside_limits, _exact(largest)]
    near = []
    for low, high in pairwise(ends):
        inside = Fraction(high) - 1 if low == -inf else Fraction(low) + 1 if high == inf else Fraction(low + high) / 2
        cost = 0.0
        for begin, one in zip(lists.offsets.tolist(), rows, strict=False):
            scores = [first * a + inside * b for a, b in one]
            cost += losses[begin + scores.index(max(scores))]
        if cost <= most:
            near.append((low, high))
    return near[0][0], near[-1][1]


@pytest.mark.parametrize("slack", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("seed", range(6))
def test_the_range_of_the_second_of_two_weights_is_that_of_all_intervals(seed: int, slack: float) -> None:
    lists = _lists(seed, 2)
    found = lpmert.near_optimal(lists, slack=slack, relative_to="a", precision=1e-3)
    least, largest = _near(lists, 1 if found["a"].weight > 0 else -1, found.optimum.loss + slack)
    assert found.complete
    (low, high), (outer_low, outer_high) = found["b"].attained, found["b"].possible
    assert outer_low <= least <= low <= high <= largest <= outer_high
    if least == -inf:
        assert low == outer_low == -inf
    else:
        assert low - outer_low <= 1e-3 * max(abs(low), abs(found["b"].weight) / 10)
    if largest == inf:
        assert high == outer_high == inf
    assert found["b"].sign in ({1} if least > 0 else {-1} if largest < 0 else {None})


@pytest.mark.parametrize("seed", range(4))
def test_ranges_end_where_the_region_does_and_losses_may_be_fractions(seed: int) -> None:
    whole = _lists(seed, 2)
    lists = NBest(whole.features, whole.offsets, whole.statistics / 4.0, names=whole.names)
    free = lpmert.near_optimal(lists, slack=0.7, relative_to="a", precision=1e-3)
    middle, sign = free["b"].weight, 1 if free["a"].weight > 0 else -1
    for limits in ((middle - 0.01, middle + 0.02), (middle - 9.0, middle + 0.01)):
        region = Region(bounds={"b": limits}, fixed={"a": float(sign)})
        found = lpmert.near_optimal(lists, slack=0.7, region=region, precision=1e-3)
        assert found.scale == f"a = {sign}"
        least, largest = _near(lists, sign, found.most, *limits)
        (low, high), (outer_low, outer_high) = found["b"].attained, found["b"].possible
        assert outer_low <= least <= low <= high <= largest <= outer_high
        assert low - outer_low <= 2e-3 * max(abs(low), abs(middle) / 10)
        assert outer_high - high <= 2e-3 * max(abs(high), abs(middle) / 10)


def test_the_largest_weight_of_a_sure_sign_is_the_scale_with_its_sign() -> None:
    lists = _lists(0, 2)
    mirrored = NBest(-lists.features, lists.offsets, lists.statistics, names=lists.names)
    for one, sign in ((lists, 1), (mirrored, -1)):
        found = lpmert.near_optimal(one, slack=0.0)
        assert found.scale == f"a = {sign}"
        assert found["a"].weight == sign
        assert [line.split()[0] for line in str(found).splitlines()[:2]] == ["a", "b"]
        assert str(found).endswith(f"; {found.scale}")
        assert abs(found["b"].weight) < 1.0
        assert found["b"].sign is not None
        assert _near(one, sign, found.most)[0] <= found["b"].attained[0]
        assert found["b"].attained[1] <= _near(one, sign, found.most)[1]
        fixed = lpmert.near_optimal(one, slack=0.0, region=Region(fixed={"b": 0.0}))
        assert fixed.scale == f"a = {sign}"


def test_a_feature_that_tells_nothing_apart_has_any_weight() -> None:
    lists = _lists(1, 2)
    idle = NBest(
        np.column_stack([lists.features, np.ones(48)]), lists.offsets, lists.statistics, names=["a", "b", "idle"]
    )
    found = lpmert.near_optimal(idle, slack=1.0, relative_to="a")["idle"]
    assert found.attained == found.possible == (-inf, inf)
    assert found.sign is None


def test_a_share_of_a_gain_is_one_of_its_size() -> None:
    lists = _lists(3, 2)
    gains = NBest(lists.features, lists.offsets, lists.statistics - 9.0, names=lists.names)
    found = lpmert.near_optimal(gains, slack="10%", relative_to="a")
    assert found.optimum.loss < 0.0
    assert found.most == found.optimum.loss + abs(found.optimum.loss) / 10.0


def test_whoever_stops_it_gets_ranges_that_hold_and_are_not_complete() -> None:
    found = lpmert.near_optimal(_lists(1, 2), slack=1.0, relative_to="a", on_stage=lambda *_: True)
    assert not found.complete
    assert found["b"].possible == (-inf, inf)


def test_a_bound_that_near_optimal_weights_reach_narrows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches that end early, with a bound at the largest loss that counts as near."""
    lists = _lists(1, 2)
    most = lpmert.minimize(lists).loss + 1.0
    asked: list[float] = []

    def stopped(*given: Any) -> Below:
        asked.append(given[1])
        return search_below(*given) if len(asked) == 1 else Below(None, most, False, inf)

    monkeypatch.setattr("lpmert.rashomon.search_below", stopped)
    found = lpmert.near_optimal(lists, slack=1.0, relative_to="a")
    assert not found.complete
    assert found["b"].possible == (-inf, inf)
    assert len(asked) == 3
    with pytest.raises(MethodError, match="the sign of 'a' is not sure"):
        lpmert.near_optimal(lists, slack=1.0, relative_to="a")


@pytest.mark.parametrize(
    "region", [None, Region(nonnegative=True), Region(total=1.0), Region(bounds={"b": (None, 0.0)})]
)
def test_no_drawn_weights_near_the_optimum_lie_outside_of_what_is_possible(region: Region | None) -> None:
    lists = _lists(7, 3, 20)
    found = lpmert.near_optimal(lists, slack=2.0, region=region)
    fixed = found.scale.split(" = ")[0]
    rng, problem = np.random.default_rng(0), lpmert.Problem(lists, region=region)
    near = 0
    for _ in range(600):
        drawn = found.optimum.weights + rng.normal(size=3) * rng.choice([0.05, 0.3])
        drawn *= (1.0 / drawn.sum()) if fixed == "sum" else found[fixed].weight / drawn[lists.names.index(fixed)]
        at = problem.evaluate(drawn)
        if at.loss > found.most or at.tied_lists or not problem.inside(drawn) or not np.isfinite(drawn).all():
            continue
        if fixed == "sum" or np.sign(drawn[lists.names.index(fixed)]) == np.sign(found[fixed].weight):
            near += 1
            for name, value in zip(lists.names, drawn.tolist(), strict=True):
                low, high = found[name].possible
                assert low - 1e-12 <= value <= high + 1e-12
    assert near > 10
    for one in found.ranges:
        assert one.possible[0] <= one.attained[0] <= one.weight <= one.attained[1] <= one.possible[1]




def test_a_share_is_one_of_the_optimum() -> None:
    share, same = (lpmert.near_optimal(_lists(3, 2), slack=slack, relative_to="a") for slack in ("50%", 0.0))
    assert share.most == 1.5 * share.optimum.loss > same.most


def test_identical_hypotheses_count_as_the_ties_say() -> None:
    """As if those that do not stand for them were not there."""
    lists = _lists(4, 2)
    losses = lists.statistics.ravel()
    twice, ends = np.repeat(np.arange(len(losses)), 2), [2 * end for end in lists.offsets.tolist()]
    worse = np.where(np.arange(2 * len(losses)) % 2 == 1, losses[twice] + np.arange(2 * len(losses)) % 3, losses[twice])
    both = NBest(lists.features[twice], ends, worse, names=lists.names)
    alone = NBest(lists.features, lists.offsets, np.maximum(worse[::2], worse[1::2]), names=lists.names)
    first, other = (
        lpmert.near_optimal(data, slack=1.0, relative_to="a", ties="worst").to_dict() for data in (both, alone)
    )
    assert (first["ranges"], first["most"]) == (other["ranges"], other["most"])
    assert lpmert.near_optimal(both, slack=1.0, relative_to="a").most < first["most"]


@pytest.mark.parametrize("region", [Region(fixed={"a": 2.0}), Region(total=1.0)])
def test_weights_that_a_thin_cell_keeps_out_of_scale_count_in_scale(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = _lists(7, 3)
    wanted = lpmert.near_optimal(lists, slack=1.0, region=region)

    def out_of_scale(*arguments: object) -> Below:
        found = search_below(*arguments)
        return replace(found, result=None if found.result is None else found.result.times(0.25))

    monkeypatch.setattr("lpmert.rashomon.search_below", out_of_scale)
    for one, other in zip(wanted.ranges, lpmert.near_optimal(lists, slack=1.0, region=region).ranges, strict=True):
        assert one.attained == pytest.approx(other.attained, rel=1e-12)
        assert one.possible == pytest.approx(other.possible, rel=1e-12)


def test_time_ends_it_with_ranges_that_hold() -> None:
    lists = _lists(5, 3, 60)
    found = lpmert.near_optimal(lists, slack=1.0, relative_to="a", time_limit=0.6, precision=1e-6)
    assert found.seconds < 5.0
    long = lpmert.near_optimal(lists, slack=1.0, relative_to="a", precision=1e-2)
    for name in ("b", "c"):
        assert found[name].possible[0] <= long[name].attained[0]
        assert long[name].attained[1] <= found[name].possible[1]


def test_what_cannot_be_asked_is_said() -> None:
    lists = _lists(1, 3)
    for slack in (-1, "-1%", "many", None, inf, "inf%"):
        with pytest.raises(DataError, match="0 or more, or a share of the optimum such as 1%"):
            lpmert.near_optimal(lists, slack=slack)
    for precision in (0.0, 1.0):
        with pytest.raises(DataError, match="precision must be between 0 and 1"):
            lpmert.near_optimal(lists, precision=precision)
    with pytest.raises(DataError, match="no feature 'z'"):
        lpmert.near_optimal(lists, relative_to="z")
    with pytest.raises(MethodError, match="the region fixes the scale, sum = 1"):
        lpmert.near_optimal(lists, relative_to="a", region=Region(total=1.0))
    with pytest.raises(MethodError, match="proves nothing"):
        lpmert.near_optimal(lists, method="och")
    with pytest.raises(MethodError, match="no weight has a sure sign"):
        lpmert.near_optimal(lists, slack=1e6)
