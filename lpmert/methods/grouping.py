"""Which lists are searched together: those that are never cheap at the same weights, joined two by two to a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lpmert.core import decode
from lpmert.errors import FloatArray, IntArray
from lpmert.lines.descents import descend
from lpmert.methods.choices.search import SLICE, Options, SumChoicesSearch
from lpmert.methods.choices.shared import Searched, SharedChoices
from lpmert.model.canonical import columns_of
from lpmert.model.coordinates import CanonicalWeights
from lpmert.model.form import Canonical
from lpmert.search.method import Incumbent
from lpmert.system.deadline import checkpoint

CANDIDATES = 200
"""Only so many of the dearest lists left are compared as the next one of a group."""

_GROUP_BUDGET = 300_000
"""Work for the first weights of a group, as in `descend`."""


class Field(NamedTuple):
    """What the beginnings of all groups share."""

    options: Options
    canonical: Canonical


class Begun(NamedTuple):
    """How far the search of a group has come: of its columns [d] alone, what is left if anything is, and its bound."""

    columns: IntArray
    searched: Searched
    bound: int


def begin(field: Field, lists: IntArray, best: FloatArray, budget: int) -> Begun:
    """Search these lists alone for so much work, and not beyond their end; best [D]: the best weights for all lists."""
    part, columns = field.canonical.part(lists)
    initial = CanonicalWeights(best[columns])
    found = CanonicalWeights(descend(*part.lists, initial=initial, budget=_GROUP_BUDGET)[1])
    upper = Incumbent(part.dearest, found, "")
    for candidate in (found, initial):
        # Where ties leave the cost in doubt it is the worst one, which weights beside these attain.
        upper.improve(part.clear_cost(candidate)[0], candidate, "")
    search = SumChoicesSearch(field.options, part, upper)
    while not search.finished and (search.work < budget or not search.between_nodes):
        checkpoint()
        search.search_on(max(1, min(SLICE, budget - search.work)))
    parts = [] if search.finished else search.open_parts()
    gains, counts = search.gains, search.counters()
    searched = Searched(parts, upper.cost, upper.weights, "", search.unsettled, gains, counts, search.work)
    return Begun(columns, searched, search.lower_bound)


class Group:
    """Lists, the parts they were joined from, and how far the search over them has come."""

    def __init__(self, lists: IntArray, parts: tuple[Group, ...] = ()) -> None:
        self.lists = np.sort(lists)
        self.parts = parts
        self.parent: Group | None = None
        for part in parts:
            part.parent = self
        self.search: SharedChoices | None = None
        self.columns = np.empty(0, dtype=np.int64)
        self.weights = np.empty(0)
        self.turn = 0
        self.closed = False
        self.unsettled: int | None = None
        self._bound = 0

    @property
    def lower_bound(self) -> int:
        """The sum of the parts' bounds, or the group's own where that is higher."""
        own = self._bound if self.search is None else max(self._bound, self.search.lower_bound)
        return own if self.closed else max(own, sum(part.lower_bound for part in self.parts))

    def begin(self, begun: Begun) -> None:
        """Take over how far the search has come."""
        self.columns, self.weights, self.unsettled = begun.columns, begun.searched.weights, begun.searched.unsettled
        self._bound = max(self._bound, begun.bound)

    def close(self) -> None:
        """Take over bound, weights and unsettled cost of the finished search, and drop it."""
        self._bound = self.lower_bound
        if self.search is not None:
            self.weights, self.unsettled = self.search.incumbent.weights, self.search.unsettled
        self.search = None
        self.closed = True

    def state(self, known: Mapping[Group, int]) -> Mapping[str, Any]:
        """Return all about it; known: numbers of the groups that it was joined from, among others."""
        search, best = self.search, None if self.search is None else self.search.incumbent
        return {
            "lists": self.lists,
            "parts": [known[part] for part in self.parts],
            "columns": self.columns,
            "weights": self.weights,
            "turn": self.turn,
            "closed": self.closed,
            "unsettled": self.unsettled,
            "bound": self._bound if search is None else max(self._bound, search.lower_bound),
            "search": None if search is None else search.state(),
            "best": None if best is None else (best.cost, best.weights, best.source),
        }

    @classmethod
    def of(cls, state: Mapping[str, Any], known: Sequence[Group]) -> Group:
        """Return the group of a state, but for its search; known: groups by their numbers."""
        group = cls(state["lists"], tuple(known[number] for number in state["parts"]))
        group.columns, group.weights, group.turn = state["columns"], state["weights"], state["turn"]
        group.closed, group.unsettled, group._bound = state["closed"], state["unsettled"], state["bound"]
        return group

    def all(self) -> list[Group]:
        """Return this group and all that it was joined from, which come before it."""
        return [*(one for part in self.parts for one in part.all()), self]

    def leaves(self) -> list[Group]:
        """Return the smallest groups in order."""
        return [leaf for part in self.parts for leaf in part.leaves()] if self.parts else [self]


def sampled_costs(canonical: Canonical, weights: FloatArray) -> FloatArray:
    """Return what each list costs at each of the weights [P, d]; [P, s]."""
    costs = np.empty((len(weights), canonical.n_lists))
    for k, row in enumerate(weights):
        checkpoint()
        costs[k] = canonical.costs[decode(canonical.features, canonical.offsets, row)]
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
            place = int(np.argmax((total + excess[left[:CANDIDATES]]).min(axis=1)))
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
    varies = np.empty((len(offsets) - 1, features.shape[1]), dtype=bool)
    for d, column in enumerate(columns_of(features)):
        first = np.repeat(column[offsets[:-1]], np.diff(offsets))
        varies[:, d] = np.logical_or.reduceat(column != first, offsets[:-1])
        if varies[:, d].all():
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


def tree_of(excess: FloatArray, lists: IntArray, size: int) -> Group:
    """Return the group of these lists: conflicting lists joined to groups of this size, and these joined by twos."""
    groups = [Group(group) for group in gather(excess, lists, size)]
    while len(groups) > 1:
        sums = np.empty((len(groups), excess.shape[1]))
        for k, group in enumerate(groups):
            checkpoint()
            sums[k] = excess[group.lists].sum(axis=0)
        groups = [
            Group(np.concatenate([groups[k].lists for k in pair]), tuple(groups[k] for k in pair))
            if len(pair) > 1
            else groups[pair[0]]
            for pair in gather(sums, np.arange(len(groups)), 2)
        ]
    return groups[0]
