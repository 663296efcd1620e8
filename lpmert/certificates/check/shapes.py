"""Parts of the weight space that a certificate's tree divides: cones and boxes, with whole numbers as coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import accumulate, permutations, product
from math import gcd
from operator import add, mul
from typing import NamedTuple

from lpmert.certificates.format import BOXES, CONES, SELECTIONS, Record, integers
from lpmert.errors import CertificateError

Ray = tuple[int, ...]

_MOST_FEATURES_OF_CONES = 7
"""Up to which a box is divided into cones: there are (d - 1)! of them."""


class Shape(NamedTuple):
    """A cone of weights: all sums of non-negative multiples of d independent rays, vectors of integers; or a box.

    Of a box, the rays are its centre and half a side along every axis: it consists of the centre plus each of the
    others times a number of -1 .. 1, and of all non-negative multiples of these sums. No rays stand for all weights.
    """

    rays: tuple[Ray, ...]
    boxed: bool = False

    def nowhere_negative(self, vector: Sequence[int]) -> bool:
        """Whether a vector of whole numbers has no negative product with any weights inside: K1 and B1."""
        if not self.rays:
            return not any(vector)
        products: list[int] = [sum(map(mul, vector, ray)) for ray in self.rays]
        first, *others = products
        return first >= sum(map(abs, others)) if self.boxed else min(products) >= 0

    def parts(self, record: Record) -> list[Shape]:
        """Return the parts into which a record divides it, which cover it: K2, B2 and B5."""
        rays, n = self.rays, len(self.rays)
        if set(record) == {"split"} and self.boxed:
            (k,) = integers(record["split"], 1)
            if 0 < k < n:
                return [self._half(k, sign) for sign in (1, -1)]
        elif set(record) == {"split"}:
            p, q = integers(record["split"], 2)
            if p != q and {p, q} <= set(range(n)):
                ray = midpoint(rays[p], rays[q])
                return [Shape((*rays[:k], ray, *rays[k + 1 :])) for k in (p, q)]
        elif set(record) == {"corners"} and self.boxed and n <= _MOST_FEATURES_OF_CONES:
            signs = integers(record["corners"], n - 1)
            if set(signs) <= {1, -1}:
                sides = [_times(-sign, ray) for sign, ray in zip(signs, rays[1:], strict=True)]
                corner = reduce(_plus, sides, rays[0])
                ways = permutations(_times(-2, side) for side in sides)
                return [Shape(tuple(accumulate(way, _plus, initial=corner))) for way in ways]
        raise CertificateError(f"no edge of this cone is split by {record!r:.40}")

    def _half(self, k: int, sign: int) -> Shape:
        half = self.rays[k]
        rays = [_times(2, ray) for ray in self.rays]
        rays[0], rays[k] = _plus(rays[0], _times(sign, half)), half
        divisor = gcd(*(value for ray in rays for value in ray))
        return Shape(tuple(tuple(value // divisor for value in ray) for ray in rays), True)


def orthants(n_features: int) -> Iterator[tuple[Ray, ...]]:
    """Yield the rays of all orthants, which cover the space."""
    for signs in product((1, -1), repeat=n_features):
        yield tuple(tuple(sign * (k == d) for k in range(n_features)) for d, sign in enumerate(signs))


def cover(n_features: int, kind: str) -> list[Shape]:
    """Return parts that cover the space: the space itself, the orthants, or the faces of a cube."""
    if kind == SELECTIONS:
        return [Shape(())]
    if kind not in (BOXES, CONES) or not n_features:
        raise CertificateError(f"no tree of {kind!r:.40} is known for {n_features} features")
    if kind == CONES:
        return [Shape(rays) for rays in orthants(n_features)]
    units = next(orthants(n_features))
    faces = [(d, sign) for d in range(n_features) for sign in (1, -1)]
    return [Shape((_times(sign, units[d]), *units[:d], *units[d + 1 :]), True) for d, sign in faces]


def midpoint(first: Ray, second: Ray) -> Ray:
    """Return the sum of two rays, brought to equal sums of absolute values."""
    sizes = [sum(map(abs, ray)) for ray in (first, second)]
    ray = _plus(_times(sizes[1], first), _times(sizes[0], second))
    return tuple(value // gcd(*ray) for value in ray)


def _times(factor: int, ray: Ray) -> Ray:
    return tuple(factor * value for value in ray)


def _plus(first: Ray, second: Ray) -> Ray:
    return tuple(map(add, first, second))
