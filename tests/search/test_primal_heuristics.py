"""Primal heuristics find what is attained, no worse than the start; a portfolio follows the bound that rises."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import cast

import numpy as np
import pytest
from oracle import best_loss
from problems import KINDS, gaussian_lists, random_lists, random_nbest
from searches import short_descent

import lpmert
from benchmarks import datasets
from lpmert import Region
from lpmert.methods.auto import _HEAD_START, _LEAST, Auto, Engine, Portfolio
from lpmert.methods.choices import Choices
from lpmert.model.canonical import CanonicalWeights
from lpmert.model.problem import Problem
from lpmert.search.incumbent import Draws, Improver, any_incumbent, first_incumbent
from lpmert.search.method import Incumbent, Search, Task


def task_of(problem: Problem, seed: int = 0) -> Task:
    """A task that begins at weights which are nothing special."""
    return Task(problem, problem.canonical, lambda: any_incumbent(problem), seed=seed)


def improved(task: Task, slices: int = 60, share: float = 0.005) -> Incumbent:
    improver = Improver(task, share)
    for _ in range(slices):
        improver.run(1)
    return task.incumbent


REGIONS = {
    "everywhere": None,
    "signs": Region(bounds={"feature1": (0.0, None), "feature3": (None, 0.0)}),
    "fixed": Region(fixed={"feature2": 1.0}),
    "cosine": Region(around=[1.0] * 6, cosine=0.6),
}


@pytest.mark.parametrize("metric", ["loss", "f1"])
@pytest.mark.parametrize("region", REGIONS)
def test_what_is_found_is_attained_inside_the_region(region: str, metric: str) -> None:
    better = 0
    for seed in range(4):
        nbest = random_nbest(seed, lists=15, size=6, dimension=6, kind=metric)
        problem = Problem(nbest, metric, region=REGIONS[region])
        task = task_of(problem)
        before = task.incumbent.cost
        found = improved(task)
        assert found.cost <= before
        if found.cost < before:
            better += 1
            assert problem.attains(problem.to_caller(found.weights), found.cost)
    assert better >= 2


def test_the_same_seed_finds_the_same_weights() -> None:
    problem = Problem(gaussian_lists(3, lists=40, hypotheses=8, features=6).nbest)
    first, second, other = (improved(task_of(problem, seed)) for seed in (1, 1, 2))
    assert (first.cost, first.weights.tolist()) == (second.cost, second.weights.tolist())
    assert first.weights.tolist() != other.weights.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_no_share_changes_the_optimum(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.search.incumbent._FEWEST_FEATURES", 0)
    monkeypatch.setattr("lpmert.methods.auto._FEW_LISTS", 0)
    with short_descent():
        for seed in range(800, 802):
            lists = random_lists(kind, seed)
            best = best_loss(lists)
            for share in (0.0, 0.02, 0.2):
                result = lpmert.minimize(lists.nbest, method=Auto(improving=share))
                assert Fraction(result.lower_bound) <= best or lists.losses.dtype.kind == "f"
                assert result.loss == pytest.approx(float(best), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("dimension", [1, 2, 5, 14])
def test_an_ellipsoid_is_descended_to_its_only_minimum(dimension):
    rng = np.random.default_rng(dimension)
    centre, scales = rng.normal(size=dimension), 10.0 ** (3.0 * np.arange(dimension) / max(1, dimension - 1))
    draws = Draws(np.zeros(dimension), 0.5, rng)
    for _ in range(150 * dimension + 100):
        points = draws.draw()
        draws.learn((((points - centre) * scales) ** 2).sum(axis=1))
    assert np.abs(draws.draw() - centre).max() < 1e-4


lists = partial(random_nbest, lists=8, size=5)


@pytest.mark.parametrize("method", ["auto", "cells", "choices", "och"])
def test_weights_that_are_as_good_stay_as_they_are(method: str) -> None:
    for seed in range(4):
        for metric in ("loss", "bleu", "f1"):
            nbest = lists(seed, kind=metric)
            best = lpmert.minimize(nbest, metric=metric, time_limit=60)
            assert best.status.proved
            # other weights of the same cell, as a decoder would have them: of another scale, and not in the middle
            start = best.weights * 2.0
            start[0] += max(best.cell.ranges[0][0], best.weights[0] - 1) - best.weights[0]
            again = lpmert.minimize(nbest, metric=metric, method=method, initial_weights=start, time_limit=60)
            assert again.loss == best.loss
            assert again.weights == pytest.approx(start / np.abs(start).sum(), rel=1e-15)
            third = lpmert.minimize(nbest, metric=metric, method=method, initial_weights=again.weights, time_limit=60)
            assert third.weights == pytest.approx(again.weights, rel=1e-15)


@pytest.mark.parametrize("method", ["auto", "och"])
def test_weights_that_others_beat_or_that_hang_on_a_tie_do_not_stay(method: str) -> None:
    nbest = lists(1)
    best = lpmert.minimize(nbest)
    worse = lpmert.minimize(nbest, method=method, initial_weights=-best.weights)
    assert (worse.loss, np.allclose(worse.weights, -best.weights)) == (best.loss, False)
    tied = lpmert.NBest([[1.0, 0], [0, 1], [0, 1], [2, 0]], [0, 2, 4], [0.0, 1, 0, 1])
    assert lpmert.minimize(tied, method=method, initial_weights=[1, 1]).tied_lists == 0


def test_the_cell_has_its_centre_where_the_weights_are_not_which_a_region_keeps_from_staying() -> None:
    nbest = lists(2)
    best = lpmert.minimize(nbest)
    start = best.weights.copy()
    start[1] += 0.9 * (min(best.cell.ranges[1, 1], start[1] + 1) - start[1])
    again = lpmert.minimize(nbest, initial_weights=start)
    assert again.cell.centre == pytest.approx(best.weights, abs=1e-9)
    low, high = again.cell.ranges.T
    assert ((low < again.weights) & (again.weights < high)).all()
    bound = lpmert.Region(bounds={"feature1": (None, 0)} if best.weights[0] > 0 else {"feature1": (0, None)})
    found = lpmert.minimize(nbest, initial_weights=best.weights, region=bound)
    assert found.weights[0] * best.weights[0] <= 0


COST = 8000
INCUMBENT = Incumbent(COST, CanonicalWeights(np.ones(1)), "L")


class Rising(Search):
    """A search whose bound rises by so much for each unit of effort."""

    incumbent, effort = INCUMBENT, 0.0

    def __init__(self, rise: float) -> None:
        self._rise = rise

    @property
    def lower_bound(self) -> int:
        return min(COST, int(self._rise * self.effort))

    @property
    def finished(self) -> bool:
        return self.lower_bound >= COST

    def advance(self) -> None:
        self.effort += 1.0


def in_turns(*paces: float) -> tuple[float, float]:
    """Let searches with these paces work until one is finished; return what each has done."""
    first, second = map(Rising, paces)
    portfolio = Portfolio(cast(Engine, first), lambda: cast(Engine, second), INCUMBENT)
    while not portfolio.finished:
        portfolio.advance()
    return first.effort, second.effort


def test_most_effort_goes_to_the_search_whose_bound_will_soon_meet_the_cost() -> None:
    for quicker, paces in enumerate([(4.0, 0.5), (0.5, 4.0)]):
        done = in_turns(*paces)
        assert done[quicker] == pytest.approx(COST / 4.0, abs=1)
        assert done[1 - quicker] < 0.5 * done[quicker]


def test_a_search_whose_bound_never_rises_costs_the_second_as_much_again_and_the_first_a_seventh() -> None:
    for paces, most in (((1.0, 0.0), COST / 7 + 1), ((0.0, 1.0), 1.1 * COST + _HEAD_START)):
        still, risen = sorted(zip(paces, in_turns(*paces), strict=True))
        assert risen[1] == COST
        assert _LEAST * COST < still[1] <= most


def test_auto_soon_has_the_bound_of_choices_at_its_root() -> None:
    problem = Problem(datasets.generated(400, 20, 7).load())
    task = Task(problem, problem.canonical, lambda: first_incumbent(problem, 0, None))
    alone = Choices().start(task)
    while alone.nodes <= 1:
        alone.advance()
    root = alone.lower_bound
    auto, cones = Auto(improving=0.0).start(task), Auto().cells.on_lists(task)
    while auto.effort < _HEAD_START / 2:
        auto.advance()
    while cones.effort < _HEAD_START:
        cones.advance()
    assert auto.lower_bound >= root > cones.lower_bound
