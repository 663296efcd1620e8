"""Searches made of others and of units of work: the node queue of a long search, and fractions of sums.

A search begins in the calling process, and hands out batches of nodes as units of work once it has turned out to be
long. The result does not depend on the number of workers: a fixed number of batches is in flight, each starts from the
incumbent at the time of its submission, and answers are taken in the order of submission.

Losses that are fractions of sums, a.x / b.x (F_beta, precision, recall), take a sequence of additive searches. Source:
Dinkelbach, On nonlinear fractional programming, Management Science 1967. A loss t is optimal if and only if no
selection has a negative sum a.x - t b.x. Where t is a fraction of whole numbers, so are these costs after scaling, and
every exact method for additive losses decides the question exactly. A selection with b.x = 0 has loss 1, which these
sums do not show if t > 1; one more additive search, for the least b.x, then decides whether there is such a selection.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.model.presolve import whole_fractions
from lpmert.numeric.lists import least_costs
from lpmert.search.incumbent import moved
from lpmert.search.method import Incumbent, Search
from lpmert.workers import Pending, Shared, Unit, current_workers


class Combined(Search):
    """A search that delegates to other searches, side by side or one after another."""

    def __init__(self, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self._counted: Counter[str] = Counter()
        self._retired_effort = 0.0

    @property
    @abstractmethod
    def _searches(self) -> Sequence[Search]:
        """The searches at work now."""

    def _retire(self, search: Search) -> None:
        """Keep the counts and the effort of a search that is no longer at work."""
        self._retired_effort += search.effort
        self._counted.update(search.counters())

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._counted = Counter(self._counted)

    @property
    def nodes(self) -> int:
        return self._counted["nodes"] + sum(search.nodes for search in self._searches)

    @property
    def effort(self) -> float:
        return self._retired_effort + sum(search.effort for search in self._searches)

    @property
    def open_nodes(self) -> int:
        return sum(search.open_nodes for search in self._searches)

    @property
    def lps(self) -> int:
        return self._counted["lps"] + sum(search.lps for search in self._searches)

    def counters(self) -> Mapping[str, int]:
        total = self._counted.copy()
        for search in self._searches:
            total.update(search.counters())
        return total


_GROWTH, _SMALLEST, _LARGEST = 2, 0.5, 8
"""The work of a unit, in ordinary units. After _GROWTH units per slot it grows in proportion to the units submitted, up
to _LARGEST, so that long searches need few messages. It never exceeds the number of waiting nodes per slot, but is at
least _SMALLEST: when few nodes wait, at both ends of a search, short units divide the remaining nodes soon.
"""


class OpenNode(NamedTuple):
    """An open node that any process can explore: its dual bound, and the node of the core as an array of bytes."""

    bound: int
    data: Any

    @property
    def nbytes(self) -> int:
        return int(self.data.nbytes) + 200


class Answer(NamedTuple):
    """The outcome of a unit: its open nodes, its incumbent, and what it did.

    unsettled: see `Search`. work: as the search counts it. hard: whether exact arithmetic must close the last node.
    """

    nodes: list[OpenNode]
    cost: int
    weights: FloatArray
    source: str
    unsettled: int | None
    counts: Mapping[str, int]
    work: int = 0
    hard: bool = False


Call = tuple[Unit[Answer], tuple[Any, ...]]  # a unit, and its arguments after the shared value


class NodeQueue:
    """Waiting nodes, the least bound first, and the batches of nodes in flight.

    slots: batches in flight at once. batch: most nodes in a batch. unit: work of an ordinary unit.
    """

    def __init__(self, slots: int, batch: int, unit: int) -> None:
        self._slots, self._batch, self._unit = slots, batch, unit
        self._workers = current_workers()
        self._shared: Shared | None = None
        self._waiting: list[tuple[int, int, OpenNode]] = []
        self._in_flight: deque[tuple[list[OpenNode], Pending[Answer]]] = deque()
        self._kept_batches: deque[list[OpenNode]] = deque()
        self._pushed = self._submitted = 0
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._waiting) + sum(map(len, self._batches()))

    @property
    def shared(self) -> bool:
        return self._shared is not None

    @property
    def least_bound(self) -> int | None:
        bounds = [node.bound for batch in self._batches() for node in batch]
        return min([*bounds, *(bound for bound, _, _ in self._waiting[:1])], default=None)

    def share(self, value: object) -> None:
        """Allow units to be submitted; all of them share this value."""
        self._shared = self._workers.share(value)

    def push(self, nodes: Iterable[OpenNode]) -> None:
        for node in nodes:
            heapq.heappush(self._waiting, (node.bound, self._pushed, node))
            self._pushed += 1
            self.nbytes += node.nbytes

    def pop(self) -> OpenNode:
        node = heapq.heappop(self._waiting)[2]
        self.nbytes -= node.nbytes
        return node

    def push_batch(self, nodes: list[OpenNode]) -> None:
        """Submit these nodes next, as one batch, before all waiting nodes."""
        if nodes:
            self._kept_batches.append(nodes)
            self.nbytes += sum(node.nbytes for node in nodes)

    def next_answer(self, unit_for: Callable[[list[OpenNode], int], Call]) -> Answer:
        """Fill the slots with units for batches of nodes, and return the oldest answer; raises `OutOfTime`."""
        self.submit_batches(unit_for)
        answer = self._in_flight[0][1].wait()
        answered, _ = self._in_flight.popleft()
        self.nbytes -= sum(node.nbytes for node in answered)
        return answer

    def submit_batches(self, unit_for: Callable[[list[OpenNode], int], Call]) -> None:
        """Submit batches until all slots are taken; if few nodes wait, divide them among the free slots."""
        shared = cast(Shared, self._shared)
        while (self._waiting or self._kept_batches) and len(self._in_flight) < self._slots:
            if self._kept_batches:
                nodes = self._kept_batches.popleft()
            else:
                free = self._slots - len(self._in_flight)
                count = min(self._batch, -(-len(self._waiting) // free))
                nodes = [heapq.heappop(self._waiting)[2] for _ in range(count)]
            grown = max(1, min(_LARGEST, self._submitted // (_GROWTH * self._slots)))
            size = max(_SMALLEST, min(grown, len(self._waiting) // self._slots))
            unit, arguments = unit_for(nodes, max(1, int(size * self._unit)))
            self._in_flight.append((nodes, self._workers.submit(unit, shared, *arguments)))
            self._submitted += 1

    def cancel(self) -> None:
        """Cancel the batches in flight; their answers are not needed."""
        for _, pending in self._in_flight:
            pending.give_up()

    def nodes(self) -> list[OpenNode]:
        """Return all nodes; those in flight are as they were submitted."""
        waiting = [node for _, _, node in sorted(self._waiting, key=lambda item: item[:2])]
        return [node for batch in self._batches() for node in batch] + waiting

    def _batches(self) -> list[list[OpenNode]]:
        return [nodes for nodes, _ in self._in_flight] + list(self._kept_batches)


_PERTURBATIONS = 24
Start = Callable[[Canonical, Incumbent], Search]  # starts a search for the least sum of costs


class FractionSearch(Combined):
    """A resumable search for the least fraction by additive inner searches, each for a loss below the target.

    The incumbent's cost is its loss in the problem's fixed point, whose unit distinguishes any two losses; internally
    its loss is an exact fraction. Weights found by an inner search count with the loss of decoding them exactly.
    """

    checkpointed = ("_counted", "_unsettled", "_examined_cost", "_proved")

    def __init__(self, canonical: Canonical, incumbent: Incumbent, start: Start) -> None:
        totals = canonical.totals
        fraction: Any = totals.fraction
        super().__init__(incumbent)
        self._canonical, self._start = canonical, start
        counts = totals.statistics, totals.constant, fraction.above.tolist(), fraction.below.tolist()
        whole = whole_fractions(*counts, canonical.offsets, len(canonical.limits))
        self._numerators, self._denominators, self._more_numerator, self._more_denominator = whole
        self._least_denominator = self._more_denominator  # the least denominator within each list is 0
        self._inner: Search | None = None
        self._examined_cost = 0
        self._proved = False
        self._proves = True
        loss = totals.attained(incumbent.weights)
        if loss is None:  # the weights have ties: no loss exceeds the largest numerator over the least denominator
            largest = int(np.maximum.reduceat(self._numerators, canonical.offsets[:-1]).sum()) + self._more_numerator
            loss = max(1, -(-largest // max(1, self._least_denominator)))
        self._set_incumbent(Fraction(loss), incumbent.weights, incumbent.source)
        self._bound = canonical.cost_of_loss(self._oracle_bound())
        self._start_target()

    def _set_incumbent(self, loss: Fraction, weights: CanonicalWeights, source: str) -> None:
        self._incumbent_loss = loss
        self.incumbent.cost = self._canonical.cost_of_loss(loss)
        self.incumbent.weights, self.incumbent.source = weights, source

    def _sums_at(self, loss: Fraction) -> tuple[IntArray, int]:
        """Return costs [m], the least of every list 0, and a constant; sums are 0 at this loss, less at lower ones."""
        p, q = loss.numerator, loss.denominator
        costs, least = least_costs(q * self._numerators - p * self._denominators, self._canonical.offsets)
        return costs, least + q * self._more_numerator - p * self._more_denominator

    def _oracle_bound(self) -> Fraction:
        """Return the least fraction of any selection, attainable or not, or the incumbent's loss if that is lower."""
        offsets, loss = self._canonical.offsets, self._incumbent_loss
        while True:
            costs, least = self._sums_at(loss)
            if least >= 0:
                # A selection with a denominator of 0 has loss 1.
                return min(loss, Fraction(1)) if self._least_denominator == 0 else loss
            free = np.flatnonzero(costs == 0)
            rows = free[np.searchsorted(free, offsets[:-1])]
            above, below = int(self._numerators[rows].sum()), int(self._denominators[rows].sum())
            loss = Fraction(above + self._more_numerator, below + self._more_denominator)

    def state(self) -> Mapping[str, Any]:
        return {
            **super().state(),
            "known": self._incumbent_loss.as_integer_ratio(),
            "loss": self._target.as_integer_ratio(),
            "zero_denominator": self._zero_denominator,
            "bound": self._bound,
            "inner": None if self._inner is None else self._inner.saved(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._set_incumbent(Fraction(*state["known"]), self.incumbent.weights, self.incumbent.source)
        self._target, self._zero_denominator = Fraction(*state["loss"]), state["zero_denominator"]
        self._inner = None
        inner = state["inner"]
        if inner is not None:
            search = self._start_inner(Incumbent.from_state(inner))
            if search is not None and inner["search"]:
                search.restore(inner["search"])
        self._bound = max(self._bound, state["bound"])
        super().restore(state)

    def _start_target(self) -> None:
        """Take the incumbent's loss as the target, and start the search for a lower one."""
        self._target = self._incumbent_loss
        self._zero_denominator = False
        self._start_inner()

    def _start_inner(self, first: Incumbent | None = None) -> Search | None:
        """Start and return the inner search for a sum below the goal; `None` if no lists are left."""
        if self._inner is not None:
            self._retire(self._inner)
            self._inner = None
        zero = self._zero_denominator
        costs, more = (self._denominators, self._more_denominator) if zero else self._sums_at(self._target)
        self._goal_cost = int(zero) - more
        section = self._canonical.with_costs(costs)
        if first is None:
            # Searches rely on the incumbent's cost being a multiple of the granularity, as those of selections are.
            cost = -(-self._goal_cost // section.granularity) * section.granularity
            first = Incumbent(cost, self.incumbent.weights, self.incumbent.source)
        self._examined_cost = first.cost
        self._counted["additive_searches"] += 1
        self._inner = self._start(section, first) if section.n_lists else None
        self._proves = self._proves and (self._inner is None or self._inner.lower_bound is not None)
        return self._inner

    @property
    def finished(self) -> bool:
        return self._proved or self._bound_now >= self.incumbent.cost

    @property
    def lower_bound(self) -> int | None:
        return self._bound_now if self._proves else None

    @property
    def _bound_now(self) -> int:
        if self._proved:
            return self._upper
        return min(self._upper, max(self._bound, self._cost_of(self._inner_bound())))

    def _inner_bound(self) -> int:
        return 0 if self._inner is None else self._inner.lower_bound or 0

    def _cost_of(self, cost: int) -> int:
        """Return a bound, in the problem's fixed point, on losses of selections with at least this additive cost."""
        excess = cost - self._goal_cost
        loss = self._target
        if excess < 0 and not self._zero_denominator:
            loss = max(Fraction(0), loss + Fraction(excess, loss.denominator * max(1, self._least_denominator)))
        if self._least_denominator == 0 and (excess < 0 or not self._zero_denominator):
            loss = min(loss, Fraction(1))  # the loss of a denominator of 0
        return self._canonical.cost_of_loss(loss)

    @property
    def _searches(self) -> list[Search]:
        return [] if self._inner is None else [self._inner]

    def advance(self) -> None:
        inner = self._inner
        if inner is not None and not inner.finished:
            try:
                inner.advance()
            finally:  # a deadline may stop it in the middle of its slice
                if inner.incumbent.cost < self._examined_cost:
                    self._examined_cost = inner.incumbent.cost
                    self._try_weights(inner.incumbent)
            if not inner.finished:
                return
        self._bound = self._bound_now
        found = 0 if inner is None else inner.incumbent.cost
        if found < self._goal_cost:
            if self._incumbent_loss == self._target:
                self._try_weights(self.incumbent if inner is None else inner.incumbent, _PERTURBATIONS)
            if self._incumbent_loss < self._target:
                self._start_target()
                return
            self._leave_unsettled(self._cost_of(self._inner_bound()))
        elif inner is not None and inner.unsettled is not None and inner.unsettled < self._goal_cost:
            self._leave_unsettled(self._cost_of(inner.unsettled))
        if self._target > 1 and self._least_denominator == 0 and not self._zero_denominator:
            self._zero_denominator = True
            self._start_inner()
        else:
            self._proved = True

    def _try_weights(self, found: Incumbent, tries: int = 1) -> None:
        """Make these weights, or some close by, the incumbent if they attain a lower loss; they may tie in the sums."""
        rng = np.random.default_rng(0)
        sizes = [10.0 ** (k / 2 - 16) for k in range(1, tries)]
        beside = moved(found.weights, sizes, lambda: rng.normal(size=len(found.weights)))
        for weights in map(CanonicalWeights, chain([found.weights], beside)):
            loss = self._canonical.totals.attained(weights)
            if loss is not None and loss < self._incumbent_loss:
                self._set_incumbent(Fraction(loss), weights, found.source)
                return
