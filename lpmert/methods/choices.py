"""Branch and bound over selections: a node decides the choices of some lists.

The search is depth first, and branches by the choices of one list at a time. The dual bound of a node adds the cost of
the decided choices and, for each undecided list, of its cheapest hypothesis that is attainable together with the
decided choices. Disjoint cores among these cheapest choices raise the bound. The compiled core runs all this
(`core/choices.hpp`); where rounding hides whether choices are attainable together, `LinOptimizer` decides exactly. A
long search submits units to workers: batches of open nodes.

For a ratio metric (corpus BLEU, chrF), searches compare heights, a monotone function of the loss, as whole numbers of
units, rounded down for bounds and up for cut-offs. Linear functions of the summed statistics, the minorants, bound the
height on the box of the sums that are still possible.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from heapq import heappop, heappush
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from lpmert import core
from lpmert.configurable import option
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.limits import checkpoint
from lpmert.metrics.base import BLEU, BUDGET, CHRF, RatioMetric
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.model.presolve import group_identical
from lpmert.numeric import rational
from lpmert.numeric.cone import LinOptimizer
from lpmert.numeric.lists import SortedLists, sorted_lists
from lpmert.numeric.rational import EPSILON, exact_differences
from lpmert.quoting import quoted
from lpmert.search.combined import Answer, Call, NodeQueue, OpenNode
from lpmert.search.method import Incumbent, Method, Search, Task

WORKING, ASKING, DONE = range(3)  # states of the core's search; ASKING: it needs an exact decision
SLICE = 4_000_000  # work in a slice

ROUNDS = 20_000
"""Rounds of linear programs that count as a unit of `Search.effort`: 30 to 100 milliseconds on most lists."""

_NO_WEIGHTS, _NO_CORE = np.empty(0), np.empty((0, 2), dtype=np.int64)


@dataclass(frozen=True)
class Choices(Method):
    """Branch and bound over the choices of hypotheses, with learnt conflicts."""

    units: int = option(8, "units of work in flight in a long search; at most this many workers are busy", least=1)

    name = "choices"
    takes_ratios = True
    takes_jobs = True
    takes_fractions = True
    takes_caps = True

    def start(self, task: Task, oracle_bound: int | None = None) -> ChoicesSearch:
        """Return the search; oracle_bound: see `Loss.oracle_bound`, if another search has computed it."""
        return ChoicesSearch(task.canonical, task.incumbent, units=self.units, oracle_bound=oracle_bound)


class Loss:
    """An additive loss as searches need it. Dual bounds of nodes are whole numbers, here costs.

    lists: as the core takes them. ratio: the statistics of a ratio metric. total [K]: summed statistics of the lists
    settled by presolve. granularity: least difference between the bounds of selections with different losses. For
    cells: row_work: work of branching, for each hypothesis; leaf_lists: default of `Cells.leaf_lists`.
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
        return self.lists.native()

    @property
    def oracle_bound(self) -> int | None:
        """A lower bound on the cost of every selection, attainable or not, if it needs computing; `None` for sums."""
        return None

    def __getstate__(self) -> dict[str, Any]:
        """Return the part that workers need: the lists, and the scale of the loss."""
        state = {name: value for name, value in self.__dict__.items() if name != "native"}
        return {**state, "canonical": self.canonical.bare()}

    def loss_of(self, cost: int) -> float:
        return self.canonical.loss_of(cost)

    def cost_found(self, found: tuple[int, float, FloatArray]) -> int:
        return found[0]

    def bound_of(self, cost: int) -> int:
        """Return the cut-off for bounds: nodes that contain a cost below this one have lower bounds."""
        return cost

    def cost_of(self, bound: int) -> int:
        """Return a lower bound on the costs in a node of this bound."""
        return bound

    def cost_of_rows(self, rows: IntArray) -> int:
        return int(self.lists.costs[rows].sum())

    def attained(self, weights: FloatArray, cost: int) -> int | None:  # noqa: ARG002
        """Return the cost of weights [d] for which a search claims this cost, `None` if ties decide it."""
        return self.canonical.strict_cost(weights)


