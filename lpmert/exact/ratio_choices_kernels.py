"""The search over selections for a ratio metric as one resumable kernel: bound, rule out, look ahead, branch, descend.

A node is a set of decided lists. A linear minorant of the metric on the box of what the sums can still be prices every
hypothesis; what costs too much, or does not go together with the decided choices, is ruled out below the node, which
narrows the box. See exact/ratio_choices.py for the method and exact/choices_tree.py for the state shared with additive
losses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert.exact.choices_kernels import (
    ASKING,
    DONE,
    MOST_IN_NODE,
    WORKING,
    inherit_witnesses,
    remember,
    step_back,
    together,
)
from lpmert.exact.choices_tree import (
    CHOOSE,
    CORE,
    DEPTH,
    DESCEND,
    FIXED,
    LOOK,
    NODES,
    PHASE,
    POOLED,
    UPPER,
    WORK,
)
from lpmert.exact.ratio_lists import decode_total, height_limit, lay_bound, price
from lpmert.geometry.leastnorm import FEASIBLE, UNDECIDED, copy_corral
from lpmert.kernels import INFINITE_COST, internal, kernel
from lpmert.metrics.ratio_kernels import loss_of_total
from lpmert.result import FloatArray, IntArray

_OPEN, _CLOSED = 10, 11
_PRICE = CORE
"""The phase of a node before it looks ahead."""

_TANGENTS = 5
"""Points at which the minorant of a node is laid; the best is taken."""

_MOST_REPRICED = 4
"""How often a node is priced again after hypotheses have been ruled out."""


class Ranking(NamedTuple):
    """What a search for a ratio metric keeps beside its `Tree`; S lists, M hypotheses, K statistics.

    loss [1]: the least so far. totals [S + 1, K]: sums of the decided lists at each depth. out [M]: whether a
    hypothesis is ruled out. prices [M]: under the node's minorant; cheapest [S]: the row of least price that is left.
    order, bounds [S + 1, N]: the candidates of each depth's branch list by price, and what the node's bound is with
    each; counts, next [S + 1]: how many there are, and how many have had their turn. repriced [S + 1]. total, target
    [K], scores [N], ranked [N]: work space.
    """

    loss: FloatArray
    totals: FloatArray
    out: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    prices: IntArray
    cheapest: IntArray
    order: IntArray
    bounds: IntArray
    counts: IntArray
    next: IntArray
    repriced: IntArray
    total: FloatArray
    target: FloatArray
    scores: FloatArray
    ranked: IntArray


@internal
def _take_if_less(ratio, tree, ranking, loss, total, weights):
    """Take weights and the sums that they attain as the incumbent, if their loss is lower."""
    if loss < ranking.loss[0]:
        ranking.loss[0] = loss
        ranking.target[:] = total
        tree.numbers[UPPER] = height_limit(ratio.kind, loss)
        tree.best_weights[:] = weights


@internal
def _record_witness(lists, ratio, tree, ranking, weights):
    """Decode a witness, keep its selection, and take it as incumbent if its loss is lower beyond rounding."""
    n = tree.numbers
    loss, clear = decode_total(lists, ratio, weights, tree.selection, ranking.scores, ranking.total)
    n[WORK] += len(ranking.out)
    if clear:
        _take_if_less(ratio, tree, ranking, loss, ranking.total, weights)
    remember(tree)


@internal
def _take_selection(ratio, tree, ranking, level, weights):
    """Take a complete selection that the weights are known to attain, if its loss is lower.

    Decoding alone need not be clear: scores far from 0 round where differences do not.
    """
    total = ranking.totals[level]
    _take_if_less(ratio, tree, ranking, loss_of_total(ratio.kind, ratio.parameters, total), total, weights)


@internal
def _rule_out(tree, ranking, row):
    n = tree.numbers
    trail = tree.trail_end[n[DEPTH]]
    ranking.out[row] = True
    tree.trail_list[trail] = row
    tree.trail_end[n[DEPTH]] = trail + 1


@internal
def _box(lists, ratio, tree, ranking, bound):
    """Fill the box of what the sums can still be; say whether every list has a hypothesis left."""
    statistics = ratio.statistics
    low, high, least, most = bound.low, bound.high, bound.least, bound.most
    total = ranking.totals[tree.numbers[DEPTH]]
    for k in range(len(low)):
        low[k] = high[k] = total[k]
    for s in range(len(tree.chosen)):
        if tree.chosen[s] >= 0:
            continue
        least[:] = np.inf
        most[:] = -np.inf
        for i in range(lists.offsets[s], lists.offsets[s + 1]):
            if not ranking.out[i]:
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
def _sum_of_least(lists, ratio, tree, ranking, bound, prices, n_open):
    """Price the hypotheses under the minorant at bound.at; return what the cheapest add up to.

    The sums of these cheapest ones are left in ranking.total.
    """
    total = ranking.total
    total[:] = ranking.totals[tree.numbers[DEPTH]]
    units, useful = lay_bound(ratio, bound, total, n_open)
    if not useful or units == INFINITE_COST:
        return units, False
    for s in range(len(tree.chosen)):
        if tree.chosen[s] >= 0:
            continue
        best = -1
        for i in range(lists.offsets[s], lists.offsets[s + 1]):
            if not ranking.out[i]:
                prices[i] = price(ratio, bound.slopes, i)
                if best < 0 or prices[i] < prices[best]:
                    best = i
        units += prices[best]
        for k in range(len(total)):
            total[k] += ratio.statistics[best, k]
    return units, True


@internal
def _price(lists, ratio, tree, ranking, bound):
    """Bound the node by the best of several minorants, and rule out what costs too much under it."""
    n = tree.numbers
    depth = n[DEPTH]
    n_lists = len(tree.chosen)
    n_open = n_lists - n[FIXED] - depth
    if not _box(lists, ratio, tree, ranking, bound):
        return _CLOSED
    at = bound.at
    for k in range(len(at)):
        at[k] = min(bound.high[k], max(bound.low[k], ranking.target[k]))
    most = -INFINITE_COST
    for trial in range(_TANGENTS):
        n[WORK] += 2 * len(ranking.out)
        units, priced = _sum_of_least(lists, ratio, tree, ranking, bound, bound.prices, n_open)
        tree.bound[depth] = max(tree.bound[depth], units)
        if tree.bound[depth] >= n[UPPER]:
            return _CLOSED
        if not priced:
            break
        if units > most:
            most = units
            ranking.prices[:] = bound.prices
        elif trial > 1:
            break
        # towards the sums of the cheapest selection, as in the method of Frank and Wolfe
        step = 2.0 / (trial + 3.0)
        for k in range(len(at)):
            at[k] += step * (ranking.total[k] - at[k])
    if most == -INFINITE_COST:
        ranking.prices[:] = 0
        most = tree.bound[depth]
    ruled_out = 0
    left = 0
    for s in range(n_lists):
        if tree.chosen[s] >= 0:
            continue
        begin, end = lists.offsets[s], lists.offsets[s + 1]
        best = _cheapest(ranking, begin, end)
        slack = n[UPPER] - most + ranking.prices[best]
        for i in range(begin, end):
            if not ranking.out[i]:
                if ranking.prices[i] >= slack:
                    _rule_out(tree, ranking, i)
                    ruled_out += 1
                else:
                    left += 1
        ranking.cheapest[s] = best
    ranking.repriced[depth] += 1
    if 8 * ruled_out > left and ranking.repriced[depth] < _MOST_REPRICED:
        return _OPEN
    ranking.bounds[depth, 0] = most
    n[PHASE] = LOOK
    return _OPEN


@internal
def _cheapest(ranking, begin, end):
    best = -1
    for i in range(begin, end):
        if not ranking.out[i] and (best < 0 or ranking.prices[i] < ranking.prices[best]):
            best = i
    return best


@internal
def _look_ahead(lists, ratio, tree, corrals, ranking, scratch, most):
    """Rule out each undecided list's cheapest hypotheses until one goes together with the decided choices."""
    n = tree.numbers
    depth = n[DEPTH]
    n_decided = n[FIXED] + depth
    stamp = n[NODES]
    for q in range(tree.n_compatible[depth]):
        row = tree.pool[tree.compatible[depth, q]]
        for s in range(len(row)):
            if tree.chosen[s] < 0:
                tree.attained[lists.offsets[s] + row[s]] = stamp
    ruled_out = 0
    for s in range(len(tree.chosen)):
        if tree.chosen[s] >= 0:
            continue
        begin, end = lists.offsets[s], lists.offsets[s + 1]
        best = _cheapest(ranking, begin, end)
        if best < 0:
            return _CLOSED
        ranking.bounds[depth, 0] += ranking.prices[best] - ranking.prices[ranking.cheapest[s]]
        ranking.cheapest[s] = best
        while tree.attained[best] != stamp:
            if ranking.bounds[depth, 0] >= n[UPPER]:
                return _CLOSED
            if n[WORK] > most:
                return WORKING
            copy_corral(corrals, depth, depth + 1)
            tree.chosen[s] = best - begin
            tree.decided[n_decided] = s
            verdict = together(lists, tree, corrals, depth + 1, scratch, n_decided + 1, n_decided)
            if verdict == UNDECIDED:
                return ASKING
            tree.chosen[s] = -1
            if verdict == FEASIBLE:
                _record_witness(lists, ratio, tree, ranking, corrals.point[depth + 1])
                for t in range(len(tree.chosen)):
                    if tree.chosen[t] < 0:
                        tree.attained[lists.offsets[t] + tree.selection[t]] = stamp
                tree.attained[best] = stamp
                break
            _rule_out(tree, ranking, best)
            ruled_out += 1
            row = best
            best = _cheapest(ranking, begin, end)
            if best < 0:
                return _CLOSED
            ranking.bounds[depth, 0] += ranking.prices[best] - ranking.prices[row]
            ranking.cheapest[s] = best
    tree.bound[depth] = max(tree.bound[depth], ranking.bounds[depth, 0])
    if tree.bound[depth] >= n[UPPER]:
        return _CLOSED
    if ruled_out > 0 and ranking.repriced[depth] < 2 * _MOST_REPRICED:
        n[PHASE] = _PRICE
    else:
        n[PHASE] = CHOOSE
    return _OPEN


