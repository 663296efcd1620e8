"""The beam search never loses against its start, claims no bound, and is exact where the beam holds everything."""

import numpy as np
import pytest
from oracle import best_loss, strictly_feasible
from problems import random_lists

import lpmert
from lpmert.methods.lp_mert.beam import Beam, BeamSearch, Combinations, among, best_of_pairs
from lpmert.methods.lp_mert.streams import WarmStart
from lpmert.model.problem import Problem
from lpmert.search.incumbent import first_incumbent

pytestmark = pytest.mark.usefixtures("poor_start")


@pytest.mark.parametrize("kind", ["floats", "integers", "collinear", "decimals", "multiples"])
def test_a_beam_that_holds_all_combinations_finds_the_least_loss(kind: str) -> None:
    for seed in range(20):
        lists = random_lists(kind, seed, most_selections=200)
        result = lpmert.minimize(lists.nbest, method=Beam(beam=200))
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


def test_the_best_pairs_are_those_of_all_pairs() -> None:
    rng = np.random.default_rng(3)
    for sizes in ((1, 1), (4, 7), (30, 20), (50, 1)):
        halves = []
        for size in sizes:
            scores = np.sort(rng.integers(-9, 9, size).astype(float))[::-1]
            halves.append(Combinations(scores, rng.integers(0, 99, size), rng.integers(-9, 9, (size, 2)).astype(float)))
        left, right = halves
        every = np.sort(np.add.outer(left.scores, right.scores).ravel())[::-1]
        for beam in (1, 2, 5, 17, 10**4):
            found = best_of_pairs(left, right, beam)
            assert found.scores.tolist() == every[:beam].tolist()
            pairs = {
                (a, int(c + d), *(r + s).tolist())
                for a0, c, r in zip(*left, strict=True)
                for b0, d, s in zip(*right, strict=True)
                for a in [a0 + b0]
            }
            assert {(a, int(c), *r.tolist()) for a, c, r in zip(*found, strict=True)} <= pairs


def test_what_is_attained_is_strictly_best_of_all_rows() -> None:
    rng = np.random.default_rng(8)
    seen = set()
    for _ in range(40):
        rows = rng.integers(-3, 4, (12, 2)).astype(float)
        test = among(rows)
        for k in range(len(rows)):
            others = np.delete(rows, k, axis=0)
            found = test.decide(np.zeros(1, dtype=np.int64), np.array([k]), WarmStart(1, np.ones(2)))
            assert (found is not None) == strictly_feasible((rows[k] - others).tolist())
            if found is not None:
                assert ((rows[k] - others) @ found.weights > 0).all()
            seen.add(found is None)
    assert seen == {True, False}
