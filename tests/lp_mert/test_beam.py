"""The beam search never loses against its start, claims no bound, and is exact where the beam holds everything."""

import numpy as np
import pytest
from oracle import best_loss
from problems import random_lists

import lpmert
from lpmert.methods.lp_mert.beam import Beam, BeamSearch
from lpmert.model.problem import Problem
from lpmert.search.incumbent import first_incumbent

pytestmark = pytest.mark.usefixtures("poor_start")


@pytest.mark.parametrize("kind", ["floats", "integers", "collinear", "decimals", "multiples"])
def test_a_beam_that_holds_all_rows_finds_the_least_loss(kind: str) -> None:
    for seed in range(20):
        lists = random_lists(kind, seed, most_selections=200)
        result = lpmert.minimize(lists.nbest, method=Beam(beam=len(lists.losses)))
        assert result.loss == pytest.approx(float(best_loss(lists)), abs=1e-12 * np.abs(lists.losses).sum())
        assert result.counters.get("pruned", 0) == 0


def problem_of(seed: int, *, lists: int = 12, hypotheses: int = 15, features: int = 4) -> Problem:
    rng = np.random.default_rng(seed)
    count = lists * hypotheses
    offsets = np.arange(0, count + 1, hypotheses)
    return Problem(lpmert.NBest(rng.normal(size=(count, features)), offsets, rng.random((count, 1))))


def test_the_weights_never_get_worse_and_passes_end_when_they_stay() -> None:
    better = 0
    for seed in range(12):
        problem = problem_of(seed)
        incumbent = first_incumbent(problem, seed, None)
        began = incumbent.cost
        search = BeamSearch(30, problem.canonical, incumbent)
        costs = [began]
        while not search.finished:
            search.advance()
            costs.append(incumbent.cost)
        assert costs == sorted(costs, reverse=True)
        better += incumbent.cost < began
        assert search.counters()["passes"] == 1 or incumbent.cost < began
    assert better


def test_the_result_is_no_worse_than_the_initial_weights() -> None:
    for seed in range(8):
        problem = problem_of(seed)
        weights = np.random.default_rng(seed).normal(size=problem.canonical.n_features)
        result = lpmert.minimize(problem.nbest, method=Beam(beam=5), initial_weights=weights)
        assert result.loss <= problem.evaluate(weights).loss


def test_rows_are_kept_up_to_the_beam() -> None:
    result = lpmert.minimize(problem_of(1).nbest, method=Beam(beam=20))
    assert 0 < result.counters["rows_kept"] < result.counters["rows_in_full"]
    assert result.counters["rows_kept"] <= 19 * result.counters["lps"]
    assert result.counters["pruned"] > 0
