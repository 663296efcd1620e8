"""A bound where no search can finish: the optima of disjoint groups of lists add up to a lower bound for all lists.

Every group is free to use weights of its own, so the sum never exceeds the optimum. Groups whose searches are finished
are joined two by two; the last group is the problem itself. In turn with that, better weights for all lists are sought.
Lists that share no feature with the others are a problem of their own: the optima of such parts add up to the optimum.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray, IntArray
from lpmert.lines.descents import Descents, descend
from lpmert.methods.choices.choices import Choices
from lpmert.methods.choices.search import SumChoicesSearch
from lpmert.methods.minorant import MinorantSearch
from lpmert.methods.near_few import cheap_for_few
from lpmert.methods.subspace import improve, random_numbers
from lpmert.model.canonical import standardised
from lpmert.model.coordinates import CanonicalWeights
from lpmert.model.form import Canonical
from lpmert.numeric.kernels import decode
from lpmert.search.combined import Combined
from lpmert.search.method import Incumbent, Method, Task
from lpmert.system.deadline import checkpoint

_PATIENCE = 20
"""Slices that a group gets before the next one has its turn."""

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

_CANDIDATES = 200
"""Only so many of the dearest lists left are compared as the next one of a group."""

_GROUP_BUDGET = 300_000
"""Work for the first weights of a group, as in `descend`."""

_DESCENT_BUDGET = 10_000_000
"""Work of descents on all lists between two looks at the bound, as in `descend`."""

_DESCENTS = 5
"""Descents for each search of a subspace."""

_SLICE_WORK = 400_000
"""Work of a descent for each slice in a group, which takes about twice as long: the bound is what is hard to raise."""

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
    takes_fractions = True

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
        work = max(1, canonical.features.size, _CANDIDATES * canonical.n_lists)
        most = _MOST_NEAR_FEW if settings.near_few else _MOST_SAMPLED
        self._sample = np.empty((canonical.n_lists, int(np.clip(_SAMPLE_WORK // work, 50, most))))
        self._sampled = 0
        self._parts = independent_parts(canonical.features, canonical.offsets)
        self._root = _Group(np.arange(canonical.n_lists))
        self._queue: deque[_Group] = deque()
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
        return super().open_nodes + len(self._queue)

    @property
    def _searches(self) -> list[SumChoicesSearch]:
        return [group.search for group in self._queue if group.search is not None]

    def advance(self) -> None:
        """Search on in the group whose turn it is, or for better weights; before that, form the groups."""
        if not self._queue:
            self._prepare()
            return
        if self._credit >= _DESCENT_BUDGET and self._root.parts:
            self._credit -= _DESCENT_BUDGET
            self._improve()
        else:
            self._credit += _SLICE_WORK
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
            trees = [_tree(excess, lists, self._settings.size) for lists in self._parts]
            self._root = trees[0] if len(trees) == 1 else _Group(self._root.lists, tuple(trees))
        self._sample = np.empty((0, 0))
        self._queue.extend(self._root.leaves())

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

    def _search_group(self) -> None:
        group = self._queue[0]
        if group.search is None:
            group.search = self._start(group)
            self._counted["groups"] += 1
        group.search.advance()
        group.slices += 1
        if group.search.finished:
            self._queue.popleft()
            self._close(group, group.search)
        elif group.slices % _PATIENCE == 0:
            self._queue.insert(_MOST_OPEN - 1, self._queue.popleft())

    def _close(self, group: _Group, search: SumChoicesSearch) -> None:
        """Keep what a finished search found; the group's parent can begin when all its parts are closed."""
        self._put_away(search)
        group.close()
        parent = group.parent
        if parent is not None and all(part.closed for part in parent.parts):
            self._queue.append(parent)
            if len(self._parts) > 1 and parent is self._root:
                self._combine()

    def _combine(self) -> None:
        """Offer the weights of all independent parts, which share no feature, together."""
        together = np.zeros(self._canonical.n_features)
        for part in self._root.parts:
            together[part.columns] = part.weights
        self._offer(CanonicalWeights(together), "G")

    def _start(self, group: _Group) -> SumChoicesSearch:
        canonical, selections = self._canonical, self._settings.selections
        if group is self._root:
            return SumChoicesSearch(selections, canonical, self.incumbent)
        part, group.columns = canonical.part(group.lists)
        initial = CanonicalWeights(self.incumbent.weights[group.columns])
        found = CanonicalWeights(descend(*part.lists, initial=initial, budget=_GROUP_BUDGET)[1])
        upper = Incumbent(part.dearest, found, "")
        for candidate in (found, initial):
            # Where ties leave the cost in doubt it is the worst one, which weights beside these attain.
            upper.improve(part.clear_cost(candidate)[0], candidate, "")
        return SumChoicesSearch(selections, part, upper)


