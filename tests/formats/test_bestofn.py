from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import damaged, examples, read_or_refused

from lpmert.errors import DataError
from lpmert.formats.best_of_n import read_best_of_n, write_best_of_n
from lpmert.model.nbest import NBest

SET = """{"id": "p1", "prompt": "1 + 1?", "candidates": [\
{"text": "2", "scores": {"logprob": -1.5, "judge": 7}, "correct": true},\
 {"text": "11", "scores": {"judge": 3, "logprob": -0.5}, "correct": false, "tokens": 3}]}
{"id": 2, "candidates": [{"text": "", "scores": {"logprob": -2, "judge": 1e-3}, "correct": 0.75}]}
"""


def read(tmp_path: Path, content: str | bytes) -> NBest:
    path = tmp_path / "set.jsonl"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_best_of_n(path)


def test_a_line_is_a_list(tmp_path: Path) -> None:
    nbest = read(tmp_path, SET)
    assert nbest.list_ids == ("p1", "2")
    assert nbest.names == ("logprob", "judge")
    assert nbest.offsets.tolist() == [0, 2, 3]
    assert nbest.dense_features().tolist() == [[-1.5, 7], [-0.5, 3], [-2, 0.001]]
    assert nbest.statistic_names == ("loss",)
    assert nbest.statistics[:, 0].tolist() == [0, 1, 0.25]
    assert nbest.texts == ("2", "11", "")


def test_loss_and_statistics_are_taken_as_they_are(tmp_path: Path) -> None:
    nbest = read(
        tmp_path, SET.replace('"correct": true', '"loss": 3').replace('"correct"', '"loss"').replace("false", "4")
    )
    assert nbest.statistics[:, 0].tolist() == [3, 4, 0.75]
    line = '{"id": "x", "candidates": [{"scores": {"a": 1}, "statistics": {"match": 2, "total": 5}}]}\n'
    nbest = read(tmp_path, line)
    assert nbest.statistic_names == ("match", "total")
    assert nbest.statistics.tolist() == [[2, 5]]
    assert nbest.texts is None


def test_byte_order_mark_crlf_and_compression_are_accepted(tmp_path: Path) -> None:
    windows = b"\xef\xbb\xbf" + SET.replace("\n", "\r\n").encode()
    assert read(tmp_path, gzip.compress(windows)).fingerprint == read(tmp_path, SET).fingerprint


GOOD = '{"id": "g", "candidates": [{"text": "x", "scores": {"a": 1, "b": 2}, "loss": 0}]}\n'
BAD = '{"id": "h", "candidates": [{"text": "x", "scores": {"a": 1, "b": 2}, "loss": 0}]}\n'


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("", None, "empty file"),
        (GOOD + "\n", 2, "empty line"),
        (GOOD + "[]\n", 2, "not a JSON object"),
        (GOOD + BAD[:-3] + "\n", 2, "not one JSON object"),
        (GOOD + GOOD, 2, "id 'g' comes twice, first on line 1"),
        (GOOD + BAD.replace('"id"', '"key"'), 2, "no key 'id'"),
        (GOOD + BAD.replace('"h"', "null"), 2, '"id" is None, not a string or an integer'),
        (GOOD + BAD.replace('"h"', "true"), 2, '"id" is True, not a string'),
        (GOOD + BAD.replace('"h"', '""'), 2, "\"id\" is '', not a string"),
        (GOOD + BAD.replace('"h"', r'"\ud800"'), 2, '"id" .* is no text'),
        (GOOD + BAD.replace("candidates", "hypotheses"), 2, "no key 'candidates'"),
        (GOOD + '{"id": 1, "candidates": []}\n', 2, "at least one candidate"),
        (GOOD + '{"id": 1, "candidates": {}}\n', 2, "at least one candidate"),
        (GOOD + '{"id": 1, "candidates": [3]}\n', 2, "candidate 1 is not an object but 3"),
        (GOOD + BAD.replace('"scores": {"a": 1, "b": 2}, ', ""), 2, 'candidate 1: "scores" must be an object'),
        (GOOD + BAD.replace('{"a": 1, "b": 2}', "[1, 2]"), 2, 'candidate 1: "scores" must be an object'),
        (GOOD + BAD.replace('{"a": 1, "b": 2}', '{"": 1}'), 2, 'candidate 1: "scores" must be an object'),
        (GOOD + BAD.replace(', "b": 2', ""), 2, '"scores" has a; the candidates before have a, b'),
        (GOOD + BAD.replace('"b": 2', '"c": 2'), 2, '"scores" has a, c; the candidates before have a, b'),
        (GOOD + BAD.replace('"b": 2', '"a": 2'), 2, "the key 'a' occurs twice"),
        (GOOD + BAD.replace('"b": 2', '"b": "2"'), 2, "candidate 1: scores 'b' is '2', not a number"),
        (GOOD + BAD.replace('"b": 2', '"b": true'), 2, "candidate 1: scores 'b' is True, not a number"),
        (GOOD + BAD.replace('"b": 2', '"b": NaN'), 2, "NaN is not a finite number"),
        (GOOD + BAD.replace('"b": 2', '"b": 1e400'), 2, "candidate 1: scores 'b' is inf, not a finite number"),
        (GOOD + BAD.replace('"b": 2', '"b": 1' + "0" * 400), 2, "candidate 1: scores 'b' is .*, not a finite number"),
        (GOOD + BAD.replace('"b": 2', '"b": 1e151'), 2, "beyond 1e[+]150"),
        (GOOD + BAD.replace(', "loss": 0', ""), 2, 'one of "loss", "correct" and "statistics"; it has 0'),
        (GOOD + BAD.replace('"loss": 0', '"loss": 0, "correct": 1'), 2, "it has 2"),
        (GOOD + BAD.replace('"loss": 0', '"loss": null'), 2, 'candidate 1: "loss" is None, not a number'),
        (GOOD + BAD.replace('"loss": 0', '"correct": 2'), 2, '"correct" is 2, not true, false, or a share'),
        (
            GOOD + BAD.replace('"loss": 0', '"statistics": {"x": 1}'),
            2,
            '"statistics" has x; the candidates before have loss',
        ),
        (BAD.replace('"loss": 0', '"statistics": {"x": 1}') + GOOD, 2, "candidate 1 has loss, others have x"),
        (GOOD + BAD.replace('"text": "x", ', ""), 2, 'some candidates have "text", others not'),
        (BAD.replace('"text": "x", ', "") + GOOD, 2, 'some candidates have "text", others not'),
        (GOOD + BAD.replace('"text": "x"', '"text": 3'), 2, '"text" is 3, not a string'),
        (GOOD.encode() + BAD.encode().replace(b"x", b"\xff"), 2, "byte 0xff is not UTF-8"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, content: str | bytes, line: int | None, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, content)
    assert (caught.value.path, caught.value.line) == (str(tmp_path / "set.jsonl"), line)


