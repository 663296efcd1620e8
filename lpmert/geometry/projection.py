"""The point of a polyhedral cone that is nearest to given weights, and what its distance proves."""

from __future__ import annotations

import numpy as np

from lpmert.result import FloatArray


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
