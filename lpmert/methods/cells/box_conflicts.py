"""Conflicts of lists in a box: where one of two lists does not have its cheapest hypothesis, whatever the weights.

As in conflicts.py, each list pays once: what it has been charged is taken off its step to the next cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.cells.box_stack import TINY
from lpmert.methods.cells.stack import DONE_WORK
from lpmert.numeric.kernels import EPSILON, fill, internal, kernel

_BLOCK = 128
"""Items compared with another one at once."""

_BUCKETS = 128
"""Items are put in order of height as far as so many buckets tell."""

_SHARE = 0.35
"""Besides both in equal shares, so much of one item and the rest of the other are tried, and the other way round."""

_NEARLY = -2e-6
"""Margins in single precision that double precision may find to be none."""

_HOPE = 0.6
"""Share of what is needed that the estimate has to promise, at least: it is too low rather than too high."""

_ALIKE = 1.0 / 16.0
"""Difference of heights up to which levels of a list are one item."""

_GONE = np.float32(-8.0)
"""Height of an item that has nothing left: below any that another one can make up for."""


class BoxConflicts(NamedTuple):
    """Work space for K items, each a list and a step of its costs: what it pays where its gain is not negative.

    levels: items of a list, at most; scores, later [longest list]: at the centre, and the best from each row on.
    gains [D, K]; sizes [K]: by how much they vary in the box at most; heights [K] at its centre, as shares of that;
    steps [K], what is left of these; order [K] by height; starts: of the buckets. scaled [D + 1, K]: what they vary
    by along each axis that has a radius, then zeros, in this order, and level [K] the heights; margins [3, K]. charged
    [P, 2]: below a row that counts them, the pairs of items that were charged, as far as there is room.
    """

    gains: FloatArray
    sizes: FloatArray
    heights: FloatArray
    steps: IntArray
    order: IntArray
    left: IntArray
    starts: IntArray
    scaled: NDArray[np.float32]
    level: NDArray[np.float32]
    margins: NDArray[np.float32]
    charged: IntArray
    levels: int
    scores: FloatArray
    later: IntArray


def new_box_conflicts(
    n_lists: int, n_features: int, longest: int = 0, levels: int = 1, n_pairs: int = 0
) -> BoxConflicts:
    """Return work space for so many open lists of up to so many hypotheses, and for so many pairs to be named."""
    n_items = levels * n_lists + 1

    def whole(size: int) -> IntArray:
        return np.empty(size, dtype=np.int64)

    def single(*shape: int) -> NDArray[np.float32]:
        return np.empty(shape, dtype=np.float32)

    gains = np.empty((n_features, n_items)), np.empty(n_items), np.empty(n_items)
    order = whole(n_items), whole(n_items), whole(n_items), whole(_BUCKETS + 1)
    room = single(n_features + 1, n_items), single(n_items), single(3, _BLOCK)
    charged = np.zeros((n_pairs + 1, 2), dtype=np.int64)
    return BoxConflicts(*gains, *order, *room, charged, levels, np.empty(longest), whole(longest))


@kernel
def one_pays_in_box(first, second, share, other, centre, radius, rounding, off):
    """Whether share times one gain [D] and other times another are surely at least 0 together in the whole box.

    share, other: in 0 .. 1, and one of them 1; rounding: 0.0 if sums of gains are exact, else 1.0; off: of `Precision`.
    """
    lead = reach = mass = 0.0
    for d in range(len(centre)):
        x, y = share * first[d], other * second[d]
        both = x + y
        lead += both * centre[d]
        reach += abs(both) * radius[d]
        mass += abs(x) + abs(y)
    error = (len(centre) + 6) * EPSILON * mass + TINY
    if share == 1.0 and other == 1.0:
        error *= rounding
    error += (share + other) * off
    return lead - (reach + error) >= 0.0


@internal
def add_item(room, k, step, centre, radius):
    """Finish item k, whose gains are written; return the number of items, with this one if it has any use."""
    lead = reach = 0.0
    for d in range(len(centre)):
        lead += room.gains[d, k] * centre[d]
        reach += abs(room.gains[d, k]) * radius[d]
    if not (0.0 < reach < np.inf) or not abs(lead) <= 2.0 * reach:
        return k
    room.sizes[k], room.heights[k], room.steps[k] = reach, lead / reach, step
    return k + 1


@internal
def _allowance(kept, low, high, ahead, centre, radius, rounding, off):
    """Return by how much rows low .. high may be ahead of one of them in a box, at most; never less than 0.0."""
    most = 0.0
    for i in range(low, high):
        lead = reach = mass = 0.0
        for d in range(len(centre)):
            gain = kept.features[d, i] - kept.features[d, ahead]
            lead += gain * centre[d]
            reach += abs(gain) * radius[d]
            mass += abs(gain)
        if i != ahead:
            most = max(most, lead + (reach + (rounding * ((len(centre) + 6) * EPSILON * mass + TINY) + off)))
    return most


@internal
def _rank(kept, low, high, room, centre):
    """Score rows low .. high at the centre, and find for each of them the best from there on, both counted from low."""
    best = high - low - 1
    for i in range(high - low - 1, -1, -1):
        score = 0.0
        for d in range(len(centre)):
            score += kept.features[d, low + i] * centre[d]
        room.scores[i] = score
        if score > room.scores[best]:
            best = i
        room.later[i] = best


@internal
def _write_gains(kept, best, cheap, allowance, room, k, face, centre, rounding):
    """Fill the gains of item k: how far a row is above another one, and above others that an allowance accounts for.

    allowance: negative if there are no others.
    """
    for d in range(len(centre)):
        room.gains[d, k] = kept.features[d, best] - kept.features[d, cheap]
    if allowance >= 0.0:
        # All others are at most the one and the allowance, and the face's weight is 1 or -1 all over the box.
        gain = room.gains[face, k]
        room.gains[face, k] = gain - centre[face] * (allowance + rounding * EPSILON * (abs(gain) + allowance))


@internal
def _move_item(room, k, to):
    """Let an item take the place of another one, and pay that one's step too."""
    for d in range(len(room.gains)):
        room.gains[d, to] = room.gains[d, k]
    room.sizes[to], room.heights[to] = room.sizes[k], room.heights[k]
    room.steps[to] += room.steps[k]


