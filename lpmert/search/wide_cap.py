"""The least loss within a cosine below 0, where the region is everything outside of a round cone, and not convex.

The region is covered by convex pieces, each searched below the incumbent's loss: at first two half-spaces. If the best
weights of a piece lie in the round cone, a polyhedral cone around them and inside the round cone is cut out of the
piece, which leaves smaller convex pieces. See lemma G8 of `proofs/regions.md`.

Source: H. Tuy, Convex programs with an additional reverse convex constraint, JOTA 52, 1987.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from math import inf, sqrt

import numpy as np

from lpmert.errors import FloatArray, LimitError, RegionError
from lpmert.model.canonical import CallerWeights, NoInsideError
from lpmert.model.problem import Problem
from lpmert.model.region import Linear, Region
from lpmert.numeric.cone import Cap
from lpmert.numeric.rational import solve_integers, to_integers
from lpmert.result import Limits, Result, Status
from lpmert.search.driver import search_below
from lpmert.search.method import Method
from lpmert.system.deadline import Deadline
from lpmert.values import weights_array

_INWARD = 0.999
"""Where the rays of a cone that is cut out lie, as a share of the way from the axis to the rim."""


def solve_beyond(
    method: Method, whole: Problem, region: Region, limits: Limits, seed: int, deadline: Deadline
) -> Result:
    """Return the least loss in a region with a cosine between -1 and 0, and prove it as far as the limits allow.

    whole: the problem without the cosine. Raises the errors of `lpmert.minimize`, and `LimitError` if the search met no
    weights of the region.
    """
    centre, cosine = weights_array(region.around, whole.names), float(region.cosine or 0.0)
    if not centre.any():
        raise RegionError("the weights given as around are all 0")
    cone = Cap(-centre, -cosine)  # the weights whose cosine is too low are those strictly inside
    _ = whole.canonical.interior  # raises where the other limits contradict each other
    best: Result | None = None
    cutoff, closed, counters = inf, inf, {"pieces": 0, "nodes": 0}
    serial = count()
    pieces: list[tuple[float, int, list[FloatArray]]] = [(-inf, next(serial), [row]) for row in (centre, -centre)]
    status = Status.OPTIMAL
    while pieces and status.finished and pieces[0][0] < cutoff:
        bound, _, rows = heapq.heappop(pieces)
        counters["pieces"] += 1
        try:
            problem = Problem(whole.nbest, whole.metric, ties=whole.ties, region=within(region, rows, whole.names))
            found = search_below(problem, cutoff, method, limits, seed)
        except NoInsideError:
            continue
        status, bound = found.status, max(bound, found.bound)
        result = found.result
        if result is not None:
            counters["nodes"] += result.counters.get("nodes", 0)
            if not cone.contains(result.weights, strictly=True):
                best, cutoff = result, result.loss
            elif status.finished:
                cut = polyhedral_inside(cone, result.weights)
                if cut is not None:
                    for normals in outside(cut):
                        heapq.heappush(pieces, (bound, next(serial), [*rows, *normals]))
                    continue
        closed = min(closed, bound)
    if best is None:
        raise LimitError("no weights within the cosine were found before the search ended; allow more time")
    lower = min(closed, best.loss, *(bound for bound, *_ in pieces))
    if status.finished and lower == -inf:
        status = Status.HEURISTIC
    elif status.finished:
        status = Status.OPTIMAL if lower == best.loss else Status.OPTIMAL_TO_TOLERANCE
    excess = cone.cosine - cone.cosine_of(best.weights)
    distances = {**whole.distances(CallerWeights(best.weights)), f"cosine >= {cosine:g}": excess}
    return replace(
        best,
        lower_bound=None if lower == -inf else lower,
        status=status,
        signature=f"{whole.metric.signature}|ties:{whole.ties}|{region.signature}",
        region=distances,
        limiting=tuple(label for label in best.limiting if label in distances),
        cell=None,
        counters=counters,
        trace=(),
    ).with_seconds(total=deadline.seconds)


def within(region: Region, rows: Sequence[FloatArray], names: Sequence[str]) -> Region:
    """Return a region without its cosine, but with the limits row . w >= 0 for these rows [D]."""
    limits = [Linear(dict(zip(names, row.tolist(), strict=True)), lower=0) for row in rows]
    return replace(region, cosine=None, around=None, linear=[*region.linear, *limits])


def outside(normals: FloatArray) -> list[list[FloatArray]]:
    """Return the normals of convex cones that cover everything but the interior of the cone of normals [k, D]."""
    return [[*normals[:k], -facet] for k, facet in enumerate(normals)]


def polyhedral_inside(cone: Cap, weights: FloatArray) -> FloatArray | None:
    """Return normals [D, D] of a cone that lies strictly inside a round one and contains weights [D].

    Its rays lead to the corners of a regular simplex around the axis; the first corner lies beyond the weights. `None`:
    rounding leaves this uncertain.
    """
    n, axis = len(weights), cone.unit
    aside = weights / float(weights @ axis) - axis
    opening = sqrt(1.0 - cone.cosine**2) / cone.cosine
    out = max(_INWARD, (1.0 + float(np.linalg.norm(aside)) / opening) / 2.0)
    # An orthonormal basis of the space across the axis, whose first direction leads to the weights.
    basis = np.linalg.qr(np.vstack([axis, aside, np.eye(n)]).T)[0].T[1:]
    basis *= np.where(basis @ aside < 0.0, -1.0, 1.0)[:, None]
    rays = axis + out * opening * regular_simplex(n) @ basis
    try:
        normals = np.linalg.inv(rays).T
    except np.linalg.LinAlgError:
        return None
    if not (normals @ weights > 0.0).all():
        return None
    whole = to_integers(normals)
    exact = [solve_integers(whole, [int(i == k) for i in range(n)]) for k in range(n)]
    return normals if all(ray is not None and cone.contains(ray, strictly=True) for ray in exact) else None


def regular_simplex(n: int) -> FloatArray:
    """Return the n corners [n, n - 1] of a regular simplex on the unit sphere; the first is the first unit vector."""
    corners = np.zeros((n, n - 1))
    for k in range(n - 1):
        corners[k, k] = sqrt(1.0 - float(corners[k, :k] @ corners[k, :k]))
        corners[k + 1 :, k] = (-1.0 / (n - 1) - float(corners[k, :k] @ corners[k + 1, :k])) / corners[k, k]
    return corners
