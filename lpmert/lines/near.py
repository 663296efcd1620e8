"""What of the lists matters near given weights: the hypotheses that win somewhere there, where a list's cost varies.

Near good weights most hypotheses are far behind. Searches that stay near pass a small part of the lists, and what they
find there holds for all of them.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from lpmert import core
from lpmert.errors import FloatArray, IntArray


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


def reaches_from(centre: FloatArray, lists: core.LineSearch) -> FloatArray:
    """Return how far [M] from a centre [D] of length 1, across it, each hypothesis wins first; 0 if there."""
    reaches = np.empty(lists.n_hypotheses)
    core.find_reaches(lists, centre, reaches)
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
