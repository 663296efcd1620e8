"""Nodes of the search over lattices: cones, with the links or the paths of every lattice that may win there.

A unit of work propagates some lattices in a cone (`view_lattices`); the search collects the answers in an `Expansion`.
A path of a lattice is a hypothesis, as in `Catalogue`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert import core
from lpmert.errors import FloatArray, IntArray
from lpmert.model.catalogue import Catalogue, Lists, Way
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.system.deadline import checkpoint
from lpmert.workers import PerThread

_FEW_RAYS = 32  # most rays for which mixes of each two rays are tried
_SHRINKING = 0.4  # guessed ratio of the work on a lattice in a cone to the work in the cone around it


@dataclass(frozen=True, eq=False)
class OpenLattice:
    """A lattice with too many paths that may win in the cone.

    marks: a bit for each link, set for the `count` links on these paths. least: the least loss of these paths. needed:
    estimated work of listing them.
    """

    marks: NDArray[np.uint8]
    count: int
    least: int
    needed: float


MOST_KNOWN = 32
"""Complete paths of a lattice that are remembered to rule out others: the latest ones that were best somewhere."""

Paths = dict[bytes, FloatArray]
"""The features [D] of some paths of a lattice, by their bytes; the latest ones come last."""


class View(NamedTuple):
    """A lattice after propagation in a cone.

    part: the open lattice, or `None` if its paths are listed: `ways`, with features [n, D]. middle: the links of the
    best path in the middle of the cone. best: paths that are best somewhere in the cone. leading: scores [P, R] at the
    rays of some paths that no others beat. work: scores computed and labels compared. crowded: whether listing was
    tried and found too many paths.
    """

    part: OpenLattice | None
    ways: list[Way]
    features: FloatArray
    middle: Way
    best: Paths
    leading: FloatArray
    work: int
    crowded: bool = False


class Expander:
    """Propagates the lattices of a problem in cones; several threads can use it at once.

    labels: most partial paths of a lattice, beyond which it stays open. longest [S, D]: for each lattice and feature,
    the largest sum of absolute values along a path.
    """

    def __init__(self, problem: LatticeProblem, labels: int) -> None:
        self.problem, self._labels = problem, labels
        self.longest = np.array([graph.links().largest_sums(np.abs(graph.features)) for graph in problem.exact_graphs])
        self._finders: PerThread[core.PathFinder] = PerThread()

    def whole(self, number: int) -> OpenLattice:
        graph = self.problem.graphs[number]
        n_links = len(graph.sources)
        marks = np.packbits(np.ones(n_links, dtype=np.bool_))
        return OpenLattice(marks, n_links, self.problem.least_loss(number), 0.0)

    def view(
        self, number: int, before: OpenLattice, known: Paths, rays: FloatArray, mixes: FloatArray, link_work: int
    ) -> View:
        """Propagate a lattice in a cone of rays [R, D] inside an earlier one; see `LatticeProblem.at_rays`.

        before: the lattice in the earlier cone. known: paths that rule out others. mixes [m, R]: weights in the cone,
        as mixes of the rays, whose best paths are computed; the middle comes first. link_work: most work for each link;
        a lattice that needs more stays open.
        """
        finder = self._finders.get(lambda: core.PathFinder(self._labels))
        needed = before.needed * _SHRINKING
        reach = np.abs(rays) @ self.longest[number]
        paths = np.array([*known.values()]).reshape(-1, rays.shape[1])
        graph = self.problem.exact_graphs[number]
        lattice = graph.links(), graph.features, graph.most_links
        n_chosen, left, middle, best, leading = finder.look_through(lattice, before.marks, rays, reach, mixes, paths)
        new: Paths = {}
        for row in best:
            new.pop(row.tobytes(), None)
            new[row.tobytes()] = row.copy()
        count = len(left)
        work = 2 * (len(rays) + len(mixes)) * n_chosen
        narrower = count < n_chosen
        most_work = link_work * (count + 100)
        crowded = needed <= most_work
        if crowded:
            found, more, done, features, links, ends = finder.list(most_work)
            work += more
            if found:
                ways = [links[begin:stop] for begin, stop in pairwise(ends.tolist())]
                return View(None, ways, features, middle, new, leading, work)
            needed = more * count / max(1, done)
        least, marks = before.least, before.marks
        if narrower:
            chosen = np.zeros(len(graph.sources), dtype=np.bool_)
            chosen[left] = True
            marks = np.packbits(chosen)
            least = max(least, self.problem.least_loss(number, left))
            work += count
        part = OpenLattice(marks, count, least, needed)
        return View(part, [], rays[:0], middle, new, leading, work, crowded)


Seen = tuple[int, OpenLattice, Paths]  # the number of a lattice, its state in the cone around, and its known paths


def view_lattices(
    expander: Expander, before: list[Seen], rays: FloatArray, mixes: FloatArray, link_work: int
) -> list[View]:
    """Propagate some lattices in a cone of rays [d, d]; see `Expander.view`."""
    views, rays = [], expander.problem.at_rays(rays)
    for lattice in before:
        checkpoint()
        views.append(expander.view(*lattice, rays, mixes, link_work))
    return views


def all_mixes(n_rays: int) -> FloatArray:
    """Return mixes [m, n] of the rays of a cone: the middle, near each ray, and, for few rays, near each pair."""
    near = np.eye(n_rays)
    pairs = range(n_rays if n_rays <= _FEW_RAYS else 0)
    between = [0.5 * (near[p] + near[q]) for p in pairs for q in range(p)]
    centre = np.full((1, n_rays), 1.0 / n_rays)
    return np.vstack([centre, 0.9 * np.vstack([near, *between]) + 0.1 * centre])


_UNIT = 8_000_000  # estimated work of a unit: some hundredths of a second

_SPLIT_WORK = 50_000
"""Work of branching a cone, for each lattice: listing the last open lattices is tried again for as much work."""

_MORE_WORK = 8  # factor on the work for each link when lattices are propagated again

COMPARISONS = 40
"""Most comparisons of partial paths for each link of a lattice; a lattice that needs more stays open, and the cone is
branched.
"""

_EARLY_SPLITS, _MOST_DOUBLINGS = 10, 20
"""Depth from which that limit doubles with every second branching, and the most doublings."""


class Cone(NamedTuple):
    """A waiting node: a cone, and the lattices as propagated in the cone around it.

    rays [d, d]. mixes [m, d]: mixes of the rays whose best paths are not known from the cone around; the first is the
    middle. depth: number of branchings. bound: dual bound. lists: the listed paths of some lattices. open: the other
    lattices, by number.
    """

    rays: FloatArray
    mixes: FloatArray
    depth: int
    bound: int
    lists: Lists
    open: dict[int, OpenLattice]


class Findings:
    """The knowledge of a search about all lattices: the paths that may win in some cone, and its counts.

    work: scores computed and labels compared. expanded: number of times that paths were listed; failed: number of times
    that there were too many. known: paths of each lattice that rule out others; these mappings are never changed.
    """

    def __init__(self, problem: LatticeProblem, expander: Expander) -> None:
        self._problem, self._longest = problem, expander.longest
        self.catalogue = Catalogue(problem)
        self.known: list[Paths] = [{} for _ in problem.graphs]
        self.work = self.expanded = self.failed = 0

    def narrowed(self, lists: Lists, rays: FloatArray) -> tuple[Lists, int, FloatArray, FloatArray]:
        """Propagate listed paths in a cone of rays [d, d] inside an earlier one.

        Returns the survivors, the sum of the least loss of each list, the summed statistics [K] of the best paths in
        the middle, and the scores [n, d] of the survivors at the rays.
        """
        rays = self._problem.at_rays(rays)
        reach = self._longest @ np.abs(rays).T
        ends, ids, scores, middle = core.narrow(self.catalogue.features, *lists, rays, reach)
        self.work += 20 * len(lists.ids) + 2000
        least = sum(np.minimum.reduceat(self.catalogue.losses(ids), ends[:-1]).tolist()) if len(ids) else 0
        return Lists(lists.numbers, ends, ids), least, self.catalogue.statistics[middle].sum(axis=0), scores

    def take(self, number: int, view: View) -> tuple[IntArray, FloatArray]:
        """Add a view of a lattice; return the catalogue numbers of its paths, and the statistics [K] in the middle."""
        earlier = {key: row for key, row in self.known[number].items() if key not in view.best}
        self.known[number] = dict([*earlier.items(), *view.best.items()][-MOST_KNOWN:])
        self.work += view.work
        self.failed += view.crowded
        self.expanded += view.part is None
        paths = zip(view.ways, view.features, strict=True)
        ids = np.array([self.catalogue.add(number, way, row) for way, row in paths], dtype=np.int64)
        return ids, self._problem.statistics(number, view.middle)


class Expansion:
    """The propagation of all lattices in a cone: listed ones at once, open ones by units of work.

    open: the lattices with too many paths so far; those still to be propagated (`waiting`) are as in the cone around.
    bound: dual bound of the cone so far. middle: the summed statistics [K] of the best paths in the middle. out: units
    in flight.
    """

    def __init__(self, findings: Findings, cone: Cone) -> None:
        self._findings, self.cone = findings, cone
        self._listed, self.bound, self.middle, scores = findings.narrowed(cone.lists, cone.rays)
        self.bound += sum(lattice.least for lattice in cone.open.values())
        self.open = dict(cone.open)
        self.out = 0
        self._found: dict[int, IntArray] = {}
        self._scores = [(scores, self._listed.ends[1:])]
        self.waiting = sorted(cone.open, key=lambda number: -cone.open[number].needed)
        self.link_work = COMPARISONS << min(max(0, cone.depth - _EARLY_SPLITS) // 2, _MOST_DOUBLINGS)
        self._may_retry = True

    @property
    def complete(self) -> bool:
        return not (self.waiting or self.out)

    @property
    def lists(self) -> Lists:
        return self._listed.joined(self._found)

    def next_unit(self) -> list[Seen]:
        rays_and_mixes = len(self.cone.rays) + len(self.cone.mixes)
        work, batch = 0.0, []
        while self.waiting and work < _UNIT:
            number = self.waiting.pop()
            lattice = self.open[number]
            work += 2 * rays_and_mixes * lattice.count + min(lattice.needed, self.link_work * (lattice.count + 100))
            batch.append((number, lattice, self._findings.known[number]))
        self.out += 1
        return batch

    def take(self, batch: list[Seen], views: list[View]) -> None:
        """Take the views of the lattices of a unit."""
        self.out -= 1
        for (number, before, _), view in zip(batch, views, strict=True):
            ids, middle = self._findings.take(number, view)
            self._scores.append((view.leading, np.array([len(view.leading)])))
            del self.open[number]
            if view.part is None:
                self._found[number] = ids
                least = int(self._findings.catalogue.losses(ids).min())
            else:
                self.open[number], least = view.part, view.part.least
            self.bound += max(least, before.least) - before.least
            if self._may_retry:  # on the second pass it is known
                self.middle = self.middle + middle
        if self.complete and self._may_retry:
            self._may_retry = False
            branching_work = _SPLIT_WORK * (len(self.open) + len(self._found) + len(self._listed.numbers))
            if sum(lattice.needed for lattice in self.open.values()) <= branching_work:
                self.waiting = list(self.open)
                self.link_work *= _MORE_WORK

    @property
    def scores(self) -> tuple[FloatArray, IntArray]:
        """Scores [n, D] at the rays of paths that no others beat, lattice by lattice, and the ends [s + 1] of these."""
        ends, last = [np.zeros(1, dtype=np.int64)], 0
        for scores, block_ends in self._scores:
            ends.append(block_ends + last)
            last += len(scores)
        return np.concatenate([scores for scores, _ in self._scores]), np.concatenate(ends)
