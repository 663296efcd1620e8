"""What a row records of the machine: cores, the processor's name, load and peak memory; nothing else."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def load() -> float | None:
    """Return the load average over the last minute, `None` if the system has none."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def processor_seconds() -> float:
    """Return the processor time of this process, and of the processes that it started and that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


@cache
def revision() -> str:
    """Return the commit that is checked out, marked if the code differs from it; an empty string if unknown."""
    root = Path(__file__).resolve().parents[1]
    try:
        commit = _git(root, "rev-parse", "--short", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", "lpmert", "benchmarks", ":!benchmarks/results")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{commit}-dirty" if changed else commit


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


class PeakMemory:
    """The most memory that the process holds from now on, beyond what it holds now; known on Linux only.

    held: bytes that it holds now, `None` if unknown. Freed memory is first returned to the system where glibc can do
    that; otherwise it would be reused without being counted.
    """

    def __init__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        if "pyarrow" in sys.modules:  # which keeps a pool of its own
            sys.modules["pyarrow"].default_memory_pool().release_unused()
        try:
            _CLEAR.write_text(_RESET_PEAK, encoding="ascii")
        except OSError:
            self.held = None
        else:
            self.held = _field("VmRSS")

    def bytes(self) -> int | None:
        """Return the peak so far in bytes, `None` if unknown."""
        peak = _field("VmHWM")
        return None if self.held is None or peak is None else max(0, peak - self.held)


def limit_memory(most: int) -> None:
    """Let this process hold at most this many bytes, if the system can limit it."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _field(name: str) -> int | None:
    try:
        lines = _STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")]
    return found[0] if found else None
