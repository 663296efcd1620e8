"""Regions with a cosine: the weights lie in the cap, and limits of the tree's own, its facets, cut nothing off it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from lpmert.certificates.check.equations import basis_of, meant_weights
from lpmert.certificates.check.shapes import Whole
from lpmert.certificates.format import Header
from lpmert.errors import CertificateError
from lpmert.numeric import rational

Vector = Sequence[Fraction] | Whole


def cap_of(header: Header) -> Callable[[Whole], bool] | None:
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
    basis, _ = basis_of(header.equations, len(centre))
    gram = (basis.T @ basis).tolist()

    def lifted(vector: Whole) -> Vector:
        # The projection on the weights that fulfil the equations, of what has these products with their basis.
        if not header.equations:
            return vector
        return np.asarray(basis @ np.array(rational.solve_integers(gram, vector.tolist()), dtype=object))

    middle = lifted(np.array(rational.to_integers([header.around])[0], dtype=object) @ basis)
    (whole,) = rational.to_integers([header.around])
    left = 1 - square * _product(whole, whole) / _product(middle, middle)
    return lambda vector: near(lifted(vector), middle, left)


def near(first: Vector, second: Vector, square: Fraction, *, strictly: bool = False) -> bool:
    """Whether the cosine of two vectors is positive, and its square at least, or strictly more than, a number."""
    excess = _product(first, second) ** 2 - square * _product(first, first) * _product(second, second)
    return _product(first, second) > 0 and (excess > 0 or (excess == 0 and not strictly))


def _product(first: Vector | Sequence[int], second: Vector | Sequence[int]) -> Fraction:
    return sum((a * b for a, b in zip(first, second, strict=True)), Fraction(0))
