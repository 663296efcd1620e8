"""Word lattices in HTK's Standard Lattice Format (SLF), as HTK, SRILM, Kaldi's tools and PocketSphinx write them.

Source: The HTK Book, chapter "HTK Standard Lattice Format", and what HTK's HNet.c and SRILM's HTKLattice.cc accept.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.core import read_fields
from lpmert.errors import DataError, FloatArray
from lpmert.formats.format import Links
from lpmert.formats.fst import Symbols
from lpmert.formats.numbers import count_of_text, number_of_text, number_text
from lpmert.formats.utterances import words_of
from lpmert.model.arrays import MAGNITUDE_LIMIT
from lpmert.quoting import quoted
from lpmert.system.files import lines, write_text

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
_TO_ESCAPE = re.compile(r"""^["']|\\""")

Scores = Mapping[str, float]


@dataclass(frozen=True)
class Node:
    """A node, with the word and the scores of links that have none of their own."""

    word: str | None = None
    scores: Scores = field(default_factory=dict)
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Link:
    """A link from a node to another one (numbers, from 0), with its word, if any, and its scores."""

    start: int
    end: int
    word: str | None = None
    scores: Scores = field(default_factory=dict)
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Lattice:
    """A directed graph whose paths from node `start` to node `end` are hypotheses.

    Scores are natural logarithms, by name: those of `SCORE_NAMES` that the file has. `scales` are the factors that its
    header gives for them, and, as `words`, the word insertion penalty. Links without a word or a score have that of
    the node they lead to, or, unless `forward`, of the node they come from. A score that neither has, but others of the
    lattice have, is 0, the logarithm of 1, as for links that stand for nothing.
    """

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    start: int
    end: int
    scales: Scores = field(default_factory=dict)
    forward: bool = True

    @property
    def score_names(self) -> tuple[str, ...]:
        """The names of the scores that occur, in a fixed order."""
        parts: tuple[Node | Link, ...] = (*self.nodes, *self.links)
        present = {name for part in parts for name in part.scores}
        return tuple(name for name in SCORE_NAMES if name in present)


def read_lattice(path: str | Path) -> Lattice:
    """Read one lattice.

    Logarithms to other bases and probabilities (header `base`) become natural logarithms. Fields that are no scores or
    words, such as times and posteriors, are not looked at. A value in quotes is taken without them, and a backslash
    makes a character literal or gives its octal code, as in HTK. Without `start` and `end` in the header, the only
    node that no link leads to and the only one that none leaves are the ends. Raises `DataError` with file and line
    for whatever is malformed, missing, or there twice, numbers of nodes and links that the header denies,
    and for sub-lattices.
    """
    return lattice_of_lines(lines(path), path)


def lattice_of_lines(numbered: Iterable[tuple[int, str]], path: str | Path) -> Lattice:
    """Return the lattice that lines with their numbers make up; path is named in errors, as by `read_lattice`."""
    reader = _Reader(path)
    for number, line in numbered:
        reader.add(number, line)
    return reader.lattice()


def slf_lattices(text: str, path: str | Path, symbols: Symbols | None) -> Iterator[tuple[str | None, Links]]:
    """Yield the links of the lattice of a text, which is called like its file; symbols are not looked at."""
    del symbols
    yield None, links_of_text(text, path)


def links_of_text(text: str, path: str | Path) -> Links:
    """Return the links of the lattice in a text; path is named in errors. Raises `DataError` as `read_lattice` does.

    One more link, to a node of its own, stands for the word and the scores of the first node, or of the last one where
    links have those of the node before them.
    """
    return _plain(text, path) or _one_by_one(lattice_of_lines(enumerate(text.split("\n"), 1), path))


def _one_by_one(lattice: Lattice) -> Links:
    nodes = lattice.nodes
    pairs = [(link, nodes[link.end if lattice.forward else link.start]) for link in lattice.links]
    words = [node.word if link.word is None else link.word for link, node in pairs]
    scores = {
        name: np.array([link.scores.get(name, node.scores.get(name, 0.0)) for link, node in pairs])
        for name in lattice.score_names
    }
    lines = np.array([-1 if link.line is None else link.line for link in lattice.links], dtype=np.int64)
    sources = np.array([link.start for link in lattice.links], dtype=np.int64)
    targets = np.array([link.end for link in lattice.links], dtype=np.int64)
    outer = nodes[lattice.start if lattice.forward else lattice.end]
    links = Links(sources, targets, np.arange(len(words)), words, scores, lattice.start, lattice.end, lines)
    return _with_outer(links._replace(scales=lattice.scales), outer, len(nodes), lattice.forward)


def _with_outer(links: Links, outer: Node, n_nodes: int, forward: bool) -> Links:
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
        lines=_appended(links.lines, outer.line or -1),
        nodes=nodes,
    )


def _appended(values: Any, last: float) -> Any:
    """Return an array with one more entry, of the same type."""
    return np.append(values, values.dtype.type(last))


