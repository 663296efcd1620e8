"""Canonical form keeps every selection's loss, of many hypotheses too; evaluation agrees with exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from oracle import Lists, decoded, dot, exact_decode, identical, loss_of
from problems import KINDS, METRICS, random_lists, small_lists

import lpmert
from lpmert import NBest, core
from lpmert.comparing.averaging import loss_unit
from lpmert.errors import DataError, FloatArray, MethodError
from lpmert.model import presolve
from lpmert.model.canonical import CallerWeights, Evaluator, ranges_of_weights
from lpmert.model.presolve import Costs, fixed_point, independent_columns
from lpmert.model.problem import Problem
from lpmert.numeric.lists import units
from lpmert.numeric.rational import solve_integers, to_integers
from lpmert.reporting.material import lines_of

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


MANY = "lpmert.model.problem.MANY"


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MANY, 1)


def lists_of(seed: int, width: int) -> NBest:
    """Lists in which most hypotheses win nowhere, with decimals as features."""
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *rng.integers(1, 61, 30)])
    features = np.round(rng.normal(size=(offsets[-1], width)) * 10.0 ** rng.integers(-3, 4, width), 3)
    return NBest(features, offsets, rng.integers(0, 7, offsets[-1]))


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("fruitless", [False, True])
def test_after_a_block_where_nearly_all_may_win_all_are_kept(fruitless: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.numeric.lists._BLOCK", 40)
    corners = [[0, 0], [0, 3], [3, 0], [1, 1]]  # the last one wins for no weights
    first = [[0, 0], [1, 2]] if fruitless else corners
    n = 40 // len(first)
    features = np.array([*first * n, *corners * 9])
    offsets = np.cumsum([0, *[len(first)] * n, *[4] * 9])
    problem = Problem(NBest(features, offsets, np.arange(len(features)) % 3))
    assert problem.reduced
    assert len(problem.as_given().features) == len(features) - (0 if fruitless else n + 9)


@pytest.mark.parametrize("kind", [*KINDS, "long"])
def test_the_answer_is_that_of_all_hypotheses(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(6):
        nbest = lists_of(seed, 2 + seed % 2) if kind == "long" else random_lists(kind, seed).nbest
        rng = np.random.default_rng(seed)
        weights = [rng.normal(size=nbest.n_features), rng.integers(-2, 3, nbest.n_features).astype(float)]
        found = []
        for least in (1 << 62, 1):
            monkeypatch.setattr(MANY, least)
            result = lpmert.minimize(nbest)
            problem = Problem(nbest)
            assert problem.reduced is (least == 1)
            at = [problem.evaluate(one) for one in weights]
            ties = [(one.tied_lists, one.loss_best_ties, one.loss_worst_ties) for one in at]
            same = [(one.loss, one.selection.tolist()) for one in at]
            found.append((result.status, result.loss, result.lower_bound, same, ties))
            assert least > 1 or all(one.margin is None for one in at)
        assert found[0] == found[1]


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("ties", ["first", "best", "worst"])
def test_repeated_features_count_as_asked(ties: str) -> None:
    nbest = NBest([[0, 0], [0, 0], [3, 1], [3, 1], [1, 3], [1, 1]], [0, 6], [5, 1, 4, 2, 3, 0])
    expected = {"first": 3, "best": 1, "worst": 3}[ties]  # (0, 0), (3, 1) and (1, 3) win somewhere
    assert lpmert.minimize(nbest, ties=ties).loss == expected


@pytest.mark.parametrize("metric", ["loss", "bleu"])
def test_units_lines_and_spread_are_those_of_all_hypotheses(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nbest = lists_of(5, 3)
    if metric == "bleu":
        counts = METRICS[metric][2](np.random.default_rng(5), nbest.offsets.tolist())
        nbest = NBest(nbest.features, nbest.offsets, counts)
    monkeypatch.setattr("lpmert.numeric.lists._BLOCK", 200)
    found = []
    for least in (1 << 62, 1):
        monkeypatch.setattr(MANY, least)
        problem = Problem(nbest, metric)
        assert problem.reduced is (least == 1)
        start = problem.to_canonical(CallerWeights(np.array([0.3, -0.2, 1.0])))
        lines = lines_of(problem)
        row = lines.row(np.array([0.3, -0.2, 1.0]), np.array([0.5, 1.0, -2.0]))
        blocks = list(problem.blocks())
        found.append((loss_unit(problem, start), lines.spread, row.thresholds, row.losses, blocks))
    (unit, spread, thresholds, losses, blocks), others = found
    assert len(blocks) > 3
    assert unit == others[0] > 0
    assert thresholds == pytest.approx(others[2])
    exact, same = chain([spread, losses], *blocks), chain([others[1], others[3]], *others[4])
    assert all(np.array_equal(one, other) for one, other in zip(exact, same, strict=True))
    shares = spread / units([(nbest.dense_features(), nbest.offsets)])
    assert shares == pytest.approx(np.full(3, shares[0]))  # features are what they mean times one factor


@pytest.mark.usefixtures("many")
def test_a_certificate_asks_for_room_first(tmp_path: Path, fresh_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    nbest = lists_of(1, 3)
    result = lpmert.minimize(nbest)
    limit = fresh_memory + (256 << 20)
    lpmert.certify(nbest, result, tmp_path / "proof.json", memory_limit=limit)
    monkeypatch.setattr("lpmert.certificates.write.certify.ROW_BYTES", 1 << 20)
    with pytest.raises(lpmert.DataError, match=r"a certificate, .* takes .* MiB more; allow more with --memory-limit"):
        lpmert.certify(nbest, result, tmp_path / "none.json", memory_limit=limit)
    assert not (tmp_path / "none.json").exists()


def test_ties_are_never_left_out() -> None:
    corners = np.array([[0, 0], [2, 0], [0, 2], [2, 2], [1, 0], [1, 2], [1, 1], [0, 0]], dtype=float)
    # (1, 0) and (1, 2) tie with corners for some weights
    assert core.possible_winners(corners, np.array([0, 8])).tolist() == [0, 1, 2, 3, 4, 5, 7]
