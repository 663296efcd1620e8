"""N-best lists in tables with one hypothesis a row (TSV, CSV, JSON, Parquet, data frames), and in JSON with one list a
record.
"""

from __future__ import annotations

import csv
import io
import json
import re
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from lpmert.errors import DataError
from lpmert.files import EMPTY, Bytes, atomic_writer, decoded, lines_of, open_bytes, read_all, unique_keys
from lpmert.formats.columns import (
    TEXT,
    TEXTUAL,
    Block,
    Columns,
    ColumnsNeeded,
    Names,
    Rows,
    Table,
    Wanted,
    header_of,
    losses_of_gains,
)
from lpmert.formats.format import Cell, Format, Place, blocks_of, first_of, number_text, read_block, seekable, unpacked
from lpmert.limits import room_for
from lpmert.model.arrays import as_array
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted, repeated
from lpmert.registry import TABLES

if TYPE_CHECKING:
    pass

_ENDINGS = {f".{kind}": kind for kind in TABLES} | {".ndjson": "jsonl"}
_ROWS = 1 << 16  # most rows of a block


def format_of_name(path: str | Path) -> str | None:
    """Return the format of tables that the ending of a path names, without that of compression; `None` for others."""
    return _ENDINGS.get(unpacked(path).suffix)


def read_table(
    path: str | Path | Any,
    *,
    segment: str | None = None,
    features: Names = None,
    loss: str | None = None,
    statistics: Names = None,
    gain: str | None = None,
    text: str | None = None,
    counted: bool | None = False,
    group: bool = False,
    format: str | None = None,
) -> NBest:
    """Read lists from a file in one of `TABLES`, or from a data frame or mapping of columns; see `lpmert.read`."""
    name = path if isinstance(path, str | Path) else f"{type(path).__name__} given"
    wanted = Wanted.of(features, loss, statistics, gain, counted, name)
    opened: Any = nullcontext(path) if format is None else open_bytes(path)
    with opened as source:
        table = _OPENED[format](source, name, format)
        try:
            columns = wanted.choose(table, segment, text, counted)
        except ColumnsNeeded as error:
            error.suggest(table, textual=format in TEXTUAL, group=group, costs=counted is not None)
            raise
        nbest = Rows(name, format, columns, gain, group).collected(table.blocks(columns))
    return nbest if gain is None else losses_of_gains(nbest)


# TSV and CSV: cells are strings


def _delimited_table(stream: io.BufferedReader, path: str | Path, format: str) -> Table:
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
        numbers = columns.features + columns.statistics
        kinds = {names[0]: Cell.WORD, **dict.fromkeys(numbers, Cell.NUMBER)}
        kinds |= {} if columns.text is None else {columns.text: Cell.TEXT}
        pieces = [(separator if at else "", kinds.get(name, Cell.SKIPPED), name) for at, name in enumerate(header)]
        inner = Bytes(first.first + 1, first.data[len(header_line.data) :])
        for block in chain([inner] if inner.data else [], blocks):
            plain = len(kinds) == len(names) and (separator == "\t" or _unquoted(block.data))  # one role a column
            found = read_block(block, pieces, separator) if plain else None
            if found is None:
                yield from _careful_blocks(_records(chain([block], blocks), path, separator), header, columns, path)
                continue
            cells = [found.ids(names[0]), *map(found.column, numbers)]
            lines = range(block.first, block.first + len(found.numbers))
            yield Block(lines, cells if columns.text is None else [*cells, found.texts])

    return Table(header, Place(path, line), rows)


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
        for number in range(1, len(places) - (columns.text is not None)) if decimal_commas else ():
            if not all(map(_DECIMAL.fullmatch, found[number])):
                continue
            for line, cell in zip(lines, found[number], strict=True):
                marks |= {*cell} & {",", "."}
                if len(marks) > 1:  # a comma may then separate thousands
                    trouble = "decimal commas and points in one file; write all numbers with the same one"
                    raise Place(path, line).error(f"{quoted(cell)}: {trouble}, and no other marks")
            found[number] = [cell.replace(",", ".") for cell in found[number]]
        yield Block(lines, found)