class RatioLoss(Loss):
    """A ratio metric: bounds are heights in units, costs are losses in the problem's fixed point.

    weights [d]: good weights, where the first minorant is tight. tight: whether to compute a tight `oracle_bound`,
    which is not worth its time for a short search. Raises `MethodError` for a metric without a known formula.
    """

    ratio: Ratio
    granularity = 1
    row_work, leaf_lists = 8, 6

    def __init__(
        self, canonical: Canonical, weights: FloatArray, oracle_bound: int | None = None, *, tight: bool = True
    ) -> None:
        self.canonical, self._weights, self._oracle_bound, self._tight = canonical, weights, oracle_bound, tight
        self.lists, self.ratio = ratio_lists(canonical)
        self.total = self.ratio.constant

    @property
    def oracle_bound(self) -> int:
        if self._oracle_bound is None:
            tangents = TANGENTS if self._tight else 1
            height, bound = oracle_height(self.lists, self.ratio, self._weights, tangents)
            if self._tight:
                height = tight_oracle_height(self.lists, self.ratio, height, bound)
            self._oracle_bound = cost_of_height(self.canonical, self.ratio.kind, height)
        return self._oracle_bound

    def cost_found(self, found: tuple[int, float, FloatArray]) -> int:
        # A cost maps to a loss and back to the same cost, so an incumbent that the core kept is no improvement.
        return self.canonical.cost_of_loss(found[1])

    def bound_of(self, cost: int) -> int:
        return core.height_limit(self.ratio.kind, self.canonical.loss_of(cost))

    def cost_of(self, bound: int) -> int:
        return max(self.oracle_bound, cost_of_height(self.canonical, self.ratio.kind, bound))

    def cost_of_rows(self, rows: IntArray) -> int:
        total = self.ratio.constant + self.ratio.statistics[rows].sum(axis=0)
        (loss,) = core.losses_of_totals(self.ratio.kind, self.ratio.parameters, total[None])
        return self.canonical.cost_of_loss(float(loss))

    def attained(self, weights: FloatArray, cost: int) -> int | None:
        attained = self.canonical.attained_cost(CanonicalWeights(weights))
        return cost if attained is not None and attained <= cost else None


def loss_for(canonical: Canonical, weights: FloatArray, oracle_bound: int | None = None, *, tight: bool = True) -> Loss:
    return Loss(canonical) if canonical.additive else RatioLoss(canonical, weights, oracle_bound, tight=tight)


_ALONE = 25 * SLICE
"""Work after which a search submits units to workers. Short searches do not need workers, and the first dives of a
search find better weights than units, which restart at the nodes with the least bounds.
"""

_UNIT = 8 * SLICE  # work in a unit, some hundredths of a second: much more than sending it costs
_BATCH = 2  # most nodes in the batch of a unit


