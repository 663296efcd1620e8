"""LP-MERT: divide the lists into halves, and combine the attainable combinations of both halves in order of cost.

Source: Galley and Quirk, Optimal Search for Minimum Error Rate Training, EMNLP 2011. Every witness met is decoded on
all lists, and may improve the incumbent. By default a chain of streams combines one list after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lpmert.configurable import option
from lpmert.core import INFINITE_COST
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.methods.lp_mert.attainability import SLICE_LPS, AttainabilityOracle, PublishedSearch, Witnesses
from lpmert.methods.lp_mert.streams import (
    Combination,
    Halves,
    Stream,
    StreamSearch,
    WarmStart,
    balanced_tree,
    by_length,
)
from lpmert.model.canonical import Canonical
from lpmert.search.method import Incumbent, Method, Search, Task
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
    cosine_test: str = option("exact", "how a cosine is asked of a combination", choices=("exact", "published"))

    name = "lp-mert"
    takes_fractions = True
    takes_caps = True

    def start(self, task: Task) -> Search:
        """Return the search as one that can pause; raises `MethodError` for published=True and a ratio."""
        if self.published:
            if not task.problem.canonical.additive:
                metric = task.problem.metric.name
                raise MethodError(f"published=True takes a sum of losses, and metric '{metric}' is none; leave it out")
            return PublishedSearch(task.canonical)
        return LpMertSearch(self, task.canonical, task.incumbent)


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
        own = {**self.oracle.counters, **self.counts, "witnesses": len(self.witnesses)}
        return {**own, **by_length("tested", self.tested), **by_length("solved", self.solved)}

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


class LpMertSearch(StreamSearch):
    """A resumable run of LP-MERT: it builds the tree of streams, then asks the root for its first combination."""

    def __init__(self, settings: LpMert, canonical: Canonical, incumbent: Incumbent) -> None:
        self.test = SavingTest(settings, canonical, incumbent)
        super().__init__(incumbent, self.test, lazy=settings.lazy)
        self.root: Stream | None = None
        self._settings = settings
        self._granularity = canonical.granularity
        self.proves = settings.cosine_test == "exact" or canonical.cap is None
        self._building = self._build()
        self._seen = 0

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
    def lps(self) -> int:
        return self.test.oracle.counters["lps"]

    def advance(self) -> None:
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
