"""Which format of lattices or hypergraphs a text looks like."""

from __future__ import annotations

import re

_SLF = re.compile(r"(VERSION|V|UTTERANCE|U|NODES|N|I)=")
_POCKETSPHINX = re.compile(r"# getcwd: |Frames \d+$")
_SEARCH_GRAPH = re.compile(r"\d+ hyp=\d+ stack=\d+( |$)")
_CDEC = re.compile(r'\{\s*"rules"\s*:\s*\[\s*\d+\s*,\s*"')
_TRAVATAR = re.compile(r'\{\s*"(nodes"\s*:\s*\[\s*\{|(words|edges)"\s*:\s*\[.*"nodes"\s*:\s*\[\s*\{)')
_ARC = re.compile(r"\d+[ \t]+\d+([ \t]+\S+){1,3}\s*")
_STATE = re.compile(r"\d+(\s|$)")


def kind_of_graph(text: str) -> str | None:
    """Return the format of lattices that a text, or its beginning, looks like; `None` for none."""
    rows = [line for line in text.removeprefix("\ufeff").split("\n") if line.strip()]
    if not rows:
        return None
    first = rows[0]
    plain = next((line for line in rows if not line.startswith("#")), "")
    if _SLF.match(plain):
        return "slf"
    if _POCKETSPHINX.match(first) or _POCKETSPHINX.fullmatch(plain):
        return "pocketsphinx"
    if first.startswith("# target ||| features"):
        return "hypergraph"
    if _SEARCH_GRAPH.match(first):
        return "moses-graph"
    if _CDEC.match(first):
        return "cdec"
    if _TRAVATAR.match(first):
        return "travatar"
    if _ARC.fullmatch(first) and all(map(_STATE.match, rows)):
        return "fst"
    return "kaldi-lattice" if len(first.split()) == 1 and len(rows) > 1 and _ARC.match(rows[1]) else None
