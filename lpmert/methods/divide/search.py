"""A resumable run of LP-MERT, in one piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Protocol

import numpy as np

from lpmert.methods.divide.combination import SavingSettings, Screen
from lpmert.methods.divide.open_prefixes import OpenPrefix, open_prefixes
from lpmert.methods.divide.pairing import fewest_candidates_first, neighbours, pair_by_conflict
from lpmert.methods.divide.streams import OneList, Stream, TwoHalves
from lpmert.model.form import Canonical
from lpmert.search.method import Incumbent
from lpmert.search.node_queue import Divisible
from lpmert.system.deadline import checkpoint

SLICE_STEPS = 3000
SLICE_LPS = {"least-norm": 1000, "highs": 60}
_CELL_BYTES = 150
_COMBINATION_BYTES = 400
_LARGEST_COUNT = 10**300


class DivideSettings(SavingSettings, Protocol):
    """How streams are combined; see `LpMert`."""

    @property
    def lazy(self) -> bool: ...

    @property
    def chain(self) -> bool: ...

    @property
    def pair(self) -> bool: ...

    @property
    def sampled(self) -> int: ...

    @property
    def lanes(self) -> int: ...


class DivideSearch(Divisible[OpenPrefix]):
    """A resumable run of LP-MERT: it plants the tree of streams, then asks the root for its first combination."""

    unsettled: int | None = None

    def __init__(self, settings: DivideSettings, canonical: Canonical, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self.screen = Screen(settings, canonical, incumbent)
        self.root: Stream | None = None
        self._settings = settings
        self._granularity = canonical.granularity
        self.proves = settings.cosine_test == "exact" or canonical.cap is None
        self._sizes = np.diff(canonical.offsets).tolist()
        self.lists = [OneList(s, self.screen) for s in range(canonical.n_lists)]
        self._streams: list[Stream] = [*self.lists]
        self._planting = self._plant()
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
        return self.screen.tested.total()

    @property
    def open_nodes(self) -> int:
        return sum(len(stream.frontier) for stream in self._streams if isinstance(stream, TwoHalves))

    @property
    def lps(self) -> int:
        return self.screen.extremity.counters["lps"]

    @property
    def memory(self) -> int:
        found = sum(len(stream.found) for stream in self._streams)
        return self.screen.memory + found * _COMBINATION_BYTES + self.open_nodes * _CELL_BYTES

    def counters(self) -> Mapping[str, int]:
        """Return what was counted; `tested_n` are combinations of n lists, `solved_n` those that took a program."""
        everything = prod(self._sizes)
        total = {"combinations": everything} if everything < _LARGEST_COUNT else {}
        return {**self.screen.all_counters(), **total}

    def open_parts(self) -> list[OpenPrefix]:
        """Return what is open, the coarsest first, once a chain has been planted."""
        return [] if self.root is None else open_prefixes(self.root, self.lists, self.screen, self._bound_found)

    def advance(self) -> None:
        """Plant the tree, or ask the root on, until a slice's work is done."""
        self.advances += 1
        stop = self.lps + SLICE_LPS[self._settings.lp]
        for _ in range(SLICE_STEPS):
            if self.finished or self.lps >= stop:
                return
            checkpoint()
            if self.root is None:
                next(self._planting, None)
            else:
                self.root.get_next_best()
                self._take(self.root)

    def _take(self, root: Stream) -> None:
        """Use what the root has found: the first strict combination is the optimum."""
        for combination in root.found[self._seen :]:
            if combination.strict and combination.start.weights is not None:
                self.incumbent.improve(combination.cost, combination.start.weights, "D")
            elif self.unsettled is None:
                self.unsettled = combination.cost
        self._seen = len(root.found)

    def _plant(self) -> Iterator[None]:
        """Build a binary tree over the lists from below, balanced or a chain; a piece of work at a time."""
        level = self._streams[:]
        if self._settings.chain:
            lists = self.screen.lists
            costs = np.split(lists.costs, lists.offsets[1:-1])
            first, *others = yield from fewest_candidates_first(level, costs, self.incumbent.cost)
            for stream in others:
                first = self._join(first, stream)
                self._streams.append(first)
            level = [first]
        while len(level) > 1:
            if self._settings.pair:
                level = yield from pair_by_conflict(level, self._join, self._settings.sampled)
            else:
                level = neighbours(level, self._join)
            known = set(map(id, self._streams))
            self._streams += [stream for stream in level if id(stream) not in known]
        self.root = level[0]
        self._take(self.root)
        yield

    def _join(self, left: Stream, right: Stream) -> TwoHalves:
        return TwoHalves(left, right, self.screen, lazy=self._settings.lazy)
