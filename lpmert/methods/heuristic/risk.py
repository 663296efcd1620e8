"""The expected loss of choosing at random, and minimum risk annealing, which makes the choice less and less random.

Source: Smith and Eisner, Minimum Risk Annealing for Training Log-Linear Models, COLING/ACL 2006. Hypotheses have
probability softmax(gamma w.h) within their list. Losses that are sums over lists are linear in the probabilities. A
precision, an F measure or BLEU is a ratio of sums: the expected value of minus its logarithm is a weighted sum of
E[log X] over sums X of one column, and of E[max(R / A - 1, 0)] for BLEU's brevity penalty. How such an expectation is
taken is the *law*:

    mean    the function at the expected sums: the loss of the expected statistics
    taylor  the paper's: up to the second order around the expected sums
    normal  sums as a normal distribution of the same mean and variance, integrated numerically
    exact   the exact probability mass of the sums, by convolving those of the lists

Lists are drawn independently, so means and variances of sums add up over lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, MethodError
from lpmert.lines.clock import Clock
from lpmert.methods.heuristic.likelihood import HELP, AllHypotheses, fitted_by_folds, lists_of, minimize_smooth
from lpmert.metrics.base import AdditiveMetric, Metric
from lpmert.metrics.ratio import Bleu, LinearFraction
from lpmert.model.problem import Problem
from lpmert.numeric.lists import mean_difference
from lpmert.quoting import quoted
from lpmert.search.method import Comparator, Found

MEMORY_LIMIT = 1 << 26
"""Most numbers that the masses of all partial sums may hold together: half a gibibyte."""


class Convolution:
    """E[f(sums)] of one or more columns [M] of whole numbers, one row drawn from every list.

    function: takes the sums as arrays that broadcast against each other and returns f on their grid. Columns may be
    off whole numbers by an amount that is constant within each list. The slopes come from the same chain backwards:
    the derivative by a probability is the expectation with that row chosen. Raises `MethodError` if a column has
    other numbers, or the grids of the partial sums need more than `MEMORY_LIMIT` numbers.
    """

    def __init__(
        self,
        lists: AllHypotheses,
        columns: Sequence[FloatArray],
        function: Callable[[Sequence[FloatArray]], FloatArray],
    ) -> None:
        values = np.stack(columns, axis=1)
        least = np.minimum.reduceat(values, lists.offsets[:-1], axis=0)
        steps = values - least[lists.numbers]
        if not np.array_equal(steps, np.rint(steps)):
            raise MethodError("the exact law needs statistics that are whole numbers; choose law='taylor'")
        whole = steps.astype(np.int64)
        self._inverse = np.empty(len(values), dtype=np.int64)
        self._steps: list[list[tuple[int, ...]]] = []
        self._begins = [0]
        for begin, end in zip(lists.offsets[:-1].tolist(), lists.offsets[1:].tolist(), strict=True):
            distinct, inverse = np.unique(whole[begin:end], axis=0, return_inverse=True)
            self._inverse[begin:end] = self._begins[-1] + inverse.ravel()
            self._steps.append([tuple(step) for step in distinct.tolist()])
            self._begins.append(self._begins[-1] + len(distinct))
        reach = np.maximum.reduceat(whole, lists.offsets[:-1], axis=0)
        shapes = np.cumsum(np.vstack([np.ones(len(columns), dtype=np.int64), reach]), axis=0)
        self._shapes = [tuple(shape) for shape in shapes.tolist()]
        needed = float(np.prod(shapes, axis=1, dtype=np.float64).sum())
        if needed > MEMORY_LIMIT:
            raise MethodError(
                f"the exact law would need masses of {needed:.3g} numbers, more than {MEMORY_LIMIT}; "
                "choose law='taylor' or 'normal'"
            )
        axes = [base + np.arange(size) for base, size in zip(least.sum(axis=0), self._shapes[-1], strict=True)]
        self._values = function(np.meshgrid(*axes, indexing="ij", sparse=True))

    def __call__(self, probabilities: FloatArray) -> tuple[float, FloatArray]:
        """Return the expectation and its slopes [M] at probabilities [M]."""
        masses = np.bincount(self._inverse, probabilities, self._begins[-1])
        partial = [np.ones(self._shapes[0])]
        for number, steps in enumerate(self._steps):
            total = np.zeros(self._shapes[number + 1])
            for step, mass in zip(steps, masses[self._begins[number] :], strict=False):
                total[_window(step, self._shapes[number])] += mass * partial[-1]
            partial.append(total)
        value = float((partial[-1] * self._values).sum())
        slopes = np.empty(len(masses))
        ahead = self._values
        for number in range(len(self._steps) - 1, -1, -1):
            shape, begin = self._shapes[number], self._begins[number]
            before = np.zeros(shape)
            for place, step in enumerate(self._steps[number], begin):
                part = ahead[_window(step, shape)]
                slopes[place] = (partial[number] * part).sum()
                before += masses[place] * part
            ahead = before
        return value, slopes[self._inverse]


def _window(step: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(begin, begin + size) for begin, size in zip(step, shape, strict=True))


LAWS = ("mean", "taylor", "normal", "exact")

FLOOR = 0.1
"""Sums below this count as this, where their logarithm is taken: a match too few is no infinite loss."""

_NODES = 32
_LEAST_VARIANCE = 1e-12
"""Relative to the squared mean: keeps the square root of a variance differentiable when nothing is random any more."""


class Risk(Protocol):
    """An expected loss as a function of probabilities [M]."""

    def __call__(self, probabilities: FloatArray) -> tuple[float, FloatArray]:
        """Return the expected loss, and its derivative [M] by each probability up to a constant for each list."""


@dataclass(frozen=True)
class LinearRisk:
    """The expectation of a sum of losses [M]."""

    losses: FloatArray

    def __call__(self, probabilities: FloatArray) -> tuple[float, FloatArray]:
        """Return the expected sum and the losses."""
        return float(probabilities @ self.losses), self.losses


@dataclass(frozen=True)
class SumOfRisks:
    """A weighted sum of expectations."""

    terms: Sequence[tuple[float, Risk]]

    def __call__(self, probabilities: FloatArray) -> tuple[float, FloatArray]:
        """Return the weighted sum of the terms' values and slopes."""
        total, slopes = 0.0, np.zeros(len(probabilities))
        for factor, term in self.terms:
            value, slope = term(probabilities)
            total += factor * value
            slopes += factor * slope
        return total, slopes


