"""Minimum sample risk: line searches on the loss itself, one selected feature after the other.

Source: Gao, Yu, Yuan and Xu, Minimum Sample Risk Methods for Language Modeling, HLT/EMNLP 2005.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, IntArray
from lpmert.lines.clock import Clock
from lpmert.methods.heuristic.selection import select, try_each
from lpmert.methods.heuristic.sparse import SparseLineSearch, Trained, dense_lists, sparse_lists
from lpmert.metrics.base import Metric
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.search.run import Comparator, Found


@dataclass(frozen=True)
class MinimumSampleRisk(Comparator):
    """Keep the base feature at weight 1, select further features, and search along one after the other.

    Features are tried one by one first, and the most useful ones selected. Their weights are searched for in turn,
    until a round does not lower the loss.
    """

    kept: int | None = option(None, "the paper's K: features that are selected; none for all", least=1)
    considered: int | None = option(None, "features tried, those that vary in most lists; none for all", least=1)
    smoothing: float = option(0.06, "the paper's b: the loss is averaged so far on either side of a weight", above=0)
    alpha: float = option(0.8, "of the selection, see lpmert.methods.heuristic.selection", least=0, most=1)
    window: int = option(1000, "of the selection, see lpmert.methods.heuristic.selection", least=1)
    rounds: int = option(20, "most rounds over the features", least=1)
    base: str | None = option(None, "name of the base feature; none for the first one")

    name: ClassVar[str] = "msr"
    random = False

    def train(self, nbest: NBest, *, metric: str | Metric | None = None, seed: int = 0) -> Trained:
        """Return weights for N-best lists whose features are too many to be held dense; nothing hangs on the seed.

        Raises `MethodError` and `MetricError` as `lpmert.methods.heuristic.sparse.sparse_lists` does.
        """
        del seed
        lists, base = sparse_lists(nbest, metric, self.base)
        search = SparseLineSearch(lists)
        before = search.loss
        counters = self.descend(search, lambda: False)
        weights = search.weights
        weights[base] = 1.0
        return Trained(weights, before, search.loss, counters)

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:  # noqa: ARG002
        """Return the weights after the last round."""
        lists, fixed = dense_lists(problem, start, self.base)
        search = SparseLineSearch(lists)
        clock.keep(fixed)
        counters = self.descend(search, clock.expired)
        return Found(fixed + search.weights, counters)

    def descend(self, search: SparseLineSearch, expired: Callable[[], bool]) -> dict[str, int]:
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

    def _features(self, search: SparseLineSearch, expired: Callable[[], bool]) -> IntArray:
        """Return the features to search along, in their order."""
        visited = search.lists.visited()
        features = np.argsort(-visited, kind="stable")[: np.count_nonzero(visited)][: self.considered]
        if self.kept is None:
            return features
        candidates = try_each(search, features, self.smoothing, expired)
        return select(candidates, self.kept, alpha=self.alpha, window=self.window)
