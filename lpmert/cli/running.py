"""How a command runs: its streams, log and progress, the delivery of its outcome, and its exit code."""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any, TextIO

import click

import lpmert
from lpmert.cli.options import option
from lpmert.limits import Interrupts, undone_by_abort
from lpmert.quoting import LONGEST_MESSAGE, LOSS, WARNINGS, Unit, duration, percent, shortened, visible

if TYPE_CHECKING:
    from rich.text import Text as RichText

    from lpmert.errors import FloatArray
    from lpmert.model.lattice_problem import LatticeProblem
    from lpmert.result import Callback

UNLIMITED = 1_000_000  # width of streams that are not terminals


def open_streams() -> None:
    """Replace standard streams that were closed when the process started.

    Reading or writing data through them fails, as in other programs; the log is discarded. Otherwise the files that are
    opened first would take their descriptors, and get the output of those streams.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            # takes the lowest free descriptor, which is `number`
            os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_WRONLY)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def width_of(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or UNLIMITED if stream.isatty() else UNLIMITED
    except (OSError, ValueError, AttributeError):
        return shutil.get_terminal_size().columns


def wrapped(text: str, stream: TextIO) -> str:
    wrapper = TextWrapper(width_of(stream), break_long_words=False, break_on_hyphens=False)
    return "\n".join(line if len(line) <= wrapper.width else wrapper.fill(line) for line in text.split("\n"))


def put(text: str) -> None:
    """Write a text and a newline to stdout; if that fails, write it to stderr and raise `OSError`.

    Afterwards stdout discards everything.
    """
    try:
        click.echo(text)
    except OSError as error:
        silence(sys.stdout)
        if not isinstance(error, BrokenPipeError):  # which means that nobody reads it
            say(click.unstyle(text), most=None)
        raise OSError(error.errno, error.strerror, "standard output") from error


def say(text: str, *, most: int | None = LONGEST_MESSAGE) -> None:
    """Write a line of the log to stderr if that works; a line of more than `most` characters loses its middle."""
    # not click.echo, which keeps the first stream it sees: the live view replaces sys.stderr
    try:
        sys.stderr.write(f"{text if most is None else wrapped(shortened(text, most), sys.stderr)}\n")
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Discard the buffer of a broken stream: Python would try to write it at exit, and complain."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


Text = Callable[[], str]

Deliver = Callable[..., None]
"""Prints or writes an outcome, given functions that return it as JSON and as a report.

