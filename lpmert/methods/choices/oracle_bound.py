"""A bound for a ratio metric that needs no search: that of the oracle, for which every list may choose as it likes."""

from __future__ import annotations

import numpy as np

from lpmert.errors import FloatArray
from lpmert.methods.choices.ratio_lists import Bound, Ratio, decode_total, height_of_all, new_bound
from lpmert.numeric.leastnorm import SortedLists

TANGENTS = 8
"""Points at which the minorant is laid; the one with the highest bound is taken."""


def oracle_height(lists: SortedLists, ratio: Ratio, weights: FloatArray, tangents: int = TANGENTS) -> tuple[int, Bound]:
    """Return a height in units that no selection undercuts, whether attainable or not, and what costs are laid for it.

    The minorant is laid at what the weights [d] attain, and at sums that the cheapest hypotheses under the minorants
    before lead to. The costs [M] of the bound are what each row costs more than the cheapest of its list. Source: the
    steps are those of Frank and Wolfe, An algorithm for quadratic programming, 1956.
    """
    selection = np.zeros(len(lists.offsets) - 1, dtype=np.int64)
    scores = np.zeros(int(np.diff(lists.offsets).max(initial=1)))
    bound = new_bound(len(lists.rows), len(ratio.constant))
    decode_total(lists, ratio, weights, selection, scores, bound.at)
    highest, best = int(height_of_all(lists, ratio, bound)), bound.at.copy()
    for trial in range(1, tangents):
        free = np.flatnonzero(bound.costs == 0)
        cheapest = free[np.searchsorted(free, lists.offsets[:-1])]
        sums = ratio.constant + ratio.statistics[cheapest].sum(axis=0)
        bound.at[:] += 2.0 / (trial + 1.0) * (sums - bound.at)
        height = int(height_of_all(lists, ratio, bound))
        if height > highest:
            highest, best = height, bound.at.copy()
    bound.at[:] = best
    return int(height_of_all(lists, ratio, bound)), bound
