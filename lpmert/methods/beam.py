"""LP-MERT with a beam: it keeps the combinations of lists that score best under the best weights so far.

Source: Galley and Quirk, Optimal Search for Minimum Error Rate Training, EMNLP 2011, section on beam search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, IntArray
from lpmert.limits import checkpoint
from lpmert.methods.lp_mert import AttainabilityOracle
from lpmert.model.canonical import Canonical
from lpmert.numeric.lists import sorted_lists
from lpmert.search.method import Incumbent, Method, Search, Task

_SLICE_LPS = 200
_ALONE = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True)
class Beam(Method):
    """LP-MERT as a heuristic: of the combinations of two halves, only the `beam` best ones by score are kept.

    Scores are those of the best weights so far. Combinations that cost less than the choices of these weights are
    tested in order of cost, by a linear program against all others in the beam, and dropped if it rules them out. The
    weights of the program are decoded on all lists. A pass ends with the cheapest attainable combination of all lists;
    passes are repeated until one does not improve the best weights. The result is never worse than the starting
    weights, and has no bound. Raises `MethodError` for a beam below 1.
    """

    beam: int = option(1000, "combinations kept for each part of the lists", least=1)

    name = "beam"
    proves = False

    def start(self, task: Task) -> Search:
        return BeamSearch(self.beam, task.canonical, task.incumbent)


class Combinations(NamedTuple):
    """Combinations of some lists, the best score first: scores [n], costs [n], and summed features [n, D]."""

    scores: FloatArray
    costs: IntArray
    rows: FloatArray


def best_of_pairs(left: Combinations, right: Combinations, beam: int) -> Combinations:
    """Return the pairs of combinations of two halves with the best scores.

    A pair of ranks m and n, counted from 1, is no better than the m n - 1 other pairs of ranks at most m and n. So only
    pairs with m n <= beam can be among the best.
    """
    partners = np.minimum(beam // np.arange(1, len(left.scores) + 1), len(right.scores))
    m = np.repeat(np.arange(len(partners)), partners)
    n = np.arange(len(m)) - np.repeat(np.cumsum(partners) - partners, partners)
    scores = left.scores[m] + right.scores[n]
    best = np.argsort(-scores, kind="stable")[:beam]
    m, n = m[best], n[best]
    return Combinations(scores[best], left.costs[m] + right.costs[n], left.rows[m] + right.rows[n])


class BeamSearch(Search):
    """Passes of divide and conquer, each scored by the best weights of the pass before."""

    finished = False

    def __init__(self, beam: int, canonical: Canonical, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self.finished = incumbent.cost == 0
        self._beam = beam
        self._lists = canonical.by_cost
        self._native = self._lists.native()
        self._selection = np.zeros(canonical.n_lists, dtype=np.int64)
        self._counts: Counter[str] = Counter(lps=0, attained=0, pruned=0, passes=0)
        self._began_with = incumbent.cost
        self._weights, self._scores = incumbent.weights, np.empty(0)
        self._pass = self._run_pass()

    @property
    def nodes(self) -> int:
        return self._counts["lps"]

    @property
    def lps(self) -> int:
        return self._counts["lps"]

    def counters(self) -> Mapping[str, int]:
        """Return all counts; pruned: combinations beyond the beam whose halves were both kept."""
        return {"nodes": self.nodes, **self._counts}

    def advance(self) -> None:
        stop = self.lps + _SLICE_LPS
        while not self.finished and self.lps < stop:
            checkpoint()
            if next(self._pass, self._pass) is self._pass:  # the pass has ended
                self.finished = self.incumbent.cost in (0, self._began_with)
                self._pass = self._run_pass()

    def _run_pass(self) -> Generator[None, None, None]:
        """Combine all lists once; yields after each linear program and each list."""
        self._counts["passes"] += 1
        self._began_with, self._weights = self.incumbent.cost, self.incumbent.weights
        self._scores = self._lists.rows @ self._weights
        root = yield from self._combined(0, len(self._selection))
        yield from self._tested(root, is_root=True)

    def _combined(self, first: int, last: int) -> Generator[None, None, Combinations]:
        """Return the best combinations of lists first to last - 1, halved as published."""
        if last - first > 1:
            middle = (first + last + 1) // 2
            left = yield from self._combined(first, middle)
            right = yield from self._combined(middle, last)
            left, right = (yield from self._tested(left)), (yield from self._tested(right))
            pairs = best_of_pairs(left, right, self._beam)
            self._counts["pruned"] += len(left.scores) * len(right.scores) - len(pairs.scores)
            return pairs
        begin, end = self._lists.offsets[first : first + 2].tolist()
        best = begin + np.argsort(-self._scores[begin:end], kind="stable")
        self._counts["pruned"] += max(0, end - begin - self._beam)
        yield
        best = best[: self._beam]
        return Combinations(self._scores[best], self._lists.costs[best], self._lists.rows[best])

    def _tested(self, combinations: Combinations, *, is_root: bool = False) -> Generator[None, None, Combinations]:
        """Drop combinations that a linear program rules out; at the root, stop at the first one that it accepts.

        The first combination is the choice of the best weights.
        """
        test = None
        dropped: list[int] = []
        for k in np.argsort(combinations.costs, kind="stable").tolist():
            if combinations.costs[k] >= (self.incumbent.cost if is_root else combinations.costs[0]):
                break
            test = test or among(combinations.rows)
            self._counts["lps"] += 1
            _, witness = test.decide(_ALONE, np.array([k]), self._weights)
            yield
            if witness is None:
                dropped.append(k)
                continue
            self._counts["attained"] += 1
            cost, clear = self._native.decode_clearly(witness, self._selection)
            if clear:
                self.incumbent.improve(cost, witness, "B")
            if is_root:
                break
        if not dropped:
            return combinations
        kept = np.delete(np.arange(len(combinations.scores)), dropped)
        return Combinations(combinations.scores[kept], combinations.costs[kept], combinations.rows[kept])


def among(rows: FloatArray) -> AttainabilityOracle:
    """Return an oracle that decides whether some weights make one of these rows [n, D] strictly best of all."""
    return AttainabilityOracle(sorted_lists(rows, np.array([0, len(rows)]), np.zeros(len(rows), dtype=np.int64)))
