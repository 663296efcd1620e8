"""Is a combination attainable? Known witnesses, learnt cores, a linear program, exact arithmetic, in this order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.optimize import linprog

from lpmert.exact.search import Incumbent
from lpmert.geometry.cores import Cores
from lpmert.geometry.leastnorm import (
    FEASIBLE,
    INFEASIBLE,
    copy_corral,
    decode_clearly,
    new_corrals,
    new_scratch,
    separate,
    sorted_lists,
)
from lpmert.geometry.lp import LinOptimizer
from lpmert.geometry.witnesses import Witnesses
from lpmert.problem import Problem
from lpmert.result import FloatArray, IntArray

_KEPT_WITNESSES = 20_000
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


@dataclass(frozen=True, slots=True, eq=False)
class Combination:
    """One choice from each list of a part, and the weights that show it.

    positions: places in the order of cost, one for each list of the part; weights [d] are `None` where no double
    precision weights show it; `strict` is false where only ties do. corral and rows start the linear programs of longer
    combinations.
    """

    cost: int
    positions: IntArray
    weights: FloatArray | None
    strict: bool = True
    corral: int = -1
    rows: IntArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some of the lists: their numbers, in the order in which positions are given, and the cores learnt on them."""

    lists: IntArray
    key: tuple[int, ...]
    cores: Cores

    @staticmethod
    def of(lists: tuple[int, ...]) -> Part:
        """Return the part of these lists, without cores."""
        return Part(np.array(lists, dtype=np.int64), lists, Cores(lists))


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
        self.witnesses = Witnesses(_KEPT_WITNESSES if settings.use_witnesses else 0)
        self.tested: Counter[int] = Counter()
        self.solved: Counter[int] = Counter()
        self.counters: Counter[str] = Counter(
            lps=0, rows_in_full=0, rows_held=0, saved_by_witnesses=0, saved_by_cores=0, exact_decisions=0
        )
        n_lists, width = problem.n_lists, problem.n_features
        self._sizes = np.diff(problem.offsets)
        kept = int(np.clip(_CORRAL_BYTES // (8 * (width + 4) * (width + 3)), 16, _MOST_CORRALS))
        self._corrals = new_corrals(kept, width)
        self._owners: list[Combination | None] = [None] * kept
        self._next_corral = 0
        self._scratch = new_scratch(width, int(self._sizes.max(initial=1)))
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

    def test(self, part: Part, cost: int, positions: IntArray, near: Combination | None = None) -> Combination | None:
        """Return the combination if it is attainable, `None` if not.

        near: an attainable combination of the first lists of the part, contained in this one, from which to start.
        """
        self.tested[len(positions)] += 1
        if self.settings.use_witnesses:
            weights = self.witnesses.find(part.key, positions)
            if weights is not None:
                self.counters["saved_by_witnesses"] += 1
                return Combination(cost, positions, weights)
        if self.settings.use_cores and part.cores.inside(positions.tolist()):
            self.counters["saved_by_cores"] += 1
            return None
        self.counters["lps"] += 1
        self.solved[len(positions)] += 1
        self.counters["rows_in_full"] += int(self._sizes[part.lists].sum()) - len(part.lists)
        hint = near if self.settings.row_generation else None
        if self.settings.lp == "least-norm":
            answer = self._separate(part, positions, hint)
        else:
            answer = self._optimize(part, positions, hint, None if hint is None else hint.weights)
        if answer.attainable:
            if answer.weights is not None:
                self._witness(answer.weights)
            found = Combination(cost, positions, answer.weights, True, answer.corral, answer.rows)
            if answer.corral >= 0:
                self._owners[answer.corral] = found
            return found
        if self.settings.objective == "published":
            weights = self._weak_weights(part, positions, answer.core)
            if weights is not None:
                return Combination(cost, positions, weights, strict=False)
        if self.settings.use_cores:
            place = dict(zip(part.key, positions.tolist(), strict=True))
            part.cores.learn({number: place[number] for number, _, _ in answer.core})
        return None

    def _separate(self, part: Part, positions: IntArray, hint: Combination | None) -> _Answer:
        corrals, slot = self._corrals, self._next_corral
        self._start_corral(slot, hint)
        self._chosen[part.lists] = positions
        start = 0 if hint is None else len(hint.positions) % len(positions)
        rounds = int(self._numbers[1])
        verdict = separate(
            self.lists, part.lists, len(part.lists), start, self._chosen, corrals, slot, self._scratch, self._numbers
        )
        self.counters["rows_held"] += int(self._numbers[1]) - rounds
        if verdict == FEASIBLE:
            self._next_corral = (slot + 1) % len(self._owners)
            return _Answer(True, corrals.point[slot].copy(), corral=slot)
        size = int(corrals.size[slot])
        if verdict == INFEASIBLE:
            lists, others = corrals.lists[slot, :size], corrals.others[slot, :size]
            heads = self.lists.offsets[lists]
            triples = np.column_stack([lists, heads + self._chosen[lists], heads + others])
            return _Answer(False, core=tuple(map(tuple, triples.tolist())))
        self.counters["exact_decisions"] += 1
        return self._optimize(part, positions, None, corrals.point[slot].copy())

    def _start_corral(self, slot: int, hint: Combination | None) -> None:
        """Put the corral from which to start into the slot: the hint's if it is still kept, or its weights."""
        corrals = self._corrals
        self._owners[slot] = None
        corrals.size[slot] = 0
        if hint is None:
            corrals.point[slot] = 0.0
        elif hint.corral >= 0 and self._owners[hint.corral] is hint:
            copy_corral(corrals, hint.corral, slot)
        elif hint.weights is not None:
            corrals.point[slot] = hint.weights

    def _optimize(self, part: Part, positions: IntArray, hint: Combination | None, start: FloatArray | None) -> _Answer:
        chosen = part.lists, self.lists.offsets[part.lists] + positions
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

    def _witness(self, weights: FloatArray) -> None:
        """Decode a witness on all lists; remember and use it where no list is in doubt."""
        cost, clear = decode_clearly(self.lists, weights, self._selection, self._scratch.scores)
        if clear:
            self.incumbent.improve(int(cost), weights, "D")
            self.witnesses.add(weights, self._selection)

    def _weak_weights(
        self, part: Part, positions: IntArray, core: tuple[tuple[int, int, int], ...]
    ) -> FloatArray | None:
        """Return weights that the published linear program finds for a combination that only ties can attain.

        Maximise w.(h - centroid) with w.(h - h_j) >= 0 for all j. At such weights all rows of a core are zero; D + 1
        rows of a core have rank D and leave no weights.
        """
        rows = self.lists.rows
        if len(core) > rows.shape[1]:
            return None
        chosen = self.lists.offsets[part.lists] + positions
        differences = np.concatenate(
            [
                rows[row] - rows[self.lists.offsets[number] : self.lists.offsets[number + 1]]
                for number, row in zip(part.key, chosen.tolist(), strict=True)
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
