"""Near-optimal weights as cones: against every arc of two weights in fractions, and all selections of three."""

from collections.abc import Iterator
from fractions import Fraction
from functools import cmp_to_key
from itertools import pairwise
from math import atan2, pi, sqrt

import numpy as np
import oracle
import pytest

import lpmert
from lpmert import DataError, MethodError, NBest, RashomonSet, Region
from lpmert.errors import FloatArray
from lpmert.model.problem import Problem
from lpmert.rashomon import _Precision

Direction = tuple[int, int]


def _lists(seed: int, n_features: int, n_lists: int = 8, *, whole: bool = True) -> NBest:
    rng = np.random.default_rng([seed, n_features])
    shape = (4 * n_lists, n_features)
    features = rng.integers(-9, 10, shape).astype(float) if whole else rng.normal(size=shape)
    losses = rng.integers(0, 6, 4 * n_lists).astype(float)
    return NBest(features, list(range(0, 4 * n_lists + 1, 4)), losses, names=["a", "b", "c"][:n_features])


def _cross(a: Direction, b: Direction) -> int:
    return a[0] * b[1] - a[1] * b[0]


def _arcs(lists: NBest) -> Iterator[tuple[Direction, Direction, float, list[int]]]:
    """Every arc between directions in which hypotheses tie, or axes: its ends, loss and winners."""
    rows = [[(int(a), int(b)) for a, b in lists.features[i:j]] for i, j in pairwise(lists.offsets.tolist())]
    steps = [(a - c, b - d) for one in rows for a, b in one for c, d in one if (a, b) != (c, d)]
    ends = [(-y, x) for x, y in steps] + [(1, 0), (0, 1), (-1, 0), (0, -1)]

    def half(a: Direction) -> bool:
        return a[1] < 0 or (a[1] == 0 and a[0] < 0)

    def compare(a: Direction, b: Direction) -> int:
        return half(a) - half(b) or -_cross(a, b)

    order = sorted(ends, key=cmp_to_key(compare))
    distinct = [a for a, b in zip(order, [*order[1:], order[0]], strict=True) if half(a) != half(b) or _cross(a, b)]
    losses = lists.statistics.ravel()
    for a, b in zip(distinct, [*distinct[1:], distinct[0]], strict=True):
        size_a, size_b = sum(map(abs, a)), sum(map(abs, b))
        x, y = a[0] * size_b + b[0] * size_a, a[1] * size_b + b[1] * size_a
        scores = [[x * p + y * q for p, q in one] for one in rows]
        winners = [one.index(max(one)) for one in scores]
        yield a, b, sum(losses[i + k] for i, k in zip(lists.offsets.tolist(), winners, strict=False)), winners


def _starts_in(x: Direction, a: Direction, b: Direction) -> bool:
    """Whether a sector that begins at x begins in the sector from a to b of less than half a turn."""
    same = _cross(a, x) == 0 and a[0] * x[0] + a[1] * x[1] > 0
    return same or (_cross(a, x) > 0 and _cross(x, b) > 0)


def _sectors(cones: FloatArray) -> list[tuple[Direction, Direction]]:
    """Cones of two weights as whole numbers, counter-clockwise."""
    plain = [[(int(x * 2**50), int(y * 2**50)) for x, y in one] for one in cones.tolist()]
    return [(a, b) if _cross(a, b) > 0 else (b, a) for a, b in plain]


def _meet(one: tuple[Direction, Direction], other: tuple[Direction, Direction]) -> bool:
    return _starts_in(one[0], *other) or _starts_in(other[0], *one)


def _common(one: tuple[Direction, Direction], other: tuple[Direction, Direction]) -> float:
    """The angle that two sectors have in common."""
    if not _meet(one, other):
        return 0.0
    begin = one[0] if _starts_in(one[0], *other) else other[0]
    return min(_angle(begin, one[1]), _angle(begin, other[1]))


def _angle(a: Direction, b: Direction) -> float:
    return atan2(_cross(a, b), a[0] * b[0] + a[1] * b[1])


