"""Near-optimal weights: ranges and cones, against intervals and arcs in fractions, and against drawn weights."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import count, pairwise, product
from math import inf, isinf, sqrt
from typing import Any

import numpy as np
import oracle
import pytest
from refusals import refused
from searches import many_more

import lpmert
from lpmert import DataError, LimitError, MethodError, NBest, NearOptimal, Problem, RashomonSet, Region, Status
from lpmert.errors import FloatArray
from lpmert.rashomon import _Precision, near_cones
from lpmert.search.driver import Below, search_below

Arc = tuple[Fraction, Fraction]
CORNERS = ((1, 0), (0, 1), (-1, 0), (0, -1))


def _turn(x: float, y: float) -> Fraction:
    """The place of a direction on the way around the corners of all weights with L1 norm 1, from 0 to 4."""
    quarter = (0 if y >= 0 else 3) if x > 0 else (1 if y > 0 else 2 if x < 0 else 3)
    a, b = abs(Fraction(x)), abs(Fraction(y))
    return quarter + (a if quarter % 2 else b) / (a + b)


def _weights_at(turn: Fraction) -> tuple[Fraction, Fraction]:
    quarter, part = divmod(turn, 1)
    (a, b), (c, d) = CORNERS[quarter % 4], CORNERS[(quarter + 1) % 4]
    return (1 - part) * a + part * c, (1 - part) * b + part * d


def _arcs(lists: NBest) -> Iterator[tuple[Arc, float, list[int]]]:
    """Every arc between directions in which hypotheses tie, or axes, with its loss and winners."""
    rows = [lists.features[i:j].astype(int).tolist() for i, j in pairwise(lists.offsets.tolist())]
    ties = {_turn(d - b, a - c) for one in rows for a, b in one for c, d in one if (a, b) != (c, d)}
    losses = lists.statistics.ravel()
    for arc in pairwise(sorted({*ties, *map(Fraction, range(5))})):
        x, y = _weights_at(sum(arc, Fraction(0)) / 2)
        scores = [[x * p + y * q for p, q in one] for one in rows]
        winners = [one.index(max(one)) for one in scores]
        yield arc, losses[lists.offsets[:-1] + winners].sum(), winners


def _arcs_of(cones: FloatArray) -> list[Arc]:
    """Cones of two weights, each in one quadrant, as arcs."""
    ends = [sorted(_turn(*ray) for ray in cone) for cone in cones.tolist()]
    return [(a, b) if b - a <= 1 else (b, Fraction(4)) for a, b in ends]


def _common(one: Arc, other: Arc) -> Fraction:
    return max(Fraction(0), min(one[1], other[1]) - max(one[0], other[0]))


def _sure(seed: int, n_features: int, n_lists: int = 12) -> NBest:
    """Lists on which the first feature matters most, so that the sign of its weight is proved."""
    rng = np.random.default_rng(seed)
    features = rng.integers(-20, 21, (4 * n_lists, n_features)).astype(float)
    worth = features @ np.linspace(1.0, -0.4, n_features) + rng.normal(size=4 * n_lists) * 4.0
    losses = np.clip(np.round(3.0 - worth / 8.0), 0.0, 9.0)
    return NBest(features, range(0, 4 * n_lists + 1, 4), losses, names=list("abcde"[:n_features]))


def _assert_range(lists: NBest, found: NearOptimal, sign: int, least: float = -inf, largest: float = inf) -> None:
    """Check the range of the second weight within limits beside a first one of this sign, against all arcs."""
    ends: list[float | Fraction] = []
    for arc, loss, _ in _arcs(lists):
        if loss <= found.most and sign * sum(_weights_at(end)[0] for end in arc) > 0:
            ratios = [Fraction(sign * y, x) if x else float(y) * inf for x, y in map(_weights_at, arc)]
            if min(ratios) < largest and least < max(ratios):
                ends += [max(min(ratios), least), min(max(ratios), largest)]
    one = found["b"]
    assert found.complete
    assert one.possible[0] <= min(ends) <= one.attained[0] <= one.attained[1] <= max(ends) <= one.possible[1]
    for attained, possible in zip(one.attained, one.possible, strict=True):
        reach = 1e-2 * max(abs(attained), abs(one.weight) / 10)
        assert attained == possible if isinf(possible) else abs(attained - possible) <= reach
    assert isinf(one.possible[0]) == (min(ends) == -inf)
    assert isinf(one.possible[1]) == (max(ends) == inf)
    assert one.sign in ({1} if min(ends) > 0 else {-1} if max(ends) < 0 else {None})


@pytest.mark.parametrize("slack", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("seed", range(6))
def test_the_range_of_the_second_of_two_weights_is_that_of_all_intervals(seed: int, slack: float) -> None:
    found = lpmert.near_optimal(_sure(seed, 2), slack=slack, relative_to="a")
    assert found.most == found.optimum.loss + slack
    _assert_range(_sure(seed, 2), found, 1 if found["a"].weight > 0 else -1)


@pytest.mark.parametrize("seed", range(4))
def test_ranges_end_where_the_region_does_and_losses_may_be_fractions(seed: int) -> None:
    whole = _sure(seed, 2)
    lists = NBest(whole.features, whole.offsets, whole.statistics / 4.0, names=whole.names)
    free = lpmert.near_optimal(lists, slack=0.7, relative_to="a")
    middle, sign = free["b"].weight, 1 if free["a"].weight > 0 else -1
    for limits in ((middle - 0.01, middle + 0.02), (middle - 9.0, middle + 0.01)):
        region = Region(bounds={"b": limits}, fixed={"a": float(sign)})
        found = lpmert.near_optimal(lists, slack=0.7, region=region)
        assert found.scale == f"a = {sign}"
        _assert_range(lists, found, sign, *limits)


def test_a_range_is_narrowed_beside_a_tie_at_the_tangent_of_half_a_right_angle() -> None:
    """The optimum is in the middle, at b = tan(pi / 8), so that a search from b = 1 on would decide nothing."""
    lists = NBest([[0, 1], [1, 0], [1, 0], [0, 0]], [0, 2, 4], [[1], [0], [0], [3]], names=["a", "b"])
    region = Region(nonnegative=True)
    found = lpmert.near_optimal(lists, slack=0.5, relative_to="a", region=region)
    assert (found["b"].weight, found.complete) == (pytest.approx(sqrt(2) - 1), True)
    assert found["b"].attained[1] <= 1.0 <= found["b"].possible[1] <= 1.02


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_weight_of_a_sure_sign_is_the_scale_with_its_sign(sign: int) -> None:
    plain = _sure(0, 2)
    lists = NBest(sign * plain.features, plain.offsets, plain.statistics, names=plain.names)
    found = lpmert.near_optimal(lists, slack=0.0)
    assert (found.scale, found["a"].weight) == (f"a = {sign}", sign)
    assert abs(found["b"].weight) < 1.0
    _assert_range(lists, found, sign)
    assert lpmert.near_optimal(lists, slack=0.0, region=Region(fixed={"b": 0.0})).scale == f"a = {sign}"


def test_a_feature_that_tells_nothing_apart_has_any_weight() -> None:
    lists = _sure(1, 2)
    features = np.column_stack([lists.features, np.ones(48)])
    idle = NBest(features, lists.offsets, lists.statistics, names=["a", "b", "idle"])
    found = lpmert.near_optimal(idle, slack=1.0, relative_to="a")["idle"]
    assert (found.attained, found.possible, found.sign) == ((-inf, inf), (-inf, inf), None)


def test_a_bound_that_near_optimal_weights_reach_narrows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches that end early, with a bound at the largest loss that counts as near."""
    lists, asked = _sure(1, 2), count(1)
    most = lpmert.minimize(lists).loss + 1.0
    stopped = Below(None, most, Status.TIME_LIMIT, inf)
    monkeypatch.setattr("lpmert.api.search_below", lambda *given: search_below(*given) if next(asked) == 1 else stopped)
    found = lpmert.near_optimal(lists, slack=1.0, relative_to="a")
    assert (found.complete, found["b"].possible) == (False, (-inf, inf))
    assert next(asked) == 4
    for settings in ({"relative_to": "a"}, {"time_limit": 0.0}):
        with pytest.raises(LimitError, match="the search ended before a weight had a proved sign"):
            lpmert.near_optimal(lists, slack=1.0, **settings)


