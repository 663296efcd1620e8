"""Lattices and hypergraphs in the formats of other tools: what each file means, told by hand, and what is refused."""

from __future__ import annotations

import gzip
import io
import math
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import damaged, examples, read_or_refused

import lpmert
from lpmert import DataError
from lpmert.formats.detect import detect
from lpmert.formats.graphs import Edges, GraphText
from lpmert.formats.lattices import load_lattices
from lpmert.formats.search_graphs import links_of_lattice
from lpmert.model.canonical import CallerWeights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.registry import FORMATS

Found = dict[str, dict[str, float]]

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
SPHINX = """# getcwd: /this/is/bogus
# -logbase 1.000100e+00
#
Frames 100
#
Nodes 4 (NODEID WORD STARTFRAME FIRST-ENDFRAME LAST-ENDFRAME)
0 </s> 90 91 99 ; 7
1 cat 30 80 89 ; 6
2 cut(2) 30 80 88 ; 5
3 <s> 0 29 29 ; 1
#
Initial 3
Final 0
#
BestSegAscr 0 (NODEID ENDFRAME ASCORE)
#
Edges (FROM-NODEID TO-NODEID ASCORE)
3 1 -10240
3 2 -9216
1 0 -20480
2 0 -30720
End
"""
GRAPH = """0 hyp=0 stack=0 forward=1 fscore=-9
0 hyp=17 stack=1 back=0 score=-1 transition=-1 forward=30 fscore=-4 covered=0-0 out=the\x20
0 hyp=25 stack=1 back=0 score=-2 transition=-2 recombined=17 forward=30 fscore=-4 covered=0-0 out=a big
0 hyp=30 stack=2 back=17 score=-4 transition=-3 forward=-1 fscore=-4 covered=1-1 out=house
1 hyp=0 stack=0
1 hyp=5 stack=1 back=0 score=-1 transition=-1.5 forward=-1 fscore=-1 covered=0-0 out=yes , pC=-0.4, c=-0.9
"""
EXTENDED = """0 hyp=0 stack=0 forward=1 fscore=-9
0 hyp=1 stack=1 back=0 score=-1 transition=-1 forward=3 fscore=-4 covered=0-0 scores="core=(0,-1,-2.5) " out="das|the"
0 hyp=2 stack=1 back=0 score=-2 transition=-2 recombined=1 forward=3 fscore=-4 covered=0-0\
 scores="core=(1,-2,-1) pp_a=1" out="das|a big"
0 hyp=3 stack=2 back=1 score=-4 transition=-3 forward=-1 fscore=-4 covered=1-1 scores="core=(0,-1,-1) " out="haus|house"
"""
OLDER = """0 hyp=0 stack=0
0 hyp=47 stack=1 back=0 score=-8 transition=-8 forward=-1 fscore=-17 covered=2-2\
 scores=[ d: -2.000 w: -2.000 tm: 0.5 -1.25 lm: -16 lm: -3 ] out=70|contributes 70
"""
PHRASES = """# target ||| features ||| source-covered
4 5
# node 0
1
<s> |||  ||| 0
# node 1
2
[0] the  ||| LM0=-2 WordPenalty0=-1  ||| 1
[0] a big  ||| LM0=-3 WordPenalty0=-2  ||| 1
# node 2
1
[1] house  ||| LM0=-1 WordPenalty0=-1  ||| 2
# node 3
1
[2] </s> |||  ||| 2
"""
CHART = """# target ||| features ||| source-covered
3 4
# node 0
2
the house  ||| LM=-2 PhrasePenalty_1=1  ||| 2
a house  ||| LM=-2.5  ||| 2
# node 1
1
of  ||| LM=-1  ||| 1
# node 2
1
<s> [1] my [0] </s>  ||| LM=-4  ||| 3
"""
JOSHUA = """# target ||| features
9 9
2
the house ||| lm_0=-2.000 WordPenalty=-0.869
a house ||| lm_0=-2.5
5
of [2] ||| lm_0=-1
"""
CDEC = (
    '{"rules":[1,"[X] ||| <s> ||| <s>",2,"[X] ||| [X] X [X] ||| [2] X [1]",3,"[X] ||| z ||| Z"],'
    '"features":["f1","f2"],"edges":[{"tail":[],"spans":[0,1,0,1],"feats":[0,-2,1,-99],"rule":1}],'
    '"node":{"in_edges":[0],"cat":"X"},"edges":[{"tail":[],"feats":["g",0.5],"rule":3}],'
    '"node":{"in_edges":[1]},"edges":[{"tail":[0,1],"feats":[0,-0.5,1,-0.75],"rule":2}],"node":{"in_edges":[2]}}\n'
)
TRAVATAR = (
    '{"nodes": [{"sym": "S", "span": [0, 2], "id": 0, "edges": [0]}, {"sym": "NP", "span": [0, 1], "id": 1}], '
    '"edges": [{"id": 0, "head": 0, "tails": [1], "trg": [{"label": -1, "words": ["go", -1]}], "features": {"w": 2}}, '
    '{"id": 1, "head": 1, "trg": [{"label": -1, "words": ["he"]}], "features": {"lm": -1.5}, "score": -3}], '
    '"words": ["il", "va"]}\n'
)
CYCLIC_NODES = """# target ||| features ||| source-covered
3 3
# node 0
1
[1] a ||| LM0=-1 |||
# node 1
1
[0] b ||| LM0=-1 |||
# node 2
1
[1] c ||| LM0=-1 |||
"""
KINDS = {
    "kaldi-lattice": PLAIN,
    "fst": ACCEPTOR,
    "pocketsphinx": SPHINX,
    "moses-graph": GRAPH,
    "hypergraph": PHRASES,
    "cdec": CDEC,
    "travatar": TRAVATAR,
}


