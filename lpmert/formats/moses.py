"""N-best lists of Moses and its kin (cdec, Joshua, travatar): `id ||| text ||| name= v v ... ||| score`, and back.

`name= v v ...` and the older `name: v v ...` are groups: they give name_0, name_1, ..., and every line has them. One
number after a name with an underscore, and `name=v`, are a sparse feature: 0 where a line lacks it.
"""

from __future__ import annotations

import re
import reprlib
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lpmert.errors import DataError
from lpmert.formats.format import Format
from lpmert.formats.numbers import WHITE, NamedRows, number_text, numbers_of_words, repeated, rows_by_column
from lpmert.formats.utterances import with_references, words_of
from lpmert.model.arrays import one_or_more
from lpmert.model.nbest import NBest
from lpmert.quoting import quoted
from lpmert.system.files import EMPTY, atomic_writer, blocks_of_lines, lines, open_bytes
from lpmert.system.mapped import Growing, taken
from lpmert.system.memory import room_for

if TYPE_CHECKING:
    from lpmert.metrics.text import TextMetric


_OF_GROUP = re.compile(r"([^_]+)_(0|[1-9][0-9]{0,17})")
_SINGLE = " "
"""Ends the label of name=v."""
_KEPT_LAYOUTS = 1000


def label_of(word: str) -> str | None:
    """Return what a word says of the number in or after it: `name=` or `name:`, `name ` for name=v, `None` for none."""
    if word[-1] in "=:":
        return word
    name, equals, _ = word.rpartition("=")
    return name + _SINGLE if equals else None


class FeatureReader:
    """Gathers the features of all lines."""

    def __init__(self) -> None:
        self.rows = NamedRows()
        self._layouts: dict[tuple[str | None, ...], tuple[str, ...]] = {}
        self._required: set[str] | None = None

    def add(self, field: str, path: str | Path, line: int) -> None:
        """Add the features of one line; raises `DataError` if they cannot be told apart, or lack those of a group."""
        words = words_of(field)
        labels = tuple(map(label_of, words))
        names = self._layouts.get(labels)
        if names is None:
            if len(self._layouts) == _KEPT_LAYOUTS:
                self._layouts.clear()  # sparse features make nearly every line a layout of its own
            names = self._layouts[labels] = self._new_layout(labels, path, line)
        numbers = [
            word[len(label) :] if label else word
            for word, label in zip(words, labels, strict=True)
            if label is None or label[-1] == _SINGLE
        ]
        self.rows.add(names, numbers_of_words(numbers, "a feature", path, line))

    def _new_layout(self, labels: Sequence[str | None], path: str | Path, line: int) -> tuple[str, ...]:
        groups = groups_of(labels)
        names: list[str] = []
        required: set[str] = set()
        for label, count in groups:
            if groups == [("", count)]:
                found, everywhere = [f"feature{number}" for number in range(1, count + 1)], True
            else:
                found, everywhere = names_of_group(label, count, path, line)
            names += found
            required.update(found if everywhere else ())
        twice = repeated(names)
        if twice is not None:
            raise DataError(f"feature {quoted(twice)} comes twice", path=path, line=line)
        if not names:
            raise DataError("no features", path=path, line=line)
        if self._required is None:
            self._required = required
        for name in sorted(required ^ self._required):
            trouble = "is new here" if name in required else "is missing"
            raise DataError(f"feature {quoted(name)} {trouble}; every line needs the same ones", path=path, line=line)
        return tuple(names)


def groups_of(labels: Sequence[str | None]) -> list[tuple[str, int]]:
    """Return each label and how many numbers follow it; the label is empty for those before the first one."""
    found, counts = [""], [0]
    for label in labels:
        if label is None:
            counts[-1] += 1
        else:
            found.append(label)
            counts.append(0)
    return [group for group in zip(found, counts, strict=True) if group != ("", 0)]


def names_of_group(label: str, count: int, path: str | Path, line: int) -> tuple[list[str], bool]:
    """Return the names of the numbers with a label, and whether every line must have them."""
    name, single = label[:-1], label[-1:] == _SINGLE
    if not name:
        raise DataError("a number without the name of its feature", path=path, line=line)
    if single == bool(count):
        trouble = f"two numbers for feature {quoted(name)}" if single else f"no number after {quoted(label)}"
        raise DataError(trouble, path=path, line=line)
    if single or (count == 1 and "_" in name):
        return [name], False
    return [f"{name}_{number}" for number in range(count)], True