class Moments:
    """Mean and variance of the sum of a column [M], or of two columns, over independent lists."""

    def __init__(self, lists: AllHypotheses, probabilities: FloatArray, *columns: FloatArray) -> None:
        self.columns = columns
        self.means = []
        self._centred = []
        for column in columns:
            mean = lists.sums(probabilities * column)
            self.means.append(float(mean.sum()))
            self._centred.append(column - mean[lists.numbers])
        self._probabilities = probabilities

    def covariance(self, a: int, b: int) -> tuple[float, FloatArray]:
        """Return the covariance of two of the sums, and its slopes [M]."""
        slopes = self._centred[a] * self._centred[b]
        return float(self._probabilities @ slopes), slopes


@dataclass(frozen=True)
class ExpectedLog:
    """E[log X] of the sum X of a column [M]."""

    lists: AllHypotheses
    column: FloatArray
    law: str

    def __call__(self, probabilities: FloatArray) -> tuple[float, FloatArray]:
        """Return the expectation and its slopes [M]."""
        moments = Moments(self.lists, probabilities, self.column)
        mean = moments.means[0]
        if self.law == "mean":
            return float(np.log(max(mean, FLOOR))), self.column / max(mean, FLOOR)
        variance, slopes = moments.covariance(0, 0)
        if self.law == "taylor":
            mean = max(mean, FLOOR)
            value = np.log(mean) - variance / (2 * mean**2)
            return float(value), (1 / mean + variance / mean**3) * self.column - slopes / (2 * mean**2)
        ridge = _LEAST_VARIANCE * mean
        spread = np.sqrt(variance + ridge * mean)
        nodes, weights = _standard_normal()
        points = mean + spread * nodes
        steep = np.where(points > FLOOR, weights / np.maximum(points, FLOOR), 0.0)
        by_spread = float(steep @ nodes) / (2 * spread)
        by_mean = float(steep.sum()) + 2 * ridge * by_spread
        return float(weights @ np.log(np.maximum(points, FLOOR))), by_mean * self.column + by_spread * slopes


