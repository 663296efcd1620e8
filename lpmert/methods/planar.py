"""The exact optimum of problems with one or two features, by a sweep over all directions of the plane.

Each list's choice changes only at the outward normals of its convex hull's edges. All comparisons of directions are
exact: a floating-point filter (Shewchuk, Adaptive Precision Floating-Point Arithmetic and Fast Robust Geometric
Predicates, 1997: that of ORIENT2D) and, where it does not decide, error-free expansions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.lines.descent import decode_cost
from lpmert.numeric.kernels import kernel
from lpmert.system.deadline import checkpoint

_EPSILON = 2.0**-53
_FILTER = (3 + 16 * _EPSILON) * _EPSILON
_UNDERFLOW = 1e-300
_SPLITTER = 2.0**27 + 1
_LEAST_EXPONENT = -440
"""Least exponent of a feature scaled to at most 1 for which all products in the exact sums are free of underflow."""


@dataclass(frozen=True)
class PlanarOptimum:
    """The least cost over all directions, and the best direction that floating point can hold.

    cost is the proven least cost of decoding without ties; weights [D] lie in the middle of the widest interval of
    directions that has it. representable_weights decode to representable_cost with every lead larger than the rounding
    error; both are the former where that interval is wide enough, and `None` where no interval at all is.
    """

    cost: int
    weights: FloatArray
    representable_cost: int | None
    representable_weights: FloatArray | None

    @property
    def representable(self) -> bool:
        """Whether floating-point weights reach the least cost."""
        return self.representable_cost == self.cost


class CriticalDirections(NamedTuple):
    """Where the choices change as the weights turn counter-clockwise once, exactly sorted.

    start [S]: the hypothesis chosen in each list just before the first event; leaving, entering [E]: the hypothesis
    chosen before and after an event; ends [G]: where each group of events with one and the same direction ends;
    middles [G, 2] and widths [G] (radians, for features scaled to at most 1): the open interval of directions after
    each group, rounded. Hypotheses are rows of the feature matrix.
    """

    start: IntArray
    leaving: IntArray
    entering: IntArray
    ends: IntArray
    middles: FloatArray
    widths: FloatArray


@kernel
def _two_sum(a, b):  # type: ignore[no-untyped-def]
    """Return the rounded sum and its exact error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@kernel
def _two_product(a, b):  # type: ignore[no-untyped-def]
    """Return the rounded product and its exact error (Dekker, Veltkamp)."""
    product = a * b
    wide = _SPLITTER * a
    a_high = wide - (wide - a)
    wide = _SPLITTER * b
    b_high = wide - (wide - b)
    a_low, b_low = a - a_high, b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


@kernel
def _grow(expansion, size, term):  # type: ignore[no-untyped-def]
    """Add a term to a nonoverlapping expansion of increasing magnitude, leaving zeros out; return its new size."""
    kept = 0
    for position in range(size):
        term, error = _two_sum(term, expansion[position])
        if error != 0.0:
            expansion[kept] = error
            kept += 1
    if term != 0.0:
        expansion[kept] = term
        kept += 1
    return kept


@kernel
def _exact_turn(x, y, p, q, r, s, expansion):  # type: ignore[no-untyped-def]
    """Return the sign of (q - p) x (s - r), from the exact sum of its sixteen products."""
    ax, ax_low = _two_sum(x[q], -x[p])
    ay, ay_low = _two_sum(y[q], -y[p])
    bx, bx_low = _two_sum(x[s], -x[r])
    by, by_low = _two_sum(y[s], -y[r])
    size = np.int64(0)
    for a in (ax_low, ax):
        for b in (by_low, by):
            product, error = _two_product(a, b)
            size = _grow(expansion, size, error)
            size = _grow(expansion, size, product)
    for a in (-ay_low, -ay):
        for b in (bx_low, bx):
            product, error = _two_product(a, b)
            size = _grow(expansion, size, error)
            size = _grow(expansion, size, product)
    if size == 0:
        return 0
    return 1 if expansion[size - 1] > 0.0 else -1


