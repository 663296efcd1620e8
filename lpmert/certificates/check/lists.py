"""The lists as proofs see them: distinct feature vectors with exact costs, made from the caller's lists alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, cmp_to_key
from math import gcd
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lpmert.certificates.check.claims import Claim
from lpmert.certificates.format import integers
from lpmert.errors import CertificateError, FloatArray, IntArray
from lpmert.model.given import MAGNITUDE_LIMIT
from lpmert.model.meant import meant
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

    offsets [S + R + 1]; given [m, D]: the distinct vectors of every list; features [m, d]: the columns that cones span,
    times 2**exponent; all others are, within lists, linear combinations of these. Once the claim is known: worth
    [K, m]: whole numbers, int64 or, where sums could overflow, Python's; lists of two with parallel differences are
    charged to the first of them. What the claim sums is constant [K] + step * the summed worth, exactly. Raises
    `CertificateError` if limits or exponents do not fit.
    """

    worth: IntArray
    constant: list[int]
    step: int

    def __init__(
        self,
        nbest: NBest,
        claim: Claim,
        ties: str,
        exponents: Mapping[str, int],
        limits: Sequence[Sequence[float]] = (),
    ) -> None:
        self.n_lists = nbest.n_lists
        given = np.concatenate([meant(nbest.dense_features()).features, limit_rows(limits, nbest.n_features)])
        self._bounds = np.concatenate([nbest.offsets, nbest.offsets[-1] + 2 * np.arange(1, len(limits) + 1)])
        leader = _first_equals(given, self._bounds)
        self._rows = np.flatnonzero(leader == np.arange(len(leader)))
        self.offsets: IntArray = np.searchsorted(self._rows, self._bounds)
        self.given = given[self._rows]
        self.numbers = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        self.features = self._spanned(exponents, nbest.names)
        self._reach = np.abs(self.features).max(axis=0, initial=0.0)
        self.claim, self.several = claim, claim.several
        kept: dict[int, tuple[int, ...]] = {}
        for first, value in zip(leader.tolist(), claim.values, strict=False):
            kept[first] = REPRESENTATIVE[ties](kept.get(first, value), value)
        self.values = [*kept.values()]

    @property
    def limit_rows(self) -> dict[int, int]:
        """The list of each limit and the row of its vector."""
        return {s: int(self.offsets[s]) for s in range(self.n_lists, len(self.offsets) - 1)}

    @property
    def costs(self) -> IntArray:
        """What a claim of one sum asks for [m]."""
        costs: IntArray = self.worth[0]
        return costs

    @property
    def target(self) -> int:
        """The least cost of selections that a claim of one sum allows."""
        return -((self.constant[0] - self.claim.goal) // self.step)

    def summed(self, cost: int) -> int:
        """Return what a claim of one sum sums, for a total cost."""
        return self.constant[0] + self.step * cost

    def row(self, number: int, hypothesis: int) -> int:
        """Return the row of a hypothesis of the caller's list, both counted from 0."""
        bounds = self._python_bounds
        if not 0 <= number < len(bounds) - 1 or not 0 <= hypothesis < bounds[number + 1] - bounds[number]:
            raise CertificateError(f"there is no hypothesis {hypothesis} of list {number}")
        row = self._row_of.get(bounds[number] + hypothesis)
        if row is None:
            raise CertificateError(f"hypothesis {hypothesis} of list {number} repeats the features of an earlier one")
        return row

    @cached_property
    def _python_bounds(self) -> list[int]:
        return list(map(int, self._bounds))

    @cached_property
    def _row_of(self) -> dict[int, int]:
        return {given: row for row, given in enumerate(self._rows.tolist())}

    def place(self, row: int) -> tuple[int, int]:
        """Return the caller's list and hypothesis of a row, both counted from 0."""
        return int(self.numbers[row]), int(self._rows[row] - self._bounds[self.numbers[row]])

    @cached_property
    def cost(self) -> list[int]:
        """The costs as Python's numbers."""
        return list(map(int, self.costs))

    def worth_of(self, row: int) -> tuple[int, ...]:
        """Return the worth [K] of a row as Python's numbers."""
        return self._worth_of[row]

    @cached_property
    def _worth_of(self) -> list[tuple[int, ...]]:
        return [*zip(*self.worth.tolist(), strict=True)]

    def closed(self, low: Sequence[int], high: Sequence[int]) -> bool:
        """Whether no selection whose worth is in a box undercuts the claim: it breaks a limit, or its best corner does
        not.
        """
        return low[-1] > 0 or self.claim.holds(*(self._sums(corner) for corner in (low, high)))

    def price(self, low: Sequence[int], high: Sequence[int], at: object) -> Price:
        """Return prices of worth by which nothing in a box undercuts the claim, good at these sums."""
        price = self.claim.price(self._sums(low), self._sums(high), integers(at, len(self.constant)))
        less = sum(a * b for a, b in zip(price.slopes, self.constant, strict=True))
        return price._replace(slopes=[*price.slopes, price.forbidden], target=price.target - less)

    def point(self, worth: Sequence[int]) -> list[int]:
        """Return the sums of a selection of this worth, at least 1, at which prices can be taken."""
        return [max(1, value) for value in self._sums(worth)]

    def _sums(self, worth: Sequence[int]) -> list[int]:
        return [int(a) + b for a, b in zip(worth, self.constant, strict=False)]

    def whole(self, row: int) -> list[int]:
        """Return the features of a row times one power of two that makes those of all rows whole."""
        ratios = [value.as_integer_ratio() for value in self.features[row].tolist()]
        return [numerator * ((1 << self._grid) // denominator) for numerator, denominator in ratios]

    @cached_property
    def _grid(self) -> int:
        fractions, exponents = np.frexp(self.features)
        mantissas = np.ldexp(fractions, 53).astype(np.int64)
        lowest = exponents - 54 + np.frexp((mantissas & -mantissas).astype(np.float64))[1]
        return int(-np.min(lowest, where=mantissas != 0, initial=0))

    def tolerance(self, ray: FloatArray) -> float:
        """Bound the rounding error of scores at a ray [d], itself rounded from integers; 0 where scores are exact.

        Higham, Accuracy and Stability of Numerical Algorithms, section 3.1, for any order of the sum, twice.
        """
        largest = float(self._reach @ np.abs(ray))
        if not largest < _LARGEST_SCORE:
            raise CertificateError("scores at a ray are beyond the range of double precision")
        unit = np.count_nonzero(ray) == 1 and np.abs(ray).max() == 1.0
        if unit or (self._grid < 900 and largest * 2.0**self._grid < _EXACT_INTEGERS):
            return 0.0
        return (len(ray) + 4) * (_EPSILON * largest + _SMALLEST_NORMAL)

    def attained(self, weights: Sequence[float]) -> list[int]:
        """Return the sums of decoding with weights [D] for the caller's features.

        Raises `CertificateError` if hypotheses that differ in what is summed tie, or if a limit is broken.
        """
        w = np.array(weights)
        if not np.abs(w).max() <= MAGNITUDE_LIMIT:
            raise CertificateError("a weight is too large; multiply all by one power of two")
        scores, size = self.given @ w, np.abs(self.given) @ np.abs(w)
        error = 2 * (len(w) + 3) * (_EPSILON * np.maximum.reduceat(size, self.offsets[:-1]) + _SMALLEST_NORMAL)
        close = np.flatnonzero(scores >= (np.maximum.reduceat(scores, self.offsets[:-1]) - error)[self.numbers])

        def compare(i: int, j: int) -> int:
            return rational.compare_scores(w, self.given[i], self.given[j])

        chosen = []
        for s, rows in enumerate(np.split(close, np.searchsorted(close, self.offsets[1:-1]))):
            best = max(rows.tolist(), key=cmp_to_key(compare))
            winners = [row for row in rows.tolist() if row == best or compare(row, best) == 0]
            if s >= self.n_lists:
                if winners != [self.offsets[s]]:
                    raise CertificateError(f"the weights break limit {s - self.n_lists}")
                continue
            if len({self.values[row] for row in winners}) > 1:
                raise CertificateError(f"at the weights, hypotheses of list {s} tie that lose differently")
            chosen.append(self.values[best])
        return [sum(column) for column in zip(*chosen, strict=True)]

    def _spanned(self, exponents: Mapping[str, int], names: Sequence[str]) -> FloatArray:
        if not set(exponents) <= set(names) or any(abs(value) > 1000 for value in exponents.values()):
            raise CertificateError("exponents are needed for features of the lists, and of at most 1000")
        spanned = [names.index(name) for name in exponents]
        first = self.offsets[:-1][self.numbers]
        varying = np.flatnonzero((self.given != self.given[first]).any(axis=0))
        omitted = [d for d in varying.tolist() if d not in spanned]
        if omitted:
            whole = np.array(rational.to_integers(self.given), dtype=object)
            differences = whole - whole[first]
            for d in omitted:
                if rational.solve_integers(differences[:, spanned].tolist(), differences[:, d].tolist()) is None:
                    raise CertificateError(f"feature {names[d]!r:.40} has no exponent, but depends on none that has")
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
        for kept in ("cost", "_worth_of"):
            self.__dict__.pop(kept, None)
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

    def _merge_pairs(self, worth: NDArray[np.object_]) -> None:
        """Charge lists of two that one and the same hyperplane decides to the first of them."""
        pairs = self.offsets[:-1][np.flatnonzero(np.diff(self.offsets)[: self.n_lists] == 2)]
        merged: dict[tuple[int, ...], tuple[int, int]] = {}
        for row, difference in zip(
            pairs.tolist(), rational.difference_rows(self.features[pairs], self.features[pairs + 1]), strict=True
        ):
            sign = 1 if next(value for value in difference if value) > 0 else -1
            own = (row, row + 1)[::sign]
            first = merged.setdefault(tuple(sign * value for value in difference), own)
            if first != own:
                worth[:, list(first)] += worth[:, list(own)]
                worth[:, list(own)] = 0


def limit_rows(limits: Sequence[Sequence[float]], n_features: int) -> FloatArray:
    rows = np.zeros((2 * len(limits), n_features))
    for k, limit in enumerate(limits):
        if len(limit) != n_features or not any(limit) or max(map(abs, limit)) > MAGNITUDE_LIMIT:
            raise CertificateError(
                f"limit {k} must have {n_features} numbers, not all 0, of at most {MAGNITUDE_LIMIT:g}"
            )
        rows[2 * k] = limit
    return rows


def _first_equals(features: FloatArray, bounds: IntArray) -> IntArray:
    """Return for each row the first row of its list with the same features."""
    numbers = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    order = np.lexsort((*features.T[::-1], numbers))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (features[order[1:]] != features[order[:-1]]).any(axis=1) | (np.diff(numbers[order]) != 0)
    first = np.empty(len(order), dtype=np.int64)
    first[order] = order[np.flatnonzero(new)][np.cumsum(new) - 1]  # lexsort is stable: the first row comes first
    return first
