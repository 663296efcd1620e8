"""Finite-state machines as text: lattices of Kaldi, plain and compact, and what OpenFst's fstprint writes.

Sources: LatticeReader and the holders' Write in Kaldi's src/lat/kaldi-lattice.cc, operator<< of LatticeWeightTpl in its
src/fstext/lattice-weight.h (graph cost, acoustic cost, and for compact lattices transition ids joined by _); FstPrinter
in OpenFst's fst/script/print-impl.h, and its symbol tables. Both leave out weights of one, which cost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lpmert.errors import DataError
from lpmert.formats.format import LinkList, Links
from lpmert.formats.numbers import count_of_text, number_of_text
from lpmert.formats.utterances import words_of
from lpmert.quoting import quoted
from lpmert.system.files import lines

COST, GRAPH, ACOUSTIC = "cost", "graph_cost", "acoustic_cost"
EPSILON = frozenset({"<eps>", "<epsilon>"})

Symbols = Mapping[int, str]

_PAIR = re.compile(r"[^,\s]+,[^,\s]+(,[0-9_]*)?")
_WHOLE = re.compile(r"-?[0-9]+")
_NONE = ("Infinity", "inf")
"""How the weight of a state that is not final is written."""


class _Row(NamedTuple):
    """A line with 1 to 5 fields."""

    line: int
    fields: list[str]


def read_symbols(path: str | Path) -> Symbols:
    """Return the words of a symbol table, lines `word number`, by number; raises `DataError` for anything else."""
    found: dict[int, str] = {}
    for number, line in lines(path):
        cells = words_of(line)
        if not cells:
            continue
        if len(cells) != 2:
            raise DataError(f"{quoted(line)} should be a word and its number", path=path, line=number)
        place = count_of_text(cells[1], "the number", path, number)
        if place in found:
            raise DataError(f"{place} is the number of {quoted(found[place])} already", path=path, line=number)
        found[place] = cells[0]
    if not found:
        raise DataError("empty file; it must hold lines word number", path=path)
    return found


def kaldi_lattices(text: str, path: str | Path, symbols: Symbols | None) -> Iterator[tuple[str | None, Links]]:
    """Yield utterance and links of each lattice of a text archive: the utterance, its lines, and an empty line."""
    key: str | None = None
    rows: list[_Row] = []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        fields = words_of(line)
        if not fields:
            if key is not None:
                yield key, _links(rows, path, symbols, of_kaldi=True)
            key, rows = None, []
        elif key is None:
            if len(fields) > 1:
                raise DataError(f"{quoted(line)} should be an utterance alone", path=path, line=number)
            key = fields[0]
        else:
            rows.append(_Row(number, fields))


def fst_lattices(text: str, path: str | Path, symbols: Symbols | None) -> Iterator[tuple[str | None, Links]]:
    """Yield the links of the one acceptor or transducer in a text, whose words are the output labels."""
    rows = [_Row(number, fields) for number, line in enumerate(text.split("\n"), 1) if (fields := words_of(line))]
    yield None, _links(rows, path, symbols, of_kaldi=False)


def _links(rows: Sequence[_Row], path: str | Path, symbols: Symbols | None, *, of_kaldi: bool) -> Links:
    if not rows:
        raise DataError("a lattice without lines; leave it out", path=path)
    for row in rows:
        if len(row.fields) > 5:
            raise DataError("more than five fields: state, state, labels and weight", path=path, line=row.line)
    arcs, finals = [row for row in rows if len(row.fields) > 2], [row for row in rows if len(row.fields) < 3]
    acceptor = _is_acceptor(arcs, path)
    place = 2 if acceptor else 3
    for row in arcs:
        if not place < len(row.fields) <= place + 2:
            shape = "an acceptor: state, state, label" if acceptor else "a transducer: state, state, input, output"
            raise DataError(f"{len(row.fields)} fields, where others are of {shape}", path=path, line=row.line)
    in_words = any(not _WHOLE.fullmatch(row.fields[place]) for row in arcs)
    weights = [row.fields[place + 1] if len(row.fields) > place + 1 else None for row in arcs]
    ends = [row.fields[1] if len(row.fields) == 2 else None for row in finals]
    pairs = of_kaldi or any(weight is not None and "," in weight for weight in (*weights, *ends))
    names = (GRAPH, ACOUSTIC) if pairs else (COST,)
    found = LinkList()
    for row, weight in zip(arcs, weights, strict=True):
        source, target = (count_of_text(row.fields[end], "the state", path, row.line) for end in (0, 1))
        word = _word(row.fields[place], in_words, symbols, path, row.line)
        found.add(source, target, word, names, _costs(weight, names, path, row.line), row.line)
    start = count_of_text(rows[0].fields[0], "the state", path, rows[0].line)
    last = max((int(field) for row in arcs for field in row.fields[:2]), default=start)
    states = [count_of_text(row.fields[0], "the state", path, row.line) for row in finals]
    end = max([last, *states]) + 1
    for row, state, weight in zip(finals, states, ends, strict=True):
        if weight is None or weight.partition(",")[0] not in _NONE:
            found.add(state, end, None, names, _costs(weight, names, path, row.line), row.line)
    return found.links(start, end)


def _is_acceptor(arcs: Sequence[_Row], path: str | Path) -> bool:
    """Whether arcs have one label; what tells is a line of three or five fields, or how the fourth is written."""
    sizes = {len(row.fields) for row in arcs}
    if 3 in sizes or 5 in sizes:
        return 3 in sizes
    for row in arcs:
        label_or_weight = row.fields[3]
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
    raise DataError(
        "whole numbers in the fourth field could be output labels or weights; print five fields: "
        "fstprint --show_weight_one, without --acceptor",
        path=path,
        line=arcs[0].line,
    )


def _word(label: str, in_words: bool, symbols: Symbols | None, path: str | Path, line: int) -> str | None:
    """Return the word of a label, `None` for epsilon: number 0, or a word of `EPSILON`."""
    if in_words:
        if symbols is not None:
            raise DataError("the labels are words; leave the symbols out", path=path, line=line)
        return None if label in EPSILON else label
    number = count_of_text(label, "the label", path, line)
    if number == 0:
        return None
    if symbols is None:
        return label
    if number not in symbols:
        raise DataError(
            f"label {number} is not among the symbols; give the table of these lattices", path=path, line=line
        )
    return None if symbols[number] in EPSILON else symbols[number]


def _costs(weight: str | None, names: tuple[str, ...], path: str | Path, line: int) -> list[float]:
    if weight is None:
        return [0.0] * len(names)
    parts = weight.split(",")
    if len(parts) not in ({1} if names == (COST,) else {2, 3}):
        shape = "one number" if names == (COST,) else "graph cost, acoustic cost and transition ids"
        raise DataError(f"the weight {quoted(weight)} should be {shape}", path=path, line=line)
    return [number_of_text(part, "the weight", path, line) for part in parts[: len(names)]]
