"""The search over selections as one resumable kernel: look ahead, cores, branch, descend.

A node is a set of decided lists; every undecided list adds the cost of its cheapest hypothesis that still goes together
with the decided ones. See exact/choices.py for the method and exact/choices_tree.py for its state.
"""

from __future__ import annotations

import numpy as np

from lpmert.exact.choices_tree import (
    ANSWER,
    ASKED,
    CHOOSE,
    CORE,
    CORE_LPS,
    CORE_SIZE,
    CORES,
    DEPTH,
    DESCEND,
    EXACT_CORES,
    FIXED,
    LOOK,
    NODES,
    PHASE,
    POOLED,
    ROUNDS,
    SUM,
    UNANSWERED,
    UPPER,
    WORK,
)
from lpmert.geometry.leastnorm import FEASIBLE, INFEASIBLE, UNDECIDED, copy_corral, decode_clearly, separate
from lpmert.kernels import INFINITE_COST, internal, kernel, plus

WORKING, ASKING, DONE, _OPEN, _CLOSED = range(5)

MOST_IN_NODE = 200_000_000
"""Work beyond the budget after which a search pauses in the middle of a node: the lists are very many or very long."""


@internal
def _record_witness(lists, tree, weights, scores):
    """Decode a witness, keep its selection, and take it as incumbent if it is better beyond rounding."""
    n = tree.numbers
    cost, clear = decode_clearly(lists, weights, tree.selection, scores)
    n[WORK] += len(lists.costs)
    if clear and cost < n[UPPER]:
        n[UPPER] = cost
        tree.best_weights[:] = weights
    remember(tree)


@internal
def remember(tree):
    """Keep the selection that was decoded last among the witnesses, if there is room."""
    n = tree.numbers
    if n[POOLED] < len(tree.pool):
        row = tree.pool[n[POOLED]]
        for s in range(len(row)):
            row[s] = tree.selection[s]
        n[POOLED] += 1


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
        corrals.point[slot] = tree.best_weights
        verdict = separate(lists, tree.decided, n_decided, 0, tree.chosen, corrals, slot, scratch, n)
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
            tree.core[:] = tree.exact_cores[q]
            n[ANSWER] = UNANSWERED
        elif n[ANSWER] == FEASIBLE:
            verdict = FEASIBLE
            corrals.size[slot] = 0
            corrals.point[slot] = tree.answer_weights
            n[ANSWER] = UNANSWERED
        elif n[ANSWER] == INFEASIBLE:
            verdict = INFEASIBLE
            n[CORE_SIZE] = 0
            n[ANSWER] = UNANSWERED
        else:
            n[ASKED] = n_decided
    return verdict


@internal
def _open_bound(lists, tree):
    """Return the cost of the decided lists and of every undecided list's cheapest candidate."""
    bound = tree.base[tree.numbers[DEPTH]]
    for s in range(len(tree.chosen)):
        if tree.chosen[s] < 0:
            bound += lists.costs[lists.offsets[s] + tree.pointer[s]]
    return bound


