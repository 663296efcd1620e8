from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import damaged, examples, read_or_refused

from lpmert.errors import DataError
from lpmert.formats.scores import read_espnet, read_scores, write_scores
from lpmert.model.nbest import NBest

AM = "one-1 -10.5\none-2 -11\ntwo-x-1 -3e0\n"
LM = "two-x-1\t-1\none-1   -2 \none-2 -4\n"
TEXT = "one-2 the cut\none-1 the cat\ntwo-x-1\n"
REFERENCES = {"one": "the cat", "two-x": "a dog"}


def files(tmp_path: Path, **contents: str | bytes) -> dict[str, Path]:
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return {name: tmp_path / name for name in contents}


def read(tmp_path: Path, am: str | bytes = AM, lm: str = LM, text: str = TEXT) -> NBest:
    paths = files(tmp_path, am=am, lm=lm, text=text)
    return read_scores({"am": paths["am"], "lm": paths["lm"]}, texts=paths["text"], references=REFERENCES)


def test_files_are_joined_by_key_in_the_order_of_the_first(tmp_path: Path) -> None:
    nbest = read(tmp_path)
    assert nbest.names == ("am", "lm")
    assert nbest.list_ids == ("one", "two-x")
    assert nbest.dense_features().tolist() == [[-10.5, -2], [-11, -4], [-3, -1]]
    assert nbest.texts == ("the cat", "the cut", "")
    assert nbest.statistics[:, 0].tolist() == [0, 1, 2]


def test_lists_may_lie_apart(tmp_path: Path) -> None:
    paths = files(tmp_path, am="b-1 1\na-1 2\nb-0 3\n", errors="a-1 4\nb-0 5\nb-1 6\n")
    nbest = read_scores({"am": paths["am"]}, losses={"errors": paths["errors"]})
    assert nbest.list_ids == ("b", "a")
    assert nbest.dense_features()[:, 0].tolist() == [1, 3, 2]
    assert nbest.statistics[:, 0].tolist() == [6, 5, 4]
    assert nbest.statistic_names == ("errors",)
    assert nbest.texts is None


def test_separator_may_be_another(tmp_path: Path) -> None:
    paths = files(tmp_path, am="a-b_nbest3 1\na-b_nbest4 2\n", errors="a-b_nbest4 4\na-b_nbest3 5\n")
    nbest = read_scores({"am": paths["am"]}, losses={"errors": paths["errors"]}, separator="_nbest")
    assert nbest.list_ids == ("a-b",)


def test_byte_order_mark_crlf_and_compression_are_accepted(tmp_path: Path) -> None:
    plain = read(tmp_path)
    windows = gzip.compress(b"\xef\xbb\xbf" + AM.replace("\n", "\r\n").encode())
    assert read(tmp_path, am=windows).fingerprint == plain.fingerprint


@pytest.mark.parametrize(
    ("changes", "file", "line", "message"),
    [
        ({"am": ""}, "am", None, "empty file"),
        ({"lm": "one-1 1\n"}, "am", 2, "key 'one-2' is missing in .*lm"),
        ({"lm": LM + "two-x-2 1\n"}, "lm", 4, "key 'two-x-2' is missing in .*am"),
        ({"text": "one-2 the cut\ntwo-x-1\n"}, "am", 1, "key 'one-1' is missing in .*text"),
        ({"text": TEXT + "one-3 a\n"}, "text", 4, "key 'one-3' is missing in .*am"),
        ({"lm": LM + "one-1 1\n"}, "lm", 4, "'one-1' comes twice, first on line 2"),
        ({"text": TEXT + "one-1 a\n"}, "text", 4, "'one-1' comes twice, first on line 2"),
        ({"am": "one-1 1\n\none-2 1\n"}, "am", 2, "empty line"),
        ({"am": "one-1 1\n one-2 1\n"}, "am", 2, "white space before the key"),
        ({"am": AM.replace("-11", "x")}, "am", 2, "score of 'one-2' is 'x', not a number"),
        ({"am": AM.replace("-11", "-11 -12")}, "am", 2, "score of 'one-2' is '-11 -12', not a number"),
        ({"am": AM.replace(" -11", "")}, "am", 2, "score of 'one-2' is '', not a number"),
        ({"am": AM.replace("-11", "nan")}, "am", 2, "score of 'one-2' is 'nan', not a finite number"),
        ({"am": AM.replace("-11", "1e400")}, "am", 2, "score of 'one-2' is '1e400', not a finite number"),
        ({"lm": LM.replace("-4", "-1e151")}, "lm", 3, "beyond 1e[+]150"),
        ({"am": "one 1\n", "lm": "one 1\n", "text": "one a\n"}, "am", 1, "key 'one' is not list id, '-', number"),
        ({"am": "one- 1\n", "lm": "one- 1\n", "text": "one- a\n"}, "am", 1, "key 'one-' is not list id"),
        ({"am": b"one-1 1\none-2 \xff\n"}, "am", 2, "byte 0xff is not UTF-8"),
    ],
)
def test_errors_name_file_and_line(
    tmp_path: Path, changes: dict[str, str | bytes], file: str, line: int | None, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, **changes)  # type: ignore[arg-type]
    assert (caught.value.path, caught.value.line) == (str(tmp_path / file), line)


