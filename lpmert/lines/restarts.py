"""Where line searches start again, and when they have started often enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import atan, inf, tan
from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray
from lpmert.lines.clock import Clock
from lpmert.lines.line_search import LineSearcher, Space, unit_of

STOPPING = ("fixed", "foster-kuhn")

LEAST_STARTS = 10
"""Starts that the rule of Foster and Kuhn makes at least."""

_DEVIATION = 0.1
"""Greatest standard deviation of a step of a random walk, for weights whose largest is 1 and features that vary alike.
Each step draws its own between that and a tenth of it, evenly in the logarithm: Moore and Quirk (COLING 2008) leave the
size open.
"""


Descent = Callable[[LineSearcher, FloatArray, np.random.Generator, Clock], tuple[FloatArray, float]]
"""Returns the local optimum [d] that a search from weights [d] ends in, and its level."""


class LineDescents(NamedTuple):
    """Descents of one kind, and the line searches that they make."""

    search: LineSearcher
    descend: Descent


@dataclass(frozen=True)
class Restarts:
    """How starts follow each other.

    count: random starts, after those that are given. stopping "foster-kuhn": instead of `count`, at least
    `LEAST_STARTS` starts in all, given ones among them, and whenever one of them yields a new best, at least as many
    further ones as there were so far (Foster and Kuhn, Stabilizing Minimum Error Rate Training, WMT 2009);
    given ones that come after that are left out. walk_share: the share of random starts that step from the best weights
    so far (random walk) rather than being drawn afresh.
    """

    count: int = 20
    stopping: str = "fixed"
    walk_share: float = 0.9

    def run(
        self, lines: LineDescents, given: Iterable[FloatArray], rng: np.random.Generator, clock: Clock
    ) -> list[tuple[float, FloatArray]]:
        """Descend from the given weights [d] and then from random ones; return all local optima, in order."""
        found: list[tuple[float, FloatArray]] = []
        best, best_start = inf, 0
        first = list(given)
        while not found or len(found) < self._wanted(len(first), best_start):
            if found and clock.expired(0):
                break
            start = self._start(lines.search, first, len(found), _best_of(found), rng)
            weights, level = lines.descend(lines.search, start, rng, clock)
            clock.keep(weights, lines.search.loss_of(level))
            found.append((level, weights))
            if level < best:
                best, best_start = level, len(found)
        return found

    def _wanted(self, given: int, best_start: int) -> int:
        """Return how many starts there will be if none comes that is better than that one."""
        return given + self.count if self.stopping == "fixed" else max(LEAST_STARTS, 2 * best_start)

    def _start(
        self,
        search: LineSearcher,
        first: list[FloatArray],
        number: int,
        best: FloatArray | None,
        rng: np.random.Generator,
    ) -> FloatArray:
        """Return the weights [d] of a start by its number; best [d]: where those before have led."""
        if number < len(first):
            return first[number]
        if best is not None and rng.random() < self.walk_share:
            return self._step(search, best, rng)
        return random_weights(search, rng)

    def _step(self, search: LineSearcher, weights: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return weights [d] a random step away, within the limits if the step meets them."""
        largest = np.abs(weights * search.spread).max()
        deviation = _DEVIATION * 10.0 ** -rng.random()
        step = deviation * largest * rng.normal(size=len(weights)) / search.spread
        high = search.range(weights, step)[1]
        return np.asarray(weights + (step if high > 1.0 else step * high * rng.random()))


def _best_of(found: list[tuple[float, FloatArray]]) -> FloatArray | None:
    return min(found, key=lambda item: item[0])[1] if found else None


def random_weights(space: Space, rng: np.random.Generator) -> FloatArray:
    """Return random weights [d]: uniform in direction, or on a random line through weights inside the limits, if any.

    Uniform for features that all vary alike.
    """
    direction: FloatArray = rng.normal(size=space.dimension) / space.spread
    inside = space.form.interior
    if inside is None:
        return direction
    scale = unit_of(inside, direction)
    low, high = (atan(end / scale) for end in space.range(inside, direction))
    return np.asarray(inside + scale * tan(rng.uniform(low, high)) * direction)
