"""What lattices still have numba compile."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

EPSILON = float(np.finfo(np.float64).eps)


def kernel(function: Any = None, **_: Any) -> Any:
    """Have numba compile a function when it is first called."""
    return kernel if function is None else njit(nogil=True)(function)


internal = kernel


@internal
def fill(target, value):
    """Set all entries of target [n]."""
    for k in range(len(target)):
        target[k] = value
