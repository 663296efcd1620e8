"""The contract of every method, exact or heuristic: a `Method` starts a `Search`, which advances slice by slice.

A search reports its incumbent and lower bound after each slice; `lpmert.search.driver` does all else.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, repeat
from typing import Any, ClassVar, cast

import numpy as np

from lpmert.configurable import Configurable
from lpmert.errors import FloatArray
from lpmert.limits import out_of_time
from lpmert.lines import Clock, start_weights
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.model.lattice_problem import AnyProblem, Catalogue
from lpmert.model.problem import Problem
from lpmert.result import Result

logger = logging.getLogger("lpmert")


@dataclass
class Incumbent:
    """The best weights so far, canonical [d], their cost, and the letter of the technique that found them."""

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
    def from_state(cls, state: Mapping[str, Any]) -> Incumbent:
        """Return the incumbent in a state that `Search.saved` returned."""
        return cls(int(state["cost"]), CanonicalWeights(state["weights"]), state["source"])


class Search(ABC):
    """A search that works in slices and can stop after any slice.

    strict: the cost of the incumbent depends on no tie. early: the bound rises fastest at first, so its early pace does
    not predict its later one. checkpointed: names of attributes that a checkpoint stores unchanged. catalogue: for a
    search over lattices, the paths that may win somewhere. A subclass can replace a property that never changes by a
    class attribute: `nodes = 0`.
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
        """A dual bound: no attainable selection costs less; at most the incumbent's cost. `None`: nothing is proved."""
        return None

    @property
    def unsettled(self) -> int | None:
        """The least cost of a selection that real weights attain but no double-precision weights do, or `None`."""
        return self._unsettled

    def _leave_unsettled(self, cost: int) -> None:
        self._unsettled = cost if self._unsettled is None else min(cost, self._unsettled)

    @property
    def _upper(self) -> int:
        """The least cost found so far, whether double-precision weights attain it or not."""
        unsettled = self.unsettled
        return self.incumbent.cost if unsettled is None else min(unsettled, self.incumbent.cost)

    @property
    def settled(self) -> bool:
        """Whether the incumbent of a finished search is the exact optimum, not only the optimum to tolerance."""
        return self.unsettled is None or self.unsettled >= self.incumbent.cost

    @property
    def phase(self) -> str:
        """What the search works on, in a word or two for progress reports."""
        return "searching"

    @property
    def known(self) -> bool:
        """Whether the cost of the incumbent is known yet; until then no progress is shown."""
        return True

    @property
    def nodes(self) -> int:
        """Nodes so far, as `node_limit` counts them."""
        return 0

    @property
    def effort(self) -> float:
        """Work so far, counted rather than timed, in units of about 25 milliseconds; 0 if it is not counted."""
        return 0.0

    @property
    def open_nodes(self) -> int:
        return 0 if self.finished else 1

    @property
    def lps(self) -> int:
        return 0

    def counters(self) -> Mapping[str, int]:
        return {"nodes": self.nodes, "lps": self.lps}

    def state(self) -> Mapping[str, Any]:
        """Return the open nodes and the counts, as `lpmert.search.driver` stores them, and change nothing.

        The state is empty if nothing but the incumbent is worth storing.
        """
        return {name: copy(getattr(self, name)) for name in self.checkpointed}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from the state of a search for the same task, before the first slice; the incumbent is set."""
        for name in self.checkpointed:
            setattr(self, name, state[name])

    def saved(self) -> Mapping[str, Any]:
        """Return the incumbent by its fields, and the `state` under the key "search"."""
        return {**vars(self.incumbent), "search": self.state()}

    @property
    def conclude(self) -> Callable[[Result], Result]:
        """A function that completes the result; called after the search's memory has been freed."""
        return lambda result: result


_STEPS = 50  # steps in a slice


class Enumeration(Search):
    """A search with bound 0 to its end; its steps yield the cost that they leave unsettled, or `None`."""

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
            self._steps = repeat(None)  # a generator that raised is exhausted, but this search has not finished
            raise
        self.finished = self.nodes < before + _STEPS


class Watch:
    """Checks limits and reports progress within a long slice of a heuristic, as the driver does."""

    def note(self, search: Search) -> None:
        """Record an improved incumbent in the trace."""

    def poll(self, search: Search) -> bool:  # noqa: ARG002
        """Call the progress callback if it is due, and return whether to stop."""
        return out_of_time()


