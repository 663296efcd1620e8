"""Whole weights: against every vector of small whole numbers, decoded in whole arithmetic."""

from itertools import product

import numpy as np
import pytest
from oracle import Lists

import lpmert
from lpmert import DataError, MethodError, NBest, Region


def _lists(seed: int, n_features: int, n_lists: int = 6) -> Lists:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, n_lists)
    features = rng.integers(-6, 7, (int(sizes.sum()), n_features)).astype(float)
    return Lists(features, np.concatenate([[0], np.cumsum(sizes)]), rng.integers(0, 4, len(features)))


def _ahead(lists: Lists, chosen: list[int], whole: tuple[int, ...]) -> bool:
    """Whether each choice has a higher score than all of its list with another loss; scores are whole numbers.

    Of hypotheses with identical features the first counts.
    """
    scores = [sum(int(x) * w for x, w in zip(row, whole, strict=True)) for row in lists.features.tolist()]
    losses, rows = lists.losses.tolist(), lists.features.tolist()
    return all(
        scores[begin + own] > scores[row]
        for own, (begin, end) in zip(chosen, lists.ranges(), strict=True)
        for row in range(begin, end)
        if losses[row] != losses[begin + own] and rows.index(rows[row], begin) == row
    )


@pytest.mark.parametrize("n_features", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_no_smaller_whole_numbers_keep_all_choices_ahead(seed: int, n_features: int) -> None:
    lists = _lists(seed, n_features)
    result = lpmert.minimize(lists.nbest)
    chosen, largest = result.selection.tolist(), {1: 3, 2: 12, 3: 6}[n_features]
    sizes = [
        max(map(abs, whole))
        for whole in product(range(-largest, largest + 1), repeat=n_features)
        if _ahead(lists, chosen, whole)
    ]
    found = lpmert.whole_weights(lists.nbest, result, largest=largest)
    if not sizes:
        assert found is None
        return
    whole = tuple(found.values())
    assert max(map(abs, whole)) == min(sizes)
    at = lpmert.evaluate(lists.nbest, found)
    assert at.loss == result.loss
    assert at.tied_lists == 0 or at.loss_best_ties == at.loss_worst_ties == result.loss


@pytest.mark.parametrize("seed", range(6))
def test_decimals_are_what_they_print_as(seed: int) -> None:
    lists = _lists(seed, 2)
    tenths = NBest(np.round(lists.features / 10, 1), lists.offsets, lists.losses)
    for result in (lpmert.minimize(lists.nbest), lpmert.minimize(tenths)):
        assert lpmert.whole_weights(tenths, result) == lpmert.whole_weights(lists.nbest, result)


def test_whole_weights_lie_in_the_region() -> None:
    for seed in range(6):
        lists = _lists(seed, 3)
        for region in (
            Region(nonnegative=True),
            Region(fixed={"feature1": 0.0}),
            Region(fixed={"feature2": 1.0}, bounds={"feature1": (0.5, 2.0)}),
        ):
            result = lpmert.minimize(lists.nbest, region=region)
            found = lpmert.whole_weights(lists.nbest, result, region=region)
            if found is not None:
                at = lpmert.evaluate(lists.nbest, found, region=region)
                assert at.inside
                assert at.loss == result.loss
    assert found is not None
    assert (
        lpmert.whole_weights(
            lists.nbest, result, region=Region(linear=[lpmert.Linear({"feature1": 1, "feature2": -1}, 0, 0)])
        )
        is None
    )


_P = 2**33 + 3
_Q = (2 * _P - 1) // 3
"""2 P = 3 Q + 1: 2 : 3 is a little more than Q : P, by less than limits of 30 bits can tell."""


def test_what_rounded_limits_cannot_tell_is_left_to_exact_arithmetic() -> None:
    assert 2 * _P == 3 * _Q + 1
    lists = NBest([[_P, -_Q], [0, 0], [-4, 3], [0, 0]], [0, 2, 4], [[0], [1], [0], [1]], names=["a", "b"])
    # between Q : P and 3 : 4 there is no smaller ratio than 2 : 3
    assert lpmert.whole_weights(lists, {"a": 7.0, "b": 10.0}) == {"a": 2, "b": 3}


def test_a_limit_whose_entries_are_all_rounded_against_the_weights_rules_nothing_out() -> None:
    """Of its entries, times 2**30 / 16 of the largest, three lie just above a half: they are rounded up."""
    thirds = [(2**30 - 2) // 3 + k for k in (0, 0, (2**30 - 2) % 3)]
    row = [16 * 2**30, *(16 * third + 9 for third in thirds)]
    whole = {"a": 1, "b": -1, "c": -1, "d": -1}
    assert 0 < sum(x * w for x, w in zip(row, whole.values(), strict=True)) < 16
    signs = (-np.eye(4)[1:]).tolist()
    rows = [line for limit in (row, *signs) for line in (limit, [0] * 4)]
    lists = NBest(rows, range(0, 9, 2), [[0], [1]] * 4, names=list("abcd"))
    assert lpmert.whole_weights(lists, whole) == whole


def test_a_limit_of_the_region_is_kept_though_by_less_than_rounded_ones_can_tell() -> None:
    lists = NBest([[5, -3], [0, 0], [-4, 3], [0, 0]], [0, 2, 4], [[0], [1], [0], [1]], names=["a", "b"])
    region = Region(linear=[lpmert.Linear({"a": -_P, "b": _Q}, 0.0)])  # at most Q : P
    assert lpmert.whole_weights(lists, {"a": 5.0, "b": 8.0}) == {"a": 2, "b": 3}
    assert lpmert.whole_weights(lists, {"a": 5.0, "b": 8.0}, region=region) == {"a": 5, "b": 8}


def test_a_weight_that_only_the_region_asks_for_is_found() -> None:
    lists = NBest([[-1, 0], [-1, 1]], [0, 2], [[0], [4]], names=["a", "b"])  # a is the same in both
    region = Region(fixed={"a": 1.0})
    assert lpmert.whole_weights(lists, {"a": 1.0, "b": -2.0}, region=region) == {"a": 1, "b": -1}


def test_features_that_do_not_matter_weigh_nothing_and_ratios_do_as_well() -> None:
    features = [[1, 0, 7], [0, 1, 7], [2, 1, 5], [1, 3, 5]]
    lists = NBest(features, [0, 2, 4], [[1, 1, 1], [0, 1, 1], [0, 1, 1], [1, 1, 1]], names=["a", "b", "same"])
    assert lpmert.whole_weights(lists, lpmert.minimize(lists, metric="f1"), metric="f1") == {"a": 3, "b": 2, "same": 0}


def test_what_cannot_be_asked_is_said() -> None:
    lists = _lists(0, 2).nbest
    with pytest.raises(MethodError, match="largest must be a whole number of at least 1"):
        lpmert.whole_weights(lists, [1, 2], largest=0)
    with pytest.raises(DataError, match="largest must be at most"):
        lpmert.whole_weights(lists, [1, 2], largest=10**9)
