"""Lists with the statistics of a ratio metric, for the core: decoding to a loss, and heights in fixed point.

A height is a monotone function of the loss (`height_of_loss`) that linear functions of summed statistics bound from
below. Searches compare heights as whole numbers of units, rounded down for bounds and up for limits.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray, MethodError
from lpmert.metrics.base import BLEU, CHRF, PER, RatioMetric
from lpmert.model.canonical import Canonical
from lpmert.model.presolve import group_identical
from lpmert.numeric.lists import SortedLists, sorted_lists, with_half_spaces
from lpmert.quoting import quoted

TANGENTS = 8
"""Minorants among which the best one is looked for."""

UNIT = 2.0**-48
"""Height of one unit."""

FORBIDDEN = -1
"""Class of a hypothesis that no weights in the region choose."""


class Ratio(NamedTuple):
    """What the hypotheses of `SortedLists` mean to a ratio metric.

    kind, parameters: see `lpmert.metrics.base`. statistics [M, K]; constant [K]: of lists that are settled for good;
    reach [K]: the largest of each statistic. classes [M]: equal within a list where the statistics are.
    """

    kind: int
    parameters: FloatArray
    statistics: FloatArray
    constant: FloatArray
    reach: FloatArray
    classes: IntArray


class Bound(NamedTuple):
    """What a bound without a search rests on: the box low, high [K] of all sums, a minorant on it that is good at `at`
    [K], and what each row costs [M] more under it than the cheapest of its list.
    """

    low: FloatArray
    high: FloatArray
    at: FloatArray
    costs: IntArray


def ratio_lists(canonical: Canonical) -> tuple[SortedLists, Ratio]:
    """Return lists for the core, and after them one list {a, 0} for each limit, a.w > 0.

    Hypotheses keep their order. All who ask about the same lists get the same arrays, not to be written to. Raises
    `MethodError` for a metric whose formula is not known.
    """
    found = _known.get(canonical)
    if found is None:
        found = _known[canonical] = _ratio_lists(canonical)
    return found


_known: WeakKeyDictionary[Canonical, tuple[SortedLists, Ratio]] = WeakKeyDictionary()
"""As long as somebody searches the lists: several do, one after the other or in turns."""


def _ratio_lists(canonical: Canonical) -> tuple[SortedLists, Ratio]:
    totals, n_own = canonical.totals, len(canonical.features)
    metric = totals.metric
    if not isinstance(metric, RatioMetric) or metric.kind not in (BLEU, CHRF, PER):
        raise MethodError(
            f"metric {quoted(metric.name)} is neither additive nor a ratio metric with losses_of_totals, parameters "
            "and the kind BLEU, CHRF or PER; only heuristics take it"
        )
    rows, offsets, counts = with_half_spaces(
        canonical.features, canonical.offsets, totals.statistics, canonical.limits, 0.0
    )
    classes = np.arange(len(rows))
    classes[:n_own] = group_identical(totals.statistics, canonical.offsets)
    classes[n_own + 1 :: 2] = FORBIDDEN
    spread = None if canonical.rounding is None else canonical.rounding.spread
    lists = sorted_lists(rows, offsets, np.zeros(len(rows), dtype=np.int64), canonical.cap, spread)
    reach = counts.max(axis=0, initial=0.0)
    return lists, Ratio(metric.kind, metric.parameters, counts, totals.constant, reach, classes)


def best_height(offsets: IntArray, ratio: Ratio, at: FloatArray, tangents: int = TANGENTS) -> tuple[int, Bound]:
    """Return a height in units that no selection undercuts: the highest by some minorants, the first good at `at` [K].

    The others are good at sums of hypotheses that were the cheapest under those before.
    """
    height, low, high, best, costs = core.best_height(ratio, offsets, at, tangents)
    return height, Bound(low, high, best, costs)


def cost_of_height(canonical: Canonical, kind: int, height: int) -> int:
    """Return a cost that nothing of at least this height, in units, undercuts."""
    loss = core.loss_of_height(kind, height * UNIT)
    return max(canonical.cost_of_loss(0.0), canonical.cost_of_loss(min(1.0, loss)))