@dataclass(frozen=True)
class Task:
    """What a method searches: the lists in canonical form, and a first incumbent.

    problem: the caller's problem, with the metric and the maps between the caller's and canonical weights. seed: seeds
    all random numbers. initial: the caller's initial weights in canonical form [d], not all 0, or `None`.
    find_incumbent: computes the first incumbent, which takes a while.
    """

    problem: AnyProblem
    canonical: Canonical
    find_incumbent: Callable[[], Incumbent]
    watch: Watch = field(default_factory=Watch)
    seed: int = 0
    initial: CanonicalWeights | None = None

    @cached_property
    def incumbent(self) -> Incumbent:
        """Good weights of the region, the caller's where they are better; computed on first access."""
        return self.find_incumbent()


class Method(Configurable, ABC):
    """A frozen dataclass of options that can start a search.

    proves: whether its searches prove an optimum; such searches can resume from a checkpoint. takes_ratios: whether it
    takes metrics that are not additive; takes_fractions: whether it takes fractions of sums, by a sequence of additive
    searches (`FractionSearch`); takes_jobs: whether several workers can do its units of work; takes_caps: whether it
    can keep to a least cosine with given weights; takes_lattices: whether it takes a `LatticeProblem`. minimises:
    whether the result has the least loss that the method met, and initial weights that cost no more are kept;
    otherwise the method chooses its result, and a tuning loop decodes with that next.
    """

    proves: ClassVar[bool] = True
    takes_ratios: ClassVar[bool] = False
    takes_fractions: ClassVar[bool] = False
    takes_jobs: ClassVar[bool] = False
    takes_caps: ClassVar[bool] = False
    takes_lattices: ClassVar[bool] = False
    minimises: ClassVar[bool] = True

    @property
    def random(self) -> bool:
        """Whether the result depends on the seed; if so, comparisons run the method with several seeds."""
        return not self.proves

    @property
    def remembers(self) -> bool:
        """Whether a search uses what earlier searches stored."""
        return False

    @abstractmethod
    def start(self, task: Task) -> Search:
        """Return a search for this task, which has at least one feature and one list.

        Raises `MethodError` if the method cannot take the task.
        """


@dataclass(frozen=True)
class Found:
    """The outcome of a heuristic: canonical weights [d], and its counts by name."""

    weights: FloatArray
    counters: Mapping[str, int] = field(default_factory=dict)


class Run(Clock, Search):
    """A search that runs one function, see `Comparator.run`, in a single slice, and is its clock; a step is a node."""

    strict = False
    finished = False
    open_nodes = 0

    def __init__(self, task: Task, function: Callable[[Problem, FloatArray | None, int, Clock], Found]) -> None:
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
        """Keep weights [d] if they are the best so far, and return their loss."""
        before = self.loss
        found = super().keep(weights, loss)
        if self.best is not None and self.loss < before:
            self.incumbent = Incumbent(self._problem.canonical.cost_of_loss(self.loss), self.best, "L")
            self._task.watch.note(self)
        return found

    def expired(self, steps: int = 1) -> bool:
        self.steps += steps
        return self._task.watch.poll(self)

    def advance(self) -> None:
        task = self._task
        lists = cast(Problem, task.problem)  # methods that take lattices use only what both kinds of problems share
        found = self._function(lists, task.initial, task.seed, self)
        weights = CanonicalWeights(found.weights)
        if not self._problem.inside(self._problem.to_caller(weights)):
            logger.warning("the method left the region; the result is the best weights it met inside, or any inside")
            # the zero vector satisfies all limits, but decodes nothing
            met = self.best if self.best is not None and self.best.any() else None
            weights = start_weights(task.canonical, met)
        self.incumbent = replace(self.incumbent, weights=weights)
        self._counted = found.counters
        self.finished = True


class Comparator(Method):
    """A heuristic in one function, without any proof."""

    proves = False
    takes_ratios = True
    takes_caps = True

    @abstractmethod
    def run(self, problem: Problem, start: FloatArray | None, seed: int, clock: Clock) -> Found:
        """Return the weights that the method ends with; raises `MethodError` if it cannot take the problem.

        start: canonical weights [d], not all 0, or `None`. seed: seeds all random numbers. The problem has at least one
        feature and one list.
        """

    def start(self, task: Task) -> Search:
        return Run(task, self.run)
