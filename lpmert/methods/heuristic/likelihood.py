"""Maximum likelihood: the weights that give the hypotheses of least loss the largest probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray
from lpmert.lines.clock import Clock
from lpmert.methods.heuristic.prior import HELP, fitted_by_folds
from lpmert.methods.heuristic.softmax import AllHypotheses, lists_of, minimize_smooth, own_losses
from lpmert.model.problem import Problem
from lpmert.search.run import Comparator, Found

GRADIENT_TOLERANCE = 1e-9
"""L-BFGS ends where no derivative, in canonical scaling and relative to the number of lists, is larger."""


@dataclass(frozen=True)
class Likelihood(Comparator):
    """Conditional log-likelihood of the hypotheses of least loss, tied ones summed, with a Gaussian prior.

    The prior has mean 0 and `variance` for every weight in the caller's scaling; `inf` means none. `folds` choose the
    variance, and count weights in units of the features' spread: see prior.py. Smith and Eisner
    (2006) try 0.25, 0.5, 1 and inf. The objective is convex where each list has one hypothesis of least loss, and
    L-BFGS ends at its optimum; without a prior that can lie at infinity, and then the weights are those at which no
    step gains any more.
    """

    variance: float = option(1.0, "of the Gaussian prior; inf for none", above=0)
    folds: int | None = option(None, HELP, least=2)

    name: ClassVar[str] = "likelihood"
    minimises = False

    @property
    def random(self) -> bool:
        """Whether the seed matters: it draws the parts."""
        return self.folds is not None

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the optimum of the likelihood."""
        lists = lists_of(problem)
        weights = np.zeros(problem.canonical.n_features) if start is None else start
        counted: dict[str, int] = {}

        def fit(some: AllHypotheses, precision: FloatArray, begin: FloatArray) -> FloatArray:
            gold = gold_rows(some, own_losses(problem.metric, some.statistics))
            found, counters = minimize_smooth(
                lambda w: negative_log_likelihood(w, some, gold, precision),
                begin,
                clock,
                gradient=GRADIENT_TOLERANCE * some.n_lists,
            )
            counted.update({name: counted.get(name, 0) + count for name, count in counters.items()})
            return found

        if self.folds is None:
            found = fit(lists, lists.scale**2 / self.variance, weights)
        else:
            found, _ = fitted_by_folds(lists, problem.metric, weights, self.folds, seed, fit)
        clock.keep(found)
        return Found(found, counted)


def gold_rows(lists: AllHypotheses, losses: FloatArray) -> FloatArray:
    """Return 1 for each row [M] whose loss is the least of its list, else 0."""
    least = np.minimum.reduceat(losses, lists.offsets[:-1])
    return np.asarray((losses == least[lists.numbers]).astype(np.float64))


def negative_log_likelihood(
    weights: FloatArray, lists: AllHypotheses, gold: FloatArray, precision: FloatArray
) -> tuple[float, FloatArray]:
    """Return minus the log-likelihood of the gold rows [M] at canonical weights [d], and its gradient [d].

    The Gaussian prior of this precision [d] is part of it, up to a constant.
    """
    log_p = lists.log_probabilities(lists.features @ weights)
    p = np.exp(log_p)
    log_gold = lists.log_probabilities(np.where(gold > 0, log_p, -np.inf))
    share = np.exp(log_gold)
    first = np.maximum.reduceat(np.where(gold > 0, log_p - log_gold, -np.inf), lists.offsets[:-1])
    value = -float(first.sum()) + 0.5 * float(precision @ weights**2)
    return value, np.asarray((p - share) @ lists.features + precision * weights)
