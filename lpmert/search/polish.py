"""The weights of a result: in the middle of the optimal cell, or at least beside all ties."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

import numpy as np

from lpmert.core import decode
from lpmert.errors import FloatArray, IntArray
from lpmert.model.coordinates import CallerWeights, CanonicalWeights, UnmergedWeights
from lpmert.model.evaluation import Evaluation
from lpmert.model.problem import Problem
from lpmert.numeric.lp import LinOptimizer
from lpmert.search.moved import moved, normalised
from lpmert.system.deadline import OutOfTime, heeding, out_of_time

_PERTURBATIONS = 24

_TIE_DRAWS = 4
_TIE_SIZES = tuple(10.0 ** (exponent / 2) for exponent in range(-24, -3))
"""Weights that hang on a tie are moved by steps of these sizes, relative to the largest weight."""


class Placed(NamedTuple):
    """Weights [D], the margin of the cell (`None` if unknown), whether they hold, and the limits that cut their cell.

    They hold if, in exact arithmetic, they have the cost that the search claims without the help of a tie. centre [D]:
    of the cell, if the weights are not.
    """

    weights: CallerWeights
    margin: float | None = None
    holds: bool = False
    limiting: tuple[str, ...] = ()
    centre: CallerWeights | None = None


def in_the_middle(
    problem: Problem, weights: CanonicalWeights, cost: int, seed: int, initial: CallerWeights | None
) -> Placed:
    """Return weights in the middle of the cell of weights [d] of this cost, as far as it lies in the region.

    Initial weights [D] that are as good stay as they are: whoever searches again and again would wander otherwise.
    Merged lists that cancel each other can be tied at the search's weights; the cell's centre is taken among the lists
    unmerged.
    """
    if initial is not None and initial.any() and problem.attains(normalised(initial), cost):
        centre, margin, limiting = _centred(problem, initial)
        return Placed(normalised(initial), margin, True, limiting, normalised(centre))
    found = problem.to_caller(weights)
    centre, margin, limiting = _centred(problem, found)
    if problem.attains(normalised(centre), cost):
        return Placed(normalised(centre), margin, True, limiting)
    # Cells so thin that normalising leaves them: a power of two changes no bit of the weights.
    candidates = [normalised(found), _halved(centre), _halved(found)]
    if problem.region is not None:
        # Both the cell and the region are convex: on the way from the weights found to the centre lies what is in both.
        near, far = normalised(found), normalised(centre)
        candidates = [normalised(near + 2.0**-k * (far - near)) for k in range(1, _PERTURBATIONS)] + candidates
    sizes = [10.0 ** (-k / 2) for k in range(_PERTURBATIONS)]
    beside = moved(found, sizes, _steps(problem, seed), alike=True)
    for candidate in chain(candidates, map(normalised, beside)):
        if problem.attains(candidate, cost):
            return Placed(candidate, None, True, limiting)
        if out_of_time():
            break
    inside = problem.canonical.interior
    if inside is not None and not problem.inside(normalised(found)):
        found = problem.to_caller(inside)
    return Placed(normalised(found), None, False, limiting)


def beside_ties(problem: Problem, weights: CanonicalWeights, seed: int, initial: CallerWeights | None) -> Placed:
    """Return weights [d] of the region, moved as little as makes their loss independent of ties; or initial weights
    [D], if they are as good.
    """
    placed = _beside_ties(problem, weights, seed)
    if initial is None or not initial.any() or not problem.inside(stayed := normalised(initial)):
        return placed
    at = problem.evaluate(stayed)
    return Placed(stayed) if _is_clear(at) and at.loss <= problem.evaluate(placed.weights).loss else placed


def _beside_ties(problem: Problem, weights: CanonicalWeights, seed: int) -> Placed:
    found = problem.to_caller(weights)
    inside = problem.canonical.interior
    if inside is not None and not problem.inside(found):
        found = problem.to_caller(inside)
    given = normalised(found)
    if (_is_clear(problem.evaluate(given)) and problem.inside(given)) or not len(problem.unmerged.coordinates.columns):
        return Placed(given)
    beside = moved(found, np.repeat(_TIE_SIZES, _TIE_DRAWS), _steps(problem, seed), alike=True)
    for size in _TIE_SIZES:
        if out_of_time() and size > _TIE_SIZES[0]:
            break
        some = [normalised(next(beside)) for _ in range(_TIE_DRAWS)]
        clear = [(at.loss, row) for row in some if problem.inside(row) and _is_clear(at := problem.evaluate(row))]
        if clear:
            return Placed(min(clear, key=lambda pair: pair[0])[1])
    return Placed(given)


def _steps(problem: Problem, seed: int) -> Callable[[], CallerWeights]:
    """Return what draws a random step [D] of weights.

    Lists that cancel each other can be tied, and their features are not all in the others: it is one for all lists.
    """
    rng = np.random.default_rng(seed)
    coordinates = problem.unmerged.coordinates
    return lambda: coordinates.to_caller(UnmergedWeights(rng.normal(size=len(coordinates.columns))))


def _is_clear(evaluation: Evaluation) -> bool:
    low, high = evaluation.loss_best_ties, evaluation.loss_worst_ties
    return evaluation.tied_lists == 0 or (low is not None and low == high)


def _centred(problem: Problem, found: CallerWeights) -> tuple[CallerWeights, float | None, tuple[str, ...]]:
    """Return the centre [D] of the cell of weights [D] among the lists unmerged, its margin, and what limits cut it.

    Where there is no time for that, they are the weights themselves, and no margin.
    """
    lists = problem.unmerged
    if len(lists.offsets) < 2 or not len(lists.coordinates.columns) or out_of_time():
        return found, None, ()
    start = lists.coordinates.from_caller(found)
    rows = decode(lists.features, lists.offsets, start)
    optimizer = LinOptimizer(lists.features, lists.offsets)
    try:
        with heeding():
            inner, margin = optimizer.centre((np.arange(len(rows)), rows), start=start)
            return lists.coordinates.to_caller(UnmergedWeights(inner)), margin, _limiting(problem, optimizer, rows)
    except OutOfTime:
        return found, None, ()


def _limiting(problem: Problem, optimizer: LinOptimizer, rows: IntArray) -> tuple[str, ...]:
    """Return the limits beyond which the optimal cell goes on: there the same choices are made outside the region."""
    labels = problem.canonical.labels if problem.canonical.additive else ()
    first = len(rows) - len(labels)
    lists = np.arange(len(rows))
    found = []
    for k, label in enumerate(labels):
        beyond = rows.copy()
        beyond[first + k] = optimizer.offsets[first + k] + 1
        if optimizer.solve((lists, beyond)).attainable:
            found.append(label)
    return tuple(found)


def _halved(weights: FloatArray) -> CallerWeights:
    """Return weights [D] times the power of two that brings the sum of their absolute values into [1/2, 1)."""
    return CallerWeights(np.ldexp(weights, -int(np.frexp(np.abs(weights).sum())[1])))
