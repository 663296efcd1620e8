"""The ledger of an additive loss in the search over selections: hypotheses cost the same everywhere, and are sorted.

See methods/choices/ledger.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert.errors import IntArray
from lpmert.methods.choices.tree import DEPTH, LOOK, OPEN, PHASE, SUM, UPPER
from lpmert.numeric.kernels import INFINITE_COST, copy_entries, inlined
from lpmert.numeric.leastnorm import decode_clearly


class Costs(NamedTuple):
    """rest [S + 1]: what the cheapest choices cost at each depth without the list that it branches on."""

    rest: IntArray


@inlined
def new_costs(tree):
    """Return an empty ledger for a search."""
    return Costs(np.zeros(len(tree.bound), dtype=np.int64))


def take_witness(ledger, lists, tree, scores, weights):
    cost, clear = decode_clearly(lists, weights, tree.selection, scores)
    if clear and cost < tree.numbers[UPPER]:
        tree.numbers[UPPER] = cost
        copy_entries(weights, tree.best_weights, np.int64(0), len(weights))


def take_selection(ledger, tree, depth, weights):
    """Weights that attain it decode it clearly."""


def bound_node(ledger, lists, tree):
    n = tree.numbers
    if n[DEPTH] == 0:
        n[SUM] = 0
        for s in range(len(tree.chosen)):
            if tree.chosen[s] < 0:
                n[SUM] += lists.costs[lists.offsets[s] + tree.pointer[s]]
    n[PHASE] = LOOK
    return OPEN


def costs_of(ledger, lists):
    return lists.costs


def rule_out(ledger, begin, row, end):
    return row + 1 if row + 1 < end else -1


def look_again(ledger, tree, ruled_out):
    return False


def put_back(ledger, lists, tree, begin, end):
    for q in range(end - 1, begin - 1, -1):
        tree.pointer[tree.trail_list[q]] = tree.trail_old[q]


def step(ledger, costs, begin, here, end):
    return INFINITE_COST if here + 1 == end else costs[here + 1] - costs[here]


def is_tight(ledger):
    return True


def slack(ledger, tree):
    return float(tree.numbers[UPPER] - tree.numbers[SUM])


def weigh(ledger, costs, begin, here, end, rate, slack):
    weight = 0.0
    for i in range(here, end):
        excess = float(costs[i] - costs[here])
        if excess >= slack:
            break
        weight += np.exp(-rate * excess / slack)
    return weight


def lay_out(ledger, lists, tree, s):
    depth = tree.numbers[DEPTH]
    tree.branch_next[depth] = tree.pointer[s]
    ledger.rest[depth] = tree.numbers[SUM] - lists.costs[lists.offsets[s] + tree.pointer[s]]


def next_child(ledger, costs, begin, end, position, depth):
    if begin + position >= end:
        return np.int64(-1), np.int64(0)
    return position, ledger.rest[depth] + costs[begin + position]


def enter_child(ledger, lists, tree, s, h):
    """Its bound says all."""
