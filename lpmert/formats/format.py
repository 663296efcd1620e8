"""Formats, and what their readers share: words and numbers with their places in files, and the collection of lists.

The archive of numpy (npz) holds lists as they are.
"""

from __future__ import annotations

import inspect
import io
import json
import logging
import math
import re
import reprlib
import struct
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lpmert.core import read_alike
from lpmert.errors import DataError, FloatArray
from lpmert.files import (
    BYTE_ORDER_MARK,
    COMPRESSED_ENDINGS,
    EMPTY,
    Bytes,
    atomic_writer,
    blocks_of_bytes,
    json_document,
    lines,
    open_bytes,
    read_all,
)
from lpmert.limits import room_for
from lpmert.model.arrays import MAGNITUDE_LIMIT, rounds
from lpmert.model.nbest import NBest, gathered
from lpmert.numeric.lists import from_sizes
from lpmert.numeric.rational import EXACT_INTEGERS
from lpmert.quoting import listed, quoted

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
    return repr(number).removesuffix(".0")


def words_of(text: str) -> list[str]:
    return WORD.findall(text)


def is_word(text: str) -> bool:
    return WORD.fullmatch(text) is not None


def unpacked(path: str | Path) -> Path:
    path = Path(path)
    return path.with_suffix("") if path.suffix in COMPRESSED_ENDINGS else path


def warn_of_quotes(texts: Iterable[str], path: str | Path) -> None:
    """Warn of the first text of a file that is quoted as in CSV: beside tabs, quotes are text."""
    for text in texts:
        inner = text[1:-1] if '""' in text else ""
        if '""' in inner and text[0] == text[-1] == '"' and '"' not in inner.replace('""', ""):
            remedy = "in a file with tabs they are text; write CSV, or no quotes (csv.QUOTE_NONE)"
            logger.warning("%s: the text %s has the quotes of CSV: %s", path, quoted(text), remedy)
            return


def placed_lines(path: str | Path) -> Iterator[tuple[Place, str]]:
    return ((Place(path, number), line) for number, line in lines(path))


Paths = str | Path | Sequence[str | Path]  # a file, or several
Numbers = Sequence[float] | FloatArray

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
        return self._options(self.reader, 1) | {"references": self.spoken} | dict.fromkeys(COUNTING, False)

    @property
    def writer_options(self) -> dict[str, bool]:
        return {} if self.writer is None else self._options(self.writer, 2)

    def _options(self, function: Callable[..., Any], skipped: int) -> dict[str, bool]:
        options = list(inspect.signature(function).parameters.values())[skipped:]
        hidden = {*self.fixed, COUNTED}
        return {one.name: one.default is inspect.Parameter.empty for one in options if one.name not in hidden}


class Pool:
    """Collects hypotheses, with the list of each, as a reader finds them; lists keep the order of first appearance."""

    def __init__(self) -> None:
        self.texts = list[str]()
        self.numbers = dict[str, int]()
        """The number of each list, from 0, by id."""
        self._owners = array("i")  # the list of each hypothesis
        self._features, self._statistics = array("d"), array("d")
        self._columns = dict[str, int]()  # of the features, by name
        self._names: tuple[str, ...] | None = None  # of the last rows
        self._runs: list[array[int]] = []  # the columns of each run of rows with equal names
        self._lengths = array("q")  # of the runs
        self.begin_file()

    def begin_file(self) -> None:
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

    def add_rows(self, names: tuple[str, ...], features: Numbers, statistics: Numbers, rows: int = 1) -> None:
        """Append the features with these names, each of which occurs once, and the statistics of `rows` hypotheses."""
        if names is not self._names and names != self._names:  # rows mostly share one tuple
            self._names = names
            self._runs.append(array("q", [self._columns.setdefault(name, len(self._columns)) for name in names]))
            self._lengths.append(0)
        self._lengths[-1] += rows
        for numbers, found in ((self._features, features), (self._statistics, statistics)):
            if isinstance(found, np.ndarray):
                numbers.frombytes(np.ascontiguousarray(found, dtype=np.float64).data.cast("B"))
            else:
                numbers.extend(found)

    def add_row(
        self,
        list_id: str,
        names: tuple[str, ...],
        features: Numbers,
        statistics: Numbers = (0.0,),
        text: str | None = None,
        refuse: Callable[[str], DataError] | None = None,
    ) -> None:
        """Append a hypothesis of a list; the default statistics are for those that are counted later."""
        self.add(list_id, 1, refuse)
        self.add_rows(names, features, statistics)
        if text is not None:
            self.texts.append(text)

    def nbest(self, statistic_names: Sequence[str] | None = None, *, texts: bool = False) -> NBest:
        """Return the lists, sparse if rows lack features, and with their texts if `texts`; call it once, at the end."""
        size, names, row_texts = len(self._owners), tuple(self._columns), self.texts if texts else None
        values, statistics = (np.frombuffer(one) if one else np.empty(0) for one in (self._features, self._statistics))
        statistics, owners = statistics.reshape(size, -1), np.array(self._owners)
        if len(self._runs) <= 1:
            features: Any = values.reshape(size, len(names))
        else:
            from scipy.sparse import csr_array

            indices = array("q")
            for columns, length in zip(self._runs, self._lengths, strict=True):
                indices.extend(columns * length)
            sizes = np.repeat([len(columns) for columns in self._runs], self._lengths)
            features = csr_array((values, np.array(indices), from_sizes(sizes)), shape=(size, len(names)))
            features = features.toarray() if len(values) == size * len(names) else features
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


