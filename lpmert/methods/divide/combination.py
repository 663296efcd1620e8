"""Combinations of choices, and the test that each one must pass: what is known already, then a linear program, then a
look at what it leaves to the other lists.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lpmert.core import INFINITE_COST
from lpmert.errors import FloatArray, IntArray
from lpmert.methods.divide.cores import Cores
from lpmert.methods.divide.extremity import Attainability, Extremity, ProgramSettings, Start
from lpmert.methods.divide.witnesses import Witnesses
from lpmert.model.form import Canonical
from lpmert.search.method import Incumbent

_WITNESS_BYTES = 1 << 26
_MOST_WITNESSES = 20_000
_DIVE_EVERY = 8


class SavingSettings(ProgramSettings, Protocol):
    """What may save linear programs; see `LpMert`."""

    @property
    def objective(self) -> str: ...

    @property
    def use_witnesses(self) -> bool: ...

    @property
    def use_cores(self) -> bool: ...

    @property
    def look_ahead(self) -> bool: ...


@dataclass(frozen=True, slots=True, eq=False)
class Combination:
    """One choice from each list of a part: `positions` count in the order of cost, in the order of the part's lists.

    start holds the weights [d] that show it (`None` where no double precision weights do); `strict` is false where only
    ties attain it. least [S]: for every list the first position that may go with it; for its own lists the chosen one.
    """

    cost: int
    positions: IntArray
    start: Start
    least: IntArray
    strict: bool = True


class Screen:
    """Tests combinations; every witness met is decoded on all lists and improves the incumbent.

    `tested` and `solved` count combinations, and those that took a linear program, by length. costs [S, longest list +
    1]: of all positions, infinite beyond a list's end.
    """

    def __init__(self, settings: SavingSettings, canonical: Canonical, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self.lists = canonical.by_cost
        self.extremity = Extremity(settings, self.lists, canonical.cap, canonical.rounding_by_cost)
        self.cores = Cores(canonical.n_lists)
        self.tested: Counter[int] = Counter()
        self.solved: Counter[int] = Counter()
        self.saved: Counter[str] = Counter(saved_by_witnesses=0, saved_by_cores=0, saved_by_look_ahead=0, lps_ahead=0)
        self._settings = settings
        self._looking = settings.look_ahead and settings.objective == "margin"
        self._granularity = canonical.granularity
        sizes = self.extremity.sizes
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
            self.costs[s, : end - begin] = self.lists.costs[begin:end]

    @property
    def counters(self) -> dict[str, int]:
        """What was counted, but for the counts by length."""
        return {**self.extremity.counters, **self.saved, "witnesses": len(self.witnesses), "cores": len(self.cores)}

    def all_counters(self) -> dict[str, int]:
        """Return what was counted; `tested_n` are combinations of n lists, `solved_n` those that took a program."""
        by_length = {f"tested_{n}": count for n, count in sorted(self.tested.items())}
        by_length |= {f"solved_{n}": count for n, count in sorted(self.solved.items())}
        return {"nodes": self.tested.total(), **self.counters, **by_length}

    @property
    def memory(self) -> int:
        """Bytes held, about."""
        return self.witnesses.memory + self.cores.memory + self.extremity.memory

    def decide(
        self,
        part: IntArray,
        cost: int,
        positions: IntArray,
        halves: tuple[Combination, Combination] | None = None,
    ) -> Combination | None:
        """Return the combination, or `None` if it is not attainable or cannot lead below the incumbent.

        halves: the combinations of which it consists, if any.
        """
        self.tested[len(part)] += 1
        least = self._least(part, positions, halves)
        if least is None:
            self.saved["saved_by_look_ahead"] += 1
            return None
        agreeing = self.witnesses.agreeing(part, positions.tolist())
        if len(agreeing):
            self.saved["saved_by_witnesses"] += 1
            start = Start(len(part), self.witnesses.weights(int(agreeing[-1])))
            return self._looked_ahead(part, Combination(cost, positions, start, least), agreeing)
        if self._known_to_fail(part, positions):
            self.saved["saved_by_cores"] += 1
            return None
        self.solved[len(part)] += 1
        answer = self._ask(part, positions, None if halves is None else halves[0].start)
        if answer.start is not None:
            self.extremity.keep(answer.start)
            return self._looked_ahead(part, Combination(cost, positions, answer.start, least), None)
        # At weights that only tie, all rows of a core are zero; D + 1 rows of a core have rank D and leave no weights.
        if self._settings.objective == "published" and len(answer.core) <= self.lists.rows.shape[1]:
            weights = self.extremity.weak_weights(part, positions)
            if weights is None:
                return None
            return Combination(cost, positions, Start(len(part), weights), least, strict=False)
        self._learn(answer)
        return None

    def _least(
        self, part: IntArray, positions: IntArray, halves: tuple[Combination, Combination] | None
    ) -> IntArray | None:
        """Return what both halves leave within reach in every list; `None` if it is not enough."""
        if not self._looking:
            return self._nothing_known
        if halves is None:
            least = self._nothing_known.copy()
            least[part] = positions
        else:
            least = np.maximum(halves[0].least, halves[1].least)
            if (least[part] > positions).any():
                return None
        return least if self._may_improve(least) else None

    def _may_improve(self, least: IntArray) -> bool:
        return bool(self.costs[self._all_lists, least].sum() <= self.incumbent.cost - self._granularity)

    def _looked_ahead(self, part: IntArray, found: Combination, agreeing: IntArray | None) -> Combination | None:
        """Move every other list's first position up to one attainable with the combination; `None` if that costs too
        much.

        agreeing: witnesses of the combination; `None` for the last one, just met.
        """
        if not self._looking or len(part) == len(self._all_lists):
            return found
        least = found.least
        attained = self._attained_now() if agreeing is None else self.witnesses.attained(agreeing)
        for s in np.setdiff1d(self._all_lists, part).tolist():
            longer = np.append(part, s)
            while not attained[s, least[s]]:
                if self._goes_with(longer, np.append(found.positions, least[s]), found.start) is not None:
                    attained |= self._attained_now()
                    break
                least[s] += 1
                if not self._may_improve(least):
                    return None
        self._since_dive = (self._since_dive + 1) % _DIVE_EVERY
        if self._since_dive == 0:
            self._dive(part, found)
        return found

    def _goes_with(self, part: IntArray, positions: IntArray, near: Start) -> Start | None:
        """Return the start of choices that are attainable, for the sake of the look ahead."""
        if self._known_to_fail(part, positions):
            return None
        self.saved["lps_ahead"] += 1
        answer = self._ask(part, positions, near)
        self._learn(answer)
        return answer.start

    def _dive(self, part: IntArray, found: Combination) -> None:
        """Complete a combination greedily, the dearest list first, for the sake of the incumbent."""
        least, positions, near = found.least.copy(), found.positions, found.start
        rest = np.setdiff1d(self._all_lists, part).tolist()
        rest.sort(key=lambda s: int(self.costs[s, least[s]]))
        while rest:
            s = rest.pop()
            part = np.append(part, s)
            start = None
            while start is None:
                start = self._goes_with(part, np.append(positions, least[s]), near)
                if start is None:
                    least[s] += 1
                    if not self._may_improve(least):
                        return
            self.extremity.keep(start)
            positions, near = np.append(positions, least[s]), start

    def _known_to_fail(self, part: IntArray, positions: IntArray) -> bool:
        return self._settings.use_cores and self.cores.inside(part.tolist(), positions.tolist())

    def _learn(self, answer: Attainability) -> None:
        if self._settings.use_cores and answer.core:
            self.cores.learn({(s, chosen - int(self.lists.offsets[s])) for s, chosen, _ in answer.core})

    def _ask(self, part: IntArray, positions: IntArray, near: Start | None) -> Attainability:
        answer = self.extremity.ask(part, positions, near)
        weights = None if answer.start is None else answer.start.weights
        self._clear = weights is not None and self._decoded(weights)
        return answer

    def _decoded(self, weights: FloatArray) -> bool:
        """Decode a witness on all lists; remember and use it, and say so, where no list is in doubt."""
        cost, clear = self.extremity.native.decode_clearly(weights, self._selection)
        if clear:
            self.incumbent.improve(cost, weights, "D")
            self.witnesses.add(weights, self._selection)
        return clear

    def _attained_now(self) -> NDArray[np.bool_]:
        """Return [S, longest list] the choices of the last witness; none where some list is in doubt."""
        made = np.zeros((len(self._all_lists), self.costs.shape[1] - 1), dtype=np.bool_)
        made[self._all_lists, self._selection] = self._clear
        return made
