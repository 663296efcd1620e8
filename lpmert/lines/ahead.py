"""Descents that are begun before their turn, by whoever is hired, from where they will start if none before helps.

What is begun ahead only waits to be asked for. A descent from other weights is done when its turn comes, and the steps
of each are counted as if it had been done then: the outcome is that of one descent after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray
from lpmert.lines.clock import Steps
from lpmert.lines.line_search import Lineal
from lpmert.parallel.backends import hands_for
from lpmert.parallel.of_thread import OfThread
from lpmert.parallel.workers import SERIAL, Pending, Shared, Workers
from lpmert.system.deadline import Deadline, out_of_time

Descent = Callable[[Lineal, FloatArray, np.random.Generator, Steps], tuple[FloatArray, float]]
"""Returns the local optimum [d] that a search from weights [d] ends in, and its level."""


class Lines:
    """A kind of descent, and the line searches for it, of which each thread has its own.

    make: returns these; draws: whether the descent draws at random, so that none can be begun ahead.
    """

    def __init__(self, make: Callable[[], Lineal], descend: Descent, *, draws: bool) -> None:
        self.descend, self.draws = descend, draws
        self._make, self._searches = make, OfThread[Lineal]()

    @property
    def search(self) -> Lineal:
        """The line searches of this thread."""
        return self._searches.get(self._make)


class _Ended(NamedTuple):
    """Where a descent ended: weights [d], their level, and the steps that it counted at a time."""

    weights: FloatArray
    level: float
    steps: list[int]


class _Counted(Steps):
    """Steps that are remembered one by one, until there are so many."""

    def __init__(self, most: int | None = None) -> None:
        super().__init__(most)
        self.each: list[int] = []

    def expired(self, steps: int = 1) -> bool:
        """Count steps of work, and return whether to stop."""
        self.each.append(steps)
        return super().expired(steps)


def _descended(lines: Lines, start: FloatArray, most: int | None = None) -> _Ended:
    """Descend from weights [d], with so many steps at most; the unit of work."""
    steps = _Counted(most)
    return _Ended(*lines.descend(lines.search, start, np.random.default_rng(0), steps), steps.each)


class Ahead:
    """Descents one after the other; where they take long, workers begin those that are likely to come next."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._clock, self._done = Deadline(), 0
        self._hands: Workers = SERIAL
        self._shared: Shared | None = None
        self._out: dict[bytes, Pending[_Ended]] = {}

    def expect(self, starts: Iterable[FloatArray], left: int) -> None:
        """Begin descents from the first of these weights [d], the next one's first, and from no others.

        left: how many descents there will be, about.
        """
        if self._shared is None:
            if self._lines.draws or self._done == 0:
                return
            self._hands = hands_for(self._clock.seconds / self._done * left)
            if self._hands is SERIAL:
                return
            self._shared = self._hands.share(self._lines)
        next_ones = {start.tobytes(): start for start in islice(starts, self._hands.jobs)}
        for name in self._out.keys() - next_ones.keys():
            self._out.pop(name).give_up()
        for name, start in next_ones.items():
            if name not in self._out:
                self._out[name] = self._hands.hand_out(_descended, self._shared, start)

    def descend(self, start: FloatArray, rng: np.random.Generator, clock: Steps) -> tuple[FloatArray, float]:
        """Return what the descent from weights [d] leads to, and its level."""
        self._done += 1
        pending = self._out.pop(start.tobytes(), None)
        if pending is None or not pending.in_time():
            return self._lines.descend(self._lines.search, start, rng, clock)
        ended = pending.answer()
        counted = 0
        for steps in ended.steps:
            counted += steps
            if clock.expired(steps) and not out_of_time():
                ended = _descended(self._lines, start, counted)  # it would have stopped here
                break
        return ended.weights, ended.level

    def end(self) -> None:
        """Give up what was begun for nothing."""
        for pending in self._out.values():
            pending.give_up()
