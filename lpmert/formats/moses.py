"""N-best lists of Moses, cdec, Joshua and travatar, `id ||| text ||| name= v v ... ||| score`: read and written.

`name= v v ...` and the older `name: v v ...` are groups: they give name_0, name_1, ..., and every line has them. One
number after a name with an underscore, and `name=v`, are a sparse feature: 0 where a line lacks it.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lpmert.errors import DataError
from lpmert.formats.format import Format, Paths, Pool, rows_by_column
from lpmert.formats.rows import Cell, Piece, Style, blocks_of, first_of, read_block, runs_of
from lpmert.formats.text import WHITE, WORD, Place, is_word, number_text, placed_lines, words_of
from lpmert.model.arrays import numbered, one_or_more
from lpmert.model.nbest import NBest
from lpmert.quoting import quoted, repeated
from lpmert.system.files import Bytes, atomic_writer, lines_of, open_bytes
from lpmert.system.memory import room_for

SEPARATOR = "|||"
STATISTICS_LABEL = "statistics:"
"""First word of the last field where `write_moses` puts the statistics."""

_OF_GROUP = re.compile(r"([^_]+)_(0|[1-9][0-9]{0,17})")
_SINGLE = " "
"""Last character of the label of `name=v`."""
_MOST_LAYOUTS = 1000

Statistics = tuple[tuple[str, ...] | None, list[float]]
"""The names of the statistics, or `None` for mere numbers, and the numbers in one line."""


def read_moses(
    paths: Paths,
    *,
    statistics_file: Paths = (),
    last_field: bool = False,
    statistics: Sequence[str] | None = None,
    drop_texts: bool = False,
    group: bool = False,
    counted: bool | None = False,
) -> NBest:
    """Read N-best lists in the format of Moses; lists with equal ids in several files (runs) are pooled.

    Features are `name= v v ...` or `name: v v ...` (name_0, name_1, ..., on every line), `name=v` or, with an
    underscore in the name, `name= v` (0 where a line lacks them), or plain numbers (feature1, ...). They are the third
    field, or the fourth where the third is one number and the fourth has names. Other fields are ignored.

    Unless they are `counted` from the texts, statistics come from one of: `statistics_file`, a file for each of
    `paths`, whose line has the id and the numbers of the same line; the numbers in the last field, with `last_field`;
    or the field that `write_moses` wrote. `statistics` names them. With `drop_texts`, `NBest.deduplicate` does not
    compare texts. With `group`, lines of a list may lie apart. Raises `DataError` with file and line.
    """
    files, statistics_files = one_or_more(paths, "paths"), one_or_more(statistics_file, "statistics_file")
    if not files:
        raise DataError("give at least one file of lists")
    if sum((bool(counted), bool(statistics_files), last_field)) > 1:
        raise DataError("give one source of statistics: references, statistics_file or last_field", path=files[0])
    if statistics_files and len(statistics_files) != len(files):
        counts = f"{len(files)} files of lists and {len(statistics_files)} of statistics"
        raise DataError(f"{counts}; give one for each", path=files[0])
    reader = _Reader(group, keep_texts=bool(counted) or not drop_texts)
    for path, beside in zip_longest(files, statistics_files):
        if beside is None:
            reader.add(path, _last_field if last_field else _labelled if counted is False else _uncounted)
            continue
        rows = placed_lines(beside)
        reader.add(path, partial(_of_next_row, rows, beside), beside=True)
        for place, _ in rows:
            raise place.error(f"more lines than {path}")
    return reader.nbest(statistics)


def write_moses(nbest: NBest, path: str | Path) -> None:
    """Write N-best lists in the format of Moses; `read_moses` reads back exactly the same numbers, names and texts.

    The model score is written as 0, the statistics as a last field `statistics: name=v ...`. Features name_0, name_1,
    ... become `name= v v ...`. Texts that are all empty read back as no texts. Raises `DataError` where a name, an id
    or a text cannot be told from what is around it.
    """
    for name in (*nbest.names, *nbest.statistic_names):
        if not is_word(name) or SEPARATOR in name:
            raise DataError(f"the name {quoted(name)} has white space or {SEPARATOR}; rename it", path=path)
    for text in (*nbest.list_ids, *(nbest.texts or ())):
        if SEPARATOR in text or "\n" in text or "\r" in text or text.strip(WHITE) != text:
            trouble = f"has {SEPARATOR}, a line end, or white space at an end, which the format cannot keep; replace it"
            raise DataError(f"{reprlib.repr(text)} {trouble}", path=path)
    writer = FeatureWriter.of_groups(nbest.names)
    list_ids = [nbest.list_ids[number] for number in nbest.list_index.tolist()]
    texts = nbest.texts or ("",) * nbest.n_hypotheses
    rows = zip(list_ids, texts, rows_by_column(nbest.features), nbest.statistics.tolist(), strict=True)
    with atomic_writer(path) as stream:
        for number, (list_id, text, row, values) in enumerate(rows):
            features = writer.field(row, first=number == 0)
            named = zip(nbest.statistic_names, map(number_text, values), strict=True)
            statistics = " ".join(f"{name}={value}" for name, value in named)
            fields = list_id, text, features, "0", f"{STATISTICS_LABEL} {statistics}"
            stream.write(f" {SEPARATOR} ".join(fields) + "\n")


class _Line(NamedTuple):
    """The relevant fields of a line, stripped; `last` is empty where the features are the last field."""

    place: Place
    list_id: str
    text: str
    features: str
    last: str


StatisticsOf = Callable[[_Line], Statistics]


class _Reader:
    """Collects the lists of one or more files; group: lines of a list may lie apart."""

    def __init__(self, group: bool, *, keep_texts: bool) -> None:
        self._group, self._keep_texts = group, keep_texts
        self._pool = Pool()
        self._feature_names: dict[tuple[str | None, ...], tuple[str, ...]] = {}  # by the labels of a line
        self._required: set[str] = set()
        self._names: tuple[str, ...] | None = None
        self._width = 0
        self._begun: set[str] = set()
        self._last = ""

    def add(self, path: str | Path, statistics_of: StatisticsOf, *, beside: bool = False) -> None:
        """Add the lists of a file; beside: its statistics are in a second file, line by line."""
        self._begun, self._last = set(), ""
        layout: _Layout | None = None
        for block in _whole_blocks(path):
            (text,) = lines_of(first_of(block), path)
            layout = layout or _Layout.of(text)
            if not beside and self._add_block(block, layout, text, Place(path, block.first), statistics_of):
                continue
            for number, text in enumerate(lines_of(block, path), block.first):
                line = layout.line(text, Place(path, number))
                self._begin(line.list_id, line.place)
                names, values, numbers = self._parts(line, statistics_of)
                self._pool.add_row(line.list_id, names, values, numbers, line.text if self._keep_texts else None)

    def _parts(self, line: _Line, statistics_of: StatisticsOf) -> tuple[tuple[str, ...], list[float], list[float]]:
        """Return names and numbers of the features of a line, and its statistics."""
        labels, spans = number_spans(line.features)
        names = self._names_of(tuple(labels), line.place)
        values = line.place.numbers([line.features[start:end] for start, end in spans], "a feature")
        statistic_names, numbers = statistics_of(line)
        if not self._width:
            self._names, self._width = statistic_names, len(numbers)
        if statistic_names != self._names or len(numbers) != self._width or not numbers:
            first = " ".join(self._names or ()) or f"{self._width} numbers"
            raise line.place.error(
                f"{len(numbers)} statistics, but the first line has {first}; give every line the same"
            )
        return names, values, numbers

    def _names_of(self, labels: tuple[str | None, ...], place: Place) -> tuple[str, ...]:
        """Return the names for these labels; raises `DataError` if they are ambiguous, or not those of every line."""
        known = self._feature_names
        if labels in known:
            return known[labels]
        unnamed = ((name, True) for name in numbered("feature", len(labels)))
        found = list(names_of(labels, place) if any(labels) else unnamed)
        names, required = tuple(name for name, _ in found), {name for name, everywhere in found if everywhere}
        twice = repeated(names)
        if twice is not None:
            raise place.error(f"feature {quoted(twice)} comes twice")
        if not names:
            raise place.error("no features")
        self._required = self._required if known else required
        for name in sorted(required ^ self._required):
            trouble = "is new here" if name in required else "is missing"
            raise place.error(f"feature {quoted(name)} {trouble}; every line needs the same ones")
        if len(known) == _MOST_LAYOUTS:
            known.clear()  # with sparse features, nearly every line has labels of its own
        known[labels] = names
        return names

    def _add_block(self, block: Bytes, layout: _Layout, text: str, place: Place, statistics_of: StatisticsOf) -> bool:
        """Add the lines of a block if all fit the template of the first one, `text`; return whether they do."""
        first = layout.line(text, place)
        names, _, _ = self._parts(first, statistics_of)
        of_last = statistics_of is not _uncounted
        pieces = layout.pieces(text, keep_texts=self._keep_texts, last=of_last)
        found = read_block(block, Style.BLANK, pieces, SEPARATOR)
        ids = [] if found is None else [word.strip(WHITE) for word in found.words]
        if found is None or len({*ids}) < len(ids) or not all(ids):
            return False
        line = block.first
        for list_id, size in runs_of(found._replace(words=ids).ids(0)):
            self._begin(list_id, Place(first.place.path, line))
            self._pool.add(list_id, size)
            line += size
        split, rows = 1 + len(names), len(found.numbers)
        self._pool.texts += [text.strip(WHITE) for text in found.texts]
        self._pool.features.add(names, found.numbers[:, 1:split], rows)
        self._pool.statistics.add(found.numbers[:, split:] if of_last else np.zeros(rows), rows)
        return True

    def _begin(self, list_id: str, place: Place) -> None:
        """Note that hypotheses of a list follow; raises `DataError` if it returns after another list."""
        if list_id != self._last and list_id in self._begun and not self._group:
            raise place.error(
                f"list {quoted(list_id)} comes back here, after list {quoted(self._last)}; sort the lines, "
                "or gather them with group=True (--group)"
            )
        self._last = list_id
        self._begun.add(list_id)

    def nbest(self, statistic_names: Sequence[str] | None) -> NBest:
        names = self._names if statistic_names is None else statistic_names
        return self._pool.nbest(names, texts=any(self._pool.texts))


class _Layout(NamedTuple):
    """The number of fields in each line of a file, and the place of the field with the features."""

    n_fields: int
    features: int

    @staticmethod
    def of(text: str) -> _Layout:
        """Return the layout of a line: the features are its third field or, as in travatar's lists, the fourth."""
        fields = text.split(SEPARATOR)
        if len(fields) > 3 and not fields[3].strip(WHITE).startswith(STATISTICS_LABEL):
            score = words_of(fields[2])
            if len(score) == 1 and label_of(score[0]) is None and any(map(label_of, words_of(fields[3]))):
                return _Layout(len(fields), 3)
        return _Layout(len(fields), 2)

    def line(self, text: str, place: Place) -> _Line:
        """Return the fields of a line; raises `DataError` if they do not fit the layout."""
        fields = [field.strip(WHITE) for field in text.split(SEPARATOR)]
        if not text.strip(WHITE):
            raise place.error("empty line; delete it")
        if len(fields) != self.n_fields or self.n_fields <= self.features:
            wanted = (
                f"line 1 has {self.n_fields}" if self.n_fields > self.features else "a line needs id, text and features"
            )
            raise place.error(
                f"{len(fields)} fields between {SEPARATOR}, but {wanted}; a text must not hold {SEPARATOR}"
            )
        if not fields[0]:
            raise place.error("the first field must say which list the line belongs to")
        last = fields[-1] if self.n_fields - 1 > self.features else ""
        return _Line(place, fields[0], fields[1], fields[self.features], last)

    def pieces(self, text: str, *, keep_texts: bool, last: bool) -> Iterator[Piece]:
        """Yield the template of lines like this one; last: the numbers in the last field are statistics."""
        first_cells = (Cell.WORD, Cell.TEXT if keep_texts else Cell.SKIPPED)
        for place, field in enumerate(text.split(SEPARATOR)):
            separator, end = SEPARATOR if place else "", 0
            if place == self.features or (last and place == self.n_fields - 1):
                for start, stop in number_spans(field)[1]:
                    yield separator + field[end:start], Cell.NUMBER, None
                    separator, end = "", stop
                yield separator + field[end:], None, None
            else:
                yield separator, first_cells[place] if place < len(first_cells) else Cell.SKIPPED, place