@dataclass(frozen=True)
class ExpectedBrevity:
    """E[max(R / A - 1, 0)], minus the logarithm of BLEU's brevity penalty, of the lengths A and references R [M]."""

    lists: AllHypotheses
    lengths: FloatArray
    references: FloatArray
    law: str

    def __call__(self, probabilities: FloatArray) -> tuple[float, FloatArray]:
        """Return the expectation and its slopes [M]."""
        moments = Moments(self.lists, probabilities, self.lengths, self.references)
        if self.law == "normal":
            return self._normal(moments)
        length, reference = max(moments.means[0], FLOOR), moments.means[1]
        if reference <= length:
            return 0.0, np.zeros(len(self.lengths))
        value = reference / length - 1
        slopes = self.references / length - reference / length**2 * self.lengths
        if self.law == "taylor":
            spread, by_spread = moments.covariance(0, 0)
            joint, by_joint = moments.covariance(0, 1)
            value += reference * spread / length**3 - joint / length**2
            slopes += (spread / length**3) * self.references + by_spread * reference / length**3
            slopes += (2 * joint / length**3 - 3 * reference * spread / length**4) * self.lengths
            slopes -= by_joint / length**2
        return value, slopes

    def _normal(self, moments: Moments) -> tuple[float, FloatArray]:
        """Integrate over lengths and references as a bivariate normal distribution, in Cholesky coordinates."""
        length, reference = moments.means
        variance, by_variance = moments.covariance(0, 0)
        joint, by_joint = moments.covariance(0, 1)
        other, by_other = moments.covariance(1, 1)
        least = _LEAST_VARIANCE * max(length**2, 1.0)
        first = np.sqrt(variance + least)
        slant = joint / first
        second = np.sqrt(max(other - slant**2, 0.0) + least)
        nodes, weights = _standard_normal()
        lengths = np.maximum(length + first * nodes, FLOOR)[:, None]
        references = reference + slant * nodes[:, None] + second * nodes[None, :]
        weight = np.where(references > lengths, weights[:, None] * weights[None, :], 0.0)
        value = float((weight * (references / lengths - 1)).sum())
        by_length = -weight * references / lengths**2 * (length + first * nodes > FLOOR)[:, None]
        by_reference = weight / lengths
        by_first = float((by_length.sum(axis=1) * nodes).sum())
        by_slant = float((by_reference.sum(axis=1) * nodes).sum())
        by_second = float((by_reference.sum(axis=0) * nodes).sum())
        if other <= slant**2:
            by_second = 0.0
        by_slant -= by_second * slant / second
        by_first -= by_slant * slant / first
        slopes = float(by_length.sum()) * self.lengths + float(by_reference.sum()) * self.references
        slopes += by_first / (2 * first) * by_variance + by_slant / first * by_joint
        slopes += by_second / (2 * second) * by_other
        return value, slopes


def risk_of(metric: Metric, lists: AllHypotheses, law: str = "taylor") -> Risk:
    """Return the expected loss of a metric on these lists, where it is additive, else that of a logarithm.

    A fraction is a sum where its denominator does not hang on the choice. Else the logarithm is minus that of the score
    for scores of which more is better, and that of the loss for error rates. Raises `MethodError` for other metrics
    than sums, fractions and BLEU, for an unknown law, and where the exact law needs statistics that are no whole
    numbers or too much memory.
    """
    if law not in LAWS:
        raise MethodError(f"law={quoted(law)} is none of {', '.join(LAWS)}")
    statistics = lists.statistics
    if isinstance(metric, AdditiveMetric):
        return LinearRisk(np.asarray(metric.losses(statistics), dtype=np.float64))
    if isinstance(metric, Bleu):
        matches = [(-0.25, _expected_log(lists, statistics[:, column], law)) for column in range(0, 8, 2)]
        totals = [(0.25, _expected_log(lists, statistics[:, column], law)) for column in range(1, 8, 2)]
        return SumOfRisks([*matches, *totals, (1.0, _expected_brevity(lists, statistics[:, 1], statistics[:, 8], law))])
    if isinstance(metric, LinearFraction):
        above = statistics @ np.array(metric.numerator, dtype=np.float64)
        below = statistics @ np.array(metric.denominator, dtype=np.float64)
        first = below[lists.offsets[:-1]]
        if np.array_equal(below, first[lists.numbers]):
            return LinearRisk(above / max(float(first.sum()), FLOOR))
        good = below - above if metric.higher_is_better else above
        sign = -1.0 if metric.higher_is_better else 1.0
        return SumOfRisks([(sign, _expected_log(lists, good, law)), (-sign, _expected_log(lists, below, law))])
    raise MethodError(f"no expected loss is known for metric {quoted(metric.name)}")


