from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import damaged, examples, read_or_refused

from lpmert.errors import DataError
from lpmert.formats.srilm import read_list, read_srilm, write_srilm
from lpmert.formats.references import read_transcripts, utterance_files
from lpmert.model.nbest import NBest

FORM_1 = "NBestList1.0\n(-2500) the cat\n(-3000)\n"
FORM_2 = (
    "NBestList2.0\n"
    "(-30) the ( st: 0.0 et: 0.2 g: -3 a: -10 ) dh ( st: 0.0 et: 0.1 g: 0 a: -5 ) ax ( st: 0.1 et: 0.2 g: 0 a: -5 )"
    " cat ( st: 0.21 et: 0.5 g: -4 a: -13 )\n"
    "(-7) a ( st: 0.0 et: 0.5 g: -2 a: -5 )\n"
)
FORM_3 = "# made by hand\n-10.5 -3.25 2 the cat\n-12 -2e0 1 the <pause>\n-30 -1 0\n"
FORMS = {1: FORM_1, 2: FORM_2, 3: FORM_3}
REFERENCES = {"one": "the cat", "two": "a dog"}


def folder_with(tmp_path: Path, **contents: str | bytes) -> Path:
    folder = tmp_path / "lists"
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def test_form_3_has_the_numbers_of_the_file(tmp_path: Path) -> None:
    nbest = read_srilm(folder_with(tmp_path, one=FORM_3), {"one": "the cat"})
    assert nbest.names == ("acoustic", "lm", "words")
    assert nbest.dense_features().tolist() == [[-10.5, -3.25, 2], [-12, -2, 1], [-30, -1, 0]]
    assert nbest.texts == ("the cat", "the <pause>", "")
    assert nbest.statistics[:, 0].tolist() == [0, 1, 2]
    assert nbest.list_ids == ("one",)


def log10_of_bytelog(bytelog: int) -> float:
    """What the manual says: a logarithm to base 1.0001, divided by 1024. SRILM takes 10000.5 for 1 / ln 1.0001."""
    return bytelog * 1024 * math.log10(1.0001)


def test_bytelogs_become_logarithms_to_base_10(tmp_path: Path) -> None:
    nbest = read_srilm(folder_with(tmp_path, one=FORM_1), {"one": "the cat"})
    assert nbest.names == ("score", "words")
    expected = [[log10_of_bytelog(-2500), 2], [log10_of_bytelog(-3000), 0]]
    assert nbest.dense_features() == pytest.approx(np.array(expected), rel=1e-7)
    assert nbest.texts == ("the cat", "")


def test_phones_within_a_word_are_left_out_of_form_2(tmp_path: Path) -> None:
    nbest = read_srilm(folder_with(tmp_path, one=FORM_2), {"one": "a cat"})
    assert nbest.names == ("acoustic", "lm", "words")
    expected = [[log10_of_bytelog(-23), log10_of_bytelog(-7), 2], [log10_of_bytelog(-5), log10_of_bytelog(-2), 1]]
    assert nbest.dense_features() == pytest.approx(np.array(expected), rel=1e-7)
    assert nbest.texts == ("the cat", "a")
    assert nbest.statistics[:, 0].tolist() == [1, 1]


