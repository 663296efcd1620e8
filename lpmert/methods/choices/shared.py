"""A long search over selections goes on in units: hands of open nodes, for whoever does them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

from lpmert.errors import FloatArray
from lpmert.methods.choices.open_selections import OpenSelections
from lpmert.methods.choices.ratio_search import RatioChoicesSearch
from lpmert.methods.choices.search import SLICE, ChoicesSearch, Gains, Options, SumChoicesSearch
from lpmert.model.coordinates import CanonicalWeights
from lpmert.model.form import Canonical
from lpmert.parallel.backends import workers
from lpmert.parallel.workers import Pending, Shared
from lpmert.search.checkpoint import plain
from lpmert.search.frontier import Frontier
from lpmert.search.method import Incumbent, Search

_ALONE = 20 * SLICE
"""Work after which a search goes on in units."""

_UNIT = 8 * SLICE
"""Work in a unit, in some hundredths of a second: much more than it takes to send one away."""

_HAND = 2
"""Most nodes that a unit begins with."""


class SharedOptions(Options, Protocol):
    """What the search takes of the method `Choices`."""

    @property
    def lanes(self) -> int:
        """Units that are out at once."""


class Ground(NamedTuple):
    """What all units of a search share."""

    options: Options
    canonical: Canonical
    least: int | None
    """A cost that nothing undercuts, for a ratio metric."""

    def search(self, incumbent: Incumbent) -> ChoicesSearch:
        """Return a search that begins with this incumbent."""
        if self.canonical.additive:
            return SumChoicesSearch(self.options, self.canonical, incumbent)
        return RatioChoicesSearch(self.options, self.canonical, incumbent, least=self.least)


class Searched(NamedTuple):
    """What is left of a hand; cost, weights [D], source: of the best met; unsettled: as of a search; gains: learnt on
    the way; work: done, as searches count it.
    """

    parts: list[OpenSelections]
    cost: int
    weights: FloatArray
    source: str
    unsettled: int | None
    gains: Gains
    counts: Mapping[str, int]
    work: int


def search_hand(
    ground: Ground, parts: list[OpenSelections], cost: int, weights: FloatArray, gains: Gains, budget: int
) -> Searched:
    """Search open nodes, the first of them first, for what costs less; weights [D] have this cost; gains: so far."""
    search = ground.search(Incumbent(cost, CanonicalWeights(weights), ""))
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


class SharedChoices(Search):
    """A resumable search over selections.

    Units begin with the incumbent as it was when they went out, and their answers are taken in that order: the outcome
    is the same for any number of workers.

    least: a cost that nothing undercuts, for a ratio metric, where somebody knows it.
    """

    phase = "selections"

    def __init__(
        self, options: SharedOptions, canonical: Canonical, incumbent: Incumbent, least: int | None = None
    ) -> None:
        self.incumbent = incumbent
        self._alone = Ground(options, canonical, least).search(incumbent)
        least = self._alone.least if isinstance(self._alone, RatioChoicesSearch) else None
        self._ground = Ground(options, canonical, least)
        self._workers = workers()
        self._shared: Shared | None = None
        self._frontier: Frontier[OpenSelections, Searched] = Frontier(options.lanes, _HAND)
        self._gains = self._alone.gains
        self._counted: Counter[str] = Counter()
        self._unsettled: int | None = None
        self._work = 0

    @property
    def unsettled(self) -> int | None:
        met = [cost for cost in (self._alone.unsettled, self._unsettled) if cost is not None]
        return min(met, default=None)

    @property
    def finished(self) -> bool:
        done = self._alone.finished if self._shared is None else not len(self._frontier)
        return done or self.lower_bound >= self.incumbent.cost

    @property
    def lower_bound(self) -> int:
        if self._shared is None:
            return self._alone.lower_bound
        bounds = [self.incumbent.cost, self.unsettled, self._frontier.least_bound]
        upper = min(bound for bound in bounds[:2] if bound is not None)
        least = min(bound for bound in bounds if bound is not None)
        return upper if least > upper - self._alone.granularity else least

    @property
    def nodes(self) -> int:
        return self._alone.nodes + self._counted["nodes"]

    @property
    def open_nodes(self) -> int:
        return self._alone.open_nodes if self._shared is None else len(self._frontier)

    @property
    def lps(self) -> int:
        return self._alone.lps + self._counted["lps"]

    @property
    def memory(self) -> int:
        return self._alone.memory + self._frontier.nbytes

    @property
    def work(self) -> int:
        """Work whose outcome is known, in this process."""
        return self._alone.work + self._work

    def counters(self) -> Mapping[str, int]:
        total = Counter(self._alone.counters())
        total.update(self._counted)
        return total

    def state(self) -> Mapping[str, Any]:
        alone = [] if self._shared is not None or self._alone.done else self._alone.open_parts()
        parts = [plain(part) for part in (*alone, *self._frontier.parts())]
        gains = self._alone.gains if self._shared is None else self._gains
        counts = dict(self.counters())
        return {"parts": parts, "gains": plain(gains), "counts": counts, "unsettled": self.unsettled}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._counted = Counter(state["counts"]) - Counter(self._alone.counters())
        self._unsettled = state["unsettled"]
        self._gains = Gains(**state["gains"])
        self._share(OpenSelections.of(part) for part in state["parts"])

    def go_on_from(self, searched: Searched) -> None:
        """Go on, before the first slice, from what a search for the same from its beginning left, and had counted."""
        self._counted = Counter(searched.counts) - Counter(self._alone.counters())
        self._unsettled, self._gains, self._work = searched.unsettled, searched.gains, searched.work
        self._share(searched.parts)

    def give_up(self) -> None:
        """Let go of the units that are out."""
        self._frontier.give_up()

    def advance(self) -> None:
        """Search on for a slice, or take the answer to the unit that went out first."""
        if self.finished:
            return
        if self._shared is not None:
            self._take_answer(self._shared)
            return
        self._alone.advance()
        if self._alone.work >= _ALONE and self._alone.between_nodes and not self._alone.finished:
            self._gains = self._alone.gains
            self._share(self._alone.open_parts())

    def _share(self, parts: Iterable[OpenSelections]) -> None:
        self._frontier.push(parts)
        self._shared = self._workers.share(self._ground)

    def _take_answer(self, shared: Shared) -> None:
        self._frontier.send(partial(self._hand_out, shared))
        searched = self._frontier.take()
        self.incumbent.improve(searched.cost, searched.weights, searched.source)
        if searched.unsettled is not None and (self._unsettled is None or searched.unsettled < self._unsettled):
            self._unsettled = searched.unsettled
        self._counted.update(searched.counts)
        self._work += searched.work
        self._gains = self._gains.with_more(searched.gains)
        limit = self.incumbent.cost - self._alone.granularity
        self._frontier.push(part for part in searched.parts if part.bound <= limit)
        self._frontier.send(partial(self._hand_out, shared))

    def _hand_out(self, shared: Shared, parts: list[OpenSelections]) -> Pending[Searched]:
        upper = self.incumbent
        return self._workers.hand_out(search_hand, shared, parts, upper.cost, upper.weights, self._gains, _UNIT)
