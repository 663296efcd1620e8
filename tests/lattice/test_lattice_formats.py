"""Lattices in files of other tools: what each means, bulk and careful readers, what is refused, and commands."""

import gzip
import io
import json
import math
import re
import tarfile
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from commands import json_of, loss_of, refusal, run, succeeded
from hypothesis import given, strategies as st
from mutations import damaged, examples, read_or_refused
from shared import ROOT
from written_lists import put

import lpmert
from lpmert import DataError, Region
from lpmert.formats import graphs
from lpmert.formats.detect import detect
from lpmert.formats.format import read_block
from lpmert.formats.graphs import GraphText, Links
from lpmert.formats.lattices import load_lattices
from lpmert.registry import FORMATS

COMPACT = """one\x20
0\t1\t5\t4.5,120.25,3_3_4
0\t1\t6\t4,121,3_3
1\t2\t7\t1.5,80,8
1\t2\t0\t2,79.5,
2\t0.5,0,9_9

two\x20
0\t1\t6\t1,2,
1

"""
PLAIN = """one
0 1 3 5 4.5,120.25
0 1 3 6 4,121
1 2 8 0
2 3 9 7 1.5,80
2 3 9 0 2,79.5
3 0.5,0

two
0 1 1 6 1,2
1

"""
SYMBOLS = "<eps> 0\nthe 5\na 6\ncat 7\n"
ACCEPTOR = "0\t1\tthe\n0\t1\ta\t1.5\n1\t2\tcat\t0.5\n1\t2\t<eps>\t2\n3\t2\tdog\n1\t4\tpig\n2\t0.25\n4\tInfinity\n"
TRANSDUCER = "0 1 th the 0.5\n0 1 uh <eps>\n1 2 k cat 0.25\n2\n1 0.125\n"
KINDS = {"kaldi-lattice": (PLAIN, COMPACT), "fst": (ACCEPTOR, TRANSDUCER)}
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
LONG = {"S": "START", "E": "END", "W": "WORD", "a": "acoustic", "l": "language", "N": "NODES", "L": "LINKS"}
LONG_NAMES = re.sub(r"\b([SEWalNL])=", lambda match: f"{LONG[match[1]]}=", ON_LINKS)
DEAD = ON_NODES.replace("N=5\tL=6", "N=7\tL=8") + "I=5 W=dead\nI=6 W=end\nJ=6 S=3 E=5 a=0\nJ=7 S=6 E=1 a=0\n"
ENDS = "N=2 L=1\nI=0 W=one\nI=1 W=two\nJ=0 S=0 E=1 a=-1\n"
OF_NODES = "N=3 L=2\nI=0\nI=1 W=x a=-1 l=-2\nI=2\nJ=0 S=0 E=1 a=-5\nJ=1 S=1 E=2 l=-7\n"
SAME_WORDS = """N=4 L=5
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
LACKING = (
    "start=0 end=2\nN=3 L=3\nI=0\nI=1\nI=2\nJ=0 S=0 E=1 W=a a=-2.5 l=-1\nJ=1 S=0 E=1 W=b l=-3\nJ=2 S=1 E=2 W=!NULL\n"
)
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
LATTICES, TEXT = ROOT / "examples/speech/lattices", ROOT / "examples/speech/text"
COUNTS = {"silences": ["<sil>"], "fillers": ["++um++", "++ah++"]}
UNIT = math.log(1.0001)


def rows_of(names: str, **rows: tuple[float, ...]) -> dict[str, dict[str, float]]:
    """Features by text, in which _ is a blank."""
    return {text.replace("_", " "): dict(zip(names.split(), row, strict=True)) for text, row in rows.items()}


KALDI_NAMES = "acoustic_cost graph_cost words"
KALDI = rows_of(
    KALDI_NAMES,
    the_cat=(200.25, 6.5, 2), the=(199.75, 7.0, 1), a_cat=(201.0, 6.0, 2), a=(200.5, 6.5, 1),
)  # fmt: skip
ON_LINKS_ROWS = rows_of(  # with the scales of the header: -38, -38.5, -39, -39.5; both words cost the same
    "acoustic lm words",
    the_cat=(-31, -3.5, 2), a_cat=(-31.5, -3.5, 2), the_cut=(-30, -4.5, 2), a_cut=(-30.5, -4.5, 2),
)  # fmt: skip
ON_NODES_ROWS = rows_of("acoustic words", the_cat=(-6.5, 2), the_cut=(-7, 2), cat=(-8, 1))
CUTS_FIRST = {text: ON_LINKS_ROWS[text] for text in ("the cut", "a cut", "the cat", "a cat")}


# fmt: off
PATHS: list[tuple[str, dict[str, Any], dict[str, dict[str, dict[str, float]]]]] = [
    *((content, {"symbols": "@words.txt"}, {"one": KALDI, "two": rows_of(KALDI_NAMES, a=(2, 1, 1))})
      for content in (COMPACT, PLAIN)),
    (ACCEPTOR, {}, {"x": rows_of("cost words", the_cat=(0.75, 2), the=(2.25, 1), a_cat=(2.25, 2), a=(3.75, 1))}),
    (TRANSDUCER, {},
     {"x": rows_of("cost words", the_cat=(0.75, 2), the=(0.625, 1), cat=(0.25, 1)) | {"": {"cost": 0.125}}}),
    ("0 1 5 0.5\n0 1 7\n1 2 0\n2 1\n", {"symbols": "@words.txt"},
     {"x": rows_of("cost words", the=(1.5, 1), cat=(1, 1))}),
    (ON_LINKS, {}, {"x": ON_LINKS_ROWS}),
    (ON_LINKS, {"scales": {"lm": 0}}, {"x": CUTS_FIRST}),
    (ON_LINKS, {"n_best": 1}, {"x": {"the cat": ON_LINKS_ROWS["the cat"]}}),
    (ON_LINKS, {"n_best": 1, "counts": {"fillers": ["!NULL"]}},
     {"x": rows_of("acoustic lm words fillers", the_cat=(-31, -3.5, 2, 1))}),
    (LONG_NAMES, {}, {"x": ON_LINKS_ROWS}),
    (ON_NODES, {}, {"x": ON_NODES_ROWS}),
    (ON_NODES, {"scales": {"words": -2.0}}, {"x": {"cat": ON_NODES_ROWS["cat"], **ON_NODES_ROWS}}),
    (DEAD, {}, {"x": ON_NODES_ROWS}),
    # words of the first and last node count
    *((header + ENDS, {}, {"x": rows_of("acoustic words", one_two=(-1, 2))}) for header in ("", "dir=f\n")),
    ("N=1 L=0\nI=0 W=yes\n", {}, {"x": rows_of("words", yes=(1,))}),
    # scores of nodes stand for those that links lack
    (OF_NODES, {}, {"x": rows_of("acoustic lm words", x=(-5, -9, 1))}),
    (LACKING, {}, {"x": rows_of("acoustic lm words", b=(0, -3, 1), a=(-2.5, -1, 1))}),
    # paths with the same words are one hypothesis with the scores of the best
    (SAME_WORDS, {"counts": COUNTS},
     {"x": rows_of("acoustic lm words silences fillers", x_y=(-9, -2, 2, 1, 0), x=(-11, -1, 1, 1, 1))}),
    (SAME_WORDS, {"counts": COUNTS, "scales": {"silences": -2.0, "fillers": 5.0}},
     {"x": rows_of("acoustic lm words fillers", x=(-12, -1, 1, 1), x_y=(-10, -2, 2, 0))}),
    (REGULAR, {"counts": {"starts": ["!SENT_START"]}, "silent": ["cat"], "variants": True},
     {"x": rows_of("acoustic lm pronunciation words starts",
                   the_cut=(-74.859, 2, -0.25, 2, 1), the=(-75.359, -2, -0.25, 1, 1))
           | {"": {"acoustic": -68, "lm": -7.5, "pronunciation": -0.25, "starts": 1}}}),
    # words are unquoted as in HTK
    *((f"N=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W={written} a=-1\n", {}, {"x": {word: {"acoustic": -1, "words": 1}}})
      for written, word in {
          '"the"': "the", "'the'": "the", r"\'em": "'em", "'em": "'em", "'n'": "n", '"': '"', r"na\303\257ve": "naïve",
          r"a\\b": r"a\b", r"\"x": '"x', "naïve": "naïve", "a=b": "a=b", "#1": "#1", "x\u00a0y": "x\u00a0y",
      }.items()),
    # logarithms become natural ones, and probabilities logarithms
    *((f"base={base}\nN=2 L=1\n{REST.replace('-1', shown)}", {}, {"x": rows_of("acoustic words", x=(value, 1))})
      for base, shown, value in (
          ("2.718282", "-2", -2), ("10", "-2", -2 * math.log(10)), ("1.0001", "-2", -2 * UNIT), ("1", "-2", -2),
          ("0", "0.25", math.log(0.25)),
      )),
]
# fmt: on


def test_a_file_means_these_paths(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Texts with their features, those of lattices in HTK's format in their order, the best first."""
    for content, given_options, expected in PATHS:
        with subtests.test(content):
            path = put(tmp_path, {"x": content, "words.txt": SYMBOLS}) / "x"
            options = {name: tmp_path / one[1:] if name == "symbols" else one for name, one in given_options.items()}
            lists = lpmert.read(path, references=dict.fromkeys(expected, ""), **options)
            assert lists.list_ids == tuple(expected)
            assert lists.texts is not None
            ordered_as = list if detect(path) == "slf" else sorted
            for number, rows in enumerate(expected.values()):
                own = range(*lists.offsets[number : number + 2].tolist())
                texts = [lists.texts[row] for row in own]
                assert ordered_as(texts) == ordered_as(rows)
                for row, text in zip(own, texts, strict=True):
                    found = dict(zip(lists.names, lists.dense_features()[row].tolist(), strict=True))
                    assert found == pytest.approx(dict.fromkeys(lists.names, 0.0) | rows[text], rel=1e-6, abs=1e-9)


