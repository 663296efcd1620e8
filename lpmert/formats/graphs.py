"""Lattices as readers find them, and those that Kaldi and OpenFst's fstprint write as text.

Sources: LatticeReader and the holders' Write in Kaldi's src/lat/kaldi-lattice.cc, operator<< of LatticeWeightTpl in its
src/fstext/lattice-weight.h (graph cost, acoustic cost, and for compact lattices transition ids joined by _); FstPrinter
in OpenFst's fst/script/print-impl.h, and its symbol tables: both leave out weights of one, which cost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import DataError, FloatArray, IntArray
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


class Links(NamedTuple):
    """The links of a lattice: sources, targets, words [L] as places in a vocabulary, scores by name [L]; start and end.

    lines [L]: of the file, -1 for none. nodes: what the file calls the nodes, if not by these numbers. scales: factors
    of the scores that the file gives.
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


def _shown(links: Links, node: int) -> int:
    return links.nodes[node] if links.nodes else node


def _line(links: Links, wanted: IntArray) -> int | None:
    lines = links.lines[wanted]
    return int(lines[0]) if len(lines) and lines[0] > 0 else None


_SLF = re.compile(r"(VERSION|V|UTTERANCE|U|NODES|N|I|base|dir|start|end|lmname|[a-z0-9]+scale|wdpenalty)=")
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
    if _ARC.fullmatch(first) and all(map(_STATE.match, chain(rows, later))):
        return "fst"
    return "kaldi-lattice" if len(first.split()) == 1 and len(rows) > 1 and _ARC.match(rows[1]) else None


Named = Iterator[tuple[str | None, Links]]
"""Lattices, each with its utterance if the text says it."""

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
    links: list[tuple[int, int, str | None, list[float], int]] = []
    for (place, fields), weight in zip(arcs, weights, strict=True):
        source, target = (place.whole(field, "the state") for field in fields[:2])
        word = _word(fields[label], in_words, file.symbols, place)
        links.append((source, target, word, _costs(weight, names, place), place.line or 0))
    start = rows[0][0].whole(rows[0][1][0], "the state")
    last = max((int(field) for _, fields in arcs for field in fields[:2]), default=start)
    states = [place.whole(fields[0], "the state") for place, fields in finals]
    end = max([last, *states]) + 1
    for (place, _), state, weight in zip(finals, states, ends, strict=True):
        if weight is None or weight.partition(",")[0] not in _NONE:
            links.append((state, end, None, _costs(weight, names, place), place.line or 0))
    sources, targets, words, costs, lines = zip(*links, strict=True) if links else ((),) * 5
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    scores = dict(zip(names, np.array(costs).reshape(-1, len(names)).T.copy(), strict=True))
    numbers = [*map(vocabulary.__getitem__, words)]
    begins, leads, said, at = (np.array(one, dtype=np.int64) for one in (sources, targets, numbers, lines))
    return Links(begins, leads, said, [*vocabulary], scores, start, end, at)


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
