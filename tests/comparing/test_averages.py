"""Averages of weights, for lists and lattices, against plain decoding on the sphere of weights."""

import json
from itertools import combinations, pairwise

import numpy as np
import pytest
from commands import json_of
from graph_problems import lists_of_all_ways, real_lattices
from long_searches import with_workers
from oracle import decoded
from problems import random_nbest
from scipy.linalg import sqrtm
from shared import ROOT

import lpmert
from lpmert import DataError, Lattices, Linear, NBest, Problem, Region, core
from lpmert.comparing import averaging
from lpmert.comparing.averaging import AGREEMENT, average_weights
from lpmert.comparing.cross_validation import shares
from lpmert.methods import Averaging, Och
from lpmert.metrics.contract import metric_by_name
from lpmert.model.canonical import CallerWeights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.search.driver import solve
from lpmert.workers import Cluster, Threads, using_workers

NAMES = ("a", "b", "c")
CENTRE = np.array([1.0, 0.5, 0.3])


def random_lists(seed, *, lists=12, size=5, dimension=2, kind="loss"):
    """Features [M, D], offsets and statistics for a sum of losses, F1 or BLEU."""
    found = random_nbest(seed, lists=lists, size=size, dimension=dimension, kind=kind)
    return found.dense_features() * np.array([1.0, 7.0, 0.2, 3.0])[:dimension], found.offsets, found.statistics


def whitening(features, offsets):
    """The matrix from the sphere to weights: one over the deviation within lists, times (C + I / 10)^(-1/2)."""
    centred = np.concatenate([features[a:b] - features[a:b].mean(0) for a, b in pairwise(offsets.tolist())])
    deviation = centred.std(0)
    scaled = centred / deviation
    inverse = np.linalg.inv(np.real(sqrtm(scaled.T @ scaled / len(scaled) + 0.1 * np.eye(len(deviation)))))
    return np.diag(1 / deviation) @ inverse


def energy(metric, statistics, rows):
    """The sum of losses, or S times the loss of a ratio."""
    total = statistics[rows].sum(0)
    return metric.loss(total) * (1 if statistics.shape[1] == 1 else len(rows))


def unit(metric, features, offsets, statistics, weights):
    """The mean |difference| that the choice between two hypotheses of a list makes, by all pairs."""
    rows = decoded(features, offsets, weights)
    means = []
    for s, (begin, end) in enumerate(pairwise(offsets.tolist())):
        costs = [energy(metric, statistics, np.where(np.arange(len(rows)) == s, i, rows)) for i in range(begin, end)]
        means.append(np.mean([abs(a - b) for a in costs for b in costs]))
    return float(np.mean(means))


def mean_on_circle(features, offsets, statistics, metric, temperature, basis, inside=lambda _: True, more=()):
    """The mean direction of weights [2], exact: between any two angles at which a choice can change.

    more: further angles on the sphere at which `inside` may change.
    """
    sphere = features @ basis
    angles = set(more)
    for begin, end in pairwise(offsets.tolist()):
        for one, other in combinations(sphere[begin:end], 2):
            x, y = one - other
            angles |= {float(np.arctan2(x, -y)), float(np.arctan2(-x, y))}
    around = sorted(angles)
    pieces = []
    for a, b in pairwise([*around, around[0] + 2 * np.pi]):
        weights = basis @ np.array([np.cos((a + b) / 2), np.sin((a + b) / 2)])
        if b > a and inside(weights):
            pieces.append((a, b, energy(metric, statistics, decoded(features, offsets, weights))))
    least = min(level for _, _, level in pieces)
    mean = np.zeros(2)
    for a, b, level in pieces:
        mean += np.exp((least - level) / temperature) * np.array([np.sin(b) - np.sin(a), np.cos(a) - np.cos(b)])
    return basis @ mean


def mean_on_sphere(features, offsets, statistics, metric, temperature, basis, inside, points=40_000):
    """The mean direction of weights [3] over points spread evenly (a Fibonacci lattice)."""
    k = np.arange(points) + 0.5
    z, turn = 1 - 2 * k / points, np.pi * (1 + 5**0.5) * k
    flat = np.sqrt(1 - z * z)
    sphere = np.column_stack([flat * np.cos(turn), flat * np.sin(turn), z])
    weights = sphere @ basis.T
    kept = inside(weights.T)
    sphere, weights = sphere[kept], weights[kept]
    rows = np.stack([a + np.argmax(features[a:b] @ weights.T, axis=0) for a, b in pairwise(offsets.tolist())], axis=1)
    levels = np.array([energy(metric, statistics, one) for one in rows])
    return basis @ (np.exp((levels.min() - levels) / temperature)[:, None] * sphere).sum(0)


