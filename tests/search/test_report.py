"""What a result says of an outcome: never more than the search proved and decoding shows."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest
from long_searches import after, noise_of
from searches import short_descent

import lpmert
from lpmert import Lattices, Linear, NBest, Region, Status
from lpmert.methods.choices import choices
from lpmert.model.canonical import CallerWeights, CanonicalWeights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.model.problem import Problem
from lpmert.registry import METHODS
from lpmert.result import relative_gap
from lpmert.search.report import Outcome, _holds, _result


def test_features_that_nobody_knows_exactly_are_no_proof() -> None:
    """A cosine beside an equation on two weights asks for orthonormal coordinates, which doubles only come near."""
    rng = np.random.default_rng(0)
    nbest = NBest(rng.integers(-9, 10, (24, 3)), np.arange(0, 25, 4), rng.integers(0, 5, 24), names=["a", "b", "c"])
    ahead = Region(cosine=0.8, around={"a": 2.0, "b": 1.0, "c": 1.0}, linear=[Linear({"b": 1.0, "c": -1.0}, 0.0, 0.0)])
    assert Problem(nbest, region=ahead).inexact
    found = lpmert.minimize(nbest, region=ahead)
    assert found.status is Status.OPTIMAL_TO_TOLERANCE
    alone = lpmert.minimize(nbest, region=replace(ahead, linear=[]))
    assert alone.status is Status.OPTIMAL


def test_a_loss_of_zero_above_its_bound_has_no_small_gap() -> None:
    assert relative_gap(0.0, -1.0) == inf
    assert relative_gap(0.0, 0.0) == 0.0
    assert relative_gap(-2.0, -3.0) == 0.5


def test_a_loss_of_which_more_than_its_last_digits_is_rounded_away_is_no_proof() -> None:
    features, offsets = [[1.0], [-1.0], [1.0], [-1.0]], [0, 2, 4]
    unit = Problem(NBest(features, offsets, [0.0, 2.0**62, 1.0, 0.0])).canonical.unit
    assert lpmert.minimize(NBest(features, offsets, [0.0, 2.0**62, unit, 0.0])).status is Status.OPTIMAL
    found = lpmert.minimize(NBest(features, offsets, [0.0, 2.0**62, 1.4 * unit, 0.0]))
    assert found.status is Status.OPTIMAL_TO_TOLERANCE
    assert found.lower_bound is not None
    assert found.lower_bound <= found.loss == 1.4 * unit


def test_no_bound_is_above_the_loss_of_the_weights() -> None:
    nbest = NBest([[1.0], [2.0]], [0, 2], [[3.0], [5.0]])
    problem = Problem(nbest)
    weights = CallerWeights(np.array([-1.0]))
    evaluation = problem.evaluate(weights)
    assert evaluation.loss == 3.0
    # a search that took the dearer one for the cost of its weights, as it may where ties decide
    cost = int(problem.canonical.costs.max())
    outcome = Outcome(Status.TIME_LIMIT, cost, CanonicalWeights(weights), cost, (), True, {}, lambda found: found, None)
    assert problem.canonical.loss_of(cost) == 5.0
    found = _result(METHODS.build("cells"), problem, outcome, 0, weights, evaluation, doubtful=True)
    assert found.lower_bound == found.loss == 3.0


def test_weights_on_lattices_hold_only_where_no_tie_decides() -> None:
    # Two links side by side, one with the right word.
    lattices = Lattices([[1, 0], [0, 1]], [0, 2], [0, 0], [1, 1], [0, 1], ["x"], vocabulary=["x", "y"])
    problem = LatticeProblem(lattices, "wer")
    tied, clear = CallerWeights(np.array([0.5, 0.5])), CallerWeights(np.array([1.0, 0.5]))
    losses = [problem.decode(weights).loss for weights in (tied, clear)]
    assert _holds(problem, clear, losses[1])
    assert not _holds(problem, clear, losses[1] + 1)
    assert not _holds(problem, tied, losses[0])


def test_a_search_that_stops_before_its_first_unit_leaves_what_is_open_in_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choices, "SLICE", 500)
    nbest, path = noise_of(1, 9), tmp_path / "kept"
    with short_descent(one=True):
        whole = lpmert.minimize(nbest, method="choices")
        stopped = lpmert.minimize(nbest, method="choices", checkpoint=path, callback=after(2))
        assert stopped.status is Status.CALLBACK
        assert stopped.loss > whole.loss
        again = lpmert.minimize(nbest, method="choices", checkpoint=path, resume=True)
    assert whole.status is again.status is Status.OPTIMAL
    assert again.loss == again.lower_bound == whole.loss
