"""One of the lanes in which cones are searched side by side: its open cones, and work space of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lpmert.errors import FloatArray
from lpmert.methods.cells import kernels as kernel
from lpmert.methods.cells.accounts import Account
from lpmert.methods.cells.any_lane import AnyLane
from lpmert.methods.cells.conflicts import Conflicts, new_conflicts
from lpmert.methods.cells.stack import (
    Child,
    OpenCone,
    Stack,
    Survivors,
    Work,
    cone_at,
    enlarge,
    new_child,
    new_stack,
    new_work,
    put_cone,
    room_for,
    whole_cone,
)
from lpmert.numeric.cone import enclosing_cone


@dataclass
class Lane(AnyLane[OpenCone]):
    """A lane of cones."""

    children: tuple[Child, Child]
    work: Work
    conflicts: Conflicts

    @classmethod
    def new(
        cls, account: Account[Any], settings: kernel.ConeSettings, cuts: int, weights: FloatArray, n_rows: int
    ) -> Lane:
        """Return an empty lane with room for a cone of so many hypotheses; weights [D] of the incumbent."""
        n_lists = len(account.lists.offsets) - 1
        sizes = len(weights), len(account.total)
        stack = new_stack(2 * n_rows + 1000, 2 * n_lists + 1000, 64, *sizes)
        stack.best_weights[:] = weights
        children = new_child(n_rows, n_lists, *sizes), new_child(n_rows, n_lists, *sizes)
        work = new_work(n_rows, len(weights), cuts)
        conflicts = new_conflicts(min(n_lists, settings.conflict_lists), len(weights))
        return cls(account, settings, account.new_ledger(), stack, children, work, conflicts)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for part in (self.stack, *self.children, self.work, self.conflicts) for array in part)

    def load_root(self, root: FloatArray) -> None:
        self.load(whole_cone(self.account.lists, root.copy(), self.account.total))

    def load(self, part: OpenCone) -> None:
        while not room_for(self.stack, part):
            self._grow(len(part.ids), len(part.ends))
        self._make_room(part)
        put_cone(self.stack, part)

    def _make_room(self, part: OpenCone) -> None:
        """Give the work space room for a cone."""
        if len(part.ids) > len(self.work.middle):
            n_rows, n_features = part.scores.shape
            sizes = n_rows, len(self.account.lists.offsets) - 1, n_features, len(part.total)
            self.children = new_child(*sizes), new_child(*sizes)
            self.work = new_work(n_rows, n_features, len(self.work.cuts))

    def enclosing(self) -> tuple[FloatArray, OpenCone] | None:
        enclosing = enclosing_cone(self.top().rays)
        if enclosing is None:
            return None
        normals, wider = enclosing
        return normals, whole_cone(self.account.lists, wider, self.account.total)

    def simplices(self) -> list[OpenCone]:
        return []

    def survivors(self, part: OpenCone, cost: int) -> tuple[Survivors | None, tuple[int, FloatArray]]:
        self._make_room(part)
        n_lists, n_features = len(part.ends) - 1, len(part.rays)
        stack: Stack = new_stack(len(part.ids) + 1, n_lists + 2, 4, n_features, len(part.total))
        put_cone(stack, part)
        kept, found = self._pruned(stack, cost)
        return kept and Survivors(kept.ids, kept.costs, kept.ends, kept.fixed, kept.total), found

    def _part_at(self, stack: Stack, t: int) -> OpenCone:
        return cone_at(stack, t)

    def _prune_alone(self, stack: Stack, limit: int) -> None:
        kernel.prune_root(self.ledger, self.account.lists, stack, self.children[0], self.work, self.settings, limit)

    def _run(self, budget: int) -> int:
        room = self.children, self.work, self.conflicts
        return int(kernel.explore(self.ledger, self.account.lists, self.stack, *room, self.settings, budget))

    def _grow(self, rows: int = 0, ends: int = 0) -> None:
        arrays = self.stack._asdict()
        try:
            del self.stack  # else nothing were let go
            enlarge(arrays, rows, ends)
        finally:
            self.stack = Stack(**arrays)
