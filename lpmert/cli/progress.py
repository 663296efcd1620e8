"""The progress of a search on stderr."""

from __future__ import annotations

import math
import os
import sys
import time
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING

from lpmert.cli.console import say
from lpmert.cli.figures import duration, percent
from lpmert.cli.text_tables import width_of
from lpmert.system.compilation import compilation
from lpmert.system.interrupts import undone_by_abort

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from lpmert.result import Progress

LINE_SECONDS = 1.0
"""Least time between two lines of the progress table."""
INCUMBENT_SECONDS = 0.2
"""The same where there is a new incumbent to show."""
LINE_SHARE = 0.01
"""A search that has run for long prints a line each time this share of its time has passed again."""
COMPILING_SECONDS = 10.0
"""Least time between two lines about the compilation of kernels."""
HEADER_LINES = 20
SHOW_CURSOR = b"\n\033[?25h"
HEADER = "Src    Nodes     Open |  LowerBound    Incumbent     Gap |       LPs    Time"
NARROW_HEADER = "  LowerBound  Incumbent     Gap    Time"
"""For terminals with fewer columns than `HEADER` has."""


def progress_line(progress: Progress, source: str, *, narrow: bool = False) -> str:
    """Return one line of the progress table, aligned with `HEADER`, or with `NARROW_HEADER`."""
    if narrow:
        return (
            f"{source:1} {_short(progress.lower_bound):>10} {_short(progress.loss):>10} "
            f"{percent(progress.gap_rel):>7} {duration(progress.seconds):>7}"
        )
    return (
        f" {source:1} {_short_count(progress.nodes):>9} {_short_count(progress.open_nodes):>8} "
        f"| {_short(progress.lower_bound):>11} {_short(progress.loss):>12} {percent(progress.gap_rel):>7} "
        f"| {_short_count(progress.lps):>9} {duration(progress.seconds):>7}"
    )


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.7g}"


def _short_count(value: int) -> str:
    return str(value) if value < 10_000_000 else f"{value / 1e6:.1f}M"


class ProgressLog:
    """Callback of a search that writes the progress table to stderr; a context manager, so that it can tidy up.

    A line at most every second, or 0.2 seconds after the last where there is a new incumbent; a header every 20 lines.
    On a terminal a live line below the table shows the time, the gap and how to stop. While kernels are compiled, it
    says how far that is; elsewhere a line does every ten seconds.
    """

    def __init__(self, *, time_limit: float | None = None, live: bool | None = None) -> None:
        self._time_limit = time_limit
        self._live = _live_display() if (sys.stderr.isatty() if live is None else live) else None
        self._closing = ExitStack()
        self._lines = 0
        self._last_line = -math.inf
        self._next_line = LINE_SECONDS
        self._source = ""
        self._unprinted: Progress | None = None
        self._next_compiling = time.monotonic() + COMPILING_SECONDS

    def __enter__(self) -> ProgressLog:
        """Start the live line, on a terminal."""
        if self._live is not None:
            self._closing.enter_context(undone_by_abort(lambda: os.write(2, SHOW_CURSOR)))
            self._live.start()
        self._closing.enter_context(compilation().watched(self._compiling))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close a table that was begun with its last line, and take the live line away."""
        try:
            if self._unprinted is not None and self._lines:
                self._print(self._unprinted)
        finally:
            self._stop_live()
            self._closing.close()

    def _stop_live(self) -> None:
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()
            self._live = None

    def __call__(self, progress: Progress) -> None:
        """Take one report of the search."""
        self._source = progress.source or self._source
        self._unprinted = progress
        new_incumbent = self._source and progress.seconds - self._last_line >= INCUMBENT_SECONDS
        if new_incumbent or progress.seconds >= self._next_line:
            self._print(progress)
        if self._live is not None:
            self._show(_live_line(progress, self._time_limit))

    def _compiling(self, compiled: int, needed: int) -> None:
        """Tell how far the compilation of kernels is."""
        text = f"compiling kernels, once: {compiled} of {needed}"
        if self._live is not None:
            from rich.text import Text

            self._show(Text(text, style="cyan", no_wrap=True))
        elif time.monotonic() >= self._next_compiling:
            say(text)
            self._next_compiling = time.monotonic() + COMPILING_SECONDS

    def _show(self, line: RenderableType) -> None:
        if self._live is not None:
            try:
                self._live.update(line, refresh=True)
            except OSError:  # the terminal is gone
                self._stop_live()

    def _print(self, progress: Progress) -> None:
        narrow = width_of(sys.stderr) < len(HEADER)
        if self._lines % HEADER_LINES == 0:
            say(NARROW_HEADER if narrow else HEADER)
        say(progress_line(progress, self._source, narrow=narrow))
        self._lines += 1
        self._last_line = progress.seconds
        self._next_line = progress.seconds + max(LINE_SECONDS, LINE_SHARE * progress.seconds)
        self._source = ""
        self._unprinted = None


def _live_display() -> Live:
    from rich.console import Console
    from rich.live import Live

    # no refresh thread: it would only wait for compiled code that holds the interpreter
    return Live(console=Console(stderr=True), auto_refresh=False, transient=True)


def _live_line(progress: Progress, time_limit: float | None) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    clock = duration(progress.seconds) + (f" of {duration(time_limit)}" if time_limit else "")
    parts: list[RenderableType] = [Text(clock, style="cyan", no_wrap=True)]
    if progress.gap_rel is not None:
        parts.append(ProgressBar(total=1.0, completed=max(0.0, 1.0 - progress.gap_rel), width=16))
        parts.append(Text(f"gap {percent(progress.gap_rel)}", no_wrap=True))
    parts.append(Text("Ctrl-C stops and keeps the best", style="dim", no_wrap=True, overflow="ellipsis"))
    line = Table.grid(padding=(0, 2))
    line.add_row(*parts)
    return line
