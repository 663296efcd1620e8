"""The attainable combinations of some lists in order of cost, found as they are asked for.

Source: Galley and Quirk, Optimal Search for Minimum Error Rate Training, EMNLP 2011, Algorithms 1 and 2. Every method
does one piece of work at a time, so that a search can pause after any linear program.
"""

from __future__ import annotations

import heapq
from typing import Protocol

import numpy as np

from lpmert.core import INFINITE_COST
from lpmert.errors import IntArray
from lpmert.methods.divide.combination import Combination
from lpmert.numeric.leastnorm import SortedLists


class Decider(Protocol):
    """Decides which combinations a stream holds."""

    @property
    def lists(self) -> SortedLists: ...

    def decide(
        self,
        part: IntArray,
        cost: int,
        positions: IntArray,
        halves: tuple[Combination, Combination] | None = None,
    ) -> Combination | None:
        """Return the combination of these lists' positions if the stream is to hold it."""


class Stream(Protocol):
    """The attainable combinations of some lists in order of cost, found when they are asked for and kept."""

    @property
    def part(self) -> IntArray: ...

    @property
    def found(self) -> list[Combination]: ...

    @property
    def bound(self) -> int:
        """The least that the next combination can cost; `INFINITE_COST` when there is none left."""

    def get_next_best(self) -> None:
        """Do one piece of work for the next combination: at most one test."""


class OneList:
    """Algorithm 1: the hypotheses of one list in order of cost, without those that are interior.

    position: of the next one to be tested.
    """

    def __init__(self, number: int, screen: Decider) -> None:
        self.part = np.array([number])
        self.found: list[Combination] = []
        begin, end = screen.lists.offsets[number : number + 2]
        self._costs = screen.lists.costs[begin:end].tolist()
        self.position = 0
        self._screen = screen

    @property
    def bound(self) -> int:
        return self._costs[self.position] if self.position < len(self._costs) else INFINITE_COST

    def get_next_best(self) -> None:
        position = self.position
        combination = self._screen.decide(self.part, self._costs[position], np.array([position], dtype=np.int64))
        self.position += 1
        if combination is not None:
            self.found.append(combination)


class TwoHalves:
    """Algorithm 2: the combinations of two streams, by a frontier over (left rank, right rank).

    The frontier holds the right and lower neighbours of visited cells. A cell's only parent is its left neighbour, in
    the first column the one above, so that none enters twice.
    """

    def __init__(self, left: Stream, right: Stream, screen: Decider, *, lazy: bool) -> None:
        self.left, self.right = left, right
        self.part = np.concatenate([left.part, right.part])
        self.found: list[Combination] = []
        self._screen = screen
        self._lazy = lazy
        self._reached = 0
        self.frontier = [(self._cost_of(0, 0), 0, 0)]

    @property
    def bound(self) -> int:
        return self.frontier[0][0] if self.frontier else INFINITE_COST

    def get_next_best(self) -> None:
        cell = self.best_in_frontier()
        if cell is None:
            return
        left, right = self.left.found[cell[0]], self.right.found[cell[1]]
        cost, positions = combine(left, right)
        combination = self._screen.decide(self.part, cost, positions, (left, right))
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
        """Return what a cell costs; where a half has yet to find its rank, a bound, or if not lazy what is reached."""
        if not self._lazy and self._waiting(m, n) is not None:
            return self._reached
        return _cost_at(self.left, m) + _cost_at(self.right, n)


def combine(left: Combination, right: Combination) -> tuple[int, IntArray]:
    """Return cost and positions of two combinations together: the sparse one, one hypothesis a list."""
    return left.cost + right.cost, np.concatenate([left.positions, right.positions])


def _cost_at(stream: Stream, rank: int) -> int:
    return stream.found[rank].cost if rank < len(stream.found) else stream.bound
