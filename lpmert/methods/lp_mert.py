"""LP-MERT: divide the lists into halves, and combine the attainable combinations of both halves in order of cost.

A combination chooses one hypothesis from each of some lists; it is attainable if some weights, a witness, make these
choices strictly best. `AttainabilityOracle` decides this. A stream is the attainable combinations of some lists in
order of cost, computed on demand: Algorithms 1 and 2. Every method of a stream does one piece of work, at most one test
of a combination, so that a search can pause after any linear program. `PublishedSearch` is the paper's search, and
`LpMertSearch` adds to it: every witness is decoded on all lists, and may improve the incumbent. `Beam` keeps only the
combinations that score best under the best weights so far.

Source: Galley and Quirk, Optimal Search for Minimum Error Rate Training, EMNLP 2011.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from lpmert import core
from lpmert.configurable import option
from lpmert.core import INFINITE_COST
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.limits import checkpoint
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.model.lattice_problem import AnyProblem
from lpmert.numeric.cone import LinOptimizer
from lpmert.numeric.lists import FEASIBLE, INFEASIBLE, Cap, SortedLists, sorted_lists
from lpmert.search.incumbent import any_incumbent
from lpmert.search.method import Incumbent, Method, Search, Task

_PUBLISHED_TOLERANCE = 1e-9
"""Combinations with a published objective up to this count as interior; differences are scaled to at most 1."""


class AttainabilityOracle:
    """Decides whether choices from lists in order of cost are attainable together.

    counters: linear programs, and those that exact arithmetic decided. cosine_test: see `LpMert`.
    """

    def __init__(self, sorted_lists: SortedLists, cap: Cap | None = None, cosine_test: str = "exact") -> None:
        self.sorted_lists = sorted_lists
        self._cap, self._tests_corner = cap, cosine_test == "published"
        self.sizes = np.diff(sorted_lists.offsets)
        self.counters: Counter[str] = Counter(lps=0, exact_decisions=0)
        self.native = sorted_lists.native()
        self._least_norm = core.LeastNorm(self.native)
        self._origin = np.zeros(sorted_lists.rows.shape[1])
        self._corral = core.Corral(len(self._origin))
        self._chosen = np.zeros(len(self.sizes), dtype=np.int64)

    @cached_property
    def _optimizer(self) -> LinOptimizer:
        lists = self.sorted_lists
        return LinOptimizer(lists.rows, lists.offsets, self._cap, lists.rounding)

    def decide(
        self, lists: IntArray, positions: IntArray, near: FloatArray | None = None, first: int = 0
    ) -> tuple[bool, FloatArray | None]:
        """Return whether these positions of these lists can be strictly best together, and a witness [d].

        The witness is `None` if no double-precision weights are one. near [d]: a witness of the first choices, from
        which the program starts; first: their number, with which it begins.
        """
        checkpoint()
        self.counters["lps"] += 1
        corral = self._corral
        corral.restart(self._origin if near is None else near)
        self._chosen[lists] = positions
        verdict = self._least_norm.separate(lists, self._chosen, first % len(lists), corral)
        if verdict == INFEASIBLE:
            return False, None
        attained: bool = True
        witness: FloatArray | None = corral.point
        if verdict != FEASIBLE:
            self.counters["exact_decisions"] += 1
            chosen = lists, self.sorted_lists.offsets[lists] + positions
            exact = self._optimizer.solve(chosen, start=corral.point if corral.point.any() else None)
            attained, witness = exact.attainable, exact.weights
        if attained and self._cap is not None and self._tests_corner:
            attained = self.published_weights(lists, positions) is not None
        return attained, witness if attained else None

    def published_weights(self, lists: IntArray, positions: IntArray) -> FloatArray | None:
        """Return weights [d] of the linear program of the paper; `None` if these choices count as interior.

        The program maximises w.(h - centroid) subject to w.(h - h_j) >= 0 for all j, in a box. Within a cosine, it
        maximises w.centre instead, and its weights must lie within the cosine. Choices count as interior unless the
        maximum is clearly positive.
        """
        rows, offsets, cap = self.sorted_lists.rows, self.sorted_lists.offsets, self._cap
        pairs = zip(lists.tolist(), positions.tolist(), strict=True)
        differences = np.concatenate([rows[offsets[s] + h] - rows[offsets[s] : offsets[s + 1]] for s, h in pairs])
        differences /= np.abs(differences).max() or 1.0
        objective = differences.mean(axis=0) if cap is None else cap.unit
        options: Any = {"primal_feasibility_tolerance": 1e-10}
        answer = linprog(
            -objective, A_ub=-differences, b_ub=np.zeros(len(differences)), bounds=(-1, 1), options=options
        )
        weights = np.asarray(answer.x) if answer.status == 0 else None
        if weights is None or weights @ objective <= _PUBLISHED_TOLERANCE:
            return None
        return weights if cap is None or cap.cosine_of(weights) >= cap.cosine else None


@dataclass(frozen=True, slots=True, eq=False)
class Combination:
    """One choice from each of some lists: its `positions` in the lists, which are in order of cost.

    weights [d]: a witness, `None` if no double-precision weights make the choices. least [S]: for each list, the first
    position that may be attainable together with it; for its own lists, the chosen position.
    """

    cost: int
    positions: IntArray
    weights: FloatArray | None
    least: IntArray


Halves = tuple[Combination, Combination]  # the two combinations that a longer one consists of


class OneList:
    """Algorithm 1: the hypotheses of one list in order of cost, without interior ones.

    position: of the next hypothesis to test.
    """

    def __init__(self, number: int, sorted_lists: SortedLists) -> None:
        self.lists = np.array([number])
        self.found: list[Combination] = []
        self.costs = sorted_lists.costs[slice(*sorted_lists.offsets[number : number + 2])].tolist()
        self.position = 0

    @property
    def bound(self) -> int:
        """A lower bound on the cost of the next combination; `INFINITE_COST` if none is left."""
        return self.costs[self.position] if self.position < len(self.costs) else INFINITE_COST

    def get_next_best(self, search: StreamSearch) -> None:
        """Do one piece of work towards the next combination: at most one test, by the search."""
        position = self.position
        combination = search.test(self.lists, self.costs[position], np.array([position], dtype=np.int64))
        self.position += 1
        if combination is not None:
            self.found.append(combination)


class TwoHalves:
    """Algorithm 2: the combinations of two streams, by a frontier over cells (left rank, right rank).

    The frontier contains the right and lower neighbours of visited cells. The only parent of a cell is its left
    neighbour, or the one above in the first column, so that no cell enters twice.

    lazy: a cell whose combination a half has not found yet waits in the frontier at a bound on its cost. Otherwise the
    half finds that combination before any other cell is visited, as published.
    """

    def __init__(self, left: Stream, right: Stream, *, lazy: bool) -> None:
        self.left, self.right = left, right
        self.lists: IntArray = np.concatenate([left.lists, right.lists])
        self.found: list[Combination] = []
        self._lazy = lazy
        self._reached = 0
        self.frontier = [(self._cost_of(0, 0), 0, 0)]

    @property
    def bound(self) -> int:
        return max(self._reached, self.frontier[0][0]) if self.frontier else INFINITE_COST

    def get_next_best(self, search: StreamSearch) -> None:
        cell = self.best_in_frontier(search)
        if cell is None:
            return
        left, right = self.left.found[cell[0]], self.right.found[cell[1]]
        positions = np.concatenate([left.positions, right.positions])  # the paper's sparse combination
        combination = search.test(self.lists, left.cost + right.cost, positions, (left, right))
        self.expand_frontier(cell)
        if combination is not None:
            self.found.append(combination)

    def best_in_frontier(self, search: StreamSearch) -> tuple[int, int] | None:
        """Remove and return the cheapest cell of the frontier; `None` if a half must first find a combination."""
        while self.frontier:
            cost, m, n = self.frontier[0]
            waiting = self._waiting(m, n)
            if waiting is not None and waiting.bound < INFINITE_COST:
                waiting.get_next_best(search)
                heapq.heapreplace(self.frontier, (self._cost_of(m, n), m, n))
                return None
            heapq.heappop(self.frontier)
            if waiting is None:
                exact = self._cost_of(m, n)
                if exact == cost:
                    self._reached = cost
                    return m, n
                heapq.heappush(self.frontier, (exact, m, n))
        return None

    def expand_frontier(self, cell: tuple[int, int]) -> None:
        """Add the right neighbour of a visited cell to the frontier, and in the first column also the lower one."""
        m, n = cell
        heapq.heappush(self.frontier, (self._cost_of(m, n + 1), m, n + 1))
        if n == 0:
            heapq.heappush(self.frontier, (self._cost_of(m + 1, 0), m + 1, 0))

    def _waiting(self, m: int, n: int) -> Stream | None:
        if m >= len(self.left.found):
            return self.left
        return self.right if n >= len(self.right.found) else None

    def _cost_of(self, m: int, n: int) -> int:
        """Return the cost of a cell; if a half has not found it yet, a bound if lazy, else less than any cost."""
        if not self._lazy and self._waiting(m, n) is not None:
            return -1
        return cost_at(self.left, m) + cost_at(self.right, n)


Stream = OneList | TwoHalves  # the attainable combinations of some lists in order of cost, computed on demand and kept


def cost_at(stream: Stream, rank: int) -> int:
    """Return the cost of the combination of this rank, or a lower bound if it has not been found yet."""
    return stream.found[rank].cost if rank < len(stream.found) else stream.bound


_LARGEST_COUNT = 10**300  # larger numbers of combinations are not reported


class StreamSearch(Search):
    """A search for the first combinations of the root of a tree of streams.

    lists: the streams of single lists. tested: counts of combinations by length.
    """

    def __init__(
        self, canonical: Canonical, incumbent: Incumbent, *, lazy: bool = False, cosine_test: str = "exact"
    ) -> None:
        self.incumbent, self._canonical, self._lazy = incumbent, canonical, lazy
        self.oracle = AttainabilityOracle(canonical.by_cost, canonical.cap, cosine_test)
        self.tested: Counter[int] = Counter()
        self._no_bounds = np.zeros(canonical.n_lists, dtype=np.int64)
        self.lists = [OneList(s, canonical.by_cost) for s in range(canonical.n_lists)]
        self.joined: list[TwoHalves] = []

    @abstractmethod
    def test(self, lists: IntArray, cost: int, positions: IntArray, halves: Halves | None = None) -> Combination | None:
        """Return the combination of these positions if it belongs to the stream, else `None`."""

    def join(self, left: Stream, right: Stream) -> TwoHalves:
        self.joined.append(TwoHalves(left, right, lazy=self._lazy))
        return self.joined[-1]

    def balanced_tree(self, streams: Sequence[Stream]) -> Stream:
        """Return the root of a tree over streams s to t, split from the top down after u = floor((s + t) / 2)."""
        if len(streams) == 1:
            return streams[0]
        middle = (len(streams) + 1) // 2
        return self.join(self.balanced_tree(streams[:middle]), self.balanced_tree(streams[middle:]))

    @property
    def nodes(self) -> int:
        return self.tested.total()

    @property
    def open_nodes(self) -> int:
        return sum(len(stream.frontier) for stream in self.joined)

    def counters(self) -> Mapping[str, int]:
        """Return all counts by name; `tested_n` are combinations of n lists."""
        by_length = {f"tested_{n}": count for n, count in sorted(self.tested.items())}
        n_combinations = prod(self.oracle.sizes.tolist())
        total = {"combinations": n_combinations} if n_combinations < _LARGEST_COUNT else {}
        return {"nodes": self.nodes, **self.oracle.counters, **by_length, **total}


@dataclass(frozen=True)
class LpMert(Method):
    """Galley and Quirk's divide and conquer, with additions that can be switched off; none changes the optimum.

    published=True is Algorithms 1 and 2 to the letter; no other option applies. Each test solves one linear program
    with HiGHS, which maximises w.(h - centroid), or w.centre within a cosine. The lists are halved in their order.
    There is no first incumbent, and the search ends with the first combination of all lists that the test accepts. The
    test of the paper also accepts combinations that only ties attain. If the search ends with such a combination, or if
    the test has rejected an attainable one, no optimum is proved, and the result is that of a heuristic.

    Otherwise attainability is strict, as for all methods here: the point of least norm of a hull decides, and exact
    arithmetic where rounding hides the answer. look_ahead finds the cheapest hypothesis of every other list that is
    attainable together with a combination, and drops the combination if no selection below the cut-off is left. A chain
    starts with the lists with the fewest candidates, so that look-ahead is effective early. cosine_test "published"
    tests only the weights of the cell with the largest product with the centre; it can miss cells that reach into the
    cap, so that the result has no bound. "exact" projects the centre.
    """

    published: bool = option(False, "Algorithms 1 and 2 to the letter; no other option applies")
    look_ahead: bool = option(True, "bound the cost of the other lists")
    lazy: bool = option(True, "a neighbour waits in the frontier at its bound; off: it is found at once, as published")
    chain: bool = option(True, "combine one list after the other; off: a balanced tree, as published")
    cosine_test: str = option("exact", "how a combination is tested for a cosine", choices=("exact", "published"))

    name = "lp-mert"
    takes_fractions = True
    takes_caps = True

    def start(self, task: Task) -> Search:
        """Return the search; raises `MethodError` for published=True with a ratio."""
        if self.published:
            if not task.problem.canonical.additive:
                metric = task.problem.metric.name
                raise MethodError(f"published=True takes a sum of losses, and metric '{metric}' is none; leave it out")
            return PublishedSearch(task.problem)
        return LpMertSearch(self, task.canonical, task.incumbent)


_PUBLISHED_SLICE = 60  # linear programs of HiGHS in a slice
SLICE_STEPS, _SLICE_LPS = 3000, 1000  # pieces of work, and linear programs, in a slice

_SHARPNESS = 8.0
"""How fast the weight of a candidate falls with its excess cost, in units of the slack, when lists are ordered."""


class PublishedSearch(StreamSearch):
    """Algorithms 1 and 2 as published: one linear program of HiGHS decides whether a combination belongs to a stream.

    The search ends with the first combination of the root. The lower bound is that of the root as long as no attainable
    combination has been refused (`_refused_attainable`): if an attainable combination costs less than the accepted one,
    it was refused, or a part of it was. The kernel checks every refusal for this, but changes none. The first incumbent
    is arbitrary, and plays no part in the search.
    """

    finished = False

    def __init__(self, problem: AnyProblem) -> None:
        super().__init__(problem.canonical, any_incumbent(problem))
        self._root = self.balanced_tree(self.lists)
        self._bound: int | None = 0
        self._refused_attainable = False

    @property
    def lower_bound(self) -> int | None:
        return None if self._bound is None else min(self._bound, self.incumbent.cost)

    @property
    def lps(self) -> int:
        return self.nodes

    def counters(self) -> Mapping[str, int]:
        """Return all counts: each combination is one program; `checked` counts the refusals."""
        return {**super().counters(), "lps": self.lps, "checked": self.oracle.counters["lps"]}

    def test(self, lists: IntArray, cost: int, positions: IntArray, halves: Halves | None = None) -> Combination | None:
        del halves
        checkpoint()
        self.tested[len(lists)] += 1
        weights = self.oracle.published_weights(lists, positions)
        if weights is not None:
            return Combination(cost, positions, weights, self._no_bounds)
        self._refused_attainable = self._refused_attainable or self.oracle.decide(lists, positions)[0]
        return None

    def advance(self) -> None:
        stop = self.lps + _PUBLISHED_SLICE
        while not self.finished and self.lps < stop:
            self._root.get_next_best(self)
            if self._root.found:
                self._end(self._root.found[0])
            elif self._root.bound >= INFINITE_COST:  # every combination was refused
                self._bound, self.finished = None, True
            elif not self._refused_attainable and self._bound is not None:
                self._bound = max(self._bound, self._root.bound)

    def _end(self, first: Combination) -> None:
        """Take the first combination of the root as the result, and set the bound that it proves.

        It proves nothing if only ties attain it, or if the refusal of an attainable combination may have hidden a
        cheaper one.
        """
        self.finished = True
        attained, weights = self.oracle.decide(self._root.lists, first.positions)
        if not attained:
            self._take_tied(first.weights)
        elif weights is None:
            self._leave_unsettled(first.cost)
        else:
            self.incumbent.improve(first.cost, weights, "D")
        doubtful = self._refused_attainable and (self._bound is None or self._bound < first.cost)
        self._bound = first.cost if attained and not doubtful else None

    def _take_tied(self, weights: FloatArray | None) -> None:
        """Improve the incumbent by weights of the paper's program, at the worst cost of their ties: see lemma C3."""
        cap = self._canonical.cap
        if weights is not None and (cap is None or cap.contains(weights)):
            self.incumbent.improve(self._canonical.clear_cost(CanonicalWeights(weights))[0], weights, "D")


