"""What users would pick instead: a grid, Optuna, restarted line searches, a mixed-integer program; seconds counted in
evaluations of a grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from benchmarks import datasets
from benchmarks.harness import Benchmark, Dataset, Task
from benchmarks.lists import Loss, Poses, Solve
from benchmarks.rows import PROOFS, Row, find
from benchmarks.tables import Table, number, seconds
from lpmert.comparators.grid import EVALUATIONS, Grid
from lpmert.comparators.och import Och
from lpmert.comparators.random_search import RandomSearch
from lpmert.comparators.simplex import NelderMead
from lpmert.comparators.tpe import Tpe
from lpmert.exact.auto import Auto
from lpmert.exact.mip import Mip
from lpmert.nbest import NBest

CASES: tuple[tuple[Dataset, float | None], ...] = (
    (datasets.asr(3), 912),
    (datasets.libri(3), 1767),
    (datasets.libri(5), 1746),
    (datasets.libri(3, 50), None),
    (datasets.generated(300, 20, 3), 734),
    (datasets.generated(20, 20, 3), None),
    (datasets.generated(8, 30, 8), 13),
    (datasets.swahili(slice(0, 8)), 4.948169),
)
SEEDS = (0, 1, 2)
TIME_LIMIT = 180.0
MOST_ROWS = 300_000
EXACT = Solve(Auto(), "auto")
GRID = Solve(Grid(), "grid")


@dataclass(frozen=True)
class Program(Solve):
    """The mixed-integer program, where it is not too large to be written down."""

    def skip(self, data: NBest, objective: Poses) -> str | None:
        """Return how many constraints there would be if they are too many."""
        del objective
        sizes = np.diff(data.offsets)
        rows = int((sizes * (sizes - 1)).sum())
        return f"{rows:,} constraints, more than {MOST_ROWS:,}" if rows > MOST_ROWS else None


MIP = Program(Mip(), "mixed-integer program (HiGHS)")
SEEDED = (
    Solve(Tpe(trials=EVALUATIONS), f"Optuna, {EVALUATIONS} trials"),
    Solve(RandomSearch(draws=EVALUATIONS), f"random, {EVALUATIONS}"),
    Solve(NelderMead(), "Nelder-Mead"),
    Solve(Och(directions="powell", restarts=20), "Powell, 20 restarts"),
    Solve(Och(directions="powell", restarts=100), "Powell, 100 restarts"),
)
SOLVERS = (EXACT, MIP, GRID, *SEEDED)


def tasks() -> Iterator[Task]:
    """Yield every case with every solver; those that draw random numbers with several seeds."""
    for dataset, optimum in CASES:
        for solver in SOLVERS:
            for seed in SEEDS if solver in SEEDED else SEEDS[:1]:
                yield Task(dataset, Loss(), solver, seed, TIME_LIMIT, optimum)


def render(rows: list[Row]) -> Iterator[Table]:
    """Yield a summary in units of grid evaluations, and a table for each case."""
    body, tables = [], []
    for dataset, _ in CASES:
        mine = find(rows, dataset=dataset.name)
        exact, grid = (next(iter(find(mine, solver=one.name)), None) for one in (EXACT, GRID))
        if exact is None or grid is None:
            continue
        unit = grid.details["parts"]["search"] / grid.counters["evaluations"]
        proof = f"{exact.seconds / unit:,.0f}" if exact.proved else f">{exact.seconds / unit:,.0f}"
        body.append(
            [
                dataset.name,
                f"{exact.counters['lists']:,}",
                f"{exact.counters['features']}",
                number(exact.loss, 7) if exact.proved else f"{number(exact.lower_bound, 7)}..{number(exact.loss, 7)}",
                seconds(exact.seconds),
                f"{1000 * unit:.3g}",
                proof,
                f"{grid.counters['evaluations']:,}",
                _above(grid, _least(mine)),
            ]
        )
        tables.append(_table(dataset, mine, unit))
    headings = (
        "lists",
        "S",
        "D",
        "optimum",
        "seconds to the proof",
        "ms an evaluation",
        "proof, in evaluations",
        "evaluations of the grid",
        "grid above the best known",
    )
    note = "An evaluation decodes all lists once, with the package's own kernel, and adds up the losses."
    yield Table("A proof in units of grid evaluations", headings, body, note)
    yield from tables


def _table(dataset: Dataset, rows: list[Row], unit: float) -> Table:
    body = []
    best = _least(rows)
    for solver in SOLVERS:
        found = find(rows, solver=solver.name)
        if not found:
            continue
        time = fmean(row.seconds for row in found)
        body.append(
            [
                solver.name,
                ", ".join(sorted({row.status.replace("_", " ") for row in found})),
                " / ".join(number(row.loss, 7) for row in found),
                " / ".join(_above(row, best) for row in found),
                number(found[0].lower_bound, 7),
                seconds(time),
                f"{time / unit:,.0f}",
                f"{sum(row.status in PROOFS for row in found)} of {len(found)}",
            ]
        )
    headings = (
        "solver",
        "status",
        "loss",
        "above the best known",
        "bound",
        "seconds",
        "in evaluations",
        "proved",
    )
    return Table(f"{dataset.name}: what each solver reaches", headings, body, left=2)


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