def _plain(text: str, path: str | Path) -> Links | None:
    """Return the links of a plain text, `None` for any other, also for one with faults.

    Plain is a text with start and end in its header, then all nodes, and then all links, in order and a line each, all
    with the same fields, which are plain numbers, in the same order. Nodes may differ, which takes longer.
    """
    nodes_at, links_at = (re.search(rf"^{key}=", text, re.MULTILINE) for key in "IJ")
    if nodes_at is None or links_at is None or links_at.start() < nodes_at.start():
        return None
    reader = _Reader(path)
    try:
        for number, line in enumerate(text[: nodes_at.start()].split("\n"), 1):
            reader.add(number, line)
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
        start, end = reader.end("start", set(), n_nodes), reader.end("end", set(), n_nodes)
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
    outer = Node(vocabulary[words[own]], {name: float(values[own]) for name, values in given.items()}, first + own)
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
        reader.add(number, line)
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
    n_rows = data.count(b"\n")
    if tuple(written[: len(counts)]) != counts or len({*keys, "I", "J"}) != len(keys) + 1 or size != str(n_rows):
        return None
    numbers = np.empty((n_rows, len(keys)))
    words = read_fields(data, written, keys.index("W") if "W" in keys else -1, len(counts), numbers)
    if words is None or not np.array_equal(numbers[:, 0], np.arange(n_rows)):
        return None
    return _Table(n_rows, {key: numbers[:, place].copy() for place, key in enumerate(keys)}, words)


def write_lattice(lattice: Lattice, path: str | Path) -> None:
    """Write a lattice that `read_lattice` reads back as an equal one; by its ending the file is compressed.

    Raises `DataError` for a word with white space, or a score or scale that the format does not have.
    """
    keys = {name: key for key, name in _FIELDS.items()}
    scales = {name: key for key, name in _SCALES.items()} | {WORDS: "wdpenalty"}

    def numbers(values: Scores, known: Mapping[str, str]) -> list[str]:
        for name, value in values.items():
            if name not in known or not abs(value) <= MAGNITUDE_LIMIT:
                raise DataError(f"a lattice cannot hold {name} = {value}", path=path)
        return [f"{key}={number_text(values[name])}" for name, key in known.items() if name in values]

    def attributes(part: Node | Link) -> list[str]:
        if part.word is None:
            return numbers(part.scores, keys)
        if words_of(part.word) != [part.word]:
            raise DataError(
                f"the word {quoted(part.word)} is empty or has white space; write it as one word", path=path
            )
        word = _TO_ESCAPE.sub(lambda match: f"\\{ord(match[0]):03o}", part.word)
        return [f"W={word}", *numbers(part.scores, keys)]

    rows = [[f"dir={'f' if lattice.forward else 'b'}", f"start={lattice.start}", f"end={lattice.end}"]]
    rows += [[scale] for scale in numbers(lattice.scales, scales)]
    rows += [[f"N={len(lattice.nodes)}", f"L={len(lattice.links)}"]]
    rows += [[f"I={number}", *attributes(node)] for number, node in enumerate(lattice.nodes)]
    for number, link in enumerate(lattice.links):
        rows.append([f"J={number}", f"S={link.start}", f"E={link.end}", *attributes(link)])
    write_text(path, "VERSION=1.1\n" + "".join("\t".join(row) + "\n" for row in rows))


Fields = dict[str, str]
Lines = dict[int, tuple[int, Fields]]
"""By number of a node or link, the line it is defined on and its fields."""


