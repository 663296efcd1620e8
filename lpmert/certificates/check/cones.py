"""Simplicial cones of weights, and in each the hypotheses that may win: what the leaves of a tree of cones rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.certificates.check.lists import ProofLists
from lpmert.errors import CertificateError, FloatArray, IntArray
from lpmert.numeric import rational

Ray = tuple[int, ...]

_MOST_BITS = 900


class IntegerCone(NamedTuple):
    """The weights that are sums of non-negative multiples of d independent rays, each a vector of integers.

    For the lists whose survivors still differ in cost: their survivors' rows [n], the start [L] of each list among
    them, scores [n, d] at the rays and a bound [d] on the error of these. fixed [K]: the worth of all other lists. low,
    high [K]: the box of what all lists are worth for selections that some weights inside the cone make strictly best.
    """

    rays: tuple[Ray, ...]
    rows: IntArray
    starts: IntArray
    scores: FloatArray
    tolerance: FloatArray
    fixed: IntArray
    low: IntArray
    high: IntArray

    @property
    def bound(self) -> int:
        """What every such selection costs at least, for a claim of one sum."""
        return int(self.low[0])


def orthants(n_features: int) -> Iterator[tuple[Ray, ...]]:
    """Yield the rays of all orthants, which cover the space."""
    for signs in product((1, -1), repeat=n_features):
        yield tuple(tuple(sign * (k == d) for k in range(n_features)) for d, sign in enumerate(signs))


def whole_cone(lists: ProofLists, rays: tuple[Ray, ...]) -> IntegerCone:
    """Return the cone of these rays with the hypotheses of all lists that may win in it."""
    scores = np.zeros((len(lists.features), len(rays)))
    nothing = np.zeros(len(lists.worth), dtype=lists.worth.dtype)
    cone = IntegerCone(
        rays, np.arange(len(scores)), lists.offsets[:-1], scores, np.zeros(len(rays)), nothing, nothing, nothing
    )
    for k in range(len(rays) - 1):
        cone = _with_ray(lists, cone, k, rays[k])
    return part(lists, cone, len(rays) - 1, rays[-1])


def midpoint(first: Ray, second: Ray) -> Ray:
    """Return the sum of two rays, brought to equal sums of absolute values."""
    sizes = [sum(map(abs, ray)) for ray in (first, second)]
    ray = [sizes[1] * a + sizes[0] * b for a, b in zip(first, second, strict=True)]
    return tuple(value // gcd(*ray) for value in ray)


def part(lists: ProofLists, cone: IntegerCone, replaced: int, ray: Ray) -> IntegerCone:
    """Return the part of a cone in which one ray is replaced by another one inside it.

    Hypotheses that another of their list beats at every ray are dropped, and lists of which all others are worth the
    same are settled. Scores are linear in the weights: what is at least as good at every ray is better inside the cone,
    for distinct vectors and independent rays.
    """
    cone = _with_ray(lists, cone, replaced, ray)
    if not len(cone.starts):
        return cone
    kept = ~_beaten(lists, cone)
    rows = cone.rows[kept]
    starts: IntArray = (np.cumsum(kept) - kept)[cone.starts]
    sizes = _sizes(starts, len(rows))
    worth = lists.worth[:, rows]
    least, most = np.minimum.reduceat(worth, starts, axis=1), np.maximum.reduceat(worth, starts, axis=1)
    differs: NDArray[np.bool_] = (least != most).any(axis=0)
    fixed = cone.fixed + least[:, ~differs].sum(axis=1)
    left = np.repeat(differs, sizes)
    starts = np.cumsum(sizes[differs]) - sizes[differs]
    low, high = (fixed + ends[:, differs].sum(axis=1) for ends in (least, most))
    return cone._replace(
        rows=rows[left], starts=starts, scores=cone.scores[kept][left], fixed=fixed, low=low, high=high
    )


def priced(lists: ProofLists, cone: IntegerCone, at: object) -> tuple[int, int]:
    """Return what selections cost at least that are made inside a cone, at the prices at some sums, and the target."""
    price = lists.price(cone.low.tolist(), cone.high.tolist(), at)
    costs = np.array(price.slopes) @ lists.worth[:, cone.rows]
    least = np.minimum.reduceat(costs, cone.starts) if len(cone.starts) else costs
    return price.of(cone.fixed.tolist()) + int(least.sum()), price.target


def _with_ray(lists: ProofLists, cone: IntegerCone, replaced: int, ray: Ray) -> IntegerCone:
    if max(map(abs, ray)) >> _MOST_BITS:
        raise CertificateError("a ray is beyond the range of double precision")
    point = np.array(ray, dtype=np.float64)
    scores, tolerance = cone.scores.copy(), cone.tolerance.copy()
    scores[:, replaced] = lists.features[cone.rows] @ point
    tolerance[replaced] = lists.tolerance(point)
    rays = (*cone.rays[:replaced], ray, *cone.rays[replaced + 1 :])
    return cone._replace(rays=rays, scores=scores, tolerance=tolerance)


def _beaten(lists: ProofLists, cone: IntegerCone) -> NDArray[np.bool_]:
    """Return which hypotheses [n] are beaten by the best of their list at one of the rays, the first of equals.

    Which these are is decided exactly, so that the outcome does not depend on how scores are rounded.
    """
    scores, tolerance, n = np.ascontiguousarray(cone.scores.T), cone.tolerance, len(cone.scores)
    sizes = _sizes(cone.starts, n)
    least = np.maximum.reduceat(scores, cone.starts, axis=1) - 2.0 * tolerance[:, None]
    close = np.flatnonzero(scores >= np.repeat(least, sizes, axis=1))
    # At each ray, those that come close to the best of their list; the first of a list is the best if scores are exact.
    ends = np.searchsorted(close, np.add.outer(n * np.arange(len(cone.rays)), cone.starts).ravel())
    winners = close[ends] % n
    for a in np.flatnonzero(_sizes(ends, len(close)) > 1).tolist() if tolerance.any() else ():
        k = a // len(cone.starts)
        if tolerance[k]:
            contenders = (close[ends[a] : len(close) if a + 1 == len(ends) else ends[a + 1]] % n).tolist()
            ray = cone.rays[k]
            winners[a] = max(contenders, key=lambda i: _product(lists.whole(int(cone.rows[i])), ray))
    beaten = np.zeros(n, dtype=np.bool_)
    own = np.arange(n)
    maybe = []
    for best in np.repeat(winners.reshape(len(cone.rays), -1), sizes, axis=1):
        lost = near = best != own
        for values, error in zip(scores, tolerance.tolist(), strict=True):
            leads = values[best] - values
            lost = lost & (leads >= 2.0 * error)
            near = near & (leads >= -2.0 * error) if tolerance.any() else lost
        beaten |= lost
        maybe.append((best, near))
    for best, near in maybe:
        for i in np.flatnonzero(near & ~beaten).tolist():
            beaten[i] = _beats(lists, cone.rays, int(cone.rows[best[i]]), int(cone.rows[i]))
    return beaten


def _sizes(starts: IntArray, end: int) -> IntArray:
    sizes = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=sizes[:-1])
    sizes[-1:] = end - starts[-1:]
    return sizes


def _beats(lists: ProofLists, rays: tuple[Ray, ...], winner: int, loser: int) -> bool:
    """Whether one row scores at least as much as another at every ray, in exact arithmetic."""
    (difference,) = rational.difference_rows(lists.features[winner][None], lists.features[loser][None])
    return all(_product(difference, ray) >= 0 for ray in rays)


def _product(first: Sequence[int], second: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(first, second, strict=True))
