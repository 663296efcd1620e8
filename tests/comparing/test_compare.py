"""Comparisons: judged by decoding, reproducible, never below the optimum; significance; stability; the command."""

import json
import os
import sys
import threading
import time
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import commands
import numpy as np
import pytest
from late import Late
from problems import random_nbest

import lpmert
from lpmert.api import minimize
from lpmert.comparing.runs import permutation_test
from lpmert.errors import DataError, MethodError
from lpmert.methods.heuristic.derivative_free import Grid, NelderMead, RandomSearch, Tpe
from lpmert.methods.heuristic.och import Och
from lpmert.methods.heuristic.ranking import Mira, Pro
from lpmert.metrics.base import SumOfLosses
from lpmert.metrics.contract import metric_by_name
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.model.region import Region
from lpmert.quoting import visible
from lpmert.registry import METHODS
from lpmert.reporting.tables import Compared
from lpmert.result import Limits, Status
from lpmert.search.method import Comparator, Found

stats = Late("scipy.stats")

FAST = {"och": Och(restarts=2), "random": RandomSearch(draws=20), "grid": Grid(points=4)}


def timeless(found):
    """A dictionary of results without what no two runs share."""
    if isinstance(found, dict):
        return {key: timeless(value) for key, value in found.items() if key not in ("seconds", "trace")}
    return [timeless(value) for value in found] if isinstance(found, list) else found


@pytest.mark.parametrize("kind", ["loss", "f1"])
def test_each_run_has_the_loss_that_decoding_gives(kind):
    nbest, held_out = random_nbest(1, kind=kind), random_nbest(2, kind=kind)
    here, there = Problem(nbest, kind), Problem(held_out, kind)
    found = lpmert.compare(
        nbest, FAST, metric=kind, seeds=3, held_out=held_out, weights={"given": [1, 2, -1]}, optimum=None
    )
    assert [entry.name for entry in found.methods] == ["och", "random", "grid", "given"]
    assert [len(entry.runs) for entry in found.methods] == [3, 3, 1, 1]
    for entry in found.methods:
        for run in entry.runs:
            assert (run.loss, run.score) == (here.evaluate(run.weights).loss, here.evaluate(run.weights).score)
            assert run.held_out_loss == there.evaluate(run.weights).loss
    assert found["given"].runs[0].weights.tolist() == [1, 2, -1]
    assert found["given"].runs[0].status is None


def test_no_comparator_is_below_the_proved_optimum_whatever_ties_there_are():
    quick = {"nelder-mead": NelderMead(restarts=0, evaluations=50), "tpe": Tpe(trials=5), "mira": Mira(), "pro": Pro()}
    named = {
        name: quick.get(name, FAST.get(name, name)) for name, place in METHODS.own.items() if ".heuristic." in place
    }
    for seed in range(3):
        found = lpmert.compare(random_nbest(seed, lists=6, integers=True), named, seeds=1)
        assert found.proved
        for entry in found.methods:
            assert all(found.excess(run) >= 0 for run in entry.runs), entry.name


def test_given_weights_that_win_by_ties_are_said_to():
    nbest = NBest(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), [0, 2, 4], np.array([0.0, 1.0, 0.0, 1.0]))
    found = lpmert.compare(nbest, {"och": FAST["och"]}, seeds=1, weights={"tied": [1, 1]})
    assert found.optimum.loss == found["och"].best.loss == 1.0
    assert found["tied"].best.loss == 0.0
    assert Compared(found.to_dict()).notes == ["tied: below the optimum only by ties, in 2 lists"]


def test_equal_seeds_give_equal_results_for_any_number_of_jobs():
    nbest, held_out = random_nbest(3), random_nbest(4)
    named = {**FAST, "annealing": "annealing", "perceptron": "perceptron"}
    found = [
        lpmert.compare(
            nbest, named, seeds=2, held_out=held_out, jobs=jobs, callables={"f": lambda _, seed: [1, seed, 2]}
        )
        for jobs in (1, 2)
    ]
    assert timeless(found[0].to_dict()) == timeless(found[1].to_dict())


def test_methods_that_use_no_chance_run_once():
    found = lpmert.compare(random_nbest(), ["grid", "likelihood", "choices", "random"], seeds=2, optimum=None)
    assert [len(entry.runs) for entry in found.methods] == [1, 1, 1, 2]
    assert [entry.runs[0].seed for entry in found.methods] == [None, None, None, 0]


