"""Which workers a name stands for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lpmert.errors import MethodError
from lpmert.parallel.workers import SERIAL, Threads, Workers, hired_workers
from lpmert.quoting import quoted
from lpmert.system.memory import counting

_CLUSTER = "dask://"

LOCAL = ("threads", "processes")
"""Those of this machine."""

_WORTH_SHARING, _WORTH_STARTING = 0.05, 5.0
"""Seconds of work that are sent to workers who are there at once, and to those who take long to start."""


def checked_backend(backend: str) -> str:
    """Return the name of workers if there are such; raises `MethodError`."""
    host, colon, port = backend.removeprefix(_CLUSTER).rpartition(":")
    of_cluster = backend.startswith(_CLUSTER) and bool(host and colon) and port.isdecimal()
    if backend in LOCAL or of_cluster:
        return backend
    raise MethodError(f"backend={quoted(backend)} is none of {', '.join(LOCAL)}, {_CLUSTER}HOST:PORT")


def workers_of(backend: str, jobs: int) -> Workers:
    """Return so many workers; a cluster has as many as it has."""
    if backend.startswith(_CLUSTER):
        from lpmert.parallel.cluster import Cluster

        return Cluster(backend.removeprefix(_CLUSTER))
    if jobs == 1:
        return SERIAL
    if backend == "threads":
        return Threads(jobs)
    from lpmert.parallel.processes import Processes

    return Processes(jobs)


def workers() -> Workers:
    """Return who does units of work in the running call: the caller, unless others are hired."""
    return hired_workers.get()


def hands_for(seconds: float) -> Workers:
    """Return who does units that take so many seconds together: the caller, if they are hardly worth sending away."""
    hands = workers()
    return SERIAL if seconds < (_WORTH_STARTING if hands.far else _WORTH_SHARING) else hands


@contextmanager
def hired(backend: str, jobs: int) -> Iterator[Workers]:
    """Have so many workers do the units of work within the block. Threads that they are do not pass them on."""
    with employed(workers_of(backend, jobs)) as hands:
        yield hands


@contextmanager
def employed(hands: Workers) -> Iterator[Workers]:
    """Have these workers do the units of work within the block, and let them go."""
    with hands as entered, counting(lambda: entered.pids, entered.least_memory):
        token = hired_workers.set(entered)
        try:
            yield entered
        finally:
            hired_workers.reset(token)
