"""The ledger of a ratio metric: what is settled are sums of statistics, and rows cost heights under a linear minorant.

The costs of a cone's rows are heights in units (see methods/choices/ratio_lists.py) under a minorant of its own or its
parent's, so that a cone reads like one of an additive loss. See methods/cells/ledger.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.cells.box_stack import FEATURES_OF_FEW_CONES, FEW_LISTS
from lpmert.methods.cells.ratio_leaf import count_selections, offer, search_within
from lpmert.methods.cells.ratio_prices import reprice, reprice_box
from lpmert.methods.cells.stack import AGE, CENTRE, DONE_WITH, IMPOSSIBLE, LEAVES, N_LISTS, OPEN, SETTLED
from lpmert.methods.choices.kernels import ASKING, WORKING
from lpmert.methods.choices.ratio_lists import FORBIDDEN, Bound, Ratio
from lpmert.metrics.ratio_kernels import loss_of_total
from lpmert.numeric.cone import outer_normals
from lpmert.numeric.kernels import INFINITE_COST, add_rows, internal


class Ratios(NamedTuple):
    """What a lane keeps of a ratio metric; the statistics in `ratio` are everybody's, the rest is its own.

    loss [1]: the least so far. repriced_every: splits from one minorant to the next; most_selections: of a small cone
    before it is split on. bound: work space of minorants, whose `at` holds the sums at a child's centre; selection [S],
    scores [longest list], total [K]: work space for decoding.
    """

    ratio: Ratio
    bound: Bound
    loss: FloatArray
    repriced_every: int
    most_selections: int
    selection: IntArray
    scores: FloatArray
    total: FloatArray


def open_account(ledger):
    for k in range(len(ledger.bound.at)):
        ledger.bound.at[k] = 0.0


def settle(ledger, numbers, ids, costs, total, start, end, winner):
    classes = ledger.ratio.classes
    own = classes[ids[start]]
    i = start + 1
    while i < end and classes[ids[i]] == own:
        i += 1
    return _enter(ledger, numbers, total, own == FORBIDDEN and end == start + 1, i == end, winner)


def settle_pair(ledger, total, own, winner):
    if ledger.ratio.classes[winner] == FORBIDDEN:
        return INFINITE_COST
    _add(ledger.ratio.statistics, winner, total)
    return own


def look_at_pair(ledger, numbers, cheap, dear, step, lead, error):
    winner = dear if lead > 0.0 else cheap
    if not abs(lead) > error or ledger.ratio.classes[winner] == FORBIDDEN:
        numbers[CENTRE] = INFINITE_COST
    _add(ledger.ratio.statistics, winner, ledger.bound.at)
    return np.int64(0)


def close_account(ledger, child, bound, limit):
    return reprice(ledger.ratio, ledger.bound, child, bound, limit) if _is_due(ledger, child) else bound


def close_box(ledger, child, own, limit):
    return reprice_box(ledger.ratio, ledger.bound, child, own, limit) if _is_due(ledger, child) else own


def look_at_box(ledger, lists, stack, child):
    better = loss_of_total(ledger.ratio.kind, ledger.ratio.parameters, ledger.bound.at) < ledger.loss[0]
    if better and child.numbers[CENTRE] < INFINITE_COST:
        offer(ledger, lists, stack, child.centre)


def hopeless_after(ledger, settings, n_lists, n_features):
    # Selections are tried one by one, and a box with many open lists has too many however often it is split.
    return settings.most_stalled if n_lists > FEW_LISTS and n_features <= FEATURES_OF_FEW_CONES else settings.hopeless


def look_at_centre(ledger, lists, stack, child, clear):
    open_lists = child.numbers[N_LISTS] > 0
    if loss_of_total(ledger.ratio.kind, ledger.ratio.parameters, ledger.bound.at) >= ledger.loss[0]:
        child.numbers[DONE_WITH] = not open_lists
        return
    if open_lists and (not clear or child.numbers[CENTRE] >= INFINITE_COST):
        return
    centre = np.empty(len(child.errors))
    add_rows(child.rays, centre)
    _, clear = offer(ledger, lists, stack, centre)
    child.numbers[DONE_WITH] = clear and not open_lists


def look_inside(ledger, lists, stack, t, x):
    """Heights under a minorant tell too little to be worth decoding."""


def search_leaf(ledger, lists, stack, child):
    stack.numbers[LEAVES] += 1
    if count_selections(ledger, child) > ledger.most_selections:
        return WORKING
    normals, certain = outer_normals(child.rays)
    if not certain:
        return ASKING
    centre = np.empty(len(normals))
    add_rows(child.rays, centre)
    return search_within(ledger, lists, stack, child, child.total, normals, centre)


def search_part(ledger, lists, stack, part, total, normals, centre):
    stack.numbers[LEAVES] += 1
    return search_within(ledger, lists, stack, part, total, normals, centre)


@internal
def _add(statistics, row, sums):
    """Add the statistics of a hypothesis to sums [K]."""
    for k in range(len(sums)):
        sums[k] += statistics[row, k]


@internal
def _enter(ledger, numbers, total, impossible, alike, winner):
    """Add the statistics of the hypothesis that wins at the centre to the sums of settled lists, if those left are
    alike, or else to the sums there; return how the list stands.
    """
    if ledger.ratio.classes[winner] == FORBIDDEN:
        numbers[CENTRE] = INFINITE_COST
    if impossible:
        return IMPOSSIBLE
    _add(ledger.ratio.statistics, winner, total if alike else ledger.bound.at)
    return SETTLED if alike else OPEN


@internal
def _is_due(ledger, child):
    """Complete the sums at the child's centre; return whether its hypotheses are to be priced anew.

    The age of a part are the splits that are left until then: the minorant changes less than the choice between them.
    """
    at = ledger.bound.at
    for k in range(len(at)):
        at[k] += child.total[k]
    if child.numbers[AGE] > 0:
        child.numbers[AGE] -= 1
        return False
    child.numbers[AGE] = ledger.repriced_every - 1
    return True
