"""The part of the page about lists: which choose otherwise at other weights, and which choices are close."""

from __future__ import annotations

from collections.abc import Sequence

from lpmert.errors import FloatArray
from lpmert.markup.elements import Child, Element, element, table
from lpmert.markup.figures import number
from lpmert.model.problem import Problem
from lpmert.picturing.decisions import Change, Choice, Piece, changes, closest, edits
from lpmert.reporting.material import Material
from lpmert.result import Result

SHOWN = 60
"""Changed lists that are shown for each two weights, half of them from either end."""

CLOSEST = 12
"""Lists with the closest decisions that are shown."""


def changes_part(material: Material) -> Element | None:
    """Return which lists choose otherwise at other weights than those of the result; `None` without other weights."""
    if material.problem is None or not material.others:
        return None
    found = {name: changes(material.problem, weights, material.weights) for name, weights in material.others.items()}
    rows: list[list[Child]] = []
    for name, own in found.items():
        differences = [change.difference for change in own]
        known = [one for one in differences if one is not None]
        loss = material.problem.evaluate(material.others[name]).loss
        better, worse = sum(one < 0 for one in known), sum(one > 0 for one in known)
        counts = [str(len(own)), str(better) if known else "-", str(worse) if known else "-"]
        rows.append([name, number(loss), *counts, number(material.result.loss - loss)])
    heading = ["weights", "loss", "lists changed", "better", "worse", "difference"]
    boxes = [
        _box(name, material.title, own, opened=place == 0) for place, (name, own) in enumerate(found.items()) if own
    ]
    return element(
        "section",
        element("h2", "Which lists change"),
        element("p", f"What lists choose at other weights, and at the {material.title}."),
        table(heading, rows, numbers=1, caption="Other weights"),
        *boxes,
        id="changes",
    )


def _box(name: str, title: str, own: Sequence[Change], *, opened: bool) -> Element:
    half = SHOWN // 2
    shown = own if len(own) <= SHOWN else [*own[:half], *own[-half:]]
    left_out = len(own) - len(shown)
    note = (
        element("p", f"{left_out:,} lists with smaller differences are left out.", class_="note") if left_out else None
    )
    scroll = _wide_table(("list", name, title, "loss"), [_row(change) for change in shown], f"from {name} to {title}")
    words = f"{name} \N{RIGHTWARDS ARROW} {title}: {len(own):,} {'list' if len(own) == 1 else 'lists'}"
    return element("details", element("summary", words), note, scroll, open="open" if opened else None)


def _row(change: Change) -> Element:
    before, after = change.pieces()
    difference = change.difference
    kind = None if not difference else "better" if difference < 0 else "worse"
    loss = "-"
    if difference is not None:
        sign = "\N{MINUS SIGN}" if difference < 0 else "+" if difference > 0 else "\N{PLUS-MINUS SIGN}"
        figures = f"{number(change.before.loss)} \N{RIGHTWARDS ARROW} {number(change.after.loss)}"
        loss = f"{figures} ({sign}{number(abs(difference))})"
    return element(
        "tr",
        element("th", change.list_id, scope="row"),
        element("td", *_text(change.before, before, "del"), class_="text"),
        element("td", *_text(change.after, after, "ins"), class_="text"),
        element("td", loss, class_=f"num {kind or ''}".strip(), data_label="loss"),
    )


def _text(choice: Choice, pieces: Sequence[Piece], tag: str) -> list[Child]:
    name = None if choice.number is None else f"hypothesis {choice.number + 1}"
    if choice.text is None:
        return [name]
    if not pieces:
        return [element("em", "no words")]
    found: list[Child] = []
    for place, (changed, words) in enumerate(pieces):
        found += [" " if place else None, element(tag, words) if changed else words]
    return [*found, None if name is None else element("small", f" ({name})")]


def ties_part(material: Material, *, with_lists: bool = True) -> Element:
    """Return how firmly the weights of the result decide: ties, the margin, and the closest decisions in the lists."""
    result = material.result
    parts: list[Element] = [element("p", _ties(result))]
    if isinstance(material.problem, Problem) and with_lists:
        parts += _close(material.problem, material.result.weights)
    return element("section", element("h2", "Ties and margins"), *parts, id="ties")


def _ties(result: Result) -> str:
    margin = "" if result.margin is None else f" The closest decision is made by {result.margin:.4g} in score."
    if not result.tied_lists:
        return f"No list is tied at these weights.{margin}"
    lists = "1 list is" if result.tied_lists == 1 else f"{result.tied_lists:,} lists are"
    ends = (
        ""
        if result.loss_best_ties is None
        else f"; with all ties at their best the loss is {number(result.loss_best_ties)}, at their worst "
        f"{number(result.loss_worst_ties)}"
    )
    return f"{lists} tied at these weights{ends}.{margin}"


def _close(problem: Problem, weights: FloatArray) -> list[Element]:
    found = closest(problem, weights, CLOSEST)
    if not found:
        return []
    rows = []
    for one in found:
        losses = f"{number(one.chosen.loss)} / {number(one.next.loss)}"
        texts = [element("td", *_text(own, (), ""), class_="text") for own in (one.chosen, one.next)]
        if one.chosen.text is not None and one.next.text is not None:
            pieces = edits(one.chosen.text, one.next.text)
            sides = zip((one.chosen, one.next), pieces, ("ins", "del"), strict=True)
            texts = [element("td", *_text(own, part, tag), class_="text") for own, part, tag in sides]
        figures = [("loss of both", losses), ("lead", f"{one.lead:.3g}")]
        cells = [element("td", text, class_="num", data_label=label) for label, text in figures]
        rows.append(element("tr", element("th", one.list_id, scope="row"), *texts, *cells))
    note = (
        "The lists that a small change of the weights would turn first; the lead is in score, for weights of length 1."
    )
    heading = ("list", "chosen", "next", "loss of both", "lead")
    return [element("p", note), _wide_table(heading, rows, "The closest decisions")]


def _wide_table(heading: Sequence[str], rows: Sequence[Element], label: str) -> Element:
    """Return a table of texts: the first three columns flush left, the others numbers."""
    kinds = [None, None, None, *("num" for _ in heading[3:])]
    head = [element("th", name, scope="col", class_=kind) for name, kind in zip(heading, kinds, strict=True)]
    inner = element("table", element("thead", element("tr", *head)), element("tbody", *rows), class_="changes")
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=label)
