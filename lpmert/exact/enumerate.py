"""Try every attainable selection: slow, simple, and what the other methods are held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lpmert.exact.exhaustive import attainable_selections
from lpmert.exact.search import Incumbent, Search
from lpmert.exact.solve import ExactMethod
from lpmert.problem import Problem

_SELECTIONS_A_SLICE = 50


@dataclass(frozen=True)
class Exhaustive(ExactMethod):
    """Enumeration of all attainable selections, without bounds."""

    name = "exhaustive"

    def start(self, problem: Problem, incumbent: Incumbent) -> Search:
        """Return the enumeration as a search."""
        return ExhaustiveSearch(problem, incumbent)


class ExhaustiveSearch:
    """A resumable enumeration; it knows no bound above 0 before its end."""

    def __init__(self, problem: Problem, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self.unsettled: int | None = None
        self.finished = problem.n_lists == 0
        self.nodes = 0
        self.lps = 0
        self.memory = 0
        self._costs, self._heads = problem.costs, problem.offsets[:-1]
        self._selections = iter(()) if self.finished else attainable_selections(problem.features, problem.offsets)

    @property
    def lower_bound(self) -> int:
        if not self.finished:
            return 0
        return self.incumbent.cost if self.unsettled is None else min(self.unsettled, self.incumbent.cost)

    @property
    def open_nodes(self) -> int:
        return 0 if self.finished else 1

    def counters(self) -> Mapping[str, int]:
        return {"nodes": self.nodes, "lps": self.lps}

    def advance(self) -> None:
        """Look at the next selections."""
        for _ in range(_SELECTIONS_A_SLICE):
            found = next(self._selections, None)
            if found is None:
                self.finished = True
                return
            selection, weights = found
            self.nodes += 1
            cost = int(self._costs[self._heads + selection].sum())
            if weights is not None:
                self.incumbent.improve(cost, weights, "E")
            elif self.unsettled is None or cost < self.unsettled:
                self.unsettled = cost
