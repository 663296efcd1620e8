"""The expected loss on unseen lists from the same source: cross-validation, and exact leave-one-out cross-validation.

Everything is refitted on the training lists of a fold: scale, correlations, temperature, first weights. Held-out lists
never leak into training.

Weights that do better than the optimum of all lists once a list is left out must do worse on that list: otherwise they
would be better on all lists. So the search without a list considers only weights that choose a hypothesis of it that is
worse than at the optimum, and is cut off at the optimum's loss on the others. Most of these searches end at once.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from math import frexp, ldexp
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from scipy.special import stdtr, stdtrit

from lpmert.api import Searches, list_problem, many_searches, problem_of
from lpmert.comparing.averaging import CHAINS, Average, OnSteps, average_around, found_by_lines
from lpmert.errors import DataError, FloatArray, IntArray, LimitError, MetricError, RegionError
from lpmert.limits import Deadline, out_of_time, within
from lpmert.metrics.base import AdditiveMetric, Metric, losses_of_totals
from lpmert.model.arrays import checked_sequence
from lpmert.model.canonical import CallerWeights
from lpmert.model.graphs import Hypergraphs, Lattices, WordGraphs
from lpmert.model.lattice_problem import AnyProblem, LatticeProblem
from lpmert.model.nbest import NBest, aligned_with, checked_lists
from lpmert.model.problem import Distinct, Problem
from lpmert.model.region import Region
from lpmert.quoting import WARNINGS, listed, quoted
from lpmert.result import Evaluation, Limits, OnStage, Outcome, Result, Status
from lpmert.search.method import Method
from lpmert.workers import current_workers

FEW = 30  # with fewer lists, or groups of lists, an estimate comes with a note

CONFIDENCE = 0.95

warn = logging.getLogger(WARNINGS).warning  # logs a warning about a result

TOO_FEW = "cross-validation needs two lists, or groups of lists, at least"


Material = NBest | Lattices
AnyData = TypeVar("AnyData", bound=NBest | WordGraphs)


def one_thread() -> AbstractContextManager[object]:
    """Limit linear algebra to one thread within the block, because rounding depends on the number of threads."""
    try:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError:
        return nullcontext()
    limited: AbstractContextManager[object] = threadpool_limits(1)
    return limited


def chosen_statistics(problem: AnyProblem, weights: CallerWeights, known: Evaluation | None = None) -> FloatArray:
    """Return the statistics [S, K] of the hypotheses that weights [D] choose; known: their evaluation, if available."""
    if isinstance(problem, LatticeProblem):
        winners = problem.decode(weights).winners
        return np.array([problem.statistics(number, won.ways[0]) for number, won in enumerate(winners)])
    nbest = problem.nbest
    found = problem.evaluate(weights) if known is None else known
    return np.asarray(nbest.statistics[nbest.rows_of(found.selection)])


def data_of(problem: AnyProblem) -> Material:
    """Return the lists or lattices of a problem; raises `DataError` for hypergraphs."""
    return divisible(problem.lattices if isinstance(problem, LatticeProblem) else problem.nbest)


def divisible(data: NBest | WordGraphs) -> Material:
    """Return data that can be split into folds as they are; raises `DataError` for hypergraphs and other objects."""
    if isinstance(data, Hypergraphs):
        raise DataError(
            "hypergraphs are not divided; make N-best lists of them: lpmert convert --n-best, lpmert.n_best"
        )
    return data if isinstance(data, Lattices) else checked_lists(data)


def held_out_like(held_out: AnyData, data: NBest | WordGraphs) -> AnyData:
    """Return held-out data with the features of `data`, in their order; raises `DataError` if some are missing.

    Of lists, a warning names features that are left out because `data` lack them.
    """
    if isinstance(held_out, NBest) and isinstance(data, NBest):
        known = {*data.names}
        if unused := [name for name in held_out.names if name not in known]:
            warn("warning: the held-out lists have further features, which are left out: %s", listed(unused))
        return cast(AnyData, aligned_with(held_out, data))
    if type(held_out) is not type(data) or held_out.names != data.names:
        raise DataError(f"what is held out must be of the same kind, with the features {listed(data.names)} in order")
    return held_out


def repeats(held_out: NBest | WordGraphs, data: NBest | WordGraphs) -> list[str]:
    """Return a warning if lists held out are among those of `data`, told by their features.

    Features that several lists of `data` share are no evidence: such data repeat themselves.
    """
    known = Counter(_digests(data))
    found = sum(known[digest] == 1 for digest in _digests(held_out))
    if not found:
        return []
    return [
        f"{found:,} of {held_out.n_lists:,} held-out lists are also among the lists tuned on, with the same features: "
        "their losses say nothing about unseen lists; hold out others"
    ]


def unseen(held_out: NBest | WordGraphs, data: NBest | WordGraphs, problem: AnyProblem) -> AnyProblem:
    """Return the problem on held-out data that is like the one on `data`; logs a warning if they are not unseen."""
    found = held_out_like(held_out, data)
    for message in repeats(found, data):
        warn("warning: %s", message)
    return like(problem, found)


def _digests(data: NBest | WordGraphs) -> Iterator[bytes]:
    blocks: Any = data.blocks() if isinstance(data, NBest) else [(data.features, data.offsets)]
    for features, offsets in blocks:
        for begin, end in pairwise(offsets.tolist()):
            yield hashlib.blake2b(features[begin:end].tobytes(), digest_size=16).digest()


def shares(metric: Metric, statistics: FloatArray, group: IntArray) -> FloatArray:
    """Return the contributions of the G groups of lists to the total loss; statistics [S, K], group [S]: of the lists.

    The variance of the loss is G / (G - 1) times the sum of their squared deviations. For an additive metric they are
    the losses of the groups; for another one the pseudo-values of the jackknife (Efron and Stein, Annals of Statistics
    1981), which nearly add up to the loss.
    """
    count = int(group.max()) + 1
    summed = np.zeros((count, statistics.shape[1]))
    np.add.at(summed, group, statistics)
    if isinstance(metric, AdditiveMetric):
        return np.array([metric.loss(row) for row in summed])
    total = summed.sum(axis=0)
    without = losses_of_totals(metric, total - summed)
    return np.asarray(metric.loss(total) / count + (without.mean() - without) * (count - 1) / count)


def like(problem: AnyProblem, data: NBest | WordGraphs, region: Region | None = None) -> AnyProblem:
    """Return a problem on other data with the same metric and rule for ties, in a region or everywhere."""
    if isinstance(problem, LatticeProblem):  # its own metric is that of counts
        return problem_of(data, problem.given_metric, "first", region)
    return problem_of(data, problem.metric, problem.ties, region)


class Fit(NamedTuple):
    """Weights fitted to lists: the best that line searches find, and averaged ones."""

    found: CallerWeights
    averaged: CallerWeights
    average: Average


@dataclass(frozen=True)
class Interval:
    """A loss or a difference of losses, with the ends of its 95 % interval, `None` if unknown."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Estimate:
    """The loss on lists that the weights were not fitted to.

    difference: the loss of averaged weights minus that of optimised weights. groups: number of groups of lists that
    share a source; without groups, of lists. folds: 0 if the lists are separate held-out lists.
    """

    optimum: Interval
    averaged: Interval
    difference: Interval
    n_lists: int
    groups: int
    folds: int = 0


