"""How far a stage of a command is."""

from __future__ import annotations

import time

from lpmert.cli.console import say
from lpmert.cli.figures import duration

STAGE_SECONDS = 1.0
"""Least time between two lines about a stage."""


class Stages:
    """Says from time to time how far a stage is.

    slower: what is left is no faster done than what is done already, so that an estimate of its time is worth telling.
    """

    def __init__(self, *, slower: bool = False) -> None:
        self._slower = slower
        self._began = self._said = time.perf_counter()

    def __call__(self, stage: str, done: int, parts: int | None) -> None:
        """Take one report; parts: `None` where nobody knows how many there will be."""
        now = time.perf_counter()
        if now - self._said >= STAGE_SECONDS:
            self._said = now
            whole = "" if parts is None else f" of {parts:,}"
            if self._slower and parts is not None and 0 < done < parts:
                whole += f"; {duration((now - self._began) * (parts - done) / done)} more at this pace, or longer"
            say(f"{stage}: {done:,}{whole}")