@internal
def _look_ahead(lists, tree, corrals, scratch, settings, most):
    """Move each undecided list's pointer to its cheapest hypothesis that goes together with the decided ones."""
    n = tree.numbers
    depth = n[DEPTH]
    n_decided = n[FIXED] + depth
    bound = _open_bound(lists, tree)
    if bound > n[UPPER] - settings.granularity:
        return _CLOSED
    if not settings.look_ahead and depth > 0:
        return _OPEN
    stamp = n[NODES]
    for q in range(tree.n_compatible[depth]):
        row = tree.pool[tree.compatible[depth, q]]
        for s in range(len(row)):
            if tree.chosen[s] < 0:
                tree.attained[lists.offsets[s] + row[s]] = stamp
    for s in range(len(tree.chosen)):
        if tree.chosen[s] >= 0:
            continue
        begin, end = lists.offsets[s], lists.offsets[s + 1]
        while tree.attained[begin + tree.pointer[s]] != stamp:
            if n[WORK] > most:
                return WORKING
            h = tree.pointer[s]
            copy_corral(corrals, depth, depth + 1)
            tree.chosen[s] = h
            tree.decided[n_decided] = s
            verdict = together(lists, tree, corrals, depth + 1, scratch, n_decided + 1, n_decided)
            if verdict != UNDECIDED:
                tree.chosen[s] = -1
            if verdict == UNDECIDED:
                return ASKING
            if verdict == FEASIBLE:
                _record_witness(lists, tree, corrals.point[depth + 1], scratch.scores)
                if settings.use_witnesses:
                    for t in range(len(tree.chosen)):
                        if tree.chosen[t] < 0:
                            tree.attained[lists.offsets[t] + tree.selection[t]] = stamp
                tree.attained[begin + h] = stamp
                if bound > n[UPPER] - settings.granularity:
                    return _CLOSED
                break
            trail = tree.trail_end[depth]
            tree.trail_list[trail], tree.trail_old[trail] = s, h
            tree.trail_end[depth] = trail + 1
            if begin + h + 1 == end:
                return _CLOSED
            tree.pointer[s] = h + 1
            bound += lists.costs[begin + h + 1] - lists.costs[begin + h]
            if bound > n[UPPER] - settings.granularity:
                return _CLOSED
    return _OPEN


@internal
def _charge(tree, core, size):
    """Charge a core's least residual to its undecided lists and return it; INFINITE_COST if all are decided."""
    least = INFINITE_COST
    for k in range(size):
        s = core[k, 0]
        if tree.chosen[s] < 0:
            least = min(least, tree.residual[s])
    if least < INFINITE_COST:
        for k in range(size):
            s = core[k, 0]
            if tree.chosen[s] < 0:
                tree.residual[s] -= least
                tree.in_core[s] += 1
    return least


@internal
def _start_core_bound(lists, tree):
    """Set what each list can be charged, and charge the learnt cores that apply; return the bound."""
    bound = _open_bound(lists, tree)
    for s in range(len(tree.chosen)):
        tree.in_core[s] = 0
        if tree.chosen[s] < 0:
            here = lists.offsets[s] + tree.pointer[s]
            last = here + 1 == lists.offsets[s + 1]
            tree.residual[s] = INFINITE_COST if last else lists.costs[here + 1] - lists.costs[here]
    known = min(tree.numbers[CORES], len(tree.cores))
    for back in range(known):
        q = (tree.numbers[CORES] - 1 - back) % len(tree.cores)
        applies = True
        for k in range(tree.core_sizes[q]):
            s, h = tree.cores[q, k, 0], tree.cores[q, k, 1]
            decided = tree.chosen[s] >= 0
            applies = tree.chosen[s] == h if decided else tree.pointer[s] == h and tree.residual[s] > 0
            if not applies:
                break
        if applies:
            least = _charge(tree, tree.cores[q], tree.core_sizes[q])
            if least == INFINITE_COST:
                return INFINITE_COST
            bound = plus(bound, least)
    return bound


