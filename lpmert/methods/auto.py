"""Choose among the exact methods by the shape of the problem; where neither of two is sure to be best, run both."""

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
from lpmert.methods.sweep import Sweep
from lpmert.metrics.base import RatioMetric
from lpmert.model.canonical import Canonical
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.search.incumbent import Improver
from lpmert.search.method import Combined, Incumbent, Method, Search, Task

logger = logging.getLogger("lpmert")

_FEW_LISTS = 12
"""With so few lists the selections are searched first, whatever the number of features."""

_SOME_LISTS = 64
_SOME_FEATURES = 7
"""With so many features, sets of some lists are searched by selections first too, and beside that by cones."""

_MOST_CELL_FEATURES = 8
"""Beyond so many features the cones of the weight space are too many to be worth a share of the time."""

_MOST_CAPPED_FEATURES = 4
"""The same within a cosine around given weights: cones are a poor fit for its round shape."""

_HEAD_START = 32
"""Effort of the likelier search before the other gets any, and of each before its pace counts: a second or so."""

_ROOT_AFTER = 4
"""Effort after which `choices` bounds its root beside cones or groups of a sum: a tenth of a second, for a bound that
these may reach late.
"""

_LEAST = 0.0625
"""Least share of a search: that of the second one while its bound does not rise, unless it leads and neither does."""

_MOST_FOR_GROUPS = 0.25
"""Largest share of `groups` as the second search: its bound rises fast at first, which says little about later."""

_GROUPS_BEGIN = 0.125
"""Share of `groups` as the second search until it has had its head start, in which its bound rises most."""

_WHILE_HELD_UP = 0.75
"""Least share of a second search that leads while the first one is held up by one part, which may take any time."""

_LEAST_TURN = 0.5
"""Effort that a turn counts as at least: what prepares a search is not counted by itself."""

Engine = CellsSearch | SharedChoices | GroupedSearch | MinorantSearch
"""A search with a bound of its own."""


@dataclass(frozen=True)
class Auto(Method):
    """`sweep` for one or two features; else `choices` in turns with `cells`, or, with many features, with `groups`.

    For a metric that is not additive `cells` in turns with `choices`, or one of them alone; with many features and
    lists, `groups` in turns with `choices`.
    """

    cells: Cells = field(default_factory=Cells)
    choices: Choices = field(default_factory=Choices)
    groups: Groups = field(default_factory=Groups)
    improving: float = option(
        0.3, "share of a long search that goes into looking for better weights; 0 for none", least=0, most=1
    )

    near: bool = option(True, "let these begin near the best weights, where few hypotheses win, if lists add up")

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
        if canonical.n_features <= 2 and canonical.cap is None and canonical.rounding is None:
            _chosen(canonical, "sweep", "the directions of two weights form a circle")
            return Sweep().start(task)
        if canonical.n_lists <= _FEW_LISTS:
            _chosen(canonical, "choices", "few lists have few selections")
            return self.choices.start(task)
        if canonical.cap is not None and canonical.n_features > _MOST_CAPPED_FEATURES:
            _chosen(canonical, "choices", "cones fit a cosine around given weights poorly")
            return self._in_turns(task, self.choices.start(task))
        pairs = bool((canonical.offsets[1:] - canonical.offsets[:-1] == 2).all())
        if canonical.n_features > _MOST_CELL_FEATURES:
            if canonical.n_lists > _SOME_LISTS and not pairs:
                return self._start_bound(task)
            _chosen(canonical, "choices in turns with groups", "the features are too many to split the weight space")
            selections = self.choices.start(task)
            return self._in_turns(task, selections, lambda: self.groups.start(task))
        some = canonical.n_lists <= _SOME_LISTS and canonical.n_features >= _SOME_FEATURES
        if pairs or some:
            why = "lists of two choose by one halfspace each" if pairs else "there are few lists and many features"
            _chosen(canonical, "choices in turns with cells", why)
            return self._in_turns(task, self.choices.start(task), lambda: self.cells.on_lists(task))
        _chosen(canonical, "cells in turns with choices", "there are few features and many lists")
        return self._in_turns(task, self.cells.on_lists(task), lambda: self.choices.start(task), root=True)

    def _start_ratio(self, task: Task) -> Search:
        canonical = task.canonical
        if canonical.n_features <= 2 and canonical.cap is None:
            _chosen(canonical, "cells", "two weights have few cells")
            return self.cells.start(task)
        if canonical.n_lists <= _FEW_LISTS:
            _chosen(canonical, "choices", "few lists have few selections")
            return self.choices.start(task)
        many_features = canonical.n_features > _MOST_CELL_FEATURES
        if many_features and canonical.n_lists > _SOME_LISTS and canonical.cap is None:
            return self._start_bound(task)
        if canonical.cap is not None or many_features:
            why = (
                "the features are too many to split the weight space" if many_features else "cones fit a cosine poorly"
            )
            _chosen(canonical, "choices", why)
            return self._in_turns(task, self.choices.start(task))
        _chosen(canonical, "cells in turns with choices", "there are few features and many lists")
        cones = self.cells.on_lists(task)
        return self._in_turns(task, cones, lambda: self.choices.start(task, cones.least))

    def _start_bound(self, task: Task) -> Search:
        _chosen(task.canonical, "groups in turns with choices", "the lists and features are too many for a proof")
        bound = self.groups.start(task)
        least = bound.least if isinstance(bound, MinorantSearch) else None
        start = partial(self.choices.start, task, least)
        return self._in_turns(task, bound, start, root=task.canonical.additive)

    def _in_turns(
        self, task: Task, first: Engine, start_second: Callable[[], Engine] | None = None, *, root: bool = False
    ) -> Portfolio:
        form = task.canonical
        lines = form.additive or isinstance(form.totals.metric, RatioMetric)
        improver = Improver(task, self.improving, near=self.near) if lines and self.improving else None
        return Portfolio(first, start_second, task.incumbent, improver, root=root)


