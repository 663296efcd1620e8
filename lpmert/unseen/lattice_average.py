"""Averages of weights over lattices: on lists of the paths that win, to which those join that win where chains went.

The paths of a lattice are too many for a chain to look at along every circle. A path that wins nowhere counts nowhere,
and one that wins only where the loss is high hardly counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from lpmert.methods.lattice.lists import Catalogue
from lpmert.methods.lattice.solve import add, problem_of
from lpmert.model.canonical import CanonicalWeights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.system.deadline import out_of_time
from lpmert.unseen.average import Average

DRAWN = 50
"""Random weights of the region whose winners are in the first lists."""

_HALVINGS = 60
"""How often a random point is moved half the way to where the average starts, until it is in the region."""

MOST_ROUNDS = 10
"""Averages at most, each on the lists that those before have led to."""

ENOUGH = 0.1
"""By how much, in temperatures, lists may be wrong about the loss where a chain went, on average."""


def average_over_paths(
    problem: LatticeProblem,
    start: CanonicalWeights,
    seed: int,
    average: Callable[[Problem, CanonicalWeights], Average],
) -> Average:
    """Return what `average` makes of lists of paths, once these hold what wins where its chains went.

    It is not complete if they still do not after `MOST_ROUNDS`.
    """
    pool, rng = Catalogue(problem), np.random.default_rng([seed, len(start)])
    add(pool, problem.decode(problem.to_caller(start)))
    for weights in _inside(problem, start, rng):
        if out_of_time():
            break
        add(pool, problem.decode(problem.to_caller(weights)))
    for _ in range(MOST_ROUNDS):
        lists = problem_of(problem, pool)
        found = average(lists, lists.to_canonical(problem.to_caller(start)))
        settled = found.steps == 0 or not found.complete
        wrong = [_wrong(problem, lists, pool, state) for state in found.states if not (settled or out_of_time())]
        if len(wrong) == len(found.states) and not settled:
            settled = bool(np.mean(wrong) <= ENOUGH * found.temperature)
        if settled or out_of_time():
            break
    weights = problem.to_canonical(lists.to_caller(found.weights))
    return replace(found, weights=weights, complete=found.complete and settled, states=())


def _inside(problem: LatticeProblem, start: CanonicalWeights, rng: np.random.Generator) -> Iterator[CanonicalWeights]:
    """Yield random weights [d] of the region: what wins far from it says nothing of losses there."""
    size = float(np.linalg.norm(start))
    for direction in rng.normal(size=(DRAWN, len(start))):
        far = direction * (size / float(np.linalg.norm(direction)))
        for k in range(_HALVINGS):
            weights = CanonicalWeights(start + 2.0**-k * (far - start))
            if problem.inside(problem.to_caller(weights)):
                yield weights
                break


def _wrong(problem: LatticeProblem, lists: Problem, pool: Catalogue, state: CanonicalWeights) -> float:
    """Return how far lists are from the loss of decoding lattices at weights [d], and let its winners join them."""
    weights = lists.to_caller(state)
    verdict = problem.decode(weights)
    known = lists.evaluate(weights).loss
    add(pool, verdict)
    return abs(problem.canonical.loss_of(verdict.loss) - known)
