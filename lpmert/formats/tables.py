"""N-best lists from tables with one hypothesis a row (TSV, CSV, JSON, Parquet, data frames), and back."""

from __future__ import annotations

import csv
import io
import json
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.formats.columns import SEGMENT, TEXT, Columns, Head, Wanted, header_of, losses_of_gains, truth_as_numbers
from lpmert.formats.format import Format
from lpmert.formats.json_rows import json_blocks
from lpmert.formats.numbers import ROUNDED, number_text, repeated
from lpmert.formats.rows import (
    RECORDED,
    Block,
    Choose,
    Runs,
    delimited_blocks,
    format_of_name,
    frame_blocks,
    guess_format,
    import_parquet,
    parquet_blocks,
    record_of,
)
from lpmert.formats.utterances import References, with_references
from lpmert.model.arrays import EXACT_INTEGERS, MAGNITUDE_LIMIT, checked_sequence, is_rounded, rounds
from lpmert.model.nbest import NBest
from lpmert.numeric.lists import joined
from lpmert.quoting import listed, quoted
from lpmert.registry import TABLES
from lpmert.system.files import atomic_writer, line_limit, open_bytes
from lpmert.system.mapped import MANY, Spool, is_mapped, taken
from lpmert.system.memory import room_for

if TYPE_CHECKING:
    from lpmert.metrics.text import TextMetric


def read_table(
    path: str | Path | Any,
    *,
    segment: str | None = None,
    features: Sequence[str] | str | None = None,
    loss: str | None = None,
    statistics: Sequence[str] | str | None = None,
    gain: str | None = None,
    text: str | None = None,
    references: References | Sequence[str | Path] | None = None,
    metric: str | TextMetric = "wer",
    partial: bool = False,
    by_position: bool = False,
    group: bool = False,
    format: str | None = None,
    max_line_length: int | None = None,
) -> NBest:
    """Read N-best lists from a table with one hypothesis a row and named columns.

    What is left out is taken from a Parquet file that `write_table` wrote, or from the names of the columns where they
    are in the order in which `write_table` writes them: `list` (or `segment`), features, `loss` (or `errors`, or the
    statistics of a metric), `text`.

    Parameters
    ----------
    path : str, Path or data frame
        The file; compression is found out, `-` is standard input. Or a data frame of pandas or polars, a table of
        pyarrow, or a mapping of columns by name.
    segment : str, optional
        The column whose value says which list a row belongs to.
    features : sequence of str, or str, optional
        The columns of the features, as a sequence or joined by commas: names, patterns such as `LM*`, or `all` for
        those that nothing else names.
    loss : str, optional
        The column of an additive loss.
    statistics : sequence of str, or str, optional
        The columns that the metric sums, instead of `loss`.
    gain : str, optional
        The column of what is better if it is higher, instead of `loss`: numbers, or true and false. The loss is 1 -
        gain where all gains lie between 0 and 1, or else minus the gain.
    text : str, optional
        The column of the hypothesis itself.
    references : str, Path, mapping or sequence of files, optional
        What the texts should be, by list: the statistics are counted from the texts instead of read; see
        `lpmert.formats.utterances.with_references`.
    metric : str or TextMetric
        What is counted then: a name or an object of `lpmert.metrics.text`.
    partial : bool
        Whether there may be references without a list.
    by_position : bool
        Whether the lines of references are sentences in order, the first for list 0, whatever they look like.
    group : bool
        Gather the rows of a list that lie apart, in order of appearance; otherwise they have to follow one another.
    format : {"tsv", "csv", "jsonl", "json", "parquet"}, optional
        TSV (a quote is text), CSV (quoted as usual), JSON lines (an object a line), one JSON document or Parquet; by
        default the ending says which, or else the content. In JSON a column is a path of keys joined by dots.
    max_line_length : int, optional
        Most bytes of a line, 64 MiB by default.

    Returns
    -------
    NBest
        The lists.

    Raises
    ------
    DataError
        With path, line and column (in Parquet: row) for whatever cannot be used.

    Examples
    --------
    >>> import lpmert
    >>> lists = lpmert.read_table(
    ...     "examples/asr/nbest.tsv.gz", segment="utterance", features="am,lm,words", loss="errors"
    ... )
    >>> lists.n_lists, lists.n_hypotheses
    (250, 25000)
    """
    name = path if isinstance(path, str | Path) else f"{type(path).__name__} given"
    if gain is not None and (loss is not None or statistics is not None or references is not None):
        raise DataError("gain takes the place of loss and statistics; give one of them", path=name)
    losses = gain if loss is None else loss
    wanted = replace(wanted_columns(name, segment, features, losses, statistics, text), measured=references is not None)
    if format is not None and format not in TABLES:
        raise DataError(f"no format {quoted(format)}; the formats are {listed(TABLES)}", path=name)
    chosen: list[tuple[Head, Columns]] = []

    def choose(head: Head) -> Columns:
        chosen.append((head, wanted.choose(head, name)))
        return chosen[0][1]

    if isinstance(path, str | Path):
        with line_limit(max_line_length), open_bytes(path) as stream:
            kind = format or guess_format(stream, path)
            nbest = _collect(_blocks(stream, path, kind, choose), _Place(path, kind, gain), chosen, group)
    else:
        nbest = _collect(frame_blocks(path, choose), _Place(name, "frame", gain), chosen, group)
    if gain is not None:
        return losses_of_gains(nbest)
    return nbest if references is None else with_references(nbest, references, metric, partial, by_position)


