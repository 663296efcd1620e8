"""Descents by line searches: which directions they go along, and when they end."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lpmert.errors import FloatArray
from lpmert.lines.clock import Clock
from lpmert.lines.line_search import LineSearcher, Step
from lpmert.lines.restarts import Descent, LineDescents, Restarts
from lpmert.model.canonical import CanonicalWeights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem

DIRECTIONS = ("greedy", "cyclic", "powell", "random")


PATIENCE = 3
"""Random directions in a row, times the number of features, that may fail to help."""


def local_optima(
    problem: Problem | LatticeProblem,
    lines: LineDescents,
    restarts: Restarts,
    start: FloatArray | None,
    seed: int,
    clock: Clock,
) -> list[tuple[float, FloatArray]]:
    """Return the level and the weights [d] in which each descent ends, in order: first that from `start` [d], or else
    from weights that count all features alike.
    """
    inside = problem.canonical.interior
    first = [1.0 / lines.search.spread if start is None else start]
    if inside is not None and not problem.inside(problem.to_caller(CanonicalWeights(first[0]))):
        first = [inside]
    if inside is None and lines.search.dimension == 2:
        first.append(-first[0])  # lines from opposite sides pass all directions of a plane
    return restarts.run(lines, first, np.random.default_rng(seed), clock)


def greedy(
    search: LineSearcher, weights: FloatArray, _rng: np.random.Generator, clock: Clock
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
    search: LineSearcher, weights: FloatArray, _rng: np.random.Generator, clock: Clock
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
    search: LineSearcher, weights: FloatArray, rng: np.random.Generator, clock: Clock
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
    search: LineSearcher, weights: FloatArray, _rng: np.random.Generator, clock: Clock
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


def lines_along(directions: str, search: LineSearcher) -> LineDescents:
    """Return descents along one of `DIRECTIONS`."""
    return LineDescents(search, DESCENTS[directions])


def _moved(
    search: LineSearcher, weights: FloatArray, level: float, direction: FloatArray, step: Step
) -> tuple[FloatArray, float] | None:
    """Return the weights a step away and their level, or `None` if decoding there does not lower the level."""
    if not step.level < level:
        return None
    moved = weights + step.t * direction
    moved = np.ldexp(moved, -int(np.frexp(np.abs(moved).max())[1]))  # a power of two changes no choice
    reached = search.at(moved)
    return (moved, reached) if reached < level else None
