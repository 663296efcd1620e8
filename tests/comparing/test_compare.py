"""Comparisons of methods and weights, on lists and lattices, and by cross-validation; significance; the command."""

import json
import sys
import threading
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import commands
import numpy as np
import pytest
from commands import json_of
from graph_problems import Drawn, DrawnHypergraphs
from late import Late
from problems import changed_in, noise, random_nbest
from searches import timeless

import lpmert
from lpmert import DataError, Lattices, Limits, MethodError, NBest, Problem, Region, Status, minimize
from lpmert.comparing.compare import permutation_test
from lpmert.comparing.comparison import OPTIMUM
from lpmert.comparing.cross_validation import Split, corrected_test, folds_of, interval_of
from lpmert.methods import Averaging, Grid, Likelihood, Mira, NelderMead, Och, Pro, RandomSearch, Stabilised, Tpe
from lpmert.metrics import SumOfLosses
from lpmert.metrics.contract import metric_by_name
from lpmert.metrics.text import TEXT_METRICS
from lpmert.quoting import visible
from lpmert.registry import METHODS
from lpmert.reporting.tables import compared_notes, compared_tables
from lpmert.search.method import Comparator, Found

stats = Late("scipy.stats")

FAST = {"och": Och(restarts=2), "random": RandomSearch(draws=20), "grid": Grid(points=4)}
run = partial(commands.run, "compare")
succeeded = partial(commands.succeeded, "compare")
COLUMNS = ["--segment", "list", "--features", "feature1,feature2,feature3", "--loss", "loss"]
OF_PATHS: dict[str, Any] = {
    "och": Och(restarts=1),
    "random": RandomSearch(draws=15),
    "nelder-mead": NelderMead(restarts=0, evaluations=15),
    "average": Averaging(),
}
FITTED = {"och": Och(restarts=1), "grid": Grid(points=3), "average": Averaging()}
FEW_NODES = Limits(node_limit=20)


@pytest.mark.parametrize("kind", ["loss", "f1"])
def test_each_run_has_the_loss_that_decoding_gives(kind):
    nbest, held_out = random_nbest(1, kind=kind), random_nbest(2, kind=kind)
    here, there = Problem(nbest, kind), Problem(held_out, kind)
    given = {"given": [1, 2, -1]}
    found = lpmert.compare(nbest, FAST, metric=kind, seeds=3, held_out=held_out, weights=given, optimum=None)
    assert [entry.name for entry in found.methods] == ["och", "random", "grid", "given"]
    assert [len(entry.runs) for entry in found.methods] == [3, 3, 1, 1]
    for entry in found.methods:
        for run in entry.runs:
            assert (run.loss, run.score) == (here.evaluate(run.weights).loss, here.evaluate(run.weights).score)
            assert run.held_out_loss == there.evaluate(run.weights).loss
    (run,) = found["given"].runs
    assert (run.weights.tolist(), run.status) == ([1, 2, -1], None)


def test_no_comparator_is_below_the_proved_optimum_whatever_ties_there_are():
    quick = {"nelder-mead": NelderMead(restarts=0, evaluations=50), "tpe": Tpe(trials=5), "mira": Mira(), "pro": Pro()}
    known = quick | FAST
    named = {name: known.get(name, name) for name in METHODS.own if not METHODS.find(name).proves}
    for seed in range(3):
        found = lpmert.compare(random_nbest(seed, lists=6, integers=True), named, seeds=1)
        assert found.proved
        for entry in found.methods:
            assert all(found.excess(run) >= 0 for run in entry.runs), entry.name


