"""The expected loss on unseen lists from the same source: cross-validation for lists and lattices.

Everything is refitted on the training lists of a fold: scale, correlations, temperature, first weights. Held-out lists
never leak into training.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from scipy.special import stdtrit

from lpmert.api import problem_of
from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.metrics.base import AdditiveMetric, Metric, losses_of_totals
from lpmert.model.arrays import checked_sequence
from lpmert.model.canonical import CallerWeights
from lpmert.model.graphs import Hypergraphs, Lattices, WordGraphs
from lpmert.model.lattice_problem import AnyProblem, LatticeProblem
from lpmert.model.nbest import NBest, aligned_with, checked_lists
from lpmert.model.region import Region
from lpmert.quoting import WARNINGS, listed
from lpmert.result import Evaluation, Limits
from lpmert.system.deadline import Deadline, out_of_time, within
from lpmert.unseen.averaging import CHAINS, Average, OnSteps, average_around, found_by_lines
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


def unseen(held_out: AnyData, data: NBest | WordGraphs) -> AnyData:
    """Return held-out data as `held_out_like` does, and log a warning if they are not unseen."""
    found = held_out_like(held_out, data)
    for message in repeats(found, data):
        warn("warning: %s", message)
    return found


def _digests(data: NBest | WordGraphs) -> Iterator[bytes]:
    blocks: Any = data.blocks() if isinstance(data, NBest) else [(data.features, data.offsets)]
    for features, offsets in blocks:
        for begin, end in pairwise(offsets.tolist()):
            yield hashlib.blake2b(features[begin:end].tobytes(), digest_size=16).digest()


def shares(metric: Metric, statistics: FloatArray) -> FloatArray:
    """Return the contributions of G groups to the total loss, from summed statistics [G, K].

    The variance of the loss is G / (G - 1) times the sum of their squared deviations. For an additive metric they are
    the losses of the groups; for another one the pseudo-values of the jackknife (Efron and Stein, Annals of Statistics
    1981), which nearly add up to the loss.
    """
    if isinstance(metric, AdditiveMetric):
        return np.array([metric.loss(row) for row in statistics])
    count = len(statistics)
    total = statistics.sum(axis=0)
    without = losses_of_totals(metric, total - statistics)
    return np.asarray(metric.loss(total) / count + (without.mean() - without) * (count - 1) / count)


def like(problem: AnyProblem, data: Material, region: Region | None = None) -> AnyProblem:
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
    fold, folds = split.of_lists(), split.folds
    workers, parts = current_workers(), []
    shared = workers.share((problem, fold, split.seed))
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


def _fitted_without(shared: tuple[AnyProblem, IntArray, int], number: int, left: float | None) -> list[FloatArray]:
    """Fit weights to all lists outside a fold; return the statistics [s, K] that both choose on the lists of the fold.

    shared: the problem on all lists, the fold [S] of each list, and the seed. left: seconds.
    """
    problem, fold, seed = shared
    data, held_out = data_of(problem), fold == number
    with one_thread(), within(left).running() as deadline:
        training = like(problem, data.restrict(~held_out), problem.region)
        found = fit(training, seed, deadline.left, chains=1)
        judge = like(problem, data.restrict(held_out))
        return [chosen_statistics(judge, one) for one in found[:2]]


def estimate_of(metric: Metric, optimum: FloatArray, averaged: FloatArray, group: IntArray, folds: int = 0) -> Estimate:
    """Return losses, their difference and intervals, from the statistics [S, K] that both weights choose."""
    losses = [metric.loss(statistics.sum(axis=0)) for statistics in (optimum, averaged)]
    first, second = (shares(metric, summed(statistics, group)) for statistics in (optimum, averaged))
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


def summed(statistics: FloatArray, group: IntArray) -> FloatArray:
    """Return the sums [G, K] over groups [S] of statistics [S, K]."""
    found = np.zeros((int(group.max()) + 1, statistics.shape[1]))
    np.add.at(found, group, statistics)
    return found


def corrected_error(values: FloatArray, ratio: float) -> float:
    """Return the standard error of the mean of values [J] from J splits of the same lists into training and test sets.

    ratio: test lists over training lists. The splits overlap, so their values are not independent: the variance of the
    mean is (1 / J + ratio) times that of the values. Source: Nadeau and Bengio, Inference for the Generalization Error,
    Machine Learning 2003; for repeated cross-validation: Bouckaert and Frank, Evaluating the Replicability of
    Significance Tests for Comparing Learning Algorithms, PAKDD 2004.
    """
    return float(np.std(values, ddof=1) * np.sqrt(1 / len(values) + ratio))


def corrected_reach(values: FloatArray, ratio: float) -> float:
    """Return half the width of the interval, by Student's t, of the mean of values [J] from overlapping splits."""
    return float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * corrected_error(values, ratio)


def interval_of(value: float, values: FloatArray, ratio: float) -> Interval:
    """Return the interval of a mean of values [J] from overlapping splits; unknown if they do not differ."""
    if not np.ptp(values):
        return Interval(value, None, None)
    reach = corrected_reach(values, ratio)
    return Interval(value, value - reach, value + reach)
