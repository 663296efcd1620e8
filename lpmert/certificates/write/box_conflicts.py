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
def _charge(room, scores, pairs, steps, used, centre, radius, needed):
    """Charge pairs of items until that exceeds what is needed; return (the sum, pairs compared).

    pairs [k, 2]: of each item the cheapest hypothesis and the best other one, with scores [d, n]; used [k]: filled with
    which of the items are of any use, in order.
    """
    n = np.int64(0)
    for k in range(len(steps)):
        if n + 1 == len(room.steps):
            return np.int64(0), np.int64(0)  # too many to compare
        reach = 0.0
        for d in range(len(centre)):
            gain = scores[d, pairs[k, 1]] - scores[d, pairs[k, 0]]
            room.gains[d, n] = gain
            reach += abs(gain) * radius[d]
        if reach > 0.0:
            for d in range(len(centre)):
                room.gains[d, n] /= reach
            used[n] = k
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
        both = np.column_stack([items.first, items.other])
        used = np.empty(len(both) + 1, dtype=np.int64)
        centre, radius = np.zeros(len(scores)), np.ones(len(scores))
        centre[0], radius[0] = 1.0, 0.0
        charged, _ = _charge(self._room, scores, both, items.steps.astype(np.int64), used, centre, radius, needed - 1)
        if charged < needed:
            return []
        pairs = both[used[self._room.charged[1 : int(self._room.charged[0, 0]) + 1]]]
        gains = scores[:, pairs[:, :, 1]] - scores[:, pairs[:, :, 0]]
        multipliers = _multipliers(gains[:, :, 0].T, gains[:, :, 1].T)
        pairs, multipliers = pairs[multipliers[:, 0] > 0], multipliers[multipliers[:, 0] > 0]
        places = self._places[cone.rows[pairs[:, :, 1]]]
        named = np.concatenate([places, multipliers[:, :, None]], axis=2).reshape(len(pairs), 6)
        entries: list[list[int]] = named.tolist()
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
