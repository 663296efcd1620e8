"""What several figures draw in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_TICKS = 12
_APART = 1.4
"""Points of a logarithmic axis closer than this factor would have labels on top of each other."""

Points = Sequence[tuple[float, float]]


def one_for_each(axes: Axes, lines: Mapping[str, Points], *, logarithmic: str = "xy", ordered: bool = True) -> None:
    """Draw a line with markers for each series of points that has any.

    logarithmic: which axes are; their ticks along x are the points themselves, where these are few and far
    enough apart. ordered: the series
    follow each other by size, and so do their colours.
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


def legend(axes: Axes, size: float, *, below: bool = False) -> None:
    """Draw the legend, in the axes or below them, if there is anything to name."""
    if not axes.get_legend_handles_labels()[0]:
        return
    if below:
        axes.legend(fontsize=size, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    else:
        axes.legend(fontsize=size)
