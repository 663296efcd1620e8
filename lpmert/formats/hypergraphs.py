"""Hypergraphs: as text, one edge a line (Moses, Joshua), and in JSON (cdec, travatar).

Sources: OutputSearchGraphAsHypergraph in Moses' moses/Manager.cpp, ChartSearchGraphWriterHypergraph in its
moses/ChartManager.cpp, ReadGraph in its mert/Hypergraph.cpp; HyperGraphDumper in Joshua's hypergraph/HyperGraph.java;
HypergraphIO in cdec's decoder/hg_io.cc, TRule::AsString in its decoder/trule.cc; JSONTreeIO in travatar's
src/lib/tree-io.cc, HyperEdge::Print in its src/lib/hyper-graph.cc, CfgData::Print in its src/lib/cfg-data.cc.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lpmert.errors import DataError
from lpmert.formats.format import EdgeList, Edges, Output
from lpmert.formats.fst import Symbols
from lpmert.formats.numbers import count_of_text, number_of_json, number_of_text
from lpmert.formats.utterances import words_of
from lpmert.quoting import quoted

HEADER = "# target ||| features"
MARKS = frozenset({"<s>", "</s>"})
"""Words that stand for the ends of the sentence."""

_BAR = "|||"
_NODE = re.compile(r"# node ([0-9]{1,18})")
_TAIL = re.compile(r"\[([0-9]{1,18})\]")


def text_hypergraphs(text: str, path: str | Path, symbols: Symbols | None) -> Iterator[tuple[str | None, Edges]]:
    """Yield the edges of the hypergraph of a text; the goal is its last node. symbols are not looked at.

    In Moses' form, the number of edges and these edges follow for each node, from 0; in Joshua's, the number of the
    node and its edges. Joshua counts nodes and edges that it does not write.
    """
    del symbols
    rows = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    first, header = rows[0] if rows else (1, "")
    if not header.startswith(HEADER):
        raise DataError(f"{quoted(header)} should be {HEADER}", path=path, line=first)
    counts = words_of(rows[1][1]) if len(rows) > 1 else []
    if len(counts) != 2:
        raise DataError("the second line must have the numbers of nodes and of edges", path=path, line=first)
    n_nodes, n_edges = (count_of_text(cell, "the count", path, rows[1][0]) for cell in counts)
    of_moses = "source-covered" in header
    found = EdgeList()
    known: set[int] = set()
    node, left = -1, 0
    for number, line in rows[2:]:
        mark = _NODE.fullmatch(line.strip())
        if mark is not None:
            if int(mark[1]) != node + 1:
                raise DataError(f"node {mark[1]}, where node {node + 1} should be", path=path, line=number)
        elif line.startswith("#"):
            continue
        elif _BAR not in line:
            if left:
                raise DataError(f"{left} more edges of node {node} should be here", path=path, line=number)
            count = count_of_text(line.strip(), "the number", path, number)
            if of_moses:
                node, left = node + 1, count
            elif count in known:
                raise DataError(f"node {count} comes twice", path=path, line=number)
            else:
                node = count
            known.add(node)
        elif node < 0 or (of_moses and not left):
            raise DataError("an edge of no node", path=path, line=number)
        else:
            tails, outputs = _outputs(line.partition(_BAR)[0], path, number)
            for tail in tails:
                if tail not in known or tail == node:
                    raise DataError(f"[{tail}] is no node before this one: nodes come in order", path=path, line=number)
            found.add(node, tails, outputs, _features(line.split(_BAR)[1], path, number), number)
            left -= of_moses
    if left or node < 0 or (of_moses and (len(known), len(found)) != (n_nodes, n_edges)):
        trouble = f"{len(known)} nodes and {len(found)} edges, but line {rows[1][0]} says {n_nodes} and {n_edges}"
        raise DataError(f"{trouble}: the file is cut off", path=path, line=rows[-1][0])
    yield None, found.edges(node)


def _outputs(text: str, path: str | Path, line: int) -> tuple[tuple[int, ...], tuple[Output, ...]]:
    """Return the tails and the output of an edge from `[4] of [2]`; the marks of the sentence are left out."""
    tails: list[int] = []
    outputs: list[Output] = []
    for word in words_of(text):
        match = _TAIL.fullmatch(word)
        if match is not None:
            outputs.append(len(tails))
            tails.append(count_of_text(match[1], "the node", path, line))
        elif word not in MARKS:
            outputs.append(word)
    return tuple(tails), tuple(outputs)


def _features(text: str, path: str | Path, line: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for cell in words_of(text):
        name, equals, value = cell.rpartition("=")
        if not equals or not name or name in found:
            raise DataError(f"{quoted(cell)} should be a feature name=value, each once", path=path, line=line)
        found[name] = number_of_text(value, quoted(name), path, line)
    return found


def cdec_hypergraphs(text: str, path: str | Path, symbols: Symbols | None) -> Iterator[tuple[str | None, Edges]]:
    """Yield the edges of each hypergraph of a text, one a line; the goal is its last node. symbols are not looked at.

    Several lines are called by their numbers, from 0.
    """
    yield from _documents(text, path, _cdec_edges, symbols)


def travatar_hypergraphs(text: str, path: str | Path, symbols: Symbols | None) -> Iterator[tuple[str | None, Edges]]:
    """Yield the edges of each hypergraph of a text, one a line; the goal is node 0. symbols are not looked at.

    Several lines are called by their numbers, from 0.
    """
    yield from _documents(text, path, _travatar_edges, symbols)


class _Document:
    """The members of one JSON object, in order, with what errors about them name."""

    def __init__(self, members: Sequence[tuple[str, Any]], path: str | Path, line: int) -> None:
        self.members, self.path, self.line = members, path, line

    def error(self, message: str) -> DataError:
        """Return what to raise."""
        return DataError(message, path=self.path, line=self.line)

    def whole(self, value: Any, what: str, most: int | None = None) -> int:
        """Return a value that is a whole number from 0, below `most`."""
        if type(value) is not int or value < 0 or (most is not None and value >= most):
            raise self.error(f"{what} is {quoted(value)}, not a number from 0" + (f" to {most - 1}" if most else ""))
        return value

    def number(self, value: Any, what: str) -> float:
        """Return a value that is a finite number."""
        return number_of_json(value, what, self.path, self.line)

    def sequence(self, value: Any, what: str) -> list[Any]:
        """Return a value that is an array; null is an empty one."""
        if value is not None and not isinstance(value, list):
            raise self.error(f"{what} is {quoted(value)}, not an array")
        return value or []

    def mapping(self, value: Any, what: str) -> dict[str, Any]:
        """Return a value that is an object whose members have different names."""
        if not isinstance(value, _Members):
            raise self.error(f"{what} is {quoted(value)}, not an object")
        found = dict(value)
        if len(found) < len(value):
            raise self.error(f"{what} has a name twice")
        return found


class _Members(list[tuple[str, Any]]):
    """The members of an object: cdec repeats names."""


def _documents(text: str, path: str | Path, parse: Any, symbols: Symbols | None) -> Iterator[tuple[str | None, Edges]]:
    del symbols
    rows = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    for place, (number, line) in enumerate(rows):
        try:
            members = json.loads(line, object_pairs_hook=_Members)
        except (ValueError, RecursionError) as error:
            raise DataError(f"no JSON, one hypergraph a line: {error}", path=path, line=number) from error
        if not isinstance(members, _Members):
            raise DataError("a hypergraph must be a JSON object", path=path, line=number)
        yield (None if len(rows) == 1 else str(place)), parse(_Document(members, path, number))


def _cdec_edges(document: _Document) -> Edges:
    rules: dict[int, tuple[Output, ...]] = {}
    features: list[str] = []
    waiting: list[tuple[tuple[int, ...], tuple[Output, ...], dict[str, float]]] = []
    ends: dict[int, int] = {}
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
            for place in document.sequence(inner, "in_edges"):
                if ends.setdefault(document.whole(place, "an edge", len(waiting)), n_nodes) != n_nodes:
                    raise document.error(f"edge {place} leads to two nodes")
            n_nodes += 1
        elif name != "is_sorted":
            raise document.error(f"{quoted(name)} is no member of a hypergraph of cdec")
    if not n_nodes or len(ends) < len(waiting):
        raise document.error("an edge leads to no node" if n_nodes else "no node")
    found = EdgeList()
    for place, (tails, outputs, scores) in enumerate(waiting):
        found.add(ends[place], tails, outputs, scores, document.line)
    return found.edges(n_nodes - 1)


def _cdec_edge(
    document: _Document,
    edge: Mapping[str, Any],
    rules: Mapping[int, tuple[Output, ...]],
    features: Sequence[str],
    n_nodes: int,
) -> tuple[tuple[int, ...], tuple[Output, ...], dict[str, float]]:
    cells = document.sequence(edge.get("feats"), "feats")
    if len(cells) % 2:
        raise document.error("feats must have a feature and a number in turn")
    scores: dict[str, float] = {}
    for feature, value in zip(cells[::2], cells[1::2], strict=True):
        name = feature if isinstance(feature, str) else features[document.whole(feature, "a feature", len(features))]
        if not isinstance(name, str) or name in scores:
            raise document.error(f"feature {quoted(name)} is no name, or comes twice in an edge")
        scores[name] = document.number(value, quoted(name))
    rule = edge.get("rule")
    if rule is None:
        raise document.error("an edge without a rule has no words; let cdec write the rules")
    if not isinstance(rule, str) and document.whole(rule, "a rule") not in rules:
        raise document.error(f"no rule {rule}")
    outputs = _rule(document, rule) if isinstance(rule, str) else rules[rule]
    tails = tuple(document.whole(node, "a tail", n_nodes) for node in document.sequence(edge.get("tail"), "tail"))
    _check_places(document, outputs, tails)
    return tails, outputs, scores


def _rule(document: _Document, rule: Any) -> tuple[Output, ...]:
    """Return the output of a rule `[X] ||| source ||| target`, in which [1] is the first tail."""
    parts = rule.split("|||") if isinstance(rule, str) else []
    if len(parts) < 3:
        raise document.error(f"{quoted(rule)} should be a rule [X] ||| source ||| target")
    outputs: list[Output] = []
    for word in words_of(parts[2]):
        match = _TAIL.fullmatch(word)
        if match is not None:
            outputs.append(int(match[1]) - 1)
        elif word not in MARKS:
            outputs.append(word)
    return tuple(outputs)


def _travatar_edges(document: _Document) -> Edges:
    members = document.mapping(document.members, "the hypergraph")
    nodes = {
        document.whole(document.mapping(node, "a node").get("id"), "the id of a node")
        for node in document.sequence(members.get("nodes"), "nodes")
    }
    if nodes != {*range(len(nodes))} or not nodes:
        raise document.error("the ids of the nodes must be the numbers from 0")
    found = EdgeList()
    for one in document.sequence(members.get("edges"), "edges"):
        edge = document.mapping(one, "an edge")
        head = document.whole(edge.get("head"), "head", len(nodes))
        tails = tuple(
            document.whole(node, "a tail", len(nodes)) for node in document.sequence(edge.get("tails"), "tails")
        )
        named = document.mapping(edge.get("features", _Members()), "features")
        scores = {name: document.number(value, quoted(name)) for name, value in named.items()}
        outputs = _target(document, document.sequence(edge.get("trg"), "trg"))
        _check_places(document, outputs, tails)
        found.add(head, tails, outputs, scores, document.line)
    return found.edges(0)


def _target(document: _Document, targets: Sequence[Any]) -> tuple[Output, ...]:
    """Return the output of an edge, in which -1 is the first tail; raises `DataError` for several targets."""
    if len(targets) != 1:
        raise document.error(f"{len(targets)} targets of an edge, where one must be: is this a forest of translations?")
    words = document.sequence(document.mapping(targets[0], "a target").get("words"), "words")
    outputs: list[Output] = []
    for word in words:
        if isinstance(word, str):
            if word not in MARKS:
                outputs.append(word)
        elif type(word) is int and word < 0:
            outputs.append(-1 - word)
        else:
            raise document.error(f"{quoted(word)} is neither a word nor the place of a tail, from -1 down")
    return tuple(outputs)


def _check_places(document: _Document, outputs: Sequence[Output], tails: Sequence[int]) -> None:
    places = sorted(one for one in outputs if isinstance(one, int))
    if places != [*range(len(tails))]:
        raise document.error(f"an edge with {len(tails)} tails must have each in its output once, not {places}")
