"""Open selections: nodes of the search over selections, taken off its tree, that can be searched anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import IntArray
from lpmert.methods.choices import tree as layout
from lpmert.numeric.leastnorm import Corrals, SortedLists

UNDECIDED = -1
_NO_BITS, _NO_CHILDREN = np.zeros(0, dtype=np.uint8), np.zeros((2, 0), dtype=np.int64)


class OpenSelections(NamedTuple):
    """All selections that make the choices of a node, but for those that its earlier children hold.

    lists, choices [k]: what is decided, in order. pointer [S]: each undecided list's cheapest candidate. branch: the
    list of the children, `UNDECIDED` where the node has none yet; following: the first child. own: bound of the node;
    bound: of what is open in it. corral: slots 0 .. 1 of `Corrals`, of which the first is where its linear programs
    start. Of a ratio metric, whose bound is a cost while `own` is in units of height: ruled_out, which of all
    hypotheses are, in bits; children [2, n]: positions in the list of those to come, and their bounds.
    """

    lists: IntArray
    choices: IntArray
    pointer: NDArray[np.int32]
    branch: int
    following: int
    own: int
    bound: int
    corral: Corrals
    ruled_out: NDArray[np.uint8] = _NO_BITS
    children: IntArray = _NO_CHILDREN

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> OpenSelections:
        """Return the node of values by name."""
        return cls(**{**named, "corral": Corrals(**named["corral"])})

    @property
    def nbytes(self) -> int:
        arrays = (self.lists, self.choices, self.pointer, self.ruled_out, self.children, *self.corral)
        return sum(array.nbytes for array in arrays) + 100


def take_open(tree: layout.Tree, corrals: Corrals, next_bound: Callable[[int], int | None]) -> list[OpenSelections]:
    """Return what is open in a tree that pauses, the coarsest first; for a ratio metric without what its ledger keeps.

    next_bound: of a depth, the bound of the child that comes next, `None` if there is none.
    """
    numbers = tree.numbers
    deepest = int(numbers[layout.DEPTH])
    pointer = tree.pointer.astype(np.int32)
    found = []
    bound: int | None
    for depth in range(deepest, -1, -1):
        own = int(tree.bound[depth])
        if depth == deepest and numbers[layout.PHASE] != layout.DESCEND:
            branch, following, bound = UNDECIDED, 0, own
        else:
            branch, following, bound = int(tree.branch_list[depth]), int(tree.branch_next[depth]), next_bound(depth)
        if bound is not None:
            lists = tree.branch_list[:depth].copy()
            slots: list[Any] = [array[depth : depth + 1].copy() for array in corrals]
            choices = tree.chosen[lists]
            found.append(
                OpenSelections(lists, choices, pointer.copy(), branch, following, own, max(own, bound), Corrals(*slots))
            )
        begin = int(tree.trail_end[depth - 1]) if depth else 0
        for q in range(int(tree.trail_end[depth]) - 1, begin - 1, -1):
            pointer[tree.trail_list[q]] = tree.trail_old[q]
    return found[::-1]


def put_open(tree: layout.Tree, corrals: Corrals, lists: SortedLists, part: OpenSelections) -> None:
    """Let a tree go on with a part and nothing else; what its ledger keeps of the node is the affair of the caller."""
    numbers, depth = tree.numbers, len(part.lists)
    fixed = int(numbers[layout.FIXED])
    tree.chosen[: len(tree.chosen) - fixed] = UNDECIDED
    tree.chosen[part.lists] = part.choices
    tree.decided[fixed : fixed + depth] = part.lists
    tree.branch_list[:depth] = part.lists
    tree.branch_next[:depth] = np.diff(lists.offsets)[part.lists]  # they have no other children
    tree.pointer[:] = part.pointer
    tree.trail_end[: depth + 1] = 0
    tree.bound[: depth + 1] = part.own
    tree.n_compatible[: depth + 1] = 0
    tree.pooled_before[: depth + 1] = 0
    for slots, slot in zip(corrals, part.corral, strict=True):
        slots[depth] = slot[0]
    own = np.where(tree.chosen >= 0, tree.chosen, tree.pointer)
    costs = lists.costs[lists.offsets[:-1] + own]
    total = int(costs[: len(costs) - fixed].sum())
    numbers[layout.DEPTH], numbers[layout.SUM] = depth, total
    numbers[layout.ANSWER] = layout.UNANSWERED
    numbers[layout.PHASE] = layout.BOUND
    if part.branch != UNDECIDED:
        numbers[layout.PHASE] = layout.DESCEND
        tree.branch_list[depth], tree.branch_next[depth] = part.branch, part.following
