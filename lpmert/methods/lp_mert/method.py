"""LP-MERT: divide the lists into halves, and combine the attainable combinations of both halves in order of cost.

Source: Galley and Quirk, Optimal Search for Minimum Error Rate Training, EMNLP 2011. `PublishedSearch` is the algorithm
of the paper to the letter; `LpMert` starts it, or the search with all additions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from lpmert.configurable import option
from lpmert.core import INFINITE_COST
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.methods.lp_mert.attainability import AttainabilityOracle
from lpmert.methods.lp_mert.search import LARGEST_COUNT, SLICE_LPS, LpMertSearch
from lpmert.methods.lp_mert.shared import ParallelLpMert
from lpmert.methods.lp_mert.streams import Combination, OneList, Stream, TwoHalves, WarmStart, balanced_tree
from lpmert.model.coordinates import CanonicalWeights
from lpmert.model.form import Canonical
from lpmert.search.method import Incumbent, Method, Search, Task
from lpmert.search.start import any_incumbent
from lpmert.system.deadline import checkpoint


@dataclass(frozen=True)
class LpMert(Method):
    """Galley and Quirk's divide and conquer, with additions that can be switched off; none changes the optimum.

    published=True is Algorithms 1 and 2 to the letter, and nothing else: no other option applies. One program of HiGHS
    a test maximises w.(h - centroid), within a cosine w.(its centre); the lists are halved in their order; no first
    weights; the search ends with the first combination of all lists that is accepted. The paper's test also accepts
    what only ties attain. A search that ends so, or for which the test refused an attainable combination, proves no
    optimum, and its result is a heuristic's.

    Otherwise attainability is strict, as for all methods here. The linear programs "least-norm" are decided in a
    kernel, and in exact arithmetic where rounding hides the answer; "highs" decides on HiGHS. look_ahead finds each
    other list's cheapest hypothesis that goes with a combination, drops the combination if no selection below the
    incumbent is left, and now and then completes one greedily. A chain begins with the lists with the fewest
    candidates, so that what is looked at ahead is known early. The cosine_test "published" asks the weights of the cell
    with the largest product with the centre, which can miss cells that reach into the cap, so that the result has no
    bound; "exact" projects.
    """

    published: bool = option(False, "Algorithms 1 and 2 to the letter; no other option applies")
    lp: str = option("least-norm", "what decides linear programs", choices=tuple(SLICE_LPS))
    row_generation: bool = option(True, "begin with few rows and where the first half ended")
    use_witnesses: bool = option(True, "weights known to make the choices save the linear program")
    use_cores: bool = option(True, "choices that hold a learnt core are dropped without one")
    look_ahead: bool = option(True, "bound what the other lists still cost")
    lazy: bool = option(True, "a neighbour waits in the frontier at a bound; off: it is found at once, as published")
    chain: bool = option(True, "combine one list after the other; off: a balanced tree, as published")
    lanes: int = option(
        8, "parts searched side by side once a search is long; so many workers find something to do", least=1
    )
    cosine_test: str = option("exact", "how a cosine is asked of a combination", choices=("exact", "published"))

    name = "lp-mert"
    takes_jobs = True
    takes_fractions = True
    takes_caps = True
    keeps_checkpoints = True

    @property
    def parallel(self) -> bool:
        return self.chain and not self.published

    def start(self, task: Task) -> Search:
        """Return the search as one that can pause; raises `MethodError` for published=True and a ratio."""
        if self.published:
            if not task.problem.canonical.additive:
                metric = task.problem.metric.name
                raise MethodError(f"published=True takes a sum of losses, and metric '{metric}' is none; leave it out")
            return PublishedSearch(task.canonical)
        alone = LpMertSearch(self, task.canonical, task.incumbent)
        return ParallelLpMert(self, task.canonical, alone) if self.parallel else alone


class PublishedTest:
    """LinOptimizer as published: one program of HiGHS decides whether a combination is held.

    tested: combinations by length. doubted: whether some combination was refused that the kernel, which checks every
    refusal and changes none, finds attainable.
    """

    def __init__(self, canonical: Canonical) -> None:
        self.sorted_lists = canonical.by_cost
        self.oracle = AttainabilityOracle(self.sorted_lists, canonical.cap, canonical.rounding_by_cost)
        self.tested: Counter[int] = Counter()
        self.doubted = False
        self._nothing_known = np.zeros(canonical.n_lists, dtype=np.int64)

    def test(
        self,
        lists: IntArray,
        cost: int,
        positions: IntArray,
        halves: tuple[Combination, Combination] | None = None,
    ) -> Combination | None:
        """Return the combination if the program of the paper accepts it."""
        del halves
        checkpoint()
        self.tested[len(lists)] += 1
        weights = self.oracle.published_weights(lists, positions)
        if weights is not None:
            return Combination(cost, positions, WarmStart(len(lists), weights), self._nothing_known)
        self.doubted = self.doubted or self.oracle.ask(lists, positions).start is not None
        return None


class PublishedSearch(Search):
    """A resumable run of Algorithms 1 and 2: it asks the root for its first combination, and ends with that.

    The lower bound is the root's, as far as no refusal was in doubt: an attainable combination that costs less than an
    accepted one was refused, or a half of it was. It begins with any weights, which no search looks at.
    """

    unsettled: int | None = None
    finished = False

    def __init__(self, canonical: Canonical) -> None:
        self.incumbent: Incumbent = any_incumbent(canonical)
        self._canonical = canonical
        self._test = PublishedTest(canonical)
        lists: list[Stream] = [OneList(s, self._test) for s in range(canonical.n_lists)]
        self._joined: list[TwoHalves] = []
        self._root = balanced_tree(lists, self._join)
        self._bound: int | None = 0

    def _join(self, left: Stream, right: Stream) -> TwoHalves:
        self._joined.append(TwoHalves(left, right, self._test, lazy=False))
        return self._joined[-1]

    @property
    def lower_bound(self) -> int | None:
        return None if self._bound is None else min(self._bound, self.incumbent.cost)

    @property
    def nodes(self) -> int:
        return self._test.tested.total()

    @property
    def lps(self) -> int:
        """Programs of the paper: one a test."""
        return self.nodes

    @property
    def open_nodes(self) -> int:
        return sum(len(stream.frontier) for stream in self._joined)

    def counters(self) -> Mapping[str, int]:
        """Return what was counted; `tested_n` are combinations of n lists, each one program, checked are refusals."""
        tested = {f"tested_{n}": count for n, count in sorted(self._test.tested.items())}
        everything = prod(self._test.oracle.sizes.tolist())
        total = {"combinations": everything} if everything < LARGEST_COUNT else {}
        checked = self._test.oracle.counters["lps"]
        return {"nodes": self.nodes, "lps": self.lps, "checked": checked, **tested, **total}

    def advance(self) -> None:
        """Ask the root on, until a slice's work is done or it has its first combination."""
        stop = self.lps + SLICE_LPS["highs"]
        while not self.finished and self.lps < stop:
            self._root.get_next_best()
            if self._root.found:
                self._end(self._root.found[0])
            elif self._root.bound >= INFINITE_COST:  # every combination was refused
                self._bound, self.finished = None, True
            elif not self._test.doubted and self._bound is not None:
                self._bound = max(self._bound, self._root.bound)

    def _end(self, first: Combination) -> None:
        """Take the first combination that the root accepts, and say what that proves.

        Nothing is proved where only ties attain it, or where a doubtful refusal may have hidden a cheaper one.
        """
        self.finished = True
        start = self._test.oracle.ask(self._root.lists, first.positions).start
        if start is None:
            self._take_tied(first.start.weights)
        elif start.weights is None:
            self.unsettled = first.cost
        else:
            self.incumbent.improve(first.cost, start.weights, "D")
        doubted = self._test.doubted and (self._bound is None or self._bound < first.cost)
        self._bound = None if start is None or doubted else first.cost

    def _take_tied(self, weights: FloatArray | None) -> None:
        """Take weights of the paper's program, if they are better, at what their ties cost at worst: see proofs, C3."""
        cap = self._canonical.cap
        if weights is not None and (cap is None or cap.contains(weights)):
            self.incumbent.improve(self._canonical.clear_cost(CanonicalWeights(weights))[0], weights, "D")
