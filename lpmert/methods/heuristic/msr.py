"""Minimum sample risk: line searches on the loss itself, one selected feature after the other.

Selected are features that lower the loss by themselves, and in other lists than those chosen before.

Source: Gao, Yu, Yuan and Xu, Minimum Sample Risk Methods for Language Modeling, HLT/EMNLP 2005.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, IntArray
from lpmert.methods.heuristic.sparse import SparseLineSearch, SparseLists, Trainer

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Candidates(NamedTuple):
    """What each of n features does by itself.

    features [n]: their numbers. gains [n]: how much the loss falls with the feature at its best weight. benefits
    [n, S]: 1 for each list whose own loss falls then.
    """

    features: IntArray
    gains: FloatArray
    benefits: csr_array


def try_each(
    search: SparseLineSearch, features: IntArray, smoothing: float, expired: Callable[[], bool] = lambda: False
) -> Candidates:
    """Search along each of these features from where the search stands; as many as come before `expired` is true."""
    from scipy.sparse import csr_array

    losses = search.lists.losses
    gains, helped = [], []
    for feature in features.tolist():
        if expired():
            break
        weight = search.best_weight(feature, smoothing)
        visited, rows = search.choices_at(feature, weight)
        gains.append(search.loss - search.loss_with(visited, rows))
        helped.append(visited[losses[rows] < losses[search.chosen[visited]]])
    starts = np.cumsum([0, *map(len, helped)])
    columns = np.concatenate([*helped, np.empty(0, dtype=np.int64)])
    shape = len(gains), len(search.chosen)
    benefits = csr_array((np.ones(len(columns)), columns, starts), shape=shape)
    return Candidates(features[: len(gains)], np.array(gains), benefits)


_WINDOW = 1000
"""The features that are looked at for each place of the selection, the paper's: the best of those left."""


def select(candidates: Candidates, count: int, *, alpha: float = 0.8) -> IntArray:
    """Return the numbers [at most count] of the features to keep, in the order of their choice.

    The k-th is the one with the largest alpha * E - (1 - alpha^(k-1)) / (k-1) * sum of C: E is the gain over the
    largest one, C the cosine of its benefits with those of each feature chosen before. Only the `_WINDOW` best by E of
    those left are looked at; features without a gain are never chosen.
    """
    gains = candidates.gains
    order = np.argsort(-gains, kind="stable")
    order = order[gains[order] > 0]
    if not len(order):
        return candidates.features[order]
    effect = gains[order] / gains[order[0]]
    benefits = candidates.benefits[order]
    norms = np.sqrt(np.maximum(np.diff(benefits.indptr), 1))
    correlation = np.zeros(len(order))
    left = np.ones(len(order), dtype=np.bool_)
    chosen = np.empty(min(count, len(order)), dtype=np.int64)
    for k in range(len(chosen)):
        penalty = (1 - alpha**k) / max(k, 1)
        near = np.flatnonzero(left)[:_WINDOW]
        best = near[np.argmax(alpha * effect[near] - penalty * correlation[near])]
        chosen[k] = best
        left[best] = False
        correlation += (benefits @ benefits[[best]].toarray()[0]) / (norms * norms[best])
    return candidates.features[order[chosen]]


@dataclass(frozen=True)
class MinimumSampleRisk(Trainer):
    """Keep the base feature at weight 1, select further features, and search along one after the other.

    Features are tried one by one first, and the most useful ones selected. Their weights are searched for in turn,
    until a round does not lower the loss.
    """

    kept: int | None = option(None, "the paper's K: features that are selected; none for all", least=1)
    considered: int | None = option(None, "features tried, those that vary in most lists; none for all", least=1)
    smoothing: float = option(0.06, "the paper's b: the loss is averaged so far on either side of a weight", above=0)
    alpha: float = option(0.8, "of the selection, see lpmert.methods.heuristic.msr", least=0, most=1)
    rounds: int = option(20, "most rounds over the features", least=1)
    base: str | None = option(None, "name of the base feature; none for the first one")

    name: ClassVar[str] = "msr"
    random = False

    def learn(self, lists: SparseLists, seed: int, expired: Callable[..., bool]) -> tuple[FloatArray, dict[str, int]]:
        del seed
        search = SparseLineSearch(lists)
        counters = self.descend(search, expired)
        return search.weights, counters

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
        return select(candidates, self.kept, alpha=self.alpha)