class LpMertSearch(StreamSearch):
    """Builds the tree of streams, then asks the root for its first combination; `root` is `None` while it builds.

    Tests combinations with as few linear programs as possible; witnesses improve the incumbent.
    """

    def __init__(self, settings: LpMert, canonical: Canonical, incumbent: Incumbent) -> None:
        super().__init__(canonical, incumbent, lazy=settings.lazy, cosine_test=settings.cosine_test)
        self.oracle.counters.update(saved_by_look_ahead=0, lps_ahead=0)
        self.root: Stream | None = None
        self._settings, self._granularity = settings, canonical.granularity
        self._proves = settings.cosine_test == "exact" or canonical.cap is None
        self._building = self._build()
        self._taken = 0
        self._all_lists = np.arange(canonical.n_lists)
        self._selection = np.zeros(canonical.n_lists, dtype=np.int64)
        self._witness_is_clear = False
        # The cost of each position of each list, infinite beyond its end.
        self._costs = np.full((canonical.n_lists, int(self.oracle.sizes.max(initial=1)) + 1), INFINITE_COST)
        for row, size, stream in zip(self._costs, self.oracle.sizes, self.lists, strict=True):
            row[:size] = stream.costs

    @property
    def finished(self) -> bool:
        return self.root is not None and self._root_bound >= self.incumbent.cost

    @property
    def _root_bound(self) -> int:
        """A bound on the root's next combination; the incumbent's cost if no lower cost is possible."""
        bound = 0 if self.root is None else self.root.bound
        return self.incumbent.cost if bound > self.incumbent.cost - self._granularity else bound

    @property
    def lower_bound(self) -> int | None:
        return min(self._root_bound, self._upper) if self._proves else None

    @property
    def lps(self) -> int:
        return self.oracle.counters["lps"]

    def advance(self) -> None:
        stop = self.lps + _SLICE_LPS
        for _ in range(SLICE_STEPS):
            if self.finished or self.lps >= stop:
                return
            checkpoint()
            if self.root is None:
                next(self._building, None)
            else:
                self.root.get_next_best(self)
                self._take(self.root)

    def _take(self, root: Stream) -> None:
        """Improve the incumbent by the new combinations of the root: the first strict one is the optimum."""
        for combination in root.found[self._taken :]:
            if combination.weights is not None:
                self.incumbent.improve(combination.cost, combination.weights, "D")
            else:
                self._leave_unsettled(combination.cost)
        self._taken = len(root.found)

    def _build(self) -> Iterator[None]:
        """Build the tree over the lists, balanced or a chain; yields after each piece of work."""
        if self._settings.chain:
            first, *others = yield from self._fewest_candidates_first()
            self.root = reduce(self.join, others, cast(Stream, first))
        else:
            self.root = self.balanced_tree(self.lists)
        self._take(self.root)
        yield

    def _fewest_candidates_first(self) -> Generator[None, None, list[OneList]]:
        """Return the streams of single lists, those with the fewest candidates for a selection below the cut-off first.

        Each stream is first asked for its cheapest hypothesis; yields after each piece of work.
        """
        most = self.incumbent.cost
        for stream in self.lists:
            while not stream.found and stream.bound < INFINITE_COST:
                stream.get_next_best(self)
                yield
        cheapest = [cost_at(stream, 0) for stream in self.lists]
        slack = max(1, most - sum(cheapest))
        weights = []
        for least, stream in zip(cheapest, self.lists, strict=True):
            costs = np.array(stream.costs)
            excess = costs[costs >= least] - least
            weights.append(float(np.exp(-_SHARPNESS * excess[excess < slack] / slack).sum()))
        return [self.lists[k] for k in np.argsort(weights, kind="stable").tolist()]

    def test(self, lists: IntArray, cost: int, positions: IntArray, halves: Halves | None = None) -> Combination | None:
        """Return the combination, `None` if it is not attainable or no selection with it is below the cut-off."""
        self.tested[len(lists)] += 1
        least = self._least(lists, positions, halves)
        if least is None:
            self.oracle.counters["saved_by_look_ahead"] += 1
            return None
        near, first = (None, 0) if halves is None else (halves[0].weights, len(halves[0].positions))
        attained, weights = self._decide(lists, positions, near, first)
        return self._look_ahead(lists, Combination(cost, positions, weights, least)) if attained else None

    def _least(self, lists: IntArray, positions: IntArray, halves: Halves | None) -> IntArray | None:
        """Return [S] the first attainable position of every list as both halves know it; `None` if that is cut off."""
        if not self._settings.look_ahead:
            return self._no_bounds
        if halves is None:
            least = self._no_bounds.copy()
            least[lists] = positions
        else:
            least = np.maximum(halves[0].least, halves[1].least)
            if (least[lists] > positions).any():
                return None
        return least if self._below_cutoff(least) else None

    def _below_cutoff(self, least: IntArray) -> bool:
        return bool(self._costs[self._all_lists, least].sum() <= self.incumbent.cost - self._granularity)

    def _look_ahead(self, lists: IntArray, combination: Combination) -> Combination | None:
        """Raise the first position of every other list to one attainable with the combination; `None` if cut off."""
        if not self._settings.look_ahead or len(lists) == len(self._all_lists):
            return combination
        least = combination.least
        attained = self._choices_of_last_witness()
        for s in np.setdiff1d(self._all_lists, lists).tolist():
            longer = np.append(lists, s)
            while not attained[s, least[s]]:
                self.oracle.counters["lps_ahead"] += 1
                if self._decide(longer, np.append(combination.positions, least[s]), combination.weights, len(lists))[0]:
                    attained |= self._choices_of_last_witness()
                    break
                least[s] += 1
                if not self._below_cutoff(least):
                    return None
        return combination

    def _decide(
        self, lists: IntArray, positions: IntArray, near: FloatArray | None, first: int
    ) -> tuple[bool, FloatArray | None]:
        attained, weights = self.oracle.decide(lists, positions, near, first)
        self._witness_is_clear = False
        if weights is not None:
            cost, self._witness_is_clear = self.oracle.native.decode_clearly(weights, self._selection)
            if self._witness_is_clear:
                self.incumbent.improve(cost, weights, "D")
        return attained, weights

    def _choices_of_last_witness(self) -> NDArray[np.bool_]:
        """Return [S, longest list] whether the last witness makes each choice; all false if some choice was unclear."""
        made = np.zeros((len(self._all_lists), self._costs.shape[1] - 1), dtype=np.bool_)
        made[self._all_lists, self._selection] = self._witness_is_clear
        return made