The third argument is the outcome in a line, for the log where no report is shown; above a report it is an empty line.
The fourth one, for `WeightsOutput`, returns the weights as text.
"""


@dataclass(frozen=True)
class Quiet:
    quiet: bool = option("-q --quiet", "Log only errors and warnings of results.", default=False)
    verbose: int = 0

    def say(self, text: str) -> None:
        if not self.quiet:
            say(text)


@dataclass(frozen=True)
class Output(Quiet):
    output: str | None = option("-o --output FILE", "Write JSON to FILE; print no report.")
    as_json: bool = option("--json", "Print JSON instead of the report.", default=False)
    verbose: int = option(
        "-v --verbose", "Log more; -vv logs everything.", default=0, count=True, show_default=False, rare=True
    )

    @contextmanager
    def opened(self, *others: str | None, renews: Sequence[str | None] = ()) -> Iterator[Deliver]:
        """Open the output file before the search, so that an unwritable path fails at once; log to stderr.

        The block must not read the output file or one of the `others` that will be written, except those in `renews`.
        The outcome goes to the output file or to stdout; if that fails, to stdout or stderr before `DataError` or
        `OSError` is raised. An existing file is replaced only when an outcome is delivered.
        """
        from lpmert.files import atomic_writer, check_place, writing_later

        protected = (None if one in renews else one for one in (self.output, *others))
        with _logging_to_stderr(self), writing_later(*protected), ExitStack() as stack:
            for other in others:
                if other is not None:
                    check_place(other)
            file = None if self.output is None else stack.enter_context(atomic_writer(self.output))

            def deliver(json: Text, report: Text, told: str = "", weights: Text | None = None) -> None:
                del weights
                if told:
                    self.say(told if file or self.as_json else "")
                text = json() if file or self.as_json else report()
                if file is None:
                    put(text)
                    return
                try:
                    with stack.pop_all():
                        file.write(text + "\n")
                except lpmert.DataError as error:
                    try:
                        put(text)
                    except OSError as second:
                        why = f"{error.reason}; {second.filename}: {second.strerror}"
                        raise lpmert.DataError(why, path=error.path) from second
                    why = f"{error.reason}; the outcome is on standard output"
                    raise lpmert.DataError(why, path=error.path) from error

            yield deliver


JSON, NUMBERS, NAMES, UPDATE = "json", "numbers", "names", "update"
FORMS = (NAMES, NUMBERS, JSON, UPDATE, "kaldi", "icefall", "espnet")
_OF_ENDING = {".ini": UPDATE, ".txt": NUMBERS, ".json": JSON}
_BY_ENDING = ", ".join(f"{form} for {ending}" for ending, form in _OF_ENDING.items())


@dataclass(frozen=True)
class WeightsOutput(Output):
    """The output of an outcome and of its weights: to a file beside it, or to stdout instead of the report."""

    weights_out: str | None = option("FILE", "Write the weights to FILE, for a decoder.")
    write: str | None = option(
        "FORM", f"Form of the weights: {', '.join(FORMS)}; on stdout without --weights-out.  [default: {_BY_ENDING}, "
        f"else {NAMES}]", click.Choice(FORMS), rare=True
    )  # fmt: skip
    roles: dict[str, str] | None = option(
        "ROLE=FEATURE,...", "Roles of features in the toolkit of --write, such as acoustic=am.", rare=True
    )

    def __post_init__(self) -> None:
        if self.form == UPDATE and self.weights_out is None:
            raise click.UsageError("--write update needs --weights-out with the file to update.")
        if self.updated is not None and not Path(self.updated).exists():
            remedy = "copy the decoder's file there, or pass --write names."
            raise click.UsageError(f"{self.updated} does not exist, and `update` only changes files: {remedy}")
        if self.to_stdout and self.as_json and self.output is None:
            raise click.UsageError("--json and --write need one of --output and --weights-out: both go to stdout.")

    @property
    def form(self) -> str:
        return self.write or _OF_ENDING.get(Path(self.weights_out or "").suffix, NAMES)

    @property
    def to_stdout(self) -> bool:
        return self.write is not None and self.weights_out is None

    @property
    def updated(self) -> str | None:
        return self.weights_out if self.form == UPDATE else None

    @contextmanager
    def opened(self, *others: str | None, renews: Sequence[str | None] = ()) -> Iterator[Deliver]:
        from lpmert.files import write_text

        with super().opened(self.weights_out, *others, renews=[self.updated, *renews]) as deliver:

            def deliver_both(json: Text, report: Text, told: str, weights: Text) -> None:
                if not self.to_stdout:
                    deliver(json, report, told)
                    if self.weights_out is not None:
                        write_text(self.weights_out, weights())
                    return
                self.say(told)
                deliver(json, lambda: weights().removesuffix("\n"))
                if self.output is not None:
                    put(weights().removesuffix("\n"))

            yield deliver_both

    def check(self, names: Sequence[str]) -> None:
        """Raise an error if weights of these features cannot be written in this form, before a long search."""
        import numpy as np

        from lpmert.formats.weights import TOOLKITS

        if self.roles and self.form not in TOOLKITS:
            raise click.UsageError("--roles is for the settings of toolkits, such as --write kaldi.")
        self.text(names, np.ones(len(names)), None)

    def text(self, names: Sequence[str], weights: FloatArray, problem: lpmert.Problem | LatticeProblem | None) -> str:
        """Return weights [D] as text.

        JSON has all digits. Other forms have six decimals, or more if six would change the loss of the problem (without
        a problem: the weights, up to their scale where the form sets it).
        """
        import numpy as np

        from lpmert.formats import weights as forms

        def same(written: FloatArray) -> bool:
            if self.form in (NAMES, NUMBERS):
                return np.array_equal(written, weights)
            found, own = (one / np.abs(one).sum() for one in (written, weights))
            return np.allclose(found, own, rtol=1e-14, atol=0.0)

        keeps = same if problem is None else forms.keeps_loss(problem, weights)
        if self.form == JSON:
            return json.dumps(dict(zip(names, weights.tolist(), strict=True)), indent=2) + "\n"
        if self.form in forms.TOOLKITS:
            return forms.settings_text(self.form, names, weights, keeps, self.roles or {})
        like = forms.WeightsFile.of_lines(names) if self.form == NAMES else None
        if self.updated is not None:
            like = forms.read_weights(self.updated)
        scaled = self.form == UPDATE
        return forms.weights_text(names, weights, keeps, like=like, scaled=scaled, path=self.weights_out)[0]


class ExitCode(IntEnum):
    FINISHED = 0
    FAILED = 1
    WRONG_USAGE = 2  # click's code
    STOPPED = 3
    REFUSED = 5
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143


def exit_code(status: lpmert.Status | None, stop: Interrupts, complete: bool = True) -> ExitCode:
    """Return the exit code of a run; a signal counts even if it came too late to stop anything.

    status: that of the search, `None` if there was none. complete: whether a run of many searches finished all of them.
    """
    if stop.pressed or status is lpmert.Status.INTERRUPTED:
        return ExitCode(128 + stop.number)
    return ExitCode.FINISHED if complete and (status is None or status.finished) else ExitCode.STOPPED


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Let signals end the work in the block; where nothing was found by then, exit with the code of the signal."""
    with Interrupts() as stop:
        try:
            yield stop
        except (lpmert.LimitError, lpmert.DecoderError) as error:  # the signal may have ended the decoder, too
            if not stop.pressed:
                raise
            say(f"lpmert: {error}")
            raise click.exceptions.Exit(exit_code(None, stop)) from error


