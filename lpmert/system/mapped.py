"""Arrays that lie in a file and not in memory: pages come when they are read, and go when they are released."""

from __future__ import annotations

import errno
import mmap
import tempfile
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray

MANY = 1 << 20
"""Rows from which on arrays are kept in a file, and only hypotheses that may win are kept in memory."""

_PIECE = 1 << 19
"""Numbers of a piece: 4 MiB."""

_ROWS = 1 << 16
"""Rows of a block."""


class _Pages(mmap.mmap):
    """The pages of a private, unnamed file, which no other process can change."""


class Spool:
    """Numbers on their way to a file without a name, in the folder for temporary files; it goes when the array goes."""

    def __init__(self) -> None:
        self._size = 0
        try:
            self._file = tempfile.TemporaryFile(prefix="lpmert-")  # noqa: SIM115
        except OSError as error:
            raise _trouble(error) from error

    def add(self, numbers: Any) -> None:
        """Append numbers, as float64 without negative zeros."""
        plain = np.ascontiguousarray(numbers, dtype=np.float64) + 0.0
        try:
            self._file.write(plain.data)
        except OSError as error:
            raise _trouble(error) from error
        self._size += plain.size

    def array(self, width: int) -> FloatArray:
        """Return all as rows [M, width], read-only."""
        try:
            self._file.flush()
            with self._file:
                pages = _Pages(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise _trouble(error) from error
        return np.frombuffer(pages, dtype=np.float64, count=self._size).reshape(-1, width)


class Growing:
    """Rows of numbers that come one by one, or some at a time; many of them go to a file.

    expected: their number, if known.
    """

    def __init__(self, expected: int | None = None) -> None:
        self._held = array("d")
        self._rows = 0
        self._spool = Spool() if (expected or 0) >= MANY else None

    def __len__(self) -> int:
        return self._rows

    def add(self, numbers: Any, rows: int = 1) -> None:
        """Append the numbers of so many rows: an array, or anything to iterate over."""
        if isinstance(numbers, np.ndarray):
            self._held.frombytes(np.ascontiguousarray(numbers, dtype=np.float64).data.cast("B"))
        else:
            self._held.extend(numbers)
        self._rows += rows
        if (self._rows >= MANY or self._spool) and len(self._held) >= _PIECE:
            self._spool = self._spool or Spool()
            self._spill(self._spool)

    def whole(self) -> FloatArray:
        """Return all numbers one after the other; there are no more to come."""
        if self._spool is None:
            return np.frombuffer(self._held) if self._held else np.empty(0)
        self._spill(self._spool)
        return self._spool.array(1).reshape(-1)

    def rows(self) -> FloatArray:
        """Return the rows [M, ...]; there are no more to come."""
        return self.whole().reshape(self._rows, -1)

    def _spill(self, spool: Spool) -> None:
        if self._held:
            spool.add(np.frombuffer(self._held))
        self._held = array("d")


def taken(rows: FloatArray, chosen: IntArray) -> FloatArray:
    """Return a copy of chosen rows [M, ...]; many of them lie in a file, as do those that are read."""
    if len(chosen) < MANY:
        return rows[chosen]
    spool = Spool()
    for begin in range(0, len(chosen), _ROWS):
        spool.add(rows[chosen[begin : begin + _ROWS]])
        released(rows)
    return spool.array(rows.shape[1])


def _trouble(error: Exception) -> DataError:
    if getattr(error, "errno", None) == errno.ENOMEM:
        return DataError(
            "many hypotheses are kept in a temporary file, for which this process has too few addresses (ulimit -v); "
            "they take no memory: limit that instead, with --memory-limit (memory_limit) or ulimit -d"
        )
    return DataError(
        f"many hypotheses are kept in a temporary file, and {tempfile.gettempdir()} cannot take it "
        f"({getattr(error, 'strerror', None) or error}); name another folder in TMPDIR"
    )


def is_mapped(rows: Any) -> bool:
    """Whether an array comes from a `Spool`."""
    return _pages(rows) is not None


def released(rows: Any) -> None:
    """Let the pages of an array go if it comes from a `Spool`; they are read again when they are needed."""
    pages = _pages(rows)
    if pages is not None and hasattr(pages, "madvise"):
        pages.madvise(mmap.MADV_DONTNEED)


def pieces(rows: Any) -> Iterator[Any]:
    """Yield the numbers of an array of rows one piece after the other; those of a file are released."""
    flat = rows.reshape(-1)
    for begin in range(0, len(flat), _PIECE):
        yield flat[begin : begin + _PIECE]
        released(rows)


def blocks_of_rows(rows: Any) -> Iterator[tuple[int, Any]]:
    """Yield the number of the first row of each block and the block, of rows [M, ...]; those of a file are released."""
    for begin in range(0, len(rows), _ROWS):
        yield begin, rows[begin : begin + _ROWS]
        released(rows)


def _pages(rows: Any) -> Any:
    base = rows
    while base is not None and not isinstance(base, _Pages):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base
