"""How much memory a call holds, this process and those that work for it, and how much it may hold.

What counts is what is resident: on Linux /proc says so; elsewhere psutil, if it is installed; else, but not on Windows,
the most that was ever resident, which does not fall when memory is given back. Where nobody knows, there is no limit.
Of other processes that work for this one counts what they do not share, where that is known (Linux, psutil).
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from importlib import import_module
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


def resident() -> int | None:
    """Return how many bytes of this process are in memory, `None` where nobody knows."""
    if sys.platform == "linux":
        with suppress(OSError, ValueError, IndexError):
            return _pages("self")[1] * os.sysconf("SC_PAGE_SIZE")
    psutil = _psutil()
    if psutil is not None:
        return int(psutil.Process().memory_info().rss)
    if sys.platform == "win32":
        return None
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10


def _resident_apart(pid: int) -> int:
    """Return how many bytes of another process are in memory, without pages of files, which others may share; 0 where
    nobody knows, or it has ended.
    """
    if sys.platform == "linux":
        with suppress(OSError, ValueError, IndexError):
            _, in_memory, of_files, *_ = _pages(str(pid))
            return (in_memory - of_files) * os.sysconf("SC_PAGE_SIZE")
    psutil = _psutil()
    if psutil is not None:
        with suppress(psutil.Error):
            return int(psutil.Process(pid).memory_info().rss)
    return 0


def _pages(process: str) -> list[int]:
    with open(f"/proc/{process}/statm", "rb", buffering=0) as file:
        return [int(number) for number in file.read().split()]


def group_of(leader: int) -> list[int]:
    """Return the processes of a group, by the id of the one that leads it: on Linux all, elsewhere that one, and with
    psutil those that it has started.
    """
    found = [leader]
    if sys.platform == "linux":
        with suppress(OSError):
            for place in Path("/proc").glob("[0-9]*"):
                with suppress(OSError, ValueError, IndexError):
                    # the name, in brackets, may hold anything
                    _, _, group = (place / "stat").read_text().rpartition(")")[2].split()[:3]
                    if int(group) == leader:
                        found.append(int(place.name))
    elif (psutil := _psutil()) is not None:
        with suppress(psutil.Error):
            found += [child.pid for child in psutil.Process(leader).children(recursive=True)]
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


def held() -> tuple[int | None, int]:
    """Return how many bytes this process and those that work for it hold, `None` where nobody knows, and how many they
    are.
    """
    own = resident()
    others = {pid for processes in [*_working] for pid in processes()}
    return None if own is None else own + sum(map(_resident_apart, others)), 1 + len(others)


def free() -> int | None:
    """Return how many bytes this process may still take: what the machine and the group of processes that it is in have
    left, and its own limits (ulimit); `None`: unknown.
    """
    found: list[int] = []
    if sys.platform == "linux":
        found += _left_by_limits()
        with suppress(OSError, ValueError, StopIteration):
            lines = Path("/proc/meminfo").read_text().splitlines()
            found.append(int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) << 10)
        with suppress(OSError, ValueError):
            most, now = ((_CGROUP / name).read_text() for name in ("memory.max", "memory.current"))
            found.append(max(0, int(most) - int(now)))
    elif (psutil := _psutil()) is not None:
        found.append(int(psutil.virtual_memory().available))
    return min(found, default=None)


def _left_by_limits() -> list[int]:
    """Return what the limits of this process leave it on Linux: of addresses (ulimit -v), and of data (ulimit -d)."""
    import resource

    with suppress(OSError, ValueError, IndexError):
        pages, size = _pages("self"), os.sysconf("SC_PAGE_SIZE")
        used = {resource.RLIMIT_AS: pages[0], resource.RLIMIT_DATA: pages[5]}
        limits = {which: resource.getrlimit(which)[0] for which in used}
        return [max(0, limits[which] - used[which] * size) for which in used if limits[which] != resource.RLIM_INFINITY]
    return []


def give_back() -> None:
    """Return memory that was freed to the machine, where the C library keeps it: it would count as resident."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_little() -> None:
    """Have the C library return large arrays to the system as soon as they are freed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)


def _psutil() -> Any:
    try:
        return import_module("psutil")
    except ImportError:
        return None


class Allowance:
    """What a call may hold. limit: bytes of its processes, `None` for what they hold and nine tenths of what is free.

    reserve: bytes that are kept for the end.
    """

    def __init__(self, limit: int | None = None, reserve: int = 0) -> None:
        self._held, _ = held()
        self._given = limit is not None
        if limit is None and self._held is not None and (left := free()) is not None:
            limit = self._held + int(_SHARE * left)
        self.limit = limit
        self._reserve, self._growth, self._look, self._spent = reserve, 0.0, 0.0, False

    @property
    def spent(self) -> bool:
        """Whether the limit is so near that work must end; once true, it stays so."""
        now = time.perf_counter()
        if self.limit is None or self._spent or now < self._look:
            return self._spent
        now_held, processes = held()
        self._look = now + _PAUSE * processes
        if now_held is not None:
            before = now_held if self._held is None else self._held
            self._growth = max(float(now_held - before), _FADING * self._growth)
            self._held = now_held
            self._spent = now_held + max(self._reserve_of(self.limit), 2.0 * self._growth) > self.limit
        return self._spent

    def _reserve_of(self, limit: int) -> int:
        return max(self._reserve, int(_RESERVE * limit))

    @property
    def left(self) -> int | None:
        """How many bytes more fit before the limit is near; `None` where nobody knows, or there is no limit."""
        now_held, _ = held()
        if self.limit is None or now_held is None:
            return None
        return max(0, self.limit - now_held - self._reserve_of(self.limit))

    def check(self, size: int, what: str) -> None:
        """Raise `DataError` where so many more bytes do not fit beside what is held."""
        used = held()[0] or 0
        if self.limit is not None and used + size > self.limit:
            from lpmert.errors import DataError  # which loads numpy; what a command of little work need not do

            raise DataError(self.shortage(f", and {what} takes {_shown(size)} more" if size else f" by {what}"))

    def shortage(self, more: str = "") -> str:
        """Return what there is too little of, and the remedy; more: what else is needed, or by what memory is used."""
        limit, used = _shown(self.limit or 0), f"{_shown(held()[0] or 0)} are in use{more}"
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
