"""Kernels of the line search, for additive and ratio metrics alike, over plain arrays.

Throughout: M hypotheses in S lists, offsets [S + 1]; a hypothesis scores intercept + t slope on the line. An event is
a threshold t at which a list changes its choice; a level is the loss between two events. Kernels without Python entry
are called by the others.
"""

from __future__ import annotations

from math import atan, inf, tan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.lines.envelope import LEAST_ANGLE, find_events
from lpmert.metrics.ratio_kernels import loss_of_total
from lpmert.numeric.kernels import internal, kernel

ADDITIVE = -1
"""In the place of a ratio metric's kind: levels are sums of costs."""

MIDPOINT, WIDEST, SMOOTHED = range(3)
"""Which interval is taken."""

_FAR = 1e6

_DIGIT_BITS = 11
_DIGITS = 6
_SHIFT = np.uint64(_DIGIT_BITS)
_MASK = np.uint64((1 << _DIGIT_BITS) - 1)
_SIGN = np.uint64(1 << 63)
_ALL = np.uint64((1 << 64) - 1)


class Loss(NamedTuple):
    """What hypotheses cost: `ADDITIVE` reads costs [M], other kinds statistics [M, K], constant [K] and parameters."""

    kind: int
    parameters: FloatArray
    costs: IntArray
    statistics: FloatArray
    constant: FloatArray


class Buffers(NamedTuple):
    """Arrays that line searches on the same lists share.

    tops [S]: the best intercept of each list; hull [N + 1], starts [N + 1]: one list's envelope; keys, order and their
    spares [M], digits: for sorting events; sorted [M]: thresholds in order; levels [M + 1]; integrals [M]; total [K].
    """

    tops: FloatArray
    hull: IntArray
    starts: FloatArray
    keys: NDArray[np.uint64]
    spare_keys: NDArray[np.uint64]
    order: NDArray[np.int32]
    spare_order: NDArray[np.int32]
    digits: IntArray
    sorted: FloatArray
    levels: FloatArray
    integrals: FloatArray
    total: FloatArray


def new_buffers(offsets: IntArray, n_statistics: int) -> Buffers:
    """Return buffers for lists offsets [S + 1] with K statistics."""
    count = int(offsets[-1])
    largest = int(np.diff(offsets).max(initial=1))
    return Buffers(
        tops=np.empty(len(offsets) - 1),
        hull=np.empty(largest + 1, dtype=np.int64),
        starts=np.empty(largest + 1),
        keys=np.empty(count, dtype=np.uint64),
        spare_keys=np.empty(count, dtype=np.uint64),
        order=np.empty(count, dtype=np.int32),
        spare_order=np.empty(count, dtype=np.int32),
        digits=np.empty((_DIGITS, 1 << _DIGIT_BITS), dtype=np.int64),
        sorted=np.empty(count),
        levels=np.empty(count + 1),
        integrals=np.empty(count),
        total=np.empty(n_statistics),
    )


@internal
def _push(intercepts, slopes, i, hull, starts, size):
    """Add line i, whose slope is no less than any before, to the envelope hull[:size]; return its new size.

    starts: the t from which on each line is the envelope.
    """
    while size:
        top = hull[size - 1]
        run = slopes[i] - slopes[top]
        if run > 0.0:
            threshold = (intercepts[top] - intercepts[i]) / run
            if threshold > starts[size - 1]:
                hull[size] = i
                starts[size] = threshold
                return size + 1
        elif intercepts[i] <= intercepts[top]:
            return size
        size -= 1
    hull[0] = i
    starts[0] = -inf
    return np.int64(1)


@internal
def _coordinate_events(intercepts, tops, slopes, order, offsets, work, hull, starts):
    """Do the work of `envelope.find_events` for slopes whose order [M] within each list is known.

    tops [S]: the greatest intercept of each list. Left of it only lines above all lines of smaller slope can be on the
    envelope, right of it only those above all of greater slope: two running maxima leave a few lines of each list.
    """
    count = 0
    for s in range(len(offsets) - 1):
        top = tops[s]
        position = offsets[s]
        best = -inf
        size = np.int64(0)
        while best < top:
            i = np.int64(order[position])
            position += 1
            if intercepts[i] > best:
                best = intercepts[i]
                size = _push(intercepts, slopes, i, hull, starts, size)
        last_on_the_left = position
        position = offsets[s + 1]
        best = -inf
        kept = len(hull)
        while best < top:
            position -= 1
            i = np.int64(order[position])
            if intercepts[i] > best:
                best = intercepts[i]
                kept -= 1
                hull[kept] = i
            elif intercepts[i] == best and slopes[i] == slopes[hull[kept]]:
                hull[kept] = i  # of lines that are equal the first stands
        kept += position < last_on_the_left
        for k in range(kept, len(hull)):
            size = _push(intercepts, slopes, hull[k], hull, starts, size)
        work.start[s] = hull[0]
        for k in range(1, size):
            work.thresholds[count] = starts[k]
            work.leaving[count] = hull[k - 1]
            work.entering[count] = hull[k]
            count += 1
    return count


