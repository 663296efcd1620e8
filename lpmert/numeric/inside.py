"""Whether the origin is inside the hull of normalised rows, whatever is rounded of them and of the calculation."""

from __future__ import annotations

import numpy as np

from lpmert.numeric.factor import append, solve
from lpmert.numeric.kernels import EPSILON, internal


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
def surely_inside(rows, multipliers, size, factor, column, cap, spread, off):
    """Whether the origin lies inside the simplex of D + 1 rows, D not counting columns of zeros, whatever the rounding.

    spread [D]: of the features; off: what the rows may be off because of it.

    With B = [rows | 1], square, the exact multipliers solve B^T x = (0, 1). They differ from the given ones by at most
    |residual| / smallest singular value of B, which is at least 1 / |factor^-1|_F, as factor factor^T = B B^T.
    The multipliers are solved for anew, with a factor of known error: that of the corral has been rotated. factor and
    column [D + 4] are scratch space.
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
    for k in range(size):
        append(rows, np.int64(k), factor, column, cap)
    scale = 1.0 / solve(factor, size, multipliers)
    for k in range(size):
        multipliers[k] *= scale
    inverse_norm = 0.0
    for j in range(size):
        for i in range(j, size):
            column[i] = 0.0
        column[j] = 1.0
        for i in range(j, size):
            value = column[i] * factor[i, len(factor) + 1]
            inverse_norm += value * value
            left, others = column[i + 1 : size], factor[i, i + 1 : size]
            for q in range(len(left)):
                left[q] -= value * others[q]
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
