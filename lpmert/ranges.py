"""How sure each weight is: the range that it has among all weights whose loss is near the optimum, proved.

Also called the Rashomon set of a model. Whether weights with a value of some feature beyond a limit can be near-optimal
is one search below a cut-off in the part of the region beyond it: it finds such weights, which widens the range that is
attained, or proves that there are none, which narrows the range that is possible. Both ends close in on each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import atan, inf, nextafter, tan
from typing import TYPE_CHECKING

import numpy as np

from lpmert.api import list_problem, many_searches, settings_of
from lpmert.errors import DataError, MethodError, RegionError
from lpmert.findings import Outcome
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.model.region import Region
from lpmert.quoting import listed, quoted
from lpmert.rashomon import RashomonSet, check_cones, near_cones
from lpmert.result import Limits, Result
from lpmert.search.driver import Below, search_below, solve
from lpmert.system.deadline import Deadline, told
from lpmert.values import real_number

if TYPE_CHECKING:
    from lpmert.metrics.base import Metric
    from lpmert.search.method import Method

PRECISION = 1e-2
"""How close the ends of a range come by default, relative to their size."""

_FAR = 1e6
"""Values beyond so many times that of the reference count as infinite."""

OnRange = Callable[[str, int, int], object]
"""Gets the feature whose range is sought, how many ranges are known, of how many."""


@dataclass(frozen=True)
class WeightRange:
    """The values of one weight among all near-optimal ones.

    Parameters
    ----------
    name : str
        Of the feature.
    weight : float
        Its weight at the optimum.
    attained : (float, float)
        The least and the largest value found in near-optimal weights.
    possible : (float, float)
        Proved: no near-optimal weights have a value outside.
    """

    told = ("sign",)

    name: str
    weight: float
    attained: tuple[float, float]
    possible: tuple[float, float]

    @property
    def sign(self) -> int | None:
        """1 or -1 where all near-optimal weights have that sign; `None` where signs differ or are unknown."""
        low, high = self.possible
        return 1 if low > 0.0 else -1 if high < 0.0 else None


@dataclass(frozen=True)
class NearOptimal(Outcome):
    """All weights whose loss is near the optimum, feature by feature.

    Parameters
    ----------
    optimum : Result
        The best weights, in the scale of the ranges.
    most : float
        The largest loss that counts as near.
    scale : str
        What the weights are relative to: "am = 1".
    ranges : tuple of WeightRange
        One for each feature.
    cones : RashomonSet or None
        The set itself, if it was requested.
    complete : bool
        Whether all ranges are as precise as requested.
    seconds : float
        Time taken.
    """

    optimum: Result
    most: float
    scale: str
    ranges: tuple[WeightRange, ...]
    cones: RashomonSet | None
    complete: bool
    seconds: float

    def __getitem__(self, name: str) -> WeightRange:
        """Return the range of a feature; raises `KeyError` for an unknown one."""
        return {one.name: one for one in self.ranges}[name]


def near_optimal(
    nbest: NBest,
    *,
    slack: float | str = "1%",
    relative_to: str | None = None,
    precision: float = PRECISION,
    cones: bool = False,
    metric: str | Metric | None = None,
    method: str | Method = "auto",
    ties: str = "first",
    region: Region | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    jobs: int = 1,
    backend: str = "threads",
    seed: int = 0,
    on_range: OnRange | None = None,
) -> NearOptimal:
    """Find the range of each weight among all weights whose loss is at most the optimum plus some slack.

    Parameters
    ----------
    nbest : NBest
        The lists.
    slack : float or str
        How far the loss may exceed the optimum, in its unit or as a share of the optimum: "1%".
    relative_to : str, optional
        The feature whose weight is 1 or -1, which sets the scale; by default the one with the largest weight whose sign
        is sure. A region that fixes a weight or the total needs none.
    precision : float
        How close attained and possible values must come, relative to their size.
    cones : bool
        Whether to divide the set of all near-optimal weights into cones as well, for up to five features.
    metric, method, ties, region
        As for `minimize`.
    time_limit : float, optional
        Seconds for everything: a third at most for the optimum, the rest in equal shares for ranges and cones.
    memory_limit, jobs, backend, seed
        As for `minimize`.
    on_range : callable, optional
        Gets the feature being searched, how many ranges are known, and how many there are; then "cones", how many were
        divided, and how many are at most. A true answer stops.

    Returns
    -------
    NearOptimal
        For each weight the attained and the possible range; and the cones.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        As by `minimize`; `MethodError` too for lattices, where no weight can be the scale, and for cones of more
        features or within regions with a cosine or equations.

    Notes
    -----
    Fisher, Rudin and Dominici, All Models are Wrong, but Many are Useful, JMLR 2019, on sets of near-optimal models.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> near = lpmert.near_optimal(lists, slack=0.5)
    >>> near.scale, near["b"].sign
    ('a = 1', 1)
    """
    solver, limits, seed = settings_of(method, time_limit, memory_limit, jobs, seed, backend)
    if not solver.proves:
        raise MethodError(f"method {quoted(solver.name)} proves nothing, and ranges need proofs; use auto")
    more = _slack(slack)
    if not 0.0 < precision < 1.0:
        raise DataError(f"precision must be between 0 and 1; got {quoted(precision)}")
    with many_searches(limits, backend, jobs) as (deadline, _):
        problem = list_problem(nbest, metric, ties, region, "ranges of weights need")
        if cones:
            check_cones(problem)
        optimum = solve(solver, problem, replace(limits, time_limit=deadline.share(3.0)), seed=seed)
        most = optimum.loss + more(optimum.loss)
        search = _Search(nbest, problem, solver, limits, seed, deadline, most, precision)
        search.fix(optimum, region or Region(), relative_to)
        ranges: list[WeightRange] = []
        for name in nbest.names:
            search.stopped |= told(on_range, name, len(ranges), len(nbest.names))
            ranges.append(search.range(name, len(nbest.names) - len(ranges) + cones))
        divided = None
        if cones:
            box = np.array([one.possible for one in ranges]).T
            divided = near_cones(problem, most, box, deadline, on_range)
    known = tuple(ranges), divided, search.complete
    return NearOptimal(search.optimum, most, search.scale, *known, deadline.seconds)


def _slack(slack: float | str) -> Callable[[float], float]:
    """Return what weights may lose more than an optimum, by its loss; raises `DataError` for what is no amount."""
    percent = isinstance(slack, str) and slack.strip().endswith("%")
    try:
        number = float(slack.strip().removesuffix("%")) if isinstance(slack, str) else real_number(slack)
    except ValueError:
        number = None
    if number is None or not 0.0 <= number < inf:
        raise DataError(f"slack must be a loss of 0 or more, or a share of the optimum such as 1%; got {quoted(slack)}")
    return (lambda loss: abs(loss) * number / 100.0) if percent else (lambda _: number)


@dataclass
class _Search:
    """The questions that ranges are made of, each one search below the cut-off."""

    nbest: NBest
    problem: Problem
    method: Method
    limits: Limits
    seed: int
    deadline: Deadline
    most: float
    precision: float
    complete: bool = True
    stopped: bool = False
    scale: str = ""

    def fix(self, optimum: Result, region: Region, relative_to: str | None) -> None:
        """Fix the scale of the weights, unless the region does; raises `MethodError` if no weight has a sure sign."""
        self.optimum, self._region = optimum, region
        fixed = next((f"{name} = {value:g}" for name, value in region.fixed.items() if value), None)
        self.scale = fixed or (f"sum = {region.total:g}" if region.total else "")
        if self.scale:
            if relative_to is not None:
                raise MethodError(f"the region fixes the scale, {self.scale}; leave relative_to out")
            return
        if relative_to is not None and relative_to not in optimum.names:
            raise DataError(f"no feature {quoted(relative_to)}; the features are {listed(optimum.names)}")
        order = np.argsort(-np.abs(optimum.weights), kind="stable").tolist()
        for name in [relative_to] if relative_to else [optimum.names[d] for d in order]:
            weight = optimum.by_name[name]
            other = self._beyond(name, 0.0, upper=weight < 0.0, seconds=self.deadline.left) if weight else None
            if other is not None and other.result is None and other.bound > self.most:
                value = 1.0 if weight > 0.0 else -1.0
                self.scale, self._region = f"{name} = {value:g}", replace(region, fixed={**region.fixed, name: value})
                self.optimum = optimum.times(optimum.factor_to(name, value))
                return
        which = f"the sign of {quoted(relative_to)} is not sure" if relative_to else "no weight has a sure sign"
        raise MethodError(
            f"{which} among weights with a loss of at most {self.most:g}, so it cannot be the scale; "
            "take a smaller slack, or a region that fixes a weight or the total"
        )

    def range(self, name: str, n_left: int) -> WeightRange:
        """Return the range of a weight in the share of the time that so many ranges leave."""
        weight = self._weight(self.optimum, name)
        if name in self._region.fixed:
            return WeightRange(name, weight, (weight, weight), (weight, weight))
        share = Deadline(self.deadline.share(n_left), None, lambda: self.deadline.expired)
        (low, least), (high, largest) = (self._end(name, weight, upper, share) for upper in (False, True))
        return WeightRange(name, weight, (low, high), (least, largest))

    def _end(self, name: str, weight: float, upper: bool, share: Deadline) -> tuple[float, float]:
        """Return one end of a range, attained and possible; the values in between are halved as angles."""
        sign = 1.0 if upper else -1.0
        size = abs(weight) or 1.0
        attained, possible = weight, sign * inf
        while abs(possible - attained) > self.precision * max(abs(attained), size / 10.0):
            if abs(attained) > _FAR * size:
                return sign * inf, sign * inf
            if share.expired or self.stopped:
                self.complete = False
                break
            value = 0.0  # the sign first
            if not min(attained, possible) < 0.0 < max(attained, possible):
                value = size * tan((atan(attained / size) + atan(possible / size)) / 2.0)
            found = self._beyond(name, value, upper=upper, seconds=share.left)
            if found.result is not None:
                reached = self._weight(found.result, name)
                attained = max(attained, reached, key=lambda one: sign * one)
            elif found.bound > self.most:
                possible = value
            else:
                self.complete = False
                break
        return attained, possible

    def _weight(self, found: Result, name: str) -> float:
        """Return a weight in the scale of the ranges, which a result is not in where its cell is too thin for that."""
        fixed = next(((one, value) for one, value in self._region.fixed.items() if value), None)
        if fixed is not None:
            return found.by_name[name] * found.factor_to(*fixed)
        return found.by_name[name] * ((self._region.total or 1.0) / float(found.weights.sum()))

    def _beyond(self, name: str, value: float, *, upper: bool, seconds: float | None) -> Below:
        """Search the weights of which one is at least, or at most, a value for a loss that is near the optimum.

        Such a value lies beyond what is attained, so that it takes the place of the region's own limit on that side.
        """
        low, high = self._region.bounds.get(name, (None, None))
        low, high = (value, high) if upper else (low, value)
        nothing = Below(None, inf, True, inf)
        if low is not None and high is not None and low >= high:
            return nothing
        region = replace(self._region, bounds={**self._region.bounds, name: (low, high)})
        limits = replace(self.limits, time_limit=seconds, target=self.most)
        try:
            problem = Problem(self.nbest, self.problem.metric, ties=self.problem.ties, region=region)
            return search_below(problem, nextafter(self.most, inf), self.method, limits, self.seed)
        except RegionError:
            return nothing
