"""Who compiles which kernel: processes that share a folder of kernels take turns, so that none does another's work.

A claim is a lock on one byte of a file in that folder. It ends with its process, whatever becomes of that, and where
files cannot be locked everybody compiles for himself, which costs time alone.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_NAME = "claims"
_PAUSE = 0.02

_patience = [120.0]
"""Seconds for which nothing is written before a process is given up that has a kernel in hand."""

writing = threading.Lock()
"""Held while a file is written, for whoever ends this process from another thread."""

_held: set[Path] = set()


def can_share() -> bool:
    """Whether processes can know what others have in hand."""
    return fcntl is not None


def claim(file: Path) -> bool:
    """Take what is to be written to a file in hand; return False if another process has it."""
    if not can_share():
        return True
    taken = _locked(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if taken:
        _held.add(file)
    return taken


def release(*files: Path) -> None:
    """Give up claims, all of this process if none is named; those of others stay."""
    for file in files or tuple(_held):
        if file in _held:
            _held.discard(file)
            _locked(file, fcntl.LOCK_UN)


def wait_for(file: Path, meanwhile: Callable[[], object]) -> None:
    """Wait while another process has a file in hand and does not write it; then it is there, or claimed by this one.

    Where nothing at all is written for long, it is left unclaimed, and nobody is waited for again: the other process
    may hang. meanwhile: called every second.
    """
    count, until, next_call = -1, 0.0, 0.0
    while not file.exists() and not claim(file):
        now = time.monotonic()
        if now >= next_call:
            meanwhile()
            next_call = now + 1.0
            if len(os.listdir(file.parent)) != count:
                count, until = len(os.listdir(file.parent)), now + _patience[0]
            if now > until:
                _patience[0] = 0.0
                return
        time.sleep(_PAUSE)


def _locked(file: Path, how: int) -> bool:
    try:
        fcntl.lockf(_descriptor(file.parent), how, 1, _byte(file.name))
    except (BlockingIOError, PermissionError):  # either stands for a lock of another process
        return False
    except OSError:  # a file system without locks
        return True
    return True


@cache
def _descriptor(folder: Path) -> int:
    """Return the open file that is locked; it stays open, as closing it would end all claims."""
    return os.open(folder / _NAME, os.O_RDWR | os.O_CREAT, 0o600)


def _byte(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 2
