"""Branch and bound over the weight space as one resumable kernel: split a cone, prune its hypotheses, bound, descend.

A node is a simplicial cone with, for every list that is still open, the hypotheses that may win inside it and their
scores at the cone's rays. See methods/cells/cells.py for the method.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert.methods.cells.conflicts import conflict_bound
from lpmert.methods.cells.cuts import cut_off
from lpmert.methods.cells.ledger import look_at_centre, search_leaf
from lpmert.methods.cells.prune import prune
from lpmert.methods.cells.stack import (
    BOUND,
    CONFLICTING,
    CUT_OFF,
    DONE_WITH,
    DONE_WORK,
    N_LISTS,
    N_ROWS,
    NODES,
    TOP,
    UPPER_COST,
    has_room,
    push,
)
from lpmert.methods.choices.kernels import ASKING, DONE
from lpmert.numeric.cone import exact_sum
from lpmert.numeric.kernels import EPSILON, copy_entries, copy_rows, fill, internal, kernel

_SAMPLED_LISTS = 100

EMPTY, PAUSED, FULL, HARD, ASIDE = range(5)


class ConeSettings(NamedTuple):
    """granularity of bounds; leaf_lists: cones with at most so many open lists are searched selection by selection;
    most_stalled: splits without progress after which a cone of at most leaf_rows survivors is searched so too;
    hopeless: after which it is HARD. cut_rows: largest cone that gets cuts; conflict_lists: most open lists of one that
    is tried for conflicts; conflict_sample: of these, tried first in boxes; row_work: what a split costs a row;
    largest: bound on all scores; compare_all: whether all rows of a list are compared.
    """

    granularity: int
    leaf_lists: int
    leaf_rows: int
    cut_rows: int
    conflict_lists: int
    conflict_sample: int
    most_stalled: int
    hopeless: int
    row_work: int
    largest: float
    compare_all: bool


@internal
def longest_edge(stack, t, work):
    """Return the edge (p, q) with the most cost at stake between its ends' winners, weighted by its length.

    Where there are many lists an even sample of them tells. Lists tied at one end have the other end's winner at both:
    no split comes nearer to a ray in which many boundaries meet.
    """
    n_features = len(work.best)
    first, first_end = stack.first_row[t], stack.first_end[t]
    for p in range(n_features):
        fill(work.disagreement[p], 0.0)
    for a in range(0, stack.n_lists[t], max(1, stack.n_lists[t] // _SAMPLED_LISTS)):
        begin, end = first + stack.ends[first_end + a], first + stack.ends[first_end + a + 1]
        for d in range(n_features):
            top = -np.inf
            for i in range(begin, end):
                if stack.scores[i, d] > top:
                    top = stack.scores[i, d]
                    work.best[d] = i
        for p in range(n_features):
            for q in range(p + 1, n_features):
                i, j = work.best[p], work.best[q]
                if stack.scores[j, p] < stack.scores[i, p] and stack.scores[i, q] < stack.scores[j, q]:
                    work.disagreement[p, q] += abs(stack.costs[i] - stack.costs[j])
    most = -1.0
    chosen = (0, 1)
    for p in range(n_features):
        for q in range(p + 1, n_features):
            length = 0.0
            for d in range(n_features):
                length += abs(stack.rays[t, p, d] - stack.rays[t, q, d])
            stake = (work.disagreement[p, q] + 1e-3) * length
            if stake > most:
                most = stake
                chosen = (p, q)
    return chosen


@internal
def halve(stack, t, p, q, work):
    """Compute the midpoint of edge (p, q) and its scores; return (error of the scores, whether the ray is exact)."""
    first = stack.first_row[t]
    n_features = len(work.best)
    exact_ray = True
    for d in range(n_features):
        a, b = stack.rays[t, p, d], stack.rays[t, q, d]
        exact_ray = exact_ray and exact_sum(a, b)
    exact = True
    largest = 0.0
    for i in range(stack.n_rows[t]):
        a, b = stack.scores[first + i, p], stack.scores[first + i, q]
        exact = exact and exact_sum(a, b)
        value = 0.5 * (a + b)
        work.middle[i] = value
        largest = max(largest, abs(value))
    error = 0.5 * (stack.errors[t, p] + stack.errors[t, q]) * (1.0 + 4.0 * EPSILON)
    return error if exact else error + EPSILON * largest, exact_ray


@kernel(nogil=True)
def prune_root(ledger, lists, stack, child, work, settings, limit):
    """Prune the only cone on the stack in place."""
    root = np.int64(0)
    copy_rows(stack.rays[root], child.rays, root, len(child.rays))
    copy_entries(stack.errors[root], child.errors, root, len(child.errors))
    clear = prune(ledger, stack, root, work.middle, np.int64(-1), child, limit, settings)
    n = stack.numbers
    n[NODES] += 1
    n[TOP] = -1
    if child.numbers[BOUND] <= limit:
        look_at_centre(ledger, lists, stack, child, clear)
        if not child.numbers[DONE_WITH]:
            push(stack, child, root)
            fill(stack.points[root], 1.0 / len(child.errors))


@internal
def carry_point(x, p, q, first, carried):
    """Write the parent's point x in the coordinates of the child whose ray p (first) or q moved to the midpoint."""
    moved, stays = (p, q) if first else (q, p)
    n_features = len(x)
    for d in range(n_features):
        carried[d] = 0.9 * x[d] + 0.1 / n_features
    carried[moved] = 0.9 * 2.0 * min(x[moved], x[stays]) + 0.1 / n_features
    carried[stays] = 0.9 * max(x[stays] - x[moved], 0.0) + 0.1 / n_features
    total = 0.0
    for d in range(n_features):
        total += carried[d]
    for d in range(n_features):
        carried[d] /= total


