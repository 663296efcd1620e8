"""Do these choices go together? Answers with a witness, or with a core and its exact multipliers.

Within a cosine, that is a core that only weights outside the cap could refute, or a facet: a limit that holds the cap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm
from typing import NamedTuple

import numpy as np

from lpmert import core
from lpmert.certificates.check.lists import ProofLists, rounded
from lpmert.certificates.check.regions import axes, basis_of, near
from lpmert.certificates.check.tree import Part, whole_part
from lpmert.errors import FloatArray, IntArray
from lpmert.model.nbest import NBest
from lpmert.numeric import rational
from lpmert.numeric.cone import Cap, project, reach_cap
from lpmert.numeric.lists import FEASIBLE, INFEASIBLE, first_best, sorted_lists
from lpmert.numeric.rounding import in_decimals

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


Feasibility = Callable[[Choices], SelectionOrCore]
"""Decides whether choices go together."""


class Anywhere:
    """Decides whether any weights make choices: by the point of least norm, and where rounding hides it exactly."""

    def __init__(self, lists: ProofLists) -> None:
        n_features = lists.features.shape[1]
        self._lists = lists
        unsorted = sorted_lists(lists.features, lists.offsets, np.zeros(len(lists.features), dtype=np.int64))
        self._least_norm = core.LeastNorm(unsorted.native())
        self._corral, self._origin = core.Corral(n_features), np.zeros(n_features)

    def __call__(self, chosen: Choices, /) -> SelectionOrCore:
        """Return the answer for choices of at least one list."""
        answer = self._in_doubles(chosen)
        exact = self._lists.bits <= _EXACT_BITS
        if answer is None or not (exact or answer.selection is None or self._confirmed(answer, chosen)):
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
        """Return the answer, `None` where rounding hides it or a core of the doubles is none of the exact features."""
        lists, corral = self._lists, self._corral
        decided = np.array(list(chosen), dtype=np.int64)
        positions = np.full(len(lists.offsets) - 1, -1)
        positions[decided] = np.array(list(chosen.values())) - lists.offsets[decided]
        corral.restart(self._origin)  # else the answer would depend on the questions before
        verdict = self._least_norm.separate(decided, positions, 0, corral)
        if verdict == FEASIBLE:
            return self._witnessed(corral.point, chosen)
        if verdict == INFEASIBLE:
            others = corral.others + lists.offsets[corral.lists]
            pairs = [(chosen[s], row) for s, row in zip(corral.lists.tolist(), others.tolist(), strict=True)]
            multipliers = rational.farkas([(lists.whole[row] - lists.whole[other]).tolist() for row, other in pairs])
            if multipliers is not None:
                return SelectionOrCore(None, _lines(lists, pairs, multipliers))
        return None

    def _witnessed(self, weights: FloatArray, chosen: Choices) -> SelectionOrCore:
        """Return the selection at weights that surely make the choices; in the other lists rounding may decide."""
        rows = first_best(self._lists.features @ weights, self._lists.offsets[:-1])
        return SelectionOrCore({**dict(enumerate(rows.tolist())), **chosen}, [], weights.tolist())


class Inside:
    """Decides in exact arithmetic whether weights inside a box, or any weights, make choices."""

    def __init__(self, lists: ProofLists, part: Part) -> None:
        self._lists, self._rows, self._starts = lists, part.rows, part.starts
        boxed = len(part.shape.rays) > 0
        rays = part.shape.rays if boxed else axes(lists.features.shape[1])
        self._rays: list[list[int]] = rays.tolist()
        self._table = lists.whole[part.rows] @ rays.T
        self._rounded, _ = rounded(self._table)
        self._numbers: list[int] = lists.numbers[part.rows[part.starts]].tolist()
        self._places = {s: slice(k, k + n) for s, k, n in zip(self._numbers, part.starts, part.sizes, strict=True)}
        units = np.eye(len(self._rays), dtype=np.int64)
        # The multiples of the rays that add up to weights inside: those within that of the centre.
        inside = np.concatenate([units[:1], units[0] + units[1:], units[0] - units[1:]])
        self._inside: list[list[int]] = inside.tolist() if boxed else []
        self._first: list[int] = (units[0] if boxed else units.sum(axis=0)).tolist()

    def __call__(self, chosen: Choices, /) -> SelectionOrCore:
        """Return the answer for choices among the hypotheses that may win there."""
        pairs: list[tuple[int, int]] = []
        rows, divisors = list(self._inside), []
        shares = self._first
        while True:
            broken = self._broken(shares, chosen)
            if not broken:
                columns = zip(*self._rays, strict=True)
                point = [sum(x * y for x, y in zip(shares, column, strict=True)) for column in columns]
                return SelectionOrCore(self._decoded(shares, chosen), [], point)
            pairs += [(row, other) for row, other, _ in broken]
            for _, _, lead in broken:
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

    def _broken(self, shares: list[int], chosen: Choices) -> list[tuple[int, int, list[int]]]:
        """Return each choice that is not strictly its list's best, the best other one, and its lead at the rays."""
        broken = []
        for number, row in chosen.items():
            if number not in self._places:
                continue
            rows, table = self._rows[self._places[number]].tolist(), self._table[self._places[number]]
            own = rows.index(row)
            values = (table @ np.array(shares, dtype=object)).tolist()
            best = max((k for k in range(len(rows)) if k != own), key=values.__getitem__, default=own)
            if best != own and values[best] >= values[own]:
                broken.append((row, rows[best], (table[own] - table[best]).tolist()))
        return broken

    def _decoded(self, shares: list[int], chosen: Choices) -> Choices:
        """Return the selection at weights that surely make the choices; in the other lists rounding may decide."""
        if not len(self._rows):
            return chosen
        best = first_best(self._rounded @ rounded(np.array(shares, dtype=object))[0], self._starts)
        return {**dict(zip(self._numbers, self._rows[best].tolist(), strict=True)), **chosen}


