"""The search for a loss below a cut-off: whether there are such weights, and the best of them.

Nodes that reach no lower loss are pruned from the start, long before the search would meet a loss as low as that
itself. Most questions about a part of the weight space are of this kind: is anything there better than what is known?
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf

from lpmert.model.problem import Problem
from lpmert.result import Limits, Result, Status
from lpmert.search.driver import ListSolver
from lpmert.search.method import Incumbent, Method
from lpmert.search.report import RESOLUTION, Outcome, bound_on_loss


@dataclass(frozen=True)
class Below:
    """What a search below a cut-off came to.

    result: the best weights below it that were found, or `None`; bound: on the loss of all weights, -inf if none is
    known; ended: whether the search did, rather than being stopped; least_met: the least loss that it met, be it above.
    """

    result: Result | None
    bound: float
    ended: bool
    least_met: float


def search_below(problem: Problem, cutoff: float, method: Method, limits: Limits | None = None, seed: int = 0) -> Below:
    """Search a problem for weights with a loss below a cut-off, `inf` for any.

    Raises as `lpmert.minimize`.
    """
    solver = _Solver(method, problem, limits, seed=seed)
    try:
        result = solver.below(cutoff)
    except _NothingBelow:
        return Below(None, solver.bound, solver.ended, solver.first_loss)
    bound = -inf if result.lower_bound is None else result.lower_bound
    return Below(result if result.loss < cutoff else None, bound, solver.ended, result.loss)


class _NothingBelow(Exception):
    """A search ended, or was stopped, without weights below the cut-off."""


class _Solver(ListSolver):
    """Tells the search that its first weights cost as little as the cut-off, so that only less is an improvement."""

    bound, first_loss, ended = -inf, inf, False

    def below(self, cutoff: float) -> Result:
        """Return the best weights below the cut-off; raises `_NothingBelow` if none are found."""
        form = self._problem.canonical
        self._cutoff, self._most = cutoff, inf
        if cutoff < inf:  # costs are multiples of the granularity: the least of them that is not below the cut-off
            cost = Fraction(cutoff) / Fraction(form.unit) - form.constant
            self._most = -(-cost // form.granularity) * form.granularity
        return self.solve()

    def _first_weights(self) -> Incumbent:
        found = super()._first_weights()
        self.first_loss = self._problem.canonical.loss_of(found.cost)
        return replace(found, cost=int(min(found.cost, self._most)))

    def _report(self, outcome: Outcome) -> Result:
        self.ended = outcome.status in (Status.OPTIMAL, Status.OPTIMAL_TO_TOLERANCE)
        if outcome.cost < self._most:
            return super()._report(outcome)
        problem, cutoff = self._problem, self._cutoff
        unseen = problem.unseen(cutoff)
        if outcome.status is Status.OPTIMAL and not problem.turned and unseen <= RESOLUTION * abs(cutoff):
            self.bound = cutoff
        elif outcome.lower_bound is not None:
            self.bound = bound_on_loss(problem.canonical, outcome.lower_bound, unseen)
        raise _NothingBelow
