"""All exact methods, with every setting, find the loss that brute force in exact arithmetic finds, and prove it."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Lists, Tolerated, best_loss, exact_decode, loss_of
from problems import random_lists, small_lists
from searches import FRACTIONS

import lpmert
from lpmert import Result, Status
from lpmert.methods.cells.cells import Cells
from lpmert.methods.choices.choices import Choices
from lpmert.model.problem import Problem
from lpmert.search.method import Method

pytestmark = pytest.mark.usefixtures("poor_start")

TIES = ("first", "best", "worst")


def methods(lists: Lists, ties: str = "first") -> list[str | Method]:
    return [*FRACTIONS, "sweep"] if Problem(lists.nbest, ties=ties).canonical.n_features <= 2 else [*FRACTIONS]


def assert_optimal(
    result: Result, lists: Lists, least: Fraction, ties: str = "first", tolerated: Tolerated | None = None
) -> None:
    """The loss is the least one, is proved to be, and is what decoding with the weights gives.

    Where the lists may be too nearly tied for a proof, `tolerated` takes those results that have none.
    """
    assert_decodes(result, lists, ties)
    (tolerated or Tolerated(thin=False)).assert_proved(result, lists, least, ties)
    if result.status is Status.OPTIMAL:
        assert result.gap_abs == result.gap_rel == 0.0


def assert_decodes(result: Result, lists: Lists, ties: str = "first") -> None:
    """What the result says of its weights is what decoding with them gives, in fractions and in floating point."""
    assert np.all(np.isfinite(result.weights))
    norm = np.abs(result.weights).sum()
    assert norm == pytest.approx(1.0) or (result.tied_lists > 0 and 0.5 <= norm < 1.0)  # a cell thinner than rounding
    winners, tied = exact_decode(lists, result.weights, ties)
    assert result.selection.tolist() == winners
    assert result.tied_lists >= tied
    assert result.loss == float(loss_of(lists, winners)) == result.score
    assert result.statistics.tolist() == [result.loss]
    if result.tied_lists == 0 and ties == "first":
        scores = lists.features @ result.weights
        assert [int(np.argmax(scores[begin:end])) for begin, end in lists.ranges()] == winners
    bound = result.lower_bound
    assert bound is not None
    assert bound <= result.loss


@given(small_lists(), st.sampled_from(TIES))
@settings(max_examples=150, deadline=None)
def test_any_small_numbers(lists: Lists, ties: str) -> None:
    least = best_loss(lists, ties)
    tolerated = Tolerated(thin=True)  # some of the numbers are an ulp from others
    for method in methods(lists, ties):
        assert_optimal(lpmert.minimize(lists.nbest, method=method, ties=ties), lists, least, ties, tolerated)


def larger(seed: int, *, lists: int, hypotheses: int, features: int, integer: bool) -> Lists:
    rng = np.random.default_rng(seed)
    offsets = np.arange(0, lists * hypotheses + 1, hypotheses)
    rows = rng.integers(-3, 4, (offsets[-1], features)) if integer else rng.normal(size=(offsets[-1], features))
    return Lists(rows.astype(float), offsets, rng.integers(0, 6, offsets[-1]).astype(float))


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("features", [2, 3, 4])
def test_methods_agree_beyond_the_reach_of_brute_force(features: int, integer: bool) -> None:
    for seed in range(6):
        lists = larger(seed, lists=25, hypotheses=6, features=features, integer=integer)
        results = [
            lpmert.minimize(lists.nbest, method=method) for method in (Choices(), Cells(), Cells(leaf_lists=2), "auto")
        ]
        for result in results:
            assert_decodes(result, lists)
            assert result.status is Status.OPTIMAL
        assert len({result.loss for result in results}) == 1


def pairs(seed: int, *, wide: bool) -> Lists:
    """Ten to thirty lists of two or three; losses of one or of three orders of magnitude."""
    rng = np.random.default_rng(seed)
    features, count, length = int(rng.integers(2, 5)), int(rng.integers(10, 30)), int(rng.choice([2, 2, 3]))
    offsets = np.arange(0, count * length + 1, length)
    rows = rng.normal(size=(offsets[-1], features))
    losses = rng.integers(0, 9, offsets[-1])
    if wide:
        losses = rng.integers(0, 4, offsets[-1]) * 10 ** np.repeat(rng.integers(0, 3, count), length)
    return Lists(rows, offsets, losses.astype(float))


@pytest.mark.parametrize("wide", [False, True])
def test_searches_with_and_without_cores_agree(wide: bool) -> None:
    """Bounds by disjoint cores matter most with many short lists whose losses differ in size."""
    for seed in range(150):
        lists = pairs(seed, wide=wide)
        by_cones = lpmert.minimize(lists.nbest, method=Cells(leaf_lists=0))
        assert_decodes(by_cones, lists)
        for method in (Choices(), Choices(look_ahead=False), Choices(use_cores=False), "auto", Cells()):
            result = lpmert.minimize(lists.nbest, method=method)
            assert (seed, result.status, result.loss) == (seed, Status.OPTIMAL, by_cones.loss)


@pytest.mark.parametrize("method", FRACTIONS)
@pytest.mark.parametrize("features", [2, 3, 5])
def test_a_planted_optimum_is_found(features: int, method: str) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        lists = larger(seed, lists=6, hypotheses=3 if method == "exhaustive" else 5, features=features, integer=False)
        planted = exact_decode(lists, rng.normal(size=features))[0]
        losses = rng.integers(2, 9, len(lists.losses)).astype(float)
        losses[lists.offsets[:-1] + planted] = 1.0
        only = Lists(lists.features, lists.offsets, losses)
        result = lpmert.minimize(only.nbest, method=method)
        assert_decodes(result, only)
        assert (result.loss, result.lower_bound, result.status) == (6.0, 6.0, Status.OPTIMAL)
        assert result.selection.tolist() == planted


@pytest.mark.parametrize("method", FRACTIONS)
def test_the_second_best_selection_is_told_from_the_best(method: str) -> None:
    """One selection costs one unit in 2^45 less than all others that are attainable."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        lists = larger(seed, lists=4, hypotheses=4, features=3, integer=False)
        planted = exact_decode(lists, rng.normal(size=3))[0]
        losses = np.full(len(lists.losses), 2.0**45)
        losses[lists.offsets[0] + planted[0]] -= 1.0
        for s in (1, 2, 3):
            losses[lists.offsets[s] : lists.offsets[s + 1]] += 4.0
            losses[lists.offsets[s] + planted[s]] -= 4.0
        only = Lists(lists.features, lists.offsets, losses)
        result = lpmert.minimize(only.nbest, method=method)
        assert result.loss == 4 * 2.0**45 - 1
        assert result.selection.tolist() == planted


