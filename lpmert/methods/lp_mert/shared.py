"""A long run of LP-MERT by a chain goes on in units: batches of open prefixes, for whoever does them."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lpmert.core import INFINITE_COST
from lpmert.errors import FloatArray, IntArray
from lpmert.methods.lp_mert.saving import SavingTest, Settings
from lpmert.methods.lp_mert.search import SLICE_LPS, SLICE_STEPS, Alone, Chain, LpMertSearch, OpenPrefix
from lpmert.methods.lp_mert.streams import Stream
from lpmert.model.coordinates import CanonicalWeights
from lpmert.model.form import Canonical
from lpmert.search.checkpoint import plain
from lpmert.search.method import Incumbent
from lpmert.search.node_queue import Call, ParallelSearch
from lpmert.system.deadline import checkpoint

_ALONE = 20
"""Slices after which a run goes on in units."""

_UNIT = 8
"""Slices of a unit, some tenths of a second: what a unit learns is lost with it, so that short ones learn it often."""

_BATCH = 64
"""Most prefixes that a unit begins with."""


class Common(NamedTuple):
    """What all units share. order [S]: in which lists are combined; alone: what is known of each."""

    settings: Settings
    canonical: Canonical
    order: IntArray
    alone: list[Alone]


class Searched(NamedTuple):
    """What is left of a batch; cost, weights [D], source: of the best met; unsettled: as of a search."""

    nodes: list[OpenPrefix]
    cost: int
    weights: FloatArray
    source: str
    unsettled: int | None
    counts: Mapping[str, int]


def combine_batch(
    common: Common, parts: list[OpenPrefix], cost: int, weights: FloatArray, steps: int, lps: int
) -> Searched:
    """Combine open prefixes in order of cost for what costs less; weights [D] have this cost. steps, lps: at most."""
    incumbent = Incumbent(cost, CanonicalWeights(weights), "")
    test = SavingTest(common.settings, common.canonical, incumbent)
    chain = Chain(test, common.order, common.alone, lazy=common.settings.lazy)
    granularity, counters = common.canonical.granularity, test.oracle.counters
    bounds = [(part.bound, k) for k, part in enumerate(parts)]
    heapq.heapify(bounds)
    roots: dict[int, Stream] = {}
    unsettled: int | None = None
    while bounds and bounds[0][0] <= incumbent.cost - granularity and steps > 0 and counters["lps"] < lps:
        checkpoint()
        steps -= 1
        bound, k = bounds[0]
        root = roots[k] = roots.get(k) or chain.root(parts[k])
        seen = len(root.found)
        root.get_next_best()
        for combination in root.found[seen:]:
            if combination.start.weights is not None:
                incumbent.improve(combination.cost, combination.start.weights, "D")
            elif unsettled is None or combination.cost < unsettled:
                unsettled = combination.cost
        if root.bound >= INFINITE_COST:
            heapq.heappop(bounds)
        else:
            heapq.heapreplace(bounds, (max(bound, root.bound), k))
    left: list[OpenPrefix] = []
    for bound, k in sorted(bounds):
        if bound <= incumbent.cost - granularity:
            left += chain.open_in(roots[k], bound) if k in roots else [parts[k]]
    found = incumbent
    return Searched(left, found.cost, found.weights, found.source, unsettled, test.all_counters())


class ParallelLpMert(ParallelSearch[OpenPrefix, Searched]):
    """A resumable run of LP-MERT by a chain."""

    def __init__(self, settings: Settings, canonical: Canonical, alone: LpMertSearch) -> None:
        super().__init__(alone, settings.lanes, _BATCH, _UNIT)
        self._alone, self._settings, self._canonical = alone, settings, canonical
        self._known: Common | None = None

    @property
    def lower_bound(self) -> int | None:
        if not self._queue.shared:
            return self._alone.lower_bound
        return self._least if self._alone.proves else None

    @property
    def _long(self) -> bool:
        return self._alone.advances >= _ALONE and self._alone.root is not None

    def _common(self) -> Common:
        self._known = self._as_known()
        return self._known

    def _as_known(self) -> Common:
        if self._known is not None:
            return self._known
        root = self._alone.root
        order = np.arange(len(self._alone.lists)) if root is None else root.lists
        return Common(self._settings, self._canonical, order, [Alone.of(one) for one in self._alone.lists])

    def state(self) -> Mapping[str, Any]:
        """Return what is open; before the lists are in order, what is known of each."""
        common = self._as_known()
        planted = self._known is not None or self._alone.root is not None
        order = common.order if planted else None
        return {**super().state(), "order": order, "alone": [plain(one) for one in common.alone]}

    def restore(self, state: Mapping[str, Any]) -> None:
        alone = [Alone(**one) for one in state["alone"]]
        if state["order"] is None:
            for one, stream in zip(alone, self._alone.lists, strict=True):
                one.put(stream, self._alone.test)
            self._counted = Counter(state["counts"]) - Counter(self._alone.counters())
            return
        self._known = Common(self._settings, self._canonical, state["order"], alone)
        self._go_on((OpenPrefix(**part) for part in state["parts"]), state["counts"], state["unsettled"])

    def _call(self, nodes: list[OpenPrefix], work: int) -> Call[Searched]:
        upper = self.incumbent
        steps, lps = work * SLICE_STEPS, work * SLICE_LPS[self._settings.lp]
        return combine_batch, (nodes, upper.cost, upper.weights, steps, lps)
