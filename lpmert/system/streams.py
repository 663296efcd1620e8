"""Streams of bytes: pipes, read once and seen often, and what gzip, xz or zstandard packed.

Packing is told by content on reading, by the ending on writing. Standard input and pipes that have a name, as of
<(command) in a shell or of mkfifo, are kept: what a file is, is told from its beginning, and references may be looked
at more than once, but what has come out of a pipe does not come again.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from lpmert.errors import DataError

COMPRESSED_ENDINGS = (".gz", ".xz", ".zst")
DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
"""What unpacking raises for bytes that are damaged, or end early."""

_LEVEL = 6
"""Of gzip, as the program has it: 9 takes three times as long for a few percent."""

_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class _Ahead(io.RawIOBase):
    """A stream that cannot go back, such as a pipe, with the bytes that were read from it to look at them."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._head[: len(buffer)] or self._rest.read(len(buffer))
        self._head = self._head[len(data) :]
        buffer[: len(data)] = data
        return len(data)


def decompressed(stream: BinaryIO, path: str | Path) -> io.BufferedReader:
    """Return what a stream holds, which reading may find `DAMAGED`; path is its name in errors."""
    head = stream.read(max(len(_GZIP_MAGIC), len(_XZ_MAGIC), len(_ZSTD_MAGIC)))
    if stream.seekable():
        stream.seek(-len(head), os.SEEK_CUR)
    else:
        stream = io.BufferedReader(_Ahead(head, stream))
    if head.startswith(_GZIP_MAGIC):
        plain: Any = gzip.GzipFile(fileobj=stream, mode="rb")
    elif head.startswith(_XZ_MAGIC):
        plain = lzma.LZMAFile(stream)  # noqa: SIM115
    elif head.startswith(_ZSTD_MAGIC):
        plain = _Zstandard(stream, path)
    elif isinstance(stream, io.BufferedReader):
        return stream  # a second reader around standard input would close it
    else:
        plain = stream
    return io.BufferedReader(plain)


class _Zstandard(io.RawIOBase):
    """What the frames of a stream hold; zstandard's own reader takes a truncated frame for the end of the file."""

    _STEP = 1 << 10  # a block of 128 KiB may take 4 bytes

    def __init__(self, stream: BinaryIO, path: str | Path) -> None:
        self._stream, self._path = stream, path
        self._module = _zstandard(path)
        self._frame: Any = None
        self._packed, self._plain = b"", memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._plain:
            self._packed = self._packed or self._stream.read(self._STEP)
            if not self._packed:
                if self._frame is not None:
                    raise damaged(self._path, "the last frame is incomplete")
                return 0
            self._advance()
        part, self._plain = self._plain[: len(buffer)], self._plain[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def _advance(self) -> None:
        self._frame = self._frame or self._module.ZstdDecompressor().decompressobj()
        try:
            self._plain = memoryview(self._frame.decompress(self._packed))
        except self._module.ZstdError as error:
            raise damaged(self._path, error) from error
        self._packed = b""
        if self._frame.eof:
            self._packed, self._frame = self._frame.unused_data, None


def compressor(raw: BinaryIO, target: Path) -> AbstractContextManager[Any]:
    """Return a stream that packs into `raw` as the ending of the target says, and does not close it."""
    if target.suffix == ".gz":
        return gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=raw, mtime=0)
    if target.suffix == ".xz":
        return lzma.LZMAFile(raw, "wb")
    if target.suffix == ".zst":
        writer: AbstractContextManager[Any] = _zstandard(target).ZstdCompressor().stream_writer(raw, closefd=False)
        return writer
    return nullcontext(raw)


def _zstandard(path: str | Path) -> Any:
    try:
        import zstandard
    except ImportError as error:
        from lpmert.errors import DataError

        raise DataError("zstandard is not installed; install lpmert[zst]", path=path) from error
    return zstandard


def damaged(path: str | Path, why: object) -> DataError:
    """Return the error for what cannot be unpacked."""
    from lpmert.errors import DataError  # which imports numpy, and commands start without

    return DataError(f"the compressed file is damaged or ends early ({why}); make or copy it again", path=path)


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
