"""Likelihood, PRO, MIRA, Nelder-Mead, CMA-ES, grid, random search and TPE do what their papers say."""

from functools import partial
from math import inf

import numpy as np
import pytest
from problems import Plain, random_nbest
from scipy.optimize import check_grad, minimize
from test_annealing import random_lists_of

import lpmert
from lpmert import MethodError, NBest, Problem, Region
from lpmert.errors import FloatArray
from lpmert.lines.local_search import Clock
from lpmert.methods import CmaEs, Comparator, Grid, Likelihood, Mira, NelderMead, Pro, RandomSearch, Tpe
from lpmert.methods.heuristic.likelihood import (
    GRADIENT_TOLERANCE,
    VARIANCES,
    AllHypotheses,
    gold_rows,
    lists_of,
    negative_log_likelihood,
    own_losses,
)
from lpmert.methods.heuristic.ranking import Walk
from lpmert.metrics import Bleu, Metric, SumOfLosses, f_beta
from lpmert.search.driver import solve
from lpmert.system.deadline import Deadline


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


def lists_of_two(seed: int, *, n_lists: int = 24) -> NBest:
    """Lists of two, of which the first feature tells the better one but for noise, and two features say nothing."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(2 * n_lists, 3)) * [1.0, 20.0, 0.05]
    gain = features[::2, 0] - features[1::2, 0] + rng.logistic(size=n_lists)
    losses = np.column_stack([gain < 0, gain >= 0]).ravel().astype(float)
    return NBest(features, np.arange(0, 2 * n_lists + 1, 2), losses)


def differences(nbest: NBest) -> tuple[FloatArray, FloatArray]:
    """The better hypothesis of each list minus the other one [S, D], and the features' spread within lists [D]."""
    features = nbest.dense_features()
    sign = np.where(nbest.statistics[::2, 0] < nbest.statistics[1::2, 0], 1.0, -1.0)
    steps = features[::2] - features[1::2]
    return sign[:, None] * steps, np.sqrt(np.mean(np.square(steps / 2), axis=0))


def fitted(nbest: NBest, variance: float, start: FloatArray) -> FloatArray:
    """Written anew: with lists of two the likelihood is logistic."""
    steps, spread = differences(nbest)

    def objective_of(scaled: FloatArray) -> float:
        return float(np.sum(np.log1p(np.exp(-steps @ (scaled / spread)))) + np.sum(np.square(scaled)) / (2 * variance))

    return np.asarray(minimize(objective_of, start * spread, method="BFGS", options={"gtol": 1e-7}).x / spread)


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


@pytest.mark.parametrize("seconds", [None, 0.0])
def test_pairs_stay_within_their_list_and_are_those_of_the_first_where_time_runs_out(
    seconds: float | None,
) -> None:
    losses = np.arange(12.0)
    lists = AllHypotheses(np.zeros((12, 1)), np.array([0, 4, 5, 12]), losses[:, None], np.ones(1))
    with Deadline(seconds).running():
        better, worse = Pro().sample(lists, losses, np.random.default_rng(1))
    assert len(better) == len(worse) > 0
    assert (lists.numbers[better] == lists.numbers[worse]).all()
    assert 4 not in better.tolist() + worse.tolist()
    assert (max(better.tolist() + worse.tolist()) < 4) == (seconds is not None)


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
    lists = lists_with([0.0, 3.0], [[1.0, 0.0], [0.0, 1.0]])
    walk = Walk(step, lists, SumOfLosses(), np.array([start, -start]))
    for _ in range(visits):
        walk.pass_over(np.array([0]))
    assert walk.average == pytest.approx([average, -average])
    assert walk.updates == (3 if visits > 1 else int(start == 0.0))


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


NAMES = ("grid", "random", "nelder-mead", "cma-es", "tpe")
SMALL = {
    "grid": Grid(points=5),
    "random": RandomSearch(draws=40),
    "nelder-mead": NelderMead(restarts=1, evaluations=60),
    "cma-es": CmaEs(restarts=1),
    "tpe": Tpe(trials=12),
}

some_lists = partial(random_nbest, lists=20, size=6)


@pytest.mark.parametrize("name", NAMES)
def test_any_metric_will_do(name):
    """Also one without a known formula."""
    problem = Problem(some_lists(), Plain(lambda total: sum((value - 30.0) ** 2 for value in total)))
    result = solve(SMALL[name], problem)
    assert result.loss == problem.evaluate(result.weights).loss <= problem.evaluate(np.ones(3)).loss


@pytest.mark.parametrize("name", NAMES)
def test_lists_without_any_choice_need_no_search(name):
    nbest = NBest(np.eye(3), [0, 1, 2, 3], np.array([[1.0, 2.0, 2.0]] * 3))
    for region in (None, Region(nonnegative=True)):
        problem = Problem(nbest, "f1", region=region)
        result = solve(SMALL[name], problem)
        assert result.loss == problem.evaluate(result.weights).loss
        assert problem.inside(result.weights)


@pytest.mark.parametrize("name", ["random", "nelder-mead", "tpe"])
def test_the_start_is_tried(name):
    nbest = some_lists(4, lists=8, size=4)
    best = lpmert.minimize(nbest)
    tiny = {"random": RandomSearch(draws=1), "nelder-mead": NelderMead(restarts=0, evaluations=5), "tpe": Tpe(trials=1)}
    assert solve(tiny[name], Problem(nbest), initial_weights=best.weights).loss == best.loss


def test_grid_finds_the_best_of_its_points():
    problem = Problem(some_lists(7))
    grid = Grid(points=7, ranges=(("feature2", -1.0, 2.0), ("feature3", 0.5, 3.0)))
    losses = {
        (b, c): problem.evaluate([1.0, b, c]).loss for b in np.linspace(-1, 2, 7) for c in np.linspace(0.5, 3.0, 7)
    }
    result = solve(grid, problem)
    assert result.loss == min(losses.values())
    b, c = result.weights[1:] / result.weights[0]
    assert any(abs(b - x) + abs(c - y) < 1e-9 and loss == result.loss for (x, y), loss in losses.items())


def test_grid_is_relative_to_the_reference_and_its_sign():
    problem = Problem(some_lists(5))
    result = solve(Grid(points=4, reference="feature3", negative=True), problem)
    assert result.weights[2] < 0
    with pytest.raises(MethodError, match="'ctc' is not a feature that varies; those are feature1"):
        solve(Grid(reference="ctc"), problem)


def test_grid_does_not_hang_on_the_scale_of_features():
    nbest = some_lists(6)
    scaled = NBest(nbest.features * np.array([1.0, 1000.0, 0.01]), nbest.offsets, nbest.statistics)
    assert solve(Grid(points=6), Problem(nbest)).loss == solve(Grid(points=6), Problem(scaled)).loss


def test_grid_of_too_many_points_is_refused_with_their_number():
    with pytest.raises(MethodError, match="more than 1,000,000 points"):
        solve(Grid(points=30), Problem(some_lists(dimension=6)))


def test_optuna_keeps_its_verbosity():
    import optuna

    before = optuna.logging.get_verbosity()
    solve(Tpe(trials=2), Problem(some_lists()))
    assert optuna.logging.get_verbosity() == before


def test_tpe_without_optuna_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    problem = Problem(some_lists())
    with pytest.raises(MethodError, match=r"lpmert\[tpe\]"):
        Tpe().run(problem, None, 0, Clock(problem))
