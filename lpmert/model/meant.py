"""What the numbers of features mean: decimals printed with a few digits are whole multiples of 0.1, 0.01, ...

Doubles hold most decimals with rounding. Differences of decimals that are equal, parallel or opposite are mostly none
of these when computed from doubles, and what is tied by what was printed is then torn apart by less than anybody meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log2
from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray
from lpmert.system.mapped import pieces

_MOST_DIGITS = 15
"""Every decimal of so many digits can be told from the double nearest to it."""

_MOST_DECIMALS = 22
"""Larger powers of ten are no doubles."""

_FIRST = 1 << 10
_BLOCK = 1 << 16


class Meant(NamedTuple):
    """Features [M, D] in other units: features times `unit` are those given, but for rounding."""

    features: FloatArray
    unit: float


class Meaning(NamedTuple):
    """What numbers mean: decimals with so many places, or, where that is `None`, the doubles as given."""

    places: int | None

    @property
    def unit(self) -> float:
        """What one of the numbers in other units is in those given."""
        if self.places is None:
            return 1.0
        return float(np.ldexp(10.0**-self.places, round(self.places * log2(10.0))))

    def of(self, features: FloatArray) -> FloatArray:
        """Return some of the features [m, D] as what they mean."""
        if self.places is None:
            return features
        whole = features * 10.0**self.places
        np.rint(whole, out=whole)
        return np.asarray(np.ldexp(whole, -round(self.places * log2(10.0)), out=whole))


def meaning(features: FloatArray) -> Meaning:
    """Return what features [M, D] mean: all of them times one factor, or, where that gains nothing, as given.

    If all are the doubles nearest to decimals, of at most 15 digits from the first of the largest to the last place of
    any, they mean these decimals: times one power of ten and one of two, so that they are whole but for a power of two,
    and about as large as before. One factor for all columns changes neither what weights choose nor the weights.
    """
    return Meaning(_decimals(features))


def meant(features: FloatArray) -> Meant:
    """Return features [M, D] as what they mean, see `meaning`."""
    found = meaning(features)
    return Meant(found.of(features), found.unit)


def _decimals(values: FloatArray) -> int | None:
    """Return how many decimals values have, `None` if they are no decimals, or doubles hold all of them exactly."""
    largest = max(max(-piece.min(), piece.max()) for piece in pieces(values)) if values.size else 0.0
    decimals = 0
    for block in _blocks(values):
        while not np.array_equal(np.rint(block * 10.0**decimals) / 10.0**decimals, block):
            decimals += 1
            if decimals > _MOST_DECIMALS or largest * 10.0**decimals >= 10.0**_MOST_DIGITS:
                return None
    if not decimals:  # whole numbers, of which any size may be there
        return None
    for block in _blocks(values):
        if (np.rint(block * 10.0**decimals).astype(np.int64) % 5**decimals).any():
            return decimals
    return None


def _blocks(values: FloatArray) -> Iterator[FloatArray]:
    """Yield values by blocks, of which the first is small: most that are no decimals show it there."""
    first = True
    for piece in pieces(values):
        ends = [_FIRST] if first else []
        yield from np.split(piece, [*ends, *range(_BLOCK, len(piece), _BLOCK)])
        first = False