@pytest.mark.parametrize("slack", [0.0, 2.0, 5.0, 1e9])
@pytest.mark.parametrize("seed", range(5))
def test_of_two_weights_no_arc_beyond_is_inside_and_no_near_one_outside(seed: int, slack: float) -> None:
    lists = _lists(seed, 2)
    found = lpmert.rashomon_set(lists, slack=slack, precision=0.01)
    arcs = list(_arcs(lists))
    assert found.complete
    assert found.optimum.loss == min(loss for _, _, loss, _ in arcs)
    near = [(a, b, winners) for a, b, loss, winners in arcs if loss <= found.most]
    inner, left = _sectors(found.inner), _sectors(found.open)
    for a, b, loss, _ in arcs:
        if loss > found.most:
            assert not any(_meet((a, b), one) for one in inner)
    for a, b, _ in near:
        assert sum(_common((a, b), one) for one in (*inner, *left)) == pytest.approx(_angle(a, b), abs=1e-9)
    share = sum(_angle(a, b) for a, b, _ in near) / (2 * pi)
    low, high = found.share
    assert low - 1e-12 <= share <= high + 1e-12
    assert high - low <= 0.01 * high + 1e-12
    parts = [sum(_angle(*one) for one in some) / (2 * pi) for some in (inner, left)]
    assert parts == pytest.approx([low, high - low], abs=1e-12)
    for name in found.unchanged:
        place = lists.list_ids.index(name)
        assert len({winners[place] for _, _, winners in near}) == 1
    assert lpmert.evaluate(lists, found.centre).loss <= found.most


def _inside(cones: FloatArray, weights: FloatArray) -> np.ndarray:
    """Which weights [n, 3] lie in some of the cones [k, 3, 3]."""
    if not len(cones):
        return np.zeros(len(weights), dtype=bool)
    parts = np.einsum("nd,kdr->nkr", weights, np.linalg.inv(cones))
    return np.asarray((parts >= -1e-12).all(axis=2).any(axis=1))


def _losses(lists: NBest, weights: FloatArray) -> FloatArray:
    """What each of the weights [n, 3] loses; drawn ones tie nothing that differs."""
    scores = lists.dense_features() @ weights.T
    chosen = [begin + scores[begin:end].argmax(axis=0) for begin, end in pairwise(lists.offsets.tolist())]
    return np.sum([lists.statistics[rows, 0] for rows in chosen], axis=0)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_of_three_weights_drawn_ones_lie_where_their_loss_says(seed: int, whole: bool) -> None:
    lists = _lists(seed, 3, 5, whole=whole)
    found = lpmert.rashomon_set(lists, slack=2.0, precision=0.2)
    assert found.complete
    drawn = np.random.default_rng(seed).normal(size=(1500, 3))
    near = _losses(lists, drawn) <= found.most
    inner, left = _inside(found.inner, drawn), _inside(found.open, drawn)
    assert not (inner & ~near).any()
    assert (inner | left)[near].all()
    assert near.sum() > 50
    reach = 4 * sqrt(near.mean() / len(drawn))
    assert found.share[0] - reach <= near.mean() <= found.share[1] + reach
    assert found.share[1] - found.share[0] <= 0.2 * found.share[1] + 1e-12


def test_lists_that_are_said_to_be_unchanged_choose_one_hypothesis_in_all_near_optimal_selections() -> None:
    said = 0
    for seed in range(8):
        lists = _lists(seed, 3, 5)
        found = lpmert.rashomon_set(lists, slack=0.0, precision=0.3)
        losses = lists.statistics.ravel()
        every = list(oracle.attainable(lists.dense_features().tolist(), lists.offsets.tolist()))
        near = [rows for rows in every if losses[list(rows)].sum() <= found.most]
        for place in map(lists.list_ids.index, found.unchanged):
            assert len({rows[place] for rows in near}) == 1
            said += 1
        same = sum(len({rows[place] for rows in near}) == 1 for place in range(5))
        assert len(found.unchanged) <= same
    assert said > 5