# Parquet, and tables in memory


def _parquet_table(stream: io.BufferedReader, path: str | Path, _: str) -> Table:
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


def _arrow_cells(column: Any) -> Any:
    import pyarrow.types as types

    if (types.is_floating(column.type) or types.is_integer(column.type)) and not column.null_count:
        return column.to_numpy(zero_copy_only=False)
    if types.is_string(column.type) or types.is_large_string(column.type):
        return column.to_numpy(zero_copy_only=False).tolist()
    return column.to_pylist()


def _frame_table(frame: Any, path: str, _: None) -> Table:
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


# JSON: records in lines, in an array or in one object, nested or with arrays for columns


Record = dict[str, Any]

_WHITE = re.compile(r"[ \t\n\r]*")
_LOSS = "loss"


def json_kind(beginning: str) -> str | None:
    """Return "jsonl" or "json" if a file that begins so has JSON lines or one document, `None` for others."""
    text = beginning.lstrip("\ufeff \t\n\r\v\f")
    if not text.startswith(("{", "[")):
        return None
    line, end, _ = text.partition("\n")
    # in a document, the first line may end before its object
    return "jsonl" if line.startswith("{") and (not end or line.rstrip().endswith("}")) else "json"


def json_table(stream: io.BufferedReader, path: str | Path, format: str) -> Table:
    """Return the table in a stream of JSON lines ("jsonl") or of one document ("json").

    A record stands for several rows if all its values, except that of the list, are arrays of equal length. Without a
    column for the list, the number of the record, from 0, is its id.
    """
    records = _objects(stream, path, format)
    place, record = first = next(records)
    names, spread = _leaves(record), list[str]()
    for name in names:
        with suppress(KeyError):  # objects in an array may differ
            spread += [name] if isinstance(_at_path(record, name), list) else []
    return Table(names, place, lambda columns: _in_blocks(_rows(chain([first], records), columns)), spread)


def _in_blocks(rows: Iterator[tuple[Any, Sequence[Any]]]) -> Iterator[Block]:
    while block := list(islice(rows, 1 << 14)):
        yield Block([line for line, _ in block], list(zip(*(cells for _, cells in block), strict=True)))


def _rows(records: Iterable[tuple[Place, Record]], columns: Columns) -> Iterator[tuple[Any, Sequence[Any]]]:
    number, place, names = 0, Place(None), columns.all
    for number, (place, record) in enumerate(records):
        cells: list[Any] = [number] if columns.segment is None else []
        for name in names:
            try:
                cells.append(record[name] if name in record else _at_path(record, name))
            except KeyError as error:
                known = _leaves(record)
                where = " in one of its objects" if name in known else ""
                raise place.error(f"no key {quoted(name)}{where}; the keys are {listed(known)}") from error
        if list in map(type, cells):
            yield from ((place.line, row) for row in _spread(cells, place))
        else:
            yield place.line, cells
    if columns.segment is None and number == 0:
        raise place.error("only one record; name the column that says which list a row belongs to (segment)")


def _leaves(record: Record) -> list[str]:
    """Return the paths of all values that are neither objects nor arrays of objects."""
    found: dict[str, None] = {}
    for key, value in record.items():
        inner = next((item for item in value if isinstance(item, dict)), None) if isinstance(value, list) else value
        if isinstance(inner, dict) and inner:
            found |= dict.fromkeys(f"{key}.{path}" for path in _leaves(inner))
        else:
            found[key] = None
    return list(found)


