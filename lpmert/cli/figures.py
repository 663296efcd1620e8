"""Numbers, shares and times as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lpmert.quoting import SHOWN_DECIMALS

_LEAST_FIXED_POINT = 1e-6
"""A column with a smaller number than this (and not 0) is shown with exponents."""


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
