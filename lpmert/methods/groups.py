"""A bound where no search can finish: the optima of disjoint groups of lists add up to a lower bound for all lists.

Every group is free to use weights of its own, so the sum never exceeds the optimum. Groups are lists that are never
cheap at the same weights. Those whose searches are finished are joined two by two; the last group is the problem
itself. In turn with that, better weights for all lists are sought. Lists that share no feature with the others are a
problem of their own: the optima of such parts add up to the optimum. For a ratio, a linear minorant of the metric on
the box of all possible sums gives every hypothesis a cost, and whatever is proved of these costs is proved of the
metric.

Units of work are the beginnings of groups, which small ones do not outlast, and then batches of open selections.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lpmert.configurable import option
from lpmert.core import decode
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.lines.descents import Descents, descend
from lpmert.methods.choices.choices import ROUNDS, SLICE, Choices, ChoicesSearch, Common, SharedChoices
from lpmert.methods.choices.ratio import close_oracle_height, cost_of_height, oracle_height, ratio_lists
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.numeric.lists import columns_of, units
from lpmert.search.method import Combined, Incumbent, Method, Search, Task
from lpmert.search.node_queue import Answer
from lpmert.system.deadline import checkpoint
from lpmert.workers import SERIAL, Pending, Workers, current_workers

_BUDGET = 1_000_000
"""Work for each weights, as in `descend`; most descents end before that."""


def cheap_for_few(
    canonical: Canonical, weights: FloatArray, parts: Sequence[IntArray], size: int, rng: np.random.Generator
) -> FloatArray:
    """Return what a descent from each of these weights [P, d] leads to, each on `size` other lists of one of the parts.

    At random weights a group looks dearer than it is: those at which it is cheap are found by looking for them.
    """
    found = weights.copy()
    for row in found:
        checkpoint()
        lists = parts[int(rng.integers(len(parts)))]
        few = np.sort(rng.choice(lists, min(size, len(lists)), replace=False))
        part, columns = canonical.part(few)
        seed = int(rng.integers(1 << 32))
        row[columns] = descend(*part.lists, seed=seed, initial=row[columns], starts=1, budget=_BUDGET)[1]
    return found


CANDIDATES = 200
"""Only so many of the dearest lists left are compared as the next one of a group."""

_GROUP_BUDGET = 300_000
"""Work for the first weights of a group, as in `descend`."""


def begin(common: Common, lists: IntArray, best: FloatArray, budget: int) -> Answer:
    """Search these lists alone for at most so much work; best [D]: the best weights for all lists."""
    part, columns = common.canonical.part(lists)
    initial = CanonicalWeights(best[columns])
    found = CanonicalWeights(descend(*part.lists, initial=initial, budget=_GROUP_BUDGET)[1])
    upper = Incumbent(part.dearest, found, "")
    for candidate in (found, initial):
        # Where ties leave the cost in doubt it is the worst one, which weights beside these attain.
        upper.improve(part.clear_cost(candidate)[0], candidate, "")
    search = ChoicesSearch(common.options, part, upper)
    while not search.finished and (search.work < budget or not search.between_nodes):
        checkpoint()
        search.search_on(max(1, min(SLICE, budget - search.work)))
    parts = [] if search.finished else search.open_parts()
    return Answer(parts, upper.cost, upper.weights, "", search.unsettled, search.counters(), search.work)


_SAVED = ("lists", "weights", "turn", "closed", "unsettled")


@dataclass(eq=False)
class Group:
    """Lists, the parts they were joined from, and how far the search over them has come.

    weights: of the finished search, for the features of the lists; bound: what was known before the search at work.
    """

    lists: IntArray
    parts: tuple[Group, ...] = ()
    weights: FloatArray = field(default_factory=lambda: np.empty(0))
    turn: int = 0
    closed: bool = False
    unsettled: int | None = None
    bound: int = 0
    search: SharedChoices | None = None
    parent: Group | None = None

    def __post_init__(self) -> None:
        """Tell the parts."""
        self.lists = np.sort(self.lists)
        for part in self.parts:
            part.parent = self

    @property
    def own_bound(self) -> int:
        return self.bound if self.search is None else max(self.bound, self.search.lower_bound)

    @property
    def lower_bound(self) -> int:
        """The sum of the parts' bounds, or the group's own where that is higher."""
        own = self.own_bound
        return own if self.closed else max(own, sum(part.lower_bound for part in self.parts))

    def close(self) -> None:
        """Take over bound, weights and unsettled cost of the finished search, and drop it."""
        self.bound = self.lower_bound
        if self.search is not None:
            self.weights, self.unsettled = self.search.incumbent.weights, self.search.unsettled
        self.search = None
        self.closed = True

    def state(self, known: Mapping[Group, int]) -> Mapping[str, Any]:
        """Return the state of the group; known: the numbers of the groups that it was joined from."""
        search = None if self.search is None else self.search.saved()
        own = {"parts": [known[part] for part in self.parts], "bound": self.own_bound, "search": search}
        return {**own, **{name: getattr(self, name) for name in _SAVED}}

    @classmethod
    def of(cls, state: Mapping[str, Any], known: Sequence[Group]) -> Group:
        """Return the group of a state without its search; known: groups by their numbers."""
        parts = tuple(known[number] for number in state["parts"])
        return cls(parts=parts, bound=state["bound"], **{name: state[name] for name in _SAVED})

    def all(self) -> list[Group]:
        """Return this group and all that it was joined from, which come before it."""
        return [*(one for part in self.parts for one in part.all()), self]

    def leaves(self) -> list[Group]:
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


class MinorantSearch(Combined):
    """A resumable search of the additive problem, then of the ratio itself by selections.

    start: begins the search of costs that add up.
    """

    phase = "groups of lists"
    checkpointed = ("_height", "_costs", "_least")

    def __init__(
        self,
        selections: Choices,
        canonical: Canonical,
        incumbent: Incumbent,
        start: Callable[[Canonical, Incumbent], Search],
    ) -> None:
        super().__init__(incumbent)
        self._selections, self._canonical, self._start = selections, canonical, start
        lists, ratio = ratio_lists(canonical)
        self._kind = ratio.kind
        self._height, bound = oracle_height(lists, ratio, incumbent.weights)
        self._costs = bound.costs[: len(canonical.features)].copy()
        self._least = cost_of_height(canonical, ratio.kind, close_oracle_height(lists, ratio, self._height, bound))
        self._whole: SharedChoices | None = None
        self._inner: Search | None = None
        relaxed = canonical.with_costs(self._costs)
        if relaxed.n_lists:
            below = Incumbent(relaxed.dearest, incumbent.weights, "")
            below.improve(relaxed.clear_cost(incumbent.weights)[0], incumbent.weights, "")
            self._inner = start(relaxed, below)

    @property
    def least(self) -> int:
        """A cost that nothing undercuts, known before the search; for others over the same lists."""
        return self._least

    @property
    def finished(self) -> bool:
        return self.lower_bound >= self.incumbent.cost or (self._whole is not None and self._whole.finished)

    @property
    def unsettled(self) -> int | None:
        """What the search of the ratio itself left unsettled; costs below the ratio are only a bound."""
        return None if self._whole is None else self._whole.unsettled

    @property
    def lower_bound(self) -> int:
        height = self._height + (0 if self._inner is None else self._inner.lower_bound or 0)
        bound = max(self._least, cost_of_height(self._canonical, self._kind, height))
        if self._whole is not None:
            bound = max(bound, self._whole.lower_bound)
        return min(bound, self.incumbent.cost)

    @property
    def _searches(self) -> list[Search]:
        return [search for search in (self._inner, self._whole) if search is not None]

    def state(self) -> Mapping[str, Any]:
        inner = None if self._inner is None else self._inner.saved()
        return {**super().state(), "inner": inner, "whole": None if self._whole is None else self._whole.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with the minorant of that search: what is proved there is proved of its costs."""
        super().restore(state)
        self._inner = None
        if state["inner"] is not None:
            try:
                relaxed = self._canonical.with_costs(self._costs)
            except MethodError as error:  # of forged costs: those of a search had room
                raise ValueError(str(error)) from error
            self._inner = self._start(relaxed, Incumbent.of(state["inner"]))
            self._inner.restore(state["inner"]["search"])
        if state["whole"] is not None:
            self._begin_whole().restore(state["whole"])

    def _begin_whole(self) -> SharedChoices:
        self._whole = SharedChoices(self._selections, self._canonical, self.incumbent, self._least)
        return self._whole

    def advance(self) -> None:
        if self._inner is None or self._inner.finished:
            (self._whole or self._begin_whole()).advance()
            return
        before = self._inner.incumbent.weights
        self._inner.advance()
        found = self._inner.incumbent.weights
        if found is not before:
            cost = self._canonical.attained_cost(found)
            if cost is not None:
                self.incumbent.improve(cost, found, "L")


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