def doubts(what: str, groups: int, n_lists: int) -> list[str]:
    """Return a note that an estimate is not worth much, if it rests on few lists or groups of lists."""
    few = "lists" if groups == n_lists else "groups of lists"
    return [f"fewer than {FEW} {few}: {what} is not worth much"] if groups < FEW else []


def fit(
    problem: AnyProblem, seed: int, left: float | None, chains: int = CHAINS, on_steps: OnSteps = lambda *_: None
) -> Fit:
    """Fit weights to the lists of a problem, by line searches and by averaging; left: seconds of the whole call."""
    found = found_by_lines(problem, Limits(time_limit=left), seed)
    average = average_around(problem, problem.to_canonical(found), seed=seed, chains=chains, on_steps=on_steps)
    averaged = problem.to_caller(average.weights) if average.steps else found
    return Fit(found, averaged if problem.inside(averaged) else found, average)


@dataclass(frozen=True)
class Split:
    """Random folds of lists, drawn once or several times; group [S]: the number of each list's group."""

    group: IntArray
    folds: int
    seed: int
    repetitions: int = 1

    @classmethod
    def of(cls, groups: Sequence[Hashable] | None, n_lists: int, folds: int, seed: int, repetitions: int = 1) -> Split:
        """Return the folds of lists, of which each has an entry in `groups`; raises `DataError` for other groups."""
        group = np.arange(n_lists)
        if groups is not None:
            groups = checked_sequence(groups, "groups")
            if len(groups) != n_lists:
                raise DataError(f"groups must have one entry for each of the {n_lists} lists; got {len(groups)}")
            numbers: dict[Hashable, int] = {}
            group = np.array([numbers.setdefault(one, len(numbers)) for one in groups], dtype=np.int64)
        return cls(group, min(folds, int(group.max(initial=-1)) + 1), seed, repetitions)

    @property
    def groups(self) -> int:
        return int(self.group.max(initial=-1)) + 1

    def of_groups(self, repetition: int = 0) -> IntArray:
        """Return the fold [G] of each group."""
        return folds_of(self.groups, self.folds, self.seed + repetition)

    def of_lists(self, repetition: int = 0) -> IntArray:
        """Return the fold [S] of each list."""
        return self.of_groups(repetition)[self.group]

    def divided(self, problem: AnyProblem, fold: int, repetition: int = 0) -> tuple[AnyProblem, AnyProblem]:
        """Return the problem on the lists outside a fold, in its region, and that on the lists of the fold."""
        held_out, data = self.of_lists(repetition) == fold, data_of(problem)
        return like(problem, data.restrict(~held_out), problem.region), like(problem, data.restrict(held_out))


