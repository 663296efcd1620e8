"""Equations and limits that doubles cannot hold: losses, bounds and proofs are about the numbers given all the same."""

from collections import Counter
from fractions import Fraction
from itertools import chain, combinations, pairwise

import numpy as np
import pytest
from fuzz import run
from oracle import dot
from problems import problem

import lpmert
from lpmert import DataError, Linear, NBest, Region, RegionError, Status, core
from lpmert.model.problem import Problem
from lpmert.model.region import _distances, _orthonormal
from lpmert.numeric.cone import LinOptimizer
from lpmert.numeric.lists import FEASIBLE, INFEASIBLE, relative_to_first, sorted_lists
from lpmert.numeric.rational import sums_of_columns

pytestmark = pytest.mark.usefixtures("poor_start")


def test_weights_hold_whichever_of_them_makes_up_for_what_rounding_takes_from_a_total() -> None:
    """The first list wants 1e10 a > 1e-8 b with b = 1/2: a of 1e-18 is enough, but no digit of the total."""
    features = np.array([[1e10, -1e-8, 0.0], [0.0, 0.0, 0.0]])
    nbest = NBest(features, [0, 2], [0.0, 1.0], names=["a", "b", "c"])
    result = lpmert.minimize(nbest, region=Region(fixed={"b": 0.5}, total=-1.0))
    assert (result.status, result.loss) == (Status.OPTIMAL, 0.0)
    weights = [Fraction(value) for value in result.weights.tolist()]
    assert weights[1] == Fraction(1, 2)
    missing = -1 - sum(weights)
    for moved in (0, 2):
        own = [w + missing * (d == moved) for d, w in enumerate(weights)]
        assert sum(own) == -1
        assert dot(own, features[0].tolist()) > 0


@pytest.mark.parametrize("method", ["mip", "sweep"])
def test_methods_without_exact_sums_prove_no_more_than_each_lists_least_loss(method: str) -> None:
    rng = np.random.default_rng(4)
    nbest = NBest(rng.normal(size=(12, 3)), [0, 4, 8, 12], rng.integers(1, 9, 12).astype(float), names=list("abc"))
    region = Region(fixed={"a": 0.3, "b": 0.1})
    assert Problem(nbest, region=region).canonical.rounding is not None
    result = lpmert.minimize(nbest, region=region, method=method)
    best = lpmert.minimize(nbest, region=region)
    assert result.status is Status.OPTIMAL_TO_TOLERANCE
    assert result.lower_bound == np.minimum.reduceat(nbest.statistics[:, 0], [0, 4, 8]).sum() < best.loss
    assert (best.status, best.loss) == (Status.OPTIMAL, result.loss)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_what_small_programs_say_holds_of_all_features_that_may_be_meant(width: int) -> None:
    """Features are moved by all of what they may be off, in every way that matters: towards each other and apart."""
    rng = np.random.default_rng(width)
    said: Counter[int] = Counter()
    lists_asked = np.arange(width + 3)
    size, offsets = 2 * len(lists_asked), np.arange(0, 2 * len(lists_asked) + 1, 2)
    for _ in range(60):
        spread = np.full(width, 2.0 ** -int(rng.integers(2, 12)))
        features = rng.integers(-3, 4, (size, width)) + rng.normal(size=(size, width)) * 2.0 ** -rng.integers(1, 14)
        lists = sorted_lists(features, offsets, np.zeros(size, dtype=np.int64))._replace(spread=spread)
        chosen = rng.integers(0, 2, len(lists_asked))
        verdict = core.LeastNorm(lists.native()).separate(lists_asked, chosen, 0, core.Corral(width))
        said[verdict] += 1
        if verdict not in (FEASIBLE, INFEASIBLE):
            continue
        for _ in range(12):
            moved = features + spread * rng.choice([-1.0, 1.0], features.shape)
            answer = LinOptimizer(moved, offsets).solve((lists_asked, offsets[:-1] + chosen))
            assert answer.attainable == (verdict == FEASIBLE)
    assert min(said[FEASIBLE], said[INFEASIBLE]) >= 3


def test_a_cosine_beside_equations_of_several_weights_has_a_bound_that_holds() -> None:
    rng = np.random.default_rng(11)
    for seed in range(6):
        features = rng.integers(-3, 4, (12, 4)).astype(float)
        losses = rng.integers(0, 9, 12).astype(float)
        nbest = NBest(features, [0, 3, 6, 9, 12], losses, names=list("abcd"))
        around = {"a": 1.0, "b": 3.0, "c": 0.5 * seed, "d": 1.0}
        equation = Linear({"a": 0.3, "b": -0.1}, 0, 0)
        region = Region(linear=[equation], cosine=0.7, around=around)
        centre = np.array([*around.values()])
        for method in ("choices", "cells", "lp-mert"):
            result = lpmert.minimize(nbest, region=region, method=method)
            assert result.status in (Status.OPTIMAL_TO_TOLERANCE, Status.OPTIMAL)
            assert result.lower_bound is not None
            for _ in range(300):
                w = centre + rng.normal(size=4) * rng.uniform(0, 2)
                w[0] = w[1] / 3
                if w @ centre < 0.7001 * np.linalg.norm(w) * np.linalg.norm(centre):
                    continue
                scores = (features @ w).reshape(4, 3)
                order = np.sort(scores, axis=1)
                if (order[:, -1] - order[:, -2] > 1e-9).all():
                    loss = losses.reshape(4, 3)[np.arange(4), scores.argmax(axis=1)].sum()
                    assert result.lower_bound <= loss


