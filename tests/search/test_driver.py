"""The contract of methods, what the driver makes of a search, and what results say: never more than was proved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import numpy as np
import pytest
from long_searches import after, noise_of
from searches import short_descent

import lpmert
from lpmert import Lattices, Linear, NBest, Region, Status
from lpmert.methods import Incumbent, LpMert, Method, Run, Search, Task
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


RNG = np.random.default_rng(0)
COUNTS = np.column_stack([RNG.integers(0, 4, 60), RNG.integers(4, 9, (60, 2))])
COUNTED = NBest(RNG.normal(size=(60, 3)), np.arange(0, 61, 6), COUNTS)
NBEST = NBest(COUNTED.dense_features(), COUNTED.offsets, COUNTS[:, 1])


class Guesses(Search):
    nodes = 0

    def __init__(self, task: Task, most: int) -> None:
        self.incumbent, self._canonical, self._most = task.incumbent, task.canonical, most
        self._rng = np.random.default_rng(task.seed)

    @property
    def finished(self) -> bool:
        return self.nodes >= self._most

    def advance(self) -> None:
        weights = Incumbent(0, self._rng.normal(size=self._canonical.n_features), "").weights
        cost, clear = self._canonical.clear_cost(weights)
        self.nodes += 1
        if clear:
            self.incumbent.improve(cost, weights, "G")


@dataclass(frozen=True)
class Guessing(Method):
    most: int = 20
    name = "guessing"
    proves = False

    def start(self, task: Task) -> Search:
        return Guesses(task, self.most)


def test_a_search_without_a_bound_is_driven_like_any_other_and_proves_nothing() -> None:
    result = lpmert.minimize(NBEST, method=Guessing())
    assert (result.status, result.lower_bound, result.counters["nodes"]) == (Status.HEURISTIC, None, 20)
    assert all(bound is None for _, bound, _ in result.trace)
    assert result.loss == lpmert.evaluate(NBEST, result.weights).loss >= lpmert.minimize(NBEST).loss
    stopped = lpmert.minimize(NBEST, method=Guessing(), callback=lambda progress: progress.nodes == 3)
    assert (stopped.status, stopped.counters["nodes"]) == (Status.CALLBACK, 3)
    assert lpmert.minimize(NBEST, method=Guessing(), node_limit=3).status is Status.NODE_LIMIT
    assert result.seconds["total"] >= sum(result.seconds[part] for part in ("prepare", "incumbent", "search", "report"))


def test_ctrl_c_in_a_function_leaves_the_best_weights_that_it_has_shown() -> None:
    shown = np.array([0.3, -1.0, 0.2])

    @dataclass(frozen=True)
    class Pressed(Guessing):
        def start(self, task: Task) -> Search:
            def run(*arguments: object) -> None:
                arguments[-1].keep(shown)
                raise KeyboardInterrupt

            return Run(task, run)

    result = lpmert.minimize(NBEST, method=Pressed())
    problem = lpmert.Problem(NBEST)
    expected = problem.evaluate(problem.coordinates.to_caller(shown))
    assert (result.status, result.loss) == (Status.INTERRUPTED, expected.loss)
    assert [point[1:] for point in result.trace] == [(None, expected.loss)]


def test_a_fraction_is_not_proved_by_additive_searches_that_prove_nothing() -> None:
    region = Region(cosine=0.9, around={"feature1": 1.0, "feature2": 0.0, "feature3": 0.0})
    exact, published = (
        lpmert.minimize(COUNTED, metric="f1", region=region, method=LpMert(cosine_test=test))
        for test in ("exact", "published")
    )
    assert exact.status is Status.OPTIMAL
    assert (published.status, published.lower_bound) == (Status.HEURISTIC, None)
    assert published.loss >= exact.loss
