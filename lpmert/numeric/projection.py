"""The point of a polyhedral cone that is nearest to given weights, and what its distance proves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray
from lpmert.numeric.cap import Cap

_TOLERANCE = 1e-12
_STEPS = 50


def project(rows: FloatArray, centre: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the point p [d] nearest to `centre` [d] with rows [k, d] p >= 0, and multipliers [k] >= 0.

    p = centre + multipliers rows. For every w with rows w >= 0, centre.w <= (centre + multipliers rows).w <=
    |centre + multipliers rows| |w|, whatever the multipliers >= 0: the length bounds the cosine. Non-negative least
    squares (Lawson and Hanson 1974, chapter 23), to rounding.
    """
    from scipy.optimize import nnls

    norms = np.linalg.norm(rows, axis=1)
    scaled = rows / np.where(norms > 0, norms, 1.0)[:, None]
    multipliers, _ = nnls(scaled.T, -centre, maxiter=10 * (len(rows) + 10))
    return centre + multipliers @ scaled, multipliers / np.where(norms > 0, norms, 1.0)


def reach_cap(rows: FloatArray, cap: Cap, inside: FloatArray) -> tuple[FloatArray | None, NDArray[np.bool_] | None]:
    """Return (weights [d], None) in the cap with a positive product with every row [k, d], or (None, core [k]).

    inside [d] has a positive product with every row. core marks rows with which no weights of the cap have one, beyond
    rounding. Where rounding hides the answer both are `None`.
    """
    nearest, multipliers = project(rows, cap.unit)
    norms = np.linalg.norm(rows, axis=1)
    length = float(np.linalg.norm(nearest))
    mass = 1.0 + float(multipliers @ norms)
    if length < cap.cosine - _TOLERANCE - 16 * len(cap.unit) * np.finfo(np.float64).eps * mass:
        return None, multipliers > 0
    error = (len(cap.unit) + 2) * np.finfo(np.float64).eps
    toward = inside / np.linalg.norm(inside)
    for k in range(_STEPS):
        weights = nearest / length + 2.0**-k * toward if length > 0 else toward
        if (rows @ weights > error * (np.abs(rows) @ np.abs(weights))).all() and cap.contains(weights):
            return weights, None
    return None, None
