"""Text for people: numbers, losses in units, and quotations of data in messages, at most `MOST` characters long."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Sized
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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


@dataclass(frozen=True)
class Unit:
    """The unit in which a loss is shown, such as BLEU, WER or the column of the losses.

    The figure is offset + factor * loss; the factor is negative if higher figures are better. percent: whether the
    figure is a share, shown in percent. counts: for a share, the noun of what the loss counts, such as "errors"; empty
    if the count is not shown.
    """

    name: str
    factor: float = 1.0
    offset: float = 0.0
    percent: bool = False
    counts: str = ""

    def __post_init__(self) -> None:
        """Raise `ValueError` if the factor is 0, or the figures could overflow."""
        if not 0.0 < abs(self.factor) <= _LARGEST or not abs(self.offset) <= _LARGEST:
            raise ValueError(f"the unit {quoted(self.name)} has the factor {self.factor:g}, the offset {self.offset:g}")

    @property
    def bound(self) -> str:
        """The words before the figure of a lower bound on the loss."""
        return "at least" if self.factor > 0 else "at most"

    def of(self, loss: float) -> float:
        return self.offset + self.factor * loss

    def text(self, loss: float | None) -> str:
        """Return the figure in a few digits, with the count if there is one; a dash for `None`."""
        count = f" ({self.counted(loss)})" if self.counts and loss is not None else ""
        return f"{self.short(loss)}{count}"

    def counted(self, loss: float) -> str:
        return f"{number(loss)} {self.counts.removesuffix('s') if loss == 1 else self.counts}"

    def short(self, loss: float | None, *, bound: bool = False) -> str:
        """Return the figure in a few digits, a dash for `None`; bound: rounded so that it stays a lower bound."""
        if loss is None:
            return "-"
        value = self.of(loss)
        side = self.factor if bound else 0.0
        if self.percent:
            return f"{_rounded(100 * value, _DECIMALS, side)}%"
        if not math.isfinite(value) or (self.offset == 0.0 and value == int(value)):
            return number(value)
        size = abs(self.offset) or abs(value)  # four digits of the largest figure
        decimals = min(_MOST_DECIMALS, max(0, _DIGITS - math.ceil(math.log10(size)))) if size else 0
        return _rounded(value, decimals, side)

    def least(self, bound: float, loss: float) -> str:
        """Return the figure of a lower bound, rounded so that it stays one, or of the loss where both are equal."""
        return self.short(bound, bound=bound < loss)

    @property
    def label(self) -> str:
        return f"{self.name} in %" if self.percent else self.name

    def figures(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        return (self.offset + self.factor * losses) * (100.0 if self.percent else 1.0)

    def own(self, loss: float | None, n_lists: int) -> str:
        """Return the loss of a single list: its count, or the figure of the list by itself if the whole is a mean."""
        if loss is None or self.counts:
            return number(loss)
        factor = self.factor if abs(self.factor) == 1.0 else self.factor * n_lists
        return Unit(self.name, factor, self.offset, self.percent).short(loss)

    def interval(self, low: float | None, high: float | None) -> str:
        """Return the interval of a difference between losses; an empty text if it is unknown."""
        if low is None or high is None:
            return ""
        ends = sorted((low, high), key=lambda end: self.factor * end)
        return f"[{', '.join(self.difference(end, sign=True) for end in ends)}]"

    def difference(self, losses: float, *, sign: bool = False) -> str:
        """Return the difference in figures for a difference in losses; sign: with a plus if it is positive."""
        value = self.factor * losses + 0.0
        plus = "+" if sign else ""
        if self.percent:
            return f"{100 * value:{plus}.{_DECIMALS}f}"
        return f"{value:{plus}.{_DIGITS}g}" if abs(value) < 10.0**_DIGITS else f"{value:{plus}.0f}"


_DECIMALS, _DIGITS, _MOST_DECIMALS = 2, 4, 10
_LARGEST = 1e6  # bound on factor and offset; factors are at most 100, or 1 over a number of lists

LOSS = Unit("loss")


def _rounded(value: float, decimals: int, side: float) -> str:
    """Return a number with few decimals: rounded down if `side` is positive, up if it is negative, else to nearest."""
    scaled = value * 10.0**decimals
    nearest = round(scaled)
    if side and abs(nearest - scaled) > 1e-9 * max(1.0, abs(scaled)):  # less is the rounding of a nearest decimal
        nearest = math.floor(scaled) if side > 0 else math.ceil(scaled)
    return f"{nearest / 10.0**decimals + 0.0:.{decimals}f}"
