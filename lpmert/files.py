"""Reading and writing files: transparent compression, limits on lines, and files that appear whole or not at all.

Compression is recognised by content on reading, and by the ending of the file on writing. The bytes of standard input
and of named pipes, such as <(command) in a shell, are kept in memory while a command runs: the format is detected from
the beginning of a file, and references are read more than once.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import json
import lzma
import math
import os
import secrets
import shlex
import shutil
import stat
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO, cast

from lpmert.errors import DataError, reason_of
from lpmert.limits import checkpoint, holding, room_for, undone_by_abort
from lpmert.quoting import quoted, repeated, shortened

fcntl: Any = import_module("fcntl") if os.name == "posix" else None  # without it, nothing is locked

STDIN = "-"
COMPRESSED_ENDINGS = (".gz", ".xz")
EMPTY = "empty file; write it again, or name another"
LONGEST_LINE, LONGEST_FILE = 64 << 20, 4 << 30
"""Most bytes of a line, and of a file that is not read line by line: a small compressed file can hold too many."""
BLOCK_BYTES = 1 << 20
BYTE_ORDER_MARK, _GZIP_MAGIC, _XZ_MAGIC = b"\xef\xbb\xbf", b"\x1f\x8b", b"\xfd7zXZ\x00"
_TAR_BLOCK, _TAR_MAGIC = 512, slice(257, 262)
_LEVEL = 6  # the default of the gzip program: 9 takes three times as long for a few percent
_CELLS = 16  # bytes of memory that the cells of a block of lines take temporarily, for each byte of the block
_SHOWN, _PEEKED = 100, 64  # bytes of a line that is too long, and of a file whose encoding is recognised
_FEWEST_LETTERS = 4  # letters needed to recognise an encoding without a byte order mark
_DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error)
"""What decompression raises for bytes that are damaged or end early."""

_ENCODINGS = {
    "UTF-32LE": (codecs.BOM_UTF32_LE, codecs.utf_32_le_decode),
    "UTF-32BE": (codecs.BOM_UTF32_BE, codecs.utf_32_be_decode),
    "UTF-16LE": (codecs.BOM_UTF16_LE, codecs.utf_16_le_decode),
    "UTF-16BE": (codecs.BOM_UTF16_BE, codecs.utf_16_be_decode),
}
"""Byte order marks and decoders of encodings that are not read."""

_to_write: ContextVar[tuple[str | Path, ...]] = ContextVar("to_write", default=())
_pipes: ContextVar[dict[object, bytes] | None] = ContextVar("pipes", default=None)
"""The content of each pipe, by its device and node, and of `STDIN`."""


def _decompressed(stream: BinaryIO) -> io.BufferedReader:
    """Return a stream of the decompressed bytes, whose reads may raise `_DAMAGED` errors."""
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


def _compressor(raw: BinaryIO, target: Path) -> AbstractContextManager[Any]:
    """Return a stream that compresses into `raw`, by the ending of the target, and does not close it."""
    if target.suffix == ".gz":
        return gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=raw, mtime=0)
    if target.suffix == ".xz":
        return lzma.LZMAFile(raw, "wb")
    return nullcontext(raw)


def _damaged(path: str | Path, why: object) -> DataError:
    return DataError(f"the compressed file is damaged or ends early ({why}); make or copy it again", path=path)


@contextmanager
def buffered_pipes() -> Iterator[None]:
    """Let every pipe be opened any number of times while the outermost such block runs."""
    before = _pipes.get()
    with holding(_pipes, {} if before is None else before):
        yield


def _opened(path: str | Path) -> BinaryIO:
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
            content = _content_of(source)
        if pipes is None:
            return io.BytesIO(content)
        pipes[key] = content
    return io.BytesIO(pipes[key])


def _content_of(source: BinaryIO, most: float = math.inf) -> bytes:
    """Return the bytes of a stream up to a block beyond `most`; limits of time and memory hold on the way."""
    content = io.BytesIO()
    while content.tell() <= most and (block := source.read(BLOCK_BYTES)):  # in blocks: its own size may be wrong
        checkpoint()
        room_for(len(block), "reading")
        content.write(block)
    return content.getvalue()


class Sink(io.FileIO):
    """A file opened for writing whose errors name the path that the caller gave; an abandoned one discards all data.

    Closing a new file waits until the data are on the disk.
    """

    def __init__(self, file: Path, mode: str, path: str | Path) -> None:
        self.path, self.abandoned, self._durable = path, False, mode == "xb"
        with writing_to(path):
            super().__init__(file, mode)

    def write(self, data: Any) -> int:
        rest = memoryview(data)
        size = rest.nbytes
        rest = rest.cast("B") if size else rest
        while rest and not self.abandoned:  # a nearly full disk takes a part, and fails only at the next write
            self.abandoned = True  # unless this succeeds
            with writing_to(self.path):
                rest = rest[super().write(rest) :]
            self.abandoned = False
        return size

    def close(self) -> None:
        try:
            if self._durable and not (self.closed or self.abandoned):
                with writing_to(self.path):
                    os.fsync(self.fileno())
        finally:
            super().close()


@contextmanager
def writing_to(path: str | Path) -> Iterator[None]:
    """Turn an `OSError` of the block into a `DataError` that names the path."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot be written: {reason_of(error)}", path=path) from error


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a temporary folder, removed when the block ends or the process is aborted within it; raises `OSError`."""
    temporary = tempfile.TemporaryDirectory(prefix="lpmert-", ignore_cleanup_errors=True)
    with temporary as folder, undone_by_abort(lambda: shutil.rmtree(folder, ignore_errors=True)):
        yield Path(folder)


@contextmanager
def scratch_file(target: Path, path: str | Path) -> Iterator[Sink]:
    """Open a new file beside the target, named `path` by the caller, that replaces it unless the block raises."""
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    with undone_by_abort(lambda: scratch.unlink(missing_ok=True)), Sink(scratch, "xb", path) as sink:
        try:
            yield sink
            sink.close()
            with writing_to(path):
                os.replace(scratch, target)
        except BaseException:
            sink.close()
            scratch.unlink(missing_ok=True)
            raise


@contextmanager
def owned(target: Path, path: str | Path, *, wait: bool = False) -> Iterator[None]:
    """Own a file while the block runs: other owners, also in this process, wait or get a `DataError`.

    A small file beside the target is locked; the system unlocks it if the process is killed. path: the target as the
    caller named it. On systems without locks, everybody is an owner.
    """
    beside = target.with_name(f".{target.name}.lock")
    while True:
        with writing_to(path):
            file = os.open(beside, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if not wait:
                owner = os.read(file, 32).decode(errors="replace").strip() or "unknown"
                os.close(file)
                raise DataError(f"is in use by another run (process {owner}); give each its own", path=path) from error
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), os.stat(beside)):
                break
        os.close(file)  # its owner has just removed it

    def remove() -> None:
        with suppress(OSError):
            os.unlink(beside)  # while it is locked

    try:
        with suppress(OSError):  # of a full disk; the process id only serves messages
            os.truncate(file, 0)
            os.write(file, str(os.getpid()).encode())
        with undone_by_abort(remove):
            yield
    finally:
        remove()
        os.close(file)


@contextmanager
def open_bytes(path: str | Path) -> Iterator[io.BufferedReader]:
    """Open a file, or standard input for `-`, for reading its bytes, decompressed if they are gzip or xz.

    Raises `DataError` if it cannot be opened, will be overwritten (see `writing_later`), or, while being read, if it is
    damaged, ends early, or is changed by another process.
    """
    if str(path) != STDIN:
        _check_not_written(path)
    try:
        raw = _opened(path)
    except (OSError, ValueError) as error:  # ValueError: a null character or half of a surrogate pair in the name
        why = reason_of(error) if isinstance(error, OSError) else error
        raise DataError(f"cannot be read: {why}", path=path) from error
    changed = DataError("was changed while it was read; read it again when nobody writes to it", path=path)
    with raw:
        before = _state(raw)
        try:
            stream = _decompressed(raw)
            check_encoding(stream.peek(_PEEKED)[:_PEEKED], path)
            yield stream
        except Exception as error:
            if _state(raw) != before:  # what was read may mix two states, or end in the middle of a number
                raise changed from error
            if isinstance(error, _DAMAGED):
                raise _damaged(path, error) from error
            if isinstance(error, OSError) and error.filename is None:
                raise DataError(f"cannot be read: {reason_of(error)}", path=path) from error
            raise
        if _state(raw) != before:
            raise changed


def _state(raw: BinaryIO) -> tuple[int, int] | None:
    """Return the length and the date of change of a regular file, `None` for anything else."""
    try:
        found = os.fstat(raw.fileno())
    except (OSError, ValueError):
        return None
    return (found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def check_encoding(beginning: bytes, path: str | Path) -> None:
    """Raise `DataError`, with a command, where a file begins like bzip2, zstandard, or text in UTF-16 or -32."""
    name = shlex.quote(shortened(str(path)))
    for kind, is_packed, command in (
        ("bzip2", beginning.startswith(b"BZh") and beginning[4:10] == b"1AY&SY", "bzcat"),
        ("zstandard", beginning.startswith(b"\x28\xb5\x2f\xfd"), "zstdcat"),
    ):
        if is_packed:
            raise DataError(f"is {kind}, which is not read; repack it: {command} {name} | gzip > {name}.gz", path=path)
    for encoding, (mark, decode) in _ENCODINGS.items():
        text, _ = decode(beginning[: len(beginning) // 4 * 4], "replace")
        latin = len(text) >= _FEWEST_LETTERS and all("\0" < letter <= "\xff" for letter in text)
        if latin or beginning.startswith(mark):
            command = f"iconv -f {encoding} -t UTF-8 {name} > utf8-file"
            raise DataError(f"is {encoding}, not UTF-8; convert it: {command}", path=path)


@contextmanager
def writing_later(*paths: str | Path | None) -> Iterator[None]:
    """Refuse to read, within the block, what writing to these paths will overwrite; refuse paths that are the same."""
    outputs = [path for path in paths if path is not None]
    places = [Path(path).resolve() for path in outputs]
    for number, place in enumerate(places):
        if place in places[:number] and (place.is_file() or not place.exists()):
            raise DataError("two outputs would go to this file; give another name to one of them", path=outputs[number])
    with holding(_to_write, (*_to_write.get(), *outputs)):
        yield


def _check_not_written(source: str | Path) -> None:
    for written in _to_write.get():
        with suppress(OSError, ValueError):  # a missing file cannot be overwritten
            same = Path(written).is_file() and Path(written).samefile(source)
            if same or (Path(written).is_dir() and Path(source).resolve().is_relative_to(Path(written).resolve())):
                raise DataError(
                    f"would overwrite {quoted(str(source))}, which is read; give another name to one of them",
                    path=written,
                )


def head_of(path: str | Path, most: int) -> bytes:
    """Return at most `most` first bytes of a file, decompressed; raises `DataError` as `open_bytes` does."""
    with open_bytes(path) as stream:
        return stream.read(most)


def lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield the number, from 1, and the text of each line of UTF-8, without line end (LF, CRLF) and byte order mark."""
    with open_bytes(path) as stream:
        for block in blocks_of_bytes(stream, path):
            yield from enumerate(lines_of(block, path), block.first)


