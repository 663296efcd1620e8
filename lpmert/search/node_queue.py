"""The node queue of a long search, whose batches of nodes are units of work for the workers.

A search begins in the calling process, and hands out units of work once it has turned out to be long. The result does
not depend on the number of workers: a fixed number of batches is in flight, each starts from the incumbent at the time
of its submission, and answers are taken in the order of submission.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

from lpmert.errors import FloatArray
from lpmert.workers import Pending, Shared, Unit, current_workers

_GROWTH, _SMALLEST, _LARGEST = 2, 0.5, 8
"""The work of a unit, in ordinary units. After _GROWTH units per slot it grows in proportion to the units submitted, up
to _LARGEST, so that long searches need few messages. It never exceeds the number of waiting nodes per slot, but is at
least _SMALLEST: when few nodes wait, at both ends of a search, short units divide the remaining nodes soon.
"""


class OpenNode(NamedTuple):
    """An open node that any process can explore; `bound` is its dual bound.

    data: the node of the core as an array of bytes.
    """

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
        """Fill the slots, and return the answer to the oldest batch in flight; raises `OutOfTime`.

        unit_for: returns the unit that explores a batch, given the batch and the work of the unit.
        """
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
