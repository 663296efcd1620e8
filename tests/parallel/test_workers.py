"""Units of work give the same answers wherever they are done, and those of workers that die are done again."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
from long_searches import SLICE, long_searches, noise_of, problem_of, same, search_lattices

import lpmert
from lpmert import Status
from lpmert.errors import MethodError
from lpmert.methods.heuristic.och import Och
from lpmert.parallel.backends import checked_backend, hired, workers, workers_of
from lpmert.parallel.processes import Processes
from lpmert.parallel.workers import SERIAL, Serial, Threads, Workers
from lpmert.system.deadline import Deadline, OutOfTime, heeding, out_of_time
from lpmert.unseen.estimate import expected_of


def scaled(base: np.ndarray, factor: float) -> np.ndarray:
    """A unit; what it is called with is its own to change."""
    assert base.flags.writeable
    return base * factor


def slow(base: np.ndarray, seconds: float) -> float:
    time.sleep(seconds)
    return float(base.sum())


def failing(_: np.ndarray, text: str) -> None:
    raise MethodError(text)


def pids_of(hands: Processes) -> list[int]:
    return [] if hands._pool is None else list(hands._pool._processes)


@contextmanager
def killed_at_random(hands: Processes, times: int, seed: int) -> Iterator[list[int]]:
    """Kill one of the workers, so many times, at random moments."""
    rng = np.random.default_rng(seed)
    killed: list[int] = []
    stop = threading.Event()

    def kill() -> None:
        while len(killed) < times and not stop.wait(rng.uniform(0.0, 3.0)):
            running = [pid for pid in pids_of(hands) if pid not in killed]
            if running:
                victim = int(rng.choice(running))
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        stop.set()
        thread.join()


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Two processes, which take a while to start."""
    with Processes(2) as found:
        yield found


@pytest.fixture(params=["serial", "threads", "processes"])
def hands(request: pytest.FixtureRequest) -> Iterator[Workers]:
    if request.param == "processes":
        yield request.getfixturevalue("processes")
        return
    with Serial() if request.param == "serial" else Threads(2) as found:
        yield found


def test_answers_come_in_order_from_what_is_shared(hands: Workers) -> None:
    base = np.arange(1000.0)
    shared = hands.share(base)
    answers = list(hands.each(scaled, shared, [(float(k),) for k in range(5)]))
    assert all(np.array_equal(answer, k * base) for k, answer in enumerate(answers))


def test_an_error_in_a_unit_is_raised(hands: Workers) -> None:
    pending = hands.hand_out(failing, hands.share(np.ones(1)), "no good")
    with pytest.raises(MethodError, match="no good"):
        pending.wait()


def test_whoever_waits_heeds_the_deadline() -> None:
    with Threads(1) as hands, Deadline(0.1).running(), heeding():
        pending = hands.hand_out(slow, hands.share(np.ones(1)), 1.0)
        with pytest.raises(OutOfTime):
            pending.wait()


def test_units_of_killed_workers_are_done_again() -> None:
    with Processes(2) as hands:
        shared = hands.share(np.ones(3))
        with killed_at_random(hands, 3, seed=1) as killed:
            pending = [hands.hand_out(slow, shared, 0.3) for _ in range(6)]
            assert [one.wait() for one in pending] == [3.0] * 6
        assert killed


def test_a_unit_that_kills_every_worker_is_done_by_the_caller_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.parallel.processes._MOST_DEATHS", 2)
    with Processes(1) as hands:
        pending = hands.hand_out(deadly, hands.share(os.getpid()))
        assert pending.wait() == "survived"


def deadly(parent: int) -> str:
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


def test_backends_are_known_by_name() -> None:
    assert workers_of("processes", 1) is SERIAL
    for name in ("fibers", "dask://", "dask://here", "dask://:1", "dask://here:port"):
        with pytest.raises(MethodError, match="threads, processes, dask://HOST:PORT"):
            checked_backend(name)
    assert workers() is SERIAL
    with hired("threads", 2) as hands:
        assert workers() is hands
    assert workers() is SERIAL


@pytest.mark.parametrize("method", ["cells", "choices", "auto"])
def test_processes_search_as_one_thread_does(method: str, processes: Processes) -> None:
    with long_searches(20 * SLICE), using(processes):
        nbest = noise_of(3)
        with using(SERIAL):
            alone = lpmert.minimize(nbest, method=method)
        assert alone.status is Status.OPTIMAL
        assert same(alone, lpmert.minimize(nbest, method=method))


@pytest.mark.parametrize("metric", ["wer", "bleu"])
def test_lattices_are_searched_alike_by_all_workers(metric: str, processes: Processes) -> None:
    with long_searches():
        alone = search_lattices(1, metric)
        assert alone.status is Status.OPTIMAL
        assert alone.counters["lattice_cones"] > 10
        for hands in (Threads(1), Threads(3), processes):
            with using(hands), hired("threads", 2):
                assert same(alone, search_lattices(1, metric))


def test_folds_are_fitted_alike_by_all_workers(processes: Processes) -> None:
    nbest = problem_of(1, 24, 3)

    def found() -> tuple[object, ...]:
        tuned = lpmert.tune(nbest, folds=4)
        assert tuned.estimate is not None
        return tuned.weights.tolist(), tuned.estimate.to_dict(), expected_of(nbest, Och(restarts=2), folds=4)

    alone = found()
    for hands in (Threads(1), Threads(2), Threads(3), processes):
        with using(hands):
            assert found() == alone


def test_threads_heed_the_deadline_and_do_their_units_alone() -> None:
    with hired("threads", 2) as hands, Deadline(0.0).running():
        assert hands.hand_out(surroundings, hands.share(None)).wait() == (True, True)


def surroundings(_: None) -> tuple[bool, bool]:
    return out_of_time(), workers() is SERIAL


def check_kills(method: str, kills: int) -> None:
    """Search with workers that are killed until so many have been, and see whether anything is lost."""
    with long_searches(20 * SLICE), Processes(2) as hands, killed_at_random(hands, kills, seed=kills) as killed:
        nbest = noise_of(3)
        alone = lpmert.minimize(nbest, method=method)
        while len(killed) < kills:
            with using(hands):
                assert same(alone, lpmert.minimize(nbest, method=method))


@contextmanager
def using(hands: Workers) -> Iterator[None]:
    """Have the searches of the block use these workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lpmert.parallel.backends.workers_of", lambda *_: nullcontext(hands))
        yield


@pytest.mark.parametrize("method", ["cells", "choices"])
def test_killed_workers_change_nothing(method: str) -> None:
    check_kills(method, 2)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cells", "choices"])
def test_many_killed_workers_change_nothing(method: str) -> None:
    check_kills(method, 15)