def test_weights_that_win_by_ties_are_marked():
    nbest = NBest([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [0, 2, 4], [0.0, 1.0, 0.0, 1.0])
    found = lpmert.compare(nbest, {"och": FAST["och"]}, seeds=1, weights={"tied": [1, 1]})
    assert (found.optimum.loss, found["och"].best.loss, found["tied"].best.loss) == (1.0, 1.0, 0.0)
    assert compared_notes(found) == ["tied: below the optimum only by ties, in 2 lists"]


def test_methods_are_named_after_their_settings_and_run_once_if_nothing_is_random():
    named = ["grid", Grid(points=3), "likelihood", "choices", Och(restarts=1)]
    found = lpmert.compare(random_nbest(), named, seeds=2, optimum=None)
    assert [(entry.name, len(entry.runs), entry.runs[0].seed) for entry in found.methods] == [
        *((name, 1, None) for name in ("grid", "grid(points=3)", "likelihood", "choices")), ("och(restarts=1)", 2, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(("arguments", "error", "text"), [
    ({"methods": ["och", "simulated"]}, MethodError, "no method 'simulated'"),
    ({"methods": ["grid", "grid"]}, MethodError, "'grid' is compared twice"),
    ({"methods": []}, MethodError, "at least one"),
    ({"weights": {"moses": [1, 2]}}, DataError, "moses: weights need one number for each of the 3 features"),
    ({"seeds": 0}, MethodError, "seeds"),
    ({"jobs": 0}, MethodError, "jobs"),
    ({"held_out": random_nbest(kind="f1")}, DataError, "held-out lists have statistics"),
    ({"held_out": random_nbest(dimension=2)}, DataError, "no feature 'feature3'"),
    ({"optimum": minimize(random_nbest(9))}, MethodError, "a method must be one of"),
    ({"optimum": "best"}, MethodError, "no method 'best'"),
    ({"methods": {"x": Stabilised(earlier=[])}, "cv": 2}, MethodError, "continues from what earlier runs left"),
    ({"methods": {"optimum": Och()}, "cv": 2}, MethodError, "name of the optimum"),
    ({"cv": 1}, MethodError, "cv"),
    ({"cv": 2, "repeat": 0}, MethodError, "repeat"),
    ({"cv": 2, "groups": [1, 2]}, DataError, "one entry for each of the 12 lists; got 2"),
    ({"cv": 2, "groups": ["same"] * 12}, DataError, "needs two lists, or groups"),
])  # fmt: skip
def test_invalid_arguments_of_a_comparison_are_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        lpmert.compare(random_nbest(), **{"methods": {"grid": FAST["grid"]}, **arguments})


@pytest.mark.parametrize(("kind", "methods", "optimum", "said"), [
    ("f1", ["och", "mip"], None, "'mip' needs an additive loss"),
    ("f1", ["och"], "mip", "'mip' needs an additive loss"),
    ("wer", ["och", "grid"], None, r"'grid' needs N-best lists: .* by auto, cells, och, .*nelder-mead"),
    ("wer", ["och"], "mip", "'mip' needs N-best lists"),
])  # fmt: skip
def test_a_method_that_does_not_fit_is_refused_before_the_first_run(kind, methods, optimum, said):
    data, seen = drawn(6) if kind == "wer" else random_nbest(kind=kind), []
    with pytest.raises(MethodError, match=said):
        lpmert.compare(data, methods, metric=kind, seeds=1, optimum=optimum, on_run=lambda *run: seen.append(run))
    assert not seen


def test_without_a_proof_the_distance_is_to_the_bound():
    nbest = random_nbest(lists=60, size=20, dimension=6)
    found = lpmert.compare(nbest, {"grid": FAST["grid"]}, optimum="choices", optimum_limits=Limits(node_limit=10))
    assert not found.proved
    assert found.lower_bound <= found.optimum.loss <= found["grid"].best.loss
    assert found.excess(found["grid"].best) == found["grid"].best.loss - found.lower_bound


def test_a_true_answer_stops_the_comparison_with_the_runs_so_far():
    seen = []

    def stop(name, run):
        seen.append((name, run.seed))
        return len(seen) == 3

    found = lpmert.compare(random_nbest(), FAST, seeds=2, on_run=stop)
    assert seen == [("och", 0), ("och", 1), ("random", 0)]
    assert (found.complete, found.optimum, [len(entry.runs) for entry in found.methods]) == (False, None, [2, 1])


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_leaves_the_runs_so_far(jobs):
    def press(name, _):
        if name == "random":
            raise KeyboardInterrupt

    found = lpmert.compare(random_nbest(), FAST, seeds=1, on_run=press, jobs=jobs)
    assert (found.complete, found["och"].best.loss > 0) == (False, True)


@dataclass(frozen=True)
class Pressed(Comparator):
    """A method during whose second run Ctrl-C is pressed."""

    name = "pressed"

    def run(self, problem, _start, seed, _clock):
        if seed:
            raise KeyboardInterrupt
        return Found(np.ones(problem.canonical.n_features))


def test_a_run_that_is_cut_short_does_not_count_beside_whole_ones():
    found = lpmert.compare(random_nbest(), {"pressed": Pressed(), "grid": FAST["grid"]}, seeds=3)
    assert (found.complete, [run.status for run in found["pressed"].runs]) == (False, [Status.HEURISTIC])
    alone = lpmert.compare(random_nbest(), {"pressed": Pressed()}, seeds=1, seed=1)
    assert [run.status for run in alone["pressed"].runs] == [Status.INTERRUPTED]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody may know")
def test_the_memory_of_runs_counts_wherever_they_run(caplog, fresh_memory):
    first, enough = threading.Event(), threading.Event()

    def hungry(_, seed):
        """Hold much in the second run after the first, until told that that is enough."""
        if seed:
            first.wait(600.0)
            block = np.ones((600 << 20) // 8)
            enough.wait(600.0)
            assert block.all()
        return [1.0, 2.0, 3.0]

    settings = {"seeds": 2, "jobs": 2, "memory_limit": fresh_memory + (500 << 20), "optimum": None}
    found = lpmert.compare(random_nbest(), [], callables={"hungry": hungry}, **settings, on_run=lambda *_: first.set())
    enough.set()  # or else its thread would keep the process
    assert (found.complete, [run.seed for run in found["hungry"].runs]) == (False, [0])
    assert "the memory limit is near; the runs so far are compared" in caplog.text


def test_time_limits_are_for_single_runs_and_one_that_the_memory_limit_may_have_cut_short_does_not_count():
    found = lpmert.compare(random_nbest(), FAST, seeds=1, memory_limit=1)
    assert (found.complete, found.methods) == (False, ())
    found = lpmert.compare(random_nbest(), {"och": Och(restarts=10**6)}, seeds=2, time_limit=0.05, optimum=None)
    assert [run.status for run in found["och"].runs] == [Status.TIME_LIMIT] * 2


def test_the_region_holds_for_methods_and_is_told_of_given_weights():
    region = Region(nonnegative=True)
    weights = {"inside": [1, 2, 3], "outside": [1, 2, -3]}
    found = lpmert.compare(random_nbest(5), FAST, seeds=1, region=region, weights=weights)
    assert [entry.name for entry in found.methods if not entry.best.inside] == ["outside"]
    assert found.optimum.weights.min() >= 0


def test_initial_weights_start_the_methods_but_not_the_fits_of_folds():
    nbest, och = random_nbest(6), {"och": Och(restarts=0)}
    best = minimize(nbest)
    found = lpmert.compare(nbest, och, seeds=1, initial_weights=best.weights)
    assert found["och"].best.loss == best.loss
    plain, started = (fold_by_fold(noise(3), och, initial_weights=start) for start in (None, [-1.0, 5.0]))
    assert np.array_equal(plain["och"], started["och"])


def test_held_out_features_are_put_in_order():
    nbest, other = random_nbest(1), random_nbest(2)
    swapped = other.select_features(["feature3", "feature1", "feature2"])
    first, second = (lpmert.compare(nbest, FAST, seeds=1, held_out=one, optimum=None) for one in (other, swapped))
    assert first["och"].held_out_losses == second["och"].held_out_losses


def exact_p_value(metric, first, second):
    observed = abs(metric.loss(first.sum(0)) - metric.loss(second.sum(0)))
    extreme = 0
    for swaps in product([False, True], repeat=len(first)):
        mask = np.array(swaps)[:, None]
        one, other = np.where(mask, second, first).sum(0), np.where(mask, first, second).sum(0)
        extreme += abs(metric.loss(one) - metric.loss(other)) >= observed - 1e-12
    return extreme / 2 ** len(first)


@pytest.mark.parametrize("kind", ["loss", "f1"])
def test_permutation_test_comes_near_the_exact_p_value(kind):
    metric = metric_by_name(kind)
    for seed in range(4):
        nbest = random_nbest(seed, lists=10, kind=kind)
        first, second = nbest.statistics[nbest.offsets[:-1]], nbest.statistics[nbest.offsets[:-1] + 1]
        estimate = permutation_test(metric, first, second, replications=20_000)
        assert estimate == pytest.approx(exact_p_value(metric, first, second), abs=0.015)


def test_no_p_value_is_shown_as_zero():
    found = lpmert.compare(random_nbest(1), ["och", "grid"], seeds=1, optimum=None)
    for p_value, shown in ((1e-9, "<0.001"), (0.0006, "0.001"), (1.0, "1.000")):
        methods = (found.methods[0], replace(found.methods[1], p_value=p_value))
        assert compared_tables(replace(found, methods=methods))[0].rows[1][-2] == shown


def test_equal_choices_differ_by_chance_alone_and_statistics_of_other_lists_are_refused():
    statistics = np.random.default_rng(0).integers(0, 9, (30, 1)).astype(float)
    assert permutation_test(SumOfLosses(), statistics, statistics) == 1.0
    with pytest.raises(DataError, match="same lists"):
        permutation_test(SumOfLosses(), np.zeros((3, 1)), np.zeros((4, 1)))


@pytest.mark.parametrize("apart", [False, True])
def test_p_values_are_those_of_the_best_runs_on_held_out_lists_if_there_are_any(apart):
    nbest, held_out = random_nbest(7, lists=40), random_nbest(8, lists=40)
    found = lpmert.compare(nbest, FAST, seeds=2, held_out=held_out if apart else None, optimum=None)
    first, judged = found.methods[0].best, held_out if apart else nbest
    assert found.methods[0].p_value is None
    for entry in found.methods[1:]:
        one, two = (
            judged.statistics[judged.offsets[:-1] + lpmert.evaluate(judged, run.weights).selection]
            for run in (first, entry.best)
        )
        assert entry.p_value == permutation_test(SumOfLosses(), one, two)


def test_the_command_prints_a_table_with_distances_and_held_out_losses(tmp_path):
    dev, test = tmp_path / "dev.tsv", tmp_path / "test.tsv"
    lpmert.write(random_nbest(1), dev)
    lpmert.write(random_nbest(2), test)
    (tmp_path / "moses.txt").write_text("0.5 0.25 -0.25\n")
    moses = ("--weights", f"moses={tmp_path / 'moses.txt'}")
    found = succeeded(dev, *COLUMNS, "--methods", "och,grid", "--seeds", 2, "--held-out", test, *moses)
    lines = found.stdout.splitlines()
    assert lines[-1] == f"optimum: loss {minimize(random_nbest(1)).loss:g}, proved"
    assert " ".join(lines[0].split()) == "loss runs mean best Delta S to optimum held out p time"
    given = next(line for line in lines if line.startswith("moses")).split()
    losses = [lpmert.evaluate(random_nbest(seed), [0.5, 0.25, -0.25]).loss for seed in (1, 2)]
    assert [float(given[3]), float(given[7])] == losses
    assert "och, seed 1: loss" in found.stderr


def test_the_command_writes_json_that_says_the_same_as_the_library(tmp_path):
    nbest, data = random_nbest(1), [tmp_path / "dev.tsv", *COLUMNS]
    lpmert.write(nbest, data[0])
    found = run(*data, "--methods", "och,random", "--seeds", 2, "-q", "-o", tmp_path / "c.json")
    assert (found.exit_code, found.stdout, found.stderr) == (0, "", "")
    written = json.loads((tmp_path / "c.json").read_text())
    known = lpmert.compare(lpmert.read(data[0]), ["och", "random"], seeds=2)
    assert timeless(written) == timeless(json.loads(known.to_json()))


@pytest.mark.parametrize("name", ["a\x1b[31mb", "a\nb", "a\x07b", "\u202eb"])
def test_names_of_weights_are_escaped_for_terminals(tmp_path: Path, name: str) -> None:
    lpmert.write(lpmert.NBest([[1, 0], [0, 1]], [0, 2], [0, 1], names=["a", "b"]), tmp_path / "x.npz")
    arguments = ["--methods", "och", "--seeds", "1", "--weights", f"{name}=1,1"]
    outcome = succeeded(tmp_path / "x.npz", *arguments)
    assert f"\n{visible(name)}: 1 lists are tied at its best weights" in outcome.stdout
    assert f"{visible(name)}: accuracy 100.00% (0 wrong), " in outcome.stderr
    assert name not in outcome.stdout + outcome.stderr


def drawn(seed: int, n_lattices: int = 6) -> Lattices:
    """Small lattices with features in general position, so that no two paths tie."""
    found = Drawn(seed, "integers", n_lattices, 3)
    while not found.searchable:
        seed += 1000
        found = Drawn(seed, "integers", n_lattices, 3)
    found.features = np.random.default_rng(seed).normal(size=found.features.shape)
    found.references = [reference or "a b" for reference in found.references]
    return found.lattices()


@pytest.mark.parametrize("metric", ["wer", "bleu"])
def test_runs_on_lattices_are_judged_over_all_paths(metric: str) -> None:
    here, there = drawn(1), drawn(2)
    found = lpmert.compare(here, OF_PATHS, metric=metric, seeds=2, held_out=there, weights={"mine": [1, -1, 2]})
    runs = [*((name, 2) for name in OF_PATHS), ("mine", 1)]
    assert [(entry.name, len(entry.runs)) for entry in found.methods] == runs
    least = lpmert.minimize(here, metric=metric).loss
    assert (found.optimum.status, found.optimum.loss) == (Status.OPTIMAL, least)
    settings, rows = TEXT_METRICS[metric], {}
    for entry in found.methods:
        for run in entry.runs:
            assert run.loss == lpmert.evaluate(here, run.weights, metric=metric).loss >= found.optimum.loss
            assert run.held_out_loss == lpmert.evaluate(there, run.weights, metric=metric).loss
            best = lpmert.n_best(here, run.weights, n=1)  # the texts chosen, found by another search
            counted = [settings.counter(own)(text) for own, text in zip(here.references, best.texts or (), strict=True)]
            assert run.chosen.tolist() == counted
        rows[entry.name] = entry.best.held_out_chosen
    for entry in found.methods[1:]:
        assert entry.p_value == permutation_test(settings.metric(""), rows["och"], rows[entry.name])


def test_lattices_are_cross_validated_and_hypergraphs_are_not() -> None:
    lattices = drawn(4, 8)
    found = lpmert.compare(lattices, {"och": Och(restarts=0)}, seeds=1, cv=4, repeat=1)
    assert [entry.name for entry in found.cross_validation.methods] == ["och", "optimum"]
    for entry in found.cross_validation.methods:
        assert entry.loss.value == sum(run.held_out_loss for run in entry.fits)  # the folds hold each lattice once
        assert all(run.loss >= 0 for run in entry.fits)
    # hypergraphs are compared but not divided
    graphs = DrawnHypergraphs(5, 3, 2, 40).graphs()
    found = lpmert.compare(graphs, {"och": Och(restarts=0)}, metric="wer", seeds=1)
    assert found["och"].best.loss >= found.lower_bound == lpmert.minimize(graphs, metric="wer").loss
    with pytest.raises(DataError, match="hypergraphs are not divided; make N-best lists"):
        lpmert.compare(graphs, ["och"], metric="wer", seeds=1, cv=2)


def fold_by_fold(nbest, methods=FITTED, **settings):
    """The weights of every fit by method, one repetition of three folds."""
    found = lpmert.compare(nbest, methods, seeds=1, cv=3, repeat=1, optimum_limits=FEW_NODES, **settings)
    return {entry.name: [fit.weights for fit in entry.fits] for entry in found.cross_validation.methods}


def honest(fold, _):
    return lpmert.minimize(fold, method=Likelihood()).weights


def test_lists_held_out_change_nothing_in_their_fit():
    nbest = noise(1)
    before, fold = fold_by_fold(nbest, callables={"honest": honest}), folds_of(nbest.n_lists, 3, 0)
    for number in range(3):
        after = fold_by_fold(changed_in(nbest, fold == number), callables={"honest": honest})
        assert all(np.array_equal(before[name][number], after[name][number]) for name in before)
        assert not all(np.array_equal(before[name], after[name]) for name in before)


def test_noise_costs_half_of_the_lists_whatever_it_is_fitted_with():
    values, here = [], []
    for seed in range(6):
        nbest = noise(seed, lists=40, dimension=4)
        found = lpmert.compare(nbest, FITTED, seeds=1, cv=4, repeat=2, optimum=None).cross_validation
        values.append([entry.loss.value for entry in found.methods])
        here.append(found["och"].here)
        assert found["och"].optimism > 0.1
    deviation = np.sqrt(40 / 4 / 6)  # of the mean of six sums of 40 fair coins
    assert np.all(np.abs(np.mean(values, axis=0) - 20) < 3 * deviation)
    assert np.mean(here) < 20 - 3 * deviation


@pytest.mark.parametrize("kind", ["loss", "f1"])
def test_the_loss_is_that_of_all_folds_decoded_apart(kind):
    nbest, there = random_nbest(5, lists=17, kind=kind), random_nbest(6, kind=kind)
    metric = Problem(nbest, kind).metric
    settings = {"seeds": 1, "seed": 3, "cv": 4, "repeat": 3, "optimum_limits": FEW_NODES}
    found = lpmert.compare(nbest, FITTED, metric=kind, held_out=there, **settings)
    for entry in found.cross_validation.methods:
        losses = []
        for repetition in range(3):
            fold, total = folds_of(17, 4, 3 + repetition), 0.0
            for number in range(4):
                weights = entry.fits[4 * repetition + number].weights
                total = total + Problem(nbest.restrict(fold == number), kind).evaluate(weights).statistics
            losses.append(metric.loss(total))
        assert entry.loss.value == pytest.approx(np.mean(losses))
        if entry.name == OPTIMUM:
            expected = found.optimum.loss, Problem(there, kind).evaluate(found.optimum.weights).loss
        else:
            expected = np.mean(found[entry.name].losses), np.mean(found[entry.name].held_out_losses)
        assert (entry.here, entry.held_out) == expected
        assert entry.optimism == pytest.approx(1 - entry.here / entry.loss.value)
    first = found.cross_validation.methods[0]
    for entry in found.cross_validation.methods[1:]:
        assert entry.difference.value == pytest.approx(entry.loss.value - first.loss.value)
        assert (entry.p_value < 0.05) == (not entry.difference.low <= 0.0 <= entry.difference.high)


def test_the_optimum_of_a_fold_is_never_worse_than_the_methods_on_the_lists_fitted_to():
    found = lpmert.compare(random_nbest(2), FITTED, seeds=1, cv=3, repeat=2, optimum_limits=FEW_NODES).cross_validation
    for place, fit in enumerate(found[OPTIMUM].fits):
        assert fit.loss <= min(entry.fits[place].loss for entry in found.methods)
    assert found[OPTIMUM].proved == sum(fit.status.proved for fit in found[OPTIMUM].fits)


def test_intervals_are_computed_from_the_fits_of_folds():
    nbest = random_nbest(5, lists=17)
    found = lpmert.compare(nbest, FITTED, seeds=1, cv=4, repeat=2, optimum=None).cross_validation
    och, grid = ([fit.held_out_loss for fit in found[name].fits] for name in ("och", "grid"))
    sizes = [np.sum(folds_of(17, 4, seed) == number) for seed in (0, 1) for number in range(4)]
    values = 17 * (np.array(grid) - np.array(och)) / sizes
    error = np.sqrt((1 / 8 + 1 / 3) * values.var(ddof=1))
    reach = stats.t.ppf(0.975, 7) * error
    ends = found["grid"].difference
    assert (ends.high - ends.low) / 2 == pytest.approx(reach)
    assert found["grid"].p_value == pytest.approx(2 * stats.t.sf(abs(values.mean()) / error, 7))


def test_the_corrected_interval_by_hand():
    values = np.array([1.0, 2.0, 3.0, 4.0])  # of variance 5 / 3, times 1 / 4 + 1 / 4
    assert interval_of(2.5, values, 0.25).high == pytest.approx(2.5 + 3.182446 * np.sqrt(5 / 6), rel=1e-6)
    assert corrected_test(values - 2.5, 0.25) == 1.0
    assert corrected_test(np.full(3, 0.1), 0.25) is None  # equal values show no chance, and prove nothing
    assert corrected_test(np.zeros(4), 0.25) == 1.0


def test_lists_of_a_source_are_held_out_together():
    nbest = random_nbest(5, lists=18)
    groups = [name % 6 for name in range(18)]
    found = lpmert.compare(nbest, FITTED, seeds=1, cv=3, repeat=2, groups=groups, optimum=None).cross_validation
    assert found.groups == 6
    split = Split(np.array(groups), 3, 0, 2)
    for repetition in range(2):
        fold = split.of_lists(repetition)
        assert all(len(set(fold[group::6].tolist())) == 1 for group in range(6))
        for number in range(3):
            weights = found["och"].fits[3 * repetition + number].weights
            alone = lpmert.minimize(nbest.restrict(fold != number), method=FITTED["och"], seed=repetition).weights
            assert np.array_equal(weights, alone)


def test_weights_from_elsewhere_are_left_out_with_a_note():
    found = lpmert.compare(random_nbest(), FITTED, seeds=1, cv=2, repeat=1, weights={"mine": [1, 2, 3]}, optimum=None)
    assert [entry.name for entry in found.cross_validation.methods] == list(FITTED)
    assert any(note.startswith("mine: not fitted here") for note in found.cross_validation.notes)


def test_after_a_stop_only_complete_repetitions_count():
    settings = {"seeds": 1, "cv": 2, "repeat": 3, "optimum": None}
    found = lpmert.compare(random_nbest(), FITTED, **settings, on_stage=lambda _, done, parts: done == 5 < parts)
    validated = found.cross_validation
    assert (found.complete, validated.repetitions, validated.planned) == (False, 2, 3)
    assert "only 2 of 3 repetitions were made" in found.cross_validation.notes
    early = lpmert.compare(random_nbest(), FITTED, **settings, on_stage=lambda *_: True)
    assert early.cross_validation is None


def test_the_command_shows_and_writes_what_cross_validation_found(tmp_path):
    table = tmp_path / "lists.tsv"
    lpmert.write(noise(4, lists=30), table)
    arguments = ("--methods", "och,average", "--seeds", "1", "--cv", "3", "--repeat", "2", "--node-limit", "20")
    shown = run(table, *arguments)
    assert shown.exit_code in (0, 3), shown.stderr
    for text in ("on unseen", "optimism", "difference", "3-fold cross-validation, 2 times", "\noptimum "):
        assert text in shown.stdout
    written = json_of("compare", table, *arguments)
    assert [entry["name"] for entry in written["cross_validation"]["methods"]] == ["och", "average", "optimum"]
