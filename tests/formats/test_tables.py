from __future__ import annotations

import builtins
import gzip
import io
import json
import lzma
import os
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from hypothesis import assume, given
from hypothesis import strategies as st
from mutations import damaged, examples, read_or_refused
from scipy import sparse
from shared import SHARED_DATA, librispeech, needs_shared

from lpmert.errors import DataError
from lpmert.formats.tables import read_table, write_table
from lpmert.model.nbest import NBest
from lpmert.system.files import atomic_writer, lines, read_text, write_text

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

TSV = """utt\tam\tlm\terrors\ttext
a\t-1.5\t2\t0\tthe "cat
a\t-2.25\t1e-3\t1\t
b\t3\t-4\t2\ta cat, a dog
"""
CSV = """utt,am,lm,errors,text
a,-1.5,2,0,"the ""cat"
a,-2.25,1e-3,1,
b,3,-4,2,"a cat, a dog"
"""
JSONL = """{"utt": "a", "am": -1.5, "lm": 2, "errors": 0, "text": "the \\"cat", "more": null}
{"text": "", "errors": 1, "lm": 0.001, "am": -2.25, "utt": "a"}
{"utt": "b", "am": 3, "lm": -4, "errors": 2, "text": "a cat, a dog"}
"""
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def read(path: Path | str, **changes: object) -> NBest:
    given: dict[str, object] = {"segment": "utt", "features": ["am", "lm"], "loss": "errors"}
    return read_table(path, **{**given, **changes})  # type: ignore[arg-type]


def read_content(folder: Path, content: str | bytes, name: str = "dev.tsv", **changes: object) -> NBest:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read(path, **changes)


def assert_is_the_small_table(nbest: NBest) -> None:
    assert nbest.names == ("am", "lm")
    assert nbest.list_ids == ("a", "b")
    assert nbest.statistic_names == ("errors",)
    assert nbest.offsets.tolist() == [0, 2, 3]
    assert nbest.dense_features().tolist() == [[-1.5, 2.0], [-2.25, 0.001], [3.0, -4.0]]
    assert nbest.statistics.tolist() == [[0.0], [1.0], [2.0]]
    assert nbest.texts == ('the "cat', "", "a cat, a dog")


def small_parquet() -> bytes:
    buffer = io.BytesIO()
    rows = [json.loads(line) for line in JSONL.splitlines()]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("packing", COMPRESSORS)
@pytest.mark.parametrize(("ending", "content"), [("tsv", TSV), ("csv", CSV), ("jsonl", JSONL), ("parquet", None)])
def test_every_format_and_compression_gives_the_same_lists(
    tmp_path: Path, ending: str, content: str | None, packing: str
) -> None:
    packed = COMPRESSORS[packing](small_parquet() if content is None else content.encode())
    assert_is_the_small_table(read_content(tmp_path, packed, f"dev.{ending}{packing}", text="text"))
    assert_is_the_small_table(read_content(tmp_path, packed, "by.content", text="text"))
    assert_is_the_small_table(read_content(tmp_path, packed, "misnamed.tsv", text="text", format=ending))


def test_byte_order_mark_and_crlf_are_accepted(tmp_path: Path) -> None:
    for name, content in (("dev.tsv", TSV), ("dev.csv", CSV), ("dev.jsonl", JSONL), ("dev", JSONL)):
        windows = b"\xef\xbb\xbf" + content.replace("\n", "\r\n").encode()
        assert_is_the_small_table(read_content(tmp_path, windows, name, text="text"))


def test_last_line_needs_no_end(tmp_path: Path) -> None:
    assert_is_the_small_table(read_content(tmp_path, TSV.rstrip("\n"), text="text"))


def test_members_one_after_the_other_are_one_file(tmp_path: Path) -> None:
    half = len(TSV) // 2
    for packing, compress in COMPRESSORS.items():
        packed = compress(TSV[:half].encode()) + compress(TSV[half:].encode())
        assert_is_the_small_table(read_content(tmp_path, packed, f"dev.tsv{packing}", text="text"))


