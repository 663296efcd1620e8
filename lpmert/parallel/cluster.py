"""The workers of a Dask cluster. A unit whose worker dies is done again, by another one."""

from __future__ import annotations

import logging
import os
import platform
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Generic

from lpmert.errors import MethodError
from lpmert.parallel.workers import Pending, Shared, T, Unit, Workers
from lpmert.quoting import quoted

logger = logging.getLogger("lpmert")

SCHEME = "dask://"
_CONNECT_SECONDS = 10

_MOST_TRIES = 20
_PAUSE = 0.5
"""How often data are sent if workers die meanwhile, and the seconds in between."""


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


class _Scattered(Shared):
    """A value that has been sent to all workers, and is sent again if all that hold it are gone."""

    def __init__(self, client: Any, value: object) -> None:
        self._client = client
        self._own = value
        self.send()

    def send(self) -> None:
        """Send it to all workers that there are now; some may be dying."""
        for _ in range(_MOST_TRIES):
            try:
                self.value = self._client.scatter(self._own, broadcast=True, hash=False)
                return
            except (OSError, TimeoutError) as error:
                logger.info("the data did not reach all workers of the cluster: %s", error)
                time.sleep(_PAUSE)
        raise MethodError("the Dask cluster has no workers that data could be sent to; start some with `dask worker`")


class _Again(Pending[T], Generic[T]):
    """A unit that is handed out again if the cluster has lost it."""

    def __init__(self, client: Any, unit: Unit[T], shared: Any, arguments: tuple[Any, ...]) -> None:
        self._client, self._unit, self._shared, self._arguments = client, unit, shared, arguments
        self._submit()

    def _submit(self) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")  # a hand of parts may have some megabytes
            self._future = self._client.submit(self._unit, self._shared.value, *self._arguments, pure=False)

    def done(self, seconds: float) -> bool:
        from distributed.scheduler import KilledWorker

        try:
            error = self._future.exception(timeout=seconds)
        except TimeoutError:
            return False
        except CancelledError as cancelled:
            error = cancelled
        lost = isinstance(error, KilledWorker | CancelledError)
        if lost:
            logger.info("the cluster has lost a unit of work; it is done again")
            self._shared.send()
            self._submit()
        return not lost

    def answer(self) -> T:
        answer: T = self._future.result()
        return answer

    def give_up(self) -> None:
        self._future.cancel()
