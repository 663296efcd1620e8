"""Branch and bound over boxes as one resumable kernel: split a box, prune its hypotheses, bound, descend.

A node is a box with, for every list that is still open, the hypotheses that may win inside it. Nothing is handed down
but which these are, so that rounding errors do not add up.
"""

from __future__ import annotations

import numpy as np

from lpmert.methods.cells.box_conflicts import box_conflicts
from lpmert.methods.cells.box_leaf import search_box
from lpmert.methods.cells.box_prune import prune_box, rounds
from lpmert.methods.cells.box_stack import LEAST_RADIUS, N_PAIRS, push_box, room_for_children
from lpmert.methods.cells.kernels import ASIDE, EMPTY, FULL, HARD, PAUSED
from lpmert.methods.cells.ledger import hopeless_after, look_at_box
from lpmert.methods.cells.stack import (
    BOUND,
    CONFLICTING,
    DONE_WORK,
    LEVEL,
    LOOKED_AT,
    N_LISTS,
    N_ROWS,
    NODES,
    TOP,
    UPPER_COST,
)
from lpmert.methods.choices.kernels import ASKING, DONE
from lpmert.numeric.kernels import copy_entries, fill, internal, kernel

_SAMPLED = 128
"""Pairs, and lists of more hypotheses, that tell where to split."""

_SAMPLED_ROWS = 16
"""Hypotheses of each of these lists that are compared with each other for this, about."""


@internal
def _add_stake(columns, winner, loser, stake, radius, shares, stakes):
    """Add what is at stake between two columns to the axes along which their difference varies."""
    reach = 0.0
    for d in range(len(radius)):
        shares[d] = abs(columns[d, winner] - columns[d, loser]) * radius[d]
        reach += shares[d]
    if 0.0 < reach < np.inf:
        for d in range(len(radius)):
            stakes[d] += stake * (shares[d] / reach)


@internal
def longest_axis(stack, t, shares, stakes):
    """Return the axis along which most cost is at stake between two hypotheses, by an even sample of the lists."""
    kept, radius = stack.kept, stack.radii[t]
    n_features = len(radius)
    fill(stakes, 0.0)
    n = stack.n_pairs[t]
    stride = max(np.int64(1), n // _SAMPLED)
    for p in range(stack.first_pair[t], stack.first_pair[t] + n, stride):
        reach = 0.0
        for d in range(n_features):
            shares[d] = abs(kept.gains[d, p]) * radius[d]
            reach += shares[d]
        if 0.0 < reach < np.inf:
            for d in range(n_features):
                stakes[d] += stride * 0.5 * kept.steps[p] * (shares[d] / reach)
    first, first_end, n = stack.first_row[t], stack.first_end[t], stack.n_lists[t]
    stride = max(np.int64(1), n // _SAMPLED)
    for a in range(first_end, first_end + n, stride):
        low, high = first + kept.ends[a], first + kept.ends[a + 1]
        each = max(np.int64(1), (high - low) // _SAMPLED_ROWS)
        for i in range(low + 1, high, each):
            step = kept.costs[i] - kept.costs[low]
            if step > 0:
                stake = stride * np.float64(step) * each / (high - low)
                _add_stake(kept.features, low, i, stake, radius, shares, stakes)
    most = -1.0
    chosen = 0
    for d in range(n_features):
        stake = stakes[d] + 1e-3 * radius[d]
        if radius[d] > 0.0 and stake > most:
            most, chosen = stake, d
    return chosen


@kernel(nogil=True)
def prune_face(ledger, lists, stack, child, work, settings, limit):
    """Prune the only box on the stack in place; settings: `kernels.ConeSettings`."""
    root = np.int64(0)
    copy_entries(stack.centres[root], child.centre, root, len(child.centre))
    copy_entries(stack.radii[root], child.radius, root, len(child.radius))
    prune_box(ledger, stack, root, child, work, limit, settings.compare_all)
    n = stack.numbers
    n[NODES] += 1
    n[TOP] = -1
    if child.numbers[BOUND] <= limit:
        look_at_box(ledger, lists, stack, child)
        push_box(stack, child, root)


@kernel(nogil=True)
def explore_boxes(ledger, lists, stack, children, work, conflicts, settings, budget):
    """Split, prune and bound boxes depth first until the stack is EMPTY or FULL, a box is too HARD, or the budget is
    spent.

    A HARD box stays on top of the stack: exact arithmetic outside must close it and take it off. So does one whose
    bound is above the level, for later (ASIDE).
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
        if stack.bound[t] > n[LEVEL]:
            return ASIDE
        if not room_for_children(stack):
            return FULL
        parent_lists = stack.n_lists[t] + stack.n_pairs[t]
        if parent_lists <= settings.conflict_lists:
            limit = n[UPPER_COST] - settings.granularity
            needed = min(limit, n[LEVEL]) - stack.own[t]
            rounding = rounds(stack.precision.places, stack.centres[t], stack.radii[t])
            charged = box_conflicts(conflicts, stack, t, needed, rounding, settings.conflict_sample)
            stack.bound[t] = max(stack.bound[t], stack.own[t] + charged)
            if stack.bound[t] > limit:
                n[TOP] -= 1
                n[CONFLICTING] += 1
            if stack.bound[t] > min(limit, n[LEVEL]):
                continue
        axis = longest_axis(stack, t, children[0].centre, children[1].centre)
        radius = 0.5 * stack.radii[t, axis]
        least = stack.precision.least if stack.stalled[t] >= settings.most_stalled else LEAST_RADIUS
        hopeless = hopeless_after(ledger, settings, parent_lists, len(stack.radii[t]))
        if stack.stalled[t] >= hopeless or radius < least:
            return HARD
        n[DONE_WORK] += settings.row_work * (stack.n_rows[t] + stack.n_pairs[t]) + 50
        n[LOOKED_AT] += stack.n_rows[t] + stack.n_pairs[t]
        for c in range(2):
            child = children[c]
            copy_entries(stack.centres[t], child.centre, np.int64(0), len(child.centre))
            copy_entries(stack.radii[t], child.radius, np.int64(0), len(child.radius))
            child.radius[axis] = radius
            child.centre[axis] += radius if c == 0 else -radius
            limit = n[UPPER_COST] - settings.granularity
            prune_box(ledger, stack, t, child, work, limit, settings.compare_all)
            n[NODES] += 1
            if child.numbers[BOUND] <= limit:
                look_at_box(ledger, lists, stack, child)
        parent_stalled = stack.stalled[t]
        n[TOP] -= 1
        first, last = children[0].numbers, children[1].numbers
        better = 0 if first[BOUND] < last[BOUND] else 1
        if first[BOUND] == last[BOUND]:
            fewer = first[N_PAIRS] + first[N_LISTS] < last[N_PAIRS] + last[N_LISTS]
            better = 0 if fewer else 1
        for k in range(2):
            child = children[1 - better if k == 0 else better]  # the better child is pushed last
            if child.numbers[BOUND] > n[UPPER_COST] - settings.granularity:
                continue
            n_lists = child.numbers[N_PAIRS] + child.numbers[N_LISTS]
            n_rows = 2 * child.numbers[N_PAIRS] + child.numbers[N_ROWS]
            stalled = parent_stalled + 1 if n_lists >= 0.9 * parent_lists else 0
            stuck = stalled >= settings.most_stalled and n_rows <= settings.leaf_rows
            if n_lists <= settings.leaf_lists or stuck:
                verdict = search_box(ledger, lists, stack, child)
                if verdict == DONE:
                    continue
                if verdict == ASKING:
                    stalled = settings.hopeless
            push_box(stack, child, stalled)
    return EMPTY
