"""Cones of weights: the cap around given weights, projections onto polyhedral cones, and simplicial covers of the
weight space or of a region, cut along its limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.core import outer_normals
from lpmert.errors import FloatArray
from lpmert.numeric.rational import EPSILON, dot
from lpmert.system.deadline import checked, checkpoint


@dataclass(frozen=True)
class Cap:
    """Weights whose cosine with `centre` [d] is at least `cosine`."""

    centre: FloatArray
    cosine: float

    @cached_property
    def unit(self) -> FloatArray:
        centre = self.centre / np.abs(self.centre).max()  # squares of numbers of any size neither overflow nor vanish
        return np.asarray(centre / np.linalg.norm(centre))

    def cosine_of(self, weights: FloatArray) -> float:
        """Return the cosine of weights [d] with the centre; -1 for weights that are all 0."""
        norm = float(np.linalg.norm(weights))
        return float(self.unit @ weights) / norm if norm > 0 else -1.0

    def contains(self, weights: FloatArray | Sequence[Fraction]) -> bool:
        """Whether weights [d] lie in the cap, in exact arithmetic on its numbers."""
        w, c = ([Fraction(value) for value in vector] for vector in (weights, self.centre.tolist()))
        product = dot(w, c)
        excess = product * product - Fraction(self.cosine) ** 2 * dot(w, w) * dot(c, c)
        return bool(product > 0 and excess >= 0)


_TOLERANCE = 1e-12  # gap between the largest cosine and that of a cap below which `reach_cap` leaves the answer open
_STEPS = 50  # halvings of the step inwards that `reach_cap` tries


def project(rows: FloatArray, centre: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the point p [d] nearest to `centre` [d] with rows [k, d] p >= 0, and multipliers [k] >= 0.

    p = centre + multipliers rows. For every w with rows w >= 0, centre.w <= (centre + multipliers rows).w <=
    |centre + multipliers rows| |w|, whatever the multipliers >= 0: the length bounds the cosine. Non-negative least
    squares (Lawson and Hanson 1974, chapter 23), to rounding.
    """
    from scipy.optimize import nnls

    norms = np.linalg.norm(rows, axis=1)
    scaled = rows / np.where(norms > 0, norms, 1.0)[:, None]
    multipliers, _ = nnls(scaled.T, -centre, maxiter=10 * (len(rows) + 10))
    return centre + multipliers @ scaled, multipliers / np.where(norms > 0, norms, 1.0)


def reach_cap(rows: FloatArray, cap: Cap, inside: FloatArray) -> tuple[FloatArray | None, NDArray[np.bool_] | None]:
    """Return (weights [d], None) in the cap with a positive product with every row [k, d], or (None, core [k]).

    inside [d] has a positive product with every row. core marks rows with which no weights of the cap have one, beyond
    rounding. Where rounding hides the answer both are `None`.
    """
    nearest, multipliers = project(rows, cap.unit)
    norms = np.linalg.norm(rows, axis=1)
    length = float(np.linalg.norm(nearest))
    mass = 1.0 + float(multipliers @ norms)
    if length < cap.cosine - _TOLERANCE - 16 * len(cap.unit) * EPSILON * mass:
        return None, multipliers > 0
    error = (len(cap.unit) + 2) * EPSILON
    toward = inside / np.linalg.norm(inside)
    for k in range(_STEPS):
        weights = nearest / length + 2.0**-k * toward if length > 0 else toward
        if (rows @ weights > error * (np.abs(rows) @ np.abs(weights))).all() and cap.contains(weights):
            return weights, None
    return None, None


_WIDER = 1e-5
_WORST_CONDITION = 1e8
_MOST_ORTHANT_FEATURES = 7
_RAY_BITS = 12
_ROOM = 1.02  # factor by which a simplex around a round cone is larger than needed
_LEAST_COSINE = 0.1  # least cosine of a ray with the axis of a round cone
_LEAST_TANGENT = 1e-5  # least opening of a round cone: a narrower one would be as flat as that which it encloses


