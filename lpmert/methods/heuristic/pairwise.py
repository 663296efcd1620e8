"""PRO: rank sampled pairs of hypotheses of one list by logistic regression.

Source: Hopkins and May, Tuning as Ranking, EMNLP 2011.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, IntArray
from lpmert.lines.clock import Clock
from lpmert.methods.heuristic.softmax import AllHypotheses, lists_of, minimize_smooth, own_losses
from lpmert.model.problem import Problem
from lpmert.search.run import Comparator, Found
from lpmert.system.deadline import out_of_time

_GRADIENT_TOLERANCE = 1e-7
"""Where L-BFGS ends, relative to the number of pairs."""


@dataclass(frozen=True)
class Pro(Comparator):
    """Logistic regression of which of two hypotheses has the smaller loss, on the difference of their features.

    From each list `samples` pairs are drawn (the paper's Gamma, 5000), those whose losses differ by less than
    `least_difference` (its alpha, 0.05) are dropped, and the `pairs` that differ most (its Xi, 50) are kept. The losses
    are those of the hypotheses by themselves, BLEU's smoothed by 1. The prior on the caller's weights is Gaussian with
    mean 0 and `variance`; `inf` means none.
    """

    samples: int = option(5000, "pairs drawn from each list, the paper's Gamma", least=1)
    pairs: int = option(50, "pairs kept of these, the paper's Xi", least=1)
    least_difference: float = option(0.05, "of the losses of a pair, the paper's alpha", least=0)
    variance: float = option(1.0, "of the Gaussian prior; inf for none", above=0)

    name: ClassVar[str] = "pro"
    minimises = False

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the weights that rank the sampled pairs best; all zeros where no pair differs enough."""
        lists = lists_of(problem)
        better, worse = self.sample(lists, own_losses(problem.metric, lists.statistics), np.random.default_rng(seed))
        weights = np.zeros(problem.canonical.n_features) if start is None else start
        if not len(better):
            return Found(weights, {"pairs": 0})
        differences = lists.features[better] - lists.features[worse]
        found, counters = minimize_smooth(
            lambda w: logistic_loss(w, differences, lists.scale**2 / self.variance),
            weights,
            clock,
            gradient=_GRADIENT_TOLERANCE * len(better),
        )
        clock.keep(found)
        return Found(found, {"pairs": len(better), **counters})

    def sample(self, lists: AllHypotheses, losses: FloatArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Return for every kept pair the row of smaller and the row of larger loss [M].

        Where time runs out, the pairs are those of the first lists.
        """
        better, worse = [], []
        for begin, end in zip(lists.offsets[:-1].tolist(), lists.offsets[1:].tolist(), strict=True):
            first, second = rng.integers(begin, end, (2, self.samples))
            difference = losses[second] - losses[first]
            apart = np.flatnonzero((np.abs(difference) >= self.least_difference) & (difference != 0.0))
            kept = apart[np.argsort(-np.abs(difference[apart]), kind="stable")[: self.pairs]]
            swapped = difference[kept] < 0
            better.append(np.where(swapped, second[kept], first[kept]))
            worse.append(np.where(swapped, first[kept], second[kept]))
            if out_of_time():
                break
        return np.concatenate(better), np.concatenate(worse)


def logistic_loss(weights: FloatArray, differences: FloatArray, precision: FloatArray) -> tuple[float, FloatArray]:
    """Return minus the log-likelihood that every difference [n, d] scores above 0 at weights [d], and its gradient.

    precision [d]: the inverse variances of the Gaussian prior, which is part of it.
    """
    scores = differences @ weights
    value = float(np.logaddexp(0.0, -scores).sum()) + 0.5 * float(precision @ weights**2)
    share = np.exp(-np.logaddexp(0.0, scores))
    return value, np.asarray(precision * weights - share @ differences)