def _at_path(value: Any, path: str) -> Any:
    """Return the value at a path of keys joined by dots, or an array of values if the path goes through an array.

    A key that contains dots takes precedence. Raises `KeyError` where there is no value.
    """
    if isinstance(value, list):
        return [_at_path(item, path) for item in value]
    if not isinstance(value, dict):
        raise KeyError(path)
    if path in value:
        return value[path]
    parts = path.split(".")
    for end in range(len(parts) - 1, 0, -1):
        key = ".".join(parts[:end])
        if key in value:
            return _at_path(value[key], ".".join(parts[end:]))
    raise KeyError(path)


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


# Records and their places in files


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a finite number; correct it, or leave out the hypothesis")


_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_refuse_constant)


def _objects(stream: io.BufferedReader, path: str | Path, format: str) -> Iterator[tuple[Place, Record]]:
    for place, record in _of_document(stream, path) if format == "json" else _of_lines(blocks_of(stream, path), path):
        if not isinstance(record, dict):
            raise place.error(f"not a JSON object but {reprlib.repr(record)}")
        yield place, record


def _of_lines(blocks: Iterable[Bytes], path: str | Path) -> Iterator[tuple[Place, Any]]:
    for block in blocks:
        for number, line in enumerate(lines_of(block, path), block.first):
            place = Place(path, number)
            if not line.strip():
                raise place.error("empty line; delete it")
            try:
                yield place, _DECODER.decode(line)
            except (ValueError, RecursionError) as error:
                raise place.error(f"not one JSON object ({error})") from error


def _of_document(stream: io.BufferedReader, path: str | Path) -> Iterator[tuple[Place, Any]]:
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
        yield place, record
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


def _after_white(text: str, place: int) -> int:
    found = _WHITE.match(text, place)
    return place if found is None else found.end()


_OPENED: Mapping[str | None, Callable[..., Table]] = {
    None: _frame_table,
    "tsv": _delimited_table,
    "csv": _delimited_table,
    "parquet": _parquet_table,
    "jsonl": json_table,
    "json": json_table,
}
# Writing


def to_columns(nbest: NBest) -> dict[str, Any]:
    """Return lists as columns by name, for `pandas.DataFrame` and `polars.DataFrame`; `read` reads them back.

    Parameters
    ----------
    nbest : NBest
        The lists.

    Returns
    -------
    dict
        The ids, each feature and each statistic as arrays [M], and the texts as a list.

    Raises
    ------
    DataError
        If two columns would have the same name.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.NBest([[1, 0], [0, 1]], [0, 2], [[0], [1]], names=["a", "b"])
    >>> list(lpmert.to_columns(lists))
    ['list', 'a', 'b', 'loss']
    >>> lpmert.read(lpmert.to_columns(lists)).fingerprint == lists.fingerprint
    True
    """
    columns = Columns.of(nbest)
    if (twice := repeated(columns.all)) is not None:
        raise DataError(f"two columns would be called {quoted(twice)}; rename a feature")
    return dict(zip(columns.all, _cells_by_column(nbest), strict=True))


def _cells_by_column(nbest: NBest) -> list[Any]:
    ids = np.array(nbest.list_ids, dtype=object)[nbest.list_index]
    texts = [] if nbest.texts is None else [list(nbest.texts)]
    return [ids, *nbest.dense_features().T.copy(), *nbest.statistics.T.copy(), *texts]


def write_table(nbest: NBest, path: str | Path, *, format: str = "tsv") -> None:
    """Write N-best lists as a table of one of `TABLES`, whose columns and numbers `read_table` reads back unchanged."""
    header = header_of(Columns.of(nbest))
    if (twice := repeated(header)) is not None:
        raise DataError(f"two columns would be called {quoted(twice)}; rename a feature", path=path)
    characters, what = _REFUSED.get(format, ("", ""))
    for cell in chain(header, nbest.list_ids, nbest.texts or ()):
        if {*characters} & {*cell}:
            shown = f"{reprlib.repr(cell)} holds {what}, which {format.upper()} cannot"
            raise DataError(f"{shown}; replace it, or choose another format", path=path)
    with atomic_writer(path) as stream:
        if format == "parquet":
            pyarrow, parquet = import_parquet(path)
            table = pyarrow.table(dict(zip(header, _cells_by_column(nbest), strict=True)))
            parquet.write_table(table, stream.buffer)
        else:
            _write_rows(stream, format, header, _cells_by_row(nbest))


