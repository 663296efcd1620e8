"""Branch and bound over cones of weights on lattices: in each cone, the hypotheses of all paths that may win there.

A lattice with too many of them counts with the least loss of any path that may win, until the cone is narrow enough.
Once all lattices have their hypotheses, the rest of the cone is searched as N-best lists by `cells`.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lpmert.configurable import Configurable, option
from lpmert.errors import FloatArray, IntArray
from lpmert.methods.cells.cells import Cells, CellsSearch
from lpmert.methods.lattice.edges import edges, even_rays
from lpmert.methods.lattice.parts import Expander, Hypotheses, Part, View, all_mixes, remember
from lpmert.methods.lattice.roots import cones_of_region
from lpmert.model.canonical import least_costs, with_limits
from lpmert.model.coordinates import CanonicalWeights
from lpmert.model.lattice_problem import LatticeProblem, Verdict
from lpmert.numeric.cone import exact_sum
from lpmert.search.method import Incumbent, Search
from lpmert.system.deadline import checkpoint

_SLICE = 20_000_000
"""Work on lattices before limits are looked at: about a twentieth of a second."""

_EARLY_SPLITS = 10
_MOST_DOUBLINGS = 20


@dataclass(frozen=True)
class LatticeSettings(Configurable):
    """How lattices are searched; no option changes the optimum."""

    labels: int = option(200_000, "room for partial paths of one lattice in one cone", least=1)
    comparisons: int = option(
        40,
        "of partial paths of a lattice, for each of its links, beyond which a cone is split first; after ten splits "
        "every second one allows twice as many",
        least=1,
    )

    name = "lattice"


class Cone(NamedTuple):
    """An open cone: rays [d, d], splits that led to it, a bound, and what a cone around it left of each lattice.

    mixes [m, d]: of the rays, where best paths are not known from a cone around it; the first is the middle.
    """

    rays: FloatArray
    mixes: FloatArray
    depth: int
    bound: int
    parts: list[Part]
    nbytes: int


@dataclass
class Leaf:
    """A cone in which all lattices have hypotheses, searched as N-best lists; fixed: what is added to its costs."""

    rays: FloatArray
    parts: list[Hypotheses]
    search: CellsSearch
    fixed: int
    claimed: int

    @property
    def bound(self) -> int:
        return self.search.lower_bound + self.fixed


class LatticeSearch(Search):
    """A resumable search over the weights for lattices. The costs of its incumbent are losses.

    seen [S]: of each lattice the hypotheses, by their features, that may win in some cone.
    """

    unsettled: int | None = None

    def __init__(self, problem: LatticeProblem, incumbent: Incumbent, settings: LatticeSettings, cells: Cells) -> None:
        self.problem, self.incumbent, self._settings, self._cells = problem, incumbent, settings, cells
        self._expander = Expander(problem, settings.labels)
        self.seen: list[dict[bytes, IntArray]] = [{} for _ in problem.graphs]
        self._heap: list[tuple[int, int, Cone]] = []
        self._pushed = self._held = 0
        self._cone: Cone | None = None
        self._views: dict[int, View] = {}
        self._order: list[int] = []
        self._bound = 0
        self._leaf: Leaf | None = None
        self._cones = self._leaves = self._spurious = 0
        self._inner: Counter[str] = Counter()
        self._begun = False

    @property
    def finished(self) -> bool:
        return self.lower_bound >= self.incumbent.cost

    @property
    def lower_bound(self) -> int:
        """The least bound of an open cone, or the incumbent's loss where none is open."""
        bounds = [self.incumbent.cost]
        if not self._begun:
            return min(0, self.incumbent.cost)
        if self.unsettled is not None:
            bounds.append(self.unsettled)
        if self._heap:
            bounds.append(self._heap[0][0])
        if self._cone is not None:
            bounds.append(self._cone.bound)
        if self._leaf is not None:
            bounds.append(self._leaf.bound)
        return min(bounds)

    @property
    def nodes(self) -> int:
        return self._cones + self._counted("nodes")

    @property
    def open_nodes(self) -> int:
        inner = 0 if self._leaf is None else self._leaf.search.open_nodes
        return len(self._heap) + (self._cone is not None) + inner

    @property
    def lps(self) -> int:
        return self._counted("lps")

    @property
    def memory(self) -> int:
        return self._held + (0 if self._leaf is None else self._leaf.search.memory)

    def counters(self) -> Mapping[str, int]:
        return {
            "nodes": self.nodes,
            "lattice_cones": self._cones,
            "leaves": self._leaves,
            "expanded": self._expander.expanded,
            "too_many": self._expander.failed,
            "survivors": sum(map(len, self.seen)),
            "lps": self.lps,
            "spurious": self._spurious,
        }

    def advance(self) -> None:
        """Go on for a slice of work."""
        if not self._begun:
            self._begin()
        elif self._leaf is not None:
            self._search_leaf(self._leaf)
        elif self._cone is not None:
            self._look_into(self._cone)
        else:
            self._cone = heapq.heappop(self._heap)[2]
            self._held -= self._cone.nbytes
            self._views, self._bound = {}, 0
            self._cones += 1

    def _counted(self, name: str) -> int:
        leaf = self._leaf
        return self._inner[name] + (0 if leaf is None else leaf.search.counters()[name])

    def _begin(self) -> None:
        parts: list[Part] = [self._expander.whole(number) for number in range(len(self.problem.graphs))]
        bound = sum(part.least for part in parts)
        for rays in cones_of_region(self.problem.canonical.limits):
            self._push(Cone(rays, all_mixes(len(rays)), 0, bound, parts, 0))
        self._begun = True

    def _push(self, cone: Cone) -> None:
        heapq.heappush(self._heap, (cone.bound, self._pushed, cone))
        self._held += cone.nbytes
        self._pushed += 1

    def _look_into(self, cone: Cone) -> None:
        """Find what is left of the lattices in a cone, one after the other; then bound it, and split or search it."""
        stop = self._expander.work + _SLICE
        doublings = min(max(0, cone.depth - _EARLY_SPLITS) // 2, _MOST_DOUBLINGS)
        if not self._views:
            self._bound = sum(part.least for part in cone.parts)
            self._order = sorted(range(len(cone.parts)), key=lambda number: cone.parts[number].needed)
        while len(self._views) < len(cone.parts):
            if self._bound >= self.incumbent.cost:
                self._cone = None
                return
            if self._expander.work > stop:
                return
            checkpoint()
            number = self._order[len(self._views)]
            before = cone.parts[number]
            view = self._expander.view(number, before, cone.rays, cone.mixes, self._settings.comparisons << doublings)
            self._bound += max(view.part.least, before.least) - before.least
            self._views[number] = view
        self._cone = None
        views = [self._views[number] for number in range(len(cone.parts))]
        if self._bound >= self.incumbent.cost:
            return
        if sum(view.middle for view in views) < self.incumbent.cost:
            self._look_at(CanonicalWeights(cone.rays.sum(axis=0)))
        parts = [view.part for view in views]
        hypotheses = [part for part in parts if isinstance(part, Hypotheses)]
        cone = cone._replace(rays=even_rays(cone.rays, [view.leading for view in views]))
        if len(hypotheses) == len(parts):
            self._leaves += 1
            self._leaf = self._new_leaf(cone.rays, hypotheses)
        else:
            self._split(cone._replace(parts=parts, bound=max(cone.bound, self._bound)), views)

    def _split(self, cone: Cone, views: list[View]) -> None:
        """Halve the edge of a cone between whose ends most is at stake, and that has an exact middle."""
        for p, q in edges(cone.rays, [view.leading for view in views]):
            a, b = cone.rays[p], cone.rays[q]
            if all(exact_sum(x, y) for x, y in zip(a, b, strict=True)):
                break
        else:
            self._leave_unsettled(cone.bound)
            return
        middle = a + b
        shared = sum(part.nbytes for part in cone.parts) // 2
        for moved in (p, q):
            rays = cone.rays.copy()
            rays[moved] = middle
            mixes = all_mixes(len(rays))[[0, 1 + moved]]
            self._push(cone._replace(rays=rays, mixes=mixes, depth=cone.depth + 1, nbytes=shared))

    def _new_leaf(self, rays: FloatArray, parts: list[Hypotheses]) -> Leaf:
        """Return the search of a cone as N-best lists."""
        offsets = np.cumsum([0, *(len(part.losses) for part in parts)])
        costs, fixed = least_costs(np.concatenate([part.losses for part in parts]), offsets)
        rows = np.concatenate([part.features for part in parts])
        for number, part in enumerate(parts):
            for row, way in zip(part.features, part.ways, strict=True):
                remember(self.seen[number], row, way)
        form = self.problem.canonical
        features, bounds, values = with_limits(rows, offsets, costs, form.limits)
        lists = replace(form, features=np.ascontiguousarray(features), offsets=bounds, losses=values, step=1)
        upper = self.incumbent.cost
        start = Incumbent(upper - fixed, self.incumbent.weights, "")
        return Leaf(rays, parts, CellsSearch(self._cells, lists, start, rays[None, :, :]), fixed, upper)

    def _search_leaf(self, leaf: Leaf) -> None:
        search = leaf.search
        if not search.finished and leaf.bound < self.incumbent.cost:
            search.advance()
        if search.incumbent.cost + leaf.fixed < leaf.claimed and not self._examined(leaf):
            return
        if search.finished or leaf.bound >= self.incumbent.cost:
            if search.unsettled is not None:
                self._leave_unsettled(search.unsettled + leaf.fixed)
            self._inner.update(search.counters())
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
        parts = [self._with(number, part, verdict) for number, part in enumerate(leaf.parts)]
        if all(new is old for new, old in zip(parts, leaf.parts, strict=True)):
            self._leave_unsettled(claim)
            leaf.claimed = claim
            return True
        self._inner.update(search.counters())
        self._leaf = self._new_leaf(leaf.rays, parts)
        return False

    def _with(self, number: int, part: Hypotheses, verdict: Verdict) -> Hypotheses:
        """Return the hypotheses of a lattice with its winners among them."""
        known = {(row + 0.0).tobytes() for row in part.features}
        features, losses, ways = [part.features], [part.losses], list(part.ways)
        for way in verdict.winners[number].ways:
            row = self.problem.graphs[number].features[way].sum(axis=0) + 0.0
            if row.tobytes() not in known:
                known.add(row.tobytes())
                features.append(row[None, :])
                losses.append(np.array([self.problem.loss(number, way)], dtype=np.int64))
                ways.append(way.astype(np.int32))
        if len(features) == 1:
            return part
        return Hypotheses(np.concatenate(features), np.concatenate(losses), ways)

    def _look_at(self, weights: CanonicalWeights) -> Verdict:
        """Decode weights [d] on all lattices, and take them if they lose less, in the region and without ties."""
        given = self.problem.to_caller(weights)
        verdict = self.problem.decode(given)
        if verdict.strict and self.problem.inside(given, strictly=True):
            self.incumbent.improve(verdict.loss, weights, "C")
        return verdict

    def _leave_unsettled(self, cost: int) -> None:
        self.unsettled = cost if self.unsettled is None else min(self.unsettled, cost)
