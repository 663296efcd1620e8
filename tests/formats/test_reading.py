"""What files of each format mean: features, statistics, texts and lists, told by hand or by the papers of the data."""

import gzip
import json
import re
import runpy
from collections.abc import Sequence
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from shared import ROOT, SHARED_DATA, needs_shared, pool
from written_lists import FEATURES, SCORES, Content, frame, put, same

from lpmert import DataError, NBest, read, read_judged
from lpmert.files import lines, read_text
from lpmert.formats.detect import detect
from lpmert.formats.moses import load_mert_data, merge_sparse
from lpmert.formats.utterances import read_transcripts
from lpmert.metrics.text import BleuTexts
from lpmert.ranking import Judged, evaluate
from lpmert.registry import BLEU_COLUMNS

SWAHILI = (SHARED_DATA or Path()) / "swahili-mert-100best"
MOSES = """0 ||| the house ||| LM0= -1.5 TM0= -2 0.25 ||| -3.1 ||| 0
0 ||| house ||| LM0= -1 TM0= 1e-3 7 ||| -3.2 ||| 1
1 ||| small ||| LM0= -3 TM0= 4 5 ||| -1 ||| 2
"""
MOSES_ROWS = [[-1.5, -2, 0.25], [-1, 1e-3, 7], [-3, 4, 5]]
SPARSE = FEATURES.replace("-1.5 2", "-1.5 2 a_b=3 c=d=0.5").replace("5 6", "5 6 e:7")
NINE = " ".join(map(str, range(9)))
SET = """{"id": "p1", "prompt": "1 + 1?", "candidates": [\
{"text": "2", "scores": {"logprob": -1.5, "judge": 7}, "correct": true},\
 {"text": "11", "scores": {"judge": 3, "logprob": -0.5}, "correct": false, "tokens": 3}]}
{"id": 2, "candidates": [{"text": "", "scores": {"logprob": -2, "judge": 1e-3}, "correct": 0.75}]}
"""
LOSSES = SET.replace('"correct": true', '"loss": 3').replace('"correct"', '"loss"').replace("false", "4")
SETS = [{"id": "q", "candidates": [{"scores": {"a": 1}, "loss": 0}, {"scores": {"a": 2}, "loss": 1}]}]
# a multiword may count as its parts; lattice-tool -nbest-decode writes the tags of sentences, which are no words
FORM_3 = """# made by hand
-10.5 -3.25 2 the cat
-12 -2e0 1 the <pause>
-30 -1 0
-1 -2 3 going_to go
-10 -2 2 <s> the cat </s>\x20
"""
FORM_3_ROWS = [[-10.5, -3.25, 2], [-12, -2, 1], [-30, -1, 0], [-1, -2, 3], [-10, -2, 2]]
FORM_3_TEXTS = ["the cat", "the <pause>", "", "going_to go", "the cat"]
SPOKEN = {"one": "the cat", "two-x": "a dog"}
UTTERANCES = {"one": "the cat", "two": "a dog"}
KEYED = {
    "am": "one-1 -10.5\none-2 -11\ntwo-x-1 -3e0\n",
    "lm": "two-x-1\t-1\none-1   -2 \none-2 -4\n",
    "text": "one-2 the cut\none-1 the cat\ntwo-x-1\n",
}
TABLE = 'utt\tam\tlm\terrors\ttext\na\t-1.5\t2\t0\tthe "cat\na\t-2.25\t1e-3\t1\t\nb\t3\t-4\t2\ta cat, a dog\n'
APART = "utt\tam\tlm\terrors\nb\t1\t0\t0\na\t2\t0\t1\nb\t3\t0\t2\nc\t4\t0\t3\na\t5\t0\t4\n"


def ranks(pairs: Sequence[tuple[str, str]], below: str = "") -> dict[str, Content]:
    """The files of folders 1best_recog, 2best_recog, ..."""
    files: dict[str, Content] = {}
    for rank, (score, text) in enumerate(pairs, 1):
        own = {"score": score, "text": text, "token": "not looked at"}
        files |= {f"{below}{rank}best_recog/{name}": content for name, content in own.items()}
    return files


def means(
    files: Any, rows: Any, statistics: Any, ids: dict[str, int], names: str, said: Any = None, /, **options: Any
) -> tuple[dict[str, Content], Any, dict[str, Any], NBest]:
    """Files, which are read, with what options, and the lists; in options, `@name` is a file."""
    source, sums = options.pop("source", "@x"), options.pop("sums", None)
    expected = NBest(rows, np.cumsum([0, *ids.values()]), statistics, names.split(), list(ids), sums, said)
    return ({"x": files} if isinstance(files, str) else files), source, options, expected


