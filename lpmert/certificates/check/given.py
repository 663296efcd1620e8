"""The caller's lists as a certificate's region leaves them: limits are lists of their own, equations fewer features."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import NamedTuple

import numpy as np

from lpmert.errors import CertificateError, FloatArray, IntArray
from lpmert.model.given import MAGNITUDE_LIMIT
from lpmert.model.meant import meant
from lpmert.model.nbest import NBest
from lpmert.numeric import rational


def places_of(features: FloatArray) -> int:
    """Return the power of two that makes features whole."""
    fractions, exponents = np.frexp(features)
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    lowest = exponents - 54 + np.frexp((mantissas & -mantissas).astype(np.float64))[1]
    return int(-np.min(lowest, where=mantissas != 0, initial=0))


class Given(NamedTuple):
    """Rows [M, d] of lists, with offsets, and the names of the features.

    free [d]: which of the caller's features these are. whole [M][d]: what the rows are, up to a factor, where doubles
    do not hold them.
    """

    features: FloatArray
    offsets: IntArray
    names: list[str]
    free: list[int]
    whole: list[list[int]] | None


def given_rows(nbest: NBest, limits: Sequence[Sequence[float]], equations: Sequence[Sequence[Fraction]] = ()) -> Given:
    """Return the caller's lists and, after them, one {a, 0} for each limit a; features that equations set are added to
    those that set them: G6.
    """
    rows = np.zeros((2 * len(limits), nbest.n_features))
    for k, limit in enumerate(limits):
        if len(limit) != nbest.n_features or not any(limit) or max(map(abs, limit)) > MAGNITUDE_LIMIT:
            raise CertificateError(
                f"limit {k} must have {nbest.n_features} numbers, not all 0, of at most {MAGNITUDE_LIMIT:g}"
            )
        rows[2 * k] = limit
    features = np.concatenate([meant(nbest.dense_features()).features, rows])
    offsets = np.concatenate([nbest.offsets, nbest.offsets[-1] + 2 * np.arange(1, len(limits) + 1)])
    if not equations:
        return Given(features, offsets, list(nbest.names), list(range(nbest.n_features)), None)
    columns = basis_of(equations, nbest.n_features)
    free, names = list(columns), [nbest.names[d] for d in columns]
    if all(len(column) == 1 for column in columns.values()):
        return Given(features[:, free], offsets, names, free, None)
    common = lcm(*(value.denominator for column in columns.values() for value in column.values()))
    matrix = np.zeros((nbest.n_features, len(free)), dtype=object)
    for k, column in enumerate(columns.values()):
        for d, value in column.items():
            matrix[d, k] = int(value * common)
    whole = np.array(rational.to_integers(features), dtype=object) @ matrix
    scale, sizes = common << places_of(features), np.abs(whole[whole != 0])
    if len(sizes) and (max(sizes) > scale << 900 or min(sizes) << 600 < scale):
        raise CertificateError("the equations make numbers beyond the range of double precision")
    rounded = (whole / scale).astype(np.float64)
    return Given(rounded, offsets, names, free, whole.tolist())


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
