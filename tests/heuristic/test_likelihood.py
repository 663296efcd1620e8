"""Maximum likelihood is at the one optimum of its objective; its prior is chosen by fits on lists left out."""

import numpy as np
import pytest
from problems import random_nbest
from scipy.optimize import check_grad, minimize

import lpmert
from lpmert.errors import FloatArray, MethodError
from lpmert.lines.local_search import Clock
from lpmert.methods.heuristic.likelihood import (
    GRADIENT_TOLERANCE,
    VARIANCES,
    AllHypotheses,
    Likelihood,
    gold_rows,
    lists_of,
    negative_log_likelihood,
    own_losses,
)
from lpmert.metrics.base import SumOfLosses
from lpmert.metrics.ratio import Bleu
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.search.driver import solve


def objective(nbest: NBest) -> tuple[AllHypotheses, FloatArray]:
    lists = lists_of(Problem(nbest))
    return lists, gold_rows(lists, own_losses(SumOfLosses(), lists.statistics))


@pytest.mark.parametrize("variance", [0.25, np.inf])
def test_the_gradient_is_that_of_the_objective(variance: float) -> None:
    lists, gold = objective(random_nbest(0, size=5))
    weights = np.array([0.3, -1.2, 0.7])
    error = check_grad(
        lambda w: negative_log_likelihood(w, lists, gold, lists.scale**2 / variance)[0],
        lambda w: negative_log_likelihood(w, lists, gold, lists.scale**2 / variance)[1],
        weights,
    )
    assert error < 1e-5


def test_the_likelihood_of_two_hypotheses_is_the_logistic_function() -> None:
    lists = AllHypotheses(np.array([[2.0], [0.0]]), np.array([0, 2]), np.zeros((2, 1)), np.ones(1))
    value, gradient = negative_log_likelihood(np.array([1.5]), lists, np.array([0.0, 1.0]), np.zeros(1))
    assert value == pytest.approx(np.log1p(np.exp(3.0)))
    assert gradient == pytest.approx([2.0 / (1.0 + np.exp(-3.0))])


def test_tied_hypotheses_of_least_loss_count_together() -> None:
    lists = AllHypotheses(np.array([[2.0], [0.0], [1.0]]), np.array([0, 3]), np.zeros((3, 1)), np.ones(1))
    value, _ = negative_log_likelihood(np.array([1.0]), lists, np.array([1.0, 0.0, 1.0]), np.zeros(1))
    e = np.exp([2.0, 0.0, 1.0])
    assert value == pytest.approx(-np.log((e[0] + e[2]) / e.sum()))


@pytest.mark.parametrize("variance", [0.25, 0.5, 1.0])
def test_the_weights_are_a_stationary_point_whatever_the_start(variance: float) -> None:
    nbest = random_nbest(1, lists=40, size=2)
    problem = Problem(nbest)
    lists, gold = objective(nbest)
    for start in (None, np.array([5.0, -5.0, 5.0])):
        found = Likelihood(variance=variance).run(problem, start, 0, Clock(problem))
        _, gradient = negative_log_likelihood(found.weights, lists, gold, lists.scale**2 / variance)
        assert np.abs(gradient).max() <= 10 * GRADIENT_TOLERANCE * lists.n_lists


