"""LP-MERT on four lists, step by step: all tests of both halves and of the whole up to the first attainable one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import datasets
from benchmarks.harness import Answer, Benchmark, Objective, Solver, Task
from benchmarks.lists import loss, warm_up
from benchmarks.plots import legend
from benchmarks.rows import Row
from benchmarks.tables import Figure, Table, number, table_of
from lpmert.errors import IntArray
from lpmert.methods.lp_mert import Combination, LpMert, LpMertSearch, TwoHalves
from lpmert.model.canonical import CanonicalWeights
from lpmert.model.nbest import NBest
from lpmert.search.method import Incumbent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

N_SETS = 12
N_FEATURES = 5  # with all 14 features nearly every combination is attainable

_SWITCHES: Any = {one.name: False for one in fields(LpMert) if one.default is True}
STRICT = replace(LpMert(), **_SWITCHES)
"""A balanced tree without savings: as published, except for the objective and the kernel."""

PARTS = ("lists 1 and 2", "lists 3 and 4", "all four")


def _steps(data: NBest, objective: Objective, _seed: int, _time_limit: float) -> Answer:
    """Get the first combination of the root by LP-MERT with strict attainability, without first weights.

    The ranks in both halves and the outcome of every test of a combination are recorded.
    """
    problem = objective.problem(data)
    form = problem.canonical
    ones = CanonicalWeights(np.ones(form.n_features))
    search = LpMertSearch(STRICT, form, Incumbent(form.dearest + 1, ones, ""))
    cells: dict[tuple[int, ...], list[tuple[int, int, bool]]] = {}
    test = search.test

    def recorded(
        lists: IntArray, cost: int, positions: IntArray, halves: tuple[Combination, Combination] | None = None
    ) -> Combination | None:
        combination = test(lists, cost, positions, halves)
        if halves is not None:
            outcome = id(halves[0]), id(halves[1]), combination is not None
            cells.setdefault(tuple(lists.tolist()), []).append(outcome)
        return combination

    search.test = recorded  # type: ignore[method-assign]
    while search.root is None:
        search.advance()
    root = search.root
    if not isinstance(root, TwoHalves) or not isinstance(root.left, TwoHalves):
        raise TypeError("four lists make a tree of two levels")
    while not root.found:  # the search itself may end sooner, with an optimum that it met by chance
        root.get_next_best(search)
    steps = {}
    for stream, part in zip((root.left, root.right, root), PARTS, strict=True):
        if isinstance(stream, TwoHalves):
            left, right = ({id(one): k for k, one in enumerate(half.found)} for half in (stream.left, stream.right))
            steps[part] = [[left[a], right[b], ok] for a, b, ok in cells.get(tuple(stream.lists.tolist()), [])]
    (first,) = root.found
    details = {"steps": steps, "no_dearer": _no_dearer(form.costs, form.offsets, first.cost)}
    weights = None if first.weights is None else problem.to_caller(CanonicalWeights(first.weights))
    return Answer(weights, "optimal", form.loss_of(first.cost), dict(search.counters()), details)


def _no_dearer(costs: IntArray, offsets: IntArray, least: int) -> int:
    """Return the number of combinations of four lists that cost at most `least`."""
    one, two, three, four = np.split(costs, offsets[1:-1])
    left, right = np.add.outer(one, two).ravel(), np.sort(np.add.outer(three, four).ravel())
    return int(np.searchsorted(right, least - left, side="right").sum())


def tasks() -> Iterator[Task]:
    """Yield sets of four neighbouring lists."""
    solver = Solver("lp-mert, strict, nothing saved", _steps, lambda: warm_up(STRICT))
    for k in range(N_SETS):
        yield Task(datasets.swahili(slice(4 * k, 4 * k + 4), n_features=N_FEATURES), loss(), solver)


def render(rows: list[Row]) -> Iterator[Table | Figure]:
    """Yield the numbers of tests of each set, and the frontiers of the set with the most tests."""
    body = []
    for row in rows:
        tested = {part: len(row.details["steps"][part]) for part in PARTS}
        body.append(
            {
                "lists": row.dataset,
                "combinations": f"{row.counters['combinations']:,}",
                "optimum": number(row.loss, 6),
                "no dearer than the optimum": f"{row.details['no_dearer']:,}",
                "tested: single": f"{row.counters['tested_1']:,}",
                **{f"tested: {part}": f"{tested[part]:,}" for part in PARTS},
                "attainable: 1 and 2": f"{sum(ok for *_, ok in row.details['steps'][PARTS[0]]):,}",
                "attainable: 3 and 4": f"{sum(ok for *_, ok in row.details['steps'][PARTS[1]]):,}",
            }
        )
    note = (
        "A balanced tree and nothing saved, as published, but with strict attainability; no first weights. Without "
        "dividing, in order of loss, every combination of all four lists that is cheaper than the optimum would be "
        "tested, and some that cost as much."
    )
    yield table_of("Combinations tested for four lists", body, note)
    if rows:
        note = (
            "The set for which most was tested. Each mark is a combination tested; its place is the rank of both parts "
            "among the attainable ones, in order of loss. The search ends with the first attainable one of all four."
        )
        yield Figure("four", "Frontiers of four lists", partial(_draw, rows=rows), note, size=(10.0, 3.6))


def _draw(canvas: Canvas, rows: list[Row]) -> None:
    from matplotlib.ticker import MaxNLocator

    shown = max(rows, key=lambda row: len(row.details["steps"][PARTS[-1]]))
    panels: list[Axes] = list(canvas.subplots(1, 3))
    for axes, part in zip(panels, PARTS, strict=True):
        steps = shown.details["steps"][part]
        for outcome, colour, label in ((False, "0.75", "not attainable"), (True, "C0", "attainable")):
            points = np.array([(n + 1, m + 1) for m, n, ok in steps if ok is outcome]).reshape(-1, 2)
            axes.scatter(points[:, 0], points[:, 1], s=9, color=colour, label=label, linewidths=0)
        m, n, _ = steps[-1]
        if part == PARTS[-1]:
            axes.scatter([n + 1], [m + 1], s=90, marker="*", color="C3", label="optimum", zorder=3)
        axes.set_title(f"{part}: {len(steps):,} tested", fontsize=10)
        axes.set_xlabel("rank of the right part")
        axes.invert_yaxis()
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
    panels[0].set_ylabel("rank of the left part")
    legend(panels[-1], 8)


BENCHMARK = Benchmark(
    "four",
    "LP-MERT on four lists, step by step",
    tasks,
    render,
    source="Galley and Quirk, EMNLP 2011, Figure 4, in kind",
)
