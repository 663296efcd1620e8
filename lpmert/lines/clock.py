"""The clock of heuristics: it ends them in time and keeps the best weights that they report."""

from __future__ import annotations

from math import inf

import numpy as np

from lpmert.errors import FloatArray
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