class FeatureWriter:
    """Writes the features of lines so that `FeatureReader` gives back exactly these names and numbers."""

    def __init__(self, names: Sequence[str]) -> None:
        self._groups: dict[str, list[int]] = {}
        """Columns by label, of features that every line has."""
        self._sparse: dict[int, str] = {}
        """Label by column, of the others."""
        base = ""
        for column, name in enumerate(names):
            match = _OF_GROUP.fullmatch(name)
            if match and match[1] == base and int(match[2]) == len(self._groups[f"{base}= "]):
                self._groups[f"{base}= "].append(column)
            elif match and match[2] == "0":
                base = match[1]
                self._groups[f"{base}= "] = [column]
            else:
                base = ""
                self._sparse[column] = f"{name}= " if "_" in name else f"{name}="

    def field(self, row: Mapping[int, float]) -> str:
        """Return the field of one hypothesis from its numbers by column; columns that are left out hold 0."""
        words = [
            label + " ".join(number_text(row.get(column, 0.0)) for column in columns)
            for label, columns in self._groups.items()
        ]
        words += [
            self._sparse[column] + number_text(number) for column, number in row.items() if column in self._sparse
        ]
        return " ".join(words or [f"{self._sparse[0]}0"])

    def whole(self, row: Mapping[int, float]) -> str:
        """Return the same with all features in the order of their names."""
        labels = {columns[0]: label for label, columns in self._groups.items()} | self._sparse
        n_features = len(self._sparse) + sum(map(len, self._groups.values()))
        words = (labels.get(column, "") + number_text(row.get(column, 0.0)) for column in range(n_features))
        return " ".join(words)


SEPARATOR = "|||"
STATISTICS_LABEL = "statistics:"
"""First word of the last field where `write_moses` puts the statistics."""

Paths = str | Path | Sequence[str | Path]


def read_moses(
    paths: Paths,
    *,
    references: Paths | Mapping[str, str] = (),
    metric: str | TextMetric = "bleu",
    statistics: Paths = (),
    last_field: bool = False,
    statistic_names: Sequence[str] | None = None,
    texts: bool = True,
    group: bool = False,
    partial: bool = False,
    by_position: bool = False,
) -> NBest:
    """Read N-best lists in the format of Moses; lists with equal ids in several files (runs) are pooled.

    Features are `name= v v ...` or `name: v v ...` (name_0, name_1, ..., on every line), `name=v` or, with an
    underscore in the name, `name= v` (0 where a line lacks them), or plain numbers (feature1, ...). They are the third
    field, or the fourth where the third is one number and the fourth has names. Other fields are not looked at.

    Statistics come from one of: `references`, files with one sentence a line (id 0 is the first line; with `partial`
    there may be more lines than lists) or with ids (`by_position` as for `with_references`), by `metric`, one of
    `lpmert.metrics.text` or its name; `statistics`, a file for each of `paths`, whose line has the id and the numbers
    of the same line; the numbers in the last field, with `last_field`, or without where `write_moses` put them.
    `statistic_names` names them. Texts are not kept with `texts=False`, so that `NBest.deduplicate` does not look at
    them. With `group`, lines of a list may lie apart. Raises `DataError` with file and line, and what
    `lpmert.metrics.text` raises.
    """
    files, statistics_files = one_or_more(paths, "paths"), one_or_more(statistics, "statistics")
    measured = references if isinstance(references, Mapping) else one_or_more(references, "references")
    _check_sources(files, measured, statistics_files, last_field)
    pool = _Pool(group, keep_texts=texts or bool(measured))
    for path, beside in zip_longest(files, statistics_files):
        if beside is not None:
            with_statistics = _Beside(beside, path)
            pool.add(path, with_statistics.next)
            with_statistics.end()
        else:
            pool.add(path, _unmeasured if measured else _last_field if last_field else _labelled)
    nbest = pool.nbest(statistic_names)
    return with_references(nbest, measured, metric, partial, by_position) if measured else nbest