def _whole_blocks(path: str | Path) -> Iterator[Bytes]:
    """Yield the lines of a file; raises `DataError` for a last line without an end: a number in it may be cut off."""
    block = Bytes(1, b"")
    with open_bytes(path) as stream:
        for block in blocks_of(stream, path):
            room_for(0, "reading")
            yield block
    if not block.data.endswith(b"\n"):
        last = Place(path, block.first + block.n_lines - 1)
        raise last.error("no line end here, so the file may be cut off; add one if it is whole")


def _uncounted(_: _Line) -> Statistics:
    return None, [0.0]


def _last_field(line: _Line) -> Statistics:
    return None, line.place.numbers(words_of(line.last), "a statistic")


def _labelled(line: _Line) -> Statistics:
    if not line.last.startswith(STATISTICS_LABEL):
        raise line.place.error(
            "no statistics; give references (--references FILE), a file of statistics (--statistics-file FILE), or say "
            "that the last field has them (--last-field)"
        )
    parts = [word.rpartition("=") for word in words_of(line.last.removeprefix(STATISTICS_LABEL))]
    names = tuple(name for name, _, _ in parts)
    if not all(names) or repeated(names) is not None:
        raise line.place.error(f"statistics are name=number, with each name once, after {STATISTICS_LABEL}")
    return names, line.place.numbers([number for _, _, number in parts], "a statistic")


