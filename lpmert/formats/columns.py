"""The columns of a table: their roles, named by the caller or recognised; how their rows become lists.

Where neither tells, names and first rows suggest likely roles. Suggestions only appear in the command that an error
proposes; they never decide how lists are read.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.formats.format import Place, Pool, plain_numbers, runs_of, trouble_of_number, warn_of_quotes
from lpmert.limits import room_for
from lpmert.model.arrays import MAGNITUDE_LIMIT, checked_sequence, is_rounded
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted, repeated
from lpmert.registry import LOSSES, named_like_statistics

Names = Sequence[str] | str | None  # names of columns, as a sequence or joined by commas
Cells = Mapping[str, Any]  # the cells of each column, a sequence or an array

SEGMENT, TEXT = "list", "text"
ALL = "all"  # stands for all columns, or features, without another role
SEGMENTS = (SEGMENT, "segment")
_MARK = "statistic:"  # prefix for columns of statistics whose names alone would not identify them
_OPTIONS = {
    "segment": "which list a row belongs to",
    "features": "what the weights are for: names, patterns, or all",
    "loss": "what a hypothesis costs; or statistics: what the metric sums",
    "text": "what is compared with the references",
}


class Columns(NamedTuple):
    """The columns to read, by role; segment is `None` where each record is a list of its own."""

    segment: str | None
    features: tuple[str, ...]
    statistics: tuple[str, ...]
    text: str | None

    @staticmethod
    def of(nbest: NBest) -> Columns:
        return Columns(SEGMENT, nbest.names, nbest.statistic_names, None if nbest.texts is None else TEXT)

    @property
    def all(self) -> list[str]:
        return [name for name in (self.segment, *self.features, *self.statistics, self.text) if name is not None]


class Block(NamedTuple):
    """Rows: the line that each begins on (in Parquet its number, from 1), and the cells of each wanted column.

    A hypothesis of a record with several has for its line a pair: the line, and its number.
    """

    lines: Sequence[Any]
    columns: list[Any]


class Table(NamedTuple):
    """An open table; blocks(columns) yields the wanted cells.

    spread: the columns of arrays, if a record may hold all hypotheses of a list.
    """

    names: Sequence[str]
    place: Place
    blocks: Callable[[Columns], Iterator[Block]]
    spread: Sequence[str] = ()


class ColumnError(DataError):
    """A column is missing, or a cell of it cannot be used."""


class ColumnsNeeded(DataError):
    """The roles of a table's columns are not known.

    missing: the options that would name them. suggestion: likely columns by option, once `suggest` has seen rows.
    no_features: by column of numbers, why it is no feature. trouble: why no rows could be read.
    """

    def __init__(self, message: str, missing: Sequence[str], known: Columns, place: Place) -> None:
        super().__init__(message, path=place.path, line=place.line)
        self.missing, self.known = tuple(missing), known
        self.suggestion: Mapping[str, str] = {}
        self.no_features: Mapping[str, str] = {}
        self.trouble = ""

    def suggest(self, table: Table, *, textual: bool, group: bool, costs: bool) -> None:
        """Add likely columns, judged by the first rows, or by the names alone if these cannot be read.

        textual: numbers are written as text. group: the caller gathers rows already. costs: hypotheses need losses.
        """
        names = list(table.names)
        if table.spread:
            once = [name for name in names if name not in table.spread]  # of the record, such as the id
            names = [*([self.known.segment] if self.known.segment in once else once[:1]), *table.spread]
        cells: dict[str, Any] = {name: [] for name in names}
        try:
            block = next(table.blocks(Columns(names[0], tuple(names[1:]), (), None)), None) if names else None
        except DataError as error:
            self.trouble, block = str(error), None
        if block is not None:
            most = min(_SAMPLED_ROWS, _SAMPLED_CELLS // len(names) + 1)
            cells = {name: column[:most] for name, column in zip(names, block.columns, strict=True)}
        options, reasons = _likely(cells, self.known, textual=textual, costs=costs)
        useful = [*self.missing, *([] if group else ["group"])]
        useful += ["gain", "statistics", "metric"] if "loss" in self.missing else []
        self.suggestion = {option: value for option, value in options.items() if option in useful}
        self.no_features = reasons if "features" in useful else {}
        likely = [f"{option}={value or True!r}" for option, value in self.suggestion.items() if option != "metric"]
        trouble = f" (only the names were looked at, as of {self.trouble})" if self.trouble else ""
        self.add_note(f"For example: lpmert.read(..., {', '.join(likely)}){trouble}")


class Wanted(NamedTuple):
    """Names and patterns of the features, and the columns of loss, gain or statistics; `None` if they are not named."""

    features: list[str] | None
    sums: list[str] | None

    @staticmethod
    def of(
        features: Names = None,
        loss: str | None = None,
        statistics: Names = None,
        gain: str | None = None,
        counted: bool | None = False,
        path: str | Path | None = None,
    ) -> Wanted:
        if gain is not None and (loss is not None or statistics is not None or counted is not False):
            raise DataError("gain takes the place of loss and statistics; give one of them", path=path)
        if loss is not None and statistics is not None:
            raise DataError("give either loss (one column) or statistics (several columns)", path=path)
        single = loss if gain is None else gain
        sums = _split(statistics, "statistics", path) if single is None else [single]
        return Wanted(_split(features, "features", path), sums)

    def choose(self, table: Table, segment: str | None, text: str | None, counted: bool | None) -> Columns:
        """Return the columns to read; raises `ColumnsNeeded`, with all missing options, where roles are not known."""
        names, place = table.names, table.place
        if len(names) == 1 and not {*names[0]}.isdisjoint(",;\t"):
            trouble = f"there is one column only, {quoted(names[0])}"
            raise place.error(f"{trouble}: give the format of all files (--from, format), tsv or csv")
        if (twice := repeated(names)) is not None:
            raise place.error(f"two columns are called {quoted(twice)}; rename one")
        known, read = recognised(names), counted is False
        statistics = known.statistics
        if self.sums is not None:
            statistics = tuple(
                _MARK + name if name not in names and _MARK + name in names else name for name in self.sums
            )
        found = segment or known.segment
        _refuse_absent(table, [segment, *([] if self.sums is None else statistics), text])
        text = text or (known.text if self.features is None or not read else None)
        missing = [] if found or table.spread else ["segment"]
        as_known = found == known.segment and (not read or statistics == known.statistics != ())
        if self.features is None and not (as_known and known.features):
            missing.append("features")
        missing += ["loss"] if read and not statistics else []
        missing += ["text"] if counted and text is None else []
        if missing:
            what = "; ".join(f"{option} ({_OPTIONS[option]})" for option in missing)
            message = f"say which columns to use: {what}. The columns are {listed(names)}"
            raise ColumnsNeeded(message, missing, Columns(found, (), statistics, text), place)
        free = [name for name in names if name not in {found, text, known.text, *statistics}]
        features = known.features if self.features is None else matched(self.features, free, names, place.path)
        if not table.spread:  # objects in arrays may have more keys than the first
            _refuse_absent(table, features)
        return Columns(found, features, statistics if read else (), text)


def _refuse_absent(table: Table, wanted: Iterable[str | None]) -> None:
    for name in wanted:
        if name is not None and name not in table.names:
            trouble = f"no column {quoted(name)}; the columns are {listed(table.names)}"
            raise table.place.error(trouble, ColumnError)


def _split(names: Names, what: str, path: str | Path | None) -> list[str] | None:
    if names is None:
        return None
    parts = [*map(str.strip, names.split(","))] if isinstance(names, str) else checked_sequence(names, what)
    if not parts:
        raise DataError(f"{what} names no column; give at least one", path=path)
    if (twice := repeated(parts)) is not None:
        raise DataError(f"{what} names the column {quoted(twice)} twice; name it once", path=path)
    return parts


def recognised(names: Sequence[str]) -> Columns:
    """Return the roles of columns in the order `list` (or `segment`), features, known statistics, `text`."""
    segment = names[0] if names and names[0] in SEGMENTS else None
    left = list(names[1:] if segment else names)
    text = left.pop() if left[-1:] == [TEXT] else None
    statistics = tuple(name for name in left if name.startswith(_MARK))
    if not statistics:
        ends = (tuple(left[start:]) for start in range(1, len(left)))
        statistics = next((end for end in ends if named_like_statistics(end)), ())
    features = tuple(left[: len(left) - len(statistics)])
    return Columns(segment, features if segment and not {*features} & {*statistics} else (), statistics, text)


def header_of(columns: Columns) -> list[str]:
    """Return names of columns whose roles `recognised` finds; statistics get a prefix where it is needed."""
    if recognised(columns.all) != columns:
        columns = columns._replace(statistics=tuple(_MARK + name for name in columns.statistics))
    return columns.all


def matched(
    patterns: Sequence[str], free: Sequence[str], names: Sequence[str], path: str | Path | None = None
) -> tuple[str, ...]:
    """Return the names that names select, or patterns (`LM*`) and `all`, which only look at those in `free`."""
    found: dict[str, None] = {}
    for pattern in patterns:
        if pattern in names or not ({*pattern} & {*"*?["} or pattern == ALL):
            selected = [pattern]
        else:
            selected = [name for name in free if pattern == ALL or fnmatchcase(name, pattern)]
        if not selected:
            raise DataError(f"no name matches {quoted(pattern)}; the names are {listed(names)}", path=path)
        found |= dict.fromkeys(selected)
    return tuple(found)


TRUTH = {"true": 1.0, "false": 0.0}


def losses_of_gains(nbest: NBest) -> NBest:
    """Return the lists with their only statistic, a gain, turned into a loss, whose name says how."""
    if nbest.statistics.shape[1] != 1:
        raise DataError(f"a gain is one column; the lists have {nbest.statistics.shape[1]} statistics")
    gains, name = nbest.statistics, nbest.statistic_names[0]
    share = bool(((gains >= 0) & (gains <= 1)).all())
    losses = 1.0 - gains if share else -gains
    return nbest.changed(statistics=losses, statistic_names=(f"1 - {name}" if share else f"-{name}",))


TEXTUAL = ("tsv", "csv")  # kinds of tables in which numbers are written as text


class Rows(NamedTuple):
    """Checks the rows of a table of a kind, by default in memory, and collects them into lists.

    gain: the column of statistics that may be true or false. group: rows of a list may lie apart.
    """

    path: str | Path
    kind: str | None
    columns: Columns
    gain: str | None = None
    group: bool = False

    def collected(self, blocks: Iterator[Block]) -> NBest:
        features, statistics, text = self.columns[1:]
        pool, types = Pool(), dict[str, type]()  # types: of the first id of each list
        for lines, (keys, *cells) in blocks:
            room_for(0, "reading")
            self._add_lists(pool, types, lines, keys)
            if text is not None:
                pool.texts += self._texts(cells.pop(), lines, text)
            numbers = [self._numbers(*column, lines) for column in zip(cells, features + statistics, strict=True)]
            split, size = len(features), len(lines)
            sums = np.column_stack(numbers[split:] or [np.zeros(size)])
            pool.add_rows(features, np.column_stack(numbers[:split]), sums, size)
        if not pool.numbers:
            raise DataError("no rows, only names of columns; write one row for each hypothesis", path=self.path)
        if self.kind == "tsv":
            warn_of_quotes(pool.texts, self.path)
        return pool.nbest([name.removeprefix(_MARK) for name in statistics] or None, texts=text is not None)

    def _error(self, line: Any, message: str, kind: type[DataError] = DataError) -> DataError:
        if isinstance(line, tuple):
            line, message = line[0], f"candidate {line[1]}: {message}"
        if self.kind in ("parquet", None):
            line, message = None, f"row {line}: {message}"
        return kind(message, path=self.path, line=line)

    def _column_error(self, line: Any, name: str | None, trouble: str) -> DataError:
        return self._error(line, f"column {quoted(name or '')} {trouble}", ColumnError)

    def _add_lists(self, pool: Pool, types: dict[str, type], lines: Sequence[Any], keys: Any) -> None:
        first, name = 0, self.columns.segment
        for key, size in runs_of(keys):
            line = lines[first]
            if key is None or (isinstance(key, str) and not key):
                raise self._column_error(line, name, "is empty; it must say which list the row belongs to")
            if type(key) not in (str, int):
                raise self._column_error(line, name, f"is {reprlib.repr(key)}, not a string or an integer")
            if types.setdefault(str(key), type(key)) is not type(key):
                trouble = f"list {quoted(key)} is {quoted(types[str(key)](key))} before"
                raise self._error(line, f"{trouble}; write all ids of lists as strings, or all as numbers")
            pool.add(str(key), size, None if self.group else partial(self._error, line))
            first += size

    def _numbers(self, cells: Any, name: str, lines: Sequence[Any]) -> FloatArray:
        textual = self.kind in TEXTUAL
        if isinstance(cells, np.ndarray):
            if not is_rounded(cells):
                exact = cells.astype(np.float64)
                if len(exact) and -MAGNITUDE_LIMIT <= exact.min() <= exact.max() <= MAGNITUDE_LIMIT:
                    return exact
            cells = cells.tolist()
        if name == self.gain and textual:
            cells = [str(TRUTH[word]) if (word := cell.strip().lower()) in TRUTH else cell for cell in cells]
        elif name == self.gain:
            cells = [float(cell) if isinstance(cell, bool) else cell for cell in cells]
        numbers = plain_numbers(cells, textual=textual)
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
        return trouble_of_number(cell, textual=self.kind in TEXTUAL, part="the hypothesis")

    def _texts(self, cells: Sequence[Any], lines: Sequence[Any], name: str) -> Sequence[str]:
        if set(map(type, cells)) != {str}:
            line, cell = next(pair for pair in zip(lines, cells, strict=True) if type(pair[1]) is not str)
            raise self._column_error(line, name, f"is {reprlib.repr(cell)}, not a string")
        return cells


# Suggestions


COLUMN = "COLUMN"  # stands for an unknown column

_SEGMENTS = (
    *SEGMENTS, "utt", "utterance", "sent", "sentence", "id", "qid", "query", "prompt", "doc", "case", "context"
)  # fmt: skip
_ERRORS = ("errors", "error", "edits")
_LOSSES = (*LOSSES, "error", "wer", "cer", "edits")
_GAINS = (
    "correct", "is_correct", "gain", "accuracy", "passed", "solved", "success", "chosen", "choice", "selected",
    "preferred", "relevance", "label"
)  # fmt: skip
_TEXTS = ("text", "hypothesis", "output", "summary", "answer")
_TOTALS = ("score", "total", "sum", "overall")
_INDICES = ("__index_level_0__", "Unnamed: 0")  # names that pandas gives to row numbers
_FEW_ROWS = 10  # with fewer rows, a pattern may be chance
_ROUNDING = 1e-3  # difference between a sum and its parts, relative to its spread, that few written digits explain
_BETWEEN_COMMAS = re.compile(r",|^\s+|\s+$")
"""What a name cannot have where commas separate names; a pattern has a question mark in its place."""
_SUMMED_COLUMNS, _SUMMED_ROWS = 50, 2000  # most columns and rows for the search for sums, to keep it fast
_SAME = "the same within each list"
_SAMPLED_ROWS, _SAMPLED_CELLS = 20_000, 1_000_000  # most rows and cells that suggestions look at


def _likely(cells: Cells, known: Columns, *, textual: bool, costs: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Return likely columns by option ("" for a flag), and the reasons why other columns are no features."""
    numbers = {name: found for name in cells if (found := _numbers(cells[name], textual)) is not None}
    words = {name: cells[name] for name in cells if {*map(type, cells[name])} == {str}}
    whole = {name for name, found in numbers.items() if (found % 1 == 0).all()}
    segment = known.segment or _segment({name: cells[name] for name in cells if name in whole or name in words})
    lists = _numbered(cells[segment]) if segment in cells else np.zeros(len(next(iter(cells.values()), ())), np.int64)
    scattered, order = bool((np.diff(lists) < 0).any()), np.argsort(lists, kind="stable")
    numbers = {name: found[order] for name, found in numbers.items()}  # in gathered order
    first = np.searchsorted(lists[order], lists[order])  # for each row, the first row of its list
    options = _loss(cells, known, numbers, textual)
    texts = {name: own for name, own in words.items() if name not in {*numbers, segment}}
    longest = max(texts, key=lambda name: sum(map(len, texts[name])), default=COLUMN)
    text = known.text or _named(_TEXTS, texts) or longest
    loss = options.get("loss", "")
    sums = next(value for option, value in options.items() if option in ("loss", "gain", "statistics"))
    taken = {segment, text, *map(str.strip, sums.split(","))}
    features = {name: found for name, found in numbers.items() if name and name not in taken}
    gaps = [name for name in cells if name not in {*numbers, *taken} and _some_numbers(cells[name], textual)]
    reasons = dict.fromkeys(gaps, "not a number in every row") | _reasons(features, first, costs=costs)
    if costs:
        left = {name: found for name, found in features.items() if name not in reasons}
        reasons |= _sums(left, numbers.get(loss), loss, first)
    counts = {name for name in whole if (numbers[name] >= 0).all()}
    lengths = [name for name, why in reasons.items() if why == _SAME and "ref" in name.lower() and name in counts]
    if lengths and not known.statistics and _counts_errors(loss) and loss in counts:
        options = {"statistics": f"{loss},{lengths[0]}", "metric": "wer"}
        del reasons[lengths[0]], features[lengths[0]]
    named = [name for name in features if name not in reasons] or ([] if gaps else [*features])
    likely = ",".join(_BETWEEN_COMMAS.sub(lambda match: "?" * len(match[0]), name) for name in named) or "A,B,C"
    group = {"group": ""} if scattered else {}
    return {"segment": segment, **group, "features": likely, **options, "text": text}, reasons


