"""Parts of the weight space that a certificate's tree divides: cones and boxes, with whole numbers as coordinates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import permutations, product
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.certificates.format import BOXES, CONES, Record, integers
from lpmert.errors import BoolArray, CertificateError, FloatArray
from lpmert.system.deadline import checked

Whole = NDArray[np.object_]
"""A vector or matrix of Python's whole numbers."""

_MOST_BITS = 900
_MOST_FEATURES_OF_CONES = 7
"""Up to which a box is divided into cones: there are (d - 1)! of them."""


class Shape(NamedTuple):
    """A cone of weights: all sums of non-negative multiples of d independent rays [d, d], of whole numbers; or a box.

    Of a box, the rays are its centre and half a side along every axis: it consists of the centre plus each of the
    others times a number of -1 .. 1, and of all non-negative multiples of these sums. No rays stand for all weights.
    """

    rays: Whole
    boxed: bool = False

    @property
    def points(self) -> FloatArray:
        """The rays as doubles."""
        self._check_length()
        return self.rays.astype(np.float64)

    def _check_length(self) -> None:
        if np.abs(self.rays).max(initial=0) >> _MOST_BITS:
            raise CertificateError("a ray is beyond the range of double precision")

    def nowhere_negative(self, vector: Whole) -> bool:
        """Whether a vector of whole numbers has no negative product with any weights inside: K1 and B1."""
        if not len(self.rays):
            return not vector.any()
        products = self.rays @ vector
        return bool(products[0] >= np.abs(products[1:]).sum() if self.boxed else products.min() >= 0)

    def none_negative(
        self, products: FloatArray, errors: FloatArray, exact: Callable[[int], Whole]
    ) -> NDArray[np.bool_]:
        """Return which of some vectors [p] have no negative product with any weights inside, from their products [d, p]
        with the rays, off by at most the errors; `exact` gives a vector that these do not decide in whole numbers.
        """
        if self.boxed:
            products, errors = products[:1] - np.abs(products[1:]).sum(axis=0), errors.sum(axis=0, keepdims=True)
        none: BoolArray = np.all(products >= errors, axis=0) & (len(self.rays) > 0)
        for k in checked(np.flatnonzero(~none & ~(products < -errors).any(axis=0)).tolist(), 10):
            none[k] = self.nowhere_negative(exact(k))
        return none

    def parts(self, record: Record) -> list[Shape]:
        """Return the parts into which a record divides it, which cover it: K2, B2 and B5.

        Every split needs longer rays: so no more than about d _MOST_BITS can lie within each other.
        """
        self._check_length()
        n, rays = len(self.rays), self.rays
        if set(record) == {"split"} and self.boxed:
            (k,) = integers(record["split"], 1)
            if 0 < k < n:
                return [Shape(_half(rays, k, sign), True) for sign in (1, -1)]
        elif set(record) == {"split"}:
            p, q = integers(record["split"], 2)
            if p != q and {p, q} <= set(range(n)):
                middle = midpoint(rays[p], rays[q])
                return [Shape(np.array([*rays[:k], middle, *rays[k + 1 :]])) for k in (p, q)]
        elif set(record) == {"corners"} and self.boxed and n <= _MOST_FEATURES_OF_CONES:
            signs = integers(record["corners"], n - 1)
            if set(signs) <= {1, -1}:
                sides = np.array(signs, dtype=object)[:, None] * rays[1:]
                start = rays[0] - sides.sum(axis=0)
                return [Shape(np.cumsum([start, *(2 * side for side in way)], axis=0)) for way in permutations(sides)]
        raise CertificateError(f"no edge of this cone is split by {record!r:.40}")


def _half(rays: Whole, k: int, sign: int) -> Whole:
    half = 2 * rays
    half[0] += sign * rays[k]
    half[k] = rays[k]
    return np.asarray(half // gcd(*half.flat))


def orthants(n_features: int) -> Iterator[Whole]:
    """Yield the rays of all orthants, which cover the space."""
    for signs in product((1, -1), repeat=n_features):
        yield np.diag(np.array(signs, dtype=object))


def cover(n_features: int, record: Record) -> Iterable[Shape]:
    """Return the parts into which a record divides all weights, which cover them: the faces of a cube, or orthants."""
    if n_features and record == {"split": CONES}:
        return (Shape(rays) for rays in orthants(n_features))
    if n_features and record == {"split": BOXES}:
        units = next(orthants(n_features))
        faces = [(d, sign) for d in range(n_features) for sign in (1, -1)]
        return [Shape(np.array([sign * units[d], *units[:d], *units[d + 1 :]]), True) for d, sign in faces]
    raise CertificateError(f"with a dimension of {n_features}, all weights are not divided by {record!r:.40}")


def midpoint(first: Whole, second: Whole) -> Whole:
    """Return the sum of two rays, brought to equal sums of absolute values."""
    ray = np.abs(second).sum() * first + np.abs(first).sum() * second
    return np.asarray(ray // gcd(*ray))
