"""Weights that people can read and remember: few features, or whole weights that choose as well as given ones.

Best subset selection finds the least loss of weights with at most k features, for k = 1, 2, ..., and proves it. A set
of features is a region: the weights of all other features are fixed to 0. Every set of a size is searched for a loss
below the best so far, beginning with sets that contain good smaller ones. The cut-off makes sets cheap: most are ruled
out before their own optimum is known. The bound of a size is the least bound of its sets.

The weights that keep the choice of every list ahead of all hypotheses with another loss form a cone. A branch and bound
on boxes searches it for integer points, for one largest absolute value after the other, with constraint propagation
over a growing subset of the cone's half-spaces (limits). Candidates are decoded in exact arithmetic. Boxes are ruled
out by limits with integer coefficients that are relaxed by more than their rounding, so no smaller integer point of the
cone is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations
from math import comb, fsum, inf, nextafter
from pathlib import Path

import numpy as np

from lpmert.api import Searches, list_problem, many_searches
from lpmert.core import decode
from lpmert.errors import FloatArray, IntArray, MethodError, RegionError
from lpmert.formats.weights import given_weights
from lpmert.limits import Deadline, checkpoint, within
from lpmert.metrics.base import Metric
from lpmert.model.nbest import NBest
from lpmert.model.problem import TIMES, Problem
from lpmert.model.region import Region
from lpmert.numeric.lists import blocks_of_lists, varying_columns
from lpmert.numeric.rational import whole_row
from lpmert.result import OnStage, Outcome, Result, Status
from lpmert.search.method import Method
from lpmert.values import Weights, whole_number

_Set = tuple[str, ...]

MOST_SETS = 50_000  # maximum number of sets of features: at a tenth of a second each, more take over an hour


@dataclass(frozen=True)
class Subset:
    """The best weights with at most `size` features.

    Parameters
    ----------
    size : int
        Maximum number of nonzero weights.
    features : tuple of str
        The features with a nonzero weight; fewer than `size` if more do not help.
    result : Result
        The weights, their loss, and the bound on the loss of all weights with at most `size` features.
    """

    size: int
    features: tuple[str, ...]
    result: Result


@dataclass(frozen=True)
class Subsets(Outcome):
    """The result of `best_subsets`.

    Parameters
    ----------
    names : tuple of str
        All features.
    subsets : tuple of Subset
        One for each size, the smallest first; sizes for which there was no time are missing.
    complete : bool
        Whether all requested sizes are there.
    seconds : float
        Time taken.
    """

    names: tuple[str, ...]
    subsets: tuple[Subset, ...]
    complete: bool
    seconds: float

    def __getitem__(self, size: int) -> Subset:
        """Return the best weights with at most `size` features; raises `KeyError` for a missing size."""
        return {one.size: one for one in self.subsets}[size]


def best_subsets(
    nbest: NBest,
    *,
    at_most: int | None = None,
    metric: str | Metric | None = None,
    method: str | Method = "auto",
    ties: str | None = None,
    region: Region | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    jobs: int = 1,
    backend: str = "threads",
    seed: int = 0,
    on_stage: OnStage | None = None,
) -> Subsets:
    """Find the best weights with at most k features, for k = 1, 2, ..., and prove that none do better.

    Parameters
    ----------
    nbest : NBest
        The lists.
    at_most : int, optional
        The largest k; by default all features.
    metric : str or Metric, optional
        As for `minimize`.
    method : str or Method
        How to search each set.
    ties : {"first", "best", "worst"}, optional
        Which hypothesis of a list represents all that have identical features. Fewer features make more hypotheses
        identical, so by default the worst counts, and no set wins by their order; with a metric that is not a sum over
        lists, the first counts.
    region : Region, optional
        Where the weights may lie; features whose weight cannot be 0 there are in every set.
    time_limit : float, optional
        Seconds for everything; the time that is left is shared equally by the remaining sizes.
    memory_limit, jobs, backend, seed
        As for `minimize`.
    on_stage : callable, optional
        Called with "sets of" and a size, how many of its sets are searched, and their number; a true return value
        stops.

    Returns
    -------
    Subsets
        The weights of each size, their loss and its bound.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        As by `minimize`; `MethodError` also for lattices, and for too many sets.

    Notes
    -----
    Source for best subset selection: Bertsimas, King and Mazumder, Best Subset Selection via a Modern Optimization
    Lens, Annals of Statistics 2016, who solve it for least squares by mixed-integer programs.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> [(one.size, one.features, one.result.loss) for one in lpmert.best_subsets(lists).subsets]
    [(1, ('a',), 1.0), (2, ('a', 'b'), 0.0)]
    """
    settings = method, time_limit, memory_limit, jobs, seed, backend, on_stage
    with many_searches("best subsets need", *settings) as searches:
        problem, oracle = list_problem(nbest, metric, ties or "first", region, searches.needs), -inf
        if problem.losses is not None:
            oracle = nextafter(fsum(np.minimum.reduceat(problem.losses, nbest.offsets[:-1])), -inf)
            problem = problem if ties else Problem(nbest, problem.metric, ties="worst", region=problem.region)
        selection = _Selection(problem, searches, oracle)
        sizes = selection.sizes(at_most)
        subsets = selection.tightened(list(selection.search(sizes)))
    if not subsets and not searches.deadline.expired:
        raise RegionError(f"no weights of the region have at most {sizes[-1]} features that are not 0; allow more")
    complete = len(subsets) > 0 and subsets[-1].size == sizes[-1]
    return Subsets(nbest.names, tuple(subsets), complete, searches.deadline.seconds)


@dataclass
class _Selection:
    """The search of all sets, size by size. oracle: a lower bound on the loss of all weights."""

    problem: Problem
    searches: Searches
    oracle: float
    best: Result | None = None
    _bound: float = inf
    _met: dict[_Set, float] = field(default_factory=dict)

    @cached_property
    def useful(self) -> _Set:
        """The features that vary within a list or belong to a limit other than a sign; all others have weight 0."""
        nbest, region = self.problem.nbest, self.problem.coordinates.reduction.given
        limits = [{d for d, value in enumerate(row) if value} for row in (*region.exact_rows, *region.exact_equations)]
        sums = [places for number, places in enumerate(limits) if len(places) > 1 or number < region.referred]
        centre = [] if region.cap is None else np.flatnonzero(region.cap.centre).tolist()
        varying = varying_columns(nbest.dense_features(), nbest.offsets).tolist()
        return tuple(nbest.names[d] for d in sorted(set().union(varying, centre, *sums)))

    def sizes(self, at_most: int | None) -> range:
        """Return the sizes to search; raises `MethodError` if there is no useful feature, or too many sets."""
        n, n_sets = len(self.useful), 0
        if not n:
            raise MethodError("no feature varies within a list: there is nothing to choose")
        sizes = range(1, (n if at_most is None else min(n, whole_number(at_most, "at_most", 1))) + 1)
        for size in sizes:
            n_sets += comb(n, size)
            if n_sets > MOST_SETS:
                advice = f"ask for at most {size - 1}" if size > 1 else "leave some out"
                raise MethodError(f"{n} features have more than {MOST_SETS:,} sets of up to {size}; {advice}")
        return sizes

    def search(self, sizes: Sequence[int]) -> Iterator[Subset]:
        for size in sizes:
            if self.searches.over:
                return
            of_size = self._search_size(size, within(self.searches.deadline.share(sizes[-1] - size + 1)))
            if of_size is not None:
                yield of_size

    def _attained(self, found: Result) -> bool:
        """Whether the loss of the weights does not depend on a tie."""
        exact = self.problem.region is None or self.problem.region.cosine is None
        return found.status is Status.OPTIMAL or (found.tied_lists == 0 and exact)

    def tightened(self, subsets: list[Subset]) -> list[Subset]:
        """Raise the bound of each size to that of the next larger one: no set does better than one that contains it."""
        for k in reversed(range(len(subsets) - 1 if self.problem.ties == "worst" else 0)):
            own, larger = subsets[k].result, subsets[k + 1].result.lower_bound
            if own.lower_bound is None or larger is None or own.lower_bound >= larger:
                continue
            closed = larger >= own.loss and self._attained(own)
            result = replace(own, lower_bound=min(larger, own.loss), status=Status.OPTIMAL if closed else own.status)
            subsets[k] = replace(subsets[k], result=result)
        return subsets

    def _search_size(self, size: int, share: Deadline) -> Subset | None:
        """Search all sets of a size; searches that do not end in their share of the time are repeated with more."""
        sets = sorted(combinations(self.useful, size), key=self._promise)
        bounds: dict[_Set, float] = {}
        ended: set[_Set] = set()
        waiting = sets
        while waiting and not share.expired and not self.searches.over:
            for k, names in enumerate(waiting):
                bound, done = self._search_set(names, share.share(len(waiting) - k))
                bounds[names] = max(bound, bounds.get(names, -inf))
                ended |= {names} if done else set()
                if self.searches.tell(f"sets of {size}", len(bounds), len(sets)) or share.expired:
                    break
            waiting = [names for names in sets if names not in ended and not self._rules_out(bounds.get(names, -inf))]
        bound = min(bounds.get(names, self.oracle) for names in sets)
        if self.problem.ties != "worst":  # a smaller set may cost less, as another of identical hypotheses may count
            bound = min(bound, self._bound)
        self._bound, found = bound, self.best
        if found is None:
            return None
        if bound == -inf:
            status = Status.TIME_LIMIT if waiting else Status.HEURISTIC
        elif self._rules_out(bound) and self._attained(found):
            status = Status.OPTIMAL
        elif not waiting:
            status = Status.OPTIMAL_TO_TOLERANCE
        elif self.searches.stopped and not self.searches.interrupts.pressed:
            status = Status.CALLBACK
        else:
            status = Status.cut_short(self.searches.deadline, interrupted=self.searches.interrupts.pressed)
        result = replace(
            found,
            lower_bound=None if bound == -inf else min(bound, found.loss),
            status=status,
            signature=f"{found.signature}|features:{size}",
        )
        return Subset(size, tuple(name for name in self.useful if found.by_name[name]), result)

    def _rules_out(self, bound: float) -> bool:
        return self.best is not None and bound >= self.best.loss

    def _search_set(self, names: _Set, seconds: float | None) -> tuple[float, bool]:
        """Search a set for a loss below the best so far; return a bound on its loss, and whether the search ended."""
        full, cutoff = self.problem, inf if self.best is None else self.best.loss
        outer = full.region or Region()
        zero = {name: 0.0 for name in full.nbest.names if name not in names}
        if any(outer.fixed.get(name) for name in zero):
            return inf, True
        region = replace(outer, fixed={**outer.fixed, **zero}) if zero else full.region
        try:
            problem = Problem(full.nbest, full.metric, ties=full.ties, region=region)
            found = self.searches.below(problem, cutoff, time_limit=seconds)
        except RegionError:  # the region is empty with these weights at 0
            return inf, True
        self._met[names] = found.least_met
        if found.result is not None:
            self.best = found.result
        return found.bound, found.status.finished

    def _promise(self, names: _Set) -> float:
        """Return the least loss found in a subset with one feature less."""
        return min((self._met.get(less, inf) for less in combinations(names, len(names) - 1)), default=inf)


_LARGEST = 999  # maximum of the absolute values of whole weights: three digits
_BITS = 30  # bits of the coefficients of limits; products with weights of a few digits are far from overflow
_MOST_TRIED = 50  # candidates after which the search gives up: with coarse features, small weights tie everywhere
_MOST_BOXES = 10_000  # boxes after which the search gives up: with many features or thin cones it would not end
_FIRST_LIMITS, _ROUNDS = 4, 8  # limits per feature at the start, and rounds of propagation per box


def whole_weights(
    nbest: NBest,
    weights: Weights | str | Path,
    *,
    metric: str | Metric | None = None,
    ties: str = "first",
    region: Region | None = None,
) -> dict[str, int] | None:
    """Find the smallest whole weights that choose as well as given weights.

    Parameters
    ----------
    nbest : NBest
        The lists.
    weights : mapping or sequence of numbers, Result, str or Path
        Weights inside the region whose loss does not depend on ties, such as those of `minimize`.
    metric, ties, region
        As for `minimize`.

    Returns
    -------
    dict of int or None
        Whole weights of up to three digits by name. They have the same loss in exact arithmetic, however ties are
        broken, and lie inside the region up to a positive factor. No weights with a smaller largest absolute value keep
        each choice ahead of all hypotheses of its list with another loss. `None` if there are none, or they are too
        hard to find.

    Raises
    ------
    DataError, MetricError, MethodError, RegionError
        As by `evaluate`; `MethodError` also for lattices.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1], [2, 1], [1, 3]], [0, 2, 4], [[0], [1], [1], [0]], names=["a", "b"])
    >>> lpmert.whole_weights(lists, lpmert.minimize(lists))
    {'a': 3, 'b': 2}
    """
    problem = list_problem(nbest, metric, ties, region, "whole weights need")
    checkpoint(TIMES * nbest.n_hypotheses * nbest.n_features * np.dtype(np.float64).itemsize)
    near = problem.checked_weights(given_weights(weights, "weights"))
    reduction = problem.coordinates.reduction
    if reduction.columns is None:  # equations on several weights, which whole numbers hardly ever fulfil
        return None
    loss = problem.evaluate(near).loss

    def serves(whole: IntArray) -> bool:
        candidate = whole.astype(np.float64)
        at = problem.evaluate(candidate)
        ends = (at.loss_best_ties, at.loss_worst_ties) if at.tied_lists else (loss, loss)
        return at.loss == loss and ends == (loss, loss) and problem.inside(problem.checked_weights(candidate))

    features, offsets, statistics = problem.as_given()
    values = statistics if problem.losses is None else problem.metric.losses(statistics)[:, None]  # type: ignore[attr-defined]
    rows = np.array([*map(whole_row, reduction.given.exact_rows)], dtype=np.float64).reshape(-1, len(near))
    free = np.union1d(varying_columns(features, offsets), np.flatnonzero(rows.any(axis=0)))
    free = np.intersect1d(free, reduction.columns)

    def full(reduced: IntArray) -> IntArray:
        whole = np.zeros(len(near), dtype=np.int64)
        whole[free] = reduced
        return whole

    blocks = chain([rows], _limits(features, offsets, values, near))
    limits = np.concatenate([_relaxed(block[:, free]) for block in blocks])
    found = _smallest(limits, near[free], lambda reduced: serves(full(reduced)))
    return None if found is None else dict(zip(problem.names, full(found).tolist(), strict=True))


def _limits(features: FloatArray, offsets: IntArray, values: FloatArray, weights: FloatArray) -> Iterator[FloatArray]:
    """Yield the limits [k, D] of the cone: each choice minus the hypotheses of its list with other values [M, V]."""
    chosen = decode(features, offsets, weights)
    for lists, some, ends in blocks_of_lists(offsets):
        checkpoint()
        rows = np.arange(some.start, some.stop)
        own = np.repeat(chosen[lists], np.diff(ends))
        others = (values[rows] != values[own]).any(axis=1)
        yield features[own[others]] - features[rows[others]]


def _relaxed(limits: FloatArray) -> IntArray:
    """Scale limits [k, d] to distinct rows of integers, each entry off by at most 1."""
    sizes = np.abs(limits).max(axis=1, initial=0.0)
    scaled = limits[sizes > 0.0] / sizes[sizes > 0.0, None]
    return np.unique(np.rint(np.ldexp(scaled, _BITS)).astype(np.int64), axis=0)


def _smallest(limits: IntArray, near: FloatArray, serves: Callable[[IntArray], bool]) -> IntArray | None:
    """Return integers w [d] that serve, with the smallest largest absolute value.

    limits [k, d]: limits @ w > -slack is necessary, where slack, d times the size of w, covers the rounding of the
    limits. near [d]: real numbers that serve. `None` if there are no such integers, or too many boxes or candidates.
    """
    if not len(near) or not near.any():
        return None
    leads = limits @ near
    active = limits[np.argsort(leads)[: _FIRST_LIMITS * len(near)]]
    boxes = tried = 0
    for size in range(1, _LARGEST + 1):
        slack = size * len(near)
        stack = [(np.full(len(near), -size), np.full(len(near), size))]
        while stack:
            checkpoint()
            boxes += 1
            if boxes > _MOST_BOXES:
                return None
            box = _narrowed(active, *stack.pop(), slack)
            if box is None:
                continue
            low, high = box
            if np.maximum(-low, high).max() < size:
                continue  # searched with a smaller size
            widths = high - low
            if not widths.any():
                worst = int(np.argmin(limits @ low)) if len(limits) else -1
                if worst >= 0 and int(limits[worst] @ low) <= -slack:
                    active = np.vstack([active, limits[worst]])
                elif tried == _MOST_TRIED:
                    return None
                elif serves(low):
                    return low
                else:
                    tried += 1
                continue
            place = int(np.argmax(widths))
            middle = int(low[place] + high[place]) // 2
            left, right = (low, high.copy()), (low.copy(), high)
            left[1][place], right[0][place] = middle, middle + 1
            ahead = float(near[place]) * size / float(np.abs(near).max()) > middle
            stack += [left, right] if ahead else [right, left]
    return None


def _narrowed(limits: IntArray, low: IntArray, high: IntArray, slack: int) -> tuple[IntArray, IntArray] | None:
    """Propagate limits @ w > -slack over the integers w of a box low, high [d]; `None` if the box becomes empty."""
    for _ in range(_ROUNDS):
        most = np.where(limits > 0, limits * high, limits * low)
        missing = 1 - slack - (most.sum(axis=1, keepdims=True) - most)  # lower bound on limit * w for each entry
        if (most.sum(axis=1) <= -slack).any():
            return None
        divisor = np.where(limits == 0, 1, limits)
        least = np.where(limits > 0, -(-missing // divisor), low).max(axis=0, initial=np.iinfo(np.int64).min)
        greatest = np.where(limits < 0, missing // divisor, high).min(axis=0, initial=np.iinfo(np.int64).max)
        least, greatest = np.maximum(low, least), np.minimum(high, greatest)
        if (least > greatest).any():
            return None
        if (least == low).all() and (greatest == high).all():
            break
        low, high = least, greatest
    return low, high
