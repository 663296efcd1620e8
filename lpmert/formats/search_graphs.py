"""Lattices as decoders write them: Moses, PocketSphinx and Sphinx-3, Kaldi, OpenFst's fstprint; MeCab by its own API.

Sources: OutputSearchNode in Moses' moses/Manager.cpp, operator<< of FVector in its moses/FeatureVector.cpp;
ps_lattice_write and ps_lattice_read in PocketSphinx's src/ps_lattice.c; LatticeReader and the holders' Write in Kaldi's
src/lat/kaldi-lattice.cc, operator<< of LatticeWeightTpl in its src/fstext/lattice-weight.h (graph cost, acoustic cost,
and for compact lattices transition ids joined by _); FstPrinter in OpenFst's fst/script/print-impl.h, and its symbol
tables: both leave out weights of one, which cost nothing; MeCab's mecab.h, and connect in its viterbi.cpp: the cost of
a path is that of the connection and of its right node's word.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lpmert.errors import DataError
from lpmert.formats.graphs import GraphText, LinkList, Links, Symbols
from lpmert.formats.text import Place, placed_lines, words_of
from lpmert.quoting import quoted

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
        """Take a line."""
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
    """Return names and values of `core=(0,-1.5) name=2`, or, as older versions write them, of `d: -2 tm: 0 -1`."""
    pairs: list[tuple[str, str]] = []
    core = _CORE.search(text)
    if core is not None:
        pairs += [(f"core{number}", value) for number, value in enumerate(filter(None, core[1].split(",")), 1)]
        for part in words_of(text[: core.start()] + text[core.end() :]):
            name, _, value = part.rpartition("=")
            pairs.append((name, value))
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
                raise place.error(f"scores={quoted(text)} should be names and numbers")
            else:
                groups[name].append(part)
        for name, values in groups.items():
            numbered = enumerate(values, 1)
            pairs += [(name if len(values) == 1 else f"{name}{number}", value) for number, value in numbered]
    named: dict[str, float] = {}
    for name, value in pairs:
        if name in named:
            raise place.error(f"scores has {quoted(name)} twice")
        named[name] = place.number(value, quoted(name))
    return tuple(named), list(named.values())


_BASE, _DEFAULT_BASE = "-logbase", 1.0001
_ACOUSTIC = ("acoustic",)
_NODE_FIELDS, _EDGE_FIELDS = 5, 3
_SECTIONS = ("Frames", "Nodes", "Initial", "Final", "BestSegAscr", "Edges", "End")


def pocketsphinx_lattices(file: GraphText) -> Named:
    """Yield the links of the lattice of a text; acoustic scores become natural logarithms.

    The words are those of the nodes; one more link, before the first node, stands for the word of that one.
    """
    base, section = _DEFAULT_BASE, ""
    counts: dict[str, tuple[int, Place]] = {}
    words: list[str] = []
    found = LinkList()

    def node(number: int, place: Place, what: str = "node") -> int:
        if number >= len(words):
            raise place.error(f"{what} {number}, but there are only nodes 0 to {len(words) - 1}")
        return number

    for place, line in file.lines():
        fields = words_of(line)
        if line.startswith("#"):
            if fields[1:2] == [_BASE]:
                base = place.number("".join(fields[2:3]), _BASE)
                if base <= 1.0:
                    raise place.error(f"{base} is no base of logarithms")
        elif not fields:
            pass
        elif fields[0] in _SECTIONS:
            section = fields[0]
            if section in counts:
                raise place.error(f"{section} comes twice; a file holds one lattice")
            if section == "Edges" and "TO-NODEID" not in line:
                raise place.error("the edges must lead to nodes (FROM-NODEID TO-NODEID ASCORE)")
            counts[section] = 0, place
            if section not in ("Edges", "End"):
                counts[section] = place.whole("".join(fields[1:2]), section), place
        elif section == "Nodes":
            if len(fields) < _NODE_FIELDS or place.whole(fields[0], "the node") != len(words):
                raise place.error(f"{quoted(line)} should be node {len(words)}, its word and frames")
            words.append(fields[1])
        elif section == "Edges":
            if len(fields) != _EDGE_FIELDS:
                raise place.error(f"{quoted(line)} should be two nodes and a score")
            source, target = (place.whole(field, "the node") for field in fields[:2])
            node(max(source, target), place)
            score = place.number(fields[2], "the score") * math.log(base)
            found.add(source + 1, target + 1, words[target], _ACOUSTIC, [score], place.line or 0)
        elif section != "BestSegAscr":  # of no use to a reader, and usually empty
            raise place.error(f"{quoted(line)} is in no section of a lattice")
    for section in _SECTIONS:
        if section not in counts:
            raise DataError(f"no line {section}: the file is cut off, or no lattice", path=file.path)
    count, place = counts["Nodes"]
    if count != len(words):
        raise place.error(f"{count} nodes, but there are lines for {len(words)}")
    start, end = (node(*counts[what], what) for what in ("Initial", "Final"))
    found.add(0, start + 1, words[start], _ACOUSTIC, [0.0], counts["Initial"][1].line or 0)
    yield None, found.links(0, end + 1, nodes=(start, *range(len(words))))


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


WORD, CONNECTION = "word_cost", "connection_cost"


def mecab_lattices(file: GraphText) -> Named:
    """Yield utterance and links of all analyses of each line `utterance sentence`.

    The features are costs: of words, and of neighbours. MeCab takes its dictionary from its configuration (MECABRC).
    Raises `DataError` without MeCab.
    """
    module = _mecab(file.path)
    tagger = module.Tagger()
    for place, line in file.lines():
        cells = words_of(line)
        if not cells:
            continue
        sentence = line[line.index(cells[0]) + len(cells[0]) :].strip()
        if not sentence:
            raise place.error("no sentence after the utterance")
        lattice = module.Lattice()
        lattice.set_request_type(module.MECAB_MARGINAL_PROB)
        lattice.set_sentence(sentence)
        if not tagger.parse(lattice):
            raise place.error(f"MeCab cannot parse the sentence: {lattice.what()}")
        yield cells[0], links_of_lattice(lattice, file.path, place.line or 0)


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


def _mecab(path: str | Path) -> Any:
    try:
        import MeCab
    except ImportError as error:
        raise DataError("MeCab is not installed: pip install 'lpmert[mecab]', and a dictionary", path=path) from error
    return MeCab