def test_scores_in_parentheses_are_form_1_without_its_header(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(FORM_1.partition("\n")[2])
    (tmp_path / "y").write_text(FORM_1)
    assert read_list(tmp_path / "x") == read_list(tmp_path / "y")


def test_folder_is_read_by_name_and_endings_are_not_part_of_the_utterance(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, **{"two.nbest.gz": gzip.compress(FORM_3.encode()), "one.score": FORM_3})
    (folder / ".hidden").write_text("x")
    assert [utterance for utterance, _ in utterance_files(folder)] == ["one", "two"]
    nbest = read_srilm(folder, REFERENCES)
    assert nbest.list_ids == ("one", "two")
    assert nbest.offsets.tolist() == [0, 3, 6]


def test_manifest_gives_order_and_names_with_paths_from_its_own_folder(tmp_path: Path) -> None:
    folder_with(tmp_path, **{"x.nbest": FORM_3, "one.nbest": FORM_3})
    manifest = tmp_path / "files.scp"
    manifest.write_text("two lists/x.nbest\nlists/one.nbest\n")
    assert read_srilm(manifest, REFERENCES).list_ids == ("two", "one")


@pytest.mark.parametrize(
    ("manifest", "line", "message"),
    [
        ("", None, "empty file; it must name at least one utterance"),
        ("one x\n\n", 2, "should be utterance and path"),
        ("one x y\n", 1, "should be utterance and path"),
        ("one x\ntwo y\none z\n", 3, "utterance 'one' comes twice, first on line 1"),
        ("one \0\n", 1, "should be utterance and path"),
    ],
)
def test_errors_of_a_manifest_name_the_line(tmp_path: Path, manifest: str, line: int | None, message: str) -> None:
    path = tmp_path / "manifest"
    path.write_text(manifest)
    with pytest.raises(DataError, match=message) as caught:
        utterance_files(path)
    assert (caught.value.path, caught.value.line) == (str(path), line)


def test_folders_that_cannot_be_lists_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the folder is empty"):
        utterance_files(folder_with(tmp_path))
    with pytest.raises(DataError, match="cannot be read: No such file"):
        utterance_files(tmp_path / "none")
    with pytest.raises(DataError, match=r"one\.gz and one\.txt would be the same utterance"):
        utterance_files(folder_with(tmp_path, **{"one.gz": "", "one.txt": ""}))


def test_references_are_kaldi_text_or_trn(tmp_path: Path) -> None:
    kaldi, trn = tmp_path / "text", tmp_path / "ref.trn"
    kaldi.write_text("one the cat\ntwo\nthree a\tb \n")
    trn.write_text("the cat (one)\n(two)\na\tb (three)\n")
    for path in (kaldi, trn):
        words = {utterance: text.split() for utterance, text in read_transcripts(path).items()}
        assert words == {"one": ["the", "cat"], "two": [], "three": ["a", "b"]}


def test_trn_lines_may_begin_with_the_same_word(tmp_path: Path) -> None:
    (tmp_path / "trn").write_text("the (one)\nthe (two)\n")
    assert list(read_transcripts(tmp_path / "trn")) == ["one", "two"]


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("", None, "empty file"),
        ("one a\n\n", 2, "empty line"),
        ("one a\n two b\n", 2, "white space before the key"),
        ("one a\ntwo b\none c\n", 3, "'one' comes twice, first on line 1"),
        ("a (one)\nb (one)\n", 2, "'one' comes twice, first on line 1"),
    ],
)
def test_errors_of_references_name_the_line(tmp_path: Path, content: str, line: int | None, message: str) -> None:
    (tmp_path / "text").write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        read_transcripts(tmp_path / "text")
    assert (caught.value.path, caught.value.line) == (str(tmp_path / "text"), line)


def test_lists_and_references_must_be_of_the_same_utterances(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, one=FORM_3)
    with pytest.raises(DataError, match="no reference for utterance 'one'"):
        read_srilm(folder, {"two": "a dog"}, partial=True)
    with pytest.raises(DataError, match=r"no list for the reference of 'two'.*partial=True"):
        read_srilm(folder, REFERENCES)
    assert read_srilm(folder, REFERENCES, partial=True).list_ids == ("one",)


def test_metric_may_be_another_than_word_errors(tmp_path: Path) -> None:
    nbest = read_srilm(folder_with(tmp_path, one="-1 -2 1 cat\n"), {"one": "cut"}, metric="cer")
    assert nbest.statistics.tolist() == [[1]]


