"""How far a stage of a command is."""

from __future__ import annotations

import math
import time

from lpmert.cli.console import say

STAGE_SECONDS = 1.0
"""Least time between two lines about a stage."""


class Stages:
    """Says from time to time how far a stage is.

    every: least seconds between two lines; at_once: the first report is said, too.
    """

    def __init__(self, every: float = STAGE_SECONDS, *, at_once: bool = False) -> None:
        self._every = every
        self._said = -math.inf if at_once else time.perf_counter()

    def __call__(self, stage: str, done: int, parts: int) -> None:
        """Take one report."""
        now = time.perf_counter()
        if now - self._said >= self._every:
            self._said = now
            say(f"{stage}: {done:,} of {parts:,}")
