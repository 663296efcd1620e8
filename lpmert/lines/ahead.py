"""Descents that the workers of the call begin before their turn, from where they will start if none before helps.

What is begun ahead only waits to be asked for. A descent from other weights is done when its turn comes, and the steps
of each are counted as if it had been done then: the outcome is that of one descent after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from lpmert.errors import FloatArray
from lpmert.lines.clock import Steps
from lpmert.lines.line_search import LineSearcher
from lpmert.system.deadline import Deadline, out_of_time
from lpmert.workers import SERIAL, Pending, PerThread, Shared, Workers, workers_for

S = TypeVar("S")
T = TypeVar("T")

Descent = Callable[[LineSearcher, FloatArray, np.random.Generator, Steps], tuple[FloatArray, float]]
"""Returns the local optimum [d] that a search from weights [d] ends in, and its level."""


class DescentKind(Generic[S, T]):
    """A kind of descent, and what each thread that descends has of its own, such as line searches.

    make: returns the latter; descend: called with it, weights [d], a generator and steps; draws: whether the descent
    draws at random, so that none can be begun ahead.
    """

    def __init__(
        self,
        make: Callable[[], S],
        descend: Callable[[S, FloatArray, np.random.Generator, Steps], T],
        *,
        draws: bool,
    ) -> None:
        self.descend, self.draws = descend, draws
        self._make, self._searches = make, PerThread[S]()

    @property
    def search(self) -> S:
        return self._searches.get(self._make)


LineDescents: TypeAlias = DescentKind[LineSearcher, tuple[FloatArray, float]]
"""By line searches; each descent returns what a `Descent` does."""


@dataclass(frozen=True)
class _Ended(Generic[T]):
    """What a descent found, the steps that it counted at a time, and what it showed before which of these."""

    found: T
    steps: list[int]
    shown: list[tuple[int, FloatArray, float]]


class _Counted(Steps):
    """Steps that are remembered one by one, until there are so many, and what was shown between them."""

    def __init__(self, most: int | None = None) -> None:
        super().__init__(most)
        self.each: list[int] = []
        self.shown: list[tuple[int, FloatArray, float]] = []

    def expired(self, steps: int = 1) -> bool:
        self.each.append(steps)
        return super().expired(steps)

    def keep(self, weights: FloatArray, loss: float) -> float:
        """Remember what was shown."""
        self.shown.append((len(self.each), weights, loss))
        return loss


def _descended(kind: DescentKind[S, T], start: FloatArray, most: int | None = None) -> _Ended[T]:
    """Descend from weights [d], with so many steps at most; the unit of work."""
    steps = _Counted(most)
    return _Ended(kind.descend(kind.search, start, np.random.default_rng(0), steps), steps.each, steps.shown)


class Ahead(Generic[S, T]):
    """Descents one after the other; where they take long, workers begin those that are likely to come next."""

    def __init__(self, kind: DescentKind[S, T]) -> None:
        self._kind = kind
        self._clock, self._done = Deadline(), 0
        self._workers: Workers = SERIAL
        self._shared: Shared | None = None
        self._out: dict[bytes, Pending[_Ended[T]]] = {}

    def expect(self, starts: Iterable[FloatArray], left: int) -> None:
        """Begin descents from the first of these weights [d], the next one's first, and from no others.

        left: how many descents there will be, about.
        """
        if self._shared is None:
            if self._kind.draws or self._done == 0:
                return
            self._workers = workers_for(self._clock.seconds / self._done * left)
            if self._workers is SERIAL:
                return
            self._shared = self._workers.share(self._kind)
        next_ones = {start.tobytes(): start for start in islice(starts, self._workers.jobs)}
        for name in self._out.keys() - next_ones.keys():
            self._out.pop(name).give_up()
        for name, start in next_ones.items():
            if name not in self._out:
                self._out[name] = self._workers.submit(_descended, self._shared, start)

    def descend(self, start: FloatArray, rng: np.random.Generator, clock: Steps) -> T:
        """Return what the descent from weights [d] finds."""
        self._done += 1
        pending = self._out.pop(start.tobytes(), None)
        if pending is None or not pending.in_time():
            return self._kind.descend(self._kind.search, start, rng, clock)
        ended = pending.answer()
        counted, shown = 0, deque(ended.shown)
        for number, steps in enumerate(ended.steps):
            while shown and shown[0][0] == number:
                clock.keep(*shown.popleft()[1:])
            counted += steps
            if clock.expired(steps) and not out_of_time():
                ended = _descended(self._kind, start, counted)  # it would have stopped here
                return ended.found
        for _, weights, loss in shown:
            clock.keep(weights, loss)
        return ended.found

    def end(self) -> None:
        """Give up what was begun for nothing."""
        for pending in self._out.values():
            pending.give_up()
