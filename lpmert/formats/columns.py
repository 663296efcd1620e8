"""The roles of a table's columns: named by the caller, or recognised by their names.

Where neither tells, names and first rows suggest likely roles. Suggestions only appear in the command that an error
proposes; they never decide how lists are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.formats.text import Place
from lpmert.model.arrays import MAGNITUDE_LIMIT, checked_sequence
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted, repeated
from lpmert.registry import LOSSES, named_like_statistics

Names = Sequence[str] | str | None
"""Names of columns, as a sequence or joined by commas."""

SEGMENT = "list"
TEXT = "text"
ALL = "all"
"""Stands for all columns, or features, without another role."""

SEGMENTS = (SEGMENT, "segment")
_MARK = "statistic:"
"""Prefix for columns of statistics whose names alone would not identify them."""

_OPTIONS = {
    "segment": "which list a row belongs to",
    "features": "what the weights are for: names, patterns, or all",
    "loss": "what a hypothesis costs; or statistics: what the metric sums",
    "text": "what is compared with the references",
}


@dataclass(frozen=True)
class Columns:
    """The columns to read, by role; segment is `None` where each record is a list of its own."""

    segment: str | None
    features: tuple[str, ...]
    statistics: tuple[str, ...]
    text: str | None

    @staticmethod
    def of(nbest: NBest) -> Columns:
        """Return the columns in which lists are written."""
        return Columns(SEGMENT, nbest.names, nbest.statistic_names, None if nbest.texts is None else TEXT)

    @property
    def numbers(self) -> tuple[str, ...]:
        return self.features + self.statistics

    @property
    def by_role(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str | None]]:
        return self.features, self.statistics, (self.text,)

    @property
    def all(self) -> list[str]:
        """All columns, that of the list first and that of the text last."""
        return [name for name in (self.segment, *self.numbers, self.text) if name is not None]

    @property
    def statistic_names(self) -> list[str]:
        return [name.removeprefix(_MARK) for name in self.statistics]


Cells = Mapping[str, Any]
"""The cells of each column, a sequence or an array."""


class ColumnError(DataError):
    """A column is missing, or a cell of it cannot be used."""


class Head(NamedTuple):
    """What is known of a table before its rows: the names of its columns, and their place.

    spread: the columns of arrays, if a record may hold all hypotheses of a list.
    """

    names: Sequence[str]
    place: Place
    spread: Sequence[str] = ()

    def refuse_absent(self, wanted: Iterable[str]) -> None:
        for name in wanted:
            if name not in self.names:
                raise self.place.error(f"no column {quoted(name)}; the columns are {listed(self.names)}", ColumnError)


class ColumnsNeeded(DataError):
    """The roles of a table's columns are not known.

    missing: the options that would name them. known: the roles that are known. suggestion: likely columns by option,
    once `suggest` has seen rows. no_features: by column of numbers, why it is no feature. trouble: why no rows could be
    read.
    """

    def __init__(self, message: str, missing: Sequence[str], known: Columns, place: Place) -> None:
        super().__init__(message, path=place.path, line=place.line)
        self.missing, self.known = tuple(missing), known
        self.suggestion: Mapping[str, str] = {}
        self.no_features: Mapping[str, str] = {}
        self.trouble = ""

    def suggest(self, cells: Cells, *, textual: bool, group: bool, costs: bool) -> None:
        """Add likely columns, judged by the cells of the first rows; group: the caller gathers rows already."""
        options, reasons = _likely(cells, self.known, textual=textual, costs=costs)
        useful = [*self.missing, *([] if group else ["group"])]
        useful += ["gain", "statistics", "metric"] if "loss" in self.missing else []
        self.suggestion = {option: value for option, value in options.items() if option in useful}
        self.no_features = reasons if "features" in useful else {}
        likely = [f"{option}={value or True!r}" for option, value in self.suggestion.items() if option != "metric"]
        trouble = f" (only the names were looked at, as of {self.trouble})" if self.trouble else ""
        self.add_note(f"For example: lpmert.read(..., {', '.join(likely)}){trouble}")


@dataclass(frozen=True)
class Wanted:
    """The columns as the caller of `lpmert.read` names them; those that are `None` must be recognised in the file.

    features: names, patterns such as `LM*`, or `all`. counted: whether statistics are counted from the texts; `None`:
    there are none. Raises `DataError`, which names the path, where arguments contradict one another.
    """

    path: str | Path | None = None
    segment: str | None = None
    features: Names = None
    loss: str | None = None
    statistics: Names = None
    gain: str | None = None
    text: str | None = None
    counted: bool | None = False

    def __post_init__(self) -> None:
        if self.gain is not None and (
            self.loss is not None or self.statistics is not None or self.counted is not False
        ):
            raise DataError("gain takes the place of loss and statistics; give one of them", path=self.path)
        if self.loss is not None and self.statistics is not None:
            raise DataError("give either loss (one column) or statistics (several columns)", path=self.path)
        for what, names in (("features", self.patterns), ("statistics", self.sums)):
            if names == ():
                raise DataError(f"{what} names no column; give at least one", path=self.path)
            twice = repeated(names or ())
            if twice is not None:
                raise DataError(f"{what} names the column {quoted(twice)} twice; name it once", path=self.path)

    @cached_property
    def patterns(self) -> tuple[str, ...] | None:
        """Names and patterns of the features."""
        return _split(self.features, "features")

    @cached_property
    def sums(self) -> tuple[str, ...] | None:
        """The columns of the loss, the gain or the statistics."""
        single = self.loss if self.gain is None else self.gain
        return _split(self.statistics, "statistics") if single is None else (single,)

    def choose(self, head: Head) -> Columns:
        """Return the columns to read.

        Raises `ColumnsNeeded`, with all missing options, where the roles are not known, and `ColumnError` for a column
        that the caller names and the table lacks.
        """
        if len(head.names) == 1 and not {*head.names[0]}.isdisjoint(",;\t"):
            trouble = f"there is one column only, {quoted(head.names[0])}"
            raise head.place.error(f"{trouble}: give the format of all files (--from, format), tsv or csv")
        if (twice := repeated(head.names)) is not None:
            raise head.place.error(f"two columns are called {quoted(twice)}; rename one")
        known, read = recognised(head.names), self.counted is False
        segment = self.segment or known.segment
        statistics = known.statistics
        if self.sums is not None:
            present = head.names
            statistics = tuple(
                _MARK + name if name not in present and _MARK + name in present else name for name in self.sums
            )
        text = self.text or (known.text if self.features is None or not read else None)
        named = [self.segment, *([] if self.sums is None else statistics), self.text]
        head.refuse_absent(name for name in named if name is not None)
        missing = [] if segment or head.spread else ["segment"]
        as_known = segment == known.segment and (not read or statistics == known.statistics != ())
        if self.features is None and not (as_known and known.features):
            missing.append("features")
        missing += ["loss"] if read and not statistics else []
        missing += ["text"] if self.counted and text is None else []
        if missing:
            what = "; ".join(f"{option} ({_OPTIONS[option]})" for option in missing)
            message = f"say which columns to use: {what}. The columns are {listed(head.names)}"
            raise ColumnsNeeded(message, missing, Columns(segment, (), statistics, text), head.place)
        others = {segment, text, known.text, *statistics}
        free = [name for name in head.names if name not in others]
        features = known.features if self.patterns is None else matched(self.patterns, free, head.names, self.path)
        if not head.spread:  # objects in arrays may have more keys than the first
            head.refuse_absent(features)
        return Columns(segment, features, statistics if read else (), text)


def _split(names: Names, what: str) -> tuple[str, ...] | None:
    if names is None:
        return None
    parts = map(str.strip, names.split(",")) if isinstance(names, str) else checked_sequence(names, what)
    return tuple(parts)


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
    found = recognised(columns.all)
    marked = columns.statistics
    if (found.features, found.statistics) != (columns.features, columns.statistics):
        marked = tuple(_MARK + name for name in columns.statistics)
    return Columns(columns.segment, columns.features, marked, columns.text).all


def matched(
    patterns: Sequence[str], free: Sequence[str], names: Sequence[str], path: str | Path | None = None
) -> tuple[str, ...]:
    """Return the names that names select, or patterns (`LM*`) and `all`, which only look at those in `free`.

    A name that is no pattern is returned as it is. Raises `DataError` for a pattern that no name matches.
    """
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


def truth_as_numbers(cells: Any, *, textual: bool) -> Any:
    """Return the cells of a column with 1 for true and 0 for false; in TSV and CSV, `textual`, these are words."""
    if isinstance(cells, np.ndarray) and cells.dtype != object:
        return cells.astype(np.float64) if cells.dtype == bool else cells
    if textual:
        return [str(TRUTH[word]) if (word := cell.strip().lower()) in TRUTH else cell for cell in cells]
    return [float(cell) if isinstance(cell, bool) else cell for cell in cells]


def losses_of_gains(nbest: NBest) -> NBest:
    """Return the lists with their only statistic, a gain, turned into a loss.

    It is 1 - gain where all gains lie between 0 and 1, such as flags and shares, otherwise minus the gain; its name
    says which. Raises `DataError` for several statistics.
    """
    if nbest.statistics.shape[1] != 1:
        raise DataError(f"a gain is one column; the lists have {nbest.statistics.shape[1]} statistics")
    gains, name = nbest.statistics, nbest.statistic_names[0]
    share = bool(((gains >= 0) & (gains <= 1)).all())
    losses = 1.0 - gains if share else -gains
    return nbest.changed(statistics=losses, statistic_names=(f"1 - {name}" if share else f"-{name}",))


COLUMN = "COLUMN"
"""Stands for an unknown column."""

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
_INDICES = ("__index_level_0__", "Unnamed: 0")
"""Names that pandas gives to row numbers."""
_FEW_ROWS = 10
"""With fewer rows, a pattern may be chance."""
_ROUNDING = 1e-3
"""Difference between a sum and its parts, relative to its spread, that few written digits explain."""
_BETWEEN_COMMAS = re.compile(r",|^\s+|\s+$")
"""What a name cannot have where commas separate names; a pattern has a question mark in its place."""
_NAMED_PARTS = 4
"""Most parts of a sum that a message names."""
_SUMMED_COLUMNS, _SUMMED_ROWS = 50, 2000
"""Most columns and rows for the search for sums, to keep it fast."""


def _likely(cells: Cells, known: Columns, *, textual: bool, costs: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Return likely columns by option ("" for a flag), and the reasons why other columns are no features.

    cells: of the first rows, by column. known: the roles that are known. textual: numbers are written as text. costs:
    whether hypotheses need losses.
    """
    numbers = {name: found for name in cells if (found := _numbers(cells[name], textual)) is not None}
    segment = known.segment or _segment(cells, numbers)
    lists = _numbered(cells[segment]) if segment in cells else np.zeros(len(next(iter(cells.values()), ())), np.int64)
    scattered, order = bool((np.diff(lists) < 0).any()), np.argsort(lists, kind="stable")
    numbers = {name: found[order] for name, found in numbers.items()}  # in gathered order
    first = np.searchsorted(lists[order], lists[order])  # for each row, the first row of its list
    options = _loss(cells, known, numbers, textual, first)
    text = known.text or _text({name: cells[name] for name in cells if name not in {*numbers, segment}})
    taken = {segment, text, *_names_in(options.get("loss") or options.get("gain") or options["statistics"])}
    features = {name: found for name, found in numbers.items() if name and name not in taken}
    gaps = [name for name in cells if name not in {*numbers, *taken} and _some_numbers(cells[name], textual)]
    reasons = dict.fromkeys(gaps, "not a number in every row") | _reasons(features, first, costs=costs)
    lengths = [
        name for name in reasons if reasons[name] == _SAME and "ref" in name.lower() and _are_counts(numbers[name])
    ]
    if costs:
        left = {name: found for name, found in features.items() if name not in reasons}
        reasons |= _sums(left, numbers.get(options.get("loss", "")), options.get("loss", ""), first)
    loss = options.get("loss", "")
    if lengths and not known.statistics and _counts_errors(loss) and _are_counts(numbers[loss]):
        options |= {"statistics": f"{options.pop('loss')},{lengths[0]}", "metric": "wer"}
        del reasons[lengths[0]], features[lengths[0]]
    named = [name for name in features if name not in reasons] or ([] if gaps else [*features])
    likely = ",".join(_BETWEEN_COMMAS.sub(lambda match: "?" * len(match[0]), name) for name in named) or "A,B,C"
    group = {"group": ""} if scattered else {}
    return {"segment": segment, **group, "features": likely, **options, "text": text}, reasons


