"""The loss on a great circle cos(t) w + sin(t) v: two lines, w + t v for cos(t) > 0 and its opposite for the rest.

A hypothesis scores cos(t) x + sin(t) y. In the half of the circle around w the winner is that of the line x + tan(t) y,
in the other half that of the line -x - tan(t) y.
"""

from __future__ import annotations

from math import acos, atan, atan2, cos, hypot, pi, sin
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.lines.envelope import find_events
from lpmert.lines.line_search_kernels import fill_levels, join_equals, sort_events
from lpmert.numeric.kernels import internal, kernel


class Circle(NamedTuple):
    """Arrays that the circles on the same lists share.

    outer [M]: on which halves a hypothesis may win. rows [M + 1], offsets [S + 1], intercepts, slopes [M]: those that
    may win on the half at hand, list by list; rows are written before it is clear that they may. begins,
    ends, levels [2 M + 4]: the pieces of a circle, in radians, and what they cost.
    """

    outer: NDArray[np.uint8]
    rows: IntArray
    offsets: IntArray
    intercepts: FloatArray
    slopes: FloatArray
    begins: FloatArray
    ends: FloatArray
    levels: FloatArray


def new_circle(offsets: IntArray) -> Circle:
    """Return the arrays for circles on lists offsets [S + 1]."""
    count = int(offsets[-1])
    pieces = 2 * count + 4
    return Circle(
        outer=np.empty(count, dtype=np.uint8),
        rows=np.empty(count + 1, dtype=np.int64),
        offsets=np.zeros(len(offsets), dtype=np.int64),
        intercepts=np.empty(count),
        slopes=np.empty(count),
        begins=np.empty(pieces),
        ends=np.empty(pieces),
        levels=np.empty(pieces),
    )


@internal
def _first(values, wanted):
    """Return the first place where values [n] are as wanted, which some are."""
    count = len(values)
    after = 0
    for i in range(count):  # to the end, without a branch: many at a time
        after = max(after, count - i if values[i] == wanted else 0)
    return count - after


@internal
def _mark_outer(x, y, outer):
    """Mark in outer [n] the points of a list that may win on the half of the circle around x by 1, on the other by 2.

    The extreme points of a list make a quadrilateral. A point strictly inside both of its edges on one side is no
    vertex of the hull on that side.
    """
    low_x = high_x = x[0]
    low_y = high_y = y[0]
    for i in range(1, len(x)):
        low_x, high_x = min(low_x, x[i]), max(high_x, x[i])
        low_y, high_y = min(low_y, y[i]), max(high_y, y[i])
    left, right = _first(x, low_x), _first(x, high_x)
    bottom, top = _first(y, low_y), _first(y, high_y)
    left_y, right_y, bottom_x, top_x = y[left], y[right], x[bottom], x[top]
    ax, ay = bottom_x - low_x, low_y - left_y
    bx, by = high_x - bottom_x, right_y - low_y
    cx, cy = top_x - high_x, high_y - right_y
    dx, dy = low_x - top_x, left_y - high_y
    for i in range(len(x)):
        right_of = (bx * (y[i] - low_y) - by * (x[i] - bottom_x) <= 0.0) | (
            cx * (y[i] - right_y) - cy * (x[i] - high_x) <= 0.0
        )
        left_of = (ax * (y[i] - left_y) - ay * (x[i] - low_x) <= 0.0) | (
            dx * (y[i] - high_y) - dy * (x[i] - top_x) <= 0.0
        )
        outer[i] = np.uint8(right_of) | (np.uint8(left_of) << np.uint8(1))


@internal
def _half(offsets, loss, work, buffers, circle, side, sign):
    """Return thresholds and levels of the line sign * (work.intercepts + t work.slopes), from rows marked by side."""
    kept = 0
    for s in range(len(offsets) - 1):
        begin, end = offsets[s], offsets[s + 1]
        outer = circle.outer[begin:end]
        for i in range(len(outer)):
            circle.rows[kept] = begin + i
            kept += (outer[i] & side) != 0
        circle.offsets[s + 1] = kept
    rows, x, y = circle.rows[:kept], circle.intercepts[:kept], circle.slopes[:kept]
    for k in range(len(rows)):
        x[k] = sign * work.intercepts[rows[k]]
        y[k] = sign * work.slopes[rows[k]]
    count = find_events(x, y, circle.offsets, work)
    for s in range(len(circle.offsets) - 1):
        work.start[s] = circle.rows[work.start[s]]
    for e in range(count):
        work.leaving[e] = circle.rows[work.leaving[e]]
        work.entering[e] = circle.rows[work.entering[e]]
    sort_events(work.thresholds, count, buffers)
    fill_levels(loss, work, buffers.order, count, buffers)
    left = join_equals(buffers.sorted[:count], buffers.levels)
    return buffers.sorted[:left], buffers.levels[: left + 1]


