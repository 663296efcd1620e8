"""A cross-validation as a picture: what methods cost here and on unseen lists, and their differences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lpmert.comparing.expected import CrossValidation, Expected
from lpmert.system.pictures import check_picture, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _ROW, _MARGIN = 10.0, 0.42, 1.5
"""Of the picture, of a method, and of all around them, in inches."""


def draw(found: CrossValidation, path: str | Path) -> None:
    """Write the picture of a cross-validation to a file; its ending says in which form.

    Raises `MethodError` without matplotlib, `DataError` for another ending or where the file cannot be written.
    """
    check_picture(path)
    write_picture(_figure(found), path)


def _figure(found: CrossValidation) -> Figure:
    from matplotlib.figure import Figure  # no window, no global state

    figure = Figure(figsize=(_WIDTH, _MARGIN + _ROW * len(found.entries)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    names = [entry.name for entry in found.entries]
    left.set_yticks(range(len(names)), names)
    left.invert_yaxis()
    for place, entry in enumerate(found.entries):
        _losses(left, place, entry)
        _difference(right, place, entry)
    left.set_xlabel("loss")
    left.legend(loc="upper center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, fontsize=8)
    left.set_ylim(len(names) - 0.4, -1.1)
    right.axvline(0.0, color="0.6", linewidth=1.0)
    right.set_xlabel(f"difference from {names[0]} on unseen lists")
    for axes in (left, right):
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    times = "once" if found.repetitions == 1 else f"{found.repetitions} times"
    figure.suptitle(f"{found.folds}-fold cross-validation, {times}; intervals of 95 %", fontsize=10)
    return figure


def _losses(axes: Axes, place: int, entry: Expected) -> None:
    """Draw the loss on the lists fitted to, and the one on unseen lists with its interval."""
    label = {"here": "on these lists", "there": "on unseen lists"} if place == 0 else {}
    loss = entry.loss
    axes.errorbar(
        loss.value, place, xerr=loss.half_width or 0.0, fmt="o", color="C0", capsize=3, label=label.get("there")
    )
    if entry.here is not None:
        axes.plot([entry.here, loss.value], [place, place], color="C1", linewidth=2.5, zorder=0)
        axes.plot(entry.here, place, "D", color="C1", markersize=5, label=label.get("here"))


def _difference(axes: Axes, place: int, entry: Expected) -> None:
    difference = entry.difference
    if difference is None:
        axes.plot(0.0, place, "o", color="0.6")
        return
    clear = entry.p_value is not None and entry.p_value < 0.05
    colour = "C0" if not clear else ("C2" if difference.value < 0 else "C3")
    axes.errorbar(difference.value, place, xerr=difference.half_width or 0.0, fmt="o", color=colour, capsize=3)
