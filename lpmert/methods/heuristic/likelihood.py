"""Log-linear models: softmax probabilities within lists, and weights that make the best hypotheses likely.

Lists are as the caller gave them; nothing is merged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, IntArray
from lpmert.lines.local_search import Clock
from lpmert.metrics.base import AdditiveMetric, Metric, losses_of_totals
from lpmert.metrics.ratio import Bleu
from lpmert.model.canonical import CanonicalWeights
from lpmert.model.problem import Problem
from lpmert.numeric.lists import first_best, list_numbers, rows_of_lists, units
from lpmert.search.method import Comparator, Found

_ITERATIONS = 10_000  # most iterations of L-BFGS


@dataclass(frozen=True)
class AllHypotheses:
    """All hypotheses of all lists: features [M, d] in canonical coordinates, offsets [S + 1], statistics [M, K].

    Probabilities, unlike decoding, depend on how often a vector occurs and on distances. So identical vectors are not
    collapsed here, and parallel lists are not merged. scale [d]: the caller's weight is a canonical weight times this.
    """

    features: FloatArray
    offsets: IntArray
    statistics: FloatArray
    scale: FloatArray

    @property
    def n_lists(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def numbers(self) -> IntArray:
        return list_numbers(self.offsets)

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the sums [S] or [S, K] of values [M] or [M, K] over each list."""
        return np.asarray(np.add.reduceat(values, self.offsets[:-1], axis=0))

    def log_probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the log-probability [M] of each hypothesis by softmax within its list, from scores [M]."""
        shifted = scores - np.maximum.reduceat(scores, self.offsets[:-1])[self.numbers]
        return np.asarray(shifted - np.log(self.sums(np.exp(shifted)))[self.numbers])

    def total(self, weights: FloatArray) -> FloatArray:
        """Return the summed statistics [K] of decoding at weights [d], the first row of a list on ties."""
        chosen = first_best(self.features @ weights, self.offsets[:-1])
        return np.asarray(self.statistics[chosen].sum(axis=0))

    def take(self, lists: IntArray) -> AllHypotheses:
        rows, offsets = rows_of_lists(self.offsets, lists)
        return AllHypotheses(self.features[rows], offsets, self.statistics[rows], self.scale)


def lists_of(problem: Problem) -> AllHypotheses:
    """Return all lists of a problem, including hypotheses and lists that its canonical form drops."""
    nbest, axes = problem.nbest, np.eye(problem.canonical.n_features)
    basis = np.column_stack([problem.to_caller(CanonicalWeights(axis)) for axis in axes])
    features = np.ascontiguousarray(nbest.dense_features() @ basis)
    return AllHypotheses(features, nbest.offsets, nbest.statistics, np.linalg.norm(basis, axis=0))


def own_losses(metric: Metric, statistics: FloatArray) -> FloatArray:
    """Return the loss [M] of each hypothesis by itself, from statistics [M, K].

    For an additive metric, this is its loss. For BLEU, 1 is added to the matches and totals of bigrams and longer
    n-grams (Lin and Och, ORANGE, COLING 2004), as PRO does. Other metrics are applied to the statistics of the single
    hypothesis.
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
    """Return the end [d] of L-BFGS from weights [d], and its counts.

    It ends once no derivative exceeds `gradient`, the relative change does not exceed `change`, or the clock has
    expired.
    """
    from scipy.optimize import minimize

    def watch(_: Any) -> None:
        if clock.expired():
            raise StopIteration

    callback: Any = watch
    options: Any = {"maxiter": _ITERATIONS, "maxfun": 2 * _ITERATIONS, "gtol": gradient, "ftol": change}
    answer = minimize(objective, weights, jac=True, method="L-BFGS-B", callback=callback, options=options)
    return np.asarray(answer.x), {"iterations": int(answer.nit), "evaluations": int(answer.nfev)}


VARIANCES = (0.03, 0.3, 3.0, 30.0, 300.0)
"""Variances tried by cross-validation, for features scaled to unit spread within lists; the narrowest comes first."""


