"""Tables in files and in memory: which columns count, how rows become lists, and what is refused; files are whole."""

import builtins
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from written_lists import DIALECTS, PACKINGS, TOO_LARGE, frame, put

from lpmert import DataError, NBest, minimize, read, to_columns
from lpmert.formats.columns import ColumnsNeeded
from lpmert.system.files import atomic_writer, lines, read_text, write_text


def parquet() -> bytes:
    content = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"utt": ["a"], "am": [1], "lm": [2], "errors": [0]}), content)
    return content.getvalue()


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
        return original(wanted, *arguments)

    content = {"zstandard": PACKINGS[".zst"](b"x"), "pyarrow": parquet()}[module]
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(DataError, match=rf"{module} is not installed; install lpmert\[{extra}\]"):
        read(put(tmp_path, {name: content}) / name)


@pytest.mark.parametrize("packing", PACKINGS)
def test_same_text_is_written_as_same_bytes(tmp_path: Path, packing: str) -> None:
    first, second = tmp_path / f"one.txt{packing}", tmp_path / f"two.txt{packing}"
    text = "zwölf\nBoxkämpfer\r\nquer"
    write_text(first, text)
    write_text(second, text)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(PACKINGS[packing](text.encode())[:2])
    assert read_text(first) == text.replace("\r\n", "\n")
    assert list(lines(first)) == [(1, "zwölf"), (2, "Boxkämpfer"), (3, "quer")]


@pytest.mark.parametrize("packing", PACKINGS)
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


ROWS: dict[str, list[Any]] = {
    "utt": ["a", "a", "b"],
    "am": [-1.5, -2.25, 3.0],
    "lm": [2, 1, -4],
    "errors": [0, 1, 2],
    "hyp": ["x", "", "y z"],
}
COLUMNS: dict[str, Any] = {"segment": "utt", "features": ["am", "lm"], "loss": "errors", "text": "hyp"}


KINDS = pytest.mark.parametrize("kind", ["mapping", "pyarrow", "pandas", "polars"])


@KINDS
def test_lists_become_a_frame_and_lists_again(kind: str) -> None:
    nbest = NBest(
        [[1.0, 0], [0, 1], [2, 1]], [0, 2, 3], [0, 1, 1], names=["a", "b"], list_ids=["x", "7"], texts=["", "y", "z"]
    )
    again = read(frame(kind, to_columns(nbest)))
    assert (again.fingerprint, again.texts) == (nbest.fingerprint, nbest.texts)
    assert minimize(again).loss == 1  # list 7 has one hypothesis, of loss 1, and list x one of loss 0


@pytest.mark.parametrize("kind", ["pyarrow", "pandas", "polars"])
def test_the_texts_of_a_frame_are_measured_against_references(kind: str) -> None:
    options: dict[str, Any] = {"segment": "utt", "features": "am,lm", "text": "hyp"}
    found = read(frame(kind, ROWS), references={"a": "x y", "b": "z"}, **options)
    assert found.statistics[:, 0].tolist() == [1, 2, 1]
    assert read(frame(kind, ROWS), references=False, **options).statistics.tolist() == [[0], [0], [0]]
    with pytest.raises(DataError, match="partial is for texts; give references, too"):
        read(frame(kind, ROWS), partial=True, **options)


@KINDS
def test_rows_that_lie_apart_are_gathered_or_refused(kind: str) -> None:
    table = frame(kind, {"q": [2, 1, 2], "f": [1.0, 2.0, 3.0], "loss": [0, 1, 2]})
    nbest = read(table, segment="q", features="f", group=True)
    assert (nbest.list_ids, nbest.dense_features().ravel().tolist()) == (("2", "1"), [1, 3, 2])
    with pytest.raises(DataError, match="list '2' comes back here"):
        read(table, segment="q", features="f")


@KINDS
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"lm": [1.0, float("nan"), 2.0]}, "row 2: column 'lm' is nan, not a finite number"),
        ({"lm": ["1", "2", "3"]}, "row 1: column 'lm' is '1', not a number"),
        ({"utt": ["a", "", "b"]}, "row 2: column 'utt' is empty"),
        ({"lm": [1.0, 1e200, 2.0]}, "row 2: column 'lm' is 1e[+]200, beyond"),
        *(
            ({"lm": np.array([0, one, 0], dtype="u8" if one > 0 else "i8")}, f"row 2: column 'lm' is {one}, an integer")
            for one in TOO_LARGE
        ),
    ],
)
def test_errors_name_the_row(kind: str, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(frame(kind, {**ROWS, **columns}), **COLUMNS)


@KINDS
def test_what_a_frame_does_not_tell_is_asked_for(kind: str) -> None:
    with pytest.raises(ColumnsNeeded, match=r"segment .*features .*utt, am, lm, errors, hyp") as caught:
        read(frame(kind, ROWS))
    assert caught.value.suggestion == {"segment": "utt", "features": "am,lm", "loss": "errors"}
    with pytest.raises(DataError, match="no column 'x'; the columns are utt"):
        read(frame(kind, ROWS), segment="x", features="am", loss="errors")


def test_a_gain_that_is_missing_in_a_frame_is_named() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"list": ["a", "a"], "f": [1, 2], "gain": pandas.array([True, None], dtype="boolean")})
    with pytest.raises(DataError, match="row 2: column 'gain' is <NA>, not a number"):
        read(frame, segment="list", features="f", gain="gain")


@pytest.mark.parametrize("dialect", ["candidates a line", "columns"])
def test_records_that_hold_all_of_a_list_need_no_id(tmp_path: Path, dialect: str) -> None:
    content, columns = DIALECTS[dialect]
    (tmp_path / "x").write_text(content)
    columns = {name: path for name, path in columns.items() if name != "segment"}
    if dialect == "columns":  # of all lists
        with pytest.raises(DataError, match="only one record; name the column that says which list"):
            read(tmp_path / "x", **columns)
    else:
        assert read(tmp_path / "x", **columns).list_ids == ("0", "1")
