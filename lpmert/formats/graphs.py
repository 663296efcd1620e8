"""Readers of lattices in text: HTK's Standard Lattice Format, Kaldi's archives, and the output of OpenFst's fstprint.

Sources: The HTK Book, chapter "HTK Standard Lattice Format", and what HTK's HNet.c and SRILM's HTKLattice.cc accept;
LatticeReader and the holders' Write in Kaldi's src/lat/kaldi-lattice.cc, operator<< of LatticeWeightTpl in its
src/fstext/lattice-weight.h (graph cost, acoustic cost, and for compact lattices transition ids joined by _); FstPrinter
in OpenFst's fst/script/print-impl.h, and its symbol tables: both omit weights of one, which cost nothing.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import DataError, FloatArray, IntArray
from lpmert.files import Bytes
from lpmert.formats.format import WHITE, Cell, Place, is_word, read_block, words_of
from lpmert.formats.utterances import read_keyed
from lpmert.quoting import quoted

Symbols = Mapping[int, str]  # words by number


class GraphText(NamedTuple):
    """The text of a file of lattices; symbols: the words of labels that are numbers, if the caller has a table."""

    path: str | Path
    text: str
    symbols: Symbols | None = None

    def lines(self) -> Iterator[tuple[Place, str]]:
        return ((Place(self.path, number), line) for number, line in enumerate(self.text.split("\n"), 1))


class Links(NamedTuple):
    """The links of a lattice: source and target nodes [L], words [L] as indices into `vocabulary`, scores by name [L].

    start, end: the first and the last node. lines [L]: line numbers in the file, -1 for none. nodes: numbers of the
    nodes in the file. scales: factors of the scores that the file gives.
    """

    sources: NDArray[np.integer]
    targets: NDArray[np.integer]
    words: NDArray[np.integer]
    vocabulary: list[str | None]
    scores: dict[str, FloatArray]
    start: int
    end: int
    lines: NDArray[np.integer]
    nodes: Sequence[int]
    scales: Mapping[str, float] = {}


_Element = tuple[str | None, Mapping[str, float], int]
"""The word and the scores by name that a line gives a node or a link, and its number; a link may leave both out."""


class _Elements(NamedTuple):
    """Nodes or links in order: words [N] as indices into `vocabulary`, scores by name [N], NaN where a line has none.

    lines [N]: line numbers in the file. ends [2, N]: source and target nodes of links.
    """

    words: NDArray[np.integer]
    vocabulary: list[str | None]
    scores: dict[str, FloatArray]
    lines: NDArray[np.integer]
    ends: NDArray[np.integer]

    @staticmethod
    def of(elements: Sequence[_Element], ends: Sequence[Sequence[int]] = ()) -> _Elements:
        places: dict[str | None, int] = {}
        words = np.array([places.setdefault(word, len(places)) for word, _, _ in elements], dtype=np.int32)
        names = dict.fromkeys(name for _, scores, _ in elements for name in scores)
        scores = {name: np.array([own.get(name, math.nan) for _, own, _ in elements]) for name in names}
        lines = np.array([line for _, _, line in elements], dtype=np.int64)
        return _Elements(words, [*places], scores, lines, np.array(ends, dtype=np.int64).reshape(-1, 2).T)


def check_paths(links: Links, path: str | Path) -> None:
    """Raise `DataError`, with the line, if the links make a cycle, or there is no path from start to end."""
    import networkx as nx

    graph: Any = nx.DiGraph()
    graph.add_nodes_from((links.start, links.end))
    graph.add_edges_from(zip(links.sources.tolist(), links.targets.tolist(), strict=True))
    if not nx.is_directed_acyclic_graph(graph):
        pairs = nx.find_cycle(graph)
        shown = " -> ".join(str(links.nodes[node]) for node in [*(source for source, _ in pairs), pairs[0][0]])
        on_it = (links.sources == pairs[0][0]) & (links.targets == pairs[0][1])
        raise Place(path, _line(links, on_it)).error(f"the links make a cycle: {shown}; a lattice has none: unfold it")
    if not nx.has_path(graph, links.start, links.end) or links.start == links.end:
        place = Place(path, _line(links, (links.targets == links.end) | (links.sources == links.start)))
        ends = f"from node {links.nodes[links.start]} to node {links.nodes[links.end]}"
        raise place.error(f"no path {ends}; leave the lattice out")


def _line(links: Links, wanted: IntArray) -> int | None:
    return next((line for line in links.lines[wanted].tolist() if line > 0), None)


_SLF = re.compile(r"(VERSION|V|UTTERANCE|U|NODES|N|I|base|dir|start|end|lmname|[a-z0-9]+scale|wdpenalty)=")
_ARC = re.compile(r"\d+[ \t]+\d+([ \t]+\S+){1,3}\s*")
_STATE = re.compile(r"\d+(\s|$)")


def kind_of_graph(text: str) -> str | None:
    """Return the format of lattices that the beginning of a text looks like; `None` if it looks like none."""
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
"""Lattices, each after its utterance, or `None` where the text does not name it."""

COST, GRAPH, ACOUSTIC = "cost", "graph_cost", "acoustic_cost"
EPSILON_WORDS = frozenset({"<eps>", "<epsilon>"})

_NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?inf(inity)?|nan"
_WEIGHT = re.compile(rf"[^,\s]+,[^,\s]+(,[0-9_]*)?|{_NUMBER}", re.IGNORECASE)
_WHOLE = re.compile(r"-?[0-9]+")
_NOT_FINAL = ("Infinity", "inf")  # weights of states that are not final, as they are written
Row = tuple[Place, list[str]]  # a line of a finite-state machine, with 1 to 5 fields


def read_symbols(path: str | Path) -> Symbols:
    """Return the words by number of a symbol table with lines `word number`; raises `DataError` for other lines."""
    found: dict[int, str] = {}
    for word, (place, text) in read_keyed(path).items():
        number = place.whole(text.strip(WHITE), f"the number of {quoted(word)}")
        if number in found:
            raise place.error(f"{number} is already the number of {quoted(found[number])}")
        found[number] = word
    return found


def kaldi_lattices(file: GraphText) -> Named:
    """Yield the lattices of a text archive, each of which is a line with the utterance, its arcs, and an empty line."""
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
    """Yield the only acceptor or transducer in a text; its words are the output labels."""
    rows = [(place, fields) for place, line in file.lines() if (fields := words_of(line))]
    yield None, _of_states(rows, file, of_kaldi=False)


def _of_states(rows: Sequence[Row], file: GraphText, *, of_kaldi: bool) -> Links:
    """Return the links of a finite-state machine, and one from each final state to an additional last node."""
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
    final_weights = [fields[1] if len(fields) == 2 else None for _, fields in finals]
    pairs = of_kaldi or any(weight is not None and "," in weight for weight in (*weights, *final_weights))
    names = (GRAPH, ACOUSTIC) if pairs else (COST,)
    elements, ends = list[_Element](), list[tuple[int, int]]()
    for (place, fields), weight in zip(arcs, weights, strict=True):
        ends.append((place.whole(fields[0], "the state"), place.whole(fields[1], "the state")))
        word = _word(fields[label], in_words, file.symbols, place)
        elements.append((word, _costs(weight, names, place), place.line or 0))
    start = rows[0][0].whole(rows[0][1][0], "the state")
    states = [place.whole(fields[0], "the state") for place, fields in finals]
    end = max([start, *chain(*ends), *states]) + 1
    for (place, _), state, weight in zip(finals, states, final_weights, strict=True):
        if weight is None or weight.partition(",")[0] not in _NOT_FINAL:
            ends.append((state, end))
            elements.append((None, _costs(weight, names, place), place.line or 0))
    links = _Elements.of(elements, ends)
    sources, targets = links.ends
    nodes = range(end + 1)
    return Links(sources, targets, links.words, links.vocabulary, links.scores, start, end, links.lines, nodes)


def _is_acceptor(arcs: Sequence[Row]) -> bool:
    """Whether arcs have one label, told by a line of three or five fields, else by the form of the fourth field."""
    sizes = {len(fields) for _, fields in arcs}
    if 3 in sizes or 5 in sizes:
        return 3 in sizes
    telling = next((fields[3] for _, fields in arcs if not _WHOLE.fullmatch(fields[3])), None)
    if telling is None and arcs:
        remedy = "print five fields: fstprint --show_weight_one, without --acceptor"
        raise arcs[0][0].error(f"whole numbers in the fourth field could be output labels or weights; {remedy}")
    return telling is None or _WEIGHT.fullmatch(telling) is not None


def _word(label: str, in_words: bool, symbols: Symbols | None, place: Place) -> str | None:
    """Return the word of a label, `None` for epsilon: number 0, or a word of `EPSILON_WORDS`."""
    if in_words:
        if symbols is not None:
            raise place.error("the labels are words; leave the symbols out")
        return None if label in EPSILON_WORDS else label
    number = place.whole(label, "the label")
    if number == 0:
        return None
    if symbols is None:
        return label
    if number not in symbols:
        raise place.error(f"label {number} is not among the symbols; give the table of these lattices")
    return None if symbols[number] in EPSILON_WORDS else symbols[number]


def _costs(weight: str | None, names: tuple[str, ...], place: Place) -> dict[str, float]:
    if weight is None:
        return dict.fromkeys(names, 0.0)
    parts = weight.split(",")
    if len(parts) not in ({1} if names == (COST,) else {2, 3}):
        shape = "one number" if names == (COST,) else "graph cost, acoustic cost and transition ids"
        raise place.error(f"the weight {quoted(weight)} should be {shape}")
    return {name: place.number(part, "the weight") for name, part in zip(names, parts, strict=False)}


# HTK's Standard Lattice Format, as HTK, SRILM, Kaldi's tools and PocketSphinx write it


NULL = "!NULL"
WORDS = "words"
_FIELDS = {"a": "acoustic", "l": "lm", "n": "ngram", "r": "pronunciation", "ds": "duration"}
_FIELDS |= {f"x{number}": f"x{number}" for number in range(1, 10)}
SCORE_NAMES = tuple(_FIELDS.values())
_SCALES = {"acscale": "acoustic", "lmscale": "lm", "ngscale": "ngram", "prscale": "pronunciation"}
_SCALES |= {"duscale": "duration", **{f"x{number}scale": f"x{number}" for number in range(1, 10)}}
_SHORT = {"NODES": "N", "LINKS": "L", "START": "S", "END": "E", "WORD": "W", "acoustic": "a", "language": "l"}
_SHORT |= {"ngram": "n"}

_BLANK = r"[ \t\r\v\f]"
_QUOTED = "|".join(rf"{quote}(?:[^{quote}\\]|\\.)*{quote}(?={_BLANK}|$)" for quote in "\"'")
_IN_QUOTES = re.compile(_QUOTED)
_FIELD = re.compile(rf"([A-Za-z0-9]+)=({_QUOTED}|[^ \t\r\v\f]+)(?:{_BLANK}+|$)")
_KEY = re.compile(r"(?:^|[ \t])([A-Za-z0-9]+)=")
_ESCAPE = re.compile(rb"\\(?:([0-3][0-7][0-7])|(.))", re.DOTALL)
_SUBLATTICES = "sub-lattices cannot be read; expand them first"


def slf_lattices(file: GraphText) -> Named:
    """Yield the only lattice in a text; the name of its file is the utterance.

    Logarithms to other bases and probabilities (header `base`) become natural logarithms. Fields other than words and
    scores are ignored. Quotes around a value are removed, and a backslash makes a character literal or gives its octal
    code, as in HTK. A link without a word or a score has that of the node that it leads to; a score that both lack is
    0, the logarithm of 1. Without `start` and `end` in the header, these are the only node without incoming links and
    the only one without outgoing links. One more link, from a node of its own, carries the word and the scores of the
    first node.
    """
    yield None, _links(*_read(file))


def _links(reader: _Reader, nodes: _Elements, links: _Elements) -> Links:
    sources, targets = links.ends
    start, end = reader.end("start", targets, nodes), reader.end("end", sources, nodes)
    at = _appended(targets, start)
    has_word = np.array([word is not None for word in links.vocabulary])[links.words]
    words = np.where(_appended(has_word, False), _appended(links.words + len(nodes.vocabulary), 0), nodes.words[at])
    scores = {}
    for name in SCORE_NAMES:
        if name in links.scores or name in nodes.scores:
            values = np.nan_to_num(nodes.scores[name][at]) if name in nodes.scores else np.zeros(len(at))
            if name in links.scores:
                np.copyto(values[:-1], links.scores[name], where=~np.isnan(links.scores[name]))
            scores[name] = values
    # the new node comes first, so that links still lead to larger numbers
    sources, targets = _appended(sources + 1, 0), _appended(targets + 1, start + 1)
    lines, vocabulary = _appended(links.lines, nodes.lines[start]), [*nodes.vocabulary, *links.vocabulary]
    shown, scales = (start, *range(len(nodes.words))), reader.base_and_scales()[1]
    return Links(sources, targets, words, vocabulary, scores, 0, end + 1, lines, shown, scales)


def _appended(values: Any, last: float) -> Any:
    return np.append(values, values.dtype.type(last))


def _read(file: GraphText) -> tuple[_Reader, _Elements, _Elements]:
    """Return the nodes and links of a text.

    The core reads lines if all nodes, and all links, have the same fields and stand in order after the header; others
    are read one by one.
    """
    reader, text = _Reader(file.path), file.text
    starts = [match.start() for key in "IJ" if (match := re.search(rf"^{key}=", text, re.MULTILINE))]
    cuts = [0, *(starts if len(starts) == 2 and starts[0] < starts[1] else [len(text)] * 2), len(text)]
    header, of_nodes, of_links = ((text[at:end], 1 + text.count("\n", 0, at)) for at, end in pairwise(cuts))
    reader.add(*header)
    links = _alike(*of_links, ("J", "S", "E"), "L", reader)
    nodes = None if links is None else _alike(*of_nodes, ("I",), "N", reader)
    if links and nodes and links.vocabulary == [None] and links.ends.max() < len(nodes.lines):
        return reader, nodes, links
    reader.add(*of_nodes)
    reader.add(*of_links)
    return reader, *reader.nodes_and_links()


def _alike(block: str, first: int, counts: tuple[str, ...], size: str, reader: _Reader) -> _Elements | None:
    """Return the nodes or links in lines, numbered from 0, that all have the same fields; `None` for other lines.

    first: the number of the first line. counts: the first fields, with numbers of nodes and links. size: the key for
    the number of lines in the header.
    """
    base = reader.base_and_scales()[0]
    data = block.rstrip("\n").encode() + b"\n"
    written = _KEY.findall(data[: data.index(b"\n")].decode())
    keys = [_SHORT.get(key, key) for key in written]
    if tuple(written[: len(counts)]) != counts or len({*keys, "I", "J", "L"}) != len(keys) + 2 or base == 0:
        return None
    if any(reader.lines.values()) or not reader.header.keys() >= {"N", "L"}:
        return None
    kinds = [*[Cell.COUNT] * len(counts), *(Cell.WORD if key == "W" else Cell.NUMBER for key in keys[len(counts) :])]
    names = (f"{' ' if place else ''}{key}=" for place, key in enumerate(written))
    found = read_block(Bytes(1, data), zip(names, kinds, keys, strict=True), loose=True)
    if (
        found is None
        or reader.header[size][1] != str(len(found.numbers))
        or any("\\" in word or (word[0] in "\"'" and word[0] in word[1:]) for word in found.words)
    ):
        return None
    rows = np.arange(len(found.numbers), dtype=np.int32)
    if not np.array_equal(found.column(counts[0]), rows):
        return None
    factor = 1.0 if base in (1.0, math.e) else math.log(base)
    scores = {name: found.column(key) * factor for key, name in _FIELDS.items() if key in keys}
    words = found.column("W") if "W" in keys else np.zeros(len(rows))
    vocabulary: list[str | None] = [*found.words] if "W" in keys else [None]
    ends = np.array([found.column(key) for key in counts[1:]], dtype=np.int32)
    return _Elements(words.astype(np.int32), vocabulary, scores, rows + first, ends)


Fields = dict[str, str]
Lines = dict[int, tuple[Place, Fields]]  # by number of a node or link, the line it is defined on and its fields


class _Reader:
    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.header: dict[str, tuple[Place, str]] = {}
        self.lines: dict[str, Lines] = {"I": {}, "J": {}}
        """The lines of nodes and of links."""

    def add(self, text: str, first: int) -> None:
        for at, line in enumerate(text.split("\n"), first):
            place = Place(self.path, at)
            fields = _fields(place, line)
            part = next((key for key in self.lines if key in fields), None)
            if part is not None:
                number, known = place.whole(fields[part], f"{part}="), self.lines[part]
                if number in known:
                    raise place.error(f"{part}={number} comes twice, first on line {known[number][0].line}")
                known[number] = place, fields
                continue
            for key, value in fields.items():
                if key in self.header:
                    before = self.header[key][0].line
                    raise place.error(f"{key}= comes twice, first on line {before}; a file holds one lattice")
                self.header[key] = place, value

    def base_and_scales(self) -> tuple[float, Mapping[str, float]]:
        for key in ("SUBLAT", "S"):
            if key in self.header:
                raise self.header[key][0].error(_SUBLATTICES)
        place, direction = self.header.get("dir", (Place(self.path), "f"))
        if direction != "f":
            raise place.error(f"dir={direction}, but links must run from the start (dir=f); turn the lattice round")
        base = self._number("base", math.e)
        if base < 0:
            raise self.header["base"][0].error(f"{base} is no base of logarithms")
        scales = {name: self._number(key, 1.0) for key, name in _SCALES.items() if key in self.header}
        if "wdpenalty" in self.header:
            place, value = self.header["wdpenalty"]
            scales[WORDS] = _logarithm(place, "wdpenalty", value, base)
        return base, scales

    def _number(self, key: str, default: float) -> float:
        place, value = self.header.get(key, (None, ""))
        return default if place is None else place.number(value, f"{key}=")

    def size(self, key: str) -> int:
        place, value = self.header[key]
        return place.whole(value, f"{key}=")

    def _in_order(self, key: str, part: str) -> list[tuple[Place, Fields]]:
        if key not in self.header:
            raise DataError(f"no {key}= in the header, the number of lines {part}=", path=self.path)
        size, place, table = self.size(key), self.header[key][0], self.lines[part]
        for number, (other, _) in table.items():
            if number >= size:
                raise other.error(f"{part}={number}, but line {place.line} says {key}={size}")
        if len(table) < size:
            missing = next(number for number in range(size) if number not in table)
            raise place.error(f"{key}={size}, but there is no {part}={missing}")
        return [table[number] for number in range(size)]

    def nodes_and_links(self) -> tuple[_Elements, _Elements]:
        base, lines = self.base_and_scales()[0], self._in_order("N", "I")
        nodes = _Elements.of([_part(place, fields, base) for place, fields in lines])
        lines = self._in_order("L", "J")
        ends = [[_node(place, key, fields.get(key), len(nodes.words)) for key in ("S", "E")] for place, fields in lines]
        links = _Elements.of([_part(place, fields, base) for place, fields in lines], ends)
        for (place, _), own, end in zip(lines, links.words.tolist(), links.ends[1].tolist(), strict=True):
            word, other = links.vocabulary[own], nodes.vocabulary[nodes.words[end]]
            if word is not None and other not in (None, NULL, word):
                raise place.error(f"the link has the word {quoted(word)}, its node {quoted(other)}; omit one of them")
        return nodes, links

    def end(self, key: str, inner: NDArray[np.integer], nodes: _Elements) -> int:
        """Return the start or end node: that of the header, or the only one that is not in `inner`."""
        if key in self.header:
            place, value = self.header[key]
            return _node(place, key, value, len(nodes.words))
        found = np.setdiff1d(np.arange(len(nodes.words)), inner)
        if len(found) != 1:
            place = Place(self.path, int(nodes.lines[found[1]])) if len(found) else self.header["N"][0]
            trouble = f"nodes {found[0]} and {found[1]} could both be" if len(found) else "no node can be"
            raise place.error(f"{trouble} the {key} of the lattice; give {key}= in the header")
        return int(found[0])


def _fields(place: Place, text: str) -> Fields:
    fields: Fields = {}
    at = len(text) - len(text.lstrip(" \t\r\v\f"))
    while at < len(text) and text[at] != "#":
        match = _FIELD.match(text, at)
        if match is None:
            raise place.error(f"{reprlib.repr(text[at:])} should be a field name=value")
        key = _SHORT.get(match[1], match[1])
        if key in fields:
            raise place.error(f"{key}= comes twice in one line")
        fields[key] = match[2]
        at = match.end()
    return fields


def _node(place: Place, key: str, value: str | None, n_nodes: int) -> int:
    if value is None:
        raise place.error(f"no {key}=, which must name a node")
    number = place.whole(value, f"{key}=")
    if number >= n_nodes:
        raise place.error(f"{key}={number}, but there are only nodes 0 to {n_nodes - 1}")
    return number


def _part(place: Place, fields: Fields, base: float) -> _Element:
    if "I" in fields and "L" in fields:
        raise place.error(_SUBLATTICES)
    word = _htk_word(place, fields["W"]) if "W" in fields else None
    named = ((key, name) for key, name in _FIELDS.items() if key in fields)
    scores = {name: _logarithm(place, f"{key}=", fields[key], base) for key, name in named}
    return word, scores, place.line or -1


def _htk_word(place: Place, value: str) -> str:
    value = value[1:-1] if _IN_QUOTES.fullmatch(value) else value
    escaped = value.encode("utf-8")
    try:
        plain = _ESCAPE.sub(lambda match: bytes([int(match[1], 8)]) if match[1] else match[2], escaped)
        word = plain.decode("utf-8")
    except UnicodeDecodeError as error:
        raise place.error(f"the word {quoted(value)} is not UTF-8; convert the file to UTF-8") from error
    if not is_word(word):
        raise place.error(f"the word {quoted(word)} is empty or has white space; write it as one word")
    return word


def _logarithm(place: Place, what: str, value: str, base: float) -> float:
    number = place.number(value, what)
    if base == 0:
        if number <= 0:
            raise place.error(f"{what} {value} is no probability (the header says base=0)")
        return math.log(number)
    return number if base in (1, math.e) else number * math.log(base)
