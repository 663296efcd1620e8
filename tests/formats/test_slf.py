"""Lattices in HTK's format: words, scores and scales as the HTK Book has them, and the lists of their best paths."""

from __future__ import annotations

import gzip
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import examples

import lpmert
from lpmert.errors import DataError
from lpmert.formats.graphs import GraphText
from lpmert.formats.lattices import read_lattices
from lpmert.formats.slf import slf_lattices

REST = "I=0\nI=1\nJ=0 S=0 E=1 W=x a=-1\n"
ON_LINKS = """# made by hand, after the HTK book
VERSION=1.1
UTTERANCE=one
lmscale=2.00  wdpenalty=-0.50
acscale=1.00
N=4   L=5
I=0 t=0.00
I=1 t=0.20
I=2 t=0.40
I=3 t=0.60
J=0 S=0 E=1 W=the v=1 a=-10.0 l=-1.0
J=1 S=0 E=1 W=a v=0 a=-10.5 l=-1.0
J=2 S=1 E=2 W=cat v=0 a=-20 l=-2
J=3 S=1 E=2 W=cut v=0 a=-19 l=-3
J=4 S=2 E=3 W=!NULL v=0 a=-1 l=-0.5
"""
ON_NODES = """VERSION=1.0
start=4
end=0
N=5\tL=6
I=0\tt=0.60\tW=!SENT_END\tv=1
I=1\tt=0.20\tW=cat\tv=1
I=2\tt=0.20\tW=cut\tv=2
I=3\tt=0.00\tW=the\tv=1
I=4\tt=0.00\tW=!SENT_START\tv=1
J=0\tS=4\tE=3\ta=-1.0\tp=0.5
J=1\tS=3\tE=1\ta=-2.5\tp=0.5
J=2\tS=3\tE=2\ta=-2.0\tp=1e-300
J=3\tS=1\tE=0\ta=-3.0\tp=0.5
J=4\tS=2\tE=0\ta=-4.0\tp=0
J=5\tS=4\tE=1\ta=-5.0\tp=0.1
"""


def put(folder: Path, content: str) -> Path:
    path = folder / "x.slf"
    path.write_text(content)
    return path


def hypotheses(path: Path, n: int = 100, **more: Any) -> list[tuple[str, dict[str, float]]]:
    """Texts and features, but for those that are 0, of the n best hypotheses of a lattice."""
    lists = read_lattices(path, {"x": ""}, n_best=n, **more)
    assert lists.texts is not None
    rows = [dict(zip(lists.names, row, strict=True)) for row in lists.dense_features().tolist()]
    return [(text, {k: v for k, v in row.items() if v}) for text, row in zip(lists.texts, rows, strict=True)]


def test_words_and_scores_of_links(tmp_path: Path) -> None:
    lattice = put(tmp_path, ON_LINKS)
    assert hypotheses(lattice) == [  # with the scales of the header: -38, -38.5, -39, -39.5; both words cost the same
        ("the cat", {"acoustic": -31, "lm": -3.5, "words": 2}),
        ("a cat", {"acoustic": -31.5, "lm": -3.5, "words": 2}),
        ("the cut", {"acoustic": -30, "lm": -4.5, "words": 2}),
        ("a cut", {"acoustic": -30.5, "lm": -4.5, "words": 2}),
    ]
    assert [words for words, _ in hypotheses(lattice, scales={"lm": 0})] == ["the cut", "a cut", "the cat", "a cat"]
    assert [words for words, _ in hypotheses(lattice, 1)] == ["the cat"]


def test_words_on_nodes_as_pocketsphinx_writes_them(tmp_path: Path) -> None:
    lattice = put(tmp_path, ON_NODES)
    assert hypotheses(lattice) == [
        ("the cat", {"acoustic": -6.5, "words": 2}),
        ("the cut", {"acoustic": -7, "words": 2}),
        ("cat", {"acoustic": -8, "words": 1}),
    ]
    assert [words for words, _ in hypotheses(lattice, scales={"words": -2.0})] == ["cat", "the cat", "the cut"]


def test_words_of_the_first_and_last_node_count_whatever_the_direction(tmp_path: Path) -> None:
    lines = "N=2 L=1\nI=0 W=one\nI=1 W=two\nJ=0 S=0 E=1 a=-1\n"
    for header in ("", "dir=f\n", "dir=b\n"):
        assert hypotheses(put(tmp_path, header + lines)) == [("one two", {"acoustic": -1, "words": 2})]
    assert hypotheses(put(tmp_path, "N=1 L=0\nI=0 W=yes\n")) == [("yes", {"words": 1})]


def test_scores_of_nodes_stand_for_those_that_links_lack(tmp_path: Path) -> None:
    lines = "N=3 L=2\nI=0\nI=1 W=x a=-1 l=-2\nI=2\nJ=0 S=0 E=1 a=-5\nJ=1 S=1 E=2 l=-7\n"
    assert hypotheses(put(tmp_path, lines)) == [("x", {"acoustic": -5, "lm": -9, "words": 1})]
    assert hypotheses(put(tmp_path, "dir=b\n" + lines)) == [("x", {"acoustic": -6, "lm": -7, "words": 1})]