class ChoicesSearch(Search):
    """A resumable search over the selections of lists in canonical form, within their limits.

    n_fixed: number of lists at the end that are half-spaces with a fixed choice; the limits of a ratio are such lists
    in any case. units: in flight at once when the search has turned out to be long; with 0, it stays in this process.
    oracle_bound, tight: see `RatioLoss`.
    """

    phase = "selections"

    def __init__(
        self,
        canonical: Canonical,
        incumbent: Incumbent,
        n_fixed: int = 0,
        *,
        units: int = 0,
        oracle_bound: int | None = None,
        tight: bool = True,
    ) -> None:
        self.incumbent, self._canonical, self._units = incumbent, canonical, units
        self.loss = loss = loss_for(canonical, incumbent.weights, oracle_bound, tight=tight)
        self.granularity = loss.granularity
        self._lists, self._offsets = loss.lists, loss.lists.offsets
        n_fixed += 0 if loss.ratio is None else len(canonical.limits)
        self.core = core.ChoicesSearch(loss.native, loss.ratio, n_fixed, incumbent.weights, self.granularity)
        self.stage = WORKING
        self._exact_decisions = 0
        self._queue = NodeQueue(units, _BATCH, _UNIT)
        self._counted: Counter[str] = Counter()
        self._work_of_units = 0

    def _set_cutoff(self) -> None:
        cost = self.incumbent.cost
        self.core.aim(cost, self.loss.loss_of(cost))

    @cached_property
    def _optimizer(self) -> LinOptimizer:
        return LinOptimizer(self._lists.rows, self._offsets, self._canonical.cap, self._lists.rounding)

    @property
    def finished(self) -> bool:
        done = not len(self._queue) if self._queue.shared else self.stage == DONE
        return done or self.lower_bound >= self.incumbent.cost

    @property
    def nodes(self) -> int:
        return self._counted["nodes"] + self.core.nodes + 1

    @property
    def open_nodes(self) -> int:
        return len(self._queue) if self._queue.shared else max(0, self.core.depth + 1)

    @property
    def lps(self) -> int:
        return self._counted["lps"] + self.core.programs

    @property
    def rounds(self) -> int:
        return self._counted["lp_rounds"] + self.core.rounds

    @property
    def effort(self) -> float:
        return self.rounds / ROUNDS if self._units else 0.0

    @property
    def work(self) -> int:
        return self.core.work + self._work_of_units

    def counters(self) -> Mapping[str, int]:
        return {
            "nodes": self.nodes,
            "lps": self.lps,
            "lp_rounds": self.rounds,
            "lps_for_cores": self._counted["lps_for_cores"] + self.core.core_programs,
            "exact_decisions": self._counted["exact_decisions"] + self._exact_decisions,
        }

    @property
    def lower_bound(self) -> int:
        """The least dual bound of an open node, here or in the queue, or the least cost found if no node is open."""
        upper, bound = self._upper, self.core.least_open
        least = None if bound >= core.INFINITE_COST else self.loss.cost_of(bound)
        least = self._queue.least_bound if self._queue.shared else least
        return upper if least is None or least > upper - self.granularity else least

    def export_nodes(self) -> list[OpenNode]:
        """Return the open nodes, those with the fewest decided lists first, for other searches to explore."""
        return [OpenNode(self.loss.cost_of(bound), data) for bound, data in self.core.open_nodes()]

    def load(self, node: OpenNode) -> None:
        self.core.go_on_with(node.data)
        self.stage = WORKING

    def state(self) -> Mapping[str, Any]:
        local = [] if self._queue.shared or self.finished else self.export_nodes()
        nodes = [node._asdict() for node in (*local, *self._queue.nodes())]
        return {"nodes": nodes, "counts": self.counters(), "unsettled": self.unsettled}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._resume((OpenNode(**node) for node in state["nodes"]), state["counts"], state["unsettled"])

    def resume_from(self, begun: Answer) -> None:
        """Continue, before the first slice, from the answer of a unit that began the same search."""
        self._work_of_units = begun.work
        self._resume(begun.nodes, begun.counts, begun.unsettled)

    def _resume(self, nodes: Iterable[OpenNode], counts: Mapping[str, int], unsettled: int | None) -> None:
        self._counted = Counter(counts) - Counter(self.counters())
        self._unsettled = unsettled
        self._share(nodes)

    def cancel(self) -> None:
        self._queue.cancel()

    def advance(self) -> None:
        """Search for a slice in this process, or take the answer to the oldest unit in flight."""
        if self._units and self.finished:
            return
        if self._queue.shared:
            self._take_answer()
            return
        self.search_for(SLICE)
        if self._units and self.core.work >= _ALONE and self.core.between_nodes and not self.finished:
            self._share(self.export_nodes())

    def _share(self, nodes: Iterable[OpenNode]) -> None:
        self._queue.push(nodes)
        self._queue.share(partial(ChoicesSearch, self._canonical, oracle_bound=self.loss.oracle_bound))

    def _take_answer(self) -> None:
        answer = self._queue.next_answer(self._unit_for)
        self.incumbent.improve(answer.cost, answer.weights, answer.source)
        if answer.unsettled is not None:
            self._leave_unsettled(answer.unsettled)
        self._counted.update(answer.counts)
        self._work_of_units += answer.work
        limit = self.incumbent.cost - self.granularity
        self._queue.push(node for node in answer.nodes if node.bound <= limit)
        self._queue.submit_batches(self._unit_for)

    def _unit_for(self, nodes: list[OpenNode], work: int) -> Call:
        return explore_batch, (nodes, self.incumbent.cost, self.incumbent.weights, work)

    def search_for(self, budget: int) -> None:
        self._set_cutoff()
        stop = self.core.work + budget
        while self.core.work < stop:
            self.stage = self.core.search(stop - self.core.work)
            found = self.core.found
            self.incumbent.improve(self.loss.cost_found(found), found[2], "S")
            if self.stage != ASKING:
                break
            checkpoint()
            self._decide_exactly()

    def _decide_exactly(self) -> None:
        """Decide exactly whether the choices that the core asks about are attainable together, and answer the core."""
        question = self.core.question
        self._exact_decisions += 1
        lists = None if self._canonical.cap is not None else self._confirmed_core(dict(question.tolist()))
        if lists is None:
            rows = self._offsets[question[:, 0]] + question[:, 1]
            start = self.core.trial.point
            verdict = self._optimizer.solve((question[:, 0].copy(), rows), start=start if start.any() else None)
            if verdict.attainable:
                self._accept(verdict.weights, rows if len(question) == len(self._offsets) - 1 else None)
                return
            lists = sorted({s for s, _, _ in verdict.core})
        self.core.answer(_NO_WEIGHTS, question[np.isin(question[:, 0], lists)])

    def _confirmed_core(self, position: Mapping[int, int]) -> list[int] | None:
        """Return the lists of a conflict that the linear program of the compiled core claims, if it is one exactly."""
        trial = self.core.trial
        if trial.size == 0:
            return None
        active = trial.multipliers > 1e-9
        lists = trial.lists[active]
        begin = self._offsets[lists]
        chosen = begin + np.array([position[s] for s in lists.tolist()], dtype=np.int64)
        rows = exact_differences(self._lists.rows, self._lists.rounding, chosen, begin + trial.others[active])
        multipliers = rational.farkas(rows)
        if multipliers is None:
            return None
        return sorted({int(s) for s, m in zip(lists, multipliers, strict=True) if m > 0})

    def _accept(self, weights: FloatArray | None, complete: IntArray | None) -> None:
        """Tell the core that choices are attainable, at weights [d] if known; complete: rows of a selection."""
        known = self.incumbent.weights if complete is None else _NO_WEIGHTS
        self.core.answer(known if weights is None else weights, _NO_CORE)
        if complete is not None:
            cost = self.loss.cost_of_rows(complete)
            if weights is not None:
                self.incumbent.improve(cost, weights, "X")
                self._set_cutoff()
            elif cost < self.incumbent.cost:
                self._leave_unsettled(cost)


