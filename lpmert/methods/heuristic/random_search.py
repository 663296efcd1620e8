"""Random search: independent directions, the best of which is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray
from lpmert.lines.clock import Clock
from lpmert.lines.line_search import space_of
from lpmert.lines.restarts import random_weights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.search.run import Comparator, Found


@dataclass(frozen=True)
class RandomSearch(Comparator):
    """Decode at `draws` random weights, after the start if there is one, and keep the best.

    They are uniform in direction, for features brought to the same spread within lists.
    """

    draws: int = option(1000, "random weights", least=1)

    name: ClassVar[str] = "random"
    takes_lattices: ClassVar[bool] = True

    def run(self, problem: Problem | LatticeProblem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the best of the weights tried."""
        rng = np.random.default_rng(seed)
        space = space_of(problem)
        best = random_weights(space, rng) if start is None else start
        clock.keep(best)
        for _ in range(self.draws):
            if clock.expired():
                break
            clock.keep(random_weights(space, rng))
        return Found(best if clock.best is None else clock.best)