def test_long_names_mean_the_same(tmp_path: Path) -> None:
    long = ON_LINKS
    for line in ON_LINKS.splitlines():
        if line.startswith(("N=", "J=")):
            new = line.replace("N=4", "NODES=4").replace("L=5", "LINKS=5").replace(" S=", " START=")
            new = new.replace(" E=", " END=").replace("W=", "WORD=").replace(" a=", " acoustic=")
            long = long.replace(line, new.replace(" l=", " language="))
    assert "WORD=cat" in long
    assert hypotheses(put(tmp_path, long)) == hypotheses(put(tmp_path, ON_LINKS))


@pytest.mark.parametrize(
    ("base", "shown", "expected"),
    [("2.718282", "-2", -2), ("10", "-2", -2 * math.log(10)), ("1.0001", "-2", -2 * math.log(1.0001)), ("1", "-2", -2)],
)
def test_logarithms_become_natural_ones(tmp_path: Path, base: str, shown: str, expected: float) -> None:
    lattice = put(tmp_path, f"base={base}\nwdpenalty={shown}\nN=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W=x a={shown}\n")
    ((_, graph),) = slf_lattices(GraphText(lattice, lattice.read_text()))
    assert graph.scores["acoustic"][0] == pytest.approx(expected, rel=1e-6)
    assert graph.scales["words"] == pytest.approx(expected, rel=1e-6)


def test_probabilities_become_logarithms(tmp_path: Path) -> None:
    lattice = put(tmp_path, "base=0\nN=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W=x a=0.25\n")
    ((_, graph),) = slf_lattices(GraphText(lattice, lattice.read_text()))
    assert graph.scores["acoustic"][0] == math.log(0.25)


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ('"the"', "the"),
        ("'the'", "the"),
        (r"\'em", "'em"),
        ("'em", "'em"),  # as PocketSphinx writes it
        ("'n'", "n"),
        ('"', '"'),
        (r"na\303\257ve", "naïve"),
        (r"a\\b", r"a\b"),
        (r"\"x", '"x'),
        ("naïve", "naïve"),
        ("a=b", "a=b"),
        ("#1", "#1"),
        ("x\u00a0y", "x\u00a0y"),
    ],
)
def test_words_are_unquoted_as_in_htk(tmp_path: Path, written: str, word: str) -> None:
    lattice = put(tmp_path, f"N=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W={written} a=-1\n")
    assert [text for text, _ in hypotheses(lattice)] == [word]


def test_paths_with_the_same_words_are_one_hypothesis_with_the_scores_of_the_best(tmp_path: Path) -> None:
    content = """N=4 L=5
I=0
I=1
I=2
I=3
J=0 S=0 E=1 W=<sil> a=-1 l=0
J=1 S=0 E=2 W=x a=-9 l=-1
J=2 S=1 E=2 W=x a=-7 l=-1
J=3 S=2 E=3 W=y a=-1 l=-1
J=4 S=2 E=3 W=++um++ a=-3 l=0
"""
    lattice = put(tmp_path, content)
    counts = {"silences": ["<sil>"], "fillers": ["++um++", "++ah++"]}
    assert hypotheses(lattice, counts=counts) == [
        ("x y", {"acoustic": -9, "lm": -2, "words": 2, "silences": 1}),
        ("x", {"acoustic": -11, "lm": -1, "words": 1, "silences": 1, "fillers": 1}),
    ]
    assert hypotheses(lattice, counts=counts, scales={"silences": -2.0, "fillers": 5.0}) == [
        ("x", {"acoustic": -12, "lm": -1, "words": 1, "fillers": 1}),
        ("x y", {"acoustic": -10, "lm": -2, "words": 2}),
    ]
    assert len(hypotheses(lattice)) == 4


def test_fillers_without_names_may_be_counted(tmp_path: Path) -> None:
    assert hypotheses(put(tmp_path, ON_LINKS), 1, counts={"fillers": ["!NULL"]}) == [
        ("the cat", {"acoustic": -31, "lm": -3.5, "words": 2, "fillers": 1})
    ]


def test_nodes_without_a_way_to_the_end_do_not_matter(tmp_path: Path) -> None:
    more = ON_NODES.replace("N=5\tL=6", "N=7\tL=8") + "I=5 W=dead\nI=6 W=end\nJ=6 S=3 E=5 a=0\nJ=7 S=6 E=1 a=0\n"
    assert hypotheses(put(tmp_path, more)) == hypotheses(put(tmp_path, ON_NODES))


def folder_with(tmp_path: Path, **contents: str) -> Path:
    folder = tmp_path / "lattices"
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / f"{name}.slf.gz").write_bytes(gzip.compress(content.encode()))
    return folder


