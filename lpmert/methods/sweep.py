"""The exact optimum of problems with one or two features, by a sweep over all directions of the plane.

The choice of a list changes only at the outward normals of the edges of its convex hull. The core finds these, and
compares all directions exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lpmert import core
from lpmert.errors import DataError, FloatArray, IntArray, MethodError
from lpmert.numeric.rational import EPSILON, SMALLEST_NORMAL
from lpmert.search.method import Enumeration, Method, Search, Task
from lpmert.system.deadline import checkpoint

_LEAST_EXPONENT = -440
"""Least exponent of a value, for features scaled to at most 1, at which no product in exact sums underflows."""


@dataclass(frozen=True)
class PlanarOptimum:
    """The least cost over all directions, and the best direction that doubles can represent.

    cost: the proven least cost of decoding without ties. weights [D]: the middle of the widest interval of directions
    with this cost. representable_weights [D]: weights that decode to representable_cost with every lead above the
    rounding error. They equal `weights` if that interval is wide enough, and are `None` if no interval is.
    """

    cost: int
    weights: FloatArray
    representable_cost: int | None
    representable_weights: FloatArray | None


class CriticalDirections(NamedTuple):
    """The events at which choices change while the weights turn once counter-clockwise, in exact order.

    start [S]: the hypothesis chosen in each list just before the first event. leaving, entering [E]: the hypotheses
    chosen before and after each event. ends [G]: the end of each group of events with the same direction. middles
    [G, 2], widths [G] (radians, for features scaled to at most 1): the open interval of directions after each group,
    rounded. Hypotheses are rows of the feature matrix.
    """

    start: IntArray
    leaving: IntArray
    entering: IntArray
    ends: IntArray
    middles: FloatArray
    widths: FloatArray


def critical_directions(features: FloatArray, offsets: IntArray) -> CriticalDirections:
    """Return the directions of the plane at which the choices of lists change.

    features [M, 2], offsets [S + 1]. Any statistics can be swept over the events: begin with their sum over `start`,
    and add statistics[entering] - statistics[leaving] group by group. Raises `DataError` if the nonzero values of a
    feature span more than 132 orders of magnitude.
    """
    scaled, exponents = _scaled(features)
    x, y = np.ascontiguousarray(scaled.T)
    start, leaving, entering, ends = core.critical_directions(x, y, offsets)
    edges = scaled[entering[ends - 1]] - scaled[leaving[ends - 1]]
    middles, widths = _intervals(np.column_stack([edges[:, 1], -edges[:, 0]]))
    return CriticalDirections(start, leaving, entering, ends, np.ldexp(middles, exponents.min() - exponents), widths)


def sweep_directions(features: FloatArray, offsets: IntArray, costs: IntArray) -> PlanarOptimum:
    """Return the proven least cost that any weights other than 0 attain without ties, and weights that attain it.

    features [M, D] with D = 1 or 2, offsets [S + 1], costs [M]; no list contains identical vectors. Raises `ValueError`
    for other D, and `DataError` if the nonzero values of a feature span more than 132 orders of magnitude.
    Sources: Och 2003 on a line; Galley and Quirk 2011 on critical directions in the plane.
    """
    dimension = features.shape[1]
    if dimension not in (1, 2):
        raise ValueError(f"the sweep needs one or two features, not {dimension}")
    if dimension == 1:
        signs = np.array([[1.0], [-1.0]])
        both = [int(costs[core.decode(features, offsets, sign)].sum()) for sign in signs]
        best = int(np.argmin(both))
        return PlanarOptimum(both[best], signs[best], both[best], signs[best])
    critical = critical_directions(features, offsets)
    cost = int(costs[critical.start].sum())
    if len(critical.ends) == 0:
        return PlanarOptimum(cost, np.ones(2), cost, np.ones(2))
    levels = cost + np.cumsum(costs[critical.entering] - costs[critical.leaving])[critical.ends - 1]
    ranking = np.lexsort((-critical.widths, levels))
    cost = int(levels[ranking[0]])
    for interval in ranking:
        checkpoint()
        weights, level = critical.middles[interval], int(levels[interval])
        if _clear_cost(features, offsets, costs, weights) == level:
            return PlanarOptimum(cost, weights if level == cost else critical.middles[ranking[0]], level, weights)
    return PlanarOptimum(cost, critical.middles[ranking[0]], None, None)


def _clear_cost(features: FloatArray, offsets: IntArray, costs: IntArray, weights: FloatArray) -> int | None:
    """Return the cost of decoding with weights [2] in any order of summation, `None` if rounding may change it.

    It may if the score of a hypothesis with another cost is within the rounding error of the best score.
    """
    scores, lists = features @ weights, offsets[:-1]
    sizes = np.maximum.reduceat(np.abs(features) @ np.abs(weights), lists)
    error = 4 * len(weights) * (EPSILON * sizes + SMALLEST_NORMAL)
    near = scores >= np.repeat(np.maximum.reduceat(scores, lists) - error, np.diff(offsets))
    most = np.maximum.reduceat(np.where(near, costs, np.iinfo(np.int64).min), lists)
    least = np.minimum.reduceat(np.where(near, costs, np.iinfo(np.int64).max), lists)
    return int(most.sum()) if (most == least).all() else None


def too_wide(features: FloatArray) -> int | None:
    """Return the first of the features [M, D] whose nonzero values span more than 132 orders of magnitude, if any."""
    for d, column in enumerate(features.T):
        exponents = np.frexp(column[column != 0])[1]
        if len(exponents) and np.ptp(exponents) > -_LEAST_EXPONENT:
            return d
    return None


def _scaled(features: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the features [M, 2] with columns scaled exactly by powers of two to at most 1, and the exponents [2]."""
    wide = too_wide(features)
    if wide is not None:
        trouble = f"the values of feature {wide + 1} span more than 132 orders of magnitude"
        raise DataError(f"{trouble}: set the tiny ones to 0")
    exponents = np.frexp(np.abs(features).max(axis=0))[1]
    return np.ldexp(features, -exponents), exponents


