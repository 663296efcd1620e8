"""Numeric kernels over plain arrays that more than one method uses.

Throughout: features [M, D] C-contiguous, offsets [S + 1], costs [M] int64 with the least of every list 0. No kernel
raises, prints or allocates in an inner loop.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from numba import njit
from numba.extending import overload

from lpmert.numeric.kernel_cache import KernelCache

EPSILON = float(np.finfo(np.float64).eps)
INFINITE_COST = np.int64(1) << np.int64(61)
"""A cost no selection reaches: choosing such a hypothesis is forbidden. The costs of a selection with two of them
can overflow, so that sums which may hold them stop here: see `plus`.
"""


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a kernel when it is first called, and keep what was compiled for the next run; options are those of njit.

    Every kernel is made by this or by `internal`, so that none comes from numba's own cache, which can be stale.
    """
    if function is None:
        return partial(kernel, **options)
    compiled: Any = njit(**options)(function)
    if compiled is not function:  # as it is where NUMBA_DISABLE_JIT is set
        compiled._cache = KernelCache(function)
    return compiled


_INTERNAL = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def internal(function: Callable[..., Any]) -> Any:
    """Compile a kernel that only other kernels call; leaving out its Python entry saves time to compile."""
    return kernel(function, **_INTERNAL)


def by_ledger(
    first: type,
    of_first: Callable[..., Any],
    of_other: Callable[..., Any],
    inline: Literal["never", "always"] = "never",
) -> Callable[..., Any]:
    """Return what kernels call to get one of two functions: `of_first` where their first argument is of this class.

    The choice is made when the caller is compiled.
    """

    def operation(ledger: Any, *others: Any) -> Any:
        return (of_first if isinstance(ledger, first) else of_other)(ledger, *others)

    @overload(operation, inline=inline, strict=False, jit_options=_INTERNAL)  # type: ignore[arg-type]
    def choose(ledger: Any, *_: Any) -> Callable[..., Any]:
        return of_first if ledger.instance_class is first else of_other

    return operation


@internal
def plus(cost, more):
    """Return the sum of two costs, `INFINITE_COST` where it is as much."""
    return min(cost + more, INFINITE_COST)


@kernel
def decode(features, offsets, weights, selection):
    """Write each list's best row at these weights into selection [S], the first on ties."""
    n_features = features.shape[1]
    for s in range(len(offsets) - 1):
        best = -np.inf
        chosen = offsets[s]
        for i in range(offsets[s], offsets[s + 1]):
            score = 0.0
            for d in range(n_features):
                score += features[i, d] * weights[d]
            if score > best:
                best = score
                chosen = i
        selection[s] = chosen


@kernel
def clear_cost(features, offsets, costs, weights, bound):
    """Return (cost, clear): the decoded cost, and whether every list's winner leads by more than `bound`.

    Where a winner does not lead clearly, the worst cost among those within `bound` of the best is charged.
    """
    n_features = features.shape[1]
    total = np.int64(0)
    clear = True
    for s in range(len(offsets) - 1):
        best = -np.inf
        second = -np.inf
        chosen = offsets[s]
        for i in range(offsets[s], offsets[s + 1]):
            score = 0.0
            for d in range(n_features):
                score += features[i, d] * weights[d]
            if score > best:
                second = best
                best = score
                chosen = i
            elif score > second:
                second = score
        cost = costs[chosen]
        if best - second <= bound:
            for i in range(offsets[s], offsets[s + 1]):
                score = 0.0
                for d in range(n_features):
                    score += features[i, d] * weights[d]
                if best - score <= bound and costs[i] != cost:
                    clear = False
                    cost = max(cost, costs[i])
        total += cost
    return total, clear
