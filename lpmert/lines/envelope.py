"""The error surface along a line through weight space, and the exact search on it.

Source: Och, Minimum Error Rate Training in Statistical Machine Translation, ACL 2003. On the line w + t d a hypothesis
scores intercept + t slope; each list's choices are the upper envelope of its lines, and the cost is constant between
the events at which some list changes its choice.
"""

from __future__ import annotations

from math import atan2, inf, tan
from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.numeric.kernels import internal, kernel

_BLOCK = 1024
"""Hypotheses whose scores stay in the first-level cache while the features are added up."""

LEAST_ANGLE = 1e-12
"""Intervals of a line that are narrower, in radians, than this are skipped: floating point cannot hold them."""


class Workspace(NamedTuple):
    """Arrays that line searches on the same lists share.

    transposed [D, M]: the features, one row a feature; intercepts, slopes [M]; start [S]: each list's choice at
    t = -inf; ends [S]: where each list's events end; thresholds, leaving, entering, deltas and their spares [M]: one
    entry an event; levels [M + 1]: one cost an interval; candidates [2, N], stack [N + 1, 3]: for one list of the
    largest size N.
    """

    transposed: FloatArray
    intercepts: FloatArray
    slopes: FloatArray
    start: IntArray
    ends: IntArray
    thresholds: FloatArray
    leaving: IntArray
    entering: IntArray
    deltas: IntArray
    spare_thresholds: FloatArray
    spare_deltas: IntArray
    levels: IntArray
    candidates: IntArray
    stack: IntArray


def new_workspace(features: FloatArray, offsets: IntArray) -> Workspace:
    """Return the arrays for line searches on features [M, D] with lists offsets [S + 1]."""
    count, lists = len(features), len(offsets) - 1
    largest = int(np.diff(offsets).max(initial=1))
    return Workspace(
        transposed=np.ascontiguousarray(features.T),
        intercepts=np.empty(count),
        slopes=np.empty(count),
        start=np.empty(lists, dtype=np.int64),
        ends=np.empty(lists, dtype=np.int64),
        thresholds=np.empty(count),
        leaving=np.empty(count, dtype=np.int64),
        entering=np.empty(count, dtype=np.int64),
        deltas=np.empty(count, dtype=np.int64),
        spare_thresholds=np.empty(count),
        spare_deltas=np.empty(count, dtype=np.int64),
        levels=np.empty(count + 1, dtype=np.int64),
        candidates=np.empty((2, largest), dtype=np.int64),
        stack=np.empty((largest + 1, 3), dtype=np.int64),
    )


@kernel
def combine(transposed, weights, scores):  # type: ignore[no-untyped-def]
    """Write weights [D] times transposed [D, M] into scores [M]."""
    dimension, count = transposed.shape
    for begin in range(0, count, _BLOCK):
        end = min(begin + _BLOCK, count)
        # through slices: counted from 0 to their length, loops are known not to wrap around, and run many at a time
        part, row = scores[begin:end], transposed[0, begin:end]
        for i in range(len(part)):
            part[i] = weights[0] * row[i]
        for k in range(1, dimension):
            weight, row = weights[k], transposed[k, begin:end]
            for i in range(len(part)):
                part[i] += weight * row[i]


@internal
def _split(intercepts, slopes, left, right, low, high, candidates, spare):  # type: ignore[no-untyped-def]
    """Find the candidate farthest above the chord left-right and keep those above the two new chords.

    Reads candidates[low:high]; leaves those left of the farthest at low:middle and those right of it at middle:end.
    Returns (farthest, middle, end).
    """
    run = slopes[right] - slopes[left]
    rise = intercepts[right] - intercepts[left]
    farthest = candidates[low]
    best = -inf
    for position in range(low, high):
        i = candidates[position]
        height = (intercepts[i] - intercepts[left]) * run - (slopes[i] - slopes[left]) * rise
        if height < best:
            continue
        if height > best or (slopes[i] == slopes[farthest] and intercepts[i] > intercepts[farthest]):
            best = height
            farthest = i
    top, slope = intercepts[farthest], slopes[farthest]
    left_run, left_rise = slope - slopes[left], top - intercepts[left]
    right_run, right_rise = slopes[right] - slope, intercepts[right] - top
    middle = low
    kept = 0
    for position in range(low, high):
        i = candidates[position]
        across, up = slopes[i], intercepts[i]
        # written in any case and then kept or not: a branch that nobody can predict costs more
        candidates[middle] = i
        spare[kept] = i
        middle += (across < slope) & ((up - intercepts[left]) * left_run > (across - slopes[left]) * left_rise)
        kept += (across > slope) & ((up - top) * right_run > (across - slope) * right_rise)
    for position in range(kept):
        candidates[middle + position] = spare[position]
    return farthest, middle, middle + kept


