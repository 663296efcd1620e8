"""Which hypotheses of a list can win: its hull by QuickHull against linear programs, as in LP-MERT's Figure 2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from benchmarks import datasets
from benchmarks.harness import Answer, Benchmark, Dataset, Judgement, Objective, Solver, Task, ladder
from benchmarks.plots import one_for_each, panels
from benchmarks.rows import Row, find
from benchmarks.tables import Figure, Table, mebibytes, seconds
from lpmert.core import decode
from lpmert.model.nbest import NBest
from lpmert.numeric.cone import LinOptimizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

SIZE = 100
WIDTHS = {"generated": tuple(range(2, 21)), "swahili": tuple(range(2, 15))}
TIME_LIMIT = 120.0


def _judge(data: NBest, answer: Answer) -> Judgement:
    """Count the hypotheses called extreme, and those that their weights choose if the answer has weights."""
    rows, weights = answer.weights
    details = {"extreme": len(rows)}
    if weights is not None:
        features, offsets = data.dense_features(), data.offsets
        pairs = zip(rows, weights, strict=True)
        details["shown"] = sum(int(decode(features, offsets, weights)[0] == row) for row, weights in pairs)
    return Judgement(details=details)


EXTREME = Objective("extreme hypotheses", _judge)
"""Which hypotheses of the first list are vertices of its hull; there is no loss."""


def _quick_hull(data: NBest, *_: object) -> Answer:
    """Return the vertices of the whole hull by Qhull, through scipy; it may give up for lack of precision."""
    try:
        hull = ConvexHull(data.dense_features())
    except QhullError as error:
        return Answer(([], None), "gave_up", None, {}, {"message": str(error).partition("\n")[0]})
    return Answer((sorted(hull.vertices.tolist()), None), "finished", None, {"facets": len(hull.simplices)})


def _programs(data: NBest, *_: object) -> Answer:
    """Return the hypotheses that some weights choose, and these weights, by a linear program for each."""
    optimizer, one = LinOptimizer(data.dense_features(), data.offsets), np.zeros(1, dtype=np.int64)
    found = {row: optimizer.solve((one, np.array([row]))).weights for row in range(data.n_hypotheses)}
    won = {row: weights for row, weights in found.items() if weights is not None}
    return Answer(([*won], [*won.values()]), "finished", None, {"lps": len(found)})


_SQUARE = NBest([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 4], [0] * 4)
SOLVERS = (
    Solver("QuickHull", _quick_hull, lambda: _quick_hull(_SQUARE)),
    Solver("linear programs", _programs, lambda: _programs(_SQUARE)),
)


def lists(kind: str, n_features: int) -> Dataset:
    """Return one list with this many features."""
    if kind == "generated":
        return datasets.generated(1, SIZE, n_features)
    return datasets.swahili(slice(0, 1), n_features=n_features)


def tasks() -> Iterator[Task]:
    """Yield both lists and both solvers with more and more features, up to the time limit."""
    for kind, widths in WIDTHS.items():
        for solver in SOLVERS:
            yield from ladder(Task(lists(kind, one), EXTREME, solver, time_limit=TIME_LIMIT) for one in widths)


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
    titles = [f"one list of {SIZE}, {kind}" for kind in WIDTHS]
    drawn = panels(canvas, titles, "features", "seconds", 8, sharey=True)
    for (kind, widths), axes in zip(WIDTHS.items(), drawn, strict=True):
        lines = {
            solver.name: [
                (width, row.seconds)
                for width in widths
                for row in find(rows, dataset=lists(kind, width).name, solver=solver.name, status="finished")
            ]
            for solver in SOLVERS
        }
        one_for_each(axes, lines, logarithmic="y", ordered=False)


BENCHMARK = Benchmark(
    "hull",
    "The convex hull of a list against linear programs",
    tasks,
    render,
    source="Galley and Quirk, EMNLP 2011, Figure 2, in kind",
    apart=True,
)
