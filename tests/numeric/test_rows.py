"""Figures of rows, many made column by column: the same as one row after the other; and the best rows."""

from math import hypot

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpmert.numeric.lists import first_best, largest_of_rows, lengths_of_rows, sizes_of_rows


@pytest.mark.parametrize("shape", [(0, 3), (5, 4), (5, 0), (200, 0), (200, 1), (200, 3), (640, 9)])
def test_tall_matrices_have_the_figures_of_their_rows(shape: tuple[int, int]) -> None:
    values = np.random.default_rng(1).normal(size=shape)
    rows = values.tolist()
    assert largest_of_rows(values).tolist() == [max(map(abs, row), default=0.0) for row in rows]
    assert sizes_of_rows(values) == pytest.approx([sum(map(abs, row)) for row in rows], rel=1e-14)
    assert lengths_of_rows(values) == pytest.approx([hypot(*row) for row in rows], rel=1e-14)


def test_matrices_stay_as_they_were() -> None:
    values = np.random.default_rng(2).normal(size=(300, 2))
    before = values.copy()
    for figure in (largest_of_rows, sizes_of_rows, lengths_of_rows):
        figure(values)
        figure(values[:3])
    assert np.array_equal(values, before)


@given(st.lists(st.lists(st.integers(-2, 2), min_size=1, max_size=4), min_size=1, max_size=5))
def test_the_first_of_the_best_is_taken_in_every_list(scores: list[list[int]]) -> None:
    offsets = np.cumsum([0, *map(len, scores)])
    expected = [begin + one.index(max(one)) for begin, one in zip(offsets.tolist(), scores, strict=False)]
    assert first_best(np.concatenate([np.array(one, dtype=float) for one in scores]), offsets[:-1]).tolist() == expected