@pytest.mark.parametrize("method", ["auto", "cells", "choices", "lp-mert"])
def test_beside_a_cosine_hypotheses_that_equations_make_one_are_not_told_apart_by_rounding(method: str) -> None:
    """They differ by a multiple of the equation, which is nearly 0 in orthonormal coordinates, on either side."""
    rng = np.random.default_rng(2)
    for _ in range(8):
        a, b, c = rng.integers(1, 99, 3).tolist()
        region = Region(linear=[Linear({"a": a, "b": b, "c": c}, 0, 0)], cosine=0.99, around=[b - c, -a, a])
        for sign in (1, -1):
            nbest = NBest([[sign * a, sign * b, sign * c], [0, 0, 0]], [0, 2], [[0], [1]], names=list("abc"))
            assert lpmert.minimize(nbest, region=region, method=method).lower_bound == 0.0
        opposite = NBest([[0, 1, 1], [0, 0, 0]] * 2, [0, 2, 4], [[0], [1], [1], [0]], names=list("abc"))
        result = lpmert.minimize(opposite, region=region, method=method)
        assert result.lower_bound <= result.loss == 1.0


@pytest.mark.parametrize("value", [1e200, 1e308])
def test_sums_that_overflow_are_refused(value: float) -> None:
    nbest = NBest([[1e150, 1e150], [0.0, 1.0]], [0, 2], [0.0, 1.0], names=["a", "b"])
    with pytest.raises(DataError, match="rescale"):
        lpmert.minimize(nbest, region=Region(fixed={"a": value, "b": 1.0}))
    with pytest.raises(RegionError, match="b = 1e-200 are too far apart"):
        lpmert.minimize(nbest, region=Region(fixed={"a": 1e200, "b": 1e-200}))


def test_what_lists_have_in_common_is_taken_off_where_no_digit_is_lost() -> None:
    """The second list's first column would round: 1 from 2^53; its second, and the first list, would not."""
    rows = np.array([[2.0**53, 5.0], [2.0**53 - 3, 7.5], [1.0, -4.0], [2.0**53 + 2, -(2.0**-60)]])
    found = relative_to_first(rows, np.array([0, 2, 4]))
    assert found.tolist() == [[0.0, 0.0], [-3.0, 2.5], [1.0, -4.0], [2.0**53 + 2, -(2.0**-60)]]


@pytest.mark.parametrize("kind", ["decimals", "whole", "apart", "cancelling", "tiny"])
def test_sums_of_columns_are_off_by_no_more_than_they_say_and_told_apart_exactly(kind: str) -> None:
    rng = np.random.default_rng([*kind.encode()])
    offsets = np.array([0, 8, 9, 24])
    for _ in range(40):
        rows = rng.integers(-2, 3, (24, 3)).astype(float)
        factors = {k: Fraction(float(rng.choice([0.1, -0.3, 0.7]))) / int(rng.integers(1, 4)) for k in range(3)}
        if kind == "decimals":
            rows = np.round(rows + rng.normal(size=rows.shape), 1)
        elif kind == "whole":
            factors = {k: Fraction(int(rng.integers(1, 5)), 4) for k in range(3)}
        elif kind == "apart":
            rows *= 10.0 ** rng.uniform(-140, 140, 3)
        elif kind == "cancelling":
            rows[:, 2] = rows[:, 0] * 3.0 + 2.0**-50 * rng.integers(-1, 2, 24)
            factors = {0: Fraction(0.3) * 3, 2: -Fraction(0.3)}
        elif kind == "tiny":
            rows *= 10.0 ** rng.uniform(-320, -290, 3)
        values, codes, off = sums_of_columns(rows, offsets, factors)
        exact = [sum(Fraction(row[k]) * factor for k, factor in factors.items()) for row in rows.tolist()]
        assert all(abs(Fraction(value) - true) <= off for value, true in zip(values.tolist(), exact, strict=True))
        assert off == 0.0 or kind != "whole"
        for begin, end in pairwise(offsets.tolist()):
            for i, j in combinations(range(begin, end), 2):
                assert (codes[i] == codes[j]) == (exact[i] == exact[j])


