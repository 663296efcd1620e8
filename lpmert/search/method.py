"""The contract of every method, proving or not: what it takes, and the search that it starts.

After `AbstractIterativeSolver` of optimistix: a method starts a search, which does a slice of work at a time and says
in between how far it has come. Limits, progress, interrupts and the report belong to `lpmert.search.driver`. A
heuristic can be one function; a search can delegate to others.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, repeat
from typing import Any, ClassVar, cast

import numpy as np

from lpmert.configurable import Configurable
from lpmert.errors import FloatArray
from lpmert.lines.local_search import Clock, start_weights
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.model.catalogue import Catalogue
from lpmert.model.lattice_problem import AnyProblem
from lpmert.model.problem import Problem
from lpmert.result import Result
from lpmert.system.deadline import out_of_time


@dataclass
class Incumbent:
    """The best weights so far, canonical [d], and their cost; `source` is a letter for what found them."""

    cost: int
    weights: CanonicalWeights
    source: str

    def improve(self, cost: int, weights: FloatArray, source: str) -> bool:
        if cost >= self.cost:
            return False
        self.cost, self.source = int(cost), source
        self.weights = CanonicalWeights(np.array(weights, dtype=np.float64))
        return True

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Incumbent:
        """Return the incumbent of a search of which this is what `Search.saved` returned."""
        return cls(int(state["cost"]), CanonicalWeights(state["weights"]), state["source"])


class Search(ABC):
    """A search that works in slices and can stop after any of them.

    strict: the cost of the incumbent depends on no tie. early: the bound rises most at first, which says little about
    later. checkpointed: attributes that a checkpoint has as they are. catalogue: the paths that may win somewhere, of a
    search over lattices that knows them. A constant answer can be an attribute of a search: `nodes = 0`.
    """

    incumbent: Incumbent
    strict: ClassVar[bool] = True
    early: ClassVar[bool] = False
    checkpointed: ClassVar[tuple[str, ...]] = ()
    catalogue: Catalogue | None = None
    _unsettled: int | None = None

    @abstractmethod
    def advance(self) -> None:
        """Work for a slice of about a twentieth of a second, or until finished."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether there is nothing left to do."""

    @property
    def lower_bound(self) -> int | None:
        """A cost that no attainable selection undercuts, never above the incumbent's; `None`: nothing is proved."""
        return None

    @property
    def unsettled(self) -> int | None:
        """The least cost of a selection that is attainable exactly but by no double-precision weights, or `None`."""
        return self._unsettled

    def _leave_unsettled(self, cost: int) -> None:
        self._unsettled = cost if self._unsettled is None else min(cost, self._unsettled)

    @property
    def _upper(self) -> int:
        """The least cost that may be the optimum whatever is still open."""
        unsettled = self.unsettled
        return self.incumbent.cost if unsettled is None else min(unsettled, self.incumbent.cost)

    @property
    def settled(self) -> bool:
        """Whether the incumbent of the finished search is the optimum, and not to tolerance only."""
        return self.unsettled is None or self.unsettled >= self.incumbent.cost

    @property
    def phase(self) -> str:
        """What the search works on, in a word or two for people."""
        return "searching"

    @property
    def known(self) -> bool:
        """Whether the cost of the incumbent is known yet; before, nothing is shown."""
        return True

    @property
    def nodes(self) -> int:
        """What `node_limit` counts."""
        return 0

    @property
    def effort(self) -> float:
        """What has been done so far, counted and not timed, in units of about 25 milliseconds; 0: it is not counted."""
        return 0.0

    @property
    def held_up(self) -> bool:
        """Whether the bound waits for one part of the search, which has taken long already."""
        return False

    @property
    def open_nodes(self) -> int:
        return 0 if self.finished else 1

    @property
    def lps(self) -> int:
        """Linear programs so far."""
        return 0

    def counters(self) -> Mapping[str, int]:
        """Return what was counted, by name."""
        return {"nodes": self.nodes, "lps": self.lps}

    def state(self) -> Mapping[str, Any]:
        """Return what is open, and what was counted, as `lpmert.search.checkpoint` keeps it; nothing else changes.

        Empty, if there is nothing worth keeping beside the best weights.
        """
        return {name: copy(getattr(self, name)) for name in self.checkpointed}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on, before the first slice, from the state of a search for the same task; the incumbent is known."""
        for name in self.checkpointed:
            setattr(self, name, state[name])

    def saved(self) -> Mapping[str, Any]:
        """Return the incumbent, and the `state` under "search"."""
        return {**vars(self.incumbent), "search": self.state()}

    @property
    def conclude(self) -> Callable[[Result], Result]:
        """A function from a result to the caller's, for when the search's memory is free."""
        return _unchanged


def _unchanged(result: Result) -> Result:
    return result


_STEPS = 50
"""In a slice."""


class Enumeration(Search):
    """A search without a bound above 0 before its end.

    steps: each improves the incumbent if it can, and yields the cost that it leaves unsettled, or `None`.
    """

    finished = False
    nodes = 0

    def __init__(self, incumbent: Incumbent, steps: Iterable[int | None], *, proves: bool = True) -> None:
        self.incumbent, self._steps, self._proves = incumbent, iter(steps), proves

    @property
    def lower_bound(self) -> int | None:
        if not self._proves:
            return None
        return self._upper if self.finished else 0

    def advance(self) -> None:
        before = self.nodes
        try:
            for cost in islice(self._steps, _STEPS):
                self.nodes += 1
                if cost is not None:
                    self._leave_unsettled(cost)
        except BaseException:
            self._steps = repeat(None)  # a generator that has raised is at its end, and this search is not
            raise
        self.finished = self.nodes < before + _STEPS


class Watch:
    """Limits and progress within long slices, for searches that prove nothing."""

    def note(self, search: Search) -> None:
        """Add a better incumbent to the trace."""

    def glance(self, search: Search) -> bool:  # noqa: ARG002
        """Tell the callback from time to time, and return whether to stop."""
        return out_of_time()


@dataclass(frozen=True)
class Task:
    """What a method searches: the lists in canonical form, and good weights to begin with.

    problem: what the caller asked, with the metric and the maps between weights of the caller and canonical ones. seed:
    of all that is random. initial: canonical weights [d] of the caller, not all 0, or `None`. find: returns the first
    incumbent, which takes a while.
    """

    problem: AnyProblem
    canonical: Canonical
    find: Callable[[], Incumbent]
    watch: Watch = field(default_factory=Watch)
    seed: int = 0
    initial: CanonicalWeights | None = None

    @cached_property
    def incumbent(self) -> Incumbent:
        """Good weights of the region, those of the caller where these are better; found when first asked for."""
        return self.find()

    def about(self, canonical: Canonical, incumbent: Incumbent) -> Task:
        """Return the task of searching other lists, from weights that are known."""
        return replace(self, canonical=canonical, find=lambda: incumbent)


class Method(Configurable, ABC):
    """A frozen dataclass of options that can start a search."""

    proves: ClassVar[bool] = True
    """Whether its searches end with a proof; then they can go on from a checkpoint."""
    minimises: ClassVar[bool] = True
    """Whether its result is the least loss that it met. Then initial weights that cost no more stay as they are;
    otherwise the result is what the method chooses, whatever it costs on the lists, and a loop decodes with it next."""
    takes_ratios: ClassVar[bool] = False
    """Whether the method takes metrics that are not additive, whatever their form."""
    takes_fractions: ClassVar[bool] = False
    """Whether it takes fractions of sums, by searches of additive losses."""
    takes_jobs: ClassVar[bool] = False
    """Whether its searches can go on in units of work."""
    takes_caps: ClassVar[bool] = False
    """Whether the method keeps to a cosine around given weights."""
    takes_lattices: ClassVar[bool] = False
    """Whether its `start` takes a task whose problem is a `LatticeProblem`."""

    @property
    def random(self) -> bool:
        """Whether a comparison runs it with several seeds: other seeds find other weights."""
        return not self.proves

    @property
    def remembers(self) -> bool:
        """Whether a search goes on from what earlier ones left behind."""
        return False

    @abstractmethod
    def start(self, task: Task) -> Search:
        """Return a search for this task; raises `MethodError` if the method cannot take it.

        There is at least one feature and one list.
        """


class Combined(Search):
    """A search that delegates to others, several at once or one after the other."""

    def __init__(self, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self._counted: Counter[str] = Counter()
        self._effort_put_away = 0.0

    @property
    @abstractmethod
    def _searches(self) -> Sequence[Search]:
        """The searches at work."""

    def _put_away(self, search: Search) -> None:
        """Add what a search has counted, which is at work no longer."""
        self._effort_put_away += search.effort
        self._counted.update(search.counters())

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._counted = Counter(self._counted)

    @property
    def nodes(self) -> int:
        return self._counted["nodes"] + sum(search.nodes for search in self._searches)

    @property
    def effort(self) -> float:
        return self._effort_put_away + sum(search.effort for search in self._searches)

    @property
    def open_nodes(self) -> int:
        return sum(search.open_nodes for search in self._searches)

    @property
    def lps(self) -> int:
        return self._counted["lps"] + sum(search.lps for search in self._searches)

    def counters(self) -> Mapping[str, int]:
        total = self._counted.copy()
        for search in self._searches:
            total.update(search.counters())
        return total


logger = logging.getLogger("lpmert")


@dataclass(frozen=True)
class Found:
    """Where a heuristic ended, canonical weights [d], and its counts by name."""

    weights: FloatArray
    counters: Mapping[str, int] = field(default_factory=dict)


Function = Callable[[Problem, FloatArray | None, int, Clock], Found]
"""What `Comparator.run` is."""


class Run(Clock, Search):
    """A search that runs one function in one slice, and is its clock. A step counts as a node."""

    strict = False
    finished = False
    open_nodes = 0

    def __init__(self, task: Task, function: Function) -> None:
        super().__init__(task.problem)
        self.incumbent = Incumbent(0, start_weights(task.canonical, task.initial), "")
        self._task, self._function = task, function
        self._counted: Mapping[str, int] = {}

    @property
    def known(self) -> bool:
        return self.best is not None

    @property
    def nodes(self) -> int:
        return self.steps

    def counters(self) -> Mapping[str, int]:
        return {"steps": self.steps, **self._counted}

    def keep(self, weights: FloatArray, loss: float | None = None) -> float:
        """Remember weights [d] if they are better than those before, and return their loss."""
        before = self.loss
        known = super().keep(weights, loss)
        if self.best is not None and self.loss < before:
            self.incumbent = Incumbent(self._problem.canonical.cost_of_loss(self.loss), self.best, "L")
            self._task.watch.note(self)
        return known

    def expired(self, steps: int = 1) -> bool:
        self.steps += steps
        return self._task.watch.glance(self)

    def advance(self) -> None:
        task = self._task
        lists = cast(Problem, task.problem)  # lattices are for methods that use only what both kinds have
        found = self._function(lists, task.initial, task.seed, self)
        self.incumbent = replace(self.incumbent, weights=self._within_region(CanonicalWeights(found.weights)))
        self._counted = found.counters
        self.finished = True

    def _within_region(self, weights: CanonicalWeights) -> CanonicalWeights:
        """Return these weights [d] if they lie in the region, or else the best ones met inside, or any there."""
        if self._problem.inside(self._problem.to_caller(weights)):
            return weights
        logger.warning("the method left the region; the best weights that it met inside, or else any, are returned")
        if self.best is None or not self.best.any():  # 0 fulfils all limits, and is no weights
            return start_weights(self._task.canonical, None)
        return self.best


class Comparator(Method):
    """A heuristic in one function: a frozen dataclass of options that proves nothing."""

    proves = False
    takes_ratios = True
    takes_caps = True

    @abstractmethod
    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the weights that the method ends with; raises `MethodError` if it cannot take the problem.

        start: canonical weights [d], not all 0, or `None`. All that is random comes from `seed`. The problem has at
        least one feature and one list.
        """

    def start(self, task: Task) -> Search:
        return Run(task, self.run)
