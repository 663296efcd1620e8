"""Prices of the hypotheses of a part of the weight space under a minorant of the ratio metric that is laid for it."""

from __future__ import annotations

import numpy as np

from lpmert.methods.cells.box_stack import N_PAIRS
from lpmert.methods.cells.stack import N_LISTS
from lpmert.methods.choices.ratio_lists import FORBIDDEN, lay_bound, row_cost
from lpmert.numeric.kernels import INFINITE_COST, internal


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
def reprice(ratio, bound, child, below, limit):
    """Give the rows the prices of a minorant for the child's own box and sort them; return what the least add up to.

    The minorant is tight at the centre's sums, which stand in bound.at. Prices stay as they are where they bound no
    better than `below`.
    """
    n_columns = len(child.total)
    n_lists = child.numbers[N_LISTS]
    ids, ends, costs = child.ids, child.ends, child.costs
    low, high = bound.low, bound.high
    for k in range(n_columns):
        low[k] = high[k] = child.total[k]
    for a in range(n_lists):
        if ratio.classes[ids[ends[a + 1] - 1]] != FORBIDDEN and ratio.classes[ids[ends[a]]] != FORBIDDEN:
            _widen(ratio.statistics, ids, ends[a], ends[a + 1], low, high, bound.least, bound.most)
    least, useful = lay_bound(ratio, bound, child.total, n_lists)
    if least == INFINITE_COST or not useful:
        return max(below, least)
    costs_here = bound.costs
    for a in range(n_lists):
        cheapest = INFINITE_COST
        for i in range(ends[a], ends[a + 1]):
            costs_here[i] = row_cost(ratio, bound.slopes, ids[i])
            if ratio.classes[ids[i]] != FORBIDDEN:
                cheapest = min(cheapest, costs_here[i])
        least += cheapest
    if least <= below:
        return below
    for a in range(n_lists):
        for i in range(ends[a], ends[a + 1]):
            costs[i] = costs_here[i]
            if ratio.classes[ids[i]] == FORBIDDEN:
                costs[i] = max(np.int64(0), limit - least) + 1
        _sort(child.scores, ids, costs, ends[a], ends[a + 1])
    return least


@internal
def _swap(values, i, j):
    """Exchange two entries."""
    values[i], values[j] = values[j], values[i]


@internal
def _sort_box(kept, start, end):
    """Sort rows start .. end of a box by cost; they are few, and nearly in order."""
    costs = kept.costs
    for i in range(start + 1, end):
        j = i
        while j > start and costs[j - 1] > costs[j]:
            _swap(costs, j, j - 1)
            _swap(kept.ids, j, j - 1)
            _swap(kept.row_reaches, j, j - 1)
            for d in range(len(kept.features)):
                _swap(kept.features[d], j, j - 1)
            j -= 1


@internal
def _widen_by_pair(statistics, cheap, dear, low, high):
    """Add the range of each statistic of two rows to the box."""
    for k in range(len(low)):
        first, second = statistics[cheap, k], statistics[dear, k]
        low[k] += min(first, second)
        high[k] += max(first, second)


@internal
def _price_pairs(ratio, slopes, kept, n_pairs, costs):
    """Fill costs with those of n_pairs pairs, one after the other; return the sum of the lesser ones."""
    least = np.int64(0)
    for p in range(n_pairs):
        cheap, dear = row_cost(ratio, slopes, kept.cheap[p]), row_cost(ratio, slopes, kept.dear[p])
        costs[2 * p], costs[2 * p + 1] = cheap, dear
        least += cheap if ratio.classes[kept.dear[p]] == FORBIDDEN else min(cheap, dear)
    return least


@internal
def _write_pairs(ratio, kept, n_pairs, costs, forbidden):
    """Give pairs their new steps, and exchange the two where the dearer one has become the cheaper."""
    for p in range(n_pairs):
        step = costs[2 * p + 1] - costs[2 * p]
        if ratio.classes[kept.dear[p]] == FORBIDDEN:
            step = forbidden
        elif step < 0:
            step = -step
            kept.cheap[p], kept.dear[p] = kept.dear[p], kept.cheap[p]
            for d in range(len(kept.gains)):
                kept.gains[d, p] = -kept.gains[d, p]
        kept.steps[p] = step


@internal
def reprice_box(ratio, bound, child, own, limit):
    """Give the hypotheses of a box the prices of a minorant for it; see `reprice`."""
    kept, total, low, high, costs = child.kept, child.total, bound.low, bound.high, bound.costs
    n_pairs, n_lists = child.numbers[N_PAIRS], child.numbers[N_LISTS]
    for k in range(len(total)):
        low[k] = high[k] = total[k]
    for p in range(n_pairs):
        if ratio.classes[kept.dear[p]] != FORBIDDEN:
            _widen_by_pair(ratio.statistics, kept.cheap[p], kept.dear[p], low, high)
    for a in range(n_lists):
        _widen(ratio.statistics, kept.ids, kept.ends[a], kept.ends[a + 1], low, high, bound.least, bound.most)
    least, useful = lay_bound(ratio, bound, total, n_pairs + n_lists)
    if least == INFINITE_COST or not useful:
        return max(own, least)
    least += _price_pairs(ratio, bound.slopes, kept, n_pairs, costs)
    first = 2 * n_pairs
    for a in range(n_lists):
        cheapest = INFINITE_COST
        for i in range(kept.ends[a], kept.ends[a + 1]):
            costs[first + i] = row_cost(ratio, bound.slopes, kept.ids[i])
            cheapest = min(cheapest, costs[first + i])
        least += cheapest
    if least <= own:
        return own
    _write_pairs(ratio, kept, n_pairs, costs, max(np.int64(0), limit - least) + 1)
    for a in range(n_lists):
        for i in range(kept.ends[a], kept.ends[a + 1]):
            kept.costs[i] = costs[first + i]
        _sort_box(kept, kept.ends[a], kept.ends[a + 1])
    return least
