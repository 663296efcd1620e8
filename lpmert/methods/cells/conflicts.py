"""Bounds by conflicts: of two lists that pull in opposite directions, one does not have its cheapest hypothesis.

Where all the weights of a cone keep one or the other of two lists from its least cost, the bound rises by what that one
pays at least. Each list pays once: what it has been charged is taken off its step to the next cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.cells.stack import DONE_WORK
from lpmert.numeric.kernels import EPSILON, internal, kernel

_BLOCK = 128
"""Items compared with another one at once."""

_TINY = 1e-30
"""A gain that is none counts as so little: what makes up for a loss there is no multiple of it."""


class Conflicts(NamedTuple):
    """Work space for K items, each a list and its step to the next cost: what it pays where its gain is not negative.

    gains [K, D] at the rays, steps [K], what is left of these, heights [K] of the scaled gains' sums, sizes [K] by
    which they are scaled, order [K] by height; scaled [D, K]: gains in this order. low, high [K]: between them lie the
    multiples of one item's gain that make up for another's losses.
    """

    gains: FloatArray
    steps: IntArray
    sizes: FloatArray
    heights: FloatArray
    order: IntArray
    left: IntArray
    scaled: NDArray[np.float32]
    low: NDArray[np.float32]
    high: NDArray[np.float32]


def new_conflicts(n_lists: int, n_features: int) -> Conflicts:
    """Return work space for so many open lists."""
    return Conflicts(
        np.empty((n_lists, n_features)),
        np.empty(n_lists, dtype=np.int64),
        np.empty(n_lists),
        np.empty(n_lists),
        np.empty(n_lists, dtype=np.int64),
        np.empty(n_lists, dtype=np.int64),
        np.empty((n_features, n_lists), dtype=np.float32),
        np.empty(n_lists, dtype=np.float32),
        np.empty(n_lists, dtype=np.float32),
    )


@kernel
def one_pays(first, second, share, other, errors):
    """Whether share times one gain [D] and other times another are surely at least 0 together at every ray.

    first, second: differences of scores that are off by errors [D] each; share, other: in 0 .. 1.
    """
    for d in range(len(errors)):
        x, y = share * first[d], other * second[d]
        off = 2.0 * errors[d] * (share + other) + 2.0 * EPSILON * (abs(x) + abs(y))
        if not off * (1.0 + 8.0 * EPSILON) <= x + y < np.inf:
            return False
    return True


@internal
def _take_gain(scores, begin, middle, end, gain):
    """Write the gain [D] of the best row middle .. end at the centre over all rows begin .. middle; return its sum and
    largest magnitude, 0 if there is none at any ray.
    """
    n_features = len(gain)
    top = -np.inf
    best = middle
    for i in range(middle, end):
        score = 0.0
        for d in range(n_features):
            score += scores[i, d]
        if score > top:
            top, best = score, i
    total = size = most = 0.0
    for d in range(n_features):
        ceiling = scores[begin, d]
        for i in range(begin + 1, middle):
            ceiling = max(ceiling, scores[i, d])
        lead = scores[best, d] - ceiling
        gain[d] = lead
        total += lead
        size = max(size, abs(lead))
        most = max(most, lead)
    return total, size if most > 0.0 else 0.0


@internal
def _collect(scores, costs, ends, first, first_end, n_lists, gains, steps, sizes, heights):
    """Fill the items of a cone's open lists; return how many there are."""
    k = 0
    for a in range(n_lists):
        begin, end = first + ends[first_end + a], first + ends[first_end + a + 1]
        middle = begin + 1
        while middle < end and costs[middle] == costs[begin]:
            middle += 1
        if middle == end:
            continue
        total, size = _take_gain(scores, begin, middle, end, gains[k])
        if size > 0.0:
            steps[k] = costs[middle] - costs[begin]
            sizes[k] = size
            heights[k] = total / size
            k += 1
    return k


@internal
def _compare(scaled, i, begin, end, low, high):
    """Fill low, high [K] for items begin .. end: multiples of i's gain between them make up for their losses; return
    for how many there are any.
    """
    least, most = low[begin:end], high[begin:end]
    for j in range(len(least)):
        least[j] = np.float32(0.0)
        most[j] = np.float32(np.inf)
    for d in range(len(scaled)):
        own, others = scaled[d, i], scaled[d, begin:end]
        # In this form, over arrays from 0, these loops are compiled to vector instructions.
        if own >= np.float32(0.0):
            factor = np.float32(-1.0) / max(own, np.float32(_TINY))
            for j in range(len(least)):
                multiple, before = others[j] * factor, least[j]
                least[j] = multiple if multiple > before else before
        else:
            factor = np.float32(-1.0) / own
            for j in range(len(most)):
                multiple, before = others[j] * factor, most[j]
                most[j] = multiple if multiple < before else before
    found = 0
    for j in range(len(least)):
        found += least[j] <= most[j]
    return found


