"""The live view of a search: how its bound and its incumbent close in on each other, on a terminal."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING

from lpmert.cli.figures import duration, percent, short, short_count
from lpmert.system.interrupts import undone_by_abort

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from lpmert.result import Progress

SHOW_CURSOR = b"\n\033[?25h"
BAR_WIDTH = 40
"""Columns of the bar, where the terminal has so many to spare."""
_LEAST_BAR = 8
HOW_TO_STOP = "Ctrl-C stops and keeps the best"


class LiveView:
    """A few lines at the bottom of the terminal, gone at the end: phase, bound and incumbent, counts, how to stop."""

    def __init__(self, time_limit: float | None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._time_limit = time_limit
        self._first: Progress | None = None
        self._closing = ExitStack()
        # no refresh thread: it would only wait for compiled code that holds the interpreter
        self._live: Live | None = Live(console=Console(stderr=True), auto_refresh=False, transient=True)

    def __enter__(self) -> LiveView:
        """Begin, with what comes before the first report of a search."""
        self._closing.enter_context(undone_by_abort(lambda: os.write(2, SHOW_CURSOR)))
        if self._live is not None:
            self._live.start()
        from rich.text import Text

        self._update(Text("first weights", style="cyan", no_wrap=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Take the view away."""
        self._stop()
        self._closing.close()

    def show(self, progress: Progress) -> None:
        """Show where the search stands."""
        if self._first is None or (self._first.lower_bound is None and progress.lower_bound is not None):
            self._first = progress
        if self._live is not None:
            columns = self._live.console.width
            self._update(picture(progress, self._first, self._time_limit, columns))

    def _stop(self) -> None:
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()
            self._live = None

    def _update(self, picture: RenderableType) -> None:
        if self._live is not None:
            try:
                self._live.update(picture, refresh=True)
            except OSError:  # the terminal is gone
                self._stop()


def picture(progress: Progress, first: Progress, time_limit: float | None, columns: int) -> RenderableType:
    """Return where a search stands in a few lines of at most so many columns; first: its first report with a bound."""
    from rich.console import Group
    from rich.text import Text

    clock = duration(progress.seconds) + (f" of {duration(time_limit)}" if time_limit else "")
    counts = [f"{short_count(progress.nodes)} nodes", f"{short_count(progress.open_nodes)} open"]
    if progress.lps:
        counts.append(f"{short_count(progress.lps)} LPs")
    lines = [
        Text.assemble((clock, "cyan"), "  ", progress.phase),
        _closing_in(progress, first, columns),
        Text("  ".join(counts)),
        Text(HOW_TO_STOP, style="dim"),
    ]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def _closing_in(progress: Progress, first: Progress, columns: int) -> Text:
    """Return the bar from the first bound to the first incumbent; what neither has passed is still open."""
    from rich.text import Text

    loss, bound = progress.loss, progress.lower_bound
    if bound is None or first.lower_bound is None:
        return Text.assemble("loss ", (short(loss), "yellow"), "  no bound")
    gap = f"  gap {percent(progress.gap_rel)}"
    width = min(BAR_WIDTH, columns - len(short(bound)) - len(short(loss)) - len(gap) - 2)
    text = Text(short(bound), "green").append(" ")
    if width >= _LEAST_BAR:
        reach = first.loss - first.lower_bound
        closed = loss <= bound or reach <= 0.0
        right = 0 if reach <= 0.0 else int(width * min(1.0, max(0.0, (first.loss - loss) / reach)))
        left = width - right if closed else int(width * min(1.0, max(0.0, (bound - first.lower_bound) / reach)))
        text.append("━" * left, "green").append("─" * (width - left - right), "dim").append("━" * right, "yellow")
        text.append(" ")
    return text.append(short(loss), "yellow").append(gap, "default")
