"""A lower bound for problems too large to solve: the sum of the optima of disjoint groups of lists.

Every group may use weights of its own, so the sum never exceeds the optimum. A good group consists of lists that are
never cheap at the same weights. Groups whose searches have finished are joined in pairs, until the last group is the
whole problem. In turns with this, descents look for better weights for all lists. Lists that share no feature with the
others are a problem of their own: the optima of such independent parts add up to the optimum. For a ratio, a linear
minorant of the metric on the box of all possible sums prices every hypothesis; a bound on these costs is a bound on the
metric.

A unit of work begins the search of a group, and finishes it if the group is small. The later units of a group are
batches of its open nodes, as in `choices`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lpmert.configurable import option
from lpmert.core import decode
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.limits import checked, checkpoint
from lpmert.lines import Descents, descend
from lpmert.methods.choices import (
    ROUNDS,
    SLICE,
    ChoicesSearch,
    cost_of_height,
    oracle_height,
    ratio_lists,
    tight_oracle_height,
)
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.numeric.lists import columns_of, units
from lpmert.search.combined import Answer, Combined
from lpmert.search.method import Incumbent, Method, Search, Task
from lpmert.workers import SERIAL, Pending, Workers, current_workers

_BUDGET = 1_000_000  # budget of a descent for one sample of weights, as in `descend`; most descents end earlier


CANDIDATES = 200  # candidates for the next list of a group: the most expensive lists left
_GROUP_BUDGET = 300_000  # budget of the descent to the first incumbent of a group, as in `descend`


def begin_group(canonical: Canonical, lists: IntArray, best: FloatArray, budget: int) -> Answer:
    """Search these lists alone for a limited amount of work; best [D]: the incumbent of all lists."""
    part, columns = canonical.part(lists)
    initial = CanonicalWeights(best[columns])
    descended = CanonicalWeights(descend(*part.lists, initial=initial, budget=_GROUP_BUDGET)[1])
    upper = Incumbent(part.dearest, descended, "")
    for candidate in (descended, initial):
        # If there are ties, this is the highest cost that they allow, and weights close by attain it.
        upper.improve(part.clear_cost(candidate)[0], candidate, "")
    search = ChoicesSearch(part, upper)
    while not search.finished and (search.core.work < budget or not search.core.between_nodes):
        checkpoint()
        search.search_for(max(1, min(SLICE, budget - search.core.work)))
    nodes = [] if search.finished else search.export_nodes()
    return Answer(nodes, upper.cost, upper.weights, "", search.unsettled, search.counters(), search.core.work)


_SAVED = ("lists", "weights", "closed", "unsettled")


@dataclass(eq=False)
class Group:
    """A group of lists, the groups that it was joined from (`parts`), and the state of its search.

    weights: the optimal weights after the search has finished, for the features of these lists. turn: work in the
    current turn. closed: whether the search has finished. bound: the bound from before the current search.
    """

    lists: IntArray
    parts: tuple[Group, ...] = ()
    weights: FloatArray = field(default_factory=lambda: np.empty(0))
    turn: int = 0
    closed: bool = False
    unsettled: int | None = None
    bound: int = 0
    search: ChoicesSearch | None = None
    parent: Group | None = None

    def __post_init__(self) -> None:
        self.lists = np.sort(self.lists)
        for part in self.parts:
            part.parent = self

    @property
    def own_bound(self) -> int:
        return self.bound if self.search is None else max(self.bound, self.search.lower_bound)

    @property
    def lower_bound(self) -> int:
        """The larger of the group's own bound and the sum of its parts' bounds."""
        own = self.own_bound
        return own if self.closed else max(own, sum(part.lower_bound for part in self.parts))

    def close(self) -> None:
        self.bound = self.lower_bound
        if self.search is not None:
            self.weights, self.unsettled = self.search.incumbent.weights, self.search.unsettled
        self.search = None
        self.closed = True

    def state(self, numbers: Mapping[Group, int]) -> Mapping[str, Any]:
        search = None if self.search is None else self.search.saved()
        parts = [numbers[part] for part in self.parts]
        fields = {name: getattr(self, name) for name in _SAVED}
        return {"parts": parts, "bound": self.own_bound, "search": search, **fields}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], groups: Sequence[Group]) -> Group:
        """Return the group of a state without its search; groups: earlier groups by their numbers."""
        parts = tuple(groups[number] for number in state["parts"])
        return cls(parts=parts, bound=state["bound"], **{name: state[name] for name in _SAVED})

    def all(self) -> list[Group]:
        """Return all groups that this one was joined from, parts before the groups joined from them, and itself."""
        return [*(group for part in self.parts for group in part.all()), self]


def gather(excess: FloatArray, lists: IntArray, size: int) -> list[IntArray]:
    """Divide rows of excess [n, P] greedily into groups of `size` whose least column sum is large.

    A large least sum means that at none of the P sampled weights all lists of the group are cheap. Each group starts
    with the most expensive row left; the last group may be smaller.
    """
    means = np.array([excess[row].mean() for row in checked(lists)])
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
    """Return the lists in independent parts, which have no varying feature in common.

    The parts are the connected components of the graph that joins two features if a list varies in both. The graph can
    have millions of edges, too many for networkx.
    """
    varies = np.empty((len(offsets) - 1, features.shape[1]), dtype=bool)
    for d, column in enumerate(columns_of(features)):
        first = np.repeat(column[offsets[:-1]], np.diff(offsets))
        varies[:, d] = np.logical_or.reduceat(column != first, offsets[:-1])
        if varies[:, d].all():
            return [np.arange(len(varies))]
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components  # loading it takes as long as a short search

    lists, columns = np.nonzero(varies)
    first_varying = varies.argmax(axis=1)
    edges = first_varying[lists], columns
    joined = coo_array((np.ones(len(lists), dtype=bool), edges), shape=2 * features.shape[1:])
    _, components = connected_components(joined, directed=False)
    labels = components[first_varying]
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels))
    parts = np.split(order, ends[:-1])
    return sorted((part for part in parts if len(part)), key=lambda part: int(part[0]))


def tree_of(excess: FloatArray, lists: IntArray, size: int) -> Group:
    """Return the root of a tree of groups over these lists: groups of `size` lists, then joined in pairs."""
    groups = [Group(group) for group in gather(excess, lists, size)]
    while len(groups) > 1:
        sums = np.array([excess[group.lists].sum(axis=0) for group in checked(groups)])
        groups = [
            Group(np.concatenate([groups[k].lists for k in pair]), tuple(groups[k] for k in pair))
            if len(pair) > 1
            else groups[pair[0]]
            for pair in gather(sums, np.arange(len(groups)), 2)
        ]
    return groups[0]


class MinorantSearch(Combined):
    """A resumable search for a ratio metric: first over the additive costs of a minorant, then over the ratio itself.

    oracle_bound: see `Loss.oracle_bound`; for other searches over the same lists.
    """

    phase = "groups of lists"
    checkpointed = ("_height", "_costs", "oracle_bound")

    def __init__(self, settings: Groups, canonical: Canonical, incumbent: Incumbent) -> None:
        super().__init__(incumbent)
        self._settings, self._canonical = settings, canonical
        lists, ratio = ratio_lists(canonical)
        self._kind = ratio.kind
        self._height, bound = oracle_height(lists, ratio, incumbent.weights)
        self._costs = bound.costs[: len(canonical.features)].copy()
        height = tight_oracle_height(lists, ratio, self._height, bound)
        self.oracle_bound = cost_of_height(canonical, ratio.kind, height)
        self._over_ratio: ChoicesSearch | None = None
        self._inner: GroupedSearch | None = None
        relaxed = canonical.with_costs(self._costs)
        if relaxed.n_lists:
            below = Incumbent(relaxed.dearest, incumbent.weights, "")
            below.improve(relaxed.clear_cost(incumbent.weights)[0], incumbent.weights, "")
            self._inner = GroupedSearch(settings, relaxed, below)

    @property
    def finished(self) -> bool:
        over_ratio = self._over_ratio
        return self.lower_bound >= self.incumbent.cost or (over_ratio is not None and over_ratio.finished)

    @property
    def unsettled(self) -> int | None:
        """The unsettled cost of the search over the ratio; costs of the minorant are only bounds."""
        return None if self._over_ratio is None else self._over_ratio.unsettled

    @property
    def lower_bound(self) -> int:
        height = self._height + (0 if self._inner is None else self._inner.lower_bound)
        bound = max(self.oracle_bound, cost_of_height(self._canonical, self._kind, height))
        if self._over_ratio is not None:
            bound = max(bound, self._over_ratio.lower_bound)
        return min(bound, self.incumbent.cost)

    @property
    def _searches(self) -> list[Search]:
        return [search for search in (self._inner, self._over_ratio) if search is not None]

    def state(self) -> Mapping[str, Any]:
        inner = None if self._inner is None else self._inner.saved()
        over_ratio = None if self._over_ratio is None else self._over_ratio.state()
        return {**super().state(), "inner": inner, "over_ratio": over_ratio}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue with the minorant of the stored search: its bounds hold for the costs of that minorant."""
        super().restore(state)
        self._inner = None
        if state["inner"] is not None:
            try:
                relaxed = self._canonical.with_costs(self._costs)
            except MethodError as error:  # only forged costs can be too large
                raise ValueError(str(error)) from error
            self._inner = GroupedSearch(self._settings, relaxed, Incumbent.from_state(state["inner"]))
            self._inner.restore(state["inner"]["search"])
        if state["over_ratio"] is not None:
            self._start_over_ratio().restore(state["over_ratio"])

    def _start_over_ratio(self) -> ChoicesSearch:
        units, bound = self._settings.units, self.oracle_bound
        self._over_ratio = ChoicesSearch(self._canonical, self.incumbent, units=units, oracle_bound=bound)
        return self._over_ratio

    def advance(self) -> None:
        if self._inner is None or self._inner.finished:
            (self._over_ratio or self._start_over_ratio()).advance()
            return
        before = self._inner.incumbent.weights
        self._inner.advance()
        found = self._inner.incumbent.weights
        if found is not before:
            cost = self._canonical.attained_cost(found)
            if cost is not None:
                self.incumbent.improve(cost, found, "L")


