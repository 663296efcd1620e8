"""Branch and bound over cones of weights on lattices: a node is a cone, with the paths of all lattices that may win.

A lattice with too many such paths stays open: it counts in the dual bound with the least loss of any path that may win,
until branching has made the cone narrow enough. A cone without open lattices is a leaf, which `cells` solves as N-best
lists of its paths.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.lattice.nodes import (
    Cone,
    Expander,
    Expansion,
    Findings,
    Seen,
    View,
    all_mixes,
    view_lattices,
)
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.model.catalogue import Catalogue, Lists, no_lists
from lpmert.model.lattice_problem import LatticeProblem, Verdict
from lpmert.numeric.cone import cones_of_region
from lpmert.numeric.lists import least_costs, take_rows
from lpmert.numeric.rounding import two_sum
from lpmert.search.method import Combined, Incumbent, Search
from lpmert.workers import SERIAL, Pending, Shared, Workers, current_workers

_ALONE = 5_000_000  # work on lattices, some hundredths of a second, after which units are submitted to workers
_LOCAL_WORK = 60_000_000  # the same for workers that take long to start: about half a second
LABELS = 200_000  # most partial paths of a lattice in a cone

Start = Callable[[Canonical, Incumbent, list[FloatArray]], Search]
"""Starts the search of N-best lists in some cones, from an incumbent."""


@dataclass
class Leaf:
    """A cone without open lattices, searched as N-best lists.

    fixed: added to the costs of the search. claimed: the least loss that was verified or known before. cone_bound: dual
    bound of the cone.
    """

    rays: FloatArray
    lists: Lists
    search: Search
    fixed: int
    claimed: int
    cone_bound: int

    @property
    def bound(self) -> int:
        return max(self.cone_bound, (self.search.lower_bound or 0) + self.fixed)


class LatticeSearch(Combined):
    """A resumable branch and bound over the weights for lattices. The costs of its incumbent are losses.

    A unit of work propagates some lattices in a cone. Once the search is long, a fixed number of units is in flight, of
    different cones if enough cones wait, and answers are taken in the order of submission. So the result does not
    depend on the number of workers.

    start: starts the search of a leaf. slots: units in flight at once. catalogue: the paths that may win in some cone.
    """

    phase = "cones"

    def __init__(self, problem: LatticeProblem, incumbent: Incumbent, start: Start, slots: int) -> None:
        super().__init__(incumbent)
        self.problem, self._start, self._slots = problem, start, slots
        self._expander = Expander(problem, LABELS)
        self._findings = Findings(problem, self._expander)
        self.catalogue: Catalogue = self._findings.catalogue
        self._queue: list[tuple[int, int, Cone]] = []
        self._pushed = 0
        self._expansions: list[Expansion] = []
        self._in_flight: deque[tuple[Expansion, list[Seen], Pending[list[View]]]] = deque()
        self._workers: Workers = SERIAL
        self._shared = Shared(self._expander)
        self._waiting_leaves: deque[tuple[FloatArray, Lists, int]] = deque()
        self._leaf: Leaf | None = None
        self._n_cones = self._n_leaves = self._n_spurious = 0
        self._begun = False

    @property
    def finished(self) -> bool:
        nothing_open = not (self._queue or self._expansions or self._waiting_leaves or self._leaf)
        return self.lower_bound >= self.incumbent.cost or (self._begun and nothing_open)

    @property
    def lower_bound(self) -> int:
        """The least dual bound of an open cone, or the least loss found if no cone is open."""
        bounds = [self._upper, *(expansion.cone.bound for expansion in self._expansions)]
        bounds += [cone_bound for _, _, cone_bound in self._waiting_leaves]
        if not self._begun:
            return min(0, self.incumbent.cost)
        if self._queue:
            bounds.append(self._queue[0][0])
        if self._leaf is not None:
            bounds.append(self._leaf.bound)
        return min(bounds)

    @property
    def nodes(self) -> int:
        return self._n_cones + super().nodes

    @property
    def open_nodes(self) -> int:
        return len(self._queue) + len(self._expansions) + len(self._waiting_leaves) + super().open_nodes

    @property
    def _searches(self) -> list[Search]:
        return [] if self._leaf is None else [self._leaf.search]

    def counters(self) -> Mapping[str, int]:
        return {
            "nodes": self.nodes,
            "lattice_cones": self._n_cones,
            "leaves": self._n_leaves,
            "expanded": self._findings.expanded,
            "too_many": self._findings.failed,
            "survivors": len(self.catalogue),
            "lps": self.lps,
            "spurious": self._n_spurious,
        }

    def advance(self) -> None:
        if not self._begun:
            self._begin()
        elif self._leaf is not None:
            self._search_leaf(self._leaf)
        elif self._waiting_leaves:
            self._leaf = self._new_leaf(*self._waiting_leaves[0])
            self._waiting_leaves.popleft()
        else:
            self._take_views()

    def _begin(self) -> None:
        lattices = {number: self._expander.whole(number) for number in range(len(self.problem.graphs))}
        bound = sum(lattice.least for lattice in lattices.values())
        mixes = all_mixes(self.problem.canonical.n_features)
        for rays in cones_of_region(self.problem.canonical.limits, self.problem.canonical.cap):
            self._push(Cone(rays, mixes, 0, bound, no_lists(), lattices))
        self._begun = True

    def _push(self, cone: Cone) -> None:
        heapq.heappush(self._queue, (cone.bound, self._pushed, cone))
        self._pushed += 1

    def _take_views(self) -> None:
        """Submit units, and take the answer to the oldest one."""
        self._submit()
        if not self._in_flight:
            return
        expansion, batch, pending = self._in_flight[0]
        views = pending.wait()
        self._in_flight.popleft()
        expansion.take(batch, views)
        self._close_or_branch(expansion)
        self._submit()

    def _submit(self) -> None:
        workers = current_workers()
        if self._workers is SERIAL and self._findings.work >= (_LOCAL_WORK if workers.remote else _ALONE):
            self._workers, self._shared = workers, workers.share(self._expander)
        slots = 1 if self._findings.work < _ALONE else self._slots
        while len(self._in_flight) < slots:
            waiting = [expansion for expansion in self._expansions if expansion.waiting]
            idle = any(not expansion.out for expansion in waiting)
            if not idle and self._queue and self._queue[0][0] < self.incumbent.cost:
                self._expand_cone(self._queue[0][2])
                continue
            if not waiting:
                return
            expansion = min(waiting, key=lambda expansion: expansion.out)
            batch, cone, link_work = expansion.next_unit(), expansion.cone, expansion.link_work
            pending = self._workers.submit(view_lattices, self._shared, batch, cone.rays, cone.mixes, link_work)
            self._in_flight.append((expansion, batch, pending))

    def _expand_cone(self, cone: Cone) -> None:
        """Start to expand the cone with the least bound; listed paths are propagated at once."""
        expansion = Expansion(self._findings, cone)
        self._expansions.append(expansion)
        heapq.heappop(self._queue)
        self._n_cones += 1
        self._close_or_branch(expansion)

    def _close_or_branch(self, expansion: Expansion) -> None:
        """Close a cone that is cut off; once all its lattices are propagated, branch it or make it a leaf."""
        cone = expansion.cone
        if expansion.bound >= self.incumbent.cost:
            self._expansions.remove(expansion)
            self._in_flight = deque(unit for unit in self._in_flight if unit[0] is not expansion)
        elif expansion.complete:
            if self.problem.cost(expansion.middle) < self.incumbent.cost:
                self._try_weights(CanonicalWeights(cone.rays.sum(axis=0)))
            rays, edges = even_edges(cone.rays, *expansion.scores)
            bound = max(cone.bound, expansion.bound)
            if expansion.open:
                self._branch(cone._replace(rays=rays, bound=bound, lists=expansion.lists, open=expansion.open), edges)
            else:
                self._n_leaves += 1
                self._waiting_leaves.append((rays, expansion.lists, bound))
            self._expansions.remove(expansion)

    def _branch(self, cone: Cone, edges: list[tuple[int, int]]) -> None:
        """Divide a cone at the first edge whose middle is exact in doubles; without such an edge, it is unsettled."""
        for p, q in edges:
            if not two_sum(cone.rays[p], cone.rays[q])[1].any():
                break
        else:
            self._leave_unsettled(cone.bound)
            return
        middle = cone.rays[p] + cone.rays[q]
        for moved in (p, q):
            rays = cone.rays.copy()
            rays[moved] = middle
            self._push(cone._replace(rays=rays, mixes=all_mixes(len(rays))[[0, 1 + moved]], depth=cone.depth + 1))

    def _new_leaf(self, rays: FloatArray, lists: Lists, cone_bound: int) -> Leaf:
        form, fixed = self.problem.canonical, 0
        if self.problem.exact_graphs is not self.problem.graphs:
            lists = self.catalogue.in_order(lists)
        chosen, rows, rounding = self.problem.as_lists(self.catalogue.features[lists.ids], lists.ends)
        ids, offsets = lists.ids[chosen], take_rows(lists.ends, chosen)
        problem = replace(form, features=rows, offsets=offsets, rounding=rounding)
        if self.problem.additive:
            costs, fixed = least_costs(self.catalogue.losses(ids), offsets)
            problem = replace(replace(problem, losses=costs).with_limits(), step=1)
        else:
            totals = replace(form.totals, statistics=self.catalogue.statistics[ids])
            problem = replace(problem, losses=totals)
        start = Incumbent(self.incumbent.cost - fixed, self.incumbent.weights, "")
        return Leaf(rays, lists, self._start(problem, start, [rays]), fixed, self.incumbent.cost, cone_bound)

    def _search_leaf(self, leaf: Leaf) -> None:
        search = leaf.search
        if not search.finished and leaf.bound < self.incumbent.cost:
            search.advance()
        if search.incumbent.cost + leaf.fixed < leaf.claimed and not self._verify(leaf):
            return
        if search.finished or leaf.bound >= self.incumbent.cost:
            if search.unsettled is not None:
                self._leave_unsettled(search.unsettled + leaf.fixed)
            self._retire(search)
            self._leaf = None

    def _verify(self, leaf: Leaf) -> bool:
        """Decode the incumbent of a leaf's search on the lattices; return whether that search can continue.

        Outside of the cone, paths can win that are not in its lists. If so, the leaf restarts with these paths added.
        """
        search = leaf.search
        claim = search.incumbent.cost + leaf.fixed
        verdict = self._try_weights(search.incumbent.weights)
        if verdict.strict and verdict.loss <= claim and self.incumbent.cost <= claim:
            leaf.claimed = claim
            return True
        self._n_spurious += 1
        winners = {
            number: np.unique([*ids, *(self.catalogue.add(number, way) for way in verdict.ways(number))])
            for number, ids in leaf.lists.split().items()
        }
        lists = no_lists().joined(winners)
        if len(lists.ids) == len(leaf.lists.ids):
            self._leave_unsettled(claim)
            leaf.claimed = claim
            return True
        self._retire(search)
        self._leaf = self._new_leaf(leaf.rays, lists, leaf.cone_bound)
        return False

    def _try_weights(self, weights: CanonicalWeights) -> Verdict:
        """Decode weights [d] on all lattices; improve the incumbent if they lie in the region and have no ties."""
        of_caller = self.problem.to_caller(weights)
        verdict = self.problem.decode(of_caller)
        if verdict.strict and self.problem.inside(of_caller, strictly=True):
            self.incumbent.improve(verdict.loss, weights, "C")
        return verdict


def even_edges(rays: FloatArray, scores: FloatArray, ends: IntArray) -> tuple[FloatArray, list[tuple[int, int]]]:
    """Return the rays [D, D] of a cone in even lengths, and its edges (p, q), the most promising edge to divide first.

    scores [n, D], ends [s + 1]: scores at the rays of paths that no others beat, lattice by lattice. Rays are scaled by
    powers of two so that scores range about equally widely at all of them. The sum of two such rays then lies about
    where the winner at one ray gives way to the winner at the other. Edges are in order of the stakes (`_stakes`).
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
    """Return the stake [D, D] of each pair of rays, summed over the lists.

    The stake of a list is by how much its winners at the two rays, best [s, D], fall short of the best scores at the
    point between the rays where the winners tie. scores [n, D] are divided by scale [D].
    """
    top = np.take_along_axis(scores, best, axis=0)
    stakes = np.zeros((len(scale), len(scale)))
    for p, winners in enumerate(best.T):
        gain = (top[:, p, None] - scores[best, p]) / scale[p]  # of the winner at ray p over the one at each other
        other = (top - scores[winners]) / scale
        both = (gain > 0.0) & (other > 0.0)
        stakes[p] = np.where(both, gain * other / np.where(both, gain + other, 1.0), 0.0).sum(axis=0)
    return stakes
