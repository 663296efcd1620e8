"""Who does units of work: the caller, threads, processes or a cluster; the answers are the same.

A unit is a function of a module, called with what all units share and with arguments of its own. Its answer depends on
nothing else: it may be done anywhere, and again if a worker dies. Whoever takes the answers in the order in which the
units were handed out goes the same way with any number of workers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, Generic, Self, TypeVar

from lpmert.system.deadline import checkpoint, out_of_time

_LOOK_UP = 0.05
"""Seconds after which whoever waits for an answer looks whether to stop."""

T = TypeVar("T")

Unit = Callable[..., T]
"""Called with what is shared, and with the arguments of the unit."""


class Shared:
    """What the units of a search share. value: in this process, the thing itself; elsewhere, where it is found."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Pending(ABC, Generic[T]):
    """A unit that was handed out."""

    @abstractmethod
    def done(self, seconds: float) -> bool:
        """Wait so long for the answer, and return whether it is there; the caller may do the unit in this call."""

    @abstractmethod
    def answer(self) -> T:
        """Return the answer, or raise what the unit raised."""

    def wait(self) -> T:
        """Wait for the answer; raises `OutOfTime` at the deadline of the running call."""
        checkpoint()
        while not self.done(_LOOK_UP):
            checkpoint()
        return self.answer()

    def in_time(self) -> bool:
        """Wait for the answer, and return whether it came before the deadline of the running call."""
        while not out_of_time():
            if self.done(_LOOK_UP):
                return True
        return False

    def give_up(self) -> None:
        """Let go of a unit whose answer nobody will ask for: it is not begun, if it has not begun yet."""


class Workers(ABC):
    """Who does units. jobs: how many at once; far: whether it takes them long to start, and to get what is shared;
    least_memory: bytes that each of the processes `pids` takes at least.
    """

    jobs: int = 1
    far: bool = False
    least_memory: int = 0

    @abstractmethod
    def share(self, value: object) -> Shared:
        """Give all workers a value, once; it may be collected when nobody holds the answer any more."""

    @abstractmethod
    def hand_out(self, unit: Unit[T], shared: Shared, *arguments: object) -> Pending[T]:
        """Hand a unit out; the caller keeps the arguments unchanged until the answer is there."""

    @property
    def pids(self) -> Sequence[int]:
        """The ids of processes of this machine, other than this one, that do units; their memory counts."""
        return ()

    @abstractmethod
    def close(self) -> None:
        """Let the workers go; units whose answers nobody has asked for are given up."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def each(self, unit: Unit[T], shared: Shared, arguments: Iterable[Sequence[object]]) -> Iterator[T]:
        """Yield the answers to units with these arguments, in order."""
        pending = [self.hand_out(unit, shared, *own) for own in arguments]
        return (one.wait() for one in pending)


class _Postponed(Pending[T]):
    """A unit that is done when its answer is asked for."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._answer: list[T] = []

    def done(self, seconds: float) -> bool:  # noqa: ARG002
        if not self._answer:
            self._answer.append(self._work())
        return True

    def answer(self) -> T:
        return self._answer[0]


class Serial(Workers):
    """The caller, when it asks for the answer."""

    def share(self, value: object) -> Shared:
        return Shared(value)

    def hand_out(self, unit: Unit[T], shared: Shared, *arguments: object) -> Pending[T]:
        return _Postponed(partial(unit, shared.value, *arguments))

    def close(self) -> None:
        """There is nobody to let go."""


class InFuture(Pending[T]):
    """A unit whose answer is in a future."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def done(self, seconds: float) -> bool:
        return bool(wait([self._future], seconds).done)

    def answer(self) -> T:
        return self._future.result()

    def give_up(self) -> None:
        self._future.cancel()


class Threads(Workers):
    """Threads of this process: as the core does not hold the interpreter's lock, they run side by side."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="lpmert")

    def share(self, value: object) -> Shared:
        return Shared(value)

    def hand_out(self, unit: Unit[T], shared: Shared, *arguments: object) -> Pending[T]:
        context = copy_context()  # threads heed the deadlines of the caller
        context.run(hired_workers.set, SERIAL)
        work: Callable[..., T] = context.run
        return InFuture(self._pool.submit(work, unit, shared.value, *arguments))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


SERIAL = Serial()

hired_workers: ContextVar[Workers] = ContextVar("workers", default=SERIAL)
"""Who does units of work in the running call; in a unit that is nobody but the one who does it."""
