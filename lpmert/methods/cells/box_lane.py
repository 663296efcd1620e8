"""A lane of the search over boxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lpmert.errors import FloatArray
from lpmert.methods.cells import box_kernels as kernel
from lpmert.methods.cells.accounts import Account, Survivors
from lpmert.methods.cells.any_lane import AnyLane
from lpmert.methods.cells.box_conflicts import BoxConflicts, new_box_conflicts
from lpmert.methods.cells.box_leaf import box_normals, widened
from lpmert.methods.cells.box_prune import BoxWork, new_box_work
from lpmert.methods.cells.box_stack import (
    BoxChild,
    BoxStack,
    OpenBox,
    binary_places,
    box_at,
    box_with_all,
    larger_boxes,
    new_box_child,
    new_box_stack,
    put_box,
    room_for_box,
    whole_box,
)
from lpmert.methods.cells.kernels import ConeSettings


@dataclass
class BoxLane(AnyLane[OpenBox]):
    """A lane of boxes."""

    children: tuple[BoxChild, BoxChild]
    work: BoxWork
    conflicts: BoxConflicts

    @classmethod
    def new(cls, account: Account[Any], settings: ConeSettings, weights: FloatArray, n_rows: int) -> BoxLane:
        """Return an empty lane with room for a box of so many hypotheses; weights [D] of the incumbent."""
        lists = account.lists
        n_lists, n_features = len(lists.offsets) - 1, len(weights)
        stack = new_box_stack(n_lists + 1000, 2 * n_rows + 1000, 2 * n_lists + 1000, 64, n_features)
        stack.best_weights[:] = weights
        children = new_box_child(n_rows, n_lists, n_features), new_box_child(n_rows, n_lists, n_features)
        work = new_box_work(binary_places(lists), n_rows, n_lists, int(np.diff(lists.offsets).max(initial=1)))
        conflicts = new_box_conflicts(min(n_lists, settings.conflict_lists), n_features)
        return cls(account, settings, account.new_ledger(), stack, children, work, conflicts)

    @property
    def nbytes(self) -> int:
        kept = (self.stack.kept, *(child.kept for child in self.children))
        return sum(array.nbytes for part in (*kept, self.work[1:], self.conflicts) for array in part)

    def load_root(self, root: int) -> None:
        self.load(whole_box(self.account.lists, root))

    def load(self, part: OpenBox) -> None:
        while not room_for_box(self.stack, part):
            self._grow()
        if len(part.kept.ids) > len(self.work.kept_rows):
            n_features, n_rows = part.kept.features.shape
            n_lists = len(self.account.lists.offsets) - 1
            self.children = new_box_child(n_rows, n_lists, n_features), new_box_child(n_rows, n_lists, n_features)
            self.work = new_box_work(self.work.places, n_rows, n_lists, len(self.work.lead))
        put_box(self.stack, part)

    def enclosing(self) -> tuple[FloatArray, OpenBox]:
        top = self.top()
        wider = box_with_all(self.account.lists, top.centre, widened(top.radius))
        return box_normals(top.centre, top.radius), wider

    def survivors(self, part: OpenBox, cost: int) -> tuple[Survivors | None, tuple[int, FloatArray]]:
        lists = self.account.lists
        n_lists, n_features = len(lists.offsets) - 1, len(part.centre)
        stack = new_box_stack(n_lists + 1, len(lists.costs) + 1, n_lists + 2, 4, n_features)
        put_box(stack, part)
        box, found = self._pruned(stack, cost)
        if box is None:
            return None, found
        kept = box.kept
        ids = np.concatenate([kept.ids, np.column_stack([kept.cheap, kept.dear]).ravel()])
        ends = np.concatenate([kept.ends, kept.ends[-1] + 2 * np.arange(1, len(kept.cheap) + 1)])
        costs = lists.costs[ids]
        return Survivors(ids, costs, ends, box.own - int(costs[ends[:-1]].sum()), self.account.total), found

    def _part_at(self, stack: BoxStack, t: int) -> OpenBox:
        return box_at(stack, t)

    def _prune_alone(self, stack: BoxStack, limit: int) -> None:
        kernel.prune_face(self.account.lists, stack, self.children[0], self.work, self.settings, limit)

    def _run(self, budget: int) -> int:
        room = self.children, self.work, self.conflicts
        return int(kernel.explore_boxes(self.ledger, self.account.lists, self.stack, *room, self.settings, budget))

    def _grow(self) -> None:
        self.stack = larger_boxes(self.stack)