def written(tmp_path: Path, content: str, name: str = "x") -> Path:
    path = tmp_path / name
    path.write_text(content)
    return path


def hypotheses(source: Any, n_references: list[str] | None = None, **more: Any) -> dict[str, Found]:
    """Texts of all paths with their features, by utterance; each text must come once."""
    ids = ["x"] if n_references is None else n_references
    lattices = load_lattices(source, dict.fromkeys(ids, ""), **more)
    found: dict[str, Found] = {}
    lists = lpmert.n_best(lattices, [1.0] * len(lattices.names), n=1000)
    assert lists.texts is not None
    for number, list_id in enumerate(lists.list_ids):
        begin, end = lists.offsets[number : number + 2].tolist()
        rows = lists.dense_features()[begin:end].tolist()
        own = [dict(zip(lists.names, row, strict=True)) for row in rows]
        found[list_id] = dict(zip(lists.texts[begin:end], own, strict=True))
        assert len(found[list_id]) == end - begin
    return found


def near(found: Found, expected: dict[str, dict[str, float]]) -> None:
    assert found.keys() == expected.keys()
    for text, features in expected.items():
        assert found[text] == pytest.approx(features, abs=1e-9)


@pytest.mark.parametrize("content", [COMPACT, PLAIN])
def test_kaldi_lattices_have_graph_and_acoustic_costs_with_those_of_the_last_state(
    tmp_path: Path, content: str
) -> None:
    table = written(tmp_path, SYMBOLS, "words.txt")
    found = hypotheses(written(tmp_path, content), ["one", "two"], symbols=table)
    names = ("acoustic_cost", "graph_cost", "words")
    expected = {
        "the cat": (200.25, 6.5, 2),
        "the": (199.75, 7.0, 1),
        "a cat": (201.0, 6.0, 2),
        "a": (200.5, 6.5, 1),
    }
    near(found["one"], {text: dict(zip(names, row, strict=True)) for text, row in expected.items()})
    near(found["two"], {"a": {"acoustic_cost": 2.0, "graph_cost": 1.0, "words": 1.0}})
    numbers = hypotheses(written(tmp_path, content), ["one", "two"])
    assert set(numbers["one"]) == {"5 7", "5", "6 7", "6"}


