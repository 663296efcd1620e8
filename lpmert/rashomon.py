"""All near-optimal weights, also called the Rashomon set: the range of each weight in it, and its cones, proved.

The ranges come from searches below a cut-off. A search in the part of the region where one weight lies beyond a value
either finds near-optimal weights there, which widens the attained range, or proves that there are none, which narrows
the possible range, until both meet.

The box of all ranges is then divided into cones. A cone belongs to the set if even the most expensive hypotheses that
may win there are cheap enough, and lies outside if the cheapest are too expensive. All other cones are split, breadth
first. Without the box, four features would be out of reach.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import atan, inf, nextafter, tan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.api import Searches, list_problem, many_searches
from lpmert.errors import DataError, FloatArray, IntArray, LimitError, MethodError, RegionError
from lpmert.limits import Deadline, within
from lpmert.metrics.base import Metric
from lpmert.model.canonical import CallerWeights, CanonicalWeights
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.model.region import Region
from lpmert.numeric.cone import cones_of_box, covering_cones
from lpmert.numeric.lists import SortedLists, first_best, list_numbers
from lpmert.numeric.rational import EPSILON, binary_places
from lpmert.quoting import listed, quoted
from lpmert.result import OnStage, Outcome, Result, Status
from lpmert.search.driver import Below
from lpmert.search.incumbent import normalised
from lpmert.search.method import Method
from lpmert.values import real_number

_PRECISION = 1e-2  # maximum distance between attained and possible ends of a range, relative to their size
_SHARE = 0.49  # of an open angle that is searched next: halves of simple angles would meet ties, which decide nothing
_FAR = 1e6  # values of a weight beyond so many times its size at the optimum count as infinite


@dataclass(frozen=True)
class WeightRange:
    """The range of one weight over all near-optimal weights.

    Parameters
    ----------
    name : str
        The feature.
    weight : float
        Its weight at the optimum.
    attained : (float, float)
        The least and the greatest value found in near-optimal weights.
    possible : (float, float)
        The proved range: no near-optimal weights have a value outside.
    """

    json_properties = ("sign",)

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
class RashomonSet(Outcome):
    """The set of all near-optimal weights as cones; part of the result of `near_optimal`.

    Features that presolve drops, because they change no loss or are combinations of others, have weight 0 here.

    Parameters
    ----------
    inner, open : ndarray of shape (n_cones, n_rays, n_features)
        The rays of cones. All weights inside `inner` are near-optimal; no weights outside both are.
    share : (float, float)
        Bounds on the share of near-optimal weights among all weights whose absolute values sum to 1.
    unchanged : tuple
        The ids of lists that are proved to choose the same hypothesis at all near-optimal weights, whatever the weights
        of features that change no loss.
    centre : dict from name to float
        Weights in the middle of the widest inner cone; empty if there is none.
    complete : bool
        Whether at most a tenth of the weights that may be near-optimal is open.
    """

    json_omits = ("inner", "open")

    inner: FloatArray
    open: FloatArray
    share: tuple[float, float]
    unchanged: tuple[Any, ...]
    centre: dict[str, float]
    complete: bool


@dataclass(frozen=True)
class NearOptimal(Outcome):
    """The ranges of weights whose loss is near the optimum, and the set of these weights.

    Parameters
    ----------
    optimum : Result
        The best weights, in the scale of the ranges.
    most : float
        The largest near-optimal loss.
    scale : str
        The scale of the weights, such as "am = 1".
    ranges : tuple of WeightRange
        One for each feature.
    cones : RashomonSet or None
        The set itself, if it was requested.
    complete : bool
        Whether attained and possible ends of all ranges are within a hundredth of their size.
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
    on_stage: OnStage | None = None,
) -> NearOptimal:
    """Find the range of each weight over all weights whose loss is at most the optimum plus some slack.

    Parameters
    ----------
    nbest : NBest
        The lists.
    slack : float or str
        How far the loss may exceed the optimum, as a loss or as a share of the optimum such as "1%".
    relative_to : str, optional
        The feature whose weight is set to 1 or -1, to fix the scale; by default the one with the largest weight whose
        sign is proved. Not allowed if the region fixes a weight or the total.
    cones : bool
        Whether to divide the set of all near-optimal weights into cones as well, for up to five features.
    metric, method, ties, region
        As for `minimize`.
    time_limit : float, optional
        Seconds for everything: at most a third for the optimum, the rest in equal shares for ranges and cones.
    memory_limit, jobs, backend, seed
        As for `minimize`.
    on_stage : callable, optional
        Called with the feature being searched, how many ranges are known, and their number; then with "cones", how many
        were split, and the maximum. A true return value stops.

    Returns
    -------
    NearOptimal
        The attained and the possible range of each weight, and the cones if requested.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        As by `minimize`; `MethodError` also for lattices, if no weight can fix the scale, and for cones of more
        features or in regions with a cosine or equations.
    LimitError
        If a limit ended the search before a weight could fix the scale.

    Notes
    -----
    Source for sets of near-optimal models: Fisher, Rudin and Dominici, All Models are Wrong, but Many are Useful, JMLR
    2019.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> near = lpmert.near_optimal(lists, slack=0.5)
    >>> near.scale, near["b"].sign
    ('a = 1', 1)
    """
    percent, number = _slack(slack)
    settings = method, time_limit, memory_limit, jobs, seed, backend, on_stage
    with many_searches("ranges of weights need", *settings, proofs=True) as searches:
        problem = list_problem(nbest, metric, ties, region, searches.needs)
        if cones:
            _check_cones(problem)
        optimum = searches.solve(problem, time_limit=searches.deadline.share(3.0))
        most = optimum.loss + (abs(optimum.loss) * number / 100.0 if percent else number)
        search = _Ranges(problem, searches, most)
        search.fix(optimum, region or Region(), relative_to)
        ranges: list[WeightRange] = []
        for name in nbest.names:
            searches.tell(name, len(ranges), len(nbest.names))
            ranges.append(search.range(name, len(nbest.names) - len(ranges) + cones))
        box = np.array([one.possible for one in ranges]).T
        divided = None
        if cones:
            divided = near_cones(problem, most, box, lambda *n: searches.over or searches.tell("cones", *n))
    seconds = searches.deadline.seconds
    return NearOptimal(search.optimum, most, search.scale, tuple(ranges), divided, search.complete, seconds)


