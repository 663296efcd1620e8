"""Axes of drawings: where numbers go, and which of them are named."""

from __future__ import annotations

import math
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Axis:
    """Maps numbers from low to high to places from begin to end, by their logarithms if so asked."""

    low: float
    high: float
    begin: float
    end: float
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Return the place of a number, those outside at the ends."""
        if self.logarithmic:
            low, high, at = math.log(self.low), math.log(self.high), math.log(max(value, self.low))
        else:
            low, high, at = self.low, self.high, value
        share = (at - low) / (high - low) if high > low else 0.5
        return round(self.begin + (self.end - self.begin) * min(max(share, 0.0), 1.0), 2)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round numbers within the axis, at most so many."""
        if self.logarithmic:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            every = max(1, math.ceil((last - first + 1) / most))
            powers = [10.0**power for power in range(first, last + 1, every)]
            return powers if len(powers) > 1 else [self.low, self.high]
        return ticks(self.low, self.high, most)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers from low to high, at most so many, all multiples of 1, 2, 2.5 or 5 times a power of 10."""
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for step in (size * factor for factor in (power, 10 * power) for size in _STEPS):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            return [round(place * step, 12 - math.floor(math.log10(step))) + 0.0 for place in range(first, last + 1)]
    return [low, high]


def tick_label(value: float) -> str:
    """Return a number of an axis, with a true minus."""
    return f"{value:,.6g}".replace("-", "\N{MINUS SIGN}") if abs(value) < 1e6 else f"{value:.3g}"
