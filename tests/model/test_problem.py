"""Canonical form keeps every selection's loss; evaluation agrees with exact arithmetic, ties and ranges included."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from oracle import Lists, decoded, dot, exact_decode, identical, loss_of
from problems import KINDS, random_lists, small_lists

import lpmert
from lpmert.errors import DataError, FloatArray, MethodError
from lpmert.model import presolve
from lpmert.model.canonical import Evaluator, ranges_of_weights
from lpmert.model.nbest import NBest
from lpmert.model.presolve import Costs, fixed_point, independent_columns
from lpmert.model.problem import Problem
from lpmert.numeric.rational import solve_integers, to_integers

pytestmark = pytest.mark.usefixtures("poor_start")
TIES = ("first", "best", "worst")


@pytest.mark.parametrize("odd", [presolve._ODD, np.uint64(0)], ids=["usual", "equal hashes"])
def test_evaluation_agrees_with_exact_decoding(odd: np.uint64, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where all rows of a list have one hash."""
    monkeypatch.setattr(presolve, "_ODD", odd)
    for kind, ties in product(KINDS, TIES):
        rng = np.random.default_rng(list(kind.encode()))
        for seed in range(7 if odd else 2):
            lists = random_lists(kind, seed)
            problem = Problem(lists.nbest, ties=ties)
            width = lists.features.shape[1]
            for w in (rng.normal(size=width), rng.integers(-2, 3, width).astype(float), np.zeros(width)):
                found = problem.evaluate(w)
                winners, tied = exact_decode(lists, w, ties)
                assert found.selection.tolist() == winners
                assert found.loss == float(loss_of(lists, winners))
                assert found.statistics.tolist() == [found.loss]
                assert found.tied_lists >= tied
                assert found.loss_best_ties <= found.loss <= found.loss_worst_ties


@given(small_lists(), st.sampled_from(TIES), st.lists(st.integers(-2, 2), min_size=3, max_size=3))
@settings(max_examples=200, deadline=None)
def test_ties_at_their_best_and_worst_agree_with_brute_force(lists: Lists, ties: str, weights: list[int]) -> None:
    features = np.rint(lists.features * 2)  # so that ties within rounding are exact ones
    lists = Lists(features, lists.offsets, lists.losses)
    represent = {"first": lambda group: group[0], "best": min, "worst": max}[ties]
    low, high, tied = 0.0, 0.0, 0
    for begin, end in lists.ranges():
        scores = [dot(weights[: features.shape[1]], row) for row in features[begin:end].tolist()]
        groups = [group for group in identical(features[begin:end].tolist()) if scores[group[0]] == max(scores)]
        winning = [represent(lists.losses[begin:end][group].tolist()) for group in groups]
        low, high, tied = low + min(winning), high + max(winning), tied + (len(winning) > 1)
    found = Problem(lists.nbest, ties=ties).evaluate(weights[: features.shape[1]])
    assert (found.loss_best_ties, found.loss_worst_ties) == pytest.approx((low, high), abs=1e-12)
    assert found.tied_lists == tied
    assert found.margin is None or (found.margin == 0) == (tied > 0)


def test_margin_is_the_least_lead_over_other_features_in_their_units() -> None:
    nbest = NBest([[3.0], [3.0], [1.0], [10.0], [4.0], [0.0]], [0, 3, 5, 6], [0.0] * 6)
    assert Problem(nbest).evaluate([1.0]).margin == 2.0
    assert Problem(NBest([[3.0], [4.0]], [0, 1, 2], [0.0, 0.0])).evaluate([1.0]).margin is None
    decimals = NBest([[0.3, 0.1], [0.2, 0.2], [0.1, 0.1]], [0, 3], [0.0, 1.0, 2.0])
    assert lpmert.evaluate(decimals, [1.0, 0.25]).margin == pytest.approx(0.075)


def test_weights_of_any_magnitude_decode_alike_and_a_tiny_one_beside_a_huge_one_breaks_a_tie() -> None:
    lists = random_lists("floats", 5)
    problem = Problem(lists.nbest)
    w = np.random.default_rng(0).normal(size=lists.features.shape[1])
    for factor in (1e-290, 3.7, 1e290):
        assert problem.evaluate(w * factor).selection.tolist() == problem.evaluate(w).selection.tolist()
    nbest = NBest([[0.0, 1.0], [0.0, 2.0]], [0, 2], [1.0, 0.0])
    assert Problem(nbest).evaluate([1e200, 1e-200]).selection.tolist() == [1]
    huge = Problem(NBest([[0.0, 1e150], [1e-200, 0.0]], [0, 2], [1.0, 0.0]))
    assert huge.evaluate([1e100, 1e-230]).selection.tolist() == [0]  # by 1e-80 to 1e-100