def test_sums_that_cancel_beyond_twice_the_digits_of_doubles_are_off_by_no_more_than_they_say() -> None:
    """Exactly they are 0; what is lost with the digits beyond is all that is left of them."""
    rng, lost = np.random.default_rng(0), 0
    for _ in range(60):
        row = [int(value) for value in rng.integers(1, 2**20, 4)]
        factors = [Fraction(int(rng.integers(1, 99)), prime) for prime in (7, 11, 13)]
        factors.append(-dot(row[:3], factors) / row[3])
        rows = np.array([row, row, row]) * [[1.0], [2.0], [3.0]]
        values, codes, off = sums_of_columns(rows, np.array([0, 3]), dict(enumerate(factors)))
        assert np.abs(values).max() <= off < 1e-20
        assert len(set(codes.tolist())) == 1
        lost += values.any()
    assert lost > 5


@pytest.mark.parametrize("method", ["auto", "cells", "choices", "lp-mert", "exhaustive"])
def test_a_limit_that_doubles_round_proves_no_loss_that_weights_beside_it_undercut(method: str) -> None:
    """a >= 0 with 1 < b / a < 1 + 2**-60 costs nothing; no such numbers are doubles, of which the limit is b <= a."""
    nbest = NBest([[-1, 1, 0], [0, 0, 0]], [0, 2], [[0], [1]], names=["a", "b", "c"])
    equation = Linear({"c": 1, "a": -1}, 0, 0)
    region = Region(linear=[equation, Linear({"a": 1, "c": 2.0**-60, "b": -1}, 0)])
    result = lpmert.minimize(nbest, region=region, method=method)
    assert (result.status, result.loss, result.lower_bound) == (Status.OPTIMAL_TO_TOLERANCE, 1.0, 0.0)


def test_an_orthonormal_basis_is_off_by_no_more_than_it_says() -> None:
    rng = np.random.default_rng(0)
    errors = []
    for width in range(2, 8):
        equation = rng.integers(-99, 100, (1, width)).astype(float)
        basis, off = _orthonormal(equation)
        size = float(np.linalg.norm(equation))
        for column in basis.T.tolist():
            errors.append(abs(float(dot(equation[0].tolist(), column))) / size)  # the distance from the plane
            assert errors[-1] <= off < 1e-12
    assert max(errors) > 0.0


def test_rows_are_off_by_no_more_than_is_said_and_exact_ones_by_nothing() -> None:
    exact = [tuple(Fraction(k, n) for k in range(-3, 4)) for n in (3, 7, 8)]
    near = np.array([[float(value) for value in row] for row in exact])
    off = _distances(exact, near)
    for value, double, bound in zip(chain(*exact), near.ravel().tolist(), off.ravel().tolist(), strict=True):
        assert abs(value - Fraction(double)) <= Fraction(bound) < Fraction(1, 10**15)
    assert (off[2].any(), off[0].any()) == (False, True)


@pytest.mark.parametrize("method", ["auto", "choices", "cells", "lp-mert"])
def test_weights_are_not_put_on_a_tie_between_losses_that_fixed_point_makes_one(method: str) -> None:
    """The second list's losses are 0 beside the others; at w = (-2, -4, 1/2) all three of it tie."""
    rows = [[0, -2, -2], [0, 2, 1], [0, -2, -1], [2, -2, 2], [1, 1, 2], [2, 1, 1], [-2, 0, 2], [-2, -2, -2]]
    losses = [9e-21, 9e-301, 6e-301, 8e-301, 3e-21, 1e-21, 9e-101, 9e-101]
    nbest = NBest(np.array(rows, dtype=float), [0, 1, 4, 6, 8], losses, names=["a", "b", "c"])
    region = Region(bounds={"a": (None, 1.25)}, fixed={"b": -1.0, "c": 0.125})
    result = lpmert.minimize(nbest, region=region, method=method)
    assert result.status is Status.OPTIMAL
    weights = [Fraction(value) for value in result.weights.tolist()]
    assert weights[1] == -8 * weights[2]
    for begin, end in ((1, 4), (4, 6), (6, 8)):
        scores = [dot(weights, row) for row in rows[begin:end]]
        assert scores.count(max(scores)) == 1


@pytest.mark.parametrize(
    ("features", "seed", "method"),
    [("mixed magnitudes", 570, "exhaustive"), ("opposite", 333, "cells"), ("scales", 57, "cells")],
)
def test_in_cells_thinner_than_rounding_equations_set_the_first_weights(features: str, seed: int, method: str) -> None:
    assert run(problem(features, "small", seed, kind="decimals"), method)[1] is Status.OPTIMAL


def test_sums_that_doubles_hold_are_not_called_rounded() -> None:
    whole = NBest(np.arange(24.0).reshape(8, 3) % 7, [0, 4, 8], np.arange(8.0), names=list("abc"))
    most: dict[str, tuple[float | None, float | None]] = {"c": (0.1, 0.7)}
    for region in (
        Region(fixed={"a": 1.0, "b": 0.25}),
        Region.simplex(),
        Region(fixed={"a": 0.3, "b": 0}, bounds=most),
    ):
        assert Problem(whole, region=region).canonical.rounding is None
