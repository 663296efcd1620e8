"""Data of Moses' mert as text: files of features and of statistics (scores), with a block for each list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise, zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lpmert.errors import DataError
from lpmert.formats.format import Format, Paths, Pool, rows_by_column
from lpmert.formats.moses import FeatureWriter
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

CHRF only counts n-grams of a reference that the hypothesis has, too (Moses' mert, CHRFScorer.cpp).
"""

SPARSE = "sparse"
"""Name of the single feature that replaces all sparse ones in `merge_sparse`."""

_FEATURES, _SCORES = "features", ("scores", "statscore")
"""Words in the names of files of features and of scores in Moses' scripts."""


class MertData(NamedTuple):
    """Lists, the type of their statistics, and the number of dense features, which come first."""

    nbest: NBest
    score_type: str
    n_dense: int


def load_mert_data(features: Paths, scores: Paths) -> MertData:
    """Read lists that begin `FEATURES_TXT_BEGIN_0 id hypotheses columns names` and `SCORES_TXT_BEGIN_0 ... type`.

    Several files (runs) are pooled, and lists with equal ids joined. Sparse features are `name=value` after the numbers
    of a line, and 0 where a line lacks them. Raises `DataError` with file and line unless each file of features has
    the same blocks as its file of scores, and all have the same names, columns and type.
    """
    feature_files, score_files = one_or_more(features, "features"), one_or_more(scores, "scores")
    if not feature_files or len(feature_files) != len(score_files):
        raise DataError(f"{len(feature_files)} files of features and {len(score_files)} of scores; give one for each")
    pool, dense, kind, width = Pool(), None, "", 0
    for block, scored in chain.from_iterable(map(_pairs, feature_files, score_files)):
        room_for(0, "reading")
        names = _names(block, scored)
        if dense is None:
            dense, kind, width = names, scored.extra[0], scored.width
        if names != dense:
            raise block.place.error(f"other names than those of the first list, {' '.join(dense)}")
        if (scored.extra[0], scored.width) != (kind, width) or not width:
            found = f"{scored.width} columns of {scored.extra[0]}"
            raise scored.place.error(f"{found}, but the first list has {width} of {kind}")
        for (place, words), (of_scores, numbers) in zip(block.rows, scored.rows, strict=True):
            if len(numbers) != width:
                raise of_scores.error(f"{len(numbers)} words in {width} columns")
            names, values = _features(words, dense, place)
            pool.add_row(block.list_id, names, values, of_scores.numbers(numbers, "a statistic"))
    columns = SCORE_TYPES.get(kind, ())
    return MertData(pool.nbest(columns if len(columns) == width else None), kind, len(dense or ()))


def read_mert_data(features: Paths, *, scores: Paths | None = None) -> NBest:
    """Return the lists of `load_mert_data`.

    By default, a file of scores lies beside its file of features, and its name differs by having `scores` (or
    `statscore`) for `features`; raises `DataError` where there is no such file.
    """
    return load_mert_data(features, _beside(features) if scores is None else scores).nbest


def _beside(features: Paths) -> list[Path]:
    found = []
    for path in one_or_more(features, "features"):
        files = _score_paths(path)
        file = next((file for file in files if file.is_file()), None)
        if file is None:
            looked = f" (there is no {files[0].name} beside it)" if files else ""
            raise DataError(
                f"which file has the scores of these lists?{looked}; give scores (--scores FILE)", path=path
            )
        found.append(file)
    return found


def _score_paths(features: str | Path) -> list[Path]:
    """Return the paths that a file of scores may have beside one of features; none if its name lacks "features"."""
    before, there, after = Path(features).name.rpartition(_FEATURES)
    return [Path(features).parent / f"{before}{word}{after}" for word in _SCORES] if there else []


def merge_sparse(data: MertData, weights: Mapping[str, float]) -> NBest:
    """Return the lists with their dense features and one more, `sparse`: the sum of sparse ones times these weights.

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

    By default, `scores` is `features` with "scores" for "features" in the name of the file, and `score_type` is the
    type in `SCORE_TYPES` with the names of the statistics. Of sparse rows, leading features that no row lacks are
    written as dense ones, the others as `name=value`. Texts are not written. Raises `DataError` where a name or an id
    has white space.
    """
    kind = _score_type(nbest, features) if score_type is None else score_type
    if scores is None:
        if not (files := _score_paths(features)):
            trouble = "call this one like run1.features.dat, or in Python give the file of scores"
            raise DataError(trouble, path=features)
        scores = files[0]
    for word in (*nbest.names, *nbest.list_ids, kind):
        if not is_word(word):
            raise DataError(f"{quoted(word)} has white space, which separates words here; rename it", path=features)
    if Path(features).resolve() == Path(scores).resolve():
        raise DataError("features and scores need a file each", path=features)
    dense, names = _leading_dense(nbest), nbest.names
    labels = [*[""] * dense, *(f"{name}=" for name in names[dense:])]
    writer, rows = FeatureWriter(labels, dict.fromkeys(range(dense))), rows_by_column(nbest.features)
    with atomic_writer(features) as feature_stream, atomic_writer(scores) as score_stream:
        for list_id, (start, end) in zip(nbest.list_ids, pairwise(nbest.offsets.tolist()), strict=True):
            feature_stream.write(f"FEATURES_TXT_BEGIN_0 {list_id} {end - start} {dense} {' '.join(names[:dense])}\n")
            for hypothesis, row in enumerate(islice(rows, end - start), start):
                feature_stream.write(writer.field(row, first=hypothesis == 0) + "\n")
            feature_stream.write("FEATURES_TXT_END_0\n")
            score_stream.write(f"SCORES_TXT_BEGIN_0 {list_id} {end - start} {nbest.statistics.shape[1]} {kind}\n")
            for numbers in nbest.statistics[start:end].tolist():
                score_stream.write(" ".join(map(number_text, numbers)) + "\n")
            score_stream.write("SCORES_TXT_END_0\n")