def test_files_of_other_features_are_refused_by_name(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, one=FORM_3, two=FORM_1)
    with pytest.raises(DataError, match="two: form 1, but the files before have the features acoustic, lm, words"):
        read_srilm(folder, REFERENCES)


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("", None, "no hypotheses"),
        ("# only a comment\n", None, "no hypotheses"),
        ("NBestList1.0\n", None, "no hypotheses"),
        ("-1 -2 1 a\n\n-1 -2 1 a\n", 2, "empty line"),
        ("-1 -2\n", 1, "too short"),
        ("# x\n-1 x 1 a\n", 2, "lm score is 'x', not a number"),
        ("-1 -2 1.0 a\n", 1, "number of words is '1.0', not a count"),
        ("-1 -2 -1 a\n", 1, "number of words is '-1', not a count"),
        ("-1 -2 3 a b\n", 1, "3 words announced, but only 2 found"),
        ("-1 1e400 1 a\n", 1, "lm score is '1e400', not a finite number"),
        ("-inf -2 1 a\n", 1, "acoustic score is '-inf', not a finite number"),
        ("nan -2 1 a\n", 1, "acoustic score is 'nan', not a finite number"),
        ("1e151 -2 1 a\n", 1, "beyond 1e[+]150"),
        ("1_0 -2 1 a\n", 1, "not a number"),
        ("NBestList1.0\n-5 a\n", 2, "'-5' should be a score in parentheses"),
        ("NBestList1.0\n(x) a\n", 2, "score is 'x', not a number"),
        ("(-1) a\n-1 -2 1 a\n", 2, "'-1' should be a score in parentheses"),
        ("NBestList2.0\n(-3) a ( st: 0 et: 1 g: -1 a: -2\n", 2, "should be: word"),
        ("NBestList2.0\n(-3) a ( st: 0 et: 1 g: -1 b: -2 )\n", 2, "should be: word"),
        ("NBestList2.0\n(-3) a ( st: 0 et: x g: -1 a: -2 )\n", 2, "end of 'a' is 'x', not a number"),
        ("NBestList2.0\n-3 a ( st: 0 et: 1 g: -1 a: -2 )\n", 2, "should be a score in parentheses"),
    ],
)
def test_errors_of_a_list_name_file_and_line(tmp_path: Path, content: str, line: int | None, message: str) -> None:
    folder = folder_with(tmp_path, one=content)
    with pytest.raises(DataError, match=message) as caught:
        read_srilm(folder, {"one": "a"})
    assert (caught.value.path, caught.value.line) == (str(folder / "one"), line)


def test_multiwords_may_count_as_their_parts(tmp_path: Path) -> None:
    nbest = read_srilm(folder_with(tmp_path, one="-1 -2 3 going_to go\n"), {"one": "x"})
    assert nbest.dense_features().tolist() == [[-1, -2, 3]]


word = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=" "), min_size=1, max_size=4)
words = st.lists(word, max_size=4).map(" ".join)
finite = st.floats(-1e150, 1e150) | st.integers(-(2**53), 2**53).map(float) | st.sampled_from([0.1, 5e-324])


@examples(40)
@given(data=st.data(), form=st.sampled_from([1, 3]))
def test_written_lists_read_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, form: int
) -> None:
    list_ids = data.draw(st.lists(st.text("abz0.-_", min_size=1, max_size=6), min_size=1, max_size=3, unique=True))
    list_ids = [f"u{list_id}" for list_id in list_ids]
    texts = [data.draw(st.lists(words, min_size=1, max_size=3)) for _ in list_ids]
    flat = [text for hypotheses in texts for text in hypotheses]
    if form == 3:
        rows = [[data.draw(finite), data.draw(finite), len(text.split(" ")) if text else 0] for text in flat]
        names = ["acoustic", "lm", "words"]
    else:
        bytelogs = st.integers(-(10**9), 10**9)
        rows = [[number_of(data.draw(bytelogs)), len(text.split(" ")) if text else 0] for text in flat]
        names = ["score", "words"]
    nbest = NBest(rows, np.cumsum([0, *map(len, texts)]), np.zeros(len(flat)), names, list_ids, texts=flat)
    folder = tmp_path_factory.mktemp("lists")
    write_srilm(nbest, folder, form=form)
    again = read_srilm(folder, dict.fromkeys(list_ids, ""))
    assert (again.names, again.list_ids, again.texts) == (nbest.names, nbest.list_ids, nbest.texts)
    assert again.offsets.tolist() == nbest.offsets.tolist()
    assert again.dense_features().tolist() == nbest.dense_features().tolist()
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    write_srilm(again, folder, form=form)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == written


def number_of(bytelog: int) -> float:
    """Return a score that is the image of a bytelog, as SRILM computes it."""
    return bytelog * (1024.0 / 10000.5 / math.log(10))


