"""Where cones of weights are split: rays and edges are measured by what the paths of lattices score there.

Features of different size make lengths of weights meaningless; the scores of paths that may win do not depend on that.
"""

from __future__ import annotations

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.lattice.list_kernels import spreads, stakes


def even_edges(rays: FloatArray, scores: FloatArray, ends: IntArray) -> tuple[FloatArray, list[tuple[int, int]]]:
    """Return the rays [D, D] of a cone times powers of two, at which scores range about as widely as at the others, and
    the edges (p, q), that first between whose ends most is at stake.

    scores [n, D], ends [s + 1]: for some lattices, of paths that no others beat. The sum of two even rays is about
    where what wins at one gives way to what wins at the other.
    """
    n_rays = len(rays)
    ranges, stake = np.zeros(n_rays), np.zeros((n_rays, n_rays))
    spreads(scores, ends, ranges)
    sizes = np.where(ranges > 0.0, ranges, np.abs(rays).max(axis=1))
    exponents = np.clip(np.rint(np.log2(sizes)), -1000, 1000).astype(np.int64)
    stakes(scores, ends, np.ldexp(1.0, exponents), stake)
    even = np.ldexp(rays, int(exponents.min()) - exponents[:, None])
    p, q = np.tril_indices(n_rays, -1)
    lengths = np.abs(even[p] - even[q]).sum(axis=1)
    order = np.lexsort((-lengths, -stake[p, q]))
    return even, [(int(p[k]), int(q[k])) for k in order]
