"""Where the choices of lists change along a line: what searches of lines are compared with, one event after another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.lines.line_search import lists_with_costs


class Events(NamedTuple):
    """start [S]: the rows chosen at t = -inf; thresholds [E], ascending; leaving, entering [E]: the rows before and
    after each.
    """

    start: IntArray
    thresholds: FloatArray
    leaving: IntArray
    entering: IntArray

    def levels(self, costs: IntArray) -> IntArray:
        """Return the costs [E + 1] of the intervals between the thresholds."""
        return np.cumsum([costs[self.start].sum(), *(costs[self.entering] - costs[self.leaving])])


def line_events(features: FloatArray, offsets: IntArray, weights: FloatArray, direction: FloatArray) -> Events:
    """Return where the choices of all lists change on the line weights + t direction."""
    lists = lists_with_costs(features, offsets, np.zeros(len(features), dtype=np.int64))
    return Events(*lists.events(weights, direction))
