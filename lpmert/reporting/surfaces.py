"""The part of the page that shows the loss over two weights: what its program draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from lpmert.errors import DataError, FloatArray
from lpmert.markup.elements import Element, element
from lpmert.picturing.rows import place_of
from lpmert.picturing.surface import surface
from lpmert.picturing.windows import shown_features
from lpmert.quoting import quoted
from lpmert.reporting.material import Material
from lpmert.reporting.packing import packed
from lpmert.system.deadline import OutOfTime

SHOWN = 4
"""Features whose pairs are shown unless others are asked for."""

_ALONG = 1e-9
"""Weights lie in the plane of a surface if all others are those of its middle, up to a factor and this share."""

Stage = Callable[[str, int, int], object]


def pairs_of(material: Material, asked: Sequence[tuple[str, str]] | None) -> list[tuple[int, int]]:
    """Return the pairs of features to show: those asked for, or all of the few that matter most.

    Raises `DataError` for a feature that is unknown, or does not vary.
    """
    if asked is None:
        return list(combinations(shown_features(material.lines, material.weights, SHOWN).tolist(), 2))
    found = []
    for pair in asked:
        if pair[0] == pair[1]:
            raise DataError(f"a surface is over two weights, not twice {quoted(pair[0])}")
        first, second = (place_of(name, material.names, material.lines) for name in pair)
        found.append((first, second))
    return list(dict.fromkeys(found))


def in_plane(
    weights: FloatArray, middle: FloatArray, features: tuple[int, int], matters: FloatArray
) -> FloatArray | None:
    """Return weights [D] times the positive factor that brings them into the plane of a surface; `None` without one.

    matters [D]: positive for features that vary; the weights of others are left out of account.
    """
    rest = matters > 0.0
    rest[list(features)] = False
    own, there = weights[rest], middle[rest]
    if there.any():
        along = float(own @ there)
        factor = float(there @ there) / along if along > 0.0 else 0.0
    else:
        factor = float(np.linalg.norm(middle)) / (float(np.linalg.norm(weights)) or 1.0)
    off = np.abs(factor * own - there).max(initial=0.0)
    near = factor > 0.0 and off <= _ALONG * np.abs(there).max(initial=0.0)
    return factor * weights if near else None


def surfaces(material: Material, pairs: Sequence[tuple[int, int]], on_stage: Stage | None = None) -> dict[str, Any]:
    """Return what the program draws: packed surfaces by pair and window, and where all weights lie in them.

    Where time is over, pairs that are not done are left out; there is at least one, or else `OutOfTime` is raised.
    """
    found: list[dict[str, Any]] = []
    try:
        for drawn in _drawn(material, pairs, on_stage):
            found.append(drawn)
    except OutOfTime:
        if not found:
            raise
    return {"pairs": found, "title": material.title, "marks": list(material.others), "loss": material.result.loss}


def _drawn(material: Material, pairs: Sequence[tuple[int, int]], on_stage: Stage | None) -> Iterator[dict[str, Any]]:
    names, windows = material.names, material.windows
    for done, (first, second) in enumerate(pairs):
        shown = []
        for window in windows:
            halves = float(window.halves[first]), float(window.halves[second])
            shown.append(
                {"name": window.name, **packed(surface(material.lines, material.weights, (first, second), halves))}
            )
            if on_stage is not None:
                on_stage("surfaces", done * len(windows) + len(shown), len(pairs) * len(windows))
        marks: list[list[float] | None] = []
        for weights in material.others.values():
            there = in_plane(weights, material.weights, (first, second), material.lines.spread)
            marks.append(None if there is None else [float(there[first]), float(there[second])])
        middle = [float(material.weights[first]), float(material.weights[second])]
        yield {"names": [names[first], names[second]], "middle": middle, "windows": shown, "marks": marks}


def surface_part(material: Material, pairs: Sequence[tuple[int, int]]) -> Element:
    """Return the frame in which the program draws: choices of weights and window, the drawing, what a point costs."""
    names = material.names
    options = [
        element("option", f"{names[first]} \N{MULTIPLICATION SIGN} {names[second]}", value=str(place))
        for place, (first, second) in enumerate(pairs)
    ]
    windows = [
        element(
            "label",
            element("input", type="radio", name="window", value=str(place), checked="checked" if place == 0 else None),
            f" {window.name}",
        )
        for place, window in enumerate(material.windows)
    ]
    fixed = "" if len(names) == 2 else " All other weights stay as they are."
    help_text = (
        "Point at the drawing, or focus it and use the arrow keys (with Shift for larger steps), to read the loss."
    )
    return element(
        "section",
        element("h2", "Error surface"),
        element("p", f"The loss over two weights, around the {material.title}.{fixed} {help_text}"),
        element(
            "form",
            element("label", "Weights ", element("select", *options, id="pair")),
            element("fieldset", element("legend", "Window"), *windows),
            class_="controls",
            id="controls",
        ),
        element(
            "figure",
            element(
                "div",
                element("canvas", id="surface", tabindex="0", role="img", aria_describedby="reading"),
                element("svg", id="overlay", aria_hidden="true"),
                class_="plot",
                id="plot",
            ),
            element("div", id="scale", class_="scale"),
            element("output", "", id="reading", for_="surface", aria_live="polite"),
            element("figcaption", "", id="caption"),
            element("ul", id="key", class_="key"),
        ),
        element("noscript", element("p", "The surface is drawn by a program in this page, which does not run here.")),
        id="surface-part",
    )