_ALONE = 20 * SLICE  # work after which units are submitted to workers
_BEGINNING = 8 * SLICE  # most work in the unit that begins a group; as much as in a unit of `choices`
_TURN = 20 * SLICE  # work of a group in one turn

_MOST_OPEN = 64
"""Most groups that are searched in turns; a new one begins when one of them has finished. This bounds memory."""

_SAMPLE_WORK = 3_000_000_000
"""Work of sampling: samples times feature values, or times lists and candidates; a few seconds each."""

_MOST_SAMPLED, _SAMPLED_A_SLICE = 600, 15  # most samples of weights, and samples in a slice
_DESCENT_BUDGET = 10_000_000  # budget of a turn of descents on all lists, as in `descend`

_DESCENT_SHARE = 10
"""Work of groups for each unit of descent work, which takes about five times as long: most time goes into the bound."""

_SAMPLING, _LINES = 0.06, 2_000_000  # effort of a sample of weights; work of descents in a unit of effort


@dataclass(frozen=True)
class Groups(Method):
    """The bound by groups of lists. size: lists in the first groups.

    Groups are formed by the costs of the lists at weights at which a few lists are cheap together.
    """

    size: int = option(7, "lists of the first groups", least=1)
    units: int = option(8, "units of work in flight in a long search; at most this many workers are busy", least=1)

    name = "groups"
    takes_ratios = True
    takes_jobs = True
    takes_fractions = True

    def start(self, task: Task) -> GroupedSearch | MinorantSearch:
        kind = GroupedSearch if task.canonical.additive else MinorantSearch
        return kind(self, task.canonical, task.incumbent)


