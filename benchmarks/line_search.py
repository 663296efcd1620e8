"""Throughput of exact line searches, and whole runs with restarts, on one thread.

python -m benchmarks.line_search                        # the 500 lists of run 7, if the shared data are there
python -m benchmarks.line_search --set gen/set.13.npz   # and a set with corpus BLEU: X [S, N, D], stats [S, N, 9]
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded, which is when BLAS reads it

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import datasets
from lpmert.comparators.och import Och, line_search_of
from lpmert.nbest import NBest
from lpmert.problem import Problem
from lpmert.result import FloatArray

LINES = 100
"""Line searches that are timed one by one."""

RUNS = {"greedy coordinates": Och(), "Powell": Och(directions="powell")}


def milliseconds(search: Callable[..., object], *arguments: FloatArray) -> float:
    """Return the processor time of one call."""
    begin = time.process_time()
    search(*arguments)
    return 1000 * (time.process_time() - begin)


def throughput(name: str, problem: Problem, table: Table) -> None:
    """Add a row with the median times of line searches from random weights."""
    search = line_search_of(problem)
    rng = np.random.default_rng(0)
    size = problem.n_features
    weights, directions = rng.normal(size=(2, LINES, size)) / search.spread
    search.along(weights[0], directions[0])
    search.best_coordinate(weights[0])
    line = statistics.median(map(partial(milliseconds, search.along), weights, directions))
    axes = statistics.median(map(partial(milliseconds, search.best_coordinate), weights)) / size
    table.add_row(name, str(problem.n_lists), str(len(problem.features)), str(size), *map(_figure, (line, axes)))


def whole_runs(name: str, problem: Problem, seeds: int, table: Table) -> None:
    """Add a row for each way to choose directions: 20 restarts, over the seeds."""
    for label, method in RUNS.items():
        scores, seconds, lines = [], [], []
        for seed in range(seeds):
            begin = time.process_time()
            result = method.solve(problem, seed=seed)
            seconds.append(time.process_time() - begin)
            scores.append(result.score)
            lines.append(result.counters["line_searches"])
        spread = f"{min(scores):.4f} .. {max(scores):.4f}" if seeds > 1 else f"{scores[0]:.4f}"
        mean = statistics.fmean(seconds)
        rate = sum(lines) / sum(seconds)
        table.add_row(name, label, spread, f"{mean:.2f}", f"{statistics.fmean(lines):.0f}", f"{rate:.0f}")


def _figure(value: float) -> str:
    return f"{value:.2f}"


def _set(path: Path) -> NBest:
    """Return lists from arrays X [S, N, D], stats [S, N, 9] and names [D]."""
    with np.load(path) as arrays:
        features, counts = arrays["X"], arrays["stats"]
        n_lists, size, width = features.shape
        return NBest(
            features.reshape(-1, width),
            np.arange(0, n_lists * size + 1, size),
            counts.reshape(n_lists * size, -1),
            names=arrays["names"].tolist(),
        )


@click.command()
@click.option(
    "--set", "sets", type=click.Path(exists=True, path_type=Path), multiple=True, help="An .npz file; any number."
)
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Whole runs of each kind.")
def main(sets: tuple[Path, ...], seeds: int) -> None:
    """Print milliseconds of a line search, and score, processor seconds and line searches of whole runs."""
    problems = {path.stem: Problem(_set(path), "bleu") for path in sets}
    for data, metric in ((datasets.swahili(), "loss"), (datasets.swahili_bleu(), "bleu")):
        reason = data.skip()
        if reason is None:
            problems[data.name] = Problem(data.load(), metric)
        else:
            click.echo(f"{data.name}: {reason}", err=True)
    console = Console(width=110)
    table = Table("lists", "S", "hypotheses", "D", "any line, ms", "coordinate, ms", title="One line search")
    for name, problem in problems.items():
        throughput(name, problem, table)
    console.print(table)
    table = Table("lists", "directions", "score", "seconds", "line searches", "a second", title="20 restarts")
    for name, problem in problems.items():
        whole_runs(name, problem, seeds, table)
    console.print(table)


if __name__ == "__main__":
    main()
