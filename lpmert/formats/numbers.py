"""Numbers in text and JSON: plain, finite and within the limit of `NBest`, or a `DataError` that says what is wrong."""

from __future__ import annotations

import math
import reprlib
from pathlib import Path
from typing import Any

from lpmert.errors import DataError
from lpmert.model.given import EXACT_INTEGERS, MAGNITUDE_LIMIT, rounds

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
