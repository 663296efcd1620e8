"""Whether as many features as cross-validation chooses do better on unseen lists than all features."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from benchmarks.halves import Halves, held_out
from benchmarks.harness import Answer, Benchmark, Objective, Solver, Task
from benchmarks.lists import by_method
from benchmarks.rows import Row, find
from benchmarks.sources import SOURCES
from benchmarks.suites.unseen import differences, of_source, split, spread
from benchmarks.tables import Table, seconds
from lpmert.comparing.cross_validation import folds_of
from lpmert.errors import FloatArray
from lpmert.interpretable import best_subsets
from lpmert.methods.auto import Auto
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem

SPLITS = 4
FOLDS = 3
TIME_LIMIT = 8.0
MOST_FEATURES = 15  # with more features, only sets of up to `FEW` are tried

FEW = 4


def _chosen_size(data: Halves, _: Objective, seed: int, time_limit: float) -> Answer:
    """Return the best weights with the number of features that loses least on the held-out lists of the folds.

    All sizes are searched on each fold, and the best one on all lists, each search within the time limit.
    """
    lists: NBest = data.train
    fold = folds_of(lists.n_lists, FOLDS, seed)
    costs: dict[int, list[float]] = {}
    for number in range(FOLDS):
        fitted, aside = (lists.restrict(chosen) for chosen in (fold != number, fold == number))
        for size, weights in _by_size(fitted, seed, time_limit).items():
            costs.setdefault(size, []).append(Problem(aside, ties="worst").evaluate(weights).loss)
    size = min(costs, key=lambda size: (-len(costs[size]), sum(costs[size]), size))
    found = _by_size(lists, seed, time_limit, size)
    size, weights = max(found.items(), key=lambda one: one[0])
    return Answer(weights, "heuristic", None, {"features": size})


def _by_size(lists: NBest, seed: int, time_limit: float, most: int | None = None) -> dict[int, FloatArray]:
    """Return the best weights of each size that fits into the time."""
    few = most or (None if lists.n_features <= MOST_FEATURES else FEW)
    found = best_subsets(lists, at_most=few, time_limit=time_limit, seed=seed)
    return {one.size: one.result.weights for one in found.subsets}


ALL = by_method(Auto(), "all features")
CHOSEN = Solver("k of cross-validation", _chosen_size)


def tasks() -> Iterator[Task]:
    """Yield the first splits of all sources with both solvers."""
    for source in SOURCES:
        for number in range(SPLITS):
            for solver in (ALL, CHOSEN):
                yield Task(split(source, number), held_out(), solver, seed=number, time_limit=TIME_LIMIT)


def render(rows: list[Row]) -> Iterator[Table]:
    """Yield the chosen sizes, and their held-out loss beside that of all features."""
    lines, means = [], []
    for source in SOURCES:
        found = differences(rows, source, CHOSEN.name, ALL.name)
        if not found:
            continue
        own = of_source(find(rows, solver=CHOSEN.name), source)
        sizes = " ".join(str(row.counters["features"]) for row in own)
        mean, reach, counts = spread(found, source)
        means.append(mean)
        spent = fmean(row.processor_seconds for row in own)
        figures = [f"{mean:+.2f} ± {reach:.2f}", counts, seconds(spent)]
        lines.append([source.name, str(source.n_features), sizes, *figures])
    if lines:
        lines.append(["mean", "", "", f"{fmean(means):+.2f}", "", ""])
        yield Table(
            "Held-out loss of the k of cross-validation beside all features, in percent",
            ["lists", "D", "chosen k", "difference", "better / worse", "processor seconds"],
            lines,
            f"Below 0 where k features are better; ± is the interval of 95 % after Nadeau and Bengio (2003). Each of "
            f"{SPLITS} splits chooses its k by {FOLDS}-fold cross-validation on the lists that it is fitted to, from "
            f"searches of {TIME_LIMIT:g} seconds for all sizes together, with more than {MOST_FEATURES} features those "
            f"up to {FEW}; all features are searched for {TIME_LIMIT:g} seconds too.",
        )


BENCHMARK = Benchmark("features", "Unseen lists: how many features", tasks, render)
