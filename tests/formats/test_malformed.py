"""One table of malformed files: each is refused with the file, the line and the remedy; so are damaged ones."""

import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable, Container, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, strategies as st
from mutations import damaged, examples, read_or_refused, wrong_documents
from test_reading import FORM_3, KEYED, MOSES, SPARSE, SPOKEN, at, ranks
from written_lists import DIALECTS, FEATURES, PACKINGS, SCORES, TOO_LARGE, Content, content_of, put

from lpmert import DataError, NBest, read, read_judged
from lpmert.formats.utterances import read_transcripts
from lpmert.formats.weights import read_weights

Row = tuple[Content, int | None, str]  # what a file holds, the line that is wrong, and what the message says

COLUMNS: dict[str, Any] = {"segment": "utt", "features": "am,lm", "loss": "errors"}
HEAD, GOOD = "utt\tam\tlm\terrors\n", "a\t1\t2\t3\n"
GOOD_OBJECT = '{"utt": "a", "am": 1, "lm": 2, "errors": 3}\n'
SET = '{"id": "g", "candidates": [{"text": "x", "scores": {"a": 1, "b": 2}, "loss": 0}]}\n'
SECOND = SET.replace('"g"', '"h"')
AM, LM, TEXT = KEYED.values()
REST = "I=0\nI=1\nJ=0 S=0 E=1 W=x a=-1\n"
CSV = 'utt,am,lm,errors,text\na,1,2,3,"x\ny"\n'
DOCUMENT = json.dumps([json.loads(GOOD_OBJECT)] * 2, indent=1)
CSR = {"features": None, "data": [1.0], "indices": [0], "indptr": [0, 1, 1], "shape": [2, 2]}


def archive(**changes: Any) -> bytes:
    """An archive with other arrays; `None` leaves one out."""
    arrays = {"features": [[1.0], [2.0]], "offsets": [0, 2], "statistics": [0, 1], **changes}
    content = io.BytesIO()
    np.savez(content, **{name: array for name, array in arrays.items() if array is not None})
    return content.getvalue()


def archive_of(features: bytes) -> bytes:
    """An archive in which the features are these bytes."""
    content = io.BytesIO(archive(features=None))
    with zipfile.ZipFile(content, "a") as packed:
        packed.writestr("features.npy", features)
    return content.getvalue()