@internal
def add_events(intercepts, slopes, left, right, candidates, kept, first, count, threshold, spare, stack, events):  # type: ignore[no-untyped-def]
    """Write the envelope from line left to line right into events.thresholds, leaving and entering, from count on.

    candidates[:kept]: the lines above the chord of the two, in between. first: what lines are counted from; threshold:
    the one before. Returns (count, threshold) of the last event.
    """
    depth = 0
    low, high = np.int64(0), kept
    while True:
        while high > low:
            farthest, middle, high = _split(intercepts, slopes, left, right, low, high, candidates, spare)
            stack[depth, 0] = right
            stack[depth, 1] = middle
            stack[depth, 2] = high
            depth += 1
            right, high = farthest, middle
        threshold = max(threshold, (intercepts[left] - intercepts[right]) / (slopes[right] - slopes[left]))
        events.thresholds[count] = threshold
        events.leaving[count] = first + left
        events.entering[count] = first + right
        count += 1
        if depth == 0:
            return count, threshold
        depth -= 1
        left, right, low, high = right, stack[depth, 0], stack[depth, 1], stack[depth, 2]


@kernel
def find_events(intercepts, slopes, offsets, work):  # type: ignore[no-untyped-def]
    """Write every list's upper envelope into work.start, ends, thresholds, leaving and entering; return their number.

    Quickhull on the points (slope, intercept): one pass finds the ends, one keeps what lies above their chord, and what
    is left shrinks with every vertex found. Slopes strictly increase along an envelope; of lines that are
    equal the first stands.
    """
    candidates, spare = work.candidates[0], work.candidates[1]
    count = np.int64(0)
    for s in range(len(offsets) - 1):
        begin, end = offsets[s], offsets[s + 1]
        left = right = begin
        for i in range(begin + 1, end):
            slope = slopes[i]
            if slope <= slopes[left] and (slope < slopes[left] or intercepts[i] > intercepts[left]):
                left = i
            if slope >= slopes[right] and (slope > slopes[right] or intercepts[i] > intercepts[right]):
                right = i
        work.start[s] = left
        work.ends[s] = count
        if slopes[left] == slopes[right]:
            continue
        lowest, run = slopes[left], slopes[right] - slopes[left]
        base, rise = intercepts[left], intercepts[right] - intercepts[left]
        kept = np.int64(0)
        for i in range(begin, end):
            candidates[kept] = i
            kept += (intercepts[i] - base) * run > (slopes[i] - lowest) * rise
        count, _ = add_events(
            intercepts,
            slopes,
            left,
            right,
            candidates,
            kept,
            np.int64(0),
            count,
            np.float64(-inf),
            spare,
            work.stack,
            work,
        )
        work.ends[s] = count
    return count


@internal
def _keep_changes(costs, work):  # type: ignore[no-untyped-def]
    """Drop the events that leave the cost as it is, set work.deltas of the others, and return their number."""
    kept = 0
    e = 0
    for s in range(len(work.ends)):
        while e < work.ends[s]:
            delta = costs[work.entering[e]] - costs[work.leaving[e]]
            work.thresholds[kept] = work.thresholds[e]
            work.deltas[kept] = delta
            kept += delta != 0
            e += 1
        work.ends[s] = kept
    return kept


