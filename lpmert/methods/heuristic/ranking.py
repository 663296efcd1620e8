"""Ranking and large margins: PRO on sampled pairs, and k-best batch MIRA.

Sources: Hopkins and May, Tuning as Ranking, EMNLP 2011; Cherry and Foster, Batch Tuning Strategies for Statistical
Machine Translation, NAACL 2012 (updates between a hopeful and a fearful hypothesis of each list).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, IntArray
from lpmert.lines.local_search import Clock
from lpmert.methods.heuristic.likelihood import AllHypotheses, lists_of, minimize_smooth, own_losses
from lpmert.metrics.base import AdditiveMetric, Metric, losses_of_totals
from lpmert.metrics.ratio import Bleu
from lpmert.model.problem import Problem
from lpmert.search.method import Comparator, Found
from lpmert.system.deadline import out_of_time

_GRADIENT_TOLERANCE = 1e-7
"""Where L-BFGS ends, relative to the number of pairs."""

_SAMPLES = 5000
"""Pairs that PRO draws from each list, the paper's Gamma."""

_LEAST_DIFFERENCE = 0.05
"""Of the losses of a pair, the paper's alpha."""

_DECAY = 0.999
"""Factor by which MIRA's background of statistics fades from list to list."""


@dataclass(frozen=True)
class Pro(Comparator):
    """Logistic regression of which of two hypotheses has the smaller loss, on the difference of their features.

    From each list 5000 pairs are drawn (the paper's Gamma), those whose losses differ by less than 0.05 (its alpha) are
    dropped, and the `pairs` that differ most (its Xi, 50) are kept. The losses are those of the hypotheses by
    themselves, BLEU's smoothed by 1. The prior on the caller's weights is Gaussian with mean 0 and `variance`; `inf`
    means none.
    """

    pairs: int = option(50, "pairs kept of each list, the paper's Xi", least=1)
    variance: float = option(1.0, "of the Gaussian prior; inf for none", above=0)

    name: ClassVar[str] = "pro"
    minimises = False

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
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
            first, second = rng.integers(begin, end, (2, _SAMPLES))
            difference = losses[second] - losses[first]
            apart = np.flatnonzero(np.abs(difference) >= _LEAST_DIFFERENCE)
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


Costs = Callable[[FloatArray, FloatArray], FloatArray]
"""From a background [K] and a list's statistics [n, K] to the cost [n] of each hypothesis."""


@dataclass(frozen=True)
class Mira(Comparator):
    """Passes over the lists in random order; each list moves the weights so that hope scores above fear by a margin.

    Hope has the largest score minus cost, fear the largest score plus cost; the margin is the difference of their
    costs, and the step at most `step` (the paper's C, 0.01). The cost of a hypothesis is its loss where the metric is a
    sum. Otherwise it is the metric's loss of the hypothesis together with a background of the statistics of earlier
    hopes, which begins with the mean statistics and fades by the factor 0.999; times the length of the reference in
    that sum for BLEU, and times the largest statistic for other metrics. Of the averages of the weights up to the end
    of each of the `passes`, the one that decodes best is returned.
    """

    passes: int = option(60, "over the lists", least=1)
    step: float = option(0.01, "greatest step, the paper's C", above=0)

    name: ClassVar[str] = "mira"
    minimises = False

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        lists = lists_of(problem)
        weights = np.zeros(problem.canonical.n_features) if start is None else start * lists.scale
        walk = Walk(self.step, lists, problem.metric, weights)
        rng = np.random.default_rng(seed)
        for _ in range(self.passes):
            walk.pass_over(rng.permutation(lists.n_lists))
            clock.keep(walk.average / lists.scale)
            if clock.expired(lists.n_lists):
                break
        found = walk.average / lists.scale if clock.best is None else clock.best
        return Found(found, {"updates": walk.updates})


class Walk:
    """The weights [d] of the caller's scaling, their sum over all updates, and the background."""

    def __init__(self, step: float, lists: AllHypotheses, metric: Metric, weights: FloatArray) -> None:
        self._step = step
        self._features = lists.features / lists.scale
        self._offsets = lists.offsets.tolist()
        self._statistics = lists.statistics
        self._costs = _costs(metric)
        self._background = lists.statistics.mean(axis=0)
        self._weights = weights.copy()
        self._sum = np.zeros(len(weights))
        self._visits = 0
        self.updates = 0

    @property
    def average(self) -> FloatArray:
        """The mean [d] of the weights after each list so far."""
        return self._sum / max(self._visits, 1)

    def pass_over(self, order: IntArray) -> None:
        """Visit each list once."""
        for number in order.tolist():
            self._visit(self._offsets[number], self._offsets[number + 1])
            self._sum += self._weights
            self._visits += 1

    def _visit(self, begin: int, end: int) -> None:
        features, statistics = self._features[begin:end], self._statistics[begin:end]
        costs = self._costs(self._background, statistics)
        scores = features @ self._weights
        hope, fear = int(np.argmax(scores - costs)), int(np.argmax(scores + costs))
        margin = costs[fear] - costs[hope]
        difference = features[hope] - features[fear]
        short = margin - (scores[hope] - scores[fear])
        squares = float(difference @ difference)
        if margin > 0 and short > 0 and squares > 0:
            self._weights = self._weights + min(self._step, short / squares) * difference
            self.updates += 1
        self._background = _DECAY * self._background + statistics[hope]


def _costs(metric: Metric) -> Costs:
    if isinstance(metric, AdditiveMetric):
        return lambda _, statistics: np.asarray(metric.losses(statistics), dtype=np.float64)

    def in_background(background: FloatArray, statistics: FloatArray) -> FloatArray:
        totals = background + statistics
        sizes = totals[:, 8] if isinstance(metric, Bleu) else totals.max(axis=1)
        return np.asarray(losses_of_totals(metric, totals) * sizes)

    return in_background
