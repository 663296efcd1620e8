"""The search over selections as one resumable kernel: bound, look ahead, cores, branch, descend.

A node is a set of decided lists; every undecided list adds the cost of its cheapest hypothesis that still goes together
with the decided ones. What a hypothesis costs is the ledger's affair, see methods/choices/ledger.py. See
methods/choices/search.py for the method and methods/choices/tree.py for its state.
"""

from __future__ import annotations

import numpy as np

from lpmert.methods.choices.gains import note_gain, sort_by_gain
from lpmert.methods.choices.ledger import (
    bound_node,
    costs_of,
    enter_child,
    is_tight,
    lay_out,
    look_again,
    next_child,
    put_back,
    rule_out,
    slack,
    step,
    take_selection,
    take_witness,
    weigh,
)
from lpmert.methods.choices.together import together
from lpmert.methods.choices.tree import (
    ANSWER,
    BOUND,
    CHOOSE,
    CLOSED,
    CORE,
    CORE_LPS,
    CORE_SIZE,
    CORE_SUM,
    CORES,
    DEPTH,
    DESCEND,
    FIXED,
    LOOK,
    NODES,
    OPEN,
    PHASE,
    POOLED,
    SUM,
    UNANSWERED,
    UPPER,
    WORK,
)
from lpmert.numeric.kernels import INFINITE_COST, copy_rows, internal, kernel, plus
from lpmert.numeric.leastnorm import FEASIBLE, UNDECIDED, copy_corral

WORKING, ASKING, DONE = range(3)

MOST_IN_NODE = 200_000_000
"""Work beyond the budget after which a search pauses in the middle of a node: the lists are very many or very long."""


@internal
def _record_witness(ledger, lists, tree, scratch, weights):
    """Decode a witness, take it as incumbent if it is better beyond rounding, and keep its selection if there
    is room.
    """
    n = tree.numbers
    take_witness(ledger, lists, tree, scratch.scores, weights)
    n[WORK] += len(lists.costs)
    if n[POOLED] < len(tree.pool):
        row = tree.pool[n[POOLED]]
        for s in range(len(row)):
            row[s] = tree.selection[s]
        n[POOLED] += 1