def explore_batch(
    begin: Callable[[Incumbent], ChoicesSearch], nodes: list[OpenNode], cost: int, weights: FloatArray, budget: int
) -> Answer:
    """Explore a batch of nodes, the first node first, below the incumbent's cost; begin: returns the search."""
    search = begin(Incumbent(cost, CanonicalWeights(weights), ""))
    left = list(nodes)
    while left and search.core.work < budget:
        node = left.pop(0)
        if node.bound > search.incumbent.cost - search.granularity:
            continue
        search.load(node)
        while not (search.stage == DONE or (search.core.work >= budget and search.core.between_nodes)):
            search.search_for(max(1, budget - search.core.work))
        if search.stage != DONE:
            left = search.export_nodes() + left
    best = search.incumbent
    counts = {**search.counters(), "nodes": search.nodes - 1}
    return Answer(left, best.cost, best.weights, best.source, search.unsettled, counts, search.core.work)


TANGENTS = 8  # minorants from which the highest bound is taken
UNIT = 2.0**-48  # height of one unit
FORBIDDEN = -1  # class of a hypothesis that no weights in the region choose


class Ratio(NamedTuple):
    """A ratio metric, and the statistics of the hypotheses of `SortedLists`.

    kind, parameters: see `lpmert.metrics.base`. statistics [M, K]. constant [K]: summed statistics of the lists settled
    by presolve. reach [K]: the largest value of each statistic. classes [M]: equal for hypotheses of a list with equal
    statistics.
    """

    kind: int
    parameters: FloatArray
    statistics: FloatArray
    constant: FloatArray
    reach: FloatArray
    classes: IntArray


