"""What a certificate is about: whole numbers that are summed over a selection, and the loss of their sums."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import CertificateError, FloatArray, IntArray
from lpmert.metrics.base import AdditiveMetric, Metric, RatioMetric

if TYPE_CHECKING:
    from lpmert.certificates.check.ratio import Price, Ratio

Values = Sequence[tuple[int, ...]]


class Claim:
    """That no sums undercut a bound, for hypotheses with statistics [M, K] under a metric.

    values: of each hypothesis, what is summed. ratio: `None` for a loss that is a sum. sums: those at which the loss is
    the bound, set by `take`. A loss that is a sum, or a fraction of sums, asks for one sum of at least `goal`; else the
    worth are the counts themselves. Raises `CertificateError` for other metrics.
    """

    ratio: Ratio | None = None
    met = False
    goal: Fraction
    sums: list[int]

    def __init__(self, metric: Metric, statistics: FloatArray, ties: str = "first") -> None:
        self.unit = Fraction(1)
        if isinstance(metric, AdditiveMetric):
            ratios = [value.as_integer_ratio() for value in metric.losses(statistics).tolist()]
            denominator = max(ratio[1] for ratio in ratios)  # all are powers of two
            self.unit = Fraction(1, denominator)
            self.values: Values = [(numerator * (denominator // own),) for numerator, own in ratios]
        elif isinstance(metric, RatioMetric):
            from lpmert.certificates.check.ratio import Ratio  # with the formulas, which sums do without

            if ties != "first":
                raise CertificateError(f"ties {ties!r:.20} need a loss a hypothesis; {metric.name!r:.40} has none")
            self.ratio = Ratio(metric)
            self.values = [tuple(map(int, row)) for row in statistics.tolist()]
        else:
            raise CertificateError(f"certificates need a sum or ratio of statistics; {metric.name!r:.40} is neither")

    @property
    def several(self) -> bool:
        """Whether there are several sums, none of which is the loss."""
        return self.ratio is not None and self.ratio.fraction is None

    def loss(self, sums: Sequence[int]) -> Fraction:
        """Return the loss of sums."""
        return self.unit * sums[0] if self.ratio is None else self.ratio.loss(sums)

    def compared(self, sums: Sequence[int]) -> int:
        """Return the sign of the loss of sums less the bound."""
        if self.ratio is None:
            return (sums[0] > self.goal) - (sums[0] < self.goal)
        return self.ratio.compared(sums, self.sums)

    def take(self, sums: list[int], bound: Fraction) -> None:
        """Claim that nothing undercuts the bound, which is the loss of these sums, or of a sum if none are given."""
        self.sums, self.goal = sums, bound / self.unit
        if self.ratio is None and not sums:
            return
        fits = self.ratio is not None and len(sums) == len(self.values[0]) and self.ratio.possible(sums)
        if self.ratio is None or not fits or self.loss(sums) != bound:
            raise CertificateError(f"the bound {bound} is not the loss of {sums!r:.60}")
        if self.ratio.fraction is not None:
            p, q = bound.as_integer_ratio()
            _, more_above, _, more_below = self.ratio.fraction
            self.goal = Fraction(p * more_below - q * more_above)

    def holds(self, low: Sequence[int], high: Sequence[int]) -> bool:
        """Whether no sums in a box undercut; met: whether some are no more than the bound."""
        best = None if self.ratio is None else self.ratio.best(low, high)
        sign = -1 if best is None else self.compared(best)
        self.met = self.met or sign == 0
        return sign >= 0

    def reached(self, least: int | None) -> bool:
        """Whether a tree that shows this least sum shows no more than the bound: what a denominator of 0 loses, 1, may
        be the bound although the sum is not the goal.
        """
        fraction = None if self.ratio is None else self.ratio.fraction
        if self.several:
            return self.met
        return least == self.goal or (fraction is not None and fraction.below @ self.sums + fraction.more_below == 0)

    def price(self, low: Sequence[int], high: Sequence[int], at: Sequence[int]) -> Price:
        """Return prices good inside a box."""
        if self.ratio is None or not self.several:
            raise CertificateError("there are no prices where one sum tells the loss")
        return self.ratio.price(low, high, at, self.sums)

    def worth(self, values: Values, starts: IntArray) -> NDArray[np.object_]:
        """Return what values [m] of lists with these starts are worth [K, m].

        A fraction p / q is undercut where q above - p below is negative, or, above 1, where there is nothing below.
        """
        columns = np.array(values, dtype=object).T
        if self.ratio is None or self.ratio.fraction is None:
            return columns
        p, q = self.loss(self.sums).as_integer_ratio()
        above, _, below, more_below = self.ratio.fraction
        divisors = below.astype(object) @ columns
        if p > q and not more_below + np.minimum.reduceat(divisors, starts).sum():
            raise CertificateError("no proof is known for a loss above 1 where the denominator can be 0")
        return np.array([q * (above.astype(object) @ columns) - p * divisors], dtype=object)
