"""Hypotheses that win nowhere: in every cone of a cover of the weight space another one of their list is better."""

from __future__ import annotations

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.numeric.kernels import EPSILON, kernel

_CONES = 10
"""The cover has two to this power cones at most; with more features nearly all hypotheses win somewhere anyway."""


def possible_winners(features: FloatArray, offsets: IntArray) -> IntArray:
    """Return the rows, ascending, of features [M, D] that may win their list, or tie with a winner within rounding, for
    some weights; of all others it is proved that they do not.

    Lemma K1 of `proofs/cones.md`: who is beaten by more than rounding at all rays of a cone is beaten
    by one and the same hypothesis everywhere in it. Rows with features identical to those of a possible winner are kept
    as well.
    """
    kept = np.zeros(len(features), dtype=np.bool_)
    width = features.shape[1]
    if not 2 <= width <= _CONES:
        return np.arange(len(features))
    splits, longest = _CONES - width, int(np.diff(offsets).max(initial=1))
    mark_winners(
        features,
        offsets,
        np.empty((splits + 1, width, width)),
        np.empty((splits + 1, longest, width)),
        np.empty((splits + 1, longest), dtype=np.int64),
        np.empty((splits + 1, 2), dtype=np.int64),
        kept,
    )
    return np.flatnonzero(kept)


@kernel(nogil=True)
def mark_winners(features, offsets, rays, scores, ids, sizes, kept):
    """Set kept [M] for each row that may win in a cone of the cover: orthants, split so often as there are levels.

    rays [L, D, D], scores [L, N, D], ids [L, N] and sizes [L, 2] (rows, splits) are room for the open cones. All rays
    have entries that are multiples of a power of two, and absolute values that sum to 1.
    """
    width, most = features.shape[1], len(rays) - 1
    for s in range(len(offsets) - 1):
        begin, length = offsets[s], offsets[s + 1] - offsets[s]
        reach = 0.0
        for i in range(begin, begin + length):
            for d in range(width):
                reach = max(reach, abs(features[i, d]))
        # beyond what scores of weights are rounded by, here and where they are decoded
        least = 8.0 * (width + most + 8) * EPSILON * reach
        for orthant in range(1 << width):
            for k in range(width):
                sign = -1.0 if (orthant >> k) & 1 else 1.0
                for d in range(width):
                    rays[0, k, d] = sign if d == k else 0.0
                for i in range(length):
                    scores[0, i, k] = sign * features[begin + i, k]
            for i in range(length):
                ids[0, i] = begin + i
            sizes[0, 0], sizes[0, 1] = length, 0
            top = 0
            while top >= 0:
                count = sizes[top, 0]
                for k in range(width + 1):
                    # the best one at each ray, and in the middle
                    best, highest = 0, -np.inf
                    for i in range(count):
                        score = 0.0
                        if k < width:
                            score = scores[top, i, k]
                        else:
                            for d in range(width):
                                score += scores[top, i, d]
                        if score > highest:
                            best, highest = i, score
                    left = 0
                    for i in range(count):
                        beaten = i != best
                        for d in range(width):
                            beaten = beaten and scores[top, best, d] - scores[top, i, d] > least
                        if beaten:
                            continue
                        # never moves over the best one before its turn, since that is not beaten either
                        if left != i:
                            ids[top, left] = ids[top, i]
                            for d in range(width):
                                scores[top, left, d] = scores[top, i, d]
                        if i == best:
                            best = left
                        left += 1
                    count = left
                news = False
                for i in range(count):
                    if not kept[ids[top, i]]:
                        news = True
                if news and (count == 1 or sizes[top, 1] == most):
                    for i in range(count):
                        kept[ids[top, i]] = True
                    news = False
                if not news:
                    top -= 1
                    continue
                first, second, longest = 0, 1, -1.0
                for a in range(width):
                    for b in range(a + 1, width):
                        distance = 0.0
                        for d in range(width):
                            distance += (rays[top, a, d] - rays[top, b, d]) ** 2
                        if distance > longest:
                            first, second, longest = a, b, distance
                new = top + 1
                for k in range(width):
                    for d in range(width):
                        rays[new, k, d] = rays[top, k, d]
                for d in range(width):
                    middle = 0.5 * (rays[top, first, d] + rays[top, second, d])
                    rays[top, first, d] = middle
                    rays[new, second, d] = middle
                for i in range(count):
                    ids[new, i] = ids[top, i]
                    for d in range(width):
                        scores[new, i, d] = scores[top, i, d]
                    middle = 0.5 * (scores[top, i, first] + scores[top, i, second])
                    scores[top, i, first] = middle
                    scores[new, i, second] = middle
                sizes[top, 1] += 1
                sizes[new, 0], sizes[new, 1] = count, sizes[top, 1]
                sizes[top, 0] = count
                top = new