def folds_of(count: int, folds: int, seed: int) -> IntArray:
    """Return the random fold of each of so many lists or groups; folds differ in size by one at most."""
    return np.asarray(np.random.default_rng(seed).permutation(count) % folds)


def cross_validated(
    problem: AnyProblem, split: Split, deadline: Deadline, on_fold: Callable[[int, int], object] = lambda *_: None
) -> Estimate | None:
    """Estimate the loss on as many unseen lists; `None` if time runs out.

    In the fits of the folds, line searches stand in for the search for the optimum, and a single chain for several. The
    workers of the call fit the folds.
    """
    fold, folds, workers, parts = split.of_lists(), split.folds, current_workers(), []
    shared = workers.share((problem, split))
    with one_thread():
        pending = [workers.submit(_fitted_without, shared, number, deadline.left) for number in range(folds)]
        for number, one in enumerate(pending, 1):
            if not one.in_time() or out_of_time():
                return None
            parts.append(np.array(one.answer()))
            on_fold(number, folds)
    decoded = np.empty((2, len(fold), parts[0].shape[2]))
    for number, part in enumerate(parts):
        decoded[:, fold == number] = part
    return estimate_of(problem.metric, decoded[0], decoded[1], split.group, folds)


def _fitted_without(shared: tuple[AnyProblem, Split], number: int, left: float | None) -> list[FloatArray]:
    """Fit weights to all lists outside a fold; return the statistics [s, K] that both choose on the lists of the fold.

    shared: the problem on all lists, and the folds. left: seconds.
    """
    problem, split = shared
    with one_thread(), within(left).running() as deadline:
        training, judge = split.divided(problem, number)
        found = fit(training, split.seed, deadline.left, chains=1)
        return [chosen_statistics(judge, one) for one in found[:2]]


