"""Search over selections: decide one list at a time, and bound the rest by what still goes together.

Depth first. Each undecided list adds the cost of its cheapest hypothesis that is still attainable with the decided
choices, and disjoint cores among these cheapest choices raise the bound further. That runs in the compiled core
(`core/choices.hpp`); where rounding hides whether choices go together, LinOptimizer decides exactly.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray
from lpmert.model.canonical import Canonical
from lpmert.numeric import rational
from lpmert.numeric.cone import Cap
from lpmert.numeric.lists import SortedLists
from lpmert.numeric.lp import LinOptimizer
from lpmert.numeric.rounding import Rounding, exact_differences
from lpmert.search.method import Incumbent
from lpmert.search.node_queue import Divisible, OpenNode
from lpmert.system.deadline import checkpoint

WORKING, ASKING, DONE = range(3)

SLICE = 4_000_000
ANSWER_WORK = 300_000
"""An exact answer in units of work: a few milliseconds."""

_ANSWER_ROW_WORK = 25
"""What it takes besides that for each hypothesis."""

_POOL_BYTES = 1 << 26


class ChoiceSettings(NamedTuple):
    """granularity: what an improvement is at least; sharpness: how steeply costs count in branching; switches
    turn devices off that never change the optimum; pool_size, kept_cores: what is remembered at most.
    """

    granularity: int
    sharpness: float
    look_ahead: bool
    use_cores: bool
    use_witnesses: bool
    pool_size: int
    kept_cores: int


class Options(Protocol):
    """What a search takes of the method `Choices`."""

    def core_settings(self, granularity: int, *, cores: bool, pool_size: int) -> ChoiceSettings:
        """Return what the search needs to know."""


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


class ChoicesSearch(Divisible[OpenNode]):
    """A resumable search over selections; what is summed is the affair of those who derive from it.

    lists: as sorted, the last n_fixed of them half-spaces, decided for good.
    """

    phase = "selections"
    _core: core.SumChoices | core.RatioChoices
    unsettled: int | None = None

    def __init__(
        self,
        options: Options,
        granularity: int,
        cores: bool,
        lists: SortedLists,
        incumbent: Incumbent,
        cap: Cap | None,
        rounding: Rounding | None,
    ) -> None:
        self.incumbent, self._granularity = incumbent, granularity
        self._rounding = rounding
        self._lists, self._offsets, self._cap = lists, lists.offsets, cap
        n_lists = len(lists.offsets) - 1
        pool_size = int(np.clip(_POOL_BYTES // (4 * max(1, n_lists)), 100, 100_000))
        self._settings = options.core_settings(granularity, cores=cores, pool_size=pool_size)
        self._state = WORKING
        self._exact_decisions = 0

    @abstractmethod
    def _aim(self) -> None:
        """Let the core look only for what costs less than the incumbent."""

    @abstractmethod
    def _take_found(self) -> None:
        """Take what the core has found as the incumbent, if it costs less."""

    @abstractmethod
    def _cost_of_bound(self, bound: int) -> int:
        """Return a cost that nothing undercuts in a node of this bound."""

    @abstractmethod
    def _cost_of_rows(self, rows: IntArray) -> int:
        """Return what the complete selection of these rows of the lists costs."""

    @property
    def granularity(self) -> int:
        """What an improvement is at least."""
        return self._granularity

    @property
    def work(self) -> int:
        """Work done since the search began."""
        return self._core.work

    @property
    def gains(self) -> Gains:
        """What looking ahead has brought so far."""
        return Gains(*self._core.gains)

    def expect(self, gains: Gains) -> None:
        """Begin with what looking ahead has brought elsewhere."""
        self._core.expect(*gains)

    @property
    def done(self) -> bool:
        """Whether nothing is open."""
        return self._state == DONE

    @property
    def between_nodes(self) -> bool:
        """Whether nothing is lost if it does not go on but `open_parts` are searched elsewhere."""
        return self._core.between_nodes

    @cached_property
    def _optimizer(self) -> LinOptimizer:
        return LinOptimizer(self._lists.rows, self._offsets, self._cap, self._rounding)

    @property
    def finished(self) -> bool:
        return self._state == DONE or self.lower_bound >= self.incumbent.cost

    @property
    def nodes(self) -> int:
        return self._core.nodes + 1

    @property
    def open_nodes(self) -> int:
        return max(0, self._core.depth + 1)

    @property
    def lps(self) -> int:
        return self._core.programs

    @property
    def memory(self) -> int:
        return self._core.nbytes + sum(array.nbytes for array in self._lists)

    def counters(self) -> Mapping[str, int]:
        return {
            "nodes": self.nodes,
            "lps": self.lps,
            "lp_rounds": self._core.rounds,
            "lps_for_cores": self._core.core_programs,
            "witnesses": self._core.witnesses,
            "exact_decisions": self._exact_decisions,
        }

    @property
    def lower_bound(self) -> int:
        """The least bound of what is still open: the current node, and the siblings to come along its path."""
        upper = self.incumbent.cost
        if self.unsettled is not None:
            upper = min(upper, self.unsettled)
        bound = self._core.least_open
        if bound >= core.INFINITE_COST:
            return upper
        least = min(upper, self._cost_of_bound(bound))
        return upper if least > upper - self.granularity else least

    def open_parts(self) -> list[OpenNode]:
        """Return what is open, the coarsest first."""
        return [OpenNode(self._cost_of_bound(bound), data) for bound, data in self._core.open_nodes()]

    def go_on_with(self, part: OpenNode) -> None:
        """Search a part next, and nothing else of what was open."""
        self._core.go_on_with(part.data)
        self._state = WORKING

    def advance(self) -> None:
        """Search on until a slice's work is done; exact questions are answered on the way."""
        self.search_on(SLICE)

    def search_on(self, budget: int) -> None:
        """Search on until so much work is done."""
        self._aim()
        goal = self._core.work + budget
        while self._core.work < goal:
            self._state = self._core.search(goal - self._core.work)
            self._take_found()
            if self._state != ASKING:
                break
            checkpoint()
            self._answer()
            self._core.spend(_ANSWER_ROW_WORK * len(self._lists.costs) + ANSWER_WORK)

    def _answer(self) -> None:
        """Decide in exact arithmetic whether the choices that the core asks about go together."""
        question = self._core.question
        self._exact_decisions += 1
        lists = None if self._cap is not None else self._core_of_trial(dict(question.tolist()))
        if lists is None:
            rows = self._offsets[question[:, 0]] + question[:, 1]
            start = self._core.trial.point
            verdict = self._optimizer.solve((question[:, 0].copy(), rows), start=start if start.any() else None)
            if verdict.attainable:
                self._accept(verdict.weights, rows if len(question) == len(self._offsets) - 1 else None)
                return
            lists = sorted({s for s, _, _ in verdict.core})
        self._core.answer_core(question[np.isin(question[:, 0], lists)])

    def _core_of_trial(self, position: Mapping[int, int]) -> list[int] | None:
        """Return the lists of a core among the rows with which the core stopped, if exact arithmetic confirms one."""
        trial = self._core.trial
        if trial.size == 0:
            return None
        lists, hint = trial.lists, trial.multipliers
        begin = self._offsets[lists]
        chosen = begin + np.array([position[s] for s in lists.tolist()])
        rows = exact_differences(self._lists.rows, self._rounding, chosen, begin + trial.others)
        multipliers = rational.farkas(rows, np.where(hint > 1e-9, hint, 0.0).tolist())
        if multipliers is None:
            return None
        return sorted({int(s) for s, m in zip(lists, multipliers, strict=True) if m > 0})

    def _accept(self, weights: FloatArray | None, complete: IntArray | None) -> None:
        """Go on from choices attainable exactly; the rows of a complete selection that no doubles decode stay
        unsettled.
        """
        if weights is None and complete is not None:
            self._core.answer_unattainable()
        else:
            self._core.answer_attainable(self.incumbent.weights if weights is None else weights)
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

    _core: core.SumChoices

    def __init__(
        self, options: Options, canonical: Canonical, incumbent: Incumbent, cone: FloatArray | None = None
    ) -> None:
        if cone is not None:
            canonical = canonical.within(cone)
        lists, exact = canonical.by_cost, canonical.rounding_by_cost
        super().__init__(options, canonical.granularity, True, lists, incumbent, canonical.cap, exact)
        n_fixed = 0 if cone is None else len(cone)
        self._core = core.SumChoices(lists.native(), n_fixed, incumbent.cost, incumbent.weights, self._settings)

    def _aim(self) -> None:
        self._core.aim(self.incumbent.cost)

    def _take_found(self) -> None:
        if self._core.cost < self.incumbent.cost:
            self.incumbent.improve(self._core.cost, self._core.best_weights, "S")

    def _cost_of_bound(self, bound: int) -> int:
        return bound

    def _cost_of_rows(self, rows: IntArray) -> int:
        return int(self._lists.costs[rows].sum())
