"""Branch and bound over cones of weights on lattices: in each cone, the hypotheses of all paths that may win there.

A lattice with too many of them counts with the least loss of any path that may win, until the cone is narrow enough.
Once all lattices have their hypotheses, the rest of the cone is searched as N-best lists by `cells`.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lpmert.configurable import Configurable, option
from lpmert.errors import FloatArray, IntArray
from lpmert.methods.cells.cells import Cells, CellsSearch
from lpmert.methods.lattice.edges import even_edges
from lpmert.methods.lattice.lists import Lists, no_lists
from lpmert.methods.lattice.parts import Expander, OpenLattice, all_mixes
from lpmert.methods.lattice.roots import cones_of_region
from lpmert.model.canonical import least_costs, with_limits
from lpmert.model.coordinates import CanonicalWeights
from lpmert.model.lattice_problem import LatticeProblem, Verdict
from lpmert.numeric.cone import exact_sum
from lpmert.search.combined import Combined
from lpmert.search.method import Incumbent
from lpmert.system.deadline import checkpoint

_SLICE = 20_000_000
"""Work on lattices before limits are looked at: about a twentieth of a second."""


_SPLIT_WORK = 50_000
"""What it costs to split a cone, for each lattice: for so much work the last open ones are looked at again."""

_MORE_WORK = 8

_EARLY_SPLITS, _MOST_DOUBLINGS = 10, 20
"""Splits after which lattices are given more work, and how often at most it is doubled."""


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
    """A cone that waits: rays [d, d], splits that led to it, a bound, and what a cone around it left of the lattices:
    few hypotheses each, or open.

    mixes [m, d]: of the rays, where best paths are not known from a cone around it; the first is the middle.
    """

    rays: FloatArray
    mixes: FloatArray
    depth: int
    bound: int
    lists: Lists
    open: dict[int, OpenLattice]

    @property
    def nbytes(self) -> int:
        """Memory, which two cones share."""
        return 4 * len(self.lists.ids) + sum(lattice.nbytes for lattice in self.open.values()) // 2


class Sight:
    """What is found of the lattices in a cone, one after the other: those that have few hypotheses first, at once.

    lists, open: so far, with what a cone around it left of those that were not looked at; bound: on the cost; middle:
    the summed statistics [K] in the middle, if all were looked at there.
    """

    def __init__(self, expander: Expander, cone: Cone, comparisons: int) -> None:
        self._expander, self._cone = expander, cone
        self.lists, self.bound, middle, scores = expander.narrowed(cone.lists, cone.rays)
        self.middle: FloatArray | None = middle
        self.bound += sum(lattice.least for lattice in cone.open.values())
        self.open = dict(cone.open)
        self._found: dict[int, IntArray] = {}
        self._scores = [(scores, self.lists.ends[1:])]
        self._waiting = sorted(cone.open, key=lambda number: -cone.open[number].needed)
        self._link_work = comparisons << min(max(0, cone.depth - _EARLY_SPLITS) // 2, _MOST_DOUBLINGS)
        self._again = True

    @property
    def complete(self) -> bool:
        """Whether all lattices were looked at."""
        return not self._waiting

    def look(self) -> None:
        """Look at the next lattice."""
        number = self._waiting.pop()
        before = self.open.pop(number)
        view = self._expander.view(number, before, self._cone.rays, self._cone.mixes, self._link_work)
        self._scores.append((view.leading, np.array([len(view.leading)])))
        if view.part is None:
            self._found[number] = view.ids
            least = int(self._expander.catalogue.losses(view.ids).min())
        else:
            self.open[number], least = view.part, view.part.least
        self.bound += max(least, before.least) - before.least
        self.middle = None if self.middle is None or view.middle is None else self.middle + view.middle
        if not self._waiting and self._again:
            self._again = False
            worth = _SPLIT_WORK * (len(self.open) + len(self._found) + len(self.lists.numbers))
            if sum(lattice.needed for lattice in self.open.values()) <= worth:
                self._waiting = list(self.open)
                self._link_work *= _MORE_WORK
        if not self._waiting:
            self.lists = self.lists.joined(self._found)
            self._found = {}
            self.bound = max(self.bound, self._expander.bound_of_ratio(self.lists, self.open, self.middle))

    @property
    def scores(self) -> tuple[FloatArray, IntArray]:
        """Scores [n, D] at the rays of the paths of lattices that no others beat, and their ends [s + 1]."""
        ends, last = [np.zeros(1, dtype=np.int64)], 0
        for scores, own in self._scores:
            ends.append(own + last)
            last += len(scores)
        return np.concatenate([scores for scores, _ in self._scores]), np.concatenate(ends)


@dataclass
class Leaf:
    """A cone in which all lattices have hypotheses, searched as N-best lists; fixed: what is added to its costs; below:
    a bound on them.
    """

    rays: FloatArray
    lists: Lists
    search: CellsSearch
    fixed: int
    claimed: int
    below: int

    @property
    def bound(self) -> int:
        return max(self.below, self.search.lower_bound + self.fixed)


class LatticeSearch(Combined):
    """A resumable search over the weights for lattices. The costs of its incumbent are losses.

    catalogue: the hypotheses that may win in some cone.
    """

    phase = "cones"
    unsettled: int | None = None

    def __init__(self, problem: LatticeProblem, incumbent: Incumbent, settings: LatticeSettings, cells: Cells) -> None:
        super().__init__(incumbent)
        self.problem, self._settings, self._cells = problem, settings, cells
        self._expander = Expander(problem, settings.labels)
        self.catalogue = self._expander.catalogue
        self._heap: list[tuple[int, int, Cone]] = []
        self._pushed = self._held = 0
        self._cone: Cone | None = None
        self._sight: Sight | None = None
        self._leaf: Leaf | None = None
        self._cones = self._leaves = self._spurious = 0
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
        return self._cones + super().nodes

    @property
    def open_nodes(self) -> int:
        return len(self._heap) + (self._cone is not None) + super().open_nodes

    @property
    def memory(self) -> int:
        return self._held + super().memory

    @property
    def _searches(self) -> list[CellsSearch]:
        return [] if self._leaf is None else [self._leaf.search]

    def counters(self) -> Mapping[str, int]:
        return {
            "nodes": self.nodes,
            "lattice_cones": self._cones,
            "leaves": self._leaves,
            "expanded": self._expander.expanded,
            "too_many": self._expander.failed,
            "survivors": len(self.catalogue),
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
            self._sight = None
            self._cones += 1

    def _begin(self) -> None:
        lattices = {number: self._expander.whole(number) for number in range(len(self.problem.graphs))}
        bound = sum(lattice.least for lattice in lattices.values())
        bound = max(bound, self._expander.bound_of_ratio(no_lists(), lattices, None))
        for rays in cones_of_region(self.problem.canonical.limits, self.problem.canonical.cap):
            self._push(Cone(rays, all_mixes(len(rays)), 0, bound, no_lists(), lattices))
        self._begun = True

    def _push(self, cone: Cone) -> None:
        heapq.heappush(self._heap, (cone.bound, self._pushed, cone))
        self._held += cone.nbytes
        self._pushed += 1

    def _look_into(self, cone: Cone) -> None:
        """Find what is left of the lattices in a cone, one after the other; then bound it, and split or search it."""
        sight = self._sight
        if sight is None:
            sight = self._sight = Sight(self._expander, cone, self._settings.comparisons)
        stop = self._expander.work + _SLICE
        while sight.bound < self.incumbent.cost and not sight.complete:
            if self._expander.work > stop:
                return
            checkpoint()
            sight.look()
        self._cone = None
        if sight.bound >= self.incumbent.cost:
            return
        if sight.middle is not None and self.problem.cost(sight.middle) < self.incumbent.cost:
            self._look_at(CanonicalWeights(cone.rays.sum(axis=0)))
        rays, edges = even_edges(cone.rays, *sight.scores)
        if sight.open:
            bound = max(cone.bound, sight.bound)
            self._split(cone._replace(rays=rays, bound=bound, lists=sight.lists, open=sight.open), edges)
        else:
            self._leaves += 1
            self._leaf = self._new_leaf(rays, sight.lists, max(cone.bound, sight.bound))

    def _split(self, cone: Cone, edges: list[tuple[int, int]]) -> None:
        """Halve the first edge of a cone that has an exact middle."""
        for p, q in edges:
            if all(exact_sum(x, y) for x, y in zip(cone.rays[p], cone.rays[q], strict=True)):
                break
        else:
            self._leave_unsettled(cone.bound)
            return
        middle = cone.rays[p] + cone.rays[q]
        for moved in (p, q):
            rays = cone.rays.copy()
            rays[moved] = middle
            self._push(cone._replace(rays=rays, mixes=all_mixes(len(rays))[[0, 1 + moved]], depth=cone.depth + 1))

    def _new_leaf(self, rays: FloatArray, lists: Lists, below: int) -> Leaf:
        """Return the search of a cone as N-best lists, whose costs have a bound."""
        form = self.problem.canonical
        rows, fixed = np.ascontiguousarray(self.catalogue.features[lists.ids]), 0
        if self.problem.additive:
            costs, fixed = least_costs(self.catalogue.losses(lists.ids), lists.ends)
            features, offsets, values = with_limits(rows, lists.ends, costs, form.limits)
            problem = replace(form, features=np.ascontiguousarray(features), offsets=offsets, losses=values, step=1)
        else:
            totals = replace(form.totals, statistics=self.catalogue.statistics[lists.ids])
            problem = replace(form, features=rows, offsets=lists.ends, losses=totals)
        upper = self.incumbent.cost
        start = Incumbent(upper - fixed, self.incumbent.weights, "")
        return Leaf(rays, lists, CellsSearch(self._cells, problem, start, rays[None, :, :]), fixed, upper, below)

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
            number: np.unique([*ids, *(self.catalogue.add(number, way) for way in verdict.winners[number].ways)])
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

    def _leave_unsettled(self, cost: int) -> None:
        self.unsettled = cost if self.unsettled is None else min(self.unsettled, cost)
