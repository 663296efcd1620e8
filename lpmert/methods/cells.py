"""Branch and bound over the weight space. A node is a part of it, with the hypotheses that may win there.

A node is a simplicial cone or, from three or four features on, the cone over a box on a face of the cube (a "box").
See `lpmert/core/cone.hpp` and `lpmert/core/box.hpp`. Stalled boxes are divided into cones.

1. Root nodes cover the weight space. Propagation drops the hypotheses that cannot win anywhere in a node.
2. The dual bound of a node is the sum of the cheapest survivors of all lists. For a ratio metric, a linear minorant of
   the loss that is tight at the sums of the node prices the survivors. Conflicts between lists raise the bound.
3. A node whose bound reaches the cut-off, the incumbent's cost, is closed; other nodes are branched. The search is
   depth first within a batch and best first over batches: the node queue hands out the nodes with the least bounds.
4. Small or stalled nodes are leaves: a search over selections, restricted to the node, solves them (`choices`). Where
   rounding leaves a leaf undecided, exact arithmetic closes it (`CellsSearch._close_top`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert import core
from lpmert.configurable import option
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.limits import checkpoint, out_of_time
from lpmert.methods.choices import ChoicesSearch, Loss, loss_for
from lpmert.methods.lattices import LatticeSearch
from lpmert.model.canonical import Canonical
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.numeric import rational
from lpmert.numeric.cone import cone_around, cones_of_box, covering_cone, enclosing_cone, number_of_cones
from lpmert.numeric.lists import SortedLists, sizes_of_rows
from lpmert.numeric.rational import EPSILON, SMALLEST_NORMAL, exact_products, single_products
from lpmert.search.combined import Answer, Call, Combined, NodeQueue, OpenNode
from lpmert.search.method import Incumbent, Method, Search, Task
from lpmert.workers import PerThread

_SLICE = 4_000_000  # work in a slice of the search
_BATCH = 8  # most nodes in the batch of a unit: enough that a unit rarely runs out of nodes
_UNIT = 2 * _SLICE  # work in an ordinary unit, a few hundredths of a second: more than sending it costs, yet soon done
_ANSWERS = 4  # answers taken in one slice, so that a turn in a portfolio is about as long as a turn of others
_ALONE = _SLICE  # work after which a search submits units to workers: short searches do not need them
_ROOT = 3  # memory of the first node in multiples of the features, beyond what the report reserves
_LEAF_ROWS = 2500  # hypotheses of a node above which it does not count as stalled: exact arithmetic would take too long

_PATIENCE, _CLOSING_SHARE, _CLOSING_SHARE_OF_RATIOS = 400, 0.25, 0.5
"""Nodes spent on closing stalled boxes, and shares of the box nodes, before the search restarts with simplices. With
ratio metrics, simplices are slower, so that a restart pays off later.
"""

_MOST_FEATURES = 6  # most features for such a restart: simplices of more are many and thin, and stall sooner
_CLOSING_NODES = 50  # cost of starting to close a node in exact arithmetic, in nodes

_MANY_CLOSINGS = 16
"""Nodes closed in exact arithmetic after which a search over the selections of all lists runs beside: if differences
are nearly parallel, their boundaries pass through more nodes than there are selections.
"""

_SHORT, _TO_THE_END, _LEVELS = 100_000_000, 6, 16
"""In a search that has branched boxes of more than `_SHORT` features times hypotheses, of more features than
`_TO_THE_END`, the bounds of a batch differ by at most a share, 1 / `_LEVELS`, of the gap to the cut-off: the dual bound
then rises faster. Shorter searches end sooner with large batches.
"""

_QUEUE_BYTES = 1 << 28  # memory from which the node queue grows no further: batches are explored to their end

_BOX_FEATURES, _BOX_FEATURES_OF_RATIOS = 3, 4  # from which on boxes are better than simplices, unless they stall


@dataclass(frozen=True)
class Cells(Method):
    """Branch and bound over cones of the weight space; no option changes the optimum."""

    leaf_lists: int | None = option(
        None,
        "nodes with at most this many open lists go to the search over selections; none: 10, or 6 for ratio metrics",
        least=0,
    )
    conflict_lists: int = option(
        4000, "conflicts of pairs raise the bounds of nodes with at most this many open lists; 0 for none", least=0
    )
    stalled_splits: int = option(
        4, "divisions in a row, per feature, with little progress before a node goes to that search", least=0
    )
    shape: str = option(
        "auto",
        "shape of the nodes; auto: boxes, but simplices for few features, within a cosine, or if boxes stall",
        choices=("auto", "simplices", "boxes"),
    )
    units: int = option(8, "units of work in flight in a long search; at most this many workers are busy", least=1)

    name = "cells"
    takes_ratios = True
    takes_jobs = True
    takes_fractions = True
    takes_caps = True
    takes_lattices = True

    def boxed(self, canonical: Canonical) -> bool:
        """Return whether nodes are boxes; raises `MethodError` if the settings ask for boxes within a cosine."""
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
    """A resumable branch and bound over the weight space of a problem in canonical form.

    A short search explores nodes in the calling process; a long one submits batches of nodes to workers, by way of the
    node queue.

    roots: cones that the search is restricted to, by default all of the weight space; either rays [d, d], or nodes with
    the hypotheses that may win there (`Fields`). Closing a node in exact arithmetic may look beyond the roots, and
    weights found there count. loss: shared with another search over the same problem.
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
        self._unit_counts: Counter[str] = Counter()
        self._exact_leaves = 0
        self._stalled = 0
        self._floor = 0  # a lower bound that another search has proved
        self._may_search_selections = roots is None
        self._selection_search: ChoicesSearch | None = None
        self._reset_nodes(roots is None and settings.boxed(canonical), roots)

    def _reset_nodes(self, boxed: bool, roots: Iterable[Any] | None = None) -> None:
        self._task = CellsTask(self._loss, self._node_settings, boxed)
        n_features, cap = self._canonical.n_features, self._canonical.cap
        if roots is None:
            around = None if cap is None else cone_around(cap)
            cones = range(number_of_cones(n_features)) if around is None else [around]
            roots = faces(n_features) if boxed else cones
        all_roots = list(roots)
        self._roots = deque(root for root in all_roots if not isinstance(root, dict))
        self._nodes = NodeSearch(self._task, self.incumbent.weights)
        self._queue = NodeQueue(self._settings.units, _BATCH, _UNIT)
        for root in all_roots:
            if isinstance(root, dict):
                self._nodes.push(root)
        self._awaiting_exact: deque[OpenNode] = deque()
        self._closing: tuple[ChoicesSearch | CellsSearch, int] | None = None

    @property
    def _searches(self) -> Sequence[Search]:
        searches = [None if self._closing is None else self._closing[0], self._selection_search]
        return [search for search in searches if search is not None]

    @property
    def effort(self) -> float:
        return self._counts["work"] / _SLICE + super().effort

    @property
    def oracle_bound(self) -> int | None:
        """See `Loss.oracle_bound`; for other searches over the same lists."""
        return self._loss.oracle_bound

    @property
    def finished(self) -> bool:
        return self.lower_bound >= self.incumbent.cost or self.open_nodes == 0

    @property
    def lower_bound(self) -> int:
        """The least dual bound of an open node, or the least cost found if no node is open."""
        upper = self._upper
        bounds = [self._nodes.least_bound, self._queue.least_bound, *(node.bound for node in self._awaiting_exact)]
        open_bounds = [bound for bound in bounds if bound is not None] + [0] * bool(len(self._roots))
        least = min(upper, self._loss.cost_of(min(open_bounds))) if open_bounds else upper
        return upper if least > upper - self._granularity else min(upper, max(least, self._floor))

    @property
    def nodes(self) -> int:
        return self._counts["nodes"] + super().nodes

    @property
    def open_nodes(self) -> int:
        return len(self._roots) + len(self._queue) + len(self._awaiting_exact) + self._nodes.n_nodes

    @property
    def lps(self) -> int:
        return self._counts["leaf_lps"] + self._counted["lps"]

    def counters(self) -> Mapping[str, int]:
        return {
            "nodes": self.nodes,
            "conflicting": self._counts["conflicting"] + self._counted["conflicting"],
            "leaves": self._counts["leaves"] + self._counted["leaves"],
            "lps": self.lps,
            "exact_leaves": self._exact_leaves + self._counted["exact_leaves"],
        }

    def advance(self) -> None:
        if self.finished:
            return
        if self._nodes.hard:
            self._close_top()
        elif self._awaiting_exact:
            self._nodes.load(self._awaiting_exact.popleft())
            self._nodes.hard = True
        elif self._queue.shared or self._nodes.counts["work"] >= _ALONE:
            for _ in range(_ANSWERS):
                self._take_answer()
                if self._awaiting_exact or self.finished:
                    break
        else:
            self._explore_locally()

    def state(self) -> Mapping[str, Any]:
        nodes = [*self._nodes.nodes(), *self._awaiting_exact, *self._queue.nodes()]
        return {
            **super().state(),
            "roots": len(self._roots),
            "nodes": [node._asdict() for node in nodes],
            "boxed": self._task.boxed,
            "counts": dict(self._counts),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        if self._task.boxed and not state["boxed"]:
            self._reset_nodes(boxed=False)
        super().restore(state)
        while len(self._roots) > state["roots"]:
            self._roots.popleft()
        self._queue.push(OpenNode(**node) for node in state["nodes"])
        self._unit_counts = Counter(state["counts"])

    def _explore_locally(self) -> None:
        nodes = self._nodes
        if nodes.n_nodes == 0:
            if not len(self._queue):
                self._propagate_root()
            if len(self._queue):
                nodes.load(self._queue.pop())
        if nodes.n_nodes:
            nodes.explore(self.incumbent.cost, _SLICE)
            self.incumbent.improve(*nodes.found(), "C")

    def _propagate_root(self) -> None:
        """Propagate the next root, and push it to the node queue unless it is closed; no other node is at hand."""
        checkpoint(0 if self._counts["nodes"] else _ROOT * self._loss.lists.rows.nbytes)
        nodes = self._nodes
        nodes.propagate_root(self._roots[0], self.incumbent.cost)
        self.incumbent.improve(*nodes.found(), "C")
        self._queue.push(nodes.take_all())
        self._roots.popleft()

    def _take_answer(self) -> None:
        """Submit units, and take the answer to the oldest one."""
        # Local nodes join the node queue, so that the least bound of all comes next.
        self._queue.push(node for node in self._nodes.take_all() if not self._is_cut_off(node.bound))
        if len(self._roots):
            self._propagate_root()
            return
        if not self._queue.shared:
            self._queue.share(self._task)
        answer = self._queue.next_answer(self._unit_for)
        self.incumbent.improve(answer.cost, answer.weights, answer.source)
        self._unit_counts.update(answer.counts)
        if answer.hard:
            self._awaiting_exact.append(answer.nodes.pop())
        nodes = [node for node in answer.nodes if not self._is_cut_off(node.bound)]
        if self._queue.nbytes < _QUEUE_BYTES:
            self._queue.push(nodes)
        else:
            self._queue.push_batch(nodes)
        self._queue.submit_batches(self._unit_for)

    def _unit_for(self, nodes: list[OpenNode], work: int) -> Call:
        best, n_features, spread = self.incumbent, self._canonical.n_features, None
        long = n_features > _TO_THE_END and self._counts["looked_at"] * n_features >= _SHORT
        if self._task.boxed and long and self._queue.nbytes < _QUEUE_BYTES:
            gap = self._loss.bound_of(best.cost) - min(node.bound for node in nodes)
            spread = max(0, gap) // _LEVELS
        return explore, (nodes, best.cost, best.weights, work, spread)

    @property
    def _counts(self) -> Counter[str]:
        return self._nodes.counts + self._unit_counts

    def _is_cut_off(self, bound: int) -> bool:
        """Whether a node of this bound cannot contain weights better than the incumbent."""
        return bound > self._loss.bound_of(self.incumbent.cost) - self._granularity

    def _start_closing(self) -> tuple[ChoicesSearch | CellsSearch, int] | None:
        """Return the search that closes the top node, over cones or exact, and its settled cost, if it is open."""
        self._stalled += 1
        cones = self._nodes.cones()
        if not cones:
            return self._start_exact_closing()
        return CellsSearch(self._settings, self._canonical, replace(self.incumbent, source=""), cones, self._loss), 0

    def _start_exact_closing(self) -> tuple[ChoicesSearch, int] | None:
        """Return the search that closes the top node with exact answers: over selections, in a slightly wider cone.

        Its survivors are found by propagating all hypotheses in the wider cone. If the cone is too thin to be widened,
        the selections of the whole weight space are searched. `None`: nothing in the wider cone is below the cut-off.
        """
        self._exact_leaves += 1
        enclosing = self._nodes.enclosing()
        part = None
        if enclosing is not None:
            normals, wider_root = enclosing
            survivors, best = self._nodes.propagated(wider_root, self.incumbent.cost)
            self.incumbent.improve(*best, "C")
            if survivors is None:
                return None
            part = survivors, normals
        return selection_search(self._canonical, self._loss, replace(self.incumbent, source=""), part)

    def _close_top(self) -> None:
        if self._boxes_stall:
            self._restart_with_simplices()
            return
        if self._closing is None:
            # A better incumbent of another unit may have closed the node meanwhile.
            self._closing = None if self._is_cut_off(self._nodes.top()["bound"]) else self._start_closing()
            if self._closing is None:
                self._nodes.drop_top()
            return
        search, fixed = self._closing
        if not search.finished:
            search.advance()
        self._take_incumbent(search, fixed)
        if search.finished:
            self._retire(search)
            self._closing, unsettled = None, search.unsettled
            if unsettled is not None and not isinstance(search, CellsSearch):
                self._leave_unsettled(unsettled + fixed)
            elif unsettled is not None and unsettled < self.incumbent.cost:
                # Exact arithmetic over the whole box may settle what its cones left unsettled.
                self._closing = self._start_exact_closing()
            if self._closing is None:
                self._nodes.drop_top()
        if self._may_search_selections and self.counters()["exact_leaves"] > _MANY_CLOSINGS:
            self._search_selections()

    def _take_incumbent(self, search: Search, fixed: int) -> None:
        """Take the incumbent of a closing search if doubles attain its cost; if not, that cost is unsettled."""
        if search.incumbent.cost + fixed < self.incumbent.cost:
            weights = search.incumbent.weights
            cost = self._loss.attained(weights, search.incumbent.cost + fixed)
            if cost is None:
                self._leave_unsettled(search.incumbent.cost + fixed)
            else:
                self.incumbent.improve(cost, weights, "X")

    def _search_selections(self) -> None:
        """Advance a search over the selections of all lists by a slice, and take its incumbent and bound."""
        if self._selection_search is None:
            self._selection_search = ChoicesSearch(self._canonical, replace(self.incumbent, source=""))
        search = self._selection_search
        search.incumbent.improve(self.incumbent.cost, self.incumbent.weights, "")
        search.advance()
        self._take_incumbent(search, 0)
        self._floor = max(self._floor, search.lower_bound)
        if self._floor >= self.incumbent.cost:
            self._unsettled = None
        if search.finished:
            self._retire(search)
            self._selection_search, self._may_search_selections = None, False

    @property
    def _boxes_stall(self) -> bool:
        """Whether closing stalled boxes takes too large a share of the work, so that simplices are worth a try."""
        if not self._task.boxed or self._settings.shape != "auto" or self._canonical.n_features > _MOST_FEATURES:
            return False
        share = _CLOSING_SHARE if self._canonical.additive else _CLOSING_SHARE_OF_RATIOS
        box_nodes, closings = self._counts["nodes"], self._stalled + self._counted["exact_leaves"]
        if self._closing is not None:
            closings += self._closing[0].counters().get("exact_leaves", 0)
        return self.nodes - box_nodes + _CLOSING_NODES * closings > share * box_nodes + _PATIENCE

    def _restart_with_simplices(self) -> None:
        """Search all of the weight space again with simplices, whose sides can coincide with more boundaries."""
        if self._closing is not None:
            self._counted.update(self._closing[0].counters())
        self._floor = self.lower_bound
        self._unit_counts = self._counts
        self._unsettled = None
        self._reset_nodes(boxed=False)


_EXACT_BITS = 49
_MOST_HALVINGS = 30

_WIDE = 1.0 + 1e-5  # largest absolute weight in a box or in a slightly wider one, with room for rounding
WIDER = 1.0 + 2.0**-20  # factor on the radii of a box for the one whose normals `core.box_normals` returns; exact

MOST_FEATURES_OF_CONES = 6  # most features for dividing a box into cones: there are (D - 1)! cones to each box
FEW_LISTS = 10  # most open lists of a stalled box that exact arithmetic closes at once, without dividing it into cones


class Precision(NamedTuple):
    """How exact the products of features with weights of boxes are."""

    places: int  # most halvings of an axis for which all sums of a box are exact, -1 if they never are
    error: float  # bound on the error of the difference of two products that comes from rounded features
    least_radius: float  # a stalled box is not halved below this radius


class Survivors(NamedTuple):
    """The hypotheses that may win in a node, by lists; fixed, total [K]: cost and statistics of the settled lists."""

    ids: NDArray[np.int32]
    costs: IntArray
    ends: IntArray
    fixed: int
    total: FloatArray


Fields = dict[str, Any]
"""The fields of a node of the core by name, with flat arrays: see `Node`, `Cone` and `Box` in `lpmert/core/`."""


def root_node(lists: SortedLists, root: Any, total: FloatArray) -> Fields:
    """Return a node with all hypotheses; root: rays [D, D], or centre [D] and radius [D]; total [K]: settled."""
    least = int(lists.costs[lists.offsets[:-1]].sum())
    ids = np.arange(len(lists.rows), dtype=np.int32)
    fields = {"ids": ids, "ends": lists.offsets, "own": least, "bound": least, "total": total}
    if isinstance(root, tuple):
        return {**fields, "centre": root[0], "radius": root[1]}
    scores, errors = _scores_at(root, lists.rows, lists.spread)
    return {**fields, "scores": scores.ravel(), "rays": np.ravel(root), "errors": errors}


def faces(n_features: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield centre [D] and radius [D] of the 2 D faces of the cube."""
    for axis, sign in product(range(n_features), (1.0, -1.0)):
        centre, radius = np.zeros(n_features), np.ones(n_features)
        centre[axis], radius[axis] = sign, 0.0
        yield centre, radius


def precision_of(lists: SortedLists) -> Precision:
    """Return how exact products are; boxes are not halved until scores at corners of their cones are rounded."""
    places = -1
    with np.errstate(over="ignore"):  # an infinite size is too large for exact sums
        largest = float(sizes_of_rows(lists.rows).max(initial=0.0))
    if largest < 2.0**_EXACT_BITS and not lists.spread.any():
        binary = rational.binary_places(lists.rows)
        places = -1 if binary is None else max(-1, _EXACT_BITS - binary - max(0, int(np.frexp(largest)[1])))
    exact = 0 <= places < _MOST_HALVINGS and lists.rows.shape[1] <= MOST_FEATURES_OF_CONES
    least = 2.0 ** -(places + 1 if exact else _MOST_HALVINGS)
    return Precision(places, 2.0 * _WIDE * float(lists.spread.sum()), least)


def _scores_at(rays: FloatArray, features: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the scores [K, M] of features [M, D] at rays [K, D], and a bound on their errors at each ray [K]."""
    n_features = features.shape[1]
    if (np.count_nonzero(rays, axis=1) == 1).all():  # an orthant: scores are single products, without sums
        axis = np.abs(rays).argmax(axis=1)
        scores = np.ascontiguousarray((features[:, axis] * rays[np.arange(len(rays)), axis]).T)
    else:
        scores = np.ascontiguousarray((features @ rays.T).T)
    errors = (1.0 + 8.0 * n_features * EPSILON) * (np.abs(rays) @ spread)
    rounded = ~single_products(rays)
    if rounded.any():
        largest = float(sizes_of_rows(features).max(initial=0.0))
        rounded[rounded] = ~exact_products(rays[rounded], features, largest)
        off = EPSILON * (np.abs(rays).max(initial=0.0) * largest) + SMALLEST_NORMAL
        errors += np.where(rounded, n_features * off, 0.0)
    return scores, errors


def cones_of(lists: SortedLists, box: Fields, survivors: Survivors) -> list[Fields]:
    """Return cones over the corners of a box that cover it, with its survivors; each charges conflicts anew."""
    cones = cones_of_box(box["centre"], _diagonal(lists, survivors, box["radius"]))
    rays, which = np.unique(cones.reshape(-1, len(box["centre"])), axis=0, return_inverse=True)
    scores, errors = _scores_at(rays, lists.rows[survivors.ids], lists.spread)
    shared = {name: value for name, value in survivors._asdict().items() if name != "fixed"}
    shared |= {"own": box["own"], "bound": box["own"]}
    return [
        {**shared, "scores": scores[corners].ravel(), "rays": cone.ravel(), "errors": errors[corners]}
        for cone, corners in zip(cones, which.reshape(len(cones), -1), strict=True)
    ]


def _diagonal(lists: SortedLists, survivors: Survivors, radius: FloatArray) -> FloatArray:
    """Return the radii [D] of a box, signed as the diagonal of all its cones, along which differences vary least."""
    ids, costs, ends = survivors.ids, survivors.costs, survivors.ends
    sizes = np.diff(ends)
    shares = (lists.rows[ids] - lists.rows[np.repeat(ids[ends[:-1]], sizes)]) * radius
    steps = costs - np.repeat(costs[ends[:-1]], sizes)
    reach = np.abs(shares).sum(axis=1, keepdims=True)
    shares = np.where(reach > 0, shares / np.where(reach > 0, reach, 1.0), 0.0)
    form = (shares * steps[:, None]).T @ shares
    signs = np.array(list(product((1.0, -1.0), repeat=len(radius))))
    return np.asarray(signs[np.argmin(((signs @ form) * signs).sum(axis=1))] * radius)


def selection_search(
    canonical: Canonical, loss: Loss, incumbent: Incumbent, part: tuple[Survivors, FloatArray] | None
) -> tuple[ChoicesSearch, int]:
    """Return an exact search over selections, in a part with normals or everywhere, and the cost settled there."""
    if part is None:
        return ChoicesSearch(canonical, incumbent), 0
    kept, normals = part
    if loss.ratio is None:
        rows, exact = np.ascontiguousarray(loss.lists.rows[kept.ids]), loss.lists.rounding
        lists = replace(canonical, features=rows, offsets=kept.ends, losses=kept.costs, step=loss.granularity)
        lists = replace(lists, rounding=None if exact is None else exact.take(kept.ids))
        incumbent.cost -= kept.fixed
        return ChoicesSearch(lists.within(normals), incumbent, len(normals)), kept.fixed
    n_lists = np.count_nonzero(kept.ids[kept.ends[:-1]] < len(canonical.features))  # lists of limits come last
    ends = kept.ends[: n_lists + 1]
    lists = canonical.take(kept.ids[: ends[-1]], ends)
    exact = None if lists.rounding is None else lists.rounding.behind(normals)
    totals = replace(lists.totals, constant=kept.total)
    lists = replace(lists, losses=totals, limits=np.vstack([normals, canonical.limits]), rounding=exact)
    return ChoicesSearch(lists, incumbent, tight=False), 0


_ROOM = 1 << 24  # bytes of open nodes in the core after which time and memory are checked, and which then double
_FULL, _HARD = 1, 2  # why the core stopped: its nodes need more room, or exact arithmetic must close the top node

_COUNTS = ("nodes", "leaves", "leaf_lps", "conflicting", "looked_at", "work")  # see `Counts` in `core/node.hpp`


class NodeSettings(NamedTuple):
    """Settings of the core for nodes: see `Settings` in `lpmert/core/node.hpp`."""

    granularity: int
    leaf_lists: int
    leaf_rows: int
    conflict_lists: int
    most_stalled: int
    hopeless: int
    row_work: int
    levels: int = 4


class NodeSearch:
    """A stack of nodes that the core explores depth first; `hard`: exact arithmetic must close the top node."""

    def __init__(self, task: CellsTask, weights: FloatArray) -> None:
        self._task, self.loss = task, task.loss
        lists = self.loss.native, self.loss.ratio
        self._core = core.cell_search(*lists, task.precision, task.settings)
        self.renew(weights)

    def renew(self, weights: FloatArray) -> None:
        self._core.renew(np.ascontiguousarray(weights))
        self.hard = False

    @property
    def n_nodes(self) -> int:
        return len(self._core.bounds)

    @property
    def least_bound(self) -> int | None:
        return min(self._core.bounds.tolist(), default=None)

    @property
    def counts(self) -> Counter[str]:
        return Counter(dict(zip(_COUNTS, self._core.counts, strict=True)))

    def push(self, fields: Fields) -> None:
        self._core.push(fields)

    def load(self, node: OpenNode) -> None:
        self._core.load(node.data)

    def propagate_root(self, root: Any, cutoff: int, limit: int | None = None) -> None:
        """Push a `root_node`, or a cone by its number, the only node; it is closed if its bound exceeds `limit`."""
        lists = self.loss.lists
        whole = covering_cone(lists.rows.shape[1], root) if isinstance(root, int) else root
        self.push(root_node(lists, whole, self.loss.total))
        self._core.aim(cutoff, self.loss.loss_of(cutoff))
        self._core.propagate_root(self.loss.bound_of(cutoff) - self.loss.granularity if limit is None else limit)

    def explore(self, cutoff: int, budget: int, spread: int | None = None) -> None:
        """Explore nodes below a cut-off for an amount of work; spread: most difference of their bounds to the least.

        When these are done, the next ones follow unless most of the work is done. `None`: explore all nodes.
        """
        self._core.aim(cutoff, self.loss.loss_of(cutoff))
        self._core.begin(budget, -1 if spread is None else spread)
        room = _ROOM
        while (outcome := self._core.explore(room)) == _FULL:
            if out_of_time():  # or out of memory: one slice can take much
                break
            room *= 2
        self.hard = outcome == _HARD

    def found(self) -> tuple[int, FloatArray]:
        found = self._core.found
        return self.loss.cost_found(found), found[2]

    def top(self) -> Fields:
        return dict(self._core.top())

    def drop_top(self) -> None:
        self._core.pop()
        self.hard = False

    def nodes(self) -> list[OpenNode]:
        """Return copies of all nodes, the top node last."""
        return [OpenNode(*node) for node in self._core.nodes()]

    def take_all(self) -> list[OpenNode]:
        nodes = self.nodes()
        self._core.clear()
        return nodes

    def _survivors(self) -> Survivors:
        return Survivors(*self._core.survivors())

    def cones(self) -> list[Fields]:
        """Return cones that cover the top node, none if it is a cone or exact arithmetic is better."""
        n_features = self.loss.lists.rows.shape[1]
        if not self._task.boxed or n_features > MOST_FEATURES_OF_CONES:
            return []
        survivors = self._survivors()
        return cones_of(self.loss.lists, self.top(), survivors) if len(survivors.ends) - 1 > FEW_LISTS else []

    def enclosing(self) -> tuple[FloatArray, Any] | None:
        """Return normals [k, D] of a part that surely contains the top node, and a root around it, if any."""
        top = self.top()
        if self._task.boxed:
            return core.box_normals(top["centre"], top["radius"]), (top["centre"], WIDER * top["radius"])
        return enclosing_cone(top["rays"].reshape(len(top["errors"]), -1))

    def propagated(self, root: Any, cutoff: int) -> tuple[Survivors | None, tuple[int, FloatArray]]:
        """Return the survivors of a root, `None` if propagation closes it, and the incumbent found there."""
        fresh = NodeSearch(self._task, self.found()[1])
        fresh.propagate_root(root, cutoff, core.INFINITE_COST - 1)
        return fresh._survivors() if fresh.n_nodes else None, fresh.found()


@dataclass
class CellsTask:
    """The value that all units of a search share; boxed: whether nodes are boxes."""

    loss: Loss
    settings: NodeSettings
    boxed: bool
    _searches: PerThread[NodeSearch] = field(default_factory=PerThread, repr=False)

    @cached_property
    def precision(self) -> Precision | None:
        """See `Precision`; `None` for cones."""
        return precision_of(self.loss.lists) if self.boxed else None

    def search(self, weights: FloatArray) -> NodeSearch:
        search = self._searches.get(lambda: NodeSearch(self, weights))
        search.renew(weights)
        return search


def explore(
    task: CellsTask, nodes: list[OpenNode], cost: int, weights: FloatArray, budget: int, spread: int | None
) -> Answer:
    """Explore a batch of nodes, the first node first, below the cost of weights [D]; see `NodeSearch.explore`."""
    search = task.search(weights)
    for node in reversed(nodes):
        search.load(node)
    search.explore(cost, budget, spread)
    return Answer(search.take_all(), *search.found(), "C", None, search.counts, hard=search.hard)