@internal
def _branch(lists, tree, ranking, settings):
    """Branch on the undecided list with the fewest candidates left, weighted by how cheap they are."""
    n = tree.numbers
    depth = n[DEPTH]
    most = ranking.bounds[depth, 0]
    slack = float(n[UPPER] - most)
    fewest = np.inf
    chosen = -1
    for s in range(len(tree.chosen)):
        if tree.chosen[s] >= 0:
            continue
        least = ranking.prices[ranking.cheapest[s]]
        weight = 0.0
        for i in range(lists.offsets[s], lists.offsets[s + 1]):
            if not ranking.out[i]:
                weight += np.exp(-settings.sharpness * float(ranking.prices[i] - least) / slack)
        if weight < fewest:
            fewest = weight
            chosen = s
    begin, end = lists.offsets[chosen], lists.offsets[chosen + 1]
    least = ranking.prices[ranking.cheapest[chosen]]
    count = 0
    for i in range(begin, end):
        if not ranking.out[i]:
            ranking.ranked[count] = i
            count += 1
    order = np.argsort(ranking.prices[ranking.ranked[:count]], kind="mergesort")
    for q in range(count):
        i = ranking.ranked[order[q]]
        ranking.order[depth, q] = i
        ranking.bounds[depth, q] = max(tree.bound[depth], most + ranking.prices[i] - least)
    ranking.counts[depth] = count
    ranking.next[depth] = 0
    tree.branch_list[depth] = chosen
    n[PHASE] = DESCEND


