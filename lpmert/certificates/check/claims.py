"""What a certificate is about: whole numbers that are summed over a selection, and the loss of their sums."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import CertificateError, FloatArray, IntArray

Sums = Sequence[int]
Values = Sequence[tuple[int, ...]]


class Price(NamedTuple):
    """Selections of which x is summed do not undercut a claim if slopes . x >= target. All are whole numbers.

    forbidden: what makes every selection reach the target where the price holds.
    """

    slopes: list[int]
    target: int
    forbidden: int = 0

    def of(self, sums: Sums) -> int:
        """Return the price of sums."""
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
        """Return the loss of sums."""
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
