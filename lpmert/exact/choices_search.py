"""Search over selections: decide one list at a time, and bound the rest by what still goes together.

Depth first. Each undecided list adds the cost of its cheapest hypothesis that is still attainable with the decided
choices, and disjoint cores among these cheapest choices raise the bound further. Small cone LPs run in a kernel; where
rounding hides their answer, LinOptimizer decides exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lpmert import rational
from lpmert.deadline import checkpoint
from lpmert.exact import choices_kernels as kernel
from lpmert.exact import choices_tree as layout
from lpmert.exact.method import Incumbent, Search
from lpmert.form import Canonical
from lpmert.geometry.leastnorm import FEASIBLE, INFEASIBLE, new_corrals, new_scratch
from lpmert.geometry.lp import LinOptimizer
from lpmert.result import FloatArray, IntArray

if TYPE_CHECKING:
    from lpmert.exact.choices import Choices

SLICE = 4_000_000
ANSWER_WORK = 300_000
"""An exact answer in units of work: a few milliseconds."""

_POOL_BYTES = 1 << 26


class ChoicesSearch(Search):
    """A resumable search over selections of lists in canonical form, optionally inside a cone.

    cone [k, d]: only weights with a positive product with every row count, and only those inside the cap.
    """

    unsettled: int | None = None

    def __init__(
        self,
        settings: Choices,
        canonical: Canonical,
        incumbent: Incumbent,
        cone: FloatArray | None = None,
    ) -> None:
        self.incumbent = incumbent
        n_fixed = 0 if cone is None else len(cone)
        if cone is not None:
            canonical = canonical.within(cone)
        self._lists, self._offsets, self._cap = canonical.by_cost, canonical.offsets, canonical.cap
        n_lists, n_features = canonical.n_lists, canonical.n_features
        pool_size = int(np.clip(_POOL_BYTES // (4 * max(1, n_lists)), 100, 100_000))
        self._tree: layout.Tree = layout.new_tree(  # type: ignore[no-untyped-call]
            self._lists,
            n_fixed,
            pool_size,
            settings.kept_witnesses,
            settings.kept_cores,
            np.int64(incumbent.cost),
            np.ascontiguousarray(incumbent.weights),
        )
        self._corrals = new_corrals(n_lists - n_fixed + 2, n_features)
        self._corrals.point[0] = incumbent.weights
        self._scratch = new_scratch(n_features, int(np.diff(self._offsets).max(initial=1)))
        self._settings = layout.Settings(
            canonical.granularity,
            settings.sharpness,
            settings.core_preference,
            settings.look_ahead,
            settings.use_cores,
            settings.use_witnesses,
        )
        self._state = kernel.WORKING
        self._exact_decisions = 0

    @cached_property
    def _optimizer(self) -> LinOptimizer:
        return LinOptimizer(self._lists.rows, self._offsets, self._cap)

    @property
    def finished(self) -> bool:
        return bool(self._state == kernel.DONE or self.lower_bound >= self.incumbent.cost)

    @property
    def nodes(self) -> int:
        return int(self._tree.numbers[layout.NODES]) + 1

    @property
    def open_nodes(self) -> int:
        return max(0, int(self._tree.numbers[layout.DEPTH]) + 1)

    @property
    def lps(self) -> int:
        return int(self._tree.numbers[layout.LPS])

    @property
    def memory(self) -> int:
        return sum(array.nbytes for array in (*self._tree, *self._corrals, *self._lists))

    def counters(self) -> Mapping[str, int]:
        numbers = self._tree.numbers
        return {
            "nodes": self.nodes,
            "lps": self.lps,
            "lp_rounds": int(numbers[layout.ROUNDS]),
            "lps_for_cores": int(numbers[layout.CORE_LPS]),
            "witnesses": int(numbers[layout.POOLED]),
            "exact_decisions": self._exact_decisions,
        }

    @property
    def lower_bound(self) -> int:
        """The least bound of what is still open: the current node, and the siblings to come along its path."""
        upper = self.incumbent.cost
        if self.unsettled is not None:
            upper = min(upper, self.unsettled)
        tree, depth = self._tree, int(self._tree.numbers[layout.DEPTH])
        if self._state == kernel.DONE or depth < 0:
            return upper
        open_bounds = [upper]
        if tree.numbers[layout.PHASE] != layout.DESCEND:
            open_bounds.append(int(tree.bound[depth]))
            depth -= 1
        for level in range(depth + 1):
            s = tree.branch_list[level]
            row = self._offsets[s] + tree.branch_next[level]
            if row < self._offsets[s + 1]:
                open_bounds.append(max(int(tree.bound[level]), int(tree.rest[level] + self._lists.costs[row])))
        least = min(open_bounds)
        return upper if least > upper - self._settings.granularity else least

    def advance(self) -> None:
        """Search on until a slice's work is done; exact questions are answered on the way."""
        numbers = self._tree.numbers
        numbers[layout.UPPER] = self.incumbent.cost
        goal = numbers[layout.WORK] + SLICE
        while numbers[layout.WORK] < goal:
            self._state = kernel.search(
                self._lists, self._tree, self._corrals, self._scratch, self._settings, goal - numbers[layout.WORK]
            )
            if numbers[layout.UPPER] < self.incumbent.cost:
                self.incumbent.improve(int(numbers[layout.UPPER]), self._tree.best_weights, "S")
            if self._state != kernel.ASKING:
                break
            checkpoint()
            self._answer()
            numbers[layout.WORK] += 5 * len(self._lists.costs) + ANSWER_WORK

    def _answer(self) -> None:
        """Decide in exact arithmetic whether the choices that the kernel asks about go together."""
        tree, numbers = self._tree, self._tree.numbers
        asked = tree.decided[: numbers[layout.ASKED]].copy()
        chosen = tree.chosen[asked].copy()
        first_undecided = int(numbers[layout.FIXED] + numbers[layout.DEPTH])
        tree.chosen[asked[first_undecided:]] = -1
        self._exact_decisions += 1
        slot = int(numbers[layout.DEPTH]) + 1
        core = None
        if self._cap is None:
            core = self._core_of_corral(slot, dict(zip(asked.tolist(), chosen.tolist(), strict=True)))
        if core is None:
            rows = self._offsets[asked] + chosen
            start = self._corrals.point[slot].copy()
            verdict = self._optimizer.solve((asked, rows), start=start if start.any() else None)
            if verdict.attainable:
                self._accept(verdict.weights, complete=len(asked) == len(tree.chosen), lists=asked, positions=chosen)
                return
            core = sorted({s for s, _, _ in verdict.core})
        position = dict(zip(asked.tolist(), chosen.tolist(), strict=True))
        q = int(numbers[layout.EXACT_CORES]) % len(tree.exact_cores)
        tree.exact_core_sizes[q] = len(core)
        for k, s in enumerate(core):
            tree.exact_cores[q, k] = s, position[s]
        numbers[layout.EXACT_CORES] += 1

    def _core_of_corral(self, slot: int, position: Mapping[int, int]) -> list[int] | None:
        """Return the lists of a core among the rows with which the kernel stopped, if exact arithmetic confirms one."""
        size = int(self._corrals.size[slot])
        if size == 0:
            return None
        lists = self._corrals.lists[slot, :size]
        begin = self._offsets[lists]
        chosen = self._lists.rows[begin + [position[s] for s in lists.tolist()]]
        others = self._lists.rows[begin + self._corrals.others[slot, :size]]
        hint = self._corrals.multipliers[slot, :size]
        multipliers = rational.farkas(
            rational.difference_rows(chosen, others), np.where(hint > 1e-9, hint, 0.0).tolist()
        )
        if multipliers is None:
            return None
        return sorted({int(s) for s, m in zip(lists, multipliers, strict=True) if m > 0})

    def _accept(self, weights: FloatArray | None, *, complete: bool, lists: IntArray, positions: IntArray) -> None:
        """Go on from choices attainable exactly; a complete selection that no doubles decode stays unsettled."""
        numbers = self._tree.numbers
        if weights is not None:
            self._tree.answer_weights[:] = weights
            numbers[layout.ANSWER] = FEASIBLE
        elif not complete:
            self._tree.answer_weights[:] = self.incumbent.weights
            numbers[layout.ANSWER] = FEASIBLE
        else:
            numbers[layout.ANSWER] = INFEASIBLE
        if complete:
            cost = int(self._lists.costs[self._offsets[lists] + positions].sum())
            if weights is not None:
                self.incumbent.improve(cost, weights, "X")
                numbers[layout.UPPER] = min(int(numbers[layout.UPPER]), cost)
            elif self.unsettled is None or cost < self.unsettled:
                self.unsettled = cost
