"""Choose exact methods by the shape of the problem, and run two in turns where it is unclear which one is best."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lpmert.configurable import option
from lpmert.methods.cells import Cells, CellsSearch
from lpmert.methods.choices import Choices, ChoicesSearch
from lpmert.methods.enumeration import Sweep, too_wide
from lpmert.methods.groups import GroupedSearch, Groups, MinorantSearch
from lpmert.metrics.base import RatioMetric
from lpmert.model.canonical import Canonical
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.search.combined import Combined
from lpmert.search.incumbent import Improver
from lpmert.search.method import Incumbent, Method, Search, Task

logger = logging.getLogger("lpmert")

_FEW_LISTS = 12  # up to so many lists, `choices` alone searches the problem, whatever the number of features

_MANY_LISTS = 64
_FEATURES_FOR_CHOICES = 7
"""With at most so many lists and at least so many features, `choices` is the first search and `cells` the second."""

_MOST_CELL_FEATURES = 8
"""Most features for `cells`: with more, the nodes of the weight space are too many to be worth a share of the time."""

_MOST_CAPPED_FEATURES = 4  # the same within a cosine of given weights, whose round shape simplicial cones fit poorly

_HEAD_START = 32
"""Effort of the first search before the second starts, and of each before its pace is measured: about a second."""

_ROOT_AFTER = 4
"""Effort after which `choices` bounds its root node beside `cells` or `groups` on additive losses. It takes a tenth of
a second, and gives a bound that the other search may reach late.
"""

_LEAST = 0.0625
"""Least share of a search: that of the second one while its bound does not rise, unless it leads and neither rises."""

_MOST_FOR_GROUPS = 0.25  # largest share of `groups` as the second search: its bound rises fast at first, but not later
_GROUPS_BEGIN = 0.125  # share of `groups` as the second search during its head start, in which its bound rises most
_LEAST_TURN = 0.5  # least effort charged for a turn, as the preparation of a search is not counted
Engine = CellsSearch | ChoicesSearch | GroupedSearch | MinorantSearch  # a search that proves a lower bound


@dataclass(frozen=True)
class Auto(Method):
    """`sweep` for one or two features; else `choices` in turns with `cells` or, with many features, with `groups`.

    For a metric that is not additive, it is `cells` in turns with `choices`, or one of them alone; with many features
    and lists, `groups` in turns with `choices`.
    """

    cells: Cells = field(default_factory=Cells)
    choices: Choices = field(default_factory=Choices)
    groups: Groups = field(default_factory=Groups)
    improving: float = option(
        0.3, "share of a long search that goes into heuristics for better weights; 0 for none", least=0, most=1
    )

    name = "auto"
    takes_ratios = True
    takes_jobs = True
    takes_fractions = True
    takes_caps = True
    takes_lattices = True

    def start(self, task: Task) -> Search:
        form = task.canonical
        if isinstance(task.problem, LatticeProblem):
            return self.cells.start(task)
        first, second, why = _plan(form)
        logger.info(
            "auto: %s, as %s; left after preparation: %d lists, %d hypotheses, %d features, %s",
            f"{first} in turns with {second}" if second in ("cells", "choices", "groups") else first,
            why,
            form.n_lists,
            len(form.features),
            form.n_features,
            "a sum of losses" if form.additive else "a loss that is no sum",
        )
        if first == "sweep":
            return Sweep().start(task)
        begin: dict[str, Callable[[], Engine]] = {
            "cells": lambda: self.cells.on_lists(task),
            "choices": lambda: self.choices.start(task),
            "groups": lambda: self.groups.start(task),
        }
        search = begin[first]()
        if second == "":
            return search
        if isinstance(search, CellsSearch | MinorantSearch):
            begin["choices"] = lambda: self.choices.start(task, search.oracle_bound)
        searchable = form.additive or isinstance(form.totals.metric, RatioMetric)
        improver = Improver(task, self.improving) if searchable and self.improving else None
        root = form.additive and second == "choices"
        return Portfolio(search, begin.get(second), task.incumbent, improver, root=root)


def _plan(form: Canonical) -> tuple[str, str, str]:
    """Return the first and the second method, and why; the second is "heuristics" for these alone, or empty."""
    plane, many_lists = form.n_features <= 2 and form.cap is None, form.n_lists > _MANY_LISTS
    pairs = form.additive and bool((np.diff(form.offsets) == 2).all())
    if plane and form.additive and form.rounding is None and too_wide(form.features) is None:
        return "sweep", "", "the directions of two weights form a circle"
    if plane and not form.additive:
        return "cells", "", "two weights have few cells"
    if form.n_lists <= _FEW_LISTS:
        return "choices", "", "few lists have few selections"
    if form.cap is not None and (form.n_features > _MOST_CAPPED_FEATURES or not form.additive):
        return "choices", "heuristics", "cones fit a cosine around given weights poorly"
    if form.n_features > _MOST_CELL_FEATURES:
        if many_lists and not pairs:
            return "groups", "choices", "the lists and features are too many for a proof"
        why = "the features are too many to split the weight space"
        return "choices", "groups" if form.additive else "heuristics", why
    if pairs:
        return "choices", "cells", "lists of two choose by one halfspace each"
    if form.additive and not many_lists and form.n_features >= _FEATURES_FOR_CHOICES:
        return "choices", "cells", "there are few lists and many features"
    return "cells", "choices", "there are few features and many lists"


class Paced:
    """A search and its bound by its effort: marks (effort, bound), each at 1.5 times the effort of the one before."""

    def __init__(self, search: Engine) -> None:
        self.search, self.effort = search, 0.0
        self._marks = [(0.0, search.lower_bound)]

    def advance(self) -> float:
        """Advance the search by a slice, and return the effort that is charged for it."""
        before = self.search.effort
        self.search.advance()
        charged = max(_LEAST_TURN, self.search.effort - before)
        self.effort += charged
        if self.effort >= 1.5 * self._marks[-1][0]:
            self._marks.append((self.effort, self.search.lower_bound))
        return charged

    def effort_left(self, cost: int) -> float | None:
        """Return the effort until the bound reaches a cost, extrapolated from its recent pace.

        The pace is that of the last half of the effort, or of the last three quarters if that is faster: if many nodes
        have the same bound, it can stand still for long just before the end. `None`: the bound has not risen, or it is
        too soon to tell, as the first steps are the largest.
        """
        if self.effort < _HEAD_START:
            return None
        bound = self.search.lower_bound
        starts = (
            next(mark for mark in reversed(self._marks) if n * mark[0] <= self.effort or not mark[0]) for n in (2, 4)
        )
        paces = [(bound - before) / (self.effort - effort) for effort, before in starts if bound > before]
        return (cost - bound) / max(paces) if paces else None


class Portfolio(Combined):
    """One or two searches in turns that share the incumbent, and primal heuristics beside them.

    The first search gets a head start. Then each search gets a share of the effort in inverse proportion to the effort
    that it still needs, extrapolated from the pace of its bound. root: the second search bounds its root node early,
    during the head start. Effort is counted rather than timed, so that the result does not depend on the machine.
    """

    def __init__(
        self,
        first: Engine,
        start_second: Callable[[], Engine] | None,
        incumbent: Incumbent,
        improver: Improver | None = None,
        *,
        root: bool = False,
    ) -> None:
        super().__init__(incumbent)
        self._paced, self._start_second = [Paced(first)], start_second
        self._improver, self._root = improver, root
        self._balance = self._effort = 0.0

    @property
    def finished(self) -> bool:
        return any(search.finished for search in self._searches) or self.lower_bound >= self.incumbent.cost

    @property
    def unsettled(self) -> int | None:
        """The unsettled cost of the search that has finished; before, the least one of all searches."""
        finished = [search for search in self._searches if search.finished]
        if finished:
            return None if any(search.unsettled is None for search in finished) else finished[0].unsettled
        costs = [search.unsettled for search in self._searches if search.unsettled is not None]
        return min(costs, default=None)

    @property
    def lower_bound(self) -> int:
        return max(search.lower_bound for search in self._searches)

    @property
    def phase(self) -> str:
        return " and ".join(search.phase for search in self._searches)

    @property
    def _searches(self) -> list[Engine]:
        return [one.search for one in self._paced]

    def state(self) -> Mapping[str, Any]:
        return {"searches": [search.state() for search in self._searches]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from the state, with a new head start; a search without a state restarts from the incumbent."""
        if len(state["searches"]) > 1:
            self._add_second()
        for search, stored in zip(self._searches, state["searches"], strict=True):
            if stored:
                search.restore(stored)
        self._paced = [Paced(search) for search in self._searches]

    def _add_second(self) -> None:
        if self._start_second is not None:
            self._paced.append(Paced(self._start_second()))

    @property
    def _share_of_second(self) -> float:
        first, second = self._paced
        cost, bound, second_bound = self.incumbent.cost, first.search.lower_bound, second.search.lower_bound
        early = second.search.early
        if early and second.effort < _HEAD_START:
            return _GROUPS_BEGIN
        left, second_left = first.effort_left(cost), second.effort_left(cost)
        if second_left is None:
            # The bound of `cells` rises slowly at first, that of `groups` fast: it reaches a bound soon or never.
            to_catch_up = first.effort_left(second_bound)
            far = to_catch_up is None or (first.search.early and to_catch_up > first.effort)
            return 0.5 if second_bound > bound and far else _LEAST
        if left is None:
            left = first.effort  # a guess: as much again as it has taken without a rise
        most = _MOST_FOR_GROUPS if early else 1.0 - _LEAST
        return min(most, max(_LEAST, left / ((left + second_left) or 1.0)))

    def advance(self) -> None:
        if self._improver is not None:
            self._improver.run(self._effort)
        ahead = self._paced[0].effort
        if len(self._paced) == 1 and ahead >= (_ROOT_AFTER if self._root else _HEAD_START):
            self._add_second()
        second = self._paced[1].search if len(self._paced) > 1 else None
        at_root = self._root and second is not None and second.nodes <= 1 and not second.finished
        share = 0.0 if second is None or ahead < _HEAD_START else self._share_of_second
        number = int(at_root or (share > 0.0 and self._balance >= 0.0))
        self._effort = self._paced[number].advance()
        if not at_root:
            self._balance += (share - number) * self._effort