def _blocks(stream: io.BufferedReader, path: str | Path, kind: str, choose: Choose) -> Iterator[Block]:
    if kind == "parquet":
        return parquet_blocks(stream, path, choose)
    if kind in ("jsonl", "json"):
        return json_blocks(stream, path, kind, choose)
    return delimited_blocks(stream, path, kind, choose)


def wanted_columns(
    path: str | Path | None,
    segment: str | None,
    features: Sequence[str] | str | None,
    loss: str | None,
    statistics: Sequence[str] | str | None,
    text: str | None,
) -> Wanted:
    """Return what the caller says of the columns; raises `DataError` where that contradicts itself."""
    if loss is not None and statistics is not None:
        raise DataError("give either loss (one column) or statistics (several columns)", path=path)
    wanted = Wanted(
        segment, _split(features, "features"), (loss,) if loss is not None else _split(statistics, "statistics"), text
    )
    for what, names in (("features", wanted.features), ("statistics", wanted.statistics)):
        if names == ():
            raise DataError(f"{what} names no column; give at least one", path=path)
        twice = repeated(names or ())
        if twice is not None:
            raise DataError(f"{what} names the column {quoted(twice)} twice; name it once", path=path)
    return wanted


def _split(names: Sequence[str] | str | None, what: str) -> tuple[str, ...] | None:
    if names is None:
        return None
    return (
        tuple(name.strip() for name in names.split(","))
        if isinstance(names, str)
        else tuple(checked_sequence(names, what))
    )


@dataclass(frozen=True)
class _Place:
    """Where a table comes from, to say so in errors."""

    path: str | Path
    kind: str
    gain: str | None = None

    @property
    def textual(self) -> bool:
        """Whether numbers come as text."""
        return self.kind in ("tsv", "csv")

    @property
    def unit(self) -> str:
        return "row" if self.kind in ("parquet", "frame") else "line"

    def error(self, line: int, message: str) -> DataError:
        if self.unit == "row":
            return DataError(f"row {line}: {message}", path=self.path)
        return DataError(message, path=self.path, line=line)


