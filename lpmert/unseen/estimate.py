"""What weights will cost on unseen lists from the same source: cross-validation with refits, for lists and lattices.

Every fold is fitted from nothing but its own lists: their scale, their correlations, their temperature, their first
weights. The lists held out do not enter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, cast

import numpy as np
from scipy.special import stdtrit

from lpmert.api import problem_of
from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.metrics.base import AdditiveMetric, Metric, losses_of_totals
from lpmert.model.arrays import checked_sequence
from lpmert.model.canonical import CallerWeights
from lpmert.model.evaluation import Evaluation
from lpmert.model.graphs import Hypergraphs, Lattices, WordGraphs
from lpmert.model.lattice_problem import AnyProblem, LatticeProblem
from lpmert.model.nbest import NBest, aligned_with, checked_lists
from lpmert.model.region import Region
from lpmert.quoting import listed
from lpmert.result import Limits
from lpmert.system.deadline import Deadline, out_of_time, within
from lpmert.system.mapped import released
from lpmert.unseen.averaging import CHAINS, Average, Averaging, OnSteps, found_by_lines
from lpmert.workers import current_workers

FEW = 30
"""Below so many lists, or groups of lists, an estimate is not worth much."""

CONFIDENCE = 0.95

TOO_FEW = "cross-validation needs two lists, or groups of lists, at least"


Material = NBest | Lattices
AnyData = TypeVar("AnyData", bound=NBest | WordGraphs)


def one_thread() -> AbstractContextManager[object]:
    """Keep linear algebra to one thread: with several, rounding depends on their number."""
    try:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError:
        return nullcontext()
    limited: AbstractContextManager[object] = threadpool_limits(1)
    return limited


def chosen_statistics(problem: AnyProblem, weights: CallerWeights, known: Evaluation | None = None) -> FloatArray:
    """Return the statistics [S, K] of the hypotheses that weights [D] choose; known: what these cost."""
    if isinstance(problem, LatticeProblem):
        winners = problem.decode(weights).winners
        return np.array([problem.statistics(number, won.ways[0]) for number, won in enumerate(winners)])
    nbest = problem.nbest
    found = problem.evaluate(weights) if known is None else known
    chosen = np.asarray(nbest.statistics[nbest.rows_of(found.selection)])
    released(nbest.statistics)
    return chosen


def data_of(problem: AnyProblem) -> Material:
    """Return the lists or lattices of a problem; raises `DataError` for hypergraphs."""
    return divisible(problem.lattices if isinstance(problem, LatticeProblem) else problem.nbest)


def divisible(data: NBest | WordGraphs) -> Material:
    """Return lists or lattices as they are; raises `DataError` for hypergraphs and other objects."""
    if isinstance(data, Hypergraphs):
        raise DataError(
            "hypergraphs are not divided; make N-best lists of them: lpmert convert --n-best, lpmert.n_best"
        )
    return data if isinstance(data, Lattices) else checked_lists(data)


def held_out_like(held_out: AnyData, data: NBest | WordGraphs) -> AnyData:
    """Return what is held out with the features in the order of the other; raises `DataError` where they differ."""
    if isinstance(held_out, NBest) and isinstance(data, NBest):
        return cast(AnyData, aligned_with(held_out, data))
    if type(held_out) is not type(data) or held_out.names != data.names:
        raise DataError(f"what is held out must be of the same kind, with the features {listed(data.names)} in order")
    return held_out


def shares(metric: Metric, statistics: FloatArray) -> FloatArray:
    """Return what each of G groups contributes to the loss of all, from summed statistics [G, K].

    The variance of the loss is G / (G - 1) times the sum of their squared deviations. A sum over lists adds up; of
    another metric these are the jackknife's values (Efron and Stein, Annals of Statistics 1981), which add up nearly.
    """
    if isinstance(metric, AdditiveMetric):
        return np.array([metric.loss(row) for row in statistics])
    count = len(statistics)
    total = statistics.sum(axis=0)
    without = losses_of_totals(metric, total - statistics)
    return np.asarray(metric.loss(total) / count + (without.mean() - without) * (count - 1) / count)


def like(problem: AnyProblem, data: Material, region: Region | None = None) -> AnyProblem:
    """Return the problem on other data with the metric and the rule for ties of one, in a region or everywhere."""
    if isinstance(problem, LatticeProblem):  # whose metric is one on texts
        return problem_of(data, problem.given_metric, "first", region)
    return problem_of(data, problem.metric, problem.ties, region)


class Setting(NamedTuple):
    """How weights are found; deadline: of the whole call."""

    seed: int
    deadline: Deadline
    averaging: Averaging = Averaging()


class Fit(NamedTuple):
    """The best weights that line searches find on some lists, and the averaged ones."""

    found: CallerWeights
    averaged: CallerWeights
    average: Average


@dataclass(frozen=True)
class Interval:
    """A loss or a difference of losses, and the ends of its interval of 95 %; `None` where they are unknown."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Estimate:
    """What weights cost on lists that they were not fitted to: loss of the optimum's kind, of averages, difference.

    groups: of lists that share a source, or the lists themselves; folds: parts into which they were drawn, 0 where the
    lists are others than those that the weights come from.
    """

    optimum: Interval
    averaged: Interval
    difference: Interval
    n_lists: int
    groups: int
    folds: int = 0


