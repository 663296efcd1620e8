"""Exact leave-one-out cross-validation: the loss of each list at weights that are the proved optimum of all others.

Weights that do better than the optimum of all lists once a list is left out must do worse on that list: otherwise they
would be better on all lists. So the search without a list considers only weights that choose a hypothesis of it that is
worse than at the optimum, and is cut off at the optimum's loss on the others. Most of these searches end at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import frexp, ldexp
from typing import TYPE_CHECKING, Any

import numpy as np

from lpmert.api import list_problem, many_searches, settings_of
from lpmert.errors import FloatArray, LimitError, MethodError, MetricError, RegionError
from lpmert.metrics.base import AdditiveMetric
from lpmert.model.nbest import NBest
from lpmert.model.problem import Distinct, Problem
from lpmert.model.region import Region
from lpmert.quoting import quoted
from lpmert.result import Limits, OnStage, Outcome, Result, Status
from lpmert.search.driver import search_below, solve
from lpmert.system.deadline import told

if TYPE_CHECKING:
    from lpmert.metrics.base import Metric
    from lpmert.search.method import Method

_BITS = 55  # bits that the losses of a search may take, so that their sums are exact


@dataclass(frozen=True)
class LeftOut(Outcome):
    """The result of `leave_one_out`: the loss of each list when it is left out.

    Parameters
    ----------
    optimum : Result
        The best weights for all lists.
    list_ids : tuple
        The ids of the lists.
    fitted : ndarray of shape (n_lists,)
        The loss of each list at the optimum.
    least, most : ndarray of shape (n_lists,)
        Bounds on the loss of each list at the optimum of all others; equal unless time was short. If there are several
        optima, the one that is worst for the list counts.
    seconds : float
        Time taken.
    """

    json_properties = ("loss", "complete")

    optimum: Result
    list_ids: tuple[str, ...]
    fitted: FloatArray
    least: FloatArray
    most: FloatArray
    seconds: float

    @property
    def loss(self) -> float | None:
        """The total loss of the lists when left out; `None` if time was short.

        It estimates the loss on as many unseen lists from above, because the worst of several optima counts.
        """
        return float(self.most.sum()) if self.complete else None

    @property
    def complete(self) -> bool:
        """Whether the loss of every list is known."""
        return bool((self.least == self.most).all())

    @property
    def n_changed(self) -> int:
        """Number of lists that are proved to cost more when left out."""
        return int((self.least > self.fitted).sum())


def leave_one_out(
    nbest: NBest,
    *,
    metric: str | Metric | None = None,
    method: str | Method = "auto",
    ties: str = "first",
    region: Region | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    jobs: int = 1,
    backend: str = "threads",
    seed: int = 0,
    on_stage: OnStage | None = None,
) -> LeftOut:
    """Find the loss of each list at the proved optimum of all others: exact leave-one-out cross-validation.

    Parameters
    ----------
    nbest : NBest
        The lists. Losses must be multiples of a power of two, such as counts.
    metric, method, ties, region
        As for `minimize`.
    time_limit : float, optional
        Seconds for everything, at most half of them for the optimum; lists that are not finished by then get bounds.
    memory_limit, jobs, backend, seed
        As for `minimize`.
    on_stage : callable, optional
        Called with the name of the stage, how many lists were left out, and their number; a true return value stops.

    Returns
    -------
    LeftOut
        The loss of each list, fitted and left out.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        As by `minimize`; `MethodError` also for lattices and for methods that prove nothing, `MetricError` also for
        metrics that are not sums over lists and for losses that would be rounded.
    LimitError
        If there was not enough time to prove the optimum of all lists.

    Notes
    -----
    Source: Stone, Cross-Validatory Choice and Assessment of Statistical Predictions, JRSS B 1974.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> left_out = lpmert.leave_one_out(lists)
    >>> left_out.optimum.loss, left_out.loss
    (0.0, 2.0)
    """
    solver, limits, seed = settings_of(method, time_limit, memory_limit, jobs, seed, backend)
    if not solver.proves:
        raise MethodError(f"method {quoted(solver.name)} proves nothing, and leave-one-out needs proofs; use auto")
    with many_searches(limits, backend, jobs) as (deadline, _):
        problem = list_problem(nbest, metric, ties, region, "leave-one-out needs")
        if not isinstance(problem.metric, AdditiveMetric):
            raise MetricError(f"leave-one-out needs a sum over lists, which {quoted(problem.metric.name)} is not")
        optimum = solve(solver, problem, replace(limits, time_limit=deadline.share(2.0)), seed=seed)
        if optimum.status is not Status.OPTIMAL:
            raise LimitError(f"no list left out, as the optimum of all lists is not proved: {optimum.message}")
        search = _Search(problem, optimum, solver, limits, seed)
        fitted, n_lists = search.fitted, nbest.n_lists
        ends = np.array([fitted, np.maximum.reduceat(search.losses, search.lists.offsets[:-1])])
        waiting = np.flatnonzero(ends[0] < ends[1]).tolist()
        for done, number in enumerate(waiting):
            if deadline.expired:
                break
            found = search.without(number, deadline.share(len(waiting) - done))
            ends[:, number] = ends[:, number] if found is None else found
            if told(on_stage, "lists left out", n_lists - len(waiting) + done + 1, n_lists):
                break
    return LeftOut(optimum, nbest.list_ids, fitted, ends[0], ends[1], deadline.seconds)


class _Search:
    """Searches for the optimum without one list. Hypotheses with identical features are represented by one."""

    def __init__(self, problem: Problem, optimum: Result, method: Method, limits: Limits, seed: int) -> None:
        self._problem, self._method, self._limits, self._seed = problem, method, limits, seed
        self.lists: Distinct = problem.as_given()
        metric: Any = problem.metric
        begins, unit = self.lists.offsets[:-1], problem.canonical.unit
        self.losses = np.asarray(metric.losses(self.lists.statistics), dtype=np.float64)
        more = self.losses - np.repeat(np.minimum.reduceat(self.losses, begins), np.diff(self.lists.offsets))
        # the step of the canonical form may be larger, because it merges lists whose losses only change together
        self._step = unit * int(np.gcd.reduce(np.rint(more / unit).astype(np.int64))) or 1.0
        self._beyond = float(np.maximum.reduceat(np.abs(self.losses), begins).sum()) * 2.0 + self._step
        bits = frexp(self._beyond / self._step)[1] + frexp(float(more.max()) / self._step)[1]
        if problem.canonical.rounded or bits > _BITS:
            raise MetricError("losses have so many digits that ties between weights cannot be told; make them counts")
        all_losses = np.asarray(metric.losses(problem.nbest.statistics), dtype=np.float64)
        self.fitted: FloatArray = all_losses[problem.nbest.rows_of(optimum.selection)]
        self._most = float(self.fitted.sum())

    def without(self, number: int, seconds: float | None) -> float | None:
        """Return the loss of a list at the optimum of all others; `None` if the search does not end.

        The search breaks ties between weights that are equally good for the others: their losses for this list enter
        with a factor so small that they count less than the smallest difference for the others, and with a negative
        sign, so that the worst weights for this list win.
        """
        rows = slice(*self.lists.offsets[number : number + 2].tolist())
        own, fitted = self.losses[rows], float(self.fitted[number])
        spread = float(own.max()) - fitted
        factor = ldexp(1.0, frexp(self._step)[1] - frexp(spread)[1] - 2)
        losses = self.losses.copy()
        losses[rows] = np.where(own > fitted, factor * (own.max() - own), self._beyond)
        cutoff = self._most - fitted + self._step
        nbest = NBest(self.lists.features, self.lists.offsets, losses, names=self._problem.names)
        try:
            problem = Problem(nbest, None, ties="first", region=self._problem.region)
        except RegionError:
            return None
        found = search_below(problem, cutoff, self._method, replace(self._limits, time_limit=seconds), self._seed)
        if found.result is None:
            return fitted if found.status.finished and found.bound >= cutoff else None
        if found.result.status is not Status.OPTIMAL:
            return None
        return float(own[found.result.selection[number]])
