"""Is a combination of choices attainable? One linear program for each question, and exact arithmetic where it fails.

Source: LinOptimizer on sparse combinations in Galley and Quirk, EMNLP 2011.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.optimize import linprog

from lpmert import core
from lpmert.errors import FloatArray, IntArray
from lpmert.numeric.cap import Cap
from lpmert.numeric.leastnorm import FEASIBLE, INFEASIBLE, SortedLists
from lpmert.numeric.lp import LinOptimizer
from lpmert.numeric.rounding import Rounding
from lpmert.system.deadline import checkpoint

_CORRAL_BYTES = 1 << 25
_MOST_CORRALS = 8192
_WEAK_TOLERANCE = 1e-9


class ProgramSettings(Protocol):
    """How linear programs are solved; see `LpMert`."""

    @property
    def lp(self) -> str: ...

    @property
    def row_generation(self) -> bool: ...

    @property
    def cosine_test(self) -> str: ...


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """What the linear program of a combination leaves to those of longer ones, which begin with the same choices.

    weights [d]; corral: its slot while it is kept, or -1; rows: others that HiGHS held.
    """

    length: int
    weights: FloatArray | None
    corral: int = -1
    rows: IntArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Attainability:
    """Attainable: `start`, whose weights are `None` where no double precision weights show it. Else a `core` of triples
    (list, chosen row, other row), at most d + 1.
    """

    start: Start | None
    core: tuple[tuple[int, int, int], ...] = ()


class Extremity:
    """Decides about choices from lists in order of cost; `counters` count programs and their rows.

    rows_in_full are all comparisons of the questions asked, rows_held those that took part in a program.
    """

    def __init__(
        self,
        settings: ProgramSettings,
        lists: SortedLists,
        cap: Cap | None = None,
        rounding: Rounding | None = None,
    ) -> None:
        self.lists = lists
        self._cap, self._rounding = cap, rounding
        self.sizes = np.diff(lists.offsets)
        self.counters: Counter[str] = Counter(lps=0, rows_in_full=0, rows_held=0, exact_decisions=0)
        self._settings = settings
        self.native = lists.native()
        self._least_norm = core.LeastNorm(self.native)
        self._nowhere = np.zeros(lists.rows.shape[1])
        self._corrals = [core.Corral(len(self._nowhere))]
        kept = int(np.clip(_CORRAL_BYTES // self._corrals[0].nbytes, 16, _MOST_CORRALS))
        self._owners: list[Start | None] = [None] * kept
        self._slot = 0
        self._chosen = np.zeros(len(self.sizes), dtype=np.int64)

    @cached_property
    def _optimizer(self) -> LinOptimizer:
        return LinOptimizer(self.lists.rows, self.lists.offsets, self._cap, self._rounding)

    @property
    def memory(self) -> int:
        """Bytes held, about."""
        return len(self._corrals) * self._corrals[0].nbytes

    def ask(self, part: IntArray, positions: IntArray, near: Start | None = None) -> Attainability:
        """Decide whether these positions in these lists can be strictly best together.

        near: what the program of the first choices of the part left.
        """
        checkpoint()
        self.counters["lps"] += 1
        self.counters["rows_in_full"] += int(self.sizes[part].sum()) - len(part)
        near = near if self._settings.row_generation else None
        decide = self._separate if self._settings.lp == "least-norm" else self._optimize
        answer = decide(part, positions, near)
        if self._cap is None or self._settings.cosine_test == "exact" or answer.start is None:
            return answer
        return answer if self._passes_published_test(part, positions, self._cap) else Attainability(None)

    def keep(self, start: Start) -> None:
        """Keep the corral of the last answer for programs to come, in place of the oldest one."""
        if start.corral >= 0:
            self._owners[start.corral] = start
            self._slot = (start.corral + 1) % len(self._owners)
            if self._slot == len(self._corrals):
                self._corrals.append(core.Corral(len(self._nowhere)))

    def _separate(self, part: IntArray, positions: IntArray, near: Start | None) -> Attainability:
        slot = self._slot
        corral = self._corrals[slot]
        self._owners[slot] = None
        self._start(corral, near)
        self._chosen[part] = positions
        first = 0 if near is None else near.length % len(part)
        rounds = self._least_norm.rounds
        verdict = self._least_norm.separate(part, self._chosen, first, corral)
        self.counters["rows_held"] += self._least_norm.rounds - rounds
        if verdict == FEASIBLE:
            return Attainability(Start(len(part), corral.point, corral=slot))
        if verdict == INFEASIBLE:
            owners = corral.lists
            heads = self.lists.offsets[owners]
            triples = np.column_stack([owners, heads + self._chosen[owners], heads + corral.others])
            return Attainability(None, core=tuple(map(tuple, triples.tolist())))
        return self._optimize(part, positions, Start(len(part), corral.point))

    def _start(self, corral: core.Corral, near: Start | None) -> None:
        if near is not None and near.corral >= 0 and self._owners[near.corral] is near:
            corral.take(self._corrals[near.corral])
        else:
            corral.restart(self._nowhere if near is None or near.weights is None else near.weights)

    def _optimize(self, part: IntArray, positions: IntArray, near: Start | None) -> Attainability:
        """Decide with certainty: HiGHS, confirmed in exact arithmetic."""
        if self._settings.lp == "least-norm":
            self.counters["exact_decisions"] += 1
        held = self._optimizer.counters["lp_rows"]
        start = near.weights if near is not None and near.weights is not None and near.weights.any() else None
        rows = None if near is None else near.rows
        if not self._settings.row_generation:
            rows = np.arange(len(self.lists.costs))
        verdict = self._optimizer.solve((part, self.lists.offsets[part] + positions), start=start, rows=rows)
        self.counters["rows_held"] += self._optimizer.counters["lp_rows"] - held
        if verdict.attainable:
            return Attainability(Start(len(part), verdict.weights, rows=verdict.rows))
        return Attainability(None, core=verdict.core)

    def _passes_published_test(self, part: IntArray, positions: IntArray, cap: Cap) -> bool:
        """Whether the weights of the cell with the largest product with the cap's centre lie in the cap.

        Galley and Quirk, EMNLP 2011, on searches within a cosine. The answer is a corner of the box around the origin,
        which can lie outside of the cap although the cell reaches into it.
        """
        differences = self._differences(part, positions)
        answer = _box_program(cap.unit, differences)
        return answer is not None and cap.cosine_of(answer) >= cap.cosine

    def weak_weights(self, part: IntArray, positions: IntArray) -> FloatArray | None:
        """Return weights [d] of the published linear program for choices that only ties attain; `None` if interior.

        Maximise w.(h - centroid) with w.(h - h_j) >= 0 for all j; what is not clearly positive counts as interior.
        """
        differences = self._differences(part, positions)
        weights = _box_program(differences.mean(axis=0), differences)
        if weights is None or weights @ differences.mean(axis=0) <= _WEAK_TOLERANCE:
            return None
        return weights

    def _differences(self, part: IntArray, positions: IntArray) -> FloatArray:
        """Return the chosen hypotheses minus all of their lists [R, d], to a common scale."""
        rows, offsets = self.lists.rows, self.lists.offsets
        pairs = zip(part.tolist(), positions.tolist(), strict=True)
        differences = np.concatenate([rows[offsets[s] + h] - rows[offsets[s] : offsets[s + 1]] for s, h in pairs])
        return np.asarray(differences / np.abs(differences).max())


def _box_program(objective: FloatArray, differences: FloatArray) -> FloatArray | None:
    """Return the w in [-1, 1]^d with differences w >= 0 and the largest objective; `None` if HiGHS ends without."""
    answer = linprog(
        -objective,
        A_ub=-differences,
        b_ub=np.zeros(len(differences)),
        bounds=(-1, 1),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10},
    )
    return np.asarray(answer.x) if answer.status == 0 else None
