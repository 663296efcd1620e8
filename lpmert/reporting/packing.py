"""Surfaces as bytes that the page unpacks: small, and exact to a ten-thousandth of the window."""

from __future__ import annotations

import base64
import math
import zlib
from typing import Any

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.picturing.surface import Surface

LEVELS = 10_000
"""Different losses that a surface has at most; more cannot be told apart by their colours."""

_DIGITS = 3
"""Digits of rounded losses after the first one of their range."""

UNITS = 1 << 15
"""The width of a window in the units of packed places."""


def packed(surface: Surface) -> dict[str, Any]:
    """Return a surface as plain numbers and one string.

    The string is base64 of zlib of int32 in little endian: for each strip its top and its number of trapezoids, then
    for each trapezoid by how much its lower end lies beyond that of its left neighbour, by how much its upper end lies
    beyond its lower one, and by how much the number of its loss among `losses` exceeds its neighbour's.
    """
    losses, unit = rounded(surface.losses)
    levels, numbers = np.unique(losses, return_inverse=True)
    starts = surface.offsets[:-1]
    lower, upper = _whole(surface.lower), _whole(surface.upper)
    columns = [
        _whole(surface.tops),
        np.diff(surface.offsets),
        _steps(lower, starts),
        upper - lower,
        _steps(np.asarray(numbers, dtype=np.int64), starts),
    ]
    data = np.concatenate(columns).astype("<i4").tobytes()
    return {
        "strips": len(surface.tops),
        "pieces": len(surface.losses),
        "units": UNITS,
        "losses": levels.tolist(),
        "rounded": unit,
        "halves": list(surface.halves),
        "exact": surface.exact,
        "data": base64.b64encode(zlib.compress(data, 9)).decode("ascii"),
    }


def rounded(losses: FloatArray) -> tuple[FloatArray, float | None]:
    """Return losses as they are, or those of more than `LEVELS` kinds in units of a power of ten, and that unit."""
    if len(np.unique(losses)) <= LEVELS:
        return losses, None
    place = math.floor(math.log10(float(np.ptp(losses)))) - _DIGITS
    return np.round(losses, -place), 10.0**place


def unpacked(content: dict[str, Any]) -> tuple[FloatArray, IntArray, FloatArray, FloatArray, FloatArray]:
    """Return tops, offsets, lower and upper ends and losses of a packed surface, as the page does."""
    data = np.frombuffer(zlib.decompress(base64.b64decode(content["data"])), dtype="<i4").astype(np.int64)
    n, count, units = content["strips"], content["pieces"], content["units"]
    tops, counts, steps, slants, numbers = np.split(data, np.cumsum([n, n, count, count]))
    offsets = np.cumsum([0, *counts])
    lower = np.concatenate([np.cumsum(part) for part in np.split(steps, offsets[1:-1])])
    levels = np.concatenate([np.cumsum(part) for part in np.split(numbers, offsets[1:-1])])
    losses = np.array(content["losses"])[levels]
    return (2 * tops / units - 1, offsets, 2 * lower / units - 1, 2 * (lower + slants) / units - 1, losses)


def _whole(places: FloatArray) -> IntArray:
    return np.rint((places + 1.0) / 2.0 * UNITS).astype(np.int64)


def _steps(values: IntArray, starts: IntArray) -> IntArray:
    """Return how much each value exceeds the one before it in its strip; the first ones exceed 0."""
    found = np.diff(values, prepend=0)
    found[starts] = values[starts]
    return found
