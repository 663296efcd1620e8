"""LP-MERT: divide the lists into halves, and combine the attainable combinations of both halves in order of cost.

Source: Galley and Quirk, Optimal Search for Minimum Error Rate Training, EMNLP 2011.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from lpmert.configurable import option
from lpmert.errors import MethodError
from lpmert.methods.divide.combination import Screen
from lpmert.methods.divide.pairing import fewest_candidates_first, neighbours, pair_by_conflict
from lpmert.methods.divide.streams import OneList, Stream, TwoHalves
from lpmert.model.form import Canonical
from lpmert.search.method import Incumbent, Method, Search, Task
from lpmert.system.deadline import checkpoint

_SLICE_STEPS = 3000
_SLICE_LPS = {"least-norm": 1000, "highs": 60}
_CELL_BYTES = 150
_COMBINATION_BYTES = 400
_LARGEST_COUNT = 10**300


@dataclass(frozen=True)
class LpMert(Method):
    """Galley and Quirk's divide and conquer, with additions that can be switched off; none changes the optimum.

    The objective "margin" asks for strict attainability, as all methods here. "published" maximises w.(h - centroid)
    and also accepts what only ties attain: where that costs less than every strict selection, it stays the lower bound,
    and the status says so. The linear programs "least-norm" are decided in a kernel, and in exact arithmetic where
    rounding hides the answer; "highs" decides on HiGHS. look_ahead finds each other list's cheapest hypothesis that
    goes with a combination, drops the combination if no selection below the incumbent is left, and now and then
    completes one greedily. A chain begins with the lists with the fewest candidates, so that what is looked at ahead is
    known early. The cosine_test "published" asks the weights of the cell with the largest product with the centre,
    which can miss cells that reach into the cap, so that the result has no bound; "exact" projects.
    """

    objective: str = option("margin", "what a linear program maximises", choices=("margin", "published"))
    lp: str = option("least-norm", "what decides linear programs", choices=tuple(_SLICE_LPS))
    row_generation: bool = option(True, "begin with few rows and where the first half ended")
    use_witnesses: bool = option(True, "weights known to make the choices save the linear program")
    use_cores: bool = option(True, "choices that hold a learnt core are dropped without one")
    look_ahead: bool = option(True, "bound what the other lists still cost; only with the objective margin")
    lazy: bool = option(True, "a neighbour waits in the frontier at a bound; off: it is found at once, as published")
    chain: bool = option(True, "combine one list after the other; off: a balanced tree, as published")
    pair: bool = option(False, "in a balanced tree combine first the lists that conflict most")
    sampled: int = option(32, "pieces of work on every pair of lists that show how much it conflicts", least=0)
    cosine_test: str = option("exact", "how a cosine is asked of a combination", choices=("exact", "published"))

    name = "lp-mert"
    takes_fractions = True
    takes_caps = True

    def start(self, task: Task) -> Search:
        """Return the search as one that can pause; raises `MethodError` for ties within a cosine."""
        if self.objective == "published" and task.canonical.cap is not None:
            raise MethodError("objective='published' accepts ties, which a cosine cannot be asked of; use 'margin'")
        return DivideSearch(self, task.canonical, task.incumbent)


class DivideSearch(Search):
    """A resumable run of LP-MERT: it plants the tree of streams, then asks the root for its first combination."""

    unsettled: int | None = None

    def __init__(self, settings: LpMert, canonical: Canonical, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self.screen = Screen(settings, canonical, incumbent)
        self.root: Stream | None = None
        self._settings = settings
        self._granularity = canonical.granularity
        self._proves = settings.cosine_test == "exact" or canonical.cap is None
        self._sizes = np.diff(canonical.offsets).tolist()
        self._streams: list[Stream] = [OneList(s, self.screen) for s in range(canonical.n_lists)]
        self._planting = self._plant()
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
        if not self._proves:
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
        screen = self.screen
        by_length = {f"tested_{n}": count for n, count in sorted(screen.tested.items())}
        by_length |= {f"solved_{n}": count for n, count in sorted(screen.solved.items())}
        everything = prod(self._sizes)
        total = {"combinations": everything} if everything < _LARGEST_COUNT else {}
        return {
            "nodes": self.nodes,
            **screen.counters,
            **by_length,
            **total,
        }

    def advance(self) -> None:
        """Plant the tree, or ask the root on, until a slice's work is done."""
        stop = self.lps + _SLICE_LPS[self._settings.lp]
        for _ in range(_SLICE_STEPS):
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
