"""Which format and which columns a file or a table in memory has: told, proposed, or asked for once; how rows become
lists, what is compared with references, and what is refused.
"""

import bz2
import csv
import io
import json
import os
import shlex
import subprocess
import sys
import tarfile
import zipfile
from contextlib import suppress
from itertools import chain
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from commands import ended, json_of, loss_of, refusal, run, succeeded
from late import Late
from shared import ROOT, SHARED_DATA, needs_shared
from written_lists import DIALECTS, FILES, PACKINGS, TOO_LARGE, frame, optimum, put, same, small

from lpmert import DataError, NBest, minimize, read, to_columns, write
from lpmert.files import atomic_writer, lines, read_text, write_text
from lpmert.formats.columns import ColumnsNeeded
from lpmert.formats.detect import detect
from lpmert.registry import FORMATS as REGISTERED

pandas, polars = Late("pandas"), Late("polars")


def test_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pyarrow is not installed; install lpmert\[parquet\]"):
        read(put(tmp_path, {"a.parquet": "PAR1"}) / "a.parquet")


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_text_is_written_as_the_same_bytes_and_whole_or_not_at_all(tmp_path: Path, packing: str) -> None:
    first, second = tmp_path / f"one.txt{packing}", tmp_path / f"two.txt{packing}"
    text = "zwölf\nBoxkämpfer\r\nquer"
    write_text(first, text)
    write_text(second, text)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(PACKINGS[packing](text.encode())[:2])
    assert list(lines(first)) == [(1, "zwölf"), (2, "Boxkämpfer"), (3, "quer")]
    with suppress(KeyboardInterrupt), atomic_writer(first) as stream:
        stream.write("new" * 10_000)
        raise KeyboardInterrupt
    assert read_text(first) == text.replace("\r\n", "\n")
    assert sorted(tmp_path.iterdir()) == [first, second]


def test_writing_keeps_permissions_links_and_devices(tmp_path: Path) -> None:
    path, link = tmp_path / "x.txt", tmp_path / "link.txt"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_text(link, "new")
    assert (link.is_symlink(), path.read_text(), path.stat().st_mode & 0o777) == (True, "new", 0o640)
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


@pytest.mark.parametrize("kind", ["mapping", "pyarrow", "pandas", "polars"])
def test_frames_are_read_as_files_are(kind: str) -> None:
    nbest = small(list_ids=["x", "7"])
    again = read(frame(kind, to_columns(nbest)))
    assert same(again, nbest)
    assert minimize(again).loss == optimum(nbest)
    with pytest.raises(ColumnsNeeded, match=r"segment .*features .*utt, am, lm, errors, hyp") as caught:
        read(frame(kind, ROWS))
    assert caught.value.suggestion == {"segment": "utt", "features": "am,lm", "loss": "errors"}
    columns: dict[str, Any] = {"segment": "utt", "features": "am,lm"}
    texts = {**columns, "text": "hyp"}
    found = read(frame(kind, ROWS), references={"a": "x y", "b": "z"}, **texts)
    assert found.statistics[:, 0].tolist() == [1, 2, 1]
    assert read(frame(kind, ROWS), references=False, **texts).statistics.tolist() == [[0], [0], [0]]
    apart = frame(kind, {**ROWS, "utt": [2, 1, 2]})
    gathered = read(apart, **columns, loss="errors", group=True)
    assert (gathered.list_ids, gathered.dense_features()[:, 0].tolist()) == (("2", "1"), [-1.5, 3, -2.25])
    for source, options, message in (
        (apart, {"loss": "errors"}, "list '2' comes back here"),
        (frame(kind, ROWS), {"text": "hyp", "partial": True}, "partial is for texts; give references, too"),
        (frame(kind, ROWS), {"loss": "x"}, "no column 'x'; the columns are utt"),
    ):
        with pytest.raises(DataError, match=message):
            read(source, **columns, **options)


EVERY, PLAIN = ("mapping", "pyarrow", "pandas", "polars"), ("mapping",)
LARGE = [np.array([0, one, 0], dtype="u8" if one > 0 else "i8") for one in TOO_LARGE]


