"""Ranking and large margins: PRO on sampled pairs, and k-best batch MIRA.

Sources: Hopkins and May, Tuning as Ranking, EMNLP 2011; Cherry and Foster, Batch Tuning Strategies for Statistical
Machine Translation, NAACL 2012 (updates between a hopeful and a fearful hypothesis of each list).
"""

from __future__ import annotations

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

_GRADIENT_TOLERANCE = 1e-7  # largest derivative at which L-BFGS ends, relative to the number of pairs
_SAMPLES = 5000  # pairs that PRO draws from each list, the paper's Gamma
_LEAST_DIFFERENCE = 0.05  # least difference of the losses of a pair, the paper's alpha
_DECAY = 0.999  # factor by which MIRA's background statistics decay from list to list


@dataclass(frozen=True)
class Pro(Comparator):
    """Logistic regression, from the difference of the features of two hypotheses to which one has the smaller loss.

    From each list, 5000 pairs are drawn (the paper's Gamma). Pairs whose losses differ by less than 0.05 (its alpha)
    are dropped, and the `pairs` that differ most (its Xi, 50) are kept. Losses are those of each hypothesis by itself,
    with BLEU smoothed by 1. The prior on the caller's weights is Gaussian with mean 0 and `variance`; `inf` means no
    prior.
    """

    pairs: int = option(50, "pairs kept from each list, the paper's Xi", least=1)
    variance: float = option(1.0, "variance of the Gaussian prior; inf for no prior", above=0)

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
        """Return the rows with the smaller and with the larger loss [M] of each kept pair.

        If time runs out, only the first lists have pairs.
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
    """Return minus the log-likelihood that every difference [n, d] scores above 0 at weights [d], and its gradient [d].

    It includes a Gaussian prior with inverse variances `precision` [d].
    """
    scores = differences @ weights
    value = float(np.logaddexp(0.0, -scores).sum()) + 0.5 * float(precision @ weights**2)
    share = np.exp(-np.logaddexp(0.0, scores))
    return value, np.asarray(precision * weights - share @ differences)


@dataclass(frozen=True)
class Mira(Comparator):
    """Passes over the lists in random order; each list moves the weights so that hope scores above fear by a margin.

    Hope has the largest score minus cost, fear the largest score plus cost. The margin is the difference of their
    costs, and the step is at most `step` (the paper's C, 0.01). The cost of a hypothesis is its loss if the metric is
    additive. Otherwise it is the loss of its statistics plus background statistics, times the length of the reference
    in that sum for BLEU, and times the largest statistic for other metrics. The background starts with the mean
    statistics, decays by the factor 0.999 with each list, and adds the statistics of each hope. The weights are
    averaged up to the end of each of the `passes`; the average that decodes best is returned.
    """

    passes: int = option(60, "passes over the lists", least=1)
    step: float = option(0.01, "largest step, the paper's C", above=0)

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
    """The state of MIRA: weights [d] in the caller's scaling, their sum over all lists, and background statistics."""

    def __init__(self, step: float, lists: AllHypotheses, metric: Metric, weights: FloatArray) -> None:
        self._step, self._metric, self._lists = step, metric, lists
        self._features = lists.features / lists.scale
        self._background = lists.statistics.mean(axis=0)
        self._weights, self._sum = weights, np.zeros(len(weights))
        self._visits = self.updates = 0

    @property
    def average(self) -> FloatArray:
        """The mean [d] of the weights after each visited list."""
        return self._sum / max(self._visits, 1)

    def pass_over(self, order: IntArray) -> None:
        for number in order.tolist():
            self._visit(slice(*self._lists.offsets[number : number + 2].tolist()))
            self._sum += self._weights
            self._visits += 1

    def _visit(self, rows: slice) -> None:
        features, statistics = self._features[rows], self._lists.statistics[rows]
        costs, scores = self._costs(statistics), features @ self._weights
        hope, fear = int(np.argmax(scores - costs)), int(np.argmax(scores + costs))
        margin = costs[fear] - costs[hope]
        difference = features[hope] - features[fear]
        short = margin - (scores[hope] - scores[fear])
        squares = float(difference @ difference)
        if margin > 0 and short > 0 and squares > 0:
            self._weights = self._weights + min(self._step, short / squares) * difference
            self.updates += 1
        self._background = _DECAY * self._background + statistics[hope]

    def _costs(self, statistics: FloatArray) -> FloatArray:
        if isinstance(self._metric, AdditiveMetric):
            return np.asarray(self._metric.losses(statistics), dtype=np.float64)
        totals = self._background + statistics
        sizes = totals[:, 8] if isinstance(self._metric, Bleu) else totals.max(axis=1)
        return np.asarray(losses_of_totals(self._metric, totals) * sizes)
