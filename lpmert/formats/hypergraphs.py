"""Hypergraphs as text, one edge a line: Moses' -output-search-graph-hypergraph, and what Joshua dumps.

Sources: OutputSearchGraphAsHypergraph in Moses' moses/Manager.cpp, ChartSearchGraphWriterHypergraph in its
moses/ChartManager.cpp, ReadGraph in its mert/Hypergraph.cpp; HyperGraphDumper in Joshua's hypergraph/HyperGraph.java.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lpmert.errors import DataError
from lpmert.formats.fst_text import Symbols
from lpmert.formats.links import EdgeList, Edges, Output
from lpmert.formats.numbers import count_of_text, number_of_text
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
