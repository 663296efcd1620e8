"""What people see in a terminal: the progress of a search on stderr, and reports of results as aligned text."""

from __future__ import annotations

import logging
import math
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

import click

from lpmert.cli.text_tables import labelled, side_by_side, width_of, wrapped
from lpmert.cli.unseen import unseen_text
from lpmert.quoting import LONGEST_MESSAGE, SHOWN_DECIMALS, shortened
from lpmert.system.compilation import compilation
from lpmert.system.interrupts import undone_by_abort

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from lpmert.checked import Check
    from lpmert.model.evaluation import Evaluation
    from lpmert.result import Progress, Result

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

_LEAST_FIXED_POINT = 1e-6
"""A column with a smaller number than this (and not 0) is shown with exponents."""


def open_streams() -> None:
    """Give a process that was started with closed standard streams others in their place.

    Reading and writing data fails there, as it does for other programs; the log goes nowhere. Without them, the files
    that are opened first would take their places, and get what is meant for the streams.
    """
    for number, name, mode, way in (
        (0, "stdin", "r", os.O_WRONLY),
        (1, "stdout", "w", os.O_RDONLY),
        (2, "stderr", "w", os.O_WRONLY),
    ):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, way)  # takes the lowest number that is free
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def put(text: str) -> None:
    """Write a text and a line end to stdout; raises `OSError`, and stdout takes and loses all that follows."""
    try:
        click.echo(text)
    except OSError as error:
        silence(sys.stdout)
        raise OSError(error.errno, error.strerror, "standard output") from error


