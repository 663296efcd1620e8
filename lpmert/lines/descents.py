"""Good weights by descents from several starts, most of them near the best; deterministic effort, no bound.

A descent is a row of exact line searches, on all lists or near given weights. Near good weights most hypotheses are far
behind: searches that stay near pass a small part of the lists, and what they find there holds for all of them.

Sources: Och 2003 (line search); McAllester, Hazan and Keshet, Direct Loss Minimization for Structured Prediction, NIPS
2010 (directions from the chosen hypotheses towards cheaper ones); Moore and Quirk, Random Restarts in Minimum Error
Rate Training for Statistical Machine Translation, COLING 2008 (random walks around the best weights so far).
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray
from lpmert.lines.line_search import lists_with_costs
from lpmert.numeric.lists import correlations, from_sizes, reach_of, rows_of_lists
from lpmert.numeric.rational import EPSILON
from lpmert.system.deadline import checkpoint, out_of_time


class Near(NamedTuple):
    """Weights centre + x [D], x at right angles to the centre and |x| <= reach, and the lists there.

    rows [n]: the hypotheses that can win there, of lists whose cost varies; offsets [s + 1] of them; base: what all
    other lists cost there.
    """

    centre: FloatArray
    reach: float
    rows: IntArray
    offsets: IntArray
    base: int


def near(centre: FloatArray, reaches: FloatArray, share: float, offsets: IntArray, costs: IntArray) -> Near:
    """Return the neighbourhood of the centre in which this share of the hypotheses wins somewhere, but not all lists.

    reaches [M], as `lpmert.core.find_reaches` returns them.
    """
    place = min(int(share * len(reaches)), len(reaches) - 1)
    reach = float(np.partition(reaches, place)[place])
    if reach == inf:
        reach = float(reaches.max(where=reaches < inf, initial=0.0))
    kept = reaches <= reach
    least = np.minimum.reduceat(np.where(kept, costs, np.iinfo(np.int64).max), offsets[:-1])
    most = np.maximum.reduceat(np.where(kept, costs, np.iinfo(np.int64).min), offsets[:-1])
    varies = least < most
    lists = np.repeat(varies, np.diff(offsets))
    sizes = np.add.reduceat(kept, offsets[:-1], dtype=np.int64)[varies]
    base = int(least[~varies].sum())
    return Near(centre, reach, np.flatnonzero(kept & lists), from_sizes(sizes), base)


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
        self.magnitudes = reach_of(features)
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
        error = 4 * len(weights) * EPSILON * float(np.abs(weights) @ self.magnitudes)
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
        piece = max(1, _PIECE // max(1, int(offsets[-1]) * len(inner)))
        while turns[1] < patience and searches > 0 and not out_of_time():
            most = min(piece, searches)
            searches -= most - core.descend(lists, inner, (centre, reach), draws, turns, patience, most)
        return searches


def even_basis(features: FloatArray, offsets: IntArray, ridge: float = _RIDGE) -> FloatArray:
    """Return [D, D] such that features @ basis varies alike in all directions within the lists.

    Directions in which they vary less than this share (`ridge`) of the widest are not stretched further.
    """
    checkpoint()
    alike, spread = correlations(lambda: [(features, offsets)])
    checkpoint()
    values, vectors = np.linalg.eigh(alike)
    stretch = 1 / np.sqrt(np.maximum(values, 0) + ridge * (values[-1] if values[-1] > 0 else 1.0))
    return np.ascontiguousarray(vectors * stretch / spread[:, None])


def sampled_lists(
    features: FloatArray, offsets: IntArray, costs: IntArray, rng: np.random.Generator
) -> tuple[FloatArray, IntArray, IntArray]:
    """Return features, offsets and costs of randomly drawn lists with about `_SAMPLE` hypotheses."""
    sizes = np.diff(offsets)
    drawn = rng.permutation(len(sizes))
    drawn = np.sort(drawn[: 1 + int(np.searchsorted(np.cumsum(sizes[drawn]), _SAMPLE))])
    rows, own = rows_of_lists(offsets, drawn)
    return features[rows], own, costs[rows]


DEFAULT_BUDGET = 3_000_000
"""Hypotheses times line searches that `descend` spends unless told otherwise: 0.1 s for lists of 30 to 100."""

_FRESH = 0.3
"""Share of fresh random weights where searches near others have failed."""

_PATIENCE = 3
"""Directions in a row, times D, after which a descent ends."""

_WALK = 0.1
"""Standard deviation of the random step from the best weights otherwise, for weights whose largest is 1."""

_TRIES = 3
"""Searches in a row near the same weights that may fail."""

_SHARES = (-2.0, -0.7)
"""Range of the decimal logarithm of the share of hypotheses that a search nearby passes."""

_LINES = 16
"""What a search nearby does, in line searches on all lists."""

_REACHES = 3
"""What it takes to find how far each hypothesis is from winning, in line searches on all lists."""

_LEAST_LINES = 5
"""With less work left, in line searches on all lists, no further search nearby begins."""

_UNLIMITED = 1 << 62

_FROM_CENTRE = 0.5
"""Share of descents nearby that begin anywhere within reach; the others, a random step from the best there."""

_SMALLEST = -1.5
"""Decimal logarithm of the smallest such step, in units of the reach."""

_TINY = 1e-300

_SCREENED = 20_000
"""From this many hypotheses on, starts are first tried on a sample of lists."""


class _Around(NamedTuple):
    """Weights [D], of length 1, near which to search: whether they are tied, and their cost."""

    doubtful: bool
    cost: int
    weights: FloatArray


class Descents:
    """Descents that go on where they were: first on all lists, or on a sample of many, then near the best weights.

    A search near weights passes only the lists there. After a few failures, a descent from a random step from the best
    weights, or from anywhere, finds others to search near.
    """

    def __init__(
        self,
        features: FloatArray,
        offsets: IntArray,
        costs: IntArray,
        *,
        seed: int = 0,
        initial: FloatArray | None = None,
    ) -> None:
        count, dimension = features.shape
        self._rng = np.random.default_rng(seed)
        self._patience = _PATIENCE * dimension
        basis = even_basis(features, offsets)
        self._lists = DescentLists(features, offsets, costs, basis)
        self._start_lists = self._lists
        self._first = [np.ones(dimension)]
        if count >= _SCREENED:
            self._start_lists = DescentLists(*sampled_lists(features, offsets, costs, self._rng), basis)
        self._around = _Around(True, np.iinfo(np.int64).max, self._lists.inverse @ self._first[0])
        self._reaches = np.empty(0)
        self._failures = 0
        if initial is not None and np.any(initial):
            given = np.asarray(initial, dtype=np.float64)
            self.offer(given)
            self._first.insert(0, given)

    @property
    def best(self) -> tuple[int, FloatArray]:
        """The least cost found, and weights [D] that have it."""
        while self._lists.best is None:
            self.turn(1)
        return self._lists.best[1:]

    def offer(self, weights: FloatArray) -> None:
        """Decode weights [D], keep them, and go on near these if they are better than those that this is about."""
        verdict = self._lists.keep(weights)
        if verdict < self._around[:2]:
            inner = self._lists.inverse @ weights
            self._around = _Around(*verdict, inner / np.linalg.norm(inner))
            self._reaches = np.empty(0)
            self._failures = 0

    def run(self, budget: int, starts: int | None = None) -> int:
        """Descend until so much work, in hypotheses times line searches, or so many starts are done; return the work.

        A cost of 0 ends it, too.
        """
        left = budget
        while (self._first or left >= _LEAST_LINES * self._lists.line) and (starts is None or starts > 0):
            if self._lists.best is not None and (self._lists.best[:2] == (False, 0) or out_of_time()):
                break
            left -= self.turn(left)
            starts = None if starts is None else starts - 1
        return budget - left

    def _descend(self, lists: DescentLists, weights: FloatArray, budget: int) -> int:
        """Descend on these lists from weights [D], and take up the end if it is better."""
        inner = lists.inverse @ weights
        most = max(1, budget // lists.line)
        left = lists.search(inner, self._rng, self._patience, most)
        self.offer(lists.basis @ inner)
        return (most - left) * lists.line + self._lists.line

    def turn(self, budget: int = _UNLIMITED) -> int:
        """Descend once from the first weights or from others, or search near those found; return the work."""
        if self._first:
            return self._descend(self._start_lists, self._first.pop(0), budget)
        if self._failures < _TRIES:
            return self._search_near(budget)
        self._around = self._around._replace(doubtful=True, cost=np.iinfo(np.int64).max)
        self._failures = 0
        inner = self._rng.normal(size=len(self._lists.basis))
        if self._rng.random() < _FRESH:
            return self._descend(self._start_lists, self._lists.basis @ inner, budget)
        best = self._lists.inverse @ self.best[1]
        return self._descend(self._lists, self._lists.basis @ (best + _WALK * np.abs(best).max() * inner), budget)

    def _search_near(self, budget: int) -> int:
        """Descend within reach of the weights that this is about, several times, and take up what is better."""
        lists, rng = self._lists, self._rng
        _, cost, centre = self._around
        spent = 0
        if not len(self._reaches):
            self._reaches = core.find_reaches(lists.lists, centre)
            spent += _REACHES * lists.line
        nearby = near(centre, self._reaches, 10.0 ** rng.uniform(*_SHARES), lists.offsets, lists.costs)
        spent += lists.line
        self._failures += 1
        if not len(nearby.rows):
            return spent
        costs = lists.costs[nearby.rows]
        there = lists_with_costs(lists.turned[:, nearby.rows].T, nearby.offsets, costs)
        line = len(costs) + OVERHEAD
        left = max(1, min(budget, _LINES * lists.line) // line)
        best, weights = cost, centre
        inner = centre.copy()
        while left > 0 and not out_of_time():
            before = left
            left = lists.search(inner, rng, self._patience, left, nearby, there)
            spent += (before - left) * line
            reached = nearby.base + int(there.at(inner))
            if reached < best:
                best, weights = reached, inner
            inner = _beside(nearby, weights, rng)
        if best < cost:
            self.offer(lists.basis @ weights)
        return spent


def _beside(nearby: Near, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return weights [D] within reach: a random step from the centre, or a smaller one from these [D]."""
    centre = nearby.centre
    step = rng.normal(size=len(centre))
    step -= (step @ centre) * centre
    step *= nearby.reach / max(float(np.linalg.norm(step)), _TINY)
    if rng.random() < _FROM_CENTRE:
        return np.asarray(centre + step * rng.random())
    moved = weights - centre + step * 10.0 ** (_SMALLEST * rng.random())
    return np.asarray(centre + moved * min(1.0, nearby.reach / max(float(np.linalg.norm(moved)), _TINY)))


def descend(
    features: FloatArray,
    offsets: IntArray,
    costs: IntArray,
    *,
    seed: int = 0,
    starts: int | None = None,
    initial: FloatArray | None = None,
    budget: int = DEFAULT_BUDGET,
) -> tuple[int, FloatArray]:
    """Return low-cost weights [D], largest entry 1 in absolute value, and the cost of decoding with them.

    features [M, D], offsets [S + 1], costs [M]. The starts are `initial` [D] if given, equal weights, then searches
    near the weights found, steps from the best, and fresh random weights, until `starts` (default: no limit) or
    `budget`, in hypotheses times line searches, is used up or the cost is 0; each descent ends after three times D
    directions in a row that do not lower the cost. Weights with which a list's choice hangs on a tie between different
    costs are returned only if nothing else was found. On one machine the same arguments give the same weights, unless
    the time limit of the running call comes first. There is at least one feature.
    """
    descents = Descents(features, offsets, costs, seed=seed, initial=initial)
    descents.run(budget, starts)
    return descents.best
