"""The nodes of the search over the weight space, and the units of work that workers do.

Nodes are cones and boxes with all hypotheses, and cones in boxes: a cone is simplicial; a box is a part of a face of
the cube, see `lpmert/core/cone.hpp` and `lpmert/core/box.hpp`. The loss is a sum of costs, or the height of a ratio. A
unit prunes a root, or searches some nodes for so much work.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert import core
from lpmert.errors import FloatArray, IntArray
from lpmert.methods.choices.choices import Choices, ChoiceSettings, ChoicesSearch, Loss
from lpmert.model.canonical import Canonical
from lpmert.numeric import rounding
from lpmert.numeric.cone import cones_of_box, covering_cone, enclosing_cone
from lpmert.numeric.lists import SortedLists, sizes_of_rows
from lpmert.numeric.rounding import exact_products, single_products
from lpmert.search.method import Incumbent
from lpmert.search.node_queue import Answer, OpenNode
from lpmert.system.deadline import out_of_time
from lpmert.workers import SERIAL, Pending, PerThread, Shared, current_workers

_EXACT_BITS = 49
_MOST_HALVINGS = 30

_WIDE = 1.0 + 1e-5
"""What an entry of weights of a box, or of a slightly wider one, is at most, and room for rounding."""

_WIDER = 1.0 + 2.0**-20
"""Radii of a box that surely contains another; their products are exact."""

MOST_FEATURES_OF_CONES = 6
"""Features up to which a box is divided into cones: there are (D - 1)! of them."""

FEW_LISTS = 10
"""Open lists up to which exact arithmetic closes a stalled box, rather than cones."""


class Precision(NamedTuple):
    """places: how often an axis may be halved so that all sums of a box are still exact, -1 if they never are; off: how
    far the difference of two products with weights of a box may be from the one meant, as features are rounded;
    least: smallest radius of a box that has stalled.
    """

    places: int
    off: float
    least: float


class Survivors(NamedTuple):
    """The hypotheses that may win in a part of the weight space, by lists; fixed, total [K]: of all other lists."""

    ids: NDArray[np.int32]
    costs: IntArray
    ends: IntArray
    fixed: int
    total: FloatArray


Fields = dict[str, Any]
"""A node of the core by names: see `Node`, `Cone` and `Box` in `lpmert/core/`; arrays are flat."""


def whole_cone(lists: SortedLists, rays: FloatArray, total: FloatArray) -> Fields:
    """Return the cone of these rays [D, D] with all hypotheses; total [K] of the lists settled for good."""
    scores, errors = _scores_at(rays, lists.rows, lists.spread)
    return {**_with_all(lists, total), "scores": scores.ravel(), "rays": np.ravel(rays), "errors": errors}


def whole_box(lists: SortedLists, centre: FloatArray, radius: FloatArray, total: FloatArray) -> Fields:
    """Return a box [D], [D] with all hypotheses; total [K] of the lists settled for good."""
    return {**_with_all(lists, total), "centre": centre, "radius": radius}


def faces(n_features: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield centre and radius [D] of the 2 D faces of the cube."""
    for axis, sign in product(range(n_features), (1.0, -1.0)):
        centre, radius = np.zeros(n_features), np.ones(n_features)
        centre[axis], radius[axis] = sign, 0.0
        yield centre, radius


def _with_all(lists: SortedLists, total: FloatArray) -> Fields:
    least = int(lists.costs[lists.offsets[:-1]].sum())
    ids = np.arange(len(lists.rows), dtype=np.int32)
    return {"ids": ids, "ends": lists.offsets, "own": least, "bound": least, "total": total}


def widened(radius: FloatArray) -> FloatArray:
    """Return the radii [D] of the box whose normals `lpmert.core.box_normals` returns."""
    return radius * _WIDER


def binary_places(lists: SortedLists) -> int:
    """Return how often an axis may be halved so that all sums of a box are still exact, -1 if they never are.

    They are where the features are multiples of a power of two, and not too large for that.
    """
    if lists.spread.any():
        return -1
    with np.errstate(over="ignore"):  # an infinite one proves nothing
        largest = float(sizes_of_rows(lists.rows).max(initial=0.0))
    places = rounding.binary_places(lists.rows) if largest < 2.0**_EXACT_BITS else None
    return -1 if places is None else max(-1, _EXACT_BITS - places - max(0, int(np.frexp(largest)[1])))