def best_by_folds(
    lists: AllHypotheses,
    metric: Metric,
    folds: int,
    seed: int,
    path: Callable[[AllHypotheses], Iterable[FloatArray]],
) -> int:
    """Return the index of the variance with the least cross-validated loss, the smallest variance of equals.

    path: yields the weights [d] fitted to some lists, for each of `VARIANCES`.
    """
    order = np.random.default_rng(seed).permutation(lists.n_lists)
    fold = order % min(folds, lists.n_lists)
    totals = np.zeros((len(VARIANCES), lists.statistics.shape[1]))
    for number in range(int(fold.max()) + 1 if lists.n_lists > 1 else 0):
        aside = lists.take(np.flatnonzero(fold == number))
        for place, found in enumerate(path(lists.take(np.flatnonzero(fold != number)))):
            totals[place] += aside.total(found)
    return int(np.argmin([metric.loss(total) for total in totals]))


GRADIENT_TOLERANCE = 1e-9
"""L-BFGS ends once no derivative, in canonical scaling and relative to the number of lists, exceeds this."""


@dataclass(frozen=True)
class Likelihood(Comparator):
    """Conditional log-likelihood of the hypotheses of least loss, summed over ties, with a Gaussian prior.

    The prior has mean 0 and `variance` for every weight in the caller's scaling; `inf` means no prior. With `folds`,
    cross-validation chooses the variance, for features scaled to unit spread: see `best_by_folds`. Smith and Eisner
    (2006) try 0.25, 0.5, 1 and inf. If each list has a single hypothesis of least loss, the objective is convex, and
    L-BFGS ends at its optimum. Without a prior, the optimum can lie at infinity; L-BFGS then ends when no step gains
    any more.
    """

    variance: float = option(1.0, "variance of the Gaussian prior; inf for no prior", above=0)
    folds: int | None = option(
        None,
        "folds of a cross-validation that chooses the variance, for features of equal spread; none: variance as given",
        least=2,
    )

    name: ClassVar[str] = "likelihood"
    minimises = False

    @property
    def random(self) -> bool:
        return self.folds is not None

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        lists = lists_of(problem)
        weights = np.zeros(problem.canonical.n_features) if start is None else start
        counted: Counter[str] = Counter()

        def fit(sample: AllHypotheses, precision: FloatArray, begin: FloatArray) -> FloatArray:
            gold = gold_rows(sample, own_losses(problem.metric, sample.statistics))
            found, counters = minimize_smooth(
                lambda w: negative_log_likelihood(w, sample, gold, precision),
                begin,
                clock,
                gradient=GRADIENT_TOLERANCE * sample.n_lists,
            )
            counted.update(counters)
            return found

        def path(sample: AllHypotheses) -> Iterator[FloatArray]:
            # The fit for each prior starts from the fit for the next narrower one.
            spread, found = units([(sample.features, sample.offsets)]), weights
            for variance in VARIANCES:
                found = fit(sample, spread**2 / variance, found)
                yield found

        if self.folds is None:
            found = fit(lists, lists.scale**2 / self.variance, weights)
        else:
            best = best_by_folds(lists, problem.metric, self.folds, seed, path)
            found = next(islice(path(lists), best, None))
        clock.keep(found)
        return Found(found, counted)


def gold_rows(lists: AllHypotheses, losses: FloatArray) -> FloatArray:
    """Return 1 for each row [M] with the least loss of its list, else 0."""
    least = np.minimum.reduceat(losses, lists.offsets[:-1])
    return np.asarray((losses == least[lists.numbers]).astype(np.float64))


def negative_log_likelihood(
    weights: FloatArray, lists: AllHypotheses, gold: FloatArray, precision: FloatArray
) -> tuple[float, FloatArray]:
    """Return minus the log-likelihood of the gold rows [M] at canonical weights [d], and its gradient [d].

    It includes a Gaussian prior with this precision [d], up to a constant.
    """
    log_p = lists.log_probabilities(lists.features @ weights)
    p = np.exp(log_p)
    log_gold = lists.log_probabilities(np.where(gold > 0, log_p, -np.inf))
    share = np.exp(log_gold)
    first = np.maximum.reduceat(np.where(gold > 0, log_p - log_gold, -np.inf), lists.offsets[:-1])
    value = -float(first.sum()) + 0.5 * float(precision @ weights**2)
    return value, np.asarray((p - share) @ lists.features + precision * weights)
