"""The workers of a Dask cluster. A unit whose worker dies is done again, by another one; this process does all units
once the scheduler is gone.
"""

from __future__ import annotations

import logging
import os
import platform
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from contextvars import copy_context
from math import inf
from typing import Any, Generic, NamedTuple, cast
from weakref import WeakSet

from lpmert.errors import MethodError
from lpmert.parallel.workers import SERIAL, Pending, Shared, T, Unit, Workers, hired_workers
from lpmert.quoting import quoted
from lpmert.system.memory import joined

logger = logging.getLogger("lpmert")

SCHEME = "dask://"
_CONNECT_SECONDS = 10

_FETCH_SECONDS = 60
"""What it may take to send an answer from a worker that has it; then it is asked for again."""

_LOST = ("error", "lost", "cancelled")
"""What Dask says of futures that have no answer and will have none."""

_WORKER_SECONDS = 60
"""How long to wait for a first worker."""

_QUEUED = 2
"""Parcels for each worker, one of which it does; where more units than these are out, a parcel is for several."""

_MOST_UNITS = 4
"""Units of a parcel at most."""

_SHORT_SECONDS = 0.2
"""Longer units go out one by one: what a message takes is little beside them, and the last ones are shared evenly."""

_LOOK_ROUND = 16
"""Parcels after which the workers are counted again."""


