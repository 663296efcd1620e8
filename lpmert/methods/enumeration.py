"""Exact methods that enumerate: all attainable selections of a small problem, or all directions of two weights.

The choice of a list changes only at the outward normals of the edges of its convex hull. The core finds these, and
compares all directions exactly. Sources: Och, ACL 2003, on a line; Galley and Quirk, EMNLP 2011, on critical directions
in the plane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lpmert import core
from lpmert.errors import DataError, FloatArray, IntArray, MethodError
from lpmert.limits import checkpoint
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.numeric.cone import LinOptimizer, Verdict
from lpmert.search.method import Enumeration, Incumbent, Method, Search, Task


@dataclass(frozen=True)
class Exhaustive(Method):
    """Enumeration of all attainable selections within the region, without bounds."""

    name = "exhaustive"
    takes_fractions = True

    def start(self, task: Task) -> Search:
        return Enumeration(task.incumbent, _steps(task.canonical, task.incumbent))


def _steps(canonical: Canonical, incumbent: Incumbent) -> Iterator[int | None]:
    # A hypothesis that alone costs more than the incumbent, such as the far side of a limit, is in no better selection.
    allowed = canonical.costs <= incumbent.cost if len(canonical.limits) else None
    optimizer = LinOptimizer(canonical.features, canonical.offsets, rounding=canonical.rounding)
    for selection, weights in attainable_selections(optimizer, allowed=allowed):
        checkpoint()
        cost = int(canonical.costs[canonical.offsets[:-1] + selection].sum())
        if weights is not None:
            incumbent.improve(cost, weights, "E")
        yield None if weights is not None else cost


def attainable_selections(
    optimizer: LinOptimizer, *, allowed: NDArray[np.bool_] | None = None
) -> Iterator[tuple[IntArray, FloatArray | None]]:
    """Yield every attainable selection [S] once, with weights [D] that make it strictly best.

    No list of the optimizer may contain a feature vector twice. allowed [M]: hypotheses that may be chosen, by default
    all. Selections count from 0 within each list. The weights are `None` if the selection is attainable, but by no
    double-precision weights. The search is depth first over the lists: it takes about one linear program for each
    attainable selection of the first lists and each hypothesis of the next one.
    """
    heads = optimizer.offsets
    rows = np.arange(len(optimizer.features)) if allowed is None else np.flatnonzero(allowed)
    candidates = np.split(rows, np.searchsorted(rows, heads[1:-1]))
    order = np.arange(len(candidates))
    if allowed is not None:  # lists without a choice come first, so that what they exclude is excluded once
        order = np.argsort([len(c) != 1 for c in candidates], kind="stable")
    chosen: list[int] = []

    def children(parent: Verdict) -> Iterator[tuple[int, Verdict]]:
        """Yield the rows of the next list that are attainable together with the chosen rows, with their verdicts."""
        lists = order[: len(chosen) + 1]
        before = tuple(chosen)
        for row in candidates[lists[-1]].tolist():
            together = lists, np.array([*before, row], dtype=np.int64)
            verdict = optimizer.solve(together, start=parent.weights, rows=parent.rows)
            if verdict.attainable:
                yield row, verdict

    stack = [children(optimizer.solve((order[:0], order[:0])))]
    while stack:
        found = next(stack[-1], None)
        if found is None:
            stack.pop()
            del chosen[-1:]
            continue
        row, verdict = found
        if len(stack) < len(order):
            chosen.append(row)
            stack.append(children(verdict))
        else:
            selection = np.empty(len(order), dtype=np.int64)
            selection[order] = [*chosen, row]
            yield selection - heads[:-1], verdict.weights


_LEAST_EXPONENT = -440
"""Least exponent of a value, for features scaled to at most 1, at which no product in exact sums underflows."""


Directions = tuple[IntArray, IntArray, IntArray, IntArray, FloatArray, FloatArray]  # see `critical_directions`


def critical_directions(features: FloatArray, offsets: IntArray) -> Directions:
    """Return the events at which choices change while the weights turn once counter-clockwise, in exact order.

    features [M, 2], offsets [S + 1]. Returns, as rows of features, the hypotheses [S] chosen just before the first
    event, and those [E] chosen before and after each event; the end [G] of each group of events with the same
    direction; the middle [G, 2] and width [G] of the open interval of directions after each group, rounded, the width
    in radians for features scaled to at most 1. Raises `DataError` if the nonzero values of a feature span more than
    132 orders of magnitude.
    """
    wide = too_wide(features)
    if wide is not None:
        trouble = f"the values of feature {wide + 1} span more than 132 orders of magnitude"
        raise DataError(f"{trouble}: set the tiny ones to 0")
    exponents = np.frexp(np.abs(features).max(axis=0))[1]
    scaled = np.ldexp(features, -exponents)  # exactly, to at most 1
    x, y = np.ascontiguousarray(scaled.T)
    start, leaving, entering, ends = core.critical_directions(x, y, offsets)
    edges = scaled[entering[ends - 1]] - scaled[leaving[ends - 1]]
    middles, widths = _intervals(np.column_stack([edges[:, 1], -edges[:, 0]]))
    return start, leaving, entering, ends, np.ldexp(middles, exponents.min() - exponents), widths


def sweep_directions(canonical: Canonical) -> Iterator[tuple[int, FloatArray]]:
    """Yield the proven cost of every interval of directions and its middle [D], the least cost and the widest first.

    The lists have D = 1 or 2 features. Raises `DataError` as `critical_directions`.
    """
    features, offsets, costs = canonical.lists
    if canonical.n_features == 1:
        signs = np.array([[1.0], [-1.0]])
        levels = np.array([costs[core.decode(features, offsets, sign)].sum() for sign in signs])
        yield from ((int(levels[k]), signs[k]) for k in levels.argsort(kind="stable"))
        return
    start, leaving, entering, ends, middles, widths = critical_directions(features, offsets)
    cost = int(costs[start].sum())
    if len(ends) == 0:
        yield cost, np.ones(2)
        return
    levels = cost + np.cumsum(costs[entering] - costs[leaving])[ends - 1]
    for interval in np.lexsort((-widths, levels)):
        yield int(levels[interval]), middles[interval]


def too_wide(features: FloatArray) -> int | None:
    """Return the first of the features [M, D] whose nonzero values span more than 132 orders of magnitude, if any."""
    for d, column in enumerate(features.T):
        exponents = np.frexp(column[column != 0])[1]
        if len(exponents) and np.ptp(exponents) > -_LEAST_EXPONENT:
            return d
    return None


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
        if task.canonical.n_features > 2:
            raise MethodError(
                f"method 'sweep' takes at most two features that matter, not {task.canonical.n_features}: use 'auto'"
            )
        return Enumeration(task.incumbent, _settle(task.canonical, task.incumbent))


def _settle(canonical: Canonical, incumbent: Incumbent) -> Iterator[int | None]:
    """Improve the incumbent by the first middles that doubles attain; yield the cost that is left unsettled."""
    costs = []
    for cost, weights in sweep_directions(canonical):
        checkpoint()
        costs.append(cost)
        if incumbent.cost <= cost:
            break
        attained = canonical.attained_cost(CanonicalWeights(weights))
        if attained is not None:
            incumbent.improve(attained, weights, "W")
    # The directions of rounded features prove nothing about the exact features.
    least = costs[0] if canonical.rounding is None else 0
    yield None if incumbent.cost <= least else least
