"""Step curves as SVG, which takes its colours from the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lpmert.markup.axes import Axis, tick_label
from lpmert.markup.elements import Element, add, element

_LEFT, _RIGHT, _TOP, _BOTTOM = 76.0, 14.0, 12.0, 44.0
"""Room around the drawing for the numbers at the axes."""


@dataclass(frozen=True)
class Frame:
    """A drawing with two axes; both sizes in pixels, with the room for the numbers."""

    width: float
    height: float
    x: Axis
    y: Axis

    @staticmethod
    def of(
        across: tuple[float, float],
        up: tuple[float, float],
        width: float = 440.0,
        height: float = 250.0,
        *,
        logarithmic: bool = False,
    ) -> Frame:
        """Return the drawing for numbers in these ranges; logarithmic: whether the horizontal axis is."""
        x = Axis(*across, _LEFT, width - _RIGHT, logarithmic)
        return Frame(width, height, x, Axis(*up, height - _BOTTOM, _TOP))

    def drawing(self, label: str, x_name: str, y_name: str) -> Element:
        """Return the axes, to which curves can be added; label says in words what is to be seen."""
        bottom, left = self.y.begin, self.x.begin
        size = {"viewBox": f"0 0 {self.width:g} {self.height:g}"}
        found = element("svg", element("title", label), role="img", aria_label=label, class_="chart", **size)
        for value in self.y.ticks(5):
            place = self.y.place(value)
            add(
                found,
                element("line", x1=left, x2=self.x.end, y1=place, y2=place, class_="grid"),
                element("text", tick_label(value), x=left - 8, y=place + 4, class_="tick end"),
            )
        for value in self.x.ticks(6):
            place = self.x.place(value)
            add(
                found,
                element("line", x1=place, x2=place, y1=bottom, y2=bottom + 5, class_="axis"),
                element("text", tick_label(value), x=place, y=bottom + 18, class_="tick middle"),
            )
        turn = f"rotate(-90 14 {(bottom + self.y.end) / 2:g})"
        add(
            found,
            element("line", x1=left, x2=self.x.end, y1=bottom, y2=bottom, class_="axis"),
            element("text", x_name, x=(left + self.x.end) / 2, y=self.height - 6, class_="name middle"),
            element("text", y_name, x=14, y=(bottom + self.y.end) / 2, transform=turn, class_="name middle"),
        )
        return found

    def steps(self, ends: Sequence[float], values: Sequence[float], class_: str) -> Element:
        """Return a curve that has one value between each two ends."""
        parts = [f"M{self.x.place(ends[0]):g} {self.y.place(values[0]):g}"]
        for end, value in zip(ends[1:], [*values[1:], None], strict=True):
            parts.append(f"H{self.x.place(end):g}")
            if value is not None:
                parts.append(f"V{self.y.place(value):g}")
        return element("path", d="".join(parts), class_=class_)

    def band(self, low: float, high: float, class_: str) -> Element:
        """Return a band over a part of the horizontal axis, at least a hair wide."""
        begin, end = self.x.place(low), self.x.place(high)
        return element("rect", x=begin, y=self.y.end, width=max(end - begin, 1.0), height=self.y.begin - self.y.end,
                       class_=class_)  # fmt: skip

    def point(self, x: float, y: float, class_: str) -> Element:
        """Return a dot."""
        return element("circle", cx=self.x.place(x), cy=self.y.place(y), r=5, class_=class_)