class GroupedSearch(Combined):
    """A resumable search that raises the bound by groups of lists, in turns with descents to better weights."""

    phase = "groups of lists"
    early = True
    checkpointed = ("_counted", "_worked", "_descent_budget")

    def __init__(self, settings: Groups, canonical: Canonical, incumbent: Incumbent) -> None:
        super().__init__(incumbent)
        self._settings = settings
        self._canonical = canonical
        # The first incumbent depends on the caller's seed, and so do the random numbers here.
        self._rng = np.random.default_rng(np.frombuffer(incumbent.weights.tobytes(), dtype=np.uint32))
        work = max(1, canonical.features.size, CANDIDATES * canonical.n_lists)
        self._sample = np.empty((canonical.n_lists, int(np.clip(_SAMPLE_WORK // work, 50, _MOST_SAMPLED))))
        self._sampled = 0
        self._parts = independent_parts(canonical.features, canonical.offsets)
        self._root = Group(np.arange(canonical.n_lists))
        self._waiting: deque[Group] = deque()
        self._in_flight: deque[tuple[Group, Pending[Answer]]] = deque()
        self._open: deque[Group] = deque()
        self._workers: Workers = SERIAL
        self._workers_later = current_workers()  # used once the search is long
        self._shared = SERIAL.share(canonical)
        self._worked = 0
        self._descent_budget = 0
        self._counted["groups"] = 0

    @property
    def unsettled(self) -> int | None:
        """The unsettled cost of the search over all lists; those of smaller groups only lower the bound."""
        return self._root.unsettled

    @property
    def finished(self) -> bool:
        return self.lower_bound >= self.incumbent.cost or self._root.closed

    @property
    def lower_bound(self) -> int:
        return min(self._root.lower_bound, self.incumbent.cost)

    @property
    def open_nodes(self) -> int:
        return super().open_nodes + len(self._waiting) + len(self._in_flight) + len(self._open)

    @property
    def effort(self) -> float:
        rounds = self._counted["lp_rounds"] + sum(search.rounds for search in self._searches)
        descents = (self._worked / _DESCENT_SHARE - self._descent_budget) / _LINES
        return float(rounds / ROUNDS + _SAMPLING * self._sampled + descents)

    @property
    def _searches(self) -> list[ChoicesSearch]:
        return [group.search for group in self._open if group.search is not None]

    def state(self) -> Mapping[str, Any]:
        groups = self._root.all()
        numbers = {group: k for k, group in enumerate(groups)}
        waiting = [*(group for group, _ in self._in_flight), *self._waiting]
        return {
            **super().state(),
            "groups": [group.state(numbers) for group in groups],
            "waiting": [numbers[group] for group in waiting],
            "open": [numbers[group] for group in self._open],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        groups: list[Group] = []
        for stored in state["groups"]:
            groups.append(Group.from_state(stored, groups))
        self._root = groups[-1]
        self._waiting.extend(groups[k] for k in state["waiting"])
        for k in state["open"]:
            self._open.append(groups[k])
            stored = state["groups"][k]["search"]
            groups[k].search = search = self._start_search(groups[k], Incumbent.from_state(stored))
            search.restore(stored["search"])
        if self._waiting or self._open:
            self._sample = np.empty((0, 0))

    def advance(self) -> None:
        if not (self._waiting or self._in_flight or self._open):
            self._prepare()
        elif self._descent_budget >= _DESCENT_BUDGET and self._root.parts:
            self._descent_budget -= _DESCENT_BUDGET
            self._improve()
        elif (self._waiting or self._in_flight) and len(self._open) < _MOST_OPEN:
            self._take_answer()
        else:
            self._search_group()

    @cached_property
    def _spread(self) -> FloatArray:
        return units([(self._canonical.features, self._canonical.offsets)])

    @cached_property
    def _descents(self) -> Descents:
        return Descents(*self._canonical.lists, seed=int(self._rng.integers(1 << 32)))

    def _prepare(self) -> None:
        """Add samples, and form the groups once there are enough; a single group needs no samples."""
        sample, done, size, canonical = self._sample, self._sampled, self._settings.size, self._canonical
        large = [lists for lists in self._parts if len(lists) > size]
        if large and done < sample.shape[1]:
            count = min(sample.shape[1] - done, _SAMPLED_A_SLICE)
            weights = self._rng.normal(size=(count, canonical.n_features)) / self._spread
            for row in weights:
                checkpoint()
                self._make_some_cheap(row, large[int(self._rng.integers(len(large)))])
            for k, row in enumerate(weights, done):
                checkpoint()
                sample[:, k] = canonical.costs[decode(canonical.features, canonical.offsets, row)]
            self._sampled += count
            return
        if len(self._parts) > 1 or done:
            excess = sample if done else np.zeros((canonical.n_lists, 1))
            excess -= excess.min(axis=1, keepdims=True)
            trees = [tree_of(excess, lists, size) for lists in self._parts]
            self._root = trees[0] if len(trees) == 1 else Group(self._root.lists, tuple(trees))
        self._sample = np.empty((0, 0))
        self._waiting.extend(group for group in self._root.all() if not group.parts)

    def _make_some_cheap(self, weights: FloatArray, lists: IntArray) -> None:
        """Move random weights [D], at which groups look more expensive than they are, to where some lists are cheap."""
        chosen = np.sort(self._rng.choice(lists, min(self._settings.size, len(lists)), replace=False))
        part, columns = self._canonical.part(chosen)
        seed = int(self._rng.integers(1 << 32))
        weights[columns] = descend(*part.lists, seed=seed, initial=weights[columns], starts=1, budget=_BUDGET)[1]

    def _improve(self) -> None:
        self._descents.offer(self.incumbent.weights)
        self._descents.run(_DESCENT_BUDGET)
        self._offer(CanonicalWeights(self._descents.best[1]), "L")

    def _offer(self, weights: CanonicalWeights, source: str) -> None:
        cost, clear = self._canonical.clear_cost(weights)
        if clear:
            self.incumbent.improve(cost, weights, source)

    def _submit(self) -> None:
        """Submit units that begin the next groups, at first one at a time; all lists are searched in this process."""
        slots = 1
        if self._worked >= _ALONE:
            slots = self._settings.units
            if self._workers is not self._workers_later:
                self._workers = self._workers_later
                self._shared = self._workers.share(self._shared.value)
        while self._waiting and self._waiting[0] is not self._root and len(self._in_flight) < slots:
            group = self._waiting.popleft()
            arguments = group.lists, self.incumbent.weights, _BEGINNING
            self._in_flight.append((group, self._workers.submit(begin_group, self._shared, *arguments)))

    def _take_answer(self) -> None:
        """Take the answer to the oldest unit that began a group; small groups are finished then."""
        if self._waiting and self._waiting[0] is self._root:
            self._open.append(self._waiting.popleft())
            self._root.search = self._start_search(self._root, self.incumbent)
            self._counted["groups"] += 1
            return
        self._submit()
        answer = self._in_flight[0][1].wait()
        group, _ = self._in_flight.popleft()
        self._counted["groups"] += 1
        self._add_work(answer.work)
        group.weights, group.unsettled = answer.weights, answer.unsettled
        if answer.nodes:
            upper = Incumbent(answer.cost, CanonicalWeights(answer.weights), answer.source)
            group.search = self._start_search(group, upper)
            group.search.resume_from(answer)
            self._open.append(group)
        else:
            group.bound = answer.cost if answer.unsettled is None else min(answer.cost, answer.unsettled)
            self._counted.update(answer.counts)
            self._close(group)
        self._submit()

    def _start_search(self, group: Group, upper: Incumbent) -> ChoicesSearch:
        """Return the search of a group from its incumbent; the search of all lists shares the incumbent of this one."""
        if group is self._root:
            return ChoicesSearch(self._canonical, self.incumbent, units=self._settings.units)
        return ChoicesSearch(self._canonical.part(group.lists)[0], upper, units=self._settings.units)

    def _add_work(self, work: int) -> None:
        self._worked += work
        self._descent_budget += work // _DESCENT_SHARE

    def _search_group(self) -> None:
        group = self._open[0]
        search = group.search
        if search is None:
            return
        before = search.work
        search.advance()
        self._add_work(search.work - before)
        group.turn += search.work - before
        if search.finished:
            self._open.popleft()
            self._retire(search)
            search.cancel()
            self._close(group)
        elif group.turn >= _TURN:
            group.turn = 0
            self._open.rotate(-1)

    def _close(self, group: Group) -> None:
        """Close a group whose search has finished; its parent joins the queue when all its parts are closed."""
        group.close()
        parent = group.parent
        if parent is not None and all(part.closed for part in parent.parts):
            self._waiting.append(parent)
            if len(self._parts) > 1 and parent is self._root:
                self._combine()

    def _combine(self) -> None:
        """Offer the combined optimal weights of all independent parts, which share no feature."""
        combined = np.zeros(self._canonical.n_features)
        for part in self._root.parts:
            combined[self._canonical.part(part.lists)[1]] = part.weights
        self._offer(CanonicalWeights(combined), "G")