def _collect(blocks: Iterator[Block], place: _Place, chosen: Sequence[tuple[Head, Columns]], group: bool) -> NBest:
    """Return the lists of blocks; `chosen` holds head and columns as soon as the first block is there."""
    texts: list[str] = []
    lists: _Lists | None = None
    for block in blocks:
        if lists is None:
            head, wanted = chosen[0]
            lists = _Lists(place, wanted.segment, group)
            features, statistics = _Rows(head.rows), _Rows(head.rows)
        room_for(0, "reading")
        keys, *columns = block.columns
        lists.add(block.lines, keys)
        if wanted.text is not None:
            texts += _checked_texts(columns.pop(), block.lines, wanted.text, place)
        arrays = [
            _checked_numbers(cells, block.lines, name, place)
            for cells, name in zip(columns, wanted.numbers, strict=True)
        ]
        features.add(arrays[: len(wanted.features)])
        statistics.add(arrays[len(wanted.features) :] or [np.zeros(len(block.lines))])
    if lists is None:
        raise DataError("no rows, only names of columns; write one row for each hypothesis", path=place.path)
    order, offsets = lists.order_and_offsets()
    tables = [rows.whole() for rows in (features, statistics)]
    if order is not None:
        room_for(0 if is_mapped(tables[0]) else sum(table.nbytes for table in tables), "gathering the rows of lists")
        tables = [taken(table, order) for table in tables]
    if order is not None and texts:
        texts = [texts[row] for row in order.tolist()]
    return NBest(
        tables[0],
        offsets,
        tables[1],
        names=wanted.features,
        list_ids=list(lists.begun),
        statistic_names=wanted.statistic_names or None,
        texts=None if wanted.text is None else texts,
        copy=False,
    )


class _Rows:
    """Rows of numbers that come in blocks, gathered without a second copy of all; many of them in a file.

    size: their number, if known.
    """

    def __init__(self, size: int | None) -> None:
        self._size, self._filled = size, 0
        self._rows: FloatArray | None = None
        self._blocks: list[FloatArray] = []
        self._spool: Spool | None = None

    def add(self, columns: Sequence[FloatArray]) -> None:
        """Append rows, given by columns."""
        self._width = len(columns)
        if self._spool is None and (self._size or sum(map(len, [*self._blocks, columns[0]]))) >= MANY:
            self._spool = Spool()
            while self._blocks:
                self._spool.add(self._blocks.pop(0))
        if self._spool is not None:
            self._spool.add(np.column_stack(columns))
            return
        if self._size is None:
            self._blocks.append(np.column_stack(columns))
            return
        if self._rows is None:
            room_for(8 * self._size * len(columns), "reading")
            self._rows = np.empty((self._size, len(columns)))
        for place, column in enumerate(columns):
            self._rows[self._filled : self._filled + len(column), place] = column
        self._filled += len(columns[0])

    def whole(self) -> FloatArray:
        """Return all rows, and forget the blocks one by one."""
        if self._spool is not None:
            return self._spool.array(self._width)
        if self._rows is not None:
            return self._rows
        room_for(sum(block.nbytes for block in self._blocks), "reading")
        return joined(self._blocks)


class _Lists:
    """Which list each row belongs to."""

    def __init__(self, place: _Place, segment: str | None, group: bool) -> None:
        self.place, self.segment, self.group = place, segment or "", group
        self.begun: dict[str, tuple[int, int, type]] = {}  # number of the list, line and type of its first id
        self._runs: list[tuple[int, int]] = []  # number of a list, and how many rows follow one another
        self._last: Any = None

    def add(self, lines: Sequence[int], keys: Any) -> None:
        """Append rows by the cells that name their list."""
        first = 0
        for key, size in zip(*keys, strict=True) if isinstance(keys, Runs) else _runs(keys):
            if self._runs and key == self._last and type(key) is type(self._last):
                number = self._runs[-1][0]
            else:
                number = self._number(lines[first], key)
            self._last = key
            self._runs.append((number, size))
            first += size

    def order_and_offsets(self) -> tuple[IntArray | None, IntArray]:
        """Return the rows in the order of their lists, `None` if they are in it, and where each list begins."""
        owners, sizes = np.array(self._runs, dtype=np.int64).T
        counts = np.bincount(owners, weights=sizes).astype(np.int64)
        order = None
        if (np.diff(owners) < 0).any():
            order = np.argsort(np.repeat(owners, sizes), kind="stable")
        return order, np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])

    def _number(self, line: int, key: Any) -> int:
        if key is None or key == "":
            raise self.place.error(
                line, f"column {quoted(self.segment)} is empty; it must say which list the row belongs to"
            )
        if type(key) not in (str, int):
            raise self.place.error(
                line, f"column {quoted(self.segment)} is {reprlib.repr(key)}, not a string or an integer"
            )
        number, first, kind = self.begun.setdefault(str(key), (len(self.begun), line, type(key)))
        if kind is not type(key):
            raise self.place.error(
                line,
                f"list {quoted(key)} is {quoted(kind(key))} on {self.place.unit} {first}; write all ids of lists as "
                "strings, or all as numbers",
            )
        if first != line and number != self._runs[-1][0] and not self.group:
            _, other, _ = list(self.begun.values())[number + 1]
            raise self.place.error(
                line,
                f"list {quoted(str(key))} comes back here; it began on {self.place.unit} {first} and another list on "
                f"{self.place.unit} {other}; sort the rows, or gather them with group=True (--group)",
            )
        return number


