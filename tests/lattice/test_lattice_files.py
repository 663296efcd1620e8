"""Whole lattices from files, in bulk or line by line with one outcome, and on the command line."""

import gzip
import io
import json
import tarfile
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from commands import json_of, loss_of, refusal, run, succeeded
from hypothesis import given
from hypothesis import strategies as st
from mutations import damaged, examples, read_or_refused
from shared import ROOT

import lpmert
from lpmert import DataError, Region
from lpmert.formats import slf
from lpmert.formats.graphs import GraphText
from lpmert.formats.lattices import load_lattices

SPEECH = ROOT / "examples" / "speech"

REGULAR = """VERSION=1.0
UTTERANCE=one
lmscale=9.5 start=0
end=4
N=5 L=6
I=0 W=!SENT_START r=-0.25
I=1 W=the
I=2 W=cat
I=3 W=cut(2)
I=4 W=!SENT_END
J=0 S=0 E=1 a=-34.609 l=0.0000 p=0.5
J=1 S=1 E=2 a=-32.75 l=-1.5 p=1
J=2\tS=1  E=3 a=-31.25 l=+2 p=0
J=3 S=2 E=4 a=-8. l=-.5 p=.1
J=4 S=3 E=4 a=-9 l=0 p=1
J=5 S=0 E=2 a=-60 l=-7 p=0
"""


def links(parts: slf.Links) -> list[tuple[object, ...]]:
    words = [parts.vocabulary[place] for place in parts.words.tolist()]
    scores = [dict(zip(parts.scores, row, strict=True)) for row in zip(*parts.scores.values(), strict=True)]
    return list(zip(parts.sources.tolist(), parts.targets.tolist(), words, scores, strict=True))


def same_both_ways(text: str) -> None:
    plain = slf._plain(GraphText("x", text))
    in_bulk, by_line = slf._links(*plain), slf._links(*slf._careful(GraphText("x", text)))
    assert links(in_bulk) == links(by_line)
    assert (in_bulk.start, in_bulk.end) == (by_line.start, by_line.end)


@pytest.mark.parametrize(
    "text",
    [
        REGULAR,
        REGULAR.replace("VERSION", "base=10\nVERSION"),
        REGULAR.replace("a=-9", "a=-1e2"),
        REGULAR.replace(" r=-0.25", ""),
        REGULAR.replace(" r=-0.25", "").replace("W=!SENT_START", "W='em"),
        REGULAR.replace(" r=-0.25", "").replace("W=!SENT_START", "W=!'SENT_START'"),
        REGULAR.replace("W=!SENT_START", "W='!SENT_START'"),
        REGULAR.replace("W=!SENT_START", "W=\\141"),
        REGULAR.replace("VERSION", "dir=b\nVERSION"),
        REGULAR.replace("N=5 L=6", "NODES=5\tLINKS=6"),
        REGULAR.replace(" l=", " language="),
        REGULAR.replace("the", "thé"),
        REGULAR.rstrip("\n"),
    ],
)
def test_regular_files_are_read_in_bulk_as_they_are_line_by_line(text: str) -> None:
    same_both_ways(text)


def test_the_example_lattices_are_regular_or_read_line_by_line() -> None:
    for path in sorted((SPEECH / "lattices").iterdir()):
        text = gzip.decompress(path.read_bytes()).decode()
        if slf._plain(GraphText(path, text)) is not None:
            same_both_ways(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("J=2\tS=1  E=3 a=-31.25", "J=2 E=3 S=1 a=-31.25"),  # another order of the fields
        ("J=2\tS=1  E=3", "J=3\tS=1  E=3"),
        ("S=3 E=4 a=-9", "S=3 E=9 a=-9"),
        ("a=-9 l=0", "a=-9 l="),
        ("a=-9 l=0", "a=- 9 l=0"),
        ("a=-9 l=0", "a=-9l=0"),
        ("J=4 S=3", "J =4 S=3"),
        ("J=4 S=3", "J=4 S =3"),
        ("a=-9 l=0", "a=-9 1 l=0"),
        ("a=-9 l=0", "a= l=0 1"),
        ("a=-9 l=0", "a=1-9 l=0"),
        ("a=-9 l=0", "a=1.2.3 l=0"),
        ("a=-9", "a=nan"),
        ("a=-9", "a=" + "9" * 200),
        ("S=3 E=4 a=-9", "S=3.0 E=4 a=-9"),
        ("S=3 E=4 a=-9", "S=-3 E=4 a=-9"),
        ("J=4 S=3", "J=4 W=cat S=3"),
        ("J=4 S=3", "# J=4 S=3"),
        ("p=1\nJ=5", "p=1\n\nJ=5"),
        ("L=6", "L=7"),
        ("L=6", "L=6 L=6"),
        ("start=0", ""),
        ("W=!SENT_START", "L=x W=a"),
        ("I=1 ", "I=2 "),
        ("I=1 ", "I=0000000000000000001 "),
        ("VERSION", "base=0\nVERSION"),
    ],
)
def test_whatever_is_not_regular_is_left_to_the_reader_of_lines(old: str, new: str) -> None:
    text = REGULAR.replace("r=-0.25", "r=0.25").replace(old, new)
    assert slf._plain(GraphText("x", text)) is None