@internal
def _add_list(kept, low, high, room, k, face, centre, radius, rounding, off):
    """Add an item for each level of costs of a list of more hypotheses; return the number of items.

    It is paid where the best of those that cost more is above all that cost no more; levels of nearly the same height
    are one item, which is paid where the last of them is.
    """
    _rank(kept, low, high, room, centre)
    first, n, width = k, high - low, np.int64(0)
    cheap = end = np.int64(0)
    allowance, top = -1.0, 0.0
    while k + width - first < room.levels:
        begin, ahead, cost = end, cheap, kept.costs[low + end]
        while end < n and kept.costs[low + end] == cost:
            if room.scores[end] > room.scores[cheap]:
                cheap = end
            end += 1
        if end == n:
            break  # as hypotheses of different statistics may cost the same, this may be the first level
        if end > 1:
            begin = begin if cheap == ahead else np.int64(0)
            more = _allowance(kept, low + begin, low + end, low + cheap, centre, radius, rounding, off)
            allowance = max(allowance, more) if cheap == ahead else more
        slot = k + width
        _write_gains(kept, low + room.later[end], low + cheap, allowance, room, slot, face, centre, rounding)
        if add_item(room, slot, kept.costs[low + end] - cost, centre, radius) == slot or room.heights[slot] < -1.0:
            break  # and the next ones are lower still
        height = room.heights[slot]
        if width > 0 and top - height < _ALIKE and (height >= 0.0) == (top >= 0.0):
            _move_item(room, slot, k)
        else:
            k += width
            width, top = np.int64(1), height
    return k + width


