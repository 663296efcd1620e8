"""Sums of columns times rational numbers: in doubles, with what these are off, and which of them are equal exactly."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.numeric import rational
from lpmert.numeric.rounding import Column

_EPSILON = float(np.finfo(np.float64).eps)
_SPLITTER = float((1 << 27) + 1)
_SAFE = 2.0**-400
"""Products of numbers above this do not underflow, nor do their errors."""


def sums_of_columns(features: FloatArray, offsets: IntArray, column: Column) -> tuple[FloatArray, FloatArray, float]:
    """Return the products [M] of features [M, D] with a column, numbers that differ within a list [S + 1] exactly where
    exact products do, and what the products are off at most.

    Sums are added up with about twice the digits of doubles (Dekker, A floating-point technique for extending the
    available precision, 1971), and rounded. Raises `DataError` where they overflow.
    """
    used, factors = list(column), list(column.values())
    terms = features[:, used]
    if factors == [1]:
        return terms[:, 0], terms[:, 0], 0.0
    # Powers of two keep products from overflow; what is lost below is as nothing beside the largest.
    exponents = np.frexp(np.abs(terms).max(axis=0, initial=0.0))[1]
    scaled = np.ldexp(terms, -exponents)
    factors = [factor * Fraction(2) ** int(exponent) for factor, exponent in zip(factors, exponents, strict=True)]
    top = max(abs(factor).numerator.bit_length() - factor.denominator.bit_length() for factor in factors) + 1
    exact = bool((np.ldexp(scaled, exponents) == terms).all() and (np.abs(scaled[scaled != 0.0]) > _SAFE).all())
    total, rest, size = np.zeros(len(terms)), np.zeros(len(terms)), np.zeros(len(terms))
    for x, factor in zip(scaled.T, factors, strict=True):
        factor /= Fraction(2) ** top
        high = float(factor)
        low = float(factor - Fraction(high))
        product, error = _product(x, high)
        total, carried = _sum(total, product)
        exact = exact and factor == Fraction(high) and abs(high) > _SAFE and not (error.any() or carried.any())
        rest += carried + (error + x * low)
        size += np.abs(product)
    with np.errstate(over="ignore"):
        values = np.ldexp(total + rest, top)
    if not np.isfinite(values).all():
        raise DataError("a sum of features that an equation asks for overflows; rescale these features")
    if exact and np.array_equal(np.ldexp(values, -top), total):
        return values, values, 0.0
    second_order = 16.0 * (len(used) + 2) ** 2 * _EPSILON**2 * float(size.max(initial=0.0))
    off = float(np.ldexp(second_order + 2.0**-1060, top)) + math.ulp(0.0)
    off += _EPSILON * float(np.abs(values).max(initial=0.0))
    return values, _codes(terms, offsets, list(column.values()), values, off), off


def _sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return sums [M] and what rounding took from them."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _product(a: FloatArray, b: float) -> tuple[FloatArray, FloatArray]:
    """Return products [M] and what rounding took from them, for numbers far from overflow."""
    product = a * b
    high = _SPLITTER * a - (_SPLITTER * a - a)
    other = _SPLITTER * b - (_SPLITTER * b - b)
    low, rest = a - high, b - other
    return product, ((high * other - product) + high * rest + low * other) + low * rest


def _codes(terms: FloatArray, offsets: IntArray, factors: list[Fraction], values: FloatArray, off: float) -> FloatArray:
    """Return numbers [M] that differ within a list exactly where sums do: those that come near each other are compared
    in whole numbers.
    """
    lists = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((values, lists))
    near = (np.diff(values[order]) <= 2.0 * off) & (np.diff(lists[order]) == 0)
    close = np.union1d(order[1:][near], order[:-1][near])
    codes: FloatArray = -1.0 - np.arange(len(values), dtype=np.float64)
    different, places = np.unique(terms[close], axis=0, return_inverse=True)
    common = math.lcm(*(factor.denominator for factor in factors))
    multiples = [int(factor * common) for factor in factors]
    found: dict[int, int] = {}
    whole = rational.to_integers(different) if len(different) else []
    sums = (sum(a * b for a, b in zip(row, multiples, strict=True)) for row in whole)
    numbers = np.array([found.setdefault(value, len(found)) for value in sums], dtype=np.float64)
    codes[close] = numbers[places.ravel()]
    return codes
