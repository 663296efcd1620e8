"""N-best lists in tables with one hypothesis a row (TSV, CSV, JSON, Parquet, data frames), and in numpy archives."""

from __future__ import annotations

import csv
import io
import json
import re
import reprlib
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from lpmert.errors import DataError
from lpmert.files import Bytes, atomic_writer, json_document, lines_of, open_bytes, read_all
from lpmert.formats.columns import (
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
from lpmert.formats.format import Cell, Format, Place, blocks_of, first_of, number_text, read_block, unpacked
from lpmert.formats.records import json_table
from lpmert.limits import room_for
from lpmert.model.arrays import as_array
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted, repeated
from lpmert.registry import TABLES

if TYPE_CHECKING:
    from scipy.sparse import csr_array

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
    with nullcontext(path) if format is None else open_bytes(path) as source:
        table = _OPENED.get(format, _delimited_table)(source, name, format)
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


_OPENED: Mapping[str | None, Callable[..., Table]] = {
    None: _frame_table,
    "parquet": _parquet_table,
    "jsonl": json_table,
    "json": json_table,
}
"""What opens a table of a format, other than TSV and CSV."""

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
    features, arrays = nbest.features, {"offsets": nbest.offsets, "statistics": nbest.statistics}
    if isinstance(features, np.ndarray):
        arrays["features"] = features
    else:
        parts = features.data, features.indices, features.indptr, np.array(features.shape)
        arrays.update(zip(_SPARSE, parts, strict=True))
    labels = {what: getattr(nbest, what) for what in _LABELS if getattr(nbest, what) is not None}
    with atomic_writer(path) as stream:
        arrays["labels"] = np.frombuffer(json.dumps(labels, ensure_ascii=False).encode(), dtype=np.uint8)
        archive = io.BytesIO()  # writing an archive needs to seek, which compressed files cannot
        np.savez_compressed(archive, **arrays)  # type: ignore[arg-type]
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