def _loss(cells: Cells, known: Columns, numbers: Mapping[str, FloatArray], textual: bool) -> dict[str, str]:
    if known.statistics:
        return {"loss" if len(known.statistics) == 1 else "statistics": ",".join(known.statistics)}
    truths = [name for name in cells if _is_truth(cells[name], textual)]
    likely = (
        ("loss", _named(_LOSSES, numbers) or next(filter(_counts_errors, numbers), None)),
        ("gain", _named(_GAINS, [*truths, *numbers])),
        ("gain", next(iter(truths), None)),
        ("gain", _named(("reward",), numbers)),
        ("loss", _named(("cost",), numbers)),
    )
    return next(({option: found} for option, found in likely if found is not None), {"loss": COLUMN})


def _named(likely: Iterable[str], names: Iterable[str]) -> str | None:
    """Return the first column with one of these names, in any case; only the last key of a path counts."""
    names = list(names)
    return next((name for word in likely for name in names if _last_key(name) == word), None)


def _last_key(name: str) -> str:
    return name.lower().rpartition(".")[2]


def _counts_errors(name: str) -> bool:
    """Whether the last word of a column's name says that it counts errors: `word_errors`, `asr.edits`."""
    return _last_key(name).rpartition("_")[2] in _ERRORS


def _numbers(cells: Any, textual: bool) -> FloatArray | None:
    if not textual and not isinstance(cells, np.ndarray) and not {*map(type, cells)} <= {int, float}:
        return None
    try:
        found = np.array([float(cell) for cell in cells])
    except (ValueError, OverflowError):
        return None
    return found if (np.abs(found) <= MAGNITUDE_LIMIT).all() else None


