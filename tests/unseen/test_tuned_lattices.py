"""Averages over all paths of lattices are those of the lists of all paths, and `tune` takes lattices."""

import json
from itertools import pairwise

import numpy as np
import pytest
from commands import finished
from graph_problems import lists_of_all_ways, real_lattices
from shared import ROOT
from slow_reference import cosine, gibbs, mean_on_circle, unit, whitening

import lpmert
from lpmert import DataError, Lattices, Region
from lpmert.metrics.contract import metric_by_name
from lpmert.model.canonical import CallerWeights
from lpmert.model.lattice_problem import LatticeProblem
from lpmert.unseen import averaging
from lpmert.unseen.averaging import Averaging, average_weights


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

    def on_lists(lists, begin, own):
        seen.append(lists.nbest)
        return average_weights(lists, begin, unit=own)

    canonical = problem.to_canonical(CallerWeights(start))
    average = averaging.average_over_paths(problem, canonical, 0, on_lists)
    won = seen[-1].dense_features(), seen[-1].offsets
    basis, scale = whitening(*won), unit(metric, seen[0].dense_features(), seen[0].offsets, seen[0].statistics, start)
    assert average.unit == pytest.approx(scale)
    ends = [float(np.arctan2(*side)) for side in ((-basis[0, 0], basis[0, 1]), (basis[0, 0], -basis[0, 1]))]

    def inside(weights):
        return region is None or weights[0] > 0

    lists, _ = lists_of_all_ways(drawn(seed), "wer")
    everything = lists.dense_features(), lists.offsets, lists.statistics[:, :1]
    assert lists.n_hypotheses > 2 * len(won[0])
    expected = mean_on_circle(*everything, metric, gibbs(3 * scale), basis, inside, [] if region is None else ends)
    found = problem.to_caller(average.weights)
    into_sphere = np.linalg.inv(basis)
    assert cosine(into_sphere @ found, into_sphere @ expected) == pytest.approx(1.0, abs=1e-7)
    assert problem.inside(found, strictly=True)
    assert average.complete
    assert np.array_equal(average.weights, average_on(problem, canonical).weights)


def average_on(problem, start):
    return Averaging().average(problem, start, seed=0)


def test_winners_join_until_lists_are_right_where_chains_went(monkeypatch):
    monkeypatch.setattr(averaging, "DRAWN", 1)
    problem = LatticeProblem(drawn(2, n_lattices=20, width=3))
    start = problem.to_canonical(CallerWeights(np.array([1.0, 0.3, 1.0])))
    sizes = []

    def on_lists(lists, begin, own):
        sizes.append(lists.nbest.n_hypotheses)
        found = average_weights(lists, begin, unit=own)
        for state in found.states[::10]:
            true = problem.decode(lists.to_caller(state)).loss
            wrong.append(abs(true - lists.evaluate(lists.to_caller(state)).loss) / found.temperature)
        return found

    wrong = []
    average = averaging.average_over_paths(problem, start, 0, on_lists)
    assert average.complete
    assert sizes == sorted(sizes)
    assert len(sizes) > 1
    rounds = np.array(wrong).reshape(len(sizes), -1).mean(axis=1)
    assert rounds[-1] <= 0.2 < rounds[0]
    monkeypatch.setattr(averaging, "MOST_CATALOGUES", 1)
    assert not averaging.average_over_paths(problem, start, 0, on_lists).complete


def test_lattices_are_tuned_and_what_is_told_is_what_decoding_gives():
    everything = drawn(5, n_lattices=24)
    dev, test = everything.restrict(slice(0, 16)), everything.restrict(slice(16, 24))
    tuned = lpmert.tune(dev, held_out=test, folds=2)
    assert tuned.optimum.status.proved
    assert tuned.averaged.loss == lpmert.evaluate(dev, tuned.averaged.weights).loss >= tuned.optimum.loss
    assert tuned.held_out.averaged.value == lpmert.evaluate(test, tuned.averaged.weights).loss
    assert tuned.held_out.optimum.value == lpmert.evaluate(test, tuned.optimum.weights).loss
    assert tuned.estimate.folds == 2
    assert tuned.weights.shape == (2,)