@internal
def _descend(lists, ratio, tree, corrals, ranking, scratch, settings):
    """Open the next child of the node, or say that there is none left within the bound."""
    n = tree.numbers
    depth = n[DEPTH]
    s = tree.branch_list[depth]
    n_decided = n[FIXED] + depth
    while True:
        q = ranking.next[depth]
        if q == ranking.counts[depth] or ranking.bounds[depth, q] >= n[UPPER]:
            return _CLOSED
        row = ranking.order[depth, q]
        tree.chosen[s] = row - lists.offsets[s]
        tree.decided[n_decided] = s
        copy_corral(corrals, depth, depth + 1)
        verdict = together(lists, tree, corrals, depth + 1, scratch, n_decided + 1, n_decided)
        if verdict == UNDECIDED:
            return ASKING
        ranking.next[depth] = q + 1
        if verdict == FEASIBLE:
            break
        tree.chosen[s] = -1
    pooled = n[POOLED]
    _record_witness(lists, ratio, tree, ranking, corrals.point[depth + 1])
    child = depth + 1
    tree.trail_end[child] = tree.trail_end[depth]
    if settings.use_witnesses:
        inherit_witnesses(tree, child, n_decided + 1, pooled)
    for k in range(ranking.totals.shape[1]):
        ranking.totals[child, k] = ranking.totals[depth, k] + ratio.statistics[row, k]
    if n_decided + 1 == len(tree.chosen):
        _take_selection(ratio, tree, ranking, child, corrals.point[child])
    tree.bound[child] = ranking.bounds[depth, q]
    ranking.repriced[child] = 0
    n[DEPTH] = child
    n[PHASE] = _PRICE
    n[NODES] += 1
    return _OPEN