_BEAM_SLICE = 200  # linear programs in a slice of a beam
_ALONE = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True)
class Beam(Method):
    """LP-MERT as a heuristic: of the combinations of two halves, only the `beam` best ones by score are kept.

    Scores are those of the best weights so far. Combinations that cost less than the choices of these weights are
    tested in order of cost, by a linear program against all others in the beam, and dropped if it rules them out. The
    weights of the program are decoded on all lists. A pass ends with the cheapest attainable combination of all lists;
    passes are repeated until one does not improve the best weights. The result is never worse than the starting
    weights, and has no bound. Raises `MethodError` for a beam below 1.
    """

    beam: int = option(1000, "combinations kept for each part of the lists", least=1)

    name = "beam"
    proves = False

    def start(self, task: Task) -> Search:
        return BeamSearch(self.beam, task.canonical, task.incumbent)


class Combinations(NamedTuple):
    """Combinations of some lists, the best score first: scores [n], costs [n], and summed features [n, D]."""

    scores: FloatArray
    costs: IntArray
    rows: FloatArray


def best_of_pairs(left: Combinations, right: Combinations, beam: int) -> Combinations:
    """Return the pairs of combinations of two halves with the best scores.

    A pair of ranks m and n, counted from 1, is no better than the m n - 1 other pairs of ranks at most m and n. So only
    pairs with m n <= beam can be among the best.
    """
    partners = np.minimum(beam // np.arange(1, len(left.scores) + 1), len(right.scores))
    m = np.repeat(np.arange(len(partners)), partners)
    n = np.arange(len(m)) - np.repeat(np.cumsum(partners) - partners, partners)
    scores = left.scores[m] + right.scores[n]
    best = np.argsort(-scores, kind="stable")[:beam]
    m, n = m[best], n[best]
    return Combinations(scores[best], left.costs[m] + right.costs[n], left.rows[m] + right.rows[n])


class BeamSearch(Search):
    """Passes of divide and conquer, each scored by the best weights of the pass before."""

    finished = False

    def __init__(self, beam: int, canonical: Canonical, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self.finished = incumbent.cost == 0
        self._beam = beam
        self._lists = canonical.by_cost
        self._native = self._lists.native()
        self._selection = np.zeros(canonical.n_lists, dtype=np.int64)
        self._counts: Counter[str] = Counter(lps=0, attained=0, pruned=0, passes=0)
        self._began_with = incumbent.cost
        self._weights, self._scores = incumbent.weights, np.empty(0)
        self._pass = self._run_pass()

    @property
    def nodes(self) -> int:
        return self._counts["lps"]

    @property
    def lps(self) -> int:
        return self._counts["lps"]

    def counters(self) -> Mapping[str, int]:
        """Return all counts; pruned: combinations beyond the beam whose halves were both kept."""
        return {"nodes": self.nodes, **self._counts}

    def advance(self) -> None:
        stop = self.lps + _BEAM_SLICE
        while not self.finished and self.lps < stop:
            checkpoint()
            if next(self._pass, self._pass) is self._pass:  # the pass has ended
                self.finished = self.incumbent.cost in (0, self._began_with)
                self._pass = self._run_pass()

    def _run_pass(self) -> Generator[None, None, None]:
        """Combine all lists once; yields after each linear program and each list."""
        self._counts["passes"] += 1
        self._began_with, self._weights = self.incumbent.cost, self.incumbent.weights
        self._scores = self._lists.rows @ self._weights
        root = yield from self._combined(0, len(self._selection))
        yield from self._tested(root, is_root=True)

    def _combined(self, first: int, last: int) -> Generator[None, None, Combinations]:
        """Return the best combinations of lists first to last - 1, halved as published."""
        if last - first > 1:
            middle = (first + last + 1) // 2
            left = yield from self._combined(first, middle)
            right = yield from self._combined(middle, last)
            left, right = (yield from self._tested(left)), (yield from self._tested(right))
            pairs = best_of_pairs(left, right, self._beam)
            self._counts["pruned"] += len(left.scores) * len(right.scores) - len(pairs.scores)
            return pairs
        begin, end = self._lists.offsets[first : first + 2].tolist()
        best = begin + np.argsort(-self._scores[begin:end], kind="stable")
        self._counts["pruned"] += max(0, end - begin - self._beam)
        yield
        best = best[: self._beam]
        return Combinations(self._scores[best], self._lists.costs[best], self._lists.rows[best])

    def _tested(self, combinations: Combinations, *, is_root: bool = False) -> Generator[None, None, Combinations]:
        """Drop combinations that a linear program rules out; at the root, stop at the first one that it accepts.

        The first combination is the choice of the best weights.
        """
        test = None
        dropped: list[int] = []
        for k in np.argsort(combinations.costs, kind="stable").tolist():
            if combinations.costs[k] >= (self.incumbent.cost if is_root else combinations.costs[0]):
                break
            if test is None:  # of one row of the beam against all others
                ends, nothing = np.array([0, len(combinations.rows)]), np.zeros(len(combinations.rows), dtype=np.int64)
                test = AttainabilityOracle(sorted_lists(combinations.rows, ends, nothing))
            self._counts["lps"] += 1
            _, witness = test.decide(_ALONE, np.array([k]), self._weights)
            yield
            if witness is None:
                dropped.append(k)
                continue
            self._counts["attained"] += 1
            cost, clear = self._native.decode_clearly(witness, self._selection)
            if clear:
                self.incumbent.improve(cost, witness, "B")
            if is_root:
                break
        if not dropped:
            return combinations
        kept = np.delete(np.arange(len(combinations.scores)), dropped)
        return Combinations(combinations.scores[kept], combinations.costs[kept], combinations.rows[kept])
