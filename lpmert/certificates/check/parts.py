"""Parts of a proof: weights inside a shape that make some choices, and the hypotheses that may win at such weights."""

from __future__ import annotations

from collections.abc import Mapping
from operator import sub
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.certificates.check.claims import Price
from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.shapes import Shape
from lpmert.errors import CertificateError, FloatArray, IntArray

_MOST_BITS = 900
_EPSILON = float(np.finfo(np.float64).eps)
_LARGEST_MULTIPLIER = 1 << 62

Core = Mapping[int, int]
"""Choices (list -> row) that no weights make together."""

Line = tuple[int, int, int, int]
Lines = list[Line]
"""Comparisons: a list, the row chosen in it, another row of it, and a multiplier."""


class Part(NamedTuple):
    """What may win at weights inside a shape that make some choices.

    For the lists that may still differ in worth: their survivors' rows [n], with features [d, n], and the start [L] of
    each list among them; in a box, where one sum is claimed, the rows of a list are in order of cost.
    fixed [K]: the worth of all other lists. price: what counts here as cost. chosen: the choices made (list -> row),
    those of the limits among them; take: the last of them. cores: those met on the way.
    """

    shape: Shape
    rows: IntArray
    columns: FloatArray
    starts: IntArray
    fixed: IntArray
    price: Price
    chosen: Mapping[int, int]
    take: tuple[int, int] | None = None
    cores: tuple[Core, ...] = ()

    @property
    def sizes(self) -> IntArray:
        """How many survivors the lists [L] have."""
        ends = np.empty_like(self.starts)
        ends[:-1], ends[-1:] = self.starts[1:], len(self.rows)
        return ends - self.starts

    @property
    def scores(self) -> FloatArray:
        """What the survivors [d, n] score at the rays of the shape."""
        scores: FloatArray = np.array(self.shape.rays, dtype=np.float64) @ self.columns
        return scores

    def only(self, kept: NDArray[np.bool_]) -> Part:
        """Return what is left with some of the rows [n], and the lists of which any are."""
        if not len(self.starts):
            return self
        sizes = np.add.reduceat(kept, self.starts, dtype=np.int64)
        sizes = sizes[sizes > 0]
        return self._replace(rows=self.rows[kept], starts=np.cumsum(sizes) - sizes, columns=self.columns[:, kept])

    def worth(self, lists: ProofLists) -> tuple[IntArray, IntArray]:
        """Return the least and the most [K, L] that survivors of the lists are worth."""
        worth = lists.worth[:, self.rows]
        if not len(self.starts):
            return worth, worth
        return np.minimum.reduceat(worth, self.starts, axis=1), np.maximum.reduceat(worth, self.starts, axis=1)

    def box(self, lists: ProofLists) -> tuple[list[int], list[int]]:
        """Return between what the worth [K] of all selections lies."""
        low, high = ((self.fixed + ends.sum(axis=1)).tolist() for ends in self.worth(lists))
        return low, high

    def costs(self, lists: ProofLists) -> IntArray:
        """Return what the survivors [n] cost."""
        slopes = self.price.slopes
        costs: IntArray = lists.worth[0, self.rows] if slopes == [1] else np.array(slopes) @ lists.worth[:, self.rows]
        return costs

    def ordered(self, lists: ProofLists) -> tuple[Part, IntArray]:
        """Return the part with the rows of each list in order of cost, equal ones as they are, and their costs [n]."""
        costs = self.costs(lists)
        order = np.lexsort((costs, np.repeat(np.arange(len(self.starts)), self.sizes)))
        return self._replace(rows=self.rows[order], columns=self.columns[:, order]), costs[order]

    def surely_balanced(self, lists: ProofLists, cores: list[Lines]) -> NDArray[np.bool_]:
        """Return which sums of differences other - chosen, times multipliers, are clearly nowhere negative: most of
        those that are, in double precision, so that whole numbers need to decide few.
        """
        lines = [line for core in cores for line in core]
        if not lines or not self.shape.rays:
            return np.zeros(len(cores), dtype=np.bool_)
        _, rows, others, multipliers = zip(*lines, strict=True)
        # What is not a number is not clear.
        times = np.array([m if m < _LARGEST_MULTIPLIER else np.nan for m in multipliers], dtype=np.float64)
        points = np.array(self.shape.rays, dtype=np.float64)
        leads = points @ (lists.columns[:, others] - lists.columns[:, rows])
        begins = np.cumsum([0, *map(len, cores[:-1])])
        totals = np.add.reduceat(times * leads, begins, axis=1)
        # Higham, as for the scores; the products with the multipliers and their sums are rounded too.
        doubt = lists.errors(points).sum() + _EPSILON * (len(lines) + 8) * np.abs(leads).sum(axis=0)
        least = totals[0] - np.abs(totals[1:]).sum(axis=0) if self.shape.boxed else totals.min(axis=0)
        clear: NDArray[np.bool_] = least > 2.0 * np.add.reduceat(times * doubt, begins)
        return clear