@internal
def _collect(stack, t, room, rounding):
    """Fill the items of a box's lists; return how many there are."""
    kept, centre, radius = stack.kept, stack.centres[t], stack.radii[t]
    n_features = len(centre)
    face = np.int64(0)
    for d in range(n_features):
        if radius[d] == 0.0:
            face = np.int64(d)
    k = np.int64(0)
    for p in range(stack.first_pair[t], stack.first_pair[t] + stack.n_pairs[t]):
        if kept.steps[p] == 0:
            continue  # as two hypotheses of different statistics may cost the same
        for d in range(n_features):
            room.gains[d, k] = kept.gains[d, p]
        k = add_item(room, k, kept.steps[p], centre, radius)
    first, first_end = stack.first_row[t], stack.first_end[t]
    for a in range(first_end, first_end + stack.n_lists[t]):
        low, high = first + kept.ends[a], first + kept.ends[a + 1]
        k = _add_list(kept, low, high, room, k, face, centre, radius, rounding, stack.precision.off)
    return k


@internal
def _bucket(height):
    return min(np.int64(_BUCKETS - 1), max(np.int64(0), np.int64((height + 1.0) * (0.5 * _BUCKETS))))


@internal
def _sort(room, n, radius):
    """Put n items in order of height, with all of their steps left; return along how many axes they vary."""
    starts = room.starts
    for q in range(len(starts)):
        starts[q] = 0
    for k in range(n):
        starts[_bucket(room.heights[k]) + 1] += 1
    for q in range(1, len(starts)):
        starts[q] += starts[q - 1]
    for k in range(n):
        q = _bucket(room.heights[k])
        room.order[starts[q]] = k
        starts[q] += 1
    for q in range(len(starts) - 1, 0, -1):
        starts[q] = starts[q - 1]
    starts[0] = 0
    order = room.order[:n]
    for x in range(len(order)):
        room.left[x] = room.steps[order[x]]
        room.level[x] = room.heights[order[x]]
    n_axes = 0
    for d in range(len(radius)):
        if radius[d] > 0.0:
            gains, scaled, r = room.gains[d], room.scaled[n_axes], radius[d]
            for x in range(len(order)):
                scaled[x] = gains[order[x]] * r / room.sizes[order[x]]
            n_axes += 1
    fill(room.scaled[n_axes, :n], np.float32(0.0))
    return n_axes


@internal
def _compare(room, n_axes, i, begin, end):
    """Fill the margins of item i with items begin .. end, in three shares; return whether any is not negative."""
    level = room.level[begin:end]
    even, more, less = room.margins[0, : end - begin], room.margins[1, : end - begin], room.margins[2, : end - begin]
    odds = np.float32(_SHARE / (1.0 - _SHARE))
    own = room.level[i]
    for j in range(len(level)):
        even[j] = own + level[j]
        more[j] = own + odds * level[j]
        less[j] = odds * own + level[j]
    for d in range(0, n_axes, 2):  # two axes at once: the margins are loaded and stored half as often
        first, second = room.scaled[d, begin:end], room.scaled[d + 1, begin:end]
        x, z = room.scaled[d, i], room.scaled[d + 1, i]
        odd_x, odd_z = odds * x, odds * z
        for j in range(len(level)):
            even[j] = even[j] - abs(x + first[j]) - abs(z + second[j])
            more[j] = more[j] - abs(x + odds * first[j]) - abs(z + odds * second[j])
            less[j] = less[j] - abs(odd_x + first[j]) - abs(odd_z + second[j])
    found = np.int32(0)
    for j in range(len(level)):
        found += np.int32(max(even[j], max(more[j], less[j])) >= np.float32(_NEARLY))
    return found


