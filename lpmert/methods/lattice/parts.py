"""What is known of one lattice in a cone: the links through which a path may win, or the hypotheses that may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.lattice import kernels as kernel
from lpmert.model.lattice_kernels import longest_path
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.numeric.kernels import EPSILON

Links = NDArray[np.int32]


class Space(NamedTuple):
    """Work space for labels: their features and scores [N, D], the label and link [N, 2] each came by, which are dead
    [N]; first [n + 1]: the first label of each node.
    """

    labels: FloatArray
    scores: FloatArray
    came: IntArray
    dead: NDArray[np.bool_]
    first: IntArray


@dataclass(frozen=True, eq=False)
class OpenLattice:
    """A lattice with too many hypotheses that may win in the cone: the links [l] of their paths, and the least loss."""

    links: Links
    least: int

    @property
    def nbytes(self) -> int:
        return self.links.nbytes


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """All hypotheses of a lattice that may win in the cone: features [n, d], losses [n], and paths, links from the last
    to the first, one after the other, of so many links [n].
    """

    features: FloatArray
    losses: IntArray
    ways: list[Links]

    @property
    def least(self) -> int:
        return int(self.losses.min())

    @property
    def nbytes(self) -> int:
        return self.features.nbytes + self.losses.nbytes + 4 * sum(map(len, self.ways))

    def take(self, rows: IntArray) -> Hypotheses:
        """Return some of them."""
        return Hypotheses(self.features[rows], self.losses[rows], [self.ways[row] for row in rows.tolist()])


Part = OpenLattice | Hypotheses


class Expander:
    """Finds the parts of all lattices of a problem in cones.

    labels: room for so many, beyond which a lattice stays open. work: what was done since the beginning, in scores
    computed and labels compared; expanded, failed: how often hypotheses were listed, and how often they were too many.
    """

    def __init__(self, problem: LatticeProblem, labels: int) -> None:
        self._problem = problem
        self._longest = [longest_sums(problem, number) for number in range(len(problem.graphs))]
        nodes, width = max(graph.n_nodes for graph in problem.graphs), problem.canonical.n_features
        self._space = Space(
            np.empty((labels + 1, width)),
            np.empty((labels + 1, width)),
            np.empty((labels + 1, 2), dtype=np.int64),
            np.empty(labels + 1, dtype=np.bool_),
            np.empty(nodes + 1, dtype=np.int64),
        )
        centre, near = np.full((1, width), 1.0 / width), np.eye(width)
        between = [0.5 * (near[p] + near[q]) for p in range(width) for q in range(p)]
        self._mixes = np.vstack([0.9 * np.vstack([near, *between]) + 0.1 * centre, centre])
        self.work = 0
        self.expanded = self.failed = 0

    def whole(self, number: int) -> OpenLattice:
        """Return all of a lattice."""
        links = np.arange(len(self._problem.graphs[number].sources), dtype=np.int32)
        return OpenLattice(links, self._problem.least_loss(number))

    def part(self, number: int, before: Part, rays: FloatArray, most_work: int) -> tuple[Part, int]:
        """Return what is left of a lattice in a smaller cone, and what its best path in the middle of that loses.

        It stays open where more work than that is needed.
        """
        if isinstance(before, Hypotheses):
            return self._narrowed(number, before, rays)
        graph, links = self._problem.graphs[number], before.links
        sources, targets, features = graph.sources[links], graph.targets[links], graph.features[links]
        n_rays, reach = len(rays), np.abs(rays) @ self._longest[number]
        slack = 4.0 * (graph.n_nodes + n_rays + 4) * EPSILON * reach
        scores = np.empty((len(links), n_rays))
        so_far, to_come = np.empty((graph.n_nodes, n_rays)), np.empty((graph.n_nodes, n_rays))
        kernel.survey(sources, targets, features, rays, scores, so_far, to_come)
        best, link = np.empty(graph.n_nodes), np.empty(graph.n_nodes, dtype=np.int64)
        way, totals = np.empty(graph.n_nodes, dtype=np.int64), np.empty((len(self._mixes), n_rays))
        for k, mix in enumerate(self._mixes):  # the last one is the centre
            length = kernel.best_path(sources, targets, scores, mix, best, link, way, totals[k])
        middle = self._problem.loss(number, links[way[:length]])
        kept = np.empty(len(links), dtype=np.bool_)
        count = kernel.keep_links(sources, targets, scores, so_far, to_come, totals, slack, kept)
        self.work += 4 * (n_rays + 2) * len(links)
        if count < len(links):
            links = links[kept]
            sources, targets, features = sources[kept], targets[kept], features[kept]
        tolerance = 2.0 * (n_rays + 2) * EPSILON * reach
        space = self._space
        first, end, work = kernel.frontier(
            sources, targets, features, rays, to_come, totals, slack, tolerance, most_work, space
        )
        self.work += work
        if first < 0:
            self.failed += 1
            return OpenLattice(links, self._problem.least_loss(number, links)), middle
        self.expanded += 1
        lengths = np.empty(end - first, dtype=np.int64)
        flat = np.empty(0, dtype=np.int64)
        needed = kernel.trace(space.came, first, end, lengths, flat)
        flat = np.empty(needed, dtype=np.int64)
        kernel.trace(space.came, first, end, lengths, flat)
        ways = np.split(links[flat], np.cumsum(lengths)[:-1])
        losses = np.array([self._problem.loss(number, way) for way in ways], dtype=np.int64)
        return Hypotheses(space.labels[first:end].copy(), losses, ways), middle

    def _narrowed(self, number: int, before: Hypotheses, rays: FloatArray) -> tuple[Hypotheses, int]:
        n = len(before.losses)
        scores, dead = np.empty((n, len(rays))), np.zeros(n, dtype=np.bool_)
        tolerance = 2.0 * (len(rays) + 2) * EPSILON * (np.abs(rays) @ self._longest[number])
        kernel.drop_beaten(before.features, rays, tolerance, scores, dead)
        self.work += n * n
        middle = int(before.losses[int(np.argmax(scores.sum(axis=1)))])
        return before.take(np.flatnonzero(~dead)), middle


def longest_sums(problem: LatticeProblem, number: int) -> FloatArray:
    """Return for each feature [d] the largest sum of magnitudes along a path of a lattice."""
    graph = problem.graphs[number]
    found = []
    for column in np.abs(graph.features.T):
        longest = np.empty(graph.n_nodes)
        longest_path(graph.sources, graph.targets, np.ascontiguousarray(column), longest)
        found.append(longest[-1])
    return np.array(found)
