"""Workers for units of work: the caller, threads or a Dask cluster, with the same answers.

A unit is a module-level function, called with a value that all units share and with its own arguments. Its answer
depends on nothing else, so a unit whose worker dies is submitted again. A search that takes the answers in the order of
submission takes the same course with any number of workers.
"""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Self, TypeVar, cast

from lpmert.errors import MethodError
from lpmert.limits import checkpoint, holding, out_of_time
from lpmert.quoting import quoted

logger = logging.getLogger("lpmert")

T = TypeVar("T")

Unit = Callable[..., T]  # called with the shared value and the arguments of the unit

_SCHEME = "dask://"

_POLL = 0.05  # seconds between two looks at the deadline while waiting for an answer
_MOST_DEATHS = 8  # number of workers that may die with a unit before the caller does it

_WORTH_SHARING, _WORTH_STARTING = 0.05, 5.0
"""Seconds of work that are worth sending to threads, and to workers that take long to start."""

_CONNECT_SECONDS, _WORKER_SECONDS = 10, 60  # how long to wait for a Dask scheduler, and for its first worker


@dataclass(eq=False)
class Shared:
    """A value that units share. value: in this process; place: its future in a cluster, `None` before it is sent."""

    value: Any
    place: Any = None

    def call(self, unit: Unit[T], arguments: tuple[Any, ...]) -> Callable[[], T]:
        """Return the call of a unit under the deadlines of the caller, with the worker itself as its only worker."""
        context = copy_context()
        context.run(_workers.set, SERIAL)
        return partial(context.run, unit, self.value, *arguments)


class Pending(Generic[T]):
    """A submitted unit. The caller must not change its arguments until the answer is there."""

    def __init__(self, workers: Workers, unit: Unit[T], shared: Shared, arguments: tuple[Any, ...]) -> None:
        self._workers, self._work, self._deaths = workers, (unit, shared, arguments), 0
        self._future = workers.begin(*self._work)

    def done(self, seconds: float) -> bool:
        """Wait at most so long for the answer, or run the unit if the caller has to; return whether it is there."""
        if self._future is None:
            unit, shared, arguments = self._work
            answer = shared.call(unit, arguments)()
            self._future = Future()
            self._future.set_result(answer)
        if not wait([self._future], seconds).done:
            if self._workers.absent():
                self.give_up()
                self._future = None
            return False
        try:
            error = self._future.exception()
        except CancelledError as cancelled:
            error = cancelled
        if not isinstance(error, self._workers.death_errors):
            return True
        self._deaths += 1
        if self._deaths < _MOST_DEATHS:
            logger.info("a worker died, and its unit of work is done again")
            self._future = self._workers.begin(*self._work)
        else:
            logger.warning("workers keep dying, perhaps for lack of memory; one unit is done without them")
            self._future = None
        return False

    def answer(self) -> T:
        return cast("Future[T]", self._future).result()

    def wait(self) -> T:
        """Wait for the answer; raises `OutOfTime` at the deadline of the running call."""
        checkpoint()
        while not self.done(_POLL):
            checkpoint()
        return self.answer()

    def in_time(self) -> bool:
        """Wait for the answer, and return whether it came before the deadline of the running call."""
        while not out_of_time():
            if self.done(_POLL):
                return True
        return False

    def give_up(self) -> None:
        """Cancel the unit if it has not begun yet; its answer is not needed."""
        if self._future is not None:
            self._future.cancel()