@kernel
def turn(x, y, p, q, r, s, expansion):  # type: ignore[no-untyped-def]
    """Return the sign of the cross product (q - p) x (s - r) of points with coordinates x, y [M], exactly.

    expansion [20] is scratch space.
    """
    ax, ay, bx, by = x[q] - x[p], y[q] - y[p], x[s] - x[r], y[s] - y[r]
    left, right = ax * by, ay * bx
    difference = left - right
    if abs(difference) > _FILTER * (abs(left) + abs(right)) + _UNDERFLOW:
        return 1 if difference > 0.0 else -1
    left_sign = np.sign(ax) * np.sign(by)
    right_sign = np.sign(ay) * np.sign(bx)
    if left_sign != right_sign:
        return 1 if left_sign > right_sign else -1
    if left_sign == 0.0:
        return 0
    return _exact_turn(x, y, p, q, r, s, expansion)


@kernel(allocates=True)
def _hull_edges(x, y, order, offsets, start, leaving, entering):  # type: ignore[no-untyped-def]
    """Write the edges of every list's convex hull, counter-clockwise; return their number.

    order [M]: rows sorted within each list by x, then y, then row. Points inside an edge are no vertices; of equal
    points the first row stands. Monotone chain (Andrew 1979).
    """
    expansion = np.empty(20)
    chain = np.empty(len(order) + 1, dtype=np.int64)
    count = 0
    for s in range(len(offsets) - 1):
        begin, end = offsets[s], offsets[s + 1]
        size = 0
        for half in range(2):
            base = max(size - 1, 0)
            for step in range(end - begin):
                i = order[begin + step] if half == 0 else order[end - 1 - step]
                if size > base and x[i] == x[chain[size - 1]] and y[i] == y[chain[size - 1]]:
                    chain[size - 1] = min(i, chain[size - 1])
                    continue
                while (
                    size > base + 1 and turn(x, y, chain[size - 2], chain[size - 1], chain[size - 1], i, expansion) <= 0
                ):
                    size -= 1
                chain[size] = i
                size += 1
        start[s] = chain[0]
        for edge in range(size - 1):
            leaving[count] = chain[edge]
            entering[count] = chain[edge + 1]
            count += 1
    return count


@kernel
def _compare(x, y, p, q, r, s, expansion):  # type: ignore[no-untyped-def]
    """Return -1, 0 or 1 as direction q - p comes before, with or after s - r, counted from the positive x axis."""
    first_low = y[q] < y[p] or (y[q] == y[p] and x[q] < x[p])
    second_low = y[s] < y[r] or (y[s] == y[r] and x[s] < x[r])
    if first_low != second_low:
        return 1 if first_low else -1
    return -turn(x, y, p, q, r, s, expansion)


@kernel(allocates=True)
def _sort_edges(x, y, leaving, entering, ends):  # type: ignore[no-untyped-def]
    """Return the order [E] of the edges by direction, and write where each group of equal directions ends.

    Stable merge sort. Returns (order, number of groups).
    """
    expansion = np.empty(20)
    count = len(leaving)
    order = np.arange(count)
    merged = np.empty(count, dtype=np.int64)
    width = 1
    while width < count:
        for begin in range(0, count, 2 * width):
            middle, end = min(begin + width, count), min(begin + 2 * width, count)
            i, j = begin, middle
            for k in range(begin, end):
                take_left = j >= end
                if i < middle and j < end:
                    a, b = order[i], order[j]
                    take_left = _compare(x, y, leaving[a], entering[a], leaving[b], entering[b], expansion) <= 0
                if take_left:
                    merged[k] = order[i]
                    i += 1
                else:
                    merged[k] = order[j]
                    j += 1
        order, merged = merged, order
        width *= 2
    groups = 0
    for e in range(1, count + 1):
        if e < count:
            a, b = order[e - 1], order[e]
            if _compare(x, y, leaving[a], entering[a], leaving[b], entering[b], expansion) == 0:
                continue
        ends[groups] = e
        groups += 1
    return order, groups


@kernel
def _holds(features, offsets, costs, weights, cost):  # type: ignore[no-untyped-def]
    """Return whether weights [D] decode to the cost in any order of summation.

    False where a hypothesis of another cost than the winner's comes within the rounding error of it.
    """
    dimension = len(weights)
    for s in range(len(offsets) - 1):
        best, size = -np.inf, 0.0
        winner = offsets[s]
        for i in range(offsets[s], offsets[s + 1]):
            score, magnitude = 0.0, 0.0
            for k in range(dimension):
                term = weights[k] * features[i, k]
                score += term
                magnitude += abs(term)
            size = max(size, magnitude)
            if score > best:
                best, winner = score, i
        least = best - 4 * dimension * 2 * _EPSILON * size
        for i in range(offsets[s], offsets[s + 1]):
            if costs[i] != costs[winner]:
                score = 0.0
                for k in range(dimension):
                    score += weights[k] * features[i, k]
                if score >= least:
                    return False
        cost -= costs[winner]
    return cost == 0


