"""Weights brought to a common length, and weights a little beside given ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from lpmert.errors import FloatArray
from lpmert.model.coordinates import CallerWeights


def normalised(weights: FloatArray) -> CallerWeights:
    """Return weights [D] with absolute values that sum to 1; all zeros become equal weights."""
    largest = np.abs(weights).max(initial=0.0)
    if largest == 0.0:
        return CallerWeights(np.full(len(weights), 1.0 / max(1, len(weights))))
    scaled = weights / largest
    return CallerWeights(scaled / np.abs(scaled).sum())


def moved(
    weights: FloatArray, sizes: Iterable[float], draw: Callable[[], FloatArray], *, alike: bool = False
) -> Iterator[FloatArray]:
    """Yield weights [D] moved by random steps of these sizes, relative to the largest weight.

    draw: returns a step [D]. alike: every step is brought to the same length before.
    """
    largest = np.abs(weights).max(initial=0.0) or 1.0
    for size in sizes:
        step = draw()
        way = largest * size * step
        yield weights + (way / (np.abs(step).max(initial=0.0) or 1.0) if alike else way)
