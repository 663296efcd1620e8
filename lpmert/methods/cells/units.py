"""What workers of a search over the weight space do: prune a root, or search some nodes for so much work."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray
from lpmert.methods.cells.nodes import (
    FEW_LISTS,
    MOST_FEATURES_OF_CONES,
    Fields,
    Loss,
    Survivors,
    cones_of,
    whole_box,
    whole_cone,
    widened,
)
from lpmert.numeric.cone import covering_cone, enclosing_cone
from lpmert.search.method import Incumbent
from lpmert.search.node_queue import OpenNode
from lpmert.system.deadline import out_of_time
from lpmert.workers import SERIAL, Pending, PerThread, Shared, current_workers

_ROOM = 1 << 24
"""Bytes that open nodes may take in the core before time and memory are looked at; then twice as many."""

_MANY = 500_000
"""From so many hypotheses on, one thread alone has room for all of them."""

_FULL, _HARD = 1, 2


class Counts(NamedTuple):
    """What the core counts: see `Counts` in `lpmert/core/node.hpp`."""

    nodes: int = 0
    leaves: int = 0
    leaf_lps: int = 0
    conflicting: int = 0
    looked_at: int = 0
    work: int = 0

    def plus(self, others: Iterable[int]) -> Counts:
        return Counts(*(own + other for own, other in zip(self, others, strict=True)))


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
        precision = self.loss.precision if task.boxed else None
        self._core = core.cell_search(*self.loss.in_core, precision, task.settings)
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
    def counts(self) -> Counts:
        """What was done since the search was renewed."""
        return Counts(*self._core.counts)

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
        bound, loss, weights = self._core.found
        return self.loss.cost_found(bound, loss), weights

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


class Explored(NamedTuple):
    """What is left of a unit: nodes, of which the last waits for exact arithmetic if `hard`.

    cost, weights [D]: the least met, if it is below that of the unit.
    """

    nodes: list[OpenNode]
    hard: bool
    cost: int
    weights: FloatArray
    counts: Counts


@dataclass
class CellsTask:
    """What all units of a search share. boxed: whether nodes are boxes."""

    loss: Loss
    settings: NodeSettings
    boxed: bool
    _searches: PerThread[NodeSearch] = field(default_factory=PerThread, repr=False)

    def search(self, weights: FloatArray) -> NodeSearch:
        """Return the search of this thread, as good as new."""
        search = self._searches.get(lambda: NodeSearch(self, weights))
        search.renew(weights)
        return search

    def drop_searches(self) -> None:
        """Free the work space of all threads, which is not in use."""
        self._searches = PerThread()


def prune(task: CellsTask, root: Any, cost: int, weights: FloatArray) -> Explored:
    """Prune one of the nodes that cover the weight space; weights [D] have this cost."""
    search = task.search(weights)
    search.load_root(root)
    search.prune_root(cost)
    return _explored(search)


def explore(
    task: CellsTask, nodes: list[OpenNode], cost: int, weights: FloatArray, budget: int, step: int | None
) -> Explored:
    """Search nodes, the first of them first, for what costs less; weights [D] have this cost.

    step: by how much their bounds may be above the least; `None` if that makes no difference.
    """
    search = task.search(weights)
    for node in reversed(nodes):
        search.load(node)
    search.explore(cost, budget, step)
    return _explored(search)


def _explored(search: NodeSearch) -> Explored:
    """Return what a search has found and left, and empty it."""
    counts, hard, found = search.counts, search.hard, search.found()
    return Explored(search.take_all(), hard, *found, counts)


class Roots:
    """Nodes that cover the weight space and wait; threads prune those that come next meanwhile.

    ahead: how many of them.
    """

    def __init__(self, task: CellsTask, roots: Iterable[Any], ahead: int) -> None:
        self._task, self._roots, self._ahead = task, deque(roots), ahead
        self._large = len(task.loss.lists.costs) > _MANY
        self._begun: deque[Pending[Explored]] = deque()

    def __len__(self) -> int:
        return len(self._roots)

    def skip(self) -> None:
        """Leave the next root out."""
        self._roots.popleft()

    def next(self, best: Incumbent) -> Explored:
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