def _loss(
    cells: Cells, known: Columns, numbers: Mapping[str, FloatArray], textual: bool, first: IntArray
) -> dict[str, str]:
    """Return the option for the cost of hypotheses, with its likely columns."""
    if known.statistics:
        return {"loss" if len(known.statistics) == 1 else "statistics": ",".join(known.statistics)}
    truths = [name for name in cells if _is_truth(cells[name], textual)]
    for option, found in (
        ("loss", _named(_LOSSES, numbers) or next(filter(_counts_errors, numbers), None)),
        ("gain", _named(_GAINS, [*truths, *numbers])),
        ("gain", next(iter(truths), None) or _choice(numbers, first)),
        ("gain", _named(("reward",), numbers)),
        ("loss", _named(("cost",), numbers)),
    ):
        if found is not None:
            return {option: found}
    return {"loss": COLUMN}


def _choice(numbers: Mapping[str, FloatArray], first: IntArray) -> str | None:
    """Return the only column that is 1 for one hypothesis of each list, at varying places, and 0 for all others."""
    places, starts = np.arange(len(first)) - first, np.unique(first)
    found = [
        name
        for name, values in numbers.items()
        if np.isin(values, (0.0, 1.0)).all()
        and (np.bincount(first, values)[starts] == 1).all()
        and len({*places[values == 1]}) > 1
    ]
    return found[0] if len(found) == 1 and len(starts) > 1 else None


