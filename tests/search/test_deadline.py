"""The clock of a call stands still while kernels are compiled, and work given up in the middle leaves valid results."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import pytest
from numba.core import event
from strategies import SUMS, Lists

import lpmert
from lpmert import Result, Status
from lpmert.methods.mip import Mip
from lpmert.model.problem import Problem
from lpmert.system.compilation import Compilation, compilation
from lpmert.system.deadline import Deadline, OutOfTime, checkpoint, heeding, out_of_time, time_left, unheeded

PAUSE = 0.05


def compiling() -> object:
    return event.trigger_event("numba:compile", data={"dispatcher": compiling})


@pytest.mark.serial
def test_time_spent_compiling_does_not_count() -> None:
    deadline = Deadline(1.0)
    with compiling(), compiling():  # a kernel that calls another one
        time.sleep(PAUSE)
        within = deadline.compiling
    assert 0.5 * PAUSE < within <= deadline.compiling
    assert deadline.compiling >= PAUSE
    compiled, before = deadline.compiling, time.perf_counter()
    seconds = deadline.seconds
    after = time.perf_counter()
    assert before - deadline.started - compiled <= seconds <= after - deadline.started - compiled
    time.sleep(PAUSE)
    assert deadline.seconds >= PAUSE


@pytest.mark.serial
def test_compiling_before_the_start_is_not_taken_off() -> None:
    before = time.perf_counter()
    with compiling():
        time.sleep(PAUSE)
    assert Deadline(1.0).compiling == 0.0
    since = Deadline(1.0, before)
    assert PAUSE <= since.compiling <= time.perf_counter() - before


@pytest.mark.serial
def test_compiling_in_two_threads_counts_once() -> None:
    deadline = Deadline(1.0)

    def compile_something() -> None:
        with compiling():
            time.sleep(PAUSE)

    threads = [threading.Thread(target=compile_something) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert PAUSE <= deadline.compiling <= time.perf_counter() - deadline.started


def test_what_was_being_compiled_before_anybody_listened_stops_no_clock() -> None:
    compilation().end("somebody.else")
    deadline = Deadline(PAUSE)
    time.sleep(2 * PAUSE)
    assert deadline.expired
    test_time_spent_compiling_does_not_count()


def test_compiling_is_named_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation(), "_said", False)
    for name in ("somebody.else", "lpmert.numeric.kernels.plus", "lpmert.numeric.lp.pivot"):
        compilation().begin(name)
        compilation().end(name)
    assert [record.message for record in caplog.records] == [
        "compiling kernels, once; this does not count as time spent"
    ]


@pytest.mark.serial
def test_what_another_process_compiles_counts_as_if_it_were_this_one() -> None:
    one = Compilation()
    seen: list[tuple[int, int]] = []
    with one.watched(lambda *counts: seen.append(counts)):
        one.need(["outer", "inner", "last"])
        with one.waiting("outer"):
            assert one.running
            one.compiled_elsewhere(["inner", "of no use"])
            one.compiled_elsewhere(["inner"])
        one.compiled_elsewhere(["outer", "inner"])
        one.found("outer")
    assert seen == [(1, 3), (2, 3)]
    assert one.seconds_until(time.perf_counter()) > 0.0
    assert not one.running


def test_kernels_are_counted_as_they_are_compiled() -> None:
    one = Compilation()
    seen: list[tuple[int, int]] = []
    with one.watched(lambda *counts: seen.append(counts)):
        one.need(["outer", "inner", "kept"])
        one.begin("outer")
        one.begin("inner")
        one.need(["a part of it"])  # which the outer one has counted
        one.end("inner")
        one.found("kept")
        one.begin("somebody else's")
        one.end("somebody else's")
        one.end("outer")
        one.need(["next"])
        one.begin("next")
        one.end("next")
    one.begin("unwatched")
    one.end("unwatched")
    assert seen == [(1, 3), (1, 2), (2, 2), (3, 3)]


def test_garbage_is_looked_for_rarely_while_kernels_are_compiled_and_as_before_afterwards() -> None:
    usual = gc.get_threshold()
    one = Compilation()
    try:
        gc.set_threshold(700, 7, 3)
        one.begin("outer")
        one.begin("inner")
        one.end("inner")
        assert gc.get_threshold() == (100_000, 7, 3)
        one.end("outer")
        assert gc.get_threshold() == (700, 7, 3)
        gc.set_threshold(0)  # never: whoever said so is heeded
        one.begin("another")
        assert gc.get_threshold()[0] == 0
        one.end("another")
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*usual)


def test_a_checkpoint_raises_only_where_somebody_heeds_it() -> None:
    checkpoint()
    assert not out_of_time()
    assert time_left() is None
    with Deadline(0.0).running():
        assert out_of_time()
        assert time_left() is None  # exact arithmetic would take over from a linear program cut short, without an end
        checkpoint()
        with heeding():
            assert time_left() == 0.0
            with pytest.raises(OutOfTime):
                checkpoint()
            with unheeded():  # as in the caller's own code
                checkpoint()
                assert not out_of_time()
    with Deadline(None, stop=lambda: True).running(), heeding(), pytest.raises(OutOfTime):
        checkpoint()
    with Deadline(100.0).running() as deadline, heeding():
        checkpoint()
        assert not out_of_time()
        assert 0.0 < deadline.later(50.0).left - 50.0 <= 100.0
    assert not out_of_time()


rng = np.random.default_rng(3)
SMALL = Lists(
    np.vstack([rng.integers(-3, 4, (18, 3)), 1e-9 * rng.integers(-3, 4, (6, 3)) + 1.0]).astype(float),
    np.arange(0, 25, 4),
    rng.integers(0, 9, 24).astype(float),
)


def questions(method: object, monkeypatch: pytest.MonkeyPatch, most: int | None) -> tuple[Result, int]:
    """Return the result of a run whose clock answers that the time is up after so many questions, and how many came."""
    asked = 0

    def expired(self: Deadline) -> bool:
        nonlocal asked
        if self.limit is None:
            return False
        asked += 1
        return most is not None and asked > most

    with monkeypatch.context() as patch:
        patch.setattr(Deadline, "expired", property(expired))
        return lpmert.minimize(SMALL.nbest, method=method, time_limit=1e6), asked


@pytest.mark.parametrize("method", [*SUMS, "subspace", "beam", "och"])
def test_work_given_up_anywhere_leaves_valid_weights_and_bounds(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    optimum = lpmert.minimize(SMALL.nbest, method="exhaustive")
    assert optimum.status.proved
    whole, asked = questions(method, monkeypatch, None)
    assert asked > 2
    problem = Problem(SMALL.nbest)
    stopped = 0
    for most in sorted({*range(12), *np.linspace(12, asked, 25).astype(int).tolist()}):
        result, _ = questions(method, monkeypatch, most)
        assert result.loss == problem.evaluate(result.weights).loss >= optimum.loss
        stopped += result.status is Status.TIME_LIMIT
        if method in SUMS:
            assert result.lower_bound is not None
            assert result.lower_bound <= optimum.loss
            assert result.status is Status.TIME_LIMIT or result.loss == optimum.loss
        for (_, bound0, loss0), (_, bound1, loss1) in zip(result.trace, result.trace[1:], strict=False):
            assert (bound0 or 0) <= (bound1 or 0) <= loss1 <= loss0
    assert stopped > 2
    again, _ = questions(method, monkeypatch, 10**9)
    assert again.weights.tolist() == whole.weights.tolist()
    assert dict(again.counters) == dict(whole.counters)


def test_a_solver_of_others_gets_the_time_that_is_left() -> None:
    lists = np.random.default_rng(0)
    features = lists.normal(size=(600, 6))
    nbest = lpmert.NBest(features, np.arange(0, 601, 20), lists.integers(0, 9, 600).astype(float))
    lpmert.minimize(nbest.restrict(slice(0, 2)), method=Mip())  # loads the solver
    began = time.process_time()
    result = lpmert.minimize(nbest, method=Mip(), time_limit=1.0)
    assert result.status is Status.TIME_LIMIT
    assert time.process_time() - began - result.seconds.get("compile", 0.0) < 5.0
