"""The ledger of an additive loss: what is settled is one sum, and rows cost the same in every cone.

See methods/cells/ledger.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert.methods.cells.leaf import leaf_lists
from lpmert.methods.cells.stack import CENTRE, DONE_WORK, FIXED, LEAF_LPS, LEAVES, OPEN, SETTLED, UPPER_COST
from lpmert.methods.choices.kernels import ASKING, search
from lpmert.methods.choices.ledger_of_sums import new_costs
from lpmert.methods.choices.tree import LPS, UPPER, WORK, ChoiceSettings, new_tree
from lpmert.numeric.cone import outer_normals
from lpmert.numeric.kernels import add_rows, clear_cost, copy_entries, internal
from lpmert.numeric.leastnorm import in_cap, new_corrals, new_scratch, rounding_bound


class Sums(NamedTuple):
    """leaf_work: scores that may be computed in a small cone before it is split on; selections: how it is searched."""

    leaf_work: int
    selections: ChoiceSettings


@internal
def offer(lists, stack, weights):
    """Decode weights on all lists and take them if they cost less, beyond rounding; return (cost, clear)."""
    bound = rounding_bound(lists, weights)
    cost, clear = clear_cost(lists.rows, lists.offsets, lists.costs, weights, bound)
    if clear and cost < stack.numbers[UPPER_COST] and in_cap(lists.cap, weights):
        stack.numbers[UPPER_COST] = cost
        copy_entries(weights, stack.best_weights, np.int64(0), len(weights))
    return cost, clear


def open_account(ledger):
    """There is nothing to begin with."""


def settle(ledger, numbers, ids, costs, total, start, end, winner):
    return SETTLED if costs[end - 1] == costs[start] else OPEN


def settle_pair(ledger, total, own, winner):
    return own


def look_at_pair(ledger, numbers, cheap, dear, step, lead, error):
    return np.int64(0) if -lead > error else step


def close_account(ledger, child, bound, limit):
    return bound


def close_box(ledger, child, own, limit):
    return own


def look_at_box(ledger, lists, stack, child):
    if child.numbers[CENTRE] < stack.numbers[UPPER_COST]:
        offer(lists, stack, child.centre)


def hopeless_after(ledger, settings, n_lists, n_features):
    return settings.hopeless


def look_at_centre(ledger, lists, stack, child, clear):
    if clear and child.numbers[CENTRE] < stack.numbers[UPPER_COST]:
        centre = np.empty(len(child.errors))
        add_rows(child.rays, centre)
        offer(lists, stack, centre)


def look_inside(ledger, lists, stack, t, x):
    weights = np.zeros(len(x))
    for k in range(len(x)):
        for d in range(len(x)):
            weights[d] += stack.rays[t, k, d] * x[k]
    offer(lists, stack, weights)


@internal(allocates=True)
def search_within(ledger, lists, stack, part, normals, centre):
    """Search the lists of a part of the weight space selection by selection, within the sides of normals [k, D].

    The search sees a slightly wider part, where a dropped hypothesis might win. What it finds is therefore decoded on
    all lists; if that gives another cost, the leaf's bound cannot be trusted, and the answer is ASKING.
    """
    n = stack.numbers
    own, longest = leaf_lists(lists, part, normals)
    n_sides, n_features = normals.shape
    corrals = new_corrals(len(own.offsets) - 1 - n_sides + 2, n_features)
    copy_entries(centre, corrals.point[0], np.int64(0), n_features)
    upper = n[UPPER_COST] - part.numbers[FIXED]
    tree = new_tree(own, n_sides, 64, 64, 32, upper, centre)
    scratch = new_scratch(n_features, longest)
    state = search(new_costs(tree), own, tree, corrals, scratch, ledger.selections, ledger.leaf_work)
    n[LEAF_LPS] += tree.numbers[LPS]
    n[DONE_WORK] += tree.numbers[WORK]
    if tree.numbers[UPPER] < upper:
        cost, clear = offer(lists, stack, tree.best_weights)
        if not clear or cost != tree.numbers[UPPER] + part.numbers[FIXED]:
            return ASKING
    return state


def search_leaf(ledger, lists, stack, child):
    n = stack.numbers
    n[LEAVES] += 1
    normals, certain = outer_normals(child.rays)
    if not certain:
        return ASKING
    centre = np.empty(len(normals))
    add_rows(child.rays, centre)
    return search_within(ledger, lists, stack, child, normals, centre)


def search_part(ledger, lists, stack, part, total, normals, centre):
    stack.numbers[LEAVES] += 1
    return search_within(ledger, lists, stack, part, normals, centre)
