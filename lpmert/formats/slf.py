"""Word lattices in HTK's Standard Lattice Format (SLF), as HTK, SRILM, Kaldi's tools and PocketSphinx write them.

Source: The HTK Book, chapter "HTK Standard Lattice Format", and what HTK's HNet.c and SRILM's HTKLattice.cc accept.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import DataError, FloatArray
from lpmert.formats.alike import Cell, Style, Template
from lpmert.formats.graphs import GraphText, Links
from lpmert.formats.text import Place, is_word
from lpmert.quoting import quoted
from lpmert.system.files import Bytes

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

Scores = Mapping[str, float]


class _Part(NamedTuple):
    """The word and the scores of a node or a link, natural logarithms by name; a link lacks those of its node."""

    word: str | None
    scores: Scores
    line: int


def slf_lattices(file: GraphText) -> Iterator[tuple[str | None, Links]]:
    """Yield the links of the lattice of a text, which is called like its file.

    Logarithms to other bases and probabilities (header `base`) become natural logarithms. Fields that are no scores or
    words, such as times and posteriors, are not looked at. A value in quotes is taken without them, and a backslash
    makes a character literal or gives its octal code, as in HTK. Links without a word or a score have that of the node
    they lead to, or, if `dir=b`, of the node they come from; a score that neither has, but others of the lattice have,
    is 0, the logarithm of 1. Without `start` and `end` in the header, the only node that no link leads to and the only
    one that none leaves are the ends. One more link, to a node of its own, stands for the word and the scores of the
    first node, or of the last one if `dir=b`. Raises `DataError` with file and line for whatever is malformed, missing,
    or there twice, numbers of nodes and links that the header denies, and for sub-lattices.
    """
    yield None, _plain(file) or _one_by_one(file)


def _one_by_one(file: GraphText) -> Links:
    reader = _Reader(file.path)
    for place, line in file.lines():
        reader.add(place, line)
    base, scales = reader.base_and_scales()
    for key, table, part in (("N", reader.nodes, "I"), ("L", reader.links, "J")):
        reader.size(key, table, part)
    nodes = reader.all_nodes(base)
    forward = reader.direction()
    found = [reader.link(number, base, nodes, forward) for number in range(len(reader.links))]
    sources, targets = (np.array([ends[place] for ends, _ in found], dtype=np.int64) for place in (0, 1))
    start, end = (reader.end(*one, len(nodes)) for one in (("start", targets), ("end", sources)))
    pairs = [(link, nodes[ends[1] if forward else ends[0]]) for ends, link in found]
    words = [node.word if link.word is None else link.word for link, node in pairs]
    present = {name for part in (*nodes, *(link for _, link in found)) for name in part.scores}
    scores = {
        name: np.array([link.scores.get(name, node.scores.get(name, 0.0)) for link, node in pairs])
        for name in SCORE_NAMES
        if name in present
    }
    lines = np.array([link.line for _, link in found], dtype=np.int64)
    links = Links(sources, targets, np.arange(len(words)), words, scores, start, end, lines, scales=scales)
    return _with_outer(links, nodes[start if forward else end], len(nodes), forward)


def _with_outer(links: Links, outer: _Part, n_nodes: int, forward: bool) -> Links:
    """Return the links, and one more for the word and the scores of the node that no link has them of."""
    start, end = links.start, links.end
    sources, targets, nodes = links.sources, links.targets, (*range(n_nodes), end)
    if forward:  # the new node comes first, so that links go on leading to larger ones
        sources, targets = _appended(sources + 1, 0), _appended(targets + 1, start + 1)
        start, end, nodes = 0, end + 1, (start, *range(n_nodes))
    else:
        sources, targets, end = _appended(sources, end), _appended(targets, n_nodes), n_nodes
    return links._replace(
        sources=sources,
        targets=targets,
        words=_appended(links.words, len(links.vocabulary)),
        vocabulary=[*links.vocabulary, outer.word],
        scores={name: _appended(values, outer.scores.get(name, 0.0)) for name, values in links.scores.items()},
        start=start,
        end=end,
        lines=_appended(links.lines, outer.line),
        nodes=nodes,
    )


def _appended(values: Any, last: float) -> Any:
    """Return an array with one more entry, of the same type."""
    return np.append(values, values.dtype.type(last))


def _plain(file: GraphText) -> Links | None:
    """Return the links of a plain text, `None` for any other, also for one with faults.

    Plain is a text with start and end in its header, then all nodes, and then all links, in order and a line each, all
    with the same fields, which are plain numbers, in the same order. Nodes may differ, which takes longer.
    """
    text = file.text
    nodes_at, links_at = (re.search(rf"^{key}=", text, re.MULTILINE) for key in "IJ")
    if nodes_at is None or links_at is None or links_at.start() < nodes_at.start():
        return None
    reader = _Reader(file.path)
    try:
        for place, line in file._replace(text=text[: nodes_at.start()]).lines():
            reader.add(place, line)
        if reader.nodes or reader.links or not reader.header.keys() >= {"start", "end", "N", "L"}:
            return None
        links = _numbers(text[links_at.start() :], ("J", "S", "E"), reader.header["L"][1])
        base, scales = reader.base_and_scales()
        if links is None or "W" in links.columns or base == 0:
            return None
        factor = 1.0 if base in (1.0, math.e) else math.log(base)
        nodes = _nodes(text[nodes_at.start() : links_at.start()], reader, base, factor)
        if nodes is None:
            return None
        words, vocabulary, given = nodes
        n_nodes, forward = len(words), reader.direction()
        start, end = (reader.end(key, (), n_nodes) for key in ("start", "end"))
    except DataError:  # the reader of lines says where, and may find another fault before
        return None
    sources, targets = (links.columns[key].astype(np.int32) for key in "SE")
    if max(sources.max(), targets.max()) >= n_nodes:
        return None
    inner, own = (targets, start) if forward else (sources, end)
    scores = {}
    for key, name in _FIELDS.items():
        if key in links.columns:
            scores[name] = links.columns[key] * factor
        elif name in given:
            scores[name] = given[name][inner]
    first, later = (text.count("\n", 0, match.start()) + 1 for match in (nodes_at, links_at))
    lines = np.arange(later, later + links.n_rows, dtype=np.int32)
    outer = _Part(vocabulary[words[own]], {name: float(values[own]) for name, values in given.items()}, first + own)
    found = Links(sources, targets, words[inner], vocabulary, scores, start, end, lines, scales=scales)
    return _with_outer(found, outer, n_nodes, forward)


def _nodes(
    block: str, reader: _Reader, base: float, factor: float
) -> tuple[NDArray[np.int32], list[str | None], dict[str, FloatArray]] | None:
    """Return the words of nodes [N], by their places in a vocabulary, and their scores by name; `None` for odd ones."""
    table = _numbers(block, ("I",), reader.header["N"][1])
    if table is not None and "L" not in table.columns:
        scores = {name: table.columns[key] * factor for key, name in _FIELDS.items() if key in table.columns}
        if "W" in table.columns:
            return table.columns["W"].astype(np.int32), [*table.words], scores
        return np.zeros(table.n_rows, dtype=np.int32), [None], scores
    for number, line in enumerate(block.rstrip("\n").split("\n"), 1):
        reader.add(Place(reader.path, number), line)
        if len(reader.nodes) != number:  # of which the number of a line would not follow
            return None
    nodes = reader.all_nodes(base)
    places: dict[str | None, int] = {}
    words = np.array([places.setdefault(node.word, len(places)) for node in nodes], dtype=np.int32)
    names = {name for node in nodes for name in node.scores}
    return words, [*places], {name: np.array([node.scores.get(name, 0.0) for node in nodes]) for name in names}


class _Table(NamedTuple):
    """The fields of nodes or links as columns of numbers by key, and the words, by their numbers in the column W."""

    n_rows: int
    columns: dict[str, FloatArray]
    words: list[str]


def _numbers(block: str, counts: tuple[str, ...], size: str) -> _Table | None:
    """Return the fields of lines that all have the same ones, the counts first, numbered from 0; `None` for others."""
    data = block.rstrip("\n").encode() + b"\n"
    written = _KEY.findall(data[: data.index(b"\n")].decode())
    keys = [_SHORT.get(key, key) for key in written]
    if tuple(written[: len(counts)]) != counts or len({*keys, "I", "J"}) != len(keys) + 1:
        return None
    template = Template(Style.BLANK)
    for place, key in enumerate(written):
        kind = Cell.COUNT if place < len(counts) else Cell.WORD if keys[place] == "W" else Cell.NUMBER
        template.add(f"{' ' if place else ''}{key}=", kind)
    found = template.read(Bytes(1, data))
    if found is None or size != str(len(found.numbers)) or any(map(_may_be_quoted, found.words)):
        return None
    if not np.array_equal(found.numbers[:, 0], np.arange(len(found.numbers))):
        return None
    columns = {key: found.numbers[:, place].copy() for place, key in enumerate(keys)}
    return _Table(len(found.numbers), columns, found.words)


def _may_be_quoted(word: str) -> bool:
    return "\\" in word or (word[0] in "\"'" and word[0] in word[1:])


Fields = dict[str, str]
Lines = dict[int, tuple[Place, Fields]]
"""By number of a node or link, the line it is defined on and its fields."""


class _Reader:
    """Gathers the parts of one lattice."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.header: dict[str, tuple[Place, str]] = {}
        self.nodes: Lines = {}
        self.links: Lines = {}

    def add(self, place: Place, text: str) -> None:
        """Take a line of the file."""
        fields = _fields(place, text)
        for key, table in (("I", self.nodes), ("J", self.links)):
            if key in fields:
                number = place.whole(fields[key], f"{key}=")
                if number in table:
                    raise place.error(f"{key}={number} comes twice, first on line {table[number][0].line}")
                table[number] = place, fields
                return
        for key, value in fields.items():
            if key in self.header:
                first = self.header[key][0].line
                raise place.error(f"{key}= comes twice, first on line {first}; a file holds one lattice")
            self.header[key] = place, value

    def base_and_scales(self) -> tuple[float, Scores]:
        """Return the base of the logarithms and the factors of the scores that the header gives."""
        for key in ("SUBLAT", "S"):
            if key in self.header:
                raise self.header[key][0].error(_SUBLATTICES)
        base = self._number("base") if "base" in self.header else math.e
        if base < 0:
            raise self.header["base"][0].error(f"{base} is no base of logarithms")
        scales = {name: self._number(key) for key, name in _SCALES.items() if key in self.header}
        if "wdpenalty" in self.header:
            place, value = self.header["wdpenalty"]
            scales[WORDS] = _logarithm(place, "wdpenalty", value, base)
        return base, scales

    def _number(self, key: str) -> float:
        place, value = self.header[key]
        return place.number(value, f"{key}=")

    def size(self, key: str, table: Lines, part: str) -> int:
        """Return how many nodes or links the header says; raises `DataError` unless these are there."""
        if key not in self.header:
            raise DataError(f"no {key}= in the header, the number of lines {part}=", path=self.path)
        place, value = self.header[key]
        size = place.whole(value, f"{key}=")
        for number, (other, _) in table.items():
            if number >= size:
                raise other.error(f"{part}={number}, but line {place.line} says {key}={size}")
        if len(table) < size:
            missing = next(number for number in range(size) if number not in table)
            raise place.error(f"{key}={size}, but there is no {part}={missing}")
        return size

    def all_nodes(self, base: float) -> list[_Part]:
        """Return the nodes in order."""
        lines = [self.nodes[number] for number in range(self.size("N", self.nodes, "I"))]
        for place, fields in lines:
            if "L" in fields:
                raise place.error(_SUBLATTICES)
        return [_part(place, fields, base) for place, fields in lines]

    def link(self, number: int, base: float, nodes: Sequence[_Part], forward: bool) -> tuple[tuple[int, int], _Part]:
        """Return where a link comes from and leads to, and its own word and scores."""
        place, fields = self.links[number]
        start, end = (_node(place, key, fields.get(key), len(nodes)) for key in ("S", "E"))
        part = _part(place, fields, base)
        other = nodes[end if forward else start].word
        if part.word is not None and other not in (None, NULL, part.word):
            trouble = f"the link has the word {quoted(part.word)}, its node {quoted(other)}; omit one of them"
            raise place.error(trouble)
        return (start, end), part

    def direction(self) -> bool:
        """Return whether links have the words and scores of the nodes that they lead to."""
        place, value = self.header.get("dir", (Place(self.path), "f"))
        if value not in ("f", "b"):
            raise place.error(f"dir={value} is neither f nor b")
        return value == "f"

    def end(self, key: str, inner: Iterable[int], n_nodes: int) -> int:
        """Return the start or end: the one of the header, or the only node that is not inner."""
        if key in self.header:
            place, value = self.header[key]
            return _node(place, key, value, n_nodes)
        found: list[int] = sorted({*range(n_nodes)}.difference(inner))
        if len(found) != 1:
            place = self.nodes[found[1]][0] if found else self.header["N"][0]
            trouble = f"nodes {found[0]} and {found[1]} could both be" if found else "no node can be"
            raise place.error(f"{trouble} the {key} of the lattice; give {key}= in the header")
        return found[0]


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


def _part(place: Place, fields: Fields, base: float) -> _Part:
    word = _word(place, fields["W"]) if "W" in fields else None
    named = ((key, name) for key, name in _FIELDS.items() if key in fields)
    return _Part(word, {name: _logarithm(place, f"{key}=", fields[key], base) for key, name in named}, place.line or -1)


def _word(place: Place, value: str) -> str:
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
