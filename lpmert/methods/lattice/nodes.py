"""Nodes of the search over lattices: cones, and what may win there of every lattice, its links or its hypotheses.

Units of work look at some lattices in a cone, and the search takes their answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert import core
from lpmert.errors import FloatArray, IntArray
from lpmert.model.catalogue import Catalogue, Lists, Way, checked_array
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.quoting import quoted
from lpmert.search.checkpoint import State, plain
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
    work it would be to list them.
    """

    marks: NDArray[np.uint8]
    count: int
    least: int
    needed: float


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

    labels: room for so many, beyond which a lattice stays open. longest [S, D]: the largest sum of magnitudes of each
    feature along a path.
    """

    def __init__(self, problem: LatticeProblem, labels: int) -> None:
        self._problem, self._labels = problem, labels
        self.longest = np.array([graph.links().largest_sums(np.abs(graph.features)) for graph in problem.exact_graphs])
        self._finders: PerThread[core.PathFinder] = PerThread()

    def at_rays(self, rays: FloatArray) -> FloatArray:
        """See `LatticeProblem.at_rays`."""
        return self._problem.at_rays(rays)

    def whole(self, number: int) -> OpenLattice:
        graph = self._problem.graphs[number]
        n_links = len(graph.sources)
        marks = np.packbits(np.ones(n_links, dtype=np.bool_))
        return OpenLattice(marks, n_links, self._problem.least_loss(number), 0.0)

    def view(
        self, number: int, before: OpenLattice, known: Paths, rays: FloatArray, mixes: FloatArray, link_work: int
    ) -> View:
        """Return what there is of a lattice in a smaller cone of rays [R, D], see `LatticeProblem.at_rays`.

        It stays open where more work than that for each link is needed. known: paths that rule out others. mixes [m, R]
        of the rays: where the best paths are looked at, first in the middle; none where much more work is needed.
        """
        finder = self._finders.get(lambda: core.PathFinder(self._labels))
        needed = before.needed * _SHRINKING
        reach = np.abs(rays) @ self.longest[number]
        paths = np.array([*known.values()]).reshape(-1, rays.shape[1])
        if needed > _HOPELESS * link_work * before.count:
            return View(replace(before, needed=needed), [], rays[:0], None, {}, finder.lead(rays, reach, paths), 0)
        graph = self._problem.exact_graphs[number]
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
            least = max(least, self._problem.least_loss(number, left))
            work += count
        part = OpenLattice(marks, count, least, needed)
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


def all_mixes(n_rays: int) -> FloatArray:
    """Return mixes [m, n] of the rays of a cone: the middle, beside each ray, and between each two of few."""
    near = np.eye(n_rays)
    pairs = range(n_rays if n_rays <= _FEW_RAYS else 0)
    between = [0.5 * (near[p] + near[q]) for p in pairs for q in range(p)]
    centre = np.full((1, n_rays), 1.0 / n_rays)
    return np.vstack([centre, 0.9 * np.vstack([near, *between]) + 0.1 * centre])


_UNIT = 8_000_000
"""Work of a unit, at a guess: some hundredths of a second."""

_SPLIT_WORK = 50_000
"""What it costs to split a cone, for each lattice: for so much work the last open ones are looked at again."""

_MORE_WORK = 8

_EARLY_SPLITS, _MOST_DOUBLINGS = 10, 20
"""Splits after which lattices are given more work, and how often at most it is doubled."""


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


class Findings:
    """What a search has found of all lattices: their hypotheses that may win in some cone, and what was counted.

    work: in scores computed and labels compared; expanded, failed: how often hypotheses were listed, and how often they
    were too many.
    """

    def __init__(self, problem: LatticeProblem, expander: Expander) -> None:
        self._problem, self._longest = problem, expander.longest
        self.catalogue = Catalogue(problem)
        self._known: list[Paths] = [{} for _ in problem.graphs]
        self.work = self.expanded = self.failed = 0

    def narrowed(self, lists: Lists, rays: FloatArray) -> tuple[Lists, int, FloatArray, FloatArray]:
        """Return the hypotheses of lists that may win in a smaller cone of rays [d, d], their least losses, summed, the
        summed statistics [K] of the best in the middle, and their scores [n, d] at the rays.
        """
        rays = self._problem.at_rays(rays)
        reach = self._longest @ np.abs(rays).T
        ends, ids, scores, middle = core.narrow(self.catalogue.features, *lists, rays, reach)
        self.work += 20 * len(lists.ids) + 2000
        least = sum(np.minimum.reduceat(self.catalogue.losses(ids), ends[:-1]).tolist()) if len(ids) else 0
        return Lists(lists.numbers, ends, ids), least, self.catalogue.statistics[middle].sum(axis=0), scores

    def state(self) -> State:
        """Return all of it as a checkpoint has it."""
        known = [np.array(list(paths.values())) for paths in self._known]
        counts = [self.work, self.expanded, self.failed]
        return {"catalogue": self.catalogue.state(), "known": known, "counts": counts}

    def restore(self, state: State) -> None:
        """Go on from what a state holds, before anything is found."""
        self.catalogue.restore(state["catalogue"])
        width = self.catalogue.features.shape[1]
        for paths, known in zip(state["known"], self._known, strict=True):
            if len(paths):
                rows = checked_array(paths, np.float64, (min(len(paths), MOST_KNOWN), width))
                known.update((row.tobytes(), row) for row in rows)
        self.work, self.expanded, self.failed = state["counts"]

    def known(self, number: int) -> Paths:
        """Return paths of a lattice, which do not change."""
        return self._known[number]

    def take(self, number: int, view: View) -> tuple[IntArray, FloatArray | None]:
        """Return the numbers of the hypotheses in a view of a lattice, and the statistics [K] in the middle."""
        earlier = {key: row for key, row in self._known[number].items() if key not in view.best}
        self._known[number] = dict([*earlier.items(), *view.best.items()][-MOST_KNOWN:])
        self.work += view.work
        self.failed += view.crowded
        self.expanded += view.part is None
        paths = zip(view.ways, view.features, strict=True)
        ids = np.array([self.catalogue.add(number, way, row) for way, row in paths], dtype=np.int64)
        return ids, None if view.middle is None else self._problem.statistics(number, view.middle)


class Expansion:
    """What is found of the lattices in a cone: of those that have few hypotheses first, and at once.

    lists, open: so far, with what a cone around it left of those that were not looked at; bound: on the cost; middle:
    the summed statistics [K] in the middle, if all were looked at there; out: units that are out.
    """

    def __init__(self, findings: Findings, cone: Cone, comparisons: int) -> None:
        self._findings, self.cone = findings, cone
        self.lists, self.bound, middle, scores = findings.narrowed(cone.lists, cone.rays)
        self.middle: FloatArray | None = middle
        self.bound += sum(lattice.least for lattice in cone.open.values())
        self.open = dict(cone.open)
        self.out = 0
        self._found: dict[int, IntArray] = {}
        self._scores = [(scores, self.lists.ends[1:])]
        self._waiting = sorted(cone.open, key=lambda number: -cone.open[number].needed)
        self.link_work = comparisons << min(max(0, cone.depth - _EARLY_SPLITS) // 2, _MOST_DOUBLINGS)
        self._again = True
        if self.complete:
            self._conclude()

    @property
    def waiting(self) -> bool:
        """Whether there are lattices that no unit has looked at."""
        return bool(self._waiting)

    @property
    def complete(self) -> bool:
        """Whether all lattices were looked at."""
        return not (self._waiting or self.out)

    def send(self) -> list[Before]:
        """Return what the next unit is to look at."""
        rays_and_mixes = len(self.cone.rays) + len(self.cone.mixes)
        work, sent = 0.0, []
        while self._waiting and work < _UNIT:
            number = self._waiting.pop()
            lattice = self.open[number]
            work += 2 * rays_and_mixes * lattice.count + min(lattice.needed, self.link_work * (lattice.count + 100))
            sent.append((number, lattice, self._findings.known(number)))
        self.out += 1
        return sent

    def take(self, sent: list[Before], views: list[View]) -> None:
        self.out -= 1
        for (number, before, _), view in zip(sent, views, strict=True):
            ids, middle = self._findings.take(number, view)
            self._scores.append((view.leading, np.array([len(view.leading)])))
            del self.open[number]
            if view.part is None:
                self._found[number] = ids
                least = int(self._findings.catalogue.losses(ids).min())
            else:
                self.open[number], least = view.part, view.part.least
            self.bound += max(least, before.least) - before.least
            self.middle = None if self.middle is None or middle is None else self.middle + middle
        if self.complete and self._again:
            self._again = False
            worth = _SPLIT_WORK * (len(self.open) + len(self._found) + len(self.lists.numbers))
            if sum(lattice.needed for lattice in self.open.values()) <= worth:
                self._waiting = list(self.open)
                self.link_work *= _MORE_WORK
        if self.complete:
            self._conclude()

    @property
    def scores(self) -> tuple[FloatArray, IntArray]:
        """Scores [n, D] at the rays of the paths of lattices that no others beat, and their ends [s + 1]."""
        ends, last = [np.zeros(1, dtype=np.int64)], 0
        for scores, own in self._scores:
            ends.append(own + last)
            last += len(scores)
        return np.concatenate([scores for scores, _ in self._scores]), np.concatenate(ends)

    def _conclude(self) -> None:
        self.lists = self.lists.joined(self._found)
        self._found = {}


def state_of_cones(cones: Sequence[Cone]) -> State:
    """Return cones by what they consist of; what several of them share is there once."""
    lists = {id(cone.lists): cone.lists for cone in cones}
    lattices = {id(lattice): lattice for cone in cones for lattice in cone.open.values()}
    place = {key: number for own in (lists, lattices) for number, key in enumerate(own)}
    return {
        "lists": [plain(one) for one in lists.values()],
        "lattices": {
            "marks": [one.marks for one in lattices.values()],
            "count": np.array([one.count for one in lattices.values()], dtype=np.int64),
            "least": np.array([one.least for one in lattices.values()], dtype=np.int64),
            "needed": np.array([one.needed for one in lattices.values()], dtype=np.float64),
        },
        "cones": [
            {
                **{name: value for name, value in cone._asdict().items() if name not in ("lists", "open")},
                "lists": place[id(cone.lists)],
                "numbers": np.array(list(cone.open), dtype=np.int64),
                "open": np.array([place[id(lattice)] for lattice in cone.open.values()], dtype=np.int64),
            }
            for cone in cones
        ],
    }


def cones_of(state: State, catalogue: Catalogue, problem: LatticeProblem) -> list[Cone]:
    """Return the cones of a state; they share what they shared; raises `ValueError` for what is none."""
    lists = [catalogue.lists_of(one) for one in state["lists"]]
    columns = (state["lattices"][name] for name in ("marks", "count", "least", "needed"))
    lattices = [
        OpenLattice(marks, int(count), int(least), float(needed))
        for marks, count, least, needed in zip(*columns, strict=True)
    ]
    width = problem.canonical.n_features
    most = len(all_mixes(width))
    checked: set[tuple[int, int]] = set()
    cones = []
    for one in state["cones"]:
        size = len(one["numbers"])
        numbers = checked_array(one["numbers"], np.int64, (size,), len(problem.graphs)).tolist()
        parts = checked_array(one["open"], np.int64, (size,), len(lattices)).tolist()
        for number, part in {*zip(numbers, parts, strict=True)} - checked:
            _check(lattices[part], problem, number)
            checked.add((number, part))
        own = lists[one["lists"]]
        if sorted([*numbers, *own.numbers.tolist()]) != list(range(len(problem.graphs))):
            raise ValueError("lattices are missing, or there twice")
        open = dict(zip(numbers, (lattices[part] for part in parts), strict=True))
        rays = rays_of(one["rays"], width)
        mixes = checked_array(one["mixes"], np.float64, (min(len(one["mixes"]), most), width))
        cones.append(Cone(rays, mixes, whole(one["depth"]), whole(one["bound"]), own, open))
    return cones


def rays_of(value: Any, width: int) -> FloatArray:
    """Return the rays [d, d] of a cone of a state."""
    return checked_array(value, np.float64, (width, width))


def whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{quoted(value)} is no count")
    return value


def _check(lattice: OpenLattice, problem: LatticeProblem, number: int) -> None:
    """Refuse what is not left of a lattice: links of which no path can be made, or other numbers of them."""
    graph = problem.graphs[number]
    n_links = len(graph.sources)
    checked_array(lattice.marks, np.uint8, (-(-n_links // 8),), 256)
    kept = np.unpackbits(lattice.marks)
    if not (0 < lattice.count == np.count_nonzero(kept[:n_links]) == np.count_nonzero(kept)):
        raise ValueError("marks of other links")
    if not np.isfinite(lattice.needed):
        raise ValueError("work without end")
    reached = np.zeros(graph.n_nodes, dtype=np.bool_)
    reached[0] = True
    for link in np.flatnonzero(kept).tolist():
        reached[graph.targets[link]] |= reached[graph.sources[link]] and reached[graph.seconds[link]]
    if not reached[-1]:
        raise ValueError("marks without a path")
