"""Tables in TSV, CSV, JSON, Parquet and memory, read in blocks of rows: the wanted cells, and the line of each row.

The core reads blocks whose lines differ only in numbers and words; a template holds what they share. Other lines, and
lines with errors, go to the careful reader of the format.
"""

from __future__ import annotations

import csv
import io
import json
import re
import reprlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lpmert.core import read_alike
from lpmert.errors import DataError, FloatArray
from lpmert.files import BYTE_ORDER_MARK, EMPTY, Bytes, blocks_of_bytes, decoded, lines_of, open_bytes, read_all
from lpmert.formats.columns import Block, Columns, Table
from lpmert.formats.format import Place, unique_keys, unpacked
from lpmert.limits import room_for
from lpmert.model.arrays import as_array
from lpmert.quoting import listed, quoted
from lpmert.registry import TABLES


class Cell(IntEnum):
    """The kinds of cells between two literals of a template; see `lpmert.core.read_alike`."""

    NUMBER = 0
    COUNT = 1
    WORD = 2
    TEXT = 3
    SKIPPED = 4


def blocks_of(stream: io.BufferedReader, path: str | Path) -> Iterator[Bytes]:
    """Yield all lines of a stream that `open_bytes` opened, in blocks; raises `DataError` if there is none."""
    block = None
    for block in blocks_of_bytes(stream, path):
        yield block
    if block is None:
        raise DataError(EMPTY, path=path)


def first_of(block: Bytes) -> Bytes:
    return Bytes(block.first, block.data[: block.data.find(b"\n") + 1] or block.data)


def runs_of(ids: Any) -> Iterator[tuple[Any, int]]:
    """Yield the id and the length of each run of equal ids in a column."""
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
        """Return the words in the column with this key."""
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


_ENDINGS = {f".{kind}": kind for kind in TABLES} | {".ndjson": "jsonl"}
_ROWS = 1 << 16


def format_of_name(path: str | Path) -> str | None:
    """Return the format of tables that the ending of a path names, without that of compression; `None` for others."""
    return _ENDINGS.get(unpacked(path).suffix)


@contextmanager
def open_table(source: Any, name: str | Path, format: str | None) -> Iterator[Table]:
    """Open a file in this format, or a table in memory without one."""
    if format is None:
        yield _frame_table(source, str(name))
        return
    with open_bytes(source) as stream:
        if format == "parquet":
            yield _parquet_table(stream, source)
        else:
            yield (_json_table if format in ("jsonl", "json") else _delimited_table)(stream, source, format)


def _delimited_table(stream: io.BufferedReader, path: str | Path, format: str) -> Table:
    """Return the table in a TSV or CSV stream that `open_bytes` opened; cells are strings."""
    blocks = blocks_of(stream, path)
    first = next(blocks)
    header_line = first_of(first)
    separator = "\t" if format == "tsv" else ","
    if format == "csv" and b";" in header_line.data and {*b",\t"}.isdisjoint(header_line.data):
        separator = ";"  # spreadsheets write it with decimal commas
    in_quotes = separator == ";" or (separator == "," and not _unquoted(first.data))
    records = _records(chain([first], blocks) if in_quotes else iter([first]), path, separator)
    line, header = next(records)

    def rows(columns: Columns) -> Iterator[Block]:
        if in_quotes:
            yield from _careful_blocks(records, header, columns, path, decimal_commas=separator == ";")
            return
        names = columns.all
        kinds = {names[0]: Cell.WORD, **dict.fromkeys(columns.numbers, Cell.NUMBER)}
        kinds |= {} if columns.text is None else {columns.text: Cell.TEXT}
        pieces = [(separator if at else "", kinds.get(name, Cell.SKIPPED), name) for at, name in enumerate(header)]
        inner = Bytes(first.first + 1, first.data[len(header_line.data) :])
        for block in chain([inner] if inner.data else [], blocks):
            plain = len(kinds) == len(names) and (separator == "\t" or _unquoted(block.data))  # one role a column
            found = read_block(block, pieces, separator) if plain else None
            if found is None:
                yield from _careful_blocks(_records(chain([block], blocks), path, separator), header, columns, path)
                continue
            cells = [found.ids(names[0]), *map(found.column, columns.numbers)]
            lines = range(block.first, block.first + len(found.numbers))
            yield Block(lines, cells if columns.text is None else [*cells, found.texts])

    return Table(header, Place(path, line), rows)


