"""The benchmarks find what they race against, say so when they cannot, and report what they measured."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from shared import needs_shared

from benchmarks import datasets
from benchmarks.__main__ import main
from benchmarks.halves import Halves, HeldOut
from benchmarks.harness import (
    Answer,
    Benchmark,
    Dataset,
    Task,
    contradictions,
    disagreements,
    present_version,
)
from benchmarks.lists import Loss
from benchmarks.rows import Row, keep_row, read_rows
from benchmarks.runner import Wishes, run
from benchmarks.suites import NAMES, benchmark, best, features, quick, targets, unseen
from lpmert.comparing.significance import corrected_reach
from lpmert.errors import FloatArray
from lpmert.model.nbest import NBest


def test_a_target_is_met_by_what_its_rows_show_and_by_nothing_else() -> None:
    def met(target: targets.Target, *rows: dict[str, Any]) -> str:
        name = {"dataset": target.dataset.name, "solver": "auto", "counters": {"lists": 4, "features": 2}}
        (shown,) = targets.table([row_of(seed=seed, **name, **row) for seed, row in enumerate(rows)]).rows
        return shown[-1]

    def took(wall: float, processor: float, status: str = "optimal") -> dict[str, Any]:
        return {"status": status, "seconds": wall, "processor_seconds": processor}

    quick, ever, gap = (targets.TARGETS[k] for k in (0, 7, 11))
    assert (quick.seconds, ever.seconds, ever.gap, gap.gap) == (0.2, None, None, 0.25)
    assert met(quick, took(0.1, 0.1), took(9.0, 9.0), took(0.2, 0.2)) == "met"
    assert met(quick, took(0.1, 0.1), took(0.3, 0.1), took(0.3, 0.1)) == "missed"  # as slow as whoever waits sees it
    assert met(quick, took(0.1, 0.3), took(0.1, 0.3), took(0.1, 0.1)) == "missed"
    assert met(quick, took(0.1, 0.1), took(0.1, 0.1), took(0.1, 0.1, "time_limit")) == "missed"
    assert met(ever, {**took(50.0, 50.0), "objective": "bleu"}) == "met"
    assert met(ever, {**took(50.0, 50.0, "time_limit"), "objective": "bleu"}) == "missed"
    for width, answer in ((0.24, "met"), (0.25, "missed"), (None, "missed")):
        assert met(gap, {**took(60.0, 60.0, "time_limit"), "gap_rel": width}) == answer


def row_of(**fields: object) -> Row:
    plain: dict[str, Any] = {
        "dataset": "toy",
        "objective": "loss",
        "solver": "one",
        "seed": 0,
        "time_limit": 10.0,
        "status": "optimal",
        "loss": 3.0,
        "score": 3.0,
        "lower_bound": 3.0,
        "gap_abs": 0.0,
        "gap_rel": 0.0,
        "seconds": 0.5,
        "processor_seconds": 0.5,
        "peak_bytes": None,
        "version": "0",
        "cores": 1,
        "processor": "any",
        "load": 0.5,
        "date": "2026-01-01T00:00:00+00:00",
    }
    return Row(**{**plain, **fields})


TOY = NBest([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0], [1.0, 1.0]], [0, 2, 4], [0.0, 2.0, 1.0, 3.0], names=["a", "b"])


@dataclass
class Guess:
    """A solver that answers with fixed weights, whatever it claims, and counts its calls."""

    weights: tuple[float, float]
    status: str = "optimal"
    lower_bound: float | None = None
    reason: str | None = None
    calls: list[str] = field(default_factory=list)
    name: str = "guess"

    def skip(self, _data: NBest, _objective: Loss) -> str | None:
        return self.reason

    def warm_up(self) -> None:
        self.calls.append("warm up")

    def solve(self, _data: NBest, _objective: Loss, _seed: int, _time_limit: float) -> Answer:
        self.calls.append("solve")
        return Answer(np.array(self.weights), self.status, self.lower_bound)


def toy_benchmark(solver: Guess, optimum: float | None = None, **settings: Any) -> Benchmark:
    dataset = Dataset("toy", lambda: TOY)
    task = Task(dataset, Loss(), solver, time_limit=10.0, optimum=optimum)
    return Benchmark("toy", "Toy", lambda: [task], lambda _: [], **settings)


def test_the_harness_not_the_solver_says_what_weights_cost(tmp_path: Path) -> None:
    # weights (1, 0) choose a hypothesis of loss 0 and one of loss 3, whatever the solver claims
    run(toy_benchmark(Guess((1.0, 0.0), lower_bound=0.0)), Wishes(), tmp_path, print)
    (row,) = read_rows(tmp_path / "toy.jsonl").values()
    assert row.loss == 3.0
    assert row.gap_abs == 3.0


@pytest.mark.parametrize(
    ("settings", "status", "runs"),
    [
        (
            {},
            "optimal",
            [({}, 1), ({}, 1), ({"again": True}, 2), ({"again_above": 1e9}, 2), ({"again_above": -1.0}, 3)],
        ),
        ({"resumes": False}, "optimal", [({}, 1), ({}, 2)]),
        ({}, "time_limit", [({"time_limit": 1.0}, 1), ({"time_limit": 1.0}, 1), ({"time_limit": 2.0}, 2)]),
    ],
    ids=["where that is asked for", "where nothing is resumed", "where the limit was lower"],
)
def test_a_row_is_measured_again_only(
    settings: dict[str, Any], status: str, runs: list[tuple[dict[str, Any], int]], tmp_path: Path
) -> None:
    solver = Guess((1.0, 0.0), status=status)
    for wishes, solved in runs:
        run(toy_benchmark(solver, **settings), Wishes(**wishes), tmp_path, print)
        assert solver.calls.count("solve") == solved, wishes
    assert len(read_rows(tmp_path / "toy.jsonl")) == 1


@pytest.mark.parametrize(
    ("fields", "optimum", "proof", "expected"),
    [
        ({}, 3.0, True, ""),
        ({"loss": 4.0}, 3.0, False, "called optimal"),
        ({"loss": 2.0, "lower_bound": None, "status": "heuristic"}, 3.0, False, "below the known optimum"),
        ({"loss": 5.0, "lower_bound": 4.0, "status": "time_limit"}, 3.0, False, "above the known optimum"),
        ({"loss": 5.0, "lower_bound": None, "status": "time_limit"}, 3.0, True, "no proof"),
        ({"loss": 5.0, "lower_bound": None, "status": "heuristic"}, 3.0, False, ""),
        ({"lower_bound": 3.5}, None, False, "above the loss"),
    ],
)
def test_what_contradicts_a_known_optimum_is_found(
    fields: dict[str, object], optimum: float | None, proof: bool, expected: str
) -> None:
    (task,) = toy_benchmark(Guess((1.0, 0.0)), optimum).tasks()
    found = list(contradictions(row_of(**fields), replace(task, proof=proof), 1e-9))
    assert (expected in found[0]) if expected else not found


def test_rows_survive_being_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [row_of(), row_of(solver="two", details={"parts": {"search": 0.25}, "list": [1.0, None]}, loss=None)]
    for row in rows:
        keep_row(path, row)
    assert list(read_rows(path).values()) == rows


def test_generated_lists_are_the_same_everywhere() -> None:
    # first raw bits of PCG64(0), from which the first feature is made by hand
    raw = int(np.random.PCG64(0).random_raw(1)[0])
    pieces = [(raw >> shift) & 0xFFFF for shift in (0, 16, 32, 48)]
    nbest = datasets.generated(4, 3, 2).load()
    assert nbest.features[0, 0] == (sum(pieces) - 4 * 2**15) / 2**16
    assert nbest.n_lists == 4
    assert nbest.n_hypotheses == 12


def test_every_task_of_every_benchmark_has_a_key_of_its_own() -> None:
    for name in NAMES:
        keys = [task.key for task in benchmark(name).tasks()]
        assert len(set(keys)) == len(keys)
        assert all(task.easier is None or task.easier in keys for task in benchmark(name).tasks())


def test_a_method_alone_is_better_only_by_what_it_had_at_that_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def case(solver: str, *trace: tuple[float, float | None, float]) -> Row:
        return row_of(dataset="toy", objective="loss", solver=solver, details={"trace": trace})

    rows = [
        case("auto", (0.5, 1.0, 9.0), (4.0, 6.0, 6.0)),  # all of these have ended by themselves
        case("och", (0.6, None, 8.0)),
        case("cells", (2.0, 2.0, 9.0), (30.0, 9.0, 9.0)),
    ]
    assert best.at(rows[0], 0.4) == (None, None)
    assert best.at(rows[0], 1.0) == (9.0, 1.0)
    monkeypatch.setattr(best, "CASES", ((Dataset("toy", lambda: None), Loss()),))
    *_, counted = best.render(rows)
    assert [line[2:] for line in counted.rows] == [["1", "0"], ["0", "0"], ["0", "0"]]
    rows[0] = case("auto", (0.5, 1.0, 9.0), (6.0, 6.0, 6.0))
    *_, counted = best.render(rows)
    assert list(counted.rows[1]) == ["5 s", "1", "1", "1"]
    rows[0] = replace(rows[0], status="time_limit", time_limit=5.0)
    *_, counted = best.render(rows)
    assert [line[0] for line in counted.rows] == ["1 s", "5 s"]


def test_the_command_fails_when_an_optimum_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.__main__.benchmark", lambda _: toy_benchmark(Guess((1.0, 0.0)), 2.0))
    found = CliRunner().invoke(main, ["run", "quick", "--rows", str(tmp_path)])
    assert found.exit_code == 1
    assert "known optimum" in found.output


@pytest.mark.parametrize(
    ("wishes", "least"),
    [(("--dataset", "counts-*", "--solver", "[!e]*"), 4), pytest.param((), 20, marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_every_method_still_proves_the_known_optima(wishes: tuple[str, ...], least: int, tmp_path: Path) -> None:
    found = CliRunner().invoke(main, ["run", "quick", *wishes, "--rows", str(tmp_path)])
    assert found.exit_code == 0, found.output
    assert found.output.count(": optimal") > least


def _bleu_of(counts: FloatArray) -> float:
    shares = [counts[2 * k] / counts[2 * k + 1] for k in range(4)]
    return float(np.prod(shares) ** 0.25 * math.exp(min(0.0, 1 - counts[8] / counts[1])))


def _f1_of(counts: FloatArray) -> float:
    return float(2 * counts[0] / (counts[1] + counts[2]))


@pytest.mark.slow
@pytest.mark.parametrize(("objective", "score"), [(quick.BLEU, _bleu_of), (quick.F1, _f1_of)])
def test_optima_of_ratios_are_those_of_every_direction_of_the_plane(
    objective: Loss, score: Callable[[FloatArray], float]
) -> None:
    ((dataset, _, optimum, _),) = [case for case in quick.CASES if case[1] is objective]
    nbest = dataset.load()
    features, offsets = nbest.dense_features(), nbest.offsets
    turns = {
        (math.atan2(difference[0], -difference[1]) + half) % (2 * math.pi)
        for first, last in pairwise(offsets.tolist())
        for i, j in combinations(range(first, last), 2)
        for difference in (features[i] - features[j],)
        for half in (0.0, math.pi)
    }
    angles = sorted(turns)
    angles.append(angles[0] + 2 * math.pi)
    least = 1.0
    for one, other in pairwise(angles):
        scores = features @ [math.cos((one + other) / 2), math.sin((one + other) / 2)]
        chosen = [first + int(np.argmax(scores[first:last])) for first, last in pairwise(offsets.tolist())]
        least = min(least, 1 - score(nbest.statistics[chosen].sum(axis=0)))
    assert optimum == pytest.approx(least, abs=1e-12)


def test_an_interrupted_run_is_neither_kept_nor_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.runner.measure", lambda _: row_of(status="interrupted"))
    with pytest.raises(KeyboardInterrupt):
        run(toy_benchmark(Guess((1.0, 0.0))), Wishes(), tmp_path, print)
    assert not list(tmp_path.iterdir())


def test_runs_that_waited_for_the_processor_and_rows_of_other_commits_are_measured_again() -> None:
    (task,) = toy_benchmark(Guess((1.0, 0.0))).tasks()
    for wishes, row, accepted in (
        ({}, {"seconds": 10.0, "processor_seconds": 9.0}, True),
        ({}, {"seconds": 10.0, "processor_seconds": 4.0}, False),
        ({}, {"seconds": 0.4, "processor_seconds": 0.0}, True),
        ({}, {"version": "0.0 abc"}, True),
        ({"again_older": True}, {"version": "0.0 abc"}, False),
        ({"again_older": True}, {"version": present_version()}, True),
    ):
        assert Wishes(**wishes).accept(task, row_of(**row)) is accepted, row


def test_proofs_that_disagree_are_told() -> None:
    proof = row_of(solver="one", status="optimal", loss=3.0, lower_bound=3.0)
    fine = row_of(solver="two", status="heuristic", loss=4.0, lower_bound=None)
    assert not list(disagreements([proof, fine], 1e-9))
    for wrong in (
        replace(proof, solver="two", loss=4.0, lower_bound=4.0),
        replace(fine, loss=2.0),
        replace(fine, status="time_limit", loss=5.0, lower_bound=3.5),
    ):
        (text,) = disagreements([proof, wrong], 1e-9)
        assert "two" in text
    assert not list(disagreements([proof, replace(fine, loss=2.0, dataset="another")], 1e-9))


def test_differences_on_unseen_lists_are_paired_by_split_and_their_interval_allows_for_overlap() -> None:
    source = unseen.SOURCES[0]
    losses = {unseen.BASELINE: [10.0, 20.0, 30.0], unseen.AVERAGED.name: [9.0, 20.0, 33.0]}
    rows = [
        row_of(dataset=unseen.split(source, number).name, solver=solver, details={"held_out_loss": loss})
        for solver, own in losses.items()
        for number, loss in enumerate(own)
    ]
    found = unseen.differences(rows, source, unseen.AVERAGED.name)
    assert found == pytest.approx([-5.0, 0.0, 15.0])  # of a mean of 20
    deviation = math.sqrt(((-5 - 10 / 3) ** 2 + (10 / 3) ** 2 + (15 - 10 / 3) ** 2) / 2)
    assert corrected_reach(np.array(found), 0.5) == pytest.approx(
        4.302653 * deviation * math.sqrt(1 / 3 + 0.5)
    )  # t of 2 degrees


def test_the_chosen_number_of_features_is_that_which_costs_least_on_lists_held_out() -> None:
    """One feature tells the best hypothesis of every list, and the others are noise."""
    rng = np.random.default_rng(0)
    losses = np.tile([0.0, 1.0, 2.0], 30)
    lists = NBest(np.column_stack([-losses, rng.normal(size=(90, 2))]), list(range(0, 91, 3)), losses)
    answer = features.CHOSEN.solve(Halves(lists, lists), HeldOut(), 0, 20.0)
    assert answer.counters == {"features": 1}
    assert answer.weights is not None
    assert answer.weights[0] > 0.0
    assert not answer.weights[1:].any()


@needs_shared
def test_the_sources_of_unseen_lists_are_those_that_their_descriptions_count() -> None:
    """Sizes and losses as the READMEs beside the data state them, so that they are other people's numbers."""
    loaded = {source.name: source.load() for source in unseen.SOURCES if source.name in ORACLES}
    assert loaded.keys() == ORACLES.keys()
    for source in unseen.SOURCES:
        nbest = source.load()
        assert (nbest.n_lists, nbest.n_features) == (source.n_lists, source.n_features)
    for name, (n_lists, n_features, oracle) in ORACLES.items():
        nbest = loaded[name]
        assert (nbest.n_lists, nbest.n_features) == (n_lists, n_features)
        least = np.minimum.reduceat(nbest.statistics[:, 0], nbest.offsets[:-1])
        assert float(least.mean()) == pytest.approx(oracle, abs=6e-6)


ORACLES = {
    "summaries": (100, 14, 0.26244),
    "dialogues": (60, 5, 0.13889),
    "hansard": (100, 22, 0.67021),
    "heating": (900, 6, 0.0),
    "heating and cooling": (250, 8, 0.0),
    "travel modes": (2779, 9, 0.0),
}