def _leading_dense(nbest: NBest) -> int:
    """Return how many features from the first on no hypothesis lacks."""
    if isinstance(nbest.features, np.ndarray):
        return nbest.n_features
    counts = np.bincount(nbest.features.indices, minlength=nbest.n_features)
    return int(np.argmin(np.append(counts == nbest.n_hypotheses, False)))


class _Block(NamedTuple):
    """A list of a file: its place, id and number of columns, further words of its first line, and its rows as words."""

    place: Place
    list_id: str
    width: int
    extra: tuple[str, ...]
    rows: list[tuple[Place, list[str]]]


def _pairs(features: str | Path, scores: str | Path) -> Iterator[tuple[_Block, _Block]]:
    """Yield each list of a file of features with that of a file of scores; raises `DataError` if there is none."""
    block = None
    for block, scored in zip_longest(_blocks(features, "FEATURES"), _blocks(scores, "SCORES")):
        if block is None or scored is None:
            short, longer = (features, scored) if block is None else (scores, block)
            raise DataError(f"ends before the list on {_line_of(longer)}", path=short)
        yield block, scored
    if block is None:
        raise DataError(EMPTY, path=features)


def _names(block: _Block, scored: _Block) -> tuple[str, ...]:
    """Return the names of the dense features of a list; raises `DataError` where its heads contradict each other."""
    if block.list_id != scored.list_id:
        raise scored.place.error(f"list {quoted(scored.list_id)}, but {_line_of(block)} has {quoted(block.list_id)}")
    if len(block.rows) != len(scored.rows):
        raise scored.place.error(f"{len(scored.rows)} hypotheses, but {_line_of(block)} has {len(block.rows)}")
    if len(scored.extra) != 1:
        raise scored.place.error(f"{len(scored.extra)} words for the type of the scores")
    names = block.extra or numbered("feature", block.width)
    if len(names) != block.width:
        raise block.place.error(f"{len(names)} names for {block.width} columns")
    if repeated(names) is not None:
        raise block.place.error(f"two columns are called {quoted(repeated(names))}")
    return names


def _features(words: Sequence[str], dense: tuple[str, ...], place: Place) -> tuple[tuple[str, ...], list[float]]:
    """Return the names and the numbers of a hypothesis' features, dense ones first."""
    numbers, pairs = words[: len(dense)], [_pair(word, place) for word in words[len(dense) :]]
    if len(numbers) < len(dense) or any("=" in word for word in numbers):
        raise place.error(f"fewer than {len(dense)} numbers")
    names = (*dense, *(name for name, _ in pairs)) if pairs else dense
    if pairs and repeated(names) is not None:
        raise place.error(f"feature {quoted(repeated(names))} comes twice")
    return names, place.numbers([*numbers, *(value for _, value in pairs)], "a feature")


def _blocks(path: str | Path, what: str) -> Iterator[_Block]:
    binary, begin, end = f"{what}_BIN_BEGIN_0".encode(), f"{what}_TXT_BEGIN_0", f"{what}_TXT_END_0"
    if head_of(path, len(binary)) == binary:
        raise DataError("binary data; let Moses' extractor write text, without --binary", path=path)
    rows = placed_lines(path)
    for place, text in rows:
        words = words_of(text)
        if words[:1] != [begin]:
            raise place.error(f"a list must begin with {begin} here")
        if len(words) < 4:
            raise place.error(f"{begin} needs id, hypotheses and columns")
        count = place.whole(words[2], "the number of hypotheses")
        width = place.whole(words[3], "the number of columns")
        if not count:
            raise place.error(f"list {quoted(words[1])} is empty; leave it out")
        found: list[tuple[Place, list[str]]] = []
        for row_place, row in rows:
            cells = words_of(row)
            if cells[:1] == [end]:
                break
            if len(found) == count:
                raise row_place.error(f"more than the {count} hypotheses that line {place.line} says")
            found.append((row_place, cells))
        else:
            raise place.error("the file ends within the list that begins here")
        if len(found) != count:
            raise row_place.error(f"{len(found)} hypotheses, but line {place.line} says {count}")
        yield _Block(place, words[1], width, tuple(words[4:]), found)


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