PIECES = (*b"J= S=1 E=9 a= = - 1 . 0 5 e # W=a \xff".split(), b" ", b"\n", b"\t", b"")


@examples(150)
@given(data=st.data())
def test_damaged_files_are_refused_or_read_in_bulk_as_they_are_line_by_line(
    data: st.DataObject, tmp_path: Path
) -> None:
    path = tmp_path / "x.slf"
    content = damaged(data, REGULAR.encode(), PIECES, cut=True)
    path.write_bytes(content)
    read_or_refused(path, lambda: load_lattices(path, {"x": "the cat"}), unless="lattice 'x'")
    try:
        text = content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        return
    try:
        regular = slf._plain(GraphText("x", text)) is not None
    except DataError:
        with pytest.raises(DataError):
            slf._careful(GraphText("x", text))
        return
    if regular:
        same_both_ways(text)


def test_paths_have_the_scores_of_the_lattice_and_the_words_that_are_spoken(tmp_path: Path) -> None:
    path = tmp_path / "x.slf"
    path.write_text(REGULAR)
    lattices = load_lattices(path, {"x": "the cut"}, counts={"starts": ["!SENT_START"]}, silent=["cat"], variants=True)
    assert lattices.names == ("acoustic", "lm", "pronunciation", "words", "starts")
    # by hand: a, l, r of the first node, spoken words, sentence starts
    paths = {
        (-34.609 - 32.75 - 8.0, -2.0, -0.25, 1.0, 1.0): 1,  # the (cat is silent)
        (-34.609 - 31.25 - 9.0, 2.0, -0.25, 2.0, 1.0): 0,  # the cut
        (-68.0, -7.5, -0.25, 0.0, 1.0): 2,  # nothing
    }
    for features, loss in paths.items():
        others = [other for other in paths if other != features]
        weights = next(
            w for w in product((-1.0, 0.5, 1.0), repeat=5) if all(np.dot(w, features) > np.dot(w, o) for o in others)
        )
        assert lpmert.evaluate(lattices, weights).loss == loss


