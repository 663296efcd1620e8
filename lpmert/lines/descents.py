"""Good weights by descents from several starts, most of them near the best; deterministic effort, no bound.

A descent is a sequence of exact line searches, on all lists or within a neighbourhood of given weights. Near good
weights most hypotheses are far behind: searches that stay near them pass only a small part of the lists, and what they
find holds for all lists.

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
from lpmert.limits import checkpoint, out_of_time
from lpmert.lines.line_search import lists_with_costs
from lpmert.numeric.lists import correlations, from_sizes, reach_of
from lpmert.numeric.rational import EPSILON


class Near(NamedTuple):
    """A neighbourhood: weights centre + x [D] with x at right angles to the centre and |x| <= reach, and its lists.

    rows [n]: the hypotheses that can win there, of lists whose cost varies; offsets [s + 1]: of these lists; base: the
    cost of all other lists there.
    """

    centre: FloatArray
    reach: float
    rows: IntArray
    offsets: IntArray
    base: int

    def beside(self, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return weights [D] in it: a random step from its centre, or a smaller one from `weights` [D]."""
        step = rng.normal(size=len(self.centre))
        step -= (step @ self.centre) * self.centre
        step *= self.reach / max(float(np.linalg.norm(step)), _TINY)
        if rng.random() < _FROM_CENTRE:
            return np.asarray(self.centre + step * rng.random())
        moved = weights - self.centre + step * 10.0 ** (_SMALLEST * rng.random())
        return np.asarray(self.centre + moved * min(1.0, self.reach / max(float(np.linalg.norm(moved)), _TINY)))


def near(centre: FloatArray, reaches: FloatArray, share: float, offsets: IntArray, costs: IntArray) -> Near:
    """Return the neighbourhood of the centre in which this share of the hypotheses wins somewhere.

    reaches [M]: distances from the centre at which hypotheses begin to win, from `lpmert.core.find_reaches`.
    """
    place = min(int(share * len(reaches)), len(reaches) - 1)
    reach = float(np.partition(reaches, place)[place])
    if reach == inf:
        reach = float(reaches.max(where=reaches < inf, initial=0.0))
    can_win = reaches <= reach
    least = np.minimum.reduceat(np.where(can_win, costs, np.iinfo(np.int64).max), offsets[:-1])
    most = np.maximum.reduceat(np.where(can_win, costs, np.iinfo(np.int64).min), offsets[:-1])
    varies = least < most
    in_varying_list = np.repeat(varies, np.diff(offsets))
    sizes = np.add.reduceat(can_win, offsets[:-1], dtype=np.int64)[varies]
    base = int(least[~varies].sum())
    return Near(centre, reach, np.flatnonzero(can_win & in_varying_list), from_sizes(sizes), base)


_PIECE = 20_000_000  # features times hypotheses times line searches between two checks of the clock
OVERHEAD = 1_000  # the fixed cost of a line search, in hypotheses
_TABLE = 64  # directions drawn for one start; a longer descent uses them again
_RIDGE = 1e-3  # directions in which the lists vary less than this share of the widest are not stretched further
_RATES = (-4.0, 2.0)  # range of the logarithm of the score that offsets a unit of cost, both in standard deviations
_COORDINATE_EVERY = 16  # one in so many drawn directions is a coordinate axis of the features as given


def even_basis(features: FloatArray, offsets: IntArray, ridge: float = _RIDGE) -> FloatArray:
    """Return the basis [D, D] in which features @ basis varies alike in all directions within lists.

    Directions that vary less than the share `ridge` of the widest are not stretched further.
    """
    checkpoint()
    correlation, spread = correlations(lambda: [(features, offsets)])
    checkpoint()
    values, vectors = np.linalg.eigh(correlation)
    stretch = 1 / np.sqrt(np.maximum(values, 0) + ridge * (values[-1] if values[-1] > 0 else 1.0))
    return np.ascontiguousarray(vectors * stretch / spread[:, None])


DEFAULT_BUDGET = 3_000_000
"""Hypotheses times line searches that `descend` spends unless told otherwise: 0.1 s for lists of 30 to 100."""