def _chosen(canonical: Canonical, method: str, why: str) -> None:
    """Tell what was chosen, and why."""
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
class Course:
    """How the bound of a search has risen with its effort: marks (effort, bound), each half as far again."""

    effort: float
    marks: list[tuple[float, int]]

    def note(self, effort: float, bound: int) -> None:
        """Count effort, after which the bound is this."""
        self.effort += effort
        if self.effort >= 1.5 * self.marks[-1][0]:
            self.marks.append((self.effort, bound))

    def effort_left(self, bound: int, cost: int) -> float | None:
        """Return the effort until this bound meets a cost, at its pace in the last half, or in the last three quarters
        if that is faster: where many nodes have the same bound, it may stand still for long just before the end.

        `None`: it has not risen, or it is too soon to tell, as first steps are the largest.
        """
        if self.effort < _HEAD_START:
            return None
        begins = (
            next(mark for mark in reversed(self.marks) if n * mark[0] <= self.effort or not mark[0]) for n in (2, 4)
        )
        paces = [(bound - before) / (self.effort - effort) for effort, before in begins if bound > before]
        return (cost - bound) / max(paces) if paces else None


class Portfolio(Combined):
    """One or two searches that share the incumbent, and an improver, who looks for better weights beside them.

    The first search has a head start; root: but for what the second one takes to bound its root, which comes early.
    From then on each gets effort in inverse proportion to what it has left, as far as the pace of its bound tells.
    Effort is counted, not timed, so that the outcome does not depend on the machine's speed.
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
        self._courses = [Course(0.0, [(0.0, first.lower_bound)])]
        self._owed = 0.0
        self._effort = 0.0

    @property
    def finished(self) -> bool:
        return any(search.finished for search in self._searches) or self.lower_bound >= self.incumbent.cost

    @property
    def unsettled(self) -> int | None:
        """What the search that finished left unsettled; before, the least that any has met."""
        finished = [search for search in self._searches if search.finished]
        if finished:
            return None if any(search.unsettled is None for search in finished) else finished[0].unsettled
        met = [search.unsettled for search in self._searches if search.unsettled is not None]
        return min(met, default=None)

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
        return {
            "owed": self._owed,
            "courses": [[course.effort, [list(mark) for mark in course.marks]] for course in self._courses],
            "searches": [search.state() for search in self._searches],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on; a search that keeps nothing begins anew, with the best weights so far."""
        if len(state["searches"]) > 1 and self._start_second is not None:
            self._begin_second(self._start_second)
        for search, kept in zip(self._searches, state["searches"], strict=True):
            if kept:
                search.restore(kept)
        self._owed = state["owed"]
        self._courses = [Course(effort, [(of, bound) for of, bound in marks]) for effort, marks in state["courses"]]

    def _begin_second(self, start: Callable[[], Engine]) -> None:
        self._second = start()
        self._courses.append(Course(0.0, [(0.0, self._second.lower_bound)]))

    @property
    def _share_of_second(self) -> float:
        """The share of the effort that the second search gets."""
        cost, bound, second_bound = self.incumbent.cost, self._first.lower_bound, self._searches[1].lower_bound
        course, second_course = self._courses
        early = self._searches[1].early
        if early and second_course.effort < _HEAD_START:
            return _GROUPS_BEGIN
        leads = second_bound > bound
        least = _WHILE_HELD_UP if leads and self._first.held_up else _LEAST
        left, second_left = course.effort_left(bound, cost), second_course.effort_left(second_bound, cost)
        if second_left is None:
            # Cones of `cells` rise slowly at first, groups fast: what these do not reach soon they do not reach.
            reached = course.effort_left(bound, second_bound)
            far = reached is None or (self._first.early and reached > course.effort)
            return max(least, 0.5 if leads and far else _LEAST)
        if left is None:
            left = course.effort  # what has not risen for so long may not rise for as long again
        most = _MOST_FOR_GROUPS if early else 1.0 - _LEAST
        return min(most, max(least, left / ((left + second_left) or 1.0)))

    def advance(self) -> None:
        if self._improver is not None:
            self._improver.run_beside(self._effort)
        ahead = self._courses[0].effort
        if (
            self._second is None
            and self._start_second is not None
            and ahead >= (_ROOT_AFTER if self._root else _HEAD_START)
        ):
            self._begin_second(self._start_second)
        second = self._second
        at_root = self._root and second is not None and second.nodes <= 1 and not second.finished
        share = 0.0 if second is None or ahead < _HEAD_START else self._share_of_second
        number = int(at_root or (share > 0.0 and self._owed >= 0.0))
        search = self._searches[number]
        before = search.effort
        search.advance()
        self._effort = max(_LEAST_TURN, search.effort - before)
        if not at_root:
            self._owed += (share - number) * self._effort
        self._courses[number].note(self._effort, search.lower_bound)
