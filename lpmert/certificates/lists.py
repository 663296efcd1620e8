"""The problem as the checker sees it: boxes and equations of weights, and distinct feature vectors, all in integers.

Everything is made from the caller's lists alone, in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil, gcd, lcm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.certificates.claims import REPRESENTATIVE, Claim
from lpmert.certificates.format import BOXES, Record, integers
from lpmert.errors import CertificateError, FloatArray, IntArray
from lpmert.limits import checked, checkpoint
from lpmert.model.arrays import MAGNITUDE_LIMIT
from lpmert.model.nbest import NBest
from lpmert.numeric import rational
from lpmert.numeric.rational import EPSILON, SMALLEST_NORMAL, in_decimals

Whole = NDArray[np.object_]  # a vector or matrix of Python's integers
_MOST_BITS = 900  # bits of the largest entry of a ray, well within the range of doubles


class Box(NamedTuple):
    """A box of weights, given by rays [d, d] of integers: its centre, then half a side along every axis.

    It consists of the centre plus each half side times a number between -1 and 1, and of all non-negative multiples of
    these sums. A box without rays stands for all weights.
    """

    rays: Whole

    @property
    def points(self) -> FloatArray:
        """The rays in doubles.

        Raises `CertificateError` for rays that are too long. They grow by a bit at least every d splits, so that this
        also limits how deep boxes are nested, to about d _MOST_BITS.
        """
        if np.abs(self.rays).max(initial=0) >> _MOST_BITS:
            raise CertificateError("a ray is beyond the range of double precision")
        return self.rays.astype(np.float64)

    def is_nonnegative(self, vector: Whole) -> bool:
        """Whether a vector of integers has a negative product with no weights of the box: B1 (a)."""
        products = self.rays @ vector
        return bool(products[0] >= np.abs(products[1:]).sum()) if len(self.rays) else not vector.any()

    def parts(self, record: Record) -> list[Box]:
        """Return the boxes into which a record divides this one: B2. They cover it; those of all weights, all but 0."""
        units = axes(self.rays.shape[1])
        if not len(self.rays) and len(units) and record == {"split": BOXES}:  # the faces of a cube
            faces = [(d, sign) for d in range(len(units)) for sign in (1, -1)]
            return [Box(np.array([sign * units[d], *np.delete(units, d, axis=0)])) for d, sign in faces]
        (k,) = integers(record["split"], 1) if len(self.rays) and set(record) == {"split"} else (0,)
        if not 0 < k < len(self.rays):
            raise CertificateError(f"in a dimension of {len(units)}, {record!r:.40} divides no part like this one")
        halves = [np.vstack([2 * self.rays[0] + sign * self.rays[k], 2 * self.rays[1:]]) for sign in (1, -1)]
        for half in halves:
            half[k] = self.rays[k]
        return [Box(half // gcd(*half.flat)) for half in halves]


def axes(n_features: int) -> Whole:
    return np.eye(n_features, dtype=object)


Equations = Sequence[Sequence[Fraction]]


def check_equations(equations: Equations, weights: Sequence[float]) -> None:
    """Raise `CertificateError` unless weights fulfil equations up to rounding, 1e-9 of the sum of absolute terms."""
    for k, row in enumerate(equations):
        terms = [a * Fraction(w) for a, w in zip(row, weights, strict=True)]
        if 10**9 * abs(sum(terms, Fraction(0))) > sum(map(abs, terms), Fraction(0)):
            raise CertificateError(f"the weights do not fulfil equation {k}, even up to rounding")


def basis_of(equations: Equations, n_features: int) -> tuple[Whole, list[int]]:
    """Return a basis [D, d] of the weights that fulfil equations, in integers, and the features of its coordinates: G6.

    By elimination, each equation sets the first weight that it can; the weights that none sets are free, and each has
    one column of the basis. Rows of features times the basis are features for the free weights, up to one factor.
    """
    table: list[tuple[int, list[Fraction]]] = []
    for row in equations:
        left = list(row)
        if len(left) != n_features:
            raise CertificateError(f"equations have {n_features} numbers, not {len(left)}")
        for d, solved in checked(table, 1):
            left = [a - left[d] * b for a, b in zip(left, solved, strict=True)]
        first = next((d for d, value in enumerate(left) if value), None)
        if first is not None:
            left = [value / left[first] for value in left]
            table = [(d, [a - solved[first] * b for a, b in zip(solved, left, strict=True)]) for d, solved in table]
            table.append((first, left))
    free = [k for k in range(n_features) if k not in {d for d, _ in table}]
    common = lcm(*(value.denominator for _, row in table for value in row))
    basis = np.zeros((n_features, len(free)), dtype=object)
    basis[free, range(len(free))] = common
    for d, row in table:
        basis[d] = [int(-row[k] * common) for k in free]
    return basis, free


ROW_BYTES = 700  # memory that a hypothesis takes at least; measured with three features

_EXACT_INTEGERS = 2.0**51  # doubles hold sums and differences of integers up to this exactly

_LARGEST_COST = 1 << 61
_BLOCK = 1 << 10  # rows of a block between two checkpoints


class ProofLists:
    """The lists of a proof: the caller's S lists and then, for each of R limits a, a list {a, 0} that must choose a.

    Only distinct vectors have rows, m in all. offsets [S + R + 1]: where the rows of each list begin; numbers [m]: the
    list of each row; places [m]: its list and hypothesis as the caller counts them; limit_rows: from the list of each
    limit to the row of its vector.

    differences [m, D]: the vectors minus the first of their list, in the features that no equation sets. whole [m, d]:
    the same up to a common factor, in the features that the boxes span, each times 2**exponent; within lists, all other
    features are linear combinations of these. features [m, d]: `whole` in doubles, divided by 2**bits, so that no entry
    is above 1.

    `weigh` sets the rest, once the bound is known. worth [K, m]: integers, int64 or, where sums could overflow,
    Python's; lists of two with parallel differences are charged to the first of them. The sums of the claim are exactly
    constant [K] + the summed worth. target: the least worth, of a claim of one sum, that does not undercut it.

    Raises `CertificateError` if limits, equations or exponents do not fit.
    """

    worth: IntArray
    constant: list[int]

    def __init__(
        self,
        nbest: NBest,
        claim: Claim,
        ties: str,
        exponents: Mapping[str, int],
        limits: Sequence[Sequence[float]] = (),
        equations: Sequence[Sequence[Fraction]] = (),
    ) -> None:
        self.n_lists, self.claim = nbest.n_lists, claim
        vectors, bounds, self.free = rows_with_limits(nbest, limits, equations)
        numbers = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        first_of: dict[tuple[int, ...], int] = {}
        vectors_of_lists = zip(numbers.tolist(), vectors.tolist(), strict=True)
        leader = [first_of.setdefault((s, *vector), k) for k, (s, vector) in enumerate(checked(vectors_of_lists))]
        rows = np.array([*first_of.values()])
        self.numbers = numbers[rows]
        self.offsets: IntArray = np.searchsorted(rows, bounds)
        if (np.diff(self.offsets)[self.n_lists :] < 2).any():
            raise CertificateError("the equations leave no weights inside a limit")
        self.limit_rows = {s: int(self.offsets[s]) for s in range(self.n_lists, len(bounds) - 1)}
        self.places = list(zip(self.numbers.tolist(), (rows - bounds[self.numbers]).tolist(), strict=True))
        self._row_of = {place: row for row, place in enumerate(self.places)}
        self.differences = vectors[rows] - vectors[rows[self.offsets[:-1]]][self.numbers]
        self.whole = self._spanned([nbest.names[d] for d in self.free], exponents)
        self.features, self.bits = rounded(self.whole)
        self._reach = np.abs(self.features).max(axis=0, initial=0.0)
        value_of: dict[int, tuple[int, ...]] = {}
        for first, value in zip(leader, claim.values, strict=False):
            value_of[first] = REPRESENTATIVE[ties](value_of.get(first, value), value)
        self.values = [*value_of.values()]

    def rows(self, places: Iterable[tuple[int, int]]) -> list[int]:
        """Return the rows of hypotheses, given by list and hypothesis as the caller counts them."""
        rows = [self._row_of.get(place, -1) for place in places]
        if -1 in rows:
            raise CertificateError("a hypothesis of a list is missing, or repeats an earlier one")
        return rows

    def sums(self, worth: Sequence[int]) -> list[int]:
        """Return the sums of the claim for a selection of this summed worth."""
        return [a + b for a, b in zip(worth, self.constant, strict=False)]

    def errors(self, points: FloatArray) -> FloatArray:
        """Return bounds [m] on the rounding errors of score differences at points [m, d], which are rounded integers.

        The sum of the bounds also covers the first difference minus the sizes of all others, as B1 compares them.
        Bounds are 0 where nothing is rounded.

        Higham, Accuracy and Stability of Numerical Algorithms, section 3.1, for any order of the sum; doubled.
        """
        largest: FloatArray = np.abs(points) @ self._reach
        if not largest.sum() < np.inf:
            raise CertificateError("scores at a ray are beyond the range of double precision")
        if largest.sum() < np.ldexp(_EXACT_INTEGERS, -self.bits):
            return np.zeros(len(points))
        return 4.0 * (sum(points.shape) + 4) * (EPSILON * largest + SMALLEST_NORMAL)

    def attained(self, weights: Sequence[float]) -> list[int]:
        """Return the sums of decoding with weights [D]; those that equations set follow from the others.

        Raises `CertificateError` if hypotheses with different values tie, or if a limit is broken.
        """
        w = np.array(weights)[self.free]
        if not np.abs(w).max() <= MAGNITUDE_LIMIT:
            raise CertificateError("a weight is too large; multiply all by one power of two")
        scores = self.differences @ np.array(rational.to_integers(w[None]), dtype=object)[0]
        winners = np.flatnonzero(scores == np.maximum.reduceat(scores, self.offsets[:-1])[self.numbers])
        chosen = []
        for s, rows in enumerate(np.split(winners, np.searchsorted(winners, self.offsets[1:-1]))):
            if s >= self.n_lists:
                if rows.tolist() != [self.offsets[s]]:
                    raise CertificateError(f"the weights break limit {s - self.n_lists}")
            elif len({self.values[row] for row in rows.tolist()}) > 1:
                raise CertificateError(f"at the weights, hypotheses of list {s} tie that lose differently")
            else:
                chosen.append(self.values[rows[0]])
        return [sum(column) for column in zip(*chosen, strict=True)]

    def _spanned(self, names: list[str], exponents: Mapping[str, int]) -> Whole:
        """Return `whole`; names [D]: of the features. All that vary must depend on those with exponents."""
        if not set(exponents) <= set(names) or any(abs(value) > 1000 for value in exponents.values()):
            raise CertificateError("exponents are needed for features of the lists, and of at most 1000")
        columns = [names.index(name) for name in exponents]
        spanned = self.differences[:, columns]
        for d in np.flatnonzero((self.differences != 0).any(axis=0)).tolist():
            target = self.differences[:, d].tolist()
            if d not in columns and rational.solve_integers(spanned.tolist(), target) is None:
                raise CertificateError(f"feature {names[d]!r:.40} has no exponent, but depends on none that has")
        least = min(exponents.values(), default=0)
        factors = np.array([1 << (value - least) for value in exponents.values()], dtype=object)
        return by_blocks(lambda rows: rows * factors, spanned)

    def weigh(self) -> None:
        """Set `worth`, `constant` and `target`; the claim must have its bound.

        The 0 of a limit costs more than all other choices together or, with several sums, adds 1 to one more sum.
        """
        starts = self.offsets[:-1]
        worth_of_values = self.claim.worth(self.values, starts[: self.n_lists])
        n_sums = len(worth_of_values)
        total = np.zeros((n_sums, len(self.features)), dtype=object)
        total[:, : len(self.values)] = worth_of_values
        self._merge_pairs(total)
        least = np.minimum.reduceat(total, starts, axis=1)
        worth = total - least[:, self.numbers]
        self.constant = [int(value) for value in least.sum(axis=1)]
        self.target = ceil(self.claim.goal - self.constant[0])
        forbidden = 1 + int(np.maximum.reduceat(worth, starts, axis=1).sum(axis=1).max())
        safe = forbidden * (2 + len(self.limit_rows)) < _LARGEST_COST
        if n_sums > 1:
            worth, forbidden = np.concatenate([worth, np.zeros_like(worth[:1])]), 1
        for row in self.limit_rows.values():
            worth[-1, row + 1] = forbidden
        self.worth = np.ascontiguousarray(worth, dtype=np.int64 if safe else object)

    def _merge_pairs(self, worth: Whole) -> None:
        """Charge lists of two with parallel differences, which the same hyperplane decides, to the first of them."""
        merged: dict[tuple[int, ...], tuple[int, int]] = {}
        for row in self.offsets[:-1][np.flatnonzero(np.diff(self.offsets)[: self.n_lists] == 2)].tolist():
            difference = (-self.whole[row + 1]).tolist()
            sign = 1 if next(value for value in difference if value) > 0 else -1
            divisor = sign * gcd(*difference)
            pair = (row, row + 1)[::sign]
            first = merged.setdefault(tuple(value // divisor for value in difference), pair)
            if first != pair:
                worth[:, list(first)] += worth[:, list(pair)]
                worth[:, list(pair)] = 0


def rows_with_limits(
    nbest: NBest, limits: Sequence[Sequence[float]], equations: Sequence[Sequence[Fraction]] = ()
) -> tuple[Whole, IntArray, list[int]]:
    """Return the vectors [M, d] of the caller's lists and then of a list {a, 0} for each limit a, as integers up to one
    factor; their offsets; and the features [d] that no equation sets.
    """
    width = nbest.n_features
    for k, limit in enumerate(limits):
        if len(limit) != width or not any(limit) or max(map(abs, limit)) > MAGNITUDE_LIMIT:
            raise CertificateError(f"limit {k} must have {width} numbers, not all 0, of at most {MAGNITUDE_LIMIT:g}")
    features = np.concatenate([in_decimals(nbest.dense_features()), np.array(limits).reshape(-1, width)])
    checkpoint(ROW_BYTES * nbest.n_hypotheses)
    rows = rational.to_integers(features)
    pairs = [row for limit in rows[nbest.n_hypotheses :] for row in (limit, [0] * width)]
    whole = np.array([*rows[: nbest.n_hypotheses], *pairs], dtype=object).reshape(-1, width)
    offsets = np.concatenate([nbest.offsets, np.arange(nbest.n_hypotheses + 2, len(whole) + 1, 2)])
    if not equations:
        return whole, offsets, list(range(width))
    basis, free = basis_of(equations, width)
    return by_blocks(lambda block: block @ basis, whole), offsets, free


def by_blocks(function: Callable[[Whole], Whole], rows: Whole) -> Whole:
    """Apply a function of rows block by block, with a checkpoint before each: arithmetic on long integers is slow."""
    return np.concatenate([function(block) for block in checked(np.split(rows, range(_BLOCK, len(rows), _BLOCK)), 1)])


def rounded(whole: Whole) -> tuple[FloatArray, int]:
    """Return integers divided by a power of two, in doubles of at most 1, and its exponent."""
    bits = int(np.abs(whole).max(initial=0)).bit_length()
    return np.ascontiguousarray(whole / (1 << bits), dtype=np.float64), bits
