"""Figures of the rows of a matrix. numpy takes one row after the other, which is slow where there are many short ones.

Here they are made column by column where that is quicker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from lpmert.errors import FloatArray

_TALL = 64
"""Rows for each column from which on columns are taken one by one."""


def largest_of_rows(values: FloatArray) -> FloatArray:
    """Return the largest magnitude [n] in each row of values [n, d], 0 where rows are empty."""
    if _is_tall(values):
        return _over_columns(np.maximum, values, np.abs)
    return np.asarray(np.abs(values).max(axis=1, initial=0.0))


def sizes_of_rows(values: FloatArray) -> FloatArray:
    """Return the sum of magnitudes [n] of each row of values [n, d]."""
    return _over_columns(np.add, values, np.abs) if _is_tall(values) else np.asarray(np.abs(values).sum(axis=1))


def lengths_of_rows(values: FloatArray) -> FloatArray:
    """Return the Euclidean norm [n] of each row of values [n, d]."""
    if _is_tall(values):
        return np.asarray(np.sqrt(_over_columns(np.add, values, np.square)))
    return np.asarray(np.linalg.norm(values, axis=1))


def _is_tall(values: FloatArray) -> bool:
    n_rows, n_columns = values.shape
    return bool(n_columns > 0 and n_rows >= _TALL * n_columns)


def _over_columns(combine: Any, values: FloatArray, figure: Callable[[FloatArray], FloatArray]) -> FloatArray:
    columns = (figure(column) for column in values.T)
    return reduce(lambda sofar, column: combine(sofar, column, out=sofar), columns)
