"""Data of Moses' mert: blocks of features and of statistics (scores), one a list; read, and written as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lpmert.errors import DataError
from lpmert.formats.format import Format, Pool, rows_by_column
from lpmert.formats.text import Place, is_word, number_text, placed_lines, words_of
from lpmert.model.arrays import numbered, one_or_more
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted, repeated
from lpmert.registry import BLEU_COLUMNS, ERROR_COLUMNS, TER_COLUMNS
from lpmert.system.files import EMPTY, atomic_writer, head_of
from lpmert.system.memory import room_for

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

Of the n-grams of a reference, those of CHRF count only such as the hypothesis has (Moses' mert, CHRFScorer.cpp).
"""

SPARSE = "sparse"
"""Name of the one feature that `merge_sparse` makes of all sparse ones."""

Paths = str | Path | Sequence[str | Path]

_FEATURES, _SCORES = "features", ("scores", "statscore")
"""What files of features and of scores are called in Moses' scripts."""


class MertData(NamedTuple):
    """Lists, the type of their statistics, and how many features, the first ones, are dense."""

    nbest: NBest
    score_type: str
    n_dense: int


def load_mert_data(features: Paths, scores: Paths) -> MertData:
    """Read lists that begin `FEATURES_TXT_BEGIN_0 id hypotheses columns names` and `SCORES_TXT_BEGIN_0 ... type`.

    Several files (runs) are pooled, lists with equal ids gathered. Sparse features are `name=value` after the numbers
    of a line, and 0 where a line lacks them. Raises `DataError` with file and line unless each file of features has
    the same blocks as its file of scores, and all have the same names, columns and type.
    """
    feature_files, score_files = one_or_more(features, "features"), one_or_more(scores, "scores")
    if not feature_files or len(feature_files) != len(score_files):
        raise DataError(f"{len(feature_files)} files of features and {len(score_files)} of scores; give one for each")
    reader = _Reader()
    for pair in zip(feature_files, score_files, strict=True):
        reader.add(*pair)
    return reader.data()


def read_mert_data(features: Paths, *, scores: Paths | None = None) -> NBest:
    """Return the lists of `load_mert_data`.

    Without `scores` these are the files beside those of features that are called like them, with `scores` (or
    `statscore`) in the place of `features`; raises `DataError` where they are not there.
    """
    return load_mert_data(features, _beside(features) if scores is None else scores).nbest


def _beside(features: Paths) -> list[Path]:
    found = []
    for path in one_or_more(features, "features"):
        files = _called_like(path)
        file = next((file for file in files if file.is_file()), None)
        if file is None:
            looked = f" (there is no {files[0].name} beside it)" if files else ""
            raise DataError(
                f"which file has the scores of these lists?{looked}; give scores (--scores FILE)", path=path
            )
        found.append(file)
    return found


def _called_like(features: str | Path) -> list[Path]:
    """Return what files of scores are called beside one of features, none if it is not called so itself."""
    before, there, after = Path(features).name.rpartition(_FEATURES)
    return [Path(features).parent / f"{before}{word}{after}" for word in _SCORES] if there else []


def merge_sparse(data: MertData, weights: Mapping[str, float]) -> NBest:
    """Return the lists with their dense features and one more, `sparse`: the sparse ones times these weights, summed.

    A sparse feature without a weight counts 0, as in Moses.
    """
    nbest = data.nbest
    names = nbest.names[: data.n_dense]
    factors = np.array([weights.get(name, 0.0) for name in nbest.names[data.n_dense :]])
    dense = nbest.features[:, : data.n_dense]
    dense = dense if isinstance(dense, np.ndarray) else dense.toarray()
    merged = np.column_stack([dense, nbest.features[:, data.n_dense :] @ factors])
    return nbest.changed(features=merged, names=[*names, SPARSE])