@internal
def _remove(scaled, j):
    """Take away all gains of an item that has nothing left, so that no other makes up for its losses."""
    for d in range(len(scaled)):
        scaled[d, j] = np.float32(-1.0)


@internal(allocates=True)
def _sort(conflicts, n):
    """Put n items in order of height, with all of their steps left."""
    gains, sizes, order = conflicts.gains, conflicts.sizes, conflicts.order
    left, scaled = conflicts.left, conflicts.scaled
    ranks = np.argsort(conflicts.heights[:n])
    for k in range(n):
        item = ranks[k]
        order[k] = item
        left[k] = conflicts.steps[item]
        for d in range(len(scaled)):
            scaled[d, k] = gains[item, d] / sizes[item]


@internal
def charge(conflicts, n, errors, needed):
    """Charge conflicts between n items until the charges exceed what is needed; return (their sum, pairs compared)."""
    _sort(conflicts, n)
    gains, sizes, heights, order = conflicts.gains, conflicts.sizes, conflicts.heights, conflicts.order
    left, scaled, low, high = conflicts.left, conflicts.scaled, conflicts.low, conflicts.high
    possible = np.int64(0)  # every charge is to an item that pays at the centre
    for k in range(n):
        if heights[k] > 0.0:
            possible += conflicts.steps[k]
    total = np.int64(0)
    compared = 0
    for i in range(n - 1, 0, -1):
        first = order[i]
        if heights[first] <= 0.0 or total + possible <= needed:
            break
        possible -= left[i]
        for begin in range(0, i, _BLOCK):
            if left[i] == 0 or total > needed:
                break
            end = min(i, begin + _BLOCK)
            compared += end - begin
            if _compare(scaled, i, begin, end, low, high) == 0:
                continue
            for j in range(begin, end):
                if low[j] <= high[j] and left[j] > 0:
                    second = order[j]
                    multiple = 2.0 * low[j] + 1.0 if high[j] == np.inf else 0.5 * (np.float64(low[j]) + high[j])
                    share, other = multiple / sizes[first], 1.0 / sizes[second]
                    larger = max(share, other)
                    if one_pays(gains[first], gains[second], share / larger, other / larger, errors):
                        amount = min(left[i], left[j])
                        total += amount
                        left[i] -= amount
                        left[j] -= amount
                        if left[j] == 0:
                            _remove(scaled, j)
                        if heights[second] > 0.0:
                            possible -= amount
                        if left[i] == 0 or total > needed:
                            break
    return total, compared


@internal
def _pay_enough(gains, steps, n, needed, point):
    """Whether the items that pay at all rays, and at a point of their simplex, pay more than is needed.

    At any weights, charges are no more than what is paid there.
    """
    n_features = len(point)
    inside = np.int64(0)
    for k in range(n):
        gain = 0.0
        for d in range(n_features):
            gain += point[d] * gains[k, d]
        if gain >= 0.0:
            inside += steps[k]
    if inside <= needed:
        return False
    for d in range(n_features):
        paid = np.int64(0)
        for k in range(n):
            if gains[k, d] >= 0.0:
                paid += steps[k]
        if paid <= needed:
            return False
    return True


@kernel(nogil=True)
def conflict_bound(conflicts, stack, t, needed):
    """Return by how much conflicts raise the bound of cone t; they need not do more than exceed what is needed."""
    n = _collect(
        stack.scores,
        stack.costs,
        stack.ends,
        stack.first_row[t],
        stack.first_end[t],
        stack.n_lists[t],
        conflicts.gains,
        conflicts.steps,
        conflicts.sizes,
        conflicts.heights,
    )
    stack.numbers[DONE_WORK] += stack.n_rows[t]
    if not _pay_enough(conflicts.gains, conflicts.steps, n, needed, stack.points[t]):
        return 0
    total, compared = charge(conflicts, n, stack.errors[t], needed)
    stack.numbers[DONE_WORK] += compared
    return total