def _some_numbers(cells: Any, textual: bool) -> bool:
    rows = range(min(len(cells), _FEW_ROWS))
    return any(_numbers(cells[row : row + 1], textual) is not None for row in rows)


def _is_truth(cells: Sequence[Any], textual: bool) -> bool:
    found = [str(cell).strip().lower() in TRUTH if textual else isinstance(cell, bool) for cell in cells]
    return bool(found) and all(found)


def _numbered(cells: Iterable[Any]) -> IntArray:
    places: dict[str, int] = {}
    return np.array([places.setdefault(str(cell), len(places)) for cell in cells], dtype=np.int64)


def _segment(ids: Cells) -> str:
    """Return the column of list ids: by its name, or because its cells repeat in consecutive rows only."""
    places = {name: _numbered(found) for name, found in ids.items() if name}
    runs = {name: 1 + int(np.count_nonzero(np.diff(numbered))) for name, numbered in places.items()}
    distinct = {name: len({*numbered.tolist()}) for name, numbered in places.items()}
    repeating = [name for name, numbered in places.items() if runs[name] < len(numbered)]
    found = _named(_SEGMENTS, repeating or places)
    if found is not None:
        return found
    for likely in (
        [name for name in repeating if runs[name] == distinct[name]],
        [name for name in distinct if _last_key(name).endswith("id")],
    ):
        several = [name for name in likely if 1 < distinct[name] <= len(places[name]) / 2]
        if several:
            return max(several, key=distinct.__getitem__)  # the column with the most lists, the first of several
    return COLUMN


