"""The ledger of a ratio metric in the search over selections: what hypotheses cost under a node's linear minorant.

A linear minorant of the metric on the box of what the sums can still be gives every hypothesis a cost in units of
height (see ratio_lists.py); what costs too much, or does not go together with the decided choices, is ruled out
below the node, which narrows the box. See methods/choices/ledger.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.choices.ratio_lists import Bound, Ratio, decode_total, height_limit, lay_bound, new_bound, row_cost
from lpmert.methods.choices.tree import CLOSED, DEPTH, FIXED, LOOK, OPEN, PHASE, SUM, UPPER, WORK
from lpmert.metrics.ratio_kernels import loss_of_total
from lpmert.numeric.kernels import INFINITE_COST, copy_entries, fill, internal

_TANGENTS = 5
"""Points at which the minorant of a node is laid; the best is taken."""

_MOST_BOUNDED = 4
"""How often a node is bounded again after hypotheses have been ruled out for what they cost."""


class Heights(NamedTuple):
    """What a search for a ratio metric keeps beside its `Tree`; S lists, M hypotheses, K statistics.

    bound: work space of minorants. loss [1]: the least so far. totals [S + 1, K]: sums of the decided lists at each
    depth. out [M]: whether a hypothesis is ruled out. costs [M]: under the node's minorant. order, bounds [S + 1, N]:
    the candidates of each depth's branch list by cost, and what the node's bound is with each; counts [S + 1]: how
    many there are. tries [S + 1]: how often each depth's node was bounded. total, target [K], ranked [N]: work space.
    """

    ratio: Ratio
    bound: Bound
    loss: FloatArray
    totals: FloatArray
    out: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    costs: IntArray
    order: IntArray
    bounds: IntArray
    counts: IntArray
    tries: IntArray
    total: FloatArray
    target: FloatArray
    ranked: IntArray


def new_heights(ratio: Ratio, depths: int, longest: int) -> Heights:
    """Return an empty ledger for a search of so many depths, the longest list as given."""
    n_rows, n_columns = ratio.statistics.shape

    def whole(*shape: int) -> IntArray:
        return np.zeros(shape, dtype=np.int64)

    return Heights(
        ratio,
        new_bound(n_rows, n_columns),
        np.ones(1),
        np.tile(ratio.constant, (depths, 1)),
        np.zeros(n_rows, dtype=np.bool_),
        whole(n_rows),
        whole(depths, longest),
        whole(depths, longest),
        whole(depths),
        whole(depths),
        np.zeros(n_columns),
        np.zeros(n_columns),
        whole(longest),
    )


@internal
def _take_if_less(ledger, tree, loss, total, weights):
    """Take weights and the sums that they attain as the incumbent, if their loss is lower."""
    if loss < ledger.loss[0]:
        ledger.loss[0] = loss
        copy_entries(total, ledger.target, np.int64(0), len(total))
        tree.numbers[UPPER] = height_limit(ledger.ratio.kind, loss)
        copy_entries(weights, tree.best_weights, np.int64(0), len(weights))


def take_witness(ledger, lists, tree, scores, weights):
    loss, clear = decode_total(lists, ledger.ratio, weights, tree.selection, scores, ledger.total)
    if clear:
        _take_if_less(ledger, tree, loss, ledger.total, weights)


def take_selection(ledger, tree, depth, weights):
    """Scores far from 0 round where differences do not."""
    total = ledger.totals[depth]
    _take_if_less(ledger, tree, loss_of_total(ledger.ratio.kind, ledger.ratio.parameters, total), total, weights)


@internal
def _fill_box(ledger, lists, tree):
    """Fill the box of what the sums can still be; say whether every list has a hypothesis left."""
    bound = ledger.bound
    statistics = ledger.ratio.statistics
    low, high, least, most = bound.low, bound.high, bound.least, bound.most
    total = ledger.totals[tree.numbers[DEPTH]]
    for k in range(len(low)):
        low[k] = high[k] = total[k]
    for s in range(len(tree.chosen)):
        if tree.chosen[s] >= 0:
            continue
        fill(least, np.inf)
        fill(most, -np.inf)
        for i in range(lists.offsets[s], lists.offsets[s + 1]):
            if not ledger.out[i]:
                for k in range(len(low)):
                    least[k] = min(least[k], statistics[i, k])
                    most[k] = max(most[k], statistics[i, k])
        if least[0] == np.inf:
            return False
        for k in range(len(low)):
            low[k] += least[k]
            high[k] += most[k]
    return True


@internal
def _sum_of_least(ledger, lists, tree, n_open):
    """Find what hypotheses cost under the minorant at bound.at; return (what the cheapest add up to, whether any do).

    The costs are left in bound.costs, the sums of these cheapest ones in ledger.total.
    """
    ratio, bound, total = ledger.ratio, ledger.bound, ledger.total
    costs = bound.costs
    copy_entries(ledger.totals[tree.numbers[DEPTH]], total, np.int64(0), len(total))
    least, useful = lay_bound(ratio, bound, total, n_open)
    if not useful or least == INFINITE_COST:
        return least, False
    for s in range(len(tree.chosen)):
        if tree.chosen[s] >= 0:
            continue
        best = -1
        for i in range(lists.offsets[s], lists.offsets[s + 1]):
            if not ledger.out[i]:
                costs[i] = row_cost(ratio, bound.slopes, i)
                if best < 0 or costs[i] < costs[best]:
                    best = i
        least += costs[best]
        for k in range(len(total)):
            total[k] += ratio.statistics[best, k]
    return least, True


def bound_node(ledger, lists, tree):
    """The bound is the best of several minorants; what costs too much under it is ruled out."""
    n = tree.numbers
    depth = n[DEPTH]
    n_lists = len(tree.chosen)
    n_open = n_lists - n[FIXED] - depth
    if not _fill_box(ledger, lists, tree):
        return CLOSED
    bound = ledger.bound
    at = bound.at
    for k in range(len(at)):
        at[k] = min(bound.high[k], max(bound.low[k], ledger.target[k]))
    most = -INFINITE_COST
    for trial in range(_TANGENTS):
        n[WORK] += 2 * len(ledger.out)
        least, found = _sum_of_least(ledger, lists, tree, n_open)
        tree.bound[depth] = max(tree.bound[depth], least)
        if tree.bound[depth] >= n[UPPER]:
            return CLOSED
        if not found:
            break
        if least > most:
            most = least
            copy_entries(bound.costs, ledger.costs, np.int64(0), len(ledger.costs))
        elif trial > 1:
            break
        # towards the sums of the cheapest selection, as in the method of Frank and Wolfe
        stride = 2.0 / (trial + 3.0)
        for k in range(len(at)):
            at[k] += stride * (ledger.total[k] - at[k])
    if most == -INFINITE_COST:
        fill(ledger.costs, np.int64(0))
        most = tree.bound[depth]
    ruled_out = 0
    left = 0
    for s in range(n_lists):
        if tree.chosen[s] >= 0:
            continue
        begin, end = lists.offsets[s], lists.offsets[s + 1]
        best = _cheapest(ledger.out, ledger.costs, begin, end)
        dearest = n[UPPER] - most + ledger.costs[best]
        for i in range(begin, end):
            if not ledger.out[i]:
                if ledger.costs[i] >= dearest:
                    ledger.out[i] = True
                    trail = tree.trail_end[depth]
                    tree.trail_list[trail], tree.trail_old[trail] = s, i - begin
                    tree.trail_end[depth] = trail + 1
                    ruled_out += 1
                else:
                    left += 1
        tree.pointer[s] = best - begin
    n[SUM] = most
    ledger.tries[depth] += 1
    if 8 * ruled_out <= left or ledger.tries[depth] >= _MOST_BOUNDED:
        n[PHASE] = LOOK
    return OPEN


@internal
def _cheapest(out, costs, begin, end):
    best = -1
    for i in range(begin, end):
        if not out[i] and (best < 0 or costs[i] < costs[best]):
            best = i
    return best


def costs_of(ledger, lists):
    return ledger.costs


def rule_out(ledger, begin, row, end):
    ledger.out[row] = True
    return _cheapest(ledger.out, ledger.costs, begin, end)


def look_again(ledger, tree, ruled_out):
    return ruled_out > 0 and ledger.tries[tree.numbers[DEPTH]] < 2 * _MOST_BOUNDED


def put_back(ledger, lists, tree, begin, end):
    for q in range(begin, end):
        ledger.out[lists.offsets[tree.trail_list[q]] + tree.trail_old[q]] = False


def step(ledger, costs, begin, here, end):
    second = INFINITE_COST
    for i in range(begin, end):
        if i != here and not ledger.out[i]:
            second = min(second, costs[i] - costs[here])
    return second


def is_tight(ledger):
    return False


def slack(ledger, tree):
    return float(tree.numbers[UPPER] - tree.numbers[SUM])


def weigh(ledger, costs, begin, here, end, rate, slack):
    weight = 0.0
    for i in range(begin, end):
        if not ledger.out[i]:
            weight += np.exp(-rate * float(costs[i] - costs[here]) / slack)
    return weight


@internal
def _sort(rows, count, costs):
    """Put the first rows in order of cost, and of place where it is the same.

    By a heap (Williams, Algorithm 232, 1964): numba's `argsort` takes a second and a half to compile.
    """
    size = count
    top = count // 2
    while size > 1:
        if top > 0:
            top -= 1
            row = rows[top]
        else:
            size -= 1
            row, rows[size] = rows[size], rows[0]
        place = top
        below = 2 * place + 1
        while below < size:
            if below + 1 < size and _is_before(rows[below], rows[below + 1], costs):
                below += 1
            if not _is_before(row, rows[below], costs):
                break
            rows[place] = rows[below]
            place, below = below, 2 * below + 1
        rows[place] = row


@internal
def _is_before(one, other, costs):
    return costs[one] < costs[other] or (costs[one] == costs[other] and one < other)


def lay_out(ledger, lists, tree, s):
    n = tree.numbers
    depth = n[DEPTH]
    begin = lists.offsets[s]
    rest = n[SUM] - ledger.costs[begin + tree.pointer[s]]
    count = np.int64(0)
    for i in range(begin, lists.offsets[s + 1]):
        if not ledger.out[i]:
            ledger.ranked[count] = i
            count += 1
    _sort(ledger.ranked, count, ledger.costs)
    for q in range(count):
        i = ledger.ranked[q]
        ledger.order[depth, q] = i - begin
        ledger.bounds[depth, q] = max(tree.bound[depth], rest + ledger.costs[i])
    ledger.counts[depth] = count
    tree.branch_next[depth] = 0


def next_child(ledger, costs, begin, end, position, depth):
    if position == ledger.counts[depth]:
        return np.int64(-1), np.int64(0)
    return ledger.order[depth, position], ledger.bounds[depth, position]


def enter_child(ledger, lists, tree, s, h):
    depth = tree.numbers[DEPTH]
    row = lists.offsets[s] + h
    for k in range(ledger.totals.shape[1]):
        ledger.totals[depth + 1, k] = ledger.totals[depth, k] + ledger.ratio.statistics[row, k]
    ledger.tries[depth + 1] = 0
