"""Weights that people can read and remember: the smallest whole weights that choose as well as given ones.

The weights that keep the choice of every list ahead of all hypotheses with another loss form a cone. A branch and bound
on boxes searches it for integer points, for one largest absolute value after the other, with constraint propagation
over a growing subset of the cone's half-spaces (limits). Candidates are decoded in exact arithmetic. Boxes are ruled
out by limits with integer coefficients that are relaxed by more than their rounding, so no smaller integer point of the
cone is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from lpmert.api import list_problem
from lpmert.core import decode
from lpmert.errors import IntArray
from lpmert.model.problem import TIMES
from lpmert.numeric.lists import blocks_of_lists, varying_columns
from lpmert.numeric.rounding import whole_row
from lpmert.system.deadline import checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from lpmert.errors import FloatArray
    from lpmert.metrics.base import Metric
    from lpmert.model.nbest import NBest
    from lpmert.model.region import Region
    from lpmert.values import Weights

_LARGEST = 999  # maximum of the absolute values of whole weights: three digits
_BITS = 30  # bits of the coefficients of limits; products with weights of a few digits are far from overflow

_MOST_TRIED = 50
"""Candidates after which the search gives up: with coarse features, small weights tie nearly everywhere."""

_MOST_BOXES = 10_000  # boxes after which the search gives up: with many features or thin cones it would not end
_FIRST_LIMITS, _ROUNDS = 4, 8  # limits per feature at the start, and rounds of propagation per box


def whole_weights(
    nbest: NBest,
    weights: Weights | str | Path,
    *,
    metric: str | Metric | None = None,
    ties: str = "first",
    region: Region | None = None,
) -> dict[str, int] | None:
    """Find the smallest whole weights that choose as well as given weights.

    Parameters
    ----------
    nbest : NBest
        The lists.
    weights : mapping or sequence of numbers, Result, str or Path
        Weights inside the region whose loss does not depend on ties, such as those of `minimize`.
    metric, ties, region
        As for `minimize`.

    Returns
    -------
    dict of int or None
        Whole weights of up to three digits by name. They have the same loss in exact arithmetic, however ties are
        broken, and lie inside the region up to a positive factor. No weights with a smaller largest absolute value keep
        each choice ahead of all hypotheses of its list with another loss. `None` if there are none, or they are too
        hard to find.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        As by `evaluate`; `MethodError` also for lattices.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> lpmert.whole_weights(lists, lpmert.minimize(lists))
    {'a': 3, 'b': 2}
    """
    from lpmert.formats.weights import given_weights

    problem = list_problem(nbest, metric, ties, region, "whole weights need")
    checkpoint(TIMES * nbest.n_hypotheses * nbest.n_features * np.dtype(np.float64).itemsize)
    near = problem.checked_weights(given_weights(weights, "weights"))
    reduction = problem.coordinates.reduction
    if reduction.columns is None:  # equations on several weights, which whole numbers hardly ever fulfil
        return None
    loss = problem.evaluate(near).loss

    def serves(whole: IntArray) -> bool:
        candidate = whole.astype(np.float64)
        at = problem.evaluate(candidate)
        ends = (at.loss_best_ties, at.loss_worst_ties) if at.tied_lists else (loss, loss)
        return at.loss == loss and ends == (loss, loss) and problem.inside(problem.checked_weights(candidate))

    features, offsets, statistics = problem.as_given()
    values = statistics if problem.losses is None else problem.metric.losses(statistics)[:, None]  # type: ignore[attr-defined]
    rows = np.array([*map(whole_row, reduction.given.exact_rows)], dtype=np.float64).reshape(-1, len(near))
    free = np.union1d(varying_columns(features, offsets), np.flatnonzero(rows.any(axis=0)))
    free = np.intersect1d(free, reduction.columns)

    def full(reduced: IntArray) -> IntArray:
        whole = np.zeros(len(near), dtype=np.int64)
        whole[free] = reduced
        return whole

    blocks = chain([rows], _limits(features, offsets, values, near))
    limits = np.concatenate([_relaxed(block[:, free]) for block in blocks])
    found = _smallest(limits, near[free], lambda reduced: serves(full(reduced)))
    return None if found is None else dict(zip(problem.names, full(found).tolist(), strict=True))


def _limits(features: FloatArray, offsets: IntArray, values: FloatArray, weights: FloatArray) -> Iterator[FloatArray]:
    """Yield the limits [k, D] of the cone: each choice minus the hypotheses of its list with other values [M, V]."""
    chosen = decode(features, offsets, weights)
    for lists, some, ends in blocks_of_lists(offsets):
        checkpoint()
        rows = np.arange(some.start, some.stop)
        own = np.repeat(chosen[lists], np.diff(ends))
        others = (values[rows] != values[own]).any(axis=1)
        yield features[own[others]] - features[rows[others]]


def _relaxed(limits: FloatArray) -> IntArray:
    """Scale limits [k, d] to distinct rows of integers, each entry off by at most 1."""
    sizes = np.abs(limits).max(axis=1, initial=0.0)
    scaled = limits[sizes > 0.0] / sizes[sizes > 0.0, None]
    return np.unique(np.rint(np.ldexp(scaled, _BITS)).astype(np.int64), axis=0)


def _smallest(limits: IntArray, near: FloatArray, serves: Callable[[IntArray], bool]) -> IntArray | None:
    """Return integers w [d] that serve, with the smallest largest absolute value.

    limits [k, d]: limits @ w > -slack is necessary, where slack, d times the size of w, covers the rounding of the
    limits. near [d]: real numbers that serve. `None` if there are no such integers, or too many boxes or candidates.
    """
    if not len(near) or not near.any():
        return None
    leads = limits @ near
    active = limits[np.argsort(leads)[: _FIRST_LIMITS * len(near)]]
    boxes = tried = 0
    for size in range(1, _LARGEST + 1):
        slack = size * len(near)
        stack = [(np.full(len(near), -size), np.full(len(near), size))]
        while stack:
            checkpoint()
            boxes += 1
            if boxes > _MOST_BOXES:
                return None
            box = _narrowed(active, *stack.pop(), slack)
            if box is None:
                continue
            low, high = box
            if np.maximum(-low, high).max() < size:
                continue  # searched with a smaller size
            widths = high - low
            if not widths.any():
                worst = int(np.argmin(limits @ low)) if len(limits) else -1
                if worst >= 0 and int(limits[worst] @ low) <= -slack:
                    active = np.vstack([active, limits[worst]])
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
    """Propagate limits @ w > -slack over the integers w of a box low, high [d]; `None` if the box becomes empty."""
    for _ in range(_ROUNDS):
        most = np.where(limits > 0, limits * high, limits * low)
        missing = 1 - slack - (most.sum(axis=1, keepdims=True) - most)  # lower bound on limit * w for each entry
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
