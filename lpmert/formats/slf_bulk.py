"""Lattices in HTK's format as arrays: regular files all links at once, others line by line, with the same outcome."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.formats.fst_text import Symbols
from lpmert.formats.links import Links
from lpmert.formats.slf import SCORE_NAMES, Lattice, keys_of_scores, lattice_of_lines
from lpmert.model.given import EXACT_INTEGERS

_FIRST_LINK = re.compile(r"^J=", re.MULTILINE)
_COUNT = re.compile(r"(?<![^ \t\n])(?:L|LINKS)=(\d+)(?=[ \t\n])")
_KEY = re.compile(rb"([A-Za-z][A-Za-z0-9]*)=")
_NO_NUMBER = re.compile(rb"=(?![-+.0-9])")
_OF_NUMBERS = b"0123456789.-+ \t"
_OF_WHOLE_NUMBERS = b"0123456789 \t\n"
_TO_BLANKS = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz=", b" " * 53)
_ENDS = ("J", "S", "E")


def slf_lattices(text: str, path: str | Path, symbols: Symbols | None) -> Iterator[tuple[str | None, Links]]:
    """Yield the links of the lattice of a text, which is called like its file; symbols are not looked at."""
    del symbols
    yield None, links_of_text(text, path)


def links_of_text(text: str, path: str | Path) -> Links:
    """Return the links of the lattice in a text; path is named in errors. Raises `DataError` as `read_lattice` does.

    One more link, to a node of its own, stands for the word and the scores of the first node, or of the last one where
    links have those of the node before them.
    """
    return _in_bulk(text, path) or _one_by_one(lattice_of_lines(enumerate(text.split("\n"), 1), path))


def _one_by_one(lattice: Lattice) -> Links:
    nodes = lattice.nodes
    pairs = [(link, nodes[link.end if lattice.forward else link.start]) for link in lattice.links]
    words = [node.word if link.word is None else link.word for link, node in pairs]
    scores = {
        name: np.array([link.scores.get(name, node.scores.get(name, 0.0)) for link, node in pairs])
        for name in lattice.score_names
    }
    return _with_outer(
        np.array([link.start for link in lattice.links], dtype=np.int64),
        np.array([link.end for link in lattice.links], dtype=np.int64),
        np.arange(len(words)),
        words,
        scores,
        np.array([-1 if link.line is None else link.line for link in lattice.links], dtype=np.int64),
        lattice,
    )


def _with_outer(
    sources: IntArray,
    targets: IntArray,
    words: IntArray,
    vocabulary: list[str | None],
    scores: dict[str, FloatArray],
    lines: IntArray,
    lattice: Lattice,
) -> Links:
    start, end, n = lattice.start, lattice.end, len(lattice.nodes)
    outer = lattice.nodes[start if lattice.forward else end]
    words, vocabulary = np.append(words, len(vocabulary)), [*vocabulary, outer.word]
    more = {name: np.append(values, outer.scores.get(name, 0.0)) for name, values in scores.items()}
    of_nodes, lines = (*range(n), end), np.append(lines, outer.line or -1)
    if lattice.forward:  # the new node comes first, so that links go on leading to larger ones
        sources, targets, of_nodes = np.append(sources + 1, 0), np.append(targets, start) + 1, (start, *range(n))
        start, end = 0, end + 1
    else:
        sources, targets, end = np.append(sources, end), np.append(targets, n), n
    return Links(sources, targets, words, vocabulary, more, start, end, lines, of_nodes, lattice.scales)


def _in_bulk(text: str, path: str | Path) -> Links | None:
    """Return the links of a regular text, `None` for any other, also for one with faults.

    Regular is a text with start and end in its header, whose last lines are all its links, in order, with the same
    fields in the same order, all of them plain numbers.
    """
    match = _FIRST_LINK.search(text)
    counts = _COUNT.findall(text, 0, match.start()) if match else []
    if match is None or len(counts) != 1:
        return None
    block = text[match.start() :].encode("utf-8").rstrip(b"\n") + b"\n"
    keys = [key.decode("ascii") for key in _KEY.findall(block[: block.index(b"\n")])]
    n_links = block.count(b"\n")
    known = keys_of_scores()
    names = [known.get(key, "") for key in keys[len(_ENDS) :]]
    if (
        tuple(keys[: len(_ENDS)]) != _ENDS
        or len(set(keys)) != len(keys)
        or len(set(names) - {""}) != len(names) - names.count("")
        or str(n_links) != counts[0].lstrip("0")
        or block.translate(None, _OF_NUMBERS) != ("=".join(keys) + "=\n").encode() * n_links
        or _NO_NUMBER.search(block)
    ):
        return None
    fields = [key.encode() + b"=" for key in keys]
    blanks = [blank for blank in (b" ", b"\t") if blank in block]
    if block.count(b"\nJ=") != n_links - 1 or any(
        sum(block.count(blank + field) for blank in blanks) != n_links for field in fields[1:]
    ):
        return None  # a field is broken in two, or runs into the next one
    signs = block.translate(None, _OF_WHOLE_NUMBERS)
    if any(f"{key}={sign}".encode() in signs for key in _ENDS for sign in "+-."):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            numbers = np.fromstring(block.translate(_TO_BLANKS).decode("ascii"), sep=" ")
        except (DeprecationWarning, ValueError):  # as numpy has it: a number that is none
            return None
    if numbers.size != n_links * len(keys):
        return None
    table = numbers.reshape(n_links, len(keys))
    whole = table[:, : len(_ENDS)]
    fits = np.abs(table).max() < EXACT_INTEGERS and (whole < 2**31).all()
    if not fits or not np.array_equal(whole[:, 0], np.arange(n_links)):
        return None
    return _rest(text[: match.start()], counts[0], table, names, path)


def _rest(head: str, count: str, table: FloatArray, names: list[str], path: str | Path) -> Links | None:
    """Return the links of a table of numbers [L, 3 + fields] whose header and nodes are in the head of the text."""
    sources, targets = table[:, 1].astype(np.int64), table[:, 2].astype(np.int64)
    if not all(re.search(rf"(?<![^ \t\n])(?:{key})=", head) for key in ("start|START", "end|END")):
        return None
    header = _COUNT.sub(lambda match: match[0].removesuffix(count) + "0", head)
    lattice = lattice_of_lines(enumerate(header.split("\n"), 1), path)
    base = re.search(r"(?<![^ \t\n])base=([^ \t\n]*)", header)
    factor = 1.0 if base is None else _factor(base[1])
    nodes = lattice.nodes
    if factor is None or max(sources.max(), targets.max()) >= len(nodes):
        return None
    inner = targets if lattice.forward else sources
    scores = {name: table[:, len(_ENDS) + k] * factor for k, name in enumerate(names) if name}
    for name in lattice.score_names:
        if name not in scores:
            scores[name] = np.array([node.scores.get(name, 0.0) for node in nodes])[inner]
    in_order = {name: scores[name] for name in SCORE_NAMES if name in scores}
    lines = np.arange(len(sources)) + head.count("\n") + 1
    return _with_outer(sources, targets, inner, [node.word for node in nodes], in_order, lines, lattice)


def _factor(base: str) -> float | None:
    """Return what logarithms to a base are multiplied by to become natural ones, `None` where they are none."""
    try:
        value = float(base)
    except ValueError:
        return None
    if not 0.0 < value < math.inf:
        return None
    return 1.0 if value in (1.0, math.e) else math.log(value)
