"""A bound where no search can finish: the optima of disjoint groups of lists add up to a lower bound for all lists.

Every group is free to use weights of its own, so the sum never exceeds the optimum. Groups whose searches are finished
are joined two by two; the last group is the problem itself. In turn with that, better weights for all lists are sought.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lpmert.approximate.subspace import improve, random_numbers
from lpmert.canonical import rows_of_lists
from lpmert.configurable import option
from lpmert.deadline import checkpoint
from lpmert.exact.choices import Choices
from lpmert.exact.choices_search import SumChoicesSearch
from lpmert.exact.search import Incumbent, Search
from lpmert.exact.solve import ExactMethod
from lpmert.geometry.descent import descend
from lpmert.kernels import clear_cost, decode
from lpmert.problem import Problem
from lpmert.result import FloatArray, IntArray

_PATIENCE = 20
"""Slices that a group gets before the next one has its turn."""

_MOST_OPEN = 64
"""Groups that are searched in turns; the next one begins when one of these is finished, so that memory is bounded."""

_SAMPLE_WORK = 3_000_000_000
"""Weights in the sample, times hypotheses, times features: a second or two."""

_MOST_SAMPLED = 4000

_SAMPLED_A_SLICE = 200

_CANDIDATES = 200
"""Only so many of the dearest lists left are compared as the next one of a group."""

_GROUP_BUDGET = 300_000
"""Work for the first weights of a group, as in `descend`."""

_DESCENT_BUDGET = 10_000_000
"""Work of the first descents on all lists, as in `descend`; later ones, which begin many more times, take more."""

_LONGEST_DESCENT = 100_000_000

_DESCENTS = 5
"""Descents for each search of a subspace."""

_SLICE_WORK = 1_000_000
"""A slice in a group takes about as long as so much work of a descent; better weights get as much time as the bound."""

_SUBSPACE_SLICES = 40


@dataclass(frozen=True)
class Groups(ExactMethod):
    """The bound by groups of lists. size: lists of the first groups; selections: how each group is searched."""

    size: int = option(8, "lists of the first groups", least=1)
    selections: Choices = field(default_factory=Choices)

    name = "groups"

    def start(self, problem: Problem, incumbent: Incumbent) -> Search:
        """Return a search that begins with this incumbent, on which its random numbers depend too."""
        return GroupedSearch(self, problem, incumbent)


class GroupedSearch:
    """A resumable search that raises the bound by groups of lists, and in turn looks for better weights."""

    def __init__(self, settings: Groups, problem: Problem, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self._settings = settings
        self._problem = problem
        self._rng = random_numbers(incumbent)
        self._sample: list[FloatArray] = []
        self._to_sample = int(np.clip(_SAMPLE_WORK // max(1, problem.features.size), 50, _MOST_SAMPLED))
        self._root = _Group(np.arange(problem.n_lists))
        self._queue: deque[_Group] = deque()
        self._improvements = 0
        self._credit = 0
        self._searches = 0
        self._counted: dict[str, int] = {}

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
    def nodes(self) -> int:
        return sum(search.nodes for search in self._open()) + self._counted.get("nodes", 0)

    @property
    def open_nodes(self) -> int:
        return sum(search.open_nodes for search in self._open()) + len(self._queue)

    @property
    def lps(self) -> int:
        return sum(search.lps for search in self._open()) + self._counted.get("lps", 0)

    @property
    def memory(self) -> int:
        return sum(search.memory for search in self._open())

    def counters(self) -> Mapping[str, int]:
        total = {"groups": self._searches, **self._counted}
        for search in self._open():
            for name, count in search.counters().items():
                total[name] = total.get(name, 0) + count
        return total

    def advance(self) -> None:
        """Search on in the group whose turn it is, or for better weights; before that, form the groups."""
        if not self._queue:
            self._prepare()
            return
        if self._credit >= self._next_work and self._root.parts:
            self._credit -= self._next_work
            self._improve()
        else:
            self._credit += _SLICE_WORK
            self._search_group()

    @property
    def _next_work(self) -> int:
        return min(_DESCENT_BUDGET * (4 + self._improvements) // 4, _LONGEST_DESCENT)

    def _prepare(self) -> None:
        """Sample some more, and form the groups when there is enough; no sample is needed where one group is all."""
        if self._problem.n_lists > self._settings.size and self._to_sample > 0:
            count = min(self._to_sample, _SAMPLED_A_SLICE)
            self._sample.append(sampled_costs(self._problem, self._rng.normal(size=(count, self._problem.n_features))))
            self._to_sample -= count
            return
        if self._sample:
            sample = np.concatenate(self._sample)
            self._root = _tree(sample - sample.min(axis=0), self._settings.size)
            self._sample = []
        self._queue.extend(self._root.leaves())

    def _open(self) -> list[SumChoicesSearch]:
        return [group.search for group in self._queue if group.search is not None]

    def _improve(self) -> None:
        problem, incumbent, budget = self._problem, self.incumbent, self._next_work
        self._improvements += 1
        if self._improvements % (_DESCENTS + 1) == 0:
            improve(problem, incumbent, self._rng, slices=_SUBSPACE_SLICES)
            return
        _, weights = descend(
            problem.features,
            problem.offsets,
            problem.costs,
            seed=int(self._rng.integers(1 << 32)),
            initial=incumbent.weights,
            budget=budget,
        )
        bound = problem.rounding_bound(weights)
        cost, clear = clear_cost(problem.features, problem.offsets, problem.costs, weights, bound)
        if clear:
            incumbent.improve(int(cost), weights, "L")

    def _search_group(self) -> None:
        group = self._queue[0]
        if group.search is None:
            group.search = self._start(group)
            self._searches += 1
        group.search.advance()
        group.slices += 1
        if group.search.finished:
            self._queue.popleft()
            self._close(group, group.search)
        elif group.slices % _PATIENCE == 0:
            self._queue.insert(_MOST_OPEN - 1, self._queue.popleft())

    def _close(self, group: _Group, search: SumChoicesSearch) -> None:
        """Keep what a finished search found; the group's parent can begin when all its parts are closed."""
        for name, count in search.counters().items():
            self._counted[name] = self._counted.get(name, 0) + count
        group.close()
        parent = group.parent
        if parent is not None and all(part.closed for part in parent.parts):
            self._queue.append(parent)

    def _start(self, group: _Group) -> SumChoicesSearch:
        problem, selections = self._problem, self._settings.selections
        if group is self._root:
            return SumChoicesSearch(
                selections, problem.features, problem.offsets, problem.costs, problem.granularity, self.incumbent
            )
        rows, offsets = rows_of_lists(problem.offsets, group.lists)
        features, costs = np.ascontiguousarray(problem.features[rows]), problem.costs[rows]
        _, weights = descend(features, offsets, costs, initial=self.incumbent.weights, budget=_GROUP_BUDGET)
        upper = Incumbent(int(np.maximum.reduceat(costs, offsets[:-1]).sum()), weights, "")
        for candidate in (weights, self.incumbent.weights):
            # Where ties leave the cost in doubt it is the worst one, which weights beside these attain.
            cost, _ = clear_cost(features, offsets, costs, candidate, problem.rounding_bound(candidate))
            upper.improve(int(cost), candidate, "")
        granularity = max(1, int(np.gcd.reduce(costs)))
        return SumChoicesSearch(selections, features, offsets, costs, granularity, upper)


