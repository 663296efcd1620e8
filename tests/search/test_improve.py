"""Looking for better weights beside a search: what is found is attained, and the share of the work is kept."""

from fractions import Fraction

import numpy as np
import pytest
from oracle import best_loss
from problems import KINDS, gaussian_lists, random_lists, random_nbest
from searches import short_descent

import lpmert
from lpmert.methods.auto import Auto
from lpmert.model.problem import Problem
from lpmert.model.region import Region
from lpmert.search.incumbent import Improver, any_incumbent
from lpmert.search.method import Incumbent, Task


def task_of(problem: Problem, seed: int = 0) -> Task:
    """A task that begins at weights which are nothing special."""
    return Task(problem, problem.canonical, lambda: any_incumbent(problem.canonical), seed=seed)


def improved(task: Task, slices: int = 60, share: float = 0.005) -> Incumbent:
    improver = Improver(task, share)
    for _ in range(slices):
        improver.run_beside(1)
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
        better += found.cost < before
        if found.cost < before:
            assert problem.attains(problem.to_caller(found.weights), found.cost)
    assert better >= 2


def test_the_same_seed_finds_the_same_weights() -> None:
    problem = Problem(gaussian_lists(3, lists=40, hypotheses=8, features=6).nbest)
    first, second, other = (improved(task_of(problem, seed)) for seed in (1, 1, 2))
    assert first.cost == second.cost
    np.testing.assert_array_equal(first.weights, second.weights)
    assert not np.array_equal(first.weights, other.weights)


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
