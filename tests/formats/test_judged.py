"""Judged documents are read as they are written: runs and grades, LETOR's lines, tables; what is missing is said."""

import gzip
import json
import runpy
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shared import ROOT
from written_lists import frame

from lpmert import DataError, read_judged
from lpmert.ranking import Judged, evaluate

KEYWORD = {"q1": {"a": 9.0, "b": 7.0, "c": 3.0}, "q2": {"a": 2.0, "d": 2.0}}
DENSE = {"q1": {"b": 0.9, "x": 0.5}, "q3": {"a": 0.1}}
QRELS = {"q1": {"b": 1.0, "x": 2.0, "lost": 1.0, "c": 0.0}, "q2": {"d": 1.0, "a": -2.0}, "q4": {"a": 1.0}}
RUNS = {"keyword": KEYWORD, "dense": DENSE}


def lines_of(scores: dict[str, dict[str, float]], line: str, head: str = "") -> bytes:
    rows = (line.format(query, document, value) for query, own in scores.items() for document, value in own.items())
    return gzip.compress((head + "\n".join(rows) + "\n").encode())


@pytest.mark.parametrize(
    ("line", "head"), [("{} 0 {} {:g}", ""), ("{}\t{}\t{:.0f}", "query-id\tcorpus-id\tscore\n"), ("", "")]
)
def test_runs_and_grades_are_the_same_in_every_format(tmp_path: Path, line: str, head: str) -> None:
    for name, scores in [*RUNS.items(), ("qrels", QRELS)]:
        own = line if name == "qrels" else "{} Q0 {} 1 {} tag"
        content = lines_of(scores, own, head if name == "qrels" else "") if line else json.dumps(scores).encode()
        (tmp_path / f"{name}.txt.gz").write_bytes(content)
    lists = read_judged([tmp_path / f"{name}.txt.gz" for name in RUNS], qrels=tmp_path / "qrels.txt.gz")
    expected = read_judged(RUNS, qrels=QRELS)
    assert lists.names == expected.names == ("keyword", "dense")
    assert lists.queries == expected.queries == ("q1", "q2")
    assert lists.offsets.tolist() == expected.offsets.tolist() == [0, 4, 6]
    assert lists.features.tolist() == expected.features.tolist()
    assert lists.relevance.tolist() == expected.relevance.tolist()
    assert lists.notes == expected.notes


def test_the_documents_are_those_of_all_runs_and_without_a_grade_not_relevant() -> None:
    lists = read_judged(RUNS, qrels=QRELS, missing="minimum")
    # x, c, b, a by falling name, then d, a; of the second query no document is in the other run
    assert lists.features.tolist() == [[3, 0.5], [3, 0.5], [7, 0.9], [9, 0.5], [2, 0], [2, 0]]
    assert lists.relevance.tolist() == [2, 0, 1, 0, 1, 0]
    assert [grades.tolist() for grades in lists.unretrieved] == [[1], []]
    assert lists.notes == (
        "missing scores: 5 of 12; the least score of the query in the run, or 0 without one, takes their place",
        "relevant documents in no run, which no weights reach: 1",
        "queries of the qrels in no run, left out: 1",
        "queries of the runs without grades, left out: 1",
    )


@pytest.mark.parametrize(
    ("how", "missing", "features"),
    [
        (None, "zero", [[9, 0], [7, 0.9], [3, 0], [0, 0.5], [2, 0], [2, 0]]),
        ("minmax", None, [[1, 0], [4 / 6, 1], [0, 0], [0, 0], [1, 0], [1, 0]]),
        ("minmax", "minimum", [[1, 0], [4 / 6, 1], [0, 0], [0, 0], [1, 0], [1, 0]]),
        ("rank", None, [[1 / 61, 0], [1 / 62, 1 / 61], [1 / 63, 0], [0, 1 / 62], [1 / 61, 0], [1 / 61, 0]]),
        ("rank", "minimum", [[1 / 61, 1 / 62], [1 / 62, 1 / 61], *[[1 / 63, 1 / 62]] * 2, *[[1 / 61, 0]] * 2]),
        ("z", None, [[1.06904497, -1], [0.26726124, 1], [-1.33630621, -1], [-1.33630621, -1], [0, 0], [0, 0]]),
        ("z", "zero", [[1.06904497, 0], [0.26726124, 1], [-1.33630621, 0], [0, -1], [0, 0], [0, 0]]),
    ],
)
def test_scores_are_normalised_first_and_then_completed(how: str | None, missing: str | None, features: Any) -> None:
    lists = read_judged(RUNS, qrels=QRELS, normalise=how, missing=missing)
    by_name = np.array(features)[[3, 2, 1, 0, 5, 4]]
    assert lists.features == pytest.approx(by_name, abs=1e-8)
    rule = "zero" if missing == "zero" or (missing is None and how in ("minmax", "rank")) else "the least score"
    assert lists.notes[0].startswith(f"missing scores: 5 of 12; {rule}")


