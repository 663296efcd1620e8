"""The units of work of a search over the weight space: a root pruned, and a hand of parts searched for so much work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.cells import stack as layout
from lpmert.methods.cells.accounts import Account
from lpmert.methods.cells.any_lane import AnyLane
from lpmert.methods.cells.box_lane import BoxLane
from lpmert.methods.cells.kernels import ConeSettings
from lpmert.methods.cells.lane import Lane
from lpmert.parallel.of_thread import OfThread

_LANE_ROWS = 8_000
"""Hypotheses of a part for which a lane has room from the beginning; it grows when a larger one comes."""

COUNTED = (layout.NODES, layout.LEAVES, layout.LEAF_LPS, layout.CUT_OFF, layout.CONFLICTING, layout.LOOKED_AT)


class Explored(NamedTuple):
    """What is left of a hand: parts, of which the last waits for exact arithmetic if `closing`.

    cost, weights [D]: the least met, if it is below that of the hand. counts: what `COUNTED` names, in its order.
    """

    parts: list[Any]
    closing: bool
    cost: int
    weights: FloatArray
    counts: IntArray


@dataclass
class Ground:
    """What all hands of a search share. boxed: whether parts are boxes; cuts: planes that may raise a cone's bound;
    levels: of a list's costs that conflicts charge in a box.
    """

    account: Account[Any]
    settings: ConeSettings
    boxed: bool
    cuts: int
    levels: int
    _lanes: OfThread[AnyLane[Any]] = field(default_factory=OfThread, repr=False)

    def new_lane(self, weights: FloatArray, n_rows: int) -> AnyLane[Any]:
        """Return a lane with room for a part of so many hypotheses."""
        if self.boxed:
            return BoxLane.new(self.account, self.settings, self.levels, weights, n_rows)
        return Lane.new(self.account, self.settings, self.cuts, weights, n_rows)

    def lane(self, weights: FloatArray) -> AnyLane[Any]:
        """Return the lane of this thread, as good as new."""
        lane = self._lanes.get(lambda: self.new_lane(weights, min(len(self.account.lists.rows), _LANE_ROWS)))
        lane.renew(weights)
        return lane

    def let_go(self) -> None:
        """Give back the lanes of all threads; nobody uses one now."""
        self._lanes = OfThread()


def prune(ground: Ground, root: Any, cost: int, weights: FloatArray) -> Explored:
    """Prune one of the parts that cover the weight space; weights [D] have this cost."""
    lane = ground.lane(weights)
    lane.load_root(root)
    lane.prune_root(cost)
    return _explored(lane)


def explore(
    ground: Ground, parts: list[Any], cost: int, weights: FloatArray, budget: int, step: int | None
) -> Explored:
    """Search parts, the first of them first, for what costs less; weights [D] have this cost.

    step: by how much their bounds may be above the least; `None` if that makes no difference.
    """
    lane = ground.lane(weights)
    for part in reversed(parts):
        lane.load(part)
    lane.explore(cost, budget, step)
    return _explored(lane)


def _explored(lane: AnyLane[Any]) -> Explored:
    """Return what a lane has found and left, and empty it."""
    counts = lane.stack.numbers[list(COUNTED)]
    closing = lane.closing
    found = lane.found()
    return Explored(lane.take_all(), closing, found[0], found[1].copy(), counts)
