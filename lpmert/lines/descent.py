"""One descent by exact line searches, on all lists or near given weights.

Sources: Och 2003 (line search); McAllester, Hazan and Keshet, Direct Loss Minimization for Structured Prediction, NIPS
2010 (directions from the chosen hypotheses towards cheaper ones).
"""

from __future__ import annotations

from math import inf

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray
from lpmert.lines.line_search import lists_with_costs
from lpmert.lines.near import Near
from lpmert.numeric.lists import standardised
from lpmert.system.deadline import checkpoint, out_of_time

_PIECE = 20_000_000
"""Features times line searches between two looks at the clock."""

OVERHEAD = 1_000
"""What a line search costs beyond its hypotheses, in hypotheses."""

_TABLE = 64
"""Directions drawn for one start; a longer descent goes through them again."""

_RIDGE = 1e-3
"""Directions in which the lists vary less than this share of the widest are not stretched further."""

_RATES = (-4.0, 2.0)
"""Range of the logarithm of a unit of cost in units of score, both in standard deviations."""

_COORDINATE_EVERY = 16
"""One in so many drawn directions is that of a single weight."""

_SAMPLE = 6_000
"""Hypotheses in the sample of lists that many starts are first tried on."""


class DescentLists:
    """Lists with their features in coordinates in which all directions vary alike, and the best weights found."""

    def __init__(self, features: FloatArray, offsets: IntArray, costs: IntArray, basis: FloatArray) -> None:
        self.offsets, self.costs = offsets, costs
        self.basis, self.inverse = basis, np.linalg.inv(basis)
        self.transposed = np.ascontiguousarray(features.T)
        self.turned = np.empty_like(self.transposed)
        for column, row in zip(basis.T, self.turned, strict=True):  # threads of a matrix product take longer than this
            checkpoint()
            core.combine(self.transposed, np.ascontiguousarray(column), row)
        self.magnitudes = np.abs(features).max(axis=0, initial=0.0)
        self.lists = lists_with_costs(self.turned.T, offsets, costs)
        self._scores = np.empty(len(costs))
        self.deviation = max(float(costs.std()), 1.0)
        self.best: tuple[bool, int, FloatArray] | None = None

    @property
    def line(self) -> int:
        """The work of a line search on these lists."""
        return len(self.costs) + OVERHEAD

    def keep(self, weights: FloatArray) -> tuple[bool, int]:
        """Decode weights [D] for the features as given and remember them if they are the best, clear of ties first.

        Returns whether they are tied, and their cost.
        """
        weights = weights / np.abs(weights).max()
        core.combine(self.transposed, weights, self._scores)
        error = 4 * len(weights) * float(np.finfo(np.float64).eps * (np.abs(weights) @ self.magnitudes))
        cost, doubtful = core.decode_cost(self._scores, self.offsets, self.costs, error)
        verdict = doubtful > 0, cost
        if self.best is None or verdict < self.best[:2]:
            self.best = *verdict, weights
        return verdict

    def search(
        self,
        inner: FloatArray,
        rng: np.random.Generator,
        patience: int,
        searches: int,
        nearby: Near | None = None,
        lists: core.LineSearch | None = None,
    ) -> int:
        """Descend from weights `inner` [D], in these coordinates, which are replaced; return the line searches left.

        Directions drawn and directions towards cheaper hypotheses alternate, until `patience` of them in a row do not
        lower the cost. nearby: where to stay, with the lists there; by default anywhere, on all lists.
        """
        centre, reach, offsets = inner.copy(), inf, self.offsets
        if nearby is not None:
            centre, reach, offsets = nearby.centre, nearby.reach, nearby.offsets
        lists = self.lists if lists is None else lists
        directions = rng.normal(size=(_TABLE, len(inner)))
        directions[::_COORDINATE_EVERY] = self.inverse.T[rng.integers(len(inner), size=_TABLE // _COORDINATE_EVERY)]
        rates = np.exp(rng.uniform(*_RATES, size=_TABLE)) / self.deviation
        taking_part = rng.random((_TABLE, len(offsets) - 1)) < rng.random((_TABLE, 1))
        draws = directions, rates, taking_part
        turns = np.zeros(2, dtype=np.int64)
        piece = max(1, _PIECE // max(1, lists.n_hypotheses * len(inner)))
        while turns[1] < patience and searches > 0 and not out_of_time():
            most = min(piece, searches)
            searches -= most - core.descend(lists, inner, centre, reach, *draws, turns, patience, most)
        return searches


def even_basis(features: FloatArray, offsets: IntArray) -> FloatArray:
    """Return [D, D] such that features @ basis varies alike in all directions within the lists, up to `_RIDGE`."""
    checkpoint()
    alike, spread = standardised(features, offsets)
    checkpoint()
    values, vectors = np.linalg.eigh(alike.T @ alike / len(alike))
    stretch = 1 / np.sqrt(np.maximum(values, 0) + _RIDGE * (values[-1] if values[-1] > 0 else 1.0))
    return np.ascontiguousarray(vectors * stretch / spread[:, None])


def sampled_lists(
    features: FloatArray, offsets: IntArray, costs: IntArray, rng: np.random.Generator
) -> tuple[FloatArray, IntArray, IntArray]:
    """Return features, offsets and costs of randomly drawn lists with about `_SAMPLE` hypotheses."""
    sizes = np.diff(offsets)
    drawn = rng.permutation(len(sizes))
    drawn = np.sort(drawn[: 1 + int(np.searchsorted(np.cumsum(sizes[drawn]), _SAMPLE))])
    rows = np.concatenate([np.arange(offsets[s], offsets[s + 1]) for s in drawn])
    return features[rows], np.concatenate([[0], np.cumsum(sizes[drawn])]), costs[rows]
