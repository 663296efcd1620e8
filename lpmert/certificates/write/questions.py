"""Do these choices go together? Answers with a witness or with a core and its exact multipliers, for certificates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import gcd, lcm
from typing import NamedTuple, Protocol

import numpy as np

from lpmert import core
from lpmert.certificates.check.lists import ProofLists
from lpmert.certificates.check.parts import Part, whole_part
from lpmert.certificates.check.shapes import orthants
from lpmert.errors import FloatArray
from lpmert.numeric import rational
from lpmert.numeric.lists import FEASIBLE, INFEASIBLE, sorted_lists
from lpmert.numeric.lp import LinOptimizer

_EXACT_BITS = 53

Choices = Mapping[int, int]
"""List -> row."""


class SelectionOrCore(NamedTuple):
    """What weights that make the choices choose in every list (list -> row), or else a core.

    core: [list, other hypothesis, multiplier, list, ...]. weights: those that make the choices, as the lists' features
    take them, in whole numbers or doubles.
    """

    selection: Choices | None
    core: list[int]
    weights: Sequence[float] = ()


class Question(Protocol):
    """Decides whether choices go together."""

    def __call__(self, chosen: Choices, /) -> SelectionOrCore: ...


class Anywhere:
    """Decides whether any weights make choices: by the point of least norm, else by linear programs, always exactly."""

    def __init__(self, lists: ProofLists) -> None:
        n_features = lists.features.shape[1]
        self._lists = lists
        self._optimizer = LinOptimizer(lists.features, lists.offsets)
        unsorted = sorted_lists(lists.features, lists.offsets, np.zeros(len(lists.features), dtype=np.int64))
        self._least_norm = core.LeastNorm(unsorted.native())
        self._corral, self._nowhere = core.Corral(n_features), np.zeros(n_features)

    def __call__(self, chosen: Choices, /) -> SelectionOrCore:
        """Return the answer for choices of at least one list."""
        answer = self._in_doubles(chosen)
        exact = self._lists.bits <= _EXACT_BITS
        if answer is None or not (exact or answer.selection is None or self._confirmed(answer, chosen)):
            # Features had to be rounded to doubles, and with these something else is so.
            return self._exactly(chosen)
        return answer

    @cached_property
    def _exactly(self) -> Inside:
        return Inside(self._lists, whole_part(self._lists))

    def _confirmed(self, answer: SelectionOrCore, chosen: Choices) -> bool:
        lists = self._lists
        (weights,) = np.array(rational.to_integers([answer.weights]), dtype=object)
        for number, row in chosen.items():
            scores = lists.whole[lists.offsets[number] : lists.offsets[number + 1]] @ weights
            if np.count_nonzero(scores >= scores[row - lists.offsets[number]]) > 1:
                return False
        return True

    def _in_doubles(self, chosen: Choices) -> SelectionOrCore | None:
        """Return the answer, `None` if a core of features as doubles is none of the exact ones."""
        lists, corral = self._lists, self._corral
        decided = np.array(list(chosen), dtype=np.int64)
        positions = np.full(len(lists.offsets) - 1, -1)
        positions[decided] = np.array(list(chosen.values())) - lists.offsets[decided]
        corral.restart(self._nowhere)  # else the answer would depend on the questions before
        verdict = self._least_norm.separate(decided, positions, 0, corral)
        if verdict == FEASIBLE:
            return self._witnessed(corral.point, chosen)
        if verdict == INFEASIBLE:
            others = corral.others + lists.offsets[corral.lists]
            pairs = [(chosen[s], row) for s, row in zip(corral.lists.tolist(), others.tolist(), strict=True)]
            multipliers = rational.farkas([_difference(lists, *pair) for pair in pairs])
            if multipliers is not None:
                return SelectionOrCore(None, _lines(lists, pairs, multipliers))
        return self._by_programs(chosen)

    def _by_programs(self, chosen: Choices) -> SelectionOrCore | None:
        verdict = self._optimizer.solve(chosen)
        if verdict.attainable:
            exact = rational.round_to_floats(verdict.exact_weights or ())
            return self._witnessed(exact if verdict.weights is None else verdict.weights, chosen)
        pairs = [(row, other) for _, row, other in verdict.core]
        multipliers = list(verdict.multipliers)
        if not rational.adds_up_to_zero([_difference(self._lists, *pair) for pair in pairs], multipliers):
            return None
        return SelectionOrCore(None, _lines(self._lists, pairs, multipliers))

    def _witnessed(self, weights: FloatArray, chosen: Choices) -> SelectionOrCore:
        """Return the selection at weights that surely make the choices; in the other lists rounding may decide."""
        scores = self._lists.features @ weights
        starts = self._lists.offsets[:-1]
        best = np.flatnonzero(scores == np.maximum.reduceat(scores, starts)[self._lists.numbers])
        rows = best[np.searchsorted(best, starts)]
        return SelectionOrCore({**dict(enumerate(rows.tolist())), **chosen}, [], weights.tolist())


class Inside:
    """Decides in exact arithmetic whether weights inside a cone make choices."""

    def __init__(self, lists: ProofLists, cone: Part) -> None:
        self._lists = lists
        self._scores: dict[int, list[int]] = {}
        self._survivors: dict[int, list[int]] = {}
        rays = cone.shape.rays if len(cone.shape.rays) else next(orthants(lists.features.shape[1]))
        self._rays: list[list[int]] = rays.tolist()
        for row in cone.rows.tolist():
            whole = lists.whole[row].tolist()
            self._scores[row] = [sum(x * y for x, y in zip(whole, ray, strict=True)) for ray in self._rays]
            self._survivors.setdefault(int(lists.numbers[row]), []).append(row)
        units = np.eye(len(self._rays), dtype=np.int64)
        # The multiples of the rays that add up to weights inside: positive, or within that of the centre.
        inside = np.concatenate([units[:1], units[0] + units[1:], units[0] - units[1:]]) if cone.shape.boxed else units
        self._inside: list[list[int]] = inside.tolist() if len(cone.shape.rays) else []
        self._first: list[int] = (units[0] if cone.shape.boxed else units.sum(axis=0)).tolist()

    def __call__(self, chosen: Choices, /) -> SelectionOrCore:
        """Return the answer for choices among the hypotheses that may win in the cone."""
        pairs: list[tuple[int, int]] = []
        rows, divisors = list(self._inside), []
        shares = self._first
        while True:
            selection, broken = self._decode(shares, chosen)
            if not broken:
                columns = zip(*self._rays, strict=True)
                point = [sum(x * y for x, y in zip(shares, column, strict=True)) for column in columns]
                return SelectionOrCore(selection, [], point)
            pairs += broken
            for row, other in broken:
                lead = [a - b for a, b in zip(self._scores[row], self._scores[other], strict=True)]
                divisors.append(gcd(*lead) or 1)
                rows.append([value // divisors[-1] for value in lead])
            answer = rational.decide(rows)
            if isinstance(answer, rational.Infeasible):
                common = lcm(*divisors)
                products = zip(answer.multipliers[len(self._inside) :], divisors, strict=True)
                return SelectionOrCore(
                    None, _lines(self._lists, pairs, [m * (common // divisor) for m, divisor in products])
                )
            shares = answer.weights

    def _decode(self, shares: list[int], chosen: Choices) -> tuple[Choices, list[tuple[int, int]]]:
        """Return the selection, and for each choice that is not strictly the best the worst offender."""
        selection: dict[int, int] = {}
        broken = []
        for number, rows in self._survivors.items():
            value = {row: sum(x * y for x, y in zip(shares, self._scores[row], strict=True)) for row in rows}
            selection[number] = own = chosen.get(number, max(rows, key=value.__getitem__))
            best = max((row for row in rows if row != own), key=value.__getitem__, default=own)
            if number in chosen and best != own and value[best] >= value[own]:
                broken.append((own, best))
        return selection, broken


def _difference(lists: ProofLists, row: int, other: int) -> list[int]:
    difference: list[int] = (lists.whole[row] - lists.whole[other]).tolist()
    return difference


def _lines(lists: ProofLists, pairs: list[tuple[int, int]], multipliers: list[int]) -> list[int]:
    divisor = gcd(*multipliers)
    return [
        value
        for (_, other), multiplier in zip(pairs, multipliers, strict=True)
        if multiplier
        for value in (*lists.places[other], multiplier // divisor)
    ]