def _runs(keys: Any) -> Iterator[tuple[Any, int]]:
    """Yield the cells that are equal and follow one another, and how many they are."""
    keys = keys.tolist() if isinstance(keys, np.ndarray) else keys
    # 1 and true are equal, and no two of one type are that should not be
    kinds = None if len(set(map(type, keys))) <= 1 else lambda key: (type(key), key)
    for _, run in groupby(keys, kinds):
        same = list(run)
        yield same[0], len(same)


def _checked_numbers(cells: Any, lines: Sequence[int], name: str, place: _Place) -> FloatArray:
    if name == place.gain:
        cells = truth_as_numbers(cells, textual=place.textual)
    if isinstance(cells, np.ndarray):
        numbers = np.full(1, np.nan) if is_rounded(cells) else cells.astype(np.float64)
        if len(numbers) and -MAGNITUDE_LIMIT <= numbers.min() <= numbers.max() <= MAGNITUDE_LIMIT:
            return numbers
        cells = cells.tolist()
    if _plausible(cells, place.textual):
        try:
            numbers = np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
        except (ValueError, OverflowError):
            numbers = np.full(1, np.nan)
        size = np.abs(numbers).max(initial=0.0)  # NaN if one is
        if size < EXACT_INTEGERS or (size <= MAGNITUDE_LIMIT and not any(map(rounds, cells))):
            return numbers
    troubles = ((line, _trouble(cell, place.textual)) for line, cell in zip(lines, cells, strict=True))
    line, trouble = next(found for found in troubles if found[1])
    raise place.error(line, f"column {quoted(name)} {trouble}")


def _plausible(cells: Sequence[Any], textual: bool) -> bool:
    """Whether `float` may be asked: it takes underscores, digits of other scripts, and truth values, for numbers."""
    if not textual:
        return set(map(type, cells)) <= {int, float}
    joined = "".join(cells)
    return "_" not in joined and joined.isascii()


def _trouble(cell: Any, textual: bool) -> str | None:
    """Say what is wrong with a cell that should be a number."""
    if cell is None or (isinstance(cell, str) and cell == ""):
        return "is empty; every hypothesis needs a number"
    shown = reprlib.repr(cell)
    if str(cell).strip().lower() in ("true", "false"):
        return f"is {shown}, not a number; if true is better, read the column as gain (--gain)"
    if not _plausible([cell], textual):
        return f"is {shown}, not a number"
    try:
        number = float(cell)
    except ValueError:
        return f"is {shown}, not a number"
    except OverflowError:
        number = np.inf
    if not np.isfinite(number):
        return f"is {shown}, not a finite number in double precision; correct it, or leave the hypothesis out"
    if abs(number) > MAGNITUDE_LIMIT:
        return f"is {shown}, beyond {MAGNITUDE_LIMIT:g}; rescale it"
    return f"is {shown}, {ROUNDED}" if rounds(cell) else None


def _checked_texts(cells: Sequence[Any], lines: Sequence[int], name: str, place: _Place) -> Sequence[str]:
    if set(map(type, cells)) != {str}:
        line, cell = next(pair for pair in zip(lines, cells, strict=True) if type(pair[1]) is not str)
        raise place.error(line, f"column {quoted(name)} is {reprlib.repr(cell)}, not a string")
    return cells


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

TSV = Format("table with tabs", read_table, write_table, fixed={"format": "tsv"})
CSV = Format("table with commas", read_table, write_table, fixed={"format": "csv"})
JSONL = Format("JSON lines, one hypothesis a line", read_table, write_table, fixed={"format": "jsonl"})
JSON = Format("JSON document: records, or arrays for columns", read_table, write_table, fixed={"format": "json"})
PARQUET = Format("Parquet table", read_table, write_table, fixed={"format": "parquet"})