_MOST_SAMPLED, _SAMPLED_A_SLICE = 600, 15
"""Weights in the sample: at each a few lists are cheap."""

_DESCENT_BUDGET = 10_000_000
"""Work of descents on all lists between two looks at the bound, as in `descend`."""

_DESCENT_SHARE = 10
"""Work in groups for each piece of a descent, which takes about five times as long: the bound is what is hard to raise.
"""

_SAMPLING, _LINES = 0.06, 2_000_000
"""The effort of each sample of weights; the work of descents in a unit of effort."""


@dataclass(frozen=True)
class Groups(Method):
    """The bound by groups of lists. size: lists of the first groups; selections: how each group is searched.

    Groups are formed by what lists cost at weights at which a few of them are cheap together.
    """

    size: int = option(7, "lists of the first groups", least=1)
    selections: Choices = field(default_factory=Choices)

    name = "groups"
    takes_ratios = True
    takes_jobs = True
    takes_fractions = True

    def start(self, task: Task) -> GroupedSearch | MinorantSearch:
        if task.canonical.additive:
            return GroupedSearch(self, task.canonical, task.incumbent)
        return MinorantSearch(
            self.selections, task.canonical, task.incumbent, lambda lists, start: GroupedSearch(self, lists, start)
        )


class GroupedSearch(Combined):
    """A resumable search that raises the bound by groups of lists, and in turn looks for better weights."""

    phase = "groups of lists"
    early = True
    checkpointed = ("_counted", "_sampled", "_worked", "_descent_budget")

    def __init__(self, settings: Groups, canonical: Canonical, incumbent: Incumbent) -> None:
        super().__init__(incumbent)
        self._settings = settings
        self._canonical = canonical
        # The first weights depend on the caller's seed, with which they were found.
        self._rng = np.random.default_rng(np.frombuffer(incumbent.weights.tobytes(), dtype=np.uint32))
        work = max(1, canonical.features.size, CANDIDATES * canonical.n_lists)
        self._sample = np.empty((canonical.n_lists, int(np.clip(_SAMPLE_WORK // work, 50, _MOST_SAMPLED))))
        self._sampled = 0
        self._parts = independent_parts(canonical.features, canonical.offsets)
        self._root = Group(np.arange(canonical.n_lists))
        self._to_begin: deque[Group] = deque()
        self._beginning: deque[tuple[Group, Pending[Answer]]] = deque()
        self._open: deque[Group] = deque()
        self._workers: Workers = SERIAL
        self._later = current_workers()  # once it is long
        self._common = SERIAL.share(Common(settings.selections, canonical))
        self._worked = 0
        self._descent_budget = 0
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
    def effort(self) -> float:
        rounds = self._counted["lp_rounds"] + sum(search.rounds for search in self._searches)
        descents = (self._worked / _DESCENT_SHARE - self._descent_budget) / _LINES
        return float(rounds / ROUNDS + _SAMPLING * self._sampled + descents)

    @property
    def _searches(self) -> list[SharedChoices]:
        return [group.search for group in self._open if group.search is not None]

    def state(self) -> Mapping[str, Any]:
        groups = self._root.all()
        number = {group: k for k, group in enumerate(groups)}
        to_begin = [*(group for group, _ in self._beginning), *self._to_begin]
        return {
            **super().state(),
            "sample": self._sample[:, : self._sampled],
            "groups": [group.state(number) for group in groups],
            "to_begin": [number[group] for group in to_begin],
            "open": [number[group] for group in self._open],
            "random": self._rng.bit_generator.state,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        groups: list[Group] = []
        for kept in state["groups"]:
            groups.append(Group.of(kept, groups))
        self._root = groups[-1]
        self._to_begin.extend(groups[k] for k in state["to_begin"])
        for k in state["open"]:
            self._open.append(groups[k])
            kept = state["groups"][k]["search"]
            groups[k].search = search = self._search_of(groups[k], Incumbent.of(kept))
            search.restore(kept["search"])
        if state["sample"].size:
            self._sample[:, : self._sampled] = state["sample"]
        elif self._sampled or self._to_begin or self._open or self._root.closed:
            self._sample = np.empty((0, 0))
        self._rng.bit_generator.state = state["random"]

    def advance(self) -> None:
        if not (self._to_begin or self._beginning or self._open):
            self._prepare()
        elif self._descent_budget >= _DESCENT_BUDGET and self._root.parts:
            self._descent_budget -= _DESCENT_BUDGET
            self._improve()
        elif (self._to_begin or self._beginning) and len(self._open) < _MOST_OPEN:
            self._take_begun()
        else:
            self._search_group()

    @cached_property
    def _spread(self) -> FloatArray:
        return units([(self._canonical.features, self._canonical.offsets)])

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
        size = self._settings.size
        weights = self._rng.normal(size=(min(most, _SAMPLED_A_SLICE), self._canonical.n_features)) / self._spread
        large = [lists for lists in self._parts if len(lists) > size]
        return cheap_for_few(self._canonical, weights, large, size, self._rng)

    def _improve(self) -> None:
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
            places = self._settings.selections.units
            if self._workers is not self._later:
                self._workers = self._later
                self._common = self._workers.share(self._common.value)
        while self._to_begin and self._to_begin[0] is not self._root and len(self._beginning) < places:
            group = self._to_begin.popleft()
            best = self.incumbent.weights
            self._beginning.append((group, self._workers.submit(begin, self._common, group.lists, best, _BEGINNING)))

    def _take_begun(self) -> None:
        """Take the beginning of the group that went out first; small ones are finished with it."""
        if self._to_begin and self._to_begin[0] is self._root:
            self._open.append(self._to_begin.popleft())
            self._root.search = self._search_of(self._root, self.incumbent)
            self._counted["groups"] += 1
            return
        self._send()
        begun = self._beginning[0][1].wait()
        group, _ = self._beginning.popleft()
        self._counted["groups"] += 1
        self._worked_on(begun.work)
        group.weights, group.unsettled = begun.weights, begun.unsettled
        if begun.nodes:
            group.search = self._search_of(group, Incumbent(begun.cost, CanonicalWeights(begun.weights), begun.source))
            group.search.go_on_from(begun)
            self._open.append(group)
        else:
            group.bound = begun.cost if begun.unsettled is None else min(begun.cost, begun.unsettled)
            self._counted.update(begun.counts)
            self._close(group)
        self._send()

    def _search_of(self, group: Group, upper: Incumbent) -> SharedChoices:
        """Return a search in a group for what costs less; that of all lists improves the incumbent itself."""
        if group is self._root:
            return SharedChoices(self._settings.selections, self._canonical, self.incumbent)
        return SharedChoices(self._settings.selections, self._canonical.part(group.lists)[0], upper)

    def _worked_on(self, work: int) -> None:
        self._worked += work
        self._descent_budget += work // _DESCENT_SHARE

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
            together[self._canonical.part(part.lists)[1]] = part.weights
        self._offer(CanonicalWeights(together), "G")
