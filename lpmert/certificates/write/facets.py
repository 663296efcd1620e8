"""Facets: limits that hold a cap, each of which cuts off a cell that the cap does not reach."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpmert.certificates.check.cosine import near
from lpmert.errors import FloatArray
from lpmert.model.nbest import NBest
from lpmert.numeric import rational
from lpmert.numeric.cone import Cap, project
from lpmert.numeric.rounding import in_decimals

_BITS = (16, 24, 32, 44, 53)
"""Of the largest multiplier, the fewest with which a facet holds the cap."""

_STEPS = 20

_ROUNDS = 200


def facet_against(
    weights: Sequence[Fraction], nbest: NBest, limits: Sequence[Sequence[float]], cap: Cap
) -> list[int] | None:
    """Return a vector [D] whose product is positive with all weights of a cap, and not with any of the cell of weights
    [D]; `None` if the cap reaches into that cell, or as near to it as rounding hides.

    It is a sum of negative multiples of the cell's rows, which G1 takes from the projection of the centre, and of the
    centre: weights whose product with the centre is not positive are left to the facet that the centre is.
    """
    first, second, multipliers = _multipliers(weights, nbest, limits, cap)
    used = multipliers > 0.0
    if not used.any():
        return None
    whole = rational.to_integers(np.concatenate([first[used], second[used]]))
    rows = [[b - a for a, b in zip(*pair, strict=True)] for pair in zip(whole, whole[used.sum() :], strict=False)]
    sizes = multipliers[used] / multipliers.max()
    centre, square = list(map(Fraction, cap.centre.tolist())), 1 - Fraction(cap.cosine) ** 2
    for bits in _BITS:
        times = [round(size * (1 << bits)) for size in sizes.tolist()]
        facet = [sum(m * value for m, value in zip(times, column, strict=True)) for column in zip(*rows, strict=True)]
        if near(list(map(Fraction, facet)), centre, square, strictly=True):
            facet = _turned(facet, centre, square)
            cuts = sum((value * w for value, w in zip(facet, weights, strict=True)), Fraction(0)) <= 0
            return facet if cuts else None
    return None


def _turned(facet: list[int], centre: list[Fraction], square: Fraction) -> list[int]:
    """Return a facet less a multiple of the cap's centre, which all weights are on the side of: nearly a tangent."""
    whole = [int(value * lcm(*(c.denominator for c in centre))) for value in centre]
    step = Fraction(max(map(abs, facet)), max(map(abs, whole)))
    times = Fraction(0)
    for _ in range(_STEPS):
        step /= 2
        turned = [value - (times + step) * c for value, c in zip(facet, whole, strict=True)]
        times += step if near(turned, centre, square, strictly=True) else 0
    found = [value * times.denominator - times.numerator * c for value, c in zip(facet, whole, strict=True)]
    return [value // (gcd(*found) or 1) for value in found]


def _multipliers(
    weights: Sequence[Fraction], nbest: NBest, limits: Sequence[Sequence[float]], cap: Cap
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return vectors [k, D] whose differences, the first less the second ones, are rows of the cell of weights [D], and
    their multipliers [k] in the projection of the cap's centre on it: of a list, only those are taken that a point
    before breaks the most.
    """
    features = in_decimals(nbest.dense_features())
    starts, numbers = nbest.offsets[:-1], np.repeat(np.arange(nbest.n_lists), np.diff(nbest.offsets))

    def winners(scores: NDArray[Any]) -> FloatArray:
        best = np.flatnonzero(scores == np.maximum.reduceat(scores, starts)[numbers])
        return np.asarray(features[best[np.searchsorted(best, starts)]])

    common = lcm(*(w.denominator for w in weights))
    exact = np.array([int(w * common) for w in weights], dtype=object)
    chosen = winners(np.array(rational.to_integers(features), dtype=object) @ exact)
    first = np.array(limits, dtype=np.float64).reshape(-1, nbest.n_features)
    second, nearest, multipliers = np.zeros_like(first), cap.unit, np.zeros(len(first))
    for _ in range(_ROUNDS):
        worst = winners(features @ nearest)
        differences = chosen - worst
        broken = differences @ nearest < -1e-12 * np.abs(differences).sum(axis=1)
        if not broken.any() and multipliers.any():
            break
        first, second = np.concatenate([first, chosen[broken]]), np.concatenate([second, worst[broken]])
        if not len(first):
            break
        nearest, multipliers = project(first - second, cap.unit)
        if not broken.any():
            break
    return first, second, multipliers