def test_errors_name_the_row() -> None:
    for kinds, columns, message in (
        (EVERY, {"lm": [1.0, float("nan"), 2.0]}, "row 2: column 'lm' is nan, not a finite number"),
        (EVERY, {"lm": ["1", "2", "3"]}, "row 1: column 'lm' is '1', not a number"),
        (EVERY, {"utt": ["a", "", "b"]}, "row 2: column 'utt' is empty"),
        (EVERY, {"lm": [1.0, 1e200, 2.0]}, "row 2: column 'lm' is 1e[+]200, beyond"),
        *((EVERY, {"lm": column}, f"row 2: column 'lm' is {column[1]}, an integer") for column in LARGE),
        (PLAIN, {"errors": np.ma.array([0, 9, 1], mask=[0, 1, 0])}, "'errors' cannot be read; .*it has masked entries"),
        (PLAIN, {"am": [0.5, 2**53 + 1, 1]}, r"column 'am' cannot be read; .*it has integers beyond 2\*\*53"),
        (PLAIN, {"am": [[1], [1, 2], [3]]}, "column 'am' cannot be read; .*it must be a rectangular array"),
        (PLAIN, {"am": [1, 2]}, "columns of 2 and 3 rows; give all the same"),
        (PLAIN, {7: [1, 2, 3]}, "the name of a column is 7, not a string; rename it"),
    ):
        for kind in kinds:
            with pytest.raises(DataError, match=message):
                read(frame(kind, {**ROWS, **columns}), **COLUMNS)


@pytest.mark.filterwarnings("ignore:Determining the column names of a LazyFrame")
def test_what_is_only_like_a_frame_is_read_or_refused_by_name() -> None:
    rows, polar = pandas.DataFrame(ROWS), polars.DataFrame(ROWS)
    for like in (pyarrow.table(ROWS).to_batches()[0], {**ROWS, "notes": [[1], [1, 2]]}):  # columns not asked for
        assert read(like, **COLUMNS).fingerprint == read(ROWS, **COLUMNS).fingerprint
    flags = pandas.array([True, None, True], dtype="boolean")
    for source, message in (
        (rows.assign(utt=pandas.array(["a", "a", None], dtype="string")), "row 3: column 'utt' is <NA>, not a string"),
        (pandas.concat([rows, rows[["am"]]], axis=1), "two columns are called 'am'; rename one"),
        (pyarrow.table([[1], [2]], names=["am", "am"]), "two columns are called 'am'; rename one"),
        (polar.cast({"errors": polars.Int128}), "column 'errors' cannot be read; .*i128"),
        (polar.lazy(), "column 'utt' cannot be read; convert it first"),
        (rows.groupby("utt"), "source must be paths of files, not "),
        (rows["am"], "source must be paths of files, not -1.5"),
        (rows.to_dict("records"), "source must be paths of files, not {'am'"),
        (rows.to_records(), "source must be paths of files, not "),
    ):
        with pytest.raises(DataError, match=message):
            read(source, **COLUMNS)
    with pytest.raises(DataError, match="row 2: column 'errors' is <NA>, not a number"):
        read(rows.assign(errors=flags), segment="utt", features="am", gain="errors")