def say(text: str, *, most: int | None = LONGEST_MESSAGE) -> None:
    """Write one line of the log to stderr, without its middle if it is longer than `most`.

    A log that nobody takes is no reason to stop.
    """
    # not click.echo, which keeps the stream it saw first: the live line puts its own in the place of sys.stderr
    try:
        sys.stderr.write(f"{text if most is None else wrapped(shortened(text, most), sys.stderr)}\n")
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Let what a stream still holds go nowhere: Python tries to write it at its end, and complains."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class LogHandler(logging.Handler):
    """Writes log records to stderr as it is at that moment, above the live line if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        say(self.format(record))


def number(value: float | None) -> str:
    """Return a number with up to ten digits, whole ones in full; a dash where it is unknown."""
    if value is None:
        return "-"
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.10g}"


def percent(share: float | None) -> str:
    """Return a share in percent, at most seven characters wide; only an exact zero reads as zero."""
    if share is None:
        return "-"
    if share == 0:
        return "0%"
    if share < 0.0001:
        return "<0.01%"
    return f"{100 * share:.2f}%" if share < 9.995 else ">999%"


def duration(seconds: float) -> str:
    """Return seconds in at most seven characters up to a thousand hours."""
    if seconds < 1000:
        return f"{seconds:.1f}s"
    minutes = int(seconds // 60)
    return f"{minutes}m{int(seconds % 60):02}s" if minutes < 100 else f"{minutes // 60}h{minutes % 60:02}m"


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


@dataclass(frozen=True)
class Scale:
    """Show the weights also times the positive factor that brings the feature `name` to `value`."""

    name: str
    value: float


def result_report(result: Result, scale: Scale | None = None, paths: str = "") -> str:
    """Return a result as text: status, loss, bound, gap, ties, weights, time, counters; paths: how many there are."""
    figures = [*_loss_figures(result), ("lower bound", number(result.lower_bound)), ("gap", _gap(result))]
    figures.append(("on unseen", unseen_text(result)))
    table = [_feature_column(result), column("weight", result.weights.tolist()), *_more_columns(result, scale)]
    headline = _headline(result.message, good=result.status.proved and not result.warnings)
    return "\n\n".join(
        [headline, *warned(result), labelled(figures), side_by_side(table), labelled(_run_facts(result, scale, paths))]
    )


def summary(result: Result) -> str:
    """Return the outcome of a search in one line."""
    loss, bound = number(result.loss), number(result.lower_bound)
    return f"{result.message} (loss {loss}, lower bound {bound}, gap {_gap(result)})"


def check_report(check: Check, scale: Scale | None = None, paths: str = "") -> str:
    """Return what the checked weights lose against the optimum or its bounds, as text; paths as for `result_report`."""
    best = check.optimum
    figures = [*_loss_figures(check), ("optimum" if best.status.proved else "best found", number(best.loss))]
    if not best.status.proved:
        figures.append(("lower bound", number(best.lower_bound)))
    figures += [("excess", _excess(check)), ("search", best.message), ("on unseen", unseen_text(best))]
    given = column("these weights", (check.weights / (math.fsum(map(abs, check.weights.tolist())) or 1.0)).tolist())
    found = column("better weights" if check.excess > 0 else "weights found", best.weights.tolist())
    table = [_feature_column(best), given, found, *_more_columns(best, scale)]
    headline = _headline(
        _verdict(check),
        good=check.excess == 0 and best.status.proved and check.inside and not (check.wins_by_ties or best.warnings),
    )
    return "\n\n".join(
        [headline, *warned(best), labelled(figures), side_by_side(table), labelled(_run_facts(best, scale, paths))]
    )


def warning_lines(result: Result) -> list[str]:
    """Return a line for each warning of a result."""
    return [f"warning: {one.message}" for one in result.warnings]


def warned(result: Result) -> list[str]:
    """Return the warnings of a result as a part of a report, nothing if there are none."""
    lines = [click.style(wrapped(line, sys.stdout), fg="red", bold=True) for line in warning_lines(result)]
    return ["\n".join(lines)] if lines else []


def evaluation_report(found: Evaluation, names: Sequence[str], weights: Sequence[float]) -> str:
    """Return what given weights cost, as text; nothing was searched."""
    figures = [*_loss_figures(found), ("margin", number(found.margin))]
    table = [["feature", *names], column("weight", weights)]
    return "\n\n".join([labelled(figures), side_by_side(table)])


def _headline(text: str, *, good: bool) -> str:
    return click.style(wrapped(text, sys.stdout), fg="green" if good else "yellow", bold=True)


def _verdict(check: Check) -> str:
    best = check.optimum
    if not check.inside:
        more = "and there are better ones in it" if check.excess > 0 else "and no better ones in it are known"
        return f"these weights lie outside the region, {more}"
    if check.excess > 0:
        return "there are better weights"
    if check.wins_by_ties:
        return "below the optimum, but only by ties: no weights that decide every list get this loss"
    if best.status.proved:
        return "these weights are optimal: no weights give a lower loss"
    return "no better weights found, but it is not proved that there are none"


def _excess(check: Check) -> str:
    best = check.optimum
    least = f"{number(check.excess)}{_share(check.excess, best.loss)}"
    if best.lower_bound is None or best.lower_bound >= best.loss:
        return least
    most = max(check.excess, check.loss - best.lower_bound)
    return f"at least {least}, at most {number(most)}{_share(most, best.lower_bound)}"


def _share(part: float, whole: float) -> str:
    return f" ({100 * part / abs(whole):.2f}%)" if whole else ""


def _gap(result: Result) -> str:
    return "unknown" if result.gap_abs is None else f"{number(result.gap_abs)} ({percent(result.gap_rel)})"


def _loss_figures(of: Result | Check | Evaluation) -> list[tuple[str, str]]:
    figures = [("loss", number(of.loss))]
    if of.score != of.loss:
        figures.append(("score", number(of.score)))
    figures += [(name.replace("_", " "), f"{100 * share:.4g}%") for name, share in of.rates.items()]
    if of.tied_lists:
        lists = "1 list" if of.tied_lists == 1 else f"{of.tied_lists:,} lists"
        figures.append(
            ("ties", f"{lists}: loss {number(of.loss_best_ties)} at best, {number(of.loss_worst_ties)} at worst")
        )
    return figures


def _feature_column(result: Result) -> list[str]:
    return ["feature", *(f"{name} (free)" if name in result.free else name for name in result.names)]


def _more_columns(result: Result, scale: Scale | None) -> Iterable[list[str]]:
    if scale is not None and (scaled := _scaled(result, scale)) is not None:
        yield column(f"{scale.name} = {scale.value:g}", scaled)
    if result.cell is not None:
        yield column("may fall to", result.cell.ranges[:, 0].tolist())
        yield column("may rise to", result.cell.ranges[:, 1].tolist())


def _scaled(result: Result, scale: Scale) -> list[float] | None:
    try:
        scaled: list[float] = result.scaled_to(scale.name, scale.value).tolist()
    except ValueError:
        return None
    return scaled


def _run_facts(result: Result, scale: Scale | None, paths: str) -> list[tuple[str, str | Mapping[str, str]]]:
    facts: list[tuple[str, str | Mapping[str, str]]] = []
    if paths:
        facts.append(("paths", f"{paths}; {result.counters.get('survivors', 0):,} may win in a cone that was searched"))
    if scale is not None and _scaled(result, scale) is None:
        facts.append(("not scaled", f"no positive factor brings {scale.name} to {scale.value:g}"))
    facts.append(("inside by", {label: number(distance) for label, distance in result.region.items()}))
    if result.limiting:
        facts.append(("limited by", f"{', '.join(result.limiting)}: the best choices go on beyond"))
    if result.free:
        facts.append(("free", "whatever the weight of a free feature, the others can make up for it"))
    facts.append(("margin", number(result.margin)))
    facts.append(("method", f"{result.method}, seed {result.seed}"))
    facts.append(("signature", result.signature))
    facts.append(("seconds", {phase: f"{seconds:.3f}" for phase, seconds in result.seconds.items()}))
    facts.append(("work", {name.replace("_", " "): f"{count:,}" for name, count in result.counters.items()}))
    return facts


def column(heading: str, values: Sequence[float]) -> list[str]:
    """Return numbers with their decimal points below each other, under a heading."""
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    form = "f" if not sizes or min(sizes) >= _LEAST_FIXED_POINT else "e"
    return [heading, *(f"{value + 0.0:.{SHOWN_DECIMALS}{form}}" for value in values)]
