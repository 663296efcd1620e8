"""Rows of tables in TSV, CSV, JSON lines and Parquet: the cells of the wanted columns and where each row begins."""

from __future__ import annotations

import csv
import io
import json
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from lpmert.errors import DataError
from lpmert.quoting import listed, quoted
from lpmert.registry import TABLES
from lpmert.system.files import BYTE_ORDER_MARK, COMPRESSED_ENDINGS, decoded_lines, raw_lines, whole

_ENDINGS = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_PARQUET_MAGIC = b"PAR1"
_PARQUET_BATCH = 1 << 15

Lines = Iterable[tuple[int, str]]
Row = tuple[int, tuple[Any, ...]]
"""The line a row begins on (in Parquet its number, from 1), and its cells in the order of the wanted columns."""


def format_of_name(path: str | Path) -> str | None:
    """Return the format that the ending of the path names, before that of a compression, if it names one."""
    name = Path(path)
    return _ENDINGS.get((name.with_suffix("") if name.suffix in COMPRESSED_ENDINGS else name).suffix)


def guess_format(stream: io.BufferedReader, path: str | Path) -> str:
    """Return the format that the ending of the path names, or else the one that the first bytes look like."""
    return format_of_name(path) or _by_content(stream, path)


def read_rows(stream: io.BufferedReader, path: str | Path, format: str, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the wanted columns of every row of a stream that `open_bytes` opened.

    Cells are strings in TSV and CSV, and whatever the file holds in JSON lines and Parquet. Raises `DataError` if the
    file is empty or malformed, or lacks a column.
    """
    if format == "parquet":
        return _parquet_rows(stream, path, columns)
    lines = decoded_lines(raw_lines(stream, path), path)
    if format == "jsonl":
        return _jsonl_rows(lines, path, columns)
    records = _csv_records(lines, path) if format == "csv" else ((number, line.split("\t")) for number, line in lines)
    return _delimited_rows(records, path, columns)


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name that an earlier one equals, if any."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def import_parquet(path: str | Path) -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet; raises `DataError` if they are not installed."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise DataError("pyarrow is not installed; install lpmert[parquet]", path=path) from error
    return pyarrow, parquet


def _by_content(stream: io.BufferedReader, path: str | Path) -> str:
    head = stream.peek()
    if head.startswith(_PARQUET_MAGIC):
        return "parquet"
    first_line = head.split(b"\n", 1)[0]
    if head.removeprefix(BYTE_ORDER_MARK).startswith(b"{"):
        return "jsonl"
    for kind, separator in (("tsv", b"\t"), ("csv", b",")):
        if separator in first_line:
            return kind
    raise DataError(
        "empty file" if not head else f"cannot tell the format; give format, one of {listed(TABLES)}", path=path
    )


def _csv_records(lines: Lines, path: str | Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((f"{line}\n" for _, line in lines), strict=True)
    while True:
        start = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            trouble = f"not CSV ({error}); close every quote, and write a quote inside a quoted cell twice"
            raise DataError(trouble, path=path, line=start) from error
        yield start, cells or [""]


def _delimited_rows(
    records: Iterator[tuple[int, list[str]]], path: str | Path, columns: Sequence[str]
) -> Iterator[Row]:
    first = next(records, None)
    if first is None:
        raise DataError("empty file", path=path)
    header_line, header = first
    pick = _picker(header, columns, path, header_line)
    width = len(header)
    for number, cells in records:
        if len(cells) != width:
            trouble = "empty line; delete it" if cells == [""] else f"{len(cells)} cells, but the header has {width}"
            raise DataError(trouble, path=path, line=number)
        yield number, pick(cells)


def _picker(
    header: Sequence[str], columns: Sequence[str], path: str | Path, line: int | None
) -> Callable[[Any], tuple[Any, ...]]:
    """Return what takes the wanted cells out of a row; checks that each column is there once."""
    twice = repeated(header)
    if twice is not None:
        raise DataError(f"two columns are called {quoted(twice)}; rename one", path=path, line=line)
    for name in columns:
        if name not in header:
            raise DataError(f"no column {quoted(name)}; the columns are {listed(header)}", path=path, line=line)
    return itemgetter(*(header.index(name) for name in columns))


def _jsonl_rows(lines: Lines, path: str | Path, columns: Sequence[str]) -> Iterator[Row]:
    decoder = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_refuse_constant)
    pick = itemgetter(*columns)
    number = 0
    for number, line in lines:
        if not line.strip():
            raise DataError("empty line; delete it", path=path, line=number)
        try:
            record = decoder.decode(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"not one JSON object ({error})", path=path, line=number) from error
        if not isinstance(record, dict):
            raise DataError(f"not a JSON object but {reprlib.repr(record)}", path=path, line=number)
        try:
            yield number, pick(record)
        except KeyError as error:
            keys = ", ".join(record)
            raise DataError(f"no key {quoted(error.args[0])}; the keys are {keys}", path=path, line=number) from error
    if not number:
        raise DataError("empty file", path=path)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object; raises `ValueError` if a key occurs twice."""
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError(f"the key {quoted(repeated(key for key, _ in pairs))} occurs twice")
    return record


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a finite number")


def _parquet_rows(stream: io.BufferedReader, path: str | Path, columns: Sequence[str]) -> Iterator[Row]:
    pyarrow, parquet = import_parquet(path)
    try:
        file = parquet.ParquetFile(io.BytesIO(whole(stream, path)))
        _picker(file.schema_arrow.names, columns, path, None)
        number = 0
        for batch in file.iter_batches(_PARQUET_BATCH, columns=list(dict.fromkeys(columns))):
            for cells in zip(*(batch.column(name).to_pylist() for name in columns), strict=True):
                number += 1
                yield number, cells
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DataError(f"cannot be read as Parquet: {error}", path=path) from error
