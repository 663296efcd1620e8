"""Small cone LPs inside kernels: can these choices be made together? Decided by the point of least norm of a hull.

The rows are the normalised differences chosen - other of the decided lists. Their hull misses the origin exactly when
some w has a positive product with every row (Wolfe 1976, Finding the nearest point in a polytope). A verdict is given
only where it is certain: FEASIBLE when every chosen hypothesis leads by more than the rounding error, INFEASIBLE when
the origin is inside a simplex of D + 1 rows by more than the rounding error; all else is UNDECIDED and left to exact
arithmetic.

Within a cap, weights whose cosine with a unit vector c is at least t, the same steps project c onto the cone of the
rows: for any multipliers x >= 0 and any w of the cone, c.w <= (c + x rows).w <= |c + x rows| |w|. INFEASIBLE then means
that |c + x rows| < t.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray
from lpmert.numeric.cap import Cap
from lpmert.numeric.factor import append, remove, solve
from lpmert.numeric.inside import moved, surely_inside
from lpmert.numeric.kernels import EPSILON, inlined, internal, kernel, plus

INFEASIBLE, FEASIBLE, UNDECIDED = 0, 1, 2
_VANISHED = 1e-16
_SMALLEST_NORM = 1e-280
_MOST_ROUNDS = 500
_CAP_TOLERANCE = 1e-12


class SortedLists(NamedTuple):
    """Lists with hypotheses in order of cost, in the two layouts that the kernels read.

    rows [M, D]; columns [M * D]: list after list, the same numbers feature by feature; reach [D]: the largest magnitude
    of each feature; spread [D]: how far it may be from the exact one. cap: empty, or a unit vector [D] and the least
    cosine with it.
    """

    rows: FloatArray
    columns: FloatArray
    offsets: IntArray
    costs: IntArray
    reach: FloatArray
    spread: FloatArray
    cap: FloatArray

    def native(self) -> core.Lists:
        """Return them for the compiled core."""
        return core.Lists(self.rows, self.offsets, self.costs, self.reach, self.spread, self.cap)


class Corrals(NamedTuple):
    """Starting points of LPs, one slot a search depth: affinely independent rows and the least-norm point of their
    hull.

    rows [slots, D + 4, D], multipliers, lists, others [slots, D + 4], size [slots], point [slots, D]. factor [slots,
    D + 4, D + 6]: see `append` of factor.py.
    """

    rows: FloatArray
    multipliers: FloatArray
    lists: IntArray
    others: IntArray
    size: IntArray
    point: FloatArray
    factor: FloatArray


class Scratch(NamedTuple):
    """Work space of one LP at a time: factor [D + 4, D + 6], target [D + 4], scores [longest list]."""

    factor: FloatArray
    target: FloatArray
    scores: FloatArray


@inlined
def new_corrals(slots: int, n_features: int) -> Corrals:
    """Return empty corrals."""
    most = n_features + 4
    return Corrals(
        np.zeros((slots, most, n_features)),
        np.zeros((slots, most)),
        np.zeros((slots, most), dtype=np.int64),
        np.zeros((slots, most), dtype=np.int64),
        np.zeros(slots, dtype=np.int64),
        np.zeros((slots, n_features)),
        np.zeros((slots, most, most + 2)),
    )


@inlined
def new_scratch(n_features: int, longest: int) -> Scratch:
    """Return work space for lists of at most `longest` hypotheses."""
    most = n_features + 4
    return Scratch(np.zeros((most, most + 2)), np.zeros(most), np.zeros(longest))


def cost_order(offsets: IntArray, costs: IntArray) -> IntArray:
    """Return the rows list by list, in order of cost (stable)."""
    return np.lexsort((costs, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))))


def sorted_lists(
    features: FloatArray,
    offsets: IntArray,
    costs: IntArray,
    cap: Cap | None = None,
    spread: FloatArray | None = None,
) -> SortedLists:
    """Return lists in order of cost (stable); spread [D]: how far features may be from the exact ones, if at all."""
    order = cost_order(offsets, costs)
    rows = np.ascontiguousarray(features[order])
    columns = np.empty(rows.size)
    transpose_lists(rows, offsets, columns)
    limit = np.empty(0) if cap is None else np.append(cap.unit, cap.cosine)
    off = np.zeros(rows.shape[1]) if spread is None else spread
    return SortedLists(rows, columns, offsets, costs[order], np.abs(rows).max(axis=0, initial=0.0), off, limit)


@kernel
def transpose_lists(rows, offsets, columns):
    """Fill columns [M * D] with each list's numbers feature by feature."""
    n_features = rows.shape[1]
    for s in range(len(offsets) - 1):
        begin, length = offsets[s], offsets[s + 1] - offsets[s]
        for i in range(length):
            for d in range(n_features):
                columns[begin * n_features + d * length + i] = rows[begin + i, d]


