"""Numbers that are multiples of a power of two, and products of them that double precision does not round."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lpmert.errors import BoolArray, FloatArray, IntArray

COARSE = (0, 10, 20, 30, 40)
"""Places that are tried for many numbers."""

_PIECE = 1 << 14
"""Numbers that are looked at together: what is made of them needs little room."""

_FINEST = 60
_EXACT_BITS = 52

_BITS = 53
_MOST_EXPONENT = 1024
"""Of a double: its bits, and what `frexp` says of the largest."""


def binary_places(values: FloatArray, tried: Iterable[int] = COARSE) -> int | None:
    """Return the first number of places tried, p, for which all values are multiples of 2^-p, `None` if there is none.

    Values that overflow when multiplied by 2^p are multiples of nothing.
    """
    flat = values.reshape(-1)
    pieces = [flat[begin : begin + _PIECE] for begin in range(0, len(flat), _PIECE)]
    largest = max((float(max(piece.max(), -piece.min())) for piece in pieces), default=0.0)
    if not np.isfinite(largest):
        return None
    most = _MOST_EXPONENT - int(np.frexp(largest)[1])
    return next((p for p in tried if p <= most and all(_are_whole(piece * 2.0**p) for piece in pieces)), None)


def _are_whole(values: FloatArray) -> bool:
    return bool((np.rint(values) == values).all())


def _places(values: FloatArray) -> IntArray:
    """Return for each of values the least p for which it is a multiple of 2^-p; they are finite."""
    fractions, exponents = np.frexp(values)
    whole = np.ldexp(fractions, _BITS).astype(np.int64)
    lowest = whole & -whole
    return np.where(whole == 0, 0, _BITS + 1 - exponents - np.frexp(lowest)[1])


def single_products(rays: FloatArray) -> BoolArray:
    """Return which rays [K, D] have one entry only, a power of two of 1 or more: products with it are not rounded."""
    largest = np.abs(rays).max(axis=1, initial=0.0)
    return np.asarray((np.count_nonzero(rays, axis=1) == 1) & (np.frexp(largest)[0] == 0.5) & (largest >= 1.0))


def exact_products(rays: FloatArray, features: FloatArray, largest: float) -> BoolArray:
    """Return for which rays [K, D] products with features [M, D] are sums without any rounding, in whatever order.

    largest: what the absolute values of a row of features sum up to at most. With features that are multiples of 2^-p
    and a ray of 2^-q, all partial sums are multiples of 2^-(p + q), and 53 bits hold them where they are not too large.
    """
    places = binary_places(features)
    if places is None or not np.isfinite(rays).all():
        return np.zeros(len(rays), dtype=bool)
    own = _places(rays).max(axis=1, initial=0)
    sizes = largest * np.abs(rays).max(axis=1, initial=0.0)
    return np.asarray((own <= _FINEST) & (sizes < np.ldexp(1.0, _EXACT_BITS - places - own)))
