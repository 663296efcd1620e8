"""Lists with the statistics of a ratio metric, for kernels: decoding to a loss, and heights in fixed point.

A height is a monotone function of the loss (`height_of_loss`) that linear functions of summed statistics bound from
below. Searches compare heights as whole numbers of units, rounded down for bounds and up for limits.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.metrics.base import RatioMetric
from lpmert.metrics.ratio_kernels import BLEU, CHRF, PER, height_of_loss, loss_of_height, loss_of_total, minorant
from lpmert.model.canonical import group_identical
from lpmert.model.form import Canonical
from lpmert.numeric.half_spaces import with_half_spaces
from lpmert.numeric.kernels import EPSILON, INFINITE_COST, copy_entries, fill, internal, kernel
from lpmert.numeric.leastnorm import SortedLists, in_cap, largest, rounding_bound, score_list, sorted_lists
from lpmert.quoting import quoted

TANGENTS = 8
"""Minorants among which the best one is looked for."""

UNIT = 2.0**-48
"""Height of one unit."""

_MOST_LOST = 2.0**60
"""Units that rounding may take off a bound; beyond, counts are so unlike each other that it would leave 64 bits."""

FORBIDDEN = -1
"""Class of a hypothesis that no weights in the region choose."""


class Ratio(NamedTuple):
    """What the hypotheses of `SortedLists` mean to a ratio metric.

    kind, parameters: see `ratio_kernels`. statistics [M, K]; constant [K]: of lists that are settled for good; reach
    [K]: the largest of each statistic. classes [M]: equal within a list where the statistics are.
    """

    kind: int
    parameters: FloatArray
    statistics: FloatArray
    constant: FloatArray
    reach: FloatArray
    classes: IntArray

    def native(self) -> core.Ratio:
        """Return it for the compiled core."""
        return core.Ratio(self.kind, self.parameters, self.statistics, self.constant, self.reach, self.classes)


class Bound(NamedTuple):
    """Work space of a bound: the box low, high [K] of the sums, at [K] in it, and the slopes [K] of the minorant.

    least, most [K]: of one list; costs [M]: of the rows.
    """

    low: FloatArray
    high: FloatArray
    at: FloatArray
    slopes: FloatArray
    least: FloatArray
    most: FloatArray
    costs: IntArray


def new_bound(n_rows: int, n_columns: int) -> Bound:
    """Return empty work space."""
    low, high, at, slopes, least, most = np.zeros((6, n_columns))
    return Bound(low, high, at, slopes, least, most, np.zeros(n_rows, dtype=np.int64))


def ratio_lists(canonical: Canonical) -> tuple[SortedLists, Ratio]:
    """Return lists for kernels, and after them one list {a, 0} for each limit, a.w > 0.

    Hypotheses keep their order. All who ask about the same lists get the same arrays, not to be written to. Raises
    `MethodError` for a metric that kernels do not know.
    """
    found = _known.get(canonical)
    if found is None:
        found = _known[canonical] = _ratio_lists(canonical)
    return found


_known: WeakKeyDictionary[Canonical, tuple[SortedLists, Ratio]] = WeakKeyDictionary()
"""As long as somebody searches the lists: several do, one after the other or in turns."""


def _ratio_lists(canonical: Canonical) -> tuple[SortedLists, Ratio]:
    totals, n_own = canonical.totals, len(canonical.features)
    metric = totals.metric
    if not isinstance(metric, RatioMetric) or metric.kind not in (BLEU, CHRF, PER):
        raise MethodError(
            f"metric {quoted(metric.name)} is neither additive nor a ratio metric with losses_of_totals, parameters "
            "and the kind BLEU, CHRF or PER; only heuristics take it"
        )
    rows, offsets, counts = with_half_spaces(
        canonical.features, canonical.offsets, totals.statistics, canonical.limits, 0.0
    )
    classes = np.arange(len(rows))
    classes[:n_own] = group_identical(totals.statistics, canonical.offsets)
    classes[n_own + 1 :: 2] = FORBIDDEN
    spread = None if canonical.rounding is None else canonical.rounding.spread
    lists = sorted_lists(rows, offsets, np.zeros(len(rows), dtype=np.int64), canonical.cap, spread)
    reach = counts.max(axis=0, initial=0.0)
    return lists, Ratio(metric.kind, metric.parameters, counts, totals.constant, reach, classes)


@kernel
def decode_total(lists, ratio, weights, selection, scores, total):
    """Write each list's winner (counted within the list) and the summed statistics [K]; return (loss, clear).

    clear: the weights lie in the cap, every winner leads by more than rounding, or is within rounding of its equals
    only, and none is forbidden.
    """
    bound = rounding_bound(lists, weights)
    copy_entries(ratio.constant, total, np.int64(0), len(total))
    clear = in_cap(lists.cap, weights)
    for s in range(len(lists.offsets) - 1):
        begin, length = lists.offsets[s], lists.offsets[s + 1] - lists.offsets[s]
        score_list(lists.columns, begin, length, weights, scores)
        best = largest(scores, length)
        selection[s] = best
        for k in range(len(total)):
            total[k] += ratio.statistics[begin + best, k]
        own = ratio.classes[begin + best]
        clear = clear and own != FORBIDDEN
        if clear:
            least = scores[best] - bound
            for i in range(length):
                if scores[i] >= least and ratio.classes[begin + i] != own:
                    clear = False
                    break
    return loss_of_total(ratio.kind, ratio.parameters, total), clear


@kernel
def height_limit(kind, loss):
    """Return a height in units from which on no loss is lower than this one."""
    if loss >= 1.0:
        return INFINITE_COST
    height = height_of_loss(kind, loss)
    slack = 16.0 * EPSILON * (1.0 + height) + 8.0 * EPSILON / (1.0 - loss)
    return np.int64(np.ceil((height + slack) / UNIT)) + 1


@internal
def lay_bound(ratio, bound, settled, n_open):
    """Fill the slopes of the minorant of a box; return (units that settled sums and the constant have, whether any).

    settled [K]: sums of the lists without a choice; n_open others add, in units, the floor of their slopes . statistics
    each.
    """
    constant = minorant(ratio.kind, ratio.parameters, bound.low, bound.high, bound.at, bound.slopes)
    if constant == np.inf:
        return INFINITE_COST, True
    size = abs(constant)
    error = 0.0
    useful = False
    for k in range(len(settled)):
        constant += bound.slopes[k] * settled[k]
        size += abs(bound.slopes[k]) * settled[k]
        error += abs(bound.slopes[k]) * ratio.reach[k]
        useful = useful or bound.slopes[k] != 0.0
    n_terms = len(settled) + 3
    lost = n_terms * EPSILON * error / UNIT
    if lost * n_open > _MOST_LOST:
        fill(bound.slopes, 0.0)
        return np.int64(0), False
    units = np.int64(np.floor((constant - n_terms * EPSILON * size) / UNIT))
    return units - n_open * (np.int64(lost) + 1), useful


@internal
def row_cost(ratio, slopes, row):
    """Return slopes . statistics of a hypothesis in units."""
    value = 0.0
    for k in range(len(slopes)):
        value += slopes[k] * ratio.statistics[row, k]
    return np.int64(np.floor(value / UNIT))


def best_height(offsets: IntArray, ratio: Ratio, bound: Bound, tangents: int = TANGENTS) -> int:
    """Return the highest of the heights by some minorants, which is left in the bound.

    The first one is tight at bound.at [K], the others at sums of hypotheses that were the cheapest under those before:
    steps of the method of Frank and Wolfe.
    """
    native = ratio.native()
    best, most = bound.at.copy(), -1
    for trial in range(tangents):
        at = bound.at.copy()
        height = core.height_of_all(native, offsets, at, bound.low, bound.high, bound.costs)
        if height > most:
            most, best = height, at
        if height >= INFINITE_COST:
            return most
        cheapest = [begin + int(bound.costs[begin:end].argmin()) for begin, end in pairwise(offsets.tolist())]
        sums = ratio.constant + ratio.statistics[cheapest].sum(axis=0)
        bound.at[:] = at + 2.0 / (trial + 2.0) * (sums - at)
    bound.at[:] = best
    return core.height_of_all(native, offsets, best, bound.low, bound.high, bound.costs)


def cost_of_height(canonical: Canonical, kind: int, height: int) -> int:
    """Return a cost that nothing of at least this height, in units, undercuts."""
    loss = loss_of_height(kind, height * UNIT)
    return max(canonical.cost_of_loss(0.0), canonical.cost_of_loss(min(1.0, loss)))
