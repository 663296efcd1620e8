"""Half-spaces a.w > 0 as lists of two, {a, 0}: weights are inside where a wins."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from lpmert.errors import FloatArray, IntArray

Array = TypeVar("Array", FloatArray, IntArray)


def with_half_spaces(
    features: FloatArray, offsets: IntArray, values: Array, normals: FloatArray, beyond: float
) -> tuple[FloatArray, IntArray, Array]:
    """Append a list {a, 0} for every row a of normals [k, d]: the value of a is 0, that of the zero vector `beyond`.

    features [m, d], offsets [s + 1], values [m] or [m, K].
    """
    pairs = np.zeros((2 * len(normals), features.shape[1]))
    pairs[::2] = normals
    own = np.zeros((len(pairs), *values.shape[1:]), dtype=values.dtype)
    own[1::2] = beyond
    ends = offsets[-1] + 2 * np.arange(1, len(normals) + 1)
    return np.concatenate([features, pairs]), np.concatenate([offsets, ends]), np.concatenate([values, own])
