"""lpmert beside what users would pick instead: a grid, Optuna, restarted line searches and a mixed-integer program.

Seconds are also given in evaluations of the grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from benchmarks import datasets
from benchmarks.harness import Answer, Benchmark, Dataset, Objective, Solver, Task
from benchmarks.lists import by_method, loss, solved
from benchmarks.rows import Row, find
from benchmarks.tables import Table, number, seconds, table_of
from lpmert.methods.auto import Auto
from lpmert.methods.direct_search import EVALUATIONS, Grid, NelderMead, Och, RandomSearch, Tpe
from lpmert.methods.mip import Mip
from lpmert.model.nbest import NBest


@dataclass(frozen=True)
class Case:
    """Lists, their optimum if known, the points of the grid, and whether the signs of good weights are unknown."""

    dataset: Dataset
    optimum: float | None
    points: int = EVALUATIONS
    either_sign: bool = False


CASES = (
    Case(datasets.asr(3), 912),
    Case(datasets.libri(3), 1767),
    Case(datasets.libri(5), 1746, 256),
    Case(datasets.libri(3, 50), None),
    Case(datasets.generated(300, 20, 3), 734, either_sign=True),
    Case(datasets.generated(20, 20, 3), None, either_sign=True),
    Case(datasets.generated(8, 30, 8), 13, 128, either_sign=True),
    Case(datasets.swahili(slice(0, 8)), 4.948169, 8192),
)
"""The grid has 24 points for each of two features, 4 for each of four, and 2 for each of more."""

SEEDS = (0, 1, 2)
TIME_LIMIT = 180.0
MOST_ROWS = 300_000
EXACT = by_method(Auto(), "auto")
GRID = by_method(Grid(), "grid")


def _either_sign(data: NBest, objective: Objective, seed: int, time_limit: float) -> Answer:
    """Return the better answer of two grids, in which the first weight is 1 or -1, with the sums of their costs."""
    answers = [solved(Grid(negative=negative), data, objective, seed, time_limit) for negative in (False, True)]
    best = min(answers, key=lambda answer: objective.judge(data, answer).loss or 0.0)
    evaluations = sum(answer.counters["evaluations"] for answer in answers)
    search = sum(answer.details["parts"]["search"] for answer in answers)
    return replace(best, counters={**best.counters, "evaluations": evaluations}, details={"parts": {"search": search}})


GRIDS = replace(GRID, name="two grids", solve=_either_sign)


def _too_many_rows(data: NBest, _: Objective) -> str | None:
    sizes = np.diff(data.offsets)
    rows = int((sizes * (sizes - 1)).sum())
    return f"{rows:,} constraints, more than {MOST_ROWS:,}" if rows > MOST_ROWS else None


_UNSEEDED = 3  # the first three solvers draw no random numbers

MIP = replace(by_method(Mip(), "mixed-integer program (HiGHS)"), skip=_too_many_rows)
TRIALS = EVALUATIONS  # trials of Optuna; each takes thousands of times as long as an evaluation of the grid


def _solvers(case: Case) -> tuple[Solver, ...]:
    """Return the solvers; random search gets as many evaluations as the grid."""
    draws = case.points * (2 if case.either_sign else 1)
    return (
        EXACT,
        MIP,
        GRIDS if case.either_sign else GRID,
        by_method(Tpe(trials=TRIALS), f"Optuna, {TRIALS} trials"),
        by_method(RandomSearch(draws=draws), f"random, {draws}"),
        by_method(NelderMead(), "Nelder-Mead"),
        by_method(Och(directions="powell", restarts=20), "Powell, 20 restarts"),
        by_method(Och(directions="powell", restarts=100), "Powell, 100 restarts"),
    )


def tasks() -> Iterator[Task]:
    """Yield every case with every solver, with several seeds for solvers that draw random numbers."""
    for case in CASES:
        for place, solver in enumerate(_solvers(case)):
            for seed in SEEDS if place >= _UNSEEDED else SEEDS[:1]:
                yield Task(case.dataset, loss(), solver, seed, TIME_LIMIT, case.optimum)


def render(rows: list[Row]) -> Iterator[Table]:
    """Yield a summary in evaluations of the grid, and a table for each case."""
    body, tables = [], []
    for case in CASES:
        dataset, scan = case.dataset, GRIDS if case.either_sign else GRID
        mine = find(rows, dataset=dataset.name)
        exact, grid = (next(iter(find(mine, solver=one.name)), None) for one in (EXACT, scan))
        if exact is None or grid is None:
            continue
        unit = grid.details["parts"]["search"] / grid.counters["evaluations"]
        proof = f"{exact.seconds / unit:,.0f}" if exact.proved else f">{exact.seconds / unit:,.0f}"
        gap = f"{number(exact.lower_bound, 7)}..{number(exact.loss, 7)}"
        optimum = number(exact.loss, 7) if exact.proved else gap
        body.append(
            {
                "lists": dataset.name,
                "S": f"{exact.counters['lists']:,}",
                "D": f"{exact.counters['features']}",
                "optimum": optimum,
                "seconds to the proof": seconds(exact.seconds),
                "ms an evaluation": f"{1000 * unit:.3g}",
                "proof, in evaluations": proof,
                "evaluations of the grid": f"{grid.counters['evaluations']:,}",
                "grid above the best known": _above(grid, _least(mine)),
            }
        )
        tables.append(_table(case, mine, unit))
    note = (
        "An evaluation decodes all lists once, with the package's own core, and adds up the losses. The grid has 24 "
        "points for each of two features beside the reference, 4 for each of four, 2 for each of more; in generated "
        "lists, whose signs nobody knows beforehand, once for each sign of the reference. The mixed-integer program "
        f"(not tried beyond {MOST_ROWS:,} rows) has one row for each ordered pair of hypotheses of a list: with one "
        "maximum a list instead there would be fewer, but no margin to ask for, and weights of 0 would satisfy all."
    )
    yield table_of("A proof in units of grid evaluations", body, note)
    yield from tables


def _table(case: Case, rows: list[Row], unit: float) -> Table:
    body = []
    best = _least(rows)
    for solver in _solvers(case):
        found = find(rows, solver=solver.name)
        if not found:
            continue
        time = fmean(row.seconds for row in found)
        body.append(
            {
                "solver": solver.name,
                "status": ", ".join(sorted({row.status.replace("_", " ") for row in found})),
                "loss": " / ".join(number(row.loss, 7) for row in found),
                "above the best known": " / ".join(_above(row, best) for row in found),
                "bound": number(found[0].lower_bound, 7),
                "seconds": seconds(time),
                "in evaluations": f"{time / unit:,.0f}",
                "proved": f"{sum(row.proved for row in found)} of {len(found)}",
            }
        )
    return table_of(f"{case.dataset.name}: what each solver reaches", body, left=2)


def _least(rows: list[Row]) -> float:
    return min(row.loss for row in rows if row.loss is not None)


def _above(row: Row, best: float) -> str:
    if row.loss is None:
        return "-"
    return f"{100 * (row.loss / best - 1):+.2f}%" if best else number(row.loss)


BENCHMARK = Benchmark(
    "rivals",
    "Against what users would pick",
    tasks,
    render,
    tolerance=1e-6,
)