@internal
def _core_bound(lists, tree, corrals, scratch, settings, most):
    """Raise the bound by disjoint cores among the cheapest choices (as in core-guided MaxSAT)."""
    n = tree.numbers
    depth = n[DEPTH]
    n_fixed = n[FIXED] + depth
    while tree.bound[depth] <= n[UPPER] - settings.granularity:
        if n[WORK] > most:
            return WORKING
        n_asked = n_fixed
        for s in range(len(tree.chosen)):
            if tree.chosen[s] < 0 and tree.residual[s] > 0:
                tree.decided[n_asked] = s
                n_asked += 1
        if n_asked == n_fixed:
            return _OPEN
        for k in range(n_fixed, n_asked):
            tree.chosen[tree.decided[k]] = tree.pointer[tree.decided[k]]
        copy_corral(corrals, depth, depth + 1)
        n[CORE_LPS] += 1
        verdict = together(lists, tree, corrals, depth + 1, scratch, n_asked, n_fixed)
        if verdict == UNDECIDED:
            return ASKING
        for k in range(n_fixed, n_asked):
            tree.chosen[tree.decided[k]] = -1
        if verdict == FEASIBLE:
            _record_witness(lists, tree, corrals.point[depth + 1], scratch.scores)
            if n_asked == len(tree.chosen):
                return _CLOSED  # every list at its cheapest: the node's bound is attained
            return _OPEN
        size = n[CORE_SIZE]
        if size == 0:
            return _OPEN  # attainable, but by no weights that doubles can hold: noted outside, and nothing learnt
        q = n[CORES] % len(tree.cores)
        tree.core_sizes[q] = size
        tree.cores[q] = tree.core
        n[CORES] += 1
        least = _charge(tree, tree.core, size)
        if least == INFINITE_COST:
            return _CLOSED
        # The node's own sum: its parent's bound, if larger, does not add up with its cores.
        n[SUM] = plus(n[SUM], least)
        tree.bound[depth] = max(tree.bound[depth], n[SUM])
    return _CLOSED


@internal
def _branch(lists, tree, settings):
    """Branch on the undecided list with the fewest candidates within the slack, weighted by how cheap they are."""
    n = tree.numbers
    depth = n[DEPTH]
    slack = float(n[UPPER] - tree.bound[depth])
    if slack < settings.granularity:
        return _CLOSED
    best = np.inf
    chosen = -1
    for s in range(len(tree.chosen)):
        if tree.chosen[s] >= 0:
            continue
        here = lists.offsets[s] + tree.pointer[s]
        weight = 0.0
        for i in range(here, lists.offsets[s + 1]):
            excess = float(lists.costs[i] - lists.costs[here])
            if excess >= slack:
                break
            weight += np.exp(-settings.sharpness * excess / slack)
        if settings.use_cores and tree.in_core[s] == 0:
            weight *= settings.core_preference
        if weight < best:
            best = weight
            chosen = s
    tree.branch_list[depth] = chosen
    tree.branch_next[depth] = tree.pointer[chosen]
    tree.rest[depth] = _open_bound(lists, tree) - lists.costs[lists.offsets[chosen] + tree.pointer[chosen]]
    n[PHASE] = DESCEND
    return _OPEN


@internal
def inherit_witnesses(tree, child, n_decided, pooled):
    """Fill the child's witnesses: its parent's and those found since that agree with its n_decided choices.

    pooled: how many there were before the child's own, which is looked at even where there are too many.
    """
    depth = child - 1
    s = tree.decided[n_decided - 1]
    found = 0
    most = tree.compatible.shape[1]
    for k in range(tree.numbers[POOLED] - 1, max(tree.pooled_before[depth], pooled + 1 - most) - 1, -1):
        agrees = True
        for q in range(n_decided):
            t = tree.decided[q]
            if tree.pool[k, t] != tree.chosen[t]:
                agrees = False
                break
        if agrees and found < most:
            tree.compatible[child, found] = k
            found += 1
    for q in range(tree.n_compatible[depth]):
        k = tree.compatible[depth, q]
        if tree.pool[k, s] == tree.chosen[s] and found < most:
            tree.compatible[child, found] = k
            found += 1
    tree.n_compatible[child] = found
    tree.pooled_before[child] = tree.numbers[POOLED]


