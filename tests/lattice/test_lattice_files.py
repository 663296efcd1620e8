"""Whole lattices from files: read in bulk or line by line with one outcome, from folders and archives, or refused."""

import gzip
import io
import tarfile
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import damaged, examples, read_or_refused
from shared import ROOT

import lpmert
from lpmert import DataError
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
