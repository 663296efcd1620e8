"""Budgets: the least loss with a second sum (words, seconds, cost) within a limit, and the whole front of both.

Loss and second sum become whole numbers, and a `Budget` one function of both: the loss within the budget, and beyond it
the excess, which is worse than any loss. Methods for functions of sums minimise that as they do BLEU; their bounds put
a price on the second sum. Where even the least of that function exceeds the budget, no weights keep to it. The front is
one such search after the other, each for less than the second sum before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from lpmert.api import list_problem, many_searches, settings_of
from lpmert.errors import DataError, FloatArray, IntArray, LimitError, MethodError, MetricError, RegionError
from lpmert.findings import Outcome, Unit
from lpmert.metrics.ratio import WITHIN, Budget
from lpmert.model.nbest import NBest, column_of
from lpmert.model.problem import Problem
from lpmert.numeric.rounding import binary_places, decimals_of
from lpmert.quoting import number, quoted
from lpmert.result import Callback, Limits, Progress, Result, Status, relative_gap
from lpmert.search.driver import solve
from lpmert.system.deadline import told, within
from lpmert.values import real_number, whole_number

if TYPE_CHECKING:
    from lpmert.metrics.base import Metric
    from lpmert.model.region import Region
    from lpmert.search.method import Method

_MOST_BITS = 34
"""Of whole losses of selections: searches count them in 48 bits, of which bounds need some for rounding and prices."""

OnPoint = Callable[[Result], object]
"""Gets each point of a front when it is known."""


@dataclass(frozen=True)
class Front(Outcome):
    """All best pairs of a loss and a second sum, from the least loss to the least second sum.

    Parameters
    ----------
    second : str
        Name of the second sum.
    points : tuple of Result
        By rising loss and falling second sum, which is in `sums`.
    every : bool
        Whether all points were requested, rather than some at even steps.
    least : float or None
        The least second sum of any weights, where it is proved.
    complete : bool
        Whether all requested points are there and proved: no weights have a loss as small with a smaller second sum, or
        a second sum as small with a smaller loss.
    seconds : float
        Time taken.
    """

    second: str
    points: tuple[Result, ...]
    every: bool
    least: float | None
    complete: bool
    seconds: float

    @property
    def unit(self) -> Unit | None:
        """The unit in which users know the losses."""
        return self.points[0].unit if self.points else None

    def __str__(self) -> str:
        """Return a line for each point: the second sum, the loss and its bound."""
        return "\n".join(f"{self.second} {number(one.sums[self.second])}: {one.cost}" for one in self.points)


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
        What is summed over the chosen hypotheses: the name of a feature or statistic, or a number for each hypothesis.
    most : float
        The budget: the largest sum allowed.
    name : str
        A name for `second` where it is given as numbers.
    metric, method, region, time_limit, memory_limit, jobs, backend, seed, callback
        As for `minimize`. The metric is a sum over lists. Of hypotheses with identical features the first counts.

    Returns
    -------
    Result
        The weights, their loss, and the bound on the loss of all weights within the budget. `sums` has the
        second sum, `region` how far it stays below the budget. No tie decides whether it does.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        As by `minimize`; `MetricError` too for losses that are no sums, and for sums of too many digits; `RegionError`
        if it is proved that no weights keep to the budget.
    LimitError
        If a limit ended the search before it met weights within the budget.

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
    solver, limits, seed = settings_of(method, time_limit, memory_limit, jobs, seed, backend)
    number_given = real_number(most)
    if number_given is None or not math.isfinite(number_given):
        raise DataError(f"a budget is a number, the largest sum of a second column; got {quoted(most)}")
    with many_searches(limits, backend, jobs):
        sums = _Sums(nbest, second, name, metric, region)
        search = _Within(sums, sums.second.floor(Fraction(repr(number_given))), number_given)
        found, whole = search.search(solver, limits, seed, callback)
    if whole <= search.budget:
        return found
    limit, least = f"{sums.name} to {number(number_given)}", number(found.sums[sums.name])
    if found.status is Status.OPTIMAL:
        raise RegionError(f"no weights keep {limit}: the least sum of any is {least}")
    raise LimitError(
        f"no weights met that keep {limit} before the search ended, the least sum was {least}; allow more time, or more"
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
    on_point: OnPoint | None = None,
) -> Front:
    """Find all best pairs of the loss and a second sum that any weights reach, and prove that there are no others.

    Parameters
    ----------
    nbest : NBest
        The lists.
    second : str or array [M]
        What is summed over the chosen hypotheses: the name of a feature or statistic, or a number for each hypothesis.
    points : int, optional
        How many points at most: the best for budgets at even steps, from the second sum at the least loss towards the
        least second sum, which itself gets no point. By default all points of the front.
    name : str
        A name for `second` where it is given as numbers.
    metric, method, region, memory_limit, jobs, backend, seed
        As for `minimize`. The metric is a sum over lists. Of hypotheses with identical features the first counts.
    time_limit : float, optional
        Seconds for everything; the points known by then are returned.
    on_point : callable, optional
        Gets each point when it is known; a true answer stops.

    Returns
    -------
    Front
        The points, from the least loss to the least second sum; the bound of the last one says what its search left
        open.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        As by `within_budget`; `MethodError` too for methods that prove nothing.

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
    solver, limits, seed = settings_of(method, time_limit, memory_limit, jobs, seed, backend)
    if not solver.proves:
        raise MethodError(f"method {quoted(solver.name)} proves nothing, and a front needs proofs; use auto")
    n_points = None if points is None else whole_number(points, "points", 1)
    front: list[Result] = []
    complete, least = False, None
    with many_searches(limits, backend, jobs) as (deadline, _):
        sums = _Sums(nbest, second, name, metric, region)
        first = last = budget = sums.second.largest
        while not (complete or deadline.expired):
            found, whole = _Within(sums, budget).search(solver, limits, seed)
            if whole <= budget:
                front.append(found)
                last = whole
                if told(on_point, found):
                    break
            if found.status is not Status.OPTIMAL:
                break
            if n_points is None:
                complete, budget = whole > budget or last == 0, last - 1
                least = last if complete else None
                continue
            if least is None:
                first, least = last, sums.least_second(solver, limits, seed)
                if least is None:
                    break
            budget = min(last - 1, first - -(-(first - least) * len(front) // n_points))
            complete = len(front) == n_points or budget <= least
    value = None if least is None else float(sums.second.value(least))
    return Front(sums.name, tuple(front), n_points is None, value, complete, deadline.seconds)


class _Whole:
    """Numbers of hypotheses as whole ones: value = of its list + unit * whole, whole [M] at least 0; offsets [S + 1].

    Raises `MetricError` for numbers that have too many digits.
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
        """Return the largest whole sum whose value is at most this, at most the largest; below 0 if there is none."""
        return min(self.largest, math.floor((value - self.constant) / self.unit))


class _Sums:
    """The lists with both sums as whole numbers."""

    def __init__(self, nbest: NBest, second: str | ArrayLike, name: str, metric: Any, region: Region | None) -> None:
        problem = list_problem(nbest, metric, "first", region, "budgets need")
        if problem.losses is None:
            raise MetricError(
                f"a budget needs a loss that is a sum over lists, and metric {quoted(problem.metric.name)} is none"
            )
        self.problem, self.region = problem, region
        self.name, values = column_of(nbest, second, name)
        self.loss = _Whole(problem.losses, nbest.offsets, "the loss")
        self.second = _Whole(values, nbest.offsets, self.name)

    def lists(self, *columns: IntArray | FloatArray) -> NBest:
        """Return the lists with these numbers [M] as statistics."""
        nbest, statistics = self.problem.nbest, np.column_stack(columns).astype(np.float64)
        return NBest(nbest.features, nbest.offsets, statistics, nbest.names, nbest.list_ids, copy=False)

    def least_second(self, method: Method, limits: Limits, seed: int) -> int | None:
        """Return the least second sum of any weights, a whole number; `None` where it was not proved in time."""
        found = solve(method, Problem(self.lists(self.second.whole), region=self.region), limits, seed=seed)
        return int(found.loss) if found.status is Status.OPTIMAL else None


class _Within:
    """The search for the least loss within a budget, a whole number, which stands for a limit of the caller.

    Without one, it is the search for the least second sum with that loss: it counts as less than one unit of the loss.
    """

    def __init__(self, sums: _Sums, budget: int, limit: float | None = None) -> None:
        self._sums, self.budget, self._limit = sums, budget, limit
        loss, second = sums.loss, sums.second
        self._factor = second.largest + 1 if limit is None else 1
        largest = (loss.largest + 1) * self._factor - 1
        if max(largest, second.largest).bit_length() > _MOST_BITS:
            raise MetricError(
                f"loss and {sums.name} have too many digits for proofs about both: in steps of their last digits, the "
                f"sums can differ by at most 2**{_MOST_BITS}, for a front multiplied with each other; round them"
            )
        self._losses = loss.whole * self._factor + (second.whole if limit is None else 0)
        self._unit = math.ldexp(WITHIN, -largest.bit_length())
        # with a budget below 0, which nothing keeps to, the excess over 0 is sought
        beyond = math.ldexp(0.5, -max(1, second.largest).bit_length())
        self._metric = Budget(float(max(0, budget)), self._unit, beyond)

    def search(self, method: Method, limits: Limits, seed: int, callback: Callback | None = None) -> tuple[Result, int]:
        """Return the best weights found and their second sum, a whole number; it may exceed the budget."""
        sums, limit = self._sums, self._limit
        problem = Problem(sums.lists(self._losses, sums.second.whole), self._metric, region=sums.region)
        own = None if callback is None else lambda progress: callback(self._progress(progress))
        least = None
        if self.budget == 0 and method.proves:
            limits = replace(limits, time_limit=within(None).share(2.0))
            least = self._least_of_cheapest(method, limits, seed)
            limits = replace(limits, target=least)
        found = solve(method, problem, limits, own, seed)
        if least is not None and found.lower_bound is not None:
            exact = found.tied_lists == 0 and (sums.region is None or sums.region.cosine is None)
            closed = found.loss <= least and exact
            bound = min(max(found.lower_bound, least), found.loss)
            found = replace(found, lower_bound=bound, status=Status.OPTIMAL if closed else found.status)
        at = sums.problem.evaluate(found.weights)
        whole = int(sums.second.whole[sums.problem.nbest.rows_of(at.selection)].sum())
        second = float(sums.second.value(whole))
        region, asked = dict(found.region), f"second:{sums.name}"
        if limit is not None:
            asked = f"budget:{sums.name}<={limit!r}"
            region[f"{sums.name} <= {number(limit)}"] = limit - second
        asked = f"{sums.problem.metric.signature}|{asked}"
        lower = None if found.lower_bound is None else min(at.loss, self._loss_of(found.lower_bound))
        result = replace(
            found,
            loss=at.loss,
            score=at.score,
            lower_bound=at.loss if found.status is Status.OPTIMAL else lower,
            statistics=at.statistics,
            signature=found.signature.replace(problem.metric.signature, asked),
            fingerprint=sums.problem.fingerprint,
            region=region,
            sums={sums.name: second},
            trace=tuple(
                (seconds, self._bound_of(bound), self._loss_of(loss))
                for seconds, bound, loss in found.trace
                if loss <= WITHIN
            ),
            warnings=sums.problem.data_warnings,
            rates=sums.problem.rates(at.loss),
            unit=sums.problem.unit,
        )
        return result, whole

    def _least_of_cheapest(self, method: Method, limits: Limits, seed: int) -> float | None:
        """Return a bound on the loss of the search, where only hypotheses of the least second number of their list keep
        to the budget: the least of lists of these alone, which weights within the budget choose from alike (R7).

        Prices alone would have to grow without end: such weights lie near an edge of the weight space.
        """
        lists = self._sums.problem.nbest
        rows = np.flatnonzero(self._sums.second.whole == 0)
        losses = self._losses[rows].astype(np.float64)
        offsets = np.searchsorted(rows, lists.offsets)
        cheapest = NBest(lists.features[rows], offsets, losses, lists.names, lists.list_ids)
        bound = solve(method, Problem(cheapest, region=self._sums.region), limits, seed=seed).lower_bound
        return None if bound is None else min(WITHIN, math.ceil(bound) * self._unit)

    def _bound_of(self, bound: float | None) -> float | None:
        return None if bound is None else self._loss_of(bound)

    def _loss_of(self, loss: float) -> float:
        """Return the loss, rounded down, that a loss of the search, or a bound on it, stands for.

        Sums are whole, so that a bound in between is one on the next.
        """
        whole = math.ceil(Fraction(min(loss, WITHIN)) / Fraction(self._unit)) // self._factor
        exact = self._sums.loss.value(min(whole, self._sums.loss.largest))
        nearest = float(exact)
        return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)

    def _progress(self, progress: Progress) -> Progress:
        """Return how a search stands, in losses; infinite while nothing is within the budget."""
        bound = self._bound_of(progress.lower_bound)
        loss = self._loss_of(progress.loss) if progress.loss <= WITHIN else math.inf
        return replace(progress, lower_bound=bound, loss=loss, gap_rel=relative_gap(loss, bound))
