"""Tables in files and in memory: how rows become lists, what is refused, which columns are proposed; whole files."""

import builtins
import io
import json
import os
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from commands import refusal, run
from shared import SHARED_DATA, needs_shared
from written_lists import DIALECTS, PACKINGS, TOO_LARGE, frame, put

from lpmert import DataError, NBest, minimize, read, to_columns
from lpmert.formats.columns import ColumnsNeeded
from lpmert.system.files import atomic_writer, lines, read_text, write_text


def parquet() -> bytes:
    content = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"utt": ["a"], "am": [1], "lm": [2], "errors": [0]}), content)
    return content.getvalue()


def test_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(wanted: str, *arguments: object) -> object:
        if wanted.split(".")[0] == "pyarrow":
            raise ModuleNotFoundError(wanted)
        return original(wanted, *arguments)

    path = put(tmp_path, {"a.parquet": parquet()}) / "a.parquet"
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(DataError, match=r"pyarrow is not installed; install lpmert\[parquet\]"):
        read(path)


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


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"errors": np.ma.array([0, 9, 1], mask=[0, 1, 0])}, "column 'errors' cannot be read; .*it has masked entries"),
        ({"am": [0.5, 2**53 + 1, 1]}, r"column 'am' cannot be read; .*it has integers beyond 2\*\*53"),
        ({"am": [[1], [1, 2], [3]]}, "column 'am' cannot be read; .*it must be a rectangular array"),
        ({"am": [1, 2]}, "columns of 2 and 3 rows; give all the same"),
        ({7: [1, 2, 3]}, "the name of a column is 7, not a string; rename it"),
    ],
)
def test_a_mapping_is_read_as_it_is_or_refused(columns: dict[Any, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read({**ROWS, **columns}, **COLUMNS)


def test_only_the_columns_of_a_frame_that_are_wanted_are_looked_at() -> None:
    assert read({**ROWS, "notes": [[1], [1, 2]]}, **COLUMNS).features.tolist() == [[-1.5, 2], [-2.25, 1], [3, -4]]


@pytest.mark.filterwarnings("ignore:Determining the column names of a LazyFrame")
def test_what_is_only_like_a_frame_is_read_or_refused_by_name() -> None:
    import pandas
    import polars

    rows = pandas.DataFrame(ROWS)
    batch = pyarrow.table(ROWS).to_batches()[0]
    assert read(batch, **COLUMNS).fingerprint == read(ROWS, **COLUMNS).fingerprint
    twice = pyarrow.table([[1], [2]], names=["am", "am"])
    for source, message in (
        (rows.assign(utt=pandas.array(["a", "a", None], dtype="string")), "row 3: column 'utt' is <NA>, not a string"),
        (pandas.concat([rows, rows[["am"]]], axis=1), "two columns are called 'am'; rename one"),
        (twice, "two columns are called 'am'; rename one"),
        (polars.DataFrame(ROWS).cast({"errors": polars.Int128}), "column 'errors' cannot be read; .*i128"),
        (polars.DataFrame(ROWS).lazy(), "column 'utt' cannot be read; convert it first"),
        (rows.groupby("utt"), "source must be paths of files, not "),
        (rows["am"], "source must be paths of files, not -1.5"),
        (rows.to_dict("records"), "source must be paths of files, not {'am'"),
        (rows.to_records(), "source must be paths of files, not "),
    ):
        with pytest.raises(DataError, match=message):
            read(source, **COLUMNS)


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


def test_one_of_several_objects_that_lacks_a_key_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"n": [{"f": 1, "e": 0}, {"f": 2}]}\n')
    with pytest.raises(DataError, match=r"x.jsonl:1: no key 'n.e' in one of its objects; the keys are n.f, n.e"):
        read(tmp_path / "x.jsonl", features="n.f", loss="n.e")


def test_a_gain_in_quotes_is_not_advised_to_be_a_gain(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"q": "a", "f": 1, "g": "true"}\n')
    with pytest.raises(DataError, match=r"column 'g' is 'true', not a number but a string$"):
        read(tmp_path / "x.jsonl", segment="q", features="f", gain="g")


def test_names_with_commas_and_spaces_are_proposed_as_patterns(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(
        'utt,"a,m", lm,errors\n' + "".join(f"u{row // 2},{row % 3},{row**2},{row % 2}\n" for row in range(8))
    )
    found = needed(path).suggestion
    assert found == {"segment": "utt", "features": "a?m,?lm"}
    assert read(path, loss="errors", **found).names == ("a,m", " lm")


# Columns that an error proposes, where a table does not say which are what.

Table = dict[str, list[Any]]
LISTS, SIZE = 12, 5


def speech(**more: list[Any]) -> Table:
    """A table of lists as recognisers write them: a rank, two scores and their total, counts, errors, texts."""
    rng = np.random.default_rng(1)
    size = LISTS * SIZE
    am, lm = (rng.normal(scale=20, size=size).round(4) for _ in range(2))
    return {
        "source": ["book"] * 20 + ["radio"] * 40,
        "recording": [f"r{row // SIZE}" for row in range(size)],
        "rank": [row % SIZE + 1 for row in range(size)],
        "am": am.tolist(),
        "lm": lm.tolist(),
        "score": (am + 0.6 * lm).round(4).tolist(),
        "words": rng.integers(3, 9, size=size).tolist(),
        "errors": rng.integers(0, 5, size=size).tolist(),
        "ref_words": np.repeat(rng.integers(4, 9, size=LISTS), SIZE).tolist(),
        "text": [f"w{row} w" for row in range(size)],
        **more,
    }


def rows_of(table: Table) -> list[dict[str, Any]]:
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def written(folder: Path, table: Table, form: str = "tsv") -> Any:
    """A file with a table, or the table itself."""
    path = folder / f"lists.{form}"
    if form == "frame":
        return table
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows_of(table)))
    elif form == "arrays.json":
        lists = [{"recording": f"r{n}", "hyps": rows_of(table)[n * SIZE : (n + 1) * SIZE]} for n in range(LISTS)]
        path.write_text(json.dumps(lists))
    elif form == "parquet":
        pyarrow.parquet.write_table(pyarrow.table(table), path)
    else:
        separator = "\t" if form == "tsv" else ","
        lines = [table, *zip(*table.values(), strict=True)]
        path.write_text("".join(separator.join(map(str, line)) + "\n" for line in lines))
    return path


