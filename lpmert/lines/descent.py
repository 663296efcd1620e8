"""One descent by exact line searches, on all lists or near given weights.

Sources: Och 2003 (line search); McAllester, Hazan and Keshet, Direct Loss Minimization for Structured Prediction, NIPS
2010 (directions from the chosen hypotheses towards cheaper ones).
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.lines.envelope import Workspace, combine, new_workspace, search_scores
from lpmert.lines.near import Near
from lpmert.model.canonical import standardised
from lpmert.numeric.kernels import internal, kernel, norm
from lpmert.system.deadline import out_of_time

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


@internal
def _across(centre, reach, weights, direction):  # type: ignore[no-untyped-def]
    """Turn a direction [D] to right angles to the centre, at length 1; return the t that keep weights within reach."""
    along = 0.0
    for k in range(len(centre)):
        along += direction[k] * centre[k]
    for k in range(len(centre)):
        direction[k] -= along * centre[k]
    length = norm(direction)
    if length == 0.0:
        return 0.0, 0.0
    slope, inside = 0.0, reach * reach
    for k in range(len(centre)):
        direction[k] /= length
        step = weights[k] - centre[k]
        slope += step * direction[k]
        inside -= step * step
    root = sqrt(slope * slope + max(inside, 0.0))
    return -slope - root, root - slope


@kernel(allocates=True)
def _search(weights, centre, reach, draws, turns, patience, searches, offsets, costs, work):  # type: ignore[no-untyped-def]
    """Search from weights [D], which are replaced, until `patience` directions in a row do not lower the cost.

    The weights stay within `reach` of the centre [D], at right angles to it; where that is infinite, they go anywhere.

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
        low, high = -inf, inf
        if reach < inf:
            low, high = _across(centre, reach, weights, direction)
            if not low < high:
                continue
        combine(work.transposed, direction, work.slopes)
        scale = length / norm(direction)
        promised, step = search_scores(work.slopes, offsets, costs, low, high, scale, work)
        if promised > cost:
            continue
        for k in range(dimension):
            trial[k] = weights[k] + step * direction[k]
        length = 1.0 if reach < inf else norm(trial)
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


class DescentLists:
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
        scores = self.work.intercepts
        combine(self.transposed, weights, scores)
        error = 4 * len(weights) * float(np.finfo(np.float64).eps * (np.abs(weights) @ self.magnitudes))
        cost, doubtful = decode_cost(scores, self.offsets, self.costs, error)
        verdict = bool(doubtful > 0), int(cost)
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
        work: Workspace | None = None,
    ) -> int:
        """Descend from weights `inner` [D], in these coordinates, which are replaced; return the line searches left.

        nearby: where to stay, with the workspace of the lists there; by default anywhere, on all lists.
        """
        if nearby is None or work is None:
            centre, reach, offsets, costs, work = inner, inf, self.offsets, self.costs, self.work
        else:
            centre, reach, offsets, costs = nearby.centre, nearby.reach, nearby.offsets, self.costs[nearby.rows]
        directions = rng.normal(size=(_TABLE, len(inner)))
        directions[::_COORDINATE_EVERY] = self.inverse.T[rng.integers(len(inner), size=_TABLE // _COORDINATE_EVERY)]
        draws = _Draws(
            directions=directions,
            rates=np.exp(rng.uniform(*_RATES, size=_TABLE)) / self.deviation,
            taking_part=rng.random((_TABLE, len(offsets) - 1)) < rng.random((_TABLE, 1)),
        )
        turns = np.zeros(2, dtype=np.int64)
        piece = max(1, _PIECE // max(1, work.transposed.size))
        while turns[1] < patience and searches > 0 and not out_of_time():
            most = min(piece, searches)
            searches -= most - int(_search(inner, centre, reach, draws, turns, patience, most, offsets, costs, work))
        return searches


def even_basis(features: FloatArray, offsets: IntArray) -> FloatArray:
    """Return [D, D] such that features @ basis varies alike in all directions within the lists, up to `_RIDGE`."""
    alike, spread = standardised(features, offsets)
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
