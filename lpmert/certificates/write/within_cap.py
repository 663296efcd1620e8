"""Do these choices go together within a cosine? Else a core that only weights outside the cap could refute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from lpmert.certificates.check.equations import basis_of
from lpmert.certificates.check.lists import ProofLists, rounded
from lpmert.certificates.write.questions import Choices, Question, SelectionOrCore
from lpmert.errors import FloatArray, IntArray
from lpmert.numeric import rational
from lpmert.numeric.cone import Cap, project, reach_cap

_BITS = (8, 16, 24, 32, 44, 53)
"""Of the largest multiplier, the fewest with which a core refutes its choices."""


class WithinCap:
    """Decides whether weights within a cosine make choices: in orthonormal coordinates of those that fulfil equations.

    ask: whether any weights do; exponents: those of the lists' features, by their number among all.
    """

    def __init__(
        self,
        lists: ProofLists,
        ask: Question,
        cap: Cap,
        equations: Sequence[Sequence[Fraction]],
        exponents: Mapping[int, int],
    ) -> None:
        self._lists, self._ask = lists, ask
        basis, _ = basis_of(equations, len(cap.centre))
        spanned = basis.astype(np.float64)
        frame, factor = np.linalg.qr(spanned) if equations else (spanned, spanned)
        self._factor: FloatArray = factor
        centre = cap.unit @ frame
        self._cap = Cap(centre, cap.cosine / float(np.linalg.norm(centre)) if equations else cap.cosine)
        self._rows: FloatArray = rounded(lists.given)[0] @ np.linalg.inv(self._factor)
        self._columns = [lists.free.index(d) for d in exponents]
        powers = np.array([*exponents.values()], dtype=np.int64)
        self._scales = np.ldexp(1.0, powers - min(powers.tolist(), default=0))

    def __call__(self, chosen: Choices, /) -> SelectionOrCore:
        """Return the answer for choices of at least one list; that of all weights where rounding hides it."""
        answer = self._ask(chosen)
        if answer.selection is None:
            return answer
        pairs = self._pairs(chosen)
        if not len(pairs):
            return answer
        rows = self._rows[pairs[:, 0]] - self._rows[pairs[:, 1]]
        weights, core = reach_cap(rows, self._cap, self._factor @ self._free(answer.weights))
        if core is not None:
            entry = self._core(pairs[core], rows[core])
            return answer if entry is None else SelectionOrCore(None, entry)
        return answer if weights is None else self._witnessed(weights, chosen)

    def _pairs(self, chosen: Choices) -> IntArray:
        offsets = self._lists.offsets
        return np.array(
            [(row, other) for s, row in chosen.items() for other in range(offsets[s], offsets[s + 1]) if other != row],
            dtype=np.int64,
        ).reshape(-1, 2)

    def _free(self, weights: Sequence[float]) -> FloatArray:
        """Return weights of the lists' features as those that no equation sets."""
        free = np.zeros(len(self._factor))
        free[self._columns] = rational.round_to_floats([*map(int, weights)]) if isinstance(weights[0], int) else weights
        free[self._columns] *= self._scales
        return np.asarray(free / np.abs(free).max())

    def _core(self, pairs: IntArray, rows: FloatArray) -> list[int] | None:
        """Return a core of comparisons (chosen, other) [k, 2] by the multipliers of the projection, `None` if whole
        numbers do not confirm it.
        """
        _, multipliers = project(rows, self._cap.unit)
        pairs, multipliers = pairs[multipliers > 0], multipliers[multipliers > 0]
        given, cap = self._lists.given, self._lists.cap
        for bits in _BITS:
            times = np.array([round(m) for m in np.ldexp(multipliers / multipliers.max(), bits).tolist()], dtype=object)
            if cap is not None and cap(times @ (given[pairs[:, 1]] - given[pairs[:, 0]])):
                places = [self._lists.places[row] for row in pairs[:, 1].tolist()]
                return [x for place, m in zip(places, times.tolist(), strict=True) if m for x in (*place, m)]
        return None

    def _witnessed(self, weights: FloatArray, chosen: Choices) -> SelectionOrCore:
        scores = self._rows @ weights
        starts = self._lists.offsets[:-1]
        best = np.flatnonzero(scores == np.maximum.reduceat(scores, starts)[self._lists.numbers])
        selection: Mapping[int, int] = dict(enumerate(best[np.searchsorted(best, starts)].tolist()))
        free = np.linalg.solve(self._factor, weights)[self._columns] / self._scales
        return SelectionOrCore({**selection, **chosen}, [], free.tolist())