def needed(source: Any, **options: Any) -> ColumnsNeeded:
    with pytest.raises(ColumnsNeeded) as caught:
        read(source, **options)
    return caught.value


WANTED = {"segment": "recording", "features": "am,lm,words", "statistics": "errors,ref_words", "metric": "wer"}


@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl", "parquet", "frame"])
def test_ids_ranks_sums_and_lengths_of_references_are_told_from_features(tmp_path: Path, form: str) -> None:
    error = needed(written(tmp_path, speech(), form))
    assert error.suggestion == WANTED
    assert error.no_features == {"rank": "counts the rows of a list", "score": "a sum of am, lm, with some weights"}
    columns = "segment='recording', features='am,lm,words', statistics='errors,ref_words'"
    assert error.__notes__ == [f"For example: lpmert.read(..., {columns})"]


def test_columns_of_hypotheses_within_records_are_found(tmp_path: Path) -> None:
    table = {name: cells for name, cells in speech().items() if name != "recording"}
    found = needed(written(tmp_path, table, "arrays.json")).suggestion
    under = {name: ",".join(f"hyps.{one}" for one in WANTED[name].split(",")) for name in ("features", "statistics")}
    assert found == {**under, "metric": "wer"}  # a record is a list


def test_the_last_word_of_a_name_tells_errors(tmp_path: Path) -> None:
    table = speech()
    table["word_errors"] = table.pop("errors")
    assert needed(written(tmp_path, table)).suggestion == {**WANTED, "statistics": "word_errors,ref_words"}


def test_a_metric_that_is_named_gets_no_other_one(tmp_path: Path) -> None:
    outcome = run("solve", written(tmp_path, speech()), "--metric", "zero-one")
    assert outcome.stderr.splitlines()[-1].endswith("--loss errors")


def test_errors_that_are_no_counts_are_a_loss_and_no_rate(tmp_path: Path) -> None:
    halves = [errors / 2 for errors in speech()["errors"]]
    error = needed(written(tmp_path, speech(errors=halves)))
    assert error.suggestion["loss"] == "errors"
    assert error.no_features["ref_words"] == "the same within each list"