@internal
def sort_events(thresholds, count, buffers):
    """Write thresholds[:count], sorted, into buffers.sorted, and what sorts them into buffers.order.

    A radix sort of their bits, in an even number of passes.
    """
    keys, spare_keys = buffers.keys, buffers.spare_keys
    order, spare_order = buffers.order, buffers.spare_order
    digits = buffers.digits
    for place in range(_DIGITS):
        for digit in range(digits.shape[1]):
            digits[place, digit] = 0
    bits = thresholds.view(np.uint64)
    for e in range(count):
        key = bits[e] ^ (_ALL if bits[e] & _SIGN else _SIGN)  # unsigned integers in the order of the numbers
        keys[e] = key
        order[e] = e
        for place in range(_DIGITS):
            digits[place, key & _MASK] += 1
            key >>= _SHIFT
    shift = np.uint64(0)
    for place in range(_DIGITS):
        ends = digits[place]
        total = 0
        for digit in range(len(ends)):
            total, ends[digit] = total + ends[digit], total
        for e in range(count):
            digit = (keys[e] >> shift) & _MASK
            target = ends[digit]
            ends[digit] += 1
            spare_keys[target] = keys[e]
            spare_order[target] = order[e]
        keys, spare_keys = spare_keys, keys
        order, spare_order = spare_order, order
        shift += _SHIFT
    for e in range(count):
        buffers.sorted[e] = thresholds[order[e]]


@internal
def fill_levels(loss, events, order, count, buffers):
    """Write the levels [count + 1] between the sorted events into buffers.levels."""
    levels = buffers.levels
    leaving, entering = events.leaving, events.entering
    if loss.kind == ADDITIVE:
        costs = loss.costs
        cost = np.int64(0)
        for chosen in events.start:
            cost += costs[chosen]
        levels[0] = cost
        for e in range(count):
            cost += costs[entering[order[e]]] - costs[leaving[order[e]]]
            levels[e + 1] = cost
        return
    total, statistics = buffers.total, loss.statistics
    width = len(total)
    for k in range(width):
        total[k] = loss.constant[k]
    for chosen in events.start:
        for k in range(width):
            total[k] += statistics[chosen, k]
    levels[0] = loss_of_total(loss.kind, loss.parameters, total)
    for e in range(count):
        old, new = leaving[order[e]], entering[order[e]]
        for k in range(width):
            total[k] += statistics[new, k] - statistics[old, k]
        levels[e + 1] = loss_of_total(loss.kind, loss.parameters, total)


@internal
def join_equals(thresholds, levels):
    """Drop the events that leave the level as it is; return how many are left."""
    kept = 0
    for e in range(len(thresholds)):
        if levels[e + 1] != levels[kept]:
            thresholds[kept] = thresholds[e]
            levels[kept + 1] = levels[e + 1]
            kept += 1
    return kept


@internal
def _best_interval(thresholds, levels, low, high, scale, widest):
    """Return the least level within low..high and the middle of its interval, in the angle atan(t / scale).

    Among equal levels the widest angle wins, or the interval nearest to 0. Intervals narrower than `LEAST_ANGLE` count
    only if there is no other.
    """
    last = len(thresholds)
    best_level, best_merit, middle = inf, -inf, low
    for narrowest in (LEAST_ANGLE, 0.0):
        begin = low
        for e in range(last + 1):
            end = high if e == last else min(max(thresholds[e], low), high)
            if end > begin and levels[e] <= best_level:
                before, after = atan(begin / scale), atan(end / scale)
                merit = after - before if widest else -max(begin, -end, 0.0)
                if after - before >= narrowest and (levels[e] < best_level or merit > best_merit):
                    best_level, best_merit = levels[e], merit
                    middle = scale * tan((before + after) / 2)
            begin = max(begin, end)
        if best_merit > -inf:
            break
    return best_level, min(max(middle, low), high)


@internal
def _integral(t, e, thresholds, levels, integrals):
    """Return the integral of the levels from the first threshold to t, which lies in interval e."""
    if e == 0:
        return (t - thresholds[0]) * levels[0]
    return integrals[e - 1] + (t - thresholds[e - 1]) * levels[e]


