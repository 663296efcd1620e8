"""Names and numbers in text and JSON: each name once, plain finite numbers, rows of named numbers as one matrix."""

from __future__ import annotations

import math
import reprlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lpmert.errors import DataError, FloatArray
from lpmert.model.arrays import EXACT_INTEGERS, MAGNITUDE_LIMIT, rounds
from lpmert.quoting import quoted
from lpmert.system.mapped import Growing

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name that an earlier one equals, if any."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object; raises `ValueError` if a key occurs twice."""
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError(f"the key {quoted(repeated(key for key, _ in pairs))} occurs twice")
    return record


ROUNDED = "an integer beyond 2**53 that float64 would round; rescale it, or subtract what all have in common"


def number_of_text(cell: str, what: str, path: str | Path, line: int) -> float:
    """Return the number that a word of a text file spells; `what` names it in the `DataError` if it spells none."""
    # float() takes underscores and the digits of other scripts for numbers
    if cell.isascii() and "_" not in cell:
        try:
            return _within_limit(float(cell), cell, what, path, line)
        except ValueError:
            pass
    raise DataError(f"{what} is {reprlib.repr(cell)}, not a number", path=path, line=line)


def number_of_json(value: Any, what: str, path: str | Path, line: int) -> float:
    """Return the number that a value of a JSON document is; truth values and strings are none."""
    if type(value) not in (int, float):
        raise DataError(f"{what} is {reprlib.repr(value)}, not a number", path=path, line=line)
    try:
        return _within_limit(float(value), value, what, path, line)
    except OverflowError:
        return _within_limit(math.inf, value, what, path, line)


def count_of_text(cell: str, what: str, path: str | Path, line: int) -> int:
    """Return the count, 0 or more, that a word of a text file spells in decimal digits."""
    if not (cell.isascii() and cell.isdigit() and len(cell) <= 18):
        raise DataError(f"{what} is {reprlib.repr(cell)}, not a count", path=path, line=line)
    return int(cell)


def _within_limit(number: float, cell: Any, what: str, path: str | Path, line: int) -> float:
    if not math.isfinite(number):
        trouble = "not a finite number in double precision; correct it, or leave out what it belongs to"
    elif abs(number) > MAGNITUDE_LIMIT:
        trouble = f"beyond {MAGNITUDE_LIMIT:g}; rescale it"
    elif abs(number) >= EXACT_INTEGERS and rounds(cell):
        trouble = ROUNDED
    else:
        return number
    raise DataError(f"{what} is {reprlib.repr(cell)}, {trouble}", path=path, line=line)


WHITE = " \t\n\r\v\f"
"""ASCII white space: `str.strip` and `str.split` would take no-break and ideographic spaces, too."""


class NamedRows:
    """Rows of numbers by name, each with names of its own, gathered into one matrix."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        self._rows = 0
        self._starts = array("q", [0])
        self._indices = array("q")
        self._values = Growing()
        self._names: tuple[str, ...] = ()
        self._places: list[int] = []
        self._alike = True  # all rows have the same names in the same order: neither starts nor indices are needed

    def add(self, names: tuple[str, ...], values: Sequence[float]) -> None:
        """Append a row that has these values under these names, each of which occurs once."""
        if names is not self._names:  # rows mostly share one tuple
            if self._rows and self._alike and names != self._names:
                self._alike = False
                width = len(self._names)
                self._starts.extend(range(width, width * self._rows + 1, width) if width else [0] * self._rows)
                self._indices.extend(self._places * self._rows)
            self._names = names
            self._places = [self._columns.setdefault(name, len(self._columns)) for name in names]
        self._rows += 1
        self._values.add(values)
        if not self._alike:
            self._indices.extend(self._places)
            self._starts.append(len(self._indices))

    def matrix(self) -> tuple[tuple[str, ...], FloatArray | csr_array]:
        """Return the names [D] in the order in which they first came, and the rows [M, D]; there are no more to come.

        The rows are dense where every one has all names; else they are sparse, and a missing name stands for 0.
        """
        shape = self._rows, len(self._columns)
        values = self._values.whole()
        if self._alike:
            return tuple(self._columns), values.reshape(shape)
        starts, indices = np.frombuffer(self._starts, dtype=np.int64), np.frombuffer(self._indices, dtype=np.int64)
        if len(values) == shape[0] * shape[1]:
            rows = np.empty(shape)
            rows[np.repeat(np.arange(shape[0]), np.diff(starts)), indices] = values
            return tuple(self._columns), rows
        from scipy.sparse import csr_array

        return tuple(self._columns), csr_array((values, indices, starts), shape=shape)


def rows_by_column(features: FloatArray | csr_array) -> Iterator[dict[int, float]]:
    """Yield the numbers of each row [M, D] by column; of sparse rows those that are not 0."""
    if isinstance(features, np.ndarray):
        for row in features:
            yield dict(enumerate(row.tolist()))
        return
    for start, end in pairwise(features.indptr.tolist()):
        yield dict(zip(features.indices[start:end].tolist(), features.data[start:end].tolist(), strict=True))


def numbers_of_words(words: Sequence[str], what: str, path: str | Path, line: int) -> list[float]:
    """Return the numbers that words of one line spell; `what` names them in the `DataError` if one spells none."""
    joined = "".join(words)
    if joined.isascii() and "_" not in joined:
        try:
            numbers = list(map(float, words))
        except ValueError:
            numbers = [np.nan]
        if sum(map(abs, numbers)) < EXACT_INTEGERS:  # false where one is not a number
            return numbers
    return [number_of_text(word, what, path, line) for word in words]


def number_text(number: float) -> str:
    """Return the shortest text that reads back as exactly this number."""
    return repr(number).removesuffix(".0")
