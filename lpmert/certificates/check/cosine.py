"""Regions with a cosine: the weights lie in the cap, and limits of the tree's own, its facets, cut nothing off it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from lpmert.certificates.format import Header
from lpmert.errors import CertificateError

Vector = Sequence[Fraction]


def check_cap(header: Header) -> None:
    """Raise `CertificateError` unless the weights are in the cap and every facet is positive on all of it: G3."""
    centre, square = list(map(Fraction, header.around)), header.cosine**2
    if len(centre) != len(header.weights) or not any(centre) or not 0 < header.cosine < 1:
        raise CertificateError("a cosine between 0 and 1 goes with as many numbers as there are weights, not all 0")
    if not near(list(map(Fraction, header.weights.values())), centre, square):
        raise CertificateError("the weights break the cosine")
    for k, row in enumerate(header.facets):
        facet = list(map(Fraction, row))
        if len(facet) != len(centre) or not any(facet) or not near(facet, centre, 1 - square, strictly=True):
            raise CertificateError(f"facet {k} cuts off weights within the cosine")


def near(first: Vector, second: Vector, square: Fraction, *, strictly: bool = False) -> bool:
    """Whether the cosine of two vectors is positive, and its square at least, or strictly more than, a number."""
    excess = _product(first, second) ** 2 - square * _product(first, first) * _product(second, second)
    return _product(first, second) > 0 and (excess > 0 or (excess == 0 and not strictly))


def _product(first: Vector, second: Vector) -> Fraction:
    return sum((a * b for a, b in zip(first, second, strict=True)), Fraction(0))
