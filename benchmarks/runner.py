"""Which tasks are left, measuring them one after the other, and keeping every row at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from benchmarks.harness import (
    Benchmark,
    Task,
    contradictions,
    disagreements,
    measure,
    measure_apart,
    present_version,
)
from benchmarks.rows import Key, Row, forget_row, keep_row, read_rows
from benchmarks.suites import benchmark
from lpmert.errors import MethodError

ROWS = Path(__file__).resolve().parent / "results" / "rows"


@dataclass(frozen=True)
class Wishes:
    """What of a benchmark to run. datasets, solvers: patterns as in a shell, all if there are none.

    time_limit: seconds for each run instead of the benchmark's own. again: run what is done already; again_above: run
    again what was measured above this load average; again_older: what was measured with another commit. at_most: begin
    no further run after so many seconds.
    """

    datasets: tuple[str, ...] = ()
    solvers: tuple[str, ...] = ()
    time_limit: float | None = None
    again: bool = False
    again_above: float | None = None
    again_older: bool = False
    at_most: float | None = None

    def ask_for(self, task: Task) -> bool:
        """Whether the task is among those wanted."""
        return _matches(task.dataset.name, self.datasets) and _matches(task.solver.name, self.solvers)

    def accept(self, task: Task, row: Row | None) -> bool:
        """Whether a row is good enough to leave the task undone."""
        if row is None or self.again or not task.done_by(row) or row.held_up:
            return False
        if self.again_older and row.version != present_version():
            return False
        return self.again_above is None or row.load is None or row.load <= self.again_above


def run(wanted: Benchmark, wishes: Wishes, folder: Path, say: Callable[[str], None]) -> list[str]:
    """Measure what is left of a benchmark; return what contradicts a known optimum.

    Rows done before are judged by the optima too.
    """
    path = folder / f"{wanted.name}.jsonl"
    done = read_rows(path) if wanted.resumes else {}
    begin = time.perf_counter()
    trouble, hopeless = [], set()
    for task in wanted.tasks():
        if not wishes.ask_for(task):
            continue
        if wishes.time_limit is not None:
            task = replace(task, time_limit=wishes.time_limit)
        row = done.get(task.key)
        if task.easier in hopeless:
            say(f"{_label(task)}: not tried: less was cut short")
            hopeless.add(task.key)
            forget_row(path, task.key)
            done.pop(task.key, None)
            continue
        if row is None or not wishes.accept(task, row):
            if wishes.at_most is not None and time.perf_counter() - begin >= wishes.at_most:
                say(f"{wanted.name}: stopped after {wishes.at_most:g} seconds; run again to go on")
                break
            reason = task.dataset.skip() or task.solver.skip(task.dataset.load(), task.objective)
            if reason is not None:
                say(f"{_label(task)}: skipped: {reason}")
                continue
            try:
                row = measure_apart(task, partial(task_by_key, wanted.name)) if wanted.apart else measure(task)
            except MethodError as error:
                say(f"{_label(task)}: skipped: {error}")
                if task.proof:
                    trouble.append(f"{_label(task)}: no proof: {error}")
                continue
            if row.status == "interrupted":  # the solver has swallowed the Ctrl-C that was meant for all
                raise KeyboardInterrupt
            keep_row(path, row)
            done[task.key] = row
            say(f"{_label(task)}: {row.status}, loss {row.loss}, {row.seconds:.3g} s")
        if row.cut_short:
            hopeless.add(task.key)
        trouble += [f"{_label(task)}: {text}" for text in contradictions(row, task, wanted.tolerance)]
    return trouble + list(disagreements(done.values(), wanted.tolerance))


def current_rows(wanted: Benchmark, folder: Path) -> list[Row]:
    """Return the rows of a benchmark's present tasks, in their order."""
    done = read_rows(folder / f"{wanted.name}.jsonl")
    return [done[task.key] for task in wanted.tasks() if task.key in done]


def task_by_key(name: str, key: Key) -> Task:
    """Return the task of a benchmark with this key."""
    return next(task for task in benchmark(name).tasks() if task.key == key)


def _label(task: Task) -> str:
    dataset, objective, solver, seed = task.key
    return f"{dataset} ({objective}) by {solver}" + (f", seed {seed}" if seed else "")


def _matches(name: str, patterns: Iterable[str]) -> bool:
    wanted = tuple(patterns)
    return not wanted or any(fnmatchcase(name, pattern) for pattern in wanted)
