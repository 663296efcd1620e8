"""LP-MERT: divide the lists into halves, and combine the attainable combinations of both halves in order of cost.

Source: Galley and Quirk, Optimal Search for Minimum Error Rate Training, EMNLP 2011. A witness is a weight vector that
makes a combination's choices strictly best. Every witness is decoded on all lists, and may improve the incumbent. By
default a chain of streams adds one list after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lpmert.configurable import option
from lpmert.core import INFINITE_COST
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.methods.lp_mert.attainability import AttainabilityOracle, PublishedSearch
from lpmert.methods.lp_mert.streams import (
    Combination,
    CombinationTest,
    Halves,
    Stream,
    StreamSearch,
    balanced_tree,
    cost_at,
)
from lpmert.model.canonical import Canonical
from lpmert.search.method import Incumbent, Method, Search, Task
from lpmert.system.deadline import checkpoint

SLICE_STEPS, _SLICE_LPS = 3000, 1000  # pieces of work, and linear programs, in a slice

_SHARPNESS = 8.0
"""How fast the weight of a candidate falls with its excess cost, in units of the slack, when lists are ordered."""


@dataclass(frozen=True)
class LpMert(Method):
    """Galley and Quirk's divide and conquer, with additions that can be switched off; none changes the optimum.

    published=True is Algorithms 1 and 2 to the letter; no other option applies. Each test solves one linear program
    with HiGHS, which maximises w.(h - centroid), or w.centre within a cosine. The lists are halved in their order.
    There is no first incumbent, and the search ends with the first combination of all lists that the test accepts. The
    test of the paper also accepts combinations that only ties attain. If the search ends with such a combination, or if
    the test has rejected an attainable one, no optimum is proved, and the result is that of a heuristic.

    Otherwise attainability is strict, as for all methods here: the point of least norm of a hull decides, and exact
    arithmetic where rounding hides the answer. look_ahead finds the cheapest hypothesis of every other list that is
    attainable together with a combination, and drops the combination if no selection below the cut-off is left. A chain
    starts with the lists with the fewest candidates, so that look-ahead is effective early. cosine_test "published"
    tests only the weights of the cell with the largest product with the centre; it can miss cells that reach into the
    cap, so that the result has no bound. "exact" projects the centre.
    """

    published: bool = option(False, "Algorithms 1 and 2 to the letter; no other option applies")
    look_ahead: bool = option(True, "bound the cost of the other lists")
    lazy: bool = option(True, "a neighbour waits in the frontier at its bound; off: it is found at once, as published")
    chain: bool = option(True, "combine one list after the other; off: a balanced tree, as published")
    cosine_test: str = option("exact", "how a combination is tested for a cosine", choices=("exact", "published"))

    name = "lp-mert"
    takes_fractions = True
    takes_caps = True

    def start(self, task: Task) -> Search:
        """Return the search; raises `MethodError` for published=True with a ratio."""
        if self.published:
            if not task.problem.canonical.additive:
                metric = task.problem.metric.name
                raise MethodError(f"published=True takes a sum of losses, and metric '{metric}' is none; leave it out")
            return PublishedSearch(task.canonical)
        return LpMertSearch(self, task.canonical, task.incumbent)


class SavingTest(CombinationTest):
    """Tests combinations with as few linear programs as possible; witnesses improve the incumbent.

    costs [S, longest list + 1]: cost of each position of each list, infinite beyond its end.
    """

    def __init__(self, settings: LpMert, canonical: Canonical, incumbent: Incumbent) -> None:
        super().__init__(canonical)
        self.incumbent = incumbent
        self.oracle = AttainabilityOracle(self.sorted_lists, canonical.cap, settings.cosine_test)
        self.counts: Counter[str] = Counter(saved_by_look_ahead=0, lps_ahead=0)
        self._looks_ahead = settings.look_ahead
        self._granularity = canonical.granularity
        sizes = self.oracle.sizes
        n_lists, longest = len(sizes), int(sizes.max(initial=1))
        self._all_lists = np.arange(n_lists)
        self._selection = np.zeros(n_lists, dtype=np.int64)
        self._witness_is_clear = False
        self.costs = np.full((n_lists, longest + 1), INFINITE_COST)
        for s, (begin, end) in enumerate(pairwise(canonical.offsets.tolist())):
            self.costs[s, : end - begin] = self.sorted_lists.costs[begin:end]

    def counters(self) -> dict[str, int]:
        return {**self.oracle.counters, **self.counts, **super().counters()}

    def test(self, lists: IntArray, cost: int, positions: IntArray, halves: Halves | None = None) -> Combination | None:
        """Return the combination, `None` if it is not attainable or no selection with it is below the cut-off."""
        self.tested[len(lists)] += 1
        least = self._least(lists, positions, halves)
        if least is None:
            self.counts["saved_by_look_ahead"] += 1
            return None
        near, first = (None, 0) if halves is None else (halves[0].weights, len(halves[0].positions))
        attained, weights = self._decide(lists, positions, near, first)
        return self._look_ahead(lists, Combination(cost, positions, weights, least)) if attained else None

    def _least(self, lists: IntArray, positions: IntArray, halves: Halves | None) -> IntArray | None:
        """Return [S] the first attainable position of every list as both halves know it; `None` if that is cut off."""
        if not self._looks_ahead:
            return self._no_bounds
        if halves is None:
            least = self._no_bounds.copy()
            least[lists] = positions
        else:
            least = np.maximum(halves[0].least, halves[1].least)
            if (least[lists] > positions).any():
                return None
        return least if self._below_cutoff(least) else None

    def _below_cutoff(self, least: IntArray) -> bool:
        return bool(self.costs[self._all_lists, least].sum() <= self.incumbent.cost - self._granularity)

    def _look_ahead(self, lists: IntArray, combination: Combination) -> Combination | None:
        """Raise the first position of every other list to one attainable with the combination; `None` if cut off."""
        if not self._looks_ahead or len(lists) == len(self._all_lists):
            return combination
        least = combination.least
        attained = self._choices_of_last_witness()
        for s in np.setdiff1d(self._all_lists, lists).tolist():
            longer = np.append(lists, s)
            while not attained[s, least[s]]:
                self.counts["lps_ahead"] += 1
                if self._decide(longer, np.append(combination.positions, least[s]), combination.weights, len(lists))[0]:
                    attained |= self._choices_of_last_witness()
                    break
                least[s] += 1
                if not self._below_cutoff(least):
                    return None
        return combination

    def _decide(
        self, lists: IntArray, positions: IntArray, near: FloatArray | None, first: int
    ) -> tuple[bool, FloatArray | None]:
        attained, weights = self.oracle.decide(lists, positions, near, first)
        self._witness_is_clear = False
        if weights is not None:
            cost, self._witness_is_clear = self.oracle.native.decode_clearly(weights, self._selection)
            if self._witness_is_clear:
                self.incumbent.improve(cost, weights, "D")
        return attained, weights

    def _choices_of_last_witness(self) -> NDArray[np.bool_]:
        """Return [S, longest list] whether the last witness makes each choice; all false if some choice was unclear."""
        made = np.zeros((len(self._all_lists), self.costs.shape[1] - 1), dtype=np.bool_)
        made[self._all_lists, self._selection] = self._witness_is_clear
        return made


class LpMertSearch(StreamSearch):
    """LP-MERT slice by slice: it builds the tree of streams, then asks the root for its first combination."""

    def __init__(self, settings: LpMert, canonical: Canonical, incumbent: Incumbent) -> None:
        self.test = SavingTest(settings, canonical, incumbent)
        super().__init__(incumbent, self.test, lazy=settings.lazy)
        self.root: Stream | None = None
        self._settings = settings
        self._granularity = canonical.granularity
        self.proves = settings.cosine_test == "exact" or canonical.cap is None
        self._building = self._build()
        self._taken = 0

    @property
    def finished(self) -> bool:
        return self.root is not None and self._root_bound >= self.incumbent.cost

    @property
    def _root_bound(self) -> int:
        """A bound on the root's next combination; the incumbent's cost if no lower cost is possible."""
        bound = 0 if self.root is None else self.root.bound
        return self.incumbent.cost if bound > self.incumbent.cost - self._granularity else bound

    @property
    def lower_bound(self) -> int | None:
        return min(self._root_bound, self._upper) if self.proves else None

    @property
    def lps(self) -> int:
        return self.test.oracle.counters["lps"]

    def advance(self) -> None:
        stop = self.lps + _SLICE_LPS
        for _ in range(SLICE_STEPS):
            if self.finished or self.lps >= stop:
                return
            checkpoint()
            if self.root is None:
                next(self._building, None)
            else:
                self.root.get_next_best()
                self._take(self.root)

    def _take(self, root: Stream) -> None:
        """Improve the incumbent by the new combinations of the root: the first strict one is the optimum."""
        for combination in root.found[self._taken :]:
            if combination.weights is not None:
                self.incumbent.improve(combination.cost, combination.weights, "D")
            else:
                self._leave_unsettled(combination.cost)
        self._taken = len(root.found)

    def _build(self) -> Iterator[None]:
        """Build the tree over the lists, balanced or a chain; yields after each piece of work."""
        if self._settings.chain:
            sorted_lists = self.test.sorted_lists
            costs = np.split(sorted_lists.costs, sorted_lists.offsets[1:-1])
            root, *others = yield from fewest_candidates_first(self.lists, costs, self.incumbent.cost)
            for stream in others:
                root = self._join(root, stream)
        else:
            root = balanced_tree(self.lists, self._join)
        self.root = root
        self._take(root)
        yield


def fewest_candidates_first(
    streams: Sequence[Stream], costs: Sequence[IntArray], most: int
) -> Generator[None, None, list[Stream]]:
    """Return the streams of single lists, those with the fewest candidates for a selection of cost `most` first.

    costs: of the hypotheses of each list. Each stream is first asked for its cheapest hypothesis; yields after each
    piece of work.
    """
    for stream in streams:
        while not stream.found and stream.bound < INFINITE_COST:
            stream.get_next_best()
            yield
    cheapest = [cost_at(stream, 0) for stream in streams]
    slack = max(1, most - sum(cheapest))
    weights = []
    for least, list_costs in zip(cheapest, costs, strict=True):
        excess = list_costs[list_costs >= least] - least
        weights.append(float(np.exp(-_SHARPNESS * excess[excess < slack] / slack).sum()))
    return [streams[k] for k in np.argsort(weights, kind="stable").tolist()]
