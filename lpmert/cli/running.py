"""How a command runs: its streams and log, where its outcome goes, and where else if it cannot, and its exit code."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from textwrap import fill
from typing import TextIO

import click

import lpmert
from lpmert.cli.options import option
from lpmert.quoting import LONGEST_MESSAGE, WARNINGS, shortened
from lpmert.system.interrupts import Interrupts

UNLIMITED = 1_000_000
"""Columns of what is no terminal."""

Deliver = Callable[[Callable[[], str], Callable[[], str]], None]
"""Takes functions that return the outcome as JSON and as a report."""


@dataclass(frozen=True)
class Quiet:
    """How much a command says besides its outcome."""

    quiet: bool = option("-q --quiet", "No progress and no log on stderr.", default=False)
    verbose: int = 0

    def say(self, text: str) -> None:
        if not self.quiet:
            say(text)


@dataclass(frozen=True)
class ToFile(Quiet):
    """The outcome of a command that has one form."""

    output: str | None = option("-o --output FILE", "Write JSON to FILE; print no report.")
    as_json: bool = True


@dataclass(frozen=True)
class Short(ToFile):
    """The outcome of a command that searches nothing."""

    as_json: bool = option("--json", "Print JSON instead of the report.", default=False)


@dataclass(frozen=True)
class Output(Short):
    """The outcome of a command that searches."""

    verbose: int = option(
        "-v --verbose", "Say more; twice for everything.", default=0, count=True, show_default=False, rare=True
    )


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


def width_of(stream: TextIO) -> int:
    """Return the columns of the terminal that a stream is, a very large number for anything else."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or UNLIMITED if stream.isatty() else UNLIMITED
    except (OSError, ValueError, AttributeError):
        return shutil.get_terminal_size().columns


def wrapped(text: str, stream: TextIO) -> str:
    """Return a text with its lines broken between words where a terminal would break them anywhere."""
    width = width_of(stream)
    return "\n".join(
        line if len(line) <= width else fill(line, width, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )


def put(text: str) -> None:
    """Write a text and a line end to stdout; raises `OSError`, and stdout takes and loses all that follows."""
    try:
        click.echo(text)
    except OSError as error:
        silence(sys.stdout)
        raise OSError(error.errno, error.strerror, "standard output") from error


def say(text: str, *, most: int | None = LONGEST_MESSAGE) -> None:
    """Write one line of the log to stderr, without its middle if it is longer than `most`.

    A broken log does not stop the command.
    """
    # not click.echo, which keeps the stream it saw first: the live line puts its own in the place of sys.stderr
    try:
        sys.stderr.write(f"{text if most is None else wrapped(shortened(text, most), sys.stderr)}\n")
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Discard what a stream still holds: Python would try to write it at exit, and complain."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class LogHandler(logging.Handler):
    """Writes log records to stderr as it is at that moment, above the live line if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        say(self.format(record))


class ExitCode(IntEnum):
    """What the process tells its caller; click itself exits with 2 on wrong usage."""

    FINISHED = 0
    FAILED = 1
    STOPPED = 3
    REFUSED = 5
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143


def exit_code(status: lpmert.Status | None, stop: Interrupts, complete: bool = True) -> ExitCode:
    """Return the code for how a run ended, `None` if it was not searched; a signal counts even if it came too late.

    complete: whether a run of many searches made all of them.
    """
    if stop.pressed or status is lpmert.Status.INTERRUPTED:
        return ExitCode(128 + stop.number)
    return ExitCode.FINISHED if complete and (status is None or status.finished) else ExitCode.STOPPED


@contextmanager
def delivering(
    out: ToFile, *others: str | None, renews: Sequence[str | None] = (), warnings: bool = False
) -> Iterator[Deliver]:
    """Open the file for the outcome before the search, so that an unwritable place fails at once; log to stderr.

    None of the files that are read while the block runs may be that file or one of the `others` to be written, but for
    those which the outcome `renews`.

    The outcome goes to this file or to stdout, and where that fails, to stdout or stderr before the error is raised:
    `DataError` or `OSError`. An earlier file stays as it is unless an outcome is delivered.

    warnings: whether the log has those of results, which no report shows.
    """
    from lpmert.system.files import atomic_writer, check_place, writing_later

    later = (None if one in renews else one for one in (out.output, *others))
    with _logging_to_stderr(out, warnings=warnings), writing_later(*later), ExitStack() as stack:
        for other in others:
            if other is not None:
                check_place(other)
        file = None if out.output is None else stack.enter_context(atomic_writer(out.output))

        def deliver(json: Callable[[], str], report: Callable[[], str]) -> None:
            if file is None:
                _to_stdout(json() if out.as_json else report(), quiet=out.quiet)
                return
            text = json()
            try:
                with stack.pop_all():
                    file.write(text + "\n")
            except lpmert.DataError as error:
                try:
                    _to_stdout(text, quiet=False)
                except OSError as second:
                    raise lpmert.DataError(f"{error}; {second.filename}: {second.strerror}") from second
                raise lpmert.DataError(f"{error}; what it should hold is on standard output") from error

        yield deliver


def _to_stdout(text: str, *, quiet: bool) -> None:
    try:
        put(text)
    except BrokenPipeError:  # the reader has had enough
        if quiet:
            raise click.exceptions.Exit(ExitCode.FAILED) from None
        raise
    except OSError:
        say(click.unstyle(text), most=None)
        raise


@contextmanager
def naming(data: str) -> Iterator[None]:
    """Let errors about lists say which file they come from, where they do not name another."""
    try:
        yield
    except lpmert.DataError as error:
        if error.path is not None:
            raise
        raise lpmert.DataError(str(error), path=data) from error
    except lpmert.MetricError as error:
        raise lpmert.MetricError(f"{data}: {error}") from error


@contextmanager
def _logging_to_stderr(out: Quiet, *, warnings: bool) -> Iterator[None]:
    level = [logging.WARNING, logging.INFO, logging.DEBUG][min(out.verbose, 2)]
    package_logger = logging.getLogger("lpmert")
    handler = LogHandler(logging.ERROR if out.quiet else level)
    handler.addFilter(lambda record: warnings or record.name != WARNINGS)
    package_logger.addHandler(handler)
    package_logger.setLevel(handler.level)
    try:
        yield
    finally:
        package_logger.removeHandler(handler)
        package_logger.setLevel(logging.NOTSET)
