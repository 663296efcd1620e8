"""Targets of speed: how long a proof may take or how large the gap may be, case by case, and whether that is met."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from benchmarks import datasets
from benchmarks.harness import Benchmark, Dataset, Task
from benchmarks.lists import by_method, loss
from benchmarks.rows import Row, find
from benchmarks.tables import Table, number, seconds
from lpmert.methods.auto import Auto

SOLVER = by_method(Auto(), "auto")  # the default method

TIME_LIMIT = 60.0


@dataclass(frozen=True)
class Target:
    """A case and its target.

    seconds: the time in which it is to be proved; gap: instead of a proof, the gap to reach within the time limit.
    optimum: as proved elsewhere, if it was. rounds: how often the case is measured.
    """

    dataset: Dataset
    seconds: float | None = None
    gap: float | None = None
    metric: str = "loss"
    optimum: float | None = None
    rounds: int = 3

    @property
    def text(self) -> str:
        """The target in words."""
        if self.gap is not None:
            return f"gap below {self.gap:.0%}"
        return "proved" if self.seconds is None else f"proved in {self.seconds:g} s"

    def met(self, rows: list[Row]) -> bool:
        """Whether these rows meet the target; seconds are wall-clock or processor seconds, whichever are more."""
        if self.gap is not None:
            return all(row.gap is not None and row.gap < self.gap for row in rows)
        spent = max(median(row.seconds for row in rows), median(row.processor_seconds for row in rows))
        return all(row.proved for row in rows) and (self.seconds is None or spent <= self.seconds)


TARGETS = (
    Target(datasets.libri(3), 0.2, optimum=1767),
    Target(datasets.libri(4), 0.5, optimum=1758),
    Target(datasets.libri(5), 4.0, optimum=1746),
    Target(datasets.libri_characters(), 60.0, optimum=1739, rounds=1),
    Target(datasets.swahili(n_features=4), 8.0),
    Target(datasets.swahili_bleu_groups("lm+tm+length+reordering"), 1.5, metric="bleu", optimum=1 - 0.323456),
    Target(datasets.swahili_bleu_groups("lm+tm+length+distance+lexical"), metric="bleu", rounds=1),
    Target(datasets.swahili_bleu(5), metric="bleu", rounds=1),
    Target(datasets.swahili(slice(0, 16)), 10.0),
    Target(datasets.swahili(slice(0, 32), n_features=6), 3.0),
    Target(datasets.generated(400, 30, 5), 1.0),
    Target(datasets.csmt(), gap=0.25, rounds=1),
)
"""The optima were proved by prototypes that share no code with the package."""


def tasks() -> Iterator[Task]:
    """Yield every case, once for each round."""
    for target in TARGETS:
        for seed in range(target.rounds):
            limit = TIME_LIMIT if target.seconds is None else max(TIME_LIMIT, 2 * target.seconds)
            yield Task(target.dataset, loss(target.metric), SOLVER, seed, limit, target.optimum)


def table(rows: list[Row]) -> Table:
    """Return what was measured of each case, its target, and whether it is met."""
    body = []
    for target in TARGETS:
        name = target.dataset.name
        found = find(rows, dataset=name, objective=target.metric, solver=SOLVER.name)
        if not found:
            continue
        losses = [row.loss for row in found if row.loss is not None]
        bounds = [row.lower_bound for row in found if row.lower_bound is not None]
        gaps = [row.gap for row in found if row.gap is not None]
        times = (median(row.processor_seconds for row in found), median(row.seconds for row in found))
        body.append(
            [
                name,
                *(f"{found[0].counters[what]:,}" for what in ("lists", "features")),
                f"{median(row.counters.get('nodes', 0) for row in found):,.0f}",
                *map(seconds, times),
                number(max(losses, default=None), 7),
                number(min(bounds, default=None), 7),
                f"{max(gaps):.1%}" if gaps else "-",
                target.text,
                "met" if target.met(found) else "missed",
            ]
        )
    columns = ("processor s", "wall s", "loss", "bound", "gap", "target", "")
    note = (
        f"Whole calls by one thread with the default method, after compilation, at most {TIME_LIMIT:g} seconds where "
        "the target names none. Medians of three seeds, one for the long cases; losses and bounds are the worst. "
        "A target of seconds is held to the larger of both times."
    )
    return Table("Targets", ("case", "lists", "features", "nodes", *columns), body, note)


def render(rows: list[Row]) -> Iterator[Table]:
    """Yield the one table."""
    yield table(rows)


BENCHMARK = Benchmark("targets", "Targets of speed", tasks, render, tolerance=1e-6)
