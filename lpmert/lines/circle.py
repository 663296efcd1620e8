"""The loss on a great circle cos(t) w + sin(t) v: its pieces, and the arc of it within a region."""

from __future__ import annotations

from math import acos, atan, atan2, cos, hypot, pi, sin
from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.lines.line_search_kernels import fill_levels, join_equals, sort_events
from lpmert.lines.outline import Outline, find_outlines, new_outline
from lpmert.numeric.kernels import internal, kernel


class Circle(NamedTuple):
    """Arrays that the circles on the same lists share.

    begins, ends, levels [2 M + 4]: the pieces of a circle, in radians, and what they cost.
    """

    outline: Outline
    begins: FloatArray
    ends: FloatArray
    levels: FloatArray


def new_circle(offsets: IntArray) -> Circle:
    """Return the arrays for circles on lists offsets [S + 1]."""
    pieces = 2 * int(offsets[-1]) + 4
    return Circle(outline=new_outline(offsets), begins=np.empty(pieces), ends=np.empty(pieces), levels=np.empty(pieces))


@internal
def _thresholds_and_levels(loss, half, count, buffers):
    """Return the thresholds of half a circle at which the level changes, in order, and the levels between them."""
    sort_events(half.thresholds, count, buffers)
    fill_levels(loss, half, buffers.order, count, buffers)
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
    both = low < -pi / 2 or high > pi / 2
    on_right, on_left = find_outlines(work.intercepts, work.slopes, offsets, both, circle.outline)
    pieces = np.int64(0)
    thresholds, levels = _thresholds_and_levels(loss, circle.outline.right, on_right, buffers)
    begin = -pi / 2
    for e in range(len(levels)):
        end = pi / 2 if e == len(thresholds) else atan(thresholds[e])
        pieces = _add(circle, pieces, max(begin, low), min(end, high), levels[e])
        begin = end
    if not both:
        return pieces
    thresholds, levels = _thresholds_and_levels(loss, circle.outline.left, on_left, buffers)
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
