"""Open selections: nodes of the search over selections, taken off its tree, that can be searched anywhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray


class OpenSelections(NamedTuple):
    """All selections that make the choices of a node, but for those that its earlier children hold.

    choices [k, 2]: list and position of what is decided, in order. pointer [S]: each undecided list's cheapest
    candidate. branch: the list of the children, -1 where the node has none yet; children [n, 2]: positions in the list
    of those to come, and their bounds. own: bound of the node, in units of its search; bound: the cost of what is open
    in it. out: which of all hypotheses are ruled out, in bits, for a ratio metric. size, numbers, names: the corral
    where its linear programs start.
    """

    choices: IntArray
    pointer: IntArray
    branch: int
    children: IntArray
    own: int
    bound: int
    out: NDArray[np.uint8]
    size: int
    numbers: FloatArray
    names: IntArray

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> OpenSelections:
        """Return the node of values by name."""
        return cls(**named)

    @property
    def nbytes(self) -> int:
        return sum(value.nbytes for value in self if isinstance(value, np.ndarray)) + 100
