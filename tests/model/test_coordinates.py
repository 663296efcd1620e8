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


def three_features() -> Problem:
    """The second is constant within lists; the third varies a thousand times as much as the first."""
    features = np.array([[1.0, 7.0, 0.0], [0.0, 7.0, 1024.0], [0.0, 8.0, 0.0], [1.0, 8.0, 3072.0]])
    return Problem(NBest(features, [0, 2, 4], [0.0, 1.0, 1.0, 0.0]))


def test_weights_of_the_caller_score_the_features_as_given_like_canonical_ones() -> None:
    problem = three_features()
    own = CanonicalWeights(np.array([0.5, -0.25]))
    given = problem.to_caller(own)
    assert given[1] == 0.0
    assert (problem.nbest.dense_features() @ given).tolist() == (problem.canonical.features @ own).tolist()


def test_the_way_back_keeps_the_direction_and_brings_the_largest_weight_to_one() -> None:
    problem = three_features()
    given = CallerWeights(np.array([2.0, 5.0, -0.25]))
    own = problem.to_canonical(given)
    assert np.abs(own).max() == 1.0
    back = problem.to_caller(own)
    assert back[2] / back[0] == -0.125


def test_lists_before_and_after_merging_have_coordinates_of_their_own() -> None:
    # Both lists ask for the sign of the first weight and cost the same either way together: nothing is left of it.
    features = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    problem = Problem(NBest(features, [0, 2, 4, 6], [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]))
    assert problem.unmerged.coordinates.columns.tolist() == [0, 1]
    assert problem.coordinates.columns.tolist() == [1]
    unmerged = problem.unmerged.coordinates
    given = unmerged.to_caller(UnmergedWeights(np.array([3.0, 1.0])))
    assert (problem.unmerged.features @ unmerged.from_caller(given) > 0).tolist() == (features @ given > 0).tolist()