def critical_directions(features: FloatArray, offsets: IntArray) -> CriticalDirections:
    """Return where the choices of all lists change among the directions of the plane.

    features [M, 2], offsets [S + 1]. Any statistics can be swept over these events: begin with their sum over
    `start` and add statistics[entering] - statistics[leaving] one group after another. Raises `DataError` where the
    nonzero values of a feature span more than 132 orders of magnitude.
    """
    scaled, exponents = _scaled(features)
    x, y = np.ascontiguousarray(scaled[:, 0]), np.ascontiguousarray(scaled[:, 1])
    lists = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    start = np.empty(len(offsets) - 1, dtype=np.int64)
    leaving, entering, ends = np.empty((3, len(x)), dtype=np.int64)
    count = _hull_edges(x, y, np.lexsort((y, x, lists)), offsets, start, leaving, entering)
    leaving, entering = leaving[:count], entering[:count]
    order, groups = _sort_edges(x, y, leaving, entering, ends)
    leaving, entering, ends = leaving[order], entering[order], ends[:groups].copy()
    touched, first = np.unique(lists[leaving], return_index=True)
    start[touched] = leaving[first]
    edges = scaled[entering[ends - 1]] - scaled[leaving[ends - 1]]
    middles, widths = _intervals(np.column_stack([edges[:, 1], -edges[:, 0]]))
    return CriticalDirections(start, leaving, entering, ends, np.ldexp(middles, exponents.min() - exponents), widths)


def sweep_directions(features: FloatArray, offsets: IntArray, costs: IntArray) -> PlanarOptimum:
    """Return the least cost that any weights other than 0 reach without ties, proven, and weights that reach it.

    features [M, D] with D = 1 or 2, offsets [S + 1], costs [M]; no list holds identical vectors. Raises `ValueError`
    for other D and `DataError` where the nonzero values of a feature span more than 132 orders of magnitude.
    Sources: Och 2003 on a line; Galley and Quirk 2011 on critical directions in the plane.
    """
    dimension = features.shape[1]
    if dimension not in (1, 2):
        raise ValueError(f"the sweep needs one or two features, not {dimension}")
    if dimension == 1:
        signs = np.array([[1.0], [-1.0]])
        both = [int(decode_cost(sign * features[:, 0], offsets, costs, 0.0)[0]) for sign in signs[:, 0]]
        best = int(np.argmin(both))
        return PlanarOptimum(both[best], signs[best], both[best], signs[best])
    critical = critical_directions(features, offsets)
    cost = int(costs[critical.start].sum())
    if len(critical.ends) == 0:
        return PlanarOptimum(cost, np.ones(2), cost, np.ones(2))
    levels = cost + np.cumsum(costs[critical.entering] - costs[critical.leaving])[critical.ends - 1]
    ranking = np.lexsort((-critical.widths, levels))
    cost = int(levels[ranking[0]])
    for interval in ranking:
        checkpoint()
        weights, level = critical.middles[interval], int(levels[interval])
        if _holds(features, offsets, costs, weights, level):
            return PlanarOptimum(cost, weights if level == cost else critical.middles[ranking[0]], level, weights)
    return PlanarOptimum(cost, critical.middles[ranking[0]], None, None)


def _scaled(features: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the features [M, 2] with columns scaled exactly by powers of two to at most 1, and the exponents [2]."""
    exponents = np.frexp(np.abs(features).max(axis=0))[1]
    scaled = np.ldexp(features, -exponents)
    for column in range(features.shape[1]):
        used = features[:, column] != 0
        if np.any(np.frexp(features[used, column])[1] - exponents[column] < _LEAST_EXPONENT):
            raise DataError(
                f"the values of feature {column + 1} span more than 132 orders of magnitude: set the tiny ones to 0"
            )
    return scaled, exponents


def _intervals(normals: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the middles [G, 2] and the widths [G], in radians, of the arcs from each direction to the next."""
    before = normals / np.hypot(normals[:, 0], normals[:, 1])[:, None]
    after = np.roll(before, -1, axis=0)
    cosines = (before * after).sum(axis=1)
    sines = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    apart = before - after
    obtuse = np.column_stack([-apart[:, 1], apart[:, 0]])
    return np.where(cosines[:, None] > 0, before + after, obtuse), np.arctan2(np.abs(sines), cosines)
