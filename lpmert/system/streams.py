"""Streams of bytes: pipes that can be read again, and compression by gzip and xz.

Compression is recognised by content on reading, and by the ending of the file on writing. The bytes of standard input
and of named pipes, such as <(command) in a shell, are kept in memory while a command runs: the format is detected from
the beginning of a file, and references are read more than once.
"""

from __future__ import annotations

import gzip
import io
import lzma
import math
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from lpmert.system import holding
from lpmert.system.deadline import checkpoint
from lpmert.system.memory import room_for

if TYPE_CHECKING:
    from lpmert.errors import DataError

COMPRESSED_ENDINGS = (".gz", ".xz")
DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
"""What decompression raises for bytes that are damaged or end early."""

_LEVEL = 6  # the default of the gzip program: 9 takes three times as long for a few percent

_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"


def decompressed(stream: BinaryIO) -> io.BufferedReader:
    """Return a stream of the decompressed bytes, whose reads may raise `DAMAGED` errors."""
    head = stream.read(len(_XZ_MAGIC))
    stream.seek(-len(head), os.SEEK_CUR)
    if head.startswith(_GZIP_MAGIC):
        plain: Any = gzip.GzipFile(fileobj=stream, mode="rb")
    elif head.startswith(_XZ_MAGIC):
        plain = lzma.LZMAFile(stream)  # noqa: SIM115
    elif isinstance(stream, io.BufferedReader):
        return stream
    else:
        plain = stream
    return io.BufferedReader(plain)


def compressor(raw: BinaryIO, target: Path) -> AbstractContextManager[Any]:
    """Return a stream that compresses into `raw`, by the ending of the target, and does not close it."""
    if target.suffix == ".gz":
        return gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=raw, mtime=0)
    if target.suffix == ".xz":
        return lzma.LZMAFile(raw, "wb")
    return nullcontext(raw)


def damaged(path: str | Path, why: object) -> DataError:
    from lpmert.errors import DataError  # imported here: it loads numpy, which short commands do without

    return DataError(f"the compressed file is damaged or ends early ({why}); make or copy it again", path=path)


STDIN = "-"

BLOCK_BYTES = 1 << 20

_pipes: ContextVar[dict[object, bytes] | None] = ContextVar("pipes", default=None)
"""The content of each pipe, by its device and node, and of `STDIN`."""


@contextmanager
def buffered_pipes() -> Iterator[None]:
    """Let every pipe be opened any number of times while the outermost such block runs."""
    before = _pipes.get()
    with holding(_pipes, {} if before is None else before):
        yield


def opened(path: str | Path) -> BinaryIO:
    """Open a file, or a pipe or standard input from its start, for reading its bytes; raises `OSError`."""
    key: object = STDIN
    if str(path) != STDIN:
        found = os.stat(path)
        if not stat.S_ISFIFO(found.st_mode):
            return open(path, "rb")
        key = found.st_dev, found.st_ino
    pipes = _pipes.get()
    if pipes is None or key not in pipes:
        with nullcontext(sys.stdin.buffer) if key == STDIN else open(path, "rb") as source:
            content = content_of(source)
        if pipes is None:
            return io.BytesIO(content)
        pipes[key] = content
    return io.BytesIO(pipes[key])


def content_of(source: BinaryIO, most: float = math.inf) -> bytes:
    """Return the bytes of a stream up to a block beyond `most`; limits of time and memory hold on the way."""
    content = io.BytesIO()
    while content.tell() <= most and (block := source.read(BLOCK_BYTES)):  # in blocks: its own size may be wrong
        checkpoint()
        room_for(len(block), "reading")
        content.write(block)
    return content.getvalue()
