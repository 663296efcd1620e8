"""The factor of a corral's rows, which gives the point of least norm of their hull, as rows come and go."""

from __future__ import annotations

import numpy as np

from lpmert.numeric.kernels import internal

_CAP_MARGIN = 1e-9
"""What rows of length 1 keep from 0 within a cap, so that the nearest weights do not tie."""


@internal
def append(rows, size, factor, column, cap):
    """Extend the factor of the first `size` rows by the next one; column [D + 4] is scratch space.

    The factor is upper triangular with factor^T factor = 1 + rows rows^T. Beside it stand, in the last two columns, the
    solution f of factor^T f = 1, and the reciprocals of its diagonal. Within a cap it is that of rows rows^T, and the
    solution is for margin - rows centre.
    """
    most = len(factor)
    capped = len(cap) > 0
    least = 0.0 if capped else 1.0
    new = rows[size]
    diagonal = least
    goal = _CAP_MARGIN if capped else 1.0
    for d in range(len(new)):
        diagonal += new[d] * new[d]
    if capped:
        for d in range(len(new)):
            goal -= new[d] * cap[d]
    for j in range(size):
        row = rows[j]
        value = least
        for d in range(len(new)):
            value += row[d] * new[d]
        column[j] = value
    for q in range(size):
        value = column[q] * factor[q, most + 1]
        left, others = column[q + 1 : size], factor[q, q + 1 : size]
        for j in range(len(left)):
            left[j] -= value * others[j]
        factor[q, size] = value
        diagonal -= value * value
        goal -= value * factor[q, most]
    diagonal = np.sqrt(max(diagonal, 1e-15))
    factor[size, size] = diagonal
    factor[size, most] = goal / diagonal
    factor[size, most + 1] = 1.0 / diagonal


@internal
def solve(factor, size, target):
    """Fill target [size] with factor^-1 f, see `append`; return its sum."""
    most = len(factor)
    total = 0.0
    for i in range(size - 1, -1, -1):
        value = factor[i, most]
        others, solved = factor[i, i + 1 : size], target[i + 1 : size]
        for q in range(len(solved) - 1, -1, -1):  # what was solved last comes last: little waits for it
            value -= others[q] * solved[q]
        target[i] = value * factor[i, most + 1]
        total += target[i]
    return total


@internal
def remove(corrals, slot, i, size):
    """Take row i out of a corral of `size` rows, and by rotations (of Givens) out of its factor."""
    factor = corrals.factor[slot]
    most = len(factor)
    for k in range(i, size - 1):
        for d in range(corrals.rows.shape[2]):
            corrals.rows[slot, k, d] = corrals.rows[slot, k + 1, d]
        corrals.multipliers[slot, k] = corrals.multipliers[slot, k + 1]
        corrals.lists[slot, k] = corrals.lists[slot, k + 1]
        corrals.others[slot, k] = corrals.others[slot, k + 1]
    for q in range(i):
        for j in range(i, size - 1):
            factor[q, j] = factor[q, j + 1]
    for q in range(i, size - 1):
        x, y = factor[q, q + 1], factor[q + 1, q + 1]
        length = np.sqrt(x * x + y * y)
        inverse = 1.0 / length
        cosine, sine = x * inverse, y * inverse
        factor[q, q] = length
        factor[q, most + 1] = inverse
        moved, upper, lower = factor[q, q + 1 : size - 1], factor[q, q + 2 : size], factor[q + 1, q + 2 : size]
        for j in range(len(moved)):
            x, y = upper[j], lower[j]
            moved[j] = cosine * x + sine * y
            lower[j] = cosine * y - sine * x
        x, y = factor[q, most], factor[q + 1, most]
        factor[q, most] = cosine * x + sine * y
        factor[q + 1, most] = cosine * y - sine * x