@kernel
def score_list(columns, begin, length, weights, scores):
    """Fill scores [length] with the scores of one list."""
    # Loops over arrays of their own, from 0, are compiled to vector instructions: several times as fast as others.
    filled = scores[:length]
    base = begin * len(weights)
    column = columns[base : base + length]
    w = weights[0]
    for i in range(len(filled)):
        filled[i] = w * column[i]
    for d in range(1, len(weights)):
        base += length
        column = columns[base : base + length]
        w = weights[d]
        for i in range(len(filled)):
            filled[i] += w * column[i]


@kernel
def rounding_bound(lists, weights):
    """Bound the error of a difference of two scores: by rounding, and by that of the features."""
    total, off = 0.0, 0.0
    for d in range(len(weights)):
        total += abs(weights[d]) * lists.reach[d]
        off += abs(weights[d]) * lists.spread[d]
    return 2.0 * (len(weights) + 3) * EPSILON * total + 2.0 * off


@internal
def largest(scores, length):
    """Return the position of the first largest score, comparing eight at a time so that the processor can overlap."""
    top = -np.inf
    i = 0
    while i + 8 <= length:
        eight = scores[i : i + 8]
        a = eight[0] if eight[0] > eight[1] else eight[1]
        b = eight[2] if eight[2] > eight[3] else eight[3]
        c = eight[4] if eight[4] > eight[5] else eight[5]
        d = eight[6] if eight[6] > eight[7] else eight[7]
        a = a if a > b else b
        c = c if c > d else d
        a = a if a > c else c
        top = a if a > top else top
        i += 8
    while i < length:
        top = scores[i] if scores[i] > top else top
        i += 1
    i = 0
    while scores[i] < top:
        i += 1
    return i


@kernel
def decode_clearly(lists, weights, selection, scores):
    """Write each list's winner (counted within the list) into selection; return (cost, every lead clears rounding).

    The cost is `INFINITE_COST`, which is no improvement, where a forbidden hypothesis wins.
    """
    bound = rounding_bound(lists, weights)
    cost = np.int64(0)
    clear = True
    for s in range(len(lists.offsets) - 1):
        begin, length = lists.offsets[s], lists.offsets[s + 1] - lists.offsets[s]
        score_list(lists.columns, begin, length, weights, scores)
        best = largest(scores, length)
        selection[s] = best
        cost = plus(cost, lists.costs[begin + best])
        if clear:
            top = scores[best]
            scores[best] = -np.inf
            clear = top - scores[largest(scores, length)] > bound
    return cost, clear


@internal
def copy_corral(corrals, source, target):
    """Copy one slot to another."""
    size = corrals.size[source]
    corrals.size[target] = size
    for k in range(size):
        corrals.multipliers[target, k] = corrals.multipliers[source, k]
        corrals.lists[target, k] = corrals.lists[source, k]
        corrals.others[target, k] = corrals.others[source, k]
        for d in range(corrals.rows.shape[2]):
            corrals.rows[target, k, d] = corrals.rows[source, k, d]
        for j in range(k, corrals.factor.shape[2]):
            corrals.factor[target, k, j] = corrals.factor[source, k, j]
    for d in range(corrals.rows.shape[2]):
        corrals.point[target, d] = corrals.point[source, d]


@kernel
def in_cap(cap, weights):
    """Whether weights [D] surely lie in the cap; an empty one holds everything."""
    n_features = len(weights)
    if len(cap) == 0:
        return True
    along, norm = 0.0, 0.0
    for d in range(n_features):
        along += cap[d] * weights[d]
        norm += weights[d] * weights[d]
    return along >= (cap[n_features] + 4.0 * n_features * EPSILON) * np.sqrt(norm)


