"""Lattices and hypergraphs as readers find them, and as decoders write them: Moses, Joshua, Kaldi, OpenFst's fstprint.

Sources: OutputSearchNode and OutputSearchGraphAsHypergraph in Moses' moses/Manager.cpp, operator<< of FVector in its
moses/FeatureVector.cpp, ChartSearchGraphWriterHypergraph in its moses/ChartManager.cpp, ReadGraph in its
mert/Hypergraph.cpp; HyperGraphDumper in Joshua's hypergraph/HyperGraph.java; LatticeReader and the holders' Write in
Kaldi's src/lat/kaldi-lattice.cc, operator<< of LatticeWeightTpl in its src/fstext/lattice-weight.h (graph cost,
acoustic cost, and for compact lattices transition ids joined by _); FstPrinter in OpenFst's fst/script/print-impl.h,
and its symbol tables: both leave out weights of one, which cost nothing.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.formats.format import NamedRows
from lpmert.formats.text import Place, placed_lines, words_of
from lpmert.quoting import quoted

Symbols = Mapping[int, str]
"""Words by number."""


class GraphText(NamedTuple):
    """The text of a file of graphs; symbols: the words of labels that are numbers, if the caller gives them."""

    path: str | Path
    text: str
    symbols: Symbols | None = None

    def lines(self) -> Iterator[tuple[Place, str]]:
        return ((Place(self.path, number), line) for number, line in enumerate(self.text.split("\n"), 1))


Output = str | int
"""A word, or the place of a tail, from 0, whose text stands here."""


class Links(NamedTuple):
    """The links of a lattice: sources, targets, words [L] as places in a vocabulary, scores by name [L]; start and end.

    lines [L]: of the file, -1 for none. nodes: what the file calls the nodes, if not by these numbers. scales: factors
    of the scores that the file gives. complete: whether the scores are all features of the model, so that none is
    added, and one that is missing is 0.
    """

    sources: NDArray[np.integer]
    targets: NDArray[np.integer]
    words: NDArray[np.integer]
    vocabulary: list[str | None]
    scores: dict[str, FloatArray]
    start: int
    end: int
    lines: NDArray[np.integer]
    nodes: Sequence[int] = ()
    scales: Mapping[str, float] = {}
    complete: bool = False


class Edges(NamedTuple):
    """The edges of a hypergraph: heads, tails and outputs [L] as for `lpmert.Hypergraphs`, scores by name; the goal.

    The scores are all features of the model; one that an edge does not have is 0. lines [L]: of the file.
    """

    heads: list[int]
    tails: list[tuple[int, ...]]
    outputs: list[tuple[Output, ...]]
    scores: dict[str, FloatArray]
    goal: int
    lines: list[int]


class LinkList:
    """Links of one lattice, gathered one after the other."""

    def __init__(self) -> None:
        self._numbers: dict[str | None, int] = {}
        self._sources, self._targets, self._words, self._lines = array("q"), array("q"), array("q"), array("q")
        self._rows = NamedRows()

    def __len__(self) -> int:
        return len(self._sources)

    def add(
        self, source: int, target: int, word: str | None, names: tuple[str, ...], scores: Sequence[float], line: int
    ) -> None:
        """Append a link that has these scores under these names."""
        self._sources.append(source)
        self._targets.append(target)
        self._words.append(self._numbers.setdefault(word, len(self._numbers)))
        self._lines.append(line)
        self._rows.add(names, scores)

    def add_phrase(
        self,
        ends: tuple[int, int],
        words: Sequence[str],
        names: tuple[str, ...],
        scores: Sequence[float],
        line: int,
        fresh: int,
    ) -> int:
        """Append a link for each word of a phrase, of which the first has the scores; return the next fresh node.

        The nodes between them are `fresh` and those after it. A phrase without words is one link.
        """
        nodes = [ends[0], *range(fresh, fresh + max(0, len(words) - 1)), ends[1]]
        for place, word in enumerate(words or [None]):
            self.add(nodes[place], nodes[place + 1], word, names, scores if place == 0 else [0.0] * len(names), line)
        return fresh + len(nodes) - 2

    def links(self, start: int, end: int, *, nodes: Sequence[int] = (), complete: bool = False) -> Links:
        sources, targets, words, lines = (
            np.array(one, dtype=np.int64) for one in (self._sources, self._targets, self._words, self._lines)
        )
        vocabulary, scores = list(self._numbers), _columns(self._rows)
        return Links(sources, targets, words, vocabulary, scores, start, end, lines, nodes, complete=complete)


def edges_of_links(links: Links, words: Iterable[str | None]) -> Edges:
    """Return a lattice as a hypergraph; words [L]: those of the links, `None` for none."""
    outputs: list[tuple[Output, ...]] = [(0,) if word is None else (0, word) for word in words]
    heads, tails = links.targets.tolist(), [(source,) for source in links.sources.tolist()]
    first = np.zeros(1)  # the start is derived from nothing
    return Edges(
        [*heads, links.start],
        [*tails, ()],
        [*outputs, ()],
        {name: np.concatenate([column, first]) for name, column in links.scores.items()},
        links.end,
        [*links.lines.tolist(), -1],
    )


def links_of_edges(edges: Edges) -> Links | None:
    """Return a hypergraph whose texts grow to the right only as a lattice; `None` for another one."""
    pairs = zip(edges.tails, edges.outputs, strict=True)
    if any(tails and (len(tails) > 1 or outputs[:1] != (0,)) for tails, outputs in pairs):
        return None
    names = tuple(edges.scores)
    rows = np.column_stack([*edges.scores.values()]).tolist() if names else [[] for _ in edges.heads]
    start = max((*edges.heads, *(node for tails in edges.tails for node in tails)), default=0) + 1
    fresh, found = start + 1, LinkList()
    for head, tails, outputs, row, line in zip(edges.heads, edges.tails, edges.outputs, rows, edges.lines, strict=True):
        words = [one for one in outputs if isinstance(one, str)]
        fresh = found.add_phrase((tails[0] if tails else start, head), words, names, row, line, fresh)
    return found.links(start, edges.goal, complete=True)


def check_paths(links: Links, path: str | Path) -> None:
    """Raise `DataError`, with the line, where the links make a cycle, or no path from start to end."""
    import networkx as nx

    graph: Any = nx.DiGraph()
    graph.add_nodes_from((links.start, links.end))
    graph.add_edges_from(zip(links.sources.tolist(), links.targets.tolist(), strict=True))
    if not nx.is_directed_acyclic_graph(graph):
        pairs = nx.find_cycle(graph)
        shown = " -> ".join(str(_shown(links, node)) for node in [*(source for source, _ in pairs), pairs[0][0]])
        on_it = (links.sources == pairs[0][0]) & (links.targets == pairs[0][1])
        raise Place(path, _line(links, on_it)).error(f"the links make a cycle: {shown}; a lattice has none: unfold it")
    if not nx.has_path(graph, links.start, links.end) or links.start == links.end:
        into = (links.targets == links.end) | (links.sources == links.start)
        raise Place(path, _line(links, into)).error(
            f"no path from node {_shown(links, links.start)} to node {_shown(links, links.end)}; leave the lattice out"
        )


def _columns(rows: NamedRows) -> dict[str, FloatArray]:
    names, values = rows.matrix()
    dense = values if isinstance(values, np.ndarray) else values.toarray()
    return {name: np.ascontiguousarray(column) for name, column in zip(names, dense.T, strict=True)}


def _shown(links: Links, node: int) -> int:
    return links.nodes[node] if links.nodes else node


def _line(links: Links, wanted: IntArray) -> int | None:
    lines = links.lines[wanted]
    return int(lines[0]) if len(lines) and lines[0] > 0 else None


_SLF = re.compile(r"(VERSION|V|UTTERANCE|U|NODES|N|I|base|dir|start|end|lmname|[a-z0-9]+scale|wdpenalty)=")
_SEARCH_GRAPH = re.compile(r"\d+ hyp=\d+ stack=\d+( |$)")
_ARC = re.compile(r"\d+[ \t]+\d+([ \t]+\S+){1,3}\s*")
_STATE = re.compile(r"\d+(\s|$)")


def kind_of_graph(text: str) -> str | None:
    """Return the format of lattices that a text, or its beginning, looks like; `None` for none."""
    later = (line for line in text.removeprefix("\ufeff").split("\n") if line.strip())
    rows = list(islice(later, 2))
    if not rows:
        return None
    first = rows[0]
    plain = next((line for line in chain(rows, later) if not line.startswith("#")), "")
    if _SLF.match(plain):
        return "slf"
    if first.startswith("# target ||| features"):
        return "hypergraph"
    if _SEARCH_GRAPH.match(first):
        return "moses-graph"
    if _ARC.fullmatch(first) and all(map(_STATE.match, chain(rows, later))):
        return "fst"
    return "kaldi-lattice" if len(first.split()) == 1 and len(rows) > 1 and _ARC.match(rows[1]) else None


Named = Iterator[tuple[str | None, Links]]
"""Lattices, each with its utterance if the text says it."""

TRANSITION = "transition"

_LINE = re.compile(
    r"(?P<sentence>[0-9]{1,18}) hyp=(?P<hyp>[0-9]{1,18}) stack=[0-9]{1,18}"
    r"(?: back=(?P<back>[0-9]{1,18}) score=\S+ transition=(?P<transition>\S+)"
    r"(?: recombined=(?P<recombined>[0-9]{1,18}))?)?(?: forward=(?P<forward>-?[0-9]{1,18}) fscore=\S+)?"
    r'(?: covered=\S+)?(?: scores=(?P<scores>"[^"]*"|\[[^\]]*\]))?(?: out=(?P<out>.*))?'
)
_OLD_TAIL = re.compile(r" , pC=\S+ c=\S+$| , pC=\S+, c=\S+$")
_CORE = re.compile(r"core=\(([^)]*)\)")
_FINAL = -1


def moses_graphs(file: GraphText) -> Named:
    """Yield sentence and links of each search graph, in the order of the file.

    A recombined hypothesis leads to the one it was recombined with. The features are `transition`, the model's score of
    the phrase, or, in the extended form, all scores of the model: core1, core2, ... and sparse ones by name. Of several
    words of a link each has a link of its own; the scores are on the first.
    """
    sentence, reader = "", _Sentence()
    for place, line in file.lines():
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise place.error(f"{quoted(line)} is no line of a search graph")
        if match["sentence"] != sentence:
            if sentence:
                yield sentence, reader.links()
            sentence, reader = match["sentence"], _Sentence()
        reader.add(match, place)
    if sentence:
        yield sentence, reader.links()


class _Sentence:
    """Gathers the lines of one sentence; nodes are numbered as they come, 0 is the empty hypothesis."""

    def __init__(self) -> None:
        self._nodes: dict[int, int] = {0: 0}
        self._finals: dict[int, int] = {}
        self._extended: bool | None = None
        self._rows: list[tuple[tuple[int, int], list[str], tuple[str, ...], list[float], int]] = []

    def add(self, match: re.Match[str], place: Place) -> None:
        if match["back"] is None:
            if int(match["hyp"]) != 0:
                raise place.error("no back=, which must name the hypothesis before")
            return
        if match["forward"] is None or match["out"] is None:
            raise place.error("no forward= or no out=; write the graph with Moses 1.0 or later")
        extended = match["scores"] is not None
        if self._extended not in (None, extended):
            raise place.error("only some lines of the sentence have scores=")
        self._extended, line = extended, place.line or 0
        node = self._node(match["recombined"] or match["hyp"])
        if int(match["forward"]) == _FINAL:
            self._finals.setdefault(node, line)
        if extended:
            names, values = _moses_scores(match["scores"][1:-1], place)
        else:
            names, values = (TRANSITION,), [place.number(match["transition"], "transition=")]
        words = _moses_words(match["out"], extended, place)
        self._rows.append(((self._node(match["back"]), node), words, names, values, line))

    def links(self) -> Links:
        """Return the links of all lines, and those from the last hypotheses to the end."""
        fresh, found = len(self._nodes), LinkList()
        for row in self._rows:
            fresh = found.add_phrase(*row, fresh)
        for node, line in self._finals.items():
            found.add(node, fresh, None, (), [], line)
        nodes = [*self._nodes, *range(-1, -1 - (fresh + 1 - len(self._nodes)), -1)]
        return found.links(0, fresh, nodes=nodes, complete=bool(self._extended))

    def _node(self, text: str) -> int:
        return self._nodes.setdefault(int(text), len(self._nodes))


def _moses_words(out: str, extended: bool, place: Place) -> list[str]:
    if not extended:
        return words_of(_OLD_TAIL.sub("", out))
    source, bar, target = out.removeprefix('"').removesuffix('"').rpartition("|")
    if not bar or "|" in source:
        raise place.error(f"out={quoted(out)} should be a source phrase, |, and a target phrase, both without factors")
    return words_of(target)


def _moses_scores(text: str, place: Place) -> tuple[tuple[str, ...], list[float]]:
    """Return names and values of `core=(0,-1.5) name=2`."""
    core = _CORE.search(text)
    if core is None:
        raise place.error(f"scores={quoted(text)} should be core=(...) and name=number; use a later Moses")
    pairs = [(f"core{number}", value) for number, value in enumerate(filter(None, core[1].split(",")), 1)]
    for part in words_of(text[: core.start()] + text[core.end() :]):
        name, _, value = part.rpartition("=")
        pairs.append((name, value))
    named: dict[str, float] = {}
    for name, value in pairs:
        if name in named:
            raise place.error(f"scores has {quoted(name)} twice")
        named[name] = place.number(value, quoted(name))
    return tuple(named), list(named.values())


COST, GRAPH, ACOUSTIC = "cost", "graph_cost", "acoustic_cost"
EPSILON = frozenset({"<eps>", "<epsilon>"})

_PAIR = re.compile(r"[^,\s]+,[^,\s]+(,[0-9_]*)?")
_WHOLE = re.compile(r"-?[0-9]+")
_NONE = ("Infinity", "inf")
"""How the weight of a state that is not final is written."""

Row = tuple[Place, list[str]]
"""A line of a finite-state machine, with 1 to 5 fields."""


def read_symbols(path: str | Path) -> Symbols:
    """Return the words of a symbol table, lines `word number`, by number; raises `DataError` for anything else."""
    found: dict[int, str] = {}
    for place, line in placed_lines(path):
        cells = words_of(line)
        if not cells:
            continue
        if len(cells) != 2:
            raise place.error(f"{quoted(line)} should be a word and its number")
        number = place.whole(cells[1], "the number")
        if number in found:
            raise place.error(f"{number} is the number of {quoted(found[number])} already")
        found[number] = cells[0]
    if not found:
        raise DataError("empty file; it must hold lines word number", path=path)
    return found


def kaldi_lattices(file: GraphText) -> Named:
    """Yield utterance and links of each lattice of a text archive: the utterance, its lines, and an empty line."""
    key: str | None = None
    rows: list[Row] = []
    for place, line in [*file.lines(), (Place(file.path), "")]:
        fields = words_of(line)
        if not fields:
            if key is not None:
                yield key, _of_states(rows, file, of_kaldi=True)
            key, rows = None, []
        elif key is None:
            if len(fields) > 1:
                raise place.error(f"{quoted(line)} should be an utterance alone")
            key = fields[0]
        else:
            rows.append((place, fields))


def fst_lattices(file: GraphText) -> Named:
    """Yield the links of the one acceptor or transducer in a text, whose words are the output labels."""
    rows = [(place, fields) for place, line in file.lines() if (fields := words_of(line))]
    yield None, _of_states(rows, file, of_kaldi=False)


def _of_states(rows: Sequence[Row], file: GraphText, *, of_kaldi: bool) -> Links:
    if not rows:
        raise DataError("a lattice without lines; leave it out", path=file.path)
    for place, fields in rows:
        if len(fields) > 5:
            raise place.error("more than five fields: state, state, labels and weight")
    arcs, finals = [row for row in rows if len(row[1]) > 2], [row for row in rows if len(row[1]) < 3]
    acceptor = _is_acceptor(arcs)
    label = 2 if acceptor else 3
    for place, fields in arcs:
        if not label < len(fields) <= label + 2:
            shape = "an acceptor: state, state, label" if acceptor else "a transducer: state, state, input, output"
            raise place.error(f"{len(fields)} fields, where others are of {shape}")
    in_words = any(not _WHOLE.fullmatch(fields[label]) for _, fields in arcs)
    weights = [fields[label + 1] if len(fields) > label + 1 else None for _, fields in arcs]
    ends = [fields[1] if len(fields) == 2 else None for _, fields in finals]
    pairs = of_kaldi or any(weight is not None and "," in weight for weight in (*weights, *ends))
    names = (GRAPH, ACOUSTIC) if pairs else (COST,)
    found = LinkList()
    for (place, fields), weight in zip(arcs, weights, strict=True):
        source, target = (place.whole(field, "the state") for field in fields[:2])
        word = _word(fields[label], in_words, file.symbols, place)
        found.add(source, target, word, names, _costs(weight, names, place), place.line or 0)
    start = rows[0][0].whole(rows[0][1][0], "the state")
    last = max((int(field) for _, fields in arcs for field in fields[:2]), default=start)
    states = [place.whole(fields[0], "the state") for place, fields in finals]
    end = max([last, *states]) + 1
    for (place, _), state, weight in zip(finals, states, ends, strict=True):
        if weight is None or weight.partition(",")[0] not in _NONE:
            found.add(state, end, None, names, _costs(weight, names, place), place.line or 0)
    return found.links(start, end)


def _is_acceptor(arcs: Sequence[Row]) -> bool:
    """Whether arcs have one label; what tells is a line of three or five fields, or how the fourth is written."""
    sizes = {len(fields) for _, fields in arcs}
    if 3 in sizes or 5 in sizes:
        return 3 in sizes
    for _, fields in arcs:
        label_or_weight = fields[3]
        if _PAIR.fullmatch(label_or_weight):
            return True
        try:
            float(label_or_weight)
        except ValueError:
            return False
        if not _WHOLE.fullmatch(label_or_weight):
            return True
    if not arcs:
        return True
    raise arcs[0][0].error(
        "whole numbers in the fourth field could be output labels or weights; print five fields: "
        "fstprint --show_weight_one, without --acceptor"
    )


def _word(label: str, in_words: bool, symbols: Symbols | None, place: Place) -> str | None:
    """Return the word of a label, `None` for epsilon: number 0, or a word of `EPSILON`."""
    if in_words:
        if symbols is not None:
            raise place.error("the labels are words; leave the symbols out")
        return None if label in EPSILON else label
    number = place.whole(label, "the label")
    if number == 0:
        return None
    if symbols is None:
        return label
    if number not in symbols:
        raise place.error(f"label {number} is not among the symbols; give the table of these lattices")
    return None if symbols[number] in EPSILON else symbols[number]


def _costs(weight: str | None, names: tuple[str, ...], place: Place) -> list[float]:
    if weight is None:
        return [0.0] * len(names)
    parts = weight.split(",")
    if len(parts) not in ({1} if names == (COST,) else {2, 3}):
        shape = "one number" if names == (COST,) else "graph cost, acoustic cost and transition ids"
        raise place.error(f"the weight {quoted(weight)} should be {shape}")
    return [place.number(part, "the weight") for part in parts[: len(names)]]


_HEADER = "# target ||| features"
_MARKS = frozenset({"<s>", "</s>"})
"""Words that stand for the ends of the sentence."""

_BAR = "|||"
_NODE = re.compile(r"# node ([0-9]{1,18})")
_TAIL = re.compile(r"\[([0-9]{1,18})\]")


def hypergraphs(file: GraphText) -> Iterator[tuple[str | None, Edges]]:
    """Yield the edges of the hypergraph of a text; the goal is its last node.

    In Moses' form, the number of edges and these edges follow for each node, from 0; in Joshua's, the number of the
    node and its edges. Joshua counts nodes and edges that it does not write.
    """
    rows = [(place, line) for place, line in file.lines() if line.strip()]
    first, header = rows[0] if rows else (Place(file.path, 1), "")
    if not header.startswith(_HEADER):
        raise first.error(f"{quoted(header)} should be {_HEADER}")
    counts = words_of(rows[1][1]) if len(rows) > 1 else []
    if len(counts) != 2:
        raise first.error("the second line must have the numbers of nodes and of edges")
    second = rows[1][0]
    n_nodes, n_edges = (second.whole(cell, "the count") for cell in counts)
    of_moses = "source-covered" in header
    found, scores = Edges([], [], [], {}, 0, []), NamedRows()
    known: set[int] = set()
    node, left = -1, 0
    for place, line in rows[2:]:
        mark = _NODE.fullmatch(line.strip())
        if mark is not None:
            if int(mark[1]) != node + 1:
                raise place.error(f"node {mark[1]}, where node {node + 1} should be")
        elif line.startswith("#"):
            continue
        elif _BAR not in line:
            if left:
                raise place.error(f"{left} more edges of node {node} should be here")
            count = place.whole(line.strip(), "the number")
            if not of_moses and count in known:
                raise place.error(f"node {count} comes twice")
            node, left = (node + 1, count) if of_moses else (count, 0)
            known.add(node)
        elif node < 0 or (of_moses and not left):
            raise place.error("an edge of no node")
        else:
            output, features, *_ = line.split(_BAR)
            tails, outputs = _numbered(output)
            for tail in tails:
                if tail not in known or tail == node:
                    raise place.error(f"[{tail}] is no node before this one: nodes come in order")
            named = _features(features, place)
            found.heads.append(node)
            found.tails.append(tails)
            found.outputs.append(outputs)
            found.lines.append(place.line or 0)
            scores.add(tuple(named), list(named.values()))
            left -= of_moses
    if left or node < 0 or (of_moses and (len(known), len(found.heads)) != (n_nodes, n_edges)):
        trouble = (
            f"{len(known)} nodes and {len(found.heads)} edges, but line {second.line} says {n_nodes} and {n_edges}"
        )
        raise rows[-1][0].error(f"{trouble}: the file is cut off")
    yield None, found._replace(scores=_columns(scores), goal=node)


def _numbered(text: str) -> tuple[tuple[int, ...], tuple[Output, ...]]:
    """Return the tails and the output of an edge from `[4] of [2]`, without the marks of the sentence."""
    tails: list[int] = []
    outputs: list[Output] = []
    for word in words_of(text):
        match = _TAIL.fullmatch(word)
        if match is not None:
            outputs.append(len(tails))
            tails.append(int(match[1]))
        elif word not in _MARKS:
            outputs.append(word)
    return tuple(tails), tuple(outputs)


def _features(text: str, place: Place) -> dict[str, float]:
    found: dict[str, float] = {}
    for cell in words_of(text):
        name, equals, value = cell.rpartition("=")
        if not equals or not name or name in found:
            raise place.error(f"{quoted(cell)} should be a feature name=value, each once")
        found[name] = place.number(value, quoted(name))
    return found