def _of_next_row(rows: Iterator[tuple[Place, str]], path: Path, line: _Line) -> Statistics:
    """Read the next row of a file of statistics, which has the id of the list and the numbers of a line."""
    place, text = next(rows, (Place(path), None))
    if text is None:
        raise place.error(f"ends before line {line.place.line} of {line.place.path}")
    list_id, *words = words_of(text) or [""]
    if list_id != line.list_id:
        raise place.error(
            f"a line must begin with the id of the list, here {quoted(line.list_id)}, not {quoted(list_id)}"
        )
    return None, place.numbers(words, "a statistic")


def label_of(word: str) -> str | None:
    """Return the label in a word: `name=` or `name:` before numbers, `name ` for name=v, `None` for a mere number."""
    if word[-1] in "=:":
        return word
    name, equals, _ = word.rpartition("=")
    return name + _SINGLE if equals else None


def number_spans(text: str) -> tuple[list[str | None], list[tuple[int, int]]]:
    """Return the label of each word of a text, `None` for mere numbers, and the start and end of each number."""
    matches = list(WORD.finditer(text))
    labels = [label_of(match.group()) for match in matches]
    spans = [
        (match.start() + len(label or ""), match.end())
        for match, label in zip(matches, labels, strict=True)
        if label is None or label[-1] == _SINGLE
    ]
    return labels, spans


