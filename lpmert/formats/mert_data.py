"""Data of Moses' mert: blocks of features and of statistics (scores), one a list; read, and written as text."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import count as count_from
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lpmert.errors import DataError
from lpmert.formats.format import Format
from lpmert.formats.numbers import NamedRows, count_of_text, number_text, numbers_of_words, repeated, rows_by_column
from lpmert.formats.utterances import words_of
from lpmert.metrics.columns import BLEU_COLUMNS, ERROR_COLUMNS, PER_COLUMNS, TER_COLUMNS
from lpmert.model.arrays import one_or_more
from lpmert.model.nbest import NBest
from lpmert.quoting import listed, quoted
from lpmert.system.files import EMPTY, atomic_writer, decoded, head_of, lines, open_bytes, whole
from lpmert.system.mapped import Growing, taken
from lpmert.system.memory import room_for

SCORE_TYPES: Mapping[str, tuple[str, ...]] = {
    "BLEU": BLEU_COLUMNS,
    "WER": ERROR_COLUMNS,
    "CDER": ERROR_COLUMNS,
    "TER": TER_COLUMNS,
    "PER": PER_COLUMNS,
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
    pool = _Pool()
    for pair in zip(feature_files, score_files, strict=True):
        pool.add(*pair)
    return pool.data()


def read_mert_data(features: Paths, *, scores: Paths | None = None) -> NBest:
    """Return the lists of `load_mert_data`.

    Without `scores` these are the files beside those of features that are called like them, with `scores` (or
    `statscore`) in the place of `features`; raises `DataError` where they are not there.
    """
    return load_mert_data(features, _beside(features) if scores is None else scores).nbest


def _beside(features: Paths) -> list[Path]:
    found = []
    for path in one_or_more(features, "features"):
        before, there, after = Path(path).name.rpartition(_FEATURES)
        names = [f"{before}{word}{after}" for word in _SCORES] if there else []
        file = next((Path(path).parent / name for name in names if (Path(path).parent / name).is_file()), None)
        if file is None:
            looked = f" (there is no {names[0]} beside it)" if names else ""
            raise DataError(
                f"which file has the scores of these lists?{looked}; give scores (--scores FILE)", path=path
            )
        found.append(file)
    return found


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
    columns = [*names, SPARSE]
    return NBest(merged, nbest.offsets, nbest.statistics, columns, nbest.list_ids, nbest.statistic_names, nbest.texts)


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
        before, there, after = Path(features).name.rpartition(_FEATURES)
        if not there:
            trouble = "give the file of scores, or call this one like run1.features.dat (--scores-out FILE)"
            raise DataError(trouble, path=features)
        scores = Path(features).parent / f"{before}{_SCORES[0]}{after}"
    for word in (*nbest.names, *nbest.list_ids, kind):
        if words_of(word) != [word]:
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

    line: int
    list_id: str
    width: int
    extra: tuple[str, ...]
    rows: list[tuple[int, list[str]]]


class _Pool:
    """Lists of all files."""

    def __init__(self) -> None:
        self._features = NamedRows()
        self._statistics = Growing()
        self._owners = array("q")
        self._lists: dict[str, int] = {}
        self._names: tuple[str, ...] | None = None
        self._type = ""
        self._width = 0

    def add(self, features: str | Path, scores: str | Path) -> None:
        """Add the lists of a file of features and the file of scores that belongs to it."""
        pairs = zip_longest(_blocks(features, "FEATURES"), _blocks(scores, "SCORES"))
        for feature_block, score_block in pairs:
            if feature_block is None or score_block is None:
                short, long = (features, scores) if feature_block is None else (scores, features)
                line = (feature_block or score_block).line
                raise DataError(f"ends before the list on line {line} of {long}", path=short)
            _check_pair(feature_block, score_block, features, scores)
            room_for(0, "reading")
            owner = self._lists.setdefault(feature_block.list_id, len(self._lists))
            self._owners.extend([owner] * len(feature_block.rows))
            self._add_features(feature_block, features)
            self._add_scores(score_block, scores)
        if not self._owners:
            raise DataError(EMPTY, path=features)

    def _add_features(self, block: _Block, path: str | Path) -> None:
        names = block.extra or tuple(f"feature{number}" for number in range(1, block.width + 1))
        if len(names) != block.width:
            raise DataError(f"{len(names)} names for {block.width} columns", path=path, line=block.line)
        if self._names is None:
            if repeated(names) is not None:
                raise DataError(f"two columns are called {quoted(repeated(names))}", path=path, line=block.line)
            self._names = names
        if names != self._names:
            first = " ".join(self._names)
            raise DataError(f"other names than those of the first list, {first}", path=path, line=block.line)
        for line, words in block.rows:
            numbers = words[: block.width]
            pairs = [_pair(word, path, line) for word in words[block.width :]]
            if len(numbers) < block.width or any("=" in word for word in numbers):
                raise DataError(f"fewer than {block.width} numbers", path=path, line=line)
            own = (*self._names, *(name for name, _ in pairs)) if pairs else self._names
            if pairs and repeated(own) is not None:
                raise DataError(f"feature {quoted(repeated(own))} comes twice", path=path, line=line)
            values = [*numbers, *(value for _, value in pairs)]
            self._features.add(own, numbers_of_words(values, "a feature", path, line))

    def _add_scores(self, block: _Block, path: str | Path) -> None:
        if len(block.extra) != 1:
            raise DataError(f"{len(block.extra)} words for the type of the scores", path=path, line=block.line)
        if not self._width:
            self._type, self._width = block.extra[0], block.width
        if (block.extra[0], block.width) != (self._type, self._width) or not block.width:
            trouble = f"{block.width} columns of {block.extra[0]}, but the first list has {self._width} of {self._type}"
            raise DataError(trouble, path=path, line=block.line)
        for line, words in block.rows:
            if len(words) != block.width:
                raise DataError(f"{len(words)} words in {block.width} columns", path=path, line=line)
            self._statistics.add(numbers_of_words(words, "a statistic", path, line))

    def data(self) -> MertData:
        """Return the lists in the order in which they first came."""
        owners = np.array(self._owners)
        names, features = self._features.matrix()
        statistics = self._statistics.whole().reshape(len(owners), -1)
        if (np.diff(owners) < 0).any():
            order = np.argsort(owners, kind="stable")
            features = taken(features, order) if isinstance(features, np.ndarray) else features[order]
            statistics = taken(statistics, order)
        columns = SCORE_TYPES.get(self._type, ())
        nbest = NBest(
            features=features,
            offsets=np.cumsum([0, *np.bincount(owners).tolist()]),
            statistics=statistics,
            names=names,
            list_ids=list(self._lists),
            statistic_names=columns if len(columns) == self._width else None,
            copy=False,
        )
        return MertData(nbest, self._type, len(self._names or ()))


def _blocks(path: str | Path, what: str) -> Iterator[_Block]:
    begin = f"{what}_BIN_BEGIN_0".encode()
    if head_of(path, len(begin)) == begin:
        yield from _binary_blocks(path, what)
        return
    rows = lines(path)
    for line, text in rows:
        list_id, count, width, extra = _head(text, f"{what}_TXT_BEGIN_0", path, line)
        found: list[tuple[int, list[str]]] = []
        for row_line, row in rows:
            cells = words_of(row)
            if cells[:1] == [f"{what}_TXT_END_0"]:
                break
            if len(found) == count:
                raise DataError(f"more than the {count} hypotheses that line {line} says", path=path, line=row_line)
            found.append((row_line, cells))
        else:
            raise DataError("the file ends within the list that begins here", path=path, line=line)
        if len(found) != count:
            trouble = f"{len(found)} hypotheses, but line {line} says {count}"
            raise DataError(trouble, path=path, line=row_line)
        yield _Block(line, list_id, width, extra, found)


def _binary_blocks(path: str | Path, what: str) -> Iterator[_Block]:
    """Yield the blocks of a file that Moses' extractor wrote with --binary; the lines of its errors count lists.

    Between the first and the last line of a list are its rows, features as 32-bit numbers with a fraction, scores as
    32-bit whole numbers, least byte first (Moses' mert, FeatureStats::savebin and ScoreStats::savebin).
    """
    kind = np.dtype("<f4" if what == "FEATURES" else "<i4")
    ending = f"{what}_BIN_END_0".encode()
    with open_bytes(path) as stream:
        data = whole(stream, path)
    place = 0
    for number in count_from(1):
        if place == len(data):
            return
        end = data.find(b"\n", place)
        first = decoded(data[place : end if end >= 0 else None], path, number)
        list_id, count, width, extra = _head(first, f"{what}_BIN_BEGIN_0", path, number)
        rows = np.frombuffer(data, kind, min(count * width, (len(data) - end - 1) // 4), end + 1)
        place = end + 1 + 4 * count * width
        last = data[place:].partition(b"\n")[0] if place <= len(data) else b""
        if end < 0 or last.rstrip() != ending:
            raise DataError(f"list {quoted(list_id)} does not end where its first line says", path=path, line=number)
        place = min(len(data), place + len(last) + 1)
        yield _Block(
            number, list_id, width, extra, [(number, [*map(repr, row)]) for row in rows.reshape(count, width).tolist()]
        )


def _head(text: str, begin: str, path: str | Path, line: int) -> tuple[str, int, int, tuple[str, ...]]:
    """Return id, number of hypotheses and of columns, and all other words of the first line of a list."""
    words = words_of(text)
    if not words or words[0] != begin:
        raise DataError(f"a list must begin with {begin} here", path=path, line=line)
    if len(words) < 4:
        raise DataError(f"{words[0]} needs id, hypotheses and columns", path=path, line=line)
    count = count_of_text(words[2], "the number of hypotheses", path, line)
    width = count_of_text(words[3], "the number of columns", path, line)
    if not count:
        raise DataError(f"list {quoted(words[1])} is empty; leave it out", path=path, line=line)
    return words[1], count, width, tuple(words[4:])


def _check_pair(features: _Block, scores: _Block, feature_path: str | Path, score_path: str | Path) -> None:
    if features.list_id != scores.list_id:
        trouble = (
            f"list {quoted(scores.list_id)}, but line {features.line} of {feature_path} has {quoted(features.list_id)}"
        )
        raise DataError(trouble, path=score_path, line=scores.line)
    if len(features.rows) != len(scores.rows):
        trouble = f"{len(scores.rows)} hypotheses, but line {features.line} of {feature_path} has {len(features.rows)}"
        raise DataError(trouble, path=score_path, line=scores.line)


def _pair(word: str, path: str | Path, line: int) -> tuple[str, str]:
    """Return name and value of a sparse feature, `name=value` or as in old versions `name:value`."""
    name, _, value = word.rpartition("=" if "=" in word else ":")
    if not name:
        trouble = (
            f"{quoted(word)} after the numbers is no sparse feature, such as name=1; or there are too many numbers"
        )
        raise DataError(trouble, path=path, line=line)
    return name, value


def _score_type(nbest: NBest, path: str | Path) -> str:
    for kind, columns in SCORE_TYPES.items():
        if nbest.statistic_names == columns and kind != "CDER":
            return kind
    raise DataError(f"give the type of the scores, such as {listed(SCORE_TYPES)}", path=path)


MERT = Format("data of Moses' mert", read_mert_data, write_mert_data, pooled=True)
