"""A lane of the search over boxes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from lpmert.errors import FloatArray
from lpmert.methods.cells import box_kernels as kernel
from lpmert.methods.cells.accounts import Account
from lpmert.methods.cells.any_lane import AnyLane
from lpmert.methods.cells.box_conflicts import BoxConflicts, new_box_conflicts
from lpmert.methods.cells.box_leaf import box_normals, widened
from lpmert.methods.cells.box_prune import BoxWork, new_box_work
from lpmert.methods.cells.box_stack import (
    FEW_LISTS,
    MOST_FEATURES_OF_CONES,
    BoxChild,
    Boxes,
    BoxStack,
    OpenBox,
    box_at,
    box_with_all,
    enlarge_boxes,
    new_box_child,
    new_box_stack,
    put_box,
    room_for_box,
    whole_box,
)
from lpmert.methods.cells.kernels import ConeSettings
from lpmert.methods.cells.stack import OpenCone, Survivors, cones_of
from lpmert.numeric.cone import cones_of_box


@dataclass
class BoxLane(AnyLane[OpenBox]):
    """A lane of boxes."""

    children: tuple[BoxChild, BoxChild]
    work: BoxWork
    conflicts: BoxConflicts

    @classmethod
    def new(
        cls, account: Account[Any], settings: ConeSettings, levels: int, weights: FloatArray, n_rows: int
    ) -> BoxLane:
        """Return an empty lane with room for a box of so many hypotheses; levels: of a list's costs that conflicts
        charge, weights [D] of the incumbent.
        """
        lists = account.lists
        n_lists, n_features, n_columns = len(lists.offsets) - 1, len(weights), len(account.total)
        sizes = n_lists + 1000, 2 * n_rows + 1000, 2 * n_lists + 1000, 64, n_features, n_columns
        stack = new_box_stack(*sizes, account.precision)
        stack.best_weights[:] = weights
        room = n_rows, n_lists, n_features, n_columns
        children = new_box_child(*room), new_box_child(*room)
        longest = int(np.diff(lists.offsets).max(initial=1))
        work = new_box_work(n_rows, n_lists, longest)
        conflicts = new_box_conflicts(min(n_lists, settings.conflict_lists), n_features, longest, levels)
        return cls(account, settings, account.new_ledger(), stack, children, work, conflicts)

    @property
    def nbytes(self) -> int:
        kept = (self.stack.kept, *(child.kept for child in self.children))
        parts = *kept, self.work, self.conflicts
        return sum(np.asarray(array).nbytes for part in parts for array in part)

    def load_root(self, root: int) -> None:
        self.load(whole_box(self.account.lists, root, self.account.total))

    def load(self, part: OpenBox) -> None:
        while not room_for_box(self.stack, part):
            self._grow(len(part.cheap), part.n_rows, len(part.ends))
        self._make_room(part)
        put_box(self.stack, part, self.account.lists)

    def enclosing(self) -> tuple[FloatArray, OpenBox]:
        top = self.top()
        wider = box_with_all(self.account.lists, top.centre, widened(top.radius), self.account.total)
        return box_normals(top.centre, top.radius), wider

    def simplices(self) -> list[OpenCone]:
        # Where many boundaries meet in a corner, halves of a box come no nearer to telling them apart; cones do.
        box = self.top()
        if box.n_lists <= FEW_LISTS or len(box.centre) > MOST_FEATURES_OF_CONES:
            return []
        part = self._survivors_of(box)
        cones = cones_of_box(box.centre, self._diagonal(part, box.radius))
        return cones_of(self.account.lists, cones, part, box.own)

    def _diagonal(self, part: Survivors, radius: FloatArray) -> FloatArray:
        """Return the radii [D] of a box with the signs of the diagonal along which differences vary least.

        Where many boundaries coincide, the cones then have it in common.
        """
        n_lists = np.diff(part.ends)
        gains = (
            self.account.lists.rows[part.ids] - self.account.lists.rows[np.repeat(part.ids[part.ends[:-1]], n_lists)]
        )
        shares = gains * radius
        steps = part.costs - np.repeat(part.costs[part.ends[:-1]], n_lists)
        reach = np.abs(shares).sum(axis=1, keepdims=True)
        shares = np.where(reach > 0, shares / np.where(reach > 0, reach, 1.0), 0.0)
        form = (shares * steps[:, None]).T @ shares
        signs = np.array(list(product((1.0, -1.0), repeat=len(radius))))
        return np.asarray(signs[np.argmin(((signs @ form) * signs).sum(axis=1))] * radius)

    def survivors(self, part: OpenBox, cost: int) -> tuple[Survivors | None, tuple[int, FloatArray]]:
        lists = self.account.lists
        n_lists, n_features = len(lists.offsets) - 1, len(part.centre)
        self._make_room(part)
        sizes = n_lists + 1, len(lists.costs) + 1, n_lists + 2, 4, n_features, len(part.total)
        stack = new_box_stack(*sizes, self.stack.precision)
        put_box(stack, part, lists)
        box, found = self._pruned(stack, cost)
        return None if box is None else self._survivors_of(box), found

    def _survivors_of(self, box: OpenBox) -> Survivors:
        ids = np.concatenate([box.ids, np.column_stack([box.cheap, box.dear]).ravel()])
        ends = np.concatenate([box.ends, box.ends[-1] + 2 * np.arange(1, len(box.cheap) + 1)])
        costs = self.account.lists.costs[ids]
        if len(box.prices):
            costs[: box.n_rows] = box.prices[: box.n_rows]
            costs[box.n_rows + 1 :: 2] = costs[box.n_rows :: 2] + box.prices[box.n_rows :]
        return Survivors(ids, costs, ends, box.own - int(costs[ends[:-1]].sum()), box.total)

    def _make_room(self, part: OpenBox) -> None:
        """Give the work space room for a box."""
        n_rows, n_features = part.n_rows, len(part.centre)
        if n_rows > len(self.work.kept_rows):
            n_lists = len(self.account.lists.offsets) - 1
            room = n_rows, n_lists, n_features, len(part.total)
            self.children = new_box_child(*room), new_box_child(*room)
            self.work = new_box_work(n_rows, n_lists, len(self.work.lead))

    def _part_at(self, stack: BoxStack, t: int) -> OpenBox:
        return box_at(stack, t)

    def _prune_alone(self, stack: BoxStack, limit: int) -> None:
        kernel.prune_face(self.ledger, self.account.lists, stack, self.children[0], self.work, self.settings, limit)

    def _run(self, budget: int) -> int:
        room = self.children, self.work, self.conflicts
        return int(kernel.explore_boxes(self.ledger, self.account.lists, self.stack, *room, self.settings, budget))

    def _grow(self, pairs: int = 0, rows: int = 0, ends: int = 0) -> None:
        arrays = {**self.stack._asdict(), "kept": list(self.stack.kept)}
        try:
            del self.stack  # else nothing were let go
            enlarge_boxes(arrays, pairs, rows, ends)
        finally:
            self.stack = BoxStack(**{**arrays, "kept": Boxes(*arrays["kept"])})
