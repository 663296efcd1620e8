"""One table of calls whose arguments do not fit each other or the files: each is refused with the remedy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from late import Late
from test_malformed import COLUMNS, GOOD_OBJECT, archive
from test_reading import FORM_3, MOSES, SPOKEN
from test_tables import numbered
from written_lists import FEATURES, SCORES, Content, put, small

import lpmert
from lpmert import DataError, NBest, read, read_judged
from lpmert.formats.utterances import read_transcripts, utterance_files
from lpmert.formats.weights import settings_text
from lpmert.model.judgments import measure_texts

pandas = Late("pandas")

TABLE_OF_3: dict[str, Any] = {"list": ["a", "a"], "f": [1, 2], "loss": [0, 1]}
TWO = NBest([[1.0, 0], [0, 1]], [0, 1, 2], [0, 1], names=["am", "lm"], texts=["x", "y"])
TIMES = [np.array([1, 2], dtype=f"{kind}") for kind in ("M8[ns]", "M8[us]", "M8[D]", "m8[ns]")]
AROUND: dict[str, Content] = {
    **{f"lists/{name}": content for name, content in (("one", FORM_3), ("two", "-1 -2\n"))},
    "alone/one": FORM_3,
    **{f"espnet/1best_recog/{name}": "one 1\n" for name in ("text", "score", "words")},
    "features": FEATURES,
    "scores": SCORES,
    "nothing": "",
    "x.tsv": "utt\tam\tlm\terrors\na\t1\t2\t3\n",
    "y.tsv": "list\ta\tb\tloss\ttext\n0\t1\t0\t0\tx\n1\t0\t1\t1\ty\n",
    "moses": MOSES,
    "short": "a\n",
    "long": "a\nb\nc\n",
    "two": "a\nb\n",
    "u1": "u1 ||| a ||| 1\n",
    "am": "one-1 1\n",
    "text": "one-1 a\n",
    "dev.txt": "utt am lm errors\n",
    "letor": "2 qid:a 1:0.5\n",
    "y.npz": archive(),
    "right.jsonl": '{"id": "q", "candidates": [{"scores": {"a": 1}, "correct": true}]}\n',
    "mixed.csv": "q;am;errors\n" + "".join(f"a;{n},5;1\n" for n in range(70_000)) + "a;0.5;1\n",  # two blocks
    "p.csv": "utt,am,lm,errors\na,1,2,3\n",
    "points.csv": "q;am;errors\na;1.234,5;1\n",
    "comma.csv": 'q,am,errors\na,"0,5",1\n',
    "refs": "",
    "ctm": "u1 1 0.00 0.24 GOOD 1.00\nu1 1 0.24 0.48 MORNING, 1.00\n",
    "stm": ";; NIST\ns1 A s1_A 0.00 1.24 <o,f0> good\ns1 A inter 1.24 2.5\n",
    **dict.fromkeys(("same/one.gz", "same/one.txt"), ""),
    "dev.jsonl": GOOD_OBJECT.replace("3", '"x"') + GOOD_OBJECT.replace("3", "4"),
}
PLAIN, SCORED = ("tsv", "csv", "jsonl", "parquet"), {"scores": "new", "score_type": "X"}
Q: dict[str, Any] = {"segment": "q", "features": "am", "loss": "errors"}
NO_SET = "must be a sequence, not a set, which has no order; give a list"


def against(references: str, lists: str = "numbered.npz", **options: Any) -> Callable[[], object]:
    """Read lists with such a file of references."""

    def call() -> object:
        Path("refs").write_text(references)
        return read(lists, references="refs", **options)

    return call


def written_as(kind: str, options: dict[str, Any] | None = None, **changes: Any) -> Callable[[], object]:
    lists = {"features": [[1.0], [2.0]], "offsets": [0, 2], "statistics": [0, 1], **changes}
    return lambda: lpmert.write(NBest(**lists), "z", kind, **(options or {}))


def of_scores(**options: Any) -> Callable[[], object]:
    return lambda: read(options.pop("files", {"am": "am"}), **options)


def of_moses(paths: Any = "moses", **options: Any) -> Callable[[], object]:
    return lambda: read(paths, "moses", **options)


def of_toolkit(toolkit: str, roles: dict[str, str] | None = None, **weights: float) -> Callable[[], object]:
    return lambda: settings_text(
        toolkit, tuple(weights), np.array([*weights.values()]) * 1.0, lambda _: True, roles or {}
    )


def of_link(references: Any = ("a",), **options: Any) -> Callable[[], object]:
    return lambda: lpmert.Lattices([[1.0]], [0, 1], [0], [1], words=["a"], references=references, **options)


def of_runs(runs: Any = "run", **options: Any) -> Callable[[], object]:
    return lambda: read_judged(runs, qrels={"q": {"d": 1.0}}, **options)


# fmt: off
ARGUMENTS: list[tuple[str, Callable[[], object]]] = [
    ("either loss .* or statistics", lambda: read("x.tsv", **COLUMNS, statistics=["am"])),
    ("statistics names no column", lambda: read("x.tsv", **{**COLUMNS, "loss": None}, statistics=[])),
    ("features names no column", lambda: read("x.tsv", **{**COLUMNS, "features": []})),
    ("features names the column 'am' twice", lambda: read("x.tsv", **{**COLUMNS, "features": "am,am"})),
    ("no format 'xml'; choose one of tsv, csv, jsonl, json", lambda: read("x.tsv", **COLUMNS, format="xml")),
    (r"cannot tell the format; give the format \(--from, format\), one of tsv", lambda: read("dev.txt", **COLUMNS)),
    ("none: cannot be read: No such file", lambda: read("none")),
    ("reading npz takes no option 'segment'; its options are references, metric", lambda: read("y.npz", segment="id")),
    ("reading srilm needs the option 'references'", lambda: read(".", "srilm")),
    *((f"format {kind} is only read", written_as(kind)) for kind in ("scores", "srilm", "slf")),
    ("from the ending in which format to write.*, best-of-n(?!.*srilm)", lambda: lpmert.write(TWO, "z.out")),
    ("no statistic 'correct'; the lists have a loss already.*leave gain", lambda: read("right.jsonl", gain="correct")),
    ("mixed.csv:70002: '0.5': decimal commas and points in one file", lambda: read("mixed.csv", **Q)),
    (r"'1.234,5', not a number", lambda: read("points.csv", **Q)),
    ("'0,5', not a number; write a point before decimals", lambda: read("comma.csv", **Q)),
    ("dev.jsonl:2: column 'errors' is 4", lambda: read("dev.jsonl", **{**COLUMNS, "loss": "lm", "text": "errors"})),
    ("source must be a sequence, not 7", lambda: read(7)),
    ("all the same number of rows", lambda: read({**TABLE_OF_3, "loss": [1]})),
    ("column 'f' is not one-dimensional", lambda: read({**TABLE_OF_3, "f": np.ones((2, 2))})),
    ("no rows", lambda: read({"list": [], "a": [], "loss": []})),
    ("row 1: column 'list' is True, not a string or an integer", lambda: read({**TABLE_OF_3, "list": [True, 1]})),
    ("row 2: list '1' is 1 before; write all ids", lambda: read({**TABLE_OF_3, "list": (1, "1")})),
    ("row 2: list 1 is '1' before; write all ids", lambda: read({**TABLE_OF_3, "list": ("1", 1)})),
    *(("row 1: column 'f' is np", lambda times=times: read({**TABLE_OF_3, "f": times})) for times in TIMES),
    *(("row 1: column 'list' is np", lambda times=times: read({**TABLE_OF_3, "list": times})) for times in TIMES),
    ("metric is for texts; give references, too", lambda: read("y.tsv", metric="wer")),
    ("short: no reference for utterance '1'; add it", of_moses(references="short")),
    ("long:3: no list for the reference of '2'", of_moses(references="long")),
    ("^x y: cannot be read: No such file", lambda: of_moses(references=pandas.Series(["x y"], index=["0"]))()),
    ("list '0' needs at least one reference, all of them strings", of_moses(references={"0": None, "1": "x"})),
    ("p.csv:1: there is one column only, .*: give the format of all", lambda: read(["x.tsv", "p.csv"], **COLUMNS)),
    ("^weights must be finite numbers; 'lm' has", lambda: lpmert.evaluate(TWO, np.ma.array([1.0, 2], mask=[0, 1]))),
    ("two: 2 lines, but long has 3", of_moses(references=["long", "two"])),
    ("long:1: no reference for utterance 'u1', but one for 'a'", of_moses("u1", references="long")),
    ("moses:1: no statistics; give references", of_moses()),
    ("give one source of statistics", of_moses(last_field=True, references="moses")),
    ("1 files of lists and 2 of statistics", of_moses(statistics_file=["moses", "moses"])),
    ("at least one file", of_moses([])),
    ("at least one file", lambda: read([])),
    ("2 files of features and 1 of scores", lambda: read(["am", "am"], "mert", scores="am")),
    ("^nothing: empty file", lambda: read(["nothing", "features"], "mert", scores=["nothing", "scores"])),
    ("^nothing: empty file", lambda: read(["features", "nothing"], "mert", scores=["scores", "nothing"])),
    ("either references .* or losses", of_scores()),
    ("either references .* or losses", of_scores(text_file="am", references=SPOKEN, losses={"am": "am"})),
    ("word errors need texts", of_scores(references=SPOKEN)),
    ("scores names no file", of_scores(files={}, losses={"am": "am"})),
    ("losses names no file", of_scores(losses={})),
    ("alone: one file a score: give NAME=FILE for each", lambda: read("alone", "scores", references=SPOKEN)),
    ("no list for the reference of 'two-x'", of_scores(text_file="text", references=SPOKEN)),
    ("no reference for utterance 'one'", of_scores(text_file="text", references={"x": "a"}, partial=True)),
    ("scores must be a sequence", lambda: read(".", "espnet", references=SPOKEN, scores="score")),
    ("scores names no file", lambda: read(".", "espnet", references=SPOKEN, scores=())),
    *((f"espnet: two features would be called '{names[-1]}'; name each file of scores once, and none words",
       lambda names=names: read("espnet", "espnet", references={"one": "a"}, scores=names))
      for names in (("score", "score"), ("words",))),
    ("no reference for utterance 'one'", lambda: read("alone", "srilm", references={"two": "a dog"}, partial=True)),
    ("no list for the reference of 'two-x'.*partial=True", lambda: read("alone", "srilm", references=SPOKEN)),
    ("two columns would be called 'list'", lambda: lpmert.to_columns(NBest([[1.0]], [0, 1], [0], names=["list"]))),
    (r"no normalisation 'l2' keeps .* there are minmax, z, rank", of_runs(normalise="l2")),
    ("missing must be one of minimum, zero, not 'mean'", of_runs(missing="mean")),
    ("runs have no columns: leave out query, relevance and features; give the runs", of_runs(features="d")),
    ("LETOR and svmlight have no columns: leave out query and relevance", lambda: read_judged("letor", query="q")),
    ("two runs are called 'run'; name them: NAME=FILE", of_runs(["a/run.txt", "b/run.txt.gz"])),
    ("no runs", of_runs([])),
    *(("runs are files, or mappings by the name of the run; got", of_runs(runs))
      for runs in (None, {"a.run", "b.run"}, [{"a": {"q": {"d": 1}}}])),
    ("no query of the runs has grades: .* like 'q', of runs like '7'", of_runs({"a": {"7": {"d": 1}}})),
    ("two queries are called '1'; keep one, or rename one", of_runs({"a": {1: {"d": 1}, "1": {"d": 2}}})),
    ("two documents of query 'q' are called '1'; keep one, or rename one", of_runs({"a": {"q": {1: 1, "1": 2}}})),
    ("two runs are called '1'; keep one, or rename one", of_runs({1: {"q": {"d": 1}}, "1": {"q": {"d": 2}}})),
    ("holds a tab or a line end", written_as("tsv", texts=["x", "y\nz"])),
    ("holds a tab or a line end", written_as("tsv", names=["a\tb"])),
    ("holds a tab or a line end", written_as("tsv", list_ids=["a\r"])),
    ("two columns would be called 'list'", written_as("tsv", names=["list"])),
    ("holds a carriage return, which CSV cannot", written_as("csv", texts=["x", "y\rz"])),
    *(("half of a surrogate pair", written_as(kind, texts=["x", "y\ud800z"])) for kind in PLAIN),
    ("half of a surrogate pair", written_as("npz", texts=["\ud800", ""])),
    (r"has \|\|\|, a line end, or white space", written_as("moses", texts=["a ||| b", ""])),
    ("a line end", written_as("moses", texts=["a\nb", ""])),
    ("white space at an end", written_as("moses", texts=[" a", ""])),
    (r"has \|\|\|", written_as("moses", list_ids=["a|||"])),
    ("the name 'a b' has white space", written_as("moses", names=["a b"])),
    (r"the name 'a\|\|\|b' has white space", written_as("moses", statistic_names=["a|||b"])),
    ("white space, which separates words here", written_as("mert", SCORED, names=["a b"])),
    ("white space, which separates words here", written_as("mert", SCORED, list_ids=["a\u000bb"])),
    ("give the type of the scores, such as BLEU", written_as("mert", {"scores": "new"})),
    ("features and scores need a file each", written_as("mert", {**SCORED, "scores": "z"})),
    ("call this one like run1.features.dat", written_as("mert", {"score_type": "X"})),
    # the order of a set of strings is another in each process
    (f"^source {NO_SET}", lambda: read({"y.tsv"})),
    (f"^features {NO_SET}", lambda: read("y.tsv", features={"a", "b"})),
    (f"^statistics {NO_SET}", lambda: read("y.tsv", statistics={"loss"})),
    (f"^references {NO_SET}", lambda: read("y.tsv", text="text", references={"y.tsv"})),
    (f"^names {NO_SET}", lambda: TWO.select_features({"a", "b"})),
    (f"^references {NO_SET}", lambda: measure_texts(TWO, {"x", "y"}, "wer")),
    (f"^statistics_file {NO_SET}", of_moses(statistics_file={"moses"})),
    (f"^scores {NO_SET}", lambda: read(".", "espnet", references=SPOKEN, scores={"score"})),
    (f"^source {NO_SET}", lambda: lpmert.load_lattices({"y.tsv"}, "y.tsv")),
    (f"^methods {NO_SET}", lambda: lpmert.compare(TWO, {"och", "grid"}, seeds=1)),
    (f"^groups {NO_SET}", lambda: lpmert.tune(TWO, groups={"x", "y"})),
    (f"^names {NO_SET}", of_link(names={"a", "b"})),
    (f"^references {NO_SET}", of_link({"a"})),
    (f"^references {NO_SET}", of_link([{"a", "b"}])),
    ("^references must be a sequence, not a mapping", lambda: measure_texts(TWO, {"x": "a", "y": "b"}, "wer")),
    *((message, lambda given=given: lpmert.check(TWO, given)) for given, message in [
        ("1,2,3", r"weights: 3 numbers for 2 features \(am, lm\)"),
        ("am=1", "weights: the weights have none for lm; they are for am; the features are am, lm"),
        ("am=1,xx=2", "have none for lm and name unknown features: xx; they are for am, xx; the features are am, lm"),
        ("am=1,am=2", "a second weight for 'am'"),
        ("am=one", "neither a file that is there, nor finite numbers"),
        ("nowhere.json", "nowhere.json: cannot be read"),
        ('{"am": 1', "weights: not JSON"),
        ({"am": 1}, "weights have none for lm; they are for am; the features are am, lm"),
        ([1], r"one number for each of the 2 features \(am, lm\)"),
    ]),
    ("kaldi has no settings for these weights: acoustic and lm must", of_toolkit("kaldi", acoustic=1, lm=-1)),
    ("of the same sign, neither of them 0", of_toolkit("kaldi", acoustic=0, lm=1)),
    ("the weight of acoustic must be above 0", of_toolkit("icefall", acoustic=-1, lm=1)),
    ("decoder and ctc must be at least 0", of_toolkit("espnet", decoder=1, ctc=-1)),
    ("no setting for feature 'am'; say which .*: --roles acoustic=FEATURE", of_toolkit("kaldi", am=1, lm=1)),
    ("no feature for acoustic", of_toolkit("kaldi", lm=1)),
    ("'sound' is no role or no feature", of_toolkit("kaldi", {"sound": "am"}, am=1, lm=1)),
    ("'xx' is no role or no feature", of_toolkit("kaldi", {"acoustic": "xx"}, am=1, lm=1)),
    ("^refs: no reference for utterance 'b'", against("a das Tier\n", "small.npz")),
    (r"^refs:3: no list for the reference of 'c'.*--partial", against("a das Tier\nb the cat\nc x\n", "small.npz")),
    ("say which columns to use: text", against("a das Tier\nb the cat\n", "wordless.tsv")),
    ("the lists have no texts", against("a das Tier\nb the cat\n", "wordless.npz", partial=True)),
    ("refs: no line is number 'b'.*leave by_position out", against("a x\nb y\n", "small.npz", by_position=True)),
    ("by_position", against("2 cats\n1 house\n0 x\n")),
    # references with other ids are never matched by line in silence
    *((rf"^refs:{line}: no reference for utterance '{missing}', but one for '{there}'.*tab.*\(--by-position\)$",
       against(references)) for references, line, missing, there in [
        ("000\tthe cat\n001\ta house\n02\tone two\n", 3, "002", "02"),
        ("0\tthe cat\n1\ta house\n2\tone two\n", 1, "000", "0"),
        ("0 the cat\n1 a house\n2 one two\n", 1, "000", "0"),
        ("001\ta house\n002\tone two\n003\tthe cat\n", 3, "000", "003"),
        ("utt0 the cat\nutt1 a house\nutt2 one two\n", 1, "000", "utt0"),
        ("the cat (000)\na house (001)\none two (02)\n", 3, "002", "02"),
        ("x\tthe cat\nsaid\ta house\nlast\tone two\n", 1, "000", "x"),
    ]),
    ("CTM has a line for each word; give a line for each utterance", lambda: read_transcripts("ctm")),
    ("STM has times in place of ids; give a line for each utterance", lambda: read_transcripts("stm")),
    (r"^none.tsv: cannot be read: No such file", lambda: read("none.tsv", **COLUMNS)),
    ("^empty: the folder is empty", lambda: read("empty", **COLUMNS)),
    ("^empty: the folder is empty", lambda: utterance_files("empty")),
    (r"one\.gz and one\.txt would be the same utterance", lambda: utterance_files("same")),
    ("^references must be a sequence, not a mapping", of_link({"0": "a"})),
]
# fmt: on


def test_bad_arguments_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    monkeypatch.chdir(put(tmp_path, AROUND))
    for name in ("small.npz", "numbered.npz", "wordless.npz", "wordless.tsv"):
        lists = numbered() if name == "numbered.npz" else small(**({"texts": None} if "wordless" in name else {}))
        lpmert.write(lists, name)
    Path("empty").mkdir()
    before = sorted(Path().iterdir())
    for message, call in ARGUMENTS:
        with subtests.test(message), pytest.raises(DataError, match=message):
            call()
    assert sorted(Path().iterdir()) == before
