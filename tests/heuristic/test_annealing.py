"""Expected losses and their gradients are right, and annealing ends near the optimum, never below."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from math import inf

import numpy as np
import pytest
from oracle import decoded, directions_of_the_plane
from problems import random_lists
from searches import many_more
from shared import librispeech, needs_shared, train_choices

from lpmert import NBest, Problem
from lpmert.errors import FloatArray
from lpmert.lines import Clock
from lpmert.methods import Annealing
from lpmert.methods.surrogate_losses import SCHEDULES, AllHypotheses, annealed, risk_of, with_prior
from lpmert.metrics import Bleu, Metric, SumOfLosses, f_beta, precision, recall
from lpmert.model.canonical import CanonicalWeights
from lpmert.search.driver import solve

METRICS = {"bleu": Bleu(), "f1": f_beta(), "f0.5": f_beta(0.5), "precision": precision(), "recall": recall()}


def random_lists_of(metric: Metric, seed: int, *, n_lists: int = 5, size: int = 3) -> AllHypotheses:
    """Lists with the metric's statistics; references of BLEU are about as long as the hypotheses."""
    rng = np.random.default_rng(seed)
    count, words = n_lists * size, 12
    lengths = rng.integers(words - 3, words + 4, count)
    if isinstance(metric, Bleu):
        statistics = np.empty((count, 9))
        matches = lengths
        for order in range(4):
            statistics[:, 2 * order + 1] = lengths - order
            matches = np.maximum(1, np.minimum(matches - 1, (matches * rng.uniform(0.6, 0.95, count)).astype(int)))
            statistics[:, 2 * order] = matches
        statistics[:, 8] = words + rng.integers(0, 3, count)  # the nearest of several references
    else:
        gold = np.repeat(rng.integers(words - 3, words + 4, n_lists), size)
        match = np.minimum(lengths, gold) - rng.integers(0, 6, count)
        statistics = np.column_stack([match, lengths, gold]).astype(float)
    return AllHypotheses(rng.normal(size=(count, 3)), np.arange(0, count + 1, size), statistics, np.ones(3))


def log_loss(metric: Metric, total: FloatArray) -> float:
    """What the risk is the expectation of, at summed statistics."""
    if metric.name == "recall":
        return metric.loss(total)  # a sum over lists: the gold items do not hang on the choice
    return -np.log(1.0 - metric.loss(total))


@pytest.mark.parametrize("name", METRICS)
def test_the_expected_loss_is_near_the_sum_over_all_selections(name: str) -> None:
    """Nearer than the loss of the expected statistics, which is where the expansion begins."""
    metric = METRICS[name]
    for seed in range(2):
        lists = random_lists_of(metric, seed, n_lists=8)
        p = np.exp(lists.log_probabilities(lists.features @ np.array([0.4, -0.8, 0.1])))
        value, _ = risk_of(metric, lists)(p)
        mean = log_loss(metric, p @ lists.statistics)
        selections = map(list, product(*(range(a, b) for a, b in pairwise(lists.offsets))))
        expected = sum(np.prod(p[rows]) * log_loss(metric, lists.statistics[rows].sum(axis=0)) for rows in selections)
        assert value == pytest.approx(expected, rel=1e-2)
        assert abs(value - expected) < 0.4 * abs(mean - expected) + 1e-12


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_the_gradient_of_risk_minus_entropy_is_that_of_its_finite_differences(temperature: float) -> None:
    for metric in (*METRICS.values(), SumOfLosses()):
        lists = random_lists_of(metric, 3)
        if metric.name == "loss":
            lists = replace(lists, statistics=lists.statistics[:, :1])
        bare = partial(annealed, lists, risk_of(metric, lists), temperature, 1.7)
        objective = with_prior(bare, np.array([0.1, 0.0, 2.0]))
        weights = np.array([0.5, -0.3, 0.9])
        steps = 1e-5 * np.eye(3)
        differences = [(objective(weights + step)[0] - objective(weights - step)[0]) / 2e-5 for step in steps]
        assert objective(weights)[1] == pytest.approx(differences, rel=1e-6, abs=1e-8)


def in_the_plane(name: str, seed: int) -> tuple[NBest, float]:
    """Lists with two features, and their least loss."""
    lists = random_lists_of(METRICS[name], seed, n_lists=10, size=5)
    nbest = NBest(lists.features[:, :2], lists.offsets, lists.statistics)
    plane = nbest.dense_features(), nbest.offsets
    chosen = (decoded(*plane, weights) for weights in directions_of_the_plane(*plane))
    return nbest, min(METRICS[name].loss(nbest.statistics[rows].sum(axis=0)) for rows in chosen)


@pytest.mark.parametrize("names", [["f1"], many_more([*METRICS])], ids=["one", "all"])
def test_ratio_metrics_are_annealed_close_to_the_best_loss_of_the_plane(names: list[str]) -> None:
    for name in names:
        problems = [in_the_plane(name, seed) for seed in range(3)]
        excess = [solve(Annealing(), Problem(nbest, METRICS[name])).loss - best for nbest, best in problems]
        assert min(excess) >= -1e-12
        assert np.median(excess) < 0.05


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_prior_keeps_weights_as_small_as_it_says(schedule: str) -> None:
    """Weights 0 have the most entropy: what the prior asks of others is no more than they lower the risk by."""
    lists = random_lists("floats", 3, most_lists=40, most_selections=10**12)
    problem = Problem(lists.nbest)
    spread = sum(lists.losses[begin:end].max() - lists.losses[begin:end].min() for begin, end in lists.ranges())
    sizes = {}
    for variance in (1e-8, 1e-4, inf):
        found = Annealing(schedule=schedule, variance=variance).run(problem, None, 0, Clock(problem))
        sizes[variance] = float(np.linalg.norm(problem.to_caller(CanonicalWeights(found.weights))))
    for variance in (1e-8, 1e-4):
        assert 0 < sizes[variance] <= np.sqrt(2 * variance * spread)
    assert sizes[inf] > np.sqrt(2 * 1e-4 * spread)


@needs_shared
@pytest.mark.parametrize(("lists", "optimum"), [(train_choices, 858), many_more(librispeech, 1767)])
def test_annealing_comes_within_one_percent_of_real_optima(lists: Callable[[], NBest], optimum: float) -> None:
    problem = Problem(lists())
    losses = [solve(method, problem).loss for method in (Annealing(), Annealing(schedule="gamma", variance=inf))]
    assert optimum <= min(losses) <= losses[0] <= 1.01 * optimum