def test_utterances_that_are_numbers_have_references_by_line_and_features_are_chosen(tmp_path: Path) -> None:
    content = "0\n0 1 the 1,0\n0 1 a 2,0\n1 2 cat 0,0\n2\n\n1\n0 1 yes 1,0\n1\n\n"
    put(tmp_path, {"x": content, "reference.txt": "a cat\nno\n", "other.txt": "the cat\nyes\n"})
    lattices = load_lattices(tmp_path / "x", tmp_path / "reference.txt", format="kaldi-lattice")
    assert lattices.references == (("a cat",), ("no",))
    for graph_cost, loss in ((-1, 1 + 1), (1, 1)):
        assert lpmert.evaluate(lattices, {"graph_cost": graph_cost, "acoustic_cost": 0, "words": 0}).loss == loss
    both = load_lattices(tmp_path / "x", [tmp_path / "reference.txt", tmp_path / "other.txt"])
    assert both.references == (("a cat", "the cat"), ("no", "yes"))
    for asked, names in (
        ("words, graph_cost", ("words", "graph_cost")), (["*_cost"], ("graph_cost", "acoustic_cost")),
        ("words", ("words",)),
    ):  # fmt: skip
        assert load_lattices(tmp_path / "x", tmp_path / "reference.txt", features=asked).names == names
    with pytest.raises(DataError, match="nothing"):
        load_lattices(tmp_path / "x", tmp_path / "reference.txt", features=["nothing"])