@pytest.mark.parametrize(
    "region", [None, Region(nonnegative=True), Region(total=1.0), Region(bounds={"b": (None, 0.0)})]
)
def test_no_drawn_weights_near_the_optimum_lie_outside_of_what_is_possible(region: Region | None) -> None:
    lists = _sure(7, 3, 20)
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


@pytest.mark.parametrize(("gain", "slack", "part"), [(0.0, "50%", 2.0), (9.0, "10%", 10.0)])
def test_a_slack_in_percent_is_a_share_of_the_optimum(gain: float, slack: str, part: float) -> None:
    lists = _sure(3, 2)
    turned = NBest(lists.features, lists.offsets, lists.statistics - gain, names=lists.names)
    found = lpmert.near_optimal(turned, slack=slack, relative_to="a")
    assert (found.optimum.loss < 0.0) == (gain > 0.0)
    assert found.most == found.optimum.loss + abs(found.optimum.loss) / part


def test_identical_hypotheses_count_as_the_ties_say() -> None:
    """As if the hypotheses that do not represent them were not there."""
    lists = _sure(4, 2)
    losses = np.repeat(lists.statistics.ravel(), 2)
    losses[1::2] += np.arange(1, len(losses), 2) % 3
    both = NBest(np.repeat(lists.features, 2, axis=0), 2 * lists.offsets, losses, names=lists.names)
    alone = NBest(lists.features, lists.offsets, losses[1::2], names=lists.names)
    first, other = (lpmert.near_optimal(data, slack=1.0, relative_to="a", ties="worst") for data in (both, alone))
    assert (first.ranges, first.most) == (other.ranges, other.most)
    assert lpmert.near_optimal(both, slack=1.0, relative_to="a").most < first.most


