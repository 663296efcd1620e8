"""The picture of a loop: what the decoder's outputs cost by iteration, and what the pool promised of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lpmert.looping.looped import Looped
from lpmert.system.pictures import check_picture, write_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INCHES = (7.0, 4.0)


def draw(looped: Looped, path: str | Path) -> None:
    """Write the picture of a loop to a file; its ending says in which form.

    Raises `MethodError` without matplotlib, `DataError` for another ending or where the file cannot be written.
    """
    check_picture(path)
    write_picture(_figure(looped), path)


def _figure(looped: Looped) -> Figure:
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import MaxNLocator

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
    axes.annotate(f"{best.loss:g}", (best.number, best.loss), xytext=(0, -20), textcoords="offset points", ha="center")
    axes.set_xlabel("iteration")
    axes.set_ylabel("loss")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return found
