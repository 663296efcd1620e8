"""A resumable run of LP-MERT, and what it leaves open at any moment.

A chain of streams combines one list after the other. Every attainable choice of its first lists is combined with the
hypotheses of the next one in order; a prefix of choices is open as far as that has not been done, and can be searched
anywhere else.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from lpmert.core import INFINITE_COST
from lpmert.errors import FloatArray, IntArray
from lpmert.methods.lp_mert.saving import SavingTest, Settings
from lpmert.methods.lp_mert.streams import Combination, OneList, Stream, TwoHalves, WarmStart, balanced_tree
from lpmert.model.form import Canonical
from lpmert.search.method import Incumbent
from lpmert.search.node_queue import Divisible
from lpmert.system.deadline import checkpoint

SLICE_STEPS = 3000
SLICE_LPS = {"least-norm": 1000, "highs": 60}
_CELL_BYTES = 150
_COMBINATION_BYTES = 400
LARGEST_COUNT = 10**300

_SHARPNESS = 8.0
"""How steeply a candidate's cost beyond the cheapest counts when lists are put in order, in units of the slack."""


class OpenPrefix(NamedTuple):
    """All selections that begin with some choices, but those whose next list chooses before a position.

    positions [k]: what the chain's first lists choose. following: the next list's first position. bound: nothing in it
    costs less. least [S]: for every list the first position that may go with the choices. weights [d]: these make them;
    `None` where no double precision weights are known to.
    """

    positions: IntArray
    following: int
    bound: int
    least: IntArray
    weights: FloatArray | None

    @property
    def nbytes(self) -> int:
        weights = 0 if self.weights is None else self.weights.nbytes
        return self.positions.nbytes + self.least.nbytes + weights + 100


class LpMertSearch(Divisible[OpenPrefix]):
    """A resumable run of LP-MERT: it builds the tree of streams, then asks the root for its first combination."""

    unsettled: int | None = None

    def __init__(self, settings: Settings, canonical: Canonical, incumbent: Incumbent) -> None:
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
        """What an improvement is at least."""
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
        bound = self._bound_found
        return bound if self.unsettled is None else min(bound, self.unsettled)

    @property
    def nodes(self) -> int:
        return self.test.tested.total()

    @property
    def open_nodes(self) -> int:
        return sum(len(stream.frontier) for stream in self._streams if isinstance(stream, TwoHalves))

    @property
    def lps(self) -> int:
        return self.test.oracle.counters["lps"]

    @property
    def memory(self) -> int:
        found = sum(len(stream.found) for stream in self._streams)
        return self.test.memory + found * _COMBINATION_BYTES + self.open_nodes * _CELL_BYTES

    def counters(self) -> Mapping[str, int]:
        """Return what was counted; `tested_n` are combinations of n lists, `solved_n` those that took a program."""
        everything = prod(self._sizes)
        total = {"combinations": everything} if everything < LARGEST_COUNT else {}
        return {**self.test.all_counters(), **total}

    def open_parts(self) -> list[OpenPrefix]:
        """Return what is open, the coarsest first, once a chain has been built."""
        return [] if self.root is None else open_prefixes(self.root, self.lists, self.test, self._bound_found)

    def advance(self) -> None:
        """Build the tree, or ask the root on, until a slice's work is done."""
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
            elif self.unsettled is None:
                self.unsettled = combination.cost
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


class Chain:
    """Where open prefixes are searched. order [S]: in which its lists are combined; alone: what is known of each."""

    def __init__(self, test: SavingTest, order: IntArray, alone: Sequence[Alone], *, lazy: bool) -> None:
        self._test, self._order, self._lazy = test, order, lazy
        self._lists = [one.put(OneList(s, test), test) for s, one in enumerate(alone)]

    def root(self, part: OpenPrefix) -> Stream:
        """Return the stream of all complete combinations of a part."""
        depth = len(part.positions)
        branch = int(self._order[depth])
        known = Alone.of(self._lists[branch])
        stream: Stream = known.put(OneList(branch, self._test), self._test, part.following)
        if depth:
            lists = self._order[:depth]
            prefix = _combination(self._test, lists, part.positions, part.least, part.weights)
            stream = self._join(_Prefix(lists, prefix), stream)
        for s in self._order[depth + 1 :].tolist():
            stream = self._join(stream, self._lists[s])
        return stream

    def open_in(self, root: Stream, bound: int) -> list[OpenPrefix]:
        """Return what is open in a stream that `root` returned; nothing in it costs less than the bound."""
        return open_prefixes(root, self._lists, self._test, bound)

    def _join(self, left: Stream, right: Stream) -> TwoHalves:
        return TwoHalves(left, right, self._test, lazy=self._lazy)


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


def open_prefixes(root: Stream, lists: Sequence[OneList], test: SavingTest, bound: int) -> list[OpenPrefix]:
    """Return what is open in a chain of these lists, the coarsest first; nothing in it costs less than the bound."""
    sizes = test.oracle.sizes
    first = np.array([int(one.found[0].positions[0]) if one.found else one.position for one in lists])
    found: list[OpenPrefix] = []

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
            found.append(OpenPrefix(positions, following, max(bound, own), least, weights))

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