def test_what_the_forms_cannot_hold_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    names = ["acoustic", "lm", "words"]

    def lists(**changes: object) -> NBest:
        given_: dict[str, object] = {"names": names, "texts": ["a b"], "list_ids": ["x"]}
        return NBest([[-1.0, -2.0, 2.0]], [0, 1], [0.0], **{**given_, **changes})  # type: ignore[arg-type]

    bytelog = NBest([[number_of(-5) + 1e-9, 2.0]], [0, 1], [0.0], ["score", "words"], ["x"], texts=["a b"])
    miscounted = NBest([[number_of(-5), 1.0]], [0, 1], [0.0], ["score", "words"], ["x"], texts=["a b"])
    for nbest, form, message in (
        (lists(), 2, "form 2 cannot be written"),
        (lists(), 1, "form 1 holds the features score, words"),
        (lists(names=["lm", "acoustic", "words"]), 3, "form 3 holds the features acoustic, lm, words"),
        (lists(texts=None), 3, "and texts"),
        (lists(texts=["a  b"]), 3, "single spaces"),
        (lists(texts=["a\nb"]), 3, "single spaces"),
        (lists(list_ids=["a/b"]), 3, "cannot be a file name"),
        (lists(list_ids=["a b"]), 3, "cannot be a file name"),
        (bytelog, 1, "form 1 needs a score from a whole bytelog"),
        (miscounted, 1, "'a b' with .*words 1; form 1 needs .* the number of words"),
        (
            NBest([[-1.0, -2.0, 2.5]], [0, 1], [0.0], names, ["x"], texts=["a b c"]),
            3,
            "a number of words that is there",
        ),
        (NBest([[-1.0, -2.0, 3.0]], [0, 1], [0.0], names, ["x"], texts=["a b"]), 3, "a number of words that is there"),
    ):
        with pytest.raises(DataError, match=message):
            write_srilm(nbest, tmp_path / "lists", form=form)
    assert list(tmp_path.iterdir()) == []


@examples(300)
@given(data=st.data())
def test_mutated_lists_give_lists_or_data_errors(tmp_path: Path, data: st.DataObject) -> None:
    form = data.draw(st.sampled_from([1, 2, 3]))
    packed = data.draw(st.booleans())
    content = gzip.compress(FORMS[form].encode(), mtime=0) if packed else FORMS[form].encode()
    pieces = [b"", b" ", b"\n", b"\r\n", b"(", b")", b"\0", b"1e400 ", b"nan", b"9" * 400, b"\xff", b"_"]
    mutated = damaged(data, content, pieces)
    folder = folder_with(tmp_path, one=mutated)
    nbest = read_or_refused(folder / "one", lambda: read_srilm(folder, {"one": "the cat"}))
    if nbest is not None:
        assert np.isfinite(nbest.dense_features()).all()
        lines = mutated if not packed else gzip.decompress(bytes(mutated))
        hypotheses = [line for line in lines.splitlines() if line[:1] != b"#"]
        assert nbest.n_hypotheses in (len(hypotheses), len(hypotheses) - 1)


@pytest.mark.parametrize("form", [1, 2, 3])
def test_byte_order_mark_and_crlf_are_accepted(tmp_path: Path, form: int) -> None:
    plain = read_srilm(folder_with(tmp_path, one=FORMS[form]), {"one": "x"})
    windows = b"\xef\xbb\xbf" + FORMS[form].replace("\n", "\r\n").encode()
    nbest = read_srilm(folder_with(tmp_path, one=windows), {"one": "x"})
    assert nbest.fingerprint == plain.fingerprint
    assert nbest.texts == plain.texts


def test_damaged_compression_is_refused_by_name(tmp_path: Path) -> None:
    packed = gzip.compress(FORM_3.encode())
    for broken in (packed[:-1], packed[: len(packed) // 2], packed + packed[:7]):
        with pytest.raises(DataError, match=r"one: the compressed file is damaged or ends early"):
            read_srilm(folder_with(tmp_path, one=broken), {"one": "x"})


@examples(150)
@given(data=st.data(), which=st.sampled_from(["manifest", "text"]))
def test_mutated_manifests_and_references_give_all_or_data_errors(
    tmp_path: Path, data: st.DataObject, which: str
) -> None:
    folder = folder_with(tmp_path, a=FORM_3, b=FORM_3)
    contents = {"manifest": b"one a\ntwo b\n", "text": b"one the cat\ntwo a dog\n"}
    pieces = [b"", b" ", b"\n", b"\r\n", b"/", b"..", b"\0", b"(one)", b"\xff", b"x" * 300]
    mutated = damaged(data, contents[which], pieces, most=2, longest=5)
    for name, content in {**contents, which: mutated}.items():
        (folder / name).write_bytes(content)
    try:
        nbest = read_srilm(folder, folder / "text", partial=True)
    except DataError as error:
        if error.path is None:
            pytest.fail(f"no path in {str(error)!r}")
    else:
        entries = (folder / "manifest").read_bytes().removesuffix(b"\n").split(b"\n")  # a lone CR ends no line
        assert nbest.n_lists == len(entries)
        assert nbest.n_hypotheses == 3 * len(entries)
