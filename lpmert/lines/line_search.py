"""Exact line searches on the lists of one problem, for additive and ratio metrics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.lines import line_search_kernels as kernels
from lpmert.lines.circle import Circle, arc_within, new_circle, search_circle
from lpmert.lines.envelope import combine, new_workspace, unit_of
from lpmert.lines.line_search_kernels import ADDITIVE, MIDPOINT, SMOOTHED, WIDEST, Loss
from lpmert.metrics.base import Metric, RatioMetric
from lpmert.model.canonical import list_numbers, standardised
from lpmert.model.form import Canonical
from lpmert.quoting import quoted
from lpmert.system.deadline import out_of_time

INTERVALS: Mapping[str, int] = {"midpoint": MIDPOINT, "widest": WIDEST, "smoothed": SMOOTHED}
"""Which interval of a line is taken: of those with the least level the nearest or the widest, or the one around which
the mean level is least (smoothed sample risk of Gao, Yu, Yuan and Xu, HLT/EMNLP 2005)."""

SMOOTHING = 0.06
"""Half the width of that mean, in units of |weights| / |direction|."""

_PIECE = 1_000_000
"""Coordinates times hypotheses searched between two looks at the clock."""


class Step(NamedTuple):
    """The level that a line search promises, and the t on the line weights + t direction that has it."""

    level: float
    t: float


class Around(NamedTuple):
    """The pieces of the circle cos(t) weights + sin(t) direction [D]: begins, ends [n] in radians, and levels [n]."""

    direction: FloatArray
    begins: FloatArray
    ends: FloatArray
    levels: FloatArray


class Space:
    """Where searches move: how features vary within lists, and where limits and cap end a line."""

    def __init__(self, canonical: Canonical) -> None:
        self.dimension = canonical.n_features
        self.form = canonical
        self._features, self._offsets = canonical.features, canonical.offsets
        self._limits, self._cap = canonical.limits, canonical.cap

    @cached_property
    def spread(self) -> FloatArray:
        """Standard deviation [D] of each feature within the lists: random weights are drawn in units of its inverse."""
        return standardised(self._features, self._offsets)[1]

    def range(self, weights: FloatArray, direction: FloatArray) -> tuple[float, float]:
        """Return the ends of the part of a line, around t = 0, that keeps to the limits."""
        low, high = -inf, inf
        if len(self._limits):
            height, slope = self._limits @ weights, self._limits @ direction
            with np.errstate(divide="ignore", invalid="ignore"):
                crossing = -height / slope
            low = float(np.max(crossing, where=slope > 0, initial=low))
            high = float(np.min(crossing, where=slope < 0, initial=high))
        if self._cap is not None:
            unit, square = self._cap.unit, self._cap.cosine**2
            along, start = float(unit @ direction), float(unit @ weights)
            roots = np.roots(
                [
                    along**2 - square * float(direction @ direction),
                    2 * (along * start - square * float(weights @ direction)),
                    start**2 - square * float(weights @ weights),
                ]
            )
            real = roots[np.isreal(roots)].real
            low = max(low, float(real.max(where=real < 0, initial=-inf)))
            high = min(high, float(real.min(where=real > 0, initial=inf)))
        return (low, high) if low <= 0.0 <= high and low < high else (-inf, inf)


class Lineal(Space):
    """Line searches in a space: what descents need of them."""

    @abstractmethod
    def at(self, weights: FloatArray) -> float:
        """Return the level of decoding with weights [D]."""

    @abstractmethod
    def loss_of(self, level: float) -> float:
        """Return the loss of a level."""

    @abstractmethod
    def along(self, weights: FloatArray, direction: FloatArray, *, low: float = -inf, high: float = inf) -> Step:
        """Return the best step on the line weights + t direction, low <= t <= high, within the limits."""

    @abstractmethod
    def best_coordinate(self, weights: FloatArray, coordinates: IntArray | None = None) -> tuple[int, Step]:
        """Return the coordinate whose line from weights [D] has the best step, and that step.

        coordinates: those to try, by default all; the first of equals wins.
        """


def interval_of(name: str) -> int:
    """Return the number that kernels have for one of `INTERVALS`; raises `MethodError` for another name."""
    if name not in INTERVALS:
        raise MethodError(f"interval={quoted(name)} is none of {', '.join(INTERVALS)}")
    return INTERVALS[name]


class LineSearch(Lineal):
    """Line searches on lists in canonical form; source: Och, ACL 2003.

    A level is a sum of costs, or the ratio metric's loss. Lines keep to the limits and the cap where their start does.
    interval: one of `INTERVALS`; smoothing: see `SMOOTHING`. Not for use by several threads at a time. Raises
    `MethodError` for another interval, and for a metric that kernels cannot compute.
    """

    def __init__(self, canonical: Canonical, interval: str = "midpoint", smoothing: float = SMOOTHING) -> None:
        super().__init__(canonical)
        self._loss = loss_of_form(canonical)
        self._interval, self._smoothing = interval_of(interval), smoothing
        self._work = new_workspace(self._features, self._offsets)
        self._scored: FloatArray | None = None
        self._buffers = kernels.new_buffers(self._offsets, len(self._loss.constant))

    @cached_property
    def _orders(self) -> NDArray[np.int32]:
        lists = list_numbers(self._offsets)
        return np.array([np.lexsort((column, lists)) for column in self._work.transposed], dtype=np.int32)

    @cached_property
    def _circle(self) -> Circle:
        return new_circle(self._offsets)

    def _score(self, weights: FloatArray) -> None:
        """Make the intercepts the scores at weights [D], unless they are these already."""
        if self._scored is None or not np.array_equal(self._scored, weights):
            self._scored = weights.copy()
            combine(self._work.transposed, weights, self._work.intercepts)

    def at(self, weights: FloatArray) -> float:
        """Return the level of decoding with weights [D]."""
        self._score(weights)
        return float(kernels.level_at(self._work.intercepts, self._offsets, self._loss, self._buffers.total))

    def loss_of(self, level: float) -> float:
        """Return the loss of a level."""
        return self.form.loss_of(int(level)) if self.form.additive else level

    def along(self, weights: FloatArray, direction: FloatArray, *, low: float = -inf, high: float = inf) -> Step:
        """Return the best step on the line weights + t direction, low <= t <= high, within the limits."""
        work = self._work
        self._score(weights)
        combine(work.transposed, direction, work.slopes)
        least, most = self.range(weights, direction)
        scale = unit_of(weights, direction)
        return Step(
            *kernels.search_direction(
                self._offsets,
                self._loss,
                max(low, least),
                min(high, most),
                scale,
                self._interval,
                self._smoothing,
                work,
                self._buffers,
            )
        )

    def around(self, weights: FloatArray, direction: FloatArray) -> Around:
        """Return the pieces, within the limits and the cap, of the circle through weights and a direction [D]."""
        work, circle = self._work, self._circle
        self._score(weights)
        combine(work.transposed, direction, work.slopes)
        unit, cosine = (np.empty(0), 0.0) if self._cap is None else (self._cap.unit, self._cap.cosine)
        low, high = arc_within(self._limits, unit, cosine, weights, direction, weights, direction)
        n = search_circle(self._offsets, self._loss, low, high, work, self._buffers, circle)
        return Around(direction, circle.begins[:n].copy(), circle.ends[:n].copy(), circle.levels[:n].copy())

    def best_coordinate(self, weights: FloatArray, coordinates: IntArray | None = None) -> tuple[int, Step]:
        """Return the coordinate whose line from weights [D] has the best step, and that step.

        coordinates: those to try, by default all; the first of equals wins.
        """
        tried = np.arange(self.dimension) if coordinates is None else coordinates
        self._score(weights)
        ranges = np.tile([-inf, inf], (self.dimension, 1))
        if self._cap is not None or len(self._limits):
            ranges[:] = [self.range(weights, axis) for axis in np.eye(self.dimension)]
        best, step = -1, Step(inf, 0.0)
        piece = max(1, _PIECE // len(self._features))
        for begin in range(0, len(tried), piece):
            if begin and out_of_time():
                break
            coordinate, level, t = kernels.search_coordinates(
                tried[begin : begin + piece],
                self._orders,
                self._offsets,
                self._loss,
                ranges,
                unit_of(weights, np.ones(1)),
                self._interval,
                self._smoothing,
                self._work,
                self._buffers,
            )
            if level < step.level:
                best, step = int(coordinate), Step(level, t)
        return best, step


def loss_of_form(canonical: Canonical) -> Loss:
    """Return what hypotheses cost, for kernels; raises `MethodError` for a metric that these cannot compute."""
    if canonical.additive:
        return Loss(ADDITIVE, np.empty(0), canonical.costs, np.empty((0, 0)), np.empty(0))
    totals = canonical.totals
    return loss_of_metric(totals.metric, totals.statistics, totals.constant, additive=False)


def loss_of_metric(metric: Metric, statistics: FloatArray, constant: FloatArray, *, additive: bool) -> Loss:
    """Return what hypotheses with statistics [M, K] cost, for kernels; constant [K] is added to their sums.

    additive: the only statistic is a loss, a whole number, and the constant is 0. Raises `MethodError` for a metric
    that kernels cannot compute.
    """
    if additive:
        return Loss(ADDITIVE, np.empty(0), statistics[:, 0].astype(np.int64), np.empty((0, 0)), np.empty(0))
    if not isinstance(metric, RatioMetric):
        raise MethodError(
            f"line search takes sums over lists and the ratio metrics of lpmert, not {quoted(metric.name)}; "
            "give the metric `kind`, `parameters` and `losses_of_totals`, see lpmert.metrics.base.RatioMetric"
        )
    return Loss(metric.kind, metric.parameters, np.empty(0, dtype=np.int64), statistics, constant)
