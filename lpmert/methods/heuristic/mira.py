"""k-best batch MIRA: large-margin updates between a hopeful and a fearful hypothesis of each list.

Source: Cherry and Foster, Batch Tuning Strategies for Statistical Machine Translation, NAACL 2012.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, IntArray
from lpmert.lines.clock import Clock
from lpmert.methods.heuristic.softmax import AllHypotheses, lists_of
from lpmert.metrics.base import AdditiveMetric, Metric, losses_of_totals
from lpmert.metrics.ratio import Bleu
from lpmert.model.problem import Problem
from lpmert.search.run import Comparator, Found

Costs = Callable[[FloatArray, FloatArray], FloatArray]
"""From a background [K] and a list's statistics [n, K] to the cost [n] of each hypothesis."""


@dataclass(frozen=True)
class Mira(Comparator):
    """Passes over the lists in random order; each list moves the weights so that hope scores above fear by a margin.

    Hope has the largest score minus cost, fear the largest score plus cost; the margin is the difference of their
    costs, and the step at most `step` (the paper's C, 0.01). The cost of a hypothesis is its loss where the metric is a
    sum. Otherwise it is the metric's loss of the hypothesis together with a background of the statistics of earlier
    hopes, which begins with the mean statistics and fades by the factor `decay`; times the length of the reference in
    that sum for BLEU, and times the largest statistic for other metrics. Of the averages of the weights up to the end
    of each of the `passes`, the one that decodes best is returned.
    """

    passes: int = option(60, "over the lists", least=1)
    step: float = option(0.01, "greatest step, the paper's C", above=0)
    decay: float = option(0.999, "factor by which the background of statistics fades", least=0, most=1)

    name: ClassVar[str] = "mira"
    minimises = False

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the average of the weights that decodes best."""
        lists = lists_of(problem)
        weights = np.zeros(problem.canonical.n_features) if start is None else start * lists.scale
        walk = Walk(self, lists, problem.metric, weights)
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

    def __init__(self, settings: Mira, lists: AllHypotheses, metric: Metric, weights: FloatArray) -> None:
        self._settings = settings
        self._features = lists.features / lists.scale
        self._offsets = lists.offsets.tolist()
        self._statistics = lists.statistics
        self._additive = isinstance(metric, AdditiveMetric)
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
            self._weights = self._weights + min(self._settings.step, short / squares) * difference
            self.updates += 1
        self._background = self._settings.decay * self._background + statistics[hope]


def _costs(metric: Metric) -> Costs:
    if isinstance(metric, AdditiveMetric):
        return lambda _, statistics: np.asarray(metric.losses(statistics), dtype=np.float64)

    def in_background(background: FloatArray, statistics: FloatArray) -> FloatArray:
        totals = background + statistics
        sizes = totals[:, 8] if isinstance(metric, Bleu) else totals.max(axis=1)
        return np.asarray(losses_of_totals(metric, totals) * sizes)

    return in_background