@internal
def _merge_runs(thresholds, deltas, ends, spare_thresholds, spare_deltas):  # type: ignore[no-untyped-def]
    """Merge the lists' sorted runs of events; returns the pair of arrays that holds the result, and uses `ends` up."""
    runs = len(ends)
    while runs > 1:
        merged = 0
        begin = 0
        for first in range(0, runs, 2):
            middle = ends[first]
            end = ends[min(first + 1, runs - 1)]
            i, j = begin, middle
            for k in range(begin, end):
                if j >= end or (i < middle and thresholds[i] <= thresholds[j]):
                    spare_thresholds[k] = thresholds[i]
                    spare_deltas[k] = deltas[i]
                    i += 1
                else:
                    spare_thresholds[k] = thresholds[j]
                    spare_deltas[k] = deltas[j]
                    j += 1
            begin = end
            ends[merged] = end
            merged += 1
        runs = merged
        thresholds, spare_thresholds = spare_thresholds, thresholds
        deltas, spare_deltas = spare_deltas, deltas
    return thresholds, deltas


@kernel
def best_interval(thresholds, costs, low, high, scale):  # type: ignore[no-untyped-def]
    """Return the least of costs [E + 1] between sorted thresholds [E] within low..high, and the middle of its interval.

    The middle is taken in the angle atan(t / scale), which is finite for unbounded intervals too; among equal costs the
    widest angle wins, and intervals narrower than `LEAST_ANGLE` count only if there is no other.
    """
    best_cost, best_width, middle = costs[0], -1.0, low
    last = len(thresholds)
    for narrowest in (LEAST_ANGLE, 0.0):
        begin = low
        for e in range(last + 1):
            end = high if e == last else min(max(thresholds[e], low), high)
            if end > begin and (costs[e] <= best_cost or best_width < 0.0):
                before, after = atan2(begin, scale), atan2(end, scale)
                width = after - before
                if width >= narrowest and (best_width < 0.0 or costs[e] < best_cost or width > best_width):
                    best_cost, best_width, middle = costs[e], width, scale * tan((before + after) / 2)
            begin = max(begin, end)
        if best_width >= 0.0:
            break
    return best_cost, min(max(middle, low), high)


@kernel
def search_scores(slopes, offsets, costs, low, high, scale, work):  # type: ignore[no-untyped-def]
    """Return (cost, step) of the best interval on the line with scores work.intercepts + step * slopes."""
    find_events(work.intercepts, slopes, offsets, work)
    count = _keep_changes(costs, work)
    thresholds, deltas = _merge_runs(work.thresholds, work.deltas, work.ends, work.spare_thresholds, work.spare_deltas)
    levels = work.levels[: count + 1]
    levels[0] = 0
    for chosen in work.start:
        levels[0] += costs[chosen]
    for e in range(count):
        levels[e + 1] = levels[e] + deltas[e]
    return best_interval(thresholds[:count], levels, low, high, scale)


def line_search(
    features: FloatArray,
    offsets: IntArray,
    costs: IntArray,
    weights: FloatArray,
    direction: FloatArray,
    *,
    low: float = -inf,
    high: float = inf,
    workspace: Workspace | None = None,
) -> tuple[int, float]:
    """Return the least cost on the line weights + t direction, and a t in the middle of an interval that has it.

    features [M, D], offsets [S + 1], costs [M]; low <= t <= high. The middle is that of `best_interval`, with
    |weights| / |direction| as the unit of t. The cost holds up to the rounding of scores: decode at the step to be
    sure. Raises `ValueError` if low is not below high. Source: Och 2003.
    """
    if not low < high:
        raise ValueError(f"the interval of a line search must have low < high, not {low} and {high}")
    work = new_workspace(features, offsets) if workspace is None else workspace
    combine(work.transposed, weights, work.intercepts)
    combine(work.transposed, direction, work.slopes)
    cost, step = search_scores(work.slopes, offsets, costs, low, high, unit_of(weights, direction), work)
    return int(cost), float(step)


def unit_of(weights: FloatArray, direction: FloatArray) -> float:
    """Return |weights| / |direction|, the natural unit of t on a line, or 1 where one of them is 0."""
    numerator, denominator = float(np.linalg.norm(weights)), float(np.linalg.norm(direction))
    return numerator / denominator if numerator > 0 and denominator > 0 else 1.0
