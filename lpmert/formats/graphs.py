"""Lattices and hypergraphs as readers find them, one into the other, and what they look like as text."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.formats.format import NamedRows
from lpmert.formats.text import Place

Symbols = Mapping[int, str]
"""Words by number."""


class GraphText(NamedTuple):
    """The text of a file of graphs; symbols: the words of labels that are numbers, if the caller gives them."""

    path: str | Path
    text: str
    symbols: Symbols | None = None

    def lines(self) -> Iterator[tuple[Place, str]]:
        """Yield the lines, each with its place."""
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
        """Return all links, of a lattice that begins and ends at these nodes."""
        sources, targets, words, lines = (
            np.array(one, dtype=np.int64) for one in (self._sources, self._targets, self._words, self._lines)
        )
        vocabulary, scores = list(self._numbers), _columns(self._rows)
        return Links(sources, targets, words, vocabulary, scores, start, end, lines, nodes, complete=complete)


class EdgeList:
    """Edges of one hypergraph, gathered one after the other."""

    def __init__(self) -> None:
        self._heads: list[int] = []
        self._tails: list[tuple[int, ...]] = []
        self._outputs: list[tuple[Output, ...]] = []
        self._lines: list[int] = []
        self._rows = NamedRows()

    def __len__(self) -> int:
        return len(self._heads)

    def add(
        self, head: int, tails: tuple[int, ...], outputs: tuple[Output, ...], scores: dict[str, float], line: int
    ) -> None:
        """Append an edge."""
        self._heads.append(head)
        self._tails.append(tails)
        self._outputs.append(outputs)
        self._lines.append(line)
        self._rows.add(tuple(scores), list(scores.values()))

    def edges(self, goal: int) -> Edges:
        """Return all edges, of a hypergraph with this goal."""
        return Edges(self._heads, self._tails, self._outputs, _columns(self._rows), goal, self._lines)


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
    rows = [line for line in text.removeprefix("\ufeff").split("\n") if line.strip()]
    if not rows:
        return None
    first = rows[0]
    plain = next((line for line in rows if not line.startswith("#")), "")
    if _SLF.match(plain):
        return "slf"
    if first.startswith("# target ||| features"):
        return "hypergraph"
    if _SEARCH_GRAPH.match(first):
        return "moses-graph"
    if _ARC.fullmatch(first) and all(map(_STATE.match, rows)):
        return "fst"
    return "kaldi-lattice" if len(first.split()) == 1 and len(rows) > 1 and _ARC.match(rows[1]) else None
