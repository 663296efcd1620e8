"""Worker processes of this machine. A unit whose process dies is done again, by another one."""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref
from concurrent.futures import BrokenExecutor, CancelledError, Future, wait
from functools import cache
from pathlib import Path
from typing import Any, Generic

import joblib
from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import ShutdownExecutorError

from lpmert.parallel.workers import Pending, Shared, T, Unit, Workers
from lpmert.system.interrupts import kept_from_children

logger = logging.getLogger("lpmert")

_MOST_DEATHS = 8
"""Pools in a row that die before any of their units is done; after so many the caller does a unit itself."""

_LOST = (BrokenExecutor, CancelledError, ShutdownExecutorError)


class Processes(Workers):
    """Processes, which are started when the first unit is handed out. What they share lies in files mapped into the
    memory of each.
    """

    far = True

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.deaths = 0
        self._pool: ProcessPoolExecutor | None = None
        self._folder: Path | None = None
        self._files = 0

    def share(self, value: object) -> Shared:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="lpmert-"))
        self._files += 1
        path = self._folder / f"{self._files}"
        joblib.dump(value, path)
        shared = Shared(str(path))
        weakref.finalize(shared, path.unlink, missing_ok=True)
        return shared

    def hand_out(self, unit: Unit[T], shared: Shared, *arguments: object) -> Pending[T]:
        return _Again(self, unit, shared, arguments)

    @property
    def pool(self) -> ProcessPoolExecutor:
        """The processes, started anew if they are not there."""
        if self._pool is None:
            from multiprocessing.resource_tracker import ensure_running

            ensure_running()  # would be started with the workers, and lets all signals through again
            self._pool = ProcessPoolExecutor(self.jobs)
        return self._pool

    def lost(self, pool: ProcessPoolExecutor) -> None:
        """Take note that a pool is of no use any more; all units that wait for it find that out."""
        if self._pool is not None and pool is self._pool:
            self.deaths += 1
            logger.info("a worker process died; its unit of work is done again")
            pool.shutdown(wait=False, kill_workers=True)
            self._pool = None

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


class _Again(Pending[T], Generic[T]):
    """A unit that is handed out again whenever the process that does it dies."""

    def __init__(self, workers: Processes, unit: Unit[T], shared: Shared, arguments: tuple[Any, ...]) -> None:
        self._workers, self._unit, self._shared, self._arguments = workers, unit, shared, arguments
        self._submit()

    def _submit(self) -> None:
        while True:
            self._pool = self._workers.pool
            try:
                with kept_from_children():
                    self._future: Future[T] = self._pool.submit(_do, self._unit, self._shared.value, self._arguments)
                return
            except _LOST:
                self._workers.lost(self._pool)

    def done(self, seconds: float) -> bool:
        if not wait([self._future], seconds).done:
            return False
        try:
            error = self._future.exception()
        except CancelledError as cancelled:
            error = cancelled
        if not isinstance(error, _LOST):
            self._workers.deaths = 0
            return True
        self._workers.lost(self._pool)
        if self._workers.deaths < _MOST_DEATHS:
            self._submit()
            return False
        logger.warning("worker processes die again and again, perhaps out of memory; one unit is done without them")
        self._future = Future()
        self._future.set_result(_do(self._unit, self._shared.value, self._arguments))
        self._workers.deaths = 0
        return True

    def answer(self) -> T:
        return self._future.result()


@cache
def _value_of(path: str) -> Any:
    """Return what is shared, in the memory of this process; copies of what it writes to are its own.

    Arrays that may not be written to at all would have kernels compiled anew.
    """
    return joblib.load(path, mmap_mode="c")


def _do(unit: Unit[T], path: str, arguments: tuple[Any, ...]) -> T:
    return unit(_value_of(path), *arguments)
