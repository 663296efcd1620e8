"""Weights that people can read and remember: the smallest whole numbers that choose as well as given weights.

The weights that keep the choice of every list ahead of all hypotheses of another loss are a cone. Whole numbers in it
are sought by constraint propagation on boxes, for one largest absolute value after the other, with few of its limits at
a time. What is found is decoded in exact arithmetic; what is ruled out, by limits in whole numbers that are relaxed by
more than their rounding. So there are none smaller in the cone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from lpmert.api import list_problem
from lpmert.core import decode
from lpmert.errors import DataError, IntArray
from lpmert.model.presolve import TIMES
from lpmert.numeric.lists import blocks_of_lists, varying_columns
from lpmert.numeric.rounding import whole_row
from lpmert.system.deadline import checkpoint
from lpmert.values import whole_number

if TYPE_CHECKING:
    from pathlib import Path

    from lpmert.errors import FloatArray
    from lpmert.metrics.base import Metric
    from lpmert.model.nbest import NBest
    from lpmert.model.region import Region
    from lpmert.values import Weights

LARGEST = 999
"""What whole weights are at most by default: three digits."""

_BITS = 30
"""Of the entries of limits; products with weights of some digits are far from overflow."""

_MOST_TRIED = 50
"""Candidates after which the search gives up: where features are coarse, small weights tie nearly everywhere."""

_MOST_BOXES = 10_000
"""Boxes after which the search gives up: with many features or thin cones it would not end."""

_FIRST_LIMITS, _ROUNDS = 4, 8
"""Limits for each feature that the search begins with, and how often each box is narrowed by all."""


def whole_weights(
    nbest: NBest,
    weights: Weights | str | Path,
    *,
    largest: int = LARGEST,
    metric: str | Metric | None = None,
    ties: str = "first",
    region: Region | None = None,
) -> dict[str, int] | None:
    """Find the smallest whole numbers with which every list chooses as well as with given weights.

    Parameters
    ----------
    nbest : NBest
        The lists.
    weights : mapping or sequence of numbers, Result, str or Path
        Weights of the region without ties that matter, such as those of `minimize`.
    largest : int
        The largest absolute value that they may have.
    metric, ties, region
        As for `minimize`.

    Returns
    -------
    dict of int or None
        Whole weights by name, with the same loss in exact arithmetic, whatever their ties, inside the region up to a
        positive factor. No smaller ones, by their largest absolute value, keep each choice ahead of all hypotheses of
        its list with another loss. `None` if there are none, or if they are too hard to find.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        As by `evaluate`; `MethodError` too for lattices.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> lpmert.whole_weights(lists, lpmert.minimize(lists))
    {'a': 3, 'b': 2}
    """
    from lpmert.formats.weights import given_weights

    largest = whole_number(largest, "largest", 1)
    if largest > 2**20:
        raise DataError(f"largest must be at most {2**20}; got {largest}")
    checkpoint(TIMES * nbest.n_hypotheses * nbest.n_features * np.dtype(np.float64).itemsize)
    problem = list_problem(nbest, metric, ties, region, "whole weights need")
    given = problem.checked_weights(given_weights(weights, "weights"))
    reduction = problem.coordinates.reduction
    if reduction.columns is None:  # equations on several weights, which whole numbers hardly ever fulfil
        return None
    loss = problem.evaluate(given).loss

    def serves(whole: IntArray) -> bool:
        candidate = whole.astype(np.float64)
        at = problem.evaluate(candidate)
        ends = (at.loss_best_ties, at.loss_worst_ties) if at.tied_lists else (loss, loss)
        return at.loss == loss and ends == (loss, loss) and problem.inside(problem.checked_weights(candidate))

    features, offsets, statistics = problem.as_given()
    values = statistics if problem.losses is None else problem.metric.losses(statistics)[:, None]  # type: ignore[attr-defined]
    rows = np.array([*map(whole_row, reduction.given.exact_rows)], dtype=np.float64).reshape(-1, len(given))
    free = np.union1d(varying_columns(features, offsets), np.flatnonzero(rows.any(axis=0)))
    free = np.intersect1d(free, reduction.columns)

    def full(part: IntArray) -> IntArray:
        whole = np.zeros(len(given), dtype=np.int64)
        whole[free] = part
        return whole

    parts = chain([rows], _limits(features, offsets, values, given))
    limits = np.concatenate([_relaxed(part[:, free]) for part in parts])
    found = _smallest(limits, given[free], largest, lambda part: serves(full(part)))
    return None if found is None else dict(zip(problem.names, full(found).tolist(), strict=True))


def _limits(features: FloatArray, offsets: IntArray, values: FloatArray, weights: FloatArray) -> Iterator[FloatArray]:
    """Yield the differences [k, D] of each choice to all hypotheses of its list with other values [M, V], by blocks."""
    chosen = decode(features, offsets, weights)
    for lists, some, ends in blocks_of_lists(offsets):
        checkpoint()
        rows = np.arange(some.start, some.stop)
        own = np.repeat(chosen[lists], np.diff(ends))
        others = (values[rows] != values[own]).any(axis=1)
        yield features[own[others]] - features[rows[others]]


def _relaxed(limits: FloatArray) -> IntArray:
    """Return limits [k, d] as different rows of whole numbers, each off by 1 at most from the limit times a factor."""
    sizes = np.abs(limits).max(axis=1, initial=0.0)
    scaled = limits[sizes > 0.0] / sizes[sizes > 0.0, None]
    return np.unique(np.rint(np.ldexp(scaled, _BITS)).astype(np.int64), axis=0)


def _smallest(limits: IntArray, near: FloatArray, largest: int, serves: Callable[[IntArray], bool]) -> IntArray | None:
    """Return whole numbers [d] that serve, with the least largest absolute value; `None` if there are none, or too many
    boxes or candidates.

    limits [k, d]: such numbers w have limits @ w > -slack, with a slack of d times their size for the rounding of the
    limits. near [d]: numbers that serve, which need not be whole.
    """
    if not len(near) or not near.any():
        return None
    leads = limits @ near
    work = limits[np.argsort(leads)[: _FIRST_LIMITS * len(near)]]
    boxes = tried = 0
    for size in range(1, largest + 1):
        slack = size * len(near)
        stack = [(np.full(len(near), -size), np.full(len(near), size))]
        while stack:
            checkpoint()
            boxes += 1
            if boxes > _MOST_BOXES:
                return None
            box = _narrowed(work, *stack.pop(), slack)
            if box is None:
                continue
            low, high = box
            if np.maximum(-low, high).max() < size:
                continue  # ruled out before
            widths = high - low
            if not widths.any():
                worst = int(np.argmin(limits @ low)) if len(limits) else -1
                if worst >= 0 and int(limits[worst] @ low) <= -slack:
                    work = np.vstack([work, limits[worst]])
                elif tried == _MOST_TRIED:
                    return None
                elif serves(low):
                    return low
                else:
                    tried += 1
                continue
            place = int(np.argmax(widths))
            middle = int(low[place] + high[place]) // 2
            left, right = (low, high.copy()), (low.copy(), high)
            left[1][place], right[0][place] = middle, middle + 1
            ahead = float(near[place]) * size / float(np.abs(near).max()) > middle
            stack += [left, right] if ahead else [right, left]
    return None


def _narrowed(limits: IntArray, low: IntArray, high: IntArray, slack: int) -> tuple[IntArray, IntArray] | None:
    """Return the box low, high [d] without whole numbers w for which some limit @ w <= -slack; `None` if none is left.

    Each limit narrows each number: what the others add to it at most is not enough beyond.
    """
    for _ in range(_ROUNDS):
        most = np.where(limits > 0, limits * high, limits * low)
        missing = 1 - slack - (most.sum(axis=1, keepdims=True) - most)  # limit * w has to be at least that
        if (most.sum(axis=1) <= -slack).any():
            return None
        divisor = np.where(limits == 0, 1, limits)
        least = np.where(limits > 0, -(-missing // divisor), low).max(axis=0, initial=np.iinfo(np.int64).min)
        greatest = np.where(limits < 0, missing // divisor, high).min(axis=0, initial=np.iinfo(np.int64).max)
        least, greatest = np.maximum(low, least), np.minimum(high, greatest)
        if (least > greatest).any():
            return None
        if (least == low).all() and (greatest == high).all():
            break
        low, high = least, greatest
    return low, high