def write_mert_data(
    nbest: NBest, features: str | Path, *, scores: str | Path | None = None, score_type: str | None = None
) -> None:
    """Write a file of features and one of scores that `read_mert_data` reads back to exactly the same numbers.

    `scores` may be left out where the name of `features` has that word: the file of scores is then called so instead.
    `score_type` may be left out where the names of the statistics are those of one in `SCORE_TYPES`. Of sparse rows,
    leading features without any 0 are written as dense ones, the others as `name=value`. Texts are not kept. Raises
    `DataError` where a name or an id has white space.
    """
    kind = _score_type(nbest, features) if score_type is None else score_type
    if scores is None:
        if not (files := _called_like(features)):
            trouble = "call this one like run1.features.dat, or in Python give the file of scores"
            raise DataError(trouble, path=features)
        scores = files[0]
    for word in (*nbest.names, *nbest.list_ids, kind):
        if not is_word(word):
            raise DataError(f"{quoted(word)} has white space, which separates words here; rename it", path=features)
    if Path(features).resolve() == Path(scores).resolve():
        raise DataError("features and scores need a file each", path=features)
    dense, names = _leading_dense(nbest), nbest.names
    rows = rows_by_column(nbest.features)
    with atomic_writer(features) as feature_stream, atomic_writer(scores) as score_stream:
        for number, list_id in enumerate(nbest.list_ids):
            start, end = nbest.offsets[number : number + 2].tolist()
            feature_stream.write(f"FEATURES_TXT_BEGIN_0 {list_id} {end - start} {dense} {' '.join(names[:dense])}\n")
            for hypothesis, row in enumerate(islice(rows, end - start), start):
                words = [number_text(row[column]) for column in range(dense)]
                # the first line has all features, so that reading finds them in the same order
                columns = range(dense, len(names)) if hypothesis == 0 else (one for one in row if one >= dense)
                words += [f"{names[column]}={number_text(row.get(column, 0.0))}" for column in columns]
                feature_stream.write(" ".join(words) + "\n")
            feature_stream.write("FEATURES_TXT_END_0\n")
            score_stream.write(f"SCORES_TXT_BEGIN_0 {list_id} {end - start} {nbest.statistics.shape[1]} {kind}\n")
            for numbers in nbest.statistics[start:end].tolist():
                score_stream.write(" ".join(map(number_text, numbers)) + "\n")
            score_stream.write("SCORES_TXT_END_0\n")


def _leading_dense(nbest: NBest) -> int:
    """Return how many of the first features no hypothesis lacks."""
    if isinstance(nbest.features, np.ndarray):
        return nbest.n_features
    counts = np.bincount(nbest.features.indices, minlength=nbest.n_features)
    return int(np.argmin(np.append(counts == nbest.n_hypotheses, False)))


class _Block(NamedTuple):
    """One list of a file: where it begins, the words after the counts of its first line, and its rows as words."""

    place: Place
    list_id: str
    width: int
    extra: tuple[str, ...]
    rows: list[tuple[Place, list[str]]]


class _Reader:
    def __init__(self) -> None:
        self._pool = Pool()
        self._names: tuple[str, ...] | None = None
        self._type = ""
        self._width = 0

    def add(self, features: str | Path, scores: str | Path) -> None:
        for feature_block, score_block in zip_longest(_blocks(features, "FEATURES"), _blocks(scores, "SCORES")):
            if feature_block is None or score_block is None:
                short, longer = (features, score_block) if feature_block is None else (scores, feature_block)
                raise DataError(f"ends before the list on {_line_of(longer)}", path=short)
            _check_pair(feature_block, score_block)
            room_for(0, "reading")
            self._pool.add(feature_block.list_id, len(feature_block.rows))
            self._add_features(feature_block)
            self._add_scores(score_block)
        if not len(self._pool):
            raise DataError(EMPTY, path=features)

    def _add_features(self, block: _Block) -> None:
        names = block.extra or numbered("feature", block.width)
        if len(names) != block.width:
            raise block.place.error(f"{len(names)} names for {block.width} columns")
        if self._names is None:
            if repeated(names) is not None:
                raise block.place.error(f"two columns are called {quoted(repeated(names))}")
            self._names = names
        if names != self._names:
            raise block.place.error(f"other names than those of the first list, {' '.join(self._names)}")
        for place, words in block.rows:
            numbers = words[: block.width]
            pairs = [_pair(word, place) for word in words[block.width :]]
            if len(numbers) < block.width or any("=" in word for word in numbers):
                raise place.error(f"fewer than {block.width} numbers")
            own = (*self._names, *(name for name, _ in pairs)) if pairs else self._names
            if pairs and repeated(own) is not None:
                raise place.error(f"feature {quoted(repeated(own))} comes twice")
            self._pool.features.add(own, place.numbers([*numbers, *(value for _, value in pairs)], "a feature"))

    def _add_scores(self, block: _Block) -> None:
        if len(block.extra) != 1:
            raise block.place.error(f"{len(block.extra)} words for the type of the scores")
        if not self._width:
            self._type, self._width = block.extra[0], block.width
        if (block.extra[0], block.width) != (self._type, self._width) or not block.width:
            raise block.place.error(
                f"{block.width} columns of {block.extra[0]}, but the first list has {self._width} of {self._type}"
            )
        for place, words in block.rows:
            if len(words) != block.width:
                raise place.error(f"{len(words)} words in {block.width} columns")
            self._pool.statistics.add(place.numbers(words, "a statistic"))

    def data(self) -> MertData:
        columns = SCORE_TYPES.get(self._type, ())
        nbest = self._pool.nbest(columns if len(columns) == self._width else None)
        return MertData(nbest, self._type, len(self._names or ()))


