"""Conflicts: wherever in a cone, one of some lists has not its cheapest hypothesis, and pays the step to the next."""

from __future__ import annotations

import numpy as np

from lpmert.certificates.check.cones import IntegerCone
from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.format import integers, typed
from lpmert.errors import CertificateError


def charged(lists: ProofLists, cone: IntegerCone, conflicts: object) -> int:
    """Return by how much conflicts raise the bound of a cone, for a claim of one sum: K7 and B4.

    Each names lists, with another of their hypotheses and a positive multiplier: the differences of these others from
    the cheapest, times the multipliers, add up to a vector that has no negative product with weights inside. So at all
    of these weights one of the others is as good as the cheapest of its list. No list pays twice.
    """
    costs, starts = lists.costs[cone.rows], cone.starts
    order = np.lexsort((costs, np.repeat(np.arange(len(starts)), cone.sizes)))
    numbers, first, second = lists.numbers[cone.rows[starts]].tolist(), order[starts], order[starts + 1]
    cheapest = dict(zip(numbers, cone.rows[first].tolist(), strict=True))
    left = dict(zip(numbers, (costs[second] - costs[first]).tolist(), strict=True))
    total = 0
    for entry in typed(conflicts, list):
        parts = integers(entry, len(typed(entry, list)))
        concerned = parts[::3]
        if not parts or len(parts) % 3 or not {*concerned} <= {*left} or len({*concerned}) < len(concerned):
            raise CertificateError(f"not different open lists, each with a hypothesis and a multiplier: {entry!r:.60}")
        vector = [0] * lists.features.shape[1]
        for number, hypothesis, multiplier in zip(concerned, parts[1::3], parts[2::3], strict=True):
            own, other = lists.whole(cheapest[number]), lists.whole(lists.row(number, hypothesis))
            vector = [value + multiplier * (b - a) for value, a, b in zip(vector, own, other, strict=True)]
        if min(parts[2::3]) < 1 or not cone.shape.nowhere_negative(vector):
            raise CertificateError(f"these lists can all have their cheapest hypotheses: {entry!r:.60}")
        amount = min(left[number] for number in concerned)
        left.update({number: left[number] - amount for number in concerned})
        total += amount
    return total
