"""Likelihood, annealing, PRO, MIRA, Nelder-Mead, CMA-ES, grid, random search and TPE do what their papers say."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from math import inf
from typing import Any

import numpy as np
import pytest
from oracle import decoded, directions_of_the_plane
from problems import Plain, random_lists, random_nbest
from refusals import refused
from scipy.optimize import check_grad, minimize
from searches import many_more
from shared import librispeech, needs_shared, train_choices

import lpmert
import lpmert.methods.surrogate_losses as surrogate
from lpmert import MethodError, NBest, Problem, Region
from lpmert.errors import FloatArray
from lpmert.limits import Deadline
from lpmert.lines import Clock
from lpmert.methods import Annealing, CmaEs, Comparator, Grid, Likelihood, Mira, NelderMead, Pro, RandomSearch, Tpe
from lpmert.methods.surrogate_losses import AllHypotheses, lists_of, mira_passes, risk_of, with_prior
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
        bare = partial(surrogate.annealed, lists, risk_of(metric, lists), temperature, 1.7)
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


@pytest.mark.parametrize("schedule", surrogate.SCHEDULES)
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


def objective(nbest: NBest, variance: float, weights: FloatArray) -> tuple[float, FloatArray]:
    lists = lists_of(Problem(nbest))
    gold = surrogate.gold_rows(lists, surrogate.own_losses(SumOfLosses(), lists.statistics))
    return with_prior(partial(surrogate.negative_log_likelihood, lists, gold), lists.scale**2 / variance)(weights)


@pytest.mark.parametrize("variance", [0.25, np.inf])
def test_the_gradient_is_that_of_the_objective(variance: float) -> None:
    at = partial(objective, random_nbest(0, size=5), variance)
    assert check_grad(lambda w: at(w)[0], lambda w: at(w)[1], np.array([0.3, -1.2, 0.7])) < 1e-5


def test_tied_hypotheses_of_least_loss_count_together() -> None:
    lists = lists_with([0.0] * 3, [[2.0], [0.0], [1.0]])
    value, _ = surrogate.negative_log_likelihood(lists, np.array([1.0, 0.0, 1.0]), np.ones(1))
    e = np.exp([2.0, 0.0, 1.0])
    assert value == pytest.approx(-np.log((e[0] + e[2]) / e.sum()))


@pytest.mark.parametrize("variance", [0.25, 0.5, 1.0])
def test_the_weights_are_a_stationary_point_whatever_the_start(variance: float) -> None:
    nbest = random_nbest(1, lists=40, size=2)
    problem = Problem(nbest)
    for start in (None, np.array([5.0, -5.0, 5.0])):
        found = Likelihood(variance=variance).run(problem, start, 0, Clock(problem))
        _, gradient = objective(nbest, variance, found.weights)
        assert np.abs(gradient).max() <= 10 * surrogate.GRADIENT_TOLERANCE * nbest.n_lists


def logistic_regression(points: FloatArray, labels: np.ndarray, strength: float) -> FloatArray:
    """The weights of scikit-learn's, normalised."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=strength, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(points, labels)
    return np.asarray(model.coef_[0] / np.abs(model.coef_[0]).sum())


@pytest.mark.parametrize("variance", [0.25, 1.0, 4.0])
def test_on_lists_of_two_the_weights_are_those_of_logistic_regression(variance: float) -> None:
    rng = np.random.default_rng(3)
    points = rng.normal(size=(200, 4)) * [1.0, 3.0, 0.2, 1.0]
    labels = points @ [1.0, -0.3, 2.0, 0.0] + rng.logistic(size=200) > 0
    result = solve(Likelihood(variance=variance), Problem(lpmert.from_classification(points, labels, intercept=False)))
    expected = logistic_regression(points, labels, variance)
    assert result.weights == pytest.approx(expected, abs=1e-5)
    assert result.loss == np.sum((points @ expected > 0) != labels)


def test_the_prior_holds_in_the_callers_scaling() -> None:
    rng = np.random.default_rng(4)
    features = rng.normal(size=(60, 2)) * [1.0, 1e-4]
    small = lpmert.minimize(NBest(features, np.arange(0, 61, 3), rng.integers(0, 2, 60)), method="likelihood").weights
    assert abs(small[1]) < 1e-2 * abs(small[0])  # a weight large enough to matter would cost the prior 1e8


