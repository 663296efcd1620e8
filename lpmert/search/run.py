"""A heuristic that is one function: what it is told, what it returns, and the search that runs it."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lpmert.errors import FloatArray
from lpmert.lines.clock import Clock, given_weights
from lpmert.model.coordinates import CanonicalWeights
from lpmert.model.problem import Problem
from lpmert.search.method import Incumbent, Method, Search, Task

logger = logging.getLogger("lpmert")


@dataclass(frozen=True)
class Found:
    """Where a heuristic ended: canonical weights [d], and what it counted, by name."""

    weights: FloatArray
    counters: Mapping[str, int] = field(default_factory=dict)


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
