"""The search for a loss below a cut-off: whether there are such weights, and the best of them.

Nodes that reach no lower loss are pruned from the start, long before the search itself would meet such a loss. Most
questions about a part of the weight space are of this kind: is anything there better than the best known loss?
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf

from lpmert.model.canonical import CanonicalWeights
from lpmert.model.problem import Problem
from lpmert.result import Limits, Result, Status
from lpmert.search.driver import REPORT_SECONDS, Driver, check_fits, deadline_of
from lpmert.search.method import Incumbent, Method
from lpmert.search.report import RESOLUTION, Outcome, bound_on_loss, result_of
from lpmert.system.interrupts import Interrupts


@dataclass(frozen=True)
class Below:
    """The outcome of a search below a cut-off.

    result: the best weights below it that were found, or `None`; bound: on the loss of all weights, -inf if none is
    known; ended: whether the search did, rather than being stopped; least_met: the least loss that it met, be it above.
    """

    result: Result | None
    bound: float
    ended: bool
    least_met: float


def search_below(problem: Problem, cutoff: float, method: Method, limits: Limits | None = None, seed: int = 0) -> Below:
    """Search lists for weights with a loss below a cut-off, `inf` for any.

    Raises as `lpmert.minimize`.
    """
    check_fits(method, problem)
    limits, interrupts = limits or Limits(), Interrupts()
    deadline = deadline_of(problem, limits, interrupts)
    driver = _Driver(problem, limits, None, deadline, interrupts)
    driver.most = _cost_of(problem, cutoff)
    with interrupts, deadline.running():
        outcome = driver.drive(driver.begin(method, seed, None))
        ended = outcome.status.finished
        if outcome.cost >= driver.most:
            return Below(None, _bound_of(problem, cutoff, outcome), ended, driver.first_loss)
        with deadline.later(REPORT_SECONDS).running():
            result = result_of(method, problem, outcome, seed)
    bound = -inf if result.lower_bound is None else result.lower_bound
    return Below(result if result.loss < cutoff else None, bound, ended, result.loss)


class _Driver(Driver):
    """Tells the search that its first weights cost as little as the cut-off, so that only less is an improvement."""

    most: float = inf
    first_loss = inf

    def _first_weights(self, seed: int, initial: CanonicalWeights | None) -> Incumbent:
        found = super()._first_weights(seed, initial)
        self.first_loss = self._problem.canonical.loss_of(found.cost)
        return replace(found, cost=int(min(found.cost, self.most)))


def _cost_of(problem: Problem, cutoff: float) -> float:
    """Return the least cost that is not below the cut-off: costs are multiples of the granularity."""
    form = problem.canonical
    if cutoff == inf:
        return inf
    cost = Fraction(cutoff) / Fraction(form.unit) - form.constant
    return -(-cost // form.granularity) * form.granularity


def _bound_of(problem: Problem, cutoff: float, outcome: Outcome) -> float:
    """Return the bound on the loss of all weights, none of which were found to be below the cut-off."""
    unseen = problem.unseen(cutoff)
    if outcome.status is Status.OPTIMAL and not problem.inexact and unseen <= RESOLUTION * abs(cutoff):
        return cutoff
    return -inf if outcome.lower_bound is None else bound_on_loss(problem.canonical, outcome.lower_bound, unseen)