def _named(likely: Iterable[str], names: Iterable[str]) -> str | None:
    """Return the first column with one of these names, in any case; only the last key of a path counts."""
    names = list(names)
    return next((name for word in likely for name in names if _last_key(name) == word), None)


def _last_key(name: str) -> str:
    return name.lower().rpartition(".")[2]


def _counts_errors(name: str) -> bool:
    """Whether the last word of a column's name says that it counts errors: `word_errors`, `asr.edits`."""
    return _last_key(name).rpartition("_")[2] in _ERRORS


def _names_in(names: str | None) -> list[str]:
    return [] if not names else [name.strip() for name in names.split(",")]


def _numbers(cells: Any, textual: bool) -> FloatArray | None:
    """Return the cells of a column if all are finite numbers, otherwise `None`."""
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


def _are_counts(numbers: FloatArray) -> bool:
    return bool((numbers >= 0).all() and (numbers % 1 == 0).all())


def _is_truth(cells: Sequence[Any], textual: bool) -> bool:
    found = [str(cell).strip().lower() in TRUTH if textual else isinstance(cell, bool) for cell in cells]
    return bool(found) and all(found)


def _is_text(cells: Sequence[Any]) -> bool:
    return {*map(type, cells)} == {str}


def _numbered(cells: Iterable[Any]) -> IntArray:
    """Return a number for each cell, the same for equal ones, in order of first appearance."""
    places: dict[str, int] = {}
    return np.array([places.setdefault(str(cell), len(places)) for cell in cells], dtype=np.int64)