@pytest.mark.parametrize("region", [Region(fixed={"a": 2.0}), Region(total=1.0)])
def test_weights_a_thin_cell_keeps_out_of_scale_count_in_scale(region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = _sure(7, 3)
    wanted = lpmert.near_optimal(lists, slack=1.0, region=region)

    def out_of_scale(*arguments: object) -> Below:
        found = search_below(*arguments)
        return replace(found, result=None if found.result is None else found.result.times(0.25))

    monkeypatch.setattr("lpmert.api.search_below", out_of_scale)
    found = lpmert.near_optimal(lists, slack=1.0, region=region)
    for one, other in zip(wanted.ranges, found.ranges, strict=True):
        assert (*one.attained, *one.possible) == pytest.approx((*other.attained, *other.possible), rel=1e-12)


@pytest.mark.parametrize("settings", [{"time_limit": 0.6}, {"on_stage": lambda *_: True}])
def test_ranges_of_a_search_that_is_ended_are_valid(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    lists = _sure(5, 3, 60)
    whole = lpmert.near_optimal(lists, slack=1.0, relative_to="a")
    monkeypatch.setattr("lpmert.rashomon._PRECISION", 1e-9)
    found = lpmert.near_optimal(lists, slack=1.0, relative_to="a", **settings)
    assert found.seconds < 5.0
    assert not found.complete
    for one, other in ((found[name].possible, whole[name].attained) for name in ("b", "c")):
        assert one[0] <= other[0] <= other[1] <= one[1]


def _lists(seed: int, n_features: int, n_lists: int = 8, *, whole: bool = True) -> NBest:
    rng = np.random.default_rng([seed, n_features])
    shape = (4 * n_lists, n_features)
    features = rng.integers(-9, 10, shape).astype(float) if whole else rng.normal(size=shape)
    losses = rng.integers(0, 6, 4 * n_lists).astype(float)
    return NBest(features, range(0, 4 * n_lists + 1, 4), losses, names=list("abcd"[:n_features]))


def _set(lists: NBest, slack: float, region: Region | None = None, **settings: Any) -> tuple[float, RashomonSet]:
    """The largest near-optimal loss, and the set of all near-optimal weights, without the box of their ranges."""
    most = lpmert.minimize(lists, region=region).loss + slack
    return most, near_cones(Problem(lists, region=region), most, np.full((2, len(lists.names)), inf), **settings)


@pytest.mark.parametrize("slack", [0.0, 2.0, 5.0, 1e9])
@pytest.mark.parametrize("seed", range(5))
def test_arcs_of_two_weights_are_inside_or_outside_by_their_loss(seed: int, slack: float) -> None:
    lists = _lists(seed, 2)
    most, found = _set(lists, slack, share=0.01)
    arcs = list(_arcs(lists))
    assert (found.complete, most) == (True, min(loss for _, loss, _ in arcs) + slack)
    near = [(arc, winners) for arc, loss, winners in arcs if loss <= most]
    inner, left = _arcs_of(found.inner), _arcs_of(found.open)
    assert not any(_common(arc, one) for arc, loss, _ in arcs if loss > most for one in inner)
    for arc, _ in near:
        assert sum(_common(arc, one) for one in (*inner, *left)) == arc[1] - arc[0]
    low, high = found.share
    assert low - 1e-12 <= sum(b - a for (a, b), _ in near) / 4 <= high + 1e-12
    assert high - low <= 0.01 * high + 1e-12
    parts = [float(sum(b - a for a, b in some)) / 4 for some in (inner, left)]
    assert parts == pytest.approx([low, high - low], abs=1e-12)
    for place in map(lists.list_ids.index, found.unchanged):
        assert len({winners[place] for _, winners in near}) == 1
    assert lpmert.evaluate(lists, found.centre).loss <= most


def _inside(cones: FloatArray, weights: FloatArray) -> np.ndarray:
    """Which weights [n, D] lie in one of the cones [k, D, D]."""
    inverse = np.linalg.inv(cones) if len(cones) else cones
    return np.array([bool((one @ inverse >= -1e-12).all(axis=1).any()) for one in weights], dtype=bool)


def _losses(lists: NBest, weights: FloatArray) -> FloatArray:
    """The loss of each of the weights [n, D]; random weights tie no hypotheses that differ."""
    scores = lists.dense_features() @ weights.T
    chosen = [begin + scores[begin:end].argmax(axis=0) for begin, end in pairwise(lists.offsets.tolist())]
    return np.sum([lists.statistics[rows, 0] for rows in chosen], axis=0)


def _assert_agrees(lists: NBest, most: float, found: RashomonSet, drawn: FloatArray) -> None:
    """Check cones against the losses of random weights [n, D], uniform over all with L1 norm 1."""
    near = _losses(lists, drawn) <= most
    assert near.sum() > 50
    assert _inside(np.concatenate([found.inner, found.open]), drawn[near][:60]).all()
    assert not _inside(found.inner, drawn[~near][:200]).any()
    parts = np.random.default_rng(1).exponential(size=(len(found.inner), found.inner.shape[1]))
    assert (_losses(lists, np.einsum("kr,krd->kd", parts, found.inner)[::10]) <= most).all()
    reach = 4 * sqrt(near.mean() / len(drawn))
    assert found.share[0] - reach <= near.mean() <= found.share[1] + reach


@pytest.mark.parametrize("kind", ["whole", "floats", "unscaled"])
@pytest.mark.parametrize("seed", range(3))
def test_of_three_weights_drawn_ones_lie_where_their_loss_says(seed: int, kind: str) -> None:
    lists = _lists(seed, 3, 5, whole=kind != "floats")
    if kind == "unscaled":
        lists = NBest(lists.features * [1.0, 8.0, 0.5], lists.offsets, lists.statistics, names=lists.names)
    most, found = _set(lists, 3.0, share=0.2)
    assert found.complete
    _assert_agrees(lists, most, found, np.random.default_rng(seed).laplace(size=(20_000, 3)))
    assert found.share[1] - found.share[0] <= 0.2 * found.share[1] + 1e-12


@pytest.mark.parametrize(
    ("n_features", "slack", "fixed"),
    [(1, 2.0, None), (2, 2.0, 0.3), (3, 2.0, None), (3, 2.0, 0.3), (4, 1.0, 0.3), many_more(5, 0.0, None)],
)
def test_cones_within_ranges_hold_all_near_optimal_weights(n_features: int, slack: float, fixed: float | None) -> None:
    lists = _sure(0, n_features, 10)
    scale: dict[str, Any] = {"relative_to": "a"} if fixed is None else {"region": Region(fixed={"a": fixed})}
    near = lpmert.near_optimal(lists, slack=slack, cones=True, **scale)
    found = near.cones
    assert all(np.isfinite(one.possible).all() for one in near.ranges)
    assert (found.inner[..., 0] >= 0.0).all()  # the others were in no range
    assert found.share[1] <= 0.5
    _assert_agrees(lists, near.most, found, np.random.default_rng(0).laplace(size=(40_000, n_features)))
    assert any(one.possible[0] < 0.0 < one.possible[1] for one in near.ranges) or n_features < 3
    if n_features < 4:
        everywhere = near_cones(Problem(lists, region=scale.get("region")), near.most, np.full((2, n_features), inf))
        assert (found.complete, everywhere.complete) == (True, True)
        assert max(found.share[0], everywhere.share[0]) <= min(found.share[1], everywhere.share[1]) + 1e-12


def test_lists_that_are_said_to_be_unchanged_choose_one_hypothesis_in_all_near_optimal_selections() -> None:
    said = 0
    for seed in range(8):
        lists = _lists(seed, 3, 5)
        most, found = _set(lists, 0.0, share=0.3)
        every = list(oracle.attainable(lists.dense_features().tolist(), lists.offsets.tolist()))
        near = [rows for rows in every if lists.statistics[list(rows)].sum() <= most]
        for place in map(lists.list_ids.index, found.unchanged):
            assert len({rows[place] for rows in near}) == 1
            said += 1
    assert said > 5
    # nor is a list that a feature without loss changes
    lists = _lists(0, 2)
    sure = set(_set(lists, 0.0, share=0.01)[1].unchanged)
    idle = np.vstack([np.column_stack([lists.dense_features(), np.zeros(32)]), [[0, 0, 1], [0, 0, 2]]])
    more = NBest(idle, [*lists.offsets, 34], [*lists.statistics.ravel(), 1.0, 1.0], names=["a", "b", "idle"])
    assert sure
    assert set(_set(more, 0.0, share=0.01)[1].unchanged) == sure - {more.list_ids[-1]}


@pytest.mark.parametrize("n_features", [1, 2, 3, 4])
def test_with_a_large_slack_the_set_is_the_region(n_features: int) -> None:
    lists = _lists(3, n_features)
    everywhere, orthant = (_set(lists, 1e9, r)[1] for r in (None, Region(nonnegative=True)))
    assert (*everywhere.share, *orthant.share) == pytest.approx((1.0, 1.0, 0.5**n_features, 0.5**n_features))
    assert orthant.complete
    assert (orthant.inner >= 0.0).all()


@pytest.mark.parametrize("slack", [0.0, 2.0, 1e9])
def test_a_limit_parallel_to_a_list_cuts_it_all_the_same(slack: float) -> None:
    # The first list is decided by the sign of b alone, as is a limit on b: presolve makes one list of both.
    features = [[-1, 1], [-1, 0], [1, 1], [1, -1], [1, 0], [-1, 0]]
    lists = NBest(features, [0, 2, 6], [[4], [0], [4], [0], [4], [1]], names=["a", "b"])
    most, found = _set(lists, slack, Region(nonnegative=True))
    assert (most, found.complete) == (8.0 + slack, True)
    assert (found.inner >= 0.0).all()
    assert found.share == pytest.approx((0.25, 0.25))


def test_what_wins_by_very_little_at_the_edge_of_a_cone_keeps_it_open() -> None:
    lists = NBest([[0, 0], [1e-10, -1], [1, 0], [-1, 0]], [0, 2, 4], [[0], [1], [0], [1]], names=["a", "b"])
    _, found = _set(lists, 0.0)
    assert lpmert.evaluate(lists, [1.0, 1e-11]).loss == 1.0
    edge = _turn(2**40, 1)  # less than 1e-10 of the first weight
    assert not any(a <= edge <= b for a, b in _arcs_of(found.inner))
    assert any(a <= edge <= b for a, b in _arcs_of(found.open))


def test_limits_of_the_region_cut_the_set_and_losses_may_be_rounded() -> None:
    lists = _lists(1, 2)
    tenths = NBest(lists.features, lists.offsets, lists.statistics / 10.0, names=lists.names)
    region = Region(bounds={"b": (0.5, None)}, fixed={"a": 1.0})
    _, found = _set(tenths, 0.31, region, share=0.01)
    most, same = _set(lists, 3.0, region, share=0.01)
    assert found.share == pytest.approx(same.share)
    assert len(found.inner)
    assert (found.inner[..., 1] >= 0.5 * found.inner[..., 0]).all()
    allowed = Fraction(1, 3), Fraction(1)
    near = sum(_common(arc, allowed) for arc, loss, _ in _arcs(lists) if loss <= most) / 4
    assert near
    assert same.share[0] - 1e-12 <= near <= same.share[1] + 1e-12


def test_losses_that_are_rounded_away_are_not_taken_for_near() -> None:
    # Ten lists are merged into one, and what each loses is rounded down.
    features, offsets = np.array([[1, 0], [-1, 0], *[[0, 1], [0, -1]] * 10]), np.arange(0, 23, 2)
    unit = Problem(NBest(features, offsets, [0.0, 2.0**62, *[0.0, 1.0] * 10])).canonical.unit
    lists = NBest(features, offsets, [0.0, 2.0**62, *[0.0, 1.4 * unit] * 10], names=["a", "b"])
    most, found = _set(lists, 13.0 * unit, most_cones=20_000)
    assert lpmert.evaluate(lists, [1.0, -1.0]).loss > most == 13.0 * unit
    arc = _turn(1, -2), _turn(2, -1)
    assert not any(_common(arc, one) for one in _arcs_of(found.inner))
    assert any(_common(arc, one) for one in _arcs_of(found.open))


def test_scores_are_exact_while_sums_fit_in_53_bits_and_their_error_is_bounded_beyond() -> None:
    rng = np.random.default_rng(0)
    features = rng.integers(-(2**20), 2**20, (50, 3)) / 2.0**22
    precision = _Precision(features)
    exact = [places for places in range(60) if precision.off(places) == 0.0]
    assert exact == list(range(len(exact)))
    assert 20 < len(exact) < 50
    for places in (len(exact) - 1, len(exact), 45):
        rays = rng.integers(-(2**places), 2**places + 1, (40, 3)) / 2.0**places
        found = rays @ features.T
        for (ray, line), (k, row) in product(zip(rays, found, strict=True), enumerate(features)):
            off = abs(Fraction(line[k]) - oracle.dot(ray.tolist(), row.tolist()))
            assert 2 * off <= precision.off(places)
    assert _Precision(rng.normal(size=(9, 2))).off(0) > 0.0


def test_a_stopped_division_leaves_a_valid_set() -> None:
    lists = _lists(0, 3)
    whole = _set(lists, 2.0)[1]
    for settings in ({"most_cones": 20}, {"stop": lambda done, of: done > 100 or of < 0}):
        found = _set(lists, 2.0, **settings)[1]
        assert not found.complete
        assert found.share[0] <= whole.share[1] + 1e-12
        assert whole.share[0] <= found.share[1] + 1e-12
    near = lpmert.near_optimal(_sure(0, 3, 10), slack=2.0, cones=True, on_stage=lambda name, *_: name == "cones")
    assert (near.complete, near.cones.complete) == (True, False)
    assert near.cones.share[0] == 0.0 < near.cones.share[1]


def test_the_optimum_is_near_optimal_though_its_decimals_do_not_add_up_exactly() -> None:
    """In doubles, 0.1 + 0.2 + 0.3 is a little more than 0.6, to which it is rounded."""
    assert Fraction(0.1) + Fraction(0.2) + Fraction(0.3) > Fraction(0.6)
    lists = NBest([[1, 0], [0, 1]] * 3, [0, 2, 4, 6], [0.1, 1, 0.2, 1, 0.3, 1], names=["a", "b"])
    found = lpmert.near_optimal(lists, slack=0.0, region=Region(total=1.0), cones=True)
    assert found.optimum.loss == found.most == 0.6
    assert 0.2 < found.cones.share[0] <= 0.25 <= found.cones.share[1]  # a > b and a + b > 0
    assert lpmert.evaluate(lists, found.cones.centre).loss == 0.6


SHARE = "0 or more, or a share of the optimum such as 1%"
SIX = NBest(np.random.default_rng(0).normal(size=(20, 6)), [0, 5, 10, 15, 20], np.arange(20) % 3)
test_problems_without_ranges_or_cones_are_refused = refused([
    *((error, said, partial(lpmert.near_optimal, _sure(1, 3), **settings)) for settings, error, said in [
        *(({"slack": slack}, DataError, SHARE) for slack in (-1, "-1%", "many", None, inf, "inf%")),
        ({"relative_to": "z"}, DataError, "no feature 'z'"),
        ({"relative_to": "a", "region": Region(total=1.0)}, MethodError, "the region fixes the scale, sum = 1"),
        ({"method": "och"}, MethodError, "proves nothing"),
        ({"slack": 1e6}, MethodError, "no weight has a sure sign"),
    ]),
    *((MethodError, said, partial(lpmert.near_optimal, lists, cones=True, region=region)) for lists, region, said in [
        (SIX, None, "6 features matter, and cones are for 1 to 5"),
        (NBest([[1.0], [1.0]], [0, 2], [[0], [1]]), None, "0 features matter, .*choose other features"),
        (_lists(0, 2), Region(cosine=0.5, around={"a": 1.0, "b": 1.0}), "take no cosine and no equations"),
        (_lists(0, 3), Region(fixed={"a": 1.0, "b": 0.3}), "take no cosine and no equations"),
    ]),
])  # fmt: skip