@internal
def _add(circle, pieces, begin, end, level):
    """Add a piece unless it is empty; return the number of pieces."""
    if not end > begin:
        return pieces
    circle.begins[pieces] = begin
    circle.ends[pieces] = end
    circle.levels[pieces] = level
    return pieces + 1


@kernel
def search_circle(offsets, loss, low, high, work, buffers, circle):
    """Write the pieces of the circle of work.intercepts and work.slopes within low..high; return their number.

    -pi <= low <= 0 <= high <= pi. Neighbouring pieces may have the same level; their order is not that of the angles.
    """
    for s in range(len(offsets) - 1):
        begin, end = offsets[s], offsets[s + 1]
        _mark_outer(work.intercepts[begin:end], work.slopes[begin:end], circle.outer[begin:end])
    pieces = 0
    thresholds, levels = _half(offsets, loss, work, buffers, circle, np.uint8(1), np.float64(1.0))
    begin = -pi / 2
    for e in range(len(levels)):
        end = pi / 2 if e == len(thresholds) else atan(thresholds[e])
        pieces = _add(circle, pieces, max(begin, low), min(end, high), levels[e])
        begin = end
    if low >= -pi / 2 and high <= pi / 2:
        return pieces
    thresholds, levels = _half(offsets, loss, work, buffers, circle, np.uint8(2), np.float64(-1.0))
    begin = pi / 2
    for e in range(len(levels)):
        end = 3 * pi / 2 if e == len(thresholds) else pi + atan(thresholds[e])
        pieces = _add(circle, pieces, begin, min(end, high), levels[e])
        pieces = _add(circle, pieces, max(begin - 2 * pi, low), end - 2 * pi, levels[e])
        begin = end
    return pieces


@kernel
def arc_within(limits, unit, cosine, w, v, w_given, v_given):
    """Return the ends, around t = 0, of the part of the circle on which limits [k, d] and the cap hold.

    w, v [d] at right angles span the circle; w_given, v_given [d] are the same in the coordinates of `unit` [d], the
    middle of the cap, which is empty where there is no cap. Where w itself breaks a limit, 0 is an end.
    """
    low, high = -pi, pi
    for k in range(len(limits)):
        along = across = 0.0
        for j in range(len(w)):
            along += limits[k, j] * w[j]
            across += limits[k, j] * v[j]
        if along == 0.0 and across == 0.0:
            continue
        middle = atan2(across, along)
        low = max(low, middle - pi / 2)
        high = min(high, middle + pi / 2)
    if len(unit):
        # (unit . x)^2 - cosine^2 |x|^2 = mean + even cos 2t + odd sin 2t, positive around its top
        a = b = aa = bb = ab = 0.0
        for j in range(len(unit)):
            a += unit[j] * w_given[j]
            b += unit[j] * v_given[j]
            aa += w_given[j] * w_given[j]
            bb += v_given[j] * v_given[j]
            ab += w_given[j] * v_given[j]
        square = cosine * cosine
        at_w, at_v, odd = a * a - square * aa, b * b - square * bb, a * b - square * ab
        mean, even = (at_w + at_v) / 2, (at_w - at_v) / 2
        reach = hypot(even, odd)
        top = atan2(odd, even) / 2
        width = acos(min(1.0, max(-1.0, -mean / reach))) / 2 if reach > 0.0 else 0.0
        low = max(low, top - width)
        high = min(high, top + width)
    return min(low, 0.0), max(high, 0.0)


@kernel
def point_on(w, v, t, point):
    """Write cos(t) w + sin(t) v into point [d]."""
    c, s = cos(t), sin(t)
    for k in range(len(point)):
        point[k] = c * w[k] + s * v[k]
