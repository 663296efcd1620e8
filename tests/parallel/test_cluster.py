"""A Dask cluster searches as one thread does, whichever of its workers die."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from long_searches import SLICE, long_searches, noise_of, same, search_lattices

import lpmert
from lpmert import MethodError, Status
from lpmert.parallel.backends import hired
from lpmert.parallel.cluster import Cluster

distributed = pytest.importorskip("distributed", reason="needs lpmert[dask]")


@pytest.fixture(scope="module")
def local() -> Iterator[Any]:
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


def test_units_get_what_is_shared_and_their_own(local: Any) -> None:
    base = np.arange(100_000.0)
    with Cluster(address_of(local)) as hands:
        assert hands.jobs == 2
        assert not hands.pids
        answers = list(hands.each(doubled, hands.share(base), [(np.full(100_000, float(k)),) for k in range(3)]))
        workers = {nanny.pid for nanny in local.workers.values()}
        assert {*hands.pids} == workers  # whose memory counts
    assert all(np.array_equal(answer, 2.0 * base + k) for k, answer in enumerate(answers))


@pytest.mark.parametrize("method", ["cells", "choices"])
def test_a_cluster_searches_as_one_thread_does(local: Any, method: str) -> None:
    nbest = noise_of(3)
    with long_searches(20 * SLICE):
        alone = lpmert.minimize(nbest, method=method)
        found = lpmert.minimize(nbest, method=method, backend=f"dask://{address_of(local)}")
    assert alone.status is Status.OPTIMAL
    assert same(alone, found)


def test_a_cluster_searches_lattices_as_one_thread_does(local: Any) -> None:
    with long_searches():
        alone = search_lattices(2, "wer")
        with hired(f"dask://{address_of(local)}", 1):
            assert same(alone, search_lattices(2, "wer"))


def test_workers_that_die_change_nothing(local: Any) -> None:
    nbest = noise_of(3)
    killed: list[int] = []

    def kill(_: object) -> bool:
        if len(killed) < 2:
            pids = local.scheduler.workers and [nanny.pid for nanny in local.workers.values() if nanny.pid]
            victim = next((pid for pid in pids if pid not in killed), None)
            if victim is not None:
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)
        return False

    with long_searches(20 * SLICE):
        alone = lpmert.minimize(nbest, method="cells")
        found = lpmert.minimize(nbest, method="cells", backend=f"dask://{address_of(local)}", callback=kill)
    assert len(killed) == 2
    assert same(alone, found)


def test_where_no_scheduler_answers_that_is_said() -> None:
    with pytest.raises(MethodError, match="no Dask scheduler answers there"):
        lpmert.minimize(noise_of(3), backend="dask://127.0.0.1:9")
