"""Numbers, shares and times as text, and columns of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lpmert.quoting import SHOWN_DECIMALS
from lpmert.quoting import duration as duration
from lpmert.quoting import number as number
from lpmert.quoting import percent as percent

_LEAST_FIXED_POINT = 1e-6
"""A column with a smaller number than this (and not 0) is shown with exponents."""


def short(value: float | None) -> str:
    """Return a number with up to seven digits; a dash where it is unknown."""
    return "-" if value is None else f"{value:.7g}"


def short_count(value: int) -> str:
    """Return a count in at most eight characters, up to a million millions."""
    return str(value) if value < 10_000_000 else f"{value / 1e6:.1f}M"


def column(heading: str, values: Sequence[float]) -> list[str]:
    """Return numbers with their decimal points below each other, under a heading."""
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    form = "f" if not sizes or min(sizes) >= _LEAST_FIXED_POINT else "e"
    return [heading, *(f"{value + 0.0:.{SHOWN_DECIMALS}{form}}" for value in values)]