def test_acceptors_and_transducers_have_costs_and_the_words_of_their_output(tmp_path: Path) -> None:
    found = hypotheses(written(tmp_path, ACCEPTOR))
    expected = {"the cat": (0.75, 2), "the": (2.25, 1), "a cat": (2.25, 2), "a": (3.75, 1)}
    near(found["x"], {text: {"cost": cost, "words": words} for text, (cost, words) in expected.items()})
    found = hypotheses(written(tmp_path, TRANSDUCER))
    expected = {"the cat": (0.75, 2), "the": (0.625, 1), "cat": (0.25, 1), "": (0.125, 0)}
    near(found["x"], {text: {"cost": cost, "words": words} for text, (cost, words) in expected.items()})
    numbered = "0 1 5 0.5\n0 1 7\n1 2 0\n2 1\n"
    found = hypotheses(written(tmp_path, numbered), symbols=written(tmp_path, SYMBOLS, "words.txt"))
    near(found["x"], {"the": {"cost": 1.5, "words": 1.0}, "cat": {"cost": 1.0, "words": 1.0}})


def test_pocketsphinx_lattices_have_natural_logarithms_and_the_words_of_nodes(tmp_path: Path) -> None:
    found = hypotheses(written(tmp_path, SPHINX), variants=True)
    unit = math.log(1.0001)
    near(
        found["x"],
        {
            "cat": {"acoustic": -30720 * unit, "words": 1.0},
            "cut": {"acoustic": -39936 * unit, "words": 1.0},
        },
    )


def test_moses_search_graphs_have_a_path_for_each_derivation(tmp_path: Path) -> None:
    found = hypotheses(written(tmp_path, GRAPH), ["0", "1"])
    near(
        found["0"],
        {"the house": {"transition": -4.0, "words": 2.0}, "a big house": {"transition": -5.0, "words": 3.0}},
    )
    near(found["1"], {"yes": {"transition": -1.5, "words": 1.0}})
    found = hypotheses(written(tmp_path, EXTENDED), ["0"])
    near(
        found["0"],
        {
            "the house": {"core1": 0.0, "core2": -2.0, "core3": -3.5, "pp_a": 0.0},
            "a big house": {"core1": 1.0, "core2": -3.0, "core3": -2.0, "pp_a": 1.0},
        },
    )
    found = hypotheses(written(tmp_path, OLDER), ["0"])
    scores = {"d": -2.0, "w": -2.0, "tm1": 0.5, "tm2": -1.25, "lm": -16.0, "lm-2": -3.0}
    near(found["0"], {"contributes 70": scores})


def test_sentences_of_moses_have_references_by_line(tmp_path: Path) -> None:
    references = written(tmp_path, "a big house\nno\n", "reference.txt")
    lattices = load_lattices(written(tmp_path, GRAPH), references)
    assert lattices.references == (("a big house",), ("no",))
    assert lpmert.evaluate(lattices, [1, 0]).loss == 2 + 1
    assert lpmert.evaluate(lattices, [-1, 0]).loss == 1
    both = load_lattices(written(tmp_path, GRAPH), [references, written(tmp_path, "the house\nyes\n", "other.txt")])
    assert both.references == (("a big house", "the house"), ("no", "yes"))


def test_a_hypergraph_of_phrases_is_a_lattice(tmp_path: Path) -> None:
    found = hypotheses(written(tmp_path, PHRASES))
    near(
        found["x"],
        {
            "the house": {"LM0": -3.0, "WordPenalty0": -2.0},
            "a big house": {"LM0": -4.0, "WordPenalty0": -3.0},
        },
    )


def edges_of(kind: str, content: str) -> Edges:
    ((utterance, graph),) = FORMATS.build(kind).graphs(GraphText("x", content))
    assert utterance is None
    assert isinstance(graph, Edges)
    return graph


def rows(edges: Edges) -> list[tuple[int, tuple[int, ...], tuple[str | int, ...], dict[str, float]]]:
    scores = [
        {name: column[place] for name, column in edges.scores.items() if column[place]}
        for place in range(len(edges.heads))
    ]
    return list(zip(edges.heads, edges.tails, edges.outputs, scores, strict=True))