@internal
def _retreat(tree, ranking):
    """Go back to the parent, with all that was ruled out below it."""
    n = tree.numbers
    depth = n[DEPTH]
    parent_end = tree.trail_end[depth - 1] if depth > 0 else 0
    for q in range(parent_end, tree.trail_end[depth]):
        ranking.out[tree.trail_list[q]] = False
    step_back(tree)


@internal
def _close_root(lists, ratio, tree, corrals, ranking, scratch):
    """Find and record a witness where there was nothing to decide."""
    copy_corral(corrals, 0, 1)
    verdict = together(lists, tree, corrals, 1, scratch, tree.numbers[FIXED], 0)
    if verdict == UNDECIDED:
        return ASKING
    if verdict == FEASIBLE:
        _record_witness(lists, ratio, tree, ranking, corrals.point[1])
        _take_selection(ratio, tree, ranking, 0, corrals.point[1])
    return _CLOSED


@kernel
def search(lists, ratio, tree, corrals, ranking, bound, scratch, settings, budget):
    """Search until DONE, until an exact answer is needed (ASKING), or until the budget of work is spent (WORKING)."""
    n = tree.numbers
    stop = n[WORK] + budget
    most = stop + MOST_IN_NODE
    while n[DEPTH] >= 0:
        if n[WORK] > stop:
            return WORKING
        depth = n[DEPTH]
        verdict = _OPEN
        if n[FIXED] + depth == len(tree.chosen):
            # All decided: the witness was recorded on the way in, unless there was no way in.
            verdict = _CLOSED if depth > 0 else _close_root(lists, ratio, tree, corrals, ranking, scratch)
        elif n[PHASE] == _PRICE:
            verdict = _price(lists, ratio, tree, ranking, bound)
        elif n[PHASE] == LOOK and (settings.look_ahead or depth == 0):
            verdict = _look_ahead(lists, ratio, tree, corrals, ranking, scratch, most)
        else:
            if n[PHASE] != DESCEND:
                _branch(lists, tree, ranking, settings)
            verdict = _descend(lists, ratio, tree, corrals, ranking, scratch, settings)
        if verdict in (ASKING, WORKING):
            return verdict
        if verdict == _CLOSED:
            _retreat(tree, ranking)
    return DONE
