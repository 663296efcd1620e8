"""Pruning of a cone for a ratio metric: drop what is beaten everywhere, settle lists, and bound the rest."""

from __future__ import annotations

import numpy as np

from lpmert.exact.prune import drop_beaten
from lpmert.exact.ratio_lists import FORBIDDEN, lay_bound, price
from lpmert.kernels import EPSILON, INFINITE_COST, internal


@internal
def _settled(classes, ids, start, end):
    """Say whether the rows start .. end all have the same statistics and may be chosen."""
    own = classes[ids[start]]
    i = start + 1
    while i < end and classes[ids[i]] == own:
        i += 1
    return i == end


@internal
def _widen(statistics, ids, start, end, low, high, least, most):
    """Add the range of each statistic among rows start .. end to the box; least, most [K] are work space."""
    row = ids[start]
    for k in range(len(low)):
        least[k] = most[k] = statistics[row, k]
    for i in range(start + 1, end):
        row = ids[i]
        for k in range(len(low)):
            value = statistics[row, k]
            least[k] = min(least[k], value)
            most[k] = max(most[k], value)
    for k in range(len(low)):
        low[k] += least[k]
        high[k] += most[k]


@internal
def _sort(scores, ids, costs, start, end):
    """Sort rows start .. end by cost; they are few, and nearly in order."""
    n_features = scores.shape[1]
    for i in range(start + 1, end):
        cost = costs[i]
        if costs[i - 1] <= cost:
            continue
        j = i
        while j > start and costs[j - 1] > cost:
            costs[j], costs[j - 1] = costs[j - 1], costs[j]
            ids[j], ids[j - 1] = ids[j - 1], ids[j]
            for d in range(n_features):
                scores[j, d], scores[j - 1, d] = scores[j - 1, d], scores[j, d]
            j -= 1


@internal
def _reprice(child, child_total, ratio, bound, below, limit):
    """Give the rows the prices of a minorant for the child's own box and sort them; return what the least add up to.

    The minorant is tight at the centre's sums, which stand in bound.at. Prices stay as they are where they bound no
    better than `below`.
    """
    n_columns = len(child_total)
    n_lists = child.numbers[1]
    ids, ends, costs = child.ids, child.ends, child.costs
    low, high = bound.low, bound.high
    for k in range(n_columns):
        low[k] = high[k] = child_total[k]
    for a in range(n_lists):
        if ratio.classes[ids[ends[a + 1] - 1]] != FORBIDDEN and ratio.classes[ids[ends[a]]] != FORBIDDEN:
            _widen(ratio.statistics, ids, ends[a], ends[a + 1], low, high, bound.least, bound.most)
    least, useful = lay_bound(ratio, bound, child_total, n_lists)
    if least == INFINITE_COST or not useful:
        return max(below, least)
    prices = bound.prices
    for a in range(n_lists):
        cheapest = INFINITE_COST
        for i in range(ends[a], ends[a + 1]):
            prices[i] = price(ratio, bound.slopes, ids[i])
            if ratio.classes[ids[i]] != FORBIDDEN:
                cheapest = min(cheapest, prices[i])
        least += cheapest
    if least <= below:
        return below
    for a in range(n_lists):
        for i in range(ends[a], ends[a + 1]):
            costs[i] = prices[i]
            if ratio.classes[ids[i]] == FORBIDDEN:
                costs[i] = max(np.int64(0), limit - least) + 1
        _sort(child.scores, ids, costs, ends[a], ends[a + 1])
    return least


@internal
def prune(stack, totals, t, middle, replaced, child, child_total, ratio, bound, limit, largest, reprice):
    """Fill the child of cone t whose ray `replaced` moves to the midpoint; return (bound, its centre is clear).

    Rows are in order of cost, a height in units under some minorant: the parent's, or with `reprice` the child's own
    where that bounds better. The centre's sums are left in bound.at. Stops as soon as the bound exceeds `limit`. With
    replaced = -1 the child is the cone itself. largest bounds the magnitude of all scores.
    """
    n_features = len(child.errors)
    n_columns = len(child_total)
    first, first_end = stack.first_row[t], stack.first_end[t]
    parent_scores, parent_ids, parent_costs, parent_ends = stack.scores, stack.ids, stack.costs, stack.ends
    scores, ids, costs = child.scores, child.ids, child.costs
    statistics, classes = ratio.statistics, ratio.classes
    at = bound.at
    tolerance = 2.0 * child.errors
    centre_tolerance = 4.0 * n_features * n_features * EPSILON * largest
    for d in range(n_features):
        centre_tolerance += tolerance[d]
    for k in range(n_columns):
        child_total[k] = totals[t, k]
        at[k] = 0.0
    clear = True
    below = stack.least[t]
    kept = 0
    n_lists = 0
    child.ends[0] = 0
    for a in range(stack.n_lists[t]):
        begin, end = first + parent_ends[first_end + a], first + parent_ends[first_end + a + 1]
        start = kept
        top, second = -np.inf, -np.inf
        best = start
        for i in range(begin, end):
            for d in range(n_features):
                scores[kept, d] = parent_scores[i, d]
            if replaced >= 0:
                scores[kept, replaced] = middle[i - first]
            total = 0.0
            for d in range(n_features):
                total += scores[kept, d]
            ids[kept] = parent_ids[i]
            costs[kept] = parent_costs[i]
            second = max(second, min(top, total))
            best = kept if total > top else best
            top = max(top, total)
            kept += 1
        centre = ids[best]
        clear = clear and top - second > centre_tolerance and classes[centre] != FORBIDDEN
        kept = drop_beaten(scores, ids, costs, start, kept, best, tolerance)
        below += costs[start] - parent_costs[begin]
        if below > limit or (classes[ids[start]] == FORBIDDEN and kept == start + 1):
            return INFINITE_COST, False
        if _settled(classes, ids, start, kept):
            for k in range(n_columns):
                child_total[k] += statistics[centre, k]
            kept = start
        else:
            n_lists += 1
            child.ends[n_lists] = kept
            for k in range(n_columns):
                at[k] += statistics[centre, k]
    for k in range(n_columns):
        at[k] += child_total[k]
    child.numbers[0], child.numbers[1], child.numbers[2] = kept, n_lists, 0
    if reprice:
        below = _reprice(child, child_total, ratio, bound, below, limit)
    child.numbers[3] = below
    return below, clear