def test_records_of_json_that_hold_a_list_each_need_no_id_and_no_lack(tmp_path: Path) -> None:
    content, columns = DIALECTS["candidates a line"]
    options = {name: path for name, path in columns.items() if name != "segment"}
    assert read(put(tmp_path, {"x": content}) / "x", **options).list_ids == ("0", "1")
    lacking = {"features": "n.f", "loss": "n.e"}
    for text, given, message in (
        ('{"am": [1, 2], "lm": [1, 2], "errors": [0, 1]}', {"features": "am", "loss": "errors"}, "only one record; "),
        ('{"n": [{"f": 1, "e": 0}, {"f": 2}]}', lacking, "no key 'n.e' in one of its objects; the keys are n.f, n.e"),
        ('{"q": "a", "f": 1, "g": "true"}', {"segment": "q", "features": "f", "gain": "g"},
         "column 'g' is 'true', not a number but a string$"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=rf"x.jsonl:1: {message}"):
            read(put(tmp_path, {"x.jsonl": text + "\n"}) / "x.jsonl", **given)


@pytest.mark.parametrize("name", ["x.csv", "x.txt"])
@pytest.mark.parametrize("mark", [",", "."])
def test_a_spreadsheets_semicolons_are_read_with_decimal_commas_or_points(tmp_path: Path, mark: str, name: str) -> None:
    cells = '\ufeffq;am;errors;text\r\na;0_5;1;ja, nein\r\na;-1_25E-3;0;1.5\r\nb;1234;2;"x;y"\r\n'
    (tmp_path / name).write_text(cells.replace("_", mark))
    found = read(tmp_path / name, segment="q", features="am", loss="errors", text="text")
    assert found.features.ravel().tolist() == [0.5, -0.00125, 1234.0]
    assert found.texts == ("ja, nein", "1.5", "x;y")
    assert needed(tmp_path / name).suggestion["features"] == "am"


# Columns that an error proposes, where a table does not say which are what.

Table = dict[str, list[Any]]
LISTS, SIZE = 12, 5
EACH = range(LISTS * SIZE)
RNG = np.random.default_rng(2)


def speech(**more: list[Any] | None) -> Table:
    """A table of lists as recognisers write them, with other columns, or without those that are `None`."""
    rng = np.random.default_rng(1)
    am, lm = (rng.normal(scale=20, size=len(EACH)).round(4) for _ in range(2))
    table = {
        "source": ["book"] * 20 + ["radio"] * 40,
        "recording": [f"r{row // SIZE}" for row in EACH],
        "rank": [row % SIZE + 1 for row in EACH],
        "am": am.tolist(),
        "lm": lm.tolist(),
        "score": (am + 0.6 * lm).round(4).tolist(),
        "words": rng.integers(3, 9, size=len(EACH)).tolist(),
        "errors": rng.integers(0, 5, size=len(EACH)).tolist(),
        "ref_words": np.repeat(rng.integers(4, 9, size=LISTS), SIZE).tolist(),
        "text": [f"w{row} w" for row in EACH],
        **more,
    }
    return {name: cells for name, cells in table.items() if cells is not None}


def written(folder: Path, table: Table, form: str = "tsv") -> Any:
    """A file with a table, or the table itself."""
    path, data = folder / f"lists.{form}", pandas.DataFrame(table)
    if form == "frame":
        return table
    if form == "jsonl":
        data.to_json(path, orient="records", lines=True)
    elif form == "arrays.json":
        lists = [json.loads(data[n * SIZE :][:SIZE].to_json(orient="records")) for n in range(LISTS)]
        path.write_text(json.dumps([{"recording": f"r{n}", "hyps": rows} for n, rows in enumerate(lists)]))
    elif form == "parquet":
        data.to_parquet(path)
    else:
        data.to_csv(path, sep="\t" if form == "tsv" else ",", index=False)
    return path


def needed(source: Any, **options: Any) -> ColumnsNeeded:
    with pytest.raises(ColumnsNeeded) as caught:
        read(source, **options)
    return caught.value


WANTED = {"segment": "recording", "features": "am,lm,words", "statistics": "errors,ref_words", "metric": "wer"}
SPEECH = speech()
RANK, SUM, SAME = "counts the rows of a list", "a sum of am, lm, with some weights", "the same within each list"
ERRORS, HALVES = SPEECH["errors"], [count / 2 for count in SPEECH["errors"]]
PARTS = {name: RNG.integers(0, 4, size=len(EACH)).tolist() for name in ("sub", "ins", "del")}
TOTAL = [sum(counts) for counts in zip(*PARTS.values(), strict=True)]
OFF_BY_ONE = {  # of the score, this is a twentieth of the spread
    name: [*SPEECH[column][:7], SPEECH[column][7] + 1, *SPEECH[column][8:]]
    for name, column in (("score", "score"), ("place", "rank"))
}
ANSWERS: Table = {
    "question": [row // 4 for row in EACH],
    "answer": [str(one) for one in RNG.integers(1, 4, size=len(EACH))],
    "logit": RNG.normal(size=len(EACH)).round(3).tolist(),
    "count": [1] * len(EACH),
}
SHUFFLED = RNG.permutation(len(EACH)).tolist()
INDEXED = speech(
    rank=None, recording=None, recording_id=SPEECH["recording"], __index_level_0__=[7 * n % 60 for n in EACH]
)
BY_RECORD = {name: ",".join(f"hyps.{one}" for one in WANTED[name].split(",")) for name in ("features", "statistics")}
COMMAS: Table = {"utt": [row // 2 for row in EACH], "a,m": [row % 3 for row in EACH], " lm": [row**2 for row in EACH]}

# fmt: off
PROPOSED: dict[str, tuple[Table, str, dict[str, str], dict[str, str]]] = {
    "ids, ranks, sums and lengths of references": (
        SPEECH, "tsv csv jsonl parquet frame", WANTED, {"rank": RANK, "score": SUM}),
    "columns within records, each a list": (speech(recording=None), "arrays.json", {**BY_RECORD, "metric": "wer"}, {}),
    "the last word of a name tells errors": (
        speech(errors=None, word_errors=ERRORS), "tsv", {**WANTED, "statistics": "word_errors,ref_words"}, {}),
    "errors that are no counts are a loss and no rate": (
        speech(errors=HALVES), "tsv", {"segment": "recording", "features": "am,lm,words", "loss": "errors"},
        {"ref_words": SAME}),
    "parts of the errors": (
        speech(**PARTS, errors=TOTAL, wer=RNG.random(60).tolist()), "tsv", WANTED,
        {**dict.fromkeys(PARTS, "part of errors"), "wer": "a loss or a gain"}),
    "only like a sum or a rank": (
        speech(**OFF_BY_ONE, rank=None), "tsv", {**WANTED, "features": "am,lm,score,words,place"}, {}),
    "too few rows for a sum": (
        {name: cells[: 2 * SIZE] for name, cells in SPEECH.items()}, "tsv", {**WANTED, "features": "am,lm,score,words"},
        {"rank": RANK}),
    "numbers of rows and columns with gaps": (
        speech(row=[*range(7, 67)], gap=[1.5] * 59 + ["nan"]), "tsv", WANTED,
        {"row": "numbers the rows", "gap": "not a number in every row"}),
    "no feature is left beside one with gaps": (
        {"q": SPEECH["recording"], "n": SPEECH["rank"], "prm": [None, *HALVES[1:]], "correct": [True] * 60}, "jsonl",
        {"segment": "q", "features": "A,B,C", "gain": "correct"}, {"prm": "not a number in every row", "n": RANK}),
    "answers to questions": (
        ANSWERS, "jsonl", {"segment": "question", "features": "logit", "loss": "COLUMN"}, {"count": SAME}),
    "right answers are a gain": (
        {**ANSWERS, "right": [one == "1" for one in ANSWERS["answer"]]}, "jsonl",
        {"segment": "question", "features": "logit", "gain": "right"}, {}),
    "names with commas and blanks": (
        {**COMMAS, "errors": [row % 2 for row in EACH]}, "csv", {"segment": "utt", "features": "a?m,?lm"}, {}),
    "scattered rows and an index": (
        {name: [cells[row] for row in SHUFFLED] for name, cells in INDEXED.items()}, "csv parquet frame",
        {**WANTED, "segment": "recording_id", "group": ""}, {"__index_level_0__": "numbers the rows"}),
}
# fmt: on


@pytest.mark.parametrize("case", PROPOSED)
def test_columns_are_proposed_and_the_proposal_is_read(tmp_path: Path, case: str) -> None:
    table, forms, suggestion, reasons = PROPOSED[case]
    for form in forms.split():
        source = written(tmp_path, table, form)
        error = needed(source)
        assert error.suggestion == suggestion
        assert reasons.items() <= error.no_features.items()
        options: dict[str, Any] = {name: value or True for name, value in suggestion.items() if name != "metric"}
        (note,) = error.__notes__
        assert all(f"{name}={value!r}" in note for name, value in options.items())
        if not {"A,B,C", "COLUMN"} & {*options.values()}:
            known = {} if {"loss", "gain", "statistics"} & {*options} else {"loss": "errors"}
            found = read(source, **options, **known)
            assert found.n_features == len(suggestion["features"].split(","))
            assert "group" not in needed(source, group=True).suggestion


@pytest.mark.parametrize("times", [1, 3000])
def test_of_stdin_the_first_rows_tell_as_of_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, times: int) -> None:
    file = written(tmp_path, {name: cells * times for name, cells in SPEECH.items()})
    of_file = needed(file)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    of_stdin = needed("-")
    assert (of_stdin.suggestion, of_stdin.no_features) == (of_file.suggestion, of_file.no_features)


def test_a_wide_table_is_looked_at_in_a_moment(tmp_path: Path) -> None:
    table = {"recording": SPEECH["recording"], "errors": ERRORS}
    table |= {f"f{number}": SPEECH["am"] for number in range(3000)}
    before = process_time()
    assert len(needed(written(tmp_path, table)).suggestion["features"].split(",")) == 3000
    assert process_time() - before < 20


@pytest.mark.parametrize("of", ["another encoding", "the far future"])
def test_a_parquet_column_that_cannot_be_read_is_told_beside_what_is_needed(tmp_path: Path, of: str) -> None:
    path = written(tmp_path, SPEECH, "parquet")
    letters = pyarrow.array([b"\xe9"] * len(EACH)).view(pyarrow.string())
    odd = letters if of == "another encoding" else pyarrow.array([1 << 40] * len(EACH), pyarrow.timestamp("s"))
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(path).append_column("odd", odd), path)
    assert f"{path}: cannot be read as Parquet: " in needed(path).trouble
    assert "the names were looked at, as of" in refusal("solve", path)
    assert needed(path).suggestion["loss"] == "errors"
    assert read(path, segment="recording", features="am,lm", loss="errors").n_lists == LISTS


def test_what_is_given_changes_what_is_proposed_and_broken_tables_still_propose(tmp_path: Path) -> None:
    # with weights but without losses, a count of 1 is a vote
    votes = needed(written(tmp_path, ANSWERS, "jsonl"), references=False)
    assert votes.suggestion["features"] == "logit,count"
    outcome = run("solve", written(tmp_path, SPEECH), "--metric", "zero-one")
    assert outcome.stderr.splitlines()[-1].endswith("--loss errors")
    for line in ("{}", '{"id": "a", "tags": ["x", 1], "n": {"b": [1]}, "f": null, "h": 1e200}'):
        (tmp_path / "x.jsonl").write_text(f"{line}\n{line}\n")
        assert set(needed(tmp_path / "x.jsonl").suggestion) >= {"features", "loss"}
    path = written(tmp_path, SPEECH)
    path.write_text(path.read_text() + "one\tcell\ttoo\tfew\n")
    assert needed(path).suggestion["loss"] == "errors"
    assert "the names were looked at, as of" in refusal("solve", path)
    assert "lists.tsv:62: 4 cells, but the header has 10" in refusal("solve", path)
    with pytest.raises(DataError, match=r"lists\.tsv:62: 4 cells, but the header has 10"):
        read(path, segment="recording", features="am", loss="errors")


# what is proposed, and lists and hypotheses of real tables where that is enough to read them
SHARED: dict[str, tuple[dict[str, str] | None, tuple[int, int] | None]] = {
    "librispeech-asr-30best/dev_other.nbest.tsv.xz": (
        {**WANTED, "segment": "utt", "features": "decoder,ctc,lm,n_tokens,n_words"}, (2864, 85920)
    ),
    "discrete-choice/ModeCanada.csv.xz": (
        {"segment": "case", "features": "cost,ivt,ovt,freq", "gain": "choice"}, None
    ),
    "csmt-normalisation/nbest-pool.tsv.xz": (None, (1014, 45149)),
    "portage-hansard-100best/dev2.nbest.tsv.xz": (None, None),
    "realsumm-cnndm/abs.tsv.xz": (None, None),
    "unieval-topicalchat/topical_chat.tsv.xz": (None, None),
}  # fmt: skip


@needs_shared
@pytest.mark.parametrize("name", SHARED)
def test_columns_of_real_tables_are_those_that_their_pages_describe(name: str) -> None:
    suggestion, sizes = SHARED[name]
    found = needed(SHARED_DATA / name).suggestion
    assert found == (suggestion or found)
    assert {"segment", "features"} <= set(found)
    if sizes:
        nbest = read(SHARED_DATA / name, **{option: value for option, value in found.items() if option != "metric"})
        assert (nbest.n_lists, nbest.n_hypotheses) == sizes


# Formats, statistics, patterns and references.


@pytest.mark.parametrize("kind", ["tsv", "npz", "parquet", "moses"])
def test_names_of_statistics_tell_the_metric(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(1)
    for names, metric in (
        ((*chain(*((f"match_{n}", f"total_{n}") for n in range(1, 5))), "reference_length"), "bleu"),
        (("match", "predicted", "gold"), "f1"),
        (("errors", "reference_length"), "error-rate"),
        (tuple(f"{what}_char_{n}" for n in (1, 2) for what in ("hypothesis", "reference", "match")), "chrf"),
    ):
        numbers = np.sort(rng.integers(1, 9, size=(6, len(names))), axis=1)
        if metric == "chrf":
            numbers = numbers[:, [2, 1, 0, 5, 4, 3]]
        if metric == "error-rate":
            numbers[:, 1] = 9
        write(small(statistics=numbers, statistic_names=names), tmp_path / FILES[kind], kind)
        found = json_of("solve", tmp_path / FILES[kind])
        assert f"|metric:{metric}|" in found["signature"]
        assert found["status"] == "optimal"


def test_statistics_without_a_metric_ask_for_one(tmp_path: Path) -> None:
    for name in ("x.tsv", "x.npz"):
        write(small(statistics=np.ones((6, 2)), statistic_names=["judge", "length"]), tmp_path / name)
    assert "x.tsv: the lists have the statistics judge, length: name" in refusal("solve", tmp_path / "x.tsv")
    assert loss_of("solve", tmp_path / "x.tsv", "--loss", "length", "--features", "am_0,lm_0") == 2
    assert loss_of("solve", tmp_path / "x.npz", "--loss", "judge") == 2


FOREIGN = "utt\trank\tdecoder\tlm\terrors\tref_words\ttext\na\t1\t-1\t2\t0\t3\tx y\na\t2\t-2\t1\t4\t3\tz\n"


def test_one_message_says_all_that_is_needed_and_gives_a_command_that_works(tmp_path: Path) -> None:
    path = tmp_path / "dev set.tsv"
    path.write_text(FOREIGN)
    outcome = ended(1, "solve", path, "--quiet", "--json")
    for part in ("segment", "features", "loss", "utt, rank, decoder, lm, errors, ref_words, text"):
        assert part in outcome.stderr
    command = outcome.stderr.strip().splitlines()[-1]
    assert command.split()[0] == "lpmert"
    again = succeeded(*shlex.split(command)[1:])
    assert json.loads(again.stdout)["loss"] == 0
    assert set(json.loads(again.stdout)["weights"]) == {"decoder", "lm"}


def test_what_is_packed_otherwise_is_told_with_a_remedy(tmp_path: Path) -> None:
    table = tmp_path / "x.tsv"
    table.write_text("list\tf\terrors\n" + "a\t1\t0\n" * 9)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(table, "x.tsv")
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as bundle:
        bundle.add(table, "x.tsv")
    (tmp_path / "x.bz2").write_bytes(bz2.compress(table.read_bytes()))
    (tmp_path / "x.zst").write_bytes(b"\x28\xb5\x2f\xfd\x20\x01")
    for name, message in (
        ("x.zip", "a zip archive, but not of numpy arrays; unpack it, or save a spreadsheet as CSV"),
        ("x.tar.gz", "an archive, in which only lattices are read; unpack it"),
        ("x.zst", "is zstandard, which is not read; repack it: zstdcat "),
        ("x.bz2", "is bzip2, which is not read; repack it: "),
    ):
        with pytest.raises(DataError, match=message) as caught:
            read(tmp_path / name)
    subprocess.run(["sh", "-c", str(caught.value).partition("repack it: ")[2]], check=True)
    assert read(f"{tmp_path}/x.bz2.gz").fingerprint == read(table).fingerprint


def test_the_quotes_of_csv_in_a_file_with_tabs_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = ['say "hi" now', '" quoted "', '""', "plain"]
    rows = pandas.DataFrame({"list": list("abcd"), "f": 1, "errors": 0, "text": texts})
    for quoting, told in ((csv.QUOTE_MINIMAL, True), (csv.QUOTE_NONE, False)):
        caplog.clear()
        rows.to_csv(tmp_path / "x.tsv", sep="\t", index=False, quoting=quoting)
        (tmp_path / "refs").write_text(rows[["list", "text"]].to_csv(sep="\t", index=False, quoting=quoting))
        read(tmp_path / "x.tsv")
        assert ('x.tsv: the text \'"say ""hi"" now"\' has the quotes of CSV' in caplog.text) is told
        caplog.clear()
        read(rows, references=tmp_path / "refs", partial=True)
        assert ("has the quotes of CSV" in caplog.text) is told


def test_features_may_be_patterns_or_all_and_are_never_taken_by_themselves(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(FOREIGN)
    every = ("rank", "decoder", "lm", "ref_words")
    columns = {"segment": "utt", "loss": "errors"}
    for given, suggestion in ((columns, {"features": "decoder,lm"}), ({"features": "lm"}, {"segment": "utt"})):
        with pytest.raises(ColumnsNeeded) as caught:
            read(tmp_path / "x.tsv", **{"loss": "errors", **given})
        assert caught.value.suggestion == suggestion
    assert read(tmp_path / "x.tsv", features="all", text="text", **columns).names == every
    assert read(tmp_path / "x.tsv", features="all", **columns).names == every  # text is no feature by its name
    assert read(tmp_path / "x.tsv", features="lm,*r*", **columns).names == ("lm", "rank", "decoder", "ref_words")
    write(small(names=["LM_0", "TM_0"]), tmp_path / "x.npz")
    assert read(tmp_path / "x.npz", features="LM*").names == ("LM_0",)
    assert read(tmp_path / "x.npz", features=["all"]).names == ("LM_0", "TM_0")
    (tmp_path / "y.tsv").write_text("list\ta*\tab\tall\tloss\n0\t1\t2\t3\t4\n")  # columns called like patterns
    assert [read(tmp_path / "y.tsv", features=name).names for name in ("a*", "all")] == [("a*",), ("all",)]
    for name, features, message in (
        ("x.tsv", "LM*", r"no name matches 'LM\*'; the names are utt, rank"),
        ("x.npz", "x", "no feature 'x'; the features are LM_0, TM_0"),
    ):
        with pytest.raises(DataError, match=message):
            read(tmp_path / name, features=features, **(columns if name == "x.tsv" else {}))


def numbered() -> NBest:
    """Lists 000, 001, 002, whose first hypotheses are what was said."""
    texts = [text for said in ("the cat", "a house", "one two") for text in (said, "x")]
    return small(offsets=[0, 2, 4, 6], list_ids=["000", "001", "002"], texts=texts)


# a cat, (nothing), the cat against "the cat"; x, y, das Tier against "das Tier": words that differ, by hand
BY_ID = [1, 2, 0, 2, 2, 0]


@pytest.mark.parametrize("kind", ["tsv", "npz", "moses"])
@pytest.mark.parametrize(
    ("lists", "references", "options", "edits"),
    [
        (small(), "a\tdas Tier\nb\tthe cat\n", {}, BY_ID),
        (small(), "a das Tier\nb the cat\n", {}, BY_ID),
        (small(), "the cat (b)\ndas Tier (a)\n", {}, BY_ID),
        (small(), "a das Tier\nb the cat\nc x\n", {"partial": True}, BY_ID),
        (small(list_ids=["0", "1"]), "the cat\ndas Tier\n", {}, BY_ID),
        (small(list_ids=["7", "3"]), "3\tdas Tier\n7\tthe cat\n", {}, BY_ID),
        (numbered(), "2 cats\n1 house\n0 x\n", {"by_position": True}, [2, 2, 1, 2, 2, 1]),
        (numbered(), "the cat\na house\n2 x\n", {}, [0, 2, 0, 2, 2, 1]),  # a few sentences may begin with numbers
    ],
)
def test_texts_are_compared_with_references_by_id_or_position(
    tmp_path: Path, kind: str, lists: NBest, references: str, options: dict[str, bool], edits: list[int]
) -> None:
    (tmp_path / "refs").write_text(references)
    write(lists, tmp_path / FILES[kind], kind)
    nbest = read(tmp_path / FILES[kind], references=tmp_path / "refs", metric="wer", **options)
    assert nbest.statistics[:, 0].tolist() == edits
    flags = [f"--{name.replace('_', '-')}" for name in options]
    measured = ["--references", tmp_path / "refs", "--metric", "wer", *flags]
    assert loss_of("solve", tmp_path / FILES[kind], *measured) == optimum(nbest)


def test_scores_of_mert_data_are_found_beside_the_features(tmp_path: Path) -> None:
    write(small(), tmp_path / "run1.features.dat", "mert", score_type="own")
    (tmp_path / "run1.scores.dat").rename(tmp_path / "run1.statscore.dat")
    assert read(tmp_path / "run1.features.dat").fingerprint == small().fingerprint
    (tmp_path / "run1.statscore.dat").unlink()
    with pytest.raises(DataError, match=r"there is no run1.scores.dat beside it.*--scores FILE"):
        read(tmp_path / "run1.features.dat")


@pytest.mark.parametrize("form", [form for form in FILES if form != "best-of-n"])
def test_in_every_format_a_statistic_can_be_a_gain(tmp_path: Path, form: str) -> None:
    gains = [0.25, 1.0, 0.0, 0.5, 0.75, 0.125]
    nbest = small(statistics=gains)
    path = tmp_path / FILES[form]
    more = {"scores": tmp_path / "scores"} if form == "mert" else {}
    write(nbest, path, form, **more, **({"score_type": "own"} if form == "mert" else {}))
    plain = read(path, **more)
    (name,) = plain.statistic_names
    found = read(path, gain=name, **more)
    assert found.statistics[:, 0].tolist() == [1 - gain for gain in plain.statistics[:, 0].tolist()]
    assert found.statistic_names == (f"1 - {name}",)
    with pytest.raises(DataError, match=r"gain takes the place of loss and statistics; give one of them"):
        read(path, gain=name, loss=name, **more)


def test_folders_are_told_by_their_first_file(tmp_path: Path) -> None:
    for content, kind in (("-1.5 -2 2 a cat\n", "srilm"), ("# made by hand\nVERSION=1.0\nN=2 L=1\n", "slf")):
        folder = put(tmp_path, {"u1.nbest": content})
        assert detect(folder) == detect(folder / "u1.nbest") == kind
    (folder / "1best_recog").mkdir()
    assert detect(folder) == "espnet"
    assert detect({"am": "x"}) == "scores"


def test_runs_are_pooled_and_repeats_dropped(tmp_path: Path) -> None:
    line = "{} ||| {} ||| L= 1 ||| 1\n".format
    put(tmp_path, {"one": line(0, "a"), "two": line(0, "a") + line(0, "b") + line(1, "b")})
    flags = [tmp_path / "one", tmp_path / "two", tmp_path / "y.npz", "--last-field"]
    assert "2 lists, 4 hypotheses; features L_0; statistics loss" in run("convert", *flags).stderr
    assert run("convert", *flags, "--deduplicate", "--quiet").output == ""
    assert read(tmp_path / "y.npz").texts == ("a", "b", "b")
    assert "y.npz: 1 list, 1 hypothesis; features" in run("convert", tmp_path / "one", *flags[2:]).stderr


def test_every_format_is_described_in_the_documentation() -> None:
    text = (ROOT / "docs/formats.md").read_text()
    assert [name for name in REGISTERED.own if f"`{name}`" not in text] == []