def cosine(first, second):
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


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
    if seed == 2:  # few values: points that tie in one coordinate, and more than two on one line
        rng, grid = np.random.default_rng(seed), np.stack(np.mgrid[-1:2, -1:2], axis=-1).reshape(-1, 2)
        features[:] = np.concatenate([rng.permutation(grid)[:5] for _ in offsets[1:]])
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
    expected = mean_on_circle(*data, metric, 3 * scale, basis, lambda w: bool(inside(w[:, None])[0]), ends)
    found = problem.to_caller(average.weights)
    assert problem.inside(found, strictly=True)
    assert cosine(found, expected) == pytest.approx(1.0, abs=1e-12 if region is None else 1e-7)


def test_the_method_gives_what_tuning_averages():
    nbest = NBest(*random_lists(3, dimension=3, lists=30), NAMES)
    tuned = lpmert.tune(nbest, quick=True)
    alone = lpmert.minimize(nbest, method=Averaging())
    assert alone.weights == pytest.approx(tuned.averaged.weights, rel=1e-12)
    assert alone.status.name == "HEURISTIC"
    assert json.loads(tuned.to_json())["averaged"]["chains"] == 3


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


def test_the_average_is_the_same_for_all_workers(monkeypatch, local):
    monkeypatch.setattr("lpmert.comparing.averaging._PIECE", 3000)  # units of some 30 steps
    monkeypatch.setattr("lpmert.workers._WORTH_STARTING", 0.0)
    data = random_lists(3, dimension=3, lists=30)
    start = np.array([1.0, 0.2, 0.3])
    alone = fitted(data, "loss", start=start)[2]
    cluster = Cluster(local.scheduler_address.removeprefix("tcp://"))
    for workers in (Threads(1), Threads(3), cluster):
        with workers, with_workers(workers), using_workers("threads", 2):
            found = fitted(data, "loss", start=start)[2]
        assert all(np.array_equal(getattr(alone, name), getattr(found, name)) for name in ("weights", "states"))
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
    more = np.hstack([features, constant])[order], offsets, statistics[order]
    turned, _, other = fitted(more, "loss", start=np.ones(3))
    weights = turned.to_caller(other.weights)
    assert weights[2] == 0.0
    assert cosine(weights[:2], plain.to_caller(average.weights)) == pytest.approx(1.0, abs=1e-12)


def test_chains_go_on_until_they_agree():
    data = random_lists(11, dimension=3, lists=40)
    _, _, short = fitted(data, "loss", start=np.array([-1.0, 0.2, -0.3]), effort=0.02)
    first = 3 * (round(0.02 * (40 + 24)) + round(0.02 * (100 + 45)))
    assert short.steps > first
    assert short.agreement >= AGREEMENT


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("capped", [False, True])
def test_a_step_reaches_exactly_the_angles_within_limits_and_cap(seed, capped):
    rng = np.random.default_rng(seed)
    w, v = np.linalg.qr(rng.normal(size=(4, 2)))[0].T.copy()
    basis, limits = rng.normal(size=(4, 4)), rng.normal(size=(3, 4))
    limits *= np.sign(limits @ w)[:, None]
    middle = basis @ w + 0.3 * rng.normal(size=4)
    middle *= np.sign(middle @ basis @ w) / np.linalg.norm(middle)
    least = 0.6 * cosine(middle, basis @ w)

    def room(weights):
        within = min(limits @ weights)
        return min(within, cosine(middle, basis @ weights) - least) if capped else within

    search = core.line_search(np.ones((4, 2)), np.array([0, 2]), np.zeros(2, dtype=np.int64))  # all cost the same
    region, reached = (limits, basis, middle if capped else np.empty(0), least), []
    for draw in np.linspace(0.0, 1.0, 801):
        weights, path = w.copy(), np.empty((1, 4))
        core.walk(search, region, 1.0, weights, np.zeros(4), np.zeros(1), v[None], np.array([draw]), False, path)
        assert room(path[0]) > -1e-9
        reached.append(np.arctan2(v @ path[0], w @ path[0]))
    within = [t for t in np.linspace(-np.pi, np.pi, 2001) if room(np.cos(t) * w + np.sin(t) * v) > 0]
    assert np.abs(np.subtract.outer(within, reached)).min(axis=1).max() <= 2 * np.pi / 800