def _cells_by_row(nbest: NBest) -> Iterator[list[Any]]:
    for list_id, (start, end) in zip(nbest.list_ids, pairwise(nbest.offsets.tolist()), strict=True):
        block = nbest.features[start:end]
        dense = block if isinstance(block, np.ndarray) else block.toarray()
        for hypothesis, numbers in enumerate(np.hstack([dense, nbest.statistics[start:end]]).tolist(), start):
            yield [list_id, *numbers, *([] if nbest.texts is None else [nbest.texts[hypothesis]])]


def _strings(cells: Iterable[Any]) -> list[str]:
    return [cell if isinstance(cell, str) else number_text(cell) for cell in cells]


def _write_rows(stream: TextIO, kind: str, header: Sequence[str], rows: Iterator[list[Any]]) -> None:
    if kind == "tsv":
        stream.writelines("\t".join(_strings(cells)) + "\n" for cells in chain([header], rows))
    elif kind == "csv":
        csv.writer(stream, lineterminator="\n").writerows(map(_strings, chain([header], rows)))
    else:
        first, between, last = ("[\n", ",\n", "\n]\n") if kind == "json" else ("", "\n", "\n")
        lines = (json.dumps(dict(zip(header, cells, strict=True)), ensure_ascii=False) for cells in rows)
        stream.write(first + next(lines))
        stream.writelines(between + line for line in lines)
        stream.write(last)


_REFUSED = {"tsv": ("\t\n\r", "a tab or a line end"), "csv": ("\r", "a carriage return")}
"""Characters that would not read back from a format, and what messages call them."""

TSV = Format("table with tabs", read_table, write_table, fixed={"format": "tsv"})
CSV = Format("table with commas", read_table, write_table, fixed={"format": "csv"})
JSONL = Format("JSON lines, one hypothesis a line", read_table, write_table, fixed={"format": "jsonl"})
JSON = Format("JSON document: records, or arrays for columns", read_table, write_table, fixed={"format": "json"})
PARQUET = Format("Parquet table", read_table, write_table, fixed={"format": "parquet"})


# Sets of answers


def read_best_of_n(path: str | Path, *, counted: bool | None = False) -> NBest:
    """Read lines `{"id": ..., "candidates": [{"text": ..., "scores": {name: number, ...}, "loss": number}, ...]}`.

    In the place of `loss` is `correct` (true or false, or a share from 0 to 1; the loss is 1 - `correct`) or
    `statistics` (numbers by name). They are ignored where statistics are `counted`. Other keys are always ignored.
    """
    with open_bytes(path) as stream:
        records = _objects(stream, path, json_kind(stream.peek().decode(errors="replace")) or "jsonl")
        rows = _candidates(records, with_outcomes=counted is False)
        columns, first = next(rows)
        return Rows(path, "jsonl", columns).collected(_in_blocks(chain([first], (row for _, row in rows))))


