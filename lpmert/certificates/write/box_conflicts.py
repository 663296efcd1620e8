"""Close a box by conflicts: the search's own pairs of lists, with small whole numbers as multipliers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.parts import Part
from lpmert.errors import FloatArray, IntArray
from lpmert.methods.cells.box_conflicts import add_item, charge_in_box, new_box_conflicts
from lpmert.numeric.kernels import kernel

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


@kernel
def _charge(room, gains, steps, centre, radius, needed):
    """Charge pairs of items [k, d] until that exceeds what is needed; return (the sum, pairs compared)."""
    n = np.int64(0)
    for k in range(len(steps)):
        for d in range(len(centre)):
            room.gains[d, n] = gains[k, d]
        n = add_item(room, n, steps[k], centre, radius)
    room.charged[0, 0] = 0
    exactly = radius[0]  # 0: what is found is checked in whole numbers
    return charge_in_box(room, n, centre, radius, exactly, exactly, needed)


class BoxCharges:
    """Work space for the conflicts of boxes."""

    def __init__(self, lists: ProofLists) -> None:
        n_lists = min(len(lists.offsets), _MOST_LISTS)
        self._room = new_box_conflicts(n_lists, lists.features.shape[1], n_pairs=_MOST_PAIRS)
        self._places = np.array(lists.places)

    def conflicts(self, lists: ProofLists, cone: Part, scores: FloatArray, needed: int) -> list[list[int]]:
        """Return conflicts of pairs of lists that charge what is needed, none if they do not; scores: as `items_of`."""
        items = items_of(lists, cone, scores)
        gains = (scores[:, items.other] - scores[:, items.first]).T
        reach = np.abs(gains[:, 1:]).sum(axis=1)
        useful = np.flatnonzero(np.abs(gains[:, 0]) < 1.5 * reach)
        if not 0 < len(useful) <= len(self._room.steps):
            return []
        other, steps = items.other[useful], items.steps[useful].astype(np.int64)
        gains = gains[useful] / reach[useful, None]
        if steps[gains[:, 0] >= 0.0].sum() < needed:
            return []
        centre, radius = np.zeros(gains.shape[1]), np.ones(gains.shape[1])
        centre[0], radius[0] = 1.0, 0.0
        charged, _ = _charge(self._room, gains, steps, centre, radius, needed - 1)
        if charged < needed:
            return []
        pairs = self._room.charged[1 : int(self._room.charged[0, 0]) + 1]
        multipliers = _multipliers(gains, reach[useful], pairs)
        pairs, multipliers = pairs[multipliers[:, 0] > 0], multipliers[multipliers[:, 0] > 0]
        places = self._places[cone.rows[other]]
        named = np.concatenate([places[pairs], multipliers[:, :, None]], axis=2).reshape(len(pairs), 6)
        entries: list[list[int]] = named.tolist()
        return entries


def _multipliers(gains: FloatArray, reach: FloatArray, pairs: IntArray) -> IntArray:
    """Return for pairs of gains [k, d], divided by what they vary by in the box, small multipliers [p, 2] with which
    their sum is nowhere negative; or 0 and 0.
    """
    even = reach[pairs[:, 1]] / reach[pairs[:, 0]]
    first, second = gains[pairs[:, 0]] * reach[pairs[:, 0], None], gains[pairs[:, 1]] * reach[pairs[:, 1], None]
    found = np.zeros((len(pairs), 2), dtype=np.int64)
    left = np.arange(len(pairs))
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