class Bound(NamedTuple):
    """The minorant of an oracle bound.

    low, high [K]: the box of all sums. at [K]: the point where the minorant is tight. costs [M]: the cost of each row
    under the minorant, above the cheapest row of its list.
    """

    low: FloatArray
    high: FloatArray
    at: FloatArray
    costs: IntArray


_cache: WeakKeyDictionary[Canonical, tuple[SortedLists, Ratio]] = WeakKeyDictionary()
"""Lists shared by several searches, kept while any of them refers to their canonical form."""


def ratio_lists(canonical: Canonical) -> tuple[SortedLists, Ratio]:
    """Return lists for the core, followed by one list {a, 0} for each limit a.w > 0.

    Hypotheses keep their order. Repeated calls for the same lists return the same arrays, which are read-only by
    convention. Raises `MethodError` for a metric without a known formula.
    """
    if canonical in _cache:
        return _cache[canonical]
    totals, n_own = canonical.totals, len(canonical.features)
    metric = totals.metric
    if not isinstance(metric, RatioMetric) or metric.kind not in (BLEU, CHRF, BUDGET):
        raise MethodError(
            f"metric {quoted(metric.name)} is neither additive nor a ratio metric of lpmert.metrics; only heuristics "
            "take it"
        )
    listed = canonical.with_limits()
    rows, offsets, counts = listed.features, listed.offsets, listed.totals.statistics
    classes = np.arange(len(rows))
    classes[:n_own] = group_identical(totals.statistics, canonical.offsets)
    classes[n_own + 1 :: 2] = FORBIDDEN
    lists = sorted_lists(rows, offsets, np.zeros(len(rows), dtype=np.int64), canonical.cap, listed.rounding)
    reach = counts.max(axis=0, initial=0.0)
    _cache[canonical] = lists, Ratio(metric.kind, metric.parameters, counts, totals.constant, reach, classes)
    return _cache[canonical]


def cost_of_height(canonical: Canonical, kind: int, height: int) -> int:
    """Return a lower bound on the costs of selections of at least this height in units."""
    loss = core.loss_of_height(kind, height * UNIT)
    return max(canonical.cost_of_loss(0.0), canonical.cost_of_loss(min(1.0, loss)))


def oracle_height(lists: SortedLists, ratio: Ratio, weights: FloatArray, tangents: int = TANGENTS) -> tuple[int, Bound]:
    """Return a lower bound on the height in units of every selection, attainable or not, and its minorant.

    The bound is the highest of several minorants: the first is tight at the sums of decoding with weights [d], each
    further one at the sums of the cheapest rows under earlier ones.
    """
    winners = core.decode(lists.rows, lists.offsets, weights)
    at = ratio.constant + ratio.statistics[winners].sum(axis=0)
    height, low, high, best, costs = core.best_height(ratio, lists.offsets, at, tangents)
    return height, Bound(low, high, best, costs)


_LENGTH = {BLEU: 1, CHRF: 0, BUDGET: 1}
"""By kind of metric, the statistic with the length of the hypotheses, or the statistic with a budget."""

_SPLITS, _TANGENTS, _MULTIPLIERS = 12, 2, 8
"""Number of halvings of pieces, of minorants for each piece, and of multipliers for each minorant."""


def tight_oracle_height(lists: SortedLists, ratio: Ratio, height: int, bound: Bound) -> int:
    """Return a tighter lower bound on the height in units of every selection, attainable or not.

    height, bound: from `oracle_height`; the result is at least this height. The piece of total lengths with the least
    bound is halved repeatedly.
    """
    if height >= core.INFINITE_COST or any((numbers % 1.0).any() for numbers in (ratio.statistics, ratio.constant)):
        return height  # rounded sums could lie outside of a piece
    column = _LENGTH[ratio.kind]
    pieces = _Pieces(ratio, lists.offsets, column)
    heap = [(height, float(bound.low[column]), float(bound.high[column]))]
    for _ in range(_SPLITS):
        _, begin, end = heap[0]
        middle = math.floor((begin + end) / 2.0)
        if middle <= begin:
            break
        parent, *_ = heappop(heap)
        for first, last in ((begin, float(middle)), (float(middle), end)):
            heappush(heap, (max(parent, pieces.height(first, last, bound)), first, last))
    return heap[0][0]


