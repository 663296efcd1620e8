"""The state of the search over selections, kept in arrays so that a kernel can pause and go on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.numeric.kernels import inlined

UNANSWERED = -1

# Positions in Tree.numbers.
LPS, ROUNDS, WORK, NODES, DEPTH, PHASE, UPPER, POOLED = range(8)
CORES, EXACT_CORES, ANSWER, ASKED, CORE_SIZE, CORE_LPS, FIXED, SUM, CORE_SUM = range(8, 17)
BOUND, LOOK, CORE, CHOOSE, DESCEND = range(5)  # phases of a node
OPEN, CLOSED = 10, 11  # what became of a node in a phase


class Tree(NamedTuple):
    """All that a paused search needs to go on; S lists, M hypotheses, D features.

    numbers: see the positions above; SUM is what the decided choices and the cheapest others cost, CORE_SUM the same
    raised by disjoint cores. chosen [S]: position in its list, or -1. decided [S + 1]: decided lists in order. pointer
    [S]: cheapest candidate of each undecided list; trail_* undo what was ruled out below each depth. branch_list,
    branch_next [S + 1]: the list each depth branches on and its next child. bound [S + 1]: of each depth's node. pool
    [P, S]: decoded selections of witnesses; compatible [S + 2, C] those that agree with each depth's choices. attained
    [M]: last node at which a witness showed the hypothesis. residual [S]: what a list can still be charged. cores,
    exact_cores [Q, D + 4, 2]: (list, position) sets that no weights make together. question [S + 1, 2]: the choices
    that ANSWER is about, or will be, ASKED in number, as such pairs. asked, raised, gain [S]: how often a linear
    program looked ahead in a list, by how much that raised bounds, and the quotient; order [S]: by gain.
    """

    numbers: IntArray
    chosen: IntArray
    decided: IntArray
    pointer: IntArray
    trail_list: IntArray
    trail_old: IntArray
    trail_end: IntArray
    branch_list: IntArray
    branch_next: IntArray
    bound: IntArray
    pool: NDArray[np.int32]
    compatible: NDArray[np.int32]
    n_compatible: IntArray
    pooled_before: IntArray
    attained: IntArray
    residual: IntArray
    in_core: IntArray
    core: IntArray
    cores: IntArray
    core_sizes: IntArray
    exact_cores: IntArray
    exact_core_sizes: IntArray
    question: IntArray
    asked: IntArray
    raised: FloatArray
    gain: FloatArray
    order: IntArray
    selection: IntArray
    best_weights: FloatArray
    answer_weights: FloatArray


class ChoiceSettings(NamedTuple):
    """granularity: what an improvement is at least; sharpness: how steeply costs count in branching; core_preference:
    how much lists outside all cores are held back where these raise the bound; switches turn devices off that never
    change the optimum.
    """

    granularity: int
    sharpness: float
    core_preference: float
    look_ahead: bool
    by_gain: bool
    use_cores: bool
    use_witnesses: bool


@inlined
def new_tree(lists, n_fixed, pool_size, kept_witnesses, kept_cores, upper, weights):
    """Return a search that has not begun; the last n_fixed lists are decided for their first hypothesis for good.

    Compiled only within kernels: boxing so many arrays for Python is no place for a signal to arrive.
    """
    n_lists = len(lists.offsets) - 1
    n_rows, n_features = lists.rows.shape
    numbers = np.zeros(17, dtype=np.int64)
    numbers[UPPER] = upper
    numbers[ANSWER] = UNANSWERED
    numbers[FIXED] = n_fixed
    chosen = np.full(n_lists, -1, dtype=np.int64)
    decided = np.zeros(n_lists + 1, dtype=np.int64)
    for k in range(n_fixed):
        decided[k] = n_lists - n_fixed + k
        chosen[decided[k]] = 0
    depths = n_lists - n_fixed + 2
    return Tree(
        numbers,
        chosen,
        decided,
        np.zeros(n_lists, dtype=np.int64),
        np.zeros(n_rows + 1, dtype=np.int64),
        np.zeros(n_rows + 1, dtype=np.int64),
        np.zeros(depths, dtype=np.int64),
        np.zeros(depths, dtype=np.int64),
        np.zeros(depths, dtype=np.int64),
        np.zeros(depths, dtype=np.int64),
        np.zeros((pool_size, n_lists), dtype=np.int32),
        np.zeros((depths, kept_witnesses), dtype=np.int32),
        np.zeros(depths, dtype=np.int64),
        np.zeros(depths, dtype=np.int64),
        np.full(n_rows, -1, dtype=np.int64),
        np.zeros(n_lists, dtype=np.int64),
        np.zeros(n_lists, dtype=np.int64),
        np.zeros((n_features + 4, 2), dtype=np.int64),
        np.zeros((kept_cores, n_features + 4, 2), dtype=np.int64),
        np.zeros(kept_cores, dtype=np.int64),
        np.zeros((kept_cores, n_features + 4, 2), dtype=np.int64),
        np.zeros(kept_cores, dtype=np.int64),
        np.zeros((n_lists + 1, 2), dtype=np.int64),
        np.zeros(n_lists, dtype=np.int64),
        np.zeros(n_lists),
        np.full(n_lists, np.inf),
        np.arange(n_lists),
        np.zeros(n_lists, dtype=np.int64),
        weights.copy(),
        weights.copy(),
    )
