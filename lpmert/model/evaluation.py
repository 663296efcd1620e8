"""The loss of weights: decoding with ties found and broken in exact arithmetic."""

from __future__ import annotations

from math import fsum
from typing import NamedTuple

import numpy as np

from lpmert.core import decode
from lpmert.errors import FloatArray, IntArray
from lpmert.numeric import rational
from lpmert.numeric.lists import blocks_of_lists, list_numbers
from lpmert.numeric.rounding import Rounding, exact_differences


class Decoded(NamedTuple):
    """Chosen rows [S]: selection with ties broken by the rule, low and high with ties at best and worst.

    strict: no tie between unequal values decides. margin: infinite if no list has other hypotheses.
    """

    selection: IntArray
    low: IntArray
    high: IntArray
    tied_lists: int
    strict: bool
    margin: float


class Evaluator:
    """Decodes lists without identical feature vectors: features [M, D], offsets [S + 1].

    statistics [M, K]: the metric sums them; losses [M]: `None` for a metric that is not additive. A tie matters unless
    the losses, or without them the statistics, are equal. rounding: the exact features where doubles round them; if
    they are unknown, ties that depend on them count as ties.
    """

    def __init__(
        self,
        features: FloatArray,
        offsets: IntArray,
        statistics: FloatArray,
        losses: FloatArray | IntArray | None,
        rounding: Rounding | None = None,
    ) -> None:
        self.features, self.offsets, self._rounding = features, offsets, rounding
        self.statistics, self.losses = statistics, losses
        self._values = statistics if losses is None else losses
        self._last: tuple[FloatArray, Decoded] | None = None

    def total(self, selection: IntArray) -> FloatArray:
        return np.array([fsum(column) for column in self.statistics[selection].T.tolist()])

    def alike(self, first: IntArray, second: IntArray) -> bool:
        return bool((self._values[first] == self._values[second]).all())

    def decode(self, weights: FloatArray) -> Decoded:
        """Return the winners at weights [D]; on exact ties the first one wins."""
        last = self._last  # read once: other threads may replace it
        if last is None or not np.array_equal(weights, last[0]):  # reports ask several times
            last = self._last = weights.copy(), self._decode(weights)
        return last[1]

    def _decode(self, weights: FloatArray) -> Decoded:
        w, exponent = rational.below_one(weights)  # so that products cannot overflow
        blocks = [block[1:] for block in blocks_of_lists(self.offsets)] or [(slice(0), self.offsets)]
        parts = [self._decode_block(weights, w, *block) for block in blocks]
        selection, low, high = (np.concatenate([part[k] for part in parts]) for k in range(3))
        margin = float(np.ldexp(max(0.0, min(part.margin for part in parts)), exponent))
        tied_lists, strict = sum(part.tied_lists for part in parts), all(part.strict for part in parts)
        return Decoded(selection, low, high, tied_lists, strict, margin)

    def _decode_block(self, weights: FloatArray, w: FloatArray, block: slice, offsets: IntArray) -> Decoded:
        """Return the winners of the lists of a block of rows, offsets from 0.

        weights [D]: for exact arithmetic; w [D]: these times a power of two, rounded if tiny, for doubles.
        """
        features, begin = self.features[block], block.start or 0
        lists = list_numbers(offsets)
        scores = features @ w
        tiny = rational.SMALLEST_NORMAL  # more than underflow takes from a weight or a product
        sizes = np.maximum.reduceat(np.abs(features) @ (np.abs(w) + tiny), offsets[:-1])
        error = 2 * (len(w) + 3) * (rational.EPSILON * sizes + tiny)
        if self._rounding is not None:
            error += self._rounding.off(w)
        best = np.maximum.reduceat(scores, offsets[:-1])
        close = scores >= (best - error)[lists]
        tied = np.add.reduceat(close.astype(np.int64), offsets[:-1]) > 1
        chosen = np.flatnonzero(close & ~tied[lists])
        selection = np.empty(len(offsets) - 1, dtype=np.int64)
        selection[lists[chosen]] = begin + chosen
        low, high = selection.copy(), selection.copy()
        strict = True
        for s in np.flatnonzero(tied):
            rows = begin + offsets[s] + np.flatnonzero(close[offsets[s] : offsets[s + 1]])
            winners = rows[_best(weights, self.features, rows, self._rounding)]
            selection[s] = low[s] = high[s] = winners[0]
            strict = strict and bool((self._values[winners] == self._values[winners[0]]).all())
            if self.losses is not None:
                low[s] = rows[np.argmin(self.losses[rows])]
                high[s] = rows[np.argmax(self.losses[rows])]
        winning = scores[selection - begin]
        scores[selection - begin] = -np.inf
        lead = winning - np.maximum.reduceat(scores, offsets[:-1])
        return Decoded(selection, low, high, int(tied.sum()), strict, float(lead.min(initial=np.inf)))


def ranges_of_weights(features: FloatArray, offsets: IntArray, weights: FloatArray) -> FloatArray:
    """Return for each weight the open interval [D, 2] in which it alone may move without changing a choice.

    features [M, D], offsets [S + 1].
    """
    ranges = np.column_stack([np.full(len(weights), -np.inf), np.full(len(weights), np.inf)])
    for _, rows, block_offsets in blocks_of_lists(offsets):
        block = features[rows]
        chosen = np.repeat(decode(block, block_offsets, weights), np.diff(block_offsets))
        leads = np.empty((len(weights), len(block)))  # chosen minus other, feature by feature
        for lead, column in zip(leads, block.T, strict=True):
            np.subtract(column[chosen], column, out=lead)
        margins = weights @ leads
        for d, lead in enumerate(leads):
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                steps = -margins / lead
            ranges[d, 0] = max(ranges[d, 0], weights[d] + np.where(lead > 0, steps, -np.inf).max(initial=-np.inf))
            ranges[d, 1] = min(ranges[d, 1], weights[d] + np.where(lead < 0, steps, np.inf).min(initial=np.inf))
    return ranges


def _best(weights: FloatArray, features: FloatArray, rows: IntArray, rounding: Rounding | None) -> IntArray:
    """Return which of these rows [n] have the largest score in exact arithmetic, in order; all if that is unknown."""
    if not weights.any() or not (rounding is None or rounding.known):
        return np.arange(len(rows))
    (whole,) = rational.to_integers(weights[None])
    best = [0]
    for place in range(1, len(rows)):
        (difference,) = exact_differences(features, rounding, rows[place : place + 1], rows[best[:1]])
        lead = rational.dot(difference, whole)
        if lead > 0:
            best = [place]
        elif lead == 0:
            best.append(place)
    return np.array(best)
