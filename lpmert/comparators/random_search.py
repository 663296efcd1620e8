"""Random search: independent directions, uniform on the sphere, the best of which is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lpmert.comparators.base import Clock, Comparator, Found
from lpmert.problem import Problem
from lpmert.result import FloatArray


@dataclass(frozen=True)
class RandomSearch(Comparator):
    """Decode at `draws` random weights, uniform on the sphere, after the start if there is one, and keep the best."""

    draws: int = 1000

    name: ClassVar[str] = "random"

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the best of the weights tried."""
        rng = np.random.default_rng(seed)
        best = rng.normal(size=problem.n_features) if start is None else start
        clock.keep(best)
        for _ in range(self.draws):
            if clock.expired():
                break
            clock.keep(rng.normal(size=problem.n_features))
        return Found(best if clock.best is None else clock.best)
