"""Search graphs of decoders as lattices: Moses' phrase-based decoder, PocketSphinx and Sphinx-3, MeCab by its own API.

Sources: OutputSearchNode in Moses' moses/Manager.cpp, operator<< of FVector in its moses/FeatureVector.cpp;
ps_lattice_write and ps_lattice_read in PocketSphinx's src/ps_lattice.c; MeCab's mecab.h, and connect in its
viterbi.cpp: the cost of a path is that of the connection and of its right node's word.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lpmert.errors import DataError
from lpmert.formats.format import LinkList, Links
from lpmert.formats.fst import Symbols
from lpmert.formats.numbers import count_of_text, number_of_text
from lpmert.formats.utterances import words_of
from lpmert.quoting import quoted

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


def moses_graphs(text: str, path: str | Path, symbols: Symbols | None) -> Iterator[tuple[str | None, Links]]:
    """Yield sentence and links of each search graph, in the order of the file; symbols are not looked at.

    A recombined hypothesis leads to the one it was recombined with. The features are `transition`, the model's score of
    the phrase, or, in the extended form, all scores of the model: core1, core2, ... and sparse ones by name. Of several
    words of a link each has a link of its own; the scores are on the first.
    """
    del symbols
    sentence, reader = "", _Sentence(path)
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise DataError(f"{quoted(line)} is no line of a search graph", path=path, line=number)
        if match["sentence"] != sentence:
            if sentence:
                yield sentence, reader.links()
            sentence, reader = match["sentence"], _Sentence(path)
        reader.add(match, number)
    if sentence:
        yield sentence, reader.links()


class _Sentence:
    """Gathers the lines of one sentence; nodes are numbered as they come, 0 is the empty hypothesis."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._nodes: dict[int, int] = {0: 0}
        self._fresh = 0
        self._finals: dict[int, int] = {}
        self._found = LinkList()
        self._extended: bool | None = None
        self._rows: list[tuple[int, int, list[str], tuple[str, ...], list[float], int]] = []

    def add(self, match: re.Match[str], line: int) -> None:
        """Take a line."""
        if match["back"] is None:
            if int(match["hyp"]) != 0:
                raise DataError("no back=, which must name the hypothesis before", path=self._path, line=line)
            return
        if match["forward"] is None or match["out"] is None:
            raise DataError(
                "no forward= or no out=; write the graph with Moses 1.0 or later", path=self._path, line=line
            )
        extended = match["scores"] is not None
        if self._extended not in (None, extended):
            raise DataError("only some lines of the sentence have scores=", path=self._path, line=line)
        self._extended = extended
        node = self._node(match["recombined"] or match["hyp"], line)
        if int(match["forward"]) == _FINAL:
            self._finals.setdefault(node, line)
        if extended:
            names, values = self._scores(match["scores"][1:-1], line)
        else:
            names, values = (TRANSITION,), [number_of_text(match["transition"], "transition=", self._path, line)]
        words = self._words(match["out"], extended, line)
        self._rows.append((self._node(match["back"], line), node, words, names, values, line))

    def links(self) -> Links:
        """Return the links of all lines, and those from the last hypotheses to the end."""
        fresh = len(self._nodes)
        for source, target, words, names, values, line in self._rows:
            node = source
            for place, word in enumerate(words or [None]):
                last = place >= len(words) - 1
                self._found.add(
                    node, target if last else fresh, word, names, values if place == 0 else [0.0] * len(names), line
                )
                node, fresh = fresh, fresh + (not last)
        for node, line in self._finals.items():
            self._found.add(node, fresh, None, (), [], line)
        nodes = [*self._nodes, *range(-1, -1 - (fresh + 1 - len(self._nodes)), -1)]
        return self._found.links(0, fresh, nodes=nodes, complete=bool(self._extended))

    def _node(self, text: str, line: int) -> int:
        return self._nodes.setdefault(count_of_text(text, "the hypothesis", self._path, line), len(self._nodes))

    def _words(self, out: str, extended: bool, line: int) -> list[str]:
        if not extended:
            return words_of(_OLD_TAIL.sub("", out))
        source, bar, target = out.removeprefix('"').removesuffix('"').rpartition("|")
        if not bar or "|" in source:
            trouble = f"out={quoted(out)} should be a source phrase, |, and a target phrase, both without factors"
            raise DataError(trouble, path=self._path, line=line)
        return words_of(target)

    def _scores(self, text: str, line: int) -> tuple[tuple[str, ...], list[float]]:
        """Return names and values of `core=(0,-1.5) name=2`, or, as older versions write them, of `d: -2 tm: 0 -1`."""
        named: dict[str, float] = {}

        def put(name: str, value: str) -> None:
            if name in named:
                raise DataError(f"scores has {quoted(name)} twice", path=self._path, line=line)
            named[name] = number_of_text(value, quoted(name), self._path, line)

        core = _CORE.search(text)
        if core is not None:
            for place, value in enumerate(filter(None, core[1].split(",")), 1):
                put(f"core{place}", value)
            for part in words_of(text[: core.start()] + text[core.end() :]):
                name, _, value = part.rpartition("=")
                put(name, value)
        else:
            groups: dict[str, list[str]] = {}
            name = ""
            for part in words_of(text):
                if part.endswith(":"):
                    name, count = part[:-1], 1
                    while name in groups:  # several models of one kind
                        count += 1
                        name = f"{part[:-1]}-{count}"
                    groups[name] = []
                elif not name:
                    raise DataError(f"scores={quoted(text)} should be names and numbers", path=self._path, line=line)
                else:
                    groups[name].append(part)
            for name, values in groups.items():
                for place, value in enumerate(values, 1):
                    put(name if len(values) == 1 else f"{name}{place}", value)
        return tuple(named), list(named.values())


