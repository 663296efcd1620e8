"""The averaged perceptron and boosting do what their papers' algorithms, written down plainly, do."""

from itertools import pairwise

import numpy as np
import pytest
from oracle import decoded
from scipy.sparse import csr_array
from shared import needs_shared
from test_msr import kana_kanji, sparse_nbest

from lpmert.errors import FloatArray
from lpmert.methods.heuristic.sparse import Boosting, Perceptron, differences, sparse_lists
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.search.driver import solve
from lpmert.search.method import Comparator

METHODS = [Perceptron(), Boosting(rounds=300)]


def plain_perceptron(nbest: NBest, passes: int, seed: int) -> FloatArray:
    """The mean of the weights after every list."""
    features, losses = nbest.dense_features(), nbest.statistics[:, 0]
    rng = np.random.default_rng(seed)
    weights = np.zeros(nbest.n_features)
    weights[0] = 1.0
    after = []
    for _ in range(passes):
        before = weights.copy()
        for s in rng.permutation(nbest.n_lists).tolist():
            rows = np.arange(nbest.offsets[s], nbest.offsets[s + 1])
            scores = features[rows] @ weights
            gold = np.flatnonzero(losses[rows] == losses[rows].min())
            chosen = int(np.argmax(scores))
            if chosen not in gold:
                change = features[rows[gold[np.argmax(scores[gold])]]] - features[rows[chosen]]
                change[0] = 0.0
                weights = weights + change
            after.append(weights)
        if (before == weights).all():
            break
    return np.mean(after, axis=0)


@pytest.mark.parametrize("seed", range(4))
def test_the_perceptron_averages_the_weights_after_every_list(seed: int) -> None:
    nbest = sparse_nbest(seed)
    trained = Perceptron(passes=5).train(nbest, seed=seed)
    assert trained.weights == pytest.approx(plain_perceptron(nbest, 5, seed))


def test_the_perceptron_ends_where_no_list_is_wrong() -> None:
    features = csr_array(np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 2.0], [1.0, 0.0]]))
    nbest = NBest(features, np.array([0, 2, 4]), np.array([1.0, 0.0, 0.0, 1.0]))
    trained = Perceptron().train(nbest)
    assert trained.counters == {"passes": 2, "updates": 1}
    assert trained.loss == 0.0


def exponential_loss(nbest: NBest, weights: FloatArray) -> float:
    """Collins' objective, written down plainly."""
    features, losses = nbest.dense_features(), nbest.statistics[:, 0]
    total = 0.0
    for a, b in pairwise(nbest.offsets):
        least = losses[a:b].min()
        gold = max((i for i in range(a, b) if losses[i] == least), key=lambda i: (features[i, 0], -i))
        for j in range(a, b):
            total += (losses[j] - least) * np.exp((features[j] - features[gold]) @ weights)
    return total


@pytest.mark.parametrize("counts", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_every_round_of_boosting_lowers_the_exponential_loss(seed: int, counts: int) -> None:
    nbest = sparse_nbest(seed, counts=counts)
    losses = [exponential_loss(nbest, Boosting(rounds=rounds).train(nbest).weights) for rounds in range(1, 30)]
    start = exponential_loss(nbest, np.eye(nbest.n_features)[0])
    for before, after in pairwise([start, *losses]):
        assert after < before


def test_the_efficient_update_ends_where_the_plain_algorithm_does() -> None:
    nbest = sparse_nbest(5, counts=3)
    lists, _ = sparse_lists(nbest, "loss", None)
    pairs = differences(lists)
    gaps = pairs.by_pair.toarray()
    importance = pairs.weights.copy()
    weights = np.zeros(nbest.n_features)
    reach = np.abs(gaps).max(axis=0)
    reach[reach == 0] = np.inf
    for _ in range(200):
        right = np.maximum(gaps, 0.0).T @ importance
        wrong = np.maximum(-gaps, 0.0).T @ importance
        gains = (np.sqrt(right) - np.sqrt(wrong)) ** 2 / reach
        best = int(np.argmax(gains))
        if gains[best] <= 1e-6 * importance.sum():
            break
        smooth = 0.001 * importance.sum()
        step = 0.5 / reach[best] * np.log((right[best] + smooth) / (wrong[best] + smooth))
        weights[best] += step
        importance *= np.exp(-step * gaps[:, best])
    weights[0] = 1.0
    assert Boosting(rounds=200).train(nbest).weights == pytest.approx(weights, rel=1e-6, abs=1e-9)


def test_base_scores_far_apart_do_not_overflow() -> None:
    nbest = sparse_nbest(6)
    features = nbest.dense_features().copy()
    features[:, 0] *= 1e4
    trained = Boosting(rounds=50).train(NBest(csr_array(features), nbest.offsets, nbest.statistics))
    assert np.isfinite(trained.weights).all()
    assert trained.weights[1:].any()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_the_base_keeps_the_sign_that_decodes_better_or_that_of_the_start(method: Comparator) -> None:
    nbest = sparse_nbest(8)
    turned = NBest(-nbest.dense_features(), nbest.offsets, nbest.statistics)
    problem, other = Problem(nbest), Problem(turned)
    first, second = solve(method, problem, seed=3), solve(method, other, seed=3)
    assert first.weights[0] > 0 > second.weights[0]
    assert first.loss == second.loss
    start = -np.eye(nbest.n_features)[0]
    assert solve(method, problem, initial_weights=start).weights[0] < 0


@needs_shared
@pytest.mark.parametrize("method", [Perceptron(), Boosting()], ids=lambda method: method.name)
def test_on_kana_kanji_lists_a_model_of_half_of_them_helps_on_the_other_half(method: Perceptron | Boosting) -> None:
    nbest = kana_kanji()
    train, test = nbest.restrict(slice(0, None, 2)), nbest.restrict(slice(1, None, 2))
    weights = method.train(train).weights
    base, trained = (
        test.statistics[decoded(test.features, test.offsets, one)].sum()
        for one in (np.eye(1, nbest.n_features)[0], weights)
    )
    assert trained < base
