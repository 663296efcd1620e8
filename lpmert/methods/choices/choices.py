"""Search over selections: decide one list at a time, and bound the rest by what still goes together.

Depth first. Each undecided list adds the cost of its cheapest hypothesis that is still attainable with the decided
choices, and disjoint cores among these cheapest choices raise the bound further. For a ratio metric (corpus BLEU, chrF)
the bound of a node is that of a linear minorant on the box of what the sums can still be. That runs in the compiled
core (`core/choices.hpp`); where rounding hides whether choices go together, LinOptimizer decides exactly. A long search
goes on in units: batches of open nodes for the workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lpmert import core
from lpmert.configurable import option
from lpmert.errors import FloatArray, IntArray
from lpmert.methods.choices.ratio import (
    TANGENTS,
    Ratio,
    close_oracle_height,
    cost_of_height,
    oracle_height,
    ratio_lists,
)
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.numeric import rational
from lpmert.numeric.lists import SortedLists
from lpmert.numeric.lp import LinOptimizer
from lpmert.numeric.rounding import exact_differences
from lpmert.search.checkpoint import plain
from lpmert.search.method import Combined, Incumbent, Method, Search, Task
from lpmert.search.node_queue import Answer, Call, NodeQueue, OpenNode
from lpmert.system.deadline import checkpoint

WORKING, ASKING, DONE = range(3)

SLICE = 4_000_000
ROUNDS = 20_000
"""Rounds of linear programs in a unit of a search's `effort`: 30 to 100 milliseconds on most lists."""

_NO_WEIGHTS, _NO_CORE = np.empty(0), np.empty((0, 2), dtype=np.int64)


class ChoiceSettings(NamedTuple):
    """granularity: what an improvement is at least; the switches turn devices off that never change the optimum."""

    granularity: int
    look_ahead: bool
    use_cores: bool


@dataclass(frozen=True)
class Choices(Method):
    """Branch and bound over the choices of hypotheses, with learnt conflicts; no option changes the optimum."""

    look_ahead: bool = option(True, "test each undecided list at every node, not only at the root")
    use_cores: bool | None = option(
        None, "raise bounds by disjoint cores; none: for sums of losses, as they do not pay for ratio metrics"
    )
    units: int = option(8, "units of work out at once in a long search; at most this many workers are busy", least=1)

    name = "choices"
    takes_ratios = True
    takes_jobs = True
    takes_fractions = True
    takes_caps = True

    def core_settings(self, granularity: int, *, cores: bool) -> ChoiceSettings:
        """Return what the core needs to know; cores: whether these are used where nothing is said."""
        return ChoiceSettings(granularity, self.look_ahead, cores if self.use_cores is None else self.use_cores)

    def start(self, task: Task, least: int | None = None) -> SharedChoices:
        """Return the search; least: a lower bound on all costs that another search has found."""
        return SharedChoices(self, task.canonical, task.incumbent, least)


class Loss:
    """What searches ask about a loss that adds up. Bounds of nodes are whole numbers, here costs.

    lists: as the core takes them; ratio: what they mean to a ratio metric; total [K]: sums of the lists that are
    settled for good. granularity: by how much the bounds of selections of different losses differ at least. In cells:
    row_work: what a split costs a hypothesis; leaf_lists: how many open lists a node has at most, where nothing is
    said, that is searched selection by selection. least: a cost that nothing undercuts, where known before any search.
    """

    lists: SortedLists
    ratio: Ratio | None = None
    total: FloatArray = np.empty(0)
    granularity: int
    row_work, leaf_lists = 4, 10

    def __init__(self, canonical: Canonical) -> None:
        self.canonical = canonical
        self.lists, self.granularity = canonical.by_cost, canonical.granularity

    @cached_property
    def native(self) -> core.Lists:
        """The lists in the core."""
        return self.lists.native()

    @property
    def least(self) -> int | None:
        return None

    def __getstate__(self) -> dict[str, Any]:
        """What workers need of it: the lists, and the scale of the loss."""
        state = {name: value for name, value in self.__dict__.items() if name != "native"}
        return {**state, "canonical": self.canonical.bare()}

    def loss_of(self, cost: int) -> float:
        return self.canonical.loss_of(cost)

    def cost_found(self, found: tuple[int, float, FloatArray]) -> int:
        """Return the cost of what the core has found."""
        return found[0]

    def bound_of(self, cost: int) -> int:
        """Return the bound that no node has in which something costs less, by the granularity or more."""
        return cost

    def cost_of(self, bound: int) -> int:
        """Return a cost that nothing undercuts in a node of this bound."""
        return bound

    def cost_of_rows(self, rows: IntArray) -> int:
        """Return what the complete selection of these rows of the lists costs."""
        return int(self.lists.costs[rows].sum())

    def attained(self, weights: FloatArray, cost: int) -> int | None:  # noqa: ARG002
        """Return what weights [d] found by a search of selections cost, `None` if they do not clearly cost that."""
        return self.canonical.strict_cost(weights)


