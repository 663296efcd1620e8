"""Local search by line searches: the directions of a descent, when it ends, and where the next one starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import atan, inf, tan

import numpy as np

from lpmert.errors import FloatArray
from lpmert.limits import out_of_time
from lpmert.lines.line_search import LineSearcher, Space, Step, unit_of
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.numeric.rational import below_one


class Clock:
    """Tells a heuristic when its time or its steps are used up, and keeps the best weights that it reports.

    The heuristic calls `keep` with every candidate for its result, and ends soon after `expired` has returned true.
    `best` [d] are the weights with the least `loss`, `None` before the first.
    """

    def __init__(self, problem: Problem | LatticeProblem, most_steps: int | None = None) -> None:
        self.best: CanonicalWeights | None = None
        self.loss, self.steps = inf, 0
        self._problem, self._most_steps = problem, most_steps

    def expired(self, steps: int = 1) -> bool:
        self.steps += steps
        return out_of_time() or (self._most_steps is not None and self.steps >= self._most_steps)

    def keep(self, weights: FloatArray, loss: float | None = None) -> float:
        """Remember weights [d] if they are the best so far, and return their loss.

        loss: the loss of decoding with them; if `None`, they are decoded here.
        """
        known = loss_at(self._problem, weights) if loss is None else loss
        if known < self.loss:
            self.best, self.loss = CanonicalWeights(np.array(weights, dtype=np.float64)), known
        return known


def loss_at(problem: Problem | LatticeProblem, weights: FloatArray) -> float:
    """Return the loss of decoding weights [d], infinite outside of the region."""
    if not isinstance(problem, LatticeProblem):
        return problem.canonical.loss_at(weights)
    full = problem.to_caller(CanonicalWeights(weights))
    return problem.metric.loss(problem.decode(full).total) if problem.inside(full) else inf


def start_weights(canonical: Canonical, initial: CanonicalWeights | None) -> CanonicalWeights:
    """Return the initial weights [d], or else weights inside the region."""
    if initial is not None:
        return initial
    return CanonicalWeights(np.ones(canonical.n_features)) if canonical.interior is None else canonical.interior


LEAST_STARTS = 10  # fewest starts by the rule of Foster and Kuhn

_DEVIATION = 0.1
"""Greatest standard deviation of a random walk's step, for weights whose largest is 1 and features that vary alike.
Each step draws its own, log-uniformly between a tenth of that and that: Moore and Quirk (COLING 2008) leave it open.
"""


Optimum = tuple[FloatArray, float]  # the end of a descent: weights [d] and their level
Descent = Callable[[LineSearcher, FloatArray, Clock], Optimum]  # descends from weights [d] to a local optimum


@dataclass(frozen=True)
class Restarts:
    """Descents of one kind from several starts.

    count: random starts, after the initial ones; `None`: at least `LEAST_STARTS` starts in all, the initial ones among
    them; whenever a start yields a new best, at least as many further ones as there were so far (Foster and Kuhn,
    Stabilizing Minimum Error Rate Training, WMT 2009); initial starts beyond that number are left out. walk_share: the
    share of random starts that step from the best weights so far (random walk) instead of being drawn afresh.
    """

    descend: Descent
    count: int | None = 20
    walk_share: float = 0.9

    def run(
        self, search: LineSearcher, initial: Iterable[FloatArray], rng: np.random.Generator, clock: Clock
    ) -> list[tuple[float, FloatArray]]:
        """Descend from initial weights [d], then from random ones; return level and weights of all optima, in order."""
        found: list[tuple[float, FloatArray]] = []
        best, best_weights, best_start = inf, None, 0
        starts = list(initial)
        while True:
            wanted = max(LEAST_STARTS, 2 * best_start) if self.count is None else len(starts) + self.count
            if found and (len(found) >= wanted or clock.expired(0)):
                return found
            start = starts[len(found)] if len(found) < len(starts) else self._draw(search, best_weights, rng)
            weights, level = self.descend(search, start, clock)
            clock.keep(weights, search.loss_of(level))
            found.append((level, weights))
            if level < best:
                best, best_weights, best_start = level, weights, len(found)

    def _draw(self, search: LineSearcher, best: FloatArray | None, rng: np.random.Generator) -> FloatArray:
        """Return a random start [d], which may step from the best weights [d] so far.

        A step that leaves the limits is cut at random before them.
        """
        if best is None or rng.random() >= self.walk_share:
            return random_weights(search, rng)
        largest = np.abs(best * search.spread).max()
        deviation = _DEVIATION * 10.0 ** -rng.random()
        step = deviation * largest * rng.normal(size=len(best)) / search.spread
        high = search.range(best, step)[1]
        return np.asarray(best + (step if high > 1.0 else step * high * rng.random()))


def random_weights(space: Space, rng: np.random.Generator) -> FloatArray:
    """Return random weights [d]: a uniform direction, or with limits a point on a random line through their interior.

    Uniform means in units in which all features vary alike.
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
    """Return the level and the weights [d] at the end of each descent, in order.

    The first descent begins at `start` [d], or else at weights that count all features alike.
    """
    inside = problem.canonical.interior
    first = [1.0 / search.spread if start is None else start]
    if inside is not None and not problem.inside(problem.to_caller(CanonicalWeights(first[0]))):
        first = [inside]
    if inside is None and search.dimension == 2:
        first.append(-first[0])  # lines from opposite points cover all directions of a plane
    return restarts.run(search, first, np.random.default_rng(seed), clock)