def test_a_list_that_a_feature_without_loss_changes_is_not_said_to_be_unchanged() -> None:
    lists = _lists(0, 2)
    sure = set(lpmert.rashomon_set(lists, slack=0.0, precision=0.01).unchanged)
    features = np.column_stack([lists.dense_features(), np.zeros(32)])
    idle = np.vstack([features, [[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]]])
    losses = np.append(lists.statistics.ravel(), [1.0, 1.0])
    more = NBest(idle, [*lists.offsets.tolist(), 34], losses, names=["a", "b", "idle"])
    assert sure
    assert set(lpmert.rashomon_set(more, slack=0.0, precision=0.01).unchanged) == sure
    assert more.list_ids[-1] not in sure


@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_with_any_slack_it_is_the_region(n_features: int) -> None:
    lists = _lists(3, n_features)
    everywhere, orthant = (lpmert.rashomon_set(lists, slack=1e9, region=r) for r in (None, Region(nonnegative=True)))
    assert everywhere.share == pytest.approx((1.0, 1.0))
    assert orthant.share == pytest.approx((0.5**n_features, 0.5**n_features))
    assert orthant.complete
    assert (orthant.inner >= 0.0).all()


@pytest.mark.parametrize("slack", [0.0, 2.0, 1e9])
def test_a_limit_parallel_to_a_list_cuts_it_all_the_same(slack: float) -> None:
    # The first list is decided by the sign of b alone, as is a limit on b: presolve makes one list of both.
    features = [[-1, 1], [-1, 0], [1, 1], [1, -1], [1, 0], [-1, 0]]
    lists = NBest(features, [0, 2, 6], [[4], [0], [4], [0], [4], [1]], names=["a", "b"])
    found = lpmert.rashomon_set(lists, slack=slack, region=Region(nonnegative=True))
    assert found.optimum.loss == 8.0
    assert found.complete
    assert (found.inner >= 0.0).all()
    assert found.share == pytest.approx((0.25, 0.25))


def test_what_wins_by_very_little_at_the_edge_of_a_cone_keeps_it_open() -> None:
    lists = NBest([[0, 0], [1e-10, -1], [1, 0], [-1, 0]], [0, 2, 4], [[0], [1], [0], [1]], names=["a", "b"])
    found = lpmert.rashomon_set(lists, slack=0.0)
    assert lpmert.evaluate(lists, [1.0, 1e-11]).loss == 1.0
    edge = (2**40, 1)  # less than 1e-10 of the first weight
    assert not any(_cross(a, edge) >= 0 and _cross(edge, b) >= 0 for a, b in _sectors(found.inner))
    assert any(_cross(a, edge) >= 0 and _cross(edge, b) >= 0 for a, b in _sectors(found.open))


def test_limits_of_the_region_cut_it_and_losses_may_be_rounded() -> None:
    lists = _lists(1, 2)
    tenths = NBest(lists.features, lists.offsets, lists.statistics / 10.0, names=lists.names)
    region = Region(bounds={"b": (0.5, None)}, fixed={"a": 1.0})
    found = lpmert.rashomon_set(tenths, slack=0.31, region=region, precision=0.01)
    same = lpmert.rashomon_set(lists, slack=3.0, region=region, precision=0.01)
    assert found.share == pytest.approx(same.share)
    assert len(found.inner)
    assert (found.inner[..., 1] >= 0.5 * found.inner[..., 0]).all()
    near, arcs = 0.0, 0
    for a, b, loss, _ in _arcs(lists):
        begin, end = max(_angle((1, 0), a), atan2(0.5, 1.0)), min(_angle((1, 0), b), pi / 2)
        if loss <= same.most and a[0] > 0 and a[1] >= 0 and begin < end:
            near, arcs = near + (end - begin) / (2 * pi), arcs + 1
    assert arcs
    assert same.share[0] - 1e-12 <= near <= same.share[1] + 1e-12


def test_losses_that_are_rounded_away_are_not_taken_for_near() -> None:
    # Ten lists are merged into one, and what each loses is rounded down.
    features, offsets = np.array([[1, 0], [-1, 0], *[[0, 1], [0, -1]] * 10]), np.arange(0, 23, 2)
    unit = Problem(NBest(features, offsets, [0.0, 2.0**62, *[0.0, 1.0] * 10])).canonical.unit
    lists = NBest(features, offsets, [0.0, 2.0**62, *[0.0, 1.4 * unit] * 10], names=["a", "b"])
    found = lpmert.rashomon_set(lists, slack=13.0 * unit)
    assert lpmert.evaluate(lists, [1.0, -1.0]).loss > found.most == 13.0 * unit
    assert not any(_meet(((1, -2), (2, -1)), one) for one in _sectors(found.inner))
    assert any(_meet(((1, -2), (2, -1)), one) for one in _sectors(found.open))


