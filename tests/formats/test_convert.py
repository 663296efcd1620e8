"""`lpmert convert` keeps every number between all formats; formats are told by content; archives hold plain arrays."""

from __future__ import annotations

import io
import json
import zipfile
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import damaged, examples, read_or_refused
from scipy import sparse

from lpmert.errors import DataError
from lpmert.formats.arrays import read_npz, write_npz
from lpmert.formats.detect import detect, read, write
from lpmert.model.nbest import NBest
from lpmert.registry import FORMATS, TABLES

TABLE_FLAGS = [
    "--segment",
    "id",
    "--features",
    "am_0,lm_0",
    "--statistics",
    "errors,reference_length",
    "--text",
    "words",
]
ENDINGS = {"best-of-n": "jsonl", "moses": "txt", "mert": "txt", "scores": "folder"}
FORMATS_WITH_ALL = ("tsv", "csv", "jsonl", "parquet", "npz", "moses", "best-of-n", "scores", "mert")


def lists(**changes: Any) -> NBest:
    given = {
        "features": np.array([[0.1, -2.0], [1e-300, 3.5], [2**53, 1 / 3]]),
        "offsets": [0, 2, 3],
        "statistics": [[0, 7], [0.5, 7], [3, 4]],
        "names": ["am_0", "lm_0"],
        "list_ids": ["b", "a"],
        "statistic_names": ["errors", "reference_length"],
        "texts": ["a cat", "", "das Tier"],
    }
    return NBest(**{**given, **changes})  # type: ignore[arg-type]


run = partial(commands.run, "convert")


def place(folder: Path, kind: str) -> Path:
    return folder / f"{kind}.{ENDINGS.get(kind, kind)}"


def reading(folder: Path, kind: str, texts: bool) -> tuple[list[object], list[object]]:
    """Return the flags and files that read what was written with those of `writing`."""
    path = place(folder, kind)
    if kind in TABLES:
        return TABLE_FLAGS[: None if texts else -2], [path]
    if kind == "mert":
        return ["--scores", folder / "scores.txt"], [path]
    if kind == "scores":
        flags: list[object] = ["--from", kind, *(["--text-file", path / "text"] if texts else [])]
        for name in ("errors", "reference_length"):
            flags += ["--losses", f"{name}={path}/{name}"]
        return flags, [f"{name}={path}/{name}" for name in ("am_0", "lm_0")]
    return [], [path]


def writing(folder: Path, kind: str) -> list[object]:
    tables = ["--segment", "id", "--text", "words"] if kind in TABLES else []
    return ["--to", kind, *tables, *(["--scores-out", folder / "scores.txt"] if kind == "mert" else [])]


def convert(*arguments: object) -> None:
    outcome = run(*arguments)
    assert outcome.exit_code == 0, outcome.output


@pytest.mark.parametrize(("first", "second"), list(permutations(FORMATS_WITH_ALL, 2)))
def test_two_formats_in_a_row_keep_every_number_name_and_text(tmp_path: Path, first: str, second: str) -> None:
    write_npz(lists(), tmp_path / "start.npz")
    convert(tmp_path / "start.npz", place(tmp_path, first), *writing(tmp_path, first))
    flags, files = reading(tmp_path, first, texts=True)
    convert(*writing(tmp_path, second), *flags, *files, place(tmp_path, second))
    flags, files = reading(tmp_path, second, texts=first != "mert")
    convert(*flags, *files, tmp_path / "end.npz")
    again = read_npz(tmp_path / "end.npz")
    assert again.fingerprint == lists().fingerprint
    assert again.texts == (None if "mert" in (first, second) else lists().texts)


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "parquet", "npz", "moses", "best-of-n", "mert"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_format_is_told_by_content_whatever_the_file_is_called(tmp_path: Path, kind: str, ending: str) -> None:
    path = tmp_path / f"lists{ending}"
    write(lists(), path, kind, **({"scores": tmp_path / "scores"} if kind == "mert" else {}))
    assert detect(path) == kind
    assert detect([path, path]) == kind


