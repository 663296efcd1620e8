"""Regions with a cosine: the weights lie in the cap, and limits of the tree's own, its facets, cut nothing off it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lpmert.certificates.check.equations import basis_of, meant_weights
from lpmert.certificates.check.shapes import Whole
from lpmert.certificates.format import Header
from lpmert.errors import CertificateError
from lpmert.numeric import rational

Vector = Sequence[Fraction] | Whole


def cap_of(header: Header) -> Cap | None:
    """Return the test whether a sum of differences of features, the set ones added to the free ones, has no negative
    product with any weights in the cap that fulfil the equations: G3, in these by G6; `None` without a cosine.

    Raises `CertificateError` unless the weights fulfil the equations, are in the cap and every facet is positive on it.
    """
    meant = meant_weights(header.equations, list(header.weights.values()))
    if not (header.around or header.cosine or header.facets):
        return None
    centre, square = list(map(Fraction, header.around)), header.cosine**2
    if len(centre) != len(header.weights) or not any(centre) or not 0 < header.cosine < 1:
        raise CertificateError("a cosine between 0 and 1 goes with as many numbers as there are weights, not all 0")
    if not near(meant, centre, square):
        raise CertificateError("the weights break the cosine")
    for k, row in enumerate(header.facets):
        facet = list(map(Fraction, row))
        if len(facet) != len(centre) or not any(facet) or not near(facet, centre, 1 - square, strictly=True):
            raise CertificateError(f"facet {k} cuts off weights within the cosine")
    basis = basis_of(header.equations, len(centre))[0] if header.equations else None
    whole = np.array(rational.to_integers([header.around])[0], dtype=object)
    middle = lifted(basis, whole if basis is None else whole @ basis)
    return Cap(basis, middle, 1 - square * _product(whole, whole) / _product(middle, middle))


@dataclass(frozen=True)
class Cap:
    """What tells of a sum of differences of features whether it has no negative product with any weights of a cap.

    basis [D, d]: spans the weights that fulfil the equations, if there are any; middle [D]: of the cap, among these;
    square: of the cosine that the sum needs at least.
    """

    basis: Whole | None
    middle: Vector
    square: Fraction

    def __call__(self, vector: Whole) -> bool:
        return near(lifted(self.basis, vector), self.middle, self.square)


def lifted(basis: Whole | None, vector: Whole) -> Vector:
    """Return the projection on the span of a basis [D, d], `None` for all, of what has these products [d] with it."""
    if basis is None:
        return vector
    gram = (basis.T @ basis).tolist()
    return np.asarray(basis @ np.array(rational.solve_integers(gram, vector.tolist()), dtype=object))


def near(first: Vector, second: Vector, square: Fraction, *, strictly: bool = False) -> bool:
    """Whether the cosine of two vectors is positive, and its square at least, or strictly more than, a number."""
    excess = _product(first, second) ** 2 - square * _product(first, first) * _product(second, second)
    return _product(first, second) > 0 and (excess > 0 or (excess == 0 and not strictly))


def _product(first: Vector | Sequence[int], second: Vector | Sequence[int]) -> Fraction:
    return sum((a * b for a, b in zip(first, second, strict=True)), Fraction(0))
