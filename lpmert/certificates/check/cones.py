"""Parts of the weight space, and in each the hypotheses that may win: what the leaves of a tree of cones rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import accumulate, permutations, product
from math import gcd
from operator import add, mul, sub
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.format import BOXES, Record, integers
from lpmert.errors import CertificateError, FloatArray, IntArray

Ray = tuple[int, ...]

_MOST_BITS = 900
_MOST_FEATURES_OF_CONES = 7
"""Up to which a box is divided into cones: there are (d - 1)! of them."""


class Shape(NamedTuple):
    """A cone of weights: all sums of non-negative multiples of d independent rays, vectors of integers; or a box.

    Of a box, the rays are its centre and half a side along every axis: it consists of the centre plus each of the
    others times a number of -1 .. 1, and of all non-negative multiples of these sums.
    """

    rays: tuple[Ray, ...]
    boxed: bool = False

    def nowhere_negative(self, vector: Sequence[int]) -> bool:
        """Whether a vector of whole numbers has no negative product with any weights inside: K1 and B1."""
        first, *others = (_product(vector, ray) for ray in self.rays)
        return first >= sum(map(abs, others)) if self.boxed else min((first, *others)) >= 0

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
                sides = [_times(sign, ray) for sign, ray in zip(signs, rays[1:], strict=True)]
                corner = reduce(_minus, sides, rays[0])
                ways = permutations(_times(2, side) for side in sides)
                return [Shape(tuple(accumulate(way, _plus, initial=corner))) for way in ways]
        raise CertificateError(f"no edge of this cone is split by {record!r:.40}")

    def _half(self, k: int, sign: int) -> Shape:
        half = self.rays[k]
        rays = [_times(2, ray) for ray in self.rays]
        rays[0], rays[k] = _plus(rays[0], _times(sign, half)), half
        divisor = gcd(*(value for ray in rays for value in ray))
        return Shape(tuple(tuple(value // divisor for value in ray) for ray in rays), True)


class IntegerCone(NamedTuple):
    """What may win in a part of the weight space.

    For the lists whose survivors still differ in worth: their survivors' rows [n], the start [L] of each list among
    them, and scores [d, n] at the rays of the shape; in a box, where one sum is claimed, the rows of a list are in
    order of cost. fixed [K]: the worth of all other lists. low, high [K]: the box of what all lists are worth for
    selections that some weights inside make strictly best.
    """

    shape: Shape
    rows: IntArray
    starts: IntArray
    scores: FloatArray
    fixed: IntArray
    low: IntArray
    high: IntArray

    @property
    def bound(self) -> int:
        """What every such selection costs at least, for a claim of one sum."""
        return int(self.low[0])

    @property
    def sizes(self) -> IntArray:
        """How many survivors the lists [L] have."""
        ends = np.empty_like(self.starts)
        ends[:-1], ends[-1:] = self.starts[1:], len(self.rows)
        return ends - self.starts

    def without(self, dropped: NDArray[np.bool_]) -> IntegerCone:
        """Return what is left without some rows [n], of every list some."""
        kept = np.flatnonzero(~dropped)
        starts = np.searchsorted(kept, self.starts)
        return self._replace(rows=self.rows[kept], starts=starts, scores=self.scores[:, kept])


def orthants(n_features: int) -> Iterator[tuple[Ray, ...]]:
    """Yield the rays of all orthants, which cover the space."""
    for signs in product((1, -1), repeat=n_features):
        yield tuple(tuple(sign * (k == d) for k in range(n_features)) for d, sign in enumerate(signs))


def cover(n_features: int, kind: str) -> list[Shape]:
    """Return parts that cover the space: the orthants, or the faces of a cube."""
    if kind != BOXES:
        return [Shape(rays) for rays in orthants(n_features)]
    units = next(orthants(n_features))
    faces = [(d, sign) for d in range(n_features) for sign in (1, -1)]
    return [Shape((_times(sign, units[d]), *units[:d], *units[d + 1 :]), True) for d, sign in faces]


def whole_cone(lists: ProofLists, shape: Shape) -> IntegerCone:
    """Return a part of the space with the hypotheses of all lists that may win in it."""
    nothing = np.zeros(len(lists.worth), dtype=lists.worth.dtype)
    rows = np.arange(len(lists.features))
    if shape.boxed and not lists.several:
        rows = np.lexsort((lists.costs, lists.numbers))
    return part(lists, IntegerCone(shape, rows, lists.offsets[:-1], lists.features.T, nothing, nothing, nothing), shape)


def midpoint(first: Ray, second: Ray) -> Ray:
    """Return the sum of two rays, brought to equal sums of absolute values."""
    sizes = [sum(map(abs, ray)) for ray in (first, second)]
    ray = _plus(_times(sizes[1], first), _times(sizes[0], second))
    return tuple(value // gcd(*ray) for value in ray)


def part(lists: ProofLists, cone: IntegerCone, shape: Shape) -> IntegerCone:
    """Return a part of a cone.

    Hypotheses fall that the best of their list at one of the rays, the first of equals, is as good as everywhere
    inside, of a box that at the centre, and then the first if any other one is; lists of which all others are worth the
    same are settled. What falls is decided exactly, so that the outcome does not depend on how scores are rounded.
    """
    if max(abs(value) for ray in shape.rays for value in ray) >> _MOST_BITS:
        raise CertificateError("a ray is beyond the range of double precision")
    points = np.array(shape.rays, dtype=np.float64)
    cone = cone._replace(shape=shape, scores=points @ lists.columns[:, cone.rows])
    if not len(cone.starts):
        return cone
    errors, error = lists.tolerances(points)
    doubt = error if shape.boxed else 2.0 * errors[:, None]
    beaten = np.zeros(len(cone.rows), dtype=np.bool_)
    for k in range(1 if shape.boxed else len(points)):
        best = np.repeat(_winners(lists, cone, k, float(errors[k])), cone.sizes)
        beaten |= _beaten(lists, cone, doubt, best, np.arange(len(best)))
    cone = cone.without(beaten)
    if shape.boxed and not lists.several:
        losses = _beaten(lists, cone, doubt, np.arange(len(cone.rows)), np.repeat(cone.starts, cone.sizes))
        beaten = np.zeros(len(cone.rows), dtype=np.bool_)
        beaten[cone.starts] = np.logical_or.reduceat(losses, cone.starts)
        cone = cone.without(beaten)
    worth = lists.worth[:, cone.rows]
    least, most = np.minimum.reduceat(worth, cone.starts, axis=1), np.maximum.reduceat(worth, cone.starts, axis=1)
    differs: NDArray[np.bool_] = (least != most).any(axis=0)
    fixed = cone.fixed + least[:, ~differs].sum(axis=1)
    sizes = cone.sizes
    left = np.flatnonzero(np.repeat(differs, sizes))
    starts = np.cumsum(sizes[differs]) - sizes[differs]
    low, high = (fixed + ends[:, differs].sum(axis=1) for ends in (least, most))
    return IntegerCone(shape, cone.rows[left], starts, cone.scores[:, left], fixed, low, high)


def priced(lists: ProofLists, cone: IntegerCone, at: object) -> tuple[int, int]:
    """Return what selections cost at least that are made inside a cone, at the prices at some sums, and the target."""
    price = lists.price(cone.low.tolist(), cone.high.tolist(), at)
    costs = np.array(price.slopes) @ lists.worth[:, cone.rows]
    least = np.minimum.reduceat(costs, cone.starts) if len(cone.starts) else costs
    return price.of(cone.fixed.tolist()) + int(least.sum()), price.target


def _winners(lists: ProofLists, cone: IntegerCone, k: int, error: float) -> IntArray:
    """Return the best of each list [L] at a ray, the first of equals."""
    scores = cone.scores[k]
    top = np.maximum.reduceat(scores, cone.starts)
    close = np.flatnonzero(scores >= np.repeat(top - 2.0 * error, cone.sizes))
    begins = np.searchsorted(close, cone.starts)
    winners: IntArray = close[begins]
    if error:
        ends = np.append(begins[1:], len(close))
        for a in np.flatnonzero(ends - begins > 1).tolist():
            contenders, ray = close[begins[a] : ends[a]].tolist(), cone.shape.rays[k]
            winners[a] = max(contenders, key=lambda i: _product(lists.whole(int(cone.rows[i])), ray))
    return winners


def _beaten(
    lists: ProofLists, cone: IntegerCone, doubt: FloatArray | float, winners: IntArray, losers: IntArray
) -> NDArray[np.bool_]:
    """Return for pairs of hypotheses [p] whether the first, another one, is as good as the second everywhere inside.

    doubt: how far the differences of scores, or of a box what they come to, may be from the true ones.
    """
    leads = cone.scores[:, winners] - cone.scores[:, losers]
    if cone.shape.boxed:
        leads = leads[:1] - np.abs(leads[1:]).sum(axis=0)
    others = winners != losers
    beaten: NDArray[np.bool_] = (leads >= doubt).all(axis=0) & others
    if np.any(doubt):
        for a in np.flatnonzero((leads >= -doubt).all(axis=0) & ~beaten & others).tolist():
            better, worse = (lists.whole(int(cone.rows[own[a]])) for own in (winners, losers))
            beaten[a] = cone.shape.nowhere_negative(_minus(better, worse))
    return beaten


def _times(factor: int, ray: Ray) -> Ray:
    return tuple(factor * value for value in ray)


def _plus(first: Sequence[int], second: Sequence[int]) -> Ray:
    return tuple(map(add, first, second))


def _minus(first: Sequence[int], second: Sequence[int]) -> Ray:
    return tuple(map(sub, first, second))


def _product(first: Sequence[int], second: Sequence[int]) -> int:
    return sum(map(mul, first, second))
