"""Simulated workers keep to what is known of any schedule, and the benchmark of scale measures what it says."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from long_searches import counted, long_searches, noise_of
from shared import needs_shared

import lpmert
from benchmarks import datasets, projection, scaling, validation
from benchmarks.harness import measure
from benchmarks.lists import Loss
from benchmarks.recording import Event, Piece, Record, Recorder
from benchmarks.rows import read_rows
from benchmarks.runner import Wishes, run
from benchmarks.simulation import Network, in_order, stealing
from benchmarks.stages import BOUND, CANONICAL, STAGES, File, Reader, Staged
from benchmarks.suites import benchmark, scale
from benchmarks.tables import Table
from lpmert.methods.cells import cells as cells_search
from lpmert.methods.cells.cells import Cells
from lpmert.methods.choices import shared as choices_shared
from lpmert.methods.choices.choices import Choices
from lpmert.methods.heuristic.och import Och
from lpmert.model.problem import Problem
from lpmert.search.driver import solve
from lpmert.workers import Pending, Shared, T, Threads, Unit, using, workers_of

pytestmark = pytest.mark.slow


def piece(seconds: float, *parents: int, bound: int = 0, found: int | None = None, size: int = 0) -> Piece:
    return Piece(seconds, size, size, 0.0, bound, found, parents)


@st.composite
def trees(draw: st.DrawFn) -> list[Piece]:
    seconds = draw(st.lists(st.integers(1, 20), min_size=1, max_size=25))
    bounds = draw(st.lists(st.integers(0, 5), min_size=len(seconds), max_size=len(seconds)))
    parents = [draw(st.integers(-1, k - 1)) for k in range(len(seconds))]
    return [
        piece(float(own), *([parent] if parent >= 0 else []), bound=bound)
        for own, parent, bound in zip(seconds, parents, bounds, strict=True)
    ]


@st.composite
def records(draw: st.DrawFn) -> Record:
    """What some search might do: a few hands are out at once, and their answers are taken in order."""
    pieces = [piece(float(k), size=k) for k in draw(st.lists(st.integers(0, 20), min_size=1, max_size=25))]
    events, out, taken = [], 0, 0
    while taken < len(pieces):
        hand_out = out < len(pieces) and (out == taken or draw(st.booleans()))
        events.append(Event(float(draw(st.integers(0, 5))), out if hand_out else taken, not hand_out))
        out, taken = out + hand_out, taken + (not hand_out)
    return Record(tuple(pieces), (*events, Event(1.0, -1, True)), 0, 1, 0)


def critical_path(pieces: list[Piece]) -> float:
    @cache
    def end(k: int) -> float:
        return pieces[k].seconds + max((end(parent) for parent in pieces[k].parents), default=0.0)

    return max(map(end, range(len(pieces))))


@given(trees())
def test_one_worker_takes_the_sum_of_all_units_and_endlessly_many_the_longest_path(pieces: list[Piece]) -> None:
    whole = sum(one.seconds for one in pieces)
    assert stealing(pieces, 1).seconds == whole
    assert stealing(pieces, len(pieces)).seconds == critical_path(pieces)


@given(trees(), st.integers(1, 8))
def test_without_latency_stealing_keeps_grahams_bounds(pieces: list[Piece], workers: int) -> None:
    """Graham, 1969: nobody is idle while a unit waits."""
    whole, path = sum(one.seconds for one in pieces), critical_path(pieces)
    outcome = stealing(pieces, workers)
    assert outcome.busy == whole
    assert max(whole / workers, path) <= outcome.seconds + 1e-9
    assert outcome.seconds <= whole / workers + (1 - 1 / workers) * path + 1e-9


@given(trees(), st.integers(1, 5), st.integers(0, 30))
def test_latency_takes_no_units_away_and_ends_no_sooner_than_the_longest_path(
    pieces: list[Piece], workers: int, latency: int
) -> None:
    outcome = stealing(pieces, workers, Network(float(latency)))
    assert outcome.busy == sum(one.seconds for one in pieces)
    assert outcome.seconds >= critical_path(pieces)
    assert outcome.sent == 0
    if workers == 1:
        assert outcome == stealing(pieces, 1)


def test_a_thief_waits_for_two_messages_and_for_the_part() -> None:
    # while the first worker does one unit, the second one gets the other: 3 + 3 + 10 / 5 before it begins
    pieces = [piece(20.0, size=10), piece(20.0, size=10)]
    outcome = stealing(pieces, 2, Network(3.0, bandwidth=5.0))
    assert outcome.seconds == 28.0
    assert (outcome.steals, outcome.sent) == (1, 10)


def test_better_weights_save_units_as_soon_as_they_are_known() -> None:
    # the first unit finds cost 4 at second 5; of the two that wait with bound 9, the other worker begins one before
    pieces = [piece(5.0, bound=0, found=4), piece(6.0, bound=1), piece(7.0, bound=9), piece(7.0, bound=9)]
    at_once = stealing(pieces, 2, first=20)
    assert (at_once.seconds, at_once.busy) == (6.0, 11.0)
    # news that travels for two seconds reaches the thief too late, and it takes what is ruled out
    assert stealing(pieces[:1] + pieces[2:], 2, first=20).busy == 12.0
    assert stealing(pieces, 1, first=20) == (11.0, 11.0, 0, 2, 0)
    assert stealing(pieces, 1, first=4).busy == 11.0
    assert stealing(pieces, 1, first=9, granularity=1).busy == 11.0
    assert stealing(pieces[2:], 1, first=10, granularity=1).busy == 14.0


def test_late_news_lets_units_be_done_in_vain() -> None:
    pieces = [piece(5.0, bound=0, found=4), piece(6.0, bound=1), piece(1.0, 1, bound=8)]
    assert stealing(pieces, 2, Network(0.5), first=20).busy == 11.0  # known at 5.5, before the unit of bound 8 waits
    assert stealing(pieces, 2, Network(0.75), first=20).busy == 11.0
    late = [piece(5.0, bound=0, found=4), piece(0.25, bound=1), piece(7.0, 1, bound=8)]
    assert stealing(late, 2, Network(2.0), first=20).busy == 12.25


@given(records())
def test_one_worker_in_order_takes_the_sum_and_many_the_longest_way(record: Record) -> None:
    everything = sum(one.seconds for one in record.pieces) + sum(event.seconds for event in record.events)
    assert in_order(record, 1).seconds == everything
    out: dict[int, float] = {}
    end = 0.0  # each event waits for the one before it, and a taken answer for its unit
    for event in record.events:
        end += event.seconds
        if event.unit >= 0 and event.taken:
            end = max(end, out[event.unit] + record.pieces[event.unit].seconds)
        elif event.unit >= 0:
            out[event.unit] = end
    assert in_order(record, 1000).seconds == end


@given(records(), st.integers(2, 6), st.integers(0, 20), st.integers(0, 20))
def test_more_workers_or_faster_messages_never_take_longer(record: Record, workers: int, one: int, other: int) -> None:
    less, more = sorted((float(one), float(other)))
    slow, fast = Network(more), Network(less)
    assert in_order(record, workers, fast).seconds <= in_order(record, workers, slow).seconds
    assert in_order(record, workers + 1, slow).seconds <= in_order(record, workers, slow).seconds
    assert in_order(record, workers, replace(fast, bandwidth=5.0)).seconds >= in_order(record, workers, fast).seconds
    assert in_order(record, workers).seconds <= in_order(record, 1).seconds


def test_what_is_recorded_is_the_search_itself_and_a_tree_where_there_is_room_for_all() -> None:
    lists = noise_of(3)
    outcomes, records = [], []
    with long_searches():
        for lanes in (8, scaling.TREE):
            plain = solve(Cells(lanes=lanes), Problem(lists))
            recorder = Recorder()
            with using(recorder):
                result = solve(Cells(lanes=lanes), Problem(lists))
            assert (result.loss, result.counters) == (plain.loss, plain.counters)
            outcomes.append(result)
            records.append(recorder.record(1))
    hands, tree = records
    assert outcomes[0].loss == outcomes[1].loss
    assert len(hands.pieces) > 10
    assert len(tree.pieces) > 10
    assert max(len(one.parents) for one in tree.pieces) == 1
    assert all(parent < k for record in records for k, one in enumerate(record.pieces) for parent in one.parents)
    for record in records:
        handed = [event.unit for event in record.events if not event.taken]
        taken = [event.unit for event in record.events if event.taken]
        assert handed == list(range(len(record.pieces)))
        assert taken == [*handed, -1]
        assert all(one.seconds >= 0 and one.sent > 0 and one.received > 0 for one in record.pieces)
        assert Record.of(json.loads(json.dumps(record.to_json()))) == record
        assert all(one.found is None or one.found < record.first for one in record.pieces)
    best = min(one.found for one in tree.pieces if one.found is not None)
    assert all(one.bound <= tree.first for one in tree.pieces)
    assert best < tree.first


def test_as_many_units_wait_for_those_who_are_far_as_the_search_keeps_at_home() -> None:
    assert scale.LOCAL_UNITS == cells_search._LOCAL_UNITS
    assert scale.SELECTIONS_LOCAL_UNITS == choices_shared._LOCAL_UNITS
    pieces = tuple(piece(10.0) for _ in range(4))
    events = [Event(0.0, k, False) for k in range(4)] + [Event(0.0, k, True) for k in range(4)]
    record = Record(pieces, (*events, Event(1.0, -1, True)), 0, 1, 0, at_home=2)
    assert in_order(record, 2).seconds == 21.0
    assert in_order(record, 2, Network()).seconds == 31.0  # 20 alone, then the others at once
    assert validation.idle(record, 2, Network()) == pytest.approx(1 - 20 / (2 * 11))


@pytest.mark.serial  # the times of two threads at once
@pytest.mark.parametrize("method", [Cells, Choices])
def test_runs_of_two_threads_keep_to_the_simulated_schedule(method: type[Cells | Choices]) -> None:
    lists = noise_of(3)
    records, walls = {}, {}
    with long_searches():
        for jobs in (1, 2):
            with workers_of("threads", jobs) as hands:
                recorder = Recorder(hands, packed=False)
                begin = time.perf_counter()
                with using(recorder):
                    result = solve(method(lanes=8), Problem(lists))
                walls[jobs] = time.perf_counter() - begin
                records[jobs] = recorder.record(1)
            assert result.status.proved
    one, two = records[1], records[2]
    assert len(one.pieces) == len(two.pieces) > 10
    assert [(event.unit, event.taken) for event in one.events] == [(event.unit, event.taken) for event in two.events]
    assert [each.bound for each in one.pieces] == [each.bound for each in two.pieces]
    assert {each.worker for each in one.pieces} == {0}
    assert {each.worker for each in two.pieces} <= {0, 1}
    assert validation.most_at_once(one) == 1
    assert validation.most_at_once(two) <= 2
    for jobs, record in records.items():
        # the schedule is the soonest one that these times allow
        assert in_order(record.by_wall, jobs).seconds <= walls[jobs] + 0.01
        assert all(each.end - each.begin >= each.seconds - 0.02 for each in record.pieces)
        assert in_order(record, 1).seconds == pytest.approx(record.done_alone + sum(e.seconds for e in record.pieces))
    begins = [each.begin for each in two.pieces]
    assert all(second >= first - 0.01 for first, second in pairwise(sorted(begins)))


def consistent(pieces: list[Piece]) -> list[Piece]:
    """Return a tree whose parts have no lower bound than what they are left of, and find nothing below it."""
    bounds: list[int] = []
    for one in pieces:
        bounds.append(max([one.bound, *(bounds[parent] for parent in one.parents)]))
    return [
        one._replace(bound=bound, found=bound + k % 4)
        for k, (one, bound) in enumerate(zip(pieces, bounds, strict=True))
    ]


@given(trees(), st.integers(1, 8), st.integers(0, 30))
def test_more_workers_never_do_fewer_units_than_have_to_be_done(
    pieces: list[Piece], workers: int, latency: int
) -> None:
    """Any search has to do the units with bounds below the optimum; best bound first, one worker does hardly more."""
    tree = consistent(pieces)
    first = max(one.bound for one in tree) + 5
    optimum = min(one.found for one in tree if one.found is not None)
    needed = sum(one.bound <= optimum - 1 for one in tree)
    outcome = stealing(tree, workers, Network(float(latency)), first=first)
    assert needed <= outcome.units <= len(tree)
    assert stealing(tree, 1, first=first).units <= sum(one.bound <= optimum for one in tree)


@given(records(), st.integers(1, 6))
def test_in_order_all_units_are_done_by_any_number_of_workers(record: Record, workers: int) -> None:
    outcome = in_order(record, workers)
    assert outcome.units == len(record.pieces)
    assert outcome.busy == record.done_in_units
    assert outcome.seconds >= max(record.done_in_units / workers, record.done_alone)


def test_descents_that_workers_begin_for_a_ratio_are_not_recorded_as_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.workers._WORTH_SHARING", 0.0)
    lists = counted(1, "bleu")
    plain = lpmert.minimize(lists, metric="bleu", method="och")
    handed: list[str] = []

    class Noted(Threads):
        def submit(self, unit: Unit[T], shared: Shared, *arguments: object) -> Pending[T]:
            handed.append(unit.__name__)
            return super().submit(unit, shared, *arguments)

    with Noted(2) as hands, using(recorder := Recorder(hands)):
        result = solve(Och(), Problem(lists, lpmert.metrics.Bleu()))
    assert result.loss == plain.loss
    assert "_descended" in handed  # else nothing is shown
    assert not recorder.record(1).pieces


def test_growth_has_the_interval_of_least_squares() -> None:
    sizes = np.array([10.0, 100.0, 1000.0, 10_000.0])
    exact = scaling.fitted([(size, 3.0 * size**1.5) for size in sizes])
    assert exact is not None
    assert (exact.slope, exact.reach) == (pytest.approx(1.5), pytest.approx(0.0, abs=1e-6))
    assert exact.at(1e6).value == pytest.approx(3e9)
    noise = np.array([0.1, -0.2, 0.15, -0.05])
    fit = scaling.fitted(zip(sizes, sizes * np.exp(noise), strict=True))
    assert fit is not None
    # by hand: x = log 10 (1, 2, 3, 4), the sum of squares about the mean is 5 log(10)^2; t of 2 degrees is 4.302653
    x = math.log(10) * np.array([-1.5, -0.5, 0.5, 1.5])
    slope = 1 + float(x @ noise) / (5 * math.log(10) ** 2)
    rest = noise - noise.mean() - (slope - 1) * x
    scatter = math.sqrt(float(rest @ rest) / 2)
    assert fit.slope == pytest.approx(slope)
    assert fit.reach == pytest.approx(4.302653 * scatter / math.sqrt(5) / math.log(10), rel=1e-6)
    there = fit.at(math.sqrt(1e5))  # the middle of all logarithms
    assert math.log(there.high / there.value) == pytest.approx(4.302653 * scatter * math.sqrt(1.25), rel=1e-6)
    assert there.low * there.high == pytest.approx(there.value**2)
    assert scaling.fitted([(1.0, 1.0), (2.0, 2.0), (3.0, 0.5)], least=0.5) is None


def test_an_enlarged_record_takes_as_many_times_longer() -> None:
    record = Record((piece(2.0, size=10),), (Event(1.0, 0, False), Event(0.5, 0, True), Event(0.25, -1, True)), 9, 1, 7)
    large = projection.enlarged(record, 70.0, 750.0, 1000.0)  # 250 of it for the report, and 200 times 2.5
    assert in_order(large, 1).seconds == 820.0
    assert in_order(large, 2, Network(bandwidth=100.0, far=False)).seconds == 70.0 + 100.0 + 400.0 + 100.0 + 250.0
    assert in_order(projection.without_start(large), 1).seconds == 750.0


def test_stages_are_those_of_one_search_and_files_hold_what_was_written() -> None:
    small = datasets.generated(4, 6, 3)
    task = next(iter(scale.tasks()))
    row = measure(replace(task, dataset=small, objective=Loss(), solver=Staged()))
    assert row.proved
    assert row.loss == lpmert.minimize(small.load(), method="exhaustive").loss
    assert list(row.details["stages"]) in (list(STAGES), [name for name in STAGES if name != BOUND])  # proved at once
    assert sum(part["seconds"] for part in row.details["stages"].values()) == pytest.approx(row.seconds, abs=0.2)
    assert row.details["stages"][CANONICAL]["held_bytes"] > 0
    for format in scaling.FORMATS:
        read = measure(replace(task, dataset=small, objective=File(format), solver=Reader()))
        assert read.status == "read"
        assert read.counters["hypotheses"] == 24
        assert read.details["file_bytes"] > 24
    wrong = File("tsv")
    wrong.prepare(small.load())
    wrong.read = datasets.generated(4, 6, 3, 1).load()
    with pytest.raises(ValueError, match="features that were read"):
        wrong.judge(small.load(), Reader().solve(small.load(), File("tsv", path=wrong.path), 0, 1.0))


def test_the_suite_runs_in_a_small_form_and_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = [datasets.generated(size, 8, 3) for size in (10, 20, 40)]
    kind = scaling.Kind("generated", (10, 20, 40), lambda size: small[(10, 20, 40).index(size)])
    nothing = scaling.Kind("none", (), lambda _: small[0])
    monkeypatch.setattr(scale, "SYNTHETIC", kind)
    monkeypatch.setattr(scale, "REAL", nothing)
    few = datasets.generated(12, 12, 5)
    monkeypatch.setattr(scale, "LONG", (scale.Long(few), scale.Long(datasets.generated(8, 12, 5), Choices, 0)))
    monkeypatch.setattr(scale, "LARGE", scale.Long(datasets.generated(14, 12, 5)))
    monkeypatch.setattr(scale, "ROUNDS", 1)
    wanted = replace(benchmark("scale"), apart=False)
    with long_searches():
        trouble = run(wanted, Wishes(solvers=("read", "cells", "1 *", "2 threads", "recorded*")), tmp_path, print)
    assert trouble == []
    rows = list(read_rows(tmp_path / "scale.jsonl").values())
    assert len(rows) == 3 * 4 + 2 * 2 + 3 * (len(scaling.LANES) + 1)  # stages, runs and records
    shown = list(wanted.render(rows))
    tables = {part.title: part for part in shown if isinstance(part, Table)}
    assert len(tables["Stages"].rows) == 3
    for title in ("costs", "schedule"):
        assert len(tables[f"Simulated and measured: {title}"].rows) == 4
    assert [row[:2] for row in tables["Simulated and measured: speed of two workers"].rows] == [
        ["generated-S12-N12-D5", "2 threads"],
        ["generated-S8-N12-D5", "2 threads"],
    ]
    simulated = tables["Simulated: 1 to 64 workers"].rows
    assert [row[1] for row in simulated] == 2 * [str(workers) for workers in scaling.WORKERS]
    assert simulated[0][6] == "1.00"
    for part in shown:
        if isinstance(part, Table):
            assert all(len(row) == len(part.headings) for row in part.rows), part.title
        else:
            from matplotlib.figure import Figure

            part.draw(Figure())


@needs_shared
def test_repeated_lists_are_the_real_ones_again_and_again() -> None:
    once, thrice = datasets.libri(3).load(), scale.real(3 * 85_920).load()
    assert thrice.n_hypotheses == 3 * once.n_hypotheses
    assert np.array_equal(thrice.features[85_920 : 2 * 85_920], once.features)
    weights = dict.fromkeys(once.names, 1.0)
    assert lpmert.evaluate(thrice, weights).loss == 3 * lpmert.evaluate(once, weights).loss