def greedy(search: LineSearcher, weights: FloatArray, clock: Clock) -> Optimum:
    """Move along the coordinate that lowers the level most, until none does."""
    level = search.at(weights)
    coordinates = candidates = np.arange(search.dimension)
    while not clock.expired(len(candidates)):
        coordinate, step = search.best_coordinate(weights, candidates)
        moved = None if coordinate < 0 else _moved(search, weights, level, np.eye(len(coordinates))[coordinate], step)
        if moved is None:
            break
        weights, level = moved
        candidates = coordinates[coordinates != coordinate]  # the line just searched has nothing better
    return weights, level


def powell(search: LineSearcher, weights: FloatArray, clock: Clock) -> Optimum:
    """Move along each of D directions in turn, replacing one by the way of the whole round, until a round is no help.

    The direction of the largest fall is replaced if Powell's criterion says so (Press and others, Numerical Recipes,
    section on direction set methods): the way of the round leads on downwards, and not by one direction alone.
    """
    level = search.at(weights)
    directions = np.eye(search.dimension)
    while True:
        round_start, start_level = weights, level
        falls = np.zeros(search.dimension)
        for k, direction in enumerate(directions):
            if clock.expired():
                return weights, level
            moved = _moved(search, weights, level, direction, search.along(weights, direction))
            if moved is not None:
                falls[k] = level - moved[1]
                weights, level = moved
        if level == start_level:
            return weights, level
        way = weights - round_start
        largest = int(falls.argmax())
        further = search.at(weights + way)
        fall = start_level - level
        bend = 2 * (start_level - 2 * level + further) * (fall - falls[largest]) ** 2
        if further < start_level and bend < falls[largest] * (start_level - further) ** 2 and way.any():
            moved = _moved(search, weights, level, way, search.along(weights, way))
            weights, level = moved or (weights, level)
            directions[largest] = directions[-1]
            directions[-1] = way / np.linalg.norm(way)


DESCENTS: Mapping[str, Descent] = {"greedy": greedy, "powell": powell}


def _moved(
    search: LineSearcher, weights: FloatArray, level: float, direction: FloatArray, step: Step
) -> Optimum | None:
    """Return the weights after a step and their level; `None` if decoding with them does not lower the level."""
    if not step.level < level:
        return None
    moved, _ = below_one(weights + step.t * direction)
    reached = search.at(moved)
    return (moved, reached) if reached < level else None
