"""Figures of rows, made column by column where there are many: the same as one row after the other."""

from math import hypot

import numpy as np
import pytest

from lpmert.numeric.lists import largest_of_rows, lengths_of_rows, sizes_of_rows


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
