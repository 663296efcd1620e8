"""What certificates claim: that no selection loses less than a bound, as a sum, within a budget, or as a ratio of sums.

Losses are exact; a ratio has bounds for all sums of a range: lemmas R1 to R7 in proofs/ratio.md. Logarithms come from
`decimal`, which rounds them correctly, and become intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from math import ceil, floor, lcm, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import CertificateError, FloatArray, IntArray
from lpmert.limits import checked, checkpoint
from lpmert.metrics.base import BLEU, CHRF, RatioMetric, fraction_of
from lpmert.numeric.rational import dot

_LARGEST_PRICED = 1 << 60  # units; costs at prices fit in 64 bits
Sums = Sequence[int]  # the sums [K] of a selection, or a bound on each
Values = Sequence[tuple[int, ...]]  # what each hypothesis [M] adds to the K sums


class Price(NamedTuple):
    """Prices of sums: selections with sums x do not undercut the claim if slopes . x >= target. All are integers.

    forbidden: what a broken limit costs; it lifts every selection to the target wherever the price holds.
    """

    slopes: list[int]
    target: int
    forbidden: int = 0

    @classmethod
    def within(cls, slopes: list[int], target: int, low: Sums, high: Sums) -> Price:
        """Return a price that holds for sums from `low` to `high`.

        Raises `CertificateError` if costs at this price could exceed 64 bits.
        """
        reach = sum(abs(slope) * (b - a) for slope, a, b in zip(slopes, low, high, strict=True))
        price = cls(slopes, target, reach + max(0, target - cls(slopes, target).of(low)))
        sizes = sum(abs(slope) * max(1, abs(a), abs(b)) for slope, a, b in zip(slopes, low, high, strict=True))
        if sizes + price.forbidden >= _LARGEST_PRICED:
            raise CertificateError(f"prices {slopes!r:.60} are too large")
        return price

    def of(self, sums: Sums) -> int:
        return int(dot(self.slopes, sums))


class Claim:
    """The claim that no selection undercuts a bound; here, the loss is the sum of the losses of the hypotheses.

    values: the K integers that each hypothesis adds to the sums. stated: whether the certificate states sums whose loss
    is the bound. several: whether the loss depends on several sums; otherwise there is one, and a proof shows that it
    is at least `goal`. met: with several sums, whether the best corner of some part has exactly the bound as its loss.
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
        """Return the sign of the loss of sums minus the bound."""
        return (sums[0] > self.goal) - (sums[0] < self.goal)

    def set_bound(self, sums: Sums, bound: Fraction) -> None:
        """Set the bound that is claimed; sums: those of the header with this loss, which only a ratio states."""
        if sums:
            raise CertificateError(f"the bound {bound} is not the loss of {sums!r:.60}")
        self.goal = bound / self.unit

    def is_tight(self, least: float) -> bool:
        """Whether a tree that shows that the sum is at least `least` proves exactly the bound, and no more."""
        return least == self.goal

    def closes(self, low: Sums, high: Sums) -> bool:
        """Whether no sums from `low` to `high` undercut the bound, since the best corner does not."""
        raise NotImplementedError

    def price(self, low: Sums, high: Sums, at: Sums) -> Price:  # noqa: ARG002
        """Return a price that holds for sums from `low` to `high`, taken at the sums `at`."""
        raise CertificateError("there are no prices where one sum tells the loss")

    def worth(self, values: Values, starts: IntArray) -> NDArray[np.object_]:  # noqa: ARG002
        """Return the worth [K, m], which the tree sums, of hypotheses with values [m]; starts: of the lists."""
        return np.array(values, dtype=object).T