def write_moses(nbest: NBest, path: str | Path) -> None:
    """Write N-best lists in the format of Moses; `read_moses` reads back exactly the same numbers, names and texts.

    The model score is written as 0, the statistics as a last field `statistics: name=v ...`. Features name_0, name_1,
    ... become `name= v v ...`. Texts that are all empty read back as no texts. Raises `DataError` where a name, an id
    or a text cannot be told from what is around it.
    """
    _check_writable(nbest, path)
    writer = FeatureWriter(nbest.names)
    list_ids = [nbest.list_ids[number] for number in nbest.list_index.tolist()]
    texts = nbest.texts or ("",) * nbest.n_hypotheses
    rows = zip(list_ids, texts, rows_by_column(nbest.features), nbest.statistics.tolist(), strict=True)
    with atomic_writer(path) as stream:
        for number, (list_id, text, row, values) in enumerate(rows):
            # the first line has all features, so that reading finds them in the same order
            features = writer.field(row) if number else writer.whole(row)
            named = zip(nbest.statistic_names, map(number_text, values), strict=True)
            statistics = " ".join(f"{name}={value}" for name, value in named)
            fields = list_id, text, features, "0", f"{STATISTICS_LABEL} {statistics}"
            stream.write(f" {SEPARATOR} ".join(fields) + "\n")


class _Line(NamedTuple):
    """The fields of a line that count, stripped; `last` is empty where the features are the last field."""

    path: str | Path
    number: int
    list_id: str
    text: str
    features: str
    last: str

    def error(self, message: str) -> DataError:
        return DataError(message, path=self.path, line=self.number)


Statistics = tuple[tuple[str, ...] | None, list[float]]
"""Names, or `None` where there are only numbers, and numbers of one line."""


class _Pool:
    """Hypotheses of all files, and which list each belongs to."""

    def __init__(self, group: bool, *, keep_texts: bool) -> None:
        self._group, self._keep_texts = group, keep_texts
        self._features = FeatureReader()
        self._owners = array("q")
        self._lists: dict[str, int] = {}
        self._texts: list[str] = []
        self._names: tuple[str, ...] | None = None
        self._width = 0
        self._statistics = Growing()

    def add(self, path: str | Path, statistics_of: Callable[[_Line], Statistics]) -> None:
        """Add the lists of a file."""
        here: set[str] = set()
        last = ""
        for line in _split_lines(path):
            if line.list_id != last and line.list_id in here and not self._group:
                raise line.error(
                    f"list {quoted(line.list_id)} comes back here, after list {quoted(last)}; sort the lines, "
                    "or gather them with group=True (--group)"
                )
            last = line.list_id
            here.add(last)
            self._owners.append(self._lists.setdefault(last, len(self._lists)))
            if self._keep_texts:
                self._texts.append(line.text)
            self._features.add(line.features, path, line.number)
            self._add_statistics(line, *statistics_of(line))

    def _add_statistics(self, line: _Line, names: tuple[str, ...] | None, numbers: Sequence[float]) -> None:
        if not self._width:
            self._names, self._width = names, len(numbers)
        if names != self._names or len(numbers) != self._width or not numbers:
            first = " ".join(self._names or ()) or f"{self._width} numbers"
            raise line.error(f"{len(numbers)} statistics, but the first line has {first}; give every line the same")
        self._statistics.add(numbers)

    def nbest(self, statistic_names: Sequence[str] | None) -> NBest:
        """Return the lists in the order in which they first came."""
        owners = np.array(self._owners)
        names, features = self._features.rows.matrix()
        statistics = self._statistics.whole().reshape(len(owners), -1)
        texts = self._texts if any(self._texts) else None
        if (np.diff(owners) < 0).any():
            order = np.argsort(owners, kind="stable")
            features = taken(features, order) if isinstance(features, np.ndarray) else features[order]
            statistics = taken(statistics, order)
            texts = None if texts is None else [texts[row] for row in order.tolist()]
        return NBest(
            features=features,
            offsets=np.cumsum([0, *np.bincount(owners).tolist()]),
            statistics=statistics,
            names=names,
            list_ids=list(self._lists),
            statistic_names=self._names if statistic_names is None else statistic_names,
            texts=texts,
            copy=False,
        )


def _check_sources(
    files: Sequence[str | Path], references: Collection[object], statistics: Sequence[object], last_field: bool
) -> None:
    if not files:
        raise DataError("give at least one file of lists")
    if sum((bool(references), bool(statistics), last_field)) > 1:
        raise DataError("give one source of statistics: references, statistics or last_field", path=files[0])
    if statistics and len(statistics) != len(files):
        counts = f"{len(files)} files of lists and {len(statistics)} of statistics"
        raise DataError(f"{counts}; give one for each", path=files[0])


