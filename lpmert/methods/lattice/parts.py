"""What is known of one lattice in a cone: the links through which a path may win, or the hypotheses that may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.lattice import kernels as kernel
from lpmert.methods.lattice.ideals import Ideals
from lpmert.methods.lattice.kernels import Ahead, Links, Space
from lpmert.methods.lattice.list_kernels import narrow
from lpmert.methods.lattice.lists import Catalogue, Lists
from lpmert.methods.lattice.mixtures import new_game
from lpmert.model.lattice_kernels import longest_path
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.numeric.kernels import EPSILON

_KNOWN_PATHS = 32
"""Whole paths of a lattice that are remembered to rule out others: those that were best last, somewhere in a cone."""

_HOPELESS = 3.0
"""How many times the work that is allowed must be needed for a lattice not to be looked at in a cone."""

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


class View(NamedTuple):
    """A lattice in a cone: what is left of it, or `None` and the numbers of its hypotheses; the statistics [K] of its
    best path in the middle, if that was looked at; and the scores [P, D] at the rays of some paths that no others beat.
    """

    part: OpenLattice | None
    ids: IntArray
    middle: FloatArray | None
    leading: FloatArray


_NO_IDS = np.empty(0, dtype=np.int64)


class Expander:
    """Finds the parts of all lattices of a problem in cones.

    labels: room for so many, beyond which a lattice stays open. work: what was done since the beginning, in scores
    computed and labels compared; expanded, failed: how often hypotheses were listed, and how often they were too many.
    """

    def __init__(self, problem: LatticeProblem, labels: int) -> None:
        self._problem = problem
        self._longest = np.array([longest_sums(problem, number) for number in range(len(problem.graphs))])
        self.catalogue = Catalogue(problem)
        self.ideals = Ideals(problem)
        self._known: list[dict[bytes, FloatArray]] = [{} for _ in problem.graphs]
        nodes, width = max(graph.n_nodes for graph in problem.graphs), problem.canonical.n_features
        self._space = Space(
            np.empty((labels + 1, width)),
            np.empty((labels + 1, width)),
            np.empty((labels + 1, 3), dtype=np.int64),
            np.empty(labels + 1, dtype=np.bool_),
            np.empty(nodes + 1, dtype=np.int64),
        )
        self._game = new_game(width, labels + 1)
        self.work = 0
        self.expanded = self.failed = 0

    def whole(self, number: int) -> OpenLattice:
        """Return all of a lattice."""
        n_links = len(self._problem.graphs[number].sources)
        marks = np.packbits(np.ones(n_links, dtype=np.bool_))
        return OpenLattice(marks, n_links, self._problem.least_loss(number), 0.0, self.ideals.rows(number))

    def bound_of_ratio(self, lists: Lists, open: Mapping[int, OpenLattice], middle: FloatArray | None) -> int:
        """Return a bound on the cost of a ratio metric, 0 where nothing stands for some open lattice, or none is open.

        middle [K]: the sums of what is best somewhere.
        """
        rows = [lattice.rows for lattice in open.values()]
        known = [own for own in rows if own is not None]
        if not known or len(known) < len(rows):
            return 0
        listed = [self.catalogue.statistics[ids] for ids in lists.split().values()]
        return self.ideals.bound([*listed, *known], middle)

    def narrowed(self, lists: Lists, rays: FloatArray) -> tuple[Lists, int, FloatArray, FloatArray]:
        """Return the hypotheses of lists that may win in a smaller cone, their least losses, summed, the summed
        statistics [K] of the best in the middle, and their scores [n, D] at the rays.
        """
        reach = self._longest @ np.abs(rays).T
        kept, scores = Lists(*map(np.empty_like, lists)), np.empty((len(lists.ids), len(rays)))
        middle = np.empty_like(lists.numbers)
        narrow(self.catalogue.features, lists, rays, reach, self._game, kept, scores, middle)
        n = int(kept.ends[-1])
        self.work += 20 * len(lists.ids) + 2000
        kept = kept._replace(ids=kept.ids[:n].copy())
        least = sum(np.minimum.reduceat(self.catalogue.losses(kept.ids), kept.ends[:-1]).tolist()) if n else 0
        return kept, least, self.catalogue.statistics[middle].sum(axis=0), scores[:n]

    def view(self, number: int, before: OpenLattice, rays: FloatArray, mixes: FloatArray, link_work: int) -> View:
        """Return what there is of a lattice in a smaller cone.

        It stays open where more work than that for each link is needed. mixes [m, d] of the rays: where the best paths
        are looked at, first in the middle; none where much more work is needed.
        """
        needed = before.needed * _SHRINKING
        if needed > _HOPELESS * link_work * before.count:
            return View(replace(before, needed=needed), _NO_IDS, None, self._leading(number, rays))
        graph = self._problem.graphs[number]
        chosen = np.flatnonzero(np.unpackbits(before.marks, count=len(graph.sources))).astype(np.int32)
        links = Links(graph.sources[chosen], graph.seconds[chosen], graph.targets[chosen], graph.features[chosen])
        n_rays, reach = len(rays), np.abs(rays) @ self._longest[number]
        scores = np.empty((len(chosen), n_rays))
        so_far, to_come = np.empty((graph.n_nodes, n_rays)), np.empty((graph.n_nodes, n_rays))
        kernel.survey(links, rays, scores, so_far, to_come)
        known, middle = self._known[number], None
        best, link = np.empty(graph.n_nodes), np.empty(graph.n_nodes, dtype=np.int64)
        stack, way = np.empty(graph.n_nodes + 1, dtype=np.int64), np.empty(graph.most_links, dtype=np.int64)
        for place, mix in enumerate(mixes):
            length = kernel.best_path(links, scores, mix, best, link, stack, way)
            found = chosen[way[:length]]
            if place == 0:
                middle = self._problem.statistics(number, found)
            row = graph.features[found].sum(axis=0) + 0.0
            known.pop(row.tobytes(), None)
            known[row.tobytes()] = row
        while len(known) > _KNOWN_PATHS:
            del known[next(iter(known))]
        slack = 4.0 * (graph.most_links + n_rays + 4) * EPSILON * reach
        tolerance = 2.0 * (n_rays + 2) * EPSILON * reach
        leading = self._leading(number, rays)
        ahead = Ahead(to_come, leading, slack, tolerance)
        kept = np.empty(len(chosen), dtype=np.bool_)
        count = kernel.keep_links(links, scores, so_far, ahead, kept)
        self.work += 2 * (n_rays + len(mixes)) * len(chosen)
        marks = before.marks
        if count < len(chosen):
            chosen = chosen[kept]
            whole = np.zeros(len(graph.sources), dtype=np.bool_)
            whole[chosen] = True
            marks = np.packbits(whole)
        most_work = link_work * (count + 100)
        if needed <= most_work:
            if count < len(kept):
                links = Links(links.sources[kept], links.seconds[kept], links.targets[kept], links.features[kept])
            first, end, work, done = kernel.frontier(
                links, graph.n_nodes, rays, ahead, most_work, self._space, self._game
            )
            self.work += work
            if first >= 0:
                self.expanded += 1
                return View(None, self._listed(number, chosen, first, end), middle, leading)
            self.failed += 1
            needed = work * count / max(1, done)
        least, rows = before.least, before.rows
        if count < len(kept):
            least = max(least, self._problem.least_loss(number, chosen))
            rows = None if rows is None else self.ideals.rows(number, chosen)
            self.work += count
        return View(OpenLattice(marks, count, least, needed, rows), _NO_IDS, middle, leading)

    def _leading(self, number: int, rays: FloatArray) -> FloatArray:
        """Return the scores [P, D] at the rays of those known paths that no others beat."""
        paths = np.array(list(self._known[number].values()))
        scores, dead = np.empty((len(paths), len(rays))), np.zeros(len(paths), dtype=np.bool_)
        tolerance = 2.0 * (len(rays) + 2) * EPSILON * (np.abs(rays) @ self._longest[number])
        kernel.leading(paths, rays, tolerance, scores, dead, self._game)
        return scores[~dead]

    def _listed(self, number: int, chosen: NDArray[np.int32], first: int, end: int) -> IntArray:
        """Return the numbers of the hypotheses whose labels stand in the work space."""
        space, graph = self._space, self._problem.graphs[number]
        lengths, stack = np.empty(end - first, dtype=np.int64), np.empty(graph.n_nodes + 1, dtype=np.int64)
        flat = np.empty(0, dtype=np.int64)
        flat = np.empty(kernel.trace(space.came, first, end, stack, lengths, flat), dtype=np.int64)
        kernel.trace(space.came, first, end, stack, lengths, flat)
        ways = np.split(chosen[flat], np.cumsum(lengths)[:-1])
        return np.array([self.catalogue.add(number, way) for way in ways])


def longest_sums(problem: LatticeProblem, number: int) -> FloatArray:
    """Return for each feature [d] the largest sum of magnitudes along a path of a lattice."""
    graph = problem.graphs[number]
    found = []
    for column in np.abs(graph.features.T):
        longest = np.empty(graph.n_nodes)
        longest_path(graph.sources, graph.seconds, graph.targets, np.ascontiguousarray(column), longest)
        found.append(longest[-1])
    return np.array(found)


def all_mixes(n_rays: int) -> FloatArray:
    """Return mixes [m, n] of the rays of a cone: the middle, beside each ray, and between each two."""
    near = np.eye(n_rays)
    between = [0.5 * (near[p] + near[q]) for p in range(n_rays) for q in range(p)]
    centre = np.full((1, n_rays), 1.0 / n_rays)
    return np.vstack([centre, 0.9 * np.vstack([near, *between]) + 0.1 * centre])
