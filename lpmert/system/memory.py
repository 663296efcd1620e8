"""The memory that this process holds, and its limit; only resident memory counts."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from lpmert.system import holding

_SHARE = 0.9  # share of the free memory that a call may take if it has no limit
_RESERVE = 1 / 32  # share of the limit reserved for the work between two measurements, and for the report
_PAUSE = 0.005  # seconds between two measurements
_FADING = 0.9  # factor by which the recorded growth fades from one measurement to the next

_CGROUP = Path("/sys/fs/cgroup")


@cache
def _process(pid: int) -> Any:
    import psutil  # imported here: commands that measure no memory do without

    return psutil.Process(pid)


def resident() -> int:
    return int(_process(os.getpid()).memory_info().rss)


def free() -> int:
    """Return how many more bytes this process may take: the free memory of the machine or, on Linux, what is left of
    the limits of its cgroup, its address space (ulimit -v) or its data (ulimit -d), whichever is least.
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
    """Return freed memory that the C library keeps to the system; it would count as resident."""
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
        from lpmert.errors import DataError  # imported here: it loads numpy, which short commands do without

        raise DataError(allowance.shortage(f", and {what} takes {_shown(size)} more" if size else f" by {what}"))


def _shown(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"
