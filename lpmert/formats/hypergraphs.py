"""Hypergraphs: as text, one edge a line (Moses, Joshua), and in JSON (cdec, travatar).

Sources: OutputSearchGraphAsHypergraph in Moses' moses/Manager.cpp, ChartSearchGraphWriterHypergraph in its
moses/ChartManager.cpp, ReadGraph in its mert/Hypergraph.cpp; HyperGraphDumper in Joshua's hypergraph/HyperGraph.java;
HypergraphIO in cdec's decoder/hg_io.cc, TRule::AsString in its decoder/trule.cc; JSONTreeIO in travatar's
src/lib/tree-io.cc, HyperEdge::Print in its src/lib/hyper-graph.cc, CfgData::Print in its src/lib/cfg-data.cc.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lpmert.formats.graphs import EdgeList, Edges, GraphText, Output
from lpmert.formats.text import Place, words_of
from lpmert.quoting import quoted

Named = Iterator[tuple[str | None, Edges]]
"""Hypergraphs, each with its utterance if the text says it."""

HEADER = "# target ||| features"
MARKS = frozenset({"<s>", "</s>"})
"""Words that stand for the ends of the sentence."""

_BAR = "|||"
_NODE = re.compile(r"# node ([0-9]{1,18})")
_TAIL = re.compile(r"\[([0-9]{1,18})\]")


def text_hypergraphs(file: GraphText) -> Named:
    """Yield the edges of the hypergraph of a text; the goal is its last node.

    In Moses' form, the number of edges and these edges follow for each node, from 0; in Joshua's, the number of the
    node and its edges. Joshua counts nodes and edges that it does not write.
    """
    rows = [(place, line) for place, line in file.lines() if line.strip()]
    first, header = rows[0] if rows else (Place(file.path, 1), "")
    if not header.startswith(HEADER):
        raise first.error(f"{quoted(header)} should be {HEADER}")
    counts = words_of(rows[1][1]) if len(rows) > 1 else []
    if len(counts) != 2:
        raise first.error("the second line must have the numbers of nodes and of edges")
    second = rows[1][0]
    n_nodes, n_edges = (second.whole(cell, "the count") for cell in counts)
    of_moses = "source-covered" in header
    found = EdgeList()
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
            found.add(node, tails, outputs, _features(features, place), place.line or 0)
            left -= of_moses
    if left or node < 0 or (of_moses and (len(known), len(found)) != (n_nodes, n_edges)):
        trouble = f"{len(known)} nodes and {len(found)} edges, but line {second.line} says {n_nodes} and {n_edges}"
        raise rows[-1][0].error(f"{trouble}: the file is cut off")
    yield None, found.edges(node)


def _numbered(text: str) -> tuple[tuple[int, ...], tuple[Output, ...]]:
    """Return the tails and the output of an edge from `[4] of [2]`."""
    tails: list[int] = []

    def tail_of(word: str) -> int | None:
        match = _TAIL.fullmatch(word)
        if match is None:
            return None
        tails.append(int(match[1]))
        return len(tails) - 1

    outputs = _outputs(words_of(text), tail_of)
    return tuple(tails), outputs


def _outputs(words: Iterable[str], tail_of: Callable[[str], int | None]) -> tuple[Output, ...]:
    """Return what words put out: tails, where `tail_of` knows one, and other words but the marks of the sentence."""
    found = ((word, tail_of(word)) for word in words)
    return tuple(word if tail is None else tail for word, tail in found if word not in MARKS)


def _features(text: str, place: Place) -> dict[str, float]:
    found: dict[str, float] = {}
    for cell in words_of(text):
        name, equals, value = cell.rpartition("=")
        if not equals or not name or name in found:
            raise place.error(f"{quoted(cell)} should be a feature name=value, each once")
        found[name] = place.number(value, quoted(name))
    return found


def cdec_hypergraphs(file: GraphText) -> Named:
    """Yield the edges of each hypergraph of a text, one a line; the goal is its last node.

    Several lines are called by their numbers, from 0.
    """
    return _documents(file, _cdec_edges)


def travatar_hypergraphs(file: GraphText) -> Named:
    """Yield the edges of each hypergraph of a text, one a line; the goal is node 0.

    Several lines are called by their numbers, from 0.
    """
    return _documents(file, _travatar_edges)


class _Members(list[tuple[str, Any]]):
    """The members of an object: cdec repeats names."""


class _Document(NamedTuple):
    """The members of one JSON object, in order, with what errors about them name."""

    members: _Members
    place: Place

    def whole(self, value: Any, what: str, most: int | None = None) -> int:
        """Return a value that is a whole number from 0, below `most`."""
        if type(value) is not int or value < 0 or (most is not None and value >= most):
            to = f" to {most - 1}" if most else ""
            raise self.place.error(f"{what} is {quoted(value)}, not a number from 0{to}")
        return value

    def sequence(self, value: Any, what: str) -> list[Any]:
        """Return a value that is an array; null is an empty one."""
        if value is not None and not isinstance(value, list):
            raise self.place.error(f"{what} is {quoted(value)}, not an array")
        return value or []

    def mapping(self, value: Any, what: str) -> dict[str, Any]:
        """Return a value that is an object whose members have different names."""
        if not isinstance(value, _Members):
            raise self.place.error(f"{what} is {quoted(value)}, not an object")
        found = dict(value)
        if len(found) < len(value):
            raise self.place.error(f"{what} has a name twice")
        return found

    def nodes(self, value: Any, what: str, n_nodes: int) -> tuple[int, ...]:
        """Return a value that is an array of numbers of nodes."""
        return tuple(self.whole(node, "a tail", n_nodes) for node in self.sequence(value, what))


def _documents(file: GraphText, parse: Callable[[_Document], Edges]) -> Named:
    rows = [(place, line) for place, line in file.lines() if line.strip()]
    for number, (place, line) in enumerate(rows):
        try:
            members = json.loads(line, object_pairs_hook=_Members)
        except (ValueError, RecursionError) as error:
            raise place.error(f"no JSON, one hypergraph a line: {error}") from error
        if not isinstance(members, _Members):
            raise place.error("a hypergraph must be a JSON object")
        yield (None if len(rows) == 1 else str(number)), parse(_Document(members, place))


class _CdecEdge(NamedTuple):
    """An edge of a hypergraph of cdec, before its head is known."""

    tails: tuple[int, ...]
    outputs: tuple[Output, ...]
    scores: dict[str, float]


def _cdec_edges(document: _Document) -> Edges:
    place = document.place
    rules: dict[int, tuple[Output, ...]] = {}
    features: list[str] = []
    waiting: list[_CdecEdge] = []
    heads: dict[int, int] = {}
    n_nodes = 0
    for name, value in document.members:
        if name == "rules":
            cells = document.sequence(value, "rules")
            for number, rule in zip(cells[::2], cells[1::2], strict=False):
                rules[document.whole(number, "the number of a rule")] = _rule(document, rule)
        elif name == "features":
            features = document.sequence(value, "features")
        elif name == "edges":
            for edge in document.sequence(value, "edges"):
                waiting.append(_cdec_edge(document, document.mapping(edge, "an edge"), rules, features, n_nodes))
        elif name == "node":
            inner = document.mapping(value, "a node").get("in_edges")
            for number in document.sequence(inner, "in_edges"):
                if heads.setdefault(document.whole(number, "an edge", len(waiting)), n_nodes) != n_nodes:
                    raise place.error(f"edge {number} leads to two nodes")
            n_nodes += 1
        elif name != "is_sorted":
            raise place.error(f"{quoted(name)} is no member of a hypergraph of cdec")
    if not n_nodes or len(heads) < len(waiting):
        raise place.error("an edge leads to no node" if n_nodes else "no node")
    found = EdgeList()
    for number, edge in enumerate(waiting):
        found.add(heads[number], *edge, place.line or 0)
    return found.edges(n_nodes - 1)


def _cdec_edge(
    document: _Document,
    edge: Mapping[str, Any],
    rules: Mapping[int, tuple[Output, ...]],
    features: Sequence[str],
    n_nodes: int,
) -> _CdecEdge:
    place = document.place
    cells = document.sequence(edge.get("feats"), "feats")
    if len(cells) % 2:
        raise place.error("feats must have a feature and a number in turn")
    scores: dict[str, float] = {}
    for feature, value in zip(cells[::2], cells[1::2], strict=True):
        name = feature if isinstance(feature, str) else features[document.whole(feature, "a feature", len(features))]
        if not isinstance(name, str) or name in scores:
            raise place.error(f"feature {quoted(name)} is no name, or comes twice in an edge")
        scores[name] = place.json_number(value, quoted(name))
    rule = edge.get("rule")
    if rule is None:
        raise place.error("an edge without a rule has no words; let cdec write the rules")
    if not isinstance(rule, str) and document.whole(rule, "a rule") not in rules:
        raise place.error(f"no rule {rule}")
    outputs = _rule(document, rule) if isinstance(rule, str) else rules[rule]
    tails = document.nodes(edge.get("tail"), "tail", n_nodes)
    _check_places(outputs, tails, place)
    return _CdecEdge(tails, outputs, scores)


def _rule(document: _Document, rule: Any) -> tuple[Output, ...]:
    """Return the output of a rule `[X] ||| source ||| target`, in which [1] is the first tail."""
    parts = rule.split(_BAR) if isinstance(rule, str) else []
    if len(parts) < 3:
        raise document.place.error(f"{quoted(rule)} should be a rule [X] ||| source ||| target")
    return _outputs(words_of(parts[2]), lambda word: int(match[1]) - 1 if (match := _TAIL.fullmatch(word)) else None)


def _travatar_edges(document: _Document) -> Edges:
    members = document.mapping(document.members, "the hypergraph")
    nodes = {
        document.whole(document.mapping(node, "a node").get("id"), "the id of a node")
        for node in document.sequence(members.get("nodes"), "nodes")
    }
    if nodes != {*range(len(nodes))} or not nodes:
        raise document.place.error("the ids of the nodes must be the numbers from 0")
    found = EdgeList()
    for one in document.sequence(members.get("edges"), "edges"):
        edge = document.mapping(one, "an edge")
        head = document.whole(edge.get("head"), "head", len(nodes))
        tails = document.nodes(edge.get("tails"), "tails", len(nodes))
        named = document.mapping(edge.get("features", _Members()), "features")
        scores = {name: document.place.json_number(value, quoted(name)) for name, value in named.items()}
        outputs = _target(document, document.sequence(edge.get("trg"), "trg"))
        _check_places(outputs, tails, document.place)
        found.add(head, tails, outputs, scores, document.place.line or 0)
    return found.edges(0)


def _target(document: _Document, targets: Sequence[Any]) -> tuple[Output, ...]:
    """Return the output of an edge, in which -1 is the first tail; raises `DataError` for several targets."""
    if len(targets) != 1:
        trouble = f"{len(targets)} targets of an edge, where one must be: is this a forest of translations?"
        raise document.place.error(trouble)
    words = document.sequence(document.mapping(targets[0], "a target").get("words"), "words")
    for word in words:
        if not (isinstance(word, str) or (type(word) is int and word < 0)):
            trouble = f"{quoted(word)} is neither a word nor the place of a tail, from -1 down"
            raise document.place.error(trouble)
    return tuple(-1 - word if isinstance(word, int) else word for word in words if word not in MARKS)


def _check_places(outputs: Sequence[Output], tails: Sequence[int], place: Place) -> None:
    places = sorted(one for one in outputs if isinstance(one, int))
    if places != [*range(len(tails))]:
        raise place.error(f"an edge with {len(tails)} tails must have each in its output once, not {places}")