class _Group:
    """Lists, the parts they were joined from, and how far the search over them has come."""

    def __init__(self, lists: IntArray, parts: tuple[_Group, ...] = ()) -> None:
        self.lists = np.sort(lists)
        self.parts = parts
        self.parent: _Group | None = None
        for part in parts:
            part.parent = self
        self.search: SumChoicesSearch | None = None
        self.slices = 0
        self.closed = False
        self.unsettled: int | None = None
        self._bound = 0

    @property
    def lower_bound(self) -> int:
        """The sum of the parts' bounds, or the group's own where that is higher."""
        own = self._bound if self.search is None else max(self._bound, self.search.lower_bound)
        return own if self.closed else max(own, sum(part.lower_bound for part in self.parts))

    def close(self) -> None:
        """Take over bound and unsettled cost of the finished search, and drop it."""
        self._bound = self.lower_bound
        if self.search is not None:
            self.unsettled = self.search.unsettled
        self.search = None
        self.closed = True

    def leaves(self) -> list[_Group]:
        """Return the smallest groups in order."""
        return [leaf for part in self.parts for leaf in part.leaves()] if self.parts else [self]


def sampled_costs(problem: Problem, weights: FloatArray) -> FloatArray:
    """Return what each list costs at each of the weights [P, d]; [P, s]."""
    costs = np.empty((len(weights), problem.n_lists))
    chosen = np.empty(problem.n_lists, dtype=np.int64)
    for k, row in enumerate(weights):
        checkpoint()
        decode(problem.features, problem.offsets, row, chosen)
        costs[k] = problem.costs[chosen]
    return costs


def gather(excess: FloatArray, size: int) -> list[IntArray]:
    """Return disjoint groups of `size` columns of excess [P, n] whose least row sums are large, greedily.

    A large least sum says that at none of the sampled weights all of the group is cheap. Each group begins with the
    dearest column left; the last one may be smaller.
    """
    left = np.argsort(-excess.mean(axis=0), kind="stable")
    groups = []
    while len(left):
        checkpoint()
        group, total = [left[0]], excess[:, left[0]].copy()
        left = left[1:]
        while len(group) < size and len(left):
            near = left[:_CANDIDATES]
            place = int(np.argmax((total[:, None] + excess[:, near]).min(axis=0)))
            group.append(near[place])
            total += excess[:, near[place]]
            left = np.delete(left, place)
        groups.append(np.array(group, dtype=np.int64))
    return groups


def _tree(excess: FloatArray, size: int) -> _Group:
    """Return the group of all lists: conflicting lists joined to groups of this size, and these joined by twos."""
    chosen = gather(excess, size)
    groups = [_Group(lists) for lists in chosen]
    while len(groups) > 1:
        excess = np.column_stack([excess[:, lists].sum(axis=1) for lists in chosen])
        chosen = gather(excess, 2)
        groups = [
            _Group(np.concatenate([groups[k].lists for k in pair]), tuple(groups[k] for k in pair))
            if len(pair) > 1
            else groups[pair[0]]
            for pair in chosen
        ]
    return groups[0]