_BASE, _DEFAULT_BASE = "-logbase", 1.0001
_ACOUSTIC = ("acoustic",)
_NODE_FIELDS, _EDGE_FIELDS = 5, 3
_SECTIONS = ("Frames", "Nodes", "Initial", "Final", "BestSegAscr", "Edges", "End")


def pocketsphinx_lattices(text: str, path: str | Path, symbols: Symbols | None) -> Iterator[tuple[str | None, Links]]:
    """Yield the links of the lattice of a text; acoustic scores become natural logarithms.

    The words are those of the nodes; one more link, before the first node, stands for the word of that one. symbols
    are not looked at.
    """
    del symbols
    base, section = _DEFAULT_BASE, ""
    counts: dict[str, tuple[int, int]] = {}
    words: list[str] = []
    found = LinkList()
    for number, line in enumerate(text.split("\n"), 1):
        fields = words_of(line)
        if line.startswith("#"):
            if fields[1:2] == [_BASE]:
                base = number_of_text("".join(fields[2:3]), _BASE, path, number)
                if base <= 1.0:
                    raise DataError(f"{base} is no base of logarithms", path=path, line=number)
            continue
        if not fields:
            continue
        if fields[0] in _SECTIONS:
            section = fields[0]
            if section in counts:
                raise DataError(f"{section} comes twice; a file holds one lattice", path=path, line=number)
            if section == "Edges" and "TO-NODEID" not in line:
                raise DataError("the edges must lead to nodes (FROM-NODEID TO-NODEID ASCORE)", path=path, line=number)
            count = 0 if section in ("Edges", "End") else count_of_text("".join(fields[1:2]), section, path, number)
            counts[section] = count, number
        elif section == "Nodes":
            if len(fields) < _NODE_FIELDS or count_of_text(fields[0], "the node", path, number) != len(words):
                raise DataError(
                    f"{quoted(line)} should be node {len(words)}, its word and frames", path=path, line=number
                )
            words.append(fields[1])
        elif section == "Edges":
            if len(fields) != _EDGE_FIELDS:
                raise DataError(f"{quoted(line)} should be two nodes and a score", path=path, line=number)
            ends = [count_of_text(field, "the node", path, number) for field in fields[:2]]
            if max(ends) >= len(words):
                raise DataError(
                    f"node {max(ends)}, but there are only nodes 0 to {len(words) - 1}", path=path, line=number
                )
            score = number_of_text(fields[2], "the score", path, number) * math.log(base)
            found.add(ends[0] + 1, ends[1] + 1, words[ends[1]], _ACOUSTIC, [score], number)
        elif section != "BestSegAscr":  # of no use to a reader, and usually empty
            raise DataError(f"{quoted(line)} is in no section of a lattice", path=path, line=number)
    for section in _SECTIONS:
        if section not in counts:
            raise DataError(f"no line {section}: the file is cut off, or no lattice", path=path)
    if counts["Nodes"][0] != len(words):
        count, number = counts["Nodes"]
        raise DataError(f"{count} nodes, but there are lines for {len(words)}", path=path, line=number)
    for what in ("Initial", "Final"):
        node, number = counts[what]
        if node >= len(words):
            raise DataError(f"{what} {node}, but there are only nodes 0 to {len(words) - 1}", path=path, line=number)
    start, end = counts["Initial"][0], counts["Final"][0]
    found.add(0, start + 1, words[start], _ACOUSTIC, [0.0], counts["Initial"][1])
    yield None, found.links(0, end + 1, nodes=(start, *range(len(words))))