def test_unscaled_features_have_the_shares_of_the_callers_weights() -> None:
    lists = _lists(2, 3, 5)
    scaled = NBest(lists.dense_features() * [1.0, 64.0, 0.25], lists.offsets, lists.statistics, names=lists.names)
    found = lpmert.rashomon_set(scaled, slack=3.0, precision=0.2)
    drawn = np.random.default_rng(5).normal(size=(3000, 3))
    near = np.mean(_losses(scaled, drawn) <= found.most)
    reach = 4 * sqrt(near / len(drawn))
    assert found.share[0] - reach <= near <= found.share[1] + reach


def test_rounding_is_none_while_53_bits_hold_all_sums_and_is_bounded_after() -> None:
    rng = np.random.default_rng(0)
    features = rng.integers(-(2**20), 2**20, (50, 3)) / 2.0**22
    precision = _Precision(features)
    exact = [splits for splits in range(60) if precision.off(splits) == 0.0]
    assert exact == list(range(len(exact)))
    assert 20 < len(exact) < 50
    for splits in (len(exact) - 1, len(exact), 45):
        rays = rng.integers(-(2**splits), 2**splits + 1, (40, 3)) / 2.0**splits
        found = rays @ features.T
        off = max(
            abs(Fraction(value) - sum(Fraction(a) * Fraction(b) for a, b in zip(ray, row, strict=True)))
            for ray, line in zip(rays.tolist(), found.tolist(), strict=True)
            for row, value in zip(features.tolist(), line, strict=True)
        )
        assert 2 * off <= precision.off(splits)
    assert _Precision(rng.normal(size=(9, 2))).off(0) > 0.0


def _holds(found: RashomonSet, whole: RashomonSet) -> None:
    assert not found.complete
    assert found.share[0] <= whole.share[1] + 1e-12
    assert whole.share[0] <= found.share[1] + 1e-12


def test_what_ends_it_leaves_a_set_that_holds() -> None:
    lists = _lists(0, 3)
    whole = lpmert.rashomon_set(lists, slack=2.0)
    _holds(lpmert.rashomon_set(lists, slack=2.0, most_cones=20), whole)
    _holds(lpmert.rashomon_set(lists, slack=2.0, on_cones=lambda inside, left: inside + left < 0.9), whole)
    short = lpmert.rashomon_set(lists, slack=2.0, time_limit=0.0)
    assert not short.complete
    assert short.share[0] == 0.0


def test_what_has_no_cones_is_refused() -> None:
    with pytest.raises(MethodError, match="4 features matter, and cones are for 1 to 3"):
        lpmert.rashomon_set(NBest(np.random.default_rng(0).normal(size=(20, 4)), [0, 5, 10, 15, 20], np.arange(20) % 3))
    with pytest.raises(MethodError, match="0 features matter"):
        lpmert.rashomon_set(NBest([[1.0], [1.0]], [0, 2], [[0], [1]]))
    with pytest.raises(MethodError, match="take no cosine and no equations"):
        lpmert.rashomon_set(_lists(0, 2), region=Region(cosine=0.5, around={"a": 1.0, "b": 1.0}))
    with pytest.raises(MethodError, match="take no cosine and no equations"):
        lpmert.rashomon_set(_lists(0, 3), region=Region(fixed={"a": 1.0, "b": 0.3}))
    for precision in (0.0, 1.0):
        with pytest.raises(DataError, match="precision must be between 0 and 1"):
            lpmert.rashomon_set(_lists(0, 2), precision=precision)
    with pytest.raises(MethodError, match="most_cones"):
        lpmert.rashomon_set(_lists(0, 2), most_cones=0)
    with pytest.raises(DataError, match="0 or more, or a share"):
        lpmert.rashomon_set(_lists(0, 2), slack="some")
