"""Exact arithmetic: against fractions, against brute force, and on its own certificates."""

from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from oracle import dot, strictly_feasible

from lpmert.numeric import rational
from lpmert.numeric.rational import all_positive, decide, difference_rows, farkas, to_integers


def rows_of(entry: st.SearchStrategy[Any], widest: int, least: int, most: int) -> st.SearchStrategy[list[list[Any]]]:
    return st.integers(1, widest).flatmap(
        lambda width: st.lists(st.lists(entry, min_size=width, max_size=width), min_size=least, max_size=most)
    )


def integer_rows(largest: int, most: int = 9) -> st.SearchStrategy[list[list[int]]]:
    return rows_of(st.integers(-largest, largest), 3, 1, most)


finite = st.floats(allow_nan=False, allow_infinity=False)


def parallel(row: list[int], exact: list[Fraction]) -> bool:
    """Whether row is exact times a positive factor."""
    size, length = sum(map(abs, row)), sum(map(abs, exact))
    return (size > 0) == (length > 0) and all(a * length == b * size for a, b in zip(row, exact, strict=True))


@given(rows_of(finite, 4, 3, 3))
@example([[5e-324, 1.7e308], [0.0, -0.0], [1.0, 3.0]])
def test_to_integers_is_the_matrix_times_one_power_of_two(matrix: list[list[float]]) -> None:
    integers = to_integers(matrix)
    factors = {Fraction(i) / Fraction(x) for i, x in zip(chain(*integers), chain(*matrix), strict=True) if x}
    assert len(factors) <= 1
    for factor in factors:
        assert factor > 0
        assert all(value & (value - 1) == 0 for value in (factor.numerator, factor.denominator))
    assert [[i == 0 for i in row] for row in integers] == [[x == 0 for x in row] for row in matrix]


@given(rows_of(finite, 4, 4, 4))
@example([[1.0, 2.0], [2.0**-200, 2.0], [1e300, -1e-300], [1e300, 1e-300]])
def test_difference_rows_point_along_the_exact_difference(matrix: list[list[float]]) -> None:
    chosen, other = matrix[:2], matrix[2:]
    for row, a, b in zip(difference_rows(chosen, other), chosen, other, strict=True):
        assert parallel(row, [Fraction(x) - Fraction(y) for x, y in zip(a, b, strict=True)])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_and_rows_of_other_shapes_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        to_integers([[1.0, bad]])
    with pytest.raises(ValueError, match="shape"):
        difference_rows([[1.0, 2.0]], [[1.0]])


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=5), st.data())
def test_the_sign_of_a_lead_is_exact_next_to_a_tie(weights: list[float], data: st.DataObject) -> None:
    vector = st.lists(st.floats(-1e3, 1e3), min_size=len(weights), max_size=len(weights))
    a = data.draw(vector)
    b = [float(np.nextafter(value, np.inf)) if data.draw(st.booleans()) else value for value in a]
    rows = difference_rows([a], [b])
    assert all_positive(rows, to_integers([weights])[0]) == (dot(weights, a) > dot(weights, b))


@given(st.lists(st.integers(-(2**300), 2**300), min_size=1, max_size=4))
def test_rounded_weights_are_within_half_an_ulp_of_a_common_multiple(weights: list[int]) -> None:
    bits = max(abs(weight).bit_length() for weight in weights)
    for weight, rounded in zip(weights, rational.round_to_floats(weights).tolist(), strict=True):
        exact = Fraction(weight, 2**bits)
        assert abs(Fraction(rounded) - exact) <= abs(exact) * Fraction(1, 2**53)


def check_certificate(rows: list[list[int]], weights: list[int], multipliers: list[int]) -> None:
    if not multipliers:
        assert all(dot(row, weights) > 0 for row in rows)
    else:
        assert len(multipliers) == len(rows)
        assert min(multipliers) >= 0 < max(multipliers)
        assert all(dot(column, multipliers) == 0 for column in zip(*rows, strict=True))
        assert sum(map(bool, multipliers)) <= len(rows[0]) + 1