def _expected_log(lists: AllHypotheses, column: FloatArray, law: str) -> Risk:
    if law != "exact":
        return ExpectedLog(lists, column, law)

    def function(sums: Sequence[FloatArray]) -> FloatArray:
        return np.asarray(np.log(np.maximum(sums[0], FLOOR)))

    return Convolution(lists, [column], function)


def _expected_brevity(lists: AllHypotheses, lengths: FloatArray, references: FloatArray, law: str) -> Risk:
    if law != "exact":
        return ExpectedBrevity(lists, lengths, references, law)

    def function(sums: Sequence[FloatArray]) -> FloatArray:
        return np.asarray(np.maximum(sums[1] / np.maximum(sums[0], FLOOR) - 1.0, 0.0))

    return Convolution(lists, [lengths, references], function)


@cache
def _standard_normal() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of Gauss and Hermite's rule for a normal distribution of mean 0 and variance 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return np.asarray(nodes), np.asarray(weights / np.sqrt(2 * np.pi))


SCHEDULES = ("entropy", "gamma", "fixed")

_MOST_DOUBLINGS = 40
_GRADIENT, _CHANGE = 1e-8, 1e-10
"""Where L-BFGS ends at one step of the schedule."""


class Step(NamedTuple):
    """One step of a schedule: the temperature that multiplies the entropy, and the sharpness gamma."""

    temperature: float
    gamma: float


