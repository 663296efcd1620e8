"""The loss on unseen lists: averaged weights beside the optimum, line searches and a grid."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from statistics import fmean

import numpy as np

from benchmarks.halves import Halves, divided, held_out
from benchmarks.harness import Answer, Benchmark, Dataset, Objective, Solver, Task
from benchmarks.lists import by_method
from benchmarks.rows import Row, find
from benchmarks.sources import SOURCES, Source
from benchmarks.tables import Table, seconds
from lpmert.comparing.averaging import TEMPERATURE, average_weights
from lpmert.comparing.cross_validation import corrected_reach
from lpmert.methods.auto import Auto
from lpmert.methods.direct_search import Grid, Och
from lpmert.model.canonical import CallerWeights
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.search.driver import solve

SPLITS = 10
TIME_LIMIT = 3.0
BASELINE = "Och, 20 starts"


def averaging(name: str, temperature: float = TEMPERATURE) -> Solver:
    """Return the average of weights, started from those of line searches, without a time limit.

    temperature: see `average_weights`.
    """

    def average(data: Halves, objective: Objective, seed: int, _time_limit: float) -> Answer:
        problem: Problem = objective.problem(data)
        start = problem.to_canonical(CallerWeights(solve(Och(), problem, seed=seed).weights))
        found = average_weights(problem, start, temperature=temperature, seed=seed)
        weights, details = problem.to_caller(found.weights), {"agreement": found.agreement}
        return Answer(weights, "heuristic", None, {"steps": found.steps}, details)

    def average_toy_lists() -> None:
        rng = np.random.default_rng(0)
        toy = NBest(rng.normal(size=(40, 3)), np.arange(0, 41, 4), rng.integers(0, 5, 40))
        average(Halves(toy, toy), held_out(), 0, TIME_LIMIT)

    return Solver(name, average, average_toy_lists)


AVERAGED = averaging("averaged")
OPTIMUM = by_method(Auto(), "optimum or best known")
OTHERS = (averaging("averaged, T = 10 u", 10.0),)
SOLVERS = (by_method(Och(), BASELINE), OPTIMUM, by_method(Grid(), "grid, 576 points"), AVERAGED, *OTHERS)


def split(source: Source, number: int) -> Dataset:
    """Return the lists of a source, split at random into lists to train on and held-out lists."""
    order = np.random.default_rng(number).permutation(source.n_lists)
    return divided(source, f"{source.name}, split {number}", order[: source.n_train], order[source.n_train :])


def tasks() -> Iterator[Task]:
    """Yield all splits of all sources with every method."""
    for source in SOURCES:
        for number in range(SPLITS):
            for solver in SOLVERS:
                yield Task(split(source, number), held_out(), solver, seed=number, time_limit=TIME_LIMIT)


def differences(rows: list[Row], source: Source, solver: str, baseline: str = BASELINE) -> list[float]:
    """Return the held-out loss of each split minus the baseline's, in percent of the mean of the baseline."""
    names = [split(source, number).name for number in range(SPLITS)]
    pairs = [(find(rows, dataset=name, solver=baseline), find(rows, dataset=name, solver=solver)) for name in names]
    losses = [
        (base[0].details["held_out_loss"], own[0].details["held_out_loss"])
        for base, own in pairs
        if base and own and "held_out_loss" in base[0].details and "held_out_loss" in own[0].details
    ]
    mean = fmean(base for base, _ in losses) if losses else 0.0
    return [100.0 * (own - base) / mean for base, own in losses] if mean > 0.0 else []


def of_source(rows: list[Row], source: Source) -> list[Row]:
    """Return the rows of the splits of a source."""
    return [row for row in rows if row.dataset.startswith(f"{source.name}, split")]


def spread(found: list[float], source: Source) -> tuple[float, float, str]:
    """Return the mean of differences, half the 95 % interval, and how many are below 0 and above."""
    share = (source.n_lists - source.n_train) / source.n_train
    reach = corrected_reach(np.array(found), share) if len(found) > 1 else inf
    return fmean(found), reach, f"{sum(one < 0 for one in found)}/{sum(one > 0 for one in found)}"


def render(rows: list[Row]) -> Iterator[Table]:
    """Yield the differences to the baseline by source, and processor seconds."""
    names = [solver.name for solver in SOLVERS[1:]]
    means: dict[str, list[float]] = {name: [] for name in names}
    better: dict[str, list[int]] = {name: [0, 0, 0, 0] for name in names}
    lines = []
    for source in SOURCES:
        if not of_source(find(rows, solver=BASELINE), source):
            continue
        cells = []
        for name in names:
            found = differences(rows, source, name)
            if not found:
                cells.append("-")
                continue
            mean, width, counts = spread(found, source)
            means[name].append(mean)
            for place, holds in enumerate((mean < 0, mean > 0, mean + width < 0, mean - width > 0)):
                better[name][place] += holds
            cells.append(f"{mean:+.2f} ± {width:.2f} ({counts})")
        lines.append(
            [source.name, f"{source.n_train} / {source.n_lists - source.n_train}", str(source.n_features), *cells]
        )
    if not lines:
        return
    total = [f"{fmean(means[name]):+.2f}" if means[name] else "-" for name in names]
    clear = ["{}/{}, clearly {}/{}".format(*better[name]) for name in names]
    lines += [["mean", "", "", *total], ["better / worse", "", "", *clear]]
    yield Table(
        f"Held-out loss beside {BASELINE}, in percent",
        ["lists", "fitted to / held out", "D", *names],
        lines,
        "Means over the splits, below 0 where it is better; ± is the interval of 95 % after Nadeau and Bengio (2003); "
        "in brackets the splits that it is better and worse on. What was not run on all of them is "
        "about those that were, and its last rows about fewer lists.",
        left=2,
    )
    yield _seconds(rows, names)


def _seconds(rows: list[Row], names: list[str]) -> Table:
    lines = []
    for source in SOURCES:
        own = of_source(rows, source)
        if own:
            spent = [[row.processor_seconds for row in find(own, solver=name)] for name in (BASELINE, *names)]
            agreed = [row.details.get("agreement") for row in find(own, solver=AVERAGED.name)]
            known = [one for one in agreed if one is not None]
            least = f"{min(known):.3f}" if known else "-"
            lines.append([source.name, *(seconds(fmean(one)) if one else "-" for one in spent), least])
    return Table(
        "Processor seconds of a run",
        ["lists", BASELINE, *names, "least agreement"],
        lines,
        f"Means over the splits. The optimum is searched for {TIME_LIMIT:g} seconds at most. The average includes the "
        "line searches that it starts from.",
    )


BENCHMARK = Benchmark("unseen", "Unseen lists: averages against the best", tasks, render)