class Bytes(NamedTuple):
    """Some consecutive lines of a file as bytes, and the number of the first line."""

    first: int
    data: bytes

    @property
    def n_lines(self) -> int:
        return self.data.count(b"\n") + (not self.data.endswith(b"\n"))


def blocks_of_bytes(stream: io.BufferedReader, path: str | Path) -> Iterator[Bytes]:
    """Yield all lines of a stream that `open_bytes` opened, in blocks; raises `DataError` for one that is too long."""
    most, first = LONGEST_LINE, 1
    while data := stream.read(min(BLOCK_BYTES, most)):
        checkpoint()
        if not data.endswith(b"\n"):
            data += stream.readline(most + 1)
        if len(data) > most:
            number, line = next(pair for pair in enumerate(io.BytesIO(data), first) if len(pair[1]) > most)
            beginning = quoted(line[:_SHOWN].decode(errors="replace"))
            trouble = f"a line of more than {most:,} bytes, {beginning}...; break it, or name another file"
            raise DataError(trouble, path=path, line=number)
        json = data.removeprefix(BYTE_ORDER_MARK).startswith((b"{", b"["))  # in which carriage returns are white space
        if first == 1 and data.count(b"\r") > 1 and b"\n" not in data and not json:
            raise DataError("lines end with carriage returns alone; make them line feeds: tr '\\r' '\\n'", path=path)
        room_for(_CELLS * len(data), "reading")
        block = Bytes(first, data)
        yield block
        first += block.n_lines