def test_folders_and_manifests_are_told_by_their_first_file(tmp_path: Path) -> None:
    folder = tmp_path / "lists"
    folder.mkdir()
    (folder / "u1.nbest").write_text("-1.5 -2 2 a cat\n")
    assert detect(folder) == "srilm"
    (tmp_path / "manifest").write_text("u1 lists/u1.nbest\n")
    assert detect(tmp_path / "manifest") == "srilm"
    (folder / "u1.nbest").write_text("# made by hand\nVERSION=1.0\nN=2 L=1\n")
    assert detect(folder) == "slf"
    (folder / "1best_recog").mkdir()
    assert detect(folder) == "espnet"
    assert detect({"am": "x"}) == "scores"


def test_what_cannot_be_told_asks_for_the_format(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for content, message in (
        ("x" * 5000 + "\n", "cannot tell the format"),
        ("a\0b\n", "cannot tell the format"),
        ("hello\n", r"cannot tell the format; give the format \(--from, format\), one of tsv"),
        ("", "x: empty file"),
        ("SCORES_TXT_BEGIN_0 0 1 2 WER\n", "these are the scores of mert data"),
        ("NBestList1.0\n(-1) a\n", "looks like the file of one utterance"),
    ):
        path.write_text(content)
        with pytest.raises(DataError, match=message):
            detect(path)
    with pytest.raises(DataError, match="at least one file"):
        detect([])
    with pytest.raises(DataError, match="No such file"):
        detect(tmp_path / "none")


def test_options_that_a_format_does_not_take_are_refused(tmp_path: Path) -> None:
    write_npz(lists(), tmp_path / "x.npz")
    with pytest.raises(DataError, match="reading npz takes no option 'segment'; its options are none"):
        read(tmp_path / "x.npz", segment="id")
    with pytest.raises(DataError, match="reading srilm needs the option 'references'"):
        read(tmp_path, "srilm")
    with pytest.raises(DataError, match="no format 'xml'; choose one of tsv"):
        read(tmp_path / "x.npz", "xml")
    with pytest.raises(DataError, match="format slf is only read"):
        write(lists(), tmp_path / "y", "slf")
    with pytest.raises(DataError, match="cannot tell from the ending in which format to write"):
        write(lists(), tmp_path / "y.out")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--segment", "x"], "--segment does not apply to reading npz"),
        (["--scores-out", "x"], "--scores-out does not apply to writing best-of-n"),
        (["--last-field"], "--last-field does not apply to reading npz"),
        (["--scores", "x"], "--scores does not apply to reading npz"),
        (["--from", "srilm"], "--references is needed for reading srilm"),
        (["--set", "metric.tokenize=none"], "--set applies to texts, with --references"),
        (["--metric", "wer"], "--metric applies to texts, with --references"),
        (
            ["--references", "r", "--metric", "wer", "--set", "metric.tokenize=none"],
            "metric 'wer' has no option 'tokenize'",
        ),
        (["--references", "r", "--metric", "x"], "no metric 'x'; choose one of loss"),
        (["--losses", "a=x", "--losses", "a=y"], "--losses names a twice"),
        (["--losses", "x"], "'x' is not NAME=FILE"),
        (["--scales", "x=y"], "'y' is not a finite number"),
        (["--nothing"], "No such option"),
    ],
)
def test_wrong_flags_are_wrong_usage(tmp_path: Path, flags: list[str], message: str) -> None:
    write_npz(lists(), tmp_path / "x.npz")
    outcome = run(tmp_path / "x.npz", tmp_path / "y", *([] if "--to" in flags else ["--to", "best-of-n"]), *flags)
    assert outcome.exit_code == 2
    assert message in " ".join(outcome.stderr.split())
    assert not (tmp_path / "y").exists()


