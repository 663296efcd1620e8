"""Close a cone by conflicts: pairs of lists of which one leaves its cheapest hypothesis wherever in the cone."""

from __future__ import annotations

from math import gcd

import numpy as np

from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.parts import Part
from lpmert.certificates.format import Record
from lpmert.certificates.write.box_conflicts import items_of
from lpmert.errors import FloatArray

_MOST_LISTS = 1000
"""Cones with more open lists are split rather than searched for pairs."""

_MOST_BITS = 30
"""Of multipliers; pairs that need finer ones are left out."""


def conflicts_of(lists: ProofLists, cone: Part, scores: FloatArray, needed: int) -> Record | None:
    """Return the record of a leaf that closes a cone by conflicts that charge what is needed, or `None`.

    Pairs are found in double precision and checked in integers. Each charges the smaller of the steps that its two
    lists have left, between their cheapest hypotheses and the next.
    """
    search = _Pairs(lists, cone, scores, needed)
    return {"cores": search.conflicts} if search.needed <= 0 else None


class _Pairs:
    """The conflicts of a cone; needed: what they have not charged yet, conflicts: as they stand in a certificate."""

    def __init__(self, lists: ProofLists, cone: Part, scores: FloatArray, needed: int) -> None:
        self.needed = needed
        self.conflicts: list[list[int]] = []
        self._lists, self._cone = lists, cone
        if len(cone.starts) > _MOST_LISTS:
            return
        items = items_of(lists, cone, scores)
        self._left: list[int] = items.steps.tolist()
        self._rows = list(zip(cone.rows[items.first].tolist(), cone.rows[items.other].tolist(), strict=True))
        sizes = np.abs(cone.shape.points).sum(axis=1)
        self._gains: FloatArray = (scores[:, items.other] - scores[:, items.first]).T / sizes
        if any(self._paid(values) < needed for values in self._gains.T):
            return
        at_centre = self._gains.sum(axis=1)
        order = np.argsort(-at_centre, kind="stable").tolist()
        strong = [a for a in order if at_centre[a] > 0.0]
        possible = sum(self._left[a] for a in strong)
        for place, a in enumerate(strong):
            if not 0 < self.needed <= possible:
                return
            possible -= self._left[a]
            weaker = order[:place:-1]
            low, high = _multiples(self._gains[a], self._gains[weaker])
            for at in np.flatnonzero(low <= high).tolist():
                b = weaker[at]
                amount = min(self._left[a], self._left[b])
                if amount and self.needed > 0 and self._add(a, b, float(low[at]), float(high[at])):
                    self.needed -= amount
                    self._left[a] -= amount
                    self._left[b] -= amount
                    possible -= amount if at_centre[b] > 0.0 else 0

    def _paid(self, gains: FloatArray) -> int:
        """Return what the lists pay where they have these gains: conflicts charge no more."""
        return sum(self._left[a] for a in np.flatnonzero(gains >= 0.0).tolist())

    def _add(self, a: int, b: int, low: float, high: float) -> bool:
        """Add a conflict, a multiple of a's comparison and one of b's, if it holds in integers."""
        pair = _multipliers(low, high)
        if pair is None:
            return False
        total = np.zeros(len(self._cone.shape.rays), dtype=object)
        entry: list[int] = []
        divisor = gcd(*pair)
        for (cheapest, best), multiplier in zip((self._rows[a], self._rows[b]), pair, strict=True):
            own, other = self._lists.whole[cheapest], self._lists.whole[best]
            total += multiplier * (other - own)
            entry += [*self._lists.places[best], multiplier // divisor]
        if not self._cone.shape.nowhere_negative(total):
            return False
        self.conflicts.append(entry)
        return True


def _multiples(gain: FloatArray, others: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest multiples [n] of a gain [d] that make up for the losses of others [n, d]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = -others / gain
    never = np.where(others < 0.0, np.inf, 0.0)
    low = np.where(gain > 0.0, ratios, np.where(gain == 0.0, never, 0.0)).max(axis=1, initial=0.0)
    return low, np.where(gain < 0.0, ratios, np.inf).min(axis=1, initial=np.inf)


def _multipliers(low: float, high: float) -> tuple[int, int] | None:
    """Return small whole numbers whose quotient lies between two numbers, or `None` if there are none."""
    middle = 2.0 * low + 1.0 if high == np.inf else 0.5 * (low + high)
    for bits in range(_MOST_BITS):
        first = round(middle * (1 << bits)) if middle < 1 << _MOST_BITS else 0
        if first and low <= first / (1 << bits) <= high:
            return first, 1 << bits
    return None
