"""Sums and products together with their rounding errors, which are numbers of double precision too.

Sources: Dekker, A floating-point technique for extending the available precision, 1971; Knuth, The Art of Computer
Programming, volume 2.
"""

from __future__ import annotations

from lpmert.numeric.kernels import kernel

_SPLITTER = 2.0**27 + 1


@kernel
def two_sum(a, b):
    """Return the rounded sum and its exact error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@kernel
def two_product(a, b):
    """Return the rounded product and its exact error (Dekker, Veltkamp)."""
    product = a * b
    wide = _SPLITTER * a
    a_high = wide - (wide - a)
    wide = _SPLITTER * b
    b_high = wide - (wide - b)
    a_low, b_low = a - a_high, b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
