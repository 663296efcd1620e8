"""Pruning of a cone: drop the hypotheses that another beats everywhere in it, settle lists, and add up the bound."""

from __future__ import annotations

import numpy as np

from lpmert.methods.cells.ledger import close_account, open_account, settle
from lpmert.methods.cells.stack import AGE, BOUND, CENTRE, DONE_WITH, FIXED, N_LISTS, N_ROWS, OPEN, SETTLED
from lpmert.numeric.kernels import EPSILON, INFINITE_COST, internal

MOST_COMPARED = 1_000_000
"""Pairs of rows compared within a list, about: dropping a row only saves time, and too many comparisons cost it."""


@internal
def _beats(scores, winner, loser, errors):
    """Whether one row of scores is at least another at every ray, beyond the errors of both scores."""
    least = np.inf
    for d in range(len(errors)):
        least = min(least, scores[winner, d] - scores[loser, d] - 2.0 * errors[d])
    return least >= 0.0


@internal
def _move(scores, ids, costs, source, target):
    for d in range(scores.shape[1]):
        scores[target, d] = scores[source, d]
    ids[target] = ids[source]
    costs[target] = costs[source]


@internal
def drop_beaten(scores, ids, costs, start, end, best, errors, compare_all):
    """Drop rows start .. end that another row beats at every ray, first what row `best` beats; return the new end.

    Scores are linear in the weights, so the order at the rays is the order in the cone. Rows keep their order. Only the
    cheapest rows, on which the bound rests, are compared with all others; the rest with compare_all, unless the list is
    very long.
    """
    left = start
    for i in range(start, end):
        if i == best or not _beats(scores, best, i, errors):
            if i == best:
                best = left
            if left != i:
                _move(scores, ids, costs, i, left)
            left += 1
    end = left
    if end - start <= 2:
        return end
    left = start
    for i in range(start, end):
        compared = compare_all or left == start or costs[i] == costs[start]
        if left == i and not compared:
            return end  # none was dropped
        beaten = False
        if compared and i != best and (i - start) * (end - start) <= MOST_COMPARED:
            for j in range(start, end):
                if j != best and j != i and (j < left or j > i) and _beats(scores, j, i, errors):
                    beaten = True
                    break
        if not beaten:
            if i == best:
                best = left
            if left != i:
                _move(scores, ids, costs, i, left)
            left += 1
    return left


@internal
def prune(ledger, stack, t, middle, replaced, child, limit, settings):
    """Fill the child of cone t whose ray `replaced` moves to the midpoint; return whether its centre is clear.

    Lists in which there is nothing left to choose are settled. Stops as soon as the bound exceeds `limit`. With
    replaced = -1 the child is the cone itself.
    """
    n_features = len(child.errors)
    first, first_end = stack.first_row[t], stack.first_end[t]
    parent_scores, parent_ids, parent_costs, parent_ends = stack.scores, stack.ids, stack.costs, stack.ends
    scores, ids, costs = child.scores, child.ids, child.costs
    errors = child.errors
    centre_tolerance = 4.0 * n_features * n_features * EPSILON * settings.largest
    for d in range(n_features):
        centre_tolerance += 2.0 * errors[d]
    numbers, total = child.numbers, child.total
    numbers[DONE_WITH] = numbers[CENTRE] = 0
    numbers[AGE] = stack.age[t]
    for k in range(len(total)):
        total[k] = stack.totals[t, k]
    open_account(ledger)
    fixed = centre = stack.fixed[t]
    clear = True
    bound = stack.bound[t]  # the parent's least costs stand for lists not yet pruned
    kept = np.int64(0)
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
            score = 0.0
            for d in range(n_features):
                score += scores[kept, d]
            ids[kept] = parent_ids[i]
            costs[kept] = parent_costs[i]
            second = max(second, min(top, score))
            best = kept if score > top else best
            top = max(top, score)
            kept += 1
        clear = clear and top - second > centre_tolerance
        winner = ids[best]
        centre += costs[best]
        if kept - start == 2:
            if _beats(scores, best, 2 * start + 1 - best, errors):
                if best != start:
                    _move(scores, ids, costs, best, start)
                kept = start + 1
        else:
            kept = drop_beaten(scores, ids, costs, start, kept, best, errors, settings.compare_all)
        least = costs[start]
        bound += least - parent_costs[begin]
        if bound > limit:
            numbers[BOUND] = bound
            return False
        standing = settle(ledger, numbers, ids, costs, total, start, kept, winner)
        if standing == SETTLED:
            fixed += least
            kept = start
        elif standing == OPEN:
            n_lists += 1
            child.ends[n_lists] = kept
        else:
            numbers[BOUND] = INFINITE_COST
            return False
    numbers[N_ROWS], numbers[N_LISTS], numbers[FIXED] = kept, n_lists, fixed
    numbers[CENTRE] = max(numbers[CENTRE], centre)
    numbers[BOUND] = close_account(ledger, child, bound, limit)
    return clear
