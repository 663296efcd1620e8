"""Numbers, shares and times as text."""

from __future__ import annotations

import math


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
