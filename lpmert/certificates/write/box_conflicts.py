"""Close a box by conflicts: the search's own pairs of lists, with small whole numbers as multipliers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.parts import Part
from lpmert.core import box_charges
from lpmert.errors import FloatArray, IntArray

_MOST_LISTS = 4000
"""Boxes with more open lists are split rather than searched for pairs."""

_MOST_PAIRS = 20_000

_BITS = (0, 2, 4, 8, 16, 32)
"""Of multipliers, the fewest that do."""

_SHARE = 0.35 / 0.65
"""The search tries equal shares, and this one in favour of either list."""


class Items(NamedTuple):
    """Lists with one cheapest hypothesis: where it and the best other one stand [k] in a cone, and the step to the next
    cost.
    """

    first: IntArray
    other: IntArray
    steps: IntArray


def items_of(lists: ProofLists, cone: Part, scores: FloatArray) -> Items:
    """Return the lists of a cone that conflicts can charge, each with its best other hypothesis at the centre."""
    costs = lists.worth[0][cone.rows]
    steps = costs[cone.starts + 1] - costs[cone.starts]
    value = central(cone, scores)
    value[cone.starts] = -np.inf
    best = np.flatnonzero(value == np.repeat(np.maximum.reduceat(value, cone.starts), cone.sizes))
    single = steps > 0
    return Items(cone.starts[single], best[np.searchsorted(best, cone.starts)][single], steps[single])


def central(cone: Part, scores: FloatArray) -> FloatArray:
    """Return the scores [n] of hypotheses about the middle of a cone, from those at its rays [d, n]."""
    shares = 1.0 / np.abs(cone.shape.points).sum(axis=1)
    middle: FloatArray = scores[0].copy() if cone.shape.boxed else shares @ scores
    return middle


class BoxCharges:
    """Conflicts of boxes, found in doubles and named in whole numbers."""

    def __init__(self, lists: ProofLists) -> None:
        self._places = np.array(lists.places)

    def conflicts(self, lists: ProofLists, cone: Part, scores: FloatArray, needed: int) -> list[list[int]]:
        """Return conflicts of pairs of lists that charge what is needed, none if they do not; scores: as `items_of`."""
        items = items_of(lists, cone, scores)
        both = np.column_stack([items.first, items.other])
        gains = (scores[:, items.other] - scores[:, items.first]).T
        reaches = np.abs(gains[:, 1:]).sum(axis=1)
        used = np.flatnonzero(reaches > 0.0)
        if len(used) > _MOST_LISTS:
            return []
        centre, radius = np.zeros(len(scores)), np.ones(len(scores))
        centre[0], radius[0] = 1.0, 0.0
        charged, named = box_charges(
            np.ascontiguousarray(gains[used] / reaches[used, None]),
            items.steps[used].astype(np.int64),
            centre,
            radius,
            rounding=0.0,  # what is found is checked in whole numbers
            off=0.0,
            needed=needed - 1,
            most_pairs=_MOST_PAIRS,
        )
        if charged < needed:
            return []
        pairs = both[used[named]]
        gains = scores[:, pairs[:, :, 1]] - scores[:, pairs[:, :, 0]]
        multipliers = _multipliers(gains[:, :, 0].T, gains[:, :, 1].T)
        pairs, multipliers = pairs[multipliers[:, 0] > 0], multipliers[multipliers[:, 0] > 0]
        places = self._places[cone.rows[pairs[:, :, 1]]]
        with_places = np.concatenate([places, multipliers[:, :, None]], axis=2).reshape(len(pairs), 6)
        entries: list[list[int]] = with_places.tolist()
        return entries


def _multipliers(first: FloatArray, second: FloatArray) -> IntArray:
    """Return for pairs of gains [p, d] small multipliers [p, 2] whose sum is nowhere negative; or 0 and 0."""
    even = np.abs(second[:, 1:]).sum(axis=1) / np.abs(first[:, 1:]).sum(axis=1)
    found = np.zeros((len(first), 2), dtype=np.int64)
    left = np.arange(len(first))
    shares = np.array([1.0, _SHARE, 1.0 / _SHARE])
    for bits in _BITS:
        scale = float(1 << bits)
        ratio = even[left, None] * shares
        p = np.maximum(1.0, np.rint(np.where(ratio >= 1.0, ratio * scale, scale)))
        q = np.maximum(1.0, np.rint(np.where(ratio >= 1.0, scale, scale / ratio)))
        total = p[:, :, None] * first[left, None] + q[:, :, None] * second[left, None]
        margin = total[:, :, 0] - np.abs(total[:, :, 1:]).sum(axis=2)
        holds = (margin >= 0.0) & (p < 2.0**60) & (q < 2.0**60)
        some = np.flatnonzero(holds.any(axis=1))
        which = holds.argmax(axis=1)[some]
        found[left[some], 0], found[left[some], 1] = p[some, which], q[some, which]
        left = np.delete(left, some)
        if not len(left):
            break
    return found // np.maximum(1, np.gcd(found[:, 0], found[:, 1]))[:, None]
