"""Search over selections: decide one list at a time, and bound the rest by what still goes together.

Depth first. Each undecided list adds the cost of its cheapest hypothesis that is still attainable with the decided
choices, and disjoint cores among these cheapest choices raise the bound further. Small cone LPs run in a kernel; where
rounding hides their answer, LinOptimizer decides exactly.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.choices import kernels as kernel
from lpmert.methods.choices import tree as layout
from lpmert.methods.choices.ledger_of_ratios import Heights
from lpmert.methods.choices.ledger_of_sums import Costs, new_costs
from lpmert.methods.choices.open_selections import UNDECIDED, OpenSelections, put_open, take_open
from lpmert.model.form import Canonical
from lpmert.numeric import rational
from lpmert.numeric.cap import Cap
from lpmert.numeric.leastnorm import FEASIBLE, INFEASIBLE, SortedLists, new_corrals, new_scratch
from lpmert.numeric.lp import LinOptimizer
from lpmert.numeric.rounding import Rounding, exact_differences
from lpmert.search.in_units import Divisible
from lpmert.search.method import Incumbent
from lpmert.system.deadline import checkpoint

SLICE = 4_000_000
ANSWER_WORK = 300_000
"""An exact answer in units of work: a few milliseconds."""

_ANSWER_ROW_WORK = 25
"""What it takes besides that for each hypothesis."""

_POOL_BYTES = 1 << 26


class Options(Protocol):
    """What a search takes of the method `Choices`."""

    @property
    def kept_witnesses(self) -> int:
        """Most witnesses in the pool."""

    @property
    def kept_cores(self) -> int:
        """Most cores that are remembered."""

    def switches(self, granularity: int, *, cores: bool) -> layout.ChoiceSettings:
        """Return what kernels need to know."""


class Gains(NamedTuple):
    """What looking ahead has brought: how often each list was asked [S], and by how much that raised bounds [S]."""

    asked: IntArray
    raised: FloatArray

    def beyond(self, before: Gains) -> Gains:
        """Return what has been added to those before."""
        return Gains(self.asked - before.asked, self.raised - before.raised)

    def with_more(self, more: Gains) -> Gains:
        """Return both together."""
        return Gains(self.asked + more.asked, self.raised + more.raised)


class ChoicesSearch(Divisible[OpenSelections]):
    """A resumable search over selections; what is summed is the affair of its ledger, and of those who derive from it.

    lists: for kernels, the last n_fixed of them half-spaces, decided for good.
    """

    phase = "selections"
    _ledger: Costs | Heights
    unsettled: int | None = None

    def __init__(
        self,
        options: Options,
        switches: layout.ChoiceSettings,
        lists: SortedLists,
        n_fixed: int,
        incumbent: Incumbent,
        cap: Cap | None,
        rounding: Rounding | None,
    ) -> None:
        self.incumbent = incumbent
        self._rounding = rounding
        self._lists, self._offsets, self._cap = lists, lists.offsets, cap
        n_lists, n_features = len(lists.offsets) - 1, lists.rows.shape[1]
        pool_size = int(np.clip(_POOL_BYTES // (4 * max(1, n_lists)), 100, 100_000))
        self._tree: layout.Tree = layout.new_tree(
            lists,
            n_fixed,
            pool_size,
            options.kept_witnesses,
            options.kept_cores,
            np.int64(incumbent.cost),
            np.ascontiguousarray(incumbent.weights),
        )
        self._corrals = new_corrals(n_lists - n_fixed + 2, n_features)
        self._corrals.point[0] = incumbent.weights
        self._scratch = new_scratch(n_features, int(np.diff(lists.offsets).max(initial=1)))
        self._settings = switches
        self._state = kernel.WORKING
        self._exact_decisions = 0

    @abstractmethod
    def _aim(self) -> None:
        """Let the kernel look only for what costs less than the incumbent."""

    @abstractmethod
    def _take_found(self) -> None:
        """Take what the kernel has found as the incumbent, if it costs less."""

    @abstractmethod
    def _cost_of_bound(self, bound: int) -> int:
        """Return a cost that nothing undercuts in a node of this bound."""

    @abstractmethod
    def _cost_of_rows(self, rows: IntArray) -> int:
        """Return what the complete selection of these rows of the lists costs."""

    @abstractmethod
    def _next_bound(self, depth: int) -> int | None:
        """Return the bound of the child that the node at this depth has next, `None` if it has none."""

    @abstractmethod
    def go_on_with(self, part: OpenSelections) -> None:
        """Search a part next, and nothing else of what was open."""

    @property
    def granularity(self) -> int:
        """What an improvement is at least."""
        return self._settings.granularity

    @property
    def work(self) -> int:
        """Work done since the search began."""
        return int(self._tree.numbers[layout.WORK])

    @property
    def gains(self) -> Gains:
        """What looking ahead has brought so far."""
        return Gains(self._tree.asked.copy(), self._tree.raised.copy())

    def expect(self, gains: Gains) -> None:
        """Begin with what looking ahead has brought elsewhere."""
        tree = self._tree
        tree.asked[:], tree.raised[:] = gains
        asked = tree.asked > 0
        tree.gain[asked] = tree.raised[asked] / tree.asked[asked]

    @property
    def done(self) -> bool:
        """Whether nothing is open."""
        return bool(self._state == kernel.DONE)

    @property
    def between_nodes(self) -> bool:
        """Whether nothing is lost if it does not go on but `open_parts` are searched elsewhere."""
        between = self._tree.numbers[layout.PHASE] in (layout.BOUND, layout.DESCEND)
        return bool(between and self._state == kernel.WORKING)

    @cached_property
    def _optimizer(self) -> LinOptimizer:
        return LinOptimizer(self._lists.rows, self._offsets, self._cap, self._rounding)

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
        open_bounds = []
        if tree.numbers[layout.PHASE] != layout.DESCEND:
            open_bounds.append(int(tree.bound[depth]))
            depth -= 1
        for level in range(depth + 1):
            bound = self._next_bound(level)
            if bound is not None:
                open_bounds.append(max(int(tree.bound[level]), bound))
        least = min(upper, self._cost_of_bound(min(open_bounds))) if open_bounds else upper
        return upper if least > upper - self._settings.granularity else least

    def advance(self) -> None:
        """Search on until a slice's work is done; exact questions are answered on the way."""
        self.search_on(SLICE)

    def search_on(self, budget: int) -> None:
        """Search on until so much work is done."""
        numbers = self._tree.numbers
        self._aim()
        goal = numbers[layout.WORK] + budget
        while numbers[layout.WORK] < goal:
            self._state = kernel.search(
                self._ledger,
                self._lists,
                self._tree,
                self._corrals,
                self._scratch,
                self._settings,
                goal - numbers[layout.WORK],
            )
            self._take_found()
            if self._state != kernel.ASKING:
                break
            checkpoint()
            self._answer()
            numbers[layout.WORK] += _ANSWER_ROW_WORK * len(self._lists.costs) + ANSWER_WORK

    def _answer(self) -> None:
        """Decide in exact arithmetic whether the choices that the kernel asks about go together."""
        tree, numbers = self._tree, self._tree.numbers
        asked = tree.decided[: numbers[layout.ASKED]].copy()
        chosen = tree.chosen[asked].copy()
        first_undecided = int(numbers[layout.FIXED] + numbers[layout.DEPTH])
        tree.chosen[asked[first_undecided:]] = -1
        self._exact_decisions += 1
        slot = int(numbers[layout.DEPTH]) + 1
        position = dict(zip(asked.tolist(), chosen.tolist(), strict=True))
        core = None if self._cap is not None else self._core_of_corral(slot, position)
        if core is None:
            rows = self._offsets[asked] + chosen
            start = self._corrals.point[slot].copy()
            verdict = self._optimizer.solve((asked, rows), start=start if start.any() else None)
            if verdict.attainable:
                self._accept(verdict.weights, rows if len(asked) == len(tree.chosen) else None)
                return
            core = sorted({s for s, _, _ in verdict.core})
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
        chosen = begin + [position[s] for s in lists.tolist()]
        others = begin + self._corrals.others[slot, :size]
        hint = self._corrals.multipliers[slot, :size]
        rows = exact_differences(self._lists.rows, self._rounding, chosen, others)
        multipliers = rational.farkas(rows, np.where(hint > 1e-9, hint, 0.0).tolist())
        if multipliers is None:
            return None
        return sorted({int(s) for s, m in zip(lists, multipliers, strict=True) if m > 0})

    def _accept(self, weights: FloatArray | None, complete: IntArray | None) -> None:
        """Go on from choices attainable exactly; the rows of a complete selection that no doubles decode stay
        unsettled.
        """
        numbers = self._tree.numbers
        if weights is None and complete is not None:
            numbers[layout.ANSWER] = INFEASIBLE
        else:
            self._tree.answer_weights[:] = self.incumbent.weights if weights is None else weights
            numbers[layout.ANSWER] = FEASIBLE
        if complete is not None:
            cost = self._cost_of_rows(complete)
            if weights is not None:
                self.incumbent.improve(cost, weights, "X")
                self._aim()
            elif cost < self.incumbent.cost and (self.unsettled is None or cost < self.unsettled):
                self.unsettled = cost


