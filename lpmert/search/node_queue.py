"""The open nodes of a long search, which goes on in units of work.

A search begins alone and goes on in units of work once it has turned out to be long. The number of batches that are out
at once does not depend on the number of workers; each begins with the incumbent as it was when the batch went out, and
answers are taken in that order. So each unit begins alike for any number of workers, and the search takes one course.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lpmert.errors import FloatArray
from lpmert.workers import SERIAL, Pending, Shared, Unit, Workers, current_workers

_GROWTH, _SMALLEST, _LARGEST = 2, 0.5, 8
"""After so many units a place each one is for more work, in proportion to how many went out, and up to so many times as
much: long searches need few messages. But it is for no more, save for the smallest, than nodes wait for each place:
where few do, as at both ends of a search, what it leaves is divided soon.
"""


class OpenNode(NamedTuple):
    """A part of the search that any process can go on with; nothing in it costs less than `bound`.

    data: a node of the core as bytes, or what else a search knows it by; it has `nbytes`.
    """

    bound: int
    data: Any

    @property
    def nbytes(self) -> int:
        return int(self.data.nbytes) + 200


class Answer(NamedTuple):
    """What a unit has found. nodes: left of its batch; cost, weights [D], source: of the best met; unsettled: as of a
    search; work: done, as searches count it; hard: whether the last node waits for exact arithmetic.
    """

    nodes: list[OpenNode]
    cost: int
    weights: FloatArray
    source: str
    unsettled: int | None
    counts: Mapping[str, int]
    work: int = 0
    hard: bool = False


Call = tuple[Unit[Answer], tuple[Any, ...]]
"""A unit and its arguments beside what is shared."""


@dataclass
class _Out:
    """A batch that is out."""

    nodes: list[OpenNode]
    call: Call
    pending: Pending[Answer]


class NodeQueue:
    """Nodes that wait, the least bound first, and batches of nodes that are out with workers.

    places: batches that are out at once; batch: most nodes of one; unit: work of an ordinary one; local_units: so many
    are left to the caller where workers take long to start, so that short work is not sent away.
    """

    def __init__(self, places: int, batch: int, unit: int, local_units: int = 0) -> None:
        self._places, self._batch, self._unit = places, batch, unit
        workers = current_workers()
        self._local_units = local_units if workers.remote else 0
        self._workers: Workers = SERIAL if self._local_units else workers
        self._shared: Shared | None = None
        self._waiting: list[tuple[int, int, OpenNode]] = []
        self._out: deque[_Out] = deque()
        self._staying: deque[list[OpenNode]] = deque()
        self._pushed = self._sent = 0
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._waiting) + sum(map(len, self._batches()))

    @property
    def shared(self) -> bool:
        """Whether units can go out."""
        return self._shared is not None

    @property
    def least_bound(self) -> int | None:
        bounds = [node.bound for batch in self._batches() for node in batch]
        return min([*bounds, *(bound for bound, _, _ in self._waiting[:1])], default=None)

    def share(self, value: object) -> None:
        """Let units go out that share a value."""
        self._shared = self._workers.share(value)

    def push(self, nodes: Iterable[OpenNode]) -> None:
        for node in nodes:
            heapq.heappush(self._waiting, (node.bound, self._pushed, node))
            self._pushed += 1
            self.nbytes += node.nbytes

    def pop(self) -> OpenNode:
        """Take the waiting node with the least bound."""
        node = heapq.heappop(self._waiting)[2]
        self.nbytes -= node.nbytes
        return node

    def stay(self, nodes: list[OpenNode]) -> None:
        """Let nodes go out together again before all others."""
        if nodes:
            self._staying.append(nodes)
            self.nbytes += sum(node.nbytes for node in nodes)

    def take(self, call: Callable[[list[OpenNode], int], Call]) -> Answer:
        """Send batches out, wait for the answer to the one that went out first, and take it; raises `OutOfTime`.

        call: returns the unit for some nodes, and for so much work.
        """
        self.send(call)
        answer = self._out[0].pending.wait()
        out = self._out.popleft()
        self.nbytes -= sum(node.nbytes for node in out.nodes)
        if self._local_units:
            self._local_units -= 1
            if not self._local_units:  # all others are for the workers, also those that are out and have not begun
                self._workers = current_workers()
                self.share(self._shared.value if self._shared else None)
                for out in self._out:
                    out.pending = self._submitted(out.call)
        return answer

    def send(self, call: Callable[[list[OpenNode], int], Call]) -> None:
        """Send batches out until all places are taken; where few nodes wait, places share them."""
        while (self._waiting or self._staying) and len(self._out) < self._places:
            if self._staying:
                nodes = self._staying.popleft()
            else:
                free = self._places - len(self._out)
                count = min(self._batch, -(-len(self._waiting) // free))
                nodes = [heapq.heappop(self._waiting)[2] for _ in range(count)]
            grown = max(1, min(_LARGEST, self._sent // (_GROWTH * self._places)))
            size = max(_SMALLEST, min(grown, len(self._waiting) // self._places))
            one = call(nodes, max(1, int(size * self._unit)))
            self._out.append(_Out(nodes, one, self._submitted(one)))
            self._sent += 1

    def give_up(self) -> None:
        """Cancel the batches that are out; no more answers are taken."""
        for out in self._out:
            out.pending.give_up()

    def nodes(self) -> list[OpenNode]:
        """Return all nodes, those that are out as they went out."""
        waiting = [node for _, _, node in sorted(self._waiting, key=lambda item: item[:2])]
        return [node for batch in self._batches() for node in batch] + waiting

    def _submitted(self, call: Call) -> Pending[Answer]:
        if self._shared is None:
            raise RuntimeError("nothing is shared yet")
        return self._workers.submit(call[0], self._shared, *call[1])

    def _batches(self) -> list[list[OpenNode]]:
        return [out.nodes for out in self._out] + list(self._staying)
