"""Data of Moses' mert are read whole, pooled, written back exactly, and refused where something is wrong."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import damaged, examples, read_or_refused
from scipy import sparse

from lpmert.errors import DataError
from lpmert.formats.detect import read as read_any
from lpmert.formats.mert_data import load_mert_data, merge_sparse, read_mert_data, write_mert_data
from lpmert.metrics.ratio import BLEU_COLUMNS
from lpmert.model.nbest import NBest

FEATURES = """FEATURES_TXT_BEGIN_0 3 2 2 lm_0 w_0
-1.5 2
-1e-3 4
FEATURES_TXT_END_0
FEATURES_TXT_BEGIN_0 0 1 2 lm_0 w_0
5 6
FEATURES_TXT_END_0
"""
SCORES = """SCORES_TXT_BEGIN_0 3 2 2 WER
0 7
3 7
SCORES_TXT_END_0
SCORES_TXT_BEGIN_0 0 1 2 WER
1 4
SCORES_TXT_END_0
"""
SPARSE = FEATURES.replace("-1.5 2", "-1.5 2 a_b=3 c=d=0.5").replace("5 6", "5 6 e:7")


def put(folder: Path, content: str | bytes, name: str) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(folder: Path, features: str | bytes = FEATURES, scores: str | bytes = SCORES) -> NBest:
    return read_mert_data(put(folder, features, "features"), scores=put(folder, scores, "scores"))


@pytest.mark.parametrize(
    "change",
    [
        str,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", " \n"),
    ],
)
def test_blocks_become_lists(tmp_path: Path, change: type[str]) -> None:
    nbest = read(tmp_path, change(FEATURES), change(SCORES))
    assert nbest.names == ("lm_0", "w_0")
    assert nbest.list_ids == ("3", "0")
    assert nbest.offsets.tolist() == [0, 2, 3]
    assert nbest.dense_features().tolist() == [[-1.5, 2], [-0.001, 4], [5, 6]]
    assert nbest.statistic_names == ("errors", "reference_length")
    assert nbest.statistics.tolist() == [[0, 7], [3, 7], [1, 4]]


def test_type_and_number_of_dense_features_are_told(tmp_path: Path) -> None:
    data = load_mert_data(put(tmp_path, SPARSE, "features"), put(tmp_path, SCORES, "scores"))
    assert (data.score_type, data.n_dense) == ("WER", 2)
    assert data.nbest.names == ("lm_0", "w_0", "a_b", "c=d", "e")


def test_statistics_of_bleu_have_the_names_of_the_metric(tmp_path: Path) -> None:
    row = " ".join(map(str, range(9)))
    scores = SCORES.replace("2 WER", "9 BLEU").replace("0 7", row).replace("3 7", row).replace("1 4", row)
    assert read(tmp_path, scores=scores).statistic_names == BLEU_COLUMNS


def test_runs_are_pooled_by_list(tmp_path: Path) -> None:
    features, scores = put(tmp_path, FEATURES, "features"), put(tmp_path, SCORES, "scores")
    nbest = read_mert_data([features, features], scores=[scores, scores])
    assert nbest.list_ids == ("3", "0")
    assert nbest.dense_features()[:, 0].tolist() == [-1.5, -0.001, -1.5, -0.001, 5, 5]
    assert nbest.deduplicate().fingerprint == read(tmp_path).fingerprint
    with pytest.raises(DataError, match="2 files of features and 1 of scores"):
        read_mert_data([features, features], scores=scores)


def test_sparse_features_are_zero_where_a_line_lacks_them(tmp_path: Path) -> None:
    nbest = read(tmp_path, SPARSE)
    assert sparse.issparse(nbest.features)
    assert nbest.dense_features().tolist() == [[-1.5, 2, 3, 0.5, 0], [-0.001, 4, 0, 0, 0], [5, 6, 0, 0, 7]]


def test_sparse_features_are_merged_by_their_weights(tmp_path: Path) -> None:
    data = load_mert_data(put(tmp_path, SPARSE, "features"), put(tmp_path, SCORES, "scores"))
    merged = merge_sparse(data, {"a_b": 2, "e": -1, "unseen": 9})
    assert merged.names == ("lm_0", "w_0", "sparse")
    assert merged.dense_features().tolist() == [[-1.5, 2, 6], [-0.001, 4, 0], [5, 6, -7]]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (FEATURES, "", r"features: ends before the list on line 1 of .*scores"),
        ("FEATURES_TXT_BEGIN_0 3", "FEATURES_BIN_BEGIN_0 3", r"features:1: list '3' does not end where its first line"),
        ("FEATURES_TXT_BEGIN_0 3", "x", r"features:1: a list must begin with FEATURES_TXT_BEGIN_0"),
        ("3 2 2 lm_0 w_0", "3", r"features:1: FEATURES_TXT_BEGIN_0 needs id, hypotheses and columns"),
        ("3 2 2 lm_0 w_0", "3 -2 2", r"features:1: the number of hypotheses is '-2', not a count"),
        ("3 2 2 lm_0 w_0", "3 0 2", r"features:1: list '3' is empty"),
        ("3 2 2 lm_0 w_0", "3 3 2 lm_0 w_0", r"features:4: 2 hypotheses, but line 1 says 3"),
        ("3 2 2 lm_0 w_0", "3 1 2 lm_0 w_0", r"features:3: more than the 1 hypotheses that line 1 says"),
        ("3 2 2 lm_0 w_0", "3 2 2 lm_0", r"features:1: 1 names for 2 columns"),
        ("3 2 2 lm_0 w_0", "3 2 2 w_0 w_0", r"features:1: two columns are called 'w_0'"),
        ("0 1 2 lm_0 w_0", "0 1 2 w_0 lm_0", r"features:5: other names than those of the first list, lm_0 w_0"),
        ("FEATURES_TXT_BEGIN_0 3", "FEATURES_TXT_BEGIN_0 4", r"scores:1: list '3', but line 1 of .*features has '4'"),
        ("5 6\nFEATURES_TXT_END_0\n", "5 6\n", r"features:5: the file ends within the list that begins here"),
        ("5 6\n", "5 \n", r"features:6: fewer than 2 numbers"),
        ("5 6\n", "5 a=6\n", r"features:6: fewer than 2 numbers"),
        ("5 6\n", "5 6 7\n", r"features:6: '7' after the numbers is no sparse feature"),
        ("5 6\n", "5 6 a=\n", r"features:6: a feature is '', not a number"),
        ("5 6\n", "5 6 a=1 a=1\n", r"features:6: feature 'a' comes twice"),
        ("5 6\n", "5 6 w_0=1\n", r"features:6: feature 'w_0' comes twice"),
        ("5 6\n", "5 1e400\n", r"features:6: a feature is '1e400', not a finite number"),
        ("5 6\n", "5 nan\n", r"features:6: a feature is 'nan', not a finite number"),
        ("5 6\n", "5 6\n\n", r"features:7: more than the 1 hypotheses"),
        (SCORES, "", r"scores: ends before the list on line 1 of .*features"),
        ("SCORES_TXT_BEGIN_0 3 2 2 WER", "SCORES_TXT_BEGIN_0 3 2 2", r"scores:1: 0 words for the type"),
        ("SCORES_TXT_BEGIN_0 3 2 2 WER", "SCORES_BIN_BEGIN_0 3 2 2 WER", r"scores:1: list '3' does not end where"),
        ("0 1 2 WER", "0 1 2 PER", r"scores:5: 2 columns of PER, but the first list has 2 of WER"),
        ("0 1 2 WER\n1 4\n", "0 2 2 WER\n1 4\n1 4\n", r"scores:5: 2 hypotheses, but line 5 of .*features has 1"),
        ("1 4\n", "1\n", r"scores:6: 1 words in 2 columns"),
        ("1 4\n", "1 inf\n", r"scores:6: a statistic is 'inf', not a finite number"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert (old in FEATURES) != (old in SCORES)
    with pytest.raises(DataError, match=message):
        read(tmp_path, FEATURES.replace(old, new), SCORES.replace(old, new))


def test_a_byte_that_is_no_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"features:2: byte 0xe9 is not UTF-8"):
        read(tmp_path, FEATURES.encode().replace(b"-1.5", b"\xe9"))


finite = st.floats(-1e150, 1e150) | st.integers(-(2**53), 2**53).map(float) | st.sampled_from([0.0, 0.1, 5e-324])
word = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \t\n\r\v\f"), min_size=1, max_size=4)


@examples(80)
@given(data=st.data())
def test_written_lists_read_back_exactly(tmp_path: Path, data: st.DataObject) -> None:
    list_ids = data.draw(st.lists(word, min_size=1, max_size=3, unique=True))
    offsets = np.cumsum([0, *(data.draw(st.integers(1, 3)) for _ in list_ids)])
    size = int(offsets[-1])
    names = data.draw(st.lists(word | st.sampled_from(["a=", "b:", "1", "="]), min_size=1, max_size=4, unique=True))
    row = st.lists(finite, min_size=len(names), max_size=len(names))
    rows = np.array(data.draw(st.lists(row, min_size=size, max_size=size)))
    nbest = NBest(
        sparse.csr_array(rows) if data.draw(st.booleans()) else rows,
        offsets,
        data.draw(st.lists(st.tuples(finite, finite), min_size=size, max_size=size)),
        names=names,
        list_ids=list_ids,
        statistic_names=["errors", "reference_length"],
    )
    features, scores = tmp_path / "features.gz", tmp_path / "scores"
    write_mert_data(nbest, features, scores=scores)
    assert load_mert_data(features, scores).score_type == "WER"
    again = read_mert_data(features, scores=scores)
    assert (again.names, again.list_ids, again.statistic_names) == (nbest.names, nbest.list_ids, nbest.statistic_names)
    assert (again.offsets == nbest.offsets).all()
    assert (again.dense_features() == nbest.dense_features()).all()
    assert (again.statistics == nbest.statistics).all()


def test_what_the_format_cannot_hold_is_refused(tmp_path: Path) -> None:
    for changes in ({"names": ["a b"]}, {"list_ids": ["a\u000bb"]}):
        nbest = NBest([[1.0]], [0, 1], [0], **changes)
        with pytest.raises(DataError, match="white space, which separates words here"):
            write_mert_data(nbest, tmp_path / "x", scores=tmp_path / "y", score_type="X")
    with pytest.raises(DataError, match="give the type of the scores, such as BLEU"):
        write_mert_data(NBest([[1.0]], [0, 1], [0]), tmp_path / "x", scores=tmp_path / "y")
    with pytest.raises(DataError, match="features and scores need a file each"):
        write_mert_data(NBest([[1.0]], [0, 1], [0]), tmp_path / "x", scores=tmp_path / "x", score_type="X")
    assert list(tmp_path.iterdir()) == []


def test_many_sparse_features_are_written_and_read_without_a_table_of_all(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    places = rng.integers(2000, size=10_000), rng.integers(50_000, size=10_000)
    rows = sparse.csr_array((rng.normal(size=10_000), places), shape=(2000, 50_000))
    nbest = NBest(rows, np.arange(0, 2001, 10), np.zeros(2000))
    write_mert_data(nbest, tmp_path / "x", scores=tmp_path / "y", score_type="X")
    again = load_mert_data(tmp_path / "x", tmp_path / "y")
    assert again.nbest.fingerprint == nbest.fingerprint
    merged = merge_sparse(again, dict.fromkeys(nbest.names, 2.0))
    assert merged.dense_features()[:, 0] == pytest.approx(2 * rows.sum(axis=1))


PIECES = [b"\n", b"\r", b"\0", b" ", b"=", b":", b"1e400", b"nan", b"inf", b"_", b"\xff", b"9" * 400, b"_0"]


@examples(200)
@given(data=st.data())
def test_mutated_files_are_read_whole_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    files = [data.draw(st.sampled_from([FEATURES, SPARSE])).encode(), SCORES.encode()]
    if data.draw(st.booleans()):
        files = [gzip.compress(one) for one in files]
    which = data.draw(st.integers(0, 1))
    files[which] = damaged(data, files[which], PIECES, longest=3, cut=True)
    nbest = read_or_refused(tmp_path, lambda: read(tmp_path, *files))
    if nbest is not None:
        assert nbest.n_hypotheses == 3
        assert np.isfinite(nbest.dense_features()).all()


def binary(nbest: NBest, what: str) -> bytes:
    """Return what Moses' extractor writes with --binary, put together here."""
    rows, names = (nbest.features, nbest.names) if what == "FEATURES" else (nbest.statistics, ("WER",))
    parts = []
    for number, list_id in enumerate(nbest.list_ids):
        own = rows[nbest.offsets[number] : nbest.offsets[number + 1]]
        parts.append(f"{what}_BIN_BEGIN_0 {list_id} {len(own)} {own.shape[1]} {' '.join(names)}\n".encode())
        parts += [
            struct.pack("<f", value) if what == "FEATURES" else struct.pack("<i", int(value))
            for row in own
            for value in row
        ]
        parts.append(f"{what}_BIN_END_0\n".encode())
    return b"".join(parts)