LAST: dict[str, Any] = {"format": "moses", "last_field": True}
REFERENCES = {"x": MOSES, "one": "the house\na small one\n", "two": "the big house\nsmall\n", "more": "the\nb\nc\n"}
MERT: dict[str, Any] = {"source": "@f", "format": "mert", "scores": "@s", "sums": ["errors", "reference_length"]}
MERT_ROWS, MERT_SUMS = [[-1.5, 2], [-0.001, 4], [5, 6]], [[0, 7], [3, 7], [1, 4]]
SET_ROWS = [[-1.5, 7], [-0.5, 3], [-2, 0.001]]
SRILM: dict[str, Any] = {"source": "@lists", "format": "srilm"}
COLUMNS: dict[str, Any] = {"segment": "utt", "features": "am,lm", "loss": "errors"}


def of_moses(sums: Sequence[Any], /, **options: Any) -> Any:
    """The lists of `MOSES` with other statistics."""
    files, said = {**REFERENCES, "beside": "0 1 2\n0 3 4\n1 5 6\n"}, ["the house", "house", "small"]
    return means(files, MOSES_ROWS, sums, {"0": 2, "1": 1}, "LM0_0 TM0_0 TM0_1", said, format="moses", **options)


# fmt: off
MEANINGS = {
    "sparse features are 0 where a line lacks them": means(
        "0 ||| a ||| LM= -1 WT_a~b= 2 lex=1 ||| 0\n0 ||| b ||| LM= -2 ||| 3\n0 ||| c ||| lex=4 LM= 1 x=1=2 ||| 0\n",
        sparse.csr_array([[-1.0, 2, 1, 0], [-2, 0, 0, 0], [1, 0, 4, 2]]), [0, 3, 0], {"0": 3}, "LM_0 WT_a~b lex x=1",
        ["a", "b", "c"], **LAST,
    ),
    "numbers without names are numbered": means(
        "u-1 ||| a ||| 1 2 ||| 3\nu-1 ||| b ||| 4 5 ||| 6\n", [[1, 2], [4, 5]], [3, 6], {"u-1": 2}, "feature1 feature2",
        ["a", "b"], **LAST,
    ),
    "one number is the feature, not a score, where no names follow": means(
        "0 ||| a ||| 1 ||| 3\n", [[1]], [3], {"0": 1}, "feature1", ["a"], **LAST
    ),
    "groups in another order are told by their names": means(
        {"1": "0 ||| a ||| d: 1 2 lm: 3 ||| 0\n", "2": "0 ||| b ||| lm= 6 d= 4 5 ||| 0\n"},
        [[1, 2, 3], [4, 5, 6]], [0, 0], {"0": 2}, "d_0 d_1 lm_0", ["a", "b"], source=["@1", "@2"], **LAST,
    ),
    "lines that lie apart are gathered on request": means(
        "0 ||| a ||| L= 1 ||| 3\n1 ||| b ||| L= 1 ||| 4\n0 ||| c ||| L= 1 ||| 5\n", np.ones((3, 1)), [3, 5, 4],
        {"0": 2, "1": 1}, "L_0", ["a", "c", "b"], group=True, **LAST,
    ),
    "statistics beside a list": of_moses(
        [[1, 2], [3, 4], [5, 6]], sums=["match", "total"], statistics_file="@beside", statistics=["match", "total"]
    ),
    "errors against a reference": of_moses([0, 1, 2], references="@one", metric="wer"),
    "errors against the nearest of two references": of_moses([0, 1, 0], references=["@one", "@two"], metric="wer"),
    "more references than lists": of_moses([1, 1, 1], references="@more", metric="wer", partial=True),
    "translations are measured in BLEU": of_moses(
        [[2, 2, 1, 1, 0, 0, 0, 0, 2], [1, 1, 0, 0, 0, 0, 0, 0, 2], [1, 1, 0, 0, 0, 0, 0, 0, 3]], sums=BLEU_COLUMNS,
        references="@one",
    ),
    "nobody knows what hypotheses cost": of_moses([0, 0, 0], references=False),
    "blocks with a blank at the end of each line": means(
        {"f": FEATURES.replace("\n", " \n"), "s": SCORES.replace("\n", " \n")}, MERT_ROWS, MERT_SUMS, {"3": 2, "0": 1},
        "lm_0 w_0", **MERT,
    ),
    "sparse features of mert data": means(
        {"f": SPARSE, "s": SCORES}, sparse.csr_array([[-1.5, 2, 3, 0.5, 0], [-0.001, 4, 0, 0, 0], [5, 6, 0, 0, 7]]),
        MERT_SUMS, {"3": 2, "0": 1}, "lm_0 w_0 a_b c=d e", **MERT,
    ),
    "statistics of BLEU have the names of the metric": means(
        {"f": FEATURES, "s": re.sub(r"(?m)^\d \d$", NINE, SCORES.replace("2 WER", "9 BLEU"))}, MERT_ROWS,
        [range(9)] * 3, {"3": 2, "0": 1}, "lm_0 w_0", **{**MERT, "sums": BLEU_COLUMNS},
    ),
    "runs of mert data are pooled by list": means(
        {"f": FEATURES, "s": SCORES}, [*MERT_ROWS[:2], *MERT_ROWS[:2], *MERT_ROWS[2:] * 2],
        [*MERT_SUMS[:2], *MERT_SUMS[:2], *MERT_SUMS[2:] * 2], {"3": 4, "0": 2}, "lm_0 w_0",
        **{**MERT, "source": ["@f", "@f"], "scores": ["@s", "@s"]},
    ),
    "correct answers": means(SET, SET_ROWS, [0, 1, 0.25], {"p1": 2, "2": 1}, "logprob judge", ["2", "11", ""]),
    "losses of answers": means(LOSSES, SET_ROWS, [3, 4, 0.75], {"p1": 2, "2": 1}, "logprob judge", ["2", "11", ""]),
    "statistics of answers": means(
        '{"id": "x", "candidates": [{"scores": {"a": 1}, "statistics": {"match": 2, "total": 5}}]}\n', [[1]], [[2, 5]],
        {"x": 1}, "a", sums=["match", "total"],
    ),
    "answers measured against references": means(
        {"x": SET.replace(', "correct": true', ""), "refs": "p1\t2\n2\tx\n"}, SET_ROWS, [0, 1, 1], {"p1": 2, "2": 1},
        "logprob judge", ["2", "11", ""], references="@refs",
    ),
    "files are joined by key in the order of the first": means(
        KEYED, [[-10.5, -2], [-11, -4], [-3, -1]], [0, 1, 2], {"one": 2, "two-x": 1}, "am lm",
        ["the cat", "the cut", ""], source={"am": "@am", "lm": "@lm"}, text_file="@text", references=SPOKEN,
    ),
    "lists of keys may lie apart, with another separator": means(
        {"am": "b-b_n1 1\na_n1 2\nb-b_n0 3\n", "errors": "a_n1 4\nb-b_n0 5\nb-b_n1 6\n"}, [[1], [3], [2]], [6, 5, 4],
        {"b-b": 2, "a": 1}, "am", source={"am": "@am"}, sums=["errors"], losses={"errors": "@errors"}, separator="_n",
    ),
    "scores of which nobody knows what hypotheses cost": means(
        {"am": "u-1 1\nu-2 2\n"}, [[1], [2]], [0, 0], {"u": 2}, "am", source={"am": "@am"}, references=False
    ),
    "folders of ESPnet": means(
        ranks([
            ("one tensor(-1.5)\ntwo-x -3\n", "one the cat\ntwo-x dog\n"),
            ("one tensor(-2.5, device='cuda:0')\n", "one the cut\n"),
        ]),
        [[-1.5, 2], [-2.5, 2], [-3, 1]], [0, 1, 1], {"one": 2, "two-x": 1}, "score words",
        ["the cat", "the cut", "dog"], source="@.", references=SPOKEN,
    ),
    "jobs of ESPnet are joined, and hypotheses ranked by number": means(
        ranks([(f"one -{rank}\n", "one a\n") for rank in range(1, 12)], "output.1/")
        | ranks([("two-x -1\n", "two-x a\n"), ("two-x -2\n", "two-x a\n")], "output.2/"),
        [*([-rank, 1] for rank in range(1, 12)), [-1, 1], [-2, 1]], [2] * 11 + [1, 1], {"one": 11, "two-x": 2},
        "score words", ["a"] * 13, source="@.", references=SPOKEN, scores=["score"],
    ),
    "a folder is read by name, without endings and hidden files": means(
        {"lists/two.nbest.gz": gzip.compress(FORM_3.encode()), "lists/one.score": FORM_3, "lists/.hidden": "x"},
        FORM_3_ROWS * 2, [0, 1, 2, 2, 0, *[2] * 5], {"one": 5, "two": 5}, "acoustic lm words", FORM_3_TEXTS * 2,
        references=UTTERANCES, **SRILM,
    ),
    "columns may be joined by commas, and be features and statistics": means(
        {"x.tsv": TABLE}, [[2, -1.5], [1e-3, -2.25], [-4, 3]], [[0, -1.5], [1, -2.25], [2, 3]], {"a": 2, "b": 1},
        "lm am", source="@x.tsv", sums=["errors", "am"], segment="utt", features="lm, am", statistics="errors,am",
    ),
    "rows that lie apart are gathered in order of appearance": means(
        {"x.tsv": APART}, [[1, 0], [3, 0], [2, 0], [5, 0], [4, 0]], [0, 2, 1, 4, 3], {"b": 2, "a": 2, "c": 1}, "am lm",
        ["1", "3", "2", "5", "4"], source="@x.tsv", sums=["errors"], group=True, text="am", **COLUMNS,
    ),
    "integers of JSON are ids": means(
        '{"utt": 7, "am": 1, "errors": 0}\n{"utt": 7, "am": 2, "errors": 1}\n', [[1], [2]], [0, 1], {"7": 2}, "am",
        sums=["errors"], **{**COLUMNS, "features": ["am"]},
    ),
    "quoted cells of CSV may span lines": means(
        {"x.csv": 'utt,am,lm,errors,text\na,1,2,3,"x\ny"\na,"4",5,6,z\n'}, [[1, 2], [4, 5]], [3, 6], {"a": 2}, "am lm",
        ["x\ny", "z"], source="@x.csv", sums=["errors"], text="text", **COLUMNS,
    ),
}
# fmt: on