@internal
def _look_ahead(ledger, lists, tree, corrals, scratch, settings, most):
    """Rule out each undecided list's cheapest hypotheses until one goes together with the decided choices.

    Return (verdict, how many were ruled out).
    """
    n = tree.numbers
    depth = n[DEPTH]
    n_decided = n[FIXED] + depth
    ruled_out = 0
    if n[SUM] > n[UPPER] - settings.granularity:
        return CLOSED, ruled_out
    if not settings.look_ahead and depth > 0:
        return OPEN, ruled_out
    costs = costs_of(ledger, lists)
    stamp = n[NODES]
    for q in range(tree.n_compatible[depth]):
        row = tree.pool[tree.compatible[depth, q]]
        for s in range(len(row)):
            if tree.chosen[s] < 0:
                tree.attained[lists.offsets[s] + row[s]] = stamp
    if settings.by_gain and n[ANSWER] == UNANSWERED:  # else the question comes in the order in which it was asked
        sort_by_gain(tree)
    for place in range(len(tree.chosen)):
        s = tree.order[place]
        if tree.chosen[s] >= 0:
            continue
        begin, end = lists.offsets[s], lists.offsets[s + 1]
        while tree.attained[begin + tree.pointer[s]] != stamp:
            if n[WORK] > most:
                return WORKING, ruled_out
            h = tree.pointer[s]
            copy_corral(corrals, depth, depth + 1)
            tree.chosen[s] = h
            tree.decided[n_decided] = s
            verdict = together(lists, tree, corrals, depth + 1, scratch, n_decided + 1, n_decided)
            if verdict == UNDECIDED:
                return ASKING, ruled_out
            tree.chosen[s] = -1
            if verdict == FEASIBLE:
                note_gain(tree, s, 0.0)
                _record_witness(ledger, lists, tree, scratch, corrals.point[depth + 1])
                if settings.use_witnesses:
                    for t in range(len(tree.chosen)):
                        if tree.chosen[t] < 0:
                            tree.attained[lists.offsets[t] + tree.selection[t]] = stamp
                tree.attained[begin + h] = stamp
            else:
                ruled_out += 1
                trail = tree.trail_end[depth]
                tree.trail_list[trail], tree.trail_old[trail] = s, h
                tree.trail_end[depth] = trail + 1
                after = rule_out(ledger, begin, begin + h, end)
                if after < 0:
                    return CLOSED, ruled_out
                raised = costs[after] - costs[begin + h]
                note_gain(tree, s, np.float64(raised))
                n[SUM] += raised
                tree.pointer[s] = after - begin
            if n[SUM] > n[UPPER] - settings.granularity:
                return CLOSED, ruled_out
    return OPEN, ruled_out


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
def _start_core_bound(ledger, lists, tree):
    """Set what each list can be charged, and charge the learnt cores that apply; return the bound."""
    bound = tree.numbers[SUM]
    costs = costs_of(ledger, lists)
    for s in range(len(tree.chosen)):
        tree.in_core[s] = 0
        if tree.chosen[s] < 0:
            begin, end = lists.offsets[s], lists.offsets[s + 1]
            tree.residual[s] = step(ledger, costs, begin, begin + tree.pointer[s], end)
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
def _core_bound(ledger, lists, tree, corrals, scratch, settings, most):
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
            return OPEN
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
            _record_witness(ledger, lists, tree, scratch, corrals.point[depth + 1])
            if n_asked == len(tree.chosen) and is_tight(ledger):
                return CLOSED  # every list at its cheapest: the node's bound is attained
            return OPEN
        size = n[CORE_SIZE]
        if size == 0:
            return OPEN  # attainable, but by no weights that doubles can hold: noted outside, and nothing learnt
        q = n[CORES] % len(tree.cores)
        tree.core_sizes[q] = size
        copy_rows(tree.core, tree.cores[q], np.int64(0), len(tree.core))
        n[CORES] += 1
        least = _charge(tree, tree.core, size)
        if least == INFINITE_COST:
            return CLOSED
        # The node's own sum: its parent's bound, if larger, does not add up with its cores.
        n[CORE_SUM] = plus(n[CORE_SUM], least)
        tree.bound[depth] = max(tree.bound[depth], n[CORE_SUM])
    return CLOSED


@internal
def _branch(ledger, lists, tree, settings):
    """Branch on the undecided list with the fewest candidates within the slack, weighted by how cheap they are.

    Lists outside all cores are held back, the more the cores have raised the bound towards the incumbent.
    """
    n = tree.numbers
    depth = n[DEPTH]
    costs = costs_of(ledger, lists)
    room = slack(ledger, tree)
    held_back = 1.0
    if settings.use_cores:
        held_back += (settings.core_preference - 1.0) * (n[CORE_SUM] - n[SUM]) / max(1.0, float(n[UPPER] - n[SUM]))
    best = np.inf
    chosen = -1
    for s in range(len(tree.chosen)):
        if tree.chosen[s] >= 0:
            continue
        begin, end = lists.offsets[s], lists.offsets[s + 1]
        weight = weigh(ledger, costs, begin, begin + tree.pointer[s], end, settings.sharpness, room)
        if settings.use_cores and tree.in_core[s] == 0:
            weight *= held_back
        if weight < best:
            best = weight
            chosen = s
    tree.branch_list[depth] = chosen
    lay_out(ledger, lists, tree, chosen)
    n[PHASE] = DESCEND


@internal
def _inherit_witnesses(tree, child, n_decided, pooled):
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
def _descend(ledger, lists, tree, corrals, scratch, settings, most):
    """Open the next child of the node, or say that there is none left within the bound."""
    n = tree.numbers
    depth = n[DEPTH]
    s = tree.branch_list[depth]
    begin, end = lists.offsets[s], lists.offsets[s + 1]
    costs = costs_of(ledger, lists)
    n_decided = n[FIXED] + depth
    while True:
        h, bound = next_child(ledger, costs, begin, end, tree.branch_next[depth], depth)
        if h < 0 or bound > n[UPPER] - settings.granularity:
            return CLOSED
        if n[WORK] > most:
            return WORKING
        tree.chosen[s] = h
        tree.decided[n_decided] = s
        copy_corral(corrals, depth, depth + 1)
        verdict = together(lists, tree, corrals, depth + 1, scratch, n_decided + 1, n_decided)
        if verdict == UNDECIDED:
            return ASKING
        tree.branch_next[depth] += 1
        if verdict == FEASIBLE:
            break
        tree.chosen[s] = -1
    pooled = n[POOLED]
    child = depth + 1
    weights = corrals.point[child]
    _record_witness(ledger, lists, tree, scratch, weights)
    tree.trail_end[child] = tree.trail_end[depth]
    if settings.use_witnesses:
        _inherit_witnesses(tree, child, n_decided + 1, pooled)
    tree.bound[child] = max(tree.bound[depth], bound)
    n[SUM] = bound
    enter_child(ledger, lists, tree, s, h)
    if n_decided + 1 == len(tree.chosen):
        take_selection(ledger, tree, child, weights)
    n[DEPTH] = child
    n[PHASE] = BOUND
    n[NODES] += 1
    return OPEN


