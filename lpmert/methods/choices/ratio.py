"""Lists with the statistics of a ratio metric, as the core takes them, and oracle bounds, with each list choosing
independently.

The height is a monotone function of the loss. Linear functions of the summed statistics, the minorants, bound it from
below. Searches compare heights as whole numbers of units, rounded down for bounds and up for cut-offs. A minorant is
loose over a wide range of total lengths, where its chords are long. `tight_oracle_height` therefore divides the range
into pieces; in each piece, a Lagrange multiplier penalises total lengths outside of it.
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

TANGENTS = 8  # minorants from which the highest bound is taken
UNIT = 2.0**-48  # height of one unit
FORBIDDEN = -1  # class of a hypothesis that no weights in the region choose


class Ratio(NamedTuple):
    """A ratio metric, and the statistics of the hypotheses of `SortedLists`.

    kind, parameters: see `lpmert.metrics.base`. statistics [M, K]. constant [K]: summed statistics of the lists settled
    by presolve. reach [K]: the largest value of each statistic. classes [M]: equal for hypotheses of a list with equal
    statistics.
    """

    kind: int
    parameters: FloatArray
    statistics: FloatArray
    constant: FloatArray
    reach: FloatArray
    classes: IntArray


class Bound(NamedTuple):
    """The minorant of an oracle bound.

    low, high [K]: the box of all sums. at [K]: the point where the minorant is tight. costs [M]: the cost of each row
    under the minorant, above the cheapest row of its list.
    """

    low: FloatArray
    high: FloatArray
    at: FloatArray
    costs: IntArray


_cache: WeakKeyDictionary[Canonical, tuple[SortedLists, Ratio]] = WeakKeyDictionary()
"""Lists shared by several searches, kept while any of them refers to their canonical form."""


def ratio_lists(canonical: Canonical) -> tuple[SortedLists, Ratio]:
    """Return lists for the core, followed by one list {a, 0} for each limit a.w > 0.

    Hypotheses keep their order. Repeated calls for the same lists return the same arrays, which are read-only by
    convention. Raises `MethodError` for a metric without a known formula.
    """
    if canonical in _cache:
        return _cache[canonical]
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
    _cache[canonical] = lists, Ratio(metric.kind, metric.parameters, counts, totals.constant, reach, classes)
    return _cache[canonical]


def cost_of_height(canonical: Canonical, kind: int, height: int) -> int:
    """Return a lower bound on the costs of selections of at least this height in units."""
    loss = core.loss_of_height(kind, height * UNIT)
    return max(canonical.cost_of_loss(0.0), canonical.cost_of_loss(min(1.0, loss)))


def oracle_height(lists: SortedLists, ratio: Ratio, weights: FloatArray, tangents: int = TANGENTS) -> tuple[int, Bound]:
    """Return a lower bound on the height in units of every selection, attainable or not, and its minorant.

    The bound is the highest of several minorants: the first is tight at the sums of decoding with weights [d], each
    further one at the sums of the cheapest rows under earlier ones.
    """
    winners = core.decode(lists.rows, lists.offsets, weights)
    at = ratio.constant + ratio.statistics[winners].sum(axis=0)
    height, low, high, best, costs = core.best_height(ratio, lists.offsets, at, tangents)
    return height, Bound(low, high, best, costs)


_LENGTH = {BLEU: 1, CHRF: 0, BUDGET: 1}
"""By kind of metric, the statistic with the length of the hypotheses, or the statistic with a budget."""

_SPLITS, _TANGENTS, _MULTIPLIERS = 12, 2, 8
"""Number of halvings of pieces, of minorants for each piece, and of multipliers for each minorant."""


def tight_oracle_height(lists: SortedLists, ratio: Ratio, height: int, bound: Bound) -> int:
    """Return a tighter lower bound on the height in units of every selection, attainable or not.

    height, bound: from `oracle_height`; the result is at least this height. The piece of total lengths with the least
    bound is halved repeatedly.
    """
    if height >= core.INFINITE_COST or any((numbers % 1.0).any() for numbers in (ratio.statistics, ratio.constant)):
        return height  # rounded sums could lie outside of a piece
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
            heappush(heap, (max(parent, pieces.height(first, last, bound)), first, last))
    return heap[0][0]


class _Pieces:
    """Bounds on selections with a total length, statistic `column`, in a piece; offsets [S + 1]: of the lists."""

    def __init__(self, ratio: Ratio, offsets: IntArray, column: int) -> None:
        self._ratio, self._offsets, self._column = ratio, offsets, column
        self._lengths = np.ascontiguousarray(ratio.statistics[:, column])
        excess, starts = ratio.statistics - self._lengths[:, None], offsets[:-1]
        more = ratio.constant - ratio.constant[column]
        # The least and the largest differences between the other sums and the total length.
        self._least = more + np.minimum.reduceat(excess, starts).sum(axis=0)
        self._most = more + np.maximum.reduceat(excess, starts).sum(axis=0)

    def height(self, first: float, last: float, bound: Bound) -> int:
        ratio, at = self._ratio, bound.at
        low, high = np.maximum(bound.low, first + self._least), np.minimum(bound.high, last + self._most)
        if (low > high).any():
            return core.INFINITE_COST  # no selection has such a total length
        highest = -1
        for trial in range(_TANGENTS):
            at = np.clip(at, low, high)
            constant, slopes = core.lay_minorant(ratio.kind, ratio.parameters, low, high, at)
            if constant == math.inf:
                return core.INFINITE_COST
            best, sums = self._over_multipliers(constant, slopes, first, last)
            highest = max(highest, best)
            at = at + 2.0 / (trial + 2.0) * (sums - at)
        return highest

    def _over_multipliers(
        self, constant: float, slopes: FloatArray, first: float, last: float
    ) -> tuple[int, FloatArray]:
        """Return the highest bound of several multipliers, and the sums [K] of the cheapest rows at the last one.

        Every multiplier on the distance of the total length to one end of the piece gives a bound; the best one makes
        the total length of the cheapest rows equal to that end.
        """
        lines = np.column_stack([self._ratio.statistics @ slopes, self._lengths])
        best, sums = self._cheapest(constant, slopes, lines, 0.0, first)
        length = sums[self._column]
        if first <= length <= last:
            return best, sums
        end, sign = (first, 1.0) if length < first else (last, -1.0)
        least, most = 0.0, 1.0 / max(1.0, end)
        bracketed = False
        for _ in range(_MULTIPLIERS):
            multiplier = (least + most) / 2.0 if bracketed else most
            height, sums = self._cheapest(constant, slopes, lines, sign * multiplier, end)
            best = max(best, height)
            if sign * (sums[self._column] - end) < 0.0:
                least = multiplier
                most = most if bracketed else 2.0 * most
            else:
                most, bracketed = multiplier, True
        return best, sums

    def _cheapest(
        self, constant: float, slopes: FloatArray, lines: FloatArray, multiplier: float, end: float
    ) -> tuple[int, FloatArray]:
        """Return the bound of a multiplier, rounded down, and the sums [K] of the cheapest rows.

        lines [M, 2]: cost and length of each row; a row counts with its cost minus the multiplier times its length.
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