class Cluster(Workers):
    """The workers of the cluster whose scheduler listens at HOST:PORT; each gets what is shared once.

    gone: whether there is no such cluster any more.
    """

    far = True

    def __init__(self, address: str) -> None:
        self.gone = False
        self._address = address
        self._here: Sequence[int] = ()
        self._width = 1
        self._sent = 0
        self._out: WeakSet[_Parcel] = WeakSet()
        self._short = False
        self._open: _Parcel | None = None
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
        if self.connected:
            with self.reaching(), suppress(TimeoutError):
                self._width = max(1, sum(self._client.nthreads().values()))
        return 1 if self.gone else self._width

    @property
    def connected(self) -> bool:
        """Whether the scheduler is there, as far as is known: Dask looks for one that is lost for some seconds."""
        return not self.gone and self._client.status == "running"

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """Take note, and say so, if the block fails because the scheduler is gone."""
        try:
            yield
        except (TimeoutError, MethodError):
            raise
        except Exception as error:
            if self._client.status == "running" and not isinstance(error, OSError):
                raise
            if not self.gone:
                logger.warning("%s%s: the Dask scheduler is gone; this process goes on alone", SCHEME, self._address)
            self.gone = True

    @property
    def pids(self) -> Sequence[int]:
        return self._here

    def share(self, value: object) -> Shared:
        shared = _Scattered(self, self._client, value)
        own = _whereabouts()
        here: list[int] = []
        if not self.gone:
            with self.reaching(), suppress(TimeoutError):
                found = self._client.run(_whereabouts, on_error="ignore").values()
                here = [pid for machine, pid in found if machine == own[0] and pid != own[1]]
        joined({*here}.difference(self._here))
        self._here = here
        return shared

    def hand_out(self, unit: Unit[T], shared: Shared, *arguments: object) -> Pending[T]:
        parcel = self._open
        if parcel is not None and not parcel.takes(unit, shared):
            parcel.send()
            parcel = None
        if parcel is None:
            parcel = self._open = _Parcel(self, self._client, unit, shared)
            self._out.add(parcel)
        parcel.units.append(arguments)
        out = sum(len(other.units) for other in self._out)
        if not self._short or len(parcel.units) >= min(_MOST_UNITS, out // (_QUEUED * self._width)):
            parcel.send()
        return _InParcel(parcel, len(parcel.units) - 1)

    def sending(self, parcel: _Parcel) -> None:
        """Take note that a parcel goes out, to which nothing is added any more."""
        if self._open is parcel:
            self._open = None
        if self._sent % _LOOK_ROUND == 0:
            self._width = self.jobs
        self._sent += 1

    def done(self, parcel: _Parcel, seconds: float) -> None:
        """Take note that a parcel is no longer out, the longest of whose units took so many seconds."""
        self._out.discard(parcel)
        self._short = seconds < _SHORT_SECONDS

    def close(self) -> None:
        with self.reaching(), suppress(TimeoutError):
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

    def __init__(self, cluster: Cluster, client: Any, value: object) -> None:
        self._cluster, self._client = cluster, client
        self.own = value
        self.value: Any = None
        self.send()

    def send(self) -> None:
        """Send it to the scheduler, as soon as there is a worker."""
        if self._cluster.gone:
            return
        with self._cluster.reaching():
            try:
                self._client.wait_for_workers(1, timeout=_WORKER_SECONDS)
            except TimeoutError as error:
                raise MethodError(
                    "the Dask cluster has no workers that data could be sent to; start some with `dask worker`"
                ) from error
            self.value = _submitted(self._client, _itself, self.own)


def _submitted(client: Any, unit: Unit[Any], *arguments: object) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")  # it may have some megabytes
        return client.submit(unit, *arguments, pure=False)


class _Answer(NamedTuple):
    """What a unit has returned or raised, and how long it took."""

    value: Any
    error: BaseException | None
    seconds: float


def _in_turn(unit: Unit[Any], shared: Any, units: Sequence[tuple[Any, ...]]) -> list[_Answer]:
    """Do units with these arguments."""
    answers = []
    for arguments in units:
        value, raised, began = None, None, time.perf_counter()
        try:
            value = unit(shared, *arguments)
        except Exception as error:  # noqa: BLE001 - whatever a unit raises is for its caller
            raised = error
        answers.append(_Answer(value, raised, time.perf_counter() - began))
    return answers


class _Parcel:
    """Units that go out together, as messages take a cluster some milliseconds each; and again if it has lost them.

    units: the arguments of each.
    """

    def __init__(self, cluster: Cluster, client: Any, unit: Unit[Any], shared: Any) -> None:
        self._cluster, self._client, self._unit, self._shared = cluster, client, unit, shared
        self.units: list[tuple[Any, ...]] = []
        self._unwanted = 0
        self._future: Any = None
        self._answers: list[_Answer] = []

    def takes(self, unit: Unit[Any], shared: Any) -> bool:
        """Whether such units belong to it."""
        return self._unit is unit and self._shared is shared

    def send(self) -> None:
        """Send it, if it has not been sent."""
        if self._future is None:
            self._cluster.sending(self)
            self._submit()

    def _submit(self) -> None:
        if not self._cluster.gone:
            with self._cluster.reaching():
                self._future = _submitted(self._client, _in_turn, self._unit, self._shared.value, self.units)

    def done(self, seconds: float) -> bool:
        """Wait so long for the answers, and return whether they are there."""
        self.send()
        if not self._answers:
            try:
                with self._cluster.reaching():
                    self._answers = self._done_here() if self._cluster.gone else self._received(seconds)
            except TimeoutError:
                return False
            if not self._answers:
                return False
            self._cluster.done(self, max(answer.seconds for answer in self._answers))
        return True

    def _done_here(self) -> list[_Answer]:
        context = copy_context()
        context.run(hired_workers.set, SERIAL)
        return context.run(_in_turn, self._unit, self._shared.own, self.units)

    def _received(self, seconds: float) -> list[_Answer]:
        """Fetch the answers here at once, since workers that have them may die; or hand the units out again."""
        from distributed.scheduler import KilledWorker

        if self._client.status == "connecting":
            time.sleep(seconds)
            raise TimeoutError
        try:
            error = self._future.exception(timeout=seconds)
            if not isinstance(error, KilledWorker | CancelledError):
                if error is None:
                    return cast("list[_Answer]", self._future.result(timeout=_FETCH_SECONDS))
                return [_Answer(None, error, inf)] * len(self.units)
        except (KilledWorker, CancelledError):
            pass
        logger.info("the cluster has lost units of work; they are done again")
        if self._shared.value.status in _LOST:
            self._shared.send()
        self._submit()
        raise TimeoutError

    def answer(self, place: int) -> Any:
        """Return the answer to one of the units, or raise what it raised."""
        answer = self._answers[place]
        if answer.error is not None:
            raise answer.error
        return answer.value

    def give_up(self) -> None:
        """Let go of one of the units; the parcel is not begun if nobody wants any."""
        self._unwanted += 1
        if self._unwanted == len(self.units) and not self._answers:
            self._cluster.done(self, inf)
            if self._future is None:
                self._cluster.sending(self)
            else:
                with self._cluster.reaching():
                    self._future.cancel()


class _InParcel(Pending[T], Generic[T]):
    """One of the units in a parcel."""

    def __init__(self, parcel: _Parcel, place: int) -> None:
        self._parcel, self._place = parcel, place

    def done(self, seconds: float) -> bool:
        return self._parcel.done(seconds)

    def answer(self) -> T:
        return cast(T, self._parcel.answer(self._place))

    def give_up(self) -> None:
        self._parcel.give_up()
