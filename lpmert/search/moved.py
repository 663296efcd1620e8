"""Weights brought to a common length, and weights a little beside given ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from lpmert.errors import FloatArray
from lpmert.model.coordinates import CallerWeights
from lpmert.model.region import Region

_LEAST_SCALED = 1e-100
"""Weights in a scale with smaller or larger ones than this and its inverse would leave the doubles in sums."""


def normalised(weights: FloatArray) -> CallerWeights:
    """Return weights [D] with absolute values that sum to 1; all zeros become equal weights."""
    largest = np.abs(weights).max(initial=0.0)
    if largest == 0.0:
        return CallerWeights(np.full(len(weights), 1.0 / max(1, len(weights))))
    scaled = weights / largest
    return CallerWeights(scaled / np.abs(scaled).sum())


def in_scale_of(region: Region | None, names: Sequence[str], weights: CallerWeights) -> CallerWeights:
    """Return weights [D] of a region in the scale that it sets: by a fixed weight other than 0, or by a total."""
    fixed = {} if region is None else {names.index(name): value for name, value in region.fixed.items()}
    given = next((place for place, value in fixed.items() if value), None)
    with np.errstate(over="ignore", under="ignore"):  # limits of any size are taken, and cannot all be reached
        if given is not None and weights[given] * np.sign(fixed[given]) > 0.0:
            scaled = weights / weights[given] * fixed[given]
        elif given is None and region is not None and region.total and weights.sum() * np.sign(region.total) > 0.0:
            scaled = weights / weights.sum() * region.total
        else:
            return weights
    sizes = np.abs(scaled[scaled != 0.0])
    if not (
        sizes.min() >= _LEAST_SCALED and sizes.max() <= 1.0 / _LEAST_SCALED and len(sizes) == np.count_nonzero(weights)
    ):
        return weights
    scaled[list(fixed)] = list(fixed.values())
    return CallerWeights(scaled)


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
