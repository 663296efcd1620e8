"""The parts that cover the weight space, which a search begins with: each holds all hypotheses until it is pruned."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any

from lpmert.methods.cells.hand import Explored, Ground, prune
from lpmert.parallel.workers import SERIAL, Pending, Shared, Workers
from lpmert.search.method import Incumbent

_MANY = 500_000
"""From so many hypotheses on, one thread alone has room for all of them."""


class Roots:
    """Roots that wait; workers who are near prune those that come next meanwhile. ahead: how many of them."""

    def __init__(self, ground: Ground, roots: Iterable[Any], ahead: int) -> None:
        self._ground, self._roots, self._ahead = ground, deque(roots), ahead
        self._large = len(ground.account.lists.costs) > _MANY
        self._begun: deque[Pending[Explored]] = deque()

    def __len__(self) -> int:
        return len(self._roots)

    def skip(self) -> None:
        """Leave the next root out."""
        self._roots.popleft()

    def next(self, best: Incumbent, workers: Workers) -> Explored:
        """Return what is left of the next root, and what was found in it; raises `OutOfTime`."""
        hands = SERIAL if workers.far or self._large else workers
        for root in islice(self._roots, len(self._begun), self._ahead):
            self._begun.append(hands.hand_out(prune, Shared(self._ground), root, best.cost, best.weights))
        pruned = self._begun[0].wait()
        self._begun.popleft()
        self._roots.popleft()
        return pruned

    def let_go(self) -> None:
        """Give back the room for all hypotheses where it is large."""
        if self._large:
            self._ground.let_go()
