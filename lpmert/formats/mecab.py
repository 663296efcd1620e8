"""MeCab's lattices: all morphological analyses of a sentence, by MeCab's own API.

Source: MeCab's mecab.h, and connect in its viterbi.cpp: the cost of a path is that of the connection and of its right
node's word.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lpmert.errors import DataError
from lpmert.formats.fst_text import Symbols
from lpmert.formats.links import LinkList, Links
from lpmert.formats.utterances import words_of

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
