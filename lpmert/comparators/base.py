"""A heuristic that is one function: what it is told, what it returns, and the search that runs it."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from lpmert.coordinates import CanonicalWeights
from lpmert.deadline import out_of_time
from lpmert.exact.method import Incumbent, Method, Search, Task
from lpmert.form import Canonical
from lpmert.kernels import decode
from lpmert.problem import Problem
from lpmert.result import FloatArray

logger = logging.getLogger("lpmert")


@dataclass(frozen=True)
class Found:
    """Where a heuristic ended: canonical weights [d], and what it counted, by name."""

    weights: FloatArray
    counters: Mapping[str, int] = field(default_factory=dict)


class Clock:
    """Tells a heuristic when its time or its steps are used up, and keeps the best of the weights that it shows.

    It calls `keep` with every set of weights that it may have to stand by, and ends soon after `expired` has answered
    true. `best` [d] are the kept weights with the least `loss`, `None` before the first.
    """

    def __init__(self, problem: Problem, most_steps: int | None = None) -> None:
        self.steps = 0
        self.best: CanonicalWeights | None = None
        self.loss = inf
        self._problem, self._most_steps = problem, most_steps

    def keep(self, weights: FloatArray, loss: float | None = None) -> float:
        """Remember weights [d] if they are better than those before, and return their loss.

        loss: that of decoding with them, where it is known; otherwise they are decoded here.
        """
        known = decoded_loss(self._problem.canonical, weights) if loss is None else loss
        if known < self.loss:
            self.best, self.loss = CanonicalWeights(np.array(weights, dtype=np.float64)), known
        return known

    def expired(self, steps: int = 1) -> bool:
        """Count steps of work, and return whether to stop."""
        self.steps += steps
        return out_of_time() or (self._most_steps is not None and self.steps >= self._most_steps)


Function = Callable[[Problem, FloatArray | None, int, Clock], Found]
"""What `Comparator.run` is."""


class Run(Clock, Search):
    """A search whose only slice is all of a function; it is the clock of that function, which may stop it earlier.

    A step counts as a node.
    """

    strict = False
    finished = False
    open_nodes = 0

    def __init__(self, task: Task, function: Function) -> None:
        super().__init__(task.problem)
        self.incumbent = Incumbent(0, given_weights(task.canonical, task.initial), "")
        self._task, self._function = task, function
        self._counted: Mapping[str, int] = {}

    @property
    def known(self) -> bool:
        return self.best is not None

    @property
    def nodes(self) -> int:
        return self.steps

    def counters(self) -> Mapping[str, int]:
        return {"steps": self.steps, **self._counted}

    def keep(self, weights: FloatArray, loss: float | None = None) -> float:
        """Remember weights [d] if they are better than those before, and return their loss."""
        before = self.loss
        known = super().keep(weights, loss)
        if self.best is not None and self.loss < before:
            self.incumbent = Incumbent(self._problem.canonical.cost_of_loss(self.loss), self.best, "L")
            self._task.watch.note(self)
        return known

    def expired(self, steps: int = 1) -> bool:
        """Count steps of work, tell the callback from time to time, and return whether to stop."""
        self.steps += steps
        return self._task.watch.glance(self)

    def advance(self) -> None:
        """Run the function to its end."""
        task = self._task
        found = self._function(task.problem, task.initial, task.seed, self)
        self.incumbent = replace(self.incumbent, weights=self._within_region(CanonicalWeights(found.weights)))
        self._counted = found.counters
        self.finished = True

    def _within_region(self, weights: CanonicalWeights) -> CanonicalWeights:
        """Return these weights [d] if they lie in the region, or else the best ones."""
        if self._problem.inside(self._problem.to_caller(weights)):
            return weights
        logger.warning("the method left the region; the best weights that it met inside are returned")
        return weights if self.best is None else self.best


class Comparator(Method):
    """A frozen dataclass of options that looks for good weights in one function, and proves nothing."""

    proves = False
    takes_ratios = True
    takes_caps = True

    @abstractmethod
    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the weights that the method ends with; raises `MethodError` if it cannot take the problem.

        start: canonical weights [d], not all 0, or `None`. All that is random comes from `seed`. The problem has at
        least one feature and one list.
        """

    def start(self, task: Task) -> Search:
        """Return the run as a search."""
        return Run(task, self.run)


def given_weights(canonical: Canonical, initial: CanonicalWeights | None) -> CanonicalWeights:
    """Return weights [d] to begin with: these, or any of the region."""
    if initial is not None:
        return initial
    return CanonicalWeights(np.ones(canonical.n_features)) if canonical.interior is None else canonical.interior


def decoded_loss(canonical: Canonical, weights: FloatArray) -> float:
    """Return the loss of decoding canonical weights [d] in floating point, infinite outside of the region.

    The first hypothesis wins on ties.
    """
    if (canonical.limits @ weights < 0.0).any():
        return inf
    if canonical.cap is not None and canonical.cap.cosine_of(weights) < canonical.cap.cosine:
        return inf
    selection = np.empty(canonical.n_lists, dtype=np.int64)
    decode(canonical.features, canonical.offsets, weights, selection)
    if canonical.additive:
        return canonical.loss_of(int(canonical.costs[selection].sum()))
    totals = canonical.totals
    return totals.metric.loss(totals.constant + totals.statistics[selection].sum(axis=0))
