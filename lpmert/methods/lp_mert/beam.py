"""LP-MERT with a beam: the linear programs see only the rows that score best under the best weights so far.

Source: Galley and Quirk, Optimal Search for Minimum Error Rate Training, EMNLP 2011, section on beam search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lpmert import core
from lpmert.configurable import option
from lpmert.errors import IntArray
from lpmert.methods.lp_mert.attainability import AttainabilityOracle
from lpmert.methods.lp_mert.streams import Combination, OneList, Stream, TwoHalves, WarmStart, balanced_tree
from lpmert.model.canonical import Canonical
from lpmert.numeric.lists import FEASIBLE, UNDECIDED
from lpmert.numeric.lp import LinOptimizer
from lpmert.search.method import Incumbent, Method, Search, Task
from lpmert.system.deadline import checkpoint

_SLICE_LPS = 200
_SLICE_STEPS = 3000


@dataclass(frozen=True)
class Beam(Method):
    """LP-MERT as a heuristic: of a combination's rows only the best `beam` under the best weights so far are kept.

    A combination that is not among them itself is dropped. The best weights are replaced whenever a linear program
    yields better ones, and the search is repeated until a pass leaves them as they are. The result is never worse than
    the starting weights; it has no bound. Raises `MethodError` for a beam below 1.
    """

    beam: int = option(1000, "rows that are kept of a combination", least=1)

    name = "beam"
    proves = False

    def start(self, task: Task) -> Search:
        return BeamSearch(self.beam, task.canonical, task.incumbent)


class BeamTest:
    """Tests combinations by linear programs over the best rows under the incumbent's weights."""

    def __init__(self, beam: int, canonical: Canonical, incumbent: Incumbent) -> None:
        self.sorted_lists = canonical.by_cost
        self.incumbent = incumbent
        self._oracle = AttainabilityOracle(self.sorted_lists)
        self.counters: Counter[str] = Counter(tested=0, lps=0, rows_in_full=0, rows_kept=0, pruned=0)
        self._beam = beam
        self._width = canonical.n_features
        self._selection = np.zeros(canonical.n_lists, dtype=np.int64)
        self._corral = core.Corral(self._width)
        self._nothing_known = np.zeros(0, dtype=np.int64)
        self._score()

    def _score(self) -> None:
        """Score all hypotheses under the incumbent's weights, and count for each those of its list that are better."""
        self._scored = self.incumbent.weights
        self._scores = self.sorted_lists.rows @ self._scored
        starts = np.repeat(self.sorted_lists.offsets[:-1], np.diff(self.sorted_lists.offsets))
        order = np.lexsort((-self._scores, starts))  # list by list, the best first
        places, scores = np.arange(len(order)), self._scores[order]
        new = np.append(True, (scores[1:] != scores[:-1]) | (starts[1:] != starts[:-1]))  # not as good as before
        self._better = np.empty(len(order), dtype=np.int64)
        self._better[order] = np.maximum.accumulate(np.where(new, places, 0)) - starts

    def test(
        self,
        lists: IntArray,
        cost: int,
        positions: IntArray,
        halves: tuple[Combination, Combination] | None = None,
    ) -> Combination | None:
        """Return the combination if it is within the beam and strictly best among the rows there."""
        self.counters["tested"] += 1
        if self.incumbent.weights is not self._scored:
            self._score()
        chosen = self.sorted_lists.offsets[lists] + positions
        if self._better[chosen].sum() >= self._beam:
            self.counters["pruned"] += 1
            return None
        rows_in_full = int(self._oracle.sizes[lists].sum()) - len(lists)
        self.counters["lps"] += 1
        self.counters["rows_in_full"] += rows_in_full
        self.counters["rows_kept"] += min(rows_in_full, self._beam - 1)
        near = None if halves is None else halves[0].start
        if rows_in_full < self._beam:
            start = self._oracle.decide(lists, positions, near)
        else:
            start = self._decide_within(lists, chosen)
        if start is None:
            return None
        self._oracle.keep(start)
        if start.weights is not None:
            if rows_in_full < self._beam and len(lists) == len(self._selection):
                self.incumbent.improve(cost, start.weights, "B")
            cost_of_all, clear = self._oracle.native.decode_clearly(start.weights, self._selection)
            if clear:
                self.incumbent.improve(cost_of_all, start.weights, "B")
        return Combination(cost, positions, start, self._nothing_known)

    def _decide_within(self, lists: IntArray, chosen: IntArray) -> WarmStart | None:
        """Solve a linear program over the best rows of the combination, which takes one place in the beam itself."""
        offsets = self.sorted_lists.offsets
        others = np.concatenate([np.arange(offsets[s], offsets[s + 1]) for s in lists.tolist()])
        mine = np.repeat(chosen, self._oracle.sizes[lists])
        mine, others = mine[others != mine], others[others != mine]
        gain = self._scores[others] - self._scores[mine]
        best = np.sort(np.argsort(-gain, kind="stable")[: self._beam - 1])
        rows = np.vstack(
            [np.zeros(self._width), self.sorted_lists.rows[others[best]] - self.sorted_lists.rows[mine[best]]]
        )
        offsets, decided = np.array([0, len(rows)]), np.zeros(1, dtype=np.int64)
        costs, reach = np.zeros(len(rows), dtype=np.int64), np.abs(rows).max(axis=0)
        one_list = core.Lists(rows, offsets, costs, reach, np.zeros(self._width), np.empty(0))
        self._corral.restart(self._scored)
        verdict = core.LeastNorm(one_list).separate(decided, decided, 0, self._corral)
        if verdict == FEASIBLE:
            return WarmStart(len(lists), self._corral.point)
        if verdict == UNDECIDED:
            answer = LinOptimizer(rows, offsets).solve({0: 0})
            return WarmStart(len(lists), answer.weights) if answer.attainable else None
        return None


class BeamSearch(Search):
    """Passes of divide and conquer, each by the weights that the one before ended with."""

    finished = False

    def __init__(self, beam: int, canonical: Canonical, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self.finished = incumbent.cost == 0
        self._test = BeamTest(beam, canonical, incumbent)
        self._passes = 0
        self._n_lists = canonical.n_lists
        self._begin_pass()

    def _begin_pass(self) -> None:
        self._began_with = self.incumbent.cost
        self._passes += 1
        streams: list[Stream] = [OneList(s, self._test) for s in range(self._n_lists)]
        self._root = balanced_tree(streams, lambda left, right: TwoHalves(left, right, self._test, lazy=True))

    @property
    def nodes(self) -> int:
        return self._test.counters["tested"]

    @property
    def lps(self) -> int:
        return self._test.counters["lps"]

    def counters(self) -> Mapping[str, int]:
        return {"nodes": self.nodes, **self._test.counters, "passes": self._passes}

    def advance(self) -> None:
        stop = self.lps + _SLICE_LPS
        for _ in range(_SLICE_STEPS):
            if self.finished or self.lps >= stop:
                return
            checkpoint()
            self._root.get_next_best()
            if self._root.found or self._root.bound >= self.incumbent.cost:
                if self.incumbent.cost == self._began_with:
                    self.finished = True
                else:
                    self._begin_pass()
