"""Averages of weights: exact in the plane and on great circles, near the mean beyond it, the same for any jobs."""

import json
from itertools import pairwise
from math import inf

import numpy as np
import pytest
from long_searches import with_workers
from oracle import decoded
from slow_reference import cosine, energy, gibbs, mean_on_circle, mean_on_sphere, random_lists, unit, whitening

import lpmert
from lpmert import core
from lpmert.lines.line_search import lists_with_costs
from lpmert.methods.heuristic.och import Och
from lpmert.metrics.contract import metric_by_name
from lpmert.model.canonical import CallerWeights
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.model.region import Linear, Region
from lpmert.search.driver import solve
from lpmert.unseen.averaging import AGREEMENT, Averaging, average_weights
from lpmert.unseen.estimate import shares
from lpmert.workers import Threads, using_workers

NAMES = ("a", "b", "c")
CENTRE = np.array([1.0, 0.5, 0.3])


def in_cap(w):
    centre = CENTRE[: len(w)]
    return centre @ w / np.linalg.norm(centre) / np.linalg.norm(w, axis=0) > 0.9


REGIONS = {
    "everywhere": (lambda _: None, lambda w: np.ones(w.shape[1], dtype=bool)),
    "signs": (lambda _: Region(bounds={"a": (0, None)}), lambda w: w[0] > 0),
    "linear": (
        lambda _: Region(linear=(Linear({"a": 1.0, "b": 2.0}, 0.0, None), Linear({"a": 3.0, "b": -1.0}, 0.0, None))),
        lambda w: (w[0] + 2 * w[1] > 0) & (3 * w[0] - w[1] > 0),
    ),
    "cosine": (lambda width: Region(cosine=0.9, around=dict(zip(NAMES, CENTRE[:width], strict=False))), in_cap),
}
"""A region of so many features, and whether weights [D, n] lie in it, in the words of its definition."""


def fitted(data, kind, region=None, start=None, **settings):
    """The problem, the start and the averaged weights of the caller."""
    features, offsets, statistics = data
    problem = Problem(NBest(features, offsets, statistics, NAMES[: features.shape[1]]), kind, region=region)
    first = solve(Och(), problem).weights if start is None else start
    average = average_weights(problem, problem.to_canonical(CallerWeights(first)), **settings)
    return problem, first, average


@pytest.mark.parametrize("kind", ["loss", "f1", "bleu"])
@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.parametrize("seed", range(3))
def test_in_the_plane_the_average_is_the_exact_mean(kind, name, seed):
    data = features, offsets, statistics = random_lists(seed, kind=kind)
    region, inside = REGIONS[name][0](2), REGIONS[name][1]
    problem, start, average = fitted(data, kind, region, effort=0.1)
    metric, basis = metric_by_name(kind), whitening(features, offsets)
    scale = unit(metric, features, offsets, statistics, start)
    assert average.unit == pytest.approx(scale, rel=1e-9)
    ends = []
    if region is not None:  # where the region ends on the sphere: found by walking round it
        turns = np.linspace(-np.pi, np.pi, 200_001)
        within = inside(basis @ np.array([np.cos(turns), np.sin(turns)]))
        ends = [turns[k : k + 2].mean() for k in np.flatnonzero(within[1:] != within[:-1])]
    expected = mean_on_circle(
        features,
        offsets,
        statistics,
        metric,
        gibbs(3 * scale),
        basis,
        lambda w: bool(inside(w[:, None])[0]),
        ends,
    )
    found = problem.to_caller(average.weights)
    assert problem.inside(found, strictly=True)
    assert cosine(found / np.linalg.norm(basis), expected / np.linalg.norm(basis)) == pytest.approx(
        1.0, abs=1e-12 if region is None else 1e-7
    )


