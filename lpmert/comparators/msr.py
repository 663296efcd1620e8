"""Minimum sample risk: line searches on the loss itself, one selected feature after the other.

Source: Gao, Yu, Yuan and Xu, Minimum Sample Risk Methods for Language Modeling, HLT/EMNLP 2005.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lpmert.comparators.base import Clock, Comparator, Found
from lpmert.comparators.selection import select, try_each
from lpmert.comparators.softmax import positive
from lpmert.comparators.sparse import LineSearch, Trained, dense_lists, sparse_lists
from lpmert.metrics.base import Metric
from lpmert.nbest import NBest
from lpmert.problem import Problem
from lpmert.result import FloatArray, IntArray, MethodError


@dataclass(frozen=True)
class MinimumSampleRisk(Comparator):
    """Keep the base feature at weight 1, select further features, and search along one after the other.

    considered: so many features, those that vary in most lists, are tried one by one; kept: so many of them are
    selected by `alpha` and `window`, see `lpmert.comparators.selection`; `None` means all of them, without selection.
    Their weights are searched for in turn, in up to `rounds` rounds, until a round does not lower the loss.
    smoothing: each search minimises the mean loss within so much on either side of the weight (the paper's b, 0.06).
    base: the name of the base feature, the first one by default.
    """

    kept: int | None = None
    considered: int | None = None
    smoothing: float = 0.06
    alpha: float = 0.8
    window: int = 1000
    rounds: int = 20
    base: str | None = None

    name: ClassVar[str] = "msr"

    def __post_init__(self) -> None:
        positive(self.name, smoothing=self.smoothing, window=self.window, rounds=self.rounds)
        for setting, value in (("kept", self.kept), ("considered", self.considered)):
            if value is not None:
                positive(self.name, **{setting: value})
        if not 0.0 <= self.alpha <= 1.0:
            raise MethodError(f"alpha of method 'msr' must lie between 0 and 1, not {self.alpha!r}")

    def train(self, nbest: NBest, *, metric: str | Metric = "loss") -> Trained:
        """Return weights for N-best lists whose features are too many to be held dense.

        Raises `MethodError` and `MetricError` as `lpmert.comparators.sparse.sparse_lists` does.
        """
        lists, base = sparse_lists(nbest, metric, self.base)
        search = LineSearch(lists)
        before = search.loss
        counters = self.descend(search, lambda: False)
        weights = search.weights
        weights[base] = 1.0
        return Trained(weights, before, search.loss, counters)

    @property
    def random(self) -> bool:
        """Whether the seed matters: nothing is drawn."""
        return False

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:  # noqa: ARG002
        """Return the weights after the last round."""
        lists, fixed = dense_lists(problem, start, self.base)
        search = LineSearch(lists)
        clock.keep(fixed)
        counters = self.descend(search, clock.expired)
        return Found(fixed + search.weights, counters)

    def descend(self, search: LineSearch, expired: Callable[[], bool]) -> dict[str, int]:
        """Select features and search along them, until `expired`, asked after each search, is true; return counts."""
        features = self._features(search, expired)
        best, best_weights = search.loss, search.weights.copy()
        searches = rounds = 0
        for _ in range(self.rounds):
            for feature in features.tolist():
                if expired():
                    break
                weight = search.best_weight(feature, self.smoothing)
                searches += 1
                if weight != search.weights[feature]:
                    search.move(feature, weight)
            rounds += 1
            search.refresh()
            if search.loss >= best:
                break
            best, best_weights = search.loss, search.weights.copy()
        search.weights = best_weights
        search.refresh()
        trained = int(np.count_nonzero(search.weights))
        return {"selected": len(features), "trained": trained, "line_searches": searches, "rounds": rounds}

    def _features(self, search: LineSearch, expired: Callable[[], bool]) -> IntArray:
        """Return the features to search along, in their order."""
        visited = search.lists.visited()
        features = np.argsort(-visited, kind="stable")[: np.count_nonzero(visited)][: self.considered]
        if self.kept is None:
            return features
        candidates = try_each(search, features, self.smoothing, expired)
        return select(candidates, self.kept, alpha=self.alpha, window=self.window)
