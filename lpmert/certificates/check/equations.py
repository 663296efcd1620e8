"""Equations of the weights: fewer features, the rest of which follow."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

import numpy as np

from lpmert.certificates.check.shapes import Whole
from lpmert.errors import CertificateError
from lpmert.system.deadline import checked

Equations = Sequence[Sequence[Fraction]]


def meant_weights(equations: Equations, weights: Sequence[float]) -> list[Fraction]:
    """Return weights that fulfil equations, up to a factor, each of which sets the last weight that it can.

    Raises `CertificateError` unless those given do so but for rounding.
    """
    basis, free = basis_of(equations, len(weights))
    for k, row in enumerate(equations):
        terms = [a * Fraction(w) for a, w in zip(row, weights, strict=True)]
        if 10**9 * abs(sum(terms, Fraction(0))) > sum(map(abs, terms), Fraction(0)):
            raise CertificateError(f"the weights do not fulfil equation {k}, not even but for rounding")
    found: list[Fraction] = (basis @ np.array([Fraction(weights[d]) for d in free], dtype=object)).tolist()
    return found


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
