"""Where the choices of lists change along a line: what searches of lines are compared with, one event after another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.lines.envelope import combine, find_events, new_workspace


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
    work = new_workspace(features, offsets)
    combine(work.transposed, weights, work.intercepts)
    combine(work.transposed, direction, work.slopes)
    order = np.argsort(work.thresholds[: find_events(work.intercepts, work.slopes, offsets, work)], kind="stable")
    return Events(work.start, work.thresholds[order], work.leaving[order], work.entering[order])