def _blocks(path: str | Path, what: str) -> Iterator[_Block]:
    begin = f"{what}_BIN_BEGIN_0".encode()
    if head_of(path, len(begin)) == begin:
        raise DataError("binary data; let Moses' extractor write text, without --binary", path=path)
    rows = placed_lines(path)
    for place, text in rows:
        list_id, count, width, extra = _head(text, f"{what}_TXT_BEGIN_0", place)
        found: list[tuple[Place, list[str]]] = []
        for row_place, row in rows:
            cells = words_of(row)
            if cells[:1] == [f"{what}_TXT_END_0"]:
                break
            if len(found) == count:
                raise row_place.error(f"more than the {count} hypotheses that line {place.line} says")
            found.append((row_place, cells))
        else:
            raise place.error("the file ends within the list that begins here")
        if len(found) != count:
            raise row_place.error(f"{len(found)} hypotheses, but line {place.line} says {count}")
        yield _Block(place, list_id, width, extra, found)


def _head(text: str, begin: str, place: Place) -> tuple[str, int, int, tuple[str, ...]]:
    """Return id, number of hypotheses and of columns, and all other words of the first line of a list."""
    words = words_of(text)
    if not words or words[0] != begin:
        raise place.error(f"a list must begin with {begin} here")
    if len(words) < 4:
        raise place.error(f"{words[0]} needs id, hypotheses and columns")
    count = place.whole(words[2], "the number of hypotheses")
    width = place.whole(words[3], "the number of columns")
    if not count:
        raise place.error(f"list {quoted(words[1])} is empty; leave it out")
    return words[1], count, width, tuple(words[4:])


def _check_pair(features: _Block, scores: _Block) -> None:
    if features.list_id != scores.list_id:
        raise scores.place.error(
            f"list {quoted(scores.list_id)}, but {_line_of(features)} has {quoted(features.list_id)}"
        )
    if len(features.rows) != len(scores.rows):
        raise scores.place.error(f"{len(scores.rows)} hypotheses, but {_line_of(features)} has {len(features.rows)}")


def _line_of(block: _Block) -> str:
    return f"line {block.place.line} of {block.place.path}"


def _pair(word: str, place: Place) -> tuple[str, str]:
    """Return name and value of a sparse feature, `name=value` or as in old versions `name:value`."""
    name, _, value = word.rpartition("=" if "=" in word else ":")
    if not name:
        raise place.error(
            f"{quoted(word)} after the numbers is no sparse feature, such as name=1; or there are too many numbers"
        )
    return name, value


def _score_type(nbest: NBest, path: str | Path) -> str:
    for kind, columns in SCORE_TYPES.items():
        if nbest.statistic_names == columns and kind != "CDER":
            return kind
    raise DataError(f"give the type of the scores, such as {listed(SCORE_TYPES)}", path=path)


MERT = Format("data of Moses' mert", read_mert_data, write_mert_data, pooled=True)
