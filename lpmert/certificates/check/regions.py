"""Regions of weights in whole numbers: the boxes that a tree divides, and equations."""

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

Whole = NDArray[np.object_]
"""A vector or matrix of Python's whole numbers."""

_MOST_BITS = 900


class Box(NamedTuple):
    """A box of weights by rays [d, d] of whole numbers: its centre and half a side along every axis.

    It consists of the centre plus each of the others times a number of -1 .. 1, and of all non-negative multiples of
    these sums. No rays stand for all weights.
    """

    rays: Whole

    @property
    def points(self) -> FloatArray:
        """The rays in doubles. Splits need longer ones: about d _MOST_BITS boxes at most lie within each other."""
        if np.abs(self.rays).max(initial=0) >> _MOST_BITS:
            raise CertificateError("a ray is beyond the range of double precision")
        return self.rays.astype(np.float64)

    def is_nonnegative(self, vector: Whole) -> bool:
        """Whether a vector of whole numbers has no negative product with any weights inside: B1."""
        products = self.rays @ vector
        return bool(products[0] >= np.abs(products[1:]).sum()) if len(self.rays) else not vector.any()

    def parts(self, record: Record) -> Iterable[Box]:
        """Return the parts into which a record divides it, which cover it: B2."""
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
    """Return the parts into which a record divides all weights, which cover them: the faces of a cube."""
    if not n_features or record != {"split": BOXES}:
        raise CertificateError(f"with a dimension of {n_features}, all weights are not divided by {record!r:.40}")
    units = axes(n_features)
    faces = [(d, sign) for d in range(n_features) for sign in (1, -1)]
    return [Box(np.array([sign * units[d], *units[:d], *units[d + 1 :]])) for d, sign in faces]


Equations = Sequence[Sequence[Fraction]]


def check_equations(equations: Equations, weights: Sequence[float]) -> None:
    """Raise `CertificateError` unless weights fulfil equations but for rounding."""
    for k, row in enumerate(equations):
        terms = [a * Fraction(w) for a, w in zip(row, weights, strict=True)]
        if 10**9 * abs(sum(terms, Fraction(0))) > sum(map(abs, terms), Fraction(0)):
            raise CertificateError(f"the weights do not fulfil equation {k}, not even but for rounding")


def basis_of(equations: Equations, n_features: int) -> tuple[Whole, list[int]]:
    """Return vectors [D, d] of whole numbers that span the weights that fulfil equations, one for each weight that no
    equation sets, and which these are: rows of features times this have those set added to those that set them (G6).
    """
    table: list[tuple[int, list[Fraction]]] = []
    for row in equations:
        left = list(row)
        if len(left) != n_features:
            raise CertificateError(f"equations have {n_features} numbers, not {len(left)}")
        for d, own in checked(table, 1):
            left = [a - left[d] * b for a, b in zip(left, own, strict=True)]
        last = max((d for d, value in enumerate(left) if value), default=None)
        if last is not None:
            left = [value / left[last] for value in left]
            table = [(d, [a - own[last] * b for a, b in zip(own, left, strict=True)]) for d, own in table]
            table.append((last, left))
    free = [k for k in range(n_features) if k not in {d for d, _ in table}]
    common = lcm(*(value.denominator for _, row in table for value in row))
    basis = np.zeros((n_features, len(free)), dtype=object)
    basis[free, range(len(free))] = common
    for d, row in table:
        basis[d] = [int(-row[k] * common) for k in free]
    return basis, free
