"""How far from the optimum restarted line searches end on small sets of lists, as in LP-MERT's Figure 5."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import datasets
from benchmarks.harness import Answer, Benchmark, Dataset, Judgement, Objective, Solver, Task
from benchmarks.lists import warm_up
from benchmarks.plots import legend
from benchmarks.rows import Row, find
from benchmarks.tables import Figure, Table, seconds, table_of
from lpmert.methods.auto import Auto
from lpmert.methods.direct_search import Och
from lpmert.model.nbest import NBest
from lpmert.model.problem import Problem
from lpmert.result import Limits
from lpmert.search.driver import solve
from lpmert.search.method import Method

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

SIZES = (1, 2, 4, 8)
RUNS = (5, 7)
N_LISTS = 500
CHUNK = 50
SECONDS_EACH = 20.0
TOLERANCE = 1e-9
PAPER_MISSES = {1: "15%", 4: "90%"}
PAPER_LARGEST = {2: 23.3, 4: 19.7, 8: 13.1}


def _judge(data: Sequence[NBest], answer: Answer) -> Judgement:
    """Return the sum of the losses of n small sets of lists, each decoded with its own weights [n, D]."""
    losses = [Problem(one).evaluate(row).loss for one, row in zip(data, answer.weights, strict=True)]
    return Judgement(sum(losses), None, {"losses": losses})


def each(method: Method, name: str) -> Solver:
    """Return a method applied to each set, one after the other, within `SECONDS_EACH`."""

    def solve_each(data: Sequence[NBest], _: Objective, seed: int, _time_limit: float) -> Answer:
        weights, bound, states = [], 0.0, []
        for one in data:
            started = time.perf_counter()
            result = solve(method, Problem(one), Limits(time_limit=SECONDS_EACH), seed=seed, started=started)
            weights.append(result.weights)
            bound += result.lower_bound or 0.0
            states.append(result.status.name.lower())
        status = states[0] if len(set(states)) == 1 else "mixed"
        proved = [state == "optimal" for state in states]
        return Answer(np.array(weights), status, bound or None, Counter(states), {"proved": proved})

    return Solver(name, solve_each, partial(warm_up, method))


EXACT = each(Auto(), "exact")
LINES = each(Och(directions="powell", restarts=20), "Powell, 20 restarts")
GREEDY = each(Och(restarts=20), "greedy coordinates, 20 restarts")
SOLVERS = (EXACT, LINES, GREEDY)


def sets(run: int, size: int, first: int) -> Dataset:
    """Return the overlapping sets of `size` lists that begin at the `CHUNK` lists from `first` on."""
    last = min(first + CHUNK, N_LISTS - size + 1)
    parts = [slice(begin, begin + size) for begin in range(first, last)]
    name = f"run{run}, sets of {size}, {first}:{last}"
    return datasets.swahili(run=run).then(name, lambda lists: [lists.restrict(part) for part in parts])


def chunks(size: int) -> Iterator[Dataset]:
    """Yield all sets of `size` lists, in chunks."""
    for run in RUNS:
        for first in range(0, N_LISTS - size + 1, CHUNK):
            yield sets(run, size, first)


def tasks() -> Iterator[Task]:
    """Yield all chunks, small sets first."""
    for size in SIZES:
        for chunk in chunks(size):
            for solver in SOLVERS:
                yield Task(chunk, Objective("loss of each set", _judge), solver, time_limit=CHUNK * SECONDS_EACH)


def render(rows: list[Row]) -> Iterator[Table | Figure]:
    """Yield the share of misses and the largest differences beside the paper's, and the sorted differences."""
    body = []
    for size in SIZES:
        for solver in (LINES, GREEDY):
            found = differences(rows, size, solver)
            if found is None:
                continue
            gaps, unproved = found
            exact, heuristic = (_seconds_each(rows, size, one) for one in (EXACT, solver))
            body.append(
                {
                    "S": str(size),
                    "line search": solver.name,
                    "sets": f"{len(gaps):,}",
                    "unproved": str(unproved),
                    "misses": f"{100 * np.mean(gaps > TOLERANCE):.1f}%",
                    "paper: misses": PAPER_MISSES.get(size, "-") if solver is LINES else "-",
                    "mean difference": f"{gaps.mean():.2f}",
                    "largest": f"{gaps.max():.1f}",
                    "paper: largest": f"{PAPER_LARGEST[size]:.1f}"
                    if size in PAPER_LARGEST and solver is LINES
                    else "-",
                    "seconds a set, exact": seconds(exact),
                    "seconds a set, line search": seconds(heuristic),
                }
            )
    note = (
        "Sets of S neighbouring lists, Swahili translation, 14 features; differences in points of mean sentence "
        "BLEU+1, 0 to 100. The sets are of 500 sentences in the lists of two runs of one tuning. Sets without a proof "
        "are left out. The paper's columns are its own, on other lists, and against Powell's method with restarts."
    )
    yield table_of("Line searches against the proved optimum of small sets", body, note, left=2)
    note = "Sets are sorted by the difference; the line of S ends where line searches find the optimum."
    yield Figure("subsets", "Differences to the proved optimum", lambda canvas: _draw(canvas, rows), note)


def differences(rows: list[Row], size: int, solver: Solver) -> tuple[Any, int] | None:
    """Return by how many points a solver misses the optimum of each set, and the number of sets without a proof."""
    gaps: list[float] = []
    unproved = 0
    for chunk in chunks(size):
        exact, other = (find(rows, dataset=chunk.name, solver=one.name) for one in (EXACT, solver))
        if not (exact and other):
            continue
        best_of = exact[0].details
        for theirs, best, proved in zip(other[0].details["losses"], best_of["losses"], best_of["proved"], strict=True):
            if proved:
                gaps.append(100.0 * (theirs - best) / size)
            else:
                unproved += 1
    return (np.array(gaps), unproved) if gaps else None


def _seconds_each(rows: list[Row], size: int, solver: Solver) -> float:
    mine = [row for chunk in chunks(size) for row in find(rows, dataset=chunk.name, solver=solver.name)]
    return sum(row.seconds for row in mine) / sum(len(row.details["losses"]) for row in mine)


def _draw(canvas: Canvas, rows: list[Row]) -> None:
    axes = canvas.subplots()
    for place, size in enumerate(SIZES):
        for solver, style in ((LINES, "-"), (GREEDY, "--")):
            found = differences(rows, size, solver)
            if found is not None:
                gaps = np.sort(found[0])[::-1]
                ranks = 100.0 * (np.arange(len(gaps)) + 0.5) / len(gaps)
                shown = gaps > TOLERANCE
                axes.plot(ranks[shown], gaps[shown], style, color=f"C{place}", label=f"S = {size}, {solver.name}")
    axes.set_xlabel("per cent of the sets")
    axes.set_ylabel("points of BLEU+1 below the optimum")
    axes.set_xlim(0, 100)
    axes.set_ylim(bottom=0)
    legend(axes, 7)
    axes.grid(alpha=0.3)


BENCHMARK = Benchmark(
    "subsets",
    "Line searches against the optimum of small sets",
    tasks,
    render,
    source="Galley and Quirk, EMNLP 2011, Figure 5, in kind",
)
