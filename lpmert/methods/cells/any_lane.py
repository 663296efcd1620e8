"""What the lanes of the searches over cones and over boxes have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from lpmert.errors import FloatArray
from lpmert.methods.cells import stack as layout
from lpmert.methods.cells.accounts import Account
from lpmert.methods.cells.box_stack import OpenBox
from lpmert.methods.cells.kernels import ASIDE, EMPTY, FULL, HARD
from lpmert.methods.cells.stack import OpenCone, Survivors
from lpmert.numeric.kernels import INFINITE_COST
from lpmert.system.deadline import out_of_time

Part = TypeVar("Part", OpenCone, OpenBox)

_LEAST = 128
"""A share of a unit's work, so that it is not too little to be sent away for."""


@dataclass
class AnyLane(ABC, Generic[Part]):
    """Parts of the weight space that are searched depth first. Lanes share the lists alone, so that threads may search
    several at once.

    settings, stack: of the kernel. closing: whether the part on top waits for exact arithmetic; aside: what was left
    for later.
    """

    account: Account[Any]
    settings: Any
    ledger: Any
    stack: Any
    closing: bool = field(default=False, kw_only=True)
    aside: list[Part] = field(default_factory=list, kw_only=True)

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory that the lane holds."""

    @abstractmethod
    def load_root(self, root: Any) -> None:
        """Put one of the parts that cover the weight space on top, with all hypotheses."""

    @abstractmethod
    def load(self, part: Part) -> None:
        """Put a part on top of the lane's others."""

    @abstractmethod
    def enclosing(self) -> tuple[FloatArray, Part] | None:
        """Return normals [k, D] of a part slightly wider than the one on top, and one with all hypotheses that contains
        that; `None` where rounding makes it unsure.
        """

    @abstractmethod
    def simplices(self) -> list[OpenCone]:
        """Return cones that cover the part on top; none where exact arithmetic is better."""

    @abstractmethod
    def survivors(self, part: Part, cost: int) -> tuple[Survivors | None, tuple[int, FloatArray]]:
        """Return what may win in a part with all hypotheses, `None` if nothing may; and what was found in it below a
        cost.
        """

    @abstractmethod
    def _part_at(self, stack: Any, t: int) -> Part:
        """Return one of the parts on a stack."""

    @abstractmethod
    def _prune_alone(self, stack: Any, limit: int) -> None:
        """Prune the only part of a stack in place, below a bound."""

    @abstractmethod
    def _run(self, budget: int) -> int:
        """Search on for so much work, and return how that ended."""

    @abstractmethod
    def _grow(self) -> None:
        """Double the room on the stack."""

    @property
    def n_parts(self) -> int:
        return int(self.stack.numbers[layout.TOP]) + 1

    @property
    def least_bound(self) -> int | None:
        """The least bound of a part of the lane, or `None` if it is empty."""
        return int(self.stack.bound[: self.n_parts].min()) if self.n_parts else None

    @property
    def done(self) -> int:
        """Work done since the lane began."""
        return int(self.stack.numbers[layout.DONE_WORK])

    def renew(self, weights: FloatArray) -> None:
        """Empty the lane and forget all that was found and counted; weights [D] of the incumbent."""
        self.stack.numbers[:] = 0
        self.stack.numbers[layout.TOP] = -1
        self.stack.best_weights[:] = weights
        self.ledger = self.account.new_ledger()
        self.closing, self.aside = False, []

    def prune_root(self, cost: int) -> None:
        """Prune the only part, which holds all hypotheses, below a cost."""
        self.account.aim(self.ledger, self.stack, cost)
        self._prune_alone(self.stack, self.account.bound_of(cost) - self.settings.granularity)

    def _pruned(self, stack: Any, cost: int) -> tuple[Part | None, tuple[int, FloatArray]]:
        """Prune the only part of a stack of its own, and return it, and what was found in it below a cost."""
        self.account.aim(self.ledger, stack, cost)
        self._prune_alone(stack, int(INFINITE_COST) - 1)
        kept = self._part_at(stack, 0) if stack.numbers[layout.TOP] == 0 else None
        return kept, self.account.found(self.ledger, stack)

    def explore(self, cost: int, budget: int, step: int | None = None) -> None:
        """Search on below a cost for so much work: all of it, or as long as there are parts with a bound that is not
        above the least by more than a step. These are the next ones then, unless much of the work is done.
        """
        self.account.aim(self.ledger, self.stack, cost)
        begin = self.done
        self._rise(step)
        state = FULL
        while state in (FULL, ASIDE):  # what a lane had room for in the beginning makes no difference
            state = self._run(begin + budget - self.done)
            if state == FULL:
                if out_of_time():  # or out of memory, of which one slice may take much
                    break
                self._grow()
            elif state == ASIDE:
                self.aside.append(self.top())
                self.drop_top()
            elif state == EMPTY and self.aside and self.done < begin + budget // _LEAST:
                self._rise(step)
                state = ASIDE
        self.closing = state == HARD

    def _rise(self, step: int | None) -> None:
        """Take the next parts that were put aside, those with bounds of up to a step above the least."""
        level = int(INFINITE_COST)
        if step is not None:
            bounds = [part.bound for part in self.aside] + ([] if self.least_bound is None else [self.least_bound])
            level = min(level, step + min(bounds, default=0))
        self.stack.numbers[layout.LEVEL] = level
        chosen = sorted((part for part in self.aside if part.bound <= level), key=lambda part: -part.bound)
        self.aside = [part for part in self.aside if part.bound > level]
        for part in chosen:
            self.load(part)

    def top(self) -> Part:
        """Return the part that comes next."""
        return self._part_at(self.stack, self.n_parts - 1)

    def drop_top(self) -> None:
        """Take the part on top off."""
        self.stack.numbers[layout.TOP] -= 1
        self.closing = False

    def parts(self) -> list[Part]:
        """Return copies of all parts."""
        return [self._part_at(self.stack, t) for t in range(self.n_parts)]

    def take_all(self) -> list[Part]:
        """Empty the lane and return its parts, those on top last."""
        parts = self.aside + self.parts()
        self.aside = []
        self.stack.numbers[layout.TOP] = -1
        return parts

    def found(self) -> tuple[int, FloatArray]:
        """Return the least cost that the lane has met, and its weights [D]."""
        return self.account.found(self.ledger, self.stack)

    def count(self, position: int) -> int:
        """Return one of the numbers that the stack counts."""
        return int(self.stack.numbers[position])