def test_methods_take_part_as_names_or_objects_and_are_named_after_their_settings():
    found = lpmert.compare(random_nbest(), ["grid", Grid(points=3), Och(restarts=1)], seeds=1, optimum=None)
    assert [entry.name for entry in found.methods] == ["grid", "grid(points=3)", "och(restarts=1)"]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"methods": ["och", "simulated"]}, MethodError, "no method 'simulated'"),
        ({"methods": ["grid", "grid"]}, MethodError, "'grid' is compared twice"),
        ({"methods": []}, MethodError, "at least one"),
        ({"weights": {"moses": [1, 2]}}, DataError, "moses: weights need one number for each of the 3 features"),
        ({"seeds": 0}, MethodError, "seeds"),
        ({"jobs": 0}, MethodError, "jobs"),
        ({"held_out": random_nbest(kind="f1")}, DataError, "held-out lists have statistics"),
        ({"held_out": random_nbest(dimension=2)}, DataError, "no feature 'feature3'"),
        ({"optimum": minimize(random_nbest(9))}, DataError, "other lists"),
        ({"optimum": "best"}, MethodError, "no method 'best'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        lpmert.compare(random_nbest(), **{"methods": {"grid": FAST["grid"]}, **arguments})


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
    assert not found.complete
    assert found.optimum is None
    assert [len(entry.runs) for entry in found.methods] == [2, 1]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_leaves_the_runs_so_far(jobs):
    def press(name, _):
        if name == "random":
            raise KeyboardInterrupt

    found = lpmert.compare(random_nbest(), FAST, seeds=1, on_run=press, jobs=jobs)
    assert not found.complete
    assert found["och"].best.loss > 0


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
    assert not found.complete
    assert [run.status for run in found["pressed"].runs] == [Status.HEURISTIC]
    alone = lpmert.compare(random_nbest(), {"pressed": Pressed()}, seeds=1, seed=1)
    assert [run.status for run in alone["pressed"].runs] == [Status.INTERRUPTED]


@dataclass(frozen=True)
class Hungry(Comparator):
    """A method whose second run holds much once this file is there, until it is told that that is enough."""

    enough = threading.Event()
    after: str = ""
    name = "hungry"

    def run(self, problem, _start, seed, _clock):
        while seed and not os.path.exists(self.after):
            time.sleep(0.01)
        block = np.ones((seed * 600 << 20) // 8)
        self.enough.wait(600.0 * seed)
        return Found(np.ones(problem.canonical.n_features) + 0.0 * block.sum())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody may know")
def test_the_memory_of_runs_counts_wherever_they_run(caplog, tmp_path, fresh_memory):
    first = tmp_path / "first"
    found = lpmert.compare(
        random_nbest(),
        {"hungry": Hungry(str(first))},
        seeds=2,
        jobs=2,
        memory_limit=fresh_memory + (500 << 20),
        optimum=None,
        on_run=lambda *_: first.touch(),
    )
    Hungry.enough.set()  # or else its thread would keep the process
    assert not found.complete
    assert [run.seed for run in found["hungry"].runs] == [0]
    assert "the memory limit is near; the runs so far are compared" in caplog.text


def test_a_run_that_the_memory_limit_may_have_cut_short_does_not_count():
    found = lpmert.compare(random_nbest(), FAST, seeds=1, memory_limit=1)
    assert not found.complete
    assert found.methods == ()


def test_time_limits_are_for_single_runs():
    found = lpmert.compare(random_nbest(), {"och": Och(restarts=10**6)}, seeds=2, time_limit=0.05, optimum=None)
    assert [run.status for run in found["och"].runs] == [Status.TIME_LIMIT] * 2


def test_the_region_holds_for_methods_and_is_told_of_given_weights():
    region = Region(nonnegative=True)
    weights = {"inside": [1, 2, 3], "outside": [1, 2, -3]}
    found = lpmert.compare(random_nbest(5), FAST, seeds=1, region=region, weights=weights)
    assert {entry.name: entry.best.inside for entry in found.methods} == {
        **dict.fromkeys(FAST, True),
        "inside": True,
        "outside": False,
    }
    assert found.optimum.weights.min() >= 0


def test_initial_weights_start_the_methods():
    nbest = random_nbest(6)
    best = minimize(nbest)
    found = lpmert.compare(nbest, {"och": Och(restarts=0)}, seeds=1, initial_weights=best.weights)
    assert found["och"].best.loss == best.loss


def test_held_out_features_are_put_in_order():
    nbest, other = random_nbest(1), random_nbest(2)
    swapped = other.select_features(["feature3", "feature1", "feature2"])
    first, second = (
        lpmert.compare(nbest, FAST, seeds=1, held_out=lists, optimum=None)["och"].held_out_losses
        for lists in (other, swapped)
    )
    assert first == second


# significance


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


def test_equal_choices_differ_by_chance_alone():
    statistics = np.random.default_rng(0).integers(0, 9, (30, 1)).astype(float)
    assert permutation_test(SumOfLosses(), statistics, statistics) == 1.0


def test_statistics_of_other_lists_are_refused():
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


# the command


def table_of(nbest, path):
    lpmert.write(nbest, path, segment="id")
    return [str(path), "--segment", "id", "--features", ",".join(nbest.names), "--loss", "loss"]


run = partial(commands.run, "compare")
refusal = partial(commands.refusal, "compare")
succeeded = partial(commands.succeeded, "compare")


def test_the_command_prints_a_table_with_distances_and_held_out_losses(tmp_path):
    data = table_of(random_nbest(1), tmp_path / "dev.tsv")
    table_of(random_nbest(2), tmp_path / "test.tsv")
    (tmp_path / "moses.txt").write_text("0.5 0.25 -0.25\n")
    found = succeeded(
        *data, "--methods", "och,grid", "--seeds", 2, "--held-out", tmp_path / "test.tsv",
        "--weights", f"moses={tmp_path / 'moses.txt'}",
    )  # fmt: skip
    lines = found.stdout.splitlines()
    assert lines[-1] == f"optimum: loss {minimize(random_nbest(1)).loss:g}, proved"
    assert " ".join(lines[0].split()) == "loss runs mean best Delta S to optimum held out p time"
    given = next(line for line in lines if line.startswith("moses")).split()
    assert float(given[3]) == Problem(random_nbest(1)).evaluate([0.5, 0.25, -0.25]).loss
    assert float(given[7]) == Problem(random_nbest(2)).evaluate([0.5, 0.25, -0.25]).loss
    assert "och, seed 1: loss" in found.stderr


def test_the_command_writes_json_that_says_the_same_as_the_library(tmp_path):
    data = table_of(random_nbest(1), tmp_path / "dev.tsv")
    found = run(*data, "--methods", "och,random", "--seeds", 2, "-q", "-o", tmp_path / "c.json")
    assert (found.exit_code, found.stdout, found.stderr) == (0, "", "")
    written = json.loads((tmp_path / "c.json").read_text())
    nbest = lpmert.read(tmp_path / "dev.tsv", segment="id", features=random_nbest(1).names, loss="loss")
    known = lpmert.compare(nbest, ["och", "random"], seeds=2)
    assert timeless(written) == timeless(json.loads(known.to_json()))
    assert run(*data, "--methods", "grid", "-q", "--json").stdout.startswith("{")


def test_the_command_takes_an_optimum_from_a_file(tmp_path):
    data = table_of(random_nbest(1), tmp_path / "dev.tsv")
    commands.succeeded("solve", *data, "-q", "-o", tmp_path / "r.json")
    found = succeeded(*data, "--methods", "grid", "--optimum", tmp_path / "r.json")
    assert "proved" in found.stdout


@pytest.mark.parametrize("name", ["a\x1b[31mb", "a\nb", "a\x07b", "\u202eb"])
def test_names_of_weights_say_nothing_to_a_terminal(tmp_path: Path, name: str) -> None:
    lpmert.write(lpmert.NBest([[1, 0], [0, 1]], [0, 2], [0, 1], names=["a", "b"]), tmp_path / "x.npz")
    arguments = ["--methods", "och", "--seeds", "1", "--weights", f"{name}=1,1"]
    outcome = succeeded(tmp_path / "x.npz", *arguments)
    assert f"\n{visible(name)}: 1 lists are tied at its best weights" in outcome.stdout
    assert f"{visible(name)}: accuracy 100.00% (0 wrong), " in outcome.stderr
    assert name not in outcome.stdout + outcome.stderr