def test_folders_archives_and_single_files_hold_the_same(tmp_path: Path) -> None:
    references = SPEECH / "text"
    folder = load_lattices(SPEECH / "lattices", references)
    files = sorted((SPEECH / "lattices").iterdir())
    assert load_lattices(files, references).fingerprint == folder.fingerprint
    with tarfile.open(tmp_path / "all.tar.xz", "w:xz") as archive:
        for path in reversed(files):
            data = gzip.decompress(path.read_bytes())
            entry = tarfile.TarInfo(f"inner/{path.name.removesuffix('.gz')}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    assert load_lattices(tmp_path / "all.tar.xz", references).fingerprint == folder.fingerprint
    table = tmp_path / "table.tsv"
    table.write_text("utterance\treference\n" + references.read_text().replace(" ", "\t", 0))
    with pytest.raises(DataError, match="no reference for utterance"):
        load_lattices(files, {"other": "x"})
    assert load_lattices(files[:1], table, partial=True).n_lists == 1
    with pytest.raises(DataError, match="no lattice for the reference"):
        load_lattices(files[:1], references)
    with pytest.raises(DataError, match="comes twice"):
        load_lattices([files[0], files[0]], references, partial=True)
    with pytest.raises(DataError, match="no lattices"):
        load_lattices([], references)


LATTICES, TEXT = ROOT / "examples/speech/lattices", ROOT / "examples/speech/text"
ON_LATTICES = (LATTICES, "--references", TEXT)
REGION = ("--fix", "acoustic=1", "--bounds", "lm:1..30,words:-20..20")
INSIDE = Region(fixed={"acoustic": 1.0}, bounds={"lm": (1.0, 30.0), "words": (-20.0, 20.0)})
WEIGHTS = {"acoustic": 1.0, "lm": 9.5, "words": 0.0}


def test_solve_proves_the_least_loss_of_all_paths_and_says_how_many_there_are() -> None:
    lattices = lpmert.load_lattices(LATTICES, TEXT)
    best = lpmert.minimize(lattices, region=INSIDE)
    files = sorted(LATTICES.iterdir())
    outcome = succeeded("solve", *files, "--references", TEXT, *REGION, "--json")
    found = json.loads(outcome.stdout)
    assert found["loss"] == found["lower_bound"] == best.loss
    assert found["fingerprint"] == lattices.fingerprint
    assert found["rates"]["error_rate"] == pytest.approx(best.loss / 86)  # words in the references
    digits = round(float(lattices.log10_paths.max()))
    assert f"u01.slf.gz and 11 more files: 12 lattices, 5,227 links, up to 10^{digits} paths each" in outcome.stderr
    shown = succeeded("solve", *ON_LATTICES, *REGION, "-v").stdout
    assert f"paths         5,227 links, up to 10^{digits} paths each; {best.counters['survivors']} may win" in shown


def test_n_best_makes_lists_of_lattices() -> None:
    options = ("--n-best", "20", "--scales", "lm=9.5,words=0")
    found = json_of("solve", *ON_LATTICES, *options, *REGION)
    lists = lpmert.read(LATTICES, references=TEXT, n_best=20, scales={"lm": 9.5, "words": 0.0})
    assert found["fingerprint"] == lists.fingerprint
    assert "may win in a cone" not in succeeded("solve", *ON_LATTICES, *options, *REGION).stdout


def test_check_and_evaluate_take_all_paths() -> None:
    lattices = lpmert.load_lattices(LATTICES, TEXT)
    loss = lpmert.evaluate(lattices, WEIGHTS).loss
    found = json_of("check", *ON_LATTICES, *REGION, "--weights", "1,9.5,0")
    assert (found["loss"], found["excess"]) == (loss, loss - found["optimum"]["loss"])
    found = json_of("evaluate", *ON_LATTICES, "--weights", "1,9.5,0")
    assert (found["loss"], found["fingerprint"]) == (loss, lattices.fingerprint)
    characters = json_of("evaluate", *ON_LATTICES, "--metric", "cer", "--weights", "1,9.5,0")
    assert characters["loss"] == lpmert.evaluate(lattices, WEIGHTS, metric="cer").loss > loss


@pytest.mark.parametrize("given", ["pairs", "file"])
def test_convert_writes_the_best_hypotheses_which_solve_opens(tmp_path: Path, given: str) -> None:
    path, scales = tmp_path / "best.tsv", "lm=9.5,acoustic=1,words=0"
    if given == "file":
        (tmp_path / "scales").write_text(scales.replace(",", "\n").replace("=", " "))
        scales = str(tmp_path / "scales")
    outcome = succeeded("convert", LATTICES, path, "--references", TEXT, "--scales", scales, "--n-best", "7")
    assert outcome.stdout == ""
    assert f"{path}: 12 lists, 84 hypotheses; features acoustic, lm, words; statistics loss" in outcome.stderr
    lists = lpmert.read(LATTICES, references=TEXT, n_best=7, scales={"lm": 9.5, "words": 0.0})
    assert lpmert.read(path).texts == lists.texts
    assert loss_of("solve", path, *REGION) == lpmert.minimize(lists, region=INSIDE).loss
    every = lpmert.load_lattices(LATTICES, TEXT)
    assert loss_of("evaluate", path, "--weights", "1,9.5,0") == lpmert.evaluate(every, WEIGHTS).loss


def test_words_are_counted_left_out_and_unified(tmp_path: Path) -> None:
    content = "N=4 L=4\nI=0\nI=1 W=<sil>\nI=2 W=the(2)\nI=3 W=um\n"
    content += "J=0 S=0 E=1 a=-1\nJ=1 S=1 E=2 a=-2\nJ=2 S=2 E=3 a=-3\nJ=3 S=0 E=2 a=-5\n"
    (tmp_path / "x.slf").write_text(content)
    (tmp_path / "text").write_text("x the\n")
    options = ("--references", tmp_path / "text", "--variants", "--silent", "um", "--counts", "silences=<sil>")
    out = tmp_path / "x.tsv"
    succeeded("convert", tmp_path / "x.slf", out, *options, "--scales", "acoustic=1,words=0", "--n-best", "3")
    lists = lpmert.read(out)
    assert (lists.names, lists.texts) == (("acoustic", "words", "silences"), ("the",))
    assert lists.dense_features().tolist() == [[-6.0, 1.0, 1.0]]
    found = json_of("solve", tmp_path / "x.slf", *options, "--features", "acoustic,words")
    assert list(found["weights"]) == ["acoustic", "words"]


def test_certificates_of_lattices_are_written_and_verified(tmp_path: Path) -> None:
    (tmp_path / "x.fst").write_text("0 1 the 1\n0 1 a 0.5\n1 2 cat 2\n1 2 cut 1.5\n2\n")
    (tmp_path / "y.fst").write_text("0 1 so 1\n0 2 no 2\n1 2 <eps> 0.25\n2\n")
    (tmp_path / "text").write_text("x the cut\ny no\n")
    files = (tmp_path / "x.fst", tmp_path / "y.fst", "--references", tmp_path / "text")
    proof = tmp_path / "proof.json"
    found = json_of("solve", *files, "--certificate", proof)
    verified = json_of("verify", proof, *files)
    assert verified["proved"]
    assert verified["lower_bound"] == found["loss"]
    (tmp_path / "text").write_text("x the cat\ny no\n")
    assert run("verify", proof, *files).exit_code == 5


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--scales", "lm=2"), 2, "--scales does not apply to whole lattices"),
        (("--loss", "errors"), 2, "--loss does not apply to whole lattices"),
        (("--deduplicate",), 2, "--deduplicate does not apply to whole lattices"),
        (("--segment", "utt"), 2, "--segment does not apply"),
        (("--scale", "am=1"), 2, "no feature 'am'"),
        (("--features", "am"), 1, "no feature 'am'"),
    ],
)
def test_what_whole_lattices_cannot_take_is_refused(arguments: tuple[str, ...], code: int, message: str) -> None:
    assert message in refusal("solve", *ON_LATTICES, *arguments, code=code)


