"""Whether the origin is inside the hull of normalised rows, whatever is rounded of them and of the calculation."""

from __future__ import annotations

import numpy as np

from lpmert.numeric.kernels import EPSILON, internal

_CAP_MARGIN = 1e-9
"""What rows of length 1 keep from 0 within a cap, so that the nearest weights do not tie."""


@internal
def factorise(rows, size, dirty, factor, forward, cap):
    """Bring rows dirty.. of the Cholesky factor of (1 + rows rows^T), and the forward solution for 1, up to date.

    Within a cap the factor is that of rows rows^T, and the forward solution for margin - rows centre.
    """
    n_features = rows.shape[1]
    capped = len(cap) > 0
    for i in range(dirty, size):
        for j in range(i + 1):
            value = 0.0 if capped else 1.0
            for d in range(n_features):
                value += rows[i, d] * rows[j, d]
            for q in range(j):
                value -= factor[i, q] * factor[j, q]
            if i == j:
                factor[i, i] = np.sqrt(max(value, 1e-15))
            else:
                factor[i, j] = value / factor[j, j]
        value = 1.0
        if capped:
            value = _CAP_MARGIN
            for d in range(n_features):
                value -= rows[i, d] * cap[d]
        for q in range(i):
            value -= factor[i, q] * forward[q]
        forward[i] = value / factor[i, i]


@internal
def moved(lists, chosen, row_lists, row_others, size):
    """Bound the norm of what normalised rows are off because the features are."""
    off = 0.0
    for d in range(len(lists.spread)):
        off += lists.spread[d] * lists.spread[d]
    if off == 0.0:
        return 0.0
    total = 0.0
    for k in range(size):
        begin = lists.offsets[row_lists[k]]
        norm = 0.0
        for d in range(len(lists.spread)):
            value = lists.rows[begin + chosen[row_lists[k]], d] - lists.rows[begin + row_others[k], d]
            norm += value * value
        total += 4.0 * off / norm
    return np.sqrt(total) * (1.0 + 1e-9)


@internal
def surely_inside(rows, multipliers, size, factor, column, spread, off):
    """Whether the origin lies inside the simplex of D + 1 rows, D not counting columns of zeros, whatever the rounding.

    spread [D]: of the features; off: what the rows may be off because of it.

    With B = [rows | 1], square, the exact multipliers solve B^T x = (0, 1). They differ from the given ones by at most
    |residual| / smallest singular value of B, which is at least 1 / |factor^-1|_F, as factor factor^T = B B^T.
    column [D + 1] is scratch space.
    """
    n_features = rows.shape[1]
    used = 0
    for d in range(n_features):
        for k in range(size):
            if rows[k, d] != 0.0 or spread[d] > 0.0:
                used += 1
                break
    if size != used + 1:
        return False
    inverse_norm = 0.0
    for j in range(size):
        for i in range(j, size):
            value = 1.0 if i == j else 0.0
            for q in range(j, i):
                value -= factor[i, q] * column[q]
            column[i] = value / factor[i, i]
            inverse_norm += column[i] * column[i]
    # What the rounding of the factor (of entries up to 2 * size in sum of squares) can take from the singular value.
    squared = 1.0 / inverse_norm - 8.0 * size * size * size * EPSILON
    if squared <= 0.0:
        return False
    changed = 16.0 * size * EPSILON + off
    smallest = np.sqrt(squared) - changed
    if smallest <= 0.0:
        return False
    total = -1.0
    least = np.inf
    for k in range(size):
        total += multipliers[k]
        least = min(least, multipliers[k])
    residual = total * total
    for d in range(n_features):
        value = 0.0
        for k in range(size):
            value += multipliers[k] * rows[k, d]
        residual += value * value
    return least > 2.0 * (np.sqrt(residual) + changed) / smallest
