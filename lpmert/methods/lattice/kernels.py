"""The hypotheses of one lattice that may win in a cone of weights, of all its paths.

A partial path that another one into the same node beats at every ray of the cone wins nowhere in it, whatever follows:
that adds the same to both. What nobody beats are labels; those of the last node are the hypotheses that may win.

Throughout: links sorted by target, as in `lpmert.model.lattices`, each from a node and a second one, which is node 0 in
lattices: there is nothing before it. Features [L, D] whose sums along paths are exact. Rays [R, D], linearly
independent, whose numbers are off by half a unit in the last place at most: where D > R equations hold for all weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.methods.lattice.mixtures import drop_mixed
from lpmert.numeric.kernels import EPSILON, fill, internal, kernel

_UNDECIDED = 2

_CROWD = 12
"""Labels of a node among which those are looked for that mixtures of others beat; and so on whenever they double."""

_AT_FIRST, _AHEAD = 0.15, 3.0
"""Share of the work that may be done before the first link, and how much faster it may be done than links are."""


class Links(NamedTuple):
    """Some links of a lattice: the nodes they leave, the second ones, those they lead to [L], and features [L, D]."""

    sources: NDArray[np.int32]
    seconds: NDArray[np.int32]
    targets: NDArray[np.int32]
    features: FloatArray


class Space(NamedTuple):
    """Work space for labels: their features [N, D] and scores [N, R], the two labels and the link [N, 3] each came by,
    which are dead [N]; first [n + 1]: the first label of each node; most [R].
    """

    labels: FloatArray
    scores: FloatArray
    came: IntArray
    dead: NDArray[np.bool_]
    first: IntArray
    most: FloatArray


class Ahead(NamedTuple):
    """What rules labels out ahead: the best score from each node on [n, R], whole paths [P, R] at the rays, slack [R]
    that bounds the rounding of two such sums, and tolerance [R], that of the difference of two labels.
    """

    to_come: FloatArray
    paths: FloatArray
    slack: FloatArray
    tolerance: FloatArray


@internal
def hopeless(most, paths, n_paths, likely):
    """Return which of some whole paths [P, R] is better at every ray than the most [R] that can be reached, or -1.

    likely: which one is looked at first.
    """
    for turn in range(-1, n_paths):
        p = likely if turn < 0 else turn
        beaten = True
        for r in range(len(most)):
            if most[r] >= paths[p, r]:
                beaten = False
                break
        if beaten:
            return p
    return -1


@internal
def _sign(labels, i, j, ray):
    """Return the sign of the difference of two labels at a ray, 0 for none, or `_UNDECIDED` within rounding.

    The difference of two labels is exact, so that its error is relative to it, and not to the scores.
    """
    total, size = 0.0, 0.0
    for d in range(len(ray)):
        product = (labels[i, d] - labels[j, d]) * ray[d]
        total += product
        size += abs(product)
    error = (len(ray) + 2) * EPSILON * size
    if total > error:
        return 1
    if total < -error:
        return -1
    return 0 if size == 0.0 else _UNDECIDED


@internal
def _beats(labels, scores, i, j, rays, tolerance):
    """Return 1 where label i is at least label j at every ray, -1 where it is at most that and somewhere less, else 0.

    Labels that are equal at all rays have the same features, or no weights tell them apart.
    """
    most, least = True, True
    for r in range(len(tolerance)):
        difference = scores[i, r] - scores[j, r]
        if difference > tolerance[r]:
            least = False
        elif difference < -tolerance[r]:
            most = False
        else:
            sign = _sign(labels, i, j, rays[r])
            most = most and sign != -1 and sign != _UNDECIDED
            least = least and sign != 1 and sign != _UNDECIDED
        if not most and not least:
            return 0
    return 1 if most else -1


@internal
def compare_with_all(labels, scores, dead, begin, n, likely, rays, tolerance):
    """Compare label n with those before it, from `begin`; return which one beats it, or -1. Those it beats are marked
    dead. likely: which one is looked at first; what beat one label often beats the next.
    """
    if likely >= begin and not dead[likely] and _beats(labels, scores, likely, n, rays, tolerance) == 1:
        return likely
    for j in range(begin, n):
        if dead[j]:
            continue
        verdict = _beats(labels, scores, j, n, rays, tolerance)
        if verdict == 1:
            return j
        if verdict == -1:
            dead[j] = True
    dead[n] = False
    return -1


@internal
def _close_ranks(space, begin, end):
    """Take the dead among the labels begin .. end out, in place; return the new end."""
    labels, scores, came, dead = space.labels, space.scores, space.came, space.dead
    n = begin
    for i in range(begin, end):
        if dead[i]:
            continue
        if i != n:
            for d in range(labels.shape[1]):
                labels[n, d] = labels[i, d]
            for r in range(scores.shape[1]):
                scores[n, r] = scores[i, r]
            for c in range(3):
                came[n, c] = came[i, c]
            dead[n] = False
        n += 1
    return n


@kernel(nogil=True)
def frontier(links, n_nodes, rays, ahead, most_work, space, game):
    """Find the labels of the last node; return (first, end, work, links done): rows of space.labels, first = -1 where
    the labels find no room in the space, or comparing them is too much work.

    Of labels with the same features the first one stays: that which came by an earlier link, or from earlier labels.
    """
    sources, seconds, targets, features = links
    labels, scores, came, dead, first, most = space
    tolerance = ahead.tolerance
    n_rays, n_features = rays.shape
    n_paths = len(ahead.paths)
    room = len(labels) - 1
    fill(labels[0], 0.0)
    fill(scores[0], 0.0)
    came[0, 2] = -1
    dead[0] = False
    first[0] = 0
    first[1] = 1
    n, work, k = np.int64(1), np.int64(0), 0
    path = np.int64(0)
    for v in range(1, n_nodes):
        begin = n
        likely = np.int64(-1)
        crowd = begin + _CROWD
        while k < len(sources) and targets[k] == v:
            for i in range(first[sources[k]], first[sources[k] + 1]):
                for j in range(first[seconds[k]], first[seconds[k] + 1]):
                    if n >= crowd:
                        work += drop_mixed(labels, scores, dead, begin, n, rays, game)
                        n = _close_ranks(space, begin, n)
                        crowd = max(begin + _CROWD, 2 * n - begin)
                        likely = np.int64(-1)
                    if n >= room or work > most_work * min(1.0, _AT_FIRST + _AHEAD * k / len(sources)):
                        return -1, -1, work, k
                    for d in range(n_features):
                        labels[n, d] = labels[i, d] + labels[j, d] + features[k, d]
                    for r in range(n_rays):
                        score = 0.0
                        for d in range(n_features):
                            score += labels[n, d] * rays[r, d]
                        scores[n, r] = score
                        most[r] = score + ahead.to_come[v, r] + ahead.slack[r]
                    work += 1
                    found = hopeless(most, ahead.paths, n_paths, path)
                    if found >= 0:
                        path = found
                        continue
                    winner = compare_with_all(labels, scores, dead, begin, n, likely, rays, tolerance)
                    if winner >= 0:
                        work += 1 if winner == likely else winner - begin
                        likely = winner
                    else:
                        work += n - begin
                        came[n, 0], came[n, 1], came[n, 2] = i, j, k
                        n += 1
            k += 1
        n = _close_ranks(space, begin, n)
        if n > begin + 2:
            work += drop_mixed(labels, scores, dead, begin, n, rays, game)
            n = _close_ranks(space, begin, n)
        first[v + 1] = n
    return first[n_nodes - 1], n, work, k


@kernel(nogil=True)
def trace(came, first, end, stack, lengths, ways):
    """Write the links of each label first .. end, last first, one label after the other, and their numbers [n]; return
    how many links that are, which need not find room. Work space: stack [n + 1].
    """
    place = 0
    for i in range(first, end):
        begin = place
        stack[0] = i
        waiting = 1
        while waiting > 0:
            waiting -= 1
            label = stack[waiting]
            if place < len(ways):
                ways[place] = came[label, 2]
            place += 1
            for c in range(1, -1, -1):
                if came[label, c] > 0:
                    stack[waiting] = came[label, c]
                    waiting += 1
        lengths[i - first] = place - begin
    return place


@kernel(nogil=True)
def leading(paths, rays, tolerance, scores, dead, game):
    """Mark in dead [n] the paths, of features [n, D], that others beat at every ray; scores [n, R] at the rays."""
    likely = np.int64(-1)
    for i in range(len(paths)):
        for r in range(len(rays)):
            score = 0.0
            for d in range(paths.shape[1]):
                score += paths[i, d] * rays[r, d]
            scores[i, r] = score
        likely = compare_with_all(paths, scores, dead, np.int64(0), i, likely, rays, tolerance)
        dead[i] = likely >= 0
    drop_mixed(paths, scores, dead, np.int64(0), len(paths), rays, game)
