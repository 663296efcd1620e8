"""Attainability: whether some weights make given choices together.

`AttainabilityOracle` solves one linear program for each question, and uses exact arithmetic where rounding hides the
answer; its `published_weights` is the linear program of the paper. `PublishedSearch` runs Algorithms 1 and 2 as
published: each test is one program of HiGHS, and the first combination of all lists that it accepts ends the search.

Source: Galley and Quirk, Optimal Search for Minimum Error Rate Training, EMNLP 2011.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property

import numpy as np
from scipy.optimize import linprog

from lpmert import core
from lpmert.core import INFINITE_COST
from lpmert.errors import FloatArray, IntArray
from lpmert.methods.lp_mert.streams import Combination, CombinationTest, Halves, StreamSearch, balanced_tree
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.numeric.cone import Cap
from lpmert.numeric.lists import FEASIBLE, INFEASIBLE, SortedLists
from lpmert.numeric.lp import LinOptimizer
from lpmert.search.incumbent import any_incumbent
from lpmert.system.deadline import checkpoint

_PUBLISHED_TOLERANCE = 1e-9
"""Combinations with a published objective up to this count as interior; differences are scaled to at most 1."""


class AttainabilityOracle:
    """Decides whether choices from lists in order of cost are attainable together.

    counters: linear programs, and those that exact arithmetic decided. cosine_test: see `LpMert`.
    """

    def __init__(self, sorted_lists: SortedLists, cap: Cap | None = None, cosine_test: str = "exact") -> None:
        self.sorted_lists = sorted_lists
        self._cap, self._tests_corner = cap, cosine_test == "published"
        self.sizes = np.diff(sorted_lists.offsets)
        self.counters: Counter[str] = Counter(lps=0, exact_decisions=0)
        self.native = sorted_lists.native()
        self._least_norm = core.LeastNorm(self.native)
        self._origin = np.zeros(sorted_lists.rows.shape[1])
        self._corral = core.Corral(len(self._origin))
        self._chosen = np.zeros(len(self.sizes), dtype=np.int64)

    @cached_property
    def _optimizer(self) -> LinOptimizer:
        lists = self.sorted_lists
        return LinOptimizer(lists.rows, lists.offsets, self._cap, lists.rounding)

    def decide(
        self, lists: IntArray, positions: IntArray, near: FloatArray | None = None, first: int = 0
    ) -> tuple[bool, FloatArray | None]:
        """Return whether these positions of these lists can be strictly best together, and a witness [d].

        The witness is `None` if no double-precision weights are one. near [d]: a witness of the first choices, from
        which the program starts; first: their number, with which it begins.
        """
        checkpoint()
        self.counters["lps"] += 1
        corral = self._corral
        corral.restart(self._origin if near is None else near)
        self._chosen[lists] = positions
        verdict = self._least_norm.separate(lists, self._chosen, first % len(lists), corral)
        if verdict == INFEASIBLE:
            return False, None
        attained: bool = True
        witness: FloatArray | None = corral.point
        if verdict != FEASIBLE:
            self.counters["exact_decisions"] += 1
            chosen = lists, self.sorted_lists.offsets[lists] + positions
            exact = self._optimizer.solve(chosen, start=corral.point if corral.point.any() else None)
            attained, witness = exact.attainable, exact.weights
        if attained and self._cap is not None and self._tests_corner:
            attained = self._corner_inside(lists, positions, self._cap)
        return attained, witness if attained else None

    def _corner_inside(self, lists: IntArray, positions: IntArray, cap: Cap) -> bool:
        """Return whether the weights of the cell with the largest product with the cap's centre lie in the cap.

        This is the test of Galley and Quirk, EMNLP 2011, for searches within a cosine. These weights are a corner of
        the cell within a box around the origin, and can lie outside of the cap although the cell reaches into it.
        """
        answer = _box_program(cap.unit, self._differences(lists, positions))
        return answer is not None and cap.cosine_of(answer) >= cap.cosine

    def published_weights(self, lists: IntArray, positions: IntArray) -> FloatArray | None:
        """Return weights [d] of the linear program of the paper; `None` if these choices count as interior.

        The program maximises w.(h - centroid) subject to w.(h - h_j) >= 0 for all j, in a box. Within a cosine, it
        maximises w.centre instead, and its weights must lie within the cosine. Choices count as interior unless the
        maximum is clearly positive.
        """
        differences = self._differences(lists, positions)
        objective = differences.mean(axis=0) if self._cap is None else self._cap.unit
        weights = _box_program(objective, differences)
        if weights is None or weights @ objective <= _PUBLISHED_TOLERANCE:
            return None
        inside = self._cap is None or self._cap.cosine_of(weights) >= self._cap.cosine
        return weights if inside else None

    def _differences(self, lists: IntArray, positions: IntArray) -> FloatArray:
        """Return the differences [R, d] between the chosen and all hypotheses of the lists, scaled to at most 1."""
        rows, offsets = self.sorted_lists.rows, self.sorted_lists.offsets
        pairs = zip(lists.tolist(), positions.tolist(), strict=True)
        differences = np.concatenate([rows[offsets[s] + h] - rows[offsets[s] : offsets[s + 1]] for s, h in pairs])
        return np.asarray(differences / (np.abs(differences).max() or 1.0))


def _box_program(objective: FloatArray, differences: FloatArray) -> FloatArray | None:
    """Return the w in [-1, 1]^d with differences w >= 0 and the largest objective; `None` if HiGHS finds none."""
    answer = linprog(
        -objective,
        A_ub=-differences,
        b_ub=np.zeros(len(differences)),
        bounds=(-1, 1),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10},
    )
    return np.asarray(answer.x) if answer.status == 0 else None


_SLICE_LPS = 60  # linear programs of HiGHS in a slice


class PublishedTest(CombinationTest):
    """The test as published: one linear program of HiGHS decides whether a combination belongs to a stream.

    refused_attainable: whether the program has refused an attainable combination; the kernel checks every refusal for
    this, but changes none.
    """

    def __init__(self, canonical: Canonical) -> None:
        super().__init__(canonical)
        self.oracle = AttainabilityOracle(self.sorted_lists, canonical.cap)
        self.refused_attainable = False

    def counters(self) -> dict[str, int]:
        """Return all counts: each combination is one program; `checked` counts the refusals."""
        return {"lps": self.tested.total(), "checked": self.oracle.counters["lps"], **super().counters()}

    def test(self, lists: IntArray, cost: int, positions: IntArray, halves: Halves | None = None) -> Combination | None:
        del halves
        checkpoint()
        self.tested[len(lists)] += 1
        weights = self.oracle.published_weights(lists, positions)
        if weights is not None:
            return Combination(cost, positions, weights, self._no_bounds)
        self.refused_attainable = self.refused_attainable or self.oracle.decide(lists, positions)[0]
        return None


class PublishedSearch(StreamSearch):
    """Algorithms 1 and 2 slice by slice: the search ends with the first combination of the root.

    The lower bound is that of the root as long as no attainable combination has been refused: if an attainable
    combination costs less than the accepted one, it was refused, or a part of it was. The first incumbent is arbitrary,
    and plays no part in the search.
    """

    finished = False

    def __init__(self, canonical: Canonical) -> None:
        self._canonical = canonical
        self._test = PublishedTest(canonical)
        super().__init__(any_incumbent(canonical), self._test, lazy=False)
        self._root = balanced_tree(self.lists, self._join)
        self._bound: int | None = 0

    @property
    def lower_bound(self) -> int | None:
        return None if self._bound is None else min(self._bound, self.incumbent.cost)

    @property
    def lps(self) -> int:
        return self.nodes

    def advance(self) -> None:
        stop = self.lps + _SLICE_LPS
        while not self.finished and self.lps < stop:
            self._root.get_next_best()
            if self._root.found:
                self._end(self._root.found[0])
            elif self._root.bound >= INFINITE_COST:  # every combination was refused
                self._bound, self.finished = None, True
            elif not self._test.refused_attainable and self._bound is not None:
                self._bound = max(self._bound, self._root.bound)

    def _end(self, first: Combination) -> None:
        """Take the first combination of the root as the result, and set the bound that it proves.

        It proves nothing if only ties attain it, or if the refusal of an attainable combination may have hidden a
        cheaper one.
        """
        self.finished = True
        attained, weights = self._test.oracle.decide(self._root.lists, first.positions)
        if not attained:
            self._take_tied(first.weights)
        elif weights is None:
            self._leave_unsettled(first.cost)
        else:
            self.incumbent.improve(first.cost, weights, "D")
        doubtful = self._test.refused_attainable and (self._bound is None or self._bound < first.cost)
        self._bound = first.cost if attained and not doubtful else None

    def _take_tied(self, weights: FloatArray | None) -> None:
        """Improve the incumbent by weights of the paper's program, at the worst cost of their ties: see lemma C3."""
        cap = self._canonical.cap
        if weights is not None and (cap is None or cap.contains(weights)):
            self.incumbent.improve(self._canonical.clear_cost(CanonicalWeights(weights))[0], weights, "D")
