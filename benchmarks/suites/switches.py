"""What each setting of `cells` saves, and what the line searches of `auto` find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import datasets
from benchmarks.harness import Benchmark, Dataset, Task
from benchmarks.lists import by_method, loss
from benchmarks.plots import bars, legend
from benchmarks.rows import Row, find
from benchmarks.tables import Figure, Table, number, seconds
from lpmert.methods.auto import Auto
from lpmert.methods.cells import Cells
from lpmert.methods.choices import Choices
from lpmert.methods.groups import Groups
from lpmert.search.method import Method

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

TIME_LIMIT = 60.0
_LEFT = 1e-3
_PALE = "Seed 0; pale: ended by the time limit."
ROUNDS = (0, 1, 2)
DEFAULTS = "defaults"
CHOICES: dict[str, Method] = {DEFAULTS: Choices()}
CELLS: dict[str, Method] = {
    DEFAULTS: Cells(),
    "simplices": Cells(shape="simplices"),
    "boxes": Cells(shape="boxes"),
    "no conflicts": Cells(conflict_lists=0),
    "simplices, no conflicts": Cells(shape="simplices", conflict_lists=0),
    "leaves of 1 list": Cells(leaf_lists=1),
    "leaves of 5 lists": Cells(leaf_lists=5),
    "leaves of 20 lists": Cells(leaf_lists=20),
    "leaves later when stalled": replace(Cells(), stalled_splits=12),
}
AUTO: dict[str, Method] = {
    DEFAULTS: Auto(),
    "no line searches beside": Auto(improving=0.0),
    "fewer of them": Auto(improving=0.2),
}
RATIOS: dict[str, Method] = {
    DEFAULTS: Cells(),
    "boxes": Cells(shape="boxes"),
    "no conflicts": Cells(conflict_lists=0),
    "boxes, no conflicts": Cells(shape="boxes", conflict_lists=0),
}


class Case(NamedTuple):
    """A search, its variants by name, the lists with their optima, the metric, and the seeds."""

    name: str
    variants: dict[str, Method]
    lists: tuple[tuple[Dataset, float | None], ...]
    metric: str = "loss"
    seeds: tuple[int, ...] = ROUNDS


PROVED = (
    Case(
        "choices",
        CHOICES,
        (
            (datasets.swahili(slice(0, 8)), 4.948169),
            (datasets.swahili(slice(8, 16)), 4.641196),
            (datasets.swahili(slice(16, 24)), 5.091451),
            (datasets.generated(100, 2, 5), 343),
        ),
    ),
    Case(
        "cells",
        CELLS,
        (
            (datasets.libri(3), 1767),
            (datasets.libri(4), 1758),
            (datasets.generated(400, 30, 4), None),
            (datasets.generated(100, 30, 5), None),
        ),
    ),
)
MANY_LISTS: dict[str, Method] = {
    DEFAULTS: Cells(),
    "no conflicts": Cells(conflict_lists=0),
}
STALLED: dict[str, Method] = {
    DEFAULTS: Cells(),
    "boxes that stall stay boxes": Cells(shape="boxes"),
    "simplices": Cells(shape="simplices"),
}
GROUPS: dict[str, Method] = {
    DEFAULTS: Groups(),
    "groups of 6 lists": Groups(size=6),
}
CASES = (
    *PROVED,
    Case("cells, many lists", MANY_LISTS, ((datasets.libri(4), 1758), (datasets.libri(5), 1746))),
    Case("cells, many boundaries in one place", STALLED, ((datasets.swahili(n_features=4), None),), seeds=ROUNDS[:1]),
    Case("cells, BLEU", RATIOS, ((datasets.swahili_bleu(4), None),), "bleu"),
    Case("auto", AUTO, ((datasets.csmt(), None), (datasets.swahili(), None)), seeds=ROUNDS[:1]),
    Case("groups", GROUPS, ((datasets.swahili(), None),), seeds=ROUNDS[:1]),
)


def tasks() -> Iterator[Task]:
    """Yield each search with each variant on lists that suit it."""
    for name, variants, cases, metric, seeds in CASES:
        for dataset, optimum in cases:
            for seed in seeds:
                for label, method in variants.items():
                    solver = by_method(method, _label(name, label))
                    yield Task(dataset, loss(metric), solver, seed, TIME_LIMIT, optimum)


def _label(name: str, variant: str) -> str:
    return f"{name}: {variant}"


def render(rows: list[Row]) -> Iterator[Table | Figure]:
    """Yield a table for each search, and seconds as bars."""
    for name, variants, cases, _, seeds in CASES:
        body = []
        for dataset, _ in cases:
            for label in variants:
                found = find(rows, dataset=dataset.name, solver=_label(name, label))
                if not found:
                    continue
                cut = any(row.cut_short for row in found)
                mark = ">" if cut else ""
                least = min(row.loss for row in found if row.loss is not None)
                bound = max((row.lower_bound for row in found if row.lower_bound is not None), default=None)
                reached = [f"({number(least, 7)})" if cut else number(least, 7), number(bound, 7) if cut else ""]
                counts = [
                    f"{mark}{median(row.counters.get(what, 0) for row in found):,.0f}" for what in ("nodes", "lps")
                ]
                spent = [median(row.details["parts"]["search"] for row in found), median(row.seconds for row in found)]
                body.append([dataset.name, label, *reached, *counts, *(f"{mark}{seconds(value)}" for value in spent)])
        note = (
            f"Medians over the seeds {', '.join(map(str, seeds))}. >: ended by the time limit of {TIME_LIMIT:g} "
            "seconds, with the best loss so far in brackets and the greatest lower bound."
        )
        yield Table(
            f"{name} with other settings",
            ("lists", "variant", "optimum", "bound", "nodes", "LPs", "search, s", "all, s"),
            body,
            note,
            left=2,
        )
    yield Figure("switches", "Seconds by variant", lambda canvas: _bars(canvas, rows), _PALE, size=(9.5, 4.6))


def _bars(canvas: Canvas, rows: list[Row]) -> None:
    from matplotlib.ticker import NullFormatter

    panels = canvas.subplots(1, len(PROVED))
    for axes, (name, variants, cases, *_) in zip(panels, PROVED, strict=True):
        groups = {
            dataset.name: {
                label: find(rows, dataset=dataset.name, solver=_label(name, label), seed=ROUNDS[0])
                for label in variants
            }
            for dataset, _ in cases
        }
        bars(axes, groups, lambda row: float(row.details["parts"]["search"]))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlim(left=_LEFT)
        axes.set_xlabel("seconds of the search")
        axes.set_title(name, fontsize=10)
        legend(axes, 7, below=True)


BENCHMARK = Benchmark("switches", "choices, cells and auto: what each setting saves", tasks, render, tolerance=1e-6)
