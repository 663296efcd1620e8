"""The ledger of a ratio metric: what is settled are sums of statistics, and rows cost heights under a linear minorant.

The costs of a cone's rows are heights in units (see methods/choices/ratio_lists.py) under a minorant of its own or its
parent's, so that a cone reads like one of an additive loss. See methods/cells/ledger.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.cells.ratio_leaf import offer, search_selections
from lpmert.methods.cells.stack import AGE, CENTRE, DONE_WITH, IMPOSSIBLE, LEAVES, N_LISTS, OPEN, SETTLED
from lpmert.methods.choices.ratio_lists import FORBIDDEN, Bound, Ratio, lay_bound, row_cost
from lpmert.metrics.ratio_kernels import loss_of_total
from lpmert.numeric.kernels import INFINITE_COST, add_rows, internal


class Ratios(NamedTuple):
    """What a lane keeps of a ratio metric; the statistics in `ratio` are everybody's, the rest is its own.

    loss [1]: the least so far. repriced_every: splits from one minorant to the next; most_selections: of a small cone
    before it is split on. bound: work space of minorants, whose `at` holds the sums at a child's centre; selection [S],
    scores [longest list], total [K]: work space for decoding.
    """

    ratio: Ratio
    bound: Bound
    loss: FloatArray
    repriced_every: int
    most_selections: int
    selection: IntArray
    scores: FloatArray
    total: FloatArray


def open_account(ledger):
    for k in range(len(ledger.bound.at)):
        ledger.bound.at[k] = 0.0


def settle(ledger, numbers, ids, costs, total, start, end, winner):
    statistics, classes, at = ledger.ratio.statistics, ledger.ratio.classes, ledger.bound.at
    if classes[winner] == FORBIDDEN:
        numbers[CENTRE] = INFINITE_COST
    own = classes[ids[start]]
    if own == FORBIDDEN and end == start + 1:
        return IMPOSSIBLE
    i = start + 1
    while i < end and classes[ids[i]] == own:
        i += 1
    if i == end:
        for k in range(len(total)):
            total[k] += statistics[winner, k]
        return SETTLED
    for k in range(len(total)):
        at[k] += statistics[winner, k]
    return OPEN


def close_account(ledger, child, bound, limit):
    """A cone's age are the splits that are left until its rows are priced anew: the minorant changes less than the
    choice between them.
    """
    at = ledger.bound.at
    for k in range(len(at)):
        at[k] += child.total[k]
    if child.numbers[AGE] > 0:
        child.numbers[AGE] -= 1
        return bound
    child.numbers[AGE] = ledger.repriced_every - 1
    return _reprice(ledger.ratio, ledger.bound, child, bound, limit)


def look_at_centre(ledger, lists, stack, child, clear):
    open_lists = child.numbers[N_LISTS] > 0
    if loss_of_total(ledger.ratio.kind, ledger.ratio.parameters, ledger.bound.at) >= ledger.loss[0]:
        child.numbers[DONE_WITH] = not open_lists
        return
    if open_lists and (not clear or child.numbers[CENTRE] >= INFINITE_COST):
        return
    centre = np.empty(len(child.errors))
    add_rows(child.rays, centre)
    _, clear = offer(ledger, lists, stack, centre)
    child.numbers[DONE_WITH] = clear and not open_lists


def look_inside(ledger, lists, stack, t, x):
    """Heights under a minorant tell too little to be worth decoding."""


def search_leaf(ledger, lists, stack, child):
    stack.numbers[LEAVES] += 1
    return search_selections(ledger, lists, stack, child)


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
def _reprice(ratio, bound, child, below, limit):
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
