"""Good weights from several starts by exact line searches; deterministic effort, no bound.

Sources: Och 2003 (line search); Moore and Quirk, Random Restarts in Minimum Error Rate Training, COLING 2008 (random
walks around the best weights so far).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from lpmert.geometry.envelope import Workspace, combine, new_workspace, search_scores
from lpmert.result import FloatArray, IntArray

_INFINITY = np.inf
_EPSILON = float(np.finfo(np.float64).eps)

DEFAULT_BUDGET = 8_000_000
"""Hypotheses times line searches that `descend` spends: about 0.1 s."""

_TABLE = 64
"""Random directions drawn for one start."""


@njit(cache=True)
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


@njit(cache=True)
def _descend(weights, directions, patience, searches, offsets, costs, magnitudes, work):  # type: ignore[no-untyped-def]
    """Search along the directions in turn, moving weights [D], until `patience` of them in a row bring nothing.

    Moves to the middle of the best interval at equal cost too. Returns (cost, doubtful, searches left).
    """
    dimension = len(weights)
    unit = _EPSILON * 4 * dimension
    trial = np.empty(dimension)
    combine(work.transposed, weights, work.intercepts)
    cost, doubtful = decode_cost(work.intercepts, offsets, costs, unit * (np.abs(weights) * magnitudes).sum())
    failures = 0
    turn = 0
    while failures < patience and searches > 0:
        direction = directions[turn % len(directions)]
        turn += 1
        failures += 1
        searches -= 1
        combine(work.transposed, direction, work.slopes)
        scale = np.sqrt((weights * weights).sum() / (direction * direction).sum())
        promised, step = search_scores(work.slopes, offsets, costs, -_INFINITY, _INFINITY, scale, work)
        if promised > cost:
            continue
        for k in range(dimension):
            trial[k] = weights[k] + step * direction[k]
        trial /= np.abs(trial).max()
        combine(work.transposed, trial, work.intercepts)
        reached, doubt = decode_cost(work.intercepts, offsets, costs, unit * (np.abs(trial) * magnitudes).sum())
        if reached < cost or (reached == cost and doubt <= doubtful):
            if reached < cost or doubt < doubtful:
                failures = 0
            weights[:] = trial
            cost, doubtful = reached, doubt
        else:
            combine(work.transposed, weights, work.intercepts)
    return cost, doubtful, searches
