"""From 10,000 to 10,000,000 hypotheses, stage by stage; 1 and 2 workers measured, up to 64 simulated."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks import datasets, projection, scaling
from benchmarks.harness import Answer, Benchmark, Dataset, Task, Unlimited
from benchmarks.lists import Loss, Poses
from benchmarks.machine import cores
from benchmarks.recording import Recorder
from benchmarks.rows import Row
from benchmarks.scaling import FORMATS, LANES, TREE, Kind
from benchmarks.stages import File, Reader, Staged, warm_up_cells
from benchmarks.tables import Figure, Table
from lpmert.methods.cells.cells import Cells
from lpmert.methods.choices.choices import Choices
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.result import Limits
from lpmert.search.driver import solve
from lpmert.workers import SERIAL, Workers, using, using_workers, workers_of

TIME_LIMIT = 600.0
N, D = 30, 3
OPTIMUM = 1767.0
"""Of the real lists, which line up again and again: proved by `growth` and `floor`."""

ROUNDS = 3
"""How often threads are measured: the machine may be busy."""

LOCAL_UNITS, SELECTIONS_LOCAL_UNITS = 40, 6
"""As in `lpmert.methods.cells.cells` and `lpmert.methods.choices.choices`."""

MOST_ROWS = {"npz": 10_000_000, "parquet": 3_000_000, "tsv": 1_000_000}
"""The largest files of each format; it is writing them that takes long."""


@dataclass(frozen=True)
class Long:
    """A search that units are recorded of. at_home: so many units whoever workers out does before any goes far."""

    dataset: Dataset
    method: type[Cells | Choices] = Cells
    at_home: int = LOCAL_UNITS


LONG = (
    Long(datasets.libri(5)),
    Long(datasets.swahili(slice(0, 16)), Choices, SELECTIONS_LOCAL_UNITS),
    Long(datasets.generated(33333, N, D)),
)
"""Real lists, selections of 16 lists with 14 features, and many lists."""

LARGE = Long(datasets.generated(100_000, N, D))
"""The largest search that units are recorded of: projections are made of it."""

_PATIENCE = 60
"""Seconds within which a worker of a cluster has to appear."""

_MESSAGES, _LARGE = 40, 4_000_000
"""Messages of which the least time counts, and the bytes of large ones."""


def synthetic(size: int) -> Dataset:
    """Return generated lists with about so many hypotheses."""
    return datasets.generated(size // N, N, D)


def real(size: int) -> Dataset:
    """Return the lists of a speech recogniser, the first of them or all again and again, with about so many
    hypotheses. So often as they are repeated, so often is every loss counted.
    """
    times = round(size / (N * datasets.LIBRI_LISTS))
    if times <= 1:
        return datasets.libri(D, None if times == 1 else size // N)
    whole = datasets.libri(D)
    return Dataset(f"{whole.name} x {times}", partial(_repeated, times), whole.skip)


@cache
def _repeated(times: int) -> NBest:
    whole = datasets.libri(D).load()
    sizes = np.tile(np.diff(whole.offsets), times)
    return NBest(
        np.tile(whole.dense_features(), (times, 1)),
        np.concatenate([[0], np.cumsum(sizes)]),
        np.tile(whole.statistics, (times, 1)),
        whole.names,
    )


SYNTHETIC = Kind("generated", (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000), synthetic)
REAL = Kind("speech, repeated", (10_000, 100_000, 300_000, 1_000_000, 3_000_000), real)


@dataclass(frozen=True)
class Hired:
    """A search by so many workers. Processes do it twice, of which the second time counts: all of them have begun."""

    long: Long
    backend: str
    jobs: int

    @property
    def name(self) -> str:
        """The workers."""
        return f"{self.jobs} {self.backend}" if self.jobs > 1 else "1 worker"

    def skip(self, data: NBest, objective: Poses) -> str | None:
        """Return that there are too few cores, if so."""
        del data, objective
        return f"{self.jobs} workers on {cores()} cores" if self.jobs > cores() else None

    def warm_up(self) -> None:
        """Solve toys."""
        warm_up_cells()
        solve(Choices(), Problem(datasets.generated(8, 8, 6).load()))

    def solve(self, data: NBest, objective: Poses, seed: int, time_limit: float) -> Answer:
        """Solve, and write down what each unit cost. Other seeds are repetitions of the same search."""
        del seed
        with workers_of(self.backend, self.jobs) as workers:
            for _ in range(2 if self.backend == "processes" else 1):
                answer = _recorded(self.long, data, objective, time_limit, LANES[0], workers)
        return answer


def _recorded(
    long: Long, data: NBest, objective: Poses, time_limit: float, lanes: int, workers: Workers | None = None
) -> Answer:
    """Solve, by these workers or alone; alone, what messages would hold is recorded, too."""
    recorder = Recorder(workers or SERIAL, packed=workers is None)
    begin = time.perf_counter()
    with using(recorder):
        problem: Problem = objective.problem(data)
        result = solve(long.method(units=lanes), problem, Limits(time_limit=time_limit))
    seconds = time.perf_counter() - begin
    record = recorder.record(problem.canonical.granularity, at_home=long.at_home if workers is None else 0)
    details = {"record": record.to_json(), "seconds": seconds}
    return Answer(result.weights, result.status.name.lower(), result.lower_bound, dict(result.counters), details)


@dataclass(frozen=True)
class Recorded(Unlimited):
    """A search with so many lanes by one thread, which writes down what each unit costs."""

    long: Long
    lanes: int

    @property
    def name(self) -> str:
        """The number of lanes."""
        return f"recorded, {self.lanes} lanes"

    def warm_up(self) -> None:
        """Solve toys."""
        warm_up_cells()
        solve(Choices(), Problem(datasets.generated(8, 8, 6).load()))

    def solve(self, data: NBest, objective: Poses, seed: int, time_limit: float) -> Answer:
        """Solve and record."""
        del seed
        return _recorded(self.long, data, objective, time_limit, self.lanes)


def _echo(_: Any, content: bytes) -> bytes:
    """A unit that does nothing."""
    return content


@dataclass(frozen=True)
class Messages:
    """What it takes to send a unit to one of the workers and to get its answer: latency and bandwidth."""

    backend: str

    @property
    def name(self) -> str:
        """The workers."""
        return f"messages, {self.backend}"

    def skip(self, data: NBest, objective: Poses) -> str | None:
        """Return that Dask is missing, if so."""
        del data, objective
        if self.backend == "dask":
            try:
                import distributed  # noqa: F401
            except ImportError:
                return "Dask is not installed"
        return None

    def warm_up(self) -> None:
        """There is nothing to load."""

    def solve(self, data: NBest, objective: Poses, seed: int, time_limit: float) -> Answer:
        """Send small and large messages to and fro, one after the other."""
        del data, objective, seed, time_limit
        if self.backend == "dask":
            from distributed import Client, LocalCluster

            begin: Any = LocalCluster
            connect: Any = Client
            quiet: Any = {"n_workers": 0, "host": "127.0.0.1", "protocol": "tcp://", "dashboard_address": None}
            with begin(**quiet) as cluster:
                address = cluster.scheduler_address
                command = [
                    sys.executable,
                    "-m",
                    "distributed.cli.dask_worker",
                    address,
                    "--nthreads",
                    "1",
                    "--no-nanny",
                ]
                worker = subprocess.Popen(command, stderr=subprocess.DEVNULL)
                try:
                    with connect(address) as client:
                        client.wait_for_workers(1, timeout=_PATIENCE)
                    return self._send(address.replace("tcp://", "dask://"))
                finally:
                    worker.kill()
                    worker.wait()
        return self._send(self.backend)

    def _send(self, backend: str) -> Answer:
        with using_workers(backend, 2) as workers:
            shared = workers.share(None)
            times: dict[int, list[float]] = {0: [], _LARGE: []}
            for size, found in times.items():
                for _ in range(_MESSAGES):
                    content = bytes(size)
                    begin = time.perf_counter()
                    workers.submit(_echo, shared, content).wait()
                    found.append(time.perf_counter() - begin)
        small, large = (float(np.median(found)) for found in times.values())
        bandwidth = 2 * _LARGE / max(large - small, 1e-9)
        return Answer(None, "measured", details={"latency": small / 2, "bandwidth": bandwidth})


def tasks() -> Iterator[Task]:
    """Yield reading and the stages of the search for all sizes, then what has to do with workers.

    Generated lists are read in all formats, real ones as text.
    """
    for kind, formats in ((SYNTHETIC, FORMATS), (REAL, ("tsv",))):
        last: dict[str, Any] = {}
        for size in kind.sizes:
            dataset = kind.make(size)
            times = round(size / (N * datasets.LIBRI_LISTS))
            optimum = OPTIMUM * times if kind is REAL and times else None
            for format in formats:
                if size <= MOST_ROWS[format]:
                    task = Task(dataset, File(format), Reader(), time_limit=TIME_LIMIT, easier=last.get(format))
                    last[format] = task.key
                    yield task
            staged = Task(dataset, Loss(), Staged(), time_limit=TIME_LIMIT, optimum=optimum, easier=last.get("proof"))
            last["proof"] = staged.key
            yield staged
    for long in LONG:
        for backend, jobs in (("threads", 1), ("threads", 2), ("processes", 2)):
            for again in range(ROUNDS if backend == "threads" else 1):
                yield Task(long.dataset, Loss(), Hired(long, backend, jobs), again, time_limit=TIME_LIMIT)
        for lanes in (*LANES, TREE):
            yield Task(long.dataset, Loss(), Recorded(long, lanes), time_limit=TIME_LIMIT)
    for lanes in (*LANES, TREE):
        yield Task(LARGE.dataset, Loss(), Recorded(LARGE, lanes), time_limit=TIME_LIMIT)
    for backend in ("processes", "dask"):
        yield Task(datasets.generated(10, N, D), Loss(), Messages(backend))


def render(rows: list[Row]) -> Iterator[Table | Figure]:
    """Yield what was measured, what was simulated, and what is projected."""
    yield from scaling.shown(rows, (SYNTHETIC, REAL), [one.dataset.name for one in LONG])
    yield from projection.shown(rows, SYNTHETIC, LARGE.dataset.name)


BENCHMARK = Benchmark(
    "scale", "From 10,000 to 10,000,000 hypotheses, and from 1 to 64 workers", tasks, render, apart=True
)
