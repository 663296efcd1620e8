"""All near-optimal weights as a set of cones, proved from inside and from outside, for few features.

A cone in which even the dearest hypotheses that may win are cheap enough belongs to the set; one in which the cheapest
are too dear lies outside. Others are split, those that were split least often first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import floor, pi
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.api import list_problem, many_searches, settings_of
from lpmert.errors import DataError, FloatArray, IntArray, MethodError
from lpmert.findings import Outcome
from lpmert.model.canonical import CallerWeights, CanonicalWeights
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.model.region import Region
from lpmert.numeric.cone import covering_cones
from lpmert.numeric.lists import SortedLists
from lpmert.numeric.rational import EPSILON
from lpmert.numeric.rounding import binary_places
from lpmert.quoting import quoted
from lpmert.ranges import checked_slack, near_optimum
from lpmert.result import Result
from lpmert.search.incumbent import normalised
from lpmert.system.deadline import Deadline, told
from lpmert.values import whole_number

if TYPE_CHECKING:
    from lpmert.metrics.base import Metric
    from lpmert.search.method import Method

MOST_FEATURES = 3
"""Features beyond which cones are too many to tell anything."""

_MOST_SPLITS = 50
"""Of a cone, one in another: the coordinates of rays are exact as long."""

_BITS = 52
"""Of a sum of products, beside its sign: one less than a double has."""

_BLOCK = 1 << 17
"""Hypotheses of cones that are divided together."""

_SCORES = 1 << 22
"""Scores that are compared at once."""

OnCones = Callable[[float, float], object]
"""Gets the share of all directions that is in the set, and the one that is open."""


@dataclass(frozen=True)
class RashomonSet(Outcome):
    """All weights whose loss is near the optimum, as cones of weights.

    Parameters
    ----------
    optimum : Result
        The best weights.
    most : float
        The largest loss that counts as near.
    inner, open : ndarray of shape (n_cones, n_rays, n_features)
        Cones by their rays: all weights inside `inner` are near-optimal; none outside of both are.
    share : (float, float)
        The least and the largest share of all directions that are near-optimal.
    unchanged : tuple
        The ids of lists that surely choose one and the same hypothesis at all near-optimal weights, whatever the
        weights of features that change no loss.
    centre : dict from name to float
        Weights in the middle of the widest inner cone, empty where there is none.
    complete : bool
        Whether the open share is as small as requested.
    seconds : float
        Time taken.
    """

    untold = ("inner", "open")

    optimum: Result
    most: float
    inner: FloatArray
    open: FloatArray
    share: tuple[float, float]
    unchanged: tuple[Any, ...]
    centre: dict[str, float]
    complete: bool
    seconds: float


def rashomon_set(
    nbest: NBest,
    *,
    slack: float | str = "1%",
    precision: float = 0.1,
    most_cones: int = 200_000,
    metric: str | Metric | None = None,
    method: str | Method = "auto",
    ties: str = "first",
    region: Region | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    jobs: int = 1,
    backend: str = "threads",
    seed: int = 0,
    on_cones: OnCones | None = None,
) -> RashomonSet:
    """Find all weights whose loss is at most the optimum plus some slack, as cones, for up to three features.

    Parameters
    ----------
    nbest : NBest
        The lists.
    slack : float or str
        How far the loss may exceed the optimum, in its unit or as a share of the optimum: "1%".
    precision : float
        How much of what may be near-optimal stays open, as a share of the directions.
    most_cones : int
        Cones split after which the rest stays open.
    metric, method, ties, region
        As for `minimize`; the region may hold limits, and fix weights at 0.
    time_limit : float, optional
        Seconds for everything, a third at most for the optimum.
    memory_limit, jobs, backend, seed
        As for `minimize`.
    on_cones : callable, optional
        Gets now and then the share of all directions that is in the set, and the one that is open; a true answer stops.

    Returns
    -------
    RashomonSet
        The cones, their share of all directions, what no near-optimal weights change, and weights in the middle.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        As by `minimize`; `MethodError` too for lattices, for more features, and for regions of other kinds.

    Notes
    -----
    Fisher, Rudin and Dominici, All Models are Wrong, but Many are Useful, JMLR 2019. Features that presolve drops, as
    they change no loss or are combinations of others, have the weight 0 here.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> near = lpmert.rashomon_set(lists, slack=0.5)
    >>> [round(share, 2) for share in near.share]
    [0.05, 0.05]
    """
    solver, limits, seed = settings_of(method, time_limit, memory_limit, jobs, seed, backend)
    more, most_cones = checked_slack(slack), whole_number(most_cones, "most_cones", 1)
    if not 0.0 < precision < 1.0:
        raise DataError(f"precision must be between 0 and 1; got {quoted(precision)}")
    with many_searches(limits, backend, jobs) as (deadline, _):
        problem = list_problem(nbest, metric, ties, region, "cones of near-optimal weights need")
        form = problem.canonical
        if not 0 < form.n_features <= MOST_FEATURES:
            raise MethodError(
                f"{form.n_features} features matter, and cones are for 1 to {MOST_FEATURES}; lpmert.near_optimal gives "
                "the range of each weight"
            )
        reduction = problem.coordinates.reduction
        if form.cap is not None or form.rounding is not None or (reduction is not None and reduction.columns is None):
            raise MethodError("cones of near-optimal weights take no cosine and no equations; leave them out")
        optimum, most = near_optimum(problem, more, solver, limits, deadline, seed, None)
        off = nbest.n_lists if form.rounded else 0  # half a unit a list, before parallel ones were merged
        within = problem.dearest if len(form.limits) else form.dearest
        limit = min(floor(Fraction(most) / Fraction(form.unit) - form.constant), within)
        basis = np.array([problem.to_caller(CanonicalWeights(axis)) for axis in np.eye(form.n_features)])
        angles = _Angles(np.linalg.qr(basis.T)[1].T)
        search = _Search(form.by_cost, limit - off, min(limit + off, within), angles)
        complete = search.run(precision, most_cones, deadline, on_cones)
        inner, left = np.concatenate(search.inner), np.concatenate(search.open)
        unchanged = _unchanged(problem, np.concatenate([inner, left]), search.splits)
        centre: dict[str, float] = {}
        if len(inner):
            middle = angles.unit(inner[angles.shares(inner).argmax()][None])[0].sum(axis=0)
            weights = normalised(CallerWeights(np.linalg.solve(angles.axes.T, middle) @ basis))
            centre = dict(zip(nbest.names, weights.tolist(), strict=True))
    return RashomonSet(
        optimum,
        most,
        inner @ basis,
        left @ basis,
        (min(1.0, search.inside), min(1.0, search.inside + search.left)),
        tuple(one for one, same in zip(nbest.list_ids, unchanged.tolist(), strict=True) if same),
        centre,
        complete,
        deadline.seconds,
    )


class _Angles:
    """Shares of all directions: what cones take of the unit sphere in the caller's coordinates.

    axes [d, d]: the axes of the canonical form in an orthonormal basis of the caller's weights.
    """

    def __init__(self, axes: FloatArray) -> None:
        self.axes = axes

    def unit(self, rays: FloatArray) -> FloatArray:
        """Return the directions [n, d, d] of the rays of cones."""
        there = rays @ self.axes
        return np.asarray(there / np.linalg.norm(there, axis=2, keepdims=True))

    def shares(self, rays: FloatArray) -> FloatArray:
        """Return the shares [n] of cones [n, d, d] of all directions, for up to three features.

        For three: Van Oosterom and Strackee, IEEE Transactions on Biomedical Engineering 1983.
        """
        unit, d = self.unit(rays), len(self.axes)
        if d == 1:
            return np.full(len(rays), 0.5)
        volumes = np.abs(np.linalg.det(unit))
        cosines = np.triu(unit @ unit.transpose(0, 2, 1), 1).sum(axis=(1, 2))
        return np.asarray(np.arctan2(volumes, cosines if d == 2 else 1.0 + cosines) / (2.0 * pi))

    def longest(self, rays: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the two rays [n] of each cone with the widest angle in between."""
        unit = self.unit(rays)
        first, second = np.triu_indices(len(self.axes), 1)
        widest = (unit @ unit.transpose(0, 2, 1))[:, first, second].argmin(axis=1)
        return first[widest], second[widest]


