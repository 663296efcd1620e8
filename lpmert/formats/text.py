"""Words, names and numbers in text and JSON, and the places in files that errors name."""

from __future__ import annotations

import json
import logging
import math
import re
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lpmert.errors import DataError
from lpmert.model.arrays import MAGNITUDE_LIMIT, rounds
from lpmert.numeric.rational import EXACT_INTEGERS
from lpmert.quoting import quoted, repeated
from lpmert.system.files import lines
from lpmert.system.streams import COMPRESSED_ENDINGS

logger = logging.getLogger("lpmert")

_COMMA = re.compile(r"[-+]?[0-9]+,[0-9]+")
WHITE = " \t\n\r\v\f"
"""ASCII white space: `str.strip` and `str.split` would also remove no-break and ideographic spaces."""

WORD = re.compile(f"[^{WHITE}]+")


class Place(NamedTuple):
    """A file and, where it is known, a line of it: reads numbers, and makes errors that name the place."""

    path: str | Path | None
    line: int | None = None

    def error(self, message: str, kind: type[DataError] = DataError) -> DataError:
        return kind(message, path=self.path, line=self.line)

    def number(self, cell: Any, what: str, *, textual: bool = True) -> float:
        """Return the number in a cell, a word if `textual`, else a JSON value; `what` names it in the `DataError`."""
        trouble = trouble_of_number(cell, textual=textual)
        if trouble is not None:
            raise self.error(f"{what} {trouble}")
        return float(cell)

    def numbers(self, words: Sequence[str], what: str) -> list[float]:
        return plain_numbers(words, textual=True) or [self.number(word, what) for word in words]

    def whole(self, word: str, what: str) -> int:
        """Return the count, 0 or more, that a word gives in decimal digits."""
        if not is_count(word):
            raise self.error(f"{what} is {reprlib.repr(word)}, not a count")
        return int(word)


def is_count(word: str) -> bool:
    """Whether a word is a count in decimal digits that fits 64 bits."""
    return word.isascii() and word.isdigit() and len(word) <= 18


def plain_numbers(cells: Sequence[Any], *, textual: bool) -> list[float] | None:
    """Return the numbers in cells, words if `textual`, else JSON values; `None` if `trouble_of_number` must decide."""
    if not (spells_plainly("".join(cells)) if textual else set(map(type, cells)) <= {int, float}):
        return None
    try:
        numbers = list(map(float, cells))
    except (ValueError, OverflowError):
        return None
    plain = math.isfinite(sum(numbers)) and max(map(abs, numbers), default=0.0) < EXACT_INTEGERS
    return numbers if plain else None


def spells_plainly(text: str) -> bool:
    """Whether a text has no underscores or digits of other scripts, which `float` would accept."""
    return "_" not in text and text.isascii()


ROUNDED = "an integer beyond 2**53 that float64 would round; rescale it, or subtract what all have in common"


def trouble_of_number(cell: Any, *, textual: bool, part: str = "what it belongs to") -> str | None:
    """Return why a cell, a word if `textual`, else a JSON value, is not a usable number; `None` if it is one.

    part: what the message suggests leaving out.
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
        trouble = "not a number" if textual or not isinstance(cell, str) else "not a number but a string"
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
    """Return the words of a text, which ASCII white space separates."""
    return WORD.findall(text)


def is_word(text: str) -> bool:
    """Whether a text is one word, without white space."""
    return WORD.fullmatch(text) is not None


def unpacked(path: str | Path) -> Path:
    """Return a path without an ending of compression."""
    path = Path(path)
    return path.with_suffix("") if path.suffix in COMPRESSED_ENDINGS else path


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object; raises `ValueError` if a key occurs twice."""
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError(f"the key {quoted(repeated(key for key, _ in pairs))} occurs twice")
    return record


def json_document(content: str, path: str | Path) -> Any:
    """Return the value of a JSON document; raises `DataError` if it is malformed, or a key occurs twice."""
    try:
        return json.loads(content, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON ({error})", path=path) from error


def warn_of_quotes(texts: Iterable[str], path: str | Path) -> None:
    """Warn of the first text of a file that is quoted as in CSV: beside tabs, quotes are text."""
    for text in texts:
        inner = text[1:-1] if '""' in text else ""
        if '""' in inner and text[0] == text[-1] == '"' and '"' not in inner.replace('""', ""):
            remedy = "in a file with tabs they are text; write CSV, or no quotes (csv.QUOTE_NONE)"
            logger.warning("%s: the text %s has the quotes of CSV: %s", path, quoted(text), remedy)
            return


def placed_lines(path: str | Path) -> Iterator[tuple[Place, str]]:
    """Yield the place and the text of each line of a file; see `lpmert.system.files.lines`."""
    return ((Place(path, number), line) for number, line in lines(path))
