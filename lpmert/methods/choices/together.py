"""Whether choices of a search over selections go together: by a linear program, or an exact answer from outside."""

from __future__ import annotations

import numpy as np

from lpmert.methods.choices.tree import ANSWER, ASKED, CORE_SIZE, EXACT_CORES, ROUNDS, UNANSWERED, WORK
from lpmert.numeric.kernels import copy_entries, copy_rows, internal
from lpmert.numeric.leastnorm import FEASIBLE, INFEASIBLE, UNDECIDED, separate


@internal
def _known_core(tree):
    """Return the number of an exact core within the choices now made, or -1."""
    for q in range(min(tree.numbers[EXACT_CORES], len(tree.exact_cores))):
        inside = True
        for k in range(tree.exact_core_sizes[q]):
            if tree.chosen[tree.exact_cores[q, k, 0]] != tree.exact_cores[q, k, 1]:
                inside = False
                break
        if inside:
            return q
    return -1


@internal
def _ask(tree, n_decided):
    """Note that an exact answer is needed for the first n_decided lists' choices."""
    tree.numbers[ASKED], tree.numbers[ANSWER] = n_decided, UNANSWERED
    for k in range(n_decided):
        s = tree.decided[k]
        tree.question[k, 0], tree.question[k, 1] = s, tree.chosen[s]


@internal
def _is_answered(tree, n_decided):
    """Whether there is an answer, and it is about these choices: what is met meanwhile may raise other questions."""
    if tree.numbers[ANSWER] == UNANSWERED or tree.numbers[ASKED] != n_decided:
        return False
    for k in range(n_decided):
        s = tree.decided[k]
        if tree.question[k, 0] != s or tree.question[k, 1] != tree.chosen[s]:
            return False
    return True


@internal
def together(lists, tree, corrals, slot, scratch, n_decided, start):
    """Decide whether the first n_decided lists' choices go together; where rounding hides it, use or ask for an exact
    answer.

    After INFEASIBLE the core stands in tree.core; UNDECIDED means the answer must come from outside.
    """
    n = tree.numbers
    rounds = n[ROUNDS]
    verdict = separate(lists, tree.decided, n_decided, start, tree.chosen, corrals, slot, scratch, n)
    if verdict == UNDECIDED and n[ANSWER] == UNANSWERED:
        # A degenerate core often has a sound one beside it, which another way in may meet.
        corrals.size[slot] = 0
        copy_entries(tree.best_weights, corrals.point[slot], np.int64(0), len(tree.best_weights))
        verdict = separate(lists, tree.decided, n_decided, np.int64(0), tree.chosen, corrals, slot, scratch, n)
    n[WORK] += (n[ROUNDS] - rounds + 1) * max(1, len(lists.costs) // 4)
    if verdict == INFEASIBLE:
        size = 0
        for k in range(corrals.size[slot]):
            s = corrals.lists[slot, k]
            seen = False
            for j in range(size):
                seen = seen or tree.core[j, 0] == s
            if not seen:
                tree.core[size, 0], tree.core[size, 1] = s, tree.chosen[s]
                size += 1
        n[CORE_SIZE] = size
    elif verdict == UNDECIDED:
        q = _known_core(tree)
        if q >= 0:
            verdict = INFEASIBLE
            n[CORE_SIZE] = tree.exact_core_sizes[q]
            copy_rows(tree.exact_cores[q], tree.core, np.int64(0), len(tree.core))
            n[ANSWER] = UNANSWERED
        elif not _is_answered(tree, n_decided):
            _ask(tree, n_decided)
        else:
            verdict = n[ANSWER]
            n[ANSWER] = UNANSWERED
            if verdict == FEASIBLE:
                corrals.size[slot] = 0
                copy_entries(tree.answer_weights, corrals.point[slot], np.int64(0), len(tree.answer_weights))
            else:
                n[CORE_SIZE] = 0
    return verdict
