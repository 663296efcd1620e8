"""HTML and SVG as trees of elements, so that whatever a text holds is text and nothing else."""

from __future__ import annotations

import re
from xml.etree import ElementTree

Element = ElementTree.Element
Child = Element | str | None

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""What HTML may not hold."""

_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""What turns the direction of all text after it."""


def element(tag: str, *children: Child, **attributes: str | float | None) -> Element:
    """Return an element with children, texts among them; attributes that are `None` are left out.

    Underscores in the names of attributes stand for hyphens, and one at the end for nothing.
    """
    found = ElementTree.Element(tag)
    for name, value in attributes.items():
        if value is not None:
            plain = name.removesuffix("_").replace("_", "-")
            found.set(plain, printable(value if isinstance(value, str) else f"{value:.10g}"))
    add(found, *children)
    return found


def add(parent: Element, *children: Child) -> None:
    """Add children to an element; `None` is left out."""
    for child in children:
        if isinstance(child, str):
            if len(parent):
                parent[-1].tail = (parent[-1].tail or "") + printable(child)
            else:
                parent.text = (parent.text or "") + printable(child)
        elif child is not None:
            parent.append(child)


def printable(text: str) -> str:
    """Return a text with a sign in place of each control character that pages may not hold or that turns them."""
    return _DIRECTION.sub("\ufffd", _CONTROL.sub("\ufffd", text))


def html(root: Element) -> str:
    """Return an element as HTML."""
    return ElementTree.tostring(root, encoding="unicode", method="html")


def table(heading: list[str], rows: list[list[Child]], *, numbers: int = 0, caption: str | None = None) -> Element:
    """Return a table in a box that scrolls sideways; the columns from `numbers` on are numbers, flush right."""
    kind = ["num" if place >= numbers else None for place in range(len(heading))]
    head = element(
        "tr", *(element("th", text, scope="col", class_=name) for text, name in zip(heading, kind, strict=True))
    )
    body = []
    for row in rows:
        first, *others = zip(row, kind, strict=True)
        cells = [element("th", first[0], scope="row", class_=first[1])]
        body.append(element("tr", *cells, *(element("td", child, class_=name) for child, name in others)))
    title = None if caption is None else element("caption", caption)
    inner = element("table", title, element("thead", head), element("tbody", *body))
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption or heading[0])