def number_of_cones(n_features: int) -> int:
    """Return how many cones cover the weight space.

    The 2^D orthants while these are few, because their shape is better; otherwise the D + 1 cones over the facets of a
    simplex around the origin.
    """
    return 1 << n_features if n_features <= _MOST_ORTHANT_FEATURES else n_features + 1


def covering_cone(n_features: int, number: int) -> FloatArray:
    """Return one of the cones [D, D] that cover the weight space; rays are rows, and exact.

    The vertices of the simplex are the unit vectors and -(1, ..., 1).
    """
    if n_features <= _MOST_ORTHANT_FEATURES:
        return np.diag([1.0 - 2.0 * (number >> (n_features - 1 - d) & 1) for d in range(n_features)])
    vertices = np.vstack([np.eye(n_features), -np.ones(n_features)])
    return np.delete(vertices, number, axis=0)


def covering_cones(n_features: int) -> Iterator[FloatArray]:
    """Yield the cones [D, D] that cover the weight space, one at a time to bound memory."""
    return (covering_cone(n_features, number) for number in range(number_of_cones(n_features)))


def cones_of_box(centre: FloatArray, side: FloatArray) -> FloatArray:
    """Return cones [(D - 1)!, D, D] that cover the cone over a box on a face of the cube; their rays are its corners.

    centre [D]; side [D]: half the sides of the box, of either sign. The rays of each cone lead from the corner
    centre - side to the corner centre + side, one axis at a time (Kuhn's triangulation), so that all cones share this
    diagonal.
    """
    axes = np.flatnonzero(side)
    orders = np.array(list(permutations(axes.tolist())), dtype=np.int64)
    steps = np.eye(len(centre))[orders] * (2.0 * side)
    first = np.broadcast_to(centre - side, (len(orders), 1, len(centre)))
    return np.concatenate([first, first + np.cumsum(steps, axis=1)], axis=1)


def cone_around(cap: Cap) -> FloatArray | None:
    """Return the rays [D, D] of a cone that contains the cap, or `None` where rounding makes that unsure.

    The rays lead from the origin to the corners of a regular simplex around the cap. They are rounded to few bits, so
    that midpoints stay exact.
    """
    if len(cap.unit) < 2:
        return None
    tangent = np.sqrt(1.0 / cap.cosine**2 - 1.0)
    rays = _regular_rays(cap.unit, tangent)
    bits = _RAY_BITS - np.frexp(np.abs(rays).max())[1] - min(0, int(np.frexp(tangent)[1]))
    rays = np.ldexp(np.rint(np.ldexp(rays, bits)), -bits)
    if np.linalg.cond(rays) > _WORST_CONDITION:
        return None
    normals = np.linalg.inv(rays).T
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    sine = np.sqrt((1.0 - cap.cosine) * (1.0 + cap.cosine))
    return rays if (normals @ cap.unit > sine * (1.0 + 1e-6) + 1e-7).all() else None


def _regular_rays(unit: FloatArray, tangent: float) -> FloatArray:
    """Return rays [D, D] to the corners of a regular simplex around the circular cone of this axis and opening."""
    n = len(unit)
    # Columns: the corners of a regular simplex around the origin, in the n - 1 directions across the axis.
    across = np.linalg.svd(unit[None, :])[2][1:]
    corners = np.linalg.svd(np.eye(n) - 1.0 / n)[0][:, : n - 1]
    corners /= np.linalg.norm(corners, axis=1, keepdims=True)
    return np.asarray(unit + (n - 1) * _ROOM * tangent * corners @ across)


