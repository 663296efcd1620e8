"""Text for people: numbers, shares and times, and quotations of data in messages, at most `MOST` characters long."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Sized
from itertools import islice
from typing import Any

MOST = 200
LONGEST_MESSAGE = 2000
LONGEST_REFUSAL = 400
WARNINGS = "lpmert.warnings"  # name of the logger for the warnings of results
SHOWN_DECIMALS = 10  # decimals of weights in reports

_shortening = reprlib.Repr()
_shortening.maxstring = _shortening.maxother = _shortening.maxlong = MOST


def quoted(value: Any) -> str:
    """Return the `repr` of a value; if it is too long or too deep, its beginning and end."""
    try:
        text = _shortening.repr(value)
    except (ValueError, RecursionError):  # integers of more digits than Python writes
        text = f"a value of type {type(value).__name__}"
    return shortened(visible(text))


def listed(names: Iterable[str]) -> str:
    """Return names joined by commas; if there is no room for all, the first ones and how many there are."""
    names = names if isinstance(names, Sized) else list(names)
    text = visible(", ".join(name[: MOST + 1] for name in islice(names, MOST)))
    return text if len(text) <= MOST and len(names) <= MOST else f"{text[:MOST]}... ({len(names):,} in all)"


def repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def visible(text: str, but: str = "") -> str:
    """Escape the characters that are not printable, such as control characters, except those in `but`."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in but else one.encode("unicode_escape").decode() for one in text)


def shortened(text: str, most: int = MOST) -> str:
    """Return a text of at most `most` characters, by leaving out its middle."""
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def counted(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun; many: the plural, if it is not the singular with an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def number(value: float | None) -> str:
    """Return a number with up to ten digits, integers in full; a dash for `None`."""
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