def test_arguments_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    am = {"am": files(tmp_path, am=AM)["am"]}
    with pytest.raises(DataError, match=r"either references .* or losses"):
        read_scores(am)
    with pytest.raises(DataError, match=r"either references .* or losses"):
        read_scores(am, texts=tmp_path / "am", references=REFERENCES, losses=am)
    with pytest.raises(DataError, match="word errors need texts"):
        read_scores(am, references=REFERENCES)
    with pytest.raises(DataError, match="scores names no file"):
        read_scores({}, losses=am)
    with pytest.raises(DataError, match="losses names no file"):
        read_scores(am, losses={})


def test_lists_and_references_must_be_of_the_same_utterances(tmp_path: Path) -> None:
    paths = files(tmp_path, am="one-1 1\n", text="one-1 a\n")
    scores = {"am": paths["am"]}
    with pytest.raises(DataError, match="no list for the reference of 'two-x'"):
        read_scores(scores, texts=paths["text"], references=REFERENCES)
    assert read_scores(scores, texts=paths["text"], references=REFERENCES, partial=True).n_lists == 1
    with pytest.raises(DataError, match="no reference for utterance 'one'"):
        read_scores(scores, texts=paths["text"], references={"x": "a"}, partial=True)


finite = st.floats(-1e150, 1e150) | st.integers(-(2**53), 2**53).map(float) | st.sampled_from([0.1, 5e-324])
line_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), max_size=8)
key_text = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=" "), min_size=1, max_size=5)


@examples(60)
@given(data=st.data(), separator=st.sampled_from(["-", "_nbest", "--", "é"]))
def test_written_files_read_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, separator: str
) -> None:
    list_ids = data.draw(st.lists(key_text, min_size=1, max_size=4, unique=True))
    offsets = np.cumsum([0, *(data.draw(st.integers(1, 3)) for _ in list_ids)])
    size = int(offsets[-1])
    rows = st.lists(st.tuples(finite, finite), min_size=size, max_size=size)
    texts = data.draw(st.none() | st.lists(line_text, min_size=size, max_size=size))
    nbest = NBest(data.draw(rows), offsets, data.draw(rows), ["am", "l m"], list_ids, ["match", "total"], texts)
    folder = tmp_path_factory.mktemp("scores")
    write_scores(nbest, folder, separator=separator)
    again = read_scores(
        {name: folder / name for name in nbest.names},
        texts=None if texts is None else folder / "text",
        losses={name: folder / name for name in nbest.statistic_names},
        separator=separator,
    )
    assert again.fingerprint == nbest.fingerprint
    assert again.texts == nbest.texts


def test_what_the_files_cannot_hold_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    def nbest(**changes: object) -> NBest:
        return NBest([[1.0], [2.0]], [0, 2], [0, 1], **changes)  # type: ignore[arg-type]

    for bad, separator, message in (
        (nbest(texts=["x", "y\nz"]), "-", "line end"),
        (nbest(names=["a/b"]), "-", "cannot be the name of a file"),
        (nbest(names=[".."]), "-", "cannot be the name of a file"),
        (nbest(names=["am.gz"]), "-", "cannot be the name of a file"),
        (nbest(names=["loss"]), "-", "cannot be the name of a file"),
        (nbest(names=["text"], texts=["x", "y"]), "-", "cannot be the name of a file"),
        (nbest(list_ids=["a b"]), "-", "white space"),
        (nbest(), " ", "separator ' ' cannot"),
        (nbest(), "", "separator '' cannot"),
        (nbest(), "-1", "separator '-1' cannot"),
    ):
        with pytest.raises(DataError, match=message):
            write_scores(bad, tmp_path / "out", separator=separator)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out").write_text("")
    with pytest.raises(DataError, match="out: cannot be written: File exists"):
        write_scores(nbest(), tmp_path / "out")


def espnet(folder: Path, ranks: dict[int, tuple[str, str]]) -> None:
    for rank, (score, text) in ranks.items():
        place = folder / f"{rank}best_recog"
        place.mkdir(parents=True)
        (place / "score").write_text(score)
        (place / "text").write_text(text)
        (place / "token").write_text("not looked at")


def test_espnet_folders_become_lists(tmp_path: Path) -> None:
    espnet(
        tmp_path,
        {
            1: ("one tensor(-1.5)\ntwo-x -3\n", "one the cat\ntwo-x dog\n"),
            2: ("one tensor(-2.5, device='cuda:0')\n", "one the cut\n"),
        },
    )
    nbest = read_espnet(tmp_path, REFERENCES)
    assert nbest.names == ("score", "words")
    assert nbest.list_ids == ("one", "two-x")
    assert nbest.offsets.tolist() == [0, 2, 3]
    assert nbest.dense_features().tolist() == [[-1.5, 2], [-2.5, 2], [-3, 1]]
    assert nbest.statistics[:, 0].tolist() == [0, 1, 1]
    assert nbest.texts == ("the cat", "the cut", "dog")