class RatioLoss(Loss):
    """A ratio metric: bounds are heights in units, costs losses in the problem's fixed point.

    weights [d]: near good ones. closely: whether `least`, unless it is known, comes near the bound of the oracle; not
    worth it for a short search. Raises `MethodError` for a metric whose formula is not known.
    """

    ratio: Ratio
    granularity = 1
    row_work, leaf_lists = 8, 6

    def __init__(
        self, canonical: Canonical, weights: FloatArray, least: int | None = None, *, closely: bool = True
    ) -> None:
        self.canonical, self._weights, self._least, self._closely = canonical, weights, least, closely
        self.lists, self.ratio = ratio_lists(canonical)
        self.total = self.ratio.constant

    @property
    def least(self) -> int:
        if self._least is None:
            tangents = TANGENTS if self._closely else 1
            height, bound = oracle_height(self.lists, self.ratio, self._weights, tangents)
            if self._closely:
                height = close_oracle_height(self.lists, self.ratio, height, bound)
            self._least = cost_of_height(self.canonical, self.ratio.kind, height)
        return self._least

    def cost_found(self, found: tuple[int, float, FloatArray]) -> int:
        # Losses here are doubles, and the cost of one is that loss again: what was not found below is no improvement.
        return self.canonical.cost_of_loss(found[1])

    def bound_of(self, cost: int) -> int:
        return core.height_limit(self.ratio.kind, self.canonical.loss_of(cost))

    def cost_of(self, bound: int) -> int:
        return max(self.least, cost_of_height(self.canonical, self.ratio.kind, bound))

    def cost_of_rows(self, rows: IntArray) -> int:
        total = self.ratio.constant + self.ratio.statistics[rows].sum(axis=0)
        (loss,) = core.losses_of_totals(self.ratio.kind, self.ratio.parameters, total[None])
        return self.canonical.cost_of_loss(float(loss))

    def attained(self, weights: FloatArray, cost: int) -> int | None:
        found = self.canonical.attained_cost(CanonicalWeights(weights))
        return cost if found is not None and found <= cost else None


def loss_for(canonical: Canonical, weights: FloatArray, least: int | None = None, *, closely: bool = True) -> Loss:
    return Loss(canonical) if canonical.additive else RatioLoss(canonical, weights, least, closely=closely)