class _Cones(NamedTuple):
    """Some cones, split equally often: rays [n, d, d], what settled lists cost [n], how many lists are open in each
    [n], how many hypotheses may win in each of these [g], and which rows they are [m], in order of cost.
    """

    splits: int
    rays: FloatArray
    settled: IntArray
    n_open: IntArray
    sizes: IntArray
    rows: IntArray

    @property
    def cone_of_list(self) -> IntArray:
        return np.repeat(np.arange(len(self.rays)), self.n_open)

    def take(self, wanted: NDArray[np.bool_]) -> _Cones:
        """Return some of the cones [n]."""
        lists = wanted[self.cone_of_list]
        rows = self.rows[np.repeat(lists, self.sizes)]
        own = self.rays[wanted], self.settled[wanted], self.n_open[wanted]
        return _Cones(self.splits, *own, self.sizes[lists], rows)

    def halves(self, pairs: tuple[IntArray, IntArray]) -> _Cones:
        """Return both halves of each cone, divided between two of its rays [n]."""
        cone = np.arange(len(self.rays))
        middle = 0.5 * (self.rays[cone, pairs[0]] + self.rays[cone, pairs[1]])
        rays = np.concatenate([self.rays, self.rays])
        for half, moved in enumerate(pairs):
            rays[half * len(cone) + cone, moved] = middle
        return _Cones(self.splits + 1, rays, *(np.concatenate([part, part]) for part in self[2:]))

    def propagated(self, lists: SortedLists, off: float) -> _Cones:
        """Return them without the rows that the winner at the centre of a cone beats at all its rays (lemma K1 of
        `proofs/cones.md`), and without the lists that this settles; off: what differences of scores are off.
        """
        if not len(self.rows):
            return self
        cones, number = self.cone_of_list, np.repeat(np.arange(len(self.sizes)), self.sizes)
        scores = np.einsum("mkd,md->mk", self.rays[cones[number]], lists.rows[self.rows])
        winners = _winners(scores.sum(axis=1), self.sizes)
        leads = (scores[winners[number]] - scores).min(axis=1)
        beaten = leads >= off
        beaten[winners] = False
        left = np.bincount(number[~beaten], minlength=len(self.sizes))
        decided = left == 1
        settled = self.settled.copy()
        np.add.at(settled, cones[decided], lists.costs[self.rows[winners[decided]]])
        n_open = np.bincount(cones[~decided], minlength=len(self.rays))
        return _Cones(self.splits, self.rays, settled, n_open, left[~decided], self.rows[~(beaten | decided[number])])

    def costs(self, lists: SortedLists) -> tuple[IntArray, IntArray]:
        """Return what the cheapest and the dearest choices of each cone cost [n]."""
        least, most, ends = self.settled.copy(), self.settled.copy(), np.cumsum(self.sizes)
        np.add.at(least, self.cone_of_list, lists.costs[self.rows[ends - self.sizes]])
        np.add.at(most, self.cone_of_list, lists.costs[self.rows[ends - 1]])
        return least, most