class Workers:
    """The caller alone, which runs a unit when its answer is requested; base of other kinds of workers.

    jobs: units that run at the same time; remote: whether the workers take long to start and to receive a shared value;
    death_errors: errors of units whose worker died.
    """

    jobs: int = 1
    remote: bool = False
    death_errors: tuple[type[BaseException], ...] = ()

    def share(self, value: object) -> Shared:
        """Send a value to all workers once; they may free it when what is returned is no longer referenced."""
        return Shared(value)

    def submit(self, unit: Unit[T], shared: Shared, *arguments: object) -> Pending[T]:
        return Pending(self, unit, shared, arguments)

    def map(self, unit: Unit[T], shared: Shared, arguments: Iterable[Sequence[object]]) -> Iterator[T]:
        """Submit a unit for each of the arguments, and yield the answers in order."""
        pending = [self.submit(unit, shared, *own) for own in arguments]
        return (one.wait() for one in pending)

    def begin(self, unit: Unit[Any], shared: Shared, arguments: tuple[Any, ...]) -> Future[Any] | None:  # noqa: ARG002
        """Return the future of a unit, `None` if the caller has to run it."""
        return None

    def absent(self) -> bool:
        """Whether no workers are left to run the units."""
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the workers; units for which no caller waits are dropped."""


class Threads(Workers):
    """Threads of this process, which run in parallel because the core releases the interpreter's lock."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="lpmert")

    def begin(self, unit: Unit[Any], shared: Shared, arguments: tuple[Any, ...]) -> Future[Any]:
        return self._pool.submit(shared.call(unit, arguments))

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class Cluster(Workers):
    """The workers of the Dask cluster whose scheduler listens at HOST:PORT.

    The cluster itself repeats units whose worker died, and computes the shared value again. While the scheduler is
    gone, or there have been no workers for a minute, the caller runs all units: dead workers may never be restarted.
    """

    remote = True

    def __init__(self, address: str) -> None:
        try:
            import distributed
            from distributed.comm.core import CommClosedError
            from distributed.scheduler import KilledWorker
        except ImportError as error:
            raise MethodError(f"{quoted(_SCHEME + address)}: install lpmert[dask]") from error
        connect: Any = distributed.Client
        try:
            self._client = connect(f"tcp://{address}", timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise MethodError(
                f"{quoted(_SCHEME + address)}: no Dask scheduler answers there; start one with `dask scheduler`, and "
                "`dask worker` for each worker"
            ) from error
        self.death_errors = (KilledWorker, CommClosedError, CancelledError)
        self._address, self._alone = address, False
        self._seen = self._looked = time.monotonic()
        self._threads()

    @property
    def jobs(self) -> int:  # type: ignore[override]
        return max(1, self._threads())

    def share(self, value: object) -> Shared:
        while not (self._threads() or self.absent() or out_of_time()):
            time.sleep(_POLL)
        return Shared(value)

    def begin(self, unit: Unit[Any], shared: Shared, arguments: tuple[Any, ...]) -> Future[Any] | None:
        if self.absent():
            return None
        if shared.place is None or shared.place.status in ("error", "lost", "cancelled"):
            # The cluster computes the value, so it can do so again; scattered data would be lost with their worker.
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sending large graph")  # it may have some megabytes
                shared.place = self._client.submit(lambda value: value, shared.value, pure=False)
        task, loop = self._client.submit(unit, shared.place, *arguments, pure=False), self._client.loop
        future: Future[Any] = Future()
        future.add_done_callback(lambda done: loop.add_callback(task.cancel) if done.cancelled() else None)
        loop.add_callback(_deliver, self._client, task, future)
        return future

    def absent(self) -> bool:
        now = time.monotonic()
        if self._running() and now >= self._looked + 1.0:
            self._looked = now
            self._threads()
        alone = not self._running() or now > self._seen + _WORKER_SECONDS
        if alone and not self._alone:
            why = "there are no workers, start `dask worker`" if self._running() else "the Dask scheduler is gone"
            logger.warning("%s%s: %s; this process goes on alone", _SCHEME, self._address, why)
        self._alone = alone
        return alone

    def __exit__(self, *_: object) -> None:
        self._client.close(timeout=_CONNECT_SECONDS)

    def _running(self) -> bool:
        return bool(self._client.status == "running")

    def _threads(self) -> int:
        """Return the total number of threads of the workers, and remember when there were any."""
        try:
            found = sum(self._client.nthreads().values()) if self._running() else 0
        except OSError:  # the scheduler is just ending
            return 0
        if found:
            self._seen = time.monotonic()
        return found


async def _deliver(client: Any, task: Any, future: Future[Any]) -> None:
    """Pass the answer or error of a task on to a future, unless that is cancelled.

    Dask's own executor is not reliable if the worker that holds an answer dies while it is fetched: it takes the answer
    for an error, or never completes the future.
    """
    try:
        answer, trouble = await client.gather(task, asynchronous=True), None
    except BaseException as error:  # noqa: BLE001 - passed on to the waiting caller
        answer, trouble = None, error
    if future.set_running_or_notify_cancel():
        future.set_result(answer) if trouble is None else future.set_exception(trouble)


class PerThread(threading.local, Generic[T]):
    """A value that each thread makes once, such as work space; it is not sent to other processes."""

    own: T | None = None

    def get(self, make: Callable[[], T]) -> T:
        if self.own is None:
            self.own = make()
        return self.own

    def __reduce__(self) -> tuple[type[PerThread[T]], tuple[()]]:
        return PerThread, ()


SERIAL = Workers()

_workers: ContextVar[Workers] = ContextVar("workers", default=SERIAL)
"""The workers of the running call; outside a block of `using_workers` and within a unit, the caller alone."""


def checked_backend(backend: str) -> str:
    host, colon, port = backend.removeprefix(_SCHEME).rpartition(":")
    if backend == "threads" or (backend.startswith(_SCHEME) and host and colon and port.isdecimal()):
        return backend
    raise MethodError(
        f"backend={quoted(backend)} is neither threads nor {_SCHEME}HOST:PORT; for processes of this machine, start "
        "`dask scheduler` and `dask worker`"
    )


def workers_of(backend: str, jobs: int) -> Workers:
    if backend.startswith(_SCHEME):
        return Cluster(backend.removeprefix(_SCHEME))
    return SERIAL if jobs == 1 else Threads(jobs)


def current_workers() -> Workers:
    return _workers.get()


def workers_for(seconds: float) -> Workers:
    """Return the workers for units that take so many seconds in total: the caller alone if sending them costs more."""
    found = current_workers()
    return SERIAL if seconds < (_WORTH_STARTING if found.remote else _WORTH_SHARING) else found


@contextmanager
def using_workers(backend: str, jobs: int) -> Iterator[Workers]:
    """Let workers run the units of work within the block, then stop them; threads started there do not inherit them."""
    with workers_of(backend, jobs) as workers, holding(_workers, workers):
        yield workers