class SumChoicesSearch(ChoicesSearch):
    """A resumable search over selections of lists in canonical form, optionally inside a cone.

    cone [k, d]: only weights with a positive product with every row count, and only those inside the cap.
    """

    _ledger: Costs

    def __init__(
        self, options: Options, canonical: Canonical, incumbent: Incumbent, cone: FloatArray | None = None
    ) -> None:
        n_fixed = 0 if cone is None else len(cone)
        if cone is not None:
            canonical = canonical.within(cone)
        switches = options.switches(canonical.granularity, cores=True)
        exact = canonical.rounding_by_cost
        super().__init__(options, switches, canonical.by_cost, n_fixed, incumbent, canonical.cap, exact)
        self._ledger = new_costs(self._tree)

    def open_parts(self) -> list[OpenSelections]:
        """Return what is open, the coarsest first."""
        return take_open(self._tree, self._corrals, self._next_bound)

    def go_on_with(self, part: OpenSelections) -> None:
        """Search a part next, and nothing else of what was open."""
        put_open(self._tree, self._corrals, self._lists, part)
        numbers, s = self._tree.numbers, part.branch
        if s != UNDECIDED:
            row = self._offsets[s] + part.pointer[s]
            self._ledger.rest[len(part.lists)] = numbers[layout.SUM] - self._lists.costs[row]
        self._state = kernel.WORKING

    def _aim(self) -> None:
        self._tree.numbers[layout.UPPER] = self.incumbent.cost

    def _take_found(self) -> None:
        self.incumbent.improve(int(self._tree.numbers[layout.UPPER]), self._tree.best_weights, "S")

    def _cost_of_bound(self, bound: int) -> int:
        return bound

    def _cost_of_rows(self, rows: IntArray) -> int:
        return int(self._lists.costs[rows].sum())

    def _next_bound(self, depth: int) -> int | None:
        s = self._tree.branch_list[depth]
        row = self._offsets[s] + self._tree.branch_next[depth]
        return int(self._ledger.rest[depth] + self._lists.costs[row]) if row < self._offsets[s + 1] else None
