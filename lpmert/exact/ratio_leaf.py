"""The selections of a small cone, one after another: those that would lower the loss are tested for attainability."""

from __future__ import annotations

import numpy as np

from lpmert.exact.cells_stack import DONE_WORK, LEAF_LPS, UPPER_COST
from lpmert.exact.ratio_lists import FORBIDDEN, decode_total, height_limit
from lpmert.geometry.cone import outer_normals
from lpmert.geometry.leastnorm import FEASIBLE, INFEASIBLE, Corrals, Lists, Scratch, separate, transpose_lists
from lpmert.kernels import INFINITE_COST, internal
from lpmert.metrics.ratio_kernels import loss_of_total

CLOSED, ASKING, TOO_MANY = range(3)


@internal
def offer(lists, ratio, stack, state, weights):
    """Decode weights on all lists and take them if their loss is lower, beyond rounding; return (loss, clear).

    state: weights' selection, scores and sums to write to, and the least loss so far.
    """
    loss, clear = decode_total(lists, ratio, weights, state.selection, state.scores, state.total)
    if clear and loss < state.loss[0]:
        state.loss[0] = loss
        stack.numbers[UPPER_COST] = height_limit(ratio.kind, loss)
        stack.best_weights[:] = weights
    return loss, clear


@internal
def _leaf_lists(lists_of_all, child, normals):
    """Return the lists of a cone and after them {normal, 0} for each of its sides."""
    n_features = len(normals)
    n_rows, n_lists = child.numbers[0], child.numbers[1]
    rows = np.zeros((n_rows + 2 * n_features, n_features))
    offsets = np.empty(n_lists + n_features + 1, dtype=np.int64)
    for i in range(n_rows):
        rows[i] = lists_of_all.rows[child.ids[i]]
    offsets[: n_lists + 1] = child.ends[: n_lists + 1]
    for k in range(n_features):
        offsets[n_lists + k + 1] = n_rows + 2 * (k + 1)
        rows[n_rows + 2 * k] = normals[k]
    reach = np.zeros(n_features)
    for i in range(len(rows)):
        for d in range(n_features):
            reach[d] = max(reach[d], abs(rows[i, d]))
    columns = np.empty(rows.size)
    transpose_lists(rows, offsets, columns)
    return Lists(rows, columns, offsets, np.zeros(len(rows), dtype=np.int64), reach, lists_of_all.cap)


@internal
def search_leaf(lists_of_all, ratio, stack, child, child_total, state, most):
    """Try the selections of a cone, at most `most`, and keep what lowers the loss.

    CLOSED if none is left that might, TOO_MANY if there are more, ASKING if exact arithmetic has to decide. The cone
    that is tested is slightly wider, where a dropped hypothesis might win: what is found is decoded on all lists.
    """
    n = stack.numbers
    n_lists = child.numbers[1]
    n_features = lists_of_all.rows.shape[1]
    n_columns = len(child_total)
    number = 1
    longest = 2
    for a in range(n_lists):
        longest = max(longest, child.ends[a + 1] - child.ends[a])
        number *= child.ends[a + 1] - child.ends[a]
        if number > most:
            return TOO_MANY
    normals, certain = outer_normals(child.rays)
    if not certain:
        return ASKING
    least = np.empty(n_lists, dtype=np.int64)
    for a in range(n_lists):
        least[a] = INFINITE_COST
        for i in range(child.ends[a], child.ends[a + 1]):
            if ratio.classes[child.ids[i]] != FORBIDDEN:
                least[a] = min(least[a], child.costs[i])
    lists = _leaf_lists(lists_of_all, child, normals)
    slots = n_features + 4
    corrals = Corrals(
        np.zeros((1, slots, n_features)),
        np.zeros((1, slots)),
        np.zeros((1, slots), dtype=np.int64),
        np.zeros((1, slots), dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.zeros((1, n_features)),
    )
    scratch = Scratch(np.zeros((slots, slots)), np.zeros(slots), np.zeros(slots), np.zeros(longest))
    counters = np.zeros(2, dtype=np.int64)
    decided = np.arange(n_lists + n_features)
    chosen = np.zeros(n_lists + n_features, dtype=np.int64)
    totals = np.empty((n_lists + 1, n_columns))
    totals[0] = child_total
    bounds = np.empty(n_lists + 1, dtype=np.int64)
    bounds[0] = child.numbers[3]
    a = 0
    chosen[0] = -1
    verdict = CLOSED
    while a >= 0 and verdict == CLOSED:
        chosen[a] += 1
        row = child.ends[a] + chosen[a]
        if row == child.ends[a + 1]:
            a -= 1
            continue
        if ratio.classes[child.ids[row]] == FORBIDDEN:
            continue
        bounds[a + 1] = bounds[a] + child.costs[row] - least[a]
        if bounds[a + 1] >= n[UPPER_COST]:
            continue
        for k in range(n_columns):
            totals[a + 1, k] = totals[a, k] + ratio.statistics[child.ids[row], k]
        if a + 1 < n_lists:
            a += 1
            chosen[a] = -1
            continue
        loss = loss_of_total(ratio.kind, ratio.parameters, totals[n_lists])
        if loss >= state.loss[0]:
            continue
        corrals.size[0] = 0
        for d in range(n_features):
            corrals.point[0, d] = 0.0
            for k in range(n_features):
                corrals.point[0, d] += child.rays[k, d]
        n[LEAF_LPS] += 1
        answer = separate(lists, decided, n_lists + n_features, 0, chosen, corrals, 0, scratch, counters)
        if answer == FEASIBLE:
            found, clear = offer(lists_of_all, ratio, stack, state, corrals.point[0])
            if not clear or found != loss:
                verdict = ASKING
        elif answer != INFEASIBLE:
            verdict = ASKING
    n[DONE_WORK] += 20 * number + counters[1] * len(lists.rows)
    return verdict
