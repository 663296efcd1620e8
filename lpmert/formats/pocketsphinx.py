"""Word lattices as PocketSphinx and Sphinx-3 write them.

Source: ps_lattice_write and ps_lattice_read in PocketSphinx's src/ps_lattice.c.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from lpmert.errors import DataError
from lpmert.formats.fst_text import Symbols
from lpmert.formats.links import LinkList, Links
from lpmert.formats.numbers import count_of_text, number_of_text
from lpmert.formats.utterances import words_of
from lpmert.quoting import quoted

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
