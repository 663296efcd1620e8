"""Nelder-Mead, CMA-ES, grid, random search and TPE: what all comparators promise, and what each one does."""

from functools import partial

import numpy as np
import pytest
from problems import Plain, random_nbest

from lpmert.api import minimize
from lpmert.errors import MethodError
from lpmert.lines.local_search import Clock
from lpmert.methods.heuristic.derivative_free import CmaEs, Grid, NelderMead, RandomSearch, Tpe
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.model.region import Region
from lpmert.search.driver import solve

NAMES = ("grid", "random", "nelder-mead", "cma-es", "tpe")
SMALL = {
    "grid": Grid(points=5),
    "random": RandomSearch(draws=40),
    "nelder-mead": NelderMead(restarts=1, evaluations=60),
    "cma-es": CmaEs(restarts=1),
    "tpe": Tpe(trials=12),
}

lists_of = partial(random_nbest, lists=20, size=6)


@pytest.mark.parametrize("name", NAMES)
def test_any_metric_will_do(name):
    """Whose formula nobody knows."""
    problem = Problem(lists_of(), Plain(lambda total: sum((value - 30.0) ** 2 for value in total)))
    result = solve(SMALL[name], problem)
    assert result.loss == problem.evaluate(result.weights).loss <= problem.evaluate(np.ones(3)).loss


@pytest.mark.parametrize("name", NAMES)
def test_lists_without_any_choice_need_no_search(name):
    nbest = NBest(np.eye(3), [0, 1, 2, 3], np.array([[1.0, 2.0, 2.0]] * 3))
    for region in (None, Region(nonnegative=True)):
        problem = Problem(nbest, "f1", region=region)
        result = solve(SMALL[name], problem)
        assert result.loss == problem.evaluate(result.weights).loss
        assert problem.inside(result.weights)


@pytest.mark.parametrize("name", ["random", "nelder-mead", "tpe"])
def test_the_start_is_tried(name):
    nbest = lists_of(4, lists=8, size=4)
    best = minimize(nbest)
    tiny = {"random": RandomSearch(draws=1), "nelder-mead": NelderMead(restarts=0, evaluations=5), "tpe": Tpe(trials=1)}
    assert solve(tiny[name], Problem(nbest), initial_weights=best.weights).loss == best.loss


def test_grid_finds_the_best_of_its_points():
    problem = Problem(lists_of(7))
    grid = Grid(points=7, ranges=(("feature2", -1.0, 2.0), ("feature3", 0.5, 3.0)))
    losses = {
        (b, c): problem.evaluate([1.0, b, c]).loss for b in np.linspace(-1, 2, 7) for c in np.linspace(0.5, 3.0, 7)
    }
    result = solve(grid, problem)
    assert result.loss == min(losses.values())
    b, c = result.weights[1:] / result.weights[0]
    assert any(abs(b - x) + abs(c - y) < 1e-9 and loss == result.loss for (x, y), loss in losses.items())


def test_grid_is_relative_to_the_reference_and_its_sign():
    problem = Problem(lists_of(5))
    result = solve(Grid(points=4, reference="feature3", negative=True), problem)
    assert result.weights[2] < 0
    with pytest.raises(MethodError, match="'ctc' is not a feature that varies; those are feature1"):
        solve(Grid(reference="ctc"), problem)


def test_grid_does_not_hang_on_the_scale_of_features():
    nbest = lists_of(6)
    scaled = NBest(nbest.features * np.array([1.0, 1000.0, 0.01]), nbest.offsets, nbest.statistics)
    assert solve(Grid(points=6), Problem(nbest)).loss == solve(Grid(points=6), Problem(scaled)).loss


def test_grid_of_too_many_points_is_refused_with_their_number():
    with pytest.raises(MethodError, match="more than 1,000,000 points"):
        solve(Grid(points=30), Problem(lists_of(dimension=6)))


def test_optuna_keeps_its_verbosity():
    import optuna

    before = optuna.logging.get_verbosity()
    solve(Tpe(trials=2), Problem(lists_of()))
    assert optuna.logging.get_verbosity() == before


def test_tpe_without_optuna_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    problem = Problem(lists_of())
    with pytest.raises(MethodError, match=r"lpmert\[tpe\]"):
        Tpe().run(problem, None, 0, Clock(problem))
