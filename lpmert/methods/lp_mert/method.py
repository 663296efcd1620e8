"""LP-MERT: divide the lists into halves, and combine the attainable combinations of both halves in order of cost.

Source: Galley and Quirk, Optimal Search for Minimum Error Rate Training, EMNLP 2011. Every witness
met is decoded on all lists, and may improve the incumbent; `published.py` is the algorithm of the paper to the letter.

With these, a chain of streams combines one list after the other. Every attainable choice of its first lists is combined
with the hypotheses of the next one in order; a prefix of choices is open as far as that has not been done, and can be
searched anywhere else: a long run goes on in units, batches of open prefixes.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.configurable import option
from lpmert.core import INFINITE_COST
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.methods.lp_mert.attainability import (
    LARGEST_COUNT,
    SLICE_LPS,
    AttainabilityOracle,
    PublishedSearch,
    Witnesses,
)
from lpmert.methods.lp_mert.streams import Combination, Halves, OneList, Stream, TwoHalves, WarmStart, balanced_tree
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.search.checkpoint import plain
from lpmert.search.method import Incumbent, Method, Search, Task
from lpmert.search.node_queue import Answer, Call, Divisible, OpenNode, ParallelSearch
from lpmert.system.deadline import checkpoint

SLICE_STEPS = 3000

_SHARPNESS = 8.0
"""How steeply a candidate's cost beyond the cheapest counts when lists are put in order, in units of the slack."""


@dataclass(frozen=True)
class LpMert(Method):
    """Galley and Quirk's divide and conquer, with additions that can be switched off; none changes the optimum.

    published=True is Algorithms 1 and 2 to the letter, and nothing else: no other option applies. One program of HiGHS
    a test maximises w.(h - centroid), within a cosine w.(its centre); the lists are halved in their order; no first
    weights; the search ends with the first combination of all lists that is accepted. The paper's test also accepts
    what only ties attain. A search that ends so, or for which the test refused an attainable combination, proves no
    optimum, and its result is a heuristic's.

    Otherwise attainability is strict, as for all methods here. The linear programs "least-norm" are decided in a
    kernel, and in exact arithmetic where rounding hides the answer; "highs" decides on HiGHS. look_ahead finds each
    other list's cheapest hypothesis that goes with a combination, drops the combination if no selection below the
    incumbent is left, and now and then completes one greedily. A chain begins with the lists with the fewest
    candidates, so that what is looked at ahead is known early. The cosine_test "published" asks the weights of the cell
    with the largest product with the centre, which can miss cells that reach into the cap, so that the result has no
    bound; "exact" projects. A cosine below 0 is searched in pieces without one, whatever
    the test.
    """

    published: bool = option(False, "Algorithms 1 and 2 to the letter; no other option applies")
    lp: str = option("least-norm", "what decides linear programs", choices=tuple(SLICE_LPS))
    row_generation: bool = option(True, "begin with few rows and where the first half ended")
    use_witnesses: bool = option(True, "weights known to make the choices save the linear program")
    look_ahead: bool = option(True, "bound what the other lists still cost")
    lazy: bool = option(True, "a neighbour waits in the frontier at a bound; off: it is found at once, as published")
    chain: bool = option(True, "combine one list after the other; off: a balanced tree, as published")
    units: int = option(8, "units of work out at once in a long search; at most this many workers are busy", least=1)
    cosine_test: str = option("exact", "how a cosine is asked of a combination", choices=("exact", "published"))

    name = "lp-mert"
    takes_jobs = True
    takes_fractions = True
    takes_caps = True

    @property
    def parallel(self) -> bool:
        return self.chain and not self.published

    def start(self, task: Task) -> Search:
        """Return the search as one that can pause; raises `MethodError` for published=True and a ratio."""
        if self.published:
            if not task.problem.canonical.additive:
                metric = task.problem.metric.name
                raise MethodError(f"published=True takes a sum of losses, and metric '{metric}' is none; leave it out")
            return PublishedSearch(task.canonical)
        alone = LpMertSearch(self, task.canonical, task.incumbent)
        return ParallelLpMert(self, task.canonical, alone) if self.parallel else alone


