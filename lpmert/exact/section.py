"""Lists and costs as far as a search looks at a problem."""

from __future__ import annotations

from lpmert.problem import Problem
from lpmert.reduction import Cap
from lpmert.result import FloatArray, IntArray


class Section(Problem):
    """Features [m, d], offsets [s + 1] and costs [m] that did not come out of a problem of their own.

    For searches only: nothing is known of the caller's features.
    """

    def __init__(self, features: FloatArray, offsets: IntArray, costs: IntArray, cap: Cap | None = None) -> None:
        self.features, self.offsets, self._prices = features, offsets, costs
        self.additive, self.cap = True, cap