def test_lattices_become_lists(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, one=ON_LINKS, two=ON_LINKS.replace("cut", "cot"))
    nbest = read_lattices(folder, {"one": "a cat", "two": "the dog"}, n_best=3, counts={"silences": ["<sil>"]})
    assert nbest.names == ("acoustic", "lm", "words", "silences")
    assert nbest.list_ids == ("one", "two")
    assert nbest.offsets.tolist() == [0, 3, 6]
    assert nbest.dense_features()[:3].tolist() == [[-31, -3.5, 2, 0], [-31.5, -3.5, 2, 0], [-30, -4.5, 2, 0]]
    assert nbest.texts == ("the cat", "a cat", "the cut", "the cat", "a cat", "the cot")
    assert nbest.statistics[:, 0].tolist() == [1, 0, 2, 1, 2, 1]


def test_lattices_must_hold_the_same_scores(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, one=ON_LINKS, two=ON_NODES)
    with pytest.raises(DataError, match=r"two\.slf\.gz: no lm scores, which other lattices have"):
        read_lattices(folder, {"one": "a cat", "two": "the dog"})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"n_best": 0}, "n_best is 0"),
        ({"scales": {"language": 1.0}}, "scales has 'language'; the features are acoustic, lm, words"),
        ({"counts": {"lm": ["x"]}}, "counts has a name that is a feature already"),
        ({"counts": {"silences": "<sil>"}}, "must be a sequence of words"),
        ({"counts": {"a": ["x"], "b": ["x"]}}, "counts has 'x' under 'a' and 'b'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(tmp_path: Path, more: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_lattices(folder_with(tmp_path, one=ON_LINKS), {"one": "a"}, **more)  # type: ignore[arg-type]


def test_scores_that_add_up_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    content = "N=3 L=2\nI=2\n" + REST.replace("a=-1", "a=1e150") + "J=1 S=1 E=2 a=1e150\n"
    with pytest.raises(DataError, match="lattice 'x': the scores of a path add up beyond"):
        hypotheses(put(tmp_path, content))


def test_a_score_that_a_link_lacks_and_others_have_is_0(tmp_path: Path) -> None:
    links = "J=0 S=0 E=1 W=a a=-2.5 l=-1\nJ=1 S=0 E=1 W=b l=-3\nJ=2 S=1 E=2 W=!NULL\n"
    lattice = put(tmp_path, f"start=0 end=2\nN=3 L=3\nI=0\nI=1\nI=2\n{links}")
    assert hypotheses(lattice) == [
        ("b", {"lm": -3.0, "words": 1.0}),
        ("a", {"acoustic": -2.5, "lm": -1.0, "words": 1.0}),
    ]


number = st.floats(-100, 100) | st.integers(-4, 4).map(float) | st.sampled_from([5e-324, -1e17, 0.1])


def escaped(word: str) -> str:
    """A word as HTK writes it."""
    return re.sub(r"""^["']|\\""", lambda match: f"\\{ord(match[0]):03o}", word)


word = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=" "), min_size=1, max_size=4)
scores = st.dictionaries(st.sampled_from(["a", "l", "n", "r", "x1"]), number | st.floats(-1e150, 1e150), max_size=3)


@examples(100)
@given(data=st.data())
def test_written_lattices_are_read_as_they_are(data: st.DataObject) -> None:
    """Parallel links, each with a word and scores of its own, against the scores and words that were written."""
    links = data.draw(st.lists(st.tuples(word, scores), min_size=1, max_size=4))
    forward = data.draw(st.booleans())
    shared = data.draw(scores)  # of the node that has them where links have none
    nodes = [
        " ".join([f"{key}={value!r}" for key, value in shared.items()]) if own == forward else "" for own in (0, 1)
    ]
    lines = [
        f"dir={'f' if forward else 'b'} start=0 end=1",
        f"N=2 L={len(links)}",
        f"I=0 {nodes[0]}",
        f"I=1 {nodes[1]}",
    ]
    for place, (said, own) in enumerate(links):
        lines.append(" ".join([f"J={place} S=0 E=1 W={escaped(said)}", *(f"{key}={own[key]!r}" for key in own)]))
    ((_, graph),) = slf_lattices(GraphText("x", "\n".join(lines) + "\n"))
    names = {"a": "acoustic", "l": "lm", "n": "ngram", "r": "pronunciation", "x1": "x1"}
    present = {key for one in (shared, *(own for _, own in links)) for key in one}
    assert {*graph.scores} == {names[key] for key in present}
    at = graph.words[: len(links)].tolist()
    assert [graph.vocabulary[place] for place in at] == [said for said, _ in links]
    for key in present:
        expected = [own.get(key, shared.get(key, 0.0)) for _, own in links]
        assert graph.scores[names[key]][: len(links)].tolist() == expected


def test_many_paths_with_the_same_words_are_found_at_once() -> None:
    steps = [(node, word, -float(k)) for node in range(200) for k in range(4) for word in ("a", "b" if node else "c")]
    lattices = lpmert.Lattices(  # 8 ** 200 paths, 2 ** 200 texts
        [[score] for _, _, score in steps],
        [0, len(steps)],
        [node for node, _, _ in steps],
        [node + 1 for node, _, _ in steps],
        [word for _, word, _ in steps],
        ["a"],
    )
    found = lpmert.n_best(lattices, [1.0], n=50)
    assert found.texts is not None
    assert len({*found.texts}) == 50
    assert not found.dense_features().any()
