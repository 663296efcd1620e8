"""Local search by line searches: which directions a descent goes along, when it ends, and where the next one starts.

The clock ends heuristics in time, and keeps the best weights that they report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import atan, inf, tan

import numpy as np

from lpmert.errors import FloatArray
from lpmert.lines.line_search import LineSearcher, Space, Step, unit_of
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.system.deadline import out_of_time


class Clock:
    """Tells a heuristic when its time or its steps are used up, and keeps the best of the weights that it reports.

    The heuristic calls `keep` with every candidate for its result, and ends soon after `expired` has answered
    true. `best` [d] are the kept weights with the least `loss`, `None` before the first.
    """

    def __init__(self, problem: Problem | LatticeProblem, most_steps: int | None = None) -> None:
        self.best: CanonicalWeights | None = None
        self.loss, self.steps = inf, 0
        self._problem, self._most_steps = problem, most_steps

    def expired(self, steps: int = 1) -> bool:
        """Count steps of work, and return whether to stop."""
        self.steps += steps
        return out_of_time() or (self._most_steps is not None and self.steps >= self._most_steps)

    def keep(self, weights: FloatArray, loss: float | None = None) -> float:
        """Remember weights [d] if they are better than those before, and return their loss.

        loss: that of decoding with them, where it is known; otherwise they are decoded here.
        """
        known = loss_at(self._problem, weights) if loss is None else loss
        if known < self.loss:
            self.best, self.loss = CanonicalWeights(np.array(weights, dtype=np.float64)), known
        return known


def loss_at(problem: Problem | LatticeProblem, weights: FloatArray) -> float:
    """Return the loss of decoding weights [d], infinite outside of the region."""
    if not isinstance(problem, LatticeProblem):
        return problem.canonical.loss_at(weights)
    given = problem.to_caller(CanonicalWeights(weights))
    return problem.metric.loss(problem.decode(given).total) if problem.inside(given) else inf


def start_weights(canonical: Canonical, initial: CanonicalWeights | None) -> CanonicalWeights:
    """Return weights [d] to begin with: these, or any of the region."""
    if initial is not None:
        return initial
    return CanonicalWeights(np.ones(canonical.n_features)) if canonical.interior is None else canonical.interior


STOPPING = ("fixed", "foster-kuhn")

LEAST_STARTS = 10
"""Starts that the rule of Foster and Kuhn makes at least."""

_DEVIATION = 0.1
"""Greatest standard deviation of a step of a random walk, for weights whose largest is 1 and features that vary alike.
Each step draws its own between that and a tenth of it, evenly in the logarithm: Moore and Quirk (COLING 2008) leave the
size open.
"""


Optimum = tuple[FloatArray, float]
"""Where a descent ends: weights [d], and their level."""

Descent = Callable[[LineSearcher, FloatArray, Clock], Optimum]
"""Returns the local optimum that a search from weights [d] ends in."""


@dataclass(frozen=True)
class Restarts:
    """Descents of one kind from several starts, and how these follow each other.

    count: random starts, after those that are given. stopping "foster-kuhn": instead of `count`, at least
    `LEAST_STARTS` starts in all, given ones among them, and whenever one of them yields a new best, at least as many
    further ones as there were so far (Foster and Kuhn, Stabilizing Minimum Error Rate Training, WMT 2009);
    given ones that come after that are left out. walk_share: the share of random starts that step from the best weights
    so far (random walk) rather than being drawn afresh.
    """

    descend: Descent
    count: int = 20
    stopping: str = "fixed"
    walk_share: float = 0.9

    def run(
        self, search: LineSearcher, given: Iterable[FloatArray], rng: np.random.Generator, clock: Clock
    ) -> list[tuple[float, FloatArray]]:
        """Descend from the given weights [d] and then from random ones; return all local optima, in order."""
        found: list[tuple[float, FloatArray]] = []
        best, best_weights, best_start = inf, None, 0
        first = list(given)
        while not found or len(found) < self._wanted(len(first), best_start):
            if found and clock.expired(0):
                break
            start = self._start(search, first, len(found), best_weights, rng)
            weights, level = self.descend(search, start, clock)
            clock.keep(weights, search.loss_of(level))
            found.append((level, weights))
            if level < best:
                best, best_weights, best_start = level, weights, len(found)
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


def local_optima(
    problem: Problem | LatticeProblem,
    search: LineSearcher,
    restarts: Restarts,
    start: FloatArray | None,
    seed: int,
    clock: Clock,
) -> list[tuple[float, FloatArray]]:
    """Return the level and the weights [d] in which each descent ends, in order: first that from `start` [d], or else
    from weights that count all features alike.
    """
    inside = problem.canonical.interior
    first = [1.0 / search.spread if start is None else start]
    if inside is not None and not problem.inside(problem.to_caller(CanonicalWeights(first[0]))):
        first = [inside]
    if inside is None and search.dimension == 2:
        first.append(-first[0])  # lines from opposite sides pass all directions of a plane
    return restarts.run(search, first, np.random.default_rng(seed), clock)


def greedy(search: LineSearcher, weights: FloatArray, clock: Clock) -> Optimum:
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


def powell(search: LineSearcher, weights: FloatArray, clock: Clock) -> Optimum:
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


DESCENTS: Mapping[str, Descent] = {"greedy": greedy, "powell": powell}


def _moved(
    search: LineSearcher, weights: FloatArray, level: float, direction: FloatArray, step: Step
) -> Optimum | None:
    """Return the weights a step away and their level, or `None` if decoding there does not lower the level."""
    if not step.level < level:
        return None
    moved = weights + step.t * direction
    moved = np.ldexp(moved, -int(np.frexp(np.abs(moved).max())[1]))  # a power of two changes no choice
    reached = search.at(moved)
    return (moved, reached) if reached < level else None
