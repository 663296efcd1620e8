"""Lists in order of cost, and verdicts on whether choices from them can be made together.

Both are for the compiled core: see `core/least_norm.hpp` for how it decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray
from lpmert.numeric.cap import Cap
from lpmert.numeric.rounding import EPSILON

INFEASIBLE, FEASIBLE, UNDECIDED = range(3)
"""The verdicts of `core.LeastNorm`."""


class SortedLists(NamedTuple):
    """Lists with hypotheses in order of cost.

    rows [M, D]; reach [D]: the largest magnitude of each feature; spread [D]: how far it may be from the exact one.
    cap: empty, or a unit vector [D] and the least cosine with it.
    """

    rows: FloatArray
    offsets: IntArray
    costs: IntArray
    reach: FloatArray
    spread: FloatArray
    cap: FloatArray

    def native(self) -> core.Lists:
        """Return them for the compiled core."""
        return core.Lists(*self)


def cost_order(offsets: IntArray, costs: IntArray) -> IntArray:
    """Return the rows list by list, in order of cost (stable)."""
    return np.lexsort((costs, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))))


def sorted_lists(
    features: FloatArray,
    offsets: IntArray,
    costs: IntArray,
    cap: Cap | None = None,
    spread: FloatArray | None = None,
) -> SortedLists:
    """Return lists in order of cost (stable); spread [D]: how far features may be from the exact ones, if at all."""
    order = cost_order(offsets, costs)
    rows = np.ascontiguousarray(features[order])
    limit = np.empty(0) if cap is None else np.append(cap.unit, cap.cosine)
    off = np.zeros(rows.shape[1]) if spread is None else spread
    return SortedLists(rows, offsets, costs[order], reach_of(rows), off, limit)


def reach_of(rows: FloatArray) -> FloatArray:
    """Return the largest magnitude [D] in each column of rows [M, D]."""
    return np.asarray(np.maximum(rows.max(axis=0, initial=0.0), -rows.min(axis=0, initial=0.0)))


def rounding_bound(weights: FloatArray, reach: FloatArray, spread: FloatArray | None = None) -> float:
    """Bound the error of a difference of two scores, of features up to reach [D]: by rounding, and by that of features,
    of spread [D].
    """
    sizes = np.abs(weights)
    off = 0.0 if spread is None else 2.0 * (sizes @ spread)
    return float(2.0 * (len(weights) + 3) * EPSILON * (sizes @ reach) + off)