def test_bad_data_exit_with_1_and_leave_no_file(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("0 ||| a ||| L= x ||| 1\n")
    outcome = run(tmp_path / "x.txt", tmp_path / "y.tsv", "--last-field")
    assert (outcome.exit_code, list(tmp_path.iterdir())) == (1, [tmp_path / "x.txt"])
    assert "x.txt:1: a feature is 'x', not a number" in outcome.stderr


def test_runs_are_pooled_and_repeats_dropped(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("0 ||| a ||| L= 1 ||| 1\n")
    (tmp_path / "two").write_text("0 ||| a ||| L= 1 ||| 1\n0 ||| b ||| L= 1 ||| 1\n1 ||| b ||| L= 1 ||| 1\n")
    flags = [tmp_path / "one", tmp_path / "two", tmp_path / "y.npz", "--last-field"]
    assert "2 lists, 4 hypotheses; features L_0; statistics loss" in run(*flags).stderr
    assert run(*flags, "--deduplicate", "--quiet").output == ""
    assert read_npz(tmp_path / "y.npz").texts == ("a", "b", "b")
    assert "y.npz: 1 list, 1 hypothesis; features" in run(tmp_path / "one", *flags[2:]).stderr
    assert run(*flags, "--deduplicate", "--drop-texts").exit_code == 0
    assert read_npz(tmp_path / "y.npz").offsets.tolist() == [0, 1, 2]


def test_texts_are_measured_against_references(tmp_path: Path) -> None:
    (tmp_path / "lists").write_text("0 ||| a small cat ||| L= 1 ||| 1\n0 ||| a cat ||| L= 2 ||| 1\n")
    (tmp_path / "reference").write_text("a cat\n")
    flags = ["--references", tmp_path / "reference"]
    assert run(tmp_path / "lists", tmp_path / "y.npz", *flags, "--metric", "wer").exit_code == 0
    assert read_npz(tmp_path / "y.npz").statistics.tolist() == [[1], [0]]
    assert run(tmp_path / "lists", tmp_path / "y.npz", *flags).exit_code == 0
    assert read_npz(tmp_path / "y.npz").statistics.shape == (2, 9)
    (tmp_path / "reference").write_text("A Cat.\n")
    lowercase, split = ["--set", "metric.lowercase=yes"], ["--set", "metric.tokenize=none"]
    for more, matches in (([], [0, 0]), (lowercase, [2, 2]), ([*lowercase, *split], [1, 1])):
        assert run(tmp_path / "lists", tmp_path / "y.npz", *flags, *more).exit_code == 0
        assert read_npz(tmp_path / "y.npz").statistics[:, 0].tolist() == matches


def test_every_format_is_described_in_the_documentation() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "formats.md").read_text()
    assert [name for name in FORMATS.own if f"`{name}`" not in text] == []


finite = st.floats(-1e150, 1e150) | st.sampled_from([0.0, 0.1, 5e-324, -0.0])
label = st.text(min_size=1, max_size=5).filter(lambda text: not text.endswith("\0"))
plain_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@examples(80)
@given(data=st.data())
def test_archives_read_back_exactly(tmp_path: Path, data: st.DataObject) -> None:
    rows = np.array(data.draw(st.lists(st.tuples(finite, finite), min_size=1, max_size=4)))
    nbest = NBest(
        sparse.csr_array(rows) if data.draw(st.booleans()) else rows,
        [0, len(rows)],
        data.draw(st.lists(finite, min_size=len(rows), max_size=len(rows))),
        names=data.draw(st.lists(label, min_size=2, max_size=2, unique=True)),
        list_ids=[data.draw(label)],
        texts=data.draw(st.none() | st.lists(plain_text, min_size=len(rows), max_size=len(rows))),
    )
    write_npz(nbest, tmp_path / "x.npz")
    again = read_npz(tmp_path / "x.npz")
    assert again.fingerprint == nbest.fingerprint
    assert again.texts == nbest.texts


def test_archives_made_by_hand_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", features=[[1, 2], [3, 4]], offsets=[0, 2], statistics=[0, 1], texts=["a", "b"])
    nbest = read_npz(tmp_path / "x.npz")
    assert nbest.names == ("feature1", "feature2")
    assert nbest.texts == ("a", "b")


SPARSE = {"feature_values": [1.0], "feature_columns": [0], "feature_starts": [0, 1, 1], "n_features": 2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": np.array([[object()], [1]], dtype=object)}, "not an archive of plain arrays"),
        ({"features": None}, "no array 'feature_values'; the arrays are offsets, statistics"),
        ({"offsets": None}, "no array 'offsets'"),
        ({"more": [1]}, "an array 'more', which lists do not have"),
        ({"features": [[1.0]]}, "features has 1 rows, statistics has 2"),
        ({"features": [["1"], ["2"]]}, "features must be real numbers"),
        ({"features": [[1.0], [np.nan]]}, "list '0', hypothesis 1 .from 0., feature 'feature1': nan is not"),
        ({"names": [1]}, "names must be a row of strings, not int64"),
        ({"texts": ["a"]}, "texts has 1 entries; 2 are needed"),
        ({"text_ends": [1, 2]}, "texts need text_bytes, of type uint8, and text_ends"),
        ({"text_bytes": np.frombuffer(b"ab", np.uint8), "text_ends": [1, 3]}, "text_ends does not go up"),
        ({"text_bytes": np.frombuffer(b"ab", np.uint8), "text_ends": [3, 2]}, "text_ends does not go up"),
        ({"text_bytes": np.frombuffer(b"ab", np.uint8), "text_ends": [-1, 2]}, "text_ends does not go up"),
        ({"text_bytes": np.frombuffer(b"a\xff", np.uint8), "text_ends": [1, 2]}, "text_bytes is not UTF-8"),
        ({"features": None, **SPARSE, "feature_columns": [5]}, "the sparse features are no csr_array"),
        ({"features": None, **SPARSE, "feature_starts": [0, 2, 1]}, "the sparse features are no csr_array"),
        ({"features": None, **SPARSE, "feature_starts": [0.0, 1, 1]}, "feature_starts must be a row of integers"),
        ({"features": None, **SPARSE, "feature_values": ["1"]}, "feature_values must be a row of numbers"),
        ({"features": None, **SPARSE, "feature_starts": np.array([], int)}, "the sparse features are no csr_array"),
    ],
)
def test_archives_that_hold_no_lists_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    arrays = {"features": [[1.0], [2.0]], "offsets": [0, 2], "statistics": [0, 1], **changes}
    np.savez(tmp_path / "x.npz", **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(DataError, match=rf"x.npz: {message}"):
        read_npz(tmp_path / "x.npz")


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("features.npy", b"hello")
    with pytest.raises(DataError, match="not an archive of plain arrays"):
        read_npz(tmp_path / "x.npz")
    huge = io.BytesIO()
    np.lib.format.write_array_header_1_0(huge, {"shape": (10**15,), "fortran_order": False, "descr": "<f8"})
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("features.npy", huge.getvalue())
    with pytest.raises(DataError, match="not an archive of plain arrays"):
        read_npz(tmp_path / "x.npz")


def test_names_that_numpy_would_cut_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="names has a string that ends in a null character"):
        write_npz(lists(names=["a\0", "b"]), tmp_path / "x.npz")
    with pytest.raises(DataError, match="half of a surrogate pair"):
        write_npz(lists(texts=["\ud800", "", ""]), tmp_path / "x.npz")
    assert list(tmp_path.iterdir()) == []


@examples(150)
@given(data=st.data())
def test_damaged_archives_are_read_whole_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    write_npz(lists(), tmp_path / "x.npz")
    content = damaged(data, (tmp_path / "x.npz").read_bytes(), st.binary(max_size=3), longest=3, cut=True)
    (tmp_path / "x.npz").write_bytes(content)
    nbest = read_or_refused(tmp_path / "x.npz", lambda: read_npz(tmp_path / "x.npz"))
    assert nbest is None or nbest.fingerprint == lists().fingerprint


@examples(150)
@given(
    content=st.binary(max_size=40)
    | st.lists(st.sampled_from(["N=", "{", "|||", "1 2 3", "\n", "a\tb", '"candidates": ['])).map(
        lambda p: "".join(p).encode()
    )
)
def test_any_content_has_a_format_or_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    assert read_or_refused(tmp_path / "x", lambda: detect(tmp_path / "x")) in (None, *FORMATS.own)


def test_json_lines_of_hypotheses_and_of_lists_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"text": '"candidates": [', "loss": 1}) + "\n")
    assert detect(path) == "jsonl"
    path.write_text(json.dumps({"id": 1, "candidates": []}) + "\n")
    assert detect(path) == "best-of-n"
