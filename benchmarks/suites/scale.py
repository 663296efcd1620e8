"""From 10,000 to 10,000,000 hypotheses, stage by stage, and what two workers gain."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import datasets, scaling
from benchmarks.harness import Answer, Benchmark, Dataset, Objective, Solver, Task
from benchmarks.lists import loss, warm_up
from benchmarks.machine import cores
from benchmarks.rows import Row
from benchmarks.scaling import FORMATS, WORKERS, Kind
from benchmarks.stages import STAGED, a_file, reader
from benchmarks.tables import Figure, Table
from lpmert.methods.cells import Cells
from lpmert.methods.choices import Choices
from lpmert.model.nbest import NBest
from lpmert.result import Limits
from lpmert.search.driver import solve
from lpmert.search.method import Method
from lpmert.workers import using_workers

TIME_LIMIT = 600.0
N, D = 30, 3
OPTIMUM = 1767.0  # the optimum of the real lists once, proved by `growth` and `targets`; they are repeated
ROUNDS = 3  # how often searches by threads are measured, as the machine may be busy

MOST_ROWS = {"npz": 10_000_000, "parquet": 3_000_000, "tsv": 1_000_000}
"""The largest files of each format, as writing them takes long."""


LONG: tuple[tuple[Dataset, Method], ...] = (
    (datasets.libri(5), Cells()),
    (datasets.swahili(slice(0, 16)), Choices()),
    (datasets.generated(33333, N, D), Cells()),
)
"""Searches that take seconds: of real lists, of selections of 16 lists with 14 features, and of many lists."""


def synthetic(size: int) -> Dataset:
    """Return generated lists with about this many hypotheses."""
    return datasets.generated(size // N, N, D)


def real(size: int) -> Dataset:
    """Return lists of a speech recogniser with about this many hypotheses: the first ones, or all of them repeated.

    The optimum of repeated lists is the known one times the number of repetitions.
    """
    times = round(size / (N * datasets.LIBRI_LISTS))
    if times <= 1:
        return datasets.libri(D, None if times == 1 else size // N)
    whole = datasets.libri(D)
    return whole.then(f"{whole.name} x {times}", partial(_repeated, times))


def _repeated(times: int, whole: NBest) -> NBest:
    return whole.changed(
        features=np.tile(whole.dense_features(), (times, 1)),
        offsets=np.concatenate([[0], np.cumsum(np.tile(np.diff(whole.offsets), times))]),
        statistics=np.tile(whole.statistics, (times, 1)),
        list_ids=None,
        texts=None,
    )


SYNTHETIC = Kind("generated", (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000), synthetic)
REAL = Kind("speech, repeated", (10_000, 100_000, 300_000, 1_000_000, 3_000_000), real)


def _workers(method: Method, label: str, jobs: int) -> Solver:
    """Return a search by several threads, timed without starting them; other seeds repeat the same search."""

    def search(data: NBest, objective: Objective, _seed: int, time_limit: float) -> Answer:
        with using_workers("threads", jobs):
            begin = time.perf_counter()
            result = solve(method, objective.problem(data), Limits(time_limit=time_limit))
            seconds = time.perf_counter() - begin
        status, counters = result.status.name.lower(), dict(result.counters)
        return Answer(result.weights, status, result.lower_bound, counters, {"seconds": seconds})

    few = f"{jobs} threads on {cores()} cores" if jobs > cores() else None
    return Solver(label, search, partial(warm_up, method), lambda *_: few)


def tasks() -> Iterator[Task]:
    """Yield reading and the stages of the search for all sizes, then searches by one worker and by two.

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
                    task = Task(dataset, a_file(format), reader(format), time_limit=TIME_LIMIT, easier=last.get(format))
                    last[format] = task.key
                    yield task
            staged = Task(dataset, loss(), STAGED, time_limit=TIME_LIMIT, optimum=optimum, easier=last.get("proof"))
            last["proof"] = staged.key
            yield staged
    for dataset, method in LONG:
        for jobs, label in enumerate(WORKERS, 1):
            for again in range(ROUNDS):
                yield Task(dataset, loss(), _workers(method, label, jobs), again, time_limit=TIME_LIMIT)


def render(rows: list[Row]) -> Iterator[Table | Figure]:
    """Yield what was measured."""
    yield from scaling.shown(rows, (SYNTHETIC, REAL), [dataset.name for dataset, _ in LONG])


BENCHMARK = Benchmark("scale", "From 10,000 to 10,000,000 hypotheses, and two workers", tasks, render, apart=True)
