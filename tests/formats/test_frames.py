"""Tables in memory are read like files of the same content, and lists become such tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest

import lpmert
from lpmert import DataError, NBest, minimize, read, read_table, to_columns, write
from lpmert.formats.columns import ColumnsNeeded
from lpmert.formats.mert_data import read_mert_data
from lpmert.formats.moses import read_moses
from lpmert.formats.scores import read_espnet
from lpmert.model.converters import measure_texts

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


TOO_LARGE = [2**53 + 1, -(2**53) - 1, 2**64 - 1]


@KINDS
@pytest.mark.parametrize("value", TOO_LARGE)
def test_integers_that_would_be_rounded_are_refused_in_frames(kind: str, value: int) -> None:
    frame = made(kind, {"list": ["a", "a"], "f": np.array([1, value], dtype="u8" if value > 2**63 else "i8")})
    with pytest.raises(DataError, match=rf"row 2: column 'f' is {value}, an integer beyond 2\*\*53"):
        read_table(frame, segment="list", features="f", loss="f")


@pytest.mark.parametrize("value", TOO_LARGE)
@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("x.tsv", "list\tf\tloss\na\t1\t0\na\t{}\t0\n", 3),
        ("x.csv", "list,f,loss\na,1,0\na,{},0\n", 3),
        ("x.jsonl", '{{"list": "a", "f": 1, "loss": 0}}\n{{"list": "a", "f": {}, "loss": 0}}\n', 2),
        ("x.json", '[{{"list": "a", "f": 1, "loss": 0}},\n{{"list": "a", "f": {}, "loss": 0}}]\n', 2),
        ("candidates.jsonl", '{{"id": "a", "candidates": [{{"scores": {{"f": {}}}, "loss": 0}}]}}\n', 1),
        ("x.moses", "0 ||| a ||| f= 1 ||| statistics: loss=0\n0 ||| b ||| f= {} ||| statistics: loss=0\n", 2),
    ],
)
def test_integers_that_would_be_rounded_are_refused_in_files(
    tmp_path: Path, name: str, text: str, line: int, value: int
) -> None:
    (tmp_path / name).write_text(text.format(value))
    with pytest.raises(DataError, match=rf"{name}:{line}: .* is '?{value}'?, an integer beyond 2\*\*53 .*rescale it"):
        read(tmp_path / name)
    (tmp_path / name).write_text(text.format(f"{value}.0"))  # decimals are the nearest doubles, as everywhere
    assert abs(read(tmp_path / name).dense_features()).max() == float(abs(value))
    (tmp_path / name).write_text(text.format(2**60))  # float64 holds it
    assert read(tmp_path / name).dense_features().max() == 2**60


def test_a_later_block_of_a_table_has_no_rounded_integers(tmp_path: Path) -> None:
    rows = "a\t1\t0\n" * 200_000
    (tmp_path / "x.tsv").write_text(f"list\tf\tloss\n{rows}a\t9007199254740993\t0\n")
    with pytest.raises(DataError, match=r"x.tsv:200002: column 'f' is '9007199254740993', an integer beyond"):
        read(tmp_path / "x.tsv")


@pytest.mark.parametrize("dtype", ["datetime64[ns]", "datetime64[us]", "datetime64[D]", "timedelta64[ns]"])
def test_dates_are_no_features_and_no_ids(dtype: str) -> None:
    times = np.array([1, 2], dtype=dtype)
    with pytest.raises(DataError, match="row 1: column 'f' is np"):
        read_table({"list": ["a", "a"], "f": times, "loss": [0, 1]})
    with pytest.raises(DataError, match="row 1: column 'list' is np"):
        read_table({"list": times, "f": [1, 2], "loss": [0, 1]})


def test_a_gain_that_is_missing_in_a_frame_is_named() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"list": ["a", "a"], "f": [1, 2], "gain": pandas.array([True, None], dtype="boolean")})
    with pytest.raises(DataError, match="row 2: column 'gain' is <NA>, not a number"):
        read_table(frame, segment="list", features="f", gain="gain")


@pytest.mark.parametrize("ids", [(1, "1"), ("1", 1)])
def test_an_id_that_is_a_string_here_and_a_number_there_is_refused(tmp_path: Path, ids: tuple[Any, Any]) -> None:
    with pytest.raises(DataError, match=rf"row 2: list {ids[1]!r} is {ids[0]!r} on row 1; write all ids"):
        read_table({"list": ids, "f": [1, 2], "loss": [0, 1]})
    lines = [json.dumps({"list": one, "f": 1, "loss": 0}) + "\n" for one in (ids[0], "x", ids[1])]
    (tmp_path / "x.jsonl").write_text("".join(lines))
    with pytest.raises(DataError, match=rf"x.jsonl:3: list {ids[1]!r} is {ids[0]!r} on line 1; write all ids"):
        read_table(tmp_path / "x.jsonl", group=True)


MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("mark", [MARK, 2 * MARK])
@pytest.mark.parametrize(
    ("name", "first", "line"),
    [
        ("x.tsv", b"list\tf\tloss\n", b"a\t1\t0\n"),
        ("x.csv", b"list,f,loss\n", b"a,1,0\n"),
        ("x.jsonl", b"", b'{"list": "a", "f": 1, "loss": 0}\n'),
        ("x.moses", b"", b"0 ||| a ||| f= 1 ||| statistics: loss=0\n"),
    ],
)
def test_a_byte_order_mark_inside_a_file_is_refused(
    tmp_path: Path, name: str, first: bytes, line: bytes, mark: bytes
) -> None:
    (tmp_path / name).write_bytes(MARK + first + line)
    assert read(tmp_path / name).n_hypotheses == 1
    (tmp_path / name).write_bytes(MARK + first + 3 * line + mark + line)
    at = 4 + bool(first)
    with pytest.raises(DataError, match=rf"{name}:{at}: a byte order mark \(EF BB BF\) inside the file.*delete it"):
        read(tmp_path / name)
    many = 1 + (3 << 20) // len(line)  # beyond the first blocks
    (tmp_path / name).write_bytes(first + many * line + mark + line)
    with pytest.raises(DataError, match=rf"{name}:{many + at - 3}: a byte order mark"):
        read(tmp_path / name)


LISTS = NBest([[1.0, 0], [0, 1]], [0, 1, 2], [0, 1], names=["a", "b"], texts=["x", "y"])
SETS: list[tuple[str, Callable[[], object]]] = [
    ("source", lambda: read({"x.tsv"})),
    ("features", lambda: read("x.tsv", features={"a", "b"})),
    ("features", lambda: read_table("x.tsv", features={"a", "b"})),
    ("statistics", lambda: read_table("x.tsv", statistics={"loss"})),
    ("references", lambda: read_table("x.tsv", text="text", references={"x.tsv"})),
    ("names", lambda: LISTS.select_features({"a", "b"})),
    ("references", lambda: measure_texts(LISTS, {"x", "y"}, "wer")),
    ("paths", lambda: read_moses({"x.tsv"})),
    ("statistics", lambda: read_moses("x.tsv", statistics={"x.tsv"})),
    ("features", lambda: read_mert_data({"x.tsv"})),
    ("scores", lambda: read_espnet("x.tsv", "x.tsv", scores={"score"})),
    ("source", lambda: lpmert.load_lattices({"x.tsv"}, "x.tsv")),
    ("methods", lambda: lpmert.compare(LISTS, {"och", "grid"}, seeds=1)),
    ("groups", lambda: lpmert.tune(LISTS, groups={"x", "y"})),
    ("names", lambda: lpmert.Lattices([[1.0, 2.0]], [0, 1], [0], [1], words=["a"], references=["a"], names={"a", "b"})),
]


@pytest.mark.parametrize(("what", "call"), SETS)
def test_sets_are_refused_where_order_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, call: Callable[[], object]
) -> None:
    """The order of a set of strings is another in each process."""
    monkeypatch.chdir(tmp_path)
    write(LISTS, "x.tsv")
    with pytest.raises(DataError, match=f"^{what} must be a sequence, not a set, which has no order; give a list"):
        call()


def test_keys_of_a_mapping_are_in_order() -> None:
    assert NBest([[1.0, 0]], [0, 1], [0], names={"b": 0, "a": 0}.keys()).names == ("b", "a")  # type: ignore[arg-type]
