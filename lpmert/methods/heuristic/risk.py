"""Minimum risk annealing: minimise the expected loss of a random choice, and make the choice less and less random.

Source: Smith and Eisner, Minimum Risk Annealing for Training Log-Linear Models, COLING/ACL 2006. Hypotheses have
probability softmax(gamma w.h) within their list. Additive losses are linear in the probabilities. Precision, F measures
and BLEU are ratios of sums: the expectation of minus the logarithm is a weighted sum of E[log X] over sums X of a
column and, for BLEU's brevity penalty, of E[max(R / A - 1, 0)]. As in the paper, these expectations are approximated to
second order around the expected sums. Lists are drawn independently, so means and variances of sums add up over lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, MethodError
from lpmert.lines.local_search import Clock
from lpmert.methods.heuristic.likelihood import AllHypotheses, lists_of, minimize_smooth
from lpmert.metrics.base import AdditiveMetric, Metric
from lpmert.metrics.ratio import Bleu, LinearFraction
from lpmert.model.problem import Problem
from lpmert.quoting import quoted
from lpmert.search.method import Comparator, Found

FLOOR = 0.1  # least sum of which a logarithm is taken, so that a missing match is no infinite loss


Risk = Callable[[FloatArray], tuple[float, FloatArray]]
"""Maps probabilities [M] to an expectation and its derivatives [M], which may be off by a constant for each list."""


def linear_risk(losses: FloatArray) -> Risk:
    """Return the expectation of a sum of losses [M]."""
    return lambda probabilities: (float(probabilities @ losses), losses)


def sum_of_risks(terms: Sequence[tuple[float, Risk]]) -> Risk:
    """Return a weighted sum of expectations."""

    def expected(probabilities: FloatArray) -> tuple[float, FloatArray]:
        total, slopes = 0.0, np.zeros(len(probabilities))
        for factor, term in terms:
            value, slope = term(probabilities)
            total += factor * value
            slopes += factor * slope
        return total, slopes

    return expected


def _centred(lists: AllHypotheses, probabilities: FloatArray, column: FloatArray) -> tuple[float, FloatArray]:
    """Return the mean of the sum of a column [M] over all lists, and the column less its mean in each list."""
    means = lists.sums(probabilities * column)
    return float(means.sum()), column - means[lists.numbers]


def expected_log(lists: AllHypotheses, column: FloatArray) -> Risk:
    """Return E[log X] of the sum X of a column [M]."""

    def expected(probabilities: FloatArray) -> tuple[float, FloatArray]:
        mean, centred = _centred(lists, probabilities, column)
        mean, squares = max(mean, FLOOR), centred * centred
        variance = float(probabilities @ squares)
        value = np.log(mean) - variance / (2 * mean**2)
        return float(value), (1 / mean + variance / mean**3) * column - squares / (2 * mean**2)

    return expected


def expected_brevity(lists: AllHypotheses, lengths: FloatArray, references: FloatArray) -> Risk:
    """Return E[max(R / A - 1, 0)] of the sums A, R of lengths [M]: minus the expected logarithm of BLEU's penalty."""

    def expected(probabilities: FloatArray) -> tuple[float, FloatArray]:
        length, centred = _centred(lists, probabilities, lengths)
        reference, centred_reference = _centred(lists, probabilities, references)
        length = max(length, FLOOR)
        if reference <= length:
            return 0.0, np.zeros(len(lengths))
        by_spread, by_joint = centred * centred, centred * centred_reference
        spread, joint = float(probabilities @ by_spread), float(probabilities @ by_joint)
        value = reference / length - 1 + reference * spread / length**3 - joint / length**2
        slopes = references / length - reference / length**2 * lengths
        slopes += (spread / length**3) * references + by_spread * reference / length**3
        slopes += (2 * joint / length**3 - 3 * reference * spread / length**4) * lengths
        return value, slopes - by_joint / length**2

    return expected


def risk_of(metric: Metric, lists: AllHypotheses) -> Risk:
    """Return the expected loss of a metric on these lists: of the loss itself if it is additive, else of a logarithm.

    A fraction whose denominator does not depend on the choices is additive. For other metrics, the expectation is that
    of minus the log-score if higher scores are better, and of the log-loss for error rates. Raises `MethodError` for
    metrics other than sums, fractions and BLEU.
    """
    statistics = lists.statistics
    if isinstance(metric, AdditiveMetric):
        return linear_risk(np.asarray(metric.losses(statistics), dtype=np.float64))
    if isinstance(metric, Bleu):
        matches = [(-0.25, expected_log(lists, statistics[:, column])) for column in range(0, 8, 2)]
        totals = [(0.25, expected_log(lists, statistics[:, column])) for column in range(1, 8, 2)]
        return sum_of_risks([*matches, *totals, (1.0, expected_brevity(lists, statistics[:, 1], statistics[:, 8]))])
    if isinstance(metric, LinearFraction):
        above = statistics @ np.array(metric.numerator, dtype=np.float64)
        below = statistics @ np.array(metric.denominator, dtype=np.float64)
        first = below[lists.offsets[:-1]]
        if np.array_equal(below, first[lists.numbers]):
            return linear_risk(above / max(float(first.sum()), FLOOR))
        good = below - above if metric.higher_is_better else above
        sign = -1.0 if metric.higher_is_better else 1.0
        return sum_of_risks([(sign, expected_log(lists, good)), (-sign, expected_log(lists, below))])
    raise MethodError(f"no expected loss is known for metric {quoted(metric.name)}")