@kernel(nogil=True)
def explore(ledger, lists, stack, children, work, conflicts, settings, budget):
    """Split, prune and bound cones depth first until the stack is EMPTY or FULL, a cone is too HARD, or the budget is
    spent.

    A HARD cone stays on top of the stack: exact arithmetic outside must close it and take it off.
    """
    n = stack.numbers
    stop = n[DONE_WORK] + budget
    while n[TOP] >= 0:
        t = n[TOP]
        if stack.bound[t] > n[UPPER_COST] - settings.granularity:
            n[TOP] -= 1
            continue
        if n[DONE_WORK] > stop:
            return PAUSED
        if not has_room(stack):
            return FULL
        if stack.n_lists[t] <= settings.conflict_lists:
            needed = n[UPPER_COST] - settings.granularity - stack.bound[t]
            if conflict_bound(conflicts, stack, t, needed) > needed:
                n[TOP] -= 1
                n[CONFLICTING] += 1
                continue
        n[DONE_WORK] += len(work.cuts) * stack.n_rows[t]
        if (
            len(work.cuts) > 0
            and stack.n_rows[t] <= settings.cut_rows
            and cut_off(ledger, lists, stack, t, work, settings)
        ):
            n[TOP] -= 1
            n[CUT_OFF] += 1
            continue
        if stack.stalled[t] >= settings.hopeless:
            return HARD
        p, q = longest_edge(stack, t, work)
        error, exact_ray = halve(stack, t, p, q, work)
        if not exact_ray:
            return HARD
        parent_stalled, parent_lists = stack.stalled[t], stack.n_lists[t]
        copy_entries(stack.points[t], work.x, np.int64(0), len(work.x))
        n[DONE_WORK] += settings.row_work * stack.n_rows[t] + 50
        for c in range(2):
            child = children[c]
            replaced = p if c == 0 else q
            copy_rows(stack.rays[t], child.rays, np.int64(0), len(child.rays))
            copy_entries(stack.errors[t], child.errors, np.int64(0), len(child.errors))
            child.errors[replaced] = error
            for d in range(len(work.best)):
                child.rays[replaced, d] = 0.5 * (stack.rays[t, p, d] + stack.rays[t, q, d])
            limit = n[UPPER_COST] - settings.granularity
            clear = prune(ledger, stack, t, work.middle, replaced, child, limit, settings)
            n[NODES] += 1
            if child.numbers[BOUND] <= limit:
                look_at_centre(ledger, lists, stack, child, clear)
        n[TOP] -= 1
        first = 0 if children[0].numbers[BOUND] > children[1].numbers[BOUND] else 1  # the better child is pushed last
        for k in range(2):
            child = children[first if k == 0 else 1 - first]
            if child.numbers[BOUND] > n[UPPER_COST] - settings.granularity or child.numbers[DONE_WITH]:
                continue
            n_rows, n_lists = child.numbers[N_ROWS], child.numbers[N_LISTS]
            stalled = parent_stalled + 1 if n_lists >= 0.9 * parent_lists and n_rows <= settings.leaf_rows else 0
            if n_lists <= settings.leaf_lists or stalled >= settings.most_stalled:
                verdict = search_leaf(ledger, lists, stack, child)
                if verdict == DONE:
                    continue
                if verdict == ASKING:
                    stalled = settings.hopeless
            push(stack, child, stalled)
            carry_point(work.x, p, q, (first if k == 0 else 1 - first) == 0, stack.points[n[TOP]])
    return EMPTY