def test_a_lead_that_sums_in_doubles_turn_round_is_decided_exactly() -> None:
    """The first is ahead by a half; in doubles it is 2 behind."""
    found = Problem(NBest([[2.0**53, 1, 1], [2.0**53 + 2, -0.5, 0]], [0, 2], [3, 1])).evaluate([1.0] * 3)
    assert (found.loss, found.tied_lists, found.loss_best_ties, found.loss_worst_ties) == (3, 1, 1, 3)


@pytest.mark.parametrize(
    ("features", "losses", "free"),
    [
        ([[1, 5, 0], [2, 5, 0], [1, 7, 0], [4, 7, 0]], [0, 1, 2, 0], "bc"),  # constant in every list
        ([[1, 0, 0], [2, 0, 0], [1, 1, 0], [1, 2, 0]], [0, 1, 3, 3], "bc"),  # b varies only where the loss does not
    ],
)
def test_features_that_change_no_loss_are_free(features: list[list[float]], losses: list[float], free: str) -> None:
    result = lpmert.minimize(NBest(features, [0, 2, 4], losses, names=list("abc")))
    assert result.free == tuple(free)
    assert result.weights[1] == result.weights[2] == 0.0


def test_exactly_collinear_integer_columns_are_dropped() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        features = rng.integers(-9, 10, (40, 5)).astype(float)
        features[:, 4] = features[:, 0] - 3 * features[:, 2] + np.repeat(rng.integers(0, 9, 10), 4)
        problem = Problem(NBest(features, np.arange(0, 41, 4), rng.integers(0, 5, 40).astype(float)))
        assert problem.canonical.n_features == 4
        assert len(problem.free) == 1


@pytest.mark.parametrize("relative", [1e-15, 1e-13, 1e-9, 1e-6])
def test_nearly_collinear_columns_are_kept(relative: float) -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(40, 3))
    features[:, 2] = features[:, 0] * (1 + relative * rng.choice([-1.0, 1.0], 40))
    problem = Problem(NBest(features, np.arange(0, 41, 4), rng.integers(0, 5, 40).astype(float)))
    assert problem.canonical.n_features == 3


def costs_of(numbers: list[float]) -> Costs:
    """Costs, checked: they are off by half a unit at most, or exact."""
    costs = fixed_point(np.array(numbers), np.array([0, len(numbers)]))
    assert costs.costs.dtype == np.int64
    assert costs.costs.min() == 0
    for cost, loss in zip(costs.costs.tolist(), numbers, strict=True):
        error = abs((costs.constant + cost) * Fraction(costs.unit) - Fraction(loss))
        assert error <= (Fraction(costs.unit) / 2 if costs.rounded else 0)
    return costs


@given(st.lists(st.integers(-(2**40), 2**40), min_size=2, max_size=12), st.integers(-1000, 400))
def test_losses_that_are_whole_multiples_of_a_power_of_two_stay_exact(numbers: list[int], exponent: int) -> None:
    assert not costs_of(np.ldexp(np.array(numbers, dtype=float), exponent).tolist()).rounded


@given(st.lists(st.floats(-1e150, 1e150), min_size=2, max_size=10))
def test_the_unit_of_rounded_losses_is_small(numbers: list[float]) -> None:
    costs = costs_of(numbers)
    assert costs.unit <= max(1.0, *map(abs, numbers)) * 2.0**-56 or not costs.rounded


def test_losses_whose_sum_overflows_are_a_data_error() -> None:
    with pytest.raises(DataError, match="overflow"):
        fixed_point(np.array([-1.7e308, 1.7e308, 0.0, 1.7e308]), np.array([0, 2, 4]))


def test_parallel_lists_of_two_become_one() -> None:
    pairs = [([0, 0], [1, 2]), ([5, 5], [8, 11]), ([0, 0], [-2, -4]), ([0, 0], [1, 3])]
    features = np.array([row for pair in pairs for row in pair], dtype=float)
    problem = Problem(NBest(features, np.arange(0, 9, 2), [1.0, 0.0, 2.0, 0.0, 5.0, 0.0, 1.0, 0.0]))
    assert problem.canonical.n_lists == 2