@internal
def _retreat(ledger, lists, tree):
    """Go back to the parent, with all that was ruled out below it; its branch list is undecided again."""
    n = tree.numbers
    depth = n[DEPTH]
    put_back(ledger, lists, tree, tree.trail_end[depth - 1] if depth > 0 else 0, tree.trail_end[depth])
    n[DEPTH] -= 1
    n[PHASE] = DESCEND
    n[ANSWER] = UNANSWERED  # an answer belongs to the question of this node, which may have closed without it
    if depth > 0:
        tree.chosen[tree.branch_list[depth - 1]] = -1


@internal
def _close_root(ledger, lists, tree, corrals, scratch):
    """Find and record a witness where there was nothing to decide."""
    root, slot = np.int64(0), np.int64(1)
    copy_corral(corrals, root, slot)
    verdict = together(lists, tree, corrals, slot, scratch, tree.numbers[FIXED], root)
    if verdict == UNDECIDED:
        return ASKING
    if verdict == FEASIBLE:
        _record_witness(ledger, lists, tree, scratch, corrals.point[slot])
        take_selection(ledger, tree, root, corrals.point[slot])
    return CLOSED


@kernel(nogil=True)
def search(ledger, lists, tree, corrals, scratch, settings, budget):
    """Search until DONE, until an exact answer is needed (ASKING), or until the budget of scores is spent (WORKING)."""
    n = tree.numbers
    stop = n[WORK] + budget
    most = stop + MOST_IN_NODE
    while n[DEPTH] >= 0:
        if n[WORK] > stop:
            return WORKING
        depth = n[DEPTH]
        verdict = OPEN
        if n[PHASE] == BOUND:
            if n[FIXED] + depth < len(tree.chosen):
                verdict = bound_node(ledger, lists, tree)
            else:
                # All decided: the witness was recorded on the way in, unless there was no way in.
                verdict = CLOSED if depth > 0 else _close_root(ledger, lists, tree, corrals, scratch)
        if verdict == OPEN and n[PHASE] == LOOK:
            verdict, ruled_out = _look_ahead(ledger, lists, tree, corrals, scratch, settings, most)
            if verdict == OPEN:
                tree.bound[depth] = max(tree.bound[depth], n[SUM])
                n[PHASE] = CORE if settings.use_cores else CHOOSE
                if tree.bound[depth] > n[UPPER] - settings.granularity:
                    verdict = CLOSED
                elif look_again(ledger, tree, ruled_out):
                    n[PHASE] = BOUND
                elif settings.use_cores:
                    n[CORE_SUM] = _start_core_bound(ledger, lists, tree)
                    tree.bound[depth] = max(tree.bound[depth], n[CORE_SUM])
        if verdict == OPEN and n[PHASE] == CORE:
            verdict = _core_bound(ledger, lists, tree, corrals, scratch, settings, most)
            if verdict == OPEN:
                n[PHASE] = CHOOSE
        if verdict == OPEN and n[PHASE] == CHOOSE:
            if tree.bound[depth] > n[UPPER] - settings.granularity:
                verdict = CLOSED
            else:
                _branch(ledger, lists, tree, settings)
        if verdict == OPEN and n[PHASE] == DESCEND:
            verdict = _descend(ledger, lists, tree, corrals, scratch, settings, most)
        if verdict in (ASKING, WORKING):
            return verdict
        if verdict == CLOSED:
            _retreat(ledger, lists, tree)
    return DONE
