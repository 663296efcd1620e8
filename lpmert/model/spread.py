"""How features vary within lists, from some lists after others: what is made of all of them need not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.model.canonical import centred

Lists = tuple[FloatArray, IntArray]
"""Features [m, d] of some lists, and their offsets."""


def units(blocks: Iterable[Lists]) -> FloatArray:
    """Return the standard deviation [d] of features within lists; that of a feature that does not vary is 1."""
    total, count = np.zeros(()), 0
    for features, offsets in blocks:
        alike = centred(features, offsets)
        total = total + np.einsum("ij,ij->j", alike, alike)  # their means are 0
        count += len(alike)
    deviation = np.sqrt(total / count)
    return np.where(deviation > 0.0, deviation, 1.0)


def correlations(blocks: Callable[[], Iterable[Lists]]) -> tuple[FloatArray, FloatArray]:
    """Return the correlations [d, d] of features within lists, and their units [d]; blocks: anew with each call."""
    spread = units(blocks())
    total, count = np.zeros(()), 0
    for features, offsets in blocks():
        alike = centred(features, offsets) / spread
        total = total + alike.T @ alike
        count += len(alike)
    return total / count, spread
