"""The caller does the first units, and workers who take long to start get the rest: short work is not sent away."""

from __future__ import annotations

from collections import deque
from typing import Any

from lpmert.parallel.workers import Pending, Shared, T, Unit, Workers


def home_first(hands: Workers, units: int) -> Workers:
    """Return workers of whom nobody is far while so many units are done, one after the other."""
    return _HomeFirst(hands, units) if hands.far else hands


class _HomeFirst(Workers):
    """Workers who get what has been handed out and has not begun as soon as the caller has done its units."""

    far = True

    def __init__(self, hands: Workers, units: int) -> None:
        self.jobs, self._hands, self._left = hands.jobs, hands, units
        self._waiting: deque[_AtHome[Any]] = deque()

    def share(self, value: object) -> Shared:
        return _Late(value)

    def hand_out(self, unit: Unit[T], shared: Shared, *arguments: object) -> Pending[T]:
        pending: _AtHome[T] = _AtHome(self, unit, shared, *arguments)
        self._waiting.append(pending)
        self._send()
        return pending

    def done(self, pending: _AtHome[Any]) -> None:
        """Count a unit that the caller has done, and send all others away once these are enough."""
        self._waiting.remove(pending)
        self._left -= 1
        self._send()

    def _send(self) -> None:
        while self._left <= 0 and self._waiting:
            self._waiting.popleft().send(self._hands)

    def close(self) -> None:
        """Leave the workers to whoever hired them."""


class _Late(Shared):
    """What is shared with workers as soon as one of them needs it."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self._sent: Shared | None = None

    def with_workers(self, hands: Workers) -> Shared:
        """Return what these workers find it by."""
        if self._sent is None:
            self._sent = hands.share(self.value)
        return self._sent


class _AtHome(Pending[T]):
    """A unit that the caller does when its answer is asked for, unless it was sent away before."""

    def __init__(self, home: _HomeFirst, unit: Unit[T], shared: Any, *arguments: object) -> None:
        self._home, self._unit, self._shared, self._arguments = home, unit, shared, arguments
        self._sent: Pending[T] | None = None
        self._answer: list[T] = []

    def send(self, hands: Workers) -> None:
        """Have the unit done by workers."""
        self._sent = hands.hand_out(self._unit, self._shared.with_workers(hands), *self._arguments)

    def done(self, seconds: float) -> bool:
        if self._sent is not None:
            return self._sent.done(seconds)
        if not self._answer:
            self._answer.append(self._unit(self._shared.value, *self._arguments))
            self._home.done(self)
        return True

    def answer(self) -> T:
        return self._answer[0] if self._sent is None else self._sent.answer()

    def give_up(self) -> None:
        if self._sent is not None:
            self._sent.give_up()
