"""Branch and bound over the weight space for a ratio metric: split a cone, prune it, bound its sums, descend.

The costs of a cone's rows are heights in units under a linear minorant of its own, so that a cone reads like one of an
additive loss: see exact/cells_kernels.py, and exact/ratio_cells.py for the method.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert.exact.cells_kernels import EMPTY, FULL, HARD, PAUSED, carry_point, halve, longest_edge
from lpmert.exact.cells_stack import CUT_OFF, DONE_WORK, LEAVES, NODES, TOP, UPPER_COST, has_room, push
from lpmert.exact.cuts import ROUNDING, STEP, add_cut, least_over_cuts
from lpmert.exact.ratio_leaf import ASKING, CLOSED, offer, search_leaf
from lpmert.exact.ratio_prune import prune
from lpmert.kernels import INFINITE_COST, internal, kernel
from lpmert.metrics.ratio_kernels import loss_of_total
from lpmert.result import FloatArray, IntArray


class Settings(NamedTuple):
    """leaf_lists, leaf_selections: cones with at most so many open lists and selections are searched by these;
    most_stalled: splits without progress after which a cone of at most leaf_rows rows and any lists is searched too;
    hopeless: after which it is HARD. cut_rows: largest cone that gets cuts; reprice: splits from one minorant to the
    next; largest: bound on all scores.
    """

    leaf_lists: int
    leaf_selections: int
    leaf_rows: int
    most_stalled: int
    hopeless: int
    cut_rows: int
    reprice: int
    largest: float


class State(NamedTuple):
    """loss [1]: the least so far. Work space for decoding: selection [S], scores [longest list], total [K]."""

    loss: FloatArray
    selection: IntArray
    scores: FloatArray
    total: FloatArray


@internal
def _look_at_centre(lists, ratio, stack, state, child, bound, clear):
    """Take the child's centre if its loss is lower; say whether a child without open lists is done with."""
    if loss_of_total(ratio.kind, ratio.parameters, bound.at) >= state.loss[0]:
        return True
    if not clear and child.numbers[1] > 0:
        return True
    _, clear = offer(lists, ratio, stack, state, child.rays.sum(axis=0))
    return clear


@internal
def _cut_off(stack, t, work, settings):
    """Raise the bound of cone t by cuts, from its point on; say whether it exceeds what is left to find."""
    n = stack.numbers
    n_features = len(work.x)
    x, inner = work.x, work.inner
    x[:] = stack.points[t]
    least_here = np.inf
    heaviest = 0.0
    for q in range(len(work.cuts)):
        mass = add_cut(stack, t, x, work.cuts[q], work, settings.largest)[2]
        heaviest = max(heaviest, mass)
        left = float(n[UPPER_COST] - 1 - stack.least[t])
        here = 0.0
        for d in range(n_features):
            here += x[d] * work.cuts[q, d]
        if here < least_here:
            least_here = here
            inner[:] = x
        if here <= left:
            break  # the cuts' function is tight at x: no number of cuts can exceed what it is there
        value = least_over_cuts(work.cuts, q + 1, work.table, work.basis, x)
        if value > left + 1e-9 + ROUNDING * (heaviest + left):
            return True
        # The next cut between the cuts' minimum and the best point so far: Kelley's method jumps about otherwise.
        for d in range(n_features):
            x[d] = STEP * x[d] + (1.0 - STEP) * inner[d]
    stack.points[t] = inner
    return False


@kernel
def prune_root(lists, ratio, stack, totals, child, child_total, state, bound, work, settings):
    """Prune the only cone on the stack in place; its totals are what is settled for good."""
    n = stack.numbers
    child.rays[:] = stack.rays[0]
    child.errors[:] = stack.errors[0]
    totals[0] = ratio.constant
    limit = n[UPPER_COST] - 1
    n[TOP] = -1
    n[NODES] += 1
    below, clear = prune(
        stack, totals, 0, work.middle, -1, child, child_total, ratio, bound, limit, settings.largest, True
    )
    if below <= limit:
        _look_at_centre(lists, ratio, stack, state, child, bound, clear)
        push(stack, child, below, 0)
        totals[0] = child_total
        stack.points[0, :] = 1.0 / len(child.errors)


