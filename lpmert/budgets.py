"""Budgets: the least loss with a second sum (words, seconds, cost) within a limit, and the Pareto front of both.

Loss and second sum are scaled to integers. A `Budget` is one function of both: the loss within the budget, and beyond
it the excess, which is worse than any loss. Methods for ratio metrics minimise it as they do BLEU; their bounds put a
price on the second sum. If even the minimum exceeds the budget, no weights keep to the budget. A front is a sequence of
such searches, each with a budget below the last second sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lpmert.api import Searches, list_problem, many_searches
from lpmert.errors import FloatArray, IntArray, LimitError, MetricError, RegionError
from lpmert.metrics.base import Metric
from lpmert.metrics.ratio import WITHIN, Budget
from lpmert.model.canonical import CallerWeights
from lpmert.model.nbest import NBest, column_of
from lpmert.model.problem import Problem
from lpmert.model.region import Region
from lpmert.numeric.rational import binary_places, decimals_of
from lpmert.quoting import number, quoted
from lpmert.result import Callback, Outcome, Progress, Result, Status, relative_gap
from lpmert.search.method import Method
from lpmert.values import finite_number, whole_number

_MOST_BITS = 34  # of the integer loss of a selection: searches have 48, and bounds need some for rounding and prices


@dataclass(frozen=True)
class Front(Outcome):
    """The Pareto front of the loss and a second sum.

    Parameters
    ----------
    second : str
        Name of the second sum.
    points : tuple of Result
        In the order of increasing loss and decreasing second sum, which is in `sums`.
    every : bool
        Whether all points were requested, rather than some at even steps.
    least : float or None
        The least second sum of any weights, if it is proved.
    complete : bool
        Whether all requested points are there and proved: no weights have a smaller second sum with the same loss, or a
        smaller loss with the same second sum.
    seconds : float
        Time taken.
    """

    second: str
    points: tuple[Result, ...]
    every: bool
    least: float | None
    complete: bool
    seconds: float


def within_budget(
    nbest: NBest,
    second: str | ArrayLike,
    most: float,
    *,
    name: str = "second",
    metric: str | Metric | None = None,
    method: str | Method = "auto",
    region: Region | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    jobs: int = 1,
    backend: str = "threads",
    seed: int = 0,
    callback: Callback | None = None,
) -> Result:
    """Find the least loss of all weights that keep a second sum within a budget, and prove that none do better.

    Parameters
    ----------
    nbest : NBest
        The lists.
    second : str or array [M]
        The numbers to sum over the chosen hypotheses: the name of a feature or statistic, or one per hypothesis.
    most : float
        The budget: the largest sum allowed.
    name : str
        A name for `second` if it is an array.
    metric, method, region, time_limit, memory_limit, jobs, backend, seed, callback
        As for `minimize`. The metric must be a sum over lists. The first of hypotheses with identical features counts.

    Returns
    -------
    Result
        The weights, their loss, and a bound on the loss of all weights within the budget. `sums` holds the second sum,
        and `region` how far it is below the budget. Whether it is within the budget does not depend on any tie.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        As by `minimize`; `MetricError` also if the metric is not a sum over lists, or the numbers have too many digits;
        `RegionError` also if it is proved that no weights keep to the budget.
    LimitError
        If a limit ended the search before it found weights within the budget.

    Notes
    -----
    The epsilon-constraint method: Haimes, Lasdon and Wismer, IEEE Transactions on Systems, Man, and Cybernetics 1971.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> lpmert.minimize(lists).loss, lpmert.within_budget(lists, second=[9, 1, 1, 1], most=5).loss
    (0.0, 1.0)
    """
    budget = finite_number(most, "a budget")
    with many_searches("budgets need", method, time_limit, memory_limit, jobs, seed, backend) as searches:
        problem = list_problem(nbest, metric, "first", region, searches.needs)
        sums = _Sums(searches, problem, second, name, budget)
        whole = sums.second.floor(Fraction(repr(budget)))
        found, reached = sums.search(whole, callback)
    if reached <= whole:
        return found
    limit, least = f"{sums.name} to {number(budget)}", number(found.sums[sums.name])
    if found.status is Status.OPTIMAL:
        raise RegionError(f"no weights keep {limit}: the least sum of any is {least}")
    raise LimitError(
        f"no weights that keep {limit} were found before the search ended, the least sum was {least}; allow more time, "
        "or a larger budget"
    )


def pareto(
    nbest: NBest,
    second: str | ArrayLike,
    *,
    points: int | None = None,
    name: str = "second",
    metric: str | Metric | None = None,
    method: str | Method = "auto",
    region: Region | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    jobs: int = 1,
    backend: str = "threads",
    seed: int = 0,
    on_point: Callable[[Result], object] | None = None,
) -> Front:
    """Find the Pareto front of the loss and a second sum over all weights, and prove that it has no other points.

    Parameters
    ----------
    nbest : NBest
        The lists.
    second : str or array [M]
        The numbers to sum over the chosen hypotheses: the name of a feature or statistic, or one per hypothesis.
    points : int, optional
        Maximum number of points: the best for budgets at even steps, from the second sum at the least loss towards the
        least second sum, which itself gets no point. By default all points of the front.
    name : str
        A name for `second` if it is an array.
    metric, method, region, memory_limit, jobs, backend, seed
        As for `minimize`. The metric must be a sum over lists. The first of hypotheses with identical features counts.
    time_limit : float, optional
        Seconds for everything; the points known by then are returned.
    on_point : callable, optional
        Called with each point as soon as it is known; a true return value stops.

    Returns
    -------
    Front
        The points, from the least loss to the least second sum; the bound of the last point tells what its search left
        open.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        As by `within_budget`; `MethodError` also for methods that prove nothing.

    Notes
    -----
    The epsilon-constraint method: Haimes, Lasdon and Wismer, IEEE Transactions on Systems, Man, and Cybernetics 1971.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> front = lpmert.pareto(lists, second=[9, 1, 1, 1])
    >>> [(one.loss, one.sums["second"]) for one in front.points]
    [(0.0, 10.0), (1.0, 2.0)]
    """
    n_points = None if points is None else whole_number(points, "points", 1)
    front: list[Result] = []
    complete, least = False, None
    settings = method, time_limit, memory_limit, jobs, seed, backend, on_point
    with many_searches("a front needs", *settings, proofs=True) as searches:
        sums = _Sums(searches, list_problem(nbest, metric, "first", region, searches.needs), second, name)
        first = last = budget = sums.second.largest
        while not (complete or searches.over):
            found, reached = sums.search(budget)
            if reached <= budget:
                front.append(found)
                last = reached
                searches.tell(found)
            if searches.stopped or found.status is not Status.OPTIMAL:
                break
            if n_points is None:
                complete, budget = reached > budget or last == 0, last - 1
                least = last if complete else None
                continue
            if least is None:
                first, least = last, sums.least_second()
                if least is None:
                    break
            budget = min(last - 1, first - -(-(first - least) * len(front) // n_points))
            complete = len(front) == n_points or budget <= least
    value = None if least is None else float(sums.second.value(least))
    return Front(sums.name, tuple(front), n_points is None, value, complete, searches.deadline.seconds)


class _Integers:
    """Numbers of hypotheses as integers: value = minimum of its list + unit * whole, with whole [M] >= 0.

    A selection whose integers add up to `whole` has the sum constant + unit * whole; no selection has more than
    `largest`. offsets [S + 1]. Raises `MetricError` for numbers that have too many digits.
    """

    def __init__(self, values: FloatArray, offsets: IntArray, what: str) -> None:
        places = decimals_of(values).places
        binary = binary_places(values) if places is None else 0
        scaled = None if binary is None else np.ldexp(values, binary) * 10.0 ** (places or 0)
        if scaled is None or np.abs(scaled).max(initial=0.0) >= 2.0**53:
            raise MetricError(f"{what} has too many digits for exact sums; round it")
        whole = np.rint(scaled).astype(np.int64)
        least = np.minimum.reduceat(whole, offsets[:-1])
        whole -= np.repeat(least, np.diff(offsets))
        step = int(np.gcd.reduce(whole)) or 1
        unit = Fraction(1, 10 ** (places or 0) * 2 ** (binary or 0))
        self.whole: IntArray = whole // step
        self.unit: Fraction = unit * step
        self.constant: Fraction = unit * sum(least.tolist())
        self.largest: int = sum(np.maximum.reduceat(self.whole, offsets[:-1]).tolist())

    def value(self, whole: int) -> Fraction:
        return self.constant + self.unit * whole

    def floor(self, value: Fraction) -> int:
        """Return the largest integer up to `largest` that stands for at most this sum; below 0 if no selection does."""
        return min(self.largest, math.floor((value - self.constant) / self.unit))


class _Sums:
    """The loss and a second number of each hypothesis as integers; searches for the least loss within budgets.

    limit: the caller's budget. For a front there is none, and of the weights with the least loss those with the least
    second sum are sought: the second sum counts as less than one unit of the loss.
    """

    def __init__(
        self, searches: Searches, problem: Problem, second: str | ArrayLike, name: str, limit: float | None = None
    ) -> None:
        if problem.losses is None:
            raise MetricError(
                f"a budget needs a loss that is a sum over lists, which metric {quoted(problem.metric.name)} is not"
            )
        self._searches, self._problem, self._limit = searches, problem, limit
        self.name, values = column_of(problem.nbest, second, name)
        self.loss = _Integers(problem.losses, problem.nbest.offsets, "the loss")
        self.second = _Integers(values, problem.nbest.offsets, self.name)
        self._factor = self.second.largest + 1 if limit is None else 1
        largest = (self.loss.largest + 1) * self._factor - 1
        if max(largest, self.second.largest).bit_length() > _MOST_BITS:
            raise MetricError(
                f"loss and {self.name} have too many digits for proofs about both: in steps of their last digits, the "
                f"sums can differ by at most 2**{_MOST_BITS}, for a front multiplied with each other; round them"
            )
        self._losses = self.loss.whole * self._factor + (self.second.whole if limit is None else 0)
        self._unit = math.ldexp(WITHIN, -largest.bit_length())

    def _problem_on(self, metric: Any, *columns: IntArray) -> Problem:
        """Return the problem with these columns as statistics."""
        nbest, statistics = self._problem.nbest, np.column_stack(columns).astype(np.float64)
        lists = NBest(nbest.features, nbest.offsets, statistics, nbest.names, nbest.list_ids, copy=False)
        return Problem(lists, metric, region=self._problem.region)

    def least_second(self) -> int | None:
        """Return the least second sum of any weights, as an integer; `None` if it was not proved in time."""
        found = self._searches.solve(self._problem_on(None, self.second.whole))
        return int(found.loss) if found.status is Status.OPTIMAL else None

    def search(self, budget: int, callback: Callback | None = None) -> tuple[Result, int]:
        """Search for the least loss with a second sum of at most `budget`, an integer.

        Returns the best weights found, and their second sum as an integer, which may exceed the budget.
        """
        given, searches, limit = self._problem, self._searches, self._limit
        # no weights keep to a budget below 0: then the excess over 0 is minimised
        beyond = math.ldexp(0.5, -max(1, self.second.largest).bit_length())
        metric = Budget(float(max(0, budget)), self._unit, beyond)
        problem = self._problem_on(metric, self._losses, self.second.whole)
        report = None if callback is None else lambda progress: callback(self._progress(progress))
        least = seconds = None
        if budget == 0 and searches.method.proves:
            seconds = searches.deadline.share(2.0)
            least = self._least_of_cheapest(seconds)
        found = searches.solve(problem, report, time_limit=seconds, target=least)
        if least is not None and found.lower_bound is not None:
            status, bound = found.status, min(max(found.lower_bound, least), found.loss)
            if found.loss <= least:
                attained = problem.attains(CallerWeights(found.weights), problem.canonical.cost_of_loss(found.loss))
                status = Status.OPTIMAL if attained and not problem.inexact else Status.OPTIMAL_TO_TOLERANCE
            found = replace(found, lower_bound=bound, status=status)
        at = given.evaluate(found.weights)
        reached = int(self.second.whole[given.nbest.rows_of(at.selection)].sum())
        second = float(self.second.value(reached))
        limits, constraint = dict(found.region), f"second:{self.name}"
        if limit is not None:
            constraint = f"budget:{self.name}<={limit!r}"
            limits[f"{self.name} <= {number(limit)}"] = limit - second
        lower = None if found.lower_bound is None else min(at.loss, self._loss_of(found.lower_bound))
        result = replace(
            found,
            loss=at.loss,
            score=at.score,
            lower_bound=at.loss if found.status is Status.OPTIMAL else lower,
            statistics=at.statistics,
            signature=found.signature.replace(metric.signature, f"{given.metric.signature}|{constraint}"),
            fingerprint=given.fingerprint,
            region=limits,
            sums={self.name: second},
            trace=tuple(
                (seconds, None if bound is None else self._loss_of(bound), self._loss_of(loss))
                for seconds, bound, loss in found.trace
                if loss <= WITHIN
            ),
            warnings=given.data_warnings,
            rates=given.rates(at.loss),
            unit=given.unit,
        )
        return result, reached

    def _least_of_cheapest(self, seconds: float | None) -> float | None:
        """Return a lower bound for a budget of 0, which only hypotheses with the least number of their list keep.

        It is the optimum of lists with these hypotheses alone: weights within the budget choose the same from both
        (R7). Prices alone would have to grow without end, because such weights lie near an edge of the weight space.
        """
        lists = self._problem.nbest
        rows = np.flatnonzero(self.second.whole == 0)
        losses, offsets = self._losses[rows].astype(np.float64), np.searchsorted(rows, lists.offsets)
        cheapest = NBest(lists.features[rows], offsets, losses, lists.names, lists.list_ids)
        bound = self._searches.solve(Problem(cheapest, region=self._problem.region), time_limit=seconds).lower_bound
        return None if bound is None else min(WITHIN, math.ceil(bound) * self._unit)

    def _loss_of(self, loss: float) -> float:
        """Return the caller's loss, rounded down, for a loss of the search or a bound on it: the next integer."""
        whole = math.ceil(Fraction(min(loss, WITHIN)) / Fraction(self._unit)) // self._factor
        exact = self.loss.value(min(whole, self.loss.largest))
        nearest = float(exact)
        return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)

    def _progress(self, progress: Progress) -> Progress:
        """Return the progress of the search in the caller's losses; the loss is infinite until the budget is met."""
        bound = None if progress.lower_bound is None else self._loss_of(progress.lower_bound)
        loss = self._loss_of(progress.loss) if progress.loss <= WITHIN else math.inf
        return replace(progress, lower_bound=bound, loss=loss, gap_rel=relative_gap(loss, bound))