WORD, CONNECTION = "word_cost", "connection_cost"


def mecab_lattices(text: str, path: str | Path, symbols: Symbols | None) -> Iterator[tuple[str | None, Links]]:
    """Yield utterance and links of all analyses of each line `utterance sentence`; symbols are not looked at.

    The features are costs: of words, and of neighbours. MeCab takes its dictionary from its configuration (MECABRC).
    Raises `DataError` without MeCab.
    """
    del symbols
    module = _module(path)
    tagger = module.Tagger()
    for number, line in enumerate(text.split("\n"), 1):
        cells = words_of(line)
        if not cells:
            continue
        sentence = line[line.index(cells[0]) + len(cells[0]) :].strip()
        if not sentence:
            raise DataError("no sentence after the utterance", path=path, line=number)
        yield cells[0], links_of_lattice(_parsed(module, tagger, sentence, path, number), path, number)


def links_of_lattice(lattice: Any, path: str | Path = "MeCab", line: int = -1) -> Links:
    """Return the links of a MeCab lattice, parsed with all its paths (request type `MECAB_MARGINAL_PROB`).

    Each node is a word; a link leads from word to word, and has the word that it leads to.
    """
    nodes = [lattice.bos_node()]
    for position in range(lattice.size() + 1):
        node = lattice.begin_nodes(position)
        while node is not None:
            if node.id != nodes[0].id:
                nodes.append(node)
            node = node.bnext
    places = {node.id: place for place, node in enumerate(nodes)}
    end = lattice.eos_node()
    last = places.setdefault(end.id, len(nodes))
    if last == len(nodes):
        nodes.append(end)
    found = LinkList()
    for node in nodes[1:]:
        step = node.lpath
        while step is not None:
            word = node.surface if node.id != end.id else None
            costs = [float(node.wcost), float(step.cost - node.wcost)]
            found.add(places[step.lnode.id], places[node.id], word, (WORD, CONNECTION), costs, line)
            step = step.lnext
    if not len(found):
        raise DataError("MeCab gives no paths; parse with MECAB_MARGINAL_PROB", path=path)
    return found.links(0, last)


def _parsed(module: Any, tagger: Any, sentence: str, path: str | Path, line: int) -> Any:
    lattice = module.Lattice()
    lattice.set_request_type(module.MECAB_MARGINAL_PROB)
    lattice.set_sentence(sentence)
    if not tagger.parse(lattice):
        raise DataError(f"MeCab cannot parse the sentence: {lattice.what()}", path=path, line=line)
    return lattice


def _module(path: str | Path) -> Any:
    try:
        import MeCab
    except ImportError as error:
        raise DataError("MeCab is not installed: pip install 'lpmert[mecab]', and a dictionary", path=path) from error
    return MeCab