@pytest.mark.parametrize("variance", [0.25, 1.0, 4.0])
def test_on_lists_of_two_the_weights_are_those_of_logistic_regression(variance: float) -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(3)
    points = rng.normal(size=(200, 4)) * [1.0, 3.0, 0.2, 1.0]
    labels = points @ [1.0, -0.3, 2.0, 0.0] + rng.logistic(size=200) > 0
    nbest = lpmert.from_classification(points, labels, intercept=False)
    result = solve(Likelihood(variance=variance), Problem(nbest))
    other = LogisticRegression(C=variance, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(points, labels)
    expected = other.coef_[0] / np.abs(other.coef_[0]).sum()
    assert result.weights == pytest.approx(expected, abs=1e-5)
    assert result.loss == pytest.approx(200 * (1 - other.score(points, labels)))


def test_the_prior_holds_in_the_callers_scaling() -> None:
    rng = np.random.default_rng(4)
    features = rng.normal(size=(60, 2)) * [1.0, 1e-4]
    losses = rng.integers(0, 2, 60).astype(float)
    problem = Problem(NBest(features, np.arange(0, 61, 3), losses))
    small = solve(Likelihood(variance=1.0), problem).weights
    assert abs(small[1]) < 1e-2 * abs(small[0])  # a weight large enough to matter would cost the prior 1e8


def test_for_bleu_the_gold_hypothesis_has_the_best_smoothed_sentence_bleu() -> None:
    # (4 4 3 3 2 2 1 1) is perfect; (3 4 2 3 1 2 0 1) has a smoothed BLEU of (3/4 * 3/4 * 2/3 * 1/2)^(1/4)
    statistics = np.array([[3, 4, 2, 3, 1, 2, 0, 1, 4], [4, 4, 3, 3, 2, 2, 1, 1, 4]], dtype=float)
    assert own_losses(Bleu(), statistics) == pytest.approx([1 - (3 / 4 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25, 0.0])
    assert statistics[0, 2] == 2.0  # the caller's array is left alone


def lists_of_two(seed: int, *, n_lists: int = 24, noise: float = 1.0) -> NBest:
    """Lists of two, of which the first feature tells the better one but for noise, and two features say nothing."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(2 * n_lists, 3)) * [1.0, 20.0, 0.05]
    gain = features[::2, 0] - features[1::2, 0] + noise * rng.logistic(size=n_lists)
    losses = np.column_stack([gain < 0, gain >= 0]).ravel().astype(float)
    return NBest(features, np.arange(0, 2 * n_lists + 1, 2), losses)


def differences(nbest: NBest) -> tuple[FloatArray, FloatArray]:
    """The better hypothesis of each list minus the other one [S, D], and the features' spread within lists [D]."""
    features = nbest.dense_features()
    sign = np.where(nbest.statistics[::2, 0] < nbest.statistics[1::2, 0], 1.0, -1.0)
    steps = features[::2] - features[1::2]
    return sign[:, None] * steps, np.sqrt(np.mean(np.square(steps / 2), axis=0))


def objective_of(steps: FloatArray, spread: FloatArray, variance: float, weights: FloatArray) -> float:
    """Written anew: with lists of two the likelihood is logistic."""
    prior = np.sum(np.square(weights * spread)) / (2 * variance)
    return float(np.sum(np.log1p(np.exp(-steps @ weights))) + prior)


def fitted(nbest: NBest, variance: float, start: FloatArray) -> FloatArray:
    steps, spread = differences(nbest)

    def of_scaled(scaled: FloatArray) -> float:
        return objective_of(steps, spread, variance, scaled / spread)

    return np.asarray(minimize(of_scaled, start * spread, method="BFGS", options={"gtol": 1e-7}).x / spread)


METHOD = Likelihood(folds=4)


@pytest.mark.parametrize("seed", range(3))
def test_the_variance_is_that_whose_fits_cost_least_on_lists_left_out(seed: int) -> None:
    nbest = lists_of_two(seed)
    fold = np.random.default_rng(seed).permutation(nbest.n_lists) % 4
    losses = np.zeros(len(VARIANCES))
    for number in range(4):
        weights = np.zeros(3)
        for place, variance in enumerate(VARIANCES):
            weights = fitted(nbest.restrict(fold != number), variance, weights)
            losses[place] += lpmert.evaluate(nbest.restrict(fold == number), weights).loss
    weights = np.zeros(3)
    for variance in VARIANCES[: int(np.argmin(losses)) + 1]:
        weights = fitted(nbest, variance, weights)
    found = lpmert.minimize(nbest, method=METHOD, seed=seed)
    expected = weights / np.abs(weights).sum()
    assert found.weights == pytest.approx(expected, rel=2e-3, abs=1e-6)
    assert METHOD.random


def test_features_may_be_scaled_at_will() -> None:
    nbest = lists_of_two(5)
    factors = np.array([0.01, 3.0, 700.0])
    scaled = NBest(nbest.dense_features() * factors, nbest.offsets, nbest.statistics)
    one, other = (lpmert.minimize(lists, method=METHOD).weights for lists in (nbest, scaled))
    back = other * factors / np.abs(other * factors).sum()
    assert back == pytest.approx(one, rel=1e-3, abs=1e-6)


def test_one_part_is_none() -> None:
    with pytest.raises(MethodError, match="folds"):
        Likelihood(folds=1)


def test_ratios_and_single_lists_are_taken_too() -> None:
    rng = np.random.default_rng(0)
    gold, predicted = np.repeat(rng.integers(2, 6, 10), 4), rng.integers(1, 6, 40)
    match = rng.integers(0, np.minimum(gold, predicted) + 1)
    lists = NBest(rng.normal(size=(40, 3)), np.arange(0, 41, 4), np.column_stack([match, predicted, gold]))
    best = lpmert.minimize(lists, metric="f1").loss
    assert best <= lpmert.minimize(lists, metric="f1", method=METHOD).loss < 1.0
    alone = lists_of_two(0, n_lists=1)
    assert lpmert.minimize(alone, method=METHOD).loss == 0.0