def precision_of(lists: SortedLists) -> Precision:
    """Return how exact the products of features with weights of boxes are.

    Boxes that become cones are not halved further than that these can begin with exact products.
    """
    places = binary_places(lists)
    exact = 0 <= places < _MOST_HALVINGS and lists.rows.shape[1] <= MOST_FEATURES_OF_CONES
    least = 2.0 ** -(places + 1 if exact else _MOST_HALVINGS)
    return Precision(places, 2.0 * _WIDE * float(lists.spread.sum()), least)


def _scores_at(rays: FloatArray, features: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the scores [K, M] of features [M, D] at rays [K, D], and what they are off at each of these at most."""
    n_features = features.shape[1]
    if (np.count_nonzero(rays, axis=1) == 1).all():  # an orthant: no products to add up
        axis = np.abs(rays).argmax(axis=1)
        scores = np.ascontiguousarray((features[:, axis] * rays[np.arange(len(rays)), axis]).T)
    else:
        scores = np.ascontiguousarray((features @ rays.T).T)
    epsilon = np.finfo(np.float64).eps
    errors = (1.0 + 8.0 * n_features * epsilon) * (np.abs(rays) @ spread)
    rounded = ~single_products(rays)
    if rounded.any():
        largest = float(sizes_of_rows(features).max(initial=0.0))
        rounded[rounded] = ~exact_products(rays[rounded], features, largest)
        errors += np.where(rounded, n_features * epsilon * (np.abs(rays).max(initial=0.0) * largest), 0.0)
    return scores, errors


def cones_of(lists: SortedLists, box: Fields, part: Survivors) -> list[Fields]:
    """Return cones over the corners of a box, of which this part of the lists is left, that cover it.

    Where many boundaries meet in a corner, halves of a box come no nearer to telling them apart; cones do. What
    conflicts have charged the box they charge in every cone anew.
    """
    cones = cones_of_box(box["centre"], _diagonal(lists, part, box["radius"]))
    rays, which = np.unique(cones.reshape(-1, len(box["centre"])), axis=0, return_inverse=True)
    scores, errors = _scores_at(rays, lists.rows[part.ids], lists.spread)
    own = {"own": box["own"], "bound": box["own"], "total": part.total}
    of_lists = {"ids": part.ids, "costs": part.costs, "ends": part.ends, **own}
    return [
        {**of_lists, "scores": scores[corners].ravel(), "rays": cone.ravel(), "errors": errors[corners]}
        for cone, corners in zip(cones, which.reshape(len(cones), -1), strict=True)
    ]


def _diagonal(lists: SortedLists, part: Survivors, radius: FloatArray) -> FloatArray:
    """Return the radii [D] of a box with the signs of the diagonal along which differences vary least.

    Where many boundaries coincide, the cones then have it in common.
    """
    sizes = np.diff(part.ends)
    shares = (lists.rows[part.ids] - lists.rows[np.repeat(part.ids[part.ends[:-1]], sizes)]) * radius
    steps = part.costs - np.repeat(part.costs[part.ends[:-1]], sizes)
    reach = np.abs(shares).sum(axis=1, keepdims=True)
    shares = np.where(reach > 0, shares / np.where(reach > 0, reach, 1.0), 0.0)
    form = (shares * steps[:, None]).T @ shares
    signs = np.array(list(product((1.0, -1.0), repeat=len(radius))))
    return np.asarray(signs[np.argmin(((signs @ form) * signs).sum(axis=1))] * radius)


def selections(
    choices: Choices, canonical: Canonical, loss: Loss, incumbent: Incumbent, part: tuple[Survivors, FloatArray] | None
) -> tuple[ChoicesSearch, int]:
    """Return a search with exact answers for less than the incumbent, and what is to be added to its costs.

    part: the hypotheses that may win in a part of the weight space, and its normals; `None` for all of it.
    """
    if part is None:
        return ChoicesSearch(choices, canonical, incumbent), 0
    kept, normals = part
    if loss.ratio is None:
        rows, exact = np.ascontiguousarray(loss.lists.rows[kept.ids]), loss.lists.rounding
        lists = replace(canonical, features=rows, offsets=kept.ends, losses=kept.costs, step=loss.granularity)
        lists = replace(lists, rounding=None if exact is None else exact.take(kept.ids))
        incumbent.cost -= kept.fixed
        return ChoicesSearch(choices, lists.within(normals), incumbent, len(normals)), kept.fixed
    n_own = np.count_nonzero(kept.ids[kept.ends[:-1]] < len(canonical.features))  # the limits come last
    ends = kept.ends[: n_own + 1]
    own = kept.ids[: ends[-1]]
    lists = canonical.take(own, ends)
    exact = None if lists.rounding is None else lists.rounding.behind(normals)
    totals = replace(lists.totals, constant=kept.total)
    lists = replace(lists, losses=totals, limits=np.vstack([normals, canonical.limits]), rounding=exact)
    return ChoicesSearch(choices, lists, incumbent, closely=False), 0  # a part: its search is short


_ROOM = 1 << 24
"""Bytes that open nodes may take in the core before time and memory are looked at; then twice as many."""

_MANY = 500_000
"""From so many hypotheses on, one thread alone has room for all of them."""

_FULL, _HARD = 1, 2


_COUNTS = ("nodes", "leaves", "leaf_lps", "conflicting", "looked_at", "work")
"""What the core counts: see `Counts` in `lpmert/core/node.hpp`."""


class NodeSettings(NamedTuple):
    """What the core asks about nodes; see `Settings` in `lpmert/core/node.hpp`."""

    granularity: int
    leaf_lists: int
    leaf_rows: int
    conflict_lists: int
    most_stalled: int
    hopeless: int
    row_work: int
    levels: int = 4


class NodeSearch:
    """Nodes that the core searches depth first; `hard`: exact arithmetic has to close the one on top."""

    def __init__(self, task: CellsTask, weights: FloatArray) -> None:
        self._task, self.loss = task, task.loss
        lists = self.loss.native, self.loss.ratio
        self._core = core.cell_search(*lists, task.selections, task.precision, task.settings)
        self.renew(weights)

    def renew(self, weights: FloatArray) -> None:
        """Let go of all nodes, and of all that was found and counted; weights [D] of the incumbent."""
        self._core.renew(np.ascontiguousarray(weights))
        self.hard = False

    @property
    def n_nodes(self) -> int:
        return len(self._core.bounds)

    @property
    def least_bound(self) -> int | None:
        return min(self._core.bounds.tolist(), default=None)

    @property
    def top_bound(self) -> int:
        """The bound of the node that comes next."""
        return int(self._core.bounds[-1])

    @property
    def counts(self) -> Counter[str]:
        """What was done since the search was renewed."""
        return Counter(dict(zip(_COUNTS, self._core.counts, strict=True)))

    def load_root(self, root: Any) -> None:
        """Put a cone, its number among those that cover the space or its rays [D, D], or a box, centre and radius [D],
        on top, with all hypotheses.
        """
        lists, total = self.loss.lists, self.loss.total
        if self._task.boxed:
            centre, radius = root
            self.push(whole_box(lists, centre, radius, total))
        else:
            rays = covering_cone(lists.rows.shape[1], root) if isinstance(root, int) else root
            self.push(whole_cone(lists, rays, total))

    def push(self, fields: Fields) -> None:
        """Put a node on top of the others."""
        self._core.push(fields)

    def load(self, node: OpenNode) -> None:
        """Put a node on top of the others that was taken from some search."""
        self._core.load(node.data)

    def prune_root(self, cost: int, limit: int | None = None) -> None:
        """Prune the only node, which holds all hypotheses, below a cost; or below another limit of its bound."""
        self._core.aim(cost, self.loss.loss_of(cost))
        self._core.propagate_root(self.loss.bound_of(cost) - self.loss.granularity if limit is None else limit)

    def explore(self, cost: int, budget: int, step: int | None = None) -> None:
        """Search on below a cost for so much work: all nodes, or those with a bound that is not above the least by more
        than a step, and the next ones then, unless much of the work is done.
        """
        self._core.aim(cost, self.loss.loss_of(cost))
        self._core.begin(budget, -1 if step is None else step)
        room = _ROOM
        while (outcome := self._core.explore(room)) == _FULL:
            if out_of_time():  # or out of memory, of which one slice may take much
                break
            room *= 2
        self.hard = outcome == _HARD

    def found(self) -> tuple[int, FloatArray]:
        """Return the least cost met, and its weights [D]."""
        found = self._core.found
        return self.loss.cost_found(found), found[2]

    def top(self) -> Fields:
        """Return a description of the node that comes next."""
        return dict(self._core.top())

    def drop_top(self) -> None:
        self._core.pop()
        self.hard = False

    def nodes(self) -> list[OpenNode]:
        """Return copies of all nodes, the next one last."""
        return [OpenNode(*node) for node in self._core.nodes()]

    def take_all(self) -> list[OpenNode]:
        """Return all nodes, and let go of them."""
        nodes = self.nodes()
        self._core.clear()
        return nodes

    def _survivors(self) -> Survivors:
        return Survivors(*self._core.survivors())

    def cones(self) -> list[Fields]:
        """Return cones that cover the node on top; none where exact arithmetic is better."""
        n_features = self.loss.lists.rows.shape[1]
        if not self._task.boxed or n_features > MOST_FEATURES_OF_CONES:
            return []
        part = self._survivors()
        return cones_of(self.loss.lists, self.top(), part) if len(part.ends) - 1 > FEW_LISTS else []

    def enclosing(self) -> tuple[FloatArray, Any] | None:
        """Return normals [k, D] of a part slightly wider than the node on top, and a root that contains that; `None`
        where rounding makes it unsure.
        """
        top = self.top()
        if self._task.boxed:
            return core.box_normals(top["centre"], top["radius"]), (top["centre"], widened(top["radius"]))
        return enclosing_cone(top["rays"].reshape(len(top["errors"]), -1))

    def survivors(self, root: Any, cost: int) -> tuple[Survivors | None, tuple[int, FloatArray]]:
        """Return what may win in a root, `None` if nothing may; and what was found in it below a cost."""
        alone = NodeSearch(self._task, self.found()[1])
        alone.load_root(root)
        alone.prune_root(cost, core.INFINITE_COST - 1)
        return alone._survivors() if alone.n_nodes else None, alone.found()


@dataclass
class CellsTask:
    """What all units of a search share. selections: how small nodes are searched; boxed: whether nodes are boxes."""

    loss: Loss
    settings: NodeSettings
    selections: ChoiceSettings
    boxed: bool
    _searches: PerThread[NodeSearch] = field(default_factory=PerThread, repr=False)

    @cached_property
    def precision(self) -> Precision | None:
        """How exact products of the features with weights of boxes are."""
        return precision_of(self.loss.lists) if self.boxed else None

    def search(self, weights: FloatArray) -> NodeSearch:
        """Return the search of this thread, as good as new."""
        search = self._searches.get(lambda: NodeSearch(self, weights))
        search.renew(weights)
        return search

    def drop_searches(self) -> None:
        """Free the work space of all threads, which is not in use."""
        self._searches = PerThread()


def prune(task: CellsTask, root: Any, cost: int, weights: FloatArray) -> Answer:
    """Prune one of the nodes that cover the weight space; weights [D] have this cost."""
    search = task.search(weights)
    search.load_root(root)
    search.prune_root(cost)
    return _answer(search)


def explore(
    task: CellsTask, nodes: list[OpenNode], cost: int, weights: FloatArray, budget: int, step: int | None
) -> Answer:
    """Search nodes, the first of them first, for what costs less; weights [D] have this cost.

    step: by how much their bounds may be above the least; `None` if that makes no difference.
    """
    search = task.search(weights)
    for node in reversed(nodes):
        search.load(node)
    search.explore(cost, budget, step)
    return _answer(search)


def _answer(search: NodeSearch) -> Answer:
    """Return what a search has found and left, and empty it."""
    counts, hard, found = search.counts, search.hard, search.found()
    return Answer(search.take_all(), *found, "C", None, counts, hard=hard)


class Roots:
    """Nodes that cover the weight space and wait; threads prune those that come next meanwhile.

    ahead: how many of them.
    """

    def __init__(self, task: CellsTask, roots: Iterable[Any], ahead: int) -> None:
        self._task, self._roots, self._ahead = task, deque(roots), ahead
        self._large = len(task.loss.lists.costs) > _MANY
        self._begun: deque[Pending[Answer]] = deque()

    def __len__(self) -> int:
        return len(self._roots)

    def skip(self) -> None:
        """Leave the next root out."""
        self._roots.popleft()

    def next(self, best: Incumbent) -> Answer:
        """Return what is left of the next root, and what was found in it; raises `OutOfTime`."""
        workers = current_workers()
        local = SERIAL if workers.remote or self._large else workers
        for root in islice(self._roots, len(self._begun), self._ahead):
            self._begun.append(local.submit(prune, Shared(self._task), root, best.cost, best.weights))
        pruned = self._begun[0].wait()
        self._begun.popleft()
        self._roots.popleft()
        if self._large:
            self._task.drop_searches()
        return pruned
