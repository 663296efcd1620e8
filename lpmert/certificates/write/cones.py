"""Grow the tree of cones of a certificate: split edges until the survivors' least costs, or conflicts, close a cone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lpmert.certificates.check.cones import IntegerCone, Ray, midpoint, orthants, part, priced, whole_cone
from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.selections import SelectionRules
from lpmert.certificates.format import Record
from lpmert.certificates.write.conflicts import conflicts_of
from lpmert.certificates.write.questions import Inside
from lpmert.certificates.write.selections import SelectionTree
from lpmert.errors import CertificateError, FloatArray

_LEAF_LISTS = 8
"""Cones with at most so many open lists are closed by a search over their selections."""

_MOST_STALLED = 5
"""So are those that this many splits a feature have rid of less than a tenth of their lists."""

_SAMPLED_LISTS = 100

_MOST_POINTS = 3
"""At which prices are tried in a cone."""


def grow_cones(lists: ProofLists, add: Callable[[Record], None]) -> None:
    """Add the records of all orthants; raises `Undercut` if something attainable undercuts the claim."""
    n_features = lists.features.shape[1]
    for rays in orthants(n_features):
        cone, stalled = whole_cone(lists, rays), 0
        waiting: list[tuple[IntegerCone, int, Ray, int]] = []
        while True:
            costs, records = _closing(lists, cone)
            if records:
                for record in records:
                    add(record)
            elif len(cone.starts) <= _LEAF_LISTS or stalled >= _MOST_STALLED * n_features:
                add({"leaf": "selections"})
                rules = SelectionRules(lists, cone, lists.target)
                SelectionTree(lists, rules, Inside(lists, cone), add).grow()
            else:
                p, q = _edge(cone, costs)
                add({"split": [p, q]})
                ray = midpoint(cone.rays[p], cone.rays[q])
                waiting += [(cone, q, ray, stalled), (cone, p, ray, stalled)]
            if not waiting:
                break
            whole, replaced, ray, stalled = waiting.pop()
            cone = part(lists, whole, replaced, ray)
            stalled = stalled + 1 if len(cone.starts) >= 0.9 * len(whole.starts) else 0


def _closing(lists: ProofLists, cone: IntegerCone) -> tuple[FloatArray, list[Record]]:
    """Return what the hypotheses of a cone cost [n], and the records that close it at once, if any do."""
    if lists.several:
        return _closing_by_prices(lists, cone)
    costs = lists.costs[cone.rows].astype(np.float64)
    if cone.bound >= lists.target:
        return costs, [{"leaf": "costs"}]
    record = conflicts_of(lists, cone, lists.target)
    if record is None:
        return costs, []
    rules = SelectionRules(lists, cone, lists.target)
    rules.check(rules.root, record)
    return costs, [{"leaf": "selections"}, record]


def _closing_by_prices(lists: ProofLists, cone: IntegerCone) -> tuple[FloatArray, list[Record]]:
    """Try the sums at the centre of a cone, then those that are cheapest at their prices, and so on."""
    low, high = cone.low.tolist(), cone.high.tolist()
    costs = np.zeros(len(cone.rows))
    if lists.closed(low, high):
        return costs, [{"leaf": "costs"}]
    if not len(cone.starts):
        return costs, []
    worth = lists.worth[:, cone.rows]
    sizes = np.diff(cone.starts, append=len(cone.rows))
    values = (cone.scores / np.array([float(sum(map(abs, ray))) for ray in cone.rays])).sum(axis=1)
    seen: list[list[int]] = []
    for _ in range(_MOST_POINTS):
        best = np.flatnonzero(values >= np.repeat(np.maximum.reduceat(values, cone.starts), sizes))
        chosen = best[np.searchsorted(best, cone.starts)]
        at = lists.point(cone.fixed + worth[:, chosen].sum(axis=1))
        if at in seen:
            break
        seen.append(at)
        try:
            bound, target = priced(lists, cone, at)
            price = lists.price(low, high, at)
        except CertificateError:
            break
        if bound >= target:
            return costs, [{"leaf": "costs", "at": at}]
        costs = (np.array(price.slopes[:-1]) @ worth[:-1]).astype(np.float64)
        values = -(np.array(price.slopes) @ worth).astype(np.float64)
    return costs, []


def _edge(cone: IntegerCone, costs: FloatArray) -> tuple[int, int]:
    """Return the edge (p, q) with the most cost [n] at stake between its ends' winners, weighted by its length.

    Where there are many lists an even sample of them tells.
    """
    sampled = np.arange(0, len(cone.starts), max(1, len(cone.starts) // _SAMPLED_LISTS))
    ends = np.append(cone.starts[1:], len(cone.rows))
    won = np.empty((len(sampled), len(cone.rays)))
    for a, (start, end) in enumerate(zip(cone.starts[sampled].tolist(), ends[sampled].tolist(), strict=True)):
        won[a] = costs[start + cone.scores[start:end].argmax(axis=0)]
    stake = np.abs(won[:, :, None] - won[:, None, :]).sum(axis=0)
    points = np.array(cone.rays, dtype=np.float64)
    points /= np.abs(points).sum(axis=1, keepdims=True)
    length = np.abs(points[:, None] - points[None]).sum(axis=2)
    p, q = divmod(int(np.argmax(np.triu((stake + 1e-3) * length, 1))), len(points))
    return p, q