def numbers(seed: int) -> NBest:
    """Return lists whose features single precision holds, with bytes of all kinds in them."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(40, 3)).astype(np.float32).astype(np.float64)
    features[:4, 0] = [10.0, 2.0**-100, 0.0, -(2.0**80)]
    statistics = np.column_stack([rng.integers(0, 3000, 40), np.repeat(rng.integers(5, 20, 8), 5)])
    return NBest(
        features, np.arange(0, 41, 5), statistics, ["a_0", "b_0", "b_1"], statistic_names=["errors", "reference_length"]
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("packed", [False, True])
def test_binary_data_are_the_same_lists(tmp_path: Path, seed: int, packed: bool) -> None:
    expected = numbers(seed)
    places = [tmp_path / f"run.{name}.dat{'.gz' * packed}" for name in ("features", "scores")]
    for place, what in zip(places, ("FEATURES", "SCORES"), strict=True):
        data = binary(expected, what)
        place.write_bytes(gzip.compress(data) if packed else data)
    found = read_any(places[0])
    assert found.fingerprint == expected.fingerprint


def test_binary_data_that_are_cut_or_changed_are_refused_or_other_lists(tmp_path: Path) -> None:
    expected = numbers(0)
    whole, scores = binary(expected, "FEATURES"), tmp_path / "scores"
    scores.write_bytes(binary(expected, "SCORES"))
    place = tmp_path / "features"
    ends = [place for place in range(len(whole)) if whole[:place].endswith(b"_END_0\n")]
    for cut in range(0, len(whole), 7):
        place.write_bytes(whole[:cut])
        if cut not in ends:
            with pytest.raises(DataError):
                read_mert_data(place, scores=scores)
    for old, new, message in (
        (b"0 5 3", b"0 6 3", r"features:1: list '0' does not end where its first line says"),
        (b"0 5 3", b"0 999999999999 3", r"features:1: list '0' does not end where its first line says"),
        (b"1 5 3", b"1 5 x", r"features:2: the number of columns is 'x', not a count"),
        (b"_END_0\nFEATURES_BIN_BEGIN_0 2", b"_END_0\nFEATURES_TXT_BEGIN_0 2", r"features:3: a list must begin with"),
        (struct.pack("<f", 10.0), struct.pack("<f", float("nan")), "features:1: a feature is 'nan', not a finite"),
    ):
        assert old in whole
        place.write_bytes(whole.replace(old, new, 1))
        with pytest.raises(DataError, match=message):
            read_mert_data(place, scores=scores)
