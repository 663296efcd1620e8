"""Exact search in random subspaces through the best weights: a neighbourhood far larger than a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lpmert.configurable import option
from lpmert.errors import FloatArray
from lpmert.methods.cells.cells import Cells, CellsSearch
from lpmert.methods.sweep import sweep_directions
from lpmert.model.canonical import Canonical, CanonicalWeights
from lpmert.model.presolve import group_identical
from lpmert.numeric.lists import take_rows
from lpmert.search.method import Incumbent, Method, Search, Task
from lpmert.system.deadline import checkpoint

_DIMENSION = 3
"""Of the subspaces: two are no more than a line search."""

_SLICES = 100
"""Slices of `cells` that one subspace may take: about a second."""


@dataclass(frozen=True)
class Subspace(Method):
    """A heuristic: solve the problem exactly in one random subspace after the other, always through the best weights.

    Subspaces have three dimensions; where there are no more features, the whole space is searched once.
    """

    patience: int = option(40, "subspaces in a row without a better loss after which it stops", least=1)

    name = "subspace"
    proves = False

    def start(self, task: Task) -> Search:
        return SubspaceSearch(self.patience, task.canonical, task.incumbent)


class SubspaceSearch(Search):
    """A resumable search of one random subspace after the other."""

    nodes = 0

    def __init__(self, patience: int, canonical: Canonical, incumbent: Incumbent) -> None:
        self.incumbent = incumbent
        self._patience = patience
        self._canonical = canonical
        self._rng = random_numbers(incumbent)
        self._failures = 0

    @property
    def finished(self) -> bool:
        return self.incumbent.cost == 0 or self._failures >= self._patience

    def counters(self) -> Mapping[str, int]:
        return {"nodes": self.nodes, "subspaces": self.nodes}

    def advance(self) -> None:
        better = improve(self._canonical, self.incumbent, self._rng)
        self.nodes += 1
        self._failures = 0 if better else self._failures + 1
        if self._canonical.n_features <= _DIMENSION:
            self._failures = self._patience


def random_numbers(incumbent: Incumbent) -> np.random.Generator:
    """Return random numbers that depend on the incumbent, and through it on the seed with which that was found."""
    return np.random.default_rng(np.frombuffer(incumbent.weights.tobytes(), dtype=np.uint32))


def improve(canonical: Canonical, incumbent: Incumbent, rng: np.random.Generator, *, slices: int = _SLICES) -> bool:
    """Search a random subspace through the incumbent, and return whether that gave better weights.

    The lists' features in the subspace are rounded; the weights found there count as what they cost on the features
    themselves, and only where every choice that matters is clear of rounding. slices: the most work of `cells`.
    """
    n = canonical.n_features
    whole = n <= _DIMENSION
    basis = np.eye(n) if whole else np.column_stack([incumbent.weights, rng.normal(size=(n, _DIMENSION - 1))])
    features = canonical.features if whole else np.ascontiguousarray(canonical.features @ basis)
    leader = group_identical(features, canonical.offsets)
    rows = np.flatnonzero(leader == np.arange(len(leader)))
    offsets, costs, limits = take_rows(canonical.offsets, rows), canonical.costs[rows], canonical.limits @ basis
    section = replace(canonical, features=features[rows], offsets=offsets, losses=costs, limits=limits, rounding=None)
    inner = incumbent.weights if whole else CanonicalWeights(np.eye(_DIMENSION)[0])
    found = _solve(section, Incumbent(incumbent.cost, inner, ""), slices)
    if found is None:
        return False
    weights = basis @ found
    weights /= np.abs(weights).max()
    cost, clear = canonical.clear_cost(CanonicalWeights(weights))
    return clear and incumbent.improve(cost, weights, "U")


def _solve(section: Canonical, start: Incumbent, slices: int) -> FloatArray | None:
    """Return weights [d] better than the start's, if the search finds any."""
    before = start.cost
    if section.n_features <= 2:
        optimum = sweep_directions(*section.lists)
        if optimum.representable_cost is not None and optimum.representable_weights is not None:
            start.improve(optimum.representable_cost, optimum.representable_weights, "")
    else:
        search = CellsSearch(Cells(), section, start)
        for _ in range(slices):
            if search.finished:
                break
            checkpoint()
            search.advance()
    return start.weights if start.cost < before else None
