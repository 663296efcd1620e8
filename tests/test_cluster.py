"""A Dask cluster searches as one thread does, whichever of its workers die."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from typing import Any

import numpy as np
import pytest
from long_searches import SLICE, counted, long_searches, noise_of, same, search_lattices

import lpmert
from lpmert import MethodError, Status
from lpmert.workers import Cluster, _hand_over, using_workers


@pytest.fixture(scope="module")
def distributed() -> Any:
    """The library, which takes long to import."""
    return pytest.importorskip("distributed", reason="needs lpmert[dask]")


@pytest.fixture(scope="module")
def local(distributed: Any) -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as found:
        yield found


def address_of(local: Any) -> str:
    return str(local.scheduler_address).removeprefix("tcp://")


def doubled(base: np.ndarray, more: np.ndarray) -> np.ndarray:
    """A unit; what it is called with is its own to change."""
    assert base.flags.writeable
    assert more.flags.writeable
    return 2.0 * base + more


def failing(_: object, number: int) -> int:
    if number == 13:
        raise ValueError("thirteen")
    return number


def test_units_get_what_is_shared_and_their_own(local: Any) -> None:
    base = np.arange(100_000.0)
    with Cluster(address_of(local)) as workers:
        assert workers.jobs == 2
        answers = list(workers.map(doubled, workers.share(base), [(np.full(100_000, float(k)),) for k in range(3)]))
    assert all(np.array_equal(answer, 2.0 * base + k) for k, answer in enumerate(answers))


def test_an_error_in_a_unit_is_raised(local: Any) -> None:
    with Cluster(address_of(local)) as workers:
        shared = workers.share(None)
        assert workers.submit(failing, shared, 12).wait() == 12
        with pytest.raises(ValueError, match="thirteen"):
            workers.submit(failing, shared, 13).wait()


KINDS = (("cells", "loss"), ("choices", "loss"), ("cells", "bleu"), ("choices", "bleu"), ("choices", "chrf"))


def lists_for(metric: str) -> lpmert.NBest:
    return noise_of(3) if metric == "loss" else counted(3, metric)


@pytest.mark.parametrize(("method", "metric"), KINDS)
def test_a_cluster_searches_as_one_thread_does(local: Any, method: str, metric: str) -> None:
    nbest = lists_for(metric)
    with long_searches(20 * SLICE):
        alone = lpmert.minimize(nbest, method=method, metric=metric)
        found = lpmert.minimize(nbest, method=method, metric=metric, backend=f"dask://{address_of(local)}")
    assert alone.status is Status.OPTIMAL
    assert same(alone, found)


def test_a_cluster_searches_lattices_as_one_thread_does(local: Any) -> None:
    with long_searches():
        alone = search_lattices(2, "wer")
        with using_workers(f"dask://{address_of(local)}", 1):
            assert same(alone, search_lattices(2, "wer"))


class Killer:
    """A callback that kills a worker of the cluster at random, at one call in three, until so many have been killed."""

    def __init__(self, local: Any, times: int) -> None:
        self.local, self.left, self.calls = local, times, 0
        self.killed: set[int] = set()
        self.rng = np.random.default_rng(times)

    def __call__(self, _: object) -> bool:
        self.calls += 1
        if self.left and self.rng.random() < 1 / 3:
            pids = [nanny.pid for nanny in self.local.workers.values() if nanny.pid]
            alive = [pid for pid in pids if pid not in self.killed]
            if alive:
                victim = int(self.rng.choice(alive))
                with suppress(ProcessLookupError):  # it is gone already, and nobody knows yet
                    os.kill(victim, signal.SIGKILL)
                    self.left -= 1
                self.killed.add(victim)
        return False


def check_kills(local: Any, method: str, metric: str, kills: int) -> None:
    """Search until so many workers have been killed, and see whether anything is lost."""
    own: dict[str, Any] = {"method": method, "metric": metric}
    nbest, kill = lists_for(metric), Killer(local, kills)
    with long_searches(20 * SLICE):
        alone = lpmert.minimize(nbest, **own)
        assert alone.status is Status.OPTIMAL
        for _ in range(4 * kills):
            assert same(alone, lpmert.minimize(nbest, **own, backend=f"dask://{address_of(local)}", callback=kill))
            if not kill.left:
                return
    raise AssertionError(f"{kill.left} of {kills} workers were not killed in {kill.calls} calls")


@pytest.mark.parametrize(("method", "metric"), [("cells", "loss"), ("choices", "bleu")])
def test_workers_that_die_change_nothing(local: Any, method: str, metric: str) -> None:
    check_kills(local, method, metric, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "metric"), KINDS)
def test_many_workers_that_die_change_nothing(local: Any, method: str, metric: str) -> None:
    check_kills(local, method, metric, 4)


@pytest.mark.parametrize("call", [1, 3, 8])
def test_a_scheduler_that_dies_changes_nothing(
    call: int, distributed: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lpmert.workers._CONNECT_SECONDS", 1)
    nbest, calls = lists_for("loss"), count(1)
    with long_searches(20 * SLICE), distributed.LocalCluster(n_workers=1, dashboard_address=None) as mortal:
        alone = lpmert.minimize(nbest, method="cells")

        def kill(_: object) -> None:
            if next(calls) == call:
                mortal.close()

        backend = f"dask://{address_of(mortal)}"
        found = lpmert.minimize(nbest, method="cells", backend=backend, callback=kill)
    assert next(calls) > call
    assert same(alone, found)
    assert said_by(caplog) == [f"{backend}: the Dask scheduler is gone; this process goes on alone"]


def said_by(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.message for one in caplog.records if one.name == "lpmert" and one.levelname == "WARNING"]


@pytest.mark.parametrize("call", [1, 3])
def test_workers_that_all_go_for_good_change_nothing(
    distributed: Any, call: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What starts Dask's workers gives up on one that dies while it starts: some day there are none."""
    monkeypatch.setattr("lpmert.workers._WORKER_SECONDS", 2)
    nbest, calls = lists_for("loss"), count(1)
    with long_searches(20 * SLICE), distributed.LocalCluster(n_workers=1, dashboard_address=None) as mortal:
        alone = lpmert.minimize(nbest, method="cells")

        def leave(_: object) -> None:
            if next(calls) == call:
                mortal.scale(0)

        backend = f"dask://{address_of(mortal)}"
        found = lpmert.minimize(nbest, method="cells", backend=backend, callback=leave)
    assert next(calls) > call
    assert same(alone, found)
    assert said_by(caplog) == [f"{backend}: there are no workers any more; this process goes on alone"]


