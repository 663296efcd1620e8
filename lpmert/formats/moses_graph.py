"""Search graphs of Moses' phrase-based decoder: -output-search-graph and -output-search-graph-extended.

Source: OutputSearchNode in Moses' moses/Manager.cpp, operator<< of FVector in its moses/FeatureVector.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lpmert.errors import DataError
from lpmert.formats.fst_text import Symbols
from lpmert.formats.links import LinkList, Links
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
