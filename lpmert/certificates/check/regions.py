"""Regions of weights in integers: the boxes that a tree divides, and equations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.certificates.format import BOXES, Record, integers
from lpmert.errors import CertificateError, FloatArray
from lpmert.system.deadline import checked

Whole = NDArray[np.object_]  # a vector or matrix of Python's integers
_MOST_BITS = 900  # bits of the largest entry of a ray, well within the range of doubles


class Box(NamedTuple):
    """A box of weights, given by rays [d, d] of integers: its centre, then half a side along every axis.

    It consists of the centre plus each half side times a number between -1 and 1, and of all non-negative multiples of
    these sums. A box without rays stands for all weights.
    """

    rays: Whole

    @property
    def points(self) -> FloatArray:
        """The rays in doubles.

        Raises `CertificateError` for rays that are too long. They grow by a bit at least every d splits, so that this
        also limits how deep boxes are nested, to about d _MOST_BITS.
        """
        if np.abs(self.rays).max(initial=0) >> _MOST_BITS:
            raise CertificateError("a ray is beyond the range of double precision")
        return self.rays.astype(np.float64)

    def is_nonnegative(self, vector: Whole) -> bool:
        """Whether a vector of integers has a negative product with no weights of the box: B1 (a)."""
        products = self.rays @ vector
        return bool(products[0] >= np.abs(products[1:]).sum()) if len(self.rays) else not vector.any()

    def parts(self, record: Record) -> Iterable[Box]:
        """Return the boxes into which a record divides this one; they cover it: B2."""
        if not len(self.rays):
            return _faces(self.rays.shape[1], record)
        if set(record) == {"split"}:
            (k,) = integers(record["split"], 1)
            if 0 < k < len(self.rays):
                return [Box(_half(self.rays, k, sign)) for sign in (1, -1)]
        raise CertificateError(f"no side of this box is split by {record!r:.40}")


def _half(rays: Whole, k: int, sign: int) -> Whole:
    half = 2 * rays
    half[0] += sign * rays[k]
    half[k] = rays[k]
    return np.asarray(half // gcd(*half.flat))


def axes(n_features: int) -> Whole:
    return np.diag(np.array([1] * n_features, dtype=object))


def _faces(n_features: int, record: Record) -> list[Box]:
    """Return the faces of a cube, into which a record divides all weights; they cover all weights but 0: B2 (a)."""
    if not n_features or record != {"split": BOXES}:
        raise CertificateError(f"with a dimension of {n_features}, all weights are not divided by {record!r:.40}")
    units = axes(n_features)
    faces = [(d, sign) for d in range(n_features) for sign in (1, -1)]
    return [Box(np.array([sign * units[d], *units[:d], *units[d + 1 :]])) for d, sign in faces]


Equations = Sequence[Sequence[Fraction]]


def check_equations(equations: Equations, weights: Sequence[float]) -> None:
    """Raise `CertificateError` unless weights fulfil equations up to rounding, 1e-9 of the sum of absolute terms."""
    for k, row in enumerate(equations):
        terms = [a * Fraction(w) for a, w in zip(row, weights, strict=True)]
        if 10**9 * abs(sum(terms, Fraction(0))) > sum(map(abs, terms), Fraction(0)):
            raise CertificateError(f"the weights do not fulfil equation {k}, even up to rounding")


def basis_of(equations: Equations, n_features: int) -> tuple[Whole, list[int]]:
    """Return a basis [D, d] of the weights that fulfil equations, in integers, and the features of its coordinates: G6.

    By elimination, each equation sets the first weight that it can; the weights that none sets are free, and each has
    one column of the basis. Rows of features times the basis are features for the free weights, up to one factor.
    """
    table: list[tuple[int, list[Fraction]]] = []
    for row in equations:
        left = list(row)
        if len(left) != n_features:
            raise CertificateError(f"equations have {n_features} numbers, not {len(left)}")
        for d, solved in checked(table, 1):
            left = [a - left[d] * b for a, b in zip(left, solved, strict=True)]
        first = next((d for d, value in enumerate(left) if value), None)
        if first is not None:
            left = [value / left[first] for value in left]
            table = [(d, [a - solved[first] * b for a, b in zip(solved, left, strict=True)]) for d, solved in table]
            table.append((first, left))
    free = [k for k in range(n_features) if k not in {d for d, _ in table}]
    common = lcm(*(value.denominator for _, row in table for value in row))
    basis = np.zeros((n_features, len(free)), dtype=object)
    basis[free, range(len(free))] = common
    for d, row in table:
        basis[d] = [int(-row[k] * common) for k in free]
    return basis, free
