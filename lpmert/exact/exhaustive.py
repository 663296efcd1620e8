"""Every attainable selection of a small problem, one after the other: the yardstick for all other searches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lpmert.geometry.lp import LinOptimizer, Verdict
from lpmert.result import FloatArray, IntArray


def attainable_selections(
    features: FloatArray, offsets: IntArray, *, start: FloatArray | None = None
) -> Iterator[tuple[IntArray, FloatArray | None]]:
    """Yield every attainable selection once, with weights that make it strictly best.

    features [M, D] and offsets [S+1] describe the lists; no list may hold a feature vector twice. start [D] are weights
    to try first. A selection [S] counts from 0 within each list. The weights [D] are `None` where the selection is
    attainable but no float64 weights show it. Depth first over the lists, so the time is about that of one
    `LinOptimizer` verdict per list, hypothesis and attainable choice of the lists before. Raises `ValueError` for
    features that are not finite.
    """
    optimizer = LinOptimizer(features, offsets)
    heads = np.asarray(offsets, dtype=np.int64)
    last = len(heads) - 2
    chosen: list[int] = []
    stack = [_children(optimizer, heads, chosen, optimizer.solve({}, start=start))]
    while stack:
        found = next(stack[-1], None)
        if found is None:
            stack.pop()
            del chosen[-1:]
            continue
        row, verdict = found
        if len(stack) <= last:
            chosen.append(row)
            stack.append(_children(optimizer, heads, chosen, verdict))
        else:
            yield np.array([*chosen, row], dtype=np.int64) - heads[:-1], verdict.weights


def count_attainable(features: FloatArray, offsets: IntArray) -> int:
    """Return the number of attainable selections of the lists, as `attainable_selections` finds them."""
    return sum(1 for _ in attainable_selections(features, offsets))


def _children(
    optimizer: LinOptimizer, heads: IntArray, chosen: list[int], parent: Verdict
) -> Iterator[tuple[int, Verdict]]:
    """Yield the rows of the next list that are attainable together with the chosen ones, with their verdicts."""
    decided = len(chosen)
    for row in range(int(heads[decided]), int(heads[decided + 1])):
        rows = np.array([*chosen, row], dtype=np.int64)
        verdict = optimizer.solve((np.arange(decided + 1), rows), start=parent.weights, rows=parent.rows)
        if verdict.attainable:
            yield row, verdict