_WITNESS_BYTES = 1 << 26
_MOST_WITNESSES = 20_000
_DIVE_EVERY = 8


class SavingTest:
    """Tests combinations; every witness met is decoded on all lists and improves the incumbent.

    `tested` and `solved` count combinations, and those that took a linear program, by length. costs [S, longest list +
    1]: of all positions, infinite beyond a list's end.
    """

    def __init__(self, settings: LpMert, canonical: Canonical, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self.sorted_lists = canonical.by_cost
        self.oracle = AttainabilityOracle(
            self.sorted_lists,
            canonical.cap,
            lp=settings.lp,
            row_generation=settings.row_generation,
            cosine_test=settings.cosine_test,
        )
        self.tested: Counter[int] = Counter()
        self.solved: Counter[int] = Counter()
        self.counts: Counter[str] = Counter(saved_by_witnesses=0, saved_by_look_ahead=0, lps_ahead=0)
        self._settings = settings
        self._looking = settings.look_ahead
        self._granularity = canonical.granularity
        sizes = self.oracle.sizes
        n_lists, longest = len(sizes), int(sizes.max(initial=1))
        most = int(np.clip(_WITNESS_BYTES // (8 * (n_lists + canonical.n_features)), 100, _MOST_WITNESSES))
        self.witnesses = Witnesses(sizes, most if settings.use_witnesses else 0)
        self._all_lists = np.arange(n_lists)
        self._nothing_known = np.zeros(n_lists, dtype=np.int64)
        self._selection = np.zeros(n_lists, dtype=np.int64)
        self._clear = False
        self._since_dive = 0
        self.costs = np.full((n_lists, longest + 1), INFINITE_COST)
        for s, (begin, end) in enumerate(pairwise(canonical.offsets.tolist())):
            self.costs[s, : end - begin] = self.sorted_lists.costs[begin:end]

    def counters(self) -> dict[str, int]:
        """Return what was counted; `tested_n` are combinations of n lists, `solved_n` those that took a program."""
        by_length = {f"tested_{n}": count for n, count in sorted(self.tested.items())}
        by_length |= {f"solved_{n}": count for n, count in sorted(self.solved.items())}
        own = {**self.oracle.counters, **self.counts, "witnesses": len(self.witnesses)}
        return {"nodes": self.tested.total(), **own, **by_length}

    def test(self, lists: IntArray, cost: int, positions: IntArray, halves: Halves | None = None) -> Combination | None:
        """Return the combination, or `None` if it is not attainable or cannot lead below the incumbent."""
        self.tested[len(lists)] += 1
        least = self._least(lists, positions, halves)
        if least is None:
            self.counts["saved_by_look_ahead"] += 1
            return None
        agreeing = self.witnesses.agreeing(lists, positions.tolist())
        if len(agreeing):
            self.counts["saved_by_witnesses"] += 1
            known = WarmStart(len(lists), self.witnesses.weights(int(agreeing[-1])))
            return self._looked_ahead(lists, Combination(cost, positions, known, least), agreeing)
        self.solved[len(lists)] += 1
        start = self._decide(lists, positions, None if halves is None else halves[0].start)
        if start is None:
            return None
        self.oracle.keep(start)
        return self._looked_ahead(lists, Combination(cost, positions, start, least), None)

    def _least(self, lists: IntArray, positions: IntArray, halves: Halves | None) -> IntArray | None:
        """Return what both halves leave within reach in every list; `None` if it is not enough."""
        if not self._looking:
            return self._nothing_known
        if halves is None:
            least = self._nothing_known.copy()
            least[lists] = positions
        else:
            least = np.maximum(halves[0].least, halves[1].least)
            if (least[lists] > positions).any():
                return None
        return least if self._may_improve(least) else None

    def _may_improve(self, least: IntArray) -> bool:
        return bool(self.costs[self._all_lists, least].sum() <= self.incumbent.cost - self._granularity)

    def _looked_ahead(self, lists: IntArray, found: Combination, agreeing: IntArray | None) -> Combination | None:
        """Move every other list's first position up to one attainable with the combination; `None` if that costs too
        much.

        agreeing: witnesses of the combination; `None` for the last one, just met.
        """
        if not self._looking or len(lists) == len(self._all_lists):
            return found
        least = found.least
        attained = self._attained_now() if agreeing is None else self.witnesses.attained(agreeing)
        for s in np.setdiff1d(self._all_lists, lists).tolist():
            longer = np.append(lists, s)
            while not attained[s, least[s]]:
                self.counts["lps_ahead"] += 1
                if self._decide(longer, np.append(found.positions, least[s]), found.start) is not None:
                    attained |= self._attained_now()
                    break
                least[s] += 1
                if not self._may_improve(least):
                    return None
        self._since_dive = (self._since_dive + 1) % _DIVE_EVERY
        if self._since_dive == 0:
            self._dive(lists, found)
        return found

    def _dive(self, lists: IntArray, found: Combination) -> None:
        """Complete a combination greedily, the dearest list first, for the sake of the incumbent."""
        least, positions, near = found.least.copy(), found.positions, found.start
        rest = np.setdiff1d(self._all_lists, lists).tolist()
        rest.sort(key=lambda s: int(self.costs[s, least[s]]))
        while rest:
            s = rest.pop()
            lists = np.append(lists, s)
            self.counts["lps_ahead"] += 1
            while (start := self._decide(lists, np.append(positions, least[s]), near)) is None:
                least[s] += 1
                if not self._may_improve(least):
                    return
                self.counts["lps_ahead"] += 1
            self.oracle.keep(start)
            positions, near = np.append(positions, least[s]), start

    def _decide(self, lists: IntArray, positions: IntArray, near: WarmStart | None) -> WarmStart | None:
        start = self.oracle.decide(lists, positions, near)
        weights = None if start is None else start.weights
        self._clear = weights is not None and self._decoded(weights)
        return start

    def _decoded(self, weights: FloatArray) -> bool:
        """Decode a witness on all lists; remember and use it, and say so, where no list is in doubt."""
        cost, clear = self.oracle.native.decode_clearly(weights, self._selection)
        if clear:
            self.incumbent.improve(cost, weights, "D")
            self.witnesses.add(weights, self._selection)
        return clear

    def _attained_now(self) -> NDArray[np.bool_]:
        """Return [S, longest list] the choices of the last witness; none where some list is in doubt."""
        made = np.zeros((len(self._all_lists), self.costs.shape[1] - 1), dtype=np.bool_)
        made[self._all_lists, self._selection] = self._clear
        return made


class Prefix(NamedTuple):
    """All selections that begin with some choices, but those whose next list chooses before a position.

    positions [k]: what the chain's first lists choose. following: the next list's first position. least [S]: for every
    list the first position that may go with the choices. weights [d]: these make them; `None` where no double precision
    weights are known to.
    """

    positions: IntArray
    following: int
    least: IntArray
    weights: FloatArray | None

    @property
    def nbytes(self) -> int:
        weights = 0 if self.weights is None else self.weights.nbytes
        return self.positions.nbytes + self.least.nbytes + weights


class LpMertSearch(Divisible):
    """A resumable run of LP-MERT: it builds the tree of streams, then asks the root for its first combination."""

    def __init__(self, settings: LpMert, canonical: Canonical, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self.test = SavingTest(settings, canonical, incumbent)
        self.root: Stream | None = None
        self._settings = settings
        self._granularity = canonical.granularity
        self.proves = settings.cosine_test == "exact" or canonical.cap is None
        self._sizes = np.diff(canonical.offsets).tolist()
        self.lists = [OneList(s, self.test) for s in range(canonical.n_lists)]
        self._streams: list[Stream] = [*self.lists]
        self._building = self._build()
        self._seen = 0
        self.advances = 0

    @property
    def granularity(self) -> int:
        return self._granularity

    @property
    def finished(self) -> bool:
        return self.root is not None and self._bound_found >= self.incumbent.cost

    @property
    def _bound_found(self) -> int:
        """What the root's next combination costs at least, rounded up to the incumbent where nothing lies between."""
        bound = 0 if self.root is None else self.root.bound
        return self.incumbent.cost if bound > self.incumbent.cost - self._granularity else bound

    @property
    def lower_bound(self) -> int | None:
        if not self.proves:
            return None
        return min(self._bound_found, self._upper)

    @property
    def nodes(self) -> int:
        return self.test.tested.total()

    @property
    def open_nodes(self) -> int:
        return sum(len(stream.frontier) for stream in self._streams if isinstance(stream, TwoHalves))

    @property
    def lps(self) -> int:
        return self.test.oracle.counters["lps"]

    def counters(self) -> Mapping[str, int]:
        """Return what was counted; `tested_n` are combinations of n lists, `solved_n` those that took a program."""
        everything = prod(self._sizes)
        total = {"combinations": everything} if everything < LARGEST_COUNT else {}
        return {**self.test.counters(), **total}

    def open_parts(self) -> list[OpenNode]:
        return [] if self.root is None else open_prefixes(self.root, self.lists, self.test, self._bound_found)

    def advance(self) -> None:
        self.advances += 1
        stop = self.lps + SLICE_LPS[self._settings.lp]
        for _ in range(SLICE_STEPS):
            if self.finished or self.lps >= stop:
                return
            checkpoint()
            if self.root is None:
                next(self._building, None)
            else:
                self.root.get_next_best()
                self._take(self.root)

    def _take(self, root: Stream) -> None:
        """Use what the root has found: the first strict combination is the optimum."""
        for combination in root.found[self._seen :]:
            if combination.start.weights is not None:
                self.incumbent.improve(combination.cost, combination.start.weights, "D")
            else:
                self._leave_unsettled(combination.cost)
        self._seen = len(root.found)

    def _build(self) -> Iterator[None]:
        """Build the tree over the lists, balanced or a chain; a piece of work at a time."""
        if self._settings.chain:
            sorted_lists = self.test.sorted_lists
            costs = np.split(sorted_lists.costs, sorted_lists.offsets[1:-1])
            root, *others = yield from fewest_candidates_first(self.lists, costs, self.incumbent.cost)
            for stream in others:
                root = self._join(root, stream)
        else:
            root = balanced_tree(self.lists, self._join)
        self.root = root
        self._take(root)
        yield

    def _join(self, left: Stream, right: Stream) -> TwoHalves:
        joined = TwoHalves(left, right, self.test, lazy=self._settings.lazy)
        self._streams.append(joined)
        return joined


def fewest_candidates_first(
    streams: Sequence[Stream], costs: Sequence[IntArray], most: int
) -> Generator[None, None, list[Stream]]:
    """Return the streams of single lists, those first that have the fewest candidates in a selection of cost `most`.

    costs: of each list's hypotheses. Every stream is first asked for its cheapest; yields after every piece of work.
    """
    for stream in streams:
        while not stream.found and stream.bound < INFINITE_COST:
            stream.get_next_best()
            yield
    slack = max(1, most - sum(_least(stream) for stream in streams))
    weights = []
    for stream, own in zip(streams, costs, strict=True):
        excess = own[own >= _least(stream)] - _least(stream)
        weights.append(float(np.exp(-_SHARPNESS * excess[excess < slack] / slack).sum()))
    return [streams[k] for k in np.argsort(weights, kind="stable").tolist()]


def _least(stream: Stream) -> int:
    return stream.found[0].cost if stream.found else stream.bound


class Alone(NamedTuple):
    """What is known of a list alone: of its first hypotheses, so many, those that are attainable [F], and for each of
    them the first position of every list that may go with it [F, S].
    """

    tested: int
    positions: IntArray
    least: IntArray

    @classmethod
    def of(cls, stream: OneList) -> Alone:
        """Return what a stream has found out."""
        found = stream.found
        positions = np.array([combination.positions[0] for combination in found], dtype=np.int64)
        least = np.array([combination.least for combination in found], dtype=np.int64)
        return cls(stream.position, positions, least.reshape(len(found), -1 if len(found) else 0))

    def put(self, stream: OneList, test: SavingTest, following: int = 0) -> OneList:
        """Let a stream that has found nothing yet know it, from a position on; return the stream."""
        stream.position = max(self.tested, following)
        for position, least in zip(self.positions.tolist(), self.least, strict=True):
            if position >= following:
                stream.found.append(_combination(test, stream.lists, np.array([position]), least, None))
        return stream


def root_of(part: Prefix, order: IntArray, lists: Sequence[OneList], test: SavingTest, *, lazy: bool) -> Stream:
    """Return the chain that searches an open prefix; order [S]: in which lists are combined."""
    depth = len(part.positions)
    branch = int(order[depth])
    stream: Stream = Alone.of(lists[branch]).put(OneList(branch, test), test, part.following)
    if depth:
        prefix = _combination(test, order[:depth], part.positions, part.least, part.weights)
        stream = TwoHalves(_Prefix(order[:depth], prefix), stream, test, lazy=lazy)
    for s in order[depth + 1 :].tolist():
        stream = TwoHalves(stream, lists[s], test, lazy=lazy)
    return stream


class _Prefix:
    """The stream of one combination that is known."""

    bound = INFINITE_COST

    def __init__(self, part: IntArray, combination: Combination) -> None:
        self.lists, self.found = part, [combination]

    def get_next_best(self) -> None:
        """There is no other one."""


def _combination(
    test: SavingTest, lists: IntArray, positions: IntArray, least: IntArray, weights: FloatArray | None
) -> Combination:
    return Combination(int(test.costs[lists, positions].sum()), positions, WarmStart(len(lists), weights), least)


def open_prefixes(root: Stream, lists: Sequence[OneList], test: SavingTest, bound: int) -> list[OpenNode]:
    """Return what is open in a chain of these lists, the coarsest first; nothing in it costs less than the bound."""
    sizes = test.oracle.sizes
    first = np.array([int(one.found[0].positions[0]) if one.found else one.position for one in lists])
    found: list[OpenNode] = []

    def add(begun: IntArray, branch: int, following: int, known: Combination | None) -> None:
        """Add what begins with a combination, if anything is left there; begun: its lists."""
        lowest = first.copy() if known is None else np.maximum(first, known.least)
        lowest[branch] = max(following, 0 if known is None else int(known.least[branch]))
        positions = np.zeros(0, dtype=np.int64) if known is None else known.positions
        lowest[begun] = positions
        if (lowest < sizes).all():
            least = np.zeros(len(sizes), dtype=np.int64) if known is None else known.least
            weights = None if known is None else known.start.weights
            own = int(test.costs[np.arange(len(sizes)), lowest].sum())
            found.append(OpenNode(max(bound, own), Prefix(positions, following, least, weights)))

    stream = root
    while isinstance(stream, TwoHalves):
        left, right = stream.left, stream.right
        if not isinstance(right, OneList):
            raise TypeError("a chain combines one list after the other")
        rows = {m: n for _, m, n in stream.frontier}
        not_begun = min((m for m, n in rows.items() if n == 0), default=len(left.found))
        for m in range(len(left.found)):
            n = rows.get(m, 0 if m >= not_begun else None)
            if n is not None:
                following = int(right.found[n].positions[0]) if n < len(right.found) else right.position
                add(left.lists, int(right.lists[0]), following, left.found[m])
        stream = left
    if isinstance(stream, OneList):
        add(np.zeros(0, dtype=np.int64), int(stream.lists[0]), stream.position, None)
    return found[::-1]


_ALONE = 20
"""Slices after which a run goes on in units."""

_UNIT = 8
"""Slices of a unit, some tenths of a second: what a unit learns is lost with it, so that short ones learn it often."""

_BATCH = 64
"""Most prefixes that a unit begins with."""


class Common(NamedTuple):
    """What all units share. order [S]: in which lists are combined; alone: what is known of each."""

    settings: LpMert
    canonical: Canonical
    order: IntArray
    alone: list[Alone]


def combine_batch(
    common: Common, parts: list[OpenNode], cost: int, weights: FloatArray, steps: int, lps: int
) -> Answer:
    """Combine open prefixes in order of cost for what costs less; weights [D] have this cost. steps, lps: at most."""
    incumbent = Incumbent(cost, CanonicalWeights(weights), "")
    test = SavingTest(common.settings, common.canonical, incumbent)
    lists = [one.put(OneList(s, test), test) for s, one in enumerate(common.alone)]
    granularity, counters = common.canonical.granularity, test.oracle.counters
    bounds = [(part.bound, k) for k, part in enumerate(parts)]
    heapq.heapify(bounds)
    roots: dict[int, Stream] = {}
    unsettled: int | None = None
    while bounds and bounds[0][0] <= incumbent.cost - granularity and steps > 0 and counters["lps"] < lps:
        checkpoint()
        steps -= 1
        bound, k = bounds[0]
        if k not in roots:
            roots[k] = root_of(parts[k].data, common.order, lists, test, lazy=common.settings.lazy)
        root = roots[k]
        seen = len(root.found)
        root.get_next_best()
        for combination in root.found[seen:]:
            if combination.start.weights is not None:
                incumbent.improve(combination.cost, combination.start.weights, "D")
            elif unsettled is None or combination.cost < unsettled:
                unsettled = combination.cost
        if root.bound >= INFINITE_COST:
            heapq.heappop(bounds)
        else:
            heapq.heapreplace(bounds, (max(bound, root.bound), k))
    left: list[OpenNode] = []
    for bound, k in sorted(bounds):
        if bound <= incumbent.cost - granularity:
            left += open_prefixes(roots[k], lists, test, bound) if k in roots else [parts[k]]
    found = incumbent
    return Answer(left, found.cost, found.weights, found.source, unsettled, test.counters())


class ParallelLpMert(ParallelSearch):
    """A resumable run of LP-MERT by a chain."""

    def __init__(self, settings: LpMert, canonical: Canonical, alone: LpMertSearch) -> None:
        super().__init__(alone, settings.units, _BATCH, _UNIT)
        self._alone, self._settings, self._canonical = alone, settings, canonical
        self._known: Common | None = None

    @property
    def lower_bound(self) -> int | None:
        if not self._queue.shared:
            return self._alone.lower_bound
        return self._least if self._alone.proves else None

    @property
    def _long(self) -> bool:
        return self._alone.advances >= _ALONE and self._alone.root is not None

    def _common(self) -> Common:
        self._known = self._as_known()
        return self._known

    def _as_known(self) -> Common:
        if self._known is not None:
            return self._known
        root = self._alone.root
        order = np.arange(len(self._alone.lists)) if root is None else root.lists
        return Common(self._settings, self._canonical, order, [Alone.of(one) for one in self._alone.lists])

    def state(self) -> Mapping[str, Any]:
        """Return what is open; before the lists are in order, what is known of each."""
        common = self._as_known()
        planted = self._known is not None or self._alone.root is not None
        order = common.order if planted else None
        return {**super().state(), "order": order, "alone": [plain(one) for one in common.alone]}

    def restore(self, state: Mapping[str, Any]) -> None:
        alone = [Alone(**one) for one in state["alone"]]
        if state["order"] is None:
            for one, stream in zip(alone, self._alone.lists, strict=True):
                one.put(stream, self._alone.test)
            self._counted = Counter(state["counts"]) - Counter(self._alone.counters())
            return
        self._known = Common(self._settings, self._canonical, state["order"], alone)
        self._go_on(
            (OpenNode(part["bound"], Prefix(**part["data"])) for part in state["parts"]),
            state["counts"],
            state["unsettled"],
        )

    def _call(self, nodes: list[OpenNode], work: int) -> Call[Answer]:
        upper = self.incumbent
        steps, lps = work * SLICE_STEPS, work * SLICE_LPS[self._settings.lp]
        return combine_batch, (nodes, upper.cost, upper.weights, steps, lps)
