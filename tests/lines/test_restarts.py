"""Restarts: when they end, what is reproduced, how limits stop them, and the stabilised search of a tuning loop."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared import needs_shared, swahili

from lpmert.errors import MethodError
from lpmert.lines.line_search import LineSearch
from lpmert.lines.local_search import LEAST_STARTS, Clock, LineDescents, Restarts
from lpmert.methods.heuristic.och import BEST, Iteration, Och, Stabilised
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.search.driver import solve


def problem_of(seed=0, *, lists=30, size=8, dimension=4, region=None):
    rng = np.random.default_rng(seed)
    count = lists * size
    nbest = NBest(rng.normal(size=(count, dimension)), np.arange(0, count + 1, size), rng.integers(0, 9, count))
    return Problem(nbest, region=region)


def starts_of(levels, *, stopping="foster-kuhn", count=3, given=1):
    """How many starts are made if the n-th of them ends at the n-th level (then at the last one for ever)."""
    problem = problem_of()
    queue = list(levels)

    def descend(_search, weights, _rng, _clock):
        return weights, float(queue.pop(0) if len(queue) > 1 else queue[0])

    rule = Restarts(count, stopping)
    clock, rng = Clock(problem), np.random.default_rng(0)
    lines = LineDescents(LineSearch(problem.canonical), descend)
    return len(rule.run(lines, [np.ones(4)] * given, rng, clock))


@given(st.lists(st.integers(0, 20), min_size=1, max_size=40))
@settings(deadline=None, max_examples=60)
def test_foster_and_kuhn_stop_after_as_many_starts_as_the_best_needed(levels):
    padded = levels + [levels[-1]] * 200
    expected = best_at = 0
    while expected < max(LEAST_STARTS, 2 * best_at):
        expected += 1
        if padded[expected - 1] < min(padded[: expected - 1], default=np.inf):
            best_at = expected
    assert starts_of(levels) == expected


def test_given_starts_are_among_the_ten_and_those_beyond_are_left_out():
    assert starts_of([5], given=25) == 10
    assert starts_of([5, 4, 4, 4, 4, 4, 4, 3], given=25) == 16
    assert starts_of([5], given=25, stopping="fixed", count=2) == 27


def test_a_fixed_number_of_restarts_follows_the_given_starts():
    assert starts_of([5], stopping="fixed", count=7) == 8
    assert solve(Och(restarts=0), problem_of()).counters["starts"] == 1


def rounds_of(method, problems, seed=0):
    history = []
    return [solve(replace(method, earlier=history), problem, seed=seed) for problem in problems], history


BASELINE = Stabilised(reseed=False, history=False, selection=None, stopping="fixed", restarts=2)


def test_each_iteration_returns_what_decoding_gives_and_its_best_optima():
    problems = [problem_of(seed, lists=20) for seed in range(4)]
    for method in (Stabilised(), BASELINE, Stabilised(regularised=True, selection=(1.0, 1.0, 3))):
        results, history = rounds_of(method, problems)
        for problem, result, iteration in zip(problems, results, history, strict=True):
            assert result.loss == problem.evaluate(result.weights).loss
            assert iteration.weights.tolist() == result.weights.tolist()
            losses = [problem.evaluate(weights).loss for weights in iteration.optima]
            assert 1 <= len(losses) <= BEST
            assert losses == sorted(losses)
            assert result.loss >= losses[0]


def test_without_selection_the_best_optimum_is_returned():
    for problem in (problem_of(seed, lists=20) for seed in range(3)):
        (result,), (iteration,) = rounds_of(BASELINE, [problem])
        assert result.loss == problem.evaluate(iteration.optima[0]).loss


def test_history_never_forgets_an_optimum_of_the_same_lists():
    problem = problem_of(9, lists=60)
    method = Stabilised(reseed=True, history=True, selection=None, stopping="fixed", restarts=1)
    results, _ = rounds_of(method, [problem] * 5)
    losses = [result.loss for result in results]
    assert losses == sorted(losses, reverse=True)


def test_the_same_seed_repeats_random_starts_unless_reseeded():
    problem = problem_of(9, lists=60)
    empty = Iteration(np.zeros(4), ())

    def optima(method, iteration):
        history = [empty] * iteration
        solve(replace(method, earlier=history), problem)
        return [weights.tolist() for weights in history[-1].optima]

    repeating, reseeded = BASELINE, Stabilised(selection=None, stopping="fixed", restarts=2)
    assert optima(repeating, 1) == optima(repeating, 2)
    assert optima(reseeded, 1) != optima(reseeded, 2)


def test_selection_trades_loss_for_distance_from_recent_weights():
    problem = problem_of(11, lists=60)
    far = Stabilised(selection=(10.0, 9.0, 3), stopping="fixed", restarts=15)  # in the first iteration distance alone
    _, (first,) = rounds_of(far, [problem])
    method = Stabilised(selection=(10.9, 9.9, 3), stopping="fixed", restarts=15)
    plain = Stabilised(selection=None, stopping="fixed", restarts=15)
    distances = []
    for one in (method, plain):
        history = [Iteration(first.optima[0], first.optima)]
        result = solve(replace(one, earlier=history), problem)
        distances.append(np.linalg.norm(result.weights - first.optima[0]))
    assert distances[0] >= distances[1]
    assert distances[0] > 0


@pytest.mark.parametrize("selection", [(5.0, 1.0, 3), (-1.0, 9.0, 3), (5.0, 9.0, 0)])
def test_selections_that_make_no_sense_are_refused(selection):
    with pytest.raises(MethodError, match="selection"):
        Stabilised(selection=selection)


@needs_shared
def test_steps_from_the_best_weights_beat_fresh_starts_on_real_lists():
    problem = Problem(swahili().restrict(slice(0, 150)))
    fresh, walking = (
        np.mean([solve(Och(walk_share=share, restarts=8), problem, seed=seed).loss for seed in range(4)])
        for share in (0.0, 0.9)
    )
    assert walking < fresh
