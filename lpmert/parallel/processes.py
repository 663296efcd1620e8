"""Worker processes of this machine. A unit whose process dies is done again, by another one.

Each has a pipe of its own, whose other end nobody else holds: it breaks when the process dies, at whatever moment.
Executors have all processes write to one pipe. Whoever reads half of an answer there waits for ever for the rest, since
the other processes keep the pipe open.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import tempfile
import traceback
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from pathlib import Path
from threading import Lock
from typing import Any, cast

import joblib
from joblib.externals.loky.backend import get_context
from joblib.externals.loky.backend.reduction import dumps

from lpmert.errors import DataError, MethodError, reason_of
from lpmert.parallel.workers import Pending, Shared, T, Threads, Unit, Workers
from lpmert.system.deadline import memory_left
from lpmert.system.interrupts import kept_from_children
from lpmert.system.memory import joined
from lpmert.system.scratch import scratch_folder

logger = logging.getLogger("lpmert")

_MOST_DEATHS = 8
"""Processes that may die of a unit; then it is done in this process."""


class Processes(Workers):
    """Processes, each started when a unit finds none that is idle. What they share lies in files mapped into the
    memory of each.
    """

    far = True
    least_memory = 96 << 20  # once it has loaded what units need

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._threads = Threads(jobs)  # each waits for the answer of one process
        self._lock = Lock()
        self._all: set[_Process] = set()
        self._idle: list[_Process] = []
        self._closed = False
        self._fitting = jobs
        self._folder: Path | None = None
        self._files = 0
        self._leaving = ExitStack()
        Finalize(self, _kill_all, [self._all], exitpriority=0)  # before Python waits for them

    @property
    def pids(self) -> list[int]:
        """The processes that are there."""
        with self._lock:
            return [process.pid for process in self._all]

    def share(self, value: object) -> Shared:
        try:
            if self._folder is None:
                self._folder = self._leaving.enter_context(scratch_folder())
            self._files += 1
            path = self._folder / f"{self._files}"
            joblib.dump(value, path)
        except OSError as error:
            raise DataError(
                f"what worker processes share is kept in files, and {tempfile.gettempdir()} cannot take them "
                f"({reason_of(error)}); name another folder in TMPDIR"
            ) from error
        shared = Shared(str(path))
        weakref.finalize(shared, path.unlink, missing_ok=True)
        return shared

    def hand_out(self, unit: Unit[T], shared: Shared, *arguments: object) -> Pending[T]:
        return self._threads.hand_out(self._answer, Shared(shared), unit, arguments)

    def _answer(self, shared: Shared, unit: Unit[T], arguments: tuple[object, ...]) -> T:
        work = (unit, shared.value, arguments)
        try:
            message = dumps(work)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise MethodError(f"not everything can be sent to another process ({error}); use one job") from error
        for _ in range(_MOST_DEATHS):
            try:
                with self._one() as process:
                    if process is None:
                        break
                    good, answer = process.ask(message)
            except (EOFError, OSError) as error:
                why = reason_of(error) if isinstance(error, OSError) else "perhaps out of memory"
                logger.info("a worker process died, and its unit of work is done again: %r", error)
                continue
            found: Any = _load(answer)
            if good:
                return cast(T, found)
            raise found
        else:
            logger.warning("worker processes die again and again (%s); one unit is done without them", why)
        return _do(*work)

    @contextmanager
    def _one(self) -> Iterator[_Process | None]:
        """Have an idle process, or a new one, to yourself, `None` where another one does not fit into memory; it is
        killed if the block fails.
        """
        left = memory_left()  # which asks for our processes, and so for the lock
        with self._lock:
            while self._idle and not self._idle[-1].alive:
                self._all.discard(self._idle.pop())
            if self._closed:
                raise CancelledError
            process = self._idle.pop() if self._idle else self._new(left)
        if process is None:
            yield None
            return
        try:
            yield process
        except BaseException:
            with self._lock:
                self._all.discard(process)
                process.kill()
            raise
        with self._lock:
            self._idle.append(process)

    def _new(self, left: int | None) -> _Process | None:
        """Return another process, if as many fit in so many bytes; those that have just begun will grow, and so will
        this process, which has as much as one of them kept free.
        """
        if not self._all and left is not None:
            self._fitting = max(0, min(self.jobs, left // self.least_memory - 1))
            if self._fitting < self.jobs:
                logger.warning("%d of %d worker processes fit within the memory limit", self._fitting, self.jobs)
        if len(self._all) >= self._fitting:
            return None
        process = _Process()
        joined([process.pid], self.least_memory)
        self._all.add(process)
        return process

    def close(self) -> None:
        self._threads.close()
        with self._lock:
            self._closed = True
            _kill_all(self._all)
            self._idle.clear()
        self._folder = None
        self._leaving.close()


class _Process:
    """A process that answers one message after the other; raises `EOFError` or `OSError` once it is dead."""

    def __init__(self) -> None:
        from multiprocessing.resource_tracker import ensure_running

        ensure_running()  # would be started with the worker, and lets all signals through again
        context = get_context()  # its processes do not run the caller's script again
        self._pipe, theirs = context.Pipe()
        with theirs, kept_from_children():
            self._process = context.Process(target=_serve, args=(theirs,))
            self._process.start()
        self.pid: int = self._process.pid

    @property
    def alive(self) -> bool:
        return bool(self._process.is_alive())

    def ask(self, message: bytes) -> tuple[bool, bytes]:
        """Return whether a message was answered without an error, and the answer or the error."""
        self._pipe.send_bytes(message)
        return self._pipe.recv_bytes() == _GOOD, self._pipe.recv_bytes()

    def kill(self) -> None:
        """End it, whatever it does; whoever waits for its answer finds its pipe broken."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        self._process.join()


def _kill_all(processes: set[_Process]) -> None:
    while processes:
        processes.pop().kill()


_GOOD, _BAD = b"1", b"0"


def _serve(pipe: Connection) -> None:
    """Do units until nobody asks any more."""
    while True:
        try:
            message = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        kind, answer = _tried(message)
        try:
            pipe.send_bytes(kind)
            pipe.send_bytes(answer)
        except OSError:
            return


def _tried(message: bytes) -> tuple[bytes, bytes]:
    try:
        return _GOOD, dumps(_do(*_load(message)))
    except BaseException as error:  # noqa: BLE001 - whatever a unit raises is for its caller
        error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        return _BAD, dumps(error)


def _load(message: bytes) -> Any:
    return pickle.loads(message)  # noqa: S301 - by a process of ours


@cache
def _value_of(path: str) -> Any:
    """Return what is shared, in the memory of this process; copies of what it writes to are its own."""
    return joblib.load(path, mmap_mode="c")


def _do(unit: Unit[T], path: str, arguments: tuple[object, ...]) -> T:
    return unit(_value_of(path), *arguments)