@pytest.mark.parametrize("packing", COMPRESSORS)
def test_standard_input_is_read_from_a_pipe_and_left_open(monkeypatch: pytest.MonkeyPatch, packing: str) -> None:
    receiver, sender = os.pipe()
    os.write(sender, COMPRESSORS[packing](TSV.encode()))
    os.close(sender)
    with open(receiver, "rb") as stream:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
        assert_is_the_small_table(read("-", text="text"))
        assert not stream.closed


def test_features_and_statistics_may_be_joined_by_commas(tmp_path: Path) -> None:
    nbest = read_content(tmp_path, TSV, features="lm, am", loss=None, statistics="errors,am")
    assert nbest.names == ("lm", "am")
    assert nbest.statistic_names == ("errors", "am")
    assert nbest.statistics.tolist() == [[0, -1.5], [1, -2.25], [2, 3]]
    assert nbest.texts is None


def test_group_gathers_lists_in_order_of_appearance(tmp_path: Path) -> None:
    content = "utt\tam\tlm\terrors\nb\t1\t0\t0\na\t2\t0\t1\nb\t3\t0\t2\nc\t4\t0\t3\na\t5\t0\t4\n"
    nbest = read_content(tmp_path, content, group=True, text="am")
    assert nbest.list_ids == ("b", "a", "c")
    assert nbest.offsets.tolist() == [0, 2, 4, 5]
    assert nbest.dense_features()[:, 0].tolist() == [1, 3, 2, 5, 4]
    assert nbest.statistics[:, 0].tolist() == [0, 2, 1, 4, 3]
    assert nbest.texts == ("1", "3", "2", "5", "4")


def test_list_that_comes_back_is_refused_with_both_places(tmp_path: Path) -> None:
    content = "utt\tam\tlm\terrors\nb\t1\t0\t0\nb\t1\t0\t0\na\t2\t0\t1\nb\t3\t0\t2\n"
    message = r"dev.tsv:5: list 'b' comes back here; it began on line 2 and another list on line 4; .*--group"
    with pytest.raises(DataError, match=message):
        read_content(tmp_path, content)


def test_integer_keys_in_json_are_list_ids(tmp_path: Path) -> None:
    content = '{"utt": 7, "am": 1, "errors": 0}\n{"utt": 7, "am": 2, "errors": 1}\n'
    nbest = read_content(tmp_path, content, "dev.jsonl", features=["am"])
    assert nbest.list_ids == ("7",)
    assert nbest.n_hypotheses == 2


