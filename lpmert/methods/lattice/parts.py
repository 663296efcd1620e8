"""What is known of one lattice in a cone: the links through which a path may win, or the hypotheses that may."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert import core
from lpmert.errors import FloatArray
from lpmert.methods.lattice.ideals import Ideals
from lpmert.methods.lattice.lists import Way
from lpmert.model.lattice_problem import LatticeProblem
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
        self._finders: PerThread[core.PathFinder] = PerThread()

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
        finder = self._finders.get(lambda: core.PathFinder(self._labels))
        needed = before.needed * _SHRINKING
        cone = rays, np.abs(rays) @ self.longest[number]
        paths = np.array([*known.values()]).reshape(-1, rays.shape[1])
        if needed > _HOPELESS * link_work * before.count:
            return View(replace(before, needed=needed), [], rays[:0], None, {}, finder.lead(cone, paths), 0)
        graph = self._problem.exact_graphs[number]
        lattice = graph.links(), graph.features, graph.most_links
        n_chosen, left, middle, best, leading = finder.look_through(lattice, before.marks, cone, mixes, paths)
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
            found, more, done = finder.list(most_work)
            work += more
            if found:
                features, links, ends = finder.listed()
                ways = [links[begin:stop] for begin, stop in pairwise(ends.tolist())]
                return View(None, ways, features, middle, new, leading, work)
            needed = more * count / max(1, done)
        least, rows, marks = before.least, before.rows, before.marks
        if narrower:
            chosen = np.zeros(len(graph.sources), dtype=np.bool_)
            chosen[left] = True
            marks = np.packbits(chosen)
            least = max(least, self._problem.least_loss(number, left))
            rows = None if rows is None else self.ideals.rows(number, left)
            work += count
        part = OpenLattice(marks, count, least, needed, rows)
        return View(part, [], rays[:0], middle, new, leading, work, crowded)


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


def longest_sums(problem: LatticeProblem, number: int) -> FloatArray:
    """Return for each feature [d] the largest sum of magnitudes along a path of a lattice."""
    graph = problem.exact_graphs[number]
    return graph.links().largest_sums(np.abs(graph.features))


def all_mixes(n_rays: int) -> FloatArray:
    """Return mixes [m, n] of the rays of a cone: the middle, beside each ray, and between each two of few."""
    near = np.eye(n_rays)
    pairs = range(n_rays if n_rays <= _FEW_RAYS else 0)
    between = [0.5 * (near[p] + near[q]) for p in pairs for q in range(p)]
    centre = np.full((1, n_rays), 1.0 / n_rays)
    return np.vstack([centre, 0.9 * np.vstack([near, *between]) + 0.1 * centre])
