"""The lists of a problem as the comparators with smooth objectives see them: as given, nothing merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.lines.clock import Clock
from lpmert.metrics.base import AdditiveMetric, Metric, losses_of_totals
from lpmert.metrics.ratio import Bleu
from lpmert.model.canonical import list_numbers, rows_of_lists
from lpmert.model.coordinates import CanonicalWeights
from lpmert.model.problem import Problem
from lpmert.quoting import quoted

_ITERATIONS = 10_000


@dataclass(frozen=True)
class AllHypotheses:
    """All hypotheses of all lists: features [M, d] in canonical coordinates, offsets [S + 1], statistics [M, K].

    Unlike decoding, probabilities see how often a vector occurs and how far apart two are, so identical vectors are
    not collapsed here and parallel lists not merged. scale [d]: a canonical weight times this is the caller's.
    """

    features: FloatArray
    offsets: IntArray
    statistics: FloatArray
    scale: FloatArray

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return len(self.offsets) - 1

    @cached_property
    def numbers(self) -> IntArray:
        """The list number [M] of every row."""
        return list_numbers(self.offsets)

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the sum [S] or [S, K] of values [M] or [M, K] over each list."""
        return np.asarray(np.add.reduceat(values, self.offsets[:-1], axis=0))

    def log_probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the logarithm [M] of each hypothesis's softmax within its list, from scores [M]."""
        shifted = scores - np.maximum.reduceat(scores, self.offsets[:-1])[self.numbers]
        return np.asarray(shifted - np.log(self.sums(np.exp(shifted)))[self.numbers])

    def probabilities(self, weights: FloatArray) -> FloatArray:
        """Return the softmax [M] of the scores at weights [d]."""
        return np.asarray(np.exp(self.log_probabilities(self.features @ weights)))

    def back_to_weights(self, probabilities: FloatArray, slopes: FloatArray) -> FloatArray:
        """Return the gradient [d] by the weights from slopes [M] by the probabilities [M]."""
        mean = self.sums(probabilities * slopes)
        return np.asarray((probabilities * (slopes - mean[self.numbers])) @ self.features)

    def chosen(self, weights: FloatArray) -> IntArray:
        """Return the row [S] that each list decodes to at weights [d], the first on ties."""
        return first_best(self.features @ weights, self.offsets)

    def take(self, lists: IntArray) -> AllHypotheses:
        """Return only these lists."""
        rows, offsets = rows_of_lists(self.offsets, lists)
        return AllHypotheses(self.features[rows], offsets, self.statistics[rows], self.scale)


def lists_of(problem: Problem) -> AllHypotheses:
    """Return all lists of a problem, whatever its canonical form dropped."""
    basis = np.column_stack(
        [problem.to_caller(CanonicalWeights(axis)) for axis in np.eye(problem.canonical.n_features)]
    )
    features = np.ascontiguousarray(problem.nbest.dense_features() @ basis)
    return AllHypotheses(features, problem.nbest.offsets, problem.nbest.statistics, np.linalg.norm(basis, axis=0))


def first_best(scores: FloatArray, offsets: IntArray) -> IntArray:
    """Return the row [S] of the largest of scores [M] in each list, the first on ties."""
    numbers = list_numbers(offsets)
    best = np.flatnonzero(scores == np.maximum.reduceat(scores, offsets[:-1])[numbers])
    first = np.ones(len(best), dtype=bool)
    first[1:] = numbers[best[1:]] != numbers[best[:-1]]
    return best[first]


def own_losses(metric: Metric, statistics: FloatArray) -> FloatArray:
    """Return the loss [M] of each hypothesis by itself, from statistics [M, K].

    An additive metric gives it. BLEU adds 1 to matches and totals of two words and more (Lin and Och, ORANGE, COLING
    2004), as PRO does. Other metrics are applied to the statistics of the one hypothesis.
    """
    if isinstance(metric, AdditiveMetric):
        return np.asarray(metric.losses(statistics), dtype=np.float64)
    if isinstance(metric, Bleu):
        statistics = statistics.copy()
        statistics[:, 2:8] += 1.0
    return losses_of_totals(metric, statistics)


def minimize_smooth(
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    weights: FloatArray,
    clock: Clock,
    *,
    gradient: float,
    change: float = 0.0,
) -> tuple[FloatArray, Mapping[str, int]]:
    """Return where L-BFGS ends, and what it counted, begun at weights [d].

    It ends once no derivative is larger than `gradient`, the relative change is not larger than `change`, or the clock
    has expired.
    """
    from scipy.optimize import minimize

    def watch(_: Any) -> None:
        if clock.expired():
            raise StopIteration

    callback: Any = watch
    options: Any = {"maxiter": _ITERATIONS, "maxfun": 2 * _ITERATIONS, "gtol": gradient, "ftol": change}
    answer = minimize(objective, weights, jac=True, method="L-BFGS-B", callback=callback, options=options)
    return np.asarray(answer.x), {"iterations": int(answer.nit), "evaluations": int(answer.nfev)}


def positive(method: str, **settings: float) -> None:
    """Raise `MethodError` unless every setting is above 0."""
    for name, value in settings.items():
        if not value > 0:
            raise MethodError(f"{name} of method {quoted(method)} must be above 0, not {quoted(value)}")