def doubts(what: str, groups: int, n_lists: int) -> list[str]:
    """Return that an estimate is worth little, where it is: it rests on few lists, or groups of lists."""
    few = "lists" if groups == n_lists else "groups of lists"
    return [f"fewer than {FEW} {few}: {what} is not worth much"] if groups < FEW else []


def fit(problem: AnyProblem, setting: Setting, chains: int = CHAINS, on_steps: OnSteps = lambda *_: None) -> Fit:
    """Find weights on the lists of a problem, and average, from nothing but these lists."""
    found = found_by_lines(problem, Limits(time_limit=setting.deadline.left), setting.seed)
    average = setting.averaging.average(
        problem, problem.to_canonical(found), seed=setting.seed, chains=chains, on_steps=on_steps
    )
    averaged = problem.to_caller(average.weights) if average.steps else found
    return Fit(found, averaged if problem.inside(averaged) else found, average)


def groups_of(groups: Sequence[Hashable] | None, n_lists: int) -> IntArray:
    """Return the number of each list's group [S], counted from 0; raises `DataError` unless there is one a list."""
    if groups is None:
        return np.arange(n_lists)
    groups = checked_sequence(groups, "groups")
    if len(groups) != n_lists:
        raise DataError(f"groups must have one entry for each of the {n_lists} lists; got {len(groups)}")
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(group, len(numbers)) for group in groups], dtype=np.int64)


@dataclass(frozen=True)
class Split:
    """How lists are drawn into folds, once or several times; group [S]: the number of each list's group."""

    group: IntArray
    folds: int
    seed: int
    repetitions: int = 1

    @classmethod
    def of(cls, groups: Sequence[Hashable] | None, n_lists: int, folds: int, seed: int, repetitions: int = 1) -> Split:
        """Return how lists are drawn; raises `DataError` where there is nothing to draw."""
        group = groups_of(groups, n_lists)
        there = int(group.max(initial=-1)) + 1
        if there < 2:
            raise DataError(TOO_FEW)
        return cls(group, min(folds, there), seed, repetitions)

    @property
    def groups(self) -> int:
        return int(self.group.max()) + 1

    def of_groups(self, repetition: int = 0) -> IntArray:
        """Return the fold [G] of each group."""
        return folds_of(np.arange(self.groups), self.folds, self.seed + repetition)

    def of_lists(self, repetition: int = 0) -> IntArray:
        """Return the fold [S] of each list."""
        return self.of_groups(repetition)[self.group]


