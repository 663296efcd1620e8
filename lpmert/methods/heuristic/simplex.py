"""Nelder and Mead's simplex on the loss itself (Zens, Hasan and Ney, EMNLP 2007), from several starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray
from lpmert.lines.clock import Clock
from lpmert.lines.lattice_search import space_of
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

    def run(self, problem: Problem | LatticeProblem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the best vertex met."""
        from scipy.optimize import minimize

        rng = np.random.default_rng(seed)
        space = space_of(problem)
        spread = space.spread
        first = problem.canonical.interior if start is None else start
        weights = 1.0 / spread if first is None else first
        evaluations = 0

        def loss(scaled: FloatArray) -> float:
            nonlocal evaluations
            evaluations += 1
            return clock.keep(scaled / spread) if scaled.any() else np.inf

        def watch(_: FloatArray) -> None:
            if clock.expired():
                raise StopIteration

        callback: Any = watch
        for _ in range(self.restarts + 1):
            scaled = weights * spread / np.abs(weights * spread).max()
            simplex = np.vstack([scaled, scaled + self.edge * np.eye(len(scaled))])
            options: Any = {"initial_simplex": simplex, "xatol": _TOLERANCE, "fatol": 0.0, "maxfev": self.evaluations}
            minimize(loss, scaled, method="Nelder-Mead", callback=callback, options=options)
            if clock.expired(0):
                break
            weights = random_weights(space, rng)
        return Found(weights if clock.best is None else clock.best, {"evaluations": evaluations})
