"""The nodes with which the search over the weight space begins: cones and boxes with all hypotheses, cones in boxes.

A cone is simplicial; a box is a part of a face of the cube, see `lpmert/core/cone.hpp` and `lpmert/core/box.hpp`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.numeric import rounding
from lpmert.numeric.cone import cones_of_box
from lpmert.numeric.lists import SortedLists, sizes_of_rows
from lpmert.numeric.rounding import exact_products, single_products

_EXACT_BITS = 49
_MOST_HALVINGS = 30

_WIDE = 1.0 + 1e-5
"""What an entry of weights of a box, or of a slightly wider one, is at most, and room for rounding."""

_WIDER = 1.0 + 2.0**-20
"""Radii of a box that surely contains another; their products are exact."""

MOST_FEATURES_OF_CONES = 6
"""Features up to which a box is divided into cones: there are (D - 1)! of them."""

FEW_LISTS = 10
"""Open lists up to which exact arithmetic closes a stalled box, rather than cones."""


class Precision(NamedTuple):
    """places: how often an axis may be halved so that all sums of a box are still exact, -1 if they never are; off: how
    far the difference of two products with weights of a box may be from the one meant, as features are rounded;
    least: smallest radius of a box that has stalled.
    """

    places: int
    off: float
    least: float


class Survivors(NamedTuple):
    """The hypotheses that may win in a part of the weight space, by lists; fixed, total [K]: of all other lists."""

    ids: NDArray[np.int32]
    costs: IntArray
    ends: IntArray
    fixed: int
    total: FloatArray


Fields = dict[str, Any]
"""A node of the core by names: see `Node`, `Cone` and `Box` in `lpmert/core/`; arrays are flat."""


def whole_cone(lists: SortedLists, rays: FloatArray, total: FloatArray) -> Fields:
    """Return the cone of these rays [D, D] with all hypotheses; total [K] of the lists settled for good."""
    scores, errors = _scores_at(rays, lists.rows, lists.spread)
    return {**_with_all(lists, total), "scores": scores.ravel(), "rays": np.ravel(rays), "errors": errors}


def whole_box(lists: SortedLists, centre: FloatArray, radius: FloatArray, total: FloatArray) -> Fields:
    """Return a box [D], [D] with all hypotheses; total [K] of the lists settled for good."""
    return {**_with_all(lists, total), "centre": centre, "radius": radius}


def faces(n_features: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield centre and radius [D] of the 2 D faces of the cube."""
    for axis, sign in product(range(n_features), (1.0, -1.0)):
        centre, radius = np.zeros(n_features), np.ones(n_features)
        centre[axis], radius[axis] = sign, 0.0
        yield centre, radius


def _with_all(lists: SortedLists, total: FloatArray) -> Fields:
    least = int(lists.costs[lists.offsets[:-1]].sum())
    ids = np.arange(len(lists.rows), dtype=np.int32)
    return {"ids": ids, "ends": lists.offsets, "own": least, "bound": least, "total": total}


def widened(radius: FloatArray) -> FloatArray:
    """Return the radii [D] of the box whose normals `lpmert.core.box_normals` returns."""
    return radius * _WIDER


def binary_places(lists: SortedLists) -> int:
    """Return how often an axis may be halved so that all sums of a box are still exact, -1 if they never are.

    They are where the features are multiples of a power of two, and not too large for that.
    """
    if lists.spread.any():
        return -1
    with np.errstate(over="ignore"):  # an infinite one proves nothing
        largest = float(sizes_of_rows(lists.rows).max(initial=0.0))
    places = rounding.binary_places(lists.rows) if largest < 2.0**_EXACT_BITS else None
    return -1 if places is None else max(-1, _EXACT_BITS - places - max(0, int(np.frexp(largest)[1])))


def precision_of(lists: SortedLists) -> Precision:
    """Return how exact the products of features with weights of boxes are.

    Boxes that become cones are not halved further than that these can begin with exact products.
    """
    places = binary_places(lists)
    exact = 0 <= places < _MOST_HALVINGS and lists.rows.shape[1] <= MOST_FEATURES_OF_CONES
    least = 2.0 ** -(places + 1 if exact else _MOST_HALVINGS)
    return Precision(places, 2.0 * _WIDE * float(lists.spread.sum()), least)


def _scores_at(rays: FloatArray, features: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the scores [K, M] of features [M, D] at rays [K, D], and what they are off at each of these at most."""
    n_features = features.shape[1]
    if (np.count_nonzero(rays, axis=1) == 1).all():  # an orthant: no products to add up
        axis = np.abs(rays).argmax(axis=1)
        scores = np.ascontiguousarray((features[:, axis] * rays[np.arange(len(rays)), axis]).T)
    else:
        scores = np.ascontiguousarray((features @ rays.T).T)
    epsilon = np.finfo(np.float64).eps
    errors = (1.0 + 8.0 * n_features * epsilon) * (np.abs(rays) @ spread)
    rounded = ~single_products(rays)
    if rounded.any():
        largest = float(sizes_of_rows(features).max(initial=0.0))
        rounded[rounded] = ~exact_products(rays[rounded], features, largest)
        errors += np.where(rounded, n_features * epsilon * (np.abs(rays).max(initial=0.0) * largest), 0.0)
    return scores, errors


def cones_of(lists: SortedLists, box: Fields, part: Survivors) -> list[Fields]:
    """Return cones over the corners of a box, of which this part of the lists is left, that cover it.

    Where many boundaries meet in a corner, halves of a box come no nearer to telling them apart; cones do. What
    conflicts have charged the box they charge in every cone anew.
    """
    cones = cones_of_box(box["centre"], _diagonal(lists, part, box["radius"]))
    rays, which = np.unique(cones.reshape(-1, len(box["centre"])), axis=0, return_inverse=True)
    scores, errors = _scores_at(rays, lists.rows[part.ids], lists.spread)
    own = {"own": box["own"], "bound": box["own"], "total": part.total}
    of_lists = {"ids": part.ids, "costs": part.costs, "ends": part.ends, **own}
    return [
        {**of_lists, "scores": scores[corners].ravel(), "rays": cone.ravel(), "errors": errors[corners]}
        for cone, corners in zip(cones, which.reshape(len(cones), -1), strict=True)
    ]


def _diagonal(lists: SortedLists, part: Survivors, radius: FloatArray) -> FloatArray:
    """Return the radii [D] of a box with the signs of the diagonal along which differences vary least.

    Where many boundaries coincide, the cones then have it in common.
    """
    sizes = np.diff(part.ends)
    shares = (lists.rows[part.ids] - lists.rows[np.repeat(part.ids[part.ends[:-1]], sizes)]) * radius
    steps = part.costs - np.repeat(part.costs[part.ends[:-1]], sizes)
    reach = np.abs(shares).sum(axis=1, keepdims=True)
    shares = np.where(reach > 0, shares / np.where(reach > 0, reach, 1.0), 0.0)
    form = (shares * steps[:, None]).T @ shares
    signs = np.array(list(product((1.0, -1.0), repeat=len(radius))))
    return np.asarray(signs[np.argmin(((signs @ form) * signs).sum(axis=1))] * radius)
