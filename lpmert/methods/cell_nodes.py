"""The nodes of the search over the weight space, and the units of work that workers do.

A node is a simplicial cone, or a box, which is a part of a face of the cube; see `lpmert/core/cone.hpp` and
`lpmert/core/box.hpp`. A root node holds all hypotheses. A stalled box is divided into cones that hold its survivors.
Bounds are costs, or heights of a ratio metric. A unit of work explores a batch of nodes (`explore`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert import core
from lpmert.errors import FloatArray, IntArray
from lpmert.limits import out_of_time
from lpmert.methods.choices import ChoicesSearch, Loss
from lpmert.model.canonical import Canonical
from lpmert.numeric import rational
from lpmert.numeric.cone import cones_of_box, covering_cone, enclosing_cone
from lpmert.numeric.lists import SortedLists, sizes_of_rows
from lpmert.numeric.rational import EPSILON, SMALLEST_NORMAL, exact_products, single_products
from lpmert.search.combined import Answer, OpenNode
from lpmert.search.method import Incumbent
from lpmert.workers import PerThread

_EXACT_BITS = 49
_MOST_HALVINGS = 30

_WIDE = 1.0 + 1e-5  # largest absolute weight in a box or in a slightly wider one, with room for rounding

WIDER = 1.0 + 2.0**-20
"""Factor on the radii of a box that gives the box around it whose normals `lpmert.core.box_normals` returns; exact."""

MOST_FEATURES_OF_CONES = 6  # most features for dividing a box into cones: there are (D - 1)! cones to each box
FEW_LISTS = 10  # most open lists of a stalled box that exact arithmetic closes at once, without dividing it into cones


class Precision(NamedTuple):
    """How exact the products of features with weights of boxes are.

    places: most halvings of an axis for which all sums of a box are exact, -1 if they never are. error: bound on the
    error of the difference of two products that comes from rounded features. least_radius: a stalled box
    is not halved below this radius.
    """

    places: int
    error: float
    least_radius: float


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
    """Return how exact the products of features with weights of boxes are.

    Sums are exact if all features are multiples of a power of two, and small multiples. A stalled box that can be
    divided into cones is not halved so far that scores at their corners would be rounded.
    """
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
    """Return a search over selections with exact answers, below the incumbent, and the cost of the settled lists.

    part: the survivors of a part of the weight space, and the normals of that part; `None` for the whole space.
    """
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


_ROOM = 1 << 24
"""Bytes of open nodes in the core after which time and memory are checked; the room doubles after each check."""

_FULL, _HARD = 1, 2  # why the core stopped: its nodes need more room, or exact arithmetic must close the top node

_COUNTS = ("nodes", "leaves", "leaf_lps", "conflicting", "looked_at", "work")
"""Names of the counts of the core: see `Counts` in `lpmert/core/node.hpp`."""


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
        """Push a root node with all hypotheses, the only node, and propagate it.

        It is closed if its bound shows that nothing in it costs less than the cut-off, or if its bound exceeds `limit`.
        root: see `root_node`, or the number of a cone that `covering_cone` knows.
        """
        lists = self.loss.lists
        whole = covering_cone(lists.rows.shape[1], root) if isinstance(root, int) else root
        self.push(root_node(lists, whole, self.loss.total))
        self._core.aim(cutoff, self.loss.loss_of(cutoff))
        self._core.propagate_root(self.loss.bound_of(cutoff) - self.loss.granularity if limit is None else limit)

    def explore(self, cutoff: int, budget: int, spread: int | None = None) -> None:
        """Explore nodes below a cut-off for a given amount of work.

        spread: explore only nodes whose bounds exceed the least one by at most this; when these are done, continue with
        the next ones unless most of the work is done. `None`: explore all nodes.
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