class ChoicesSearch(Search):
    """A resumable search over the selections of lists in canonical form, within their limits.

    n_fixed: so many of the last lists are half-spaces, decided for good, as the limits of a ratio always are. least,
    closely: as `RatioLoss` has them.
    """

    phase = "selections"

    def __init__(
        self,
        options: Choices,
        canonical: Canonical,
        incumbent: Incumbent,
        n_fixed: int = 0,
        *,
        least: int | None = None,
        closely: bool = True,
    ) -> None:
        self.incumbent = incumbent
        self.loss = loss = loss_for(canonical, incumbent.weights, least, closely=closely)
        self.granularity = loss.granularity
        self._lists, self._offsets, self._cap = loss.lists, loss.lists.offsets, canonical.cap
        n_fixed += 0 if loss.ratio is None else len(canonical.limits)
        settings = options.core_settings(self.granularity, cores=loss.ratio is None)
        self._core = core.choices_search(loss.native, loss.ratio, n_fixed, incumbent.weights, settings)
        self._state = WORKING
        self._exact_decisions = 0

    def _aim(self) -> None:
        """Let the core search only below the incumbent's cost."""
        cost = self.incumbent.cost
        self._core.aim(cost, self.loss.loss_of(cost))

    @property
    def least(self) -> int | None:
        """A lower bound on all costs that needs no search, where there is one; computed on first use."""
        return self.loss.least

    @property
    def work(self) -> int:
        """Work done since the search began."""
        return self._core.work

    @property
    def done(self) -> bool:
        return self._state == DONE

    @property
    def between_nodes(self) -> bool:
        """Whether the search can stop here and `open_parts` be searched elsewhere without loss."""
        return self._core.between_nodes

    @cached_property
    def _optimizer(self) -> LinOptimizer:
        return LinOptimizer(self._lists.rows, self._offsets, self._cap, self._lists.rounding)

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
    def rounds(self) -> int:
        """Rounds of linear programs."""
        return int(self._core.rounds)

    def counters(self) -> Mapping[str, int]:
        return {
            "nodes": self.nodes,
            "lps": self.lps,
            "lp_rounds": self.rounds,
            "lps_for_cores": self._core.core_programs,
            "exact_decisions": self._exact_decisions,
        }

    @property
    def lower_bound(self) -> int:
        """The least bound of what is still open: the current node, and the siblings to come along its path."""
        upper, bound = self._upper, self._core.least_open
        least = upper if bound >= core.INFINITE_COST else self.loss.cost_of(bound)
        return upper if least > upper - self.granularity else least

    def open_parts(self) -> list[OpenNode]:
        """Return what is open, the coarsest first, for others to go on with."""
        return [OpenNode(self.loss.cost_of(bound), data) for bound, data in self._core.open_nodes()]

    def go_on_with(self, part: OpenNode) -> None:
        """Search a part next, and nothing else of what was open."""
        self._core.go_on_with(part.data)
        self._state = WORKING

    def advance(self) -> None:
        self.search_on(SLICE)

    def search_on(self, budget: int) -> None:
        """Search on until so much work is done."""
        self._aim()
        goal = self._core.work + budget
        while self._core.work < goal:
            self._state = self._core.search(goal - self._core.work)
            found = self._core.found
            self.incumbent.improve(self.loss.cost_found(found), found[2], "S")
            if self._state != ASKING:
                break
            checkpoint()
            self._answer()

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
        self._core.answer(_NO_WEIGHTS, question[np.isin(question[:, 0], lists)])

    def _core_of_trial(self, position: Mapping[int, int]) -> list[int] | None:
        """Return the lists of a core among the rows with which the core stopped, if exact arithmetic confirms one."""
        trial = self._core.trial
        if trial.size == 0:
            return None
        held = trial.multipliers > 1e-9
        lists = trial.lists[held]
        begin = self._offsets[lists]
        chosen = begin + np.array([position[s] for s in lists.tolist()], dtype=np.int64)
        rows = exact_differences(self._lists.rows, self._lists.rounding, chosen, begin + trial.others[held])
        multipliers = rational.farkas(rows)
        if multipliers is None:
            return None
        return sorted({int(s) for s, m in zip(lists, multipliers, strict=True) if m > 0})

    def _accept(self, weights: FloatArray | None, complete: IntArray | None) -> None:
        """Go on from choices attainable exactly; the rows of a complete selection that no doubles decode stay
        unsettled.
        """
        known = self.incumbent.weights if complete is None else _NO_WEIGHTS
        self._core.answer(known if weights is None else weights, _NO_CORE)
        if complete is not None:
            cost = self.loss.cost_of_rows(complete)
            if weights is not None:
                self.incumbent.improve(cost, weights, "X")
                self._aim()
            elif cost < self.incumbent.cost:
                self._leave_unsettled(cost)


_ALONE = 25 * SLICE
"""Work after which a search goes on in units: short ones need no more than the caller, and its first dives, to the
bottom of one branch, meet better weights than units, which begin anew where the bound is least.
"""

_LOCAL_UNITS = 6
"""Units that the caller does first where workers take long to start: in some tenths of a second."""

_UNIT = 8 * SLICE
"""Work in a unit, in some hundredths of a second: much more than it takes to send one away."""

_BATCH = 2
"""Most nodes that a unit begins with."""


class Common(NamedTuple):
    """What all units of a search share."""

    options: Choices
    canonical: Canonical
    least: int | None = None

    def search(self, incumbent: Incumbent) -> ChoicesSearch:
        return ChoicesSearch(self.options, self.canonical, incumbent, least=self.least)