def _winners(scores: FloatArray, sizes: IntArray) -> IntArray:
    """Return the first place of the largest score [m] in each list, of these sizes [g]."""
    number = np.repeat(np.arange(len(sizes)), sizes)
    best = np.flatnonzero(scores == np.maximum.reduceat(scores, np.cumsum(sizes) - sizes)[number])
    return best[np.unique(number[best], return_index=True)[1]]


class _Precision:
    """How far differences of scores of rows [m, d] may be off at rays that come from axes by halving.

    After so many halvings rays are multiples of a power of two. Where rows are too, and products and sums of both have
    53 bits at most, nothing is rounded: hypotheses that tie at a ray are then told apart by the others.
    """

    def __init__(self, rows: FloatArray) -> None:
        reach, places = float(np.abs(rows).sum(axis=1).max(initial=0.0)), binary_places(rows)
        self._splits = -1 if places is None else _BITS - places - int(np.frexp(reach)[1])
        self.rounding = 8.0 * EPSILON * (MOST_FEATURES + 1) * reach
        """Where numbers are rounded, at weights up to 1."""

    def off(self, splits: int) -> float:
        """Return the bound after so many halvings; entries of rays are at most 1."""
        return 0.0 if splits <= self._splits else self.rounding


class _Search:
    """The division into cones; costs of at most `sure` are near-optimal, and of more than `possible` they are not."""

    def __init__(self, lists: SortedLists, sure: int, possible: int, angles: _Angles) -> None:
        self._lists, self._sure, self._possible, self._angles = lists, sure, possible, angles
        self._precision, self.splits = _Precision(lists.rows), 0
        d = lists.rows.shape[1]
        self.inner, self.inside = [np.empty((0, d, d))], 0.0
        self._waiting: deque[tuple[float, _Cones]] = deque()

    @property
    def left(self) -> float:
        """The share of the cones that are undecided."""
        return sum(share for share, _ in self._waiting)

    @property
    def open(self) -> list[FloatArray]:
        """The cones that are undecided."""
        return [np.empty((0, *self.inner[0].shape[1:])), *(cones.rays for _, cones in self._waiting)]

    def run(self, precision: float, most_cones: int, deadline: Deadline, on_cones: OnCones | None) -> bool:
        """Divide until so little is open, by share; return whether that came about."""
        rows, sizes = np.arange(len(self._lists.rows)), np.diff(self._lists.offsets)
        for rays in covering_cones(self._lists.rows.shape[1]):
            self._decide(_Cones(0, rays[None], np.zeros(1, np.int64), np.array([len(sizes)]), sizes, rows))
        count = 0
        while self._waiting and self.left > precision * (self.inside + self.left):
            _, cones = self._waiting[0]
            if deadline.expired or count >= most_cones or cones.splits >= _MOST_SPLITS:
                return False
            if told(on_cones, self.inside, self.left):
                return False
            self._waiting.popleft()
            count += len(cones.rays)
            self._decide(cones.halves(self._angles.longest(cones.rays)))
        return True

    def _decide(self, cones: _Cones) -> None:
        """Drop what cannot win in cones, and the cones that are outside; take in those inside, let others wait."""
        cones = cones.propagated(self._lists, self._precision.off(cones.splits))
        self.splits = cones.splits
        least, most = cones.costs(self._lists)
        inner = cones.rays[most <= self._sure]
        self.inner.append(inner)
        self.inside += float(self._angles.shares(inner).sum())
        cones = cones.take((least <= self._possible) & (most > self._sure))
        parts = 1 + len(cones.rows) // _BLOCK
        part = np.arange(len(cones.rays)) * parts // max(1, len(cones.rays))
        for one in range(parts if len(cones.rays) else 0):
            some = cones if parts == 1 else cones.take(part == one)
            if len(some.rays):
                self._waiting.append((float(self._angles.shares(some.rays).sum()), some))


