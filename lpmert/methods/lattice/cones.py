"""Cones of weights: those that cover a region, cut along its limits, and the edges along which they are split."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.numeric.cone import Cap, cone_around, covering_cones
from lpmert.system.deadline import checkpoint

_MOST_CONES, _MOST_NUMBERS = 256, 1 << 23
"""Into how many cones limits may split others, and how many numbers their rays may have in all."""

_CUTS = 4
"""Cuts for each of so many cones, at most: most parts of what is cut may lie outside of another limit."""

_FACTOR_BITS = (10, 6, 3)
"""Bits of the factors by which two rays are mixed, about: the first that keep midpoints of rays exact."""

_RAY_BITS = 40


class Ray(NamedTuple):
    """A ray [D], and its products [k] with the limits; both exact."""

    entries: tuple[Fraction, ...]
    products: tuple[Fraction, ...]


def cones_of_region(limits: FloatArray, cap: Cap | None = None) -> Iterator[FloatArray]:
    """Yield cones [D, D] that cover all weights of a cap with limits [k, D] @ w >= 0; rays are rows, and exact.

    A cone that a limit cuts is split at a point of an edge, in exact arithmetic, until each part lies on one side; the
    first ones are there before others are cut. Where that point needs too many bits, a little of the outside stays;
    where there would be too many cones, or cuts, the last ones stay uncut. None are left where all but a face of every
    cone is outside. May raise `OutOfTime`.
    """
    around = None if cap is None else cone_around(cap)
    if around is None and not len(limits):
        for rays in covering_cones(limits.shape[1]):
            checkpoint()
            yield rays
        return
    normals = [[(d, Fraction(value)) for d, value in enumerate(row) if value] for row in limits.tolist()]
    known: dict[tuple[float, ...], Ray] = {}

    def exact(numbers: list[float]) -> Ray:
        key = tuple(numbers)
        if key not in known:
            checkpoint()
            entries = tuple(map(Fraction, numbers))
            products = (sum((value * entries[d] for d, value in row), Fraction(0)) for row in normals)
            known[key] = Ray(entries, tuple(products))
        return known[key]

    whole = covering_cones(limits.shape[1]) if around is None else [around]
    cones = [[exact(ray) for ray in cone.tolist()] for cone in whole]
    cones = [cone for cone in cones if all(any(ray.products[k] > 0 for ray in cone) for k in range(len(limits)))]
    most = min(_MOST_CONES, _MOST_NUMBERS // max(1, limits.shape[1]) ** 2)
    waiting, done, cuts = [(cone, 0) for cone in reversed(cones)], 0, 0
    while waiting:
        checkpoint()
        cone, k = waiting.pop()
        if k == len(limits):
            done += 1
            yield np.array([[float(value) for value in ray.entries] for ray in cone])
            continue
        products = [ray.products[k] for ray in cone]
        p = max(range(len(cone)), key=products.__getitem__)
        q = min(range(len(cone)), key=products.__getitem__)
        if products[p] <= 0:
            continue
        split = products[q] < 0 and done + len(waiting) + 1 < most and cuts < _CUTS * most
        cuts += split
        middle = _cut(cone[p], cone[q], k) if split else None
        if middle is None:
            waiting.append((cone, k + 1))
        else:
            waiting += [([*cone[:moved], middle, *cone[moved + 1 :]], k) for moved in (p, q)]


def _cut(inner: Ray, outer: Ray, k: int) -> Ray | None:
    """Return a ray between two, on limit k or a little outside; `None` where it needs too many bits.

    The product of the limit with the first ray is above 0, and that with the second one below.
    """
    share = -outer.products[k] / inner.products[k]  # of the inner ray, for one of the outer ray
    for bits in _FACTOR_BITS:
        first, second = share.numerator, share.denominator
        if max(first, second) >= 1 << bits:
            unit = min(share, Fraction(1)) / (1 << bits)
            first, second = int(share / unit), -int(-1 // unit)
        mixed = [first * a + second * b for a, b in zip(inner.entries, outer.entries, strict=True)]
        largest = max(abs(value) for value in mixed)
        scale = Fraction(2) ** (largest.denominator.bit_length() - largest.numerator.bit_length())
        scaled = tuple(value * scale for value in mixed)
        if all((value * (1 << _RAY_BITS)).denominator == 1 for value in scaled):
            products = [(first * a + second * b) * scale for a, b in zip(inner.products, outer.products, strict=True)]
            products[k] = Fraction(0)  # what is a little outside is not cut again
            return Ray(scaled, tuple(products))
    return None


def even_edges(rays: FloatArray, scores: FloatArray, ends: IntArray) -> tuple[FloatArray, list[tuple[int, int]]]:
    """Return the rays [D, D] of a cone times powers of two, at which scores range about as widely as at the others, and
    the edges (p, q), that first between whose ends most is at stake.

    scores [n, D], ends [s + 1]: for some lattices, of paths that no others beat. The sum of two even rays is about
    where what wins at one gives way to what wins at the other.
    """
    lengths = np.diff(ends)
    begins, lengths = ends[:-1][lengths > 0], lengths[lengths > 0]
    tops = np.maximum.reduceat(scores, begins)
    ranges = (tops - np.minimum.reduceat(scores, begins)).sum(axis=0)
    sizes = np.where(ranges > 0.0, ranges, np.abs(rays).max(axis=1))
    exponents = np.clip(np.rint(np.log2(sizes)), -1000, 1000).astype(np.int64)
    leading = np.where(scores == np.repeat(tops, lengths, axis=0), np.arange(len(scores))[:, None], len(scores))
    stake = _stakes(scores, np.minimum.reduceat(leading, begins), np.ldexp(1.0, exponents))
    even = np.ldexp(rays, int(exponents.min()) - exponents[:, None])
    p, q = np.tril_indices(len(rays), -1)
    lengths = np.abs(even[p] - even[q]).sum(axis=1)
    order = np.lexsort((-lengths, -stake[p, q]))
    return even, [(int(p[k]), int(q[k])) for k in order]


def _stakes(scores: FloatArray, best: IntArray, scale: FloatArray) -> FloatArray:
    """Return [D, D] by how much the winners best [s, D] of each list at two rays fall short of the best scores where
    they tie, summed, were scores [n, D], divided by scale [D], the only ones.
    """
    top = np.take_along_axis(scores, best, axis=0)
    found = np.zeros((len(scale), len(scale)))
    for p, own in enumerate(best.T):
        gain = (top[:, p, None] - scores[best, p]) / scale[p]  # of the winner at ray p over the one at each other
        other = (top - scores[own]) / scale
        both = (gain > 0.0) & (other > 0.0)
        found[p] = np.where(both, gain * other / np.where(both, gain + other, 1.0), 0.0).sum(axis=0)
    return found
