"""Hit and run on the sphere of weights: kernels of one chain.

Sources: Smith, Efficient Monte Carlo procedures for generating points uniformly distributed over bounded regions,
Operations Research 1984 (hit and run); Gelfand and Smith, Sampling-based approaches to calculating marginal densities,
JASA 1990 (the mean given all but the angle, instead of the point that was drawn).
"""

from __future__ import annotations

from math import cos, exp, inf, sin
from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray
from lpmert.lines.circle import arc_within, point_on, search_circle
from lpmert.lines.envelope import combine
from lpmert.numeric.kernels import internal, kernel, norm

LEAST_WIDTH = 1e-11
"""Pieces of a circle that are narrower, in radians, are skipped: floating point cannot hold them."""

_NEGLIGIBLE = 40.0
"""Temperatures above the least loss of a circle from which on a piece has no weight."""


class Where(NamedTuple):
    """Where a chain may go: limits [k, d] in its own coordinates, and a cap in those of basis [d, d].

    unit [d] is the middle of the cap, empty where there is none.
    """

    limits: FloatArray
    basis: FloatArray
    unit: FloatArray
    cosine: float


class Law(NamedTuple):
    """A density in proportion to exp(-level / temperature) where the level is at most `highest`, and 0 elsewhere.

    A circle all of which is higher counts where it is least.
    """

    temperature: float
    highest: float


class State(NamedTuple):
    """A chain: its weights [d], of length 1, the sum of the means [d] of its circles, and how many these are [1].

    given [2, d]: room for weights and a direction in the coordinates of the cap.
    """

    weights: FloatArray
    total: FloatArray
    circles: FloatArray
    given: FloatArray


def new_state(weights: FloatArray) -> State:
    """Return a chain at weights [d]."""
    return State(weights / np.linalg.norm(weights), np.zeros(len(weights)), np.zeros(1), np.zeros((2, len(weights))))


@internal
def _make_orthogonal(weights, direction):
    """Take the part along weights [d], of length 1, out of a direction [d]; return whether something is left."""
    for _ in range(2):  # the second time for rounding
        product = 0.0
        for k in range(len(weights)):
            product += weights[k] * direction[k]
        for k in range(len(weights)):
            direction[k] -= product * weights[k]
        length = norm(direction)
        if not length > 1e-9:
            return False
        for k in range(len(weights)):
            direction[k] /= length
    return True


@internal
def _share(circle, piece, least, law):
    """Return the density of a piece of a circle, 1 where the loss is least."""
    level = circle.levels[piece]
    above = (level - least) / law.temperature
    narrow = circle.ends[piece] - circle.begins[piece] < LEAST_WIDTH
    if above >= _NEGLIGIBLE or narrow or level > max(law.highest, least):
        return 0.0
    return exp(-above)


@kernel(nogil=True)
def walk(offsets, loss, where, law, state, directions, draws, counted, work, buffers, circle, path):
    """Let a chain go one step along each of directions [n, d], drawn at random, and write its weights into path [n, d].

    draws [n] between 0 and 1 choose the point on each circle; counted: whether the circles count for the mean.
    """
    weights, dimension = state.weights, len(state.weights)
    given, direction_given = state.given[0], state.given[1]
    combine(work.transposed, weights, work.intercepts)
    for step in range(len(directions)):
        direction = directions[step]
        for k in range(dimension):
            path[step, k] = weights[k]
        if not _make_orthogonal(weights, direction):
            continue
        for i in range(len(where.unit)):
            given[i] = direction_given[i] = 0.0
            for k in range(dimension):
                given[i] += where.basis[i, k] * weights[k]
                direction_given[i] += where.basis[i, k] * direction[k]
        low, high = arc_within(where.limits, where.unit, where.cosine, weights, direction, given, direction_given)
        combine(work.transposed, direction, work.slopes)
        pieces = search_circle(offsets, loss, low, high, work, buffers, circle)
        least = inf
        for piece in range(pieces):
            if circle.ends[piece] - circle.begins[piece] >= LEAST_WIDTH:
                least = min(least, circle.levels[piece])
        shares = circle.levels  # in their place
        total = along = across = 0.0
        last, sin_last, cos_last = 0.0, 0.0, 1.0
        for piece in range(pieces):
            share = shares[piece] = _share(circle, piece, least, law)
            if share > 0.0:
                begin, end = circle.begins[piece], circle.ends[piece]
                if begin != last:
                    sin_last, cos_last = sin(begin), cos(begin)
                last, sin_begin, cos_begin = end, sin_last, cos_last
                sin_last, cos_last = sin(end), cos(end)
                total += share * (end - begin)
                along += share * (sin_last - sin_begin)
                across += share * (cos_begin - cos_last)
        if total == 0.0:
            continue  # the region leaves no room in this direction
        if counted:
            state.circles[0] += 1
            for k in range(dimension):
                state.total[k] += (along * weights[k] + across * direction[k]) / total
        wanted = draws[step] * total
        angle = 0.0
        for piece in range(pieces):
            share = shares[piece]
            if share > 0.0:
                begin, end = circle.begins[piece], circle.ends[piece]
                angle = begin + min(max(wanted / share, 0.0), end - begin)
                wanted -= share * (end - begin)
                if wanted < 0.0:
                    break
        point_on(weights, direction, angle, weights)
        length = norm(weights)
        c, s = cos(angle) / length, sin(angle) / length
        for k in range(dimension):
            weights[k] /= length
            path[step, k] = weights[k]
        for i in range(len(work.intercepts)):
            work.intercepts[i] = c * work.intercepts[i] + s * work.slopes[i]
