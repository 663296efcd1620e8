"""Branch and bound over the weight space as one resumable kernel: split a cone, prune its hypotheses, bound, descend.

A node is a simplicial cone with, for every list that is still open, the hypotheses that may win inside it and their scores
at the cone's rays. See exact/cells.py for the method and how its state is made.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lpmert.exact.choices_kernels import ASKING, DONE, LPS, UPPER, WORK, new_tree, search
from lpmert.exact.choices_kernels import Settings as SelectionSettings
from lpmert.geometry.cone import exact_sum, outer_normals
from lpmert.geometry.leastnorm import Corrals, Lists, Scratch, transpose_lists
from lpmert.kernels import EPSILON, INFINITE_COST
from lpmert.result import FloatArray, IntArray

_SAMPLED_LISTS = 100

EMPTY, PAUSED, FULL, HARD = range(4)

# Positions in Stack.numbers.
TOP, NODES, LEAVES, LEAF_LPS, UPPER_COST, DONE_WORK, CUT_OFF = range(7)


class Stack(NamedTuple):
    """Open cones, the next one last. Survivors of cone t are rows first_row[t] .. + n_rows[t] of scores and ids.

    numbers: see the positions above. scores [R, D] at the rays, ids and costs [R] of the hypotheses, ends [E] of each list among the
    rows of its cone (n_lists[t] + 1 of them from first_end[t]). fixed: cost of the lists that are settled; least: that and
    every open list's cheapest survivor; bound: the best known; stalled: splits since a tenth of the lists was last settled. rays [T, D, D]; errors [T, D]: of the scores at each ray; points
    [T, D]: where in the simplex of the rays the cost is thought least.
    """

    numbers: IntArray
    scores: FloatArray
    ids: NDArray[np.int32]
    costs: IntArray
    ends: IntArray
    first_row: IntArray
    n_rows: IntArray
    first_end: IntArray
    n_lists: IntArray
    fixed: IntArray
    least: IntArray
    bound: IntArray
    stalled: IntArray
    rays: FloatArray
    errors: FloatArray
    points: FloatArray
    best_weights: FloatArray


class Child(NamedTuple):
    """What pruning a child leaves: like one cone of a stack. numbers: [0] rows, [1] lists, [2] fixed, [3] bound."""

    numbers: IntArray
    scores: FloatArray
    ids: NDArray[np.int32]
    costs: IntArray
    ends: IntArray
    rays: FloatArray
    errors: FloatArray


class Work(NamedTuple):
    """Work space: middle [R] scores at the midpoint; best [D]: winners at the rays; disagreement [D, D]; the rest for cuts."""

    middle: FloatArray
    best: IntArray
    disagreement: FloatArray
    gain: FloatArray
    ceiling: FloatArray
    cuts: FloatArray
    table: FloatArray
    basis: IntArray
    x: FloatArray


class Settings(NamedTuple):
    """granularity of costs; leaf_lists: cones with at most so many open lists go to the search over selections;
    leaf_work: scores it may compute there before the cone is split on; most_stalled: splits without progress after which a
    cone of at most leaf_rows survivors goes there too; hopeless: after which it is HARD. largest: bound on all scores.
    """

    granularity: int
    leaf_lists: int
    leaf_work: int
    leaf_rows: int
    cut_rows: int
    most_stalled: int
    hopeless: int
    largest: float
    selections: SelectionSettings


# Functions called once a list take single arrays: numba counts references for each array of a tuple it passes on.


@njit(cache=True)
def _beats(scores, winner, loser, tolerance):
    """Whether one row of scores is at least another at every ray, beyond the error of the scores."""
    least = np.inf
    for d in range(len(tolerance)):
        least = min(least, scores[winner, d] - scores[loser, d] - tolerance[d])
    return least >= 0.0


@njit(cache=True)
def _move(scores, ids, costs, source, target):
    for d in range(scores.shape[1]):
        scores[target, d] = scores[source, d]
    ids[target] = ids[source]
    costs[target] = costs[source]


@njit(cache=True)
def _drop_beaten(scores, ids, costs, start, end, best, tolerance):
    """Drop rows start .. end that another row beats at every ray, first what row `best` beats; return the new end.

    Scores are linear in the weights, so the order at the rays is the order in the cone. Rows keep their order.
    """
    left = start
    for i in range(start, end):
        if i == best or not _beats(scores, best, i, tolerance):
            if i == best:
                best = left
            if left != i:
                _move(scores, ids, costs, i, left)
            left += 1
    end = left
    if end - start <= 2:
        return end
    left = start
    for i in range(start, end):
        beaten = False
        if i != best:
            for j in range(start, end):
                if j != best and j != i and (j < left or j > i) and _beats(scores, j, i, tolerance):
                    beaten = True
                    break
        if not beaten:
            if i == best:
                best = left
            if left != i:
                _move(scores, ids, costs, i, left)
            left += 1
    return left


@njit(cache=True)
def _prune(stack, t, middle, replaced, child, limit, largest):
    """Fill the child of cone t whose ray `replaced` moves to the midpoint; return (its centre's cost, centre is clear).

    Lists whose survivors all cost the same are settled. Stops as soon as the bound exceeds `limit`. With replaced = -1 the
    child is the cone itself. largest bounds the magnitude of all scores.
    """
    n_features = len(child.errors)
    first, first_end = stack.first_row[t], stack.first_end[t]
    parent_scores, parent_ids, parent_costs, parent_ends = stack.scores, stack.ids, stack.costs, stack.ends
    scores, ids, costs = child.scores, child.ids, child.costs
    tolerance = 2.0 * child.errors
    centre_tolerance = 4.0 * n_features * n_features * EPSILON * largest
    for d in range(n_features):
        centre_tolerance += tolerance[d]
    fixed = stack.fixed[t]
    centre = fixed
    clear = True
    bound = stack.least[t]  # the parent's least costs stand for lists not yet pruned
    kept = 0
    n_lists = 0
    child.ends[0] = 0
    for a in range(stack.n_lists[t]):
        begin, end = first + parent_ends[first_end + a], first + parent_ends[first_end + a + 1]
        start = kept
        top, second = -np.inf, -np.inf
        best = start
        for i in range(begin, end):
            for d in range(n_features):
                scores[kept, d] = parent_scores[i, d]
            if replaced >= 0:
                scores[kept, replaced] = middle[i - first]
            total = 0.0
            for d in range(n_features):
                total += scores[kept, d]
            ids[kept] = parent_ids[i]
            costs[kept] = parent_costs[i]
            second = max(second, min(top, total))
            best = kept if total > top else best
            top = max(top, total)
            kept += 1
        clear = clear and top - second > centre_tolerance
        centre += costs[best]
        if kept - start == 2:
            if _beats(scores, best, 2 * start + 1 - best, tolerance):
                if best != start:
                    _move(scores, ids, costs, best, start)
                kept = start + 1
        else:
            kept = _drop_beaten(scores, ids, costs, start, kept, best, tolerance)
        least = costs[start]
        bound += least - parent_costs[begin]
        if bound > limit:
            child.numbers[3] = bound
            return INFINITE_COST, False
        if costs[kept - 1] == least:
            fixed += least
            kept = start
        else:
            n_lists += 1
            child.ends[n_lists] = kept
    child.numbers[0], child.numbers[1], child.numbers[2], child.numbers[3] = kept, n_lists, fixed, bound
    return centre, clear


@njit(cache=True)
def _longest_edge(stack, t, work):
    """Return the edge (p, q) with the most cost at stake between its ends' winners, weighted by its length.

    Where there are many lists an even sample of them tells.
    """
    n_features = len(work.best)
    first, first_end = stack.first_row[t], stack.first_end[t]
    work.disagreement[:] = 0.0
    for a in range(0, stack.n_lists[t], max(1, stack.n_lists[t] // _SAMPLED_LISTS)):
        begin, end = first + stack.ends[first_end + a], first + stack.ends[first_end + a + 1]
        for d in range(n_features):
            top = -np.inf
            for i in range(begin, end):
                if stack.scores[i, d] > top:
                    top = stack.scores[i, d]
                    work.best[d] = i
        for p in range(n_features):
            for q in range(p + 1, n_features):
                if work.best[p] != work.best[q]:
                    work.disagreement[p, q] += abs(stack.costs[work.best[p]] - stack.costs[work.best[q]])
    most = -1.0
    chosen = (0, 1)
    for p in range(n_features):
        for q in range(p + 1, n_features):
            length = 0.0
            for d in range(n_features):
                length += abs(stack.rays[t, p, d] - stack.rays[t, q, d])
            stake = (work.disagreement[p, q] + 1e-3) * length
            if stake > most:
                most = stake
                chosen = (p, q)
    return chosen


@njit(cache=True)
def _halve(stack, t, p, q, work):
    """Compute the midpoint of edge (p, q) and its scores; return (error of the scores, whether the ray is exact)."""
    first = stack.first_row[t]
    n_features = len(work.best)
    exact_ray = True
    for d in range(n_features):
        a, b = stack.rays[t, p, d], stack.rays[t, q, d]
        exact_ray = exact_ray and exact_sum(a, b)
    exact = True
    largest = 0.0
    for i in range(stack.n_rows[t]):
        a, b = stack.scores[first + i, p], stack.scores[first + i, q]
        exact = exact and exact_sum(a, b)
        value = 0.5 * (a + b)
        work.middle[i] = value
        largest = max(largest, abs(value))
    error = 0.5 * (stack.errors[t, p] + stack.errors[t, q]) * (1.0 + 4.0 * EPSILON)
    return error if exact else error + EPSILON * largest, exact_ray


@njit(cache=True)
def _push(stack, child, bound, stalled):
    """Put a child on top of the stack; say whether there was room."""
    top = stack.numbers[TOP] + 1
    rows, ends = 0, 0
    if top > 0:
        rows = stack.first_row[top - 1] + stack.n_rows[top - 1]
        ends = stack.first_end[top - 1] + stack.n_lists[top - 1] + 1
    n_rows, n_lists = child.numbers[0], child.numbers[1]
    stack.first_row[top], stack.n_rows[top] = rows, n_rows
    stack.first_end[top], stack.n_lists[top] = ends, n_lists
    stack.fixed[top], stack.least[top] = child.numbers[2], child.numbers[3]
    stack.bound[top], stack.stalled[top] = bound, stalled
    stack.scores[rows : rows + n_rows] = child.scores[:n_rows]
    stack.ids[rows : rows + n_rows] = child.ids[:n_rows]
    stack.costs[rows : rows + n_rows] = child.costs[:n_rows]
    stack.ends[ends : ends + n_lists + 1] = child.ends[: n_lists + 1]
    stack.rays[top] = child.rays
    stack.errors[top] = child.errors
    stack.numbers[TOP] = top


@njit(cache=True)
def _room(stack):
    """Whether two children of the top cone fit on the stack in its place."""
    top = stack.numbers[TOP]
    rows = stack.first_row[top] + 2 * stack.n_rows[top]
    ends = stack.first_end[top] + 2 * (stack.n_lists[top] + 1)
    return top + 2 < len(stack.bound) and rows <= len(stack.ids) and ends <= len(stack.ends)


@njit(cache=True)
def _add_cut(stack, t, x, cut, work):
    """Fill cut [D]: what the open lists cost beyond their least, bounded from below by a linear function on the cone.

    For weights sum_k x_k ray_k with x in the simplex. Where the winner j at x beats every hypothesis of cost <= l, with
    gain g_k > 0 at some rays, weights with sum_k x_k g_k > 0 cost at least the next level; the largest convex function below
    this step is max over tau of sum_k x_k min(1, tau g_k). Returns the cost at x, and whether its winners are clear.
    """
    n_features = len(x)
    first, first_end = stack.first_row[t], stack.first_end[t]
    gain, ceiling = work.gain, work.ceiling
    cut[:] = 0.0
    cost = stack.fixed[t]
    clear = True
    tolerance = 0.0
    for d in range(n_features):
        tolerance += 2.0 * x[d] * stack.errors[t, d]
    for a in range(stack.n_lists[t]):
        begin, end = first + stack.ends[first_end + a], first + stack.ends[first_end + a + 1]
        top, second = -np.inf, -np.inf
        best = begin
        for i in range(begin, end):
            total = 0.0
            for d in range(n_features):
                total += x[d] * stack.scores[i, d]
            if total > top:
                second, top, best = top, total, i
            elif total > second:
                second = total
        if top - second <= tolerance + 4.0 * n_features * EPSILON * abs(top):
            clear = False
        reached = stack.costs[best]
        cost += reached
        if reached == stack.costs[begin]:
            continue
        for d in range(n_features):
            ceiling[d] = -np.inf
        i = begin
        while stack.costs[i] < reached:
            level = stack.costs[i]
            while stack.costs[i] == level:
                for d in range(n_features):
                    ceiling[d] = max(ceiling[d], stack.scores[i, d])
                i += 1
            slope = 0.0
            for d in range(n_features):
                gain[d] = stack.scores[best, d] - ceiling[d] - 2.0 * stack.errors[t, d]
                slope += x[d] * gain[d]
            if slope <= 0.0:
                break  # a costlier level's winner does not beat more of its ceiling
            steepness = 0.0
            bound_gain = np.inf
            while slope > 0.0:
                largest = 0.0
                for d in range(n_features):
                    if gain[d] < bound_gain and gain[d] > largest:
                        largest = gain[d]
                if largest == 0.0:
                    break
                steepness = 1.0 / largest
                for d in range(n_features):
                    if gain[d] == largest:
                        slope -= x[d] * gain[d]
                bound_gain = largest
            step = float(stack.costs[i] - level)
            for d in range(n_features):
                cut[d] += step * min(1.0, steepness * gain[d])
    return cost, clear


@njit(cache=True)
def _least_over_cuts(cuts, n_cuts, table, basis, x):
    """Return min over x in the simplex of the largest of the cuts [n_cuts, D], and write that x.

    The value is recomputed from the multipliers of the cuts, so that it is a bound whatever the pivots' rounding.
    """
    n_features = cuts.shape[1]
    low, high = np.inf, -np.inf
    for q in range(n_cuts):
        for d in range(n_features):
            low, high = min(low, cuts[q, d]), max(high, cuts[q, d])
    scale = high - low
    if scale <= 0.0:
        return low
    # With entries a in [1, 2], x = u / sum(u) for the u >= 0 of largest sum with a u <= 1 (a matrix game as a linear program).
    last = n_features + n_cuts
    for q in range(n_cuts):
        for d in range(n_features):
            table[q, d] = (cuts[q, d] - low) / scale + 1.0
        for k in range(n_cuts):
            table[q, n_features + k] = 1.0 if k == q else 0.0
        table[q, last] = 1.0
        basis[q] = n_features + q
    for c in range(last + 1):
        table[n_cuts, c] = -1.0 if c < n_features else 0.0
    for _ in range(8 * (n_features + n_cuts)):
        entering = -1
        least = -1e-11
        for c in range(last):
            if table[n_cuts, c] < least:
                least, entering = table[n_cuts, c], c
        if entering < 0:
            break
        leaving = -1
        ratio = np.inf
        for q in range(n_cuts):
            if table[q, entering] > 1e-12 and table[q, last] < ratio * table[q, entering]:
                ratio, leaving = table[q, last] / table[q, entering], q
        if leaving < 0:
            break
        pivot = 1.0 / table[leaving, entering]
        for c in range(last + 1):
            table[leaving, c] *= pivot
        basis[leaving] = entering
        for q in range(n_cuts + 1):
            factor = table[q, entering]
            if q != leaving and factor != 0.0:
                for c in range(last + 1):
                    table[q, c] -= factor * table[leaving, c]
    x[:] = 0.0
    total = 0.0
    for q in range(n_cuts):
        if basis[q] < n_features:
            x[basis[q]] = max(0.0, table[q, last])
            total += x[basis[q]]
    for d in range(n_features):
        x[d] /= total
    prices = 0.0
    for q in range(n_cuts):
        prices += max(0.0, table[n_cuts, n_features + q])
    value = np.inf
    for d in range(n_features):
        mixed = 0.0
        for q in range(n_cuts):
            mixed += max(0.0, table[n_cuts, n_features + q]) * cuts[q, d]
        value = min(value, mixed / prices)
    return value


@njit(cache=True)
def _cut_off(stack, t, work, settings):
    """Raise the bound of cone t by cuts, from its point on; say whether it exceeds what is left to find."""
    n = stack.numbers
    n_features = len(work.x)
    x = work.x
    x[:] = stack.points[t]
    for q in range(len(work.cuts)):
        cost, clear = _add_cut(stack, t, x, work.cuts[q], work)
        if clear and cost < n[UPPER_COST]:
            n[UPPER_COST] = cost
            for d in range(n_features):
                stack.best_weights[d] = 0.0
                for k in range(n_features):
                    stack.best_weights[d] += x[k] * stack.rays[t, k, d]
        left = float(n[UPPER_COST] - settings.granularity - stack.least[t])
        here = 0.0
        for d in range(n_features):
            here += x[d] * work.cuts[q, d]
        if here <= left:
            break  # the cuts' function is tight at x: no number of cuts can exceed what it is there
        value = _least_over_cuts(work.cuts, q + 1, work.table, work.basis, x)
        if value > left + 1e-9 * (left + settings.granularity):
            return True
    stack.points[t] = x
    return False


@njit(cache=True)
def _search_leaf(features, child, stack, settings):
    """Search the selections of a small cone, keep what improves, and return the state that the search ended in."""
    n = stack.numbers
    n_features = features.shape[1]
    normals, certain = outer_normals(child.rays)
    n_lists = child.numbers[1]
    n_rows = child.numbers[0]
    if not certain:
        return ASKING
    rows = np.zeros((n_rows + 2 * n_features, n_features))
    offsets = np.empty(n_lists + n_features + 1, dtype=np.int64)
    own_costs = np.empty(n_rows + 2 * n_features, dtype=np.int64)
    reach = np.zeros(n_features)
    for i in range(n_rows):
        own_costs[i] = child.costs[i]
        for d in range(n_features):
            rows[i, d] = features[child.ids[i], d]
            reach[d] = max(reach[d], abs(rows[i, d]))
    longest = 2
    for a in range(n_lists + 1):
        offsets[a] = child.ends[a]
        if a > 0:
            longest = max(longest, offsets[a] - offsets[a - 1])
    for k in range(n_features):
        offsets[n_lists + k + 1] = n_rows + 2 * (k + 1)
        own_costs[n_rows + 2 * k] = 0
        own_costs[n_rows + 2 * k + 1] = INFINITE_COST
        for d in range(n_features):
            rows[n_rows + 2 * k, d] = normals[k, d]
            reach[d] = max(reach[d], abs(normals[k, d]))
    columns = np.empty(rows.size)
    transpose_lists(rows, offsets, columns)
    lists = Lists(rows, columns, offsets, own_costs, reach)
    centre = np.zeros(n_features)
    for k in range(n_features):
        for d in range(n_features):
            centre[d] += child.rays[k, d]
    most = n_features + 4
    slots = n_lists + 2
    corrals = Corrals(
        np.zeros((slots, most, n_features)),
        np.zeros((slots, most)),
        np.zeros((slots, most), dtype=np.int64),
        np.zeros((slots, most), dtype=np.int64),
        np.zeros(slots, dtype=np.int64),
        np.zeros((slots, n_features)),
    )
    corrals.point[0] = centre
    scratch = Scratch(np.zeros((most, most)), np.zeros(most), np.zeros(most), np.zeros(longest))
    fixed = child.numbers[2]
    tree = new_tree(lists, n_features, 64, 64, 32, n[UPPER_COST] - fixed, centre)
    state = search(lists, tree, corrals, scratch, settings.selections, settings.leaf_work)
    n[LEAF_LPS] += tree.numbers[LPS]
    n[DONE_WORK] += tree.numbers[WORK]
    if tree.numbers[UPPER] < n[UPPER_COST] - fixed:
        n[UPPER_COST] = tree.numbers[UPPER] + fixed
        stack.best_weights[:] = tree.best_weights
    return state


@njit(cache=True)
def _carry_point(x, p, q, first, carried):
    """Write the parent's point x in the coordinates of the child whose ray p (first) or q moved to the midpoint."""
    moved, stays = (p, q) if first else (q, p)
    n_features = len(x)
    for d in range(n_features):
        carried[d] = 0.9 * x[d] + 0.1 / n_features
    carried[moved] = 0.9 * 2.0 * min(x[moved], x[stays]) + 0.1 / n_features
    carried[stays] = 0.9 * max(x[stays] - x[moved], 0.0) + 0.1 / n_features
    total = 0.0
    for d in range(n_features):
        total += carried[d]
    for d in range(n_features):
        carried[d] /= total


@njit(cache=True)
def prune_root(stack, child, work, settings, limit):
    """Prune the only cone on the stack in place."""
    child.rays[:] = stack.rays[0]
    child.errors[:] = stack.errors[0]
    centre, clear = _prune(stack, 0, work.middle, -1, child, limit, settings.largest)
    n = stack.numbers
    n[NODES] += 1
    if clear and centre < n[UPPER_COST]:
        n[UPPER_COST] = centre
        stack.best_weights[:] = child.rays.sum(axis=0)
    n[TOP] = -1
    if child.numbers[3] <= limit:
        _push(stack, child, child.numbers[3], 0)
        stack.points[0, :] = 1.0 / len(child.errors)


@njit(cache=True)
def explore(features, stack, children, work, settings, budget):
    """Split, prune and bound cones depth first until the stack is EMPTY or FULL, a cone is too HARD, or the budget is spent.

    A HARD cone stays on top of the stack: exact arithmetic outside must close it and take it off.
    """
    n = stack.numbers
    stop = n[DONE_WORK] + budget
    while n[TOP] >= 0:
        t = n[TOP]
        limit = n[UPPER_COST] - settings.granularity
        if stack.bound[t] > limit:
            n[TOP] -= 1
            continue
        if n[DONE_WORK] > stop:
            return PAUSED
        if not _room(stack):
            return FULL
        n[DONE_WORK] += len(work.cuts) * stack.n_rows[t]
        if len(work.cuts) > 0 and stack.n_rows[t] <= settings.cut_rows and _cut_off(stack, t, work, settings):
            n[TOP] -= 1
            n[CUT_OFF] += 1
            continue
        p, q = _longest_edge(stack, t, work)
        error, exact_ray = _halve(stack, t, p, q, work)
        if stack.stalled[t] >= settings.hopeless or not exact_ray:
            return HARD
        parent_bound, parent_stalled, parent_lists = stack.bound[t], stack.stalled[t], stack.n_lists[t]
        point = stack.points[t].copy()
        n[DONE_WORK] += 4 * stack.n_rows[t] + 50
        for c in range(2):
            child = children[c]
            replaced = p if c == 0 else q
            child.rays[:] = stack.rays[t]
            child.errors[:] = stack.errors[t]
            child.errors[replaced] = error
            for d in range(len(work.best)):
                child.rays[replaced, d] = 0.5 * (stack.rays[t, p, d] + stack.rays[t, q, d])
            limit = n[UPPER_COST] - settings.granularity
            centre, clear = _prune(stack, t, work.middle, replaced, child, limit, settings.largest)
            n[NODES] += 1
            if clear and centre < n[UPPER_COST]:
                n[UPPER_COST] = centre
                stack.best_weights[:] = 0.0
                for k in range(len(work.best)):
                    for d in range(len(work.best)):
                        stack.best_weights[d] += child.rays[k, d]
        n[TOP] -= 1
        first = 0 if children[0].numbers[3] > children[1].numbers[3] else 1  # the better child is pushed last
        for k in range(2):
            child = children[first if k == 0 else 1 - first]
            bound = max(parent_bound, child.numbers[3])
            if bound > n[UPPER_COST] - settings.granularity:
                continue
            n_lists = child.numbers[1]
            stalled = parent_stalled + 1 if n_lists >= 0.9 * parent_lists and child.numbers[0] <= settings.leaf_rows else 0
            if n_lists <= settings.leaf_lists or stalled >= settings.most_stalled:
                n[LEAVES] += 1
                state = _search_leaf(features, child, stack, settings)
                if state == DONE:
                    continue
                if state == ASKING:
                    stalled = settings.hopeless
            _push(stack, child, bound, stalled)
            _carry_point(point, p, q, (first if k == 0 else 1 - first) == 0, stack.points[n[TOP]])
    return EMPTY
