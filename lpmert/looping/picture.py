"""The picture of a loop: what the decoder's outputs cost by iteration, and what the pool promised of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lpmert.errors import DataError
from lpmert.looping.looped import Looped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INCHES = (7.0, 4.0)
_DPI = 150


def figure(looped: Looped) -> Figure:
    """Return the picture; raises `DataError` without matplotlib."""
    try:
        from matplotlib.figure import Figure as Canvas
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise DataError("a picture needs matplotlib; install lpmert[plots]") from error
    found = Canvas(figsize=_INCHES, layout="constrained")
    axes: Any = found.add_subplot()
    numbers = [one.number for one in looped.iterations]
    axes.plot(numbers, [one.loss for one in looped.iterations], "o-", color="C0", label="decoder")
    held_out = [(one.number, one.held_out_loss) for one in looped.iterations if one.held_out_loss is not None]
    if held_out:
        axes.plot(*zip(*held_out, strict=True), "s-", color="C1", label="decoder, held-out inputs")
    stepped = [one for one in looped.iterations[:-1] if one.pool_loss is not None]
    promised = [(one.number + 1, one.pool_loss) for one in stepped]
    if promised:
        axes.plot(*zip(*promised, strict=True), "v:", color="0.5", label="promised by the pool of the iteration before")
    best = looped.iterations[looped.best - 1]
    axes.plot([best.number], [best.loss], "o", markersize=12, fillstyle="none", color="C0")
    axes.annotate(f"{best.loss:g}", (best.number, best.loss), xytext=(0, 9), textcoords="offset points", ha="center")
    axes.set_xlabel("iteration")
    axes.set_ylabel("loss")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return found


def draw(looped: Looped, path: str | Path) -> None:
    """Draw the picture into a PNG, SVG or PDF file, by its ending; raises `DataError` where that fails."""
    try:
        figure(looped).savefig(path, dpi=_DPI)
    except (OSError, ValueError) as error:
        raise DataError(str(error), path=path) from error
