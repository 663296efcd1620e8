"""How far a stage of a command is."""

from __future__ import annotations

import time

from lpmert.cli.console import say

STAGE_SECONDS = 1.0
"""Least time between two lines about a stage."""


class Stages:
    """Says from time to time how far a stage is."""

    def __init__(self) -> None:
        self._said = time.perf_counter()

    def __call__(self, stage: str, done: int, parts: int) -> None:
        """Take one report."""
        now = time.perf_counter()
        if now - self._said >= STAGE_SECONDS:
            self._said = now
            say(f"{stage}: {done:,} of {parts:,}")