def _lines(lists: ProofLists, pairs: list[tuple[int, int]], multipliers: list[int]) -> list[int]:
    divisor = gcd(*multipliers)
    return [
        value
        for (_, other), multiplier in zip(pairs, multipliers, strict=True)
        if multiplier
        for value in (*lists.places[other], multiplier // divisor)
    ]


_CORE_BITS = (8, 16, 24, 32, 44, 53)
"""Of the largest multiplier, the fewest with which a core refutes its choices."""


class WithinCap:
    """Decides whether weights within a cosine make choices: in orthonormal coordinates of those that fulfil equations.

    feasible: whether any weights do; exponents: those of the lists' features, by their number among all.
    """

    def __init__(
        self,
        lists: ProofLists,
        feasible: Feasibility,
        cap: Cap,
        equations: Sequence[Sequence[Fraction]],
        exponents: Mapping[int, int],
    ) -> None:
        self._lists, self._everywhere = lists, feasible
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
        answer = self._everywhere(chosen)
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
        for bits in _CORE_BITS:
            times = np.array([round(m) for m in np.ldexp(multipliers / multipliers.max(), bits).tolist()], dtype=object)
            if cap is not None and cap(times @ (given[pairs[:, 1]] - given[pairs[:, 0]])):
                places = [self._lists.places[row] for row in pairs[:, 1].tolist()]
                return [x for place, m in zip(places, times.tolist(), strict=True) if m for x in (*place, m)]
        return None

    def _witnessed(self, weights: FloatArray, chosen: Choices) -> SelectionOrCore:
        rows = first_best(self._rows @ weights, self._lists.offsets[:-1])
        free = np.linalg.solve(self._factor, weights)[self._columns] / self._scales
        return SelectionOrCore({**dict(enumerate(rows.tolist())), **chosen}, [], free.tolist())


_FACET_BITS = (16, 24, 32, 44, 53)
"""Of the largest multiplier, the fewest with which a facet holds the cap."""

_STEPS = 20

_ROUNDS = 200


def facet_against(
    weights: Sequence[Fraction], nbest: NBest, limits: Sequence[Sequence[float]], cap: Cap
) -> list[int] | None:
    """Return a vector [D] whose product is positive with all weights of a cap, and not with any of the cell of weights
    [D]; `None` if the cap reaches into that cell, or as near to it as rounding hides.

    It is a sum of negative multiples of the cell's rows, which G1 takes from the projection of the centre, and of the
    centre: weights whose product with the centre is not positive are left to the facet that the centre is.
    """
    first, second, multipliers = _multipliers(weights, nbest, limits, cap)
    used = multipliers > 0.0
    if not used.any():
        return None
    whole = rational.to_integers(np.concatenate([first[used], second[used]]))
    rows = [[b - a for a, b in zip(*pair, strict=True)] for pair in zip(whole, whole[used.sum() :], strict=False)]
    sizes = multipliers[used] / multipliers.max()
    centre, square = list(map(Fraction, cap.centre.tolist())), 1 - Fraction(cap.cosine) ** 2
    for bits in _FACET_BITS:
        times = [round(size * (1 << bits)) for size in sizes.tolist()]
        facet = [sum(m * value for m, value in zip(times, column, strict=True)) for column in zip(*rows, strict=True)]
        if near(list(map(Fraction, facet)), centre, square, strictly=True):
            facet = _turned(facet, centre, square)
            cuts = sum((value * w for value, w in zip(facet, weights, strict=True)), Fraction(0)) <= 0
            return facet if cuts else None
    return None


def _turned(facet: list[int], centre: list[Fraction], square: Fraction) -> list[int]:
    """Return a facet less a multiple of the cap's centre, which all weights are on the side of: nearly a tangent."""
    whole = [int(value * lcm(*(c.denominator for c in centre))) for value in centre]
    step = Fraction(max(map(abs, facet)), max(map(abs, whole)))
    times = Fraction(0)
    for _ in range(_STEPS):
        step /= 2
        turned = [value - (times + step) * c for value, c in zip(facet, whole, strict=True)]
        times += step if near(turned, centre, square, strictly=True) else 0
    found = [value * times.denominator - times.numerator * c for value, c in zip(facet, whole, strict=True)]
    return [value // (gcd(*found) or 1) for value in found]


def _multipliers(
    weights: Sequence[Fraction], nbest: NBest, limits: Sequence[Sequence[float]], cap: Cap
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return vectors [k, D] whose differences, the first less the second ones, are rows of the cell of weights [D], and
    their multipliers [k] in the projection of the cap's centre on it: of a list, only those are taken that a point
    before breaks the most.
    """
    features = in_decimals(nbest.dense_features())
    starts = nbest.offsets[:-1]
    common = lcm(*(w.denominator for w in weights))
    exact = np.array([int(w * common) for w in weights], dtype=object)
    chosen = features[first_best(np.array(rational.to_integers(features), dtype=object) @ exact, starts)]
    first = np.array(limits, dtype=np.float64).reshape(-1, nbest.n_features)
    second, nearest, multipliers = np.zeros_like(first), cap.unit, np.zeros(len(first))
    for _ in range(_ROUNDS):
        worst = features[first_best(features @ nearest, starts)]
        differences = chosen - worst
        broken = differences @ nearest < -1e-12 * np.abs(differences).sum(axis=1)
        if not broken.any() and multipliers.any():
            break
        first, second = np.concatenate([first, chosen[broken]]), np.concatenate([second, worst[broken]])
        if not len(first):
            break
        nearest, multipliers = project(first - second, cap.unit)
        if not broken.any():
            break
    return first, second, multipliers