@internal
def _descend(lists, tree, corrals, scratch, settings, most):
    """Open the next child of the node, or say that there is none left within the bound."""
    n = tree.numbers
    depth = n[DEPTH]
    s = tree.branch_list[depth]
    begin, end = lists.offsets[s], lists.offsets[s + 1]
    n_decided = n[FIXED] + depth
    while True:
        h = tree.branch_next[depth]
        if begin + h >= end or tree.rest[depth] + lists.costs[begin + h] > n[UPPER] - settings.granularity:
            return _CLOSED
        if n[WORK] > most:
            return WORKING
        tree.chosen[s] = h
        tree.decided[n_decided] = s
        copy_corral(corrals, depth, depth + 1)
        verdict = together(lists, tree, corrals, depth + 1, scratch, n_decided + 1, n_decided)
        if verdict == UNDECIDED:
            return ASKING
        tree.branch_next[depth] = h + 1
        if verdict == FEASIBLE:
            break
        tree.chosen[s] = -1
    pooled = n[POOLED]
    _record_witness(lists, tree, corrals.point[depth + 1], scratch.scores)
    child = depth + 1
    tree.base[child] = tree.base[depth] + lists.costs[begin + h]
    tree.trail_end[child] = tree.trail_end[depth]
    if settings.use_witnesses:
        inherit_witnesses(tree, child, n_decided + 1, pooled)
    tree.bound[child] = max(tree.bound[depth], tree.rest[depth] + lists.costs[begin + h])
    n[DEPTH] = child
    n[PHASE] = LOOK
    n[NODES] += 1
    return _OPEN


@internal
def _retreat(tree):
    """Go back to the parent, undoing the moves of the pointers."""
    n = tree.numbers
    depth = n[DEPTH]
    parent_end = tree.trail_end[depth - 1] if depth > 0 else 0
    for q in range(tree.trail_end[depth] - 1, parent_end - 1, -1):
        tree.pointer[tree.trail_list[q]] = tree.trail_old[q]
    step_back(tree)


@internal
def step_back(tree):
    """Go back to the parent, whose branch list is undecided again."""
    n = tree.numbers
    n[DEPTH] -= 1
    n[PHASE] = DESCEND
    n[ANSWER] = UNANSWERED  # an answer belongs to the question of this node, which may have closed without it
    if n[DEPTH] >= 0:
        tree.chosen[tree.branch_list[n[DEPTH]]] = -1


@internal
def _close_root(lists, tree, corrals, scratch):
    """Find and record a witness where there was nothing to decide."""
    copy_corral(corrals, 0, 1)
    verdict = together(lists, tree, corrals, 1, scratch, tree.numbers[FIXED], 0)
    if verdict == UNDECIDED:
        return ASKING
    if verdict == FEASIBLE:
        _record_witness(lists, tree, corrals.point[1], scratch.scores)
    return _CLOSED


@kernel
def search(lists, tree, corrals, scratch, settings, budget):
    """Search until DONE, until an exact answer is needed (ASKING), or until the budget of scores is spent (WORKING)."""
    n = tree.numbers
    stop = n[WORK] + budget
    most = stop + MOST_IN_NODE
    while n[DEPTH] >= 0:
        if n[WORK] > stop:
            return WORKING
        depth = n[DEPTH]
        verdict = _OPEN
        if n[PHASE] == LOOK:
            verdict = _look_ahead(lists, tree, corrals, scratch, settings, most)
            if verdict == _OPEN and n[FIXED] + depth == len(tree.chosen):
                # All decided: the witness was recorded on the way in, unless there was no way in.
                verdict = _CLOSED if depth > 0 else _close_root(lists, tree, corrals, scratch)
            elif verdict == _OPEN:
                bound = _start_core_bound(lists, tree) if settings.use_cores else _open_bound(lists, tree)
                n[SUM] = bound
                tree.bound[depth] = max(tree.bound[depth], bound)
                n[PHASE] = CORE if settings.use_cores else CHOOSE
        if verdict == _OPEN and n[PHASE] == CORE:
            verdict = _core_bound(lists, tree, corrals, scratch, settings, most)
            if verdict == _OPEN:
                n[PHASE] = CHOOSE
        if verdict == _OPEN and n[PHASE] == CHOOSE:
            verdict = _branch(lists, tree, settings)
        if verdict == _OPEN:
            verdict = _descend(lists, tree, corrals, scratch, settings, most)
        if verdict in (ASKING, WORKING):
            return verdict
        if verdict == _CLOSED:
            _retreat(tree)
    return DONE
