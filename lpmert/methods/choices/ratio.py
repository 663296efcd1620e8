"""Lists with the statistics of a ratio metric, for the core, and bounds on the oracle score, with each list choosing
independently.

A height is a monotone function of the loss that linear functions of summed statistics bound from below. Searches
compare heights as whole numbers of units, rounded down for bounds and up for limits. A linear minorant is loose where
the length of all hypotheses together is open, as its chords are long; within a piece of the lengths it is close, and a
multiplier keeps the lists from leaving the piece.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.metrics.base import BLEU, BUDGET, CHRF, RatioMetric
from lpmert.model.canonical import Canonical
from lpmert.model.presolve import group_identical
from lpmert.numeric.lists import SortedLists, sorted_lists
from lpmert.numeric.rational import EPSILON
from lpmert.quoting import quoted

TANGENTS = 8
"""Minorants among which the best one is looked for."""

UNIT = 2.0**-48
"""Height of one unit."""

FORBIDDEN = -1
"""Class of a hypothesis that no weights in the region choose."""


class Ratio(NamedTuple):
    """What the hypotheses of `SortedLists` mean to a ratio metric.

    kind, parameters: see `lpmert.metrics.base`. statistics [M, K]; constant [K]: of lists that are settled for good;
    reach [K]: the largest of each statistic. classes [M]: equal within a list where the statistics are.
    """

    kind: int
    parameters: FloatArray
    statistics: FloatArray
    constant: FloatArray
    reach: FloatArray
    classes: IntArray


class Bound(NamedTuple):
    """What a bound without a search rests on: the box low, high [K] of all sums, a minorant on it that is good at `at`
    [K], and what each row costs [M] more under it than the cheapest of its list.
    """

    low: FloatArray
    high: FloatArray
    at: FloatArray
    costs: IntArray


def ratio_lists(canonical: Canonical) -> tuple[SortedLists, Ratio]:
    """Return lists for the core, and after them one list {a, 0} for each limit, a.w > 0.

    Hypotheses keep their order. All who ask about the same lists get the same arrays, not to be written to. Raises
    `MethodError` for a metric whose formula is not known.
    """
    found = _known.get(canonical)
    if found is None:
        found = _known[canonical] = _ratio_lists(canonical)
    return found


_known: WeakKeyDictionary[Canonical, tuple[SortedLists, Ratio]] = WeakKeyDictionary()
"""Lists as long as a search refers to them: several searches share them."""


def _ratio_lists(canonical: Canonical) -> tuple[SortedLists, Ratio]:
    totals, n_own = canonical.totals, len(canonical.features)
    metric = totals.metric
    if not isinstance(metric, RatioMetric) or metric.kind not in (BLEU, CHRF, BUDGET):
        raise MethodError(
            f"metric {quoted(metric.name)} is neither additive nor a ratio metric of lpmert.metrics; only heuristics "
            "take it"
        )
    listed = canonical.with_limits()
    rows, offsets, counts = listed.features, listed.offsets, listed.totals.statistics
    classes = np.arange(len(rows))
    classes[:n_own] = group_identical(totals.statistics, canonical.offsets)
    classes[n_own + 1 :: 2] = FORBIDDEN
    lists = sorted_lists(rows, offsets, np.zeros(len(rows), dtype=np.int64), canonical.cap, listed.rounding)
    reach = counts.max(axis=0, initial=0.0)
    return lists, Ratio(metric.kind, metric.parameters, counts, totals.constant, reach, classes)


def cost_of_height(canonical: Canonical, kind: int, height: int) -> int:
    """Return a lower bound on the costs at or above this height in units."""
    loss = core.loss_of_height(kind, height * UNIT)
    return max(canonical.cost_of_loss(0.0), canonical.cost_of_loss(min(1.0, loss)))


def oracle_height(lists: SortedLists, ratio: Ratio, weights: FloatArray, tangents: int = TANGENTS) -> tuple[int, Bound]:
    """Return a height in units that no selection undercuts, whether attainable or not, and what the bound rests on.

    The highest by some minorants: the first is good at what weights [d] attain, the others at sums of hypotheses that
    were the cheapest under those before.
    """
    winners = core.decode(lists.rows, lists.offsets, weights)
    at = ratio.constant + ratio.statistics[winners].sum(axis=0)
    height, low, high, best, costs = core.best_height(ratio, lists.offsets, at, tangents)
    return height, Bound(low, high, best, costs)


_LENGTH = {BLEU: 1, CHRF: 0, BUDGET: 1}
"""The statistic that says how long hypotheses are, or the one with a budget, by kind of metric."""

_SPLITS, _TANGENTS, _MULTIPLIERS = 12, 2, 8
"""How often a piece is halved, minorants of a piece, and multipliers of a minorant."""


def close_oracle_height(lists: SortedLists, ratio: Ratio, height: int, bound: Bound) -> int:
    """Return a height in units that no selection undercuts, whether attainable or not, near that of the oracle.

    height, bound: those of `oracle_height`; the answer is never less. The range of lengths is halved where its bound is
    the least, again and again.
    """
    if height >= core.INFINITE_COST or any((numbers % 1.0).any() for numbers in (ratio.statistics, ratio.constant)):
        return height  # sums that are rounded may lie outside of a piece
    column = _LENGTH[ratio.kind]
    pieces = _Pieces(ratio, lists.offsets, column)
    heap = [(height, float(bound.low[column]), float(bound.high[column]))]
    for _ in range(_SPLITS):
        _, begin, end = heap[0]
        middle = math.floor((begin + end) / 2.0)
        if middle <= begin:
            break
        parent, *_ = heappop(heap)
        for first, last in ((begin, float(middle)), (float(middle), end)):
            heappush(heap, (max(parent, pieces.height(first, last, bound.low, bound.high, bound.at)), first, last))
    return heap[0][0]


class _Pieces:
    """Bounds of selections whose summed length, statistic `column`, is in a piece; offsets [S + 1] of the lists."""

    def __init__(self, ratio: Ratio, offsets: IntArray, column: int) -> None:
        self._ratio, self._offsets, self._column = ratio, offsets, column
        self._lengths = np.ascontiguousarray(ratio.statistics[:, column])
        apart, starts = ratio.statistics - self._lengths[:, None], offsets[:-1]
        more = ratio.constant - ratio.constant[column]
        self._least = more + np.minimum.reduceat(apart, starts).sum(axis=0)
        self._most = more + np.maximum.reduceat(apart, starts).sum(axis=0)
        """How far the other sums may be from the length."""

    def height(self, first: float, last: float, low: FloatArray, high: FloatArray, at: FloatArray) -> int:
        """Return a height in units for lengths from `first` to `last`; low, high [K]: the box of all sums, at [K]: a
        point that may be good.
        """
        ratio = self._ratio
        low, high = np.maximum(low, first + self._least), np.minimum(high, last + self._most)
        if (low > high).any():
            return core.INFINITE_COST  # no selection has such a length
        found = -1
        for trial in range(_TANGENTS):
            at = np.clip(at, low, high)
            constant, slopes = core.lay_minorant(ratio.kind, ratio.parameters, low, high, at)
            if constant == math.inf:
                return core.INFINITE_COST
            best, sums = self._over_multipliers(constant, slopes, first, last)
            found = max(found, best)
            at = at + 2.0 / (trial + 2.0) * (sums - at)
        return found

    def _over_multipliers(
        self, constant: float, slopes: FloatArray, first: float, last: float
    ) -> tuple[int, FloatArray]:
        """Return the highest of some heights, and sums [K] of rows that were the cheapest last.

        Any multiplier of what the length is beyond an end of the piece makes a bound; the best one is where the
        cheapest rows have just that length.
        """
        lines = np.column_stack([self._ratio.statistics @ slopes, self._lengths])
        best, sums = self._cheapest(constant, slopes, lines, 0.0, first)
        length = sums[self._column]
        if first <= length <= last:
            return best, sums
        end, sign = (first, 1.0) if length < first else (last, -1.0)
        least, most = 0.0, 1.0 / max(1.0, end)
        wide = False
        for _ in range(_MULTIPLIERS):
            multiplier = (least + most) / 2.0 if wide else most
            height, sums = self._cheapest(constant, slopes, lines, sign * multiplier, end)
            best = max(best, height)
            if sign * (sums[self._column] - end) < 0.0:
                least = multiplier
                most = most if wide else 2.0 * most
            else:
                most, wide = multiplier, True
        return best, sums

    def _cheapest(
        self, constant: float, slopes: FloatArray, lines: FloatArray, multiplier: float, end: float
    ) -> tuple[int, FloatArray]:
        """Return the height for a multiplier, rounded down, and the sums [K] of the cheapest rows.

        lines [M, 2]: what a row costs, and the length of which each unit costs the multiplier less.
        """
        ratio, column = self._ratio, self._column
        rows = core.decode(lines, self._offsets, np.array([-1.0, multiplier]))
        least = lines[rows, 0] - multiplier * lines[rows, 1]
        settled = float(slopes @ ratio.constant) - multiplier * ratio.constant[column]
        beyond = multiplier * end
        total = math.fsum([constant, settled, beyond, *least.tolist()])
        sizes = np.abs(slopes)
        sizes[column] += abs(multiplier)
        size = abs(constant) + abs(beyond) + float(sizes @ (ratio.constant + len(rows) * ratio.reach))
        lowered = total - 4.0 * (len(slopes) + 4) * EPSILON * size
        return math.floor(lowered / UNIT), ratio.constant + ratio.statistics[rows].sum(axis=0)
