"""The part of the page about single weights: their values, and the loss along each."""

from __future__ import annotations

from collections.abc import Callable

from lpmert.markup.curves import Frame
from lpmert.markup.elements import Element, add, element
from lpmert.markup.figures import number
from lpmert.picturing.profile import Profile, profile
from lpmert.reporting.material import Material

_ROOM = 0.08
_WIDTH, _HEIGHT = 400.0, 230.0

Stage = Callable[[str, int, int], object]


def profiles_part(material: Material, on_stage: Stage | None = None) -> Element:
    """Return the loss along each weight that matters, far and near, with the interval in which it is least."""
    features = [feature for feature, spread in enumerate(material.lines.spread) if spread > 0.0]
    figures = []
    for done, feature in enumerate(features, 1):
        figures.append(_of_weight(material, feature))
        if on_stage is not None:
            on_stage("profiles", done, len(features))
    text = (
        "The loss as one weight moves and all others stay: exact, as it only changes where a list changes its choice. "
        "The band is the interval in which the loss stays what it is; the dot is the weight found."
    )
    return element(
        "section", element("h2", "Along each weight"), element("p", text), *figures, id="profiles", class_="profiles"
    )


def _of_weight(material: Material, feature: int) -> Element:
    widest, _, nearest = material.windows
    name = material.names[feature]
    drawn = [profile(material.lines, material.weights, feature, window, widest) for window in (widest, nearest)]
    low, high = drawn[0].best
    ends = f"from {_end(low)} to {_end(high)}"
    caption = element(
        "figcaption",
        element("strong", name),
        f" = {number(float(material.weights[feature]))}; the same loss {ends}",
        "" if drawn[0].whole else "; pieces too short to be seen are left out",
    )
    charts = [_drawing(one, name, ends) for one in drawn]
    return element("figure", caption, element("div", *charts, class_="pair"))


def _end(value: float | None) -> str:
    return "beyond the window" if value is None else number(value)


def _drawing(one: Profile, name: str, ends: str) -> Element:
    low, high = float(one.losses.min()), float(one.losses.max())
    room = _ROOM * (high - low) or max(1.0, abs(high)) * _ROOM
    first, last = float(one.ends[0]), float(one.ends[-1])
    frame = Frame.of((first, last), (low - room, high + room), _WIDTH, _HEIGHT)
    label = f"Loss from {number(low)} to {number(high)} while {name} goes from {first:.5g} to {last:.5g}; least {ends}."
    found = frame.drawing(label, name, "loss")
    begin, end = one.best
    add(
        found,
        frame.band(first if begin is None else begin, last if end is None else end, "band"),
        frame.steps(one.ends.tolist(), one.losses.tolist(), "curve loss"),
        frame.point(one.value, _at(one), "dot"),
    )
    return found


def _at(one: Profile) -> float:
    inside = [loss for loss, end in zip(one.losses.tolist(), one.ends[1:].tolist(), strict=True) if end > one.value]
    return float(inside[0])
