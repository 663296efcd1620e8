"""Pages to look at: their parts as a parser sees them, lists whose texts try to break out, and plain decoding."""

import itertools
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest

import lpmert
from lpmert.errors import FloatArray

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


def brute(nbest: lpmert.NBest, weights: FloatArray, f1: bool = False) -> float | None:
    """The loss of decoding by plain arithmetic; `None` where two scores nearly tie."""
    total = np.zeros(nbest.statistics.shape[1])
    for begin, end in itertools.pairwise(nbest.offsets.tolist()):
        scores = np.asarray(nbest.features)[begin:end] @ weights
        first = int(np.argmax(scores))
        near = scores > scores[first] - 1e-7 * max(1.0, float(np.abs(scores).max()))
        if len(np.unique(np.asarray(nbest.features)[begin:end][near], axis=0)) > 1:
            return None
        total += nbest.statistics[begin + first]
    if f1:
        return float(1 - 2 * total[0] / (total[1] + total[2]))
    return float(total[0])


def assert_decoded(nbest: lpmert.NBest, shown: Iterable[tuple[FloatArray, float]], f1: bool = False) -> int:
    """Hold losses that are shown of weights to those of plain decoding; return how many were, beside near ties."""
    pairs = [(brute(nbest, weights, f1), loss) for weights, loss in shown]
    clear = [(expected, loss) for expected, loss in pairs if expected is not None]
    for expected, loss in clear:
        assert loss == (pytest.approx(expected, abs=1e-12) if f1 else expected)
    return len(clear)


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
        if tag not in ("meta", "img", "input", "link", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open[-1] if self._open else "", []).append(data)

    @property
    def all_text(self) -> str:
        return " ".join(text for tag, texts in self.texts.items() if tag not in ("script", "style") for text in texts)

    @property
    def pictures(self) -> list[tuple[str, str]]:
        """What its pictures show in words, and their SVG, which is well-formed and without programs and addresses."""
        found = [(own["alt"] or "", unquote(own["src"] or "")) for tag, own in self.elements if tag == "img"]
        start = "data:image/svg+xml,"
        for _, source in found:
            assert source.startswith(start)
            for part in ElementTree.fromstring(source.removeprefix(start)).iter():
                assert part.tag.rpartition("}")[2] not in ("script", "foreignObject", "a", "iframe", "animate", "set")
                for name, value in part.attrib.items():
                    assert not name.startswith("on")
                    assert not name.endswith("href") or value.startswith(("#", "data:image/png;base64,"))
        return [(words, source.removeprefix(start)) for words, source in found]


def parts(path: Path) -> Parts:
    return Parts(path.read_text(encoding="utf-8"))


def reported(folder: Path, *outcomes: Any, **options: Any) -> Parts:
    """Return what the page about outcomes holds."""
    lpmert.report(*outcomes, folder / "r.html", **options)
    return parts(folder / "r.html")
