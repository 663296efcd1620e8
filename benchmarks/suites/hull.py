"""Which hypotheses of a list can win: its hull by QuickHull against linear programs, as in LP-MERT's Figure 2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from benchmarks import datasets
from benchmarks.harness import Answer, Benchmark, Dataset, Judgement, Solver, Task, Unlimited, Unprepared
from benchmarks.plots import legend, one_for_each
from benchmarks.rows import Row, find
from benchmarks.tables import Figure, Table, mebibytes, seconds
from lpmert.core import decode
from lpmert.errors import FloatArray, IntArray
from lpmert.model.nbest import NBest
from lpmert.numeric.lp import LinOptimizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

SIZE = 100
WIDTHS = {"generated": tuple(range(2, 21)), "swahili": tuple(range(2, 15))}
TIME_LIMIT = 120.0


@dataclass(frozen=True)
class Extreme(Unprepared):
    """Which hypotheses of the first list are vertices of its hull; there is no loss."""

    name: str = "extreme hypotheses"

    def judge(self, data: NBest, answer: Answer) -> Judgement:
        """Count the rows, and those that their weights choose if the answer has weights."""
        details: dict[str, object] = {"extreme": len(answer.details["rows"])}
        if answer.weights is not None:
            features, offsets = data.dense_features(), data.offsets
            pairs = zip(answer.details["rows"], answer.weights, strict=True)
            details["shown"] = sum(int(decode(features, offsets, weights)[0] == row) for row, weights in pairs)
        return Judgement(details=details)


@dataclass(frozen=True)
class QuickHull(Unlimited):
    """The whole hull by Qhull, through scipy."""

    name: str = "QuickHull"

    def warm_up(self) -> None:
        """Compute the hull of a square."""
        ConvexHull([[0, 0], [0, 1], [1, 0], [1, 1]])

    def solve(self, data: NBest, _objective: Extreme, _seed: int, _time_limit: float) -> Answer:
        """Return the vertices of the hull; Qhull may give up for lack of precision."""
        try:
            hull = ConvexHull(data.dense_features())
        except QhullError as error:
            return Answer(None, "gave_up", None, {}, {"rows": [], "message": str(error).partition("\n")[0]})
        return Answer(None, "finished", None, {"facets": len(hull.simplices)}, {"rows": sorted(hull.vertices.tolist())})


@dataclass(frozen=True)
class Programs(Unlimited):
    """One linear program for each hypothesis."""

    name: str = "linear programs"

    def warm_up(self) -> None:
        """Solve a square."""
        self._extreme(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), np.array([0, 4]))

    def solve(self, data: NBest, _objective: Extreme, _seed: int, _time_limit: float) -> Answer:
        """Return the hypotheses that some weights choose, and these weights."""
        return self._extreme(data.dense_features(), data.offsets)

    def _extreme(self, features: FloatArray, offsets: IntArray) -> Answer:
        optimizer = LinOptimizer(features, offsets)
        found = [(row, optimizer.solve((np.zeros(1, dtype=np.int64), np.array([row])))) for row in range(len(features))]
        rows = [row for row, answer in found if answer.weights is not None]
        weights = np.array([answer.weights for _, answer in found if answer.weights is not None])
        return Answer(weights, "finished", None, {"lps": len(found)}, {"rows": rows})


SOLVERS: tuple[Solver, ...] = (QuickHull(), Programs())


def lists(kind: str, n_features: int) -> Dataset:
    """Return one list with this many features."""
    if kind == "generated":
        return datasets.generated(1, SIZE, n_features)
    return datasets.swahili(slice(0, 1), n_features=n_features)


def tasks() -> Iterator[Task]:
    """Yield both lists and both solvers with more and more features, up to the time limit."""
    for kind, widths in WIDTHS.items():
        for solver in SOLVERS:
            last = None
            for width in widths:
                task = Task(lists(kind, width), Extreme(), solver, time_limit=TIME_LIMIT, easier=last)
                last = task.key
                yield task


def render(rows: list[Row]) -> Iterator[Table | Figure]:
    """Yield both solvers side by side for each list, and seconds against the number of features."""
    for kind, widths in WIDTHS.items():
        body = []
        for width in widths:
            found = [find(rows, dataset=lists(kind, width).name, solver=solver.name) for solver in SOLVERS]
            if any(found):
                hull, programs = (one[0] if one else None for one in found)
                body.append([str(width), *_cells(hull, "facets"), *_cells(programs, None)])
        headings = ("D", "QuickHull: vertices", "facets", "seconds", "MiB", "programs: vertices", "seconds", "MiB")
        note = (
            f"{SIZE} hypotheses. >: ended after so many seconds; -: not tried, as fewer features took too long; "
            "gave up: Qhull did, for lack of precision. The programs leave out hypotheses that are identical to an "
            "earlier one or only tie with others; Qhull may count them. Those that the programs name are chosen "
            f"by the weights found for them: {_shown(rows, kind)}."
        )
        if body:
            yield Table(f"Extreme hypotheses of one list, {kind}", headings, body, note)
    note = "The paper's Figure 2 draws the same comparison on its own lists, and gives no numbers beside the curves."
    yield Figure("hull", "Seconds by number of features", lambda canvas: _draw(canvas, rows), note, size=(9.0, 3.8))


def _shown(rows: list[Row], kind: str) -> str:
    """Return how many of the vertices found by programs are chosen by their weights."""
    found = [
        row for width in WIDTHS[kind] for row in find(rows, dataset=lists(kind, width).name, solver="linear programs")
    ]
    return f"{sum(row.details['shown'] for row in found):,} of {sum(row.details['extreme'] for row in found):,}"


def _cells(row: Row | None, counter: str | None) -> list[str]:
    if row is None or row.cut_short or row.status == "gave_up":
        time = "-" if row is None else "gave up" if row.status == "gave_up" else f">{seconds(row.seconds)}"
        return ["-", *(["-"] if counter else []), time, "-"]
    counted = [f"{row.counters[counter]:,}"] if counter else []
    return [str(row.details["extreme"]), *counted, seconds(row.seconds), mebibytes(row.peak_bytes)]


def _draw(canvas: Canvas, rows: list[Row]) -> None:
    panels = canvas.subplots(1, len(WIDTHS), sharey=True)
    for axes, (kind, widths) in zip(panels, WIDTHS.items(), strict=True):
        lines = {
            solver.name: [
                (width, row.seconds)
                for width in widths
                for row in find(rows, dataset=lists(kind, width).name, solver=solver.name, status="finished")
            ]
            for solver in SOLVERS
        }
        one_for_each(axes, lines, logarithmic="y", ordered=False)
        axes.set_title(f"one list of {SIZE}, {kind}", fontsize=10)
        axes.set_xlabel("features")
        legend(axes, 8)
    panels[0].set_ylabel("seconds")


BENCHMARK = Benchmark(
    "hull",
    "The convex hull of a list against linear programs",
    tasks,
    render,
    source="Galley and Quirk, EMNLP 2011, Figure 2, in kind",
    apart=True,
)
