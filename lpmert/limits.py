"""What ends a call early: signals, limits of time, and limits of memory.

Limits cover preparation, first weights, search and report. Work that can return a partial result polls `out_of_time`.
Work that cannot, because it would leave something half done, calls `checkpoint`, which raises `OutOfTime` within a
`heeding` block. A call that has no result before its end runs within `limited`.

A command imports this before all else, so the top imports only small parts of the standard library.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cache
from types import FrameType
from typing import Any, ClassVar, NoReturn, TypeVar

T = TypeVar("T")


@contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Let a variable have a value within the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that a command treats as Ctrl-C; SIGHUP comes when its terminal is closed."""

_undoing: dict[object, Callable[[], object]] = {}


def take_signals() -> None:
    """Make each of `SIGNALS` that is not ignored end this process with `abort`; for commands, not for the library."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, abort)
    # At exit, Python restores the default handlers; a signal would then kill a process whose work is done.
    atexit.register(_ignore_signals)


def _ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def abort(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    """Run the functions of `undone_by_abort` and end the process with exit code 128 + number.

    It raises no exception: within an import or a finaliser, one can be lost, replaced by another one, or printed with
    its traceback.
    """
    _ignore_signals()
    threading.excepthook = lambda _: None  # threads that wait for workers would report their end
    for undo in list(_undoing.values()):
        with suppress(Exception):
            undo()
    with suppress(OSError):
        os.write(2, b"lpmert: interrupted\n")  # the signal may have interrupted a write to sys.stderr
    os._exit(128 + number)


@contextmanager
def undone_by_abort(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` if the process is aborted within the block, at whatever moment."""
    key = object()
    _undoing[key] = undo
    try:
        yield
    finally:
        del _undoing[key]


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block `SIGNALS` in processes that are started within the block, since their parent ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Interrupts:
    """While it is entered, the first Ctrl-C sets `pressed`; a second one raises `KeyboardInterrupt` as usual.

    The first one raises nothing, because an exception within compiled code can be lost or replaced by another one. In a
    command the other `SIGNALS` do the same, and the second one aborts. `number` is the signal that came first. Nothing
    changes outside the main thread, or for signals with a handler of the caller. Nested instances all record the
    signal; an inner one starts with the state of the outer one.
    """

    _entered: ClassVar[list[Interrupts]] = []
    _previous: ClassVar[dict[int, Any]] = {}  # the handlers that were replaced when the first one was entered

    def __init__(self) -> None:
        self.pressed, self.number = False, int(signal.SIGINT)

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for outer in self._entered[-1:]:
                self.pressed, self.number = outer.pressed, outer.number
            for number in SIGNALS if not self._entered else ():
                if (handler := signal.getsignal(number)) in (signal.default_int_handler, abort):
                    self._previous[number] = handler
                    signal.signal(number, self._press)
            self._entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self in self._entered:
            self._entered.remove(self)
            if not self._entered:
                for number, handler in self._previous.items():
                    signal.signal(number, handler)
                self._previous.clear()

    @classmethod
    def _press(cls, number: int, frame: FrameType | None) -> None:
        if not cls._entered or cls._entered[0].pressed:  # none: a signal while the first enters or the last leaves
            cls._previous[number](number, frame)
        for one in cls._entered:
            one.pressed, one.number = True, number


_SHARE = 0.9  # share of the free memory that a call may take if it has no limit
_RESERVE = 1 / 32  # share of the limit reserved for the work between two measurements, and for the report
_PAUSE = 0.005  # seconds between two measurements
_FADING = 0.9  # factor by which the recorded growth fades from one measurement to the next


@cache
def _process(pid: int) -> Any:
    import psutil  # imported here: commands that measure no memory do without

    return psutil.Process(pid)


def resident() -> int:
    """Return the bytes of memory that this process holds; only resident memory counts."""
    return int(_process(os.getpid()).memory_info().rss)


