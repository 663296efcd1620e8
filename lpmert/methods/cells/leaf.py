"""The lists of a small cone for a search of its selections."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import IntArray
from lpmert.methods.cells.stack import N_LISTS, N_ROWS
from lpmert.numeric.kernels import INFINITE_COST, internal
from lpmert.numeric.leastnorm import SortedLists, transpose_lists


class LeafPart(NamedTuple):
    """What is left of the lists in a part of the space. numbers: as of `stack.Child`; ids, costs [R], ends [E]."""

    numbers: IntArray
    ids: NDArray[np.int32]
    costs: IntArray
    ends: IntArray


@internal(allocates=True)
def leaf_lists(lists_of_all, child, normals):
    """Return (the lists of a part of the space, and after them {normal, 0} for each of its sides, normals [k, D]; the
    length of the longest).

    No zero vector may win. The rows are the features of the problem, not the scores at the rays.
    """
    n_sides, n_features = normals.shape
    n_rows, n_lists = child.numbers[N_ROWS], child.numbers[N_LISTS]
    features = lists_of_all.rows
    rows = np.zeros((n_rows + 2 * n_sides, n_features))
    offsets = np.empty(n_lists + n_sides + 1, dtype=np.int64)
    costs = np.empty(n_rows + 2 * n_sides, dtype=np.int64)
    reach = np.zeros(n_features)
    for i in range(n_rows):
        costs[i] = child.costs[i]
        for d in range(n_features):
            rows[i, d] = features[child.ids[i], d]
            reach[d] = max(reach[d], abs(rows[i, d]))
    longest = 2
    for a in range(n_lists + 1):
        offsets[a] = child.ends[a]
        if a > 0:
            longest = max(longest, offsets[a] - offsets[a - 1])
    for k in range(n_sides):
        offsets[n_lists + k + 1] = n_rows + 2 * (k + 1)
        costs[n_rows + 2 * k] = 0
        costs[n_rows + 2 * k + 1] = INFINITE_COST
        for d in range(n_features):
            rows[n_rows + 2 * k, d] = normals[k, d]
            reach[d] = max(reach[d], abs(normals[k, d]))
    columns = np.empty(rows.size)
    transpose_lists(rows, offsets, columns)
    return SortedLists(rows, columns, offsets, costs, reach, lists_of_all.spread, lists_of_all.cap), longest