def _slack(slack: float | str) -> tuple[bool, float]:
    """Return whether a slack is in percent, and its number; raises `DataError` if it is invalid."""
    percent = isinstance(slack, str) and slack.strip().endswith("%")
    try:
        number = float(slack.strip().removesuffix("%")) if isinstance(slack, str) else real_number(slack)
    except ValueError:
        number = None
    if number is None or not 0.0 <= number < inf:
        raise DataError(f"slack must be a loss of 0 or more, or a share of the optimum such as 1%; got {quoted(slack)}")
    return percent, number


@dataclass
class _Ranges:
    """The searches for ranges, each below the cut-off `most`."""

    problem: Problem
    searches: Searches
    most: float
    complete: bool = True
    scale: str = ""

    def fix(self, optimum: Result, region: Region, relative_to: str | None) -> None:
        """Fix the scale, unless the region does; raises `MethodError` or `LimitError` if no weight has a sure sign."""
        self.optimum, self._region = optimum, region
        fixed = next((f"{name} = {value:g}" for name, value in region.fixed.items() if value), None)
        self.scale = fixed or (f"sum = {region.total:g}" if region.total else "")
        if self.scale:
            if relative_to is not None:
                raise MethodError(f"the region fixes the scale, {self.scale}; leave relative_to out")
            return
        if relative_to is not None and relative_to not in optimum.names:
            raise DataError(f"no feature {quoted(relative_to)}; the features are {listed(optimum.names)}")
        undecided = not optimum.status.proved
        order = np.argsort(-np.abs(optimum.weights), kind="stable").tolist()
        for name in [relative_to] if relative_to else [optimum.names[d] for d in order if optimum.weights[d]]:
            weight = optimum.by_name[name]
            if not weight:
                break
            opposite = self._beyond(name, 0.0, upper=weight < 0.0)
            if opposite.result is None and opposite.bound > self.most:
                value = 1.0 if weight > 0.0 else -1.0
                self.scale, self._region = f"{name} = {value:g}", replace(region, fixed={**region.fixed, name: value})
                self.optimum = optimum.times(optimum.factor_to(name, value))
                return
            undecided |= opposite.result is None
        if undecided:
            raise LimitError("the search ended before a weight had a proved sign, to set the scale; allow more time")
        which = f"the sign of {quoted(relative_to)} is not sure" if relative_to else "no weight has a sure sign"
        raise MethodError(
            f"{which} among weights with a loss of at most {self.most:g}, so it cannot be the scale; "
            "take a smaller slack, or a region that fixes a weight or the total"
        )

    def range(self, name: str, n_left: int) -> WeightRange:
        """Return the range of a weight, in an equal share of the time left; n_left: ranges that have to share it."""
        weight = self._weight(self.optimum, name)
        if name in self._region.fixed:
            return WeightRange(name, weight, (weight, weight), (weight, weight))
        with within(self.searches.deadline.share(n_left)).running() as share:
            (low, least), (high, largest) = (self._end(name, weight, upper, share) for upper in (False, True))
        return WeightRange(name, weight, (low, high), (least, largest))

    def _end(self, name: str, weight: float, upper: bool, share: Deadline) -> tuple[float, float]:
        sign = 1.0 if upper else -1.0
        size = abs(weight) or 1.0
        attained, possible = weight, sign * inf
        while abs(possible - attained) > _PRECISION * max(abs(attained), size / 10.0):
            if abs(attained) > _FAR * size:
                return sign * inf, sign * inf
            if share.expired or self.searches.stopped:
                self.complete = False
                break
            value = 0.0  # decide the sign first
            if not min(attained, possible) < 0.0 < max(attained, possible):
                value = size * tan(atan(attained / size) * (1.0 - _SHARE) + atan(possible / size) * _SHARE)
            found = self._beyond(name, value, upper=upper)
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
        """Return a weight in the scale of the ranges; results have another scale if their cell is too thin for it."""
        fixed = next(((one, value) for one, value in self._region.fixed.items() if value), None)
        if fixed is not None:
            return found.by_name[name] * found.factor_to(*fixed)
        return found.by_name[name] * ((self._region.total or 1.0) / float(found.weights.sum()))

    def _beyond(self, name: str, value: float, *, upper: bool) -> Below:
        """Search for near-optimal weights of which one is at least (upper) or at most `value`, beyond its range."""
        low, high = self._region.bounds.get(name, (None, None))
        low, high = (value, high) if upper else (low, value)
        if low is None or high is None or low < high:
            region = replace(self._region, bounds={**self._region.bounds, name: (low, high)})
            with suppress(RegionError):
                problem = Problem(self.problem.nbest, self.problem.metric, ties=self.problem.ties, region=region)
                return self.searches.below(problem, nextafter(self.most, inf), target=self.most)
        return Below(None, inf, Status.OPTIMAL, inf)