HEAD = "utt\tam\tlm\terrors\n"
GOOD = "a\t1\t2\t3\n"


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("", None, "empty file; write it again, or name another"),
        (HEAD, None, "no rows, only names of columns; write one row for each hypothesis"),
        (
            HEAD.replace("\n", "\r") + 2 * GOOD.replace("\n", "\r"),
            None,
            "carriage returns alone; make them line feeds",
        ),
        ("utt\tam\terrors\n", 1, "no column 'lm'; the columns are utt, am, errors"),
        ("utt\tam\tlm\tam\terrors\n" + GOOD, 1, "two columns are called 'am'"),
        (HEAD + GOOD + "a\t1\t2\n", 3, "3 cells, but the header has 4"),
        (HEAD + "a\t1\t2\t3\t4\n" + GOOD, 2, "5 cells, but the header has 4"),
        (HEAD + GOOD + "\n" + GOOD, 3, "empty line; delete it"),
        (HEAD + GOOD + GOOD + "a\t1\t\t3\n", 4, "column 'lm' is empty"),
        (HEAD + GOOD + "\t1\t2\t3\n", 3, "column 'utt' is empty"),
        (HEAD + GOOD + "a\tone\t2\t3\n", 3, "column 'am' is 'one', not a number"),
        (HEAD + GOOD + "a\t1_000\t2\t3\n", 3, "column 'am' is '1_000', not a number"),
        (HEAD + GOOD + "a\t١\t2\t3\n", 3, "column 'am' is '١', not a number"),
        (HEAD + GOOD + "a\t1,5\t2\t3\n", 3, "column 'am' is '1,5', not a number"),
        (HEAD + GOOD + "a\t0x10\t2\t3\n", 3, "column 'am' is '0x10', not a number"),
        (HEAD + GOOD + 'a\t"1"\t2\t3\n', 3, "column 'am' is '\"1\"', not a number"),
        (
            HEAD + GOOD + "a\t1\t2\tnan\n",
            3,
            "column 'errors' is 'nan', not a finite number in double precision; correct",
        ),
        (HEAD + GOOD + "a\t1\t-Infinity\t3\n", 3, "column 'lm' is '-Infinity', not a finite number"),
        (HEAD + GOOD + "a\t1\t1e400\t3\n", 3, "column 'lm' is '1e400', not a finite number"),
        (HEAD + GOOD + "a\t1\t1e151\t3\n", 3, "column 'lm' is '1e151', beyond 1e[+]150; rescale it"),
        (HEAD.encode() + GOOD.encode() + b"a\t1\t\xff\t3\n", 3, "byte 0xff is not UTF-8"),
        ("one\ntwo\n", 1, "no column 'utt'"),
    ],
)
def test_errors_of_a_tsv_name_the_line(tmp_path: Path, content: str | bytes, line: int | None, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_content(tmp_path, content)
    assert caught.value.line == line
    assert caught.value.path == str(tmp_path / "dev.tsv")


def test_culprit_is_found_far_into_a_large_file(tmp_path: Path) -> None:
    rows = [f"{number // 10}\t1\t2\t3\n" for number in range(40_000)]
    rows[39_000] = "3900\t1\tx\t3\n"
    with pytest.raises(DataError, match=r"dev.tsv:39002: column 'lm' is 'x'"):
        read_content(tmp_path, HEAD + "".join(rows))


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("", None, "empty file"),
        ("utt,am,lm,errors\n", None, "no rows"),
        ('utt,am,lm,errors,text\na,1,2,3,"x\ny"\na,1,2,q,z\n', 4, "column 'errors' is 'q'"),
        ('utt,am,lm,errors,text\na,1,2,3,"x\ny"\na,1,2\n', 4, "3 cells, but the header has 5"),
        ('utt,am,lm,errors\na,1,2,3\na,1,2,"3\n', 3, "not CSV"),
        ('utt,am,lm,errors\na,1,2,"3"4\n', 2, "not CSV"),
        ("utt,am,lm,errors\na,1,2,3\n\n", 3, "empty line"),
        ("utt,am,lm,errors\na,1,2,3\r4\n", 2, "not CSV"),
        ("utt,am,lm,errors\ra,1,2,3\r", None, "carriage returns alone"),
    ],
)
def test_errors_of_a_csv_name_the_line(tmp_path: Path, content: str, line: int | None, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_content(tmp_path, content, "dev.csv")
    assert caught.value.line == line


def test_quoted_csv_cells_may_span_lines(tmp_path: Path) -> None:
    content = 'utt,am,lm,errors,text\na,1,2,3,"x\ny"\na,"4",5,6,z\n'
    nbest = read_content(tmp_path, content, "dev.csv", text="text")
    assert nbest.texts == ("x\ny", "z")
    assert nbest.dense_features().tolist() == [[1, 2], [4, 5]]


GOOD_OBJECT = '{"utt": "a", "am": 1, "lm": 2, "errors": 3}\n'


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("", None, "empty file"),
        (GOOD_OBJECT + '{"utt": "a", "am": 1, "errors": 3}\n', 2, "no key 'lm'; the keys are utt, am, errors"),
        (GOOD_OBJECT + GOOD_OBJECT.replace("2", "true"), 2, "column 'lm' is True, not a number"),
        (GOOD_OBJECT + GOOD_OBJECT.replace("2", '"2"'), 2, "column 'lm' is '2', not a number"),
        (GOOD_OBJECT + GOOD_OBJECT.replace("2", "null"), 2, "column 'lm' is empty"),
        (GOOD_OBJECT + GOOD_OBJECT.replace("2", "[2]"), 2, r"column 'lm' is \[2\], not a number"),
        (GOOD_OBJECT + GOOD_OBJECT.replace("2", "NaN"), 2, "NaN is not a finite number"),
        (GOOD_OBJECT + GOOD_OBJECT.replace("2", "1e400"), 2, "column 'lm' is inf, not a finite number"),
        (GOOD_OBJECT + GOOD_OBJECT.replace("2", "1" + "0" * 400), 2, "column 'lm' is .*, not a finite number"),
        (GOOD_OBJECT + GOOD_OBJECT.replace('"a"', "null"), 2, "column 'utt' is empty"),
        (GOOD_OBJECT + GOOD_OBJECT.replace('"a"', "true"), 2, "column 'utt' is True, not a string or an integer"),
        (GOOD_OBJECT.replace('"a"', "1") + GOOD_OBJECT.replace('"a"', "1.0"), 2, "column 'utt' is 1.0, not a string"),
        (GOOD_OBJECT + '{"utt": "a",\n', 2, "not one JSON object"),
        (GOOD_OBJECT + GOOD_OBJECT.strip() + GOOD_OBJECT, 2, "not one JSON object .*Extra data"),
        (GOOD_OBJECT + "[1, 2]\n", 2, r"not a JSON object but \[1, 2\]"),
        (GOOD_OBJECT + "\n" + GOOD_OBJECT, 2, "empty line"),
        (GOOD_OBJECT + GOOD_OBJECT.replace("lm", "am"), 2, "the key 'am' occurs twice"),
        (GOOD_OBJECT + "[" * 100_000 + "\n", 2, "not one JSON object"),
    ],
)
def test_errors_of_json_lines_name_the_line(tmp_path: Path, content: str, line: int | None, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_content(tmp_path, content, "dev.jsonl")
    assert caught.value.line == line


def test_text_in_json_must_be_a_string(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"dev.jsonl:2: column 'errors' is 4, not a string"):
        read_content(
            tmp_path,
            GOOD_OBJECT.replace("3", '"x"') + GOOD_OBJECT.replace("3", "4"),
            "dev.jsonl",
            loss="am",
            text="errors",
        )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"lm": [1.0, None]}, "row 2: column 'lm' is empty"),
        ({"lm": [1.0, float("nan")]}, "row 2: column 'lm' is nan, not a finite number"),
        ({"lm": [True, False]}, "row 1: column 'lm' is True, not a number"),
        ({"lm": ["1", "2"]}, "row 1: column 'lm' is '1', not a number"),
        ({}, "no column 'lm'; the columns are utt, am, errors"),
        ({"lm": [1.0, 2.0], "utt": ["a", None]}, "row 2: column 'utt' is empty"),
    ],
)
def test_errors_of_parquet_name_the_row(tmp_path: Path, columns: dict[str, list[object]], message: str) -> None:
    table = pyarrow.table({"utt": ["a", "a"], "am": [1, 2], "errors": [0, 1], **columns})
    pyarrow.parquet.write_table(table, tmp_path / "dev.parquet")
    with pytest.raises(DataError, match=message):
        read(tmp_path / "dev.parquet")


