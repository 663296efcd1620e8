"""Branch and bound over cones of weights on lattices: in each cone, the hypotheses of all paths that may win there.

A lattice with too many of them counts with the least loss of any path that may win, until the cone is narrow enough.
Once all lattices have their hypotheses, the rest of the cone is searched as N-best lists by `cells`.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.lattice.nodes import (
    Before,
    Cone,
    Expander,
    Expansion,
    Findings,
    View,
    all_mixes,
    cones_of,
    look,
    rays_of,
    state_of_cones,
)
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.model.catalogue import Catalogue, Lists, no_lists
from lpmert.model.lattice_problem import LatticeProblem, Verdict
from lpmert.numeric.cone import cones_of_region
from lpmert.numeric.lists import least_costs, take_rows
from lpmert.numeric.rounding import two_sum
from lpmert.search.checkpoint import plain
from lpmert.search.method import Combined, Incumbent, Search
from lpmert.workers import SERIAL, Pending, Shared, Workers, current_workers

_ALONE = 5_000_000
"""Work on lattices, in some hundredths of a second, after which units are handed out to workers."""

_LOCAL_WORK = 60_000_000
"""The same, in about half a second, where workers take long to start."""


LABELS = 200_000
"""Room for partial paths of one lattice in one cone."""

COMPARISONS = 40
"""Comparisons of partial paths of a lattice, for each of its links, beyond which a cone is split first; after ten
splits every second one allows twice as many.
"""

Start = Callable[[Canonical, Incumbent, list[FloatArray]], Search]
"""Begins the search of N-best lists in some cones, from an incumbent."""


@dataclass
class Leaf:
    """A cone in which all lattices have hypotheses, searched as N-best lists; fixed: what is added to its costs; below:
    a bound on them.
    """

    rays: FloatArray
    lists: Lists
    search: Search
    fixed: int
    claimed: int
    below: int

    @property
    def bound(self) -> int:
        return max(self.below, (self.search.lower_bound or 0) + self.fixed)

    def state(self) -> Mapping[str, Any]:
        """Return all of it as a checkpoint has it."""
        own = {"rays": self.rays, "lists": plain(self.lists), "claimed": self.claimed, "below": self.below}
        return {**own, **self.search.saved()}


class _Out(NamedTuple):
    """A unit that is out: whose cone it looks into, and at which lattices."""

    expansion: Expansion
    sent: list[Before]
    pending: Pending[list[View]]


class LatticeSearch(Combined):
    """A resumable search over the weights for lattices. The costs of its incumbent are losses.

    A unit of work looks at some lattices in a cone. So many are out at once, once the search is long, of one cone only
    where no others wait; their answers are taken in the order in which they went out. So the outcome is the same for
    any number of workers. catalogue: the hypotheses that may win in some cone. start: begins the search of a cone in
    which all lattices have their hypotheses; places: units that are out at once.
    """

    phase = "cones"

    def __init__(self, problem: LatticeProblem, incumbent: Incumbent, start: Start, places: int) -> None:
        super().__init__(incumbent)
        self.problem, self._start, self._places = problem, start, places
        self._expander = Expander(problem, LABELS)
        self._findings = Findings(problem, self._expander)
        self.catalogue: Catalogue = self._findings.catalogue
        self._heap: list[tuple[int, int, Cone]] = []
        self._pushed = 0
        self._expansions: list[Expansion] = []
        self._out: deque[_Out] = deque()
        self._workers: Workers = SERIAL
        self._shared = Shared(self._expander)
        self._leaves_found: deque[tuple[FloatArray, Lists, int]] = deque()
        self._leaf: Leaf | None = None
        self._cones = self._leaves = self._spurious = 0
        self._begun = False

    @property
    def finished(self) -> bool:
        nothing_open = not (self._heap or self._expansions or self._leaves_found or self._leaf)
        return self.lower_bound >= self.incumbent.cost or (self._begun and nothing_open)

    @property
    def lower_bound(self) -> int:
        """The least bound of an open cone, or the incumbent's loss where none is open."""
        bounds = [self._upper, *(expansion.cone.bound for expansion in self._expansions)]
        bounds += [below for _, _, below in self._leaves_found]
        if not self._begun:
            return min(0, self.incumbent.cost)
        if self._heap:
            bounds.append(self._heap[0][0])
        if self._leaf is not None:
            bounds.append(self._leaf.bound)
        return min(bounds)

    @property
    def nodes(self) -> int:
        return self._cones + super().nodes

    @property
    def open_nodes(self) -> int:
        return len(self._heap) + len(self._expansions) + len(self._leaves_found) + super().open_nodes

    @property
    def _searches(self) -> list[Search]:
        return [] if self._leaf is None else [self._leaf.search]

    def counters(self) -> Mapping[str, int]:
        return {
            "nodes": self.nodes,
            "lattice_cones": self._cones,
            "leaves": self._leaves,
            "expanded": self._findings.expanded,
            "too_many": self._findings.failed,
            "survivors": len(self.catalogue),
            "lps": self.lps,
            "spurious": self._spurious,
        }

    def state(self) -> Mapping[str, Any]:
        if not self._begun:
            return {}
        cones = [expansion.cone for expansion in self._expansions] + [cone for _, _, cone in sorted(self._heap)]
        cones += [Cone(rays, all_mixes(len(rays)), 0, below, lists, {}) for rays, lists, below in self._leaves_found]
        return {
            **state_of_cones(cones),
            "findings": self._findings.state(),
            "leaf": None if self._leaf is None else self._leaf.state(),
            "cones_looked_into": self._cones,
            "leaves": self._leaves - len(self._leaves_found),
            "spurious": self._spurious,
            "counted": dict(self._counted),
            "unsettled": self.unsettled,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        if not state:
            return
        self._begun = True
        self._findings.restore(state["findings"])
        for cone in cones_of(state, self.catalogue, self.problem):
            self._push(cone)
        self._cones, self._leaves = state["cones_looked_into"], state["leaves"]
        self._spurious, self._unsettled = state["spurious"], state["unsettled"]
        self._counted.update(state["counted"])
        kept = state["leaf"]
        if kept is not None:
            rays = rays_of(kept["rays"], self.problem.canonical.n_features)
            lists = self.catalogue.lists_of(kept["lists"])
            self._leaf = self._new_leaf(rays, lists, kept["below"], Incumbent.of(kept))
            self._leaf.search.restore(kept["search"])
            self._leaf.claimed = kept["claimed"]

    def advance(self) -> None:
        if not self._begun:
            self._begin()
        elif self._leaf is not None:
            self._search_leaf(self._leaf)
        elif self._leaves_found:
            self._leaf = self._new_leaf(*self._leaves_found[0])
            self._leaves_found.popleft()
        else:
            self._look_on()

    def _begin(self) -> None:
        lattices = {number: self._expander.whole(number) for number in range(len(self.problem.graphs))}
        bound = sum(lattice.least for lattice in lattices.values())
        mixes = all_mixes(self.problem.canonical.n_features)
        for rays in cones_of_region(self.problem.canonical.limits, self.problem.canonical.cap):
            self._push(Cone(rays, mixes, 0, bound, no_lists(), lattices))
        self._begun = True

    def _push(self, cone: Cone) -> None:
        heapq.heappush(self._heap, (cone.bound, self._pushed, cone))
        self._pushed += 1

    def _look_on(self) -> None:
        """Hand units out, and take the answer to the one that went out first."""
        self._send()
        if not self._out:
            return
        expansion, sent, pending = self._out[0]
        views = pending.wait()
        self._out.popleft()
        expansion.take(sent, views)
        self._look_after(expansion)
        self._send()

    def _send(self) -> None:
        """Hand units out until all places are taken."""
        workers = current_workers()
        if self._workers is SERIAL and self._findings.work >= (_LOCAL_WORK if workers.remote else _ALONE):
            self._workers, self._shared = workers, workers.share(self._expander)
        places = 1 if self._findings.work < _ALONE else self._places
        while len(self._out) < places:
            waiting = [expansion for expansion in self._expansions if expansion.waiting]
            idle = [expansion for expansion in waiting if not expansion.out]
            if not idle and self._heap and self._heap[0][0] < self.incumbent.cost:
                self._open(self._heap[0][2])
                continue
            able = idle or sorted(waiting, key=lambda expansion: expansion.out)
            if not able:
                return
            sent, cone, link_work = able[0].send(), able[0].cone, able[0].link_work
            pending = self._workers.submit(look, self._shared, sent, cone.rays, cone.mixes, link_work)
            self._out.append(_Out(able[0], sent, pending))

    def _open(self, cone: Cone) -> None:
        """Look into the cone with the least bound: what of it needs no unit is done at once."""
        expansion = Expansion(self._findings, cone, COMPARISONS)
        self._expansions.append(expansion)
        heapq.heappop(self._heap)
        self._cones += 1
        self._look_after(expansion)

    def _look_after(self, expansion: Expansion) -> None:
        """Give a cone up that has nothing better than the incumbent; split or search one in which all was looked at."""
        cone = expansion.cone
        if expansion.bound >= self.incumbent.cost:
            self._expansions.remove(expansion)
            self._out = deque(out for out in self._out if out.expansion is not expansion)
        elif expansion.complete:
            if expansion.middle is not None and self.problem.cost(expansion.middle) < self.incumbent.cost:
                self._look_at(CanonicalWeights(cone.rays.sum(axis=0)))
            rays, edges = even_edges(cone.rays, *expansion.scores)
            bound = max(cone.bound, expansion.bound)
            if expansion.open:
                self._split(cone._replace(rays=rays, bound=bound, lists=expansion.lists, open=expansion.open), edges)
            else:
                self._leaves += 1
                self._leaves_found.append((rays, expansion.lists, bound))
            self._expansions.remove(expansion)

    def _split(self, cone: Cone, edges: list[tuple[int, int]]) -> None:
        """Halve the first edge of a cone that has an exact middle."""
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

    def _new_leaf(self, rays: FloatArray, lists: Lists, below: int, start: Incumbent | None = None) -> Leaf:
        """Return the search of a cone as N-best lists, whose costs have a bound, from the incumbent or another one."""
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
        start = start or Incumbent(self.incumbent.cost - fixed, self.incumbent.weights, "")
        return Leaf(rays, lists, self._start(problem, start, [rays]), fixed, self.incumbent.cost, below)

    def _search_leaf(self, leaf: Leaf) -> None:
        search = leaf.search
        if not search.finished and leaf.bound < self.incumbent.cost:
            search.advance()
        if search.incumbent.cost + leaf.fixed < leaf.claimed and not self._examined(leaf):
            return
        if search.finished or leaf.bound >= self.incumbent.cost:
            if search.unsettled is not None:
                self._leave_unsettled(search.unsettled + leaf.fixed)
            self._put_away(search)
            self._leaf = None

    def _examined(self, leaf: Leaf) -> bool:
        """Hold what the search of a leaf has found against the lattices; return whether that search can go on.

        Beyond its cone paths may win that are not in its lists: then it begins anew with these.
        """
        search = leaf.search
        claim = search.incumbent.cost + leaf.fixed
        verdict = self._look_at(search.incumbent.weights)
        if verdict.strict and verdict.loss <= claim and self.incumbent.cost <= claim:
            leaf.claimed = claim
            return True
        self._spurious += 1
        winners = {
            number: np.unique([*ids, *(self.catalogue.add(number, way) for way in verdict.ways(number))])
            for number, ids in leaf.lists.split().items()
        }
        lists = no_lists().joined(winners)
        if len(lists.ids) == len(leaf.lists.ids):
            self._leave_unsettled(claim)
            leaf.claimed = claim
            return True
        self._put_away(search)
        self._leaf = self._new_leaf(leaf.rays, lists, leaf.below)
        return False

    def _look_at(self, weights: CanonicalWeights) -> Verdict:
        """Decode weights [d] on all lattices, and take them if they lose less, in the region and without ties."""
        given = self.problem.to_caller(weights)
        verdict = self.problem.decode(given)
        if verdict.strict and self.problem.inside(given, strictly=True):
            self.incumbent.improve(verdict.loss, weights, "C")
        return verdict


def even_edges(rays: FloatArray, scores: FloatArray, ends: IntArray) -> tuple[FloatArray, list[tuple[int, int]]]:
    """Return the rays [D, D] of a cone times powers of two, at which scores range about as widely as at the others, and
    the edges (p, q), that first between whose ends most is at stake.

    scores [n, D], ends [s + 1]: for some lattices, of paths that no others beat. The sum of two even rays is about
    where what wins at one gives way to what wins at the other.
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
    """Return [D, D] by how much the winners best [s, D] of each list at two rays fall short of the best scores where
    they tie, summed, were scores [n, D], divided by scale [D], the only ones.
    """
    top = np.take_along_axis(scores, best, axis=0)
    found = np.zeros((len(scale), len(scale)))
    for p, own in enumerate(best.T):
        gain = (top[:, p, None] - scores[best, p]) / scale[p]  # of the winner at ray p over the one at each other
        other = (top - scores[own]) / scale
        both = (gain > 0.0) & (other > 0.0)
        found[p] = np.where(both, gain * other / np.where(both, gain + other, 1.0), 0.0).sum(axis=0)
    return found
