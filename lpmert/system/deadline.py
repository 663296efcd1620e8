"""How long a call may take, and how much memory: for preparation, first weights, search and report.

Work that can end early asks `out_of_time`; work that cannot, because it would leave something half done, calls
`checkpoint`, which raises `OutOfTime` where somebody `heeding` it will catch that. What has no result before its end is
`limited`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from lpmert.system.memory import Allowance

Item = TypeVar("Item")

_HOPELESS = 10
"""Work is given up early if, at the pace so far, it would take this many times the time left."""


class OutOfTime(Exception):
    """Work was given up: time or memory is used up, the user stopped it, or it would take far too long."""


class Deadline:
    """The time limit of one call, in seconds from `started`, a `time.perf_counter()`; `None` for no limit.

    stop: asked too, and a wish to stop where it answers true; so is memory that is spent.
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
        """Seconds since the start."""
        return time.perf_counter() - self.started

    @property
    def expired(self) -> bool:
        """Whether the time or the memory is used up, or somebody wishes to stop."""
        if (self._stop is not None and self._stop()) or self.out_of_memory:
            return True
        return self.limit is not None and self.seconds >= self.limit

    @property
    def out_of_memory(self) -> bool:
        return self.memory is not None and self.memory.spent

    @property
    def ends_for_memory(self) -> bool:
        """Whether memory ends the call: it is used up, or work was given up for more than is left, and time is left."""
        return self.memory is not None and (self.memory.spent or (self.memory.refused and not self.expired))

    @property
    def left(self) -> float | None:
        """Seconds left, `None` without a limit."""
        return None if self.limit is None else max(0.0, self.limit - self.seconds)

    def share(self, parts: float) -> float | None:
        """Return an equal share of the time left, in seconds, `None` without a limit."""
        return None if self.limit is None else max(0.0, self.limit - self.seconds) / parts

    @property
    def ending(self) -> str:
        """Why there is no more time or memory, and the remedy."""
        if self.memory is None or (self.limit is not None and self.seconds >= self.limit):
            return f"the time limit of {self.limit:g} s is over; allow more with --time-limit (time_limit)"
        return self.memory.shortage()

    def later(self, seconds: float) -> Deadline:
        """Return the deadline that comes so much later, and does not ask whether to stop; the memory stays the same."""
        return Deadline(None if self.limit is None else self.limit + seconds, self.started, memory=self.memory)

    @contextmanager
    def running(self) -> Iterator[Deadline]:
        """Make this the deadline that `out_of_time` is about, and that blocks within this one can heed."""
        token = _running.set(self)
        try:
            yield self
        finally:
            _running.reset(token)


_running: ContextVar[Deadline | None] = ContextVar("running", default=None)
_heeded: ContextVar[Deadline | None] = ContextVar("heeded", default=None)


def within(
    seconds: float | None,
    started: float | None = None,
    stop: Callable[[], bool] | None = None,
    memory: Allowance | None = None,
) -> Deadline:
    """Return the deadline that comes in so many seconds, or with that of the running call."""
    found, outer = Deadline(seconds, started, stop, memory), _running.get()
    if outer is None:
        return found
    ends = [seconds, None if outer.left is None else found.seconds + outer.left]
    limit = min((end for end in ends if end is not None), default=None)
    return Deadline(limit, found.started, lambda: outer.expired or bool(stop and stop()), memory or outer.memory)


def out_of_time() -> bool:
    """Whether the deadline of the running call is reached; never without one."""
    deadline = _running.get()
    return deadline is not None and deadline.expired


def time_left() -> float | None:
    """Return the seconds until `checkpoint` raises, `None` for no limit.

    Where nobody is heeding the deadline, what is cut short would have to be done in another way, and a slower one.
    """
    deadline = _heeded.get()
    return None if deadline is None else deadline.left


def checkpoint(size: int = 0) -> None:
    """Raise `OutOfTime` if the deadline is reached, or so many more bytes do not fit, and somebody is heeding it."""
    deadline = _heeded.get()
    if deadline is None:
        return
    if deadline.expired or (size > 0 and deadline.memory is not None and not deadline.memory.grants(size)):
        raise OutOfTime


def checked(items: Iterable[Item], every: int = 1 << 10) -> Iterator[Item]:
    """Yield items, with a `checkpoint` after so many."""
    for number, item in enumerate(items):
        if number % every == 0:
            checkpoint()
        yield item


class Pace:
    """How fast equal parts of some work are done, of so many; for work of which the parts to come are no smaller."""

    def __init__(self, parts: int, what: str) -> None:
        self._parts, self._what, self._time = parts, what, time_left()

    def check(self, done: int) -> None:
        """Raise `OutOfTime` if the rest would take more than `_HOPELESS` times what is left of the time, at the pace of
        those that are done. Until a `_HOPELESS`th of the time has passed that is not known.
        """
        left = time_left()
        if self._time is None or left is None or (spent := self._time - left) * _HOPELESS < self._time:
            return
        if (rest := spent * (self._parts - done)) > _HOPELESS * left * done:
            raise OutOfTime(
                f"{self._what} would take {rest / max(done, 1):,.0f} s more at the pace so far, and there are "
                f"{left:,.0f}; allow more with --time-limit (time_limit)"
            )


@contextmanager
def heeding() -> Iterator[None]:
    """Let `checkpoint` raise when the deadline of the running call is reached."""
    token = _heeded.set(_running.get())
    try:
        yield
    finally:
        _heeded.reset(token)


@contextmanager
def limited(time_limit: float | None, memory_limit: int | None, message: Callable[[str], str]) -> Iterator[Allowance]:
    """Give the block so many seconds and bytes; raises `LimitError` where it is not done by then.

    message: what the error says, given why and the remedy. A deadline outside of this one is heeded, too; its error is
    that of whoever set it.
    """
    allowance, outer = Allowance(memory_limit), _heeded.get()
    stop = None if outer is None else lambda: outer.expired
    with Deadline(time_limit, stop=stop, memory=allowance).running() as deadline, heeding():
        try:
            yield allowance
        except OutOfTime as error:
            if outer is not None and outer.expired:
                raise
            from lpmert.errors import LimitError  # which loads numpy; what a command of little work need not do

            raise LimitError(message(str(error) or deadline.ending)) from None


@contextmanager
def unheeded() -> Iterator[None]:
    """Hide all deadlines from the caller's own code."""
    tokens = _running.set(None), _heeded.set(None)
    try:
        yield
    finally:
        _running.reset(tokens[0])
        _heeded.reset(tokens[1])


def told(callback: Callable[..., object] | None, *report: object) -> bool:
    """Tell a caller's own code, if there is any, and return whether it answers that work should stop."""
    if callback is None:
        return False
    with unheeded():
        return bool(callback(*report))
