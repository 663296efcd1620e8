"""Branch and bound over the weight space: cones of weights, and in each the hypotheses that may still win.

Best first over a frontier of coarse cones, depth first inside each. The bound of a cone is the sum of every list's
cheapest survivor; for a ratio metric it is a linear function below the loss, tight where the sums of the cone are, that
tells what survivors cost. Small or stalled cones go to the search over selections, restricted to the cone; where
rounding leaves that undecided, exact arithmetic closes the cone. Cones are simplicial or, for sums of many features,
those over boxes on the faces of a cube.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, MethodError
from lpmert.methods.cells import kernels as kernel
from lpmert.methods.cells import stack as layout
from lpmert.methods.cells.accounts import Account, RatioAccount, SumAccount
from lpmert.methods.cells.any_lane import AnyLane
from lpmert.methods.cells.box_lane import BoxLane
from lpmert.methods.cells.box_stack import OpenBox
from lpmert.methods.cells.lane import Lane
from lpmert.methods.cells.stack import OpenCone
from lpmert.methods.choices.choices import Choices
from lpmert.methods.choices.search import ChoicesSearch
from lpmert.model.form import Canonical
from lpmert.numeric.cone import cone_around, covering_cones
from lpmert.search.method import Incumbent, Method, Search, Task
from lpmert.system.deadline import checkpoint

_SLICE = 4_000_000
_STAY = 5 * _SLICE
"""Work in a cone before it gives way to the one with the least bound."""

_LANES = 4
"""Cones searched side by side; more than as many threads are of no use."""

_LANE_ROWS = 8_000
"""Hypotheses of a cone for which a lane has room from the beginning; it grows when a larger one comes."""

_HAND = 8
"""Cones that an empty lane gets at once, so that it rarely runs out of them before the slice ends."""

_ONE_LANE_WORK = 40 * _SLICE
"""Work after which a search goes on in all lanes: short ones need no more than one."""

_LEAF_ROWS = 2500
"""Hypotheses of a cone beyond which splits without progress do not count: exact arithmetic would have too many."""

_BOX_FEATURES = 5
"""Features from which on boxes are better than simplices."""

_FRONTIER_BYTES = 1 << 28
"""Beyond so much memory the frontier takes no more cones: the one at hand is searched depth first to its end."""


@dataclass(frozen=True)
class Cells(Method):
    """Branch and bound over cones of the weight space; no option changes the optimum."""

    leaf_lists: int | None = option(
        None,
        "cones with at most so many open lists go to the search over selections; none: 10, or 6 for ratio metrics",
        least=0,
    )
    cuts: int = option(8, "cutting planes that may raise the bound of a simplex; 0 for none", least=0)
    cut_rows: int = option(2000, "most survivors of such a simplex", least=0)
    conflict_lists: int = option(
        4000, "most open lists of a cone whose bound conflicts of pairs may raise; 0 for none", least=0
    )
    stalled_splits: int = option(4, "splits in a row, a feature, with little settled before a cone goes there", least=0)
    compare_all: bool = option(
        False, "compare all hypotheses of a list within a cone with each other, not only its cheapest with all others"
    )
    shape: str = option(
        "auto",
        "what the weight space is divided into; auto: boxes from 5 features on, but not for ratio metrics or a cosine",
        choices=("auto", "simplices", "boxes"),
    )
    selections: Choices = field(default_factory=Choices)
    jobs: int = field(default=1, compare=False, repr=False)

    name = "cells"
    takes_ratios = True
    takes_jobs = True
    takes_fractions = True
    takes_caps = True

    def with_jobs(self, jobs: int) -> Cells:
        """Return the method with so many threads."""
        return replace(self, jobs=jobs)

    def boxed(self, canonical: Canonical) -> bool:
        """Whether the weight space of a problem is divided into boxes; raises `MethodError` where it cannot be."""
        possible = canonical.additive and canonical.cap is None
        if self.shape == "boxes" and not possible:
            raise MethodError("shape: boxes are for additive losses without a cosine; leave it out, or set simplices")
        return possible and (self.shape == "boxes" or (self.shape == "auto" and canonical.n_features >= _BOX_FEATURES))

    def start(self, task: Task) -> CellsSearch:
        """Return a search over the whole weight space that begins with this incumbent."""
        return CellsSearch(self, task.canonical, task.incumbent)


class CellsSearch(Search):
    """A resumable search over the weight space of a problem in canonical form.

    A long search goes on in several lanes, each with the incumbent as it was when the slice began: so the outcome is
    the same however many of them threads search at once.

    roots [K, d, d]: simplicial cones to which it keeps, by default all of the weight space; or cones of which it is
    known already what may win in them. Where exact arithmetic closes a cone it may look beyond them, and what it finds
    there counts.
    """

    phase = "cones"
    unsettled: int | None = None

    def __init__(
        self,
        settings: Cells,
        canonical: Canonical,
        incumbent: Incumbent,
        roots: FloatArray | Sequence[OpenCone] | None = None,
    ) -> None:
        self.incumbent = incumbent
        self._settings = settings
        self._account: Account[Any] = (
            SumAccount(settings.selections, canonical)
            if canonical.additive
            else RatioAccount(settings.selections, canonical, incumbent.weights)
        )
        self._canonical = canonical
        self._lists = self._account.lists
        self._granularity = self._account.granularity
        n_features = canonical.n_features
        self._kernel_settings = kernel.ConeSettings(
            self._granularity,
            self._account.leaf_lists if settings.leaf_lists is None else settings.leaf_lists,
            _LEAF_ROWS,
            settings.cut_rows,
            settings.conflict_lists,
            settings.stalled_splits * n_features,
            3 * settings.stalled_splits * n_features if n_features > 1 else 0,
            self._account.row_work,
            2.0 * float(np.abs(self._lists.rows).sum(axis=1).max(initial=0.0)),
            settings.compare_all,
        )
        self._boxed = roots is None and settings.boxed(canonical)
        self._roots: Any = self._cover(canonical) if roots is None else roots
        known = [cone for cone in self._roots if isinstance(cone, OpenCone)]
        self._heap: list[tuple[int, int, OpenCone | OpenBox | None]] = [
            (cone.bound, k, cone) if isinstance(cone, OpenCone) else (0, k, None) for k, cone in enumerate(self._roots)
        ]
        heapq.heapify(self._heap)
        self._pushed = len(self._roots)
        self._held = sum(cone.nbytes for cone in known)
        n_rows = max((len(cone.ids) for cone in known), default=len(self._lists.rows))
        self._lanes = [self._new_lane(n_rows)]
        self._threads: ThreadPoolExecutor | None = None
        self._closing: tuple[ChoicesSearch | CellsSearch, int] | None = None
        self._exact_leaves = 0
        self._closed: Counter[str] = Counter()

    @property
    def finished(self) -> bool:
        return self.lower_bound >= self.incumbent.cost or self.open_nodes == 0

    @property
    def lower_bound(self) -> int:
        """The least bound of an open cone, or the incumbent's cost where none is open."""
        upper = self.incumbent.cost
        if self.unsettled is not None:
            upper = min(upper, self.unsettled)
        open_bounds = [bound for lane in self._lanes if (bound := lane.least_bound) is not None]
        if self._heap:
            open_bounds.append(self._heap[0][0])
        least = min(upper, self._account.cost_of(min(open_bounds))) if open_bounds else upper
        return upper if least > upper - self._granularity else least

    @property
    def nodes(self) -> int:
        closing = 0 if self._closing is None else self._closing[0].nodes
        return self._count(layout.NODES) + self._closed["nodes"] + closing

    @property
    def open_nodes(self) -> int:
        return len(self._heap) + sum(lane.n_parts for lane in self._lanes)

    @property
    def lps(self) -> int:
        return self._count(layout.LEAF_LPS) + self._closed["lps"]

    @property
    def memory(self) -> int:
        return self._held + sum(lane.nbytes for lane in self._lanes)

    def counters(self) -> Mapping[str, int]:
        return {
            "nodes": self.nodes,
            "cut_off": self._count(layout.CUT_OFF) + self._closed["cut_off"],
            "conflicting": self._count(layout.CONFLICTING) + self._closed["conflicting"],
            "leaves": self._count(layout.LEAVES) + self._closed["leaves"],
            "lps": self.lps,
            "exact_leaves": self._exact_leaves + self._closed["exact_leaves"],
        }

    def advance(self) -> None:
        """Search on for one slice of work, which the lanes share."""
        waiting = next((lane for lane in self._lanes if lane.closing), None)
        if waiting is not None:
            self._close(waiting)
            return
        if len(self._lanes) == 1 and self._lanes[0].done >= _ONE_LANE_WORK:
            self._widen()
        self._fill_lanes()
        busy = [lane for lane in self._lanes if lane.n_parts]
        cost = self.incumbent.cost
        self._each(lambda lane: lane.explore(cost, _SLICE // len(busy)), busy)
        for lane in busy:
            self._take_found(lane)
            if not lane.closing and lane.done >= lane.work_limit and self._held < _FRONTIER_BYTES:
                self._put_back(lane)

    def _cover(self, canonical: Canonical) -> Any:
        """Return the cones [K, d, d] that cover the weight space, or the numbers of the faces of the cube."""
        if self._boxed:
            return range(2 * canonical.n_features)
        around = None if canonical.cap is None else cone_around(canonical.cap)
        return covering_cones(canonical.n_features) if around is None else around[None, :, :]

    def _new_lane(self, n_rows: int) -> AnyLane[Any]:
        if self._boxed:
            return BoxLane.new(self._account, self._kernel_settings, self.incumbent.weights, n_rows)
        return Lane.new(self._account, self._kernel_settings, self._settings.cuts, self.incumbent.weights, n_rows)

    def _widen(self) -> None:
        """Open the other lanes: the search has turned out to be a long one."""
        self._put_back(self._lanes[0])
        n_rows = min(len(self._lists.rows), _LANE_ROWS)
        self._lanes += [self._new_lane(n_rows) for _ in range(_LANES - 1)]
        if self._settings.jobs > 1:
            self._threads = ThreadPoolExecutor(min(self._settings.jobs, _LANES))

    def _each(self, work: Callable[[AnyLane[Any]], None], lanes: list[AnyLane[Any]]) -> None:
        """Work in every one of the lanes, in threads if there are any: kernels do not hold the interpreter's lock."""
        for _ in map(work, lanes) if self._threads is None else self._threads.map(work, lanes):
            pass

    def _fill_lanes(self) -> None:
        """Load the cones with the least bounds onto empty lanes; where there are none, lanes share their cones."""
        if not self._heap and any(lane.n_parts == 0 for lane in self._lanes):
            fullest = max(self._lanes, key=lambda lane: lane.n_parts)
            if fullest.n_parts > 1:
                self._put_back(fullest)
        empty = [lane for lane in self._lanes if lane.n_parts == 0]
        for lane in empty:
            lane.work_limit = lane.done + _STAY
            while lane.n_parts == 0 and self._heap and self._heap[0][2] is None:
                checkpoint()
                lane.load_root(self._roots[heapq.heappop(self._heap)[1]])
                lane.prune_root(self.incumbent.cost)
                self._take_found(lane)
        empty = [lane for lane in empty if lane.n_parts == 0]
        hand: list[OpenCone | OpenBox] = []
        wanted = len(empty) * (_HAND if len(self._lanes) > 1 else 1)
        while len(hand) < wanted and self._heap and (cone := self._heap[0][2]) is not None:
            heapq.heappop(self._heap)
            hand.append(cone)
            self._held -= cone.nbytes
        for k, lane in enumerate(empty):
            for cone in reversed(hand[k :: len(empty)]):
                lane.load(cone)

    def _take_found(self, lane: AnyLane[Any]) -> None:
        self.incumbent.improve(*lane.found(), "C")

    def _count(self, position: int) -> int:
        return sum(lane.count(position) for lane in self._lanes)

    def _put_back(self, lane: AnyLane[Any]) -> None:
        """Move a lane's cones to the frontier, so that the least bound of all comes next."""
        for cone in lane.take_all():
            if not self._ruled_out(cone):
                heapq.heappush(self._heap, (cone.bound, self._pushed, cone))
                self._pushed += 1
                self._held += cone.nbytes

    def _ruled_out(self, cone: OpenCone | OpenBox) -> bool:
        """Whether a cone has nothing better than the incumbent."""
        return cone.bound > self._account.bound_of(self.incumbent.cost) - self._granularity

    def _start_closing(self, lane: AnyLane[Any]) -> tuple[ChoicesSearch | CellsSearch, int] | None:
        """Return the search that closes a lane's top cone, and the cost of the lists that are settled there; `None` if
        nothing is left to do: for a box with many open lists, over cones that cover it.
        """
        cones = lane.simplices()
        if not cones:
            return self._start_exact_closing(lane)
        return CellsSearch(self._settings, self._canonical, self._aim(), cones), 0

    def _start_exact_closing(self, lane: AnyLane[Any]) -> tuple[ChoicesSearch, int] | None:
        """Return the search of the selections of a lane's top cone with exact answers, over a slightly wider cone.

        The hypotheses that may win in the wider cone are found anew among all. Where the cone is too thin for that,
        the whole weight space is searched.
        """
        self._exact_leaves += 1
        enclosing = lane.enclosing()
        part = None
        if enclosing is not None:
            normals, wider = enclosing
            kept, found = lane.survivors(wider, self.incumbent.cost)
            self.incumbent.improve(*found, "C")
            if kept is None:
                return None
            part = kept, normals
        return self._account.selections(self._aim(), part)

    def _aim(self) -> Incumbent:
        """Return an incumbent for a search inside this one."""
        return Incumbent(self.incumbent.cost, self.incumbent.weights, "")

    def _close(self, lane: AnyLane[Any]) -> None:
        """Go on with the cone on top of a lane until it is closed, and take it off."""
        if self._closing is None:
            # Another lane may have found better weights meanwhile.
            self._closing = None if self._ruled_out(lane.top()) else self._start_closing(lane)
            if self._closing is None:
                lane.drop_top()
            return
        search, fixed = self._closing
        if not search.finished:
            search.advance()
        if search.incumbent.cost + fixed < self.incumbent.cost:
            found = search.incumbent.weights
            cost = self._account.attained(found, search.incumbent.cost + fixed)
            if cost is None:
                self._leave_unsettled(search.incumbent.cost + fixed)
            else:
                self.incumbent.improve(cost, found, "X")
        if search.finished:
            self._closed.update({"nodes": search.nodes, "lps": search.lps, **search.counters()})
            self._closing, unsettled = None, search.unsettled
            if unsettled is not None and not isinstance(search, CellsSearch):
                self._leave_unsettled(unsettled + fixed)
            elif unsettled is not None and unsettled < self.incumbent.cost:
                # What cones left unsettled, exact arithmetic over the whole of the box may settle.
                self._closing = self._start_exact_closing(lane)
            if self._closing is None:
                lane.drop_top()

    def _leave_unsettled(self, cost: int) -> None:
        self.unsettled = cost if self.unsettled is None else min(self.unsettled, cost)