def test_the_penalty_of_words_is_a_logarithm_too() -> None:
    graph = slf_graph("base=10\nwdpenalty=-2\nN=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W=x a=-2\n")
    assert graph.scales["words"] == pytest.approx(-2 * math.log(10))


def slf_graph(content: str) -> Links:
    ((utterance, graph),) = graphs.slf_lattices(GraphText("x", content))
    assert utterance is None
    return graph


def archived(mode: Any, files: dict[str, bytes]) -> bytes:
    with tarfile.open(fileobj=(whole := io.BytesIO()), mode=mode) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return whole.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_content_tells_the_format_plain_compressed_and_in_archives(tmp_path: Path, kind: str) -> None:
    content = KINDS[kind][0].encode()
    path = tmp_path / "some"
    for data in (content, b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"), gzip.compress(content)):
        path.write_bytes(data)
        assert detect(path) == kind
    for mode, inner in product(("w", "w:gz"), (content, gzip.compress(content))):
        path.write_bytes(archived(mode, {"folder/x": inner}))
        assert detect(path) == kind
    ids = [name or "x" for name, _ in FORMATS.build(kind).graphs(GraphText("x", content.decode()))]
    whole = load_lattices(path, dict.fromkeys(ids, "a"))
    assert whole.list_ids == tuple(ids)
    put(tmp_path, {"folder/x": content})
    assert detect(tmp_path / "folder") == kind
    assert load_lattices(tmp_path / "folder", dict.fromkeys(ids, "a")).fingerprint == whole.fingerprint


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("0 1 a\n1 2 b\n2 1 c\n1 3 d\n3\n", 2, "the links make a cycle: 1 -> 2 -> 1"),
        ("0 1 a\n1 1 b\n1\n", 2, "cycle: 1 -> 1"),
        ("0 1 a\n2 3 b\n3\n", 1, "no path from node 0"),
        ("0 1 a\n1 2 b c d e\n2\n", 2, "more than five fields"),
        ("0 1 a\n1 2 b c d\n2\n", 2, "5 fields, where others are of an acceptor"),
        ("0 1 2 3\n1 2 3 4\n2\n", 1, "could be output labels or weights; print five fields"),
        ("0 1 a x,y\n1\n", 1, "the weight is 'x', not a number"),
        ("0 1 a 1,2\n1 0.5\n", 2, "should be graph cost, acoustic cost"),
        ("0 1 a\n1 x\n", 2, "the weight is 'x', not a number"),
        (f"0 1 a\n{'9' * 5000}\n", 2, r"the state is '9{12}\.\.\.9{13}', not a count$"),
        ("u\n0 1 5 1,2,\n1\n\nu v\n", 5, "should be an utterance alone"),
        ("u\n0 1 5 1,2,\n1\n\nu\n0 1 5 1,2,\n1\n", None, "utterance 'u' comes twice"),
        ("u\n0 1 3 5 1,2\n1 2 8 5\n2 1 8 5\n2 3 8 6\n3 0.5,0\n\n", 3, "cycle: 1 -> 2 -> 1"),
        ("u\n0 1 5 1,2,3\n1 2 6 1,2,3\n2 2 6 1,2,3\n2 0,0,\n\n", 4, "cycle: 2 -> 2"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(tmp_path: Path, content: str, line: int | None, message: str) -> None:
    path = put(tmp_path, {"x": content}) / "x"
    with pytest.raises(DataError, match=message) as caught:
        load_lattices(path, dict.fromkeys(["x", "u"], "a"), partial=True)
    assert caught.value.path == str(path)
    assert caught.value.line == line or line is None


@pytest.mark.parametrize(
    ("content", "options", "where", "message"),
    [
        (PLAIN, {"symbols": "<eps> 0\nthe 5\n"}, "x", "label 6 is not among the symbols"),
        (PLAIN, {"symbols": "the\n"}, "words.txt", "the number of 'the' is '', not a count"),
        (PLAIN, {"symbols": "the 5\na 5\n"}, "words.txt", "5 is already the number of 'the'"),
        (PLAIN, {"symbols": ""}, "words.txt", "empty file"),
        (ACCEPTOR, {"symbols": SYMBOLS}, "x", "the labels are words; leave the symbols out"),
        (ON_LINKS, {"n_best": 0}, "", "n_best must be a whole number of at least 1; got 0"),
        (ON_LINKS, {"scales": {"language": 1.0}}, "x", "scales has 'language'; the features are acoustic, lm, words"),
        (ON_LINKS, {"counts": {"lm": ["x"]}}, "", "counts has a name that is a feature already"),
        (ON_LINKS, {"counts": {"silences": "<sil>"}}, "", "must be a sequence of words"),
        (ON_LINKS, {"counts": {"a": ["x"], "b": ["x"]}}, "", "counts has 'x' under 'a' and 'b'"),
        (
            "N=3 L=2\nI=2\n" + REST.replace("a=-1", "a=1e150") + "J=1 S=1 E=2 a=1e150\n", {}, "",
            "lattice 'x': 'acoustic' adds up to more than 1e.150 along a path",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_lattice_is_refused(
    tmp_path: Path, content: str, options: dict[str, Any], where: str, message: str
) -> None:
    put(tmp_path, {"x": content, "words.txt": options.get("symbols", "")})
    options = {name: tmp_path / "words.txt" if name == "symbols" else one for name, one in options.items()}
    with pytest.raises(DataError, match=message) as caught:
        lpmert.read(tmp_path / "x", references=dict.fromkeys(["x", "one", "two"], "a"), partial=True, **options)
    assert not where or caught.value.path == str(tmp_path / where)


def test_lattices_must_hold_the_same_scores(tmp_path: Path) -> None:
    folder = put(tmp_path / "lattices", {"one.slf": ON_LINKS, "two.slf.gz": gzip.compress(ON_NODES.encode())})
    with pytest.raises(DataError, match=r"two\.slf\.gz: no lm scores, which other lattices have"):
        lpmert.read(folder, references={"one": "a cat", "two": "the dog"})


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
    shared = data.draw(scores)  # of the node, where links have none
    lines = ["start=0 end=1", f"N=2 L={len(links)}", "I=0"]
    lines.append(" ".join(["I=1", *(f"{key}={value!r}" for key, value in shared.items())]))
    for place, (said, own) in enumerate(links):
        lines.append(" ".join([f"J={place} S=0 E=1 W={escaped(said)}", *(f"{key}={own[key]!r}" for key in own)]))
    graph = slf_graph("\n".join(lines) + "\n")
    names = {"a": "acoustic", "l": "lm", "n": "ngram", "r": "pronunciation", "x1": "x1"}
    present = {key for one in (shared, *(own for _, own in links)) for key in one}
    assert {*graph.scores} == {names[key] for key in present}
    at = graph.words[: len(links)].tolist()
    assert [graph.vocabulary[place] for place in at] == [said for said, _ in links]
    for key in present:
        expected = [own.get(key, shared.get(key, 0.0)) for _, own in links]
        assert graph.scores[names[key]][: len(links)].tolist() == expected


def links(parts: Links) -> list[tuple[object, ...]]:
    words = [parts.vocabulary[place] for place in parts.words.tolist()]
    scores = [dict(zip(parts.scores, row, strict=True)) for row in zip(*parts.scores.values(), strict=True)]
    return list(zip(parts.sources.tolist(), parts.targets.tolist(), words, scores, strict=True))


def outcome(text: str, *, quick: bool) -> tuple[object, list[bool]]:
    """The lattice of a text, or nothing if it is refused; and which of its blocks, links first, were read at once."""
    taken: list[bool] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        found = read_block(*arguments, **options) if quick else None
        taken.append(found is not None)
        return found

    with pytest.MonkeyPatch.context() as context, suppress(DataError):
        context.setattr(graphs, "read_block", counted)
        ((_, found),) = graphs.slf_lattices(GraphText("x", text))
        return (links(found), found.start, found.end), taken
    return None, taken


def same_both_ways(text: str) -> list[bool]:
    """Compare what is read at once and line by line; return which blocks were read at once."""
    found, taken = outcome(text, quick=True)
    assert outcome(text, quick=False)[0] == found
    return taken


# fmt: off
BULK = [
    ("", ""), ("VERSION", "base=10\nVERSION"), ("a=-9", "a=-1e2"), (" r=-0.25", ""), ("the", "thé"), ("start=0", ""),
    ("W=!SENT_START r=-0.25", "W='em"), ("W=!SENT_START r=-0.25", "W=!'SENT_START'"), (" l=", " language="),
    ("W=!SENT_START", "W='!SENT_START'"), ("W=!SENT_START", "W=\\141"), ("VERSION", "dir=f\nVERSION"),
    ("N=5 L=6", "NODES=5\tLINKS=6"), ("a=-60 l=-7 p=0\n", "a=-60 l=-7 p=0"),
]
LINES = [
    ("J=2\tS=1  E=3 a=-31.25", "J=2 E=3 S=1 a=-31.25"), ("J=2\tS=1  E=3", "J=3\tS=1  E=3"), ("J=4 S=3", "J =4 S=3"),
    ("S=3 E=4 a=-9", "S=3 E=9 a=-9"), ("S=3 E=4 a=-9", "S=3.0 E=4 a=-9"), ("S=3 E=4 a=-9", "S=-3 E=4 a=-9"),
    *(("a=-9 l=0", new) for new in
      ("a=-9 l=", "a=- 9 l=0", "a=-9l=0", "a=-9 1 l=0", "a= l=0 1", "a=1-9 l=0", "a=1.2.3 l=0", "a=nan l=0")),
    ("a=-9", "a=" + "9" * 200), ("J=4 S=3", "J=4 S =3"), ("J=4 S=3", "J=4 W=cat S=3"), ("J=4 S=3", "# J=4 S=3"),
    ("p=1\nJ=5", "p=1\n\nJ=5"), ("L=6", "L=7"), ("L=6", "L=6 L=6"), ("W=!SENT_START", "L=x W=a"), ("I=1 ", "I=2 "),
    ("I=1 ", "I=0000000000000000001 "), ("VERSION", "base=0\nVERSION"),
]
"""Changes of `REGULAR` after which it is read in bulk, and others that may leave it to the reader of lines."""
# fmt: on


@pytest.mark.parametrize(("old", "new"), BULK)
def test_regular_files_are_read_in_bulk_as_they_are_line_by_line(old: str, new: str) -> None:
    text = REGULAR.replace(old, new)
    assert same_both_ways(text)[0]
    assert outcome(text, quick=True)[0] is not None


@pytest.mark.parametrize(("old", "new"), LINES)
def test_whatever_is_not_regular_is_read_as_it_is_line_by_line(old: str, new: str) -> None:
    same_both_ways(REGULAR.replace("r=-0.25", "r=0.25").replace(old, new))


def test_the_example_lattices_are_regular_or_read_line_by_line() -> None:
    taken = [same_both_ways(gzip.decompress(path.read_bytes()).decode()) for path in LATTICES.iterdir()]
    assert any(map(any, taken))


PIECES = (*b"J= S=1 E=9 a= = - 1 . 0 5 e # W=a \xff".split(), b" ", b"\n", b"\t", b"")


@examples(150)
@given(data=st.data())
def test_damaged_files_are_refused_or_read_in_bulk_as_line_by_line(data: st.DataObject, tmp_path: Path) -> None:
    path = tmp_path / "x.slf"
    content = damaged(data, REGULAR.encode(), PIECES, cut=True)
    path.write_bytes(content)
    read_or_refused(path, lambda: load_lattices(path, {"x": "the cat"}), unless="lattice 'x'")
    try:
        text = content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        return
    same_both_ways(text)


def test_folders_archives_and_single_files_hold_the_same(tmp_path: Path) -> None:
    references, files = TEXT, sorted(LATTICES.iterdir())
    folder = load_lattices(LATTICES, references)
    assert load_lattices(files, references).fingerprint == folder.fingerprint
    inner = {f"inner/{path.name.removesuffix('.gz')}": gzip.decompress(path.read_bytes()) for path in reversed(files)}
    (tmp_path / "all.tar.xz").write_bytes(archived("w:xz", inner))
    assert load_lattices(tmp_path / "all.tar.xz", references).fingerprint == folder.fingerprint
    table = tmp_path / "table.tsv"
    table.write_text("utterance\treference\n" + references.read_text().replace(" ", "\t", 0))
    assert load_lattices(files[:1], table, partial=True).n_lists == 1
    for chosen, said, message in (
        (files, {"other": "x"}, "no reference for utterance"), (files[:1], references, "no list for the reference"),
        ([], references, "no lattice in it"), ([files[0]] * 2, references, "comes twice"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=message):
            load_lattices(chosen, said, partial=len(chosen) == 2)


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
    assert f"... (12 in all): 12 lattices, 5,227 links, up to 10^{digits} paths each" in outcome.stderr
    shown = succeeded("solve", *ON_LATTICES, *REGION, "-v").stdout
    assert f"survivors {best.counters['survivors']:,}" in " ".join(shown.split()), "paths that may win"


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
    options = ("--n-best", "7", "--scales", "lm=9.5,words=0")
    assert json_of("solve", *ON_LATTICES, *options, *REGION)["fingerprint"] == lists.fingerprint
    every = lpmert.load_lattices(LATTICES, TEXT)
    assert loss_of("evaluate", path, "--weights", "1,9.5,0") == lpmert.evaluate(every, WEIGHTS).loss


def test_words_are_counted_left_out_and_unified(tmp_path: Path) -> None:
    content = "N=4 L=4\nI=0\nI=1 W=<sil>\nI=2 W=the(2)\nI=3 W=um\n"
    content += "J=0 S=0 E=1 a=-1\nJ=1 S=1 E=2 a=-2\nJ=2 S=2 E=3 a=-3\nJ=3 S=0 E=2 a=-5\n"
    path = put(tmp_path, {"x.slf": content, "text": "x the\n"}) / "x.slf"
    options = ("--references", tmp_path / "text", "--variants", "--silent", "um", "--counts", "silences=<sil>")
    out = tmp_path / "x.tsv"
    succeeded("convert", path, out, *options, "--scales", "acoustic=1,words=0", "--n-best", "3")
    lists = lpmert.read(out)
    assert (lists.names, lists.texts) == (("acoustic", "words", "silences"), ("the",))
    assert lists.dense_features().tolist() == [[-6.0, 1.0, 1.0]]
    assert list(json_of("solve", path, *options, "--features", "acoustic,words")["weights"]) == ["acoustic", "words"]


def test_certificates_of_lattices_are_written_and_verified(tmp_path: Path) -> None:
    one, other = "0 1 the 1\n0 1 a 0.5\n1 2 cat 2\n1 2 cut 1.5\n2\n", "0 1 so 1\n0 2 no 2\n1 2 <eps> 0.25\n2\n"
    put(tmp_path, {"x.fst": one, "y.fst": other, "text": "x the cut\ny no\n"})
    files = (tmp_path / "x.fst", tmp_path / "y.fst", "--references", tmp_path / "text")
    proof = tmp_path / "proof.json"
    found = json_of("solve", *files, "--certificate", proof)
    verified = json_of("verify", proof, *files)
    assert (verified["proved"], verified["bound"]) == (True, found["loss"])
    (tmp_path / "text").write_text("x the cat\ny no\n")
    assert run("verify", proof, *files).exit_code == 5


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        *(((*ON_LATTICES, option, *value), 2, f"{option} does not apply to whole lattices")
          for option, *value in (("--scales", "lm=2"), ("--loss", "errors"), ("--deduplicate",), ("--segment", "utt"))),
        ((*ON_LATTICES, "--scale", "am=1"), 2, "no feature 'am'"),
        ((*ON_LATTICES, "--features", "am"), 1, "no feature 'am'"),
        ((LATTICES,), 2, "--references is needed for reading slf"),
        ((ROOT / "examples/asr/nbest.tsv.gz", "--n-best", "3"), 2, "reading tsv takes no option 'n_best'"),
    ],
)  # fmt: skip
def test_what_lattices_and_tables_cannot_take_is_refused(arguments: tuple[str, ...], code: int, message: str) -> None:
    assert message in refusal("solve", *arguments, code=code)
