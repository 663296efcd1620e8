"""Sweep over all directions: exact and fast where at most two features matter."""

from __future__ import annotations

from dataclasses import dataclass

from lpmert.errors import MethodError
from lpmert.methods.planar import sweep_directions
from lpmert.search.method import DirectSearch, Method, Search, Task


@dataclass(frozen=True)
class Sweep(Method):
    """Och's line search over the whole circle of directions, in exact arithmetic where rounding could matter."""

    name = "sweep"
    takes_fractions = True
    keeps_checkpoints = True

    def start(self, task: Task) -> Search:
        """Return a search that is over after one step; raises `MethodError` for more than two features."""
        canonical, incumbent = task.canonical, task.incumbent
        if canonical.n_features > 2:
            raise MethodError(
                f"method 'sweep' takes at most two features that matter, here are {canonical.n_features}: use 'auto'"
            )

        def settle() -> int | None:
            optimum = sweep_directions(*canonical.lists)
            if canonical.rounding is not None:
                # The order of directions is that of the rounded features, and proves nothing about the exact ones.
                for weights in (optimum.weights, optimum.representable_weights):
                    cost = None if weights is None else canonical.strict_cost(weights)
                    if weights is not None and cost is not None:
                        incumbent.improve(cost, weights, "W")
                return 0
            if not optimum.representable and canonical.strict_cost(optimum.weights) == optimum.cost:
                incumbent.improve(optimum.cost, optimum.weights, "W")
                return None
            if optimum.representable_cost is not None and optimum.representable_weights is not None:
                incumbent.improve(optimum.representable_cost, optimum.representable_weights, "W")
            return None if optimum.representable_cost == optimum.cost else optimum.cost

        return DirectSearch(incumbent, settle)