_MOST_FEATURES = 5  # maximum number of features for cones: beyond it they are too many to be useful
_MOST_PLACES = 50  # maximum number of binary places of rays: up to it, halving is exact
_BITS = 52  # bits, without the sign, that an exact sum of products may take: one less than a double has
_BLOCK, _SCORES = 1 << 17, 1 << 22  # hypotheses in a batch of cones, and scores that are computed at a time
_OPEN, _MOST_CONES = 0.1, 200_000  # a division ends at this open share of what may be near-optimal, or so many cones
_BOX_PLACES = 16  # binary places of the corners of a box, whose largest entry is 1


def _check_cones(problem: Problem) -> None:
    form = problem.canonical
    if not 0 < form.n_features <= _MOST_FEATURES:
        raise MethodError(
            f"{form.n_features} features matter, and cones are for 1 to {_MOST_FEATURES}; ask for ranges alone, choose "
            "other features, or a wider region"
        )
    if form.cap is not None or form.rounding is not None or problem.coordinates.reduction.columns is None:
        raise MethodError("cones of near-optimal weights take no cosine and no equations; leave them out")


def near_cones(
    problem: Problem,
    most: float,
    box: FloatArray,
    stop: Callable[[int, int], bool] = lambda *_: False,
    share: float = _OPEN,
    most_cones: int = _MOST_CONES,
) -> RashomonSet:
    """Return all weights with a loss of at most `most`, for a problem that passes `_check_cones`.

    box [2, D]: lower and upper bounds on all such weights, up to a positive factor; without equal ones, all weights are
    searched. stop: told how many cones were split, and the maximum. share, most_cones: see `_OPEN` and `_MOST_CONES`.
    """
    form = problem.canonical
    # costs are rounded by half a unit a list, before parallel lists were merged
    rounding = len(problem.nbest.list_ids) if form.rounded else 0
    dearest = problem.dearest if len(form.limits) else form.dearest
    limit = form.cost_of_loss((Fraction(most) + Fraction(nextafter(most, inf))) / 2)  # up to it, losses round to `most`
    limit = min(limit - (form.loss_of(limit) > most), dearest)
    basis = np.array([problem.to_caller(CanonicalWeights(axis)) for axis in np.eye(form.n_features)])
    # each canonical weight is one of the caller's, times a power of two
    columns = np.abs(basis).argmax(axis=1)
    start = _cones_of_ranges(box[:, columns] / basis[np.arange(len(columns)), columns])
    scale = np.abs(basis).sum(axis=1)
    search = _Division(form.by_cost, limit - rounding, min(limit + rounding, dearest), scale, start)
    complete = search.run(share, most_cones, stop)
    inner, undecided = np.concatenate(search.inner), np.concatenate(search.open)
    unchanged = _unchanged(problem, np.concatenate([inner, undecided]), search.places)
    centre: dict[str, float] = {}
    if len(inner):
        middle = search.unit(inner[search.shares(inner).argmax()][None])[0].sum(axis=0) / search.scale
        weights = normalised(CallerWeights(middle @ basis))
        centre = dict(zip(problem.names, weights.tolist(), strict=True))
    return RashomonSet(
        inner @ basis,
        undecided @ basis,
        (min(1.0, search.inside), min(1.0, search.inside + search.left)),
        tuple(one for one, same in zip(problem.nbest.list_ids, unchanged.tolist(), strict=True) if same),
        centre,
        complete,
    )


