"""JSON as people have it gives the same lists: lines, arrays and objects, flat, nested, with arrays for columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import run
from hypothesis import given
from hypothesis import strategies as st
from mutations import damaged, examples, read_or_refused

from lpmert import DataError, NBest, read, read_table
from lpmert.formats.detect import detect

LISTS = NBest(
    [[-1.5, 2.0], [-2.25, 0.001], [3.0, -4.0]],
    [0, 2, 3],
    [0, 1, 2],
    names=["am", "lm"],
    list_ids=["u1", "u2"],
    statistic_names=["errors"],
    texts=['the "cat', "", "a cat"],
)
ROWS = [
    {"utt": "u1", "am": -1.5, "lm": 2, "errors": 0, "hyp": 'the "cat', "more": [1, 2]},
    {"utt": "u1", "am": -2.25, "lm": 0.001, "errors": 1, "hyp": "", "more": []},
    {"utt": "u2", "am": 3, "lm": -4, "errors": 2, "hyp": "a cat", "more": None},
]
FLAT = {"segment": "utt", "features": "am,lm", "loss": "errors", "text": "hyp"}


def lines(records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def indented(document: Any) -> str:
    return json.dumps(document, indent=2)


def nested(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": row["utt"],
        "scores": {"am": row["am"], "lm": row["lm"]},
        "out": {"hyp": row["hyp"], "n": row["errors"]},
    }


def bare(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "utt"}


def by_list(inner: Callable[[dict[str, Any]], Any]) -> list[dict[str, Any]]:
    return [{"utt": key, "candidates": [inner(row) for row in ROWS if row["utt"] == key]} for key in ("u1", "u2")]


def arrays(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {key: [row[key] for row in rows] for key in ("utt", "am", "lm", "errors", "hyp")}


def below(key: str, columns: dict[str, str]) -> dict[str, str]:
    return {name: ",".join(f"{key}.{path}" for path in paths.split(",")) for name, paths in columns.items()}


NESTED = {"segment": "id", "features": "scores.*", "loss": "out.n", "text": "out.hyp"}
IN_LISTS = {
    "segment": "utt",
    "features": "candidates.am,candidates.lm",
    "loss": "candidates.errors",
    "text": "candidates.hyp",
}
COLUMNS_BY_LIST = [{**arrays([row for row in ROWS if row["utt"] == key]), "utt": key} for key in ("u1", "u2")]
SHAPES: dict[str, tuple[str, dict[str, str]]] = {
    "flat lines": (lines(ROWS), FLAT),
    "array of flat": (json.dumps(ROWS), FLAT),
    "indented array": (indented(ROWS), FLAT),
    "nested lines": (lines(map(nested, ROWS)), NESTED),
    "nested array": (indented(list(map(nested, ROWS))), NESTED),
    "columns": (json.dumps(arrays(ROWS)), FLAT),
    "indented columns": (indented(arrays(ROWS)), FLAT),
    "wrapped": (
        indented({"data": ROWS}),
        below("data", FLAT),
    ),
    "candidates a line": (lines(by_list(dict)), IN_LISTS),
    "array of lists": (indented(by_list(dict)), IN_LISTS),
    "arrays a line": (lines(COLUMNS_BY_LIST), FLAT),
    "array of arrays": (indented(COLUMNS_BY_LIST), FLAT),
    "lists in one object": (
        indented({"sets": by_list(dict)}),
        below("sets", IN_LISTS),
    ),
    "lists by name": (
        indented({key: [bare(row) for row in ROWS if row["utt"] == key] for key in ("u1", "u2")}),
        FLAT | {"segment": "list"},
    ),
    "keys with dots": (
        lines(
            {"id.x": row["utt"], "s.am": row["am"], "s.lm": row["lm"], "e.n": row["errors"], "h": row["hyp"]}
            for row in ROWS
        ),
        {"segment": "id.x", "features": "s.am,s.lm", "loss": "e.n", "text": "h"},
    ),
}


@pytest.mark.parametrize("ending", ["", ".json", ".jsonl"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_the_same_lists(tmp_path: Path, shape: str, ending: str) -> None:
    content, columns = SHAPES[shape]
    (tmp_path / f"x{ending}").write_text("\ufeff" + content, encoding="utf-8")
    nbest = read(tmp_path / f"x{ending}", **columns)
    assert nbest.dense_features().tolist() == LISTS.dense_features().tolist()
    assert nbest.statistics.tolist() == LISTS.statistics.tolist()
    assert (nbest.offsets.tolist(), nbest.list_ids, nbest.texts) == ([0, 2, 3], ("u1", "u2"), LISTS.texts)


def test_records_that_hold_all_of_a_list_need_no_id(tmp_path: Path) -> None:
    columns = {name: path for name, path in IN_LISTS.items() if name != "segment"}
    (tmp_path / "x").write_text(lines(by_list(dict)))
    assert read(tmp_path / "x", **columns).list_ids == ("0", "1")
    (tmp_path / "x").write_text(indented(arrays(ROWS)))
    with pytest.raises(DataError, match="only one record; name the column that tells which list"):
        read(tmp_path / "x", features="am,lm", loss="errors")


def test_lists_by_name_need_no_options(tmp_path: Path) -> None:
    rows = [{"am": 1, "loss": 0}, {"am": 2, "loss": 1}]
    (tmp_path / "x.json").write_text(json.dumps({"a": rows, "b": rows[:1]}))
    assert read(tmp_path / "x.json").list_ids == ("a", "b")
    for other in ({"a": rows}, {"a": rows, "b": [{"am": 1}]}, {"a": rows, "b": []}, {"a": [1, 2], "b": [3]}):
        (tmp_path / "x.json").write_text(json.dumps(other))
        with pytest.raises(DataError, match="say which columns"):
            read(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (
            '[\n{"utt": 1, "am": 1, "lm": 1, "errors": 0},\n{"utt": 1, "am": 1, "errors": 0}\n]',
            3,
            "no key 'lm'; the keys",
        ),
        (
            '[\n{"utt": 1, "am": 1, "lm": 1, "errors": 0},\n\n{"utt": 1, "am": "x", "lm": 1, "errors": 0}]',
            4,
            "'am' is 'x'",
        ),
        ('[{"utt": 1, "am": [1, 2], "lm": [1], "errors": [0, 1]}]', 1, "arrays of 1 and 2 values"),
        ('[{"utt": [1], "am": [1, 2], "lm": [1, 3], "errors": [0, 1]}]', 1, "arrays of 1 and 2 values"),
        ('[\n{"utt": 1, "am": [1, 2], "lm": 3, "errors": [0, 1]}]', 2, r"column 'am' is \[1, 2\], not a number"),
        ('[{"utt": 1, "am": 1, "lm": 1, "errors": 0},\n 7]', 2, "not a JSON object but 7"),
        ('[{"utt": 1, "am": 1, "lm": 1, "errors": 0}\n {}]', 2, "not JSON: .* after a record"),
        ('[{"utt": 1, "am": 1, "lm": 1, "errors": 0}', 1, "not JSON: '' after a record"),
        ('[{"utt": 1, "am": 1, "lm": 1, "errors": 0}] x', 1, "not JSON: 'x' after a record"),
        ('[{"utt": 1, "am": 1, "lm": 1, "errors": 0, "am": 2}]', 1, "the key 'am' occurs twice"),
        ('[{"utt": 1, "am": NaN, "lm": 1, "errors": 0}]', 1, "NaN is not a finite number"),
        ("[]", 1, "not JSON"),
        ("[\n" + "[" * 100_000, 2, "not JSON"),
        ('{\n"utt": 1,\n', 1, "not JSON"),
        ("", None, "empty file"),
    ],
)
def test_errors_in_documents_name_the_line_on_which_the_record_begins(
    tmp_path: Path, content: str, line: int | None, message: str
) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        read_table(tmp_path / "x.json", segment="utt", features="am,lm", loss="errors", format="json")
    assert (caught.value.line, caught.value.path) == (line, str(tmp_path / "x.json"))


def test_bytes_that_are_no_text_are_found_in_documents(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b'[\n{"utt": "\xff"}]')
    with pytest.raises(DataError, match=r"x.json:2: byte 0xff is not UTF-8"):
        read_table(tmp_path / "x.json", segment="utt", features="am,lm", loss="errors")


def test_best_of_n_may_be_an_array(tmp_path: Path) -> None:
    sets = [{"id": "q", "candidates": [{"scores": {"a": 1}, "loss": 0}, {"scores": {"a": 2}, "loss": 1}]}]
    for content in (json.dumps(sets), indented(sets), lines(sets)):
        (tmp_path / "x").write_text(content)
        assert detect(tmp_path / "x") == "best-of-n"
        assert read(tmp_path / "x").statistics.tolist() == [[0], [1]]


def test_candidates_of_another_form_are_read_by_their_keys(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(lines(by_list(dict)))
    outcome = run("solve", tmp_path / "x.jsonl", "-q")
    assert outcome.exit_code == 1
    assert "candidates.am, candidates.lm, candidates.errors" in outcome.stderr
    flags = ["--features", "candidates.[al]m", "--loss", "candidates.errors", "--segment", "utt", "--json", "-q"]
    found = run("solve", tmp_path / "x.jsonl", *flags)
    assert json.loads(found.stdout)["loss"] == 2, found.output


@examples(300)
@given(data=st.data())
def test_damaged_documents_give_lists_or_data_errors(tmp_path: Path, data: st.DataObject) -> None:
    content, columns = SHAPES[data.draw(st.sampled_from(sorted(SHAPES)))]
    pieces = [b'"', b",", b"\n", b"[", b"]", b"{", b"}", b":", b"null", b"9" * 400, b"\xff"]
    (tmp_path / "x").write_bytes(damaged(data, content.encode(), pieces, most=4, longest=3))
    nbest = read_or_refused(tmp_path / "x", lambda: read(tmp_path / "x", **columns))
    assert nbest is None or 1 <= nbest.n_lists <= nbest.n_hypotheses
