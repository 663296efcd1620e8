"""A prior is chosen by what its fits cost on the lists left out, and counts features in units of their spread."""

import numpy as np
import pytest
from scipy.optimize import minimize

import lpmert
from lpmert.errors import FloatArray, MethodError
from lpmert.methods.heuristic.likelihood import VARIANCES, Likelihood
from lpmert.model.nbest import NBest


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