def lines_of(block: Bytes, path: str | Path) -> list[str]:
    """Return lines as text, as `lines` does; raises `DataError` for a byte that is not UTF-8."""
    text = decoded(block.data, path, block.first)
    texts = text.removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in texts] if "\r" in text else texts


def read_all(stream: BinaryIO, path: str | Path) -> bytes:
    """Return all bytes of a stream; raises `DataError` for more than `LONGEST_FILE`."""
    found = _content_of(stream, LONGEST_FILE)
    if len(found) > LONGEST_FILE:
        raise DataError(f"more than {LONGEST_FILE:,} bytes; give a format that is read line by line", path=path)
    return found


def read_text(path: str | Path) -> str:
    """Return a whole text file as one string; CRLF becomes LF. Raises `DataError` as `lines` does."""
    with open_bytes(path) as stream:
        return decoded(read_all(stream, path), path).replace("\r\n", "\n")


def decoded(data: bytes, path: str | Path, first_line: int = 1) -> str:
    """Return bytes of a file, from `first_line` on, as text without a byte order mark.

    Raises `DataError` with the line for a byte that is not UTF-8, and for a byte order mark at the beginning of a later
    line, where it would become part of an id.
    """
    data = data.removeprefix(BYTE_ORDER_MARK) if first_line == 1 else data
    inner = 0 if data.startswith(BYTE_ORDER_MARK) else data.find(b"\n" + BYTE_ORDER_MARK) + 1
    if inner or data.startswith(BYTE_ORDER_MARK):
        trouble = "a byte order mark (EF BB BF) inside the file, as where files are joined; delete it"
        raise DataError(trouble, path=path, line=first_line + data.count(b"\n", 0, inner))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + error.object.count(b"\n", 0, error.start)
        trouble = f"byte {error.object[error.start]:#04x} is not UTF-8; convert the file to UTF-8"
        raise DataError(trouble, path=path, line=line) from error


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object; raises `ValueError` if a key occurs twice."""
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError(f"the key {quoted(repeated(key for key, _ in pairs))} occurs twice")
    return record


def json_document(content: str | bytes, path: str | Path) -> Any:
    """Return the value of a JSON document; raises `DataError` if it is malformed, or a key occurs twice."""
    try:
        return json.loads(content, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON ({error})", path=path) from error


def is_archive(path: str | Path) -> bool:
    return str(path) != STDIN and head_of(path, _TAR_BLOCK)[_TAR_MAGIC].startswith(b"ustar")


def archive_members(path: str | Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file, perhaps compressed, of a tar archive; errors name archive and file."""
    with open_bytes(path) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for member in archive:
                    part = archive.extractfile(member) if member.isfile() else None
                    if part is not None:
                        name = f"{path}/{member.name}"
                        packed = io.BytesIO(read_all(cast("BinaryIO", part), name))
                        try:
                            data = read_all(_decompressed(packed), name)
                        except _DAMAGED as error:
                            raise _damaged(name, error) from error
                        yield member.name, decoded(data, name).replace("\r\n", "\n")
        except tarfile.TarError as error:
            raise DataError(f"the archive is damaged: {error}", path=path) from error


