"""The averaged perceptron: every list that is decoded wrongly moves the weights towards its best hypothesis.

Source: Collins, Discriminative Training Methods for Hidden Markov Models, EMNLP 2002; with a base feature as in
Gao et al., HLT/EMNLP 2005.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lpmert import core
from lpmert.configurable import option
from lpmert.errors import FloatArray
from lpmert.lines.clock import Clock
from lpmert.methods.heuristic.sparse import SparseLists, Trained, dense_lists, rows_of, sparse_lists
from lpmert.metrics.base import Metric
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.search.run import Comparator, Found


@dataclass(frozen=True)
class Perceptron(Comparator):
    """Keep the base feature at weight 1; for each wrong list add `rate` times (gold - chosen) to the other weights.

    A list is wrong if the chosen hypothesis has not the least loss of its list by itself; gold is the one of least
    loss with the best score so far. `passes` are made over the lists, in an order drawn anew for each; the mean of the
    weights after every list is returned.
    """

    passes: int = option(20, "over the lists", least=1)
    rate: float = option(1.0, "of learning", above=0)
    base: str | None = option(None, "name of the base feature; none for the first one")

    name: ClassVar[str] = "perceptron"
    minimises = False

    def train(self, nbest: NBest, *, metric: str | Metric | None = None, seed: int = 0) -> Trained:
        """Return weights for N-best lists whose features are too many to be held dense.

        Raises `MethodError` and `MetricError` as `lpmert.methods.heuristic.sparse.sparse_lists` does.
        """
        lists, base = sparse_lists(nbest, metric, self.base)
        weights, counters = self.learn(lists, seed, lambda _: False)
        before, loss = lists.decoded_loss(np.zeros(len(weights))), lists.decoded_loss(weights)
        weights[base] = 1.0
        return Trained(weights, before, loss, counters)

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the averaged weights."""
        lists, fixed = dense_lists(problem, start, self.base)
        clock.keep(fixed)
        weights, counters = self.learn(lists, seed, clock.expired)
        return Found(fixed + weights, counters)

    def learn(self, lists: SparseLists, seed: int, expired: Callable[[int], bool]) -> tuple[FloatArray, dict[str, int]]:
        """Return the averaged weights [D] without the base's, and counts; ends early once `expired(lists)` is true."""
        rng = np.random.default_rng(seed)
        rows = rows_of(lists.by_row())
        gold = lists.losses == lists.least()
        weights, weighted = np.zeros(lists.n_features), np.zeros(lists.n_features)
        n_lists = len(lists.offsets) - 1
        visits, updates, passes = 0, 0, 0
        for _ in range(self.passes):
            order = rng.permutation(n_lists)
            wrong = core.perceptron_pass(
                rows, order, lists.offsets, lists.base, gold, self.rate, weights, weighted, visits
            )
            visits, updates, passes = visits + n_lists, updates + wrong, passes + 1
            if expired(n_lists) or not wrong:
                break
        return weights - weighted / visits, {"passes": passes, "updates": updates}