def _cones_of_ranges(box: FloatArray) -> FloatArray:
    """Return cones [n, d, d], each in one orthant, that cover a box [2, d]; all weights unless it is bounded and fixed.

    The box is rounded outwards: rays have entries of at most 1, with few binary places.
    """
    fixed = np.flatnonzero((box[0] == box[1]) & (box[0] != 0.0))
    if not len(fixed) or not np.isfinite(box).all():
        return np.array(list(covering_cones(box.shape[1])))
    box = box / np.abs(box[0, fixed[0]])  # the fixed side becomes 1 or -1, then a power of two
    box = np.ldexp(box, -int(np.frexp(np.abs(box).max())[1]))
    low, high = (np.floor(np.ldexp(end, _BOX_PLACES)) - 1.0 for end in (box[0], -box[1]))
    sides = [
        [(a, 0.0), (0.0, -b)] if a < 0.0 < -b else [(a, -b)] for a, b in np.ldexp([low, high], -_BOX_PLACES).T.tolist()
    ]
    sides[fixed[0]] = [(box[0, fixed[0]],) * 2]
    boxes = np.array(list(product(*sides))).transpose(0, 2, 1)
    return np.concatenate([cones_of_box(own.sum(axis=0) / 2.0, (own[1] - own[0]) / 2.0) for own in boxes])


