"""Enumeration of every attainable selection of a small problem: slow and simple, the yardstick for other methods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lpmert.errors import FloatArray, IntArray
from lpmert.model.canonical import Canonical
from lpmert.numeric.lp import LinOptimizer, Verdict
from lpmert.search.method import Enumeration, Incumbent, Method, Search, Task
from lpmert.system.deadline import checkpoint


@dataclass(frozen=True)
class Exhaustive(Method):
    """Enumeration of all attainable selections within the region, without bounds."""

    name = "exhaustive"
    takes_fractions = True

    def start(self, task: Task) -> Search:
        return Enumeration(task.incumbent, _steps(task.canonical, task.incumbent))


def _steps(canonical: Canonical, incumbent: Incumbent) -> Iterator[int | None]:
    # A hypothesis that alone costs more than the incumbent, such as the far side of a limit, is in no better selection.
    allowed = canonical.costs <= incumbent.cost if len(canonical.limits) else None
    optimizer = LinOptimizer(canonical.features, canonical.offsets, rounding=canonical.rounding)
    for selection, weights in attainable_selections(optimizer, allowed=allowed):
        checkpoint()
        cost = int(canonical.costs[canonical.offsets[:-1] + selection].sum())
        if weights is not None:
            incumbent.improve(cost, weights, "E")
        yield None if weights is not None else cost


def attainable_selections(
    optimizer: LinOptimizer, *, allowed: NDArray[np.bool_] | None = None
) -> Iterator[tuple[IntArray, FloatArray | None]]:
    """Yield every attainable selection [S] once, with weights [D] that make it strictly best.

    No list of the optimizer may contain a feature vector twice. allowed [M]: hypotheses that may be chosen, by default
    all. Selections count from 0 within each list. The weights are `None` if the selection is attainable, but by no
    double-precision weights. The search is depth first over the lists: it takes about one linear program for each
    attainable selection of the first lists and each hypothesis of the next one.
    """
    heads = optimizer.offsets
    rows = np.arange(len(optimizer.features)) if allowed is None else np.flatnonzero(allowed)
    candidates = np.split(rows, np.searchsorted(rows, heads[1:-1]))
    order = np.arange(len(candidates))
    if allowed is not None:  # lists without a choice come first, so that what they exclude is excluded once
        order = np.argsort([len(c) != 1 for c in candidates], kind="stable")
    chosen: list[int] = []

    def children(parent: Verdict) -> Iterator[tuple[int, Verdict]]:
        """Yield the rows of the next list that are attainable together with the chosen rows, with their verdicts."""
        lists = order[: len(chosen) + 1]
        before = tuple(chosen)
        for row in candidates[lists[-1]].tolist():
            together = lists, np.array([*before, row], dtype=np.int64)
            verdict = optimizer.solve(together, start=parent.weights, rows=parent.rows)
            if verdict.attainable:
                yield row, verdict

    stack = [children(optimizer.solve((order[:0], order[:0])))]
    while stack:
        found = next(stack[-1], None)
        if found is None:
            stack.pop()
            del chosen[-1:]
            continue
        row, verdict = found
        if len(stack) < len(order):
            chosen.append(row)
            stack.append(children(verdict))
        else:
            selection = np.empty(len(order), dtype=np.int64)
            selection[order] = [*chosen, row]
            yield selection - heads[:-1], verdict.weights