def folds_of(group: IntArray, folds: int, seed: int) -> IntArray:
    """Return the fold of each list [S], the same for lists of a group [S]; it depends only on the seed."""
    order = np.random.default_rng(seed).permutation(int(group.max()) + 1)
    return np.asarray((order % folds)[group])


def cross_validated(
    problem: AnyProblem,
    setting: Setting,
    split: Split,
    on_fold: Callable[[int, int], object] = lambda *_: None,
) -> Estimate | None:
    """Return the expected loss on as many unseen lists, `None` if the time did not suffice.

    Line searches stand for the optimum, and one chain averages where there are several without refits. The folds are
    units of work of the workers of the call.
    """
    fold, folds = split.of_lists(), split.folds
    workers, parts = current_workers(), []
    # a deadline goes to no other process
    shared = workers.share((problem, fold, setting._replace(deadline=Deadline())))
    with one_thread():
        pending = [workers.submit(_fitted_without, shared, number, setting.deadline.left) for number in range(folds)]
        for number, one in enumerate(pending, 1):
            if not one.in_time() or out_of_time():
                return None
            parts.append(np.array(one.answer()))
            on_fold(number, folds)
    decoded = np.empty((2, len(fold), parts[0].shape[2]))
    for number, part in enumerate(parts):
        decoded[:, fold == number] = part
    return estimate_of(problem.metric, decoded[0], decoded[1], split.group, folds)


def _fitted_without(shared: tuple[AnyProblem, IntArray, Setting], number: int, left: float | None) -> list[FloatArray]:
    """Return the statistics [s, K] on the lists of a fold of weights that are fitted to all others, in so much time.

    shared: the problem on all lists, the fold [S] of each, and how weights are found.
    """
    problem, fold, setting = shared
    data, aside = data_of(problem), fold == number
    with one_thread(), within(left).running() as deadline:
        fitted = like(problem, data.restrict(~aside), problem.region)
        found = fit(fitted, setting._replace(deadline=deadline), chains=1)
        judge = like(problem, data.restrict(aside))
        return [chosen_statistics(judge, one) for one in found[:2]]


def estimate_of(metric: Metric, optimum: FloatArray, averaged: FloatArray, group: IntArray, folds: int = 0) -> Estimate:
    """Return losses, their difference and intervals from statistics [S, K] of the lists decoded with either."""
    losses = [metric.loss(statistics.sum(axis=0)) for statistics in (optimum, averaged)]
    own, other = (shares(metric, summed(statistics, group)) for statistics in (optimum, averaged))
    count = len(own)
    # the weights of a fold are fitted to lists that those of others are fitted to as well
    ratio = 0.0 if folds < 2 else folds / (folds - 1) / count
    return Estimate(
        optimum=interval_of(losses[0], count * own, 0.0),
        averaged=interval_of(losses[1], count * other, 0.0),
        difference=interval_of(losses[1] - losses[0], count * (other - own), ratio),
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
    """Return the standard error of the mean of values [J], one for each split of the same lists into two parts.

    ratio: lists held out over lists fitted to. Splits overlap, so that their values are not independent: the variance
    is 1 / J + ratio of theirs. Source: Nadeau and Bengio, Inference for the Generalization Error, Machine Learning
    2003; for repeated cross-validation: Bouckaert and Frank, Evaluating the Replicability of Significance Tests for
    Comparing Learning Algorithms, PAKDD 2004.
    """
    return float(np.std(values, ddof=1) * np.sqrt(1 / len(values) + ratio))


def corrected_reach(values: FloatArray, ratio: float) -> float:
    """Return half the length of the interval, by Student's t, of the mean of values [J] of overlapping splits."""
    return float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * corrected_error(values, ratio)


def interval_of(value: float, values: FloatArray, ratio: float) -> Interval:
    """Return the interval of a mean of values [J] of overlapping splits, unknown for a single one."""
    if len(values) < 2:
        return Interval(value, None, None)
    reach = corrected_reach(values, ratio)
    return Interval(value, value - reach, value + reach)