@internal
def _smoothed_interval(thresholds, levels, low, high, scale, smoothing, integrals):
    """Return the level at that middle of an interval around which the mean level is least, and the middle.

    The mean is over t - radius..t + radius, the radius `smoothing` times `scale`; the middle of an unbounded interval
    lies a radius beyond its end. Thresholds further than `_FAR` times the scale count as if they were there, where no
    sum of them blurs the others.
    """
    last = len(thresholds)
    radius = smoothing * scale
    for e in range(last):
        thresholds[e] = min(max(thresholds[e], -_FAR * scale), _FAR * scale)
    if last == 0:
        return levels[0], min(max(0.0, low), high)
    integrals[0] = 0.0
    for e in range(1, last):
        integrals[e] = integrals[e - 1] + (thresholds[e] - thresholds[e - 1]) * levels[e]
    best_mean, best_level, best_step = inf, levels[0], min(max(0.0, low), high)
    before = after = np.int64(0)
    for e in range(last + 1):
        begin = thresholds[0] - 2 * radius if e == 0 else thresholds[e - 1]
        end = thresholds[last - 1] + 2 * radius if e == last else thresholds[e]
        begin, end = max(begin, low), min(end, high)
        if not end > begin:
            continue
        step = begin + (end - begin) / 2
        while before < last and thresholds[before] <= step - radius:
            before += 1
        while after < last and thresholds[after] <= step + radius:
            after += 1
        upper = _integral(step + radius, after, thresholds, levels, integrals)
        mean = upper - _integral(step - radius, before, thresholds, levels, integrals)
        if mean < best_mean:
            best_mean, best_level, best_step = mean, levels[e], step
    return best_level, best_step


@internal
def _choose(loss, work, count, low, high, scale, interval, smoothing, buffers):
    """Return (level, t) of the interval to take, from the events in `work`."""
    sort_events(work.thresholds, count, buffers)
    fill_levels(loss, work, buffers.order, count, buffers)
    left = join_equals(buffers.sorted[:count], buffers.levels)
    thresholds, levels = buffers.sorted[:left], buffers.levels[: left + 1]
    if interval == SMOOTHED:
        return _smoothed_interval(thresholds, levels, low, high, scale, smoothing, buffers.integrals)
    return _best_interval(thresholds, levels, low, high, scale, interval == WIDEST)


@kernel(nogil=True)
def search_direction(offsets, loss, low, high, scale, interval, smoothing, work, buffers):
    """Return (level, t) of the best interval on the line work.intercepts + t work.slopes."""
    count = find_events(work.intercepts, work.slopes, offsets, work)
    return _choose(loss, work, count, low, high, scale, interval, smoothing, buffers)


@kernel(nogil=True)
def search_coordinates(coordinates, orders, offsets, loss, ranges, scale, interval, smoothing, work, buffers):
    """Return (coordinate, level, t) of the best of the lines along these coordinates from work.intercepts.

    orders [D, M]: for each feature its hypotheses, sorted within their lists; ranges [D, 2]: the ends of t.
    """
    for s in range(len(offsets) - 1):
        buffers.tops[s] = -inf
        for i in range(offsets[s], offsets[s + 1]):
            buffers.tops[s] = max(buffers.tops[s], work.intercepts[i])
    best_level, best_coordinate, best_step = inf, -1, 0.0
    for coordinate in coordinates:
        slopes = work.transposed[coordinate]
        count = _coordinate_events(
            work.intercepts, buffers.tops, slopes, orders[coordinate], offsets, work, buffers.hull, buffers.starts
        )
        low, high = ranges[coordinate]
        level, step = _choose(loss, work, count, low, high, scale, interval, smoothing, buffers)
        if level < best_level:
            best_level, best_coordinate, best_step = level, coordinate, step
    return best_coordinate, best_level, best_step


@kernel(nogil=True)
def level_at(scores, offsets, loss, total):
    """Return the level of decoding scores [M], the first hypothesis of a list on ties; total [K] is overwritten."""
    cost = np.int64(0)
    for k in range(len(total)):
        total[k] = loss.constant[k]
    for s in range(len(offsets) - 1):
        chosen = offsets[s]
        for i in range(offsets[s] + 1, offsets[s + 1]):
            if scores[i] > scores[chosen]:
                chosen = i
        if loss.kind == ADDITIVE:
            cost += loss.costs[chosen]
        else:
            for k in range(len(total)):
                total[k] += loss.statistics[chosen, k]
    return float(cost) if loss.kind == ADDITIVE else loss_of_total(loss.kind, loss.parameters, total)
