"""Tables in files and in memory: which columns count, how rows become lists, and what is refused; files are whole."""

from __future__ import annotations

import builtins
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from shared import SHARED_DATA, librispeech, needs_shared
from written_lists import DIALECTS, PACKINGS

import lpmert
from lpmert import DataError, NBest, minimize, read, read_table, to_columns, write
from lpmert.formats.columns import ColumnsNeeded
from lpmert.formats.mert_data import read_mert_data
from lpmert.formats.moses import read_moses
from lpmert.formats.speech_lists import read_espnet
from lpmert.model.converters import measure_texts
from lpmert.system.files import atomic_writer, lines, read_text, write_text

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TSV = """utt\tam\tlm\terrors\ttext
a\t-1.5\t2\t0\tthe "cat
a\t-2.25\t1e-3\t1\t
b\t3\t-4\t2\ta cat, a dog
"""
GOOD_OBJECT = '{"utt": "a", "am": 1, "lm": 2, "errors": 3}\n'


def read_small(path: Path | str, **changes: object) -> NBest:
    given: dict[str, object] = {"segment": "utt", "features": ["am", "lm"], "loss": "errors"}
    return read_table(path, **{**given, **changes})  # type: ignore[arg-type]


def read_content(folder: Path, content: str | bytes, name: str = "dev.tsv", **changes: object) -> NBest:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_small(path, **changes)


def parquet() -> bytes:
    content = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"utt": ["a"], "am": [1], "lm": [2], "errors": [0]}), content)
    return content.getvalue()


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


def test_quoted_csv_cells_may_span_lines(tmp_path: Path) -> None:
    content = 'utt,am,lm,errors,text\na,1,2,3,"x\ny"\na,"4",5,6,z\n'
    nbest = read_content(tmp_path, content, "dev.csv", text="text")
    assert nbest.texts == ("x\ny", "z")
    assert nbest.dense_features().tolist() == [[1, 2], [4, 5]]


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

    content = {"zstandard": PACKINGS[".zst"](b"x"), "pyarrow": parquet()}[module]
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(DataError, match=rf"{module} is not installed; install lpmert\[{extra}\]"):
        read_content(tmp_path, content, name)


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


def test_read_text_names_the_line_of_a_bad_byte(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"one\ntwo\nth\xe9\n")
    with pytest.raises(DataError, match=r"x.txt:3: byte 0xe9 is not UTF-8"):
        read_text(tmp_path / "x.txt")


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


@pytest.mark.parametrize("dialect", ["candidates a line", "columns"])
def test_records_that_hold_all_of_a_list_need_no_id(tmp_path: Path, dialect: str) -> None:
    content, columns = DIALECTS[dialect]
    (tmp_path / "x").write_text(content)
    columns = {name: path for name, path in columns.items() if name != "segment"}
    if dialect == "columns":  # of all lists
        with pytest.raises(DataError, match="only one record; name the column that tells which list"):
            read(tmp_path / "x", **columns)
    else:
        assert read(tmp_path / "x", **columns).list_ids == ("0", "1")
