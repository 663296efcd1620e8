"""Standard input, and pipes that have a name, as of <(command) in a shell or of mkfifo: read once, seen often.

What a file is, is told from its beginning, and references may be looked at more than once; what has come out of a pipe
does not come again.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

_STANDARD_INPUT = (-1, -1)
"""In the place of device and node."""


class _Buffered:
    """What has come out of a pipe so far, and the rest of it."""

    def __init__(self, rest: Any) -> None:
        self.data, self.rest = bytearray(), rest

    def part(self, start: int, most: int) -> bytes:
        """Return some bytes from a place on, and none only at the end."""
        if start == len(self.data):
            self.data += getattr(self.rest, "read1", self.rest.read)(most)
        return bytes(self.data[start : start + most])


class _FromStart(io.RawIOBase):
    """A pipe as a file that is read from its start."""

    def __init__(self, pipe: _Buffered) -> None:
        self._pipe, self._place = pipe, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._pipe.part(self._place, len(buffer))
        self._place += len(data)
        buffer[: len(data)] = data
        return len(data)


_buffers: ContextVar[dict[tuple[int, int], _Buffered] | None] = ContextVar("buffered_pipes", default=None)
_buffers_input: ContextVar[bool] = ContextVar("buffers_input", default=False)


@contextmanager
def buffered_pipes() -> Iterator[None]:
    """Let every pipe be opened by its name as often as wanted while the outermost such block runs."""
    if _buffers.get() is not None:
        yield
        return
    pipes: dict[tuple[int, int], _Buffered] = {}
    before = _buffers.set(pipes)
    try:
        yield
    finally:
        _buffers.reset(before)
        for key, pipe in pipes.items():
            if key != _STANDARD_INPUT:
                pipe.rest.close()


def opened(path: str | Path) -> BinaryIO:
    """Open a file, or a pipe from its start, for reading its bytes; raises `OSError`."""
    pipes = _buffers.get()
    if pipes is None or not stat.S_ISFIFO((found := os.stat(path)).st_mode):
        return open(path, "rb")
    key = found.st_dev, found.st_ino
    if key not in pipes:
        pipes[key] = _Buffered(open(path, "rb", buffering=0))  # noqa: SIM115
    return io.BufferedReader(_FromStart(pipes[key]))


@contextmanager
def buffered_input() -> Iterator[None]:
    """Let what is read in this block from standard input be there again later, where pipes are kept."""
    before = _buffers_input.set(True)
    try:
        yield
    finally:
        _buffers_input.reset(before)


def standard_input() -> BinaryIO:
    """Return standard input, from its start if it has been kept; tables, which may be large, are not."""
    pipes = _buffers.get()
    if pipes is None or not (_buffers_input.get() or _STANDARD_INPUT in pipes):
        return sys.stdin.buffer
    return io.BufferedReader(_FromStart(pipes.setdefault(_STANDARD_INPUT, _Buffered(sys.stdin.buffer))))
