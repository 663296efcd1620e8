"""Is a combination attainable? Known witnesses, learnt cores, a linear program, exact arithmetic, in this order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from lpmert.exact.search import Incumbent
from lpmert.geometry.cores import Cores
from lpmert.geometry.leastnorm import (
    FEASIBLE,
    INFEASIBLE,
    decode_clearly,
    new_corrals,
    new_scratch,
    separate,
    sorted_lists,
)
from lpmert.geometry.lp import LinOptimizer
from lpmert.geometry.witnesses import Witnesses
from lpmert.kernels import INFINITE_COST
from lpmert.problem import Problem
from lpmert.result import FloatArray, IntArray

_WITNESS_BYTES = 1 << 26
_MOST_WITNESSES = 20_000
_CORRAL_BYTES = 1 << 25
_MOST_CORRALS = 8192
_WEAK_TOLERANCE = 1e-9


class Settings(Protocol):
    """What the test of a combination needs to know; see `LpMert`."""

    @property
    def objective(self) -> str: ...

    @property
    def lp(self) -> str: ...

    @property
    def row_generation(self) -> bool: ...

    @property
    def use_witnesses(self) -> bool: ...

    @property
    def use_cores(self) -> bool: ...

    @property
    def look_ahead(self) -> bool: ...


@dataclass(frozen=True, slots=True, eq=False)
class Combination:
    """One choice from each list of a part, and the weights that show it.

    positions: places in the order of cost, one for each list of the part; weights [d] are `None` where no double
    precision weights show it; `strict` is false where only ties do. least [S]: for each list the first position known
    to be within reach, for those of the part the chosen one. corral and rows start the linear programs of longer
    combinations.
    """

    cost: int
    positions: IntArray
    weights: FloatArray | None
    least: IntArray
    strict: bool = True
    corral: int = -1
    rows: IntArray | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    """weights `None` and no core: attainable, but not by double precision weights."""

    attainable: bool
    weights: FloatArray | None = None
    core: tuple[tuple[int, int, int], ...] = ()
    corral: int = -1
    rows: IntArray | None = None


class Extremity:
    """LinOptimizer of Galley and Quirk (2011) on sparse combinations, with what saves calls to it.

    Lists are in order of cost: `costs_of` [S] arrays. Every witness is decoded on all lists and improves the incumbent.
    """

    def __init__(self, settings: Settings, problem: Problem, incumbent: Incumbent) -> None:
        self.settings = settings
        self.incumbent = incumbent
        self.lists = sorted_lists(problem.features, problem.offsets, problem.costs)
        n_lists, width = problem.n_lists, problem.n_features
        self.cores = Cores(n_lists)
        self.tested: Counter[int] = Counter()
        self.solved: Counter[int] = Counter()
        self.counters: Counter[str] = Counter(
            lps=0,
            lps_ahead=0,
            rows_in_full=0,
            rows_held=0,
            saved_by_witnesses=0,
            saved_by_cores=0,
            saved_by_look_ahead=0,
            exact_decisions=0,
        )
        self._sizes = np.diff(problem.offsets)
        longest = int(self._sizes.max(initial=1))
        most = int(np.clip(_WITNESS_BYTES // (8 * (n_lists + width)), 100, _MOST_WITNESSES))
        self.witnesses = Witnesses(self._sizes, most if settings.use_witnesses else 0)
        self._granularity = problem.granularity
        self._looking = settings.look_ahead and settings.objective == "margin"
        self._all_lists = np.arange(n_lists)
        self._clear = False
        self._nothing_known = np.zeros(n_lists, dtype=np.int64)
        self._padded_costs = np.full((n_lists, longest + 1), INFINITE_COST)
        for s, (begin, end) in enumerate(pairwise(problem.offsets.tolist())):
            self._padded_costs[s, : end - begin] = self.lists.costs[begin:end]
        kept = int(np.clip(_CORRAL_BYTES // (8 * (width + 4) * (width + 3)), 16, _MOST_CORRALS))
        self._corrals = new_corrals(kept, width)
        self._owners: list[Combination | None] = [None] * kept
        self._next_corral = 0
        self._scratch = new_scratch(width, longest)
        self._chosen = np.zeros(n_lists, dtype=np.int64)
        self._selection = np.zeros(n_lists, dtype=np.int64)
        self._numbers = np.zeros(2, dtype=np.int64)

    @cached_property
    def _optimizer(self) -> LinOptimizer:
        return LinOptimizer(self.lists.rows, self.lists.offsets)

    @property
    def memory(self) -> int:
        """Bytes held, about."""
        return self.witnesses.memory + sum(array.nbytes for array in self._corrals)

    def test(
        self,
        lists: IntArray,
        cost: int,
        positions: IntArray,
        first: Combination | None = None,
        second: Combination | None = None,
    ) -> Combination | None:
        """Return the combination if it is attainable and may lead to a better selection, `None` if not.

        first and second: the combinations of which it consists, if any.
        """
        self.tested[len(positions)] += 1
        least = self._least(lists, positions, first, second)
        if least is None:
            self.counters["saved_by_look_ahead"] += 1
            return None
        if self.settings.use_witnesses:
            agreeing = self.witnesses.agreeing(lists, positions.tolist())
            if len(agreeing):
                self.counters["saved_by_witnesses"] += 1
                weights = self.witnesses.weights(int(agreeing[-1]))
                attained = self.witnesses.attained(agreeing)
                return self._looked_ahead(lists, Combination(cost, positions, weights, least), attained)
        if self.settings.use_cores and self.cores.inside(lists.tolist(), positions.tolist()):
            self.counters["saved_by_cores"] += 1
            return None
        self.solved[len(positions)] += 1
        answer = self._ask(lists, positions, first)
        if answer.attainable:
            found = Combination(cost, positions, answer.weights, least, True, answer.corral, answer.rows)
            if answer.corral >= 0:
                self._owners[answer.corral] = found
                self._next_corral = (answer.corral + 1) % len(self._owners)
            return self._looked_ahead(lists, found, self._attained_now())
        # At weights that only tie, all rows of a core are zero; D + 1 rows of a core have rank D and leave no weights.
        spanning = len(answer.core) > self.lists.rows.shape[1]
        if self.settings.objective == "published" and not spanning:
            weights = self._weak_weights(lists, positions)
            return None if weights is None else Combination(cost, positions, weights, least, strict=False)
        if self.settings.use_cores:
            self._learn(answer.core)
        return None

    def _least(
        self, lists: IntArray, positions: IntArray, first: Combination | None, second: Combination | None
    ) -> IntArray | None:
        """Return what both halves leave within reach of every list; `None` if it is not enough."""
        least = self._nothing_known
        if not self._looking:
            return least
        if first is not None and second is not None:
            least = np.maximum(first.least, second.least)
            if (least[lists] > positions).any():
                return None
        else:
            least = least.copy()
            least[lists] = positions
        return least if self._may_improve(least) else None

    def _may_improve(self, least: IntArray) -> bool:
        return bool(self._padded_costs[self._all_lists, least].sum() <= self.incumbent.cost - self._granularity)

    def _looked_ahead(self, lists: IntArray, found: Combination, attained: NDArray[np.bool_]) -> Combination | None:
        """Move the positions within reach up to those attainable with the combination; `None` if they cost too much.

        attained [S, longest list]: choices that witnesses of the combination make.
        """
        if not self._looking:
            return found
        least = found.least
        for s in self._all_lists[~np.isin(self._all_lists, lists)].tolist():
            longer = np.append(lists, s)
            while not attained[s, least[s]]:
                positions = np.append(found.positions, least[s])
                if not (self.settings.use_cores and self.cores.inside(longer.tolist(), positions.tolist())):
                    self.counters["lps_ahead"] += 1
                    answer = self._ask(longer, positions, found)
                    if answer.attainable:
                        attained |= self._attained_now()
                        break
                    if self.settings.use_cores:
                        self._learn(answer.core)
                least[s] += 1
                if not self._may_improve(least):
                    return None
        if 2<= len(lists) < len(self._sizes): self._dive(lists, found)
        return found

    def _dive(self, lists: IntArray, found: Combination) -> None:
        """Complete a combination greedily, one list after the other, for the sake of the incumbent."""
        least = found.least.copy()
        near = found
        rest = set(self._all_lists.tolist()) - set(lists.tolist())
        while rest:
            s = max(rest, key=lambda s: (int(self._padded_costs[s, least[s]]), s))
            rest.remove(s)
            lists = np.append(lists, s)
            while True:
                if not self._may_improve(least):
                    return
                positions = np.append(near.positions, least[s])
                if not (self.settings.use_cores and self.cores.inside(lists.tolist(), positions.tolist())):
                    self.counters["lps_dive"] += 1
                    answer = self._ask(lists, positions, near)
                    if answer.attainable:
                        break
                    if self.settings.use_cores:
                        self._learn(answer.core)
                least[s] += 1
            near = Combination(0, positions, answer.weights, least, True, answer.corral, answer.rows)
            if answer.corral >= 0:
                self._owners[answer.corral] = near
                self._next_corral = (answer.corral + 1) % len(self._owners)

    def _learn(self, core: tuple[tuple[int, int, int], ...]) -> None:
        self.cores.learn({(s, chosen - int(self.lists.offsets[s])) for s, chosen, _ in core})

    def _attained_now(self) -> NDArray[np.bool_]:
        """Return [S, longest list] the choices of the last witness, none where some list is in doubt."""
        made = np.zeros((len(self._sizes), self._padded_costs.shape[1] - 1), dtype=np.bool_)
        made[self._all_lists, self._selection] = self._clear
        return made

    def _ask(self, lists: IntArray, positions: IntArray, near: Combination | None) -> _Answer:
        """Solve a linear program, from what a combination of the first lists of the part ended with."""
        self.counters["lps"] += 1
        self.counters["rows_in_full"] += int(self._sizes[lists].sum()) - len(lists)
        hint = near if self.settings.row_generation else None
        if self.settings.lp == "least-norm":
            answer = self._separate(lists, positions, hint)
        else:
            answer = self._optimize(lists, positions, hint, None if hint is None else hint.weights)
        self._clear = answer.weights is not None and self._witness(answer.weights)
        return answer

    def _separate(self, lists: IntArray, positions: IntArray, hint: Combination | None) -> _Answer:
        corrals, slot = self._corrals, self._next_corral
        self._start_corral(slot, hint)
        self._chosen[lists] = positions
        start = 0 if hint is None else len(hint.positions) % len(positions)
        rounds = int(self._numbers[1])
        verdict = separate(
            self.lists, lists, len(lists), start, self._chosen, corrals, slot, self._scratch, self._numbers
        )
        self.counters["rows_held"] += int(self._numbers[1]) - rounds
        if verdict == FEASIBLE:
            return _Answer(True, corrals.point[slot].copy(), corral=slot)
        size = int(corrals.size[slot])
        if verdict == INFEASIBLE:
            owners, others = corrals.lists[slot, :size], corrals.others[slot, :size]
            heads = self.lists.offsets[owners]
            triples = np.column_stack([owners, heads + self._chosen[owners], heads + others])
            return _Answer(False, core=tuple(map(tuple, triples.tolist())))
        self.counters["exact_decisions"] += 1
        return self._optimize(lists, positions, None, corrals.point[slot].copy())

    def _start_corral(self, slot: int, hint: Combination | None) -> None:
        """Put the corral from which to start into the slot: the hint's if it is still kept, or its weights."""
        corrals = self._corrals
        self._owners[slot] = None
        corrals.size[slot] = 0
        if hint is None:
            corrals.point[slot] = 0.0
        elif hint.corral >= 0 and self._owners[hint.corral] is hint:
            for array in corrals:
                array[slot] = array[hint.corral]
        elif hint.weights is not None:
            corrals.point[slot] = hint.weights

    def _optimize(self, lists: IntArray, positions: IntArray, hint: Combination | None, start: FloatArray | None) -> _Answer:
        chosen = lists, self.lists.offsets[lists] + positions
        rows = None if hint is None else hint.rows
        if not self.settings.row_generation:
            rows = np.arange(len(self.lists.costs))
        held = self._optimizer.counters["lp_rows"]
        if start is not None and not start.any():
            start = None
        verdict = self._optimizer.solve(chosen, start=start, rows=rows)
        self.counters["rows_held"] += self._optimizer.counters["lp_rows"] - held
        if verdict.attainable:
            return _Answer(True, verdict.weights, rows=verdict.rows)
        return _Answer(False, core=verdict.core)

    def _witness(self, weights: FloatArray) -> bool:
        """Decode a witness on all lists; remember and use it, and say so, where no list is in doubt."""
        cost, clear = decode_clearly(self.lists, weights, self._selection, self._scratch.scores)
        if clear:
            self.incumbent.improve(int(cost), weights, "D")
            self.witnesses.add(weights, self._selection)
        return bool(clear)

    def _weak_weights(self, lists: IntArray, positions: IntArray) -> FloatArray | None:
        """Return weights that the published linear program finds for a combination that only ties can attain.

        Maximise w.(h - centroid) with w.(h - h_j) >= 0 for all j.
        """
        rows = self.lists.rows
        chosen = self.lists.offsets[lists] + positions
        differences = np.concatenate(
            [
                rows[row] - rows[self.lists.offsets[number] : self.lists.offsets[number + 1]]
                for number, row in zip(lists.tolist(), chosen.tolist(), strict=True)
            ]
        )
        differences /= np.abs(differences).max()
        answer = linprog(
            -differences.mean(axis=0),
            A_ub=-differences,
            b_ub=np.zeros(len(differences)),
            bounds=(-1, 1),
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10},
        )
        return np.asarray(answer.x) if answer.status == 0 and answer.fun < -_WEAK_TOLERANCE else None