def _parquet_table(stream: io.BufferedReader, path: str | Path) -> Table:
    """Return the table in a Parquet stream; columns of numbers without gaps become arrays."""
    pyarrow, parquet = import_parquet(path)
    with _parquet_errors(path):
        file = parquet.ParquetFile(seekable(stream, path), pre_buffer=False, buffer_size=1 << 20)
        names = file.schema_arrow.names

    def rows(columns: Columns) -> Iterator[Block]:
        done, wanted = 0, columns.all
        with _parquet_errors(path):
            for batch in file.iter_batches(_ROWS, columns=list(dict.fromkeys(wanted))):
                cells = [_arrow_cells(batch.column(name)) for name in wanted]
                yield Block(range(done + 1, done + 1 + batch.num_rows), cells)
                done += batch.num_rows
        pyarrow.default_memory_pool().release_unused()

    return Table(names, Place(path), rows)


@contextmanager
def _parquet_errors(path: str | Path) -> Iterator[None]:
    """Turn errors of pyarrow in the block into a `DataError` that names the path."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(f"cannot be read as Parquet: {error}", path=path) from error


def import_parquet(path: str | Path) -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet; raises `DataError` if they are not installed."""
    if "pyarrow" not in sys.modules:
        room_for(96 << 20, "pyarrow")  # so many bytes does loading it take
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ModuleNotFoundError as error:
        raise DataError("pyarrow is not installed; install lpmert[parquet]", path=path) from error
    except ImportError as error:  # an incompatible library, or too little memory
        raise DataError(f"pyarrow cannot be loaded: {error}", path=path) from error
    return pyarrow, parquet


def json_kind(beginning: str) -> str | None:
    """Return "jsonl" or "json" if a file that begins so has JSON lines or one document, `None` for others."""
    text = beginning.lstrip("\ufeff \t\n\r\v\f")
    if not text.startswith(("{", "[")):
        return None
    line, end, _ = text.partition("\n")
    # in a document, the first line may end before its object
    return "jsonl" if line.startswith("{") and (not end or line.rstrip().endswith("}")) else "json"


def _unquoted(data: bytes) -> bool:
    """Whether CSV lines have no quotes and no carriage returns but at their ends."""
    return b'"' not in data and (b"\r" not in data or b"\r" not in data.replace(b"\r\n", b"").removesuffix(b"\r"))


