"""The open parts of a long search: those that wait, the least bound first, and those that are out with workers.

So many hands of parts are out at once, however many workers there are, and their answers are taken in the order in
which they went out. What a hand begins with is therefore the same for any number of workers, and so is the search.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from lpmert.parallel.workers import Pending


class Part(Protocol):
    """A part of what is to be searched; nothing in it has a bound below `bound`."""

    @property
    def bound(self) -> int: ...

    @property
    def nbytes(self) -> int: ...


P = TypeVar("P", bound=Part)
A = TypeVar("A")

_GROWTH, _SMALLEST, _LARGEST = 2, 0.5, 8
"""After so many units a place each one is for more work, in proportion to how many went out, and up to so many times as
much: long searches need few messages. But it is for no more, save for the smallest, than parts wait for each place:
where few do, as at both ends of a search, what it leaves is divided soon.
"""


class Frontier(Generic[P, A]):
    """Parts that wait, and hands of parts that are out. places: hands that are out at once; hand: most parts of one;
    unit: work of an ordinary one.

    size: of the unit whose answer was taken last, as a multiple of an ordinary one.
    """

    def __init__(self, places: int, hand: int, unit: int) -> None:
        self._places, self._hand, self._unit = places, hand, unit
        self._waiting: list[tuple[int, int, P]] = []
        self._out: deque[tuple[list[P], Pending[A], float]] = deque()
        self._staying: deque[list[P]] = deque()
        self._pushed = self._sent = 0
        self.size = 1.0
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._waiting) + sum(map(len, self._hands()))

    @property
    def least_bound(self) -> int | None:
        """The least bound of all parts, `None` if there are none."""
        bounds = [part.bound for parts in self._hands() for part in parts]
        return min([*bounds, *(bound for bound, _, _ in self._waiting[:1])], default=None)

    def push(self, parts: Iterable[P]) -> None:
        """Let parts wait."""
        for part in parts:
            heapq.heappush(self._waiting, (part.bound, self._pushed, part))
            self._pushed += 1
            self.nbytes += part.nbytes

    def pop(self) -> P:
        """Take the waiting part with the least bound."""
        part = heapq.heappop(self._waiting)[2]
        self.nbytes -= part.nbytes
        return part

    def stay(self, parts: list[P]) -> None:
        """Let parts go out together again before all others."""
        if parts:
            self._staying.append(parts)
            self.nbytes += sum(part.nbytes for part in parts)

    def send(self, hand_out: Callable[[list[P], int], Pending[A]]) -> None:
        """Hand parts out until all places are taken; where few wait, places share them.

        hand_out: called with the parts of a unit, and the work that it is for.
        """
        while (self._waiting or self._staying) and len(self._out) < self._places:
            if self._staying:
                parts = self._staying.popleft()
            else:
                free = self._places - len(self._out)
                count = min(self._hand, -(-len(self._waiting) // free))
                parts = [heapq.heappop(self._waiting)[2] for _ in range(count)]
            grown = max(1, min(_LARGEST, self._sent // (_GROWTH * self._places)))
            size = max(_SMALLEST, min(grown, len(self._waiting) // self._places))
            self._out.append((parts, hand_out(parts, max(1, int(size * self._unit))), size))
            self._sent += 1

    def take(self) -> A:
        """Wait for the answer to the hand that went out first, and take it; raises `OutOfTime`."""
        answer = self._out[0][1].wait()
        parts, _, self.size = self._out.popleft()
        self.nbytes -= sum(part.nbytes for part in parts)
        return answer

    def give_up(self) -> None:
        """Let go of the hands that are out; no more answers are taken."""
        for _, pending, _ in self._out:
            pending.give_up()

    def parts(self) -> list[P]:
        """Return all parts, those that are out as they went out."""
        waiting = [part for _, _, part in sorted(self._waiting, key=lambda item: item[:2])]
        return [part for parts in self._hands() for part in parts] + waiting

    def _hands(self) -> list[list[P]]:
        return [parts for parts, _, _ in self._out] + list(self._staying)