def whole_part(lists: ProofLists, shape: Shape) -> Part:
    """Return all weights inside a shape that are within the limits."""
    several = lists.claim.several
    nothing = np.zeros(len(lists.worth), dtype=lists.worth.dtype)
    rows = np.arange(len(lists.features))
    if shape.boxed and not several:
        rows = np.lexsort((lists.worth[0], lists.numbers))
    # Of several sums, only that of broken limits has a price everywhere.
    price = Price([0] * (len(lists.worth) - 1) + [1], 1 if several else lists.target)
    part = Part(shape, rows, lists.columns[:, rows], lists.offsets[:-1], nothing, price, lists.limit_rows)
    return narrowed(lists, part, shape)


def narrowed(lists: ProofLists, part: Part, shape: Shape) -> Part:
    """Return what is left of a part inside a shape that lies in its own.

    Hypotheses fall that the best of their list at one of the rays, the first of equals, is as good as everywhere
    inside, of a box that at the centre, and then the first if any other one is; lists of which all others are worth the
    same are settled. What falls is decided exactly, so that the outcome does not depend on how scores are rounded.
    """
    part = part._replace(shape=shape)
    if len(part.starts) and shape.rays:
        part = part.only(_survivors(lists, part))
    least, most = part.worth(lists)
    differs: NDArray[np.bool_] = (least != most).any(axis=0)
    if differs.all():
        return part
    fixed = part.fixed + least[:, ~differs].sum(axis=1)
    return part.only(np.repeat(differs, part.sizes))._replace(fixed=fixed)


def _survivors(lists: ProofLists, part: Part) -> NDArray[np.bool_]:
    """Return which of the rows [n] of a part are left inside its shape."""
    if max(abs(value) for ray in part.shape.rays for value in ray) >> _MOST_BITS:
        raise CertificateError("a ray is beyond the range of double precision")
    scores, errors = part.scores, lists.errors(np.array(part.shape.rays, dtype=np.float64))
    rows = np.arange(len(part.rows))
    beaten = np.zeros(len(rows), dtype=np.bool_)
    for k in range(1 if part.shape.boxed else len(scores)):
        best = np.repeat(_winners(lists, part, k, scores[k], float(errors[k])), part.sizes)
        beaten |= _beaten(lists, part, errors, scores[:, best] - scores, best, rows)
    if part.shape.boxed and not lists.claim.several:
        left = np.flatnonzero(~beaten)
        firsts = left[np.searchsorted(left, part.starts)]
        first = np.repeat(firsts, part.sizes)
        losses = _beaten(lists, part, errors, scores - scores[:, first], rows, first)
        beaten[firsts] = np.logical_or.reduceat(losses, part.starts)
    return ~beaten


def _winners(lists: ProofLists, part: Part, k: int, scores: FloatArray, error: float) -> IntArray:
    """Return the best of each list [L] at a ray, the first of equals."""
    top = np.maximum.reduceat(scores, part.starts)
    close = np.flatnonzero(scores >= np.repeat(top - error, part.sizes))
    begins = np.searchsorted(close, part.starts)
    winners: IntArray = close[begins]
    if error:
        ray = Shape((part.shape.rays[k],))
        ends = np.append(begins[1:], len(close))
        for a in np.flatnonzero(ends - begins > 1).tolist():
            for other in close[begins[a] + 1 : ends[a]].tolist():
                if not ray.nowhere_negative(_lead(lists, part, int(winners[a]), other)):
                    winners[a] = other
    return winners


def _beaten(
    lists: ProofLists, part: Part, errors: FloatArray, leads: FloatArray, winners: IntArray, losers: IntArray
) -> NDArray[np.bool_]:
    """Return for pairs of hypotheses [p] whether the first, another one, is as good as the second everywhere inside.

    errors [d]: how far the leads [d, p] of the first ones at the rays may be from the true ones.
    """
    if part.shape.boxed:
        leads, errors = leads[:1] - np.abs(leads[1:]).sum(axis=0), errors.sum(keepdims=True)
    others = winners != losers
    beaten: NDArray[np.bool_] = (leads >= errors[:, None]).all(axis=0) & others
    if errors.any():
        for a in np.flatnonzero((leads >= -errors[:, None]).all(axis=0) & ~beaten & others).tolist():
            beaten[a] = part.shape.nowhere_negative(_lead(lists, part, int(winners[a]), int(losers[a])))
    return beaten


def _lead(lists: ProofLists, part: Part, winner: int, loser: int) -> list[int]:
    return list(map(sub, lists.whole[part.rows[winner]], lists.whole[part.rows[loser]]))