def test_some_lattices_are_what_they_were():
    lattices = drawn(3)
    some = lattices.restrict([4, 1])
    assert some.list_ids == (lattices.list_ids[4], lattices.list_ids[1])
    weights = [1.0, -0.2]
    both = [LatticeProblem(one).decode(CallerWeights(np.array(weights))).winners for one in (lattices, some)]
    for place, number in enumerate((4, 1)):
        own, other = LatticeProblem(some), LatticeProblem(lattices)
        assert own.text(place, both[1][place].ways[0]) == other.text(number, both[0][number].ways[0])
    for first, second in pairwise(some.offsets.tolist()):
        assert second > first
    with pytest.raises(lpmert.DataError, match="cannot choose these of 10 lattices"):
        lattices.restrict([11])


def test_what_is_held_out_must_be_alike():
    with pytest.raises(lpmert.DataError, match="of the same kind"):
        lpmert.tune(drawn(1), held_out=drawn(1, width=3), quick=True)


def test_the_command_takes_lattices_and_writes_weights_that_decode_as_it_says(tmp_path):
    place = tmp_path / "weights.txt"
    code, out, log = finished(
        *("tune", "examples/speech/lattices", "--references", "examples/speech/text", "--fix", "acoustic=1"),
        *("--bounds", "lm:1..30,words:-20..20", "--quick", "--json", "-q", "--weights-out", place),
        cwd=ROOT,
    )
    assert code == 0, log
    told = json.loads(out)
    lattices = lpmert.load_lattices(ROOT / "examples/speech/lattices", ROOT / "examples/speech/text")
    region = Region(fixed={"acoustic": 1}, bounds={"lm": (1, 30), "words": (-20, 20)})
    assert told["optimum"]["lower_bound"] == told["optimum"]["loss"] == lpmert.minimize(lattices, region=region).loss
    assert lpmert.evaluate(lattices, told["averaged"]["weights"]).loss == told["averaged"]["loss"]
    assert told["averaged"]["weights"]["acoustic"] == told["optimum"]["weights"]["acoustic"] == 1.0
    assert lpmert.evaluate(lattices, place).loss == lpmert.evaluate(lattices, told["weights"]).loss


def test_hypergraphs_are_refused_with_the_way_out() -> None:
    graphs = lpmert.Hypergraphs([[1.0], [2.0]], [0, 2], [0, 0], [[], []], [["a"], ["b"]], ["a"])
    with pytest.raises(DataError, match="make N-best lists of them: lpmert convert --n-best"):
        lpmert.tune(graphs)


def test_the_unit_of_temperature_is_that_of_the_region(monkeypatch):
    """What loses much wins at weights of the other sign only: an average near the start does not count it."""
    features = [[x, y] for x, y in ([1.0, 0.0], [0.0, 1.0], [-1.0, -1.0])]
    lattices = Lattices(features, [0, 3], [0, 0, 0], [1, 1, 1], ["a", "b", "c"], losses=[0, 2, 100])
    problem = LatticeProblem(lattices, "loss", Region(nonnegative=True))
    monkeypatch.setattr(averaging, "MOST_CATALOGUES", 1)
    start = problem.to_canonical(CallerWeights(np.array([2.0, 1.0])))
    average = average_on(problem, start)
    assert average.unit == pytest.approx(1.0)  # of a and b, drawn with replacement


def test_what_wins_far_from_the_start_counts_neither_for_the_unit_nor_for_the_average():
    """Without a region, too: where the first weight changes its sign three lattices of four lose 100 each."""
    features = np.array([[1.0, 0.0], [0.0, 1.0], *3 * ([1.0, 0.0], [-1.0, 0.0])])
    losses = [0, 2, *3 * (0, 100)]
    lattices = Lattices(features, [0, 2, 4, 6, 8], 8 * [0], 8 * [1], list("abcdefgh"), losses=losses)
    problem = LatticeProblem(lattices, "loss")
    average = average_on(problem, problem.to_canonical(CallerWeights(np.array([2.0, 1.0]))))
    assert average.unit == pytest.approx(1.0 / 4)  # one list of four has two hypotheses
    assert average.complete
    weights = problem.to_caller(average.weights)
    assert weights[0] > abs(weights[1])
    assert lpmert.evaluate(lattices, weights.tolist()).loss == 0.0
