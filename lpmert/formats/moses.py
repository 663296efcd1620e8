"""N-best lists of Moses, cdec, Joshua and travatar, `id ||| text ||| name= v v ... ||| score`: read and written.

`name= v v ...` and the older `name: v v ...` are groups: they give name_0, name_1, ..., and every line has them. One
number after a name with an underscore, and `name=v`, are a sparse feature: 0 where a line lacks it.

Data of Moses' mert as text: files of features and of statistics (scores), with a block for each list.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, pairwise, zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lpmert.errors import DataError
from lpmert.files import EMPTY, Bytes, atomic_writer, head_of, lines_of, open_bytes
from lpmert.formats.format import (
    WHITE,
    WORD,
    Cell,
    Format,
    Paths,
    Piece,
    Place,
    Pool,
    blocks_of,
    first_of,
    is_word,
    number_text,
    placed_lines,
    plain_numbers,
    read_block,
    rows_by_column,
    runs_of,
    words_of,
)
from lpmert.model.arrays import numbered, one_or_more
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted, repeated
from lpmert.registry import BLEU_COLUMNS, ERROR_COLUMNS, TER_COLUMNS

SEPARATOR = "|||"
STATISTICS_LABEL = "statistics:"  # first word of the last field where `write_moses` puts the statistics

_OF_GROUP = re.compile(r"([^_]+)_(0|[1-9][0-9]{0,17})")
_SINGLE = " "  # last character of the label of `name=v`

Statistics = tuple[tuple[str, ...] | None, list[float]]
"""The names of the statistics, or `None` for mere numbers, and the numbers in one line."""


def read_moses(
    paths: Paths,
    *,
    statistics_file: Paths = (),
    last_field: bool = False,
    statistics: Sequence[str] | None = None,
    group: bool = False,
    counted: bool | None = False,
) -> NBest:
    """Read N-best lists in the format of Moses; lists with equal ids in several files (runs) are pooled.

    Statistics, unless `counted` from the texts, come from `statistics_file`, a file for each of `paths`, whose line has
    the id and the numbers of the same line; from the last field, with `last_field`; or from the field that
    `write_moses` wrote. `statistics` names them. With `group`, lines of a list may lie apart.
    """
    files, statistics_files = one_or_more(paths, "paths"), one_or_more(statistics_file, "statistics_file")
    if not files:
        raise DataError("give at least one file of lists")
    if sum((bool(counted), bool(statistics_files), last_field)) > 1:
        raise DataError("give one source of statistics: references, statistics_file or last_field", path=files[0])
    if statistics_files and len(statistics_files) != len(files):
        counts = f"{len(files)} files of lists and {len(statistics_files)} of statistics"
        raise DataError(f"{counts}; give one for each", path=files[0])
    reader = _Reader(group)
    for path, beside in zip_longest(files, statistics_files):
        if beside is None:
            reader.add(path, _last_field if last_field else _labelled if counted is False else _uncounted)
            continue
        rows = placed_lines(beside)
        reader.add(path, partial(_of_next_row, rows, beside), blocks=False)
        for place, _ in rows:
            raise place.error(f"more lines than {path}")
    return reader.nbest(statistics)


def write_moses(nbest: NBest, path: str | Path) -> None:
    """Write N-best lists in the format of Moses; the model score is 0. Texts that are all empty read back as none."""
    for name in (*nbest.names, *nbest.statistic_names):
        if not is_word(name) or SEPARATOR in name:
            raise DataError(f"the name {quoted(name)} has white space or {SEPARATOR}; rename it", path=path)
    for text in (*nbest.list_ids, *(nbest.texts or ())):
        if SEPARATOR in text or "\n" in text or "\r" in text or text.strip(WHITE) != text:
            trouble = f"has {SEPARATOR}, a line end, or white space at an end, which the format cannot keep; replace it"
            raise DataError(f"{reprlib.repr(text)} {trouble}", path=path)
    labels, everywhere = _grouped(nbest.names)
    list_ids = [nbest.list_ids[number] for number in nbest.list_index.tolist()]
    texts = nbest.texts or ("",) * nbest.n_hypotheses
    rows = zip(list_ids, texts, rows_by_column(nbest.features), nbest.statistics.tolist(), strict=True)
    with atomic_writer(path) as stream:
        for number, (list_id, text, row, values) in enumerate(rows):
            features = _written(labels, everywhere, row, first=number == 0)
            named = zip(nbest.statistic_names, map(number_text, values), strict=True)
            statistics = " ".join(f"{name}={value}" for name, value in named)
            fields = list_id, text, features, "0", f"{STATISTICS_LABEL} {statistics}"
            stream.write(f" {SEPARATOR} ".join(fields) + "\n")


class _Line(NamedTuple):
    """Fields of a line, stripped; `last` is empty where the features are the last field."""

    place: Place
    list_id: str
    text: str
    features: str
    last: str


StatisticsOf = Callable[[_Line], Statistics]


class _Reader:
    def __init__(self, group: bool) -> None:
        self._group, self._pool = group, Pool()
        self._feature_names: dict[tuple[str | None, ...], tuple[str, ...]] = {}  # by the labels of a line
        self._required: set[str] = set()
        self._statistics: Statistics | None = None  # of the first line

    def add(self, path: str | Path, statistics_of: StatisticsOf, *, blocks: bool = True) -> None:
        """Add the lists of a file, line by line unless `blocks`; refuses a last line that may be cut off."""
        self._pool.begin_file()
        layout: _Layout | None = None
        with open_bytes(path) as stream:
            for block in blocks_of(stream, path):
                (text,) = lines_of(first_of(block), path)
                layout = layout or _Layout.of(text)
                if blocks and self._add_block(block, layout, text, Place(path, block.first), statistics_of):
                    continue
                for number, text in enumerate(lines_of(block, path), block.first):
                    line = layout.line(text, Place(path, number))
                    refuse = None if self._group else line.place.error
                    self._pool.add_row(line.list_id, *self._parts(line, statistics_of), line.text, refuse)
        if not block.data.endswith(b"\n"):
            last = Place(path, block.first + block.n_lines - 1)
            raise last.error("no line end here, so the file may be cut off; add one if it is whole")

    def _parts(self, line: _Line, statistics_of: StatisticsOf) -> tuple[tuple[str, ...], list[float], list[float]]:
        labels, spans = number_spans(line.features)
        names = self._names_of(tuple(labels), line.place)
        values = line.place.numbers([line.features[start:end] for start, end in spans], "a feature")
        statistic_names, numbers = statistics_of(line)
        names_of_first, first = self._statistics = self._statistics or (statistic_names, numbers)
        if statistic_names != names_of_first or len(numbers) != len(first) or not numbers:
            shown = " ".join(names_of_first or ()) or f"{len(first)} numbers"
            trouble = f"{len(numbers)} statistics, but the first line has {shown}"
            raise line.place.error(f"{trouble}; give every line the same")
        return names, values, numbers

    def _names_of(self, labels: tuple[str | None, ...], place: Place) -> tuple[str, ...]:
        """Return the names for these labels; raises `DataError` if they are ambiguous, or not those of every line."""
        known = self._feature_names
        if labels in known:
            return known[labels]
        unnamed = ((name, True) for name in numbered("feature", len(labels)))
        found = list(names_of(labels, place) if any(labels) else unnamed)
        names, required = tuple(name for name, _ in found), {name for name, everywhere in found if everywhere}
        if (twice := repeated(names)) is not None:
            raise place.error(f"feature {quoted(twice)} comes twice")
        if not names:
            raise place.error("no features")
        self._required = self._required if known else required
        for name in sorted(required ^ self._required):
            trouble = "is new here" if name in required else "is missing"
            raise place.error(f"feature {quoted(name)} {trouble}; every line needs the same ones")
        if len(known) == 1000:
            known.clear()  # with sparse features, nearly every line has labels of its own
        known[labels] = names
        return names

    def _add_block(self, block: Bytes, layout: _Layout, text: str, place: Place, statistics_of: StatisticsOf) -> bool:
        """Add the lines of a block if all fit the template of the first one, `text`; return whether they do."""
        first = layout.line(text, place)
        names, _, _ = self._parts(first, statistics_of)
        of_last = statistics_of is not _uncounted
        found = read_block(block, layout.pieces(text, last=of_last), SEPARATOR, loose=True)
        ids = [] if found is None else [word.strip(WHITE) for word in found.words]
        if found is None or len({*ids}) < len(ids) or not all(ids):
            return False
        line = block.first
        for list_id, size in runs_of(found._replace(words=ids).ids(0)):
            self._pool.add(list_id, size, None if self._group else Place(place.path, line).error)
            line += size
        split, rows = 1 + len(names), len(found.numbers)
        self._pool.texts += [text.strip(WHITE) for text in found.texts]
        sums = found.numbers[:, split:] if of_last else np.zeros(rows)
        self._pool.add_rows(names, found.numbers[:, 1:split], sums, rows)
        return True

    def nbest(self, statistic_names: Sequence[str] | None) -> NBest:
        if statistic_names is None and self._statistics is not None:
            statistic_names = self._statistics[0]
        return self._pool.nbest(statistic_names, texts=any(self._pool.texts))


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
            if len(score) == 1 and plain_numbers(score, textual=True) and any(map(label_of, words_of(fields[3]))):
                return _Layout(len(fields), 3)
        return _Layout(len(fields), 2)

    def line(self, text: str, place: Place) -> _Line:
        fields = [field.strip(WHITE) for field in text.split(SEPARATOR)]
        if not text.strip(WHITE):
            raise place.error("empty line; delete it")
        if len(fields) != self.n_fields or self.n_fields <= self.features:
            enough = self.n_fields > self.features
            wanted = f"line 1 has {self.n_fields}" if enough else "a line needs id, text and features"
            remedy = f"a text must not hold {SEPARATOR}"
            raise place.error(f"{len(fields)} fields between {SEPARATOR}, but {wanted}; {remedy}")
        if not fields[0]:
            raise place.error("the first field must say which list the line belongs to")
        last = fields[-1] if self.n_fields - 1 > self.features else ""
        return _Line(place, fields[0], fields[1], fields[self.features], last)

    def pieces(self, text: str, *, last: bool) -> Iterator[Piece]:
        """Yield the template of lines like this one; last: the numbers in the last field are statistics."""
        for place, field in enumerate(text.split(SEPARATOR)):
            separator, end = SEPARATOR if place else "", 0
            if place == self.features or (last and place == self.n_fields - 1):
                for start, stop in number_spans(field)[1]:
                    yield separator + field[end:start], Cell.NUMBER, None
                    separator, end = "", stop
                yield separator + field[end:], None, None
            else:
                yield separator, (Cell.WORD, Cell.TEXT, Cell.SKIPPED)[min(place, 2)], place


def _uncounted(_: _Line) -> Statistics:
    return None, [0.0]


def _last_field(line: _Line) -> Statistics:
    return None, line.place.numbers(words_of(line.last), "a statistic")


def _labelled(line: _Line) -> Statistics:
    if not line.last.startswith(STATISTICS_LABEL):
        sources = "references (--references FILE), a file of statistics (--statistics-file FILE)"
        raise line.place.error(f"no statistics; give {sources}, or say that the last field has them (--last-field)")
    parts = [word.rpartition("=") for word in words_of(line.last.removeprefix(STATISTICS_LABEL))]
    names = tuple(name for name, _, _ in parts)
    if not all(names) or repeated(names) is not None:
        raise line.place.error(f"statistics are name=number, with each name once, after {STATISTICS_LABEL}")
    return names, line.place.numbers([number for _, _, number in parts], "a statistic")


def _of_next_row(rows: Iterator[tuple[Place, str]], path: str | Path, line: _Line) -> Statistics:
    place, text = next(rows, (Place(path), None))
    if text is None:
        raise place.error(f"ends before line {line.place.line} of {line.place.path}")
    list_id, *words = words_of(text) or [""]
    if list_id != line.list_id:
        ids = f"here {quoted(line.list_id)}, not {quoted(list_id)}"
        raise place.error(f"a line must begin with the id of the list, {ids}")
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


def _grouped(names: Sequence[str]) -> tuple[list[str], dict[int, None]]:
    """Return the text before the number of each feature, and the columns that every line has: name_0, name_1, ..."""
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
    return labels, everywhere


def _written(labels: Sequence[str], everywhere: Mapping[int, None], row: Mapping[int, float], *, first: bool) -> str:
    """Return the features of a hypothesis, numbers by column without zeros, as text; first: with zeros."""
    others = (column for column in row if column not in everywhere)
    columns = range(len(labels)) if first else [*everywhere, *others] or [0]
    return " ".join(labels[column] + number_text(row.get(column, 0.0)) for column in columns)


MOSES = Format("Moses, cdec, Joshua, travatar lists", read_moses, write_moses, pooled=True, metric="bleu")


# Data of mert


SCORE_TYPES: Mapping[str, tuple[str, ...]] = {
    "BLEU": BLEU_COLUMNS,
    "WER": ERROR_COLUMNS,
    "CDER": ERROR_COLUMNS,
    "TER": TER_COLUMNS,
    "CHRF": (
        *(f"{what}_char_{order}" for order in range(1, 7) for what in ("match", "hypothesis", "reference")),
        "length",
        "reference_length",
    ),
}
"""Names of the statistics of each type of score, in the order of the files; those of TER are times 100.