def _records(blocks: Iterator[Bytes], path: str | Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the cells of each record of a TSV or CSV; Python's csv module splits the latter."""
    if separator == "\t":
        for block in blocks:
            yield from ((number, line.split("\t")) for number, line in enumerate(lines_of(block, path), block.first))
        return
    block = next(blocks)
    lines = (f"{line}\n" for each in chain([block], blocks) for line in lines_of(each, path))
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        start = reader.line_num + block.first
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            trouble = f"not CSV ({error}); close every quote, and write a quote inside a quoted cell twice"
            raise Place(path, start).error(trouble) from error
        yield start, cells or [""]


_DECIMAL = re.compile(r"[-+]?\d*[.,]?\d*(?:e[-+]?\d+)?|nan|[-+]?inf", re.IGNORECASE)


def _careful_blocks(
    records: Iterator[tuple[int, list[str]]],
    header: Sequence[str],
    columns: Columns,
    path: str | Path,
    *,
    decimal_commas: bool = False,
) -> Iterator[Block]:
    """Yield the wanted cells of records; numbers with decimal commas, if allowed, get points."""
    places, marks, width = [header.index(name) for name in columns.all], set[str](), len(header)
    while rows := list(islice(records, _ROWS)):
        for number, cells in rows:
            if len(cells) != width:
                count = f"{len(cells)} {'cell' if len(cells) == 1 else 'cells'}, but the header has {width}"
                remedy = "give one for every column, even if it is empty, separated as the header's are"
                raise Place(path, number).error("empty line; delete it" if cells == [""] else f"{count}; {remedy}")
        by_column = list(zip(*(cells for _, cells in rows), strict=True))
        lines, found = [line for line, _ in rows], list[Sequence[str]](by_column[place] for place in places)
        for number in range(1, 1 + len(columns.numbers)) if decimal_commas else ():
            if not all(map(_DECIMAL.fullmatch, found[number])):
                continue
            for line, cell in zip(lines, found[number], strict=True):
                marks |= {*cell} & {",", "."}
                if len(marks) > 1:  # a comma may then separate thousands
                    trouble = "decimal commas and points in one file; write all numbers with the same one"
                    raise Place(path, line).error(f"{quoted(cell)}: {trouble}, and no other marks")
            found[number] = [cell.replace(",", ".") for cell in found[number]]
        yield Block(lines, found)


def seekable(stream: io.BufferedReader, path: str | Path) -> Any:
    """Return a stream for random access: a plain file itself, otherwise a copy of the stream in memory."""
    if isinstance(stream.raw, io.FileIO) and stream.seekable():
        return stream
    return io.BytesIO(read_all(stream, path))


def _arrow_cells(column: Any) -> Any:
    import pyarrow.types as types

    if (types.is_floating(column.type) or types.is_integer(column.type)) and not column.null_count:
        return column.to_numpy(zero_copy_only=False)
    if types.is_string(column.type) or types.is_large_string(column.type):
        return column.to_numpy(zero_copy_only=False).tolist()
    return column.to_pylist()


def _frame_table(frame: Any, path: str) -> Table:
    """Return a table in memory, which names its columns and returns each by name, with rows numbered from 1."""
    names = frame if isinstance(frame, Mapping) else getattr(frame, "column_names", getattr(frame, "columns", None))
    if names is None or not hasattr(frame, "__getitem__"):
        raise DataError(f"neither a path nor a table with named columns: {quoted(frame)}")
    names = list(names)
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise DataError(f"the name of a column is {quoted(wrong[0])}, not a string; rename it", path=path)

    def rows(columns: Columns) -> Iterator[Block]:
        cells = [_cells(frame, name, path) for name in columns.all]
        sizes = {len(column) for column in cells}
        if len(sizes) > 1:
            shown = " and ".join(map(str, sorted(sizes)))
            raise DataError(f"columns of {shown} rows; give all the same number of rows", path=path)
        yield from (Block(range(1, 1 + size), cells) for size in sizes if size)

    return Table(names, Place(path), rows)


def _cells(frame: Any, name: str, path: str) -> Any:
    """Return the cells of a column, numbers as an array; `tolist` would turn some dates and times into numbers."""
    try:
        column = frame[name]
        array = as_array(column, "it")
        mixed = isinstance(column, list | tuple) and bool in {*map(type, column)}
        if array.dtype.kind in "US" or mixed:  # numpy would turn 1 beside strings into a string, and true beside 1 to 1
            array = as_array(column, "it", object)
    except Exception as error:  # of any kind, from the package that made the frame
        raise DataError(f"column {quoted(name)} cannot be read; convert it first: {error}", path=path) from error
    if array.ndim != 1:
        raise DataError(f"column {quoted(name)} is not one-dimensional", path=path)
    return array if array.dtype.kind in "iuf" else list(array) if array.dtype.kind in "mM" else array.tolist()


# JSON: records in lines, in an array or an object, nested or with arrays for columns


Record = dict[str, Any]

_WHITE = re.compile(r"[ \t\n\r]*")


def _json_table(stream: io.BufferedReader, path: str | Path, format: str) -> Table:
    """Return the table in a stream of JSON lines ("jsonl") or of one document ("json").

    Columns are named by keys, or by paths of keys joined by dots, such as `candidates.scores.lm`. A record stands for
    several rows if all its values, except that of the list, are arrays of equal length. Without a column for the list,
    the number of the record, from 0, is its id.
    """
    records = json_records(stream, path, format)
    place, record = first = next(records)
    names, spread = leaves(record), list[str]()
    for name in names:
        with suppress(KeyError):  # objects in an array may differ
            spread += [name] if isinstance(at_path(record, name), list) else []
    return Table(names, place, lambda columns: in_blocks(_rows(chain([first], records), columns)), spread)


def in_blocks(rows: Iterator[tuple[Any, Sequence[Any]]]) -> Iterator[Block]:
    """Yield blocks of rows, which come with their lines."""
    while block := list(islice(rows, 1 << 14)):
        yield Block([line for line, _ in block], list(zip(*(cells for _, cells in block), strict=True)))


def json_records(stream: io.BufferedReader, path: str | Path, format: str) -> Iterator[tuple[Place, Record]]:
    """Yield place and content of each object in JSON lines or in a document, an array of objects or one."""
    return _of_document(stream, path) if format == "json" else _of_lines(blocks_of(stream, path), path)


def _rows(records: Iterable[tuple[Place, Record]], columns: Columns) -> Iterator[tuple[Any, Sequence[Any]]]:
    number, place, names = 0, Place(None), columns.all
    for number, (place, record) in enumerate(records):
        cells: list[Any] = [number] if columns.segment is None else []
        for name in names:
            try:
                cells.append(record[name] if name in record else at_path(record, name))
            except KeyError as error:
                known = leaves(record)
                where = " in one of its objects" if name in known else ""
                raise place.error(f"no key {quoted(name)}{where}; the keys are {listed(known)}") from error
        if list in map(type, cells):
            yield from ((place.line, row) for row in _spread(cells, place))
        else:
            yield place.line, cells
    if columns.segment is None and number == 0:
        raise place.error("only one record; name the column that says which list a row belongs to (segment)")


def leaves(record: Record) -> list[str]:
    """Return the paths of all values that are neither objects nor arrays of objects."""
    found: dict[str, None] = {}
    for key, value in record.items():
        inner = next((item for item in value if isinstance(item, dict)), None) if isinstance(value, list) else value
        if isinstance(inner, dict) and inner:
            found |= dict.fromkeys(f"{key}.{path}" for path in leaves(inner))
        else:
            found[key] = None
    return list(found)


def at_path(value: Any, path: str) -> Any:
    """Return the value at a path of keys joined by dots, or an array of values if the path goes through an array.

    A key that contains dots takes precedence. Raises `KeyError` where there is no value.
    """
    if isinstance(value, list):
        return [at_path(item, path) for item in value]
    if not isinstance(value, dict):
        raise KeyError(path)
    if path in value:
        return value[path]
    parts = path.split(".")
    for end in range(len(parts) - 1, 0, -1):
        key = ".".join(parts[:end])
        if key in value:
            return at_path(value[key], ".".join(parts[end:]))
    raise KeyError(path)


def _of_lines(blocks: Iterable[Bytes], path: str | Path) -> Iterator[tuple[Place, Record]]:
    for block in blocks:
        for number, line in enumerate(lines_of(block, path), block.first):
            place = Place(path, number)
            if not line.strip():
                raise place.error("empty line; delete it")
            try:
                record = _DECODER.decode(line)
            except (ValueError, RecursionError) as error:
                raise place.error(f"not one JSON object ({error})") from error
            yield place, _checked(record, place)


def _of_document(stream: io.BufferedReader, path: str | Path) -> Iterator[tuple[Place, Record]]:
    text = decoded(read_all(stream, path), path)
    at = _after_white(text, 0)
    if at == len(text):
        raise DataError(EMPTY, path=path)
    is_array = text.startswith("[", at)
    at = _after_white(text, at + is_array)
    line = 1 + text.count("\n", 0, at)
    while True:
        place = Place(path, line)
        try:
            record, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise place.error(f"not JSON ({error})") from error
        yield place, _checked(record, place)
        end = _after_white(text, end)
        if not (is_array and text.startswith(",", end)):
            break
        line += text.count("\n", at, at := _after_white(text, end + 1))
    if not is_array or text.startswith("]", end):
        end = _after_white(text, end + is_array)
        if end == len(text):
            return
    line += text.count("\n", at, end)
    raise Place(path, line).error(f"not JSON: {quoted(text[end : end + 20])} after a record")


def _checked(record: Any, place: Place) -> Record:
    if not isinstance(record, dict):
        raise place.error(f"not a JSON object but {reprlib.repr(record)}")
    return record


def _after_white(text: str, place: int) -> int:
    found = _WHITE.match(text, place)
    return place if found is None else found.end()


def _spread(cells: Sequence[Any], place: Place) -> Iterator[Sequence[Any]]:
    """Yield the rows of a record, several if all its cells but the first, the list's, are arrays."""
    key, *others = cells
    if not others or not all(isinstance(cell, list) for cell in others):
        yield cells
        return
    sizes = {len(cell) for cell in cells if isinstance(cell, list)}
    if len(sizes) > 1:
        raise place.error(f"arrays of {' and '.join(map(str, sorted(sizes)))} values; give all the same number")
    if sizes == {0}:
        raise place.error("no hypotheses, only empty arrays; leave the list out, or give it some")
    for row in zip(key if isinstance(key, list) else [key] * len(others[0]), *others, strict=True):
        yield from _spread(row, place)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a finite number; correct it, or leave out the hypothesis")


_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_refuse_constant)
