"""What several figures draw in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = Sequence[tuple[float, float]]


def one_for_each(axes: Axes, lines: Mapping[str, Points], *, logarithmic: str = "xy") -> None:
    """Draw a line with markers for each series of points that has any; logarithmic: which axes are."""
    import matplotlib

    shown = {label: points for label, points in lines.items() if points}
    colours = matplotlib.colormaps["viridis"]
    for place, (label, points) in enumerate(shown.items()):
        colour = colours(0.9 * place / max(1, len(shown) - 1))
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3.5, linewidth=1.3, color=colour, label=label)
    if "x" in logarithmic:
        axes.set_xscale("log")
    if "y" in logarithmic:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)


def legend(axes: Axes, size: float) -> None:
    """Draw the legend if there is anything to name."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=size)
