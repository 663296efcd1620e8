"""Columns are dropped only where they are exact combinations of others, as rational arithmetic tells on every row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpmert.errors import FloatArray, IntArray
from lpmert.model.presolve import independent_columns
from lpmert.numeric import rational


def spans(features: FloatArray, offsets: IntArray, columns: list[int], other: int) -> bool:
    """Whether differences within lists of one column are a combination of those of others, in exact arithmetic."""
    whole = np.array(rational.to_integers(features), dtype=object)
    exact = whole - whole[np.repeat(offsets[:-1], np.diff(offsets))]
    if not columns:
        return not exact[:, other].any()
    return rational.solve_integers(exact[:, columns].tolist(), exact[:, other].tolist()) is not None


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["whole", "scaled", "nudged", "real"]))
def test_the_columns_left_span_all_and_those_with_small_coefficients_go(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    lists, size, rank, more = (int(rng.integers(low, most)) for low, most in ((2, 6), (3, 6), (1, 5), (0, 4)))
    made = rng.normal(size=(lists * size, rank)) if kind == "real" else rng.integers(-9, 10, (lists * size, rank))
    mixed = made @ rng.integers(-3, 4, (rank, more)) if kind != "real" else made[:, rng.integers(0, rank, more)]
    features = np.hstack([made, mixed]).astype(float)[:, rng.permutation(rank + more)]
    if kind == "scaled":
        features *= 2.0 ** rng.integers(-60, 60, rank + more)
    if kind == "nudged":
        features[rng.integers(len(features)), rng.integers(rank + more)] += 2.0**-40
    offsets = np.arange(lists + 1) * size
    left = independent_columns(features, offsets).tolist()
    dropped = [column for column in range(rank + more) if column not in left]
    assert all(spans(features, offsets, left, column) for column in dropped)
    exact = np.linalg.matrix_rank((features - np.repeat(features[offsets[:-1]], size, axis=0)).astype(float))
    if kind in ("whole", "real") and exact == rank:
        assert len(left) <= rank + sum(not spans(features, offsets, [c for c in left if c != k], k) for k in left)


def test_a_sum_of_columns_goes_and_stays_where_it_differs_in_a_last_bit_on_a_single_row() -> None:
    rng = np.random.default_rng(1)
    features = rng.integers(-9, 10, (3000, 4)).astype(float)
    features = np.hstack([features, features[:, :2].sum(axis=1, keepdims=True) / 2 - 3 * features[:, 3:]])
    offsets = np.arange(0, 3001, 10)
    assert len(independent_columns(features, offsets)) == 4
    features[1234, 4] += 2.0**-40
    assert len(independent_columns(features, offsets)) == 5


@pytest.mark.parametrize(("lists", "features"), [(20, 300), (10, 30)])
def test_more_columns_than_rows_end_soon(lists: int, features: int) -> None:
    values = np.random.default_rng(2).normal(size=(10 * lists, features))
    assert len(independent_columns(values, np.arange(0, 10 * lists + 1, 10))) <= features