def test_lists_without_a_choice_are_left_as_they_are():
    _, _, average = fitted((np.eye(2), np.array([0, 2]), np.ones((2, 1))), "loss", start=np.ones(2))
    assert (average.steps, average.unit) == (0, 0.0)


def test_the_parts_of_a_loss_have_the_variance_of_the_jackknife():
    _, _, statistics = random_lists(2, kind="bleu")
    metric = metric_by_name("bleu")
    lists = statistics[::5]
    left_out = np.array([metric.loss(np.delete(lists, k, axis=0).sum(0)) for k in range(len(lists))])
    expected = (len(lists) - 1) / len(lists) * np.sum((left_out - left_out.mean()) ** 2)
    assert len(lists) * shares(metric, lists, np.arange(len(lists))).var(ddof=1) == pytest.approx(expected)


def drawn(seed, n_lattices=10, width=2):
    return real_lattices(seed, n_lattices, (4, 8), 8, [1.0, 6.0, 0.3][:width])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("region", [None, Region(bounds={"feature1": (0, None)})], ids=["everywhere", "signs"])
def test_in_the_plane_the_average_is_the_exact_mean_over_all_paths(seed, region, monkeypatch):
    monkeypatch.setattr(averaging, "DRAWN", 1000)  # so that what wins somewhere has nearly surely been seen
    monkeypatch.setattr(averaging, "NEAR", 1.0)
    problem = LatticeProblem(drawn(seed), region=region)
    metric, start = metric_by_name("loss"), np.array([1.0, 0.3])
    seen = []

    def on_lists(lists, *settings, **more):
        seen.append(lists.nbest)
        return average_weights(lists, *settings, **more)

    monkeypatch.setattr(averaging, "average_weights", on_lists)
    average = averaging.average_around(problem, problem.to_canonical(CallerWeights(start)), seed=0)
    won = seen[-1].dense_features(), seen[-1].offsets
    basis, scale = whitening(*won), unit(metric, seen[0].dense_features(), seen[0].offsets, seen[0].statistics, start)
    assert average.unit == pytest.approx(scale)
    ends = [float(np.arctan2(*side)) for side in ((-basis[0, 0], basis[0, 1]), (basis[0, 0], -basis[0, 1]))]
    within = {} if region is None else {"inside": lambda weights: weights[0] > 0, "more": ends}
    lists, _ = lists_of_all_ways(drawn(seed), "wer")
    everything = lists.dense_features(), lists.offsets, lists.statistics[:, :1]
    assert lists.n_hypotheses > 2 * len(won[0])
    expected = mean_on_circle(*everything, metric, 3 * scale, basis, **within)
    found = problem.to_caller(average.weights)
    into_sphere = np.linalg.inv(basis)
    assert cosine(into_sphere @ found, into_sphere @ expected) == pytest.approx(1.0, abs=1e-7)
    assert (problem.inside(found, strictly=True), average.complete) == (True, True)


def test_winners_join_until_lists_are_right_where_chains_went(monkeypatch):
    monkeypatch.setattr(averaging, "DRAWN", 1)
    problem = LatticeProblem(drawn(2, n_lattices=20, width=3))
    start = problem.to_canonical(CallerWeights(np.array([1.0, 0.3, 1.0])))
    sizes = []

    def on_lists(lists, *settings, **more):
        sizes.append(lists.nbest.n_hypotheses)
        found = average_weights(lists, *settings, **more)
        for state in found.states[::10]:
            true = problem.decode(lists.to_caller(state)).loss
            wrong.append(abs(true - lists.evaluate(lists.to_caller(state)).loss) / found.temperature)
        return found

    wrong = []
    monkeypatch.setattr(averaging, "average_weights", on_lists)
    average = averaging.average_around(problem, start, seed=0)
    assert average.complete
    assert sizes == sorted(sizes) != sizes[:1]
    rounds = np.array(wrong).reshape(len(sizes), -1).mean(axis=1)
    assert rounds[-1] <= 0.2 < rounds[0]
    monkeypatch.setattr(averaging, "MOST_CATALOGUES", 1)
    assert not averaging.average_around(problem, start, seed=0).complete


