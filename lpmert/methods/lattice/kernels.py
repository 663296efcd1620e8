"""The hypotheses of one lattice that may win in a cone of weights, of all its paths.

A partial path that another one into the same node beats at every ray of the cone wins nowhere in it, whatever follows:
that adds the same to both. What nobody beats are labels; those of the last node are the hypotheses that may win.

Throughout: links sorted by target, as in `lpmert.model.lattices`; features [L, D] whose sums along paths are exact,
rays [D, D], linearly independent.
"""

from __future__ import annotations

import numpy as np

from lpmert.numeric.kernels import EPSILON, fill, internal, kernel

_UNDECIDED = 2


@kernel
def survey(sources, targets, features, rays, scores, so_far, to_come):
    """Fill scores [L, D] of the links at the rays, and the best ones of paths to each node, and from it, [n, D]."""
    n_rays = len(rays)
    for v in range(len(so_far)):
        fill(so_far[v], -np.inf)
        fill(to_come[v], -np.inf)
    fill(so_far[0], 0.0)
    fill(to_come[len(to_come) - 1], 0.0)
    for k in range(len(sources)):
        for r in range(n_rays):
            score = 0.0
            for d in range(features.shape[1]):
                score += features[k, d] * rays[r, d]
            scores[k, r] = score
            so_far[targets[k], r] = max(so_far[targets[k], r], so_far[sources[k], r] + score)
    for k in range(len(sources) - 1, -1, -1):
        for r in range(n_rays):
            to_come[sources[k], r] = max(to_come[sources[k], r], to_come[targets[k], r] + scores[k, r])


@kernel
def best_path(sources, targets, scores, mix, best, link, way, total):
    """Write the links of the best path at a mix [D] of the rays into way, last first, and its scores at the rays into
    total [D]; return how many links it has. Work space: best, link [n].
    """
    fill(best, -np.inf)
    best[0] = 0.0
    for k in range(len(sources)):
        score = best[sources[k]]
        for r in range(len(mix)):
            score += scores[k, r] * mix[r]
        if score > best[targets[k]]:
            best[targets[k]] = score
            link[targets[k]] = k
    fill(total, 0.0)
    length = 0
    v = len(best) - 1
    while v > 0:
        k = link[v]
        way[length] = k
        length += 1
        for r in range(len(mix)):
            total[r] += scores[k, r]
        v = sources[k]
    return length


@internal
def _hopeless(scores, position, to_come, node, paths, slack):
    """Whether one whole path beats, at every ray and beyond rounding, all that goes on from here."""
    for p in range(len(paths)):
        beaten = True
        for r in range(len(slack)):
            if scores[position, r] + to_come[node, r] + slack[r] >= paths[p, r]:
                beaten = False
                break
        if beaten:
            return True
    return False


@kernel(allocates=True)
def keep_links(sources, targets, scores, so_far, to_come, paths, slack, kept):
    """Mark in kept [L] the links through which a path may win in the cone; return how many these are.

    paths [P, D]: scores of some whole paths at the rays; slack [D] bounds the rounding of two such sums.
    """
    count = 0
    through = np.empty((1, scores.shape[1]))
    for k in range(len(sources)):
        for r in range(scores.shape[1]):
            through[0, r] = so_far[sources[k], r] + scores[k, r]
        kept[k] = not _hopeless(through, np.int64(0), to_come, targets[k], paths, slack)
        count += kept[k]
    return count


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
    error = (len(ray) + 1) * EPSILON * size
    if total > error:
        return 1
    if total < -error:
        return -1
    return 0 if size == 0.0 else _UNDECIDED


@internal
def _beats(labels, scores, i, j, rays, tolerance):
    """Return 1 where label i is at least label j at every ray, -1 where it is at most that and somewhere less, else 0.

    Labels that are equal at all rays have the same features.
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
def _add(labels, scores, dead, begin, n, likely, rays, tolerance):
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
def _move(labels, scores, dead, source, target):
    for d in range(labels.shape[1]):
        labels[target, d] = labels[source, d]
    for r in range(scores.shape[1]):
        scores[target, r] = scores[source, r]
    dead[target] = False


@kernel
def frontier(sources, targets, features, rays, to_come, paths, slack, tolerance, most_work, space):
    """Find the labels of the last node; return (first, end, work): rows of space.labels, first = -1 where the labels
    find no room in the space, or comparing them is too much work.

    tolerance [D] bounds the rounding of the difference of two scores of labels. Of labels with the same features the
    first one stays: that which came by an earlier link, or from an earlier label.
    """
    labels, scores, came, dead, first = space.labels, space.scores, space.came, space.dead, space.first
    n_rays, n_features = rays.shape
    n_nodes = len(to_come)
    room = len(labels) - 1
    fill(labels[0], 0.0)
    fill(scores[0], 0.0)
    came[0, 0] = came[0, 1] = -1
    first[0] = 0
    first[1] = 1
    n, work, k = 1, 0, 0
    for v in range(1, n_nodes):
        begin = n
        likely = -1
        while k < len(sources) and targets[k] == v:
            for i in range(first[sources[k]], first[sources[k] + 1]):
                if n >= room or work > most_work:
                    return -1, -1, work
                for d in range(n_features):
                    labels[n, d] = labels[i, d] + features[k, d]
                for r in range(n_rays):
                    score = 0.0
                    for d in range(n_features):
                        score += labels[n, d] * rays[r, d]
                    scores[n, r] = score
                work += 1
                if _hopeless(scores, n, to_come, v, paths, slack):
                    continue
                winner = _add(labels, scores, dead, begin, n, likely, rays, tolerance)
                if winner >= 0:
                    work += 1 if winner == likely else winner - begin
                    likely = winner
                else:
                    work += n - begin
                    came[n, 0], came[n, 1] = i, k
                    n += 1
            k += 1
        end = n
        n = begin
        for i in range(begin, end):
            if not dead[i]:
                _move(labels, scores, dead, i, n)
                came[n, 0], came[n, 1] = came[i, 0], came[i, 1]
                n += 1
        first[v + 1] = n
    return first[n_nodes - 1], n, work


@kernel
def trace(came, first, end, lengths, ways):
    """Write the links of each label first .. end, last first, one label after the other, and their numbers [n]."""
    place = 0
    for i in range(first, end):
        begin = place
        label = i
        while came[label, 0] >= 0:
            if place < len(ways):
                ways[place] = came[label, 1]
            place += 1
            label = came[label, 0]
        lengths[i - first] = place - begin
    return place


@kernel
def drop_beaten(features, rays, tolerance, scores, dead):
    """Mark in dead [n] the rows of features [n, D] that another one beats at every ray; scores [n, D] is work space."""
    likely = -1
    for i in range(len(features)):
        for r in range(len(rays)):
            score = 0.0
            for d in range(features.shape[1]):
                score += features[i, d] * rays[r, d]
            scores[i, r] = score
        likely = _add(features, scores, dead, np.int64(0), i, likely, rays, tolerance)
        dead[i] = likely >= 0
