"""PRO samples and ranks pairs, MIRA moves between hope and fear, as their papers say."""

from math import inf

import numpy as np
import pytest
from scipy.optimize import check_grad
from test_annealing import random_lists_of

from lpmert.methods.heuristic.likelihood import AllHypotheses
from lpmert.methods.heuristic.ranking import Mira, Pro, Walk, logistic_loss
from lpmert.metrics.base import Metric, SumOfLosses
from lpmert.metrics.ratio import Bleu, f_beta
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.search.driver import solve
from lpmert.search.method import Comparator
from lpmert.system.deadline import Deadline

METHODS = [Pro(), Mira(passes=10)]


def lists_with(losses: list[float], features: list[list[float]] | None = None) -> AllHypotheses:
    rows = np.zeros((len(losses), 1)) if features is None else np.array(features)
    return AllHypotheses(rows, np.array([0, len(losses)]), np.array(losses)[:, None], np.ones(rows.shape[1]))


def test_pairs_differ_enough_and_the_better_one_comes_first() -> None:
    losses = np.array([0.0, 0.04, 0.5, 0.2, 0.52])
    rng = np.random.default_rng(0)
    better, worse = Pro(pairs=5000).sample(lists_with(losses.tolist()), losses, rng)
    found = set(zip(better.tolist(), worse.tolist(), strict=True))
    # 0-1 and 2-4 are closer than 0.05
    assert found == {(0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4), (3, 2), (3, 4)}


def test_only_the_pairs_that_differ_most_are_kept() -> None:
    losses = np.arange(20.0)
    better, worse = Pro(pairs=7).sample(lists_with(losses.tolist()), losses, np.random.default_rng(0))
    drawn = np.abs(losses[worse] - losses[better])
    assert len(better) == 7
    assert drawn.min() >= 18.0  # of 5000 draws among 400 about 75 differ by 18 or 19


def test_pairs_stay_within_their_list() -> None:
    losses = np.arange(12.0)
    lists = AllHypotheses(np.zeros((12, 1)), np.array([0, 4, 5, 12]), losses[:, None], np.ones(1))
    better, worse = Pro().sample(lists, losses, np.random.default_rng(1))
    assert (lists.numbers[better] == lists.numbers[worse]).all()
    assert 4 not in better.tolist() + worse.tolist()


def test_pairs_are_those_of_the_first_lists_where_time_runs_out() -> None:
    losses = np.arange(12.0)
    lists = AllHypotheses(np.zeros((12, 1)), np.array([0, 4, 5, 12]), losses[:, None], np.ones(1))
    with Deadline(0.0).running():
        better, worse = Pro().sample(lists, losses, np.random.default_rng(1))
    assert len(better) == len(worse) > 0
    assert max(better.tolist() + worse.tolist()) < 4


def test_the_gradient_is_that_of_the_logistic_loss() -> None:
    rng = np.random.default_rng(2)
    differences, precision = rng.normal(size=(30, 3)), np.array([0.0, 1.0, 3.0])
    error = check_grad(
        lambda w: logistic_loss(w, differences, precision)[0],
        lambda w: logistic_loss(w, differences, precision)[1],
        rng.normal(size=3),
    )
    assert error < 1e-5
    assert logistic_loss(np.zeros(3), differences, precision)[0] == pytest.approx(30 * np.log(2.0))


def test_pro_gives_the_weights_of_logistic_regression_on_its_pairs() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(3)
    features = rng.normal(size=(100, 3))
    losses = rng.normal(size=100) - features @ [1.0, -1.0, 0.5]
    nbest = NBest(features, np.arange(0, 101, 10), losses)
    method = Pro(pairs=1000, variance=2.0)
    lists = AllHypotheses(features, nbest.offsets, nbest.statistics, np.ones(3))
    better, worse = method.sample(lists, losses, np.random.default_rng(5))
    differences = features[better] - features[worse]
    both = np.vstack([differences, -differences])
    signs = np.repeat([1, -1], len(better))
    other = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(both, signs)  # pairs twice
    found = solve(method, Problem(nbest), seed=5)
    assert found.weights == pytest.approx(other.coef_[0] / np.abs(other.coef_[0]).sum(), abs=1e-5)


def test_pro_without_any_pair_says_so() -> None:
    nbest = NBest(np.array([[1.0], [2.0]]), np.array([0, 2]), np.array([0.0, 0.01]))
    result = solve(Pro(), Problem(nbest))
    assert result.counters["pairs"] == 0


def test_mira_moves_just_far_enough_and_no_farther_than_its_step() -> None:
    lists = lists_with([0.0, 3.0], [[1.0, 0.0], [0.0, 1.0]])
    walk = Walk(100.0, lists, SumOfLosses(), np.zeros(2))
    walk.pass_over(np.array([0]))
    assert walk.average == pytest.approx([1.5, -1.5])  # hope leads fear by the margin of 3
    short = Walk(0.01, lists, SumOfLosses(), np.zeros(2))
    short.pass_over(np.array([0]))
    assert short.average == pytest.approx([0.01, -0.01])


def test_mira_does_not_move_where_hope_leads_by_the_margin() -> None:
    lists = lists_with([0.0, 3.0], [[1.0, 0.0], [0.0, 1.0]])
    walk = Walk(0.01, lists, SumOfLosses(), np.array([2.0, -2.0]))
    walk.pass_over(np.array([0]))
    assert walk.updates == 0
    assert walk.average == pytest.approx([2.0, -2.0])


def test_hope_is_good_and_likely_fear_is_bad_and_likely() -> None:
    # by score minus cost: -1, -1.5, -5; by score plus cost: 1, 3.5, 5
    lists = lists_with([1.0, 2.5, 5.0], [[0.0], [1.0], [0.0]])
    walk = Walk(inf, lists, SumOfLosses(), np.ones(1))
    walk.pass_over(np.array([0]))
    assert walk.updates == 0  # hope 0 and fear 2 have the same features
    lists = lists_with([1.0, 2.5, 5.0], [[0.0], [1.0], [-3.0]])
    walk = Walk(inf, lists, SumOfLosses(), np.ones(1))
    walk.pass_over(np.array([0]))
    # hope 0 (-1), fear 1 (3.5 against 2): margin 1.5, hope behind by 1, so it moves by 2.5 times (0 - 1)
    assert walk.average == pytest.approx([1.0 - 2.5])


def test_the_average_is_over_all_visits() -> None:
    lists = lists_with([0.0, 3.0], [[1.0, 0.0], [0.0, 1.0]])
    walk = Walk(0.5, lists, SumOfLosses(), np.zeros(2))
    for _ in range(4):
        walk.pass_over(np.array([0]))
    assert walk.average == pytest.approx([(0.5 + 1.0 + 1.5 + 1.5) / 4, -(0.5 + 1.0 + 1.5 + 1.5) / 4])


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@pytest.mark.parametrize("metric", [Bleu(), f_beta()], ids=["bleu", "f1"])
def test_features_that_tell_the_matches_are_given_the_right_sign(method: Comparator, metric: Metric) -> None:
    lists = random_lists_of(metric, 1, n_lists=40, size=8)
    rng = np.random.default_rng(1)
    features = np.column_stack([lists.statistics[:, 0] + rng.normal(size=320), rng.normal(size=320)])
    nbest = NBest(features, lists.offsets, lists.statistics)
    problem = Problem(nbest, metric)
    result = solve(method, problem)
    assert result.loss == problem.evaluate(result.weights).loss
    assert result.weights[0] > abs(result.weights[1])