def test_an_unattainable_oracle_selection_is_not_claimed() -> None:
    """The middle of a segment is never strictly best, whatever it costs."""
    features = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [2.0, 2.0, 1.0]])
    lists = Lists(features, np.array([0, 3]), np.array([2.0, 0.0, 1.0]))
    for method in methods(lists):
        assert lpmert.minimize(lists.nbest, method=method).loss == 1.0


def test_lists_that_cancel_each_other_are_not_tied_at_the_weights() -> None:
    """Either way one of the two lists is wrong; only a tie, broken by list order, seems to satisfy both."""
    features = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    lists = Lists(features, np.array([0, 2, 4]), np.array([0.0, 1.0, 0.0, 1.0]))
    for method in methods(lists):
        for initial in (None, [1.0, 1.0]):
            result = lpmert.minimize(lists.nbest, method=method, initial_weights=initial)
            assert_optimal(result, lists, Fraction(1))
            assert result.tied_lists == 0


def test_lists_that_cancel_each_other_beside_others_are_not_tied_at_the_weights() -> None:
    for signs in product((1.0, -1.0), repeat=2):
        features = np.array([[0, 0], [1, 1], [0, 0], [-1, -1], [0, 0], [signs[0], 0], [0, 0], [0, signs[1]]])
        losses = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
        lists = Lists(features, np.array([0, 2, 4, 6, 8]), losses)
        for method in methods(lists):
            assert_optimal(lpmert.minimize(lists.nbest, method=method), lists, Fraction(1))


@pytest.mark.parametrize(("kind", "seed"), [("nearly collinear", 17), ("nearly collinear", 2025), ("ulps", 2)])
def test_cells_narrower_than_the_rim_of_a_cone(kind: str, seed: int) -> None:
    """A selection found just outside a cone is worth what it costs there, not what the cone's survivors say."""
    size = {"most_lists": 6, "most_features": 4, "most_selections": 150} if seed > 1000 else {}
    small = {"most_lists": 5, "most_hypotheses": 4, "most_features": 3, "most_selections": 100}
    lists = random_lists(kind, seed, **(size or small))
    ties = TIES[seed % 3]
    result = lpmert.minimize(lists.nbest, method="cells", ties=ties)
    assert_optimal(result, lists, best_loss(lists, ties), ties)


def test_weights_of_extreme_features_are_not_lost_to_underflow() -> None:
    features = np.array([[1e150, 0.0], [0.0, 1e-200], [-1e150, 2e-200], [0.0, 0.0]])
    lists = Lists(features, np.array([0, 2, 4]), np.array([1.0, 0.0, 0.0, 1.0]))
    for method in methods(lists):
        assert_optimal(lpmert.minimize(lists.nbest, method=method), lists, Fraction(0))


def test_lists_of_one_hypothesis_need_no_search() -> None:
    lists = Lists(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1, 2]), np.array([0.5, -1.5]))
    for method in methods(lists):
        assert_optimal(lpmert.minimize(lists.nbest, method=method), lists, Fraction(-1))


def test_features_that_are_all_zero_leave_the_first_hypotheses() -> None:
    lists = Lists(np.zeros((4, 2)), np.array([0, 2, 4]), np.array([3.0, 1.0, 2.0, 5.0]))
    for ties, least in (("first", 5), ("best", 3), ("worst", 8)):
        result = lpmert.minimize(lists.nbest, ties=ties)
        assert_optimal(result, lists, Fraction(least), ties)


def test_the_sweep_refuses_three_features() -> None:
    with pytest.raises(lpmert.MethodError, match="two features"):
        lpmert.minimize(random_lists("floats", 18).nbest, method="sweep")
