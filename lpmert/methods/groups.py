"""A bound where no search can finish: the optima of disjoint groups of lists add up to a lower bound for all lists.

Every group is free to use weights of its own, so the sum never exceeds the optimum. Groups whose searches are finished
are joined two by two; the last group is the problem itself. In turn with that, better weights for all lists are sought.
Lists that share no feature with the others are a problem of their own: the optima of such parts add up to the optimum.

Units of work are the beginnings of groups, which small ones do not outlast, and then batches of open selections.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray
from lpmert.lines.descents import Descents
from lpmert.methods.choices.choices import Choices
from lpmert.methods.choices.search import SLICE
from lpmert.methods.choices.shared import SharedChoices
from lpmert.methods.grouping import CANDIDATES, Begun, Field, Group, begin, independent_parts, sampled_costs, tree_of
from lpmert.methods.minorant import MinorantSearch
from lpmert.methods.near_few import cheap_for_few
from lpmert.methods.subspace import improve, random_numbers
from lpmert.model.canonical import standardised
from lpmert.model.coordinates import CanonicalWeights
from lpmert.model.form import Canonical
from lpmert.search.combined import Combined
from lpmert.search.method import Incumbent, Method, Task
from lpmert.system.deadline import checkpoint
from lpmert.workers import SERIAL, Pending, Workers, current_workers

_ALONE = 20 * SLICE
"""Work after which units are handed out."""

_BEGINNING = 8 * SLICE
"""Work in the beginning of a group, at most: as much as in a unit of what is left then."""

_TURN = 20 * SLICE
"""Work that a group gets before the next one has its turn."""

_MOST_OPEN = 64
"""Groups that are searched in turns; the next one begins when one of these is finished, so that memory is bounded."""

_SAMPLE_WORK = 3_000_000_000
"""Weights in the sample, times hypotheses and features, or times lists and candidates: some seconds each."""

_MOST_SAMPLED = 1800
"""Weights in the sample, where they are random."""

_MOST_NEAR_FEW = 600
"""Where they are those at which a few lists are cheap."""

_SAMPLED_A_SLICE = 150

_NEAR_FEW_A_SLICE = 15

_DESCENT_BUDGET = 10_000_000
"""Work of descents on all lists between two looks at the bound, as in `descend`."""

_DESCENTS = 5
"""Descents for each search of a subspace."""

_DESCENT_SHARE = 10
"""Work in groups for each piece of a descent, which takes about five times as long: the bound is what is hard to raise.
"""

_SUBSPACE_SLICES = 40


@dataclass(frozen=True)
class Groups(Method):
    """The bound by groups of lists. size: lists of the first groups; selections: how each group is searched.

    near_few: whether groups are formed by what lists cost at weights at which a few of them are cheap together.
    """

    size: int = option(7, "lists of the first groups", least=1)
    near_few: bool = option(True, "compare lists at weights at which a few of them are cheap, not at random ones")
    selections: Choices = field(default_factory=Choices)

    name = "groups"
    takes_ratios = True
    takes_jobs = True
    takes_fractions = True
    keeps_checkpoints = True

    def start(self, task: Task) -> GroupedSearch | MinorantSearch:
        """Return a search that begins with this incumbent, on which its random numbers depend too."""
        if task.canonical.additive:
            return GroupedSearch(self, task.canonical, task.incumbent)
        return MinorantSearch(
            self.selections, task.canonical, task.incumbent, lambda lists, start: GroupedSearch(self, lists, start)
        )


class GroupedSearch(Combined):
    """A resumable search that raises the bound by groups of lists, and in turn looks for better weights."""

    phase = "groups of lists"

    def __init__(self, settings: Groups, canonical: Canonical, incumbent: Incumbent) -> None:
        super().__init__(incumbent)
        self._settings = settings
        self._canonical = canonical
        self._rng = random_numbers(incumbent)
        work = max(1, canonical.features.size, CANDIDATES * canonical.n_lists)
        most = _MOST_NEAR_FEW if settings.near_few else _MOST_SAMPLED
        self._sample = np.empty((canonical.n_lists, int(np.clip(_SAMPLE_WORK // work, 50, most))))
        self._sampled = 0
        self._parts = independent_parts(canonical.features, canonical.offsets)
        self._root = Group(np.arange(canonical.n_lists))
        self._to_begin: deque[Group] = deque()
        self._beginning: deque[tuple[Group, Pending[Begun]]] = deque()
        self._open: deque[Group] = deque()
        self._workers: Workers = SERIAL
        self._later = current_workers()  # once it is long
        self._field = SERIAL.share(Field(settings.selections, canonical))
        self._worked = 0
        self._slices = 1
        self._improvements = 0
        self._credit = 0
        self._counted["groups"] = 0

    @property
    def unsettled(self) -> int | None:
        """What the search over all lists left unsettled; that of smaller groups is in the bound."""
        return self._root.unsettled

    @property
    def finished(self) -> bool:
        return self.lower_bound >= self.incumbent.cost or self._root.closed

    @property
    def lower_bound(self) -> int:
        return min(self._root.lower_bound, self.incumbent.cost)

    @property
    def open_nodes(self) -> int:
        return super().open_nodes + len(self._to_begin) + len(self._beginning) + len(self._open)

    @property
    def slices(self) -> float:
        return self._slices

    @property
    def turns(self) -> float:
        return 1

    @property
    def _searches(self) -> list[SharedChoices]:
        return [group.search for group in self._open if group.search is not None]

    def state(self) -> Mapping[str, Any]:
        groups = self._root.all()
        number = {group: k for k, group in enumerate(groups)}
        to_begin = [*(group for group, _ in self._beginning), *self._to_begin]
        return {
            "sample": self._sample[:, : self._sampled],
            "sampled": self._sampled,
            "groups": [group.state(number) for group in groups],
            "to_begin": [number[group] for group in to_begin],
            "open": [number[group] for group in self._open],
            "counted": dict(self._counted),
            "other": [self._nodes, self._lps, self._worked, self._improvements, self._credit],
            "random": self._rng.bit_generator.state,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        groups: list[Group] = []
        for kept in state["groups"]:
            groups.append(Group.of(kept, groups))
        self._root = groups[-1]
        self._to_begin.extend(groups[k] for k in state["to_begin"])
        for k in state["open"]:
            self._open.append(groups[k])
            kept = state["groups"][k]
            groups[k].search = search = self._search_of(groups[k], *kept["best"])
            search.restore(kept["search"])
        self._sampled = state["sampled"]
        if state["sample"].size:
            self._sample[:, : self._sampled] = state["sample"]
        elif self._sampled or self._to_begin or self._open or self._root.closed:
            self._sample = np.empty((0, 0))
        self._counted = Counter(state["counted"])
        self._nodes, self._lps, self._worked, self._improvements, self._credit = state["other"]
        self._rng.bit_generator.state = state["random"]

    def advance(self) -> None:
        """Search on in the group whose turn it is, or for better weights; before that, form the groups."""
        self._slices = 1
        if not (self._to_begin or self._beginning or self._open):
            self._prepare()
        elif self._credit >= _DESCENT_BUDGET and self._root.parts:
            self._credit -= _DESCENT_BUDGET
            self._improve()
        elif (self._to_begin or self._beginning) and len(self._open) < _MOST_OPEN:
            self._take_begun()
        else:
            self._search_group()

    @cached_property
    def _spread(self) -> FloatArray:
        return standardised(self._canonical.features, self._canonical.offsets)[1]

    @cached_property
    def _descents(self) -> Descents:
        return Descents(*self._canonical.lists, seed=int(self._rng.integers(1 << 32)))

    def _prepare(self) -> None:
        """Sample some more, and form the groups when there is enough; no sample is needed where one group is all."""
        sample, done = self._sample, self._sampled
        if max(map(len, self._parts), default=0) > self._settings.size and done < sample.shape[1]:
            weights = self._places(sample.shape[1] - done)
            count = len(weights)
            sample[:, done : done + count] = sampled_costs(self._canonical, weights).T
            self._sampled += count
            return
        if len(self._parts) > 1 or done:
            excess = sample if done else np.zeros((self._canonical.n_lists, 1))
            for costs in excess:
                checkpoint()
                costs -= costs.min()
            trees = [tree_of(excess, lists, self._settings.size) for lists in self._parts]
            self._root = trees[0] if len(trees) == 1 else Group(self._root.lists, tuple(trees))
        self._sample = np.empty((0, 0))
        self._to_begin.extend(self._root.leaves())

    def _places(self, most: int) -> FloatArray:
        """Return the next weights [P, d] of the sample, so many at most."""
        near_few, size = self._settings.near_few, self._settings.size
        count = min(most, _NEAR_FEW_A_SLICE if near_few else _SAMPLED_A_SLICE)
        weights = self._rng.normal(size=(count, self._canonical.n_features)) / self._spread
        if not near_few:
            return weights
        large = [lists for lists in self._parts if len(lists) > size]
        return cheap_for_few(self._canonical, weights, large, size, self._rng)

    def _improve(self) -> None:
        self._improvements += 1
        if self._improvements % (_DESCENTS + 1) == 0:
            improve(self._canonical, self.incumbent, self._rng, slices=_SUBSPACE_SLICES)
            return
        self._descents.offer(self.incumbent.weights)
        self._descents.run(_DESCENT_BUDGET)
        self._offer(CanonicalWeights(self._descents.best[1]), "L")

    def _offer(self, weights: CanonicalWeights, source: str) -> None:
        cost, clear = self._canonical.clear_cost(weights)
        if clear:
            self.incumbent.improve(cost, weights, source)

    def _send(self) -> None:
        """Submit the beginnings of the groups that come next, at first one by one; the whole problem stays here."""
        places = 1
        if self._worked >= _ALONE:
            places = self._settings.selections.lanes
            if self._workers is not self._later:
                self._workers = self._later
                self._field = self._workers.share(self._field.value)
        while self._to_begin and self._to_begin[0] is not self._root and len(self._beginning) < places:
            group = self._to_begin.popleft()
            best = self.incumbent.weights
            self._beginning.append((group, self._workers.submit(begin, self._field, group.lists, best, _BEGINNING)))

    def _take_begun(self) -> None:
        """Take the beginning of the group that went out first; small ones are finished with it."""
        if self._to_begin and self._to_begin[0] is self._root:
            self._open.append(self._to_begin.popleft())
            best = self.incumbent
            self._root.search = self._search_of(self._root, best.cost, best.weights, best.source)
            self._counted["groups"] += 1
            return
        self._send()
        begun = self._beginning[0][1].wait()
        group, _ = self._beginning.popleft()
        self._counted["groups"] += 1
        self._worked_on(begun.searched.work)
        group.begin(begun)
        if begun.searched.nodes:
            found = begun.searched
            group.search = self._search_of(group, found.cost, found.weights, found.source)
            group.search.go_on_from(found)
            self._open.append(group)
        else:
            counts = Counter(begun.searched.counts)
            self._nodes += counts["nodes"]
            self._lps += counts["lps"]
            self._counted.update(counts)
            self._close(group)
        self._send()

    def _search_of(self, group: Group, cost: int, weights: FloatArray, source: str) -> SharedChoices:
        """Return a search in a group for what costs less than these weights."""
        if group is self._root:
            return SharedChoices(self._settings.selections, self._canonical, self.incumbent)
        upper = Incumbent(cost, CanonicalWeights(weights), source)
        return SharedChoices(self._settings.selections, self._canonical.part(group.lists)[0], upper)

    def _worked_on(self, work: int) -> None:
        self._worked += work
        self._slices = max(1, work // SLICE)
        self._credit += work // _DESCENT_SHARE

    def _search_group(self) -> None:
        group = self._open[0]
        search = group.search
        if search is None:
            return
        before = search.work
        search.advance()
        self._worked_on(search.work - before)
        group.turn += search.work - before
        if search.finished:
            self._open.popleft()
            self._put_away(search)
            search.give_up()
            self._close(group)
        elif group.turn >= _TURN:
            group.turn = 0
            self._open.rotate(-1)

    def _close(self, group: Group) -> None:
        """Keep what a finished search found; the group's parent can begin when all its parts are closed."""
        group.close()
        parent = group.parent
        if parent is not None and all(part.closed for part in parent.parts):
            self._to_begin.append(parent)
            if len(self._parts) > 1 and parent is self._root:
                self._combine()

    def _combine(self) -> None:
        """Offer the weights of all independent parts, which share no feature, together."""
        together = np.zeros(self._canonical.n_features)
        for part in self._root.parts:
            together[part.columns] = part.weights
        self._offer(CanonicalWeights(together), "G")
