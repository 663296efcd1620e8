"""Branch and bound over the weight space: cones of weights, and in each the hypotheses that may still win.

Best first over a queue of coarse cones, depth first inside each. The bound of a cone is the sum of every list's
cheapest survivor; for a ratio metric it is a linear function below the loss, tight where the sums of the cone are, that
tells what survivors cost. Small or stalled cones go to the search over selections, restricted to the cone; where
rounding leaves that undecided, exact arithmetic closes the cone. Cones are simplicial or, where features are many,
those over boxes on the faces of a cube.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lpmert.configurable import option
from lpmert.errors import FloatArray, MethodError
from lpmert.methods.cells.nodes import (
    CellsTask,
    Fields,
    NodeSearch,
    NodeSettings,
    Roots,
    explore,
    faces,
    selections,
)
from lpmert.methods.choices.choices import Choices, ChoicesSearch, Loss, loss_for
from lpmert.methods.lattice.search import LatticeSearch
from lpmert.model.canonical import Canonical
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.numeric.cone import cone_around, number_of_cones
from lpmert.search.checkpoint import plain
from lpmert.search.method import Combined, Incumbent, Method, Search, Task
from lpmert.search.node_queue import Answer, Call, NodeQueue, OpenNode
from lpmert.system.deadline import checkpoint

_SLICE = 4_000_000
"""Work after which others have their turn."""

_BATCH = 8
"""Most parts that a unit of work begins with, so that it rarely runs out of them."""

_UNIT = 2 * _SLICE
"""Work in an ordinary unit, a few hundredths of a second: more than sending it costs, and a short wait."""

_ANSWERS = 4
"""Answers that are taken at once: a turn beside other searches is for about as much work as one of these gets."""

_ALONE = _SLICE
"""Work after which a search goes on in units, for whoever does them: short ones need one worker only."""

_LOCAL_UNITS = 40
"""Units that the caller does first where workers take long to start: in about a second."""

_ROOT = 3
"""How many times as much memory as the features the first node takes beside what is kept for the report: as much again.
"""

_LEAF_ROWS = 2500
"""Hypotheses of a cone beyond which splits without progress do not count: exact arithmetic would have too many."""

_PATIENCE = 400
"""Nodes that may go into closing stalled boxes, besides a share of what went into boxes, before simplices are tried."""

_CLOSING_SHARE = 0.25
_CLOSING_SHARE_OF_RATIOS = 0.5
"""The same for ratio metrics, whose simplices are slower: it takes more to be worth a new beginning."""

_MOST_FEATURES = 6
"""Beyond so many features simplices, of which there are more and thinner ones, get stuck sooner than boxes."""

_CLOSING_NODES = 50
"""What it takes to begin to close a part of the weight space, in nodes."""

_LONG_CLOSING = 32
"""Turns after which a part that is being closed holds the search up: a second or so."""

_MANY_CLOSINGS = 64
"""Parts closed in exact arithmetic after which the selections of all lists are searched beside them: where differences
are nearly parallel, their boundaries pass through more parts than there are selections.
"""

_SHORT = 100_000_000
"""Entries of the hypotheses of all boxes that were split, after which boxes with larger bounds wait for those with
smaller ones: the search does not end soon.
"""

_TO_THE_END = 6
"""With at most so many features no box waits: searches end, and batches with like bounds are many and small."""

_LEVELS = 16
"""Steps between the least bound of a batch and the incumbent."""

_QUEUE_BYTES = 1 << 28
"""Beyond so much memory the queue takes no more cones: the one at hand is searched depth first to its end."""

_BOX_FEATURES = 3
"""Features from which on boxes are better than simplices, where they do not stall."""

_BOX_FEATURES_OF_RATIOS = 4
"""The same for ratio metrics, of which more lists stay open: with three features boxes save no time."""


@dataclass(frozen=True)
class Cells(Method):
    """Branch and bound over cones of the weight space; no option changes the optimum."""

    leaf_lists: int | None = option(
        None,
        "cones with at most this many open lists go to the search over selections; none: 10, or 6 for ratio metrics",
        least=0,
    )
    conflict_lists: int = option(
        4000, "most open lists of a node whose bound conflicts of pairs may raise; 0 for none", least=0
    )
    stalled_splits: int = option(4, "splits in a row, a feature, with little settled before a cone goes there", least=0)
    shape: str = option(
        "auto",
        "what the weight space is divided into; auto: boxes, but for few features, a cosine, or where these get stuck",
        choices=("auto", "simplices", "boxes"),
    )
    units: int = option(8, "units of work out at once in a long search; at most this many workers are busy", least=1)
    selections: Choices = field(default_factory=Choices)

    name = "cells"
    takes_ratios = True
    takes_jobs = True
    takes_fractions = True
    takes_caps = True
    takes_lattices = True

    def boxed(self, canonical: Canonical) -> bool:
        """Whether the weight space of a problem is divided into boxes; raises `MethodError` where it cannot be."""
        possible = canonical.cap is None
        if self.shape == "boxes" and not possible:
            raise MethodError("shape: boxes are for regions without a cosine; leave it out, or set simplices")
        fewest = _BOX_FEATURES if canonical.additive else _BOX_FEATURES_OF_RATIOS
        return possible and (self.shape == "boxes" or (self.shape == "auto" and canonical.n_features >= fewest))

    def start(self, task: Task) -> CellsSearch | LatticeSearch:
        if isinstance(task.problem, LatticeProblem):
            return LatticeSearch(task.problem, task.incumbent, partial(CellsSearch, self), self.units)
        return self.on_lists(task)

    def on_lists(self, task: Task) -> CellsSearch:
        return CellsSearch(self, task.canonical, task.incumbent)


class CellsSearch(Combined):
    """A resumable search over the weight space of a problem in canonical form.

    A long search goes on in units: batches of nodes that workers search, each with the incumbent as it was when it was
    handed out. So the outcome is the same for any number of workers.

    roots: cones, rays [d, d], to which it keeps, by default all of the weight space; or cones of which it is known
    already what may win in them. Where exact arithmetic closes a cone it may look beyond them, and what it finds there
    counts. loss: of a search over the same problem, to which weights are known that are as good.
    """

    phase = "cones"
    checkpointed = ("_counted", "_unsettled", "_exact_leaves", "_stalled", "_floor")

    def __init__(
        self,
        settings: Cells,
        canonical: Canonical,
        incumbent: Incumbent,
        roots: Sequence[FloatArray | Fields] | None = None,
        loss: Loss | None = None,
    ) -> None:
        super().__init__(incumbent)
        self._settings = settings
        self._loss = loss or loss_for(canonical, incumbent.weights)
        self._canonical = canonical
        self._granularity = self._loss.granularity
        n_features = canonical.n_features
        self._node_settings = NodeSettings(
            self._granularity,
            self._loss.leaf_lists if settings.leaf_lists is None else settings.leaf_lists,
            _LEAF_ROWS,
            settings.conflict_lists,
            settings.stalled_splits * n_features,
            3 * settings.stalled_splits * n_features if n_features > 1 else 0,
            self._loss.row_work,
        )
        self._counts: Counter[str] = Counter()
        self._exact_leaves = 0
        self._stalled = self._floor = 0
        self._whole = roots is None  # whether the selections of all lists may help
        self._beside: ChoicesSearch | None = None
        self._begin(roots is None and settings.boxed(canonical), roots)

    def _begin(self, boxed: bool, roots: Iterable[Any] | None = None) -> None:
        """Begin with nodes of one shape, and nothing but these."""
        of_leaves = self._settings.selections.core_settings(self._granularity, cores=True)
        self._task = CellsTask(self._loss, self._node_settings, of_leaves, boxed)
        begins = list(self._cover(boxed) if roots is None else roots)
        self._roots = Roots(self._task, (root for root in begins if not isinstance(root, dict)), self._settings.units)
        self._nodes = NodeSearch(self._task, self.incumbent.weights)
        self._queue = NodeQueue(self._settings.units, _BATCH, _UNIT, _LOCAL_UNITS)
        for cone in begins:
            if isinstance(cone, dict):
                self._nodes.push(cone)
        self._hard: deque[OpenNode] = deque()
        self._closing: tuple[ChoicesSearch | CellsSearch, int] | None = None
        self._closing_turns = 0

    @property
    def held_up(self) -> bool:
        return self._closing is not None and self._closing_turns > _LONG_CLOSING

    @property
    def _searches(self) -> Sequence[Search]:
        found = [None if self._closing is None else self._closing[0], self._beside]
        return [search for search in found if search is not None]

    @property
    def effort(self) -> float:
        return self._count["work"] / _SLICE + super().effort

    @property
    def least(self) -> int | None:
        """A cost that nothing undercuts, where one was known before the search; for others over the same lists."""
        return self._loss.least

    @property
    def finished(self) -> bool:
        return self.lower_bound >= self.incumbent.cost or self.open_nodes == 0

    @property
    def lower_bound(self) -> int:
        """The least bound of an open cone, or the incumbent's cost where none is open."""
        upper = self._upper
        bounds = [self._nodes.least_bound, self._queue.least_bound, *(part.bound for part in self._hard)]
        open_bounds = [bound for bound in bounds if bound is not None] + [0] * bool(len(self._roots))
        least = min(upper, self._loss.cost_of(min(open_bounds))) if open_bounds else upper
        return upper if least > upper - self._granularity else min(upper, max(least, self._floor))

    @property
    def nodes(self) -> int:
        return self._count["nodes"] + super().nodes

    @property
    def open_nodes(self) -> int:
        return len(self._roots) + len(self._queue) + len(self._hard) + self._nodes.n_nodes

    @property
    def lps(self) -> int:
        return self._count["leaf_lps"] + self._counted["lps"]

    def counters(self) -> Mapping[str, int]:
        return {
            "nodes": self.nodes,
            "conflicting": self._count["conflicting"] + self._counted["conflicting"],
            "leaves": self._count["leaves"] + self._counted["leaves"],
            "lps": self.lps,
            "exact_leaves": self._exact_leaves + self._counted["exact_leaves"],
        }

    def advance(self) -> None:
        if self.finished:
            return
        if self._nodes.hard:
            self._close()
        elif self._hard:
            self._nodes.load(self._hard.popleft())
            self._nodes.hard = True
        elif self._queue.shared or self._nodes.counts["work"] >= _ALONE:
            self._take_answers()
        else:
            self._explore_alone()

    def state(self) -> Mapping[str, Any]:
        parts = [*self._nodes.nodes(), *self._hard, *self._queue.nodes()]
        own = {"roots": len(self._roots), "parts": [plain(part) for part in parts], "boxed": self._task.boxed}
        return {**super().state(), **own, "counts": dict(self._count)}

    def restore(self, state: Mapping[str, Any]) -> None:
        if self._task.boxed and not state["boxed"]:
            self._begin(boxed=False)
        super().restore(state)
        while len(self._roots) > state["roots"]:
            self._roots.skip()
        self._queue.push(OpenNode(**part) for part in state["parts"])
        self._counts = Counter(state["counts"])

    def _cover(self, boxed: bool) -> Iterable[Any]:
        """Return what covers the weight space: the faces of the cube, centre and radius [d] each, or cones.

        These come by their numbers, as they are large; or one alone, rays [d, d].
        """
        n_features, cap = self._canonical.n_features, self._canonical.cap
        if boxed:
            return faces(n_features)
        around = None if cap is None else cone_around(cap)
        return range(number_of_cones(n_features)) if around is None else [around]

    def _explore_alone(self) -> None:
        """Search the part with the least bound, depth first, for a slice."""
        nodes = self._nodes
        if nodes.n_nodes == 0:
            if not len(self._queue):
                self._prune_root()
            if len(self._queue):
                nodes.load(self._queue.pop())
        if nodes.n_nodes:
            nodes.explore(self.incumbent.cost, _SLICE)
            self.incumbent.improve(*nodes.found(), "C")

    def _prune_root(self) -> None:
        """Let what is left of the next root wait."""
        if not self._count["nodes"]:
            checkpoint(_ROOT * self._loss.lists.rows.nbytes)
        self._take(self._roots.next(self.incumbent))

    def _take_answers(self) -> None:
        """Take some answers, as long as these leave nothing else to do."""
        for _ in range(_ANSWERS):
            self._take_answer()
            if self._hard or self.finished:
                break

    def _take_answer(self) -> None:
        """Send units out, and take the answer to the one that went out first."""
        # The nodes at hand go to the queue, so that the least bound of all comes next.
        self._queue.push(part for part in self._nodes.take_all() if not self._ruled_out(part.bound))
        if len(self._roots):
            self._prune_root()
            return
        if not self._queue.shared:
            self._task.drop_searches()
            self._queue.share(self._task)
        self._take(self._queue.take(self._call))
        self._queue.send(self._call)

    def _take(self, answer: Answer) -> None:
        """Take what a unit has found, and what it has left."""
        self.incumbent.improve(answer.cost, answer.weights, answer.source)
        self._counts.update(answer.counts)
        nodes = answer.nodes
        if answer.hard:
            self._hard.append(nodes.pop())
        nodes = [node for node in nodes if not self._ruled_out(node.bound)]
        (self._queue.push if self._queue.nbytes < _QUEUE_BYTES else self._queue.stay)(nodes)

    def _call(self, nodes: list[OpenNode], work: int) -> Call:
        best = self.incumbent
        return explore, (nodes, best.cost, best.weights, work, self._step(nodes))

    def _step(self, parts: list[OpenNode]) -> int | None:
        """Return how far apart bounds in a batch may be, `None` as far as they like: a search that does not end soon
        has its bound higher the closer they are together.
        """
        n_features = self._canonical.n_features
        short = n_features <= _TO_THE_END or self._count["looked_at"] * n_features < _SHORT
        if not self._task.boxed or short or self._queue.nbytes >= _QUEUE_BYTES:
            return None
        least = min(part.bound for part in parts)
        return max(0, self._loss.bound_of(self.incumbent.cost) - least) // _LEVELS

    @property
    def _count(self) -> Counter[str]:
        return self._nodes.counts + self._counts

    def _ruled_out(self, bound: int) -> bool:
        """Whether a node of this bound has nothing better than the incumbent."""
        return bound > self._loss.bound_of(self.incumbent.cost) - self._granularity

    def _start_closing(self) -> tuple[ChoicesSearch | CellsSearch, int] | None:
        """Return the search that closes the top cone, and the cost of the lists that are settled there; `None`
        if nothing is left to do: for a box with many open lists, over cones that cover it.
        """
        self._stalled += 1
        cones = self._nodes.cones()
        if not cones:
            return self._start_exact_closing()
        return CellsSearch(self._settings, self._canonical, self._aim(), cones, self._loss), 0

    def _start_exact_closing(self) -> tuple[ChoicesSearch, int] | None:
        """Return the search of the selections of the top cone with exact answers, over a slightly wider cone.

        The hypotheses that may win in the wider cone are found anew among all. Where the cone is too thin for that,
        the whole weight space is searched.
        """
        self._exact_leaves += 1
        enclosing = self._nodes.enclosing()
        part = None
        if enclosing is not None:
            normals, wider = enclosing
            kept, found = self._nodes.survivors(wider, self.incumbent.cost)
            self.incumbent.improve(*found, "C")
            if kept is None:
                return None
            part = kept, normals
        return selections(self._settings.selections, self._canonical, self._loss, self._aim(), part)

    def _aim(self) -> Incumbent:
        return Incumbent(self.incumbent.cost, self.incumbent.weights, "")

    def _close(self) -> None:
        """Go on with the cone on top until it is closed, and take it off."""
        if self._stuck:
            self._begin_again()
            return
        if self._closing is None:
            # Another unit may have found better weights meanwhile.
            self._closing = None if self._ruled_out(self._nodes.top_bound) else self._start_closing()
            self._closing_turns = 0
            if self._closing is None:
                self._nodes.drop_top()
            return
        search, fixed = self._closing
        self._closing_turns += 1
        if not search.finished:
            search.advance()
        self._take_found(search, fixed)
        if search.finished:
            self._put_away(search)
            self._closing, unsettled = None, search.unsettled
            if unsettled is not None and not isinstance(search, CellsSearch):
                self._leave_unsettled(unsettled + fixed)
            elif unsettled is not None and unsettled < self.incumbent.cost:
                # What cones left unsettled, exact arithmetic over the whole of the box may settle.
                self._closing = self._start_exact_closing()
            if self._closing is None:
                self._nodes.drop_top()
        if self._whole and self.counters()["exact_leaves"] > _MANY_CLOSINGS:
            self._search_beside()

    def _take_found(self, search: Search, fixed: int) -> None:
        """Take what a search in exact arithmetic has found, if it is better in doubles too."""
        if search.incumbent.cost + fixed < self.incumbent.cost:
            found = search.incumbent.weights
            cost = self._loss.attained(found, search.incumbent.cost + fixed)
            if cost is None:
                self._leave_unsettled(search.incumbent.cost + fixed)
            else:
                self.incumbent.improve(cost, found, "X")

    def _search_beside(self) -> None:
        """Search the selections of all lists for as long as a part that is closed, and take their bound."""
        if self._beside is None:
            self._beside, _ = selections(self._settings.selections, self._canonical, self._loss, self._aim(), None)
        search = self._beside
        search.incumbent.improve(self.incumbent.cost, self.incumbent.weights, "")
        search.advance()
        self._take_found(search, 0)
        self._floor = max(self._floor, search.lower_bound)
        if self._floor >= self.incumbent.cost:
            self._unsettled = None
        if search.finished:
            self._put_away(search)
            self._beside, self._whole = None, False

    @property
    def _stuck(self) -> bool:
        """Whether closing stalled boxes has become the larger part of the work."""
        if not self._task.boxed or self._settings.shape != "auto" or self._canonical.n_features > _MOST_FEATURES:
            return False
        share = _CLOSING_SHARE if self._canonical.additive else _CLOSING_SHARE_OF_RATIOS
        of_boxes, closings = self._count["nodes"], self._stalled + self._counted["exact_leaves"]
        if self._closing is not None:
            closings += self._closing[0].counters().get("exact_leaves", 0)
        return self.nodes - of_boxes + _CLOSING_NODES * closings > share * of_boxes + _PATIENCE

    def _begin_again(self) -> None:
        """Go on with simplices all over the weight space, whose sides more boundaries coincide with."""
        if self._closing is not None:
            self._counted.update(self._closing[0].counters())
        self._floor = self.lower_bound
        self._counts = self._count
        self._unsettled = None
        self._begin(boxed=False)