class _Pieces:
    """Bounds on selections with a total length, statistic `column`, in a piece; offsets [S + 1]: of the lists."""

    def __init__(self, ratio: Ratio, offsets: IntArray, column: int) -> None:
        self._ratio, self._offsets, self._column = ratio, offsets, column
        self._lengths = np.ascontiguousarray(ratio.statistics[:, column])
        excess, starts = ratio.statistics - self._lengths[:, None], offsets[:-1]
        more = ratio.constant - ratio.constant[column]
        # The least and the largest differences between the other sums and the total length.
        self._least = more + np.minimum.reduceat(excess, starts).sum(axis=0)
        self._most = more + np.maximum.reduceat(excess, starts).sum(axis=0)

    def height(self, first: float, last: float, bound: Bound) -> int:
        ratio, at = self._ratio, bound.at
        low, high = np.maximum(bound.low, first + self._least), np.minimum(bound.high, last + self._most)
        if (low > high).any():
            return core.INFINITE_COST  # no selection has such a total length
        highest = -1
        for trial in range(_TANGENTS):
            at = np.clip(at, low, high)
            constant, slopes = core.lay_minorant(ratio.kind, ratio.parameters, low, high, at)
            if constant == math.inf:
                return core.INFINITE_COST
            best, sums = self._over_multipliers(constant, slopes, first, last)
            highest = max(highest, best)
            at = at + 2.0 / (trial + 2.0) * (sums - at)
        return highest

    def _over_multipliers(
        self, constant: float, slopes: FloatArray, first: float, last: float
    ) -> tuple[int, FloatArray]:
        """Return the highest bound of several multipliers, and the sums [K] of the cheapest rows at the last one.

        Every multiplier on the distance of the total length to one end of the piece gives a bound; the best one makes
        the total length of the cheapest rows equal to that end.
        """
        lines = np.column_stack([self._ratio.statistics @ slopes, self._lengths])
        best, sums = self._cheapest(constant, slopes, lines, 0.0, first)
        length = sums[self._column]
        if first <= length <= last:
            return best, sums
        end, sign = (first, 1.0) if length < first else (last, -1.0)
        least, most = 0.0, 1.0 / max(1.0, end)
        bracketed = False
        for _ in range(_MULTIPLIERS):
            multiplier = (least + most) / 2.0 if bracketed else most
            height, sums = self._cheapest(constant, slopes, lines, sign * multiplier, end)
            best = max(best, height)
            if sign * (sums[self._column] - end) < 0.0:
                least = multiplier
                most = most if bracketed else 2.0 * most
            else:
                most, bracketed = multiplier, True
        return best, sums

    def _cheapest(
        self, constant: float, slopes: FloatArray, lines: FloatArray, multiplier: float, end: float
    ) -> tuple[int, FloatArray]:
        """Return the bound of a multiplier, rounded down, and the sums [K] of the cheapest rows.

        lines [M, 2]: cost and length of each row; a row counts with its cost minus the multiplier times its length.
        """
        ratio, column = self._ratio, self._column
        rows = core.decode(lines, self._offsets, np.array([-1.0, multiplier]))
        least = lines[rows, 0] - multiplier * lines[rows, 1]
        settled = float(slopes @ ratio.constant) - multiplier * ratio.constant[column]
        beyond = multiplier * end
        total = math.fsum([constant, settled, beyond, *least.tolist()])
        sizes = np.abs(slopes)
        sizes[column] += abs(multiplier)
        size = abs(constant) + abs(beyond) + float(sizes @ (ratio.constant + len(rows) * ratio.reach))
        lowered = total - 4.0 * (len(slopes) + 4) * EPSILON * size
        return math.floor(lowered / UNIT), ratio.constant + ratio.statistics[rows].sum(axis=0)
