"""CMA-ES on the loss itself: evolution of weights, from several starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray
from lpmert.lines.clock import Clock
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.search.evolution import Evolution
from lpmert.search.run import Comparator, Found


@dataclass(frozen=True)
class CmaEs(Comparator):
    """Hansen's CMA-ES from the start (or equal weights), then in turn from beside the best weights and from anywhere.

    Weights are drawn along axes along which the features do not correlate within lists; over lattices, along features
    of the same spread.
    """

    restarts: int = option(20, "runs after the first", least=0)

    name: ClassVar[str] = "cma-es"
    takes_lattices: ClassVar[bool] = True

    def run(self, problem: Problem | LatticeProblem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the best of the weights drawn."""
        evolution = Evolution(problem, start, np.random.default_rng(seed))
        clock.keep(evolution.best)
        while evolution.runs <= self.restarts and not clock.expired(0):
            evolution.run(clock)
        return Found(evolution.best if clock.best is None else clock.best, {"runs": evolution.runs})
