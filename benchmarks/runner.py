"""Run the tasks of a benchmark that are not done, one after the other, and store each row at once."""

from __future__ import annotations

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
class RunOptions:
    """Which tasks of a benchmark to run. datasets, solvers: shell patterns of their names; all if there are none.

    time_limit: seconds for each run instead of the benchmark's own. again: repeat runs that are done; again_above:
    repeat those measured above this load average; again_older: repeat those measured with another commit.
    """

    datasets: tuple[str, ...] = ()
    solvers: tuple[str, ...] = ()
    time_limit: float | None = None
    again: bool = False
    again_above: float | None = None
    again_older: bool = False

    def includes(self, task: Task) -> bool:
        """Whether the patterns match the task."""
        return _matches(task.dataset.name, self.datasets) and _matches(task.solver.name, self.solvers)

    def accepts(self, task: Task, row: Row) -> bool:
        """Whether a stored row makes it unnecessary to run the task."""
        if self.again or not task.done_by(row) or row.held_up:
            return False
        if self.again_older and row.version != present_version():
            return False
        return self.again_above is None or row.load is None or row.load <= self.again_above


def run(suite: Benchmark, options: RunOptions, folder: Path, say: Callable[[str], None]) -> list[str]:
    """Measure the tasks of a benchmark that are not done; return contradictions between rows and known optima.

    Rows stored before are checked, too.
    """
    path = folder / f"{suite.name}.jsonl"
    done = read_rows(path) if suite.resumes else {}
    trouble, hopeless = [], set()
    for task in suite.tasks():
        if not options.includes(task):
            continue
        if options.time_limit is not None:
            task = replace(task, time_limit=options.time_limit)
        row = done.get(task.key)
        if task.easier in hopeless:
            say(f"{_label(task)}: not tried: less was cut short")
            hopeless.add(task.key)
            forget_row(path, task.key)
            done.pop(task.key, None)
            continue
        if row is None or not options.accepts(task, row):
            reason = task.dataset.skip() or task.solver.skip(task.dataset.load(), task.objective)
            if reason is not None:
                say(f"{_label(task)}: skipped: {reason}")
                continue
            try:
                row = measure_apart(task, partial(task_by_key, suite.name)) if suite.apart else measure(task)
            except MethodError as error:
                say(f"{_label(task)}: skipped: {error}")
                if task.proof:
                    trouble.append(f"{_label(task)}: no proof: {error}")
                continue
            if row.status == "interrupted":  # the solver has caught the Ctrl-C that is to end the whole run
                raise KeyboardInterrupt
            keep_row(path, row)
            done[task.key] = row
            say(f"{_label(task)}: {row.status}, loss {row.loss}, {row.seconds:.3g} s")
        if row.cut_short:
            hopeless.add(task.key)
        trouble += [f"{_label(task)}: {text}" for text in contradictions(row, task, suite.tolerance)]
    return trouble + list(disagreements(done.values(), suite.tolerance))


def current_rows(suite: Benchmark, folder: Path) -> list[Row]:
    """Return the stored rows of a benchmark's present tasks, in the order of the tasks."""
    done = read_rows(folder / f"{suite.name}.jsonl")
    return [done[task.key] for task in suite.tasks() if task.key in done]


def task_by_key(name: str, key: Key) -> Task:
    """Return the task of a benchmark with this key."""
    return next(task for task in benchmark(name).tasks() if task.key == key)


def _label(task: Task) -> str:
    dataset, objective, solver, seed = task.key
    return f"{dataset} ({objective}) by {solver}" + (f", seed {seed}" if seed else "")


def _matches(name: str, patterns: Iterable[str]) -> bool:
    patterns = tuple(patterns)
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