def array_of(shape: str) -> bytes:
    """An array of two numbers whose header says that it has this shape."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(16)


def table_of(**columns: list[object]) -> bytes:
    """A Parquet table with other columns."""
    import pyarrow.parquet

    content = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"utt": ["a", "a"], "am": [1, 2], "errors": [0, 1], **columns}), content)
    return content.getvalue()


def count_of_lines(content: bytes) -> Container[int]:
    """The hypotheses of a list of SRILM, whose first line may be a header."""
    lines = [line for line in content.split(b"\n") if line[:1] not in (b"#", b"")]
    return range(len(lines) - 1, len(lines) + 1)


def count_of_candidates(content: bytes) -> Container[int]:
    lines = content.removeprefix(b"\xef\xbb\xbf").splitlines()
    return (sum(len(json.loads(line)["candidates"]) for line in lines),)


def count_of_ends(content: bytes) -> Container[int]:
    return (content.count(b"\n"),)


class Kind(NamedTuple):
    """Good files of a kind, how they are read, and how many hypotheses the content of one, damaged or not, may have."""

    files: dict[str, Content]
    read: Callable[[Path], object]
    sizes: Container[int] | Callable[[bytes], Container[int]] = (3,)

    def may_have(self, found: object, content: bytes) -> bool:
        sizes = self.sizes(content) if callable(self.sizes) else self.sizes
        return not isinstance(found, NBest) or found.n_hypotheses in sizes


def reads(*arguments: Any, **options: Any) -> Callable[[Path], object]:
    """What reads lists; in arguments and options, `@name` is a file of the folder."""
    return lambda folder: read(*at(folder, [*arguments]), **at(folder, options))


UP_TO_3 = range(1, 4)
FOR_SPEECH: dict[str, Any] = {"references": SPOKEN, "partial": True}
RANK = {"1best_recog/score": "one tensor(-1.5)\ntwo-x -3\n", "1best_recog/text": "one the cat\ntwo-x dog\n"}
LABELLED = "0 ||| a ||| L= 1 ||| 0 ||| statistics: a=1 b=2\n"
# fmt: off
KINDS: dict[str, Kind] = {
    "tsv": Kind({"dev.tsv": HEAD + 3 * GOOD}, reads("@dev.tsv", **COLUMNS), UP_TO_3),
    "csv": Kind({"dev.csv": CSV}, reads("@dev.csv", **COLUMNS), UP_TO_3),
    "jsonl": Kind({"dev.jsonl": 3 * GOOD_OBJECT}, reads("@dev.jsonl", **COLUMNS), UP_TO_3),
    "json": Kind({"x.json": DOCUMENT}, reads("@x.json", **COLUMNS), UP_TO_3),
    "parquet": Kind({"dev.parquet": partial(table_of, lm=[1.0, 2.0])}, reads("@dev.parquet", **COLUMNS), (2,)),
    "npz": Kind({"x.npz": archive()}, reads("@x.npz"), (2,)),
    "best-of-n": Kind({"set.jsonl": SET + SECOND}, reads("@set.jsonl", "best-of-n"), count_of_candidates),
    "moses": Kind({"lists.txt": MOSES}, reads("@lists.txt", "moses", last_field=True), count_of_ends),
    "written moses": Kind({"lists.txt": LABELLED}, reads("@lists.txt", "moses"), count_of_ends),
    "moses beside": Kind({"lists.txt": MOSES, "statistics": "0 1 2\n0 3 4\n1 5 6\n"},
                         reads("@lists.txt", "moses", statistics_file="@statistics")),
    "mert": Kind({"features": FEATURES, "scores": SCORES}, reads("@features", "mert", scores="@scores")),
    **{name: Kind({"x": content}, reads("@x", **own), range(1, 9)) for name, (content, own) in DIALECTS.items()},
    "sparse mert": Kind({"features": SPARSE, "scores": SCORES}, reads("@features", "mert", scores="@scores")),
    "scores": Kind(KEYED, reads({"am": "@am", "lm": "@lm"}, text_file="@text", **FOR_SPEECH)),
    "espnet": Kind(RANK, reads("@", "espnet", **FOR_SPEECH), (2,)),
    "srilm": Kind({"lists/one": FORM_3}, reads("@lists", "srilm", references={"one": "a"}), count_of_lines),
    "slf": Kind({"x.slf": "N=2 L=1\n" + REST}, reads("@x.slf", "slf", references={"x": "a"}), (1,)),
    "references": Kind({"text": "one the cat\ntwo a dog\n"}, lambda folder: read_transcripts(folder / "text")),
    "weights": Kind({"weights": "a=1\nb=-0.5\n"}, lambda folder: read_weights(folder / "weights")),
    "judged": Kind({"judged": "2 qid:a 1:0.5 3:1\n0 qid:a 3:2\n"}, lambda folder: read_judged(folder / "judged")),
    "judged table": Kind({"x.csv": "query,relevance,x\nq,1,2\n"}, lambda folder: read_judged(folder / "x.csv")),
    "runs": Kind({"run": "q Q0 d 1 1 t\n", "qrels": "q 0 d 1\n"},
                 lambda folder: read_judged([folder / "run"], qrels=folder / "qrels")),
    "any format": Kind({"x": MOSES}, reads("@x", last_field=True), range(9)),
}
# fmt: on


# a kind, the files of it that are others, file and line that are wrong, and what the message says
Case = tuple[str, dict[str, Content | None], str, str]


def of(kind: str, file: str, rows: Iterable[Row], *, blamed: str | None = None) -> Iterator[Case]:
    for content, line, message in rows:
        yield kind, {file: content}, f"{blamed or file}:{line}" if line else blamed or file, message


def changed(whole: str, rows: Iterable[tuple[str, str, int | None, str]]) -> Iterator[Row]:
    for old, new, line, message in rows:
        assert old in whole
        yield whole.replace(old, new), line, message


ADVICE = r"--query, --relevance and --features \(features\) say"
NO_RANKS: dict[str, Content | None] = {"1best_recog/score": None, "1best_recog/text": None}
FINITE = "not a finite number in double precision; correct"
NUMBERS = {
    **{text: f"is '{text}', not a number" for text in ("x", "1_0", "１", "١", "1,5", "0x10")},
    **{text: f"is '{text}', {FINITE}" for text in ("nan", "inf", "-Infinity", "1e400")},
    "1e151": "is '1e151', beyond 1e[+]150; rescale it",
}
PLACES = [  # of numbers: a kind, a file, its content, the line, and what is there
    ("tsv", "dev.tsv", HEAD + GOOD + "a\t{}\t2\t3\n", 3, "column 'am'"),
    ("moses", "lists.txt", "0 ||| a ||| L= {} ||| 3\n", 1, "a feature"),
    ("moses", "lists.txt", "0 ||| a ||| L= 1 ||| {}\n", 1, "a statistic"),
    ("mert", "features", FEATURES.replace("5 6\n", "5 6 a={}\n"), 6, "a feature"),
    ("mert", "scores", SCORES.replace("1 4\n", "1 {}\n"), 6, "a statistic"),
    ("scores", "am", AM.replace("-11", "{}"), 2, "score of 'one-2'"),
    ("srilm", "lists/one", "{} -2 1 a\n", 1, "acoustic score"),
    ("srilm", "lists/one", "# x\n-1 {} 1 a\n", 2, "lm score"),
    ("slf", "x.slf", "N=2 L=1\n" + REST.replace("a=-1", "a={}"), 4, "a="),
]

# fmt: off
TABLE: list[Case] = [
    *(
        case for kind, file, content, line, what in PLACES for text, said in NUMBERS.items()
        for case in of(kind, file, [(content.format(text), line, f"{what} {said}")])
    ),
    *(
        case for kind in ("csv", "jsonl", "json", "best-of-n", "moses", "references", "any format", "parquet", "scores")
        for case in of(kind, next(iter(KINDS[kind].files)), [("", None, "empty file")])
    ),
    *of("tsv", "dev.tsv", [
        ("", None, "empty file; write it again, or name another"),
        (HEAD, None, "no rows, only names of columns; write one row for each hypothesis"),
        (HEAD.replace("\n", "\r") + 2 * GOOD.replace("\n", "\r"), None, "carriage returns alone; make them line feeds"),
        ("utt\tam\terrors\n", 1, "no column 'lm'; the columns are utt, am, errors"),
        ("utt\tam\tlm\tam\terrors\n" + GOOD, 1, "two columns are called 'am'"),
        (HEAD + GOOD + "a\t1\t2\n", 3, "3 cells, but the header has 4"),
        (HEAD + "a\t1\t2\t3\t4\n" + GOOD, 2, "5 cells, but the header has 4"),
        (HEAD + GOOD + "\n" + GOOD, 3, "empty line; delete it"),
        (HEAD + GOOD + GOOD + "a\t1\t\t3\n", 4, "column 'lm' is empty"),
        (HEAD + GOOD + "\t1\t2\t3\n", 3, "column 'utt' is empty"),
        (HEAD.encode() + GOOD.encode() + b"a\t1\t\xff\t3\n", 3, "byte 0xff is not UTF-8"),
        ("one\ntwo\n", 1, "no column 'utt'"),
        (HEAD + 2 * "b\t1\t2\t3\n" + GOOD + "b\t1\t2\t3\n", 5, "list 'b' comes back .* 'a'; sort the lines, or gather"),
    ]),
    *of("csv", "dev.csv", [
        ('utt,am,lm,errors,text\na,1,2,3,"x\ny"\na,1,2,q,z\n', 4, "column 'errors' is 'q'"),
        ('utt,am,lm,errors,text\na,1,2,3,"x\ny"\na,1,2\n', 4, "3 cells, but the header has 5"),
        ('utt,am,lm,errors\na,1,2,3\na,1,2,"3\n', 3, "not CSV"),
        ('utt,am,lm,errors\na,1,2,"3"4\n', 2, "not CSV"),
        ("utt,am,lm,errors\na,1,2,3\n\n", 3, "empty line"),
        ("utt,am,lm,errors\na,1,2,3\r4\n", 2, "not CSV"),
        ("utt,am,lm,errors\ra,1,2,3\r", None, "carriage returns alone"),
    ]),
    *of("jsonl", "dev.jsonl", [
        (GOOD_OBJECT + '{"utt": "a", "am": 1, "errors": 3}\n', 2, "no key 'lm'; the keys are utt, am, errors"),
        (GOOD_OBJECT + GOOD_OBJECT.replace("2", "true"), 2, "column 'lm' is True, not a number"),
        (GOOD_OBJECT + GOOD_OBJECT.replace("2", '"2"'), 2, "column 'lm' is '2', not a number"),
        (GOOD_OBJECT + GOOD_OBJECT.replace("2", "null"), 2, "column 'lm' is empty"),
        (GOOD_OBJECT + GOOD_OBJECT.replace("2", "[2]"), 2, r"column 'lm' is \[2\], not a number"),
        (GOOD_OBJECT + GOOD_OBJECT.replace("2", "NaN"), 2, "NaN is not a finite number"),
        (GOOD_OBJECT + GOOD_OBJECT.replace("2", "1e400"), 2, "column 'lm' is inf, not a finite number"),
        (GOOD_OBJECT + GOOD_OBJECT.replace('"a"', "null"), 2, "column 'utt' is empty"),
        (GOOD_OBJECT.replace('"a"', "1") + GOOD_OBJECT.replace('"a"', "1.0"), 2, "column 'utt' is 1.0, not a string"),
        (GOOD_OBJECT + GOOD_OBJECT.strip() + GOOD_OBJECT, 2, "not one JSON object .*Extra data"),
        (GOOD_OBJECT + "[1, 2]\n", 2, r"not a JSON object but \[1, 2\]"),
        (GOOD_OBJECT + "\n" + GOOD_OBJECT, 2, "empty line"),
        (GOOD_OBJECT + GOOD_OBJECT.replace("lm", "am"), 2, "the key 'am' occurs twice"),
        (GOOD_OBJECT.replace('"a"', "1") + GOOD_OBJECT.replace('"a"', '"1"'), 2, "list '1' is 1 before; write all ids"),
        (GOOD_OBJECT + "[" * 100_000 + "\n", 2, "not one JSON object"),
    ]),
    *of("json", "x.json", [
        (f'[\n{GOOD_OBJECT},\n{{"utt": 1, "am": 1, "errors": 0}}\n]', 4, "no key 'lm'; the keys"),
        (f'[\n{GOOD_OBJECT},\n{{"utt": 1, "am": "x", "lm": 1, "errors": 0}}]', 4, "'am' is 'x'"),
        ('[{"utt": 1, "am": [1, 2], "lm": [1], "errors": [0, 1]}]', 1, "arrays of 1 and 2 values"),
        (f'[{GOOD_OBJECT},{{"utt": 2, "am": [], "lm": [], "errors": []}}]', 2, "no hypotheses, only empty arrays"),
        ('[{"utt": [1], "am": [1, 2], "lm": [1, 3], "errors": [0, 1]}]', 1, "arrays of 1 and 2 values"),
        ('[\n{"utt": 1, "am": [1, 2], "lm": 3, "errors": [0, 1]}]', 2, r"column 'am' is \[1, 2\], not a number"),
        ('[{"utt": 1, "am": 1, "lm": 1, "errors": 0},\n 7]', 2, "not a JSON object but 7"),
        ('[{"utt": 1, "am": 1, "lm": 1, "errors": 0}\n {}]', 2, "not JSON: .* after a record"),
        ('[{"utt": 1, "am": 1, "lm": 1, "errors": 0}', 1, "not JSON: '' after a record"),
        ('[{"utt": 1, "am": 1, "lm": 1, "errors": 0}] x', 1, "not JSON: 'x' after a record"),
        ("[]", 1, "not JSON"),
        ("[\n" + "[" * 100_000, 2, "not JSON"),
        ('{\n"utt": 1,\n', 1, "not JSON"),
        (b'[\n{"utt": "\xff"}]', 2, "byte 0xff is not UTF-8"),
    ]),
    *of("best-of-n", "set.jsonl", [
        (SET + SET, 2, "id 'g' comes twice, first on line 1"),
        (SET + SECOND.replace('"id"', '"key"'), 2, 'a record needs "id", and "candidates"' ),
        (SET + SECOND.replace('"h"', "null"), 2, "candidate 1: column 'id' is empty"),
        (SET + SECOND.replace('"h"', "true"), 2, "candidate 1: column 'id' is True, not a string or an integer"),
        (SET + SECOND.replace('"h"', '""'), 2, "candidate 1: column 'id' is empty"),
        (SET + SECOND.replace("candidates", "hypotheses"), 2, 'a record needs "id", and "candidates"' ),
        (SET + SECOND.replace('"h"', r'"\ud800"'), 2, '"id" .* is no text'),
        (SET + '{"id": 1, "candidates": []}\n', 2, "at least one candidate"),
        (SET + '{"id": 1, "candidates": {}}\n', 2, "at least one candidate"),
        (SET + '{"id": 1, "candidates": [3]}\n', 2, "candidate 1 is not an object but 3"),
        (SET + SECOND.replace('"scores": {"a": 1, "b": 2}, ', ""), 2, 'candidate 1: "scores" must be an object'),
        (SET + SECOND.replace('{"a": 1, "b": 2}', "[1, 2]"), 2, 'candidate 1: "scores" must be an object'),
        (SET + SECOND.replace('{"a": 1, "b": 2}', '{"": 1}'), 2, 'candidate 1: "scores" must be an object'),
        (SET + SECOND.replace(', "b": 2', ""), 2, "has a, loss, text; the candidates before have a, b, loss, text"),
        (SET + SECOND.replace('"b": 2', '"c": 2'), 2, "has a, c, loss, text; the candidates before have a, b, loss"),
        (SET + SECOND.replace('"b": 2', '"b": "2"'), 2, "candidate 1: column 'b' is '2', not a number but a string"),
        (SET + SECOND.replace('"b": 2', '"b": true'), 2, "candidate 1: column 'b' is True, not a number"),
        (SET + SECOND.replace(', "loss": 0', ""), 2, 'one of "loss", "correct" and "statistics"; it has 0'),
        (SET + SECOND.replace('"loss": 0', '"loss": 0, "correct": 1'), 2, "it has 2"),
        (SET + SECOND.replace('"loss": 0', '"loss": null'), 2, "candidate 1: column 'loss' is empty"),
        (SET + SECOND.replace('"loss": 0', '"loss": true'), 2, '"loss" is True, .* call it "correct"'),
        (SET + SECOND.replace('"loss": 0', '"correct": 2'), 2, '"correct" is 2, not true, false, or a share'),
        (SET + SECOND.replace('"loss": 0', '"statistics": {"x": 1}'), 2, "1 has a, b, x, text; .* have a, b, loss"),
        (SECOND.replace('"loss": 0', '"statistics": {"x": 1}') + SET, 2, "loss, text; .* before have a, b, x, text"),
        (SET + SECOND.replace('"text": "x", ', ""), 2, "has a, b, loss; the candidates before have a, b, loss, text"),
        (SECOND.replace('"text": "x", ', "") + SET, 2, "loss, text; the candidates before have a, b, loss; give"),
        (SET + SECOND.replace('"text": "x"', '"text": 3'), 2, "candidate 1: column 'text' is 3, not a string"),
    ]),
    *of("moses", "lists.txt", [
        ("0 ||| a ||| L= 1 ||| 3", 1, r"no line end here, so the file may be cut off"),
        ("0 ||| a ||| L= 1 ||| 3\n\n", 2, r"empty line"),
        ("0 ||| a\n", 1, r"2 fields between \|\|\|, but a line needs id, text and features"),
        ("0 ||| a ||| L= 1 ||| 3\n0 ||| a ||| b ||| L= 1 ||| 3\n", 2, r"5 fields .* but line 1 has 4"),
        (" ||| a ||| L= 1 ||| 3\n", 1, r"the first field must say"),
        ("0 ||| a ||| ||| 3\n", 1, r"no features"),
        ("0 ||| a ||| L= ||| 3\n", 1, r"no number after 'L='"),
        ("0 ||| a ||| 1 L= 2 ||| 3\n", 1, r"a number without the name"),
        ("0 ||| a ||| = 2 ||| 3\n", 1, r"a number without the name"),
        ("0 ||| a ||| L=1 2 ||| 3\n", 1, r"two numbers for feature 'L'"),
        ("0 ||| a ||| L= 1 L= 2 ||| 3\n", 1, r"feature 'L_0' comes twice"),
        ("0 ||| a ||| L= 1 ||| 3\n0 ||| a ||| L= 1 2 ||| 3\n", 2, r"feature 'L_1' is new here"),
        ("0 ||| a ||| 1 2 ||| 3\n0 ||| a ||| 1 ||| 3\n", 2, r"feature 'feature2' is missing"),
        ("0 ||| a ||| L= 1\n", 1, r"0 statistics"),
        ("0 ||| a ||| L= 1 ||| 3\n1 ||| a ||| L= 1 ||| 3\n0 ||| a ||| L= 1 ||| 3\n", 3, r"list '0' comes back"),
    ]),
    *of("written moses", "lists.txt", [
        (f"0 ||| a ||| L= 1 ||| 0 ||| statistics: {wrong}\n", 1, "statistic")
        for wrong in ("", "3", "=3", "a=1 a=1", "a=x", "a=", "a=1 b=2 3")
    ]),
    *of("moses beside", "statistics", [
        ("0 1\n0 3\n", None, r"ends before line 3 of .*lists.txt"),
        ("0 1\n0 3\n1 4\n1 4\n", 4, r"more lines than .*lists.txt"),
        ("0 1\n1 3\n1 4\n", 2, r"a line must begin with the id of the list, here '0', not '1'"),
        ("0 1\n\n1 4\n", 2, r"a line must begin with the id"),
    ]),
    *of("moses beside", "statistics", [
        ("0 1\n0 3 4\n1 4\n", 2, r"2 statistics, but the first line has 1 numbers"),
        ("0\n0\n1\n", 1, r"0 statistics"),
    ], blamed="lists.txt"),
    *of("mert", "features", changed(FEATURES, [
        (FEATURES, "", None, r"ends before the list on line 1 of .*scores"),
        ("FEATURES_TXT_BEGIN_0 3", "FEATURES_BIN_BEGIN_0 3", None, r"binary data; let Moses' extractor write text"),
        ("FEATURES_TXT_BEGIN_0 3", "x", 1, r"a list must begin here, with FEATURES_TXT_BEGIN_0"),
        ("3 2 2 lm_0 w_0", "3", 1, r"a list must begin here, with FEATURES_TXT_BEGIN_0, id, hypotheses and columns"),
        ("3 2 2 lm_0 w_0", "3 -2 2", 1, r"the number of hypotheses is '-2', not a count"),
        ("3 2 2 lm_0 w_0", "3 0 2", 1, r"2 hypotheses, but this line says 0; a list has at least one"),
        ("3 2 2 lm_0 w_0", "3 3 2 lm_0 w_0", 1, r"2 hypotheses, but this line says 3"),
        ("3 2 2 lm_0 w_0", "3 1 2 lm_0 w_0", 1, r"2 hypotheses, but this line says 1"),
        ("3 2 2 lm_0 w_0", "3 2 2 lm_0", 1, r"1 names for 2 columns"),
        ("3 2 2 lm_0 w_0", "3 2 2 w_0 w_0", 1, r"two columns are called 'w_0'"),
        ("0 1 2 lm_0 w_0", "0 1 2 w_0 lm_0", 5, r"other names than those of the first list, lm_0 w_0"),
        ("5 6\nFEATURES_TXT_END_0\n", "5 6\n", 5, r"the file ends within the list that begins here"),
        ("5 6\n", "5 \n", 6, r"fewer than 2 numbers"),
        ("5 6\n", "5 a=6\n", 6, r"fewer than 2 numbers"),
        ("5 6\n", "5 6 7\n", 6, r"'7' after the numbers is no sparse feature"),
        ("5 6\n", "5 6 a=\n", 6, r"a feature is '', not a number"),
        ("5 6\n", "5 6 a=1 a=1\n", 6, r"feature 'a' comes twice"),
        ("5 6\n", "5 6 w_0=1\n", 6, r"feature 'w_0' comes twice"),
        ("5 6\n", "5 6\n\n", 5, r"2 hypotheses, but this line says 1"),
    ])),
    *of("mert", "scores", changed(SCORES, [
        (SCORES, "", None, r"ends before the list on line 1 of .*features"),
        ("SCORES_TXT_BEGIN_0 3 2 2 WER", "SCORES_TXT_BEGIN_0 3 2 2", 1, "2 columns of no type; give columns"),
        ("SCORES_TXT_BEGIN_0 3 2 2 WER", "SCORES_BIN_BEGIN_0 3 2 2 WER", None, r"binary data; let Moses'"),
        ("0 1 2 WER", "0 1 2 CDER", 5, r"2 columns of CDER, but the first list has 2 of WER"),
        ("0 1 2 WER\n1 4\n", "0 2 2 WER\n1 4\n1 4\n", 5, "list '0' of 2 hypotheses, but line 5 of .*features has .* 1"),
        ("1 4\n", "1\n", 6, r"1 words in 2 columns"),
    ])),
    *of("mert", "features", changed(FEATURES, [
        ("FEATURES_TXT_BEGIN_0 3", "FEATURES_TXT_BEGIN_0 4", 1, "list '3' of 2 .*, but line 1 of .* has list '4'"),
    ]), blamed="scores"),
    *(("scores", changes, f"{file}:{line}" if line else file, message) for changes, file, line, message in [
        ({"lm": "one-1 1\n"}, "am", 2, "key 'one-2' is missing in .*lm"),
        ({"lm": LM + "two-x-2 1\n"}, "lm", 4, "key 'two-x-2' is missing in .*am"),
        ({"text": "one-2 the cut\ntwo-x-1\n"}, "am", 1, "key 'one-1' is missing in .*text"),
        ({"text": TEXT + "one-3 a\n"}, "text", 4, "key 'one-3' is missing in .*am"),
        ({"lm": LM + "one-1 1\n"}, "lm", 4, "'one-1' comes twice, first on line 2"),
        ({"am": "one-1 1\n\none-2 1\n"}, "am", 2, "empty line"),
        ({"am": "one-1 1\n one-2 1\n"}, "am", 2, "white space before the key"),
        ({"am": AM.replace("-11", "-11 -12")}, "am", 2, "score of 'one-2' is '-11 -12', not a number"),
        ({"am": AM.replace(" -11", "")}, "am", 2, "score of 'one-2' is '', not a number"),
        ({"am": "one 1\n", "lm": "one 1\n", "text": "one a\n"}, "am", 1, "key 'one' is not list id, '-', number"),
        ({"am": "one- 1\n", "lm": "one- 1\n", "text": "one- a\n"}, "am", 1, "key 'one-' is not list id"),
    ]),
    *(("espnet", {**NO_RANKS, **changes}, where, message) for changes, where, message in [
        ({}, "", "no folders 1best_recog"),
        ({"3best_recog/score": "", **ranks([("one 1\n", "one a\n")])}, "", "no folder 2best_recog, but one for 3"),
        (ranks([("a 1\n", "a a\n"), ("one 1\n", "one a\n")]), "2best_recog/text:1", "has hypothesis 2 but 0"),
        (ranks([("one 1\n", "one a\ntwo b\n")]), "1best_recog/text:2", "key 'two' is missing in .*score"),
        (ranks([("one 1\ntwo 1\n", "one a\n")]), "1best_recog/score:2", "key 'two' is missing in .*text"),
        (ranks([("one tensor(x)\n", "one a\n")]), "1best_recog/score:1", "score of 'one' is 'x', not a number"),
        (ranks([("one tensor([1])\n", "one a\n")]), "1best_recog/score:1", "not a number"),
    ]),
    *of("srilm", "lists/one", [
        ("", None, "no hypotheses"),
        ("# only a comment\n", None, "no hypotheses"),
        ("-1 -2 1 a\n\n-1 -2 1 a\n", 2, "empty line"),
        ("-1 -2\n", 1, "too short"),
        ("NBestList1.0\n(-1) a\n", 1, "too short"),
        ("(-1) a b\n", 1, "acoustic score is '\\(-1\\)', not a number"),
        ("-1 -2 1.0 a\n", 1, "number of words is '1.0', not a count"),
        ("-1 -2 -1 a\n", 1, "number of words is '-1', not a count"),
        ("-1 -2 3 a b\n", 1, "3 words announced, but only 2 found"),
    ]),
    *of("references", "text", [
        ("one a\ntwo b\none c\n", 3, "'one' comes twice, first on line 1"),
    ]),
    *of("slf", "x.slf", [
        ("", None, "no N= in the header"),
        (REST, None, "no N= in the header"),
        ("N=2\n" + REST, None, "no L= in the header"),
        ("N=3 L=1\n" + REST, 1, "N=3, but there is no I=2"),
        ("N=2 L=2\n" + REST, 1, "L=2, but there is no J=1"),
        ("N=1 L=1\n" + REST, 3, "I=1, but line 1 says N=1"),
        ("N=2 L=0\n" + REST, 4, "J=0, but line 1 says L=0"),
        ("N=2 L=1\n" + REST + "I=1\n", 5, "I=1 comes twice, first on line 3"),
        ("N=2 L=1\n" + REST + "J=0 S=0 E=1 W=y\n", 5, "J=0 comes twice, first on line 4"),
        ("N=2 L=1\n" + REST + "N=2 L=1\n" + REST, 5, "N= comes twice, first on line 1; a file holds one lattice"),
        ("N=two L=1\n" + REST, 1, "N= is 'two', not a count"),
        (f"N=2 L={'9' * 5000}\n" + REST, 1, r"L= is '9{12}\.\.\.9{13}', not a count$"),
        ("N=2 L=1\n" + REST.replace("S=0", "S=2"), 4, "S=2, but there are only nodes 0 to 1"),
        ("N=2 L=1\n" + REST.replace("E=1", "E=-1"), 4, "E= is '-1', not a count"),
        ("N=2 L=1\n" + REST.replace("E=1 ", ""), 4, "no E=, which must name a node"),
        ("N=2 L=1\n" + REST.replace("a=-1", "a=-1 a=-2"), 4, "a= comes twice in one line"),
        ("N=2 L=1\n" + REST.replace("a=-1", "a="), 4, "'a=' should be a field name=value"),
        ("N=2 L=1\n" + REST.replace("a=-1", "a"), 4, "'a' should be a field name=value"),
        ("N=2 L=1\n" + REST.replace("W=x", r"W=\303"), 4, "is not UTF-8"),
        ("N=2 L=1\n" + REST.replace("W=x", 'W="a b"'), 4, "'a b' is empty or has white space"),
        ("N=2 L=1\n" + REST.replace("I=1", "I=1 W=y"), 4, "the link has the word 'x', its node 'y'"),
        ("N=2 L=1\n" + REST.replace("I=1", "I=1 L=sub"), 3, "sub-lattices cannot be read"),
        ("SUBLAT=x\nN=2 L=1\n" + REST, 1, "sub-lattices cannot be read"),
        ("N=2 L=1\n" + REST + ".\n", 5, "'.' should be a field name=value"),
        ("base=-1\nN=2 L=1\n" + REST, 1, "-1.0 is no base of logarithms"),
        ("base=0\nN=2 L=1\n" + REST, 5, "a= -1 is no probability"),
        ("lmscale=x\nN=2 L=1\n" + REST, 1, "lmscale= is 'x', not a number"),
        ("dir=b\nN=2 L=1\n" + REST, 1, "dir=b, but links must run from the start"),
        ("start=2\nN=2 L=1\n" + REST, 1, "start=2, but there are only nodes 0 to 1"),
        ("N=0 L=0\n", 1, "no node can be the start"),
        ("N=3 L=1\n" + REST + "I=2\n", 5, "nodes 0 and 2 could both be the start"),
        ("N=3 L=2\n" + REST + "I=2\nJ=1 S=0 E=2\n", 5, "nodes 1 and 2 could both be the end"),
        ("N=2 L=2\n" + REST + "J=1 S=1 E=0 a=0\n", 1, "no node can be the start"),
        (b"N=2 L=1\nI=0\nI=1 W=\xff\n", 3, "byte 0xff is not UTF-8"),
    ]),
    *of("slf", "x.slf", [
        ("start=0 end=1\nN=2 L=2\n" + REST + "J=1 S=1 E=0 a=0\n", 5, "the links make a cycle"),
        ("start=0 end=1\nN=2 L=2\n" + REST + "J=1 S=1 E=1 a=0\n", 6, "the links make a cycle: 1 -> 1"),
        ("start=1 end=0\nN=2 L=1\n" + REST, 4, "no path from node 1 to node 0"),
    ]),
    *of("weights", "weights", [
        ("", None, "no weights"),
        ("# nothing\n", None, "no weights"),
        ("[weight]\n", None, "no weights"),
        ("[weight]\n0.5 1\n", 2, "a weight without the name"),
        ("a=1\n0.5 1\n", 2, "a weight without the name"),
        ("a= 1\na= 2\n", 2, "a second weight for 'a_0'"),
        ("a b 1\n", 1, "a weight is 'a', not a number"),
        ("a= \n", 1, "no number after 'a='"),
        ("a=1 2\n", 1, "two numbers for feature 'a'"),
        ("a= nan\n", 1, "a weight is 'nan', not a finite number"),
        ("1e400\n", 1, "a weight is '1e400', not a finite number"),
        ("{", None, "not JSON"),
        ('{"a": 1, "a": 2}', None, "not JSON .the key 'a' occurs twice"),
        ("{}", None, "weights must be an object of numbers by name"),
        ('{"weights": "1"}', None, "weights must be an object"),
        ('[1, "2"]', 1, "weight 2 is '2', not a number"),
        ('{"a": true}', 1, "the weight of 'a' is True, not a number"),
        ('{"a": NaN}', 1, "the weight of 'a' is nan, not a finite number"),
    ]),
    *of("judged", "judged", [
        ("1 1:2\n", 1, "the second word must be qid:QUERY"),
        ("1 qid:a 1:x\n", 1, "feature 1 is 'x', not a number"),
        ("1 qid:a x:1\n", 1, "an index is 'x', not a count"),
        ("1 qid:a 1:1\n0 qid:b 1:1\n0 qid:a 1:2\n", 3, "query 'a' comes again"),
        ("1 qid:a 1:1 1:2\n", 1, "indices must be 1 or more"),
        ("1 qid:a\n", None, "no documents"),
        ("q1 Q0 d1 1 7.5 bm25\n", None, "is a run of TREC; give the file of its grades, too: --qrels"),
        ("", None, "no documents; write lines 'grade qid:query index:value ...', or a table$"),
        ("# nothing\n\n", None, "no documents; write lines"),
    ]),
    *of("judged table", "x.csv", [
        ("query,grade,x\nq,1,2\n", 1, f"no column 'relevance'; the columns are query, grade, x; .*{ADVICE}"),
        ("query,relevance,id,x\nq,1,d,2\n", 2, f"column 'id' is 'd', not a number; which columns .*{ADVICE}"),
        ("query,relevance,bm25\n'the column ',1\n", 2, "^(?!.*--query)2 cells, but the header has 3"),
        ("query,relevance,x\n", None, "no rows, only names of columns; write one row for each hypothesis$"),
    ]),
    *of("runs", "run", [
        ("q 0 d 1\n", 1, "4 words; write 'query Q0 document .*grades go to --qrels"),
        ("q Q0 d 1 1 t\nq Q0 d 2 0.5 t\n", 2, "document 'd' of query 'q' comes a second time"),
        ("q Q0 d 1 inf t\n", 1, "the score is 'inf'"),
        ("\n", None, "no documents; write lines 'query Q0"),
        ("[1]", 1, "1 words"),
        ('{"q": [1]}', None, r"query 'q' has \[1\], not numbers by document"),
        ('{"q": {"d": "x"}}', None, "document 'd' of query 'q' is 'x'"),
        ('{"q": {"d": 1}, "q": {}}', None, "not JSON"),
    ]),
    *of("runs", "qrels", [
        ("q Q0 d 1 1 t\n", 1, "6 words; write 'query 0 .*runs are DATA"),
        ("q 0 d high\n", 1, "the grade is 'high', not a number"),
    ]),
    *of("any format", "x", [
        ("x" * 5000 + "\n", None, "cannot tell the format"),
        ("a\0b\n", None, "cannot tell the format"),
        ("u1-1 -3.25\nu1-2 -4e0\n", None, "cannot tell the format; .* a key and a number are scores: give NAME=FILE"),
        ("hello\n", None, r"cannot tell the format; give the format \(--from, format\), one of tsv"),
        ("SCORES_TXT_BEGIN_0 0 1 2 WER\n", None, "these are the scores of mert data"),
    ]),
    *(("npz", {"x.npz": archive(**changes)}, "x.npz", message) for changes, message in [
        ({"features": np.array([[object()], [1]], dtype=object)}, "not an archive of plain arrays"),
        ({"features": None}, "no array 'data'; the arrays are offsets, statistics"),
        ({"offsets": None}, "no array 'offsets'"),
        ({"more": [1]}, "an array 'more', which lists do not have"),
        ({"features": [[1.0]]}, "features has 1 rows, statistics has 2"),
        ({"features": [["1"], ["2"]]}, "features must be real numbers"),
        ({"features": [[1.0], [np.nan]]}, "list '0', hypothesis 1 .from 0., feature 'feature1': nan is not"),
        ({"names": [[1]]}, r"names must be strings that are not empty, not \[1\]"),
        ({"texts": ["a"]}, "texts has 1 entries; 2 are needed"),
        *(({"labels": np.frombuffer(labels, np.uint8)}, message) for labels, message in [
            (b'{"names": ["a"', "labels: not JSON"), (b'["a"]', "labels must be an object of names, list_ids"),
            (b'{"name": ["a"]}', "labels must be"), (b'{"texts": ["a"]}', "texts has 1 entries; 2 are needed"),
            (b'{"texts": ["a", 1]}', "texts must be strings, not 1"), (b'{"names": ["\xff"]}', "labels: not JSON"),
        ]),
        ({**CSR, "indices": [5]}, "the sparse features are no csr_array"),
        ({**CSR, "indptr": [0, 2, 1]}, "the sparse features are no csr_array"),
        ({**CSR, "indptr": [0.0, 1, 1]}, "indices, indptr and shape must be rows of integers"),
        ({**CSR, "shape": [2, 10**15]}, "1,000,000,000,000,000 features without names"),
        ({**CSR, "shape": [2, -1]}, "the sparse features are no csr_array"),
        ({"features": np.ones((2, 2, 2))}, r"one row per hypothesis and at least one column, not shape \(2, 2, 2\)"),
        ({"features": np.float64(1)}, r"one row per hypothesis and at least one column, not shape \(\)"),
        ({"offsets": [[0, 2]]}, "offsets must be one-dimensional"),
        ({**CSR, "data": ["1"]}, "the sparse features are no csr_array"),
        ({**CSR, "indptr": np.array([], int)}, "the sparse features are no csr_array"),
    ]),
    *(("npz", {"x.npz": archive_of(features)}, "x.npz", "not an archive of plain arrays .*write it with numpy.savez")
      for features in (b"hello", array_of("(2,)")[:-1], array_of("(2,)")[:-8], array_of("(2,)") + b"0", *map(array_of, (
        *("(True, 2)", "(1.5, 2)", "(-1, 2)", "None", "((2,), 2)", "(2**80, 2)", "(1000000000000000,)"),
    )))),
    *of("parquet", "dev.parquet", [
        (lambda: table_of(lm=[1.0, 2.0])[:-10], None, "cannot be read as Parquet"),
    ]),
    *(("parquet", {"dev.parquet": partial(table_of, **columns)}, "dev.parquet", message) for columns, message in [
        ({"lm": [1.0, None]}, "row 2: column 'lm' is empty"),
        ({"lm": [1.0, float("nan")]}, "row 2: column 'lm' is nan, not a finite number"),
        ({"lm": [True, False]}, "row 1: column 'lm' is True, not a number"),
        ({"lm": ["1", "2"]}, "row 1: column 'lm' is '1', not a number"),
        ({}, "no column 'lm'; the columns are utt, am, errors"),
        ({"lm": [1.0, 2.0], "utt": ["a", None]}, "row 2: column 'utt' is empty"),
    ]),
]
# fmt: on


@pytest.mark.parametrize("kind", dict.fromkeys(kind for kind, *_ in TABLE))
def test_what_is_wrong_is_told_with_file_and_line(tmp_path: Path, subtests: pytest.Subtests, kind: str) -> None:
    for number, (_, files, where, message) in enumerate(case for case in TABLE if case[0] == kind):
        with subtests.test(where=where, message=message):
            folder = tmp_path / str(number)
            folder.mkdir()
            put(folder, {**KINDS[kind].files, **files})
            with pytest.raises(DataError) as caught:
                KINDS[kind].read(folder)
            place, _, said = str(caught.value).partition(": ")
            assert place == str(folder / where)
            assert re.search(message, said), said


def test_good_files_are_read(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, kind in KINDS.items():
        with subtests.test(name):
            found = kind.read(put(tmp_path / name, kind.files))
            assert kind.may_have(found, content_of(next(iter(kind.files.values()))))


PIECES = [
    *(b"", b" ", b"\t", b"\n", b"\r\n", b"\r", b"\0", b"|||", b"=", b":", b",", b'"', b"{", b"]", b"(", b")", b"#"),
    *(b"-", b"_", b"1e400", b"nan", b"inf", b"null", b"9" * 400, b"e9", b"\xff", b"\xef\xbb\xbf", b"\\", b"/", b".."),
]


@pytest.mark.parametrize("kind", KINDS)
@examples(90)
@given(data=st.data())
def test_damage_is_harmless_or_told(tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject) -> None:
    files = {name: content_of(one) for name, one in KINDS[kind].files.items()}
    which = data.draw(st.sampled_from(sorted(files)))
    packed = data.draw(st.booleans())
    content = gzip.compress(files[which], mtime=0) if packed else files[which]
    files[which] = damaged(data, content, PIECES, most=4, longest=5, cut=True)
    folder = put(tmp_path_factory.mktemp("damaged"), files)
    found = read_or_refused(
        folder, lambda: KINDS[kind].read(folder), unless="no reference for utterance|no query of the runs has grades"
    )
    if isinstance(found, NBest):
        plain = gzip.decompress(files[which]) if files[which][:2] == b"\x1f\x8b" else files[which]
        assert KINDS[kind].may_have(found, plain)
        assert np.isfinite(found.dense_features()).all()
        if kind == "npz":  # whose sums tell
            good = put(tmp_path_factory.mktemp("good"), KINDS["npz"].files)
            assert found.fingerprint == read(good / "x.npz").fingerprint


@pytest.mark.parametrize("packing", [".gz", ".xz"])
def test_damaged_compressed_files_are_refused_by_name(tmp_path: Path, packing: str) -> None:
    packed = PACKINGS[packing]((HEAD + GOOD * 1000).encode())
    for broken in (packed[: len(packed) // 2], packed[:-1], packed[:7], packed + packed[:7]):
        put(tmp_path, {f"dev.tsv{packing}": broken})
        with pytest.raises(DataError, match=f"dev.tsv{packing}: the compressed file is damaged or ends early"):
            read(tmp_path / f"dev.tsv{packing}", **COLUMNS)


WRITTEN = [  # a file as `write` makes it: its head, and a line
    ("x.tsv", "list\tf\tloss\n", "{}\t{}\t0\n"),
    ("x.csv", "list,f,loss\n", "{},{},0\n"),
    ("x.jsonl", "", '{{"list": "{}", "f": {}, "loss": 0}}\n'),
    ("x.moses", "", "{} ||| a ||| f= {} ||| statistics: loss=0\n"),
    ("candidates.jsonl", "", '{{"id": "{}", "candidates": [{{"scores": {{"f": {}}}, "loss": 0}}]}}\n'),
]


@pytest.mark.parametrize("value", TOO_LARGE)
@pytest.mark.parametrize(("name", "head", "line"), WRITTEN)
def test_integers_that_would_round_are_refused(tmp_path: Path, name: str, head: str, line: str, value: int) -> None:
    path = tmp_path / name
    path.write_text(head + line.format("a", 1) + line.format("b", value))
    trouble = rf"{name}:{2 + bool(head)}: .* is '?{value}'?, an integer beyond 2\*\*53 .*rescale it"
    with pytest.raises(DataError, match=trouble):
        read(path)
    path.write_text(head + line.format("b", f"{value}.0"))  # decimals are the nearest doubles, as everywhere
    assert abs(read(path).dense_features()).max() == float(abs(value))
    path.write_text(head + line.format("b", 2**60))  # float64 holds it
    assert read(path).dense_features().max() == 2**60


@pytest.mark.parametrize("mark", ["\ufeff", "\ufeff\ufeff"])
@pytest.mark.parametrize(("name", "head", "line"), WRITTEN[:4])
def test_byte_order_marks_inside_are_refused(tmp_path: Path, name: str, head: str, line: str, mark: str) -> None:
    path, line = tmp_path / name, line.format("a", 1)
    path.write_text("\ufeff" + head + line)
    assert read(path).n_hypotheses == 1
    for many in (3, 1 + (3 << 20) // len(line)):  # the last beyond the first blocks
        path.write_text("\ufeff" + head + many * line + mark + line)
        at = 1 + bool(head) + many
        with pytest.raises(DataError, match=rf"{name}:{at}: a byte order mark \(EF BB BF\) inside the file.*delete it"):
            read(path)


ROWS = [{"list": "a", "x": 1, "y": 0.5, "loss": 0}, {"list": "a", "x": 2, "y": 0.25, "loss": 1}]
CANDIDATES = [{"text": text, "scores": {"a": 1, "b": 2}, "correct": text == "t"} for text in "tu"]
SPREAD = [{"x": {"a": [1, 2]}, "loss": [0, 1]}] * 2


@pytest.mark.parametrize(
    ("name", "document", "read"),
    [
        ("x.jsonl", ROWS[0], read),
        ("x.json", ROWS, read),
        ("x.json", SPREAD, lambda path: read(path, features=["x.a"], loss="loss")),
        ("x.jsonl", {"id": "q", "candidates": CANDIDATES}, lambda path: read(path, "best-of-n")),
        ("w.json", {"weights": {"a": 1, "b": 2}}, lambda path: read_weights(path).of_features(["a", "b"])),
        ("w.json", [1, 2], lambda path: read_weights(path).of_features(["a", "b"])),
    ],
)
def test_json_of_wrong_types_is_refused(tmp_path: Path, name: str, document: Any, read: Callable[[Path], Any]) -> None:
    path = tmp_path / name
    refused = 0
    for text in wrong_documents(document):
        path.write_text(text + "\n")
        refused += read_or_refused(path, lambda: read(path)) is None
    assert refused > 3
