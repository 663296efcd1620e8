"""The method `average`: averaged weights, like those of `tune`, wherever a method is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf, isinf
from typing import ClassVar

from lpmert.configurable import option
from lpmert.errors import FloatArray, MethodError
from lpmert.lines.clock import Clock
from lpmert.model.canonical import CanonicalWeights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.result import Limits
from lpmert.search.method import Comparator, Found
from lpmert.system.deadline import time_left
from lpmert.unseen.average import CHAINS, Average, Tell, average_weights
from lpmert.unseen.lattice_average import average_over_paths
from lpmert.unseen.material import found_by_lines


@dataclass(frozen=True)
class Averaging(Comparator):
    """The mean of weights in proportion to exp(-loss / T), from where line searches end.

    T is `temperature` times u, the mean difference in loss between two hypotheses of a list. With `within`, weights
    count only if they cost at most within * u * (D - 1) more than the best that line searches find; then the
    temperature can be infinite, so that all of these count alike. `docs/unseen.md` has the mathematics.
    """

    temperature: float = option(3.0, "in units of u; inf only with within", above=0)
    within: float | None = option(None, "units of u for each feature but one that weights may cost more", above=0)
    chains: int = option(CHAINS, "random walks, whose means are averaged", least=1)

    name: ClassVar[str] = "average"
    takes_lattices: ClassVar[bool] = True
    takes_jobs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if isinf(self.temperature) and self.within is None:
            raise MethodError("an infinite temperature averages all weights, good and bad: set within, too")

    def average(
        self,
        problem: Problem | LatticeProblem,
        start: CanonicalWeights,
        *,
        seed: int,
        chains: int | None = None,
        tell: Tell = lambda *_: None,
    ) -> Average:
        """Return the average of weights around start [d]; see `average_weights`, `average_over_paths`."""
        on_lists = partial(
            average_weights,
            temperature=self.temperature,
            within=inf if self.within is None else self.within,
            seed=seed,
            chains=self.chains if chains is None else min(chains, self.chains),
            tell=tell,
        )
        if isinstance(problem, LatticeProblem):
            return average_over_paths(problem, start, seed, on_lists)
        return on_lists(problem, start)

    def run(self, problem: Problem | LatticeProblem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the average; the line searches start from given weights, too."""
        given = None if start is None else problem.to_caller(CanonicalWeights(start))
        found = problem.to_canonical(found_by_lines(problem, Limits(time_limit=time_left()), seed, given))
        clock.keep(found)
        done = 0

        def stop(steps: int, _: int) -> bool:
            nonlocal done
            new, done = steps - done, steps
            return clock.expired(new)

        average = self.average(problem, found, seed=seed, tell=stop)
        return Found(average.weights, {"chains": average.chains, "circles": average.steps})
