"""Grow the tree of cones of a certificate: split edges until the survivors' least costs, or conflicts, close a cone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lpmert.certificates.check.cones import IntegerCone, Ray, midpoint, orthants, part, whole_cone
from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.selections import SelectionRules
from lpmert.certificates.format import Record
from lpmert.certificates.write.conflicts import conflicts_of
from lpmert.certificates.write.questions import Inside
from lpmert.certificates.write.selections import SelectionTree

_LEAF_LISTS = 8
"""Cones with at most so many open lists are closed by a search over their selections."""

_MOST_STALLED = 5
"""So are those that this many splits a feature have rid of less than a tenth of their lists."""

_SAMPLED_LISTS = 100


def grow_cones(lists: ProofLists, target: int, add: Callable[[Record], None]) -> None:
    """Add the records of all orthants; raises `Undercut` if something is attainable below the target."""
    n_features = lists.features.shape[1]
    for rays in orthants(n_features):
        cone, stalled = whole_cone(lists, rays), 0
        waiting: list[tuple[IntegerCone, int, Ray, int]] = []
        while True:
            if cone.bound >= target:
                add({"leaf": "costs"})
            elif (record := conflicts_of(lists, cone, target)) is not None:
                rules = SelectionRules(lists, cone, target)
                rules.check(rules.root, record)
                add({"leaf": "selections"})
                add(record)
            elif len(cone.starts) <= _LEAF_LISTS or stalled >= _MOST_STALLED * n_features:
                add({"leaf": "selections"})
                rules = SelectionRules(lists, cone, target)
                SelectionTree(lists, rules, Inside(lists, cone), target, add).grow()
            else:
                p, q = _edge(lists, cone)
                add({"split": [p, q]})
                ray = midpoint(cone.rays[p], cone.rays[q])
                waiting += [(cone, q, ray, stalled), (cone, p, ray, stalled)]
            if not waiting:
                break
            whole, replaced, ray, stalled = waiting.pop()
            cone = part(lists, whole, replaced, ray)
            stalled = stalled + 1 if len(cone.starts) >= 0.9 * len(whole.starts) else 0


def _edge(lists: ProofLists, cone: IntegerCone) -> tuple[int, int]:
    """Return the edge (p, q) with the most cost at stake between its ends' winners, weighted by its length.

    Where there are many lists an even sample of them tells.
    """
    sampled = np.arange(0, len(cone.starts), max(1, len(cone.starts) // _SAMPLED_LISTS))
    ends = np.append(cone.starts[1:], len(cone.rows))
    costs = lists.costs[cone.rows].astype(np.float64)
    won = np.empty((len(sampled), len(cone.rays)))
    for a, (start, end) in enumerate(zip(cone.starts[sampled].tolist(), ends[sampled].tolist(), strict=True)):
        won[a] = costs[start + cone.scores[start:end].argmax(axis=0)]
    stake = np.abs(won[:, :, None] - won[:, None, :]).sum(axis=0)
    points = np.array(cone.rays, dtype=np.float64)
    points /= np.abs(points).sum(axis=1, keepdims=True)
    length = np.abs(points[:, None] - points[None]).sum(axis=2)
    p, q = divmod(int(np.argmax(np.triu((stake + 1e-3) * length, 1))), len(points))
    return p, q
