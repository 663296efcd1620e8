"""How a command runs: its streams and log, the delivery of its outcome, and its exit code."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from textwrap import TextWrapper
from typing import TextIO

import click

import lpmert
from lpmert.cli.options import option
from lpmert.limits import Interrupts
from lpmert.quoting import LONGEST_MESSAGE, WARNINGS, shortened

UNLIMITED = 1_000_000  # width of streams that are not terminals

Text = Callable[[], str]


Deliver = Callable[..., None]
"""Prints or writes an outcome, given functions that return it as JSON and as a report.

The third argument is the outcome in a line, for the log where no report is shown; above a report it is an empty line.
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
    """Return the columns of a stream's terminal, or `UNLIMITED` if it is none."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or UNLIMITED if stream.isatty() else UNLIMITED
    except (OSError, ValueError, AttributeError):
        return shutil.get_terminal_size().columns


def wrapped(text: str, stream: TextIO) -> str:
    """Return a text with lines that are too long for the terminal broken between words."""
    wrapper = TextWrapper(width_of(stream), break_long_words=False, break_on_hyphens=False)
    return "\n".join(line if len(line) <= wrapper.width else wrapper.fill(line) for line in text.split("\n"))


def put(text: str) -> None:
    """Write a text and a newline to stdout; raises `OSError`, after which stdout discards everything."""
    try:
        click.echo(text)
    except OSError as error:
        silence(sys.stdout)
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


class ExitCode(IntEnum):
    """Exit codes of the process; on wrong usage, click itself exits with 2."""

    FINISHED = 0
    FAILED = 1
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
def delivering(out: Output, *others: str | None, renews: Sequence[str | None] = ()) -> Iterator[Deliver]:
    """Open the output file before the search, so that an unwritable path fails at once; log to stderr.

    The block must not read the output file or one of the `others` that will be written, except those in `renews`, which
    the command reads and then replaces.

    The outcome goes to the output file or to stdout. If that fails, it goes to stdout or stderr before the error is
    raised: `DataError` or `OSError`. An existing file is replaced only when an outcome is delivered.
    """
    from lpmert.files import atomic_writer, check_place, writing_later

    protected = (None if one in renews else one for one in (out.output, *others))
    with _logging_to_stderr(out), writing_later(*protected), ExitStack() as stack:
        for other in others:
            if other is not None:
                check_place(other)
        file = None if out.output is None else stack.enter_context(atomic_writer(out.output))

        def deliver(json: Text, report: Text, told: str = "") -> None:
            if told:
                out.say(told if file or out.as_json else "")
            text = json() if file or out.as_json else report()
            if file is None:
                _to_stdout(text)
                return
            try:
                with stack.pop_all():
                    file.write(text + "\n")
            except lpmert.DataError as error:
                try:
                    _to_stdout(text)
                except OSError as second:
                    raise lpmert.DataError(f"{error}; {second.filename}: {second.strerror}") from second
                raise lpmert.DataError(f"{error}; the outcome is on standard output") from error

        yield deliver


def _to_stdout(text: str) -> None:
    try:
        put(text)
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # which means that nobody reads it
            say(click.unstyle(text), most=None)
        raise


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
