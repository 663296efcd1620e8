from __future__ import annotations

import gzip
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mutations import damaged, examples, read_or_refused

from lpmert.errors import DataError
from lpmert.formats.best_lists import Arc, distinct_best
from lpmert.formats.lattices import read_lattices
from lpmert.formats.slf import SCORE_NAMES, Lattice, Link, Node, read_lattice, write_lattice

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


def lattice_of(tmp_path: Path, content: str | bytes) -> Lattice:
    path = tmp_path / "x.slf"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_lattice(path)


def hypotheses(lattice: Lattice, n: int = 100, **more: Any) -> list[tuple[str, dict[str, float]]]:
    """Texts and features, but for those that are 0, of the n best hypotheses of a lattice, written and read."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.slf"
        write_lattice(lattice, path)
        lists = read_lattices(path, {"x": ""}, n_best=n, **more)
    assert lists.texts is not None
    rows = [dict(zip(lists.names, row, strict=True)) for row in lists.dense_features().tolist()]
    return [(text, {k: v for k, v in row.items() if v}) for text, row in zip(lists.texts, rows, strict=True)]


def test_words_and_scores_of_links(tmp_path: Path) -> None:
    lattice = lattice_of(tmp_path, ON_LINKS)
    assert (lattice.start, lattice.end, lattice.score_names) == (0, 3, ("acoustic", "lm"))
    assert lattice.scales == {"acoustic": 1, "lm": 2, "words": -0.5}
    assert hypotheses(lattice) == [  # with the scales of the header: -38, -38.5, -39, -39.5; both words cost the same
        ("the cat", {"acoustic": -31, "lm": -3.5, "words": 2}),
        ("a cat", {"acoustic": -31.5, "lm": -3.5, "words": 2}),
        ("the cut", {"acoustic": -30, "lm": -4.5, "words": 2}),
        ("a cut", {"acoustic": -30.5, "lm": -4.5, "words": 2}),
    ]
    assert [words for words, _ in hypotheses(lattice, scales={"lm": 0})] == ["the cut", "a cut", "the cat", "a cat"]
    assert [words for words, _ in hypotheses(lattice, 1)] == ["the cat"]


def test_words_on_nodes_as_pocketsphinx_writes_them(tmp_path: Path) -> None:
    lattice = lattice_of(tmp_path, ON_NODES)
    assert (lattice.start, lattice.end, lattice.score_names) == (4, 0, ("acoustic",))
    assert hypotheses(lattice) == [
        ("the cat", {"acoustic": -6.5, "words": 2}),
        ("the cut", {"acoustic": -7, "words": 2}),
        ("cat", {"acoustic": -8, "words": 1}),
    ]
    assert [words for words, _ in hypotheses(lattice, scales={"words": -2.0})] == ["cat", "the cat", "the cut"]


def test_words_of_the_first_and_last_node_count_whatever_the_direction(tmp_path: Path) -> None:
    lines = "N=2 L=1\nI=0 W=one\nI=1 W=two\nJ=0 S=0 E=1 a=-1\n"
    for header in ("", "dir=f\n", "dir=b\n"):
        assert hypotheses(lattice_of(tmp_path, header + lines)) == [("one two", {"acoustic": -1, "words": 2})]
    assert hypotheses(lattice_of(tmp_path, "N=1 L=0\nI=0 W=yes\n")) == [("yes", {"words": 1})]


def test_scores_of_nodes_stand_for_those_that_links_lack(tmp_path: Path) -> None:
    lines = "N=3 L=2\nI=0\nI=1 W=x a=-1 l=-2\nI=2\nJ=0 S=0 E=1 a=-5\nJ=1 S=1 E=2 l=-7\n"
    assert hypotheses(lattice_of(tmp_path, lines)) == [("x", {"acoustic": -5, "lm": -9, "words": 1})]
    assert hypotheses(lattice_of(tmp_path, "dir=b\n" + lines)) == [("x", {"acoustic": -6, "lm": -7, "words": 1})]


def test_long_names_mean_the_same(tmp_path: Path) -> None:
    long = ON_LINKS
    for line in ON_LINKS.splitlines():
        if line.startswith(("N=", "J=")):
            new = line.replace("N=4", "NODES=4").replace("L=5", "LINKS=5").replace(" S=", " START=")
            new = new.replace(" E=", " END=").replace("W=", "WORD=").replace(" a=", " acoustic=")
            long = long.replace(line, new.replace(" l=", " language="))
    assert "WORD=cat" in long
    assert lattice_of(tmp_path, long) == lattice_of(tmp_path, ON_LINKS)


@pytest.mark.parametrize(
    ("base", "shown", "expected"),
    [("2.718282", "-2", -2), ("10", "-2", -2 * math.log(10)), ("1.0001", "-2", -2 * math.log(1.0001)), ("1", "-2", -2)],
)
def test_logarithms_become_natural_ones(tmp_path: Path, base: str, shown: str, expected: float) -> None:
    lattice = lattice_of(tmp_path, f"base={base}\nwdpenalty={shown}\nN=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W=x a={shown}\n")
    assert lattice.links[0].scores["acoustic"] == pytest.approx(expected, rel=1e-6)
    assert lattice.scales["words"] == pytest.approx(expected, rel=1e-6)


def test_probabilities_become_logarithms(tmp_path: Path) -> None:
    lattice = lattice_of(tmp_path, "base=0\nN=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W=x a=0.25\n")
    assert lattice.links[0].scores == {"acoustic": math.log(0.25)}


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
    lattice = lattice_of(tmp_path, f"N=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W={written} a=-1\n")
    assert lattice.links[0].word == word


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
    lattice = lattice_of(tmp_path, content)
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
    assert hypotheses(lattice_of(tmp_path, ON_LINKS), 1, counts={"fillers": ["!NULL"]}) == [
        ("the cat", {"acoustic": -31, "lm": -3.5, "words": 2, "fillers": 1})
    ]


def test_nodes_without_a_way_to_the_end_do_not_matter(tmp_path: Path) -> None:
    more = ON_NODES.replace("N=5\tL=6", "N=7\tL=8") + "I=5 W=dead\nI=6 W=end\nJ=6 S=3 E=5 a=0\nJ=7 S=6 E=1 a=0\n"
    assert hypotheses(lattice_of(tmp_path, more)) == hypotheses(lattice_of(tmp_path, ON_NODES))


REST = "I=0\nI=1\nJ=0 S=0 E=1 W=x a=-1\n"


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
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
        ("N=2 L=1\n" + REST.replace("S=0", "S=2"), 4, "S=2, but there are only nodes 0 to 1"),
        ("N=2 L=1\n" + REST.replace("E=1", "E=-1"), 4, "E= is '-1', not a count"),
        ("N=2 L=1\n" + REST.replace("E=1 ", ""), 4, "no E=, which must name a node"),
        ("N=2 L=1\n" + REST.replace("a=-1", "a=x"), 4, "a= is 'x', not a number"),
        ("N=2 L=1\n" + REST.replace("a=-1", "a=-inf"), 4, "a= is '-inf', not a finite number"),
        ("N=2 L=1\n" + REST.replace("a=-1", "a=1e400"), 4, "a= is '1e400', not a finite number"),
        ("N=2 L=1\n" + REST.replace("a=-1", "a=-1 a=-2"), 4, "a= comes twice in one line"),
        ("N=2 L=1\n" + REST.replace("a=-1", "a="), 4, "'a=' should be a field name=value"),
        ("N=2 L=1\n" + REST.replace("a=-1", "a"), 4, "'a' should be a field name=value"),
        ("N=2 L=1\n" + REST.replace("W=x", r"W=\303"), 4, "is not UTF-8"),
        ("N=2 L=1\n" + REST.replace("W=x", 'W="a b"'), 4, "'a b' is empty or has white space"),
        ("N=2 L=1\n" + REST.replace("W=x", 'W=""'), 4, "'' is empty or has white space"),
        ("N=2 L=1\n" + REST.replace("I=1", "I=1 W=y"), 4, "the link has the word 'x', its node 'y'"),
        ("N=2 L=1\n" + REST.replace("I=1", "I=1 L=sub"), 3, "sub-lattices cannot be read"),
        ("SUBLAT=x\nN=2 L=1\n" + REST, 1, "sub-lattices cannot be read"),
        ("N=2 L=1\n" + REST + ".\n", 5, "'.' should be a field name=value"),
        ("base=-1\nN=2 L=1\n" + REST, 1, "-1.0 is no base of logarithms"),
        ("base=0\nN=2 L=1\n" + REST, 5, "a= -1 is no probability"),
        ("lmscale=x\nN=2 L=1\n" + REST, 1, "lmscale= is 'x', not a number"),
        ("dir=x\nN=2 L=1\n" + REST, 1, "dir=x is neither f nor b"),
        ("start=2\nN=2 L=1\n" + REST, 1, "start=2, but there are only nodes 0 to 1"),
        ("N=0 L=0\n", 1, "no node can be the start"),
        ("N=3 L=1\n" + REST + "I=2\n", 5, "nodes 0 and 2 could both be the start"),
        ("N=3 L=2\n" + REST + "I=2\nJ=1 S=0 E=2\n", 5, "nodes 1 and 2 could both be the end"),
        ("N=2 L=2\n" + REST + "J=1 S=1 E=0 a=0\n", 1, "no node can be the start"),
        (b"N=2 L=1\nI=0\nI=1 W=\xff\n", 3, "byte 0xff is not UTF-8"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, content: str | bytes, line: int | None, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        lattice_of(tmp_path, content)
    assert (caught.value.path, caught.value.line) == (str(tmp_path / "x.slf"), line)


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("start=0 end=1\nN=2 L=2\n" + REST + "J=1 S=1 E=0 a=0\n", (5, 6), "the links make a cycle"),
        ("start=0 end=1\nN=2 L=2\n" + REST + "J=1 S=1 E=1 a=0\n", (6,), "the links make a cycle: 1 -> 1"),
        ("start=1 end=0\nN=2 L=1\n" + REST, (4,), "no path from node 1 to node 0"),
    ],
)
def test_lattices_without_hypotheses_are_refused(
    tmp_path: Path, content: str, line: Sequence[int | None], message: str
) -> None:
    (tmp_path / "lattices").mkdir()
    path = tmp_path / "lattices/x.slf"
    path.write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        read_lattices(tmp_path / "lattices", {"x": "a"})
    assert caught.value.path == str(path)
    assert caught.value.line in line


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


def test_byte_order_mark_crlf_and_compression_are_accepted(tmp_path: Path) -> None:
    windows = b"\xef\xbb\xbf" + ON_LINKS.replace("\n", "\r\n").encode()
    assert lattice_of(tmp_path, gzip.compress(windows)) == lattice_of(tmp_path, ON_LINKS)


number = st.floats(-100, 100) | st.integers(-4, 4).map(float) | st.sampled_from([5e-324, -1e17, 0.1])


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[Arc]]:
    """Arcs of a graph whose nodes are in order, with few words, silent arcs, ties and parallel arcs."""
    n_nodes = draw(st.integers(1, 6))
    pairs = [(source, target) for target in range(n_nodes) for source in range(target)]
    if not pairs:
        return n_nodes, []
    arc = st.builds(
        lambda pair, word, score: Arc(*pair, word, score),
        st.sampled_from(pairs),
        st.sampled_from(["a", "b", "c", None]),
        number,
    )
    return n_nodes, draw(st.lists(arc, max_size=14))


def paths_of(arcs: Sequence[Arc], node: int, end: int) -> Iterator[list[int]]:
    if node == end:
        yield []
    for index, arc in enumerate(arcs):
        if arc.source == node:
            for rest in paths_of(arcs, arc.target, end):
                yield [index, *rest]


def best_by_words(arcs: Sequence[Arc], end: int) -> dict[tuple[str, ...], Fraction]:
    """Return for each word sequence the exact score of its best path, by enumeration of all paths."""
    best: dict[tuple[str, ...], Fraction] = {}
    for path in paths_of(arcs, 0, end):
        words = tuple(word for index in path if (word := arcs[index].word) is not None)
        score = sum((Fraction(arcs[index].score) for index in path), Fraction(0))
        best[words] = max(score, best.get(words, score))
    return best


@settings(max_examples=400, deadline=None)
@given(graph=graphs(), n=st.integers(1, 12))
@example(graph=(2, [Arc(0, 1, "a", 0.1), Arc(0, 1, "a", 0.2), Arc(0, 1, None, 0.2)]), n=3)
def test_best_distinct_paths_are_those_of_enumeration(graph: tuple[int, list[Arc]], n: int) -> None:
    n_nodes, arcs = graph
    expected = best_by_words(arcs, n_nodes - 1)
    found = distinct_best(arcs, 0, n_nodes - 1, n)
    assert len({path.words for path in found}) == len(found) == min(n, len(expected))
    scores = []
    for path in found:
        steps = [arcs[index] for index in path.arcs]
        ends = [0, *(step.target for step in steps)]
        assert [step.source for step in steps] == ends[:-1]
        assert ends[-1] == n_nodes - 1
        assert path.words == tuple(step.word for step in steps if step.word is not None)
        scores.append(sum((Fraction(step.score) for step in steps), Fraction(0)))
        assert scores[-1] == expected[path.words]
    assert all(first >= second for first, second in pairwise(scores))
    assert scores == sorted(expected.values(), reverse=True)[:n]


def test_words_with_astronomically_many_paths_are_found_at_once() -> None:
    arcs = []
    for node in range(200):  # 8 ** 200 paths, 2 ** 200 word sequences
        arcs += [Arc(node, node + 1, word, -float(k)) for k in range(4) for word in ("a", "b" if node else "c")]
    found = distinct_best(arcs, 0, 200, 50)
    assert len({path.words for path in found}) == 50
    assert all(arcs[index].score == 0 for path in found for index in path.arcs)


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), acoustic=number, lm=number, penalty=number)
def test_features_of_hypotheses_give_the_order_of_the_scales(
    graph: tuple[int, list[Arc]], acoustic: float, lm: float, penalty: float
) -> None:
    n_nodes, arcs = graph
    links = tuple(
        Link(arc.source, arc.target, arc.word, {"acoustic": round(arc.score, 2), "lm": float(number)})
        for number, arc in enumerate(arcs)
    )
    lattice = Lattice(tuple(Node() for _ in range(n_nodes)), links, 0, n_nodes - 1)
    if not best_by_words(arcs, n_nodes - 1):
        with pytest.raises(DataError, match="no path from node"):
            hypotheses(lattice, 5)
        return
    scales = {"acoustic": acoustic, "lm": lm, "words": penalty}
    found = hypotheses(lattice, 5, scales={name: scales[name] for name in (*lattice.score_names, "words")})
    totals = [math.fsum(scales[name] * row.get(name, 0.0) for name in scales) for _, row in found]
    reach = max(sum(abs(scales[name] * row.get(name, 0.0)) for name in scales) for _, row in found)
    assert all(first >= second - 1e-9 * reach for first, second in pairwise(totals))
    assert all(row.get("words", 0) == len(text.split()) for text, row in found)


def test_scores_that_add_up_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    content = "N=3 L=2\nI=2\n" + REST.replace("a=-1", "a=1e150") + "J=1 S=1 E=2 a=1e150\n"
    with pytest.raises(DataError, match="lattice 'x': the scores of a path add up beyond"):
        hypotheses(lattice_of(tmp_path, content))


word = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=" "), min_size=1, max_size=4)
scores = st.dictionaries(st.sampled_from(SCORE_NAMES), number | st.floats(-1e150, 1e150), max_size=3)


@examples(100)
@given(data=st.data())
def test_written_lattices_read_back_as_equal(tmp_path: Path, data: st.DataObject) -> None:
    n_nodes = data.draw(st.integers(1, 4))
    places = st.integers(0, n_nodes - 1)
    on_nodes = data.draw(st.booleans())
    nodes = [Node(data.draw(st.none() | word) if on_nodes else None, data.draw(scores)) for _ in range(n_nodes)]
    links = data.draw(st.lists(st.builds(Link, places, places, st.none() if on_nodes else word, scores), max_size=4))
    lattice = Lattice(
        tuple(nodes), tuple(links), data.draw(places), data.draw(places), data.draw(scores), data.draw(st.booleans())
    )
    path = tmp_path / data.draw(st.sampled_from(["x.slf", "x.slf.gz"]))
    write_lattice(lattice, path)
    assert read_lattice(path) == lattice
    written = path.read_bytes()
    write_lattice(read_lattice(path), path)
    assert path.read_bytes() == written


def test_what_a_lattice_file_cannot_hold_is_refused(tmp_path: Path) -> None:
    for node in (Node("a b"), Node(""), Node("a", {"price": 1.0}), Node("a", {"lm": math.inf})):
        with pytest.raises(DataError):
            write_lattice(Lattice((node,), (), 0, 0), tmp_path / "x.slf")
    assert list(tmp_path.iterdir()) == []


@examples(400)
@given(data=st.data())
def test_mutated_lattices_give_lattices_or_data_errors(tmp_path: Path, data: st.DataObject) -> None:
    content = data.draw(st.sampled_from([ON_LINKS, ON_NODES])).encode()
    packed = data.draw(st.booleans())
    mutated = damaged(
        data,
        gzip.compress(content, mtime=0) if packed else content,
        [b"", b" ", b"\n", b"\r\n", b"=", b'"', b"\\", b"#", b"\0", b"1e400", b"nan", b"9" * 400, b"\xff", b"3"],
    )
    folder = tmp_path / "lattices"
    folder.mkdir(exist_ok=True)
    (folder / "one").write_bytes(mutated)
    nbest = read_or_refused(folder / "one", lambda: read_lattices(folder, {"one": "the cat"}))
    if nbest is not None:
        assert 1 <= nbest.n_hypotheses <= 4
        assert np.isfinite(nbest.dense_features()).all()
        lattice = read_lattice(folder / "one")
        plain = gzip.decompress(mutated) if packed else mutated
        lines = plain.splitlines()
        assert len(lattice.links) == sum(b"J=" in line and not line.lstrip().startswith(b"#") for line in lines)


def test_a_score_that_a_link_lacks_and_others_have_is_0(tmp_path: Path) -> None:
    links = "J=0 S=0 E=1 W=a a=-2.5 l=-1\nJ=1 S=0 E=1 W=b l=-3\nJ=2 S=1 E=2 W=!NULL\n"
    lattice = lattice_of(tmp_path, f"start=0 end=2\nN=3 L=3\nI=0\nI=1\nI=2\n{links}")
    assert hypotheses(lattice) == [
        ("b", {"lm": -3.0, "words": 1.0}),
        ("a", {"acoustic": -2.5, "lm": -1.0, "words": 1.0}),
    ]
