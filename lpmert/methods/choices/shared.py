"""A long search over selections goes on in units: batches of open nodes, for whoever does them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from lpmert.errors import FloatArray
from lpmert.methods.choices.ratio_search import Prepared, RatioChoicesSearch
from lpmert.methods.choices.search import SLICE, ChoicesSearch, Gains, Options, SumChoicesSearch
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.search.checkpoint import plain
from lpmert.search.method import Incumbent
from lpmert.search.node_queue import Call, OpenNode, ParallelSearch

_ALONE = 5 * SLICE
"""Work after which a search goes on in units: short ones need no more than the caller."""

_LOCAL_UNITS = 6
"""Units that the caller does first where workers take long to start: in some tenths of a second."""

_UNIT = 8 * SLICE
"""Work in a unit, in some hundredths of a second: much more than it takes to send one away."""

_BATCH = 2
"""Most nodes that a unit begins with."""


class SharedOptions(Options, Protocol):
    """What the search takes of the method `Choices`."""

    @property
    def lanes(self) -> int:
        """Units that are out at once."""


class Common(NamedTuple):
    """What all units of a search share."""

    options: Options
    canonical: Canonical
    prepared: Prepared | None = None
    """What searches with a ratio metric begin with."""

    def search(self, incumbent: Incumbent) -> ChoicesSearch:
        """Return a search that begins with this incumbent."""
        if self.canonical.additive:
            return SumChoicesSearch(self.options, self.canonical, incumbent)
        return RatioChoicesSearch(self.options, self.canonical, incumbent, prepared=self.prepared)


class Searched(NamedTuple):
    """What is left of a batch; cost, weights [D], source: of the best met; unsettled: as of a search; gains: learnt on
    the way; work: done, as searches count it.
    """

    nodes: list[OpenNode]
    cost: int
    weights: FloatArray
    source: str
    unsettled: int | None
    gains: Gains
    counts: Mapping[str, int]
    work: int


def search_batch(
    common: Common, parts: list[OpenNode], cost: int, weights: FloatArray, gains: Gains, budget: int
) -> Searched:
    """Search open nodes, the first of them first, for what costs less; weights [D] have this cost; gains: so far."""
    search = common.search(Incumbent(cost, CanonicalWeights(weights), ""))
    search.expect(gains)
    left = list(parts)
    while left and search.work < budget:
        part = left.pop(0)
        if part.bound > search.incumbent.cost - search.granularity:
            continue
        search.go_on_with(part)
        while not (search.done or (search.work >= budget and search.between_nodes)):
            search.search_on(max(1, budget - search.work))
        if not search.done:
            left = search.open_parts() + left
    found = search.incumbent
    counts = {**search.counters(), "nodes": search.nodes - 1}
    learnt = search.gains.beyond(gains)
    return Searched(left, found.cost, found.weights, found.source, search.unsettled, learnt, counts, search.work)


class SharedChoices(ParallelSearch[OpenNode, Searched]):
    """A resumable search over selections; least: a cost that nothing undercuts, for a ratio metric, where known."""

    phase = "selections"

    def __init__(
        self, options: SharedOptions, canonical: Canonical, incumbent: Incumbent, least: int | None = None
    ) -> None:
        self._alone = Common(options, canonical).search(incumbent)
        if least is not None and isinstance(self._alone, RatioChoicesSearch):
            self._alone.least = least
        super().__init__(self._alone, options.lanes, _BATCH, _UNIT, _LOCAL_UNITS)
        self._options, self._canonical = options, canonical
        self._learnt: Gains | None = None
        self._work = 0

    @property
    def lower_bound(self) -> int:
        return self._alone.lower_bound if not self._queue.shared else self._least

    @property
    def work(self) -> int:
        """Work whose outcome is known, in this process."""
        return self._alone.work + self._work

    @property
    def _gains(self) -> Gains:
        return self._alone.gains if self._learnt is None else self._learnt

    @property
    def _long(self) -> bool:
        return self._alone.work >= _ALONE and self._alone.between_nodes

    def _common(self) -> Common:
        prepared = self._alone.prepared if isinstance(self._alone, RatioChoicesSearch) else None
        return Common(self._options, self._canonical, prepared)

    def state(self) -> Mapping[str, Any]:
        least = self._alone.least if isinstance(self._alone, RatioChoicesSearch) else None
        return {**super().state(), "gains": plain(self._gains), "least": least}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._learnt = Gains(**state["gains"])
        if isinstance(self._alone, RatioChoicesSearch) and state["least"] is not None:
            self._alone.least = state["least"]
        self._go_on((OpenNode(**part) for part in state["parts"]), state["counts"], state["unsettled"])

    def go_on_from(self, searched: Searched) -> None:
        """Go on, before the first slice, from what a search for the same from its beginning left, and had counted."""
        self._learnt, self._work = searched.gains, searched.work
        self._go_on(searched.nodes, searched.counts, searched.unsettled)

    def _learn(self, answer: Searched) -> None:
        self._learnt = self._gains.with_more(answer.gains)
        self._work += answer.work

    def _call(self, nodes: list[OpenNode], work: int) -> Call[Searched]:
        upper = self.incumbent
        return search_batch, (nodes, upper.cost, upper.weights, self._gains, work)
