"""Rows with the same feature vector: found by sorting one key for each row, or where that fails the rows themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpmert.errors import FloatArray, IntArray
from lpmert.model import presolve
from lpmert.model.presolve import _leaders_by_key, group_identical


def by_counting(features: FloatArray, offsets: IntArray) -> list[int]:
    found = []
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        for i in range(begin, end):
            found.append(next(j for j in range(begin, end) if (features[j] == features[i]).all()))
    return found


numbers = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, 0.1 + 2.0**-55, 5e-324, 1e308])


@st.composite
def lists(draw: st.DrawFn) -> tuple[FloatArray, IntArray]:
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))
    n_features = draw(st.integers(0, 3))
    values = draw(st.lists(numbers, min_size=sum(sizes) * n_features, max_size=sum(sizes) * n_features))
    features = np.array(values, dtype=np.float64).reshape(sum(sizes), n_features)
    return features, np.concatenate([[0], np.cumsum(sizes)])


@given(lists())
def test_every_row_is_led_by_the_first_that_equals_it(given_lists: tuple[FloatArray, IntArray]) -> None:
    features, offsets = given_lists
    assert group_identical(features, offsets).tolist() == by_counting(features, offsets)


@pytest.mark.parametrize(("name", "value"), [("_ODD", np.uint64(0)), ("_MOST_PLACE_BITS", -1)])
@given(lists())
def test_keys_that_tell_nothing_make_no_difference(
    name: str, value: object, given_lists: tuple[FloatArray, IntArray]
) -> None:
    features, offsets = given_lists
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(presolve, name, value)
        assert group_identical(features, offsets).tolist() == by_counting(features, offsets)


def test_keys_that_are_equal_by_accident_are_noticed() -> None:
    features, offsets = np.array([[1.0], [2.0], [1.0]]), np.array([0, 3])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(presolve, "_ODD", np.uint64(0))
        assert _leaders_by_key(features, offsets) is None
    assert _leaders_by_key(features, offsets) is not None


def test_more_lists_than_a_key_has_room_for_are_sorted_by_rows() -> None:
    sizes = np.ones(1 << 17, dtype=np.int64)
    sizes[0] = 1 << 15
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    features = np.zeros((offsets[-1], 1))
    features[: 1 << 15, 0] = np.arange(1 << 15) // 2
    assert _leaders_by_key(features, offsets) is None
    leader = group_identical(features, offsets)
    assert np.array_equal(leader[: 1 << 15], np.arange(1 << 15) // 2 * 2)
    assert np.array_equal(leader[1 << 15 :], np.arange(1 << 15, offsets[-1]))
