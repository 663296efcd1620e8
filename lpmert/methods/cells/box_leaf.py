"""A small box, searched selection by selection."""

from __future__ import annotations

import numpy as np

from lpmert.errors import FloatArray
from lpmert.methods.cells.box_stack import N_PAIRS, OWN
from lpmert.methods.cells.leaf import LeafPart
from lpmert.methods.cells.ledger import search_part
from lpmert.methods.cells.stack import BOUND, FIXED, N_LISTS, N_ROWS
from lpmert.numeric.kernels import internal, kernel

_WIDER = 1.0 + 2.0**-20
"""Radii of a box that surely contains another; their products are exact."""


def widened(radius: FloatArray) -> FloatArray:
    """Return the radii [D] of the box whose normals `box_normals` returns."""
    return radius * _WIDER


@kernel(allocates=True)
def box_normals(centre, radius):
    """Return normals [2 D - 1, D] of a box slightly wider than this one: products with its weights are positive.

    For one feature, the face is all that there is.
    """
    n_features = len(centre)
    face = 0
    for d in range(n_features):
        if radius[d] == 0.0:
            face = d
    normals = np.zeros((2 * n_features - 1, n_features))
    normals[0, face] = centre[face]
    k = 1
    for d in range(n_features):
        if d != face:
            high, low = centre[d] + _WIDER * radius[d], centre[d] - _WIDER * radius[d]
            normals[k, face], normals[k, d] = centre[face] * high, -1.0
            normals[k + 1, face], normals[k + 1, d] = -centre[face] * low, 1.0
            k += 2
    return normals


@internal(allocates=True)
def _part(lists, child):
    """Return the survivors of a box as lists of rows."""
    kept, numbers = child.kept, child.numbers
    n_pairs, n_rows, n_lists = numbers[N_PAIRS], numbers[N_ROWS], numbers[N_LISTS]
    ids = np.empty(n_rows + 2 * n_pairs, dtype=np.int32)
    costs = np.empty(n_rows + 2 * n_pairs, dtype=np.int64)
    ends = np.empty(n_lists + n_pairs + 1, dtype=np.int64)
    of_part = np.zeros(7, dtype=np.int64)
    fixed = numbers[OWN]
    for i in range(n_rows):
        ids[i], costs[i] = kept.ids[i], kept.costs[i]
    ends[0] = 0
    for a in range(n_lists):
        fixed -= costs[kept.ends[a]]
        ends[a + 1] = kept.ends[a + 1]
    for p in range(n_pairs):
        i = n_rows + 2 * p
        ids[i], ids[i + 1] = kept.cheap[p], kept.dear[p]
        costs[i] = lists.costs[ids[i]]
        costs[i + 1] = costs[i] + kept.steps[p]
        fixed -= costs[i]
        ends[n_lists + p + 1] = i + 2
    of_part[N_ROWS], of_part[N_LISTS], of_part[FIXED] = len(ids), n_lists + n_pairs, fixed
    of_part[BOUND] = numbers[OWN]  # without conflicts: what they charged, a selection's costs may hold, too
    return LeafPart(of_part, ids, costs, ends)


@internal(allocates=True)
def search_box(ledger, lists, stack, child):
    """Search a small box selection by selection; see `ledger.search_leaf`."""
    normals = box_normals(child.centre, child.radius)
    return search_part(ledger, lists, stack, _part(lists, child), child.total, normals, child.centre)