_FRESH = 0.3  # share of fresh random starts after searches nearby have failed; the others step from the best weights
_PATIENCE = 3  # a descent ends after so many times D directions in a row that do not lower the cost
_WALK = 0.1  # standard deviation of a random step from the best weights, for weights whose largest is 1
_TRIES = 3  # failed searches in a row near the same weights before the next restart
_SHARES = (-2.0, -0.7)  # range of the decimal logarithm of the share of hypotheses that can win in a neighbourhood
_LINES = 16  # work of a search nearby, in line searches on all lists
_REACHES = 3  # work of `find_reaches`, in line searches on all lists
_LEAST_LINES = 5  # least work left, in line searches on all lists, with which another search begins

_UNLIMITED = 1 << 62

_FROM_CENTRE = 0.5
"""Share of descents nearby that begin anywhere within reach; the others begin a random step from the best there."""

_SMALLEST = -1.5  # decimal logarithm of the smallest such step, in units of the reach

_TINY = 1e-300


_UNKNOWN = True, np.iinfo(np.int64).max  # whether weights are tied, and their cost, before they are decoded


class Descents:
    """Descents that can be continued: first from the initial weights, then near the best weights found.

    A search near weights passes only the lists of the neighbourhood. After a few failures, a descent from fresh random
    weights, or from a random step from the best, finds other weights to search near. Line searches are in coordinates
    in which all directions vary alike (`even_basis`); weights in these coordinates are called inner.
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
        dimension = features.shape[1]
        self._rng = np.random.default_rng(seed)
        self._patience = _PATIENCE * dimension
        self._offsets, self._costs = offsets, costs
        self._basis = even_basis(features, offsets)
        self._inverse = np.linalg.inv(self._basis)
        self._transposed = np.ascontiguousarray(features.T)
        self._turned = np.empty_like(self._transposed)
        for column, row in zip(self._basis.T, self._turned, strict=True):  # faster than a threaded matrix product
            checkpoint()
            core.combine(self._transposed, np.ascontiguousarray(column), row)
        self._magnitudes = reach_of(features)
        self._lists = lists_with_costs(self._turned.T, offsets, costs)
        self._line = len(costs) + OVERHEAD
        self._scores = np.empty(len(costs))
        self._deviation = max(float(costs.std()), 1.0)
        self._verdict, self._weights = _UNKNOWN, np.empty(0)  # of the best weights [D]
        self._first = [np.ones(dimension)]
        self._around, self._centre = _UNKNOWN, self._inverse @ self._first[0]  # of those near which to search, inner
        self._reaches = np.empty(0)
        self._failures = 0
        if initial is not None and np.any(initial):
            weights = np.asarray(initial, dtype=np.float64)
            self.offer(weights)
            self._first.insert(0, weights)

    @property
    def best(self) -> tuple[int, FloatArray]:
        """The least cost found, untied if possible, and weights [D] that attain it."""
        while not len(self._weights):
            self.turn(1)
        return self._verdict[1], self._weights

    def offer(self, weights: FloatArray) -> None:
        """Decode weights [D] and remember the best; search near them from now on if they beat the current centre."""
        scaled = weights / np.abs(weights).max()
        core.combine(self._transposed, scaled, self._scores)
        error = 4 * len(scaled) * EPSILON * float(np.abs(scaled) @ self._magnitudes)
        cost, n_tied = core.decode_cost(self._scores, self._offsets, self._costs, error)
        verdict = n_tied > 0, cost
        if not len(self._weights) or verdict < self._verdict:
            self._verdict, self._weights = verdict, scaled
        if verdict < self._around:
            inner = self._inverse @ weights
            self._around, self._centre = verdict, inner / np.linalg.norm(inner)
            self._reaches = np.empty(0)
            self._failures = 0

    def run(self, left: int, starts: int | None = None) -> None:
        """Descend until the work `left`, in hypotheses times line searches, or `starts` are used up.

        Ends early at an untied cost of 0.
        """
        while (self._first or left >= _LEAST_LINES * self._line) and (starts is None or starts > 0):
            if len(self._weights) and (self._verdict == (False, 0) or out_of_time()):
                break
            left -= self.turn(left)
            starts = None if starts is None else starts - 1

    def turn(self, budget: int = _UNLIMITED) -> int:
        """Descend once: from the initial weights, near the best, or after failures from a restart; return the work."""
        if self._first:
            return self._descend(self._first.pop(0), budget)
        if self._failures < _TRIES:
            return self._search_near(budget)
        self._around, self._failures = _UNKNOWN, 0
        inner = self._rng.normal(size=len(self._basis))
        if self._rng.random() >= _FRESH:
            best = self._inverse @ self.best[1]
            inner = best + _WALK * np.abs(best).max() * inner
        return self._descend(self._basis @ inner, budget)

    def _descend(self, weights: FloatArray, budget: int) -> int:
        """Descend from weights [D], `offer` the end, and return the work."""
        inner = self._inverse @ weights
        most = max(1, budget // self._line)
        left = self._search(inner, most)
        self.offer(self._basis @ inner)
        return (most - left) * self._line + self._line

    def _search(self, inner: FloatArray, searches: int, within: tuple[Near, core.LineSearch] | None = None) -> int:
        """Descend from weights `inner` [D], which are replaced by the end of the descent; return the searches left.

        Random directions and directions towards cheaper hypotheses alternate, until `_patience` of them in a row do not
        lower the cost, or `searches` line searches are done. within: the neighbourhood to stay in and its lists; by
        default anywhere, on all lists.
        """
        rng, centre, reach, offsets, lists = self._rng, inner.copy(), inf, self._offsets, self._lists
        if within is not None:
            nearby, lists = within
            centre, reach, offsets = nearby.centre, nearby.reach, nearby.offsets
        directions = rng.normal(size=(_TABLE, len(inner)))
        directions[::_COORDINATE_EVERY] = self._inverse.T[rng.integers(len(inner), size=_TABLE // _COORDINATE_EVERY)]
        rates = np.exp(rng.uniform(*_RATES, size=_TABLE)) / self._deviation
        taking_part = rng.random((_TABLE, len(offsets) - 1)) < rng.random((_TABLE, 1))
        draws = directions, rates, taking_part
        turns = np.zeros(2, dtype=np.int64)
        at_once = max(1, _PIECE // max(1, int(offsets[-1]) * len(inner)))
        while turns[1] < self._patience and searches > 0 and not out_of_time():
            most = min(at_once, searches)
            searches -= most - core.descend(lists, inner, (centre, reach), draws, turns, self._patience, most)
        return searches

    def _search_near(self, budget: int) -> int:
        """Descend several times within a neighbourhood of the current centre, `offer` the best; return the work."""
        cost, centre = self._around[1], self._centre
        spent = 0
        if not len(self._reaches):
            self._reaches = core.find_reaches(self._lists, centre)
            spent += _REACHES * self._line
        share = 10.0 ** self._rng.uniform(*_SHARES)
        nearby = near(centre, self._reaches, share, self._offsets, self._costs)
        spent += self._line
        self._failures += 1
        if not len(nearby.rows):
            return spent
        costs = self._costs[nearby.rows]
        near_lists = lists_with_costs(self._turned[:, nearby.rows].T, nearby.offsets, costs)
        line = len(costs) + OVERHEAD
        left = max(1, min(budget, _LINES * self._line) // line)
        best, weights = cost, centre
        inner = centre.copy()
        while left > 0 and not out_of_time():
            before = left
            left = self._search(inner, left, (nearby, near_lists))
            spent += (before - left) * line
            reached = nearby.base + int(near_lists.at(inner))
            if reached < best:
                best, weights = reached, inner
            inner = nearby.beside(weights, self._rng)
        if best < cost:
            self.offer(self._basis @ weights)
        return spent


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

    features [M, D] with D > 0, offsets [S + 1], costs [M]. Descents start at `initial` [D], if any, and equal weights,
    then near the weights found, a step from the best, or at fresh random weights. They stop when `starts` (default: no
    limit) or `budget`, in hypotheses times line searches, is used up, or the cost is 0; each ends after 3 D directions
    in a row that do not lower the cost. Weights with a tie between different costs are returned only if nothing else
    was found. On one machine the same arguments give the same weights, unless the time limit of the running call comes
    first.
    """
    descents = Descents(features, offsets, costs, seed=seed, initial=initial)
    descents.run(budget, starts)
    return descents.best
