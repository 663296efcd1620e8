"""Pages to look at: their parts as a parser sees them, and lists whose texts try to break out of a page."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

import lpmert

HOSTILE = (
    "</td></tr></table><script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=2">',
    "</script><script>window.hacked=3</script>",
    "<!--<script> & &amp; &lt; ]]> <svg onload=window.hacked=4>",
    "\u202eright to left\u0000\u0008 and \ud7ff end",
    "javascript:window.hacked=5",
    "<style>*{display:none}</style><base href=http://example.org/>",
    "{{7*7}} ${7*7} $name %s",
)


def hostile_lists(seed: int = 0, n_lists: int = 30, size: int = 6) -> lpmert.NBest:
    """Lists whose texts, names and ids hold HTML."""
    rng = np.random.default_rng(seed)
    texts = [f"{HOSTILE[int(rng.integers(len(HOSTILE)))]} word{k}" for k in range(n_lists * size)]
    return lpmert.NBest(
        rng.integers(-9, 10, (n_lists * size, 3)).astype(float),
        np.arange(n_lists + 1) * size,
        rng.integers(0, 5, n_lists * size),
        names=["<b>am</b>", '"lm', "</script>words"],
        list_ids=[f"{HOSTILE[k % len(HOSTILE)]}{k}" for k in range(n_lists)],
        texts=texts,
    )


class Parts(HTMLParser):
    """What a page holds: its elements with their attributes, and the text of each kind of element."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "link", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open[-1] if self._open else "", []).append(data)

    @property
    def all_text(self) -> str:
        """All that a reader sees."""
        return " ".join(text for tag, texts in self.texts.items() if tag not in ("script", "style") for text in texts)

    @property
    def data(self) -> dict[str, Any]:
        """What the program of the page draws."""
        return dict(json.loads(self.texts["script"][0]))


def parts(path: Path) -> Parts:
    """Return what a page holds."""
    return Parts(path.read_text(encoding="utf-8"))