def _split_lines(path: str | Path) -> Iterator[_Line]:
    count = place = 0
    for number, text in _whole_lines(path):
        fields = [field.strip(WHITE) for field in text.split(SEPARATOR)]
        if not text.strip(WHITE):
            raise DataError("empty line; delete it", path=path, line=number)
        if not count:
            count, place = len(fields), _place_of_features(fields)
        if len(fields) != count or count <= place:
            wanted = f"line 1 has {count}" if count > place else "a line needs id, text and features"
            trouble = f"{len(fields)} fields between {SEPARATOR}, but {wanted}; a text must not hold {SEPARATOR}"
            raise DataError(trouble, path=path, line=number)
        if not fields[0]:
            raise DataError("the first field must say which list the line belongs to", path=path, line=number)
        yield _Line(path, number, fields[0], fields[1], fields[place], fields[-1] if count - 1 > place else "")


def _whole_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield the lines as `lines` does; without a line end the last one could be cut off within a number."""
    block = None
    with open_bytes(path) as stream:
        for block in blocks_of_lines(stream, path):
            room_for(0, "reading")
            yield from enumerate(block.texts, block.first)
    if block is None:
        raise DataError(EMPTY, path=path)
    if not block.ended:
        last = block.first + len(block.texts) - 1
        raise DataError("no line end here, so the file may be cut off; add one if it is whole", path=path, line=last)


def _place_of_features(fields: Sequence[str]) -> int:
    """Return 3 for the layout of travatar, `id ||| text ||| score ||| features`, else 2."""
    if len(fields) > 3 and not fields[3].startswith(STATISTICS_LABEL):
        score = words_of(fields[2])
        if len(score) == 1 and label_of(score[0]) is None and any(map(label_of, words_of(fields[3]))):
            return 3
    return 2


def _unmeasured(_: _Line) -> Statistics:
    return None, [0.0]


def _last_field(line: _Line) -> Statistics:
    return None, numbers_of_words(words_of(line.last), "a statistic", line.path, line.number)


def _labelled(line: _Line) -> Statistics:
    if not line.last.startswith(STATISTICS_LABEL):
        raise line.error(
            "no statistics; give references (--references FILE), a file of statistics (--statistics-file FILE), or say "
            "that the last field has them (--last-field)"
        )
    parts = [word.rpartition("=") for word in words_of(line.last.removeprefix(STATISTICS_LABEL))]
    names = tuple(name for name, _, _ in parts)
    if not all(names) or repeated(names) is not None:
        raise line.error(f"statistics are name=number, with each name once, after {STATISTICS_LABEL}")
    return names, numbers_of_words([number for _, _, number in parts], "a statistic", line.path, line.number)


class _Beside:
    """A file of statistics: for each line of a file of lists its id and its numbers."""

    def __init__(self, path: str | Path, lists: str | Path) -> None:
        self._path, self._lists = path, lists
        self._lines = lines(path)

    def next(self, line: _Line) -> Statistics:
        """Return the statistics of the next line."""
        number, text = next(self._lines, (None, ""))
        if number is None:
            raise DataError(f"ends before line {line.number} of {self._lists}", path=self._path)
        list_id, *words = words_of(text) or [""]
        if list_id != line.list_id:
            trouble = f"a line must begin with the id of the list, here {quoted(line.list_id)}, not {quoted(list_id)}"
            raise DataError(trouble, path=self._path, line=number)
        return None, numbers_of_words(words, "a statistic", self._path, number)

    def end(self) -> None:
        """Raise `DataError` if there are more lines."""
        number, _ = next(self._lines, (None, ""))
        if number is not None:
            raise DataError(f"more lines than {self._lists}", path=self._path, line=number)


def _check_writable(nbest: NBest, path: str | Path) -> None:
    for name in (*nbest.names, *nbest.statistic_names):
        if words_of(name) != [name] or SEPARATOR in name:
            raise DataError(f"the name {quoted(name)} has white space or {SEPARATOR}; rename it", path=path)
    for text in (*nbest.list_ids, *(nbest.texts or ())):
        if SEPARATOR in text or "\n" in text or "\r" in text or text.strip(WHITE) != text:
            trouble = f"has {SEPARATOR}, a line end, or white space at an end, which the format cannot keep; replace it"
            raise DataError(f"{reprlib.repr(text)} {trouble}", path=path)


MOSES = Format("Moses, cdec, Joshua, travatar lists", read_moses, write_moses, pooled=True)