# Lines in blocks: the core reads those that differ only in numbers and words; a template holds what they share


class Cell(IntEnum):
    """The kinds of cells between two literals of a template; see `lpmert.core.read_alike`."""

    NUMBER = 0
    COUNT = 1
    WORD = 2
    TEXT = 3
    SKIPPED = 4


def blocks_of(stream: io.BufferedReader, path: str | Path) -> Iterator[Bytes]:
    block = None
    for block in blocks_of_bytes(stream, path):
        yield block
    if block is None:
        raise DataError(EMPTY, path=path)


def first_of(block: Bytes) -> Bytes:
    return Bytes(block.first, block.data[: block.data.find(b"\n") + 1] or block.data)


def runs_of(ids: Any) -> Iterator[tuple[Any, int]]:
    ids = ids.tolist() if isinstance(ids, np.ndarray) else ids
    # types count only where they differ: 1 and true compare equal
    kinds = None if len(set(map(type, ids))) <= 1 else lambda key: (type(key), key)
    for _, run in groupby(ids, kinds):
        first, *others = run
        yield first, 1 + len(others)


class Alike(NamedTuple):
    """Cells of lines that fit a template: numbers [n, k], for words their index in `words`, and texts.

    keys [k]: the caller's names for the numbers and words.
    """

    numbers: FloatArray
    words: list[Any]
    texts: list[str]
    keys: list[Any]

    def column(self, key: Any) -> FloatArray:
        return self.numbers[:, self.keys.index(key)]

    def ids(self, key: Any) -> list[Any]:
        return [self.words[place] for place in self.column(key).astype(np.int64).tolist()]


Piece = tuple[str, Cell | None, Any]
"""A literal, the kind of the cell after it if there is one, and the caller's name for this cell."""


def read_block(block: Bytes, pieces: Iterable[Piece], refused: str = "", *, loose: bool = False) -> Alike | None:
    """Return the cells of lines that fit these pieces; `None` if a line does not, or a cell holds `refused`.

    loose: whether a blank in a literal stands for any blanks.
    """
    data = block.data
    if BYTE_ORDER_MARK in data:
        return None
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            return None
    literals, cells, keys = [""], list[int](), list[Any]()
    for literal, cell, key in pieces:
        literals[-1] += re.sub(r"[ \t]+", " ", literal) if loose else literal
        if cell is not None:
            cells.append(cell)
            literals.append("")
        if cell in (Cell.NUMBER, Cell.COUNT, Cell.WORD):
            keys.append(key)
    numbers = np.empty((block.n_lines, len(keys)))
    found = read_alike(data, literals, cells, loose, refused, numbers)
    return None if found is None else Alike(numbers, *found, keys)


# Numpy archives (npz): plain arrays and strings, never pickled objects


_SPARSE = ("data", "indices", "indptr", "shape")
_LABELS = ("names", "list_ids", "statistic_names", "texts")
_NEEDED = ("features", "offsets", "statistics")

_LONGEST_END = 0xFFFF + 22
_END, _OVERFLOW = b"PK\x05\x06", 0xFFFF
"""The signature of the end record of a zip archive, and the count that stands for any that exceeds 16 bits."""
_BROKEN = (
    *(struct.error, ValueError, TypeError, OSError, EOFError, RuntimeError, MemoryError),
    *(zlib.error, zipfile.BadZipFile),
)
"""Errors of zipfile and numpy for archives that are damaged, encrypted, compressed in unknown ways, or hold objects."""


def seekable(stream: io.BufferedReader, path: str | Path) -> Any:
    """Return a stream for random access: a plain file itself, otherwise a copy of the stream in memory."""
    if isinstance(stream.raw, io.FileIO) and stream.seekable():
        return stream
    return io.BytesIO(read_all(stream, path))