@settings(max_examples=300, deadline=None)
@given(st.one_of(integer_rows(1), integer_rows(3), integer_rows(2**60, most=6)))
@example([])
@example([[0]])
@example([[1], [1], [2]])
@example([[1], [-1]])
@example([[1, 0], [-1, 0]])
@example([[1, 1], [-1, -1], [1, 1], [0, 0]])
@example([[2**80, 1], [-(2**80), -1 + 2**20]])
def test_decide_agrees_with_brute_force_and_proves_it(rows: list[list[int]]) -> None:
    weights, multipliers = decide(rows)
    assert (not multipliers) == strictly_feasible(rows)
    check_certificate(rows, weights, multipliers)


@pytest.mark.parametrize("seed", range(4))
def test_decide_ends_where_all_vertices_coincide(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, size=(60, 6))
    rows[:30, 0] = np.abs(rows[:30, 0]) + 1
    for some in (rows.tolist(), rows[:30].tolist(), np.repeat(rows[:20], 3, axis=0).tolist()):
        check_certificate(some, *decide(some))


@given(integer_rows(3, most=4))
@example([[1, 0], [-1, 0], [0, 1], [0, -1]])  # two independent combinations
def test_farkas_finds_the_multipliers_exactly_where_there_is_one_combination(rows: list[list[int]]) -> None:
    multipliers = farkas(rows)
    rank = np.linalg.matrix_rank(np.array(rows, dtype=float))
    if multipliers is not None:
        check_certificate(rows, [], multipliers)
    elif len(rows) - rank == 1:
        null = np.linalg.svd(np.array(rows, dtype=float).T)[2][-1]
        assert min(null) < -1e-9 < 1e-9 < max(null)


@given(integer_rows(5, most=6), st.lists(st.integers(-5, 5), min_size=3, max_size=3))
def test_solve_integers_solves_consistent_systems_exactly(matrix: list[list[int]], some: list[int]) -> None:
    x = some[: len(matrix[0])]
    solution = rational.solve_integers(matrix, [int(dot(row, x)) for row in matrix])
    assert solution is not None
    assert [dot(row, solution) for row in matrix] == [dot(row, x) for row in matrix]


@pytest.mark.parametrize(("matrix", "target"), [([[1], [1]], [1, 2]), ([[0, 0]], [1]), ([[1, 2], [2, 4]], [1, 3])])
def test_solve_integers_says_none_where_there_is_no_solution(matrix: list[list[int]], target: list[int]) -> None:
    assert rational.solve_integers(matrix, target) is None


def test_weights_are_rounded_inside_cones_narrower_than_the_grid_of_their_large_entries() -> None:
    """A slab a w1 - b w2 = c w3 give or take 2^-68 of its largest terms, around exact weights."""
    rng = np.random.default_rng(0)
    plain = inside = 0
    for _ in range(100):
        first, third = int(rng.integers(1 << 61, 1 << 62)), int(rng.integers(1 << 49, 1 << 50))
        a, b = (int(x) for x in rng.integers(1 << 20, 1 << 21, 2))
        second = (a * first - (1 << 60)) // b
        level = a * first - b * second
        rows = [[sign * third * a, -sign * third * b, (1 << 14) - sign * level] for sign in (1, -1)]
        exact = [first, second, third]
        assert all_positive(rows, exact)
        both = rational.round_to_floats(exact), rational.rounded_inside(rows, exact)
        assert np.abs(both).max() <= 1
        plain += all_positive(rows, to_integers([both[0]])[0])
        inside += all_positive(rows, to_integers([both[1]])[0])
    assert plain < 5 < 95 < inside
    beyond = [[10**200, -1], [0, 1]]  # the middle of what the second entry may be is beyond the range of doubles
    found = rational.rounded_inside(beyond, [1, 1])
    assert all_positive(beyond, to_integers([found])[0])
    assert found[1] / found[0] > 1e199
