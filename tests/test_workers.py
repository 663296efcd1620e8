"""Units of work give the same answers in threads and Dask clusters, and those of workers that die are done again."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import python
from long_searches import SLICE, counted, long_searches, noise_of, problem_of, same, search_lattices, with_workers
from searches import many_more, timeless

import lpmert
from lpmert import MethodError, Status
from lpmert.limits import Deadline, OutOfTime, heeding, out_of_time
from lpmert.methods import Och
from lpmert.workers import SERIAL, Cluster, Threads, Workers, checked_backend, current_workers, using_workers

OTHERS = ("threads", "cluster")
ALL = ("serial", "one thread", *OTHERS)
MORE = ("choices loss", "groups loss", "cells bleu", "choices bleu")
GOING: dict[str, tuple[str, Callable[[Any], object]]] = {
    "the Dask scheduler is gone": ("_CONNECT_SECONDS", lambda mortal: mortal.close()),
    "there are no workers, start `dask worker`": ("_WORKER_SECONDS", lambda mortal: mortal.scale(0)),
}
"""The warning, the time limit to shorten, and the cause: dead workers may never be restarted."""


def doubled(base: np.ndarray, more: np.ndarray) -> np.ndarray:
    """A unit; it may change its arguments."""
    assert base.flags.writeable
    assert more.flags.writeable
    return 2.0 * base + more


def failing(_: np.ndarray, text: str) -> None:
    raise MethodError(text)


def pid_of_unit(_: None) -> int:
    return os.getpid()


def tripled(number: int) -> np.ndarray:
    """A unit with a large answer, which takes a while to fetch."""
    return np.full(4_000_000, float(number))


class Killer:
    """A callback that kills a worker at random, at one call in so many, until so many have been killed."""

    def __init__(self, pids: Callable[[], Sequence[int]], times: int, every: int) -> None:
        self.pids, self.left, self.every, self.calls = pids, times, every, 0
        self.killed: set[int] = set()
        self.rng = np.random.default_rng(times)

    def __call__(self, _: object = None) -> bool:
        self.calls += 1
        alive = [pid for pid in self.pids() if pid and pid not in self.killed]
        if self.left and alive and self.rng.random() < 1 / self.every:
            victim = int(self.rng.choice(alive))
            with suppress(ProcessLookupError):  # it has ended already, which is not known yet
                os.kill(victim, signal.SIGKILL)
                self.left -= 1
            self.killed.add(victim)
        return False


def address_of(local: Any) -> str:
    return str(local.scheduler_address).removeprefix("tcp://")


@pytest.fixture
def workers(request: pytest.FixtureRequest) -> Iterator[Workers]:
    made = {"serial": Workers, "one thread": lambda: Threads(1), "threads": lambda: Threads(3)}
    made["cluster"] = lambda: Cluster(address_of(request.getfixturevalue("local")))
    with made[request.param]() as found:
        yield found


@pytest.mark.parametrize("workers", ALL, indirect=True)
def test_answers_come_in_order_from_what_is_shared_and_errors_are_raised(workers: Workers) -> None:
    base = np.arange(100_000.0)
    shared = workers.share(base)
    answers = list(workers.map(doubled, shared, [(np.full(100_000, float(k)),) for k in range(5)]))
    assert all(np.array_equal(answer, 2.0 * base + k) for k, answer in enumerate(answers))
    with pytest.raises(MethodError, match="no good"):
        workers.submit(failing, shared, "no good").wait()


def test_waiting_ends_at_the_deadline_and_threads_heed_it_and_do_their_units_alone() -> None:
    with Threads(1) as workers, Deadline(0.1).running(), heeding():
        pending = workers.submit(time.sleep, workers.share(1.0))
        with pytest.raises(OutOfTime):
            pending.wait()
    with using_workers("threads", 2) as workers, Deadline(0.0).running():
        found = workers.submit(lambda _: (out_of_time(), current_workers()), workers.share(None)).wait()
        assert found == (True, SERIAL)


def test_an_abort_takes_temporary_folders(tmp_path: Path) -> None:
    program = (
        "from lpmert import files, limits; import os\n"
        f"with files.scratch_folder():\n    assert len(os.listdir({str(tmp_path)!r})) == 1\n"
        "    limits.abort(15, None)\n"
    )
    assert python("-c", program, code=143, TMPDIR=str(tmp_path)).stderr == "lpmert: interrupted\n"
    assert list(tmp_path.iterdir()) == []


class Dying(Workers):
    """Workers that die with each unit."""

    begun, death_errors = 0, (CancelledError,)

    def begin(self, *_: Any) -> Future[Any]:
        self.begun += 1
        future: Future[Any] = Future()
        future.set_exception(CancelledError())
        return future


def test_a_unit_that_kills_every_worker_is_done_by_the_caller_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.workers._MOST_DEATHS", 3)
    workers = Dying()
    assert workers.submit(divmod, workers.share(7), 2).wait() == (3, 1)
    assert workers.begun == 3


def test_backends_are_known_by_name() -> None:
    for name in ("fibers", "processes", "dask://", "dask://here", "dask://:1", "dask://here:port"):
        with pytest.raises(MethodError, match=r"neither threads nor dask://HOST:PORT; for processes .*`dask worker`"):
            checked_backend(name)
    assert current_workers() is SERIAL
    with using_workers("threads", 2) as workers:
        assert current_workers() is workers
    assert current_workers() is SERIAL


@pytest.mark.parametrize("workers", ["one thread", *OTHERS], indirect=True)
@pytest.mark.parametrize("metric", ["wer", "bleu"])
def test_lattices_are_searched_alike_by_all_workers(metric: str, workers: Workers) -> None:
    with long_searches():
        alone = search_lattices(1, metric)
        assert (alone.status, alone.counters["lattice_cones"] > 10) == (Status.OPTIMAL, True)
        with with_workers(workers), using_workers("threads", 2):
            assert same(alone, search_lattices(1, metric))


@pytest.mark.parametrize("what", ["folds", "methods"])
def test_folds_and_methods_are_searched_alike_by_all_workers(what: str) -> None:
    nbest = problem_of(1, 24, 3)

    def found(**settings: object) -> object:
        if what == "folds":
            tuned = lpmert.tune(nbest, folds=4)
            return tuned.weights.tolist(), tuned.estimate
        own = {"own": lambda lists, seed: [1.0, seed, lists.n_lists]}
        named = {"och": Och(restarts=2), "average": "average"}
        compared = lpmert.compare(nbest, named, seeds=2, cv=3, repeat=1, callables=own, **settings).to_dict()
        return timeless(compared)

    alone = found()
    for workers in (Threads(1), Threads(2), Threads(3)):
        with with_workers(workers):
            assert found(jobs=2) == alone


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_a_comparison_whose_runs_are_in_threads() -> None:
    first, ended = threading.Event(), threading.Event()

    def forever(_: object, seed: int) -> list[float]:
        if seed == 0:
            return [1.0, 2.0, 3.0]
        assert first.wait(60.0)
        if seed == 1:
            os.kill(os.getpid(), signal.SIGINT)
        latest = time.monotonic() + 60.0
        while time.monotonic() < latest:
            if out_of_time():
                ended.set()
                break
            time.sleep(0.01)
        return [1.0, 1.0, 1.0]

    def see(name: str, _: object) -> None:
        if name == "own":
            first.set()

    own = {"own": forever}
    found = lpmert.compare(problem_of(1, 24, 3), ["grid"], seeds=5, callables=own, jobs=2, on_run=see)
    assert (found.complete, len(found["own"].runs)) == (False, 1)
    assert ended.wait(20.0)


@pytest.mark.parametrize("method", ["grid", "lp-mert", "och", "nelder-mead", "groups", "cells", "choices", "average"])
def test_methods_that_use_one_thread_log_a_warning(method: str, caplog: pytest.LogCaptureFixture) -> None:
    lpmert.minimize(problem_of(1, 4, 2), method=method, jobs=2)
    warned = f"jobs=2: method '{method}' searches in one thread" in caplog.text
    assert warned == (method in ("grid", "lp-mert", "och", "nelder-mead"))


def test_a_search_ends_at_the_deadline_of_its_caller() -> None:
    nbest = noise_of(3, 40, 6)
    lpmert.minimize(nbest, method="cells", node_limit=1)
    with Deadline(0.3).running():
        found = lpmert.minimize(nbest, method="cells", time_limit=60.0)
    assert (found.status, found.seconds["total"] < 20.0) == (Status.TIME_LIMIT, True)


@pytest.mark.parametrize("kills", [2, many_more(4)])
@pytest.mark.parametrize("kind", ["cells loss", "choices chrf", *map(many_more, MORE)])
def test_workers_of_a_cluster_that_die_change_nothing(mortal: Any, kind: str, kills: int) -> None:
    """Searches go on until so many have been killed."""

    def pids() -> list[int]:
        return [one.pid for one in mortal.workers.values() if one.worker_address in mortal.scheduler.workers]

    method, metric = kind.split()
    nbest = noise_of(3) if metric == "loss" else counted(3, metric)
    kill = Killer(pids, kills, every=2)
    with Cluster(address_of(mortal)) as workers, long_searches(20 * SLICE):
        alone = lpmert.minimize(nbest, method=method, metric=metric)
        assert alone.status is Status.OPTIMAL
        for _ in range(4 * kills):
            if kill.left:
                with with_workers(workers):
                    assert same(alone, lpmert.minimize(nbest, method=method, metric=metric, callback=kill))
    assert not kill.left, f"{kill.left} of {kills} workers were not killed in {kill.calls} calls"


@pytest.mark.parametrize("call", [3, *map(many_more, (1, 8))])
@pytest.mark.parametrize("said", GOING)
def test_a_scheduler_or_workers_that_go_for_good_change_nothing(call, said, distributed, monkeypatch, caplog):
    waiting, end = GOING[said]
    monkeypatch.setattr(f"lpmert.workers.{waiting}", 1)
    nbest, calls = noise_of(3), count(1)
    with long_searches(20 * SLICE), distributed.LocalCluster(n_workers=1, dashboard_address=None) as mortal:
        alone = lpmert.minimize(nbest, method="cells")

        def leave(_: object) -> None:
            if next(calls) == call:
                end(mortal)

        backend = f"dask://{address_of(mortal)}"
        found = lpmert.minimize(nbest, method="cells", backend=backend, callback=leave)
    assert next(calls) > call
    assert same(alone, found)
    assert said_by(caplog) == [f"{backend}: {said}; this process goes on alone"]


def said_by(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.message for one in caplog.records if one.name == "lpmert" and one.levelname == "WARNING"]


def test_workers_that_come_back_are_used_again(distributed, monkeypatch, caplog):
    monkeypatch.setattr("lpmert.workers._WORKER_SECONDS", 1)
    with (
        distributed.LocalCluster(n_workers=1, dashboard_address=None, host="127.0.0.1") as local,
        Cluster(address_of(local)) as workers,
    ):
        shared, own = workers.share(None), os.getpid()
        assert workers.submit(pid_of_unit, shared).wait() != own
        local.scale(0)
        while local.scheduler.workers:  # which may still take a unit until they have left
            time.sleep(0.1)
        assert workers.submit(pid_of_unit, shared).wait() == own
        assert len(said_by(caplog)) == 1
        local.scale(1)
        local.wait_for_workers(1, timeout=60)
        while workers.absent():
            time.sleep(0.1)
        assert workers.submit(pid_of_unit, shared).wait() != own


def test_a_cluster_without_workers_leaves_units_to_the_caller_but_first_comes_the_limit(
    distributed, monkeypatch, caplog
):
    with long_searches(), distributed.LocalCluster(n_workers=0, dashboard_address=None, host="127.0.0.1") as local:
        backend = f"dask://{address_of(local)}"
        began = time.monotonic()
        found = lpmert.minimize(noise_of(3), method="cells", backend=backend, time_limit=1.0)
        assert (found.status, time.monotonic() - began < 40.0) == (Status.TIME_LIMIT, True)
        monkeypatch.setattr("lpmert.workers._WORKER_SECONDS", 1)
        alone, found = (lpmert.minimize(noise_of(3), method="cells", **own) for own in ({}, {"backend": backend}))
        assert same(alone, found)
        said = "there are no workers, start `dask worker`; this process goes on alone"
        assert said_by(caplog) == [f"{backend}: {said}"]


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "while it is fetched"])
def test_an_answer_whose_worker_dies_while_it_is_fetched_comes_all_the_same(mortal: Any, moment: str) -> None:
    """Dask has the answer, and loses it with its worker: then it is computed again."""
    with Cluster(address_of(mortal)) as workers:
        shared = workers.share(3)
        task = workers._client.submit(tripled, 3, pure=False)
        while not task.done():
            time.sleep(0.05)
        (holder,) = workers._client.who_has(task)[task.key]
        (nanny,) = [one for one in mortal.workers.values() if one.worker_address == holder]
        future: Future[Any] = Future()
        if moment == "before":
            os.kill(nanny.pid, signal.SIGKILL)
        workers._client.loop.add_callback(lpmert.workers._deliver, workers._client, task, future)
        if moment != "before":
            os.kill(nanny.pid, signal.SIGKILL)
        assert future.result(timeout=120).sum() == 3 * 4_000_000
        assert workers.submit(tripled, shared).wait().sum() == 3 * 4_000_000


def test_an_unreachable_scheduler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpmert.workers._CONNECT_SECONDS", 1)
    with pytest.raises(MethodError, match="no Dask scheduler answers there"):
        lpmert.minimize(noise_of(3), backend="dask://127.0.0.1:9")
