"""N-best lists in tables with one hypothesis a row (TSV, CSV, JSON, Parquet, data frames), and in JSON with one list a
record: read and written.
"""

from __future__ import annotations

import csv
import json
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from lpmert.errors import DataError, FloatArray
from lpmert.files import atomic_writer, open_bytes
from lpmert.formats.columns import (
    TEXT,
    TRUTH,
    Block,
    ColumnError,
    Columns,
    ColumnsNeeded,
    Names,
    Table,
    Wanted,
    header_of,
    losses_of_gains,
    truth_as_numbers,
)
from lpmert.formats.format import Format, Place, Pool, number_text, plain_numbers, trouble_of_number, warn_of_quotes
from lpmert.formats.rows import import_parquet, in_blocks, json_kind, json_records, open_table, runs_of
from lpmert.limits import room_for
from lpmert.model.arrays import MAGNITUDE_LIMIT, is_rounded
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted, repeated

_TEXTUAL = ("tsv", "csv")  # formats in which numbers are written as text
_SAMPLED_ROWS, _SAMPLED_CELLS = 20_000, 1_000_000  # most rows and cells of a table for suggestions of columns


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
    """Read N-best lists from a table with one hypothesis a row and named columns; `lpmert.read` describes the options.

    path: the file, or a data frame or mapping of columns. Roles that are not named are recognised where the columns are
    in the order of `write_table`: `list` (or `segment`), features, `loss` (or `errors`, or the statistics of a metric),
    `text`. format: of a file, one of `TABLES`: in TSV a quote is text.
    """
    name = path if isinstance(path, str | Path) else f"{type(path).__name__} given"
    wanted = Wanted.of(features, loss, statistics, gain, counted, name)
    with open_table(path, name, format) as table:
        try:
            columns = wanted.choose(table, segment, text, counted)
        except ColumnsNeeded as error:
            _suggest(error, table, textual=format in _TEXTUAL, group=group, costs=counted is not None)
            raise
        nbest = _Rows(name, format or "frame", columns, gain, group).collected(table.blocks(columns))
    return nbest if gain is None else losses_of_gains(nbest)


