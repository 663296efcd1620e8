"""The selections of a small part of the weight space, one after another.

Those that would lower the loss are tested for attainability.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.cells.leaf import leaf_lists
from lpmert.methods.cells.stack import BOUND, DONE_WORK, LEAF_LPS, N_LISTS, UPPER_COST
from lpmert.methods.choices.kernels import ASKING, DONE, WORKING
from lpmert.methods.choices.ratio_lists import FORBIDDEN, decode_total, height_limit
from lpmert.metrics.ratio_kernels import loss_of_total
from lpmert.numeric.kernels import INFINITE_COST, copy_entries, internal
from lpmert.numeric.leastnorm import (
    FEASIBLE,
    INFEASIBLE,
    Corrals,
    Scratch,
    SortedLists,
    new_corrals,
    new_scratch,
    separate,
)


@internal
def offer(ledger, lists, stack, weights):
    """Decode weights on all lists and take them if their loss is lower, beyond rounding; return (loss, clear)."""
    loss, clear = decode_total(lists, ledger.ratio, weights, ledger.selection, ledger.scores, ledger.total)
    if clear and loss < ledger.loss[0]:
        ledger.loss[0] = loss
        stack.numbers[UPPER_COST] = height_limit(ledger.ratio.kind, loss)
        copy_entries(weights, stack.best_weights, np.int64(0), len(weights))
    return loss, clear


class Leaf(NamedTuple):
    """The lists of a small part, its sides last, the choice of each, and what an LP on them needs."""

    lists: SortedLists
    decided: IntArray
    chosen: IntArray
    corrals: Corrals
    scratch: Scratch
    counters: IntArray
    centre: FloatArray


@internal
def _settle(ledger, lists, stack, leaf, total):
    """Take the selection of a leaf, whose sums are total [K], if it lowers the loss and is attainable.

    DONE, or ASKING where exact arithmetic has to decide.
    """
    loss = loss_of_total(ledger.ratio.kind, ledger.ratio.parameters, total)
    if loss >= ledger.loss[0]:
        return DONE
    corrals = leaf.corrals
    slot = start = np.int64(0)
    corrals.size[slot] = 0
    copy_entries(leaf.centre, corrals.point[slot], start, len(leaf.centre))
    stack.numbers[LEAF_LPS] += 1
    size = len(leaf.decided)
    answer = separate(leaf.lists, leaf.decided, size, start, leaf.chosen, corrals, slot, leaf.scratch, leaf.counters)
    if answer == INFEASIBLE:
        return DONE
    if answer == FEASIBLE:
        found, clear = offer(ledger, lists, stack, corrals.point[0])
        if clear and found == loss:
            return DONE
    return ASKING


@internal
def count_selections(ledger, part):
    """Return how many selections a part of the weight space has, or some number that is too many."""
    number = 1
    for a in range(part.numbers[N_LISTS]):
        number *= part.ends[a + 1] - part.ends[a]
        if number > ledger.most_selections:
            break
    return number


@internal(allocates=True)
def search_within(ledger, lists, stack, part, total, normals, centre):
    """Try the selections of a part, within the sides of normals [k, D], unless they are too many; keep what lowers the
    loss.

    DONE if none is left that might, WORKING if there are too many, ASKING if exact arithmetic has to decide. The part
    that is tested is slightly wider, where a dropped hypothesis might win: what is found is decoded on all lists.
    """
    n = stack.numbers
    ratio = ledger.ratio
    n_lists = part.numbers[N_LISTS]
    number = count_selections(ledger, part)
    if number > ledger.most_selections:
        return WORKING
    n_sides, n_features = normals.shape
    n_columns = len(total)
    least = np.empty(n_lists, dtype=np.int64)
    for a in range(n_lists):
        least[a] = INFINITE_COST
        for i in range(part.ends[a], part.ends[a + 1]):
            if ratio.classes[part.ids[i]] != FORBIDDEN:
                least[a] = min(least[a], part.costs[i])
    own, longest = leaf_lists(lists, part, normals)
    leaf = Leaf(
        own,
        np.arange(n_lists + n_sides),
        np.zeros(n_lists + n_sides, dtype=np.int64),
        new_corrals(1, n_features),
        new_scratch(n_features, longest),
        np.zeros(2, dtype=np.int64),
        centre,
    )
    chosen = leaf.chosen
    totals = np.empty((n_lists + 1, n_columns))
    copy_entries(total, totals[0], np.int64(0), n_columns)
    bounds = np.empty(n_lists + 1, dtype=np.int64)
    bounds[0] = part.numbers[BOUND]
    verdict = DONE
    a = 0
    if n_lists == 0:
        verdict = _settle(ledger, lists, stack, leaf, totals[0])
        a = -1
    else:
        chosen[0] = -1
    while a >= 0 and verdict == DONE:
        chosen[a] += 1
        row = part.ends[a] + chosen[a]
        if row == part.ends[a + 1]:
            a -= 1
            continue
        if ratio.classes[part.ids[row]] == FORBIDDEN:
            continue
        bounds[a + 1] = bounds[a] + part.costs[row] - least[a]
        if bounds[a + 1] >= n[UPPER_COST]:
            continue
        for k in range(n_columns):
            totals[a + 1, k] = totals[a, k] + ratio.statistics[part.ids[row], k]
        if a + 1 < n_lists:
            a += 1
            chosen[a] = -1
        else:
            verdict = _settle(ledger, lists, stack, leaf, totals[n_lists])
    n[DONE_WORK] += 20 * number + leaf.counters[1] * len(own.rows)
    return verdict
