"""Search over selections for metrics that are ratios of sums: corpus BLEU, corpus chrF.

Depth first, as in exact/choices_search.py. The bound of a node is that of a linear minorant of the metric on the box of
what the sums can still be, with every undecided list at its cheapest hypothesis that goes together with the decided
ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lpmert.deadline import checkpoint
from lpmert.exact import choices_tree as layout
from lpmert.exact import ratio_choices_kernels as kernel
from lpmert.exact.choices_kernels import ASKING, DONE
from lpmert.exact.choices_search import ANSWER_WORK, SLICE, ChoicesSearch
from lpmert.exact.method import Incumbent
from lpmert.exact.ratio_lists import UNIT, decode_total, height_limit, height_of_all, new_bound, ratio_lists
from lpmert.form import Canonical
from lpmert.geometry.leastnorm import FEASIBLE, INFEASIBLE
from lpmert.metrics.ratio_kernels import loss_of_height, loss_of_total
from lpmert.result import FloatArray, IntArray

if TYPE_CHECKING:
    from lpmert.exact.choices import Choices


class RatioChoicesSearch(ChoicesSearch):
    """A resumable search over the selections of lists with a ratio metric, within their limits."""

    def __init__(self, settings: Choices, canonical: Canonical, incumbent: Incumbent) -> None:
        costs = np.zeros(len(canonical.features), dtype=np.int64)
        super().__init__(settings, replace(canonical, losses=costs), incumbent, canonical.limits)
        self._given = canonical
        self._lists, self._ratio = ratio_lists(canonical)
        n_rows, n_columns = self._ratio.statistics.shape
        n_lists, longest = len(self._offsets) - 1, int(np.diff(self._offsets).max(initial=1))
        self._bound = new_bound(n_rows, n_columns)
        depths = n_lists - len(canonical.limits) + 2
        self._ranking = kernel.Ranking(
            np.ones(1),
            np.tile(self._ratio.constant, (depths, 1)),
            np.zeros(n_rows, dtype=np.bool_),
            np.zeros(n_rows, dtype=np.int64),
            np.zeros(n_lists, dtype=np.int64),
            np.zeros((depths, longest), dtype=np.int64),
            np.zeros((depths, longest), dtype=np.int64),
            np.zeros(depths, dtype=np.int64),
            np.zeros(depths, dtype=np.int64),
            np.zeros(depths, dtype=np.int64),
            np.zeros(n_columns),
            np.zeros(n_columns),
            np.zeros(longest),
            np.zeros(longest, dtype=np.int64),
        )
        self._tree.numbers[layout.PHASE] = layout.CORE
        self._take(incumbent)
        selection = np.zeros(n_lists, dtype=np.int64)
        scores, target = self._ranking.scores, self._ranking.target
        decode_total(self._lists, self._ratio, incumbent.weights, selection, scores, target)
        self._bound.at[:] = target
        self._least = self._cost_of_height(height_of_all(self._lists, self._ratio, self._bound))

    @property
    def memory(self) -> int:
        return super().memory + sum(array.nbytes for array in self._ranking)

    @property
    def lower_bound(self) -> int:
        """The least bound of what is still open: the current node, and the siblings to come along its path."""
        upper = self.incumbent.cost
        if self.unsettled is not None:
            upper = min(upper, self.unsettled)
        tree, depth = self._tree, int(self._tree.numbers[layout.DEPTH])
        if self._state == DONE or depth < 0:
            return upper
        open_bounds = []
        if tree.numbers[layout.PHASE] != layout.DESCEND:
            open_bounds.append(int(tree.bound[depth]))
            depth -= 1
        ranking = self._ranking
        for level in range(depth + 1):
            if ranking.next[level] < ranking.counts[level]:
                open_bounds.append(int(ranking.bounds[level, ranking.next[level]]))
        if not open_bounds:
            return upper
        return min(upper, max(self._least, self._cost_of_height(min(open_bounds))))

    def advance(self) -> None:
        """Search on until a slice's work is done; exact questions are answered on the way."""
        numbers = self._tree.numbers
        self._take(self.incumbent)
        goal = numbers[layout.WORK] + SLICE
        while numbers[layout.WORK] < goal:
            known = self._ranking.loss[0]
            self._state = kernel.search(
                self._lists,
                self._ratio,
                self._tree,
                self._corrals,
                self._ranking,
                self._bound,
                self._scratch,
                self._settings,
                goal - numbers[layout.WORK],
            )
            if self._ranking.loss[0] < known:
                cost = self._given.cost_of_loss(float(self._ranking.loss[0]))
                self.incumbent.improve(cost, self._tree.best_weights, "S")
            if self._state != ASKING:
                break
            checkpoint()
            self._answer()
            numbers[layout.WORK] += 5 * len(self._lists.costs) + ANSWER_WORK

    def _take(self, incumbent: Incumbent) -> None:
        """Look only for what is better than this incumbent."""
        loss = self._given.loss_of(incumbent.cost)
        if loss < self._ranking.loss[0]:
            self._ranking.loss[0] = loss
        self._tree.numbers[layout.UPPER] = height_limit(self._ratio.kind, self._ranking.loss[0])

    def _cost_of_height(self, height: int) -> int:
        """Return a cost that nothing of at least this height undercuts."""
        loss = loss_of_height(self._ratio.kind, height * UNIT)
        return max(self._given.cost_of_loss(0.0), self._given.cost_of_loss(min(1.0, loss)))

    def _accept(self, weights: FloatArray | None, *, complete: bool, lists: IntArray, positions: IntArray) -> None:
        """Go on from choices attainable exactly; a complete selection that no doubles decode stays unsettled."""
        numbers = self._tree.numbers
        if weights is None and complete:
            numbers[layout.ANSWER] = INFEASIBLE
        else:
            self._tree.answer_weights[:] = self.incumbent.weights if weights is None else weights
            numbers[layout.ANSWER] = FEASIBLE
        if complete:
            rows = self._offsets[lists] + positions
            total = self._ratio.constant + self._ratio.statistics[rows].sum(axis=0)
            loss = float(loss_of_total(self._ratio.kind, self._ratio.parameters, total))
            cost = self._given.cost_of_loss(loss)
            if weights is not None:
                self.incumbent.improve(cost, weights, "X")
                self._take(self.incumbent)
            elif cost < self.incumbent.cost and (self.unsettled is None or cost < self.unsettled):
                self.unsettled = cost
