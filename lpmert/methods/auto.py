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
_SOME_FEATURES = 5
"""With so many features, sets of some lists are searched by selections first too, and beside that by cones."""

_MOST_CELL_FEATURES = 8
"""Beyond so many features the cones of the weight space are too many to be worth a share of the time."""

_MOST_CAPPED_FEATURES = 4
"""The same within a cosine around given weights: cones are a poor fit for its round shape."""

_HEAD_START = 80
"""Slices of work that the likelier method gets before the other gets any."""

_CELLS_SHARE = 3
"""Slices that `cells` gets from then on for each one of `choices`: some 25 times as much time, as its slices are
longer.
"""

_TRIAL = 64
"""Rounds of a trial, in which both get about as much time: a second or two."""

_TRIAL_OF_CELLS = (8, 1, 1)
_TRIAL_OF_CHOICES = (20, 1, 3)
"""Slices that the first method gets before a trial of this one, and in each round the slices of the first and of this
one, which take about as much time.
"""

_MOST_TRIED = 20_000
"""Hypotheses beyond which a trial of `choices` takes much longer, and does not end."""

_LONG_SHARE = 96
"""Slices that `cells` gets for each one of `choices` beyond that, as these are long, too."""

_CHOICES_SHARE = 24
"""Slices that `choices` gets for each one of `cells` where it comes first: some three times as much time."""

_RATIO_SHARE = 12
"""Slices that `cells` gets for each one of `choices` with a metric that is not additive."""

_GROUPS_SHARE = 8
"""The same beside `groups`, which raises the bound where no other search can, but rarely ends."""

_BOUND_SHARE = 1
"""Slices that `groups` gets for each one of `choices` where the lists are too many for a proof."""

_BOUND_START = 64
"""Its head start: first it looks for groups, then its slices are units of work from the first one on."""

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
        0.2, "share of a long search that goes into looking for better weights; 0 for none", least=0, most=1
    )

    near: bool = option(True, "let these begin near the best weights, where few hypotheses win, if lists add up")

    trials: bool = option(True, "let the search that comes second show early whether it ends soon")

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
            return self._in_turns(task, selections, lambda: self.groups.start(task), _GROUPS_SHARE)
        some = canonical.n_lists <= _SOME_LISTS and canonical.n_features >= _SOME_FEATURES
        if pairs or some:
            why = "lists of two choose by one halfspace each" if pairs else "there are few lists and many features"
            _chosen(canonical, "choices in turns with cells", why)
            trial = None if pairs else _TRIAL_OF_CELLS
            return self._in_turns(
                task, self.choices.start(task), lambda: self.cells.on_lists(task), _CHOICES_SHARE, trial
            )
        _chosen(canonical, "cells in turns with choices", "there are few features and many lists")
        some_features = canonical.n_features > _SOME_FEATURES
        long = some_features and len(canonical.features) > _MOST_TRIED
        trial = _TRIAL_OF_CHOICES if some_features and not long else None
        share = _LONG_SHARE if long else _CELLS_SHARE
        return self._in_turns(task, self.cells.on_lists(task), lambda: self.choices.start(task), share, trial)

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
        return self._in_turns(task, cones, lambda: self.choices.begun(task, cones.least), _RATIO_SHARE)

    def _start_bound(self, task: Task) -> Search:
        _chosen(task.canonical, "groups in turns with choices", "the lists and features are too many for a proof")
        bound = self.groups.start(task)
        least = bound.least if isinstance(bound, MinorantSearch) else None
        start = partial(self.choices.begun, task, least)
        return self._in_turns(task, bound, start, _BOUND_SHARE, head_start=_BOUND_START)

    def _in_turns(
        self,
        task: Task,
        first: Engine,
        start_second: Callable[[], Engine] | None = None,
        share: int = 1,
        trial: tuple[int, int, int] | None = None,
        head_start: int = _HEAD_START,
    ) -> Portfolio:
        form = task.canonical
        lines = form.additive or isinstance(form.totals.metric, RatioMetric)
        improver = Improver(task, self.improving, near=self.near) if lines and self.improving else None
        return Portfolio(
            first, start_second, task.incumbent, share, improver, trial if self.trials else None, head_start
        )


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


class Portfolio(Combined):
    """One or two searches that share the incumbent: the first has a head start and the larger share of the slices.

    head_start: in turns. trial: after so many turns, rounds with so many slices of the first and of the second. If
    either ends soon, the other has about doubled what that took.

    Each slice is an amount of work, not of time, so that the outcome does not depend on the machine's speed. So is that
    of the improver, who looks for better weights beside them.
    """

    def __init__(
        self,
        first: Engine,
        start_second: Callable[[], Engine] | None,
        incumbent: Incumbent,
        share: int,
        improver: Improver | None = None,
        trial: tuple[int, int, int] | None = None,
        head_start: int = _HEAD_START,
    ) -> None:
        super().__init__(incumbent)
        self._head_start = head_start
        self._trial = trial
        self._improver = improver
        self._first = first
        self._second: Engine | None = None
        self._start_second = start_second
        self._share = share
        self._turn, self._ahead = 0, 0.0
        self._slices = 1.0

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
        return {"turn": self._turn, "ahead": self._ahead, "searches": [search.state() for search in self._searches]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on; a search that keeps nothing begins anew, with the best weights so far."""
        self._turn, self._ahead = state["turn"], state["ahead"]
        if len(state["searches"]) > 1 and self._start_second is not None:
            self._second = self._start_second()
        for search, kept in zip(self._searches, state["searches"], strict=True):
            if kept:
                search.restore(kept)

    @property
    def _second_in_trial(self) -> bool | None:
        """Whether the trial gives this turn to the second search; `None` outside of it."""
        if self._trial is None:
            return None
        start, first, second = self._trial
        tried, place = divmod(self._turn - start - 1, first + second)
        return (tried >= 0 and place >= first) if tried < _TRIAL else None

    def advance(self) -> None:
        if self._improver is not None and self._turn:
            self._improver.run_beside(self._slices)
        self._turn += 1
        tried, search = self._second_in_trial, self._first
        if self._start_second is not None and (self._ahead >= self._share if tried is None else tried):
            if self._second is None:
                self._second = self._start_second()
            search = self._second
        search.advance()
        self._slices = search.slices
        if tried is None and self._turn > self._head_start:
            self._ahead += search.turns if search is self._first else -self._share * search.turns
