"""Formats, and what their readers share: words and numbers with their places in files, and the collection of lists."""

from __future__ import annotations

import inspect
import json
import logging
import math
import re
import reprlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lpmert.errors import DataError, FloatArray
from lpmert.files import COMPRESSED_ENDINGS, lines
from lpmert.limits import room_for
from lpmert.model.arrays import MAGNITUDE_LIMIT, rounds
from lpmert.model.nbest import NBest, gathered
from lpmert.numeric.lists import from_sizes
from lpmert.numeric.rational import EXACT_INTEGERS
from lpmert.quoting import quoted, repeated

if TYPE_CHECKING:
    from scipy.sparse import csr_array


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
    """Yield the place and the text of each line of a file; see `lpmert.files.lines`."""
    return ((Place(path, number), line) for number, line in lines(path))


Paths = str | Path | Sequence[str | Path]  # a file, or several

COUNTED = "counted"
COUNTING = ("metric", "partial", "by_position")  # options of `read` that go with `references`, for all formats


@dataclass(frozen=True)
class Format:
    """A format, as it is registered.

    reader(source, **options) returns the lists; writer(lists, path, **options) writes them, `None` where the format is
    only read. pooled: the reader takes several files at once and pools their lists. endings: of the names of such
    files, such as ".lists". fixed: options of reader and writer that the caller cannot set. spoken: the files hold
    texts without statistics, so `read` needs references. metric: the default one for counting from texts. graphs: for
    a format of lattices, a function that yields every lattice in a `lpmert.formats.graphs.GraphText`, after its
    utterance or `None` where the text does not name it.

    The option `counted` of a reader says where statistics come from: false, the file; true, `read` counts them from the
    texts; `None`, there are none.
    """

    description: str
    reader: Callable[..., NBest]
    writer: Callable[..., None] | None = None
    pooled: bool = False
    endings: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    spoken: bool = False
    metric: str = "wer"
    graphs: Callable[..., Iterable[tuple[str | None, Any]]] | None = None

    @property
    def reader_options(self) -> dict[str, bool]:
        """The options of the reader and of counting, and whether each is needed."""
        return self._options(self.reader, 1) | {"references": self.spoken} | dict.fromkeys(COUNTING, False)

    @property
    def writer_options(self) -> dict[str, bool]:
        """The options of the writer, and whether each is needed."""
        return {} if self.writer is None else self._options(self.writer, 2)

    def _options(self, function: Callable[..., Any], skipped: int) -> dict[str, bool]:
        options = list(inspect.signature(function).parameters.values())[skipped:]
        hidden = {*self.fixed, COUNTED}
        return {one.name: one.default is inspect.Parameter.empty for one in options if one.name not in hidden}


class Growing:
    """A table of numbers that grows by rows."""

    def __init__(self) -> None:
        self._numbers, self._rows = array("d"), 0

    def add(self, numbers: Iterable[float] | FloatArray, rows: int = 1) -> None:
        """Append the numbers of `rows` rows."""
        if isinstance(numbers, np.ndarray):
            self._numbers.frombytes(np.ascontiguousarray(numbers, dtype=np.float64).data.cast("B"))
        else:
            self._numbers.extend(numbers)
        self._rows += rows

    def whole(self) -> FloatArray:
        """Return all numbers as a flat array, which shares their memory."""
        return np.frombuffer(self._numbers) if self._numbers else np.empty(0)

    def rows(self) -> FloatArray:
        """Return the rows [M, ...]."""
        return self.whole().reshape(self._rows, -1)


