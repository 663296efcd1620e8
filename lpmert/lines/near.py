"""What of the lists matters near given weights: the hypotheses that win somewhere there, where a list's cost varies.

Near good weights most hypotheses are far behind. Searches that stay near pass a small part of the lists, and what they
find there holds for all of them.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.lines.envelope import Workspace, combine
from lpmert.numeric.kernels import kernel


class Near(NamedTuple):
    """Weights centre + x [D], x at right angles to the centre and |x| <= reach, and the lists there.

    rows [n]: the hypotheses that can win there, of lists whose cost varies; offsets [s + 1] of them; base: what all
    other lists cost there.
    """

    centre: FloatArray
    reach: float
    rows: IntArray
    offsets: IntArray
    base: int


@kernel
def find_reaches(transposed, scores, offsets, squares, reaches):  # type: ignore[no-untyped-def]
    """Write how far from weights c of length 1, at right angles to them, each hypothesis wins first; 0 if at c.

    transposed [D, M]; scores [M] at c; squares [M] is scratch. With g the step from the winner's features to its own,
    and h how far it is behind, a hypothesis wins at c + x if g . x >= h, and g . x is at most |x| times the length
    of g across c.
    """
    for s in range(len(offsets) - 1):
        begin, end = offsets[s], offsets[s + 1]
        best = begin
        for i in range(begin + 1, end):
            if scores[i] > scores[best]:
                best = i
        across = squares[begin:end]
        for i in range(len(across)):
            across[i] = 0.0
        for k in range(len(transposed)):
            part, own = transposed[k, begin:end], transposed[k, best]
            for i in range(len(across)):
                across[i] += (part[i] - own) * (part[i] - own)
        for i in range(begin, end):
            behind = scores[best] - scores[i]
            square = squares[i] - behind * behind
            if behind == 0.0:
                reaches[i] = 0.0
            elif square > 0.0:
                reaches[i] = behind / sqrt(square)
            else:
                reaches[i] = inf


def reaches_from(centre: FloatArray, offsets: IntArray, work: Workspace) -> FloatArray:
    """Return how far [M] from the centre [D], of length 1, each hypothesis wins first, as `find_reaches` does."""
    combine(work.transposed, centre, work.intercepts)
    reaches = np.empty_like(work.intercepts)
    find_reaches(work.transposed, work.intercepts, offsets, work.slopes, reaches)
    return reaches


def near(centre: FloatArray, reaches: FloatArray, share: float, offsets: IntArray, costs: IntArray) -> Near:
    """Return the neighbourhood of the centre in which this share of the hypotheses wins somewhere, but not all lists.

    reaches [M], as `reaches_from` returns them.
    """
    place = min(int(share * len(reaches)), len(reaches) - 1)
    reach = float(np.partition(reaches, place)[place])
    if reach == inf:
        reach = float(reaches.max(where=reaches < inf, initial=0.0))
    kept = reaches <= reach
    least = np.minimum.reduceat(np.where(kept, costs, np.iinfo(np.int64).max), offsets[:-1])
    most = np.maximum.reduceat(np.where(kept, costs, np.iinfo(np.int64).min), offsets[:-1])
    varies = least < most
    lists = np.repeat(varies, np.diff(offsets))
    sizes = np.add.reduceat(kept, offsets[:-1], dtype=np.int64)[varies]
    base = int(least[~varies].sum())
    return Near(centre, reach, np.flatnonzero(kept & lists), np.concatenate([[0], np.cumsum(sizes)]), base)