def free() -> int:
    """Return how many more bytes this process may take: the free memory of the machine or, on Linux, what is left of
    the limits of its cgroup, its address space (ulimit -v) or its data (ulimit -d), whichever is least.
    """
    import psutil

    found = [int(psutil.virtual_memory().available)]
    if sys.platform == "linux":
        import resource
        from pathlib import Path

        with suppress(OSError, ValueError):
            most, now = (Path(f"/sys/fs/cgroup/memory.{name}").read_text() for name in ("max", "current"))
            found.append(max(0, int(most) - int(now)))
        used = _process(os.getpid()).memory_info()
        for which, taken in ((resource.RLIMIT_AS, used.vms), (resource.RLIMIT_DATA, used.data)):
            limit = resource.getrlimit(which)[0]
            if limit != resource.RLIM_INFINITY:
                found.append(max(0, limit - taken))
    return min(found)


def give_back() -> None:
    """Return freed memory that the C library keeps to the system; it would count as resident."""
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class Allowance:
    """The memory that a call may hold.

    limit: bytes, `None` for what it holds now plus nine tenths of the free memory. reserve: bytes that stay free for
    the end of the call. refused: whether the last request did not fit.
    """

    def __init__(self, limit: int | None = None, reserve: int = 0) -> None:
        self._held = resident()
        self._has_limit = limit is not None
        self.limit = self._held + int(_SHARE * free()) if limit is None else limit
        self._reserve = max(reserve, int(_RESERVE * self.limit))
        self._growth, self._next_measurement, self._spent, self.refused = 0.0, 0.0, False, False

    @property
    def spent(self) -> bool:
        """Whether memory is so near the limit that work must end; once true, it stays true."""
        now = time.perf_counter()
        if self._spent or now < self._next_measurement:
            return self._spent
        before, self._held = self._held, resident()
        self._next_measurement = now + _PAUSE
        self._growth = max(float(self._held - before), _FADING * self._growth)
        self._spent = self._held + max(self._reserve, 2.0 * self._growth) > self.limit
        return self._spent

    def grants(self, size: int) -> bool:
        """Return whether `size` more bytes fit beside the reserve, and set `refused` accordingly."""
        self.refused = size > max(0, self.limit - resident() - self._reserve)
        return not self.refused

    def shortage(self, more: str = "") -> str:
        """Return an error's text: the limit, the memory in use, and the remedy; more: goes on about the use."""
        limit, used = _shown(self.limit), f"{_shown(resident())} are in use{more}"
        if not self._has_limit:
            return (
                f"too little memory is free: {used}, more than the {limit} available; end other programs, or give it "
                "fewer lists or features"
            )
        return f"the memory limit of {limit} is too low: {used}; allow more with --memory-limit (memory_limit)"

    def enforced(self, *, if_any: bool = False) -> AbstractContextManager[None]:
        """Let `room_for` heed this allowance; if_any: unless nothing is left, since small searches end even then."""
        return nullcontext() if if_any and self.spent else holding(_enforced, self)


_enforced: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


def room_for(size: int, what: str) -> None:
    """Raise `DataError` where `size` more bytes, without which there is no result, exceed the enforced allowance."""
    allowance = _enforced.get()
    if allowance is not None and resident() + size > allowance.limit:
        from lpmert.errors import DataError

        raise DataError(allowance.shortage(f", and {what} takes {_shown(size)} more" if size else f" by {what}"))


def _shown(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"


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
        self.limit, self._stop, self.memory = limit, stop, memory

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def expired(self) -> bool:
        """Whether time or memory is used up, or `stop` asks for the end."""
        return bool(self._stop and self._stop()) or self.out_of_memory or self.left == 0.0

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
        return None if (left := self.left) is None else left / parts

    @property
    def ending(self) -> str:
        """The limit that ended the call, time or memory, and the remedy."""
        if self.memory is None or self.left == 0.0:
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
    if deadline is not None:
        memory = deadline.memory
        if deadline.expired or (size > 0 and memory is not None and not memory.grants(size)):
            raise OutOfTime


def checked(items: Iterable[T], every: int = 1 << 10) -> Iterator[T]:
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
            from lpmert.errors import LimitError

            raise LimitError(message(deadline.ending)) from None


@contextmanager
def unheeded() -> Iterator[None]:
    """Suspend all deadlines within the block, for a caller's own code."""
    with holding(_running, None), holding(_heeded, None):
        yield


def told(callback: Callable[..., object] | None, *report: object) -> bool:
    """Call a caller's callback, if there is one, and return whether it asks to stop."""
    with unheeded():
        return callback is not None and bool(callback(*report))