@kernel
def separate(lists, decided, n_decided, start, chosen, corrals, slot, scratch, counters):
    """Decide whether the choices of decided[:n_decided] can be made together; start from, and leave behind, a corral.

    chosen [S] holds the chosen position within each decided list. A FEASIBLE verdict leaves a witness in
    corrals.point[slot], an INFEASIBLE one a core in the corral's rows of positive multipliers. counters: [0] LPs,
    [1] rounds.
    """
    rows, multipliers = corrals.rows[slot], corrals.multipliers[slot]
    row_lists, row_others, point = corrals.lists[slot], corrals.others[slot], corrals.point[slot]
    factor, target, scores = corrals.factor[slot], scratch.target, scratch.scores
    n_features = rows.shape[1]
    size = corrals.size[slot]
    capped = len(lists.cap) > 0
    if capped and size == 0:
        for d in range(n_features):
            point[d] = lists.cap[d]
    counters[0] += 1
    position = start
    for _ in range(_MOST_ROUNDS):
        norm = 0.0
        for d in range(n_features):
            norm += point[d] * point[d]
        if capped:
            mass = 1.0
            for k in range(size):
                mass += multipliers[k]
            least = lists.cap[n_features] - _CAP_TOLERANCE - 16.0 * n_features * EPSILON * mass
            if least > 0.0 and norm < least * least:
                least -= mass * moved(lists, chosen, row_lists, row_others, size)
                if least > 0.0 and norm < least * least:
                    corrals.size[slot] = size
                    return INFEASIBLE
        if size > 0 and norm < _VANISHED:
            corrals.size[slot] = size
            off = moved(lists, chosen, row_lists, row_others, size)
            inside = surely_inside(rows, multipliers, size, scratch.factor, target, lists.cap, lists.spread, off)
            return INFEASIBLE if inside else UNDECIDED
        bound = rounding_bound(lists, point)
        entering = -1
        entering_list = -1
        for _ in range(n_decided):
            s = decided[position]
            begin, length = lists.offsets[s], lists.offsets[s + 1] - lists.offsets[s]
            if length > 1:
                score_list(lists.columns, begin, length, point, scores)
                lead = scores[chosen[s]]
                scores[chosen[s]] = -np.inf
                best = largest(scores, length)
                if not lead - scores[best] > bound:
                    entering = best
                    entering_list = s
                    break
            position += 1
            if position == n_decided:
                position = 0
        if entering < 0:
            corrals.size[slot] = size
            return FEASIBLE if in_cap(lists.cap, point) else UNDECIDED
        stalled = size >= n_features + 2
        for k in range(size):
            stalled = stalled or (row_lists[k] == entering_list and row_others[k] == entering)
        if stalled:
            corrals.size[slot] = size
            return UNDECIDED
        counters[1] += 1
        begin = lists.offsets[entering_list]
        norm = 0.0
        for d in range(n_features):
            value = lists.rows[begin + chosen[entering_list], d] - lists.rows[begin + entering, d]
            rows[size, d] = value
            norm += value * value
        if norm < _SMALLEST_NORM:
            corrals.size[slot] = size
            return UNDECIDED
        norm = 1.0 / np.sqrt(norm)
        for d in range(n_features):
            rows[size, d] *= norm
        row_lists[size], row_others[size] = entering_list, entering
        multipliers[size] = 1.0 if size == 0 and not capped else 0.0
        append(rows, size, factor, target, lists.cap)
        size += 1
        while True:  # move towards the affine least-norm point, dropping rows whose multiplier would turn negative
            total = solve(factor, size, target)
            step = 1.0
            leaving = -1
            scale = 1.0 if capped else 1.0 / total
            for i in range(size):
                target[i] *= scale
                if target[i] <= 1e-12:
                    gap = multipliers[i] - target[i]
                    reach = multipliers[i] / gap if gap > 1e-300 else 0.0
                    if reach < step or leaving < 0:
                        step = reach
                        leaving = i
            if leaving < 0:
                for i in range(size):
                    multipliers[i] = target[i]
                break
            newest = size - 1
            for i in range(size):
                multipliers[i] += step * (target[i] - multipliers[i])
            for i in range(newest, -1, -1):
                if i == leaving or (i < newest and not multipliers[i] > 1e-14):
                    remove(corrals, slot, np.int64(i), size)
                    size -= 1
        for d in range(n_features):
            point[d] = lists.cap[d] if capped else 0.0
        for k in range(size):
            row, multiplier = rows[k], multipliers[k]
            for d in range(len(row)):
                point[d] += multiplier * row[d]
    corrals.size[slot] = size
    return UNDECIDED
