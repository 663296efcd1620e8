"""The progress of a search on stderr."""

from __future__ import annotations

import math
import sys
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from lpmert.cli.console import say
from lpmert.cli.figures import duration, percent, short, short_count
from lpmert.cli.live import LiveView
from lpmert.cli.text_tables import width_of

if TYPE_CHECKING:
    from lpmert.result import Progress

LINE_SECONDS = 1.0
"""Least time between two lines of the progress table."""
INCUMBENT_SECONDS = 0.2
"""The same where there is a new incumbent to show."""
LINE_SHARE = 0.01
"""A search that has run for long prints a line each time this share of its time has passed again."""
HEADER_LINES = 20
HEADER = "Src    Nodes     Open |  LowerBound    Incumbent     Gap |       LPs    Time"
NARROW_HEADER = "  LowerBound  Incumbent     Gap    Time"
"""For terminals with fewer columns than `HEADER` has."""


def progress_line(progress: Progress, source: str, *, narrow: bool = False) -> str:
    """Return one line of the progress table, aligned with `HEADER`, or with `NARROW_HEADER`."""
    if narrow:
        return (
            f"{source:1} {short(progress.lower_bound):>10} {short(progress.loss):>10} "
            f"{percent(progress.gap_rel):>7} {duration(progress.seconds):>7}"
        )
    return (
        f" {source:1} {short_count(progress.nodes):>9} {short_count(progress.open_nodes):>8} "
        f"| {short(progress.lower_bound):>11} {short(progress.loss):>12} {percent(progress.gap_rel):>7} "
        f"| {short_count(progress.lps):>9} {duration(progress.seconds):>7}"
    )


class ProgressLog:
    """Callback of a search that writes the progress table to stderr; a context manager, so that it can tidy up.

    A line at most every second, or 0.2 seconds after the last where there is a new incumbent; a header every 20 lines.
    On a terminal a live view below the table shows how bound and incumbent close in, and how to stop.
    """

    def __init__(self, *, time_limit: float | None = None, live: bool | None = None) -> None:
        self._live = LiveView(time_limit) if (sys.stderr.isatty() if live is None else live) else None
        self._closing = ExitStack()
        self._lines = 0
        self._last_line = -math.inf
        self._next_line = LINE_SECONDS
        self._source = ""
        self._unprinted: Progress | None = None

    def __enter__(self) -> ProgressLog:
        """Start the live view, on a terminal."""
        if self._live is not None:
            self._closing.enter_context(self._live)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close a table that was begun with its last line, and take the live view away."""
        try:
            if self._unprinted is not None and self._lines:
                self._print(self._unprinted)
        finally:
            self._closing.close()

    def __call__(self, progress: Progress) -> None:
        """Take one report of the search."""
        self._source = progress.source or self._source
        self._unprinted = progress
        new_incumbent = self._source and progress.seconds - self._last_line >= INCUMBENT_SECONDS
        if new_incumbent or progress.seconds >= self._next_line:
            self._print(progress)
        if self._live is not None:
            self._live.show(progress)

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