CHRF only counts n-grams of a reference that the hypothesis has, too (Moses' mert, CHRFScorer.cpp).
"""

SPARSE = "sparse"  # name of the single feature that replaces all sparse ones in `merge_sparse`

_FEATURES, _SCORES = "features", ("scores", "statscore")
"""Words in the names of files of features and of scores in Moses' scripts."""


class MertData(NamedTuple):
    """Lists, the type of their statistics, and the number of dense features, which come first."""

    nbest: NBest
    score_type: str
    n_dense: int


def load_mert_data(features: Paths, scores: Paths) -> MertData:
    """Read lists that begin `FEATURES_TXT_BEGIN_0 id hypotheses columns names` and `SCORES_TXT_BEGIN_0 ... type`."""
    feature_files, score_files = one_or_more(features, "features"), one_or_more(scores, "scores")
    if not feature_files or len(feature_files) != len(score_files):
        raise DataError(f"{len(feature_files)} files of features and {len(score_files)} of scores; give one for each")
    pool, dense, kind, width = Pool(), tuple[str, ...](), "", 0
    for block, scored in chain.from_iterable(map(_pairs, feature_files, score_files)):
        names, own = block.extra or numbered("feature", block.width), " ".join(scored.extra)
        if len(names) != block.width:
            raise block.place.error(f"{len(names)} names for {block.width} columns")
        if (twice := repeated(names)) is not None:
            raise block.place.error(f"two columns are called {quoted(twice)}")
        if not pool.numbers:
            dense, kind, width = names, own, scored.width
        if names != dense:
            raise block.place.error(f"other names than those of the first list, {' '.join(dense)}")
        found = f"{scored.width} columns of {own or 'no type'}"
        if not scored.width or not is_word(own):
            raise scored.place.error(f"{found}; give columns and one type")
        if (own, scored.width) != (kind, width):
            raise scored.place.error(f"{found}, but the first list has {width} of {kind}; give all the same")
        for (place, words), (of_scores, numbers) in zip(block.rows, scored.rows, strict=True):
            if len(numbers) != width:
                raise of_scores.error(f"{len(numbers)} words in {width} columns")
            statistics = of_scores.numbers(numbers, "a statistic")
            pool.add_row(block.list_id, *_features(words, dense, place), statistics)
    columns = SCORE_TYPES.get(kind, ())
    return MertData(pool.nbest(columns if len(columns) == width else None), kind, len(dense))


def read_mert_data(features: Paths, *, scores: Paths | None = None) -> NBest:
    """Return the lists of `load_mert_data`; files of scores are by default those beside the features."""
    beside = []
    for path in one_or_more(features, "features") if scores is None else ():
        files = _score_paths(path)
        there = [file for file in files if file.is_file()]
        if not there:
            looked = f" (there is no {files[0].name} beside it)" if files else ""
            trouble = f"which file has the scores of these lists?{looked}; give scores (--scores FILE)"
            raise DataError(trouble, path=path)
        beside.append(there[0])
    return load_mert_data(features, beside if scores is None else scores).nbest


def _score_paths(features: str | Path) -> list[Path]:
    """Return the paths that a file of scores may have beside one of features; none if its name lacks "features"."""
    before, there, after = Path(features).name.rpartition(_FEATURES)
    return [Path(features).parent / f"{before}{word}{after}" for word in _SCORES] if there else []


def merge_sparse(data: MertData, weights: Mapping[str, float]) -> NBest:
    """Return the lists with `sparse`, the sum of sparse features times these weights, by default 0, in their place."""
    features, names, n_dense = data.nbest.features, data.nbest.names, data.n_dense
    dense = features[:, :n_dense] if isinstance(features, np.ndarray) else features[:, :n_dense].toarray()
    sums = features[:, n_dense:] @ np.array([weights.get(name, 0.0) for name in names[n_dense:]])
    return data.nbest.changed(features=np.column_stack([dense, sums]), names=[*names[:n_dense], SPARSE])


def write_mert_data(
    nbest: NBest, features: str | Path, *, scores: str | Path | None = None, score_type: str | None = None
) -> None:
    """Write a file of features and one of scores, whose name by default has "scores" for "features", without texts.

    Of sparse rows, leading features that no row lacks are written as dense ones, the others as `name=value`.
    """
    known = (kind for kind, columns in SCORE_TYPES.items() if columns == nbest.statistic_names)
    kind = next(known, None) if score_type is None else score_type
    if kind is None:
        raise DataError(f"give the type of the scores, such as {listed(SCORE_TYPES)}", path=features)
    scores = next(iter(_score_paths(features)), None) if scores is None else scores
    if scores is None:
        raise DataError("call this one like run1.features.dat, or in Python give the file of scores", path=features)
    for word in (*nbest.names, *nbest.list_ids, kind):
        if not is_word(word):
            raise DataError(f"{quoted(word)} has white space, which separates words here; rename it", path=features)
    if Path(features).resolve() == Path(scores).resolve():
        raise DataError("features and scores need a file each", path=features)
    dense, names = nbest.n_features, nbest.names
    if not isinstance(nbest.features, np.ndarray):  # the leading features that no hypothesis lacks
        counts = np.bincount(nbest.features.indices, minlength=dense)
        dense = int(np.argmin(np.append(counts == nbest.n_hypotheses, False)))
    labels = [*[""] * dense, *(f"{name}=" for name in names[dense:])]
    everywhere, rows = dict.fromkeys(range(dense)), rows_by_column(nbest.features)
    with atomic_writer(features) as feature_stream, atomic_writer(scores) as score_stream:
        for list_id, (start, end) in zip(nbest.list_ids, pairwise(nbest.offsets.tolist()), strict=True):
            feature_stream.write(f"FEATURES_TXT_BEGIN_0 {list_id} {end - start} {dense} {' '.join(names[:dense])}\n")
            for hypothesis, row in enumerate(islice(rows, end - start), start):
                feature_stream.write(_written(labels, everywhere, row, first=hypothesis == 0) + "\n")
            feature_stream.write("FEATURES_TXT_END_0\n")
            score_stream.write(f"SCORES_TXT_BEGIN_0 {list_id} {end - start} {nbest.statistics.shape[1]} {kind}\n")
            for numbers in nbest.statistics[start:end].tolist():
                score_stream.write(" ".join(map(number_text, numbers)) + "\n")
            score_stream.write("SCORES_TXT_END_0\n")


class _Block(NamedTuple):
    """A list of a file: its place, id and number of columns, further words of its first line, and its rows as words."""

    place: Place
    list_id: str
    width: int
    extra: tuple[str, ...]
    rows: list[tuple[Place, list[str]]]


def _pairs(features: str | Path, scores: str | Path) -> Iterator[tuple[_Block, _Block]]:
    block = None
    for block, scored in zip_longest(_blocks(features, "FEATURES"), _blocks(scores, "SCORES")):
        if block is None or scored is None:
            short, longer = (features, scored) if block is None else (scores, block)
            raise DataError(f"ends before the list on line {longer.place.line} of {longer.place.path}", path=short)
        sizes = [f"list {quoted(one.list_id)} of {len(one.rows)} hypotheses" for one in (scored, block)]
        if sizes[0] != sizes[1]:
            raise scored.place.error(f"{sizes[0]}, but line {block.place.line} of {features} has {sizes[1]}")
        yield block, scored
    if block is None:
        raise DataError(EMPTY, path=features)


def _features(words: Sequence[str], dense: tuple[str, ...], place: Place) -> tuple[tuple[str, ...], list[float]]:
    """Return names and numbers, dense ones first; sparse ones are `name=value` or, in old versions, `name:value`."""
    numbers = words[: len(dense)]
    if len(numbers) < len(dense) or any("=" in word for word in numbers):
        raise place.error(f"fewer than {len(dense)} numbers")
    pairs = [word.rpartition("=" if "=" in word else ":") for word in words[len(dense) :]]
    for name, _, value in pairs:
        if not name:
            trouble = "after the numbers is no sparse feature, such as name=1; or there are too many numbers"
            raise place.error(f"{quoted(value)} {trouble}")
    names = (*dense, *(name for name, _, _ in pairs)) if pairs else dense
    if pairs and (twice := repeated(names)) is not None:
        raise place.error(f"feature {quoted(twice)} comes twice")
    return names, place.numbers([*numbers, *(value for _, _, value in pairs)], "a feature")


def _blocks(path: str | Path, what: str) -> Iterator[_Block]:
    binary, begin, end = f"{what}_BIN_BEGIN_0".encode(), f"{what}_TXT_BEGIN_0", f"{what}_TXT_END_0"
    if head_of(path, len(binary)) == binary:
        raise DataError("binary data; let Moses' extractor write text, without --binary", path=path)
    rows = ((place, words_of(text)) for place, text in placed_lines(path))
    for place, words in rows:
        if words[:1] != [begin] or len(words) < 4:
            raise place.error(f"a list must begin here, with {begin}, id, hypotheses and columns")
        count, width = place.whole(words[2], "the number of hypotheses"), place.whole(words[3], "the number of columns")
        found = list[tuple[Place, list[str]]]()
        for row in rows:
            if row[1][:1] == [end]:
                break
            found.append(row)
        else:
            raise place.error("the file ends within the list that begins here")
        if len(found) != count or not count:
            raise place.error(f"{len(found)} hypotheses, but this line says {count}; a list has at least one")
        yield _Block(place, words[1], width, tuple(words[4:]), found)


MERT = Format("data of Moses' mert", read_mert_data, write_mert_data, pooled=True)
