"""Equations of the weights: fewer features, the rest of which follow."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import CertificateError

Equations = Sequence[Sequence[Fraction]]


def reduced(whole: NDArray[np.object_], equations: Equations) -> tuple[NDArray[np.object_], list[int]]:
    """Return rows [M, D] of whole numbers, up to a factor, with the features that equations set added to those that set
    them: G6; and which features are left.
    """
    columns = basis_of(equations, whole.shape[1])
    common = lcm(*(value.denominator for column in columns.values() for value in column.values()))
    matrix = np.zeros((whole.shape[1], len(columns)), dtype=object)
    for k, column in enumerate(columns.values()):
        for d, value in column.items():
            matrix[d, k] = int(value * common)
    return whole @ matrix, list(columns)


def check_fulfilled(equations: Equations, weights: Sequence[float]) -> None:
    """Raise `CertificateError` unless weights fulfil equations; doubles need not do so exactly."""
    for k, row in enumerate(equations):
        terms = [a * Fraction(w) for a, w in zip(row, weights, strict=True)]
        if 10**9 * abs(sum(terms, Fraction(0))) > sum(map(abs, terms), Fraction(0)):
            raise CertificateError(f"the weights do not fulfil equation {k}, not even but for rounding")


def basis_of(equations: Sequence[Sequence[Fraction]], n_features: int) -> dict[int, dict[int, Fraction]]:
    """Return for each feature whose weight no equation sets how all weights follow it; each equation sets its last."""
    table: list[tuple[int, list[Fraction]]] = []
    for row in equations:
        left = list(row)
        if len(left) != n_features:
            raise CertificateError(f"equations have {n_features} numbers, not {len(left)}")
        for d, own in table:
            left = [a - left[d] * b for a, b in zip(left, own, strict=True)]
        last = max((d for d, value in enumerate(left) if value), default=None)
        if last is not None:
            left = [value / left[last] for value in left]
            table = [(d, [a - own[last] * b for a, b in zip(own, left, strict=True)]) for d, own in table]
            table.append((last, left))
    free = [d for d in range(n_features) if d not in {d for d, _ in table}]
    return {k: {k: Fraction(1), **{d: -row[k] for d, row in table if row[k]}} for k in free}
