"""Good weights from several starts by exact line searches; deterministic effort, no bound.

Sources: Och 2003 (line search); Moore and Quirk, Random Restarts in Minimum Error Rate Training for Statistical Machine
Translation, COLING 2008 (random walks around the best weights so far); McAllester, Hazan and Keshet, Direct Loss
Minimization for Structured Prediction, NIPS 2010 (directions from the chosen hypotheses towards cheaper ones).
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.lines.envelope import combine, new_workspace, search_scores
from lpmert.model.canonical import standardised
from lpmert.numeric.kernels import kernel, norm
from lpmert.system.deadline import out_of_time

DEFAULT_BUDGET = 3_000_000
"""Hypotheses times line searches that `descend` spends unless told otherwise: 0.1 s for lists of 30 to 100."""

_PIECE = 20_000_000
"""Features times line searches between two looks at the clock."""

_OVERHEAD = 1_000
"""What a line search costs beyond its hypotheses, in hypotheses."""

_TABLE = 64
"""Directions drawn for one start; a longer descent goes through them again."""

_RIDGE = 1e-3
"""Directions in which the lists vary less than this share of the widest are not stretched further."""

_WALK = 0.1
"""Standard deviation of a random walk's step, for weights whose largest is 1."""

_FRESH = 0.3
"""Share of starts that are fresh random weights rather than steps of a random walk."""

_RATES = (-4.0, 2.0)
"""Range of the logarithm of a unit of cost in units of score, both in standard deviations."""

_COORDINATE_EVERY = 16
"""One in so many drawn directions is that of a single weight."""

_KEPT = 3
"""Best weights of the sample that are tried on all lists."""

_SCREENED = 20_000
"""From this many hypotheses on, starts are first tried on a sample of lists."""

_SAMPLE = 6_000
"""Hypotheses in that sample."""


class _Draws(NamedTuple):
    """Random numbers of one start: directions [T, D], costs of a unit of score [T], lists that take part [T, S]."""

    directions: FloatArray
    rates: FloatArray
    taking_part: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


@kernel
def decode_cost(scores, offsets, costs, error):  # type: ignore[no-untyped-def]
    """Return the cost of decoding scores [M], and how many lists are in doubt.

    A list is in doubt where a hypothesis of another cost than the chosen one scores within `error` of it.
    """
    total = 0
    doubtful = 0
    for s in range(len(offsets) - 1):
        best = offsets[s]
        for i in range(offsets[s] + 1, offsets[s + 1]):
            if scores[i] > scores[best]:
                best = i
        total += costs[best]
        least = scores[best] - error
        for i in range(offsets[s], offsets[s + 1]):
            if scores[i] >= least and costs[i] != costs[best]:
                doubtful += 1
                break
    return total, doubtful


@kernel
def _towards_cheaper(transposed, scores, offsets, costs, rate, taking_part, direction):  # type: ignore[no-untyped-def]
    """Write the sum of the steps from chosen hypotheses to those with the best score minus price times cost."""
    for k in range(len(direction)):
        direction[k] = 0.0
    for s in range(len(offsets) - 1):
        if not taking_part[s]:
            continue
        chosen = wanted = offsets[s]
        for i in range(offsets[s] + 1, offsets[s + 1]):
            if scores[i] > scores[chosen]:
                chosen = i
            if scores[i] - rate * costs[i] > scores[wanted] - rate * costs[wanted]:
                wanted = i
        if wanted != chosen:
            for k in range(len(direction)):
                direction[k] += transposed[k, wanted] - transposed[k, chosen]


