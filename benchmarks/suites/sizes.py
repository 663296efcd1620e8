"""Seconds by number of features and lists, as in LP-MERT's Figure 6, which ends at 8 lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks import datasets
from benchmarks.harness import Benchmark, Dataset, Task, ladder
from benchmarks.lists import by_method, loss
from benchmarks.plots import one_for_each, panels
from benchmarks.rows import Row, find
from benchmarks.suites.ablation import ALL_OFF, AS_PUBLISHED, VARIANTS
from benchmarks.tables import Figure, Table, seconds
from lpmert.methods.auto import Auto
from lpmert.methods.lp_mert import LpMert

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

WIDTHS = (2, 4, 6, 8, 10, 12, 14)
SIZES = (1, 2, 4, 8, 12, 16, 32, 64, 128, 256, 500)
SOLVERS = (
    by_method(VARIANTS[AS_PUBLISHED], "lp-mert as published"),
    by_method(VARIANTS[ALL_OFF], "lp-mert, strict, nothing saved"),
    by_method(LpMert(), "lp-mert"),
    by_method(Auto(), "auto"),
)
TIME_LIMIT = 30.0


def lists(size: int, width: int) -> Dataset:
    """Return the first `size` lists with their first `width` features."""
    return datasets.swahili(slice(0, size), n_features=width)


def tasks() -> Iterator[Task]:
    """Yield more and more lists for every number of features, up to the time limit."""
    for solver in SOLVERS:
        for width in WIDTHS:
            yield from ladder(Task(lists(size, width), loss(), solver, time_limit=TIME_LIMIT) for size in SIZES)


def render(rows: list[Row]) -> Iterator[Table | Figure]:
    """Yield a table of seconds for each solver, and the figure."""
    for solver in SOLVERS:
        mine = find(rows, solver=solver.name)
        if not mine:
            continue
        body = [
            [str(size), *(_cell(find(mine, dataset=lists(size, width).name)) for width in WIDTHS)] for size in SIZES
        ]
        limit = max(row.time_limit for row in mine)
        note = (
            "The first features of Swahili translation, 100-best, 1 - sentence BLEU+1. As published: to the letter; "
            "its end counts, proved or not. Strict, nothing saved: a balanced tree, programs for strict attainability. "
            f">: no proof in {limit:g} seconds; -: not tried, as fewer lists took too long."
        )
        yield Table(f"Seconds to the proved optimum: {solver.name}", ("S", *(f"D = {d}" for d in WIDTHS)), body, note)
    note = (
        "A line ends where the next size was not proved within the time limit. The paper's Figure 6 ends at 8 lists "
        "and gives no numbers beside the curves."
    )
    yield Figure("sizes", "Seconds by size", lambda canvas: _draw(canvas, rows), note, size=(13.0, 3.8))


def _cell(found: list[Row]) -> str:
    return "-" if not found else ">" if found[0].cut_short else seconds(found[0].seconds)


def _draw(canvas: Canvas, rows: list[Row]) -> None:
    titles = [solver.name for solver in SOLVERS]
    drawn = panels(canvas, titles, "lists", "seconds to the proof", 7, legends=0, sharey=True, sharex=True)
    for name, axes in zip(titles, drawn, strict=True):
        lines = {
            f"D = {width}": [
                (size, row.seconds)
                for size in SIZES
                for row in find(rows, solver=name, dataset=lists(size, width).name)
                if not row.cut_short
            ]
            for width in WIDTHS
        }
        one_for_each(axes, lines)


BENCHMARK = Benchmark(
    "sizes",
    "Seconds by number of features and lists",
    tasks,
    render,
    source="Galley and Quirk, EMNLP 2011, Figure 6, in kind",
)
