"""Weights of the caller and of the canonical form: the way between them, and that mypy tells them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lpmert.methods.choices.choices import Choices
from lpmert.model.canonical import CallerWeights, CanonicalWeights, UnmergedWeights
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.search.driver import solve
from lpmert.search.method import Incumbent

if TYPE_CHECKING:
    # Mypy reports an ignore that nothing needs: a mix-up that it no longer refuses fails the check of types.
    def _mixed_up(problem: Problem, given: CallerWeights, own: CanonicalWeights, unmerged: UnmergedWeights) -> None:
        problem.to_caller(given)  # type: ignore[arg-type]
        problem.to_caller(unmerged)  # type: ignore[arg-type]
        problem.to_canonical(own)  # type: ignore[arg-type]
        problem.unmerged.coordinates.to_caller(own)  # type: ignore[arg-type]
        problem.inside(own)  # type: ignore[arg-type]
        problem.attains(own, 0)  # type: ignore[arg-type]
        problem.canonical.clear_cost(given)  # type: ignore[arg-type]
        Incumbent(0, given, "")  # type: ignore[arg-type]
        solve(Choices(), problem, initial_weights=own)  # type: ignore[arg-type]


def test_lists_before_and_after_merging_have_coordinates_of_their_own() -> None:
    # Both lists ask for the sign of the first weight and cost the same either way together: nothing is left of it.
    features = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    problem = Problem(NBest(features, [0, 2, 4, 6], [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]))
    assert problem.unmerged.coordinates.columns.tolist() == [0, 1]
    assert problem.coordinates.columns.tolist() == [1]
    unmerged = problem.unmerged.coordinates
    given = unmerged.to_caller(UnmergedWeights(np.array([3.0, 1.0])))
    assert (problem.unmerged.features @ unmerged.from_caller(given) > 0).tolist() == (features @ given > 0).tolist()
