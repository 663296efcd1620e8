"""The bound of the oracle for a ratio metric, drawn closer by cutting the range of lengths into pieces.

A linear minorant is loose where the length of all hypotheses together is open, as its chords are long. Within a piece
of the lengths it is close; a multiplier keeps the lists from leaving the piece.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray
from lpmert.methods.choices.ratio_lists import UNIT, Bound, Ratio
from lpmert.metrics.base import BLEU, CHRF, PER
from lpmert.numeric.lists import SortedLists
from lpmert.numeric.rounding import EPSILON

_LENGTH = {BLEU: 1, CHRF: 0, PER: 1}
"""The statistic that says how long hypotheses are, by kind of metric."""

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
        values = self._ratio.statistics @ slopes
        best, sums = self._cheapest(constant, slopes, values, 0.0, first)
        length = sums[self._column]
        if first <= length <= last:
            return best, sums
        end, sign = (first, 1.0) if length < first else (last, -1.0)
        least, most = 0.0, 1.0 / max(1.0, end)
        wide = False
        for _ in range(_MULTIPLIERS):
            multiplier = (least + most) / 2.0 if wide else most
            height, sums = self._cheapest(constant, slopes, values, sign * multiplier, end)
            best = max(best, height)
            if sign * (sums[self._column] - end) < 0.0:
                least = multiplier
                most = most if wide else 2.0 * most
            else:
                most, wide = multiplier, True
        return best, sums

    def _cheapest(
        self, constant: float, slopes: FloatArray, values: FloatArray, multiplier: float, end: float
    ) -> tuple[int, FloatArray]:
        """Return the height for a multiplier, rounded down, and the sums [K] of the cheapest rows."""
        ratio, column = self._ratio, self._column
        rows, least = core.cheapest_of_lists(values, self._lengths, multiplier, self._offsets)
        settled = float(slopes @ ratio.constant) - multiplier * ratio.constant[column]
        beyond = multiplier * end
        total = math.fsum([constant, settled, beyond, *least.tolist()])
        sizes = np.abs(slopes)
        sizes[column] += abs(multiplier)
        size = abs(constant) + abs(beyond) + float(sizes @ (ratio.constant + len(least) * ratio.reach))
        lowered = total - 4.0 * (len(slopes) + 4) * EPSILON * size
        return math.floor(lowered / UNIT), ratio.constant + ratio.statistics[rows].sum(axis=0)
