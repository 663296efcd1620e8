"""How a command ends: where its outcome goes, and where else if it cannot go there, and its exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

import click

from lpmert.cli.console import put, say

if TYPE_CHECKING:
    from lpmert.result import Status
    from lpmert.system.interrupts import Interrupts

Deliver = Callable[[Callable[[], str], Callable[[], str]], None]
"""Takes functions that return the outcome as JSON and as a report."""


class Destination(Protocol):
    """Where an outcome goes, and in which form: options that commands have in common."""

    @property
    def as_json(self) -> bool: ...

    @property
    def output(self) -> str | None: ...

    @property
    def quiet(self) -> bool: ...


class Talk(Protocol):
    """How much a command says besides."""

    @property
    def quiet(self) -> bool: ...

    @property
    def verbose(self) -> int: ...


@dataclass(frozen=True)
class Place:
    """A destination of a command that has no more options than these."""

    as_json: bool
    output: str | None
    quiet: bool
    verbose: int = 0


class ExitCode(IntEnum):
    """What the process tells its caller; click itself exits with 2 on wrong usage."""

    FINISHED = 0
    FAILED = 1
    STOPPED = 3
    REFUSED = 5
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143


def exit_code(status: Status | None, stop: Interrupts) -> ExitCode:
    """Return the code for how a run ended, `None` if it was not searched; a signal counts even if it came too late."""
    from lpmert.result import Status

    if stop.pressed or status is Status.INTERRUPTED:
        return ExitCode(128 + stop.number)
    return ExitCode.FINISHED if status is None or status.finished else ExitCode.STOPPED


@contextmanager
def delivering(shared: Destination, *others: str | None, renews: bool = False) -> Iterator[Deliver]:
    """Open the file for the outcome before the search, so that a place that cannot be written is told at once.

    None of the files that are read while the block runs may be that file or one of the `others` to be written; but it
    may if the outcome `renews` it.

    The outcome goes to this file or to stdout, and where that fails, to stdout or stderr before the error is raised:
    `DataError` or `OSError`. An earlier file stays as it is unless an outcome is delivered.
    """
    from lpmert.system.files import atomic_writer, check_place, writing_later

    with writing_later(None if renews else shared.output, *others), ExitStack() as stack:
        for other in others:
            if other is not None:
                check_place(other)
        file = None if shared.output is None else stack.enter_context(atomic_writer(shared.output))

        def deliver(json: Callable[[], str], report: Callable[[], str]) -> None:
            from lpmert.errors import DataError

            if file is None:
                _to_stdout(json() if shared.as_json else report(), quiet=shared.quiet)
                return
            text = json()
            try:
                with stack.pop_all():
                    file.write(text + "\n")
            except DataError as error:
                try:
                    _to_stdout(text, quiet=False)
                except OSError as second:
                    raise DataError(f"{error}; {second.filename}: {second.strerror}") from second
                raise DataError(f"{error}; what it should hold is on standard output") from error

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
