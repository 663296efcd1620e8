"""Lines that are alike, with other numbers and words, which the core reads many at once.

A template says what such lines have in common and what stands between; whatever differs from it, and whatever is wrong,
is left to the reader of lines of the format.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from lpmert.core import read_alike
from lpmert.errors import FloatArray
from lpmert.system.files import BYTE_ORDER_MARK, Bytes


class Cell(IntEnum):
    """What stands between two literals; see `lpmert.core.read_alike`."""

    NUMBER = 0
    COUNT = 1
    WORD = 2
    TEXT = 3
    SKIPPED = 4


class Style(IntEnum):
    """How literals are compared."""

    EXACT = 0
    BLANK = 1
    JSON = 2


def first_of(block: Bytes) -> Bytes:
    """Return the first line of a block."""
    return Bytes(block.first, block.data[: block.data.find(b"\n") + 1] or block.data)


class Runs(NamedTuple):
    """Cells of a column of ids: those that are equal and follow one another, and how many they are."""

    ids: list[Any]
    sizes: list[int]


class Alike(NamedTuple):
    """The cells of lines: numbers [n, k], of words their places among the different ones; words and texts.

    keys [k]: what the caller calls the numbers and words.
    """

    numbers: FloatArray
    words: list[str]
    texts: list[str]
    keys: list[Any]

    def column(self, key: Any) -> FloatArray:
        """Return the numbers [n] with this key."""
        return self.numbers[:, self.keys.index(key)]

    def runs(self, key: Any, words: Sequence[Any]) -> Runs:
        """Return the runs of the words with this key; words: what they are taken for."""
        places = self.column(key).astype(np.int64)
        starts = np.concatenate([[0], np.flatnonzero(np.diff(places)) + 1])
        sizes = np.diff(np.append(starts, len(places))).tolist()
        return Runs([words[place] for place in places[starts].tolist()], sizes)


class Template:
    """What lines have in common, put together piece by piece."""

    def __init__(self, style: Style, refused: str = "") -> None:
        self._style, self._refused = style, refused
        self._literals, self._cells, self._keys = [""], list[int](), list[Any]()

    def add(self, literal: str, cell: Cell | None = None, key: Any = None) -> None:
        """Append a literal, and a cell after it that has this key."""
        self._literals[-1] += re.sub(r"[ \t]+", " ", literal) if self._style is Style.BLANK else literal
        if cell is not None:
            self._cells.append(cell)
            self._literals.append("")
        if cell in (Cell.NUMBER, Cell.COUNT, Cell.WORD):
            self._keys.append(key)

    def read(self, block: Bytes) -> Alike | None:
        """Return the cells of lines, `None` where one differs or has to be looked at."""
        data = block.data
        if BYTE_ORDER_MARK in data:
            return None
        if not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError:
                return None
        numbers = np.empty((block.n_lines, len(self._keys)))
        found = read_alike(data, self._literals, self._cells, self._style, self._refused, numbers)
        return None if found is None else Alike(numbers, *found, self._keys)
