"""Nelder and Mead's simplex on the loss itself (Zens, Hasan and Ney, EMNLP 2007), from several starts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray
from lpmert.lines.ahead import Ahead, DescentKind
from lpmert.lines.clock import Clock, Steps, loss_at
from lpmert.lines.line_search import space_of
from lpmert.lines.restarts import random_weights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.search.run import Comparator, Found

_TOLERANCE = 1e-4
"""Size of the simplex at which it stops, for weights of about 1."""


@dataclass(frozen=True)
class NelderMead(Comparator):
    """SciPy's Nelder-Mead from the start (or equal weights) and from `restarts` random weights; the best vertex wins.

    Features are brought to the same spread, and weights have 1 as their largest.
    """

    restarts: int = option(5, "random starts", least=0)
    edge: float = option(0.5, "length of the first simplex's edges", above=0)
    evaluations: int | None = option(None, "most evaluations of a start; none for 200 for each feature", least=1)

    name: ClassVar[str] = "nelder-mead"
    takes_lattices: ClassVar[bool] = True
    takes_jobs: ClassVar[bool] = True

    def run(self, problem: Problem | LatticeProblem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the best vertex met."""
        rng = np.random.default_rng(seed)
        space = space_of(problem)
        first = problem.canonical.interior if start is None else start
        starts = [1.0 / space.spread if first is None else first]
        starts += [random_weights(space, rng) for _ in range(self.restarts)]
        ahead = Ahead(DescentKind(partial(_same, problem), partial(_descend, self, space.spread), draws=False))
        evaluations = 0
        for number, weights in enumerate(starts):
            ahead.expect(starts[number:], len(starts) - number)
            met = ahead.descend(weights, rng, clock)
            evaluations += met.evaluations
            if clock.expired(0):
                break
        ahead.end()
        return Found(starts[-1] if clock.best is None else clock.best, {"evaluations": evaluations})


@dataclass
class _Met:
    """The least loss that a simplex has met, and how many it evaluated."""

    loss: float = np.inf
    evaluations: int = 0


def _same(problem: Problem | LatticeProblem) -> Problem | LatticeProblem:
    """Return the problem: threads share it."""
    return problem


def _descend(
    settings: NelderMead,
    spread: FloatArray,
    problem: Problem | LatticeProblem,
    weights: FloatArray,
    _rng: np.random.Generator,
    clock: Steps,
) -> _Met:
    """Move a simplex from weights [d] on, for features of that spread [d]; the unit of work."""
    from scipy.optimize import minimize

    met = _Met()

    def loss(scaled: FloatArray) -> float:
        met.evaluations += 1
        if not scaled.any():
            return np.inf
        tried = scaled / spread
        level = loss_at(problem, tried)
        if level < met.loss:
            met.loss = clock.keep(tried, level)
        return level

    def watch(_: FloatArray) -> None:
        if clock.expired():
            raise StopIteration

    callback: Any = watch
    scaled = weights * spread / np.abs(weights * spread).max()
    simplex = np.vstack([scaled, scaled + settings.edge * np.eye(len(scaled))])
    options: Any = {"initial_simplex": simplex, "xatol": _TOLERANCE, "fatol": 0.0, "maxfev": settings.evaluations}
    minimize(loss, scaled, method="Nelder-Mead", callback=callback, options=options)
    return met