@dataclass(frozen=True)
class Annealing(Comparator):
    """Minimise the expected loss, by L-BFGS with exact gradients, from a random choice towards a certain one.

    schedule "entropy": the objective is risk - T * entropy. T is halved from `first_temperature` (the paper takes 100,
    200 or 1000) to `last_temperature` (0.01 or 0.001); then the choice is quenched: T is 0 and gamma is doubled until
    the risk changes by no more than `tolerance`, relative. schedule "gamma": gamma is doubled from `first_gamma` on
    until then, and T is 0. schedule "fixed": one step, T 0 and gamma 1; its `folds` choose the variance, and count
    weights in units of the features' spread and risk in units of the mean difference between two hypotheses of a list:
    see `fitted_by_folds`. Each objective has the term |w|^2 / (2 variance) on the caller's weights; `inf` means none,
    and is what the schedule "entropy" takes unless told otherwise, "gamma" takes 1.
    The loss of a metric that is not additive counts once for every list, so that the same numbers serve.

    law: how the expected loss is taken, see above. held_out: the share of the lists, drawn by the seed, that
    are left out of the objective; the weights of the step that decodes them with the least loss are
    returned. (The paper stops the cooling at the first rise; that often ends in the noise of the first, nearly random
    steps.) Otherwise the last weights are returned, or the best ones so far where a limit stops the run. The method
    starts from weights 0 unless others are given.
    """

    schedule: str = option("entropy", "what falls: the temperature, or the uncertainty, or nothing", choices=SCHEDULES)
    law: str = option("taylor", "how the expected loss is taken, see lpmert.methods.heuristic.risk", choices=LAWS)
    first_temperature: float = option(1000.0, "T0 of the schedule entropy; the paper takes 100, 200 or 1000", above=0)
    last_temperature: float = option(0.001, "where that schedule ends; the paper takes 0.01 or 0.001", above=0)
    first_gamma: float = option(0.1, "where the schedule gamma begins", above=0)
    variance: float | None = option(
        None, "of the Gaussian prior; inf for none, as in the schedule entropy by default; 1 in that of gamma", above=0
    )
    tolerance: float = option(1e-5, "relative change of the risk at which it ends", above=0)
    held_out: float = option(0.0, "share of the lists left out of the objective, to choose a step", least=0, below=1)
    folds: int | None = option(None, f"in the schedule fixed: {HELP}", least=2)

    name: ClassVar[str] = "annealing"
    minimises = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.folds is not None and self.schedule != "fixed":
            raise MethodError(f"folds choose the variance in the schedule fixed only, not in {self.schedule}")

    @property
    def random(self) -> bool:
        return self.held_out > 0.0 or self.folds is not None

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        lists = lists_of(problem)
        aside = None
        if self.held_out:
            order = np.random.default_rng(seed).permutation(lists.n_lists)
            count = min(max(1, round(self.held_out * lists.n_lists)), lists.n_lists - 1)
            if count:
                aside, lists = lists.take(np.sort(order[:count])), lists.take(np.sort(order[count:]))
        weights = np.zeros(problem.canonical.n_features) if start is None else start
        if self.folds is not None:
            return self._by_folds(lists, problem.metric, weights, self.folds, seed, clock)
        return self.anneal(lists, problem.metric, weights, clock, aside)

    def _by_folds(
        self, lists: AllHypotheses, metric: Metric, weights: FloatArray, folds: int, seed: int, clock: Clock
    ) -> Found:
        """Return the weights of least risk with the prior that costs least on parts left out."""
        steps = 0

        def fit(some: AllHypotheses, precision: FloatArray, begin: FloatArray) -> FloatArray:
            nonlocal steps
            risk = self._risk(some, metric)
            slopes = risk(np.repeat(1.0 / np.diff(some.offsets), np.diff(some.offsets)))[1]
            unit = mean_difference(slopes, some.offsets) or 1.0
            objective = Objective(some, risk, Step(0.0, 1.0), unit * precision)
            steps += 1
            return minimize_smooth(objective, begin, clock, gradient=_GRADIENT, change=_CHANGE)[0]

        found, _ = fitted_by_folds(lists, metric, weights, folds, seed, fit)
        clock.keep(found)
        return Found(found, {"schedule_steps": steps})

    def _risk(self, lists: AllHypotheses, metric: Metric) -> Risk:
        """Return the expected loss, times the lists where it is no sum over these."""
        share = 1.0 if isinstance(metric, AdditiveMetric) else float(lists.n_lists)
        return SumOfRisks([(share, risk_of(metric, lists, self.law))])

    def anneal(
        self,
        lists: AllHypotheses,
        metric: Metric,
        weights: FloatArray,
        clock: Clock,
        held_out: AllHypotheses | None = None,
    ) -> Found:
        """Return the end of the schedule on these lists, begun at canonical weights [d]; see the class."""
        risk = self._risk(lists, metric)
        best, least = weights, inf
        last = inf
        steps = 0
        for step in self._steps():
            objective = Objective(lists, risk, step, self._precision(lists))
            weights, _ = minimize_smooth(objective, weights, clock, gradient=_GRADIENT, change=_CHANGE)
            steps += 1
            clock.keep(weights)
            if clock.expired(0):
                return Found(weights if clock.best is None else clock.best, {"schedule_steps": steps})
            if held_out is not None:
                loss = metric.loss(held_out.statistics[held_out.chosen(weights)].sum(axis=0))
                if loss <= least:
                    best, least = weights, loss
            if step.temperature == 0.0:
                value = objective.expected_loss(weights)
                if abs(last - value) <= self.tolerance * abs(value):
                    break
                last = value
        return Found(weights if held_out is None else best, {"schedule_steps": steps})

    def _steps(self) -> Iterator[Step]:
        if self.schedule == "fixed":
            yield Step(0.0, 1.0)
            return
        gamma = self.first_gamma
        if self.schedule == "entropy":
            gamma = 1.0
            temperature = self.first_temperature
            while temperature >= self.last_temperature:
                yield Step(temperature, gamma)
                temperature /= 2
        for _ in range(_MOST_DOUBLINGS):
            yield Step(0.0, gamma)
            gamma *= 2

    def _precision(self, lists: AllHypotheses) -> FloatArray:
        usual = inf if self.schedule == "entropy" else 1.0
        return np.asarray(lists.scale**2 / (usual if self.variance is None else self.variance))


@dataclass(frozen=True)
class Objective:
    """What one step minimises: risk - T * entropy + the prior's precision [d] times squared weights / 2."""

    lists: AllHypotheses
    risk: Risk
    step: Step
    precision: FloatArray

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective and its gradient [d] at canonical weights [d]."""
        temperature, gamma = self.step
        log_p = self.lists.log_probabilities(gamma * (self.lists.features @ weights))
        p = np.exp(log_p)
        value, slopes = self.risk(p)
        value += 0.5 * float(self.precision @ weights**2)
        if temperature > 0.0:
            value += temperature * float(p @ log_p)
            slopes = slopes + temperature * log_p
        return value, gamma * self.lists.back_to_weights(p, slopes) + self.precision * weights

    def expected_loss(self, weights: FloatArray) -> float:
        """Return the risk alone."""
        return self.risk(self.lists.probabilities(self.step.gamma * weights))[0]