class _Cones(NamedTuple):
    """A batch of n cones.

    rays [n, d, d], with so many binary places; settled [n]: the cost of the lists that are settled in each cone.
    cone, row [m]: the hypotheses that may win in a cone, by cones and the open lists in them, in order of cost.
    """

    places: int
    rays: FloatArray
    settled: IntArray
    cone: IntArray
    row: IntArray

    def take(self, mask: NDArray[np.bool_]) -> _Cones:
        kept = mask[self.cone]
        cone = (np.cumsum(mask) - 1)[self.cone[kept]]
        return _Cones(self.places, self.rays[mask], self.settled[mask], cone, self.row[kept])

    def halves(self, pairs: tuple[IntArray, IntArray]) -> _Cones:
        """Return both halves of each cone; it is split at the middle of a pair of its rays [n]."""
        n = np.arange(len(self.rays))
        middle = 0.5 * (self.rays[n, pairs[0]] + self.rays[n, pairs[1]])
        rays = np.concatenate([self.rays, self.rays])
        for half, moved in enumerate(pairs):
            rays[half * len(n) + n, moved] = middle
        cone = np.concatenate([self.cone, self.cone + len(n)])
        return _Cones(self.places + 1, rays, np.tile(self.settled, 2), cone, np.tile(self.row, 2))

    def starts(self, list_of_row: IntArray) -> IntArray:
        """Return where in `row` each open list of each cone starts."""
        lists = list_of_row[self.row]
        return np.flatnonzero(np.diff(self.cone, prepend=-1).astype(bool) | np.diff(lists, prepend=-1).astype(bool))

    def propagated(self, lists: SortedLists, list_of_row: IntArray, error: float) -> _Cones:
        """Drop the rows that the winner at the centre of a cone beats at all its rays (lemma K1 of `proofs/cones.md`),
        and the lists that this settles; error: a bound on the error of differences of scores.
        """
        if not len(self.row):
            return self
        starts = self.starts(list_of_row)
        number = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(self.row)))
        scores = np.einsum("mkd,md->mk", self.rays[self.cone], lists.rows[self.row])
        winners = first_best(scores.sum(axis=1), starts)
        beaten = (scores[winners[number]] - scores).min(axis=1) >= error
        beaten[winners] = False
        decided = np.bincount(number[~beaten]) == 1
        settled = self.settled.copy()
        np.add.at(settled, self.cone[starts[decided]], lists.costs[self.row[winners[decided]]])
        kept = ~(beaten | decided[number])
        return self._replace(settled=settled, cone=self.cone[kept], row=self.row[kept])

    def costs(self, lists: SortedLists, list_of_row: IntArray) -> tuple[IntArray, IntArray]:
        """Return bounds on the cost of all choices in each cone, from below [n] and above [n]."""
        least, most, starts = self.settled.copy(), self.settled.copy(), self.starts(list_of_row)
        np.add.at(least, self.cone[starts], lists.costs[self.row[starts]])
        np.add.at(most, self.cone[starts], lists.costs[self.row[np.append(starts, len(self.row))[1:] - 1]])
        return least, most


class _Precision:
    """Bounds on the error of differences of scores of rows [m, d] at rays with entries of at most 1.

    If rows and rays have so few binary places that their products and sums have at most 53 bits, nothing is rounded:
    then hypotheses that tie at a ray can be told apart by the other rays. Halving adds a place.
    """

    def __init__(self, rows: FloatArray) -> None:
        reach, places = float(np.abs(rows).sum(axis=1).max(initial=0.0)), binary_places(rows)
        self._most = -1 if places is None else _BITS - places - int(np.frexp(reach)[1])
        self.rounding = 8.0 * EPSILON * (_MOST_FEATURES + 1) * reach

    def off(self, places: int) -> float:
        """Return the bound for rays with so many binary places."""
        return 0.0 if places <= self._most else self.rounding