class _Group:
    """Lists, the parts they were joined from, and how far the search over them has come."""

    def __init__(self, lists: IntArray, parts: tuple[_Group, ...] = ()) -> None:
        self.lists = np.sort(lists)
        self.parts = parts
        self.parent: _Group | None = None
        for part in parts:
            part.parent = self
        self.search: SumChoicesSearch | None = None
        self.columns = np.empty(0, dtype=np.int64)
        self.weights = np.empty(0)
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
        """Take over bound, weights and unsettled cost of the finished search, and drop it."""
        self._bound = self.lower_bound
        if self.search is not None:
            self.weights, self.unsettled = self.search.incumbent.weights, self.search.unsettled
        self.search = None
        self.closed = True

    def leaves(self) -> list[_Group]:
        """Return the smallest groups in order."""
        return [leaf for part in self.parts for leaf in part.leaves()] if self.parts else [self]


def sampled_costs(canonical: Canonical, weights: FloatArray) -> FloatArray:
    """Return what each list costs at each of the weights [P, d]; [P, s]."""
    costs = np.empty((len(weights), canonical.n_lists))
    chosen = np.empty(canonical.n_lists, dtype=np.int64)
    for k, row in enumerate(weights):
        checkpoint()
        decode(canonical.features, canonical.offsets, row, chosen)
        costs[k] = canonical.costs[chosen]
    return costs


def gather(excess: FloatArray, lists: IntArray, size: int) -> list[IntArray]:
    """Return disjoint groups of `size` of these rows of excess [n, P] whose least column sums are large, greedily.

    A large least sum says that at none of the sampled weights all of the group is cheap. Each group begins with the
    dearest row left; the last one may be smaller.
    """
    means = np.empty(len(lists))
    for k, row in enumerate(lists):
        checkpoint()
        means[k] = excess[row].mean()
    left = lists[np.argsort(-means, kind="stable")]
    groups = []
    while len(left):
        group, total = [left[0]], excess[left[0]].copy()
        left = left[1:]
        while len(group) < size and len(left):
            checkpoint()
            place = int(np.argmax((total + excess[left[:_CANDIDATES]]).min(axis=1)))
            group.append(left[place])
            total += excess[left[place]]
            left = np.delete(left, place)
        groups.append(np.array(group, dtype=np.int64))
    return groups


def independent_parts(features: FloatArray, offsets: IntArray) -> list[IntArray]:
    """Return the lists in parts that have no feature in common: whatever the weights of one, the others do not notice.

    These are the components of the graph that joins features where some list varies in both; there can be millions of
    edges, too many for networkx.
    """
    first = features[np.repeat(offsets[:-1], np.diff(offsets))]
    varies = np.logical_or.reduceat(features != first, offsets[:-1], axis=0)
    if varies.all(axis=0).any():
        return [np.arange(len(varies))]
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components  # takes as long to load as many a search

    lists, columns = np.nonzero(varies)
    one = varies.argmax(axis=1)
    joined = coo_array((np.ones(len(lists), dtype=bool), (one[lists], columns)), shape=2 * features.shape[1:])
    _, labels = connected_components(joined, directed=False)
    order = np.argsort(labels[one], kind="stable")
    ends = np.cumsum(np.bincount(labels[one]))
    parts = np.split(order, ends[:-1])
    return sorted((part for part in parts if len(part)), key=lambda part: int(part[0]))


def _tree(excess: FloatArray, lists: IntArray, size: int) -> _Group:
    """Return the group of these lists: conflicting lists joined to groups of this size, and these joined by twos."""
    groups = [_Group(group) for group in gather(excess, lists, size)]
    while len(groups) > 1:
        sums = np.empty((len(groups), excess.shape[1]))
        for k, group in enumerate(groups):
            checkpoint()
            sums[k] = excess[group.lists].sum(axis=0)
        groups = [
            _Group(np.concatenate([groups[k].lists for k in pair]), tuple(groups[k] for k in pair))
            if len(pair) > 1
            else groups[pair[0]]
            for pair in gather(sums, np.arange(len(groups)), 2)
        ]
    return groups[0]