def write_text(path: str | Path, text: str) -> None:
    with atomic_writer(path) as stream:
        stream.write(text)


@contextmanager
def atomic_writer(path: str | Path) -> Iterator[TextIO]:
    """Open a UTF-8 text file that replaces `path` when the block ends, and vanishes if the block raises.

    It is compressed if the name ends in .gz or .xz; the same text always gives the same bytes. Pipes and other
    special files are written directly. Raises `DataError` if the file cannot be written, at once or later, or a text
    has half of a surrogate pair, which UTF-8 cannot hold.
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        with Sink(target, "wb", path) as sink, _text_writer(sink, target) as text:
            yield text
        return
    target = target.resolve()
    with scratch_file(target, path) as sink:
        if target.exists():
            with writing_to(path):
                shutil.copymode(target, str(sink.name))
        with _text_writer(sink, target) as text:
            yield text


def check_place(path: str | Path) -> None:
    """Raise `DataError` if the place cannot be written later; an existing file stays as it is."""
    target = Path(path).resolve()
    with writing_to(path):
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.is_file() or not target.exists():
            tempfile.TemporaryFile(dir=target.parent).close()


@contextmanager
def _text_writer(sink: Sink, target: Path) -> Iterator[TextIO]:
    """Open a text stream into a file, compressed by the target's ending, and close both when the block ends."""
    with (
        io.BufferedWriter(sink) as raw,
        _compressor(raw, target) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="\n") as text,
    ):
        try:
            yield text
        except BaseException as error:
            sink.abandoned = True
            if isinstance(error, UnicodeEncodeError):
                raise half_pair(error, sink.path) from error
            raise


def half_pair(error: UnicodeEncodeError, path: str | Path | None = None) -> DataError:
    """Return the error for a text with half of a surrogate pair, which JSON can hold but UTF-8 cannot."""
    around = error.object[max(0, error.start - 10) : error.end + 10]
    return DataError(f"{quoted(around)} holds half of a surrogate pair, no character; replace it", path=path)
