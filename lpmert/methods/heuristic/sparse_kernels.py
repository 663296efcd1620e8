"""Loops over sparse features of lists: lines of one feature, passes of the perceptron, rounds of boosting.

Throughout: offsets [S + 1], numbers [M] the list of every row; one feature's entries are rows, ascending, and values;
a row without an entry has the value 0.
"""

from __future__ import annotations

import numpy as np

from lpmert.numeric.kernels import kernel


@kernel
def mark_varying(starts, rows, values, numbers, offsets, varies):
    """Set varies [entries] for the entries of features (starts [D + 1]) that differ within their list."""
    for d in range(len(starts) - 1):
        e = starts[d]
        while e < starts[d + 1]:
            s = numbers[rows[e]]
            last = e
            same = True
            while last < starts[d + 1] and numbers[rows[last]] == s:
                same = same and values[last] == values[e]
                last += 1
            same = same and last - e == offsets[s + 1] - offsets[s]
            for k in range(e, last):
                varies[k] = not same
            e = last


@kernel
def line_events(rows, values, weight, scores, offsets, numbers, groups, group_rows, lists, starts, thresholds, changes):
    """Find where choices change as one feature's weight, now `weight` within scores [M], runs from -inf to inf.

    Only lists with an entry are visited: writes them to lists, their choices at -inf to starts, and each change to
    thresholds and changes [., 2] (row left, row entered). groups [3, N], group_rows [N]: for one list. Of the rows with
    one value only the best by the rest of the score, the *active* one, can win. Returns (lists, changes) in numbers.
    """
    n_lists, n_events, e = 0, 0, 0
    while e < len(rows):
        s = numbers[rows[e]]
        n_groups = 0
        for i in range(offsets[s], offsets[s + 1]):
            value = 0.0
            if e < len(rows) and rows[e] == i:
                value = values[e]
                e += 1
            rest = scores[i] - weight * value
            low, high = 0, n_groups
            while low < high:
                middle = (low + high) // 2
                if groups[0, middle] < value:
                    low = middle + 1
                else:
                    high = middle
            if low < n_groups and groups[0, low] == value:
                if rest > groups[1, low]:
                    groups[1, low] = rest
                    group_rows[low] = i
                continue
            for g in range(n_groups, low, -1):
                groups[0, g] = groups[0, g - 1]
                groups[1, g] = groups[1, g - 1]
                group_rows[g] = group_rows[g - 1]
            groups[0, low] = value
            groups[1, low] = rest
            group_rows[low] = i
            n_groups += 1
        # the upper envelope of the lines, those on it so far moved to the front; groups[2]: where each begins
        top = 0
        for g in range(1, n_groups):
            begin = 0.0
            while top >= 0:
                begin = (groups[1, top] - groups[1, g]) / (groups[0, g] - groups[0, top])
                if top == 0 or begin > groups[2, top]:
                    break
                top -= 1
            top += 1
            groups[0, top] = groups[0, g]
            groups[1, top] = groups[1, g]
            groups[2, top] = begin
            group_rows[top] = group_rows[g]
        lists[n_lists] = s
        starts[n_lists] = group_rows[0]
        n_lists += 1
        for g in range(1, top + 1):
            thresholds[n_events] = groups[2, g]
            changes[n_events, 0] = group_rows[g - 1]
            changes[n_events, 1] = group_rows[g]
            n_events += 1
    return n_lists, n_events


@kernel
def winners(rows, values, step, scores, offsets, numbers, lists, chosen):
    """Write the lists with an entry and their choices once the feature's weight grows by step; return their number."""
    n_lists, e = 0, 0
    while e < len(rows):
        s = numbers[rows[e]]
        best = -np.inf
        winner = offsets[s]
        for i in range(offsets[s], offsets[s + 1]):
            score = scores[i]
            if e < len(rows) and rows[e] == i:
                score += step * values[e]
                e += 1
            if score > best:
                best = score
                winner = i
        lists[n_lists] = s
        chosen[n_lists] = winner
        n_lists += 1
    return n_lists


