"""Cones that cover a region of weights: those of the whole space, cut along its limits."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from lpmert.errors import FloatArray
from lpmert.numeric.cap import Cap
from lpmert.numeric.cone import cone_around, covering_cones

_MOST_CONES = 4096
_FACTOR_BITS = (10, 6, 3)
"""Bits of the factors by which two rays are mixed, about: the first that keep midpoints of rays exact."""

_RAY_BITS = 40

Ray = tuple[Fraction, ...]


def cones_of_region(limits: FloatArray, cap: Cap | None = None) -> FloatArray:
    """Return cones [K, D, D] that cover all weights of a cap with limits [k, D] @ w >= 0; rays are rows, and exact.

    A cone that a limit cuts is split at a point of an edge, in exact arithmetic, until each part lies on one side.
    Where that point needs too many bits, a little of the outside stays; where there would be too many cones the last
    ones stay uncut. None are left where all but a face of every cone is outside.
    """
    around = None if cap is None else cone_around(cap)
    whole = covering_cones(limits.shape[1]) if around is None else around[None, :, :]
    cones = [[tuple(map(Fraction, ray)) for ray in cone] for cone in whole.tolist()]
    for row in limits.tolist():
        normal = tuple(map(Fraction, row))
        done: list[list[Ray]] = []
        for place, cone in enumerate(cones):
            if len(done) + len(cones) - place > _MOST_CONES:
                done.append(cone)
            else:
                done += _inside(cone, normal)
        cones = done
    return np.array([[_floats(ray) for ray in cone] for cone in cones]).reshape(-1, limits.shape[1], limits.shape[1])


def _inside(cone: list[Ray], normal: Ray) -> list[list[Ray]]:
    """Return parts of a cone of rays that cover what is inside a limit."""
    parts = []
    waiting = [(cone, [_product(normal, ray) for ray in cone])]
    while waiting:
        rays, products = waiting.pop()
        p = max(range(len(rays)), key=products.__getitem__)
        q = min(range(len(rays)), key=products.__getitem__)
        if products[p] <= 0:
            continue
        middle = None if products[q] >= 0 else _cut(rays[p], rays[q], products[p], products[q])
        if middle is None:
            parts.append(rays)
            continue
        for moved in (p, q):
            child, values = list(rays), list(products)
            child[moved], values[moved] = middle, Fraction(0)
            waiting.append((child, values))
    return parts


def _cut(inner: Ray, outer: Ray, above: Fraction, below: Fraction) -> Ray | None:
    """Return a ray between two, on the limit or a little outside; `None` where it needs too many bits.

    above > 0 and below < 0 are the products of the limit with the two rays.
    """
    share = -below / above  # of the inner ray, for one of the outer ray
    for bits in _FACTOR_BITS:
        first, second = share.numerator, share.denominator
        if max(first, second) >= 1 << bits:
            unit = min(share, Fraction(1)) / (1 << bits)
            first, second = int(share / unit), -int(-1 // unit)
        mixed = [first * a + second * b for a, b in zip(inner, outer, strict=True)]
        largest = max(abs(value) for value in mixed)
        exponent = largest.numerator.bit_length() - largest.denominator.bit_length()
        scaled = [value / Fraction(2) ** exponent for value in mixed]
        if all((value * (1 << _RAY_BITS)).denominator == 1 for value in scaled):
            return tuple(scaled)
    return None


def _product(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def _floats(ray: Ray) -> list[float]:
    return [float(value) for value in ray]
