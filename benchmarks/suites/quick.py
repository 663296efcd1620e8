"""Every exact method on small lists with known optima: fails if an optimum changes. Needs no other data.

At least two methods that share no search proved each optimum; those of ratios come from decoding in every direction of
the plane.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import datasets
from benchmarks.harness import Benchmark, Dataset, Objective, Task
from benchmarks.lists import by_method, loss
from benchmarks.rows import Row
from benchmarks.tables import Table, number, seconds
from lpmert.methods.auto import Auto
from lpmert.methods.cells import Cells
from lpmert.methods.choices import Choices
from lpmert.methods.direct_search import Och
from lpmert.methods.enumeration import Exhaustive, Sweep
from lpmert.methods.groups import Groups
from lpmert.methods.lp_mert import Beam, LpMert
from lpmert.methods.mip import Mip
from lpmert.model.region import Region
from lpmert.search.method import Method

TIME_LIMIT = 60.0
LOSS, BLEU, F1 = loss(), loss("bleu"), loss("f1")
POSITIVE = loss(region=Region(nonnegative=True), label="no weight below 0")
RECOGNISER = {"am": 1.0, "lm": 9.5, "words": -0.6296}
NEAR = loss(region=Region(cosine=0.999, around=RECOGNISER), label="cosine 0.999")

CASES: tuple[tuple[Dataset, Objective, float, tuple[Method, ...]], ...] = (
    (datasets.asr(2), LOSS, 979, (Sweep(), Cells(), Choices())),
    (datasets.asr(3), LOSS, 912, (Auto(), Cells(), Choices(), Och())),
    (datasets.asr(3), POSITIVE, 976, (Auto(), Choices())),
    (datasets.asr(3), NEAR, 969, (Cells(), Choices())),
    (datasets.asr(5, slice(0, 12)), LOSS, 31, (Auto(), LpMert(), Och(), Beam())),
    (datasets.generated(2000, 30, 2), LOSS, 4362, (Sweep(), Cells())),
    (datasets.generated(300, 20, 3), LOSS, 734, (Auto(), Choices())),
    (datasets.generated(8, 30, 8), LOSS, 13, (Cells(), Choices(), LpMert(), Beam())),
    (datasets.generated(6, 6, 4), LOSS, 15, (Cells(), Choices(), LpMert(), Mip(), Exhaustive(), Groups())),
    (datasets.generated(100, 2, 5), LOSS, 343, (Auto(), Cells(), Mip(), Och())),
    (datasets.generated_counts(12, 10, 2), BLEU, 0.0902684853558314, (Auto(), Cells(), Choices())),
    (datasets.f1_counts(12, 10, 2), F1, 2 / 7, (Cells(), Choices(), LpMert(), Exhaustive())),
)


def tasks() -> Iterator[Task]:
    """Yield every case with each of its methods."""
    for dataset, objective, optimum, methods in CASES:
        for one in methods:
            settings: dict[str, Any] = {"time_limit": TIME_LIMIT, "optimum": optimum, "proof": one.proves}
            yield Task(dataset, objective, by_method(one), **settings)


def render(rows: list[Row]) -> Iterator[Table]:
    """Yield one table of all rows."""
    body = [
        [
            row.dataset,
            row.objective,
            row.solver,
            row.status.replace("_", " "),
            number(row.loss),
            number(row.lower_bound),
            seconds(row.seconds),
        ]
        for row in rows
    ]
    headings = ("lists", "objective", "solver", "status", "loss", "bound", "seconds")
    yield Table("Small lists with known optima", headings, body, left=4)


BENCHMARK = Benchmark("quick", "Known optima, quickly", tasks, render, resumes=False)
