"""The lists as proofs see them: distinct feature vectors with exact costs, made from the caller's lists alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import gcd
from operator import mul
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lpmert.certificates.check.claims import Claim
from lpmert.certificates.check.given import given_rows, places_of
from lpmert.certificates.format import integers
from lpmert.errors import CertificateError, FloatArray, IntArray
from lpmert.model.given import MAGNITUDE_LIMIT
from lpmert.model.nbest import NBest
from lpmert.numeric import rational

if TYPE_CHECKING:
    from lpmert.certificates.check.ratio import Price

REPRESENTATIVE: Mapping[str, Callable[[tuple[int, ...], tuple[int, ...]], tuple[int, ...]]] = {
    "first": lambda first, _: first,
    "best": min,
    "worst": max,
}
"""What a hypothesis with the features of an earlier one makes of what that one loses."""

_EPSILON = float(np.finfo(np.float64).eps)
_SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)
_EXACT_INTEGERS = 2.0**52
_LARGEST_SCORE = 1e300
_LARGEST_COST = 1 << 61


class ProofLists:
    """The caller's S lists and, after them, a list {a, 0} for each of R limits a; its 0 may not be chosen.

    offsets [S + R + 1]; given [m, D]: the distinct vectors of every list; features [m, d], columns [d, m]: the columns
    that cones span, times 2**exponent; all others are, within lists, linear combinations of these. Once the claim is
    known: worth [K, m]: whole numbers, int64 or, where sums could overflow, Python's; lists of two with parallel
    differences are charged to the first of them; worth_of: the same by row; costs [m], cost: for a claim of one sum.
    What the claim sums is constant [K] + step * the summed worth, exactly. Raises `CertificateError` if limits,
    equations or exponents do not fit.
    """

    worth: IntArray
    worth_of: list[tuple[int, ...]]
    constant: list[int]
    step: int

    def __init__(
        self,
        nbest: NBest,
        claim: Claim,
        ties: str,
        exponents: Mapping[str, int],
        limits: Sequence[Sequence[float]] = (),
        equations: Sequence[Sequence[Fraction]] = (),
    ) -> None:
        self.n_lists = nbest.n_lists
        given = given_rows(nbest, limits, equations)
        self._bounds = given.offsets
        seen: dict[tuple[object, ...], int] = {}
        numbers = np.repeat(np.arange(len(self._bounds) - 1), np.diff(self._bounds)).tolist()
        rows = given.features.tolist() if given.whole is None else given.whole
        leader = [seen.setdefault((s, *row), k) for k, (s, row) in enumerate(zip(numbers, rows, strict=True))]
        self._rows = np.array([*seen.values()])
        self.offsets: IntArray = np.searchsorted(self._rows, self._bounds)
        if (np.diff(self.offsets)[self.n_lists :] < 2).any():
            raise CertificateError("the equations leave no weights inside a limit")
        self.given = given.features[self._rows]
        self._whole_given = None if given.whole is None else [given.whole[k] for k in seen.values()]
        self._places = places_of(self.given)
        self.names, self.free = given.names, given.free
        self.numbers = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        hypotheses = self._rows - self._bounds[self.numbers]
        self._places_of = list(zip(self.numbers.tolist(), hypotheses.tolist(), strict=True))
        self._row_of = {place: row for row, place in enumerate(self._places_of)}
        self._whole: dict[int, list[int]] = {}
        self.features = self._spanned(exponents)
        self.columns = np.ascontiguousarray(self.features.T)
        self._grid = places_of(self.features)
        self._reach = np.abs(self.features).max(axis=0, initial=0.0)
        self.claim, self.several = claim, claim.several
        kept: dict[int, tuple[int, ...]] = {}
        for first, value in zip(leader, claim.values, strict=False):
            kept[first] = REPRESENTATIVE[ties](kept.get(first, value), value)
        self.values = [*kept.values()]

    @property
    def limit_rows(self) -> dict[int, int]:
        """The list of each limit and the row of its vector."""
        return {s: int(self.offsets[s]) for s in range(self.n_lists, len(self.offsets) - 1)}

    @property
    def target(self) -> int:
        """The least cost of selections that a claim of one sum allows."""
        return -((self.constant[0] - self.claim.goal) // self.step)

    def summed(self, cost: int) -> int:
        """Return what a claim of one sum sums, for a total cost."""
        return self.constant[0] + self.step * cost

    def row(self, number: int, hypothesis: int) -> int:
        """Return the row of a hypothesis of the caller's list, both counted from 0."""
        row = self._row_of.get((number, hypothesis))
        if row is None:
            raise CertificateError(f"hypothesis {hypothesis} of list {number} is missing, or repeats an earlier one")
        return row

    def place(self, row: int) -> tuple[int, int]:
        """Return the caller's list and hypothesis of a row, both counted from 0."""
        return self._places_of[row]

    def closed(self, low: Sequence[int], high: Sequence[int]) -> bool:
        """Whether no selection whose worth is in a box undercuts the claim: it breaks a limit, or its best corner does
        not.
        """
        return low[-1] > 0 or self.claim.holds(*(self.sums(corner) for corner in (low, high)))

    def price(self, low: Sequence[int], high: Sequence[int], at: object) -> Price:
        """Return prices of worth by which nothing in a box undercuts the claim, good at these sums."""
        price = self.claim.price(self.sums(low), self.sums(high), integers(at, len(self.constant)))
        less = sum(a * b for a, b in zip(price.slopes, self.constant, strict=True))
        return price._replace(slopes=[*price.slopes, price.forbidden], target=price.target - less)

    def sums(self, worth: Sequence[int]) -> list[int]:
        """Return what is summed by a selection of this worth."""
        return [int(a) + b for a, b in zip(worth, self.constant, strict=False)]

    def whole(self, row: int) -> list[int]:
        """Return the features of a row times one number that makes those of all rows whole."""
        found = self._whole.get(row)
        if found is None:
            given = self._given_in_whole_numbers(row)
            found = [given[d] << shift for d, shift in zip(self._spanning, self._shifts, strict=True)]
            self._whole[row] = found
        return found

    def _given_in_whole_numbers(self, row: int) -> list[int]:
        if self._whole_given is not None:
            return self._whole_given[row]
        ratios = [value.as_integer_ratio() for value in self.given[row].tolist()]
        return [numerator * ((1 << self._places) // denominator) for numerator, denominator in ratios]

    def tolerances(self, points: FloatArray) -> tuple[FloatArray, float]:
        """Bound the rounding errors [m] of scores at points [m, d], rounded from integers, and that of a difference of
        first ones less the sizes of all others; 0 where they are exact.

        Higham, Accuracy and Stability of Numerical Algorithms, section 3.1, for any order of the sum, twice.
        """
        largest: FloatArray = np.abs(points) @ self._reach
        whole: float = largest.sum()
        if not whole < _LARGEST_SCORE:
            raise CertificateError("scores at a ray are beyond the range of double precision")
        unit = (np.count_nonzero(points, axis=1) == 1) & (np.abs(points).max(axis=1) == 1.0)
        # Doubles hold all features, but for those that equations make.
        exact = _EXACT_INTEGERS * 0.5**self._grid if self._whole_given is None and self._grid < 900 else 0.0
        errors = (points.shape[1] + 4) * (_EPSILON * largest + _SMALLEST_NORMAL)
        error = 2.0 * (sum(points.shape) + 4) * (_EPSILON * whole + _SMALLEST_NORMAL)
        scores = np.where((unit & (self._whole_given is None)) | (largest < exact), 0.0, errors)
        return scores, 0.0 if 4.0 * whole < exact else error

    def attained(self, weights: Sequence[float]) -> list[int]:
        """Return the sums of decoding with weights [D], or those of them that no equation sets.

        Raises `CertificateError` if hypotheses that differ in what is summed tie, or if a limit is broken.
        """
        w = np.array(weights)[self.free]
        if not np.abs(w).max() <= MAGNITUDE_LIMIT:
            raise CertificateError("a weight is too large; multiply all by one power of two")
        scores, size = self.given @ w, np.abs(self.given) @ np.abs(w)
        error = 2 * (len(w) + 3) * (_EPSILON * np.maximum.reduceat(size, self.offsets[:-1]) + _SMALLEST_NORMAL)
        close = np.flatnonzero(scores >= (np.maximum.reduceat(scores, self.offsets[:-1]) - error)[self.numbers])

        (exact,) = rational.to_integers(w[None])
        chosen = []
        for s, rows in enumerate(np.split(close, np.searchsorted(close, self.offsets[1:-1]))):
            values = {k: sum(map(mul, exact, self._given_in_whole_numbers(k))) for k in rows.tolist()}
            best = max(values, key=values.__getitem__)
            winners = [row for row, value in values.items() if value == values[best]]
            if s >= self.n_lists:
                if winners != [self.offsets[s]]:
                    raise CertificateError(f"the weights break limit {s - self.n_lists}")
                continue
            if len({self.values[row] for row in winners}) > 1:
                raise CertificateError(f"at the weights, hypotheses of list {s} tie that lose differently")
            chosen.append(self.values[best])
        return [sum(column) for column in zip(*chosen, strict=True)]

    def _spanned(self, exponents: Mapping[str, int]) -> FloatArray:
        if not set(exponents) <= set(self.names) or any(abs(value) > 1000 for value in exponents.values()):
            raise CertificateError("exponents are needed for features of the lists, and of at most 1000")
        self._spanning = spanned = [self.names.index(name) for name in exponents]
        self._shifts = [value - min(exponents.values()) for value in exponents.values()]
        first = self.offsets[:-1][self.numbers]
        varying = np.flatnonzero((self.given != self.given[first]).any(axis=0))
        omitted = [d for d in range(len(self.names)) if d not in spanned and (d in varying or self._whole_given)]
        if omitted:
            whole = np.array([self._given_in_whole_numbers(row) for row in range(len(self.given))], dtype=object)
            differences = whole - whole[first]
            for d in omitted:
                if rational.solve_integers(differences[:, spanned].tolist(), differences[:, d].tolist()) is None:
                    name = self.names[d]
                    raise CertificateError(f"feature {name!r:.40} has no exponent, but depends on none that has")
        shifts = np.array(list(exponents.values()), dtype=np.int64)
        with np.errstate(over="ignore"):
            scaled = np.ldexp(self.given[:, spanned], shifts)
        if not np.isfinite(scaled).all() or np.any(np.ldexp(scaled, -shifts) != self.given[:, spanned]):
            raise CertificateError("an exponent takes a feature beyond the range of double precision")
        return np.ascontiguousarray(scaled)

    def weigh(self) -> None:
        """Set what hypotheses are worth to the claim, whose bound is known by now.

        The 0 of a limit costs more than everything else, or, where there are several sums, adds 1 to a last one.
        """
        starts = self.offsets[:-1]
        own = self.claim.worth(self.values, starts[: self.n_lists])
        whole = np.zeros((len(own), len(self.features)), dtype=object)
        whole[:, : len(self.values)] = own
        self._merge_pairs(whole)
        least = np.minimum.reduceat(whole, starts, axis=1)
        excess = whole - least[:, self.numbers]
        self.constant = [int(value) for value in least.sum(axis=1)]
        self.step = (gcd(*excess[0]) or 1) if len(own) == 1 else 1
        worth = excess // self.step
        forbidden = 1 + int(np.maximum.reduceat(worth, starts, axis=1).sum(axis=1).max())
        safe = forbidden * (2 + len(self.limit_rows)) < _LARGEST_COST
        if len(own) > 1:
            worth, forbidden = np.concatenate([worth, np.zeros_like(worth[:1])]), 1
        for row in self.limit_rows.values():
            worth[-1, row + 1] = forbidden
        self.worth = worth.astype(np.int64) if safe else worth
        self.worth_of = [*zip(*self.worth.tolist(), strict=True)]
        self.costs: IntArray = self.worth[0]
        self.cost: list[int] = self.costs.tolist()

    def _merge_pairs(self, worth: NDArray[np.object_]) -> None:
        """Charge lists of two that one and the same hyperplane decides to the first of them."""
        pairs = self.offsets[:-1][np.flatnonzero(np.diff(self.offsets)[: self.n_lists] == 2)]
        merged: dict[tuple[int, ...], tuple[int, int]] = {}
        for row in pairs.tolist():
            difference = [a - b for a, b in zip(self.whole(row), self.whole(row + 1), strict=True)]
            sign = 1 if next(value for value in difference if value) > 0 else -1
            divisor = sign * gcd(*difference)
            own = (row, row + 1)[::sign]
            first = merged.setdefault(tuple(value // divisor for value in difference), own)
            if first != own:
                worth[:, list(first)] += worth[:, list(own)]
                worth[:, list(own)] = 0