def at(folder: Path, value: Any) -> Any:
    """A value in which `@name` is a file of the folder."""
    if isinstance(value, str) and value.startswith("@"):
        return folder / value[1:]
    if isinstance(value, dict):
        return {name: at(folder, one) for name, one in value.items()}
    return [at(folder, one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("meaning", MEANINGS)
def test_a_file_means_these_lists(tmp_path: Path, meaning: str) -> None:
    """Also with a mark in front and other ends of lines, compressed."""
    files, source, options, expected = MEANINGS[meaning]
    marked = {name: one.replace("\n", "\r\n") for name, one in files.items() if isinstance(one, str)}
    windows = {**files} | {name: gzip.compress(b"\xef\xbb\xbf" + one.encode()) for name, one in marked.items()}
    for content in (files, windows):
        put(tmp_path, content)
        found = read(at(tmp_path, source), **at(tmp_path, options))
        assert same(found, expected.changed(features=found.features))
        assert sparse.issparse(found.features) == sparse.issparse(expected.features)
        assert found.dense_features() == pytest.approx(expected.dense_features(), rel=1e-7, abs=0)


def test_sparse_features_of_mert_data_are_merged_by_their_weights(tmp_path: Path) -> None:
    put(tmp_path, {"features": SPARSE, "scores": SCORES})
    data = load_mert_data(tmp_path / "features", tmp_path / "scores")
    assert (data.score_type, data.n_dense) == ("WER", 2)
    merged = merge_sparse(data, {"a_b": 2, "e": -1, "unseen": 9})
    assert merged.names == ("lm_0", "w_0", "sparse")
    assert merged.dense_features().tolist() == [[-1.5, 2, 6], [-0.001, 4, 0], [5, 6, -7]]


@pytest.mark.parametrize("text", ["one the cat\ntwo\nthree a\tb \n", "the cat (one)\n(two)\na\tb (three)\n"])
def test_references_are_kaldi_text_or_trn(tmp_path: Path, text: str) -> None:
    found = read_transcripts(put(tmp_path, {"text": text}) / "text")
    expected = {"one": ["the", "cat"], "two": [], "three": ["a", "b"]}
    assert {key: words.split() for key, words in found.items()} == expected


def test_sets_of_answers_are_told_from_tables_by_their_keys(tmp_path: Path) -> None:
    rows = [{"am": 1, "loss": 0}]
    for content in (json.dumps(SETS), json.dumps(SETS, indent=2), json.dumps(SETS[0])):
        assert detect(put(tmp_path, {"x": content}) / "x") == "best-of-n"
        assert read(tmp_path / "x").features.tolist() == [[1], [2]]
    row = {"text": '"candidates": [', "loss": 1}
    for line, kind in (({"id": 1, "candidates": []}, "best-of-n"), (row, "jsonl")):
        assert detect(put(tmp_path, {"x.jsonl": json.dumps(line) + "\n"}) / "x.jsonl") == kind
    for other in ({"a": rows}, {"a": rows, "b": [{"am": 1}]}, {"a": rows, "b": []}, {"a": [1, 2], "b": [3]}):
        with pytest.raises(DataError, match="say which columns"):
            read(put(tmp_path, {"x.json": json.dumps(other)}) / "x.json")


@needs_shared
def test_lists_have_the_figures_of_their_readme() -> None:
    for name, hypotheses in (("news5", 11_223), ("europarl10", 4_912)):
        nbest = pool(name)
        assert (nbest.n_hypotheses, nbest.n_features) == (hypotheses, 14)
    nbest = read(SHARED_DATA / "ime-kkc/nbest.txt.gz", "moses", last_field=True)
    assert (nbest.n_lists, nbest.n_hypotheses, nbest.n_features) == (700, 700 * 20, 7)
    characters = sum(map(len, read_text(SHARED_DATA / "ime-kkc/refs.txt.gz").splitlines()))
    errors = nbest.statistics.reshape(700, 20)
    assert errors[:, 0].sum() / characters == pytest.approx(0.0430, abs=5e-5)
    assert errors.min(axis=1).sum() / characters == pytest.approx(0.0164, abs=5e-5)


@needs_shared
def test_swahili_references_give_the_recorded_statistics(tmp_path: Path) -> None:
    keyed = read_text(SWAHILI / "reference.txt.xz").split("\n")
    content = "".join(line.partition("\t")[2] + "\n" for line in keyed[:-1])
    references = put(tmp_path, {"references": content}) / "references"
    lists = SWAHILI / "run7.nbest.txt.xz"
    measured = read(lists, "moses", references=references, metric=BleuTexts(tokenize="none"))
    recorded = read(lists, "moses", statistics_file=SWAHILI / "run7.bleustats.txt.xz")
    assert (measured.statistics == recorded.statistics).all()
    assert recorded.changed(texts=None).deduplicate().n_hypotheses == 48_343


def test_asr_example_has_the_numbers_of_its_readme() -> None:
    features = ["am", "lm", "words", "silences", "fillers"]
    nbest = read(ROOT / "examples/asr/nbest.tsv.gz", segment="utterance", features=features, loss="errors", text="text")
    records = [line.split("\t") for _, line in lines(ROOT / "examples/asr/references.tsv.gz")]
    assert records[0] == ["utterance", "reference", "voice", "snr", "decoder"]
    assert nbest.list_ids == tuple(record[0] for record in records[1:])
    words = sum(len(record[1].split()) for record in records[1:])
    assert words == 3366
    errors = nbest.statistics.reshape(250, 100)
    assert errors[:, 0].sum() / words == pytest.approx(0.287, abs=5e-4)
    assert errors.min(axis=1).sum() / words == pytest.approx(0.159, abs=5e-4)
    own = np.array([1, 9.5, 9.5 / 6.5 * np.log(0.65), np.log(0.005), np.log(1e-8)])
    assert ((nbest.dense_features() @ own).reshape(250, 100).argmax(axis=1) == 0).all()
    assert [len(text.split()) for text in nbest.texts or ()] == nbest.dense_features()[:, 2].tolist()


# Judged documents: runs and grades, LETOR's lines, tables; what is missing is said.

KEYWORD = {"q1": {"a": 9.0, "b": 7.0, "c": 3.0}, "q2": {"a": 2.0, "d": 2.0}}
DENSE = {"q1": {"b": 0.9, "x": 0.5}, "q3": {"a": 0.1}}
QRELS = {"q1": {"b": 1.0, "x": 2.0, "lost": 1.0, "c": 0.0}, "q2": {"d": 1.0, "a": -2.0}, "q4": {"a": 1.0}}
RUNS = {"keyword": KEYWORD, "dense": DENSE}


def facts(lists: Judged) -> tuple[object, ...]:
    return lists.names, lists.queries, *(one.tolist() for one in (lists.offsets, lists.features, lists.relevance))


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
    assert facts(lists)[:3] == (("keyword", "dense"), ("q1", "q2"), [0, 4, 6])
    assert (*facts(lists), lists.notes) == (*facts(expected), expected.notes)


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


def test_scores_are_normalised_first_and_then_completed() -> None:
    for how, missing, features in (
        (None, "zero", [[9, 0], [7, 0.9], [3, 0], [0, 0.5], [2, 0], [2, 0]]),
        ("minmax", None, [[1, 0], [4 / 6, 1], [0, 0], [0, 0], [1, 0], [1, 0]]),
        ("minmax", "minimum", [[1, 0], [4 / 6, 1], [0, 0], [0, 0], [1, 0], [1, 0]]),
        ("rank", None, [[1 / 61, 0], [1 / 62, 1 / 61], [1 / 63, 0], [0, 1 / 62], [1 / 61, 0], [1 / 61, 0]]),
        ("rank", "minimum", [[1 / 61, 1 / 62], [1 / 62, 1 / 61], *[[1 / 63, 1 / 62]] * 2, *[[1 / 61, 0]] * 2]),
        ("z", None, [[1.06904497, -1], [0.26726124, 1], [-1.33630621, -1], [-1.33630621, -1], [0, 0], [0, 0]]),
        ("z", "zero", [[1.06904497, 0], [0.26726124, 1], [-1.33630621, 0], [0, -1], [0, 0], [0, 0]]),
    ):
        lists = read_judged(RUNS, qrels=QRELS, normalise=how, missing=missing)
        by_name = np.array(features)[[3, 2, 1, 0, 5, 4]]
        assert lists.features == pytest.approx(by_name, abs=1e-8)
        rule = "zero" if missing == "zero" or (missing is None and how in ("minmax", "rank")) else "the least score"
        assert lists.notes[0].startswith(f"missing scores: 5 of 12; {rule}")
    # equal scores stay equal and share the first rank
    run = {"q": {"a": 3.0, "b": 5.0, "c": 3.0, "d": 1.0}}
    ranks = read_judged({"run": run}, qrels={"q": {"a": 1}}, normalise="rank").features[:, 0]
    assert ranks[::-1].tolist() == [1 / 62, 1 / 61, 1 / 62, 1 / 64]


def test_relevant_documents_that_are_in_no_run_are_grades_and_count_in_what_can_be_reached() -> None:
    lists = read_judged(RUNS, qrels=QRELS)
    # q1: a, b, c and x tie as runs go; x is behind b at these weights: a b {c x} with the grades 0 1 0 2, and 1 is lost
    first = (1 / log2(3) + 2 / log2(5)) / (2 + 1 / log2(3) + 1 / log2(4))
    assert evaluate(lists, [1, 0], "ndcg@4") == pytest.approx((first + 1 / log2(3)) / 2)
    assert evaluate(lists, [1, 0], "recall@4") == pytest.approx((2 / 3 + 1) / 2)
    only_lost = read_judged({"run": {"q": {"a": 1}}}, qrels={"q": {"b": 1}})
    assert evaluate(only_lost, [1], "ndcg-exp@5") == evaluate(only_lost, [1], "mrr@5") == 0.0
    # they are grades for each query
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
    rows, grades = [[0.5, 1], [1.5, 3], [2, 2]], [1, 2, 0]
    assert facts(lists) == (("bm25", "dense"), ("u", "v"), [0, 2, 3], rows, grades)
    assert read_judged(source, features=["dense"]).features.tolist() == [[1], [3], [2]]
    assert read_judged(source, features="dense", normalise="minmax").features.tolist() == [[0], [1], [1]]
    with pytest.raises(DataError, match=r"no column 'grade'.*; .*--query, --relevance and --features \(features\) say"):
        read_judged(source, relevance="grade")


def test_letor_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "judged.txt"
    path.write_text("# made by hand\n2 qid:a 1:0.5 3:1 # first\n\n0 qid:a 3:2\n1 qid:b 1:-1\n")
    rows, grades = [[0.5, 1], [0, 2], [-1, 0]], [2, 0, 1]
    assert facts(read_judged(path)) == (("1", "3"), ("a", "b"), [0, 2, 3], rows, grades)
    assert read_judged(path, features="3").features.tolist() == [[1], [2], [0]]
    with pytest.raises(DataError, match="no feature '2'; the features are 1, 3"):
        read_judged(path, features=["2"])


def test_the_example_is_what_its_program_makes() -> None:
    folder = ROOT / "examples" / "search"
    made = runpy.run_path(str(folder / "judged.py"))["files"]()
    assert set(made) == {path.name for path in folder.iterdir() if path.suffix in (".txt", ".run")}
    for name, content in made.items():
        assert (folder / name).read_text(encoding="utf-8").splitlines() == content
