"""Time and memory limits of a call, which cover preparation, first weights, search and report.

Work that can return a partial result polls `out_of_time`. Work that cannot, because it would leave something half done,
calls `checkpoint`, which raises `OutOfTime` within a `heeding` block. A call that has no result before its end runs
within `limited`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeVar

from lpmert.system import holding
from lpmert.system.memory import Allowance

Item = TypeVar("Item")


class OutOfTime(Exception):
    """Work was abandoned: time or memory is used up, or the user stopped it."""


class Deadline:
    """The end of a call, `limit` seconds after `started`, a `time.perf_counter()`; `None` for no limit.

    The call also ends when `stop` returns true or `memory` is spent.
    """

    def __init__(
        self,
        limit: float | None = None,
        started: float | None = None,
        stop: Callable[[], bool] | None = None,
        memory: Allowance | None = None,
    ) -> None:
        self.started = time.perf_counter() if started is None else started
        self.limit = limit
        self._stop, self.memory = stop, memory

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def expired(self) -> bool:
        """Whether time or memory is used up, or `stop` asks for the end."""
        if (self._stop is not None and self._stop()) or self.out_of_memory:
            return True
        return self.limit is not None and self.seconds >= self.limit

    @property
    def out_of_memory(self) -> bool:
        return self.memory is not None and self.memory.spent

    @property
    def ends_for_memory(self) -> bool:
        """Whether memory ends the call: it is spent, or the last request did not fit while there was time left."""
        return self.memory is not None and (self.memory.spent or (self.memory.refused and not self.expired))

    @property
    def left(self) -> float | None:
        return None if self.limit is None else max(0.0, self.limit - self.seconds)

    def share(self, parts: float) -> float | None:
        """Return an equal share of the time left, in seconds, `None` without a limit."""
        left = self.left
        return None if left is None else left / parts

    @property
    def ending(self) -> str:
        """The limit that ended the call, time or memory, and the remedy."""
        if self.memory is None or (self.limit is not None and self.seconds >= self.limit):
            return f"the time limit of {self.limit:g} s is over; allow more with --time-limit (time_limit)"
        return self.memory.shortage()

    def later(self, seconds: float) -> Deadline:
        """Return a deadline that comes `seconds` later, with the same memory and without `stop`."""
        return Deadline(None if self.limit is None else self.limit + seconds, self.started, memory=self.memory)

    @contextmanager
    def running(self) -> Iterator[Deadline]:
        """Make this the deadline of the running call within the block, for `out_of_time`, `within` and `heeding`."""
        with holding(_running, self):
            yield self


_running: ContextVar[Deadline | None] = ContextVar("running", default=None)
_heeded: ContextVar[Deadline | None] = ContextVar("heeded", default=None)


def within(
    seconds: float | None,
    started: float | None = None,
    stop: Callable[[], bool] | None = None,
    memory: Allowance | None = None,
) -> Deadline:
    """Return a deadline `seconds` after `started` that also expires with the running call's deadline."""
    inner, outer = Deadline(seconds, started, stop, memory), _running.get()
    if outer is None:
        return inner
    ends = [seconds, None if outer.left is None else inner.seconds + outer.left]
    limit = min((end for end in ends if end is not None), default=None)
    return Deadline(limit, inner.started, lambda: outer.expired or bool(stop and stop()), memory or outer.memory)


def out_of_time() -> bool:
    """Whether the deadline of the running call has passed; false without one."""
    deadline = _running.get()
    return deadline is not None and deadline.expired


def time_left() -> float | None:
    """Return the seconds until `checkpoint` raises, `None` for no limit.

    There is no limit outside of `heeding`: a solver that stopped early there would only be replaced by a slower method.
    """
    deadline = _heeded.get()
    return None if deadline is None else deadline.left


def checkpoint(size: int = 0) -> None:
    """Raise `OutOfTime`, within `heeding`, if the deadline has passed or `size` more bytes do not fit."""
    deadline = _heeded.get()
    if deadline is None:
        return
    if deadline.expired or (size > 0 and deadline.memory is not None and not deadline.memory.grants(size)):
        raise OutOfTime


def checked(items: Iterable[Item], every: int = 1 << 10) -> Iterator[Item]:
    for number, item in enumerate(items):
        if number % every == 0:
            checkpoint()
        yield item


def heeding() -> AbstractContextManager[None]:
    """Let `checkpoint` raise within the block when the deadline of the running call passes."""
    return holding(_heeded, _running.get())


@contextmanager
def limited(time_limit: float | None, memory_limit: int | None, message: Callable[[str], str]) -> Iterator[Allowance]:
    """Limit the time (seconds) and memory (bytes) of the block; raises `LimitError` where they do not suffice.

    message: returns the error's text, given the limit that was reached and the remedy. The deadline of an enclosing
    `heeding` block applies, too; where it ends the work, its `OutOfTime` passes through.
    """
    allowance, outer = Allowance(memory_limit), _heeded.get()
    stop = None if outer is None else lambda: outer.expired
    with Deadline(time_limit, stop=stop, memory=allowance).running() as deadline, heeding():
        try:
            yield allowance
        except OutOfTime:
            if outer is not None and outer.expired:
                raise
            from lpmert.errors import LimitError  # imported here: it loads numpy, which short commands do without

            raise LimitError(message(deadline.ending)) from None


@contextmanager
def unheeded() -> Iterator[None]:
    """Suspend all deadlines within the block, for a caller's own code."""
    with holding(_running, None), holding(_heeded, None):
        yield


def told(callback: Callable[..., object] | None, *report: object) -> bool:
    """Call a caller's callback, if there is one, and return whether it asks to stop."""
    if callback is None:
        return False
    with unheeded():
        return bool(callback(*report))
