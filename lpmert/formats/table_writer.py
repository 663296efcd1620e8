"""N-best lists as tables with one hypothesis a row: TSV, CSV, JSON lines, a JSON array, Parquet."""

from __future__ import annotations

import csv
import json
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from lpmert.errors import DataError
from lpmert.formats.named import number_text
from lpmert.formats.roles import SEGMENT, TEXT, Columns, header_of
from lpmert.formats.rows import RECORDED, format_of_name, import_parquet, record_of
from lpmert.formats.unique import repeated
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted
from lpmert.registry import TABLES
from lpmert.system.files import atomic_writer


def write_table(
    nbest: NBest, path: str | Path, *, segment: str = SEGMENT, text: str = TEXT, format: str | None = None
) -> None:
    """Write N-best lists as a table that `read_table` reads back to exactly the same numbers.

    The columns are `segment`, the features, the statistics and, where there are texts, `text`. Parquet records which
    they are; elsewhere statistics whose names would not tell are written as `statistic:name`, so that `read_table`
    finds all columns by itself unless they are renamed. The format is the one given or that of the name, else TSV. The
    file appears whole or not at all and is compressed if its name ends in .gz, .xz or .zst. Raises `DataError` where
    two columns have the same name, or a name, an id or a text holds what the format cannot: a tab or a line end in TSV,
    a carriage return in CSV.
    """
    kind = format or format_of_name(path) or "tsv"
    if kind not in TABLES:
        raise DataError(f"no format {quoted(kind)}; the formats are {listed(TABLES)}", path=path)
    columns = Columns(segment, nbest.names, nbest.statistic_names, None if nbest.texts is None else text)
    header = columns.all if kind == "parquet" else header_of(columns)
    twice = repeated(header)
    if twice is not None:
        raise DataError(
            f"two columns would be called {quoted(twice)}; rename a feature, or set segment or text", path=path
        )
    characters, what = _REFUSED.get(kind, ("", ""))
    for cell in chain(header, nbest.list_ids, nbest.texts or ()):
        if any(character in cell for character in characters):
            shown = f"{reprlib.repr(cell)} holds {what}, which {kind.upper()} cannot"
            raise DataError(f"{shown}; replace it, or choose another format", path=path)
    with atomic_writer(path) as stream:
        _write_rows(stream, kind, header, _cells(nbest), columns, path)


def _cells(nbest: NBest) -> Iterator[list[Any]]:
    """Yield the cells of each row."""
    for number, list_id in enumerate(nbest.list_ids):
        start, end = nbest.offsets[number : number + 2].tolist()
        block = nbest.features[start:end]
        dense = block if isinstance(block, np.ndarray) else block.toarray()
        for hypothesis, numbers in enumerate(np.hstack([dense, nbest.statistics[start:end]]).tolist(), start):
            yield [list_id, *numbers, *([] if nbest.texts is None else [nbest.texts[hypothesis]])]


def _strings(cells: Iterable[Any]) -> list[str]:
    return [cell if isinstance(cell, str) else number_text(cell) for cell in cells]


def _write_rows(
    stream: TextIO, kind: str, header: Sequence[str], rows: Iterator[list[Any]], columns: Columns, path: str | Path
) -> None:
    if kind == "tsv":
        stream.writelines("\t".join(_strings(cells)) + "\n" for cells in chain([header], rows))
    elif kind == "csv":
        csv.writer(stream, lineterminator="\n").writerows(map(_strings, chain([header], rows)))
    elif kind in ("jsonl", "json"):
        records = (dict(zip(header, cells, strict=True)) for cells in rows)
        lines = (json.dumps(record, ensure_ascii=False) for record in records)
        if kind == "json":
            stream.write("[\n" + next(lines))
            stream.writelines(f",\n{line}" for line in lines)
            stream.write("\n]\n")
        else:
            stream.writelines(f"{line}\n" for line in lines)
    else:
        pyarrow, parquet = import_parquet(path)
        arrays = [pyarrow.array(column) for column in zip(*rows, strict=True)]
        table = pyarrow.Table.from_arrays(arrays, names=list(header))
        parquet.write_table(table.replace_schema_metadata({RECORDED: record_of(columns)}), stream.buffer)


_REFUSED = {"tsv": ("\t\n\r", "a tab or a line end"), "csv": ("\r", "a carriage return")}
"""Characters that a format cannot hold, or that would not read back as they are."""
