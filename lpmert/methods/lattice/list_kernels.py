"""Lists of hypotheses in a cone: those that may win there, and what splits of the cone tell apart."""

from __future__ import annotations

import numpy as np

from lpmert.methods.lattice.kernels import compare_with_all
from lpmert.methods.lattice.mixtures import drop_mixed
from lpmert.numeric.kernels import EPSILON, kernel


@kernel(nogil=True, allocates=True)
def narrow(features, lists, rays, reach, game, kept, scores, middle):
    """Drop the hypotheses of lists that others of their list beat at every ray [R, D] of a cone.

    features: of the catalogue; reach [S, R] bounds scores of lattices at the rays. Fills kept, which is like lists, the
    scores [n, R] of its hypotheses, and middle [m]: which is the best of each list in the middle of the cone.
    """
    numbers, ends, ids = lists
    n_rays, n_features = rays.shape
    longest = 1
    for a in range(len(numbers)):
        longest = max(longest, ends[a + 1] - ends[a])
    rows, own, dead = np.empty((longest, n_features)), np.empty((longest, n_rays)), np.empty(longest, dtype=np.bool_)
    tolerance = np.empty(n_rays)
    n = 0
    kept.ends[0] = 0
    for a in range(len(numbers)):
        begin, size = ends[a], ends[a + 1] - ends[a]
        for r in range(n_rays):
            tolerance[r] = 2.0 * (n_features + 3) * EPSILON * reach[numbers[a], r]
        likely = np.int64(-1)
        for i in range(size):
            for d in range(n_features):
                rows[i, d] = features[ids[begin + i], d]
            for r in range(n_rays):
                score = 0.0
                for d in range(n_features):
                    score += rows[i, d] * rays[r, d]
                own[i, r] = score
            likely = compare_with_all(rows, own, dead, np.int64(0), i, likely, rays, tolerance)
            dead[i] = likely >= 0
        drop_mixed(rows, own, dead, np.int64(0), size, rays, game)
        top = -np.inf
        for i in range(size):
            if dead[i]:
                continue
            score = 0.0
            for r in range(n_rays):
                scores[n, r] = own[i, r]
                score += own[i, r]
            if score > top:
                top, middle[a] = score, ids[begin + i]
            kept.ids[n] = ids[begin + i]
            n += 1
        kept.numbers[a] = numbers[a]
        kept.ends[a + 1] = n


@kernel
def spreads(scores, ends, totals):
    """Add for each ray the range of the scores [n, D] of each list to totals [D]."""
    for a in range(len(ends) - 1):
        for r in range(len(totals)):
            low, high = np.inf, -np.inf
            for i in range(ends[a], ends[a + 1]):
                low, high = min(low, scores[i, r]), max(high, scores[i, r])
            totals[r] += high - low


@kernel(allocates=True)
def stakes(scores, ends, scale, stake):
    """Add up in stake [D, D], for p > q, by how much the winners of each list at two rays fall short of the best scores
    where they tie, were scores, divided by scale [D], the only ones.
    """
    n_rays = len(scale)
    best = np.empty(n_rays, dtype=np.int64)
    for a in range(len(ends) - 1):
        for r in range(n_rays):
            top = -np.inf
            for i in range(ends[a], ends[a + 1]):
                if scores[i, r] > top:
                    top, best[r] = scores[i, r], i
        for p in range(n_rays):
            for q in range(p):
                gain = (scores[best[p], p] - scores[best[q], p]) / scale[p]
                other = (scores[best[q], q] - scores[best[p], q]) / scale[q]
                if gain > 0.0 and other > 0.0:
                    stake[p, q] += gain * other / (gain + other)