@kernel
def explore(lists, ratio, stack, totals, children, child_totals, state, bound, work, settings, budget):
    """Split, prune and bound cones depth first until the stack is EMPTY or FULL, a cone is too HARD, or the budget is
    spent.

    A HARD cone stays on top of the stack: exact arithmetic outside must close it and take it off.
    """
    n = stack.numbers
    stop = n[DONE_WORK] + budget
    belows = np.zeros(2, dtype=np.int64)
    settled = np.zeros(2, dtype=np.bool_)
    while n[TOP] >= 0:
        t = n[TOP]
        if stack.bound[t] >= n[UPPER_COST]:
            n[TOP] -= 1
            continue
        if n[DONE_WORK] > stop:
            return PAUSED
        if not has_room(stack):
            return FULL
        if stack.n_lists[t] == 0 or stack.stalled[t] >= settings.hopeless or len(work.best) == 1:
            return HARD
        n[DONE_WORK] += len(work.cuts) * stack.n_rows[t]
        if len(work.cuts) > 0 and stack.n_rows[t] <= settings.cut_rows and _cut_off(stack, t, work, settings):
            n[TOP] -= 1
            n[CUT_OFF] += 1
            continue
        point = stack.points[t].copy()
        age = (stack.fixed[t] + 1) % settings.reprice
        p, q = longest_edge(stack, t, work)
        error, exact_ray = halve(stack, t, p, q, work)
        if not exact_ray:
            return HARD
        parent_bound, parent_stalled, parent_lists = stack.bound[t], stack.stalled[t], stack.n_lists[t]
        n[DONE_WORK] += 8 * stack.n_rows[t] + 50
        for c in range(2):
            child = children[c]
            replaced = p if c == 0 else q
            child.rays[:] = stack.rays[t]
            child.errors[:] = stack.errors[t]
            child.errors[replaced] = error
            for d in range(len(work.best)):
                child.rays[replaced, d] = 0.5 * (stack.rays[t, p, d] + stack.rays[t, q, d])
            limit = n[UPPER_COST] - 1
            below, clear = prune(
                stack,
                totals,
                t,
                work.middle,
                replaced,
                child,
                child_totals[c],
                ratio,
                bound,
                limit,
                settings.largest,
                age == 0,
            )
            n[NODES] += 1
            child.numbers[2] = age
            belows[c] = max(parent_bound, below)
            if below <= limit:
                settled[c] = _look_at_centre(lists, ratio, stack, state, child, bound, clear)
            else:
                belows[c] = INFINITE_COST
        n[TOP] -= 1
        first = 0 if belows[0] > belows[1] else 1  # the better child is pushed last
        for k in range(2):
            c = first if k == 0 else 1 - first
            child = children[c]
            if belows[c] >= n[UPPER_COST]:
                continue
            n_lists = child.numbers[1]
            if n_lists == 0 and settled[c]:
                continue
            stalled = (
                parent_stalled + 1 if n_lists >= 0.9 * parent_lists and child.numbers[0] <= settings.leaf_rows else 0
            )
            if n_lists > 0 and (n_lists <= settings.leaf_lists or stalled >= settings.most_stalled):
                n[LEAVES] += 1
                verdict = search_leaf(lists, ratio, stack, child, child_totals[c], state, settings.leaf_selections)
                if verdict == CLOSED:
                    continue
                if verdict == ASKING:
                    stalled = settings.hopeless
            push(stack, child, belows[c], stalled)
            totals[n[TOP]] = child_totals[c]
            carry_point(point, p, q, c == 0, stack.points[n[TOP]])
    return EMPTY
