"""The standard streams: what is written to them, and what happens where nobody takes it."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from typing import TextIO

import click

from lpmert.cli.text_tables import wrapped
from lpmert.quoting import LONGEST_MESSAGE, shortened


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