def test_edges_of_charts_put_the_texts_of_their_tails_in_any_order() -> None:
    edges = edges_of("hypergraph", CHART)
    assert rows(edges) == [
        (0, (), ("the", "house"), {"LM": -2.0, "PhrasePenalty_1": 1.0}),
        (0, (), ("a", "house"), {"LM": -2.5}),
        (1, (), ("of",), {"LM": -1.0}),
        (2, (1, 0), (0, "my", 1), {"LM": -4.0}),
    ]
    assert edges.goal == 2


def test_edges_of_joshua_follow_the_number_of_their_node() -> None:
    edges = edges_of("hypergraph", JOSHUA)
    assert rows(edges) == [
        (2, (), ("the", "house"), {"lm_0": -2.0, "WordPenalty": -0.869}),
        (2, (), ("a", "house"), {"lm_0": -2.5}),
        (5, (2,), ("of", 0), {"lm_0": -1.0}),
    ]
    assert edges.goal == 5


def test_edges_of_cdec_have_the_words_of_their_rules() -> None:
    edges = edges_of("cdec", CDEC)
    assert rows(edges) == [
        (0, (), (), {"f1": -2.0, "f2": -99.0}),
        (1, (), ("Z",), {"g": 0.5}),
        (2, (0, 1), (1, "X", 0), {"f1": -0.5, "f2": -0.75}),
    ]
    assert edges.goal == 2


def test_edges_of_travatar_lead_to_node_0() -> None:
    edges = edges_of("travatar", TRAVATAR)
    assert rows(edges) == [(0, (1,), ("go", 0), {"w": 2.0}), (1, (), ("he",), {"lm": -1.5})]
    assert edges.goal == 0


def test_hypergraphs_are_searched_over_all_derivations(tmp_path: Path) -> None:
    chart = load_lattices(written(tmp_path, CHART), {"x": "of my a house"})
    assert isinstance(chart, lpmert.Hypergraphs)
    assert chart.names == ("LM", "PhrasePenalty_1")
    problem = LatticeProblem(chart)
    for weights, text, features in (
        ([1.0, 0.0], "of my the house", [-7.0, 1.0]),
        ([1.0, -1.0], "of my a house", [-7.5, 0.0]),
    ):
        (way,) = problem.decode(CallerWeights(np.array(weights))).winners[0].ways
        assert problem.text(0, way) == text
        assert problem.features(0, way).tolist() == features
    assert lpmert.minimize(chart).loss == 0
    cdec = load_lattices(written(tmp_path, CDEC), {"x": "Z X"})
    assert cdec.names == ("f1", "f2", "g")
    assert lpmert.evaluate(cdec, [1, 1, 1]).loss == 0
    travatar = load_lattices(written(tmp_path, TRAVATAR), {"x": "go he now"})
    assert lpmert.evaluate(travatar, {"w": 1, "lm": 1}).loss == 1


def test_words_of_hypergraphs_are_counted_and_left_out(tmp_path: Path) -> None:
    chart = load_lattices(written(tmp_path, CHART), {"x": "my house"}, silent=["of"], counts={"articles": ["the", "a"]})
    assert chart.names == ("LM", "PhrasePenalty_1", "articles")
    problem = LatticeProblem(chart)
    (way,) = problem.decode(CallerWeights(np.array([1.0, 0.0, 0.0]))).winners[0].ways
    assert problem.text(0, way) == "my house"
    assert problem.features(0, way).tolist() == [-7.0, 1.0, 1.0]


def test_lattices_beside_hypergraphs_are_hypergraphs_too(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "chart").write_text(CHART)
    (folder / "phrases").write_text(PHRASES)
    both = load_lattices(folder, {"chart": "of my a house", "phrases": "a big house"})
    assert isinstance(both, lpmert.Hypergraphs)
    assert both.names == ("LM", "PhrasePenalty_1", "LM0", "WordPenalty0")
    assert [round(10**digits) for digits in both.log10_paths.tolist()] == [2, 2]
    assert lpmert.minimize(both).loss == 0
    lists = lpmert.read(folder, references={"chart": "of my a house", "phrases": "a big house"})
    assert np.diff(lists.offsets).tolist() == [2, 2]
    assert lpmert.minimize(lists).loss == 0


