"""Drawing that several figures share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_MOST_TICKS = 12
_APART = 1.4  # on a logarithmic axis, labels of points closer than this factor would overlap

Points = Sequence[tuple[float, float]]


def one_for_each(axes: Axes, lines: Mapping[str, Points], *, logarithmic: str = "xy", ordered: bool = True) -> None:
    """Draw a line with markers for each series of points that has any.

    logarithmic: the axes that are logarithmic; if the points along a logarithmic x are few, they are its ticks.
    ordered: whether the series follow each other by size, so that their colours do.
    """
    import matplotlib.ticker

    shown = {label: points for label, points in lines.items() if points}
    colours = matplotlib.colormaps["viridis"]
    for place, (label, points) in enumerate(shown.items()):
        colour = colours(0.9 * place / max(1, len(shown) - 1)) if ordered else f"C{place}"
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3.5, linewidth=1.3, color=colour, label=label)
    if "x" in logarithmic:
        axes.set_xscale("log")
        places = sorted({x for points in shown.values() for x, _ in points})
        if 0 < len(places) <= _MOST_TICKS and min(places) >= 1:
            ticks = [x for k, x in enumerate(places) if k == 0 or x >= _APART * places[k - 1]]
            axes.set_xticks(ticks, [f"{x:g}" for x in ticks], fontsize=8)
            axes.set_xticks([], minor=True)
    else:
        axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    if "y" in logarithmic:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)


def panels(
    canvas: Canvas, titles: Sequence[str], x: str, y: str, size: float, *, legends: int | None = None, **shared: Any
) -> Iterator[Axes]:
    """Yield axes side by side to draw on, and then give them titles, labels, a grid and a legend.

    legends: the number of the axes that have a legend, `None` for all; shared: which axes share their scale.
    """
    found = canvas.subplots(1, len(titles), **shared)
    found[0].set_ylabel(y)
    for number, (axes, title) in enumerate(zip(found, titles, strict=True)):
        yield axes
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(x)
        axes.grid(alpha=0.3)
        if legends in (None, number):
            legend(axes, size)


def bars(axes: Axes, groups: Mapping[str, Mapping[str, Sequence[Row]]], value: Callable[[Row], float]) -> None:
    """Draw a horizontal bar for each row, on a logarithmic axis; pale if a limit ended the run.

    groups: rows by group and variant. Each variant has a place on the axis, and each group a colour.
    """
    height = 0.8 / len(groups)
    for place, (group, variants) in enumerate(groups.items()):
        for level, rows in enumerate(variants.values()):
            for row in rows:
                axes.barh(
                    level + (place - (len(groups) - 1) / 2) * height,
                    value(row),
                    height,
                    color=f"C{place}",
                    alpha=0.4 if row.cut_short else 1.0,
                    label=group if level == 0 else None,
                )
    names = list(next(iter(groups.values())))
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)


def legend(axes: Axes, size: float, *, below: bool = False) -> None:
    """Draw the legend, in the axes or below them, if anything has a label."""
    if not axes.get_legend_handles_labels()[0]:
        return
    if below:
        axes.legend(fontsize=size, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    else:
        axes.legend(fontsize=size)
