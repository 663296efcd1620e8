"""The progress of a search on stderr: a live view on terminals, a table elsewhere, and reports on single stages."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

import lpmert
from lpmert.cli.running import Quiet, say
from lpmert.limits import undone_by_abort
from lpmert.quoting import LOSS, Unit, duration, percent, visible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from lpmert.result import Callback


LINE_SECONDS = 1.0  # minimum time between two lines about a search or a stage
HEADER_LINES = 20  # after which the header is repeated
_WIDTH = 12  # of the columns of bounds and losses
HOW_TO_STOP = "Ctrl-C stops and keeps the best"
BAR_WIDTH = 40  # width of the bar, if the terminal is wide enough


def _short(count: int) -> str:
    """Return a count as text, from ten millions on in millions."""
    return str(count) if count < 10_000_000 else f"{count / 1e6:.1f}M"


def _figures(progress: lpmert.Progress, unit: Unit) -> tuple[str, str, str]:
    """Return the bound, the best loss and the gap: relative to the loss, or a difference if the unit has an offset."""
    bound, loss = progress.lower_bound, progress.loss
    if bound is None:
        return "-", unit.short(loss), "-"
    gap = percent(progress.gap_rel) if unit.offset == 0.0 else unit.difference(loss - bound).lstrip("-+")
    return unit.least(bound, loss), unit.short(loss), gap


def header(unit: Unit = LOSS) -> str:
    name = visible(unit.name)
    name = name if len(name) <= _WIDTH else "best"
    return f"src    nodes     open | {unit.bound:>{_WIDTH}} {name:>{_WIDTH}}     gap |       LPs    time"


def progress_line(progress: lpmert.Progress, source: str, unit: Unit = LOSS) -> str:
    """Return a line of the table; source: the letter of what found the best weights since the line before."""
    bound, loss, gap = _figures(progress, unit)
    return (
        f" {source:1} {_short(progress.nodes):>9} {_short(progress.open_nodes):>8} "
        f"| {bound:>{_WIDTH}} {loss:>{_WIDTH}} {gap:>7} | {_short(progress.lps):>9} {duration(progress.seconds):>7}"
    )


class ProgressLog:
    """Callback of a search that writes a table to stderr, a line each second or hundredth, and first how to stop it."""

    def __init__(self, time_limit: float | None = None, unit: Unit = LOSS) -> None:
        self._time_limit, self._unit = time_limit, unit
        self._lines, self._next_line, self._source = 0, LINE_SECONDS, ""

    def __call__(self, progress: lpmert.Progress) -> None:
        self._source = progress.source or self._source
        if progress.seconds < self._next_line:
            return
        if self._lines == 0 and self._time_limit is None:
            say(f"The search goes on until it has a proof; {HOW_TO_STOP} weights and the bound")
        if self._lines % HEADER_LINES == 0:
            say(header(self._unit))
        say(progress_line(progress, self._source, self._unit))
        self._lines += 1
        self._next_line = progress.seconds + max(LINE_SECONDS, 0.01 * progress.seconds)
        self._source = ""


@contextmanager
def live_view(time_limit: float | None = None, unit: Unit = LOSS) -> Iterator[Callback]:
    """Give the block a callback of a search that shows how bound and incumbent approach each other."""
    from rich.console import Console
    from rich.live import Live

    # no refresh thread: it would only wait for compiled code that holds the interpreter lock
    live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
    first: lpmert.Progress | None = None

    def stop() -> None:
        with suppress(OSError):
            live.stop()

    def show(progress: lpmert.Progress) -> None:
        nonlocal first
        if first is None or first.lower_bound is None:
            first = progress
        try:
            live.update(picture(progress, first, time_limit, live.console.width, unit), refresh=live.is_started)
        except OSError:  # the terminal is gone
            stop()

    show_cursor = b"\n\033[?25h"
    with undone_by_abort(lambda: os.write(2, show_cursor)):
        live.start()
        try:
            yield show
        finally:
            stop()


def shown(time_limit: float | None, unit: Unit = LOSS) -> AbstractContextManager[Callback]:
    """Return a context whose value is a callback that shows progress: live on terminals, where they can, or a table."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return live_view(time_limit, unit)
    return nullcontext(ProgressLog(time_limit, unit))


def picture(
    progress: lpmert.Progress, first: lpmert.Progress, time_limit: float | None, columns: int, unit: Unit = LOSS
) -> RenderableType:
    """Return the live view of a search, a few lines of at most `columns`; first: the first report with a bound."""
    from rich.console import Group
    from rich.text import Text

    clock = duration(progress.seconds) + (f" of {duration(time_limit)}" if time_limit else "")
    counts = {"nodes": progress.nodes, "open": progress.open_nodes} | ({"LPs": progress.lps} if progress.lps else {})
    lines = [
        Text.assemble((clock, "cyan"), "  ", progress.phase),
        _gap_bar(progress, first, columns, unit),
        Text("  ".join(f"{_short(count)} {name}" for name, count in counts.items())),
        Text(HOW_TO_STOP, style="dim"),
    ]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def _gap_bar(progress: lpmert.Progress, first: lpmert.Progress, columns: int, unit: Unit) -> Text:
    """Return bound, loss and gap, and a bar between them: the share of the first gap that is closed."""
    from rich.text import Text

    least, best, gap = _figures(progress, unit)
    if progress.lower_bound is None or first.lower_bound is None:
        return Text.assemble(f"{visible(unit.name)} ", (best, "yellow"), "  no bound")
    reach, rest = first.loss - first.lower_bound, progress.loss - progress.lower_bound
    width = max(0, min(BAR_WIDTH, columns - len(f"{least}  {best}  gap {gap}")))
    left = math.ceil(width * (rest / reach if 0.0 < rest < reach else float(rest > 0.0)))
    closed, still_open = ("━" * (width - left), "green"), ("─" * left, "dim")
    return Text.assemble((least, "green"), " ", closed, still_open, " ", (best, "yellow"), f"  gap {gap}")


class Stages:
    """Callback that logs how far a stage is, at most once a second, unless the command is quiet."""

    def __init__(self, out: Quiet) -> None:
        self._out, self._last_line = out, time.perf_counter()

    def __call__(self, stage: str, done: int, parts: int | None) -> None:
        """Report that `done` of so many parts are finished; parts: `None` if their number is unknown."""
        now = time.perf_counter()
        if now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self._out.say(f"{stage}: {done:,}" + ("" if parts is None else f" of {parts:,}"))
