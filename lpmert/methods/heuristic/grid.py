"""A grid of weights relative to one feature, as speech recognition rescoring scans them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, MethodError
from lpmert.lines.clock import Clock
from lpmert.model.problem import Problem
from lpmert.model.spread import units
from lpmert.quoting import listed, quoted
from lpmert.search.run import Comparator, Found

EVALUATIONS = 576
"""Points of the grid where their number is not given: 24 times 24 with three features."""

_MOST_POINTS = 1_000_000


def _ranges(text: str) -> tuple[tuple[str, float, float], ...]:
    found = []
    for part in text.split(","):
        name, _, ends = part.rpartition(":")
        low, dots, high = ends.partition("..")
        if not (name and dots):
            raise ValueError(text)
        found.append((name, float(low), float(high)))
    return tuple(found)


@dataclass(frozen=True)
class Grid(Comparator):
    """Decode at every point of a grid in which one feature has the weight 1, and keep the best.

    All ends belong to the grid.
    """

    reference: str | None = option(None, "the feature whose weight is 1; none for the first that matters")
    negative: bool = option(False, "the weight of the reference is -1")
    points: int | None = option(
        None, "values for each other feature; none for as many as make up to 576 points in all", least=2
    )
    low: float = option(-2.0, "the lower end, for features brought to the same spread within lists")
    high: float = option(2.0, "the upper end, likewise")
    ranges: tuple[tuple[str, float, float], ...] = option(
        (),
        "features with ends of their own, in the scale of the weights themselves",
        form="ranges such as lm:0..15,words:-3..3",
        parse=_ranges,
    )

    name: ClassVar[str] = "grid"
    random = False

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        for name, low, high in (("low, high", self.low, self.high), *self.ranges):
            if not low < high:
                raise MethodError(f"{name}: the lower end must be below the upper one; got {low} and {high}")

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:  # noqa: ARG002
        """Return the best point of the grid; the start and the seed play no part."""
        names = problem.nbest.names
        axes = self._axes(problem)
        evaluations = 0
        for point in product(*axes.values()):
            if clock.expired():
                break
            weights = np.zeros(len(names))
            weights[list(axes)] = point
            clock.keep(problem.to_canonical(problem.checked_weights(weights)))
            evaluations += 1
        return Found(
            np.ones(problem.canonical.n_features) if clock.best is None else clock.best, {"evaluations": evaluations}
        )

    def _axes(self, problem: Problem) -> dict[int, list[float]]:
        """Return the values of each feature that matters, by its number."""
        nbest = problem.nbest
        matter = [name for name in nbest.names if name not in problem.free]
        reference = matter[0] if self.reference is None else self.reference
        for name in (reference, *(name for name, _, _ in self.ranges)):
            if name not in matter:
                raise MethodError(f"grid: {quoted(name)} is not a feature that varies; those are {listed(matter)}")
        axes_left = max(1, len(matter) - 1)
        points = max(2, int(EVALUATIONS ** (1 / axes_left) + 1e-9)) if self.points is None else self.points
        if points**axes_left > _MOST_POINTS:
            raise MethodError(
                f"a grid of {points} values for each of {axes_left} features has more than {_MOST_POINTS:,} points; "
                "give fewer values, or use another method"
            )
        spread = units(nbest.blocks())
        own = {name: (low, high) for name, low, high in self.ranges}
        unit = dict(zip(nbest.names, spread[nbest.names.index(reference)] / spread, strict=True))
        axes = {}
        for name in matter:
            low, high = own.get(name, (self.low * unit[name], self.high * unit[name]))
            values = [-1.0 if self.negative else 1.0] if name == reference else np.linspace(low, high, points).tolist()
            axes[nbest.names.index(name)] = values
        return axes