class BudgetClaim(Claim):
    """The claim that no selection whose second sum keeps to a budget undercuts a bound: R7 (e).

    Losses and the numbers of the second sum count as the decimals that they print as.
    """

    several = True

    def __init__(self, losses: FloatArray, second: FloatArray, most: Fraction) -> None:
        (first, self.unit), (other, unit) = map(_in_units, (losses, second))
        self.values = list(zip(first, other, strict=True))
        self.most = floor(most / unit)

    def loss(self, sums: Sums) -> Fraction:
        if sums[1] > self.most:
            raise CertificateError("the weights do not keep to the budget")
        return super().loss(sums)

    def closes(self, low: Sums, high: Sums) -> bool:  # noqa: ARG002
        return low[1] > self.most or low[0] >= self.goal

    def price(self, low: Sums, high: Sums, at: Sums) -> Price:
        """Return the price in which `at` holds the prices of the loss and of the second sum."""
        if at[0] < 1 or at[1] < 0:
            raise CertificateError(f"prices of a loss and a second sum are positive, not {at!r:.60}")
        return Price.within([*at], at[0] * (ceil(self.goal) - 1) + at[1] * self.most + 1, low, high)


def _in_units(values: FloatArray) -> tuple[list[int], Fraction]:
    """Return the decimals that doubles print as, as integer multiples of a unit, and the unit."""
    exact = [Fraction(repr(value)) for value in checked(values.tolist())]
    common = lcm(*{value.denominator for value in exact})
    return [value.numerator * (common // value.denominator) for value in exact], Fraction(1, common)


REPRESENTATIVE: Mapping[str, Callable[..., tuple[int, ...]]] = {"first": lambda own, _: own, "best": min, "worst": max}
"""For each rule for ties, which of the values of two hypotheses with identical features counts."""

_DIGITS = 40
_STATED = 1 << 64  # losses that are no fractions are stated as multiples of 1 / _STATED
_SLOPE_BITS = 48  # slopes are rounded down to multiples of 2**-_SLOPE_BITS


class Interval(NamedTuple):
    """A number that lies between two fractions."""

    low: Fraction
    high: Fraction


class RatioClaim(Claim):
    """The claim that no selection has a lower loss than the header's sums; for a fraction, one sum proves it: R5."""

    stated = True
    sums: Sums

    def __init__(self, metric: RatioMetric, statistics: FloatArray) -> None:
        self.fraction = fraction_of(metric)
        self.several = self.fraction is None
        self.values = [tuple(map(int, row)) for row in statistics.tolist()]
        self._bleu = metric.kind == BLEU
        if self.several and metric.kind not in (BLEU, CHRF):
            raise CertificateError(f"no proof is known for the formula of {metric.name!r:.40}")
        self._squared = Fraction(float(metric.parameters[0])) if metric.kind == CHRF else Fraction(0)

    def set_bound(self, sums: Sums, bound: Fraction) -> None:
        """Set the sums of the header, and check that the bound is their loss."""
        counts = len(sums) == len(self.values[0]) and min(sums) >= 0 and not max(sums) >> 63
        if not counts or not self.possible(sums) or self.loss(sums) != bound:
            raise CertificateError(f"the bound {bound} is not the loss of {sums!r:.60}")
        self.sums = sums

    def compared(self, sums: Sums) -> int:
        return self.order(sums, self.sums)

    def is_tight(self, least: float) -> bool:
        """Whether a tree that shows this least sum, or least excess of several sums, proves exactly the bound.

        A loss of 1 may be the bound although no sum is the goal: BLEU and chrF lose no more, and a denominator of 0
        loses 1.
        """
        if self.fraction is None:
            return self.met or least == 0 or self.loss(self.sums) == 1
        return super().is_tight(least) or self.fraction.below @ self.sums == 0

    def closes(self, low: Sums, high: Sums) -> bool:
        best = self.best(low, high)
        sign = -1 if best is None else self.compared(best)
        self.met = self.met or sign == 0
        return sign >= 0

    def worth(self, values: Values, starts: IntArray) -> NDArray[np.object_]:
        """Return the worth [K, m] of values [m]; for a fraction, K = 1 and the worth is q above - p below.

        Its sum is negative exactly for selections that undercut the bound p / q: R5 (d, e). Raises `CertificateError`
        for a bound above 1 where a denominator of 0, which loses 1, may occur.
        """
        columns = super().worth(values, starts)
        if self.fraction is None:
            return columns
        p, q = self.loss(self.sums).as_integer_ratio()
        above, below = self.fraction
        divisors = below.astype(object) @ columns
        if p > q and not np.minimum.reduceat(divisors, starts).sum():
            raise CertificateError("no proof is known for a loss above 1 where the denominator can be 0")
        return np.array([q * (above.astype(object) @ columns) - p * divisors], dtype=object)

    def loss(self, sums: Sums) -> Fraction:
        """Return the loss of sums: exact, or for BLEU rounded to the nearest multiple of 2**-64."""
        if self.fraction is not None:
            above, below = (dot(factors.tolist(), sums) for factors in self.fraction)
            return Fraction(above, below) if below else Fraction(1)
        if not self._bleu:
            return self._chrf(sums)
        if not prod(sums[0:8:2]):
            return Fraction(1)
        context = Context(prec=_DIGITS)
        height = self._height(sums, _DIGITS).low
        score = context.exp(-context.divide(Decimal(height.numerator), Decimal(height.denominator)))
        return 1 - Fraction(round(Fraction(score) * _STATED), _STATED)

    def possible(self, sums: Sums) -> bool:
        """Whether hypotheses can have these sums: no more matches than n-grams."""
        if self._bleu:
            return all(sums[k] <= sums[k + 1] for k in range(0, 8, 2))
        orders = range(0, len(sums), 3) if self.fraction is None else ()
        return all(sums[k + 2] <= min(sums[k], sums[k + 1]) for k in orders)

    def order(self, sums: Sums, other: Sums) -> int:
        """Return the sign of the loss of sums minus that of others, decided exactly: R6 (c).

        For BLEU, e to the power of a fraction other than 0 is irrational, so that some number of digits decides.
        """
        if not self._bleu:
            return _sign(self.loss(sums) - self.loss(other))
        shares = [(prod(x[0:8:2]), prod(x[1:8:2])) for x in (sums, other)]
        if not shares[0][0] or not shares[1][0]:
            return int(not shares[0][0]) - int(not shares[1][0])
        if _brevity(sums) == _brevity(other):
            return _sign(Fraction(*shares[1]) - Fraction(*shares[0]))
        digits = _DIGITS
        while True:
            checkpoint()
            first, second = self._height(sums, digits), self._height(other, digits)
            if first.high < second.low or first.low > second.high:
                return 1 if first.low > second.high else -1
            digits *= 2

    def best(self, low: Sums, high: Sums) -> list[int] | None:
        """Return sums between `low` and `high` that no others there undercut: R6 (a, b).

        More matches are better, and more n-grams worse, except that BLEU asks for as many as the reference has. Sums of
        0 n-grams lose the most, as they have no matches. `None` for chrF if it is open whether some order occurs.
        """
        if self._bleu:
            length = max(1, low[1], min(high[1], low[8]))
            return [high[0], length, *(max(1, low[k]) if k % 2 else high[k] for k in range(2, 8)), low[8]]
        if any(0 in (low[k], low[k + 1]) and high[k] and high[k + 1] for k in range(0, len(low), 3)):
            return None
        return [high[k] if k % 3 == 2 else low[k] for k in range(len(low))]

    def price(self, low: Sums, high: Sums, at: Sums) -> Price:
        """Return prices that hold between `low` and `high`, from a plane below the height that touches it near `at`.

        A selection that reaches their target does not undercut the sums: R1 to R3, R6 (d). The height is -log BLEU or
        the loss of chrF.
        """
        if not self.several:
            return super().price(low, high, at)
        if len(at) != len(low) or min(at, default=0) < 1:
            raise CertificateError(f"prices are taken at {len(low)} sums of at least 1, not {at!r:.60}")
        slopes, value = (_bleu_plane if self._bleu else self._chrf_plane)(low, high, at)
        if self._bleu and not prod(self.sums[0:8:2]):
            raise CertificateError("there are no prices where the bound is a BLEU of 0")
        height = self._height(self.sums, _DIGITS).high if self._bleu else self._chrf(self.sums)
        value += dot(slopes, low)
        # Sums are at least `low`, so that slopes may be rounded down: R6 (d).
        whole = [floor(slope * (1 << _SLOPE_BITS)) for slope in slopes]
        return Price.within(whole, dot(whole, low) - floor((value - height) * (1 << _SLOPE_BITS)), low, high)

    def _height(self, sums: Sums, digits: int) -> Interval:
        """Return -log BLEU of sums with matches of all orders."""
        matches, totals = _log(prod(sums[0:8:2]), digits), _log(prod(sums[1:8:2]), digits)
        brevity = _brevity(sums)
        return Interval((totals.low - matches.high) / 4 - brevity, (totals.high - matches.low) / 4 - brevity)

    def _chrf(self, sums: Sums) -> Fraction:
        orders = [sums[k : k + 3] for k in range(0, len(sums), 3) if sums[k] and sums[k + 1]]
        precision = sum((Fraction(match, own) for own, _, match in orders), Fraction(0))
        recall = sum((Fraction(match, own) for _, own, match in orders), Fraction(0))
        below = (self._squared * precision + recall) * len(orders)
        return 1 - (1 + self._squared) * precision * recall / below if below else Fraction(1)

    def _chrf_plane(self, low: Sums, high: Sums, at: Sums) -> tuple[list[Fraction], Fraction]:
        """Return slopes and constant of a plane below the loss of chrF between `low` and `high`: R3."""
        orders = [k for k in range(0, len(low), 3) if high[k] and high[k + 1]]
        if self.best(low, high) is None or not orders:
            raise CertificateError("no prices are known where it is open which orders occur")
        shares = [sum(Fraction(at[k + 2], at[k + side]) for k in orders) for side in (0, 1)]
        below = self._squared * shares[0] + shares[1]
        slopes, value = [Fraction(0)] * len(low), Fraction(1)
        for k in orders:
            for side, factor in ((0, Fraction(1)), (1, self._squared)):
                factor *= (1 + self._squared) * (shares[1 - side] / below) ** 2 / len(orders)
                least, most, match = low[k + side], high[k + side], at[k + 2]
                chord = Fraction(1, least) + Fraction(1, most) - Fraction(at[k + side], least * most)
                planes = ((high[k + 2], Fraction(1, most)), (low[k + 2], Fraction(1, least)))
                mu, theta = min(planes, key=lambda plane: plane[0] * (chord - plane[1]) + plane[1] * match)
                slopes[k + 2] -= factor * theta
                slopes[k + side] += factor * Fraction(mu, least * most)
                value -= factor * mu * (Fraction(1, least) + Fraction(1, most) - theta)
        return slopes, value


def _bleu_plane(low: Sums, high: Sums, at: Sums) -> tuple[list[Fraction], Fraction]:
    """Return slopes and constant of a plane below -log BLEU between `low` and `high`: R2."""
    slopes, value = [Fraction(0)] * 9, Fraction(0)
    for k in range(0, 8, 2):
        slopes[k] = Fraction(-1, 4 * at[k])
        value += (1 - _log(at[k], _DIGITS).high) / 4
        least, most = max(1, low[k + 1]), max(1, high[k + 1])
        first, last = _log(least, _DIGITS), _log(most, _DIGITS)
        slopes[k + 1] = max(Fraction(0), last.low - first.high) / (4 * (most - least)) if most > least else Fraction(0)
        value += first.low / 4 - slopes[k + 1] * least
    if at[8] > at[1]:
        least, most = max(1, low[1]), max(1, high[1])
        planes = ((low[8], Fraction(1, most)), (high[8], Fraction(1, least)))
        rho, theta = max(planes, key=lambda plane: plane[0] * (Fraction(1, at[1]) - plane[1]) + plane[1] * at[8])
        slopes[1] -= Fraction(rho, at[1] ** 2)
        slopes[8] = theta
        value += rho * (Fraction(2, at[1]) - theta) - 1
    return slopes, value


def _brevity(sums: Sums) -> Fraction:
    return min(Fraction(0), 1 - Fraction(sums[8], sums[1]))


def _log(number: int, digits: int) -> Interval:
    """Return the logarithm of an integer of at least 1; `decimal` is off by at most half a unit of the last digit."""
    rounded = Fraction(Context(prec=digits).ln(Decimal(number)))
    error = rounded / 10 ** (digits - 1)
    return Interval(rounded - error, rounded + error)


def _sign(value: Fraction) -> int:
    return (value > 0) - (value < 0)
