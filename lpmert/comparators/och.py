"""Och's minimum error rate training: line searches until none helps, from several starts.

Sources: Och, ACL 2003; Cer, Jurafsky and Manning, Regularization and Search for Minimum Error Rate Training, WMT 2008
(the choice of directions, each line minimised globally).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lpmert.comparators.base import Clock, Comparator, Found
from lpmert.comparators.line_search import INTERVALS, SMOOTHING, LineSearch, Step
from lpmert.comparators.restarts import STOPPING, Descent, Restarts
from lpmert.configurable import option
from lpmert.coordinates import CanonicalWeights
from lpmert.problem import Problem
from lpmert.result import FloatArray

DIRECTIONS = ("greedy", "cyclic", "powell", "random")

PATIENCE = 3
"""Random directions in a row, times the number of features, that may fail to help."""


@dataclass(frozen=True)
class Och(Comparator):
    """Line searches from the start (or equal weights) and from random weights; the best local optimum wins.

    The baseline of Galley and Quirk (EMNLP 2011) is `directions="powell"`.
    """

    directions: str = option(
        "greedy",
        "greedy: the best of all coordinates; cyclic: one after the other; powell: a set that adapts; random: drawn",
        choices=DIRECTIONS,
    )
    restarts: int = option(20, "random starts", least=0)
    stopping: str = option(
        "fixed", "foster-kuhn: as many starts as the best one so far needed, at least ten", choices=STOPPING
    )
    walk_share: float = option(0.9, "share of starts that step from the best weights so far", least=0, most=1)
    walk_deviation: float = option(0.1, "greatest standard deviation of such a step", above=0)
    interval: str = option(
        "midpoint", "which of the best intervals of a line, see LineSearch", choices=tuple(INTERVALS)
    )
    smoothing: float = option(SMOOTHING, "of the interval smoothed, in units of |w| / |d|", above=0)

    name: ClassVar[str] = "och"

    def _restarts(self) -> Restarts:
        return Restarts(self.restarts, self.stopping, self.walk_share, self.walk_deviation)

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the best local optimum."""
        search = LineSearch(problem.canonical, self.interval, self.smoothing)
        optima = local_optima(problem, search, self._restarts(), self.directions, start, seed, clock)
        return Found(min(optima, key=lambda item: item[0])[1], {"starts": len(optima), "line_searches": clock.steps})


def local_optima(
    problem: Problem,
    search: LineSearch,
    restarts: Restarts,
    directions: str,
    start: FloatArray | None,
    seed: int,
    clock: Clock,
) -> list[tuple[float, FloatArray]]:
    """Return the level and the weights [d] in which each descent ends, in order: first that from `start` [d], or else
    from weights that count all features alike.

    directions: one of `DIRECTIONS`.
    """
    inside = problem.canonical.interior
    first = [1.0 / search.spread if start is None else start]
    if inside is not None and not problem.inside(problem.to_caller(CanonicalWeights(first[0]))):
        first = [inside]
    if inside is None and search.dimension == 2:
        first.append(-first[0])  # lines from opposite sides pass all directions of a plane
    return restarts.run(search, DESCENTS[directions], first, np.random.default_rng(seed), clock)


def greedy(
    search: LineSearch, weights: FloatArray, _rng: np.random.Generator, clock: Clock
) -> tuple[FloatArray, float]:
    """Move along the coordinate that lowers the level most, until none does."""
    level = search.at(weights)
    every = left = np.arange(search.dimension)
    while not clock.expired(len(left)):
        coordinate, step = search.best_coordinate(weights, left)
        moved = None if coordinate < 0 else _moved(search, weights, level, np.eye(len(every))[coordinate], step)
        if moved is None:
            break
        weights, level = moved
        left = every[every != coordinate]  # the line just searched has nothing better
    return weights, level


def cyclic(
    search: LineSearch, weights: FloatArray, _rng: np.random.Generator, clock: Clock
) -> tuple[FloatArray, float]:
    """Move along one coordinate after the other, until a round of all of them has not lowered the level."""
    level = search.at(weights)
    coordinate = failures = 0
    while failures < search.dimension and not clock.expired():
        _, step = search.best_coordinate(weights, np.array([coordinate]))
        moved = _moved(search, weights, level, np.eye(search.dimension)[coordinate], step)
        failures = failures + 1 if moved is None else 0
        weights, level = moved or (weights, level)
        coordinate = (coordinate + 1) % search.dimension
    return weights, level


def random_directions(
    search: LineSearch, weights: FloatArray, rng: np.random.Generator, clock: Clock
) -> tuple[FloatArray, float]:
    """Move along random directions, until `PATIENCE` times D of them in a row have not lowered the level."""
    level = search.at(weights)
    failures = 0
    while failures < PATIENCE * search.dimension and not clock.expired():
        direction: FloatArray = rng.normal(size=search.dimension) / search.spread
        moved = _moved(search, weights, level, direction, search.along(weights, direction))
        failures = failures + 1 if moved is None else 0
        weights, level = moved or (weights, level)
    return weights, level


def powell(
    search: LineSearch, weights: FloatArray, _rng: np.random.Generator, clock: Clock
) -> tuple[FloatArray, float]:
    """Move along each of D directions in turn, replacing one by where a round led, until a round does not help.

    The direction of the largest fall is replaced where Powell's criterion says so (Press and others, Numerical Recipes,
    section on direction set methods): the round's way leads on downwards, and not by one direction alone.
    """
    level = search.at(weights)
    directions = np.eye(search.dimension)
    while True:
        begin, level_at_begin = weights, level
        falls = np.zeros(search.dimension)
        for k, direction in enumerate(directions):
            if clock.expired():
                return weights, level
            moved = _moved(search, weights, level, direction, search.along(weights, direction))
            if moved is not None:
                falls[k] = level - moved[1]
                weights, level = moved
        if level == level_at_begin:
            return weights, level
        way = weights - begin
        largest = int(falls.argmax())
        further = search.at(weights + way)
        fall = level_at_begin - level
        bend = 2 * (level_at_begin - 2 * level + further) * (fall - falls[largest]) ** 2
        if further < level_at_begin and bend < falls[largest] * (level_at_begin - further) ** 2 and way.any():
            moved = _moved(search, weights, level, way, search.along(weights, way))
            weights, level = moved or (weights, level)
            directions[largest] = directions[-1]
            directions[-1] = way / np.linalg.norm(way)


DESCENTS: Mapping[str, Descent] = dict(zip(DIRECTIONS, (greedy, cyclic, powell, random_directions), strict=True))


def _moved(
    search: LineSearch, weights: FloatArray, level: float, direction: FloatArray, step: Step
) -> tuple[FloatArray, float] | None:
    """Return the weights a step away and their level, or `None` if decoding there does not lower the level."""
    if not step.level < level:
        return None
    moved = weights + step.t * direction
    moved = np.ldexp(moved, -int(np.frexp(np.abs(moved).max())[1]))  # a power of two changes no choice
    reached = search.at(moved)
    return (moved, reached) if reached < level else None