@pytest.mark.parametrize("kind", ["loss", "f1", "bleu"])
@pytest.mark.parametrize(("temperature", "within"), [(10.0, None), (inf, 1.5), (2.0, 0.7)])
def test_in_the_plane_other_averages_are_exact_too(kind, temperature, within):
    data = features, offsets, statistics = random_lists(4, kind=kind)
    metric, basis = metric_by_name(kind), whitening(features, offsets)
    problem, start, average = fitted(
        data, kind, temperature=temperature, within=inf if within is None else within, effort=0.1
    )
    scale = unit(metric, features, offsets, statistics, start)
    most = inf
    if within is not None:
        most = energy(metric, statistics, decoded(features, offsets, start)) + within * scale

    def density(level, least):
        return 0.0 if level > most else np.exp((least - level) / (temperature * scale))

    expected = mean_on_circle(features, offsets, statistics, metric, density, basis)
    found = problem.to_caller(average.weights)
    assert cosine(found / np.linalg.norm(basis), expected / np.linalg.norm(basis)) == pytest.approx(1.0, abs=1e-12)
    plain = problem.to_caller(fitted(data, kind, effort=0.1)[2].weights)
    assert cosine(found, plain) < 1 - 1e-9


def test_the_method_gives_what_tuning_averages():
    nbest = NBest(*random_lists(3, dimension=3, lists=30), NAMES)
    for averaging in (Averaging(), Averaging(temperature=inf, within=3.0), Averaging(temperature=10.0)):
        tuned = lpmert.tune(nbest, quick=True, averaging=averaging)
        alone = lpmert.minimize(nbest, method=averaging)
        assert alone.weights == pytest.approx(tuned.averaged.weights, rel=1e-12)
        assert alone.status.name == "HEURISTIC"
        assert averaging.settings() in tuned.signature
        assert json.loads(tuned.to_json())["averaged"]["chains"] == 3


def test_an_infinite_temperature_needs_an_end():
    with pytest.raises(lpmert.MethodError, match="set within, too"):
        Averaging(temperature=inf)


@pytest.mark.parametrize("kind", ["loss", "bleu"])
@pytest.mark.parametrize("name", REGIONS)
def test_in_space_the_average_comes_near_the_mean_of_decoding_everywhere(kind, name):
    data = features, offsets, statistics = random_lists(7, kind=kind, dimension=3)
    problem, start, average = fitted(data, kind, REGIONS[name][0](3), effort=10)
    metric, basis = metric_by_name(kind), whitening(features, offsets)
    temperature = 3 * unit(metric, features, offsets, statistics, start)
    expected = mean_on_sphere(features, offsets, statistics, metric, temperature, basis, REGIONS[name][1])
    found = problem.to_caller(average.weights)
    assert problem.inside(found, strictly=True)
    assert average.agreement > 0.99
    into_sphere = np.linalg.inv(basis)
    assert cosine(into_sphere @ found, into_sphere @ expected) > 0.999


def test_whoever_walks_the_chains_changes_nothing(monkeypatch, cluster):
    monkeypatch.setattr("lpmert.unseen.averaging._PIECE", 3000)  # units of some 30 steps
    monkeypatch.setattr("lpmert.workers._WORTH_STARTING", 0.0)
    data = random_lists(3, dimension=3, lists=30)
    start = np.array([1.0, 0.2, 0.3])
    alone = fitted(data, "loss", start=start)[2]
    for hands in (Threads(1), Threads(3), cluster):
        with with_workers(hands), using_workers("threads", 2):
            found = fitted(data, "loss", start=start)[2]
        assert np.array_equal(alone.weights, found.weights)
        assert np.array_equal(alone.states, found.states)
        assert (alone.agreement, alone.steps) == (found.agreement, found.steps)


@pytest.mark.parametrize("kind", ["loss", "bleu"])
def test_the_average_follows_the_scale_of_features(kind):
    features, offsets, statistics = random_lists(5, dimension=3, lists=30, kind=kind)
    factors = np.array([3.7, 0.011, 290.0])
    start = np.array([1.0, 0.2, 0.3])
    problem, _, average = fitted((features, offsets, statistics), kind, start=start)
    other, _, scaled = fitted((features * factors, offsets, statistics), kind, start=start / factors)
    found = problem.to_caller(average.weights)
    assert cosine(found, other.to_caller(scaled.weights) * factors) > 0.999