def test_lattices_are_tuned_and_what_is_told_is_what_decoding_gives():
    everything = drawn(5, n_lattices=24)
    dev, test = everything.restrict(slice(0, 16)), everything.restrict(slice(16, 24))
    tuned = lpmert.tune(dev, held_out=test, folds=2)
    assert tuned.averaged.loss == lpmert.evaluate(dev, tuned.averaged.weights).loss >= tuned.optimum.loss
    assert tuned.held_out.averaged.value == lpmert.evaluate(test, tuned.averaged.weights).loss
    assert tuned.held_out.optimum.value == lpmert.evaluate(test, tuned.optimum.weights).loss
    assert (tuned.optimum.status.proved, tuned.estimate.folds, tuned.weights.shape) == (True, 2, (2,))


def test_lattices_held_out_are_not_those_tuned_on_and_must_have_the_same_features(caplog):
    everything = drawn(5)
    lpmert.tune(everything, held_out=everything.restrict([1, 4, 7]), quick=True)
    assert [record.getMessage()[:29] for record in caplog.records] == ["warning: 3 of 3 held-out list"]
    with pytest.raises(lpmert.DataError, match="of the same kind"):
        lpmert.tune(drawn(1), held_out=drawn(1, width=3), quick=True)


def test_the_command_takes_lattices_and_writes_weights_that_decode_as_it_says(tmp_path):
    place = tmp_path / "weights.txt"
    given = (ROOT / "examples/speech/lattices", ROOT / "examples/speech/text")
    limits = ("--fix", "acoustic=1", "--bounds", "lm:1..30,words:-20..20")
    told = json_of("tune", given[0], "--references", given[1], *limits, "--quick", "--weights-out", place)
    lattices = lpmert.load_lattices(*given)
    region = Region(fixed={"acoustic": 1}, bounds={"lm": (1, 30), "words": (-20, 20)})
    assert told["optimum"]["lower_bound"] == told["optimum"]["loss"] == lpmert.minimize(lattices, region=region).loss
    assert lpmert.evaluate(lattices, told["averaged"]["weights"]).loss == told["averaged"]["loss"]
    assert told["averaged"]["weights"]["acoustic"] == told["optimum"]["weights"]["acoustic"] == 1.0
    assert lpmert.evaluate(lattices, place).loss == lpmert.evaluate(lattices, told["weights"]).loss


def test_hypergraphs_are_refused_with_the_way_out() -> None:
    graphs = lpmert.Hypergraphs([[1.0], [2.0]], [0, 2], [0, 0], [[], []], [["a"], ["b"]], ["a"])
    with pytest.raises(DataError, match="make N-best lists of them: lpmert convert --n-best"):
        lpmert.tune(graphs)


def test_what_wins_far_from_the_start_counts_neither_for_the_unit_nor_for_the_average():
    """Also without a region: if the first weight changes its sign, three of four lattices lose 100 each."""
    features = np.array([[1.0, 0.0], [0.0, 1.0], *3 * ([1.0, 0.0], [-1.0, 0.0])])
    losses = [0, 2, *3 * (0, 100)]
    lattices = Lattices(features, [0, 2, 4, 6, 8], 8 * [0], 8 * [1], list("abcdefgh"), losses=losses)
    problem = LatticeProblem(lattices, "loss")
    average = averaging.average_around(problem, problem.to_canonical(CallerWeights(np.array([2.0, 1.0]))), seed=0)
    assert (average.unit, average.complete) == (pytest.approx(1.0 / 4), True)  # one list of four has two hypotheses
    weights = problem.to_caller(average.weights)
    assert weights[0] > abs(weights[1])
    assert lpmert.evaluate(lattices, weights.tolist()).loss == 0.0


def test_the_unit_of_temperature_is_that_of_the_region(monkeypatch):
    """Paths with a large loss win only at weights of the other sign, which an average near the start does not reach."""
    features = [[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]
    lattices = Lattices(features, [0, 3], [0, 0, 0], [1, 1, 1], ["a", "b", "c"], losses=[0, 2, 100])
    problem = LatticeProblem(lattices, "loss", Region(nonnegative=True))
    monkeypatch.setattr(averaging, "MOST_CATALOGUES", 1)
    average = averaging.average_around(problem, problem.to_canonical(CallerWeights(np.array([2.0, 1.0]))), seed=0)
    assert average.unit == pytest.approx(1.0)  # of a and b, drawn with replacement
