"""A point inside a region, or which of its limits contradict each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lpmert.errors import FloatArray, RegionError
from lpmert.numeric.cap import Cap
from lpmert.numeric.half_spaces import with_half_spaces
from lpmert.numeric.lp import LinOptimizer
from lpmert.numeric.projection import project
from lpmert.numeric.rounding import Rounding

_STEPS = 60


def interior(
    rows: FloatArray, labels: Sequence[str], cap: Cap | None, rounding: Rounding | None = None
) -> FloatArray | None:
    """Return weights [d] with a positive product with every row [k, d], inside the cap; `None` without any limit.

    rounding: whose limits these rows come near to, if they are not exact. Without a cap they are in the middle. Raises
    `RegionError`, naming the limits that contradict each other, where there are none.
    """
    middle = None
    if len(rows):
        middle = _middle(rows, labels, rounding)
        if middle is None:  # where weights differ much in size, doubles do better with each in a unit of its own
            scales = _even_scales(rows)
            own = None if rounding is None else rounding.scaled(np.arange(len(scales)), scales)
            middle = _middle(rows * scales, labels, own)
            middle = None if middle is None else middle * scales
        if middle is None:
            raise RegionError("the region is too thin for double precision; widen a limit, or rescale its features")
    if cap is None:
        return middle
    if middle is None:
        return cap.unit
    nearest, multipliers = project(rows, cap.unit)
    reached = float(np.linalg.norm(nearest))  # its cosine too, but for rounding, which is all that is left of it near 0
    if reached <= cap.cosine:
        against = ", ".join(label for label, value in zip(labels, multipliers, strict=True) if value > 0)
        raise RegionError(
            f"the region is empty: within {against} the cosine reaches {reached:.6g} only; "
            f"ask for less than {cap.cosine:g} or drop a limit"
        )
    inward = middle / np.linalg.norm(middle)
    for k in range(_STEPS):
        weights = nearest / reached + 2.0**-k * inward
        if cap.contains(weights) and (rows @ weights > 0).all():
            return weights
    raise RegionError("the region is too thin for double precision; ask for a lower cosine or drop a limit")


def _even_scales(rows: FloatArray) -> FloatArray:
    """Return powers of two [d]: times these columns of rows [k, d] have numbers of about the same size in each row.

    In turn, rows and columns are divided by the geometric mean of their numbers other than 0.
    """
    there = rows != 0.0
    logs = np.log2(np.abs(rows), out=np.zeros(rows.shape), where=there)
    scales = np.zeros(rows.shape[1])
    for _ in range(_STEPS):
        of_rows = ((logs + scales) * there).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
        scales = -((logs - of_rows[:, None]) * there).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    return np.ldexp(1.0, np.clip(np.rint(scales), -500, 500).astype(np.int64))


def _middle(rows: FloatArray, labels: Sequence[str], rounding: Rounding | None) -> FloatArray | None:
    """Return weights in the middle, `None` where these are none that doubles hold."""
    features, offsets, _ = with_half_spaces(rows[:0], np.zeros(1, dtype=np.int64), np.empty(0), rows, 0.0)
    exact = None if rounding is None else rounding.take(np.empty(0, dtype=np.int64)).with_limits()
    optimizer = LinOptimizer(features, offsets, rounding=exact)
    chosen = np.arange(len(rows)), 2 * np.arange(len(rows))
    verdict = optimizer.solve(chosen)
    if not verdict.attainable:
        against = ", ".join(labels[s] for s, _, _ in verdict.core)
        raise RegionError(
            f"the region has no inside: {against} leave no weights, or none with room around them; "
            "drop or widen one of these limits, or fix a weight instead of squeezing it"
        )
    if verdict.weights is None:
        return None
    weights, _ = optimizer.centre(chosen, start=verdict.weights)
    return weights
