"""The workers of a Dask cluster. A unit whose worker dies is done again, by another one."""

from __future__ import annotations

import logging
import os
import platform
import warnings
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Generic, cast

from lpmert.errors import MethodError
from lpmert.parallel.workers import Pending, Shared, T, Unit, Workers
from lpmert.quoting import quoted

logger = logging.getLogger("lpmert")

SCHEME = "dask://"
_CONNECT_SECONDS = 10

_FETCH_SECONDS = 60
"""What it may take to send an answer from a worker that has it; then it is asked for again."""

_LOST = ("error", "lost", "cancelled")
"""What Dask says of futures that have no answer and will have none."""

_WORKER_SECONDS = 60
"""How long to wait for a first worker."""


class Cluster(Workers):
    """The workers of the cluster whose scheduler listens at HOST:PORT; each gets what is shared once."""

    far = True

    def __init__(self, address: str) -> None:
        self._here: Sequence[int] = ()
        try:
            import distributed
        except ImportError as error:
            raise MethodError(f"{quoted(SCHEME + address)}: install lpmert[dask]") from error
        try:
            connect: Any = distributed.Client
            self._client = connect(f"tcp://{address}", timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise MethodError(
                f"{quoted(SCHEME + address)}: no Dask scheduler answers there; start one with `dask scheduler`, and "
                "`dask worker` for each worker"
            ) from error

    @property
    def jobs(self) -> int:  # type: ignore[override]
        return sum(self._client.nthreads().values())

    @property
    def pids(self) -> Sequence[int]:
        return self._here

    def share(self, value: object) -> Shared:
        shared = _Scattered(self._client, value)
        own = _whereabouts()
        found = self._client.run(_whereabouts, on_error="ignore").values()
        self._here = [pid for machine, pid in found if machine == own[0] and pid != own[1]]
        return shared

    def hand_out(self, unit: Unit[T], shared: Shared, *arguments: object) -> Pending[T]:
        return _Again(self._client, unit, shared, arguments)

    def close(self) -> None:
        self._client.close(timeout=_CONNECT_SECONDS)


def _whereabouts() -> tuple[str, int]:
    """Return names of this machine and of what numbers its processes, and the number of this one."""
    numbers = ""
    with suppress(OSError):
        numbers = os.readlink("/proc/self/ns/pid")
    return f"{platform.node()} {numbers}", os.getpid()


def _itself(value: Any) -> Any:
    """A unit whose answer is what all others share: the cluster makes it again where workers that have it die."""
    return value


class _Scattered(Shared):
    """A value that the scheduler holds, and that every worker gets which needs it."""

    def __init__(self, client: Any, value: object) -> None:
        self._client = client
        self._own = value
        self.send()

    def send(self) -> None:
        """Send it to the scheduler, as soon as there is a worker."""
        try:
            self._client.wait_for_workers(1, timeout=_WORKER_SECONDS)
        except TimeoutError as error:
            raise MethodError(
                "the Dask cluster has no workers that data could be sent to; start some with `dask worker`"
            ) from error
        self.value = _submitted(self._client, _itself, self._own)


def _submitted(client: Any, unit: Unit[Any], *arguments: object) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")  # it may have some megabytes
        return client.submit(unit, *arguments, pure=False)


class _Again(Pending[T], Generic[T]):
    """A unit that is handed out again if the cluster has lost it."""

    def __init__(self, client: Any, unit: Unit[T], shared: Any, arguments: tuple[Any, ...]) -> None:
        self._client, self._unit, self._shared, self._arguments = client, unit, shared, arguments
        self._answers: list[object] = []
        self._submit()

    def _submit(self) -> None:
        self._future = _submitted(self._client, self._unit, self._shared.value, *self._arguments)

    def done(self, seconds: float) -> bool:
        if not self._answers:
            try:
                self._receive(seconds)
            except TimeoutError:
                return False
        return True

    def _receive(self, seconds: float) -> None:
        """Fetch the answer here at once, since workers that have one may die; or hand the unit out again."""
        from distributed.scheduler import KilledWorker

        try:
            error = self._future.exception(timeout=seconds)
            if not isinstance(error, KilledWorker | CancelledError):
                self._answers.append(self._future.result(timeout=_FETCH_SECONDS) if error is None else error)
                return
        except (KilledWorker, CancelledError):
            pass
        logger.info("the cluster has lost a unit of work; it is done again")
        if self._shared.value.status in _LOST:
            self._shared.send()
        self._submit()
        raise TimeoutError

    def answer(self) -> T:
        (answer,) = self._answers
        if isinstance(answer, BaseException):
            raise answer
        return cast(T, answer)

    def give_up(self) -> None:
        self._future.cancel()