def test_hypergraphs_with_a_cycle_are_refused_with_their_file(tmp_path: Path) -> None:
    content = TRAVATAR.replace('{"id": 1, "head": 1, "trg"', '{"id": 1, "head": 1, "tails": [0], "trg"')
    path = written(tmp_path, content.replace('"words": ["he"]', '"words": ["he", -1]'))
    with pytest.raises(DataError, match="cycle") as caught:
        load_lattices(path, {"x": "a"})
    assert caught.value.path == str(path)


def test_several_hypergraphs_of_a_file_are_called_by_their_lines() -> None:
    for kind, content in (("cdec", CDEC), ("travatar", TRAVATAR)):
        assert [name for name, _ in FORMATS.build(kind).graphs(GraphText("x", 2 * content))] == ["0", "1"]


@pytest.mark.parametrize("kind", KINDS)
def test_content_tells_the_format_plain_compressed_and_in_archives(tmp_path: Path, kind: str) -> None:
    content = KINDS[kind].encode()
    path = tmp_path / "some"
    for data in (content, b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"), gzip.compress(content)):
        path.write_bytes(data)
        assert detect(path) == kind
    for mode in ("w", "w:gz"):
        for inner in (content, gzip.compress(content)):
            with tarfile.open(path, mode) as archive:
                entry = tarfile.TarInfo("folder/x")
                entry.size = len(inner)
                archive.addfile(entry, io.BytesIO(inner))
            assert detect(path) == kind
    graphs = FORMATS.build(kind).graphs(GraphText("x", content.decode()))
    ids = [name or "x" for name, _ in graphs]
    whole = load_lattices(path, dict.fromkeys(ids, "a"))
    assert whole.list_ids == tuple(ids)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/x").write_bytes(content)
    assert detect(tmp_path / "folder") == kind
    assert load_lattices(tmp_path / "folder", dict.fromkeys(ids, "a")).fingerprint == whole.fingerprint


CYCLE = "0 1 a\n1 2 b\n2 1 c\n1 3 d\n3\n"


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (CYCLE, 2, "the links make a cycle: 1 -> 2 -> 1"),
        ("0 1 a\n1 1 b\n1\n", 2, "cycle: 1 -> 1"),
        ("0 1 a\n2 3 b\n3\n", 1, "no path from node 0"),
        ("0 1 a\n1 2 b c d e\n2\n", 2, "more than five fields"),
        ("0 1 a\n1 2 b c d\n2\n", 2, "5 fields, where others are of an acceptor"),
        ("0 1 2 3\n1 2 3 4\n2\n", 1, "could be output labels or weights; print five fields"),
        ("0 1 a x,y\n1\n", 1, "the weight is 'x', not a number"),
        ("0 1 a 1,2\n1 0.5\n", 2, "should be graph cost, acoustic cost"),
        ("0 1 a\n1 x\n", 2, "the weight is 'x', not a number"),
        ("u\n0 1 5 1,2,\n1\n\nu v\n", 5, "should be an utterance alone"),
        ("u\n0 1 5 1,2,\n1\n\nu\n0 1 5 1,2,\n1\n", None, "utterance 'u' comes twice"),
        (SPHINX.replace("End\n", ""), None, "no line End: the file is cut off"),
        (SPHINX.replace("Nodes 4", "Nodes 5"), 6, "5 nodes, but there are lines for 4"),
        (SPHINX.replace("3 2 -9216", "3 9 -9216"), 19, "node 9, but there are only nodes 0 to 3"),
        (SPHINX.replace("Final 0", "Final 7"), 13, "Final 7, but there are only nodes 0 to 3"),
        (SPHINX.replace("FROM-NODEID TO-NODEID", "FROM-NODEID ENDFRAME"), 17, "the edges must lead to nodes"),
        (SPHINX.replace("1.000100e+00", "0.5"), 2, "0.5 is no base of logarithms"),
        (SPHINX.replace("1 0 -20480", "1 3 -20480"), 18, "cycle: 3 -> 1 -> 3"),
        ("u\n0 1 3 5 1,2\n1 2 8 5\n2 1 8 5\n2 3 8 6\n3 0.5,0\n\n", 3, "cycle: 1 -> 2 -> 1"),
        ("u\n0 1 5 1,2,3\n1 2 6 1,2,3\n2 2 6 1,2,3\n2 0,0,\n\n", 4, "cycle: 2 -> 2"),
        (GRAPH.replace("back=0 score=-2", "back=30 score=-2"), 4, "cycle: 17 -> 30 -> "),
        (GRAPH.replace(" transition=-3", ""), 4, "is no line of a search graph"),
        (GRAPH.replace("transition=-3", "transition=x"), 4, "transition= is 'x', not a number"),
        (GRAPH.replace("forward=-1", "forward=8"), None, "no path from node 0"),
        (EXTENDED.replace('out="haus|house"', 'out="haus|NN|house"'), 4, "without factors"),
        (EXTENDED.replace(' scores="core=(0,-1,-1) "', ""), 4, "only some lines of the sentence have scores="),
        (PHRASES.replace("4 5", "4 6"), 15, "4 nodes and 5 edges, but line 2 says 4 and 6"),
        (PHRASES.replace("[1] house", "[7] house"), 12, r"\[7\] is no node before this one"),
        (CYCLIC_NODES, 5, r"\[1\] is no node before this one"),
        (PHRASES.replace("LM0=-1 W", "LM0 W"), 12, "'LM0' should be a feature name=value"),
        (PHRASES.replace("# node 1", "# node 4"), 6, "node 4, where node 1 should be"),
        (CDEC.replace('"rule":2', '"rule":9'), 1, "no rule 9"),
        (CDEC.replace('"tail":[0,1]', '"tail":[0]'), 1, "an edge with 1 tails must have each in its output once"),
        (CDEC.replace('"tail":[0,1]', '"tail":[0,2]'), 1, "a tail is 2, not a number from 0 to 1"),
        (CDEC.replace('"in_edges":[2]', '"in_edges":[3]'), 1, "an edge is 3"),
        (CDEC.replace(',"rule":2', ""), 1, "an edge without a rule has no words"),
        (CDEC.replace('"f2"', '"f1"'), 1, "feature 'f1' is no name, or comes twice"),
        (CDEC[:-5], 1, "no JSON"),
        (TRAVATAR.replace('"words": ["he"]', '"words": ["he", -1]'), 1, "an edge with 0 tails"),
        (TRAVATAR.replace('"id": 1}]', '"id": 5}]'), 1, "the ids of the nodes must be the numbers from 0"),
        (TRAVATAR.replace('"lm": -1.5', '"lm": "a"'), 1, "'lm' is 'a', not a number"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(tmp_path: Path, content: str, line: int | None, message: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(DataError, match=message) as caught:
        load_lattices(path, dict.fromkeys(["x", "u", "0", "1"], "a"), partial=True)
    assert caught.value.path == str(path)
    assert caught.value.line == line or line is None


def test_symbols_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    references = {"one": "a", "two": "a"}
    lattices = written(tmp_path, PLAIN)
    for table, where, message in (
        ("<eps> 0\nthe 5\n", lattices, "label 6 is not among the symbols"),
        ("the\n", tmp_path / "words.txt", "'the' should be a word and its number"),
        ("the 5\na 5\n", tmp_path / "words.txt", "5 is the number of 'the' already"),
        ("", tmp_path / "words.txt", "empty file"),
    ):
        with pytest.raises(DataError, match=message) as caught:
            load_lattices(lattices, references, symbols=written(tmp_path, table, "words.txt"))
        assert caught.value.path == str(where)
    with pytest.raises(DataError, match="the labels are words; leave the symbols out"):
        load_lattices(written(tmp_path, ACCEPTOR), {"x": "a"}, symbols=written(tmp_path, SYMBOLS, "words.txt"))


def test_features_are_chosen_by_name_and_pattern(tmp_path: Path) -> None:
    path = written(tmp_path, EXTENDED)
    lattices = load_lattices(path, {"0": "a"}, features=["core*"])
    assert lattices.names == ("core1", "core2", "core3")
    assert load_lattices(path, {"0": "a"}, features="pp_a").names == ("pp_a",)
    with pytest.raises(DataError, match="nothing"):
        load_lattices(path, {"0": "a"}, features=["nothing"])


PIECES = (
    b"0",
    b"1",
    b"9",
    b" ",
    b"\n",
    b"\t",
    b"-",
    b".",
    b",",
    b"=",
    b"|",
    b"[",
    b"{",
    b'"',
    b"#",
    b"x",
    b"\xff",
    b"",
)


WHOLE = [
    *KINDS.items(),
    ("kaldi-lattice", COMPACT),
    ("fst", TRANSDUCER),
    ("moses-graph", EXTENDED),
    ("hypergraph", CHART),
    ("hypergraph", JOSHUA),
]


@pytest.mark.parametrize(("kind", "content"), WHOLE)
@examples(40)
@given(data=st.data())
def test_damaged_files_are_read_or_refused_with_their_name(
    tmp_path: Path, kind: str, content: str, data: st.DataObject
) -> None:
    path = tmp_path / "x"
    path.write_bytes(damaged(data, content.encode(), PIECES, cut=True))
    ids = dict.fromkeys(["x", *map(str, range(12)), "one", "two"], "a")
    found = read_or_refused(
        path, lambda: load_lattices(path, ids, format=kind, partial=True), unless="no reference for utterance"
    )
    assert found is None or found.n_lists > 0


class Node(SimpleNamespace):
    """A node of MeCab's lattice, as its Python module shows it."""


def analysed() -> Any:
    """By hand: BOS, then ab or a + b, then EOS; costs of words 10, 3, 4 and of neighbours 1, 2, 5, 6, 7."""
    bos = Node(id=0, surface="", wcost=0, lpath=None, bnext=None)
    ab = Node(id=1, surface="ab", wcost=10, bnext=None)
    a = Node(id=2, surface="a", wcost=3, bnext=ab)
    b = Node(id=3, surface="b", wcost=4, bnext=None)
    eos = Node(id=4, surface="", wcost=0, bnext=None)

    def path(left: Node, right: Node, connection: int, following: Any = None) -> Any:
        return SimpleNamespace(lnode=left, rnode=right, cost=connection + right.wcost, lnext=following)

    ab.lpath, a.lpath, b.lpath = path(bos, ab, 1), path(bos, a, 2), path(a, b, 5)
    eos.lpath = path(ab, eos, 6, path(b, eos, 7))
    begins = {0: a, 1: b, 2: eos}
    return SimpleNamespace(
        bos_node=lambda: bos, eos_node=lambda: eos, size=lambda: 2, begin_nodes=lambda place: begins.get(place)
    )


def test_mecab_gives_all_analyses_with_the_costs_of_words_and_neighbours() -> None:
    links = links_of_lattice(analysed())
    lattices = lpmert.Lattices(
        [list(row) for row in zip(*(links.scores[name] for name in ("word_cost", "connection_cost")), strict=True)],
        [0, len(links.sources)],
        links.sources,
        links.targets,
        [links.vocabulary[word] for word in links.words],
        ["a b"],
        starts=[links.start],
        ends=[links.end],
    )
    lists = lpmert.n_best(lattices, [-1, -1])
    assert lists.texts == ("ab", "a b")  # 10 + 1 + 6 and 3 + 4 + 2 + 5 + 7
    assert lists.dense_features().tolist() == [[10.0, 7.0], [7.0, 14.0]]


def test_sentences_are_analysed_by_mecab_itself(tmp_path: Path) -> None:
    module = pytest.importorskip("MeCab", reason="MeCab is not installed")
    try:
        module.Tagger()
    except RuntimeError:
        pytest.skip("MeCab has no dictionary")
    path = written(tmp_path, "one すもももももももものうち\n")
    lattices = load_lattices(path, {"one": "すもも も もも も もも の うち"}, format="mecab")
    best = lpmert.n_best(lattices, {"word_cost": -1, "connection_cost": -1, "words": 0}, n=1)
    assert best.texts == (" ".join(module.Tagger("-Owakati").parse("すもももももももものうち").split()),)


def test_without_mecab_its_format_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "MeCab", None)
    with pytest.raises(DataError, match=r"MeCab is not installed: pip install 'lpmert\[mecab\]'"):
        load_lattices(written(tmp_path, "one x\n"), {"one": "x"}, format="mecab")