def _candidates(
    records: Iterator[tuple[Place, Record]], *, with_outcomes: bool
) -> Iterator[tuple[Columns, tuple[Any, tuple[Any, ...]]]]:
    """Yield for each candidate the columns, which the first one settles, and its row: line and number, and cells."""
    begun: dict[str, int | None] = {}
    columns: Columns | None = None
    for place, record in records:
        list_id, candidates = (record.get(key) for key in ("id", "candidates"))
        if "id" not in record or not isinstance(candidates, list) or not candidates:
            raise place.error('a record needs "id", and "candidates", an array of at least one candidate')
        _check_unicode('"id"', str(list_id), place)
        first = begun.setdefault(str(list_id), place.line)
        if first != place.line:
            raise place.error(f"id {quoted(str(list_id))} comes twice, first on line {first}")
        for number, candidate in enumerate(candidates, start=1):
            what = f"candidate {number}"
            if not isinstance(candidate, dict):
                raise place.error(f"{what} is not an object but {reprlib.repr(candidate)}")
            scores = _named(what, "scores", candidate.get("scores"), place)
            outcome = _outcome(what, candidate, place) if with_outcomes else {}
            found = Columns("id", tuple(scores), tuple(outcome), TEXT if TEXT in candidate else None)
            if columns is None:
                columns = found
                for name in (*scores, *outcome):
                    _check_unicode(f"{what}: the name", name, place)
            keys = [(sorted(own.features), sorted(own.statistics), own.text) for own in (found, columns)]
            if keys[0] != keys[1]:
                shown = f"has {listed(found.all[1:])}; the candidates before have {listed(columns.all[1:])}"
                raise place.error(f"{what} {shown}; give all the same")
            numbers = [*map(scores.get, columns.features), *map(outcome.get, columns.statistics)]
            yield columns, ((place.line, number), (list_id, *numbers, *([candidate[TEXT]] if found.text else [])))


def _outcome(what: str, candidate: Record, place: Place) -> Record:
    keys = [key for key in (_LOSS, "correct", "statistics") if key in candidate]
    if len(keys) != 1:
        raise place.error(f'{what} must have one of "loss", "correct" and "statistics"; it has {len(keys)}')
    value = candidate[keys[0]]
    if keys[0] == "statistics":
        return _named(what, keys[0], value, place)
    if keys[0] == _LOSS:
        if isinstance(value, bool):
            raise place.error(f'{what}: "loss" is {value}, not a number; if true is better, call it "correct"')
        return {_LOSS: value}
    share = value if isinstance(value, bool) else place.number(value, f'{what}: "correct"', textual=False)
    if not 0 <= share <= 1:
        raise place.error(f'{what}: "correct" is {value}, not true, false, or a share from 0 to 1')
    return {_LOSS: 1.0 - share}


def _named(what: str, key: str, value: Any, place: Place) -> Record:
    if not isinstance(value, dict) or not value or "" in value:
        raise place.error(f'{what}: "{key}" must be an object of numbers by name, not {reprlib.repr(value)}')
    flag = next((name for name, number in value.items() if isinstance(number, bool)), None)
    if flag is not None:
        trouble = f"is {value[flag]}, not a number; write 1 for true and 0 for false"
        raise place.error(f"{what}: column {quoted(flag)} {trouble}")
    return value


def _check_unicode(what: str, text: str, place: Place) -> None:
    """Refuse lone surrogates, which JSON can hold but which cannot be printed."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise place.error(f"{what} {quoted(text)} is no text; replace the surrogates in it")


def write_best_of_n(nbest: NBest, path: str | Path) -> None:
    features, statistics = nbest.dense_features().tolist(), nbest.statistics.tolist()
    with atomic_writer(path) as stream:
        for list_id, (start, end) in zip(nbest.list_ids, pairwise(nbest.offsets.tolist()), strict=True):
            candidates = []
            for row in range(start, end):
                candidate: Record = {} if nbest.texts is None else {TEXT: nbest.texts[row]}
                candidate["scores"] = dict(zip(nbest.names, features[row], strict=True))
                if nbest.statistic_names == (_LOSS,):
                    candidate[_LOSS] = statistics[row][0]
                else:
                    candidate["statistics"] = dict(zip(nbest.statistic_names, statistics[row], strict=True))
                candidates.append(candidate)
            stream.write(json.dumps({"id": list_id, "candidates": candidates}, allow_nan=False) + "\n")


BEST_OF_N = Format("JSON lines, one list a line", read_best_of_n, write_best_of_n)