@kernel(allocates=True)
def _search(weights, draws, turns, patience, searches, offsets, costs, work):  # type: ignore[no-untyped-def]
    """Search from weights [D], which are replaced, until `patience` directions in a row do not lower the cost.

    Drawn directions and directions towards cheaper hypotheses alternate; at equal cost too the weights move to the
    middle of the best interval. turns [2], the directions gone through and how many of the last ones failed, let a
    search that used up its `searches` go on as if it had not ended. Returns the searches left.
    """
    dimension = len(weights)
    trial = np.empty(dimension)
    direction = np.empty(dimension)
    combine(work.transposed, weights, work.intercepts)
    cost = decode_cost(work.intercepts, offsets, costs, 0.0)[0]
    while turns[1] < patience and searches > 0:
        row = turns[0] % len(draws.directions)
        turns[0] += 1
        turns[1] += 1
        searches -= 1
        drawn = draws.directions[row]
        length = norm(weights)
        if row % 2:
            rate = draws.rates[row] * length
            _towards_cheaper(work.transposed, work.intercepts, offsets, costs, rate, draws.taking_part[row], direction)
        if row % 2 == 0 or norm(direction) == 0.0:
            for k in range(dimension):
                direction[k] = drawn[k]
        combine(work.transposed, direction, work.slopes)
        scale = length / norm(direction)
        promised, step = search_scores(work.slopes, offsets, costs, -inf, inf, scale, work)
        if promised > cost:
            continue
        for k in range(dimension):
            trial[k] = weights[k] + step * direction[k]
        length = norm(trial)
        if length == 0.0:
            continue
        for k in range(dimension):
            trial[k] /= length
        combine(work.transposed, trial, work.intercepts)
        reached = decode_cost(work.intercepts, offsets, costs, 0.0)[0]
        if reached > cost:
            combine(work.transposed, weights, work.intercepts)
            continue
        if reached < cost:
            turns[1] = 0
        cost = reached
        for k in range(dimension):
            weights[k] = trial[k]
    return searches


