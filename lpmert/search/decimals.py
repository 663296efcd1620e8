"""Weights with few decimals that choose what others choose: rounding within the optimal cell rather than out of it.

A decoder gets weights as text. Rounded to six decimals, weights may leave their cell where it is thin, and decode to
another loss. But most thin cells hold other weights of six decimals: whole numbers that fulfil linear inequalities,
which a mixed-integer program finds and exact decoding confirms.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lpmert.errors import BoolArray, FloatArray, IntArray
from lpmert.formats.weights import keeps_loss
from lpmert.model.evaluation import Evaluation
from lpmert.model.problem import Problem
from lpmert.numeric.lists import list_numbers

_REACHES = (8, 64, 512)
"""How many units of the last decimal a weight may be moved, in turn."""
_REACH_SHARE = 0.1
"""The same as a share of the sum of all weights, beyond which they would be other weights."""

_NODES = 500
"""Of each mixed-integer program: no limit of time, so that the same weights come out everywhere."""

_MOST_ROWS = 20_000
_CHUNK = 1 << 16


def few_decimals(problem: Problem, weights: FloatArray, decimals: int, fixed: BoolArray | None = None) -> FloatArray:
    """Return weights of so many decimals with the loss of weights [D]; if none are found, return these.

    The absolute values of the weights have the same sum where possible, and nearly so elsewhere. fixed [D]: which
    weights must stay as they are, which have no more decimals.
    """
    keeps = keeps_loss(problem, weights)
    for units in _candidates(problem, problem.evaluate(weights), weights * 10.0**decimals, fixed):
        found = np.array([float(f"{unit}e-{decimals}") for unit in units.tolist()])
        if found.any() and keeps(found):
            return found
    return weights


def _candidates(
    problem: Problem, evaluation: Evaluation, scaled: FloatArray, fixed: BoolArray | None
) -> Iterator[IntArray]:
    """Yield whole numbers [D] near weights [D] in units of the last decimal, which may choose the same."""
    if np.abs(scaled).max(initial=0.0) >= 2.0**50:
        return
    rounded = np.rint(scaled)
    yield rounded.astype(np.int64)
    if evaluation.tied_lists:
        return
    still = np.zeros(len(scaled), dtype=bool) if fixed is None else fixed
    if (rounded[still] != scaled[still]).any():
        return
    norm = np.rint(np.abs(scaled).sum())
    for reach in (one for one in _REACHES if one <= max(_REACH_SHARE * norm, 1.0)):
        rows, slack = _near_rows(problem, evaluation, rounded, reach)
        for total in (norm - np.abs(rounded).sum(), None):
            moved = _program(rows, slack, rounded, reach, total, still)
            if moved is not None:
                yield (rounded + moved).astype(np.int64)


def _near_rows(problem: Problem, evaluation: Evaluation, at: FloatArray, reach: int) -> tuple[FloatArray, FloatArray]:
    """Return the comparisons [R, D] that moving weights [D] by so much can turn, of length 1, and their values there.

    Hypotheses with the statistics of the chosen one need not lose to it.
    """
    nbest = problem.nbest
    features, statistics, offsets = nbest.dense_features(), nbest.statistics, nbest.offsets
    chosen = (offsets[:-1] + evaluation.selection)[list_numbers(offsets)]
    rows, slack = [], []
    for first in range(0, len(features), _CHUNK):
        part = slice(first, first + _CHUNK)
        differs = (statistics[part] != statistics[chosen[part]]).any(axis=1)
        normals = (features[chosen[part]] - features[part])[differs]
        lengths = np.sqrt((normals**2).sum(axis=1))
        normals = normals[lengths > 0] / lengths[lengths > 0, None]
        values = normals @ at
        near = values <= reach * np.abs(normals).sum(axis=1)
        rows.append(normals[near])
        slack.append(values[near])
    found, values = np.concatenate(rows), np.concatenate(slack)
    nearest = np.argsort(values, kind="stable")[:_MOST_ROWS]
    return found[nearest], values[nearest]


def _program(
    rows: FloatArray, slack: FloatArray, at: FloatArray, reach: int, total: float | None, still: BoolArray
) -> FloatArray | None:
    """Return whole numbers [D] by which to move weights [D] so that all comparisons [R, D] are won, and clearly.

    slack [R]: by how much they are won before. total: by how much the absolute values must grow in sum. `None` where
    nothing is found.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    n = len(at)
    constraints = [LinearConstraint(np.column_stack([rows, -np.ones(len(rows))]), -slack, np.inf)]
    signs = np.where(at < 0, -1.0, 1.0)
    if total is not None:
        constraints.append(LinearConstraint(np.append(signs, 0.0)[None], total, total))
    low, high = np.full(n, -float(reach)), np.full(n, float(reach))
    low, high = np.where(at >= 0, np.maximum(low, -at), low), np.where(at < 0, np.minimum(high, -at), high)
    low[still], high[still] = 0.0, 0.0
    outcome = milp(
        np.append(np.zeros(n), -1.0),
        integrality=np.append(np.ones(n), 0.0),
        bounds=Bounds(np.append(low, 0.0), np.append(high, np.inf)),
        constraints=constraints,
        options={"node_limit": _NODES, "mip_rel_gap": 0.5},
    )
    return None if outcome.x is None else np.rint(outcome.x[:n])