SCHEDULES = ("entropy", "gamma")

_MOST_DOUBLINGS = 40  # most doublings of gamma
_FIRST_GAMMA = 0.1  # first gamma of the schedule gamma
_TOLERANCE = 1e-5  # relative change of the risk at which a schedule ends
_GRADIENT, _CHANGE = 1e-8, 1e-10  # tolerances of L-BFGS at one step of the schedule


@dataclass(frozen=True)
class Annealing(Comparator):
    """Minimise the expected loss, by L-BFGS with exact gradients, from a random choice towards a deterministic one.

    schedule "entropy": the objective is risk - T * entropy. T is halved from `first_temperature` (the paper takes 100,
    200 or 1000) to `last_temperature` (0.01 or 0.001). Then T is 0, and gamma is doubled until the risk hardly changes.
    schedule "gamma": T is 0, and gamma is doubled from 0.1 until the risk hardly changes. Every objective includes
    |w|^2 / (2 variance) on the caller's weights; `inf` means no such term. The default variance is `inf` for "entropy"
    and 1 for "gamma". The loss of a metric that is not additive is multiplied by the number of lists, so that the same
    temperatures serve.

    held_out: share of the lists, drawn by the seed, that the objective leaves out; the result is the weights of the
    step that decodes them with the least loss. (The paper stops cooling at the first rise; that often ends in the noise
    of the first, nearly random steps.) Otherwise the last weights are returned, or the best ones so far if a limit
    stops the run. The method starts from weights 0 unless others are given.
    """

    schedule: str = option("entropy", "how the choice becomes certain: by entropy or by gamma", choices=SCHEDULES)
    first_temperature: float = option(1000.0, "first T of schedule entropy; the paper takes 100, 200 or 1000", above=0)
    last_temperature: float = option(0.001, "last T of that schedule; the paper takes 0.01 or 0.001", above=0)
    variance: float | None = option(
        None, "variance of the Gaussian prior; inf for no prior; none: inf for entropy, 1 for gamma", above=0
    )
    held_out: float = option(0.0, "share of the lists held out to choose a step of the schedule", least=0, below=1)

    name: ClassVar[str] = "annealing"
    minimises = False

    @property
    def random(self) -> bool:
        return self.held_out > 0.0

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        weights = np.zeros(problem.canonical.n_features) if start is None else start
        lists = lists_of(problem)
        aside = None
        if self.held_out:
            order = np.random.default_rng(seed).permutation(lists.n_lists)
            count = min(max(1, round(self.held_out * lists.n_lists)), lists.n_lists - 1)
            if count:
                aside, lists = lists.take(np.sort(order[:count])), lists.take(np.sort(order[count:]))
        share = 1.0 if isinstance(problem.metric, AdditiveMetric) else float(lists.n_lists)
        risk = sum_of_risks([(share, risk_of(problem.metric, lists))])
        usual = inf if self.schedule == "entropy" else 1.0
        precision = np.asarray(lists.scale**2 / (usual if self.variance is None else self.variance))
        best, least, last, steps = weights, inf, inf, 0
        for steps, (temperature, gamma) in enumerate(self._steps(), 1):
            objective = partial(annealed, lists, risk, precision, temperature, gamma)
            weights, _ = minimize_smooth(objective, weights, clock, gradient=_GRADIENT, change=_CHANGE)
            clock.keep(weights)
            if clock.expired(0):
                return Found(weights if clock.best is None else clock.best, {"schedule_steps": steps})
            loss = inf if aside is None else problem.metric.loss(aside.total(weights))
            if loss <= least:
                best, least = weights, loss
            if temperature == 0.0:
                value, _ = risk(np.exp(lists.log_probabilities(gamma * (lists.features @ weights))))
                if abs(last - value) <= _TOLERANCE * abs(value):
                    break
                last = value
        return Found(best, {"schedule_steps": steps})

    def _steps(self) -> Iterator[tuple[float, float]]:
        """Yield the temperature that multiplies the entropy, and the sharpness gamma, of each step."""
        gamma = _FIRST_GAMMA
        if self.schedule == "entropy":
            gamma = 1.0
            temperature = self.first_temperature
            while temperature >= self.last_temperature:
                yield temperature, gamma
                temperature /= 2
        for _ in range(_MOST_DOUBLINGS):
            yield 0.0, gamma
            gamma *= 2


def annealed(
    lists: AllHypotheses, risk: Risk, precision: FloatArray, temperature: float, gamma: float, weights: FloatArray
) -> tuple[float, FloatArray]:
    """Return the objective of a step at canonical weights [d], and its gradient [d]; precision [d]: of the prior."""
    log_p = lists.log_probabilities(gamma * (lists.features @ weights))
    p = np.exp(log_p)
    value, slopes = risk(p)
    if temperature > 0.0:
        value, slopes = value + temperature * float(p @ log_p), slopes + temperature * log_p
    by_score = p * (slopes - lists.sums(p * slopes)[lists.numbers])
    prior = 0.5 * float(precision @ weights**2)
    return value + prior, gamma * (by_score @ lists.features) + precision * weights
