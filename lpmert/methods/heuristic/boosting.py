"""Boosting for reranking: one feature a round, the one whose best step lowers the exponential loss most.

Source: Collins, Discriminative Reranking for Natural Language Parsing, ICML 2000; Collins and Koo, Computational
Linguistics 2005, with their efficient update.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lpmert import core
from lpmert.configurable import option
from lpmert.errors import FloatArray
from lpmert.lines.clock import Clock
from lpmert.methods.heuristic.softmax import first_best
from lpmert.methods.heuristic.sparse import SparseLists, Trained, dense_lists, rows_of, sparse_lists
from lpmert.metrics.base import Metric
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.search.run import Comparator, Found

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

_SLICE = 100
"""Rounds between two looks at the clock."""

_NOTHING = 1e-12
"""Relative to its start, an exponential loss that is as good as 0."""


@dataclass(frozen=True)
class Boosting(Comparator):
    """Keep the base feature at weight 1; in each of `rounds` rounds move the weight that helps most.

    The objective is the sum over all hypotheses of (loss - least loss of the list) * exp(score - gold's score), gold
    being the hypothesis of least own loss with the best base score. `smoothing` is relative to the objective. Features
    with values other than 0 and 1 take the step that is safe for their largest difference.
    """

    rounds: int = option(2000, "most rounds", least=1)
    smoothing: float = option(0.001, "the paper's epsilon, which damps the steps of rare features", above=0)
    tolerance: float = option(1e-6, "relative change of the objective at which it ends", above=0)
    base: str | None = option(None, "name of the base feature; none for the first one")

    name: ClassVar[str] = "boosting"
    minimises = False
    random = False

    def train(self, nbest: NBest, *, metric: str | Metric | None = None, seed: int = 0) -> Trained:
        """Return weights for N-best lists whose features are too many to be held dense; nothing hangs on the seed.

        Raises `MethodError` and `MetricError` as `lpmert.methods.heuristic.sparse.sparse_lists` does.
        """
        del seed
        lists, base = sparse_lists(nbest, metric, self.base)
        weights, rounds = self.learn(lists, lambda _: False)
        before, loss = lists.decoded_loss(np.zeros(len(weights))), lists.decoded_loss(weights)
        trained = int(np.count_nonzero(weights))
        weights[base] = 1.0
        return Trained(weights, before, loss, {"rounds": rounds, "trained": trained})

    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:  # noqa: ARG002
        """Return the weights after the last round."""
        lists, fixed = dense_lists(problem, start, self.base)
        clock.keep(fixed)
        weights, rounds = self.learn(lists, clock.expired)
        return Found(fixed + weights, {"rounds": rounds})

    def learn(self, lists: SparseLists, expired: Callable[[int], bool]) -> tuple[FloatArray, int]:
        """Return weights [D] without the base's, and the rounds taken; ends early once `expired(rounds)` is true."""
        pairs = differences(lists)
        weights = np.zeros(lists.n_features)
        rounds, least = 0, _NOTHING * float(pairs.weights.sum())
        steps = core.Boosting(rows_of(pairs.by_feature), rows_of(pairs.by_pair), pairs.weights)
        while rounds < self.rounds:
            size = min(_SLICE, self.rounds - rounds)
            taken = steps.run(size, self.smoothing, self.tolerance, least, weights)
            rounds += taken
            if expired(taken) or taken < size:
                break
        return weights, rounds


@dataclass(frozen=True)
class Pairs:
    """For each hypothesis that is worse than its list's gold [P]: the features of gold less its own, and its weight.

    weights [P]: (loss - gold's loss) * exp(-margin of the base score), over the largest of the exponentials.
    """

    by_pair: csr_array
    by_feature: csc_array
    weights: FloatArray


def differences(lists: SparseLists) -> Pairs:
    """Return the pairs of the lists' gold and other hypotheses."""
    least = lists.least()
    gold = first_best(np.where(lists.losses == least, lists.base, -np.inf), lists.offsets)[lists.numbers]
    worse = np.flatnonzero(lists.losses > least)
    rows = lists.by_row()
    by_pair = rows[gold[worse]] - rows[worse]
    by_pair.eliminate_zeros()
    margins = lists.base[gold[worse]] - lists.base[worse]
    weights = (lists.losses - least)[worse] * np.exp(margins.min(initial=0.0) - margins)
    return Pairs(by_pair, by_pair.tocsc(), weights)