def read_npz(path: str | Path) -> NBest:
    """Read lists from an archive with the arrays `features` [M, D], `offsets` [S + 1] and `statistics` [M, K].

    Arrays of strings `names`, `list_ids`, `statistic_names` and `texts` are optional. `write_npz` writes these as JSON,
    in the bytes `labels`, because an array would take the longest string's memory for each; and sparse features as the
    arrays of `scipy.sparse.save_npz`.
    """
    with open_bytes(path) as stream:
        arrays = _arrays(seekable(stream, path), path)
    try:
        return _lists(arrays)
    except DataError as error:
        raise DataError(str(error), path=path) from error


def write_npz(nbest: NBest, path: str | Path) -> None:
    """Write lists as a compressed archive."""
    features, arrays = nbest.features, dict[str, Any](offsets=nbest.offsets, statistics=nbest.statistics)
    if isinstance(features, np.ndarray):
        arrays["features"] = features
    else:
        parts = features.data, features.indices, features.indptr, np.array(features.shape)
        arrays.update(zip(_SPARSE, parts, strict=True))
    labels = {what: getattr(nbest, what) for what in _LABELS if getattr(nbest, what) is not None}
    with atomic_writer(path) as stream:
        arrays["labels"] = np.frombuffer(json.dumps(labels, ensure_ascii=False).encode(), dtype=np.uint8)
        archive = io.BytesIO()  # writing an archive needs to seek, which compressed files cannot
        np.savez_compressed(archive, **arrays)
        stream.buffer.write(archive.getbuffer())


def _arrays(stream: Any, path: str | Path) -> dict[str, Any]:
    """Return the arrays of an archive by name; zipfile checks the checksum of a member that is read whole."""
    found: dict[str, Any] = {}
    try:
        with zipfile.ZipFile(stream) as archive:
            _check_directory(stream, len(archive.infolist()))
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                if name in found:
                    raise ValueError(f"two arrays are called {quoted(name)}")
                room_for(member.file_size, "reading")
                with archive.open(member) as data:
                    found[name] = np.lib.format.read_array(data, allow_pickle=False)
                    if data.read(1):
                        raise ValueError(f"the array {quoted(name)} is longer than its shape")
    except _BROKEN as error:
        reason = str(error) or "there is not enough memory for them"
        raise DataError(f"not an archive of plain arrays ({reason}); write it with numpy.savez", path=path) from error
    return found


def _check_directory(stream: Any, members: int) -> None:
    """Refuse an archive with fewer members than its end record says: a damaged length hides those after it."""
    size = stream.seek(0, io.SEEK_END)
    stream.seek(max(0, size - _LONGEST_END))
    content = stream.read()
    (count,) = struct.unpack_from("<H", content, content.rindex(_END) + 10)
    if count not in (members, _OVERFLOW):
        raise ValueError(f"its directory should have {count} members, and has {members}")


def _lists(arrays: Mapping[str, Any]) -> NBest:
    found = listed(arrays)
    unknown = [name for name in arrays if name not in (*_NEEDED, *_SPARSE, *_LABELS, "labels")]
    if unknown:
        raise DataError(f"an array {quoted(unknown[0])}, which lists do not have; the arrays are {found}")
    for name in _NEEDED if "features" in arrays else (*_SPARSE, *_NEEDED[1:]):
        if name not in arrays:
            raise DataError(f"no array {quoted(name)}; the arrays are {found}")
    labels: Any = {what: arrays[what].tolist() for what in _LABELS if what in arrays}
    if "labels" in arrays:
        labels = json_document(arrays["labels"].tobytes(), "labels")
        if not isinstance(labels, dict) or not labels.keys() <= {*_LABELS}:
            raise DataError(f"labels must be an object of {listed(_LABELS)}, not {quoted(labels)}")
    features = arrays["features"] if "features" in arrays else _csr(*(arrays[name] for name in _SPARSE))
    if "names" not in labels and len(features.shape) > 1 and features.shape[1] > 1 << 22:  # it could claim any number
        raise DataError(f"{features.shape[1]:,} features without names; give the array names")
    return NBest(features, arrays["offsets"], arrays["statistics"], copy=False, **labels)


def _csr(values: Any, columns: Any, starts: Any, shape: Any) -> csr_array:
    from scipy.sparse import csr_array

    try:
        if any(part.dtype.kind not in "iu" or part.ndim != 1 for part in (columns, starts, shape)):
            raise ValueError("indices, indptr and shape must be rows of integers")
        if values.dtype.kind not in "iuf":
            raise ValueError("data must be numbers")
        rows = csr_array((values, columns, starts), shape=tuple(shape.tolist()))
        rows.check_format(full_check=True)
    except _BROKEN as error:
        raise DataError(f"the sparse features are no csr_array: {error}") from error
    return rows


NPZ = Format("numpy archive", read_npz, write_npz)