@contextmanager
def naming(data: str) -> Iterator[None]:
    """Add the name of the data to errors that do not name a file."""
    try:
        yield
    except lpmert.DataError as error:
        if error.path is not None:
            raise
        raise lpmert.DataError(str(error), path=data) from error
    except lpmert.MetricError as error:
        raise lpmert.MetricError(f"{data}: {error}") from error


@contextmanager
def _logging_to_stderr(out: Quiet) -> Iterator[None]:
    level = [logging.WARNING, logging.INFO, logging.DEBUG][min(out.verbose, 2)]
    package_logger, handler = logging.getLogger("lpmert"), logging.Handler()
    handler.emit = lambda record: say(handler.format(record))  # type: ignore[method-assign]
    package_logger.addHandler(handler)
    package_logger.setLevel(logging.ERROR if out.quiet else level)
    logging.getLogger(WARNINGS).setLevel(logging.WARNING)  # --quiet does not hide warnings about results
    try:
        yield
    finally:
        package_logger.removeHandler(handler)
        package_logger.setLevel(logging.NOTSET)


# Progress

LINE_SECONDS = 1.0  # minimum time between two lines about a search or a stage
HEADER_LINES = 20  # after which the header is repeated
_WIDTH = 12  # of the columns of bounds and losses
HOW_TO_STOP = "Ctrl-C stops and keeps the best"
BAR_WIDTH = 40  # width of the bar, if the terminal is wide enough


def _short(count: int) -> str:
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
def progress_shown(time_limit: float | None, unit: Unit = LOSS) -> Iterator[Callback]:
    """Give the block a callback of a search that shows its progress: live on terminals, where they can, or a table."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield ProgressLog(time_limit, unit)
        return
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


def picture(
    progress: lpmert.Progress, first: lpmert.Progress, time_limit: float | None, columns: int, unit: Unit = LOSS
) -> RichText:
    """Return the live view of a search, four lines of at most `columns`; first: the first report with a bound.

    A bar between bound and loss shows the share of the first gap that is closed.
    """
    from rich.text import Text

    least, best, gap = _figures(progress, unit)
    bar: list[Any] = [f"{visible(unit.name)} ", (best, "yellow"), "  no bound"]
    if progress.lower_bound is not None and first.lower_bound is not None:
        reach, rest = first.loss - first.lower_bound, progress.loss - progress.lower_bound
        width = max(0, min(BAR_WIDTH, columns - len(f"{least}  {best}  gap {gap}")))
        left = math.ceil(width * (rest / reach if 0.0 < rest < reach else float(rest > 0.0)))
        ends = ("━" * (width - left), "green"), ("─" * left, "dim")
        bar = [(least, "green"), " ", *ends, " ", (best, "yellow"), f"  gap {gap}"]
    clock = duration(progress.seconds) + (f" of {duration(time_limit)}" if time_limit else "")
    counts = f"{_short(progress.nodes)} nodes  {_short(progress.open_nodes)} open"
    counts += f"  {_short(progress.lps)} LPs" if progress.lps else ""
    lines: list[Any] = [(clock, "cyan"), f"  {progress.phase}\n", *bar, f"\n{counts}\n", (HOW_TO_STOP, "dim")]
    return Text.assemble(*lines, no_wrap=True, overflow="ellipsis")


class Stages:
    """Callback that logs how far a stage is, at most once a second, unless the command is quiet."""

    def __init__(self, out: Quiet) -> None:
        self._out, self._last_line = out, time.perf_counter()

    def __call__(self, stage: str, done: int, parts: int | None) -> None:
        now = time.perf_counter()
        if now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self._out.say(f"{stage}: {done:,}" + ("" if parts is None else f" of {parts:,}"))