@internal
def _pays(room, i, j, block, centre, radius, rounding, off):
    """Whether of items i and j (in order) one pays everywhere, in the share that seems best; block: j's place there."""
    even, more, less = room.margins[0, block], room.margins[1, block], room.margins[2, block]
    share = other = 1.0
    if more > even and more >= less:
        other = _SHARE / (1.0 - _SHARE)
    elif less > even:
        share = _SHARE / (1.0 - _SHARE)
    first, second = room.order[i], room.order[j]
    share, other = share * room.sizes[second], other * room.sizes[first]
    larger = max(share, other)
    return one_pays_in_box(
        room.gains[:, first], room.gains[:, second], share / larger, other / larger, centre, radius, rounding, off
    )


@internal
def _name(room, i, j):
    n = room.charged[0, 0] + 1
    if n < len(room.charged):
        room.charged[n, 0], room.charged[n, 1] = room.order[i], room.order[j]
        room.charged[0, 0] = n


@internal
def charge_in_box(room, n, centre, radius, rounding, off, needed):
    """Charge conflicts between n items until the charges exceed what is needed; return (their sum, pairs compared)."""
    possible = np.int64(0)  # every charge is to an item that pays at the centre
    for k in range(n):
        if room.heights[k] >= 0.0:
            possible += room.steps[k]
    total = np.int64(0)
    compared = np.int64(0)
    if possible <= needed:
        return total, compared
    n_axes = _sort(room, n, radius)
    level, left = room.level, room.left
    for i in range(n - 1, 0, -1):
        if total > needed or total + possible <= needed:
            break
        if level[i] < 0.0:
            continue
        possible -= left[i]
        for begin in range(room.starts[_bucket(-level[i])], i, _BLOCK):
            if left[i] == 0 or total > needed:
                break
            end = min(i, begin + _BLOCK)
            compared += end - begin
            if _compare(room, n_axes, i, begin, end) == 0:
                continue
            for j in range(begin, end):
                x = j - begin
                margin = max(room.margins[0, x], max(room.margins[1, x], room.margins[2, x]))
                paying = margin >= np.float32(_NEARLY) and left[j] > 0
                if paying and _pays(room, i, j, x, centre, radius, rounding, off):
                    amount = min(left[i], left[j])
                    total += amount
                    _name(room, i, j)
                    left[i] -= amount
                    left[j] -= amount
                    if level[j] >= 0.0:
                        possible -= amount
                    if left[j] == 0:
                        level[j] = _GONE
                    if left[i] == 0 or total > needed:
                        break
    return total, compared


@internal
def _swap_items(room, x, y):
    """Exchange two items."""
    for d in range(len(room.gains)):
        room.gains[d, x], room.gains[d, y] = room.gains[d, y], room.gains[d, x]
    room.sizes[x], room.sizes[y] = room.sizes[y], room.sizes[x]
    room.heights[x], room.heights[y] = room.heights[y], room.heights[x]
    room.steps[x], room.steps[y] = room.steps[y], room.steps[x]


@kernel(nogil=True)
def box_conflicts(room, stack, t, needed, rounding, sample):
    """Return by how much conflicts raise the bound of box t; they need not do more than exceed what is needed.

    sample: items of which charges are estimated before many are compared with each other, about; 0 for none.
    """
    n = _collect(stack, t, room, rounding)
    stack.numbers[DONE_WORK] += stack.n_rows[t] + stack.n_pairs[t]
    centre, radius, off = stack.centres[t], stack.radii[t], stack.precision.off
    stride = n // sample if sample > 0 else np.int64(0)
    if stride > 1:
        # Of many lists, a sample tells whether it is worth while: pairs grow with the square of their number.
        for k in range(n // stride):
            _swap_items(room, k, k * stride)
        enough = np.int64(_HOPE * needed / stride)
        total, compared = charge_in_box(room, n // stride, centre, radius, rounding, off, enough)
        stack.numbers[DONE_WORK] += compared
        if total <= enough:
            return total
    total, compared = charge_in_box(room, n, centre, radius, rounding, off, needed)
    stack.numbers[DONE_WORK] += compared
    return total
