"""The page: one file with all that it needs, which fetches nothing and runs nothing but its own program."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from lpmert.markup.card import figure_list, figures, sentence, weights_table
from lpmert.markup.elements import Element, add, element, html
from lpmert.markup.figures import number
from lpmert.markup.progress import progress
from lpmert.reporting.changes import changes_part, ties_part
from lpmert.reporting.material import Material
from lpmert.reporting.profiles import profiles_part
from lpmert.reporting.surfaces import pairs_of, surface_part, surfaces
from lpmert.reporting.tables import (
    comparison_part,
    details_part,
    expected_part,
    lattices_part,
    results_part,
    tuning_part,
)
from lpmert.system.deadline import OutOfTime
from lpmert.version import __version__

Stage = Callable[[str, int, int], object]


class Page(NamedTuple):
    """A page as HTML, and the parts that it lacks because there was no time for them."""

    text: str
    missing: tuple[str, ...]


def page(
    material: Material,
    pairs: Sequence[tuple[str, str]] | None = None,
    on_stage: Stage | None = None,
    *,
    missing: Sequence[str] = (),
) -> Page:
    """Return the page, with what there is time for until the deadline that is heeded.

    pairs: of features, over whose weights surfaces are drawn; by default of the few that matter most. missing: what the
    material lacks already. Raises `DataError` for features that there are not.
    """
    documents, result = material.documents, material.result
    data: dict[str, Any] = {}
    lacking = list(missing)
    parts: list[Element | None] = [results_part(documents), _progress(result.to_dict())]

    def drawn(what: str, draw: Callable[[], Element | None]) -> Element | None:
        try:
            return draw()
        except OutOfTime:
            lacking.append(what)
            return None

    def draw_surfaces() -> Element | None:
        shown = pairs_of(material, pairs)
        if not shown:
            return None
        data.update(surfaces(material, shown, on_stage))
        done = len(data["pairs"])
        if done < len(shown):
            lacking.append(f"{len(shown) - done} of {len(shown)} error surfaces")
        return surface_part(material, shown[:done])

    if material.problem is not None:
        parts.append(drawn("the error surfaces", draw_surfaces))
        parts.append(drawn("the profiles of weights", lambda: profiles_part(material, on_stage)))
        parts.append(drawn("the lists that change", lambda: changes_part(material)))
    ties = drawn("the closest decisions", lambda: ties_part(material))
    parts.append(ties_part(material, with_lists=False) if ties is None else ties)
    parts += [comparison_part(one) for one in documents.of_kind("comparison")]
    tunings = documents.of_kind("tuning")
    parts += [tuning_part(one) for one in tunings]
    parts += [None if tunings else expected_part(result), lattices_part(result), details_part(result)]
    sections = [part for part in parts if part is not None]
    heading = _heading(material, lacking)
    return Page("<!DOCTYPE html>\n" + html(_document(heading, sections, data)) + "\n", tuple(lacking))


def _heading(material: Material, missing: Sequence[str]) -> Element:
    told = material.result.to_dict()
    if material.factor != 1.0:
        told["weights"] = {name: weight * material.factor for name, weight in told["weights"].items()}
        if told["cell"] is not None:
            ranges = told["cell"]["ranges"].items()
            told["cell"]["ranges"] = {
                name: [None if end is None else end * material.factor for end in ends] for name, ends in ranges
            }
    kind = "good" if material.result.status.proved else "open"
    found = element("header", element("h1", sentence(told), class_=kind))
    if not material.result.status.proved:
        add(found, element("p", told["message"][0].upper() + told["message"][1:] + "."))
    for one in material.documents.of_kind("check"):
        content = one.content
        add(found, element("p", f"The weights checked have loss {number(content['loss'])}: {_excess(content)}."))
    for warning in told["warnings"]:
        add(found, element("p", f"Warning: {warning['message']}", class_="warning"))
    if missing:
        add(found, element("p", f"There was no time for {', '.join(missing)}.", class_="warning"))
    add(found, figure_list(figures(told)), weights_table(told))
    if material.problem is None and not missing:
        note = "With the lists (--data), this page also shows error surfaces, profiles of weights, and changed lists."
        add(found, element("p", note, class_="note"))
    return found


def _excess(content: dict[str, Any]) -> str:
    if content["wins_by_ties"]:
        return "less than the optimum, but only by ties"
    if content["excess"] > 0:
        return f"{number(content['excess'])} more than the best found"
    return "they are optimal" if content["optimum"]["status"] == "optimal" else "none better is known"


def _progress(result: dict[str, Any]) -> Element | None:
    drawing = progress(result)
    if drawing is None:
        return None
    bound = result["lower_bound"] is not None
    text = "The best loss found so far" + (", and the bound below which no weights can be." if bound else ".")
    key = element("p", element("span", "best loss", class_="sample loss"), class_="curves")
    if bound:
        add(key, " ", element("span", "bound", class_="sample bound"))
    figure = element("figure", drawing, element("figcaption", text), key)
    return element("section", element("h2", "Progress"), figure, id="progress")


def _document(heading: Element, sections: Sequence[Element], data: dict[str, Any]) -> Element:
    style, program = _part("page.css"), _part("page.js")
    policy = (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(program)}; base-uri 'none'; "
        "form-action 'none'"
    )
    names = [(section.get("id"), section.find("h2")) for section in sections]
    links = [element("a", title.text, href=f"#{place}") for place, title in names if place and title is not None]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", "lpmert: " + "".join(heading.find("h1").itertext())),  # type: ignore[union-attr]
        element("style", style),
    )
    footer = element("footer", element("p", f"Made by lpmert {__version__}. This page fetches nothing."))
    navigation = element("nav", *links, aria_label="Parts of this page")
    body = element("body", element("main", heading, navigation, *sections), footer)
    if data:
        add(body, element("script", _embedded(data), type="application/json", id="data"))
        add(body, element("script", program))
    return element("html", head, body, lang="en")


def _embedded(data: dict[str, Any]) -> str:
    """Return data as JSON in which nothing can end the element that holds it."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _part(name: str) -> str:
    return files("lpmert.reporting").joinpath(name).read_text(encoding="utf-8")


def _source(text: str) -> str:
    """Return what a policy calls a part of the page that is as it should be."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"
