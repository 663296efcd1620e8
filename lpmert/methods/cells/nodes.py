"""Nodes of the search over the weight space outside of the core: those that wait, are sent away or kept in a file.

A cone is simplicial; a box is a part of a face of the cube, see `lpmert/core/cone.hpp` and `lpmert/core/box.hpp`.
"""

from __future__ import annotations

from collections.abc import Mapping
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


class OpenCone(NamedTuple):
    """A cone with the scores [R, D] of its survivors at its rays [D, D], off by errors [D] at most.

    ids, costs [R]; ends: of each open list among them, from 0. own: what the cone costs at least by its cheapest
    survivors; bound: that, raised by conflicts here or in what it is a part of; stalled: splits since a tenth of the
    lists was last settled. total [K], age: of a ratio metric, see `lpmert/core/node.hpp`.
    """

    scores: FloatArray
    ids: NDArray[np.int32]
    costs: IntArray
    ends: IntArray
    own: int
    bound: int
    stalled: int
    total: FloatArray
    age: int
    rays: FloatArray
    errors: FloatArray

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> OpenCone:
        """Return the cone of values by name."""
        return cls(**fields)

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self.scores.nbytes + self.ids.nbytes + self.costs.nbytes + self.ends.nbytes + self.rays.nbytes + 200

    def unpacked(self) -> tuple[Any, ...]:
        """Return it as the core takes it."""
        return self


class OpenBox(NamedTuple):
    """A box with all that cannot be looked up in the lists, else as `OpenCone`: centre and radius [D].

    Lists of two survivors are pairs of hypotheses, cheap and dear; those of other lists stand in order, packed to a bit
    for each hypothesis where that is much less. prices: what these cost, and the steps of the pairs, where that is not
    as in the lists.
    """

    cheap: NDArray[np.int32]
    dear: NDArray[np.int32]
    packed: NDArray[Any]
    ends: IntArray
    prices: IntArray
    own: int
    bound: int
    stalled: int
    total: FloatArray
    age: int
    centre: FloatArray
    radius: FloatArray

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> OpenBox:
        """Return the box of values by name."""
        return cls(**fields)

    @classmethod
    def packing(cls, cheap: NDArray[np.int32], dear: NDArray[np.int32], ids: NDArray[np.int32], *rest: Any) -> OpenBox:
        """Return the box that the core describes."""
        box = cls(cheap, dear, ids, *rest)
        if len(box.prices) or not len(ids) or 8 * len(ids) < ids[-1]:
            return box  # priced hypotheses are in an order of their own
        chosen = np.zeros(ids[-1] + 1, dtype=np.uint8)
        chosen[ids] = 1
        return box._replace(packed=np.packbits(chosen))

    @property
    def n_rows(self) -> int:
        """Hypotheses of lists that are no pairs."""
        return int(self.ends[-1])

    @property
    def ids(self) -> NDArray[np.int32]:
        """The hypotheses of lists that are no pairs [n_rows]."""
        if self.packed.dtype != np.uint8:
            return self.packed
        return np.flatnonzero(np.unpackbits(self.packed).view(np.bool_)).astype(np.int32)

    @property
    def n_lists(self) -> int:
        """Open lists."""
        return len(self.ends) - 1 + len(self.cheap)

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self.cheap.nbytes + self.dear.nbytes + self.packed.nbytes + self.ends.nbytes + self.prices.nbytes + 800

    def unpacked(self) -> tuple[Any, ...]:
        """Return it as the core takes it."""
        return self if self.packed.dtype != np.uint8 else self._replace(packed=self.ids)


OpenNode = OpenCone | OpenBox


def whole_cone(lists: SortedLists, rays: FloatArray, total: FloatArray) -> OpenCone:
    """Return the cone of these rays [D, D] with all hypotheses; total [K] of the lists settled for good."""
    ids = np.arange(len(lists.rows), dtype=np.int32)
    scores, errors = _scores_at(rays, lists.rows, lists.spread)
    least = _least(lists)
    return OpenCone(scores, ids, lists.costs, lists.offsets, least, least, 0, total, 0, rays, errors)


def whole_box(lists: SortedLists, face: int, total: FloatArray) -> OpenBox:
    """Return one of the 2 D faces of the cube, with all hypotheses; total [K] of the lists settled for good."""
    n_features = lists.rows.shape[1]
    centre, radius = np.zeros(n_features), np.ones(n_features)
    centre[face // 2], radius[face // 2] = 1.0 - 2.0 * (face % 2), 0.0
    return box_with_all(lists, centre, radius, total)


def box_with_all(lists: SortedLists, centre: FloatArray, radius: FloatArray, total: FloatArray) -> OpenBox:
    """Return a box [D], [D] with all hypotheses; total [K] of the lists settled for good."""
    none, ids = np.empty(0, dtype=np.int32), np.arange(len(lists.rows), dtype=np.int32)
    least, prices = _least(lists), np.empty(0, dtype=np.int64)
    return OpenBox(none, none, ids, lists.offsets, prices, least, least, 0, total, 0, centre, radius)


def widened(radius: FloatArray) -> FloatArray:
    """Return the radii [D] of the box whose normals `lpmert.core.box_normals` returns."""
    return radius * _WIDER


def _least(lists: SortedLists) -> int:
    return int(lists.costs[lists.offsets[:-1]].sum())


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
    """Return the scores [M, K] of features [M, D] at rays [K, D], and what they are off at each of these at most."""
    n_features = features.shape[1]
    if (np.count_nonzero(rays, axis=1) == 1).all():  # an orthant: no products to add up
        axis = np.abs(rays).argmax(axis=1)
        scores = np.ascontiguousarray(features[:, axis] * rays[np.arange(len(rays)), axis])
    else:
        scores = np.ascontiguousarray(features @ rays.T)
    epsilon = np.finfo(np.float64).eps
    errors = (1.0 + 8.0 * n_features * epsilon) * (np.abs(rays) @ spread)
    rounded = ~single_products(rays)
    if rounded.any():
        largest = float(sizes_of_rows(features).max(initial=0.0))
        rounded[rounded] = ~exact_products(rays[rounded], features, largest)
        errors += np.where(rounded, n_features * epsilon * (np.abs(rays).max(initial=0.0) * largest), 0.0)
    return scores, errors


def cones_of(lists: SortedLists, box: OpenBox, part: Survivors) -> list[OpenCone]:
    """Return cones over the corners of a box, of which this part of the lists is left, that cover it.

    Where many boundaries meet in a corner, halves of a box come no nearer to telling them apart; cones do. What
    conflicts have charged the box they charge in every cone anew.
    """
    cones = cones_of_box(box.centre, _diagonal(lists, part, box.radius))
    rays, which = np.unique(cones.reshape(-1, len(box.centre)), axis=0, return_inverse=True)
    scores, errors = _scores_at(rays, lists.rows[part.ids], lists.spread)
    of_lists = part.ids, part.costs, part.ends, box.own, box.own, 0, part.total, 0
    return [
        OpenCone(np.ascontiguousarray(scores[:, own]), *of_lists, cone, errors[own])
        for cone, own in zip(cones, which.reshape(len(cones), -1), strict=True)
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
