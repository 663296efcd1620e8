"""How much memory a call holds, this process and those that work for it, and how much it may hold.

What counts is what is resident; of other processes that work for this one, what they do not share.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

_SHARE = 0.9
"""Share of the free memory that may be taken without a limit."""

_RESERVE = 1 / 32
"""Share of the limit reserved for the work between two looks, and for the report."""

_PAUSE = 0.005
"""Seconds between two looks."""

_FADING = 0.9
"""What counts of the growth before the last look."""

_MMAP_THRESHOLD = -3
"""A number of glibc's malloc.h."""

_LARGE = 1 << 20
"""Bytes of an array that goes back at once."""

_CGROUP = Path("/sys/fs/cgroup")


@cache
def _process(pid: int) -> Any:
    import psutil  # what takes no memory loads none of it

    return psutil.Process(pid)


def resident() -> int:
    """Return how many bytes of this process are in memory."""
    return int(_process(os.getpid()).memory_info().rss)


def _resident_apart(pid: int) -> int:
    """Return how many bytes of another process are in memory, without what others may share where that is known
    (Linux); 0 if it has ended.
    """
    import psutil

    with suppress(psutil.Error):
        found = psutil.Process(pid).memory_info()
        return int(found.rss - getattr(found, "shared", 0))
    return 0


def group_of(leader: int) -> list[int]:
    """Return the processes of a group, by the id of the one that leads it."""
    import psutil

    found = [leader]
    for pid in psutil.pids():
        with suppress(OSError):
            if pid != leader and os.getpgid(pid) == leader:
                found.append(pid)
    return found


_working: list[Callable[[], Iterable[int]]] = []


@contextmanager
def counting(processes: Callable[[], Iterable[int]]) -> Iterator[None]:
    """Count other processes, by their ids, within the block."""
    _working.append(processes)
    try:
        yield
    finally:
        _working.remove(processes)


def held() -> tuple[int, int]:
    """Return how many bytes this process and those that work for it hold, and how many they are."""
    others = {pid for processes in [*_working] for pid in processes()}
    return resident() + sum(map(_resident_apart, others)), 1 + len(others)


def free() -> int:
    """Return how many bytes this process may still take: what the machine has left, and on Linux the group of processes
    that it is in, and its own limits of addresses (ulimit -v) and of data (ulimit -d).
    """
    import psutil

    found = [int(psutil.virtual_memory().available)]
    if sys.platform == "linux":
        import resource

        with suppress(OSError, ValueError):
            most, now = ((_CGROUP / name).read_text() for name in ("memory.max", "memory.current"))
            found.append(max(0, int(most) - int(now)))
        used = _process(os.getpid()).memory_info()
        for which, taken in ((resource.RLIMIT_AS, used.vms), (resource.RLIMIT_DATA, used.data)):
            limit = resource.getrlimit(which)[0]
            if limit != resource.RLIM_INFINITY:
                found.append(max(0, limit - taken))
    return min(found)


def give_back() -> None:
    """Return memory that was freed to the machine, where the C library keeps it: it would count as resident."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_little() -> None:
    """Have the C library return large arrays to the system as soon as they are freed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)


class Allowance:
    """What a call may hold. limit: bytes of its processes, `None` for what they hold and nine tenths of what is free.

    reserve: bytes that are kept for the end. refused: whether the last bytes that were asked for did not fit.
    """

    def __init__(self, limit: int | None = None, reserve: int = 0) -> None:
        self._held, _ = held()
        self._given = limit is not None
        self.limit = self._held + int(_SHARE * free()) if limit is None else limit
        self._reserve, self._growth, self._look, self._spent = reserve, 0.0, 0.0, False
        self.refused = False

    @property
    def spent(self) -> bool:
        """Whether the limit is so near that work must end; once true, it stays so."""
        now = time.perf_counter()
        if self._spent or now < self._look:
            return self._spent
        before, (self._held, processes) = self._held, held()
        self._look = now + _PAUSE * processes
        self._growth = max(float(self._held - before), _FADING * self._growth)
        self._spent = self._held + max(self._kept, 2.0 * self._growth) > self.limit
        return self._spent

    @property
    def _kept(self) -> int:
        return max(self._reserve, int(_RESERVE * self.limit))

    @property
    def left(self) -> int:
        """How many bytes more fit before the limit is near."""
        return max(0, self.limit - held()[0] - self._kept)

    def grants(self, size: int) -> bool:
        """Ask for so many more bytes, and return whether they fit; `refused` keeps the answer."""
        self.refused = size > self.left
        return not self.refused

    def check(self, size: int, what: str) -> None:
        """Raise `DataError` where so many more bytes do not fit beside what is held."""
        if held()[0] + size > self.limit:
            from lpmert.errors import DataError  # which loads numpy; what a command of little work need not do

            raise DataError(self.shortage(f", and {what} takes {_shown(size)} more" if size else f" by {what}"))

    def shortage(self, more: str = "") -> str:
        """Return what there is too little of, and the remedy; more: what else is needed, or by what memory is used."""
        limit, used = _shown(self.limit), f"{_shown(held()[0])} are in use{more}"
        if not self._given:
            return (
                f"too little memory is free: {used}, which makes more than the {limit} that there are; end other "
                "programs, or give it fewer lists or features"
            )
        return f"the memory limit of {limit} is too low: {used}; allow more with --memory-limit (memory_limit)"

    @contextmanager
    def enforced(self) -> Iterator[Allowance]:
        """Let `room_for` be about this within the block."""
        token = _enforced.set(self)
        try:
            yield self
        finally:
            _enforced.reset(token)

    @contextmanager
    def enforced_if_any(self) -> Iterator[Allowance]:
        """The same where there is anything left now; without any memory, too, a small search has a result."""
        with nullcontext() if self.spent else self.enforced():
            yield self


_enforced: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


def room_for(size: int, what: str) -> None:
    """Raise `DataError` where so many more bytes do not fit beside what the process holds, for work without which
    there is no result.
    """
    allowance = _enforced.get()
    if allowance is not None:
        allowance.check(size, what)


def _shown(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"