def test_equal_scores_stay_equal_and_share_the_first_rank() -> None:
    run = {"q": {"a": 3.0, "b": 5.0, "c": 3.0, "d": 1.0}}
    ranks = read_judged({"run": run}, qrels={"q": {"a": 1}}, normalise="rank").features[:, 0]
    assert ranks[::-1].tolist() == [1 / 62, 1 / 61, 1 / 62, 1 / 64]


def test_relevant_documents_that_are_in_no_run_count_in_what_can_be_reached() -> None:
    lists = read_judged(RUNS, qrels=QRELS)
    # q1: a, b, c and x tie as runs go; x is behind b at these weights: a b {c x} with the grades 0 1 0 2, and 1 is lost
    first = (1 / log2(3) + 2 / log2(5)) / (2 + 1 / log2(3) + 1 / log2(4))
    assert evaluate(lists, [1, 0], "ndcg@4") == pytest.approx((first + 1 / log2(3)) / 2)
    assert evaluate(lists, [1, 0], "recall@4") == pytest.approx((2 / 3 + 1) / 2)
    only_lost = read_judged({"run": {"q": {"a": 1}}}, qrels={"q": {"b": 1}})
    assert evaluate(only_lost, [1], "ndcg-exp@5") == evaluate(only_lost, [1], "mrr@5") == 0.0


def test_relevant_documents_elsewhere_are_grades_for_each_query() -> None:
    lists = Judged([[1], [2], [3]], [0, 1, 3], [0, 1, 0], unretrieved=([2, 1], []))
    assert lists.of_queries([1, 0]).unretrieved[1].tolist() == [2, 1]
    assert lists.of_queries([1, 0]).features.tolist() == [[2], [3], [1]]
    with pytest.raises(DataError, match="unretrieved needs grades for each of the 2 queries; got 1"):
        Judged([[1], [2]], [0, 1, 2], [0, 1], unretrieved=([1],))
    with pytest.raises(DataError, match="relevance must be finite and not negative"):
        Judged([[1]], [0, 1], [0], unretrieved=([-1],))
    for grade in (51, 1e-12):
        with pytest.raises(DataError, match=r"relevance must be 0, or from 1e-09 to 50, .* try ndcg"):
            evaluate(Judged([[1]], [0, 1], [0], unretrieved=([grade],)), [1], "ndcg-exp@1")


@pytest.mark.parametrize("form", ["csv", "parquet", "pandas", "columns"])
def test_tables_have_a_document_a_row_in_any_order(tmp_path: Path, form: str) -> None:
    columns = {"query": ["u", "v", "u"], "relevance": [1, 0, 2], "bm25": [0.5, 2.0, 1.5], "dense": [1, 2, 3]}
    source: Any = frame("pandas", columns) if form != "columns" else columns
    if form in ("csv", "parquet"):
        table, source = source, tmp_path / f"judged.{form}"
        getattr(table, f"to_{form}")(source, index=False)
    lists = read_judged(source)
    assert (lists.queries, lists.names, lists.offsets.tolist()) == (("u", "v"), ("bm25", "dense"), [0, 2, 3])
    assert lists.features.tolist() == [[0.5, 1], [1.5, 3], [2, 2]]
    assert lists.relevance.tolist() == [1, 2, 0]
    assert read_judged(source, features=["dense"]).features.tolist() == [[1], [3], [2]]
    assert read_judged(source, features="dense", normalise="minmax").features.tolist() == [[0], [1], [1]]
    with pytest.raises(DataError, match=r"no column 'grade'.*; .*--query, --relevance and --features \(features\) say"):
        read_judged(source, relevance="grade")


def test_letor_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "judged.txt"
    path.write_text("# made by hand\n2 qid:a 1:0.5 3:1 # first\n\n0 qid:a 3:2\n1 qid:b 1:-1\n")
    lists = read_judged(path)
    assert lists.features.tolist() == [[0.5, 1], [0, 2], [-1, 0]]
    assert (lists.names, lists.queries, lists.offsets.tolist()) == (("1", "3"), ("a", "b"), [0, 2, 3])
    assert lists.relevance.tolist() == [2, 0, 1]
    assert read_judged(path, features="3").features.tolist() == [[1], [2], [0]]
    with pytest.raises(DataError, match="no feature '2'; the features are 1, 3"):
        read_judged(path, features=["2"])


def test_the_example_is_what_its_program_makes() -> None:
    folder = ROOT / "examples" / "search"
    made = runpy.run_path(str(folder / "judged.py"))["files"]()
    assert set(made) == {path.name for path in folder.iterdir() if path.suffix in (".txt", ".run")}
    for name, lines in made.items():
        assert (folder / name).read_text(encoding="utf-8").splitlines() == lines