finite = st.floats(-1e150, 1e150) | st.integers(-(2**53), 2**53).map(float) | st.sampled_from([0.1, 5e-324])
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
names = st.lists(any_text.filter(bool), min_size=1, max_size=3, unique=True)


@examples(80)
@given(data=st.data(), packing=st.sampled_from(["", ".gz"]))
def test_written_sets_read_back_exactly(tmp_path: Path, data: st.DataObject, packing: str) -> None:
    list_ids = data.draw(st.lists(any_text.filter(bool), min_size=1, max_size=4, unique=True))
    offsets = np.cumsum([0, *(data.draw(st.integers(1, 3)) for _ in list_ids)])
    size = int(offsets[-1])
    feature_names = data.draw(names)
    statistic_names = data.draw(st.just(["loss"]) | names)

    def table(width: int) -> list[list[float]]:
        rows = st.lists(finite, min_size=width, max_size=width)
        return data.draw(st.lists(rows, min_size=size, max_size=size))

    texts = data.draw(st.none() | st.lists(any_text, min_size=size, max_size=size))
    nbest = NBest(
        table(len(feature_names)), offsets, table(len(statistic_names)), feature_names, list_ids, statistic_names, texts
    )
    path = tmp_path / f"set.jsonl{packing}"
    write_best_of_n(nbest, path)
    again = read_best_of_n(path)
    assert again.fingerprint == nbest.fingerprint
    assert again.texts == nbest.texts
    written = path.read_bytes()
    write_best_of_n(again, path)
    assert path.read_bytes() == written


def test_written_lines_are_the_documented_ones(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    write_best_of_n(NBest([[1.0, 0.5]], [0, 1], [2.0], ["a", "b"], ["x"], texts=["é"]), path)
    expected = {"id": "x", "candidates": [{"text": "é", "scores": {"a": 1, "b": 0.5}, "loss": 2}]}
    assert [json.loads(line) for line in path.read_text().splitlines()] == [expected]


def test_cut_off_surrogates_in_texts_are_kept(tmp_path: Path) -> None:
    nbest = read(tmp_path, GOOD.replace('"text": "x"', r'"text": "\ud83d"'))
    write_best_of_n(nbest, tmp_path / "again.jsonl")
    assert read_best_of_n(tmp_path / "again.jsonl").texts == nbest.texts == ("\ud83d",)


@examples(300)
@given(data=st.data())
def test_mutated_sets_give_lists_or_data_errors(tmp_path: Path, data: st.DataObject) -> None:
    packed = data.draw(st.booleans())
    pieces = b'" , \n \r\n { ] \0 1e400 NaN \xff - null'.split(b" ")
    content = gzip.compress(SET.encode(), mtime=0) if packed else SET.encode()
    mutated = damaged(data, content, [b"", b"9" * 5000, *pieces], longest=5)
    nbest = read_or_refused(tmp_path / "set.jsonl", lambda: read(tmp_path, mutated))
    if nbest is not None:
        plain = gzip.decompress(mutated) if packed else mutated
        sizes = [len(json.loads(line)["candidates"]) for line in plain.removeprefix(b"\xef\xbb\xbf").splitlines()]
        assert np.diff(nbest.offsets).tolist() == sizes
        assert np.isfinite(nbest.dense_features()).all()