class _Lists:
    """Lists with their features in coordinates in which all directions vary alike, and the best weights found."""

    def __init__(self, features: FloatArray, offsets: IntArray, costs: IntArray, basis: FloatArray) -> None:
        self.offsets, self.costs = offsets, costs
        self.basis, self.inverse = basis, np.linalg.inv(basis)
        self.transposed = np.ascontiguousarray(features.T)
        turned = np.empty_like(self.transposed)
        for column, row in zip(basis.T, turned, strict=True):  # threads of a matrix product take longer than this
            combine(self.transposed, np.ascontiguousarray(column), row)
        self.magnitudes = np.abs(features).max(axis=0, initial=0.0)
        self.work = new_workspace(turned.T, offsets)
        self.deviation = max(float(costs.std()), 1.0)
        self.found: list[tuple[bool, int, FloatArray]] = []

    def keep(self, weights: FloatArray) -> None:
        """Decode weights [D] for the features as given and remember them if they are the best, clear of ties first."""
        weights = weights / np.abs(weights).max()
        scores = self.work.intercepts
        combine(self.transposed, weights, scores)
        error = 4 * len(weights) * float(np.finfo(np.float64).eps * (np.abs(weights) @ self.magnitudes))
        cost, doubtful = decode_cost(scores, self.offsets, self.costs, error)
        self.found = sorted([*self.found, (doubtful > 0, int(cost), weights)], key=lambda item: item[:2])[:_KEPT]

    def search(self, weights: FloatArray, rng: np.random.Generator, patience: int, searches: int) -> int:
        """Descend from weights [D], keep the result, and return the line searches left."""
        inner = self.inverse @ weights
        directions = rng.normal(size=(_TABLE, len(inner)))
        directions[::_COORDINATE_EVERY] = self.inverse.T[rng.integers(len(inner), size=_TABLE // _COORDINATE_EVERY)]
        draws = _Draws(
            directions=directions,
            rates=np.exp(rng.uniform(*_RATES, size=_TABLE)) / self.deviation,
            taking_part=rng.random((_TABLE, len(self.offsets) - 1)) < rng.random((_TABLE, 1)),
        )
        turns = np.zeros(2, dtype=np.int64)
        piece = max(1, _PIECE // self.transposed.size)
        while turns[1] < patience and searches > 0 and not out_of_time():
            unused = _search(inner, draws, turns, patience, min(piece, searches), self.offsets, self.costs, self.work)
            searches -= min(piece, searches) - int(unused)
        self.keep(self.basis @ inner)
        return searches

    def restart(
        self, first: list[FloatArray], rng: np.random.Generator, *, starts: int, patience: int, searches: int
    ) -> None:
        """Descend from the `first` weights, then from random walks around the best and fresh random weights."""
        for start in range(starts):
            if searches <= 0 or (self.found and (self.found[0][:2] == (False, 0) or out_of_time())):
                return
            if start < len(first):
                weights = first[start]
            else:
                weights = self.basis @ rng.normal(size=len(self.basis))
                if self.found and rng.random() >= _FRESH:
                    inner = self.inverse @ self.found[0][2]
                    step = _WALK * np.abs(inner).max() * rng.normal(size=len(inner))
                    weights = self.basis @ (inner + step)
            searches = self.search(weights, rng, patience, searches)


def descend(
    features: FloatArray,
    offsets: IntArray,
    costs: IntArray,
    *,
    seed: int = 0,
    starts: int | None = None,
    initial: FloatArray | None = None,
    patience: int | None = None,
    budget: int = DEFAULT_BUDGET,
) -> tuple[int, FloatArray]:
    """Return low-cost weights [D], largest entry 1 in absolute value, and the cost of decoding with them.

    features [M, D], offsets [S + 1], costs [M]. The starts are `initial` [D] if given, equal weights, then random walks
    around the best weights and fresh random ones, until `starts` (default: no limit) or `budget`, in hypotheses times
    line searches, is used up or the cost is 0; each ends after `patience` directions in a row (default three times D)
    that do not lower the cost. Weights with which a list's choice hangs on a tie between different costs are returned
    only if nothing else was found. On one machine the same arguments give the same weights, unless the time limit of
    the running call comes first. Raises `ValueError` if there is no feature, or if `starts`, `patience` or `budget` is
    not positive.
    """
    count, dimension = features.shape
    patience = 3 * dimension if patience is None else patience
    if dimension == 0:
        raise ValueError("descend needs at least one feature")
    for name, value in (("starts", starts), ("patience", patience), ("budget", budget)):
        if value is not None and value <= 0:
            raise ValueError(f"{name} must be positive, not {value}")
    rng = np.random.default_rng(seed)
    basis = _basis(features, offsets)
    lists = _Lists(features, offsets, costs, basis)
    given = [] if initial is None or not np.any(initial) else [np.asarray(initial, dtype=np.float64)]
    for weights in given:
        lists.keep(weights)
    first = [*given, np.ones(dimension)]
    searches = max(1, budget // (count + _OVERHEAD))
    starts = searches if starts is None else starts
    if count >= _SCREENED:
        sample = _Lists(*_sample(features, offsets, costs, rng), basis)
        rows = len(sample.costs)
        sample.restart(first, rng, starts=starts, patience=patience, searches=max(1, budget // 3 // (rows + _OVERHEAD)))
        first = [*given, *(weights for _, _, weights in sample.found)]
        searches = max(1, 2 * searches // 3)
    lists.restart(first, rng, starts=starts, patience=patience, searches=searches)
    _, cost, best = lists.found[0]
    return cost, best


def _basis(features: FloatArray, offsets: IntArray) -> FloatArray:
    """Return [D, D] such that features @ basis varies alike in all directions within the lists, up to `_RIDGE`."""
    alike, spread = standardised(features, offsets)
    values, vectors = np.linalg.eigh(alike.T @ alike / len(alike))
    stretch = 1 / np.sqrt(np.maximum(values, 0) + _RIDGE * (values[-1] if values[-1] > 0 else 1.0))
    return np.ascontiguousarray(vectors * stretch / spread[:, None])


def _sample(
    features: FloatArray, offsets: IntArray, costs: IntArray, rng: np.random.Generator
) -> tuple[FloatArray, IntArray, IntArray]:
    """Return features, offsets and costs of randomly drawn lists with about `_SAMPLE` hypotheses."""
    sizes = np.diff(offsets)
    drawn = rng.permutation(len(sizes))
    drawn = np.sort(drawn[: 1 + int(np.searchsorted(np.cumsum(sizes[drawn]), _SAMPLE))])
    rows = np.concatenate([np.arange(offsets[s], offsets[s + 1]) for s in drawn])
    return features[rows], np.concatenate([[0], np.cumsum(sizes[drawn])]), costs[rows]