def _unchanged(problem: Problem, cones: FloatArray, splits: int) -> Any:
    """Return which lists [S] have one hypothesis that wins at all rays of all cones [n, d, d], if there are any.

    What loses everywhere in a box around the rays is not compared at each of them.
    """
    lists = problem.scaled(problem.as_given())
    if not len(cones):
        return np.ones(len(lists.offsets) - 1, dtype=bool)
    sizes, precision = np.diff(lists.offsets), _Precision(lists.features)
    winners = _winners(lists.features @ cones[0].sum(axis=0), sizes)
    leads = lists.features[np.repeat(winners, sizes)] - lists.features
    rays = np.unique(cones.reshape(-1, cones.shape[2]), axis=0)
    around = rays / np.abs(rays).max(axis=1, keepdims=True)
    least = np.minimum(leads * around.min(axis=0), leads * around.max(axis=0)).sum(axis=1)
    open_rows = least <= precision.rounding
    open_rows[winners] = False
    rows, step = np.flatnonzero(open_rows), max(1, _SCORES // len(rays))
    changed = np.zeros(len(leads), dtype=bool)
    for first in range(0, len(rows), step):
        some = rows[first : first + step]
        changed[some] = (leads[some] @ rays.T < precision.off(splits)).any(axis=1)
    others = [problem.names.index(name) for name in problem.free]
    given = problem.as_given().features[:, others]
    changed |= (given != given[np.repeat(lists.offsets[:-1], sizes)]).any(axis=1)
    return ~np.logical_or.reduceat(changed, lists.offsets[:-1])