def search_batch(common: Common, parts: list[OpenNode], cost: int, weights: FloatArray, budget: int) -> Answer:
    """Search open nodes, the first of them first, for what costs less; weights [D] have this cost."""
    search = common.search(Incumbent(cost, CanonicalWeights(weights), ""))
    left = list(parts)
    while left and search.work < budget:
        part = left.pop(0)
        if part.bound > search.incumbent.cost - search.granularity:
            continue
        search.go_on_with(part)
        while not (search.done or (search.work >= budget and search.between_nodes)):
            search.search_on(max(1, budget - search.work))
        if not search.done:
            left = search.open_parts() + left
    found = search.incumbent
    counts = {**search.counters(), "nodes": search.nodes - 1}
    return Answer(left, found.cost, found.weights, found.source, search.unsettled, counts, search.work)


class SharedChoices(Combined):
    """A resumable search over selections, which goes on in units of work once it has taken long.

    least: a cost that nothing undercuts, for a ratio metric, where known.
    """

    phase = "selections"

    def __init__(self, options: Choices, canonical: Canonical, incumbent: Incumbent, least: int | None = None) -> None:
        super().__init__(incumbent)
        self._options, self._canonical = options, canonical
        self._alone = Common(options, canonical, least).search(incumbent)
        self._queue = NodeQueue(options.units, _BATCH, _UNIT, _LOCAL_UNITS)
        self._work = 0

    @property
    def _searches(self) -> list[ChoicesSearch]:
        return [self._alone]

    @property
    def unsettled(self) -> int | None:
        met = [cost for cost in (self._alone.unsettled, self._unsettled) if cost is not None]
        return min(met, default=None)

    @property
    def finished(self) -> bool:
        if not self._queue.shared:
            return self._alone.finished
        return not len(self._queue) or self.lower_bound >= self.incumbent.cost

    @property
    def lower_bound(self) -> int:
        """The least cost of anything that is open or unsettled."""
        if not self._queue.shared:
            return self._alone.lower_bound
        upper, least = self._upper, self._queue.least_bound
        return upper if least is None or least > upper - self._alone.granularity else least

    @property
    def open_nodes(self) -> int:
        return len(self._queue) if self._queue.shared else self._alone.open_nodes

    @property
    def effort(self) -> float:
        return self.rounds / ROUNDS

    @property
    def rounds(self) -> int:
        """Rounds of linear programs."""
        return self._alone.rounds + self._counted["lp_rounds"]

    @property
    def work(self) -> int:
        """Work whose outcome is known, in this process."""
        return self._alone.work + self._work

    def state(self) -> Mapping[str, Any]:
        alone = [] if self._queue.shared or self._alone.finished else self._alone.open_parts()
        parts = [plain(node) for node in (*alone, *self._queue.nodes())]
        return {"parts": parts, "counts": dict(self.counters()), "unsettled": self.unsettled}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._go_on((OpenNode(**part) for part in state["parts"]), state["counts"], state["unsettled"])

    def go_on_from(self, searched: Answer) -> None:
        """Go on, before the first slice, from what a search for the same from its beginning left, and had counted."""
        self._work = searched.work
        self._go_on(searched.nodes, searched.counts, searched.unsettled)

    def _go_on(self, nodes: Iterable[OpenNode], counts: Mapping[str, int], unsettled: int | None) -> None:
        self._counted = Counter(counts) - Counter(self._alone.counters())
        self._unsettled = unsettled
        self._share(nodes)

    def give_up(self) -> None:
        """Cancel the units that are out."""
        self._queue.give_up()

    def advance(self) -> None:
        """Search on for a slice, or take the answer to the unit that went out first."""
        if self.finished:
            return
        if self._queue.shared:
            self._take_answer()
            return
        self._alone.advance()
        if self._alone.work >= _ALONE and self._alone.between_nodes and not self._alone.finished:
            self._share(self._alone.open_parts())

    def _share(self, nodes: Iterable[OpenNode]) -> None:
        self._queue.push(nodes)
        self._queue.share(Common(self._options, self._canonical, self._alone.least))

    def _take_answer(self) -> None:
        answer = self._queue.take(self._call)
        self.incumbent.improve(answer.cost, answer.weights, answer.source)
        if answer.unsettled is not None:
            self._leave_unsettled(answer.unsettled)
        self._counted.update(answer.counts)
        self._work += answer.work
        limit = self.incumbent.cost - self._alone.granularity
        self._queue.push(node for node in answer.nodes if node.bound <= limit)
        self._queue.send(self._call)

    def _call(self, nodes: list[OpenNode], work: int) -> Call:
        """Return the unit that searches these nodes, for so much work, below the incumbent's cost."""
        upper = self.incumbent
        return search_batch, (nodes, upper.cost, upper.weights, work)
