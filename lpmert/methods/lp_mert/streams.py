"""Algorithms 1 and 2: streams of the attainable combinations of some lists in order of cost, computed on demand.

Source: Galley and Quirk, Optimal Search for Minimum Error Rate Training, EMNLP 2011. A combination chooses one
hypothesis from each of some lists. Every method does one piece of work, at most one test of a combination, so that a
search can pause after any linear program.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from lpmert.core import INFINITE_COST
from lpmert.errors import FloatArray, IntArray
from lpmert.model.canonical import Canonical
from lpmert.search.method import Incumbent, Search


@dataclass(frozen=True, slots=True, eq=False)
class Combination:
    """One choice from each of some lists: its `positions` in the lists, which are in order of cost.

    weights [d]: a witness, `None` if no double-precision weights make the choices. least [S]: for each list, the first
    position that may be attainable together with it; for its own lists, the chosen position.
    """

    cost: int
    positions: IntArray
    weights: FloatArray | None
    least: IntArray


Halves = tuple[Combination, Combination]  # the two combinations that a longer one consists of


class CombinationTest(ABC):
    """Decides which combinations a stream contains; tested: counts of combinations by length."""

    def __init__(self, canonical: Canonical) -> None:
        self.sorted_lists = canonical.by_cost
        self.tested: Counter[int] = Counter()
        self._no_bounds = np.zeros(canonical.n_lists, dtype=np.int64)

    def counters(self) -> dict[str, int]:
        """Return all counts by name; `tested_n` are combinations of n lists."""
        return {f"tested_{n}": count for n, count in sorted(self.tested.items())}

    @abstractmethod
    def test(self, lists: IntArray, cost: int, positions: IntArray, halves: Halves | None = None) -> Combination | None:
        """Return the combination of these positions if it belongs to the stream, else `None`."""


class OneList:
    """Algorithm 1: the hypotheses of one list in order of cost, without interior ones.

    position: of the next hypothesis to test.
    """

    def __init__(self, number: int, test: CombinationTest) -> None:
        self.lists = np.array([number])
        self.found: list[Combination] = []
        begin, end = test.sorted_lists.offsets[number : number + 2]
        self._costs = test.sorted_lists.costs[begin:end].tolist()
        self.position = 0
        self._test = test

    @property
    def bound(self) -> int:
        """A lower bound on the cost of the next combination; `INFINITE_COST` if none is left."""
        return self._costs[self.position] if self.position < len(self._costs) else INFINITE_COST

    def get_next_best(self) -> None:
        """Do one piece of work towards the next combination: at most one test."""
        position = self.position
        combination = self._test.test(self.lists, self._costs[position], np.array([position], dtype=np.int64))
        self.position += 1
        if combination is not None:
            self.found.append(combination)


class TwoHalves:
    """Algorithm 2: the combinations of two streams, by a frontier over cells (left rank, right rank).

    The frontier contains the right and lower neighbours of visited cells. The only parent of a cell is its left
    neighbour, or the one above in the first column, so that no cell enters twice.

    lazy: a cell whose combination a half has not found yet waits in the frontier at a bound on its cost. Otherwise the
    half finds that combination before any other cell is visited, as published.
    """

    def __init__(self, left: Stream, right: Stream, test: CombinationTest, *, lazy: bool) -> None:
        self.left, self.right = left, right
        self.lists: IntArray = np.concatenate([left.lists, right.lists])
        self.found: list[Combination] = []
        self._test = test
        self._lazy = lazy
        self._reached = 0
        self.frontier = [(self._cost_of(0, 0), 0, 0)]

    @property
    def bound(self) -> int:
        return max(self._reached, self.frontier[0][0]) if self.frontier else INFINITE_COST

    def get_next_best(self) -> None:
        cell = self.best_in_frontier()
        if cell is None:
            return
        left, right = self.left.found[cell[0]], self.right.found[cell[1]]
        positions = np.concatenate([left.positions, right.positions])  # the paper's sparse combination
        combination = self._test.test(self.lists, left.cost + right.cost, positions, (left, right))
        self.expand_frontier(cell)
        if combination is not None:
            self.found.append(combination)

    def best_in_frontier(self) -> tuple[int, int] | None:
        """Remove and return the cheapest cell of the frontier; `None` if a half must first find a combination."""
        while self.frontier:
            cost, m, n = self.frontier[0]
            waiting = self._waiting(m, n)
            if waiting is not None and waiting.bound < INFINITE_COST:
                waiting.get_next_best()
                heapq.heapreplace(self.frontier, (self._cost_of(m, n), m, n))
                return None
            heapq.heappop(self.frontier)
            if waiting is None:
                exact = self._cost_of(m, n)
                if exact == cost:
                    self._reached = cost
                    return m, n
                heapq.heappush(self.frontier, (exact, m, n))
        return None

    def expand_frontier(self, cell: tuple[int, int]) -> None:
        """Add the right neighbour of a visited cell to the frontier, and in the first column also the lower one."""
        m, n = cell
        heapq.heappush(self.frontier, (self._cost_of(m, n + 1), m, n + 1))
        if n == 0:
            heapq.heappush(self.frontier, (self._cost_of(m + 1, 0), m + 1, 0))

    def _waiting(self, m: int, n: int) -> Stream | None:
        if m >= len(self.left.found):
            return self.left
        return self.right if n >= len(self.right.found) else None

    def _cost_of(self, m: int, n: int) -> int:
        """Return the cost of a cell; if a half has not found it yet, a bound if lazy, else less than any cost."""
        if not self._lazy and self._waiting(m, n) is not None:
            return -1
        return cost_at(self.left, m) + cost_at(self.right, n)


Stream = OneList | TwoHalves  # the attainable combinations of some lists in order of cost, computed on demand and kept


def cost_at(stream: Stream, rank: int) -> int:
    """Return the cost of the combination of this rank, or a lower bound if it has not been found yet."""
    return stream.found[rank].cost if rank < len(stream.found) else stream.bound


def balanced_tree(streams: Sequence[Stream], join: Callable[[Stream, Stream], Stream]) -> Stream:
    """Return the root of a tree over streams s to t, split from the top down after u = floor((s + t) / 2)."""
    if len(streams) == 1:
        return streams[0]
    middle = (len(streams) + 1) // 2
    return join(balanced_tree(streams[:middle], join), balanced_tree(streams[middle:], join))


_LARGEST_COUNT = 10**300  # larger numbers of combinations are not reported


class StreamSearch(Search):
    """A search for the first combinations of the root of a tree of streams; `test` decides and counts them."""

    def __init__(self, incumbent: Incumbent, test: CombinationTest, *, lazy: bool) -> None:
        self.incumbent, self._combination_test, self._lazy = incumbent, test, lazy
        self._sizes = np.diff(test.sorted_lists.offsets).tolist()
        self.lists: list[Stream] = [OneList(s, test) for s in range(len(self._sizes))]
        self._joined: list[TwoHalves] = []

    def _join(self, left: Stream, right: Stream) -> TwoHalves:
        self._joined.append(TwoHalves(left, right, self._combination_test, lazy=self._lazy))
        return self._joined[-1]

    @property
    def nodes(self) -> int:
        return self._combination_test.tested.total()

    @property
    def open_nodes(self) -> int:
        return sum(len(stream.frontier) for stream in self._joined)

    def counters(self) -> Mapping[str, int]:
        n_combinations = prod(self._sizes)
        total = {"combinations": n_combinations} if n_combinations < _LARGEST_COUNT else {}
        return {"nodes": self.nodes, **self._combination_test.counters(), **total}