def test_answers_to_questions_have_ids_votes_and_texts(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    size = 40
    answers: Table = {
        "question": [row // 4 for row in range(size)],
        "answer": [str(one) for one in rng.integers(1, 4, size=size)],
        "logit": rng.normal(size=size).round(3).tolist(),
        "count": [1] * size,
    }
    error = needed(written(tmp_path, answers, "jsonl"))
    assert error.suggestion == {"segment": "question", "features": "logit", "loss": "COLUMN"}
    assert error.no_features == {"count": "the same within each list"}
    # with weights but without losses, a count of 1 is a vote
    assert needed(written(tmp_path, answers, "jsonl"), references=False).suggestion["features"] == "logit,count"
    right = needed(written(tmp_path, {**answers, "right": [one == "1" for one in answers["answer"]]}, "jsonl"))
    assert right.suggestion["gain"] == "right"


def test_parts_of_the_errors_are_no_features(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    sub, ins, dele = (rng.integers(0, 4, size=LISTS * SIZE) for _ in range(3))
    table = speech(sub=sub.tolist(), ins=ins.tolist(), errors=(sub + ins + dele).tolist(), wer=rng.random(60).tolist())
    table["del"] = dele.tolist()
    error = needed(written(tmp_path, table))
    assert error.suggestion == WANTED
    assert {name: error.no_features[name] for name in ("sub", "ins", "del", "wer")} == {
        **dict.fromkeys(["sub", "ins", "del"], "part of errors"),
        "wer": "a loss or a gain",
    }


def test_what_only_looks_like_a_sum_or_a_rank_stays(tmp_path: Path) -> None:
    table = speech()
    table["score"][7] += 1.0  # a twentieth of the spread
    table["rank"][9] += 1
    table["place"] = table.pop("rank")
    found = needed(written(tmp_path, table))
    assert set(found.suggestion["features"].split(",")) == {"am", "lm", "score", "words", "place"}
    few = {name: cells[: 2 * SIZE] for name, cells in speech().items()}
    assert "score" in needed(written(tmp_path, few)).suggestion["features"].split(",")


def test_numbers_of_rows_and_columns_with_gaps_are_no_features(tmp_path: Path) -> None:
    size = LISTS * SIZE
    table = speech(row=list(range(7, 7 + size)), gap=[1.5] * (size - 1) + ["nan"])
    error = needed(written(tmp_path, table))
    assert error.suggestion == WANTED
    assert error.no_features["row"] == "numbers the rows"
    assert error.no_features["gap"] == "not a number in every row"


@pytest.mark.parametrize("times", [1, 3000])
def test_of_stdin_the_first_rows_tell_as_of_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, times: int) -> None:
    file = written(tmp_path, {name: cells * times for name, cells in speech().items()})
    of_file = needed(file)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    of_stdin = needed("-")
    assert of_stdin.suggestion == of_file.suggestion
    assert of_stdin.no_features == of_file.no_features


def test_a_wide_table_is_looked_at_in_a_moment(tmp_path: Path) -> None:
    table = {"recording": speech()["recording"], "errors": speech()["errors"]}
    table |= {f"f{number}": speech()["am"] for number in range(3000)}
    before = process_time()
    assert len(needed(written(tmp_path, table)).suggestion["features"].split(",")) == 3000
    assert process_time() - before < 20


@pytest.mark.parametrize("of", ["another encoding", "the far future"])
def test_a_parquet_column_that_cannot_be_read_is_told_beside_what_is_needed(tmp_path: Path, of: str) -> None:
    path, size = written(tmp_path, speech(), "parquet"), LISTS * SIZE
    letters = pyarrow.array([b"\xe9"] * size).view(pyarrow.string())
    odd = letters if of == "another encoding" else pyarrow.array([1 << 40] * size, pyarrow.timestamp("s"))
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(path).append_column("odd", odd), path)
    assert f"{path}: cannot be read as Parquet: " in needed(path).trouble
    assert "the names were looked at, as of" in refusal("solve", path)
    assert needed(path).suggestion["loss"] == "errors"
    assert read(path, segment="recording", features="am,lm", loss="errors").n_lists == LISTS


@pytest.mark.parametrize("line", ["{}", '{"id": "a", "tags": ["x", 1], "n": {"b": [1]}, "f": null, "h": 1e200}'])
def test_odd_records_still_say_what_they_need(tmp_path: Path, line: str) -> None:
    (tmp_path / "x.jsonl").write_text(f"{line}\n{line}\n")
    assert set(needed(tmp_path / "x.jsonl").suggestion) >= {"features", "loss"}


def test_a_broken_table_still_says_what_it_needs(tmp_path: Path) -> None:
    path = written(tmp_path, speech())
    path.write_text(path.read_text() + "one\tcell\ttoo\tfew\n")
    assert needed(path).suggestion["loss"] == "errors"
    assert "the names were looked at, as of" in refusal("solve", path)
    assert "lists.tsv:62: 4 cells, but the header has 10" in " ".join(refusal("solve", path).split())
    with pytest.raises(DataError, match=r"lists\.tsv:62: 4 cells, but the header has 10"):
        read(path, segment="recording", features="am", loss="errors")


def test_columns_with_gaps_are_neither_proposed_nor_forgotten(tmp_path: Path) -> None:
    gaps = [None, *[0.5 * row for row in range(LISTS * SIZE - 1)]]
    path = written(
        tmp_path, {"q": speech()["recording"], "n": speech()["rank"], "prm": gaps, "correct": [True] * 60}, "jsonl"
    )
    error = needed(path)
    assert error.no_features == {"prm": "not a number in every row", "n": "counts the rows of a list"}
    assert error.suggestion == {"segment": "q", "features": "A,B,C", "gain": "correct"}


@pytest.mark.parametrize("name", ["x.csv", "x.txt"])
@pytest.mark.parametrize("mark", [",", "."])
def test_a_spreadsheets_semicolons_are_read_with_decimal_commas_or_points(tmp_path: Path, mark: str, name: str) -> None:
    cells = '\ufeffq;am;errors;text\r\na;0_5;1;ja, nein\r\na;-1_25E-3;0;1.5\r\nb;1234;2;"x;y"\r\n'
    (tmp_path / name).write_text(cells.replace("_", mark))
    found = read(tmp_path / name, segment="q", features="am", loss="errors", text="text")
    assert found.features.ravel().tolist() == [0.5, -0.00125, 1234.0]
    assert found.texts == ("ja, nein", "1.5", "x;y")
    assert needed(tmp_path / name).suggestion["features"] == "am"


@pytest.mark.parametrize("form", ["csv", "parquet", "frame"])
def test_scattered_rows_are_to_be_gathered_and_an_index_is_no_feature(tmp_path: Path, form: str) -> None:
    table = speech(__index_level_0__=[7 * row % 60 for row in range(LISTS * SIZE)])
    order = np.random.default_rng(3).permutation(LISTS * SIZE).tolist()
    del table["rank"]
    table = {name: [cells[row] for row in order] for name, cells in table.items()}
    table["recording_id"] = table.pop("recording")
    source = written(tmp_path, table, form)
    error = needed(source)
    options = {**error.suggestion}
    assert options == {**WANTED, "segment": "recording_id", "group": ""}
    assert error.no_features["__index_level_0__"] == "numbers the rows"
    del options["metric"], options["group"]
    read(source, group=True, **options)
    assert "group" not in needed(source, group=True).suggestion


@pytest.mark.parametrize("always", [False, True])
def test_a_column_that_marks_one_row_of_each_list_is_a_choice(tmp_path: Path, always: bool) -> None:
    rng = np.random.default_rng(2)
    table = {"person": np.repeat(range(LISTS), SIZE), "cost": rng.normal(size=LISTS * SIZE).round(3)}
    marks = [row % SIZE == (0 if always else row // SIZE % SIZE) for row in range(LISTS * SIZE)]
    table |= {"bus": [int(row % SIZE == 1) for row in range(LISTS * SIZE)], "y": [*map(int, marks)]}
    found = needed(written(tmp_path, {name: list(cells) for name, cells in table.items()})).suggestion
    chosen = {"segment": "person", "features": "cost,bus", "gain": "y"}
    assert (found == chosen) is not always  # a dummy of the first alternative looks the same


REAL = {
    "librispeech-asr-30best/dev_other.nbest.tsv.xz": {
        "segment": "utt",
        "features": "decoder,ctc,lm,n_tokens,n_words",
        "statistics": "errors,ref_words",
        "metric": "wer",
    },
    "discrete-choice/ModeCanada.csv.xz": {"segment": "case", "features": "cost,ivt,ovt,freq", "gain": "choice"},
}
SIZES = {
    "csmt-normalisation/nbest-pool.tsv.xz": (1014, 45149),
    "librispeech-asr-30best/dev_other.nbest.tsv.xz": (2864, 85920),
    "portage-hansard-100best/dev2.nbest.tsv.xz": None,
    "realsumm-cnndm/abs.tsv.xz": None,
    "unieval-topicalchat/topical_chat.tsv.xz": None,
}
"""Lists and hypotheses of real tables where what is proposed is enough to read them."""


@needs_shared
@pytest.mark.parametrize("name", REAL | SIZES)
def test_columns_of_real_tables_are_those_that_their_pages_describe(name: str) -> None:
    found = needed(SHARED_DATA / name).suggestion
    assert found == REAL.get(name, found)
    assert {"segment", "features"} <= set(found)
    if SIZES.get(name):
        nbest = read(SHARED_DATA / name, **{option: value for option, value in found.items() if option != "metric"})
        assert (nbest.n_lists, nbest.n_hypotheses) == SIZES[name]
