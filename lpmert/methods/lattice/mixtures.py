"""Labels that a mixture of others beats: at all weights of a cone one of these is at least as good.

`kernels` compare labels one by one: does one beat another at every ray? What several beat together, each in its part of
the cone, is found by a small matrix game of labels against rays. What stays wins somewhere, but for rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.numeric.kernels import EPSILON, fill, internal

_INWARDS = 2.0**-20
"""Share of the middle in the points that stand for the rays: labels tied at a ray are told apart beside it."""

_GAME_WORK = 20
"""What solving a game costs, in labels looked at."""


class Game(NamedTuple):
    """Work space: cuts [M, D] of the labels chosen [M], table, basis and x [D] as for cuts of cones; sure [N]: labels
    that are known to win somewhere.
    """

    cuts: FloatArray
    chosen: IntArray
    table: FloatArray
    basis: IntArray
    x: FloatArray
    sure: NDArray[np.bool_]


def new_game(n_features: int, n_labels: int) -> Game:
    """Return work space for so many labels."""
    cuts = 2 * n_features + 4
    return Game(
        np.empty((cuts, n_features)),
        np.empty(cuts, dtype=np.int64),
        np.empty((cuts + 1, n_features + cuts + 1)),
        np.empty(cuts, dtype=np.int64),
        np.empty(n_features),
        np.empty(n_labels, dtype=np.bool_),
    )


@internal
def least_over_cuts(cuts, n_cuts, table, basis, x):
    """Return min over x in the simplex of the largest of the cuts [n_cuts, D], and write that x.

    The value is recomputed from the multipliers of the cuts, so that it is a bound whatever the pivots' rounding.
    """
    n_features = cuts.shape[1]
    low, high = np.inf, -np.inf
    for q in range(n_cuts):
        for d in range(n_features):
            low, high = min(low, cuts[q, d]), max(high, cuts[q, d])
    scale = high - low
    if scale <= 0.0:
        return low
    # A matrix game as a linear program: with entries a in [1, 2], the u >= 0 of largest sum with a u <= 1.
    last = n_features + n_cuts
    for q in range(n_cuts):
        for d in range(n_features):
            table[q, d] = (cuts[q, d] - low) / scale + 1.0
        for k in range(n_cuts):
            table[q, n_features + k] = 1.0 if k == q else 0.0
        table[q, last] = 1.0
        basis[q] = n_features + q
    for c in range(last + 1):
        table[n_cuts, c] = -1.0 if c < n_features else 0.0
    for _ in range(8 * (n_features + n_cuts)):
        entering = -1
        least = -1e-11
        for c in range(last):
            if table[n_cuts, c] < least:
                least, entering = table[n_cuts, c], c
        if entering < 0:
            break
        leaving = -1
        ratio = np.inf
        for q in range(n_cuts):
            if table[q, entering] > 1e-12 and table[q, last] < ratio * table[q, entering]:
                ratio, leaving = table[q, last] / table[q, entering], q
        if leaving < 0:
            break
        pivot = 1.0 / table[leaving, entering]
        for c in range(last + 1):
            table[leaving, c] *= pivot
        basis[leaving] = entering
        for q in range(n_cuts + 1):
            factor = table[q, entering]
            if q != leaving and factor != 0.0:
                for c in range(last + 1):
                    table[q, c] -= factor * table[leaving, c]
    fill(x, 0.0)
    total = 0.0
    for q in range(n_cuts):
        if basis[q] < n_features:
            x[basis[q]] = max(0.0, table[q, last])
            total += x[basis[q]]
    for d in range(n_features):
        x[d] /= total
    prices = 0.0
    for q in range(n_cuts):
        prices += max(0.0, table[n_cuts, n_features + q])
    value = np.inf
    for d in range(n_features):
        mixed = 0.0
        for q in range(n_cuts):
            mixed += max(0.0, table[n_cuts, n_features + q]) * cuts[q, d]
        value = min(value, mixed / prices)
    return value


@internal
def _surely_beaten(labels, loser, game, n_cuts, rays):
    """Whether the multipliers of the last game, as they are, mix the chosen labels to one that is at least as good at
    every ray, in spite of rounding; differences of labels are exact.
    """
    n_features = rays.shape[1]
    some = False
    for r in range(len(rays)):
        lead, size = 0.0, 0.0
        for q in range(n_cuts):
            share = game.table[n_cuts, n_features + q]
            if share > 0.0:
                some = True
                for d in range(n_features):
                    product = (labels[game.chosen[q], d] - labels[loser, d]) * rays[r, d] * share
                    lead += product
                    size += abs(product)
        if not lead >= (n_features * n_cuts + 4) * EPSILON * size:
            return False
    return some


@internal
def beaten_by_mixture(labels, scores, dead, begin, end, loser, rays, game):
    """Return (whether a mixture of the other living labels begin .. end surely beats one, labels looked at).

    No two of them have the same features. Those that turn out to win somewhere are marked sure.
    """
    x, n_rays = game.x, len(rays)
    fill(x, 1.0 / n_rays)
    looked = 0
    for q in range(len(game.cuts)):
        looked += _GAME_WORK
        best = -1
        top = own = 0.0
        for r in range(n_rays):
            x[r] = (1.0 - _INWARDS) * x[r] + _INWARDS / n_rays
            own += x[r] * scores[loser, r]
        for j in range(begin, end):
            if j == loser or dead[j]:
                continue
            looked += 1
            value = 0.0
            for r in range(n_rays):
                value += x[r] * scores[j, r]
            if best < 0 or value > top:
                top, best = value, j
        if best < 0 or top <= own:
            return False, looked
        game.sure[best] = True
        for earlier in range(q):
            if game.chosen[earlier] == best:
                return False, looked
        game.chosen[q] = best
        middle = 0.0
        for r in range(n_rays):
            middle += (scores[best, r] - scores[loser, r]) / n_rays
        for earlier in range(q + 1):
            game.table[q + 1, n_rays + earlier] = 0.0
        for r in range(n_rays):
            game.cuts[q, r] = (1.0 - _INWARDS) * (scores[best, r] - scores[loser, r]) + _INWARDS * middle
        if least_over_cuts(game.cuts, q + 1, game.table, game.basis, x) > 0.0:
            return _surely_beaten(labels, loser, game, q + 1, rays), looked
    return False, looked


@internal
def drop_mixed(labels, scores, dead, begin, end, rays, game):
    """Mark the living labels begin .. end that a mixture of others beats dead; return how many were looked at."""
    work = 0
    for i in range(begin, end):
        game.sure[i] = False
    for i in range(begin, end):
        if dead[i] or game.sure[i]:
            continue
        beaten, looked = beaten_by_mixture(labels, scores, dead, begin, end, i, rays, game)
        dead[i] = beaten
        work += looked
    return work