def test_damaged_or_empty_parquet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_content(tmp_path, small_parquet()[:-10], "dev.parquet")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_content(tmp_path, b"", "dev.parquet")
    none = pyarrow.table({name: pyarrow.array([], pyarrow.float64()) for name in ("utt", "am", "lm", "errors")})
    pyarrow.parquet.write_table(none, tmp_path / "dev.parquet")
    with pytest.raises(DataError, match="no rows"):
        read(tmp_path / "dev.parquet")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"statistics": ["am"]}, "either loss .* or statistics"),
        ({"loss": None, "statistics": []}, "statistics names no column"),
        ({"features": []}, "features names no column"),
        ({"features": "am,am"}, "features names the column 'am' twice"),
        ({"format": "xml"}, "no format 'xml'; the formats are tsv, csv, jsonl, json, parquet"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_content(tmp_path, TSV, **changes)


def test_unknown_content_needs_a_format(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot tell the format; give format, one of tsv, csv, jsonl, json, parquet"):
        read_content(tmp_path, "utt am lm errors\n", "dev.txt")
    with pytest.raises(DataError, match="empty file"):
        read_content(tmp_path, "", "dev.txt")


@pytest.mark.parametrize("packing", [".gz", ".xz", ".zst"])
def test_damaged_compressed_files_are_refused_by_name(tmp_path: Path, packing: str) -> None:
    packed = COMPRESSORS[packing]((HEAD + GOOD * 1000).encode())
    for broken in (packed[: len(packed) // 2], packed[:-1], packed[:7], packed + packed[:7]):
        with pytest.raises(DataError, match=f"dev.tsv{packing}: the compressed file is damaged or ends early"):
            read_content(tmp_path, broken, f"dev.tsv{packing}")


def test_missing_file_and_folder_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none.tsv: cannot be read: No such file"):
        read(tmp_path / "none.tsv")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("module", "extra", "name"), [("zstandard", "zst", "a.zst"), ("pyarrow", "parquet", "a.parquet")]
)
def test_missing_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, extra: str, name: str
) -> None:
    original = builtins.__import__

    def refuse(wanted: str, *arguments: object) -> object:
        if wanted.split(".")[0] == module:
            raise ModuleNotFoundError(wanted)
        return original(wanted, *arguments)  # type: ignore[arg-type]

    content = {"zstandard": COMPRESSORS[".zst"](b"x"), "pyarrow": small_parquet()}[module]
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(DataError, match=rf"{module} is not installed; install lpmert\[{extra}\]"):
        read_content(tmp_path, content, name)


@examples(400)
@given(data=st.data())
def test_mutated_files_give_lists_or_data_errors(tmp_path: Path, data: st.DataObject) -> None:
    ending, content = data.draw(st.sampled_from([("tsv", TSV), ("csv", CSV), ("jsonl", JSONL)]))
    packing = data.draw(st.sampled_from(["", "", *COMPRESSORS]))
    pieces = [b'"', b"\t", b",", b"\n", b"\r", b"\0", b"{", b"9" * 400, b"e9", b"_", b"\xff"]
    mutated = damaged(data, COMPRESSORS[packing](content.encode()), pieces, most=4, longest=3)
    name = data.draw(st.sampled_from([f"dev.{ending}", "dev"]))
    group = data.draw(st.booleans())
    nbest = read_or_refused(tmp_path / name, lambda: read_content(tmp_path, mutated, name, text="text", group=group))
    if nbest is not None:
        assert 1 <= nbest.n_lists <= nbest.n_hypotheses <= 3
        assert np.isfinite(nbest.dense_features()).all()


finite = st.floats(-1e150, 1e150) | st.integers(-(2**53), 2**53).map(float) | st.sampled_from([0.1, 5e-324, -0.0])
plain_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r"), max_size=8)


@examples(120)
@given(data=st.data())
def test_written_tables_read_back_exactly(tmp_path: Path, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["tsv", "csv", "jsonl", "parquet"]))
    text = plain_text if kind == "tsv" else st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"))
    list_ids = data.draw(st.lists(text.filter(bool), min_size=1, max_size=4, unique=True))
    offsets = np.cumsum([0, *(data.draw(st.integers(1, 3)) for _ in list_ids)])
    size = int(offsets[-1])
    rows = st.lists(st.tuples(finite, finite), min_size=size, max_size=size)
    names = data.draw(st.lists(text.filter(bool), min_size=4, max_size=4, unique=True))
    nbest = NBest(
        data.draw(rows),
        offsets,
        data.draw(rows),
        names=names[:2],
        list_ids=list_ids,
        statistic_names=names[2:],
        texts=data.draw(st.none() | st.lists(text, min_size=size, max_size=size)),
    )
    path = tmp_path / f"lists.{kind}{data.draw(st.sampled_from(list(COMPRESSORS)))}"
    columns = {name: name + "_" for name in ("list", "text")}
    assume(not set(columns.values()) & set(names))
    write_table(nbest, path, segment=columns["list"], text=columns["text"])
    again = read_table(
        path,
        segment=columns["list"],
        features=names[:2],
        statistics=names[2:],
        text=None if nbest.texts is None else columns["text"],
    )
    assert again.fingerprint == nbest.fingerprint
    assert again.texts == nbest.texts


def test_sparse_features_are_written_like_dense_ones(tmp_path: Path) -> None:
    features = np.array([[0.0, 1.5], [2.0, 0.0]])
    for name, rows in (("dense.tsv", features), ("sparse.tsv", sparse.csr_array(features))):
        write_table(NBest(rows, [0, 2], [0, 1]), tmp_path / name)
    assert (tmp_path / "sparse.tsv").read_text() == (tmp_path / "dense.tsv").read_text()
    assert (tmp_path / "dense.tsv").read_text() == "list\tfeature1\tfeature2\tloss\n0\t0\t1.5\t0\n0\t2\t0\t1\n"


def test_what_a_format_cannot_hold_is_refused(tmp_path: Path) -> None:
    def nbest(**changes: object) -> NBest:
        return NBest([[1.0], [2.0]], [0, 2], [0, 1], **changes)  # type: ignore[arg-type]

    for bad in (nbest(texts=["x", "y\nz"]), nbest(names=["a\tb"]), nbest(list_ids=["a\r"])):
        with pytest.raises(DataError, match="holds a tab or a line end"):
            write_table(bad, tmp_path / "x.tsv")
    with pytest.raises(DataError, match="two columns would be called 'list'"):
        write_table(nbest(names=["list"]), tmp_path / "x.tsv")
    with pytest.raises(DataError, match="holds a carriage return, which CSV cannot"):
        write_table(nbest(texts=["x", "y\rz"]), tmp_path / "x.csv.gz")
    for kind in ("tsv", "csv", "jsonl", "parquet"):
        with pytest.raises(DataError, match="half of a surrogate pair"):
            write_table(nbest(texts=["x", "y\ud800z"]), tmp_path / "x", format=kind)
    with pytest.raises(DataError, match="no format 'xml'"):
        write_table(nbest(), tmp_path / "x.tsv", format="xml")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("packing", COMPRESSORS)
def test_same_text_is_written_as_same_bytes(tmp_path: Path, packing: str) -> None:
    first, second = tmp_path / f"one.txt{packing}", tmp_path / f"two.txt{packing}"
    text = "zwölf\nBoxkämpfer\r\nquer"
    write_text(first, text)
    write_text(second, text)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(COMPRESSORS[packing](text.encode())[:2])
    assert read_text(first) == text.replace("\r\n", "\n")
    assert list(lines(first)) == [(1, "zwölf"), (2, "Boxkämpfer"), (3, "quer")]


def test_read_text_names_the_line_of_a_bad_byte(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"one\ntwo\nth\xe9\n")
    with pytest.raises(DataError, match=r"x.txt:3: byte 0xe9 is not UTF-8"):
        read_text(tmp_path / "x.txt")


@pytest.mark.parametrize("packing", COMPRESSORS)
def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, packing: str) -> None:
    path = tmp_path / f"x.txt{packing}"
    write_text(path, "old")

    def break_off() -> None:
        with atomic_writer(path) as stream:
            stream.write("new" * 10_000)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    assert read_text(path) == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_keeps_permissions_and_links(tmp_path: Path) -> None:
    path, link = tmp_path / "x.txt", tmp_path / "link.txt"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_text(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_device_is_written_directly_and_stays(tmp_path: Path) -> None:
    write_text(os.devnull, "gone")
    assert not Path(os.devnull).is_file()
    with pytest.raises(DataError, match="cannot be written: No such file"):
        write_text(tmp_path / "none" / "x.txt", "x")


def test_hundred_thousand_hypotheses_are_read_whole(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    numbers = rng.normal(size=(100_000, 6)).round(4)
    rows = ("\t".join(map(repr, row)) for row in numbers.tolist())
    content = "utt\ta\tb\tc\td\te\terrors\n" + "".join(f"u{k // 50}\t{row}\n" for k, row in enumerate(rows))
    nbest = read_content(tmp_path, gzip.compress(content.encode(), 1), "x.tsv.gz", features="a,b,c,d,e")
    assert nbest.n_lists == 2000
    assert (nbest.offsets == np.arange(0, 100_001, 50)).all()
    assert (nbest.features == numbers[:, :5]).all()
    assert (nbest.statistics[:, 0] == numbers[:, 5]).all()
    assert nbest.list_ids[-1] == "u1999"


@needs_shared
def test_shared_librispeech_has_the_recorded_oracle_and_score() -> None:
    nbest = librispeech()
    assert (nbest.n_lists, nbest.n_hypotheses, nbest.names) == (2864, 85_920, ("decoder", "ctc", "lm"))
    errors = nbest.statistics[:, 0]
    assert np.minimum.reduceat(errors, nbest.offsets[:-1]).sum() == 899
    assert SHARED_DATA is not None
    scored = read_table(
        SHARED_DATA / "librispeech-asr-30best/dev_other.nbest.tsv.xz",
        segment="utt",
        features=["score"],
        statistics=["errors", "ref_words"],
    )
    best = scored.dense_features()[:, 0].reshape(-1, 30).argmax(axis=1)
    words, references = scored.statistics.reshape(-1, 30, 2)[np.arange(2864), best].sum(axis=0)
    assert words / references == pytest.approx(0.03612, abs=5e-6)


def test_asr_example_has_the_numbers_of_its_readme() -> None:
    nbest = read_table(
        EXAMPLES / "asr/nbest.tsv.gz",
        segment="utterance",
        features=["am", "lm", "words", "silences", "fillers"],
        loss="errors",
        text="text",
    )
    errors = nbest.statistics.reshape(250, 100)
    records = [line.split("\t") for _, line in lines(EXAMPLES / "asr/references.tsv.gz")]
    assert records[0] == ["utterance", "reference", "voice", "snr", "decoder"]
    assert nbest.list_ids == tuple(record[0] for record in records[1:])
    words = sum(len(record[1].split()) for record in records[1:])
    assert words == 3366
    assert errors[:, 0].sum() / words == pytest.approx(0.287, abs=5e-4)
    assert errors.min(axis=1).sum() / words == pytest.approx(0.159, abs=5e-4)
    own = np.array([1, 9.5, 9.5 / 6.5 * np.log(0.65), np.log(0.005), np.log(1e-8)])
    scores = (nbest.dense_features() @ own).reshape(250, 100)
    assert (scores.argmax(axis=1) == 0).all()
    assert nbest.texts is not None
    assert [len(text.split()) for text in nbest.texts] == nbest.dense_features()[:, 2].tolist()


def test_a_parquet_file_is_read_within_twice_the_memory_of_its_arrays(tmp_path: Path) -> None:
    rows, width = 400_000, 6
    numbers = np.random.default_rng(0).normal(size=(width, rows))
    columns = {"list": [str(row // 100) for row in range(rows)], **dict(zip("abcde", numbers[:5], strict=True))}
    pyarrow.parquet.write_table(pyarrow.table({**columns, "loss": numbers[5]}), tmp_path / "x.parquet")
    del columns
    read_table(tmp_path / "x.parquet")  # imports what it needs
    tracemalloc.start()
    try:
        nbest = read_table(tmp_path / "x.parquet")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.array_equal(nbest.dense_features(), numbers[:5].T)
    assert peak < 2 * 8 * rows * width


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "json", "parquet"])
def test_numbers_are_read_as_the_nearest_double_and_lines_counted_across_blocks(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 2**64, size=(70_000, 2), dtype=np.uint64).view(np.float64)
    numbers[~(np.abs(numbers) < 1e150)] = 0.1
    nbest = NBest(numbers, np.arange(0, 70_001, 7), np.arange(70_000) % 5, names=["am", "lm"])
    path = tmp_path / f"x.{kind}"
    write_table(nbest, path)
    assert read_table(path).fingerprint == nbest.fingerprint
    if kind != "parquet":
        rest, last = path.read_text().rstrip("\n]").rsplit("\n", 1)
        broken = last.replace("loss", "less") if kind.startswith("json") else f"{last}x"
        path.write_text(f"{rest}\n{broken}\n" + "]" * (kind == "json"))
        with pytest.raises(DataError) as caught:
            read_table(path)
        assert caught.value.line == {"tsv": 70_001, "csv": 70_001, "jsonl": 70_000, "json": 70_001}[kind]
