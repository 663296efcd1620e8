"""Files that are written beside their target first: locked while in use, removed by the next one if left behind."""

from __future__ import annotations

import io
import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from typing import Any

from lpmert.errors import DataError, reason_of
from lpmert.system.interrupts import undone_by_abort

fcntl: Any = import_module("fcntl") if os.name == "posix" else None
"""Elsewhere nothing is locked, and what killed processes leave stays."""

_TOKEN_BYTES = 4
_TOKEN = rf"[0-9a-f]{{{2 * _TOKEN_BYTES}}}"
_FOLDER = rf"lpmert-{_TOKEN}\.tmp"


class Sink(io.FileIO):
    """A file opened for writing whose errors name the path that the caller gave; an abandoned one takes all and
    writes nothing.
    """

    def __init__(self, file: Path, mode: str, path: str | Path) -> None:
        self.abandoned = False
        self.path = path
        with writing_to(path):
            super().__init__(file, mode)

    def write(self, data: Any) -> int:
        """Write bytes; raises `DataError`."""
        size = memoryview(data).nbytes
        if size and not self.abandoned:
            rest = memoryview(data).cast("B")
            with writing_to(self.path):
                while rest:  # a disk that is nearly full takes a part, and says so at the next one only
                    rest = rest[super().write(rest) :]
        return size


@contextmanager
def writing_to(path: str | Path) -> Iterator[None]:
    """Turn an `OSError` of the block into a `DataError` that names the path."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot be written: {reason_of(error)}", path=path) from error


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder for temporary files that vanishes when the block ends, and if the process is aborted within it.

    Those of killed processes are removed. Raises `OSError` if it cannot be made.
    """
    parent = Path(tempfile.gettempdir())
    _remove_leftovers(parent, _FOLDER, folders=True)
    folder, lock = _locked_folder(parent)

    def remove() -> None:
        rmtree(folder, ignore_errors=True)

    try:
        with undone_by_abort(remove):
            yield folder
    finally:
        remove()
        if lock is not None:
            os.close(lock)


def _locked_folder(parent: Path) -> tuple[Path, int | None]:
    """Make a folder, and return it with the open file whose lock tells that its owner lives."""
    while True:
        folder = parent / f"lpmert-{secrets.token_hex(_TOKEN_BYTES)}.tmp"
        folder.mkdir(0o700)
        if fcntl is None:
            return folder, None
        with suppress(FileNotFoundError):  # taken for a leftover before it was locked
            lock = os.open(folder, os.O_RDONLY)
            if _lock(lock) and _is_at(lock, folder):
                return folder, lock
            os.close(lock)


@contextmanager
def scratch_file(target: Path, path: str | Path) -> Iterator[Sink]:
    """Open a new file beside the target that replaces it when the block ends, and vanishes if the block raises.

    path: the target as the caller named it. Raises `DataError` if it cannot be written.
    """
    _remove_leftovers(target.parent, rf"\.{re.escape(target.name)}\.{_TOKEN}\.tmp")
    scratch: Path | None = None

    def remove() -> None:
        if scratch is not None:
            scratch.unlink(missing_ok=True)

    with undone_by_abort(remove):
        while True:
            scratch = target.with_name(f".{target.name}.{secrets.token_hex(_TOKEN_BYTES)}.tmp")
            sink = Sink(scratch, "xb", path)
            if _lock(sink.fileno()) and _is_at(sink.fileno(), scratch):
                break
            sink.close()  # taken for a leftover before it was locked
        try:
            yield sink
            if fcntl is None:
                sink.close()  # Windows cannot rename an open file
            with writing_to(path):
                os.replace(scratch, target)  # while it is locked: nobody takes it for a leftover
        except BaseException:
            sink.close()
            remove()
            raise
        finally:
            sink.close()


@contextmanager
def owned(target: Path, path: str | Path, *, wait: bool = False) -> Iterator[None]:
    """Own a file while the block runs: whoever asks for it meanwhile waits, or is refused by `DataError`, in this
    process, too.

    A small file beside the target is locked, which the system undoes if the process is killed. path: the target as the
    caller named it. Where locks are unknown, nobody is refused.
    """
    beside = target.with_name(f".{target.name}.lock")
    while True:
        with writing_to(path):
            file = os.open(beside, os.O_RDWR | os.O_CREAT, 0o644)
        if not _lock(file, wait=wait) and fcntl is not None:
            owner = os.read(file, _TOKEN_BYTES * 8).decode(errors="replace").strip()
            os.close(file)
            raise DataError(f"is in use by another run (process {owner or 'unknown'}); give each its own", path=path)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), os.stat(beside)):
                break
        os.close(file)  # its owner has just removed it

    def remove() -> None:
        with suppress(OSError):
            os.unlink(beside)  # while it is locked

    try:
        with suppress(OSError):  # of a full disk; it is for messages
            os.truncate(file, 0)
            os.write(file, str(os.getpid()).encode())
        with undone_by_abort(remove):
            yield
    finally:
        remove()
        os.close(file)


def _lock(file: int, *, wait: bool = True) -> bool:
    """Lock an open file, and return whether it is ours; where locks are unknown, it counts as ours only to wait for."""
    if fcntl is None:
        return wait
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return wait
    return True


def _is_at(file: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(place))
    except FileNotFoundError:
        return False


def _remove_leftovers(parent: Path, form: str, *, folders: bool = False) -> None:
    """Remove files, or folders, with names of this form that no process holds: those of processes that were killed."""
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            kind = entry.is_dir if folders else entry.is_file
            if re.fullmatch(form, entry.name) and kind(follow_symlinks=False):
                with suppress(OSError):
                    left = os.open(entry.path, os.O_RDONLY)
                    try:
                        if _lock(left, wait=False):
                            (rmtree if folders else os.unlink)(entry.path)
                    finally:
                        os.close(left)
