"""Streams of bytes: pipes that can be read again, and compression by gzip, xz and zstandard.

Compression is recognised by content on reading, and by the ending of the file on writing. The bytes of standard input
and of named pipes, such as <(command) in a shell, are kept in a temporary file while a command runs: the format is
detected from the beginning of a file, and references are read more than once.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import stat
import sys
import tempfile
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
"""What decompression raises for bytes that are damaged or end early."""

_LEVEL = 6
"""The default of the gzip program: 9 takes three times as long for a few percent."""

_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def decompressed(stream: BinaryIO, path: str | Path) -> io.BufferedReader:
    """Return a stream of the decompressed bytes, whose reads may raise `DAMAGED` errors; path: its name in errors."""
    head = stream.read(max(len(_GZIP_MAGIC), len(_XZ_MAGIC), len(_ZSTD_MAGIC)))
    stream.seek(-len(head), os.SEEK_CUR)
    if head.startswith(_GZIP_MAGIC):
        plain: Any = gzip.GzipFile(fileobj=stream, mode="rb")
    elif head.startswith(_XZ_MAGIC):
        plain = lzma.LZMAFile(stream)  # noqa: SIM115
    elif head.startswith(_ZSTD_MAGIC):
        plain = _Zstandard(stream, path)
    elif isinstance(stream, io.BufferedReader):
        return stream
    else:
        plain = stream
    return io.BufferedReader(plain)


class _Zstandard(io.RawIOBase):
    """The decompressed frames of a stream; zstandard's own reader takes a truncated frame for the end of the file."""

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
    """Return a stream that compresses into `raw`, by the ending of the target, and does not close it."""
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
    """Return the error for bytes that cannot be decompressed."""
    from lpmert.errors import DataError  # imported here: it loads numpy, which short commands do without

    return DataError(f"the compressed file is damaged or ends early ({why}); make or copy it again", path=path)


STDIN = "-"

_IN_MEMORY = 16 << 20
"""Bytes of a pipe that are kept in memory; longer ones go to a file."""

_Key = tuple[int, int] | str
"""Device and node of a pipe, or `STDIN`."""


class _Pipe:
    """A pipe, with a copy of all bytes read from it so far."""

    def __init__(self, source: Any) -> None:
        self.source, self.size = source, 0
        self._copy = tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="lpmert-")  # noqa: SIM115

    def read_at(self, start: int, most: int) -> bytes:
        """Return at most `most` bytes from this offset on; none only at the end."""
        if start < self.size:
            self._copy.seek(start)
            return self._copy.read(most)
        data: bytes = getattr(self.source, "read1", self.source.read)(most)
        self._copy.seek(self.size)
        self._copy.write(data)
        self.size += len(data)
        return data

    def close(self) -> None:
        """Delete the copy, and close the pipe unless it is standard input."""
        self._copy.close()
        if self.source is not sys.stdin.buffer:
            self.source.close()


class _FromStart(io.RawIOBase):
    """A pipe as a file that is read from its start; shared: closing it leaves the pipe open."""

    def __init__(self, pipe: _Pipe, *, shared: bool) -> None:
        self._pipe, self._place, self._shared = pipe, 0, shared

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move within the bytes read so far; the end of a pipe is unknown."""
        if whence == os.SEEK_END:
            raise io.UnsupportedOperation("the end of a pipe")
        self._place = offset + (self._place if whence == os.SEEK_CUR else 0)
        return self._place

    def close(self) -> None:
        if not (self._shared or self.closed):
            self._pipe.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        data = self._pipe.read_at(self._place, len(buffer))
        self._place += len(data)
        buffer[: len(data)] = data
        return len(data)


_pipes: ContextVar[dict[_Key, _Pipe] | None] = ContextVar("pipes", default=None)


@contextmanager
def buffered_pipes() -> Iterator[None]:
    """Let every pipe be opened any number of times while the outermost such block runs."""
    if _pipes.get() is not None:
        yield
        return
    pipes: dict[_Key, _Pipe] = {}
    before = _pipes.set(pipes)
    try:
        yield
    finally:
        _pipes.reset(before)
        for pipe in pipes.values():
            pipe.close()


def opened(path: str | Path) -> BinaryIO:
    """Open a file, or a pipe or standard input from its start, for reading its bytes; raises `OSError`."""
    key: _Key = STDIN
    if str(path) != STDIN:
        found = os.stat(path)
        if not stat.S_ISFIFO(found.st_mode):
            return open(path, "rb")
        key = found.st_dev, found.st_ino
    shared = _pipes.get()
    pipes = {} if shared is None else shared
    if key not in pipes:
        pipes[key] = _Pipe(sys.stdin.buffer if key == STDIN else open(path, "rb", buffering=0))  # noqa: SIM115
    return io.BufferedReader(_FromStart(pipes[key], shared=shared is not None))