def names_of(labels: Sequence[str | None], place: Place) -> Iterator[tuple[str, bool]]:
    """Yield the name of each number by the labels of the words, and whether every line must have it."""
    starts = [at for at, label in enumerate(labels) if label is not None or at == 0]
    for start, end in pairwise([*starts, len(labels)]):
        label, count = labels[start] or "", end - start - 1
        name, single = label[:-1], label[-1:] == _SINGLE
        if not name:
            raise place.error("a number without the name of its feature")
        if single == bool(count):
            trouble = f"two numbers for feature {quoted(name)}" if single else f"no number after {quoted(label)}"
            raise place.error(trouble)
        if single or (count == 1 and "_" in name):
            yield name, False
        else:
            yield from ((f"{name}_{number}", True) for number in range(count))


class FeatureWriter(NamedTuple):
    """Writes the features of lines so that reading gives back exactly these names and numbers.

    labels: the text before the number of each feature. everywhere: the columns that every line has.
    """

    labels: Sequence[str]
    everywhere: Mapping[int, None]

    @staticmethod
    def of_groups(names: Sequence[str]) -> FeatureWriter:
        """Return a writer that puts features name_0, name_1, ... into groups, which every line has."""
        labels, everywhere, base, size = list[str](), dict[int, None](), "", 0
        for column, name in enumerate(names):
            match = _OF_GROUP.fullmatch(name)
            if match and (match[2] == "0" or (match[1] == base and int(match[2]) == size)):
                base, size = match[1], int(match[2]) + 1
                labels.append("" if size > 1 else f"{base}= ")
                everywhere[column] = None
            else:
                base = ""
                labels.append(f"{name}= " if "_" in name else f"{name}=")
        return FeatureWriter(labels, everywhere)

    def field(self, row: Mapping[int, float], *, first: bool) -> str:
        """Return the features of a hypothesis as text; row: its numbers by column, without zeros.

        first: write all features, so that reading keeps their order.
        """
        others = (column for column in row if column not in self.everywhere)
        columns = range(len(self.labels)) if first else [*self.everywhere, *others] or [0]
        return " ".join(self.labels[column] + number_text(row.get(column, 0.0)) for column in columns)


MOSES = Format("Moses, cdec, Joshua, travatar lists", read_moses, write_moses, pooled=True, metric="bleu")
