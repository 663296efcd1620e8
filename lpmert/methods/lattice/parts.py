"""What is known of one lattice in a cone: the links through which a path may win, or the hypotheses that may."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray
from lpmert.methods.lattice import kernels as kernel
from lpmert.methods.lattice.ideals import Ideals
from lpmert.methods.lattice.kernels import Ahead, Links, Space
from lpmert.methods.lattice.link_kernels import Sought, Workbench, look_through, new_workbench
from lpmert.methods.lattice.lists import Way
from lpmert.methods.lattice.mixtures import Game, new_game
from lpmert.model.lattice_kernels import longest_path
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.numeric.kernels import EPSILON
from lpmert.system.deadline import checkpoint
from lpmert.workers import PerThread

_HOPELESS = 3.0
"""How many times the work that is allowed must be needed for a lattice not to be looked at in a cone."""

_FEW_RAYS = 32
"""Beyond these there would be too many mixes of two."""

_SHRINKING = 0.4
"""To which share the work on a lattice falls from a cone to its halves, as a guess."""


@dataclass(frozen=True, eq=False)
class OpenLattice:
    """A lattice with too many hypotheses that may win in the cone.

    marks: bits of the links of their paths, `count` of them; least: the least loss of these; needed: about how much
    work it would be to list them. rows [P, K]: for a metric that is a ratio, what stands for them (see `ideals`),
    `None` where nothing does.
    """

    marks: NDArray[np.uint8]
    count: int
    least: int
    needed: float
    rows: FloatArray | None = None

    @property
    def nbytes(self) -> int:
        return self.marks.nbytes + (0 if self.rows is None else self.rows.nbytes)


MOST_KNOWN = 32
"""Whole paths of a lattice that are remembered to rule out others: those that were best last, somewhere in a cone."""

Paths = dict[bytes, FloatArray]
"""The features [D] of some paths of a lattice, by their bytes; those that were best last come last."""


class View(NamedTuple):
    """A lattice in a cone: what is left of it, or `None` and its hypotheses, with their features [n, D]; the links of
    its best path in the middle, `None` if that was not looked at; the features of those that are best somewhere; the
    scores [P, R] at the rays of some paths that no others beat; and the work, in scores computed and labels compared.
    crowded: whether the hypotheses were to be listed, and were too many.
    """

    part: OpenLattice | None
    ways: list[Way]
    features: FloatArray
    middle: Way | None
    best: Paths
    leading: FloatArray
    work: int
    crowded: bool = False


class Expander:
    """Finds the parts of all lattices of a problem in cones; several threads may use it at once.

    labels: room for so many, beyond which a lattice stays open. longest [S, D]: see `longest_sums`.
    """

    def __init__(self, problem: LatticeProblem, labels: int) -> None:
        self._problem, self._labels = problem, labels
        self.longest = np.array([longest_sums(problem, number) for number in range(len(problem.graphs))])
        self.ideals = Ideals(problem)
        self._rooms: PerThread[tuple[Workbench, Space, Game]] = PerThread()

    def at_rays(self, rays: FloatArray) -> FloatArray:
        """See `LatticeProblem.at_rays`."""
        return self._problem.at_rays(rays)

    def whole(self, number: int) -> OpenLattice:
        """Return all of a lattice."""
        graph = self._problem.graphs[number]
        n_links = len(graph.sources)
        marks = np.packbits(np.ones(n_links, dtype=np.bool_))
        return OpenLattice(marks, n_links, self._problem.least_loss(number), 0.0, self.ideals.rows(number))

    def view(
        self, number: int, before: OpenLattice, known: Paths, rays: FloatArray, mixes: FloatArray, link_work: int
    ) -> View:
        """Return what there is of a lattice in a smaller cone of rays [R, D], see `LatticeProblem.at_rays`.

        It stays open where more work than that for each link is needed. known: paths that rule out others. mixes [m, R]
        of the rays: where the best paths are looked at, first in the middle; none where much more work is needed.
        """
        bench, space, game = self._rooms.get(self._new_room)
        needed = before.needed * _SHRINKING
        n_rays, n_features = rays.shape
        reach = np.abs(rays) @ self.longest[number]
        tolerance = 2.0 * (n_features + 3) * EPSILON * reach
        if needed > _HOPELESS * link_work * before.count:
            leading = _leading(known, rays, tolerance, game)
            return View(replace(before, needed=needed), [], rays[:0], None, {}, leading, 0)
        graph = self._problem.exact_graphs[number]
        sought = Sought(
            np.empty(graph.most_links, dtype=np.int32),
            np.empty_like(before.marks),
            np.array([*known.values(), *np.zeros((len(mixes), n_features))]),
            np.empty((len(known) + len(mixes), n_rays)),
            np.empty(len(known) + len(mixes), dtype=np.bool_),
        )
        slack = 4.0 * (graph.most_links + n_features + 5) * EPSILON * reach
        links = Links(graph.sources, graph.seconds, graph.targets, graph.features)
        n_chosen, count, length, n_leading = look_through(
            links, graph.n_nodes, before.marks, rays, mixes, slack, tolerance, bench, game, sought
        )
        middle = sought.middle[:length].copy()
        new: Paths = {}
        for row in sought.paths[len(known) :]:
            new.pop(row.tobytes(), None)
            new[row.tobytes()] = row.copy()
        leading = sought.scores[:n_leading].copy()
        ahead = Ahead(bench.to_come[: graph.n_nodes], leading, slack, tolerance)
        sources, seconds, targets, features = bench.links
        links = Links(sources[:count], seconds[:count], targets[:count], features[:count])
        chosen = bench.chosen[:count]
        work = 2 * (n_rays + len(mixes)) * n_chosen
        narrower = count < n_chosen
        most_work = link_work * (count + 100)
        crowded = needed <= most_work
        if crowded:
            first, end, more, done = kernel.frontier(links, graph.n_nodes, rays, ahead, most_work, space, game)
            work += more
            if first >= 0:
                ways = _ways(space, graph.n_nodes, chosen, first, end)
                return View(None, ways, space.labels[first:end].copy(), middle, new, leading, work)
            needed = more * count / max(1, done)
        least, rows = before.least, before.rows
        if narrower:
            least = max(least, self._problem.least_loss(number, chosen))
            rows = None if rows is None else self.ideals.rows(number, chosen)
            work += count
        marks = sought.marks if narrower else before.marks
        part = OpenLattice(marks, count, least, needed, rows)
        return View(part, [], rays[:0], middle, new, leading, work, crowded)

    def _new_room(self) -> tuple[Workbench, Space, Game]:
        graphs, n_rays = self._problem.exact_graphs, self._problem.canonical.n_features
        labels, n_features = self._labels + 1, graphs[0].features.shape[1]
        n_links = max(len(graph.sources) for graph in graphs)
        n_nodes = max(graph.n_nodes for graph in graphs)
        space = Space(
            np.empty((labels, n_features)),
            np.empty((labels, n_rays)),
            np.empty((labels, 3), dtype=np.int64),
            np.empty(labels, dtype=np.bool_),
            np.empty(n_nodes + 1, dtype=np.int64),
            np.empty(n_rays),
        )
        # Whole paths that are compared with each other need as much room as labels.
        most = max(labels, MOST_KNOWN + len(all_mixes(n_rays)))
        return new_workbench(n_links, n_nodes, n_features, n_rays), space, new_game(n_rays, most)


Before = tuple[int, OpenLattice, Paths]
"""A lattice by its number, what there is of it in a cone, and paths that are known."""


def look(expander: Expander, before: list[Before], rays: FloatArray, mixes: FloatArray, link_work: int) -> list[View]:
    """Look at some lattices in a smaller cone of rays [d, d]; see `Expander.view`."""
    views, rays = [], expander.at_rays(rays)
    for lattice in before:
        checkpoint()
        views.append(expander.view(*lattice, rays, mixes, link_work))
    return views


def joined(known: Paths, new: Paths) -> Paths:
    """Return paths that are known and new ones, the latter last."""
    return {key: row for key, row in known.items() if key not in new} | new


def _leading(known: Paths, rays: FloatArray, tolerance: FloatArray, game: Game) -> FloatArray:
    """Return the scores [P, R] at the rays of those paths that no others beat."""
    paths = np.array(list(known.values())).reshape(-1, rays.shape[1])
    scores, dead = np.empty((len(paths), len(rays))), np.zeros(len(paths), dtype=np.bool_)
    kernel.leading(paths, rays, tolerance, scores, dead, game)
    return scores[~dead]


def _ways(space: Space, n_nodes: int, chosen: NDArray[np.integer], first: int, end: int) -> list[Way]:
    """Return the links of the hypotheses whose labels stand in the work space."""
    lengths, stack = np.empty(end - first, dtype=np.int64), np.empty(n_nodes + 1, dtype=np.int64)
    flat = np.empty(0, dtype=np.int64)
    flat = np.empty(kernel.trace(space.came, first, end, stack, lengths, flat), dtype=np.int64)
    kernel.trace(space.came, first, end, stack, lengths, flat)
    links = chosen[flat].astype(np.int32)
    return [links[begin:stop] for begin, stop in pairwise([0, *np.cumsum(lengths).tolist()])]


def longest_sums(problem: LatticeProblem, number: int) -> FloatArray:
    """Return for each feature [d] the largest sum of magnitudes along a path of a lattice."""
    graph = problem.exact_graphs[number]
    found = []
    for column in np.abs(graph.features.T):
        longest = np.empty(graph.n_nodes)
        longest_path(graph.sources, graph.seconds, graph.targets, np.ascontiguousarray(column), longest)
        found.append(longest[-1])
    return np.array(found)


def all_mixes(n_rays: int) -> FloatArray:
    """Return mixes [m, n] of the rays of a cone: the middle, beside each ray, and between each two of few."""
    near = np.eye(n_rays)
    pairs = range(n_rays if n_rays <= _FEW_RAYS else 0)
    between = [0.5 * (near[p] + near[q]) for p in pairs for q in range(p)]
    centre = np.full((1, n_rays), 1.0 / n_rays)
    return np.vstack([centre, 0.9 * np.vstack([near, *between]) + 0.1 * centre])
