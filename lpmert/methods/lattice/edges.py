"""Where cones of weights are split: rays and edges are measured by what the paths of lattices score there.

Features of different size make lengths of weights meaningless; the scores of paths that may win do not depend on that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lpmert.errors import FloatArray

Leading = Sequence[FloatArray]
"""For each lattice the scores [P, D] at the rays of a cone of some paths that no others beat."""


def even_rays(rays: FloatArray, leading: Leading) -> FloatArray:
    """Return rays [D, D] of the same cone, times powers of two, at which scores range about as widely as at the others.

    The sum of two of them is then about where what wins at one gives way to what wins at the other.
    """
    ranges = np.sum([np.ptp(scores, axis=0) for scores in leading], axis=0)
    sizes = np.where(ranges > 0.0, ranges, np.abs(rays).max(axis=1))
    exponents = np.clip(np.rint(np.log2(sizes)), -1000, 1000).astype(np.int64)
    exponents -= int(exponents.min())
    return np.ldexp(rays, -exponents[:, None])


def edges(rays: FloatArray, leading: Leading) -> list[tuple[int, int]]:
    """Return the edges (p, q) of a cone of even rays, that first between whose ends most is at stake.

    That is by how much the winners at the ends fall short of the best scores where they tie, were scores the only
    ones.
    """
    n_rays = len(rays)
    p, q = np.tril_indices(n_rays, -1)
    stake = np.zeros(len(p))
    sizes = np.sum([np.ptp(scores, axis=0) for scores in leading], axis=0)
    scale = np.where(sizes > 0.0, sizes, 1.0)
    for scores in leading:
        winners = scores[scores.argmax(axis=0)] / scale  # [ray at which it wins, ray]
        gain, other = winners[p, p] - winners[q, p], winners[q, q] - winners[p, q]
        stake += gain * other / np.maximum(gain + other, 1e-300)
    lengths = np.abs(rays[p] - rays[q]).sum(axis=1)
    order = np.lexsort((-lengths, -stake))
    return [(int(p[k]), int(q[k])) for k in order]
