"""Exact line searches: milliseconds of a single search, and whole runs from 20 starts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from statistics import fmean, median

import numpy as np

from benchmarks import datasets
from benchmarks.harness import Answer, Benchmark, Objective, Solver, Task
from benchmarks.lists import by_method, loss, warm_up
from benchmarks.rows import Row, find
from benchmarks.tables import Table, number, seconds
from lpmert.lines import LineSearch
from lpmert.methods.direct_search import Och
from lpmert.model.nbest import NBest

LINES = 100
SEEDS = (0, 1, 2)
RUNS = (by_method(Och(), "greedy coordinates, 20 starts"), by_method(Och(directions="powell"), "Powell, 20 starts"))
CASES = (
    (datasets.asr(3), loss()),
    (datasets.libri(5), loss()),
    (datasets.csmt(), loss()),
    (datasets.swahili(), loss()),
    (datasets.swahili_bleu(), loss("bleu")),
)


def _single(coordinates: bool, data: NBest, objective: Objective, seed: int, _time_limit: float) -> Answer:
    """Return the milliseconds of line searches from random weights: along a random line, or along every coordinate."""
    problem = objective.problem(data).canonical
    search = LineSearch(problem)
    size = problem.n_features
    weights, directions = np.random.default_rng(seed).normal(size=(2, LINES, size)) / search.spread
    search.along(weights[0], directions[0])
    search.best_coordinate(weights[0], np.arange(size))
    times = []
    for start, direction in zip(weights, directions, strict=True):
        begin = time.perf_counter()
        if coordinates:
            search.best_coordinate(start, np.arange(size))
        else:
            search.along(start, direction)
        times.append(1000 * (time.perf_counter() - begin) / (size if coordinates else 1))
    sizes = {"lists": problem.n_lists, "hypotheses": len(problem.features), "features": size}
    return Answer(None, "finished", None, sizes, {"milliseconds": np.round(times, 4).tolist()})


SINGLE = tuple(
    Solver(name, partial(_single, name == "a coordinate"), lambda: warm_up(Och()))
    for name in ("any line", "a coordinate")
)


def tasks() -> Iterator[Task]:
    """Yield single searches, then whole runs with several seeds."""
    for dataset, objective in CASES:
        for one in SINGLE:
            yield Task(dataset, replace(objective, name=f"time of a search, {objective.name}"), one)
        for run in RUNS:
            for seed in SEEDS:
                yield Task(dataset, objective, run, seed)


def render(rows: list[Row]) -> Iterator[Table]:
    """Yield the medians of single searches, and the spread of whole runs."""
    body, runs = [], []
    for dataset, objective in CASES:
        mine = find(rows, dataset=dataset.name)
        times = [find(mine, solver=one.name) for one in SINGLE]
        if all(times):
            sizes = times[0][0].counters
            medians = [f"{median(found[0].details['milliseconds']):.3g}" for found in times]
            counts = [f"{sizes[name]:,}" for name in ("lists", "hypotheses", "features")]
            body.append([dataset.name, *counts, *medians])
        for run in RUNS:
            found = find(mine, solver=run.name)
            if not found:
                continue
            values = [row.loss if objective.name == "loss" else row.score for row in found]
            searches = [row.counters["line_searches"] for row in found]
            spent = [row.seconds for row in found]
            runs.append(
                [
                    dataset.name,
                    run.name,
                    " / ".join(number(value, 6) for value in values),
                    seconds(fmean(spent)),
                    f"{fmean(searches):,.0f}",
                    f"{sum(searches) / sum(spent):,.0f}",
                ]
            )
    note = (
        f"Medians of {LINES} searches from random weights; a coordinate is a share of the search for the best of all. "
        "Lists, hypotheses and features are those of the canonical form."
    )
    headings = ("lists", "S", "hypotheses", "D", "any line, ms", "a coordinate, ms")
    yield Table("One line search", headings, body, note)
    note = f"Losses, or corpus BLEU of the last, by seed ({', '.join(map(str, SEEDS))})."
    yield Table(
        "From 20 starts", ("lists", "directions", "found", "seconds", "searches", "a second"), runs, note, left=2
    )


BENCHMARK = Benchmark("lines", "Line searches", tasks, render, source="Och, ACL 2003, in kind")
