"""Weights at which a few lists are cheap together: places where groups of lists are compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lpmert.errors import FloatArray, IntArray
from lpmert.lines.descents import descend
from lpmert.model.form import Canonical
from lpmert.system.deadline import checkpoint

_BUDGET = 1_000_000
"""Work for each weights, as in `descend`; most descents end before that."""


def cheap_for_few(
    canonical: Canonical, weights: FloatArray, parts: Sequence[IntArray], size: int, rng: np.random.Generator
) -> FloatArray:
    """Return what a descent from each of these weights [P, d] leads to, each on `size` other lists of one of the parts.

    At random weights a group looks dearer than it is: those at which it is cheap are found by looking for them.
    """
    found = weights.copy()
    for row in found:
        checkpoint()
        lists = parts[int(rng.integers(len(parts)))]
        few = np.sort(rng.choice(lists, min(size, len(lists)), replace=False))
        part, columns = canonical.part(few)
        seed = int(rng.integers(1 << 32))
        row[columns] = descend(*part.lists, seed=seed, initial=row[columns], starts=1, budget=_BUDGET)[1]
    return found
