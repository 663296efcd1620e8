"""Kernels on one lattice: links sorted by the node they lead to, all to a larger one, from node 0 to the last node."""

from __future__ import annotations

import numpy as np

from lpmert.numeric.kernels import fill, kernel


@kernel
def mark_useful(sources, targets, start, end, reached, leading):
    """Mark the nodes that start reaches, and those that lead to end; links lead to larger nodes and are sorted by
    target, and so first by none of both: only the order of the targets counts.
    """
    reached[start] = True
    for k in range(len(sources)):
        if reached[sources[k]]:
            reached[targets[k]] = True
    leading[end] = True
    for k in range(len(sources) - 1, -1, -1):
        if leading[targets[k]]:
            leading[sources[k]] = True


@kernel
def longest_path(sources, seconds, targets, lengths, longest):
    """Fill longest [n] with the largest sum of lengths [L] >= 0 of a path from node 0 to each node."""
    fill(longest, 0.0)
    for k in range(len(sources)):
        length = longest[sources[k]] + longest[seconds[k]] + lengths[k]
        longest[targets[k]] = max(longest[targets[k]], length)


@kernel
def count_paths(sources, seconds, targets, mantissas, exponents):
    """Fill mantissas [n] and exponents [n]: mantissa * 2**exponent paths lead to a node, but for rounding."""
    fill(mantissas, 0.0)
    fill(exponents, np.int64(0))
    mantissas[0] = 1.0
    for k in range(len(sources)):
        v = targets[k]
        more = mantissas[sources[k]] * mantissas[seconds[k]]
        exponent = exponents[sources[k]] + exponents[seconds[k]]
        if mantissas[v] == 0.0 or exponent > exponents[v]:
            mantissas[v] *= 2.0 ** float(exponents[v] - exponent)
            exponents[v] = exponent
        mantissas[v] += more * 2.0 ** float(exponent - exponents[v])
        while mantissas[v] >= 2.0:
            mantissas[v] *= 0.5
            exponents[v] += 1


@kernel(nogil=True)
def least_edits(sources, targets, words, reference, edits):
    """Fill edits [n, R + 1]: the least edits that turn the words of a path to a node into the first j words of the
    reference [R]; words [L] below 0 are silent.

    Source: E. W. Myers and W. Miller, Approximate matching of regular expressions, 1989, for a graph without cycles.
    """
    n_nodes, width = edits.shape
    for j in range(width):
        edits[0, j] = j
    for v in range(1, n_nodes):
        for j in range(width):
            edits[v, j] = len(sources) + width
    k = 0
    for v in range(1, n_nodes):
        while k < len(sources) and targets[k] == v:
            u = sources[k]
            for j in range(width):
                if words[k] < 0:
                    cost = edits[u, j]
                else:
                    cost = edits[u, j] + 1
                    if j > 0:
                        cost = min(cost, edits[u, j - 1] + (0 if words[k] == reference[j - 1] else 1))
                edits[v, j] = min(edits[v, j], cost)
            k += 1
        for j in range(1, width):
            edits[v, j] = min(edits[v, j], edits[v, j - 1] + 1)


@kernel
def best_so_far(sources, seconds, targets, scores, so_far):
    """Fill so_far [n] with the best score of a path from node 0 to each node, by scores [L] of the links."""
    fill(so_far, -np.inf)
    so_far[0] = 0.0
    for k in range(len(sources)):
        so_far[targets[k]] = max(so_far[targets[k]], so_far[sources[k]] + so_far[seconds[k]] + scores[k])


@kernel
def best_to_come(sources, seconds, targets, scores, so_far, to_come):
    """Fill to_come [n] with the best score of what is around each node in a path, by scores [L] of the links."""
    fill(to_come, -np.inf)
    to_come[len(to_come) - 1] = 0.0
    for k in range(len(sources) - 1, -1, -1):
        after = to_come[targets[k]] + scores[k]
        to_come[sources[k]] = max(to_come[sources[k]], after + so_far[seconds[k]])
        if seconds[k] > 0:
            to_come[seconds[k]] = max(to_come[seconds[k]], after + so_far[sources[k]])


@kernel(nogil=True)
def near_best(sources, seconds, targets, features, weights, share, scores, so_far, to_come, links):
    """Write the links of paths that come within rounding of the best one at weights [d], and return how many these are.

    share: of the largest score of a link, were all its terms positive, by which rounding may be off. Fills scores [L],
    so_far [n] and to_come [n], too.
    """
    largest = 0.0
    for k in range(len(sources)):
        score = size = 0.0
        for d in range(len(weights)):
            product = features[k, d] * weights[d]
            score += product
            size += abs(product)
        scores[k] = score
        largest = max(largest, size)
    best_so_far(sources, seconds, targets, scores, so_far)
    best_to_come(sources, seconds, targets, scores, so_far, to_come)
    least = so_far[len(so_far) - 1] - share * largest
    count = 0
    for k in range(len(sources)):
        if so_far[sources[k]] + so_far[seconds[k]] + scores[k] + to_come[targets[k]] >= least:
            links[count] = k
            count += 1
    return count


@kernel(allocates=True, nogil=True)
def most_matches(sources, targets, words, spelled, ends, follow, depth, first, states, counts, most):
    """Fill most [N] with the most n-grams of references, by their order, on a path from node 0 to the last node.

    words [L]: of the links, below 0 for none; word w has the tokens spelled[ends[w]:ends[w + 1]]. follow [Q, A], depth
    [Q]: the automaton whose state is the longest end of what was read that occurs in a reference, at most N tokens, its
    length being its depth. Work space: first [n + 1], states [R], counts [R, N]. Returns false where that has no room.
    """
    n_orders = counts.shape[1]
    place = np.full(len(depth), np.int64(-1))
    best = np.empty(n_orders, dtype=np.int64)
    states[0] = 0
    fill(counts[0], np.int64(0))
    first[0], first[1] = 0, 1
    n, k = 1, 0
    for v in range(1, len(first) - 1):
        while k < len(sources) and targets[k] == v:
            word = words[k]
            for i in range(first[sources[k]], first[sources[k] + 1]):
                state = states[i]
                for o in range(n_orders):
                    best[o] = counts[i, o]
                if word >= 0:
                    for t in range(ends[word], ends[word + 1]):
                        state = follow[state, spelled[t]]
                        for o in range(depth[state]):
                            best[o] += 1
                if place[state] < 0:
                    if n == len(states):
                        return False
                    place[state] = n
                    states[n] = state
                    fill(counts[n], np.int64(0))
                    n += 1
                for o in range(n_orders):
                    counts[place[state], o] = max(counts[place[state], o], best[o])
            k += 1
        first[v + 1] = n
        for i in range(first[v], n):
            place[states[i]] = -1
    fill(most, np.int64(0))
    for i in range(first[len(first) - 2], n):
        for o in range(n_orders):
            most[o] = max(most[o], counts[i, o])
    return True
