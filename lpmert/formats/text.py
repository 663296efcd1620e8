"""Words, names and numbers in text and JSON, and the place in a file that every error names."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lpmert.errors import DataError
from lpmert.model.arrays import MAGNITUDE_LIMIT, rounds
from lpmert.numeric.rational import EXACT_INTEGERS
from lpmert.quoting import quoted, repeated
from lpmert.system.files import lines
from lpmert.system.streams import COMPRESSED_ENDINGS

_COMMA = re.compile(r"[-+]?[0-9]+,[0-9]+")
WHITE = " \t\n\r\v\f"
"""ASCII white space: `str.strip` and `str.split` would take no-break and ideographic spaces, too."""

WORD = re.compile(f"[^{WHITE}]+")
_LONGEST_COUNT = 18


class Place(NamedTuple):
    """A file, and a line of it where one is to blame; reads numbers, and says where one is wrong."""

    path: str | Path | None
    line: int | None = None

    def error(self, message: str, kind: type[DataError] = DataError) -> DataError:
        return kind(message, path=self.path, line=self.line)

    def number(self, cell: Any, what: str, *, textual: bool = True) -> float:
        """Return the number that a word of a text spells, or a value of JSON is; `what` names it in the `DataError`."""
        trouble = trouble_of_number(cell, textual=textual)
        if trouble is not None:
            raise self.error(f"{what} {trouble}")
        return float(cell)

    def numbers(self, words: Sequence[str], what: str) -> list[float]:
        return plain_numbers(words, textual=True) or [self.number(word, what) for word in words]

    def json_number(self, value: Any, what: str) -> float:
        """Return the number that a value of a JSON document is; truth values and strings are none."""
        return self.number(value, what, textual=False)

    def whole(self, word: str, what: str) -> int:
        """Return the count, 0 or more, that a word spells in decimal digits."""
        if not is_count(word):
            raise self.error(f"{what} is {reprlib.repr(word)}, not a count")
        return int(word)


def is_count(word: str) -> bool:
    """Whether a word spells a count in decimal digits, few enough for 64 bits."""
    return word.isascii() and word.isdigit() and len(word) <= _LONGEST_COUNT


def plain_numbers(cells: Sequence[Any], *, textual: bool) -> list[float] | None:
    """Return the numbers that words, or else values of JSON, are; `None` where one of them has to be looked at."""
    if not (spells_plainly("".join(cells)) if textual else set(map(type, cells)) <= {int, float}):
        return None
    try:
        numbers = list(map(float, cells))
    except (ValueError, OverflowError):
        return None
    plain = math.isfinite(sum(numbers)) and max(map(abs, numbers), default=0.0) < EXACT_INTEGERS
    return numbers if plain else None


def spells_plainly(text: str) -> bool:
    """Whether a text has neither underscores nor digits of other scripts, which `float` would accept."""
    return "_" not in text and text.isascii()


ROUNDED = "an integer beyond 2**53 that float64 would round; rescale it, or subtract what all have in common"


def trouble_of_number(cell: Any, *, textual: bool, part: str = "what it belongs to") -> str | None:
    """Return why a word of a text, or else a value of JSON, is not a usable number; `None` if it is one.

    part: what the message suggests to leave out.
    """
    plain = spells_plainly(cell) if textual else type(cell) in (int, float)
    try:
        number = float(cell) if plain else None
    except ValueError:
        number = None
    except OverflowError:
        number = math.inf
    if number is not None and abs(number) < EXACT_INTEGERS:
        return None
    if number is None:
        trouble = "not a number" if textual or not isinstance(cell, str) else "not a number but a text"
        if textual and _COMMA.fullmatch(str(cell).strip()):
            trouble = "not a number; write a point before decimals"
    elif not math.isfinite(number):
        trouble = f"not a finite number in double precision; correct it, or leave out {part}"
    elif abs(number) > MAGNITUDE_LIMIT:
        trouble = f"beyond {MAGNITUDE_LIMIT:g}; rescale it"
    elif rounds(cell):
        trouble = ROUNDED
    else:
        return None
    return f"is {reprlib.repr(cell)}, {trouble}"


def number_text(number: float) -> str:
    """Return the shortest text that reads back as exactly this number."""
    return repr(number).removesuffix(".0")


def words_of(text: str) -> list[str]:
    """Return the words of a text: what stands between ASCII white space."""
    return WORD.findall(text)


def is_word(text: str) -> bool:
    """Whether a text is one word, without white space."""
    return WORD.fullmatch(text) is not None


def unpacked(path: str | Path) -> Path:
    """Return a path without the ending of a compression."""
    path = Path(path)
    return path.with_suffix("") if path.suffix in COMPRESSED_ENDINGS else path


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object; raises `ValueError` if a key occurs twice."""
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError(f"the key {quoted(repeated(key for key, _ in pairs))} occurs twice")
    return record


def placed_lines(path: str | Path) -> Iterator[tuple[Place, str]]:
    """Yield the lines of a file, as `lpmert.system.files.lines` does, with their places."""
    return ((Place(path, number), line) for number, line in lines(path))