def _segment(cells: Cells, numbers: Mapping[str, FloatArray]) -> str:
    """Return the column of list ids: by its name, or because its cells repeat in consecutive rows only."""
    ids = [name for name in cells if (name in numbers and (numbers[name] % 1 == 0).all()) or _is_text(cells[name])]
    places = {name: _numbered(cells[name]) for name in ids if name}
    runs = {name: 1 + int(np.count_nonzero(np.diff(numbered))) for name, numbered in places.items()}
    distinct = {name: len({*numbered.tolist()}) for name, numbered in places.items()}
    repeating = [name for name, numbered in places.items() if runs[name] < len(numbered)]
    found = _named(_SEGMENTS, repeating or places)
    if found is not None:
        return found
    for likely in (
        {name: runs[name] for name in repeating if runs[name] == distinct[name]},
        {name: count for name, count in distinct.items() if _last_key(name).endswith("id")},
    ):
        counts = {name: count for name, count in likely.items() if 1 < count <= len(places[name]) / 2}
        if counts:
            return max(counts, key=counts.__getitem__)  # the column with the most lists, the first of several
    return COLUMN


def _text(cells: Cells) -> str:
    """Return the column of the hypotheses: by its name, or the one with the longest cells."""
    texts = {name: cells[name] for name in cells if _is_text(cells[name])}
    return _named(_TEXTS, texts) or max(texts, key=lambda name: sum(map(len, texts[name])), default=COLUMN)


_SAME = "the same within each list"


def _reasons(features: Mapping[str, FloatArray], first: IntArray, *, costs: bool) -> dict[str, str]:
    """Return by column the reason why it is no feature, for reasons within one column."""
    found: dict[str, str] = {}
    size = len(first)
    place = np.arange(size) - first
    longest = int(place.max(initial=0)) + 1
    for name, values in features.items():
        if name in _INDICES or (size >= _FEW_ROWS and (np.diff(values) == 1).all()):
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
    """Return by column the reason why it is no feature: it is a weighted sum of others, or a part of the loss."""
    found: dict[str, str] = {}
    if not 1 < len(features) <= _SUMMED_COLUMNS:
        return found
    rows = np.flatnonzero(np.arange(len(first)) > first)[:_SUMMED_ROWS]

    def differences(values: FloatArray) -> FloatArray:
        return np.asarray(values[rows] - values[first[rows]])

    left = {name: differences(values) for name, values in features.items()}
    if loss is not None:
        parts = _parts(differences(loss), left)
        found |= dict.fromkeys(parts, f"part of {called}")
    left = {name: values for name, values in left.items() if name not in found}
    candidates = [*reversed(left)]
    candidates.sort(key=lambda name: not any(total in name.lower() for total in _TOTALS))
    for name in candidates:
        rest = {other: values for other, values in left.items() if other != name}
        parts = _parts(left[name], rest)
        if parts:
            several = listed(parts) if len(parts) <= _NAMED_PARTS else f"{len(parts)} others"
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
