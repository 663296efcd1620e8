"""What is left in a box, found by a kernel where doubles are exact: the checker's own answer, sooner."""

from __future__ import annotations

import numpy as np

from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.parts import Part, narrowed, settled
from lpmert.certificates.check.shapes import Shape
from lpmert.numeric.kernels import internal, kernel


def left_inside(lists: ProofLists, part: Part, shape: Shape) -> Part:
    """Return what `narrowed` does: what is left of a part inside a shape that lies in its own."""
    points = shape.points
    if not shape.boxed or lists.errors(points).any():
        return narrowed(lists, part, shape)
    left = np.ones(len(part.rows), dtype=np.bool_)
    _mark(np.ascontiguousarray(points), lists.features, part.rows, part.starts, left)
    return settled(lists, part._replace(shape=shape).only(left))


@internal
def _beats(points, winner, loser):
    """Whether a hypothesis [d] scores at least as much as another one [d] everywhere in a box; nothing is rounded."""
    spare = 0.0
    for d in range(len(winner)):
        spare += points[0, d] * (winner[d] - loser[d])
    for k in range(1, len(points)):
        change = 0.0
        for d in range(len(winner)):
            change += points[k, d] * (winner[d] - loser[d])
        spare -= abs(change)
        if spare < 0.0:
            return False
    return spare >= 0.0


@kernel
def _mark(points, features, rows, starts, left):
    """Unmark what falls among the rows of features [M, d] of lists with these starts, in a box of points [d, d]: what
    the best at the centre beats, and then the first one, if another one that is left beats it.
    """
    for a in range(len(starts)):
        low, high = starts[a], len(rows)
        if a + 1 < len(starts):
            high = starts[a + 1]
        best, top = low, -np.inf
        for i in range(low, high):
            score = 0.0
            for d in range(features.shape[1]):
                score += points[0, d] * features[rows[i], d]
            if score > top:
                best, top = i, score
        first = best
        for i in range(high - 1, low - 1, -1):
            if i != best and _beats(points, features[rows[best]], features[rows[i]]):
                left[i] = False
            else:
                first = i
        for i in range(first + 1, high):
            if left[i] and left[first] and _beats(points, features[rows[i]], features[rows[first]]):
                left[first] = False
