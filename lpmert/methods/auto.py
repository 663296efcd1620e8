"""Choose exact methods by the shape of the problem, and run two in turns where it is unclear which one is best."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lpmert.configurable import option
from lpmert.methods.cells.cells import Cells, CellsSearch
from lpmert.methods.choices.choices import Choices, SharedChoices
from lpmert.methods.groups import GroupedSearch, Groups, MinorantSearch
from lpmert.methods.sweep import Sweep, too_wide
from lpmert.metrics.base import RatioMetric
from lpmert.model.canonical import Canonical
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.search.incumbent import Improver
from lpmert.search.method import Combined, Incumbent, Method, Search, Task

logger = logging.getLogger("lpmert")

_FEW_LISTS = 12
"""Up to so many lists, `choices` alone searches the problem, whatever the number of features."""

_MANY_LISTS = 64
_FEATURES_FOR_CHOICES = 7
"""With at most so many lists and at least so many features, `choices` is the first search and `cells` the second."""

_MOST_CELL_FEATURES = 8
"""Most features for `cells`: with more, the nodes of the weight space are too many to be worth a share of the time."""

_MOST_CAPPED_FEATURES = 4
"""The same within a cosine of given weights, whose round shape simplicial cones fit poorly."""

_HEAD_START = 32
"""Effort of the first search before the second starts, and of each before its pace is measured: about a second."""

_ROOT_AFTER = 4
"""Effort after which `choices` bounds its root node beside `cells` or `groups` on additive losses. It takes a tenth of
a second, and gives a bound that the other search may reach late.
"""

_LEAST = 0.0625
"""Least share of a search: that of the second one while its bound does not rise, unless it leads and neither rises."""

_MOST_FOR_GROUPS = 0.25
"""Largest share of `groups` as the second search: its bound rises fast at first, but not later."""

_GROUPS_BEGIN = 0.125
"""Share of `groups` as the second search during its head start, in which its bound rises most."""

_LEAST_TURN = 0.5
"""Least effort charged for a turn, as the preparation of a search is not counted."""

Engine = CellsSearch | SharedChoices | GroupedSearch | MinorantSearch
"""A search that proves a lower bound."""


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
        canonical = task.canonical
        if isinstance(task.problem, LatticeProblem):
            return self.cells.start(task)
        if not canonical.additive:
            return self._start_ratio(task)
        plane = canonical.n_features <= 2 and canonical.cap is None and canonical.rounding is None
        if plane and too_wide(canonical.features) is None:
            _log_choice(canonical, "sweep", "the directions of two weights form a circle")
            return Sweep().start(task)
        if canonical.n_lists <= _FEW_LISTS:
            _log_choice(canonical, "choices", "few lists have few selections")
            return self.choices.start(task)
        if canonical.cap is not None and canonical.n_features > _MOST_CAPPED_FEATURES:
            _log_choice(canonical, "choices", "cones fit a cosine around given weights poorly")
            return self._in_turns(task, self.choices.start(task))
        pairs = bool((canonical.offsets[1:] - canonical.offsets[:-1] == 2).all())
        if canonical.n_features > _MOST_CELL_FEATURES:
            if canonical.n_lists > _MANY_LISTS and not pairs:
                return self._start_groups(task)
            why = "the features are too many to split the weight space"
            _log_choice(canonical, "choices in turns with groups", why)
            selections = self.choices.start(task)
            return self._in_turns(task, selections, lambda: self.groups.start(task))
        few_lists = canonical.n_lists <= _MANY_LISTS and canonical.n_features >= _FEATURES_FOR_CHOICES
        if pairs or few_lists:
            why = "lists of two choose by one halfspace each" if pairs else "there are few lists and many features"
            _log_choice(canonical, "choices in turns with cells", why)
            return self._in_turns(task, self.choices.start(task), lambda: self.cells.on_lists(task))
        _log_choice(canonical, "cells in turns with choices", "there are few features and many lists")
        return self._in_turns(task, self.cells.on_lists(task), lambda: self.choices.start(task), root=True)

    def _start_ratio(self, task: Task) -> Search:
        canonical = task.canonical
        if canonical.n_features <= 2 and canonical.cap is None:
            _log_choice(canonical, "cells", "two weights have few cells")
            return self.cells.start(task)
        if canonical.n_lists <= _FEW_LISTS:
            _log_choice(canonical, "choices", "few lists have few selections")
            return self.choices.start(task)
        many_features = canonical.n_features > _MOST_CELL_FEATURES
        if many_features and canonical.n_lists > _MANY_LISTS and canonical.cap is None:
            return self._start_groups(task)
        if canonical.cap is not None or many_features:
            why = (
                "the features are too many to split the weight space" if many_features else "cones fit a cosine poorly"
            )
            _log_choice(canonical, "choices", why)
            return self._in_turns(task, self.choices.start(task))
        _log_choice(canonical, "cells in turns with choices", "there are few features and many lists")
        cells = self.cells.on_lists(task)
        return self._in_turns(task, cells, lambda: self.choices.start(task, cells.oracle_bound))

    def _start_groups(self, task: Task) -> Search:
        _log_choice(task.canonical, "groups in turns with choices", "the lists and features are too many for a proof")
        groups = self.groups.start(task)
        oracle_bound = groups.oracle_bound if isinstance(groups, MinorantSearch) else None
        start = partial(self.choices.start, task, oracle_bound)
        return self._in_turns(task, groups, start, root=task.canonical.additive)

    def _in_turns(
        self, task: Task, first: Engine, start_second: Callable[[], Engine] | None = None, *, root: bool = False
    ) -> Portfolio:
        form = task.canonical
        searchable = form.additive or isinstance(form.totals.metric, RatioMetric)
        improver = Improver(task, self.improving) if searchable and self.improving else None
        return Portfolio(first, start_second, task.incumbent, improver, root=root)


def _log_choice(canonical: Canonical, method: str, why: str) -> None:
    kind = "a sum of losses" if canonical.additive else "a loss that is no sum"
    logger.info(
        "auto: %s, as %s; left after preparation: %d lists, %d hypotheses, %d features, %s",
        method,
        why,
        canonical.n_lists,
        len(canonical.features),
        canonical.n_features,
        kind,
    )


@dataclass
class BoundProgress:
    """The bound of a search by its effort: marks (effort, bound), each at 1.5 times the effort of the one before."""

    effort: float
    marks: list[tuple[float, int]]

    def note(self, effort: float, bound: int) -> None:
        """Add the effort of a turn, and note the bound after it."""
        self.effort += effort
        if self.effort >= 1.5 * self.marks[-1][0]:
            self.marks.append((self.effort, bound))

    def effort_left(self, bound: int, cost: int) -> float | None:
        """Return the effort until the bound reaches a cost, extrapolated from its recent pace.

        The pace is that of the last half of the effort, or of the last three quarters if that is faster: if many nodes
        have the same bound, it can stand still for long just before the end. `None`: the bound has not risen, or it is
        too soon to tell, as the first steps are the largest.
        """
        if self.effort < _HEAD_START:
            return None
        starts = (
            next(mark for mark in reversed(self.marks) if n * mark[0] <= self.effort or not mark[0]) for n in (2, 4)
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
        self._root = root
        self._improver = improver
        self._first = first
        self._second: Engine | None = None
        self._start_second = start_second
        self._progress = [BoundProgress(0.0, [(0.0, first.lower_bound)])]
        self._balance = 0.0
        self._effort = 0.0

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
        return [self._first] if self._second is None else [self._first, self._second]

    def state(self) -> Mapping[str, Any]:
        return {"searches": [search.state() for search in self._searches]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from the state, with a new head start; a search without a state restarts from the incumbent."""
        if len(state["searches"]) > 1 and self._start_second is not None:
            self._add_second(self._start_second)
        for search, stored in zip(self._searches, state["searches"], strict=True):
            if stored:
                search.restore(stored)
        self._progress = [BoundProgress(0.0, [(0.0, search.lower_bound)]) for search in self._searches]

    def _add_second(self, start: Callable[[], Engine]) -> None:
        self._second = start()
        self._progress.append(BoundProgress(0.0, [(0.0, self._second.lower_bound)]))

    @property
    def _share_of_second(self) -> float:
        """The share of the effort for the second search."""
        cost, bound, second_bound = self.incumbent.cost, self._first.lower_bound, self._searches[1].lower_bound
        progress, second_progress = self._progress
        early = self._searches[1].early
        if early and second_progress.effort < _HEAD_START:
            return _GROUPS_BEGIN
        leads = second_bound > bound
        left, second_left = progress.effort_left(bound, cost), second_progress.effort_left(second_bound, cost)
        if second_left is None:
            # The bound of `cells` rises slowly at first, that of `groups` fast: it reaches a bound soon or never.
            to_catch_up = progress.effort_left(bound, second_bound)
            far = to_catch_up is None or (self._first.early and to_catch_up > progress.effort)
            return 0.5 if leads and far else _LEAST
        if left is None:
            left = progress.effort  # a guess: as much again as it has taken without a rise
        most = _MOST_FOR_GROUPS if early else 1.0 - _LEAST
        return min(most, max(_LEAST, left / ((left + second_left) or 1.0)))

    def advance(self) -> None:
        if self._improver is not None:
            self._improver.run(self._effort)
        ahead = self._progress[0].effort
        if (
            self._second is None
            and self._start_second is not None
            and ahead >= (_ROOT_AFTER if self._root else _HEAD_START)
        ):
            self._add_second(self._start_second)
        second = self._second
        at_root = self._root and second is not None and second.nodes <= 1 and not second.finished
        share = 0.0 if second is None or ahead < _HEAD_START else self._share_of_second
        number = int(at_root or (share > 0.0 and self._balance >= 0.0))
        search = self._searches[number]
        before = search.effort
        search.advance()
        self._effort = max(_LEAST_TURN, search.effort - before)
        if not at_root:
            self._balance += (share - number) * self._effort
        self._progress[number].note(self._effort, search.lower_bound)
