"""A lane of the search over boxes: as lane.py, with boxes in the place of cones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lpmert.errors import FloatArray
from lpmert.methods.cells import box_kernels as kernel
from lpmert.methods.cells import stack as layout
from lpmert.methods.cells.accounts import Account, Survivors
from lpmert.methods.cells.box_conflicts import BoxConflicts, new_box_conflicts
from lpmert.methods.cells.box_leaf import box_normals, widened
from lpmert.methods.cells.box_prune import BoxWork, new_box_work
from lpmert.methods.cells.box_stack import (
    BoxChild,
    BoxStack,
    OpenBox,
    box_at,
    box_with_all,
    larger_boxes,
    new_box_child,
    new_box_stack,
    put_box,
    room_for_box,
    whole_box,
)
from lpmert.numeric.kernels import INFINITE_COST


@dataclass
class BoxLane:
    """Boxes that are searched depth first; see `Lane`."""

    account: Account[Any]
    settings: kernel.BoxSettings
    ledger: Any
    stack: BoxStack
    children: tuple[BoxChild, BoxChild]
    work: BoxWork
    conflicts: BoxConflicts
    work_limit: int = 0
    closing: bool = False

    @classmethod
    def new(cls, account: Account[Any], settings: kernel.BoxSettings, weights: FloatArray, n_rows: int) -> BoxLane:
        """Return an empty lane with room for a box of so many hypotheses; weights [D] of the incumbent."""
        lists = account.lists
        n_lists, n_features = len(lists.offsets) - 1, len(weights)
        stack = new_box_stack(n_lists + 1000, 2 * n_rows + 1000, 2 * n_lists + 1000, 64, n_features)
        stack.best_weights[:] = weights
        children = new_box_child(n_rows, n_lists, n_features), new_box_child(n_rows, n_lists, n_features)
        work = new_box_work(n_rows, n_lists, int(np.diff(lists.offsets).max(initial=1)))
        conflicts = new_box_conflicts(min(n_lists, settings.conflict_lists), n_features)
        return cls(account, settings, account.new_ledger(), stack, children, work, conflicts)

    @property
    def n_cones(self) -> int:
        return int(self.stack.numbers[layout.TOP]) + 1

    @property
    def least_bound(self) -> int | None:
        """The least bound of a box of the lane, or `None` if it is empty."""
        return int(self.stack.bound[: self.n_cones].min()) if self.n_cones else None

    @property
    def done(self) -> int:
        """Work done since the lane began."""
        return int(self.stack.numbers[layout.DONE_WORK])

    @property
    def nbytes(self) -> int:
        kept = (self.stack.kept, *(child.kept for child in self.children))
        return sum(array.nbytes for part in (*kept, self.work, self.conflicts) for array in part)

    def load_root(self, root: int) -> None:
        """Put a face of the cube on top, with all hypotheses."""
        self.load(whole_box(self.account.lists, root))

    def load(self, box: OpenBox) -> None:
        """Put a box on top of the lane's others."""
        while not room_for_box(self.stack, box):
            self.stack = larger_boxes(self.stack)
        if len(box.kept.ids) > len(self.work.kept_rows):
            n_features, n_rows = box.kept.features.shape
            n_lists = len(self.account.lists.offsets) - 1
            self.children = new_box_child(n_rows, n_lists, n_features), new_box_child(n_rows, n_lists, n_features)
            self.work = new_box_work(n_rows, n_lists, len(self.work.lead))
        put_box(self.stack, box)

    def prune_root(self, cost: int) -> None:
        """Prune the only box, which holds all hypotheses, below a cost."""
        self.account.aim(self.ledger, self.stack, cost)
        self._prune_alone(self.stack, self.settings, self.account.bound_of(cost) - self.settings.granularity)

    def _prune_alone(self, stack: BoxStack, settings: kernel.BoxSettings, limit: int) -> None:
        kernel.prune_face(self.account.lists, stack, self.children[0], self.work, settings, limit)

    def explore(self, cost: int, budget: int) -> None:
        """Search on below a cost for so much work."""
        self.account.aim(self.ledger, self.stack, cost)
        room = self.children, self.work, self.conflicts
        stop = self.done + budget
        state = kernel.FULL
        while state == kernel.FULL:
            left = stop - self.done
            state = kernel.explore_boxes(self.ledger, self.account.lists, self.stack, *room, self.settings, left)
            if state == kernel.FULL:
                self.stack = larger_boxes(self.stack)
        self.closing = state == kernel.HARD

    def top(self) -> OpenBox:
        """Return the box that comes next."""
        return box_at(self.stack, self.n_cones - 1)

    def enclosing(self) -> tuple[FloatArray, OpenBox]:
        """Return the normals of a box slightly wider than the one on top, and that with all hypotheses."""
        top = self.top()
        wider = box_with_all(self.account.lists, top.centre, widened(top.radius))
        return box_normals(top.centre, top.radius), wider

    def survivors(self, box: OpenBox, cost: int) -> tuple[Survivors | None, tuple[int, FloatArray]]:
        """Return what may win in a box with all hypotheses, `None` if nothing may; and what was found below a cost.

        Only a lane of the size of the problem has room for it.
        """
        lists = self.account.lists
        n_lists, n_features = len(lists.offsets) - 1, len(box.centre)
        stack = new_box_stack(n_lists + 1, len(lists.costs) + 1, n_lists + 2, 4, n_features)
        put_box(stack, box)
        self.account.aim(self.ledger, stack, cost)
        self._prune_alone(stack, self.settings._replace(places=-1), int(INFINITE_COST) - 1)
        kept = self._survivors_at(box_at(stack, 0)) if stack.numbers[layout.TOP] == 0 else None
        return kept, self.account.found(self.ledger, stack)

    def _survivors_at(self, box: OpenBox) -> Survivors:
        kept = box.kept
        pairs = np.column_stack([kept.cheap, kept.dear]).ravel()
        ids = np.concatenate([kept.ids, pairs])
        ends = np.concatenate([kept.ends, kept.ends[-1] + 2 * np.arange(1, len(kept.cheap) + 1)])
        costs = self.account.lists.costs[ids]
        fixed = box.own - int(costs[ends[:-1]].sum())
        return Survivors(ids, costs, ends, fixed, self.account.total)

    def drop_top(self) -> None:
        """Take the box on top off."""
        self.stack.numbers[layout.TOP] -= 1
        self.closing = False

    def take_all(self) -> list[OpenBox]:
        """Empty the lane and return its boxes."""
        boxes = [box_at(self.stack, t) for t in range(self.n_cones)]
        self.stack.numbers[layout.TOP] = -1
        return boxes

    def found(self) -> tuple[int, FloatArray]:
        """Return the least cost that the lane has met, and its weights [D]."""
        return self.account.found(self.ledger, self.stack)

    def count(self, position: int) -> int:
        """Return one of the numbers that the stack counts."""
        return int(self.stack.numbers[position])
