"""Numbers that are multiples of a power of two, and products of them that double precision does not round."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lpmert.errors import BoolArray, FloatArray

COARSE = (0, 10, 20, 30, 40)
"""Places that are tried for many numbers."""

_FINE = range(61)
_EXACT_BITS = 52


def binary_places(values: FloatArray, tried: Iterable[int] = COARSE) -> int | None:
    """Return the first number of places tried, p, for which all values are multiples of 2^-p, `None` if there is none.

    Values that overflow when multiplied by 2^p are multiples of nothing.
    """
    for places in tried:
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.ldexp(values, places)
            if np.all(np.isfinite(scaled) & (scaled == np.rint(scaled))):
                return places
    return None


def single_products(rays: FloatArray) -> BoolArray:
    """Return which rays [K, D] have one entry only, a power of two of 1 or more: products with it are not rounded."""
    largest = np.abs(rays).max(axis=1, initial=0.0)
    return np.asarray((np.count_nonzero(rays, axis=1) == 1) & (np.frexp(largest)[0] == 0.5) & (largest >= 1.0))


def exact_products(rays: FloatArray, features: FloatArray, largest: float) -> BoolArray:
    """Return for which rays [K, D] products with features [M, D] are sums without any rounding, in whatever order.

    largest: what the absolute values of a row of features sum up to at most. With features that are multiples of 2^-p
    and a ray of 2^-q, all partial sums are multiples of 2^-(p + q), and 53 bits hold them where they are not too large.
    """
    exact = np.zeros(len(rays), dtype=bool)
    places = binary_places(features)
    if places is None:
        return exact
    for k, ray in enumerate(rays):
        own = binary_places(ray, _FINE)
        if own is not None:
            size = largest * float(np.abs(ray).max(initial=0.0))
            exact[k] = size < np.ldexp(1.0, _EXACT_BITS - places - own)
    return exact
