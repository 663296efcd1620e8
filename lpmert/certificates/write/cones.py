"""Grow the tree of cones of a certificate: divide them until the survivors' least costs, or conflicts, close them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from lpmert import core
from lpmert.certificates.check.closing import closed, may_undercut, priced
from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.parts import Part, narrowed, settled, whole_part
from lpmert.certificates.check.shapes import Shape, cover
from lpmert.certificates.format import Record
from lpmert.certificates.write.box_conflicts import BoxCharges, central
from lpmert.certificates.write.conflicts import conflicts_of
from lpmert.certificates.write.questions import Inside
from lpmert.certificates.write.selections import SelectionTree, point
from lpmert.errors import CertificateError, FloatArray
from lpmert.system.deadline import checkpoint

_LEAF_LISTS = 8
"""Cones with at most so many open lists are closed by a search over their selections."""

_MOST_STALLED = 5
"""So are those that this many splits a feature have rid of less than a tenth of their lists."""

_HOPELESS = 12
"""After so many splits a feature that have not, a box is searched over the cones of its corners."""

_SAMPLED_LISTS = 100

_MOST_POINTS = 3
"""At which prices are tried in a cone."""


def left_inside(lists: ProofLists, part: Part, shape: Shape) -> Part:
    """Return what `narrowed` does: what is left of a part inside a shape that lies in its own; in a box where doubles
    are exact, the core finds the same sooner.
    """
    points = shape.points
    if not shape.boxed or lists.errors(points).any():
        return narrowed(lists, part, shape)
    left = np.empty(len(part.rows), dtype=np.bool_)
    core.mark_left_in_box(np.ascontiguousarray(points), lists.features, part.rows, part.starts, left)
    return settled(lists, part._replace(shape=shape).only(left))


class ConeTree:
    """A tree that grows."""

    def __init__(self, lists: ProofLists, add: Callable[[Record], None]) -> None:
        self._lists = lists
        self._add = add
        self._n_features = lists.features.shape[1]
        self._charges = BoxCharges(lists)

    def grow(self, kind: str) -> None:
        """Add the records of a tree over boxes or cones; raises `Undercut` if something attainable undercuts."""
        root: Record = {"split": kind}
        self._add(root)
        everywhere = whole_part(self._lists)
        waiting: list[tuple[Part, Shape, int]]
        waiting = [(everywhere, shape, -1) for shape in reversed([*cover(self._n_features, root)])]
        while waiting:
            checkpoint()
            whole, shape, stalled = waiting.pop()
            cone = left_inside(self._lists, whole, shape)
            stalled = stalled + 1 if len(cone.starts) >= 0.9 * len(whole.starts) else 0
            record = self._close(cone, stalled)
            if record is not None:
                self._add(record)
                stalled = 0 if "corners" in record else stalled
                waiting += [(cone, own, stalled) for own in reversed(cone.shape.parts(record))]

    def _close(self, cone: Part, stalled: int) -> Record | None:
        """Close a cone, or return the record that divides it."""
        lists = self._lists
        scores = cone.scores(lists)
        costs, records = self._closing(cone, scores)
        for record in records:
            self._add(record)
        if records:
            return None
        few = len(cone.starts) <= _LEAF_LISTS
        if cone.shape.boxed and stalled >= _HOPELESS * self._n_features and not few:
            return {"corners": _diagonal(cone, scores, costs)}
        if few or (stalled >= _MOST_STALLED * self._n_features and not cone.shape.boxed):
            SelectionTree(lists, cone, Inside(lists, cone), self._add).grow()
            return None
        return {"split": [_axis(cone, scores, costs)] if cone.shape.boxed else list(_edge(cone, scores, costs))}

    def _closing(self, cone: Part, scores: FloatArray) -> tuple[FloatArray, list[Record]]:
        """Return what the hypotheses of a cone cost [n], and the records that close it at once, if any do."""
        lists = self._lists
        if lists.claim.several:
            return _closing_by_prices(lists, cone, scores)
        costs = lists.worth[0][cone.rows]
        needed = lists.target - int(cone.fixed[0] + costs[cone.starts].sum())
        costs = costs.astype(np.float64)
        if needed <= 0:
            return costs, [{}]
        if not len(cone.starts):
            return costs, []
        record = None
        if not cone.shape.boxed:
            record = conflicts_of(lists, cone, scores, needed)
        elif found := self._charges.conflicts(lists, cone, scores, needed):
            record = {"cores": found}
        if record is None:
            return costs, []
        try:
            closed(lists, cone, record)
        except CertificateError:
            return costs, []  # what was found in floating point is not so
        return costs, [record]


def _closing_by_prices(lists: ProofLists, cone: Part, scores: FloatArray) -> tuple[FloatArray, list[Record]]:
    """Try the sums at the centre of a cone, then those that are cheapest at their prices, and so on."""
    costs = np.zeros(len(cone.rows))
    if not may_undercut(lists, *cone.box(lists)):
        return costs, [{}]
    if not len(cone.starts):
        return costs, []
    worth = lists.worth[:, cone.rows]
    sizes = cone.sizes
    values = central(cone, scores)
    seen: list[list[int]] = []
    for _ in range(_MOST_POINTS):
        best = np.flatnonzero(values >= np.repeat(np.maximum.reduceat(values, cone.starts), sizes))
        chosen = best[np.searchsorted(best, cone.starts)]
        at = point(lists, cone.fixed + worth[:, chosen].sum(axis=1))
        if at in seen:
            break
        seen.append(at)
        try:
            weighed = priced(lists, cone, at)
        except CertificateError:
            break
        all_costs = weighed.costs(lists)
        least = int(np.minimum.reduceat(all_costs, cone.starts).sum())
        if weighed.price.of(weighed.fixed.tolist()) + least >= weighed.price.target:
            return costs, [{"at": at}]
        costs = (np.array(weighed.price.slopes[:-1]) @ worth[:-1]).astype(np.float64)
        values = -all_costs.astype(np.float64)
    return costs, []


def _edge(cone: Part, scores: FloatArray, costs: FloatArray) -> tuple[int, int]:
    """Return the edge (p, q) with the most cost [n] at stake between its ends' winners, weighted by its length.

    Where there are many lists an even sample of them tells.
    """
    sampled = np.arange(0, len(cone.starts), max(1, len(cone.starts) // _SAMPLED_LISTS))
    ends = np.append(cone.starts[1:], len(cone.rows))
    rays = cone.shape.rays
    won = np.empty((len(sampled), len(rays)))
    for a, (start, end) in enumerate(zip(cone.starts[sampled].tolist(), ends[sampled].tolist(), strict=True)):
        won[a] = costs[start + scores[:, start:end].argmax(axis=1)]
    stake = np.abs(won[:, :, None] - won[:, None, :]).sum(axis=0)
    points = cone.shape.points
    points /= np.abs(points).sum(axis=1, keepdims=True)
    length = np.abs(points[:, None] - points[None]).sum(axis=2)
    p, q = divmod(int(np.argmax(np.triu((stake + 1e-3) * length, 1))), len(points))
    return p, q


def _shares(cone: Part, scores: FloatArray, costs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how differences from the first of some lists vary along the axes of a box [m, d - 1], and what is at stake
    [m].
    """
    first = np.repeat(cone.starts, cone.sizes)
    stride = max(1, len(cone.starts) // _SAMPLED_LISTS)
    sampled = np.repeat(np.arange(len(cone.starts)) % stride == 0, cone.sizes)
    rows = np.flatnonzero(sampled & (costs != costs[first]))
    gains = scores[1:, rows] - scores[1:, first[rows]]
    reach = np.abs(gains).sum(axis=0)
    rows, gains, reach = rows[reach > 0.0], gains[:, reach > 0.0], reach[reach > 0.0]
    stakes = np.abs(costs[rows] - costs[first[rows]]) / np.repeat(cone.sizes, cone.sizes)[rows]
    return (gains / reach).T, stakes


def _axis(cone: Part, scores: FloatArray, costs: FloatArray) -> int:
    """Return the axis of a box along which most cost is at stake between two hypotheses."""
    shares, stakes = _shares(cone, scores, costs)
    lengths = np.abs(cone.shape.points).max(axis=1)
    return 1 + int(np.argmax(stakes @ np.abs(shares) + 1e-3 * lengths[1:] / lengths[0]))


def _diagonal(cone: Part, scores: FloatArray, costs: FloatArray) -> list[int]:
    """Return the signs of the diagonal along which differences vary least: cones over the corners have it in common."""
    shares, stakes = _shares(cone, scores, costs)
    form = (shares * stakes[:, None]).T @ shares
    signs = np.array(list(product((1, -1), repeat=len(form))))
    return [int(sign) for sign in signs[np.argmin(((signs @ form) * signs).sum(axis=1))]]