class _Reader:
    """Gathers the parts of one lattice."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.header: dict[str, tuple[int, str]] = {}
        self.nodes: Lines = {}
        self.links: Lines = {}

    def add(self, line: int, text: str) -> None:
        """Take a line of the file."""
        fields = self._fields(line, text)
        for key, table in (("I", self.nodes), ("J", self.links)):
            if key in fields:
                number = count_of_text(fields[key], f"{key}=", self.path, line)
                if number in table:
                    raise self._error(line, f"{key}={number} comes twice, first on line {table[number][0]}")
                table[number] = line, fields
                return
        for key, value in fields.items():
            if key in self.header:
                first = self.header[key][0]
                raise self._error(line, f"{key}= comes twice, first on line {first}; a file holds one lattice")
            self.header[key] = line, value

    def lattice(self) -> Lattice:
        """Return the lattice that the lines make up."""
        base, scales = self.base_and_scales()
        n_nodes = self._size("N", self.nodes, "I")
        self._size("L", self.links, "J")
        nodes = self.all_nodes(base)
        forward = self.direction()
        links = tuple(self._link(number, base, nodes, forward) for number in range(len(self.links)))
        start = self.end("start", {link.end for link in links}, n_nodes)
        end = self.end("end", {link.start for link in links}, n_nodes)
        return Lattice(nodes, links, start, end, scales, forward)

    def base_and_scales(self) -> tuple[float, Scores]:
        """Return the base of the logarithms and the factors of the scores that the header gives."""
        for key in ("SUBLAT", "S"):
            if key in self.header:
                raise self._error(self.header[key][0], "sub-lattices cannot be read; expand them first")
        base = self._number("base") if "base" in self.header else math.e
        if base < 0:
            raise self._error(self.header["base"][0], f"{base} is no base of logarithms")
        scales = {name: self._number(key) for key, name in _SCALES.items() if key in self.header}
        if "wdpenalty" in self.header:
            line, value = self.header["wdpenalty"]
            scales[WORDS] = self._logarithm(line, "wdpenalty", value, base)
        return base, scales

    def all_nodes(self, base: float) -> tuple[Node, ...]:
        """Return the nodes in order."""
        return tuple(self._node(number, base) for number in range(self._size("N", self.nodes, "I")))

    def _fields(self, line: int, text: str) -> Fields:
        fields: Fields = {}
        place = len(text) - len(text.lstrip(" \t\r\v\f"))
        while place < len(text) and text[place] != "#":
            match = _FIELD.match(text, place)
            if match is None:
                raise self._error(line, f"{reprlib.repr(text[place:])} should be a field name=value")
            key = _SHORT.get(match[1], match[1])
            if key in fields:
                raise self._error(line, f"{key}= comes twice in one line")
            fields[key] = match[2]
            place = match.end()
        return fields

    def _size(self, key: str, table: Lines, part: str) -> int:
        if key not in self.header:
            raise self._error(None, f"no {key}= in the header, the number of lines {part}=")
        line, value = self.header[key]
        size = count_of_text(value, f"{key}=", self.path, line)
        for number, (other, _) in table.items():
            if number >= size:
                raise self._error(other, f"{part}={number}, but line {line} says {key}={size}")
        if len(table) < size:
            missing = next(number for number in range(size) if number not in table)
            raise self._error(line, f"{key}={size}, but there is no {part}={missing}")
        return size

    def _node(self, number: int, base: float) -> Node:
        line, fields = self.nodes[number]
        if "L" in fields:
            raise self._error(line, "sub-lattices cannot be read; expand them first")
        return Node(self._word(line, fields), self._scores(line, fields, base), line)

    def _link(self, number: int, base: float, nodes: Sequence[Node], forward: bool) -> Link:
        line, fields = self.links[number]
        ends = []
        for key in ("S", "E"):
            if key not in fields:
                raise self._error(line, f"no {key}=, which must name a node")
            ends.append(count_of_text(fields[key], f"{key}=", self.path, line))
            if ends[-1] >= len(nodes):
                raise self._error(line, f"{key}={ends[-1]}, but there are only nodes 0 to {len(nodes) - 1}")
        word = self._word(line, fields)
        other = nodes[ends[1] if forward else ends[0]].word
        if word is not None and other not in (None, NULL, word):
            raise self._error(line, f"the link has the word {quoted(word)}, its node {quoted(other)}; omit one of them")
        return Link(ends[0], ends[1], word, self._scores(line, fields, base), line)

    def _word(self, line: int, fields: Fields) -> str | None:
        if "W" not in fields:
            return None
        value = fields["W"]
        if _IN_QUOTES.fullmatch(value):
            value = value[1:-1]
        escaped = value.encode("utf-8")
        try:
            word = _ESCAPE.sub(lambda match: bytes([int(match[1], 8)]) if match[1] else match[2], escaped).decode(
                "utf-8"
            )
        except UnicodeDecodeError as error:
            raise self._error(line, f"the word {quoted(value)} is not UTF-8; convert the file to UTF-8") from error
        if words_of(word) != [word]:
            raise self._error(line, f"the word {quoted(word)} is empty or has white space; write it as one word")
        return word

    def _scores(self, line: int, fields: Fields, base: float) -> Scores:
        return {
            name: self._logarithm(line, f"{key}=", fields[key], base) for key, name in _FIELDS.items() if key in fields
        }

    def _logarithm(self, line: int, what: str, value: str, base: float) -> float:
        number = number_of_text(value, what, self.path, line)
        if base == 0:
            if number <= 0:
                raise self._error(line, f"{what} {value} is no probability (the header says base=0)")
            return math.log(number)
        return number if base in (1, math.e) else number * math.log(base)

    def direction(self) -> bool:
        """Return whether links have the words and scores of the nodes that they lead to."""
        line, value = self.header.get("dir", (None, "f"))
        if value not in ("f", "b"):
            raise self._error(line, f"dir={value} is neither f nor b")
        return value == "f"

    def end(self, key: str, inner: Set[int], n_nodes: int) -> int:
        """Return the start or end: the one of the header, or the only node that is not inner."""
        if key in self.header:
            line, value = self.header[key]
            number = count_of_text(value, f"{key}=", self.path, line)
            if number >= n_nodes:
                raise self._error(line, f"{key}={number}, but there are only nodes 0 to {n_nodes - 1}")
            return number
        found = [number for number in range(n_nodes) if number not in inner]
        if len(found) != 1:
            line = self.nodes[found[1]][0] if found else self.header["N"][0]
            trouble = f"nodes {found[0]} and {found[1]} could both be" if found else "no node can be"
            raise self._error(line, f"{trouble} the {key} of the lattice; give {key}= in the header")
        return found[0]

    def _number(self, key: str) -> float:
        line, value = self.header[key]
        return number_of_text(value, f"{key}=", self.path, line)

    def _error(self, line: int | None, message: str) -> DataError:
        return DataError(message, path=self.path, line=line)
