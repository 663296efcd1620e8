"""The expected loss of choosing hypotheses at random, and its slopes by their probabilities.

Source: Smith and Eisner, Minimum Risk Annealing for Training Log-Linear Models, COLING/ACL 2006. Losses that
are sums over lists are linear in the probabilities. A precision, an F measure or BLEU is a ratio of sums: the expected
value of minus its logarithm is a weighted sum of E[log X] over sums X of one column, and of E[max(R / A - 1, 0)] for
BLEU's brevity penalty. How such an expectation is taken is the *law*:

    mean    the function at the expected sums: the loss of the expected statistics
    taylor  the paper's: up to the second order around the expected sums
    normal  sums as a normal distribution of the same mean and variance, integrated numerically
    exact   the exact probability mass of the sums, by convolution (lpmert.methods.heuristic.convolution)

Lists are drawn independently, so means and variances of sums add up over lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np

from lpmert.errors import FloatArray, MethodError
from lpmert.methods.heuristic.convolution import Convolution
from lpmert.methods.heuristic.softmax import AllHypotheses
from lpmert.metrics.base import AdditiveMetric, Metric
from lpmert.metrics.ratio import Bleu, LinearFraction
from lpmert.quoting import quoted

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