class NamedRows:
    """Rows of named numbers, collected into one matrix; names may differ between rows."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        self._values = Growing()
        self._run_names: tuple[str, ...] = ()
        self._run_columns: list[array[int]] = []  # of each run of rows with the same names
        self._run_lengths = array("q")

    def add(self, names: tuple[str, ...], values: Sequence[float] | FloatArray, rows: int = 1) -> None:
        """Append `rows` rows with these names, each of which occurs once, and these values."""
        # rows mostly share one tuple
        if not self._run_lengths or (names is not self._run_names and names != self._run_names):
            self._run_names = names
            self._run_columns.append(array("q", [self._columns.setdefault(name, len(self._columns)) for name in names]))
            self._run_lengths.append(0)
        self._run_lengths[-1] += rows
        self._values.add(values, rows)

    def matrix(self) -> tuple[tuple[str, ...], FloatArray | csr_array]:
        """Return the names [D] in order of first appearance, and the rows [M, D], sparse if some lack a name."""
        names, values = tuple(self._columns), self._values.whole()
        shape = sum(self._run_lengths), len(names)
        if len(self._run_columns) <= 1:
            return names, values.reshape(shape)
        indices, sizes = array("q"), np.repeat([len(columns) for columns in self._run_columns], self._run_lengths)
        for columns, length in zip(self._run_columns, self._run_lengths, strict=True):
            indices.extend(columns * length)
        from scipy.sparse import csr_array

        found = csr_array((values, np.array(indices), from_sizes(sizes)), shape=shape)
        return names, found.toarray() if len(values) == shape[0] * shape[1] else found


class Pool:
    """Collects hypotheses, with the list of each, as a reader finds them; lists keep the order of first appearance."""

    def __init__(self) -> None:
        self.features, self.statistics, self.texts = NamedRows(), Growing(), list[str]()
        self.numbers: dict[str, int] = {}
        """The number of each list, from 0, by id."""
        self._owners = array("i")  # the list of each hypothesis
        self.begin_file()

    def __len__(self) -> int:
        return len(self._owners)

    def begin_file(self) -> None:
        """Note that another file follows, which may have the same lists."""
        self._begun, self._last = set[str](), ""

    def add(self, list_id: str, size: int = 1, refuse: Callable[[str], DataError] | None = None) -> None:
        """Note that the next `size` hypotheses belong to this list; refuse: makes the error if it returns."""
        if list_id != self._last:
            if refuse is not None and list_id in self._begun:
                raise refuse(
                    f"list {quoted(list_id)} comes back here, after list {quoted(self._last)}; sort the lines, or "
                    "gather them with group=True (--group)"
                )
            self._begun.add(list_id)
            self._last = list_id
        self._owners += array("i", [self.numbers.setdefault(list_id, len(self.numbers))]) * size

    def add_row(
        self,
        list_id: str,
        names: tuple[str, ...],
        numbers: Sequence[float] | FloatArray,
        statistics: Sequence[float] = (0.0,),
        text: str | None = None,
        refuse: Callable[[str], DataError] | None = None,
    ) -> None:
        """Append a hypothesis of a list; the default statistics are for those that are counted later."""
        self.add(list_id, 1, refuse)
        self.features.add(names, numbers)
        self.statistics.add(statistics)
        if text is not None:
            self.texts.append(text)

    def nbest(self, statistic_names: Sequence[str] | None = None, *, texts: bool = False) -> NBest:
        """Return the lists with gathered rows, and with their texts if `texts`; call it once, at the end."""
        names, features = self.features.matrix()
        statistics, row_texts = self.statistics.rows(), self.texts if texts else None
        owners = np.array(self._owners)
        if (np.diff(owners) < 0).any():
            order, _ = gathered(owners)
            room_for(8 * features.size + statistics.nbytes, "gathering the rows of lists")
            features, statistics = features[order], statistics[order]
            row_texts = None if row_texts is None else [row_texts[row] for row in order.tolist()]
        offsets = from_sizes(np.bincount(owners))
        return NBest(features, offsets, statistics, names, list(self.numbers), statistic_names, row_texts, copy=False)


def rows_by_column(features: FloatArray | csr_array) -> Iterator[dict[int, float]]:
    """Yield each row [M, D] as numbers by column; sparse rows leave out their zeros."""
    if isinstance(features, np.ndarray):
        for row in features:
            yield dict(enumerate(row.tolist()))
        return
    for start, end in pairwise(features.indptr.tolist()):
        yield dict(zip(features.indices[start:end].tolist(), features.data[start:end].tolist(), strict=True))
