"""N-best lists from tables with one hypothesis a row (TSV, CSV, JSON lines, Parquet), and back."""

from __future__ import annotations

import csv
import json
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from lpmert.errors import DataError, FloatArray
from lpmert.formats.format import Format
from lpmert.formats.gains import losses_of_gains, truth_as_numbers
from lpmert.formats.named import number_text
from lpmert.formats.rows import Row, format_of_name, guess_format, import_parquet, read_rows, repeated
from lpmert.model.nbest import MAGNITUDE_LIMIT, NBest
from lpmert.quoting import listed, quoted
from lpmert.registry import TABLES
from lpmert.system.files import atomic_writer, line_limit, open_bytes

_BLOCK_ROWS = 1 << 15


def read_table(
    path: str | Path,
    *,
    segment: str,
    features: Sequence[str] | str,
    loss: str | None = None,
    statistics: Sequence[str] | str | None = None,
    gain: str | None = None,
    text: str | None = None,
    group: bool = False,
    format: str | None = None,
    max_line_length: int | None = None,
) -> NBest:
    """Read N-best lists from a table with one hypothesis a row and named columns.

    Parameters
    ----------
    path : str or Path
        The file; compression is found out, `-` is standard input.
    segment : str
        The column whose value says which list a row belongs to.
    features : sequence of str, or str
        The columns of the features, as a sequence or joined by commas.
    loss : str, optional
        The column of an additive loss.
    statistics : sequence of str, or str, optional
        The columns that the metric sums, instead of `loss`.
    gain : str, optional
        The column of what is better if it is higher, instead of `loss`: numbers, or true and false. The loss is 1 -
        gain where all gains lie between 0 and 1, or else minus the gain.
    text : str, optional
        The column of the hypothesis itself.
    group : bool
        Gather the rows of a list that lie apart, in order of appearance; otherwise they have to follow one another.
    format : {"tsv", "csv", "jsonl", "parquet"}, optional
        TSV (a quote is text), CSV (quoted as usual), JSON lines (an object a line) or Parquet; by default the ending
        says which, or else the content.
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
    if gain is not None and (loss is not None or statistics is not None):
        raise DataError("gain takes the place of loss and statistics; give one of them", path=path)
    wanted = _Columns.of(path, segment, features, gain if loss is None else loss, statistics, text)
    if format is not None and format not in TABLES:
        raise DataError(f"no format {quoted(format)}; the formats are {listed(TABLES)}", path=path)
    with line_limit(max_line_length), open_bytes(path) as stream:
        kind = format or guess_format(stream, path)
        nbest = _collect(read_rows(stream, path, kind, wanted.all), _Place(path, kind, gain), wanted, group)
    return nbest if gain is None else losses_of_gains(nbest)


def write_table(
    nbest: NBest, path: str | Path, *, segment: str = "list", text: str = "text", format: str | None = None
) -> None:
    """Write N-best lists as a table that `read_table` reads back to exactly the same numbers.

    The columns are `segment`, the features, the statistics and, where there are texts, `text`. The format is the one
    given or that of the name, else TSV. The file appears whole or not at all and is compressed if its name ends in .gz,
    .xz or .zst. Raises `DataError` where two columns have the same name, or a name, an id or a text holds what the
    format cannot: a tab or a line end in TSV, a carriage return in CSV.
    """
    kind = format or format_of_name(path) or "tsv"
    if kind not in TABLES:
        raise DataError(f"no format {quoted(kind)}; the formats are {listed(TABLES)}", path=path)
    header = [segment, *nbest.names, *nbest.statistic_names, *([] if nbest.texts is None else [text])]
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
        _write_rows(stream, kind, header, _cells(nbest), path)


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


def _write_rows(stream: TextIO, kind: str, header: Sequence[str], rows: Iterator[list[Any]], path: str | Path) -> None:
    if kind == "tsv":
        stream.writelines("\t".join(_strings(cells)) + "\n" for cells in chain([header], rows))
    elif kind == "csv":
        csv.writer(stream, lineterminator="\n").writerows(map(_strings, chain([header], rows)))
    elif kind == "jsonl":
        records = (dict(zip(header, cells, strict=True)) for cells in rows)
        stream.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    else:
        pyarrow, parquet = import_parquet(path)
        columns = [pyarrow.array(column) for column in zip(*rows, strict=True)]
        parquet.write_table(pyarrow.Table.from_arrays(columns, names=list(header)), stream.buffer)


_REFUSED = {"tsv": ("\t\n\r", "a tab or a line end"), "csv": ("\r", "a carriage return")}
"""Characters that a format cannot hold, or that would not read back as they are."""


@dataclass(frozen=True)
class _Columns:
    """The wanted columns: the key first, then the numbers (features, then statistics), then the text if any."""

    segment: str
    features: tuple[str, ...]
    statistics: tuple[str, ...]
    text: str | None

    @classmethod
    def of(
        cls,
        path: str | Path,
        segment: str,
        features: Sequence[str] | str,
        loss: str | None,
        statistics: Sequence[str] | str | None,
        text: str | None,
    ) -> _Columns:
        if (loss is None) == (statistics is None):
            raise DataError("give either loss (one column) or statistics (several columns)", path=path)
        chosen = (loss,) if loss is not None else _split(statistics or ())
        columns = cls(segment, _split(features), chosen, text)
        for what, names in (("features", columns.features), ("statistics", columns.statistics)):
            if not names:
                raise DataError(f"{what} names no column; give at least one", path=path)
            twice = repeated(names)
            if twice is not None:
                raise DataError(f"{what} names the column {quoted(twice)} twice; name it once", path=path)
        return columns

    @property
    def numbers(self) -> tuple[str, ...]:
        return self.features + self.statistics

    @property
    def all(self) -> list[str]:
        return [self.segment, *self.numbers, *([] if self.text is None else [self.text])]


def _split(names: Sequence[str] | str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(names)


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
        return "row" if self.kind == "parquet" else "line"

    def error(self, line: int, message: str) -> DataError:
        if self.unit == "row":
            return DataError(f"row {line}: {message}", path=self.path)
        return DataError(message, path=self.path, line=line)


def _collect(rows: Iterator[Row], place: _Place, wanted: _Columns, group: bool) -> NBest:
    lists = _Lists(place, wanted.segment, group)
    numbers: list[FloatArray] = []
    texts: list[str] = []
    while block := list(islice(rows, _BLOCK_ROWS)):
        lines = [line for line, _ in block]
        keys, *columns = zip(*(cells for _, cells in block), strict=True)
        lists.add(lines, keys)
        if wanted.text is not None:
            texts += _checked_texts(columns.pop(), lines, wanted.text, place)
        named = zip(columns, wanted.numbers, strict=True)
        numbers.append(np.column_stack([_checked_numbers(cells, lines, name, place) for cells, name in named]))
    if not numbers:
        raise DataError("no rows; a table needs at least one hypothesis", path=place.path)
    table = np.concatenate(numbers)
    owners = np.array(lists.owners)
    if group:
        order = np.argsort(owners, kind="stable")
        table = table[order]
        texts = [texts[row] for row in order.tolist()] if texts else texts
    n_features = len(wanted.features)
    return NBest(
        features=table[:, :n_features],
        offsets=np.concatenate([[0], np.cumsum(np.bincount(owners))]),
        statistics=table[:, n_features:],
        names=wanted.features,
        list_ids=list(lists.begun),
        statistic_names=wanted.statistics,
        texts=None if wanted.text is None else texts,
    )


class _Lists:
    """Which list each row belongs to."""

    def __init__(self, place: _Place, segment: str, group: bool) -> None:
        self.place, self.segment, self.group = place, segment, group
        self.owners: list[int] = []
        self.begun: dict[str, tuple[int, int]] = {}  # number of the list, and line of its first row
        self._last: Any = None

    def add(self, lines: Sequence[int], keys: Sequence[Any]) -> None:
        number = self.owners[-1] if self.owners else 0
        for line, key in zip(lines, keys, strict=True):
            if key != self._last or type(key) is not type(self._last):
                number = self._number(line, key)
                self._last = key
            self.owners.append(number)

    def _number(self, line: int, key: Any) -> int:
        if key is None or key == "":
            raise self.place.error(
                line, f"column {quoted(self.segment)} is empty; it must say which list the row belongs to"
            )
        if type(key) not in (str, int):
            raise self.place.error(
                line, f"column {quoted(self.segment)} is {reprlib.repr(key)}, not a string or an integer"
            )
        number, first = self.begun.setdefault(str(key), (len(self.begun), line))
        if first != line and number != self.owners[-1] and not self.group:
            _, other = list(self.begun.values())[number + 1]
            raise self.place.error(
                line,
                f"list {quoted(str(key))} comes back here; it began on {self.place.unit} {first} and another list on "
                f"{self.place.unit} {other}; sort the rows, or gather them with group=True (--group)",
            )
        return number


def _checked_numbers(cells: Sequence[Any], lines: Sequence[int], name: str, place: _Place) -> FloatArray:
    if name == place.gain:
        cells = truth_as_numbers(cells, textual=place.textual)
    if _plausible(cells, place.textual):
        try:
            numbers = np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
        except (ValueError, OverflowError):
            numbers = np.full(1, np.nan)
        if (np.abs(numbers) <= MAGNITUDE_LIMIT).all():
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
    if cell is None or cell == "":
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
        return f"is {shown}, not a finite number in double precision"
    return f"is {shown}, beyond {MAGNITUDE_LIMIT:g}; rescale it" if abs(number) > MAGNITUDE_LIMIT else None


def _checked_texts(cells: Sequence[Any], lines: Sequence[int], name: str, place: _Place) -> Sequence[str]:
    if set(map(type, cells)) != {str}:
        line, cell = next(pair for pair in zip(lines, cells, strict=True) if type(pair[1]) is not str)
        raise place.error(line, f"column {quoted(name)} is {reprlib.repr(cell)}, not a string")
    return cells


TSV = Format("table with tabs", read_table, write_table, fixed={"format": "tsv"})
CSV = Format("table with commas", read_table, write_table, fixed={"format": "csv"})
JSONL = Format("JSON lines, one hypothesis a line", read_table, write_table, fixed={"format": "jsonl"})
PARQUET = Format("Parquet table", read_table, write_table, fixed={"format": "parquet"})