def test_workers_that_come_back_are_used_again(
    distributed: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lpmert.workers._WORKER_SECONDS", 1)
    with (
        distributed.LocalCluster(n_workers=1, dashboard_address=None, host="127.0.0.1") as local,
        Cluster(address_of(local)) as workers,
    ):
        shared = workers.share(os.getpid())
        assert not workers.submit(in_process, shared).wait()
        local.scale(0)
        assert workers.submit(in_process, shared).wait()
        assert len(said_by(caplog)) == 1
        local.scale(1)
        local.wait_for_workers(1, timeout=60)
        while workers.absent():
            time.sleep(0.1)
        assert not workers.submit(in_process, shared).wait()


def in_process(number: int) -> bool:
    """A unit: whether it is done in the process of this number."""
    return os.getpid() == number


def test_a_cluster_without_workers_is_refused_but_the_time_limit_comes_first(
    distributed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        long_searches(),
        distributed.LocalCluster(n_workers=0, dashboard_address=None, host="127.0.0.1") as local,
    ):
        backend = f"dask://{address_of(local)}"
        began = time.monotonic()
        found = lpmert.minimize(noise_of(3), method="cells", backend=backend, time_limit=1.0)
        assert found.status is Status.TIME_LIMIT
        assert time.monotonic() - began < 40.0
        monkeypatch.setattr("lpmert.workers._WORKER_SECONDS", 1)
        with pytest.raises(MethodError, match="no workers that data could be sent to"):
            lpmert.minimize(noise_of(3), method="cells", backend=backend)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "while it is fetched"])
def test_an_answer_whose_worker_dies_while_it_is_fetched_comes_all_the_same(local: Any, moment: str) -> None:
    """Dask knows the answer, and loses it with its worker: then it is made again."""
    with Cluster(address_of(local)) as workers:
        shared = workers.share(3)
        task = workers._client.submit(tripled, 3, pure=False)
        while not task.done():
            time.sleep(0.05)
        (holder,) = workers._client.who_has(task)[task.key]
        (nanny,) = [one for one in local.workers.values() if one.worker_address == holder]
        future: Future[Any] = Future()
        if moment == "before":
            os.kill(nanny.pid, signal.SIGKILL)
        workers._client.loop.add_callback(_hand_over, workers._client, task, future)
        if moment != "before":
            os.kill(nanny.pid, signal.SIGKILL)
        assert future.result(timeout=120).sum() == 3 * 4_000_000
        assert workers.submit(failing, shared, 12).wait() == 12


def tripled(number: int) -> np.ndarray:
    """A unit with a large answer, which takes a while to fetch."""
    return np.full(4_000_000, float(number))


def test_where_no_scheduler_answers_that_is_said() -> None:
    with pytest.raises(MethodError, match="no Dask scheduler answers there"):
        lpmert.minimize(noise_of(3), backend="dask://127.0.0.1:9")
