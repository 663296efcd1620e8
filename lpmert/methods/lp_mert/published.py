"""Algorithms 1 and 2 as published: one program of HiGHS a test, and the first combination of all lists that it accepts.

Source: Galley and Quirk, Optimal Search for Minimum Error Rate Training, EMNLP 2011.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod

import numpy as np

from lpmert.core import INFINITE_COST
from lpmert.errors import FloatArray, IntArray
from lpmert.methods.lp_mert.attainability import AttainabilityOracle
from lpmert.methods.lp_mert.streams import Combination, OneList, Stream, TwoHalves, WarmStart, balanced_tree
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.search.incumbent import any_incumbent
from lpmert.search.method import Incumbent, Search
from lpmert.system.deadline import checkpoint

SLICE_LPS = {"least-norm": 1000, "highs": 60}
"""Linear programs in a slice, by what decides them."""

LARGEST_COUNT = 10**300
"""Of combinations: larger numbers are not told."""


class PublishedTest:
    """LinOptimizer as published: one program of HiGHS decides whether a combination is held.

    tested: combinations by length. doubted: whether some combination was refused that the kernel, which checks every
    refusal and changes none, finds attainable.
    """

    def __init__(self, canonical: Canonical) -> None:
        self.sorted_lists = canonical.by_cost
        self.oracle = AttainabilityOracle(self.sorted_lists, canonical.cap)
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
        self.doubted = self.doubted or self.oracle.decide(lists, positions) is not None
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
        start = self._test.oracle.decide(self._root.lists, first.positions)
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
