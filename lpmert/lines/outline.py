"""The outline of each list on a great circle: its hypotheses that win somewhere on the circle, and where they do.

With weights cos(t) w + sin(t) v a hypothesis scores cos(t) x + sin(t) y, and the winners are the corners of the convex
hull of the points (x, y). In the half of the circle around w, where cos(t) > 0, these are the corners on the right, the
upper envelope of the lines x + tan(t) y; in the other half those on the left, the envelope of -x - tan(t) y.

Source: Akl and Toussaint, A fast convex hull algorithm, Information Processing Letters 1978 (what lies within the
quadrilateral of the extreme points is no corner).
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.lines.envelope import add_events
from lpmert.numeric.kernels import internal

_UNTIED = 4
"""How many coordinates of the points of a list are an extreme one where no two of them are equal."""

_MAGNITUDE = np.int64((1 << 63) - 1)
_LEAST = np.int64(-1 << 63)
_SIGN = np.int64(63)


class Half(NamedTuple):
    """The events of all lists on half of a circle, by tan(t), each list's in order.

    start [S]: each list's choice where the half begins; thresholds, leaving, entering [M]: one entry an event.
    """

    start: IntArray
    thresholds: FloatArray
    leaving: IntArray
    entering: IntArray


class Outline(NamedTuple):
    """Arrays for the outlines of lists of N hypotheses at most.

    right, left: the halves of the circle. bits [4]: the extreme coordinates. sides [N]: beyond which sides of the
    polygon of the extreme points each point lies; outer [N + 1]: the points beyond one; beyond [4, N + 1]: those beyond
    each; opposite [2, N]: -x and -y where needed; spare [N], stack [N + 1, 3]: for envelopes.
    """

    right: Half
    left: Half
    bits: IntArray
    sides: NDArray[np.uint8]
    outer: IntArray
    beyond: IntArray
    opposite: FloatArray
    spare: IntArray
    stack: IntArray


def new_outline(offsets: IntArray) -> Outline:
    """Return the arrays for lists offsets [S + 1]."""
    largest = int(np.diff(offsets).max(initial=1))
    return Outline(
        right=_new_half(offsets),
        left=_new_half(offsets),
        bits=np.empty(4, dtype=np.int64),
        sides=np.empty(largest, dtype=np.uint8),
        outer=np.empty(largest + 1, dtype=np.int64),
        beyond=np.empty((4, largest + 1), dtype=np.int64),
        opposite=np.empty((2, largest)),
        spare=np.empty(largest + 1, dtype=np.int64),
        stack=np.empty((largest + 1, 3), dtype=np.int64),
    )


def _new_half(offsets: IntArray) -> Half:
    count = int(offsets[-1])
    return Half(
        start=np.empty(len(offsets) - 1, dtype=np.int64),
        thresholds=np.empty(count),
        leaving=np.empty(count, dtype=np.int64),
        entering=np.empty(count, dtype=np.int64),
    )


@internal
def _extremes(x, y, bits, values):
    """Return a point each with the least and the greatest x and the least and the greatest y, and how many there are.

    bits, values [4] share their memory, which is written: the coordinates.
    """
    x_bits, y_bits = x.view(np.int64), y.view(np.int64)
    low_x = low_y = _MAGNITUDE
    high_x = high_y = _LEAST
    for i in range(len(x)):  # integers in the order of the numbers: their extremes are found many at a time
        across = x_bits[i] ^ ((x_bits[i] >> _SIGN) & _MAGNITUDE)
        up = y_bits[i] ^ ((y_bits[i] >> _SIGN) & _MAGNITUDE)
        low_x, high_x = min(low_x, across), max(high_x, across)
        low_y, high_y = min(low_y, up), max(high_y, up)
    bits[0], bits[1], bits[2], bits[3] = low_x, high_x, low_y, high_y
    for k in range(len(bits)):
        bits[k] ^= (bits[k] >> _SIGN) & _MAGNITUDE
    least_x, most_x, least_y, most_y = values[0], values[1], values[2], values[3]
    left = right = bottom = top = 0
    extreme = np.int64(0)
    for i in range(len(x)):  # to the end and without a branch, for the same reason
        on_left, on_right = x[i] == least_x, x[i] == most_x
        on_bottom, on_top = y[i] == least_y, y[i] == most_y
        left = max(left, i if on_left else 0)
        right = max(right, i if on_right else 0)
        bottom = max(bottom, i if on_bottom else 0)
        top = max(top, i if on_top else 0)
        extreme += np.int64(on_left) + np.int64(on_right) + np.int64(on_bottom) + np.int64(on_top)
    return left, right, bottom, top, extreme


@internal
def _mark_sides(x, y, left, right, bottom_left, bottom_right, top_left, top_right, sides):
    """Write into sides [n] which of the four sides of the polygon of the extreme points each point is beyond."""
    low_x, left_y = x[left], y[left]
    high_x, right_y = x[right], y[right]
    low_y, low_left, low_right = y[bottom_left], x[bottom_left], x[bottom_right]
    high_y, high_left, high_right = y[top_left], x[top_left], x[top_right]
    for i in range(len(x)):
        across, up = x[i], y[i]
        right_below = (up < right_y) & ((across - low_right) * (right_y - low_y) > (up - low_y) * (high_x - low_right))
        right_above = (up > right_y) & ((across - high_x) * (high_y - right_y) > (up - right_y) * (high_right - high_x))
        left_above = (up > left_y) & ((high_left - across) * (high_y - left_y) > (high_y - up) * (high_left - low_x))
        left_below = (up < left_y) & ((low_x - across) * (left_y - low_y) > (left_y - up) * (low_x - low_left))
        sides[i] = (
            np.uint8(right_below)
            | (np.uint8(right_above) << np.uint8(1))
            | (np.uint8(left_above) << np.uint8(2))
            | (np.uint8(left_below) << np.uint8(3))
        )


@internal
def _farthest(first, second, first_sign, second_sign):
    """Return the point with the greatest first coordinate, of equals with the greatest second, times their signs."""
    best = np.int64(0)
    for i in range(1, len(first)):
        ahead, aside = first_sign * (first[i] - first[best]), second_sign * (second[i] - second[best])
        if ahead > 0.0 or (ahead == 0.0 and aside > 0.0):
            best = np.int64(i)
    return best


@internal
def find_outlines(intercepts, slopes, offsets, both, outline):
    """Write the outlines of lists, points (intercepts, slopes) [M], into outline.right and, if wanted, outline.left.

    Returns how many events either has. Of points that are equal the first stands.
    """
    plus, minus = np.float64(1.0), np.float64(-1.0)
    sides, outer, beyond, opposite = outline.sides, outline.outer, outline.beyond, outline.opposite
    below_right, above_right, above_left, below_left = beyond[0], beyond[1], beyond[2], beyond[3]
    minus_x, minus_y = opposite[0], opposite[1]
    values = outline.bits.view(np.float64)
    on_right = on_left = np.int64(0)
    for s in range(len(offsets) - 1):
        begin, end = offsets[s], offsets[s + 1]
        x, y = intercepts[begin:end], slopes[begin:end]
        marks = sides[: end - begin]
        left, right, bottom, top, extreme = _extremes(x, y, outline.bits, values)
        bottom_left = bottom_right = bottom
        top_left = top_right = top
        if extreme > _UNTIED:
            left, right = _farthest(x, y, minus, minus), _farthest(x, y, plus, plus)
            bottom_left, bottom_right = _farthest(y, x, minus, minus), _farthest(y, x, minus, plus)
            top_left, top_right = _farthest(y, x, plus, minus), _farthest(y, x, plus, plus)
        _mark_sides(x, y, left, right, bottom_left, bottom_right, top_left, top_right, marks)
        kept = 0
        for i in range(len(marks)):
            outer[kept] = i
            kept += marks[i] != 0
        a = b = c = d = np.int64(0)
        for k in range(kept):
            i = outer[k]
            mark = np.int64(marks[i])
            below_right[a] = above_right[b] = above_left[c] = below_left[d] = i
            a += mark & 1
            b += (mark >> 1) & 1
            c += (mark >> 2) & 1
            d += mark >> 3
            minus_x[i], minus_y[i] = -x[i], -y[i]
        half, count, threshold = outline.right, on_right, np.float64(-inf)
        half.start[s] = begin + bottom_right
        if y[bottom_right] < y[right]:
            count, threshold = add_events(
                x, y, bottom_right, right, below_right, a, begin, count, threshold, outline.spare, outline.stack, half
            )
        if y[right] < y[top_right]:
            count, threshold = add_events(
                x, y, right, top_right, above_right, b, begin, count, threshold, outline.spare, outline.stack, half
            )
        on_right = count
        if not both:
            continue
        for i in (top_left, left, bottom_left):
            minus_x[i], minus_y[i] = -x[i], -y[i]
        half, count, threshold = outline.left, on_left, np.float64(-inf)
        half.start[s] = begin + top_left
        if y[left] < y[top_left]:
            count, threshold = add_events(
                minus_x,
                minus_y,
                top_left,
                left,
                above_left,
                c,
                begin,
                count,
                threshold,
                outline.spare,
                outline.stack,
                half,
            )
        if y[bottom_left] < y[left]:
            count, threshold = add_events(
                minus_x,
                minus_y,
                left,
                bottom_left,
                below_left,
                d,
                begin,
                count,
                threshold,
                outline.spare,
                outline.stack,
                half,
            )
        on_left = count
    return on_right, on_left