def _intervals(normals: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the middles [G, 2] and the widths [G], in radians, of the arcs from each direction to the next."""
    before = normals / np.hypot(normals[:, 0], normals[:, 1])[:, None]
    after = np.roll(before, -1, axis=0)
    cosines = (before * after).sum(axis=1)
    sines = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    apart = before - after
    obtuse = np.column_stack([-apart[:, 1], apart[:, 0]])
    return np.where(cosines[:, None] > 0, before + after, obtuse), np.arctan2(np.abs(sines), cosines)


@dataclass(frozen=True)
class Sweep(Method):
    """Och's line search over the whole circle of directions, in exact arithmetic where rounding could matter."""

    name = "sweep"
    takes_fractions = True

    def start(self, task: Task) -> Search:
        """Return a search of a single step; raises `MethodError` for more than two features."""
        canonical, incumbent = task.canonical, task.incumbent
        if canonical.n_features > 2:
            raise MethodError(
                f"method 'sweep' takes at most two features that matter, not {canonical.n_features}: use 'auto'"
            )

        def settle() -> Iterator[int | None]:
            optimum = sweep_directions(*canonical.lists)
            if canonical.rounding is None and optimum.representable_cost == optimum.cost:
                incumbent.improve(optimum.cost, optimum.weights, "W")
            else:
                for weights in (optimum.weights, optimum.representable_weights):
                    cost = None if weights is None else canonical.strict_cost(weights)
                    if weights is not None and cost is not None:
                        incumbent.improve(cost, weights, "W")
            # The directions of rounded features prove nothing about the exact features.
            least = optimum.cost if canonical.rounding is None else 0
            yield None if incumbent.cost <= least else least

        return Enumeration(incumbent, settle())
