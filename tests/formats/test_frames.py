"""Tables in memory are read like files of the same content, and lists become such tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest

from lpmert import DataError, NBest, minimize, read_table, to_columns, write
from lpmert.formats.roles import ColumnsNeeded

ROWS: dict[str, list[Any]] = {
    "utt": ["a", "a", "b"],
    "am": [-1.5, -2.25, 3.0],
    "lm": [2, 1, -4],
    "errors": [0, 1, 2],
    "hyp": ["x", "", "y z"],
}
COLUMNS: dict[str, Any] = {"segment": "utt", "features": ["am", "lm"], "loss": "errors", "text": "hyp"}


def made(kind: str, columns: Any) -> Any:
    if kind == "mapping":
        return columns
    if kind == "pyarrow":
        return pyarrow.table(columns)
    module: Any = pytest.importorskip(kind)
    return module.DataFrame(columns)


KINDS = pytest.mark.parametrize("kind", ["mapping", "pyarrow", "pandas", "polars"])


@KINDS
def test_a_frame_is_read_like_a_file(tmp_path: Path, kind: str) -> None:
    rows = ["\t".join(ROWS), *("\t".join(map(str, row)) for row in zip(*ROWS.values(), strict=True))]
    (tmp_path / "x.tsv").write_text("\n".join(rows) + "\n")
    file, frame = read_table(tmp_path / "x.tsv", **COLUMNS), read_table(made(kind, ROWS), **COLUMNS)
    assert (frame.fingerprint, frame.texts) == (file.fingerprint, file.texts)


@KINDS
def test_lists_become_a_frame_and_lists_again(kind: str) -> None:
    nbest = NBest(
        [[1.0, 0], [0, 1], [2, 1]], [0, 2, 3], [0, 1, 1], names=["a", "b"], list_ids=["x", "7"], texts=["", "y", "z"]
    )
    frame = made(kind, to_columns(nbest))
    again = read_table(frame)
    assert (again.fingerprint, again.texts) == (nbest.fingerprint, nbest.texts)
    assert minimize(again).loss == 1  # list 7 has one hypothesis, of loss 1, and list x one of loss 0


@KINDS
def test_rows_that_lie_apart_are_gathered_or_refused(kind: str) -> None:
    frame = made(kind, {"q": [2, 1, 2], "f": [1.0, 2.0, 3.0], "loss": [0, 1, 2]})
    nbest = read_table(frame, segment="q", features="f", group=True)
    assert (nbest.list_ids, nbest.dense_features().ravel().tolist()) == (("2", "1"), [1, 3, 2])
    with pytest.raises(DataError, match="list '2' comes back here"):
        read_table(frame, segment="q", features="f")


@KINDS
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"lm": [1.0, float("nan"), 2.0]}, "row 2: column 'lm' is nan, not a finite number"),
        ({"lm": ["1", "2", "3"]}, "row 1: column 'lm' is '1', not a number"),
        ({"utt": ["a", "", "b"]}, "row 2: column 'utt' is empty"),
        ({"lm": [1.0, 1e200, 2.0]}, "row 2: column 'lm' is 1e[+]200, beyond"),
    ],
)
def test_errors_name_the_row(kind: str, columns: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_table(made(kind, {**ROWS, **columns}), **COLUMNS)


@KINDS
def test_what_a_frame_does_not_tell_is_asked_for(kind: str) -> None:
    with pytest.raises(ColumnsNeeded, match=r"segment .*features .*utt, am, lm, errors, hyp") as caught:
        read_table(made(kind, ROWS))
    assert caught.value.suggestion == {"segment": "utt", "features": "am,lm", "loss": "errors"}
    with pytest.raises(DataError, match="no column 'x'; the columns are utt"):
        read_table(made(kind, ROWS), segment="x", features="am", loss="errors")


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(DataError, match="neither a path nor a table with named columns: 7"):
        read_table(7)
    with pytest.raises(DataError, match="all the same number of rows"):
        read_table({"a": [1], "b": [1, 2]})
    with pytest.raises(DataError, match="column 'a' is no row of values"):
        read_table({"a": np.ones((2, 2))})
    with pytest.raises(DataError, match="no rows"):
        read_table({"list": [], "a": [], "loss": []})


def test_columns_must_have_different_names(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="two columns would be called 'list'"):
        to_columns(NBest([[1.0]], [0, 1], [0], names=["list"]))
    write(NBest([[1.0]], [0, 1], [0], names=["list"]), tmp_path / "x.npz")
    assert list(to_columns(NBest([[1.0]], [0, 1], [0], names=["list"]), segment="id")) == ["id", "list", "loss"]
