"""Bounds by cuts: lists that pull in opposite directions cannot all have their cheapest hypothesis.

Inside a cone every list's cost has a convex, piecewise linear minorant that is tight at the rays. The sum over the
lists is minimised by a few cutting planes, each a linear function on the cone.
"""

from __future__ import annotations

import numpy as np

from lpmert.methods.cells.ledger import look_inside
from lpmert.methods.cells.stack import UPPER_COST
from lpmert.numeric.kernels import EPSILON, copy_entries, fill, internal

STEP = 0.3
ROUNDING = 1e-11
"""Relative error of a sum over lists: far more than their number times the unit roundoff."""


@internal
def add_cut(stack, t, x, cut, work, largest):
    """Fill cut [D]: what the open lists cost beyond their least, bounded from below by a linear function on the cone.

    For weights sum_k x_k ray_k with x in the simplex. Where the winner j at x beats every hypothesis of cost <= l, with
    gain g_k > 0 at some rays, weights with sum_k x_k g_k > 0 cost at least the next level; the largest convex function
    below this step is max over tau of sum_k x_k min(1, tau g_k). Returns the cost at x, whether its winners are
    clear, and the mass of what was added up, to bound its rounding. largest bounds the magnitude of all scores.
    """
    n_features = len(x)
    first, first_end = stack.first_row[t], stack.first_end[t]
    gain, ceiling = work.gain, work.ceiling
    fill(cut, 0.0)
    cost = stack.fixed[t]
    clear = True
    mass = 0.0
    tolerance = 4.0 * n_features * n_features * EPSILON * largest
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
        if top - second <= tolerance:
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
            most = 1.0
            for d in range(n_features):
                height = min(1.0, steepness * gain[d])
                cut[d] += step * height
                most = max(most, -height)
            mass += step * most
    return cost, clear, mass


@internal
def least_over_cuts(cuts, n_cuts, table, basis, x):
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
    # A matrix game as a linear program: with entries a in [1, 2], the u >= 0 of largest sum with a u <= 1.
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
    fill(x, 0.0)
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


@internal
def cut_off(ledger, lists, stack, t, work, settings):
    """Raise the bound of cone t by cuts, from its point on; say whether it exceeds what is left to find."""
    n = stack.numbers
    n_features = len(work.x)
    x, inner = work.x, work.inner
    copy_entries(stack.points[t], x, np.int64(0), n_features)
    least_here = np.inf
    heaviest = 0.0
    for q in range(len(work.cuts)):
        cost, clear, mass = add_cut(stack, t, x, work.cuts[q], work, settings.largest)
        heaviest = max(heaviest, mass)
        if clear and cost < n[UPPER_COST]:
            look_inside(ledger, lists, stack, t, x)
        left = float(n[UPPER_COST] - settings.granularity - stack.bound[t])
        here = 0.0
        for d in range(n_features):
            here += x[d] * work.cuts[q, d]
        if here < least_here:
            least_here = here
            copy_entries(x, inner, np.int64(0), n_features)
        if here <= left:
            break  # the cuts' function is tight at x: no number of cuts can exceed what it is there
        value = least_over_cuts(work.cuts, q + 1, work.table, work.basis, x)
        if value > left + 1e-9 * settings.granularity + ROUNDING * (heaviest + left):
            return True
        # The next cut between the cuts' minimum and the best point so far: Kelley's method jumps about otherwise.
        for d in range(n_features):
            x[d] = STEP * x[d] + (1.0 - STEP) * inner[d]
    copy_entries(inner, stack.points[t], np.int64(0), n_features)
    return False
