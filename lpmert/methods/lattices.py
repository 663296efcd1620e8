"""Branch and bound over cones of weights on lattices: a node is a cone, with the paths of all lattices that may win.

A unit of work propagates some lattices in a cone (`Expander.views`); the search collects the answers in an `Expansion`.
A lattice with too many paths that may win stays open: it counts in the dual bound with the least loss of these, until
branching has made the cone narrow enough. A cone without open lattices is a leaf, which `cells` solves as N-best lists
of its paths. A path of a lattice is a hypothesis, as in `Catalogue`.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert import core
from lpmert.errors import FloatArray, IntArray
from lpmert.limits import checkpoint
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.model.lattice_problem import Catalogue, LatticeProblem, Lists, Verdict, Way, no_lists
from lpmert.numeric.cone import cones_of_region
from lpmert.numeric.lists import least_costs, take_rows
from lpmert.numeric.rational import two_sum
from lpmert.search.combined import Combined
from lpmert.search.method import Incumbent, Search
from lpmert.workers import SERIAL, Pending, PerThread, Shared, Workers, current_workers

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


Seen = tuple[int, OpenLattice, Paths]  # the number of a lattice, its state in the cone around, and its known paths

_LABELS = 200_000  # most partial paths of a lattice in a cone, beyond which it stays open


class Expander:
    """Propagates the lattices of a problem in cones; several threads can use it at once.

    longest [S, D]: for each lattice and feature, the largest sum of absolute values along a path.
    """

    def __init__(self, problem: LatticeProblem) -> None:
        self.problem = problem
        self.longest = np.array([graph.links().largest_sums(np.abs(graph.features)) for graph in problem.exact_graphs])
        self._finders: PerThread[core.PathFinder] = PerThread()

    def whole(self, number: int) -> OpenLattice:
        graph = self.problem.graphs[number]
        n_links = len(graph.sources)
        marks = np.packbits(np.ones(n_links, dtype=np.bool_))
        return OpenLattice(marks, n_links, self.problem.least_loss(number), 0.0)

    def views(self, lattices: list[Seen], rays: FloatArray, mixes: FloatArray, link_work: int) -> list[View]:
        """Propagate some lattices in a cone of rays [d, d] inside the cones in which they were seen.

        mixes [m, d]: weights in the cone, as mixes of the rays, whose best paths are computed; the middle comes first.
        link_work: most work for each link; a lattice that needs more stays open.
        """
        found, rays = [], self.problem.at_rays(rays)
        for number, before, known in lattices:
            checkpoint()
            found.append(self._view(number, before, known, rays, mixes, link_work))
        return found

    def _view(
        self, number: int, before: OpenLattice, known: Paths, rays: FloatArray, mixes: FloatArray, link_work: int
    ) -> View:
        finder = self._finders.get(lambda: core.PathFinder(_LABELS))
        needed = before.needed * _SHRINKING
        reach = np.abs(rays) @ self.longest[number]
        paths = np.array([*known.values()]).reshape(-1, rays.shape[1])
        graph = self.problem.exact_graphs[number]
        lattice = graph.links(), graph.features, graph.most_links
        n_chosen, left, middle, best, leading = finder.look_through(*lattice, before.marks, rays, reach, mixes, paths)
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


class Expansion:
    """The propagation of all lattices in a cone: listed ones at once, open ones by units of work.

    open: the lattices with too many paths so far; those still to be propagated (`waiting`) are as in the cone around.
    bound: dual bound of the cone so far. middle: the summed statistics [K] of the best paths in the middle. out: units
    in flight.
    """

    def __init__(self, search: LatticeSearch, cone: Cone) -> None:
        self.cone = cone
        self._listed, self.bound, self.middle, scores = search.narrowed(cone.lists, cone.rays)
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

    def next_unit(self, known: Sequence[Paths]) -> list[Seen]:
        rays_and_mixes = len(self.cone.rays) + len(self.cone.mixes)
        work, batch = 0.0, []
        while self.waiting and work < _UNIT:
            number = self.waiting.pop()
            lattice = self.open[number]
            work += 2 * rays_and_mixes * lattice.count + min(lattice.needed, self.link_work * (lattice.count + 100))
            batch.append((number, lattice, known[number]))
        self.out += 1
        return batch

    def take(self, search: LatticeSearch, batch: list[Seen], views: list[View]) -> None:
        self.out -= 1
        for (number, before, _), view in zip(batch, views, strict=True):
            ids, middle = search.take_view(number, view)
            self._scores.append((view.leading, np.array([len(view.leading)])))
            del self.open[number]
            if view.part is None:
                self._found[number] = ids
                least = int(search.catalogue.losses(ids).min())
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


_ALONE = 5_000_000  # work on lattices, some hundredths of a second, after which units are submitted to workers
_LOCAL_WORK = 60_000_000  # the same for workers that take long to start: about half a second

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

    start: starts the search of a leaf. slots: units in flight at once. catalogue: the paths that may win in some cone;
    `_known`: those of each lattice that rule out others, in mappings that are never changed. work: scores computed and
    labels compared.
    """

    phase = "cones"

    def __init__(self, problem: LatticeProblem, incumbent: Incumbent, start: Start, slots: int) -> None:
        super().__init__(incumbent)
        self.problem, self._start, self._slots = problem, start, slots
        self._expander = Expander(problem)
        self.catalogue: Catalogue = Catalogue(problem)
        self._known: list[Paths] = [{} for _ in problem.graphs]
        self.work = self._n_listed = self._n_crowded = 0
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
            "expanded": self._n_listed,
            "too_many": self._n_crowded,
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

    def narrowed(self, lists: Lists, rays: FloatArray) -> tuple[Lists, int, FloatArray, FloatArray]:
        """Propagate listed paths in a cone of rays [d, d] inside an earlier one.

        Returns the survivors, the sum of the least loss of each list, the summed statistics [K] of the best paths in
        the middle, and the scores [n, d] of the survivors at the rays.
        """
        rays = self.problem.at_rays(rays)
        reach = self._expander.longest @ np.abs(rays).T
        ends, ids, scores, middle = core.narrow(self.catalogue.features, *lists, rays, reach)
        self.work += 20 * len(lists.ids) + 2000
        least = sum(np.minimum.reduceat(self.catalogue.losses(ids), ends[:-1]).tolist()) if len(ids) else 0
        return Lists(lists.numbers, ends, ids), least, self.catalogue.statistics[middle].sum(axis=0), scores

    def take_view(self, number: int, view: View) -> tuple[IntArray, FloatArray]:
        """Add a view of a lattice; return the catalogue numbers of its paths, and the statistics [K] in the middle."""
        earlier = {key: row for key, row in self._known[number].items() if key not in view.best}
        self._known[number] = dict([*earlier.items(), *view.best.items()][-MOST_KNOWN:])
        self.work += view.work
        self._n_crowded += view.crowded
        self._n_listed += view.part is None
        paths = zip(view.ways, view.features, strict=True)
        ids = np.array([self.catalogue.add(number, way, row) for way, row in paths], dtype=np.int64)
        return ids, self.problem.statistics(number, view.middle)

    def _take_views(self) -> None:
        """Submit units, and take the answer to the oldest one."""
        self._submit()
        if not self._in_flight:
            return
        expansion, batch, pending = self._in_flight[0]
        views = pending.wait()
        self._in_flight.popleft()
        expansion.take(self, batch, views)
        self._close_or_branch(expansion)
        self._submit()

    def _submit(self) -> None:
        workers = current_workers()
        if self._workers is SERIAL and self.work >= (_LOCAL_WORK if workers.remote else _ALONE):
            self._workers, self._shared = workers, workers.share(self._expander)
        slots = 1 if self.work < _ALONE else self._slots
        while len(self._in_flight) < slots:
            waiting = [expansion for expansion in self._expansions if expansion.waiting]
            idle = any(not expansion.out for expansion in waiting)
            if not idle and self._queue and self._queue[0][0] < self.incumbent.cost:
                self._expand_cone(self._queue[0][2])
                continue
            if not waiting:
                return
            expansion = min(waiting, key=lambda expansion: expansion.out)
            batch, cone, link_work = expansion.next_unit(self._known), expansion.cone, expansion.link_work
            pending = self._workers.submit(Expander.views, self._shared, batch, cone.rays, cone.mixes, link_work)
            self._in_flight.append((expansion, batch, pending))

    def _expand_cone(self, cone: Cone) -> None:
        """Start to expand the cone with the least bound; listed paths are propagated at once."""
        expansion = Expansion(self, cone)
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