class _Division:
    """The division of the cones `start` [n, d, d] into inner, outer and open cones.

    A cost of at most `sure` is near-optimal, and one above `possible` is not. scale [d]: factors that bring canonical
    weights to the caller's scale.
    """

    def __init__(self, lists: SortedLists, sure: int, possible: int, scale: FloatArray, start: FloatArray) -> None:
        self._lists, self._sure, self._possible, self.scale, self._start = lists, sure, possible, scale, start
        self._list_of_row = list_numbers(lists.offsets)
        self._precision, places = _Precision(lists.rows), binary_places(start)
        self.places = _MOST_PLACES if places is None else places
        self.inner, self.inside = [start[:0]], 0.0
        self._waiting: deque[tuple[float, _Cones]] = deque()

    @property
    def left(self) -> float:
        return sum(share for share, _ in self._waiting)

    @property
    def open(self) -> list[FloatArray]:
        return [self._start[:0], *(cones.rays for _, cones in self._waiting)]

    def unit(self, rays: FloatArray) -> FloatArray:
        """Return the rays [n, d, d] of cones in the caller's scale, with absolute values of sum 1."""
        scaled = rays * self.scale
        return np.asarray(scaled / np.abs(scaled).sum(axis=2, keepdims=True))

    def shares(self, rays: FloatArray) -> FloatArray:
        """Return the shares [n] of cones, each in one orthant, in all weights with L1 norm 1, by determinants."""
        return np.asarray(np.ldexp(np.abs(np.linalg.det(self.unit(rays))), -rays.shape[1]))

    def longest(self, rays: FloatArray) -> tuple[IntArray, IntArray]:
        unit = self.unit(rays)
        first, second = np.triu_indices(rays.shape[1], 1)
        widest = np.abs(unit[:, first] - unit[:, second]).sum(axis=2).argmax(axis=1)
        return first[widest], second[widest]

    def run(self, share: float, most_cones: int, stop: Callable[[int, int], bool]) -> bool:
        """Split cones until at most a share of what may be near-optimal is open; return whether that was reached."""
        nothing, rows = np.zeros(len(self._lists.rows), dtype=np.int64), np.arange(len(self._lists.rows))
        for rays in self._start:
            self._decide(_Cones(self.places, rays[None], nothing[:1], nothing, rows))
        count = 0
        while self._waiting and self.left > share * (self.inside + self.left):
            _, cones = self._waiting[0]
            if count >= most_cones or cones.places >= _MOST_PLACES or stop(count, most_cones):
                return False
            self._waiting.popleft()
            count += len(cones.rays)
            self._decide(cones.halves(self.longest(cones.rays)))
        return True

    def _decide(self, cones: _Cones) -> None:
        cones = cones.propagated(self._lists, self._list_of_row, self._precision.off(cones.places))
        self.places = cones.places
        least, most = cones.costs(self._lists, self._list_of_row)
        inner = cones.rays[most <= self._sure]
        self.inner.append(inner)
        self.inside += float(self.shares(inner).sum())
        cones = cones.take((least <= self._possible) & (most > self._sure))
        n_batches = 1 + len(cones.row) // _BLOCK
        batch_of_cone = np.arange(len(cones.rays)) * n_batches // max(1, len(cones.rays))
        for number in np.unique(batch_of_cone).tolist():
            batch = cones.take(batch_of_cone == number)
            self._waiting.append((float(self.shares(batch.rays).sum()), batch))


def _unchanged(problem: Problem, cones: FloatArray, places: int) -> Any:
    """Return a mask [S] of the lists in which one hypothesis wins at all rays of all cones [n, d, d], if there are any.

    Hypotheses that lose everywhere in a box around the rays are not compared at each ray.
    """
    lists = problem.scaled(problem.as_given())
    if not len(cones):
        return np.ones(len(lists.offsets) - 1, dtype=bool)
    sizes, precision = np.diff(lists.offsets), _Precision(lists.features)
    winners = first_best(lists.features @ cones[0].sum(axis=0), lists.offsets[:-1])
    leads = lists.features[np.repeat(winners, sizes)] - lists.features
    rays = np.unique(cones.reshape(-1, cones.shape[2]), axis=0)
    around = rays / np.abs(rays).max(axis=1, keepdims=True)
    least = np.minimum(leads * around.min(axis=0), leads * around.max(axis=0)).sum(axis=1)
    open_rows = least <= precision.rounding
    open_rows[winners] = False
    rows, step = np.flatnonzero(open_rows), max(1, _SCORES // len(rays))
    changed = np.zeros(len(leads), dtype=bool)
    for first in range(0, len(rows), step):
        block = rows[first : first + step]
        changed[block] = (leads[block] @ rays.T < precision.off(places)).any(axis=1)
    # features that change no loss may have any weight, which may change the choice
    free = problem.as_given().features[:, [problem.names.index(name) for name in problem.free]]
    changed |= (free != free[np.repeat(lists.offsets[:-1], sizes)]).any(axis=1)
    return ~np.logical_or.reduceat(changed, lists.offsets[:-1])
