"""How the bound and the best loss of a search came together over time, as a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lpmert.markup.curves import Frame
from lpmert.markup.elements import Element, add
from lpmert.markup.figures import duration, number

_ROOM = 0.06
"""Above and below the curves, as a share of their height."""

_DECADES = 50.0
"""Times between the first and the last point from which on the time is shown by its logarithm."""


class Steps(NamedTuple):
    """A curve that has one value between each two of its ends."""

    ends: list[float]
    values: list[float]


class Course(NamedTuple):
    """The best loss and the bound over the seconds of a search; bound: `None` where there is none."""

    loss: Steps
    bound: Steps | None
    logarithmic: bool


def course(result: dict[str, Any]) -> Course | None:
    """Return how a search went, from its result as JSON has it; `None` where that was not recorded."""
    trace: Sequence[tuple[float, float | None, float]] = result["trace"]
    if not trace:
        return None
    seconds = [point[0] for point in trace]
    end = max(result["seconds"].get("total", seconds[-1]), seconds[-1])
    bounds = [(time, bound) for time, bound, _ in trace if bound is not None]
    bound = Steps([*(time for time, _ in bounds), end], [value for _, value in bounds]) if bounds else None
    logarithmic = seconds[0] > 0.0 and end > _DECADES * seconds[0]
    return Course(Steps([*seconds, end], [loss for _, _, loss in trace]), bound, logarithmic)


def progress(result: dict[str, Any]) -> Element | None:
    """Return the drawing; `None` where there is nothing to draw."""
    found = course(result)
    if found is None:
        return None
    curves = [found.loss, *([] if found.bound is None else [found.bound])]
    low, high = min(min(one.values) for one in curves), max(max(one.values) for one in curves)
    room = _ROOM * (high - low) or max(abs(high), 1.0) * _ROOM
    first, last = found.loss.ends[0], found.loss.ends[-1]
    start = first if found.logarithmic else 0.0
    ends = start, max(last, start + 1e-9)
    frame = Frame.of(ends, (low - room, high + room), logarithmic=found.logarithmic)
    bound = "no bound" if found.bound is None else f"the bound from {number(found.bound.values[0])} up to "
    bound += "" if found.bound is None else number(found.bound.values[-1])
    label = (
        f"Over {duration(last)} the best loss went from {number(found.loss.values[0])} down to "
        f"{number(found.loss.values[-1])}, {bound}."
    )
    drawing = frame.drawing(label, "seconds", "loss")
    if found.bound is not None:
        add(drawing, frame.steps(*found.bound, class_="curve bound"))
    add(drawing, frame.steps(*found.loss, class_="curve loss"))
    return drawing