def _suggest(error: ColumnsNeeded, table: Table, *, textual: bool, group: bool, costs: bool) -> None:
    """Add likely columns to an error, judged by the first rows, or by the names alone if these cannot be read."""
    names = list(table.names)
    if table.spread:
        once = [name for name in names if name not in table.spread]  # of the record, such as the id
        names = [*([error.known.segment] if error.known.segment in once else once[:1]), *table.spread]
    cells: dict[str, Any] = {name: [] for name in names}
    try:
        block = next(table.blocks(Columns(names[0], tuple(names[1:]), (), None)), None) if names else None
    except DataError as trouble:
        error.trouble, block = str(trouble), None
    if block is not None:
        most = min(_SAMPLED_ROWS, _SAMPLED_CELLS // len(names) + 1)
        cells = {name: column[:most] for name, column in zip(names, block.columns, strict=True)}
    error.suggest(cells, textual=textual, group=group, costs=costs)


class _Rows:
    """Checks the rows of a table and collects them into lists."""

    def __init__(
        self, path: str | Path, kind: str, columns: Columns, gain: str | None = None, group: bool = False
    ) -> None:
        self.path, self.kind, self.columns, self.gain, self.group = path, kind, columns, gain, group
        self.textual = kind in _TEXTUAL
        self.pool = Pool()
        self.types: dict[str, type] = {}  # of the first id of each list

    def collected(self, blocks: Iterator[Block]) -> NBest:
        columns = self.columns
        for block in blocks:
            room_for(0, "reading")
            keys, *cells = block.columns
            self._add_lists(block.lines, keys)
            if columns.text is not None:
                self.pool.texts += self._texts(cells.pop(), block.lines, columns.text)
            arrays = [self._numbers(*column, block.lines) for column in zip(cells, columns.numbers, strict=True)]
            split, size = len(columns.features), len(block.lines)
            self.pool.features.add(columns.features, np.column_stack(arrays[:split]), size)
            self.pool.statistics.add(np.column_stack(arrays[split:] or [np.zeros(size)]), size)
        if not len(self.pool):
            raise DataError("no rows, only names of columns; write one row for each hypothesis", path=self.path)
        if self.kind == "tsv":
            warn_of_quotes(self.pool.texts, self.path)
        return self.pool.nbest(columns.statistic_names or None, texts=columns.text is not None)

    def _error(self, line: Any, message: str, kind: type[DataError] = DataError) -> DataError:
        if isinstance(line, tuple):
            line, message = line[0], f"candidate {line[1]}: {message}"
        if self.kind in ("parquet", "frame"):
            line, message = None, f"row {line}: {message}"
        return kind(message, path=self.path, line=line)

    def _column_error(self, line: Any, name: str | None, trouble: str) -> DataError:
        return self._error(line, f"column {quoted(name or '')} {trouble}", ColumnError)

    def _add_lists(self, lines: Sequence[Any], keys: Any) -> None:
        first = 0
        for key, size in runs_of(keys):
            line, name = lines[first], self.columns.segment
            if key is None or (isinstance(key, str) and not key):
                raise self._column_error(line, name, "is empty; it must say which list the row belongs to")
            if type(key) not in (str, int):
                raise self._column_error(line, name, f"is {reprlib.repr(key)}, not a string or an integer")
            if self.types.setdefault(str(key), type(key)) is not type(key):
                trouble = f"list {quoted(key)} is {quoted(self.types[str(key)](key))} before"
                raise self._error(line, f"{trouble}; write all ids of lists as strings, or all as numbers")
            self.pool.add(str(key), size, None if self.group else partial(self._error, line))
            first += size

    def _numbers(self, cells: Any, name: str, lines: Sequence[Any]) -> FloatArray:
        if name == self.gain:
            cells = truth_as_numbers(cells, textual=self.textual)
        if isinstance(cells, np.ndarray):
            if not is_rounded(cells):
                exact = cells.astype(np.float64)
                if len(exact) and -MAGNITUDE_LIMIT <= exact.min() <= exact.max() <= MAGNITUDE_LIMIT:
                    return exact
            cells = cells.tolist()
        numbers = plain_numbers(cells, textual=self.textual)
        if numbers is None:
            for line, cell in zip(lines, cells, strict=True):
                if (trouble := self._trouble(cell, name)) is not None:
                    raise self._column_error(line, name, trouble)
        return np.array(cells if numbers is None else numbers, dtype=np.float64)

    def _trouble(self, cell: Any, name: str) -> str | None:
        if cell is None or (isinstance(cell, str) and cell == ""):
            return "is empty; every hypothesis needs a number"
        if name in self.columns.statistics and name != self.gain and str(cell).strip().lower() in TRUTH:
            return f"is {reprlib.repr(cell)}, not a number; if true is better, read the column as gain (--gain)"
        return trouble_of_number(cell, textual=self.textual, part="the hypothesis")

    def _texts(self, cells: Sequence[Any], lines: Sequence[Any], name: str) -> Sequence[str]:
        if set(map(type, cells)) != {str}:
            line, cell = next(pair for pair in zip(lines, cells, strict=True) if type(pair[1]) is not str)
            raise self._column_error(line, name, f"is {reprlib.repr(cell)}, not a string")
        return cells


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
    """Return the cells of each column of lists: ids, features, statistics and, where there are any, texts."""
    ids = np.array(nbest.list_ids, dtype=object)[nbest.list_index]
    texts = [] if nbest.texts is None else [list(nbest.texts)]
    return [ids, *nbest.dense_features().T.copy(), *nbest.statistics.T.copy(), *texts]


def write_table(nbest: NBest, path: str | Path, *, format: str = "tsv") -> None:
    """Write N-best lists as a table of one of `TABLES` that `read_table` reads back to exactly the same numbers.

    The columns are `list`, the features, the statistics and, where there are texts, `text`. Statistics whose names
    would not identify them are written as `statistic:name`, so that `read_table` recognises all columns.
    """
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
            _write_rows(stream, format, header, _cells(nbest))


def _cells(nbest: NBest) -> Iterator[list[Any]]:
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


_LOSS = "loss"
_REFUSED = {"tsv": ("\t\n\r", "a tab or a line end"), "csv": ("\r", "a carriage return")}
"""Characters that would not read back from a format, and what messages call them."""


def read_best_of_n(path: str | Path, *, counted: bool | None = False) -> NBest:
    """Read lines `{"id": ..., "candidates": [{"text": ..., "scores": {name: number, ...}, "loss": number}, ...]}`.

    The file may also be one array of such objects. Every candidate has the same scores, in any order, and one of `loss`
    (a number), `correct` (true or false, or a share from 0 to 1; the loss is 1 - `correct`) or `statistics` (numbers by
    name, for metrics that need several). These are ignored where statistics are `counted` from the texts. `text` is a
    string that all candidates have or none. Other keys are ignored.
    """
    with open_bytes(path) as stream:
        records = json_records(stream, path, json_kind(stream.peek().decode(errors="replace")) or "jsonl")
        rows = _candidates(records, with_outcomes=counted is False)
        columns, first = next(rows)
        return _Rows(path, "jsonl", columns).collected(in_blocks(chain([first], (row for _, row in rows))))


def _candidates(
    records: Iterator[tuple[Place, dict[str, Any]]], *, with_outcomes: bool
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
                for name in found.numbers:
                    _check_unicode(f"{what}: the name", name, place)
            keys = [(sorted(own.features), sorted(own.statistics), own.text) for own in (found, columns)]
            if keys[0] != keys[1]:
                shown = f"has {listed(found.all[1:])}; the candidates before have {listed(columns.all[1:])}"
                raise place.error(f"{what} {shown}; give all the same")
            numbers = [*map(scores.get, columns.features), *map(outcome.get, columns.statistics)]
            yield columns, ((place.line, number), (list_id, *numbers, *([candidate[TEXT]] if found.text else [])))


def _outcome(what: str, candidate: dict[str, Any], place: Place) -> dict[str, Any]:
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


def _named(what: str, key: str, value: Any, place: Place) -> dict[str, Any]:
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
    """Write lists as JSON lines that `read_best_of_n` reads back to exactly the same lists."""
    features, statistics = nbest.dense_features().tolist(), nbest.statistics.tolist()
    with atomic_writer(path) as stream:
        for list_id, (start, end) in zip(nbest.list_ids, pairwise(nbest.offsets.tolist()), strict=True):
            candidates = []
            for row in range(start, end):
                candidate: dict[str, Any] = {} if nbest.texts is None else {TEXT: nbest.texts[row]}
                candidate["scores"] = dict(zip(nbest.names, features[row], strict=True))
                if nbest.statistic_names == (_LOSS,):
                    candidate[_LOSS] = statistics[row][0]
                else:
                    candidate["statistics"] = dict(zip(nbest.statistic_names, statistics[row], strict=True))
                candidates.append(candidate)
            stream.write(json.dumps({"id": list_id, "candidates": candidates}, allow_nan=False) + "\n")


TSV = Format("table with tabs", read_table, write_table, fixed={"format": "tsv"})
CSV = Format("table with commas", read_table, write_table, fixed={"format": "csv"})
JSONL = Format("JSON lines, one hypothesis a line", read_table, write_table, fixed={"format": "jsonl"})
JSON = Format("JSON document: records, or arrays for columns", read_table, write_table, fixed={"format": "json"})
PARQUET = Format("Parquet table", read_table, write_table, fixed={"format": "parquet"})
BEST_OF_N = Format("JSON lines, one list a line", read_best_of_n, write_best_of_n)