def test_neither_the_order_of_lists_nor_constant_columns_matter():
    features, offsets, statistics = random_lists(5, dimension=2, lists=20)
    plain, _, average = fitted((features, offsets, statistics), "loss", start=np.ones(2))
    order = np.concatenate([np.arange(a, b) for a, b in reversed(list(pairwise(offsets.tolist())))])
    constant = np.repeat(np.arange(20.0), 5)[:, None]
    turned, _, other = fitted(
        (np.hstack([features, constant])[order], offsets, statistics[order]), "loss", start=np.ones(3)
    )
    weights = turned.to_caller(other.weights)
    assert weights[2] == 0.0
    assert cosine(weights[:2], plain.to_caller(average.weights)) == pytest.approx(1.0, abs=1e-12)


def test_chains_go_on_until_they_agree():
    data = random_lists(11, dimension=3, lists=40)
    _, _, short = fitted(data, "loss", start=np.array([-1.0, 0.2, -0.3]), effort=0.02)
    first = 3 * (round(0.02 * (40 + 24)) + round(0.02 * (100 + 45)))
    assert short.steps > first
    assert short.agreement >= AGREEMENT


def test_lists_without_a_choice_are_left_as_they_are():
    _, _, average = fitted((np.eye(2), np.array([0, 2]), np.ones((2, 1))), "loss", start=np.ones(2))
    assert average.steps == 0
    assert average.unit == 0.0


def test_the_parts_of_a_loss_have_the_variance_of_the_jackknife():
    _, _, statistics = random_lists(2, kind="bleu")
    metric = metric_by_name("bleu")
    lists = statistics[::5]
    left_out = np.array([metric.loss(np.delete(lists, k, axis=0).sum(0)) for k in range(len(lists))])
    expected = (len(lists) - 1) / len(lists) * np.sum((left_out - left_out.mean()) ** 2)
    assert len(lists) * shares(metric, lists).var(ddof=1) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(12))
def test_points_that_tie_in_one_coordinate_or_in_both_win_where_decoding_says(seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 9, 6))])
    # few values, both zeros, points on one line and equal ones: corners have to be told from what lies on a side
    features = rng.integers(-2, 3, (offsets[-1], 2)) * rng.choice([-1.0, 1.0], (offsets[-1], 2))
    features[offsets[1] : offsets[2]] *= [1.0, 0.0]
    search = lists_with_costs(features, offsets, 1 << np.arange(offsets[-1]))
    begins, ends, levels = core.find_pieces(search, *np.eye(2), -np.pi, np.pi).T
    assert np.sum(ends - begins) == pytest.approx(2 * np.pi)
    for t in rng.uniform(-np.pi, np.pi, 200):
        (piece,) = np.flatnonzero((begins < t) & (t < ends))
        scores = features @ [np.cos(t), np.sin(t)]
        chosen = {int(row) for row in np.flatnonzero([int(levels[piece]) >> k & 1 for k in range(len(scores))])}
        for begin, end in pairwise(offsets):
            own = [row for row in chosen if begin <= row < end]
            assert len(own) == 1
            assert scores[own[0]] == scores[begin:end].max()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("capped", [False, True])
def test_an_arc_holds_exactly_the_angles_within_limits_and_cap(seed, capped):
    rng = np.random.default_rng(seed)
    w, v = np.linalg.qr(rng.normal(size=(4, 2)))[0].T.copy()
    basis = rng.normal(size=(4, 4))
    limits = rng.normal(size=(3, 4))
    limits *= np.sign(limits @ w)[:, None]
    middle = basis @ w + 0.3 * rng.normal(size=4)
    middle /= np.linalg.norm(middle)
    cosine = 0.6 * float(middle @ (basis @ w)) / float(np.linalg.norm(basis @ w))
    if cosine <= 0:
        middle, cosine = -middle, -cosine
    unit = middle if capped else np.empty(0)
    low, high = core.arc_within((limits, basis, unit, cosine), w, v)
    for t in np.linspace(-np.pi, np.pi, 2001):
        if min(abs(t - low), abs(t - high)) < 1e-6:
            continue
        x = np.cos(t) * w + np.sin(t) * v
        given = basis @ x
        within = bool((limits @ x > 0).all())
        if capped:
            within = within and float(middle @ given) >= cosine * float(np.linalg.norm(given))
        assert within == (low < t < high)