@kernel
def perceptron_pass(order, starts, columns, values, offsets, base, gold, rate, weights, weighted, visits):
    """Visit lists in order; move weights [D] from a wrong best row to the best gold row; return (visits, updates).

    starts [M + 1], columns, values: the features by row; base [M]: the score that stays; gold [M]: whether a row's
    loss is the least of its list. weighted [D]: the sum of every update times the visits before it.
    """
    updates = 0
    for s in order:
        best, best_gold = -np.inf, -np.inf
        winner = target = offsets[s]
        for i in range(offsets[s], offsets[s + 1]):
            score = base[i]
            for e in range(starts[i], starts[i + 1]):
                score += weights[columns[e]] * values[e]
            if score > best:
                best = score
                winner = i
            if gold[i] and score > best_gold:
                best_gold = score
                target = i
        if not gold[winner]:
            updates += 1
            for i, sign in ((target, rate), (winner, -rate)):
                for e in range(starts[i], starts[i + 1]):
                    weights[columns[e]] += sign * values[e]
                    weighted[columns[e]] += sign * values[e] * visits
        visits += 1
    return visits, updates


@kernel
def _gain(above, below, reach):
    difference = np.sqrt(max(above, 0.0)) - np.sqrt(max(below, 0.0))
    return difference * difference / reach


@kernel
def boosting_start(starts, rows, values, pair_weights, above, below, reach, gains):
    """Fill for each feature [D] the weights of the pairs that it ranks rightly and wrongly, its reach and its gain."""
    for d in range(len(starts) - 1):
        for e in range(starts[d], starts[d + 1]):
            value = values[e]
            reach[d] = max(reach[d], abs(value))
            if value > 0:
                above[d] += value * pair_weights[rows[e]]
            else:
                below[d] -= value * pair_weights[rows[e]]
        if reach[d] > 0:
            gains[d] = _gain(above[d], below[d], reach[d])


@kernel
def boosting_rounds(
    n_rounds,
    smoothing,
    tolerance,
    least,
    by_feature,
    rows,
    values,
    by_pair,
    columns,
    pair_values,
    pair_weights,
    above,
    below,
    reach,
    gains,
    weights,
):
    """Take up to so many steps, each along the feature of the largest gain; return how many were taken.

    It ends early where no gain is more than tolerance times the sum of pair_weights, or that is not above least.

    by_feature [D + 1], rows, values and by_pair [P + 1], columns, pair_values: the same differences, gold row less
    other row, by feature and by pair. pair_weights [P]: importance times exp(-margin), kept up to date.
    """
    taken = 0
    while taken < n_rounds:
        d = np.argmax(gains)
        total = pair_weights.sum()
        if total <= least or gains[d] <= tolerance * total:
            break
        # anew, because the sums kept up to date have rounding errors, which count where values are large
        above[d] = below[d] = 0.0
        for e in range(by_feature[d], by_feature[d + 1]):
            if values[e] > 0:
                above[d] += values[e] * pair_weights[rows[e]]
            else:
                below[d] -= values[e] * pair_weights[rows[e]]
        gains[d] = _gain(above[d], below[d], reach[d])
        if gains[d] <= tolerance * total:
            continue
        floor = smoothing * total
        step = 0.5 / reach[d] * np.log((above[d] + floor) / (below[d] + floor))
        weights[d] += step
        for e in range(by_feature[d], by_feature[d + 1]):
            pair = rows[e]
            change = pair_weights[pair] * np.expm1(-step * values[e])
            pair_weights[pair] += change
            for k in range(by_pair[pair], by_pair[pair + 1]):
                column, value = columns[k], pair_values[k]
                if value > 0:
                    above[column] += value * change
                else:
                    below[column] -= value * change
        for e in range(by_feature[d], by_feature[d + 1]):
            for k in range(by_pair[rows[e]], by_pair[rows[e] + 1]):
                column = columns[k]
                gains[column] = _gain(above[column], below[column], reach[column])
        taken += 1
    return taken
