"""What a certificate is about: lists as proofs see them, and claims about what their selections sum up to.

Distinct feature vectors with exact costs, made from the caller's lists alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor, gcd, lcm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.certificates.check.regions import Whole, basis_of
from lpmert.errors import CertificateError, FloatArray, IntArray
from lpmert.model.arrays import MAGNITUDE_LIMIT
from lpmert.model.nbest import NBest
from lpmert.numeric import rational
from lpmert.numeric.rounding import in_decimals
from lpmert.system.deadline import checked, checkpoint

Sums = Sequence[int]
Values = Sequence[tuple[int, ...]]


class Price(NamedTuple):
    """Selections of which x is summed do not undercut a claim if slopes . x >= target. All are whole numbers.

    forbidden: what makes every selection reach the target where the price holds.
    """

    slopes: list[int]
    target: int
    forbidden: int = 0

    @classmethod
    def within(cls, slopes: list[int], target: int, low: Sums, high: Sums) -> Price:
        """Return a price that holds between two ends; raises `CertificateError` if it is too large for 64 bits."""
        reach = sum(abs(slope) * (b - a) for slope, a, b in zip(slopes, low, high, strict=True))
        price = cls(slopes, target, reach + max(0, target - cls(slopes, target).of(low)))
        sizes = sum(abs(slope) * max(1, abs(a), abs(b)) for slope, a, b in zip(slopes, low, high, strict=True))
        if sizes + price.forbidden >= _LARGEST:
            raise CertificateError(f"prices {slopes!r:.60} are too large")
        return price

    def of(self, sums: Sums) -> int:
        return sum(slope * x for slope, x in zip(self.slopes, sums, strict=True))


class Claim:
    """That no sums undercut a bound, for hypotheses with statistics [M, K]: here, their losses lose the sum.

    values: of each hypothesis, what is summed. stated: whether a certificate states sums whose loss is the bound.
    several: whether there are several sums, none of which is the loss; else a proof asks for one of at least `goal`.
    met: whether the best corner of some part is the bound, where there are several sums.
    """

    values: Values
    stated = several = met = False
    goal = Fraction(0)

    def __init__(self, losses: FloatArray) -> None:
        ratios = [value.as_integer_ratio() for value in losses.tolist()]
        denominator = max(ratio[1] for ratio in ratios)  # all are powers of two
        self.unit = Fraction(1, denominator)
        self.values = [(numerator * (denominator // own),) for numerator, own in ratios]

    def loss(self, sums: Sums) -> Fraction:
        return self.unit * sums[0]

    def compared(self, sums: Sums) -> int:
        """Return the sign of the loss of sums less the bound."""
        return (sums[0] > self.goal) - (sums[0] < self.goal)

    def take(self, sums: Sums, bound: Fraction) -> None:
        """Claim that nothing undercuts the bound, which is the loss of these sums, where any are needed."""
        if sums:
            raise CertificateError(f"the bound {bound} is not the loss of {sums!r:.60}")
        self.goal = bound / self.unit

    def reached(self, least: float) -> bool:
        """Whether a tree that shows this least sum shows no more than the bound."""
        return least == self.goal

    def closes(self, low: Sums, high: Sums) -> bool:
        """Whether no sums in a box undercut, by its best corner."""
        raise NotImplementedError

    def price(self, low: Sums, high: Sums, at: Sums) -> Price:  # noqa: ARG002
        """Return prices that hold in a box, taken at some sums."""
        raise CertificateError("there are no prices where one sum tells the loss")

    def worth(self, values: Values, starts: IntArray) -> NDArray[np.object_]:  # noqa: ARG002
        """Return what values [m] of lists with these starts are worth [K, m]."""
        return np.array(values, dtype=object).T


class BudgetClaim(Claim):
    """That no sums with a second one within a budget undercut a bound: R7. Both are sums of decimals as they print."""

    several = True

    def __init__(self, losses: FloatArray, second: FloatArray, most: Fraction) -> None:
        (own, self.unit), (other, unit) = map(_whole, (losses, second))
        self.values = list(zip(own, other, strict=True))
        self.most = floor(most / unit)

    def loss(self, sums: Sums) -> Fraction:
        if sums[1] > self.most:
            raise CertificateError("the weights do not keep to the budget")
        return super().loss(sums)

    def closes(self, low: Sums, high: Sums) -> bool:  # noqa: ARG002
        return low[1] > self.most or low[0] >= self.goal

    def price(self, low: Sums, high: Sums, at: Sums) -> Price:
        """Return the prices of loss and second sum that a record names."""
        if at[0] < 1 or at[1] < 0:
            raise CertificateError(f"prices of a loss and a second sum are positive, not {at!r:.60}")
        return Price.within([*at], at[0] * (ceil(self.goal) - 1) + at[1] * self.most + 1, low, high)


def _whole(values: FloatArray) -> tuple[list[int], Fraction]:
    """Return decimals as whole numbers of a unit."""
    exact = [Fraction(repr(value)) for value in checked(values.tolist())]
    common = lcm(*{value.denominator for value in exact})
    return [value.numerator * (common // value.denominator) for value in exact], Fraction(1, common)


REPRESENTATIVE: Mapping[str, Callable[..., tuple[int, ...]]] = {"first": lambda own, _: own, "best": min, "worst": max}
"""What a hypothesis with the features of an earlier one makes of what that one loses."""

ROW_BYTES = 700
"""What a hypothesis takes at least; measured with three features."""

_EPSILON = float(np.finfo(np.float64).eps)
_SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)
_EXACT_INTEGERS = 2.0**51
_LARGEST_COST = 1 << 61
_LARGEST = 1 << 60
_BLOCK = 1 << 10


class ProofLists:
    """The caller's S lists and, after them, a list {a, 0} for each of R limits a; its 0 may not be chosen.

    offsets [S + R + 1]: of the distinct vectors of every list, m in all; numbers [m]: their lists; places [m]: their
    lists and hypotheses, as the caller counts them; limit_rows: the list of each limit and the row of its vector. given
    [m, D]: their differences from the first of their list, in the features that no equation sets; whole [m, d]: those,
    up to a common factor, in the features that boxes span, each times 2**exponent; all other features are, within
    lists, linear combinations of these. features [m, d]: the same, rounded and divided by 2**bits, so that none is
    above 1. Once the claim is known: target, the least cost that a claim of one sum allows; worth [K, m]: whole
    numbers, int64 or, where sums could overflow, Python's; lists of two with parallel differences are charged to the
    first of them. What the claim sums is constant [K] + step * the summed worth, exactly.

    Raises `CertificateError` if limits, equations or exponents do not fit.
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
        equations: Sequence[Sequence[Fraction]] = (),
    ) -> None:
        self.n_lists, self.claim = nbest.n_lists, claim
        given, bounds, self.free = rows_with_limits(nbest, limits, equations)
        numbers = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
        seen: dict[tuple[int, ...], int] = {}
        named = zip(numbers.tolist(), given.tolist(), strict=True)
        leader = [seen.setdefault((s, *row), k) for k, (s, row) in enumerate(checked(named))]
        rows = np.array([*seen.values()])
        self.numbers = numbers[rows]
        self.offsets: IntArray = np.searchsorted(rows, bounds)
        if (np.diff(self.offsets)[self.n_lists :] < 2).any():
            raise CertificateError("the equations leave no weights inside a limit")
        self.limit_rows = {s: int(self.offsets[s]) for s in range(self.n_lists, len(bounds) - 1)}
        self.places = list(zip(self.numbers.tolist(), (rows - bounds[self.numbers]).tolist(), strict=True))
        self._row_of = {place: row for row, place in enumerate(self.places)}
        self.given = given[rows] - given[rows[self.offsets[:-1]]][self.numbers]
        self.whole = self._spanned([nbest.names[d] for d in self.free], exponents)
        self.features, self.bits = rounded(self.whole)
        self._reach = np.abs(self.features).max(axis=0, initial=0.0)
        kept: dict[int, tuple[int, ...]] = {}
        for first, value in zip(leader, claim.values, strict=False):
            kept[first] = REPRESENTATIVE[ties](kept.get(first, value), value)
        self.values = [*kept.values()]

    def rows(self, places: Iterable[tuple[int, int]]) -> list[int]:
        """Return the rows of hypotheses of the caller's lists, both counted from 0."""
        found = [self._row_of.get(place, -1) for place in places]
        if -1 in found:
            raise CertificateError("a hypothesis of a list is missing, or repeats an earlier one")
        return found

    def sums(self, worth: Sequence[int]) -> list[int]:
        """Return what is summed by a selection of this worth."""
        return [self.step * a + b for a, b in zip(worth, self.constant, strict=False)]

    def errors(self, points: FloatArray) -> FloatArray:
        """Bound the rounding errors [m] of differences of scores at points [m, d], rounded from integers; their sum is
        a bound for the first difference less the sizes of all others. 0 where nothing is rounded.

        Higham, Accuracy and Stability of Numerical Algorithms, section 3.1, for any order of the sum, twice.
        """
        largest: FloatArray = np.abs(points) @ self._reach
        if not largest.sum() < np.inf:
            raise CertificateError("scores at a ray are beyond the range of double precision")
        if largest.sum() < np.ldexp(_EXACT_INTEGERS, -self.bits):
            return np.zeros(len(points))
        return 4.0 * (sum(points.shape) + 4) * (_EPSILON * largest + _SMALLEST_NORMAL)

    def attained(self, weights: Sequence[float]) -> list[int]:
        """Return the sums of decoding with weights [D], or those of them that no equation sets.

        Raises `CertificateError` if hypotheses that differ in what is summed tie, or if a limit is broken.
        """
        w = np.array(weights)[self.free]
        if not np.abs(w).max() <= MAGNITUDE_LIMIT:
            raise CertificateError("a weight is too large; multiply all by one power of two")
        scores = self.given @ np.array(rational.to_integers(w[None]), dtype=object)[0]
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
        if not set(exponents) <= set(names) or any(abs(value) > 1000 for value in exponents.values()):
            raise CertificateError("exponents are needed for features of the lists, and of at most 1000")
        columns = [names.index(name) for name in exponents]
        spanned = self.given[:, columns]
        for d in np.flatnonzero((self.given != 0).any(axis=0)).tolist():
            target = self.given[:, d].tolist()
            if d not in columns and rational.solve_integers(spanned.tolist(), target) is None:
                raise CertificateError(f"feature {names[d]!r:.40} has no exponent, but depends on none that has")
        least = min(exponents.values(), default=0)
        factors = np.array([1 << (value - least) for value in exponents.values()], dtype=object)
        return by_blocks(lambda rows: rows * factors, spanned)

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
        self.target = -((self.constant[0] - self.claim.goal) // self.step)
        worth = excess // self.step
        forbidden = 1 + int(np.maximum.reduceat(worth, starts, axis=1).sum(axis=1).max())
        safe = forbidden * (2 + len(self.limit_rows)) < _LARGEST_COST
        if len(own) > 1:
            worth, forbidden = np.concatenate([worth, np.zeros_like(worth[:1])]), 1
        for row in self.limit_rows.values():
            worth[-1, row + 1] = forbidden
        self.worth = np.ascontiguousarray(worth, dtype=np.int64 if safe else object)

    def _merge_pairs(self, worth: Whole) -> None:
        """Charge lists of two that one and the same hyperplane decides to the first of them."""
        merged: dict[tuple[int, ...], tuple[int, int]] = {}
        for row in self.offsets[:-1][np.flatnonzero(np.diff(self.offsets)[: self.n_lists] == 2)].tolist():
            difference = (-self.whole[row + 1]).tolist()
            sign = 1 if next(value for value in difference if value) > 0 else -1
            divisor = sign * gcd(*difference)
            own = (row, row + 1)[::sign]
            first = merged.setdefault(tuple(value // divisor for value in difference), own)
            if first != own:
                worth[:, list(first)] += worth[:, list(own)]
                worth[:, list(own)] = 0


def rows_with_limits(
    nbest: NBest, limits: Sequence[Sequence[float]], equations: Sequence[Sequence[Fraction]] = ()
) -> tuple[Whole, IntArray, list[int]]:
    """Return rows [M, d], up to a factor, of the caller's lists and, after them, of one {a, 0} for each limit a; their
    offsets; and which features are left by equations.
    """
    width = nbest.n_features
    for k, limit in enumerate(limits):
        if len(limit) != width or not any(limit) or max(map(abs, limit)) > MAGNITUDE_LIMIT:
            raise CertificateError(f"limit {k} must have {width} numbers, not all 0, of at most {MAGNITUDE_LIMIT:g}")
    features = np.concatenate([in_decimals(nbest.dense_features()), np.array(limits).reshape(-1, width)])
    checkpoint(ROW_BYTES * nbest.n_hypotheses)
    given = rational.to_integers(features)
    pairs = [row for limit in given[nbest.n_hypotheses :] for row in (limit, [0] * width)]
    whole = np.array([*given[: nbest.n_hypotheses], *pairs], dtype=object).reshape(-1, width)
    offsets = np.concatenate([nbest.offsets, np.arange(nbest.n_hypotheses + 2, len(whole) + 1, 2)])
    if not equations:
        return whole, offsets, list(range(width))
    basis, free = basis_of(equations, width)
    return by_blocks(lambda rows: rows @ basis, whole), offsets, free


def by_blocks(function: Callable[[Whole], Whole], rows: Whole) -> Whole:
    """Return a function of rows, some after the other: whole numbers can be long."""
    return np.concatenate([function(block) for block in checked(np.split(rows, range(_BLOCK, len(rows), _BLOCK)), 1)])


def rounded(whole: Whole) -> tuple[FloatArray, int]:
    """Return whole numbers divided by a power of two, so that none is above 1, and its exponent."""
    bits = int(np.abs(whole).max(initial=0)).bit_length()
    return np.ascontiguousarray(whole / (1 << bits), dtype=np.float64), bits
