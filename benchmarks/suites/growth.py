"""Nodes, linear programs, seconds and memory by lists, by hypotheses and by features, with fitted growth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import datasets
from benchmarks.harness import Benchmark, Dataset, Solver, Task, ladder
from benchmarks.lists import by_method, loss
from benchmarks.plots import legend, one_for_each
from benchmarks.rows import Row, find
from benchmarks.tables import Figure, Table
from lpmert.methods.cells import Cells
from lpmert.methods.choices import Choices
from lpmert.methods.lp_mert import LpMert

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

TIME_LIMIT = 60.0
DRAWS = (0, 1, 2)
CELLS, CHOICES, DIVIDE = by_method(Cells(), "cells"), by_method(Choices(), "choices"), by_method(LpMert(), "lp-mert")
MEASURES: dict[str, Callable[[Row], float]] = {
    "nodes": lambda row: float(row.counters.get("nodes", 0)),
    "LPs": lambda row: float(row.counters.get("lps", 0)),
    "seconds": lambda row: float(row.details["parts"]["search"]),
    "MiB": lambda row: (row.peak_bytes or 0) / 2**20,
}


LEAST = {"seconds": 0.005, "MiB": 0.5}  # smaller values say little and are left out of fits


@dataclass(frozen=True)
class Series:
    """Lists that differ in one size. draws: which of several sets; geometric: whether sizes rise by factors."""

    name: str
    variable: str
    sizes: tuple[int, ...]
    lists: Callable[[int, int], Dataset]
    solvers: tuple[Solver, ...]
    geometric: bool = True
    draws: tuple[int, ...] = DRAWS


def _swahili(draw: int, n_lists: int = 8, n_features: int = 14, size: int | None = None) -> Dataset:
    whole = size is None or size >= datasets.SWAHILI_SIZE
    lists = slice(100 * draw, 100 * draw + n_lists)
    return datasets.swahili(lists, n_features=n_features, size=None if whole else size)


SERIES = (
    Series(
        "generated, N = 30, D = 3",
        "S",
        (100, 200, 400, 800, 1600, 3200, 6400),
        lambda size, draw: datasets.generated(size, 30, 3, draw),
        (CELLS,),
    ),
    Series(
        "generated, S = 400, D = 3",
        "N",
        (10, 20, 40, 80, 160, 320),
        lambda size, draw: datasets.generated(400, size, 3, draw),
        (CELLS,),
    ),
    Series(
        "generated, S = 400, N = 30",
        "D",
        (2, 3, 4, 5, 6),
        lambda size, draw: datasets.generated(400, 30, size, draw),
        (CELLS,),
        geometric=False,
    ),
    Series(
        "speech, N = 30, D = 3",
        "S",
        (179, 358, 716, 1432, 2864),
        lambda size, _: datasets.libri(3, None if size == datasets.LIBRI_LISTS else size),
        (CELLS,),
        draws=(0,),
    ),
    Series(
        "speech, S = 2864, N = 30",
        "D",
        (2, 3, 4, 5),
        lambda size, _: datasets.libri(size),
        (CELLS,),
        geometric=False,
        draws=(0,),
    ),
    Series(
        "translation, N = 100, D = 14",
        "S",
        (2, 4, 6, 8, 10, 12, 14, 16),
        lambda size, draw: _swahili(draw, n_lists=size),
        (CHOICES, DIVIDE),
        geometric=False,
    ),
    Series(
        "translation, S = 8, D = 14",
        "N",
        (6, 12, 25, 50, 100),
        lambda size, draw: _swahili(draw, size=size),
        (CHOICES, DIVIDE),
    ),
    Series(
        "translation, S = 8, N = 100",
        "D",
        (2, 4, 6, 8, 10, 12, 14),
        lambda size, draw: _swahili(draw, n_features=size),
        (CHOICES, DIVIDE),
        geometric=False,
    ),
)


def tasks() -> Iterator[Task]:
    """Yield every series with each of its solvers; sets that two series share are solved once."""
    seen = set()
    for series in SERIES:
        for solver in series.solvers:
            for draw in series.draws:
                sets = (series.lists(size, draw) for size in series.sizes)
                for task in ladder(Task(lists, loss(), solver, time_limit=TIME_LIMIT) for lists in sets):
                    if task.key not in seen:
                        seen.add(task.key)
                        yield task


def render(rows: list[Row]) -> Iterator[Table | Figure]:
    """Yield the fitted growth of every series, all means, and a figure."""
    fits, means = [], []
    for series in SERIES:
        for solver in series.solvers:
            found = _measured(rows, series, solver)
            if not found:
                continue
            sizes = list(found)
            ends = f"{sizes[0]} to {sizes[-1]} ({len(sizes)} of {len(series.sizes)})"
            fitted = [growth(series, [(n, found[n][name]) for n in sizes], LEAST.get(name, 1.0)) for name in MEASURES]
            fits.append([series.name, solver.name, series.variable, ends, *fitted])
            for size, values in found.items():
                shown = [f"{value:,.3g}" if value < 1000 else f"{value:,.0f}" for value in values.values()]
                means.append([series.name, solver.name, f"{series.variable} = {size}", *shown])
    note = (
        "x^1.2: a power of the size, fitted by least squares on logarithms; times 3.1: the factor for each further "
        "list or feature. Geometric means of up to three sets. Sizes at which the time limit ended a run are left out, "
        "and how many are not, stands behind the ends: fits without the hard sizes are lower than the truth. Seconds "
        f"are of the search alone, those below {LEAST['seconds']:g} left out of fits, as the canonical form and the "
        "first weights cost about the same for all sizes; MiB are beyond what the process held before, those below "
        f"{LEAST['MiB']:g} left out of fits."
    )
    yield Table("Growth", ("lists", "solver", "varied", "from", *MEASURES), fits, note, left=4)
    yield Table("Geometric means", ("lists", "solver", "size", *MEASURES), means, left=3)
    yield Figure("growth", "Seconds against size", lambda canvas: _draw(canvas, rows), size=(10.0, 3.6))


def _measured(rows: list[Row], series: Series, solver: Solver) -> dict[int, dict[str, float]]:
    """Return the geometric mean of every measure, for each size of which all sets were proved."""
    found = {}
    for size in series.sizes:
        mine = [
            row
            for draw in series.draws
            for row in find(rows, dataset=series.lists(size, draw).name, solver=solver.name)
        ]
        if len(mine) == len(series.draws) and all(row.proved for row in mine):
            found[size] = {
                name: float(np.exp(np.mean([np.log(max(measure(row), 1e-6)) for row in mine])))
                for name, measure in MEASURES.items()
            }
    return found


def growth(series: Series, points: Sequence[tuple[int, float]], least: float = 0.0) -> str:
    """Return how a measure grows, fitted to the points where it is above `least`."""
    known = [(size, value) for size, value in points if value > least]
    if len(known) < 3:
        return "-"
    sizes, values = np.array(known, dtype=np.float64).T
    slope = float(np.polyfit(np.log(sizes) if series.geometric else sizes, np.log(values), 1)[0])
    return f"x^{slope:.2f}" if series.geometric else f"times {np.exp(slope):.2f}"


def _draw(canvas: Canvas, rows: list[Row]) -> None:
    panels = canvas.subplots(1, 3)
    for axes, variable in zip(panels, "SND", strict=True):
        lines = {
            f"{series.name}: {solver.name}": [
                (size, values["seconds"]) for size, values in _measured(rows, series, solver).items()
            ]
            for series in SERIES
            if series.variable == variable
            for solver in series.solvers
        }
        one_for_each(axes, lines, logarithmic="y" if variable == "D" else "xy", ordered=False)
        axes.set_xlabel({"S": "lists", "N": "hypotheses a list", "D": "features"}[variable])
        legend(axes, 6)
    panels[0].set_ylabel("seconds to the proof")


BENCHMARK = Benchmark("growth", "Growth with lists, hypotheses and features", tasks, render, apart=True)