def test_for_bleu_the_gold_hypothesis_has_the_best_smoothed_sentence_bleu() -> None:
    # (4 4 3 3 2 2 1 1) is perfect; (3 4 2 3 1 2 0 1) has a smoothed BLEU of (3/4 * 3/4 * 2/3 * 1/2)^(1/4)
    statistics = np.array([[3, 4, 2, 3, 1, 2, 0, 1, 4], [4, 4, 3, 3, 2, 2, 1, 1, 4]], dtype=float)
    assert surrogate.own_losses(Bleu(), statistics) == pytest.approx([1 - (3 / 4 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25, 0.0])
    assert statistics[0, 2] == 2.0  # the caller's array is left alone


def lists_of_two(seed: int, *, n_lists: int = 24) -> NBest:
    """Lists of two, of which the first feature tells the better one but for noise, and two features say nothing."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(2 * n_lists, 3)) * [1.0, 20.0, 0.05]
    gain = features[::2, 0] - features[1::2, 0] + rng.logistic(size=n_lists)
    losses = np.column_stack([gain < 0, gain >= 0]).ravel().astype(float)
    return NBest(features, np.arange(0, 2 * n_lists + 1, 2), losses)


def fitted(nbest: NBest, variance: float, start: FloatArray) -> FloatArray:
    """Written anew: with lists of two the likelihood is logistic; the prior is for features of equal spread."""
    features = nbest.dense_features()
    sign = np.where(nbest.statistics[::2, 0] < nbest.statistics[1::2, 0], 1.0, -1.0)
    steps = sign[:, None] * (features[::2] - features[1::2])
    spread = np.sqrt(np.mean(np.square(steps / 2), axis=0))

    def objective_of(scaled: FloatArray) -> float:
        return float(np.sum(np.log1p(np.exp(-steps @ (scaled / spread)))) + np.sum(np.square(scaled)) / (2 * variance))

    return np.asarray(minimize(objective_of, start * spread, method="BFGS", options={"gtol": 1e-7}).x / spread)


METHOD = Likelihood(folds=4)


@pytest.mark.parametrize("seed", range(3))
def test_the_variance_is_that_whose_fits_cost_least_on_lists_left_out(seed: int) -> None:
    nbest = lists_of_two(seed)
    fold = np.random.default_rng(seed).permutation(nbest.n_lists) % 4
    losses = np.zeros(len(surrogate.VARIANCES))
    for number in range(4):
        weights = np.zeros(3)
        for place, variance in enumerate(surrogate.VARIANCES):
            weights = fitted(nbest.restrict(fold != number), variance, weights)
            losses[place] += lpmert.evaluate(nbest.restrict(fold == number), weights).loss
    weights = np.zeros(3)
    for variance in surrogate.VARIANCES[: int(np.argmin(losses)) + 1]:
        weights = fitted(nbest, variance, weights)
    found = lpmert.minimize(nbest, method=METHOD, seed=seed)
    assert found.weights == pytest.approx(weights / np.abs(weights).sum(), rel=2e-3, abs=1e-6)
    assert METHOD.random


def test_features_may_be_scaled_at_will() -> None:
    nbest, factors = lists_of_two(5), np.array([0.01, 3.0, 700.0])
    scaled = NBest(nbest.dense_features() * factors, nbest.offsets, nbest.statistics)
    one, other = (lpmert.minimize(lists, method=METHOD).weights for lists in (nbest, scaled))
    assert other * factors / np.abs(other * factors).sum() == pytest.approx(one, rel=1e-3, abs=1e-6)


def test_folds_of_ratios_and_single_lists_are_taken_too() -> None:
    lists = random_nbest(lists=10, kind="f1")
    assert lpmert.minimize(lists, metric="f1").loss <= lpmert.minimize(lists, metric="f1", method=METHOD).loss < 1.0
    assert lpmert.minimize(lists_of_two(0, n_lists=1), method=METHOD).loss == 0.0


def lists_with(losses: Any, features: Any = None, offsets: list[int] | None = None) -> AllHypotheses:
    rows = np.zeros((len(losses), 1)) if features is None else np.array(features)
    ends = np.array([0, len(losses)] if offsets is None else offsets)
    return AllHypotheses(rows, ends, np.array(losses)[:, None], np.ones(rows.shape[1]))


def sampled(method: Pro, losses: FloatArray, offsets: list[int] | None = None) -> FloatArray:
    """Pairs [n, 2] of the better and the worse row."""
    lists = lists_with(losses, offsets=offsets)
    return np.column_stack(method.sample(lists, losses, np.random.default_rng(0)))


def test_pairs_differ_enough_the_better_one_comes_first_and_those_that_differ_most_are_kept() -> None:
    pairs = sampled(Pro(pairs=5000), np.array([0.0, 0.04, 0.5, 0.2, 0.52]))
    # 0-1 and 2-4 are closer than 0.05
    assert {*map(tuple, pairs)} == {(0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4), (3, 2), (3, 4)}
    few = sampled(Pro(pairs=7), np.arange(20.0))
    assert len(few) == 7
    assert np.diff(few).min() >= 18  # of 5000 draws among 400 about 75 differ by 18 or 19


@pytest.mark.parametrize("seconds", [None, 0.0])
def test_pairs_stay_within_their_list_and_are_those_of_the_first_where_time_runs_out(seconds: float | None) -> None:
    with Deadline(seconds).running():
        pairs = sampled(Pro(), np.arange(12.0), [0, 4, 5, 12])
    lists = np.searchsorted([4, 5, 12], pairs, side="right")
    assert (lists[:, 0] == lists[:, 1]).all()
    assert {*lists.ravel().tolist()} == ({0, 2} if seconds is None else {0})


def test_pro_gives_the_weights_of_logistic_regression_on_its_pairs() -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(100, 3))
    losses = rng.normal(size=100) - features @ [1.0, -1.0, 0.5]
    nbest = NBest(features, np.arange(0, 101, 10), losses)
    method = Pro(pairs=1000, variance=2.0)
    better, worse = method.sample(lists_of(Problem(nbest)), losses, np.random.default_rng(5))
    differences = features[better] - features[worse]
    both = np.vstack([differences, -differences])  # pairs twice
    expected = logistic_regression(both, np.repeat([1, -1], len(better)), 1.0)
    assert solve(method, Problem(nbest), seed=5).weights == pytest.approx(expected, abs=1e-5)
    # without any pair it says so
    assert lpmert.minimize(NBest([[1.0], [2.0]], [0, 2], [0.0, 0.01]), method="pro").counters["pairs"] == 0


@pytest.mark.parametrize(
    ("step", "start", "visits", "average"),
    [
        (100.0, 0.0, 1, 1.5),  # hope leads fear by the margin of 3
        (0.01, 0.0, 1, 0.01),
        (0.01, 2.0, 1, 2.0),  # where hope leads by the margin
        (0.5, 0.0, 4, (0.5 + 1.0 + 1.5 + 1.5) / 4),  # of all visits
    ],
)
def test_mira_moves_just_far_enough_within_its_step(step: float, start: float, visits: int, average: float) -> None:
    lists, first = lists_with([0.0, 3.0], [[1.0, 0.0], [0.0, 1.0]]), np.array([start, -start])
    [found] = mira_passes(step, lists, SumOfLosses(), first, [np.zeros(visits, dtype=int)])
    assert found.weights == pytest.approx([average, -average])
    assert found.counters["updates"] == (3 if visits > 1 else int(start == 0.0))


@pytest.mark.parametrize(
    ("features", "updates", "average"),
    [
        # by score minus cost: -1, -1.5, -5; by score plus cost: 1, 3.5, 5: hope 0 and fear 2 have the same features
        ([[0.0], [1.0], [0.0]], 0, 1.0),
        # hope 0 (-1), fear 1 (3.5 against 2): margin 1.5, hope behind by 1, so it moves by 2.5 times (0 - 1)
        ([[0.0], [1.0], [-3.0]], 1, 1.0 - 2.5),
    ],
)
def test_hope_is_good_and_likely_fear_is_bad_and_likely(features: list[Any], updates: int, average: float) -> None:
    [found] = mira_passes(inf, lists_with([1.0, 2.5, 5.0], features), SumOfLosses(), np.ones(1), [np.array([0])])
    assert (found.weights, found.counters) == (pytest.approx([average]), {"updates": updates})


@pytest.mark.parametrize("method", [Pro(), Mira(passes=10)], ids=lambda method: method.name)
@pytest.mark.parametrize("metric", [Bleu(), f_beta()], ids=["bleu", "f1"])
def test_features_that_tell_the_matches_are_given_the_right_sign(method: Comparator, metric: Metric) -> None:
    lists = random_lists_of(metric, 1, n_lists=40, size=8)
    rng = np.random.default_rng(1)
    features = np.column_stack([lists.statistics[:, 0] + rng.normal(size=320), rng.normal(size=320)])
    result = solve(method, Problem(NBest(features, lists.offsets, lists.statistics), metric))
    assert result.weights[0] > abs(result.weights[1])


SMALL = Grid(points=5), RandomSearch(draws=40), NelderMead(restarts=1, evaluations=60), CmaEs(restarts=1), Tpe(trials=9)
some_lists = partial(random_nbest, lists=20, size=6)


@pytest.mark.parametrize("method", SMALL, ids=lambda one: one.name)
def test_any_metric_will_do_and_lists_without_any_choice_need_no_search(method: Comparator) -> None:
    """Also a metric without a known formula."""
    problem = Problem(some_lists(), Plain(lambda total: sum((value - 30.0) ** 2 for value in total)))
    result = solve(method, problem)
    assert result.loss == problem.evaluate(result.weights).loss <= problem.evaluate(np.ones(3)).loss
    nbest = NBest(np.eye(3), [0, 1, 2, 3], np.array([[1.0, 2.0, 2.0]] * 3))
    for region in (None, Region(nonnegative=True)):
        problem = Problem(nbest, "f1", region=region)
        result = solve(method, problem)
        assert (problem.evaluate(result.weights).loss, problem.inside(result.weights)) == (result.loss, True)


def test_the_start_is_tried() -> None:
    nbest = some_lists(4, lists=8, size=4)
    best = lpmert.minimize(nbest)
    for tiny in (RandomSearch(draws=1), NelderMead(restarts=0, evaluations=5), Tpe(trials=1)):
        assert solve(tiny, Problem(nbest), initial_weights=best.weights).loss == best.loss, tiny


def test_grid_finds_the_best_of_its_points() -> None:
    problem = Problem(some_lists(7))
    grid = Grid(points=7, ranges=(("feature2", -1.0, 2.0), ("feature3", 0.5, 3.0)))
    points = product([1.0], np.linspace(-1, 2, 7), np.linspace(0.5, 3.0, 7))
    losses = {point: problem.evaluate(point).loss for point in points}
    result = solve(grid, problem)
    assert result.loss == min(losses.values())
    at = result.weights / result.weights[0]
    assert any(np.abs(at - point).sum() < 1e-9 and loss == result.loss for point, loss in losses.items())


def test_grid_is_relative_to_the_reference_its_sign_and_the_scale_of_features() -> None:
    assert solve(Grid(points=4, reference="feature3", negative=True), Problem(some_lists(5))).weights[2] < 0
    nbest = some_lists(6)
    scaled = NBest(nbest.features * np.array([1.0, 1000.0, 0.01]), nbest.offsets, nbest.statistics)
    assert solve(Grid(points=6), Problem(nbest)).loss == solve(Grid(points=6), Problem(scaled)).loss


MANY = partial(solve, problem=Problem(some_lists(dimension=6)))
test_what_makes_no_sense_is_refused = refused(
    [
        (MethodError, "folds", lambda: Likelihood(folds=1)),
        (MethodError, "'ctc' is not a feature that varies; those are feature1", partial(MANY, Grid(reference="ctc"))),
        (MethodError, "more than 1,000,000 points", partial(MANY, Grid(points=30))),
    ]
)


def test_tpe_keeps_the_verbosity_of_optuna_and_without_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import optuna

    before = optuna.logging.get_verbosity()
    lpmert.minimize(some_lists(), method=Tpe(trials=2))
    assert optuna.logging.get_verbosity() == before
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(MethodError, match=r"lpmert\[tpe\]"):
        lpmert.minimize(some_lists(), method="tpe")
