"""One of the lanes in which cones are searched side by side: its open cones, and work space of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lpmert.errors import FloatArray
from lpmert.methods.cells import kernels as kernel
from lpmert.methods.cells import stack as layout
from lpmert.methods.cells.accounts import Account, Survivors
from lpmert.methods.cells.conflicts import Conflicts, new_conflicts
from lpmert.methods.cells.stack import (
    Child,
    OpenCone,
    Stack,
    Work,
    cone_at,
    larger,
    new_child,
    new_stack,
    new_work,
    put_cone,
    room_for,
    whole_cone,
)
from lpmert.numeric.cone import enclosing_cone
from lpmert.numeric.kernels import INFINITE_COST


@dataclass
class Lane:
    """Cones that are searched depth first. Lanes share the lists alone, so that threads may search several at once.

    work_limit: the work done at which the lane's cones go back to the frontier; closing: whether the cone on top waits
    for exact arithmetic.
    """

    account: Account[Any]
    settings: kernel.ConeSettings
    ledger: Any
    stack: Stack
    children: tuple[Child, Child]
    work: Work
    conflicts: Conflicts
    work_limit: int = 0
    closing: bool = False

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
    def n_cones(self) -> int:
        return int(self.stack.numbers[layout.TOP]) + 1

    @property
    def least_bound(self) -> int | None:
        """The least bound of a cone of the lane, or `None` if it is empty."""
        return int(self.stack.bound[: self.n_cones].min()) if self.n_cones else None

    @property
    def done(self) -> int:
        """Work done since the lane began."""
        return int(self.stack.numbers[layout.DONE_WORK])

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for part in (self.stack, *self.children, self.work, self.conflicts) for array in part)

    def load_root(self, root: FloatArray) -> None:
        """Put the cone of these rays [D, D] on top, with all hypotheses."""
        self.load(whole_cone(self.account.lists, root.copy(), self.account.total))

    def load(self, cone: OpenCone) -> None:
        """Put a cone on top of the lane's others."""
        while not room_for(self.stack, cone):
            self.stack = larger(self.stack)
        if len(cone.ids) > len(self.work.middle):
            n_rows, n_features = cone.scores.shape
            sizes = n_rows, len(self.account.lists.offsets) - 1, n_features, len(cone.total)
            self.children = new_child(*sizes), new_child(*sizes)
            self.work = new_work(n_rows, n_features, len(self.work.cuts))
        put_cone(self.stack, cone)

    def prune_root(self, cost: int) -> None:
        """Prune the only cone, which holds all hypotheses, below a cost."""
        self.account.aim(self.ledger, self.stack, cost)
        limit = self.account.bound_of(cost) - self.settings.granularity
        self.prune_alone(self.stack, limit)

    def prune_alone(self, stack: Stack, limit: int) -> None:
        """Prune the only cone of a stack in place, below a bound; a lane of the size of the problem has room for it."""
        kernel.prune_root(self.ledger, self.account.lists, stack, self.children[0], self.work, self.settings, limit)

    def explore(self, cost: int, budget: int) -> None:
        """Search on below a cost for so much work."""
        self.account.aim(self.ledger, self.stack, cost)
        room = self.children, self.work, self.conflicts
        stop = self.done + budget
        state = kernel.FULL
        while state == kernel.FULL:  # what a lane had room for in the beginning makes no difference
            left = stop - self.done
            state = kernel.explore(self.ledger, self.account.lists, self.stack, *room, self.settings, left)
            if state == kernel.FULL:
                self.stack = larger(self.stack)
        self.closing = state == kernel.HARD

    def top(self) -> OpenCone:
        """Return the cone that comes next."""
        return cone_at(self.stack, self.n_cones - 1)

    def enclosing(self) -> tuple[FloatArray, FloatArray] | None:
        """Return the normals of a cone slightly wider than the one on top, and rays that span it; see `survivors`.

        `None` where the cone is too thin for that.
        """
        return enclosing_cone(self.top().rays)

    def survivors(self, rays: FloatArray, cost: int) -> tuple[Survivors | None, tuple[int, FloatArray]]:
        """Return what may win in a cone, `None` if nothing may; and what was found in it below a cost.

        Only a lane of the size of the problem has room for it.
        """
        lists, total = self.account.lists, self.account.total
        stack = new_stack(len(lists.costs) + 1, len(lists.offsets) + 1, 4, len(rays), len(total))
        put_cone(stack, whole_cone(lists, rays, total))
        self.account.aim(self.ledger, stack, cost)
        self.prune_alone(stack, int(INFINITE_COST) - 1)
        kept = cone_at(stack, 0) if stack.numbers[layout.TOP] == 0 else None
        found = self.account.found(self.ledger, stack)
        return kept and Survivors(kept.ids, kept.costs, kept.ends, kept.fixed, kept.total), found

    def drop_top(self) -> None:
        """Take the cone on top off."""
        self.stack.numbers[layout.TOP] -= 1
        self.closing = False

    def take_all(self) -> list[OpenCone]:
        """Empty the lane and return its cones."""
        cones = [cone_at(self.stack, t) for t in range(self.n_cones)]
        self.stack.numbers[layout.TOP] = -1
        return cones

    def found(self) -> tuple[int, FloatArray]:
        """Return the least cost that the lane has met, and its weights [D]."""
        return self.account.found(self.ledger, self.stack)

    def count(self, position: int) -> int:
        """Return one of the numbers that the stack counts."""
        return int(self.stack.numbers[position])
