"""A search that begins alone, and goes on in units of work once it has turned out to be long.

Units begin with the incumbent as it was when they went out, and their answers are taken in that order: the outcome is
the same for any number of workers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from lpmert.errors import FloatArray
from lpmert.parallel.backends import workers
from lpmert.parallel.home import home_first
from lpmert.parallel.workers import Pending, Shared
from lpmert.search.checkpoint import plain
from lpmert.search.frontier import Frontier, Part
from lpmert.search.method import Incumbent, Search

P = TypeVar("P", bound=Part)


class Answer(Protocol[P]):
    """What a unit has found. parts: left of its hand; cost, weights [D], source: of the best met; unsettled: as of a
    search.
    """

    @property
    def parts(self) -> list[P]: ...

    @property
    def cost(self) -> int: ...

    @property
    def weights(self) -> FloatArray: ...

    @property
    def source(self) -> str: ...

    @property
    def unsettled(self) -> int | None: ...

    @property
    def counts(self) -> Mapping[str, int]: ...


A = TypeVar("A", bound=Answer[Any])


class Divisible(Search, Generic[P]):
    """A search that can say what is open in it, for others to go on with."""

    @property
    @abstractmethod
    def granularity(self) -> int:
        """What an improvement is at least."""

    @abstractmethod
    def open_parts(self) -> list[P]:
        """Return what is open, the coarsest first."""


class InUnits(Search, Generic[P, A]):
    """A resumable search that begins as another one. lanes: units that are out at once; hand: most parts of one;
    unit: work of an ordinary one; at_home: units that the caller does first where workers take long to start.
    """

    def __init__(self, alone: Divisible[P], lanes: int, hand: int, unit: int, at_home: int = 0) -> None:
        self.incumbent: Incumbent = alone.incumbent
        self._beginning = alone
        self._workers = workers()
        self._at_home = at_home
        self._shared: Shared | None = None
        self._frontier: Frontier[P, A] = Frontier(lanes, hand, unit)
        self._counted: Counter[str] = Counter()
        self._unsettled: int | None = None

    @property
    @abstractmethod
    def _long(self) -> bool:
        """Whether the search alone has taken long enough, and can be left as it is now."""

    @abstractmethod
    def _ground(self) -> object:
        """Return what all units share."""

    @abstractmethod
    def _hand_out(self, shared: Shared, parts: list[P], work: int) -> Pending[A]:
        """Hand out a unit that searches these parts, for so much work, for what costs less than the incumbent."""

    def _learn(self, answer: A) -> None:
        """Take what else a unit has learnt."""

    @property
    def unsettled(self) -> int | None:
        met = [cost for cost in (self._beginning.unsettled, self._unsettled) if cost is not None]
        return min(met, default=None)

    @property
    def finished(self) -> bool:
        if self._shared is None:
            return self._beginning.finished
        return not len(self._frontier) or self._least >= self.incumbent.cost

    @property
    def _least(self) -> int:
        """What everything that is open or left unsettled costs at least, once there are units."""
        bounds = [self.incumbent.cost, self.unsettled, self._frontier.least_bound]
        upper = min(bound for bound in bounds[:2] if bound is not None)
        least = min(bound for bound in bounds if bound is not None)
        return upper if least > upper - self._beginning.granularity else least

    @property
    def nodes(self) -> int:
        return self._beginning.nodes + self._counted["nodes"]

    @property
    def slices(self) -> float:
        return self._frontier.size

    @property
    def open_nodes(self) -> int:
        return self._beginning.open_nodes if self._shared is None else len(self._frontier)

    @property
    def lps(self) -> int:
        return self._beginning.lps + self._counted["lps"]

    @property
    def memory(self) -> int:
        return self._beginning.memory + self._frontier.nbytes

    def counters(self) -> Mapping[str, int]:
        total = Counter(self._beginning.counters())
        total.update(self._counted)
        return total

    def state(self) -> Mapping[str, Any]:
        alone = [] if self._shared is not None or self._beginning.finished else self._beginning.open_parts()
        parts = [plain(part) for part in (*alone, *self._frontier.parts())]
        return {"parts": parts, "counts": dict(self.counters()), "unsettled": self.unsettled}

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
        self._beginning.advance()
        if self._long and not self._beginning.finished:
            self._workers = home_first(self._workers, self._at_home)
            self._share(self._beginning.open_parts())

    def _go_on(self, parts: Iterable[P], counts: Mapping[str, int], unsettled: int | None) -> None:
        """Go on, before the first slice, with what another search for the same left open, and what it had counted."""
        self._counted = Counter(counts) - Counter(self._beginning.counters())
        self._unsettled = unsettled
        self._share(parts)

    def _share(self, parts: Iterable[P]) -> None:
        self._frontier.push(parts)
        self._shared = self._workers.share(self._ground())

    def _take_answer(self, shared: Shared) -> None:
        self._frontier.send(partial(self._hand_out, shared))
        answer = self._frontier.take()
        self.incumbent.improve(answer.cost, answer.weights, answer.source)
        if answer.unsettled is not None and (self._unsettled is None or answer.unsettled < self._unsettled):
            self._unsettled = answer.unsettled
        self._counted.update(answer.counts)
        self._learn(answer)
        limit = self.incumbent.cost - self._beginning.granularity
        self._frontier.push(part for part in answer.parts if part.bound <= limit)
        self._frontier.send(partial(self._hand_out, shared))
