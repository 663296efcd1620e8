"""Arrays in temporary files instead of memory: their pages are loaded when read, and can be released."""

from __future__ import annotations

import errno
import mmap
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray

MANY = 1 << 20
"""Number of rows from which on arrays lie in a file; only hypotheses that may win then stay in memory."""

_PIECE = 1 << 19
"""Numbers in a piece, 4 MiB."""

_ROWS = 1 << 16
"""Rows in a block."""


class _Pages(mmap.mmap):
    """The pages of a private, unnamed file that no other process can change."""


class Growing:
    """A table of numbers that grows by rows; a large one is kept in an unnamed temporary file.

    The file lives as long as the array made of it. expected: the number of rows, if known.
    """

    def __init__(self, expected: int | None = None) -> None:
        self._in_memory = array("d")
        self._rows = self._spilled = 0
        self._file: Any = None
        if (expected or 0) >= MANY:
            self._spill()

    def __len__(self) -> int:
        return self._rows

    def add(self, numbers: Any, rows: int = 1) -> None:
        """Append the numbers of `rows` rows, an array or any iterable."""
        if isinstance(numbers, np.ndarray):
            self._in_memory.frombytes(np.ascontiguousarray(numbers, dtype=np.float64).data.cast("B"))
        else:
            self._in_memory.extend(numbers)
        self._rows += rows
        if (self._rows >= MANY or self._file) and len(self._in_memory) >= _PIECE:
            self._spill()

    def whole(self) -> FloatArray:
        """Return all numbers as a flat array, read-only if it is in a file; call it once, at the end."""
        if self._file is None:
            return np.frombuffer(self._in_memory) if self._in_memory else np.empty(0)
        self._spill()
        with _spooling(), self._file:
            self._file.flush()
            pages = _Pages(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(pages, dtype=np.float64, count=self._spilled)

    def rows(self) -> FloatArray:
        """Return the rows [M, ...]; call it once, at the end."""
        return self.whole().reshape(self._rows, -1)

    def _spill(self) -> None:
        """Move the numbers in memory to the file, without negative zeros."""
        with _spooling():
            self._file = self._file or tempfile.TemporaryFile(prefix="lpmert-")  # noqa: SIM115
            if self._in_memory:
                self._file.write((np.frombuffer(self._in_memory) + 0.0).data)
        self._spilled += len(self._in_memory)
        self._in_memory = array("d")


def taken(rows: FloatArray, chosen: IntArray) -> FloatArray:
    """Return a copy of the chosen rows [M, ...], in a file if there are many."""
    if len(chosen) < MANY:
        return rows[chosen]
    found = Growing(len(chosen))
    for begin in range(0, len(chosen), _ROWS):
        block = chosen[begin : begin + _ROWS]
        found.add(rows[block], len(block))
        released(rows)
    return found.rows()


@contextmanager
def _spooling() -> Iterator[None]:
    """Turn errors of the temporary file in the block into a `DataError` with the remedy."""
    try:
        yield
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) == errno.ENOMEM:
            trouble = (
                "for which the address space of this process is too small (ulimit -v); limit its memory instead, which "
                "they do not take: --memory-limit (memory_limit) or ulimit -d"
            )
        else:
            why = getattr(error, "strerror", None) or error
            trouble = f"and {tempfile.gettempdir()} cannot take it ({why}); name another folder in TMPDIR"
        raise DataError(f"many hypotheses are kept in a temporary file, {trouble}") from error


def is_mapped(rows: Any) -> bool:
    """Whether an array comes from a `Growing`."""
    return _pages(rows) is not None


def released(rows: Any) -> None:
    """Drop the pages of an array that comes from a `Growing` from memory; the next access loads them again."""
    pages = _pages(rows)
    if pages is not None and hasattr(pages, "madvise"):
        pages.madvise(mmap.MADV_DONTNEED)


def pieces(rows: Any) -> Iterator[Any]:
    """Return the numbers of an array in flat pieces; pages of a file are released after use."""
    return (piece for _, piece in blocks_of_rows(rows.reshape(-1), _PIECE))


def blocks_of_rows(rows: Any, size: int = _ROWS) -> Iterator[tuple[int, Any]]:
    """Yield blocks of rows [M, ...], each after the number of its first row; pages of a file are released after use."""
    for begin in range(0, len(rows), size):
        yield begin, rows[begin : begin + size]
        released(rows)


def _pages(rows: Any) -> Any:
    base = rows
    while base is not None and not isinstance(base, _Pages):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base
