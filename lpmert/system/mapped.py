"""Arrays that lie in a file and not in memory: pages come when they are read, and go when they are released."""

from __future__ import annotations

import errno
import mmap
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from lpmert.errors import DataError, FloatArray

MANY = 1 << 20
"""Rows from which on arrays are kept in a file, and only hypotheses that may win are kept in memory."""

_PIECE = 1 << 19
"""Numbers of a piece: 4 MiB."""

_ROWS = 1 << 16
"""Rows of a block."""


class _Pages(mmap.mmap):
    """The pages of a file of ours: nobody else knows it, so that nobody changes it."""


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


def is_mapped(array: Any) -> bool:
    """Whether an array comes from a `Spool`."""
    return _pages(array) is not None


def released(array: Any) -> None:
    """Let the pages of an array go if it comes from a `Spool`; they are read again when they are needed."""
    pages = _pages(array)
    if pages is not None and hasattr(pages, "madvise"):
        pages.madvise(mmap.MADV_DONTNEED)


def pieces(array: Any) -> Iterator[Any]:
    """Yield the numbers of an array of rows one piece after the other; those of a file are released."""
    flat = array.reshape(-1)
    for begin in range(0, len(flat), _PIECE):
        yield flat[begin : begin + _PIECE]
        released(array)


def blocks_of_rows(rows: Any) -> Iterator[tuple[int, Any]]:
    """Yield the number of the first row of each block and the block, of rows [M, ...]; those of a file are released."""
    for begin in range(0, len(rows), _ROWS):
        yield begin, rows[begin : begin + _ROWS]
        released(rows)


def _pages(array: Any) -> Any:
    base = array
    while base is not None and not isinstance(base, _Pages):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base