def test_ten_espnet_hypotheses_are_ranked_by_number(tmp_path: Path) -> None:
    espnet(tmp_path, {rank: (f"one -{rank}\n", "one a\n") for rank in range(1, 12)})
    nbest = read_espnet(tmp_path, {"one": "a"})
    assert nbest.dense_features()[:, 0].tolist() == [-float(rank) for rank in range(1, 12)]


def test_jobs_of_espnet_are_joined(tmp_path: Path) -> None:
    espnet(tmp_path / "output.1", {1: ("one -1\n", "one a\n")})
    espnet(tmp_path / "output.2", {1: ("two-x -1\n", "two-x a\n"), 2: ("two-x -2\n", "two-x a\n")})
    nbest = read_espnet(tmp_path, REFERENCES)
    assert nbest.list_ids == ("one", "two-x")
    assert nbest.offsets.tolist() == [0, 1, 3]


@pytest.mark.parametrize("scores", ["score", ()])
def test_names_of_espnet_scores_must_be_a_sequence(tmp_path: Path, scores: str | tuple[str, ...]) -> None:
    with pytest.raises(DataError, match=r"scores must be a sequence|scores names no file"):
        read_espnet(tmp_path, REFERENCES, scores=scores)


@pytest.mark.parametrize(
    ("ranks", "file", "line", "message"),
    [
        ({}, "", None, "no folders 1best_recog"),
        ({1: ("one 1\n", "one a\n"), 3: ("one 1\n", "one a\n")}, "", None, "no folder 2best_recog, but one for 3"),
        (
            {1: ("a 1\n", "a a\n"), 2: ("one 1\n", "one a\n")},
            "2best_recog/text",
            1,
            "utterance 'one' has hypothesis 2 but 0 before",
        ),
        ({1: ("one 1\n", "one a\ntwo b\n")}, "1best_recog/text", 2, "key 'two' is missing in .*score"),
        ({1: ("one 1\ntwo 1\n", "one a\n")}, "1best_recog/score", 2, "key 'two' is missing in .*text"),
        ({1: ("one tensor(x)\n", "one a\n")}, "1best_recog/score", 1, "score of 'one' is 'x', not a number"),
        ({1: ("one tensor([1])\n", "one a\n")}, "1best_recog/score", 1, "not a number"),
    ],
)
def test_errors_of_espnet_folders_name_the_place(
    tmp_path: Path, ranks: dict[int, tuple[str, str]], file: str, line: int | None, message: str
) -> None:
    espnet(tmp_path, ranks)
    with pytest.raises(DataError, match=message) as caught:
        read_espnet(tmp_path, REFERENCES)
    assert (caught.value.path, caught.value.line) == (str(tmp_path / file) if file else str(tmp_path), line)


@examples(300)
@given(data=st.data())
def test_mutated_files_give_all_lists_or_data_errors(tmp_path: Path, data: st.DataObject) -> None:
    contents = {"am": AM, "lm": LM, "text": TEXT}
    which = data.draw(st.sampled_from(list(contents)))
    packed = data.draw(st.booleans())
    content = gzip.compress(contents[which].encode(), mtime=0) if packed else contents[which].encode()
    pieces = [b"", b" ", b"\n", b"\r\n", b"-", b"\0", b"1e400", b"nan", b"9" * 400, b"\xff", b"_"]
    paths = files(tmp_path, **{**contents, which: damaged(data, content, pieces)})
    nbest = read_or_refused(
        tmp_path,
        lambda: read_scores(
            {"am": paths["am"], "lm": paths["lm"]}, texts=paths["text"], references=REFERENCES, partial=True
        ),
        unless="no reference for utterance",
    )
    if nbest is not None:
        assert nbest.n_hypotheses == 3
        assert np.isfinite(nbest.dense_features()).all()


@examples(150)
@given(data=st.data())
def test_mutated_espnet_folders_give_all_lists_or_data_errors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("decode")
    espnet(folder, {1: ("one tensor(-1.5)\ntwo-x -3\n", "one the cat\ntwo-x dog\n"), 2: ("one -2\n", "one the cut\n")})
    path = (
        folder
        / data.draw(st.sampled_from(["1best_recog", "2best_recog"]))
        / data.draw(st.sampled_from(["score", "text"]))
    )
    pieces = [b"", b" ", b"\n", b"(", b",", b"\0", b"1e400", b"nan", b"\xff", b"tensor(1)"]
    path.write_bytes(damaged(data, path.read_bytes(), pieces, most=1))
    nbest = read_or_refused(
        folder, lambda: read_espnet(folder, REFERENCES, partial=True), unless="no reference for utterance"
    )
    if nbest is not None:
        assert nbest.n_hypotheses == 3
        assert np.isfinite(nbest.dense_features()).all()
