"""Where cones of weights are split: rays and edges are measured by what the paths of lattices score there.

Features of different size make lengths of weights meaningless; the scores of paths that may win do not depend on that.
"""

from __future__ import annotations

import numpy as np

from lpmert.errors import FloatArray, IntArray


def even_edges(rays: FloatArray, scores: FloatArray, ends: IntArray) -> tuple[FloatArray, list[tuple[int, int]]]:
    """Return the rays [D, D] of a cone times powers of two, at which scores range about as widely as at the others, and
    the edges (p, q), that first between whose ends most is at stake.

    scores [n, D], ends [s + 1]: for some lattices, of paths that no others beat. The sum of two even rays is about
    where what wins at one gives way to what wins at the other.
    """
    lengths = np.diff(ends)
    begins, lengths = ends[:-1][lengths > 0], lengths[lengths > 0]
    tops = np.maximum.reduceat(scores, begins)
    ranges = (tops - np.minimum.reduceat(scores, begins)).sum(axis=0)
    sizes = np.where(ranges > 0.0, ranges, np.abs(rays).max(axis=1))
    exponents = np.clip(np.rint(np.log2(sizes)), -1000, 1000).astype(np.int64)
    leading = np.where(scores == np.repeat(tops, lengths, axis=0), np.arange(len(scores))[:, None], len(scores))
    stake = _stakes(scores, np.minimum.reduceat(leading, begins), np.ldexp(1.0, exponents))
    even = np.ldexp(rays, int(exponents.min()) - exponents[:, None])
    p, q = np.tril_indices(len(rays), -1)
    lengths = np.abs(even[p] - even[q]).sum(axis=1)
    order = np.lexsort((-lengths, -stake[p, q]))
    return even, [(int(p[k]), int(q[k])) for k in order]


def _stakes(scores: FloatArray, best: IntArray, scale: FloatArray) -> FloatArray:
    """Return [D, D] by how much the winners best [s, D] of each list at two rays fall short of the best scores where
    they tie, summed, were scores [n, D], divided by scale [D], the only ones.
    """
    top = np.take_along_axis(scores, best, axis=0)
    found = np.zeros((len(scale), len(scale)))
    for p, own in enumerate(best.T):
        gain = (top[:, p, None] - scores[best, p]) / scale[p]  # of the winner at ray p over the one at each other
        other = (top - scores[own]) / scale
        both = (gain > 0.0) & (other > 0.0)
        found[p] = np.where(both, gain * other / np.where(both, gain + other, 1.0), 0.0).sum(axis=0)
    return found