def test_missing_references_and_wrong_data_are_told(tmp_path: Path) -> None:
    assert "--references is needed for reading slf" in refusal("solve", LATTICES, code=2)
    table = tmp_path / "lists.tsv"
    table.write_text("utt\tam\terrors\na\t1\t0\na\t2\t1\n")
    assert "--n-best does not apply to reading tsv" in refusal(
        "convert", table, tmp_path / "out.npz", "--segment", "utterance", "--loss", "errors", "--n-best", "3", code=2
    )
    mine = tmp_path / "x.slf"
    mine.write_bytes((LATTICES / "u01.slf.gz").read_bytes())
    outcome = run("convert", mine, mine, "--to", "moses", "--references", TEXT, "--partial", "--n-best", "3")
    assert outcome.exit_code != 0


def test_compare_takes_all_paths_and_says_which_methods_can() -> None:
    options = ("--methods", "random", "--set", "random.draws=5", "--seeds", "1", *REGION)
    found = json_of("compare", *ON_LATTICES, *options, "--weights", "mine=1,9.5,0")
    lattices = lpmert.load_lattices(LATTICES, TEXT)
    assert found["fingerprint"] == lattices.fingerprint
    assert [entry["name"] for entry in found["methods"]] == ["random(draws=5)", "mine"]
    assert found["methods"][1]["loss"]["best"] == lpmert.evaluate(lattices, WEIGHTS).loss
    assert found["optimum"]["loss"] == json_of("solve", *ON_LATTICES, *REGION)["loss"]
    refused = refusal("compare", *ON_LATTICES, "--methods", "och,grid")
    assert "'grid' needs N-best lists: make them with --n-best" in refused