def enclosing_cone(rays: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Return normals [D, D] of a cone that surely contains these rays [D, D], and the rays of a still wider cone.

    The cone is slightly wider than that of the rays. If that is so flat that rounding leaves it unsure, a round cone
    about the rays is tried; `None` if that is unsure too.
    """
    for candidate in (rays, _round_rays(rays)):
        if candidate is None:
            continue
        wider = wider_rays(candidate)
        if wider is None:
            continue
        normals, certain = outer_normals(np.ascontiguousarray(candidate))
        bound = (len(rays) + 2) * EPSILON * (np.abs(rays) @ np.abs(normals).T)
        if certain and (rays @ normals.T > bound).all():
            return normals, wider
    return None


def _round_rays(rays: FloatArray) -> FloatArray | None:
    """Return rays [D, D] around a circular cone that contains these rays, `None` if they are too far apart for one."""
    lengths = np.linalg.norm(rays, axis=1, keepdims=True)
    if len(rays) < 2 or not (lengths > 0).all():
        return None
    unit = (rays / lengths).mean(axis=0)
    length = float(np.linalg.norm(unit))
    along = rays @ unit
    if not (along > _LEAST_COSINE * lengths[:, 0]).all():
        return None
    unit = unit / length
    tangent = float(np.linalg.norm(rays * (length / along)[:, None] - unit, axis=1).max())
    return _regular_rays(unit, max(tangent, _LEAST_TANGENT))


def wider_rays(rays: FloatArray) -> FloatArray | None:
    """Return rays [D, D] of a cone that contains that of `outer_normals`, or `None` where rounding makes that unsure.

    In coordinates x along the rays, the cone of `outer_normals` is x_k >= -1e-7 sum(x); this one allows 1e-5.
    """
    if np.linalg.cond(rays) > _WORST_CONDITION:
        return None
    return np.asarray((1.0 + _WIDER) * rays - _WIDER * rays.sum(axis=0))


_MOST_CONES, _MOST_NUMBERS = 256, 1 << 23  # of cones into which limits split a cover, and of numbers in their rays
_CUTS = 4  # most cuts for each cone allowed: most parts of a cut cone may lie outside another limit
_FACTOR_BITS = (10, 6, 3)  # of the factors that mix two rays: the first number keeps midpoints of rays exact
_CUT_BITS = 40


class Ray(NamedTuple):
    """A ray [D], and its products [k] with the limits; both exact."""

    entries: tuple[Fraction, ...]
    products: tuple[Fraction, ...]


def cones_of_region(limits: FloatArray, cap: Cap | None = None) -> Iterator[FloatArray]:
    """Yield cones [D, D] that cover all weights of a cap with limits [k, D] @ w >= 0; rays are rows, and exact.

    A cone that a limit cuts is split on an edge, in exact arithmetic, until each part lies on one side; the first cones
    are yielded before later ones are cut. If the point of the cut needs too many bits, a little of the outside is kept;
    if there would be too many cones or cuts, the last cones stay uncut. Nothing is yielded if only faces of the cones
    lie inside. May raise `OutOfTime`.
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
        checkpoint()
        key = tuple(numbers)
        if key not in known:
            entries = tuple(map(Fraction, numbers))
            products = (sum((value * entries[d] for d, value in row), Fraction(0)) for row in normals)
            known[key] = Ray(entries, tuple(products))
        return known[key]

    whole = covering_cones(limits.shape[1]) if around is None else [around]
    cones = [[exact(ray) for ray in cone.tolist()] for cone in whole]
    places = range(len(limits))
    # drop a cone if at most a face of it is inside some limit
    cones = [cone for cone in cones if all(any(ray.products[k] > 0 for ray in cone) for k in checked(places, 1))]
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
    """Return a ray between two, on limit k or slightly outside; `None` where it needs too many bits.

    The product of limit k with `inner` is positive, that with `outer` negative.
    """
    share = -outer.products[k] / inner.products[k]  # inner rays for each outer ray
    for bits in _FACTOR_BITS:
        first, second = share.numerator, share.denominator
        if max(first, second) >= 1 << bits:
            unit = min(share, Fraction(1)) / (1 << bits)
            first, second = int(share / unit), -int(-1 // unit)
        mixed = [first * a + second * b for a, b in zip(inner.entries, outer.entries, strict=True)]
        largest = max(abs(value) for value in mixed)
        scale = Fraction(2) ** (largest.denominator.bit_length() - largest.numerator.bit_length())
        scaled = tuple(value * scale for value in mixed)
        if all((value * (1 << _CUT_BITS)).denominator == 1 for value in scaled):
            products = [(first * a + second * b) * scale for a, b in zip(inner.products, outer.products, strict=True)]
            products[k] = Fraction(0)  # a ray slightly outside is not cut again
            return Ray(scaled, tuple(products))
    return None