def _reasons(features: Mapping[str, FloatArray], first: IntArray, *, costs: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    place = np.arange(len(first)) - first
    longest = int(place.max(initial=0)) + 1
    for name, values in features.items():
        if name in _INDICES or (len(first) >= _FEW_ROWS and (np.diff(values) == 1).all()):
            found[name] = "numbers the rows"
        elif longest > 2 and any(np.array_equal(values, place + begin) for begin in (0, 1)):
            found[name] = "counts the rows of a list"
        elif _last_key(name) == "rank":
            found[name] = "a rank by its name"
        elif costs and longest > 1 and (values == values[first]).all():
            found[name] = _SAME
        elif costs and _last_key(name) in (*_LOSSES, *_GAINS):
            found[name] = "a loss or a gain"
    return found


def _sums(features: Mapping[str, FloatArray], loss: FloatArray | None, called: str, first: IntArray) -> dict[str, str]:
    if not 1 < len(features) <= _SUMMED_COLUMNS:
        return {}
    rows = np.flatnonzero(np.arange(len(first)) > first)[:_SUMMED_ROWS]
    left = {name: values[rows] - values[first[rows]] for name, values in features.items()}
    parts = [] if loss is None else _parts(loss[rows] - loss[first[rows]], left)
    found = dict.fromkeys(parts, f"part of {called}")
    left = {name: values for name, values in left.items() if name not in found}
    candidates = [*reversed(left)]
    candidates.sort(key=lambda name: not any(total in name.lower() for total in _TOTALS))
    for name in candidates:
        rest = {other: values for other, values in left.items() if other != name}
        parts = _parts(left[name], rest)
        if parts:
            several = listed(parts) if len(parts) <= 4 else f"{len(parts)} others"
            found[name] = f"a multiple of {parts[0]}" if len(parts) == 1 else f"a sum of {several}, with some weights"
            left = rest
    return found


def _parts(target: FloatArray, others: Mapping[str, FloatArray]) -> list[str]:
    """Return the columns whose weighted sum is the target up to rounding; none if no sum is, or rows are too few."""
    if len(target) < 3 * len(others) + _FEW_ROWS or not others or not target.any():
        return []
    columns = np.column_stack(list(others.values()))
    scales = np.abs(columns).max(axis=0)
    scales[scales == 0] = 1
    weights = np.linalg.lstsq(columns / scales, target, rcond=1e-6)[0]
    if np.abs(target - (columns / scales) @ weights).max() > _ROUNDING * target.std():
        return []
    return [
        name for name, weight in zip(others, weights, strict=True) if abs(weight) > _ROUNDING * np.abs(target).max()
    ]