def estimate_of(metric: Metric, optimum: FloatArray, averaged: FloatArray, group: IntArray, folds: int = 0) -> Estimate:
    """Return losses, their difference and intervals, from the statistics [S, K] that both weights choose."""
    losses = [metric.loss(statistics.sum(axis=0)) for statistics in (optimum, averaged)]
    first, second = (shares(metric, statistics, group) for statistics in (optimum, averaged))
    count = len(first)
    # the training lists of the folds overlap
    ratio = 0.0 if folds < 2 else folds / (folds - 1) / count
    return Estimate(
        optimum=interval_of(losses[0], count * first, 0.0),
        averaged=interval_of(losses[1], count * second, 0.0),
        difference=interval_of(losses[1] - losses[0], count * (second - first), ratio),
        n_lists=len(optimum),
        groups=count,
        folds=folds,
    )


def corrected_error(values: FloatArray, ratio: float) -> float:
    """Return the standard error of the mean of values [J] from J splits of the same lists into training and test sets.

    ratio: test lists over training lists. The splits overlap, so their values are not independent: the variance of the
    mean is (1 / J + ratio) times that of the values. Source: Nadeau and Bengio, Inference for the Generalization Error,
    Machine Learning 2003; for repeated cross-validation: Bouckaert and Frank, Evaluating the Replicability of
    Significance Tests for Comparing Learning Algorithms, PAKDD 2004.
    """
    return float(np.std(values, ddof=1) * np.sqrt(1 / len(values) + ratio))


def corrected_test(values: FloatArray, ratio: float) -> float | None:
    """Return the p-value, by Student's t, of the mean of values [J] from overlapping splits being different from 0.

    1 if all values are 0, `None` if they are equal otherwise.
    """
    if not np.ptp(values):
        return None if values[0] else 1.0
    return float(2 * stdtr(len(values) - 1, -abs(np.mean(values)) / corrected_error(values, ratio)))


def corrected_reach(values: FloatArray, ratio: float) -> float:
    """Return half the width of the interval, by Student's t, of the mean of values [J] from overlapping splits."""
    return float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * corrected_error(values, ratio)


def interval_of(value: float, values: FloatArray, ratio: float) -> Interval:
    """Return the interval of a mean of values [J] from overlapping splits; unknown if they do not differ."""
    if not np.ptp(values):
        return Interval(value, None, None)
    reach = corrected_reach(values, ratio)
    return Interval(value, value - reach, value + reach)


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
    settings = method, time_limit, memory_limit, jobs, seed, backend, on_stage
    with many_searches("leave-one-out needs", *settings, proofs=True) as searches:
        problem, deadline = list_problem(nbest, metric, ties, region, searches.needs), searches.deadline
        if not isinstance(problem.metric, AdditiveMetric):
            raise MetricError(f"leave-one-out needs a sum over lists, which {quoted(problem.metric.name)} is not")
        optimum = searches.solve(problem, time_limit=deadline.share(2.0))
        if optimum.status is not Status.OPTIMAL:
            raise LimitError(f"no list left out, as the optimum of all lists is not proved: {optimum.message}")
        search = _Search(problem, optimum, searches)
        fitted, n_lists = search.fitted, nbest.n_lists
        ends = np.array([fitted, np.maximum.reduceat(search.losses, search.lists.offsets[:-1])])
        waiting = np.flatnonzero(ends[0] < ends[1]).tolist()
        for done, number in enumerate(waiting):
            if searches.over:
                break
            found = search.without(number, deadline.share(len(waiting) - done))
            ends[:, number] = ends[:, number] if found is None else found
            searches.tell("lists left out", n_lists - len(waiting) + done + 1, n_lists)
    return LeftOut(optimum, nbest.list_ids, fitted, ends[0], ends[1], deadline.seconds)


class _Search:
    """Searches for the optimum without one list. Hypotheses with identical features are represented by one."""

    def __init__(self, problem: Problem, optimum: Result, searches: Searches) -> None:
        self._problem, self._searches = problem, searches
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
        found = self._searches.below(problem, cutoff, time_limit=seconds)
        if found.result is None:
            return fitted if found.status.finished and found.bound >= cutoff else None
        if found.result.status is not Status.OPTIMAL:
            return None
        return float(own[found.result.selection[number]])
