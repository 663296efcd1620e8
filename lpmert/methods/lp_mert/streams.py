"""Algorithms 1 and 2: the attainable combinations of some lists in order of cost, found as they are asked for.

Source: Galley and Quirk, Optimal Search for Minimum Error Rate Training, EMNLP 2011. A combination chooses one
hypothesis from each of some lists. Every method does one piece of work at a time, at most one test of a combination,
so that a search can pause after any linear program.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

import numpy as np

from lpmert.core import INFINITE_COST
from lpmert.errors import FloatArray, IntArray
from lpmert.numeric.lists import SortedLists
from lpmert.search.method import Incumbent, Search


@dataclass(frozen=True, slots=True, eq=False)
class WarmStart:
    """What the linear program of a combination leaves to those of longer ones, which begin with the same choices.

    weights [d], `None` where no double precision weights make the choices; corral: its slot while it is kept, or -1;
    rows: those that HiGHS held.
    """

    length: int
    weights: FloatArray | None
    corral: int = -1
    rows: IntArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Combination:
    """One choice from each of some lists: `positions` count in the order of cost, in the order of the lists.

    start holds the weights that make the choices. least [S]: for every list the first position that may go with them;
    for its own lists the chosen one.
    """

    cost: int
    positions: IntArray
    start: WarmStart
    least: IntArray


Halves = tuple[Combination, Combination]
"""The combinations of which a longer one consists."""


class CombinationTest(Protocol):
    """Decides which combinations a stream holds."""

    sorted_lists: SortedLists
    tested: Counter[int]

    def counters(self) -> Mapping[str, int]:
        """Return what was counted, by name; `tested`: combinations by length."""

    def test(self, lists: IntArray, cost: int, positions: IntArray, halves: Halves | None = None) -> Combination | None:
        """Return the combination of these lists' positions if the stream is to hold it."""


class OneList:
    """Algorithm 1: the hypotheses of one list in order of cost, without those that are interior.

    position: of the next one to be tested.
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
        """The least that the next combination can cost; `INFINITE_COST` when there is none left."""
        return self._costs[self.position] if self.position < len(self._costs) else INFINITE_COST

    def get_next_best(self) -> None:
        """Do one piece of work for the next combination: at most one test."""
        position = self.position
        combination = self._test.test(self.lists, self._costs[position], np.array([position], dtype=np.int64))
        self.position += 1
        if combination is not None:
            self.found.append(combination)


class TwoHalves:
    """Algorithm 2: the combinations of two streams, by a frontier over (left rank, right rank).

    The frontier holds the right and lower neighbours of visited cells. A cell's only parent is its left neighbour, in
    the first column the one above, so that none enters twice.

    lazy: a cell for which a half has yet to find its rank waits at a bound of its cost. Otherwise the half finds it
    before any other cell is visited, as published.
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
        cost, positions = combine(left, right)
        combination = self._test.test(self.lists, cost, positions, (left, right))
        self.expand_frontier(cell)
        if combination is not None:
            self.found.append(combination)

    def best_in_frontier(self) -> tuple[int, int] | None:
        """Take the cheapest cell out of the frontier; `None` where a half first has to find a combination."""
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
        """Put the right neighbour of a visited cell into the frontier, and in the first column the lower one."""
        m, n = cell
        heapq.heappush(self.frontier, (self._cost_of(m, n + 1), m, n + 1))
        if n == 0:
            heapq.heappush(self.frontier, (self._cost_of(m + 1, 0), m + 1, 0))

    def _waiting(self, m: int, n: int) -> Stream | None:
        if m >= len(self.left.found):
            return self.left
        return self.right if n >= len(self.right.found) else None

    def _cost_of(self, m: int, n: int) -> int:
        """Return what a cell costs; where a half has yet to find its rank, a bound, or if not lazy less than any."""
        if not self._lazy and self._waiting(m, n) is not None:
            return -1
        return _cost_at(self.left, m) + _cost_at(self.right, n)


Stream = OneList | TwoHalves
"""The attainable combinations of some lists in order of cost, found when they are asked for and kept."""


def combine(left: Combination, right: Combination) -> tuple[int, IntArray]:
    """Return cost and positions of two combinations together: the sparse one, one hypothesis a list."""
    return left.cost + right.cost, np.concatenate([left.positions, right.positions])


def _cost_at(stream: Stream, rank: int) -> int:
    return stream.found[rank].cost if rank < len(stream.found) else stream.bound


def balanced_tree(streams: Sequence[Stream], join: Callable[[Stream, Stream], Stream]) -> Stream:
    """Return the root of a tree over streams s to t, split from the top down after u = floor((s + t) / 2)."""
    if len(streams) == 1:
        return streams[0]
    middle = (len(streams) + 1) // 2
    return join(balanced_tree(streams[:middle], join), balanced_tree(streams[middle:], join))


_LARGEST_COUNT = 10**300
"""Of combinations: larger numbers are not told."""


class StreamSearch(Search):
    """A search for the first combinations of the root of a tree of streams, which `test` allows and counts."""

    def __init__(self, incumbent: Incumbent, test: CombinationTest, *, lazy: bool) -> None:
        self.incumbent, self._combinations, self._lazy = incumbent, test, lazy
        self._sizes = np.diff(test.sorted_lists.offsets).tolist()
        self.lists: list[Stream] = [OneList(s, test) for s in range(len(self._sizes))]
        self._joined: list[TwoHalves] = []

    def _join(self, left: Stream, right: Stream) -> TwoHalves:
        self._joined.append(TwoHalves(left, right, self._combinations, lazy=self._lazy))
        return self._joined[-1]

    @property
    def nodes(self) -> int:
        return self._combinations.tested.total()

    @property
    def open_nodes(self) -> int:
        return sum(len(stream.frontier) for stream in self._joined)

    def counters(self) -> Mapping[str, int]:
        """Return what the test has counted; `tested_n` are combinations of n lists."""
        everything = prod(self._sizes)
        total = {"combinations": everything} if everything < _LARGEST_COUNT else {}
        return {"nodes": self.nodes, **self._combinations.counters(), **total}


def by_length(name: str, counts: Counter[int]) -> dict[str, int]:
    return {f"{name}_{n}": count for n, count in sorted(counts.items())}