def test_weights_that_win_only_by_ties_are_no_better_than_the_optimum() -> None:
    nbest = NBest([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [0, 2, 4], [0.0, 1.0, 0.0, 1.0])
    found = lpmert.check(nbest, [1.0, 1.0])
    optimum = found.optimum
    assert (optimum.loss, optimum.lower_bound, optimum.status) == (1.0, 1.0, lpmert.Status.OPTIMAL)
    assert (found.loss, found.wins_by_ties, found.excess, found.tied_lists) == (0.0, True, 0.0, 2)
    with pytest.raises(MethodError, match="ties"):
        lpmert.check(nbest, [1.0, 1.0], ties="last")


@given(small_lists(), st.lists(st.integers(-1, 1), min_size=3, max_size=3))
@settings(max_examples=60, deadline=None)
def test_no_weights_have_a_negative_excess(lists: Lists, weights: list[int]) -> None:
    found = lpmert.check(lists.nbest, weights[: lists.features.shape[1]])
    assert found.excess >= 0
    assert found.wins_by_ties == (found.loss < found.optimum.loss and found.optimum.status.proved)
    if found.wins_by_ties:
        assert found.tied_lists > 0


OFFSETS = np.array([0, 4, 5, 11, 14])


def winners(features: FloatArray, weights: FloatArray) -> list[int]:
    return (decoded(features, OFFSETS.tolist(), weights) - OFFSETS[:-1]).tolist()


def test_no_choice_changes_within_the_range_of_a_weight_and_one_does_beyond() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        features, weights = rng.normal(size=(14, 3)), rng.normal(size=3)
        chosen = winners(features, weights)
        ranges = ranges_of_weights(features, OFFSETS, weights)
        for d, (low, high) in enumerate(ranges):
            assert low < weights[d] < high
            for end in (low, high):
                for share, same in ((0.999, True), (1.001, False)):
                    moved = weights.copy()
                    moved[d] = weights[d] + share * (np.clip(end, -1e6, 1e6) - weights[d])
                    assert (winners(features, moved) == chosen) is (same or not np.isfinite(end))
    features = np.column_stack([np.arange(14.0), np.ones(14)])  # where all are alike a weight is free
    ranges = ranges_of_weights(features, OFFSETS, np.array([1.0, 0.5]))
    assert ranges.tolist() == [[0.0, np.inf], [-np.inf, np.inf]]


def test_decoding_other_weights_is_not_what_was_decoded_before() -> None:
    rng = np.random.default_rng(3)
    features, losses = rng.normal(size=(14, 3)), np.arange(14.0)
    decoder = Evaluator(features, OFFSETS, losses[:, None], losses)
    weights = rng.normal(size=3)
    for _ in range(3):
        for sign in (1.0, -1.0):
            asked = sign * weights
            chosen = decoder.decode(asked).selection
            assert (chosen - OFFSETS[:-1]).tolist() == winners(features, asked)
            asked *= -1.0  # the caller's own, in place
            assert (decoder.decode(asked).selection - OFFSETS[:-1]).tolist() == winners(features, asked)


def test_a_sum_of_columns_goes_and_stays_where_it_differs_in_a_last_bit_on_a_single_row() -> None:
    rng = np.random.default_rng(1)
    features = rng.integers(-9, 10, (3000, 4)).astype(float)
    features = np.hstack([features, features[:, :2].sum(axis=1, keepdims=True) / 2 - 3 * features[:, 3:]])
    offsets = np.arange(0, 3001, 10)
    assert len(independent_columns(features, offsets)) == 4
    features[1234, 4] += 2.0**-40
    assert len(independent_columns(features, offsets)) == 5


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["whole", "scaled", "nudged", "real"]))
def test_the_columns_left_span_all(seed: int, kind: str) -> None:
    """Differences within lists of a column that goes are a combination of those left, in exact arithmetic."""
    rng = np.random.default_rng(seed)
    lists, size, rank, more = (int(rng.integers(low, most)) for low, most in ((2, 6), (3, 6), (1, 5), (0, 4)))
    made = rng.normal(size=(lists * size, rank)) if kind == "real" else rng.integers(-9, 10, (lists * size, rank))
    mixed = made @ rng.integers(-3, 4, (rank, more)) if kind != "real" else made[:, rng.integers(0, rank, more)]
    features = np.hstack([made, mixed]).astype(float)[:, rng.permutation(rank + more)]
    if kind == "scaled":
        features *= 2.0 ** rng.integers(-60, 60, rank + more)
    if kind == "nudged":
        features[rng.integers(len(features)), rng.integers(rank + more)] += 2.0**-40
    left = independent_columns(features, np.arange(lists + 1) * size).tolist()
    whole = np.array(to_integers(features), dtype=object).reshape(lists, size, -1)
    exact = (whole - whole[:, :1]).reshape(lists * size, -1)
    for column in {*range(rank + more)} - {*left}:
        if left:
            assert solve_integers(exact[:, left].tolist(), exact[:, column].tolist()) is not None
        else:
            assert not exact[:, column].any()
