"""Columns found dependent by elimination modulo primes are those that exact rational arithmetic finds."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lpmert
from lpmert.errors import FloatArray, IntArray
from lpmert.model.presolve import independent_columns
from lpmert.numeric import modular, rational
from lpmert.numeric.modular import combinations


def by_rationals(features: FloatArray, first: IntArray, clear: list[int], suspects: list[int]) -> list[int]:
    """Drop suspects from the last to the first while the columns left span them, in exact arithmetic."""
    whole = np.array(rational.to_integers(features), dtype=object)
    exact = whole - whole[first]
    left = sorted(clear + suspects)
    for suspect in sorted(suspects, reverse=True):
        others = [column for column in left if column != suspect]
        if rational.solve_integers(exact[:, others].tolist(), exact[:, suspect].tolist()) is not None:
            left = others
    return sorted(set(suspects) - set(left))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["whole", "scaled", "nudged", "real"]))
def test_the_columns_dropped_are_those_of_rational_arithmetic(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    lists, size, n = (int(rng.integers(1, most)) for most in (6, 5, 8))
    rank = int(rng.integers(1, n + 1))
    made = rng.normal(size=(lists * size, rank)) if kind == "real" else rng.integers(-4, 5, (lists * size, rank))
    features = made @ rng.integers(-3, 4, (rank, n)).astype(float)
    if kind == "scaled":
        features *= 2.0 ** rng.integers(-60, 60, n)
    if kind == "nudged":
        features[rng.integers(len(features)), rng.integers(n)] += 2.0**-40
    first = np.repeat(np.arange(lists) * size, size)
    shuffled = rng.permutation(n).tolist()
    split = int(rng.integers(0, n + 1))
    clear, suspects = sorted(shuffled[:split]), sorted(shuffled[split:])
    order = np.array(clear + suspects, dtype=np.int64)
    assert sorted(combinations(features, first, order, split).tolist()) == by_rationals(
        features, first, clear, suspects
    )


def test_large_coefficients_are_found() -> None:
    rng = np.random.default_rng(0)
    made = rng.integers(-9, 10, (60, 12)).astype(float)
    mixed = made @ rng.integers(-9, 10, (12, 20))  # each further column is a ratio of determinants times the first ones
    first = np.repeat(np.arange(0, 60, 6), 6)
    assert len(combinations(mixed, first, np.arange(20), 0)) == 8
    assert len(combinations(np.hstack([mixed, rng.normal(size=(60, 1))]), first, np.arange(21), 0)) == 8


def test_columns_that_differ_in_a_last_bit_on_a_single_row_stay() -> None:
    rng = np.random.default_rng(1)
    features = rng.integers(-9, 10, (3000, 4)).astype(float)
    features = np.hstack([features, features[:, :2].sum(axis=1, keepdims=True)])
    first = np.repeat(np.arange(0, 3000, 10), 10)
    assert combinations(features, first, np.arange(5), 0).tolist() == [4]
    features[1234, 4] += 2.0**-45
    assert combinations(features, first, np.arange(5), 0).tolist() == []


def test_multiples_of_a_prime_are_no_zeros() -> None:
    p = next(modular._primes())
    features = np.array([[0.0, 0.0], [float(p), 0.0], [0.0, 1.0], [1.0, 1.0]])
    features = np.hstack([features, features @ np.array([[1.0], [float(p)]])])
    assert combinations(features, np.zeros(4, dtype=np.int64), np.arange(3), 0).tolist() == [2]
    assert combinations(features[:, [0, 1]], np.zeros(4, dtype=np.int64), np.arange(2), 0).tolist() == []


def test_the_primes_are_the_largest_below_two_to_the_31() -> None:
    primes = modular._primes()
    assert [next(primes) for _ in range(3)] == [2147483647, 2147483629, 2147483587]


@pytest.mark.parametrize(("lists", "features", "left"), [(20, 300, 180), (10, 30, 30)])
def test_more_features_than_rows_are_reduced_at_once(lists: int, features: int, left: int) -> None:
    rng = np.random.default_rng(2)
    offsets = np.arange(0, 10 * lists + 1, 10)
    values = rng.normal(size=(10 * lists, features))
    independent_columns(values[:10], offsets[:2])  # compiles
    began = time.process_time()
    assert len(independent_columns(values, offsets)) == left
    assert time.process_time() - began < 10.0
    nbest = lpmert.NBest(values, offsets, rng.integers(0, 9, 10 * lists).astype(float))
    began = time.process_time()
    result = lpmert.minimize(nbest, time_limit=1.0)
    assert time.process_time() - began - result.seconds.get("compile", 0.0) < 10.0
    assert result.counters["canonical_features"] in (left, features)
